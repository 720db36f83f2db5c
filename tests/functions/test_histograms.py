"""Quantiles of histograms and bands: coverage, constants, and the same by other routes."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from speed import gain

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError
from dpinfer.functions import cdf_bands, histogram_quantile_confint

RNG = np.random.default_rng(8)
COUNTS = np.rint(3995 * RNG.dirichlet(np.linspace(12, 2, 40))).astype(int)
LAW = dpi.Gaussian(sigma=60.0)
SMALL = dpi.Geometric(scale=3.0)


def bins_of(found):
    """Return the sets of bins that are kept."""
    sets = []
    for text in np.ravel(np.asarray(found.kept)):
        runs = (run.split("-") for run in text.split(", "))
        sets.append({k for run in runs for k in range(int(run[0]), int(run[-1]) + 1)})
    return sets


def bin_of(counts, p):
    return int((np.cumsum(counts) >= p * np.sum(counts)).argmax())


@pytest.mark.thinned("known", "p", every=2)
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("p", [0.5, 0.9])
def test_sets_hold_the_bin(known, p):
    """Of 2,000 at level 0.95, 1,855 or more: fewer by chance in 1 of 10⁵ if just 95 % do."""
    y = COUNTS + LAW.rvs((2000, 40), rng=1)
    total = COUNTS.sum() if known else None
    found = histogram_quantile_confint(y, p, total=total, mechanism=LAW)
    truth = bin_of(COUNTS, p)
    assert sum(truth in kept for kept in bins_of(found)) >= 1855
    assert (np.asarray(found.lower) <= found.estimate).all()
    assert [len(kept) for kept in bins_of(found)] == list(found.bins)
    assert np.mean(found.plug_in == truth) < 0.7


def test_sets_by_brute_force():
    y, total, p, alpha = COUNTS[:6] + SMALL.rvs(6, rng=2), int(COUNTS[:6].sum()), 0.5, 0.1
    found = histogram_quantile_confint(y, p, mechanism=SMALL, alpha=alpha)
    # the law of the sum of six such noises, by convolution
    e = np.arange(-120, 121)
    mass = SMALL.pmf(e)
    whole = mass
    for _ in range(5):
        whole = np.convolve(whole, mass)
    tail = whole[::-1].cumsum()[::-1]
    q = 0.5 * (int((tail <= alpha / 2).argmax()) - 1 - 720)  # P(error > q) <= alpha / 2
    d = np.cumsum(y) - 0.5 * y.sum()
    kept = {k for k in range(6) if (k == 5 or d[k] >= -q) and (k == 0 or d[k - 1] < q)}
    assert bins_of(found) == [kept]
    known = histogram_quantile_confint(y, p, total=total, mechanism=SMALL, alpha=alpha)
    assert known.bins <= found.bins


def test_edges_gaps_and_labels():
    labels = pd.MultiIndex.from_product([["n", "s"], range(4)], names=["area", "bin"])
    values = pd.Series([500, 1, 2, 498, 400, 200, 900, 300], labels)
    edges = [-np.inf, 10, 20, 30, np.inf]
    found = histogram_quantile_confint(values, by="area", edges=edges, mechanism=SMALL)
    assert found["s"].lower == 20
    assert found["s"].upper == 30
    assert list(found.kept.index) == ["n", "s"]
    assert found["n"].bins >= 3
    assert list(found.summary_frame().columns[-3:]) == ["kept", "bins", "plug_in"]
    # noise that turns the cumulative counts back leaves a gap
    odd = histogram_quantile_confint([50, 40, -80, 40, 30], mechanism=dpi.Geometric(scale=2.0))
    assert odd.kept == "0, 4" or "," in str(odd.kept)
    assert "gaps" in odd.notes[1]


def test_a_total_by_combination_is_that_of_the_bridge():
    release = dpi.Release.from_tables(
        [pd.Series(COUNTS[:6] + 0.5, pd.Index(list("abcdef"), name="bin")), COUNTS[:6].sum()],
        mechanism=[dpi.Laplace(scale=9.0), dpi.Exact()],
    )
    fit = dpi.combine(release)
    direct = histogram_quantile_confint(
        COUNTS[:6] + 0.5, total=COUNTS[:6].sum(), mechanism=dpi.Laplace(scale=9.0)
    )
    by_fit = histogram_quantile_confint(fit, by=list("abcdef"), total=COUNTS[:6].sum())
    assert str(histogram_quantile_confint(fit, by=list("abcdef")).kept) == str(direct.kept)
    assert str(np.ravel(by_fit.kept)[0]) == str(direct.kept)
    band = cdf_bands(fit, by=list("abcdef"), total=COUNTS[:6].sum(), rng=1)
    plain = cdf_bands(
        COUNTS[:6] + 0.5, total=COUNTS[:6].sum(), mechanism=dpi.Laplace(scale=9.0), rng=2
    )
    np.testing.assert_allclose(band.estimate, plain.estimate, atol=1e-9)
    np.testing.assert_allclose(band.upper, plain.upper, atol=0.003)


def test_constants_of_the_bands():
    """Those of a walk of 40 steps and of its bridge; 20,000 draws miss by 2 % in 1 of 10⁷."""
    flat = np.full(40, 1e5) + 0.5
    unit = 60.0 * np.sqrt(40.0)
    for total, constant in ((None, 2.138), (40 * 100000.5, 1.272)):
        band = cdf_bands(
            flat, total=total, scale="count", mechanism=LAW, rng=1, reps=20000, alpha=0.05
        )
        reach = (band.upper - band.estimate)[20] / unit
        assert reach == pytest.approx(constant, rel=0.02)


@pytest.mark.thinned("scale", "known", every=2)
@pytest.mark.parametrize("scale", ["share", "count"])
@pytest.mark.parametrize("known", [False, True])
def test_bands_cover_together(known, scale):
    """Of 1,000 at level 0.9, 840 or more: fewer by chance in 1 of 10⁶, with shared draws."""
    y = COUNTS + SMALL.rvs((1000, 40), rng=5)
    total = COUNTS.sum() if known else None
    band = cdf_bands(y, total=total, scale=scale, mechanism=SMALL, alpha=0.1, rng=6)
    truth = COUNTS.cumsum() / (COUNTS.sum() if scale == "share" else 1)
    inside = ((band.lower <= truth + 1e-12) & (truth <= band.upper + 1e-12)).all(axis=1)
    assert inside.sum() >= 840
    assert (np.diff(band.lower, axis=1) >= 0).all()
    assert (np.diff(band.upper, axis=1) >= 0).all()
    assert band.simultaneous


def test_without_noise():
    found = histogram_quantile_confint(COUNTS, mechanism=dpi.Exact())
    assert found.bins == 1
    assert int(str(found.kept)) == bin_of(COUNTS, 0.5)
    band = cdf_bands(COUNTS, mechanism=dpi.Exact())
    np.testing.assert_allclose(band.lower, COUNTS.cumsum() / COUNTS.sum(), rtol=1e-12)
    np.testing.assert_allclose(band.upper, band.lower, rtol=1e-12)


@pytest.mark.parametrize("function", [histogram_quantile_confint, partial(cdf_bands, rng=1)])
def test_many_areas_are_quicker_than_one_by_one(function):
    y = RNG.poisson(30, (1000, 50))
    assert gain(lambda some: function(some, mechanism=SMALL), y) > 5


REFUSED = {
    "p": {"p": 1.0},
    "one bin": {"counts": [3]},
    "edges": {"edges": [0, 1]},
    "edges fall": {"edges": [0, 2, 1, 3]},
    "total": {"total": 0},
    "totals": {"total": [3, 4]},
    "a threshold": {"counts": dpi.Release([3, 4], mechanism=SMALL, threshold=0), "mechanism": None},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    call = {"counts": [3, 8, 1], "mechanism": SMALL} | REFUSED[name]
    with pytest.raises(InvalidParameterError):
        histogram_quantile_confint(**call)
    call.pop("p", None)
    if not name.startswith("edges") and name != "p":
        with pytest.raises(InvalidParameterError):
            cdf_bands(**call)
    with pytest.raises(InvalidParameterError, match="reps"):
        cdf_bands([3, 8], mechanism=SMALL, reps=18)


def test_estimates_of_distributions_are_within_their_bands():
    found = cdf_bands([-2, 5, 30.0], total=30, mechanism=dpi.Geometric(scale=2.0), rng=1)
    estimate = np.asarray(found.estimate)
    assert ((found.lower <= estimate) & (estimate <= found.upper)).all()
