"""A law of noise that is not in the package: what a user writes to add one."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from dpinfer.mechanisms import ContinuousLaw


@dataclass(frozen=True, kw_only=True, eq=False)
class Logistic(ContinuousLaw):
    """Logistic noise with density ``exp(-x/s) / (s * (1 + exp(-x/s))**2)``, s the scale.

    The logarithm of the density has slopes within ±1/s, so that a query of L1 sensitivity Δ
    is published with (Δ/s)-differential privacy.
    """

    scale: float | np.ndarray

    def __post_init__(self) -> None:
        self._set("scale", self.scale, gt=0.0, ge=1e-100, le=1e100)

    @classmethod
    def from_epsilon(cls, epsilon: float, *, sensitivity: float = 1.0) -> "Logistic":
        """Noise that makes a query ε-differentially private."""
        return cls(scale=sensitivity / epsilon)

    def _variance(self) -> np.ndarray:
        return np.square(np.pi * np.asarray(self.scale)) / 3.0

    def _logpdf(self, x: np.ndarray) -> np.ndarray:
        z = np.abs(x) / self.scale  # the law is symmetric
        return -z - 2.0 * np.log1p(np.exp(-z)) - np.log(self.scale)

    def _sf(self, x: np.ndarray) -> np.ndarray:
        return special.expit(-x / np.asarray(self.scale))

    def _logsf(self, x: np.ndarray) -> np.ndarray:
        return special.log_expit(-x / np.asarray(self.scale))

    def _isf(self, q: np.ndarray) -> np.ndarray:
        return -special.logit(q) * self.scale

    def _cf(self, t: np.ndarray) -> np.ndarray:
        z = np.pi * np.abs(np.asarray(self.scale) * t)
        # z/sinh(z), without overflow and without 0/0
        return np.where(z > 0, 2.0 * z * np.exp(-z) / -np.expm1(-2.0 * np.maximum(z, 1e-300)), 1.0)

    @property
    def _abscissa(self) -> np.ndarray:
        return 1.0 / np.asarray(self.scale)

    def _cgf(self, s: np.ndarray) -> np.ndarray:
        z = np.asarray(self.scale) * s
        return special.loggamma(1.0 - z) + special.loggamma(1.0 + z)

    def _rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
        return rng.logistic(scale=self.scale, size=shape)
