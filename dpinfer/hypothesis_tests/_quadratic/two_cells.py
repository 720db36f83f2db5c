"""The law of a statistic of two cells with Laplace or Gaussian noise, by quadrature.

Tried first for two such cells, whose characteristic function decays too slowly to be inverted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer._numerics.atoms import tied
from dpinfer._numerics.counts import LOG_NEGLIGIBLE, binom_pmf, binom_window
from dpinfer.hypothesis_tests._quadratic.cells import TIE
from dpinfer.hypothesis_tests._quadratic.noises import NEGLIGIBLE, NoiseParts
from dpinfer.mechanisms.law import IntegerLaw, NoiseLaw
from dpinfer.mechanisms.laws import Exact, Gaussian, Laplace

# The count in the first of two cells, the other one being the rest.


@dataclass(frozen=True)
class BinomialCount:
    """Binomial(n, p), in which p may be 0 or 1."""

    nobs: int  # number of observations
    share: float  # probability of the cell
    log_negligible: float = LOG_NEGLIGIBLE  # counts are listed down to exp(-this) of the likeliest

    @cached_property
    def ends(self) -> tuple[float, float]:
        """First and last count that is likely enough to matter."""
        nobs, share = np.asarray(float(self.nobs)), np.asarray(self.share)
        first, last = binom_window(nobs, share, self.log_negligible)
        return float(first), float(last)

    @cached_property
    def pmf(self) -> FloatArray:
        """Probabilities of the counts between the ends."""
        first, last = self.ends
        counts = np.arange(first, last + 1.0)
        if not 0.0 < self.share < 1.0:
            return np.asarray(counts == self.nobs * self.share, dtype=np.float64)
        pmf = binom_pmf(counts, np.asarray(float(self.nobs)), np.asarray(self.share))
        return np.asarray(pmf / pmf.sum())


_ERROR = 1e-12
"""Of the rule on panels as short as these, estimated."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)

_TURN = 1.0
"""Longest panel, as an angle,"""

_STEP = 4.0
"""and in units of the scales of the noises."""

_BUDGET = 5e6
"""Nodes at most for one tail: a second or so."""

_PANELS = 1 << 12
"""Panels evaluated at a time."""


@dataclass(frozen=True)
class _Panels:
    """Intervals of angles φ, each with the count to which it belongs."""

    count: FloatArray
    start: FloatArray
    width: FloatArray
    pieces: FloatArray


