"""Intervals and p-values that hold for every sum of the noises that were published.

They need no law of a sum: only its standard deviation, and how large a share of its variance one
noise can have at most. In a best linear unbiased estimate of variance V the value y of noise
variance σ² has a weight w with w²σ² <= hV, where h is the largest variance of an estimated value
over that of its noise: w = Cov(estimate, estimated value)/σ².

Where the fourth cumulant is known too, or bounded, an envelope gives half-widths close to exact
ones. It is checked, and not proved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy import special

from dpinfer._check import FloatArray
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace, NoiseLaw
from dpinfer.mechanisms._sums.terms import kinds
from dpinfer.mechanisms.independent import groups
from dpinfer.mechanisms.law import ParametricLaw

_POINTS = 240
"""Arguments at which cumulant generating functions are looked at; a bound holds at any of them."""

_WIDE = 0.8  # σ from which on discrete Gaussian noise is bounded as Gaussian noise is
_KINDS = 64  # laws of one kind that are looked at, at most
_SHARES = 24  # largest shares h a factor of ten at which bounds of single sums are found
_LEAST_SHARE = 1e-6


@dataclass(frozen=True, eq=False)
class NoiseBound:
    """A bound on the tails of standardised sums of noises."""

    laws: tuple[NoiseLaw, ...]  # the laws of the noises, each of shape (l,)
    # (l,): the largest share h, in (0, 1], that a noise of each of these laws has in the variance
    # of a sum
    shares: tuple[FloatArray, ...]
    known: bool = True  # whether these are all; otherwise only Chebyshev's inequality holds

    @classmethod
    def of(cls, parts: Iterable[tuple[NoiseLaw, int, FloatArray | None]]) -> NoiseBound:
        """Take the noises of vectors of so many values, with the share of each or 1."""
        laws, shares = [], []
        for law, size, share in parts:
            found = list(groups(law, size))
            kind = kinds(found, size)
            largest = np.zeros(int(kind.max(initial=-1)) + 1)
            np.maximum.at(largest, kind, 1.0 if share is None else share)
            for one, cells in found:
                _, first = np.unique(kind[cells], return_index=True)
                some = one.take(first) if one.shape else one
                noisy = np.atleast_1d(some.variance) > 0.0
                if noisy.any():
                    laws.append(some.take(np.flatnonzero(noisy)) if some.shape else some)
                    shares.append(np.clip(largest[kind[cells[first]]][noisy], 1e-12, 1.0))
        return cls(tuple(laws), tuple(shares))

    @classmethod
    def joined(cls, bounds: Iterable[NoiseBound]) -> NoiseBound:
        """Return the bound for sums of the noises of all."""
        every = list(bounds)
        return cls(
            tuple(law for one in every for law in one.laws),
            tuple(share for one in every for share in one.shares),
            all(one.known for one in every),
        )

    @property
    def is_gaussian(self) -> bool:
        """Whether all noise is Gaussian."""
        return self.known and all(isinstance(law, Gaussian) for law in self.laws)

    def half_widths(
        self, alpha: float, std_errors: FloatArray, share: FloatArray | None = None
    ) -> tuple[FloatArray, str]:
        """Return x with P(|error| >= x) <= alpha for errors of these standard deviations, and how.

        ``share`` is the largest share of one noise in the variance of each, where it is known.
        """
        if share is None:
            size, how = self._standard(alpha)
            return size * std_errors, f"{size:.4g} standard errors, {how}"
        known = np.maximum(np.where(std_errors > 0.0, share, 0.0), _LEAST_SHARE)
        number = np.ceil(_SHARES * np.log10(np.minimum(known, 1.0))).astype(np.intp)
        used, which = np.unique(number, return_inverse=True)
        found = [self._with_shares(10.0 ** (at / _SHARES))._standard(alpha) for at in used]
        sizes = np.array([one for one, _ in found])
        how = " or ".join(sorted({one for _, one in found}))
        low, high = sizes.min(initial=np.inf), sizes.max(initial=0.0)
        return sizes[which] * std_errors, f"{low:.4g} to {high:.4g} standard errors, {how}"

    def _with_shares(self, most: float) -> NoiseBound:
        shares = tuple(np.minimum(one, most) for one in self.shares)
        return NoiseBound(self.laws, shares, self.known)

    def _standard(self, alpha: float) -> tuple[float, str]:
        """Return a proved bound in standard deviations, and by what it is one."""
        chernoff = self.chernoff(alpha)
        if self.known and all(isinstance(law, (Laplace, Gaussian)) for law in self.laws):
            most = [
                float(s.max())
                for law, s in zip(self.laws, self.shares, strict=True)
                if isinstance(law, Laplace)
            ]
            cubic = cubic_bound(alpha, max(most, default=0.0))
            if cubic < chernoff:
                return cubic, "by the largest sum of equal Laplace noises"
        return chernoff, "by Chernoff's inequality"

    def pvalues(self, score: FloatArray) -> FloatArray:
        """Return upper bounds on P(|error| >= score) for errors in standard deviations."""
        s, cgf = self._cumulants
        size = np.abs(score)
        log = np.full(size.shape, -2.0 * np.log(np.maximum(size, 1.0)))  # Chebyshev's inequality
        for at, bound in zip(s, cgf, strict=True):
            log = np.minimum(log, np.log(2.0) + bound - at * size)
        return np.asarray(np.exp(np.minimum(log, 0.0)))

    def chernoff(self, alpha: float) -> float:
        """Return x such that |error| >= x standard deviations has a chance of alpha at most."""
        s, cgf = self._cumulants
        found = ((cgf + np.log(2.0 / alpha)) / s).min(initial=np.inf)
        return float(min(found, 1.0 / np.sqrt(alpha)))

    @cached_property
    def _cumulants(self) -> tuple[FloatArray, FloatArray]:
        """Points s and bounds on ln E exp(sX) for sums X of variance 1.

        For a noise of variance v, ln E exp(wse) = w²v·K(ws)/(w²v) <= w²v·sup K(u)/(u²v)·s² over
        u <= s√(h/v); the w²v add up to 1.
        """
        limit = np.inf
        for law, share in zip(self.laws, self.shares, strict=True):
            if not (self.known and isinstance(law, ParametricLaw)):
                return np.empty(0), np.empty(0)
            scale = np.sqrt(share / law.variance)
            limit = min(limit, float((np.atleast_1d(law._abscissa) / scale).min()))
        s = np.linspace(0.0, min(limit, 40.0), _POINTS + 2)[1:-1]
        growth = np.full(s.size, 0.5)
        for each, shares in zip(self.laws, self.shares, strict=True):
            law, share = _dominating(each, shares)
            if isinstance(each, DiscreteGaussian):
                wide = np.broadcast_to(each.sigma >= _WIDE, shares.shape)
                if wide.any():  # K(u) <= σ²u²/2, and σ² is hardly more than the variance
                    most = np.max(np.where(wide, np.square(each.sigma) / each.variance, 0.0))
                    growth = np.maximum(growth, 0.5 * float(most))
                law, share = law.take(np.flatnonzero(~wide)) if law.shape else law, share[~wide]
            step = max(1, (1 << 20) // s.size)
            for start in range(0, share.size, step):
                part: Any = law.take(slice(start, start + step)) if law.shape else law
                some = share[start : start + step]
                u = s[:, np.newaxis] * np.sqrt(some / np.asarray(part.variance))
                with np.errstate(over="ignore"):
                    found = part._cgf(u.astype(np.complex128)).real / some
                ratio = np.maximum.accumulate(found / np.square(s)[:, np.newaxis], axis=0)
                growth = np.maximum(growth, ratio.max(axis=1))
        return s, growth * np.square(s)

    @cached_property
    def kurtosis(self) -> float | None:
        """Largest excess kurtosis of a sum; None where the envelope was not checked for the laws.

        Σ w⁴κ₄ <= max(w²σ²·κ₄/σ⁴)·Σ w²σ².
        """
        if not self.known or not are_checked(self.laws):
            return None
        parts = zip(self.laws, self.shares, strict=True)
        return max((float((share * kurtosis(law)).max()) for law, share in parts), default=0.0)

    @cached_property
    def step(self) -> float:
        """Largest weight of whole-numbered noise in an error, in standard deviations of that."""
        return max(
            (
                float((np.sqrt(share) / np.asarray(law.std)).max())
                for law, share in zip(self.laws, self.shares, strict=True)
                if law.is_integer
            ),
            default=0.0,
        )


def _dominating(law: NoiseLaw, share: FloatArray) -> tuple[NoiseLaw, FloatArray]:
    """Return fewer laws with shares of which the bounds hold for all of these.

    With u = s√(h/v), K(u)/(hs²) is the same for all Gaussian and all Laplace noise of a share h.
    That of geometric noise, where K = -ln(1 - v(cosh u - 1)), falls with its variance v.
    """
    if not law.shape or not isinstance(law, (Laplace, Gaussian, Geometric)):
        return law, share
    if not isinstance(law, Geometric):
        at = np.array([int(np.argmax(share))])
        return law.take(at), share[at]
    order = np.argsort(law.scale)
    starts = np.unique(np.linspace(0, order.size, _KINDS, endpoint=False).astype(np.intp))
    return law.take(order[starts]), np.maximum.reduceat(share[order], starts)


CHECKED = (Laplace, Gaussian, Geometric, DiscreteGaussian, Exact)
"""Laws of which sums have been compared with the envelope."""


def are_checked(laws: Iterable[NoiseLaw]) -> bool:
    """Tell whether the envelope has been compared with sums of these laws."""
    return all(isinstance(law, CHECKED) for law in laws)


def kurtosis(law: NoiseLaw) -> FloatArray:
    """Excess kurtosis of the noise of each cell, or of all; 0 for laws that may have none.

    Of discrete Gaussian noise, by Cauchy's formula: κ₄/24 is the mean of K(z)/z⁴ on a circle
    within the strip, up to terms of degree 68. From σ = 2 on it is below 1e-30.
    """
    if isinstance(law, Laplace):
        return np.full(np.size(law.scale), _LAPLACE_KURTOSIS)
    if isinstance(law, Geometric):
        return np.atleast_1d(_LAPLACE_KURTOSIS + 1.0 / np.asarray(law.variance))
    if not isinstance(law, DiscreteGaussian):
        return np.zeros(1)
    found = np.zeros(np.size(law.sigma))
    sigma = np.atleast_1d(law.sigma)
    at = np.flatnonzero(sigma < 2.0)
    if at.size:
        some = DiscreteGaussian(sigma=sigma[at])
        radius = np.minimum(1.0 / np.asarray(some.std), 1.0)
        turn = np.exp(2j * np.pi * (np.arange(16) + 0.5) / 64.0)[:, np.newaxis]  # a quarter
        mean = (some._cgf(turn * radius) / turn**4).real.mean(axis=0)
        found[at] = 24.0 * mean / (np.square(radius) * np.asarray(some.variance)) ** 2
    return found


# An envelope of exact laws: equal Laplace noises, and one with a Gaussian rest.

LEVELS = (1e-3, 0.5)
"""Values of alpha between which the envelope was compared with exact laws."""

_KURTOSES = 300  # values of the kurtosis, up to that of Laplace noise, at which it is tabulated
_LAPLACE_KURTOSIS = 3.0
_SHORT = 1e-4  # part of a half-width by which exact laws were larger at most: it is added
_NODES = 300  # at which the density of a gamma variable is summed


def envelope(alpha: float, excess: FloatArray) -> FloatArray:
    """Return half-widths in standard deviations for sums of this excess kurtosis."""
    table = _envelope_table(float(alpha))
    return np.interp(excess, np.linspace(0.0, _LAPLACE_KURTOSIS, table.size), table)


@lru_cache(maxsize=64)
def _envelope_table(alpha: float) -> FloatArray:
    """Return the largest of three quantiles: normal, variance gamma, Laplace and Gaussian.

    The last two with room for what exact laws were found to exceed them by.
    """
    excess = np.linspace(0.0, _LAPLACE_KURTOSIS, _KURTOSES + 1)[1:]
    root, weight = _gamma_roots(_LAPLACE_KURTOSIS / excess)
    share = np.sqrt(excess / _LAPLACE_KURTOSIS)
    normal = float(-special.ndtri(0.5 * alpha))
    equal = _solved(
        lambda x: (weight * special.ndtr(-x[:, np.newaxis] / root)).sum(axis=1), alpha, excess.size
    )
    one = _solved(lambda x: _one_laplace(x, share), alpha, excess.size)
    return np.concatenate([[normal], np.maximum(normal, (1.0 + _SHORT) * np.maximum(equal, one))])


def _gamma_roots(shape: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return √V at nodes and their weights, shape (k, N), for V = Gamma(shape)/shape.

    The trapezoidal rule in ln V, between points beyond which 1e-20 is left.
    """
    low = np.log(special.gammaincinv(shape, 1e-20))[:, np.newaxis]
    high = np.log(special.gammainccinv(shape, 1e-20))[:, np.newaxis]
    y = low + (high - low) * (np.arange(_NODES) / (_NODES - 1.0))
    shape = shape[:, np.newaxis]
    weight = np.exp(shape * y - np.exp(y) - special.gammaln(shape)) * (high - low) / (_NODES - 1.0)
    return np.exp(0.5 * y) / np.sqrt(shape), weight


