"""Weighted least squares for workloads of full column rank, each kind by its own algorithm.

Every solver answers the same three questions about y = A z + e with Var(e) = diag(v): the best
linear unbiased estimate of z, the weights by which targets T z combine the values y, and
the standard errors of the targets. Values with variance zero are constraints.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.errors import ConvergenceError, InvalidParameterError
from dpinfer.estimation.augmented import AugmentedSystem
from dpinfer.estimation.design import (
    DENSE_LIMIT,
    DENSE_SIZE,
    OVERFLOW,
    Matrix,
    as_dense,
    independent_rows,
)

_S = TypeVar("_S")
_T = TypeVar("_T")

BLOCK = 256
"""Targets whose weights are formed together."""


_FILLED = 0.05
_FILLED_LIMIT = 5000
"""A matrix with a larger share of nonzero entries has no sparse factors; the limit is higher."""

_MOST_SOLVING = 1e11
"""Numbers of factors gone through for standard errors, in about three minutes."""

_STIFF = 1e4
"""Rows whose sizes differ by more than this need column pivoting, which takes longer."""


class Solver(Protocol):
    """What a solver for (A, v) answers."""

    def coefficients(self, values: FloatArray) -> FloatArray:
        """Return the best linear unbiased estimates of z for values (m,) or (m × k)."""

    def weights(self, target: Matrix) -> FloatArray:
        """Return the weights (k × m) of the values in the best estimates of targets (k × r)."""

    def std_errors(self, target: Matrix) -> FloatArray:
        """Return the standard errors of the best estimates of targets (k × r)."""


def _in_range(solve: Callable[[_S, _T], FloatArray]) -> Callable[[_S, _T], FloatArray]:
    """Refuse numbers that leave the range of float64."""

    @wraps(solve)
    def checked(solver: _S, argument: _T) -> FloatArray:
        with np.errstate(all="ignore"):  # what overflows is refused here
            try:
                found = solve(solver, argument)
            except np.linalg.LinAlgError as error:
                raise ConvergenceError(OVERFLOW) from error
        if not np.isfinite(found).all():
            raise ConvergenceError(OVERFLOW)
        return found

    return checked


def find_solver(matrix: Matrix, variance: FloatArray) -> Solver:
    """Return a solver for a matrix (m × r) of full column rank."""
    rows, columns = matrix.shape
    filled = matrix.size if isinstance(matrix, np.ndarray) else matrix.nnz
    limit = DENSE_LIMIT if filled < _FILLED * rows * columns else _FILLED_LIMIT
    if columns <= limit and rows * columns <= DENSE_SIZE:
        return DenseSolver(as_dense(matrix), variance)
    from scipy.sparse import csr_array

    return SparseSolver(csr_array(matrix), variance)


class IdentitySolver:
    """Every cell is a published value of its own: nothing to combine, no matrix needed."""

    def __init__(self, variance: FloatArray) -> None:
        self._variance = variance

    def coefficients(self, values: FloatArray) -> FloatArray:
        """Return the values."""
        return values

    def weights(self, target: Matrix) -> Any:
        """Return the targets, sparse ones as they are."""
        return target

    @_in_range
    def std_errors(self, target: Matrix) -> FloatArray:
        """Return the standard errors of the best estimates of targets."""
        squares = target * target  # by entries: the matrices are arrays, sparse or not
        return np.asarray(np.sqrt(squares @ self._variance))


class DenseSolver:
    """Orthogonal factorisation, accurate also where variances differ by many orders of magnitude.

    Constraints are eliminated first; then the rows, scaled to unit variance and sorted by size,
    are factorised by Householder QR, with column pivoting where their sizes differ much: that is
    backward stable row by row (Cox and Higham 1998, doi:10.1137/S0895479896310147). No variance
    is found by subtraction.
    """

    def __init__(self, matrix: FloatArray, variance: FloatArray) -> None:
        from scipy.linalg import qr

        exact = np.flatnonzero(variance == 0)
        self._noisy = np.flatnonzero(variance > 0)
        self._size = len(variance)
        self._fixed, self._free, self._lift = _eliminate(matrix, exact)
        reduced = matrix[self._noisy] @ self._free
        scaled = reduced / np.sqrt(variance[self._noisy])[:, None]
        size = np.abs(scaled).max(axis=1, initial=0.0)
        order = np.argsort(-size, kind="stable")
        self._noisy = self._noisy[order]
        self._std = np.sqrt(variance[self._noisy])
        self._rows = matrix[self._noisy]
        self._order = np.arange(scaled.shape[1])
        stiff = size.max(initial=0.0) > _STIFF * size[size > 0].min(initial=np.inf)
        self._q, self._r, *pivots = qr(
            scaled[order], mode="economic", pivoting=stiff, check_finite=False
        )
        if len(self._r) < len(self._order):
            raise ConvergenceError(
                "the least-squares equations have no unique solution: the workload, or the part of "
                "it that was published without noise, is too close to one of lower rank"
            )
        if stiff:
            self._order = pivots[0]

    @_in_range
    def coefficients(self, values: FloatArray) -> FloatArray:
        """Return the best linear unbiased estimates of z."""
        start = self._lift @ values[self._fixed]
        rest = values[self._noisy] - self._rows @ start
        std = self._std if values.ndim == 1 else self._std[:, None]
        solution = np.empty((len(self._order), *values.shape[1:]))
        solution[self._order] = self._backward(self._q.T @ (rest / std))
        return np.asarray(start + self._free @ solution)

    @_in_range
    def weights(self, target: Matrix) -> FloatArray:
        """Return the weights of the values in the best estimates of targets."""
        rows = as_dense(target)
        noisy = (self._forward(rows) @ self._q.T) / self._std
        out = np.zeros((len(rows), self._size))
        out[:, self._noisy] = noisy
        out[:, self._fixed] = (rows - noisy @ self._rows) @ self._lift
        return out

    @_in_range
    def std_errors(self, target: Matrix) -> FloatArray:
        """Return the standard errors of the best estimates of targets."""
        return np.asarray(np.sqrt(np.square(self._forward(as_dense(target))).sum(axis=1)))

    def _forward(self, target: FloatArray) -> FloatArray:
        """Targets in units of the orthogonal factor: T N Π R⁻¹."""
        from scipy.linalg import solve_triangular

        moved = (target @ self._free)[:, self._order]
        return np.asarray(solve_triangular(self._r, moved.T, trans="T", check_finite=False).T)

    def _backward(self, rotated: FloatArray) -> FloatArray:
        from scipy.linalg import solve_triangular

        return np.asarray(solve_triangular(self._r, rotated, check_finite=False))


def _eliminate(matrix: FloatArray, exact: Any) -> tuple[Any, FloatArray, FloatArray]:
    """Write z = lift·y_fixed + free·w, which meets the constraints for every w.

    Returns the constraints that are used (the others repeat them), ``free`` and ``lift``. Gaussian
    elimination does it without rounding where the coefficients are 0 and ±1, so that coefficients
    that cancel are zero, whatever they are weighted with.
    """
    from scipy.linalg import lu, solve_triangular

    unknowns = matrix.shape[1]
    fixed = exact[independent_rows(matrix[exact])] if len(exact) else exact
    if not len(fixed):
        return fixed, np.eye(unknowns), np.zeros((unknowns, 0))
    order, lower, upper = lu(matrix[fixed].T, p_indices=True, check_finite=False)
    order = np.argsort(order)  # SciPy gives the inverse: lower @ upper in the order of the rows
    bound, loose = order[: len(fixed)], order[len(fixed) :]
    triangle, rest = lower[: len(fixed)], lower[len(fixed) :]
    lower_unit = {"lower": True, "trans": "T", "unit_diagonal": True, "check_finite": False}
    free = np.zeros((unknowns, len(loose)))
    free[bound] = -solve_triangular(triangle, rest.T, **lower_unit)
    free[loose, np.arange(len(loose))] = 1.0
    lift = np.zeros((unknowns, len(fixed)))
    inverse = solve_triangular(upper, np.eye(len(fixed)), trans="T", check_finite=False)
    lift[bound] = solve_triangular(triangle, inverse, **lower_unit)
    return fixed, free, lift


class SparseSolver:
    """LU of the sparse augmented system; weights by solves in blocks, never an inverse."""

    def __init__(self, matrix: Any, variance: FloatArray) -> None:
        exact = np.flatnonzero(variance == 0)
        used = np.ones(len(variance), dtype=bool)
        if len(exact):
            used[exact] = False
            used[exact[independent_rows(matrix[exact])]] = True
        self._used = np.flatnonzero(used)
        self._size = len(variance)
        self._std = np.sqrt(variance)
        self._unknowns = matrix.shape[1]
        self._system = AugmentedSystem(matrix[self._used], variance[self._used])

    @_in_range
    def coefficients(self, values: FloatArray) -> FloatArray:
        """Return the best linear unbiased estimates of z."""
        zeros = np.zeros((self._unknowns, *values.shape[1:]))
        return self._system.solve(values[self._used], zeros)[1]

    @_in_range
    def weights(self, target: Matrix) -> FloatArray:
        """Return the weights of the values in the best estimates of targets."""
        right = as_dense(target).T
        out = np.zeros((right.shape[1], self._size))
        out[:, self._used] = self._system.solve(np.zeros((len(self._used), right.shape[1])), right)[
            0
        ].T
        return out

    @_in_range
    def std_errors(self, target: Matrix) -> FloatArray:
        """Return the standard errors of the best estimates of targets."""
        if (work := float(target.shape[0]) * self._system.filled) > _MOST_SOLVING:
            raise InvalidParameterError(
                f"target must be fewer linear functions: the standard errors of all "
                f"{target.shape[0]} take a solution each with {self._system.filled} numbers, about "
                f"{work / _MOST_SOLVING * 3:.0f} minutes in all; name those that are needed"
            )
        blocks = (target[start : start + BLOCK] for start in range(0, target.shape[0], BLOCK))
        errors = [np.sqrt(np.square(self.weights(t) * self._std).sum(axis=1)) for t in blocks]
        return np.concatenate(errors)
