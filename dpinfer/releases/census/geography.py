"""What noisy measurement files of the 2020 Census contain, and where: levels, queries, codes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import (
    check_flag,
    check_integer_array,
    check_items,
    check_option,
    one_line,
    show,
    show_some,
)
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.privacy.ledger import BudgetAllocation
from dpinfer.queries.domain import Domain
from dpinfer.queries.hierarchy import Hierarchy
from dpinfer.releases.tables import check_path

LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
"""Levels of the redistricting files, from the highest to the lowest."""

NATION = "US"
"""The one unit of the highest level, and the name of that level."""

MEASUREMENTS, CONSTRAINTS = "DPQuery", "Constraint"
"""Folders of the noisy measurements and of the constraints of a level."""

MEASURED, CONSTRAINED = "_dpq", "_con"
"""How the names of measurements and of constraints end."""

CODE_LENGTHS: Mapping[str, int] = MappingProxyType(
    {"State": 3, "County": 8, "Tract": 14, "Block_Group": 16, "Block": 32}
)
"""Characters of the codes that are made here. Reading takes the lengths that a file has."""

ORDINARY = 16
"""The last characters of a block's code: state 2, county 3, tract 6, block group 1, block 4."""

PUBLISHED_SUBTREES = tuple(
    first + state
    for first, states in (
        (
            "0",
            "01 02 04 05 06 08 09 10 11 12 13 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 "
            "32 33 34 35 36 37 38 39 40 41 42 44 45 46 47 48 49 50 51 53 54 55 56",
        ),
        (
            "1",
            "01 02 04 06 08 09 12 13 15 16 18 19 20 22 23 25 26 27 28 30 31 32 35 36 37 38 40 41 "
            "45 46 47 48 49 51 53 55 56",
        ),
    )
    for state in states.split()
)
"""The subtrees of the United States, as public code that reads the published files lists them."""

RACES = ("white", "black", "aian", "asian", "nhopi", "sor")

PL94_DOMAIN = Domain(
    {
        "hhgq": (
            "household",
            "correctional",
            "juvenile",
            "nursing",
            "other-institutional",
            "college",
            "military",
            "other-noninstitutional",
        ),
        "votingage": ("under-18", "18-and-over"),
        "hispanic": ("not-hispanic", "hispanic"),
        "cenrace": tuple(
            "-".join(races) for size in range(1, 7) for races in combinations(RACES, size)
        ),
    }
)
"""The 2,016 cells of the redistricting tables of persons."""

INSTITUTIONAL = ("household",) + ("institutional",) * 4 + ("noninstitutional",) * 3
"""The level of ``hhinstlevels`` that each level of ``hhgq`` belongs to."""

PL94_GROUPINGS: Mapping[str, tuple[str, Mapping[Any, Any]]] = MappingProxyType(
    {
        "hhinstlevels": (
            "hhgq",
            dict(zip(PL94_DOMAIN.levels["hhgq"], INSTITUTIONAL, strict=True)),
        )
    }
)
"""Coarser levels, as :func:`~dpinfer.estimation.combine_marginals` takes them."""

PL94_QUERIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "total": (),
        "cenrace": ("cenrace",),
        "hispanic": ("hispanic",),
        "votingage": ("votingage",),
        "hhinstlevels": ("hhinstlevels",),
        "hhgq": ("hhgq",),
        "hispanic * cenrace": ("hispanic", "cenrace"),
        "votingage * cenrace": ("votingage", "cenrace"),
        "votingage * hispanic": ("votingage", "hispanic"),
        "votingage * hispanic * cenrace": ("votingage", "hispanic", "cenrace"),
        "detailed": PL94_DOMAIN.attributes,
    }
)
"""The attributes, or groupings of them, that each query keeps."""

NURSING_MINORS: Mapping[str, str] = MappingProxyType({"hhgq": "nursing", "votingage": "under-18"})
"""The cells that are zero in every unit: no minors live in nursing facilities."""


def kept_shape(attributes: Iterable[str]) -> tuple[int, ...]:
    """Return the number of levels of each attribute or grouping that a query keeps."""
    sizes = dict(zip(PL94_DOMAIN.attributes, PL94_DOMAIN.shape, strict=True))
    sizes |= {name: len(set(groups.values())) for name, (_, groups) in PL94_GROUPINGS.items()}
    return tuple(sizes[name] for name in attributes)


