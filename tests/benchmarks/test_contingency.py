"""Tests of contingency tables beside the random draws that they need."""

import numpy as np
import pytest

from dpinfer.hypothesis_tests import chi2_contingency, chisquare_fit
from dpinfer.mechanisms import Gaussian, Laplace

NOISE = Laplace(scale=2.0)
SHAPES = [(2, 2), (3, 4), (30, 30)]
CELLS = 2_000_000


def published(shape):
    """A table of 50 in each cell, with noise."""
    return np.full(shape, 50.0) + NOISE.rvs(shape, rng=1)


def bare_draws(shape):
    """The random numbers of a plain simulation in blocks, nothing else."""
    rng, size = np.random.default_rng(1), shape[0] * shape[1]
    block = (1 << 16) // size
    for start in range(0, CELLS // size, block):
        reps = min(block, CELLS // size - start)
        rng.multinomial(50 * size, np.full(size, 1 / size), reps)
        rng.laplace(0.0, 2.0, (reps, size))


@pytest.mark.benchmark(group="contingency table, 2e6 cells drawn")
@pytest.mark.parametrize("known", ["public n", "unknown n", "row totals"])
@pytest.mark.parametrize("statistic", ["projected", "pearson"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_monte_carlo(benchmark, shape, statistic, known):
    rows, columns = shape
    options = {
        "public n": {"nobs": 50 * rows * columns},
        "unknown n": {},
        "row totals": {"row_totals": np.full(rows, 50 * columns)},
    }[known]
    benchmark(
        chi2_contingency,
        published(shape),
        mechanism=NOISE,
        statistic=statistic,
        reps=CELLS // (rows * columns),
        rng=1,
        **options,
    )


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
