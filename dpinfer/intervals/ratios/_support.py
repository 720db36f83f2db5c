"""How far a weighted sum of two noises with densities reaches, as a function of its direction.

For standardised noises Z₁, Z₂ and the direction u = (cos φ, -sin φ), Q(φ) is the upper quantile of
<u, Z>. For symmetric log-concave noise it is a norm of u: the support function of a convex body
(Meyer and Reisner 1991; Bobkov 2010), the floating body of the law, which
two lines through each point outside touch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._numerics.roots import find_root
from dpinfer._validation import FloatArray
from dpinfer.mechanisms import NoiseLaw, as_noise
from dpinfer.mechanisms.weighted_sum import WeightedSum

Kind = Literal["laplace", "gaussian"]

PANELS = 24
DEGREE = 20
ROOT_HALF = float(np.sqrt(0.5))


class SmoothSupport:
    """Q for standardised Laplace or Gaussian noise, by Chebyshev interpolation in φ.

    Parameters
    ----------
    first, second : {"laplace", "gaussian"}
        The kinds of noise.
    tail : float
        The upper tail probability, below 1/2.
    """

    def __init__(self, first: Kind, second: Kind, tail: float) -> None:
        self.constant: float | None = None
        if first == second == "gaussian":
            self.constant = float(-special.ndtri(tail))
            return
        # by symmetry the first quarter is enough, and one order of the kinds
        self._swapped = first == "gaussian"
        logtail = _TAILS["gaussian" if self._swapped else second]
        nodes = np.cos(np.pi * (np.arange(DEGREE) + 0.5) / DEGREE)
        width = 0.5 * np.pi / PANELS
        psi = (width * (np.arange(PANELS)[:, None] + 0.5 * (nodes + 1.0))).ravel()
        values = _quantiles(logtail, np.cos(psi), np.sin(psi), tail).reshape(PANELS, DEGREE)
        vander = np.polynomial.chebyshev.chebvander(nodes, DEGREE - 1)
        self._width = width
        self._values = np.asarray(np.linalg.solve(vander, values.T), dtype=np.float64)
        slopes = np.polynomial.chebyshev.chebder(self._values) * (2.0 / width)
        self._slopes: FloatArray = np.asarray(slopes, dtype=np.float64)

    def __call__(self, phi: FloatArray) -> FloatArray:
        """Q at any angles."""
        if self.constant is not None:
            return np.full(phi.shape, self.constant)
        psi, _ = self._folded(phi)
        return self._interpolate(self._values, psi)

    def slope(self, phi: FloatArray) -> FloatArray:
        """Return the derivative of Q by φ."""
        if self.constant is not None:
            return np.zeros(phi.shape)
        psi, sign = self._folded(phi)
        return self._interpolate(self._slopes, psi) * sign

    def _folded(self, phi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Angle in the first quarter at which Q is the same, and the sign of its change."""
        turned = np.mod(phi + 0.5 * np.pi, np.pi) - 0.5 * np.pi
        psi, sign = np.abs(turned), np.where(turned < 0, -1.0, 1.0)
        return (0.5 * np.pi - psi, -sign) if self._swapped else (psi, sign)

    def _interpolate(self, coefficients: FloatArray, psi: FloatArray) -> FloatArray:
        """Clenshaw's recurrence, in the panel of each angle."""
        panel = np.clip((psi / self._width).astype(np.intp), 0, PANELS - 1)
        z = 2.0 * (psi / self._width - panel) - 1.0
        before, last = np.zeros(psi.shape), np.zeros(psi.shape)
        for row in coefficients[:0:-1]:
            before, last = last, row[panel] + 2.0 * z * last - before
        return np.asarray(coefficients[0][panel] + z * last - before)


@lru_cache(maxsize=64)
def smooth_support(first: Kind, second: Kind, tail: float) -> SmoothSupport:
    """Return Q of two standardised noises at an upper tail probability."""
    return SmoothSupport(first, second, tail)


CHORDS = 48
"""Chords in a quarter of a polygon around Q: at most 1 - cos(π/192), or 1.4e-4, too wide."""