def file_shape(attributes: Iterable[str]) -> tuple[int, ...]:
    """Return the ``query_shape`` of a query: a size for each attribute, 1 if it is summed over."""
    names = tuple(attributes)
    grouped = {name: attribute for name, (attribute, _) in PL94_GROUPINGS.items()}
    kept = zip(names, kept_shape(names), strict=True)
    sizes = {grouped.get(name, name): size for name, size in kept}
    return tuple(sizes.get(name, 1) for name in PL94_DOMAIN.attributes)


def check_root(root: object) -> Path:
    """Return the folder that holds the folders of the levels."""
    path = check_path(root, "root")
    if not path.is_dir() or not levels_of(path):
        raise InvalidParameterError(
            "root must be the folder that holds the levels of one product, such as "
            f"State.parquet, got {path}"
        )
    return path


def levels_of(root: Path) -> tuple[str, ...]:
    """Return the levels in a folder: the known ones from the highest, then others by name."""
    names = {path.name.removesuffix(".parquet") for path in root.glob("*.parquet") if path.is_dir()}
    return tuple(name for name in LEVELS if name in names) + tuple(sorted(names - set(LEVELS)))


def parts_of(root: Path, level: str, kind: str) -> dict[str, Path]:
    """Return the folders of a level by subtree, of measurements or of constraints.

    A subtree has a code: 0 or 1 for the part of a state outside or inside of American Indian and
    Alaska Native areas, and two digits for the state; that of the nation is empty.
    """
    folder = root / f"{level}.parquet" / kind
    if level == NATION:
        return {"": folder} if folder.is_dir() else {}
    found = {}
    for path in sorted(folder.glob("State=*")):
        subtree = path.name.removeprefix("State=").zfill(3)
        if path.is_dir():
            if len(subtree) != 3 or not subtree.isdecimal() or subtree[0] not in "01":
                raise InvalidParameterError(
                    "folders of states must be named State=<0 or 1><two digits>, such as "
                    f"State=044, got {path}"
                )
            found[subtree] = path
    return found


def files_of(
    root: Path, level: str, kind: str, subtrees: Iterable[str]
) -> Iterator[tuple[str, Path]]:
    """Yield the Parquet files of some subtrees of a level, or of the nation, each with its code."""
    parts = parts_of(root, level, kind)
    for subtree in ("",) if level == NATION else subtrees:
        if subtree in parts:
            for path in sorted(parts[subtree].rglob("*.parquet")):
                if path.is_file():
                    yield subtree, path


def census_subtrees(root: str | Path) -> tuple[str, ...]:
    """List the subtrees that noisy measurement files of the 2020 Census are cut into.

    Parameters
    ----------
    root : str or Path
        The folder that holds the levels, such as ``State.parquet``.

    Returns
    -------
    tuple of str
        Codes of three characters: 0 for the part of a state outside of American Indian and Alaska
        Native areas or 1 for the part inside of them, then the two digits of the state.

    Raises
    ------
    InvalidParameterError
        If the folder does not hold such files.
    """
    path = check_root(root)
    found = {code for level in levels_of(path) for code in parts_of(path, level, MEASUREMENTS)}
    return tuple(sorted(found - {""}))


def listed(given: Any, name: str, of: str) -> list[Any]:
    """Return one name, or several, as a list that is not empty."""
    found = [given] if isinstance(given, str) else check_items(given, name, of)
    if not found:
        raise InvalidParameterError(f"{name} must hold {of}, at least one, got none")
    return found


def check_subtrees(states: Any, there: tuple[str, ...]) -> tuple[str, ...]:
    """Return subtrees that were asked for, by code or, both parts of it, by state; None is all."""
    if states is None:
        return there
    found = []
    for code in listed(states, "states", "codes of subtrees"):
        own = [one for one in there if isinstance(code, str) and code in (one, one[1:])]
        if not own:
            raise InvalidParameterError(
                f"states must name subtrees of root, {show_some(there)}, or states by their two "
                f"digits, got {show(code)}"
            )
        found += own
    return tuple(dict.fromkeys(found))


def check_chosen(given: Any, name: str, there: Iterable[str]) -> tuple[str, ...]:
    """Return the names that were asked for, in the order of ``there``; None is all."""
    if given is None:
        return tuple(there)
    found = [check_option(one, name, there) for one in listed(given, name, f"names of {name}")]
    return tuple(one for one in there if one in found)


