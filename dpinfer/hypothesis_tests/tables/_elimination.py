"""Many small linear systems at once, by elimination along the axis of the systems."""

from __future__ import annotations

import numpy as np

from dpinfer._validation import FloatArray


def solve_loaded(
    diagonal: FloatArray, factor: FloatArray, loads: FloatArray, right: FloatArray
) -> FloatArray:
    """Solve (diag(d) + Σᵢ fᵢ·lᵢ lᵢᵀ)·x = y for m systems of c equations.

    The matrices are positive definite, so that elimination needs no exchange of pivots, and no
    pivot is below its d but by rounding. Where there are fewer loads than equations, Woodbury's
    formula leaves r equations, of the same kind.

    Parameters
    ----------
    diagonal : array of float, shape (c, m)
        d > 0.
    factor : array of float, shape (r, m)
        f >= 0.
    loads : array of float, shape (r, c, m)
        The vectors l.
    right : array of float, shape (c, m)
        y.

    Returns
    -------
    array of float, shape (c, m)
        The solutions x.
    """
    size = len(diagonal)
    if len(factor) < size:
        return _by_loads(1.0 / diagonal, np.sqrt(factor)[:, np.newaxis] * loads, right)
    upper, solved = _upper_half(diagonal, factor, loads), right.copy()
    for j in range(size):
        np.maximum(upper[j, j], diagonal[j], out=upper[j, j])
        ratio = upper[j, j + 1 :] / upper[j, j]
        for k in range(j + 1, size):
            upper[k, k:] -= ratio[k - j - 1] * upper[j, k:]
        solved[j + 1 :] -= ratio * solved[j]
    for j in reversed(range(size)):
        solved[j] -= np.einsum("km,km->m", upper[j, j + 1 :], solved[j + 1 :])
        solved[j] /= upper[j, j]
    return solved


def _by_loads(inverse: FloatArray, loads: FloatArray, right: FloatArray) -> FloatArray:
    """Solve (diag(1/v) + L Lᵀ)·x = y by the equations (1 + Lᵀ diag(v) L)·u = Lᵀ diag(v) y."""
    start = inverse * right
    along = np.einsum("ikm,km->im", loads, start)
    shared = solve_loaded(np.ones(along.shape), inverse, loads.swapaxes(0, 1), along)
    start -= inverse * np.einsum("ikm,im->km", loads, shared)
    return start


def _upper_half(diagonal: FloatArray, factor: FloatArray, loads: FloatArray) -> FloatArray:
    """Return the matrices, shape (c, c, m), of which only the upper half is filled."""
    size = len(diagonal)
    upper = np.empty((size, *diagonal.shape))
    for j in range(size):
        np.einsum("im,ikm->km", factor * loads[:, j], loads[:, j:], out=upper[j, j:])
        upper[j, j] += diagonal[j]
    return upper
