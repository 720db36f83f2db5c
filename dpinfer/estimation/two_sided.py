"""What the two-sided test of one noisy count accepts: all parameters it does not reject.

The p-value at the mean m of the count without noise is P(abs(T - m) >= abs(t - m)) =
P(T >= t; m) + P(T <= 2m - t; m) for m < t. Where T is whole, the second tail jumps at
m_j = (t + k)/2 with k = t - j. At these points the p-value falls with j, and between them, with k
fixed, it has no maximum: the likelihood ratio of t - 1 and k grows with m. So the outermost m_j
that is accepted is found by halving, and the end is there, or at a root in the next gap. Not all
within the ends need be accepted: just inside of an m_j the p-value may fall below the level once
more. The ends are those of the hull.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer._numerics.acceptance import accepted, outermost
from dpinfer._numerics.roots import find_root
from dpinfer.estimation.published import SMALLEST_VALUE
from dpinfer.mechanisms._noisy_count import NoisyBinomial, NoisyCount, NoisyPoisson
from dpinfer.mechanisms.independent import integer_cells
from dpinfer.mechanisms.law import NoiseLaw

Rows = NDArray[np.intp]

GAPS = "what is not rejected may have gaps: the interval is the smallest that holds all of it"

_LAST = 1.0 - 2.0**-53
"""Largest proportion below 1."""

_SCANNED = 40.0
"""How many standard deviations of a count beyond the range of its mean are gone through."""

_NARROW = 2.0
"""Continuous noise of a smaller standard deviation leaves waves in the p-value."""

_FINE = np.arange(1.0, 129.0) / 64.0
"""How far beyond an end waves are looked for, in counts."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyCounts:
    """Published counts, shape (m,), of as many trials each, or of Poisson events (None)."""

    count: FloatArray
    nobs: FloatArray | None
    noise: NoiseLaw  # of shape () or (m,)

    def law(self, mean: FloatArray, rows: Rows) -> NoisyCount:
        """Law of some of the counts at other means; of one count a law that keeps its table."""
        chosen: Any = rows if rows.size != 1 else rows[0]
        noise = self.noise.take(chosen) if self.noise.shape else self.noise
        mean = mean if rows.size != 1 else mean.reshape(())
        if self.nobs is None:
            return NoisyPoisson(rate=np.maximum(mean, SMALLEST_VALUE), noise=noise)
        n = np.asarray(self.nobs[chosen])
        value = np.clip(mean / n, SMALLEST_VALUE, _LAST)
        return NoisyBinomial(nobs=n, value=value, noise=noise)

    @property
    def most(self) -> FloatArray:
        """Largest mean."""
        return np.full(self.count.size, np.inf) if self.nobs is None else self.nobs

    @property
    def spread(self) -> FloatArray:
        """Estimated standard deviation of the published counts."""
        mean = np.clip(self.count, 0.5, self.most - 0.5)
        share = 0.0 if self.nobs is None else np.clip(mean / self.nobs, 0.0, 1.0)
        return np.asarray(np.sqrt(mean * (1.0 - share) + self.noise.variance))

    def two_sided(self, alpha: float) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
        """Return the ends of the hull of accepted means, inf and -inf if none, and if it has gaps.

        Waves of continuous noise count as gaps without a closer look.
        """
        size = self.count.size
        whole = np.broadcast_to(integer_cells(self.noise, size), size)
        lower, upper, gaps = np.empty(size), np.empty(size), np.zeros(size, dtype=bool)
        within = (self.count >= 0.0) & (self.count <= self.most)
        for side in (1.0, -1.0):
            end = lower if side > 0 else upper
            if (rows := np.flatnonzero(whole & within)).size:
                end[rows], gap = _Steps(self, alpha, side, rows).ends()
                gaps[rows] |= gap
            if (rows := np.flatnonzero(~whole)).size:
                end[rows] = _Waves(self, alpha, side, rows).ends()
                gaps[rows] = np.broadcast_to(np.asarray(self.noise.std), size)[rows] < _NARROW
            if (rows := np.flatnonzero(whole & ~within & ((self.count < 0.0) == (side < 0)))).size:
                search = _Steps(self, alpha, side, rows)
                lower[rows], upper[rows], gaps[rows] = search.from_outside()
        empty = ~(lower <= upper)
        return np.where(empty, np.inf, lower), np.where(empty, -np.inf, upper), gaps & ~empty


