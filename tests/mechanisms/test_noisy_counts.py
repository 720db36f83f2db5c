"""The laws of noisy binomial and Poisson counts against high-precision sums and themselves."""

import math
import tracemalloc
from functools import cache, partial
from itertools import accumulate

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from dpinfer._numerics.counts import binom_pmf, poisson_pmf
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    IndependentNoise,
    Laplace,
    WeightedSum,
)
from dpinfer.mechanisms._noisy_count import NoisyBinomial, NoisyPoisson

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
POISSON_NOISES = [
    Laplace(scale=2.0),
    Laplace(scale=30.0),
    Geometric(scale=3.0),
    Gaussian(sigma=3.0),
]
MIDDLES = (np.arange(2000.0) + 0.5) / 2000.0


def law(n, p, noise):
    return NoisyBinomial(nobs=np.asarray(n, float), value=np.asarray(p, float), noise=noise)


def poisson(rate, noise):
    return NoisyPoisson(rate=np.asarray(rate, float), noise=noise)


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
    if isinstance(noise, DiscreteGaussian):
        sums, first = discrete_gaussian_sums(noise.sigma), int(mp.ceil(x))
        beyond = sums[first if first > 0 else 1 - first] / (2 * sums[0] - 1)
        return beyond if first > 0 else 1 - beyond
    return mp.mpf(x <= 0)


@cache
def discrete_gaussian_sums(sigma):
    """Sums of exp(-j²/(2σ²)) over j >= m, for each m."""
    with mp.workdps(40):
        terms = [mp.exp(-((j / mp.mpf(sigma)) ** 2) / 2) for j in range(int(60 * sigma) + 700)]
        return list(accumulate(reversed(terms)))[::-1]


