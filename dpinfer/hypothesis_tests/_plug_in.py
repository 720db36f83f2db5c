"""Tests of noisy counts with a nuisance parameter: estimate, then maximise.

Outcomes are ordered by a plug-in p-value, which takes the published number M of trials for the
true one. How often that is as small as the observed one depends on the true number m, over which
it is maximised (Lloyd 2008). As the ordering weighs the statistic by its law at M, the maximum is
near to the value at the true m; that of the statistic itself is found at the end of the confidence
set, where the sampling variance is largest, and gives p-values that are far too large. The same
holds for two samples with a common proportion that is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

import numpy as np
from scipy import fft, special

from dpinfer._check import Alternative, FloatArray
from dpinfer._numerics.counts import LOG_NEGLIGIBLE, binom_pmf, binom_radius
from dpinfer._numerics.roots import ENUMERATED, find_root
from dpinfer.estimation.two_sided import GAPS
from dpinfer.estimation.unknown_trials import Rows, UnknownTrials
from dpinfer.hypothesis_tests._answers import (
    GUARANTEED,
    Found,
    ThreeTails,
    answer,
    in_the_limit,
    simulated,
)
from dpinfer.hypothesis_tests._inversion import MARGIN, SIMULATED, Effect, Search, repeated
from dpinfer.hypothesis_tests._inversion import Found as FoundEnds
from dpinfer.hypothesis_tests._one_count import DrawZ
from dpinfer.mechanisms._noisy_count import NoisyBinomial, work_at_a_point
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Exact, Geometric, Laplace
from dpinfer.mechanisms.tulap import Tulap
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.null import SIGNS, ExactNull
from dpinfer.results.simulation import Simulation

_LEFT_OUT = 1e-10
"""Probability of the noise, and of the counts, that are left out; less for a small β."""

_LARGEST = 1 << 23
"""Entries of the table of one p-value: some 0.3 s. Wider noise has the maximum of the statistic."""

_SPLITS = 24.0
"""Nodes for each scale of continuous noise."""

_QUADRATURE = 1e-4
"""Bound on the relative error that they make, which is added."""

_APART = 2e-4
"""Relative distance that is put between two equal scales."""

_LEAST = -230.0
"""Logarithm below which plug-in p-values are not told apart."""

_TIE = 1e-5
"""Levels this close, in logarithms, are one but for rounding."""

_TOGETHER = float(1 << 20)
"""Entries of tables that are made together."""

_PRECISION = 1e-9
"""Of contrasts and totals at which the plug-in tail is at a level."""

_NOTHING = 1e-18
"""Probability of whole-numbered noise beyond which it is left out of its table."""

_OVERHEAD = 1e3
_ENTRY = {True: 0.1, False: 0.25}
"""Work of a p-value beside its table, and of an entry of that, by whether noise is whole."""

_SMALLEST_SHARE = 1e-9
"""Variance of one trial from which the ordering is computed."""

_HALF = float(np.log(0.5)) - 1e-9
_KNOTS = 33


@dataclass(frozen=True, eq=False)
class PlugIn:
    """Counts out of noisy numbers of trials, and the ordering of what is published.

    With T = count - w·M, and M = count + other if ``is_total``, the plug-in tail of T at M is that
    of a normal variable with the variance w(1-w)·max(M, 1) and the noise, Laplace where that is
    Laplace or geometric, normal by its variance elsewhere. It only sets the order, so that it need
    not be exact. ``other`` is the noise of the other summand, or of M if there is no such; noise of
    probability ``left_out`` may be left out.
    """

    share: float
    own: NoiseLaw
    other: NoiseLaw
    is_total: bool
    left_out: float

    @cached_property
    def swapped(self) -> PlugIn:
        """The same for the other summand of M."""
        return PlugIn(1.0 - self.share, self.other, self.own, True, self.left_out)

    @property
    def is_symmetric(self) -> bool:
        """Whether nothing tells the two summands apart."""
        return self.is_total and self.share == 0.5 and self.own == self.other

    def log_tail(self, t: FloatArray, total: FloatArray) -> FloatArray:
        """Logarithm of the plug-in tail beyond t >= 0."""
        w = self.share
        variance, scales = self._parts
        spread = np.sqrt(w * (1.0 - w) * np.maximum(self._trials(total), 1.0) + variance)
        if not scales:
            return np.asarray(special.log_ndtr(-t / spread))
        (first, *rest) = scales
        tail = _normal_and_laplace(t, spread, first)
        if rest:
            second = rest[0]
            if abs(first - second) < _APART * first:
                first, second = first * (1.0 + _APART), second * (1.0 - _APART)
                tail = _normal_and_laplace(t, spread, first)
            own, others = first**2, second**2
            tail = (own * tail - others * _normal_and_laplace(t, spread, second)) / (own - others)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.maximum(np.log(tail), 10.0 * _LEAST))

    def _trials(self, total: FloatArray) -> FloatArray:
        """Variance of T without noise at a published M, in units of w(1-w)."""
        return total

    def contrast(self, total: FloatArray, log_level: FloatArray) -> FloatArray:
        """T >= 0 at which the plug-in tail is at a level, for each M; they broadcast."""
        m, levels = (np.ravel(x) for x in np.broadcast_arrays(total, log_level))

        def excess(t: FloatArray, rows: Rows) -> FloatArray:
            return np.asarray(self.log_tail(t, m[rows]) - levels[rows])

        start = np.zeros(m.size)
        guess = start + np.sqrt(self.share * (1.0 - self.share) * np.maximum(m, 1.0) + 1.0)
        found = find_root(excess, start, guess, atol=_PRECISION, expand=True)[1]
        return np.asarray(found.reshape(np.broadcast_shapes(total.shape, log_level.shape)))

    def total(self, count: FloatArray, log_level: FloatArray, reach: FloatArray) -> FloatArray:
        """M at which the plug-in tail is at a level, for each count; T is at most ``reach``."""
        w = self.share
        counts, levels, far = (np.ravel(x) for x in np.broadcast_arrays(count, log_level, reach))

        def excess(m: FloatArray, rows: Rows) -> FloatArray:
            return levels[rows] - self.log_tail(np.maximum(counts[rows] - w * m, 0.0), m)

        low = (counts - far) / w - 1e-6
        found = find_root(excess, low, counts / w, atol=_PRECISION)[1]
        return np.asarray(found.reshape(count.shape))

    @cached_property
    def reaches(self) -> tuple[float, float]:
        """How far both noises reach."""
        own, other = (
            0.0 if isinstance(law, Exact) else float(np.ceil(law._isf(np.asarray(self.left_out))))
            for law in (self.own, self.other)
        )
        return own, other

    def entries(self, uncertain: float) -> float:
        """About how many entries the tables have for so many plausible numbers, any count."""
        if max(map(work_at_a_point, (self.own, self.other))) > 2.0:
            return np.inf
        (first, second), w = self.reaches, self.share
        near = 2.0 * self._near(8.0 * np.sqrt(w * (1.0 - w) * (first + second + 1.0))) + 1.0
        nodes = uncertain * (w if self.is_total else 1.0) + 2.0 * (
            first if self.is_total else second
        )
        nodes += near if self.is_total else 0.0
        across = (1.0 - w if self.is_total else w) * uncertain + near
        return float((nodes + 1.0) * self._splits * across)

    def beyond(self, trials: FloatArray, log_level: FloatArray, sign: float) -> FloatArray:
        """P(plug-in tail at or below a level on one side of T), at true numbers of trials.

        Row by row: numbers in a row, shape (r, m), and levels, shape (r,).
        """
        if sign < 0 and self.is_total:
            return self.swapped.beyond(trials, log_level, 1.0)
        w, both = self.share, sum(self.reaches)
        # contrasts between knots, which turn little
        first, last = trials[:, :1] - both, trials[:, -1:] + both
        step = (last - first) / (_KNOTS - 1.0)
        known = self.contrast(first + step * np.arange(float(_KNOTS)), log_level[:, np.newaxis])
        edge, above, below = (
            _interpolated((trials + shift - first) / step, known) for shift in (0.0, both, -both)
        )
        near = self._near(float(np.maximum(above - edge, edge - below).max()) + 2.0)
        boundary = w * trials + sign * edge
        mode = np.minimum(np.floor((trials + 1.0) * w), trials)
        radius = binom_radius(mode, trials, -np.log(self.left_out))
        low = np.clip(np.floor(np.maximum(mode - radius, boundary - near)), 0.0, trials + 1.0)
        high = np.clip(np.ceil(np.minimum(mode + radius, boundary + near)), -1.0, trials)
        # of the counts beyond those near to the boundary all, or none, are rejected
        sure = np.clip(np.ceil(boundary + near), -1.0, trials)
        sure = sure if sign > 0 else np.clip(np.floor(boundary - near), 0.0, trials + 1.0) - 1.0
        far = np.where(sure < 0, 1.0, np.where(sure >= trials, 0.0, _upper(sure, trials, w)))
        found = far if sign > 0 else 1.0 - far
        if not (high >= low).any():
            return found
        counts = low[..., np.newaxis] + np.arange((high - low).max() + 1.0)
        m = trials[..., np.newaxis]
        is_inside = counts <= high[..., np.newaxis]
        least = np.where(high >= low, low, np.inf).min(axis=1)
        least = np.where(np.isfinite(least), least, 0.0)
        counts = np.where(is_inside, counts, least[:, np.newaxis, np.newaxis])
        chances = np.where(is_inside, binom_pmf(counts, m, np.asarray(w)), 0.0)
        if self.is_total:
            reach = known[:, -1] * (1.0 + 1e-9)
            rejected = self._by_total(counts, m - counts, log_level, reach, last[:, 0])
        else:
            rejected = self._by_count(counts, m, log_level, sign)
        return np.asarray(np.clip(found + (chances * rejected).sum(axis=-1), 0.0, 1.0))

    def _near(self, turns: float) -> float:
        """How far from the boundary a count may be and the noise decides."""
        first, second = self.reaches
        own = 1.0 - self.share if self.is_total else 1.0
        return float(own * first + self.share * second + turns)

    def _by_total(
        self,
        counts: FloatArray,
        others: FloatArray,
        log_level: FloatArray,
        reach: FloatArray,
        known_to: FloatArray,
    ) -> FloatArray:
        """P(rejected) given both counts: the other one is at most what goes with the first.

        Contrasts are at most ``reach`` up to a total of ``known_to``, and rise no faster than its
        root beyond.
        """
        first, b = _runs(counts), _runs(others)

        def chance(node: FloatArray) -> FloatArray:
            beyond = np.maximum(node.max(axis=1) / self.share, 1.0) / np.maximum(known_to, 1.0)
            far = (reach * np.sqrt(np.maximum(beyond, 1.0)))[:, np.newaxis]
            most = self.total(node, log_level[:, np.newaxis], far) - node
            return _at_most(self.other, most, b)

        table = self._averaged(self.own, self.reaches[0], first, chance)
        return _looked_up(table, counts - first[:, :1, np.newaxis], others - b[:, :1, np.newaxis])

    def _by_count(
        self, counts: FloatArray, m: FloatArray, log_level: FloatArray, sign: float
    ) -> FloatArray:
        """P(rejected) given the count and the number of trials, which has noise of its own."""
        totals, x = _runs(m), _runs(counts)

        def chance(node: FloatArray) -> FloatArray:
            bound = sign * self.share * node + self.contrast(node, log_level[:, np.newaxis])
            # x + e >= bound, or -x - e >= bound; the noise is symmetric
            return _at_most(self.own, -bound, -sign * x)

        table = self._averaged(self.other, self.reaches[1], totals, chance)
        return _looked_up(table, m - totals[:, :1, np.newaxis], counts - x[:, :1, np.newaxis])

    def _averaged(
        self,
        law: NoiseLaw,
        reach: float,
        places: FloatArray,
        chance: Callable[[FloatArray], FloatArray],
    ) -> FloatArray:
        """Return E[chance(place + noise)] for whole numbers in rows, shape (r, places, others)."""
        k = np.arange(-reach, reach + 1.0)
        length = places.shape[1] + 2.0 * reach
        nodes = places[:, :1] - reach + np.arange(length)
        if law.is_integer:
            size = np.abs(k)
            chances = law._cdf(-size) - law._cdf(-size - 1.0)
            return _mixed(chance(nodes)[:, :, np.newaxis], chances[:, np.newaxis])
        splits = int(self._splits_of(law))
        edges = (np.arange(splits + 1.0) - 0.5 * splits) / splits
        weights = np.diff(law._cdf(np.add.outer(k, edges)), axis=1)
        middles = 0.5 * (edges[:-1] + edges[1:])
        total: FloatArray = np.zeros(())
        step = max(1, int(_TOGETHER / (nodes.size * places.shape[1])))
        for start in range(0, splits, step):
            part = slice(start, start + step)
            points = nodes[..., np.newaxis] + middles[part]
            table = chance(points.reshape(nodes.shape[0], -1))
            table = table.reshape(*points.shape, -1)
            total = total + _mixed(table, weights[:, part])
        return total

    @property
    def _splits(self) -> float:
        return self._splits_of(self.own if self.is_total else self.other)

    def _splits_of(self, law: NoiseLaw) -> float:
        """Nodes between neighbouring whole numbers; even, so that one ends at 0."""
        if law.is_integer:
            return 1.0
        return float(2.0 * np.ceil(0.5 * _SPLITS * np.sqrt(2.0) / float(law.std)))

    @property
    def error(self) -> float:
        """Relative error of a chance that quadrature makes."""
        return 0.0 if self.is_whole else _QUADRATURE

    @property
    def is_whole(self) -> bool:
        """Whether sums over nodes are exact."""
        laws = (self.own, self.other) if self.is_total else (self.other,)
        return all(law.is_integer for law in laws)

    @cached_property
    def _parts(self) -> tuple[float, list[float]]:
        """Variance of the normal part, and scales of what has exponential tails."""
        variance, scales = 0.0, []
        for weight, law in (
            (1.0 - self.share if self.is_total else 1.0, self.own),
            (self.share, self.other),
        ):
            if isinstance(law, (Laplace, Geometric, Tulap)):
                scales.append(weight * float(law.scale))
            else:
                variance += weight**2 * float(law.variance)
        return variance, sorted(scales, reverse=True)


@dataclass(frozen=True, eq=False, kw_only=True)
class PooledPlugIn(PlugIn):
    """Noisy successes of two samples of w·N and (1-w)·N trials, with one proportion.

    T = count - w·M is n₁n₂/N times the difference of the proportions. At the pooled estimate M/N
    its variance is w(1-w)·M(1 - M/N), and so grows with M up to M = N/2. Beyond, the failures take
    the place of the successes.
    """

    nobs: float

    def _trials(self, total: FloatArray) -> FloatArray:
        m = np.clip(total, 0.5, 0.5 * self.nobs)
        return np.asarray(m * (1.0 - m / self.nobs))

    def rejected(
        self, counts: FloatArray, others: FloatArray, log_level: float, *, is_strict: bool
    ) -> FloatArray:
        """P(plug-in tail at or below a level with T > 0, and M <= N/2) given both counts.

        ``is_strict``: M < N/2.
        """
        half = 0.5 * self.nobs - (0.25 if is_strict and self.is_whole else 0.0)
        if counts[0] + others[0] - sum(self.reaches) > half:
            return np.zeros((counts.size, others.size))
        level = np.full((1, 1), log_level)
        far = self.contrast(np.full((1, 1), 0.5 * self.nobs), level)

        def chance(node: FloatArray) -> FloatArray:
            most = np.minimum(self.total(node, level, far), half) - node
            return _at_most(self.other, most, others[np.newaxis], self.left_out)

        return np.asarray(self._averaged(self.own, self.reaches[0], counts[np.newaxis], chance)[0])


class TwoPooled:
    """How often two samples with one proportion give a plug-in p-value as small as a level."""

    def __init__(
        self, nobs: tuple[int, int], noises: tuple[NoiseLaw, NoiseLaw], nuisance_alpha: float
    ) -> None:
        self._nobs = np.asarray(nobs, dtype=np.float64)
        self._total = float(self._nobs.sum())
        self.left_out = min(_LEFT_OUT, 1e-4 * nuisance_alpha)
        self._orders = [
            PooledPlugIn(
                share=float(self._nobs[i]) / self._total,
                own=noises[i],
                other=noises[1 - i],
                is_total=True,
                left_out=self.left_out,
                nobs=self._total,
            )
            for i in (0, 1)
        ]
        self._are_alike = nobs[0] == nobs[1] and noises[0] == noises[1]

    @property
    def error(self) -> tuple[float, float]:
        """Absolute and relative error of a chance, of noises and counts that are left out."""
        return 12.0 * self.left_out, 0.0 if self._orders[0].is_whole else _QUADRATURE

    @cached_property
    def is_available(self) -> bool:
        """Whether the tables are short, which is decided from the laws alone."""
        laws = [order.own for order in self._orders]
        if laws[0].is_integer != laws[1].is_integer or max(map(work_at_a_point, laws)) > 2.0:
            return False
        reaches = np.asarray(self._orders[0].reaches)
        radius = binom_radius(0.5 * self._nobs, self._nobs, LOG_NEGLIGIBLE)
        plausible = (4.0 * np.sqrt(self._total) + 2.0 * reaches.sum()) / self._total
        width = np.minimum(2.0 * radius + plausible * self._nobs, self._nobs) + 1.0
        nodes = (width + 2.0 * reaches) * [order._splits for order in self._orders]
        return bool((nodes * width[::-1]).sum() <= _LARGEST)

    def log_level(self, difference: FloatArray, total: FloatArray) -> FloatArray:
        """Logarithm of the plug-in tail beyond a difference of the proportions."""
        t = np.abs(difference) * self._nobs.prod() / self._total
        return self._orders[0].log_tail(t, np.minimum(total, self._total - total))

    def table(
        self,
        alternative: Alternative,
        difference: float,
        log_level: float,
        counts: tuple[FloatArray, FloatArray],
    ) -> FloatArray:
        """P(outcome as extreme as one with this difference and level) given both counts.

        Shape (first counts, second counts).
        """
        sign = SIGNS[alternative]
        level = max(min(log_level, _HALF), _LEAST)
        size = abs(difference) if alternative == "two-sided" else sign * difference
        if size <= 0.0 or log_level > _HALF:
            if alternative == "two-sided":
                return np.ones((counts[0].size, counts[1].size))
            # not on the side of the alternative: all but what is worse
            return 1.0 - self._beyond(-sign, level - _TIE, counts)
        if alternative != "two-sided":
            return self._beyond(sign, level, counts)
        if self._are_alike and np.array_equal(*counts):
            one = self._beyond(1.0, level, counts)
            return one + one.T
        return self._beyond(1.0, level, counts) + self._beyond(-1.0, level, counts)

    def _beyond(
        self, sign: float, log_level: float, counts: tuple[FloatArray, FloatArray]
    ) -> FloatArray:
        """P(plug-in tail at or below a level on one side) given both counts."""
        if sign < 0.0:
            return np.asarray(self._too_large(1, log_level, counts[1], counts[0]).T)
        return self._too_large(0, log_level, *counts)

    def _too_large(
        self, which: int, log_level: float, own: FloatArray, other: FloatArray
    ) -> FloatArray:
        successes = self._orders[which].rejected(own, other, log_level, is_strict=False)
        failures = self._orders[1 - which].rejected(
            (self._nobs[1 - which] - other)[::-1],
            (self._nobs[which] - own)[::-1],
            log_level,
            is_strict=True,
        )
        return np.asarray(successes + failures[::-1, ::-1].T)


def largest(test: UnknownTrials, alternative: Alternative, point: FloatArray) -> FloatArray:
    """P-values at T = point with the published M, whatever the true number of trials, row by row.

    Where the noise is so wide that the tables would be long, the statistic itself sets the order;
    that is decided from the laws, never from what was published.
    """
    low, high, missed = test.confidence_set
    test.check_work(float(work(test, alternative).sum()))
    out, left = np.empty(point.size), []
    size = {"larger": point, "smaller": -point, "two-sided": np.abs(point)}[alternative]
    for plug_in, entries, members in _orderings(test):
        if plug_in is None:
            left.extend(members.tolist())
            continue
        level = plug_in.log_tail(np.abs(point[members]), test.nobs[members])
        for is_ahead in (True, False):
            chosen = ((size[members] > 0.0) & (level <= _HALF)) == is_ahead
            order = np.argsort(test.nobs[members[chosen]], kind="stable")
            rows, levels = members[chosen][order], np.clip(level[chosen][order], _LEAST, _HALF)
            together = max(1, int(_TOGETHER / entries))
            for start in range(0, rows.size, together):
                part = rows[start : start + together]
                steps = np.arange((high - low)[part].max() + 1.0)
                trials = np.minimum(low[part, np.newaxis] + steps, high[part, np.newaxis])
                chance = _chance if is_ahead else _chance_behind
                found = chance(plug_in, alternative, levels[start : start + together], trials)
                out[part] = found * (1.0 + plug_in.error) + missed[part]
    if left:
        rows = np.sort(left)
        out[rows] = test.largest(alternative, point, rows)
    return np.minimum(out, 1.0)


def _chance(
    plug_in: PlugIn, alternative: Alternative, log_level: FloatArray, trials: FloatArray
) -> FloatArray:
    """Largest chance of a plug-in tail at or below a level, over numbers of trials, row by row."""
    if alternative == "two-sided" and plug_in.is_symmetric:
        chance = 2.0 * plug_in.beyond(trials, log_level, 1.0)
    else:
        signs = {"larger": (1.0,), "smaller": (-1.0,), "two-sided": (1.0, -1.0)}[alternative]
        chance = np.sum([plug_in.beyond(trials, log_level, sign) for sign in signs], axis=0)
    return np.asarray(chance.max(axis=1))


def _chance_behind(
    plug_in: PlugIn, alternative: Alternative, log_level: FloatArray, trials: FloatArray
) -> FloatArray:
    """Return the same where T is not on the side of the alternative: all but what is worse."""
    if alternative == "two-sided":
        return np.ones(log_level.size)
    worse = plug_in.beyond(trials, log_level - _TIE, -SIGNS[alternative])
    return np.asarray(1.0 - worse.min(axis=1))


def work(test: UnknownTrials, alternative: Alternative) -> FloatArray:
    """About how much work the p-value of each row is, in units of about 0.1 µs."""
    out = test.work(alternative, is_guaranteed=True)
    for plug_in, entries, rows in _orderings(test):
        if plug_in is not None:
            sides = 1 + (alternative == "two-sided")
            out[rows] = sides * (_ENTRY[plug_in.is_whole] * entries + _OVERHEAD)
    return out


def _orderings(test: UnknownTrials) -> Iterator[tuple[PlugIn | None, float, Rows]]:
    """Yield the orderings with the size of their tables; None: the statistic sets the order."""
    left_out = min(_LEFT_OUT, 1e-4 * test.nuisance_alpha)
    for _, total, rows in test.groups:
        reach = float(total._isf(np.asarray(0.5 * test.nuisance_alpha)))
        share = float(test.value[rows[0]])
        # the confidence set is the published number alone, or the noise is nearly all of T
        if reach < 1.0 or share * (1.0 - share) < _SMALLEST_SHARE:
            yield None, 0.0, rows
            continue
        laws = test.laws_of(int(rows[0]))
        plug_in = PlugIn(share, *laws, test.is_total, left_out)
        entries = plug_in.entries(2.0 * reach + 1.0)
        yield (plug_in if entries <= _LARGEST else None), entries, rows


def _runs(values: FloatArray) -> FloatArray:
    """Whole numbers in a row from the least one of each row, as many as the longest row has."""
    flat = values.reshape(values.shape[0], -1)
    first = flat.min(axis=1)
    return np.asarray(first[:, np.newaxis] + np.arange((flat.max(axis=1) - first).max() + 1.0))


def _interpolated(place: FloatArray, values: FloatArray) -> FloatArray:
    """Values between knots 0, 1, …, row by row."""
    left = np.clip(np.floor(place), 0, values.shape[1] - 2).astype(np.intp)
    share = place - left
    below, above = (np.take_along_axis(values, left + i, axis=1) for i in (0, 1))
    return np.asarray(below + share * (above - below))


def _looked_up(table: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """Entries of a table for each row."""
    row = np.arange(table.shape[0])[:, np.newaxis, np.newaxis]
    return np.asarray(table[row, first.astype(np.intp), second.astype(np.intp)])


def _upper(k: FloatArray, n: FloatArray, p: float) -> FloatArray:
    """P(X > k) for binomial X and 0 <= k < n."""
    inside = np.clip(k, 0.0, np.maximum(n - 1.0, 0.0))
    return np.asarray(special.betainc(inside + 1.0, np.maximum(n - inside, 1.0), p))


def _at_most(
    law: NoiseLaw, bound: FloatArray, place: FloatArray, left_out: float = _NOTHING
) -> FloatArray:
    """P(place + noise <= bound) for each row, shape (r, bounds, places).

    Probabilities of continuous noise within ``left_out`` of 0 or 1 are that.
    """
    ends, starts = bound[:, :, np.newaxis], place[:, np.newaxis]
    if not law.is_integer:
        distance = ends - starts
        near = np.abs(distance) < float(law._isf(np.asarray(left_out)))
        chances = (distance > 0).astype(np.float64)
        chances[near] = law._cdf(distance[near])
        return chances
    slack = np.minimum(1e-7 + 1e-12 * np.abs(ends), 0.25)
    distance = np.floor(ends + slack) - starts
    reach = float(law._isf(np.asarray(0.0 if isinstance(law, Exact) else _NOTHING))) + 1.0
    if 2.0 * reach > distance.size:
        return np.asarray(law._cdf(distance))
    table = law._cdf(np.arange(-reach, reach + 1.0))
    return np.asarray(table[(np.clip(distance, -reach, reach) + reach).astype(np.intp)])


def _mixed(table: FloatArray, weights: FloatArray) -> FloatArray:
    """Σ_ks weights[k, s]·table[row, place + k, s, other], shape (rows, places, others)."""
    length = fft.next_fast_len(table.shape[1], real=True)
    shape = fft.rfft(weights[::-1], length, axis=0)[..., np.newaxis]
    spectrum = (fft.rfft(table, length, axis=1) * shape).sum(axis=2)
    return np.asarray(fft.irfft(spectrum, length, axis=1)[:, len(weights) - 1 : table.shape[1]])


def _normal_and_laplace(t: FloatArray, spread: FloatArray, scale: FloatArray | float) -> FloatArray:
    """P(N + L > t) for a normal and a Laplace variable."""
    x, ratio = t / spread, spread / scale
    rise = np.exp(np.minimum(0.5 * ratio**2 - t / scale + special.log_ndtr(x - ratio), 0.7))
    fall = np.exp(np.minimum(0.5 * ratio**2 + t / scale + special.log_ndtr(-x - ratio), 0.7))
    return np.asarray(special.ndtr(-x) + 0.5 * (rise - fall))


# P-values that hold whatever the value of a nuisance parameter.


_START = 65
"""Points from which the search for a certified maximum starts."""


def certified_maximum(
    tail: Callable[[FloatArray], FloatArray],
    x: FloatArray,
    information: float,
    tolerance: float,
    level: float | None = None,
) -> float:
    """Upper bound on the largest probability of an event over an interval of a parameter.

    ``x`` holds its ends, and in between the points, increasing, where derivatives may jump.
    ``information`` I bounds the Fisher information about x, and minus the expected second
    derivative of the log-likelihood is I as well. Then asin√P changes by √I/2 per unit of x at
    most, and, as P'' = E[1{event}·(s² + s')] with the score s and E[s² + s'] = 0,
    abs(P'') <= E[s² + abs(s')]/2 <= I. Between two points P is thus bounded from its values there.
    On a chord in the angles √n₁·asin√p₁ and √n₂·asin√p₂ of two proportions, with x their sum and
    a + b = 1 the directions, both >= 0: P'' <= 4a² + 4b² + 4ab <= 4, as each angle has I = 4 and
    abs(P₁₂) = abs(E[1{event}·s₁s₂]) <= E[abs(s₁)]·E[abs(s₂)]/2 <= 2.

    Branch and bound: pieces are halved until no bound exceeds the largest value by more than
    ``tolerance``. The largest bound is returned. Where only matters whether it is below a
    ``level``, the search ends as soon as that is known, with a number on the same side of it.
    """
    if x.size <= _START:
        x = np.union1d(x, np.linspace(x[0], x[-1], _START))
    y = tail(x)
    best = bound = float(y.max())
    left, right, y_left, y_right = x[:-1], x[1:], y[:-1], y[1:]
    while left.size and (level is None or bound < level):
        inside = _bound_between(y_left, y_right, right - left, information)
        unsure = inside > best + tolerance
        if level is not None:
            unsure &= inside >= level
            inside = np.where(inside < level, best, inside)
        bound = max(bound, float(np.max(inside[~unsure], initial=0.0)))
        left, right, y_left, y_right = (part[unsure] for part in (left, right, y_left, y_right))
        middle = 0.5 * (left + right)
        y_middle = tail(middle) if middle.size else middle
        best = max(best, float(np.max(y_middle, initial=0.0)))
        bound = max(bound, best)
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
        y_left, y_right = np.concatenate([y_left, y_middle]), np.concatenate([y_middle, y_right])
    return max(bound, best)


def _bound_between(
    y_left: FloatArray, y_right: FloatArray, width: FloatArray, information: float
) -> FloatArray:
    """Bound on the probability between two points, by its slope and by its curvature."""
    curved = np.maximum(y_left, y_right) + information * np.square(width) / 8.0
    rise = 0.5 * np.sqrt(information) * width
    angle = np.minimum(0.5 * (_angle(y_left) + _angle(y_right) + rise), 0.5 * np.pi)
    return np.asarray(np.minimum(curved, np.sin(angle) ** 2))


def _angle(probability: FloatArray) -> FloatArray:
    return np.asarray(np.arcsin(np.sqrt(np.clip(probability, 0.0, 1.0))))


# Tests of counts out of a number of trials that is known only with noise.


Method = Literal["exact", "plug-in", "monte-carlo", "asymptotic"]


def exact(test: UnknownTrials, alternative: Alternative, simulation: Simulation) -> Found:
    """P-values that hold whatever the number of trials."""
    pvalue = largest(test, alternative, test.difference).reshape(test.shape)
    larger, smaller, both = (
        partial(_largest_tail, test, side) for side in ("larger", "smaller", "two-sided")
    )
    return pvalue, ThreeTails(larger, smaller, both, GUARANTEED)


def _largest_tail(test: UnknownTrials, alternative: Alternative, z: FloatArray) -> FloatArray:
    """P-value at a statistic with the published number of trials."""
    point = np.broadcast_to(z, test.shape).reshape(-1) * test.spread
    return largest(test, alternative, point).reshape(test.shape)


def plug_in(test: UnknownTrials, alternative: Alternative, simulation: Simulation) -> Found:
    """P-values at the estimated number of trials."""
    rows = np.arange(test.count.size)
    pvalue = test.tail(alternative, test.difference, test.trials, rows).reshape(test.shape)
    null = ExactNull(
        partial(test.plug_in_tail, "larger"),
        partial(test.plug_in_tail, "smaller"),
        error=test.error.reshape(test.shape),
    )
    return pvalue, null


def monte_carlo(test: UnknownTrials, alternative: Alternative, simulation: Simulation) -> Found:
    """P-values by simulation at the estimated number of trials."""
    n, p = test.trials, test.value
    laws: dict[int, NoiseLaw] = {int(row): law for law, _, rows in test.groups for row in rows}
    draws = [
        DrawZ(
            NoisyBinomial(nobs=n[row], value=p[row], noise=laws[row]),
            float(n[row] * p[row]),
            float(test.spread[row]),
        )
        for row in range(test.count.size)
    ]
    return simulated(draws, test.statistic.reshape(test.shape), alternative, simulation)


def asymptotic(test: UnknownTrials, alternative: Alternative, simulation: Simulation) -> Found:
    """P-values in the limit of many trials, at their estimated number."""
    scale = np.sqrt(1.0 + test.variance / np.square(test.spread))
    scale = np.broadcast_to(scale, test.count.shape).reshape(test.shape)
    return in_the_limit(test.statistic.reshape(test.shape), alternative, scale)


NULLS: dict[Method, Callable[[UnknownTrials, Alternative, Simulation], Found]] = {
    "exact": exact,
    "plug-in": plug_in,
    "monte-carlo": monte_carlo,
    "asymptotic": asymptotic,
}
"""The p-values and the null distribution of each method."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SharesHeld:
    """The shares of the first count, as odds, that a test does not reject."""

    test: UnknownTrials
    alternative: Alternative
    method: Method
    simulation: Simulation
    back: Callable[[FloatArray], FloatArray]

    def __call__(self, alpha: float) -> FoundEnds:
        test = self.test
        n = np.maximum(test.nobs, 1.0)
        share = np.clip(test.count / n, 0.5 / (n + 1.0), 1.0 - 0.5 / (n + 1.0))
        inverse = share * (1.0 - share)
        own, other = (np.asarray(law.variance) for law in (test.noise, test.nobs_noise))
        spread = np.sqrt(n * inverse + own + share**2 * other) / (n * inverse)
        step = np.minimum(spread, 4.0)
        is_simulated = self.method == "monte-carlo"
        is_known = self.method != "exact" or not np.any(own + other)
        note = SIMULATED if is_simulated else GAPS
        whole = test.noise.is_integer or test.nobs_noise.is_integer
        is_smooth = self.method == "asymptotic" or not (is_simulated or whole)
        return Search(
            pvalue=self._pvalue,
            start=special.logit(share),
            step=step,
            low=-LOG_ODDS,
            high=LOG_ODDS,
            alternative=self.alternative,
            back=self.back,
            is_monotone=is_smooth,
            notes=() if is_smooth else (note,),
            margin=0.0 if is_known else MARGIN * step,
            rtol=0.0,
            atol=1e-5 if is_simulated else 1e-7,
        )(alpha)

    def _pvalue(self, log_odds: FloatArray, rows: Rows) -> FloatArray:
        """P-values at other shares, of no more rows together than the test has."""
        out = np.empty(rows.size)
        for start in range(0, rows.size, self.test.count.size):
            part = slice(start, start + self.test.count.size)
            test = self.test.under(special.expit(log_odds[part]), rows[part])
            out[part] = NULLS[self.method](test, self.alternative, repeated(self.simulation))[0]
        return out


LOG_ODDS = 27.0
"""Log-odds beyond which shares count as 0 or 1."""


def proportion_of(log_odds: FloatArray) -> FloatArray:
    """Return proportions, 0 and 1 at the limits."""
    inside = np.where(np.abs(log_odds) < LOG_ODDS, special.expit(log_odds), log_odds > 0)
    return np.asarray(inside, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class RatioOf:
    """Odds in another unit, 0 and inf at the limits."""

    unit: FloatArray | float

    def __call__(self, log_odds: FloatArray) -> FloatArray:
        limit = np.where(log_odds > 0, np.inf, 0.0)
        return np.where(np.abs(log_odds) < LOG_ODDS, np.exp(log_odds) * self.unit, limit)


def run(
    name: str,
    test: UnknownTrials,
    alternative: Alternative,
    method: Method,
    simulation: Simulation,
    *,
    effect: str,
    estimate: FloatArray,
    null: FloatArray | float,
    back: Callable[[FloatArray], FloatArray] = proportion_of,
) -> HypothesisResult:
    """Test and report; the number of observations is the estimated one."""
    simulation, again = simulation.twice(method)
    ends = SharesHeld(
        test=test, alternative=alternative, method=method, simulation=again, back=back
    )
    return answer(
        name,
        test.statistic.reshape(test.shape),
        NULLS[method](test, alternative, simulation),
        alternative,
        method,
        nobs=test.nobs.reshape(test.shape),
        labels=test.labels,
        notes=_notes(test, method),
        effect=Effect(
            name=effect,
            estimate=estimate,
            null=null,
            ends=ends,
            most_shown=100 if method == "asymptotic" else 1,
        ),
    )


def _notes(test: UnknownTrials, method: Method) -> tuple[str, ...]:
    """Say what the p-values take for granted, unless the number of trials is known after all."""
    noisy = np.any(test.nobs_noise.variance) or (test.is_total and np.any(test.noise.variance))
    if not noisy:
        return ()
    if method != "exact":
        return ("p-values take the estimated number as the true one",)
    note = f"p-values hold whatever the true number; they include {test.nuisance_alpha:g} for that"
    low, high, _ = test.confidence_set
    if (high - low < ENUMERATED).all():
        return (note,)
    return (note, "the maximum over long ranges of that number is a numerical one, on a fine grid")
