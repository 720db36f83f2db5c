"""Probability that a test of two proportions rejects, by a sum over all pairs of published counts.

Given the total M = T₁ + T₂ of the published counts, each version of the test compares the
difference of the proportions with a law that depends on M only. So the rejected pairs with that
total are those whose first count is beyond a critical one, which a few p-values find.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from dpinfer._numerics.binomial import binom_radius
from dpinfer._numerics.roots import find_root
from dpinfer._validation import Alternative, FloatArray
from dpinfer.hypothesis_tests.proportions._two_samples import NULLS, Method, Sample, TwoSamples
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.mechanisms.noisy_binomial import NoisyBinomial
from dpinfer.results.simulation import Simulation, simulate_null

_LEFT_OUT = 1e-8
"""Probability of the pairs that are left out."""

_MOST_PAIRS = 1 << 26
"""Pairs of published counts up to which all are gone through."""

_MOST_GUARANTEED = 200
"""Lengths of both rows of counts up to which that is done for the guaranteed p-values: seconds."""

_LOG_NEGLIGIBLE = 35.0
"""Counts less probable than the mode by exp(-35) are left out."""

_REPLICATES = 1 << 12
"""Replicates drawn at a time."""

_KNOTS = 17
_FARTHEST = 4.0
"""Number of totals at which critical scores are found, and how far from the mean, in spreads."""

_NEAR = 0.01
"""Precision of critical scores."""

_REFINEMENTS: tuple[Method, ...] = ("normal", "plug-in", "exact")
"""Versions of the test by their cost: the critical counts of one are near to those of the next."""

_UNUSED = Simulation(reps=1, rng=np.random.default_rng(0))

Holds = Callable[[FloatArray, NDArray[np.intp]], NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class Screen:
    """Critical scores, by the total of the published counts, and how wrong they may be."""

    total: FloatArray
    score: FloatArray
    margin: float

    def at(self, total: FloatArray) -> FloatArray:
        """Return about the critical score."""
        return np.interp(total, self.total, self.score)

    def is_outside(self, total: FloatArray) -> NDArray[np.bool_]:
        """Whether totals are outside those that were looked at."""
        return np.asarray((total < self.total[0]) | (total > self.total[-1]))


@dataclass(frozen=True, eq=False)
class TwoCounts:
    """Two noisy counts at their true proportions, and the test of them.

    Parameters
    ----------
    nobs : pair of float
        Numbers of trials.
    value : pair of float
        The true proportions.
    noises : pair of NoiseLaw
        Laws of the noise, with scalar parameters.
    alternative, method, nuisance_alpha
        As for the test.
    """

    nobs: tuple[float, float]
    value: tuple[float, float]
    noises: tuple[NoiseLaw, NoiseLaw]
    alternative: Alternative
    method: Method
    nuisance_alpha: float

    def pvalues(
        self, first: FloatArray, second: FloatArray, method: Method | None = None
    ) -> FloatArray:
        """P-values of pairs of published counts, shape (m,)."""
        test = self._test(first, second)
        return NULLS[method or self.method](test, self.alternative, _UNUSED)[0]

    def _test(self, first: FloatArray, second: FloatArray) -> TwoSamples:
        samples = [
            Sample(
                count=count,
                nobs=np.full(count.shape, nobs),
                noise=noise,
                nobs_noise=None,
                is_total=False,
            )
            for count, nobs, noise in zip((first, second), self.nobs, self.noises, strict=True)
        ]
        return TwoSamples(
            samples=(samples[0], samples[1]),
            nuisance_alpha=self.nuisance_alpha,
            shape=first.shape,
            labels=None,
        )

    def reject(self, alpha: float, simulation: Simulation) -> tuple[float, float]:
        """Probability that the test rejects, and its Monte Carlo error, 0 for a sum."""
        if self.method == "exact" and alpha <= self.nuisance_alpha:
            return 0.0, 0.0  # no p-value is as small as that
        return (self.sum(alpha), 0.0) if self.is_summable else self.simulated(alpha, simulation)

    def simulated(self, alpha: float, simulation: Simulation) -> tuple[float, float]:
        """Share of replicates that the test rejects, and its standard error, which is never 0."""
        screen = None if self.method == "normal" else self._screen(alpha)
        draws = [partial(self._rejections, alpha, screen)]
        ones = np.ones(())
        drawn = simulate_null(draws, ones, simulation, alternative="larger", block=_REPLICATES)
        reps = simulation.reps
        # the p-value counts the observed value as one more replicate
        rate = (float(drawn.pvalue(1.0, "larger")) * (reps + 1) - 1.0) / reps
        rate = min(max(rate, 0.0), 1.0)
        return rate, float(np.sqrt(max(rate * (1.0 - rate), 1.0 / (reps + 2.0)) / reps))

    def _rejections(
        self, alpha: float, screen: Screen | None, size: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draw published counts; 1 where the test rejects, 0 elsewhere."""
        first, second = (
            rng.binomial(int(nobs), value, size) + noise._rvs((size,), rng)
            for nobs, value, noise in zip(self.nobs, self.value, self.noises, strict=True)
        )
        if screen is None:
            return (self.pvalues(first, second) <= alpha).astype(np.float64)
        total = first + second
        distance = self._score(self._test(first, second).statistic) - screen.at(total)
        rejected = distance > 0.0
        doubtful = np.flatnonzero(~(np.abs(distance) > screen.margin) | screen.is_outside(total))
        if doubtful.size:
            rejected[doubtful] = self.pvalues(first[doubtful], second[doubtful]) <= alpha
        return rejected.astype(np.float64)

    def _score(self, z: FloatArray) -> FloatArray:
        """Return what is large where the test rejects."""
        return {"two-sided": np.abs(z), "larger": z, "smaller": -z}[self.alternative]

    def _screen(self, alpha: float) -> Screen:
        """Critical scores at some totals: only replicates near to them need a p-value."""
        n1, n2 = self.nobs
        mean = n1 * self.value[0] + n2 * self.value[1]
        spread = np.sqrt(
            sum(
                n * p * (1.0 - p) + float(noise.variance)
                for n, p, noise in zip(self.nobs, self.value, self.noises, strict=True)
            )
        )
        total = mean + spread * np.linspace(-_FARTHEST, _FARTHEST, _KNOTS)
        scale = self._test(total, np.zeros(_KNOTS)).spread  # depends on the total only
        sign = -1.0 if self.alternative == "smaller" else 1.0

        def excess(score: FloatArray, rows: NDArray[np.intp]) -> FloatArray:
            difference = sign * score * scale[rows]
            first = (total[rows] / n2 + difference) / (1.0 / n1 + 1.0 / n2)
            tail = self.pvalues(first, total[rows] - first)
            with np.errstate(divide="ignore"):
                return np.asarray(np.maximum(np.log(tail), -1e6) - np.log(alpha))

        start = np.full(_KNOTS, 0.0 if self.alternative == "two-sided" else -1.0)
        _, score = find_root(excess, start, start + 3.0, atol=_NEAR, rtol=0.0, expand=True)
        missed = np.abs(np.interp(total[1::2], total[::2], score[::2]) - score[1::2]).max()
        # with all knots a smooth curve is missed by a quarter of that
        return Screen(total, score, 2.0 * _NEAR + 2.0 * float(missed))

    @cached_property
    def is_summable(self) -> bool:
        """Whether the published counts are whole numbers, and their pairs not too many."""
        if not all(noise.is_integer for noise in self.noises):
            return False
        lengths = [high - low + 1.0 for low, high in self._ends]
        if self.method == "exact" and sum(lengths) > _MOST_GUARANTEED:
            return False
        return lengths[0] * lengths[1] <= _MOST_PAIRS

    def sum(self, alpha: float) -> float:
        """Probability that the test rejects."""
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
        middle = np.floor(total * self.nobs[side] / sum(self.nobs))
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
        for method in _REFINEMENTS[: _REFINEMENTS.index(self.method) + 1]:

            def holds(
                lead: FloatArray, rows: NDArray[np.intp], method: Method = method
            ) -> NDArray[np.bool_]:
                pair = (lead, total[rows] - lead)
                return self.pvalues(pair[side], pair[1 - side], method) <= alpha

            guess = _smallest(holds, first, last, guess)
        return guess

    @cached_property
    def _ends(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """First and last published count that matters, of both."""
        first, second = (
            _ends(*parts) for parts in zip(self.nobs, self.value, self.noises, strict=True)
        )
        return first, second

    @cached_property
    def _pmfs(self) -> list[FloatArray]:
        """Probabilities of the published counts between their ends."""
        pmfs = []
        laws = zip(self.nobs, self.value, self.noises, self._ends, strict=True)
        for nobs, value, noise, (low, high) in laws:
            law = NoisyBinomial(nobs=np.asarray(nobs), value=np.asarray(value), noise=noise)
            pmfs.append(np.maximum(-np.diff(law.upper(np.arange(low, high + 2.0))), 0.0))
        return pmfs


def _ends(nobs: float, value: float, noise: NoiseLaw) -> tuple[float, float]:
    mode = np.minimum(np.floor((nobs + 1.0) * value), nobs)
    radius = float(binom_radius(mode, np.asarray(nobs), _LOG_NEGLIGIBLE))
    reach = float(noise.isf(0.01 * _LEFT_OUT))
    return max(float(mode) - radius, 0.0) - reach, min(float(mode) + radius, nobs) + reach


def _smallest(holds: Holds, first: FloatArray, last: FloatArray, guess: FloatArray) -> FloatArray:
    """Smallest whole numbers, up to ``last`` + 1, from which on a condition holds, row by row."""
    below, above = first - 1.0, last + 1.0
    point, step = guess, 1.0
    turned = np.zeros(first.shape, dtype=np.bool_)
    came_up = np.zeros(first.shape, dtype=np.bool_)
    started = False
    while (rows := np.flatnonzero(above - below > 1.0)).size:
        x = np.clip(point, below + 1.0, above - 1.0)[rows]
        held = holds(x, rows)
        above[rows] = np.where(held, x, above[rows])
        below[rows] = np.where(held, below[rows], x)
        if started:
            turned[rows] |= held == came_up[rows]
        came_up[rows], started = ~held, True
        away = np.where(held, x - step, x + step)
        point = np.array(point)
        halved = np.floor(0.5 * (below[rows] + above[rows]))
        point[rows] = np.where(turned[rows], halved, away)
        step *= 2.0
    return above
