"""What noisy measurement files of the 2020 Census contain, and where: levels, queries, codes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import check_flag, check_items, check_option, one_line, show, show_some
from dpinfer.errors import InvalidParameterError
from dpinfer.queries import Domain
from dpinfer.releases._files.table import check_path

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


@dataclass(frozen=True)
class Part:
    """The files of one subtree of a level, or of the nation.

    Parameters
    ----------
    level : str
        The level.
    subtree : str
        Its code: 0 or 1 for the part of a state outside or inside of American Indian and Alaska
        Native areas, and two digits for the state. Empty for the nation.
    folder : Path
        The folder that holds its files.
    """

    level: str
    subtree: str
    folder: Path

    def files(self) -> list[Path]:
        """Return its Parquet files, in order of their names."""
        return sorted(path for path in self.folder.rglob("*.parquet") if path.is_file())


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


def parts_of(root: Path, level: str, kind: str) -> dict[str, Part]:
    """Return the parts of a level by subtree, of measurements or of constraints."""
    folder = root / f"{level}.parquet" / kind
    if level == NATION:
        return {"": Part(level, "", folder)} if folder.is_dir() else {}
    found = {}
    for path in sorted(folder.glob("State=*")):
        subtree = path.name.removeprefix("State=").zfill(3)
        if path.is_dir():
            if len(subtree) != 3 or not subtree.isdecimal() or subtree[0] not in "01":
                raise InvalidParameterError(
                    "folders of states must be named State=<0 or 1><two digits>, such as "
                    f"State=044, got {path}"
                )
            found[subtree] = Part(level, subtree, path)
    return found


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


def check_subtrees(states: Any, there: tuple[str, ...]) -> tuple[str, ...]:
    """Return subtrees that were asked for, by code or, both parts of it, by state; None is all."""
    if states is None:
        return there
    listed = [states] if isinstance(states, str) else check_items(states, "states", "codes")
    if not listed:
        raise InvalidParameterError("states must name at least one subtree, got none")
    found = []
    for code in listed:
        own = [one for one in there if isinstance(code, str) and code in (one, one[1:])]
        if not own:
            raise InvalidParameterError(
                f"states must name subtrees of root, {show_some(there)}, or states by their two "
                f"digits, got {show(code)}"
            )
        found += own
    return tuple(dict.fromkeys(found))


def check_levels(levels: Any, there: tuple[str, ...]) -> tuple[str, ...]:
    """Return the levels that were asked for, in the order of ``there``; None is all."""
    if levels is None:
        return there
    listed = [levels] if isinstance(levels, str) else check_items(levels, "levels", "names")
    if not listed:
        raise InvalidParameterError("levels must name at least one level, got none")
    for level in listed:
        check_option(level, "levels", there)
    return tuple(level for level in there if level in listed)


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
        Codes of 32 characters, of which the beginnings of 3, 8, 14 and 16 name state, county,
        tract and block group, and the last 16 are the ordinary code with the block group between
        tract and block. The published files have custom block groups and renumbered tracts; these
        are the ordinary ones.

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
