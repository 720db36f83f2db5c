"""The Gaussian mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._validation import FloatArray
from dpinfer.mechanisms._law import ContinuousLaw


@dataclass(frozen=True, kw_only=True, eq=False)
class Gaussian(ContinuousLaw):
    """Normal noise N(0, σ²)."""

    sigma: float | FloatArray

    def __post_init__(self) -> None:
        self._set("sigma", self.sigma, gt=0)

    def _variance(self) -> FloatArray:
        return np.square(np.asarray(self.sigma))

    def _logpdf(self, x: FloatArray) -> FloatArray:
        sigma = np.asarray(self.sigma)
        return -0.5 * np.square(x / sigma) - np.log(sigma) - 0.5 * np.log(2.0 * np.pi)

    def _sf(self, x: FloatArray) -> FloatArray:
        return np.asarray(special.ndtr(-x / self.sigma))

    def _logsf(self, x: FloatArray) -> FloatArray:
        return np.asarray(special.log_ndtr(-x / self.sigma))

    def _isf(self, q: FloatArray) -> FloatArray:
        return np.asarray(-special.ndtri(q) * self.sigma)

    def _cf(self, t: FloatArray) -> FloatArray:
        return np.exp(-0.5 * np.square(self.sigma * t))

    @property
    def _abscissa(self) -> FloatArray:
        return np.full(self.shape, np.inf)

    def _cgf(self, s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return 0.5 * np.square(np.asarray(self.sigma) * s)

    def _rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
        return rng.standard_normal(shape) * self.sigma
