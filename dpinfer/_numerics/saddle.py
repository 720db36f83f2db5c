"""The cumulant generating function of a symmetric law on a grid: tilts, ranges, Chernoff bounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray

CGF = Callable[[NDArray[np.complex128]], NDArray[np.complex128]]

NODES_PER_DECADE = 8
FIRST_DECADE = -2.5
LOWEST_DECADE = -160.0
COMPLEX_STEP = 1e-4
REFINEMENTS = 3
ROUNDING = 1e-13
STEPS_OF_RISE = 64


class SaddleGrid:
    """K(s) = log E[exp(s X)] and K'(s) of a symmetric X on a grid of 0 < s < abscissa.

    Parameters
    ----------
    cgf : callable
        K at complex points in its strip, on any branch.
    abscissa : float
        Supremum of the s at which K is finite.
    std : float
        Standard deviation of X.
    """

    def __init__(self, cgf: CGF, abscissa: float, std: float) -> None:
        self.cgf = cgf
        self.abscissa = abscissa
        self._std = std
        reach = 3.0 if np.isinf(abscissa) else max(3.0, np.log10(abscissa * std) + 8.0)
        first = self._first_decade()
        self._v = np.logspace(first, reach, int(NODES_PER_DECADE * (reach - first)))
        self.s = self._tilt(self._v)
        self.k, self.slope = self.evaluate(self.s)
        if self.k[0] <= ROUNDING:
            self._begin_where_k_rises()
        # far out the moments of laws with light tails overflow: those nodes are of no use
        usable = np.isfinite(self.k) & np.isfinite(self.slope)
        with np.errstate(invalid="ignore"):
            usable[1:] &= np.diff(self.slope) > 0
        if not usable.all():
            self._keep(slice(int(np.argmin(usable))))
        self.curvature = np.maximum(np.gradient(self.slope, self.s), np.finfo(float).tiny)

    def _begin_where_k_rises(self) -> None:
        """Leave out nodes at which K is rounding, as it is far for a law that is nearly always 0.

        It then rises, and may overflow, within less than a step of the grid: that step is refined.
        """
        rises = int(np.argmin(self.k <= ROUNDING))
        fine = np.geomspace(self._v[rises - 1], self._v[rises], STEPS_OF_RISE, endpoint=False)
        self._v = np.concatenate([fine, self._v[rises:]])
        self.s = self._tilt(self._v)
        self.k, self.slope = self.evaluate(self.s)
        self._keep(slice(int(np.argmin(self.k <= ROUNDING)), None))

    def _keep(self, nodes: slice) -> None:
        self._v, self.s = self._v[nodes], self.s[nodes]
        self.k, self.slope = self.k[nodes], self.slope[nodes]

    def _first_decade(self) -> float:
        """Where the grid begins, as a power of ten of v: where K, which is v²/2 there, is small.

        A law that is nearly always 0 has a standard deviation far below its steps, and gets there
        many decades lower.
        """
        decades = np.arange(FIRST_DECADE, LOWEST_DECADE, -1.0)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            k = self.cgf(self._tilt(10.0**decades).astype(np.complex128)).real
        return float(decades[np.argmax(k <= 10.0 ** (2.0 * FIRST_DECADE))])

    def _tilt(self, v: FloatArray) -> FloatArray:
        """Map v > 0, in units of 1/std, to a tilt below the abscissa."""
        return np.asarray(v / (self._std + v / self.abscissa))

    def evaluate(self, s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """K and K' at real points; the derivative by a complex step, to about 1e-8 relative."""
        step = COMPLEX_STEP * np.minimum(s, self.abscissa - s)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            real, stepped = self.cgf(np.array([s + 0j, s + 1j * step]))
            # at a tilt that rounds to the abscissa there is no step, and no slope
            return real.real, stepped.imag / step

    def log_mgf(self, tilt: float) -> float:
        """K at one real point."""
        return float(self.cgf(np.array([tilt], dtype=np.complex128)).real[0]) if tilt else 0.0

    def tilt_at(self, x: float) -> float:
        """Tilt s with K'(s) close to ``x`` > 0, within the grid."""
        logv = np.interp(np.log(x), np.log(self.slope), np.log(self._v))
        return float(self._tilt(np.exp(logv)))

    def spread_at(self, tilt: float) -> float:
        """Return roughly the standard deviation of the law tilted by ``tilt``."""
        return float(np.sqrt(np.interp(tilt, self.s, self.curvature)))

    def tilted_range(self, tilt: float, loss: float) -> tuple[float, float]:
        """Points below and above which the tilted law has mass exp(-loss) at most, each."""
        s = np.concatenate([-self.s[::-1], [0.0], self.s])
        k = np.concatenate([self.k[::-1], [0.0], self.k])
        delta = s - tilt
        with np.errstate(divide="ignore", invalid="ignore"):
            bound = (k - self.log_mgf(tilt) + loss) / delta
        low, high = bound[delta < 0], bound[delta > 0]
        return float(np.max(low, initial=-np.inf)), float(np.min(high, initial=np.inf))

    def log_chernoff(self, x: FloatArray) -> FloatArray:
        """Chernoff's bound on log P(X >= x), x >= 0, by the best tilt of the grid."""
        best = np.min(self.k - np.multiply.outer(x, self.s), axis=-1)
        return np.asarray(np.minimum(best, 0.0))

    def quantile_guess(self, q: float) -> float:
        """Approximate point x > 0 with P(X > x) = ``q``, by the saddlepoint formula."""
        lam = self.s * np.sqrt(self.curvature)
        logtail = self.k - self.s * self.slope - np.log(np.sqrt(2.0 * np.pi) * lam + 2.0)
        return float(np.interp(-np.log(q), np.maximum.accumulate(-logtail), self.slope))

    def chernoff(self, q: FloatArray) -> FloatArray:
        """Smallest t with min over s of exp(K(s) - s t) <= ``q``, to about 1e-6 relative.

        Every s gives a valid bound, so the answer is on the safe side.
        """
        logq = np.log(q).reshape(-1, 1)
        nodes = np.log(self._v)
        best = np.argmin((self.k - logq) / self.s, axis=1)
        low, high = nodes[np.maximum(best - 1, 0)], nodes[np.minimum(best + 1, len(nodes) - 1)]
        smallest = np.min((self.k - logq) / self.s, axis=1)
        for _ in range(REFINEMENTS):
            logv = low[:, None] + np.linspace(0.0, 1.0, 17) * (high - low)[:, None]
            s = self._tilt(np.exp(logv))
            value = (self.cgf(s.astype(np.complex128)).real - logq) / s
            at, rows = np.argmin(value, axis=1), np.arange(len(value))
            smallest = np.minimum(smallest, value[rows, at])
            low, high = logv[rows, np.maximum(at - 1, 0)], logv[rows, np.minimum(at + 1, 16)]
        return np.asarray(smallest.reshape(q.shape))
