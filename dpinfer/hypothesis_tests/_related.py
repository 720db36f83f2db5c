"""Tests of two proportions that stand in a given relation: a difference, a ratio or an odds ratio.

Under the null hypothesis the pair of proportions is on a curve. Of published counts with the sum M
the restricted estimate is the pair on it whose expected sum is M, and T is the first count less
what is expected there: for differences and ratios a multiple of p̂₁ - p̂₂ - δ and p̂₁ - r·p̂₂, for
odds ratios the score. Outcomes are ordered by the tail of T for a normal variable with the variance
at the restricted estimate plus the noise. Where the relation is equality, these are the statistic
and the order of the test of two proportions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from scipy import special

from dpinfer._check import Alternative, FloatArray
from dpinfer._numerics.counts import LOG_NEGLIGIBLE, binom_radius
from dpinfer._numerics.roots import find_root
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.two_sided import GAPS
from dpinfer.hypothesis_tests._answers import GUARANTEED, Found, ThreeTails, simulated
from dpinfer.hypothesis_tests._inversion import (
    MARGIN,
    SIMULATED,
    Effect,
    Rows,
    Search,
    repeated,
)
from dpinfer.hypothesis_tests._plug_in import (
    PlugIn,
    _at_most,
    _normal_and_laplace,
    certified_maximum,
)
from dpinfer.hypothesis_tests._two_samples import Method, _crossing
from dpinfer.mechanisms._noisy_count import NoisyBinomial
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Geometric, Laplace
from dpinfer.mechanisms.tulap import Tulap
from dpinfer.results.null import SIGNS, AsymptoticNull
from dpinfer.results.simulation import Simulation

Compare = Literal["diff", "ratio", "odds-ratio"]

EQUAL: dict[Compare, float] = {"diff": 0.0, "ratio": 1.0, "odds-ratio": 1.0}
"""The value of each comparison where the proportions are equal."""

_LEAST, _HALF = -230.0, float(np.log(0.5)) - 1e-9
_TIE = 1e-5
_NO_SIZE = 1e-8
_APART = 2e-4
_KNOTS = 2049
_MOST_CHORDS = 1 << 14
_ATOM = 1e-7
_LAST = 1.0 - 2.0**-53
_MOST_ENTRIES = 1 << 23
_INFORMATION = 4.0
_BEND = 1e-5
"""How far chords may be from the curve, in units of half the Fisher length."""


@dataclass(frozen=True, eq=False)
class Relation:
    """The curve of pairs of proportions with a difference, ratio or odds ratio."""

    compare: Compare
    value: float
    nobs: tuple[float, float]

    @cached_property
    def limits(self) -> tuple[float, float]:
        """Range of the second proportion."""
        if self.compare == "diff":
            return max(0.0, -self.value), min(1.0, 1.0 - self.value)
        return 0.0, min(1.0, 1.0 / self.value) if self.compare == "ratio" else 1.0

    def first(self, second: FloatArray) -> FloatArray:
        """First proportion of each second one."""
        if self.compare == "diff":
            return np.clip(second + self.value, 0.0, 1.0)
        if self.compare == "ratio":
            return np.clip(second * self.value, 0.0, 1.0)
        return np.minimum(self.value * second / (1.0 + (self.value - 1.0) * second), 1.0)

    def second_of(self, total: FloatArray) -> FloatArray:
        """Second proportion of the pair with an expected sum, half a success from the ends."""
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

    def parts(self, total: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Restricted estimates, the share of M that the first count has, T's sampling variance."""
        (n1, n2), v = self.nobs, self.value
        second = self.second_of(total)
        first = self.first(second)
        v1, v2 = n1 * first * (1.0 - first), n2 * second * (1.0 - second)
        if self.compare == "diff":
            share = np.full(second.shape, n1 / (n1 + n2))
        elif self.compare == "ratio":
            share = np.full(second.shape, n1 * v / (n1 * v + n2))
        else:
            share = v1 / (v1 + v2)
        return first, second, share, (1.0 - share) ** 2 * v1 + share**2 * v2

    def contrast(self, count1: FloatArray, count2: FloatArray) -> FloatArray:
        """T: the first count less what is expected of it given the sum of both."""
        n1, n2 = self.nobs
        total = count1 + count2
        first, second, share, _ = self.parts(total)
        return np.asarray(count1 - n1 * first - share * (total - n1 * first - n2 * second))

    def second(self, first: FloatArray) -> FloatArray:
        """Second proportion of each first one."""
        if self.compare == "diff":
            return np.clip(first - self.value, 0.0, 1.0)
        if self.compare == "ratio":
            return np.clip(first / self.value, 0.0, 1.0)
        return np.minimum(first / (self.value + (1.0 - self.value) * first), 1.0)

    def chords(self, low: float, high: float) -> tuple[FloatArray, FloatArray, float]:
        """Points u, v on the curve between second proportions, and how far chords are from it.

        With u = √n₁·asin√p₁ and v = √n₂·asin√p₂ the Fisher information is 4 times the unit matrix.
        In these coordinates each of the curves rises, and bends to one side only: between two
        points it is in the triangle of their chord and its tangents there. Chords are halved until
        these triangles are low.
        """
        ends = np.linspace(low, high, 2 if high > low else 1)
        first, second = self.first(ends), ends
        while True:
            r = self.value
            n1, n2 = np.sqrt(self.nobs)
            u, v = n1 * np.arcsin(np.sqrt(first)), n2 * np.arcsin(np.sqrt(second))
            if self.compare == "diff":
                up, on = np.sqrt(second * (1.0 - second)), np.sqrt(first * (1.0 - first))
            elif self.compare == "ratio":
                up, on = np.sqrt(r * (1.0 - second)), np.sqrt(1.0 - first)
            else:
                up, on = np.full(u.shape, np.sqrt(r)), 1.0 + (r - 1.0) * second
            slope = np.where((up == 0.0) & (on == 0.0), 0.25 * np.pi, np.arctan2(n1 * up, n2 * on))
            du, dv = np.diff(u), np.diff(v)
            chord = np.arctan2(du, dv)
            one, other = np.tan(np.abs(np.stack([slope[:-1], slope[1:]]) - chord))
            with np.errstate(divide="ignore", invalid="ignore"):
                height = np.hypot(du, dv) / (1.0 / one + 1.0 / other)
            far = np.minimum(np.nan_to_num(height), np.minimum(du, dv))
            split = np.flatnonzero((far > _BEND) & (second[1:] - second[:-1] > 0.0))
            if not split.size or u.size > _MOST_CHORDS:
                return u, v, float(far.max(initial=0.0))
            on_second = dv[split] >= du[split]
            middle = np.sin(0.5 * (v[split] + v[split + 1]) / n2) ** 2
            across = np.sin(0.5 * (u[split] + u[split + 1]) / n1) ** 2
            first = np.insert(first, split + 1, np.where(on_second, self.first(middle), across))
            second = np.insert(second, split + 1, np.where(on_second, middle, self.second(across)))

    @cached_property
    def middle(self) -> float:
        """Sum of the counts at which the variance of T is largest."""
        low, high = self.limits
        second = np.linspace(low, high, _KNOTS)
        total = self.nobs[0] * self.first(second) + self.nobs[1] * second
        return float(total[np.argmax(self.parts(total)[3])])


