"""The tasks of a plan: one part of a tree of tables read, combined and written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from math import prod
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray, check_flag, check_items, check_option, show, show_some
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation._marginals_input import (
    Names,
    ReadMarginal,
    StructuralZeros,
    TableSchema,
    check_zeros,
    place_zeros,
)
from dpinfer.estimation._stream_census import census_parts
from dpinfer.estimation._stream_files import (
    Folder,
    TreePart,
    check_parts,
    columns_of,
    depths_of,
    is_whole,
    plain_labels,
    read_bound,
    read_estimates,
    read_known,
    read_marginals_parquet,
    read_part,
    write_estimates,
    write_known,
    write_marginals_parquet,
    write_part,
)
from dpinfer.estimation._table_fit import (
    CONTRADICTIONS,
    MarginalsFit,
    problem,
    refuse_contradictions,
)
from dpinfer.estimation._table_laws import TableLaws
from dpinfer.estimation._tree.parts import ScalarPart, VectorPart, answers
from dpinfer.estimation._tree.tables import Known, PlacedMarginal, Received, summed_to
from dpinfer.estimation.marginals import MarginalsEstimate, read_marginal
from dpinfer.estimation.pivots import ManyErrors, ManyMethod
from dpinfer.mechanisms.laws import Exact
from dpinfer.queries.domain import Domain, check_domain
from dpinfer.queries.hierarchy import Hierarchy, Places
from dpinfer.releases.tables import check_path
from dpinfer.results.intervals import Intervals
from dpinfer.results.simulation import checked_jobs, progress_bar, run_tasks

if TYPE_CHECKING:
    import pandas as pd


# The passes over a part of a tree of tables, with what goes to and comes from other parts.


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """What is the same for all parts."""

    folder: Folder  # where files are
    schema: TableSchema  # the attributes of tables
    zeros: tuple[StructuralZeros, ...]  # Cells that are 0 in all units
    block: bool  # whether tables have a block
    wanted: tuple[Names, ...]  # the marginals to write
    refuse: bool  # whether to refuse what is not estimable


@dataclass(frozen=True, eq=False)
class PartTask:
    """One part."""

    plan: Plan  # what is the same for all
    name: str  # its name
    load: Callable[[], Any]  # what gives its hierarchy, marginals and zeros
    below: tuple[str, ...]  # the parts below it
    top: bool  # whether it is the one above all others


@dataclass(frozen=True, eq=False)
class LoadedPart:
    """A part that was read."""

    hierarchy: Hierarchy  # its units
    read: tuple[ReadMarginal, ...]  # what was published of them
    placed: tuple[PlacedMarginal, ...]  # the same at the places of the tree
    zeros: NDArray[np.bool_] | None  # (n, g): levels of the block that are 0
    received: Received | None  # what is known of leaves from the parts below
    owners: tuple[tuple[str, Places], ...]  # the parts below, each with the places of its roots
    block: bool  # whether tables have a block
    schema: TableSchema  # the attributes of tables
    found: Known | None  # what was found of it on the way up, if that was kept

    @classmethod
    def of(cls, task: PartTask, *, kept: bool = False) -> LoadedPart:
        """Read a part, perhaps as it was ``kept``, and what came from those below it."""
        plan = task.plan
        was = read_part(plan.folder.kept(task.name)) if kept else None
        hierarchy, read, zeros, found = (*_loaded(task), None) if was is None else was
        placed = tuple(one.placed(hierarchy) for one in read)
        received, owners = _received(task, hierarchy, placed)
        return cls(hierarchy, read, placed, zeros, received, owners, plan.block, plan.schema, found)

    def keep(self, task: PartTask, passes: ScalarPart | VectorPart) -> None:
        """Keep what was read and found, so that it need not be again on the way down."""
        path = task.plan.folder.kept(task.name)
        write_part(path, self.hierarchy, self.read, self.zeros, passes.found_up)

    def passes(self, above: Known | None = None) -> ScalarPart | VectorPart:
        """Return the passes over its tables, with what is known of its roots in the end."""
        asked = problem(self.schema, self.read, self.placed, self.zeros, block=self.block)
        return asked.part(self.hierarchy.tree, self.received, above, self.found)

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
    """Estimates of one part, from the values of all."""

    folder: Folder  # where the noises of all parts are said, once they are done

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
    passes = part.passes()
    known, inside, between = passes.up()
    _refuse_contradictions(part, inside, between)
    part.keep(task, passes)
    write_known(task.plan.folder.message(task.name), part.labels(part.roots), known)
    return perf_counter() - begun


def go_down(task: PartTask) -> float:
    """Write the estimates of a part, and what the parts below need; return the seconds."""
    begun = perf_counter()
    fit, part = fitted(task, kept=True)
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
    task.plan.folder.kept(task.name).unlink(missing_ok=True)
    return perf_counter() - begun


def fitted(task: PartTask, *, kept: bool = False) -> tuple[PartFit, LoadedPart]:
    """Return the estimates of a part for which all that is needed is there."""
    part = LoadedPart.of(task, kept=kept)
    above = None
    if not task.top:
        labels, above = read_known(task.plan.folder.answer(task.name))
        rows = _rows_of(labels, part.labels(part.roots))
        above = {name: found[rows] for name, found in above.items()}
    solution = part.passes(above).solve(held=not kept)
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
    places, tables = fit.places(units), fit.solution.tables
    asked = list(dict.fromkeys([*(one.names for one in fit.read), *plan.wanted]))
    variances = dict(zip(asked, fit.all_cell_variances(asked), strict=True))
    cells: list[FloatArray] = []

    def chunk(number: int, rows: slice) -> tuple[FloatArray, FloatArray]:
        names, some = plan.wanted[number], places[rows]
        if number == 0:
            cells[:] = [tables.at(some)]
        found = summed_to(schema.axes, schema.kept(names), schema.matrix(names), cells[0])
        variance = variances[names][some]
        unknown = np.isinf(variance)
        if unknown.any():
            found = found.copy()
            found[unknown] = np.nan
        return schema.outward(found, names), variance

    widths = [(prod(schema.shape(names)), len(schema.matrix(names))) for names in plan.wanted]
    bound = TableLaws(fit).bound_from([variances[one.names] for one in fit.read])
    write_estimates(plan.folder.estimates(task.name), part.labels(units), widths, chunk, bound)


def _refuse_contradictions(part: LoadedPart, inside: Places, between: Places) -> None:
    """Refuse exact values that contradict one another."""
    within, across = CONTRADICTIONS
    refuse_contradictions(inside, part.hierarchy, within)
    refuse_contradictions(between, part.hierarchy, across)


def _loaded(
    task: PartTask,
) -> tuple[Hierarchy, tuple[ReadMarginal, ...], NDArray[np.bool_] | None]:
    """Load a part and check what came."""
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
    listed = check_items(marginals, "marginals", "NoisyMarginals")
    read = tuple(read_marginal(one, schema, hierarchy) for one in listed)
    return (
        hierarchy,
        read or (_nothing(schema),),
        place_zeros(task.plan.zeros + own, schema, hierarchy),
    )


def _nothing(schema: TableSchema) -> ReadMarginal:
    """Return a total that was measured nowhere."""
    values, nowhere = np.zeros((1, 1, *schema.axes.shape(0))), np.empty(0, dtype=np.intp)
    return ReadMarginal((), 0, values, nowhere, Exact(), None, np.zeros(1))


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


# Combined estimates of a tree of tables that are in files.


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StreamedMarginals:
    """Estimates in files; made by :func:`dpinfer.estimation.stream_marginals`.

    The folder ``estimates`` in ``folder`` has a Parquet file for each part with a row for each
    unit, its roots among them: its label ``unit``, and for the j-th wanted marginal the lists
    ``estimate-j``, its cells in row-major order, and ``variance-j``, of one number for all cells,
    or for those of each joint level of the attributes that have groupings or zeros.

    Attributes
    ----------
    seconds : mapping of str to float
        The seconds that each task took which was run: ``"up ..."`` and ``"down ..."`` by part.
    """

    tasks: Mapping[str, PartTask]
    seconds: Mapping[str, float]

    @property
    def folder(self) -> str:
        """The working folder."""
        return self._plan.folder.root

    @property
    def marginals_wanted(self) -> tuple[Names, ...]:
        """The marginals that were written."""
        return self._plan.wanted

    @property
    def files(self) -> dict[str, Path]:
        """The file of the estimates of each part."""
        return {name: self._plan.folder.estimates(name) for name in self.tasks}

    @cached_property
    def top(self) -> MarginalsEstimate:
        """The estimates of the top part, from the values of all parts.

        They have everything but a test of consistency, for which residuals of all parts count.
        """
        return self.part(next(name for name, task in self.tasks.items() if task.top))

    def part(self, name: str) -> MarginalsEstimate:
        """Return the estimates of one part, from the values of all, made anew in memory."""
        (found,) = self._chosen([name])
        return MarginalsEstimate(_fit=fitted(self.tasks[found])[0], _refuse=self._plan.refuse)

    def marginal(self, attributes: Any = (), parts: Any = None) -> pd.DataFrame | pd.Series:
        """Read estimates of a marginal.

        Parameters
        ----------
        attributes : str or sequence of str, default ()
            The attributes of a marginal that was wanted, in any order.
        parts : str or list of str, optional
            The parts whose units to read; by default all.

        Returns
        -------
        DataFrame or Series
            A row for each unit, a column for each cell; for the total a Series.
        """
        return self._read(attributes, parts, 0)

    def marginal_variance(
        self, attributes: Any = (), parts: Any = None
    ) -> pd.DataFrame | pd.Series:
        """Read the variances due to the noise of :meth:`marginal`, in the same form."""
        return self._read(attributes, parts, 1)

    def marginal_bse(self, attributes: Any = (), parts: Any = None) -> pd.DataFrame | pd.Series:
        """Return the square roots of :meth:`marginal_variance`, the standard errors."""
        return self._read(attributes, parts, 1).pow(0.5)

    def conf_int(
        self,
        attributes: Any = (),
        parts: Any = None,
        alpha: float = 0.05,
        method: ManyMethod = "exact",
    ) -> Intervals:
        """Confidence intervals for the cells of a marginal.

        Parameters
        ----------
        attributes, parts
            As for :meth:`marginal`.
        alpha : float, default 0.05
            One minus the confidence level of each interval.
        method : {"exact", "envelope", "bound", "asymptotic"}
            As for :meth:`MarginalsEstimate.conf_int` of tables with groupings, from the noises of
            all parts. ``"exact"`` is exact where all noise is Gaussian, and an envelope otherwise,
            by the largest kurtosis that an error can have, or a bound; the result has that method
            and its ``assurance``. Exact laws of other noise need all values in memory:
            :func:`dpinfer.combine_marginals`.

        Returns
        -------
        Intervals
            One interval a cell, labelled by unit and levels. Unpacks as ``lower, upper``.
        """
        import pandas as pd

        estimate = self.marginal(attributes, parts)
        std_err = self.marginal_bse(attributes, parts).to_numpy().ravel()
        names = self._plan.schema.check_names(attributes)
        levels = [self._plan.schema.levels_of(name) for name in names]
        units = estimate.index.rename("unit")
        labels = (
            pd.MultiIndex.from_product([units, *levels], names=["unit", *names]) if names else units
        )
        bound = read_bound(self._plan.folder)
        errors = ManyErrors(
            std_errors=std_err,
            law=None,
            terms=0,
            gaussian=bound.is_gaussian,
            integer=any(law.is_integer for law in bound.laws),
            bound=lambda: bound,
            magnitude=float(np.nanmax(np.abs(estimate.to_numpy()), initial=0.0)),
        )
        values = estimate.to_numpy().ravel()
        return errors.intervals(values, np.arange(values.size), alpha, method, labels)

    def __repr__(self) -> str:
        return (
            f"StreamedMarginals({len(self.tasks)} parts, {len(self.marginals_wanted)} marginals, "
            f"{show(self.folder)})"
        )

    @property
    def _plan(self) -> Plan:
        return next(iter(self.tasks.values())).plan

    def _chosen(self, parts: Any) -> list[str]:
        listed = list(self.tasks) if parts is None else [parts] if isinstance(parts, str) else parts
        unknown = [name for name in listed if name not in self.tasks]
        if unknown or not len(listed):
            raise InvalidParameterError(
                f"parts must name one or more of {show_some(self.tasks)}, got {show(parts)}"
            )
        return list(listed)

    def _read(self, attributes: Any, parts: Any, which: int) -> pd.DataFrame | pd.Series:
        import pandas as pd

        schema = self._plan.schema
        names = schema.check_names(attributes)
        alike = [at for at, one in enumerate(self.marginals_wanted) if set(one) == set(names)]
        if not alike:
            raise InvalidParameterError(
                "attributes must be one of the marginals that were wanted, "
                f"{show_some(self.marginals_wanted)}, got {show(names)}"
            )
        (number,) = alike
        written = self.marginals_wanted[number]
        files = [self.files[name] for name in self._chosen(parts)]
        units, (found,) = read_estimates(files, [columns_of(number)[which]])
        index = pd.Index(units, name=None)
        if not names:
            return pd.Series(found[:, 0], index=index)
        table = self._table(found, written, spread=which == 1)
        moved = table.transpose((0, *(1 + written.index(name) for name in names)))
        return pd.DataFrame(
            moved.reshape((len(found), -1)), index=index, columns=schema.cells(names)
        )

    def _table(self, found: FloatArray, names: Names, spread: bool) -> FloatArray:
        """Return numbers as tables, shape (units, levels of each name)."""
        schema = self._plan.schema
        if not spread:
            return found.reshape((len(found), *schema.shape(names)))
        axes = schema.axes.shape(schema.kept(names))
        wide = np.broadcast_to(
            found.reshape((*found.shape, *(1,) * len(axes))), (*found.shape, *axes)
        )
        return schema.outward(wide, names)


# Combined estimates of trees of tables that are larger than memory, part by part.


def stream_marginals(
    parts: Mapping[str, TreePart],
    folder: str | Path,
    *,
    domain: Domain,
    groupings: Any = None,
    zeros: Any = None,
    zero_attributes: Any = (),
    marginals_wanted: Iterable[Any] | None = None,
    unestimable: str = "raise",
    n_jobs: int | None = 1,
    progress: bool = False,
) -> StreamedMarginals:
    """Estimate the tables of all units of a hierarchy that does not fit in memory.

    Parameters
    ----------
    parts : mapping of str to TreePart
        The hierarchy cut into parts. The roots of a part are leaves of the part above it, and what
        was published of them belongs to their own part. One part is above all others.
    folder : str or Path
        Working folder: a new or empty one, or that of the same plan when it was interrupted.
    domain, groupings
        As for :func:`dpinfer.combine_marginals`.
    zeros : iterable of StructuralZeros, optional
        Cells that are zero in all units of all parts; those of some units belong to their part.
    zero_attributes : str or sequence of str, default ()
        Attributes, or groupings, that zeros of any part name.
    marginals_wanted : iterable of (str or sequence of str), optional
        The marginals to write, ``()`` for the total; by default all cells.
    unestimable : {"raise", "nan"}
        Whether to refuse marginals that the values do not determine, or to write NaN.
    n_jobs : int or None, default 1
        Number of workers as joblib takes it. Within ``joblib.parallel_config(backend="dask")``
        they are those of a Dask cluster, which have to see the folder under the same path.
    progress : bool, default False
        Whether to show a progress bar of the tasks, two for each part but the top.

    Returns
    -------
    StreamedMarginals
        The estimates, in files.

    Raises
    ------
    IncompatibleReleaseError
        If values published without noise contradict one another.
    InvalidParameterError
        If an argument is outside what is allowed, or the folder is that of another plan, is one in
        which another call works, or cannot be written, as when the disk is full.
    NotEstimableError
        If a marginal is wanted that the values do not determine.

    Notes
    -----
    The estimates are those of :func:`dpinfer.combine_marginals` on the whole
    hierarchy, up to rounding. What is measured in the units of a part tells nothing of other parts
    but through the tables of its roots. So a first task for each part estimates these from what is
    in the part and below it; then, from the top down, a second one estimates all its units from the
    final estimates of its roots. A part is read once: until its estimates are there, the folder
    keeps its values, whole numbers in as few bytes as they need. A worker holds one part at a time,
    and makes tables with groupings or zeros as it writes them. Each task leaves files that
    take their names when they are complete and on the disk, each with its SHA-256 beside it: a plan
    that is started again does what is not there, or is no longer as it was written. The folder is
    locked while a call works in it. The estimates do not depend on the workers.

    Examples
    --------
    >>> import tempfile
    >>> import dpinfer as dpi
    >>> from dpinfer.estimation import NoisyMarginal
    >>> from dpinfer.queries import Hierarchy
    >>> domain, noise = dpi.Domain({"sex": ["F", "M"]}), dpi.Gaussian(sigma=2.0)
    >>> def top():
    ...     units = Hierarchy.from_codes(["4", "44"])
    ...     return units, [NoisyMarginal("sex", [[51.2, 49.1]], noise, ["4"])], None
    >>> def below():
    ...     units = Hierarchy.from_codes(["44", "441", "442"])
    ...     values = [[50.2, 51.9], [28.1, 30.4], [20.8, 20.1]]
    ...     return units, [NoisyMarginal("sex", values, noise)], None
    >>> parts = {"top": TreePart(top), "44": TreePart(below, "top")}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stream_marginals(parts, folder, domain=domain).marginal("sex").round(2)
    sex      F     M
    4    50.34  50.5
    44   50.34  50.5
    441  28.82  30.4
    442  21.52  20.1
    """
    tree = check_parts(parts)
    universe = check_domain(domain)
    universe.check_size()
    known = check_zeros(zeros)
    if any(one.units is not None for one in known):
        raise InvalidParameterError(
            "zeros must hold in all units: zeros of some units belong to their part, with their "
            "attributes in zero_attributes"
        )
    names = [zero_attributes] if isinstance(zero_attributes, str) else zero_attributes
    named = check_items(names, "zero_attributes", "names of attributes")
    named += [name for one in known for name in one.levels]
    schema = TableSchema.of(universe, groupings, named)
    refuse = check_option(unestimable, "unestimable", ("raise", "nan")) == "raise"
    shown = check_flag(progress, "progress")
    root = check_path(folder, "folder")
    jobs = None if n_jobs is None else checked_jobs(n_jobs)
    plan = Plan(
        folder=Folder(str(root.absolute())),
        schema=schema,
        zeros=known,
        block=schema.levels > 1 or bool(named),
        wanted=_check_wanted(marginals_wanted, schema),
        refuse=refuse,
    )
    tasks = _tasks(plan, tree)
    with plan.folder.claimed(_fingerprint(plan, tree)):
        seconds = _run(tasks, depths_of(tree), jobs, shown)
    return StreamedMarginals(tasks=tasks, seconds=seconds)


def _check_wanted(wanted: Any, schema: TableSchema) -> tuple[Names, ...]:
    if wanted is None:
        return (schema.domain.attributes,)
    single = isinstance(wanted, str)
    listed = [wanted] if single else check_items(wanted, "marginals_wanted", "marginals")
    found = tuple(schema.check_names(names) for names in listed)
    if not found or len({frozenset(names) for names in found}) < len(found):
        raise InvalidParameterError(
            f"marginals_wanted must hold one or more marginals, each once, got {show(wanted)}"
        )
    return found


def _fingerprint(plan: Plan, parts: Mapping[str, TreePart]) -> str:
    """Return a digest of all that the files depend on."""
    schema = plan.schema
    groupings = [
        (name, one.attribute, one.groups, one.matrix.tolist())
        for name, one in sorted(schema.groupings.items())
    ]
    said = (
        list(schema.domain.levels.items()),
        groupings,
        schema.block,
        [sorted((name, repr(levels)) for name, levels in one.levels.items()) for one in plan.zeros],
        plan.wanted,
        plan.refuse,
        sorted((name, one.parent, one.version) for name, one in parts.items() if one.parent),
        [(name, one.version) for name, one in parts.items() if one.parent is None],
    )
    return sha256(repr(said).encode()).hexdigest()


def _tasks(plan: Plan, parts: Mapping[str, TreePart]) -> dict[str, PartTask]:
    below: dict[str, list[str]] = {name: [] for name in parts}
    for name, one in parts.items():
        if one.parent is not None:
            below[one.parent].append(name)
    return {
        name: PartTask(plan, name, one.load, tuple(below[name]), one.parent is None)
        for name, one in parts.items()
    }


def _run(
    tasks: Mapping[str, PartTask], depths: list[list[str]], n_jobs: int | None, shown: bool
) -> dict[str, float]:
    """Run the tasks of which the files are not there; return the seconds of each."""
    steps = [(go_up, "up", names) for names in reversed(depths[1:])]
    steps += [(go_down, "down", names) for names in depths]
    seconds: dict[str, float] = {}
    with progress_bar(2 * len(tasks) - 1, shown, unit="task") as advance:
        for function, way, names in steps:
            missing = [tasks[name] for name in names if not _finished(tasks[name], way)]
            advance(len(names) - len(missing))
            each = max(seconds.values(), default=0.0) if len(missing) > 1 else 0.0
            answers = run_tasks(function, missing, n_jobs, _remaining(missing), each)
            for task, taken in zip(missing, answers, strict=True):
                seconds[f"{way} {task.name}"] = taken
                advance(1)
    return seconds


def _remaining(tasks: list[PartTask]) -> Callable[[PartTask], float]:
    number = {task.name: at for at, task in enumerate(tasks)}
    return lambda task: float(len(tasks) - number[task.name])


def _finished(task: PartTask, way: str) -> bool:
    """Whether all files of a task are there as they were written."""
    folder = task.plan.folder
    if way == "up":
        return is_whole(folder.message(task.name))
    return is_whole(folder.estimates(task.name)) and all(
        is_whole(folder.answer(name)) for name in task.below
    )


__all__ = [
    "StreamedMarginals",
    "TreePart",
    "census_parts",
    "read_marginals_parquet",
    "stream_marginals",
    "write_marginals_parquet",
]
