"""The two-sided geometric mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpinfer._validation import FloatArray
from dpinfer.mechanisms._calibration import pure_scale
from dpinfer.mechanisms._guide_table import WORTHWHILE, guide_table
from dpinfer.mechanisms._law import INTEGER_RANGE, IntegerLaw
from dpinfer.mechanisms._sampling import geometric_draws

LARGEST_TABULATED = 100.0
"""Up to this scale a guide table decides 19 in 20 draws or more by a single look-up."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Geometric(IntegerLaw):
    """Two-sided geometric noise: P(k) = (1-a)/(1+a)·a^abs(k) with a = exp(-1/scale), k whole.

    Parameters
    ----------
    scale : float or array of float
        The scale s > 0 of the noise, in units of the query; for large s the standard deviation is
        close to √2·s. An array gives every cell its own scale.

    Raises
    ------
    InvalidParameterError
        If ``scale`` is not within [1e-100, 1e15].

    Notes
    -----
    An L1 sensitivity of Δ₁ and a budget ε give s = Δ₁/ε, which is ε-differentially private for
    integer-valued (counting) queries *only*: on any other query, neighbouring databases give
    releases with disjoint supports, which tells them apart for certain. The variance is
    2a/(1-a)². SciPy's ``dlaplace`` is the same law with the parameter 1/s.

    References
    ----------
    Ghosh, A., Roughgarden, T. and Sundararajan, M. (2012). Universally utility-maximizing privacy
    mechanisms. SIAM Journal on Computing 41(6), 1673-1693. doi:10.1137/09076828X.

    Examples
    --------
    >>> noise = Geometric.from_epsilon(0.5)
    >>> noise.scale, noise.variance.round(12)
    (2.0, np.float64(7.835396178066))
    >>> noise.isf(0.05), noise.pmf([0, 0.5])
    (np.float64(5.0), array([0.24491866, 0.        ]))
    """

    scale: float | FloatArray

    def __post_init__(self) -> None:
        self._set("scale", self.scale, **INTEGER_RANGE)

    @classmethod
    def from_epsilon(cls, epsilon: ArrayLike, *, sensitivity: ArrayLike = 1.0) -> Self:
        """Noise that makes a counting query ε-differentially private: s = Δ₁/ε.

        Parameters
        ----------
        epsilon : float or array of float
            The budget ε > 0.
        sensitivity : float or array of float
            The L1 sensitivity Δ₁ > 0 of the query.

        Returns
        -------
        Geometric
            The calibrated law.
        """
        return cls(scale=pure_scale(epsilon, sensitivity))

    @property
    def _rate(self) -> FloatArray:
        return 1.0 / np.asarray(self.scale)

    def _variance(self) -> FloatArray:
        return 2.0 * np.exp(-self._rate) / np.square(np.expm1(-self._rate))

    def _logpmf(self, k: FloatArray) -> FloatArray:
        return np.log(np.tanh(0.5 * self._rate)) - np.abs(k) / self.scale

    def _tail(self, k: FloatArray) -> FloatArray:
        # P(e > k) = a^(k+1)/(1+a) for k >= 0, and 1 - P(e > -k-1) below
        upper = np.exp(-np.where(k >= 0, k + 1.0, -k) / self.scale) / (1.0 + np.exp(-self._rate))
        return np.where(k >= 0, upper, 1.0 - upper)

    def _logtail(self, k: FloatArray) -> FloatArray:
        logupper = -np.where(k >= 0, k + 1.0, -k) / self.scale - np.log1p(np.exp(-self._rate))
        return np.where(k >= 0, logupper, np.log1p(-np.exp(logupper)))

    def _isf_start(self, q: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            steps = -self.scale * (np.log(q) + np.log1p(np.exp(-self._rate)))
        return np.maximum(np.ceil(steps) - 1.0, 0.0)

    def _cf(self, t: FloatArray) -> FloatArray:
        # (1-a)²/(1-2a·cos t+a²) = 1/(1 + 2v·sin²(t/2)) with the variance v
        return 1.0 / (1.0 + 2.0 * self._variance() * np.square(np.sin(0.5 * t)))

    @property
    def _abscissa(self) -> FloatArray:
        return self._rate

    def _cgf(self, s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        # the same at t = -is, as a product of two factors: accurate close to the abscissa
        ratio = np.sinh(0.5 * s) / np.sinh(0.5 * self._rate)
        return np.asarray(-special.log1p(-ratio) - special.log1p(ratio))

    def _rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
        scale = np.asarray(self.scale)
        if scale.ndim == 0 and scale <= LARGEST_TABULATED and prod(shape) >= WORTHWHILE:
            return guide_table(self).draw(shape, rng)
        return geometric_draws(scale, shape, rng)
