"""Pure and approximate differential privacy: three straight lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.privacy.guarantees._power_curve import Curve


@dataclass(frozen=True)
class PiecewiseCurve(Curve):
    """Power min(1, e^ε·α + δ, 1 - e^{-ε}(1 - α - δ)); pure differential privacy has δ = 0."""

    epsilon: float
    delta: float

    @property
    def at_zero(self) -> float:
        """Return the power at level 0."""
        return self.delta

    def power(self, alpha: FloatArray) -> FloatArray:
        """Return the largest power at each level."""
        with np.errstate(over="ignore"):
            steep = np.exp(self.epsilon) * alpha + self.delta
        # 1 - e^{-ε}(1 - α - δ) without cancellation
        flat = -np.expm1(-self.epsilon) + (alpha + self.delta) * np.exp(-self.epsilon)
        return np.asarray(np.minimum(np.minimum(steep, flat), 1.0))

    def level(self, power: FloatArray) -> FloatArray:
        """Return the smallest level at which each power is possible."""
        low = (power - self.delta) * np.exp(-self.epsilon)
        with np.errstate(over="ignore"):
            high = power - self.delta - np.expm1(self.epsilon) * (1.0 - power)
        return np.asarray(np.maximum(np.maximum(low, high), 0.0))

    def log_level(self, power: FloatArray) -> FloatArray:
        """Return the logarithm of that level."""
        with np.errstate(divide="ignore"):
            low = np.log(np.maximum(power - self.delta, 0.0)) - self.epsilon
        return np.maximum(low, super().log_level(power))

    def crossing(self, epsilon: FloatArray) -> FloatArray:
        """Return the largest power β that is e^ε times its level or more, 0 if there is none."""
        beyond = epsilon > self.epsilon
        gap = np.where(beyond, -np.expm1(np.minimum(self.epsilon - epsilon, 0.0)), 1.0)
        steep = np.where(beyond, self.delta / gap, np.inf)
        rest = -np.expm1(-self.epsilon) + self.delta * np.exp(-self.epsilon)
        flat = rest / -np.expm1(-self.epsilon - epsilon)
        return np.asarray(np.minimum(np.minimum(steep, flat), 1.0))
