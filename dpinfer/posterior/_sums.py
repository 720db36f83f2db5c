"""Weights of whole numbers in windows: convolved pair by pair, and sums drawn apart again.

All terms are positive and are added up directly, so that small weights keep their relative
accuracy, which a Fourier transform would lose. What a window leaves out is bounded all along.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer._numerics.lattice import batches
from dpinfer.posterior._model import Whole

Places = NDArray[np.intp]

_ENTRIES = 1 << 17
"""Weights that are worked on at a time: 1 MB, which stays in the cache."""

_NARROW = 24
"""Up to this width of the narrower of two windows many rows are convolved at once."""


@dataclass(frozen=True, eq=False)
class Windows:
    """Weights of consecutive whole numbers for each of n rows, those of a row adding up to 1.

    ``first``: the first number of each; ``width``: how many; ``start``: where they begin in
    ``flat``; ``log_total``: the logarithm of what they were divided by; ``left_out``: a bound on
    all weight outside of the window, in units of that within.
    """

    first: Whole
    width: Places
    start: Places
    flat: FloatArray
    log_total: FloatArray
    left_out: FloatArray

    def __len__(self) -> int:
        return int(self.first.size)

    def take(self, rows: Places) -> Windows:
        """Return some rows, over the same weights."""
        return Windows(
            self.first[rows],
            self.width[rows],
            self.start[rows],
            self.flat,
            self.log_total[rows],
            self.left_out[rows],
        )

    def padded(self, before: int = 0, after: int = 0) -> FloatArray:
        """Return the weights as a table (n, before + widest + after) with zeros around them."""
        widest = int(self.width.max())
        column = np.arange(widest)
        table = np.zeros((len(self), before + widest + after))
        inside = column < self.width[:, None]
        place = np.minimum(self.start[:, None] + column, self.flat.size - 1)
        table[:, before : before + widest] = np.where(inside, self.flat[place], 0.0)
        return table

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return the means and variances of the rows."""
        mean, variance = np.empty(len(self)), np.empty(len(self))
        for rows in batches(self.width.astype(np.float64), _ENTRIES):
            mean[rows], variance[rows] = table_moments(self.take(rows).padded())
        return self.first + mean, variance

    def draw(self, draws: int, rng: np.random.Generator) -> Whole:
        """Draw from each row, shape (n, draws)."""
        out = np.empty((len(self), draws), dtype=np.int64)
        for row, (start, width) in enumerate(zip(self.start, self.width, strict=True)):
            cumulative = np.cumsum(self.flat[start : start + width])
            point = rng.random(draws) * cumulative[-1]
            out[row] = np.minimum(np.searchsorted(cumulative, point, side="right"), width - 1)
        return out + self.first[:, None]


