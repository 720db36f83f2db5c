"""The saddle grid, the contour, the Fourier bracket and the table, on laws known in closed form."""

import numpy as np
import pytest
from scipy import special

from dpinfer._numerics.inversion import HalfLineTable, SaddleGrid, SawtoothSeries, TailContour
from dpinfer.errors import ConvergenceError


def laplace_grid(scale=1.0):
    return SaddleGrid(
        lambda s: -np.log((1 - scale * s) * (1 + scale * s)), 1 / scale, np.sqrt(2) * scale
    )


def normal_grid():
    return SaddleGrid(lambda s: 0.5 * s * s, np.inf, 1.0)


def test_slope_is_the_derivative():
    grid = laplace_grid(3.0)
    assert np.allclose(grid.slope, 18.0 * grid.s / (1.0 - (3.0 * grid.s) ** 2), rtol=1e-6)
    assert np.all(np.diff(grid.slope) > 0)


def test_tilt_at_inverts_the_slope():
    assert normal_grid().tilt_at(3.0) == pytest.approx(3.0, rel=0.01)


@pytest.mark.parametrize("tilt", [0.0, 0.5, 3.0])
def test_tilted_range_holds_the_mass(tilt):
    # the tilted normal law is N(tilt, 1)
    low, high = normal_grid().tilted_range(tilt, 30.0)
    assert special.log_ndtr(low - tilt) <= -30.0
    assert special.log_ndtr(tilt - high) <= -30.0
    assert high - low < 2 * 9.0


def test_chernoff_of_the_normal_law():
    q = np.array([0.3, 1e-3, 1e-30, 1e-300])
    assert np.allclose(normal_grid().chernoff(q), np.sqrt(-2 * np.log(q)), rtol=1e-5)
    assert np.all(normal_grid().chernoff(q) >= np.sqrt(-2 * np.log(q)))


def test_a_grid_ends_where_the_law_does():
    # a fair coin with the faces -1 and 1: cosh overflows, and no tilt moves the mean beyond 1
    with np.errstate(over="ignore"):
        grid = SaddleGrid(lambda s: np.log(np.cosh(s)), np.inf, 1.0)
    assert np.isfinite(grid.k).all()
    assert np.all(np.diff(grid.slope) > 0)
    assert np.all(grid.slope <= 1.0)
    assert grid.log_chernoff(np.array([1.0]))[0] == pytest.approx(np.log(0.5), abs=1e-6)


@pytest.mark.parametrize("q", [0.1, 1e-3, 1e-30, 1e-300])
def test_guesses_of_quantiles_are_close(q):
    assert laplace_grid(3.0).quantile_guess(q) == pytest.approx(-3.0 * np.log(2.0 * q), rel=0.25)
    assert normal_grid().quantile_guess(q) == pytest.approx(-special.ndtri(q), rel=0.1)


def test_the_tilted_laplace_law_has_this_spread():
    # K'' = 2(1 + s²)/(1 - s²)² for scale 1
    for tilt in (0.0, 0.5, 0.9):  # roughly, by differences on the grid
        spread = np.sqrt(2.0 * (1.0 + tilt**2)) / (1.0 - tilt**2)
        assert laplace_grid().spread_at(tilt) == pytest.approx(spread, rel=0.1)


def test_an_integral_that_does_not_converge_is_given_up(monkeypatch):
    monkeypatch.setattr("dpinfer._numerics.inversion.NODES", 8)
    monkeypatch.setattr("dpinfer._numerics.inversion.MAX_NODES", 16)
    with pytest.raises(ConvergenceError, match="not converged after 16 nodes"):
        TailContour(laplace_grid()).log_upper(np.array([1.0]))


def test_contour_on_the_laplace_law():
    x = np.concatenate([[0.0], np.logspace(-8, 2.8, 60)])
    log_tail = TailContour(laplace_grid()).log_upper(x)
    assert np.max(np.abs(np.expm1(log_tail - (-x - np.log(2))))) < 1e-12


def test_contour_beyond_all_saddle_points():
    x = np.array([1e9, 1e12, 1e50, 1e300])
    assert np.allclose(TailContour(laplace_grid()).log_upper(x), -x, rtol=1e-7)


def test_contour_on_the_normal_law():
    x = np.linspace(0, 37, 60)
    log_tail = TailContour(normal_grid()).log_upper(x)
    assert np.max(np.abs(np.expm1(log_tail - special.log_ndtr(-x)))) < 1e-12


def test_bracket_holds_for_atoms_at_any_degree():
    rng = np.random.default_rng(20)
    for degree in (3, 10, 100, 1000):
        half = np.sort(rng.uniform(0, 3, 4))
        places = np.concatenate([-half, half])
        share = rng.dirichlet(np.ones(4)) / 2
        mass = np.concatenate([share, share])
        n = np.arange(1.0, degree + 1)
        cf = np.cos(np.outer(2 * np.pi * n / 8.0, places)) @ mass
        series = SawtoothSeries(n, cf, degree, 8.0, damped=True)
        x = np.concatenate([rng.uniform(-3.9, 3.9, 200), places])
        middle, gap = series.upper(x)
        for tail in (places > x[:, None], places >= x[:, None]):
            assert np.all(np.abs(tail @ mass - middle) <= gap + 1e-12)
        assert gap.max() <= series.widest_gap() + 1e-15


def test_plain_series_of_the_normal_law():
    n = np.arange(1.0, 60)
    series = SawtoothSeries(n, np.exp(-0.5 * (2 * np.pi * n / 20) ** 2), 59, 20.0, damped=False)
    x = np.linspace(-9, 9, 50)
    assert np.max(np.abs(series.upper(x)[0] - special.ndtr(-x))) < 1e-14


def test_table_reproduces_a_smooth_function():
    calls = []

    def function(x):
        calls.append(x.size)
        return -x - np.log1p(0.5 * np.exp(-x)) + np.log1p(x)

    table = HalfLineTable(function, 0.1)
    x = np.concatenate([[0.0], np.logspace(-6, 3, 20_000)])
    assert np.max(np.abs(table(x) - function(x)) / (1 + x)) < 1e-13
    before = len(calls)
    table(x)
    assert len(calls) == before
