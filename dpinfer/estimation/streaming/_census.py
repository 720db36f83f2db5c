"""Parts of the noisy measurement files of the 2020 Census."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import check_option, check_scalar, show
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.streaming._cuts import (
    TOP,
    cuts_at,
    cuts_below,
    lowest_of_top,
    most_units,
)
from dpinfer.estimation.streaming._tree import TreePart
from dpinfer.estimation.tables._zeros import StructuralZeros
from dpinfer.estimation.tables.marginals import NoisyMarginal
from dpinfer.queries import Hierarchy
from dpinfer.releases.census import (
    CensusMeasurements,
    census_subtrees,
    read_census_measurements,
)
from dpinfer.releases.census.inventory import Inventory
from dpinfer.releases.census.layout import (
    LEVELS,
    NATION,
    check_root,
    check_subtrees,
    levels_of,
)

_CUTS = ("County", "Tract", "Block_Group")


@dataclass(frozen=True)
class CensusPart:
    """A function that reads a part from the files.

    Parameters
    ----------
    options : tuple of (str, object)
        What to read, as arguments of ``read_census_measurements``.
    cut : str, optional
        The level whose units are the roots of other parts.
    """

    root: str
    options: tuple[tuple[str, Any], ...]
    cut: str | None = None

    def __call__(self) -> tuple[Hierarchy, list[NoisyMarginal], list[StructuralZeros]]:
        """Read the part."""
        found = read_census_measurements(self.root, **dict(self.options))
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
        ``"top"``. For :func:`dpinfer.stream_marginals` ``domain`` and ``groupings`` are
        those of the measurements, and ``zero_attributes`` are ``("hhgq", "votingage")``.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or a unit and those right below it do not fit
        into the memory.
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
            yield StructuralZeros(one.levels, found.labels[units].tolist())
