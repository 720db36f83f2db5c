"""How many units of each level there are below each unit of noisy measurement files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import show_some
from dpinfer.errors import IncompatibleReleaseError
from dpinfer.releases.census import layout
from dpinfer.releases.census.columns import read_codes
from dpinfer.releases.census.spine import Codes

Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Inventory:
    """The units of one subtree, level by level.

    Parameters
    ----------
    subtree : str
        Its code.
    levels : tuple of str
        The levels that have units, from the highest.
    codes : tuple of array of bytes
        The codes of the units of each level, sorted.
    lacking : tuple of array of bytes
        Those of them that have units below them, but neither values nor constraints themselves.
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
            own = _codes(root, level, subtree)
            if not own.size:
                raise IncompatibleReleaseError(
                    f"files of the level {level} must have units in the subtree {subtree}, as "
                    f"those of other levels have, got none in {root}"
                )
            above = np.unique(found[0].astype(own.dtype)) if found else own
            above = above[~np.isin(above, own, assume_unique=True)]
            found.insert(0, np.union1d(own, above))
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


def _codes(root: Path, level: str, subtree: str) -> Codes:
    """Return the codes of a level that have measurements or constraints."""
    found = []
    for kind in (layout.MEASUREMENTS, layout.CONSTRAINTS):
        part = layout.parts_of(root, level, kind).get(subtree)
        found += [read_codes(file, subtree) for file in part.files()] if part else []
    found = [codes for codes in found if codes.size]
    return np.unique(np.concatenate(found)) if found else np.empty(0, dtype="S1")
