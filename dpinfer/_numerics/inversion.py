"""Tails from transforms: saddle points, Chernoff bounds, contours, Fourier series, tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dpinfer._check import ComplexArray, FloatArray
from dpinfer._numerics.lattice import slices, tilted_range
from dpinfer.errors import ConvergenceError

CGF = Callable[[ComplexArray], ComplexArray]

NODES_PER_DECADE = 8
FIRST_DECADE = -2.5
LOWEST_DECADE = -160.0
COMPLEX_STEP = 1e-4
REFINEMENTS = 3
ROUNDING = 1e-13
STEPS_OF_RISE = 64


class SaddleGrid:
    """K(s) = log E[exp(s X)] and K'(s) of a symmetric X on a grid of 0 < s < abscissa.

    ``cgf``: K at complex points in its strip, on any branch; ``abscissa``: supremum of the s at
    which K is finite; ``std``: standard deviation of X.
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
        return tilted_range(s - tilt, k - self.log_mgf(tilt), loss)

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


# Tails by integration along a hyperbola through the saddle point.


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


Saddle = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Saddle points of exp(K(s) - s x)/s for a vector of x, and the curvature of its logarithm."""


def along_hyperbola(
    cgf: CGF,
    x: FloatArray,
    saddle: Saddle,
    end: float,
    kernel: Callable[[ComplexArray], ComplexArray] = np.reciprocal,
    *,
    side: float = 1.0,
    ceiling: float = np.inf,
    deepest: float = -np.inf,
    rows: int = ROWS,
) -> FloatArray:
    """Log of side·(1/2πi) ∫ exp(K(s) - s x)·kernel(s) ds by the trapezoidal rule.

    Each hyperbola crosses the real axis at the saddle point: between 0 and ``end``, the singularity
    on the right, or left of 0 for a ``side`` of -1. ``ceiling``: where abs(Im s) stops;
    ``deepest``: what K(s) - s x of less than that bounds is given as 0; ``rows``: of x at a time.
    """
    out = np.full(x.shape, -np.inf)
    for part in slices(x.size, rows):
        points, found = x[part], out[part]
        crossing, bend = saddle(points)
        # both foci stay on one side of 0 and of the singularity
        room = crossing / (side + np.cos(ANGLE))
        axis = np.minimum(1.0 / np.sqrt(bend), room)
        axis = np.minimum(axis, (end - crossing) / (1.0 - np.cos(ANGLE)))
        level = cgf(crossing.astype(np.complex128)).real - crossing * points
        near = level > deepest
        path = crossing[near], axis[near], level[near]
        found[near] = _integral(cgf, points[near], path, kernel, side, ceiling)
    return out


def _integral(
    cgf: CGF,
    x: FloatArray,
    path: tuple[FloatArray, FloatArray, FloatArray],
    kernel: Callable[[ComplexArray], ComplexArray],
    side: float,
    ceiling: float,
) -> FloatArray:
    crossing, axis, level = path
    centre = crossing - axis * np.cos(ANGLE)
    total = np.zeros(x.shape)
    for first in range(0, MAX_NODES, NODES):
        u = STEP * np.arange(first, first + NODES)
        s = centre[:, None] + axis[:, None] * np.cosh(u + 1j * ANGLE)
        slope = axis[:, None] * np.sinh(u + 1j * ANGLE)
        below = s.imag <= ceiling
        s = np.where(below, s, crossing[:, None])
        with np.errstate(under="ignore"):
            value = np.exp(cgf(s) - s * x[:, None] - level[:, None])
            value = np.where(below, value * kernel(s) * slope, 0.0)
        # the node on the real axis belongs to both halves
        total += side * (value.imag @ np.where(u == 0, 0.5, 1.0))
        if np.all(np.abs(value[:, -1]) <= NEGLIGIBLE * np.abs(total)):
            return np.asarray(level + np.log(total * STEP / np.pi))
    raise ConvergenceError(f"contour integral not converged after {MAX_NODES} nodes")


@dataclass(frozen=True)
class TailContour:
    """P(X > x) for a symmetric law whose only singularities to the right are real poles.

    P(X > x) = (1/2πi) ∫ exp(K(s) - s x)·kernel(s) ds along any path from -i∞ to i∞ that crosses
    the real axis between 0 and the abscissa and leaves all poles on its right; the kernel is 1/s
    for a law with a density and 1/(exp(s) - 1) for a law on the whole numbers. The hyperbola
    crosses near the saddle point, so that nothing cancels and tails keep their relative accuracy.
    It opens to the right, so that Laplace factors, which decay only as powers along a vertical
    line, are met by the decay of exp(-s x).

    ``grid``: of the law; ``kernel``: the kernel; ``ceiling``: where abs(Im s) stops. π for a law on
    the whole numbers: the integrand has period 2πi, so the pieces of the path along Im s = ±π, from
    there to the right, cancel.

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
        grid, near = self.grid, ~far
        out[near] = along_hyperbola(
            grid.cgf, x[near], self._saddle, grid.abscissa, self.kernel, ceiling=self.ceiling
        )
        return out

    def log_density(self, x: FloatArray) -> FloatArray:
        """Log density at one-dimensional x >= 0, or log P(X = x) on the whole numbers."""
        return replace(self, kernel=np.ones_like).log_upper(x)

    def _saddle(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        grid = self.grid
        slope, curvature = grid.slope - 1.0 / grid.s, grid.curvature + 1.0 / np.square(grid.s)
        crossing = np.exp(np.interp(x, slope, np.log(grid.s)))
        for _ in range(NEWTON_STEPS):
            bend = np.interp(crossing, grid.s, curvature)
            excess = grid.evaluate(crossing)[1] - 1.0 / crossing - x
            step = np.clip(excess / bend, -0.2 * crossing, 0.2 * crossing)
            crossing = np.minimum(crossing - step, 0.5 * (crossing + grid.abscissa))
        return crossing, np.interp(crossing, grid.s, curvature)


# Distribution functions from Fourier coefficients, with a rigorous bracket.


BLOCK = 1 << 20


class SawtoothSeries:
    """P(X < x) of a symmetric X from its characteristic function at multiples of 2π/period.

    With u = (X - x)/period in (-1, 1), P(X < x) = 1/2 + x/period + E[u - floor(u) - 1/2], and the
    sawtooth is replaced by Vaaler's trigonometric polynomial of degree N, which is off by at most
    Σ_{abs(n) <= N} (1 - abs(n)/(N+1))·exp(2πinu) / (2N + 2): the bracket holds for every law, with
    a density or with atoms.

    ``index``: the n >= 1 whose coefficient is not negligible; ``values``: the characteristic
    function at 2πn/period; ``degree``: the degree N: coefficients left out of ``index`` up to N are
    negligible; ``period``: more than twice the largest abs(x) and abs(X), up to negligible mass;
    ``damped``: by Vaaler's factors, for the bracket; ``whole``: X is a whole number, the period odd
    and x half an odd number. The finite series is then exact, and of degree (period - 1)/2.

    Vaaler, J. D. (1985). Some extremal functions in Fourier analysis. Bulletin of the American
    Mathematical Society 12:183-216, doi:10.1090/S0273-0979-1985-15349-2, Theorems 6 and 18.
    """

    def __init__(
        self,
        index: FloatArray,
        values: FloatArray,
        degree: float,
        period: float,
        *,
        damped: bool,
        whole: bool = False,
    ) -> None:
        share = index / (degree + 1.0)
        turn = np.pi * index / period
        # Vaaler's factor πt(1-t)cot(πt) + t; without it, the plain truncated series
        damping = np.pi * share * (1.0 - share) / np.tan(np.pi * share) + share if damped else 1.0
        self._frequency = 2.0 * turn
        self._period, self._damped = period, damped
        self._sines = damping * values / (period * (np.sin(turn) if whole else turn))
        self._fejer = (1.0 - share) * values / (degree + 1.0)
        self._constant = 0.5 / (degree + 1.0)

    def upper(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """P(X > x) and the half-width of its bracket, if damped, at one-dimensional ``x``.

        Tails are the same to the last bit whatever else is asked for.
        """
        tail, gap = 0.5 - x / self._period, np.zeros(x.shape)
        for part in slices(len(x), BLOCK // max(len(self._frequency), 1)):
            angle = x[part, None] * self._frequency
            if self._damped:
                gap[part] = self._constant + np.cos(angle) @ self._fejer
            waves = np.sin(angle, out=angle)
            waves *= self._sines
            tail[part] -= waves.sum(axis=1)
        return tail, np.maximum(gap, 0.0)

    def widest_gap(self) -> float:
        """Bound on the half-width of the bracket; attained at 0 where no coefficient is < 0."""
        return float(self._constant + np.abs(self._fejer).sum())


# Piecewise Chebyshev interpolation of an expensive smooth function on a half-line.


DEGREE = 24


class HalfLineTable:
    """A function on x >= 0, smooth at relative scales, tabulated on panels of doubling width.

    Panels are filled when they are first needed. The function should be smooth on (0, inf), with
    nothing happening at scales below ``finest`` around 0.
    """

    def __init__(self, function: Callable[[FloatArray], FloatArray], finest: float) -> None:
        self._function = function
        self._finest = finest
        self._nodes = np.cos(np.pi * (np.arange(DEGREE) + 0.5) / DEGREE)
        # values at the nodes to Chebyshev coefficients
        self._transform = np.linalg.inv(np.polynomial.chebyshev.chebvander(self._nodes, DEGREE - 1))
        self._panels = np.zeros((0, DEGREE))

    def __call__(self, x: FloatArray) -> FloatArray:
        _, exponent = np.frexp(x / self._finest)
        panel = np.maximum(exponent, 0)
        self._fill(int(panel.max(initial=-1)) + 1)
        left = np.where(panel > 0, np.ldexp(self._finest, panel - 1), 0.0)
        right = np.ldexp(self._finest, panel)
        y = (2.0 * x - (left + right)) / (right - left)
        return self._clenshaw(panel, y)

    def _fill(self, count: int) -> None:
        while len(self._panels) < count:
            panel = len(self._panels)
            right = np.ldexp(self._finest, panel)
            left = 0.5 * right if panel else 0.0
            x = 0.5 * (left + right) + 0.5 * (right - left) * self._nodes
            row = self._transform @ self._function(x)
            self._panels = np.vstack([self._panels, row])

    def _clenshaw(self, panel: FloatArray, y: FloatArray) -> FloatArray:
        out = np.empty(y.shape)
        for number in np.unique(panel):
            at = panel == number
            out[at] = np.polynomial.chebyshev.chebval(y[at], self._panels[number])
        return out
