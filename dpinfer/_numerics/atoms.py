"""Lists of atoms: sums of independent laws, values that are one, and tails at a point.

Values made in different orders differ by rounding: those nearer than 8 roundings of the largest
term they were made of are one. A point from outside was computed by another formula, which may
cancel more, so that :data:`TIE` is wider.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray

Atoms = tuple[FloatArray, FloatArray]
"""Values, and their masses."""

SAME = 8.0 * 2.0**-53
TIE = 1e-10
"""A point from outside this close to a value, in units of 1 + value, is that value."""


def added(first: Atoms, second: Atoms) -> Atoms:
    """Return the sums of two independent values and their masses, the second in turn."""
    values = np.add.outer(first[0], second[0]).ravel()
    return values, np.multiply.outer(first[1], second[1]).ravel()


def starts(values: FloatArray, largest: FloatArray | float) -> NDArray[np.intp]:
    """Return where each value begins among ascending ones, made of terms up to ``largest``."""
    return np.flatnonzero(np.diff(values, prepend=-np.inf) > SAME * largest)


def weightiest(weights: FloatArray, allowance: float) -> tuple[NDArray[np.intp], float]:
    """Which terms are kept as the smallest are left out, and the sum of their moduli."""
    size = np.abs(weights)
    order = np.argsort(size)
    total = np.cumsum(size[order])
    few = int(np.searchsorted(total, allowance, side="right"))
    return np.sort(order[few:]), float(total[few - 1]) if few else 0.0


def tied(points: FloatArray, side: float, tie: float = TIE) -> FloatArray:
    """Move points from outside up (1) or down (-1), by as much as a value may differ from them."""
    return np.asarray(points + side * tie * (1.0 + np.abs(points)))


@dataclass(frozen=True)
class AtomTails:
    """Tails of a law with finitely many values."""

    values: FloatArray  # ascending, shape (m,)
    masses: FloatArray

    @classmethod
    def of(cls, values: FloatArray, masses: FloatArray) -> AtomTails:
        """Return the law of values in any order."""
        order = np.argsort(values)
        return cls(values[order], masses[order])

    @cached_property
    def above(self) -> FloatArray:
        """Masses of the values from the i-th on, shape (m + 1,)."""
        return np.append(np.cumsum(self.masses[::-1])[::-1], 0.0)

    @cached_property
    def below(self) -> FloatArray:
        """Masses of the values before the i-th, shape (m + 1,)."""
        return np.append(0.0, np.cumsum(self.masses))

    def upper(self, x: FloatArray) -> FloatArray:
        """P(X >= x)."""
        return np.minimum(self.above[np.searchsorted(self.values, x, side="left")], 1.0)

    def lower(self, x: FloatArray) -> FloatArray:
        """P(X <= x)."""
        return np.minimum(self.below[np.searchsorted(self.values, x, side="right")], 1.0)

    def at_least(self, point: FloatArray) -> FloatArray:
        """P(X >= x) at points from outside."""
        return self.upper(tied(point, -1.0))

    def at_most(self, point: FloatArray) -> FloatArray:
        """P(X <= x) at points from outside."""
        return self.lower(tied(point, 1.0))
