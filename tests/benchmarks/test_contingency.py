"""Tests of contingency tables beside the random draws that they need."""

from time import process_time

import numpy as np
import pytest

from dpinfer.hypothesis_tests import chi2_contingency, chisquare_fit
from dpinfer.mechanisms import Gaussian, Geometric, Laplace

NOISE = Laplace(scale=2.0)
SHAPES = [(2, 2), (2, 3), (3, 4), (5, 5), (10, 10), (30, 30), (2, 50)]
CELLS = 2_000_000
KNOWN = ["public n", "noisy n", "unknown n", "row totals"]
DRAWS = {
    "laplace": (NOISE, lambda rng, shape: rng.laplace(0.0, 2.0, shape)),
    "wide laplace": (Laplace(scale=20.0), lambda rng, shape: rng.laplace(0.0, 20.0, shape)),
    "gaussian": (Gaussian(sigma=2.8), lambda rng, shape: rng.normal(0.0, 2.8, shape)),
    "geometric": (
        Geometric(scale=2.0),
        lambda rng, shape: rng.geometric(0.39, shape) - rng.geometric(0.39, shape),
    ),
}


def published(shape, noise=NOISE):
    """A table of 50 in each cell, with noise."""
    return np.full(shape, 50.0) + noise.rvs(shape, rng=1)


def bare_draws(shape, cells=CELLS, known="public n", draw_noise=DRAWS["laplace"][1]):
    """The random numbers of a plain simulation in blocks, nothing else."""
    rng, (rows, columns) = np.random.default_rng(1), shape
    size = rows * columns
    block = (1 << 16) // size
    for start in range(0, cells // size, block):
        reps = min(block, cells // size - start)
        if known == "row totals":
            rng.multinomial(50 * columns, np.full(columns, 1 / columns), (reps, rows))
        else:
            rng.multinomial(50 * size, np.full(size, 1 / size), reps)
        draw_noise(rng, (reps, size))


def simulated(shape, statistic, known, cells=CELLS, noise=NOISE, n_jobs=1):
    """The test by simulation, with so many cells drawn."""
    rows, columns = shape
    options = {
        "public n": {"nobs": 50 * rows * columns},
        "noisy n": {"nobs": 50 * rows * columns + 1, "nobs_mechanism": noise},
        "unknown n": {},
        "row totals": {"row_totals": np.full(rows, 50 * columns)},
    }[known]
    reps = cells // (rows * columns)
    return chi2_contingency(
        published(shape, noise),
        mechanism=noise,
        statistic=statistic,
        method="monte-carlo",
        reps=reps,
        rng=1,
        n_jobs=n_jobs,
        **options,
    )


def shortest(*calls):
    """Processor time of the fastest of five runs of each call, in turn."""
    times = np.full((5, len(calls)), np.inf)
    for run in times:
        for index, (function, *arguments) in enumerate(calls):
            start = process_time()
            function(*arguments)
            run[index] = process_time() - start
    return times.min(axis=0)


@pytest.mark.benchmark(group="contingency table, 2e6 cells drawn")
@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("statistic", ["projected", "pearson"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_monte_carlo(benchmark, sized, shape, statistic, known):
    benchmark(simulated, shape, statistic, known, sized(CELLS))


@pytest.mark.benchmark(group="contingency table, ratio to the bare draws in extra_info")
@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("law", DRAWS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_ratio_to_bare_draws(benchmark, sized, shape, law, known):
    noise, draw_noise = DRAWS[law]
    cells = sized(CELLS // 4)
    ours = (simulated, shape, "projected", known, cells, noise)
    total, bare = shortest(ours, (bare_draws, shape, cells, known, draw_noise))
    benchmark.extra_info["ratio"] = round(total / bare, 2)
    benchmark.pedantic(ours[0], ours[1:])


@pytest.mark.benchmark(group="contingency table 3 x 4, 2.4e7 cells drawn")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_workers(benchmark, sized, n_jobs):
    arguments = ((3, 4), "pearson", "public n", sized(12 * CELLS), NOISE, n_jobs)
    benchmark.pedantic(simulated, arguments, rounds=3, warmup_rounds=1)


@pytest.mark.benchmark(group="contingency table, 2e6 cells drawn")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bare_numpy_draws(benchmark, sized, shape):
    benchmark(bare_draws, shape, sized(CELLS))


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
