"""The hierarchy of units behind the codes of noisy measurement files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import check_items, show, show_some
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.queries import Hierarchy
from dpinfer.releases.census.layout import NATION

Codes = NDArray[np.bytes_]
Units = NDArray[np.intp]

WHOLE_STATE = "Whole_State"
"""Level of the units that stand above both subtrees of a state."""


@dataclass(frozen=True, eq=False)
class Spine:
    """Units level by level, sorted by their codes within a level.

    Parameters
    ----------
    levels : tuple of str
        The levels that have units, from the highest.
    codes : tuple of array of bytes
        The codes of the units of each level, sorted.
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
    """Return the beginnings of codes that are as long as the codes of the level above."""
    return codes.astype(f"S{above.dtype.itemsize}")


def _check_lengths(codes: Mapping[str, Codes]) -> None:
    """Refuse codes that are not longer than those of the level above."""
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