def _one_laplace(x: FloatArray, share: FloatArray) -> FloatArray:
    """P(X > x) of one Laplace noise with a share of the variance 1, and a Gaussian rest."""
    scale, sigma = np.sqrt(0.5 * share), np.sqrt(np.maximum(1.0 - share, 1e-12))
    ratio = sigma / scale
    # e^(r²/2 ± x/b)·Φ̄(r ± x/σ), by logarithms, as its factors overflow
    near = np.exp(0.5 * ratio**2 - x / scale + special.log_ndtr(x / sigma - ratio))
    far = np.exp(0.5 * ratio**2 + x / scale + special.log_ndtr(-x / sigma - ratio))
    return np.asarray(special.ndtr(-x / sigma) + 0.5 * (near - far))


def _solved(tail: Callable[[FloatArray], FloatArray], alpha: float, size: int) -> FloatArray:
    """Return x with P(X > x) = alpha/2 by bisection; the upper end."""
    low, high = np.zeros(size), np.full(size, 40.0)
    for _ in range(60):
        middle = 0.5 * (low + high)
        above = tail(middle) > 0.5 * alpha
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return high


@lru_cache(maxsize=512)
def cubic_bound(alpha: float, share: float) -> float:
    """Return x with P(|X| >= x) <= alpha for sums X of Laplace and Gaussian noise of variance 1.

    No Laplace noise has more than ``share`` of the variance. X = √V·Z, and the variance V is at
    most V* = Gamma(τ)/τ, τ = 1/share, in convex order: means are equal, and jump measures weighted
    by x are mixtures of exponential laws, which are stochastically smaller. E f(√V·Z) is convex in
    V for even f with a fourth derivative >= 0, so that E f(X) <= E f(X*), for f = (|x| - c)³ beyond
    c. X is symmetric and unimodal, X = U·Y with U uniform, and 1 - x/y <= (27/64)(y - c)⁴ /
    (4y(x - c)³): P(|X| >= x) <= (27/64)·E f(X*)/(x - c)³ for all c.
    """
    root, weight = _gamma_roots(np.array([1.0 / max(share, _LEAST_SHARE)]))
    c = np.linspace(0.0, 20.0, 241)[:, np.newaxis]
    k = c / root
    third = (k**2 + 2.0) * np.exp(-0.5 * k**2) / np.sqrt(2.0 * np.pi)
    third -= (k**3 + 3.0 * k) * special.ndtr(-k)
    found = (2.0 * root**3 * weight * np.maximum(third, 0.0)).sum(axis=1)
    # with room for the rounding of the difference, of 1e-13 at c = 0
    return float((c[:, 0] + np.cbrt((27.0 / 64.0) * (found * (1.0 + 1e-9) + 1e-15) / alpha)).min())
