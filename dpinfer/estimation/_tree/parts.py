"""The passes over a tree of tables, or over a part of one, and the estimates they leave.

A part sends what is known of its roots up, and takes what is known of them in the end down; a tree
in memory is one part of which nothing is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer.estimation._tree.axes import Axes, reflect
from dpinfer.estimation._tree.leaves import StructuredLeaves
from dpinfer.estimation._tree.passes import Collected, Message, VectorGains
from dpinfer.estimation._tree.tables import (
    CellTables,
    Known,
    MeasuredTables,
    MergedTables,
    Received,
    Rows,
    TablePasses,
    Tables,
    both_of,
    chunk_rows,
)
from dpinfer.estimation._tree.update import Beliefs
from dpinfer.queries.hierarchy import Places, Tree

_FEW_LEVELS = 4  # of which chunks take no more rows if there are fewer


@dataclass(frozen=True, eq=False)
class TableProblem:
    """What is known of the tables of a tree of n places."""

    axes: Axes  # the axes of the tables that are transformed
    levels: int  # number g of levels of the block
    # Marginals, those together that have the same levels of the block
    measured: Sequence[MeasuredTables]
    matrices: Sequence[FloatArray]  # (r, g): what these are
    zeros: NDArray[np.bool_] | None  # (n, g): levels of the block that are 0 in a table
    block: bool  # whether there is a block, so that coefficients are vectors

    def solve(self, tree: Tree) -> TableSolution:
        """Estimate all tables, and hold them."""
        return self.part(tree).solve()

    def part(
        self,
        tree: Tree,
        received: Received | None = None,
        above: Known | None = None,
        found: Known | None = None,
    ) -> ScalarPart | VectorPart:
        """Return the passes over a tree, which may be a part of one.

        The roots of the parts below it are leaves of which ``received`` is known; ``above`` is what
        is known of the roots in the end, where there is a part above. What was ``found`` before on
        the way up need not be found again.
        """
        if self.block:
            return VectorPart.of(self, tree, received, above, found)
        return ScalarPart.of(self, tree, received, above)


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
    """Estimates of the tables of n places."""

    tables: Tables  # their cells; meaningless where the variance is infinite
    variances: tuple[Variances, ...]  # those of each class
    # number of noisy values beyond those needed to determine the others, where that is known
    degrees: int | None
    inside: Places  # Places whose exact values contradict one another, and those below them
    between: Places

    @property
    def held(self) -> CellTables:
        """The tables, where they are held."""
        assert isinstance(self.tables, CellTables)
        return self.tables


@dataclass(frozen=True, eq=False)
class ScalarPart:
    """A tree, or a part of one, of tables of which all attributes are transformed."""

    problem: TableProblem
    passes: TablePasses
    above: Known | None  # what is known of the roots in the end, where there is a part above

    @classmethod
    def of(
        cls, problem: TableProblem, tree: Tree, received: Received | None, above: Known | None
    ) -> ScalarPart:
        """Find the weights."""
        roots = None if above is None else above["variance"]
        return cls(problem, TablePasses.of(tree, problem.measured[0], received, roots), above)

    @property
    def found_up(self) -> Known:
        """Nothing: estimates from below are as many as values, and made as fast as read."""
        return {}

    def up(self) -> tuple[Known, Places, Places]:
        """Return what is known of the roots from below, and where exact values contradict others.

        Contradictions are within a place, and of a place with those below it.
        """
        upward = self.passes.up(self.problem.measured[0])
        return self.passes.message(upward), upward.inside, upward.between

    def solve(self, *, held: bool = True) -> TableSolution:
        """Estimate all tables, which are ``held`` whatever is asked for."""
        (measured,) = self.problem.measured
        upward = self.passes.up(measured)
        tables = self.passes.down(upward, None if self.above is None else self.above["tables"])
        return TableSolution(
            tables=CellTables.placed(self.problem.axes, tables, self.passes.tree.order),
            variances=tuple(ScalarVariances(gains.variance) for gains in self.passes.gains),
            degrees=self.passes.degrees + measured.degrees,
            inside=upward.inside,
            between=upward.between,
        )


def answers(solution: TableSolution, places: Places) -> Known:
    """Return what is known in the end of some leaves that had received."""
    tables = solution.tables.coefficients(places)
    scalars = [one.found[places] for one in solution.variances if isinstance(one, ScalarVariances)]
    if scalars:
        return {"tables": tables, "variance": np.stack(scalars, axis=1)}
    found: dict[str, FloatArray] = {}
    corners = solution.tables.axes.corners
    for at, (corner, gains) in enumerate(zip(corners, solution.variances, strict=True)):
        assert isinstance(gains, VectorGains)
        found |= _said(at, tables[corner].reshape((*tables.shape[:2], -1)), gains.answer(places))
    return found


def _said(at: int, tables: FloatArray, known: Beliefs) -> dict[str, FloatArray]:
    """Return what is known of the vectors of a class, with the tables, as files hold it."""
    return {
        f"tables-{at}": tables,
        f"finite-{at}": known.finite,
        f"unknown-{at}": known.unknown,
        f"exact-{at}": known.exact,
    }


def _beliefs(known: Known, at: int) -> Beliefs:
    """Return what is known of the vectors of a class."""
    return Beliefs(known[f"finite-{at}"], known[f"unknown-{at}"], known[f"exact-{at}"])


@dataclass(frozen=True, eq=False)
class VectorPart:
    """A tree, or a part of one, of tables with a block: the k coefficients of a class are vectors.

    Leaves are gone through some at a time, class by class, and their values are transformed on the
    way up and again on the way down: only of dense nodes is anything kept in between.
    """

    problem: TableProblem
    tree: Tree
    merged: tuple[MergedTables, ...]  # what was measured through each matrix
    asked: tuple[tuple[int, ...], ...]  # which of them say anything of each class
    gains: tuple[VectorGains, ...]  # what is known of each class from below
    received: Received | None
    above: Known | None
    found: Known | None  # what was found on the way up before

    @classmethod
    def of(
        cls,
        problem: TableProblem,
        tree: Tree,
        received: Received | None,
        above: Known | None,
        found: Known | None = None,
    ) -> VectorPart:
        """Find what is known from below."""
        merged, every = zip(*map(MergedTables.of, problem.measured), strict=True)
        asked, gains = [], []
        for at in range(len(problem.axes.classes)):
            own = tuple(j for j, one in enumerate(merged) if one.variance[at] is not None)
            matrices, precision = [problem.matrices[j] for j in own], [every[j][at] for j in own]
            if not own:
                matrices, precision = [np.ones((1, problem.levels))], [np.zeros(len(tree))]
            message = None
            if received is not None:
                message = Message(received.places, _beliefs(received.known, at))
            stacked = np.stack(precision, axis=1)
            gains.append(VectorGains.up(tree, matrices, stacked, problem.zeros, message))
            asked.append(own)
        return cls(problem, tree, tuple(merged), tuple(asked), tuple(gains), received, above, found)

    @property
    def found_up(self) -> Known:
        """What `solve` needs of what was found on the way up."""
        return {
            f"{name}-{at}": array
            for at, one in enumerate(self._collected[0])
            for name, array in (("estimates", one.estimates), ("sums", one.sums))
        }

    def up(self) -> tuple[Known, Places, Places]:
        """Return what is known of the roots from below, and where exact values contradict others.

        Contradictions are within a place, and of a place with those below it.
        """
        collected, inside = self._collected
        found: dict[str, FloatArray] = {}
        for at, (gains, one) in enumerate(zip(self.gains, collected, strict=True)):
            message = gains.message()
            rows = gains.below.layout.dense_of[message.places]
            found |= _said(at, one.estimates[rows], message.beliefs)
        return found, inside, np.concatenate([one.contradictions for one in collected])

    def solve(self, *, held: bool = True) -> TableSolution:
        """Estimate all tables, and hold them, or make them when they are asked for."""
        collected, inside = self._collected
        final = []
        for at, (gains, one) in enumerate(zip(self.gains, collected, strict=True)):
            above = self.above
            gains.spread(one, None if above is None else above[f"tables-{at}"])
            final.append(gains.down(None if above is None else _beliefs(above, at)))
        tables: Tables = MadeTables(self.problem.axes, self, collected)
        if held:
            cells = np.empty((len(self.tree), self.problem.levels, *self.problem.axes.sizes))
            self.cells(collected, np.arange(len(self.tree)), cells, self.tree.order)
            tables = CellTables(self.problem.axes, cells, self.tree.order)
        return TableSolution(
            tables=tables,
            variances=tuple(final),
            degrees=None,
            inside=inside,
            between=np.concatenate([one.contradictions for one in collected]),
        )

    @cached_property
    def _collected(self) -> tuple[list[Collected], Places]:
        """What is found of the dense nodes of each class on the way up, and contradictions.

        Where it was found before, contradictions were.
        """
        none: Places = np.empty(0, dtype=np.intp)
        if self.found is not None:
            number = range(len(self.gains))
            return [
                Collected(self.found[f"estimates-{at}"], self.found[f"sums-{at}"], none)
                for at in number
            ], none
        dense: list[list[FloatArray]] = []
        sums = []
        for gains, columns in zip(self.gains, self.problem.axes.degrees(), strict=True):
            layout, queries = gains.below.layout, gains.below.queries
            shapes = [(layout.dense.size, len(one), columns) for one in queries.matrices]
            dense.append([np.zeros(shape) for shape in shapes])
            sums.append(np.zeros((layout.inner.size, queries.size, columns)))
        inside = [none]
        for _, places, run in self._chunks(np.arange(len(self.tree))):
            values, wrong = self._values(places, run)
            inside += wrong
            for at, (gains, own) in enumerate(zip(self.gains, run.leaves, strict=True)):
                if own is None:
                    rows = gains.below.layout.dense_of[places]
                    for room, found in zip(dense[at], values[at], strict=False):
                        room[rows] = found
                else:
                    chosen, estimates = self._estimates(at, own, places, run, values[at])
                    own.add(chosen, estimates, sums[at])
        collected = []
        for at, gains in enumerate(self.gains):
            sent = None if self.received is None else self.received.known[f"tables-{at}"]
            collected.append(gains.collect(dense[at], sums[at], sent))
            dense[at].clear()
        return collected, np.concatenate(inside)

    def cells(
        self, collected: list[Collected], wanted: Places, out: FloatArray, order: Places | None
    ) -> None:
        """Put the cells at ascending places into ``out``, in this order, once all is final."""
        axes = self.problem.axes
        for at_wanted, places, run in self._chunks(wanted):
            tables = np.zeros((places.size, run.size, *out.shape[2:]))
            values = self._values(places, run)[0] if any(run.leaves) else []
            for at, (one, own) in enumerate(zip(collected, run.leaves, strict=True)):
                corner = tables[axes.corners[at]]
                if own is None:
                    rows = self.gains[at].below.layout.dense_of[places]
                    corner[...] = _as_tables(one.estimates[rows], corner)
                else:
                    chosen, estimates = self._estimates(at, own, places, run, values[at])
                    estimates += own.moved(chosen, one.sums)
                    corner[:, run.among(own)] = _as_tables(estimates, corner)
            reflect(tables)
            where = at_wanted if order is None else order[at_wanted]
            if run.size < self.problem.levels:
                out[where] = 0.0
            out[both_of(where, run.levels)] = tables

    def _values(self, places: Places, run: Run) -> tuple[list[list[FloatArray]], list[Places]]:
        """Return the values that are asked of each class; places that contradict themselves."""
        found, inside = [], []
        for one, matrix in zip(self.merged, self.problem.matrices, strict=True):
            some = len(matrix) == self.problem.levels and one.measured.exact is None
            values, wrong = one.at(places, run.levels if some else None)
            found.append(values)
            inside.append(wrong)
        return [
            [each for j in asked if (each := found[j][at]) is not None]
            for at, asked in enumerate(self.asked)
        ], inside

    def _estimates(
        self,
        at: int,
        leaves: StructuredLeaves,
        places: Places,
        run: Run,
        values: list[FloatArray],
    ) -> tuple[Rows, FloatArray]:
        """Return which of the leaves of a class places are, and estimates from their values."""
        among, chosen = run.among(leaves), _span(np.searchsorted(leaves.places, places))
        known = [
            each[:, among] if identity and each.shape[1] == run.size else each
            for each, identity in zip(values, leaves.queries.identity, strict=True)
        ]
        precision = self.gains[at].below.precision[places]
        return chosen, leaves.estimate(chosen, known, precision)

    def _chunks(self, wanted: Places) -> Iterator[tuple[Places, Places, Run]]:
        """Yield which of some ascending places are of one run, these, and the run."""
        kind, runs = self._runs
        own, cells = kind[wanted], prod(self.problem.axes.sizes)
        order = np.argsort(own, kind="stable")
        for same in np.split(order, np.flatnonzero(np.diff(own[order])) + 1):
            run = runs[int(own[same[0]])]
            step = chunk_rows(2 * max(run.size, _FEW_LEVELS) * cells)  # values and estimates
            for start in range(0, same.size, step):
                some = same[start : start + step]
                yield some, wanted[some], run

    @cached_property
    def _runs(self) -> tuple[Places, list[Run]]:
        """The number of the run of each place, and the runs."""
        kind = np.zeros(len(self.tree), dtype=np.intp)
        last = kind
        for gains in self.gains:
            slot = np.zeros(len(self.tree), dtype=np.intp)
            for number, leaves in enumerate(gains.below.leaves, 1):
                slot[leaves.places] = number
            if not np.array_equal(slot, last):
                last = slot
                kind = kind * (len(gains.below.leaves) + 1) + slot
                kind = np.unique(kind, return_inverse=True)[1].reshape(-1)
        first = np.unique(kind, return_index=True)[1]
        return kind, [Run.of(place, self.gains) for place in first.tolist()]


@dataclass(frozen=True, eq=False)
class MadeTables(Tables):
    """The cells of tables, made when they are asked for, in a room that is used again."""

    part: VectorPart
    collected: list[Collected]  # what is known in the end of dense nodes, and moves of the others
    _room: list[FloatArray] = field(default_factory=list)

    def at(self, places: Rows) -> FloatArray:
        """Return the tables at some places, until others are asked for."""
        problem = self.part.problem
        wanted = np.arange(places.start, places.stop) if isinstance(places, slice) else places
        if not self._room or len(self._room[0]) < wanted.size:
            self._room[:] = [np.empty((wanted.size, problem.levels, *problem.axes.sizes))]
        out = self._room[0][: wanted.size]
        order = np.argsort(wanted)
        self.part.cells(self.collected, wanted[order], out, order)
        return out


@dataclass(frozen=True, eq=False)
class Run:
    """Places of which the leaves of each class are the same."""

    leaves: tuple[StructuredLeaves | None, ...]  # those of each class; None where they are dense
    levels: Rows  # the levels of the block that are not 0 in all of them
    size: int  # how many these are

    @classmethod
    def of(cls, place: int, gains: Sequence[VectorGains]) -> Run:
        """Find the leaves that a place is of."""
        among = [[one for one in own.below.leaves if one.has(place)] for own in gains]
        leaves = tuple(one[0] if one else None for one in among)
        levels = np.arange(gains[0].below.queries.size)
        if all(one is not None for one in leaves):
            levels = np.unique(np.concatenate([one.levels for one in leaves if one is not None]))
        return cls(leaves, _span(levels), levels.size)

    def among(self, leaves: StructuredLeaves) -> Rows:
        """Return which of the levels are those of the leaves of a class."""
        if leaves.levels.size == self.size:
            return slice(None)
        levels = np.arange(leaves.queries.size)[self.levels]
        return _span(np.searchsorted(levels, leaves.levels))


def _as_tables(vectors: FloatArray, corner: FloatArray) -> FloatArray:
    """Return vectors, shape (m, g, k), as the coefficients of a class of tables."""
    return vectors.reshape((*vectors.shape[:2], *corner.shape[2:]))


def _span(rows: Places) -> Rows:
    """Return neighbouring numbers as a slice."""
    if rows.size and rows[-1] - rows[0] == rows.size - 1:
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows
