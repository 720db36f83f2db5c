"""Generated files of the 2020 Census, for all tests of their readers.

Tests here may import ``parquet_bombs``.
"""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from dpinfer.datasets import synthetic_population
from dpinfer.releases.census import write_census_measurements

sys.path.insert(0, str(Path(__file__).parent))


def two_parts():
    """A population of two states, of which the second has blocks inside of the areas as well."""
    population = synthetic_population(
        states=2, counties=2, tracts=2, block_groups=2, blocks=3, seed=3
    )
    codes = population.codes.copy()
    inside = np.flatnonzero(np.char.startswith(codes, "002"))[-6:]
    codes[inside] = [f"1{code[1:]}" for code in codes[inside].tolist()]
    order = np.argsort(codes)
    return codes[order], population.tables()[order]


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    root = tmp_path_factory.mktemp("census") / "files"
    codes, tables = two_parts()
    write_census_measurements(root, (codes, tables), rng=1)
    return root, codes, tables


@pytest.fixture
def copied(written, tmp_path):
    root = tmp_path / "copy"
    shutil.copytree(written[0], root)
    return root


@pytest.fixture(scope="session")
def assert_same():
    """What compares the measurements of a part with those of the whole."""

    def check(part, whole):
        """The measurements of a part are those of the whole."""
        for name, query in part.queries.items():
            other = whole.queries[name]
            place = {label: row for row, label in enumerate(whole.labels[other.units])}
            rows = [place[label] for label in part.labels[query.units]]
            wanted = [label for label in place if label in set(part.labels)]
            assert sorted(part.labels[query.units]) == sorted(wanted)
            np.testing.assert_array_equal(query.values, other.values[rows])
            np.testing.assert_array_equal(query.variance, other.variance[rows])

    return check
