"""Measured queries given by matrices, and the variances that follow for their targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray, Neighbours, check_array
from dpinfer.errors import NotEstimableError
from dpinfer.estimation.design import DENSE_LIMIT, DENSE_SIZE, Design, as_dense, find_design
from dpinfer.estimation.solvers import find_solver
from dpinfer.estimation.targets import Targets, find_targets
from dpinfer.queries import Workload, l1_sensitivity, l2_sensitivity
from dpinfer.spending._marginals import Objective

if TYPE_CHECKING:
    import pandas as pd

_STIFF = 1e-10
"""Reciprocal condition number below which the normal equations are not used."""


@dataclass(frozen=True)
class MatrixMeasurements:
    """Groups of queries given by matrices."""

    names: list[str]
    labels: pd.Index | None
    cells: FloatArray
    _groups: list[Workload]
    _group: NDArray[np.intp]
    _matrix: Any
    _targets: Targets

    @classmethod
    def of(cls, groups: list[Workload], names: list[str], target: Any) -> MatrixMeasurements:
        """Stack the groups, and read the targets."""
        stacked = Workload.vstack(groups)
        if target is None:
            published = np.arange(len(stacked))
            targets = Targets(stacked.matrix, stacked.labels, published)
        else:
            targets = find_targets(target, stacked)
        group = np.repeat(np.arange(len(groups)), [len(one) for one in groups])
        cells = np.ones(len(targets))
        return cls(names, targets.labels, cells, groups, group, stacked.matrix, targets)

    def sensitivities(self, order: int, neighbours: Neighbours) -> FloatArray:
        """Return the sensitivity of each group."""
        norm = (l1_sensitivity, l2_sensitivity)[order - 1]
        return np.array([norm(one, neighbours) for one in self._groups])

    def variances(self, precision: FloatArray) -> FloatArray:
        """Return the variances of the targets."""
        weights, variance, _ = self._weights(precision)
        return np.asarray(np.square(weights) @ variance)

    def objective(self, weights: FloatArray) -> Objective:
        """Return Σ weight·variance as a function of the precision of each group.

        It is tr(M⁻¹ TᵀWT) with M = Σ p AᵀA, whose inverse is fast. Where M is too large, known
        without noise or close to singular, the variance Σ w²v of a best estimate with weights w
        serves, which moves with v as if they were fixed.
        """
        by_normal = self._normal_equations(weights)

        def value(precision: FloatArray) -> tuple[float, FloatArray]:
            found = None if np.isinf(precision).any() else by_normal(precision)
            if found is not None:
                return found
            own, variance, rows = self._weights(precision)
            each = weights @ np.square(own)
            loss = each * np.square(variance)
            slope = -np.bincount(self._group[rows], loss, minlength=len(precision))
            return float(each @ variance), slope.astype(np.float64)

        return value

    def _normal_equations(
        self, weights: FloatArray
    ) -> Callable[[FloatArray], tuple[float, FloatArray] | None]:
        """Return the objective by the normal equations, or None where they do not serve."""
        from scipy.linalg import lapack

        everything = np.arange(self._matrix.shape[0])
        design = self._design(everything)
        groups = int(self._group[-1]) + 1
        if design.rank > DENSE_LIMIT or groups * design.rank**2 > DENSE_SIZE:
            return lambda precision: None
        parts = [as_dense(design.matrix[self._group == group]) for group in range(groups)]
        targets = as_dense(design.coordinates(self._targets.matrix))
        with np.errstate(over="ignore", invalid="ignore"):
            grams = np.stack([part.T @ part for part in parts])
            wanted = check_array((targets.T * weights) @ targets, "the squares of the targets")
        if not np.isfinite(grams).all():
            return lambda precision: None

        def value(precision: FloatArray) -> tuple[float, FloatArray] | None:
            matrix = np.tensordot(precision, grams, 1)
            size = np.sqrt(matrix.diagonal())
            if not (size > 0).all():
                return None
            scaled = matrix / size / size[:, None]
            factor, failed = lapack.dpotrf(scaled, lower=1)
            if failed or lapack.dpocon(factor, 1.0 * np.abs(scaled).sum(axis=0).max())[0] < _STIFF:
                return None
            inverse = lapack.dpotri(factor, lower=1)[0]
            inverse = np.tril(inverse) + np.tril(inverse, -1).T
            inverse = inverse / size / size[:, None]
            change = inverse @ wanted @ inverse
            return float(np.sum(inverse * wanted)), -np.tensordot(grams, change, 2)

        return value

    def _weights(self, precision: FloatArray) -> tuple[FloatArray, FloatArray, NDArray[np.intp]]:
        """Return the weights of the measured rows, their variances, and which rows they are."""
        row_precision = precision[self._group]
        rows = np.flatnonzero(row_precision > 0)
        design = self._design(rows)
        variance = 1.0 / row_precision[rows]
        solver = find_solver(design.matrix, variance)
        return solver.weights(design.coordinates(self._targets.matrix)), variance, rows

    def _design(self, rows: NDArray[np.intp]) -> Design:
        if not len(rows):
            raise NotEstimableError("shares must measure something, got none above 0")
        design = find_design(self._matrix[rows])
        self._targets.refuse(~design.estimable(self._targets.matrix))
        return design
