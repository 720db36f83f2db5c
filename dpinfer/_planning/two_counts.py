"""Probability that a test of two noisy counts rejects, by a sum over all pairs of them.

Given the total M = T₁ + T₂ of the published counts, each version of the test compares a contrast
of the two with a law that depends on M only. So the rejected pairs with that total are those whose
first count is beyond a critical one, which a few p-values find.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import gcd
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import Alternative, FloatArray
from dpinfer._numerics.counts import LOG_NEGLIGIBLE, binom_pmf, binom_radius
from dpinfer._numerics.roots import find_root
from dpinfer._planning.replicates import simulated_rate
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.unknown_trials import UnknownTrials
from dpinfer.hypothesis_tests._plug_in import NULLS as TRIALS_NULLS
from dpinfer.hypothesis_tests._plug_in import work as guaranteed_work
from dpinfer.hypothesis_tests._two_samples import NULLS, Sample, TwoSamples
from dpinfer.mechanisms._noisy_count import MOST_WORK, NoisyBinomial, NoisyCount, work_at_a_point
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.weighted_sum import fast_sum
from dpinfer.results.simulation import Simulation

Method = Literal["exact", "plug-in", "asymptotic"]

_LEFT_OUT = 4e-9
"""Probability of the pairs that are left out."""

_MOST_WORK = float(1 << 27)
"""Work of all p-values that one power takes, some 15 s: more is refused."""

_STEPS = 8
"""About how many p-values the search for a critical count or score takes."""

_PILOT = 1 << 10
"""Replicates that tell how many need a p-value of their own."""

_LOG_NEGLIGIBLE = 35.0
"""Counts less probable than the mode by exp(-35) are left out."""

_REPLICATES = 1 << 12
"""Replicates drawn at a time."""

_KNOTS = 9
_FARTHEST = 4.0
"""Number of totals at which critical scores are found, and how far from the mean, in spreads."""

_NEAR = 0.01
"""Precision of critical scores."""

_STRIDE = 8
"""Every so many totals, critical counts are looked for first."""

_REFINEMENTS: tuple[Method, ...] = ("asymptotic", "plug-in", "exact")
"""Versions of the test by their cost: the critical counts of one are near to those of the next."""

Holds = Callable[[FloatArray, NDArray[np.intp]], NDArray[np.bool_]]

_SHARES = 60.0
"""About how many common proportions a guaranteed p-value tries."""

_ONE = 0.25
"""What the estimated one takes, as many p-values share its laws."""

_LAW, _PRODUCT, _ENDS = 200.0, 0.01, 5.0
"""Work of a law at one of them, of a pair of counts in a product, of a count in the total."""

_NO_CHANCE = 1e-18
"""Probability beyond which whole-numbered noise is left out."""

_UNUSED = Simulation(reps=1, rng=np.random.default_rng(0))

_MOST_KNOTS = 64
"""Numbers of totals up to which critical contrasts are found between all turns."""

_MOST_KNOWN = 1 << 20
"""P-values that are kept: some 200 MB."""

_SMOOTH = 0.1
"""Counts by which critical ones go up from total to total at most, where noise is not narrow."""

_PVALUE: dict[Method, float] = {"exact": 4e3, "plug-in": 3e2}
"""Work of a p-value beside its sums."""

Known = dict[tuple[Method, float, float], float]
"""P-values of pairs of published counts, by the version of the test."""

_LEFT_OUT_OF_PAIRS, _LOG_NEGLIGIBLE_PAIR = 1e-12, 40.0
"""Probability of the published tables that are left out, and of counts below the mode."""

_BELOW_ONE = float(np.nextafter(1.0, 0.0))


@dataclass(frozen=True, eq=False)
class Screen:
    """Critical scores, by the total of the published counts, and how wrong they may be."""

    total: FloatArray
    score: FloatArray
    margin: float

    def at(self, total: FloatArray) -> FloatArray:
        return np.interp(total, self.total, self.score)

    def is_outside(self, total: FloatArray) -> NDArray[np.bool_]:
        return np.asarray((total < self.total[0]) | (total > self.total[-1]))


@dataclass(frozen=True, eq=False)
class TwoCounts(ABC):
    """Two noisy counts at their true laws, and a test of them."""

    laws: tuple[NoisyCount, NoisyCount]
    alternative: Alternative
    method: Method
    nuisance_alpha: float

    _most_pairs: ClassVar[int] = 1 << 26
    """Pairs of published counts up to which all are gone through."""

    _most_guaranteed: ClassVar[int] = 600
    """Lengths of both rows of counts up to which they are with the guaranteed p-values."""

    @abstractmethod
    def pvalues(
        self, first: FloatArray, second: FloatArray, method: Method | None = None
    ) -> FloatArray:
        """P-values of pairs of published counts, shape (m,)."""

    @abstractmethod
    def _contrast(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return what is far from 0 against the null hypothesis, in units of its spread."""

    @abstractmethod
    def _first(self, total: FloatArray, contrast: FloatArray) -> FloatArray:
        """Return the first count with which a total has a contrast."""

    @property
    @abstractmethod
    def _share(self) -> float:
        """Share of the total that the first count has under the null hypothesis."""

    @property
    @abstractmethod
    def _moments(self) -> tuple[float, float]:
        """Mean and variance of the total before noise is added."""

    @property
    @abstractmethod
    def _work(self) -> float:
        """About how much work one p-value is, in units of about 0.1 µs."""

    @property
    def _least_pvalue(self) -> float:
        """What all p-values are above."""
        return self.nuisance_alpha if self.method == "exact" else 0.0

    @property
    def _spread(self) -> float:
        return float(np.sqrt(self._moments[1] + sum(law.noise.variance for law in self.laws)))

    def reject(self, alpha: float, simulation: Simulation) -> tuple[float, float]:
        if alpha <= self._least_pvalue:
            return 0.0, 0.0
        return (self.sum(alpha), 0.0) if self.is_summable else self.simulated(alpha, simulation)

    def simulated(self, alpha: float, simulation: Simulation) -> tuple[float, float]:
        """Share of replicates that the test rejects, and its standard error, which is never 0."""
        screen = None if self.method == "asymptotic" else self._screen(alpha)
        if screen is not None:
            few = self._draw(_PILOT, np.random.default_rng(0))
            share = np.count_nonzero(self._is_doubtful(screen, *few)) / _PILOT
            self._check_work(share * simulation.reps)
        return simulated_rate(partial(self._rejections, alpha, screen), simulation, _REPLICATES)

    def _check_work(self, pvalues: float) -> None:
        work = pvalues * self._work
        if work > _MOST_WORK:
            raise InvalidParameterError(
                "the counts, the noise or reps must be smaller for the power of "
                f"method={self.method!r}, which would take some {1e-7 * work:.2g} s: use "
                f"method={'plug-in' if self.method == 'exact' else 'asymptotic'!r}"
            )

    def _rejections(
        self, alpha: float, screen: Screen | None, size: int, rng: np.random.Generator
    ) -> FloatArray:
        first, second = self._draw(size, rng)
        if screen is None:
            return (self.pvalues(first, second) <= alpha).astype(np.float64)
        rejected = self._distance(screen, first, second) > 0.0
        doubtful = np.flatnonzero(self._is_doubtful(screen, first, second))
        if doubtful.size:
            rejected[doubtful] = self.pvalues(first[doubtful], second[doubtful]) <= alpha
        return rejected.astype(np.float64)

    def _distance(self, screen: Screen, first: FloatArray, second: FloatArray) -> FloatArray:
        return self._score(self._contrast(first, second)) - screen.at(first + second)

    def _is_doubtful(
        self, screen: Screen, first: FloatArray, second: FloatArray
    ) -> NDArray[np.bool_]:
        near = ~(np.abs(self._distance(screen, first, second)) > screen.margin)
        return near | screen.is_outside(first + second)

    def _draw(self, size: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        first, second = (
            law._draw_counts(size, rng) + law.noise._rvs((size,), rng) for law in self.laws
        )
        return first, second

    def _score(self, z: FloatArray) -> FloatArray:
        return {"two-sided": np.abs(z), "larger": z, "smaller": -z}[self.alternative]

    def _screen(self, alpha: float) -> Screen:
        """Critical scores at some totals: only replicates near to them need a p-value."""
        total = self._knots
        self._check_work(_STEPS * total.size)
        sign = -1.0 if self.alternative == "smaller" else 1.0

        def excess(score: FloatArray, rows: NDArray[np.intp]) -> FloatArray:
            first = self._first(total[rows], sign * score)
            tail = self.pvalues(first, total[rows] - first)
            with np.errstate(divide="ignore"):
                return np.asarray(np.maximum(np.log(tail), -1e6) - np.log(alpha))

        start = np.full(total.size, 0.0 if self.alternative == "two-sided" else -1.0)
        _, score = find_root(excess, start, start + 3.0, atol=_NEAR, rtol=0.0, expand=True)
        return Screen(total, score, 2.0 * _NEAR + self._missed(score))

    @property
    def _knots(self) -> FloatArray:
        """Totals at which critical scores are found."""
        return self._moments[0] + self._spread * np.linspace(-_FARTHEST, _FARTHEST, _KNOTS)

    def _missed(self, score: FloatArray) -> float:
        """How far critical scores may be from those between which they lie.

        With all knots a smooth curve is missed by a quarter of what it is with every other.
        """
        return 2.0 * float(np.abs(0.5 * (score[:-2:2] + score[2::2]) - score[1::2]).max())

    @property
    def _is_whole(self) -> bool:
        return all(law.noise.is_integer for law in self.laws)

    @cached_property
    def is_summable(self) -> bool:
        if not self._is_whole:
            return False
        lengths = [high - low + 1.0 for low, high in self._ends]
        return lengths[0] * lengths[1] <= self._most_pairs and self._is_quick(sum(lengths))

    def _is_quick(self, totals: float) -> bool:
        if self.method == "exact" and totals > self._most_guaranteed:
            return False
        return totals * _STEPS * self._work <= MOST_WORK

    def sum(self, alpha: float) -> float:
        sides = {"two-sided": (0, 1), "larger": (0,), "smaller": (1,)}[self.alternative]
        return min(sum(self._beyond(alpha, side) for side in sides), 1.0)

    def _beyond(self, alpha: float, side: int) -> float:
        """Probability that the test rejects as count number ``side`` is too large."""
        (low, _), (other_low, other_high) = self._ends[side], self._ends[1 - side]
        pmf, other = self._pmfs[side], self._pmfs[1 - side]
        chance = np.convolve(pmf, other)
        up_to = np.cumsum(chance)
        kept = (up_to > 0.5 * _LEFT_OUT) & (up_to - chance < up_to[-1] - 0.5 * _LEFT_OUT)
        total = np.asarray(low + other_low + np.flatnonzero(kept), dtype=np.float64)
        # counts that go with a total, and for two sides only those that lie on this one
        first = np.maximum(low, total - other_high)
        last = np.minimum(low + pmf.size - 1.0, total - other_low)
        middle = np.floor(total * (1.0 - self._share if side else self._share))
        if self.alternative == "two-sided":
            first = np.minimum(np.maximum(first, middle + 1.0), last + 1.0)
        critical = self._critical(alpha, side, total, first, last, middle)
        power = 0.0
        for m, start, stop in zip(total, critical, last, strict=True):
            lead = pmf[int(start - low) : int(stop - low) + 1]
            follow = other[int(m - stop - other_low) : int(m - start - other_low) + 1]
            power += float(lead @ follow[::-1])
        return power

    def _critical(
        self,
        alpha: float,
        side: int,
        total: FloatArray,
        first: FloatArray,
        last: FloatArray,
        guess: FloatArray,
    ) -> FloatArray:
        """Smallest count number ``side`` for which the test rejects, given the total."""

        def holds(method: Method, lead: FloatArray, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
            pair = (lead, total[rows] - lead)
            return self.pvalues(pair[side], pair[1 - side], method) <= alpha

        some = np.arange(0, total.size, _STRIDE)
        for method in _REFINEMENTS[: _REFINEMENTS.index(self.method) + 1]:
            rejects = partial(holds, method)
            found = _smallest(rejects, first, last, guess, some)
            # by how much the guess was wrong changes little from one total to the next
            wrong = np.interp(np.arange(total.size), some, found - guess[some])
            guess = _smallest(rejects, first, last, guess + np.rint(wrong), np.arange(total.size))
        return guess

    @cached_property
    def _ends(self) -> tuple[tuple[float, float], tuple[float, float]]:
        first, second = (_ends(law) for law in self.laws)
        return first, second

    @cached_property
    def _pmfs(self) -> list[FloatArray]:
        return [
            np.maximum(-np.diff(law.upper(np.arange(low, high + 2.0))), 0.0)
            for law, (low, high) in zip(self.laws, self._ends, strict=True)
        ]


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
        first, second = (
            NoisyBinomial(nobs=np.asarray(n), value=np.asarray(p), noise=noise)
            for n, p, noise in zip(nobs, value, noises, strict=True)
        )
        return cls((first, second), alternative, method, nuisance_alpha)

    def pvalues(
        self, first: FloatArray, second: FloatArray, method: Method | None = None
    ) -> FloatArray:
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
        if self.method == "asymptotic":
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
    n = np.asarray(nobs)
    return min(2.0 * float(binom_radius(np.rint(n * share), n, LOG_NEGLIGIBLE)), nobs) + 1.0


@dataclass(frozen=True, eq=False)
class ShareOfTotal(TwoCounts):
    """Two noisy counts, of which the first has a certain share under the null hypothesis.

    Given the total M the test compares T₁ - share·M with a law that depends on M through whole
    numbers only: so the critical contrast is constant between the totals at which the test turns to
    another number of trials.

    P-values depend on the published counts, the share and the noise only. Those that take time are
    kept, for further true laws and levels.
    """

    known: Known = field(default_factory=dict, kw_only=True)

    def pvalues(
        self, first: FloatArray, second: FloatArray, method: Method | None = None
    ) -> FloatArray:
        method = method or self.method
        if method == "asymptotic":
            return TRIALS_NULLS[method](self._test(first, second), self.alternative, _UNUSED)[0]
        keys = [(method, *pair) for pair in zip(first.tolist(), second.tolist(), strict=True)]
        if len(self.known) + len(keys) > _MOST_KNOWN:
            self.known.clear()
        if new := {key: row for row, key in enumerate(keys) if key not in self.known}:
            rows = list(new.values())
            test = self._test(first[rows], second[rows])
            found = TRIALS_NULLS[method](test, self.alternative, _UNUSED)[0]
            self.known.update(zip(new, found.tolist(), strict=True))
        return np.array([self.known[key] for key in keys])

    @property
    @abstractmethod
    def _share(self) -> float:
        """Share of the total that the first count has under the null hypothesis."""

    def _test(self, first: FloatArray, second: FloatArray) -> UnknownTrials:
        return UnknownTrials(
            count=first,
            nobs=first + second,
            value=np.full(first.shape, self._share),
            noise=self.laws[0].noise,
            nobs_noise=self.laws[1].noise,
            is_total=True,
            nuisance_alpha=self.nuisance_alpha,
            shape=first.shape,
            labels=None,
        )

    def _contrast(self, first: FloatArray, second: FloatArray) -> FloatArray:
        return np.asarray((first - self._share * (first + second)) / self._unit)

    def _first(self, total: FloatArray, contrast: FloatArray) -> FloatArray:
        return np.asarray(self._share * total + contrast * self._unit)

    @cached_property
    def _unit(self) -> float:
        """Standard deviation of T₁ - share·M under the null hypothesis, about."""
        share = self._share
        sampling = share * (1.0 - share) * max(self._moments[0], 1.0)
        return float(np.sqrt(sampling + self._noise_variance))

    @property
    def _noise_variance(self) -> float:
        first, second = (float(law.noise.variance) for law in self.laws)
        return (1.0 - self._share) ** 2 * first + self._share**2 * second

    @cached_property
    def _least_pvalue(self) -> float:
        """The chance that the confidence set misses the total, which has no noise to be missed."""
        if self.method != "exact":
            return 0.0
        nothing = np.zeros(1)
        return float(self._test(nothing, nothing).confidence_set[2][0])

    @property
    def _work(self) -> float:
        if self.method == "asymptotic":
            return 0.0
        total = np.array([self._moments[0]])
        test = self._test(self._share * total, (1.0 - self._share) * total)
        if self.method == "exact":
            work = float(guaranteed_work(test, self.alternative)[0])
        else:
            work = float(test.work(self.alternative, is_guaranteed=False)[0])
        return _PVALUE[self.method] + 2.0 * work

    @cached_property
    def _turns(self) -> FloatArray:
        """Totals at which the tests turn to another number of trials; none if they are too many.

        They take the whole numbers nearest to the total and near to a certain distance from it.
        """
        knots = super()._knots
        low, high = np.floor(knots[0]), np.ceil(knots[-1])
        offsets = np.array([0.5])
        if self.method == "exact" and not self._is_whole:
            _, law, _ = self._test(np.zeros(1), np.zeros(1)).groups[0]
            reach = float(law._isf(np.asarray(0.5 * self.nuisance_alpha))) % 1.0
            offsets = np.unique([0.5, reach, 1.0 - reach])
        if (high - low) * offsets.size > _MOST_KNOTS:
            return np.zeros(0)
        return np.sort(np.add.outer(np.arange(low - 1.0, high + 1.0), offsets).ravel())

    @property
    def _knots(self) -> FloatArray:
        """Totals in the middle between turns, or some that are far apart."""
        turns = self._turns
        if turns.size:
            return np.asarray(0.5 * (turns[1:] + turns[:-1]))
        return np.rint(super()._knots) if self._is_whole else super()._knots

    def _missed(self, contrast: FloatArray) -> float:
        """How far critical contrasts may be from those between which they lie."""
        if self._turns.size:  # whole totals are knots themselves
            return 0.0 if self._is_whole else float(np.abs(np.diff(contrast)).max())
        narrow = self._is_whole or self._noise_variance < 1.0
        return super()._missed(contrast) + (1.0 if narrow else _SMOOTH) / self._unit


@dataclass(frozen=True, eq=False)
class TwoPoissons(ShareOfTotal):
    """Numbers of events in two samples."""

    share: float

    @property
    def _share(self) -> float:
        return self.share

    @cached_property
    def _moments(self) -> tuple[float, float]:
        total = sum(float(law.parameters["rate"]) for law in self.laws)
        return total, total


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
        first, second = (
            NoisyBinomial(nobs=np.asarray(nobs), value=np.asarray(p), noise=noise)
            for p, noise in zip(value, noises, strict=True)
        )
        return cls((first, second), alternative, method, nuisance_alpha, known=known)

    def sum(self, alpha: float) -> float:
        (low1, high1), (low2, high2) = self._ends
        first, second = np.arange(low1, high1 + 1.0), np.arange(low2, high2 + 1.0)
        joint = self._joint
        place = np.add.outer(np.arange(first.size), np.arange(second.size))
        chance = np.bincount(place.ravel(), joint.ravel())
        up_to = np.cumsum(chance)
        kept = (up_to > _LEFT_OUT_OF_PAIRS) & (up_to - chance < up_to[-1] - _LEFT_OUT_OF_PAIRS)
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
        side = 1 if self.alternative == "smaller" else 0
        middle = np.floor(0.5 * total)
        last = np.full(total.size, max(high for _, high in self._ends))
        first = middle + 1.0 if self.alternative == "two-sided" else total - last
        return self._critical(alpha, side, total, first, last, middle)

    @cached_property
    def _joint(self) -> FloatArray:
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
        first, second = (law._support(_LOG_NEGLIGIBLE_PAIR) for law in self.laws)
        return first, second

    @cached_property
    def _reaches(self) -> tuple[float, float]:
        first, second = (float(law.noise.isf(0.1 * _LEFT_OUT_OF_PAIRS)) for law in self.laws)
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
    size = np.abs(np.arange(-reach, reach + 1.0))
    return np.maximum(noise._cdf(-size) - noise._cdf(-size - 1.0), 0.0)


def _ends(law: NoisyCount) -> tuple[float, float]:
    low, high = law._support(_LOG_NEGLIGIBLE)
    reach = float(law.noise.isf(0.01 * _LEFT_OUT))
    return low - reach, high + reach


def _smallest(
    holds: Holds, first: FloatArray, last: FloatArray, guess: FloatArray, chosen: NDArray[np.intp]
) -> FloatArray:
    """Smallest whole numbers, up to ``last`` + 1, from which on a condition holds in some rows."""
    below, above, point = first[chosen] - 1.0, last[chosen] + 1.0, guess[chosen]
    turned = np.zeros(chosen.shape, dtype=np.bool_)
    came_up = np.zeros(chosen.shape, dtype=np.bool_)
    started, step = False, 1.0
    while (rows := np.flatnonzero(above - below > 1.0)).size:
        x = np.clip(point, below + 1.0, above - 1.0)[rows]
        held = holds(x, chosen[rows])
        above[rows] = np.where(held, x, above[rows])
        below[rows] = np.where(held, below[rows], x)
        if started:
            turned[rows] |= held == came_up[rows]
        came_up[rows], started = ~held, True
        away = np.where(held, x - step, x + step)
        halved = np.floor(0.5 * (below[rows] + above[rows]))
        point[rows] = np.where(turned[rows], halved, away)
        step *= 2.0
    return above
