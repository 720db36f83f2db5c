"""Fourier series of distribution functions: of any weighted sum, with a rigorous error bound.

Nodes are looked for by bounds on runs of them, as many different weights have few in common;
privacy losses, whose laws are few, are looked at in the windows of one of them. Series of symmetric
laws have sines only, and the same sums to the last bit at every call; those of losses are tilted.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from dpinfer._check import FloatArray
from dpinfer._numerics.atoms import weightiest
from dpinfer._numerics.inversion import SaddleGrid, SawtoothSeries
from dpinfer.mechanisms._sums.contour import Nodes, NodeSearch
from dpinfer.mechanisms._sums.lattice import in_spacings
from dpinfer.mechanisms._sums.terms import Route, Terms, lattice_floor, left_out, quantiles

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

SMALL_BUDGET = 1 << 18
BUDGET = 1 << 20
LARGE_BUDGET = 1 << 22
"""Factors that may be computed for the sake of the next degree, the last up to ``LONG``,
the first where a series is to be found soon."""

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
    bound and Chernoff's. With ``longest``, a bracket takes a series of that degree, or where
    that is costly of ``FIRST_DEGREE``.
    """

    name = "Fourier series"

    def __init__(self, terms: Terms, longest: int | None = None) -> None:
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
            (n, values), degree, dropped = _bracket_nodes(self._terms, period, longest)
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
        return self._estimate(x / self._unit)[0]

    def log_mass(self, x: FloatArray) -> None:
        """Atoms are within the bracket, wherever they are."""
        return

    def upper_isf(self, q: FloatArray, strict: bool) -> FloatArray:
        """Find x with P(S > x) <= q for certain, as small as the bracket allows."""
        bound = self._grid.chernoff(q)
        high = quantiles(self._highest, q, bound, start=-1e-9, atol=1e-14)[1]
        return np.minimum(high * self._unit, self.supremum)

    def log_at_most(self, x: FloatArray) -> FloatArray:
        """Bound log P(S >= x) from above, at x > 0: by the bracket, or by Chernoff's inequality."""
        ratio = x / self._unit
        tail, gap = self._series.upper(np.minimum(ratio, self._reach))
        gap = gap + (self.error_bound if self._truncated else self._slack)
        highest = np.where(ratio > self._reach, 1.0, np.maximum(tail + gap, self._slack))
        return np.minimum(np.log(highest), self._grid.log_chernoff(ratio))

    def _highest(self, x: FloatArray) -> FloatArray:
        estimate, gap = self._estimate(x)
        return np.asarray(np.log(np.exp(estimate) + gap))

    def _estimate(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log P(S > x) and the half-width of the bracket, x in standard deviations."""
        tail, gap = self._series.upper(np.minimum(x, self._reach))
        gap = gap + self._slack
        if self._truncated:
            gap = np.full(x.shape, self.error_bound)
        small = (tail < self.error_bound) | (x > self._reach)
        likely = np.where(small, 0.0, np.minimum(tail, 0.5 + gap))
        logtail = _bounded(likely, x, self._grid, self.error_bound)
        # a small tail is replaced by a bound, which may be below the end of its bracket
        above = np.where(x > self._reach, 0.0, np.maximum(tail + gap - np.exp(logtail), 0.0))
        return logtail, np.where(small, above, gap)


def _bounded(tail: FloatArray, x: FloatArray, grid: SaddleGrid, error: float) -> FloatArray:
    """Logarithms of tails: of one below the error the smaller of that and Chernoff's bound."""
    bound = np.minimum(np.log(error), grid.log_chernoff(np.maximum(x, 0.0)))
    return np.where(tail < error, bound, np.log(np.maximum(tail, error)))


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


def _bracket_nodes(terms: Terms, period: float, longest: int | None) -> tuple[Nodes, int, float]:
    """Nodes of a series for a bracket and its degree, as large as is cheap; what is dropped."""
    search = NodeSearch(terms, period, NEGLIGIBLE)
    degree = min(FIRST_DEGREE, longest or MAX_DEGREE)
    n, values = search.between(1, degree)
    # a value adds 1/(πn) times itself to the sum, and 1/degree to the bracket
    dropped = search.level * (1.0 + np.log(degree) / np.pi)
    if longest is not None:
        more = search.attempt(degree + 1, longest, SMALL_BUDGET) if longest > degree else None
        if more is None:
            return (n, values), degree, dropped
        dropped += search.level * np.log(longest / degree) / np.pi
        return (np.append(n, more[0]), np.append(values, more[1])), longest, dropped
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


# Whole-numbered noises on a fine lattice, by the few terms of a finite Fourier series.


LATTICE_SERIES_LOG_LOSS = 38.0
"""The mass exp(-38) = 3e-17 beyond each end of the period is left out."""

LEVEL = 1e-15
"""Values of the characteristic function up to this are dropped."""

DROPPED = 2e-13
"""The least important terms of the series are dropped, up to this sum."""

LATTICE_SERIES_BUDGET = 1 << 21
LATTICE_SERIES_MOST = 1 << 14
"""More terms make the series slower than its rivals."""


class LatticeSeries(Route):
    """S = spacing·J with J a whole number, nearly always within (-M/2, M/2) for an odd M.

    P(J > k) = 1/2 - (k + 1/2)/M - Σ_n φ(2πn/M) sin(2πn(k + 1/2)/M)/(M sin(πn/M)), the sum over
    1 <= n < M/2. The search for the terms that matter covers all of them, so that the result is
    exact, however fine the lattice is.
    """

    name = "lattice series"

    def __init__(
        self, terms: Terms, spacing: float, period: float, nodes: Nodes, dropped: float
    ) -> None:
        # not the route's own spacing: tails are the same at every call, and need no settling
        self._spacing = spacing
        self._grid = terms.grid
        n, values = nodes
        self._period = period
        self._series = SawtoothSeries(n, values, 0.5 * period, period, damped=False, whole=True)
        # estimated: an angle has an error proportional to n, and its sine a factor below 1/(2n)
        rounding = 1e-15 * (1.0 + np.abs(values).sum())
        self.floor = self.error_bound = float(
            4.0 * np.exp(-LATTICE_SERIES_LOG_LOSS) + dropped + rounding
        )

    def upper(self, x: FloatArray, closed: bool) -> FloatArray:
        k = lattice_floor(x / self._spacing, closed)
        tail = self._series.upper(np.minimum(k + 0.5, 0.5 * self._period))[0]
        return _bounded(tail, x, self._grid, self.error_bound)

    def upper_isf(self, q: FloatArray, strict: bool) -> FloatArray:
        h = self._spacing
        tail, bound = partial(self.upper, closed=False), self._grid.chernoff(q)
        # a tail that equals q is on a plateau: go to the end that is asked for
        tie = 1e-17 if strict else -1e-17
        high = quantiles(tail, q, bound, start=-0.5 * h, tie=tie, atol=0.4 * h)[1]
        return lattice_floor(high / h, False) * h


def lattice_series(terms: Terms, spacing: float) -> Route | None:
    """Take whole-numbered noises on a lattice, where few terms of the series matter."""
    unit = in_spacings(terms, spacing)
    period = 2.0 * np.ceil(unit.grid.tilted_range(0.0, LATTICE_SERIES_LOG_LOSS)[1]) + 1.0
    found = NodeSearch(unit, period, LEVEL).attempt(1, int(period) // 2, LATTICE_SERIES_BUDGET)
    if found is None:
        return None
    n, values = found
    # the sine at least 2n/M, so that a term is 1/(2n) of the value at most
    kept, dropped = weightiest(0.5 * values / n, DROPPED)
    dropped += LEVEL * (1.0 + np.log(period))
    if kept.size > LATTICE_SERIES_MOST:
        return None
    return LatticeSeries(terms, spacing, period, (n[kept], values[kept]), dropped)
