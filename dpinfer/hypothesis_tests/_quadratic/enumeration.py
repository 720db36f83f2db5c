"""The law of a statistic of few cells with whole-numbered noise, by listing its values.

Taken for up to twelve uneven cells where the values up to q are not too many.
"""

from __future__ import annotations

from math import prod

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests._quadratic.cells import Cell
from dpinfer.hypothesis_tests._quadratic.half import Half, Term, number_of_values
from dpinfer.hypothesis_tests._quadratic.terms import Cells

_BUDGET = 2e7
"""Complex numbers handled at most for one tail: a second or so."""

_LARGEST = 1e7
"""Numbers held at a time, for the terms and for a list of values."""

_TIE = 1e-11
"""Values this close to each other, in units of 1 + value, are one value."""

_ERROR = 1e-13

_BLOCK = 1 << 21
"""Complex numbers in a block."""

_GROWTH = 1.3
"""By how much the lists go beyond what was asked for, where that is asked for repeatedly."""


class Enumeration:
    """P(Q <= q) from the values up to q of two halves of the statistic.

    The counts are Poisson counts given their total, which the trapezoidal rule fixes: for each θ
    the halves are independent, and a value of one half goes with the sum of all of the other one
    that are small enough.

    Parameters
    ----------
    cells : Cells
        The cells, all with whole-numbered noise.
    circle : int
        Nodes of the trapezoidal rule for the total.
    """

    def __init__(self, cells: Cells, circle: int) -> None:
        # the joint functions are conjugate at -θ: half of the nodes will do
        theta = 2.0 * np.pi * np.arange((circle + 1) // 2) / circle
        self._theta = theta
        self._factor = np.where(theta == 0.0, 1.0, 2.0)
        terms = {id(cell): _term(cell, theta) for cell in cells.each}
        self._parts = [[terms[id(cell)] for cell in half] for half in split(cells)]
        sums = [term.joint.sum(axis=0) for half in self._parts for term in half]
        self._total = float(prod(sums, start=self._factor).real.sum())
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
        affordable = [self._is_affordable(x) for x in np.ravel(q)]
        return np.where(affordable, _ERROR, np.inf).reshape(np.shape(q))

    def _is_affordable(self, q: float) -> bool:
        if q < 0.0:
            return True
        numbers = [number_of_values(part, q) for part in self._parts]
        return max(numbers) <= _LARGEST and sum(numbers) * self._theta.size <= _BUDGET

    def _each(self, q: FloatArray, side: float) -> FloatArray:
        """P(Q <= q), the values within rounding of q included (1) or not (-1)."""
        inside = [self._inside(x + side * _TIE * (1.0 + abs(x))) for x in np.ravel(q)]
        return np.clip(np.array(inside) / self._total, 0.0, 1.0).reshape(np.shape(q))

    def _inside(self, q: float) -> float:
        """Chance of the values up to q, in units of the chance of the total."""
        if q < 0.0:
            return 0.0
        listed, merged = self._up_to(q)
        chosen = listed.values[: np.searchsorted(listed.values, q, side="right")]
        place = np.searchsorted(merged.values, q - chosen, side="right")
        angles = max(1, _BLOCK // max(1, listed.values.size, merged.values.size))
        total = 0.0
        for start in range(0, self._theta.size, angles):
            part = slice(start, min(start + angles, self._theta.size))
            # the chance of the first values; nothing before them
            below = np.zeros((merged.values.size + 1, part.stop - part.start), dtype=np.complex128)
            np.cumsum(merged.chances(part), axis=0, out=below[1:])
            pairs = np.einsum("vt,vt->t", listed.chances(part)[: place.size], below[place])
            total += float(self._factor[part] @ pairs.real)
        return total

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


def _term(cell: Cell, theta: FloatArray) -> Term:
    joint = np.ascontiguousarray(cell.joint(theta).T)
    return Term(cell.weight * np.square(cell.points), joint, cell.weight)
