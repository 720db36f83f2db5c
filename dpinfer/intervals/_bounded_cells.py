"""Linear functions of disjoint counts, some of them known, perhaps with a known sum."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft, special

from dpinfer._check import FloatArray, check_scalar, show
from dpinfer._numerics.lattice import alike, common_spacing, masses, snapped, tilted_range
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.pivots import ROUNDING, pivot_intervals
from dpinfer.mechanisms._sums.terms import kinds
from dpinfer.mechanisms.independent import groups
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Gaussian, Geometric, Laplace
from dpinfer.releases.noises import positions_of
from dpinfer.releases.values import NoisyValues

# Ends of functions with a least and a largest possible value, from tests of each.

UNEVEN = 1e-11  # what ends that are not whole numbers may err by, relative to their terms
_LARGE = 2.0**53
_BINARY = 2.0**20  # multiples of its inverse are not rounded


class Side(NamedTuple):
    """What the lower ends of functions are found from, or those of their negatives."""

    least: FloatArray  # (k,): no value is below
    origin: FloatArray  # (k,): all values are this plus a multiple of the step
    steps: FloatArray  # (k,): 0 where there is no lattice
    bound: Callable[[float], FloatArray]  # what is below the value with probability 1 - q, (k,)


class Functions(ABC):
    """Linear functions of the counts, (k,), and the errors of their unbiased estimates."""

    estimate: FloatArray
    whole: bool

    @abstractmethod
    def halves(self, q: float) -> FloatArray:
        """Return the smallest t with P(error > t) <= q, for each."""

    @abstractmethod
    def _side(self, sign: float, soft: bool) -> Side: ...

    def ends(
        self, alpha: float, *, soft: bool = False, toe: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Return both ends, (inf, -inf) where there is no value between them.

        With ``toe`` the least and the largest possible value are tested on one side.
        """
        lower, least, takes_least = self._lower(self._side(1.0, soft), alpha, toe)
        upper, most, takes_most = self._lower(self._side(-1.0, soft), alpha, toe)
        if toe:
            lower = np.where(takes_most, np.minimum(lower, -most), lower)
            upper = np.where(takes_least, np.maximum(-upper, least), -upper)
        else:
            upper = -upper
        fixed = least == -most
        lower, upper = np.where(fixed, least, lower), np.where(fixed, least, upper)
        empty = lower > upper
        return np.where(empty, np.inf, lower), np.where(empty, -np.inf, upper)

    def _lower(
        self, side: Side, alpha: float, toe: bool
    ) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
        """Return lower ends, least possible values and whether these are accepted."""
        least, origin, steps = side.least, side.origin, side.steps
        takes_least = side.bound(alpha if toe else 0.5 * alpha) <= least
        lower = np.maximum(side.bound(0.5 * alpha), least)
        if self.whole:
            lower = to_lattice(lower, origin, steps)
            lower = np.maximum(lower, np.where(np.isfinite(least), least + steps, -np.inf))
        return np.where(takes_least, least, lower), least, takes_least


def steps_of(weights: FloatArray) -> FloatArray:
    """Return numbers of which all whole-numbered sums with the weights are multiples, or 0."""
    size = np.abs(weights)
    found = np.zeros(len(size))
    least = np.where(size > 0, size, np.inf).min(axis=1, initial=np.inf)
    for unit in (np.where(np.isfinite(least), least, 1.0), np.ones(len(size))):
        ratio = size / unit[:, np.newaxis]
        whole = (ratio == np.rint(ratio)) & (ratio * unit[:, np.newaxis] == size) & (ratio < _LARGE)
        all_whole = whole.all(axis=1)
        common = np.gcd.reduce(np.where(whole, ratio, 0.0).astype(np.int64), axis=1, initial=0)
        found = np.where((found == 0) & all_whole, common * unit, found)
    return found


