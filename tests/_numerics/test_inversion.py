"""The saddle grid, the contour, the Fourier bracket and the table, on laws known in closed form."""

import numpy as np
import pytest
from scipy import special

from dpinfer._numerics.chebyshev import HalfLineTable
from dpinfer._numerics.contour import TailContour
from dpinfer._numerics.saddle import SaddleGrid
from dpinfer._numerics.sawtooth import SawtoothSeries


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
