"""Files: a table analyzed and written beside pandas' read and write; census files beside pyarrow.

Run with ``pytest tests/benchmarks/test_files.py --benchmark-enable``. Times are never asserted.
"""

import contextlib
import io
import math
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import dpinfer as dpi
from dpinfer.__main__ import main
from dpinfer.datasets.synthetic_geography import synthetic_population
from dpinfer.releases.census import read_census_measurements, write_census_measurements

ROWS = 1_000_000


@cache
def folder():
    """Return a folder that is there as long as this process is."""
    return tempfile.TemporaryDirectory(prefix="dpinfer-benchmark-")


@cache
def release_of(rows):
    """Write a release of two attributes, and return the path of its table."""
    levels = math.isqrt(rows)
    names = [[f"{name} {level}" for level in range(levels)] for name in ("area", "day")]
    labels = pd.MultiIndex.from_product(names, names=["area", "day"])
    noise = dpi.Laplace(scale=2.0)
    rng = np.random.default_rng(1)
    counts = np.round(rng.poisson(50.0, len(labels)) + noise.rvs(len(labels), rng=rng), 3)
    release = dpi.Release.from_tables(
        [pd.Series(counts, labels)], mechanism=noise, neighbours="add-remove", sensitivity=1.0
    )
    path = Path(folder().name) / f"release_{rows}.csv"
    dpi.write_release(release, path)
    return path


def analyzed(path, ending):
    output = path.with_name(f"ours{ending}")
    output.unlink(missing_ok=True)
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["analyze", str(path), "--output", str(output)]) == 0
    return output


def by_pandas(path, ending):
    """Read a table, add the columns that a report has, and write it: no checks, no labels."""
    output = path.with_name(f"theirs{ending}")
    law = dpi.Laplace(scale=2.0)
    frame = pd.read_csv(path).rename(columns={"value": "estimate"})
    half = law.isf(0.025)
    frame = frame.assign(
        std_err=law.std,
        ci_lower=frame["estimate"] - half,
        ci_upper=frame["estimate"] + half,
        published=frame["estimate"],
        published_std_err=law.std,
    )
    if ending == ".csv":
        frame.to_csv(output, index=False)
    else:
        frame.to_parquet(output, index=False)
    return output


def same_table(ours, theirs):
    read = pd.read_csv if ours.suffix == ".csv" else pd.read_parquet
    pd.testing.assert_frame_equal(read(ours), read(theirs), check_dtype=False)
    return True


WAYS = {"dpinfer": analyzed, "pandas": by_pandas}


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("way", WAYS)
def test_analyze(benchmark, sized, way, ending):
    path = release_of(sized(ROWS))
    benchmark.group = f"analyze to {ending}"
    output = benchmark.pedantic(WAYS[way], args=(path, ending), rounds=3)
    assert same_table(output, WAYS["pandas"](path, ending))


# Noisy measurement files

TRACTS = 60
"""Tracts of each of three counties: 26 million values."""


@cache
def census_files(tracts):
    root = Path(folder().name) / f"census_{tracts}"
    write_census_measurements(root, synthetic_population(tracts=tracts), rng=1)
    return root


def census_values(root):
    """Return the number of values and their sum, query by query."""
    found = read_census_measurements(root)
    return sum_of([query.values for query in found.queries.values()])


def by_pyarrow(root):
    """Read all columns of all files, and take the values query by query: no checks, no units."""
    parts = []
    for path in sorted(root.rglob("DPQuery/**/*")):
        if path.is_file():
            table = pq.read_table(path, partitioning=None, use_threads=False)
            names = table["query_name"].combine_chunks().dictionary_encode()
            group = names.indices.to_numpy()
            values = table["value"]
            for number in range(len(names.dictionary)):
                own = values.take(np.flatnonzero(group == number))
                parts.extend(chunk.flatten().to_numpy() for chunk in own.chunks)
    return sum_of(parts)


def sum_of(parts):
    return sum(part.size for part in parts), sum(int(part.sum(dtype=np.int64)) for part in parts)


CENSUS_WAYS = {"dpinfer": census_values, "pyarrow": by_pyarrow}


@pytest.mark.parametrize("way", CENSUS_WAYS)
def test_census_files(benchmark, sized, way):
    root = census_files(sized(TRACTS))
    benchmark.group = "noisy measurement files"
    assert benchmark.pedantic(CENSUS_WAYS[way], args=(root,), rounds=3) == by_pyarrow(root)
