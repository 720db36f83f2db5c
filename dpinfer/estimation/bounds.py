"""Intervals and p-values that hold for every sum of the noises that were published.

They need no law of a sum: only its standard deviation, and how large a share of its variance one
noise can have at most. In a best linear unbiased estimate of variance V the value y of noise
variance σ² has a weight w with w²σ² <= hV, where h is the largest variance of an estimated value
over that of its noise: w = Cov(estimate, estimated value)/σ².
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from dpinfer._check import FloatArray
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace, NoiseLaw
from dpinfer.mechanisms._sums.terms import kinds
from dpinfer.mechanisms.independent import groups
from dpinfer.mechanisms.law import ParametricLaw
from dpinfer.mechanisms.weighted_sum import WeightedSum

_POINTS = 240
"""Arguments at which cumulant generating functions are looked at; a bound holds at any of them."""

_LAPLACE_KURTOSIS = 3.0
_ENVELOPE_KURTOSIS = 3.25
"""Excess kurtosis up to which the envelope was checked; that of geometric noise is beyond 3, where
half a step of it is added."""


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
        self, alpha: float, std_errors: FloatArray, largest: float
    ) -> tuple[FloatArray, str]:
        """Return x such that |error| <= x with probability 1 - alpha, and how it was found.

        ``largest`` is the largest weight that a noise can have in an error.
        """
        proved = self.chernoff(alpha)
        envelope = self._envelope(alpha)
        if envelope is not None:
            step = 0.5 * np.minimum(std_errors * self._step, largest)
            found = np.where(np.isfinite(std_errors), envelope * std_errors + step, np.inf)
            if (found <= proved * std_errors).all():
                more = " and half a step of whole-numbered noise" if self._step else ""
                return found, (
                    f"{envelope:.4g} standard errors{more}, an envelope of exact laws that is "
                    "checked and not proved"
                )
        return proved * std_errors, f"{proved:.4g} standard errors, by Chernoff's inequality"

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
        for law, share in zip(self.laws, self.shares, strict=True):
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

    def _envelope(self, alpha: float) -> float | None:
        """Return the largest quantile that sums up to a kurtosis have, as far as is known.

        Between those of equal Laplace noises (variance gamma), and of one with a Gaussian rest, lay
        all of many; half a step of whole-numbered noise is to be added. None where that does not
        apply.
        """
        if not (self.known and all(isinstance(law, _CHECKED) for law in self.laws)):
            return None
        largest = 0.0
        for law, share in zip(self.laws, self.shares, strict=True):
            largest = max(largest, float((share * _kurtosis(law)).max()) * (1.0 + _SLACK))
        if largest > _ENVELOPE_KURTOSIS or alpha < 1e-3:
            return None
        found = float(-special.ndtri(0.5 * alpha))
        for kurtosis in (
            np.linspace(0.0, min(largest, _LAPLACE_KURTOSIS + _SLACK), 9)[1:]
            if largest > 1e-9
            else ()
        ):
            found = max(found, _variance_gamma(alpha, kurtosis), _one_laplace(alpha, kurtosis))
        return found

    @cached_property
    def _step(self) -> float:
        """Largest weight of whole-numbered noise in an error, in standard deviations of that."""
        return max(
            (
                float((np.sqrt(share) / np.asarray(law.std)).max())
                for law, share in zip(self.laws, self.shares, strict=True)
                if law.is_integer
            ),
            default=0.0,
        )


_SLACK = 1e-4  # relative error of a kurtosis, with room
_CHECKED = (Laplace, Gaussian, Geometric, DiscreteGaussian, Exact)


def _kurtosis(law: NoiseLaw) -> FloatArray:
    """Return excess kurtosis, from characteristic functions near 0."""
    std = np.atleast_1d(law.std)

    def quartic(t: float) -> FloatArray:
        log = np.log(np.atleast_1d(law._cf(t / std)))
        return np.asarray(24.0 * (log + 0.5 * t * t) / t**4)

    return np.asarray((4.0 * quartic(0.05) - quartic(0.1)) / 3.0)


def _variance_gamma(alpha: float, kurtosis: float) -> float:
    """Quantile of √V·Z, the sum of 3/kurtosis equal Laplace noises, of variance 1."""
    from scipy import optimize

    shape = 3.0 / kurtosis
    point, weight = np.polynomial.legendre.leggauss(200)
    root = np.sqrt(special.gammaincinv(shape, 0.5 * (point + 1.0)) / shape)

    def excess(x: float) -> float:
        return float(weight @ special.ndtr(-x / root)) - alpha

    return float(optimize.brentq(excess, 0.0, 60.0, xtol=1e-10))


def _one_laplace(alpha: float, kurtosis: float) -> float:
    """Quantile of one Laplace noise with a Gaussian rest, of variance 1."""
    share = min(np.sqrt(kurtosis / 3.0), 1.0)
    parts: list[Any] = [Laplace(scale=np.sqrt(0.5)), Gaussian(sigma=1.0)]
    return float(WeightedSum(np.sqrt([share, 1.0 - share]), parts).isf(0.5 * alpha))
