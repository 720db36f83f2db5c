"""Tables of whole states from Parquet to Parquet: seconds and memory by number of blocks.

``python tests/benchmarks/test_streaming.py 12500 25000 50000 100000`` writes such states in the
layout of the 2020 Census, estimates them, and extrapolates to the nation;
``python tests/benchmarks/test_streaming.py nation 0.25`` does so with a quarter of its states, and
with 1 with all of it, in folders under ``TMPDIR``. It says how much of the disk that takes: some 8
kB a block, of which 2.2 are what is read, and 3 the estimates of all cells, most of them 0.
"""

import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.datasets import synthetic_population
from dpinfer.estimation import (
    NoisyMarginal,
    census_parts,
    read_marginals_parquet,
    stream_marginals,
    write_marginals_parquet,
)
from dpinfer.queries import Hierarchy
from dpinfer.releases.census import write_census_measurements
from dpinfer.releases.census.geography import PL94_DOMAIN, PL94_GROUPINGS

DOMAIN = dpi.Domain(
    {"quarters": range(8), "adult": range(2), "hispanic": range(2), "race": range(63)}
)
INSTITUTION = {"institution": ("quarters", dict(enumerate("abbbbccc")))}
QUERIES = [(), ("adult",), ("race",), ("hispanic", "race"), DOMAIN.attributes]
TRACT, COUNTY = 50, 1000
"""Blocks in a tract, and in a county."""
NATION, STATES, COUNTY_OF_CENSUS = 5_892_698, 51, 2050
"""Blocks of the 2020 Census that could have population, its states, and the blocks of a county of
the simulated states."""
MEMORY = 1e9
"""Bytes that a worker may take."""


