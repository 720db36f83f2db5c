"""Counts of the replicates of one law, block by block, and when there are enough of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.results._blocks import Block, Counted, Law, child_seed

_PLACE = (1 << 32) - 1
"""Child of a block's seed that draws the places of replicates: not one that a draw may spawn."""


def exceedances_for(precision: float) -> int:
    """Return the number h of exceedances at which h/R has this relative standard error."""
    inverse = min(1.0 / precision, 1e9)
    return math.ceil(inverse * inverse * (1.0 - 1e-12))  # 1/0.1² is 100, not 101


class Tally:
    """How many replicates of a law are at least as extreme as each observed statistic.

    Parameters
    ----------
    law : Law
        The law and its statistics.
    needed : float
        Number of exceedances at which the count of a statistic ends: infinite for a count of all
        replicates. Only the first alternative of the law counts for that.

    Attributes
    ----------
    extreme : array of float, one row for each alternative
        The counts.
    replicates : array of float
        For each statistic the number of replicates among which they were counted.
    stopped : array of bool
        Which counts ended because there were enough exceedances.
    kept : list of array
        A sample of the replicates, block by block.
    """

    def __init__(self, law: Law, needed: float) -> None:
        shape = law.statistic.shape
        self.law, self._needed = law, needed
        self.extreme = np.zeros((len(law.alternatives), *shape))
        self.replicates = np.zeros(shape)
        self.stopped = np.zeros(shape, dtype=bool)
        self.kept: list[FloatArray] = []

    @property
    def is_over(self) -> bool:
        """Whether no more replicates are needed."""
        return bool(self.stopped.all())

    def add(self, block: Block, counted: Counted) -> None:
        """Count the replicates of the next block."""
        counts, kept = counted
        self.kept.append(kept)
        tested = self.extreme[0, ...]  # a view, even of a single number
        going = ~self.stopped
        full = going & (tested + counts[0] >= self._needed)
        self.stopped |= full
        going &= ~full
        self.replicates[going] += block.size
        if full.any():
            which = self._needed - tested[full]
            rng = np.random.default_rng(child_seed(block.seed, _PLACE))
            self.replicates[full] += draw_place(which, counts[0, full], block.size, rng)
        self.extreme += np.where(going, counts, 0.0)
        tested[full] = self._needed


def draw_place(
    which: NDArray[Any], marked: NDArray[Any], size: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw the place of the ``which``-th marked item of ``size`` items in a random order.

    The place has a negative hypergeometric law. It is halved in: how many marked items are in the
    first half is hypergeometric.

    Parameters
    ----------
    which, marked : array of whole numbers
        1 <= which <= marked, the number of marked items.
    size : int
        Number of items, >= marked.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    array of int
        Places from 1 to ``size``.
    """
    which, marked = which.astype(np.int64), marked.astype(np.int64)
    start = np.zeros(which.shape, dtype=np.int64)
    length = start + size
    while (length > 1).any():
        half = length // 2
        first = rng.hypergeometric(marked, length - marked, half)
        later = which > first
        start += np.where(later, half, 0)
        which -= np.where(later, first, 0)
        marked = np.where(later, marked - first, first)
        length = np.where(later, length - half, half)
    return np.asarray(start + 1)
