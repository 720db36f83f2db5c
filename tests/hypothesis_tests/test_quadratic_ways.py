"""Ways to the law of a quadratic statistic where a cell is empty, or counts are very many."""

import tracemalloc

import numpy as np
import pytest
from scipy import stats

from dpinfer.hypothesis_tests import Multinomial, chisquare, null_distribution
from dpinfer.hypothesis_tests._quadratic import cells as terms
from dpinfer.hypothesis_tests._quadratic import law as recurrence
from dpinfer.hypothesis_tests._quadratic import listed as half
from dpinfer.hypothesis_tests._quadratic.cells import Cells, Transform
from dpinfer.hypothesis_tests._quadratic.law import Inversion, QuadraticLaw
from dpinfer.hypothesis_tests._quadratic.listed import Enumeration
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace

POINTS = np.array([0.5, 2.0, 6.0, 15.0, 40.0])


def law_of(nobs, share, noise, value=None):
    """Pearson's statistic of the shares, where the counts have others."""
    share = np.asarray(share) / np.sum(share)
    return QuadraticLaw(
        nobs, share if value is None else np.asarray(value), nobs * share, 1 / (nobs * share), noise
    )


def gaussian_tail(law, q):
    """P(Q >= q) with weights, and Gaussian noises, that are equal: given the counts, a χ².

    The counts are in two cells at most.
    """
    (first, second), spread = np.flatnonzero(law.value)[-2:], float(law.noise.sigma)
    total = 0.0
    for count in range(law.nobs + 1):
        chance = stats.binom.pmf(count, law.nobs, law.value[first])
        counts = np.zeros(law.value.size)
        counts[first], counts[second] = count, law.nobs - count
        shift = np.sum(np.square(counts - law.centre)) / spread**2
        total += chance * stats.ncx2.sf(q / (law.weight[0] * spread**2), law.value.size, shift)
    return total


@pytest.mark.parametrize("cells", [3, 8])
def test_cells_that_are_surely_empty(cells):
    """A power: cells of probability 0 hold nothing but noise."""
    value = np.zeros(cells)
    value[-2:] = 0.4, 0.6
    law = law_of(12 * cells, np.ones(cells), Gaussian(sigma=3.0), value)
    for q in (cells * 6.0, cells * 7.0, cells * 9.0):
        assert law.upper(q) == pytest.approx(gaussian_tail(law, q), abs=2e-8)
        assert law.error(q) <= 1e-8


@pytest.mark.parametrize("value", [[0.0, 1.0], [1.0, 0.0]], ids=str)
def test_one_of_two_cells_has_everything(value):
    law = law_of(9, [0.5, 0.5], Gaussian(sigma=2.0), value)
    counts = 9 * law.value - law.centre
    shift = np.sum(np.square(counts)) / 4.0
    for q in POINTS:
        expected = stats.ncx2.sf(q / (law.weight[0] * 4.0), 2, shift)
        assert law.upper(q) == pytest.approx(expected, abs=1e-11)
    whole = law_of(9, [0.3, 0.7], Geometric(scale=1.0), value)
    noise = np.arange(-60.0, 61.0)
    chance = np.multiply.outer(whole.noise.pmf(noise), whole.noise.pmf(noise))
    counts = 9 * whole.value - whole.centre
    first, second = (whole.weight[i] * np.square(counts[i] + noise) for i in (0, 1))
    statistic = np.add.outer(first, second)
    for q in POINTS:
        assert whole.upper(q) == pytest.approx(chance[statistic >= q].sum(), abs=1e-12)


def test_lists_that_are_too_long_to_be_kept(monkeypatch):
    law = law_of(8, [0.21, 0.33, 0.46], DiscreteGaussian(sigma=1.0))
    cells = Cells.collect(8, law.value, law.centre, law.weight, law.noise)
    kept = Enumeration(cells, Transform(cells).circle | 1)
    expected = kept.upper(POINTS), kept.lower(POINTS)
    monkeypatch.setattr(half, "_KEPT", 0.0)
    anew = Enumeration(cells, Transform(cells).circle | 1)
    np.testing.assert_allclose(anew.upper(POINTS), expected[0], rtol=0, atol=1e-15)
    np.testing.assert_allclose(anew.lower(POINTS), expected[1], rtol=0, atol=1e-15)
    assert not any("_everything" in vars(part) for part in anew._halves)


