"""The noise of what was measured of each place of a tree, and how its transform behaves far out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import numpy as np

from dpinfer._check import FloatArray
from dpinfer.estimation._tree.scalar import Hashes, hashed, mixed
from dpinfer.mechanisms._sums.terms import kinds
from dpinfer.mechanisms.independent import groups, integer_cells
from dpinfer.mechanisms.laws import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    log_characteristic,
)
from dpinfer.queries.hierarchy import Places

DEAD = -25.0  # ln of a modulus at which no other part is looked at
_NUMBERS = 1 << 15  # numbers worked on at a time, so that they stay in the cache

LOG_CF: dict[type, Callable[[FloatArray, FloatArray], FloatArray]] = {
    Laplace: lambda scale, t: -np.log1p(np.square(scale * t)),
    Gaussian: lambda sigma, t: -0.5 * np.square(sigma * t),
    Geometric: lambda scale, t: -np.log1p(np.square(np.sin(0.5 * t) / np.sinh(0.5 / scale))),
    DiscreteGaussian: lambda sigma, t: log_characteristic(t, sigma),
    Exact: lambda _, t: np.zeros(t.shape),
}
"""Ln φ of laws by their parameter; those whose φ is positive, so that it has a logarithm."""


class OwnNoise:
    """What was measured of each place itself: values of unit weights, or merged ones."""

    def __init__(self, fit: Any) -> None:
        size, places = fit.values.size, len(fit.hierarchy.tree)
        law, measured = fit.mechanism, fit.measured
        parts = list(groups(law, size))
        self.supported = all(type(one) in LOG_CF for one, _ in parts)
        self._laws = list({type(one): None for one, _ in parts})
        self._kind, self._parameter = np.zeros(size, dtype=np.int8), np.ones(size)
        for one, cells in parts:
            self._kind[cells] = self._laws.index(type(one))
            for name in ("scale", "sigma"):
                self._parameter[cells] = getattr(one, name, self._parameter[cells])
        unit = fit.value_units
        place = fit.hierarchy.tree.place_of(unit)
        self._law = law
        self._values = np.argsort(place, kind="stable")
        self._first = np.searchsorted(place[self._values], np.arange(places + 1))
        self._weight = measured.weight
        whole = integer_cells(law, size) & (fit.value_variance > 0.0)
        self.any_whole = bool(whole.any())
        # places of one whole-numbered value
        head = self._values[np.minimum(self._first[:-1], size - 1)]
        single = np.diff(self._first) == 1
        self.whole = single & whole[head]
        self._noisy_whole = whole
        kind = hashed(kinds(parts, size))
        kind = mixed(kind if self._weight is None else kind + hashed(self._weight))
        sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(kind[self._values])])
        self.hashes: Hashes = sums[self._first[1:]] - sums[self._first[:-1]]

    def log_cf(self, places: Places, t: FloatArray) -> FloatArray:
        """Ln φ of the noise of what was measured of places, at points, shape (k, N)."""
        count = self._first[places + 1] - self._first[places]
        most, fewest = int(count.max(initial=0)), int(count.min(initial=0))
        found = np.zeros(t.shape)
        for rank in range(most):
            rows: Any = slice(None) if rank < fewest else np.flatnonzero(count > rank)
            value = self._values[self._first[places[rows]] + rank]
            arguments = t[rows]
            if self._weight is not None:
                arguments = arguments * self._weight[value, np.newaxis]
            parameter, kind = self._parameter[value, np.newaxis], self._kind[value]
            for number, law in enumerate(self._laws):
                same = np.flatnonzero(kind == number)
                if same.size == t.shape[0] and most == 1:
                    return LOG_CF[law](parameter, arguments)
                if same.size:
                    part = LOG_CF[law](parameter[same], arguments[same])
                    found[same if rank < fewest else rows[same]] += part
        return found

    def decay(self, places: Places, times: FloatArray) -> FloatArray:
        """Return t up to π from which on so many whole-numbered noises of places are e⁻²⁵."""
        low, high = np.zeros(places.size), np.full(places.size, np.pi)
        for _ in range(12):
            middle = 0.5 * (low + high)
            above = self.log_cf(places, middle[:, np.newaxis])[:, 0] * times > DEAD
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return high

    def lattice(self, places: Places, times: FloatArray, std: FloatArray) -> FloatArray:
        """Return what sums of so many noises of places are multiples of, and the size of φ.

        That is the logarithm of its root mean square, -∞ for continuous noise.
        """
        key = mixed(self.hashes[places] + hashed(times))
        _, first, number = np.unique(key, return_index=True, return_inverse=True)
        places, times, std = places[first], times[first], std[first]
        step, log = np.ones(places.size), np.zeros(places.size)
        t = (np.arange(512) + 0.5) * (np.pi / 512.0)
        for at in blocks(np.flatnonzero(self.whole[places]), t.size):
            logs = self.log_cf(places[at], np.broadcast_to(t, (at.size, t.size)))
            with np.errstate(under="ignore"):
                squares = np.exp(2.0 * times[at, np.newaxis] * logs)
            # of noise too wide for these points, that of a density
            least = 0.25 / (std[at] * np.sqrt(times[at]))
            log[at] = 0.5 * np.log(np.clip(squares.mean(axis=1), np.minimum(least, 1.0), 1.0))
        for one in np.flatnonzero(~self.whole[places]):
            at = self._values[self._first[places[one]] : self._first[places[one] + 1]]
            all_whole = bool(self._noisy_whole[at].all())
            weights = np.ones(at.size) if self._weight is None else self._weight[at]
            step[one] = reduce(divisor, weights[:, np.newaxis])[0] if all_whole else 0.0
            log[one] = 0.0 if all_whole else -np.inf
        return np.array([step, log])[:, number]

    def isf(self, places: Places, q: float) -> FloatArray:
        """Quantiles of the noise of places with one value; NaN for others."""
        count = self._first[places + 1] - self._first[places]
        found = np.full(places.size, np.nan)
        single = np.flatnonzero(count == 1)
        if single.size:
            value = self._values[self._first[places[single]]]
            law = self._law.take(value) if self._law.shape else self._law
            found[single] = law.isf(q)
        return found


def multiples(weight: FloatArray, lattice: FloatArray) -> FloatArray:
    """Return what is known of multiples, shape (2, k): as of no noise where the weight is 0."""
    step = np.where(np.isinf(lattice[0]), np.inf, np.where(weight > 0.0, weight, 1.0) * lattice[0])
    return np.where(weight > 0.0, [step, lattice[1]], [[np.inf], [0.0]])


def joint(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return what is known of sums, shape (2, k)."""
    return np.stack([divisor(first[0], second[0]), first[1] + second[1]])


def divisor(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the largest common divisors of positive numbers, by Euclid's algorithm.

    That is up to 1e-7 of the larger, so that those of numbers with none are little more than that.
    """
    large, small = np.maximum(first, second), np.minimum(first, second)
    found = np.where(np.isinf(large), small, 0.0)
    left = np.flatnonzero(np.isfinite(large) & (small > 0.0))
    size, a, b = large[left], large[left], small[left]
    for _ in range(40):
        rest = np.abs(a - b * np.rint(a / b))
        going = rest > 1e-7 * size
        found[left[~going]] = b[~going]
        left, size, a, b = left[going], size[going], b[going], rest[going]
    return found


def blocks(rows: Places, columns: int) -> Iterator[Places]:
    """Cut rows of so many columns."""
    step = max(1, _NUMBERS // columns)
    return (rows[start : start + step] for start in range(0, rows.size, step))
