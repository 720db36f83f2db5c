"""Ends of very many intervals of one setting, interpolated between whole numbers.

For continuous noise the end of an interval is a smooth function of the published count between
whole numbers, where the density of Laplace noise has its kinks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray

WORTH = 40
"""So many points in a piece are worth a polynomial."""

_NODES = 14

_PARTS = 4
"""Into so many parts a piece is cut where its polynomial is not accurate."""

_BLOCK = 1 << 14
"""Points evaluated at a time, so that their coefficients stay in the cache."""

Ends = Callable[[FloatArray], FloatArray]
Pieces = NDArray[np.intp]


def interpolated(ends: Ends, tolerance: Ends, x: FloatArray, low: float, high: float) -> FloatArray:
    """Values of a function at many points between ``low`` and ``high``.

    Parameters
    ----------
    ends : callable
        The function, smooth between ``low``, the whole numbers, and ``high``.
    tolerance : callable
        The largest error allowed, from the value of the function.
    x : array of float, shape (m,)
        The points.

    Returns
    -------
    array of float, shape (m,)
        The values. Where polynomials between whole numbers are not accurate enough, they are cut
        in parts; where there are too few points for that, the function is evaluated at each.
    """
    left, piece = np.unique(np.maximum(np.floor(x), low), return_inverse=True)
    right = np.minimum(np.floor(left) + 1.0, high)
    out = np.empty(x.size)
    rows = np.arange(x.size)
    while rows.size > WORTH * left.size:
        values, good = _polynomials(ends, tolerance, left, right, piece, x[rows])
        accurate = good[piece]
        out[rows[accurate]] = values[accurate]
        rows, piece = rows[~accurate], piece[~accurate]
        left, right, piece = _cut(left, right, piece, x[rows])
    if rows.size:
        out[rows] = ends(x[rows])
    return out


def _polynomials(
    ends: Ends,
    tolerance: Ends,
    left: FloatArray,
    right: FloatArray,
    piece: Pieces,
    x: FloatArray,
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Values at points of known pieces, and which of the pieces are accurate."""
    nodes = np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)
    # between nodes, where the error of an interpolation is near its largest
    checks = np.cos(np.pi * np.array([1.0, _NODES // 2, _NODES - 1.0]) / _NODES)
    to_coefficients = np.linalg.inv(np.polynomial.chebyshev.chebvander(nodes, _NODES - 1))
    coefficients = _at(ends, left, right, nodes) @ to_coefficients.T
    truth = _at(ends, left, right, checks)
    guess = np.stack([np.polynomial.chebyshev.chebval(y, coefficients.T) for y in checks], axis=1)
    y = np.clip((2.0 * x - (left + right)[piece]) / (right - left)[piece], -1.0, 1.0)
    wrong = np.abs(guess - truth) - tolerance(truth)
    return _clenshaw(coefficients, piece, y), np.asarray(np.max(wrong, axis=1) <= 0.0)


def _cut(
    left: FloatArray, right: FloatArray, piece: Pieces, x: FloatArray
) -> tuple[FloatArray, FloatArray, Pieces]:
    """Parts of the pieces that still have points, and the part of each point."""
    width = (right - left) / _PARTS
    part = np.clip(np.floor((x - left[piece]) / width[piece]), 0.0, _PARTS - 1.0).astype(np.intp)
    found, number = np.unique(piece * _PARTS + part, return_inverse=True)
    parent, place = np.divmod(found, _PARTS)
    start = left[parent] + place * width[parent]
    return start, start + width[parent], number


def _at(ends: Ends, left: FloatArray, right: FloatArray, nodes: FloatArray) -> FloatArray:
    """Values at points of each piece that are given on [-1, 1], one row a piece."""
    half = 0.5 * (right - left)[:, np.newaxis]
    x = left[:, np.newaxis] + half * (1.0 + nodes)
    return ends(x.ravel()).reshape(x.shape)


def _clenshaw(coefficients: FloatArray, piece: Pieces, y: FloatArray) -> FloatArray:
    """Evaluate at each point the polynomial of its piece."""
    out = np.empty(y.size)
    for start in range(0, y.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        own = coefficients.T[:, piece[part]]
        out[part] = np.polynomial.chebyshev.chebval(y[part], own, tensor=False)
    return out