def to_lattice(lower: FloatArray, origin: FloatArray, steps: FloatArray) -> FloatArray:
    """Move lower ends up to origin + a multiple of the step; one within rounding stays."""
    there = (steps > 0) & np.isfinite(lower)
    step, start = np.where(there, steps, 1.0), np.where(there, origin, 0.0)
    place = (np.where(there, lower, 0.0) - start) / step
    rounding = UNEVEN * (1.0 + (np.abs(lower) + np.abs(start)) / step)
    moved = start + step * np.ceil(snapped(place, np.where(there, rounding, 0.0)))
    fine = moved * _BINARY
    moved -= np.where(fine == np.rint(fine), 0.0, ROUNDING * np.abs(moved))
    return np.where(there, moved, lower)


# A single count, by the likelihood ratio.

_BLOCK = 4096  # counts that are tested together
_HALVINGS = 200
_MOST_COUNTS = 10_000_000
_FARTHEST, _LOST = 1e-15, 1e-14  # tails beyond which nothing is looked at, and what that loses
_CONCAVE = (Laplace, Gaussian, Geometric, DiscreteGaussian)


def likelihood_ratio_ends(y: float, law: NoiseLaw, alpha: float) -> tuple[float, float]:
    """Return the range of the counts f = 0, 1, ... that are accepted at a value y.

    With R(y, f) = p(y - f)/max p(y - g) over g >= 0, count f is accepted where
    P(R(f + e, f) <= R(y, f)) > α. R rises in y up to f and falls beyond, as p is log-concave.
    """
    if not isinstance(law, _CONCAVE):
        raise InvalidParameterError(
            "rule must be 'toe' or 'central' for this noise, got 'likelihood-ratio': that needs "
            f"Laplace, Gaussian, geometric or discrete Gaussian noise, got {show(law)}"
        )
    reach = float(law.isf(0.5 * alpha)) + 1.0
    first, last = max(0.0, np.floor(y - reach)), np.ceil(max(y, 0.0) + reach)
    if last - first > _MOST_COUNTS:
        raise InvalidParameterError(
            f"rule must be 'toe' or 'central' for noise of this scale, got 'likelihood-ratio': "
            f"{last - first:.3g} counts would be tested"
        )

    def accepted(f: FloatArray) -> NDArray[np.bool_]:
        return _chance_of_less(y, f, law) > alpha * (1.0 - 1e-12) - _LOST

    ends = []
    for step in (_BLOCK, -_BLOCK):
        start = first if step > 0 else last
        while True:
            f = start + np.sign(step) * np.arange(_BLOCK)
            at = np.flatnonzero((f >= first) & (f <= last))
            good = at[accepted(f[at])]
            if good.size:
                ends.append(float(f[good[0]]))
                break
            start += step
        if last - first < _BLOCK:
            ends.append(float(f[good[-1]]))
            break
    return ends[0], ends[1]


def _log_ratio(y: FloatArray, f: FloatArray, law: NoiseLaw) -> FloatArray:
    """Return log R(y, f)."""
    found = _log_density(y - f, law) - _log_density(np.minimum(y, 0.0), law)
    return np.asarray(found)


def _log_density(x: FloatArray, law: NoiseLaw) -> FloatArray:
    of = law.logpmf if law.is_integer else law.logpdf  # type: ignore[attr-defined]
    return np.asarray(of(x), dtype=np.float64)


def _chance_of_less(y: float, f: FloatArray, law: NoiseLaw) -> FloatArray:
    """Return P(R(f + e, f) <= R(y, f)) for counts f, or a little more."""
    level = _log_ratio(np.full(f.shape, y), f, law)
    level = level + 1e-9 * (1.0 + np.abs(level))
    far = 4.0 * float(law.isf(_FARTHEST)) + np.abs(y) + 1.0
    total = np.zeros(f.shape)
    for side in (-1.0, 1.0):
        near, away = f.copy(), f + side * (far + 2.0 * f)  # R falls from f outward
        inside = _log_ratio(near, f, law) <= level
        none = _log_ratio(away, f, law) > level
        for _ in range(_HALVINGS):
            middle = 0.5 * (near + away)
            middle = np.rint(middle) if law.is_integer else middle
            if ((middle == near) | (middle == away)).all():
                break
            small = _log_ratio(middle, f, law) <= level
            away, near = np.where(small, middle, away), np.where(small, near, middle)
        edge = np.where(inside, f, away if law.is_integer else near)
        distance = side * (edge - f)
        # both ends belong to the tails; of a law on whole numbers, the edge itself is among them
        tail = law.sf(distance - 1.0) if law.is_integer else law.sf(distance)
        total += np.where(none, 0.0, tail)
    return total