class ChordSupport:
    """A bound on Q for two sums of log-concave noises, by chords between directions.

    Q is convex, so that it lies below its chords.

    Parameters
    ----------
    quantiles : array of float, shape (CHORDS + 1,)
        Q at equal steps of φ from 0 to π/2.
    """

    constant: float | None = None

    def __init__(self, quantiles: FloatArray) -> None:
        psi = 0.5 * np.pi * np.arange(CHORDS + 1) / CHORDS
        u = np.column_stack([np.cos(psi), np.sin(psi)])
        pairs = np.stack([u[:-1], u[1:]], axis=1)
        sides = np.column_stack([quantiles[:-1], quantiles[1:]])
        self._corners = np.linalg.solve(pairs, sides[..., np.newaxis])[..., 0]

    def __call__(self, phi: FloatArray) -> FloatArray:
        """Bound on Q at any angles."""
        cos, sin, corner = self._folded(phi)
        return np.asarray(np.abs(cos) * corner[..., 0] + np.abs(sin) * corner[..., 1])

    def slope(self, phi: FloatArray) -> FloatArray:
        """Return the derivative of the bound by φ."""
        cos, sin, corner = self._folded(phi)
        first, second = np.sign(cos) * corner[..., 0], np.sign(sin) * corner[..., 1]
        return np.asarray(cos * second - sin * first)

    def _folded(self, phi: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Cosine and sine, and the corner of the body that decides in the direction."""
        cos, sin = np.cos(phi), np.sin(phi)
        psi = np.arctan2(np.abs(sin), np.abs(cos))
        chord = np.clip((psi * (2.0 * CHORDS / np.pi)).astype(np.intp), 0, CHORDS - 1)
        return cos, sin, self._corners[chord]


@lru_cache(maxsize=64)
def chord_support(
    weights: tuple[tuple[float, ...], tuple[float, ...]], laws: tuple[NoiseLaw, ...], tail: float
) -> ChordSupport:
    """Return the bound on Q for two weighted sums of independent noises."""
    first, second = (np.array(part) for part in weights)
    noise = as_noise(list(laws), len(laws))
    psi = 0.5 * np.pi * np.arange(CHORDS + 1) / CHORDS
    # rounding of π/2 leaves no weight
    turned = [np.cos(x) * (k < CHORDS) * first + np.sin(x) * second for k, x in enumerate(psi)]
    return ChordSupport(np.array([float(WeightedSum(w, noise).isf(tail)) for w in turned]))


def _quantiles(
    logtail: Callable[[FloatArray, FloatArray, FloatArray], FloatArray],
    cos: FloatArray,
    sin: FloatArray,
    tail: float,
) -> FloatArray:
    """Upper quantiles of cos·Z₁ + sin·Z₂."""
    # P(A + B > a + b) <= P(A > a) + P(B > b), and both laws have quantiles below this
    bound = (cos + sin) * (1.0 - np.log(tail)) * 2.0

    def excess(x: FloatArray, index: NDArray[np.intp]) -> FloatArray:
        return np.asarray(logtail(x, cos[index], sin[index]) - np.log(tail))

    _, high = find_root(excess, np.zeros(cos.shape), bound, rtol=1e-15)
    return high


def _two_laplace(x: FloatArray, cos: FloatArray, sin: FloatArray) -> FloatArray:
    """Log P(cos·Z₁ + sin·Z₂ > x), x >= 0, for Laplace noises of variance 1.

    With scales b > c it is e^(-x/b)/2·[1 + c²·(1 - e^(-xd/(bc)))/(d(b + c))], d = b - c.
    """
    b = np.maximum(cos, sin) * ROOT_HALF
    c = np.minimum(cos, sin) * ROOT_HALF
    d = np.maximum(b - c, 1e-12 * b)
    more = -np.expm1(-x * d / (b * c)) * c * c / (d * (b + c))
    return np.asarray(-x / b - np.log(2.0) + np.log1p(more))


def _laplace_and_gaussian(x: FloatArray, cos: FloatArray, sin: FloatArray) -> FloatArray:
    """Log P(cos·Z₁ + sin·Z₂ > x), x >= 0, for Laplace noise Z₁ and Gaussian noise Z₂.

    With z = x/sin and t = sin/b it is P(Z₂ > z) + (g(t - z) - g(t + z))/2, where g(w) is
    exp(-z²/2 + w²/2)·P(Z₂ > w).
    """
    b = cos * ROOT_HALF
    z, t = x / sin, sin / b
    near = np.minimum(z - t, 5.0)
    # scaled tails where they are small, plain ones where the Laplace noise dominates
    scaled = 0.5 * np.exp(-0.5 * z * z) * special.erfcx(-near * ROOT_HALF)
    plain = np.exp(np.minimum(0.5 * t * t - x / b, 0.0)) * special.ndtr(z - t)
    first = np.where(z - t < 5.0, scaled, plain)
    second = 0.5 * np.exp(-0.5 * z * z) * special.erfcx((t + z) * ROOT_HALF)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(special.ndtr(-z) + 0.5 * (first - second)))


_TAILS: dict[Kind, Callable[[FloatArray, FloatArray, FloatArray], FloatArray]] = {
    "laplace": _two_laplace,
    "gaussian": _laplace_and_gaussian,
}
"""By the kind of the second noise; the first is Laplace noise."""