@dataclass(frozen=True, eq=False)
class _Steps:
    """Search for one end (side 1: the lower one) where published counts are whole."""

    counts: NoisyCounts
    alpha: float
    side: float
    rows: Rows

    def ends(self) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return the ends of counts within the range of the mean, and if a gap is next to them."""
        t, most = self.counts.count[self.rows], self.counts.most[self.rows]
        here = np.arange(t.size)
        last = 2.0 * (t if self.side > 0 else most - t)
        inner, rejected = np.zeros(t.size), np.zeros(t.size, dtype=bool)
        outer = np.minimum(np.ceil(4.0 * self.counts.spread[self.rows]), last)
        open_ = np.flatnonzero(last > 0.0)
        while open_.size:
            held = self._at(outer[open_], open_) >= 0.0
            rejected[open_] = ~held
            inner[open_] = np.where(held, outer[open_], inner[open_])
            open_ = open_[held & (outer[open_] < last[open_])]
            outer[open_] = np.minimum(2.0 * outer[open_] + 1.0, last[open_])
        rows = np.flatnonzero(rejected)
        if rows.size:
            low, _ = find_root(
                lambda j, index: self._at(np.floor(j), rows[index]),
                inner[rows],
                outer[rows],
                atol=0.5,
                rtol=0.0,
            )
            inner[rows] = np.floor(low)
        gap = np.zeros(t.size, dtype=bool)
        away = np.flatnonzero(inner > 0.0)
        gap[away] = self._just_beyond(inner[away] - 1.0, away) < 0.0
        end = self._point(inner, here)
        if rows.size:
            end[rows] = self._in_gap(inner[rows], inner[rows] + 1.0, rows)
        return end, gap

    def from_outside(self) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
        """Return both ends, and gaps, of counts beyond the range: the p-value rises first there.

        All points up to where the noise alone explains nothing are looked at.
        """
        found = [self._scanned(row) for row in range(self.rows.size)]
        near, far = (np.array([row[i] for row in found]) for i in (0, 1))
        gap = np.array([row[2] for row in found])
        return (far, near, gap) if self.side > 0 else (near, far, gap)

    def _scanned(self, row: int) -> tuple[float, float, bool]:
        chosen = self.rows[row]
        t, most = self.counts.count[chosen], self.counts.most[chosen]
        first = -2.0 * (most - t if self.side > 0 else t)
        reach = np.ceil(
            _SCANNED * np.broadcast_to(self.counts.spread, self.counts.count.shape)[chosen]
        )
        j = first + np.arange(np.minimum(reach, 2.0 * most) + 1.0)
        rows = np.full(j.size, row)
        accepted = self._at(j, rows) >= 0.0
        if not accepted.any():
            return -self.side * np.inf, self.side * np.inf, False
        start, stop = np.argmax(accepted), j.size - 1 - np.argmax(accepted[::-1])
        one = np.array([row])
        far = self._point(j[[stop]], one)[0]
        if j[stop] < first + 2.0 * most:
            far = self._in_gap(j[[stop]], j[[stop]] + 1.0, one)[0]
        near = self._point(j[[start]], one)[0]
        if start > 0:
            near = self._in_gap(j[[start]], j[[start]], one, towards=-1.0)[0]
        inside = self._just_beyond(j[start:stop], rows[start:stop]) < 0.0
        return near, far, bool(inside.any() | ~accepted[start:stop].all())

    def _in_gap(
        self, j: FloatArray, index: FloatArray, rows: Rows, towards: float = 1.0
    ) -> FloatArray:
        """Last accepted mean from point j on, where values up to ``index`` beyond it count."""
        other = self._mirrored(index, rows)
        near, far = self._point(j, rows), self._point(j + towards, rows)
        end = near.copy()
        open_ = np.flatnonzero(self._excess(near, other, rows) >= 0.0)
        if open_.size:
            pair = find_root(
                lambda m, at: self._excess(m, other[open_[at]], rows[open_[at]]),
                near[open_],
                far[open_],
                rtol=1e-13,
            )
            end[open_] = np.where(near[open_] < far[open_], *pair)
        return end

    def _point(self, j: FloatArray, rows: Rows) -> FloatArray:
        return np.asarray(self.counts.count[self.rows[rows]] - self.side * 0.5 * j)

    def _mirrored(self, j: FloatArray, rows: Rows) -> FloatArray:
        return np.asarray(self.counts.count[self.rows[rows]] - self.side * j)

    def _at(self, j: FloatArray, rows: Rows) -> FloatArray:
        return self._excess(self._point(j, rows), self._mirrored(j, rows), rows)

    def _just_beyond(self, j: FloatArray, rows: Rows) -> FloatArray:
        return self._excess(self._point(j, rows), self._mirrored(j + 1.0, rows), rows)

    def _excess(self, mean: FloatArray, other: FloatArray, rows: Rows) -> FloatArray:
        chosen = self.rows[rows]
        t = self.counts.count[chosen]
        low, high = np.minimum(t, other), np.maximum(t, other)
        tail = self.counts.law(mean, chosen).outside(low, high)
        return np.where(low == high, 1.0, np.minimum(tail, 1.0)) - self.alpha


@dataclass(frozen=True, eq=False)
class _Waves:
    """Search for one end where published counts are continuous."""

    counts: NoisyCounts
    alpha: float
    side: float
    rows: Rows

    def ends(self) -> FloatArray:
        """Return the ends of the hull."""
        t, spread = self.counts.count[self.rows], self.counts.spread[self.rows]
        most = np.minimum(self.counts.most[self.rows], np.abs(t) + 60.0 * (spread + 30.0))
        zero = np.zeros(t.size)
        inside = accepted(self._excess, t, zero, most, spread)
        held = np.flatnonzero(~np.isnan(inside))
        end = np.full(t.size, self.side * np.inf)
        if not held.size:
            return end

        def excess(m: FloatArray, index: Rows) -> FloatArray:
            return self._excess(m, held[index])

        limit = zero[held] if self.side > 0 else most[held]
        end[held] = outermost(excess, inside[held], limit, spread[held], rtol=1e-12)
        noise = np.broadcast_to(np.asarray(self.counts.noise.std), self.counts.count.shape)
        narrow = held[noise[self.rows[held]] < _NARROW]
        if narrow.size:
            points = end[narrow] - self.side * _FINE[:, np.newaxis]
            points = np.clip(points, zero[narrow], most[narrow])
            rows = np.broadcast_to(narrow, points.shape)
            ahead = self._excess(points.ravel(), rows.ravel()).reshape(points.shape) >= 0.0
            last = len(ahead) - 1 - np.argmax(ahead[::-1], axis=0)
            again = np.flatnonzero(ahead.any(axis=0))
            if again.size:
                which = narrow[again]
                end[which] = outermost(
                    lambda m, index: self._excess(m, which[index]),
                    points[last[again], again],
                    zero[which] if self.side > 0 else most[which],
                    np.full(which.size, _FINE[0]),
                    rtol=1e-12,
                    is_monotone=True,
                )
        return end

    def _excess(self, mean: FloatArray, rows: Rows) -> FloatArray:
        chosen = self.rows[rows]
        t, law = self.counts.count[chosen], self.counts.law(mean, chosen)
        mirrored = (mean - t) + mean
        tail = law.outside(np.minimum(t, mirrored), np.maximum(t, mirrored))
        return np.where(t == mirrored, 1.0, np.minimum(tail, 1.0)) - self.alpha
