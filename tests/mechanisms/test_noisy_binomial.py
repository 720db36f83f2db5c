"""The law of a noisy binomial count against high-precision sums and against itself."""

import tracemalloc
from functools import cache

import mpmath as mp
import numpy as np
import pytest

from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    IndependentNoise,
    Laplace,
    WeightedSum,
)
from dpinfer.mechanisms._noisy_count import NoisyBinomial

CASES = [(1, 0.3), (7, 0.5), (100, 0.255), (600, 0.01), (900, 0.9)]
NOISES = [
    Laplace(scale=2.0),
    Laplace(scale=0.01),
    Laplace(scale=40.0),
    Geometric(scale=0.5),
    Geometric(scale=20.0),
    Gaussian(sigma=3.0),
    Exact(),
]


def law(n, p, noise):
    return NoisyBinomial(nobs=np.asarray(n, float), value=np.asarray(p, float), noise=noise)


def noise_tail(noise, x):
    """P(e >= x) in high precision."""
    if isinstance(noise, Laplace):
        b = mp.mpf(noise.scale)
        return mp.exp(-x / b) / 2 if x >= 0 else 1 - mp.exp(x / b) / 2
    if isinstance(noise, Geometric):
        a, m = mp.exp(-1 / mp.mpf(noise.scale)), mp.ceil(x)
        return a**m / (1 + a) if m > 0 else 1 - a ** (1 - m) / (1 + a)
    if isinstance(noise, Gaussian):
        return mp.erfc(x / mp.mpf(noise.sigma) / mp.sqrt(2)) / 2
    return mp.mpf(x <= 0)


