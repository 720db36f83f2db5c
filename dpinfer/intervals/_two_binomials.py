"""Exact limits for two proportions of which each shows in one noisy binomial count.

One-sided: with D = f(p₁) - f(p₂) for an increasing f, every pair (p₁, p₂) stays of which
P(S >= s; p₁, p₂) exceeds the level, where S is a statistic that increases with the first count and
decreases with the second. That probability increases with p₁ and decreases with p₂, so that the
pairs that stay lie on one side of an increasing curve, and the least D on it is a lower limit
(Buehler 1957). S is itself a limit, an approximate one (Donner and Zou 2012): hardly any pair then
decides more than any other, and little is lost. Pairs outside of confidence limits for p₁ and p₂
are left out, at the price of the small chance that these miss (Berger and Boos 1994).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray
from dpinfer._numerics.counts import binom_pmf, binom_radius, binom_window
from dpinfer._numerics.roots import find_root
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.pivots import ROUNDING
from dpinfer.estimation.published import LARGEST_NOBS
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.weighted_sum import fast_sum, is_quick

EDGE = 1e-11
"""Proportions nearer to 0 or 1 count as 0 or 1."""

MISSED = 0.002
"""Share of the error probability of a limit that is left to the limits of the proportions."""

CELLS = 600
"""Cells into which the first count is divided, if it has more values."""

GROUPS = 1500
"""Groups into which the counts without noise are divided, if there are more."""

MARGIN = 1e-6
"""Relative margin of the level, for rounding and interpolation."""

ACCURACY = 1e-3
"""What a limit may be too far out, relative to its distance from the estimate."""

Transform = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """A noisy count T = X + e with X ~ Binomial(n, p), least <= n <= most."""

    count: float
    most: float
    least: float
    noise: NoiseLaw
    size: float
    unit: float
    low: float = 0.0
    high: float = 1.0
    mirrored: bool = False

    @property
    def statistic(self) -> float:
        """T, or -T where it counts failures: what increases with p."""
        return -self.count if self.mirrored else self.count

    @cached_property
    def spread(self) -> float:
        """Standard deviation of the noise."""
        return float(self.noise.std)

    def larger(self, t: FloatArray, p: FloatArray) -> FloatArray:
        """Bound on the probability of a statistic >= t, shape (t, p)."""
        if self.mirrored:
            return _lower_tail(-t, self.least, 1.0 - p, self.noise)
        return _upper_tail(t, self.most, p, self.noise)

    def smaller(self, t: FloatArray, p: FloatArray) -> FloatArray:
        """Bound on the probability of a statistic <= t, shape (t, p)."""
        if self.mirrored:
            return _upper_tail(-t, self.most, 1.0 - p, self.noise)
        return _lower_tail(t, self.least, p, self.noise)

    def limited(self, miss: float) -> Sample | None:
        """Return the sample with limits of p that miss it at most so often; None if none stays."""
        at = np.array([self.statistic])

        def above(p: FloatArray, index: NDArray[np.intp]) -> FloatArray:
            return np.asarray(0.5 * miss - self.larger(at, p)[0])

        def below(p: FloatArray, index: NDArray[np.intp]) -> FloatArray:
            return np.asarray(self.smaller(at, p)[0] - 0.5 * miss)

        ends = np.array([max(self.low, EDGE), min(self.high, 1.0 - EDGE)])
        both = np.arange(2)
        is_above, is_below = above(ends, both) <= 0, below(ends, both) >= 0
        if not is_above[1] or not is_below[0]:
            return None
        low, high, within = self.low, self.high, 1e-6 * float(ends[1] - ends[0])
        if not is_above[0]:
            low = float(find_root(above, ends[:1], ends[1:], atol=within)[0][0])
        if not is_below[1]:
            high = float(find_root(below, ends[:1], ends[1:], atol=within)[1][0])
        return replace(self, low=low, high=high)

    def nodes(self) -> tuple[FloatArray, FloatArray]:
        """Chebyshev points of the angle asin√p between the limits, and the limits."""
        ends = np.arcsin(np.sqrt(np.clip([self.low, self.high], EDGE, 1.0 - EDGE)))
        # in standard deviations the angle is as wide as this, and its half has a smooth law
        half = float(ends[1] - ends[0]) * np.sqrt(self.most)
        number = int(np.ceil(min(6.0 * half + 12.0, 2.0 * self.most + 2.0, 240.0)))
        x = np.cos(np.pi * (np.arange(number) + 0.5) / number)
        return 0.5 * (ends[0] + ends[1]) + 0.5 * (ends[1] - ends[0]) * x, ends

    def cells(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Lower ends of cells of the statistic, upwards, and the largest value in each.

        The last cell has no end, and a negligible probability.
        """
        n, log_ratio = self.most, 10.0 - np.log(level)
        reach = float(self.noise.isf(level * 1e-4))
        p = np.array([self.low, self.high])
        mean = -n * (1.0 - p) if self.mirrored else n * p
        radius = binom_radius(np.abs(mean), np.array(n), log_ratio)
        low, high = float(mean[0] - radius[0]) - reach, float(mean[1] + radius[1]) + reach
        if self.mirrored:
            low, high = low - 1.0, min(high, reach + 1.0)
        else:
            low, high = max(low, -reach - 1.0), min(high, n + reach + 1.0)
        width = (high - low) / CELLS
        step = width if self.unit == 0 else self.unit * max(1.0, np.ceil(width / self.unit))
        if self.unit and (high - low) / self.unit <= 2 * CELLS:
            step = self.unit
        # the published value is the largest of its cell
        before = np.ceil((self.statistic - low) / step)
        after = np.ceil((high - self.statistic) / step)
        top = self.statistic + step * np.arange(min(-before, -1.0), max(after, 1.0) + 1.0)
        bottom = top - step + 0.5 * self.unit
        return bottom, top


