"""The cells of the statistic: equal ones counted, similar ones interpolated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests._quadratic.cells import Cell
from dpinfer.hypothesis_tests._quadratic.noise_parts import ComplexArray, NoiseParts, noise_parts
from dpinfer.mechanisms._law import NoiseLaw, ParametricLaw
from dpinfer.mechanisms.independent import groups

_DEGREE = 18
"""Chebyshev nodes of a panel in which expectations differ by a factor of two at most."""

_PANEL = 2.0
_ROUNDING = 1e-13
_CELLS = 128


@dataclass(frozen=True)
class Cells:
    """Distinct cells with their numbers.

    Parameters
    ----------
    rate, centre, weight : array of float, shape (d,)
        The expectation, centre and weight of each.
    parts : tuple of NoiseParts
        The different noises.
    kind : array of int, shape (d,)
        Which noise each has.
    count : array of float, shape (d,)
        How many cells are like it.
    nobs : int
        The total of all counts.
    """

    rate: FloatArray
    centre: FloatArray
    weight: FloatArray
    parts: tuple[NoiseParts, ...]
    kind: np.ndarray
    count: FloatArray
    nobs: int

    @classmethod
    def collect(
        cls, nobs: int, value: FloatArray, centre: FloatArray, weight: FloatArray, noise: NoiseLaw
    ) -> Cells | None:
        """Sort cells into distinct ones, or return None where a noise is not supported."""
        kind, laws = _kinds(noise, value.size)
        parts = [noise_parts(law) for law in laws]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        rows = np.column_stack([kind, nobs * (value / value.sum()), centre, weight])
        distinct, count = np.unique(rows, axis=0, return_counts=True)
        number, rate, middle, factor = distinct.T
        return cls(
            rate, middle, factor, tuple(known), number.astype(np.intp), count.astype(float), nobs
        )

    def __len__(self) -> int:
        return self.rate.size

    @property
    def is_integer(self) -> bool:
        """Whether no noise has a continuous part."""
        return all(part.is_integer for part in self.parts)

    def cell(self, i: int) -> Cell:
        """Return one of the distinct cells."""
        return Cell(
            float(self.rate[i]),
            float(self.centre[i]),
            float(self.weight[i]),
            self.parts[self.kind[i]],
            self.nobs,
        )

    @cached_property
    def factors(self) -> tuple[Factor, ...]:
        """What the product over the cells is made of."""
        out: list[Factor] = []
        for panel in self._panels():
            smooth = panel.size > _DEGREE and self._is_smooth(panel)
            out.extend([self._interpolated(panel)] if smooth else self._single(panel))
        return tuple(out)

    def _panels(self) -> Iterator[np.ndarray]:
        """Yield cells with the same noise and rates within a factor of two."""
        for kind in range(len(self.parts)):
            own = np.flatnonzero(self.kind == kind)
            own = own[np.argsort(self.rate[own])]
            while own.size:
                near = self.rate[own] <= _PANEL * self.rate[own[0]]
                yield own[near]
                own = own[~near]

    def _is_smooth(self, panel: np.ndarray) -> bool:
        """Whether centres are the expectations and weights inverse to them, as for Pearson's."""
        rate, product = self.rate[panel], self.rate[panel] * self.weight[panel]
        centred = np.abs(self.centre[panel] - rate) <= _ROUNDING * rate
        return bool(centred.all() and np.ptp(product) <= _ROUNDING * product[0])

    def _single(self, panel: np.ndarray) -> list[Factor]:
        return [Single(self.cell(i), float(self.count[i])) for i in panel]

    def _interpolated(self, panel: np.ndarray) -> Interpolated:
        first, rate = self.cell(int(panel[0])), self.rate[panel]
        low, high = np.sqrt(rate[0]), np.sqrt(rate[-1])
        angle = np.pi * (np.arange(_DEGREE) + 0.5) / _DEGREE
        nodes = np.square(0.5 * (low + high) + 0.5 * (high - low) * np.cos(angle))
        place = (2.0 * np.sqrt(rate) - low - high) / (high - low)
        cells = [
            Cell(float(x), float(x), first.rate * first.weight / float(x), first.noise, self.nobs)
            for x in nodes
        ]
        return Interpolated(tuple(cells), _lagrange(place, np.cos(angle)), self.count[panel])


