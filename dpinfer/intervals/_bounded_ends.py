"""Ends of intervals for functions with a least and a largest possible value, from tests of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray, show
from dpinfer._numerics.lattice import snapped
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.pivots import ROUNDING
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Gaussian, Geometric, Laplace

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
