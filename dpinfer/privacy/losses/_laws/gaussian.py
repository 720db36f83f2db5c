"""Gaussian noise, moved: the loss is N(μ²/2, μ²)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.privacy.losses._laws.law import ComplexArray, LossLaw


@dataclass(frozen=True)
class GaussianLoss(LossLaw):
    """The loss of N(0, 1) against N(μ, 1), by its ``squared`` distance μ², which adds."""

    squared: float

    @property
    def mu(self) -> float:
        """The distance μ."""
        return float(np.sqrt(self.squared))

    @property
    def mean(self) -> float:
        """μ²/2."""
        return 0.5 * self.squared

    @property
    def variance(self) -> float:
        """μ²."""
        return self.squared

    def cgf(self, z: ComplexArray) -> ComplexArray:
        """μ²z(z+1)/2."""
        return np.asarray(0.5 * self.squared * z * (z + 1.0))

    def log_decay(self, t: FloatArray, theta: float) -> FloatArray:
        """-μ²t²/2, exactly."""
        return np.asarray(-0.5 * self.squared * np.square(t))

    def rvs(self, count: int, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw from the normal law of the sum."""
        total = count * self.squared
        return np.asarray(0.5 * total + np.sqrt(total) * rng.standard_normal(size))
