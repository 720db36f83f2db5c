"""What was measured of the tables of all nodes of a tree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.estimation.tables._assembly import Assembly
from dpinfer.estimation.tables._axes import Axes
from dpinfer.estimation.tables._householder import reflect
from dpinfer.queries._tree import Places

Rows = slice | Places

_CHUNK = 1 << 16
"""Numbers worked on at a time, so that they stay in the cache."""

CONTRADICTION = 1e-9
"""Difference, relative to the size of the values, up to which exact values agree."""


def chunk_rows(cells: int) -> int:
    """Return how many tables of so many cells to work on at a time."""
    return max(1, _CHUNK // cells)


@dataclass(frozen=True, eq=False)
class PlacedMarginal:
    """The values of one marginal at the places of a tree.

    Parameters
    ----------
    kept : int
        The axes it keeps.
    values : array, shape (m, r, ...)
        Its values: the level of the block, then the axes in order, 1 for those it sums over.
    row : array of int, shape (n,), or None
        Which of them belong to each place, any where none do; None where they are in order.
    precision : array of float, shape (n,)
        One over the variance; 0 where nothing was measured, or the values are exact.
    exact : array of bool, shape (n,)
        Where the values are exact.
    """

    kept: int
    values: NDArray[Any]
    row: Places | None
    precision: FloatArray
    exact: NDArray[np.bool_]

    def at(self, rows: Rows) -> NDArray[Any]:
        """Return the values at some places."""
        found: NDArray[Any] = self.values[rows if self.row is None else self.row[rows]]
        return found


@dataclass(frozen=True, eq=False)
class MeasuredTables:
    """Marginals measured at the places of a tree, all with the same r levels of the block.

    Parameters
    ----------
    axes : Axes
        The axes of the tables.
    marginals : tuple of PlacedMarginal
        Their marginals.
    """

    axes: Axes
    marginals: tuple[PlacedMarginal, ...]

    @cached_property
    def exact(self) -> ExactTables | None:
        """What is known without noise, if anything is."""
        known = tuple(one for one in self.marginals if one.exact.any())
        return ExactTables(self.axes, known) if known else None

    def variance(self, mask: int) -> FloatArray:
        """Variance of what is measured of each coefficient of a class, shape (n,)."""
        precision = np.zeros(self.marginals[0].precision.shape)
        for one in self.marginals:
            if not mask & ~one.kept:
                precision += self.axes.summed(one.kept) * one.precision
        with np.errstate(divide="ignore"):
            variance: FloatArray = np.divide(1.0, precision, out=precision)
        if self.exact is not None and mask in self.exact.times:
            variance[self.exact.times[mask] > 0.0] = 0.0
        return variance

    def by_class(self, out: FloatArray | None = None) -> tuple[list[FloatArray | None], Places]:
        """Return the merged values of the coefficients of each class, shape (n, r, k).

        They are 0 where nothing is measured; None for classes of which no marginal says anything.
        Places whose exact values contradict one another come second. ``out``, shape (n, r, cells),
        is where to put the values, class by class.
        """
        places, levels = self.marginals[0].precision.size, self.marginals[0].values.shape[1]
        variance = [self.variance(mask) for mask in self.axes.classes]
        known = [bool(np.isfinite(own).any()) for own in variance]
        room: list[FloatArray | None] = []
        for own, there, at in zip(variance, known, self.axes.columns, strict=True):
            if out is None:
                size = at.stop - at.start
                room.append(np.empty((places, levels, size)) if there else None)
            else:
                room.append(out[:, :, at])
            own[np.isinf(own)] = 0.0
        step = chunk_rows(levels * prod(self.axes.sizes))
        scratch = np.empty((min(step, places), levels, *self.axes.sizes))
        wrong = [np.empty(0, dtype=np.intp)]
        for start in range(0, places, step):
            rows = slice(start, min(start + step, places))
            part = scratch[: rows.stop - rows.start]
            self.collect(rows, part)
            if self.exact is not None:
                self.axes.multiply(part, [own[rows] for own in variance])
                wrong.append(start + self.exact.fill(rows, part))
            for corner, own, values in zip(self.axes.corners, variance, room, strict=True):
                if values is not None:
                    chosen = part[corner]
                    target = values[rows].reshape(chosen.shape)
                    factor = columns(own[rows], part.ndim) if self.exact is None else 1.0
                    np.multiply(chosen, factor, out=target)
        found = [values if there else None for values, there in zip(room, known, strict=True)]
        return found, np.concatenate(wrong)

    @property
    def degrees(self) -> int:
        """Number of noisy values beyond those needed to determine what is measured of a table."""
        found = 0
        for mask, each in zip(self.axes.classes, self.axes.degrees(), strict=True):
            covering = [one for one in self.marginals if not mask & ~one.kept]
            if covering:
                noisy = np.sum([one.precision > 0.0 for one in covering], axis=0)
                exact = np.any([one.exact for one in covering], axis=0)
                found += each * int(np.maximum(noisy - ~exact, 0).sum())
        return found

    @cached_property
    def _assembly(self) -> Assembly:
        return Assembly.of(self.axes, [self.axes.full, *(one.kept for one in self.marginals)])

    def collect(self, rows: slice, out: FloatArray) -> None:
        """Add up values over variances of the coefficients at some places, into ``out``."""
        _assemble(
            self.axes,
            self._assembly,
            [(one, one.at(rows), one.precision[rows]) for one in self.marginals],
            out,
        )


@dataclass(frozen=True, eq=False)
class ExactTables:
    """The marginals that are known without noise at places of a tree."""

    axes: Axes
    marginals: tuple[PlacedMarginal, ...]

    @cached_property
    def times(self) -> dict[int, FloatArray]:
        """By what multiples of the coefficients of each class the exact ones add up, (n,)."""
        found = {
            mask: np.zeros(self.anywhere.shape)
            for mask in self.axes.classes
            if not mask & ~self.kept
        }
        for mask, times in found.items():
            for one in self.marginals:
                if not mask & ~one.kept:
                    times += self.axes.summed(one.kept) * one.exact
        return found

    @cached_property
    def anywhere(self) -> NDArray[np.bool_]:
        """Where anything is known; shape (n,)."""
        return np.asarray(np.any([one.exact for one in self.marginals], axis=0))

    @cached_property
    def _assembly(self) -> Assembly:
        return Assembly.of(self.axes, [one.kept for one in self.marginals])

    @property
    def kept(self) -> int:
        """The axes that any of them keeps."""
        return self._assembly.kept[0]

    def collect(self, places: Places) -> FloatArray:
        """Return the mean of what is known of the coefficients at some places, 0 for nothing."""
        levels = self.marginals[0].values.shape[1]
        out = np.empty((places.size, levels, *self.axes.shape(self.kept)))
        weights = [(one, one.at(places), one.exact[places]) for one in self.marginals]
        _assemble(self.axes, self._assembly, weights, out)
        for mask, corner in zip(self.axes.classes, self.axes.corners, strict=True):
            if mask in self.times:
                out[corner] /= columns(np.maximum(self.times[mask][places], 1.0), out.ndim)
        return out

    def fill(self, rows: slice, out: FloatArray) -> Places:
        """Fill in what is known of the coefficients; return which tables contradict themselves."""
        at = np.flatnonzero(self.anywhere[rows])
        if not at.size:
            return at
        places = at + rows.start
        mean = self.collect(places)
        for mask, corner in zip(self.axes.classes, self.axes.corners, strict=True):
            if mask in self.times:
                known = self.times[mask][places] > 0.0
                out[(at[known], *corner[1:])] = mean[known][corner]
        return np.asarray(at[self.contradictions(places, mean)])

    def contradictions(self, places: Places, mean: FloatArray) -> NDArray[np.bool_]:
        """Return at which places values differ from the marginals of their mean coefficients."""
        wrong = np.zeros(places.size, dtype=bool)
        for one in self.marginals:
            at = np.flatnonzero(one.exact[places])
            values = one.at(places[at])
            expected = marginal_of(self.axes, one.kept, mean[at])
            axes = tuple(range(1, values.ndim))
            size = np.maximum(np.abs(values).max(axis=axes), 1.0)
            wrong[at] |= np.abs(values - expected).max(axis=axes) > CONTRADICTION * size
        return wrong


def _assemble(
    axes: Axes,
    assembly: Assembly,
    found: list[tuple[PlacedMarginal, NDArray[Any], NDArray[Any]]],
    out: FloatArray,
) -> None:
    """Add up the coefficients of marginals, times weights of their rows, into ``out``."""
    parts = {kept: np.empty((*out.shape[:2], *axes.shape(kept))) for kept in assembly.kept[1:]}
    parts = {assembly.kept[0]: out, **parts}
    empty = set(parts)
    for one, values, weight in found:
        factor = columns(weight * sqrt(axes.summed(one.kept)), out.ndim)
        if one.kept in empty:
            np.multiply(values, factor, out=parts[one.kept])
            empty.remove(one.kept)
        else:
            parts[one.kept] += values * factor
    for kept in empty:
        parts[kept].fill(0.0)
    assembly.run(list(parts.values()))


def columns(numbers: FloatArray, ndim: int) -> FloatArray:
    """Return numbers, one for each table, with further axes so that they go with the tables."""
    return numbers.reshape((-1, *(1,) * (ndim - 1)))


def blocked(matrix: FloatArray, tables: FloatArray) -> FloatArray:
    """Return tables, shape (k, g, ...), with other levels of the block, shape (r, g)."""
    if len(matrix) == matrix.shape[1]:  # groups of one level each, in order
        return tables
    found = matrix @ tables.reshape((*tables.shape[:2], -1))
    return found.reshape((len(tables), len(matrix), *tables.shape[2:]))


def marginal_of(axes: Axes, kept: int, coefficients: FloatArray) -> FloatArray:
    """Return the marginals that keep these axes from coefficients of tables."""
    found = coefficients[axes.constant(kept)] * sqrt(axes.summed(kept))
    for axis in range(len(axes.sizes)):
        if kept >> axis & 1:
            reflect(found, 2 + axis)
    return found
