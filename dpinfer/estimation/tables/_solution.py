"""Estimates of tables on trees as coefficients, with their variances class by class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.estimation.tables._axes import Axes
from dpinfer.estimation.tables._measured import MeasuredTables, Rows
from dpinfer.estimation.tables._passes import TablePasses
from dpinfer.estimation.vectors.passes import VectorGains
from dpinfer.queries._tree import Places, Tree


@dataclass(frozen=True, eq=False)
class TableProblem:
    """What is known of the tables of a tree of n places.

    Parameters
    ----------
    axes : Axes
        The axes of the tables that are transformed.
    levels : int
        Number g of levels of the block.
    measured : sequence of MeasuredTables
        Marginals, those together that have the same levels of the block.
    matrices : sequence of array of float, shape (r, g)
        What these are.
    zeros : array of bool, shape (n, g), or None
        Levels of the block that are 0 in a table.
    """

    axes: Axes
    levels: int
    measured: Sequence[MeasuredTables]
    matrices: Sequence[FloatArray]
    zeros: NDArray[np.bool_] | None

    def solve(self, tree: Tree) -> TableSolution:
        """Estimate all tables."""
        with np.errstate(invalid="ignore", over="ignore"):  # of values that are refused later
            simple = self.levels == 1 and self.zeros is None
            return _scalars(self, tree) if simple else _vectors(self, tree)


class Tables(Protocol):
    """Coefficients of tables."""

    def chosen(self, kept: int, rows: Rows) -> FloatArray:
        """Return those of some tables with the coordinate 0 in the axes that are not kept."""


@dataclass(frozen=True, eq=False)
class WholeTables:
    """Coefficients as tables, shape (n, 1, ...)."""

    axes: Axes
    found: FloatArray

    def chosen(self, kept: int, rows: Rows) -> FloatArray:
        """Return some of them; a view for a slice."""
        return np.asarray(self.found[rows][self.axes.constant(kept)])


@dataclass(frozen=True, eq=False)
class ClassTables:
    """Coefficients class by class, each of shape (n, g, k)."""

    axes: Axes
    found: tuple[FloatArray, ...]

    def chosen(self, kept: int, rows: Rows) -> FloatArray:
        """Put some of them together."""
        number, levels = self.found[0][rows].shape[:2]
        out = np.empty((number, levels, *self.axes.shape(kept)))
        for mask, corner, part in zip(
            self.axes.classes, self.axes.corners, self.found, strict=True
        ):
            if not mask & ~kept:
                target = out[corner]
                target[...] = part[rows].reshape(target.shape)
        return out


class Variances(Protocol):
    """Variances of the coefficients of one class."""

    def variance(self, functionals: FloatArray, places: Places) -> FloatArray:
        """Return those of functionals, shape (k, g), of some places; (m, k), or infinite."""


@dataclass(frozen=True, eq=False)
class ScalarVariances:
    """Variances of coefficients, shape (n,), where there is no block."""

    found: FloatArray

    def variance(self, functionals: FloatArray, places: Places) -> FloatArray:
        """Return those of functionals, shape (k, 1), of some places."""
        square = np.square(functionals[:, 0])
        if (square == 1.0).all():
            return np.asarray(self.found[places][:, np.newaxis])
        variance = self.found[places][:, np.newaxis]
        return np.multiply(
            variance, square, out=np.zeros((len(variance), square.size)), where=square > 0.0
        )


@dataclass(frozen=True, eq=False)
class TableSolution:
    """Estimates of the tables of n places.

    Parameters
    ----------
    tables : Tables
        Their coefficients; meaningless where the variance is infinite.
    variances : tuple of Variances
        Those of each class.
    degrees : int or None
        Number of noisy values beyond those needed to determine the others, where that is known.
    inside, between : array of int
        Places whose exact values contradict one another, and those below them.
    finite : bool
        Whether all estimates are finite, as they are unless a value is not.
    """

    tables: Tables
    variances: tuple[Variances, ...]
    degrees: int | None
    inside: Places
    between: Places
    finite: bool


def _scalars(problem: TableProblem, tree: Tree) -> TableSolution:
    """Estimate tables of which all attributes are transformed."""
    (measured,) = problem.measured
    passes = TablePasses.of(tree, measured)
    upward = passes.up(measured)
    finite = bool(np.isfinite(upward.tables[: passes.roots]).all())
    return TableSolution(
        tables=WholeTables(problem.axes, passes.down(upward)),
        variances=tuple(ScalarVariances(gains.variance) for gains in passes.gains),
        degrees=passes.degrees + measured.degrees,
        inside=upward.inside,
        between=upward.between,
        finite=finite,
    )


@dataclass(frozen=True, eq=False)
class ClassProblem:
    """What is known of the coefficients of one class: k vectors on a tree of n places.

    Parameters
    ----------
    values : list of array of float, shape (n, r_i, k)
        What was measured through each of q matrices.
    matrices : list of array of float, shape (r_i, g)
        These.
    precision : array of float, shape (n, q)
        Of each place and matrix.
    """

    values: list[FloatArray]
    matrices: list[FloatArray]
    precision: FloatArray


def classes_of(problem: TableProblem, places: int) -> tuple[Iterator[ClassProblem], Places]:
    """Return the problem of each class, and the places whose exact values contradict themselves."""
    values, wrong = zip(*(measured.by_class() for measured in problem.measured), strict=True)
    return _class_problems(problem, places, values), np.concatenate(wrong)


def _class_problems(
    problem: TableProblem, places: int, values: tuple[list[FloatArray | None], ...]
) -> Iterator[ClassProblem]:
    for at, (mask, size) in enumerate(
        zip(problem.axes.classes, problem.axes.degrees(), strict=True)
    ):
        own, matrices, variances = [], [], []
        for measured, matrix, merged in zip(
            problem.measured, problem.matrices, values, strict=True
        ):
            found = merged[at]
            if found is not None:
                own.append(found)
                matrices.append(matrix)
                variances.append(measured.variance(mask))
                merged[at] = found = None  # to make room
        if not own:
            own.append(np.zeros((places, 1, size)))
            matrices.append(np.ones((1, problem.levels)))
            variances.append(np.full(places, np.inf))
        with np.errstate(divide="ignore"):
            precision = 1.0 / np.stack(variances, axis=1)
        yield ClassProblem(own, matrices, precision)


def _vectors(problem: TableProblem, tree: Tree) -> TableSolution:
    """Estimate tables with a block: the coefficients of a class are vectors on the tree."""
    classes, inside = classes_of(problem, len(tree))
    between = [np.empty(0, dtype=np.intp)]
    tables, gains = [], []
    for one in classes:
        found = VectorGains.of(tree, one.matrices, one.precision, problem.zeros)
        collected = found.collect(one.values)
        one.values.clear()
        between.append(collected.contradictions)
        tables.append(found.spread(collected))
        gains.append(found)
    return TableSolution(
        tables=ClassTables(problem.axes, tuple(tables)),
        variances=tuple(gains),
        degrees=None,
        inside=inside,
        between=np.concatenate(between),
        finite=all(bool(np.isfinite(one).all()) for one in tables),
    )
