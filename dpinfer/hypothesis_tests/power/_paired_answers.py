"""McNemar's test, as one of two noisy counts: pairs of both kinds whose answers differ."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from dpinfer._check import Alternative, FloatArray
from dpinfer._numerics.counts import binom_pmf
from dpinfer.hypothesis_tests.power._share_of_total import Known, ShareOfTotal
from dpinfer.hypothesis_tests.power._two_counts import Method
from dpinfer.mechanisms._noisy_count import NoisyBinomial
from dpinfer.mechanisms.law import NoiseLaw

_LEFT_OUT = 1e-12
"""Probability of the published tables that are left out."""

_LOG_NEGLIGIBLE = 40.0
"""Counts less probable than the mode by exp(-40) are left out."""

_BELOW_ONE = float(np.nextafter(1.0, 0.0))


@dataclass(frozen=True, eq=False)
class DifferingPairs(ShareOfTotal):
    """Numbers of pairs with the answers (first, second) and (second, first), which add up.

    ``laws`` are those of each count by itself. Under the null hypothesis all laws are symmetric in
    the two counts, and so are the critical counts.
    """

    _most_pairs: ClassVar[int] = 1 << 22

    @classmethod
    def of(
        cls,
        nobs: float,
        value: tuple[float, float],
        noises: tuple[NoiseLaw, NoiseLaw],
        alternative: Alternative,
        method: Method,
        nuisance_alpha: float,
        known: Known,
    ) -> Self:
        """Return the counts of so many pairs with these true proportions."""
        first, second = (
            NoisyBinomial(nobs=np.asarray(nobs), value=np.asarray(p), noise=noise)
            for p, noise in zip(value, noises, strict=True)
        )
        return cls((first, second), alternative, method, nuisance_alpha, known=known)

    def sum(self, alpha: float) -> float:
        """Probability that the test rejects."""
        (low1, high1), (low2, high2) = self._ends
        first, second = np.arange(low1, high1 + 1.0), np.arange(low2, high2 + 1.0)
        joint = self._joint
        place = np.add.outer(np.arange(first.size), np.arange(second.size))
        chance = np.bincount(place.ravel(), joint.ravel())
        up_to = np.cumsum(chance)
        kept = (up_to > _LEFT_OUT) & (up_to - chance < up_to[-1] - _LEFT_OUT)
        critical = np.full(chance.size, np.inf)
        totals = low1 + low2 + np.arange(chance.size, dtype=np.float64)
        critical[kept] = self._critical_counts(alpha, totals[kept])
        needed = critical[place]
        rejected = np.zeros(place.shape, dtype=np.bool_)
        if self.alternative != "smaller":
            rejected |= first[:, np.newaxis] >= needed
        if self.alternative != "larger":
            rejected |= second >= needed
        return min(float(joint[rejected].sum()), 1.0)

    def _critical_counts(self, alpha: float, total: FloatArray) -> FloatArray:
        """Smallest count of one kind for which the test rejects, given the total."""
        side = 1 if self.alternative == "smaller" else 0
        middle = np.floor(0.5 * total)
        last = np.full(total.size, max(high for _, high in self._ends))
        first = middle + 1.0 if self.alternative == "two-sided" else total - last
        return self._critical(alpha, side, total, first, last, middle)

    @cached_property
    def _joint(self) -> FloatArray:
        """Probabilities of the published counts between their ends."""
        from scipy import signal  # slow to import

        (low1, high1), (low2, high2) = self._counts
        n, p = float(self.laws[0].parameters["nobs"]), self._value
        first = np.arange(low1, high1 + 1.0)[:, np.newaxis]
        second = np.arange(low2, high2 + 1.0)
        left = np.asarray(np.maximum(n - first, second))  # no more pairs than there are
        given = np.asarray(min(p[1] / (1.0 - p[0]), _BELOW_ONE))
        joint = binom_pmf(first, np.asarray(n), np.asarray(p[0])) * binom_pmf(second, left, given)
        joint[first + second > n] = 0.0
        for axis, law in enumerate(self.laws):
            chances = _pmf(law.noise, self._reaches[axis])
            shaped = chances[:, np.newaxis] if axis == 0 else chances[np.newaxis]
            joint = signal.fftconvolve(joint, shaped, axes=axis)
        return np.maximum(joint, 0.0)

    @cached_property
    def _counts(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """First and last count that matters, of both."""
        first, second = (law._support(_LOG_NEGLIGIBLE) for law in self.laws)
        return first, second

    @cached_property
    def _reaches(self) -> tuple[float, float]:
        """How far noise goes that matters."""
        first, second = (float(law.noise.isf(0.1 * _LEFT_OUT)) for law in self.laws)
        return first, second

    @cached_property
    def _ends(self) -> tuple[tuple[float, float], tuple[float, float]]:
        first, second = (
            (low - reach, high + reach)
            for (low, high), reach in zip(self._counts, self._reaches, strict=True)
        )
        return first, second

    def _draw(self, size: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        n, p = int(self.laws[0].parameters["nobs"]), self._value
        counts = rng.multinomial(n, [*p, max(1.0 - sum(p), 0.0)], size)
        first, second = (
            counts[:, kind] + law.noise._rvs((size,), rng) for kind, law in enumerate(self.laws)
        )
        return first, second

    @property
    def _share(self) -> float:
        return 0.5

    @property
    def _value(self) -> tuple[float, float]:
        first, second = (float(law.parameters["value"]) for law in self.laws)
        return first, second

    @property
    def _moments(self) -> tuple[float, float]:
        n, p = float(self.laws[0].parameters["nobs"]), min(sum(self._value), 1.0)
        return n * p, n * p * (1.0 - p)


def _pmf(noise: NoiseLaw, reach: float) -> FloatArray:
    """Probabilities of whole-numbered noise within reach of 0, by its tails."""
    size = np.abs(np.arange(-reach, reach + 1.0))
    return np.maximum(noise._cdf(-size) - noise._cdf(-size - 1.0), 0.0)
