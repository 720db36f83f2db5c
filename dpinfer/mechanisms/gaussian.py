"""The Gaussian mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpinfer._validation import FloatArray, check_option
from dpinfer.mechanisms._calibration import (
    CALIBRATIONS,
    approximate_sigma,
    gdp_sigma,
    zcdp_sigma,
)
from dpinfer.mechanisms._law import CONTINUOUS_RANGE, ContinuousLaw


@dataclass(frozen=True, kw_only=True, eq=False)
class Gaussian(ContinuousLaw):
    """Normal noise N(0, σ²).

    Parameters
    ----------
    sigma : float or array of float
        The standard deviation σ > 0 of the noise, in units of the query. An array gives every
        cell its own.

    Raises
    ------
    InvalidParameterError
        If ``sigma`` is not within [1e-100, 1e100].

    Notes
    -----
    With an L2 sensitivity of Δ₂ the noise is ρ-zCDP for σ² = Δ₂²/(2ρ), μ-GDP for μ = Δ₂/σ, and
    (ε, δ)-DP where Φ(μ/2 - ε/μ) - e^ε·Φ(-μ/2 - ε/μ) ≤ δ. It is never ε-DP with δ = 0.

    References
    ----------
    Balle, B. and Wang, Y.-X. (2018). Improving the Gaussian mechanism for differential privacy:
    analytical calibration and optimal denoising. Proceedings of Machine Learning Research 80,
    394-403. arXiv:1805.06530, Theorem 8.

    Bun, M. and Steinke, T. (2016). Concentrated differential privacy: simplifications, extensions,
    and lower bounds. doi:10.1007/978-3-662-53641-4_24, Proposition 1.6.

    Dong, J., Roth, A. and Su, W. J. (2022). Gaussian differential privacy. Journal of the Royal
    Statistical Society B 84(1), 3-37. doi:10.1111/rssb.12454, Theorem 1.

    Dwork, C. and Roth, A. (2014). The algorithmic foundations of differential privacy.
    doi:10.1561/0400000042, Theorem A.1.

    Examples
    --------
    >>> Gaussian.from_rho(0.125, sensitivity=3.0).sigma
    6.0
    >>> Gaussian.from_mu(0.5).sigma
    2.0
    >>> round(Gaussian.from_epsilon_delta(0.5, 1e-6).sigma, 10)
    8.0576184807
    >>> round(Gaussian.from_epsilon_delta(0.5, 1e-6, calibration="classical").sigma, 10)
    10.5976050537
    """

    sigma: float | FloatArray

    def __post_init__(self) -> None:
        self._set("sigma", self.sigma, **CONTINUOUS_RANGE)

    @classmethod
    def from_rho(cls, rho: ArrayLike, *, sensitivity: ArrayLike = 1.0) -> Self:
        """Noise that makes a query ρ-zCDP: σ² = Δ₂²/(2ρ).

        Parameters
        ----------
        rho : float or array of float
            The budget ρ > 0.
        sensitivity : float or array of float
            The L2 sensitivity Δ₂ > 0 of the query.

        Returns
        -------
        Gaussian
            The calibrated law.
        """
        return cls(sigma=zcdp_sigma(rho, sensitivity))

    @classmethod
    def from_mu(cls, mu: ArrayLike, *, sensitivity: ArrayLike = 1.0) -> Self:
        """Noise that makes a query μ-GDP (Gaussian differentially private): σ = Δ₂/μ.

        Parameters
        ----------
        mu : float or array of float
            The budget μ > 0.
        sensitivity : float or array of float
            The L2 sensitivity Δ₂ > 0 of the query.

        Returns
        -------
        Gaussian
            The calibrated law.
        """
        return cls(sigma=gdp_sigma(mu, sensitivity))

    @classmethod
    def from_epsilon_delta(
        cls,
        epsilon: ArrayLike,
        delta: ArrayLike,
        *,
        sensitivity: ArrayLike = 1.0,
        calibration: Literal["analytic", "classical"] = "analytic",
    ) -> Self:
        """Noise that makes a query (ε, δ)-differentially private.

        Parameters
        ----------
        epsilon : float or array of float
            The budget ε > 0; below 1 for the classical calibration.
        delta : float or array of float
            The budget δ in (0, 1).
        sensitivity : float or array of float
            The L2 sensitivity Δ₂ > 0 of the query.
        calibration : {"analytic", "classical"}, default "analytic"
            The smallest σ that is private (Balle and Wang 2018), or the larger textbook value
            σ = Δ₂·√(2·ln(1.25/δ))/ε, whose proof needs ε < 1.

        Returns
        -------
        Gaussian
            The calibrated law.

        Raises
        ------
        InvalidParameterError
            If a parameter is out of range, or ε ≥ 1 with the classical calibration.
        """
        solve = CALIBRATIONS[check_option(calibration, "calibration", CALIBRATIONS)]
        return cls(sigma=approximate_sigma(solve, epsilon, delta, sensitivity))

    def _variance(self) -> FloatArray:
        return np.asarray(np.square(np.asarray(self.sigma)))

    def _logpdf(self, x: FloatArray) -> FloatArray:
        sigma = np.asarray(self.sigma)
        return np.asarray(-0.5 * np.square(x / sigma) - np.log(np.sqrt(2.0 * np.pi) * sigma))

    def _sf(self, x: FloatArray) -> FloatArray:
        return np.asarray(special.ndtr(-x / self.sigma))

    def _logsf(self, x: FloatArray) -> FloatArray:
        return np.asarray(special.log_ndtr(-x / self.sigma))

    def _isf(self, q: FloatArray) -> FloatArray:
        return np.asarray(-special.ndtri(q) * self.sigma)

    def _cf(self, t: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-0.5 * np.square(np.asarray(self.sigma) * t)))

    @property
    def _abscissa(self) -> FloatArray:
        return np.full(self.shape, np.inf)

    def _cgf(self, s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return np.asarray(0.5 * np.square(np.asarray(self.sigma) * s), dtype=np.complex128)

    def _rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
        noise = rng.standard_normal(shape)
        noise *= self.sigma
        return noise
