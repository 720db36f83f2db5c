"""Quantiles of whole-numbered weighted sums of two whole-numbered noises, in all directions.

Q(p, q), the smallest x with P(p·e₁ + q·e₂ > x) <= tail, is a whole number for whole p and q, and
linear between neighbours among the directions at which its atom changes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.mechanisms import NoiseLaw

BLOCK = 1 << 19
"""Numbers held at once."""

NEGLIGIBLE = 1e-13
"""Probability beyond which atoms are not listed, relative to the tail probability."""

TOLERANCE = 1e-4
"""Deviation from a straight line, relative to Q, that is not looked into further."""

STRAIGHT = 3
"""A piece is straight once Q is on the line at this many generations of directions within it."""

HEIGHT = 3.5
HEIGHT_RANGE = (16.0, 250.0)
"""All directions up to so many quantiles in height, within this range, are looked at."""

HEIGHT_TAIL = 0.025
"""The quantiles are those at this tail probability, or at a smaller one that is asked for."""


class Level:
    """Q at whole directions."""

    def __init__(self, first: NoiseLaw, second: NoiseLaw, tail: float) -> None:
        self.reach = np.array([float(law.isf(NEGLIGIBLE * tail)) + 1.0 for law in (first, second)])
        k = np.arange(-self.reach[0], self.reach[0] + 1.0)
        self._tail_of_first = np.asarray(first.sf(k))
        self._j = np.arange(-self.reach[1], self.reach[1] + 1.0)
        # differences of tails on the side of zero where they are small
        self._pmf = second.sf(np.abs(self._j) - 1.0) - second.sf(np.abs(self._j))
        # rounding must not count an atom as beyond the level that is on it
        self._limit = min(tail * (1.0 + 1e-12), 0.5)
        self.on_axes = np.array([float(first.isf(self._limit)), float(second.isf(self._limit))])
        widest = max(float(law.isf(min(tail, HEIGHT_TAIL))) for law in (first, second))
        self.height = float(np.clip(HEIGHT * widest, *HEIGHT_RANGE))

    def _exceeds(self, p: FloatArray, q: FloatArray, x: FloatArray) -> NDArray[np.bool_]:
        """Whether P(p·e₁ + q·e₂ > x) is above the level, p > 0."""
        out = np.empty(x.shape, dtype=bool)
        rows = max(1, BLOCK // len(self._j))
        for start in range(0, len(x), rows):
            part = slice(start, start + rows)
            k = np.floor((x[part, None] - q[part, None] * self._j) / p[part, None])
            at = np.clip(k + self.reach[0], 0, 2 * self.reach[0]).astype(np.intp)
            out[part] = self._tail_of_first[at] @ self._pmf > self._limit
        return out

    def __call__(self, p: FloatArray, q: FloatArray, guess: FloatArray) -> FloatArray:
        """Smallest whole x that is not exceeded too often, near to a guess."""
        low, high = guess - 1.0, guess.copy()
        step = np.ones(guess.shape)
        wrong = np.flatnonzero(self._exceeds(p, q, high))
        while wrong.size:
            low[wrong] = high[wrong]
            high[wrong] += step[wrong]
            step[wrong] *= 2.0
            wrong = wrong[self._exceeds(p[wrong], q[wrong], high[wrong])]
        step = np.ones(guess.shape)
        wrong = np.flatnonzero(~self._exceeds(p, q, low))
        while wrong.size:
            high[wrong] = low[wrong]
            low[wrong] -= step[wrong]
            step[wrong] *= 2.0
            wrong = wrong[~self._exceeds(p[wrong], q[wrong], low[wrong])]
        while (open_ := np.flatnonzero(high - low > 1.0)).size:
            middle = np.floor(0.5 * (low[open_] + high[open_]))
            above = self._exceeds(p[open_], q[open_], middle)
            low[open_] = np.where(above, middle, low[open_])
            high[open_] = np.where(above, high[open_], middle)
        return high


Needed = Callable[[FloatArray, FloatArray], NDArray[np.bool_]]
"""Whether Q has to be known between pairs of neighbouring directions, shape (n, 2) each."""


def corners(level: Level, needed: Needed | None = None) -> tuple[FloatArray, FloatArray]:
    """Directions of one quarter, by angle, and Q there: finer until Q is straight between them.

    Neighbours have determinant 1, so every whole direction between them is below their mediant in
    the tree, and Q is whole at all of them: it is on the line or off it by a whole number. Between
    neighbours where Q is not needed no directions are looked at.
    """
    ends = np.array([[1.0, 0.0], [0.0, 1.0]])
    directions, values = [ends], [level.on_axes]
    left, right = ends[:1], ends[1:]
    at_left, at_right = level.on_axes[:1], level.on_axes[1:]
    straight = np.zeros(1, dtype=int)
    while len(left):
        middle = left + right
        line = at_left + at_right
        value = level(middle[:, 0], middle[:, 1], line)
        off = np.abs(value - line)
        straight = np.where(off == 0, straight + 1, 0)
        unresolved = (off > 0) & (off <= TOLERANCE * line)
        value = np.where(unresolved, np.maximum(value, line) + 1.0, value)
        directions.append(middle)
        values.append(value)
        low = middle.max(axis=1) <= level.height
        more = (low | (straight < STRAIGHT)) & ~unresolved
        left, right = _interleave(left[more], middle[more]), _interleave(middle[more], right[more])
        at_left = _interleave(at_left[more], value[more])
        at_right = _interleave(value[more], at_right[more])
        straight = np.repeat(straight[more], 2)
        if needed is not None and len(left):
            kept = needed(left, right)
            left, right, at_left, at_right = left[kept], right[kept], at_left[kept], at_right[kept]
            straight = straight[kept]
    every, support = np.concatenate(directions), np.concatenate(values)
    order = np.argsort(np.arctan2(every[:, 1], every[:, 0]))
    return _without_straight(every[order], support[order])


def _without_straight(directions: FloatArray, support: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Leave out the directions at which Q is straight: there two neighbouring atoms are equal."""
    p, q = directions.T
    across = p[:-1] * q[1:] - q[:-1] * p[1:]
    i = (support[:-1] * q[1:] - q[:-1] * support[1:]) / across
    j = (p[:-1] * support[1:] - support[:-1] * p[1:]) / across
    kept = np.ones(len(support), dtype=bool)
    kept[1:-1] = (i[1:] != i[:-1]) | (j[1:] != j[:-1])
    return directions[kept], support[kept]


def _interleave(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the entries of two arrays by turns."""
    return np.stack([first, second], axis=1).reshape(2 * len(first), *first.shape[1:])
