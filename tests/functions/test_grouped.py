"""Inequality of incomes by bracket: enumeration, coverage, refusals."""

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError
from dpinfer.functions import grouped_gini_confint, grouped_lorenz_bands

EDGES = np.array([0.0, 1.0, 3.0, 4.0, 8.0])
COUNTS = np.array([1, 2, 1, 1])
FIFTHS = np.arange(1, 6) / 5


@pytest.fixture(scope="module")
def incomes():
    """All incomes of five persons on grids within their brackets, in increasing order."""
    places = [np.linspace(*EDGES[k : k + 2], 7) for k in range(4) for _ in range(COUNTS[k])]
    found = np.array(np.meshgrid(*places, indexing="ij")).reshape(5, -1).T
    return np.sort(found[found.sum(axis=1) > 0], axis=1)


def gini(x):
    return (
        (2 * np.arange(1, x.shape[-1] + 1) - x.shape[-1] - 1) @ x.T / (x.shape[-1] * x.sum(axis=-1))
    )


def test_bounds_are_those_of_all_incomes(incomes):
    """Persons are whole, so that the largest coefficient of five is 0.0002 below the bound."""
    found = grouped_gini_confint(COUNTS, EDGES, mechanism=dpi.Exact())
    all_of = gini(incomes)
    assert found.least == pytest.approx(all_of.min(), abs=1e-12)
    assert all_of.max() <= found.most < all_of.max() + 0.0003
    assert list(found) == [found.least, found.most] == [found.plug_in_least, found.plug_in_most]
    curves = incomes.cumsum(axis=1) / incomes.sum(axis=1, keepdims=True)
    band = grouped_lorenz_bands(COUNTS, EDGES, points=FIFTHS, mechanism=dpi.Exact())
    np.testing.assert_allclose(band.least, curves.min(axis=0), atol=1e-12)
    np.testing.assert_allclose(band.most, curves.max(axis=0), atol=1e-12)
    # half of the bracket of two persons at each end is what whole persons can do
    even = grouped_gini_confint(2 * COUNTS, EDGES, mechanism=dpi.Exact())
    assert even.most == pytest.approx(found.most, rel=1e-12)


def test_a_last_bracket_without_limit(incomes):
    open_ended = np.append(EDGES[:-1], np.inf)
    found = grouped_gini_confint(COUNTS, open_ended, mechanism=dpi.Exact())
    assert found.most == 1.0
    assert found.least == pytest.approx(gini(incomes).min(), abs=1e-12)
    rich = grouped_gini_confint([1, 1, 1, 97], open_ended, mechanism=dpi.Exact())
    assert rich.least == pytest.approx(gini(np.array([1.0, 3.0, *[4.0] * 98])), rel=1e-12)
    band = grouped_lorenz_bands(COUNTS, open_ended, mechanism=dpi.Exact(), points=[0.9, 0.99, 1])
    assert list(band.least) == [0.0, 0.0, 1.0]
    assert list(band.most) == pytest.approx([2.6 / 3.0, 2.96 / 3.0, 1.0])
    none = grouped_gini_confint([1, 2, 1, 0], open_ended, mechanism=dpi.Exact())
    assert none.most == grouped_gini_confint([1, 2, 1], EDGES[:-1], mechanism=dpi.Exact()).most


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("law", [dpi.Geometric(scale=4.0), dpi.Gaussian(sigma=8.0)], ids=repr)
def test_they_cover(law, known):
    """Of 400 at level 0.8 at least 250: fewer by chance in 1 of 10¹⁴; and of laws of incomes.

    Draws are shared by all areas, which moves the level of one call by 0.004.
    """
    counts, rng = np.array([60, 90, 40, 12]), np.random.default_rng(3)
    y = counts + law.rvs((400, 4), rng=rng)
    common = {"mechanism": law, "total": counts.sum() if known else None, "alpha": 0.2, "rng": 1}
    truth = grouped_gini_confint(counts, EDGES, mechanism=dpi.Exact())
    found = grouped_gini_confint(y, EDGES, **common)
    held = (found.lower <= truth.least + 1e-12) & (truth.most - 1e-12 <= found.upper)
    assert held.sum() >= 250
    assert ((found.lower <= found.least) & (found.most <= found.upper)).all()
    one = grouped_lorenz_bands(counts, EDGES, mechanism=dpi.Exact())
    band = grouped_lorenz_bands(y, EDGES, **common)
    low, high = (np.reshape(end, (400, 10)) for end in band)
    held = (low <= one.least.to_numpy() + 1e-12) & (one.most.to_numpy() - 1e-12 <= high)
    assert held.all(axis=1).sum() >= 250
    places = [np.linspace(*EDGES[k : k + 2], n) for k, n in enumerate(counts)]
    assert found.contains(gini(np.concatenate(places))).sum() >= 380


def test_areas_by_label_and_drawing():
    pytest.importorskip("matplotlib").use("Agg")
    index = pd.MultiIndex.from_product([["n", "s"], range(4)], names=["area", "bracket"])
    counts = pd.Series([60, 90, 40, 12, 30, 20, 90, 40], index)
    law = dpi.Geometric(scale=2.0)
    band = grouped_lorenz_bands(counts, EDGES, by="area", mechanism=law, rng=1)
    assert band.labels.names == ["area", "share of persons"]
    plain = grouped_lorenz_bands(counts.to_numpy()[4:], EDGES, mechanism=law, rng=1)
    np.testing.assert_allclose(band["s"].least, plain.least)
    axes = dpi.plotting.plot_lorenz(plain)
    assert [text.get_text() for text in axes.get_legend().get_texts()][1] == "bounds"
    assert grouped_gini_confint(counts, EDGES, by="area", mechanism=law).labels.tolist() == [
        "n",
        "s",
    ]


REFUSED = {
    "edges below 0": {"edges": [-1, 1, 3, 4, 8]},
    "edges": {"edges": [0, 1, 3, 4]},
    "infinite": {"edges": [0, 1, np.inf, np.inf, np.inf]},
    "points": {"points": [0.5, 0.2]},
    "a point": {"points": [0.0, 0.2]},
    "reps": {"reps": 3},
    "nobody": {"counts": [0, 0, 0, 0], "mechanism": dpi.Exact()},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    call = {"counts": COUNTS, "edges": EDGES, "mechanism": dpi.Geometric(scale=1.0)}
    call |= REFUSED[name]
    with pytest.raises(InvalidParameterError):
        grouped_lorenz_bands(**call)
    if call.pop("points", None) is None:
        with pytest.raises(InvalidParameterError):
            grouped_gini_confint(**call)
