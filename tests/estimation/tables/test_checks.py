"""Disagreement of tables, and values at the border of what can be computed with."""

import numpy as np
import pytest

from dpinfer.estimation import NoisyMarginal, StructuralZeros, combine, combine_marginals
from dpinfer.mechanisms import Gaussian, Laplace
from dpinfer.queries import Domain

NOISE = Gaussian(sigma=2.0)
DOMAIN = Domain({"sex": ["F", "M"], "age": [1, 2, 3]})
GROUPINGS = {"adult": ("age", {1: "no", 2: "yes", 3: "yes"})}


def marginals(seed=1):
    rng = np.random.default_rng(seed)
    cells = rng.poisson(20.0, (3, 2, 3)) + NOISE.rvs((3, 2, 3), rng=rng)
    sexes = cells.sum(axis=2) + NOISE.rvs((3, 2), rng=rng)
    return [NoisyMarginal(("sex", "age"), cells, NOISE), NoisyMarginal("sex", sexes, NOISE)]


def test_the_statistic_of_many_values_is_that_of_few(monkeypatch):
    fit = combine_marginals(marginals(), [-1, 0, 0], domain=DOMAIN)
    few = fit.consistency_test().statistic
    monkeypatch.setattr("dpinfer.estimation.marginals._WHOLE_LIMIT", 0)
    assert fit.consistency_test().statistic == pytest.approx(few, rel=1e-9)


def test_tables_without_attributes_are_numbers():
    values = [20.0, 6.0, 8.0]
    fit = combine_marginals(NoisyMarginal((), values, NOISE), [-1, 0, 0], domain=Domain({}))
    units = np.array([[1.0, 1], [1, 0], [0, 1]])
    other = combine(values, workload=units, mechanism=NOISE)
    np.testing.assert_allclose(fit.marginal(), other.params, rtol=1e-12)
    frame = fit.disagreements()
    assert frame.index.name == "unit"
    assert sorted(frame.index) == [0, 1, 2]
    residual = frame["residual"].sort_index()
    np.testing.assert_allclose(residual, other.residuals, rtol=1e-12)
    # all three compare the same difference, of variance 3·4
    np.testing.assert_allclose(np.abs(frame["z"]), 6.0 / np.sqrt(12.0), rtol=1e-12)


def test_zeros_may_be_named_by_a_grouping():
    given = marginals()
    by_group = StructuralZeros({"adult": "yes", "sex": "F"}, units=[1])
    by_level = StructuralZeros({"age": [2, 3], "sex": "F"}, units=[1])
    fits = [
        combine_marginals(given, [-1, 0, 0], domain=DOMAIN, groupings=GROUPINGS, zeros=[zeros])
        for zeros in (by_group, by_level)
    ]
    np.testing.assert_allclose(*(fit.marginal(("sex", "age")) for fit in fits), atol=1e-9)
    assert not fits[0].marginal(("sex", "adult"))[1, 0, 1]


def test_the_largest_values_are_computed_with():
    # their squares add up to more than that of the largest, which alone is no reason to refuse
    values = np.full((1, 2), 1e100)
    fit = combine_marginals(NoisyMarginal("sex", values, NOISE), [-1], domain=DOMAIN)
    np.testing.assert_allclose(fit.marginal("sex"), values, rtol=1e-12)


@pytest.mark.parametrize("law", [NOISE, Laplace(scale=1.0)])
def test_summaries_say_which_error_they_cover(law):
    fit = combine_marginals(NoisyMarginal("sex", [[3.0, 5.0]], law), [-1], domain=DOMAIN)
    text = str(fit)
    assert text == fit.summary()
    assert "noise (inference on the confidential values)" in text
    assert "0.95, exact" in text
    assert "approximate" not in text
    assert ("approximate" in fit.summary(method="asymptotic")) == (law is not NOISE)
    assert "approximate" not in combine_marginals(
        NoisyMarginal("sex", [[3.0, 5.0]], NOISE), [-1], domain=DOMAIN
    ).summary("sex")
