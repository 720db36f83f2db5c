"""Draws from a symmetric law on the whole numbers by a guide table over its quantile function."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

BINS = 1 << 16
"""Number of equally likely bins of the quantile function: one random 16-bit word selects one."""

WORTHWHILE = 1 << 14
"""From so many draws on a table is used. It takes the time of a few times as many to make, once."""

_CHUNK = 1 << 16
_UNDECIDED = np.iinfo(np.int64).min
_SMALLEST = 2.0**-69
"""The smallest tail probability that a bin and 53 further bits tell apart."""


class SymmetricIntegerLaw(Protocol):
    """What a guide table has to know of a law."""

    def __hash__(self) -> int: ...

    def isf(self, q: float) -> Any:
        """Upper quantile."""

    def sf(self, x: NDArray[Any]) -> Any:
        """Tail probability."""


class GuideTable:
    """The value of the quantile function on each bin that it does not cut, and the tails.

    A draw whose bin lies within one atom of the law is a single look-up. In the few other bins 53
    more random bits and a search in the tails decide, so that the law is exact to double precision.
    """

    def __init__(self, law: SymmetricIntegerLaw) -> None:
        largest = int(law.isf(_SMALLEST))
        # negated: ascending, as a search needs it, with small numbers where the tail is small
        self._tails = -np.asarray(law.sf(np.arange(largest + 1.0)))
        edges = np.arange(BINS // 2 + 1) / BINS
        magnitude = np.searchsorted(self._tails, -edges, side="left")
        upper = np.where(magnitude[:-1] == magnitude[1:], magnitude[1:], _UNDECIDED)
        lower = np.where(upper == _UNDECIDED, _UNDECIDED, -upper)
        self._values = np.concatenate([lower, upper[::-1]])

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw an array of the given shape."""
        out = np.empty(prod(shape), dtype=np.int64)
        bins = np.empty(_CHUNK, dtype=np.intp)
        for start in range(0, out.size, _CHUNK):
            chunk = out[start : start + _CHUNK]
            # four 16-bit words to a 64-bit one
            words = rng.integers(0, 1 << 64, -(-chunk.size // 4), dtype=np.uint64).view(np.uint16)
            chosen = bins[: chunk.size]
            chosen[:] = words[: chunk.size]
            # "clip" skips the check of bounds: 16-bit indices are within them
            np.take(self._values, chosen, out=chunk, mode="clip")
            undecided = np.flatnonzero(chunk == _UNDECIDED)
            chunk[undecided] = self._decide(chosen[undecided], rng)
        return out.reshape(shape)

    def _decide(self, bins: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
        """Return the quantile at a random point of each bin."""
        lower = bins < BINS // 2
        tail = np.where(lower, bins, BINS - 1 - bins) + (1.0 - rng.random(bins.size))
        magnitude = np.searchsorted(self._tails, -tail / BINS, side="left")
        return np.where(lower, -magnitude, magnitude)


@lru_cache(maxsize=16)
def guide_table(law: SymmetricIntegerLaw) -> GuideTable:
    """Return the table of a law, kept for the next draws from it."""
    return GuideTable(law)
