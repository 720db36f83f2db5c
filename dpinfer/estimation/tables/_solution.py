"""Estimates of tables on trees as coefficients, with their variances class by class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.estimation.tables._axes import Axes
from dpinfer.estimation.tables._cells import CellTables, cells_of
from dpinfer.estimation.tables._measured import MeasuredTables
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
        simple = self.levels == 1 and self.zeros is None
        return _scalars(self, tree) if simple else _vectors(self, tree)


class Variances(Protocol):
    """Variances of the coefficients of one class."""

    @property
    def known(self) -> bool:
        """Whether all are finite."""

    def variance(self, functionals: FloatArray, places: Places) -> FloatArray:
        """Return those of functionals, shape (k, g), of some places; (m, k), or infinite."""


@dataclass(frozen=True, eq=False)
class ScalarVariances:
    """Variances of coefficients, shape (n,), where there is no block."""

    found: FloatArray

    @property
    def known(self) -> bool:
        """Whether all are finite."""
        return bool(np.isfinite(self.found.max()))

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
    tables : CellTables
        Their cells; meaningless where the variance is infinite.
    variances : tuple of Variances
        Those of each class.
    degrees : int or None
        Number of noisy values beyond those needed to determine the others, where that is known.
    inside, between : array of int
        Places whose exact values contradict one another, and those below them.
    """

    tables: CellTables
    variances: tuple[Variances, ...]
    degrees: int | None
    inside: Places
    between: Places


def _scalars(problem: TableProblem, tree: Tree) -> TableSolution:
    """Estimate tables of which all attributes are transformed."""
    (measured,) = problem.measured
    passes = TablePasses.of(tree, measured)
    upward = passes.up(measured)
    return TableSolution(
        tables=CellTables.placed(problem.axes, passes.down(upward), tree.order),
        variances=tuple(ScalarVariances(gains.variance) for gains in passes.gains),
        degrees=passes.degrees + measured.degrees,
        inside=upward.inside,
        between=upward.between,
    )


@dataclass(frozen=True, eq=False)
class ClassProblem:
    """What is known of the coefficients of one class: k vectors on a tree of n places.

    Parameters
    ----------
    number : int
        The number of the class.
    values : list of array of float, shape (n, r_i, k)
        What was measured through each of q matrices.
    matrices : list of array of float, shape (r_i, g)
        These.
    precision : array of float, shape (n, q)
        Of each place and matrix.
    estimates : array of float, shape (n, g, k)
        Where to put the estimates; values of the identity may be there.
    """

    number: int
    values: list[FloatArray]
    matrices: list[FloatArray]
    precision: FloatArray
    estimates: FloatArray


@dataclass(frozen=True, eq=False)
class ClassProblems:
    """The problems of all classes, the largest first, whose values make the most room.

    Parameters
    ----------
    problem : TableProblem
        Whose they are.
    values : list of list of array of float, shape (n, r, k), or None
        What was measured through each matrix of the coefficients of each class; handed over.
    estimates : array of float, shape (n, g, cells)
        Where to put the coefficients, class by class.
    inside : array of int
        Places whose exact values contradict one another.
    """

    problem: TableProblem
    values: list[list[FloatArray | None]]
    estimates: FloatArray
    inside: Places

    @classmethod
    def of(cls, problem: TableProblem, places: int) -> ClassProblems:
        """Bring what was measured in the order of classes."""
        shape = (places, problem.levels, sum(problem.axes.degrees()))
        identity = [len(matrix) == problem.levels for matrix in problem.matrices]
        estimates = np.empty(shape) if any(identity) else np.zeros(shape)
        values, inside = [], []
        for measured, own in zip(problem.measured, identity, strict=True):
            found, wrong = measured.by_class(estimates if own else None)
            values.append(found)
            inside.append(wrong)
        return cls(problem, values, estimates, np.concatenate(inside))

    def __iter__(self) -> Iterator[ClassProblem]:
        problem, axes = self.problem, self.problem.axes
        for at in np.argsort(axes.degrees())[::-1].tolist():
            mask, columns = axes.classes[at], axes.columns[at]
            values, matrices, variances = [], [], []
            for measured, matrix, merged in zip(
                problem.measured, problem.matrices, self.values, strict=True
            ):
                found = merged[at]
                if found is not None:
                    values.append(found)
                    matrices.append(matrix)
                    variances.append(measured.variance(mask))
                    merged[at] = found = None  # to make room
            estimates = self.estimates[:, :, columns]
            if not values:
                values.append(np.zeros((len(estimates), 1, estimates.shape[2])))
                matrices.append(np.ones((1, problem.levels)))
                variances.append(np.full(len(estimates), np.inf))
            with np.errstate(divide="ignore"):
                precision = 1.0 / np.stack(variances, axis=1)
            yield ClassProblem(at, values, matrices, precision, estimates)

    def tables(self, order: Places | None) -> CellTables:
        """Turn the estimates, once made, to cells in place."""
        axes = self.problem.axes
        return CellTables.placed(axes, cells_of(axes, self.estimates), order)


def _vectors(problem: TableProblem, tree: Tree) -> TableSolution:
    """Estimate tables with a block: the coefficients of a class are vectors on the tree."""
    classes = ClassProblems.of(problem, len(tree))
    between = [np.empty(0, dtype=np.intp)]
    gains: dict[int, VectorGains] = {}
    for one in classes:
        found = VectorGains.of(tree, one.matrices, one.precision, problem.zeros)
        collected = found.collect(one.values, out=one.estimates)
        one.values.clear()
        between.append(collected.contradictions)
        found.spread(collected)
        gains[one.number] = found
    return TableSolution(
        tables=classes.tables(tree.order),
        variances=tuple(gains[at] for at in sorted(gains)),
        degrees=None,
        inside=classes.inside,
        between=np.concatenate(between),
    )