class TwoSmoothCells:
    """P(Q <= q) as a sum over the counts, of integrals over the noise of the first cell.

    With y - c = √(q/a)·sin φ in the first cell the other one's deviation has to be below
    √(q/a)·cos φ in size: an integrand without singularities between the kinks of the noise. It is
    integrated by Gauss's rule on panels that are short against the scales of the noise.
    """

    def __init__(
        self,
        nobs: int,
        share: FloatArray,
        centre: FloatArray,
        weight: FloatArray,
        laws: list[Laplace | Gaussian],
    ) -> None:
        self._laws = laws
        self._weight = weight
        self._scale = [float(law.scale if isinstance(law, Laplace) else law.sigma) for law in laws]
        self._reach = [float(law.isf(NEGLIGIBLE)) for law in laws]
        count = BinomialCount(nobs, float(share[0]))
        first, last = count.ends
        x = np.arange(first, last + 1.0)
        self._pmf = count.pmf
        # how far the deviations are from the noise
        self._shift = np.stack([x - centre[0], nobs - x - centre[1]])

    def upper(self, q: FloatArray) -> FloatArray:
        """P(Q >= q)."""
        return 1.0 - self.lower(q)

    def lower(self, q: FloatArray) -> FloatArray:
        """P(Q <= q)."""
        return np.asarray(np.clip(np.vectorize(self._inside, [float])(q), 0.0, 1.0))

    def error(self, q: FloatArray) -> FloatArray:
        """Bound on the absolute error; inf where the integrals take too long."""
        panels = np.vectorize(lambda x: self._panels(x).pieces.sum(), [float])(q)
        return np.where(panels * _NODES.size <= _BUDGET, _ERROR, np.inf)

    def _panels(self, q: float) -> _Panels:
        """Intervals between kinks, and the number of panels that each of them takes."""
        if q <= 0.0:
            return _Panels(*np.zeros((4, 0)))
        (r1, r2), (b1, b2) = np.sqrt(q / self._weight), self._scale
        one, two = self._shift
        edges = self._edges(r1, r2)
        start, end = edges[:-1], edges[1:]
        count, width = np.broadcast_to(np.arange(float(one.size)), start.shape), end - start
        # derivatives of both arguments, in units of the scales; the second noise matters where
        # the other deviation may be on either side of its bound
        middle = 0.5 * (start + end)
        steepest = np.maximum(np.cos(start), np.cos(end)) * r1 / b1
        turning = np.maximum(np.abs(np.sin(start)), np.abs(np.sin(end))) * r2 / b2
        open_ = np.abs(r2 * np.cos(middle) - np.abs(two)) <= self._reach[1]
        speed = np.maximum(steepest, np.where(open_, turning, 0.0))
        pieces = np.ceil(width * np.maximum(speed / _STEP, 1.0 / _TURN))
        kept = width > 0.0
        return _Panels(count[kept], start[kept], width[kept], pieces[kept])

    def _edges(self, r1: float, r2: float) -> FloatArray:
        """Angles between which the integrand is smooth, upwards; shape (edges, counts)."""
        one, two = self._shift
        far1, far2 = self._reach
        low, high = (np.arcsin(np.clip((one + s * far1) / r1, -1.0, 1.0)) for s in (-1.0, 1.0))
        # nothing where the other deviation is too large, come what may
        widest, kink, safe = (
            np.arccos(np.clip((np.abs(two) + s * far2) / r2, 0.0, 1.0)) for s in (-1.0, 0.0, 1.0)
        )
        low, high = np.maximum(low, -widest), np.minimum(high, widest)
        own = np.arcsin(np.clip(one / r1, -1.0, 1.0))
        inner = np.stack([low, -kink, -safe, np.zeros(one.size), own, safe, kink, high])
        impossible = np.abs(two) - far2 > r2
        inner = np.clip(inner, low, np.maximum(low, np.where(impossible, low, high)))
        return np.sort(inner, axis=0)

    def _inside(self, q: float) -> float:
        """P(Q <= q)."""
        panels = self._panels(q)
        total = 0.0
        number = panels.pieces.astype(np.intp)
        ends = np.cumsum(number)
        whole = int(ends[-1]) if ends.size else 0
        for begin in range(0, whole, _PANELS):
            piece = np.arange(begin, min(begin + _PANELS, whole))
            at = np.searchsorted(ends, piece, side="right")
            width = panels.width[at] / number[at]
            start = panels.start[at] + width * (piece - (ends[at] - number[at]))
            angle = start + width * 0.5 * (1.0 + _NODES[:, np.newaxis])
            count = panels.count[at].astype(np.intp)
            values = self._integrand(q, angle, count) * self._pmf[count]
            total += float(_WEIGHTS @ values @ (0.5 * width))
        return total

    def _integrand(self, q: float, angle: FloatArray, count: NDArray[np.intp]) -> FloatArray:
        """Density at an angle, of noises that leave the statistic below q."""
        r1, r2 = np.sqrt(q / self._weight)
        one, two = self._shift[:, count]
        rise = r1 * np.cos(angle)
        half = r2 * np.cos(angle)
        density = np.exp(self._laws[0]._logpdf(r1 * np.sin(angle) - one))
        between = self._laws[1]._cdf(half - two) - self._laws[1]._cdf(-half - two)
        return np.asarray(density * rise * between)


# The law of a statistic of two cells with whole-numbered noise: one sum for each value.


_TWO_WHOLE_ERROR = 1e-13
"""Of rounding, estimated."""

