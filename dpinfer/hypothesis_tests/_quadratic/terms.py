"""The cells of the statistic: equal ones counted, similar ones interpolated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests._quadratic.cells import Cell
from dpinfer.hypothesis_tests._quadratic.noise_parts import ComplexArray, NoiseParts, noise_parts
from dpinfer.mechanisms._law import NoiseLaw, ParametricLaw
from dpinfer.mechanisms.independent import groups

Prepared = Sequence[ComplexArray]

_DEGREE = 22
"""Chebyshev nodes of a panel in which expectations differ by a factor of four at most."""

_PANEL = 4.0
_ROUNDING = 1e-13
_CELLS = 128

_INTERPOLATION_ERROR = 2e-11
"""Estimated error up to which cells are interpolated; it is some thirty times the true one."""

_MOST_LISTED = 1.5e7
"""Values of all different noises together beyond which no way is short enough."""

_LOG_REACH = 37.0
"""A count as far from its expectation has probability exp(-37) at most."""


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
    kind: NDArray[np.intp]
    count: FloatArray
    nobs: int

    @classmethod
    def collect(
        cls, nobs: int, value: FloatArray, centre: FloatArray, weight: FloatArray, noise: NoiseLaw
    ) -> Cells | None:
        """Sort cells into distinct ones; None where a noise is not known, or there are too many."""
        kind, laws = _kinds(noise, value.size)
        known: list[NoiseParts] = []
        listed = 0
        for law in laws:
            if (part := noise_parts(law)) is None:
                return None
            known.append(part)
            listed += part.pmf.size
            if listed > _MOST_LISTED:
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

    @property
    def noise_variance(self) -> FloatArray:
        """Variance of the noise of each cell, shape (d,)."""
        return np.array([part.variance for part in self.parts])[self.kind]

    @property
    def moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean and mean square of each term, and what it exceeds with negligible probability."""
        rate, shift = self.rate, self.rate - self.centre
        v = self.noise_variance
        fourth = np.array([part.fourth for part in self.parts])[self.kind]
        reach = np.array([part.reach for part in self.parts])[self.kind]
        both = rate + v
        # the central moments of a Poisson count are λ, λ and λ + 3λ²
        square = np.square(shift)
        mean_fourth = np.square(square) + 6.0 * square * both + 4.0 * shift * rate
        mean_fourth += rate + 3.0 * np.square(rate) + 6.0 * rate * v + fourth
        farthest = np.sqrt(2.0 * _LOG_REACH * rate) + 0.5 * _LOG_REACH * (rate > 0.0)
        most = np.abs(shift) + np.hypot(np.minimum(farthest, self.nobs), reach)
        weight = self.weight
        return weight * (square + both), np.square(weight) * mean_fourth, weight * np.square(most)

    @cached_property
    def each(self) -> tuple[Cell, ...]:
        """The distinct cells."""
        return tuple(
            Cell(float(rate), float(centre), float(weight), self.parts[kind])
            for rate, centre, weight, kind in zip(
                self.rate, self.centre, self.weight, self.kind, strict=True
            )
        )

    @cached_property
    def factors(self) -> tuple[Factor, ...]:
        """What the product over the cells is made of."""
        out: list[Factor] = []
        for panel in self._panels():
            smooth = panel.size > _DEGREE and self._is_smooth(panel)
            out.extend([self._interpolated(panel)] if smooth else self._single(panel))
        # a factor that is interpolated looks at the product of those before it
        return tuple(sorted(out, key=lambda factor: isinstance(factor, Interpolated)))

    def _panels(self) -> Iterator[NDArray[np.intp]]:
        """Yield cells with the same noise and rates within a factor of four."""
        for kind in range(len(self.parts)):
            own = np.flatnonzero(self.kind == kind)
            own = own[np.argsort(self.rate[own])]
            while own.size:
                near = self.rate[own] <= _PANEL * self.rate[own[0]]
                yield own[near]
                own = own[~near]

    def _is_smooth(self, panel: NDArray[np.intp]) -> bool:
        """Whether centres are the expectations and weights inverse to them, as for Pearson's."""
        rate, product = self.rate[panel], self.rate[panel] * self.weight[panel]
        centred = np.abs(self.centre[panel] - rate) <= _ROUNDING * rate
        return bool(centred.all() and np.ptp(product) <= _ROUNDING * product[0])

    def _single(self, panel: NDArray[np.intp]) -> list[Single]:
        return [Single(self.each[i], float(self.count[i])) for i in panel]

    def _interpolated(self, panel: NDArray[np.intp]) -> Interpolated:
        first, rate = self.each[panel[0]], self.rate[panel]
        low, high = np.sqrt(rate[0]), np.sqrt(rate[-1])
        angle = np.pi * (np.arange(_DEGREE) + 0.5) / _DEGREE
        nodes = np.square(0.5 * (low + high) + 0.5 * (high - low) * np.cos(angle))
        place = (2.0 * np.sqrt(rate) - low - high) / (high - low)
        cells = [
            Cell(float(x), float(x), first.rate * first.weight / float(x), first.noise)
            for x in nodes
        ]
        return Interpolated(
            tuple(cells), _lagrange(place, np.cos(angle)), tuple(self._single(panel))
        )