# The samples that a row of noisy cells stands for.


def of_known_size(
    cells: FloatArray, laws: list[NoiseLaw], weight: float, total: float, whole: NDArray[np.bool_]
) -> list[Sample]:
    """Return the count of a row, estimated from both of its cells."""
    noise = fast_sum(np.array([weight, 1.0 - weight]), laws)
    if not is_quick(noise):
        # a law without a table is too slow for so many points: one of the cells has to do
        weight = float(laws[0].variance <= laws[1].variance)
        noise = laws[0] if weight else laws[1]
    weights = np.array([weight, 1.0 - weight])
    lattice = bool(whole[weights > 0].all()) and weight in (0.0, 0.5, 1.0)
    return [
        Sample(
            count=float(weights @ [cells[0], total - cells[1]]),
            most=float(total),
            least=float(total),
            size=float(total),
            noise=noise,
            unit=(0.5 if weight == 0.5 else 1.0) if lattice else 0.0,
        )
    ]


def of_unknown_size(cells: FloatArray, laws: list[NoiseLaw], miss: float) -> list[Sample]:
    """Return the events for risks up to 1/2, the others beyond; their sum limits the size."""
    halves = [(float(cells[k]), laws[k], float(laws[k].is_integer), k == 1) for k in (0, 1)]
    # both rows miss, on both sides
    reach = float(fast_sum(np.ones(2), laws).isf(0.25 * miss))
    return _halves(halves, float(cells.sum()), reach)


