"""Ranges of codes: units that follow one another, with all below them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class CodeRange:
    """Units that follow one another in order of their codes, with all units below them.

    Parameters
    ----------
    first, last : str
        How the codes of the first and of the last of these units begin, of one length; empty for
        all units there are.
    """

    first: str = ""
    last: str = ""

    @property
    def everything(self) -> bool:
        """Whether all units are meant."""
        return not self.last

    @property
    def after(self) -> str:
        """What follows all codes that begin as the last one does."""
        return self.last[:-1] + chr(ord(self.last[-1]) + 1)

    def meets(self, lowest: str, highest: str) -> bool:
        """Return whether there can be units among codes from one to another."""
        return highest >= self.first and lowest < self.after

    def admits(self, subtree: str) -> bool:
        """Return whether there can be units in a subtree."""
        size = min(len(subtree), len(self.first))
        return self.first[:size] <= subtree[:size] <= self.last[:size]

    def holds(self, codes: pa.Array) -> pa.Array:
        """Return which codes are those of the units."""
        import pyarrow.compute as pc

        inside = pc.and_(pc.greater_equal(codes, self.first), pc.less(codes, self.after))
        # codes of units above the last ones may lie in between
        return pc.and_(inside, pc.greater_equal(pc.utf8_length(codes), len(self.first)))


EVERYTHING = CodeRange()
"""All units there are."""
