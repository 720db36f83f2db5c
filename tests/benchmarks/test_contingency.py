"""Tests of contingency tables beside the random draws that they need."""

from time import process_time

import numpy as np
import pytest

from dpinfer.hypothesis_tests import chi2_contingency, chisquare_fit
from dpinfer.mechanisms import Gaussian, Laplace

NOISE = Laplace(scale=2.0)
SHAPES = [(2, 2), (3, 4), (30, 30), (2, 50)]
CELLS = 2_000_000
KNOWN = ["public n", "unknown n", "row totals"]


def published(shape):
    """A table of 50 in each cell, with noise."""
    return np.full(shape, 50.0) + NOISE.rvs(shape, rng=1)


def bare_draws(shape, cells=CELLS):
    """The random numbers of a plain simulation in blocks, nothing else."""
    rng, size = np.random.default_rng(1), shape[0] * shape[1]
    block = (1 << 16) // size
    for start in range(0, cells // size, block):
        reps = min(block, cells // size - start)
        rng.multinomial(50 * size, np.full(size, 1 / size), reps)
        rng.laplace(0.0, 2.0, (reps, size))


def simulated(shape, statistic, known, cells=CELLS):
    """The test by simulation, with so many cells drawn."""
    rows, columns = shape
    options = {
        "public n": {"nobs": 50 * rows * columns},
        "unknown n": {},
        "row totals": {"row_totals": np.full(rows, 50 * columns)},
    }[known]
    reps = cells // (rows * columns)
    table = published(shape)
    return chi2_contingency(
        table, mechanism=NOISE, statistic=statistic, reps=reps, rng=1, **options
    )


def shortest(function, *arguments):
    """Processor time of the fastest of five calls."""
    times = []
    for _ in range(5):
        start = process_time()
        function(*arguments)
        times.append(process_time() - start)
    return min(times)


@pytest.mark.benchmark(group="contingency table, 2e6 cells drawn")
@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("statistic", ["projected", "pearson"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_monte_carlo(benchmark, shape, statistic, known):
    benchmark(simulated, shape, statistic, known)


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_ratio_to_bare_draws(shape, known):
    # from 0.8 to 2.4 where nothing else runs: twice as much means that something is wrong
    cells = CELLS // 4
    ratio = shortest(simulated, shape, "pearson", known, cells) / shortest(bare_draws, shape, cells)
    assert ratio < 5.0


@pytest.mark.benchmark(group="contingency table, 2e6 cells drawn")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bare_numpy_draws(benchmark, shape):
    benchmark(bare_draws, shape)


@pytest.mark.benchmark(group="contingency table, asymptotic")
@pytest.mark.parametrize("statistic", ["projected", "pearson"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_asymptotic(benchmark, shape, statistic):
    benchmark(
        chi2_contingency,
        published(shape),
        mechanism=Gaussian(sigma=2.8),
        statistic=statistic,
        method="asymptotic",
    )


def hardy_weinberg(theta):
    f = theta[0]
    return [f * f, 2 * f * (1 - f), (1 - f) * (1 - f)]


@pytest.mark.benchmark(group="model with an estimated parameter, 1e4 replicates")
def test_composite(benchmark):
    benchmark(chisquare_fit, [120.0, 250.0, 90.0], hardy_weinberg, 0.5, mechanism=NOISE, rng=1)
