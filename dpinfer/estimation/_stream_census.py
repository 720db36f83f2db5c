"""Noisy measurement files of the 2020 Census as parts that fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import check_option, check_scalar, show
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation._marginals_input import StructuralZeros
from dpinfer.estimation._stream_files import TreePart
from dpinfer.estimation.marginals import NoisyMarginal
from dpinfer.queries.hierarchy import Hierarchy
from dpinfer.releases.census.geography import (
    LEVELS,
    NATION,
    census_subtrees,
    check_root,
    check_subtrees,
    levels_of,
)
from dpinfer.releases.census.reading import CensusMeasurements, Inventory, measurements_of

# Where to cut the units of noisy measurement files, so that each part fits into memory.


TOP = "top"  # the name of the part above all others
BASE, UNIT = 460_000_000, 45_000
"""Bytes that a worker takes without any part, and at most for each unit of one, as measured."""

Places = NDArray[np.intp]


@dataclass(frozen=True)
class Cut:
    """Units that make up a part."""

    name: str  # the part
    parent: str  # the part above
    subtree: str  # the subtree that its units are in
    levels: tuple[str, ...]  # its levels, from that of its roots
    ends: tuple[str, str]  # the codes of the first and of the last of its roots
    # the level whose units are the roots of other parts, the lowest of its levels
    borders: str | None


def most_units(memory: float) -> int:
    """Return the number of units that a part may have in some bytes of memory."""
    most = int((memory - BASE) / UNIT)
    if most < 1:
        raise InvalidParameterError(
            f"memory must be larger than the {BASE + UNIT} bytes that one unit takes, got "
            f"{show(memory)}"
        )
    return most


def cuts_at(inventories: Sequence[Inventory], level: str) -> Iterator[Cut]:
    """Cut at a level: each of its units, with all below it, is a part."""
    for one in inventories:
        at = one.levels.index(level)
        one.refuse_lacking(at, 0, len(one.codes[at]))
        for unit in range(len(one.codes[at])):
            yield _leaf(one, TOP, at, unit, unit + 1)


def cuts_below(inventories: Sequence[Inventory], level: str, most: int) -> Iterator[Cut]:
    """Cut below the top, whose lowest level is given, in parts of at most so many units."""
    for one in inventories:
        at = one.levels.index(level)
        yield from _below(one, TOP, at, 0, len(one.codes[at]), most)


def lowest_of_top(inventories: Sequence[Inventory], most: int) -> str | None:
    """Return the lowest level of the top, or None if it can hold all; all have the same levels."""
    found = [_sizes(one, 0, 0, len(one.codes[0])) for one in inventories]
    sizes = np.sum([own for own, _ in found], axis=0)
    heaviest = np.max([own for _, own in found], axis=0)
    if sizes[-1] <= most:
        return None
    chosen = _choose(sizes, heaviest, most)
    if chosen is None:
        _refuse("the highest level", int(sizes[0]))
    return inventories[0].levels[chosen]


def _below(one: Inventory, parent: str, at: int, start: int, stop: int, most: int) -> Iterator[Cut]:
    """Cut some units of a level, with all below them, in parts."""
    one.refuse_lacking(at, start, stop)
    weights = one.counts(at, len(one.levels) - 1)[start:stop]
    for first, last in pairwise(_runs(weights, most)):
        if weights[first:last].sum() <= most:
            yield _leaf(one, parent, at, start + first, start + last)
        else:
            yield from _split(one, parent, at, start + first, most)


def _split(one: Inventory, parent: str, at: int, unit: int, most: int) -> Iterator[Cut]:
    """Make a unit that is too large a part with levels below it, and cut the rest."""
    sizes, heaviest = _sizes(one, at, unit, unit + 1)
    chosen = _choose(sizes[1:], heaviest[1:], most)
    name = one.codes[at][unit].decode()
    if chosen is None:
        _refuse(f"the unit {name} and those below it", int(sizes[min(1, len(sizes) - 1)]))
    below = at + 1 + chosen
    yield Cut(
        name, parent, one.subtree, one.levels[at : below + 1], (name, name), one.levels[below]
    )
    first = one.firsts(at, below)
    yield from _below(one, name, below, int(first[unit]), int(first[unit + 1]), most)


def _leaf(one: Inventory, parent: str, at: int, start: int, stop: int) -> Cut:
    """Return units of a level with all below them as a part."""
    ends = one.codes[at][start].decode(), one.codes[at][stop - 1].decode()
    name = ends[0] if stop - start == 1 else "-".join(ends)
    return Cut(name, parent, one.subtree, one.levels[at:], ends, None)


def _sizes(one: Inventory, at: int, start: int, stop: int) -> tuple[Places, Places]:
    """Return, for a part that ends at each lower level, its units, and those below the heaviest.

    The part has the units of one level from ``start`` to ``stop``, and those below them.
    """
    sizes, heaviest = [], []
    last = len(one.levels) - 1
    for below in range(at, last + 1):
        sizes.append(int(one.counts(at, below)[start:stop].sum()))
        first = one.firsts(at, below)[[start, stop]]
        heaviest.append(int(one.counts(below, last)[slice(*first)].max()))
    return np.array(sizes), np.array(heaviest)


def _choose(sizes: Places, heaviest: Places, most: int) -> int | None:
    """Return the highest level to cut at such that no unit there has to be cut again.

    If there is none, the lowest level to which a part can reach, or None.
    """
    fits = np.flatnonzero(sizes[:-1] <= most)  # a part that reaches the lowest level is not cut
    whole = fits[heaviest[fits] <= most]
    return int(whole[0]) if whole.size else int(fits[-1]) if fits.size else None


def _runs(weights: Places, most: int) -> list[int]:
    """Return where runs of units begin, and the end: of even weights of at most so much.

    A unit that weighs more is a run of its own.
    """
    even = weights.sum() / np.ceil(weights.sum() / most)
    starts, weight = [0], 0
    for unit, own in enumerate(weights.tolist()):
        if unit > starts[-1] and (weight + own > most or weight >= even):
            starts.append(unit)
            weight = 0
        weight += own
    return [*starts, len(weights)]


def _refuse(what: str, units: int) -> NoReturn:
    raise InvalidParameterError(
        f"memory must be at least {BASE + UNIT * units} bytes for {what}, which are {units} units"
    )


# Parts of the noisy measurement files of the 2020 Census.


_CUTS = ("County", "Tract", "Block_Group")


@dataclass(frozen=True)
class CensusPart:
    """A function that reads a part from the files."""

    root: str
    # what to read, as arguments of ``measurements_of``
    options: tuple[tuple[str, Any], ...]
    cut: str | None = None  # the level whose units are the roots of other parts

    def __call__(self) -> tuple[Hierarchy, list[NoisyMarginal], list[StructuralZeros]]:
        """Read the part."""
        found = measurements_of(self.root, narrow=True, **dict(self.options))
        own = np.ones(len(found), dtype=bool)
        if self.cut is not None:
            own[found.at_level(self.cut)] = False
        return found.hierarchy, list(_marginals(found, own)), list(_zeros(found, own))


def census_parts(
    root: str | Path,
    *,
    cut: str | None = None,
    memory: float = 1e9,
    states: Any = None,
    state_totals: Any = None,
) -> dict[str, TreePart]:
    """Cut noisy measurement files of the 2020 Census in parts.

    Parameters
    ----------
    root : str or Path
        The folder that holds the levels.
    cut : {"County", "Tract", "Block_Group"}, optional
        The level of which each unit, with all below it, is a part; the levels above are one. By
        default parts are made by ``memory``.
    memory : float, default 1e9
        Bytes that one worker may take; above 4.6e8, and used only without ``cut``.
    states, state_totals
        As for :func:`~dpinfer.releases.census.read_census_measurements`.

    Returns
    -------
    dict of str to TreePart
        The parts by code, or by the codes of their first and last units with a hyphen between, and
        ``"top"``. For :func:`dpinfer.estimation.stream_marginals` ``domain`` and ``groupings`` are
        those of the measurements, and ``zero_attributes`` are ``("hhgq", "votingage")``.

    Raises
    ------
    InvalidParameterError
        If a unit and those right below it do not fit into the memory.
    IncompatibleReleaseError
        If a file is not as documented.

    Notes
    -----
    Cut by memory, a part are units of one level that follow one another, with all below them. A
    unit that is too large by itself is a part with the levels right below it, and is cut further
    there. While a part is worked on each of its units takes at most 45 kB, as measured, and a
    worker 0.46 GB besides. Files are read by row groups, each as often as parts have units in it,
    so they should be sorted by code, with row groups not much larger than parts.
    """
    place = check_root(str(Path(root).absolute()) if isinstance(root, (str, Path)) else root)
    there = tuple(level for level in levels_of(place) if level in LEVELS)
    below = tuple(level for level in there if level != NATION)
    if not below:
        raise InvalidParameterError(f"root must hold levels below {NATION}, got {there} in {place}")
    if cut is not None:
        check_option(cut, "cut", _CUTS)
        if cut not in below[:-1]:
            raise InvalidParameterError(
                f"cut must be a level of the files above the lowest, {below[:-1]}, got {show(cut)}"
            )
    most = most_units(check_scalar(memory, "memory", gt=0.0))
    subtrees = check_subtrees(states, census_subtrees(place))
    units = [Inventory.read(place, subtree, below) for subtree in subtrees]
    if states is not None:
        there = below
    above_states = len(there) - len(below) + (0 if state_totals is None else len(subtrees))
    lowest = lowest_of_top(units, most - above_states) if cut is None else cut
    above = there if lowest is None else there[: there.index(lowest) + 1]
    options = (("states", states), ("levels", above), ("state_totals", state_totals))
    version = _version(place)
    parts = {TOP: TreePart(CensusPart(str(place), options, lowest), version=version)}
    if lowest is not None:
        cuts = cuts_below(units, lowest, most) if cut is None else cuts_at(units, lowest)
        for one in cuts:
            own = (("states", one.subtree), ("levels", one.levels), ("prefix", one.ends))
            load = CensusPart(str(place), own, one.borders)
            parts[one.name] = TreePart(load, one.parent, version)
    return parts


def _version(root: Path) -> str:
    files = sorted(file for file in root.rglob("*") if file.is_file())
    stamps = [(file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return repr(
        [(str(file.relative_to(root)), *own) for file, own in zip(files, stamps, strict=True)]
    )


def _marginals(found: CensusMeasurements, own: NDArray[np.bool_]) -> Iterator[NoisyMarginal]:
    for query in [*found.queries.values(), *found.exact]:
        rows = np.flatnonzero(own[query.units])
        law, values = query.mechanism, query.values
        if rows.size < len(values):  # otherwise values need not be copied
            law, values = law.take(rows) if law.shape else law, values[rows]
        if rows.size:
            yield NoisyMarginal(query.attributes, values, law, found.labels[query.units[rows]])


def _zeros(found: CensusMeasurements, own: NDArray[np.bool_]) -> Iterator[StructuralZeros]:
    for one in found.zeros:
        units = np.flatnonzero(own) if one.units is None else one.units[own[one.units]]
        if units.size:
            yield StructuralZeros(one.levels, found.labels[units])