# Linear functions of such counts.

_LINEAR = 0.8
"""Share of the error of an end that its ordinary bound has; the soft ones have the rest."""

SOFT = (1.0, 2.0)
"""Thresholds of the soft bounds, in standard deviations of the noise."""

_CANCELLED = 1e-13  # what is left of weights that cancel, relative to them, is rounding
_SLACK = 1e-12  # allowed for the error of tails by Fourier transforms, for each term
_NEGLIGIBLE = 1e-18  # tail of a noise beyond which atoms are left out
_LOSS = 37.0  # minus the logarithm of the mass that is wrapped around
_MOST_STEPS = 1000.0
_ROUNDED = 0.05  # step of a grid for noise with a density: standard deviations of the sum, each
_FINEST = 4e-5


@dataclass(frozen=True)
class Facts:
    """What is known of the counts: those that are known, and the sum of the others."""

    x: NoisyValues
    known: FloatArray  # (m,): 0 for those that are not known
    free: NDArray[np.bool_]  # (m,): whether a count is not known
    rest: float | None  # the sum of the free counts, None where it is not known

    @cached_property
    def kind(self) -> NDArray[np.intp]:
        """Numbers that are equal where the laws of the noises are."""
        return kinds(groups(self.x._own_law(), len(self.x)), len(self.x))

    @classmethod
    def of(cls, values: Any, x: NoisyValues, total: Any, zeros: Any, whole: bool) -> Facts:
        exact = x.variance == 0
        if zeros is not None:
            none = positions_of(zeros, len(x), x.labels, "zeros")
            exact[none] = True
        known = np.where(exact, x.values, 0.0)
        if zeros is not None:
            known[none] = 0.0
        if (bad := (known < 0) | (whole & (known != np.rint(known)))).any():
            kind = "whole numbers >= 0" if whole else "numbers >= 0"
            raise InvalidParameterError(
                f"values without noise must be {kind}, got {show(float(known[bad][0]))}"
            )
        if total is None:
            return cls(x, known, ~exact, None)
        number = check_scalar(total, "total", ge=0)
        workload = getattr(values, "workload", None)
        if workload is not None and not workload.is_identity:
            raise InvalidParameterError(
                "total must be left out for a release with other queries than its cells, whose "
                "sum it is not: take the values of disjoint cells"
            )
        if whole and number != np.rint(number):
            raise InvalidParameterError(f"total must be a whole number, got {number:g}")
        rest = number - float(known.sum())
        slack = ROUNDING * len(x) * number
        if rest < -slack or (exact.all() and rest > slack):
            raise InvalidParameterError(
                f"total must be the sum of counts >= 0, got {number:g} for known counts that sum "
                f"to {known.sum():g}{' and no others' if exact.all() else ''}"
            )
        return cls(x, known, ~exact, max(rest, 0.0))


