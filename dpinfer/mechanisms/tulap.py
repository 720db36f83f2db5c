"""The Tulap mechanism: the canonical noise of the testing literature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpinfer._validation import FloatArray, check_array, check_broadcast
from dpinfer.mechanisms._law import INTEGER_RANGE, ContinuousLaw
from dpinfer.mechanisms._tulap_sums import log_sinhc, truncated_log_mgf, truncated_variance
from dpinfer.mechanisms.geometric import Geometric


@dataclass(frozen=True, kw_only=True, eq=False)
class Tulap(ContinuousLaw):
    """Truncated-uniform-Laplace noise: two-sided geometric plus uniform on (-1/2, 1/2).

    Parameters
    ----------
    scale : float or array of float
        The scale s > 0 of the geometric part, whose ratio is b = exp(-1/s).
    truncation : float or array of float, default 0
        The probability q in [0, 1) that is cut off, half of it in each tail: the law is the
        untruncated one conditional on its central 1 - q mass.

    Raises
    ------
    InvalidParameterError
        If ``scale`` is not within [1e-100, 1e15] or ``truncation`` is outside [0, 1).

    Notes
    -----
    The density is constant on each unit interval around a whole number k, and proportional to
    b^abs(k). For a count of sensitivity 1 and q = 2δb/(1-b+2δb), b = exp(-ε), it is (ε, δ)-DP,
    and the canonical noise of that guarantee: tests of binomial data based on the noisy count
    are uniformly most powerful among all (ε, δ)-DP tests. Where 1 - q is tiny (δ far above ε) its
    rounding as a float bounds the relative accuracy of the bounds of the support.

    References
    ----------
    Awan, J. and Slavković, A. (2018). Differentially private uniformly most powerful tests for
    binomial data. Advances in Neural Information Processing Systems 31, 4208-4218.
    arXiv:1805.09236.

    Awan, J. and Vadhan, S. (2023). Canonical noise distributions and private hypothesis tests.
    Annals of Statistics 51(2), 547-572. doi:10.1214/23-AOS2259.

    Examples
    --------
    >>> noise = Tulap.from_epsilon(1.0)
    >>> noise.variance.round(12), noise.sf([0.0, 0.5])
    (np.float64(1.924680521749), array([0.5       , 0.26894142]))
    >>> Tulap.from_epsilon(1.0, delta=0.01).isf(0.0).round(12)
    np.float64(4.402294901458)
    """

    scale: float | FloatArray
    truncation: float | FloatArray = 0.0

    def __post_init__(self) -> None:
        self._set("scale", self.scale, **INTEGER_RANGE)
        self._set("truncation", self.truncation, ge=0, lt=1)
        check_broadcast(scale=np.shape(self.scale), truncation=np.shape(self.truncation))

    @classmethod
    def from_epsilon(cls, epsilon: ArrayLike, *, delta: ArrayLike = 0.0) -> Self:
        """Noise that makes a count of sensitivity 1 (ε, δ)-differentially private.

        Parameters
        ----------
        epsilon : float or array of float
            The budget ε > 0.
        delta : float or array of float, default 0
            The δ in [0, 1).

        Returns
        -------
        Tulap
            The law with b = exp(-ε) and q = 2δb/(1-b+2δb).
        """
        budget = check_array(epsilon, "epsilon", gt=0, ge=1e-100, le=1e100)
        chance = check_array(delta, "delta", ge=0, lt=1)
        check_broadcast(epsilon=budget.shape, delta=chance.shape)
        leak = 2.0 * chance * np.exp(-budget)
        return cls(scale=1.0 / budget, truncation=leak / (leak - np.expm1(-budget)))

    @cached_property
    def _rate(self) -> FloatArray:
        return 1.0 / np.asarray(self.scale)

    @cached_property
    def _drop(self) -> FloatArray:
        """1 - b: the share of the density that is lost from one unit interval to the next."""
        return -np.expm1(-self._rate)

    @cached_property
    def _slope(self) -> FloatArray:
        """Density at a whole number k >= 0 relative to the tail there: 2(1-b)/(1+b)."""
        return np.asarray(2.0 * np.tanh(0.5 * self._rate))

    @cached_property
    def _bound(self) -> FloatArray:
        """The end c of the support, inf without truncation."""
        return self._isf(np.zeros(()))

    def _hazard(self, x: FloatArray) -> FloatArray:
        """Cumulative hazard h of the untruncated law from 0 to x >= 0: its tail is exp(-h)/2."""
        k = np.rint(x)
        # the hazard from 0 to k is k/scale, and the density around k is constant
        offset = np.where(np.isfinite(x), x, 0.0) - np.where(np.isfinite(x), k, 0.0)
        with np.errstate(divide="ignore"):
            return np.asarray(k * self._rate - np.log1p(-self._slope * offset))

    def _variance(self) -> FloatArray:
        untruncated = 2.0 * np.exp(-self._rate) / np.square(self._drop) + 1.0 / 12.0
        truncated = np.isfinite(self._bound)
        if not truncated.any():
            return untruncated
        bound = np.where(truncated, self._bound, 0.5)
        return np.where(truncated, truncated_variance(self._rate, bound), untruncated)

    def _logpdf(self, x: FloatArray) -> FloatArray:
        logpdf = (
            np.log(np.tanh(0.5 * self._rate))
            - np.rint(np.abs(x)) * self._rate
            - np.log1p(-np.asarray(self.truncation))
        )
        return np.where(np.abs(x) <= self._bound, logpdf, -np.inf)

    def _sf(self, x: FloatArray) -> FloatArray:
        upper = np.exp(self._log_upper_tail(np.abs(x)))
        return np.where(x >= 0, upper, 1.0 - upper)

    def _logsf(self, x: FloatArray) -> FloatArray:
        logupper = self._log_upper_tail(np.abs(x))
        return np.where(x >= 0, logupper, np.log1p(-np.exp(logupper)))

    def _log_upper_tail(self, x: FloatArray) -> FloatArray:
        """Log P(e > x) for x >= 0: the hazard up to x is a truncated exponential variable."""
        q = np.asarray(self.truncation)
        hazard = self._hazard(x)
        with np.errstate(divide="ignore"):
            left = np.where(q > 0, np.maximum(-np.log(q) - np.where(q > 0, hazard, 0.0), 0.0), 1.0)
            cut = np.where(q > 0, np.log(-np.expm1(-left)) - np.log1p(-q), 0.0)
        return np.asarray(-hazard + cut - np.log(2.0))

    def _pieces(self, last: float) -> tuple[FloatArray, FloatArray]:
        """Edges and densities of the intervals 0, …, ``last`` on the right, of a single law.

        The first interval begins at 0.
        """
        k = np.arange(min(last, float(np.rint(self._bound))) + 1.0)
        edges = np.minimum(np.append(0.0, k + 0.5), self._bound)
        return edges, np.exp(self._logpdf(0.5 * (edges[1:] + edges[:-1])))

    @cached_property
    def _beyond(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Ends and densities of the pieces of a truncated law; the mass and excess beyond them."""
        edges, density = self._pieces(np.inf)
        width = np.diff(edges)
        mass = np.append(np.cumsum((width * density)[:0:-1])[::-1], 0.0)
        more = width[1:] * mass[1:] + 0.5 * density[1:] * np.square(width[1:])
        return edges[1:], density, mass, np.append(np.cumsum(more[::-1])[::-1], 0.0)

    def _expected_excess(self, y: FloatArray) -> FloatArray:
        """E[max(e - y, 0)] of a single law at y >= 0: sums of positive terms."""
        if np.isfinite(self._bound):
            ends, density, mass, excess = self._beyond
            k = np.minimum(np.rint(np.minimum(y, self._bound)), ends.size - 1).astype(np.intp)
            left = np.maximum(ends[k] - y, 0.0)
            inside = excess[k] + left * (mass[k] + 0.5 * density[k] * left)
            return np.where(y < self._bound, inside, 0.0)
        k = np.rint(y)
        left = 0.5 - (y - k)
        here = left * (1.0 - 0.5 * self._slope * (1.0 - left))
        beyond = np.exp(-self._rate) / self._drop
        return np.asarray(0.5 * np.exp(-k * self._rate) * (here + beyond))

    def _isf(self, q: FloatArray) -> FloatArray:
        tail = np.minimum(q, 1.0 - q)
        kept = 1.0 - np.asarray(self.truncation)
        # the hazard h of the answer: exp(-h) = truncation + 2·tail·(1 - truncation)
        survival = self.truncation + 2.0 * tail * kept
        with np.errstate(divide="ignore"):
            near = -np.log1p(-kept * (1.0 - 2.0 * tail))
            hazard = np.where(survival > 0.5, near, -np.log(survival))
        # the unit interval around k begins where the hazard is k/scale - log(2/(1+b))
        k = np.floor((hazard - np.log1p(-0.5 * self._drop)) * self.scale)
        rest = np.where(np.isfinite(k), hazard - np.where(np.isfinite(k), k, 0.0) * self._rate, 0.0)
        x = k - np.expm1(-rest) / self._slope
        return np.where(q <= 0.5, x, -x)

    def _cf(self, t: FloatArray) -> FloatArray:
        truncated = np.isfinite(self._bound)
        wave = np.square(np.sin(0.5 * t)) * np.exp(-self._rate) / np.square(self._drop)
        untruncated = np.sinc(t / (2.0 * np.pi)) / (1.0 + 4.0 * wave)
        if not truncated.any():
            return untruncated
        return np.where(truncated, np.exp(self._cgf(np.asarray(1j * t))).real, untruncated)

    @property
    def _abscissa(self) -> FloatArray:
        return np.where(np.asarray(self.truncation) > 0, np.inf, self._rate)

    def _cgf(self, s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        truncated = np.isfinite(self._bound)
        ratio = np.sinh(0.5 * np.where(truncated, 0.0, s)) / np.sinh(0.5 * self._rate)
        untruncated = log_sinhc(0.5 * s) - special.log1p(-ratio) - special.log1p(ratio)
        if not truncated.any():
            return np.asarray(untruncated)
        bound = np.where(truncated, self._bound, 0.5)
        scaled = truncated_log_mgf(s, self._rate, bound)
        mass = truncated_log_mgf(np.zeros((), dtype=np.complex128), self._rate, bound)
        return np.where(truncated, scaled - mass, untruncated)

    def _rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
        if np.any(self.truncation):
            return self._isf(rng.random(shape))
        noise = rng.random(shape)
        noise -= 0.5
        noise += Geometric(scale=self.scale)._rvs(shape, rng)
        return noise
