"""Tests of two counts whose parameters stand in a given relation, and intervals that invert them.

Under the null hypothesis the pair of proportions, or rates, is on a curve. Outcomes are ordered by
the tail of T, the first count less what is expected of it given the sum, for a normal variable with
the variance at the restricted estimate plus the noise. Where the relation is equality of two
proportions, these are the statistic and the order of the test of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import Alternative, FloatArray
from dpinfer._numerics.roots import find_root
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.two_sided import GAPS
from dpinfer.hypothesis_tests._answers import GUARANTEED, Found, ThreeTails, simulated
from dpinfer.hypothesis_tests._inversion import (
    MARGIN,
    SIMULATED,
    Effect,
    PValue,
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
from dpinfer.hypothesis_tests._relations import (
    EQUAL,
    Compare,
    OfPairs,
    OfProportions,
    OfRates,
    Relation,
    Spans,
)
from dpinfer.hypothesis_tests._two_samples import Method, _blurred
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Geometric, Laplace
from dpinfer.mechanisms.tulap import Tulap
from dpinfer.results.null import SIGNS, AsymptoticNull
from dpinfer.results.simulation import Simulation

_LEAST, _HALF = -230.0, float(np.log(0.5)) - 1e-9
_TIE = 1e-5
_NO_SIZE = 1e-8
_APART = 2e-4
_ATOM = 1e-7
_MOST_ENTRIES = 1 << 23
_TOGETHER = 64
"""Pairs of parameters whose chances are found together."""

Edge = tuple[int, float, Callable[[FloatArray], FloatArray]]
"""Which count is given, whether the other must be large (1) or small (-1), and from where on."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Related:
    """A pair of noisy counts of successes, and a relation of their proportions that is tested."""

    counts: tuple[float, float]
    noises: tuple[NoiseLaw, NoiseLaw]
    relation: Relation
    nuisance_alpha: float
    spans: Spans  # confidence limits of both
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
        found = self.relation.windows(self.spans)
        first, second = (high - low + 1.0 for low, high in found)
        plug_in = self._plug_in
        nodes = [
            (size + 2.0 * reach) * plug_in._splits_of(law)
            for size, reach, law in zip((first, second), plug_in.reaches, self.noises, strict=True)
        ]
        of_pairs = nodes[0] * second + nodes[1] * first
        entries = _TOGETHER * sum(nodes) if self.is_summed else of_pairs
        if entries > _MOST_ENTRIES or self.noises[0].is_integer != self.noises[1].is_integer:
            raise InvalidParameterError(
                "method must be 'asymptotic' or 'monte-carlo' for a value other than equality, and "
                "for intervals, with so many trials or events, so much noise, or noise of which "
                "one is whole and the other is not: the tables of the exact law would be too long"
            )
        return tuple(np.arange(low, high + 1.0) for low, high in found)  # type: ignore[return-value]

    @property
    def is_whole(self) -> bool:
        """Whether what is published is whole."""
        return self.noises[0].is_integer and self.noises[1].is_integer

    @property
    def is_summed(self) -> bool:
        """Whether chances are sums over one published count of tails of the other."""
        return self.is_whole and self.relation.are_apart

    def edges(self, sign: float, log_level: float) -> Iterator[Edge]:
        """Yield from where on one count, given the other, makes the tail of T at most a level."""
        # below the middle the count that speaks against it is at most so much, above the other
        # at least so much: in these directions the variance falls as T grows
        for_low, for_high = (0, 1) if sign > 0 else (1, 0)
        yield for_low, -1.0, partial(self._edge, for_low, -1.0, sign, log_level)
        if np.isfinite(self.relation.middle):
            yield for_high, 1.0, partial(self._edge, for_high, 1.0, sign, log_level)

    def _edge(
        self, node_of: int, side: float, sign: float, log_level: float, y: FloatArray
    ) -> FloatArray:
        """Least multiple of ``side`` that the other published count is rejected from, given y."""

        def excess(u: FloatArray, rows: Rows) -> FloatArray:
            own, other = y[rows], side * u
            pair = (own, other) if node_of == 0 else (other, own)
            t = sign * self.relation.contrast(*pair)
            return self.log_tail(np.maximum(t, 0.0), own + other, side > 0.0) - log_level

        own, n = self.relation.nobs[node_of], self.relation.nobs[1 - node_of]
        middle = self.relation.middle
        start = np.maximum(y / own, 0.0) * n
        if np.isfinite(middle):
            start = np.minimum(start, n)
        step = np.sqrt(start.max(initial=0.0)) + 1.0
        precision = 0.25 if self.is_whole else 1e-8
        low, edge = find_root(
            excess, side * start, side * start + step, atol=precision, expand=True
        )
        if self.is_whole:  # the first whole number from the edge on
            middle = np.floor(middle) + 0.5
            near = np.floor(low - _ATOM) + 1.0
            is_near = excess(near + _ATOM, np.arange(y.size)) <= 0.0
            edge = np.where(is_near | (low == edge), near, np.ceil(edge - _ATOM))
        return np.maximum(edge, side * (middle - y))

    def table(self, sign: float, log_level: float) -> FloatArray:
        """P(tail of T at or below a level, on one side) given both counts."""
        total = np.zeros([x.size for x in self.windows])
        for node_of, side, edge in self.edges(sign, log_level):
            places, others = self.windows[node_of], self.windows[1 - node_of]

            chance = partial(self._chance_given, 1 - node_of, side, edge, others)
            law, reach = self.noises[node_of], self._plug_in.reaches[node_of]
            found = self._plug_in._averaged(law, reach, places[np.newaxis], chance)[0]
            total += found if node_of == 0 else found.T
        return np.minimum(total, 1.0)

    def _chance_given(
        self,
        which: int,
        side: float,
        edge: Callable[[FloatArray], FloatArray],
        counts: FloatArray,
        node: FloatArray,
    ) -> FloatArray:
        """P(a count with noise is beyond the edge) given the other with noise, and given itself."""
        # side·(count + noise) >= edge; the noise is symmetric
        bound, place = -edge(node[0]), -side * counts
        return _at_most(self.noises[which], bound[np.newaxis], place[np.newaxis])

    def chance(
        self, alternative: Alternative, t: float
    ) -> Callable[[FloatArray, FloatArray], FloatArray]:
        """P(outcome as extreme as T = t at the published sum), a function of both parameters."""
        total, sign = np.asarray(sum(self.counts)), SIGNS[alternative]
        size = abs(t) if alternative == "two-sided" else sign * t
        upwards = bool(total > self.relation.middle)
        found = float(self.log_tail(np.asarray(abs(t)), total, upwards))
        level = found if self.by_size else float(np.clip(found, _LEAST, _HALF))
        signs = (1.0, -1.0) if alternative == "two-sided" else (sign,)
        if size > _NO_SIZE and (found <= _HALF or self.by_size):
            return self._beyond(0.0, 1.0, signs, level + 1e-9)
        if alternative == "two-sided":
            return self._beyond(1.0, 0.0, (), level)
        return self._beyond(1.0, -1.0, (-sign,), level - _TIE)

    def _beyond(
        self, start: float, weight: float, signs: tuple[float, ...], log_level: float
    ) -> Callable[[FloatArray, FloatArray], FloatArray]:
        """Return start + weight·P(tail of T at or below a level, on some sides)."""
        if not self.is_summed:
            table = sum((self.table(sign, log_level) for sign in signs), np.zeros((1, 1)))
            table = np.broadcast_to(table, [x.size for x in self.windows])
            return partial(self._weighted, start + weight * table)
        ranges = [self._published(which) for which in (0, 1)]
        places = []
        for sign in signs:
            for node_of, side, edge in self.edges(sign, log_level):
                other = ranges[1 - node_of]
                # the place of the first of those that count, from either end
                beyond = np.ceil(edge(ranges[node_of])) - (other[0] if side > 0.0 else -other[-1])
                left = other.size - np.clip(beyond, 0.0, float(other.size))
                places.append((node_of, side, left.astype(np.intp)))
        return partial(self._summed, start, weight, places)

    def _published(self, which: int) -> FloatArray:
        x, reach = self.windows[which], self._plug_in.reaches[which]
        return np.arange(x[0] - reach, x[-1] + reach + 1.0)

    def _summed(
        self,
        start: float,
        weight: float,
        places: list[tuple[int, float, NDArray[np.intp]]],
        first: FloatArray,
        second: FloatArray,
    ) -> FloatArray:
        """Sum the probabilities of one published count times tails of the other."""
        total = np.full(first.size, start)
        for begin in range(0, first.size, _TOGETHER):
            part = slice(begin, begin + _TOGETHER)
            found = self.relation.pmfs(self.windows, first[part], second[part])
            pmfs = [
                _blurred(pmf, law, int(reach))
                for pmf, law, reach in zip(found, self.noises, self._plug_in.reaches, strict=True)
            ]
            for node_of, side, left in places:
                other = pmfs[1 - node_of]
                # tails of 0, 1, ... numbers from the far end
                tails = np.cumsum(other[:, ::-1] if side > 0.0 else other, axis=1)
                tails = np.pad(tails, ((0, 0), (1, 0)))
                total[part] += weight * (pmfs[node_of] * tails[:, left]).sum(axis=1)
        return np.asarray(np.clip(total, 0.0, 1.0))

    def _weighted(self, table: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
        """Sum a table times the probabilities of both counts."""
        one, other = self.relation.pmfs(self.windows, first, second)
        if isinstance(self.relation, OfPairs):
            differ = np.arange(sum(x.size for x in self.windows) - 1.0)
            differ += self.windows[0][0] + self.windows[1][0]
            place = np.add.outer(*(np.arange(x.size) for x in self.windows))
            rest = np.maximum(1.0 - first - second, 0.0)
            found = [
                row @ (table * self.relation.of_rest(differ, share)[place]) @ column
                for row, column, share in zip(one, other, rest, strict=True)
            ]
            return np.asarray(np.clip(found, 0.0, 1.0))
        return np.asarray(np.clip(((one @ table) * other).sum(axis=1), 0.0, 1.0))

    def largest(self, alternative: Alternative, t: float, level: float | None = None) -> float:
        """P-value at its largest over the part of the curve that the counts leave possible."""
        low, high = self.relation.limits
        (first_low, first_high), (second_low, second_high) = self.spans
        bounds = self.relation.second(np.array([first_low, first_high]))
        low, high = max(low, second_low, bounds[0]), min(high, second_high, bounds[1])
        if low > high:  # no such pair is plausible; one side may still not be what is looked for
            is_beyond = alternative == "two-sided" or SIGNS[alternative] * t > 0.0
            return self.nuisance_alpha if is_beyond else 1.0
        place, information, bend, at = self.relation.path(low, high)
        chance = self.chance(alternative, t)
        tolerance = max(0.5 * self.nuisance_alpha, 2e-5)
        factor = 1.0 + self._plug_in.error
        added = 4.0 * self._plug_in.left_out + bend + self.nuisance_alpha
        target = None if level is None else (level - added) / factor

        def tail(x: FloatArray) -> FloatArray:
            return chance(*at(x))

        found = certified_maximum(tail, place, information, tolerance, target)
        return min(found * factor + added, 1.0)

    def plugged(self, alternative: Alternative, t: float) -> float:
        """P-value at the restricted estimate."""
        first, second, *_ = self.relation.parts(np.asarray([sum(self.counts)]))
        return float(self.chance(alternative, t)(first, second)[0])

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw T at the restricted estimate, in units of its spread."""
        first, second, *_ = self.relation.parts(np.asarray(sum(self.counts)))
        drawn = self.relation.draw(float(first), float(second), size, rng)
        drawn = [x + law._rvs((size,), rng) for x, law in zip(drawn, self.noises, strict=True)]
        return self.relation.contrast(*drawn) / self.spread


@dataclass(frozen=True, kw_only=True, eq=False)
class RelatedRows:
    """Pairs of noisy counts, shape (m,), and a relation of their parameters that is tested."""

    counts: tuple[FloatArray, FloatArray]
    nobs: tuple[FloatArray, FloatArray]  # or exposures
    noises: tuple[NoiseLaw, NoiseLaw]  # of shape () or (m,)
    kind: type[Relation] = OfProportions
    compare: Compare
    alternative: Alternative
    method: Method
    nuisance_alpha: float
    simulation: Simulation

    @cached_property
    def _limits(self) -> list[tuple[tuple[float, float], tuple[float, float]]]:
        """Confidence limits of both proportions of each row; rows with equal counts share them."""
        level = 0.25 * self.nuisance_alpha
        known: dict[tuple[int, float, float, int], tuple[float, float]] = {}

        def limits(which: int, row: int) -> tuple[float, float]:
            y, law = self.counts[which], self.noises[which]
            key = which, float(y[row]), float(self.nobs[which][row]), row if law.shape else -1
            if key not in known:
                relation = self._relation(EQUAL[self.compare], row)
                known[key] = relation.plausible(which, y[[row]], _of_row(law, row), level)
            return known[key]

        return [(limits(0, row), limits(1, row)) for row in range(self.counts[0].size)]

    def _relation(self, value: float, row: int) -> Relation:
        first, second = self.nobs
        return self.kind(self.compare, value, (float(first[row]), float(second[row])))

    def at(self, value: float, row: int) -> Related:
        """Return the test of a row."""
        relation = self._relation(value, row)
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

    def pvalue(self, value: FloatArray, rows: Rows, level: float | None = None) -> FloatArray:
        """P-values of some rows at other values, or numbers on the same side of a level."""
        pairs = zip(value, rows, strict=True)
        return np.array([self._one(float(v), int(row), level=level) for v, row in pairs])

    def _one(
        self, value: float, row: int, z: float | None = None, level: float | None = None
    ) -> float:
        test = self.at(value, row)
        t = test.observed if z is None else z * test.spread
        if self.method == "exact":
            return test.largest(self.alternative, t, level)
        if self.method == "plug-in":
            return test.plugged(self.alternative, t)
        known = np.asarray(t / test.spread)
        if self.method == "asymptotic":
            return float(AsymptoticNull.normal().pvalue(known, self.alternative))
        again = repeated(self.simulation)
        return float(simulated([test.draw], known, self.alternative, again)[0])

    def found(self, value: FloatArray, shape: tuple[int, ...], simulation: Simulation) -> Found:
        """P-values with their null laws."""
        rows = np.arange(value.size)
        z = self.statistic(value).reshape(shape)
        if self.method == "asymptotic":
            null = AsymptoticNull.normal()
            return null.pvalue(z, self.alternative), null
        if self.method == "monte-carlo":
            draws = [self.at(float(v), row).draw for row, v in enumerate(value)]
            return simulated(draws, z, self.alternative, simulation)
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
        is_rate = self.kind is OfRates
        variances, inside = [], []
        slopes: tuple[Any, Any]
        for p, n, law in zip((p1, p2), self.nobs, self.noises, strict=True):
            p = np.clip(p, 0.5 / n, np.inf if is_rate else 1.0 - 0.5 / n)
            inside.append(p)
            sampling = p if is_rate else p * (1.0 - p)
            variances.append(sampling / n + np.asarray(law.variance) / n**2)
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
        is_simulated, is_smooth = self.method == "monte-carlo", self.method == "asymptotic"
        pvalue: PValue = self.pvalue if is_difference else self._pvalue_of_log
        limit: FloatArray | float = 1.0 - 1e-6 if is_difference else _LARGEST_LOG
        back = partial(_difference if is_difference else _ratio, limit)
        step = np.minimum(step, np.inf if is_rate else 0.25 if is_difference else 2.0)
        if is_rate:  # differences have no range of their own: they are in standard errors
            start, limit = start / step, np.abs(start / step) + _FAR
            pvalue, back = partial(self._pvalue_of_steps, step), partial(_in_steps, step, limit)
            step = np.ones(step.shape)
        ends = Search(
            pvalue=pvalue,
            start=start,
            step=step,
            low=-limit,
            high=limit,
            alternative=self.alternative,
            back=back,
            is_told=True,
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
            most_shown=100 if is_smooth else 1 if self._is_quick else 0,
        )

    @property
    def _is_quick(self) -> bool:
        """Whether an interval takes no more than a second or two."""
        if self.kind is not OfPairs and all(law.is_integer for law in self.noises):
            return True
        sizes = self.counts if self.kind is OfRates else self.nobs
        return bool(sum(map(np.max, sizes)) <= _QUICK)

    def _pvalue_of_steps(
        self, step: FloatArray, x: FloatArray, rows: Rows, level: float
    ) -> FloatArray:
        return self.pvalue(x * step[rows], rows, level)

    def _pvalue_of_log(self, log_value: FloatArray, rows: Rows, level: float) -> FloatArray:
        return self.pvalue(np.exp(log_value), rows, level)


_LARGEST_LOG = 14.0
"""Logarithm beyond which ratios count as 0 or infinite."""

_QUICK = 400.0
"""Trials or events up to which intervals from tables of pairs of counts are quick."""

_FAR = 40.0
"""Standard errors beyond which no difference of rates is looked for."""


def _difference(limit: FloatArray | float, x: FloatArray) -> FloatArray:
    return np.where(np.abs(x) < limit, x, np.sign(x))


def _in_steps(step: FloatArray, limit: FloatArray | float, x: FloatArray) -> FloatArray:
    return np.where(np.abs(x) < limit, x * step, np.sign(x) * np.inf)


def _ratio(limit: FloatArray | float, x: FloatArray) -> FloatArray:
    return np.where(np.abs(x) < limit, np.exp(x), np.where(x > 0, np.inf, 0.0))


def quotient(top: FloatArray, bottom: FloatArray) -> FloatArray:
    """Ratio of numbers >= 0: inf where only the second is 0, and 0 for 0/0."""
    ratio = top / np.where(bottom > 0, bottom, 1.0)
    return np.where(bottom > 0, ratio, np.where(top > 0, np.inf, 0.0))


def _of_row(law: NoiseLaw, row: int) -> NoiseLaw:
    return law.take(row) if law.shape else law
