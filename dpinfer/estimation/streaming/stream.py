"""Combined estimates of trees of tables that are larger than memory, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from dpinfer._validation import check_flag, check_items, check_option, show
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.streaming._census import census_parts
from dpinfer.estimation.streaming._files import Folder, is_whole
from dpinfer.estimation.streaming._parquet import read_marginals_parquet, write_marginals_parquet
from dpinfer.estimation.streaming._part import PartTask, Plan, go_down, go_up
from dpinfer.estimation.streaming._tree import TreePart, check_parts, depths_of
from dpinfer.estimation.streaming.streamed import StreamedMarginals
from dpinfer.estimation.tables._schema import Names, TableSchema
from dpinfer.estimation.tables._zeros import check_zeros
from dpinfer.queries import Domain
from dpinfer.queries.domain import check_domain
from dpinfer.releases._files.table import check_path
from dpinfer.results._workers import run_tasks
from dpinfer.results.simulation import checked_jobs, progress_bar

__all__ = [
    "StreamedMarginals",
    "TreePart",
    "census_parts",
    "read_marginals_parquet",
    "stream_marginals",
    "write_marginals_parquet",
]


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
    final estimates of its roots. A worker holds one part at a time, and parts of parts may be cut
    as far as memory asks for. Each task leaves files that take their names when they are complete
    and on the disk, each with its SHA-256 beside it: a plan that is started again does what is not
    there, or is no longer as it was written. The folder is locked while a call works in it. The
    estimates do not depend on the workers.

    Examples
    --------
    >>> import tempfile
    >>> import dpinfer as dpi
    >>> from dpinfer.estimation.tables.marginals import NoisyMarginal
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
            for task, taken in zip(missing, _answers(function, missing, n_jobs), strict=True):
                seconds[f"{way} {task.name}"] = taken
                advance(1)
    return seconds


def _answers(
    function: Callable[[PartTask], float], tasks: list[PartTask], n_jobs: int | None
) -> Iterable[float]:
    number = {task.name: at for at, task in enumerate(tasks)}
    return run_tasks(function, tasks, n_jobs, lambda task: float(len(tasks) - number[task.name]))


def _finished(task: PartTask, way: str) -> bool:
    """Whether all files of a task are there as they were written."""
    folder = task.plan.folder
    if way == "up":
        return is_whole(folder.message(task.name))
    return is_whole(folder.estimates(task.name)) and all(
        is_whole(folder.answer(name)) for name in task.below
    )
