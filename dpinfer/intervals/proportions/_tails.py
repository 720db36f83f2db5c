"""Tails of noisy counts and their slopes in the parameter, for many rows at once.

With kernel K(d) = P(e <= d), P(T >= t) = Σ_k P(X = k)·K(k - t). Where noise is narrower than the
law of X, the sum is over the reach of the noise around t only, of K(k - t) - 1{k >= t}, and
P(X >= t) is added. The lower tail is the mirror image. Both factors of a term are multiplied by
the lift of the kernel, and so are tails and slopes, by its square.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpinfer._numerics.binomial import LOG_NEGLIGIBLE
from dpinfer._validation import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.intervals.proportions._families import CountFamily, Rows
from dpinfer.intervals.proportions._kernel import Kernel
from dpinfer.mechanisms._law import ContinuousLaw
from dpinfer.mechanisms._work import MOST_WORK, work_at_a_point

_BLOCK = 1 << 16
"""Largest number of terms held at a time, so that they stay in the cache."""

_LONGEST = 1 << 12
"""Longest product of ratios, to bound its rounding error."""

_LOG_NEGLIGIBLE = 37.0
_TINY = 1e-290

_WORK_FOR_EACH = 1 << 17
"""Work that each of many rows may take, some 10 ms."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyTails:
    """Tails P(T >= t) (side 1) or P(T <= t) (side -1) of T = X + e in m rows.

    Parameters
    ----------
    family : CountFamily
        Law of X in the rows.
    kernel : Kernel
        The noise.
    t : array of float, shape (m,)
        The published counts.
    side : int
        Which tail: 1 or -1.
    probability : float
        The tail probability that is looked for.
    """

    family: CountFamily
    kernel: Kernel
    t: FloatArray
    side: int
    probability: float

    def lifted(self, probability: float) -> float:
        """Return a tail probability in the units of :meth:`at`."""
        lift = float(np.exp(self.kernel.log_lift))
        return probability * lift * lift

    @property
    def smaller(self) -> NoisyTails:
        """The other tails, with the same roots, where the probability is more than 1/2."""
        noise, mid = self.kernel.noise, self.kernel.mid
        # a sum may have atoms between the whole numbers, which only one of both tails may hold
        complements = mid or noise.is_integer or isinstance(noise, ContinuousLaw)
        if self.probability <= 0.5 or not complements:
            return self
        probability = 1.0 - self.probability
        # P(T >= t) = 1 - P(T <= t - 1) where T is whole
        shift = self.side if noise.is_integer and not mid else 0
        kernel = Kernel(noise, probability, mid=mid)
        return replace(
            self, kernel=kernel, t=self.t - shift, side=-self.side, probability=probability
        )

    def without_spread(self, count: FloatArray) -> FloatArray:
        """Tails where X is ``count`` with probability one."""
        lift = np.exp(self.kernel.log_lift)
        tails = lift * self.kernel(self.side * (count - self.t), np.arange(self.t.size))
        return np.asarray(tails)

    def at(self, theta: FloatArray, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """Tails of some rows at their parameters, and the derivatives."""
        low, high, local = self._windows(theta, rows)
        lengths = np.maximum(high - low + 1.0, 0.0)
        self._check_work(float(lengths.sum()), rows.size)
        tail, slope = self._heads(theta, rows, local)
        order = np.argsort(lengths)
        ascending = lengths[order]
        start = int(np.searchsorted(ascending, 0.5))
        while start < rows.size:
            # as many rows as fit with the length of the last of them
            some = ascending[start : start + int(_BLOCK / ascending[start]) + 1]
            fits = np.arange(1, some.size + 1) * some <= _BLOCK
            stop = start + max(1, int(np.count_nonzero(fits)))
            chosen = order[start:stop]
            add, rise = self._summed(
                theta[chosen], rows[chosen], low[chosen], high[chosen], local[chosen]
            )
            tail[chosen] += add
            slope[chosen] += rise
            start = stop
        return np.clip(tail, 0.0, self.lifted(1.0)), slope

    def _windows(self, theta: FloatArray, rows: Rows) -> tuple[FloatArray, FloatArray, FloatArray]:
        """First and last count whose term matters, and where the noise limits them."""
        family, t = self.family.take(rows), self.t[rows]
        centre = np.minimum(np.floor(family.scale * theta), family.last)
        log_ratio = _LOG_NEGLIGIBLE - float(np.log(self.probability))
        if self.kernel.log_lift:
            # relative to the largest term instead of the most probable count
            centre, log_ratio = self._peaks(centre, theta, rows), LOG_NEGLIGIBLE + 1.0
        radius = family.radius(centre, log_ratio)
        low, high = np.maximum(centre - radius, 0.0), np.minimum(centre + radius, family.last)
        if self.kernel.log_lift:
            low = self._in_range(family, theta, low, centre)
        reach = self.kernel.reach[rows] if self.kernel.reach.ndim else self.kernel.reach
        first, last = np.ceil(t - reach), np.floor(t + reach)
        local = ((first > low) | (last < high)) & family.has_head(t, theta)
        low, high = (
            np.where(local, np.maximum(low, first), low),
            np.where(local, np.minimum(high, last), high),
        )
        return low, high, local.astype(np.float64)

    def _peaks(self, mode: FloatArray, theta: FloatArray, rows: Rows) -> FloatArray:
        """Find the counts with the largest terms, between the mode and t, by bisection."""
        family, t, noise = self.family.take(rows), self.t[rows], self.kernel.noise
        noise = noise.take(rows) if noise.shape else noise
        upper = self.side > 0
        low = mode if upper else np.clip(np.floor(t), 0.0, mode)
        high = np.clip(np.ceil(t), mode, family.last) if upper else mode
        for _ in range(int(np.log2(np.max(high - low) + 1.0)) + 2):
            k = np.floor(0.5 * (low + high))
            with np.errstate(divide="ignore", invalid="ignore"):
                here, beyond = (noise._logcdf(self.side * (x - t)) for x in (k, k + 1.0))
                slope = np.log(family.ratio(k + 1.0, theta)) + beyond - here
            # where the noise cannot reach t (nan), the peak is on the side of t
            falls = slope <= 0.0 if upper else ~(slope > 0.0)
            high = np.where(falls, k, high)
            low = np.where(falls | (low >= high), low, k + 1.0)
        return high

    def _in_range(
        self, family: CountFamily, theta: FloatArray, low: FloatArray, peak: FloatArray
    ) -> FloatArray:
        """First counts in windows whose lifted probabilities do not underflow, by bisection."""

        def fails(k: FloatArray) -> NDArray[np.bool_]:
            return family.pmf(k, theta, self.kernel.log_lift) < _TINY

        if not fails(low).any():
            return low
        high = np.where(fails(low), peak, low)
        for _ in range(int(np.log2(np.max(high - low) + 1.0)) + 2):
            k = np.floor(0.5 * (low + high))
            wrong = fails(k)
            low, high = np.where(wrong, np.minimum(k + 1.0, high), low), np.where(wrong, high, k)
        return high

    def _heads(
        self, theta: FloatArray, rows: Rows, local: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """P(X >= t) or P(X <= t) in rows where the noise limits the sum, and its slope."""
        tail, slope = np.zeros((2, rows.size))
        at = np.flatnonzero(local)
        if not at.size:
            return tail, slope
        family, t = self.family.take(rows[at]), self.t[rows[at]]
        j = np.ceil(t) if self.side > 0 else np.floor(t) + 1.0
        inside = np.clip(j, 1.0, np.maximum(family.last, 1.0))
        beyond, rise = family.head(inside, theta[at], self.side)
        nothing = j > family.last if self.side > 0 else j < 1.0
        lift = self.lifted(1.0)
        tail[at] = lift * np.where(j == inside, beyond, np.where(nothing, 0.0, 1.0))
        slope[at] = lift * np.where(j == inside, rise, 0.0)
        return tail, slope

    def _summed(
        self, theta: FloatArray, rows: Rows, low: FloatArray, high: FloatArray, local: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Sum over the windows of a few rows, in pieces; the slopes too."""
        family, t = self.family.take(rows), self.t[rows]
        per_unit = family.scale / family.variance(theta)
        mean = family.scale * theta
        tail, slope = np.zeros((2, rows.size))
        length = int(np.max(high - low)) + 1
        piece = min(_LONGEST, max(1, _BLOCK // rows.size))
        for start in range(0, length, piece):
            k = low + np.arange(start, min(start + piece, length))[:, np.newaxis]
            d = self.side * (k - t)
            kernel = self.kernel(d, rows)
            kernel -= np.exp(self.kernel.log_lift) * local * (d >= 0.0)
            terms = self._pmf(family, k, high, theta)
            terms *= kernel
            tail += terms.sum(axis=0)
            terms *= k - mean
            slope += per_unit * terms.sum(axis=0)
        return tail, slope

    def _pmf(
        self, family: CountFamily, k: FloatArray, high: FloatArray, theta: FloatArray
    ) -> FloatArray:
        """P(X = k) for consecutive whole numbers k, and 0 beyond ``high``: products of ratios."""
        pmf = np.empty(k.shape)
        first = family.pmf(np.minimum(k[0], high), theta, self.kernel.log_lift)
        pmf[0] = np.where(k[0] <= high, first, 0.0)
        pmf[1:] = np.where(k[1:] <= high, family.ratio(k[1:], theta), 0.0)
        return np.multiply.accumulate(pmf, axis=0, out=pmf)

    def _check_work(self, terms: float, rows: int) -> None:
        """Refuse sums over more counts than can be gone through."""
        work = terms * work_at_a_point(self.kernel.noise)
        if work > max(MOST_WORK, _WORK_FOR_EACH * rows):
            raise InvalidParameterError(
                f"the numbers of trials or events, or the noise, must be smaller for exact "
                f"intervals: the tails of {rows} rows have sums of {terms:.3g} terms, some "
                f"{1e-7 * work:.2g} s of work. Use method={self.family.approximate!r} or 'normal', "
                "or fewer rows"
            )