def write_state(folder, blocks, grouped):
    """A state of whole counties, each a part; all units measured, with three scales of noise."""
    rng = np.random.default_rng(1)
    names = [f"c{at}" for at in range(blocks // COUNTY)]
    write_part(folder, "state", ["state", *names], ["state"] * len(names), 1, None, rng, grouped)
    for name in names:
        tracts = [f"{name}-{at}" for at in range(COUNTY // TRACT)]
        units = [f"{tract}-{at}" for tract in tracts for at in range(TRACT)]
        parent = [name] * len(tracts) + [tract for tract in tracts for _ in range(TRACT)]
        labels = [name, *tracts, *units]
        write_part(folder, name, labels, parent, len(labels), "state", rng, grouped)


def write_part(folder, name, labels, parent, measured, above, rng, grouped):
    hierarchy = Hierarchy(pd.Series([None, *parent], index=labels))
    laws = dpi.DiscreteGaussian(sigma=rng.choice([2.0, 3.0, 5.0], measured))
    queries = [*QUERIES, ("institution",)] if grouped else QUERIES
    marginals = []
    for kept in queries:
        shape = [3 if one == "institution" else len(DOMAIN.levels[one]) for one in kept]
        noise = rng.standard_normal((measured, *shape), dtype=np.float32) * 3.0
        values = np.rint(noise).astype(np.int32)
        marginals.append(NoisyMarginal(kept, values, laws, labels[:measured]))
    write_marginals_parquet(folder, name, hierarchy, marginals, above)


def run(folder, blocks, grouped):
    """Print seconds, those of the processor, and peak memory in MB of a state that was written."""
    start, begun = perf_counter(), process_time()
    stream_marginals(
        read_marginals_parquet(Path(folder, "in")),
        Path(folder, "out"),
        domain=DOMAIN,
        groupings=INSTITUTION if grouped else None,
    )
    seconds, busy = perf_counter() - start, process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    print(
        f"{blocks} blocks x {DOMAIN.size} cells: {seconds:.2f} s, {busy:.2f} s busy, {peak:.0f} MB"
    )


@pytest.mark.benchmark(group="state of 2,016 cells, Parquet to Parquet")
@pytest.mark.parametrize("grouped", [False, True], ids=["plain", "groupings"])
@pytest.mark.parametrize("blocks", [10_000, 30_000, 100_000])
def test_state(benchmark, blocks, grouped, tmp_path):
    if benchmark.disabled:
        pytest.skip("gigabytes of files")
    write_state(tmp_path / "in", blocks, grouped)
    command = [sys.executable, __file__, str(tmp_path), str(blocks), str(int(grouped))]
    found = benchmark.pedantic(
        subprocess.run, (command,), {"check": True, "capture_output": True, "text": True}
    )
    benchmark.extra_info["measured"] = found.stdout
    assert float(found.stdout.split()[-2]) < 4096.0


def write_census(folder, blocks, states=1):
    """States in the layout and with the budget of the 2020 Census, zeros and groupings too."""
    counties = max(1, round(blocks / states / COUNTY_OF_CENSUS))
    truth = synthetic_population(
        states=states, counties=counties, tracts=29, block_groups=3, blocks=24, seed=1
    )
    write_census_measurements(folder, truth, rng=2)
    return len(truth)


def run_census(folder, blocks, n_jobs):
    """Print seconds of the processor and of the clock, and peak memory in MB.

    What this process works on is not shared with others: the cuts, the first part, and the top.
    """
    start = perf_counter()
    stream_marginals(
        census_parts(Path(folder, "in"), memory=MEMORY),
        Path(folder, f"out-{n_jobs}"),
        domain=PL94_DOMAIN,
        groupings=PL94_GROUPINGS,
        zero_attributes=("hhgq", "votingage"),
        n_jobs=n_jobs,
    )
    seconds = perf_counter() - start
    busy, peaks = process_time(), [0.0, 0.0]
    alone = busy
    if n_jobs > 1:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True)
    for at, who in enumerate((resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)):
        used = resource.getrusage(who)
        peaks[at] = used.ru_maxrss / 1024.0
        busy += used.ru_utime + used.ru_stime if at else 0.0
    # of all children the largest counts; it is at least what their parent had at their start
    peak = peaks[0] + (n_jobs * peaks[1] if n_jobs > 1 else 0.0)
    nation = NATION / blocks / 60.0
    held = [
        sum(file.stat().st_size for file in Path(folder, each).rglob("*") if file.is_file())
        for each in ("in", f"out-{n_jobs}")
    ]
    print(
        f"{blocks} blocks, {n_jobs} workers: {seconds:.1f} s, {busy:.1f} s busy, of which "
        f"{alone:.1f} s here; the nation in {seconds * nation:.0f} min, {busy * nation:.0f} min "
        f"busy; {held[0] / 1e9:.2f} GB read and {held[1] / 1e9:.2f} GB written; "
        f"at most {peak:.0f} MB"
    )


def census_command(folder, blocks, n_jobs):
    return [sys.executable, __file__, "census", str(folder), str(blocks), str(n_jobs)]


@pytest.mark.benchmark(group="state in the layout of the 2020 Census, Parquet to Parquet")
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("size", [12_500, 25_000, 50_000, 100_000])
def test_census_state(benchmark, size, n_jobs, tmp_path):
    if benchmark.disabled:
        pytest.skip("gigabytes of files")
    command = census_command(tmp_path, write_census(tmp_path / "in", size), n_jobs)
    found = benchmark.pedantic(
        subprocess.run, (command,), {"check": True, "capture_output": True, "text": True}
    )
    benchmark.extra_info["measured"] = found.stdout
    assert float(found.stdout.split()[-2]) < 4096.0


def nation(folder, share):
    """Write a share of the states of the nation, estimate them with two workers; return figures."""
    states = max(1, round(STATES * share))
    blocks = write_census(Path(folder, "in"), NATION * states / STATES, states)
    command = census_command(folder, blocks, 2)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.study
@pytest.mark.benchmark(group="a nation in the layout of the 2020 Census, Parquet to Parquet")
def test_nation(benchmark, tmp_path):
    if benchmark.disabled:
        pytest.skip("tens of gigabytes of files")
    found = benchmark.pedantic(nation, (tmp_path, 1.0))
    benchmark.extra_info["measured"] = found
    assert float(found.split()[-2]) < 4096.0


def compare(sizes):
    """Write states of several sizes, and print what each of them takes."""
    for size in sizes:
        with TemporaryDirectory() as folder:
            blocks = write_census(Path(folder, "in"), size)
            for n_jobs in (1, 2):
                subprocess.run(census_command(folder, blocks, n_jobs), check=True)


if __name__ == "__main__":
    if sys.argv[1] == "census":
        run_census(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    elif sys.argv[1] == "nation":
        with TemporaryDirectory() as folder:
            print(nation(folder, float(sys.argv[2])))
    elif sys.argv[1].isdigit():
        compare([int(size) for size in sys.argv[1:]])
    else:
        run(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "1")
