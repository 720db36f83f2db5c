"""Fieller's sets with the exact law of the noise, for pairs with noise that has a density.

The ratio r is accepted when abs(y₁ - r·y₂) is at most the quantile of e₁ - r·e₂. Divided by the
standard deviations, that compares <u, y> with Q(u) for a direction u: see :mod:`._support`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpinfer._numerics.roots import find_root
from dpinfer._validation import FloatArray
from dpinfer.intervals.ratios._support import ChordSupport, SmoothSupport

GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)
SEARCH_STEPS = 60

Ends = tuple[NDArray[np.bool_], FloatArray, FloatArray]
"""Whether every direction is accepted, and otherwise the two ends."""


class Standardised:
    """Published pairs in units of their noise, and how far that noise reaches.

    Parameters
    ----------
    published : array of float, shape (n, 2)
        The pairs.
    scale : array of float, shape (n, 2)
        Standard deviations of the noise, positive.
    slack : array of float, shape (n, 2)
        How far each noise is at most from one with a density, by which it is replaced.
    support : SmoothSupport or ChordSupport
        Quantiles of weighted sums of the standardised noises.
    """

    def __init__(
        self,
        published: FloatArray,
        scale: FloatArray,
        slack: FloatArray,
        support: SmoothSupport | ChordSupport,
    ) -> None:
        self._published = published
        self._scale = scale
        self._slack = slack / scale
        self._support = support
        point = published / scale
        self._size = np.hypot(point[:, 0], point[:, 1])
        self._angle = np.arctan2(point[:, 0], point[:, 1])

    def ends(self) -> Ends:
        """Return the tangents from each point to the convex body that Q supports.

        Q is a norm, so that the directions with <u, y> > Q(u) are a convex cone: one arc.
        """
        outside, top = self._most_extreme()
        rows = np.flatnonzero(outside)
        left, right = np.zeros(self._published.shape), np.zeros(self._published.shape)
        if rows.size:
            left[rows] = self._tangent(rows, top[rows], -1.0)
            right[rows] = self._tangent(rows, np.pi - top[rows], 1.0)
        return ~outside, left, right

    def _reach(self, phi: FloatArray, rows: NDArray[np.intp]) -> FloatArray:
        """Q at angles of some rows, slack included."""
        slack = self._slack[rows]
        box = slack[:, 0] * np.abs(np.cos(phi)) + slack[:, 1] * np.abs(np.sin(phi))
        return np.asarray(self._support(phi) + box)

    def _ratio(self, turn: FloatArray, rows: NDArray[np.intp]) -> FloatArray:
        """<u, y>/Q(u) in the direction turned away from that of accepted ratios."""
        reach = self._reach(self._angle[rows] - turn, rows)
        return np.asarray(self._size[rows] * np.sin(turn) / reach)

    def _most_extreme(self) -> tuple[NDArray[np.bool_], FloatArray]:
        """Return whether <u, y> exceeds Q(u) for some u, and a turn in (0, π) where it does.

        The ratio of both is quasiconcave: golden section finds where it is largest.
        """
        every = np.arange(len(self._size))
        top = np.full(len(every), 0.5 * np.pi)
        outside = self._ratio(top, every) > 1.0
        rows = np.flatnonzero(~outside & (self._size > 0))
        low, high = np.zeros(len(rows)), np.full(len(rows), np.pi)
        for _ in range(SEARCH_STEPS):
            if not rows.size:
                break
            first, second = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
            at_first, at_second = self._ratio(first, rows), self._ratio(second, rows)
            better = at_first > at_second
            best = np.where(better, first, second)
            found = np.maximum(at_first, at_second) > 1.0
            outside[rows[found]], top[rows[found]] = True, best[found]
            low, high = np.where(better, low, first)[~found], np.where(better, second, high)[~found]
            rows = rows[~found]
        return outside, top

    def _tangent(self, rows: NDArray[np.intp], most: FloatArray, sign: float) -> FloatArray:
        """Return the tangent on one side: from where the body is touched to the point.

        An error of the angle moves the place of touch along the tangent, so that its square only
        is left in the ratio.
        """
        angle, size = self._angle[rows], self._size[rows]

        def left_over(turn: FloatArray, index: NDArray[np.intp]) -> FloatArray:
            reach = self._reach(angle[index] + sign * turn, rows[index])
            return np.asarray(reach - size[index] * np.sin(turn))

        if self._support.constant is not None and not self._slack.any():
            # Gaussian noise: the body is a disc
            turn = np.arcsin(np.minimum(self._support.constant / size, 1.0))
        else:
            low, high = find_root(left_over, np.zeros(len(rows)), most)
            turn = 0.5 * (low + high)
        phi = angle + sign * turn
        cos, sin = np.cos(phi), np.sin(phi)
        slack = self._slack[rows]
        slope = (
            self._support.slope(phi)
            - slack[:, 0] * sin * np.sign(cos)
            + slack[:, 1] * cos * np.sign(sin)
        )
        reach = self._reach(phi, rows)
        # Q·u + Q'·u' with u = (cos, -sin), mirrored on the side where <u, y> is negative
        touch = np.column_stack([reach * cos - slope * sin, -reach * sin - slope * cos])
        return np.asarray(self._published[rows] + sign * self._scale[rows] * touch)


def one_exact(published: FloatArray, reach: FloatArray) -> Ends:
    """Return the ends where one value, or both, is published as it is.

    Parameters
    ----------
    published : array of float, shape (n, 2)
        The pairs.
    reach : array of float, shape (n, 2)
        Upper quantiles of the two noises, one of which is 0.
    """
    noisy = (reach[:, 1] > 0).astype(np.intp)
    every = np.arange(len(published))
    exact = published[every, 1 - noisy]
    inside = (exact == 0) & (np.abs(published[every, noisy]) <= reach[every, noisy])
    return inside, published - reach, published + reach
