"""Shares of the largest cells and Lorenz curves: coverage, brute force, refusals."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from speed import gain

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError
from dpinfer.functions import lorenz_bands, top_share_confint

COUNTS = np.array([61, 12, 33, 85, 8, 47, 29, 90, 3, 22, 51, 70])
EQUAL = np.full(12, 30)
SCALES = np.linspace(1.0, 8.0, 12)


def laws(repeats):
    return {
        "geometric": dpi.Geometric(scale=2.0),
        "Gaussian": dpi.Gaussian(sigma=6.0),
        "of each cell": dpi.Laplace(scale=np.tile(SCALES, (repeats, 1))),
    }


@pytest.mark.thinned("law", "known", "counts", every=2)
@pytest.mark.parametrize("law", laws(1))
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("counts", [COUNTS, EQUAL], ids=["unequal", "equal"])
def test_both_are_covered(law, known, counts):
    """At level 0.9, 81 % of 300 or 73 % of 60: fewer by chance in 1 of 10⁶ at most."""
    many = 60 if law == "of each cell" else 300
    least = 44 if law == "of each cell" else 243
    noise = laws(many)[law]
    y = counts + noise.rvs((many, 12), rng=1)
    common = {"total": counts.sum() if known else None, "mechanism": noise, "alpha": 0.1, "rng": 2}
    share = np.sort(counts)[-3:].sum() / counts.sum()
    found = top_share_confint(y, 3, **common)
    assert found.contains(share).sum() >= least
    assert found.estimate.mean() > share - 0.01
    band = lorenz_bands(y, **common)
    curve = np.sort(counts).cumsum() / counts.sum()
    inside = ((band.lower <= curve + 1e-9) & (curve <= band.upper + 1e-9)).all(axis=1)
    assert inside.sum() >= least
    assert (np.diff(band.upper, n=2, axis=1) >= -1e-9).all()
    assert (np.diff(band.lower, axis=1) >= 0).all()


def test_cells_chosen_beforehand_raise_the_lower_end():
    noise = dpi.DiscreteGaussian(sigma=15.0)
    y = COUNTS + noise.rvs((200, 12), rng=1)
    largest = np.isin(np.arange(12), np.argsort(COUNTS)[-3:])
    common = {"total": COUNTS.sum(), "mechanism": noise, "rng": 1}
    plain = top_share_confint(y, 3, **common)
    sharper = top_share_confint(y, 3, chosen=np.tile(largest, (200, 1)), **common)
    assert sharper.lower.mean() > plain.lower.mean()
    np.testing.assert_allclose(sharper.upper, plain.upper)
    wrong = top_share_confint(y, 3, chosen=np.tile(~largest & (COUNTS < 20), (200, 1)), **common)
    share = np.sort(COUNTS)[-3:].sum() / COUNTS.sum()
    assert wrong.contains(share).mean() > 0.9


def test_points_are_those_of_the_errors():
    """Order statistics of 9,999 draws are within 6 % of those of other ones but in 1 of 10⁷."""
    noise = dpi.Laplace(scale=2.0)
    total = float(COUNTS.sum())
    found = top_share_confint(COUNTS + 0.5, 3, total=total, mechanism=noise, reps=9999, rng=1)
    e = np.random.default_rng(5).laplace(scale=2.0, size=(40000, 12))
    e -= e.mean(axis=1, keepdims=True)
    up = np.quantile(-e[:, :3].sum(axis=1), 0.975) / total
    down = np.quantile(np.sort(e, axis=1)[:, -3:].sum(axis=1), 0.975) / total
    assert found.upper - found.estimate == pytest.approx(up, rel=0.06)
    assert found.estimate - found.lower == pytest.approx(down, rel=0.06)
    # the counts first moved to add up to the total, by 0.5 each
    assert found.estimate == pytest.approx(np.sort(COUNTS)[-3:].sum() / total, rel=1e-12)


def test_without_noise_and_by_label():
    labels = pd.MultiIndex.from_product([["n", "s"], range(6)], names=["area", "cell"])
    values = pd.Series(COUNTS, labels)
    found = top_share_confint(values, 2, by="area", mechanism=dpi.Exact())
    parts = np.sort(COUNTS.reshape(2, 6), axis=1)
    shares = parts[:, -2:].sum(axis=1) / parts.sum(axis=1)
    for column in (found.estimate, found.lower, found.upper, found.plug_in):
        np.testing.assert_allclose(column, shares, rtol=1e-12)
    band = lorenz_bands(values, by="area", mechanism=dpi.Exact())
    curve = (parts.cumsum(axis=1) / parts.sum(axis=1)[:, None]).ravel()
    np.testing.assert_allclose(band.lower, curve, rtol=1e-12)
    np.testing.assert_allclose(band.upper, curve, rtol=1e-12)
    assert band.labels.names == ["area", "share of cells"]
    assert lorenz_bands(COUNTS, mechanism=dpi.Exact()).labels.name == "share of cells"


@pytest.mark.parametrize("function", [partial(top_share_confint, k=5), lorenz_bands])
def test_many_areas_are_quicker_than_one_by_one(function):
    y = np.random.default_rng(1).poisson(30, (700, 50))
    assert gain(lambda some: function(some, mechanism=dpi.Geometric(scale=3.0), rng=1), y) > 5


REFUSED = {
    "k": {"k": 12},
    "one cell": {"values": [3], "k": 1},
    "chosen": {"chosen": np.ones(12)},
    "chosen values": {"chosen": np.full(12, 2)},
    "reps": {"reps": 99},
    "total": {"total": 0},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    call = {"values": COUNTS, "k": 3, "mechanism": dpi.Geometric(scale=2.0)} | REFUSED[name]
    with pytest.raises(InvalidParameterError):
        top_share_confint(**call)
    if name in ("one cell", "reps", "total"):
        call.pop("k")
        with pytest.raises(InvalidParameterError):
            lorenz_bands(**call)


def test_facts_that_contradict_counts_without_noise_are_refused():
    with pytest.raises(InvalidParameterError, match="total must be the sum"):
        top_share_confint([90, 40, 22, 18, 5], 2, total=10, mechanism=dpi.Exact(), rng=1)
    counts = np.array([[30.0, 55, 12], [40, 20, 35]])
    with pytest.raises(InvalidParameterError, match="chosen must be"):
        top_share_confint(
            counts, 1, mechanism=dpi.Geometric(scale=1.0), rng=1, chosen=np.zeros((3, 2), bool)
        )


def test_areas_without_counts_have_every_share():
    law = dpi.Geometric(scale=1.0)
    for y in ([-9, -12, -7, -8], [0, 0, 0, 0]):
        found = top_share_confint([y, [30, 2, 5, 9]], 1, mechanism=law, rng=1)
        assert list(found[0]) == [0.25, 1.0]
        assert found[1].lower > 0.25
        band = lorenz_bands([y, [30, 2, 5, 9]], mechanism=law, rng=1)
        np.testing.assert_allclose(band.lower[0], [0, 0, 0, 1])
        np.testing.assert_allclose(band.upper[0], [0.25, 0.5, 0.75, 1])
        assert ("in 1 of 2 areas" in found.notes[-1]) == (y[0] < 0)
    with pytest.raises(InvalidParameterError, match="a total of 0 mean nothing"):
        top_share_confint([0, 0, 0], 1, mechanism=dpi.Exact())
    with pytest.raises(InvalidParameterError, match="a total of 0 mean nothing"):
        lorenz_bands([0, 0, 0], mechanism=dpi.Exact())
