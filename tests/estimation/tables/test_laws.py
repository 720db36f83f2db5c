"""Intervals and p-values of tables by the laws of their errors."""

import numpy as np
import pytest

from dpinfer.estimation import NoisyMarginal, combine_marginals
from dpinfer.mechanisms import DiscreteGaussian, Exact, Geometric, Laplace, WeightedSum
from dpinfer.queries import Domain

DOMAIN = Domain({"sex": ["F", "M"], "age": ["a", "b", "c"]})
PARENT = [-1, 0, 0, 1, 1, 2, 2, 2]
MEASURED = {
    (): (Exact(), [0]),
    "age": (Laplace(scale=1.0), [0, 1, 2, 3, 5, 6, 7]),
    "sex": (Geometric(scale=2.0), list(range(8))),
    ("age", "sex"): (DiscreteGaussian(sigma=3.0), [0, 1, 3, 4, 5, 6, 7]),
}


SHAPES = {(): (), "age": (3,), "sex": (2,), ("age", "sex"): (3, 2)}


def combined(values, **options):
    given = [
        NoisyMarginal(names, values[names], law, units=units)
        for names, (law, units) in MEASURED.items()
    ]
    return combine_marginals(given, PARENT, domain=DOMAIN, **options)


def impulses(ask):
    """Weights of all noisy values in what is asked for: the answers to one value that is 1."""
    zero = {names: np.zeros((len(MEASURED[names][1]), *SHAPES[names])) for names in SHAPES}
    weights, laws = [], []
    for names, values in zero.items():
        for cell in np.ndindex(values.shape):
            if MEASURED[names][0] == Exact():
                continue
            one = {other: found.copy() for other, found in zero.items()}
            one[names][cell] = 1.0
            weights.append(float(ask(combined(one), one)))
            laws.append(MEASURED[names][0])
    return WeightedSum(weights, laws)


def drawn(seed):
    rng = np.random.default_rng(seed)
    return {
        names: np.asarray(law.rvs((len(units), *SHAPES[names]), rng=rng), dtype=float)
        for names, (law, units) in MEASURED.items()
    }


def test_cells_have_the_laws_of_their_weights():
    fit = combined(drawn(1))
    intervals = fit.conf_int("age", alpha=0.1)
    assert (intervals.method, intervals.notes) == ("exact", ())
    half = (intervals.upper - intervals.lower) / 2
    law = impulses(lambda one, _: one.marginal("age", [4])[0, 1])
    np.testing.assert_allclose(half[4], float(law.isf(0.05)), rtol=1e-9)
    # the root's cells: all of one law, which is not that of leaves
    assert np.unique(half[0]).size == 1
    assert half[0, 0] != half[4, 0]
    some = fit.conf_int("age", [4], alpha=0.1)
    np.testing.assert_array_equal((some.upper - some.lower) / 2, half[[4]])
    assert fit.summary_frame("age").attrs["method"] == "exact"
    bound = fit.conf_int("age", alpha=0.1, method="bound")
    assert (bound.upper - bound.lower >= intervals.upper - intervals.lower).all()
    normal = fit.conf_int("age", alpha=0.1, method="asymptotic")
    assert "covers 0." in normal.notes[0]


def test_contrasts_have_the_laws_of_their_weights():
    coefficients = [1.0, -1.0, 0.0, 2.0, 0.0, 0.0]
    found = combined(drawn(2)).contrast(2, coefficients)
    lower, upper = found.conf_int(0.1)
    law = impulses(lambda one, _: one.contrast(2, coefficients).estimate)
    assert float(found.std_err) == pytest.approx(float(law.std), rel=1e-9)
    assert float(upper - lower) / 2 == pytest.approx(float(law.isf(0.05)), rel=1e-9)
    assert "bound" in found.conf_int(0.1, "bound").notes[0]


def test_residuals_have_the_laws_of_their_weights():
    values = drawn(3)
    values["age"][4, 1] += 30.0  # unit 5
    fit = combined(values)
    worst = fit.disagreements(2)
    assert worst.attrs["method"] == "exact"
    assert worst.index[0] == (5, "*", "b")
    law = impulses(lambda one, at: at["age"][4, 1] - one.marginal("age", [5])[0, 1])
    assert float(law.std) == pytest.approx(worst["std_err"].iloc[0], rel=1e-9)
    exact = 2.0 * float(law.cdf(-abs(worst["residual"].iloc[0])))
    assert worst["pvalue"].iloc[0] == pytest.approx(exact, rel=1e-6)


def test_tables_with_groupings_have_bounds():
    groupings = {"adult": ("age", {"a": "no", "b": "yes", "c": "yes"})}
    law = Laplace(scale=2.0)
    rng = np.random.default_rng(4)
    given = [
        NoisyMarginal("adult", law.rvs((8, 2), rng=rng), law),
        NoisyMarginal(("age", "sex"), law.rvs((8, 3, 2), rng=rng), law),
    ]
    fit = combine_marginals(given, PARENT, domain=DOMAIN, groupings=groupings)
    found = fit.conf_int("adult")
    assert found.method == "bound"
    assert "16 of 16 intervals are bounds" in found.notes[0]
    normal = fit.conf_int("adult", method="asymptotic")
    ratio = np.asarray(found.upper - found.lower) / np.asarray(normal.upper - normal.lower)
    # no more than one Laplace noise alone
    assert (ratio > 1.0).all()
    assert (ratio < np.log(20.0) / np.sqrt(2.0) / 1.9599).all()
    assert fit.disagreements().attrs["method"] == "bound"


def test_many_laws_are_bounded_and_that_is_said(monkeypatch):
    monkeypatch.setattr("dpinfer.estimation.pivots.FEW", 1)
    monkeypatch.setattr("dpinfer.estimation.pivots.SECONDS", 0.0)
    fit = combined(drawn(5))
    found = fit.conf_int("sex")
    assert found.method == "bound"
    assert "would take about" in found.notes[0]
    assert "bound" in fit.summary("sex")
    monkeypatch.undo()
    exact = fit.conf_int("sex")
    assert (found.upper >= exact.upper - 1e-9).all()
