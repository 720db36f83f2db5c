"""The law of a statistic of two cells with whole-numbered noise: one sum for each value.

Tried first for two such cells. It has no trouble with uneven cells or large n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests._quadratic.binomial_count import BinomialCount
from dpinfer.hypothesis_tests._quadratic.noise_parts import NoiseParts

_TIE = 1e-11
"""Values this close to each other, in units of 1 + value, are one value."""

_ERROR = 1e-13

_ROW = 1e4
"""Cost of one value of a cell besides its sum, in terms of the sum."""

_BUDGET = 1e9
"""Terms at most for one tail: a second or so."""


@dataclass(frozen=True)
class _Side:
    """One of the cells, with its count."""

    count: BinomialCount
    centre: float
    weight: float
    pmf: FloatArray

    @property
    def reach(self) -> int:
        return self.pmf.size // 2

    def values(self, q: float) -> tuple[float, float]:
        """First and last value y of the cell with a(y - c)² <= q."""
        radius = np.sqrt(q / self.weight)
        first, last = self.count.ends
        low = max(np.ceil(self.centre - radius), first - self.reach)
        return float(low), float(min(np.floor(self.centre + radius), last + self.reach))

    def cost(self, q: float) -> float:
        """Terms of the sum over all values of this cell."""
        low, high = self.values(q)
        return max(0.0, high - low + 1.0) * (min(self.count.pmf.size, self.pmf.size) + _ROW)


class TwoWholeCells:
    """P(Q <= q) as the sum over the values of one cell, and over its counts.

    Given the value y of one cell, the other one's has to lie in an interval; given the count, too,
    that is an interval of its noise.

    Parameters
    ----------
    nobs : int
        Number of observations.
    share, centre, weight : array of float, shape (2,)
        Probabilities p, c and a of the cells.
    parts : list of NoiseParts
        Their noises, both whole-numbered.
    """

    def __init__(
        self,
        nobs: int,
        share: FloatArray,
        centre: FloatArray,
        weight: FloatArray,
        parts: list[NoiseParts],
    ) -> None:
        self._nobs = nobs
        self._sides = [
            _Side(BinomialCount(nobs, float(p)), float(c), float(a), part.pmf)
            for p, c, a, part in zip(share, centre, weight, parts, strict=True)
        ]

    def upper(self, q: FloatArray) -> FloatArray:
        """P(Q >= q)."""
        return 1.0 - self._each(q, -1.0)

    def lower(self, q: FloatArray) -> FloatArray:
        """P(Q <= q)."""
        return self._each(q, 1.0)

    def error(self, q: FloatArray) -> FloatArray:
        """Bound on the absolute error; inf where the sums are too long."""
        affordable = [self._cost(x) <= _BUDGET for x in np.ravel(q)]
        return np.where(affordable, _ERROR, np.inf).reshape(np.shape(q))

    def _cost(self, q: float) -> float:
        return 0.0 if q < 0.0 else min(side.cost(q) for side in self._sides)

    def _each(self, q: FloatArray, side: float) -> FloatArray:
        """P(Q <= q), the values within rounding of q included (1) or not (-1)."""
        inside = [self._inside(x + side * _TIE * (1.0 + abs(x))) for x in np.ravel(q)]
        return np.asarray(np.clip(inside, 0.0, 1.0).reshape(np.shape(q)))

    def _inside(self, q: float) -> float:
        if q < 0.0:
            return 0.0
        one, other = sorted(self._sides, key=lambda side: side.cost(q))
        low, high = one.values(q)
        values = np.arange(low, high + 1.0)
        rest = np.sqrt(np.maximum(q - one.weight * np.square(values - one.centre), 0.0))
        radius = rest / np.sqrt(other.weight)
        starts = np.ceil(other.centre - radius) - self._nobs
        ends = np.floor(other.centre + radius) - self._nobs
        return _summed(one, other, values, starts, ends)


def _summed(
    one: _Side, other: _Side, values: FloatArray, starts: FloatArray, ends: FloatArray
) -> float:
    """Σ P(Y₁ = y, starts <= e₂ - X₁ <= ends) over the values y of a cell."""
    pmf, reach, first = one.count.pmf, one.reach, one.count.ends[0]
    low = np.maximum(first, values - reach)
    length = np.minimum(first + pmf.size - 1.0, values + reach) - low + 1.0
    # P(e₂ <= i - margin), with so many zeros and ones on both sides that any slice fits in
    margin = other.reach + 1 + pmf.size
    below = np.concatenate([np.zeros(pmf.size + 1), np.cumsum(other.pmf), np.ones(pmf.size)])
    before, upto = (
        np.clip(bound + low, -margin, other.reach) + margin for bound in (starts - 1.0, ends)
    )
    # the noise is symmetric: its slice, too, goes upwards with the count
    slices = np.stack([length, low - first, low - values + reach, before, upto], axis=1)
    total = 0.0
    for size, count, noise, start, end in slices.astype(np.intp).tolist():
        chance = pmf[count : count + size] * one.pmf[noise : noise + size]
        total += float(chance @ (below[end : end + size] - below[start : start + size]))
    return total
