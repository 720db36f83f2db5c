"""Any weighted sum: Fourier series of its distribution function, with a rigorous error bound."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpinfer._numerics.roots import find_root
from dpinfer._numerics.saddle import SaddleGrid
from dpinfer._numerics.sawtooth import SawtoothSeries
from dpinfer._validation import FloatArray
from dpinfer.mechanisms._sums.decay import left_out
from dpinfer.mechanisms._sums.route import Route
from dpinfer.mechanisms._sums.terms import Terms

MAX_DEGREE = 1 << 20
SHORT = 1 << 14
LOG_LOSS = 36.0
"""The mass exp(-36) = 2e-16 beyond each end of the period is left out."""

GOAL = 2e-11
WORTHWHILE = 1e-8
"""The series is cut off where that leaves out less; otherwise a bracket is computed."""

DROPPED = 1e-9
"""Where a bracket is needed, values of the characteristic function below this are dropped."""

SHARE = 0.05
"""The least important terms of the series are dropped, up to this share of the error bound."""


class FourierSum(Route):
    """A sum of noises of any kind.

    Where the characteristic function is known to decay, the series is cut off where it no longer
    matters. Otherwise (whole-numbered noises without a common lattice) probabilities are the
    middle of a rigorous bracket, ``error_bound`` is its largest half-width, and quantiles are
    taken at its conservative end. Tails below the error bound are given by the smaller of the
    bound and Chernoff's.
    """

    name = "Fourier series"

    def __init__(self, terms: Terms) -> None:
        self._unit = terms.std
        self.supremum = terms.supremum
        self._terms = terms.scaled(1.0 / self._unit)
        self._grid = SaddleGrid(self._terms.cgf, self._terms.abscissa, 1.0)
        self._reach = self._grid.tilted_range(0.0, LOG_LOSS)[1]
        period = 2.0 * self._reach
        degree, cut_off = _degree(self._terms, period)
        self._truncated = cut_off < WORTHWHILE
        n = np.arange(1.0, degree + 1.0)
        values = self._terms.cf(2.0 * np.pi * n / period, 0.0 if self._truncated else DROPPED)
        gap = cut_off
        if not self._truncated:
            gap = SawtoothSeries(n, values, degree, period, damped=True).widest_gap()
        kept, dropped = _weightiest(values, n, SHARE * gap)
        self._series = SawtoothSeries(
            n[kept], values[kept], degree, period, damped=not self._truncated
        )
        rounding = 4.0 * np.exp(-LOG_LOSS) + 1e-15 * np.sqrt(len(kept))
        self.error_bound = float(gap + 6.0 * DROPPED * (not self._truncated) + dropped + rounding)

    def upper(self, x: FloatArray, closed: bool) -> FloatArray:
        """Log P(S > x) at finite x >= 0, the middle of the bracket."""
        return self._estimate(x / self._unit)[0]

    def upper_isf(self, q: FloatArray, strict: bool) -> FloatArray:
        """Find x with P(S > x) <= q for certain, as small as the bracket allows."""
        bound = self._grid.chernoff(q)

        def excess(x: FloatArray, index: NDArray[np.intp]) -> FloatArray:
            logtail, gap = self._estimate(x)
            # at Chernoff's bound the tail is at most q
            return np.where(x < bound[index], np.exp(logtail) + gap - q[index], -1.0)

        high = find_root(excess, np.full(q.shape, -1e-9), bound, atol=1e-14)[1]
        return np.minimum(high * self._unit, self.supremum)

    def _estimate(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log P(S > x) and the half-width of the bracket, x in standard deviations."""
        tail, gap = self._series.upper(np.minimum(x, self._reach))
        if self._truncated:
            gap = np.full(x.shape, self.error_bound)
        small = (tail < self.error_bound) | (x > self._reach)
        bound = np.minimum(np.log(self.error_bound), self._grid.log_chernoff(np.maximum(x, 0.0)))
        logtail = np.where(small, bound, np.log(np.clip(tail, self.error_bound, 0.5 + gap)))
        return logtail, np.where(small, 0.0, gap)


def short_series(terms: Terms) -> Route | None:
    """Take the series where few terms are accurate."""
    unit = terms.scaled(1.0 / terms.std)
    reach = SaddleGrid(unit.cgf, unit.abscissa, 1.0).tilted_range(0.0, LOG_LOSS)[1]
    degree, cut_off = _degree(unit, 2.0 * reach)
    return FourierSum(terms) if cut_off <= GOAL and degree <= SHORT else None


def _degree(terms: Terms, period: float) -> tuple[int, float]:
    """Choose the degree of the series, and bound what it leaves out."""
    degrees = np.unique(np.round(np.logspace(1.0, np.log10(MAX_DEGREE), 60)))
    rest = left_out(terms, 2.0 * np.pi / period * degrees)
    enough = np.flatnonzero(rest <= GOAL)
    chosen = int(enough[0]) if enough.size else -1
    return int(degrees[chosen]), float(rest[chosen])


def _weightiest(
    values: FloatArray, n: FloatArray, allowance: float
) -> tuple[NDArray[np.intp], float]:
    """Terms of the series that are kept, and a bound on what the others would add."""
    found = np.flatnonzero(values)
    # a term adds at most 1/π of this to the sum, and this to the bracket
    weight = np.abs(values[found]) / n[found]
    order = np.argsort(weight)
    total = np.cumsum(weight[order])
    few = int(np.searchsorted(total, allowance))
    return np.sort(found[order[few:]]), 1.4 * float(total[few - 1]) if few else 0.0
