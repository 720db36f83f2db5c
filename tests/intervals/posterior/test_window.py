"""Shortest runs of counts: by sorting and by growing, for few rows and for many."""

import numpy as np
import pytest

from dpinfer.intervals.posterior import _window
from dpinfer.intervals.posterior._window import Window
from dpinfer.intervals.posterior.count_posterior import count_posterior
from dpinfer.mechanisms import Geometric, Laplace

LEVELS = [0.001, 0.3, 0.9, 0.9999, 1 - 1e-15]


def window(mass, summit=None):
    """Return a window of rows of weights, the columns first."""
    mass = np.array(mass, dtype=float).T
    mass /= mass.sum(axis=0)
    return Window(np.full(mass.shape[1], -7.0), mass, lambda: np.zeros(mass.shape[1]), summit)


def single_peaks(rows, size, seed):
    """Weights that rise and fall, in small steps: many neighbours are equal, and some are 0."""
    rng = np.random.default_rng(seed)
    weights = np.sort(rng.integers(0, 9, (rows, size)), axis=1).astype(float)
    weights[:, -1] += 1.0
    for row in weights:
        up = rng.random(size) < 0.5
        row[:] = np.concatenate([row[up], row[~up][::-1]])
    return weights


@pytest.mark.parametrize("size", [1, 2, 9, 200])
@pytest.mark.parametrize("level", LEVELS)
def test_sorting_takes_what_growing_takes(size, level):
    rows = window(single_peaks(60, size, seed=size))
    assert rows._single_peaked.all()
    for sorted_, grown in zip(rows._grow_by_order(level), rows._grow_from_peak(level), strict=True):
        np.testing.assert_array_equal(sorted_, grown)


@pytest.mark.parametrize("wide", [0, 10**9])
def test_rows_of_several_peaks_by_brute_force(wide, monkeypatch):
    monkeypatch.setattr(_window, "_WIDE", wide)
    weights = np.random.default_rng(3).integers(0, 5, (40, 25)) + np.eye(40, 25)
    weights[:4] = single_peaks(4, 25, seed=4)
    low, high, probability = window(weights).shortest(0.3)
    for row, pmf in enumerate(weights / weights.sum(axis=1, keepdims=True)):
        runs = [
            (last - first + 1, -pmf[first : last + 1].sum())
            for first in range(25)
            for last in range(first, 25)
            if pmf[first : last + 1].sum() >= 0.7 - 1e-12
        ]
        length, minus = min(runs)
        assert high[row] - low[row] + 1 == length
        assert probability[row] == pytest.approx(-minus, rel=1e-12)


def test_very_wide_noise():
    """The most probable of two million counts, by the noise itself."""
    noise, count = Geometric(scale=3e4), 10.0**9
    found = count_posterior(count, mechanism=noise, lower=None).interval(0.1)
    sums = np.cumsum(np.sort(noise.pmf(np.arange(-200_000, 200_001)))[::-1])
    length = np.searchsorted(sums, 0.9) + 1
    assert found.upper - found.lower + 1 == length
    assert found.probability == pytest.approx(sums[length - 1], rel=1e-9)
    assert abs(found.lower + found.upper - 2 * count) <= 1


def test_the_same_row_alone_and_among_many():
    """Alone its window is wide for one row, among others it is not."""
    counts = np.random.default_rng(5).uniform(-20.0, 60.0, 3_000)
    noise = Laplace(scale=3.0)
    together = count_posterior(counts, mechanism=noise).interval(0.2)
    for row in range(0, 3_000, 250):
        alone = count_posterior(counts[row], mechanism=noise).interval(0.2)
        assert (alone.lower, alone.upper) == (together.lower[row], together.upper[row])
