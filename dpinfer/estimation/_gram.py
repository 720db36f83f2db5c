"""Sparse least squares by the normal equations, which say where they are not accurate enough.

In units in which every value has variance 1 and every column of A length 1, the equations are
G z = Aᵀy, with G = AᵀA of unit diagonal. Where every unknown is also a value by itself, the share
of that in its column bounds the eigenvalues of G below; conjugate gradients then need few steps,
and their error is bounded. Otherwise, and for standard errors, G is factorised; or, where there
are fewer other values than unknowns, the matrix over those that its inverse follows from.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, eye_array, vstack

from dpinfer._check import FloatArray
from dpinfer.errors import ConvergenceError
from dpinfer.estimation._factors import DefiniteFactors, SelectedInverse
from dpinfer.queries.workload import lone_entries

MOST_PAIRS = 2e7  # products of entries of a row from which a Gram matrix is added up
_LEAST_SHARE = 0.01  # of a value in its column, so that conjugate gradients are quick
_STEPS = 300
_FAIR = 1e-6  # error of solutions by iteration, relative to their length
_MOST_STEPS = 5e10  # numbers gone through by other iterations, which takes a minute
_EASY = 2e4  # entries of a matrix that is factorised sooner than it is used often
_NARROW = 100  # squared reaches of values for each entry, up to which factors are quicker
_FAR = 1e5  # standard deviations by which values may contradict one another for that
_ACCURATE = 1e-13  # error of a solution, relative to its length
_SMALL = 1e-11  # change of a solution after which the next one is rounding
_REFINEMENTS = 6
_SOUND = 1e-8  # error of a solution that is not refined, by which the next one is smaller; those
# of standard errors were up to four times as large
_SURE = 1e-12  # such an error with which standard errors have ten digits, as seen
_FEW = 2000  # unknowns that are solved for one by one where that is surer
_LOST = 1e-4  # share of a variance that subtraction may leave
_SEED = 20190729  # any fixed number

Solve = Callable[[FloatArray], FloatArray]


class GramSystem:
    """The normal equations of a sparse A (m × r), whose values have variances > 0.

    Solutions are refined with A itself; what cannot be is refused by a `ConvergenceError`.
    """

    def __init__(self, matrix: Any, variance: FloatArray) -> None:
        self._std = np.sqrt(variance)
        length = matrix.indptr[1:] - matrix.indptr[:-1]
        data = matrix.data / np.repeat(self._std, length)
        size = np.bincount(matrix.indices, np.square(data), minlength=matrix.shape[1])
        if not size.all():
            raise ConvergenceError("the normal equations of the workload are singular")
        self.scale = 1.0 / np.sqrt(size)
        data *= self.scale[matrix.indices]
        self._rows = copy(matrix)  # of the same pattern, which is not checked again
        self._rows.data = data
        self._columns = self._rows.T.tocsr()
        self._alone = length == 1
        self._along = float(np.square(length, dtype=np.float64).sum())  # about the entries of G

    @cached_property
    def _own(self) -> FloatArray:
        """The squares of values that are unknowns by themselves, of a column of length 1 each."""
        at, size = lone_entries(self._rows), len(self.scale)
        own = np.bincount(self._rows.indices[at], np.square(self._rows.data[at]), minlength=size)
        return own.astype(np.float64, copy=False)

    @cached_property
    def _least(self) -> float:
        return float(self._own.min())

    @cached_property
    def _across(self) -> float:
        """About the entries of the matrix over the other values."""
        alone = self._rows.indices[lone_entries(self._rows)]
        count = np.diff(self._columns.indptr) - np.bincount(alone, minlength=len(self.scale))
        return float(count @ count)

    @cached_property
    def _is_easy(self) -> bool:
        return self._along <= _EASY or self._across <= _EASY or self._is_narrow()

    def _is_narrow(self) -> bool:
        """Whether values reach back so little from each unknown that factors are narrow."""
        first = np.zeros(self._rows.shape[0], dtype=np.intp)
        filled = np.diff(self._rows.indptr) > 0
        first[filled] = self._rows.indices[self._rows.indptr[:-1][filled]]
        back = np.minimum.reduceat(first[self._columns.indices], self._columns.indptr[:-1])
        reach = np.arange(len(back), dtype=np.float64) - back
        return bool(reach @ reach <= _NARROW * self._rows.nnz)

    def coefficients(self, values: FloatArray) -> FloatArray:
        """Return the least-squares solutions for values (m,) or (m × k)."""
        scale, std = (self.scale, self._std) if values.ndim == 1 else self._as_columns()
        scaled = values / std
        left, start = scaled, np.zeros((len(self.scale), *values.shape[1:]))
        if self.is_quick:  # from the values that are unknowns: what is left over is noise
            own = self._own if values.ndim == 1 else self._own[:, np.newaxis]
            alone = scaled * (self._alone if values.ndim == 1 else self._alone[:, np.newaxis])
            start = (self._columns @ alone) / own
            left = scaled - self._rows @ start
        left = self._columns @ left
        return scale * self._solved(
            start, left, lambda z: self._columns @ (scaled - self._rows @ z)
        )

    def iterated(self, values: FloatArray, tolerance: float) -> tuple[FloatArray, float]:
        """Return the solutions for values (m,) or (m × k) by lsmr, and a bound on their error.

        The bound is relative to their length, in units in which columns have length 1.
        """
        from scipy.sparse.linalg import lsmr

        if values.ndim > 1:
            found = [self.iterated(one, tolerance) for one in values.T]
            return np.stack([one for one, _ in found], axis=1), max(off for _, off in found)
        steps = int(max(1000.0, _MOST_STEPS / self._rows.nnz))
        settings = {"atol": tolerance, "btol": tolerance, "conlim": 0.0, "maxiter": steps}
        scaled = values / self._std
        z = lsmr(self._rows, scaled, **settings)[0]
        left, size = _lengths(self._columns @ (scaled - self._rows @ z)), _lengths(z)
        off = float(left / (self._least * np.where(size > 0, size, 1.0)))
        if not off <= _FAIR:
            raise ConvergenceError(
                "the least-squares equations are too large for factors, and iteration solves them "
                f"to a relative error of {off:.1e} only, {_FAIR:g} is required: the workload is "
                "too close to one of lower rank, or its variances differ too much"
            )
        return np.asarray(self.scale * z), off

    def weights(self, target: FloatArray) -> FloatArray:
        """Return the weights (k × m) of the values in the solutions for targets (k × r)."""
        scale, std = self._as_columns()
        right = scale * target.T
        z = self._solved(
            np.zeros_like(right), right, lambda z: right - self._columns @ (self._rows @ z)
        )
        return np.asarray((self._rows @ z / std).T)

    def variances(self, target: Any, rows: NDArray[np.intp] | None) -> FloatArray:
        """Return the variances of the solutions for sparse targets, NaN where they are not found.

        ``rows`` are the values whose rows they are, -1 for others.
        """
        if self._gap > _SURE and len(self.scale) <= _FEW:
            return np.full(target.shape[0], np.nan)
        return self._factors.variances(self._scaled(target), rows)

    @property
    def effort(self) -> float:
        """Numbers gone through for one solution, about."""
        return 80.0 * self._rows.nnz if self.is_quick else 2.0 * self._factors.filled

    def _as_columns(self) -> tuple[FloatArray, FloatArray]:
        return self.scale[:, np.newaxis], self._std[:, np.newaxis]

    def _scaled(self, target: Any) -> Any:
        found = csr_array(target, copy=True)
        found.data *= self.scale[found.indices]
        return found

    @property
    def is_sound(self) -> bool:
        """Whether the equations have a unique solution, as their factors show."""
        try:
            return self._gap <= _SOUND
        except ConvergenceError:
            return False

    @cached_property
    def _factors(self) -> GramFactors | OtherValues:
        if self._along > MOST_PAIRS and self._across > MOST_PAIRS:
            raise ConvergenceError("the normal equations of the workload are dense")
        others = int(np.count_nonzero(~self._alone))
        few = _EASY < self._along > self._across and 0 < 2 * others < len(self.scale)
        if few and self._least > _LOST:
            return OtherValues(self._rows, self._alone, self._own, np.square(self._std))
        return GramFactors(self._columns @ self._rows)

    @cached_property
    def _gap(self) -> float:
        """The relative error of a solution by the factors alone, which is `_SOUND` at most."""
        truth = np.sin(_SEED * np.arange(1.0, len(self.scale) + 1.0))  # of no regular pattern
        off = np.abs(self._factors.solve(self._columns @ (self._rows @ truth)) - truth).max()
        gap = float(off / np.abs(truth).max())
        if not gap <= _SOUND:
            raise ConvergenceError("the normal equations of the workload are too near singular")
        return gap

    @property
    def is_quick(self) -> bool:
        """Whether conjugate gradients take no longer than factors, which are not there."""
        factors = self._is_easy or "_factors" in self.__dict__
        return not factors and self._least >= _LEAST_SHARE

    def _solved(self, z: FloatArray, left: FloatArray, residual: Solve) -> FloatArray:
        """Return the z at which the residual, right side less G z, is zero but for rounding.

        ``left`` is the residual at the ``z`` to begin with.
        """
        if self.is_quick:
            change = self._descend(left, np.maximum(_lengths(z), _lengths(left)))
            z = z + change
            bound = _lengths(residual(z)) / self._least
            if (_lengths(change) <= _FAR).all() and (bound <= _ACCURATE * _lengths(z)).all():
                return z
            left = residual(z)
        before = np.inf
        for _ in range(_REFINEMENTS):
            change = self._factors.solve(left)
            z = z + change
            size = _lengths(z)
            gap = (_lengths(change) / (size + (size == 0))).max()
            if gap <= _SMALL and before < np.inf:  # the next change is smaller by that factor
                return z
            if not gap < before / 4:
                break
            before, left = gap, residual(z)
        raise ConvergenceError("the normal equations of the workload could not be refined")

    def _descend(self, right: FloatArray, size: Any) -> FloatArray:
        """Solve G z = right by conjugate gradients, accurately for solutions of such lengths.

        The error is at most the length of what is left over, divided by the least share.
        """
        dot = np.dot if right.ndim == 1 else partial(np.einsum, "ij,ij->j")
        z, left, step = np.zeros_like(right), right.copy(), right.copy()
        square = dot(left, left)
        goal = np.square(0.3 * _ACCURATE * self._least * size)
        for _ in range(_STEPS):
            if np.all(square <= goal):
                break
            along = self._rows @ step
            power = dot(along, along)
            move = square / np.where(power > 0, power, 1.0)
            z += move * step
            left -= move * (self._columns @ along)
            before, square = square, dot(left, left)
            step *= square / np.where(before > 0, before, 1.0)
            step += left
        return z


class GramFactors:
    """The factors of G itself."""

    def __init__(self, gram: Any) -> None:
        self._factors = DefiniteFactors(gram)
        self.filled, self.solve = self._factors.filled, self._factors.solve

    def variances(self, target: Any, rows: NDArray[np.intp] | None = None) -> FloatArray:
        """Return t G⁻¹ tᵀ of sparse rows, NaN where that needs more than selected entries."""
        inverse, place = self._selected
        at = place[target.indices]
        return inverse.forms(csr_array((target.data, at, target.indptr), shape=target.shape))

    @cached_property
    def _selected(self) -> tuple[SelectedInverse, NDArray[np.intp]]:
        lower, place = self._factors.lower()
        return SelectedInverse(lower), place


class OtherValues:
    """The inverse of G = D + UᵀU, U the values that are no unknowns, by K = 1 + U D⁻¹ Uᵀ.

    G⁻¹ = D⁻¹ - D⁻¹UᵀK⁻¹U D⁻¹, and U G⁻¹Uᵀ = 1 - K⁻¹.
    """

    def __init__(
        self, rows: Any, alone: NDArray[np.bool_], own: FloatArray, variance: FloatArray
    ) -> None:
        self._own, self._others, self._variance = own, rows[~alone], variance[~alone]
        self._number = np.where(alone, -1, np.cumsum(~alone) - 1)
        self._beside = (diags_array(1.0 / own) @ self._others.T).tocsr()  # D⁻¹Uᵀ
        kernel = eye_array(self._others.shape[0]) + self._others @ self._beside
        self._scale = 1.0 / np.sqrt(kernel.diagonal())
        scale = diags_array(self._scale)
        self._kernel = GramFactors((scale @ kernel @ scale).tocsr())
        self.filled = self._kernel.filled

    def solve(self, right: FloatArray) -> FloatArray:
        """Return G⁻¹ times right sides."""
        one = right.ndim == 1
        own, scale = (self._own, self._scale) if one else (self._own[:, None], self._scale[:, None])
        start = right / own
        inner = scale * self._kernel.solve(scale * (self._others @ start))
        return np.asarray(start - self._beside @ inner)

    def variances(self, target: Any, rows: NDArray[np.intp] | None) -> FloatArray:
        """Return the variances of targets, NaN also where subtraction would cost digits."""
        found = np.full(target.shape[0], np.nan)
        number = np.full(len(found), -1) if rows is None else self._number[rows]
        if rows is not None:
            number[rows < 0] = -1
        known = np.flatnonzero(number >= 0)
        single = np.flatnonzero((number < 0) & (np.diff(target.indptr) <= 1))
        if not len(known) + len(single):
            return found
        scale = self._scale[number[known]]
        shape = (len(known), len(self._scale))
        unit = csr_array((scale, number[known], np.arange(len(known) + 1)), shape=shape)
        part = target[single]
        inner = part @ self._beside
        inner.data *= self._scale[inner.indices]
        less = self._kernel.variances(csr_array(vstack([unit, inner], format="csr")))
        start = np.asarray((part * part) @ (1.0 / self._own))
        both = _subtracted(np.concatenate([np.ones(len(known)), start]), less)
        found[known] = both[: len(known)] * self._variance[number[known]]
        found[single] = both[len(known) :]
        return found


def _subtracted(start: FloatArray, less: FloatArray) -> FloatArray:
    found = start - less
    return np.where(found >= _LOST * start, found, np.nan)


def _lengths(columns: FloatArray) -> Any:
    """Return the length of each column, a number for a vector."""
    return np.sqrt(np.einsum("i...,i...->...", columns, columns))
