"""Critical values of whole-numbered laws are the least extreme values that are rejected."""

import numpy as np
import pytest

from dpinfer import counts_2indep, counts_paired, counts_trend, linear_ztest
from dpinfer.hypothesis_tests import Binomial, null_distribution, poisson_ztest, proportions_ztest
from dpinfer.mechanisms import DiscreteGaussian, Exact, Geometric, Laplace

ALTERNATIVES = ("two-sided", "larger", "smaller")
NOISE = Geometric(scale=1.3)
K = np.arange(-150.0, 151.0)


def z_of_counts(mean, variance, counts=K):
    return (counts - mean) / np.sqrt(variance)


def deviations(weights):
    """Multiples of 1 and their standard deviations, for weights without a common divisor."""
    return K / np.sqrt(np.square(weights).sum() * NOISE.variance)


CASES = {
    "proportion": (
        lambda: proportions_ztest(5, 20, 0.3, mechanism=NOISE).null_distribution,
        z_of_counts(20 * 0.3, 20 * 0.3 * (1 - 0.3)),
    ),
    "proportion without noise": (
        lambda: null_distribution(Binomial(nobs=20, value=0.3), Exact(), "z"),
        z_of_counts(20 * 0.3, 20 * 0.3 * (1 - 0.3), np.arange(21.0)),
    ),
    "rate": (
        lambda: poisson_ztest(5, 1.0, 4.7, mechanism=DiscreteGaussian(sigma=2.0)).null_distribution,
        z_of_counts(4.7, 4.7),
    ),
    "one count": (
        lambda: linear_ztest([7], [1], mechanism=NOISE).null_distribution,
        deviations([1]),
    ),
    "difference": (
        lambda: counts_2indep(7, 3, mechanism=NOISE).null_distribution,
        deviations([1, 1]),
    ),
    "multiples of two": (
        lambda: linear_ztest([7, 3], [4, -6], mechanism=NOISE).null_distribution,
        2.0 * deviations([4, 6]),
    ),
    "mean": (
        lambda: linear_ztest([7, 3], [0.5, 0.5], mechanism=NOISE).null_distribution,
        0.5 * deviations([0.5, 0.5]),
    ),
    "trend": (
        lambda: counts_trend([10, 12, 14], 36, mechanism=NOISE).null_distribution,
        np.arange(-40.0, 41.0) / np.sqrt(36 * 2 / 3),
    ),
    "trend of uneven scores": (
        lambda: counts_trend([10, 12, 15], 37, scores=[0, 1, 3], mechanism=NOISE).null_distribution,
        # 1/3 of whole numbers, less 37 times the mean score
        (np.arange(28.0, 268.0) / 3 - 37 * 4 / 3) / np.sqrt(37 * (10 / 3 - 16 / 9)),
    ),
}


@pytest.mark.thinned("alternative", "case", every=3)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("case", CASES)
def test_critical_values_are_attained(case, alternative):
    make, values = CASES[case]
    null = make()
    extreme = {"two-sided": np.abs(values), "larger": values, "smaller": -values}[alternative]
    for alpha in (0.3, 0.05, 1e-4):
        rejected = null.pvalue(values, alternative) <= alpha
        wanted = extreme[rejected].min() if rejected.any() else np.inf
        found = null.critical_value(alpha, alternative)
        assert (-found if alternative == "smaller" else found) == pytest.approx(wanted, rel=1e-14)
        assert null.pvalue(found, alternative) <= alpha


def test_values_of_the_largest_difference():
    laws = [Geometric(scale=1.0), Geometric(scale=3.0)]
    null = counts_paired([7, 3], [5, 4], mechanism=(laws, laws)).null_distribution
    spread = np.sqrt([2 * float(law.variance) for law in laws])
    values = np.sort((np.arange(200.0)[:, None] / spread).ravel())
    for alpha in (0.3, 0.05, 1e-4):
        wanted = values[null.pvalue(values, "larger") <= alpha][0]
        assert null.critical_value(alpha, "larger") == wanted


def test_noise_with_a_density_has_no_values_of_its_own():
    null = counts_2indep([7, 7], 3, mechanism=([Laplace(scale=2.0), NOISE], NOISE))
    found = null.null_distribution.critical_value(0.05, "larger")
    pvalue = null.null_distribution.pvalue(found, "larger")
    assert pvalue[0] == pytest.approx(0.05, rel=1e-9)
    assert pvalue[1] < 0.0499
    count = found[1] * np.sqrt(2 * NOISE.variance)
    assert count == pytest.approx(np.rint(count), rel=1e-14)