def of_noisy_size(
    cells: FloatArray,
    total: float,
    laws: list[NoiseLaw],
    size: FloatArray,
    alone: bool,
    miss: float,
) -> list[Sample]:
    """Return the same of a row with a noisy total, of weights ``size`` in the trials' estimate."""
    halves = []
    for column in (0, 1):
        own, other = laws[column], laws[1 - column]
        half = (float(cells[column]), own, float(own.is_integer), column == 1)
        missing = alone and column == 1
        if missing:
            half = (float(cells[0]), other, float(other.is_integer), False)
        # the total without the other cell counts the same, and the noise decides which is used
        rest = fast_sum(np.ones(2), [laws[2], other])
        better = missing or float(rest.variance) < float(own.variance)
        if better and not (alone and column == 0) and is_quick(rest):
            lattice = other.is_integer and laws[2].is_integer
            half = (total - float(cells[1 - column]), rest, float(lattice), column == 1)
        halves.append(half)
    reach = float(fast_sum(size, laws).isf(0.25 * miss))
    return _halves(halves, float(size @ [*cells, total]), reach)


def _halves(
    halves: list[tuple[float, NoiseLaw, float, bool]], total: float, reach: float
) -> list[Sample]:
    """Return the counts for risks up to 1/2 and beyond, with sizes within reach of the total.

    Nothing where the row may be all noise: nothing is then to be said of its risk.
    """
    if abs(total) + reach > LARGEST_NOBS:
        raise InvalidParameterError(
            f"table must have rows that sum to less than {LARGEST_NOBS:g} for method='exact' with "
            f"sampling, got {total:g}"
        )
    if reach >= total:
        return []
    # rounding must not take away a size that is attained
    off = ROUNDING * (total + reach)
    limits = [np.ceil(total - reach - off), np.floor(total + reach + off)]
    least, most = np.maximum(limits, 1.0)
    # the ranges, with sizes from least to most, of a division that the noise decides on
    ranges, first = [], 1.0
    while first <= most:
        last = first + max(np.ceil(reach), np.ceil(0.1 * first)) - 1.0
        if last >= least:
            ranges.append((first, last))
        first = last + 1.0
    return [
        Sample(
            count=count,
            most=min(most, last),
            least=max(least, first),
            size=0.5 * (first + last),
            noise=noise,
            unit=unit,
            low=0.5 * half,
            high=0.5 * (half + 1),
            mirrored=mirrored,
        )
        for first, last in ranges
        for half, (count, noise, unit, mirrored) in enumerate(halves)
    ]


def _upper_tail(t: FloatArray, n: float, p: FloatArray, noise: NoiseLaw) -> FloatArray:
    """P(X + e >= t), or a bound with groups of counts as large as their largest."""
    _, last, chance = _groups(n, p)
    # by symmetry P(e >= x) = P(e <= -x)
    return np.asarray(noise._cdf(last - t[:, np.newaxis]) @ chance)


def _lower_tail(t: FloatArray, n: float, p: FloatArray, noise: NoiseLaw) -> FloatArray:
    """P(X + e <= t), or a bound with groups of counts as small as their smallest."""
    first, _, chance = _groups(n, p)
    return np.asarray(noise._cdf(t[:, np.newaxis] - first) @ chance)


