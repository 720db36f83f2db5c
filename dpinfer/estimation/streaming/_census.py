"""Parts of the noisy measurement files of the 2020 Census."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import check_option, show
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.streaming._tree import TreePart
from dpinfer.estimation.tables._zeros import StructuralZeros
from dpinfer.estimation.tables.marginals import NoisyMarginal
from dpinfer.queries import Hierarchy
from dpinfer.releases.census import (
    CensusMeasurements,
    census_codes,
    census_subtrees,
    read_census_measurements,
)
from dpinfer.releases.census.layout import check_subtrees, levels_of

_TOP = "top"

_CUTS = ("County", "Tract")


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
    root: str | Path, *, cut: str = "County", states: Any = None, state_totals: Any = None
) -> dict[str, TreePart]:
    """Cut noisy measurement files of the 2020 Census in parts.

    Parameters
    ----------
    root : str or Path
        The folder that holds the levels.
    cut : {"County", "Tract"}
        The level of which each unit, with all below it, is a part; the levels above are one.
    states, state_totals
        As for :func:`~dpinfer.releases.census.read_census_measurements`.

    Returns
    -------
    dict of str to TreePart
        The parts, by code, and ``"top"``. For
        :func:`dpinfer.stream_marginals` ``domain`` and ``groupings`` are
        those of the measurements, and ``zero_attributes`` are ``("hhgq", "votingage")``.
    """
    check_option(cut, "cut", _CUTS)
    place = str(Path(root).absolute())
    there = levels_of(Path(place))
    if cut not in there:
        raise InvalidParameterError(f"cut must be a level of the files, {there}, got {show(cut)}")
    subtrees = check_subtrees(states, census_subtrees(place))
    above = tuple(there[: there.index(cut) + 1])
    if states is not None:
        above = tuple(level for level in above if level != "US")
    options = (("states", states), ("levels", above), ("state_totals", state_totals))
    version = _version(Path(place))
    parts = {_TOP: TreePart(CensusPart(place, options, cut), version=version)}
    for subtree in subtrees:
        for code in census_codes(place, cut, states=subtree).tolist():
            load = CensusPart(place, (("states", subtree), ("prefix", code)))
            parts[code] = TreePart(load, _TOP, version)
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
        if rows.size:
            law = query.mechanism
            law = law.take(rows) if law.shape else law
            units = found.labels[query.units[rows]]
            yield NoisyMarginal(query.attributes, query.values[rows], law, units)


def _zeros(found: CensusMeasurements, own: NDArray[np.bool_]) -> Iterator[StructuralZeros]:
    for one in found.zeros:
        units = np.flatnonzero(own) if one.units is None else one.units[own[one.units]]
        if units.size:
            yield StructuralZeros(one.levels, found.labels[units].tolist())
