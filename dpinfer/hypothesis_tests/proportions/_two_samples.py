"""Null distributions of the difference of two noisy proportions, whose common value is unknown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from dpinfer._numerics.binomial import binom_pmf
from dpinfer._numerics.roots import find_root
from dpinfer._validation import Alternative, FloatArray
from dpinfer.hypothesis_tests.proportions._difference import ERROR, NoisyDifference
from dpinfer.hypothesis_tests.proportions._nuisance import GuaranteedNull, certified_maximum
from dpinfer.hypothesis_tests.proportions._plug_in import TwoPooled
from dpinfer.mechanisms._fast_sum import fast_sum
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.mechanisms.noisy_binomial import NoisyBinomial
from dpinfer.results.null_distribution import AsymptoticNull, ExactNull, NullDistribution
from dpinfer.results.simulation import Simulation, simulate_null

if TYPE_CHECKING:
    import pandas as pd

Method = Literal["exact", "plug-in", "monte-carlo", "normal"]
Rows = NDArray[np.intp]

_EDGE = 1e-8
"""How near to 0 and π/2 the angle asin√p comes, divided by √(n₁ + n₂) near 0."""

_FINEST = 2e-5
"""Least tolerance of a maximum."""

_CHUNK = 64
"""Rows evaluated together."""

_BRACKET = 1e-4
"""Precision to which the ends of a confidence set are found; the outer end is taken."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """Noisy counts of successes and their numbers of trials, of shape (m,).

    Parameters
    ----------
    count, nobs : array of float
        What was published.
    noise : NoiseLaw
        Law of the noise of ``count``, of shape () or (m,).
    nobs_noise : NoiseLaw or None
        Law of the noise that only ``nobs`` has; None where ``nobs`` is known.
    is_total : bool
        Whether ``count`` is a summand of ``nobs``, which then has its noise too.
    """

    count: FloatArray
    nobs: FloatArray
    noise: NoiseLaw
    nobs_noise: NoiseLaw | None
    is_total: bool

    @cached_property
    def trials(self) -> FloatArray:
        """Number of trials, estimated where it is not known."""
        return np.maximum(np.rint(self.nobs), 1.0)

    def variance(self, value: FloatArray) -> FloatArray:
        """Variance of (count - value·nobs)/nobs that is due to noise."""
        own = np.asarray(self.noise.variance)
        if self.nobs_noise is None:
            return np.asarray(own / np.square(self.trials))
        weight = 1.0 - value if self.is_total else 1.0
        other = np.asarray(self.nobs_noise.variance)
        return np.asarray((weight**2 * own + value**2 * other) / np.square(self.trials))


@dataclass(frozen=True, kw_only=True, eq=False)
class TwoSamples:
    """Pairs of samples whose proportions are equal under the null hypothesis.

    Parameters
    ----------
    samples : pair of Sample
        Both with rows of shape (m,).
    nuisance_alpha : float
        Probability with which the confidence set may miss the common proportion.
    shape : tuple of int
        Shape of the answer, () or (m,).
    labels : pandas.Index or None
        One label for each row.
    """

    samples: tuple[Sample, Sample]
    nuisance_alpha: float
    shape: tuple[int, ...]
    labels: pd.Index | None

    @property
    def tolerance(self) -> float:
        """What a p-value maximised over the confidence set may exceed its maximum by."""
        return max(0.5 * self.nuisance_alpha, _FINEST)

    @cached_property
    def difference(self) -> FloatArray:
        """Difference of the proportions; with noise in ``nobs``, of products that need no ratio."""
        first, second = self.samples
        if first.nobs_noise is None:
            return np.asarray(first.count / first.nobs - second.count / second.nobs)
        crossed = first.count * second.nobs - second.count * first.nobs
        return np.asarray(crossed / (first.trials * second.trials))

    @cached_property
    def value(self) -> FloatArray:
        """Estimate of the common proportion, at least half a success away from 0 and 1."""
        first, second = self.samples
        total = first.trials + second.trials
        least = 0.5 / total
        return np.clip((first.count + second.count) / total, least, 1.0 - least)

    @cached_property
    def spread(self) -> FloatArray:
        """Estimated standard deviation of the difference, noise included."""
        p = self.value
        first, second = self.samples
        sampling = p * (1.0 - p) * (1.0 / first.trials + 1.0 / second.trials)
        return np.asarray(np.sqrt(sampling + first.variance(p) + second.variance(p)))

    @cached_property
    def statistic(self) -> FloatArray:
        """The difference in standard deviations."""
        return np.asarray(self.difference / self.spread)

    @cached_property
    def groups(self) -> list[tuple[NoisyDifference, Rows]]:
        """Laws of the difference, with the rows that have them."""
        first, second = self.samples
        members: dict[tuple[float, float, NoiseLaw, NoiseLaw], list[int]] = {}
        for row in range(self.difference.size):
            laws = (_law_of_row(first.noise, row), _law_of_row(second.noise, row))
            key = (float(first.trials[row]), float(second.trials[row]), *laws)
            members.setdefault(key, []).append(row)
        return [
            (NoisyDifference((int(n1), int(n2)), (law1, law2)), np.array(rows))
            for (n1, n2, law1, law2), rows in members.items()
        ]

    @cached_property
    def confidence_set(self) -> tuple[FloatArray, FloatArray]:
        """Ends, as angles asin√p, of the values that the total of the successes does not refute."""
        low, high = np.empty((2, self.difference.size))
        total = self.samples[0].count + self.samples[1].count
        for law, rows in self.groups:
            law.check_size(np.full(1, 0.5))  # wherever the common proportion is looked for
            ends = _plausible(law, total[rows], 0.5 * self.nuisance_alpha)
            low[rows], high[rows] = ends
        return low, high

    def plug_in(self, alternative: Alternative, difference: FloatArray) -> FloatArray:
        """Tails of the difference at the estimated proportion, row by row."""
        out = np.empty(difference.size)
        for law, rows in self.groups:
            ordered = rows[np.argsort(self.value[rows])]
            for start in range(0, ordered.size, _CHUNK):
                part = ordered[start : start + _CHUNK]
                out[part] = law.tail(alternative, difference[part], self.value[part])
        return out

    def largest(self, alternative: Alternative, difference: FloatArray) -> FloatArray:
        """P-values at their largest over the confidence set, plus the chance that it misses.

        Outcomes are ordered by a plug-in p-value; where the tables for that would be long, or one
        noise only is continuous, by the difference itself.
        """
        out = np.empty(difference.size)
        low, high = self.confidence_set
        total = self.samples[0].count + self.samples[1].count
        for law, rows in self.groups:
            information = 4.0 * sum(law.nobs)  # about asin√p, in the counts without noise
            pooled = TwoPooled(law.nobs, law.noises, self.nuisance_alpha)
            absolute, relative = pooled.error if pooled.is_available else (0.0, 0.0)
            levels = pooled.log_level(difference[rows], total[rows])
            for row, level in zip(rows, levels, strict=True):
                span = _proportion(np.array([low[row], high[row]]))
                if pooled.is_available:
                    counts = law.counts(0, span), law.counts(1, span)
                    table = pooled.table(alternative, float(difference[row]), level, counts)
                    tail = partial(_chance_at_angle, law.nobs, counts, table)
                else:
                    d = np.asarray(difference[row])
                    tail = partial(_tail_at_angle, law, alternative, d, span)
                found = certified_maximum(tail, low[row], high[row], information, self.tolerance)
                out[row] = found * (1.0 + relative) + absolute
        return np.minimum(out + self.nuisance_alpha, 1.0)

    def plug_in_tail(self, alternative: Alternative, z: FloatArray) -> FloatArray:
        """Tails at a statistic, at the estimated proportion."""
        return self.plug_in(alternative, self._scaled(z)).reshape(self.shape)

    def largest_tail(self, alternative: Alternative, z: FloatArray) -> FloatArray:
        """Tails at a statistic, at their largest over the confidence set."""
        return self.largest(alternative, self._scaled(z)).reshape(self.shape)

    def _scaled(self, z: FloatArray) -> FloatArray:
        return np.broadcast_to(z, self.shape).reshape(-1) * self.spread


def _law_of_row(law: NoiseLaw, row: int) -> NoiseLaw:
    return law.take(row) if law.shape else law


def _proportion(angle: FloatArray) -> FloatArray:
    return np.asarray(np.sin(angle) ** 2)


def _tail_at_angle(
    law: NoisyDifference, alternative: Alternative, d: FloatArray, span: FloatArray, x: FloatArray
) -> FloatArray:
    return law.tail(alternative, d, _proportion(x), span)


def _chance_at_angle(
    nobs: tuple[int, int], counts: tuple[FloatArray, FloatArray], table: FloatArray, x: FloatArray
) -> FloatArray:
    first, second = (
        binom_pmf(k, np.asarray(float(n)), _proportion(x)[:, np.newaxis])
        for k, n in zip(counts, nobs, strict=True)
    )
    return np.asarray(np.minimum(((first @ table) * second).sum(axis=1), 1.0))


def _plausible(
    law: NoisyDifference, total: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Angles at which the tails of a noisy total of successes are equal to ``level``."""
    nobs = np.asarray(float(sum(law.nobs)))
    noise = fast_sum(np.ones(2), list(law.noises))
    first = np.full(total.size, _EDGE / np.sqrt(nobs))
    last = np.full(total.size, 0.5 * np.pi - 2.0 * _EDGE)

    def upper(x: FloatArray, rows: Rows) -> FloatArray:
        distribution = NoisyBinomial(nobs=nobs, value=_proportion(x), noise=noise)
        return level - distribution.upper(total[rows])

    def lower(x: FloatArray, rows: Rows) -> FloatArray:
        distribution = NoisyBinomial(nobs=nobs, value=_proportion(x), noise=noise)
        return distribution.lower(total[rows]) - level

    return _crossing(upper, first, last)[0], _crossing(lower, first, last)[1]