@cache
def binomial_masses(n, p):
    with mp.workdps(40):
        p = mp.mpf(p)
        return [mp.binomial(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]


@cache
def poisson_masses(rate):
    with mp.workdps(40):
        kmax = int(rate + 60 * np.sqrt(rate) + 500)
        return [mp.exp(-mp.mpf(rate)) * mp.mpf(rate) ** k / mp.factorial(k) for k in range(kmax)]


def assert_tails(one, pmf, points):
    """Compare the tails of a law by either way with sums of 40 digits."""
    noise, filler = one.noise, np.zeros(100)  # enough points for the recursion
    many = [tail(np.append(points, filler)) for tail in (one.upper, one.lower)]
    beyond = cache(partial(noise_tail, noise))
    with mp.workdps(40):
        for i, t in enumerate(map(mp.mpf, points)):
            upper = mp.fsum(mass * beyond(t - k) for k, mass in enumerate(pmf))
            lower = mp.fsum(mass * beyond(k - t) for k, mass in enumerate(pmf))
            for tail, found, want in zip((one.upper, one.lower), many, (upper, lower), strict=True):
                assert_close(tail(points[i, ...]), want)
                assert_close(found[i], want)


def assert_close(got, want, rtol=1e-12):
    if want > 1e-300:
        assert abs(mp.mpf(float(got)) / want - 1) < rtol


@pytest.mark.thinned("noise", "n", every=3)
@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize(("n", "p"), CASES)
def test_tails_to_1e_300(n, p, noise):
    sd = np.sqrt(n * p * (1 - p) + noise.variance)
    points = n * p + sd * np.array([-15.0, -3.0, -0.4, 1.1, 4.0, 12.0])
    if noise.is_integer:
        points = np.round(points)
    assert_tails(law(n, p, noise), binomial_masses(n, p), points)


@pytest.mark.thinned("noise", "rate", every=3)
@pytest.mark.parametrize("noise", POISSON_NOISES, ids=repr)
@pytest.mark.parametrize("rate", [0.02, 1.0, 37.5, 640.0])
def test_poisson_tails_in_high_precision(rate, noise):
    sd = np.sqrt(rate + noise.variance)
    points = np.round(rate + sd * np.array([-12.0, -3.0, -0.4, 1.1, 5.0, 20.0]))
    assert_tails(poisson(rate, noise), poisson_masses(rate), points)


@pytest.mark.thinned("noise", "n", every=2)
@pytest.mark.parametrize("noise", [Laplace(scale=300.0), Geometric(scale=50.0)], ids=repr)
@pytest.mark.parametrize("n", [10**4, 10**6, 10**8])
def test_closed_and_recursion_agree(n, noise):
    """Two algorithms: integrals row by row, and a recursion over all counts."""
    p = 0.255
    sd = np.sqrt(n * p * (1 - p) + noise.variance)
    points = np.round(n * p + sd * np.array([-60.0, -8.0, 0.0, 3.0, 20.0, 100.0]))
    both = law(n, p, noise)
    filler = np.zeros(30_000)  # enough points for the recursion to be the shorter way
    for tail in (both.upper, both.lower):
        recursion = tail(np.append(points, filler))[: points.size]
        closed = np.array([tail(np.asarray(t)) for t in points])
        kept = closed > 1e-290
        np.testing.assert_allclose(recursion[kept], closed[kept], rtol=1e-12)


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


@pytest.mark.parametrize("kind", [Laplace, Geometric, Gaussian, DiscreteGaussian, None])
def test_rows_with_laws_of_their_own_in_high_precision(kind):
    """A scale, a number of trials and a proportion for each row, in both tails."""
    rng, rows = np.random.default_rng(7), 16
    n = np.floor(np.exp(rng.uniform(0, np.log(300), rows)))
    p = rng.choice([rng.uniform(size=rows), 10 ** rng.uniform(-9, -1, rows)])
    p = np.where(rng.random(rows) < 0.5, p, 1.0 - p)
    scale = np.exp(rng.uniform(np.log(0.05), np.log(12), rows))
    parameter = "sigma" if kind in (Gaussian, DiscreteGaussian) else "scale"
    noise = kind(**{parameter: scale}) if kind else Exact()
    sd = np.sqrt(n * p * (1 - p) + noise.variance)
    t = n * p + sd * rng.uniform(-1, 1, rows) * rng.choice([2.0, 25.0], rows)
    t = np.round(t) if noise.is_integer else t
    together = NoisyBinomial(nobs=n, value=p, noise=noise)
    found = np.stack([together.upper(t), together.lower(t)])
    with mp.workdps(40):
        for i in range(rows):
            own, pmf = noise.take(i), binomial_masses(int(n[i]), p[i])
            for side, got in zip((1, -1), found[:, i], strict=True):
                distances = (side * (mp.mpf(t[i]) - k) for k in range(len(pmf)))
                tails = (noise_tail(own, x) for x in distances)
                assert_close(got, mp.fdot(pmf, tails), 5e-13)


@pytest.mark.parametrize(
    ("n", "p", "noise", "t"),
    [
        (257, 2e-165, Laplace(scale=4e-17), -5.7e-17),  # as near to a whole number as can be
        (17, 2.2e-9, Geometric(scale=0.0046), 18),  # the chance of a success beside that of noise
        (300, 0.52, Laplace(scale=0.002), 120.97),  # a fall beyond the range of floats
        (666, 0.5, Exact(), 0),
        (721, 2e-141, Gaussian(sigma=0.13), 2.83),  # noise between counts of which one is all
        (15, 0.3, Gaussian(sigma=0.01), 7.5),
        (15, 1.0 - 1e-12, DiscreteGaussian(sigma=2.9), -3),
        (39, 1.5e-184, Gaussian(sigma=3.4), 40.0),  # the tilt that reaches t is that of the noise
        (39, 1e-9, DiscreteGaussian(sigma=3.1), 39),
        # between π and 2π the counts grow back before the noise has fallen, or do not
        (9, 0.4, Gaussian(sigma=1.6), 5.25),
        (60, 0.3, DiscreteGaussian(sigma=1.55), 31),
        (300, 0.2, Gaussian(sigma=2.2), 75.5),
        (40, 0.5, DiscreteGaussian(sigma=2.4), 8),
    ],
)
def test_corners_in_high_precision(n, p, noise, t):
    rows = NoisyBinomial(nobs=np.array([n, 3.0]), value=np.array([p, 0.5]), noise=noise)
    points = np.array([float(t), 1.0])
    with mp.workdps(40):
        masses = binomial_masses(n, p)
        for got, side in ((rows.upper(points)[0], 1), (rows.lower(points)[0], -1)):
            tails = (noise_tail(noise, side * (mp.mpf(float(t)) - k)) for k in range(n + 1))
            assert_close(got, mp.fdot(masses, tails))


@pytest.mark.parametrize("noise", [Laplace(scale=2.0), Gaussian(sigma=5.0), Exact()], ids=repr)
@pytest.mark.parametrize("scale", [1e-260, 1e-4, 1e15])
def test_what_no_count_reaches_has_no_chance(noise, scale):
    t = np.array([1e30, 1e186, 1e299])
    rates = np.array([scale, scale / 2, scale / 3])
    noisy = NoisyPoisson(rate=rates, noise=noise)
    assert noisy.upper(t).tolist() == noisy.lower(-t).tolist() == [0.0, 0.0, 0.0]
    assert noisy.lower(t).tolist() == noisy.upper(-t).tolist() == [1.0, 1.0, 1.0]
    assert noisy.outside(-t, t).tolist() == [0.0, 0.0, 0.0]


def test_narrow_noise_far_beyond_many_trials_takes_no_memory():
    n = np.array([176290622962169.0, 1e12])
    noisy = NoisyBinomial(nobs=n, value=np.asarray(1e-250), noise=DiscreteGaussian(sigma=1e-20))
    assert noisy.upper(n).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "noise",
    [
        Laplace(scale=40.0),
        Gaussian(sigma=0.7),
        Gaussian(sigma=3e3),
        DiscreteGaussian(sigma=2.5),
        DiscreteGaussian(sigma=50.0),
    ],
    ids=repr,
)
def test_a_billion_trials_against_the_sum_over_all_that_matter(noise):
    n, p = 10**9, 0.255
    one, sd = law(n, p, noise), np.sqrt(n * p * (1 - p) + noise.variance)
    for distance in (-6.0, 0.0, 0.4, 12.0):
        t = np.round(n * p + distance * sd)
        # the terms are largest between the mean and t
        low, high = sorted([n * p, t])
        k = np.arange(np.floor(low - 1.3e5), high + 1.3e5)
        pmf = binom_pmf(k, np.asarray(float(n)), np.asarray(p))
        for tail, sign in ((one.upper, 1.0), (one.lower, -1.0)):
            expected = pmf @ noise.cdf(sign * (k - t))
            # 3e5 products are added up
            np.testing.assert_allclose(tail(np.asarray(t)), expected, rtol=2e-12)
    both = one.outside(*np.round(n * p + sd * np.array([[-0.4], [1.3]])))
    expected = [one.lower(np.round(n * p - 0.4 * sd)), one.upper(np.round(n * p + 1.3 * sd))]
    np.testing.assert_allclose(both, sum(expected), rtol=2e-13)


