"""The estimates of the tables of a hierarchy, held as coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.errors import IncompatibleReleaseError
from dpinfer.estimation.normal import is_gaussian
from dpinfer.estimation.tables._axes import Axes
from dpinfer.estimation.tables._householder import reflect
from dpinfer.estimation.tables._laws import TableLaws
from dpinfer.estimation.tables._measured import (
    MeasuredTables,
    PlacedMarginal,
    blocked,
    chunk_rows,
)
from dpinfer.estimation.tables._reading import ReadMarginal
from dpinfer.estimation.tables._schema import Names, TableSchema
from dpinfer.estimation.tables._solution import TableProblem, TableSolution
from dpinfer.queries import Hierarchy
from dpinfer.queries._tree import Places

_ROUNDING = 1e-12
"""Size of a part of a contrast, relative to the contrast, below which it is rounding."""

CONTRADICTIONS = (
    "the exact values of a unit contradict one another for",
    "exact values contradict one another in or just below",
)
"""What messages say of exact values within a unit, and of those of a unit and others."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MarginalsFit:
    """Estimates of the tables of all units of a hierarchy.

    Parameters
    ----------
    hierarchy : Hierarchy
        The units.
    schema : TableSchema
        The attributes of their tables.
    read : tuple of ReadMarginal
        What was published.
    placed : tuple of PlacedMarginal
        The same at the n places of the tree.
    zeros : array of bool, shape (n, g), or None
        Levels of the block that are 0.
    solution : TableSolution
        The estimates.
    """

    hierarchy: Hierarchy
    schema: TableSchema
    read: tuple[ReadMarginal, ...]
    placed: tuple[PlacedMarginal, ...]
    zeros: NDArray[np.bool_] | None
    solution: TableSolution

    @classmethod
    def of(
        cls,
        read: tuple[ReadMarginal, ...],
        hierarchy: Hierarchy,
        schema: TableSchema,
        zeros: NDArray[np.bool_] | None,
    ) -> MarginalsFit:
        """Combine marginals."""
        placed = tuple(one.placed(hierarchy) for one in read)
        solution = problem(schema, read, placed, zeros).solve(hierarchy.tree)
        within, across = CONTRADICTIONS
        refuse_contradictions(solution.inside, hierarchy, within)
        refuse_contradictions(solution.between, hierarchy, across)
        return cls(
            hierarchy=hierarchy,
            schema=schema,
            read=read,
            placed=placed,
            zeros=zeros,
            solution=solution,
        )

    @property
    def axes(self) -> Axes:
        """The transformed axes of the tables."""
        return self.schema.axes

    @property
    def values(self) -> int:
        """Number of published values."""
        return sum(one.values.size for one in self.read)

    @property
    def is_gaussian(self) -> bool:
        """Whether all noise is Gaussian."""
        return all(is_gaussian(one.law, len(one.values)) for one in self.read)

    @cached_property
    def degrees(self) -> int:
        """Number of noisy values beyond those needed to determine the others."""
        if self.solution.degrees is not None:
            return self.solution.degrees
        # the trace of what maps values to residuals is the dimension of these
        left = 0.0
        for one, read in zip(self.placed, self.read, strict=True):
            at = np.flatnonzero(one.precision > 0.0)
            variance = self.cell_variance(read.names, at) * one.precision[at, np.newaxis]
            left += prod(self.axes.shape(one.kept)) * float((1.0 - variance).sum())
        return round(left)

    @cached_property
    def laws(self) -> TableLaws:
        """The laws of the errors."""
        return TableLaws(self)

    def places(self, units: Places | None) -> Places:
        """Return the places of units, by default all."""
        return self.hierarchy.tree.place_of(
            np.arange(len(self.hierarchy)) if units is None else units
        )

    def marginal(self, names: Names, places: Places | None) -> FloatArray:
        """Return the marginals of some places, or of all units, shape (k, r, ...).

        Those of all units may be the tables themselves.
        """
        kept, matrix = self.schema.kept(names), self.schema.matrix(names)
        tables = self.solution.tables
        if places is None:
            return tables.numbered(kept, matrix, len(self.hierarchy))
        out = np.empty((places.size, len(matrix), *self.axes.shape(kept)))
        step = chunk_rows(self.schema.domain.size)
        for start in range(0, places.size, step):
            rows = slice(start, min(start + step, places.size))
            out[rows] = tables.marginal(kept, matrix, places[rows])
        return out

    def known(self, names: Names) -> bool:
        """Tell whether the values determine these marginals in all units."""
        kept = self.schema.kept(names)
        pairs = zip(self.axes.classes, self.solution.variances, strict=True)
        return all(variances.known for mask, variances in pairs if not mask & ~kept)

    def cell_variance(self, names: Names, places: Places) -> FloatArray:
        """Return the variances of each cell of these marginals, shape (k, r)."""
        weights = self.axes.cell_weights(self.schema.kept(names))
        matrix = self.schema.matrix(names)
        total = np.zeros((places.size, len(matrix)))
        for weight, variances in zip(weights, self.solution.variances, strict=True):
            if weight > 0.0:
                total += weight * variances.variance(matrix, places)
        return np.maximum(total, 0.0, out=total)  # rounding, where all is known exactly

    def contrast(self, names: Names, place: int, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return estimates and variances of functions of a marginal, shape (k, r, ...); (k,)."""
        kept = self.schema.kept(names)
        turned = rows * np.sqrt(self.axes.summed(kept))
        for axis in range(len(self.axes.sizes)):
            if kept >> axis & 1:
                reflect(turned, 2 + axis)
        turned = blocked(self.schema.matrix(names).T, turned)
        size = np.sqrt(np.square(turned).sum(axis=tuple(range(1, turned.ndim))))
        table = self.solution.tables.coefficients(slice(place, place + 1))
        estimate, variance = np.zeros(len(rows)), np.zeros(len(rows))
        for mask, corner, variances in zip(
            self.axes.classes, self.axes.corners, self.solution.variances, strict=True
        ):
            if mask & ~kept:
                continue
            part = turned[corner].reshape((*turned.shape[:2], -1))
            function, column = np.nonzero(
                np.sqrt(np.square(part).sum(axis=1)) > _ROUNDING * size[:, np.newaxis]
            )
            if function.size:
                used = part[function, :, column]
                known = table[corner].reshape((self.schema.levels, -1))[:, column].T
                found = variances.variance(used, np.array([place]))[0]
                np.add.at(estimate, function, (used * known).sum(axis=1))
                np.add.at(variance, function, found)
        return estimate, np.maximum(variance, 0.0)  # rounding, where all is known exactly


def problem(
    schema: TableSchema,
    read: tuple[ReadMarginal, ...],
    placed: tuple[PlacedMarginal, ...],
    zeros: NDArray[np.bool_] | None,
) -> TableProblem:
    """Put marginals together that have the same levels of the block."""
    matrices: dict[bytes, FloatArray] = {}
    alike: dict[bytes, list[PlacedMarginal]] = {}
    for one, known in zip(placed, read, strict=True):
        matrix = schema.matrix(known.names)
        matrices[matrix.tobytes()] = matrix
        alike.setdefault(matrix.tobytes(), []).append(one)
    return TableProblem(
        axes=schema.axes,
        levels=schema.levels,
        measured=[MeasuredTables(schema.axes, tuple(found)) for found in alike.values()],
        matrices=list(matrices.values()),
        zeros=zeros,
    )


def refuse_contradictions(places: Places, hierarchy: Hierarchy, what: str) -> None:
    """Refuse exact values that contradict one another."""
    if places.size:
        order = hierarchy.tree.order
        found = np.unique(places if order is None else order[places])
        units = found[found < len(hierarchy)]
        raise IncompatibleReleaseError(
            f"values published without noise must agree, but {what} {hierarchy.names(units)}"
        )
