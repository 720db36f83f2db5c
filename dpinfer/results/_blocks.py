"""Blocks of replicates: what is drawn and counted at a time, by whichever worker.

A block draws from its own child of the seed, so that its answer depends on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpinfer._validation import Alternative, FloatArray
from dpinfer.results.monte_carlo_null import SORT_FROM, Bounds, bounds_of, count_beyond

Draw = Callable[[int, np.random.Generator], FloatArray]
"""Returns that many independent replicates of a statistic under the null hypothesis."""

_LARGEST_FREED = 1 << 20
"""Length of an array that is made and freed at the start, untouched. From then on the malloc of
Linux keeps up to twice its memory (mallopt(3), M_MMAP_THRESHOLD). Otherwise it gives the arrays of
each block back to the system, which zeroes their pages anew for the next: half of the time."""


@dataclass(frozen=True)
class Law:
    """One law under the null hypothesis, and the observed statistics to be counted against.

    Parameters
    ----------
    index : int
        Its place among the laws.
    draw : callable
        ``draw(size, rng)`` returns replicates. Workers may be processes: it has to be picklable.
    statistic : array of float
        The observed statistics.
    alternatives : tuple of {"two-sided", "larger", "smaller"}
        The alternatives to count for.
    seed : numpy.random.SeedSequence
        Block j draws from its j-th child.
    """

    index: int
    draw: Draw
    statistic: FloatArray
    alternatives: tuple[Alternative, ...]
    seed: np.random.SeedSequence

    @cached_property
    def bounds(self) -> list[Bounds]:
        """Where replicates are at least as extreme, for each alternative."""
        return [bounds_of(self.statistic, name) for name in self.alternatives]


@dataclass(frozen=True)
class Block:
    """So many replicates of a law, of which so many are kept."""

    law: Law
    number: int
    size: int
    keep: int

    @property
    def seed(self) -> np.random.SeedSequence:
        """The seed of this block."""
        return child_seed(self.law.seed, self.number)


Counted = tuple[FloatArray, FloatArray]
"""What remains of a block: counts for each alternative and statistic, and the replicates kept."""


def count_blocks(blocks: Sequence[Block]) -> list[Counted]:
    """Draw and count blocks: the task of a worker."""
    np.empty(_LARGEST_FREED)
    return [_count(block) for block in blocks]


def _count(block: Block) -> Counted:
    law = block.law
    rng = np.random.default_rng(block.seed)
    replicates = law.draw(block.size, rng)
    kept = _some(replicates, block.keep, rng)
    if ordered := law.statistic.size > SORT_FROM:
        replicates = np.sort(replicates)
    extreme = [count_beyond(replicates, bounds, ordered) for bounds in law.bounds]
    return np.array(extreme), kept


def _some(replicates: FloatArray, keep: int, rng: np.random.Generator) -> FloatArray:
    """Return a random choice of replicates: their order may not be random."""
    if replicates.size <= keep:
        return replicates
    return rng.choice(replicates, keep, replace=False) if keep else np.empty(0)


def child_seed(seed: np.random.SeedSequence, index: int) -> np.random.SeedSequence:
    """Return the child that ``seed.spawn`` would put in that place."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, index))


def block_sizes(reps: int, block: int) -> Iterator[int]:
    """Yield the number of replicates in each block."""
    for start in range(0, reps, block):
        yield min(block, reps - start)