def table_moments(table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of the column number under each row, whose weights add up to 1."""
    column = np.arange(table.shape[1], dtype=np.float64)
    mean = table @ column
    # about a point near the middle of the row: little is lost to cancellation
    near = np.rint(mean)
    square = np.einsum("ij,ij->i", table, np.square(column - near[:, None]))
    return mean, np.maximum(square - np.square(mean - near), 0.0)


class Made:
    """Windows in the making: rows come in any order."""

    def __init__(self, size: int) -> None:
        self._first = np.zeros(size, dtype=np.int64)
        self._width = np.zeros(size, dtype=np.intp)
        self._start = np.zeros(size, dtype=np.intp)
        self._log_total, self._left_out = np.empty(size), np.empty(size)
        self._flat: list[FloatArray] = []
        self._stop = 0

    def put(
        self,
        rows: Places,
        first: Whole,
        weights: FloatArray,
        log_unit: FloatArray,
        outside: FloatArray,
        cut: float,
    ) -> None:
        """Put rows (k,) of weights (k, w) in units of e^``log_unit``, ``outside`` being left out.

        From either end weights are dropped that are together at most ``cut`` of the row.
        """
        low, high = np.cumsum(weights, axis=1), np.cumsum(weights[:, ::-1], axis=1)
        total = low[:, -1]
        lost = ~(total > 0.0)
        left = np.count_nonzero(low <= cut * total[:, None], axis=1)
        right = np.count_nonzero(high <= cut * total[:, None], axis=1)
        left[lost] = right[lost] = 0
        every = np.arange(len(rows))
        gone = np.where(left > 0, low[every, left - 1], 0.0)
        gone += np.where(right > 0, high[every, right - 1], 0.0)
        stop = weights.shape[1] - right
        column = np.arange(weights.shape[1])
        inside = (column >= left[:, None]) & (column < stop[:, None])
        kept = np.where(inside, weights, 0.0).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = weights / kept[:, None]
            self._log_total[rows] = log_unit + np.log(kept)
            self._left_out[rows] = np.where(lost, np.inf, (outside + gone) / kept)
        share[lost] = 0.0
        self._add(rows, first + left, stop - left, share[inside])

    def put_as(self, rows: Places, windows: Windows) -> None:
        """Put rows as they are."""
        self._log_total[rows], self._left_out[rows] = windows.log_total, windows.left_out
        inside = np.arange(int(windows.width.max())) < windows.width[:, None]
        self._add(rows, windows.first, windows.width, windows.padded()[inside])

    def _add(self, rows: Places, first: Whole, width: Places, flat: FloatArray) -> None:
        self._first[rows], self._width[rows] = first, width
        self._start[rows] = self._stop + np.cumsum(width) - width
        self._flat.append(flat)
        self._stop += flat.size

    def windows(self) -> Windows:
        """Return the rows, all of which were put."""
        flat = self._flat[0] if len(self._flat) == 1 else np.concatenate(self._flat)
        return Windows(self._first, self._width, self._start, flat, self._log_total, self._left_out)


def convolve(one: FloatArray, other: FloatArray) -> FloatArray:
    """Convolve each row of a table (k, a) with that of another (k, b): (k, a + b - 1)."""
    if one.shape[1] > other.shape[1]:
        one, other = other, one
    short, wide = one.shape[1], other.shape[1]
    out = np.zeros((len(one), short + wide - 1))
    if short > _NARROW:
        for row, left, right in zip(out, one, other, strict=True):
            row[:] = np.convolve(right, left)
        return out
    step = max(1, (_ENTRIES >> 3) // wide)
    product = np.empty((min(step, len(one)), wide))
    for begin in range(0, len(one), step):
        rows = slice(begin, begin + step)
        right, sums = other[rows], out[rows]
        part = product[: len(right)]
        for shift in range(short):
            np.multiply(right, one[rows, shift, None], out=part)
            sums[:, shift : shift + wide] += part
    return out


def split(left: Windows, right: Windows, total: Whole, rng: np.random.Generator) -> Whole:
    """Draw the left one of two independent numbers given their sums, of shape (n, draws)."""
    out = np.empty_like(total)
    narrow = left.width <= right.width
    chances = rng.random(total.shape)
    for own, other, rows, is_left in (
        (left, right, np.flatnonzero(narrow), True),
        (right, left, np.flatnonzero(~narrow), False),
    ):
        for some in _by_widths(own, other, rows, total.shape[1]):
            drawn = _part(own.take(some), other.take(some), total[some], chances[some])
            out[some] = drawn if is_left else total[some] - drawn
    return out


def _by_widths(one: Windows, other: Windows, rows: Places, draws: int) -> Iterator[Places]:
    """Yield rows whose windows are of like widths, by the table of what is drawn from."""
    size = np.maximum(one.width[rows] * draws, other.width[rows]).astype(np.float64)
    for some in batches(size, _ENTRIES):
        yield rows[some]


def _part(one: Windows, other: Windows, total: Whole, chance: FloatArray) -> Whole:
    """Draw the first of two numbers given their sums, by summing up over its window."""
    own = one.padded()[:, ::-1]
    width = own.shape[1]
    around = other.padded(width - 1, width - 1)
    # entry j of a row is for the number first + width - 1 - j
    begin = total - one.first[:, None] - other.first[:, None]
    begin += np.arange(len(one))[:, None] * around.shape[1]
    views = sliding_window_view(around.reshape(-1), width)
    place = np.empty(total.shape, dtype=np.intp)
    step = max(1, 4 * _ENTRIES // (width * len(one)))
    for start in range(0, total.shape[1], step):
        some = slice(start, start + step)
        weights = views[begin[:, some]]
        weights *= own[:, None, :]
        np.cumsum(weights, axis=2, out=weights)
        point = chance[:, some] * weights[:, :, -1]
        place[:, some] = np.count_nonzero(weights <= point[:, :, None], axis=2)
    found: Whole = one.first[:, None] + (width - 1 - np.minimum(place, width - 1))
    return found


# Sums of families: neighbours are added in pairs, round by round, until one sum is left of each.


@dataclass(frozen=True, eq=False)
class Round:
    """One round: which of the rows are added to the next one, and which remain as they are."""

    windows: Windows
    left: Places
    pair: Places  # the place of each sum in the next round
    single: Places
    same: Places  # and of each that remains


def add_up(
    windows: Windows, counts: Places, cut: float, most_work: float
) -> tuple[Windows, list[Round]] | None:
    """Add up the rows of each family, of which there are ``counts`` one after the other.

    Returns the sums, a row a family, and the rounds; None where it takes more than so many
    products.
    """
    rounds: list[Round] = []
    while (counts > 1).any():
        place = np.arange(len(windows)) - np.repeat(np.cumsum(counts) - counts, counts)
        even = place % 2 == 0
        after = np.append(place[1:] > 0, False)  # the next one is of the same family
        target = np.cumsum(even) - 1
        left, single = np.flatnonzero(even & after), np.flatnonzero(even & ~after)
        rounds.append(Round(windows, left, target[left], single, target[single]))
        work = float(windows.width[left].astype(np.float64) @ windows.width[left + 1])
        most_work -= work
        if most_work < 0:
            return None
        windows, counts = _paired(rounds[-1], int(target[-1]) + 1, cut), (counts + 1) // 2
    return windows, rounds


def _paired(this: Round, size: int, cut: float) -> Windows:
    made = Made(size)
    one, other = this.windows.take(this.left), this.windows.take(this.left + 1)
    widths = (one.width + other.width).astype(np.float64)
    for some in batches(widths, _ENTRIES):
        a, b = one.take(some), other.take(some)
        outside = a.left_out + b.left_out + a.left_out * b.left_out
        table = convolve(a.padded(), b.padded())
        scale = a.log_total + b.log_total
        made.put(this.pair[some], a.first + b.first, table, scale, outside, cut)
    for some in batches(this.windows.width[this.single].astype(np.float64), _ENTRIES):
        made.put_as(this.same[some], this.windows.take(this.single[some]))
    return made.windows()


def draw_apart(rounds: list[Round], total: Whole, rng: np.random.Generator) -> Whole:
    """Draw the members of each family given its sums, shape (families, draws)."""
    for this in reversed(rounds):
        members = np.empty((len(this.windows), total.shape[1]), dtype=np.int64)
        members[this.single] = total[this.same]
        one, other = this.windows.take(this.left), this.windows.take(this.left + 1)
        members[this.left] = split(one, other, total[this.pair], rng)
        members[this.left + 1] = total[this.pair] - members[this.left]
        total = members
    return total
