"""Margins of many tables at once, improved in rounds until each table has settled."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests.tables._projection import SMALLEST_EXPECTED

_CONVERGED = 2e-10
"""Error left in margins, relative to the largest, at which a round is the last."""

_ROUNDING = 1e-13
"""Smaller relative changes of margins are rounding."""

_MOST_ROUNDS = 100
"""Rounds over rows and columns, and over weights. Only tables with margins near 0 need as many."""


def converged(
    step: Callable[..., tuple[FloatArray, ...]],
    tables: FloatArray,
    margins: tuple[FloatArray, ...],
    last: FloatArray | float = 0.0,
    most: int = _MOST_ROUNDS,
) -> tuple[FloatArray, ...]:
    """Return margins, each of shape (q, m), after as many steps as each table needs.

    Changes go down by a factor f, from one step to the next, so that after a change d the error is
    d f/(1 - f) = d²/(d/f - d), where d/f is the change before, ``last``. Tables that are over stay
    as they are, and are left out as soon as they are a quarter of the tables.
    """
    over = np.zeros(tables.shape[-1], dtype=bool)
    for done in range(most):
        moved = step(tables, *margins)
        change = reduce(np.maximum, map(_change, moved, margins))
        if over.any():
            for now, before in zip(moved, margins, strict=True):
                np.copyto(now, before, where=over)
        over |= ~((change > _ROUNDING) & (np.square(change) > _CONVERGED * (last - change)))
        margins, last = moved, change
        left = np.flatnonzero(~over)
        if left.size and 4 * left.size <= 3 * over.size:
            part = tuple(taken(x, left) for x in margins)
            rest = converged(step, taken(tables, left), part, last[left], most - done - 1)
            for into, now in zip(margins, rest, strict=True):
                into[:, left] = now
        if 4 * left.size <= 3 * over.size:
            break
    return margins


def taken(array: FloatArray, tables: NDArray[np.intp]) -> FloatArray:
    """Return some tables; unlike an index, this keeps their axis innermost in memory."""
    return np.take(array, tables, axis=-1)


def _change(now: FloatArray, before: FloatArray) -> FloatArray:
    """Return the largest change of each table's margins, relative to the largest margin."""
    change = now - before
    largest = np.abs(change, out=change).max(axis=0)
    largest /= now.max(axis=0) + SMALLEST_EXPECTED
    return np.asarray(largest)


def shares(sums: FloatArray) -> FloatArray:
    """Return sums over the first axis as shares >= 0 that add up to 1; equal if none is > 0."""
    kept = np.maximum(sums, 0.0)
    total = kept.sum(axis=0)
    equal = 1.0 / len(sums)
    return np.where(total > 0.0, kept / np.where(total > 0.0, total, 1.0), equal)
