"""Reading the noisy measurement files of the 2020 Census, whole or by subtree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import (
    FloatArray,
    Locked,
    check_flag,
    check_integer,
    check_option,
    show,
    show_some,
)
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms.independent import IndependentNoise
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Exact
from dpinfer.queries.domain import Domain
from dpinfer.queries.hierarchy import Hierarchy
from dpinfer.releases.census import geography as layout
from dpinfer.releases.census.columns import (
    CONSTRAINED_COLUMNS,
    EVERYTHING,
    MEASURED_COLUMNS,
    CodeRange,
    FileRows,
    different_codes,
    read_codes,
    read_rows,
)
from dpinfer.releases.census.geography import Codes, Spine
from dpinfer.releases.limits import check_max_bytes

if TYPE_CHECKING:
    import pandas as pd


# Noisy measurements of the 2020 Census as values: queries, exact constraints, and the spine.


Units = NDArray[np.intp]

_SMALL = 0.05
"""Variances below which the noise is hardly ever other than -1, 0 and 1."""

_STEPS, _RELATIVE = 100, 1e-14


@dataclass(frozen=True, eq=False, repr=False)
class QueryMeasurements(Locked):
    """The published values of one query, of the units that have it.

    Parameters
    ----------
    name : str
        The query, as the files name it without its ending.
    attributes : tuple of str
        The attributes that it keeps, or groupings of them; ``()`` for the total.
    units : array of int, shape (m,)
        Positions of the units in the hierarchy, each once.
    values : array of int, shape (m, levels of each attribute)
        The published values, read-only.
    variance : array of float, shape (m,)
        The variance of the noise of each value of a unit; 0 where it is exact.
    """

    name: str
    attributes: tuple[str, ...]
    units: Units
    values: NDArray[np.integer[Any]]
    variance: FloatArray

    @property
    def mechanism(self) -> NoiseLaw:
        """The law of the noise of each unit: discrete Gaussian, or none where it is exact."""
        different, group = np.unique(self.variance, return_inverse=True)
        exact = different == 0.0
        if exact.all():
            return Exact()
        sigma = np.zeros(different.shape)
        sigma[~exact] = _sigma_of_variance(different[~exact])
        noisy = ~exact[group]
        law = DiscreteGaussian(sigma=sigma[group][noisy])
        if noisy.all():
            return law
        groups = [(law, np.flatnonzero(noisy)), (Exact(), np.flatnonzero(~noisy))]
        return IndependentNoise.from_groups(groups, len(group))

    def __len__(self) -> int:
        return len(self.units)

    def __repr__(self) -> str:
        return f"QueryMeasurements({self.name!r}, {len(self)} units, shape {self.values.shape})"


@dataclass(frozen=True, eq=False, repr=False)
class CensusConstraint(Locked):
    """What the files state about the units without noise, one of their constraints.

    Parameters
    ----------
    name : str
        The constraint, as the files name it.
    sign : {"=", "<=", ">="}
        How the confidential values compare to the stated ones.
    shape : tuple of int
        The ``query_shape``: a number for each attribute, 1 where it is summed over or fixed.
    units : array of int, shape (m,)
        Positions of the units in the hierarchy.
    values : array of int, shape (m, cells)
        The stated values, in row-major order of ``shape``.
    """

    name: str
    sign: str
    shape: tuple[int, ...]
    units: Units
    values: NDArray[np.integer[Any]]

    def __repr__(self) -> str:
        return f"CensusConstraint({self.name!r}, {self.sign!r}, {len(self.units)} units)"


@dataclass(frozen=True, eq=False)
class KnownZeros(Locked):
    """Cells that are zero without noise, in some or all units.

    Parameters
    ----------
    levels : mapping of str to level or list of levels
        The cells: those that have one of these levels in each of these attributes.
    units : array of int, shape (m,), or None
        Positions of the units in the hierarchy; None for all.
    """

    levels: Mapping[str, Any]
    units: Units | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CensusMeasurements(Locked):
    """Noisy measurement files of the 2020 Census, or a part of them, as they were read.

    Attributes
    ----------
    hierarchy : Hierarchy
        The units by their codes, level by level, in order of their codes. The children of a unit
        add up to it.
    level : array of int, shape (n,)
        The level of each unit, its position in ``levels``.
    levels : tuple of str
        The levels, from the highest; ``"Whole_State"`` where a state had to be put above its two
        subtrees.
    domain : Domain
        The attributes with their levels.
    groupings : mapping of str to (str, mapping)
        Coarser levels of attributes that queries keep: the attribute, and the group of each level.
    queries : mapping of str to QueryMeasurements
        The noisy values of each query.
    exact : tuple of QueryMeasurements
        What is known without noise: totals.
    zeros : tuple of KnownZeros
        Cells that are known to be zero.
    constraints : tuple of CensusConstraint
        All constraints of the files as they are stated. Of the inequalities among them, only
        bounds of zero on what cannot be negative are used, and stand in ``zeros``.
    """

    hierarchy: Hierarchy
    level: NDArray[np.intp]
    levels: tuple[str, ...]
    domain: Domain
    groupings: Mapping[str, tuple[str, Mapping[Any, Any]]]
    queries: Mapping[str, QueryMeasurements]
    exact: tuple[QueryMeasurements, ...]
    zeros: tuple[KnownZeros, ...]
    constraints: tuple[CensusConstraint, ...]

    @property
    def labels(self) -> pd.Index:
        """Codes of the units."""
        labels = self.hierarchy.labels
        assert labels is not None
        return labels

    def at_level(self, name: str) -> Units:
        """Return the positions of the units of a level, none for one that was not read."""
        if name not in self.levels:
            return np.empty(0, dtype=np.intp)
        return np.flatnonzero(self.level == self.levels.index(name))

    def __len__(self) -> int:
        return len(self.hierarchy)

    def __repr__(self) -> str:
        counts = np.bincount(self.level, minlength=len(self.levels))
        units = ", ".join(
            f"{name}: {count}" for name, count in zip(self.levels, counts, strict=True)
        )
        return f"CensusMeasurements({units}; {len(self.queries)} queries)"


def _sigma_of_variance(variance: FloatArray) -> FloatArray:
    """Return σ of the discrete Gaussians of some variances."""
    small = variance < _SMALL
    # near 0 the variance is 2 exp(-1/(2σ²)), the mass at ±1; above 1 it is σ² itself
    square = np.where(small, 0.5 / np.log(2.0 / variance), variance)
    for _ in range(_STEPS):
        found = np.asarray(DiscreteGaussian(sigma=np.sqrt(square)).variance)
        if (np.abs(found - variance) <= _RELATIVE * variance).all():
            break
        inverse = 1.0 / square + 2.0 * np.log(found / variance)
        square = np.where(small, 1.0 / inverse, square + variance - found)
    return np.sqrt(square)


# Constraints of noisy measurement files, and what they say exactly.


TOTALS = ("total_con", "pl94_con")
"""Constraints that state the total of a unit, where they hold one number."""

QUARTERS_BOUND = "hhgq_total_ub_con"
"""The most persons that can live in each type of quarters: 0 where there is no such facility."""

SIGNS = ("=", "<=", ">=")

Total = tuple[str, int, str]
"""The two digits of a state, its total, and the unit that has it."""


def whole_states(
    totals: Any,
    subtrees: tuple[str, ...],
    there: tuple[str, ...],
    levels: tuple[str, ...],
    among: CodeRange,
) -> list[Total]:
    """Return the known totals of the states that are read, with the units that they belong to.

    That is the one subtree of a state, or a unit above both.
    """
    if totals is None:
        return []
    given = totals.to_dict() if hasattr(totals, "to_dict") else totals
    if not isinstance(given, Mapping):
        raise InvalidParameterError(
            f"state_totals must map states by their two digits to totals, got {show(totals)}"
        )
    found = []
    for state, total in given.items():
        if not isinstance(state, str) or len(state) != 2 or not state.isdecimal():
            raise InvalidParameterError(
                f"state_totals must name states by their two digits, such as '44', got "
                f"{show(state)}"
            )
        number = check_integer(total, "state_totals", ge=0)
        read = [code for code in subtrees if code[1:] == state]
        parts = [code for code in there if code[1:] == state]
        if not read:
            continue
        if read != parts or "State" not in levels or len(among.first) > 3:
            raise InvalidParameterError(
                f"state_totals must be of states that are read whole, with the level State, got "
                f"{show(state)}, of which there are the subtrees {show_some(parts)}: read all of "
                "them, leave its total out, or say complete=True where others do not exist"
            )
        found.append((state, number, parts[0] if len(parts) == 1 else state))
    return found


def constraints_of(
    rows_by_level: Mapping[str, list[FileRows]], spine: Spine
) -> tuple[CensusConstraint, ...]:
    """Put the rows of each constraint together."""
    kinds: dict[tuple[str, str, tuple[int, ...]], list[tuple[str, FileRows]]] = {}
    for level, rows in rows_by_level.items():
        for one in rows:
            if one.sign not in SIGNS:
                raise IncompatibleReleaseError(
                    f"sign must be one of {', '.join(SIGNS)}, got {show(one.sign)} in "
                    f"{show(one.name)}, unit {one.codes[0].decode()!r} of {one.path}"
                )
            kinds.setdefault((one.name, one.sign, one.shape), []).append((level, one))
    found = []
    for (name, sign, shape), own in kinds.items():
        units = np.concatenate([spine.positions(level, one.codes) for level, one in own])
        values = np.concatenate([one.values for _, one in own])
        units.flags.writeable = values.flags.writeable = False
        found.append(CensusConstraint(name, sign, shape, units, values))
    return tuple(found)


def exact_totals(
    constraints: tuple[CensusConstraint, ...],
    totals: list[Total],
    spine: Spine,
    hierarchy: Hierarchy,
) -> tuple[QueryMeasurements, ...]:
    """Return the totals that are known without noise, each unit once; none give an empty tuple."""
    stated = [
        one
        for one in constraints
        if one.name in TOTALS and one.sign == "=" and prod(one.shape) == 1
    ]
    own = hierarchy.positions([unit for _, _, unit in totals]) if totals else np.empty(0, np.intp)
    units = np.concatenate([own, *(one.units for one in stated)])
    numbers = np.array([number for _, number, _ in totals], dtype=np.int64)
    values = np.concatenate([numbers, *(one.values[:, 0] for one in stated)])
    if not units.size:
        return ()
    found, first, number = np.unique(units, return_index=True, return_inverse=True)
    different = values != values[first][number]
    if different.any():
        at = int(np.argmax(different))
        raise IncompatibleReleaseError(
            f"totals must agree, got {values[first][number[at]]} and {values[at]} for unit "
            f"{spine.names()[units[at]]!r}"
        )
    total = values[first]
    variance = np.zeros(len(found))
    for array in (found, total, variance):
        array.flags.writeable = False
    return (QueryMeasurements("total", (), found, total, variance),)


def zeros_of(constraints: tuple[CensusConstraint, ...]) -> tuple[KnownZeros, ...]:
    """Return the cells that are zero: in nursing facilities, and where there is no facility."""
    quarters = layout.PL94_DOMAIN.levels["hhgq"]
    shape = layout.file_shape(("hhgq",))
    found = [KnownZeros(layout.NURSING_MINORS)]
    for one in constraints:
        if one.name == QUARTERS_BOUND and one.sign == "<=" and one.shape == shape:
            for level, bound in zip(quarters, one.values.T, strict=True):
                units = np.flatnonzero(bound == 0)
                if units.size:
                    found.append(KnownZeros({"hhgq": level}, one.units[units]))
    return tuple(found)


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
        The most bytes that the columns of one file may take once they are decoded; by default 256
        MB, or 100 times its size.

    Returns
    -------
    CensusMeasurements
        The values of each query with units and variances, the hierarchy of the units, and what is
        known without noise: totals, and cells that are zero.

    Raises
    ------
    InvalidParameterError, IncompatibleReleaseError
        If an argument is outside what is allowed, or a file is not as documented; the message
        names file, unit and query.

    See Also
    --------
    census_subtrees : The subtrees that there are.
    census_codes : The codes of the units of a level.
    read_census_rows : Files of other products, row by row.
    dpinfer.releases.census.write_census_measurements : Generate files of the same layout.

    Notes
    -----
    Used as exact are totals, ``total_con`` of a unit or ``state_totals``; zeros, as an upper bound
    of 0 in ``hhgq_total_ub_con`` says that a unit has no such facility; and that no minors live in
    nursing facilities. That makes every estimate at least as sharp; the Bureau's own least-squares
    estimates leave out the state totals and the zeros of blocks. Other bounds are kept in
    ``constraints``.

    The parent of a unit is the unit of the level above whose code is the beginning of its own; one
    that has no measurement of its own, but children, is in the hierarchy. Memory is that of the
    values as the file has them, at most twice that of the largest query while reading.

    The layout was taken from public code that reads these files, and tested on generated files.

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
    return measurements_of(
        root,
        product=product,
        states=states,
        levels=levels,
        queries=queries,
        prefix=prefix,
        state_totals=state_totals,
        not_exhausted=not_exhausted,
        complete=complete,
        max_bytes=max_bytes,
    )


def measurements_of(
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
    narrow: bool = False,
) -> CensusMeasurements:
    """Read the files as :func:`read_census_measurements` does.

    With ``narrow`` values are in as few bytes as those of their level need: a query stands once for
    each width there is.
    """
    check_option(product, "product", PRODUCTS)
    most = check_max_bytes(max_bytes)
    folder = layout.check_root(root)
    among = check_prefix(prefix)
    there = layout.census_subtrees(folder)
    chosen = layout.check_subtrees(states, there)
    known = [level for level in layout.levels_of(folder) if level in layout.LEVELS]
    lower = layout.check_chosen(levels, "levels", known)
    if not among.everything or (states is not None and levels is None):
        lower = tuple(level for level in lower if level != layout.NATION)
    subtrees = tuple(code for code in chosen if among.admits(code))
    if complete is None or not check_flag(complete, "complete"):
        there = tuple(sorted({*there, *layout.PUBLISHED_SUBTREES}))
    whole = whole_states(state_totals, subtrees, there, lower, among)
    names = layout.check_chosen(queries, "queries", layout.PL94_QUERIES)
    wanted = None if queries is None else [name + layout.MEASURED for name in names]
    measured, constrained = (
        {
            level: list(_rows(folder, level, kind, subtrees, among, own, most, narrow))
            for level in lower
        }
        for kind, own in ((layout.MEASUREMENTS, wanted), (layout.CONSTRAINTS, None))
    )
    codes = {level: _all_codes(level, measured[level] + constrained[level]) for level in lower}
    if not any(len(own) for own in codes.values()):
        raise InvalidParameterError(
            f"root must hold units of the levels {', '.join(lower)}, got none with codes "
            f"that begin with {show(prefix)} in {folder}"
        )
    spine = Spine.of(codes, [state for state, _, unit in whole if unit == state])
    hierarchy = spine.hierarchy(not_exhausted, subtrees != there)
    stated = constraints_of(constrained, spine)
    return CensusMeasurements(
        hierarchy=hierarchy,
        level=spine.level,
        levels=spine.levels,
        domain=layout.PL94_DOMAIN,
        groupings=layout.PL94_GROUPINGS,
        queries=MappingProxyType(_measurements(measured, names, spine, narrow)),
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
        The most bytes that the columns of one file may take once they are decoded; by default 256
        MB, or 100 times its size.

    Returns
    -------
    array of str
        The codes that have measurements, sorted: each a ``prefix`` for
        :func:`read_census_measurements`.

    Raises
    ------
    InvalidParameterError, IncompatibleReleaseError
        If an argument is outside what is allowed, or a file is not as documented.
    """
    path = layout.check_root(root)
    most = check_max_bytes(max_bytes)
    check_option(level, "level", layout.levels_of(path))
    wanted = layout.check_subtrees(states, layout.census_subtrees(path))
    found = [
        read_codes(file, code, max_bytes=most)
        for code, file in layout.files_of(path, level, layout.MEASUREMENTS, wanted)
    ]
    return np.char.decode(different_codes(found), "ascii")


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


