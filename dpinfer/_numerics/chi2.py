"""Tails of weighted sums of chi-squared variables, from a determinant and without eigenvalues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import ComplexArray, FloatArray
from dpinfer._numerics.inversion import along_hyperbola

Cumulant = Callable[[ComplexArray], ComplexArray]

_ROWS = 16
_BISECTIONS = 60
_PATH_STEPS = 18
_LOG_RANGE, _LOG_FARTHEST = 30.0, 340.0
"""Where the saddle point is looked for: logarithms of its distance, see the path."""

_NEAREST, _FARTHEST = 1e-140, 1e10
"""Tails are taken to be 0 beyond the latter multiple of the mean, where they are below exp(-1e8),
and below the former, where they are below 1e-70."""
_DEEPEST = -1e6
"""With a shift, tails of which this bounds the logarithm are taken to be 0: their saddle points
are too sharp for the path."""
_COMPLEX_STEP = 1e-6


def _log_sum(factors: NDArray[Any]) -> ComplexArray:
    """Sum of principal logarithms over the last axis, several times as fast as np.log."""
    size = np.square(factors.real) + np.square(factors.imag)
    angle = np.arctan2(factors.imag, factors.real)
    return np.asarray(0.5 * np.log(size).sum(axis=-1) + 1j * angle.sum(axis=-1))


@dataclass(frozen=True)
class RankOne:
    """Log det(I - 2sA) for A = diag(d) - u uᵀ, by the matrix determinant lemma.

    det(I - 2sA) = Π (1 - 2s·dᵢ) · (1 + 2s Σ uᵢ²/(1 - 2s·dᵢ)). The imaginary part of the last
    factor has the sign of Im s, so that principal logarithms are continuous off the real axis.

    ``diagonal`` (k,): d > 0; ``squares`` (k,): the squares of u; zeros for a diagonal matrix, whose
    eigenvalues are then d.
    """

    diagonal: FloatArray
    squares: FloatArray

    def __call__(self, s: ComplexArray) -> ComplexArray:
        factors = 1.0 - np.multiply.outer(np.asarray(2.0 * s), self.diagonal)
        last = 1.0 + 2.0 * s * ((1.0 / factors) @ self.squares)
        return np.asarray(_log_sum(factors) + np.log(last))

    @property
    def largest(self) -> float:
        """The largest eigenvalue of A, by bisection of the secular equation."""
        second, first = np.sort(np.append(self.diagonal, 0.0))[-2:]
        low, high = float(second), float(first)
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            if 1.0 + np.sum(self.squares / (middle - self.diagonal)) > 0.0:
                low = middle
            else:
                high = middle
        return high


@dataclass(frozen=True)
class ShiftedRankOne:
    """What a mean m adds to the cumulant generating function of YᵀY, Y ~ N(m, diag(d) - u uᵀ).

    It is s·mᵀ(I - 2sA)⁻¹m, by the Sherman-Morrison formula.

    ``diagonal``, ``vector``, ``mean`` (k,): d > 0, u and m; for Σ (√d·Z + m)² u is 0.
    """

    diagonal: FloatArray
    vector: FloatArray
    mean: FloatArray

    def __call__(self, s: ComplexArray) -> ComplexArray:
        inverse = 1.0 / (1.0 - np.multiply.outer(np.asarray(2.0 * s), self.diagonal))
        across = inverse @ (self.vector * self.mean)
        bend = 1.0 + 2.0 * s * (inverse @ np.square(self.vector))
        straight = inverse @ np.square(self.mean)
        return np.asarray(s * (straight - 2.0 * s * np.square(across) / bend))


@dataclass(frozen=True)
class WeightedChi2:
    """Law of Q = Zᵀ A Z for a standard normal vector Z, a weighted sum of χ² with one degree each.

    ``logdet``: log det(I - 2sA) at an array of complex s, on the branch that is 0 at s = 0 and
    continuous off the real half-line s >= 1/(2·largest); ``largest``: the largest eigenvalue of A,
    > 0, or a bound above it; ``exponent``: what a shift adds to the cumulant generating function,
    as :class:`ShiftedRankOne` does. Zero by default.

    P(Q > q) = (1/2πi) ∫ exp(K(s) - s q) ds/s with K(s) = -log det(I - 2sA)/2 + exponent, along a
    hyperbola that crosses the real axis at the saddle point between 0 and 1/(2·largest) and opens
    to the right, where exp(-s q) decays; for P(Q < q) it crosses left of 0. The trapezoidal rule
    converges exponentially, and nothing cancels: tails keep their relative accuracy.

    Imhof, J. P. (1961). Computing the distribution of quadratic forms in normal variables.
    Biometrika 48:419-426, doi:10.1093/biomet/48.3-4.419.
    Rice, S. O. (1980). Distribution of quadratic forms in normal random variables: evaluation by
    numerical integration. SIAM Journal on Scientific and Statistical Computing 1:438-448,
    doi:10.1137/0901032.
    """

    logdet: Cumulant
    largest: float
    exponent: Cumulant | None = None

    @classmethod
    def from_eigenvalues(cls, values: FloatArray, means: FloatArray | None = None) -> WeightedChi2:
        """Return the law of Σ (√λ·Z + m)² for weights λ >= 0, not all of them 0.

        Means are 0 where λ is.
        """
        kept = values > 0.0
        weights = values[kept]
        none = np.zeros(weights.size)
        exponent = None if means is None else ShiftedRankOne(weights, none, means[kept])
        return cls(RankOne(weights, none), float(weights.max()), exponent)

    @classmethod
    def rank_one(cls, diagonal: FloatArray, squares: FloatArray) -> WeightedChi2:
        """Return the law for A = diag(d) - u uᵀ with the squares of u."""
        form = RankOne(diagonal, squares)
        return cls(form, form.largest)

    @classmethod
    def shifted_rank_one(
        cls, diagonal: FloatArray, vector: FloatArray, mean: FloatArray
    ) -> WeightedChi2:
        """Return the law of YᵀY for Y ~ N(m, diag(d) - u uᵀ), which must not be constant."""
        form = RankOne(diagonal, np.square(vector))
        return cls(form, form.largest, ShiftedRankOne(diagonal, vector, mean))

    def upper(self, q: FloatArray) -> FloatArray:
        return np.exp(self.log_upper(q))

    def lower(self, q: FloatArray) -> FloatArray:
        return np.exp(self.log_lower(q))

    def log_upper(self, q: FloatArray) -> FloatArray:
        return self._log_tail(np.asarray(q, dtype=np.float64), upper=True)

    def log_lower(self, q: FloatArray) -> FloatArray:
        return self._log_tail(np.asarray(q, dtype=np.float64), upper=False)

    @property
    def mean(self) -> float:
        """E[Q], the slope of the cumulant generating function at 0."""
        return float(self._slope(np.zeros(1))[0])

    def _log_tail(self, q: FloatArray, *, upper: bool) -> FloatArray:
        """Return logs of tails: the smaller one by its contour, the other one from it."""
        low, high = _NEAREST * self.mean, _FARTHEST * self.mean
        out = np.where((q <= low) == upper, 0.0, -np.inf)
        out[q > high] = -np.inf if upper else 0.0
        inside = (q > low) & (q <= high)
        right = inside & (q >= self.mean)
        for chosen, side in ((right, True), (inside & ~right, False)):
            if chosen.any():
                near = self._contour(q[chosen], 1.0 if side else -1.0)
                out[chosen] = near if side == upper else np.log1p(-np.exp(near))
        return out

    def _cumulant(self, s: ComplexArray) -> ComplexArray:
        value = -0.5 * self.logdet(s)
        return value if self.exponent is None else value + self.exponent(s)

    def _slope(self, s: FloatArray) -> FloatArray:
        """K'(s) by a complex step."""
        step = _COMPLEX_STEP * (1.0 / (2.0 * self.largest) - s)
        return np.asarray(self._cumulant(s + 1j * step).imag / step)

    def _contour(self, q: FloatArray, side: float) -> FloatArray:
        """Log of the tail beyond each q > 0 on one side: above (1) or below (-1)."""
        end = 1.0 / (2.0 * self.largest)
        deepest = -np.inf if self.exponent is None else _DEEPEST

        def saddle(q: FloatArray) -> tuple[FloatArray, FloatArray]:
            # by bisection in v, s = end·v/(1 + v) or s = -end·v
            low = np.full(q.shape, -_LOG_RANGE)
            high = np.full(q.shape, _LOG_RANGE if side > 0 else _LOG_FARTHEST)
            for _ in range(_PATH_STEPS):
                middle = 0.5 * (low + high)
                s = self._place(np.exp(middle), end, side)
                rises = side * (self._slope(s) - 1.0 / s - q) > 0.0
                high, low = np.where(rises, middle, high), np.where(rises, low, middle)
            s = self._place(np.exp(0.5 * (low + high)), end, side)
            step = 1e-3 * np.minimum(np.abs(s), end - s)
            bend = (self._slope(s + step) - self._slope(s - step)) / (2.0 * step)
            return s, np.maximum(bend, 0.0) + 1.0 / np.square(s)

        return along_hyperbola(
            self._cumulant, q, saddle, end, side=side, deepest=deepest, rows=_ROWS
        )

    @staticmethod
    def _place(v: FloatArray, end: float, side: float) -> FloatArray:
        return np.asarray(end * v / (1.0 + v) if side > 0 else -end * v)