@pytest.mark.thinned("kind", "counts", every=2)
@pytest.mark.parametrize("kind", [Gaussian, DiscreteGaussian])
@pytest.mark.parametrize("counts", ["binomial", "Poisson"])
def test_both_tails_against_the_sum_over_all_counts(counts, kind):
    """Rows of few and many trials, narrow and wide noise, near the mean and far from it."""
    rng, rows = np.random.default_rng(8), 120
    n = np.floor(np.exp(rng.uniform(0, np.log(5000), rows)))
    p = np.where(rng.random(rows) < 0.3, 10 ** rng.uniform(-4, -1, rows), rng.random(rows))
    noise = kind(sigma=np.exp(rng.uniform(np.log(0.4), np.log(40), rows)))
    if counts == "binomial":
        law = NoisyBinomial(nobs=n, value=p, noise=noise)
        spread = np.sqrt(n * p * (1 - p) + noise.variance)
    else:
        law, spread = NoisyPoisson(rate=n * p, noise=noise), np.sqrt(n * p + noise.variance)
    low, high = n * p - spread * rng.uniform(0, 4, rows), n * p + spread * rng.uniform(0, 4, rows)
    if noise.is_integer:
        low, high = np.floor(low), np.ceil(high)
    found = law.outside(low, high)
    for i in range(rows):
        k = np.arange(n[i] + 1 if counts == "binomial" else n[i] * p[i] + 20 * spread[i])
        pmf = binom_pmf(k, n[i], p[i]) if counts == "binomial" else poisson_pmf(k, n[i] * p[i])
        own = noise.take(i)
        expected = math.fsum(pmf * (own.cdf(low[i] - k) + own.cdf(k - high[i])))
        np.testing.assert_allclose(found[i], expected, rtol=5e-13)


@pytest.mark.thinned("most", "sigma", "kind", "counts", every=4)
@pytest.mark.parametrize(("most", "p"), [(1500, 0.2), (90, 0.4), (4000, 0.005), (3000, 0.997)])
@pytest.mark.parametrize("sigma", [0.3, 0.45, 1.1, 2.5])
@pytest.mark.parametrize("kind", [Gaussian, DiscreteGaussian])
@pytest.mark.parametrize("counts", ["binomial", "Poisson"])
def test_many_rows_that_share_a_proportion_against_sums_over_all_counts(
    counts, kind, sigma, most, p
):
    """So many rows that tails are interpolated, beside tables of all probabilities."""
    rng, rows = np.random.default_rng(9), 20_000
    n, noise = rng.integers(1, most, rows).astype(float), kind(sigma=sigma)
    together = law(n, p, noise) if counts == "binomial" else poisson(n * p, noise)
    spread = np.sqrt(n * p * (1 - p if counts == "binomial" else 1) + noise.variance)
    away = spread * rng.uniform(0, 1, rows) * rng.choice([3.0, 9.0, 20.0], rows, p=[0.6, 0.3, 0.1])
    low, high = n * p - away, n * p + away
    if noise.is_integer:
        low, high = np.floor(low), np.ceil(high)
    found = np.stack([together.lower(low), together.upper(high), together.outside(low, high)])
    for i in rng.choice(rows, 50, replace=False)[:30]:
        one = law(n[i], p, noise) if counts == "binomial" else poisson(n[i] * p, noise)
        lower, upper = one.lower(low[i]), one.upper(high[i])
        np.testing.assert_allclose(found[:, i], [lower, upper, lower + upper], rtol=5e-13)


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


