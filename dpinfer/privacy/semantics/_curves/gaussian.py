"""Gaussian differential privacy: the power of a test between two normal laws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._numerics.roots import find_root
from dpinfer._validation import FloatArray
from dpinfer.privacy.guarantees._power_curve import Curve

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)

_FAR = 40.0
"""Beyond ± this the normal law has no probability left that a float can hold."""


@dataclass(frozen=True)
class GaussianCurve(Curve):
    """Power Φ(μ + Φ⁻¹(α))."""

    mu: float

    def power(self, alpha: FloatArray) -> FloatArray:
        """Return the largest power at each level."""
        return np.asarray(special.ndtr(special.ndtri(alpha) + self.mu))

    def level(self, power: FloatArray) -> FloatArray:
        """Return the smallest level at which each power is possible."""
        return np.asarray(special.ndtr(special.ndtri(power) - self.mu))

    def log_level(self, power: FloatArray) -> FloatArray:
        """Return the logarithm of that level."""
        return np.asarray(special.log_ndtr(special.ndtri(power) - self.mu))

    def crossing(self, epsilon: FloatArray) -> FloatArray:
        """Return the largest power β that is e^ε times its level or more, 0 if there is none.

        With z the quantile of β, the log ratio of power and level falls in z.
        """
        if self.mu == 0:
            return np.zeros(epsilon.shape)
        low, high = np.full(epsilon.shape, -_FAR), np.full(epsilon.shape, _FAR)

        def excess(z: FloatArray, index: NDArray[np.intp]) -> FloatArray:
            return _log_ratio(z, self.mu) - epsilon[index]

        everything = np.arange(epsilon.size)
        inside = (excess(low, everything) > 0) & (excess(high, everything) < 0)
        found = np.where(excess(low, everything) > 0, 1.0, 0.0)
        if inside.any():
            part = np.flatnonzero(inside)
            z = find_root(
                lambda x, index: excess(x, part[index]), low[part], high[part], rtol=1e-15
            )
            found[part] = special.ndtr(z[1])
        return found


def _log_ratio(z: FloatArray, mu: float) -> FloatArray:
    """Ln Φ(z) - ln Φ(z - μ)."""
    if mu >= 1.0:
        with np.errstate(over="ignore"):
            return np.asarray(special.log_ndtr(z) - special.log_ndtr(z - mu))
    # where both are close, the integral of φ/Φ between them
    x = z[:, None] - 0.5 * mu * (1.0 + _NODES)
    return np.asarray(0.5 * mu * (_hazard(x) @ _WEIGHTS))


def _hazard(x: FloatArray) -> FloatArray:
    """φ(x)/Φ(x)."""
    tail = special.erfcx(-np.minimum(x, 0.0) / np.sqrt(2.0))
    above = np.maximum(x, 0.0)
    right = np.exp(-0.5 * np.square(above)) / np.sqrt(2.0 * np.pi) / special.ndtr(above)
    return np.asarray(np.where(x < 0, np.sqrt(2.0 / np.pi) / tail, right))