class Factor(ABC):
    """Part of the product of characteristic functions over the cells."""

    @abstractmethod
    def prepare(self, theta: FloatArray) -> Prepared:
        """Return what does not depend on t, with θ along the first axis of each array."""

    @abstractmethod
    def multiply(
        self, product: ComplexArray, t: FloatArray, theta: FloatArray, joint: Prepared
    ) -> None:
        """Multiply a product over other cells, shape (θ, t), by that over these, in place."""

    @property
    @abstractmethod
    def evaluated(self) -> tuple[Cell, ...]:
        """The cells that are evaluated."""


@dataclass(frozen=True)
class Single(Factor):
    """So many cells that are all alike."""

    cell: Cell
    count: float

    def prepare(self, theta: FloatArray) -> Prepared:
        return [self.cell.joint(theta)]

    def multiply(
        self, product: ComplexArray, t: FloatArray, theta: FloatArray, joint: Prepared
    ) -> None:
        value = self.cell.characteristic(t, joint[0], float(theta[-1]))
        product *= value if self.count == 1.0 else _integer_power(value, int(self.count))

    @property
    def evaluated(self) -> tuple[Cell, ...]:
        return (self.cell,)


@dataclass(frozen=True)
class Interpolated(Factor):
    """Cells that differ in their expectation only, by interpolation in its square root."""

    cells: tuple[Cell, ...]
    matrix: FloatArray
    singles: tuple[Single, ...]

    def prepare(self, theta: FloatArray) -> Prepared:
        return [cell.joint(theta) for cell in self.cells]

    def multiply(
        self, product: ComplexArray, t: FloatArray, theta: FloatArray, joint: Prepared
    ) -> None:
        nodes = np.stack(
            [
                cell.characteristic(t, own, float(theta[-1]))
                for cell, own in zip(self.cells, joint, strict=True)
            ]
        )
        if self._error(nodes, product) > _INTERPOLATION_ERROR:
            for single in self.singles:
                single.multiply(product, t, theta, single.prepare(theta))
            return
        flat = nodes.reshape(len(nodes), -1).view(np.float64)
        count = np.array([single.count for single in self.singles])
        for start in range(0, len(self.matrix), _CELLS):
            rows = slice(start, start + _CELLS)
            values = (self.matrix[rows] @ flat).view(np.complex128)
            if np.any(count[rows] > 1.0):
                values **= count[rows, None]
            product *= np.prod(values, axis=0).reshape(product.shape)

    def _error(self, nodes: ComplexArray, product: ComplexArray) -> float:
        """Error of the product, by the size of the last two coefficients of the interpolants."""
        flat = nodes.reshape(len(nodes), -1)
        last = np.abs(_last_coefficients(len(nodes)) @ flat).max(axis=0)
        count = sum(single.count for single in self.singles)
        largest = np.abs(flat).max(axis=0)
        return float(np.max(count * last * largest ** (count - 1.0) * np.abs(product).ravel()))

    @property
    def evaluated(self) -> tuple[Cell, ...]:
        return self.cells


def _last_coefficients(degree: int) -> FloatArray:
    """Map values at Chebyshev nodes to the last two coefficients, shape (2, degree)."""
    angle = np.pi * (np.arange(degree) + 0.5) / degree
    return np.asarray(2.0 / degree * np.cos(np.multiply.outer([degree - 2, degree - 1], angle)))


def _integer_power(value: ComplexArray, exponent: int) -> ComplexArray:
    """Repeated squaring, which is faster than the complex power."""
    out = np.ones_like(value)
    while exponent:
        if exponent & 1:
            out *= value
        exponent >>= 1
        value = np.square(value)
    return out


def _kinds(noise: NoiseLaw, size: int) -> tuple[NDArray[np.intp], list[NoiseLaw]]:
    """Return the number of the noise of each cell, and the different noises."""
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