_FAR = 1e-3
"""Upper tails below are summed up anew from what is beyond, all of it positive."""

_SMALLEST = 1e-30
"""Tails from here on are then accurate relative to their size,"""

_BEYOND = 1e-47
"""with noise up to this probability, each side,"""

_LOG_BEYOND = 115.0
"""and counts down to exp(-115) of the likeliest."""

_LONGEST = 1 << 17
"""Values of the noise that are listed for it at most."""

_ROW = 1e4
"""Cost of one value of a cell besides its sum, in terms of the sum."""

_TWO_WHOLE_BUDGET = 1e9
"""Terms at most for one tail: a second or so."""


@dataclass(frozen=True)
class _Side:
    """One of the cells, with its count."""

    count: BinomialCount
    centre: float
    weight: float
    pmf: FloatArray

    @property
    def reach(self) -> int:
        return self.pmf.size // 2

    def values(self, q: float) -> tuple[float, float]:
        """First and last value y of the cell with a(y - c)² <= q."""
        radius = np.sqrt(q / self.weight)
        first, last = self.count.ends
        low = max(np.ceil(self.centre - radius), first - self.reach)
        return float(low), float(min(np.floor(self.centre + radius), last + self.reach))

    @property
    def range(self) -> tuple[float, float]:
        """First value, and the one after the last."""
        first, last = self.count.ends
        return first - self.reach, last + self.reach + 1.0

    def cost(self, q: float) -> float:
        """Terms of the sum over the values of this cell that are small enough."""
        low, high = self.values(q)
        return max(0.0, high - low + 1.0) * self._row

    @property
    def total_cost(self) -> float:
        """Terms of the sum over all of its values."""
        low, high = self.range
        return (high - low) * self._row

    @property
    def _row(self) -> float:
        return min(self.count.pmf.size, self.pmf.size) + _ROW


