"""The test of two proportions, as one of two noisy counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import ClassVar, Self

import numpy as np

from dpinfer._check import Alternative, FloatArray
from dpinfer._numerics.counts import LOG_NEGLIGIBLE, binom_radius
from dpinfer.hypothesis_tests._two_samples import NULLS, Sample, TwoSamples
from dpinfer.hypothesis_tests.power._two_counts import Method, TwoCounts
from dpinfer.mechanisms._noisy_count import NoisyBinomial, work_at_a_point
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.weighted_sum import fast_sum
from dpinfer.results.simulation import Simulation

_SHARES = 60.0
"""About how many common proportions a guaranteed p-value tries."""

_ONE = 0.25
"""What the estimated one takes, as many p-values share its laws."""

_LAW, _PRODUCT, _ENDS = 200.0, 0.01, 5.0
"""Work of a law at one of them, of a pair of counts in a product, of a count in the total."""

_NO_CHANCE = 1e-18
"""Probability beyond which whole-numbered noise is left out."""

_UNUSED = Simulation(reps=1, rng=np.random.default_rng(0))


@dataclass(frozen=True, eq=False)
class TwoBinomials(TwoCounts):
    """Numbers of successes of two samples."""

    _most_guaranteed: ClassVar[int] = 200

    @classmethod
    def of(
        cls,
        nobs: tuple[float, float],
        value: tuple[float, float],
        noises: tuple[NoiseLaw, NoiseLaw],
        alternative: Alternative,
        method: Method,
        nuisance_alpha: float,
    ) -> Self:
        """Return the counts of so many trials with these true proportions."""
        first, second = (
            NoisyBinomial(nobs=np.asarray(n), value=np.asarray(p), noise=noise)
            for n, p, noise in zip(nobs, value, noises, strict=True)
        )
        return cls((first, second), alternative, method, nuisance_alpha)

    def pvalues(
        self, first: FloatArray, second: FloatArray, method: Method | None = None
    ) -> FloatArray:
        """P-values of pairs of published counts, shape (m,)."""
        test = self._test(first, second)
        return NULLS[method or self.method](test, self.alternative, _UNUSED)[0]

    def _contrast(self, first: FloatArray, second: FloatArray) -> FloatArray:
        return self._test(first, second).statistic

    def _test(self, first: FloatArray, second: FloatArray) -> TwoSamples:
        samples = [
            Sample(
                count=count,
                nobs=np.full(count.shape, nobs),
                noise=law.noise,
                nobs_noise=None,
                is_total=False,
            )
            for count, nobs, law in zip((first, second), self._nobs, self.laws, strict=True)
        ]
        return TwoSamples(
            samples=(samples[0], samples[1]),
            nuisance_alpha=self.nuisance_alpha,
            shape=first.shape,
            labels=None,
        )

    @property
    def _work(self) -> float:
        if self.method == "normal":
            return 0.0
        noises = [law.noise for law in self.laws]
        share = self._moments[0] / sum(self._nobs)
        first, second, both = (_width(n, share) for n in (*self._nobs, sum(self._nobs)))
        is_exact = self.method == "exact"
        points = _SHARES if is_exact else _ONE
        # the ends of the confidence set are tails of the total
        found = _ENDS * both * work_at_a_point(fast_sum(np.ones(2), noises)) if is_exact else 0.0
        if self._is_whole:
            reach = sum(float(noise.isf(_NO_CHANCE)) for noise in noises)
            return found + points * (_LAW + first + second + 2.0 * reach)
        # a bilinear form, whose kernel depends on differences: few if the numbers are multiples
        step = gcd(*(int(n) for n in self._nobs))
        kernel = min(first * second, (first * self._nobs[1] + second * self._nobs[0]) / step)
        noise = fast_sum(1.0 / np.asarray(self._nobs), noises)
        pairs = first * second * _PRODUCT * (1.0 + points)
        return found + kernel * work_at_a_point(noise) + pairs + points * _LAW

    @cached_property
    def _nobs(self) -> tuple[float, float]:
        first, second = (float(law.parameters["nobs"]) for law in self.laws)
        return first, second

    def _first(self, total: FloatArray, contrast: FloatArray) -> FloatArray:
        n1, n2 = self._nobs
        scale = self._test(total, np.zeros(total.shape)).spread  # depends on the total only
        return np.asarray((total / n2 + contrast * scale) / (1.0 / n1 + 1.0 / n2))

    @property
    def _share(self) -> float:
        return self._nobs[0] / sum(self._nobs)

    @property
    def _moments(self) -> tuple[float, float]:
        values = [float(law.parameters["value"]) for law in self.laws]
        pairs = list(zip(self._nobs, values, strict=True))
        return sum(n * p for n, p in pairs), sum(n * p * (1.0 - p) for n, p in pairs)


def _width(nobs: float, share: float) -> float:
    """Return how many counts matter."""
    n = np.asarray(nobs)
    return min(2.0 * float(binom_radius(np.rint(n * share), n, LOG_NEGLIGIBLE)), nobs) + 1.0
