"""The discrete Gaussian mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpinfer._validation import FloatArray
from dpinfer.mechanisms import _theta
from dpinfer.mechanisms._calibration import zcdp_sigma
from dpinfer.mechanisms._guide_table import WORTHWHILE, guide_table
from dpinfer.mechanisms._law import INTEGER_RANGE, IntegerLaw
from dpinfer.mechanisms._sampling import discrete_gaussian_draws, rounded_normal_draws

LARGEST_TABULATED = 512.0
"""Up to this σ a guide table decides 9 in 10 draws or more by a single look-up."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DiscreteGaussian(IntegerLaw):
    """Discrete Gaussian noise: P(k) proportional to ``exp(-k**2 / (2*sigma**2))``, k whole.

    Parameters
    ----------
    sigma : float or array of float
        The parameter σ > 0, in units of the query. The standard deviation of the noise is
        slightly below it, by less than one part in 10⁷ once σ ≥ 1. An array gives every cell its
        own.

    Raises
    ------
    InvalidParameterError
        If ``sigma`` is not within [1e-100, 1e15].

    Notes
    -----
    An L2 sensitivity of Δ₂ and a budget of ρ-zCDP give σ² = Δ₂²/(2ρ), as for the Gaussian. It is
    meant for integer-valued queries only: on any other query, neighbouring databases give releases
    with disjoint supports. A sum of discrete Gaussians is not a discrete Gaussian; use
    ``WeightedSum``.

    The normaliser Σ exp(-k²/(2σ²)) is summed as it stands for small σ and by Poisson summation,
    σ√(2π)·Σ exp(-2π²σ²j²), for large σ. Tails are sums of positive terms, or Euler-Maclaurin
    sums around a scaled complementary error function, accurate to about 1e-13 relative.

    References
    ----------
    Canonne, C. L., Kamath, G. and Steinke, T. (2020). The discrete Gaussian for differential
    privacy. Advances in Neural Information Processing Systems 33. arXiv:2004.00010, Definition 1
    and Theorem 4.

    Examples
    --------
    >>> noise = DiscreteGaussian.from_rho(0.02)
    >>> noise.sigma
    5.0
    >>> noise.isf(0.025), noise.cdf(-11).round(12)
    (np.float64(10.0), np.float64(0.017710733047))
    """

    sigma: float | FloatArray

    def __post_init__(self) -> None:
        self._set("sigma", self.sigma, **INTEGER_RANGE)

    @classmethod
    def from_rho(cls, rho: ArrayLike, *, sensitivity: ArrayLike = 1.0) -> Self:
        """Noise that makes an integer query of L2 ``sensitivity`` ρ-zCDP: σ² = Δ₂²/(2ρ).

        Parameters
        ----------
        rho : float or array of float
            The budget ρ > 0.
        sensitivity : float or array of float
            The L2 sensitivity Δ₂ > 0 of the query.

        Returns
        -------
        DiscreteGaussian
            The calibrated law.
        """
        return cls(sigma=zcdp_sigma(rho, sensitivity))

    def _variance(self) -> FloatArray:
        return _theta.variance(np.asarray(self.sigma))

    def _logpmf(self, k: FloatArray) -> FloatArray:
        sigma = np.asarray(self.sigma)
        return np.asarray(-0.5 * np.square(k / sigma) - _theta.log_normaliser(sigma))

    def _tail(self, k: FloatArray) -> FloatArray:
        # 1 - P(e > -k-1) for negative k, where the second tail is at most one half
        upper = np.exp(self._log_upper_tail(np.where(k >= 0, k, -k - 1.0)))
        return np.where(k >= 0, upper, 1.0 - upper)

    def _logtail(self, k: FloatArray) -> FloatArray:
        logupper = self._log_upper_tail(np.where(k >= 0, k, -k - 1.0))
        return np.where(k >= 0, logupper, np.log1p(-np.exp(logupper)))

    def _log_upper_tail(self, k: FloatArray) -> FloatArray:
        """Log P(e > k) for k >= 0: the first term of the sum, times the sum relative to it."""
        sigma = np.asarray(self.sigma)
        first = k + 1.0
        logsum = np.log(_theta.relative_tail(first, sigma)) - _theta.log_normaliser(sigma)
        return np.asarray(-0.5 * np.square(first / sigma) + logsum)

    def _isf_start(self, q: FloatArray) -> FloatArray:
        # P(e > k) is close to the normal tail at k + 1/2
        start = np.ceil(-special.ndtri(q) * np.asarray(self.sigma) - 0.5)
        return np.asarray(np.maximum(start, 0.0))

    def _cf(self, t: FloatArray) -> FloatArray:
        return _theta.characteristic(t, np.asarray(self.sigma))

    @property
    def _abscissa(self) -> FloatArray:
        return np.full(self.shape, np.inf)

    def _cgf(self, s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return _theta.cumulant(s, np.asarray(self.sigma))

    def _rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
        sigma = np.asarray(self.sigma)
        if sigma.ndim == 0 and sigma > LARGEST_TABULATED:
            return rounded_normal_draws(float(sigma), shape, rng)
        if sigma.ndim == 0 and prod(shape) >= WORTHWHILE:
            return guide_table(self).draw(shape, rng)
        return discrete_gaussian_draws(sigma, shape, rng)
