"""Rows that are alike, against NumPy's unique rows."""

import numpy as np
import pytest

from dpinfer.intervals.proportions._settings import alike

RNG = np.random.default_rng(1)


@pytest.mark.parametrize(
    "columns",
    [
        [RNG.integers(-5, 9, 300)],
        [RNG.integers(-5, 9, 300), RNG.integers(1, 4, 300)],
        [RNG.choice([0.5, -2.25, 1e100], 300), RNG.integers(1, 4, 300)],
        [RNG.choice([1.0, 1e12, -1e15], 300), RNG.choice([2.0, 2.0**53], 300)],
        [RNG.random(300), RNG.random(300), RNG.random(300), RNG.integers(0, 10**9, 300)],
        [np.zeros(300)],
        *([RNG.integers(0, 3, size) * 1e18 for _ in range(40)] for size in (1, 50)),
    ],
    ids=range(8),
)
def test_kinds_are_those_of_unique_rows(columns):
    columns = [np.asarray(column, dtype=float) for column in columns]
    table = np.stack(columns, axis=1)
    first, kind = alike(columns)
    assert first.size == np.unique(table, axis=0).shape[0]
    np.testing.assert_array_equal(table[first[kind]], table)