def _all_codes(level: str, rows: list[FileRows]) -> Codes:
    if not rows:
        return np.empty(0, dtype="S1")
    first, last = rows[0].codes[0], rows[0].codes[:0]
    different = []
    for one in rows:
        if not np.array_equal(one.codes, last):  # mostly the units of the query before
            last = one.codes
            different.append(last)
            other = last[np.char.str_len(last) != len(first)]
            if len(other):
                raise IncompatibleReleaseError(
                    f"codes of the level {level} must have one length, got {first.decode()!r} in "
                    f"{rows[0].path} and {other[0].decode()!r} in query {show(one.name)} of "
                    f"{one.path}"
                )
    return different_codes(different)


def _rows(
    root: Path,
    level: str,
    kind: str,
    subtrees: tuple[str, ...],
    among: CodeRange,
    names: list[str] | None,
    max_bytes: int | None,
    narrow: bool = False,
) -> Iterator[FileRows]:
    """Read the rows of a level, of measurements or of constraints."""
    for subtree, file in layout.files_of(root, level, kind, subtrees):
        yield from read_rows(
            file,
            MEASURED_COLUMNS if kind == layout.MEASUREMENTS else CONSTRAINED_COLUMNS,
            subtree=subtree,
            among=among,
            queries=names,
            max_bytes=max_bytes,
            narrow=narrow,
        )


