"""Any weighted sum: Fourier series of its distribution function, with a rigorous error bound."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpinfer._numerics.roots import find_root
from dpinfer._numerics.saddle import SaddleGrid
from dpinfer._numerics.sawtooth import SawtoothSeries
from dpinfer._validation import FloatArray
from dpinfer.mechanisms._sums.decay import left_out
from dpinfer.mechanisms._sums.nodes import Nodes, NodeSearch, weightiest
from dpinfer.mechanisms._sums.route import Route
from dpinfer.mechanisms._sums.terms import Terms

MAX_DEGREE = 1 << 44
LONG = 1 << 20
"""Largest degree of a series that is cut off."""

SHORT = 1 << 14
LOG_LOSS = 36.0
"""The mass exp(-36) = 2e-16 beyond each end of the period is left out."""

GOAL = 2e-11
WORTHWHILE = 1e-8
"""The series is cut off where that leaves out less; otherwise a bracket is computed."""

NARROW = 1e-12
"""A bracket of at most this half-width is not made narrower."""

FIRST_DEGREE = 1 << 13
"""For a bracket; then twice as many as long as that is cheap."""

BUDGET = 1 << 20
LARGE_BUDGET = 1 << 22
"""Factors that may be computed for the sake of the next degree, the latter up to ``LONG``."""

MOST = 1 << 17
"""Nodes that a series for a bracket may gain at a time."""

NEGLIGIBLE = 1e-15
"""Values of the characteristic function up to this are dropped."""

COARSE = 1e-4
"""Where that is too costly, values up to this share of the half-width are."""

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
        if self._truncated:
            n, values = NodeSearch(self._terms, period, NEGLIGIBLE).between(1, degree)
            gap, dropped = cut_off, NEGLIGIBLE * np.log(degree + 1.0)
        else:
            (n, values), degree, dropped = _bracket_nodes(self._terms, period)
            gap = SawtoothSeries(n, values, degree, period, damped=True).widest_gap()
        kept, more = weightiest(values / n, SHARE * gap)
        self._series = SawtoothSeries(
            n[kept], values[kept], degree, period, damped=not self._truncated
        )
        dropped += 1.4 * more
        rounding = 4.0 * np.exp(-LOG_LOSS) + 1e-15 * np.sqrt(len(kept))
        self._slack = float(dropped + rounding)
        self.floor = self.error_bound = float(gap) + self._slack

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
        gap = gap + self._slack
        if self._truncated:
            gap = np.full(x.shape, self.error_bound)
        small = (tail < self.error_bound) | (x > self._reach)
        bound = np.minimum(np.log(self.error_bound), self._grid.log_chernoff(np.maximum(x, 0.0)))
        logtail = np.where(small, bound, np.log(np.clip(tail, self.error_bound, 0.5 + gap)))
        # a small tail is replaced by a bound, which may be below the end of its bracket
        above = np.where(x > self._reach, 0.0, np.maximum(tail + gap - np.exp(logtail), 0.0))
        return logtail, np.where(small, above, gap)


def short_series(terms: Terms) -> Route | None:
    """Take the series where few terms are accurate."""
    unit = terms.scaled(1.0 / terms.std)
    reach = SaddleGrid(unit.cgf, unit.abscissa, 1.0).tilted_range(0.0, LOG_LOSS)[1]
    degree, cut_off = _degree(unit, 2.0 * reach)
    return FourierSum(terms) if cut_off <= GOAL and degree <= SHORT else None


def _degree(terms: Terms, period: float) -> tuple[int, float]:
    """Choose the degree of the series, and bound what it leaves out."""
    degrees = np.unique(np.round(np.logspace(1.0, np.log10(min(LONG, MAX_DEGREE)), 60)))
    rest = left_out(terms, 2.0 * np.pi / period * degrees)
    enough = np.flatnonzero(rest <= GOAL)
    chosen = int(enough[0]) if enough.size else -1
    return int(degrees[chosen]), float(rest[chosen])


def _bracket_nodes(terms: Terms, period: float) -> tuple[Nodes, int, float]:
    """Nodes of a series for a bracket and its degree, as large as is cheap; what is dropped."""
    search = NodeSearch(terms, period, NEGLIGIBLE)
    degree = min(FIRST_DEGREE, MAX_DEGREE)
    n, values = search.between(1, degree)
    # a value adds 1/(πn) times itself to the sum, and 1/degree to the bracket
    dropped = search.level * (1.0 + np.log(degree) / np.pi)
    while 2 * degree <= MAX_DEGREE:
        gap = (0.5 + np.abs(values).sum()) / degree
        more = None if gap < NARROW else _further_nodes(search, degree, COARSE * gap)
        if more is None:
            break
        n, values = np.append(n, more[0]), np.append(values, more[1])
        degree *= 2
        dropped += search.level * (1.0 + np.log(2.0) / np.pi)
    return (n, values), degree, dropped


def _further_nodes(search: NodeSearch, degree: int, coarse: float) -> Nodes | None:
    """Nodes up to twice the degree, where that is cheap at the present level or another."""
    budget = LARGE_BUDGET if 2 * degree <= LONG else BUDGET
    for level in sorted({search.level, max(search.level, coarse)}):
        search.level = level
        nodes = search.attempt(degree + 1, 2 * degree, budget)
        if nodes is not None and nodes[0].size <= MOST:
            return nodes
    return None
