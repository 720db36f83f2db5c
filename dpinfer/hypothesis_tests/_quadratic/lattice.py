"""Statistics whose values have a common spacing, and their whole law by Fourier transforms.

The table is taken for up to twelve cells whose weights are commensurate: even cells, mostly. With
more cells the lattice helps the inversion.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import fft

from dpinfer._numerics.commensurate import common_spacing
from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests._quadratic.noise_parts import ComplexArray
from dpinfer.hypothesis_tests._quadratic.support import support
from dpinfer.hypothesis_tests._quadratic.terms import Cells
from dpinfer.hypothesis_tests._quadratic.transform import Transform

_FINEST = 1e-7
"""Smallest spacing looked for, in units of the largest weight."""

_SLACK = 1e-6
"""Values this close to a point of the lattice, in units of the spacing, are that point."""

_ERROR = 1e-13


@dataclass(frozen=True)
class Lattice:
    """The values origin + spacing·(whole numbers).

    Parameters
    ----------
    spacing, origin : float
        Difference between neighbouring values, and one of the values.
    linear : array of float, shape (d,)
        The multiple for y in cell i is (a·y(y - 1) + linear·y)/spacing.
    """

    spacing: float
    origin: float
    linear: FloatArray

    @classmethod
    def of(cls, cells: Cells) -> Lattice | None:
        """Return the lattice of Σ a(y - c)² over whole y, or None where there is no spacing.

        a(y - c)² = a·c² + a·y(y - 1) + a(1 - 2c)·y, and y(y - 1) is even. Without noise the y add
        up to n, so that what is linear with one coefficient in all cells is constant.
        """
        if not cells.is_integer:
            return None
        linear = cells.weight * (1.0 - 2.0 * cells.centre)
        origin = float(cells.count @ (cells.weight * np.square(cells.centre)))
        if all(part.pmf.size == 1 for part in cells.parts):
            common = linear[np.argmin(np.abs(linear))]
            origin += float(common * cells.nobs)
            rounding = 1e-12 * (np.abs(linear) + abs(common))
            linear = np.where(np.abs(linear - common) <= rounding, 0.0, linear - common)
        steps = np.abs(np.concatenate([2.0 * cells.weight, linear]))
        finest = _FINEST * float(cells.weight.max())
        found = common_spacing(steps[steps > 0.0], smallest=finest)
        return None if found is None else cls(found[0], origin, linear)

    def first(self, q: FloatArray) -> FloatArray:
        """Return the multiple of the first value >= q."""
        return np.asarray(np.ceil((q - self.origin) / self.spacing - _SLACK))

    def last(self, q: FloatArray) -> FloatArray:
        """Return the multiple of the last value <= q."""
        return np.asarray(np.floor((q - self.origin) / self.spacing + _SLACK))


class LatticeTable:
    """P(Q >= q) from the probabilities of all values of a lattice.

    For each θ the laws of the terms, jointly with the total, are convolved by discrete Fourier
    transforms around a circle longer than the range of the statistic.
    """

    def __init__(self, transform: Transform, lattice: Lattice) -> None:
        self._lattice = lattice
        low, high = support(transform)
        self._start = int(lattice.first(np.asarray(low)))
        pmf = _probabilities(transform, lattice, self._start, _length(transform, lattice))
        self._last = int(lattice.last(np.asarray(high))) - self._start
        self._above = np.append(np.cumsum(pmf[::-1])[::-1], 0.0)

    def upper(self, q: FloatArray) -> FloatArray:
        """P(Q >= q)."""
        return self._from(self._lattice.first(q))

    def lower(self, q: FloatArray) -> FloatArray:
        """P(Q <= q)."""
        return 1.0 - self._from(self._lattice.last(q) + 1.0)

    def error(self, q: FloatArray) -> FloatArray:
        """Bound on the absolute error: rounding, and what is left out."""
        return np.full(np.shape(q), _ERROR)

    def _from(self, multiple: FloatArray) -> FloatArray:
        place = np.clip(multiple - self._start, 0, self._above.size - 1)
        return np.asarray(np.clip(self._above[place.astype(np.intp)], 0.0, 1.0))


def table_cost(transform: Transform, lattice: Lattice) -> float:
    """Elementary operations that the table takes."""
    length = _length(transform, lattice)
    return float(0.5 * transform.circle * len(transform.cells) * length * np.log2(length))


def _length(transform: Transform, lattice: Lattice) -> int:
    low, high = support(transform)
    return int(fft.next_fast_len(int(min((high - low) / lattice.spacing, 1e12)) + 4))


def _probabilities(transform: Transform, lattice: Lattice, start: int, length: int) -> FloatArray:
    """Probabilities of consecutive values from a multiple on."""
    cells = transform.cells
    places = []
    for i, cell in enumerate(cells.each):
        y = np.rint(cell.points + cell.centre)
        multiple = (cell.weight * y * (y - 1.0) + lattice.linear[i] * y) / lattice.spacing
        places.append(np.rint(multiple).astype(np.int64) % length)
    total: ComplexArray = np.zeros(length, dtype=np.complex128)
    # the law at -θ is conjugate, so that half of the nodes do
    for node in range((transform.circle + 1) // 2):
        theta = np.array([2.0 * np.pi * node / transform.circle])
        product = np.ones(length, dtype=np.complex128)
        for i, place in enumerate(places):
            joint = cells.each[i].joint(theta)[0]
            law = np.bincount(place, joint.real, length) + 1j * np.bincount(
                place, joint.imag, length
            )
            value = fft.fft(law, overwrite_x=True)
            product *= value if cells.count[i] == 1.0 else value ** cells.count[i]
        total += product if node == 0 else 2.0 * product
    pmf = np.maximum(fft.ifft(total, overwrite_x=True).real, 0.0)
    return np.roll(pmf / pmf.sum(), -(start % length))
