"""Gaussian differential privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpinfer._numerics.roots import find_root
from dpinfer._validation import FloatArray
from dpinfer.mechanisms._calibration import gaussian_logdelta
from dpinfer.privacy.guarantees._guarantee import Guarantee, refuse_zero_delta
from dpinfer.privacy.guarantees.renyi import RDP
from dpinfer.privacy.guarantees.zcdp import ZCDP


@dataclass(frozen=True, repr=False)
class GDP(Guarantee):
    """μ-Gaussian differential privacy: as hard to tell apart as N(0, 1) and N(μ, 1).

    Parameters
    ----------
    mu : float
        The distance μ >= 0 of the two normal laws.
    neighbours : {"add-remove", "replace"}, default "add-remove"
        Whether neighbouring data sets differ by one record more, or by one that is changed.

    Raises
    ------
    InvalidParameterError
        If ``mu`` is negative or above 1e100.

    Notes
    -----
    It is the same as (ε, δ(ε))-differential privacy for all ε, with

        δ(ε) = Φ(μ/2 - ε/μ) - e^ε·Φ(-μ/2 - ε/μ),

    so that :meth:`delta_at` and :meth:`epsilon_at` lose nothing. It implies μ²/2-zCDP, and no
    ε-DP unless μ = 0.

    References
    ----------
    Dong, J., Roth, A. and Su, W. J. (2022). Gaussian differential privacy. Journal of the Royal
    Statistical Society B 84(1), 3-37. doi:10.1111/rssb.12454, Corollary 1 and Theorem 3 (groups).

    Examples
    --------
    >>> guarantee = GDP(1.0)
    >>> round(guarantee.delta_at(1.0), 9), round(guarantee.epsilon_at(1e-6), 9)
    (0.126936738, 4.886554117)
    >>> guarantee.to_zcdp()
    ZCDP(rho=0.5, neighbours='add-remove')
    """

    mu: float

    def _check(self) -> None:
        self._set("mu")

    def to_gdp(self) -> GDP:
        """Return the guarantee itself."""
        return self

    def to_zcdp(self) -> ZCDP:
        """Zero-concentrated differential privacy: ρ = μ²/2, attained by the Gaussian.

        Returns
        -------
        ZCDP
            The guarantee ρ.

        Raises
        ------
        InvalidParameterError
            If ρ is above 1e100.
        """
        return ZCDP(0.5 * self.mu * self.mu, neighbours=self.neighbours)

    def to_rdp(self, order: ArrayLike) -> RDP:
        """Rényi differential privacy: the bounds αμ²/2, attained by the Gaussian.

        Parameters
        ----------
        order : float or array of float
            The orders α > 1.

        Returns
        -------
        RDP
            The bounds at the orders.

        Raises
        ------
        InvalidParameterError
            If an order is not within (1, 1e100].
        """
        return self.to_zcdp().to_rdp(order)

    def _delta_at(self, epsilon: FloatArray) -> FloatArray:
        if self.mu == 0:
            return np.zeros(epsilon.shape)
        log_delta = _log_delta(self.mu, np.atleast_1d(epsilon))
        return np.exp(log_delta).reshape(epsilon.shape)

    def _epsilon_at(self, delta: FloatArray) -> FloatArray:
        if self.mu == 0:
            return np.zeros(delta.shape)
        refuse_zero_delta(delta, self)
        log_delta = np.atleast_1d(np.log(delta)).ravel()
        # δ(ε) <= Φ(μ/2 - ε/μ)
        upper = np.maximum(self.mu * (0.5 * self.mu - special.ndtri_exp(log_delta)), 0.0)
        lower = np.zeros(upper.shape)
        start = _log_delta(self.mu, lower)
        upper = np.where(start <= log_delta, 0.0, upper * (1.0 + 1e-12))
        lower = np.where(start <= log_delta, 0.0, lower)

        def excess(epsilon: FloatArray, index: NDArray[np.intp]) -> FloatArray:
            return np.where(upper[index] > 0, _log_delta(self.mu, epsilon) - log_delta[index], 0.0)

        return find_root(excess, lower, upper)[1].reshape(delta.shape)

    def _group(self, size: int) -> Self:
        return type(self)(size * self.mu, neighbours=self.neighbours)


def _log_delta(mu: float, epsilon: FloatArray) -> FloatArray:
    """Ln δ(ε) for every μ > 0 and ε >= 0."""
    distance = np.full(epsilon.shape, mu)
    with np.errstate(over="ignore"):
        a = epsilon / mu - 0.5 * mu
    middle = (a > -5.0) & (a < 40.0)
    log_delta = np.full(epsilon.shape, -np.inf)
    if middle.any():
        log_delta[middle] = gaussian_logdelta(distance[middle], epsilon[middle])[0]
    # nothing cancels where δ is close to 1, and e^ε·Φ(-a-μ) <= φ(a)/(a+μ)
    left = a <= -5.0
    tail = epsilon[left] + special.log_ndtr(-a[left] - mu)
    log_delta[left] = special.log_ndtr(-a[left]) + np.log1p(
        -np.exp(np.minimum(tail - special.log_ndtr(-a[left]), -1.0))
    )
    return log_delta
