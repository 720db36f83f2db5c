"""Probabilities of consecutive counts, column by column, and what is read off them.

Columns come first in memory: an operation on a column is one on neighbouring numbers of many rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray

Point = Literal["pmf", "cdf", "sf"]
"""What is read off at a count."""

_ROUNDING = 1e-12

_WIDE = 64
"""With so many columns for each row, the rows are sorted one by one."""


@dataclass(frozen=True)
class Window:
    """Posterior probabilities of the counts from ``first`` on, for each of n rows.

    Parameters
    ----------
    first : array, shape (n,)
        The count of the first column.
    mass : array, shape (w, n)
        The probabilities; each row, a column in memory, sums to 1.
    log_total : callable
        Returns the logarithm of the sum of prior times likelihood, shape (n,).
    summit : int, optional
        The column to which all rows are known to rise, and from which they fall.
    """

    first: FloatArray
    mass: FloatArray
    log_total: Callable[[], FloatArray]
    summit: int | None = None

    @cached_property
    def peak(self) -> NDArray[np.intp]:
        """Column of the most probable count."""
        if self.summit is not None:
            return np.full(self.first.size, self.summit)
        return np.asarray(self.mass.argmax(axis=0))

    @cached_property
    def below(self) -> FloatArray:
        """Probability of all columns up to each."""
        return running(np.add, self.mass)

    @cached_property
    def above(self) -> FloatArray:
        """Probability of each column and all after it, summed from the far end."""
        return running(np.add, self.mass[::-1])[::-1]

    def moments(self) -> FloatArray:
        """Mean, standard deviation and mode, one a line."""
        columns = np.arange(len(self.mass), dtype=np.float64)
        centre = int(np.median(self.peak)) if self.summit is None else self.summit
        offset = (columns - centre) @ self.mass
        square = np.square(columns - centre) @ self.mass - np.square(offset)
        mean = self.first + centre + offset
        std = np.sqrt(np.maximum(square, 0.0))
        return np.stack([mean, std, self.first + self.peak])

    def quantiles(self, q: FloatArray) -> FloatArray:
        """Smallest count with cdf >= q, shape (len(q), n); small tails are summed as tails."""
        out = np.empty((q.size, self.first.size))
        last = len(self.mass) - 1
        for line, level in zip(out, q, strict=True):
            if level <= 0.5:
                line[:] = np.minimum(np.count_nonzero(self.below < level, axis=0), last)
            else:
                beyond = np.count_nonzero(self.above <= 1.0 - level, axis=0)
                line[:] = np.maximum(last - beyond, 0)
        return out + self.first

    def equal_tailed(self, alpha: float) -> FloatArray:
        """Return ends with at most alpha/2 beyond either, and the probability between them."""
        low = np.minimum(np.count_nonzero(self.below <= 0.5 * alpha, axis=0), len(self.mass) - 1)
        high = len(self.mass) - 1 - np.count_nonzero(self.above <= 0.5 * alpha, axis=0)
        return self._ends(low, np.maximum(high, low))

    def shortest(self, alpha: float) -> FloatArray:
        """Return the ends of the shortest run that holds 1 - alpha, and its probability."""
        wide = len(self.mass) > _WIDE * self.first.size
        grow = self._grow_by_order if wide else self._grow_from_peak
        low, high, held = grow(1.0 - alpha)
        several = np.flatnonzero(~self._single_peaked)
        if several.size:
            # a run that grew may have come to a stop between counts without probability
            enough = np.where(held < 1.0 - alpha, len(self.mass), high - low + 1)[several]
            found = _shortest_runs(self.below[:, several], alpha, enough)
            low[several], high[several] = found
        return self._ends(low, high)

    def at(self, k: FloatArray, kind: Point) -> FloatArray:
        """Return pmf, cdf or sf at counts of shape (m, n)."""
        column = np.floor(k) - self.first
        if kind == "pmf":
            return np.where(k == np.floor(k), self._look_up(self.mass, column), 0.0)
        below, above = self._look_up(self.below, column), self._look_up(self.above, column + 1.0)
        above = np.where(column < 0, 1.0, above)
        below = np.where(column >= len(self.mass), 1.0, below)
        # the smaller of the two is a sum without rounding of 1
        if kind == "cdf":
            return np.where(below < above, below, 1.0 - above)
        return np.where(above < below, above, 1.0 - below)

    @cached_property
    def _single_peaked(self) -> NDArray[np.bool_]:
        """Whether the probabilities of a row rise to their peak and fall from it."""
        if self.summit is not None:
            return np.ones(self.first.size, dtype=bool)
        before = np.arange(len(self.mass) - 1)[:, None] < self.peak
        change = np.diff(self.mass, axis=0)
        return np.asarray(~np.where(before, change < 0, change > 0).any(axis=0))

    def _look_up(self, table: FloatArray, column: NDArray[Any]) -> FloatArray:
        place = np.clip(column, 0, len(table) - 1).astype(np.intp)
        inside = (column >= 0) & (column < len(table))
        return np.where(inside, np.take_along_axis(table, place, axis=0), 0.0)

    def _ends(self, low: NDArray[np.intp], high: NDArray[np.intp]) -> FloatArray:
        below = self._look_up(self.below, low[None] - 1)[0]
        inside = self._look_up(self.below, high[None])[0] - below
        return np.stack([self.first + low, self.first + high, np.minimum(inside, 1.0)])

    def _grow_from_peak(
        self, level: float
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], FloatArray]:
        """Take in the more probable neighbour until the level is reached, or both have none."""
        size = self.first.size
        padded = np.zeros((len(self.mass) + 2, size))
        padded[1:-1] = self.mass
        flat = padded.ravel()
        rows = np.arange(size)
        low, high = self.peak + 1, self.peak + 1
        held = flat[low * size + rows]
        open_ = np.flatnonzero(held < level)
        while open_.size:
            left = flat[(low[open_] - 1) * size + open_]
            right = flat[(high[open_] + 1) * size + open_]
            downwards = left >= right
            low[open_] -= downwards
            high[open_] += ~downwards
            held[open_] += np.maximum(left, right)
            # where both neighbours are 0 the window holds no more, but for rounding
            low[open_] += downwards & (left == 0)
            open_ = open_[(held[open_] < level) & (np.maximum(left, right) > 0)]
        return low - 1, high - 1, held

    def _grow_by_order(self, level: float) -> tuple[NDArray[np.intp], NDArray[np.intp], FloatArray]:
        """Do the same for a few wide rows, by sorting those that fall from their peaks."""
        low, high = self.peak.copy(), self.peak.copy()
        held = np.zeros(self.first.size)
        for row in np.flatnonzero(self._single_peaked):
            mass, peak = self.mass[:, row], low[row]
            beside = np.concatenate([mass[:peak][::-1], mass[peak + 1 :]])
            # of equal neighbours the lower one is taken first
            order = np.argsort(-beside, kind="stable")
            sums = np.cumsum(np.concatenate([[mass[peak]], beside[order]]))
            taken = min(int(np.searchsorted(sums, level)), int(np.count_nonzero(beside)))
            downwards = np.count_nonzero(order[:taken] < peak)
            low[row], high[row] = peak - downwards, peak + taken - downwards
            held[row] = sums[taken]
        return low, high, held


def _shortest_runs(
    below: FloatArray, alpha: float, enough: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Bisect for the length at which some run holds 1 - alpha; return the heaviest such run."""
    last = len(below)
    # a run cannot start where more than alpha is below it
    starts = 1 + int(np.count_nonzero(below <= alpha + _ROUNDING, axis=0).max())
    start = np.arange(min(starts, last))[:, None]
    before = np.concatenate([np.zeros((1, below.shape[1])), below[: len(start) - 1]])

    def gain(length: NDArray[np.intp]) -> FloatArray:
        ends = np.minimum(start + length, last) - 1
        return np.asarray(np.take_along_axis(below, ends, axis=0) - before)

    short = np.zeros_like(enough)
    while (enough - short > 1).any():
        middle = np.maximum((short + enough) // 2, 1)
        holds = gain(middle).max(axis=0) >= 1.0 - alpha
        enough, short = np.where(holds, middle, enough), np.where(holds, short, middle)
    low = gain(enough).argmax(axis=0)
    return low, np.minimum(low + enough, last) - 1


def running(combine: np.ufunc, matrix: FloatArray) -> FloatArray:
    """Accumulate down the columns-first axis: column by column, or along each of few rows."""
    width, rows = matrix.shape
    if width > rows:
        return np.ascontiguousarray(combine.accumulate(np.ascontiguousarray(matrix.T), axis=1).T)
    out = np.empty_like(matrix, order="C")
    out[0] = matrix[0]
    for column in range(1, width):
        combine(out[column - 1], matrix[column], out=out[column])
    return out
