"""Intervals and p-values of tables by the laws of their errors."""

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.errors import NotEstimableError
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
    assert intervals.assurance == "exact"
    half = (intervals.upper - intervals.lower) / 2
    law = impulses(lambda one, _: one.marginal("age", [4])[0, 1])
    np.testing.assert_allclose(half[4], float(law.isf(0.05)), rtol=1e-9)
    # the root's cells: all of one law, which is not that of leaves
    np.testing.assert_allclose(half[0], half[0, 0], rtol=1e-12)
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
    found = combined(drawn(2)).unit_contrast(2, coefficients)
    lower, upper = found.conf_int(0.1)
    law = impulses(lambda one, _: one.unit_contrast(2, coefficients).estimate)
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
    assert (found.method, found.assurance) == ("envelope", "checked")
    assert found.notes[0].startswith("16 of 16 intervals are")
    bound = fit.conf_int("adult", method="bound")
    assert bound.assurance == "bound"
    assert (bound.upper > found.upper).all()
    normal = fit.conf_int("adult", method="asymptotic")
    ratio = np.asarray(found.upper - found.lower) / np.asarray(normal.upper - normal.lower)
    # no more than one Laplace noise alone
    assert (ratio > 1.0).all()
    assert (ratio < np.log(20.0) / np.sqrt(2.0) / 1.9599).all()
    assert fit.disagreements().attrs["method"] == "bound"


def test_many_laws_are_by_the_envelope_and_that_is_said(monkeypatch):
    monkeypatch.setattr("dpinfer.estimation.pivots.FEW", 1)
    monkeypatch.setattr("dpinfer.estimation.pivots.SECONDS", 0.0)
    fit = combined(drawn(5))
    found = fit.conf_int("sex")
    assert (found.method, found.assurance) == ("envelope", "checked")
    assert "would take about" in found.notes[0]
    assert "envelope" in fit.summary("sex")
    below = fit.conf_int("sex", alpha=1e-4)
    assert (below.method, below.assurance) == ("bound", "bound")
    monkeypatch.undo()
    exact = fit.conf_int("sex")
    assert (found.upper >= exact.upper - 1e-9).all()


GROUPED = {"groupings": {"old": ("age", {0: "no", 1: "no", 2: "yes"})}}


@pytest.mark.parametrize("more", [{}, GROUPED], ids=["plain", "grouped"])
def test_cells_of_tables_are_noisy_values_with_a_joint_law(more):
    domain = dpi.Domain({"sex": ["F", "M"], "age": [0, 1, 2]})
    rng = np.random.default_rng(3)
    scale = dpi.Laplace(scale=np.array([1.0, 2.0, 3.0]))
    marginals = [
        NoisyMarginal((), rng.normal(60, 5, 3), dpi.Laplace(scale=2.0)),
        NoisyMarginal(("age", "sex"), rng.normal(10, 3, (3, 3, 2)), scale),
        NoisyMarginal("age", rng.normal(20, 3, (1, 3)), dpi.Gaussian(sigma=1.5), units=[1]),
    ]
    if more:
        marginals.append(NoisyMarginal("old", rng.normal(30, 3, (3, 2)), scale))
    fit = combine_marginals(marginals, [-1, 0, 0], domain=domain, **more)
    x = dpi.noisy(fit)
    names = ("sex", "age")
    assert x.shape == (3, 2, 3)
    np.testing.assert_array_equal(x.values, fit.marginal(names).ravel())
    np.testing.assert_allclose(x.variance, fit.marginal_variance(names).ravel(), rtol=1e-12)
    # Σ over the age of unit 1 less the marginal of its sexes, and a contrast: 0, and its law
    cells = np.zeros((2, 3, 2, 3))
    cells[0, 0], cells[0, 1:] = 1.0, -1.0
    cells[1, 1, 0, :2] = 1.0, -1.0
    joint = x.linear(cells.reshape((2, -1)))
    contrast = fit.unit_contrast(1, cells[1, 1])
    np.testing.assert_allclose(joint.values, [0.0, contrast.estimate], rtol=0, atol=1e-12)
    np.testing.assert_allclose(joint.std, [0.0, contrast.std_err], rtol=1e-12, atol=1e-12)
    draws = x.draw(4000, rng=1)
    # of 4000 draws a variance errs by .05 (Laplace: kurtosis 3); six times that is 1e-8 by accident
    np.testing.assert_allclose(draws.var(axis=0), x.variance, rtol=0.3)


def test_shares_of_cells_of_a_table_know_how_their_errors_depend():
    domain = dpi.Domain({"sex": ["F", "M"]})
    law = dpi.Laplace(scale=6.0)
    noisy = [
        NoisyMarginal((), [101.0], dpi.Laplace(scale=1.0)),
        NoisyMarginal("sex", [[63.0, 43.0]], law),
    ]
    cells = dpi.noisy(combine_marginals(noisy, [-1], domain=domain))
    release = dpi.Release(
        [101.0, 63.0, 43.0],
        workload=[[1, 1], [1, 0], [0, 1]],
        mechanism=[dpi.Laplace(scale=1.0), law, law],
    )
    same = dpi.noisy(dpi.combine(release, target=np.eye(2)))
    shares = [dpi.share_confint(x.take([0]), x.take([1])) for x in (cells, same)]
    np.testing.assert_allclose(shares[0].lower, shares[1].lower, rtol=1e-9)
    np.testing.assert_allclose(shares[0].upper, shares[1].upper, rtol=1e-9)
    unknown = [NoisyMarginal((), [101.0], law)]
    with pytest.raises(NotEstimableError):
        dpi.noisy(combine_marginals(unknown, [-1], domain=domain))


def test_rows_of_many_cells_are_made_when_they_are_asked_for():
    parent = np.append(-1, np.zeros(700, dtype=int))
    rng = np.random.default_rng(5)
    marginals = [
        NoisyMarginal((), [1400.0], dpi.Laplace(scale=1.0), units=[0]),
        NoisyMarginal("sex", rng.normal(2, 3, (701, 2)), dpi.Laplace(scale=2.0)),
    ]
    fit = combine_marginals(marginals, parent, domain=dpi.Domain({"sex": ["F", "M"]}))
    x = dpi.noisy(fit)
    some = x.take([0, 1, 2, 3])
    np.testing.assert_allclose(np.diag(some.cov()), x.variance[:4], rtol=1e-12)
    total = fit.unit_contrast(0, [1.0, 1.0])
    assert some.law_of([1.0, 1.0, 0.0, 0.0]).std == pytest.approx(float(total.std_err), rel=1e-12)
    errors = x.draw(3000, rng=2)[:, :4]
    # the relative error of a variance is √(5/3000) at most; 7 times that once in 1e11
    np.testing.assert_allclose(errors.var(axis=0), x.variance[:4], rtol=0.29)
