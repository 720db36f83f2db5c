"""Null distributions of the difference of two noisy proportions, whose common value is unknown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from math import gcd
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import Alternative, FloatArray
from dpinfer._numerics.counts import LOG_NEGLIGIBLE, binom_pmf, binom_radius, binom_window
from dpinfer._numerics.lattice import slices
from dpinfer._numerics.roots import find_root
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests._answers import (
    GUARANTEED,
    Found,
    ThreeTails,
    in_the_limit,
    simulated,
)
from dpinfer.hypothesis_tests._plug_in import TwoPooled, certified_maximum
from dpinfer.mechanisms._noisy_count import NoisyBinomial, decaying_sums
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Exact, Geometric
from dpinfer.mechanisms.weighted_sum import WeightedSum, fast_sum
from dpinfer.results.null import ExactNull
from dpinfer.results.simulation import Simulation

ERROR = 1e-11
"""Bound on the absolute error of the tails."""

_NEGLIGIBLE = 1e-18
_MOST_CELLS = 1 << 22
_MOST_PAIRS = 1 << 28
"""Largest table of one law, and number of pairs of counts, that are gone through."""

_BLOCK = 1 << 21

_WIDE = 4.0
"""Whole-numbered noise that reaches so many times as far as the count is not added to it."""

_ROUNDING = 1e-13
"""Relative error of a computed difference of proportions."""

Pmf = tuple[FloatArray, FloatArray]
"""Whole numbers in a row, shape (k,), and their probabilities, shape (g, k)."""


@dataclass(frozen=True, eq=False)
class NoisyDifference:
    """Law of D for a pair of numbers of trials and a pair of noises, at any p."""

    nobs: tuple[int, int]
    noises: tuple[NoiseLaw, NoiseLaw]  # of shape ()

    def tail(
        self,
        alternative: Alternative,
        difference: FloatArray,
        value: FloatArray,
        span: FloatArray | None = None,
    ) -> FloatArray:
        """P(D >= d), P(D <= d) or P(abs(D) >= abs(d)) at each pair of d and p, shape (g,).

        ``span`` holds the ends of an interval of p in which more calls will be made for the same
        d: what does not depend on p is then kept.
        """
        ends = value if span is None else span
        windows = [self._window(which, ends) for which in (0, 1)]
        longest = max(high - low + 1.0 + 2.0 * reach for low, high, reach in windows)
        if value.size > 1 and longest * value.size > _MOST_CELLS:
            d = np.broadcast_to(difference, value.shape)
            half = value.size // 2
            parts = (slice(half), slice(half, None))
            return np.concatenate([self.tail(alternative, d[i], value[i], span) for i in parts])
        first = self._pmf(0, value, *windows[0])
        second = first if self._are_alike else self._pmf(1, value, *windows[1])
        if isinstance(self._noise, Exact):
            return self._by_steps(alternative, difference, first, second)
        d = np.broadcast_to(difference, value.shape)
        if (d == d[0]).all():
            return self._by_kernel(alternative, float(d[0]), first, second)
        rows = [
            self._by_kernel(alternative, float(d[i]), _row(first, i), _row(second, i))
            for i in range(d.size)
        ]
        return np.concatenate(rows)

    def check_size(self, value: FloatArray) -> None:
        for which in (0, 1):
            self._window(which, value)

    def counts(self, which: int, value: FloatArray, left_out: float) -> FloatArray:
        """Return the counts of one sample beyond which less is left out on each side, at some p."""
        low, high, _ = self._window(which, value, -np.log(left_out))
        return np.arange(low, high + 1.0)

    @property
    def _are_alike(self) -> bool:
        """Whether the two counts have one law."""
        return self.nobs[0] == self.nobs[1] and self.noises[0] == self.noises[1]

    @cached_property
    def _noise(self) -> NoiseLaw:
        """The noise of D that is not added to the counts."""
        laws = [
            Exact() if added else law for law, added in zip(self.noises, self._added, strict=True)
        ]
        return fast_sum(1.0 / np.asarray(self.nobs), laws)

    @cached_property
    def _added(self) -> tuple[bool, bool]:
        """Whether the noises are added to their counts: whole-numbered ones that are not wide."""
        n = np.asarray(self.nobs, dtype=np.float64)
        counts = np.minimum(n + 1.0, 2.0 * binom_radius(0.5 * n, n, LOG_NEGLIGIBLE))
        whole = [law.is_integer for law in self.noises]
        narrow = [
            is_whole and float(law._isf(np.asarray(_NEGLIGIBLE))) <= _WIDE * size
            for is_whole, law, size in zip(whole, self.noises, counts, strict=True)
        ]
        if narrow != whole and float(counts.prod()) <= _BLOCK:
            left = 1.0 / np.where(narrow, np.inf, self.nobs)
            if WeightedSum(left, list(self.noises)).error_bound <= ERROR:
                return narrow[0], narrow[1]
        return whole[0], whole[1]

    def _window(
        self, which: int, value: FloatArray, log_ratio: float = LOG_NEGLIGIBLE
    ) -> tuple[float, float, float]:
        """First and last count that matters at some p, and how far whole-numbered noise reaches."""
        n, noise = float(self.nobs[which]), self.noises[which]
        first, last = binom_window(np.asarray(n), value, log_ratio)
        low, high = float(first.min()), float(last.max())
        reach = float(noise._isf(np.asarray(_NEGLIGIBLE))) if self._added[which] else 0.0
        if high - low + 1.0 + 2.0 * reach > _MOST_CELLS:
            raise InvalidParameterError(
                f"nobs{which + 1} or the noise of count{which + 1} is too large for the exact law: "
                "use method='asymptotic'"
            )
        return low, high, reach

    def _pmf(self, which: int, value: FloatArray, low: float, high: float, reach: float) -> Pmf:
        """Law of a count and its whole-numbered noise, for each p."""
        n, noise = float(self.nobs[which]), self.noises[which]
        k = np.arange(low, high + 1.0)
        pmf = binom_pmf(k, np.asarray(n), value[:, np.newaxis])
        if reach:
            k = np.arange(low - reach, high + reach + 1.0)
            pmf = _blurred(pmf, noise, int(reach))
        return k, pmf

    def _by_steps(
        self, alternative: Alternative, d: FloatArray, first: Pmf, second: Pmf
    ) -> FloatArray:
        """No continuous noise: the distribution function of one count at points of the other."""
        if alternative == "larger":
            return self._upper_steps(d, first, second)
        if alternative == "smaller":
            return self._lower_steps(d, first, second)
        size = np.abs(d)
        both = self._upper_steps(size, first, second) + self._lower_steps(-size, first, second)
        return np.where(size <= _ROUNDING, 1.0, np.minimum(both, 1.0))

    def _upper_steps(self, d: FloatArray, first: Pmf, second: Pmf) -> FloatArray:
        """P(D >= d) = Σ_a P(A = a)·P(B <= n₂(a/n₁ - d))."""
        (a, chances), (b, others) = first, second
        reached, slack = self._reached(d, a)
        cumulative = np.pad(np.cumsum(others, axis=1), ((0, 0), (1, 0)))
        place = np.clip(np.floor(reached + slack) - b[0] + 1.0, 0.0, b.size).astype(np.intp)
        return _paired(chances, cumulative, place)

    def _lower_steps(self, d: FloatArray, first: Pmf, second: Pmf) -> FloatArray:
        """P(D <= d) = Σ_a P(A = a)·P(B >= n₂(a/n₁ - d))."""
        (a, chances), (b, others) = first, second
        reached, slack = self._reached(d, a)
        beyond = np.pad(np.cumsum(others[:, ::-1], axis=1)[:, ::-1], ((0, 0), (0, 1)))
        place = np.clip(np.ceil(reached - slack) - b[0], 0.0, b.size).astype(np.intp)
        return _paired(chances, beyond, place)

    def _reached(self, d: FloatArray, a: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Second count that goes with a first and a difference, and its rounding error."""
        n1, n2 = self.nobs
        share = np.atleast_1d(d)[:, np.newaxis]
        size = n2 * (np.abs(a / n1) + np.abs(share))
        return n2 * (a / n1 - share), np.minimum(_ROUNDING * (size + 1.0), 0.25 / n1)

    def _by_kernel(self, alternative: Alternative, d: float, first: Pmf, second: Pmf) -> FloatArray:
        """Continuous noise: a bilinear form in the two laws, the same for each p, in blocks."""
        (a, chances), (b, others) = first, second
        if a.size * b.size > _MOST_PAIRS:
            raise InvalidParameterError(
                "nobs1 and nobs2 are too large for the exact law with continuous noise: use "
                "method='asymptotic'"
            )
        total = np.zeros(others.shape)
        for part in slices(a.size, _BLOCK // b.size):
            total += chances[:, part] @ self._kept(alternative, d, a[part], b)
        return np.asarray(np.minimum((total * others).sum(axis=1), 1.0))

    def _kept(self, alternative: Alternative, d: float, a: FloatArray, b: FloatArray) -> FloatArray:
        """Return the kernel of a block, which may be the one that was needed last."""
        key = (alternative, d, a[0], a.size, b[0], b.size)
        if key not in self._last:
            self._last.clear()
            self._last[key] = self._kernel(alternative, d, a, b)
        return self._last[key]

    @cached_property
    def _last(self) -> dict[tuple[object, ...], FloatArray]:
        return {}

    def _kernel(
        self, alternative: Alternative, d: float, a: FloatArray, b: FloatArray
    ) -> FloatArray:
        """Chance that the noise makes up for what two counts lack to the difference."""
        n1, n2 = self.nobs
        common = gcd(n1, n2)
        step_a, step_b = n2 // common, n1 // common
        unit = n1 * step_a  # a/n₁ - b/n₂ is a multiple of 1/unit
        low = a[0] * step_a - b[-1] * step_b
        length = (a.size - 1) * step_a + (b.size - 1) * step_b + 1
        if length > a.size * b.size // 2:
            places = np.add.outer(a / n1, -b / n2)
            return self._reach(alternative, d, places)
        table = self._reach(alternative, d, (low + np.arange(length)) / unit)
        first = (a - a[0]).astype(np.intp) * step_a
        second = (b[-1] - b).astype(np.intp) * step_b
        return np.asarray(table[np.add.outer(first, second)])

    def _reach(self, alternative: Alternative, d: float, place: FloatArray) -> FloatArray:
        if alternative == "larger":
            return self._at_most(place - d)
        if alternative == "smaller":
            return self._at_most(d - place)
        return self._at_most(place - abs(d)) + self._at_most(-abs(d) - place)

    def _at_most(self, x: FloatArray) -> FloatArray:
        """P(noise <= x), 0 or 1 where that is as good as certain."""
        # a point within rounding of an atom counts as that atom
        x = x + _ROUNDING * (1.0 + np.abs(x))
        near = np.abs(x) < self._horizon
        if near.all():
            return self._noise._cdf(x)
        out = np.where(x > 0, 1.0, 0.0)
        out[near] = self._noise._cdf(x[near])
        return out

    @cached_property
    def _horizon(self) -> float:
        return float(self._noise._isf(np.asarray(_NEGLIGIBLE)))


def _row(law: Pmf, row: int) -> Pmf:
    return law[0], law[1][row : row + 1]


def _paired(chances: FloatArray, cumulative: FloatArray, place: NDArray[np.intp]) -> FloatArray:
    """Σ_a chances[g, a]·cumulative[g, place[g, a]]."""
    if place.shape[0] == 1:
        looked_up = cumulative[:, place[0]]
    else:
        looked_up = np.take_along_axis(cumulative, place, axis=1)
    return np.asarray(np.minimum((chances * looked_up).sum(axis=1), 1.0))


def _blurred(pmf: FloatArray, noise: NoiseLaw, reach: int) -> FloatArray:
    """Law of a count plus whole-numbered noise of at most ``reach``, row by row."""
    if isinstance(noise, Geometric):
        rate = 1.0 / float(noise.scale)
        padded = np.pad(pmf, ((0, 0), (reach, reach)))
        below, above = decaying_sums(padded, rate), decaying_sums(padded[:, ::-1], rate)
        return np.asarray(np.tanh(0.5 * rate) * (below + above[:, ::-1] - padded))
    k = np.arange(-reach, reach + 1.0)
    chances = noise._cdf(-np.abs(k)) - noise._cdf(-np.abs(k) - 1.0)
    return np.array([np.convolve(row, chances) for row in pmf])


Method = Literal["exact", "plug-in", "monte-carlo", "asymptotic"]
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
    """Noisy counts of successes and their numbers of trials, of shape (m,)."""

    count: FloatArray
    nobs: FloatArray
    noise: NoiseLaw  # of the counts, of shape () or (m,)
    nobs_noise: NoiseLaw | None  # that only nobs has; None where nobs is known
    is_total: bool  # whether the count is a summand of nobs, which then has its noise too

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
    """Pairs of samples whose proportions are equal under the null hypothesis."""

    samples: tuple[Sample, Sample]
    nuisance_alpha: float  # with which the confidence set may miss the common proportion
    shape: tuple[int, ...]  # of the answer, () or (m,)

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
        first, second = self.samples
        total, nobs = first.count + second.count, first.trials + second.trials
        alike: dict[tuple[NoiseLaw, NoiseLaw], list[Rows]] = {}
        for law, rows in self.groups:
            law.check_size(np.full(1, 0.5))  # wherever the common proportion is looked for
            alike.setdefault(law.noises, []).append(rows)
        for noises, members in alike.items():
            rows = np.concatenate(members)
            ends = _plausible(nobs[rows], noises, total[rows], 0.5 * self.nuisance_alpha)
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
                angles = np.array([low[row], high[row]])
                span = _proportion(angles)
                if pooled.is_available:
                    first, second = (law.counts(which, span, pooled.left_out) for which in (0, 1))
                    counts = first, second
                    table = pooled.table(alternative, float(difference[row]), level, counts)
                    tail = partial(_chance_at_angle, law.nobs, counts, table)
                else:
                    d = np.asarray(difference[row])
                    tail = partial(_tail_at_angle, law, alternative, d, span)
                found = certified_maximum(tail, angles, information, self.tolerance)
                out[row] = found * (1.0 + relative) + absolute
        return np.minimum(out + self.nuisance_alpha, 1.0)

    def plug_in_tail(self, alternative: Alternative, z: FloatArray) -> FloatArray:
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
    nobs: FloatArray, noises: tuple[NoiseLaw, NoiseLaw], total: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Angles at which the tails of noisy totals of successes are equal to ``level``."""
    noise = fast_sum(np.ones(2), list(noises))
    first = _EDGE / np.sqrt(nobs)
    last = np.full(total.size, 0.5 * np.pi - 2.0 * _EDGE)

    def upper(x: FloatArray, rows: Rows) -> FloatArray:
        distribution = NoisyBinomial(nobs=nobs[rows], value=_proportion(x), noise=noise)
        return level - distribution.upper(total[rows])

    def lower(x: FloatArray, rows: Rows) -> FloatArray:
        distribution = NoisyBinomial(nobs=nobs[rows], value=_proportion(x), noise=noise)
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


def exact(test: TwoSamples, alternative: Alternative, simulation: Simulation) -> Found:
    """P-values that hold whatever the common proportion."""
    pvalue = test.largest(alternative, test.difference).reshape(test.shape)
    larger, smaller, both = (
        partial(test.largest_tail, side) for side in ("larger", "smaller", "two-sided")
    )
    return pvalue, ThreeTails(larger, smaller, both, GUARANTEED)


def plug_in(test: TwoSamples, alternative: Alternative, simulation: Simulation) -> Found:
    """P-values at the estimated proportion."""
    pvalue = test.plug_in(alternative, test.difference).reshape(test.shape)
    larger, smaller = (partial(test.plug_in_tail, side) for side in ("larger", "smaller"))
    return pvalue, ExactNull(larger, smaller, error=ERROR)


def monte_carlo(test: TwoSamples, alternative: Alternative, simulation: Simulation) -> Found:
    """P-values by simulation at the estimated proportion and numbers of trials."""
    draws = [DrawDifference.of_row(test, row) for row in range(test.difference.size)]
    return simulated(draws, test.statistic.reshape(test.shape), alternative, simulation)


def asymptotic(test: TwoSamples, alternative: Alternative, simulation: Simulation) -> Found:
    """P-values in the limit of many trials."""
    return in_the_limit(test.statistic.reshape(test.shape), alternative)


@dataclass(frozen=True, eq=False)
class DrawDifference:
    """Draws the z statistic of a pair of samples with one common proportion."""

    samples: tuple[Sample, Sample]
    value: float
    spread: float

    @classmethod
    def of_row(cls, test: TwoSamples, row: int) -> DrawDifference:
        first, second = (_row_of(sample, row) for sample in test.samples)
        return cls((first, second), float(test.value[row]), float(test.spread[row]))

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
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


NULLS: dict[Method, Callable[[TwoSamples, Alternative, Simulation], Found]] = {
    "exact": exact,
    "plug-in": plug_in,
    "monte-carlo": monte_carlo,
    "asymptotic": asymptotic,
}
"""The p-values and the null distribution of each method."""
