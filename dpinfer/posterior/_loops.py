"""The loops over moves, in the part of Python that Numba compiles."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from dpinfer._check import require

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
