"""The Tulap mechanism: the canonical noise of the testing literature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpinfer._check import ComplexArray, FloatArray, check_array, check_broadcast
from dpinfer.mechanisms.law import INTEGER_RANGE, ContinuousLaw
from dpinfer.mechanisms.laws import Geometric

# Moments of a density that falls geometrically from unit interval to unit interval, to an end.


NEGLIGIBLE = 1e-150
"""Arguments at which a limit is exact, and beyond which complex division may underflow."""


def truncated_variance(rate: FloatArray, bound: FloatArray) -> FloatArray:
    """Variance on (-c, c) as a ratio of sums of positive terms, in units of the central density."""
    last, start, width = _last_interval(bound)
    centre = np.minimum(bound, 0.5)
    mass, square = _geometric_moments(rate, last - 1.0)
    edge = np.exp(-last * rate) * width
    numerator = centre**3 / 3.0 + square + mass / 12.0
    numerator += edge * (start**2 + start * width + width**2 / 3.0)
    return np.asarray(numerator / (centre + mass + edge))


def rounded_variance(rate: FloatArray, bound: FloatArray) -> FloatArray:
    """Return the variance of the same after rounding to whole numbers."""
    last, _, width = _last_interval(bound)
    mass, square = _geometric_moments(rate, last - 1.0)
    edge = np.exp(-last * rate) * width
    return np.asarray((square + edge * last**2) / (np.minimum(bound, 0.5) + mass + edge))


def _last_interval(bound: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Middle k, start and width of the interval that ends at c; it is empty where c <= 1/2."""
    last = np.maximum(np.rint(bound), 1.0)
    return last, last - 0.5, np.maximum(bound - last + 0.5, 0.0)


def _geometric_moments(rate: FloatArray, count: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Σ b^j and Σ j²·b^j over j = 1..n, b = exp(-rate), without cancellation.

    A sum over 1..2m is the one over 1..m plus b^m times a shifted copy of it; the binary digits of
    n, from the highest, say when to append one more term.
    """
    rate, count = np.broadcast_arrays(rate, count)
    n, zeroth, first, second = (np.zeros(count.shape) for _ in range(4))
    digits = int(np.frexp(np.max(count, initial=1.0))[1])
    for digit in reversed(range(digits)):
        shift = np.exp(-n * rate)
        second = second + shift * (second + 2.0 * n * first + n**2 * zeroth)
        first = first + shift * (first + n * zeroth)
        zeroth = zeroth + shift * zeroth
        n = 2.0 * n
        odd = np.floor(count / 2.0**digit) % 2.0
        n = n + odd
        term = odd * np.exp(-n * rate)
        zeroth, first, second = zeroth + term, first + n * term, second + n**2 * term
    return zeroth, second


def truncated_log_mgf(
    s: ComplexArray, rate: FloatArray, bound: FloatArray, *, whole: bool = False
) -> ComplexArray:
    """Log of the integral of exp(sx)·b^abs(k(x)) over (-c, c), k(x) the nearest whole number.

    With ``whole``, that of exp(sk(x))·b^abs(k(x)). Evaluated as the log of a sum of exponentials,
    which neither overflows nor underflows.
    """
    last, start, width = _last_interval(bound)
    centre = np.minimum(bound, 0.5)
    middle = last if whole else start + 0.5 * width
    spread = np.zeros_like(s) if whole else s
    with np.errstate(divide="ignore"):
        interval = log_sinhc(0.5 * spread)
        edge = np.log(width) + log_sinhc(0.5 * width * spread) - last * rate
    terms = np.stack(
        np.broadcast_arrays(
            np.log(2.0 * centre) + log_sinhc(centre * spread),
            interval + _log_geometric_sum(s - rate, last - 1.0),
            interval + _log_geometric_sum(-s - rate, last - 1.0),
            edge + middle * s,
            edge - middle * s,
        )
    )
    peak = terms.real.max(axis=0)
    with np.errstate(divide="ignore"):
        return np.asarray(peak + np.log(np.exp(terms - peak).sum(axis=0)))


def _log_geometric_sum(w: ComplexArray, count: FloatArray) -> ComplexArray:
    """Log Σ exp(wj) over j = 1..n; -inf for n = 0."""
    w, count = np.broadcast_arrays(w, count)
    # from the larger end downwards, so that the ratio stays bounded
    fall = np.where(w.real > 0, -w, w)
    flat = np.abs(fall) < NEGLIGIBLE
    safe = np.where(flat, -1.0, fall)
    ratio = np.where(flat, count, special.expm1(count * safe) / special.expm1(safe))
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(w.real > 0, count * w, w) + np.log(ratio))


def log_sinhc(z: ComplexArray) -> ComplexArray:
    """Log(sinh(z)/z), an even function."""
    z = np.where(z.real < 0, -z, z)
    flat = np.abs(z) < NEGLIGIBLE
    safe = np.where(flat, 1.0, z)
    # sinh(z)/z = exp(z)·(1 - exp(-2z))/(2z)
    with np.errstate(divide="ignore"):
        value = z + np.log(-special.expm1(-2.0 * safe) / (2.0 * safe))
    return np.asarray(np.where(flat, 0.0, value))


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

        It has b = exp(-ε) and q = 2δb/(1-b+2δb), for ε > 0 and δ in [0, 1).
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

    def _cgf(self, s: ComplexArray) -> ComplexArray:
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
        if np.any(np.asarray(self.truncation) > 0.5):
            return self._isf(rng.random(shape))
        noise = np.asarray(rng.random(shape))
        noise -= 0.5
        noise += Geometric(scale=self.scale)._rvs(shape, rng)
        if np.any(self.truncation) and (outside := np.abs(noise) > self._bound).any():
            own = self._parameters().items()
            law = self._with({name: np.broadcast_to(x, shape)[outside] for name, x in own})
            law = law if self.shape else self
            noise[outside] = law._rvs((int(np.count_nonzero(outside)),), rng)
        return noise