def spine_codes(blocks: Iterable[str], *, inside: bool = False) -> NDArray[np.str_]:
    """Turn ordinary codes of blocks into codes whose beginnings name all levels above.

    Parameters
    ----------
    blocks : iterable of str
        Ordinary codes of 15 digits: state 2, county 3, tract 6, block 4.
    inside : bool, default False
        Whether the blocks are inside of American Indian and Alaska Native areas.

    Returns
    -------
    array of str
        Codes of 32 characters, of which the beginnings of 3, 8, 14 and 16 name state, county, tract
        and block group (the ordinary ones; published files have custom groups and renumbered
        tracts), and the last 16 are the ordinary code with the block group between tract and block.

    Examples
    --------
    >>> str(spine_codes(["440070001011000"])[0])
    '04410007000101014400700010111000'
    """
    listed = check_items(blocks, "blocks", "codes")
    for code in listed:
        if not isinstance(code, str) or len(code) != 15 or not code.isdecimal():
            raise InvalidParameterError(
                f"blocks must hold codes of 15 digits, such as '440070001011000', got {show(code)}"
            )
    first = "1" if check_flag(inside, "inside") else "0"
    return np.array(
        [
            f"{first}{code[:2]}1{code[2:5]:0>4}{code[5:11]}0{code[11]}{code[:11]}{code[11]}{code[11:]}"
            for code in listed
        ]
    )


def block_geoid(codes: Iterable[str]) -> NDArray[np.str_]:
    """Return the ordinary codes of blocks, of 15 digits, from those of the files.

    Parameters
    ----------
    codes : iterable of str
        Codes of blocks in the files, of at least 16 characters.

    Returns
    -------
    array of str
        State 2, county 3, tract 6, block 4 digits; the first digit of the block is that of its
        ordinary block group.

    Examples
    --------
    >>> str(block_geoid(["04410007000101014400700010111000"])[0])
    '440070001011000'
    """
    listed = check_items(codes, "codes", "codes of blocks")
    for code in listed:
        if not isinstance(code, str) or len(code) < ORDINARY:
            raise InvalidParameterError(
                f"codes must hold codes of blocks, of at least {ORDINARY} characters, got "
                f"{one_line(show(code))}"
            )
    return np.array([code[-16:-5] + code[-4:] for code in listed])


# The units of all levels above the lowest ones, and true tables to be read in parts.


