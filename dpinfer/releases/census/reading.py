"""Reading the noisy measurement files of the 2020 Census, whole or by subtree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import check_flag, check_items, check_option, show
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.releases._files.limits import check_max_bytes
from dpinfer.releases.census import layout
from dpinfer.releases.census.columns import (
    CONSTRAINED_COLUMNS,
    MEASURED_COLUMNS,
    FileRows,
    read_codes,
    read_rows,
)
from dpinfer.releases.census.constraints import (
    constraints_of,
    exact_totals,
    whole_states,
    zeros_of,
)
from dpinfer.releases.census.measurements import CensusMeasurements, QueryMeasurements
from dpinfer.releases.census.ranges import EVERYTHING, CodeRange
from dpinfer.releases.census.spine import Codes, Spine

PRODUCTS = ("pl94",)


def read_census_measurements(
    root: str | Path,
    *,
    product: str = "pl94",
    states: Any = None,
    levels: Any = None,
    queries: Any = None,
    prefix: str | tuple[str, str] | None = None,
    state_totals: Any = None,
    not_exhausted: Any = (),
    complete: bool | None = None,
    max_bytes: int | None = None,
) -> CensusMeasurements:
    """Read noisy measurement files of the 2020 Census redistricting data, all or a part of them.

    Parameters
    ----------
    root : str or Path
        The folder that holds the levels: ``<Level>.parquet/DPQuery/State=<A><FF>/<file>``, with
        ``Constraint`` beside ``DPQuery``, and no folder of states for the level ``US``.
    product : {"pl94"}
        The product: redistricting data of persons.
    states : str or iterable of str, optional
        The subtrees to read, such as ``"044"``, or states with both of their subtrees, such as
        ``"44"``; see :func:`census_subtrees`. Others are not opened. By default all.
    levels : str or iterable of str, optional
        The levels to read. By default all that are there; without the nation, where ``states``
        or a ``prefix`` are given.
    queries : str or iterable of str, optional
        The queries to read, such as ``"total"`` or ``"hispanic * cenrace"``. By default all.
    prefix : str or pair of str, optional
        Read only the units whose codes begin like this: a county, a tract, with all below it. A
        pair, of one length, are the first and the last of units that follow one another. Of files
        that are sorted by code only the row groups that hold them are read.
    state_totals : mapping of str to int, or Series, optional
        Totals of states by their two digits, which the Census Bureau published without noise.
        Those of states that are not read are not used. A state of two subtrees becomes a unit
        above them, labelled by its two digits.
    not_exhausted : str or iterable of str, optional
        Codes of units whose children are not all here.
    complete : bool, optional
        Whether the subtrees in ``root`` are all that there are, so that those of a state, and all
        of them, add up to it and to the nation. By default they are compared with those of the
        published files, and the nation is not exhausted where not all are read.
    max_bytes : int, optional
        The most bytes that the columns of one file may take once they are decoded. By default 256
        MB, or 100 times the size of the file where that is more.

    Returns
    -------
    CensusMeasurements
        The values of each query with units and variances, the hierarchy of the units, and what is
        known without noise: totals, and cells that are zero.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.
    IncompatibleReleaseError
        If a file is not as documented; the message names file, unit and query.

    See Also
    --------
    census_subtrees : The subtrees that there are.
    census_codes : The codes of the units of a level.
    read_census_rows : Files of other products, row by row.
    dpinfer.releases.census.write_census_measurements : Generate files of the same layout.

    Notes
    -----
    Three kinds of constraints are exact statements on the tables. Totals: ``total_con`` of a unit,
    or ``state_totals``. Zeros: an upper bound of 0 in ``hhgq_total_ub_con`` says that a unit has no
    facility of that type, and counts are not negative. And no minors live in nursing facilities.
    Using them makes every estimate at least as sharp; the Bureau's own least-squares estimates
    leave out the state totals and the zeros of blocks. The other bounds are kept in
    ``constraints`` as they stand.

    The parent of a unit is the unit of the level above whose code is the beginning of its own. A
    unit that has no measurement of its own, but children, is in the hierarchy. Memory is that of
    the values as the file has them, at most twice that of the largest query while reading.

    The layout was taken from public code that reads these files. It was tested on generated files
    of this layout, not on a published file.

    References
    ----------
    Abowd, J. M. and others (2022). The 2020 Census Disclosure Avoidance System TopDown Algorithm.
    Harvard Data Science Review, Special Issue 2. doi:10.1162/99608f92.529e3cb9.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from dpinfer.datasets.synthetic_geography import synthetic_population
    >>> from dpinfer.releases.census import census_subtrees, write_census_measurements
    >>> with TemporaryDirectory() as place:
    ...     root = Path(place) / "files"
    ...     write_census_measurements(root, synthetic_population(tracts=1), rng=1)
    ...     parts = [read_census_measurements(root, states=one) for one in census_subtrees(root)]
    >>> parts[0]
    CensusMeasurements(State: 1, County: 3, Tract: 3, Block_Group: 11, Block: 121; 11 queries)
    >>> parts[0].queries["votingage * hispanic"].values.shape
    (139, 2, 2)
    """
    check_option(product, "product", PRODUCTS)
    most = check_max_bytes(max_bytes)
    choice = _Choice.of(layout.check_root(root), states, levels, prefix, most)
    known = choice.all_subtrees(complete)
    whole = whole_states(state_totals, choice.subtrees, known, choice.levels, choice.among)
    names = _check_queries(queries)
    measured = {
        level: list(choice.rows(level, layout.MEASUREMENTS, _file_names(names)))
        for level in choice.levels
    }
    constrained = {
        level: list(choice.rows(level, layout.CONSTRAINTS, None)) for level in choice.levels
    }
    codes = {
        level: _all_codes(level, measured[level] + constrained[level]) for level in choice.levels
    }
    if not any(len(own) for own in codes.values()):
        raise InvalidParameterError(
            f"root must hold units of the levels {', '.join(choice.levels)}, got none with codes "
            f"that begin with {show(prefix)} in {choice.root}"
        )
    spine = Spine.of(codes, [state for state, _, unit in whole if unit == state])
    hierarchy = spine.hierarchy(not_exhausted, choice.subtrees != known)
    stated = constraints_of(constrained, spine)
    return CensusMeasurements(
        hierarchy=hierarchy,
        level=spine.level,
        levels=spine.levels,
        domain=layout.PL94_DOMAIN,
        groupings=layout.PL94_GROUPINGS,
        queries=MappingProxyType(_measurements(measured, names, spine)),
        exact=exact_totals(stated, whole, spine, hierarchy),
        zeros=zeros_of(stated),
        constraints=stated,
    )


def census_codes(
    root: str | Path, level: str, *, states: Any = None, max_bytes: int | None = None
) -> NDArray[np.str_]:
    """List the codes of the units of a level in noisy measurement files of the 2020 Census.

    Parameters
    ----------
    root : str or Path
        The folder that holds the levels.
    level : str
        The level, such as ``"Tract"``.
    states : str or iterable of str, optional
        Subtrees or states, as for :func:`read_census_measurements`. By default all.
    max_bytes : int, optional
        The most bytes that the columns of one file may take once they are decoded. By default 256
        MB, or 100 times the size of the file where that is more.

    Returns
    -------
    array of str
        The codes that have measurements, sorted: each a ``prefix`` for
        :func:`read_census_measurements`.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.
    IncompatibleReleaseError
        If a file is not as documented.
    """
    path = layout.check_root(root)
    most = check_max_bytes(max_bytes)
    check_option(level, "level", layout.levels_of(path))
    parts = layout.parts_of(path, level, layout.MEASUREMENTS)
    wanted = layout.check_subtrees(states, layout.census_subtrees(path))
    if level == layout.NATION:
        wanted = ("",)
    found = [
        read_codes(file, code, max_bytes=most)
        for code in wanted
        if code in parts
        for file in parts[code].files()
    ]
    return np.char.decode(np.unique(np.concatenate(found)), "ascii") if found else np.array([], "U")


def check_prefix(prefix: object) -> CodeRange:
    """Return the units whose codes begin like this, or from a first to a last one; None for all."""
    if prefix is None:
        return EVERYTHING
    ends = prefix if isinstance(prefix, tuple) else (prefix, prefix)
    for one in ends:
        if not isinstance(one, str) or not one.isascii() or not one.isalnum():
            raise InvalidParameterError(
                f"prefix must be the beginning of codes, such as '04410007', got {show(one)}"
            )
    if len(ends) != 2 or len(ends[0]) != len(ends[1]) or ends[0] > ends[1]:
        raise InvalidParameterError(
            "prefix must be one beginning of codes, or a pair of the same length, the first and "
            f"the last, got {show(prefix)}"
        )
    return CodeRange(*ends)


@dataclass(frozen=True)
class _Choice:
    """Which files of a product are read, and which units of them."""

    root: Path
    levels: tuple[str, ...]
    subtrees: tuple[str, ...]
    among: CodeRange
    max_bytes: int | None

    @classmethod
    def of(
        cls, root: Path, states: Any, levels: Any, prefix: object, max_bytes: int | None
    ) -> _Choice:
        """Check which subtrees, levels and beginnings of codes are wanted."""
        among = check_prefix(prefix)
        subtrees = layout.check_subtrees(states, layout.census_subtrees(root))
        there = tuple(level for level in layout.levels_of(root) if level in layout.LEVELS)
        chosen = layout.check_levels(levels, there)
        if not among.everything or (states is not None and levels is None):
            chosen = tuple(level for level in chosen if level != layout.NATION)
        own = tuple(code for code in subtrees if among.admits(code))
        return cls(root, chosen, own, among, max_bytes)

    def all_subtrees(self, complete: bool | None) -> tuple[str, ...]:
        """Return the subtrees that there are, in this folder or elsewhere."""
        there = layout.census_subtrees(self.root)
        if complete is not None and check_flag(complete, "complete"):
            return there
        return tuple(sorted({*there, *layout.PUBLISHED_SUBTREES}))

    def rows(self, level: str, kind: str, names: list[str] | None) -> Iterable[FileRows]:
        """Read the rows of a level, of measurements or of constraints."""
        parts = layout.parts_of(self.root, level, kind)
        columns = MEASURED_COLUMNS if kind == layout.MEASUREMENTS else CONSTRAINED_COLUMNS
        for subtree in ("",) if level == layout.NATION else self.subtrees:
            if subtree in parts:
                for file in parts[subtree].files():
                    yield from read_rows(
                        file,
                        columns,
                        subtree=subtree,
                        among=self.among,
                        queries=names,
                        max_bytes=self.max_bytes,
                    )


def _check_queries(queries: Any) -> tuple[str, ...] | None:
    if queries is None:
        return None
    listed = [queries] if isinstance(queries, str) else check_items(queries, "queries", "names")
    if not listed:
        raise InvalidParameterError("queries must name at least one query, got none")
    for name in listed:
        check_option(name, "queries", layout.PL94_QUERIES)
    return tuple(name for name in layout.PL94_QUERIES if name in listed)


def _file_names(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else [name + layout.MEASURED for name in names]


def _all_codes(level: str, rows: list[FileRows]) -> Codes:
    """Return the codes of a level, each once, sorted; all must be of one length."""
    if not rows:
        return np.empty(0, dtype="S1")
    first = rows[0].codes[0]
    for one in rows:
        other = one.codes[np.char.str_len(one.codes) != len(first)]
        if len(other):
            raise IncompatibleReleaseError(
                f"codes of the level {level} must have one length, got {first.decode()!r} in "
                f"{rows[0].path} and {other[0].decode()!r} in query {show(one.name)} of {one.path}"
            )
    return np.unique(np.concatenate([one.codes for one in rows]))


def _measurements(
    measured: Mapping[str, list[FileRows]], names: tuple[str, ...] | None, spine: Spine
) -> dict[str, QueryMeasurements]:
    """Put the rows of each query together; rows are given up on the way, to free their memory."""
    by_query: dict[str, list[tuple[str, FileRows]]] = {
        name: [] for name in names or layout.PL94_QUERIES
    }
    for level, rows in measured.items():
        for one in rows:
            by_query[_query_of(one)].append((level, one))
        rows.clear()
    found = {}
    while by_query:
        name = next(iter(by_query))
        own = by_query.pop(name)
        if own:
            found[name] = _joined(name, own, spine)
    return found


def _query_of(rows: FileRows) -> str:
    """Return the name of a query without its ending; it must be known, with the shape it has."""
    name = rows.name.removesuffix(layout.MEASURED)
    where = f"query {show(rows.name)}, unit {rows.codes[0].decode()!r} of {rows.path}"
    if name not in layout.PL94_QUERIES or name == rows.name:
        known = ", ".join(layout.PL94_QUERIES)
        raise IncompatibleReleaseError(
            f"names of queries must be one of {known}, each with {layout.MEASURED} after it, got "
            f"{where}"
        )
    shape = layout.file_shape(layout.PL94_QUERIES[name])
    if rows.shape != shape:
        raise IncompatibleReleaseError(
            f"query_shape must be {list(shape)}, got {list(rows.shape)} in {where}"
        )
    return name


def _joined(name: str, rows: list[tuple[str, FileRows]], spine: Spine) -> QueryMeasurements:
    attributes = layout.PL94_QUERIES[name]
    units = np.concatenate([spine.positions(level, one.codes) for level, one in rows])
    _refuse_repeated(name, units, [one for _, one in rows])
    variance = np.concatenate([one.variance for _, one in rows])
    values = np.concatenate([one.values for _, one in rows])
    values = values.reshape((len(units), *layout.kept_shape(attributes)))
    for array in (units, variance, values):
        array.flags.writeable = False
    return QueryMeasurements(name, attributes, units, values, variance)


def _refuse_repeated(name: str, units: NDArray[np.intp], rows: list[FileRows]) -> None:
    order = np.argsort(units, kind="stable")
    again = np.flatnonzero(np.diff(units[order]) == 0)
    if again.size:
        row = order[again[0] + 1]
        starts = np.cumsum([0] + [len(one.codes) for one in rows])
        at = int(np.searchsorted(starts, row, side="right")) - 1
        unit = rows[at].codes[row - starts[at]].decode()
        raise IncompatibleReleaseError(
            f"each unit must have a query once, repeated is query {show(name)} of unit {unit!r} in "
            f"{rows[at].path}"
        )
