"""The Monte Carlo engine: replicates of a statistic under the null hypothesis, block by block.

Each block draws from its own child of the seed, so that a seed gives the same answer on however
many workers and in whatever order the blocks are drawn, and memory is bounded by the block.
"""

from __future__ import annotations

import math
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from time import perf_counter
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import (
    ALTERNATIVES,
    MAX_REPS,
    RNG,
    Alternative,
    FloatArray,
    check_flag,
    check_integer,
    check_option,
    check_reps,
    check_rng,
    check_scalar,
    require,
    show,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.results.null import SORT_FROM, Bounds, MonteCarloNull, bounds_of, count_beyond

# Blocks of replicates: what is drawn and counted at a time, by whichever worker.


Draw = Callable[[int, np.random.Generator], FloatArray]
"""Returns that many independent replicates of a statistic under the null hypothesis."""

_LARGEST_FREED = 1 << 20
"""Length of an array that is made and freed at the start, untouched. From then on the malloc of
Linux keeps up to twice its memory (mallopt(3), M_MMAP_THRESHOLD). Otherwise it gives the arrays of
each block back to the system, which zeroes their pages anew for the next: half of the time."""


@dataclass(frozen=True)
class Law:
    """One law under the null hypothesis, and the observed statistics to be counted against.

    Workers may be processes: ``draw(size, rng)`` has to be picklable.
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


_PLACE = (1 << 32) - 1
"""Child of a block's seed that draws the places of replicates: not one that a draw may spawn."""


def exceedances_for(precision: float) -> int:
    """Return the number h of exceedances at which h/R has this relative standard error."""
    inverse = min(1.0 / precision, 1e9)
    return math.ceil(inverse * inverse * (1.0 - 1e-12))  # 1/0.1² is 100, not 101


class Tally:
    """How many replicates of a law are at least as extreme as each observed statistic.

    The count of a statistic ends at ``needed`` exceedances (infinite: at all replicates) for the
    first alternative of the law. ``extreme``: the counts, a row for each alternative;
    ``replicates``: among how many; ``stopped``: which ended early; ``kept``: a sample by block.
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
    first half is hypergeometric. 1 <= which <= marked <= size.
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


Task = TypeVar("Task")

_EXTRA = "distributed"

_LONG = 3.0
"""Seconds of work for which processes are worth their start: they do not wait for each other."""

_TELLING = 0.2
"""A first task that takes so many seconds tells how long all take; a shorter one warms up."""


def count_workers(n_jobs: int | None) -> int:
    """Return how many workers there are, as joblib counts them."""
    if n_jobs == 1:
        return 1
    return int(require("joblib", _EXTRA).effective_n_jobs(n_jobs))


def run_tasks(
    function: Callable[[Task], Answer],
    tasks: Iterable[Task],
    n_jobs: int | None,
    remaining: Callable[[Task], float],
    each: float = 0.0,
) -> Iterator[Answer]:
    """Yield the answer to each task, in the order of the tasks.

    Tasks are taken one by one, so that they may depend on earlier answers: with one worker on
    all of them, with several on all but those that are under way. Workers may be processes:
    function and tasks have to be picklable. ``remaining(task)`` is how many times the work of a
    task is left to do. One task at least is worked on here first, to see how long it takes, unless
    that is known: ``each`` seconds.
    """
    if n_jobs == 1:
        yield from map(function, tasks)
        return
    workers = _workers(n_jobs, "threads")
    rest = iter(tasks)
    seconds = each
    for task, last in zip(rest, (False, True), strict=False):
        if each > max(_TELLING, 0.0):
            rest = chain((task,), rest)
            break
        begun = perf_counter()
        answer = function(task)
        seconds = perf_counter() - begun
        yield answer
        if last or seconds > _TELLING:
            break
    else:
        return
    if seconds * remaining(task) > _LONG and _can_be_sent((function, task)):
        workers = _workers(n_jobs, "processes")
    delayed = require("joblib", _EXTRA).delayed(function)
    yield from workers(delayed(task) for task in rest)


def _workers(n_jobs: int | None, prefer: Literal["threads", "processes"]) -> Any:
    """Return workers of that kind, or of the kind that the user has chosen."""
    try:
        return require("joblib", _EXTRA).Parallel(
            n_jobs=n_jobs, prefer=prefer, batch_size=1, return_as="generator"
        )
    except ValueError as error:
        raise InvalidParameterError(
            f"n_jobs = {show(n_jobs)} needs a joblib backend that returns answers one by one, such "
            f"as 'threading', 'loky' or 'dask': {error}"
        ) from error


def _can_be_sent(task: object) -> bool:
    """Whether a task can be sent to another process."""
    try:
        pickle.dumps(task)
    except (pickle.PicklingError, TypeError, AttributeError):
        return False
    return True


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
    """How many replicates of each statistic to draw, from what, how precisely and where.

    ``reps``: the largest number where there is a ``precision``, the relative standard error, in
    (0, 1], of the p-value at which to stop; ``rng``: None is the system; ``n_jobs``: as joblib
    takes it, -1 for one worker a core, None for what ``joblib.parallel_config`` says.
    """

    reps: int
    rng: np.random.Generator | None
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
        alone = type(n_jobs) is int and n_jobs == 1
        return cls(
            reps if type(reps) is int and 0 < reps <= MAX_REPS else check_reps(reps),
            None if rng is None else check_rng(rng),
            progress if progress is False else check_flag(progress, "progress"),
            n_jobs if alone or n_jobs is None else checked_jobs(n_jobs),
            None if precision is None else check_scalar(precision, "precision", gt=0, le=1),
        )

    def twice(self, method: str) -> tuple[Simulation, Simulation]:
        """Return a simulation for a test, and one from the same seed for its intervals."""
        if method != "monte-carlo":  # draws nothing
            return self, self
        rng = check_rng(self.rng)
        again = replace(self, rng=deepcopy(rng), n_jobs=1, progress=False)
        return replace(self, rng=rng), again

    def draw_seed(self) -> np.random.SeedSequence:
        """Draw 256 bits of seed: what the generator does later does not matter."""
        drawn = check_rng(self.rng).integers(0, 1 << 32, size=8)
        return np.random.SeedSequence(drawn.tolist())


def run_blocks(
    work: Callable[[SeededBlock], Answer], simulation: Simulation, block: int
) -> Iterator[Answer]:
    """Yield what ``work((size, seed))`` makes of each block of replicates, in their order.

    Block j draws from the j-th child of the seed, so that no answer depends on the number of
    workers, which may be processes.
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

    ``draws`` are one function, the law of all statistics, or one for each: ``draw(size, rng)``.
    Block j for the i-th law draws from the j-th child of the i-th child of the seed. Without
    ``precision`` all replicates are counted for every alternative. With it, they are counted for
    ``alternative`` up to the replicate at which each count stopped, and the p-values of the others
    come from the sample that is kept.
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


def largest_replicates(draw: Draw, keep: int, simulation: Simulation, block: int) -> FloatArray:
    """Return the ``keep`` largest of the replicates, in falling order.

    Block j draws from the j-th child of the seed. No more than a multiple of
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
