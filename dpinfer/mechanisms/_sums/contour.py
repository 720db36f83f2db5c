"""Contour integrals: sums of Laplace and Gaussian noises, and equally weighted integer noises."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

from dpinfer._check import ComplexArray, FloatArray
from dpinfer._numerics.inversion import HalfLineTable, SaddleGrid, TailContour
from dpinfer._numerics.lattice import GIVEN
from dpinfer.mechanisms._sums.terms import (
    Block,
    Route,
    Terms,
    atom_at,
    is_unimodal_periodic,
    lattice_floor,
    quantiles,
)
from dpinfer.mechanisms.law import ContinuousLaw, IntegerLaw
from dpinfer.mechanisms.laws import Gaussian, Laplace

VANISHING = 1e-15
"""Values of a characteristic function that are left out."""


class ContourSum(Route):
    """A sum of Laplace and Gaussian noises; its tails from a table, for very many points."""

    name = "contour integral"

    def __init__(self, terms: Terms, *, tabulated: bool = False) -> None:
        self._unit = terms.std
        scaled = terms.scaled(1.0 / self._unit)
        self._contour = TailContour(SaddleGrid(scaled.cgf, scaled.abscissa, 1.0))
        self._log_upper, self.error_bound = _of(self._contour, scaled.smallest_std, tabulated)

    def upper(self, x: FloatArray, closed: bool) -> FloatArray:
        return self._log_upper(x / self._unit)

    def log_density(self, x: FloatArray) -> FloatArray:
        return np.asarray(self._contour.log_density(x / self._unit) - np.log(self._unit))

    def upper_isf(self, q: FloatArray, strict: bool) -> FloatArray:
        return _real_quantile(self._contour, q) * self._unit


class LatticeContour(Route):
    """S = spacing·J where J is a sum of whole-numbered noises with whole weights.

    If all weights are 1, the path ends where its pieces cancel. Otherwise the singularities of
    the heavier terms recur at multiples of 2π over their weights, and the path ends half way to
    the first of them: :meth:`serves` says whether what it leaves out matters. The integral is then
    an analytic function of k, which can be interpolated between the lattice points.
    """

    name = "lattice contour integral"
    rounding = 1e-13

    SAFE_FROM = 40.0
    """From here on exp(-k·Re s) makes the ends of the path negligible."""

    def __init__(
        self, terms: Terms, spacing: float, *, atol: float = GIVEN, tabulated: bool = False
    ) -> None:
        self.spacing = spacing
        self._atol = atol
        unit = terms.scaled(1.0 / spacing)
        ceiling = np.pi / np.rint(unit.weights.max())
        self._contour = TailContour(unit.grid, kernel=_geometric_kernel, ceiling=float(ceiling))
        finest = terms.smallest_std / spacing
        self._log_upper, self.error_bound = _of(self._contour, finest, tabulated)

    @staticmethod
    def takes(terms: Terms, spacing: float) -> bool:
        """Whether all weights are equal, so that far tails are exact."""
        return bool((np.rint(terms.weights / spacing) == 1.0).all())

    @staticmethod
    def serves(terms: Terms, spacing: float) -> bool:
        """Whether the characteristic function vanishes beyond π over the largest weight.

        It is largest where a term recurs to 1, unless two terms do so side by side.
        """
        weights = np.unique(np.rint(terms.weights / spacing))
        peaks = [2.0 * np.pi * np.arange(1, w // 2 + 1) / w for w in weights]
        t = np.unique(np.concatenate([[np.pi / weights[-1], np.pi], *peaks]))
        t = np.sort(np.concatenate([t, 0.5 * (t[1:] + t[:-1])]))
        outside = t[t >= np.pi / weights[-1]] / spacing
        return bool(terms.cf(outside).max() < VANISHING)

    def upper(self, x: FloatArray, closed: bool) -> FloatArray:
        k = lattice_floor(x / self.spacing, closed, self._atol)
        out = self._log_upper(np.maximum(k, 0.0))
        # P(J > -1) = 1 - P(J > 0), the law being symmetric
        return np.asarray(np.where(k < 0, np.log1p(-np.exp(np.minimum(out, -1e-3))), out))

    def log_mass(self, x: FloatArray) -> FloatArray:
        k, at_atom = atom_at(x / self.spacing, self._atol)
        out = np.full(x.shape, -np.inf)
        out[at_atom] = self._contour.log_density(k[at_atom])
        return out

    def upper_isf(self, q: FloatArray, strict: bool) -> FloatArray:
        middle = np.rint(_real_quantile(self._contour, q))
        candidates = np.maximum(middle[:, None] + np.array([-1.0, 0.0, 1.0, 2.0]), 0.0)
        tails = self._contour.log_upper(candidates.ravel()).reshape(candidates.shape)
        logq = np.log(q)[:, None]
        first = np.argmax(tails < logq if strict else tails <= logq, axis=1)
        return np.asarray(candidates[np.arange(len(q)), first] * self.spacing)


def _of(
    contour: TailContour, smallest: float, tabulated: bool
) -> tuple[Callable[[FloatArray], FloatArray], float]:
    """Logarithms of tails, from a table or not, and their error, which is estimated."""
    table = HalfLineTable(contour.log_upper, 0.25 * smallest) if tabulated else None
    return table or contour.log_upper, 2e-12 if tabulated else 1e-12


def _geometric_kernel(s: ComplexArray) -> ComplexArray:
    return np.asarray(1.0 / special.expm1(s))  # NumPy's takes half as long again


def _real_quantile(contour: TailContour, q: FloatArray) -> FloatArray:
    """Find the real x >= 0 at which the contour's tail is q; 0 where it is below q everywhere."""
    low, high = quantiles(contour.log_upper, q, contour.grid.chernoff(q), rtol=1e-14)
    return 0.5 * (low + high)


# Where a characteristic function matters: the few nodes of a long series that are not dropped.


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

    ``terms``: of the sum; ``period``: of the series; ``level``: values up to this are dropped.
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
