"""The exact law of quadratic statistics against enumeration, quadrature and simulation."""

import pickle
from itertools import pairwise, product
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests._quadratic.cells import (
    Cells,
    Interpolated,
    Single,
    Transform,
)
from dpinfer.hypothesis_tests._quadratic.law import (
    Inversion,
    QuadraticLaw,
    lattice_of,
)
from dpinfer.hypothesis_tests._quadratic.listed import Enumeration
from dpinfer.hypothesis_tests._quadratic.noises import noise_parts
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    IndependentNoise,
    Laplace,
    Tulap,
    WeightedSum,
)


def pearson_law(expected, noise, value=None):
    expected = np.asarray(expected, dtype=float)
    n = round(expected.sum())
    value = expected / n if value is None else np.asarray(value)
    return QuadraticLaw(n, value, expected, 1.0 / expected, noise)


def tables(n, k):
    """All tables of k counts that add up to n."""
    return [counts for counts in product(range(n + 1), repeat=k) if sum(counts) == n]


def multinomial(counts, p):
    n = sum(counts)
    chance = float(factorial(n))
    for count, q in zip(counts, p, strict=True):
        chance *= q**count / factorial(count)
    return chance


def enumerated(law, reach, points):
    """P(Q >= q) and P(Q <= q) from all tables and all whole-numbered noises, up to a reach."""
    p, k = law.value / law.value.sum(), law.value.size
    noise = np.arange(-reach, reach + 1)
    upper, lower = np.zeros(len(points)), np.zeros(len(points))
    for counts in tables(law.nobs, k):
        statistic, chance = np.zeros(1), np.array([multinomial(counts, p)])
        for i in range(k):
            own = law.weight[i] * np.square(counts[i] + noise - law.centre[i])
            statistic = np.add.outer(statistic, own).ravel()
            cell = law.noise.take(i) if law.noise.shape else law.noise
            chance = np.multiply.outer(chance, cell.pmf(noise)).ravel()
        for place, q in enumerate(points):
            upper[place] += chance[statistic >= q - 1e-9].sum()
            lower[place] += chance[statistic <= q + 1e-9].sum()
    return upper, lower


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        ([2.0, 3.0], None),
        ([2.5, 2.5], None),
        ([0.3, 4.7], [0.5, 0.5]),
        ([1.0, 2.0, 1.0], None),
        ([np.pi - 2.0, 1.0, 5.0 - np.pi], [0.2, 0.5, 0.3]),
        ([1.0, 1.0, 1.0], [0.0, 0.4, 0.6]),
    ],
)
@pytest.mark.parametrize(
    ("noise", "reach"), [(Geometric(scale=0.5), 20), (DiscreteGaussian(sigma=1.2), 11)], ids=repr
)
def test_enumeration_with_whole_numbered_noise(expected, value, noise, reach):
    law = pearson_law(expected, noise, value)
    points = [0.0, 1.0, 2.0, 2.2, 8.0, 31.7, 80.0]
    upper, lower = enumerated(law, reach, points)
    np.testing.assert_allclose(law.upper(points), upper, rtol=0, atol=1e-12)
    np.testing.assert_allclose(law.lower(points), lower, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("n", "k"), [(20, 2), (20, 3), (8, 4), (6, 5)])
