"""Ends of intervals without noise, at levels close to zero, for sums and for many counts."""

import numpy as np
import pytest
from scipy import special, stats

from dpinfer.hypothesis_tests import poisson_ztest
from dpinfer.intervals import poisson_confint, proportion_confint
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace, WeightedSum


@pytest.mark.parametrize("alternative", ["larger", "smaller"])
@pytest.mark.parametrize("alpha", [1e-9, 0.025, 0.6, 1 - 1e-9])
def test_ends_without_noise_are_quantiles(alpha, alternative):
    """Of beta laws for proportions, as Clopper and Pearson have them, and of gamma laws."""
    nobs, count = 1e6, np.array([3.0, 4e5, 999_990.0])
    options = {"mechanism": Exact(), "alpha": alpha, "alternative": alternative}
    share = proportion_confint(count, nobs, **options)
    rate = poisson_confint(count, **options)
    if alternative == "larger":
        wanted = special.betaincinv(count, nobs - count + 1, alpha)
        np.testing.assert_allclose(share.lower, wanted, rtol=1e-9)
        wanted = special.gammaincinv(count, alpha)
        np.testing.assert_allclose(rate.lower, wanted, rtol=1e-9)
    else:
        wanted = special.betainccinv(count + 1, nobs - count, alpha)
        np.testing.assert_allclose(share.upper, wanted, rtol=1e-9)
        wanted = special.gammainccinv(count + 1, alpha)
        np.testing.assert_allclose(rate.upper, wanted, rtol=1e-9)


def test_a_very_large_count_is_the_quantile_of_a_gamma_law():
    lower, upper = poisson_confint(1e8, mechanism=Exact())
    np.testing.assert_allclose(lower, special.gammaincinv(1e8, 0.025), rtol=1e-12)
    np.testing.assert_allclose(upper, special.gammaincinv(1e8 + 1, 0.975), rtol=1e-12)


@pytest.mark.thinned("noise", "rest", every=2)
@pytest.mark.parametrize(
    "noise", [Exact(), Gaussian(sigma=40.0), DiscreteGaussian(sigma=5.0), Laplace(scale=300.0)]
)
@pytest.mark.parametrize("rest", [0.3, 1e-8, 1e-15])
def test_levels_close_to_zero(noise, rest):
    """One-sided ends that are hardly ever right: of the two tails it is the small one that counts.

    Where P(T >= t) is 1 - 1e-15, P(T < t) has all digits.
    """
    count = np.array([0.0, 60.0, 20_000.0])
    found = {
        side: poisson_confint(count, mechanism=noise, alpha=1.0 - rest, alternative=side)
        for side in ("larger", "smaller")
    }
    step = 1.0 if noise.is_integer else 0.0
    rest = 1.0 - (1.0 - rest)
    for end, tail, beyond in (
        (found["larger"].lower, "smaller", -step),
        (found["smaller"].upper, "larger", step),
    ):
        inside = (end > 0) & np.isfinite(end)
        assert inside.any()
        test = poisson_ztest(
            count[inside] + beyond, 1.0, end[inside], mechanism=noise, alternative=tail
        )
        np.testing.assert_allclose(test.pvalue, rest, rtol=1e-9)


@pytest.mark.parametrize("side", ["larger", "smaller"])
def test_sums_with_atoms_between_whole_numbers(side):
    """P(T >= t) and P(T <= t) both hold the atom at t: one is not what the other leaves."""
    noise, e = Geometric(scale=2.0), np.arange(-200, 201)
    count = np.array([30.5, 61.0])
    law = WeightedSum([0.5], noise)
    found = poisson_confint(count, mechanism=law, alpha=0.9, alternative=side)
    end = found.lower if side == "larger" else found.upper
    for t, rate in zip(count, end, strict=True):
        x = np.floor(t - 0.5 * e) if side == "smaller" else np.ceil(t - 0.5 * e) - 1.0
        tail = stats.poisson.cdf(x, rate) if side == "smaller" else stats.poisson.sf(x, rate)
        assert tail @ noise.pmf(e) == pytest.approx(0.9, rel=1e-10)


def test_many_counts_far_apart_are_not_interpolated():
    """Fewer than one count between two whole numbers: each end is that of its count alone."""
    count = np.random.default_rng(1).uniform(100.0, 4_900.0, 1_100)
    many = proportion_confint(count, 5_000, mechanism=Laplace(scale=3.0))
    few = proportion_confint(count[:200], 5_000, mechanism=Laplace(scale=3.0))
    np.testing.assert_array_equal(np.asarray(many)[:200], np.asarray(few))