class Factor:
    """Part of the product of characteristic functions over the cells."""

    def prepare(self, theta: FloatArray) -> Sequence[ComplexArray]:
        """Return what does not depend on t."""
        raise NotImplementedError

    def evaluate(self, t: FloatArray, joint: Sequence[ComplexArray]) -> ComplexArray:
        """Return the product over the cells, shape (θ, t)."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Points of all evaluated cells together."""
        raise NotImplementedError


@dataclass(frozen=True)
class Single(Factor):
    """So many cells that are all alike."""

    cell: Cell
    count: float

    def prepare(self, theta: FloatArray) -> Sequence[ComplexArray]:
        return [self.cell.joint(theta)]

    def evaluate(self, t: FloatArray, joint: Sequence[ComplexArray]) -> ComplexArray:
        value = self.cell.characteristic(t, joint[0])
        return value if self.count == 1.0 else integer_power(value, int(self.count))

    @property
    def size(self) -> int:
        return self.cell.points.size


@dataclass(frozen=True)
class Interpolated(Factor):
    """Cells that differ in their expectation only, by interpolation in its square root."""

    cells: tuple[Cell, ...]
    matrix: FloatArray
    count: FloatArray

    def prepare(self, theta: FloatArray) -> Sequence[ComplexArray]:
        return [cell.joint(theta) for cell in self.cells]

    def evaluate(self, t: FloatArray, joint: Sequence[ComplexArray]) -> ComplexArray:
        nodes = np.stack(
            [cell.characteristic(t, own) for cell, own in zip(self.cells, joint, strict=True)]
        )
        shape = nodes.shape[1:]
        flat = nodes.reshape(len(nodes), -1).view(np.float64)
        out = np.ones(flat.shape[1] // 2, dtype=np.complex128)
        for start in range(0, len(self.matrix), _CELLS):
            rows = slice(start, start + _CELLS)
            values = (self.matrix[rows] @ flat).view(np.complex128)
            if np.any(self.count[rows] > 1.0):
                values = np.power(values, self.count[rows, None])
            out *= np.prod(values, axis=0)
        return out.reshape(shape)

    @property
    def size(self) -> int:
        return sum(cell.points.size for cell in self.cells)


def integer_power(value: ComplexArray, count: int) -> ComplexArray:
    """Repeated squaring: faster than the complex power."""
    out = None
    with np.errstate(under="ignore"):
        while count:
            if count & 1:
                out = value if out is None else out * value
            count >>= 1
            if count:
                value = value * value
    assert out is not None
    return out


def _kinds(noise: NoiseLaw, size: int) -> tuple[np.ndarray, list[NoiseLaw]]:
    """Number the different noises of the cells; return the numbers and the noises."""
    number = np.zeros(size, dtype=np.intp)
    laws: list[NoiseLaw] = []
    for law, cells in groups(noise, size):
        if not isinstance(law, ParametricLaw) or law.shape == ():
            number[cells] = len(laws)
            laws.append(law)
            continue
        columns = [np.broadcast_to(v, law.shape) for v in law._parameters().values()]
        _, first, inverse = np.unique(
            np.column_stack(columns), axis=0, return_index=True, return_inverse=True
        )
        number[cells] = len(laws) + inverse.ravel()
        laws.extend(law.take(int(i)) for i in first)
    return number, laws


def _lagrange(x: FloatArray, nodes: FloatArray) -> FloatArray:
    """Values at x of the Lagrange polynomials of Chebyshev nodes, shape (x, nodes)."""
    degree = nodes.size
    vandermonde = np.polynomial.chebyshev.chebvander
    at_nodes = vandermonde(nodes, degree - 1)
    # discrete orthogonality: the inverse is the transpose, up to a factor
    inverse = at_nodes.T * (2.0 / degree)
    inverse[0] *= 0.5
    return np.asarray(vandermonde(x, degree - 1) @ inverse)
