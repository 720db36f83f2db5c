"""The two-sided geometric mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpinfer._validation import FloatArray, check_array
from dpinfer.mechanisms._law import IntegerLaw


@dataclass(frozen=True, kw_only=True, eq=False)
class Geometric(IntegerLaw):
    """Two-sided geometric noise with P(k) = (1-a)/(1+a)·a^abs(k), a = exp(-1/scale)."""

    scale: float | FloatArray

    def __post_init__(self) -> None:
        self._set("scale", self.scale, gt=0)

    @classmethod
    def from_epsilon(cls, epsilon: ArrayLike, *, sensitivity: ArrayLike = 1.0) -> Self:
        """Noise that makes a counting query of L1 ``sensitivity`` ε-differentially private."""
        budget = check_array(epsilon, "epsilon", gt=0)
        return cls(scale=check_array(sensitivity, "sensitivity", gt=0) / budget)

    def _variance(self) -> FloatArray:
        # 2a/(1-a)² = 1/(2 sinh²(1/(2s))), without cancellation at large s
        return 0.5 / np.square(np.sinh(0.5 / np.asarray(self.scale)))

    def _logpmf(self, k: FloatArray) -> FloatArray:
        rate = 1.0 / np.asarray(self.scale)
        return np.log(np.tanh(0.5 * rate)) - np.abs(k) * rate

    def _tail(self, k: FloatArray) -> FloatArray:
        rate = 1.0 / np.asarray(self.scale)
        share = 1.0 / (1.0 + np.exp(-rate))
        upper = np.exp(-np.maximum(k + 1.0, 0.0) * rate) * share
        lower = 1.0 - np.exp(np.minimum(k, 0.0) * rate) * share
        return np.where(k >= 0, upper, lower)

    def _logtail(self, k: FloatArray) -> FloatArray:
        rate = 1.0 / np.asarray(self.scale)
        logshare = -np.log1p(np.exp(-rate))
        lower = np.log1p(-np.exp(np.minimum(k, -1.0) * rate + logshare))
        return np.where(k >= 0, -(k + 1.0) * rate + logshare, lower)

    def _isf_start(self, q: FloatArray) -> FloatArray:
        scale = np.asarray(self.scale)
        with np.errstate(divide="ignore"):
            upper = -np.log(2.0 * np.minimum(q, 0.5))
            lower = np.log(2.0 * np.minimum(1.0 - q, 0.5))
        return np.floor(np.where(q <= 0.5, upper, lower) * scale)

    def _cf(self, t: FloatArray) -> FloatArray:
        # (1-a)²/(1-2a cos t+a²) = 1/(1 + sin²(t/2)/sinh²(1/(2s)))
        ratio = np.sin(0.5 * t) / np.sinh(0.5 / np.asarray(self.scale))
        return 1.0 / (1.0 + np.square(ratio))

    @property
    def _abscissa(self) -> FloatArray:
        return 1.0 / np.asarray(self.scale)

    def _cgf(self, s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        ratio = np.sinh(0.5 * s) / np.sinh(0.5 / np.asarray(self.scale))
        return -np.log1p(-ratio) - np.log1p(ratio)

    def _rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
        p = -np.expm1(-1.0 / np.asarray(self.scale))
        return rng.geometric(p, shape) - rng.geometric(p, shape)
