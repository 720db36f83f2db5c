"""The largest value of many functions of a whole number, each over a range of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray

Tail = Callable[[FloatArray, NDArray[np.intp]], FloatArray]
"""``tail(nuisance, rows)``: the values of some rows, each at its own whole number."""

ENUMERATED = 4096
"""Largest number of whole numbers in a range that are all looked at."""

_GRID = 257
_ZOOM = 65
_POINTS = 1 << 16
"""Points of the grid in a longer range, of each refinement, and evaluated at a time."""


def largest_over_integers(tail: Tail, low: FloatArray, high: FloatArray) -> FloatArray:
    """Maximum of each row's tail over the whole numbers from ``low`` to ``high``.

    All of them are looked at where there are at most ``ENUMERATED``; otherwise a grid, even in
    the square root, and then the neighbourhood of its maximum, more and more finely.
    """
    out = np.empty(low.size)
    size = high - low + 1.0
    few = size <= ENUMERATED
    rows = np.flatnonzero(few)
    order = rows[np.argsort(size[rows])]
    start = 0
    while start < order.size:
        stop = start + 1
        while stop < order.size and (stop + 1 - start) * size[order[stop]] <= _POINTS:
            stop += 1
        chosen = order[start:stop]
        steps = np.arange(size[chosen[-1]])
        grid = np.minimum(low[chosen, np.newaxis] + steps, high[chosen, np.newaxis])
        out[chosen] = _on_grid(tail, grid, chosen).max(axis=1)
        start = stop
    for row in np.flatnonzero(~few):
        out[row] = _zoomed(tail, low[row], high[row], row)
    return out


def evaluated(low: FloatArray, high: FloatArray) -> FloatArray:
    """About how many tails of each row the search for the maximum evaluates."""
    size = high - low + 1.0
    zooms = np.log(np.maximum(size / _GRID, 1.0)) / np.log(0.5 * _ZOOM) + 1.0
    return np.where(size <= ENUMERATED, size, _GRID + _ZOOM * np.ceil(zooms))


def _on_grid(tail: Tail, grid: FloatArray, rows: NDArray[np.intp]) -> FloatArray:
    repeated = np.repeat(rows, grid.shape[1])
    return tail(grid.ravel(), repeated).reshape(grid.shape)


def _zoomed(tail: Tail, low: float, high: float, row: np.intp) -> float:
    """Maximum over a long range, by a grid and refinements around its best point."""
    best, points = 0.0, _GRID
    rows = np.array([row])
    while True:
        grid = np.unique(np.rint(np.linspace(np.sqrt(low), np.sqrt(high), points) ** 2))
        values = _on_grid(tail, grid[np.newaxis], rows)[0]
        at = int(np.argmax(values))
        best = max(best, float(values[at]))
        finer = grid[max(at - 1, 0)], grid[min(at + 1, grid.size - 1)]
        if grid.size == high - low + 1.0 or finer == (low, high):
            return best
        (low, high), points = finer, _ZOOM
