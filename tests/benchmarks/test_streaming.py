"""Tables of whole states from Parquet to Parquet: seconds and memory by number of blocks."""

import resource
import subprocess
import sys
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.estimation.streaming.stream import (
    read_marginals_parquet,
    stream_marginals,
    write_marginals_parquet,
)
from dpinfer.estimation.tables.marginals import NoisyMarginal
from dpinfer.queries import Hierarchy

DOMAIN = dpi.Domain(
    {"quarters": range(8), "adult": range(2), "hispanic": range(2), "race": range(63)}
)
INSTITUTION = {"institution": ("quarters", dict(enumerate("abbbbccc")))}
QUERIES = [(), ("adult",), ("race",), ("hispanic", "race"), DOMAIN.attributes]
TRACT, COUNTY = 50, 1000
"""Blocks in a tract, and in a county."""


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


if __name__ == "__main__":
    run(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "1")