@pytest.mark.parametrize("points", [1, 50])
@pytest.mark.parametrize("noise", [Laplace(scale=2.0), Gaussian(sigma=2.0)], ids=repr)
def test_memory_is_bounded_for_large_n(noise, points):
    n, p = 10**9, 0.255
    t = n * p + np.linspace(-1e4, 1e4, points)
    tracemalloc.start()
    law(n, p, noise).upper(t)
    _, highest = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert highest < 100e6


def test_rows_are_independent_of_each_other():
    noise = IndependentNoise([Laplace(scale=2.0), Exact(), Gaussian(sigma=4.0)])
    rates = np.array([3.0, 50.0, 2000.0])
    t = np.array([7.5, 60.0, 2100.0])
    together = NoisyPoisson(rate=rates, noise=noise).upper(t)
    alone = [poisson(rates[i], noise.take(i)).upper(np.asarray(t[i])) for i in range(3)]
    np.testing.assert_allclose(together, alone, rtol=1e-13)
    assert together[1] == pytest.approx(stats.poisson.sf(59, 50.0), rel=1e-12)


def test_poisson_draws_have_the_law():
    noisy = poisson(25.0, Laplace(scale=2.0))
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
    shared = poisson(50.0, Laplace(scale=2.0)).rows(2)
    assert [float(row.rate) for row in shared] == [50.0, 50.0]
    assert all(row.is_one_law for row in shared)


@pytest.mark.parametrize("noise", [Laplace(scale=3e4), Gaussian(sigma=3e4)], ids=repr)
def test_far_tails_of_high_rates(noise):
    """Where the peak of the terms is far from the mode: against the sum over all counts."""
    rate = 1e6
    noisy = poisson(rate, noise)
    k = np.arange(9.0e5, 1.6e6)
    pmf = stats.poisson.pmf(k, rate)
    for t in (1.02e6, 1.1e6, 1.3e6):
        expected = float(pmf @ noise.sf(t - k))
        assert float(noisy.upper(np.asarray(t))) == pytest.approx(expected, rel=1e-9)


def test_few_draws_of_high_rates_have_the_law():
    noisy, quantiles = (
        poisson(1e9, Geometric(scale=2e4)),
        stats.norm.ppf(MIDDLES, 1e9, np.sqrt(1e9)),
    )
    draws = noisy.draw(20_000, np.random.default_rng(5))
    assert np.all(draws == np.round(draws))
    for t in (1e9 - 3e4, 1e9, 1e9 + 4e4):
        chance = float(np.mean(noisy.noise.sf(t - quantiles - 1.0)))
        # 6 standard errors: 2e-9; the mean over 2000 quantiles is right to 1e-3
        error = 6 * np.sqrt(chance * (1 - chance) / draws.size)
        assert abs(np.mean(draws >= t) - chance) < error + 1e-3


def test_sums_over_too_many_counts_are_refused():
    summed = WeightedSum([1.0, 1.0], Laplace(scale=3.0))
    with pytest.raises(InvalidParameterError, match=r"rate, or the noise, must be smaller .* at 2"):
        poisson(1e17, summed).upper(np.array([1e17, 1.0001e17]))


def test_slopes_are_those_of_the_logarithmic_probabilities():
    k = np.arange(60.0)
    for noisy, counts in (
        (poisson(25.0, Exact()), stats.poisson(25.0)),
        (
            NoisyBinomial(nobs=np.asarray(90.0), value=np.asarray(0.3), noise=Exact()),
            stats.binom(90, 0.3),
        ),
    ):
        slopes = np.diff(counts.logpmf(np.arange(61.0)))
        np.testing.assert_allclose(np.log(noisy._ratio(k)), slopes, rtol=1e-9, atol=1e-9)
