"""The tasks of a plan: one part of a tree of tables read, combined and written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray, check_items, show, show_some
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.streaming._files import (
    Folder,
    plain_labels,
    read_bound,
    read_known,
    write_estimates,
    write_known,
)
from dpinfer.estimation.streaming._passes import PartPasses, Received, answers
from dpinfer.estimation.tables._fit import (
    CONTRADICTIONS,
    MarginalsFit,
    problem,
    refuse_contradictions,
)
from dpinfer.estimation.tables._laws import TableLaws
from dpinfer.estimation.tables._measured import PlacedMarginal
from dpinfer.estimation.tables._reading import ReadMarginal
from dpinfer.estimation.tables._schema import Names, TableSchema
from dpinfer.estimation.tables._solution import TableSolution
from dpinfer.estimation.tables._zeros import StructuralZeros, check_zeros, place_zeros
from dpinfer.estimation.tables.estimate import MarginalsEstimate
from dpinfer.estimation.tables.marginals import read_marginal
from dpinfer.mechanisms import Exact
from dpinfer.queries import Hierarchy
from dpinfer.queries._tree import Places


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """What is the same for all parts.

    Parameters
    ----------
    folder : Folder
        Where files are.
    schema : TableSchema
        The attributes of tables.
    zeros : tuple of StructuralZeros
        Cells that are 0 in all units.
    block : bool
        Whether tables have a block.
    wanted : tuple of tuple of str
        The marginals to write.
    refuse : bool
        Whether to refuse what is not estimable.
    """

    folder: Folder
    schema: TableSchema
    zeros: tuple[StructuralZeros, ...]
    block: bool
    wanted: tuple[Names, ...]
    refuse: bool


@dataclass(frozen=True, eq=False)
class PartTask:
    """One part.

    Parameters
    ----------
    plan : Plan
        What is the same for all.
    name : str
        Its name.
    load : callable
        What gives its hierarchy, marginals and zeros.
    below : tuple of str
        The parts below it.
    top : bool
        Whether it is the one above all others.
    """

    plan: Plan
    name: str
    load: Callable[[], Any]
    below: tuple[str, ...]
    top: bool


@dataclass(frozen=True, eq=False)
class LoadedPart:
    """A part that was read.

    Parameters
    ----------
    hierarchy : Hierarchy
        Its units.
    read : tuple of ReadMarginal
        What was published of them.
    placed : tuple of PlacedMarginal
        The same at the places of the tree.
    zeros : array of bool, shape (n, g), or None
        Levels of the block that are 0.
    received : Received or None
        What is known of leaves from the parts below.
    owners : tuple of (str, array of int)
        The parts below, each with the places of its roots.
    block : bool
        Whether tables have a block.
    schema : TableSchema
        The attributes of tables.
    """

    hierarchy: Hierarchy
    read: tuple[ReadMarginal, ...]
    placed: tuple[PlacedMarginal, ...]
    zeros: NDArray[np.bool_] | None
    received: Received | None
    owners: tuple[tuple[str, Places], ...]
    block: bool
    schema: TableSchema

    @classmethod
    def of(cls, task: PartTask) -> LoadedPart:
        """Read a part, and what came from those below it."""
        plan = task.plan
        hierarchy, marginals, zeros = _checked_load(task)
        schema = plan.schema
        read = tuple(read_marginal(one, schema, hierarchy) for one in marginals)
        placed = tuple(one.placed(hierarchy) for one in read)
        if not read:
            read, placed = _nothing(schema, len(hierarchy.tree))
        found = place_zeros(zeros, schema, hierarchy)
        received, owners = _received(task, hierarchy, placed)
        return cls(hierarchy, read, placed, found, received, owners, plan.block, schema)

    @property
    def passes(self) -> PartPasses:
        """The passes over the part."""
        known = problem(self.schema, self.read, self.placed, self.zeros)
        return PartPasses(known, self.hierarchy.tree, self.received, self.block)

    def numbers(self, places: Places) -> Places:
        """Return the numbers of the units at some places."""
        order = self.hierarchy.tree.order
        return places if order is None else order[places]

    @property
    def roots(self) -> Places:
        """Numbers of the roots, in the order of places."""
        return self.numbers(np.arange(int(np.searchsorted(self.hierarchy.tree.parent, 0))))

    def labels(self, units: Places) -> NDArray[Any]:
        """Return the labels of units."""
        labels = self.hierarchy.labels
        assert labels is not None
        return plain_labels(labels[units])


@dataclass(frozen=True, kw_only=True, eq=False)
class PartFit(MarginalsFit):
    """Estimates of one part, from the values of all.

    Parameters
    ----------
    folder : Folder
        Where the noises of all parts are said, once they are done.
    """

    folder: Folder

    @cached_property
    def laws(self) -> TableLaws:
        """The laws of the errors, of which only bounds are known here."""
        return TableLaws(self, lambda: read_bound(self.folder))

    @property
    def degrees(self) -> int:
        """Refused, since the residuals of a part do not have a law of their own."""
        raise InvalidParameterError(
            "the consistency of the values of one part alone cannot be tested from estimates that "
            "use those of all: combine the part by itself with combine_marginals"
        )


def go_up(task: PartTask) -> float:
    """Write what is known of the roots of a part from below; return the seconds it took."""
    begun = perf_counter()
    part = LoadedPart.of(task)
    known, inside, between = part.passes.up()
    _refuse_contradictions(part, inside, between)
    write_known(task.plan.folder.message(task.name), part.labels(part.roots), known)
    return perf_counter() - begun


def go_down(task: PartTask) -> float:
    """Write the estimates of a part, and what the parts below need; return the seconds."""
    begun = perf_counter()
    fit, part = fitted(task)
    if task.top:
        found = fit.solution
        _refuse_contradictions(part, found.inside, found.between)
    for name, places in part.owners:
        known = answers(fit.solution, places)
        write_known(task.plan.folder.answer(name), part.labels(part.numbers(places)), known)
    own = np.ones(len(part.hierarchy), dtype=bool)
    if part.received is not None:
        own[part.numbers(part.received.places)] = False
    _write(task, fit, part, np.flatnonzero(own))
    return perf_counter() - begun


def fitted(task: PartTask) -> tuple[PartFit, LoadedPart]:
    """Return the estimates of a part for which all that is needed is there."""
    part = LoadedPart.of(task)
    above = None
    if not task.top:
        labels, above = read_known(task.plan.folder.answer(task.name))
        rows = _rows_of(labels, part.labels(part.roots))
        above = {name: found[rows] for name, found in above.items()}
    solution: TableSolution = part.passes.down(above)
    fit = PartFit(
        hierarchy=part.hierarchy,
        schema=part.schema,
        read=part.read,
        placed=part.placed,
        zeros=part.zeros,
        solution=solution,
        folder=task.plan.folder,
    )
    return fit, part


def _write(task: PartTask, fit: PartFit, part: LoadedPart, units: Places) -> None:
    """Write what is wanted of some units."""
    schema, plan = part.schema, task.plan
    estimate = MarginalsEstimate(_fit=fit, _refuse=plan.refuse)
    for names in plan.wanted:
        if plan.refuse:
            estimate._refuse_unknown(names, units)
    places = fit.places(units)

    def chunk(number: int, rows: slice) -> tuple[FloatArray, FloatArray]:
        names, some = plan.wanted[number], places[rows]
        variance = fit.cell_variance(names, some)
        found = fit.marginal(names, some)
        found[np.isinf(variance)] = np.nan
        return schema.outward(found, names), variance

    widths = [(prod(schema.shape(names)), len(schema.matrix(names))) for names in plan.wanted]
    bound = TableLaws(fit).bound_of_these
    write_estimates(plan.folder.estimates(task.name), part.labels(units), widths, chunk, bound)


def _refuse_contradictions(part: LoadedPart, inside: Places, between: Places) -> None:
    """Refuse exact values that contradict one another."""
    within, across = CONTRADICTIONS
    refuse_contradictions(inside, part.hierarchy, within)
    refuse_contradictions(between, part.hierarchy, across)


def _checked_load(
    task: PartTask,
) -> tuple[Hierarchy, list[Any], tuple[StructuralZeros, ...]]:
    """Read a part and check what came."""
    found = task.load()
    if not (isinstance(found, tuple) and len(found) == 3 and isinstance(found[0], Hierarchy)):
        raise InvalidParameterError(
            f"load of the part {show(task.name)} must return a Hierarchy, NoisyMarginals and "
            f"zeros, got {show(found)}"
        )
    hierarchy, marginals, zeros = found
    if hierarchy.labels is None or hierarchy.labels.nlevels > 1:
        raise InvalidParameterError(
            f"the units of the part {show(task.name)} must have labels that are all str or all int"
        )
    own = check_zeros(zeros)
    schema = task.plan.schema
    for one in own:
        for name in one.levels:
            grouping = schema.groupings.get(name)
            if (name if grouping is None else grouping.attribute) not in schema.block:
                raise InvalidParameterError(
                    f"zeros of the part {show(task.name)} name {show(name)}: name it in "
                    "zero_attributes, since all parts need to know"
                )
    return hierarchy, check_items(marginals, "marginals", "NoisyMarginals"), task.plan.zeros + own


def _nothing(
    schema: TableSchema, places: int
) -> tuple[tuple[ReadMarginal, ...], tuple[PlacedMarginal, ...]]:
    """Return a total that was measured nowhere."""
    shape = (1, 1, *schema.axes.shape(0))
    values, none = np.zeros(shape), np.zeros(places)
    read = ReadMarginal((), 0, values, np.zeros(1, dtype=np.intp), Exact(), np.zeros(1))
    row = np.zeros(places, dtype=np.intp)
    return (read,), (PlacedMarginal(0, values, row, none, none > 0.0),)


def _received(
    task: PartTask, hierarchy: Hierarchy, placed: tuple[PlacedMarginal, ...]
) -> tuple[Received | None, tuple[tuple[str, Places], ...]]:
    """Return what came from the parts below, and where their roots are."""
    if not task.below:
        return None, ()
    tree, labels = hierarchy.tree, hierarchy.labels
    assert labels is not None
    leaf = ~np.isin(np.arange(len(tree)), tree.parent)
    owners, arrays = [], []
    for name in task.below:
        roots, known = read_known(task.plan.folder.message(name))
        units = labels.get_indexer(roots.tolist())
        bad = units < 0
        bad[~bad] = ~leaf[tree.place_of(units[~bad])]
        if bad.any():
            raise InvalidParameterError(
                f"the roots of the part {show(name)} must be leaves of the part {show(task.name)}, "
                f"not so are {show_some(roots[bad].tolist())}"
            )
        owners.append((name, tree.place_of(units)))
        arrays.append(known)
    places = np.concatenate([at for _, at in owners])
    order = np.argsort(places)
    places = places[order]
    measured = np.any([(one.precision > 0.0) | one.exact for one in placed], axis=0)
    for wrong, what in (
        (places[1:][places[1:] == places[:-1]], "belong to one part each, in several are"),
        (places[measured[places]], "be measured in their own part only, not above it, but there"),
    ):
        if wrong.size:
            numbers = wrong if tree.order is None else tree.order[wrong]
            raise InvalidParameterError(
                f"the roots of the parts below {show(task.name)} must {what} "
                f"{hierarchy.names(numbers)}"
            )
    known = {name: np.concatenate([one[name] for one in arrays])[order] for name in arrays[0]}
    return Received(places, known), tuple(owners)


def _rows_of(labels: NDArray[Any], wanted: NDArray[Any]) -> Places:
    """Return where wanted labels are."""
    order = np.argsort(labels)
    return np.asarray(order[np.searchsorted(labels, wanted, sorter=order)])
