"""Ends at error probabilities whose tails are products of numbers below the range of floats."""

import numpy as np
import pytest
from scipy import special, stats

from dpinfer.intervals import poisson_confint, proportion_confint
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    Tulap,
    WeightedSum,
)

LAWS = [
    Exact(),
    Gaussian(sigma=30.0),
    DiscreteGaussian(sigma=5.0),
    Geometric(scale=2.0),
    Laplace(scale=20.0),
    Tulap(scale=1.0),
    WeightedSum([1.0, 1.0, 1.0], DiscreteGaussian(sigma=5.0)),
]
ALPHAS = [1e-99, 1e-101, 1e-160, 1e-300]


def log_tail(count_log_pmf, law, t, side):
    """Log P(X + e >= t), or <= for side -1, as a sum of logarithms."""
    k = np.arange(20_000.0)
    with np.errstate(divide="ignore"):
        return special.logsumexp(count_log_pmf(k) + law.logcdf(side * (k - t)))


class TestEquation:
    @pytest.mark.thinned("alpha", "law", "t", every=3)
    @pytest.mark.parametrize("alpha", ALPHAS)
    @pytest.mark.parametrize("law", LAWS, ids=repr)
    @pytest.mark.parametrize("t", [7, 5000])
    def test_poisson_ends_have_half_of_alpha_beyond(self, law, alpha, t):
        interval = poisson_confint(t, mechanism=law, alpha=alpha)
        assert interval.lower >= 0.0
        for side, end in ((1, float(interval.lower)), (-1, float(interval.upper))):
            if end > 0.0:
                tail = log_tail(lambda k, mu=end: stats.poisson.logpmf(k, mu), law, t, side)
                assert tail == pytest.approx(np.log(alpha / 2), abs=2e-9)

    @pytest.mark.thinned("alpha", "law", "t", every=3)
    @pytest.mark.parametrize("alpha", ALPHAS)
    @pytest.mark.parametrize("law", LAWS, ids=repr)
    @pytest.mark.parametrize("t", [40, 900])
    def test_ends_of_proportions_have_half_of_alpha_beyond(self, law, alpha, t):
        interval = proportion_confint(t, 3000, mechanism=law, alpha=alpha)
        for side, end in ((1, float(interval.lower)), (-1, float(interval.upper))):
            if 0.0 < end < 1.0:
                tail = log_tail(lambda k, p=end: stats.binom.logpmf(k, 3000, p), law, t, side)
                # half a rounding unit of an end near 1 changes the tail by 3000 of 1 - p
                slack = 2e-9 + 3000 * 1e-16 / (1.0 - end)
                assert tail == pytest.approx(np.log(alpha / 2), abs=slack)


def test_gaussian_noise_far_out():
    # with 40 digits by mpmath, P(X + e <= 7) is 5e-201 at this mean
    upper = poisson_confint(7, mechanism=Gaussian(sigma=30.0), alpha=1e-200).upper
    assert upper == pytest.approx(1354.6153928429424, rel=1e-13)


@pytest.mark.parametrize("alpha", [1e-120, 1e-200, 1e-300])
def test_one_event_without_noise(alpha):
    # P(X >= 1) = 1 - exp(-mu), and 1 - (1 - p)^10
    lower = poisson_confint(1, mechanism=Exact(), alpha=alpha).lower
    assert lower == pytest.approx(alpha / 2, rel=1e-10)
    lower, upper = proportion_confint(1, 10, mechanism=Exact(), alpha=alpha)
    assert lower == pytest.approx(alpha / 20, rel=1e-10)
    assert 1.0 - 1e-12 < upper <= 1.0


@pytest.mark.parametrize("alpha", [1e-50, 1e-120, 1e-200, 1e-300])
def test_large_counts_are_not_empty(alpha):
    lower, upper = poisson_confint(1e6, mechanism=Geometric(scale=2.0), alpha=alpha)
    z = stats.norm.isf(alpha / 2)
    assert lower == pytest.approx(1e6 - 1e3 * z, abs=z**2)
    assert upper == pytest.approx(1e6 + 1e3 * z, abs=z**2)