def _measurements(
    measured: Mapping[str, list[FileRows]], names: tuple[str, ...], spine: Spine, narrow: bool
) -> dict[str, QueryMeasurements]:
    """Put the rows of each query together; rows are given up on the way, to free their memory."""
    by_query: dict[str, dict[str, list[tuple[str, FileRows]]]] = {name: {} for name in names}
    for level, rows in measured.items():
        for one in rows:
            by_query[_query_of(one)].setdefault(level, []).append((level, one))
        rows.clear()
    found: dict[str, QueryMeasurements] = {}
    places: dict[tuple[str, bytes], NDArray[np.intp]] = {}
    for name in names:
        by_width: dict[str, list[tuple[str, FileRows]]] = {}
        for own in by_query.pop(name).values():
            width = np.result_type(*{one.values.dtype for _, one in own}).name if narrow else name
            by_width.setdefault(width, []).extend(own)
            del own
        while by_width:
            width, own = by_width.popitem()
            found[f"{name} {width}" if narrow else name] = _joined(name, own, spine, places)
            del own
    return found


def _query_of(rows: FileRows) -> str:
    """Return the name of a query without its ending; it must be known, with the shape it has."""
    name = rows.name.removesuffix(layout.MEASURED)
    if name not in layout.PL94_QUERIES or name == rows.name:
        known = ", ".join(layout.PL94_QUERIES)
        raise IncompatibleReleaseError(
            f"names of queries must be one of {known}, each with {layout.MEASURED} after it, got "
            f"{_where(rows)}"
        )
    shape = layout.file_shape(layout.PL94_QUERIES[name])
    if rows.shape != shape:
        raise IncompatibleReleaseError(
            f"query_shape must be {list(shape)}, got {list(rows.shape)} in {_where(rows)}"
        )
    return name


