"""Whole-numbered noises on a fine lattice, by the few terms of a finite Fourier series."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpinfer._numerics.roots import find_root
from dpinfer._numerics.saddle import SaddleGrid
from dpinfer._validation import FloatArray
from dpinfer.mechanisms._sums.lattice import in_spacings
from dpinfer.mechanisms._sums.nodes import Nodes, NodeSearch, weightiest
from dpinfer.mechanisms._sums.route import Route, lattice_floor
from dpinfer.mechanisms._sums.terms import Terms

LOG_LOSS = 38.0
"""The mass exp(-38) = 3e-17 beyond each end of the period is left out."""

LEVEL = 1e-15
"""Values of the characteristic function up to this are dropped."""

DROPPED = 2e-13
"""The least important terms of the series are dropped, up to this sum."""

BUDGET = 1 << 21
MOST = 1 << 14
"""More terms make the series slower than its rivals."""

BLOCK = 1 << 20


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
        self._grid = SaddleGrid(terms.cgf, terms.abscissa, terms.std)
        n, values = nodes
        self._period = period
        self._frequency = 2.0 * np.pi * n / period
        self._sines = values / (period * np.sin(np.pi * n / period))
        # an angle has an error proportional to n, and its sine a factor below 1/(2n)
        rounding = 1e-15 * (1.0 + np.abs(values).sum())
        self.floor = self.error_bound = float(4.0 * np.exp(-LOG_LOSS) + dropped + rounding)

    def upper(self, x: FloatArray, closed: bool) -> FloatArray:
        """Log P(S > x), or log P(S >= x) if ``closed``, at finite x >= 0."""
        k = lattice_floor(x / self._spacing, closed)
        with np.errstate(divide="ignore"):
            known = np.log(np.maximum(self._tail(k), 0.0))
        bound = self._grid.log_chernoff(np.maximum(x, 0.0))
        least = np.log(self.error_bound)
        return np.where(known < least, np.minimum(bound, least), known)

    def upper_isf(self, q: FloatArray, strict: bool) -> FloatArray:
        """Smallest x with P(S > x) <= q, or < q if ``strict``."""
        logq = np.log(q)
        bound = self._grid.chernoff(q)

        def excess(x: FloatArray, index: NDArray[np.intp]) -> FloatArray:
            above = self.upper(x, closed=False) - logq[index]
            # a tail that equals q is on a plateau: go to the end that is asked for
            above = np.where(above == 0, 1e-17 if strict else -1e-17, above)
            # at Chernoff's bound the tail is at most q
            return np.where(x < 0, 1.0, np.where(x < bound[index], above, -1.0))

        start = np.full(q.shape, -0.5 * self._spacing)
        high = find_root(excess, start, bound, atol=0.4 * self._spacing)[1]
        return lattice_floor(high / self._spacing, False) * self._spacing

    def _tail(self, k: FloatArray) -> FloatArray:
        """P(J > k), the same to the last bit whatever else is asked for."""
        out = 0.5 - (k + 0.5) / self._period
        inside = np.flatnonzero(k < 0.5 * self._period)
        rows = max(1, BLOCK // max(len(self._frequency), 1))
        for start in range(0, inside.size, rows):
            part = inside[start : start + rows]
            waves = np.sin((k[part, None] + 0.5) * self._frequency)
            waves *= self._sines
            out[part] -= waves.sum(axis=1)
        return out


def lattice_series(terms: Terms, spacing: float) -> Route | None:
    """Take whole-numbered noises on a lattice, where few terms of the series matter."""
    unit = in_spacings(terms, spacing)
    grid = SaddleGrid(unit.cgf, unit.abscissa, unit.std)
    period = 2.0 * np.ceil(grid.tilted_range(0.0, LOG_LOSS)[1]) + 1.0
    found = NodeSearch(unit, period, LEVEL).attempt(1, int(period) // 2, BUDGET)
    if found is None:
        return None
    n, values = found
    # the sine at least 2n/M, so that a term is 1/(2n) of the value at most
    kept, dropped = weightiest(0.5 * values / n, DROPPED)
    dropped += LEVEL * (1.0 + np.log(period))
    if kept.size > MOST:
        return None
    return LatticeSeries(terms, spacing, period, (n[kept], values[kept]), dropped)