@dataclass(frozen=True, kw_only=True, eq=False)
class Related:
    """A pair of noisy counts of successes, and a relation of their proportions that is tested."""

    counts: tuple[float, float]
    noises: tuple[NoiseLaw, NoiseLaw]
    relation: Relation
    nuisance_alpha: float
    spans: tuple[tuple[float, float], tuple[float, float]]  # confidence limits of both
    by_size: bool = False  # whether T itself sets the order

    @property
    def observed(self) -> float:
        """T."""
        return float(self.relation.contrast(*(np.asarray(y) for y in self.counts)))

    @cached_property
    def spread(self) -> float:
        """Standard deviation of T at the restricted estimate, noise included."""
        _, _, share, variance = self.relation.parts(np.asarray(sum(self.counts)))
        v1, v2 = (float(law.variance) for law in self.noises)
        return float(np.sqrt(variance + (1.0 - share) ** 2 * v1 + share**2 * v2))

    def log_tail(self, size: FloatArray, total: FloatArray, upwards: bool | None) -> FloatArray:
        """Logarithm of the tail of T beyond a size >= 0, with the variance at a sum of counts.

        ``upwards`` says from which side of the middle the variance is taken; None: as it is.
        """
        middle = self.relation.middle
        if self.by_size:
            return -size
        if upwards is not None:
            total = np.maximum(total, middle) if upwards else np.minimum(total, middle)
        _, _, share, variance = self.relation.parts(total)
        scales = []
        for weight, law in zip((1.0 - share, share), self.noises, strict=True):
            if isinstance(law, (Laplace, Geometric, Tulap)):
                scales.append(weight * float(law.scale))
            else:
                variance = variance + weight**2 * float(law.variance)
        spread = np.sqrt(variance)
        if not scales:
            return np.asarray(special.log_ndtr(-size / spread))
        if len(scales) == 1:
            tail = _normal_and_laplace(size, spread, scales[0])
        else:
            large, small = np.maximum(*scales), np.minimum(*scales)
            near = large - small < _APART * large
            large = np.where(near, large * (1.0 + _APART), large)
            small = np.where(near, small * (1.0 - _APART), small)
            square, other = large**2, small**2
            tail = square * _normal_and_laplace(size, spread, large)
            tail = (tail - other * _normal_and_laplace(size, spread, small)) / (square - other)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.maximum(np.log(tail), 10.0 * _LEAST))

    # how often outcomes are as extreme

    @cached_property
    def _plug_in(self) -> PlugIn:
        left_out = min(1e-10, 1e-4 * self.nuisance_alpha)
        return PlugIn(0.5, *self.noises, True, left_out)

    @cached_property
    def windows(self) -> tuple[FloatArray, FloatArray]:
        """Counts without noise that matter within the confidence limits."""
        found = []
        for n, span in zip(self.relation.nobs, self.spans, strict=True):
            p = np.asarray(span)
            mode = np.minimum(np.floor((n + 1.0) * p), n)
            radius = binom_radius(mode, np.asarray(n), LOG_NEGLIGIBLE)
            low, high = max(float(mode[0] - radius[0]), 0.0), min(float(mode[1] + radius[1]), n)
            found.append(np.arange(low, high + 1.0))
        plug_in = self._plug_in
        nodes = [
            (x.size + 2.0 * reach) * plug_in._splits_of(law)
            for x, reach, law in zip(found, plug_in.reaches, self.noises, strict=True)
        ]
        entries = nodes[0] * found[1].size + nodes[1] * found[0].size
        if entries > _MOST_ENTRIES or self.noises[0].is_integer != self.noises[1].is_integer:
            raise InvalidParameterError(
                "method must be 'asymptotic' or 'monte-carlo' for a value other than equality, and "
                "for intervals, with so many trials, so much noise, or noise of which one is whole "
                "and the other is not: the tables of the exact law would be too long"
            )
        return found[0], found[1]

    def table(self, sign: float, log_level: float) -> FloatArray:
        """P(tail of T at or below a level, on one side) given both counts."""
        x1, x2 = self.windows
        middle = self.relation.middle
        if self.noises[0].is_integer and self.noises[1].is_integer:
            middle = np.floor(middle) + 0.5
        plug_in, reaches = self._plug_in, self._plug_in.reaches
        # below the middle the count that speaks against it is at most so much, above the other
        # at least so much: in these directions the variance falls as T grows
        for_low, for_high = (0, 1) if sign > 0 else (1, 0)
        total = np.zeros((x1.size, x2.size))
        for node_of, upwards in ((for_low, False), (for_high, True)):
            places, others = ((x1, x2), (x2, x1))[node_of]
            chance = partial(self._chance, node_of, upwards, sign, log_level, middle, others)
            law = self.noises[node_of]
            found = plug_in._averaged(law, reaches[node_of], places[np.newaxis], chance)[0]
            total += found if node_of == 0 else found.T
        return np.minimum(total, 1.0)

    def _chance(
        self,
        node_of: int,
        upwards: bool,
        sign: float,
        log_level: float,
        middle: float,
        others: FloatArray,
        node: FloatArray,
    ) -> FloatArray:
        y = node[0]
        side = 1.0 if upwards else -1.0

        def excess(u: FloatArray, rows: Rows) -> FloatArray:
            own, other = y[rows], side * u
            pair = (own, other) if node_of == 0 else (other, own)
            t = sign * self.relation.contrast(*pair)
            return self.log_tail(np.maximum(t, 0.0), own + other, upwards) - log_level

        n = self.relation.nobs[1 - node_of]
        start = side * np.clip(y / self.relation.nobs[node_of], 0.0, 1.0) * n
        is_whole = self.noises[0].is_integer and self.noises[1].is_integer
        precision = 0.25 if is_whole else 1e-8
        low, edge = find_root(excess, start, start + np.sqrt(n) + 1.0, atol=precision, expand=True)
        if is_whole:  # the first whole number from the edge on
            near = np.floor(low - _ATOM) + 1.0
            is_near = excess(near + _ATOM, np.arange(y.size)) <= 0.0
            edge = np.where(is_near | (low == edge), near, np.ceil(edge - _ATOM))
        limit = side * (middle - y)
        # other <= edge below the middle, other >= edge above it; the noise is symmetric
        bound = -np.maximum(edge, limit)
        return _at_most(self.noises[1 - node_of], bound[np.newaxis], -side * others[np.newaxis])

    def chance_table(self, alternative: Alternative, t: float) -> FloatArray:
        """P(outcome as extreme as T = t at the published sum) given both counts."""
        total, sign = np.asarray(sum(self.counts)), SIGNS[alternative]
        size = abs(t) if alternative == "two-sided" else sign * t
        upwards = bool(total > self.relation.middle)
        found = float(self.log_tail(np.asarray(abs(t)), total, upwards))
        level = found if self.by_size else float(np.clip(found, _LEAST, _HALF))
        if size <= _NO_SIZE or (found > _HALF and not self.by_size):
            if alternative == "two-sided":
                return np.ones([x.size for x in self.windows])
            return np.asarray(1.0 - self.table(-sign, level - _TIE))
        if alternative != "two-sided":
            return self.table(sign, level + 1e-9)
        return self.table(1.0, level + 1e-9) + self.table(-1.0, level + 1e-9)

    def largest(self, alternative: Alternative, t: float) -> float:
        """P-value at its largest over the part of the curve that the counts leave possible."""
        low, high = self.relation.limits
        (first_low, first_high), (second_low, second_high) = self.spans
        bounds = self.relation.second(np.array([first_low, first_high]))
        low, high = max(low, second_low, bounds[0]), min(high, second_high, bounds[1])
        if low > high:  # no such pair is plausible; one side may still not be what is looked for
            is_beyond = alternative == "two-sided" or SIGNS[alternative] * t > 0.0
            return self.nuisance_alpha if is_beyond else 1.0
        u, v, bend = self.relation.chords(low, high)
        along = u + v
        table = self.chance_table(alternative, t)
        n1, n2 = np.sqrt(self.relation.nobs)

        def tail(place: FloatArray) -> FloatArray:
            first, second = np.interp(place, along, u) / n1, np.interp(place, along, v) / n2
            return self._at(table, np.sin(first) ** 2, np.sin(second) ** 2)

        tolerance = max(0.5 * self.nuisance_alpha, 2e-5)
        found = certified_maximum(tail, along, _INFORMATION, tolerance)
        plug_in = self._plug_in
        found = found * (1.0 + plug_in.error) + 4.0 * plug_in.left_out + bend
        return min(found + self.nuisance_alpha, 1.0)

    def plugged(self, alternative: Alternative, t: float) -> float:
        """P-value at the restricted estimate."""
        first, second, *_ = self.relation.parts(np.asarray([sum(self.counts)]))
        return float(self._at(self.chance_table(alternative, t), first, second)[0])

    def _at(self, table: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
        one, other = (
            np.exp(ways + np.log(p) * x + np.log1p(-p) * (n - x))
            for x, ways, n, p in zip(
                self.windows,
                self._log_ways,
                self.relation.nobs,
                (np.clip(p[:, np.newaxis], 1e-300, _LAST) for p in (first, second)),
                strict=True,
            )
        )
        return np.asarray(np.minimum(((one @ table) * other).sum(axis=1), 1.0))

    @cached_property
    def _log_ways(self) -> list[FloatArray]:
        """Logarithms of the binomial coefficients; their error is some 1e-15·n."""
        return [
            special.gammaln(n + 1.0) - special.gammaln(x + 1.0) - special.gammaln(n - x + 1.0)
            for x, n in zip(self.windows, self.relation.nobs, strict=True)
        ]

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw T at the restricted estimate, in units of its spread."""
        first, second, *_ = self.relation.parts(np.asarray(sum(self.counts)))
        drawn = [
            rng.binomial(int(n), float(p), size) + law._rvs((size,), rng)
            for n, p, law in zip(self.relation.nobs, (first, second), self.noises, strict=True)
        ]
        return self.relation.contrast(*drawn) / self.spread


def limits_of(count: FloatArray, nobs: float, noise: NoiseLaw, level: float) -> FloatArray:
    """Limits, (m, 2), of proportions that each miss with probability ``level``."""
    first, last = np.full(count.size, 1e-8), np.full(count.size, 0.5 * np.pi - 2e-8)

    def law(x: FloatArray) -> NoisyBinomial:
        return NoisyBinomial(nobs=np.asarray(nobs), value=np.sin(x) ** 2, noise=noise)

    def upper(x: FloatArray, rows: Rows) -> FloatArray:
        return level - law(x).upper(count[rows])

    def lower(x: FloatArray, rows: Rows) -> FloatArray:
        return law(x).lower(count[rows]) - level

    low, high = _crossing(upper, first, last)[0], _crossing(lower, first, last)[1]
    low, high = np.where(low <= first, 0.0, low), np.where(high >= last, 0.5 * np.pi, high)
    return np.sin(np.stack([low, high], axis=1)) ** 2


@dataclass(frozen=True, kw_only=True, eq=False)
class RelatedRows:
    """Pairs of noisy counts, shape (m,), out of known numbers of trials."""

    counts: tuple[FloatArray, FloatArray]
    nobs: tuple[FloatArray, FloatArray]
    noises: tuple[NoiseLaw, NoiseLaw]  # of shape () or (m,)
    compare: Compare
    alternative: Alternative
    method: Method
    nuisance_alpha: float
    simulation: Simulation

    @cached_property
    def _limits(self) -> list[tuple[tuple[float, float], tuple[float, float]]]:
        """Confidence limits of both proportions of each row."""
        found = []
        for row in range(self.counts[0].size):
            pairs = zip(self.counts, self.nobs, self.noises, strict=True)
            spans = [
                limits_of(y[[row]], float(n[row]), _of_row(law, row), 0.25 * self.nuisance_alpha)[0]
                for y, n, law in pairs
            ]
            found.append(tuple((float(low), float(high)) for low, high in spans))
        return found  # type: ignore[return-value]

    def at(self, value: float, row: int) -> Related:
        """Return the test of a row."""
        relation = Relation(self.compare, value, tuple(float(n[row]) for n in self.nobs))  # type: ignore[arg-type]
        counts = tuple(float(y[row]) for y in self.counts)
        if self.method == "exact":
            spans = self._limits[row]
        else:
            p1, p2, *_ = relation.parts(np.asarray(sum(counts)))
            spans = ((float(p1), float(p1)), (float(p2), float(p2)))
        return Related(
            counts=counts,  # type: ignore[arg-type]
            noises=tuple(_of_row(law, row) for law in self.noises),  # type: ignore[arg-type]
            relation=relation,
            nuisance_alpha=self.nuisance_alpha,
            spans=spans,
            by_size=self.method == "plug-in",
        )

    def statistic(self, value: FloatArray) -> FloatArray:
        """Return T in its standard deviations, row by row."""
        rows = [self.at(float(v), row) for row, v in enumerate(value)]
        return np.array([one.observed / one.spread for one in rows])

    def pvalue(self, value: FloatArray, rows: Rows) -> FloatArray:
        """P-values of some rows at other values."""
        return np.array([self._one(float(v), int(row)) for v, row in zip(value, rows, strict=True)])

    def _one(self, value: float, row: int, z: float | None = None) -> float:
        test = self.at(value, row)
        t = test.observed if z is None else z * test.spread
        if self.method == "exact":
            return test.largest(self.alternative, t)
        if self.method == "plug-in":
            return test.plugged(self.alternative, t)
        known = np.asarray(t / test.spread)
        if self.method == "asymptotic":
            return float(AsymptoticNull.normal().pvalue(known, self.alternative))
        again = repeated(self.simulation)
        return float(simulated([test.draw], known, self.alternative, again)[0])

    def found(self, value: FloatArray, shape: tuple[int, ...]) -> Found:
        """P-values with their null laws."""
        rows = np.arange(value.size)
        z = self.statistic(value).reshape(shape)
        if self.method == "asymptotic":
            null = AsymptoticNull.normal()
            return null.pvalue(z, self.alternative), null
        if self.method == "monte-carlo":
            draws = [self.at(float(v), row).draw for row, v in enumerate(value)]
            return simulated(draws, z, self.alternative, repeated(self.simulation))
        larger, smaller, both = (
            partial(replace(self, alternative=side).tail, value, shape)
            for side in ("larger", "smaller", "two-sided")
        )
        kind = GUARANTEED if self.method == "exact" else "exact, at the restricted estimate"
        return self.pvalue(value, rows).reshape(shape), ThreeTails(larger, smaller, both, kind)

    def tail(self, value: FloatArray, shape: tuple[int, ...], z: FloatArray) -> FloatArray:
        """P-values at other statistics."""
        points = np.broadcast_to(z, shape).reshape(-1)
        pairs = enumerate(zip(value, points, strict=True))
        found = [self._one(float(v), row, float(x)) for row, (v, x) in pairs]
        return np.array(found).reshape(shape)

    def effect(self, null: FloatArray) -> Effect:
        """Return what is tested, with its estimate and what makes its intervals."""
        p1, p2 = (y / n for y, n in zip(self.counts, self.nobs, strict=True))
        variances, inside = [], []
        slopes: tuple[Any, Any]
        for p, n, law in zip((p1, p2), self.nobs, self.noises, strict=True):
            p = np.clip(p, 0.5 / n, 1.0 - 0.5 / n)
            inside.append(p)
            variances.append(p * (1.0 - p) / n + np.asarray(law.variance) / n**2)
        low, high = (np.clip(p, 0.0, 1.0) for p in (p1, p2))
        if self.compare == "diff":
            start, slopes, estimate = inside[0] - inside[1], (1.0, 1.0), p1 - p2
        elif self.compare == "ratio":
            start, slopes = np.log(inside[0] / inside[1]), (1.0 / inside[0], 1.0 / inside[1])
            estimate = quotient(low, high)
        else:
            start = special.logit(inside[0]) - special.logit(inside[1])
            slopes = tuple(1.0 / (p * (1.0 - p)) for p in inside)  # type: ignore[assignment]
            estimate = quotient(low * (1.0 - high), high * (1.0 - low))
        parts = zip(variances, slopes, strict=True)
        step = np.sqrt(np.sum([v * np.square(slope) for v, slope in parts], axis=0))
        is_difference = self.compare == "diff"
        limit = 1.0 - 1e-6 if is_difference else _LARGEST_LOG
        step = np.minimum(step, 0.25 if is_difference else 2.0)
        is_simulated, is_smooth = self.method == "monte-carlo", self.method == "asymptotic"
        ends = Search(
            pvalue=self.pvalue if is_difference else self._pvalue_of_log,
            start=start,
            step=step,
            low=-limit,
            high=limit,
            alternative=self.alternative,
            back=partial(_difference if is_difference else _ratio, limit),
            is_monotone=is_smooth or not any(law.is_integer for law in self.noises),
            notes=() if is_smooth else (SIMULATED if is_simulated else GAPS,),
            rtol=0.0,
            margin=MARGIN * step if self.method in ("exact", "plug-in") else 0.0,
            atol=1e-10 if is_smooth else 1e-6,
        )
        return Effect(
            name={"diff": "difference", "ratio": "ratio", "odds-ratio": "odds ratio"}[self.compare],
            estimate=estimate,
            null=null,
            ends=ends,
            most_shown=100 if is_smooth else 1,
        )

    def _pvalue_of_log(self, log_value: FloatArray, rows: Rows) -> FloatArray:
        return self.pvalue(np.exp(log_value), rows)


_LARGEST_LOG = 14.0
"""Logarithm beyond which ratios count as 0 or infinite."""


def _difference(limit: float, x: FloatArray) -> FloatArray:
    return np.where(np.abs(x) < limit, x, np.sign(x))


def _ratio(limit: float, x: FloatArray) -> FloatArray:
    return np.where(np.abs(x) < limit, np.exp(x), np.where(x > 0, np.inf, 0.0))


def quotient(top: FloatArray, bottom: FloatArray) -> FloatArray:
    """Ratio of numbers >= 0: inf where only the second is 0, and 0 for 0/0."""
    ratio = top / np.where(bottom > 0, bottom, 1.0)
    return np.where(bottom > 0, ratio, np.where(top > 0, np.inf, 0.0))


def _of_row(law: NoiseLaw, row: int) -> NoiseLaw:
    return law.take(row) if law.shape else law