def _where(rows: FileRows) -> str:
    return f"query {show(rows.name)}, unit {rows.codes[0].decode()!r} of {rows.path}"


def _joined(
    name: str,
    rows: list[tuple[str, FileRows]],
    spine: Spine,
    places: dict[tuple[str, bytes], NDArray[np.intp]],
) -> QueryMeasurements:
    """Put rows together; ``places`` are positions that were found, mostly for another query too."""
    attributes, parts = layout.PL94_QUERIES[name], []
    for level, one in rows:
        key = level, one.codes.tobytes()
        if key not in places:
            places[key] = spine.positions(level, one.codes)
        parts.append(places[key])
    units = np.concatenate(parts)
    _refuse_repeated(name, units, [one for _, one in rows])
    variance = np.concatenate([one.variance for _, one in rows])
    values = np.concatenate([one.values for _, one in rows])
    values = values.reshape((len(units), *layout.kept_shape(attributes)))
    for array in (units, variance, values):
        array.flags.writeable = False
    return QueryMeasurements(name, attributes, units, values, variance)


def _refuse_repeated(name: str, units: NDArray[np.intp], rows: list[FileRows]) -> None:
    if np.bincount(units).max(initial=0) < 2:
        return
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


# Noisy measurement files of the 2020 Census row by row, of any product and query.


