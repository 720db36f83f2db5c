"""Shortest runs of counts: by sorting and by growing, for few rows and for many."""

import numpy as np
import pytest

from dpinfer.intervals import count_posterior
from dpinfer.mechanisms import Geometric, Laplace
from dpinfer.priors import TablePrior


def single_peaks(rows, size, seed):
    """Weights that rise and fall, in small steps: many neighbours are equal, and some are 0."""
    rng = np.random.default_rng(seed)
    weights = np.sort(rng.integers(0, 9, (rows, size)), axis=1).astype(float)
    weights[:, -1] += 1.0
    for row in weights:
        up = rng.random(size) < 0.5
        row[:] = np.concatenate([row[up], row[~up][::-1]])
    return weights


def assert_shortest(found, pmf, first, level, row=()):
    """Of all runs of counts with a probability, the shortest, and of these the most probable."""
    sums = np.concatenate([[0.0], np.cumsum(pmf)])
    low, high = np.triu_indices(pmf.size)
    inside = sums[high + 1] - sums[low]
    enough = inside >= level - 1e-12
    length = (high - low)[enough].min()
    best = inside[enough & (high - low == length)].max()
    assert found.upper[row] - found.lower[row] == length
    own = slice(int(found.lower[row]) - first, int(found.upper[row]) - first + 1)
    assert pmf[own].sum() == pytest.approx(best, rel=1e-9)
    assert found.probability[row] == pytest.approx(best, rel=1e-9)


@pytest.mark.thinned("alpha", "size", every=3)
@pytest.mark.parametrize("alpha", [0.99873, 0.70131, 0.10173, 1.373e-4])
@pytest.mark.parametrize("size", [1, 2, 9, 25, 200])
def test_intervals_of_any_prior_by_brute_force(size, alpha):
    """Noise that tells nothing leaves the prior, of one peak or of several."""
    several = np.random.default_rng(3).integers(0, 5, (20, size)) + np.eye(20, size) + 0.001
    for pmf in np.concatenate([single_peaks(20, size, seed=size), several]):
        prior = TablePrior(pmf, first=-7)
        found = count_posterior(-7.0, mechanism=Laplace(scale=1e18), prior=prior, lower=None)
        assert_shortest(found.interval(alpha), pmf / pmf.sum(), -7, 1 - alpha)


@pytest.mark.parametrize("rows", [1, 50])
@pytest.mark.parametrize("noise", [Laplace(scale=0.5), Geometric(scale=30.0)], ids=repr)
def test_intervals_of_rows_by_brute_force(rows, noise):
    """Narrow windows of many rows are grown, wide ones are sorted row by row."""
    k, counts = np.arange(0.0, 900.0), np.arange(0.0, 3.0 * rows, 3.0)
    found = count_posterior(counts, mechanism=noise).interval(0.2)
    for row in range(0, rows, 7):
        pmf = (noise.pmf if noise.is_integer else noise.pdf)(counts[row] - k)
        assert_shortest(found, pmf / pmf.sum(), 0, 0.8, row)


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
