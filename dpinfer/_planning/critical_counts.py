"""Powers of tests of two noisy counts at their true laws.

Given the total M = T₁ + T₂ of the published counts, each version of the test compares a contrast
of the two with a law that depends on M only. So the rejected pairs with that total are those whose
first count is beyond a critical one, which a few p-values find: the power is a sum over all pairs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import gcd
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import Alternative, FloatArray
from dpinfer._numerics.counts import LOG_NEGLIGIBLE, binom_pmf, binom_radius
from dpinfer._numerics.roots import find_root
from dpinfer._planning.engine import SIGNS, score
from dpinfer._planning.replicates import simulated_rate
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.unknown_trials import UnknownTrials
from dpinfer.hypothesis_tests._plug_in import NULLS as TRIALS_NULLS
from dpinfer.hypothesis_tests._plug_in import work as guaranteed_work
from dpinfer.hypothesis_tests._two_samples import NULLS, Sample, TwoSamples
from dpinfer.mechanisms._noisy_count import MOST_WORK, NoisyCount, work_at_a_point
from dpinfer.mechanisms.weighted_sum import fast_sum
from dpinfer.results.simulation import Simulation

Method = Literal["exact", "plug-in", "asymptotic"]

_MOST_WORK = float(1 << 27)
"""Work of all p-values that one power takes, some 15 s: more is refused."""

_STEPS = 8
"""About how many p-values the search for a critical count or score takes."""

_PILOT = 1 << 10
"""Replicates that tell how many need a p-value of their own."""

_REPLICATES = 1 << 12
"""Replicates drawn at a time."""

_KNOTS, _FARTHEST = 9, 4.0
"""Number of totals at which critical scores are found, and how far from the mean, in spreads."""

_NEAR = 0.01
"""Precision of critical scores."""

_STRIDE = 8
"""Every so many totals, critical counts are looked for first."""

_REFINEMENTS: tuple[Method, ...] = ("asymptotic", "plug-in", "exact")
"""Versions of the test by their cost: the critical counts of one are near to those of the next."""

_SHARES, _ONE = 60.0, 0.25
"""About how many common proportions a guaranteed p-value tries, and what the estimated one takes,
as many p-values share its laws."""

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

_BELOW_ONE = float(np.nextafter(1.0, 0.0))

Known = dict[tuple[Method, float, float], float]
"""P-values of pairs of published counts, by the version of the test."""

Pair = tuple[float, float]
Index = NDArray[np.intp]


class Screen(NamedTuple):
    """Critical scores, by the total of the published counts, and how wrong they may be."""

    total: FloatArray
    score: FloatArray
    margin: float


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

    _negligible: ClassVar[tuple[float, float, float]] = (35.0, 4e-11, 2e-9)
    """Left out: counts this much, as a logarithm, less probable than the mode, and probabilities of
    noise beyond its reach and of totals on each side."""

    _is_symmetric: ClassVar[bool] = False
    """Whether critical counts of one side are those of the other."""

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
    def _moments(self) -> Pair:
        """Mean and variance of the total before noise is added."""

    @property
    @abstractmethod
    def _work(self) -> float:
        """About how much work one p-value is, in units of about 0.1 µs."""

    @property
    def _least_pvalue(self) -> float:
        """What all p-values are above."""
        return self.nuisance_alpha if self.method == "exact" else 0.0

    def _of_laws(self, name: str) -> Pair:
        first, second = (float(law.parameters[name]) for law in self.laws)
        return first, second

    def reject(self, alpha: float, simulation: Simulation) -> tuple[float, float]:
        if alpha <= self._least_pvalue:
            return 0.0, 0.0
        return (self.sum(alpha), 0.0) if self.is_summable else self.simulated(alpha, simulation)

    # replicates, of which few need a p-value

    def simulated(self, alpha: float, simulation: Simulation) -> tuple[float, float]:
        """Share of replicates that the test rejects, and its standard error, which is never 0."""
        screen = None if self.method == "asymptotic" else self._screen(alpha)
        if screen is not None:
            few = self._draw(_PILOT, np.random.default_rng(0))
            share = np.count_nonzero(self._judged(screen, *few)[1]) / _PILOT
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
        rejected, is_doubtful = self._judged(screen, first, second)
        doubtful = np.flatnonzero(is_doubtful)
        if doubtful.size:
            rejected[doubtful] = self.pvalues(first[doubtful], second[doubtful]) <= alpha
        return rejected.astype(np.float64)

    def _judged(
        self, screen: Screen, first: FloatArray, second: FloatArray
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which pairs are rejected, and of which that is not sure."""
        z, total = self._contrast(first, second), first + second
        distance = score(z, self.alternative) - np.interp(total, screen.total, screen.score)
        is_outside = (total < screen.total[0]) | (total > screen.total[-1])
        return distance > 0.0, ~(np.abs(distance) > screen.margin) | is_outside

    def _draw(self, size: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        first, second = (
            law._draw_counts(size, rng) + law.noise._rvs((size,), rng) for law in self.laws
        )
        return first, second

    def _screen(self, alpha: float) -> Screen:
        """Critical scores at some totals: only replicates near to them need a p-value."""
        total = self._knots
        self._check_work(_STEPS * total.size)
        sign = SIGNS[self.alternative][0]

        def excess(z: FloatArray, rows: Index) -> FloatArray:
            first = self._first(total[rows], sign * z)
            tail = self.pvalues(first, total[rows] - first)
            with np.errstate(divide="ignore"):
                return np.asarray(np.maximum(np.log(tail), -1e6) - np.log(alpha))

        start = np.full(total.size, 0.0 if self.alternative == "two-sided" else -1.0)
        _, found = find_root(excess, start, start + 3.0, atol=_NEAR, rtol=0.0, expand=True)
        return Screen(total, found, 2.0 * _NEAR + self._missed(found))

    @property
    def _knots(self) -> FloatArray:
        """Totals at which critical scores are found."""
        mean, variance = self._moments
        spread = float(np.sqrt(variance + sum(law.noise.variance for law in self.laws)))
        return mean + spread * np.linspace(-_FARTHEST, _FARTHEST, _KNOTS)

    def _missed(self, z: FloatArray) -> float:
        """How far critical scores may be from those between which they lie.

        With all knots a smooth curve is missed by a quarter of what it is with every other.
        """
        return 2.0 * float(np.abs(0.5 * (z[:-2:2] + z[2::2]) - z[1::2]).max())

    # the sum over all pairs

    @property
    def _is_whole(self) -> bool:
        return all(law.noise.is_integer for law in self.laws)

    @cached_property
    def is_summable(self) -> bool:
        if not self._is_whole:
            return False
        lengths = [high - low + 1.0 for low, high in self._ends]
        if lengths[0] * lengths[1] > self._most_pairs:
            return False
        if self.method == "exact" and sum(lengths) > self._most_guaranteed:
            return False
        return sum(lengths) * _STEPS * self._work <= MOST_WORK

    def sum(self, alpha: float) -> float:
        chance = self._totals
        up_to, ends = np.cumsum(chance), self._negligible[2]
        kept = (up_to > ends) & (up_to - chance < up_to[-1] - ends)
        lows, highs = zip(*self._ends, strict=True)
        total = np.asarray(sum(lows) + np.flatnonzero(kept), dtype=np.float64)
        power, critical = 0.0, None
        for sign in SIGNS[self.alternative]:
            side = 0 if sign > 0.0 else 1
            # counts that go with a total
            first = np.maximum(lows[side], total - highs[1 - side])
            last = np.minimum(highs[side], total - lows[1 - side])
            if critical is None or not self._is_symmetric:
                ends_at = np.full(total.size, max(highs))
                widest = (total - ends_at, ends_at) if self._is_symmetric else (first, last)
                critical = self._critical(alpha, side, total, *widest)
            start = np.clip(critical, first, last + 1.0)
            rows = zip(total.tolist(), start.tolist(), last.tolist(), strict=True)
            power += sum(self._chance(side, *row) for row in rows)
        return min(power, 1.0)

    @property
    def _totals(self) -> FloatArray:
        """Chances of the totals of published counts."""
        return np.convolve(*self._pmfs)

    def _chance(self, side: int, total: float, start: float, stop: float) -> float:
        """Return that of a total, count number ``side`` being between two counts."""
        low, other = self._ends[side][0], self._ends[1 - side][0]
        lead = self._pmfs[side][int(start - low) : int(stop - low) + 1]
        follow = self._pmfs[1 - side][int(total - stop - other) : int(total - start - other) + 1]
        return float(lead @ follow[::-1])

    def _critical(
        self, alpha: float, side: int, total: FloatArray, first: FloatArray, last: FloatArray
    ) -> FloatArray:
        """Smallest count number ``side`` for which the test rejects, given the total."""
        guess = np.floor(total * (1.0 - self._share if side else self._share))
        if self.alternative == "two-sided":  # only those that lie on this side
            first = np.minimum(np.maximum(first, guess + 1.0), last + 1.0)

        def holds(method: Method, lead: FloatArray, rows: Index) -> NDArray[np.bool_]:
            pair = (lead, total[rows] - lead)
            return self.pvalues(pair[side], pair[1 - side], method) <= alpha

        some, every = np.arange(0, total.size, _STRIDE), np.arange(total.size)
        for method in _REFINEMENTS[: _REFINEMENTS.index(self.method) + 1]:
            rejects = partial(holds, method)
            found = _smallest(rejects, first, last, guess, some)
            # by how much the guess was wrong changes little from one total to the next
            wrong = np.interp(every, some, found - guess[some])
            guess = _smallest(rejects, first, last, guess + np.rint(wrong), every)
        return guess

    @cached_property
    def _counts(self) -> tuple[Pair, Pair]:
        first, second = (law._support(self._negligible[0]) for law in self.laws)
        return first, second

    @cached_property
    def _reaches(self) -> Pair:
        first, second = (float(law.noise.isf(self._negligible[1])) for law in self.laws)
        return first, second

    @cached_property
    def _ends(self) -> tuple[Pair, Pair]:
        first, second = (
            (low - reach, high + reach)
            for (low, high), reach in zip(self._counts, self._reaches, strict=True)
        )
        return first, second

    @cached_property
    def _pmfs(self) -> tuple[FloatArray, FloatArray]:
        first, second = (
            np.maximum(-np.diff(law.upper(np.arange(low, high + 2.0))), 0.0)
            for law, (low, high) in zip(self.laws, self._ends, strict=True)
        )
        return first, second


class TwoBinomials(TwoCounts):
    """Numbers of successes of two samples."""

    _most_guaranteed: ClassVar[int] = 200

    def pvalues(
        self, first: FloatArray, second: FloatArray, method: Method | None = None
    ) -> FloatArray:
        test = self._test(first, second)
        return NULLS[method or self.method](test, self.alternative, _UNUSED)[0]

    def _contrast(self, first: FloatArray, second: FloatArray) -> FloatArray:
        return self._test(first, second).statistic

    def _test(self, first: FloatArray, second: FloatArray) -> TwoSamples:
        one, other = (
            Sample(
                count=count,
                nobs=np.full(count.shape, nobs),
                noise=law.noise,
                nobs_noise=None,
                is_total=False,
            )
            for count, nobs, law in zip((first, second), self._nobs, self.laws, strict=True)
        )
        return TwoSamples(
            samples=(one, other),
            nuisance_alpha=self.nuisance_alpha,
            shape=first.shape,
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
    def _nobs(self) -> Pair:
        return self._of_laws("nobs")

    def _first(self, total: FloatArray, contrast: FloatArray) -> FloatArray:
        n1, n2 = self._nobs
        scale = self._test(total, np.zeros(total.shape)).spread  # depends on the total only
        return np.asarray((total / n2 + contrast * scale) / (1.0 / n1 + 1.0 / n2))

    @property
    def _share(self) -> float:
        return self._nobs[0] / sum(self._nobs)

    @property
    def _moments(self) -> Pair:
        pairs = list(zip(self._nobs, self._of_laws("value"), strict=True))
        return sum(n * p for n, p in pairs), sum(n * p * (1.0 - p) for n, p in pairs)


def _width(nobs: float, share: float) -> float:
    n = np.asarray(nobs)
    return min(2.0 * float(binom_radius(np.rint(n * share), n, LOG_NEGLIGIBLE)), nobs) + 1.0


@dataclass(frozen=True, eq=False)
class TwoPoissons(TwoCounts):
    """Two noisy counts, of which the first has a certain share under the null hypothesis.

    Given the total M the test compares T₁ - share·M with a law that depends on M through whole
    numbers only: so the critical contrast is constant between the totals at which the test turns to
    another number of trials.

    P-values depend on the published counts, the share and the noise only. Those that take time are
    kept, for further true laws and levels.
    """

    share: float
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
    def _share(self) -> float:
        return self.share

    @property
    def _moments(self) -> Pair:
        total = sum(self._of_laws("rate"))
        return total, total

    def _test(self, first: FloatArray, second: FloatArray) -> UnknownTrials:
        return UnknownTrials(
            count=first,
            nobs=first + second,
            value=np.full(first.shape, self.share),
            noise=self.laws[0].noise,
            nobs_noise=self.laws[1].noise,
            is_total=True,
            nuisance_alpha=self.nuisance_alpha,
            shape=first.shape,
            labels=None,
        )

    def _contrast(self, first: FloatArray, second: FloatArray) -> FloatArray:
        return np.asarray((first - self.share * (first + second)) / self._unit)

    def _first(self, total: FloatArray, contrast: FloatArray) -> FloatArray:
        return np.asarray(self.share * total + contrast * self._unit)

    @cached_property
    def _unit(self) -> float:
        """Standard deviation of T₁ - share·M under the null hypothesis, about."""
        sampling = self.share * (1.0 - self.share) * max(self._moments[0], 1.0)
        return float(np.sqrt(sampling + self._noise_variance))

    @property
    def _noise_variance(self) -> float:
        first, second = (float(law.noise.variance) for law in self.laws)
        return (1.0 - self.share) ** 2 * first + self.share**2 * second

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
        test = self._test(self.share * total, (1.0 - self.share) * total)
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


class DifferingPairs(TwoPoissons):
    """Numbers of pairs with the answers (first, second) and (second, first), which add up.

    ``laws`` are those of each count by itself. Under the null hypothesis all laws are symmetric in
    the two counts, and so are the critical counts.
    """

    _most_pairs: ClassVar[int] = 1 << 22
    _negligible: ClassVar[tuple[float, float, float]] = (40.0, 1e-13, 1e-12)
    _is_symmetric: ClassVar[bool] = True

    @property
    def _totals(self) -> FloatArray:
        joint = self._joint
        place = np.add.outer(*(np.arange(size) for size in joint.shape))
        return np.asarray(np.bincount(place.ravel(), joint.ravel()), dtype=np.float64)

    def _chance(self, side: int, total: float, start: float, stop: float) -> float:
        low, other = self._ends[side][0], self._ends[1 - side][0]
        lead = np.arange(int(start - low), int(stop - low) + 1)
        joint = self._joint if side == 0 else self._joint.T
        return float(joint[lead, int(total - low - other) - lead].sum())

    @cached_property
    def _joint(self) -> FloatArray:
        from scipy import signal  # slow to import

        (low1, high1), (low2, high2) = self._counts
        n, p = self._of_laws("nobs")[0], self._of_laws("value")
        first = np.arange(low1, high1 + 1.0)[:, np.newaxis]
        second = np.arange(low2, high2 + 1.0)
        left = np.asarray(np.maximum(n - first, second))  # no more pairs than there are
        given = np.asarray(min(p[1] / (1.0 - p[0]), _BELOW_ONE))
        joint = binom_pmf(first, np.asarray(n), np.asarray(p[0])) * binom_pmf(second, left, given)
        joint[first + second > n] = 0.0
        for axis, law in enumerate(self.laws):
            size = np.abs(np.arange(-self._reaches[axis], self._reaches[axis] + 1.0))
            chances = np.maximum(law.noise._cdf(-size) - law.noise._cdf(-size - 1.0), 0.0)
            shaped = chances[:, np.newaxis] if axis == 0 else chances[np.newaxis]
            joint = signal.fftconvolve(joint, shaped, axes=axis)
        return np.maximum(joint, 0.0)

    def _draw(self, size: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        n, p = int(self._of_laws("nobs")[0]), self._of_laws("value")
        counts = rng.multinomial(n, [*p, max(1.0 - sum(p), 0.0)], size)
        first, second = (
            counts[:, kind] + law.noise._rvs((size,), rng) for kind, law in enumerate(self.laws)
        )
        return first, second

    @property
    def _moments(self) -> Pair:
        n, p = self._of_laws("nobs")[0], min(sum(self._of_laws("value")), 1.0)
        return n * p, n * p * (1.0 - p)


def _smallest(
    holds: Callable[[FloatArray, Index], NDArray[np.bool_]],
    first: FloatArray,
    last: FloatArray,
    guess: FloatArray,
    chosen: Index,
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
