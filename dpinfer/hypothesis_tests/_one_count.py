"""Null distributions of the z statistic of one noisy count: exact, simulated, asymptotic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np

from dpinfer._check import Alternative, FloatArray
from dpinfer.estimation.two_sided import GAPS, NoisyCounts
from dpinfer.hypothesis_tests._answers import Found, ThreeTails, simulated
from dpinfer.hypothesis_tests._inversion import SIMULATED, Affine, Rows, Search, repeated
from dpinfer.hypothesis_tests._inversion import Found as FoundEnds
from dpinfer.mechanisms._noisy_count import NoisyBinomial, NoisyCount, NoisyPoisson
from dpinfer.mechanisms.independent import integer_cells
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.results.null import AsymptoticNull, ExactNull, around
from dpinfer.results.simulation import BLOCK, Simulation

_BLOCK = 4 * BLOCK
"""Replicates in a block: they are cheap, as the counts are drawn all at once."""

LARGEST_RATE = 1e15
"""Beyond it, neighbouring whole numbers run together in sums."""

_SEARCH = 120
"""Most steps of a search by thirds or halves."""

_WEIGHED = 1e-6
"""Distance of means from 0 and n, in standard deviations, at which outcomes are told apart."""

_NEAR = 1e-13
"""Distance, in standard deviations, at which such a search ends."""

_ROUNDING = 1e-14
"""Relative error of a count that was computed from nobs·value."""


@dataclass(frozen=True, eq=False)
class OneCount:
    """Noisy counts T under a null hypothesis, and z = (T - centre)/spread.

    Centre and spread are the mean and the standard deviation before noise was added.
    """

    law: NoisyCount
    centre: FloatArray
    spread: FloatArray

    @classmethod
    def of_trials(cls, nobs: FloatArray, value: FloatArray, noise: NoiseLaw) -> OneCount:
        """Return the test of proportions; rows that are all alike share a law."""
        n, p = collapse(nobs), collapse(value)
        centre = n * p
        spread = np.sqrt(centre * (1.0 - p))
        return cls(NoisyBinomial(nobs=n, value=p, noise=noise), centre, spread)

    @classmethod
    def of_events(cls, expected: FloatArray, noise: NoiseLaw) -> OneCount:
        """Return the test of expected counts of events."""
        centre = collapse(expected)
        return cls(NoisyPoisson(rate=centre, noise=noise), centre, np.sqrt(centre))

    def statistic(self, count: FloatArray) -> FloatArray:
        """Distance from the expected count, in standard deviations before noise was added."""
        return np.asarray((count - self.centre) / self.spread)

    def larger(self, count: FloatArray) -> FloatArray:
        """P(T >= count); the rounding of a computed count loses no atom."""
        return self.law.upper(count, self.slack(count))

    def smaller(self, count: FloatArray) -> FloatArray:
        """P(T <= count); the rounding of a computed count loses no atom."""
        return self.law.lower(count, self.slack(count))

    def further(self, count: FloatArray) -> FloatArray:
        """P(abs(T - E[T]) >= abs(count - E[T]))."""
        count = count[()]
        mirrored, slack = (self.centre - count) + self.centre, self.slack(count)
        low, high = np.minimum(count, mirrored), np.maximum(count, mirrored)
        both = self.law.outside(low, high, slack)
        return np.minimum(both + (high - low <= 2.0 * slack), 1.0)

    def null(self) -> ExactNull:
        """Return the exact law of the z statistic, whose tails are found when asked for."""
        return ExactNull(
            partial(self._beyond, self.larger),
            partial(self._beyond, self.smaller),
            error=self.law.noise._floor,
            atoms=self.around,
        )

    def limit(self) -> AsymptoticNull:
        """Return the law in the limit of many counts; the variance of the noise is part of it."""
        noise = self.law.noise.variance
        return AsymptoticNull.normal(np.sqrt(1.0 + noise / np.square(self.spread)))

    def around(self, z: FloatArray) -> FloatArray:
        """Return the z statistics of the whole counts around given ones."""
        whole, noisy = np.asarray(self.law._is_integer), np.asarray(self.law.noise.std) > 0
        return around(
            z,
            unit=np.where(whole, 1.0, 0.0),
            centre=self.centre,
            spread=self.spread,
            least=np.where(noisy, -np.inf, 0.0),
            most=np.where(noisy, np.inf, self.law._last),
        )

    def slack(self, count: FloatArray) -> FloatArray:
        """Error of a computed count, where whole numbers can still be told apart."""
        return np.minimum(_ROUNDING * (abs(count) + 2.0 * self.centre + 1.0), 0.25)

    def _beyond(self, tail: Callable[[FloatArray], FloatArray], z: FloatArray) -> FloatArray:
        """Tail of the count at the z statistic (no closure, so that results can be pickled)."""
        return tail(self.centre + z * self.spread)


def exact(
    test: OneCount, count: FloatArray, alternative: Alternative, simulation: Simulation
) -> Found:
    """P-values at the counts themselves, which going through z would round."""
    tails = {"two-sided": test.further, "larger": test.larger, "smaller": test.smaller}
    return tails[alternative](count), test.null()


def unbiased(
    test: OneCount, count: FloatArray, alternative: Alternative, simulation: Simulation
) -> Found:
    """P-values of the locally unbiased test; one-sided ones are those of the exact test."""
    known, both = test.null(), partial(_unbiased, test)
    beyond = partial(test._beyond, both)
    null = ThreeTails(known.larger, known.smaller, beyond, "exact, two-sided p-values unbiased")
    if alternative == "two-sided":
        return both(count), null
    return exact(test, count, alternative, simulation)[0], null


def _unbiased(test: OneCount, count: FloatArray) -> FloatArray:
    """P(g(T) <= g(count)), g(t) = E[(X - μ); T >= t] above its maximum, E[(μ - X); T <= t] below.

    E[X; T >= t] = μ·P(T' >= t - 1) with one trial less in T'.
    """
    law, mu = test.law, test.centre
    assert isinstance(law, NoisyBinomial)
    less = replace(law, nobs=law.nobs - 1.0)
    is_whole = bool(np.all(law.noise.is_integer))
    shape = np.broadcast_shapes(count.shape, np.shape(mu), law.noise.shape)
    t, centre = (np.broadcast_to(x, shape).astype(np.float64) for x in (count, mu))
    t = np.where(np.abs(t - np.rint(t)) <= test.slack(t), np.rint(t), t) if is_whole else t
    step = 1.0 if is_whole else 0.0

    def above(x: FloatArray) -> FloatArray:
        return np.asarray(less.upper(x - 1.0) - law.upper(x))

    def below(x: FloatArray) -> FloatArray:
        return np.asarray(law.lower(x) - less.lower(x - 1.0))

    def at(share: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        x = low + share * (high - low)
        return np.floor(x) if is_whole else x

    # the largest value of g, by shrinking an interval to its better two thirds
    reach = 4.0 * (np.sqrt(np.square(test.spread) + law.noise.variance) + 2.0)
    low, high = np.floor(centre - reach), np.ceil(centre + reach)
    for _ in range(_SEARCH):
        first = at(np.asarray(1.0 / 3.0), low, high)
        second = at(np.asarray(2.0 / 3.0), low, high)
        rises = above(first + step) < above(second + step)
        moves = high - low > (2.0 * step or _NEAR * reach)
        if not moves.any():
            break
        low, high = np.where(moves & rises, first, low), np.where(moves & ~rises, second, high)
    middle = low
    if is_whole:
        places = np.stack([low, low + 1.0, high])
        best = np.argmax([above(x + 1.0) for x in places], axis=0)
        middle = np.take_along_axis(places, best[np.newaxis], axis=0)[0]
    # T = middle + 1 and more above, T = middle and less below, where T is whole
    is_above = t > middle
    own = np.where(is_above, above(t), below(t)) * (1.0 + _ROUNDING * 1e4)
    near = np.where(is_above, middle, middle + step)
    far = np.where(is_above, middle - reach, middle + reach)
    for _ in range(_SEARCH):
        short = np.where(is_above, below(far), above(far)) > own
        if not short.any():
            break
        far = np.where(short, middle + 2.0 * (far - middle), far)
    far = np.where(is_above, np.floor(far), np.ceil(far)) if is_whole else far
    for _ in range(_SEARCH):
        if (np.abs(far - near) <= (step or _NEAR * reach)).all():
            break
        x = 0.5 * (near + far)
        x = np.where(is_above, np.floor(x), np.ceil(x)) if is_whole else x
        reached = np.where(is_above, below(x), above(x)) <= own
        near, far = np.where(reached, near, x), np.where(reached, x, far)
    reached = np.where(is_above, below(near), above(near)) <= own
    far = np.where(reached, near, far)
    tail = np.where(is_above, law.upper(t) + law.lower(far), law.lower(t) + law.upper(far))
    return np.minimum(tail, 1.0)


def monte_carlo(
    test: OneCount, count: FloatArray, alternative: Alternative, simulation: Simulation
) -> Found:
    """P-values by simulation; one simulation where all counts have one law."""
    rows = [test.law] if test.law.is_one_law else test.law.rows(count.size)
    statistic = test.statistic(count)
    centre, spread = (np.broadcast_to(x, count.shape) for x in (test.centre, test.spread))
    draws = [DrawZ(law, float(centre.flat[i]), float(spread.flat[i])) for i, law in enumerate(rows)]
    return simulated(draws, statistic, alternative, simulation, _BLOCK)


def asymptotic(
    test: OneCount, count: FloatArray, alternative: Alternative, simulation: Simulation
) -> Found:
    """P-values in the limit of many trials or events."""
    null = test.limit()
    return null.pvalue(test.statistic(count), alternative), null


Method = Literal["exact", "monte-carlo", "asymptotic", "unbiased"]

NULLS: dict[Method, Callable[[OneCount, FloatArray, Alternative, Simulation], Found]] = {
    "exact": exact,
    "monte-carlo": monte_carlo,
    "asymptotic": asymptotic,
    "unbiased": unbiased,
}
"""The p-values and the null distribution of each method."""


@dataclass(frozen=True, eq=False)
class DrawZ:
    """Draws z statistics of a noisy count; an object, so that other processes can be sent it."""

    law: NoisyCount
    centre: float
    spread: float

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw so many."""
        z = self.law.draw(size, rng)
        z -= self.centre
        z /= self.spread
        return z


@dataclass(frozen=True, kw_only=True, eq=False)
class OneEffect:
    """The means of noisy counts that a test does not reject, in units of what is tested."""

    count: FloatArray
    nobs: FloatArray | None
    noise: NoiseLaw
    unit: Affine
    alternative: Alternative
    method: Method
    simulation: Simulation

    @cached_property
    def counts(self) -> NoisyCounts:
        """The published counts, in a row, with the trials of each."""
        count = self.count.reshape(-1)
        nobs = None if self.nobs is None else np.broadcast_to(self.nobs, count.size)
        return NoisyCounts(count=count, nobs=nobs, noise=self.noise)

    def __call__(self, alpha: float) -> FoundEnds:
        notes: tuple[str, ...]
        if self.method == "exact" and self.alternative == "two-sided":
            lower, upper, gaps = self.counts.two_sided(alpha)
            notes = (GAPS,) if gaps.any() else ()
        else:
            lower, upper, notes = self._search(alpha)(alpha)
        least, most = self.unit.least, self.unit.most
        full = Affine(self.unit.shift, self.unit.scale)
        lower, upper = np.maximum(full(lower), least), np.minimum(full(upper), most)
        empty = ~(lower <= upper)
        return np.where(empty, np.inf, lower), np.where(empty, -np.inf, upper), notes

    def _search(self, alpha: float) -> Search:
        counts, spread = self.counts, self.counts.spread + np.zeros(self.counts.count.size)
        reach = np.abs(counts.count) + 60.0 * (spread + 30.0) * (1.0 - np.log10(alpha))
        is_simulated = self.method == "monte-carlo"
        jumps = self.method == "unbiased" and self.alternative == "two-sided"
        jumps &= bool(np.any(integer_cells(counts.noise, spread.size)))
        low, high = np.zeros(spread.size), np.minimum(counts.most, reach)
        if self.method == "unbiased":  # near 0 and n all outcomes weigh nothing, and are alike
            low, high = _WEIGHED * spread, high - _WEIGHED * spread
        return Search(
            pvalue=self.pvalue,
            start=counts.count,
            step=spread,
            low=low,
            high=high,
            alternative=self.alternative,
            is_monotone=not (is_simulated or jumps),
            notes=(SIMULATED,) if is_simulated else (GAPS,) if jumps else (),
            rtol=1e-6 if is_simulated else 1e-12,
        )

    def pvalue(self, mean: FloatArray, rows: Rows) -> FloatArray:
        """P-values of some of the counts at other means; one by one where they take long."""
        if rows.size != 1 and self.method in ("monte-carlo", "unbiased"):
            pairs = zip(mean.reshape(-1, 1), rows.reshape(-1, 1), strict=True)
            return np.array([self.pvalue(*pair) for pair in pairs]).reshape(-1)
        test, count, again = (
            self._at(mean, rows),
            self.counts.count[rows],
            repeated(self.simulation),
        )
        count = count if rows.size != 1 else count.reshape(())
        return np.reshape(NULLS[self.method](test, count, self.alternative, again)[0], rows.shape)

    def _at(self, mean: FloatArray, rows: Rows) -> OneCount:
        law = self.counts.law(mean, rows)
        if isinstance(law, NoisyBinomial):
            centre = np.asarray(law.nobs * law.value)
            return OneCount(law, centre, np.sqrt(centre * (1.0 - law.value)))
        assert isinstance(law, NoisyPoisson)
        return OneCount(law, law.rate, np.sqrt(law.rate))


def collapse(array: FloatArray) -> FloatArray:
    """Return one number where all entries are the same: the rows then share a law.

    It is a scalar, with which sums are much quicker than with an array of no dimension.
    """
    if not array.ndim:
        return array[()]
    first: Any = array.flat[0]
    return first if (array == first).all() else array
