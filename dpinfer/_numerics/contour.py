"""Tails by integration along a hyperbola through the saddle point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpinfer._numerics.saddle import SaddleGrid
from dpinfer._validation import FloatArray
from dpinfer.errors import ConvergenceError

ComplexArray = NDArray[np.complex128]

ANGLE = 3.0 * np.pi / 8.0
"""Asymptotic angle of the hyperbola: half way between π/4, below which a Gaussian factor grows,
and π/2, above which exp(-s x) grows."""

STEP = 2.0 * np.pi * (np.pi / 8.0) / 38.0
"""Step of the trapezoidal rule: its error is near exp(-38), by the strip of width π/8 around."""

NEGLIGIBLE = np.exp(-41.0)
NODES = 48
MAX_NODES = 48 * 100
ROWS = 256
NEWTON_STEPS = 2


@dataclass(frozen=True)
class TailContour:
    """P(X > x) for a symmetric law whose only singularities to the right are real poles.

    P(X > x) = (1/2πi) ∫ exp(K(s) - s x)·kernel(s) ds along any path from -i∞ to i∞ that crosses
    the real axis between 0 and the abscissa and leaves all poles on its right; the kernel is 1/s
    for a law with a density and 1/(exp(s) - 1) for a law on the whole numbers. The hyperbola
    crosses near the saddle point, so that nothing cancels and tails keep their relative accuracy.
    It opens to the right, so that Laplace factors, which decay only as powers along a vertical
    line, are met by the decay of exp(-s x).

    Parameters
    ----------
    grid : SaddleGrid
        Of the law.
    kernel : callable
        The kernel.
    ceiling : float
        Where abs(Im s) stops. π for a law on the whole numbers: the integrand has period 2πi, so
        the pieces of the path along Im s = ±π, from there to the right, cancel.

    References
    ----------
    Trefethen, L. N. and Weideman, J. A. C. (2014). The exponentially convergent trapezoidal rule.
    SIAM Review 56:385-458, doi:10.1137/130932132, section 15.
    """

    grid: SaddleGrid
    kernel: Callable[[ComplexArray], ComplexArray] = np.reciprocal
    ceiling: float = np.inf

    def log_upper(self, x: FloatArray) -> FloatArray:
        """Log P(X > x) at one-dimensional x >= 0."""
        out = np.empty(x.shape)
        # Past the last saddle point next to a pole only rounding is left of abscissa - s.
        # Chernoff's bound on the logarithm is near -1e8 there, and right to 1e-7 relative.
        far = (x > self.grid.slope[-1]) & np.isfinite(self.grid.abscissa)
        out[far] = self.grid.log_chernoff(x[far])
        near = np.flatnonzero(~far)
        for start in range(0, near.size, ROWS):
            rows = near[start : start + ROWS]
            out[rows] = self._block(x[rows])
        return out

    def _block(self, x: FloatArray) -> FloatArray:
        crossing, axis = self._path(x)
        centre = crossing - axis * np.cos(ANGLE)
        level = self.grid.cgf(crossing.astype(np.complex128)).real - crossing * x
        total = np.zeros(x.shape)
        for first in range(0, MAX_NODES, NODES):
            u = STEP * np.arange(first, first + NODES)
            s = centre[:, None] + axis[:, None] * np.cosh(u + 1j * ANGLE)
            slope = axis[:, None] * np.sinh(u + 1j * ANGLE)
            below = s.imag <= self.ceiling
            s = np.where(below, s, crossing[:, None])
            with np.errstate(under="ignore"):
                value = np.exp(self.grid.cgf(s) - s * x[:, None] - level[:, None])
                value = np.where(below, value * self.kernel(s) * slope, 0.0)
            # the node on the real axis belongs to both halves
            total += value.imag @ np.where(u == 0, 0.5, 1.0)
            if np.all(np.abs(value[:, -1]) <= NEGLIGIBLE * np.abs(total)):
                return np.asarray(level + np.log(total * STEP / np.pi))
        raise ConvergenceError(f"contour integral not converged after {MAX_NODES} nodes")

    def _path(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Where the hyperbola crosses the real axis, and half the distance of its foci."""
        grid = self.grid
        # the saddle of exp(K(s) - s x)/s is at K'(s) - 1/s = x
        slope, curvature = grid.slope - 1.0 / grid.s, grid.curvature + 1.0 / np.square(grid.s)
        crossing = np.exp(np.interp(x, slope, np.log(grid.s)))
        for _ in range(NEWTON_STEPS):
            bend = np.interp(crossing, grid.s, curvature)
            excess = grid.evaluate(crossing)[1] - 1.0 / crossing - x
            step = np.clip(excess / bend, -0.2 * crossing, 0.2 * crossing)
            crossing = np.minimum(crossing - step, 0.5 * (crossing + grid.abscissa))
        axis = 1.0 / np.sqrt(np.interp(crossing, grid.s, curvature))
        # both foci stay between 0 and the abscissa
        axis = np.minimum(axis, crossing / (1.0 + np.cos(ANGLE)))
        return crossing, np.minimum(axis, (grid.abscissa - crossing) / (1.0 - np.cos(ANGLE)))
