"""The passes over a part of a tree of tables, with what goes to and comes from other parts.

What is known of some tables is held as arrays whose first axis are the tables: of tables without
block ``tables`` and the variance of each class, otherwise for the j-th class ``tables-j`` with
``finite-j``, ``unknown-j`` and ``exact-j`` of their vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.estimation.tables._cells import CellTables
from dpinfer.estimation.tables._passes import TableMessage, TablePasses
from dpinfer.estimation.tables._solution import (
    ClassProblems,
    ScalarVariances,
    TableProblem,
    TableSolution,
)
from dpinfer.estimation.vectors.passes import VectorGains
from dpinfer.estimation.vectors.up import Message
from dpinfer.estimation.vectors.update import Beliefs
from dpinfer.queries._tree import Places, Tree

Known = Mapping[str, FloatArray]
"""What is known of some tables."""


@dataclass(frozen=True, eq=False)
class Received:
    """What is known of leaves from the parts below them.

    Parameters
    ----------
    places : array of int, shape (m,)
        Their places, ascending.
    known : mapping of str to array of float, shape (m, ...)
        What is known of their tables.
    """

    places: Places
    known: Known


@dataclass(frozen=True, eq=False)
class PartPasses:
    """The passes over one part.

    Parameters
    ----------
    problem : TableProblem
        What is known of its tables.
    tree : Tree
        Its n places.
    received : Received, optional
        What is known from parts below it.
    block : bool
        Whether tables have a block, which all parts have or none.
    """

    problem: TableProblem
    tree: Tree
    received: Received | None
    block: bool

    def up(self) -> tuple[dict[str, FloatArray], Places, Places]:
        """Return what is known of the roots, and where exact values contradict one another.

        Contradictions are within a place, and of a place with those below it.
        """
        return self._up_vectors() if self.block else self._up_scalars()

    def down(self, above: Known | None) -> TableSolution:
        """Return estimates of all tables, from what is known of the roots in the end."""
        return self._down_vectors(above) if self.block else self._down_scalars(above)

    def _up_scalars(self) -> tuple[dict[str, FloatArray], Places, Places]:
        (measured,) = self.problem.measured
        passes = TablePasses.of(self.tree, measured, self._message())
        upward = passes.up(measured)
        message = passes.message(upward)
        found = {"tables": message.tables, "variance": np.ascontiguousarray(message.variance.T)}
        return found, upward.inside, upward.between

    def _down_scalars(self, above: Known | None) -> TableSolution:
        (measured,) = self.problem.measured
        roots = None if above is None else above["variance"].T
        passes = TablePasses.of(self.tree, measured, self._message(), roots)
        upward = passes.up(measured)
        tables = passes.down(upward, None if above is None else above["tables"])
        return TableSolution(
            tables=CellTables.placed(self.problem.axes, tables, self.tree.order),
            variances=tuple(ScalarVariances(gains.variance) for gains in passes.gains),
            degrees=None,
            inside=upward.inside,
            between=upward.between,
        )

    def _message(self) -> TableMessage | None:
        if self.received is None:
            return None
        known = self.received.known
        return TableMessage(self.received.places, known["tables"], known["variance"].T)

    def _up_vectors(self) -> tuple[dict[str, FloatArray], Places, Places]:
        classes = ClassProblems.of(self.problem, len(self.tree))
        between = [np.empty(0, dtype=np.intp)]
        found: dict[str, FloatArray] = {}
        for one in classes:
            at = one.number
            message, tables = self._vector_message(at)
            gains = VectorGains.up(
                self.tree, one.matrices, one.precision, self.problem.zeros, message
            )
            collected = gains.collect(one.values, tables, one.estimates)
            one.values.clear()
            between.append(collected.contradictions)
            sent = gains.message()
            found[f"tables-{at}"] = collected.estimates[sent.places]
            found[f"finite-{at}"] = sent.beliefs.finite
            found[f"unknown-{at}"] = sent.beliefs.unknown
            found[f"exact-{at}"] = sent.beliefs.exact
        return found, classes.inside, np.concatenate(between)

    def _down_vectors(self, above: Known | None) -> TableSolution:
        classes = ClassProblems.of(self.problem, len(self.tree))
        between = [np.empty(0, dtype=np.intp)]
        variances: dict[int, VectorGains] = {}
        for one in classes:
            at = one.number
            message, known = self._vector_message(at)
            gains = VectorGains.up(
                self.tree, one.matrices, one.precision, self.problem.zeros, message
            ).down(None if above is None else _beliefs(above, at))
            collected = gains.collect(one.values, known, one.estimates)
            one.values.clear()
            between.append(collected.contradictions)
            gains.spread(collected, None if above is None else above[f"tables-{at}"])
            variances[at] = gains
        return TableSolution(
            tables=classes.tables(self.tree.order),
            variances=tuple(variances[at] for at in sorted(variances)),
            degrees=None,
            inside=classes.inside,
            between=np.concatenate(between),
        )

    def _vector_message(self, at: int) -> tuple[Message | None, FloatArray | None]:
        if self.received is None:
            return None, None
        known = self.received.known
        return Message(self.received.places, _beliefs(known, at)), known[f"tables-{at}"]


def _beliefs(known: Known, at: int) -> Beliefs:
    """Return what is known of the vectors of a class."""
    return Beliefs(known[f"finite-{at}"], known[f"unknown-{at}"], known[f"exact-{at}"])


def answers(solution: TableSolution, places: Places) -> dict[str, FloatArray]:
    """Return what is known in the end of some leaves that had received."""
    tables = solution.tables.coefficients(places)
    scalars = [one.found[places] for one in solution.variances if isinstance(one, ScalarVariances)]
    if scalars:
        return {"tables": tables, "variance": np.stack(scalars, axis=1)}
    found: dict[str, FloatArray] = {}
    corners = solution.tables.axes.corners
    for at, (corner, gains) in enumerate(zip(corners, solution.variances, strict=True)):
        assert isinstance(gains, VectorGains)
        found[f"tables-{at}"] = tables[corner].reshape((*tables.shape[:2], -1))
        known = gains.answer(places)
        found[f"finite-{at}"], found[f"unknown-{at}"] = known.finite, known.unknown
        found[f"exact-{at}"] = known.exact
    return found
