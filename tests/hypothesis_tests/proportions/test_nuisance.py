"""Maxima over a nuisance parameter against brute force."""

import numpy as np
import pytest
from scipy import stats

from dpinfer.hypothesis_tests import mcnemar, poisson_2indep, proportions_2indep
from dpinfer.hypothesis_tests.proportions._nuisance import certified_maximum
from dpinfer.mechanisms import Exact, Geometric, Laplace


@pytest.mark.parametrize("event", [range(7, 21), range(12, 15), [0, 5, 10, 15, 20], [3]])
@pytest.mark.parametrize(("low", "high"), [(0.1, 1.4), (0.6, 0.9), (0.3, 0.3)])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-5])
def test_certified_maximum_bounds_the_chance_of_any_event(event, low, high, tolerance):
    """Events of Binomial(20, p), whatever their shape; the angle carries the information 4·20."""

    def chance(x):
        return stats.binom.pmf(np.array(event)[:, None], 20, np.sin(x) ** 2).sum(axis=0)

    found = certified_maximum(chance, low, high, 80.0, tolerance)
    largest = chance(np.linspace(low, high, 100_001)).max()
    assert largest - 1e-12 <= found <= largest + tolerance + 1e-9


@pytest.mark.parametrize(
    ("alternative", "theirs"), [("larger", "greater"), ("smaller", "less")], ids=str
)
def test_one_sided_tails_without_noise_are_binomial(alternative, theirs):
    null = mcnemar([12, 5], mechanism=Exact()).null_distribution
    for first in range(18):
        found = null.pvalue((2 * first - 17) / np.sqrt(17), alternative)
        expected = stats.binomtest(first, 17, 0.5, alternative=theirs).pvalue
        assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("alternative", ["larger", "smaller"])
def test_one_null_distribution_serves_every_alternative(alternative):
    """The law that comes with the two-sided test gives the p-values of the one-sided ones."""
    for test, data, noise in (
        (poisson_2indep, ([60.3, 20.0], 10.0, [29.8, 31.0], 9.0), Laplace(scale=2.0)),
        (proportions_2indep, (61, 200, 42, 210), Geometric(scale=2.0)),
    ):
        both = test(*data, mechanism=noise)
        one_sided = test(*data, mechanism=noise, alternative=alternative)
        found = both.null_distribution.pvalue(both.statistic, alternative)
        np.testing.assert_allclose(found, one_sided.pvalue, rtol=1e-9)


def test_the_summary_says_what_is_guaranteed():
    null = mcnemar([12, 5], mechanism=Exact()).null_distribution
    assert "the largest over a confidence set" in null.summary()
