"""The rows of a table in parts, of one kind of noise each, and their windows block by block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.intervals.posterior._climb import Rows
from dpinfer.intervals.posterior._table import TableRows
from dpinfer.intervals.posterior._window import Window

Functional = Callable[[Window, NDArray[np.intp]], FloatArray]
"""Reads values off the windows of some rows, given their numbers: a column for each of them."""

_CELLS = 1 << 19
_MOST_ROWS = 1 << 12
_ALIKE = 2.0
"""Windows whose widths differ by no more are computed in the order of the rows."""


@dataclass(frozen=True)
class Part:
    """Rows of one kind of noise: where they are in the table, and which of them are alike.

    Parameters
    ----------
    rows : Rows or TableRows
        The different rows.
    cells : array of int
        The numbers of the cells of the table.
    inverse : array of int, optional
        The row of each of these cells; by default they have a row each, in order.
    """

    rows: Rows | TableRows
    cells: NDArray[np.intp]
    inverse: NDArray[np.intp] | None = None

    def apply(self, functional: Functional) -> FloatArray:
        """Return what the functional reads off each cell, cells last."""
        values = np.empty(0)
        for block in self._blocks():
            answer = functional(self.rows.take(block).window(), block)
            if not values.size:
                values = np.empty((len(answer), self.rows.count.size))
            values[:, block] = answer
        return values if self.inverse is None else values.take(self.inverse, axis=1)

    def each(self) -> Self:
        """Return the same part with a row for each cell."""
        if self.inverse is None:
            return self
        return replace(self, rows=self.rows.take(self.inverse), inverse=None)

    def _blocks(self) -> list[NDArray[np.intp]]:
        """Split the rows so that windows of about the same width come together, and fit."""
        width = self.rows.width
        narrowest, widest = float(width.min()), float(width.max())
        if widest <= _ALIKE * narrowest:
            order, sizes = np.arange(width.size), None
        else:
            order = np.argsort(width, kind="stable")
            sizes = width[order]
        blocks, start = [], 0
        while start < order.size:
            stop = min(start + _MOST_ROWS, order.size)
            # sorted by width: the last of the block is the widest
            while stop - start > 1:
                most = widest if sizes is None else float(sizes[stop - 1])
                if most * (stop - start) <= _CELLS:
                    break
                stop = start + (stop - start) // 2
            blocks.append(order[start:stop])
            start = stop
        return blocks
