"""Probability that a test of two noisy counts rejects, by a sum over all pairs of them.

Given the total M = T₁ + T₂ of the published counts, each version of the test compares a contrast
of the two with a law that depends on M only. So the rejected pairs with that total are those whose
first count is beyond a critical one, which a few p-values find.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import Alternative, FloatArray
from dpinfer._numerics.roots import find_root
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests.power._rejections import simulated_rate
from dpinfer.mechanisms._noisy_count import MOST_WORK, NoisyCount
from dpinfer.results.simulation import Simulation

Method = Literal["exact", "plug-in", "normal"]
METHODS: tuple[Method, ...] = ("exact", "plug-in", "normal")

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

_REFINEMENTS: tuple[Method, ...] = ("normal", "plug-in", "exact")
"""Versions of the test by their cost: the critical counts of one are near to those of the next."""

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
class TwoCounts(ABC):
    """Two noisy counts at their true laws, and a test of them.

    Parameters
    ----------
    laws : pair of NoisyCount
        The true laws, with scalar parameters.
    alternative, method, nuisance_alpha
        As for the test.
    """

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
        """Standard deviation of the published total."""
        return float(np.sqrt(self._moments[1] + sum(law.noise.variance for law in self.laws)))

    def reject(self, alpha: float, simulation: Simulation) -> tuple[float, float]:
        """Probability that the test rejects, and its Monte Carlo error, 0 for a sum."""
        if alpha <= self._least_pvalue:
            return 0.0, 0.0
        return (self.sum(alpha), 0.0) if self.is_summable else self.simulated(alpha, simulation)

    def simulated(self, alpha: float, simulation: Simulation) -> tuple[float, float]:
        """Share of replicates that the test rejects, and its standard error, which is never 0."""
        screen = None if self.method == "normal" else self._screen(alpha)
        if screen is not None:
            few = self._draw(_PILOT, np.random.default_rng(0))
            share = np.count_nonzero(self._is_doubtful(screen, *few)) / _PILOT
            self._check_work(share * simulation.reps)
        return simulated_rate(partial(self._rejections, alpha, screen), simulation, _REPLICATES)

    def _check_work(self, pvalues: float) -> None:
        """Refuse so many p-values if they take too long."""
        work = pvalues * self._work
        if work > _MOST_WORK:
            raise InvalidParameterError(
                "the counts, the noise or reps must be smaller for the power of "
                f"method={self.method!r}, which would take some {1e-7 * work:.2g} s: use "
                f"method={'plug-in' if self.method == 'exact' else 'normal'!r}"
            )

    def _rejections(
        self, alpha: float, screen: Screen | None, size: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draw published counts; 1 where the test rejects, 0 elsewhere."""
        first, second = self._draw(size, rng)
        if screen is None:
            return (self.pvalues(first, second) <= alpha).astype(np.float64)
        rejected = self._distance(screen, first, second) > 0.0
        doubtful = np.flatnonzero(self._is_doubtful(screen, first, second))
        if doubtful.size:
            rejected[doubtful] = self.pvalues(first[doubtful], second[doubtful]) <= alpha
        return rejected.astype(np.float64)

    def _distance(self, screen: Screen, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return by how much scores exceed the critical one, about."""
        return self._score(self._contrast(first, second)) - screen.at(first + second)

    def _is_doubtful(
        self, screen: Screen, first: FloatArray, second: FloatArray
    ) -> NDArray[np.bool_]:
        """Whether pairs need a p-value of their own."""
        near = ~(np.abs(self._distance(screen, first, second)) > screen.margin)
        return near | screen.is_outside(first + second)

    def _draw(self, size: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draw published counts."""
        first, second = (
            law._draw_counts(size, rng) + law.noise._rvs((size,), rng) for law in self.laws
        )
        return first, second

    def _score(self, z: FloatArray) -> FloatArray:
        """Return what is large where the test rejects."""
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
        """Whether the published counts are whole numbers."""
        return all(law.noise.is_integer for law in self.laws)

    @cached_property
    def is_summable(self) -> bool:
        """Whether the published counts are whole numbers, and their pairs not too many."""
        if not self._is_whole:
            return False
        lengths = [high - low + 1.0 for low, high in self._ends]
        return lengths[0] * lengths[1] <= self._most_pairs and self._is_quick(sum(lengths))

    def _is_quick(self, totals: float) -> bool:
        """Whether the critical counts of so many totals are found in seconds."""
        if self.method == "exact" and totals > self._most_guaranteed:
            return False
        return totals * _STEPS * self._work <= MOST_WORK

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
        """First and last published count that matters, of both."""
        first, second = (_ends(law) for law in self.laws)
        return first, second

    @cached_property
    def _pmfs(self) -> list[FloatArray]:
        """Probabilities of the published counts between their ends."""
        return [
            np.maximum(-np.diff(law.upper(np.arange(low, high + 2.0))), 0.0)
            for law, (low, high) in zip(self.laws, self._ends, strict=True)
        ]


def _ends(law: NoisyCount) -> tuple[float, float]:
    low, high = law._support(_LOG_NEGLIGIBLE)
    reach = float(law.noise.isf(0.01 * _LEFT_OUT))
    return low - reach, high + reach


def _smallest(
    holds: Holds,
    first: FloatArray,
    last: FloatArray,
    guess: FloatArray,
    chosen: NDArray[np.intp],
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