@dataclass(frozen=True)
class Sums(Functions):
    """Linear functions of the counts, (k,), and the errors of their unbiased estimates."""

    facts: Facts
    weights: FloatArray  # (k, m): of the counts that are not known, 0 elsewhere
    applied: FloatArray  # (k, m): of the values in the estimate
    base: FloatArray  # the part of the known counts
    estimate: FloatArray
    errors: NoisyValues
    magnitude: FloatArray
    whole: bool
    _found: dict[float, FloatArray] = field(default_factory=dict)

    @classmethod
    def of(cls, facts: Facts, matrix: FloatArray, whole: bool) -> Sums:
        x, weights = facts.x, np.where(facts.free, matrix, 0.0)
        base, applied = matrix @ facts.known, weights
        offset = base
        if facts.rest is not None and facts.free.any():
            variance = np.where(facts.free, x.variance, 0.0)
            share = weights @ (variance / variance.sum())
            applied = np.where(facts.free, weights - share[:, np.newaxis], 0.0)
            size = np.abs(weights).max(axis=1, keepdims=True)
            applied = np.where(np.abs(applied) > _CANCELLED * size, applied, 0.0)
            offset = base + share * facts.rest
        errors = x.linear(applied)
        magnitude = np.abs(applied) @ np.abs(x.values) + np.abs(offset)
        estimate = errors.values + offset
        return cls(facts, weights, applied, base, estimate, errors, magnitude, whole)

    def halves(self, q: float) -> FloatArray:
        """Return the smallest t with P(error > t) <= q, for each."""
        if q not in self._found:
            first, number = self._laws
            magnitude = np.zeros(len(first))
            np.maximum.at(magnitude, number, self.magnitude)
            found = pivot_intervals(
                self.errors._take(first),
                magnitude,
                alpha=2.0 * q,
                method="exact",
                simultaneous=False,
                reps=1,
                rng=None,
            )
            half = (np.asarray(found.upper) - np.asarray(found.estimate))[number]
            exact = (half == np.rint(half)) & (self.estimate == np.rint(self.estimate))
            slack = ROUNDING * (self.magnitude + half)
            self._found[q] = half + np.where(exact | (half == 0), 0.0, slack)
        return self._found[q]

    @cached_property
    def _laws(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        return _alike_rows(np.abs(self.applied), self.facts.kind)

    def _side(self, sign: float, soft: bool) -> Side:
        facts = self.facts
        weights, base = sign * self.weights[:, facts.free], sign * self.base
        if facts.rest is None or not weights.shape[1]:
            least = base + np.where((weights < 0).any(axis=1), -np.inf, 0.0)
            origin, steps = base, steps_of(weights)
            surely = np.zeros_like(base)
        else:
            surely = weights.min(axis=1)
            least = base + facts.rest * surely
            weights = weights - surely[:, np.newaxis]
            origin, steps = least, steps_of(weights)
            base = least

        def linear(q: float) -> FloatArray:
            return sign * self.estimate - self.halves(q)

        def soft_bound(times: float, q: float) -> FloatArray:
            return base + self._soft_bound(weights, times, q)

        several = np.count_nonzero(weights > 0, axis=1) > 1
        family = soft_family(linear, soft_bound, several) if soft else linear
        return Side(least, origin, steps, family)

    def _soft_bound(self, weights: FloatArray, times: float, q: float) -> FloatArray:
        """Return lower bounds of sums of free counts with these weights, (k, n)."""
        facts, x = self.facts, self.facts.x
        free = np.flatnonzero(facts.free)
        law, kind = x._own_law(), facts.kind[free]
        which, at = np.unique(kind, return_index=True)
        laws = [law.take(int(place)) for place in free[at]]
        kind = np.searchsorted(which, kind)
        above = np.array([threshold_of(one, times) for one in laws])[kind]
        y = x.values[free]
        soft = np.maximum(y - above, 0.0)
        up, down = np.maximum(weights, 0.0), np.minimum(weights, 0.0)
        reached = up @ soft + down @ y
        size = up @ soft + down @ -np.abs(y)
        first, number = _alike_rows(weights, kind)
        cells = [cells_of(row, kind, laws) for row in weights[first]]
        quantiles = np.array([soft_quantile(some, times, q) for some in cells])[number]
        found = reached - quantiles
        exact = (reached == np.rint(reached)) & (quantiles == np.rint(quantiles))
        return np.asarray(found - np.where(exact, 0.0, UNEVEN * (size + np.abs(quantiles))))


def soft_family(
    linear: Callable[[float], FloatArray],
    soft: Callable[[float, float], FloatArray],
    several: NDArray[np.bool_],
) -> Callable[[float], FloatArray]:
    """Return the largest of an ordinary bound and soft ones, which share its error, for some."""

    def bound(q: float) -> FloatArray:
        if not several.any():
            return linear(q)
        share = (1.0 - _LINEAR) / len(SOFT) * q
        parts = [linear(_LINEAR * q), *(soft(times, share) for times in SOFT)]
        return np.where(several, np.max(parts, axis=0), linear(q))

    return bound


# The law of a sum of what exceeds a threshold.


class _Alike(NamedTuple):
    """Counts with noise of one law and one weight, which are softly thresholded if it is > 0."""

    law: NoiseLaw
    weight: float
    number: int


def _alike_rows(
    weights: FloatArray, kind: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return one row of each kind of sum, and the number of the kind of each."""
    used = np.where(weights == 0, -1.0, kind)
    order = np.lexsort((weights, used), axis=1)
    by_law = np.concatenate([np.take_along_axis(x, order, axis=1) for x in (used, weights)], axis=1)
    return alike(list(by_law.T))


def threshold_of(law: NoiseLaw, times: float) -> float:
    at = times * float(law.std)
    return float(np.ceil(at - 1e-9)) if law.is_integer else at


def cells_of(row: FloatArray, kind: NDArray[np.intp], laws: list[NoiseLaw]) -> tuple[_Alike, ...]:
    used = np.flatnonzero(row)
    pairs, number = np.unique(np.stack([kind[used], row[used]]), axis=1, return_counts=True)
    return tuple(
        _Alike(laws[int(which)], float(weight), int(times))
        for which, weight, times in zip(*pairs, number, strict=True)
    )


@lru_cache(maxsize=4096)
def soft_quantile(cells: tuple[_Alike, ...], times: float, q: float) -> float:
    """Return a Q with P(Σ aφ(e) > Q) <= q, the smallest where all noise takes whole numbers."""
    number = sum(one.number for one in cells)
    slack = _SLACK * number
    if not cells or q <= 2.0 * slack:
        return np.inf
    step, exact = _grid(cells, number)
    laws = [_atoms(one, times, step, exact) for one in cells]
    std = np.sqrt(sum(one.number * one.weight**2 * float(one.law.variance) for one in cells))
    tilts = np.geomspace(0.05, 30.0, 40) * step / std
    moves = np.concatenate([-tilts, tilts])
    growth = np.zeros(moves.size)
    for one, (first, mass) in zip(cells, laws, strict=True):
        points = first + np.arange(mass.size)
        growth += one.number * special.logsumexp(np.outer(moves, points), b=mass, axis=1)
    low, high = tilted_range(moves, growth, _LOSS)
    ends = [
        (one.number * first, one.number * (first + mass.size - 1))
        for one, (first, mass) in zip(cells, laws, strict=True)
    ]
    start = int(max(np.floor(low), sum(end[0] for end in ends)))
    stop = int(min(np.ceil(high), sum(end[1] for end in ends)))
    size = fft.next_fast_len(max(stop - start + 1, 2), real=True)
    joint = np.ones(size // 2 + 1, dtype=np.complex128)
    for one, (first, mass) in zip(cells, laws, strict=True):
        around = np.bincount((first + np.arange(mass.size)) % size, mass, size)
        joint *= fft.rfft(around) ** one.number
    tail = np.cumsum(masses(joint, size, start)[::-1])[::-1]
    over = np.flatnonzero(tail > q - slack)  # where P(sum >= point) is larger
    return float(step * (start + over[-1])) if over.size else float(step * start)


def _grid(cells: tuple[_Alike, ...], number: int) -> tuple[float, bool]:
    """Return the distance of points on which the laws are, and whether none is moved to them."""
    weights = np.abs([one.weight for one in cells])
    if all(one.law.is_integer for one in cells):
        spacing = common_spacing(weights, smallest=float(weights.max()) / _MOST_STEPS)
        if spacing is not None:
            return spacing[0], True
    std = np.sqrt(sum(one.number * one.weight**2 * float(one.law.variance) for one in cells))
    return float(std * max(_ROUNDED / number, _FINEST)), False


def _atoms(one: _Alike, times: float, step: float, exact: bool) -> tuple[int, FloatArray]:
    """Return the first point and the masses of aφ(e), or of ae for a < 0, rounded up to points."""
    weight, soft = abs(one.weight), one.weight > 0
    above = threshold_of(one.law, times) if soft else 0.0
    last = int(max(np.ceil(weight * (float(one.law.isf(_NEGLIGIBLE)) - above) / step), 0.0))
    first = 0 if soft else -last
    points = above + step * np.arange(first, last + 1) / weight
    if one.law.is_integer:
        points = np.floor(points + (1e-9 if exact else 0.0))
    return first, np.diff(one.law.cdf(points), prepend=0.0)
