"""How often tests reject simulated releases, counted block by block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.results._blocks import Draw
from dpinfer.results.simulation import SeededBlock, Simulation, run_blocks


@dataclass(frozen=True)
class Rule:
    """Rejects where a statistic is at least as large as a critical value.

    Parameters
    ----------
    statistic : callable
        Maps releases, shape (m, ...), to statistics, shape (m,), without NaN.
    critical : array of float, shape (a,)
        The critical value of each level.
    """

    statistic: Callable[[FloatArray], FloatArray]
    critical: FloatArray

    def count(self, releases: FloatArray) -> FloatArray:
        """Return how many releases are rejected at each level."""
        ordered = np.sort(self.statistic(releases))
        return np.asarray(ordered.size - np.searchsorted(ordered, self.critical, side="left"))


@dataclass(frozen=True)
class Study:
    """Tests that look at the same simulated releases; can be pickled, for workers.

    Parameters
    ----------
    draw : callable
        ``draw(size, rng)`` returns so many releases.
    rules : tuple of Rule
        The tests, of which each has as many levels.
    """

    draw: Draw
    rules: tuple[Rule, ...]

    def count(self, simulation: Simulation, block: int) -> FloatArray:
        """Return how many of ``reps`` releases each test rejects at each level, shape (t, a).

        Block j draws from the j-th child of the seed, so that the answer does not depend on the
        number of workers.
        """
        total = np.zeros((len(self.rules), self.rules[0].critical.size))
        for counts in run_blocks(partial(_count, self), simulation, block):
            total += counts
        return total


def _count(study: Study, block: SeededBlock) -> FloatArray:
    """Draw a block of releases and count what is rejected: the task of a worker."""
    size, seed = block
    releases = study.draw(size, np.random.default_rng(seed))
    releases.flags.writeable = False  # no test shall change what the next one looks at
    return np.array([rule.count(releases) for rule in study.rules])


def largest_replicates(draw: Draw, keep: int, simulation: Simulation, block: int) -> FloatArray:
    """Return the ``keep`` largest of the replicates, in falling order.

    As in :class:`Study`, block j draws from the j-th child of the seed. No more than a multiple of
    ``keep`` and of the block is held at a time.
    """
    held: list[FloatArray] = []
    for replicates in run_blocks(partial(_draw_largest, draw, keep), simulation, block):
        held.append(replicates)
        if sum(map(len, held)) > max(4 * keep, block):
            held = [_largest(np.concatenate(held), keep)]
    return -np.sort(-_largest(np.concatenate(held), keep))


def _draw_largest(draw: Draw, keep: int, block: SeededBlock) -> FloatArray:
    """Draw a block of replicates and return its largest: the task of a worker."""
    size, seed = block
    return _largest(draw(size, np.random.default_rng(seed)), keep)


def _largest(values: FloatArray, keep: int) -> FloatArray:
    return values if values.size <= keep else np.partition(values, -keep)[-keep:]
