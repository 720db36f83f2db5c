"""The Laplace mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpinfer._validation import FloatArray
from dpinfer.mechanisms._calibration import pure_scale
from dpinfer.mechanisms._law import CONTINUOUS_RANGE, ContinuousLaw
from dpinfer.mechanisms._sampling import laplace_draws


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
        If ``scale`` is not within [1e-100, 1e100].

    Notes
    -----
    An L1 sensitivity of Δ₁ and a budget ε give b = Δ₁/ε, which is ε-differentially private for
    queries of any real value. The variance is 2b².

    References
    ----------
    Dwork, C. and Roth, A. (2014). The algorithmic foundations of differential privacy. Foundations
    and Trends in Theoretical Computer Science 9(3-4), 211-407. doi:10.1561/0400000042,
    Definition 3.3 and Theorem 3.6.

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
        self._set("scale", self.scale, **CONTINUOUS_RANGE)

    @classmethod
    def from_epsilon(cls, epsilon: ArrayLike, *, sensitivity: ArrayLike = 1.0) -> Self:
        """Noise that makes a query ε-differentially private: b = Δ₁/ε.

        Parameters
        ----------
        epsilon : float or array of float
            The budget ε > 0.
        sensitivity : float or array of float
            The L1 sensitivity Δ₁ > 0 of the query.

        Returns
        -------
        Laplace
            The calibrated law.
        """
        return cls(scale=pure_scale(epsilon, sensitivity))

    def _variance(self) -> FloatArray:
        return np.asarray(2.0 * np.square(np.asarray(self.scale)))

    def _logpdf(self, x: FloatArray) -> FloatArray:
        scale = np.asarray(self.scale)
        return np.asarray(-np.abs(x) / scale - np.log(2.0 * scale))

    def _sf(self, x: FloatArray) -> FloatArray:
        upper = 0.5 * np.exp(-np.abs(x) / np.asarray(self.scale))
        return np.asarray(np.where(x >= 0, upper, 1.0 - upper))

    def _logsf(self, x: FloatArray) -> FloatArray:
        logupper = -np.abs(x) / np.asarray(self.scale) - np.log(2.0)
        return np.asarray(np.where(x >= 0, logupper, np.log1p(-np.exp(logupper))))

    def _isf(self, q: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            upper = -np.log(2.0 * np.minimum(q, 1.0 - q)) * self.scale
        return np.where(q <= 0.5, upper, -upper)

    def _cf(self, t: FloatArray) -> FloatArray:
        return np.asarray(1.0 / (1.0 + np.square(np.asarray(self.scale) * t)))

    @property
    def _abscissa(self) -> FloatArray:
        return 1.0 / np.asarray(self.scale)

    def _cgf(self, s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        # two factors of 1 - (bs)²: accurate close to the abscissa
        z = np.asarray(self.scale) * s
        return np.asarray(-special.log1p(-z) - special.log1p(z))

    def _rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
        return laplace_draws(np.asarray(self.scale), shape, rng)