def _crossing(
    function: Callable[[FloatArray, Rows], FloatArray], first: FloatArray, last: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bracket the sign change of decreasing functions; an end where there is none."""
    everything = np.arange(first.size)
    before = function(first, everything) <= 0
    after = ~before & (function(last, everything) >= 0)
    low, high = np.where(after, last, first), np.where(before, first, last)
    inside = np.flatnonzero(~before & ~after)
    if inside.size:
        low[inside], high[inside] = find_root(
            lambda x, index: function(x, inside[index]),
            first[inside],
            last[inside],
            rtol=0.0,
            atol=_BRACKET,
        )
    return low, high


def exact(
    test: TwoSamples, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values that hold whatever the common proportion."""
    pvalue = test.largest(alternative, test.difference).reshape(test.shape)
    tails = (partial(test.largest_tail, side) for side in ("larger", "smaller", "two-sided"))
    return pvalue, GuaranteedNull(*tails)


def plug_in(
    test: TwoSamples, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values at the estimated proportion."""
    pvalue = test.plug_in(alternative, test.difference).reshape(test.shape)
    larger, smaller = (partial(test.plug_in_tail, side) for side in ("larger", "smaller"))
    return pvalue, ExactNull(larger, smaller, error=ERROR)


def monte_carlo(
    test: TwoSamples, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values by simulation at the estimated proportion and numbers of trials."""
    draws = [DrawDifference.of_row(test, row) for row in range(test.difference.size)]
    statistic = test.statistic.reshape(test.shape)
    null = simulate_null(draws, statistic, simulation, alternative=alternative)
    return null.pvalue(statistic, alternative), null


def normal(
    test: TwoSamples, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values in the limit of many trials."""
    null = AsymptoticNull.normal()
    return null.pvalue(test.statistic.reshape(test.shape), alternative), null


@dataclass(frozen=True, eq=False)
class DrawDifference:
    """Draws the z statistic of a pair of samples with one common proportion."""

    samples: tuple[Sample, Sample]
    value: float
    spread: float

    @classmethod
    def of_row(cls, test: TwoSamples, row: int) -> DrawDifference:
        """Return what draws the statistic of one row."""
        first, second = (_row_of(sample, row) for sample in test.samples)
        return cls((first, second), float(test.value[row]), float(test.spread[row]))

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw so many."""
        first, second = self.samples
        count1, nobs1 = self._published(first, size, rng)
        count2, nobs2 = self._published(second, size, rng)
        if first.nobs_noise is None:
            return (count1 / nobs1 - count2 / nobs2) / self.spread
        scale = float(first.trials * second.trials) * self.spread
        return (count1 * nobs2 - count2 * nobs1) / scale

    def _published(
        self, sample: Sample, size: int, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        nobs = np.asarray(sample.trials)
        successes = rng.binomial(int(nobs), self.value, size).astype(np.float64)
        noise = sample.noise._rvs((size,), rng)
        if sample.nobs_noise is not None:
            other = sample.nobs_noise._rvs((size,), rng)
            nobs = nobs + other + noise if sample.is_total else nobs + other
        return successes + noise, nobs


def _row_of(sample: Sample, row: int) -> Sample:
    other = sample.nobs_noise
    return Sample(
        count=np.asarray(sample.count[row]),
        nobs=np.asarray(sample.nobs[row]),
        noise=_law_of_row(sample.noise, row),
        nobs_noise=None if other is None else _law_of_row(other, row),
        is_total=sample.is_total,
    )


NULLS: dict[
    Method, Callable[[TwoSamples, Alternative, Simulation], tuple[FloatArray, NullDistribution]]
] = {"exact": exact, "plug-in": plug_in, "monte-carlo": monte_carlo, "normal": normal}
"""The p-values and the null distribution of each method."""