class TestCountsThatAreTooMany:
    """What cannot be computed is refused at once, before it is tried to list the counts."""

    @pytest.mark.parametrize(
        ("nobs", "share", "noise"),
        [
            (10**13, [0.5, 0.5], Geometric(scale=5.0)),
            (10**13, [0.4, 0.6], Laplace(scale=5.0)),
            (10**13, [0.2, 0.3, 0.5], Geometric(scale=5.0)),
            (10**15, np.ones(30), Laplace(scale=5.0)),
            (10**15, np.arange(1.0, 31.0), Geometric(scale=5.0)),
            (10**15, np.arange(1.0, 3001.0), Geometric(scale=5.0)),
        ],
        ids=str,
    )
    def test_no_memory_is_taken(self, nobs, share, noise):
        tracemalloc.start()
        try:
            law = law_of(nobs, share, noise)
            assert law.error(4.0) == np.inf
            assert tracemalloc.get_traced_memory()[1] < 2e7
        finally:
            tracemalloc.stop()
        assert not law.is_available

    def test_noise_that_is_too_wide_for_so_many_cells(self):
        """In a power, where cells cannot be interpolated."""
        share = np.arange(1.0, 201.0)
        law = law_of(2000, share, Geometric(scale=700.0), share[::-1] / share.sum())
        assert law.error(200.0) == np.inf
        assert not law.is_available

    def test_so_many_wide_noises_that_they_cannot_be_listed(self, monkeypatch):
        """Each cell has a scale of its own."""
        monkeypatch.setattr(terms, "_MOST_LISTED", 1e6)
        tracemalloc.start()
        try:
            law = law_of(10**6, np.ones(99), Geometric(scale=np.linspace(600.0, 700.0, 99)))
            assert law.error(99.0) == np.inf
            assert tracemalloc.get_traced_memory()[1] < 2e7
        finally:
            tracemalloc.stop()

    def test_the_test_simulates_and_says_why(self):
        expected = np.array([2e12, 3e12, 5e12])
        result = chisquare(
            expected + np.array([4e6, -2e6, -2e6]),
            expected,
            mechanism=Laplace(scale=5.0),
            rng=1,
            reps=999,
        )
        assert result.method == "monte-carlo"
        assert any("the exact law is not available" in note for note in result.notes)

    def test_tails_of_which_nothing_is_known_are_at_most_one(self):
        """Values so many that they are not added up, and no other way for two uneven cells."""
        model, noise = Multinomial(nobs=10**9, value=[0.3, 0.7]), Geometric(scale=500.0)
        null = null_distribution(model, noise, method="exact")
        points = np.array([1.0, 4.0, 100.0])
        assert null.pvalue(points, "larger").tolist() == [1.0, 1.0, 1.0]
        assert null.pvalue(points, "smaller").tolist() == [1.0, 1.0, 1.0]
        assert null.critical_value(0.05, "larger") == np.inf
        # near 0 it is known: Q is nearly σ²·χ² with one degree of freedom, sampling and noise
        scale = 1.0 + 2.0 * 500.0**2 / 3e8 + 2.0 * 500.0**2 / 7e8
        assert null.pvalue(0.001, "smaller") < stats.chi2.cdf(0.001 * scale, 1)

    @pytest.mark.parametrize("noise", [Geometric(scale=0.3), Laplace(scale=3.0)], ids=repr)
    def test_the_bound_on_the_points_is_one(self, noise):
        for rate in np.geomspace(1.0, 1e6, 40):
            (cell,) = Cells.collect(
                round(rate) * 2, np.ones(2), np.full(2, rate), np.full(2, 1 / rate), noise
            ).each
            assert cell.fewest_points <= cell.points.size
            if rate > 1000:
                assert cell.fewest_points > 0.9 * cell.points.size


