"""The law of a binomial count published with noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpinfer._numerics.binomial import LOG_NEGLIGIBLE, binom_pmf, binom_radius
from dpinfer._validation import FloatArray
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.mechanisms.geometric import Geometric
from dpinfer.mechanisms.independent import IndependentNoise, integer_cells
from dpinfer.mechanisms.laplace import Laplace

Side = Literal["upper", "lower"]
Table = tuple[float, FloatArray]

_BLOCK = 1 << 18
"""Largest number of terms held at a time."""

_FAR = 1e300
"""Stands for infinity, in which there would be no difference between t and t - k."""

_LOG_SMALLEST = 745.0
"""Logarithm of 1/(the smallest positive double)."""

_TABLE_UP_TO = 512
"""Number of trials up to which the sum runs over all counts, their probabilities kept."""

_FILTER_FROM = 64
"""From this many points on, one recursion over the counts beats a sum for each point."""

_LONGEST = 1 << 22
"""Longest table of binomial probabilities, to bound memory."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyBinomial:
    """Law of T = X + e with X ~ Binomial(nobs, value) and symmetric noise e of a given law.

    Parameters
    ----------
    nobs : array of float
        Number of trials, whole numbers >= 1, shape () or (m,).
    value : array of float
        Probability of success in (0, 1), shape () or (m,).
    noise : NoiseLaw
        Law of the noise, of shape () or (m,): symmetric about 0, and P(e > x), P(e > x + 1), … is
        a log-concave sequence for each x, as for all laws here.

    Notes
    -----
    P(T >= t) = Σ_k P(X = k)·P(e >= t - k). The terms are positive, so that far tails are as
    accurate, relatively, as the tails of the noise. They are log-concave in k, so that they can be
    summed over a window around the largest: what is left out is below 2e-17 of the sum.
    """

    nobs: FloatArray
    value: FloatArray
    noise: NoiseLaw

    def upper(self, t: FloatArray, slack: FloatArray | float = 0.0) -> FloatArray:
        """P(T >= t) for ``t`` of shape (), (m,) or (..., m).

        Where the noise is whole-numbered, so is T, and a whole number within ``slack`` below a
        computed ``t`` counts as reached: rounding shall not lose an atom.
        """
        points = np.where(self._is_integer, np.ceil(t - slack), t)
        return self._tail(np.clip(points, -_FAR, _FAR), "upper")

    def lower(self, t: FloatArray, slack: FloatArray | float = 0.0) -> FloatArray:
        """P(T <= t), with the same conventions."""
        points = np.where(self._is_integer, np.floor(t + slack), t)
        return self._tail(np.clip(points, -_FAR, _FAR), "lower")

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw independent values of T, of one law, in an order that is not random.

        How many values fall on each count is one multinomial draw; only the noise is drawn value
        by value. Where there are more counts than values, the counts are drawn too.
        """
        counts, probabilities = self._allocation
        if counts.size <= size:
            x = np.repeat(counts, rng.multinomial(size, probabilities))
        else:
            x = rng.binomial(int(self.nobs), float(self.value), size).astype(np.float64)
        x += self.noise._rvs((size,), rng)
        return x

    def rows(self, count: int) -> list[NoisyBinomial]:
        """Return the laws of ``count`` rows, one by one."""
        nobs, value = np.broadcast_to(self.nobs, count), np.broadcast_to(self.value, count)
        return [
            NoisyBinomial(
                nobs=np.asarray(nobs[i]), value=np.asarray(value[i]), noise=self.noise.take(i)
            )
            for i in range(count)
        ]

    @cached_property
    def _allocation(self) -> tuple[FloatArray, FloatArray]:
        """Counts that matter, the most probable last, and their probabilities.

        The multinomial generator divides by the probability that is left, which so stays large.
        """
        mode, low, high = self._support(LOG_NEGLIGIBLE)
        shift = int(high - mode)
        counts = np.roll(_whole_numbers(low, high), shift)
        probabilities = np.roll(self._pmf_between(low, high), shift)
        return counts, probabilities / probabilities.sum()

    @cached_property
    def _is_integer(self) -> bool | NDArray[np.bool_]:
        """Whether the noise takes whole numbers only, row by row where it is of several kinds."""
        if isinstance(self.noise, IndependentNoise):
            return integer_cells(self.noise, self.noise.shape[0])
        return self.noise.is_integer

    @cached_property
    def is_one_law(self) -> bool:
        """Whether the parameters are scalars, so that one law serves all points."""
        return self.noise.shape == np.shape(self.nobs) == np.shape(self.value) == ()

    def _tail(self, t: FloatArray, side: Side) -> FloatArray:
        if not self.is_one_law:
            settings = np.broadcast_shapes(self.noise.shape, self.nobs.shape, self.value.shape)
            points = np.broadcast_to(t, np.broadcast_shapes(t.shape, settings))
            rows = points.reshape(-1, points.shape[-1])
            tail = np.stack([self._summed(row, side) for row in rows]).reshape(points.shape)
        elif isinstance(self.noise, (Laplace, Geometric)) and self._prefers_filter(t):
            tail = self._filtered(t, side, 1.0 / float(self.noise.scale))
        elif t.size == 1:
            tail = self._summed(t.reshape(1), side).reshape(t.shape)
        else:
            points, inverse = np.unique(t, return_inverse=True)
            tail = self._summed(points, side)[inverse].reshape(t.shape)
        return np.minimum(tail, 1.0)

    def _summed(self, t: FloatArray, side: Side) -> FloatArray:
        """Sum the terms for each point, block by block, points with like windows together."""
        low, high = self._whole_range(t) if self._is_short else self._window(t, side)
        table = self._table_for(low, high)
        order = np.argsort(high - low)
        tail = np.empty(t.size)
        start = 0
        while start < t.size:
            # windows are sorted by length: as many as fit with the length of the last of them
            lengths = (high - low)[order[start : start + _BLOCK]] + 1.0
            fits = np.arange(1, lengths.size + 1) * lengths <= _BLOCK
            stop = start + max(1, int(np.count_nonzero(fits)))
            chosen = order[start:stop]
            law = self._take(chosen)
            tail[chosen] = law._block(t[chosen], low[chosen], high[chosen], side, table)
            start = stop
        return tail

    def _block(
        self, t: FloatArray, low: FloatArray, high: FloatArray, side: Side, table: Table | None
    ) -> FloatArray:
        """Sum the terms for a few points; a long window in pieces, so that memory is bounded."""
        tail = np.zeros(t.size)
        length = int(np.max(high - low)) + 1
        for start in range(0, length, _BLOCK):
            k = low + np.arange(start, min(start + _BLOCK, length))[:, np.newaxis]
            weights = np.where(k <= high, self._pmf(np.minimum(k, high), table), 0.0)
            # by symmetry P(e >= x) = P(e <= -x), which counts the atom at x
            distance = k - t if side == "upper" else t - k
            tail += (weights * self.noise._cdf(distance)).sum(axis=0)
        return tail

    def _pmf(self, k: FloatArray, table: Table | None) -> FloatArray:
        """P(X = k), looked up where there is a table."""
        if table is None:
            return binom_pmf(k, self.nobs, self.value)
        first, pmf = table
        return np.asarray(pmf[(k - first).astype(np.intp)])

    def _table_for(self, low: FloatArray, high: FloatArray) -> Table | None:
        """First count and probabilities from there on, if that is less work than term by term."""
        if self._is_short:
            return self._table
        first, last = float(low.min()), float(high.max())
        worth = self.is_one_law and last - first < min(_LONGEST, float((high - low).sum()))
        return (first, self._pmf_between(first, last)) if worth else None

    def _pmf_between(self, first: float, last: float) -> FloatArray:
        """P(X = first), …, P(X = last) under one law, in pieces, so that memory is bounded."""
        pmf = np.empty(int(last - first) + 1)
        for start in range(0, pmf.size, _BLOCK):
            k = _whole_numbers(first + start, first + min(start + _BLOCK, pmf.size) - 1.0)
            pmf[start : start + _BLOCK] = binom_pmf(k, self.nobs, self.value)
        return pmf

    @cached_property
    def _is_short(self) -> bool:
        """Whether the sum runs over all counts, with a table of their probabilities."""
        return self.is_one_law and bool(self.nobs <= _TABLE_UP_TO)

    @cached_property
    def _table(self) -> Table:
        return 0.0, self._pmf_between(0.0, float(self.nobs))

    def _take(self, rows: NDArray[np.intp]) -> NoisyBinomial:
        """Return the laws of some of the points."""
        if self.is_one_law:
            return self
        return NoisyBinomial(
            nobs=self.nobs[rows] if self.nobs.ndim else self.nobs,
            value=self.value[rows] if self.value.ndim else self.value,
            noise=self.noise.take(rows),
        )

    def _whole_range(self, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.zeros(t.shape), np.full(t.shape, self.nobs)

    def _window(self, t: FloatArray, side: Side) -> tuple[FloatArray, FloatArray]:
        """First and last count whose term matters to the tail at each of the points."""
        if side == "lower":  # nobs - T is the mirrored law
            mirrored = NoisyBinomial(nobs=self.nobs, value=1.0 - self.value, noise=self.noise)
            low, high = mirrored._window(self.nobs - t, "upper")
            return self.nobs - high, self.nobs - low
        n = self.nobs
        # The noise factor grows with k, and beyond t it is between 1/2 and 1: the largest term is
        # between the mode of the binomial and t, give or take the radius.
        mode = np.minimum(np.floor((n + 1.0) * self.value), n) + np.zeros(t.shape)
        end = np.clip(np.ceil(t), mode, n)
        radius = binom_radius(mode, n, LOG_NEGLIGIBLE)
        far = end - mode > 8.0 * radius + 512.0
        if far.any():
            rows = np.flatnonzero(far)
            peak = self._take(rows)._peak(t[rows], mode[rows], end[rows])
            mode[rows] = end[rows] = peak
        low = mode - binom_radius(mode, n, LOG_NEGLIGIBLE)
        high = end + binom_radius(end, n, LOG_NEGLIGIBLE + 1.0)
        return np.maximum(low, 0.0), np.minimum(high, n)

    def _peak(self, t: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Count with the largest term of the upper tail: bisection on its logarithmic slope."""
        n, p = self.nobs, self.value
        for _ in range(int(np.log2(np.max(high - low))) + 2):
            k = np.floor(0.5 * (low + high))
            with np.errstate(divide="ignore", invalid="ignore"):
                binomial = np.log((n - k) * p) - np.log((k + 1.0) * (1.0 - p))
                noise = self.noise._logcdf(k + 1.0 - t) - self.noise._logcdf(k - t)
                falls = binomial + noise <= 0.0  # not so where the noise cannot reach (nan)
            high = np.where(falls, k, high)
            low = np.where(falls | (low >= high), low, k + 1.0)
        return high

    def _prefers_filter(self, t: FloatArray) -> bool:
        """Whether there are enough points for the recursion, and it is not too long."""
        _, low, high = self._support(_LOG_SMALLEST)
        return t.size >= _FILTER_FROM and high - low < _LONGEST

    def _support(self, log_ratio: float) -> tuple[float, float, float]:
        """Mode of the count; first and last count as probable as it by a factor e^-log_ratio."""
        mode = np.minimum(np.floor((self.nobs + 1.0) * self.value), self.nobs)
        radius = binom_radius(mode, self.nobs, log_ratio)
        low, high = np.maximum(mode - radius, 0.0), np.minimum(mode + radius, self.nobs)
        return float(mode), float(low), float(high)

    def _filtered(self, t: FloatArray, side: Side, rate: float) -> FloatArray:
        """Tails at many points at once, for noise with P(e > x + 1) = exp(-rate)·P(e > x), x >= 0.

        With m = floor(t) and f = t - m, the upper tail is P(e >= f)·A(m) + C(m) - P(e > 1-f)·B(m),
        A(m) = Σ_{k<=m} pmf(k)·exp(-(m-k)·rate), B(m) = Σ_{k>m} pmf(k)·exp(-(k-m-1)·rate) and
        C(m) = P(X > m): recursions over the counts, then one look-up for each point. What is
        subtracted is at most half of C(m).
        """
        _, low, high = self._support(_LOG_SMALLEST)
        k, pmf = _whole_numbers(low, high), self._pmf_between(low, high)
        if side == "lower":
            k, pmf, t = -k[::-1], pmf[::-1], -t
        below = np.append(0.0, _decaying_sums(pmf, rate))
        above = np.append(_decaying_sums(pmf[::-1], rate)[::-1], 0.0)
        beyond = np.append(_decaying_sums(pmf[::-1], 0.0)[::-1], 0.0)
        m = np.floor(t)
        near = np.clip(m, k[0] - 1.0, k[-1])
        place = (near - (k[0] - 1.0)).astype(np.intp)
        decay = np.exp(-np.abs(m - near) * rate)
        part = t - m
        reach = self.noise._cdf(-part) * below[place]
        miss = self.noise._sf(1.0 - part) * above[place]
        return np.asarray(reach * decay + beyond[place] - miss * decay)


def _whole_numbers(first: float, last: float) -> FloatArray:
    return np.arange(first, last + 1.0)


def _decaying_sums(x: FloatArray, rate: float) -> FloatArray:
    """y[m] = Σ_{k<=m} x[k]·exp(-(m-k)·rate), by doubling: as accurate as pairwise summation."""
    y = np.array(x)
    step = 1
    while step < y.size and (factor := np.exp(-step * rate)) > 0.0:
        y[step:] += factor * y[:-step]
        step *= 2
    return y
