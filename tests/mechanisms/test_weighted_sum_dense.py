"""Whole-numbered noises with many different weights: long series, of which few terms matter."""

import numpy as np
import pytest
from scipy import fft

from dpinfer.estimation import combine_hierarchy
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Gaussian,
    Geometric,
    Laplace,
    Tulap,
    WeightedSum,
    as_noise,
    groups,
)
from dpinfer.mechanisms._sums import series as fourier
from dpinfer.mechanisms._sums.contour import NodeSearch
from dpinfer.mechanisms._sums.series import FourierSum, LatticeSeries, lattice_series
from dpinfer.mechanisms._sums.terms import collect
from dpinfer.queries import Hierarchy

Q = np.array([0.4, 0.1, 0.025, 0.005, 1e-3])

# one dominant weight and many small ones, as in estimates on trees
DOMINANT = np.array(
    [32536, *[2061] * 15, 1621, 440, 400, 396, 385, *[55] * 7, *[44] * 9, *[40] * 10]
)
UNIT = 1.0 / 34597.0


def terms_of(weights, mechanism):
    weights = np.asarray(weights, dtype=float)
    return collect(weights, groups(as_noise(mechanism, len(weights)), len(weights)))


def tails_by_masses(law, weights, size):
    """P(S > k), k >= 0, for whole weights: transforms of the listed probabilities of each term."""
    places, counts = np.unique(weights, return_counts=True)
    reach = int(law.isf(1e-19))
    masses = law.pmf(np.arange(-reach, reach + 1))
    product = np.ones(size // 2 + 1)
    for weight, count in zip(places, counts, strict=True):
        array = np.zeros(size)
        np.add.at(array, (weight * np.arange(-reach, reach + 1)) % size, masses)
        product = product * fft.rfft(array).real ** count
    mass = fft.irfft(product, size)
    return np.cumsum(mass[: size // 2][::-1])[::-1] - mass[: size // 2]


@pytest.mark.parametrize(
    ("law", "size"),
    [
        (DiscreteGaussian(sigma=2.0), 1_310_720),
        pytest.param(Geometric(scale=1.5), 1 << 22, marks=pytest.mark.slow),
    ],
)
def test_a_dominant_weight_and_many_small_ones(law, size):
    total = WeightedSum(UNIT * DOMINANT, law)
    assert isinstance(total._route, LatticeSeries)
    assert total.error_bound < 1e-12
    expected = tails_by_masses(law, DOMINANT, size)
    k = np.unique(np.rint(np.linspace(0.0, 5.0, 4001) * total.std / UNIT)).astype(int)
    assert np.max(np.abs(total.sf(UNIT * k) - expected[k])) < total.error_bound + 1e-13
    assert np.max(np.abs(total.cdf(-UNIT * k[1:]) - expected[k[1:] - 1])) < 2e-12
    between = total.sf(UNIT * (k + 0.5))
    assert np.max(np.abs(between - expected[k])) < total.error_bound + 1e-13
    at = np.rint(total.isf(Q) / UNIT).astype(int)
    assert np.all(expected[at] <= Q + 1e-12)
    assert np.all(expected[at - 1] > Q - 1e-12)
    at = np.rint(-total.ppf(Q) / UNIT).astype(int)
    assert np.all(expected[at - 1] >= Q - 1e-12)
    assert np.all(expected[at] < Q + 1e-12)


def test_far_tails_of_a_fine_lattice_are_bounded():
    total = WeightedSum(UNIT * DOMINANT, Geometric(scale=2.0))
    x = np.array([5.0, 10.0, 20.0, 40.0, 100.0]) * total.std
    logsf = total.logsf(x)
    assert np.all(np.isfinite(logsf))
    assert np.all(np.diff(logsf) < 0)
    # never below the tail of the dominant term alone, halved: the others are symmetric
    least = Geometric(scale=2.0).logsf(np.floor(x / DOMINANT[0] / UNIT)) - np.log(2.0)
    assert np.all(logsf >= least)
    q = np.array([1e-9, 1e-14, 1e-40])
    assert np.all(total.isf(q) <= total.chernoff(q) * (1 + 1e-9))
    assert np.all(total.sf(total.isf(q[:2])) <= q[:2] + total.error_bound)
    assert total.isf(0.5) == 0.0
    assert total.ppf(0.5) == 0.0


@pytest.mark.parametrize("law", [Geometric(scale=2.0), DiscreteGaussian(sigma=1.5)])
def test_series_table_and_windows_agree(law):
    weights = np.array([7, 11, 13, 29, 31, 31, 40, 64, 3, 5, 5, 100])
    windows = WeightedSum(weights / 9, law)
    known = tails_by_masses(law, weights, 1 << 15)
    k = np.arange(0, int(6.0 * 9 * windows.std))
    assert np.max(np.abs(windows.sf(k / 9) - known[k])) < 1e-14
    assert np.max(np.abs(windows.cdf(-k[1:] / 9) - known[k[1:] - 1])) < 1e-14
    upper, lower = np.rint(9 * windows.isf(Q)).astype(int), np.rint(-9 * windows.ppf(Q)).astype(int)
    np.testing.assert_allclose(windows.isf(Q), upper / 9, rtol=1e-13)
    np.testing.assert_allclose(-windows.ppf(Q), lower / 9, rtol=1e-13)
    assert np.all((known[upper - 1] > Q) & (known[upper] <= Q))
    assert np.all((known[lower - 1] >= Q) & (known[lower] < Q))
    series = lattice_series(windows._terms, 1 / 9)
    for closed in (False, True):
        gap = series.tail(k[1:] / 9, closed=closed) - known[k[1:] - closed]
        assert np.max(np.abs(gap)) < series.error_bound + 1e-14
    np.testing.assert_allclose(series.isf(Q), upper / 9, rtol=1e-13)
    np.testing.assert_allclose(series.isf(Q, strict=True), lower / 9, rtol=1e-13)
    # beside a term without a common lattice the tails are looked up in a table
    both = WeightedSum([*weights / 9, np.sqrt(2.0)], law)
    j, x = np.arange(-60, 61), np.linspace(0.05, 5.0, 101) * both.std
    at = np.floor(9 * (x[:, np.newaxis] - np.sqrt(2.0) * j)).astype(int)
    tails = np.where(at >= 0, known[np.abs(at)], 1.0 - known[np.maximum(-at - 1, 0)])
    assert np.max(np.abs(both.sf(x) - tails @ law.pmf(j))) < 1.1e-13


def test_atoms_of_a_table_are_met_in_spite_of_rounding():
    # thirds: sums of these floats are atoms only up to rounding, also those next to 0
    weights, law = np.array([991.0, 1003.0, 1994.0]) / 3.0, Geometric(scale=3.0)
    total = WeightedSum(weights, law)
    rng = np.random.default_rng(4)
    counts = rng.integers(-9, 10, (400, 3))
    expected = WeightedSum([991, 1003, 1994], law).sf(counts @ np.array([991, 1003, 1994]))
    assert np.max(np.abs(total.sf(counts @ weights) - expected)) < 1e-11
    assert np.max(np.abs(total.cdf(-(counts @ weights)) - total.cdf(-(weights @ counts.T)))) < 1e-11


def test_no_series_where_its_terms_are_many():
    assert lattice_series(terms_of([1000.0, 1.0], Geometric(scale=0.4)), 1.0) is None


MIXES = [
    ([0.9, 0.31, 0.07, 0.02], Geometric(scale=[0.3, 2.0, 5.0, 9.0])),
    (np.linspace(0.1, 1.0, 30) ** 2, DiscreteGaussian(sigma=np.linspace(0.2, 4.0, 30))),
    (
        [1.0, 0.5, 0.3, 0.2, 0.11],
        [
            Geometric(scale=1.0),
            Laplace(scale=0.02),
            DiscreteGaussian(sigma=0.9),
            Gaussian(sigma=0.01),
            Tulap(scale=1.0, truncation=0.02),
        ],
    ),
    ([1.0, 0.4, 0.17], Tulap(scale=[0.3, 0.5, 1.0])),
]


@pytest.mark.thinned("weights", "level", every=2)
@pytest.mark.parametrize(("weights", "mechanism"), MIXES)
@pytest.mark.parametrize("level", [1e-3, 1e-9])
def test_no_node_is_missed(weights, mechanism, level):
    terms = terms_of(weights, mechanism)
    period = 37.0 * terms.std
    first, last = 5, 60_000
    n = np.arange(first, last + 1.0)
    values = terms.cf(2 * np.pi * n / period, negligible=0.0)
    search = NodeSearch(terms, period, level)
    found, known = search.between(first, last)
    above = np.flatnonzero(np.abs(values) > level * (1 + 1e-6))
    assert np.isin(n[above], found).all()
    assert np.abs(values[np.isin(n, found)]).min(initial=1.0) > level * (1 - 1e-6)
    np.testing.assert_allclose(known, values[(found - first).astype(int)], rtol=1e-9, atol=1e-15)
    assert search.attempt(first, last, 10.0) is None


@pytest.mark.parametrize(
    ("weights", "mechanism"),
    [
        (np.sqrt([1, 2, 3]), Geometric(scale=[1.0, 2.0, 3.0])),
        (np.sqrt([2, 3, 5, 7]), DiscreteGaussian(sigma=0.8)),
        (np.repeat(np.sqrt([2, 3, 5]), 4), Geometric(scale=2.0)),
        (DOMINANT * UNIT, DiscreteGaussian(sigma=2.0)),
    ],
)
def test_long_brackets_hold_the_exact_law(weights, mechanism):
    exact = WeightedSum(weights, mechanism)
    assert exact.error_bound < 1e-11
    bracket = FourierSum(exact._terms)
    assert bracket.error_bound < 0.05
    x = np.concatenate([np.linspace(0, 4, 21) * exact.std, exact.isf(Q)])
    allowed = bracket.error_bound + exact.error_bound
    assert np.max(np.abs(bracket.tail(x) - exact.sf(x))) <= allowed
    assert np.max(np.abs(bracket.tail(x, closed=True) - exact.cdf(-x))) <= allowed
    # quantiles are certain, also where q is near the bound
    q = np.append(Q[2:4], bracket.error_bound * np.array([1.1, 1.9]))
    assert np.all(exact.sf(bracket.isf(q)) <= q + exact.error_bound)


def test_many_weights_have_a_narrow_bracket():
    weights = 1.0 / np.arange(1.0, 200.0) ** 1.5
    laws = (Geometric(scale=2.0), DiscreteGaussian(sigma=2.0))
    for law in laws:
        total = WeightedSum(weights, law)
        assert total.error_bound < 1e-6
        # the bracket of a degree that leaves nothing to the search
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fourier, "MAX_DEGREE", 1 << 15)
            short = FourierSum(total._terms)
        x = np.linspace(0, 5, 301) * total.std
        assert short.error_bound > 50 * total.error_bound
        assert np.max(np.abs(total.sf(x) - short.tail(x))) <= short.error_bound
        points = total.isf(Q)
        assert np.all(total.sf(points) <= Q)
        assert np.all(total.sf(points * (1 - 1e-5)) > Q - 2e-6)


@pytest.mark.parametrize("seed", [0, 1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("equal", [True, False])
def test_estimates_on_ragged_trees_against_draws(seed, equal):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(20, 300))
    parent = np.array([-1] + [int(rng.integers(0, max(1, unit // 3))) for unit in range(1, size)])
    scale = 2.0 if equal else rng.choice([1.0, 2.0, 3.5], size)
    law = Geometric(scale=scale) if seed % 2 else DiscreteGaussian(sigma=scale)
    fit = combine_hierarchy(np.zeros(size), Hierarchy(parent), mechanism=law)
    noise = fit.noise(int(rng.integers(size)))
    assert noise.error_bound < 1e-4
    count = 20_000
    draws = noise.rvs(count, rng=rng)
    # 6-sigma bounds on 4 frequencies: 1e-8 in each of the six cases
    for q in (0.3, 0.1, 0.025, 0.002):
        x = noise.isf(q)
        tail = noise.sf(x)
        assert tail <= q + noise.error_bound
        frequency = np.mean(draws > x + 1e-9 * noise.std)
        spread = np.sqrt(q * (1 - q) / count)
        assert abs(frequency - tail) < 6 * spread + 1 / count + noise.error_bound
