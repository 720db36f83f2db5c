"""The law of a statistic of few cells with whole-numbered noise, by listing its values."""

from __future__ import annotations

from math import prod

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests._quadratic.cells import Cell
from dpinfer.hypothesis_tests._quadratic.noise_parts import ComplexArray
from dpinfer.hypothesis_tests._quadratic.terms import Cells
from dpinfer.hypothesis_tests._quadratic.transform import Transform

_LARGEST = 8e6
"""Complex numbers that one half of the cells may take, 16 bytes each."""

_NEGLIGIBLE = 1e-21
_TIE = 1e-11
"""Values this close to each other, in units of 1 + value, are one value."""

_ERROR = 1e-13
_CHUNK = 1 << 22

Part = tuple[FloatArray, ComplexArray]
"""Values of part of the statistic, and for each E[exp(iθ(X - λ)); that value], shape (m, θ)."""


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
        self._joint = [cell.joint(theta) for cell in listed]
        if self._joint:
            self._joint[0] = self._joint[0] * np.where(theta == 0.0, 1.0, 2.0)
        self._values, chances = _convolved(merged, theta)
        # the chance of being at least each of the values; nothing beyond the last
        tail = np.cumsum(chances[::-1], axis=0)[::-1]
        self._tail = np.concatenate([tail, np.zeros((1, theta.size))])
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
    sizes = [np.prod([float(cell.points.size) for cell in half]) for half in split(cells)]
    return bool(max(sizes) * (0.5 * transform.circle) <= _LARGEST)


def split(cells: Cells) -> tuple[list[Cell], list[Cell]]:
    """Split the cells into halves with about as many values."""
    everything = [cells.cell(i) for i in range(len(cells)) for _ in range(int(cells.count[i]))]
    everything.sort(key=lambda cell: cell.points.size, reverse=True)
    halves: tuple[list[Cell], list[Cell]] = ([], [])
    sizes = [0.0, 0.0]
    for cell in everything:
        smaller = int(sizes[1] < sizes[0])
        halves[smaller].append(cell)
        sizes[smaller] += np.log(cell.points.size)
    return halves


def _convolved(half: list[Cell], theta: FloatArray) -> Part:
    values, chances = np.zeros(1), np.ones((1, theta.size), dtype=np.complex128)
    for cell in half:
        own = cell.weight * np.square(cell.points)
        values = np.add.outer(values, own).ravel()
        chances = (chances[:, None, :] * cell.joint(theta)).reshape(-1, theta.size)
        values, chances = _merged(values, chances)
    return values, chances


def _merged(values: FloatArray, chances: ComplexArray) -> Part:
    """Add up the chances of equal values, and leave out what is negligible."""
    kept = np.flatnonzero(chances[:, 0].real > _NEGLIGIBLE)
    kept = kept[np.argsort(values[kept], kind="stable")]
    values, chances = values[kept], chances[kept]
    starts = np.flatnonzero(np.diff(values, prepend=-np.inf) > _TIE * 0.1 * (1.0 + values))
    return values[starts], np.add.reduceat(chances, starts, axis=0)
