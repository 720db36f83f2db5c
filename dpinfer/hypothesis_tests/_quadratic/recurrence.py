"""Where the characteristic function of a discrete statistic may grow again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests._quadratic.terms import Cells
from dpinfer.hypothesis_tests._quadratic.transform import Transform

_KINDS = 8
_PERIODS = 4
_FRACTIONS = np.unique([j / q for q in range(1, 7) for j in range(1, q + 1)])
"""Parts of a period at which sums of exp(iπx²·fraction) are largest: 1/√q for a denominator q."""

_FIRST = 12
_NEGLIGIBLE = 1e-14
_BUDGET = 5e8
"""Multiplications at most for each choice of cells."""

_LARGEST = 2e7
"""Complex numbers held at a time."""

_PER_ANGLE = 10.0
"""Cost of preparing a cell at one θ and point, in multiplications."""


def recurrence(transform: Transform, width: float, end: float, reach: float) -> float:
    """Estimate what returns of φ between ``end`` and ``reach`` contribute to a tail, at most.

    exp(it·a(y - c)²) with whole y has, but for a shift, the period π/a in t, and is next largest
    at simple fractions of it. There abs(φ) is bounded by its mean over the circle of θ, of more
    and more cells until that is negligible. A return as wide as the peak at 0, ``width`` =
    ∫ abs(φ) dt, contributes 2·width·abs(φ)/(πt). Cells with a continuous part have no such returns.
    """
    cells = transform.cells
    whole = np.array([part.is_integer for part in cells.parts])[cells.kind]
    if not whole.any():
        return 0.0
    order = _spread_out(cells, np.flatnonzero(whole))
    steps = np.add.outer(np.arange(_PERIODS), _FRACTIONS)
    t = np.unique(np.multiply.outer(steps, np.pi / cells.weight[order[:_KINDS]]))
    t = t[(t > end) & (t <= reach * (1.0 + 1e-9))]
    share = np.minimum(1.0, 2.0 * width / (np.pi * t))
    found, number, most_cells = share, min(_FIRST, order.size), order.size
    while found.size and found.max() > _NEGLIGIBLE:
        angles = _angles(cells, order[:number])
        work = angles * _points(cells, order[:number])
        most = int(_BUDGET / (work * number) - _PER_ANGLE)
        if most < 1 or work > _LARGEST:
            number = most_cells = number // 2  # never more again, or it would go on forever
            if number:
                continue
            break
        large = np.flatnonzero(found > _NEGLIGIBLE)
        t, share = t[large], share[large]
        size = _bound(transform, order[:number], t[:most], angles)
        # those at larger t that are too many to look at are taken to be as large as the largest
        found = share * np.append(size, np.full(t.size - size.size, size.max()))
        if number == most_cells or 2 * most < t.size:
            break
        number = min(4 * number, most_cells)
    return float(found.sum())


def _spread_out(cells: Cells, whole: NDArray[np.intp]) -> NDArray[np.intp]:
    """Order cells so that the first of them are of all sizes."""
    order = whole[np.argsort(cells.weight[whole])]
    # multiples of the golden ratio, modulo 1, fill the interval evenly
    return order[np.argsort(np.arange(order.size) * 0.5 * (np.sqrt(5.0) - 1.0) % 1.0)]


def _angles(cells: Cells, chosen: NDArray[np.intp]) -> int:
    """Return how many nodes on the circle resolve a peak as narrow as the chosen counts make it."""
    return int(8.0 * np.sqrt(cells.count[chosen] @ cells.rate[chosen])) + 64


def _points(cells: Cells, chosen: NDArray[np.intp]) -> int:
    """Return the number of points of the widest of the chosen cells."""
    return max(int(cells.each[i].points.size) for i in chosen)


def _bound(
    transform: Transform, chosen: NDArray[np.intp], t: FloatArray, angles: int
) -> FloatArray:
    """Mean over the circle of the product over the chosen cells, in units of P(total)."""
    cells = transform.cells
    theta = 2.0 * np.pi * np.arange(angles) / angles
    product = np.ones((angles, t.size))
    with np.errstate(under="ignore"):
        for i in chosen:
            cell = cells.each[i]
            value = np.abs(cell.characteristic(t, cell.joint(theta)))
            product *= value ** cells.count[i]
    bound = product.mean(axis=0) * transform.circle / transform.scale
    return np.asarray(np.minimum(1.0, bound))
