"""Where a characteristic function matters: the few nodes of a long series that are not dropped."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.mechanisms._law import ContinuousLaw, IntegerLaw
from dpinfer.mechanisms._sums.decay import is_unimodal_periodic
from dpinfer.mechanisms._sums.terms import Block, Terms
from dpinfer.mechanisms.gaussian import Gaussian
from dpinfer.mechanisms.laplace import Laplace

SPLIT = 8
FIRST_RUNS = 1 << 9
"""A search begins with at most so many runs of nodes."""

ROUNDING = 1e-15
"""Relative error of an angle, and more."""

DECREASING = (Laplace, Gaussian)
"""Laws whose characteristic function is positive and decreases from 0 on."""


Nodes = tuple[FloatArray, FloatArray]
"""Numbers n >= 1 of nodes, and the values of the characteristic function there."""


class NodeSearch:
    """Nodes n at which abs(φ(2πn/period)) may exceed a level, found by bounds on whole runs.

    On a run of nodes every factor is at most its value at the angle of the run that is nearest to
    a multiple of its period. Runs on which the product of these bounds stays below the level are
    dropped, the others are split: the work grows with the number of nodes that matter.

    Parameters
    ----------
    terms : Terms
        Of the sum.
    period : float
        Of the series.
    level : float
        Values up to this are dropped.
    """

    def __init__(self, terms: Terms, period: float, level: float) -> None:
        self._terms = terms
        self._step = 2.0 * np.pi / period
        self.level = level
        self._work = 0.0

    def between(self, first: int, last: int) -> Nodes:
        """Nodes first <= n <= last and the values there."""
        found = self.attempt(first, last, np.inf)
        assert found is not None
        return found

    def attempt(self, first: int, last: int, budget: float) -> Nodes | None:
        """Return the same, or None where more factors than the budget would have to be computed."""
        size, budget = 1, budget + self._work
        while last - first >= FIRST_RUNS * size:
            size *= SPLIT
        start = np.arange(first, last + 1, size, dtype=np.float64)
        while size > 1 and start.size:
            before, runs = self._work, start.size
            bound = self._largest(start, size)
            size //= SPLIT
            start = np.add.outer(start[bound > 0], size * np.arange(SPLIT)).ravel()
            start = start[start <= last]
            # the next step is like this one
            if self._work + (self._work - before) / runs * start.size > budget:
                return None
        values = self._terms.cf(self._step * start, self.level)
        kept = values != 0
        return start[kept], values[kept]

    def _largest(self, start: FloatArray, size: int) -> FloatArray:
        """Bound on abs(φ) over runs of ``size`` nodes; 0 where it is at most the level."""
        half = 0.5 * (size - 1.0) * self._step

        def factors(part: Block, at: FloatArray) -> FloatArray:
            self._work += at.size * len(part)
            angle = at[:, None] * part.weights
            reach = half * part.weights + ROUNDING * angle
            return _largest_factors(part, angle, reach)

        return self._terms.product(self._step * start + half, factors, self.level)


def _largest_factors(part: Block, angle: FloatArray, reach: FloatArray) -> FloatArray:
    """Bound on the modulus of characteristic functions within ``reach`` of each angle."""
    if part.law.is_integer:
        angle = np.abs(angle - 2.0 * np.pi * np.rint(angle / (2.0 * np.pi)))
    nearest = np.maximum(angle - reach, 0.0)
    if is_unimodal_periodic(part.law) or isinstance(part.law, DECREASING):
        return part.law._cf(nearest)
    if isinstance(part.law, IntegerLaw):
        # probabilities with one peak: their total variation over abs(1 - exp(it))
        peak = np.exp(part.law._logpmf(np.zeros(len(part))))
        return np.asarray(peak / np.maximum(np.sin(0.5 * nearest), peak))
    # a density with one peak: its total variation, twice the peak, over the angle
    assert isinstance(part.law, ContinuousLaw)
    variation = 2.0 * np.exp(part.law._logpdf(np.zeros(len(part))))
    return np.asarray(variation / np.maximum(nearest, variation))


def weightiest(coefficients: FloatArray, allowance: float) -> tuple[NDArray[np.intp], float]:
    """Terms of a series that are kept, and the sum of the moduli of the others."""
    weight = np.abs(coefficients)
    order = np.argsort(weight)
    total = np.cumsum(weight[order])
    few = int(np.searchsorted(total, allowance))
    return np.sort(order[few:]), float(total[few - 1]) if few else 0.0