@cache
def binomial_masses(n, p):
    with mp.workdps(40):
        p = mp.mpf(p)
        return [mp.binomial(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]


def reference(n, p, noise, t):
    """P(T >= t) and P(T <= t)."""
    with mp.workdps(40):
        pmf, t = binomial_masses(n, p), mp.mpf(t)
        upper = mp.fsum(pmf[k] * noise_tail(noise, t - k) for k in range(n + 1))
        lower = mp.fsum(pmf[k] * noise_tail(noise, k - t) for k in range(n + 1))
        return upper, lower


def assert_close(got, want, rtol=1e-12):
    if want > 1e-300:
        assert abs(mp.mpf(float(got)) / want - 1) < rtol


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize(("n", "p"), CASES)
def test_tails_to_1e_300(n, p, noise):
    sd = np.sqrt(n * p * (1 - p) + noise.variance)
    points = n * p + sd * np.array([-15.0, -3.0, -0.4, 1.1, 4.0, 12.0])
    if noise.is_integer:
        points = np.round(points)
    filler = np.zeros(100)  # enough points that the recursion is used
    many = law(n, p, noise)
    uppers = many.upper(np.append(points, filler))
    lowers = many.lower(np.append(points, filler))
    for i, t in enumerate(points):
        upper, lower = reference(n, p, noise, t)
        one = law(n, p, noise)
        assert_close(one.upper(np.asarray(t)), upper)
        assert_close(one.lower(np.asarray(t)), lower)
        assert_close(uppers[i], upper)
        assert_close(lowers[i], lower)


@pytest.mark.parametrize("noise", [Laplace(scale=300.0), Geometric(scale=50.0)], ids=repr)
@pytest.mark.parametrize("n", [10**4, 10**6, 10**8])
def test_window_and_recursion_agree(n, noise):
    """Two algorithms: a sum over a window that moves, and a recursion over all counts."""
    p = 0.255
    sd = np.sqrt(n * p * (1 - p) + noise.variance)
    points = np.round(n * p + sd * np.array([-60.0, -8.0, 0.0, 3.0, 20.0, 100.0]))
    both = law(n, p, noise)
    filler = np.zeros(100)
    for tail in (both.upper, both.lower):
        recursion = tail(np.append(points, filler))[: points.size]
        window = np.array([tail(np.asarray(t)) for t in points])
        kept = window > 1e-290
        np.testing.assert_allclose(recursion[kept], window[kept], rtol=1e-12)


@pytest.mark.parametrize("side", ["upper", "lower"])
def test_far_tail_of_large_n_moves_the_window(side):
    """At t far from np the largest term is at a tilted count: compare with the closed form.

    For t beyond n, P(T >= t) = exp(-t/b)/2 · E[exp(X/b)] with the binomial generating function.
    """
    n, p, b = 10**6, 0.001, 1e4
    t = 1.5e6
    if side == "lower":
        p, t = 1 - p, n - t
    got = getattr(law(n, p, Laplace(scale=b)), side)(np.asarray(t))
    with mp.workdps(40):
        q = mp.mpf(p) if side == "upper" else 1 - mp.mpf(p)
        distance = mp.mpf(t) if side == "upper" else n - mp.mpf(t)
        closed = mp.exp(-distance / b) / 2 * (1 + q * mp.expm1(1 / mp.mpf(b))) ** n
        assert_close(got, closed)


def test_rows_of_different_laws_are_those_laws():
    nobs, value = np.array([100.0, 50.0, 1000.0, 5.0]), np.array([0.255, 0.5, 0.01, 0.9])
    noises = [Laplace(scale=2.0), Geometric(scale=3.0), Gaussian(sigma=1.5), Exact()]
    t = np.array([[34.21, 30.0, 12.5, 5.0], [20.0, 25.0, 10.0, 4.0]])
    together = NoisyBinomial(nobs=nobs, value=value, noise=IndependentNoise(noises))
    for tail in ("upper", "lower"):
        got = getattr(together, tail)(t)
        for j, noise in enumerate(noises):
            alone = getattr(law(nobs[j], value[j], noise), tail)(t[:, j])
            np.testing.assert_allclose(got[:, j], alone, rtol=1e-13)


def test_many_rows_are_summed_in_bounded_pieces():
    rows = 3000
    nobs = np.resize([20.0, 700.0, 5000.0], rows)
    t = nobs * 0.4
    together = NoisyBinomial(nobs=nobs, value=np.asarray(0.4), noise=Gaussian(sigma=2.0))
    alone = [law(n, 0.4, Gaussian(sigma=2.0)).upper(np.asarray(n * 0.4)) for n in nobs[:3]]
    np.testing.assert_allclose(together.upper(t), np.resize(alone, rows), rtol=1e-13)


def test_noise_that_is_a_sum_of_noises():
    n, p = 80, 0.3
    summed = WeightedSum([1.0, 1.0], Geometric(scale=2.0))
    k, e = np.arange(n + 1.0), np.arange(-300, 301)
    pmf = law(n, p, Exact()).upper(k) - np.append(law(n, p, Exact()).upper(k)[1:], 0.0)
    one = Geometric(scale=2.0).pmf(e)
    total = np.convolve(np.convolve(one, one), pmf)
    t = 35
    expected = total[np.arange(total.size) - 600 >= t].sum()
    np.testing.assert_allclose(law(n, p, summed).upper(np.asarray(float(t))), expected, atol=1e-10)


@pytest.mark.parametrize(
    ("n", "noise"),
    [
        (100, Laplace(scale=2.0)),
        (100, DiscreteGaussian(sigma=2.0)),
        (10**9, Geometric(scale=2.0)),  # fewer draws than counts: drawn one by one
    ],
    ids=repr,
)
def test_draws_follow_the_law(n, noise):
    size, p = 100_000, 0.255
    draws = law(n, p, noise).draw(size, np.random.default_rng(20))
    assert draws.shape == (size,)
    for quantile in (-2.0, -0.5, 0.0, 1.0, 2.5):
        t = np.round(n * p + quantile * np.sqrt(n * p * (1 - p) + noise.variance)) + 0.25
        probability = law(n, p, noise).upper(np.asarray(t))
        share = np.mean(draws >= t)
        # 6 standard errors: 2e-9 for each comparison
        assert abs(share - probability) < 6 * np.sqrt(probability * (1 - probability) / size)


@pytest.mark.parametrize("points", [1, 200])
@pytest.mark.parametrize("noise", [Laplace(scale=2.0), Gaussian(sigma=2.0)], ids=repr)
def test_memory_is_bounded_for_large_n(noise, points):
    n, p = 10**9, 0.255
    t = n * p + np.linspace(-1e4, 1e4, points)
    tracemalloc.start()
    law(n, p, noise).upper(t)
    _, highest = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert highest < 100e6
