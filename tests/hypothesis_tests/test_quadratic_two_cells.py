"""Direct routes to the law of two cells, and of few with whole-numbered noise, at all sizes."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer.hypothesis_tests import chisquare
from dpinfer.hypothesis_tests._quadratic.cells import Cells, Transform
from dpinfer.hypothesis_tests._quadratic.law import (
    FirstAccurate,
    Inversion,
    QuadraticLaw,
)
from dpinfer.hypothesis_tests._quadratic.listed import Enumeration
from dpinfer.hypothesis_tests._quadratic.two_cells import TwoSmoothCells, TwoWholeCells
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    IndependentNoise,
    Laplace,
    Tulap,
)


def pearson_law(nobs, share, noise, value=None):
    share = np.asarray(share) / np.sum(share)
    expected = nobs * share
    return QuadraticLaw(nobs, share if value is None else value, expected, 1 / expected, noise)


def route(law):
    """The class of the way that is taken at the points asked for last."""
    return type(law._tails.made[-1])


def conditioned(law, noises, q):
    """P(Q <= q) for two cells, given the count and the whole-numbered noise of the first."""
    first, second = noises
    reach = 0 if isinstance(first, Exact) else int(first.isf(1e-17))
    count = np.arange(law.nobs + 1.0)
    chance = stats.binom.pmf(count, law.nobs, law.value[0])
    count, chance = count[chance > 1e-20], chance[chance > 1e-20]
    total = 0.0
    for e in range(-reach, reach + 1):  # every noise of the first cell
        rest = q - law.weight[0] * np.square(count + e - law.centre[0])
        radius = np.sqrt(np.maximum(rest, 0.0) / law.weight[1])
        shift = law.nobs - count - law.centre[1]
        high = np.floor(radius - shift + 1e-9)
        low = np.ceil(-radius - shift - 1e-9)
        inside = np.where(rest >= -1e-9, second.cdf(high) - second.cdf(low - 1.0), 0.0)
        probability = 1.0 if isinstance(first, Exact) else first.pmf(float(e))
        total += probability * float(chance @ np.maximum(inside, 0.0))
    return total


@pytest.mark.parametrize(
    ("noises", "nobs", "share"),
    [
        ([Geometric(scale=2.0)] * 2, 50, [0.3, 0.7]),
        pytest.param([Geometric(scale=2.0)] * 2, 1_000_000, [0.3, 0.7], marks=pytest.mark.slow),
        pytest.param(
            [DiscreteGaussian(sigma=10.0)] * 2, 20_000, [0.411, 0.589], marks=pytest.mark.slow
        ),
        ([Geometric(scale=3.0), DiscreteGaussian(sigma=2.0)], 1000, [0.001, 0.999]),
        ([Exact(), Geometric(scale=1.0)], 333, [1.0, 2.0]),
    ],
    ids=str,
)
def test_two_whole_numbered_cells_given_the_first_noise(noises, nobs, share):
    law = pearson_law(nobs, share, IndependentNoise(noises))
    # on the atom that has the expected count, rounded, and between atoms, into the tails
    tie = law.weight @ np.square(np.round(law.centre) - law.centre + [2.0, -1.0])
    for q in (0.0, tie, 0.5, 4.3, 30.0):
        expected = conditioned(law, noises, q)
        assert law.lower(q) == pytest.approx(expected, rel=0, abs=1e-12)
        # just below an atom, and above it
        assert law.upper(q * (1 + 1e-9) + 1e-8) == pytest.approx(1.0 - expected, rel=0, abs=1e-12)
    assert route(law) is TwoWholeCells
    assert np.all(law.error([0.0, 4.3, 30.0]) <= 1e-12)


def test_two_whole_numbered_cells_without_noise_are_a_binomial_test():
    law = pearson_law(2_000_000, [0.25, 0.75], Exact())
    binomial = stats.binom(2_000_000, 0.25)
    for distance in (0, 1, 700, 4000):
        q = distance**2 * law.weight.sum()
        inside = binomial.cdf(500_000 + distance) - binomial.cdf(499_999 - distance)
        # scipy's own error for so many trials is near 1e-11
        assert law.lower(q) == pytest.approx(inside, abs=1e-10)
        beyond = 1.0 - inside + binomial.pmf(500_000 - distance) + binomial.pmf(500_000 + distance)
        assert law.upper(q) == pytest.approx(min(1.0, beyond), abs=1e-10)


def beyond(nobs, share, scales, point):
    """P(Q >= Q(point)) in sixty digits: every count and every noise, in whole numbers and powers.

    The expected counts are whole, so that ties are ties.
    """
    expected = [round(nobs * share), nobs - round(nobs * share)]

    def size(first, second):
        return (first - expected[0]) ** 2 * expected[1] + (second - expected[1]) ** 2 * expected[0]

    with mpmath.workdps(60):
        tables = []
        for scale in scales:
            reach = int(130 * scale)
            rate = 1 / mpmath.mpf(scale) if scale else mpmath.inf
            pmf = [mpmath.tanh(rate / 2) * mpmath.exp(-e * rate) for e in range(1, reach + 1)]
            tables.append([*pmf[::-1], mpmath.tanh(rate / 2), *pmf])
        first, second = tables
        up_to = list(itertools.accumulate(second, initial=mpmath.mpf(0)))
        total, threshold = mpmath.mpf(0), size(*point)
        p = mpmath.mpf(share)
        for x in range(nobs + 1):
            binomial = mpmath.binomial(nobs, x) * p**x * (1 - p) ** (nobs - x)
            centre = expected[1] - (nobs - x)  # of the noise of the second cell
            for i, chance in enumerate(first):
                rest = threshold - size(x + i - len(first) // 2, expected[1])
                # the least distance from the centre that is enough
                least = 0 if rest <= 0 else math.isqrt(-(-rest // expected[0]) - 1) + 1
                reach, number = len(second) // 2, len(second)
                below = min(max(centre - least + reach + 1, 0), number)
                above = min(max(reach - (centre + least) + 1, 0), number)  # by symmetry
                tail = 1 if least == 0 else up_to[below] + up_to[above]
                total += binomial * chance * tail
        return float(total)


@pytest.mark.parametrize(
    ("nobs", "share", "scales", "point"),
    [
        (48, 0.25, (1.0, 1.0), (40, 8)),
        (48, 0.25, (1.0, 1.0), (60, -8)),
        (40, 0.5, (0.0, 2.0), (38, -35)),
        (64, 0.25, (0.0, 0.0), (60, 4)),
        (32, 0.5, (0.5, 1.0), (60, -40)),
    ],
    ids=str,
)
def test_small_tails_of_two_cells_are_accurate_relative_to_their_size(nobs, share, scales, point):
    noises = [Geometric(scale=scale) if scale else Exact() for scale in scales]
    result = chisquare(
        point,
        [nobs * share, nobs * (1 - share)],
        nobs=nobs,
        mechanism=IndependentNoise(noises),
        method="exact",
    )
    expected = beyond(nobs, share, scales, point)
    if expected < 1e-30:
        assert result.pvalue == result.pvalue_error == 1e-30
        assert "< 1e-30" in repr(result)
        return
    assert expected < 1e-9
    assert result.pvalue_error == 0.0
    assert result.pvalue == pytest.approx(expected, rel=1e-11, abs=0.0)


@pytest.mark.thinned("noise", "value", every=2)
@pytest.mark.parametrize("noise", [Laplace(scale=5.0), Gaussian(sigma=3.0)], ids=repr)
@pytest.mark.parametrize("value", [None, np.array([0.35, 0.65])], ids=["null", "power"])
def test_quadrature_agrees_with_the_inversion(noise, value):
    law = pearson_law(60, [0.4, 0.6], noise, value)
    inversion = Inversion(
        Transform(Cells.collect(60, law.value, law.centre, law.weight, noise)), None
    )
    points = np.array([2.0, 9.0, 25.0])
    error = inversion.error(points)
    assert np.all(error < 1e-4)
    assert np.all(np.abs(law.upper(points) - inversion.upper(points)) <= error + 1e-12)
    assert np.all(np.abs(law.lower(points) - inversion.lower(points)) <= error + 1e-12)
    assert route(law) is TwoSmoothCells
    assert law.upper(0.0) == 1.0
    assert law.lower(0.0) == 0.0
    assert law.upper(1e6) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("noise", "nobs", "share"),
    [
        (Laplace(scale=2.0), 1_000_000, [0.3, 0.7]),
        (IndependentNoise([Laplace(scale=30.0), Gaussian(sigma=50.0)]), 10_000, [0.2, 0.8]),
        (Geometric(scale=50.0), 100_000, [0.45, 0.55]),
        (DiscreteGaussian(sigma=5.0), 1_000, [0.2, 0.3, 0.5]),
        (Geometric(scale=2.0), 1_000, [0.2, 0.3, 0.35, 0.15]),
    ],
    ids=str,
)
def test_simulation(noise, nobs, share):
    law = pearson_law(nobs, share, noise)
    rng, reps = np.random.default_rng(31), 200_000
    published = rng.multinomial(nobs, law.value, reps) + noise.rvs((reps, len(share)), rng=rng)
    statistic = np.square(published - law.centre) @ law.weight
    for q in np.quantile(statistic, [0.2, 0.9, 0.999]):
        value = law.upper(q)
        assert law.error(q) <= 1e-12
        # 6 standard errors of each of three: 6e-9 in all
        assert abs(value - np.mean(statistic >= q - 1e-9)) < 6 * np.sqrt(value * (1 - value) / reps)


def test_lists_of_values_agree_with_two_cells():
    """The same numbers by two routes that share no formula."""
    noise = IndependentNoise([Geometric(scale=2.0), DiscreteGaussian(sigma=3.0)])
    law = pearson_law(1000, [0.3, 0.7], noise)
    cells = Cells.collect(1000, law.value, law.centre, law.weight, noise)
    listed = Enumeration(cells, Transform(cells).circle | 1)
    points = np.array([0.0, 0.7, 12.0, 1.0, 40.0])
    for tail in ("upper", "lower"):
        found = getattr(listed, tail)(points)
        np.testing.assert_allclose(found, getattr(law, tail)(points), rtol=0, atol=1e-12)


@pytest.mark.parametrize("noise", [Geometric(scale=2.0), Exact(), Tulap(scale=5.0)], ids=repr)
def test_what_is_beyond_reach_says_so(noise):
    """Three uneven cells at large n: single atoms matter, and are too many to list."""
    law = pearson_law(300_000, [0.21, 0.33, 0.46], noise)
    assert law.error(4.0) > 1e-8


def test_ways_are_made_only_where_they_are_needed():
    class Way:
        def __init__(self, error):
            self.own = error

        def upper(self, q):
            return np.full(q.shape, self.own)

        lower = upper

        def error(self, q):
            return np.where(q > 1.0, self.own, 0.0)

    made = []

    def maker(error):
        def make():
            made.append(error)
            return Way(error)

        return make

    tails = FirstAccurate([lambda: None, maker(5e-7), maker(1e-7), maker(2e-7)])
    assert tails.error(np.array(0.5)) == 0.0
    assert made == [5e-7]
    assert tails.upper(np.array([0.5, 2.0])).tolist() == [5e-7, 1e-7]
    assert tails.error(np.array([0.5, 2.0])).tolist() == [0.0, 1e-7]
    assert made == [5e-7, 1e-7, 2e-7]


@settings(derandomize=True, deadline=None, max_examples=10)
@given(
    nobs=st.integers(1, 10**6),
    share=st.floats(1e-6, 1 - 1e-6),
    scale=st.floats(1e-3, 300.0),
    kind=st.sampled_from([Laplace, Geometric, Gaussian, DiscreteGaussian]),
    q=st.floats(-1.0, 1e4),
)
def test_tails_are_complementary(nobs, share, scale, kind, q):
    noise = kind(scale=scale) if kind in (Laplace, Geometric) else kind(sigma=scale)
    law = pearson_law(nobs, [share, 1.0 - share], noise)
    if law.error(q) > 1e-8:
        return
    upper, lower = law.upper(q), law.lower(q)
    assert 0.0 <= upper <= 1.0
    assert 0.0 <= lower <= 1.0
    assert upper + lower >= 1.0 - 2e-8
    if not noise.is_integer:
        assert upper + lower == pytest.approx(1.0, abs=2e-8)
