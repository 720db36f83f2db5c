"""The law of a noisy Poisson count against high-precision sums, and of no trials at all."""

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from dpinfer._numerics.poisson import poisson_pmf
from dpinfer.mechanisms import Exact, Gaussian, Geometric, IndependentNoise, Laplace
from dpinfer.mechanisms.noisy_binomial import NoisyBinomial
from dpinfer.mechanisms.noisy_poisson import NoisyPoisson

NOISES = [Laplace(scale=2.0), Laplace(scale=30.0), Geometric(scale=3.0), Gaussian(sigma=3.0)]


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


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("rate", [0.02, 1.0, 37.5, 640.0])
def test_tails_in_high_precision(rate, noise):
    sd = np.sqrt(rate + noise.variance)
    points = np.round(rate + sd * np.array([-12.0, -3.0, -0.4, 1.1, 5.0, 20.0]))
    many = law(rate, noise).upper(np.append(points, np.zeros(100)))  # uses the recursion
    with mp.workdps(40):
        kmax = int(rate + 60 * np.sqrt(rate) + 500)
        pmf = [mp.exp(-mp.mpf(rate)) * mp.mpf(rate) ** k / mp.factorial(k) for k in range(kmax)]
        for i, t in enumerate(points):
            upper = mp.fsum(p * noise_tail(noise, mp.mpf(t) - k) for k, p in enumerate(pmf))
            lower = mp.fsum(p * noise_tail(noise, k - mp.mpf(t)) for k, p in enumerate(pmf))
            one = law(rate, noise)
            assert abs(mp.mpf(float(one.upper(np.asarray(t)))) / upper - 1) < 1e-12
            assert abs(mp.mpf(float(one.lower(np.asarray(t)))) / lower - 1) < 1e-12
            assert abs(mp.mpf(float(many[i])) / upper - 1) < 1e-12


@pytest.mark.parametrize("rate", [1e-200, 0.5, 30.0, 1e6, 1e12])
def test_pmf(rate):
    k = np.maximum(np.floor(rate + np.sqrt(rate) * np.linspace(-8, 8, 33)), 0.0)
    got = poisson_pmf(k, np.asarray(rate))
    with mp.workdps(40):
        for point, value in zip(k, got, strict=True):
            logged = -mp.mpf(rate) + point * mp.log(rate) - mp.loggamma(mp.mpf(point) + 1)
            assert abs(mp.mpf(float(value)) / mp.exp(logged) - 1) < 1e-12


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
