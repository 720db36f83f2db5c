"""The Monte Carlo engine: replicates of a statistic under the null hypothesis, block by block.

Each block draws from its own child of the seed, so that a seed gives the same answer on however
many workers and in whatever order the blocks are drawn, and memory is bounded by the block.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from dpinfer._validation import (
    ALTERNATIVES,
    RNG,
    Alternative,
    FloatArray,
    check_flag,
    check_integer,
    check_option,
    check_reps,
    check_rng,
    check_scalar,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.results._blocks import Block, Draw, Law, block_sizes, child_seed, count_blocks
from dpinfer.results._tally import Tally, exceedances_for
from dpinfer.results._workers import count_workers, run_tasks
from dpinfer.results.monte_carlo_null import MonteCarloNull

__all__ = [
    "BLOCK",
    "Draw",
    "Simulation",
    "block_sizes",
    "child_seed",
    "run_blocks",
    "simulate_null",
]

SeededBlock = tuple[int, np.random.SeedSequence]
"""How many replicates to draw, and the seed to draw them from."""

Answer = TypeVar("Answer")

BLOCK = 1 << 16
"""Replicates in a block."""

_KEPT = 1 << 16
_KEPT_IN_ALL = 1 << 22
"""Largest number of replicates kept of one law, and of all laws together."""

_BLOCKS_IN_TASK = 16
_TASKS_PER_WORKER = 4
"""Blocks handed to a worker at a time, at most, and tasks into which the rest is then to divide."""

_MOST_JOBS = 1024


@dataclass(frozen=True)
class Simulation:
    """How many replicates to draw, from what, how precisely and where.

    Parameters
    ----------
    reps : int
        Number of replicates of each statistic, >= 1; the largest number with ``precision``.
    rng : numpy.random.Generator
        What the seed is drawn from.
    progress : bool
        Whether to show a progress bar.
    n_jobs : int or None
        Number of workers as joblib takes it: -1 is one for each core, None what
        ``joblib.parallel_config`` says.
    precision : float, optional
        Relative standard error, in (0, 1], of the p-value at which to stop drawing.
    """

    reps: int
    rng: np.random.Generator
    progress: bool = False
    n_jobs: int | None = 1
    precision: float | None = None

    @classmethod
    def checked(
        cls,
        reps: int,
        rng: RNG,
        progress: bool = False,
        n_jobs: int | None = 1,
        precision: float | None = None,
    ) -> Simulation:
        """Check the arguments of a test."""
        return cls(
            check_reps(reps),
            check_rng(rng),
            check_flag(progress, "progress"),
            None if n_jobs is None else checked_jobs(n_jobs),
            None if precision is None else check_scalar(precision, "precision", gt=0, le=1),
        )

    def draw_seed(self) -> np.random.SeedSequence:
        """Draw 256 bits of seed: what the generator does later does not matter."""
        return np.random.SeedSequence(self.rng.integers(0, 1 << 32, size=8).tolist())


def run_blocks(
    work: Callable[[SeededBlock], Answer], simulation: Simulation, block: int
) -> Iterator[Answer]:
    """Yield what ``work`` makes of each block of replicates, in the order of their numbers.

    Parameters
    ----------
    work : callable
        ``work((size, seed))`` draws so many replicates. With workers that are processes it has to
        be picklable.
    simulation : Simulation
        Number of replicates, what their seed is drawn from, and workers. Block j draws from the
        j-th child of the seed, so that no answer depends on the number of workers.
    block : int
        Replicates in a block, which is part of what determines the answers.

    Yields
    ------
    object
        The answer for each block.
    """
    root, reps = simulation.draw_seed(), simulation.reps
    sizes = list(block_sizes(reps, block))
    tasks = ((size, child_seed(root, number)) for number, size in enumerate(sizes))
    with progress_bar(reps, simulation.progress) as advance:
        answers = run_tasks(work, tasks, simulation.n_jobs, lambda task: reps / task[0])
        for size, answer in zip(sizes, answers, strict=True):
            yield answer
            advance(size)


def simulate_null(
    draws: Sequence[Draw],
    statistic: FloatArray,
    simulation: Simulation,
    *,
    alternative: Alternative = "two-sided",
    block: int = BLOCK,
) -> MonteCarloNull:
    """Simulate null distributions and count their replicates against observed statistics.

    Parameters
    ----------
    draws : sequence of callable
        ``draw(size, rng)`` returns replicates: one function, the law of all statistics, or one for
        each statistic. With workers that are processes they have to be picklable.
    statistic : array of float, shape () or (k,)
        The observed statistics.
    simulation : Simulation
        Number of replicates, what their seed is drawn from, workers, and precision. Block j for
        the i-th law draws from the j-th child of the i-th child of the seed.
    alternative : {"two-sided", "larger", "smaller"}
        The alternative tested: with ``precision``, it is its p-values that have to be precise.
    block : int
        Replicates in a block. Part of what determines the answer, so it may depend on the
        hypothesis but not on the machine.

    Returns
    -------
    MonteCarloNull
        The null distribution, or one for each statistic. Without ``precision`` it holds the counts
        of all replicates for every alternative. With it, it holds the counts for ``alternative``
        up to the replicate at which each of them stopped, and no counts for the others, whose
        p-values then come from the sample that is kept.
    """
    points = [statistic] if len(draws) == 1 else list(statistic.reshape(-1, 1))
    needed, alternatives = np.inf, ALTERNATIVES
    if simulation.precision is not None:
        needed = exceedances_for(simulation.precision)
        alternatives = (check_option(alternative, "alternative", ALTERNATIVES),)
    root = simulation.draw_seed()
    tallies = [
        Tally(Law(index, draw, point, alternatives, child_seed(root, index)), needed)
        for index, (draw, point) in enumerate(zip(draws, points, strict=True))
    ]
    _fill(tallies, simulation, block)
    return _null(tallies, statistic, simulation)


def _fill(tallies: Sequence[Tally], simulation: Simulation, block: int) -> None:
    """Draw the blocks of all laws, and count them in the order of their numbers."""
    tasks = _tasks(tallies, simulation, block)
    under_way: deque[list[Block]] = deque()

    def taken() -> Iterator[list[Block]]:
        for task in tasks:
            under_way.append(task)
            yield task

    total = simulation.reps * len(tallies)

    def remaining(task: list[Block]) -> float:
        # with a precision to reach the end may come at any time
        return total / sum(part.size for part in task) if simulation.precision is None else 0.0

    with progress_bar(total, simulation.progress) as advance:
        for answers in run_tasks(count_blocks, taken(), simulation.n_jobs, remaining):
            for drawn, counted in zip(under_way.popleft(), answers, strict=True):
                tally = tallies[drawn.law.index]
                if not tally.is_over:  # otherwise drawn ahead, before that was known
                    tally.add(drawn, counted)
                    advance(drawn.size)


def _tasks(tallies: Sequence[Tally], simulation: Simulation, block: int) -> Iterator[list[Block]]:
    """Yield blocks in order, several at a time, which no answer depends on.

    They are few at first, as the end may come early, and few at the end, so that all workers end
    together.
    """
    keep = max(1, min(_KEPT, _KEPT_IN_ALL // len(tallies)))
    workers = count_workers(simulation.n_jobs)
    blocks = -(-simulation.reps // block)
    task: list[Block] = []
    given = 0
    for tally in tallies:
        for number, size in enumerate(block_sizes(simulation.reps, block)):
            if tally.is_over:
                break
            task.append(Block(tally.law, number, size, min(size, max(keep - number * block, 0))))
            given += 1
            left = (len(tallies) - tally.law.index) * blocks - number
            share = min(given, left) // (_TASKS_PER_WORKER * workers)
            if workers == 1 or len(task) >= min(share, _BLOCKS_IN_TASK):
                yield task
                task = []
    if task:
        yield task


def _null(
    tallies: Sequence[Tally], statistic: FloatArray, simulation: Simulation
) -> MonteCarloNull:
    """Put the counts of all laws together."""
    alternatives = tallies[0].law.alternatives
    common = min(len(tally.kept) for tally in tallies)  # laws may have stopped at other blocks
    samples = [np.concatenate(tally.kept[:common]) for tally in tallies]
    extreme = [tally.extreme.reshape(len(alternatives), -1) for tally in tallies]
    counts = np.concatenate(extreme, axis=1).reshape(-1, *statistic.shape)
    return MonteCarloNull(
        sample=samples[0] if len(samples) == 1 else np.stack(samples),
        reps=np.concatenate([np.ravel(t.replicates) for t in tallies]).reshape(statistic.shape),
        statistic=statistic,
        extreme=dict(zip(alternatives, counts, strict=True)),
        stopped=np.concatenate([np.ravel(t.stopped) for t in tallies]).reshape(statistic.shape),
    )


def checked_jobs(n_jobs: object) -> int:
    """Return a number of workers, which may be counted down from the number of cores."""
    number = check_integer(n_jobs, "n_jobs", ge=-_MOST_JOBS, le=_MOST_JOBS)
    if number == 0:
        raise InvalidParameterError(
            "n_jobs must be >= 1, or -1 for one worker for each core, or None, got 0"
        )
    return number


@contextmanager
def progress_bar(
    total: int, shown: bool, unit: str = "replicate"
) -> Iterator[Callable[[int], object]]:
    """Yield a function that advances the progress bar, if one is wanted."""
    if not shown:
        yield lambda _: None
        return
    from tqdm import tqdm

    with tqdm(total=total, unit=unit, unit_scale=True) as bar:
        yield bar.update
