"""Markov chains on tables: batches of moves, in all chains at once, by Metropolis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray, require
from dpinfer._numerics.lattice import alike
from dpinfer.errors import ConvergenceError
from dpinfer.mechanisms.laws import DiscreteGaussian, Gaussian, Geometric, Laplace
from dpinfer.posterior._model import NO_END, TableModel, Whole
from dpinfer.posterior._moves import KINDS, MoveSource, Pool
from dpinfer.posterior._priors import CellPrior, SharedCells

_WANTED = 0.3
"""Share of moves that are to be accepted, which the widths of steps are adapted to."""

_WIDEST = 2.0**40
_POOL, _USES = 8, 32
"""Sweeps that are drawn at a time, and how often each is used before others are."""

_HEATED = 0.1
_HEAT = 0.05
"""Share of the warm-up in which the likelihood has this power, so that starts are dispersed."""

_MOST_TABLED = 1 << 22
_NARROWEST = 64


class Terms:
    """Logarithms of the likelihood of each row, by its answer."""

    def __init__(self, model: TableModel) -> None:
        self.model = model
        m = len(model.y)
        self.square, self.slope = np.zeros(m + 1), np.zeros(m + 1)
        self.centre = np.zeros(m + 1)
        self.tabled = np.full(m + 1, -1)
        plain = model.kind == "value"
        if model.bins is not None:
            plain &= model.bins[0] <= 1
        for law, rows in model.groups:
            if isinstance(law, (Gaussian, DiscreteGaussian)):
                self.square[rows] = 0.5 / np.square(np.asarray(law.sigma))
            elif isinstance(law, (Laplace, Geometric)):
                self.slope[rows] = 1.0 / np.asarray(law.scale)
            else:
                plain[rows] = False
        self.square[:-1][~plain] = 0.0
        self.slope[:-1][~plain] = 0.0
        self.centre[:-1][plain] = model.y[plain]
        self.base = np.zeros(m + 1, dtype=np.int64)
        self.width = 0
        self.values = np.empty((0, 0))
        if not plain.all():
            self._tabulate(np.flatnonzero(~plain))

    @property
    def has_tables(self) -> bool:
        """Whether some rows are not squares or absolute values."""
        return bool(len(self.values))

    def _tabulate(self, rows: NDArray[np.intp]) -> None:
        """Give rows of one law and one fact, but for a shift by whole numbers, one table."""
        model = self.model
        steps = np.ones(len(model.y)) if model.bins is None else model.bins[0]
        known = np.where(np.isneginf(model.low), model.high, model.low)[rows]
        base = np.floor(known / steps[rows]) * steps[rows]
        key = np.stack(
            [
                model.law_kinds[rows].astype(np.float64),
                steps[rows],
                np.where(np.isneginf(model.low[rows]), -np.inf, model.low[rows] - base),
                np.where(np.isposinf(model.high[rows]), np.inf, model.high[rows] - base),
            ],
            axis=1,
        )
        _, first, number = np.unique(key, axis=0, return_index=True, return_inverse=True)
        self.base[rows] = base.astype(np.int64)
        self.tabled[rows] = number.reshape(-1)
        self._alike = rows[first]
        self.reach(_NARROWEST)

    def reach(self, width: int) -> None:
        """Tabulate answers that are so far from the base of their row."""
        if width <= self.width:
            return
        width = max(2 * self.width, 1 << int(width).bit_length())
        if (2 * width + 1) * len(self._alike) > _MOST_TABLED:
            raise ConvergenceError(
                "the answers to rounded, clamped or unpublished queries range too widely to be "
                "tabulated: publish fewer of them, or give a prior that bounds the cells"
            )
        near = np.arange(-width, width + 1)[:, None]
        self.values = self.model.row_logpdf(self._alike, self.base[self._alike] + near).T.copy()
        self.width = width

    def looked_up(self, tabled: NDArray[np.intp], offset: Whole) -> FloatArray:
        """Return logarithms from tables at distances from the base, 0 of rows without one."""
        far = int(np.abs(np.where(tabled >= 0, offset, 0)).max(initial=0))
        self.reach(far)
        line = np.maximum(tabled, 0)
        place = np.where(tabled >= 0, offset, 0) + self.width
        return np.where(tabled >= 0, self.values[line, place], 0.0)


class Prepared(NamedTuple):
    """Moves of a batch, padded, with what their rows and cells need."""

    first: int  # moves of the pool
    last: int
    kind: int
    cells: NDArray[np.intp]  # (b, q), padded with n
    change: Whole
    rows: NDArray[np.intp]  # (b, p), padded with m
    effect: Whole
    low: Whole
    high: Whole | None
    square: FloatArray | None
    slope: FloatArray | None
    centre: FloatArray
    tabled: NDArray[np.intp] | None
    base: Whole
    known: NDArray[np.intp]  # (b·q,): cells as the prior numbers them


class Work:
    """A pool of sweeps, in the form in which they are run."""

    def __init__(self, problem: Problem, pool: Pool) -> None:
        self.kind, self.std = pool.kind, pool.std
        self.batches, self.sweeps = pool.batches, pool.sweeps
        self._problem = problem
        self._cells, self._rows = pool.cells, pool.rows
        self._prepared: dict[int, Prepared] = {}

    def moves(self, sweep: int) -> tuple[int, int]:
        """Return which moves are those of a sweep."""
        first, last = self.batches[self.sweeps[sweep : sweep + 2]]
        return int(first), int(last)

    def prepared(self, sweep: int) -> Iterator[Prepared]:
        """Yield the batches of a sweep."""
        for number in range(self.sweeps[sweep], self.sweeps[sweep + 1]):
            if number not in self._prepared:
                self._prepared[number] = self._prepare(*self.batches[number : number + 2].tolist())
            yield self._prepared[number]

    def _prepare(self, first: int, last: int) -> Prepared:
        terms, model = self._problem.terms, self._problem.model
        cells, change = _padded(self._cells, first, last)
        rows, effect = _padded(self._rows, first, last)
        square, slope, tabled = terms.square[rows], terms.slope[rows], terms.tabled[rows]
        low, high = self._problem.ends
        top = high[cells]
        return Prepared(
            first,
            last,
            int(self.kind[first]),
            cells,
            change,
            rows,
            effect,
            low[cells],
            top if (top < NO_END).any() else None,
            square if square.any() else None,
            slope if slope.any() else None,
            terms.centre[rows],
            tabled if (tabled >= 0).any() else None,
            terms.base[rows],
            np.minimum(cells, model.cells - 1).ravel(),
        )

    @cached_property
    def lists(self) -> tuple[NDArray[np.int64], ...]:
        """Ends, places and changes of the cells of all moves one after the other, and of rows."""
        parts = (
            part
            for held in (self._cells, self._rows)
            for part in (held.indptr, held.indices, held.data)
        )
        return tuple(np.asarray(part, dtype=np.int64) for part in parts)


def _padded(held: Any, first: int, last: int) -> tuple[NDArray[np.intp], Whole]:
    """Return lines of a sparse matrix as arrays of places and of entries, padded with 0."""
    ends = held.indptr[first : last + 1]
    size = np.diff(ends)
    inside = np.arange(size.max()) < size[:, None]
    at = np.full(inside.shape, held.shape[1], dtype=np.intp)
    change = np.zeros(inside.shape, dtype=np.int64)
    at[inside] = held.indices[ends[0] : ends[-1]]
    change[inside] = held.data[ends[0] : ends[-1]]
    return at, change


@dataclass(frozen=True, eq=False)
class Problem:
    """A posterior that is to be drawn from, and how."""

    model: TableModel
    prior: CellPrior | None  # None where it is flat
    source: MoveSource
    start: Whole  # (n,)
    plan: int  # the seed of the moves
    engine: Engine = "numpy"

    @cached_property
    def terms(self) -> Terms:
        return Terms(self.model)

    @cached_property
    def ends(self) -> tuple[Whole, Whole]:
        """Least and largest values of the cells, and of one that does not change."""
        return np.append(self.model.lower, 0), np.append(self.model.upper, NO_END)

    def works(self) -> Iterator[tuple[Work, int]]:
        """Yield sweeps for ever: the same ones in every process."""
        epoch = 0
        while True:
            rng = np.random.default_rng([self.plan, epoch])
            work = Work(self, self.source.pool(_POOL, rng, loops(self.engine).assign_batches))
            for _ in range(_USES):
                for number in rng.permutation(_POOL):
                    yield work, int(number)
            epoch += 1


class Chains:
    """The state of some chains."""

    def __init__(self, problem: Problem, seeds: Sequence[np.random.SeedSequence]) -> None:
        self.problem = problem
        self.rngs = [np.random.default_rng(seed) for seed in seeds]
        count, model = len(seeds), problem.model
        self.x = np.zeros((count, model.cells + 1), dtype=np.int64)
        self.x[:, :-1] = problem.start
        self.s = np.zeros((count, len(model.y) + 1), dtype=np.int64)
        self.s[:, :-1] = model.answers(problem.start)
        self.scale = np.zeros((count, len(KINDS)))
        self.tried = np.zeros(len(KINDS))
        self.accepted = np.zeros((count, len(KINDS)))
        self.hyper: FloatArray | None = None
        self._adapted = 0
        prior = problem.prior
        if isinstance(prior, SharedCells):
            drawn = [prior.start(self.x[:1, :-1], rng) for rng in self.rngs]
            self.hyper = np.concatenate(drawn)
        compiled = loops(problem.engine).try_moves
        self._compiled = None if compiled is None else CompiledMoves(self, compiled)

    def update_hyper(self) -> None:
        """Draw hyper-parameters given the tables."""
        prior = self.problem.prior
        if self.hyper is not None and isinstance(prior, SharedCells):
            self.hyper = prior.update(self.hyper, self.x[:, :-1], self.rngs)

    def sweep(self, work: Work, number: int, power: float = 1.0) -> None:
        """Try all moves of a sweep once."""
        first, last = work.moves(number)
        if first == last:
            return
        kind = work.kind[first:last]
        uniform = np.stack([rng.random((2, last - first)) for rng in self.rngs])
        width = np.exp(self.scale)[:, kind] * work.std[first:last]
        width = np.clip(np.rint(width), 1.0, _WIDEST)
        place = 2.0 * uniform[:, 0] - 1.0
        far = np.minimum(1.0 + np.floor(np.abs(place) * width), width)
        step = np.copysign(far, place).astype(np.int64)
        with np.errstate(divide="ignore"):
            bar = np.log(uniform[:, 1])
        self.tried += np.bincount(kind, minlength=len(KINDS))
        if self._compiled is not None:
            self._compiled(work, (first, last), step, bar, power)
            return
        for at in work.prepared(number):
            part = slice(at.first - first, at.last - first)
            self._try(at, step[:, part], bar[:, part], power)

    def _try(self, at: Prepared, step: Whole, bar: FloatArray, power: float) -> None:
        x, s = self.x, self.s
        old = x[:, at.cells]
        new = old + step[:, :, None] * at.change
        possible = new >= at.low
        if at.high is not None:
            possible &= new <= at.high
        allowed = possible.all(axis=2)
        step = step * allowed
        moved = step[:, :, None] * at.effect
        gain = self._gain(at, moved)
        if power != 1.0:
            gain *= power
        if self.problem.prior is not None:
            new = old + step[:, :, None] * at.change
            gain = gain + self._prior_gain(at, old, new)
        took = allowed & (bar < gain)
        step = step * took
        x[:, at.cells] = old + step[:, :, None] * at.change
        s[:, at.rows] += step[:, :, None] * at.effect
        self.accepted[:, at.kind] += took.sum(axis=1)

    def _gain(self, at: Prepared, moved: Whole) -> FloatArray:
        """Return by how much moves raise the log likelihood, (chains, b)."""
        answers = self.s[:, at.rows]
        off = at.centre - answers
        gain = np.zeros(moved.shape)
        if at.square is not None:
            gain += at.square * (moved * (2.0 * off - moved))
        if at.slope is not None:
            gain += at.slope * (np.abs(off) - np.abs(off - moved))
        if at.tabled is not None:
            place = answers - at.base
            both = np.stack([place, place + moved])
            before, after = self.problem.terms.looked_up(at.tabled, both)
            with np.errstate(invalid="ignore"):
                gain += np.where(moved == 0, 0.0, after - before)
        return _summed(gain)

    def _prior_gain(self, at: Prepared, old: Whole, new: Whole) -> FloatArray:
        flat = (len(old), -1)
        prior, cells, hyper = self.problem.prior, at.known, self.hyper
        assert prior is not None
        after = prior.log_cells(new.reshape(flat), cells, hyper)
        before = prior.log_cells(old.reshape(flat), cells, hyper)
        with np.errstate(invalid="ignore"):
            gain = np.where(new.reshape(flat) == old.reshape(flat), 0.0, after - before)
        return _summed(gain.reshape(old.shape))

    def adapt(self) -> None:
        """Widen or narrow the steps of each kind by the share of moves that were accepted."""
        self._adapted += 1
        used = self.tried > 0
        rate = self.accepted[:, used] / self.tried[used]
        self.scale[:, used] += (rate - _WANTED) * 3.0 / np.sqrt(self._adapted)
        np.clip(self.scale, -6.0, 6.0, out=self.scale)
        self.tried[:] = 0.0
        self.accepted[:] = 0.0


def _summed(terms: FloatArray) -> FloatArray:
    """Return sums over the last axis, from its first to its last entry, as loops sum."""
    if not terms.shape[2]:
        return np.zeros(terms.shape[:2])
    return np.asarray(np.add.accumulate(terms, axis=2)[:, :, -1])


class CompiledMoves:
    """Tries the moves of a sweep by a compiled loop, with the draws that arrays would give."""

    def __init__(self, chains: Chains, try_moves: Callable[..., int]) -> None:
        self.chains, self._try_moves = chains, try_moves
        prior, n = chains.problem.prior, chains.problem.model.cells
        self._first = self._number = np.empty(0, dtype=np.intp)
        if prior is not None:
            self._first, self._number = alike([*prior.parameters(), np.zeros(n)])
        self._far = np.zeros(2, dtype=np.int64)
        self._far[1] = 2 * chains.x.max() + 1
        self._table: FloatArray | None = None
        self._hyper: FloatArray | None = None

    def __call__(
        self, work: Work, moves: tuple[int, int], step: Whole, bar: FloatArray, power: float
    ) -> None:
        chains, problem = self.chains, self.chains.problem
        terms, at = problem.terms, 0
        while True:
            at = self._try_moves(
                at,
                moves,
                chains.x,
                chains.s,
                *work.lists,
                work.kind,
                *problem.ends,
                terms.square,
                terms.slope,
                terms.centre,
                terms.tabled,
                terms.base,
                terms.values,
                self._number,
                self._prior(),
                step,
                bar,
                power,
                chains.accepted,
                self._far,
            )
            if at == step.size:
                return
            if terms.has_tables:
                terms.reach(int(self._far[0]))

    def _prior(self) -> FloatArray:
        """Return log priors of counts, (h, k, width) for k kinds of cells, as far as is needed."""
        prior, hyper = self.chains.problem.prior, self.chains.hyper
        if prior is None:
            return np.empty((0, 0, 0))
        held = self._table
        if held is not None and hyper is self._hyper and held.shape[2] > self._far[1]:
            return held
        width = 1 << int(self._far[1]).bit_length()
        laws, lines = len(self._first), 1 if hyper is None else len(hyper)
        if lines * laws * width > _MOST_TABLED:
            raise ConvergenceError(
                f"the priors of {laws} kinds of cells reach counts of {width}, which is too much "
                "to be tabulated: take engine='numpy', which needs no tables"
            )
        counts = np.broadcast_to(np.tile(np.arange(width), laws), (lines, laws * width))
        found = prior.log_cells(counts, np.repeat(self._first, width), hyper)
        table = found.reshape(lines, laws, width)
        self._table, self._hyper = table, hyper
        return table


class Drawn(NamedTuple):
    """Draws of some chains."""

    tables: Whole  # (chains, draws, n)
    hyper: FloatArray | None  # (chains, draws, h)


class Task(NamedTuple):
    """What one worker has to do."""

    problem: Problem
    seeds: tuple[np.random.SeedSequence, ...]
    draws: int
    warmup: int
    thin: int


def run_chains(task: Task) -> Drawn:
    """Run some chains: none depends on which others are run beside it."""
    problem, draws = task.problem, task.draws
    chains = Chains(problem, task.seeds)
    works = problem.works()
    heated = int(_HEATED * task.warmup)
    for number in range(task.warmup):
        for _ in range(task.thin):
            chains.sweep(*next(works), _HEAT if number < heated else 1.0)
        chains.update_hyper()
        if number >= heated:
            chains.adapt()
    tables = np.empty((len(task.seeds), draws, problem.model.cells), dtype=np.int64)
    shape = (len(task.seeds), draws)
    hyper = None if chains.hyper is None else np.empty((*shape, chains.hyper.shape[1]))
    for number in range(draws):
        for _ in range(task.thin):
            chains.sweep(*next(works))
        chains.update_hyper()
        tables[:, number] = chains.x[:, :-1]
        if hyper is not None:
            hyper[:, number] = chains.hyper
    return Drawn(tables, hyper)


# The loops over moves, in the part of Python that Numba compiles.

Engine = Literal["numpy", "numba"]
ENGINES: tuple[Engine, ...] = ("numpy", "numba")

EXTRA = "numba"


class Loops(NamedTuple):
    """The loops of an engine."""

    assign_batches: Callable[..., None]
    try_moves: Callable[..., int] | None  # None where moves are tried by arrays


def assign_batches(first: Any, ends: Any, held: Any, latest: Any, batch: Any, most: int) -> None:
    """Give each move the first batch after those of the earlier moves that it meets.

    Moves meet in the things that they hold, which ``held`` lists. ``first`` is the first batch of
    the kind and sweep of each move, which has ``most`` of them; moves that find no place keep
    their number. ``latest`` is the batch that last touched each thing, -1 at the beginning.
    """
    for move in range(len(first)):
        found = first[move]
        for i in range(ends[move], ends[move + 1]):
            if latest[held[i]] >= found:
                found = latest[held[i]] + 1
        if found < first[move] + most:
            batch[move] = found
            for i in range(ends[move], ends[move + 1]):
                latest[held[i]] = found


def try_moves(
    at: int,
    moves: Any,
    x: Any,
    s: Any,
    ends_of_cells: Any,
    cells: Any,
    change: Any,
    ends_of_rows: Any,
    rows: Any,
    effect: Any,
    kind: Any,
    lower: Any,
    upper: Any,
    square: Any,
    slope: Any,
    centre: Any,
    tabled: Any,
    base: Any,
    values: Any,
    number: Any,
    prior: Any,
    step: Any,
    bar: Any,
    power: float,
    accepted: Any,
    far: Any,
) -> int:
    """Try moves one after the other in each chain, from the ``at``-th on, as Metropolis does.

    Returns how many were tried: fewer than there are where a table has to reach as ``far`` as is
    noted there: that of the likelihood, and that of the prior.
    """
    chains, width = len(x), values.shape[1] // 2
    while at < chains * (moves[1] - moves[0]):
        line, chain = at // chains, at % chains
        move, d = moves[0] + line, step[chain, line]
        possible = True
        for i in range(ends_of_cells[move], ends_of_cells[move + 1]):
            new = x[chain, cells[i]] + d * change[i]
            if new < lower[cells[i]] or new > upper[cells[i]]:
                possible = False
                break
            if number.size and new >= prior.shape[2]:
                far[1] = new
                return at
        at += 1
        if not possible:
            continue
        gain = 0.0
        for i in range(ends_of_rows[move], ends_of_rows[move + 1]):
            row, moved = rows[i], d * effect[i]
            answer = s[chain, row]
            off = centre[row] - answer
            found = square[row] * (moved * (2.0 * off - moved))
            found += slope[row] * (abs(off) - abs(off - moved))
            if tabled[row] >= 0:
                place = answer - base[row]
                if abs(place) > width or abs(place + moved) > width:
                    far[0] = max(abs(place), abs(place + moved))
                    return at - 1
                line_of = tabled[row]
                found += values[line_of, place + moved + width] - values[line_of, place + width]
            gain += found
        gain *= power
        if number.size:
            here = min(chain, prior.shape[0] - 1)
            more = 0.0
            for i in range(ends_of_cells[move], ends_of_cells[move + 1]):
                law, old = number[cells[i]], x[chain, cells[i]]
                more += prior[here, law, old + d * change[i]] - prior[here, law, old]
            gain += more
        if bar[chain, line] < gain:
            for i in range(ends_of_cells[move], ends_of_cells[move + 1]):
                x[chain, cells[i]] += d * change[i]
            for i in range(ends_of_rows[move], ends_of_rows[move + 1]):
                s[chain, rows[i]] += d * effect[i]
            accepted[chain, kind[move]] += 1.0
    return at


def _by_lists(first: Any, ends: Any, held: Any, latest: Any, batch: Any, most: int) -> None:
    found = batch.tolist()  # entries of lists are faster than those of arrays
    assign_batches(first.tolist(), ends.tolist(), held.tolist(), latest.tolist(), found, most)
    batch[:] = found


@lru_cache
def loops(engine: Engine) -> Loops:
    """Return the loops of an engine, compiled where it compiles."""
    if engine == "numpy":
        return Loops(_by_lists, None)
    numba = require("numba", EXTRA)
    return Loops(*(numba.njit(cache=True, nogil=True)(one) for one in (assign_batches, try_moves)))
