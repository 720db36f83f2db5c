"""Distribution functions from Fourier coefficients, with a rigorous bracket."""

from __future__ import annotations

import numpy as np

from dpinfer._validation import FloatArray

BLOCK = 1 << 20


class SawtoothSeries:
    """P(X < x) of a symmetric X from its characteristic function at multiples of 2π/period.

    With u = (X - x)/period in (-1, 1), P(X < x) = 1/2 + x/period + E[u - floor(u) - 1/2], and the
    sawtooth is replaced by Vaaler's trigonometric polynomial of degree N, which is off by at most
    Σ_{abs(n) <= N} (1 - abs(n)/(N+1))·exp(2πinu) / (2N + 2): the bracket holds for every law, with
    a density or with atoms.

    Parameters
    ----------
    index : ndarray of float
        The n >= 1 whose coefficient is not negligible.
    values : ndarray of float
        The characteristic function at 2πn/period.
    degree : int
        The degree N: coefficients left out of ``index`` up to N are negligible.
    period : float
        More than twice the largest abs(x) and abs(X), up to negligible mass.

    References
    ----------
    Vaaler, J. D. (1985). Some extremal functions in Fourier analysis. Bulletin of the American
    Mathematical Society 12:183-216, doi:10.1090/S0273-0979-1985-15349-2, Theorems 6 and 18.
    """

    def __init__(
        self, index: FloatArray, values: FloatArray, degree: int, period: float, *, damped: bool
    ) -> None:
        share = index / (degree + 1.0)
        # Vaaler's factor πt(1-t)cot(πt) + t; without it, the plain truncated series
        damping = np.pi * share * (1.0 - share) / np.tan(np.pi * share) + share if damped else 1.0
        self._frequency = 2.0 * np.pi * index / period
        self._period = period
        self._sines = damping * values / (np.pi * index)
        self._fejer = (1.0 - share) * values / (degree + 1.0)
        self._constant = 0.5 / (degree + 1.0)

    def upper(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """P(X > x) and the half-width of its bracket, at one-dimensional ``x``."""
        tail, gap = np.empty(x.shape), np.empty(x.shape)
        rows = max(1, BLOCK // max(len(self._frequency), 1))
        for start in range(0, len(x), rows):
            part = slice(start, start + rows)
            angle = x[part, None] * self._frequency
            tail[part] = 0.5 - x[part] / self._period - np.sin(angle) @ self._sines
            gap[part] = self._constant + np.cos(angle) @ self._fejer
        return tail, np.maximum(gap, 0.0)

    def widest_gap(self) -> float:
        """Bound on the half-width of the bracket; attained at 0 where no coefficient is < 0."""
        return float(self._constant + np.abs(self._fejer).sum())