def _groups(n: float, p: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """First and last counts of groups, and their probabilities, shape (groups, p)."""
    p = np.clip(p, EDGE, 1.0 - EDGE)
    lows, highs = binom_window(np.array(n), np.array([p.min(), p.max()]))
    low, high = float(lows[0]), float(highs[1])
    step = np.ceil((high - low + 1.0) / GROUPS)
    first = np.arange(low, high + 1.0, step)
    last = np.minimum(first + step - 1.0, high)
    if step == 1:
        return first, last, binom_pmf(first[:, np.newaxis], np.array(n), p)
    inner = np.minimum(last, n - 1.0)[:, np.newaxis]
    below = np.where(last[:, np.newaxis] < n, special.betaincc(inner + 1.0, n - inner, p), 1.0)
    return first, last, np.diff(below, axis=0, prepend=np.zeros((1, p.size)))


def lower_limit(
    first: Sequence[Sample], second: Sequence[Sample], f: Transform, alpha: float
) -> float:
    """Lower limit of f(p₁) - f(p₂) that errs with probability ``alpha``; inf where none stays."""
    miss = MISSED * alpha
    parts = [[one.limited(0.5 * miss) for one in pieces] for pieces in (first, second)]
    pairs = [(one, other) for one in parts[0] for other in parts[1] if one and other]
    found = [_least(_Curve(one, other, f, alpha - miss), f) for one, other in pairs]
    return min(found, default=np.inf)


class _Curve:
    """The pairs of angles at which P(S >= s) is equal to a level."""

    def __init__(self, first: Sample, second: Sample, f: Transform, level: float) -> None:
        self.level = level * (1.0 - MARGIN)
        self.first, self.second = first, second
        self.order = _Order(first, second, f, level)
        bottom, top = first.cells(level)
        reach = self.order.reach(top)
        nodes, self.ends = first.nodes()
        others, self.other_ends = second.nodes()
        beyond = first.larger(bottom, np.sin(nodes) ** 2)
        # all that is below the first cell counts as being in it, beyond the last all is accepted
        beyond[0] = 1.0
        share = -np.diff(beyond, axis=0, append=np.zeros((1, nodes.size)))
        tail = second.smaller(reach, np.sin(others) ** 2)
        tail[-1] = 1.0
        values = share.T @ tail
        self.coefficients = _chebyshev(_chebyshev(values).T).T

    def first_angle(self, other: FloatArray) -> FloatArray:
        """Least angle of p₁ that stays with angles of p₂; inf where none does."""
        rows = (
            _polynomials(other, self.other_ends, self.coefficients.shape[1]) @ self.coefficients.T
        )
        low, high = np.full(other.size, self.ends[0]), np.full(other.size, self.ends[1])

        def value(angle: FloatArray) -> FloatArray:
            here = _polynomials(angle, self.ends, self.coefficients.shape[0])
            return np.asarray((rows * here).sum(axis=1))

        none, all_ = value(high) < self.level, value(low) >= self.level
        for _ in range(40):
            middle = 0.5 * (low + high)
            stays = value(middle) >= self.level
            low, high = np.where(stays, low, middle), np.where(stays, middle, high)
        return np.where(none, np.inf, np.where(all_, self.ends[0], low))


def _least(curve: _Curve, f: Transform) -> float:
    """Return the least f(p₁) - f(p₂) on the curve, from below: angles of p₂ in ever finer steps."""
    first, second = curve.first, curve.second
    edges = np.linspace(curve.other_ends[0], curve.other_ends[1], 65)
    left, right = edges[:-1], edges[1:]
    centre, best, least, last = curve.order.estimate, np.inf, np.inf, np.inf
    for _ in range(6):
        angle = curve.first_angle(left)
        stays = np.isfinite(angle)
        left, right, angle = left[stays], right[stays], angle[stays]
        if not left.size:
            break
        p1 = f(_proportion(angle, first, curve.ends))
        value, bound = (
            _difference(p1, f(_proportion(other, second, curve.other_ends)))
            for other in (left, right)
        )
        best = min(best, float(value.min()))
        if best == -np.inf:
            return best
        enough = best - ACCURACY * abs(centre - best)
        open_ = bound < enough
        least = min(least, float(bound[~open_].min(initial=np.inf)))
        last = float(bound.min())
        if not open_.any():
            return least
        parts = left[open_, None] + (right - left)[open_, None] * np.linspace(0.0, 1.0, 9)
        left, right = parts[:, :-1].ravel(), parts[:, 1:].ravel()
    else:
        return min(least, last)
    return least


def _difference(first: FloatArray, second: FloatArray) -> FloatArray:
    """Differences; -inf of two numbers that are infinite with one sign."""
    both = np.isinf(first) & (first == second)
    return np.where(both, -np.inf, first - np.where(both, 0.0, second))


def _proportion(angle: FloatArray, sample: Sample, ends: FloatArray) -> FloatArray:
    """Return sin² of angles; at the ends the limits themselves."""
    p = np.sin(angle) ** 2
    p = np.where(angle <= ends[0], sample.low, p)
    return np.where(angle >= ends[1], sample.high, p)


class _Order:
    """The statistic S: an approximate lower limit of f(p₁) - f(p₂)."""

    def __init__(self, first: Sample, second: Sample, f: Transform, level: float) -> None:
        self._f, self._square = f, float(special.ndtri(level) ** 2)
        self._samples = first, second
        at = [np.array([one.statistic]) for one in (first, second)]
        self.estimate = float(f(self._share(at[0], first))[0] - f(self._share(at[1], second))[0])
        found = float(
            self._value(self._part(at[0], first, -1.0), self._part(at[1], second, 1.0))[0]
        )
        self.published = found - 1e-9 * (1.0 + abs(found))

    @staticmethod
    def _position(t: FloatArray, sample: Sample) -> FloatArray:
        return np.clip(t + sample.size if sample.mirrored else t, 0.0, sample.size)

    def _share(self, t: FloatArray, sample: Sample) -> FloatArray:
        return (self._position(t, sample) + 0.5) / (sample.size + 1.0)

    def _part(
        self, t: FloatArray, sample: Sample, side: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the transformed estimate, its distance from Wilson's limit, a tie-breaker."""
        n = sample.size
        share, p, k = self._share(t, sample), self._position(t, sample) / n, self._square / n
        root = np.sqrt(k**2 + 4.0 * p * (1.0 - p) * k + 4.0 * (1.0 + k) * k * sample.spread**2 / n)
        end = (2.0 * p + k + side * root) / (2.0 * (1.0 + k))
        least = 0.05 / (n + 1.0)
        if side < 0:
            end = np.maximum(np.minimum(end, share), least)
        else:
            end = np.minimum(np.maximum(end, share), 1.0 - least)
        value = self._f(share)
        tie = 1e-4 * t / np.sqrt(0.25 * n + sample.spread**2)
        return value, np.abs(self._f(end) - value), tie

    @staticmethod
    def _value(
        first: tuple[FloatArray, FloatArray, FloatArray],
        second: tuple[FloatArray, FloatArray, FloatArray],
    ) -> FloatArray:
        distance = np.hypot(first[1], second[1])
        return np.asarray(first[0] - second[0] - distance + first[2] - second[2])

    def reach(self, t: FloatArray) -> FloatArray:
        """Largest second statistic as extreme, with each first one, as what was published."""
        first, second = self._samples
        own = self._part(t, first, -1.0)
        far = 60.0 * (second.spread + 1.0)
        start = -second.size if second.mirrored else 0.0
        low = np.full(t.size, min(start, second.statistic) - far)
        high = np.full(t.size, max(start + second.size, second.statistic) + far)

        def as_extreme(other: FloatArray) -> NDArray[np.bool_]:
            return self._value(own, self._part(other, second, 1.0)) >= self.published

        always = as_extreme(high)
        for _ in range(48):
            middle = 0.5 * (low + high)
            held = as_extreme(middle)
            low, high = np.where(held, middle, low), np.where(held, high, middle)
        return np.where(always, np.inf, high)


def _chebyshev(values: FloatArray) -> FloatArray:
    """Coefficients of polynomials in the first axis from values at Chebyshev points."""
    number = len(values)
    k = np.arange(number)
    cosines = np.cos(np.pi * k[:, np.newaxis] * (k + 0.5) / number)
    coefficients = 2.0 / number * (cosines @ values)
    coefficients[0] *= 0.5
    return np.asarray(coefficients)


def _polynomials(angle: FloatArray, ends: FloatArray, number: int) -> FloatArray:
    """Chebyshev polynomials at angles, shape (angles, number)."""
    x = (2.0 * angle - ends[0] - ends[1]) / (ends[1] - ends[0])
    return np.asarray(np.cos(np.arccos(np.clip(x, -1.0, 1.0))[:, np.newaxis] * np.arange(number)))
