"""The law of a statistic of few cells with whole-numbered noise, by listing its values.

Tried first for a dozen cells: the values up to a bound of one half of the cells go with those of
the other half.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import pi, prod

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import ComplexArray, FloatArray
from dpinfer._numerics.atoms import added, starts, tied
from dpinfer._numerics.lattice import slices
from dpinfer.hypothesis_tests._quadratic.cells import TIE, Cell, Cells

_NEGLIGIBLE = 1e-21
"""Probability below which a value is left out."""

_KEPT = 1.6e7
"""Complex numbers that are kept, 16 bytes each."""


@dataclass(frozen=True, eq=False)
class Term:
    """One term a(y - c)² with whole-numbered y."""

    cell: Cell
    theta: FloatArray  # from 0 on, shape (θ,)

    @cached_property
    def square(self) -> FloatArray:
        """The values at the points y, shape (m,)."""
        return self.cell.weight * np.square(self.cell.points)

    @cached_property
    def joint(self) -> ComplexArray:
        """E[exp(iθ(X - λ)); y], shape (θ, m)."""
        return np.ascontiguousarray(self.cell.joint(self.theta))

    def below(self, bound: float) -> NDArray[np.intp]:
        """Return the places of the values up to a bound."""
        return np.flatnonzero(self.square <= bound)


@dataclass(frozen=True)
class _Step:
    """How sums come about as a term is added to them.

    ``before`` and ``place`` are the sum and the point of the term, in the order of the new sums;
    at each of ``starts`` begins a new value.
    """

    before: NDArray[np.intp]
    place: NDArray[np.intp]
    starts: NDArray[np.intp]


class Half:
    """The values of a sum of terms up to a bound, upwards, with their probabilities."""

    def __init__(self, terms: Sequence[Term], angles: int, bound: float) -> None:
        self._terms = terms
        self._angles = angles
        self.values: FloatArray = np.zeros(1)
        self._steps: list[_Step] = []
        self._known: dict[int, ComplexArray | None] = {}
        chances, square = np.ones(1), 0.0
        for term in terms:
            place = term.below(bound)
            own_law = term.square[place], term.joint[0, place].real
            values, chances = added((self.values, chances), own_law)
            kept = np.flatnonzero((values <= bound) & (chances > _NEGLIGIBLE))
            kept = kept[np.argsort(values[kept], kind="stable")]
            values = values[kept]
            # a(y - c)² is made of a·y² and a·c²
            square += term.cell.weight * term.cell.centre**2
            first = starts(values, square + values)
            before, own = np.divmod(kept, max(1, place.size))
            self._steps.append(_Step(before, place[own], first))
            self.values = values[first]
            chances = np.add.reduceat(chances[kept], first) if first.size else np.zeros(0)

    def chances(self, part: slice) -> ComplexArray:
        """E[exp(iθ(X - λ)); value] at some of the θ, always the same ones, shape (θ, values)."""
        found = self._known.get(part.start)
        if found is None:
            found = self._computed(part)
            # for one tail it takes less time not to keep them
            again = part.start in self._known and self.values.size * self._angles <= _KEPT
            self._known[part.start] = found if again else None
        return found

    def _computed(self, part: slice) -> ComplexArray:
        out = np.ones((part.stop - part.start, 1), dtype=np.complex128)
        for term, step in zip(self._terms, self._steps, strict=True):
            out = out.take(step.before, axis=1)
            out *= term.joint[part].take(step.place, axis=1)
            if step.starts.size < step.before.size:
                out = np.add.reduceat(out, step.starts, axis=1)
        return out


def number_of_values(terms: Sequence[Term], bound: float) -> float:
    """Return about how many values there are up to a bound: the volume of an ellipsoid."""
    half = 0.5 * len(terms)
    ball = pi**half / special.gamma(half + 1.0)
    volume = ball * prod(np.sqrt(bound / term.cell.weight) + 0.5 for term in terms)
    return float(min(volume, prod(float(term.below(bound).size) for term in terms)))


# The law of a statistic of few cells with whole-numbered noise, by listing its values.


_ERROR = 1e-13
"""Of rounding, estimated, and of what is left out, which is far less."""

_BUDGET = 2e7
"""Complex numbers handled at most for one tail: a second or so."""

_LARGEST = 1e7
"""Numbers held at a time, for the terms and for a list of values."""

_BLOCK = 1 << 17
"""Complex numbers in a block, which is to stay in the cache."""

_GROWTH = 1.3
"""By how much the lists go beyond what was asked for, where that is asked for repeatedly."""


class Enumeration:
    """P(Q <= q) from the values up to q of two halves of the statistic.

    The counts are Poisson counts given their total, which the trapezoidal rule fixes: for each θ
    the halves are independent, and a value of one half goes with the sum of all of the other one
    that are small enough.
    """

    def __init__(self, cells: Cells, circle: int) -> None:
        # the joint functions are conjugate at -θ: half of the nodes will do
        theta = 2.0 * np.pi * np.arange((circle + 1) // 2) / circle
        self._theta = theta
        self._factor = np.where(theta == 0.0, 1.0, 2.0)
        terms = {id(cell): Term(cell, theta) for cell in cells.each}
        self._parts = [[terms[id(cell)] for cell in half] for half in split(cells)]
        self._bound = -np.inf
        self._halves: list[Half] = []

    def upper(self, q: FloatArray) -> FloatArray:
        """P(Q >= q)."""
        return 1.0 - self._each(q, -1.0)

    def lower(self, q: FloatArray) -> FloatArray:
        """P(Q <= q)."""
        return self._each(q, 1.0)

    def error(self, q: FloatArray) -> FloatArray:
        """Bound on the absolute error; inf where the values up to q are too many."""
        return np.where(np.vectorize(self._is_affordable, [bool])(q), _ERROR, np.inf)

    def _is_affordable(self, q: float) -> bool:
        if q < 0.0:
            return True
        numbers = [number_of_values(part, q) for part in self._parts]
        return max(numbers) <= _LARGEST and sum(numbers) * self._theta.size <= _BUDGET

    def _each(self, q: FloatArray, side: float) -> FloatArray:
        """P(Q <= q), the values within rounding of q included (1) or not (-1)."""
        inside = np.vectorize(self._inside, [float])(tied(q, side, TIE))
        return np.asarray(np.clip(inside / self._total, 0.0, 1.0))

    @cached_property
    def _total(self) -> float:
        sums = [term.joint.sum(axis=1) for half in self._parts for term in half]
        return float(prod(sums, start=self._factor).real.sum())

    def _inside(self, q: float) -> float:
        """Chance of the values up to q, in units of the chance of the total."""
        if q < 0.0:
            return 0.0
        listed, merged = self._up_to(q)
        chosen = listed.values[: np.searchsorted(listed.values, q, side="right")]
        place = np.searchsorted(merged.values, q - chosen, side="right")
        angles = _BLOCK // max(1, listed.values.size, merged.values.size)
        pairs = np.empty(self._theta.size)
        for part in slices(self._theta.size, angles):
            # the chance of the first values; nothing before them
            below = np.zeros((part.stop - part.start, merged.values.size + 1), dtype=np.complex128)
            np.cumsum(merged.chances(part), axis=1, out=below[:, 1:])
            chances = listed.chances(part)[:, : place.size]
            both = np.einsum("tv,tv->t", chances, below.take(place, axis=1))
            pairs[part] = both.real
        return float(self._factor @ pairs)

    def _up_to(self, q: float) -> list[Half]:
        """Both halves with their values up to q, and perhaps some more."""
        if q > self._bound:
            self._bound = q if not self._halves else _GROWTH * q
            self._halves = [Half(part, self._theta.size, self._bound) for part in self._parts]
        return self._halves


def feasible(cells: Cells, circle: int) -> bool:
    """Whether the terms can be listed; how many sums of them there are depends on q."""
    if not cells.is_integer or 0.5 * circle * sum(c.fewest_points for c in cells.each) > _LARGEST:
        return False
    points = sum(cell.points.size for cell in cells.each)
    return points * 0.5 * circle <= _LARGEST


def split(cells: Cells) -> tuple[list[Cell], list[Cell]]:
    """Split the cells into halves with about as many values, the larger one first."""
    everything = [
        cell for cell, n in zip(cells.each, cells.count, strict=True) for _ in range(int(n))
    ]
    everything.sort(key=lambda cell: cell.points.size, reverse=True)
    halves: tuple[list[Cell], list[Cell]] = ([], [])
    sizes = [0.0, 0.0]
    for cell in everything:
        smaller = int(sizes[1] < sizes[0])
        halves[smaller].append(cell)
        sizes[smaller] += np.log(cell.points.size)
    return halves if sizes[0] >= sizes[1] else (halves[1], halves[0])
