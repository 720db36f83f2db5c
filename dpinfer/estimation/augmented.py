"""Sparse least squares with constraints, by LU of the augmented system."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.errors import ConvergenceError

if TYPE_CHECKING:
    from scipy import sparse

_TOLERANCE = 1e-9
_ROUNDING = 1e-13
_BLOCK = 16  # right sides solved together: more of them do not fit into the cache
_REFINEMENTS = 6


class AugmentedSystem:
    """The equations [V A; Aᵀ 0] [g; h] = [p; q] for a sparse A (m × r) of full column rank.

    V is the diagonal of ``variance``; rows with variance zero are constraints and must be linearly
    independent. With p = y and q = 0, h is the least-squares solution; with p = 0 and q a target,
    g holds its weights (Björck 1996, Numerical Methods for Least Squares Problems, §1.1.4 and
    §5.1.2, doi:10.1137/1.9781611971484). Unlike the normal equations it stays sparse when a
    row, such as a total, is dense.

    Raises
    ------
    ConvergenceError
        If the system is singular, or its solution cannot be refined to a relative residual of
        1e-9.
    """

    def __init__(self, matrix: sparse.csr_array, variance: FloatArray) -> None:
        from scipy.sparse import block_array, csc_array, diags_array
        from scipy.sparse.linalg import splu

        self._rows, self._columns = _scales(matrix, variance)
        scaled = diags_array(self._rows) @ matrix @ diags_array(self._columns)
        noisy = diags_array((variance > 0).astype(np.float64))
        self._system = csc_array(block_array([[noisy, scaled], [scaled.T, None]], format="csc"))
        try:
            self._factors = splu(self._system, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.1)
        except RuntimeError as error:
            raise ConvergenceError(
                f"the normal equations of the workload ({matrix.shape[0]} values, "
                f"{matrix.shape[1]} unknowns) are singular: {error}"
            ) from error

    def solve(self, top: FloatArray, bottom: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return g and h for right sides p (m or m × k) and q (r or r × k)."""
        if top.ndim == 1:
            g, h = self.solve(top[:, None], bottom[:, None])
            return g[:, 0], h[:, 0]
        g, h = np.empty_like(top), np.empty_like(bottom)
        rows, columns = self._rows[:, None], self._columns[:, None]
        for start in range(0, top.shape[1], _BLOCK):
            part = slice(start, start + _BLOCK)
            right = np.concatenate([rows * top[:, part], columns * bottom[:, part]])
            upper, lower = np.split(self._refine(np.asfortranarray(right)), [len(rows)])
            g[:, part], h[:, part] = rows * upper, columns * lower
        return g, h

    def _refine(self, right: FloatArray) -> FloatArray:
        """Solve with iterative refinement until the residual is as small as rounding allows."""
        solution = np.asarray(self._factors.solve(right))
        size = np.abs(right).max(axis=0, initial=0.0)
        best, best_error = solution, np.inf
        for _ in range(_REFINEMENTS):
            residual = right - self._system @ solution
            with np.errstate(invalid="ignore"):
                error = float(np.max(np.abs(residual).max(axis=0) / np.where(size > 0, size, 1.0)))
            if not error < best_error / 2:
                break
            best, best_error = solution, error
            if error <= _ROUNDING:
                break
            solution = solution + self._factors.solve(residual)
        if not best_error <= _TOLERANCE:
            raise ConvergenceError(
                f"the least-squares equations could be solved to a relative residual of "
                f"{best_error:.1e} only, {_TOLERANCE:g} is required: the workload is too close to "
                f"one of lower rank, or its variances differ too much"
            )
        return best


def _scales(matrix: sparse.csr_array, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scales of the rows and the unknowns that give noisy rows unit variance, and unit columns."""
    from scipy.sparse import diags_array

    noisy = variance > 0
    rows = 1.0 / np.sqrt(np.where(noisy, variance, 1.0))
    squares = matrix * matrix
    size = squares.T @ np.where(noisy, np.square(rows), 0.0)
    alone = squares.T @ np.ones(len(variance))  # for unknowns in no noisy row
    columns = 1.0 / np.sqrt(np.where(size > 0, size, np.where(alone > 0, alone, 1.0)))
    length = np.sqrt((squares @ diags_array(np.square(columns))) @ np.ones(len(columns)))
    return np.where(noisy, rows, 1.0 / np.where(length > 0, length, 1.0)), columns
