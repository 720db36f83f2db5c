"""The law of a noisy Poisson count against high-precision sums, and of no trials at all."""

from functools import cache

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Exact, Gaussian, Geometric, IndependentNoise, Laplace
from dpinfer.mechanisms._noisy_count import NoisyBinomial, NoisyPoisson

NOISES = [Laplace(scale=2.0), Laplace(scale=30.0), Geometric(scale=3.0), Gaussian(sigma=3.0)]

MIDDLES = (np.arange(2000.0) + 0.5) / 2000.0


def law(rate, noise):
    return NoisyPoisson(rate=np.asarray(rate, float), noise=noise)


def noise_tail(noise, x):
    """P(e >= x) in high precision."""
    if isinstance(noise, Laplace):
        b = mp.mpf(noise.scale)
        return mp.exp(-x / b) / 2 if x >= 0 else 1 - mp.exp(x / b) / 2
    if isinstance(noise, Geometric):
        a, m = mp.exp(-1 / mp.mpf(noise.scale)), mp.ceil(x)
        return a**m / (1 + a) if m > 0 else 1 - a ** (1 - m) / (1 + a)
    return mp.erfc(x / mp.mpf(noise.sigma) / mp.sqrt(2)) / 2


@cache
def poisson_masses(rate):
    with mp.workdps(40):
        kmax = int(rate + 60 * np.sqrt(rate) + 500)
        return [mp.exp(-mp.mpf(rate)) * mp.mpf(rate) ** k / mp.factorial(k) for k in range(kmax)]


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("rate", [0.02, 1.0, 37.5, 640.0])
def test_tails_in_high_precision(rate, noise):
    sd = np.sqrt(rate + noise.variance)
    points = np.round(rate + sd * np.array([-12.0, -3.0, -0.4, 1.1, 5.0, 20.0]))
    many = law(rate, noise).upper(np.append(points, np.zeros(100)))  # uses the recursion
    with mp.workdps(40):
        pmf = poisson_masses(rate)
        for i, t in enumerate(points):
            upper = mp.fsum(p * noise_tail(noise, mp.mpf(t) - k) for k, p in enumerate(pmf))
            lower = mp.fsum(p * noise_tail(noise, k - mp.mpf(t)) for k, p in enumerate(pmf))
            one = law(rate, noise)
            assert abs(mp.mpf(float(one.upper(np.asarray(t)))) / upper - 1) < 1e-12
            assert abs(mp.mpf(float(one.lower(np.asarray(t)))) / lower - 1) < 1e-12
            assert abs(mp.mpf(float(many[i])) / upper - 1) < 1e-12


def test_rows_are_independent_of_each_other():
    noise = IndependentNoise([Laplace(scale=2.0), Exact(), Gaussian(sigma=4.0)])
    rates = np.array([3.0, 50.0, 2000.0])
    t = np.array([7.5, 60.0, 2100.0])
    together = NoisyPoisson(rate=rates, noise=noise).upper(t)
    alone = [law(rates[i], noise.take(i)).upper(np.asarray(t[i])) for i in range(3)]
    np.testing.assert_allclose(together, alone, rtol=1e-13)
    assert together[1] == pytest.approx(stats.poisson.sf(59, 50.0), rel=1e-12)


def test_draws_have_the_law():
    noisy = law(25.0, Laplace(scale=2.0))
    draws = noisy.draw(200_000, np.random.default_rng(4))
    for t in (15.0, 25.3, 35.0):
        chance = float(noisy.upper(np.asarray(t)))
        # 6 standard errors: 2e-9
        assert abs(np.mean(draws >= t) - chance) < 6 * np.sqrt(chance * (1 - chance) / draws.size)


def test_without_trials_there_is_only_noise():
    noise = Laplace(scale=2.0)
    empty = NoisyBinomial(nobs=np.zeros(3), value=np.full(3, 0.3), noise=noise)
    t = np.array([-1.0, 0.5, 9.0])
    np.testing.assert_allclose(empty.upper(t), noise.sf(t), rtol=1e-14)
    np.testing.assert_allclose(empty.lower(t), noise.cdf(t), rtol=1e-14)


def test_rows_one_by_one_are_the_rows_together():
    noise = IndependentNoise([Laplace(scale=2.0), Geometric(scale=3.0), Gaussian(sigma=4.0)])
    rates, t = np.array([3.0, 50.0, 2000.0]), np.array([7.0, 60.0, 2100.0])
    together = NoisyPoisson(rate=rates, noise=noise)
    rows = together.rows(3)
    alone = [float(row.lower(np.asarray(point))) for row, point in zip(rows, t, strict=True)]
    np.testing.assert_allclose(alone, together.lower(t), rtol=1e-13)
    shared = law(50.0, Laplace(scale=2.0)).rows(2)
    assert [float(row.rate) for row in shared] == [50.0, 50.0]
    assert all(row.is_one_law for row in shared)


@pytest.mark.parametrize("noise", [Laplace(scale=3e4), Gaussian(sigma=3e4)], ids=repr)
def test_far_tails_of_high_rates(noise):
    """Where the peak of the terms is far from the mode: against the sum over all counts."""
    rate = 1e6
    noisy = law(rate, noise)
    k = np.arange(9.0e5, 1.6e6)
    pmf = stats.poisson.pmf(k, rate)
    for t in (1.02e6, 1.1e6, 1.3e6):
        expected = float(pmf @ noise.sf(t - k))
        assert float(noisy.upper(np.asarray(t))) == pytest.approx(expected, rel=1e-9)


def test_few_draws_of_high_rates_have_the_law():
    noisy, quantiles = law(1e9, Geometric(scale=2e4)), stats.norm.ppf(MIDDLES, 1e9, np.sqrt(1e9))
    draws = noisy.draw(20_000, np.random.default_rng(5))
    assert np.all(draws == np.round(draws))
    for t in (1e9 - 3e4, 1e9, 1e9 + 4e4):
        chance = float(np.mean(noisy.noise.sf(t - quantiles - 1.0)))
        # 6 standard errors: 2e-9; the mean over 2000 quantiles is right to 1e-3
        error = 6 * np.sqrt(chance * (1 - chance) / draws.size)
        assert abs(np.mean(draws >= t) - chance) < error + 1e-3


def test_sums_over_too_many_counts_are_refused():
    with pytest.raises(InvalidParameterError, match=r"rate, or the noise, must be smaller .* at 2"):
        law(1e17, Gaussian(sigma=3.0)).upper(np.array([1e17, 1.0001e17]))


def test_slopes_are_those_of_the_logarithmic_probabilities():
    k = np.arange(60.0)
    for noisy, counts in (
        (law(25.0, Exact()), stats.poisson(25.0)),
        (
            NoisyBinomial(nobs=np.asarray(90.0), value=np.asarray(0.3), noise=Exact()),
            stats.binom(90, 0.3),
        ),
    ):
        slopes = np.diff(counts.logpmf(np.arange(61.0)))
        np.testing.assert_allclose(np.log(noisy._ratio(k)), slopes, rtol=1e-9, atol=1e-9)
