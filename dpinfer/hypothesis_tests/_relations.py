"""Curves of pairs of parameters of two counts: a difference, a ratio or an odds ratio is given.

Of published counts with the sum M the restricted estimate is the pair on the curve whose expected
sum is M, and T is the first count less what is expected of it there: for differences and ratios a
multiple of p̂₁ - p̂₂ - δ and p̂₁ - r·p̂₂, for odds ratios the score.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, final

import numpy as np
from scipy import special

from dpinfer._check import FloatArray
from dpinfer._numerics.counts import LOG_NEGLIGIBLE, binom_window, poisson_radius
from dpinfer.hypothesis_tests._inversion import Rows
from dpinfer.hypothesis_tests._two_samples import _crossing
from dpinfer.mechanisms._noisy_count import NoisyBinomial, NoisyPoisson
from dpinfer.mechanisms.law import NoiseLaw

Compare = Literal["diff", "ratio", "odds-ratio"]

EQUAL: dict[Compare, float] = {"diff": 0.0, "ratio": 1.0, "odds-ratio": 1.0}
"""The value of each comparison where both parameters are equal."""

Pair = tuple[FloatArray, FloatArray]
Spans = tuple[tuple[float, float], tuple[float, float]]

_KNOTS = 2049
_MOST_CHORDS = 1 << 14
_LAST = 1.0 - 2.0**-53
_INFORMATION = 4.0
_BEND = 1e-5
"""How far chords may be from the curve, in units of half the Fisher length."""


@dataclass(frozen=True, eq=False)
class Relation(ABC):
    """The curve of pairs of parameters of two counts that have a relation of a given value.

    ``nobs`` are trials or exposures: the counts have the means ``nobs`` times the parameters.
    """

    compare: Compare
    value: float
    nobs: tuple[float, float]

    are_apart = True  # whether the counts are independent

    @property
    @abstractmethod
    def limits(self) -> tuple[float, float]:
        """Range of the second parameter."""

    @abstractmethod
    def first(self, second: FloatArray) -> FloatArray:
        """First parameter of each second one."""

    @abstractmethod
    def second(self, first: FloatArray) -> FloatArray:
        """Second parameter of each first one."""

    @abstractmethod
    def second_of(self, total: FloatArray) -> FloatArray:
        """Second parameter of the pair with an expected sum, half an event from the ends."""

    @abstractmethod
    def spread_of(self, first: FloatArray, second: FloatArray) -> Pair:
        """Return the share of M that the first count has, and T's sampling variance."""

    @property
    @abstractmethod
    def middle(self) -> float:
        """Sum of the counts at which the variance of T is largest."""

    @abstractmethod
    def path(
        self, low: float, high: float
    ) -> tuple[FloatArray, float, float, Callable[[FloatArray], Pair]]:
        """Return a parameter of the curve between two second parameters, and what it runs through.

        A bound on the Fisher information about it and on E[abs(s')] of the score s, the most that
        probabilities err by, and both parameters at its values.
        """

    @abstractmethod
    def windows(self, spans: Spans) -> Spans:
        """Return the first and last counts that matter where the parameters are between limits."""

    @abstractmethod
    def pmfs(self, counts: Pair, first: FloatArray, second: FloatArray) -> Pair:
        """Probabilities of counts, shape (g, counts) of each; of pairs up to a factor of both."""

    @abstractmethod
    def plausible(
        self, which: int, count: FloatArray, noise: NoiseLaw, level: float
    ) -> tuple[float, float]:
        """Limits of a parameter, each of which misses it with probability ``level``."""

    @abstractmethod
    def draw(
        self, first: float, second: float, size: int, rng: np.random.Generator
    ) -> list[FloatArray]:
        """Draw both counts."""

    def parts(self, total: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Restricted estimates, the share of M that the first count has, T's sampling variance."""
        second = self.second_of(total)
        first = self.first(second)
        return first, second, *self.spread_of(first, second)

    def contrast(self, count1: FloatArray, count2: FloatArray) -> FloatArray:
        """T: the first count less what is expected of it given the sum of both."""
        n1, n2 = self.nobs
        total = count1 + count2
        first, second, share, _ = self.parts(total)
        return np.asarray(count1 - n1 * first - share * (total - n1 * first - n2 * second))


def _chords(
    relation: Relation,
    angles: Callable[[FloatArray, FloatArray], Pair],
    values: Callable[[FloatArray, FloatArray], Pair],
    slopes: Callable[[FloatArray, FloatArray], Pair],
    low: float,
    high: float,
) -> tuple[FloatArray, float, float, Callable[[FloatArray], Pair]]:
    """Return chords of a curve in angles u, v of the parameters, of Fisher information 4 each.

    In these coordinates the curve rises, and bends to one side only: between two points it is in
    the triangle of their chord and its tangents there, of which ``slopes`` are rise and run. Chords
    are halved until these triangles are low.
    """
    ends = np.linspace(low, high, 2 if high > low else 1)
    first, second = relation.first(ends), ends
    while True:
        u, v = angles(first, second)
        up, on = slopes(first, second)
        slope = np.where((up == 0.0) & (on == 0.0), 0.25 * np.pi, np.arctan2(up, on))
        du, dv = np.diff(u), np.diff(v)
        chord = np.arctan2(du, dv)
        one, other = np.tan(np.abs(np.stack([slope[:-1], slope[1:]]) - chord))
        with np.errstate(divide="ignore", invalid="ignore"):
            height = np.hypot(du, dv) / (1.0 / one + 1.0 / other)
        far = np.minimum(np.nan_to_num(height), np.minimum(du, dv))
        split = np.flatnonzero((far > _BEND) & (second[1:] - second[:-1] > 0.0))
        if not split.size or u.size > _MOST_CHORDS:
            break
        on_second = dv[split] >= du[split]
        across, middle = values(0.5 * (u[split] + u[split + 1]), 0.5 * (v[split] + v[split + 1]))
        first = np.insert(first, split + 1, np.where(on_second, relation.first(middle), across))
        second = np.insert(second, split + 1, np.where(on_second, middle, relation.second(across)))
    along = u + v

    def at(place: FloatArray) -> Pair:
        return values(np.interp(place, along, u), np.interp(place, along, v))

    return along, _INFORMATION, float(far.max(initial=0.0)), at


def _between_tails(
    upper: Callable[[FloatArray, Rows], FloatArray],
    lower: Callable[[FloatArray, Rows], FloatArray],
    last: float,
    end: float,
) -> tuple[float, float]:
    """Return where tails are at a level, in angles up to ``last``; ``end`` where they are not."""
    ends = np.full(1, 1e-8), np.full(1, last)
    low, high = float(_crossing(upper, *ends)[0][0]), float(_crossing(lower, *ends)[1][0])
    return 0.0 if low <= 1e-8 else low, end if high >= last else high


@final
@dataclass(frozen=True, eq=False)
class OfProportions(Relation):
    """Proportions of two samples."""

    @cached_property
    def limits(self) -> tuple[float, float]:
        if self.compare == "diff":
            return max(0.0, -self.value), min(1.0, 1.0 - self.value)
        return 0.0, min(1.0, 1.0 / self.value) if self.compare == "ratio" else 1.0

    def first(self, second: FloatArray) -> FloatArray:
        if self.compare == "diff":
            return np.clip(second + self.value, 0.0, 1.0)
        if self.compare == "ratio":
            return np.clip(second * self.value, 0.0, 1.0)
        return np.minimum(self.value * second / (1.0 + (self.value - 1.0) * second), 1.0)

    def second(self, first: FloatArray) -> FloatArray:
        if self.compare == "diff":
            return np.clip(first - self.value, 0.0, 1.0)
        if self.compare == "ratio":
            return np.clip(first / self.value, 0.0, 1.0)
        return np.minimum(first / (self.value + (1.0 - self.value) * first), 1.0)

    def second_of(self, total: FloatArray) -> FloatArray:
        (n1, n2), v = self.nobs, self.value
        if self.compare == "diff":
            found = (total - n1 * v) / (n1 + n2)
        elif self.compare == "ratio":
            found = total / (n1 * v + n2)
        else:
            m = np.clip(total, 0.0, n1 + n2)
            b = n1 * v + n2 - m * (v - 1.0)
            root = np.sqrt(np.maximum(b * b + 4.0 * n2 * (v - 1.0) * m, 0.0))
            # of the two ways to write the root the one in which nothing cancels
            safe = 2.0 * n2 * (v - 1.0) if v != 1.0 else 1.0
            with np.errstate(divide="ignore", invalid="ignore"):
                found = np.where(b >= 0.0, 2.0 * m / (b + root), (root - b) / safe)
        low, high = self.limits
        margin = 0.5 * (high - low) / (n1 + n2)
        return np.clip(found, low + margin, high - margin)

    def spread_of(self, first: FloatArray, second: FloatArray) -> Pair:
        (n1, n2), v = self.nobs, self.value
        v1, v2 = n1 * first * (1.0 - first), n2 * second * (1.0 - second)
        if self.compare == "diff":
            share = np.full(second.shape, n1 / (n1 + n2))
        elif self.compare == "ratio":
            share = np.full(second.shape, n1 * v / (n1 * v + n2))
        else:
            share = v1 / (v1 + v2)
        return share, (1.0 - share) ** 2 * v1 + share**2 * v2

    @cached_property
    def middle(self) -> float:
        low, high = self.limits
        second = np.linspace(low, high, _KNOTS)
        total = self.nobs[0] * self.first(second) + self.nobs[1] * second
        return float(total[np.argmax(self.parts(total)[3])])

    def path(
        self, low: float, high: float
    ) -> tuple[FloatArray, float, float, Callable[[FloatArray], Pair]]:
        n1, n2 = np.sqrt(self.nobs)

        def angles(first: FloatArray, second: FloatArray) -> Pair:
            return n1 * np.arcsin(np.sqrt(first)), n2 * np.arcsin(np.sqrt(second))

        def values(u: FloatArray, v: FloatArray) -> Pair:
            return np.sin(u / n1) ** 2, np.sin(v / n2) ** 2

        def slopes(first: FloatArray, second: FloatArray) -> Pair:
            r = self.value
            if self.compare == "diff":
                up, on = np.sqrt(second * (1.0 - second)), np.sqrt(first * (1.0 - first))
            elif self.compare == "ratio":
                up, on = np.sqrt(r * (1.0 - second)), np.sqrt(1.0 - first)
            else:
                up, on = np.full(first.shape, np.sqrt(r)), 1.0 + (r - 1.0) * second
            return n1 * up, n2 * on

        return _chords(self, angles, values, slopes, low, high)

    def windows(self, spans: Spans) -> Spans:
        return _trials_that_matter(self.nobs, spans)

    def pmfs(self, counts: Pair, first: FloatArray, second: FloatArray) -> Pair:
        one, other = (
            np.exp(ways + np.log(p) * x + np.log1p(-p) * (n - x))
            for x, ways, n, p in zip(
                counts,
                self._log_ways(counts),
                self.nobs,
                (np.clip(p[:, np.newaxis], 1e-300, _LAST) for p in (first, second)),
                strict=True,
            )
        )
        return one, other

    def _log_ways(self, counts: Pair) -> list[FloatArray]:
        """Logarithms of the binomial coefficients; their error is some 1e-15·n."""
        return [
            special.gammaln(n + 1.0) - special.gammaln(x + 1.0) - special.gammaln(n - x + 1.0)
            for x, n in zip(counts, self.nobs, strict=True)
        ]

    def plausible(
        self, which: int, count: FloatArray, noise: NoiseLaw, level: float
    ) -> tuple[float, float]:
        return plausible_proportions(count, self.nobs[which], noise, level)

    def draw(
        self, first: float, second: float, size: int, rng: np.random.Generator
    ) -> list[FloatArray]:
        pairs = zip(self.nobs, (first, second), strict=True)
        return [rng.binomial(int(n), p, size).astype(np.float64) for n, p in pairs]


def _trials_that_matter(nobs: tuple[float, float], spans: Spans) -> Spans:
    found = []
    for n, span in zip(nobs, spans, strict=True):
        first, last = binom_window(np.asarray(n), np.asarray(span))
        found.append((float(first[0]), float(last[1])))
    return found[0], found[1]


def plausible_proportions(
    count: FloatArray, nobs: float, noise: NoiseLaw, level: float
) -> tuple[float, float]:
    """Limits of a proportion, each of which misses it with probability ``level``."""

    def law(x: FloatArray) -> NoisyBinomial:
        return NoisyBinomial(nobs=np.asarray(nobs), value=np.sin(x) ** 2, noise=noise)

    def upper(x: FloatArray, rows: Rows) -> FloatArray:
        return level - law(x).upper(count[rows])

    def lower(x: FloatArray, rows: Rows) -> FloatArray:
        return law(x).lower(count[rows]) - level

    low, high = _between_tails(upper, lower, 0.5 * np.pi - 2e-8, 0.5 * np.pi)
    return float(np.sin(low) ** 2), float(np.sin(high) ** 2)


@final
@dataclass(frozen=True, eq=False)
class OfRates(Relation):
    """Rates of two Poisson counts, of which the difference is given."""

    @property
    def limits(self) -> tuple[float, float]:
        return max(0.0, -self.value), np.inf

    def first(self, second: FloatArray) -> FloatArray:
        return np.maximum(second + self.value, 0.0)

    def second(self, first: FloatArray) -> FloatArray:
        return np.maximum(first - self.value, 0.0)

    def second_of(self, total: FloatArray) -> FloatArray:
        n1, n2 = self.nobs
        found = (total - n1 * self.value) / (n1 + n2)
        return np.maximum(found, self.limits[0] + 0.5 / (n1 + n2))

    def spread_of(self, first: FloatArray, second: FloatArray) -> Pair:
        n1, n2 = self.nobs
        share = np.full(second.shape, n1 / (n1 + n2))
        return share, (1.0 - share) ** 2 * n1 * first + share**2 * n2 * second

    @property
    def middle(self) -> float:
        return np.inf

    def path(
        self, low: float, high: float
    ) -> tuple[FloatArray, float, float, Callable[[FloatArray], Pair]]:
        n1, n2 = np.sqrt(self.nobs)

        def angles(first: FloatArray, second: FloatArray) -> Pair:
            return n1 * np.sqrt(first), n2 * np.sqrt(second)

        def values(u: FloatArray, v: FloatArray) -> Pair:
            return np.square(u / n1), np.square(v / n2)

        def slopes(first: FloatArray, second: FloatArray) -> Pair:
            return n1 * np.sqrt(second), n2 * np.sqrt(first)

        return _chords(self, angles, values, slopes, low, high)

    def windows(self, spans: Spans) -> Spans:
        found = []
        for n, span in zip(self.nobs, spans, strict=True):
            mode = np.floor(n * np.asarray(span))
            radius = poisson_radius(mode, LOG_NEGLIGIBLE)
            found.append((max(float(mode[0] - radius[0]), 0.0), float(mode[1] + radius[1])))
        return found[0], found[1]

    def pmfs(self, counts: Pair, first: FloatArray, second: FloatArray) -> Pair:
        means = (n * p[:, np.newaxis] for n, p in zip(self.nobs, (first, second), strict=True))
        one, other = (
            _poisson(x, mean, special.gammaln(x + 1.0))
            for x, mean in zip(counts, means, strict=True)
        )
        return one, other

    def plausible(
        self, which: int, count: FloatArray, noise: NoiseLaw, level: float
    ) -> tuple[float, float]:
        def law(x: FloatArray) -> NoisyPoisson:
            return NoisyPoisson(rate=np.square(x), noise=noise)

        def upper(x: FloatArray, rows: Rows) -> FloatArray:
            return level - law(x).upper(count[rows])

        def lower(x: FloatArray, rows: Rows) -> FloatArray:
            return law(x).lower(count[rows]) - level

        most = float(np.maximum(count[0], 0.0) + noise._isf(np.asarray(0.5 * level)))
        last = np.sqrt(max(most, 0.0)) + np.sqrt(-np.log(level)) + 1.0
        low, high = _between_tails(upper, lower, last, np.inf)
        return low**2 / self.nobs[which], high**2 / self.nobs[which]

    def draw(
        self, first: float, second: float, size: int, rng: np.random.Generator
    ) -> list[FloatArray]:
        pairs = zip(self.nobs, (first, second), strict=True)
        return [rng.poisson(n * p, size).astype(np.float64) for n, p in pairs]


def _poisson(x: FloatArray, mean: FloatArray, log_ways: FloatArray) -> FloatArray:
    return np.asarray(np.exp(x * np.log(np.maximum(mean, 1e-300)) - mean - log_ways))


@final
@dataclass(frozen=True, eq=False)
class OfPairs(Relation):
    """Probabilities of both kinds of pairs that differ, out of one number of pairs."""

    are_apart = False

    @property
    def limits(self) -> tuple[float, float]:
        return max(0.0, -self.value), 0.5 * (1.0 - self.value)

    def first(self, second: FloatArray) -> FloatArray:
        return np.clip(second + self.value, 0.0, 1.0)

    def second(self, first: FloatArray) -> FloatArray:
        return np.clip(first - self.value, 0.0, 1.0)

    def second_of(self, total: FloatArray) -> FloatArray:
        n, (low, high) = self.nobs[0], self.limits
        margin = 0.5 * (high - low) / n
        return np.clip(0.5 * (total / n - self.value), low + margin, high - margin)

    def spread_of(self, first: FloatArray, second: FloatArray) -> Pair:
        variance = 0.25 * self.nobs[0] * (first + second - self.value**2)
        return np.full(second.shape, 0.5), variance

    @property
    def middle(self) -> float:
        return np.inf

    def path(
        self, low: float, high: float
    ) -> tuple[FloatArray, float, float, Callable[[FloatArray], Pair]]:
        # with A = 1 - abs(δ) the lesser probability is A/2·sin²φ and that of no difference A·cos²φ:
        # the information about φ, and E[abs(s')], are at most 4nA
        half = 0.5 * (1.0 - abs(self.value))
        shift = max(0.0, -self.value)
        ends = (np.unique([low, high]) - shift) / half

        def at(place: FloatArray) -> Pair:
            lesser = half * np.sin(place) ** 2
            return lesser + max(self.value, 0.0), lesser + shift

        return np.arcsin(np.sqrt(np.clip(ends, 0.0, 1.0))), 8.0 * self.nobs[0] * half, 0.0, at

    def windows(self, spans: Spans) -> Spans:
        return _trials_that_matter(self.nobs, spans)

    def pmfs(self, counts: Pair, first: FloatArray, second: FloatArray) -> Pair:
        """Poisson probabilities: :meth:`of_rest` is the factor that makes a trinomial of them."""
        one, other = (
            _poisson(x, self.nobs[0] * p[:, np.newaxis], special.gammaln(x + 1.0))
            for x, p in zip(counts, (first, second), strict=True)
        )
        return one, other

    def of_rest(self, differ: FloatArray, share: float) -> FloatArray:
        """P(R = n - d)/P(N = n) for Poisson R of mean n·share and N of mean n."""
        n = self.nobs[0]
        rest = np.maximum(n - differ, 0.0)
        whole = _poisson(np.asarray(n), np.asarray(n), special.gammaln(n + 1.0))
        chance = _poisson(rest, np.asarray(n * share), special.gammaln(rest + 1.0)) / whole
        return np.where(differ <= n, chance, 0.0)

    def plausible(
        self, which: int, count: FloatArray, noise: NoiseLaw, level: float
    ) -> tuple[float, float]:
        return plausible_proportions(count, self.nobs[which], noise, level)

    def draw(
        self, first: float, second: float, size: int, rng: np.random.Generator
    ) -> list[FloatArray]:
        chances = [first, second, max(1.0 - first - second, 0.0)]
        drawn = rng.multinomial(int(self.nobs[0]), chances, size).astype(np.float64)
        return [drawn[:, 0], drawn[:, 1]]
