"""The law of a statistic of few cells with whole-numbered noise, by listing its values."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests._quadratic.cells import Cell
from dpinfer.hypothesis_tests._quadratic.noise_parts import ComplexArray
from dpinfer.hypothesis_tests._quadratic.terms import Cells
from dpinfer.hypothesis_tests._quadratic.transform import Transform

_LARGEST = 1.6e7
"""Complex numbers that one half of the cells may take, 16 bytes each."""

_LARGEST_LISTED = 4e7
"""Terms of a sum for one value, over the cells of the other half."""

_NEGLIGIBLE = 1e-21
_TIE = 1e-11
"""Values this close to each other, in units of 1 + value, are one value."""

_ERROR = 1e-13
_CHUNK = 1 << 22

_TIE_IN_PART = 1e-12

_ANGLES = 16

Step = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Which sums are kept, in which order, and where among them a new value starts."""


class Enumeration:
    """P(Q >= q) from all values of two halves of the statistic, one of them with tails summed up.

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
        listed, merged = split(cells)
        self._squares = [cell.weight * np.square(cell.points) for cell in listed]
        self._joint = [cell.joint(theta).T for cell in listed]
        if self._joint:
            self._joint[0] = self._joint[0] * np.where(theta == 0.0, 1.0, 2.0)
        self._values, steps = _merging(merged)
        # the chance of being at least each of the values; nothing beyond the last
        self._tail = np.zeros((self._values.size + 1, theta.size), dtype=np.complex128)
        for start in range(0, theta.size, _ANGLES):
            part = slice(start, start + _ANGLES)
            chances = _chances(merged, steps, theta[part])
            self._tail[:-1, part] = np.cumsum(chances[::-1], axis=0)[::-1]
        self._total = self._summed(-np.inf)

    def upper(self, q: FloatArray) -> FloatArray:
        """P(Q >= q)."""
        return self._probability(q, -1.0)

    def lower(self, q: FloatArray) -> FloatArray:
        """P(Q <= q)."""
        return 1.0 - self._probability(q, 1.0)

    def error(self, q: FloatArray) -> FloatArray:
        """Bound on the absolute error: rounding, and what is left out."""
        return np.full(np.shape(q), _ERROR)

    def _probability(self, q: FloatArray, side: float) -> FloatArray:
        """Chance of values from q on, those within rounding of q included (-1) or not (1)."""
        out = [self._summed(x + side * _TIE * (1.0 + abs(x))) for x in np.ravel(q)]
        return np.clip(np.array(out) / self._total, 0.0, 1.0).reshape(np.shape(q))

    def _summed(self, q: float) -> float:
        """Sum of the chances of values from q on, in units of the chance of the total."""
        shape = tuple(square.size for square in self._squares)
        rows = max(1, _CHUNK // self._tail.shape[1])
        total = 0.0
        for start in range(0, prod(shape), rows):
            places = np.unravel_index(np.arange(start, min(start + rows, prod(shape))), shape)
            pairs = list(zip(self._squares, self._joint, places, strict=True))
            rest = q - np.sum([square[at] for square, _, at in pairs], axis=0)
            chances = self._tail[np.searchsorted(self._values, rest)]
            for _, joint, at in pairs:
                chances *= joint[at]
            total += float(chances.real.sum())
        return total


def affordable(cells: Cells, transform: Transform) -> bool:
    """Whether all values of both halves fit into the bounds."""
    if not cells.is_integer or cells.count.sum() > 12:
        return False
    listed, merged = (prod(float(cell.points.size) for cell in half) for half in split(cells))
    nodes = 0.5 * transform.circle
    return listed * nodes <= _LARGEST_LISTED and merged * nodes <= _LARGEST


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


def _merging(cells: list[Cell]) -> tuple[FloatArray, list[Step]]:
    """Values of part of the statistic, and how they come about as cells are added."""
    values, chances, steps = np.zeros(1), np.ones((1, 1)), list[Step]()
    for cell in cells:
        values = np.add.outer(values, cell.weight * np.square(cell.points)).ravel()
        chances = np.multiply.outer(chances[:, 0], cell.joint(np.zeros(1))[0].real).reshape(-1, 1)
        kept = np.flatnonzero(chances[:, 0] > _NEGLIGIBLE)
        kept = kept[np.argsort(values[kept], kind="stable")]
        values = values[kept]
        gaps = np.diff(values, prepend=-np.inf)
        starts = np.flatnonzero(gaps > _TIE_IN_PART * (1.0 + values))
        values, chances = values[starts], np.add.reduceat(chances[kept], starts, axis=0)
        steps.append((kept, starts))
    return values, steps


def _chances(cells: list[Cell], steps: list[Step], theta: FloatArray) -> ComplexArray:
    """E[exp(iθ(X - λ)); value] for each of the values, shape (values, θ)."""
    chances = np.ones((1, theta.size), dtype=np.complex128)
    for cell, (kept, starts) in zip(cells, steps, strict=True):
        product = chances[:, None, :] * cell.joint(theta).T
        chances = np.add.reduceat(product.reshape(-1, theta.size)[kept], starts, axis=0)
    return chances
