"""Rows that are alike, found once, so that work is done for each kind of row only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray

_SPARSE = 4
"""A range of whole numbers so many times as long as the list of rows is still marked off."""

_LARGEST_KEY = 2.0**62


def alike(
    columns: Sequence[FloatArray],
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return one row of each kind, and the number of the kind of each row.

    Parameters
    ----------
    columns : sequence of array of float, shape (m,)
        What has to be equal in rows that are alike.
    """
    key, kinds = _numbered(columns[0])
    for column in columns[1:]:
        codes, count = _numbered(column)
        if float(kinds) * count > _LARGEST_KEY:
            values, key = np.unique(key, return_inverse=True)
            kinds = values.size
        key, kinds = key * count + codes, kinds * count
    if kinds > _SPARSE * key.size + 1024:
        _, first, kind = np.unique(key, return_index=True, return_inverse=True)
        return first, kind
    example = np.full(kinds, -1)
    example[key] = np.arange(key.size)
    found = example >= 0
    return example[found], (np.cumsum(found) - 1)[key]


def _numbered(column: FloatArray) -> tuple[NDArray[np.intp], int]:
    """Numbers >= 0 that are equal where the entries are, and a bound above all of them."""
    low, high = float(column.min()), float(column.max())
    if high - low <= _SPARSE * column.size and abs(low) < 2.0**53 and abs(high) < 2.0**53:
        codes = (column - low).astype(np.intp)
        if (codes + low == column).all():
            return codes, int(high - low) + 1
    values, codes = np.unique(column, return_inverse=True)
    return codes, values.size