def test_a_transform_that_is_wrong_is_not_used():
    """A characteristic function is at most 1 in size."""
    expected = np.array([12.0, 18.0, 30.0, 60.0])
    cells = Cells.collect(120, expected, expected, 1 / expected, Laplace(scale=2.0))

    class Wrong(Transform):
        def __call__(self, t):
            return super().__call__(t) * np.where(t > 20.0, 1e3 * t**4, 1.0)

    inversion = Inversion(Wrong(cells), None)
    assert inversion.usable
    for _ in range(2):  # as it finds out, and once it knows
        assert (inversion.error(POINTS) == np.inf).all()
        assert np.isnan(inversion.upper(POINTS)).all()
    assert not inversion.usable


def test_returns_that_are_not_looked_at_are_taken_to_be_larger(monkeypatch):
    """Bounds from all cells, and from none, which is 1 for each return."""
    expected = np.linspace(20.0, 90.0, 5)
    cells = Cells.collect(275, expected, expected, 1 / expected, Geometric(scale=1.0))
    transform = Transform(cells)
    looked_at = recurrence.recurrence(transform, 5.0, 2000.0)
    monkeypatch.setattr(recurrence, "_RECURRENCE_BUDGET", 1.0)
    assert 0.0 < looked_at < 0.01 * recurrence.recurrence(transform, 5.0, 2000.0)


def tiny_table(seed):
    """A dozen observations or fewer in a dozen cells or fewer, with whole-numbered noise."""
    rng = np.random.default_rng(seed)
    nobs, cells = int(rng.integers(1, 13)), int(rng.integers(2, 13))
    share = np.maximum(rng.dirichlet(np.full(cells, float(rng.integers(1, 6)))), 1e-3)
    scale = float(np.round(10 ** rng.uniform(-1.0, 0.3), 2))
    noise = [Geometric(scale=scale), DiscreteGaussian(sigma=scale)][int(rng.integers(2))]
    law = law_of(nobs, share, noise)
    mean = np.sum(law.weight * (nobs * law.value * (1.0 - law.value) + float(noise.variance)))
    return law, np.sort(mean * rng.gamma(2.0, 0.6, 5))


def wrong_by(law, points):
    """Errors of inverted tails, and those that are stated, at the points that can be listed."""
    cells = Cells.collect(law.nobs, law.value, law.centre, law.weight, law.noise)
    circle = terms.angles(law.nobs, 31.0) | 1
    listed = Enumeration(cells, circle)
    points = points[np.isfinite(listed.error(points))]
    lattice = recurrence.lattice_of(cells)
    inversion = Inversion(Transform(cells), lattice)
    stated = inversion.error(points)
    wrong = np.abs(inversion.upper(points) - listed.upper(points))
    return wrong, np.where(np.isfinite(stated), stated, 1.0)


@pytest.mark.parametrize(
    "seed", [169, *(pytest.param(x, marks=pytest.mark.study) for x in (210, 234, 274))]
)
def test_stated_errors_of_inverted_tails_of_tiny_tables(seed):
    """Single atoms are large there, and the characteristic function does not decay."""
    wrong, stated = wrong_by(*tiny_table(seed))
    assert (wrong <= stated + 2e-13).all()


def test_an_error_is_that_of_the_nodes_that_the_tail_has():
    """On a lattice tails are between two of its points: above the one asked for."""
    law = law_of(6, np.array([4, 5, 3, 2]), DiscreteGaussian(sigma=0.8))
    cells = Cells.collect(law.nobs, law.value, law.centre, law.weight, law.noise)
    inversion = Inversion(Transform(cells), recurrence.lattice_of(cells))
    point = np.array([9.0])
    error, nodes = inversion.error(point), dict(inversion._lines)
    upper, lower = inversion.upper(point), inversion.lower(point)
    assert inversion._lines == nodes
    assert inversion.error(point) == error
    listed = Enumeration(cells, terms.angles(law.nobs, 31.0) | 1)
    assert abs(upper - listed.upper(point)) <= error
    assert abs(lower - listed.lower(point)) <= error