ATTRIBUTES = {
    "pl94": layout.PL94_DOMAIN.attributes,
    "dhc": ("relgq", "sex", "age", "hispanic", "cenrace"),
}
"""The attributes of each product, in the order of ``query_shape``."""


@dataclass(frozen=True, eq=False)
class CensusRow:
    """The noisy values of one query in one unit.

    Attributes
    ----------
    level : str
        The level of the unit.
    unit : str
        Its code.
    query : str
        The query, without its ending.
    attributes : tuple of str
        The attributes of the product.
    values : array of int
        The values, with one axis for each attribute; 1 where the query sums over it.
    variance : float
        The variance of the noise of each value.
    """

    level: str
    unit: str
    query: str
    attributes: tuple[str, ...]
    values: NDArray[np.integer[Any]]
    variance: float

    def __repr__(self) -> str:
        shape = " x ".join(str(size) for size in self.values.shape)
        return f"CensusRow({self.level} {self.unit}, {self.query!r}, {shape})"


def read_census_rows(
    root: str | Path,
    *,
    product: str = "dhc",
    states: Any = None,
    levels: Any = None,
    queries: Any = None,
    prefix: str | tuple[str, str] | None = None,
    max_bytes: int | None = None,
) -> Iterator[CensusRow]:
    """Read noisy measurement files of the 2020 Census row by row.

    Parameters
    ----------
    root : str or Path
        The folder that holds the levels, laid out as for :func:`read_census_measurements`; further
        folders below those of the states, such as of counties, are looked into.
    product : {"dhc", "pl94"}
        Demographic and housing characteristics of persons, or redistricting data of persons.
    states : str or iterable of str, optional
        Subtrees such as ``"044"``, or states such as ``"44"``. By default all.
    levels : str or iterable of str, optional
        The levels to read. By default all that are there.
    queries : str or iterable of str, optional
        The queries to read, such as ``"hispanic * sex"``; others are skipped. By default all.
    prefix : str or pair of str, optional
        Read only the units whose codes begin like this, or from the first to the last of a pair.
    max_bytes : int, optional
        The most bytes that the columns of one file may take once they are decoded; by default 256
        MB, or 100 times its size.

    Returns
    -------
    iterator of CensusRow
        One row for each query of each unit, in the order of the files, read as they are asked for.

    Raises
    ------
    InvalidParameterError, IncompatibleReleaseError
        If an argument is outside what is allowed, or a file is not as documented; the message
        names file, unit and query.

    Notes
    -----
    Queries of the demographic and housing characteristics keep groupings of attributes, such as
    ages in 38 groups, whose number is the size of that axis. The order of the names in a query need
    not be that of the axes. The layout was taken from public code that reads these files, and
    tested on generated files.
    """
    path = layout.check_root(root)
    attributes = ATTRIBUTES[check_option(product, "product", ATTRIBUTES)]
    chosen = layout.check_chosen(levels, "levels", layout.levels_of(path))
    wanted = layout.check_subtrees(states, layout.census_subtrees(path))
    if (states is not None or prefix is not None) and levels is None:
        chosen = tuple(level for level in chosen if level != layout.NATION)
    names = None
    if queries is not None:
        names = layout.listed(queries, "queries", "names of queries")
        if wrong := [name for name in names if not _is_name(name)]:
            raise InvalidParameterError(f"queries must hold names of queries, got {show(wrong[0])}")
        names = [name.removesuffix(layout.MEASURED) + layout.MEASURED for name in names]
    most, among = check_max_bytes(max_bytes), check_prefix(prefix)
    return (
        row
        for level in chosen
        for rows in _rows(
            path,
            level,
            layout.MEASUREMENTS,
            wanted,
            EVERYTHING if level == layout.NATION else among,
            names,
            most,
        )
        for row in _split(level, rows, attributes)
    )


