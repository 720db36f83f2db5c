"""Where the characteristic function of a discrete statistic may grow again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests._quadratic.terms import Cells
from dpinfer.hypothesis_tests._quadratic.transform import Transform

_KINDS = 8
_MULTIPLES = 8
_FIRST = 12
_NEGLIGIBLE = 1e-14


def recurrence(transform: Transform, width: float, end: float, reach: float) -> float:
    """Estimate what returns of φ between ``end`` and ``reach`` contribute to a tail, at most.

    exp(it·a(y - c)²) with whole y has, but for a shift, the period π/a in t, and is next largest
    at half periods. There abs(φ) is bounded by its mean over the circle of θ, of more and more
    cells until that is negligible. A return as wide as the peak at 0, ``width`` = ∫ abs(φ) dt,
    contributes 2·width·abs(φ)/(πt). Cells with a continuous part have no such returns.
    """
    cells = transform.cells
    whole = np.array([part.is_integer for part in cells.parts])[cells.kind]
    if not whole.any():
        return 0.0
    order = _spread_out(cells, np.flatnonzero(whole))
    periods = 0.5 * np.pi / cells.weight[order[:_KINDS]]
    t = np.unique(np.multiply.outer(np.arange(1.0, _MULTIPLES + 1.0), periods))
    t = t[(t > end) & (t < reach)]
    share = np.minimum(1.0, 2.0 * width / (np.pi * t))
    number = min(_FIRST, order.size)
    while t.size:
        bound = share * _bound(transform, order[:number], t)
        if number == order.size or bound.sum() <= _NEGLIGIBLE:
            return float(bound.sum())
        large = bound > 0.1 * _NEGLIGIBLE / bound.size
        t, share = t[large], share[large]
        number = min(4 * number, order.size)
    return 0.0


def _spread_out(cells: Cells, whole: NDArray[np.intp]) -> NDArray[np.intp]:
    """Order cells so that the first of them are of all sizes."""
    order = whole[np.argsort(cells.weight[whole])]
    # multiples of the golden ratio, modulo 1, fill the interval evenly
    return order[np.argsort(np.arange(order.size) * 0.5 * (np.sqrt(5.0) - 1.0) % 1.0)]


def _bound(transform: Transform, chosen: NDArray[np.intp], t: FloatArray) -> FloatArray:
    """Mean over the circle of the product over the chosen cells, in units of P(total)."""
    cells = transform.cells
    # nodes enough for a peak with the spread of the chosen counts
    spread = np.sqrt(cells.count[chosen] @ cells.rate[chosen])
    circle = min(transform.circle, int(8.0 * spread) + 64)
    theta = 2.0 * np.pi * np.arange(circle) / circle
    product = np.ones((circle, t.size))
    with np.errstate(under="ignore"):
        for i in chosen:
            cell = cells.cell(int(i))
            value = np.abs(cell.characteristic(t, cell.joint(theta)))
            product *= value ** cells.count[i]
    return np.minimum(1.0, product.mean(axis=0) * transform.circle / transform.scale)
