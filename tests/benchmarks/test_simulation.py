"""The Monte Carlo engine: bare draws beside it, workers, an early end, and many replicates."""

import numpy as np
import pytest

from dpinfer import Geometric, Laplace
from dpinfer.hypothesis_tests import Multinomial, null_distribution, proportions_ztest

NOISE = Laplace(scale=2.0)
MODEL = Multinomial(nobs=5000, value=np.full(100, 0.01))
REPS = 20_000
CELLS_IN_BLOCK = 1 << 16


def simulated(**options):
    arguments = {"method": "monte-carlo", "observed": 120.0, "reps": REPS, "rng": 1, **options}
    return null_distribution(MODEL, NOISE, **arguments)


def bare_draws(reps):
    """The random numbers of the simulation by NumPy, in blocks of the same shape."""
    rng = np.random.default_rng(1)
    block = CELLS_IN_BLOCK // 100
    for _ in range(reps // block):
        rng.multinomial(5000, MODEL.value, block)
        rng.laplace(0.0, 2.0, (block, 100))


@pytest.mark.benchmark(group="table of 100 cells, 2e4 replicates")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_table(benchmark, sized, n_jobs):
    benchmark(simulated, reps=sized(REPS), n_jobs=n_jobs)


@pytest.mark.benchmark(group="table of 100 cells, 2e4 replicates")
def test_table_bare_numpy_draws(benchmark):
    benchmark(bare_draws, REPS)


@pytest.mark.benchmark(group="table of 100 cells, p = 0.1 to a tenth")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_early_end(benchmark, n_jobs):
    benchmark(simulated, reps=10**6, precision=0.1, n_jobs=n_jobs)


@pytest.mark.benchmark(group="one proportion, 1e8 replicates")
@pytest.mark.parametrize("noise", [NOISE, Geometric(scale=2.0)], ids=repr)
def test_hundred_million_replicates(benchmark, sized, noise):
    options = {"mechanism": noise, "method": "monte-carlo", "reps": sized(10**8), "rng": 1}
    benchmark.pedantic(proportions_ztest, (34, 100, 0.255), options, rounds=3)


@pytest.mark.benchmark(group="table of 100 cells, 5e5 replicates")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_workers_on_a_table(benchmark, sized, n_jobs):
    options = {"n_jobs": n_jobs, "reps": sized(500_000)}
    benchmark.pedantic(simulated, kwargs=options, rounds=3, warmup_rounds=1)


@pytest.mark.benchmark(group="one proportion, 5e8 replicates")
@pytest.mark.parametrize("noise", [NOISE, Geometric(scale=2.0)], ids=repr)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_workers_on_a_proportion(benchmark, sized, noise, n_jobs):
    options = {"mechanism": noise, "method": "monte-carlo", "reps": sized(5 * 10**8), "rng": 1}
    options["n_jobs"] = n_jobs
    benchmark.pedantic(proportions_ztest, (34, 100, 0.255), options, rounds=3, warmup_rounds=1)
