"""The Monte Carlo engine: replicates of a statistic under the null hypothesis, block by block.

Each block draws from its own child of the seed, so that a seed gives the same answer in whatever
order the blocks are drawn, and memory is bounded by the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from dpinfer._validation import ALTERNATIVES, RNG, FloatArray, check_flag, check_reps, check_rng
from dpinfer.results.monte_carlo_null import MonteCarloNull, count_extreme

Draw = Callable[[int, np.random.Generator], FloatArray]
"""Returns that many independent replicates of a statistic under the null hypothesis."""

BLOCK = 1 << 16
"""Replicates in a block."""

_KEPT = 1 << 16
_KEPT_IN_ALL = 1 << 22
"""Largest number of replicates kept of one law, and of all laws together."""


@dataclass(frozen=True)
class Simulation:
    """How many replicates to draw, and from what.

    Parameters
    ----------
    reps : int
        Number of replicates of each statistic, >= 1.
    rng : numpy.random.Generator
        What the seed is drawn from.
    progress : bool
        Whether to show a progress bar.
    """

    reps: int
    rng: np.random.Generator
    progress: bool = False

    @classmethod
    def checked(cls, reps: int, rng: RNG, progress: bool) -> Simulation:
        """Check the arguments of a test."""
        return cls(check_reps(reps), check_rng(rng), check_flag(progress, "progress"))

    def draw_seed(self) -> np.random.SeedSequence:
        """Draw 256 bits of seed: what the generator does later does not matter."""
        return np.random.SeedSequence(self.rng.integers(0, 1 << 32, size=8).tolist())


def simulate_null(
    draws: Sequence[Draw], statistic: FloatArray, simulation: Simulation, *, block: int = BLOCK
) -> MonteCarloNull:
    """Simulate null distributions and count their replicates against observed statistics.

    Parameters
    ----------
    draws : sequence of callable
        ``draw(size, rng)`` returns replicates: one function, the law of all statistics, or one for
        each statistic.
    statistic : array of float, shape () or (k,)
        The observed statistics.
    simulation : Simulation
        Number of replicates, and what their seed is drawn from. Block j for the i-th law draws
        from the j-th child of the i-th child of the seed.
    block : int
        Replicates in a block. Part of what determines the answer, so it may depend on the
        hypothesis but not on the machine.

    Returns
    -------
    MonteCarloNull
        The null distribution, or one for each statistic, with the counts of all replicates.
    """
    keep = max(1, min(_KEPT, _KEPT_IN_ALL // len(draws)))
    points = [statistic] if len(draws) == 1 else list(statistic.reshape(-1, 1))
    root = simulation.draw_seed()
    sizes = list(block_sizes(simulation.reps, block))
    with _progress_bar(simulation.reps * len(draws), simulation.progress) as advance:
        laws = [
            _simulate_one(draw, point, child_seed(root, index), sizes, keep, advance)
            for index, (draw, point) in enumerate(zip(draws, points, strict=True))
        ]
    samples, counts = zip(*laws, strict=True)
    extreme = counts[0] if len(draws) == 1 else np.concatenate(counts, axis=-1)
    return MonteCarloNull(
        sample=samples[0] if len(draws) == 1 else np.stack(samples),
        reps=simulation.reps,
        statistic=statistic,
        extreme=dict(zip(ALTERNATIVES, extreme, strict=True)),
    )


def _simulate_one(
    draw: Draw,
    statistic: FloatArray,
    seed: np.random.SeedSequence,
    sizes: Sequence[int],
    keep: int,
    advance: Callable[[int], object],
) -> tuple[FloatArray, FloatArray]:
    """Return the replicates of one law that are kept, and for each alternative the counts."""
    extreme = np.zeros((len(ALTERNATIVES), *statistic.shape))
    kept: list[FloatArray] = []
    for number, size in enumerate(sizes):
        rng = np.random.default_rng(child_seed(seed, number))
        replicates = draw(size, rng)
        extreme += [count_extreme(replicates, statistic, name) for name in ALTERNATIVES]
        if keep:
            kept.append(_some(replicates, keep, rng))
            keep -= kept[-1].size
        advance(size)
    return np.concatenate(kept), extreme


def child_seed(seed: np.random.SeedSequence, index: int) -> np.random.SeedSequence:
    """Return the child that ``seed.spawn`` would put in that place."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, index))


def block_sizes(reps: int, block: int) -> Iterator[int]:
    """Yield the number of replicates in each block."""
    for start in range(0, reps, block):
        yield min(block, reps - start)


def _some(replicates: FloatArray, keep: int, rng: np.random.Generator) -> FloatArray:
    """Return a random choice of replicates: their order may not be random."""
    if replicates.size <= keep:
        return replicates
    return rng.choice(replicates, keep, replace=False)


@contextmanager
def _progress_bar(total: int, shown: bool) -> Iterator[Callable[[int], object]]:
    """Yield a function that advances the progress bar, if one is wanted."""
    if not shown:
        yield lambda _: None
        return
    from tqdm import tqdm

    with tqdm(total=total, unit="replicate", unit_scale=True) as bar:
        yield bar.update