MOST = 2**30
"""Persons at most: values are written as 32-bit integers."""

Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Truth:
    """Codes of the lowest units, and what returns their true tables.

    ``codes`` (n,): the codes, sorted; ``levels``: the levels below the nation, from the highest;
    ``tables``: ``tables(start, stop)`` returns the tables of some units.
    """

    codes: NDArray[np.bytes_]
    levels: tuple[str, ...]
    tables: Callable[[int, int], Any]

    @classmethod
    def of(cls, truth: Any, allocation: BudgetAllocation) -> Truth:
        """Read a pair of codes and tables, or an object that has them."""
        if hasattr(truth, "codes") and hasattr(truth, "tables"):
            truth = (truth.codes, truth.tables)
        if not isinstance(truth, tuple) or len(truth) != 2:
            raise InvalidParameterError(
                f"truth must be a pair of codes and tables, or have them, got {show(truth)}"
            )
        levels = tuple(level for level in LEVELS[1:] if level in allocation.levels)
        if not levels:
            raise InvalidParameterError("allocation must have a level below the nation")
        codes = _check_codes(truth[0], CODE_LENGTHS[levels[-1]])
        tables = truth[1]
        if not callable(tables):
            array = np.asarray(tables)
            if array.ndim < 2 or len(array) != len(codes):
                raise InvalidParameterError(
                    f"truth must have a table for each of the {len(codes)} codes, got the shape "
                    f"{array.shape}"
                )
            tables = lambda start, stop: array[start:stop]  # noqa: E731
        return cls(codes, levels, tables)

    def subtrees(self) -> list[tuple[str, int, int]]:
        """Return the subtrees with the first of their units, and the one after the last."""
        state = self.codes.astype("S3")
        starts = np.flatnonzero(np.append(True, state[1:] != state[:-1]))
        stops = [*starts[1:].tolist(), len(state)]
        return [
            (state[start].decode(), int(start), int(stop))
            for start, stop in zip(starts, stops, strict=True)
        ]

    def read(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the tables of some units, shape (m, 8, 2, 2, 63)."""
        given = self.tables(start, stop)
        tables = np.asarray(given)
        if tables.dtype.kind not in "iu":
            tables = check_integer_array(given, "truth")
        shape = (stop - start, *PL94_DOMAIN.shape)
        if tables.shape not in (shape, (stop - start, PL94_DOMAIN.size)):
            raise InvalidParameterError(
                f"truth must have tables of the shape {shape}, or with the cells of a unit in one "
                f"row, got {tables.shape}"
            )
        if tables.min() < 0 or tables.sum(dtype=np.float64) > MOST:
            raise InvalidParameterError(
                f"truth must have counts >= 0, of at most {MOST} persons, got {tables.min()} and "
                f"{tables.sum(dtype=np.float64):g} persons"
            )
        tables = tables.reshape(shape).astype(np.int64)
        minors = tables[:, PL94_DOMAIN.levels["hhgq"].index("nursing"), 0].any(axis=(1, 2))
        if minors.any():
            unit = self.codes[start + int(np.argmax(minors))].decode()
            raise InvalidParameterError(
                f"truth must have no minors in nursing facilities, got some in unit {unit!r}"
            )
        return tables


def _check_codes(codes: Any, length: int) -> NDArray[np.bytes_]:
    try:
        found = np.asarray(codes).astype(str).astype("S")
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(
            f"truth must have codes that are text, got {show(codes)}"
        ) from error
    if found.ndim != 1 or not found.size:
        raise InvalidParameterError(f"truth must have a list of codes, got {show(codes)}")
    wrong = np.char.str_len(found) != length
    unsorted = np.append(False, found[1:] <= found[:-1])
    if wrong.any() or unsorted.any() or not np.char.isdigit(found).all():
        bad = wrong | unsorted | ~np.char.isdigit(found)
        raise InvalidParameterError(
            f"truth must have codes of {length} digits, sorted and each once, got "
            f"{found[np.argmax(bad)].decode()!r} at position {int(np.argmax(bad))}"
        )
    if not np.isin(found.astype("S1"), [b"0", b"1"]).all():
        raise InvalidParameterError("truth must have codes that begin with 0 or 1")
    return found


@dataclass(frozen=True, eq=False)
class Outline:
    """The units of a subtree level by level.

    ``levels``: the levels, from the highest; ``codes``: the codes of the units of each level;
    ``starts``: the first of the lowest units in each unit; ``alone``: whether a unit is the only
    child of its parent, and its budget has been moved there; ``chains``: of how many levels below
    it a unit has the budget as well.
    """

    levels: tuple[str, ...]
    codes: list[NDArray[np.bytes_]]
    starts: list[Places]
    alone: list[NDArray[np.bool_]]
    chains: list[Places]

    @classmethod
    def of(
        cls, lowest: NDArray[np.bytes_], levels: tuple[str, ...], move: bool, top_alone: bool
    ) -> Outline:
        """Find the units above the lowest ones; with ``move``, where budget is moved."""
        codes, starts = [], []
        for level in levels:
            own = lowest.astype(f"S{CODE_LENGTHS[level]}")
            first = np.flatnonzero(np.append(True, own[1:] != own[:-1]))
            codes.append(own[first])
            starts.append(first)
        alone = [np.zeros(len(first), dtype=bool) for first in starts]
        chains = [np.zeros(len(first), dtype=np.intp) for first in starts]
        if move:
            alone[0][:] = top_alone
            for at in range(len(levels) - 2, -1, -1):
                child = np.searchsorted(starts[at + 1], starts[at])  # the first child
                single = np.diff(child, append=len(starts[at + 1])) == 1
                alone[at + 1][child[single]] = True
                chains[at][single] = 1 + chains[at + 1][child[single]]
        return cls(levels, codes, starts, alone, chains)

    def ancestors(self, at: int, below: int, units: Places) -> Places:
        """Return the units of a level above others."""
        where = self.starts[below][units]
        return np.asarray(np.searchsorted(self.starts[at], where, side="right") - 1)


# The hierarchy of units behind the codes of noisy measurement files.


Codes = NDArray[np.bytes_]
Units = NDArray[np.intp]

WHOLE_STATE = "Whole_State"
"""Level of the units that stand above both subtrees of a state."""


@dataclass(frozen=True, eq=False)
class Spine:
    """Units level by level, sorted by their codes within a level.

    ``levels``: the levels that have units, from the highest; ``codes``: the codes of the units of
    each level, sorted.
    """

    levels: tuple[str, ...]
    codes: tuple[Codes, ...]

    @classmethod
    def of(cls, found: Mapping[str, Codes], whole_states: Sequence[str] = ()) -> Spine:
        """Build the spine from the codes of each level, the highest first.

        A unit above another that is not among the codes of its level is added. Whole states, of
        two digits, are put above their subtrees.
        """
        levels = [level for level, codes in found.items() if len(codes)]
        codes = {level: np.unique(found[level]) for level in levels}
        _check_lengths(codes)
        below = [level for level in levels if level != NATION]
        for higher, lower in zip(reversed(below[:-1]), reversed(below[1:]), strict=True):
            above = _beginnings(codes[lower], codes[higher])
            codes[higher] = np.union1d(codes[higher], above)
        if whole_states:
            levels.insert(levels.index("State"), WHOLE_STATE)
            codes[WHOLE_STATE] = np.sort(np.array([code.encode() for code in whole_states]))
        return cls(tuple(levels), tuple(codes[level] for level in levels))

    @property
    def sizes(self) -> list[int]:
        """Number of units of each level."""
        return [len(codes) for codes in self.codes]

    @property
    def level(self) -> Units:
        """The level of each unit."""
        return np.repeat(np.arange(len(self.levels)), self.sizes)

    def positions(self, level: str, codes: Codes) -> Units:
        """Return the positions of units of a level, which must be among its units."""
        at = self.levels.index(level)
        start = sum(self.sizes[:at])
        return np.asarray(start + np.searchsorted(self.codes[at], codes), dtype=np.intp)

    def names(self) -> NDArray[np.object_]:
        """Return the codes of all units as text, ``"US"`` for the nation."""
        parts = [
            np.array([NATION] if level == NATION else np.char.decode(codes, "ascii"), dtype=object)
            for level, codes in zip(self.levels, self.codes, strict=True)
        ]
        return np.concatenate(parts)

    def parents(self) -> Units:
        """Return the position of the parent of each unit, -1 for none."""
        parts = []
        for at, (level, codes) in enumerate(zip(self.levels, self.codes, strict=True)):
            higher = self.levels[at - 1] if at else None
            own = np.full(len(codes), -1)
            if level != WHOLE_STATE and higher not in (None, NATION, WHOLE_STATE):
                own = self.positions(str(higher), _beginnings(codes, self.codes[at - 1]))
            elif NATION in self.levels[:at]:
                own = np.zeros(len(codes), dtype=np.intp)  # the nation comes first
            if higher == WHOLE_STATE:
                state = np.array([code[1:3] for code in codes.tolist()])
                inside = np.isin(state, self.codes[at - 1])
                own[inside] = self.positions(WHOLE_STATE, state[inside])
            parts.append(own)
        return np.concatenate(parts)

    def hierarchy(self, not_exhausted: Any, open_nation: bool) -> Hierarchy:
        """Return the hierarchy; units above the lowest level must have children, or be open."""
        import pandas as pd

        names, parent = self.names(), self.parents()
        above = names[parent]
        above[parent < 0] = None
        single = isinstance(not_exhausted, str)
        opened = check_items([not_exhausted] if single else not_exhausted, "not_exhausted", "codes")
        wrong = [code for code in opened if not isinstance(code, str)]
        if wrong:
            raise InvalidParameterError(
                f"not_exhausted must name units by their codes, got {show(wrong[0])}"
            )
        if open_nation and NATION in self.levels:
            opened.append(NATION)
        hierarchy = Hierarchy(pd.Series(above, index=pd.Index(names)), not_exhausted=opened)
        inner = np.flatnonzero(self.level < len(self.levels) - 1)
        lacking = [name for name in names[np.setdiff1d(inner, parent)] if name not in opened]
        if lacking:
            raise IncompatibleReleaseError(
                f"units above the level {self.levels[-1]} must have children, none have "
                f"{show_some(lacking)}: files are missing, or name these units in not_exhausted"
            )
        return hierarchy


def _beginnings(codes: Codes, above: Codes) -> Codes:
    return codes.astype(f"S{above.dtype.itemsize}")


def _check_lengths(codes: Mapping[str, Codes]) -> None:
    longest, above = 0, ""
    for level, own in codes.items():
        if level == NATION:
            if len(own) > 1:
                raise IncompatibleReleaseError(
                    f"the level {NATION} must have one unit, got {show_some(own.tolist())}"
                )
            continue
        length = len(own[0])
        if length <= longest:
            raise IncompatibleReleaseError(
                f"codes of the level {level} must be longer than those of {above}, got "
                f"{own[0].decode()!r}"
            )
        longest, above = length, level