class TwoWholeCells:
    """P(Q <= q) as the sum over the values of one cell, and over its counts.

    Given the value y of one cell, the other one's has to lie in an interval; given the count, too,
    that is an interval of its noise.
    """

    def __init__(
        self,
        nobs: int,
        share: FloatArray,
        centre: FloatArray,
        weight: FloatArray,
        laws: list[NoiseLaw],
        parts: list[NoiseParts],
    ) -> None:
        self._nobs = nobs
        self._cells = list(zip(share.tolist(), centre.tolist(), weight.tolist(), strict=True))
        self._laws = laws
        self._sides = [
            _Side(BinomialCount(nobs, p), c, a, part.pmf)
            for (p, c, a), part in zip(self._cells, parts, strict=True)
        ]
        self._known: dict[float, float] = {}

    def upper(self, q: FloatArray) -> FloatArray:
        """P(Q >= q)."""
        near = 1.0 - self._each(q, -1.0)
        if self._wide is None or not np.any(near < _FAR):
            return near
        far = np.where(near < _FAR, q, -1.0)
        return np.where(near < _FAR, np.vectorize(self._outside, [float])(far), near)

    def lower(self, q: FloatArray) -> FloatArray:
        """P(Q <= q)."""
        return self._each(q, 1.0)

    def error(self, q: FloatArray) -> FloatArray:
        """Bound on the absolute error; inf where the sums are too long.

        0 where the upper tail is small and accurate relative to its size.
        """
        affordable = np.vectorize(self._cost, [float])(q) <= _TWO_WHOLE_BUDGET
        error = np.where(affordable, _TWO_WHOLE_ERROR, np.inf)
        if self._wide is None or not affordable.any():
            return error
        tail = self.upper(np.where(affordable, q, 0.0))
        far = np.where(tail < _SMALLEST, _SMALLEST, 0.0)
        return np.where(affordable & (tail < _FAR), far, error)

    def _cost(self, q: float) -> float:
        return 0.0 if q < 0.0 else min(side.cost(q) for side in self._sides)

    def _each(self, q: FloatArray, side: float) -> FloatArray:
        """P(Q <= q), the values within rounding of q included (1) or not (-1)."""
        inside = np.vectorize(self._inside, [float])(tied(q, side, TIE))
        return np.asarray(np.clip(inside, 0.0, 1.0))

    def _inside(self, q: float) -> float:
        if q < 0.0:
            return 0.0
        one, other = sorted(self._sides, key=lambda side: side.cost(q))
        low, high = one.values(q)
        values = np.arange(low, high + 1.0)
        return _summed(one, other, values, *self._between(one, other, values, q), 1.0)

    def _outside(self, q: float) -> float:
        """P(Q >= q), of which no term is left out that matters relative to it."""
        point = float(tied(np.asarray(q), -1.0, TIE))
        if self._wide is None or point < 0.0:
            return 1.0
        if q not in self._known:
            one, other = self._wide
            values = np.arange(*one.range)
            starts, ends = self._between(one, other, values, point)
            # beyond q alone, whatever the other value is
            alone = one.weight * np.square(values - one.centre) > point
            starts = np.where(alone, ends + 1.0, starts)
            self._known[q] = _summed(one, other, values, starts, ends, -1.0)
        return self._known[q]

    @cached_property
    def _wide(self) -> list[_Side] | None:
        """The cells with counts and noise far beyond what matters elsewhere, unless too long."""
        sides = []
        for (share, centre, weight), law in zip(self._cells, self._laws, strict=True):
            pmf = np.ones(1)
            if not isinstance(law, Exact):
                last = float(law.isf(_BEYOND))
                if last > _LONGEST:
                    return None
                assert isinstance(law, IntegerLaw)
                pmf = np.exp(law._logpmf(np.arange(-last, last + 1.0)))
            count = BinomialCount(self._nobs, share, _LOG_BEYOND)
            sides.append(_Side(count, centre, weight, pmf))
        sides.sort(key=lambda side: side.total_cost)
        return sides if sides[0].total_cost <= _TWO_WHOLE_BUDGET else None

    def _between(
        self, one: _Side, other: _Side, values: FloatArray, q: float
    ) -> tuple[FloatArray, FloatArray]:
        """First and last e₂ - X₁ with Q <= q, by the value of the first cell."""
        rest = np.sqrt(np.maximum(q - one.weight * np.square(values - one.centre), 0.0))
        radius = rest / np.sqrt(other.weight)
        starts = np.ceil(other.centre - radius) - self._nobs
        return starts, np.floor(other.centre + radius) - self._nobs


def _summed(
    one: _Side,
    other: _Side,
    values: FloatArray,
    starts: FloatArray,
    ends: FloatArray,
    sign: float,
) -> float:
    """Σ P(Y₁ = y, starts <= e₂ - X₁ <= ends) over the values y of a cell; -1: not between."""
    pmf, reach, first = one.count.pmf, one.reach, one.count.ends[0]
    low = np.maximum(first, values - reach)
    length = np.minimum(first + pmf.size - 1.0, values + reach) - low + 1.0
    # P(e₂ <= i - margin), with so many zeros and ones on both sides that any slice fits in
    margin = other.reach + 1 + pmf.size
    below = np.concatenate([np.zeros(pmf.size + 1), np.cumsum(other.pmf), np.ones(pmf.size)])
    above = np.concatenate(
        [np.ones(pmf.size + 1), np.cumsum(other.pmf[::-1])[-2::-1], np.zeros(pmf.size + 1)]
    )
    before, upto = (
        np.clip(bound + low, -margin, other.reach) + margin for bound in (starts - 1.0, ends)
    )
    # the noise is symmetric: its slice, too, goes upwards with the count
    slices = np.stack([length, low - first, low - values + reach, before, upto], axis=1)
    total = 0.0
    for size, count, noise, start, end in slices.astype(np.intp).tolist():
        chance = pmf[count : count + size] * one.pmf[noise : noise + size]
        ahead, behind = (
            below[start : start + size],
            (below if sign > 0.0 else above)[end : end + size],
        )
        total += float(chance @ (behind - sign * ahead))
    return total