def test_enumeration_without_noise(n, k):
    expected = n * np.random.default_rng(k).dirichlet(np.ones(k))
    law = pearson_law(expected, Exact())
    atoms = np.array([np.sum((np.array(c) - expected) ** 2 / expected) for c in tables(n, k)])
    chance = np.array([multinomial(c, expected / n) for c in tables(n, k)])
    points = np.concatenate([np.sort(atoms)[:: atoms.size // 12], [atoms.max() + 1.0]])
    upper = [chance[atoms >= q - 1e-9].sum() for q in points]
    lower = [chance[atoms <= q + 1e-9].sum() for q in points]
    np.testing.assert_allclose(law.upper(points), upper, rtol=0, atol=1e-12)
    np.testing.assert_allclose(law.lower(points), lower, rtol=0, atol=1e-12)


def test_enumeration_with_noise_of_different_kinds():
    noise = IndependentNoise([Geometric(scale=0.5), Exact(), DiscreteGaussian(sigma=0.8)])
    law = pearson_law([1.2, 2.0, 0.8], noise)
    points = [0.0, 1.5, 5.0, 20.0]
    np.testing.assert_allclose(law.upper(points), enumerated(law, 20, points)[0], atol=1e-12)


def by_quadrature(expected, noise, q):
    """P(Q >= q) for two cells: over the tables, and over the noise of the first cell."""
    n = round(sum(expected))
    first, second = expected

    def integrand(y, count):
        rest = q - (y - first) ** 2 / first
        half = np.sqrt(max(rest, 0.0) * second)
        shift = n - count - second
        # P(abs(e + shift) >= half)
        return noise.pdf(y - count) * (noise.sf(half - shift) + noise.cdf(-half - shift))

    total = 0.0
    for count in range(n + 1):
        chance = multinomial((count, n - count), np.array(expected) / n)
        end = np.sqrt(q * first)
        edges = np.unique(np.clip(np.arange(-60.0, 61.0), first - end, first + end))
        inside = sum(
            integrate.quad(integrand, *pair, args=(count,), epsabs=1e-13, limit=200)[0]
            for pair in pairwise(edges)
        )
        beyond = noise.sf(first + end - count) + noise.cdf(first - end - count)
        total += chance * (inside + beyond)
    return total


@pytest.mark.thinned("noise", "q", every=2)
@pytest.mark.parametrize("noise", [Laplace(scale=1.5), Gaussian(sigma=2.0)], ids=repr)
@pytest.mark.parametrize("expected", [pytest.param((2.0, 2.0), marks=pytest.mark.slow), (1.3, 3.7)])
@pytest.mark.parametrize("q", [1.0, 9.0])
def test_quadrature_with_continuous_noise(q, noise, expected):
    law = pearson_law(expected, noise)
    value = by_quadrature(expected, noise, q)
    assert law.upper(q) == pytest.approx(value, abs=max(2e-10, 2 * law.error(q)))
    assert law.error(q) <= 1e-8
    assert law.lower(q) == pytest.approx(1.0 - value, abs=1e-8)


@pytest.mark.thinned("noise", "expected", every=2)
@pytest.mark.parametrize("noise", [Exact(), Geometric(scale=1.5)], ids=repr)
@pytest.mark.parametrize("expected", [[5.0, 5.0, 5.0], [4.0, 6.0, 10.0], [25.0, 25.0]])
def test_routes_agree(noise, expected):
    law = pearson_law(expected, noise)
    cells = Cells.collect(law.nobs, law.value, law.centre, law.weight, noise)
    transform = Transform(cells)
    lattice = lattice_of(cells)
    routes = [
        Enumeration(cells, transform.circle | 1),
        Inversion(transform, lattice),
    ]
    points = np.array([0.0, 1.0, 1.2, 6.4, 20.0])
    for tail in ("upper", "lower"):
        values = [getattr(route, tail)(points) for route in routes]
        np.testing.assert_allclose(values[1], values[0], rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    "seed", [0, 1, 5, *(pytest.param(x, marks=pytest.mark.study) for x in (2, 3, 4))]
)
def test_inversion_of_few_uneven_cells_is_as_accurate_as_it_says(seed):
    """Beside lists of all values, whose errors are below 1e-12."""
    rng = np.random.default_rng(seed)
    k, nobs = int(rng.integers(4, 6)), int(rng.integers(5, 20))
    share, value = rng.dirichlet(np.full(k, 4.0), 2)
    noise = [Geometric(scale=0.9), DiscreteGaussian(sigma=1.3), Exact()][seed % 3]
    law = pearson_law(nobs * share, noise, value if seed % 2 else None)
    cells = Cells.collect(law.nobs, law.value, law.centre, law.weight, noise)
    transform = Transform(cells)
    listed, inverted = Enumeration(cells, transform.circle | 1), Inversion(transform, None)
    mean = float(np.sum(law.weight * (nobs * law.value + noise.variance)))
    points = mean * np.array([0.4, 1.03, 2.2])
    assert np.all(listed.error(points) <= 1e-12)
    assert np.all(inverted.error(points) <= 0.1)
    wrong = np.abs(inverted.lower(points) - listed.lower(points))
    assert np.all(wrong <= inverted.error(points))


def test_waves_of_counts_show_through_narrow_noise():
    """Far from the null hypothesis the counts' being whole shows at 1e-4, where φ seemed over."""
    centre = np.array([500.0, 700.0, 600.0])
    noise = Gaussian(sigma=0.45)
    law = QuadraticLaw(1800, np.array([0.22, 0.3, 0.48]), centre, 1 / centre, noise)
    # next to linear: Q moves by the same from table to table, and by the noise
    deviations = 1800 * law.value - centre
    assert np.abs(deviations).min() > 100.0
    transform = Transform(Cells.collect(1800, law.value, centre, law.weight, law.noise))
    early, late = np.abs(transform(np.array([1.0]))), np.abs(transform(np.linspace(4.0, 9.0, 400)))
    assert early[0] < 1e-10
    assert late.max() > 1e-4
    assert law.error(120.0) > 1e-9


def test_inversion_without_a_lattice_agrees_with_the_lattice():
    """Few atoms matter to many cells: off the lattice both routes say the same."""
    expected = np.full(40, 25.0)
    cells = Cells.collect(1000, expected, expected, 1 / expected, Geometric(scale=2.0))
    transform = Transform(cells)
    lattice = lattice_of(cells)
    with_lattice, without = Inversion(transform, lattice), Inversion(transform, None)
    between = np.ceil(lattice.place(np.array([30.0, 45.0, 60.0]))) - 0.5
    q = lattice.offset + lattice.width * between
    np.testing.assert_allclose(with_lattice.upper(q), without.upper(q), rtol=0, atol=1e-4)
    # it knows that it does not see the atoms
    assert np.all(without.error(q) >= np.abs(with_lattice.upper(q) - without.upper(q)))


@pytest.mark.thinned("noise", "alike", every=2)
@pytest.mark.parametrize(
    "noise", [Geometric(scale=2.0), Laplace(scale=2.0), Gaussian(sigma=0.7), Tulap(scale=1.0)]
)
@pytest.mark.parametrize("alike", [1, 2])
def test_interpolated_cells_give_what_single_cells_give(noise, alike):
    shares = np.random.default_rng(5).dirichlet(np.full(150 // alike, 2.0))
    expected = 4000 * np.repeat(shares / alike, alike)
    cells = Cells.collect(4000, expected, expected, 1 / expected, noise)
    assert any(isinstance(factor, Interpolated) for factor in cells.factors)
    plain = Cells.collect(4000, expected, expected, 1 / expected, noise)
    singles = tuple(Single(cell, float(alike)) for cell in plain.each)
    plain.__dict__["factors"] = singles
    t = np.array([0.01, 0.05, 0.1, 0.2, 0.6])
    # pairs that are alike are squared, which doubles errors: a third of what is allowed at most
    atol = 1e-12 if alike == 1 else 7e-12
    np.testing.assert_allclose(Transform(cells)(t), Transform(plain)(t), rtol=0, atol=atol)


@pytest.mark.parametrize(
    ("expected", "noise"),
    [
        pytest.param([12.0, 18.0, 30.0, 60.0], Laplace(scale=2.0), marks=pytest.mark.slow),
        ([40.0, 60.0, 100.0, 200.0], Geometric(scale=5.0)),
        ([7.1, 8.2, 9.3, 5.4, 6.0], IndependentNoise([Gaussian(sigma=1.0)] * 3 + [Exact()] * 2)),
        (np.full(60, 10.0), DiscreteGaussian(sigma=3.0)),
        pytest.param(np.linspace(8.0, 30.0, 25), Tulap(scale=2.0), marks=pytest.mark.slow),
        pytest.param(
            np.linspace(5_000.0, 8_000.0, 16), Laplace(scale=100.0), marks=pytest.mark.slow
        ),
    ],
    ids=["laplace", "geometric", "mixed", "lattice", "tulap", "large n"],
)
def test_simulation(expected, noise):
    expected = np.asarray(expected)
    law = pearson_law(expected, noise)
    rng, reps = np.random.default_rng(7), 50_000
    shape = (reps, expected.size)
    published = rng.multinomial(law.nobs, law.value, reps) + noise.rvs(shape, rng=rng)
    statistic = np.square(published - expected) @ law.weight
    for q in np.quantile(statistic, [0.3, 0.7, 0.95]):
        share = np.mean(statistic >= q - 1e-9)
        value = law.upper(q)
        assert law.error(q) <= 1e-8
        # 6 standard errors of each of three: 6e-9 in all
        assert abs(value - share) < 6 * np.sqrt(value * (1 - value) / reps)


def test_power_against_simulation():
    """Another value than the one in centres and weights."""
    expected = np.full(20, 30.0)
    value = np.linspace(0.7, 1.3, 20) / 20
    law = pearson_law(expected, Laplace(scale=3.0), value)
    rng, reps = np.random.default_rng(8), 100_000
    published = rng.multinomial(600, value, reps) + rng.laplace(0, 3, (reps, 20))
    statistic = np.square(published - expected).sum(axis=1) / 30.0
    q = float(np.quantile(statistic, 0.4))
    share = np.mean(statistic >= q)
    # 6 standard errors: 2e-9
    assert abs(law.upper(q) - share) < 6 * np.sqrt(0.24 / reps)


def test_without_noise_many_cells_follow_scipy():
    expected = np.full(10, 1e3)
    law = pearson_law(expected, Exact())
    assert law.upper(16.92) == pytest.approx(stats.chi2.sf(16.92, 9), abs=5e-4)


def test_atoms_are_counted_on_both_sides():
    law = pearson_law([5.0, 5.0], Exact())
    # Q = (x - 5)²·2/5: the atoms of 10 throws of a coin
    binomial = stats.binom(10, 0.5)
    for x in range(6):
        q = (x - 5) ** 2 * 0.4
        assert law.upper(q * (1 + 1e-13)) == pytest.approx(min(1, 2 * binomial.cdf(x)), abs=1e-12)
        lower = binomial.cdf(10 - x) - binomial.cdf(x - 1)
        assert law.lower(q * (1 - 1e-13)) == pytest.approx(lower, abs=1e-12)


def test_what_is_not_available_is_refused():
    for noise in (
        WeightedSum([1.0, 2.0], Laplace(scale=1.0)),
        Tulap(scale=1.0, truncation=0.1),
        Geometric(scale=1e6),
    ):
        law = pearson_law([5.0, 5.0], noise)
        assert not law.is_available
        assert law.error(1.0) == np.inf
        with pytest.raises(InvalidParameterError, match="monte-carlo"):
            law.upper(1.0)


def test_what_is_not_accurate_is_on_the_safe_side():
    """Six uneven cells with whole-numbered noise: atoms too many to list, too few to vanish."""
    expected = np.array([330.0, 660.0, 1010.0, 570.0, 880.0, 990.0])
    law = pearson_law(expected, Geometric(scale=2.0))
    assert law.error(9.0) > 1e-8
    rng, reps = np.random.default_rng(9), 100_000
    noise = Geometric(scale=2.0).rvs((reps, 6), rng=rng)
    published = rng.multinomial(4440, expected / 4440, reps) + noise
    share = np.mean(np.square(published - expected) @ (1 / expected) >= 9.0)
    # 6 standard errors: 2e-9
    assert law.upper(9.0) > share - 6 * np.sqrt(share * (1 - share) / reps)
    assert law.upper(9.0) + law.lower(9.0) > 1.0


def test_pickling_and_shapes():
    law = pearson_law([5.0, 6.0, 7.0], Gaussian(sigma=2.0))
    value = law.upper([[1.0], [8.0]])
    assert value.shape == (2, 1)
    copy = pickle.loads(pickle.dumps(law))
    np.testing.assert_array_equal(copy.upper([[1.0], [8.0]]), value)
    assert law.upper(0.0) == 1.0
    assert law.upper(1e9) == 0.0
    assert law.lower(0.0) == pytest.approx(0.0, abs=1e-12)


@settings(derandomize=True, deadline=None, max_examples=2)
@given(
    cells=st.lists(st.floats(0.05, 20.0), min_size=20, max_size=30),
    nobs=st.integers(1, 2000),
    noise=st.sampled_from([Exact(), Geometric(scale=1.0), Laplace(scale=0.5), Gaussian(sigma=9.0)]),
)
def test_tails_are_monotone_and_complementary(cells, nobs, noise):
    value = np.array(cells) / sum(cells)
    law = QuadraticLaw(nobs, value, nobs * value, 1 / (nobs * value), noise)
    q = len(cells) * np.array([0.7, 1.0, 1.1, 3.0, 50.0])
    slack = np.max(law.error(q)) + 1e-10
    upper, lower = law.upper(q), law.lower(q)
    assert np.all(np.diff(upper) <= 2 * slack)
    assert np.all((upper >= 0) & (upper <= 1))
    assert np.all(upper + lower >= 1.0 - 2 * slack)


@pytest.mark.parametrize("law", [Laplace(scale=1e100), Gaussian(sigma=1e100)], ids=repr)
def test_noise_whose_moments_overflow_has_no_parts(law):
    assert noise_parts(law) is None
