"""Estimates of tables on trees, held as cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.estimation.tables._axes import Axes
from dpinfer.estimation.tables._householder import reflect
from dpinfer.estimation.tables._measured import Rows, blocked, chunk_rows
from dpinfer.queries._tree import Places

_PERMUTED = 16
"""Parts in which tables are brought in another order, to need no room for all of them twice."""

_LINE = 8
"""Neighbouring numbers that memory is read by."""


@dataclass(frozen=True, eq=False)
class CellTables:
    """The cells of n tables, in the order of their numbers.

    Parameters
    ----------
    axes : Axes
        The transformed axes of the tables.
    found : array of float, shape (n, g, ...)
        The cells: the level of the block, then the axes.
    order : array of int, shape (n,), or None
        The number of the table at each place of the tree; None where these are the same.
    """

    axes: Axes
    found: FloatArray
    order: Places | None

    @classmethod
    def placed(cls, axes: Axes, tables: FloatArray, order: Places | None) -> CellTables:
        """Take tables in the order of places, and bring them in that of their numbers in place."""
        if order is not None:
            place = np.empty_like(order)
            place[order] = np.arange(order.size)
            lines = tables.reshape((len(tables), -1))
            step = max(lines.shape[1] // _PERMUTED, _LINE)
            for start in range(0, lines.shape[1], step):
                part = slice(start, start + step)
                lines[:, part] = lines[:, part].take(place, axis=0)
        return cls(axes, tables, order)

    def at(self, places: Rows) -> FloatArray:
        """Return the tables at some places; a view where possible."""
        return np.asarray(self.found[places if self.order is None else self.order[places]])

    def coefficients(self, places: Rows) -> FloatArray:
        """Return the coefficients of the tables at some places, shape (m, g, ...)."""
        tables = np.array(self.at(places))
        for axis in range(len(self.axes.sizes)):
            reflect(tables, 2 + axis)
        return tables

    def marginal(self, kept: int, matrix: FloatArray, places: Rows) -> FloatArray:
        """Return the marginals that keep these axes and levels of the block, shape (m, r, ...).

        A view where that is possible.
        """
        return summed_to(self.axes, kept, matrix, self.at(places))

    def numbered(self, kept: int, matrix: FloatArray, number: int) -> FloatArray:
        """Return those of so many tables, the first by number; perhaps these, read-only."""
        if kept == self.axes.full and len(matrix) == self.found.shape[1]:
            shared = self.found[:number]
            shared.flags.writeable = False
            return shared
        out = np.empty((number, len(matrix), *self.axes.shape(kept)))
        step = chunk_rows(self.found[0].size)
        for start in range(0, number, step):
            rows = slice(start, min(start + step, number))
            out[rows] = summed_to(self.axes, kept, matrix, self.found[rows])
        return out


def summed_to(axes: Axes, kept: int, matrix: FloatArray, cells: FloatArray) -> FloatArray:
    """Return the marginals of tables that keep these axes and levels of the block."""
    summed = tuple(2 + axis for axis in range(len(axes.sizes)) if not kept >> axis & 1)
    return blocked(matrix, cells.sum(axis=summed, keepdims=True) if summed else cells)


def cells_of(axes: Axes, coefficients: FloatArray) -> FloatArray:
    """Turn coefficients class by class, shape (n, g, k), to cells, shape (n, g, ...), in place."""
    step = chunk_rows(coefficients[0].size)
    scratch = np.empty((min(step, len(coefficients)), coefficients.shape[1], *axes.sizes))
    for start in range(0, len(coefficients), step):
        part = coefficients[start : start + step]
        tables = scratch[: len(part)]
        for corner, columns in zip(axes.corners, axes.columns, strict=True):
            target = tables[corner]
            target[...] = part[:, :, columns].reshape(target.shape)
        for axis in range(len(axes.sizes)):
            reflect(tables, 2 + axis)
        part[...] = tables.reshape(part.shape)
    return coefficients.reshape((*coefficients.shape[:2], *axes.sizes))