def _is_name(name: object) -> bool:
    """Whether a name is text that a file can hold, without half of a character."""
    return isinstance(name, str) and name == name.encode("utf-8", errors="ignore").decode()


def _split(level: str, rows: FileRows, attributes: tuple[str, ...]) -> Iterator[CensusRow]:
    if not rows.name.endswith(layout.MEASURED) or len(rows.shape) != len(attributes):
        raise IncompatibleReleaseError(
            f"rows must have names of queries with {layout.MEASURED} after them, and a query_shape "
            f"of {len(attributes)} numbers, for {', '.join(attributes)}, got query "
            f"{show(rows.name)} of shape {list(rows.shape)} in unit {rows.codes[0].decode()!r} of "
            f"{rows.path}"
        )
    query = rows.name.removesuffix(layout.MEASURED)
    for code, values, variance in zip(rows.codes, rows.values, rows.variance, strict=True):
        own = values.reshape(rows.shape)
        own.flags.writeable = False
        unit = layout.NATION if level == layout.NATION else code.decode()
        yield CensusRow(level, unit, query, attributes, own, float(variance))


# How many units of each level there are below each unit of noisy measurement files.


Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Inventory:
    """The units of one subtree, level by level.

    ``subtree``: its code; ``levels``: the levels that have units, from the highest; ``codes``: the
    codes of the units of each level, sorted; ``lacking``: those of them that have units below them,
    but neither values nor constraints themselves.
    """

    subtree: str
    levels: tuple[str, ...]
    codes: tuple[Codes, ...]
    lacking: tuple[Codes, ...]

    @classmethod
    def read(cls, root: Path, subtree: str, levels: tuple[str, ...]) -> Inventory:
        """Read the codes in the files of a subtree."""
        found: list[Codes] = []
        lacking: list[Codes] = []
        for level in reversed(levels):
            parts = [
                read_codes(file, subtree)
                for kind in (layout.MEASUREMENTS, layout.CONSTRAINTS)
                for _, file in layout.files_of(root, level, kind, [subtree])
            ]
            parts = [codes for codes in parts if codes.size]
            own = different_codes(parts)
            if not own.size:
                raise IncompatibleReleaseError(
                    f"files of the level {level} must have units in the subtree {subtree}, as "
                    f"those of other levels have, got none in {root}"
                )
            above = different_codes([found[0].astype(own.dtype)]) if found else own
            above = above[~np.isin(above, own, assume_unique=True)]
            found.insert(0, different_codes([own, above]))
            lacking.insert(0, above)
        return cls(subtree, levels, tuple(found), tuple(lacking))

    def firsts(self, at: int, below: int) -> Places:
        """Return the first unit of a lower level in each unit, and at the end their number."""
        inside = self.codes[below].astype(self.codes[at].dtype)
        first = np.searchsorted(inside, self.codes[at])
        return np.append(first, len(inside))

    def counts(self, at: int, most: int) -> Places:
        """Return the number of units from each unit of a level down to a lower level."""
        parts = [np.diff(self.firsts(at, below)) for below in range(at, most + 1)]
        return np.asarray(np.sum(parts, axis=0), dtype=np.intp)

    def refuse_lacking(self, at: int, start: int, stop: int) -> None:
        """Refuse to cut a tree at units of a level that its own files do not have."""
        codes = self.codes[at][start:stop]
        bad = codes[np.isin(codes, self.lacking[at])]
        if bad.size:
            raise IncompatibleReleaseError(
                f"files of the level {self.levels[at]} must have all units to cut there, they do "
                f"not have {show_some(np.char.decode(bad, 'ascii').tolist())}: choose another cut"
            )
