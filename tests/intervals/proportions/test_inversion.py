"""Steps to the ends of intervals: from anywhere, and what is said where they do not arrive."""

import numpy as np
import pytest
from scipy import special, stats

from dpinfer.errors import ConvergenceError
from dpinfer.intervals.proportions._families import BinomialCounts, PoissonCounts
from dpinfer.intervals.proportions._inversion import MAX_STEPS, _newton
from dpinfer.intervals.proportions._kernel import Kernel
from dpinfer.intervals.proportions._tails import NoisyTails
from dpinfer.intervals.proportions.one_sample import proportion_confint
from dpinfer.intervals.proportions.rates import poisson_confint
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace, WeightedSum
from dpinfer.mechanisms.noisy_poisson import NoisyPoisson


def tails_of(family, count, side, probability):
    kernel = Kernel(Exact(), probability, mid=False)
    return NoisyTails(family=family, kernel=kernel, t=count, side=side, probability=probability)


@pytest.mark.parametrize("start", [1e-12, 1e-4, 0.5, 1 - 1e-9])
@pytest.mark.parametrize("side", [1, -1])
def test_binomial_ends_are_found_from_any_start(start, side):
    """Those of Clopper and Pearson: quantiles of beta laws."""
    nobs, count = np.full(3, 1e6), np.array([3.0, 4e5, 999_990.0])
    tails = tails_of(BinomialCounts(nobs=nobs), count, side, 0.025)
    found = _newton(tails, np.arange(3), np.full(3, start))
    if side > 0:
        wanted = special.betaincinv(count, nobs - count + 1, 0.025)
    else:
        wanted = special.betaincinv(count + 1, nobs - count, 0.975)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_a_search_that_does_not_arrive_is_said():
    # from 1 to 1e8 in steps of 4 standard deviations: the root grows by 2 a step
    tails = tails_of(PoissonCounts(size=1), np.array([1e8]), 1, 0.025)
    with pytest.raises(
        ConvergenceError, match=f"still open after {MAX_STEPS} steps.* method='score'"
    ):
        _newton(tails, np.arange(1), np.ones(1))
    found = _newton(tails, np.arange(1), np.array([9.9e7]))
    np.testing.assert_allclose(found, special.gammaincinv(1e8, 0.025), rtol=1e-12)


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
        (found["larger"].lower, "lower", -step),
        (found["smaller"].upper, "upper", step),
    ):
        inside = (end > 0) & np.isfinite(end)
        assert inside.any()
        law = NoisyPoisson(rate=end[inside], noise=noise)
        np.testing.assert_allclose(getattr(law, tail)(count[inside] + beyond), rest, rtol=1e-9)


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
    many = proportion_confint(count, 5_000, mechanism=Gaussian(sigma=3.0))
    few = proportion_confint(count[:200], 5_000, mechanism=Gaussian(sigma=3.0))
    np.testing.assert_array_equal(np.asarray(many)[:200], np.asarray(few))
