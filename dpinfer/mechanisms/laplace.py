"""The Laplace mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpinfer._validation import FloatArray, check_array
from dpinfer.mechanisms._law import ContinuousLaw


@dataclass(frozen=True, kw_only=True, eq=False)
class Laplace(ContinuousLaw):
    """Laplace noise with density ``exp(-abs(x)/scale) / (2*scale)``.

    Parameters
    ----------
    scale : float or array of float
        The scale b > 0 of the noise, in units of the query; its standard deviation is √2·b.
        An array gives every cell its own scale.

    Raises
    ------
    InvalidParameterError
        If ``scale`` is not a finite number > 0.

    Notes
    -----
    An L1 sensitivity of Δ₁ and a budget ε give b = Δ₁/ε, which is ε-differentially private for
    queries of any real value (Dwork and Roth 2014, Theorem 3.6, doi:10.1561/0400000042).

    Examples
    --------
    >>> noise = Laplace.from_epsilon(0.5)
    >>> noise.scale, noise.variance
    (2.0, np.float64(8.0))
    >>> noise.sf(2 * np.log(10)).round(12)
    np.float64(0.05)
    """

    scale: float | FloatArray

    def __post_init__(self) -> None:
        self._set("scale", self.scale, gt=0)

    @classmethod
    def from_epsilon(cls, epsilon: ArrayLike, *, sensitivity: ArrayLike = 1.0) -> Self:
        """Noise that makes a query of L1 ``sensitivity`` ``epsilon``-differentially private."""
        budget = check_array(epsilon, "epsilon", gt=0)
        return cls(scale=check_array(sensitivity, "sensitivity", gt=0) / budget)

    def _variance(self) -> FloatArray:
        return np.asarray(2.0 * np.square(self.scale))

    def _logpdf(self, x: FloatArray) -> FloatArray:
        scale = np.asarray(self.scale)
        return -np.abs(x) / scale - np.log(2.0 * scale)

    def _sf(self, x: FloatArray) -> FloatArray:
        half = 0.5 * np.exp(-np.abs(x) / self.scale)
        return np.where(x >= 0, half, 1.0 - half)

    def _logsf(self, x: FloatArray) -> FloatArray:
        z = x / np.asarray(self.scale)
        return np.where(z >= 0, -z - np.log(2.0), np.log1p(-0.5 * np.exp(np.minimum(z, 0.0))))

    def _isf(self, q: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            upper = -np.log(2.0 * np.minimum(q, 0.5))
            lower = np.log(2.0 * np.minimum(1.0 - q, 0.5))
        return np.where(q <= 0.5, upper, lower) * self.scale

    def _cf(self, t: FloatArray) -> FloatArray:
        return 1.0 / (1.0 + np.square(self.scale * t))

    @property
    def _abscissa(self) -> FloatArray:
        return 1.0 / np.asarray(self.scale)

    def _cgf(self, s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        z = np.asarray(self.scale) * s
        return -np.log1p(-z) - np.log1p(z)

    def _rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
        return rng.laplace(0.0, 1.0, shape) * self.scale
