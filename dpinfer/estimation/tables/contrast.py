"""Estimates of linear functions of one table, and the intervals of cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._interchange import is_foreign
from dpinfer._validation import check_array
from dpinfer.errors import NotEstimableError
from dpinfer.estimation.pivots import ManyErrors, ManyMethod
from dpinfer.estimation.tables._fit import MarginalsFit
from dpinfer.estimation.tables._reading import by_cell
from dpinfer.estimation.tables._schema import Names
from dpinfer.estimation.weights import checked_weights
from dpinfer.results.intervals import Intervals
from dpinfer.results.labels import attach_labels

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, eq=False)
class TableContrast:
    """Estimates of linear functions of a table; made by :meth:`MarginalsEstimate.contrast`.

    Attributes
    ----------
    estimate : float, array of float, shape (k,), or Series
        The estimates.
    std_err : float, array of float, shape (k,), or Series
        Their standard errors due to the noise.
    labels : pandas.Index, optional
        Labels of the functions.
    """

    estimate: Any
    std_err: Any
    labels: pd.Index | None = None
    _errors: ManyErrors

    def conf_int(self, alpha: float = 0.05, method: ManyMethod = "exact") -> Intervals:
        """Confidence intervals for the confidential values of the functions.

        Parameters
        ----------
        alpha, method
            As for :meth:`MarginalsEstimate.conf_int`.

        Returns
        -------
        Intervals
            One interval a function; unpacks as ``lower, upper``.
        """
        estimate = np.asarray(self.estimate)
        number = np.arange(estimate.size).reshape(estimate.shape)
        return self._errors.intervals(estimate, number, alpha, method, self.labels)


def contrast_of(
    fit: MarginalsFit, unit: Any, coefficients: Any, names: Names, *, refuse: bool
) -> TableContrast:
    """Estimate functions of the cells of a marginal of one unit."""
    schema, hierarchy = fit.schema, fit.hierarchy
    at = hierarchy.positions([unit], "unit")
    shape = schema.shape(names)
    if is_foreign(coefficients):
        coefficients = by_cell(coefficients, names, schema, "coefficients")
    if not (hasattr(coefficients, "iloc") or isinstance(coefficients, Mapping)):
        coefficients = check_array(coefficients, "coefficients")
        coefficients = coefficients.ravel() if coefficients.shape == shape else coefficients
    matrix = checked_weights(coefficients, schema.cells(names), prod(shape), "coefficients")
    rows = np.ascontiguousarray(schema.inward(matrix.reshape((-1, *shape)), names))
    place = int(hierarchy.tree.place_of(at)[0])
    estimate, variance = fit.contrast(names, place, rows)
    lost = np.isinf(variance)
    if lost.any():
        if refuse:
            raise NotEstimableError(
                f"the values do not determine function {int(np.argmax(lost))} of the cells of "
                f"{hierarchy.names(at)}"
            )
        estimate[lost] = np.nan
    several = matrix.ndim == 2
    labels = coefficients.index if several and hasattr(coefficients, "iloc") else None
    return TableContrast(
        estimate=attach_labels(estimate if several else estimate[0], labels),
        std_err=attach_labels(np.sqrt(variance if several else variance[0]), labels),
        labels=labels,
        _errors=fit.laws.functions(names, place, rows, np.sqrt(variance)),
    )
