"""Workers that are threads, processes, or a Dask cluster one of whose workers is killed."""

import os
import signal
import threading
import time
from dataclasses import dataclass

import numpy as np
import pytest

from dpinfer import Geometric
from dpinfer.hypothesis_tests import Multinomial, null_distribution
from dpinfer.results.simulation import Simulation, simulate_null

joblib = pytest.importorskip("joblib", reason="joblib is not installed")

MODEL = Multinomial(nobs=40, value=[0.2, 0.3, 0.5])
NOISE = Geometric(scale=2.0)
OBSERVED = 6.0


def simulated(n_jobs, precision=None):
    return null_distribution(
        MODEL,
        NOISE,
        observed=OBSERVED,
        method="monte-carlo",
        reps=400_000,
        rng=1,
        n_jobs=n_jobs,
        precision=precision,
    )


def assert_same(one, other):
    np.testing.assert_array_equal(one.sample, other.sample)
    np.testing.assert_array_equal(one.reps, other.reps)
    np.testing.assert_array_equal(one.stopped, other.stopped)
    assert one.extreme.keys() == other.extreme.keys()
    for name, counts in one.extreme.items():
        np.testing.assert_array_equal(counts, other.extreme[name])
    assert one.pvalue(OBSERVED, "larger") == other.pvalue(OBSERVED, "larger")


@dataclass(frozen=True)
class SlowDraw:
    """Replicates that take their time, and leave a file to say that a block is done."""

    folder: str
    seconds: float = 0.05

    def __call__(self, size, rng):
        time.sleep(self.seconds)
        replicates = rng.standard_normal(size)
        with open(os.path.join(self.folder, f"{os.getpid()}-{replicates[0]}"), "w"):
            return replicates


def slowly(folder, n_jobs):
    simulation = Simulation.checked(4000, 2, False, n_jobs)
    return simulate_null([SlowDraw(str(folder))], np.asarray(1.5), simulation, block=100)


@pytest.mark.thinned("n_jobs", "precision", every=2)
@pytest.mark.parametrize("precision", [None, 0.005])
@pytest.mark.parametrize("n_jobs", [2, 4, -1])
def test_threads_give_the_same_answer(n_jobs, precision):
    assert_same(simulated(1, precision), simulated(n_jobs, precision))


@pytest.mark.parametrize("precision", [None, pytest.param(0.005, marks=pytest.mark.slow)])
def test_processes_give_the_same_answer(precision):
    from joblib.externals.loky import get_reusable_executor

    with joblib.parallel_config(backend="loky", n_jobs=2):
        found = simulated(None, precision)
    get_reusable_executor().shutdown(wait=True)
    assert_same(simulated(1, precision), found)


@pytest.mark.slow
def test_a_dask_cluster_gives_the_same_answer(cluster):
    for precision in (None, 0.005):
        with joblib.parallel_config(backend="dask"):
            found = simulated(-1, precision)
        assert_same(simulated(1, precision), found)


@pytest.mark.slow
def test_a_worker_that_is_killed_half_way_does_not_change_the_answer(cluster, tmp_path):
    alone, together = tmp_path / "alone", tmp_path / "together"
    alone.mkdir()
    together.mkdir()
    victim = next(iter(cluster.run(os.getpid).values()))
    killed = []

    def kill_half_way():
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            done = list(together.iterdir())
            if len(done) >= 8 and any(f.name.startswith(f"{victim}-") for f in done):
                os.kill(victim, signal.SIGKILL)
                killed.append(len(done))
                return
            time.sleep(0.01)

    killer = threading.Thread(target=kill_half_way)
    killer.start()
    with joblib.parallel_config(backend="dask"):
        found = slowly(together, -1)
    killer.join()
    assert killed, "the worker ought to have drawn some blocks"
    assert killed[0] < 40, "the worker ought to have been killed before the end"
    expected = slowly(alone, 1)
    np.testing.assert_array_equal(expected.sample, found.sample)
    assert expected.pvalue(1.5) == found.pvalue(1.5)
