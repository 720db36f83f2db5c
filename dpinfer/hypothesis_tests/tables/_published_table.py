"""A published contingency table with the null hypothesis about it, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._validation import FloatArray, check_array, check_integer_array, check_length
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import LARGEST_NOBS, unlabelled
from dpinfer.hypothesis_tests.tables._checks import (
    LARGEST,
    check_channel,
    check_nobs,
    check_noise,
    check_reports,
    check_sums,
)
from dpinfer.hypothesis_tests.tables._fitted_tables import TableModel, split_channel
from dpinfer.hypothesis_tests.tables._margins import ProductMargins
from dpinfer.hypothesis_tests.tables._noise_form import NoiseForm
from dpinfer.hypothesis_tests.tables._row_margins import RowMargins
from dpinfer.mechanisms._shared import refuse_dependent
from dpinfer.mechanisms.exact import Exact
from dpinfer.mechanisms.randomized_response import RandomizedResponse

if TYPE_CHECKING:
    import pandas as pd

_INDEPENDENCE = "Independence in a contingency table"


@dataclass(frozen=True)
class PublishedTable:
    """A table with the model of how it came about.

    Parameters
    ----------
    name : str
        What is tested.
    cells : array of float, shape (r, c)
        The published values.
    estimate : array of float, shape (r, c)
        Unbiased estimate of the confidential counts.
    nobs : float, optional
        The published number of observations.
    model : TableModel
        The null hypothesis.
    """

    name: str
    cells: FloatArray
    estimate: FloatArray
    nobs: float | None
    model: TableModel

    @classmethod
    def checked(
        cls,
        table: Any,
        labels: pd.Index | None,
        mechanism: Any,
        nobs: Any,
        nobs_mechanism: Any,
        row_totals: Any,
    ) -> PublishedTable:
        """Check the arguments of the test, each by itself and against the others."""
        cells = np.ascontiguousarray(check_array(table, "table", ge=-LARGEST, le=LARGEST, ndim=2))
        if min(cells.shape) < 2:
            raise InvalidParameterError(
                f"table must have at least 2 rows and 2 columns, got shape {cells.shape}"
            )
        if row_totals is not None:
            if nobs is not None or nobs_mechanism is not None or _is_channel(mechanism):
                raise InvalidParameterError(
                    "row_totals must not be given with nobs, nobs_mechanism or randomized response"
                )
            totals = unlabelled(row_totals, "row_totals", labels, "the rows of table")
            return cls._homogeneity(cells, mechanism, totals)
        if _is_channel(mechanism):
            total = check_reports(cells, nobs, nobs_mechanism, "table")
            if isinstance(mechanism, RandomizedResponse):
                return cls._randomized_jointly(cells, mechanism, total)
            return cls._randomized_apart(cells, mechanism, total)
        noise, variance = check_noise(cells, mechanism, "table")
        known, form, law = check_nobs(cells, variance, nobs, nobs_mechanism, "table")
        refuse_dependent([noise, *([law] if law else [])], "mechanism and nobs_mechanism")
        model = TableModel(cells.shape, ProductMargins(form), noise, law)
        return cls(_INDEPENDENCE, cells, cells, known, model)

    @classmethod
    def _homogeneity(
        cls, cells: FloatArray, mechanism: Any, row_totals: FloatArray
    ) -> PublishedTable:
        noise, variance = check_noise(cells, mechanism, "table")
        totals = check_integer_array(row_totals, "row_totals", ge=1)
        check_array(totals, "row_totals", le=LARGEST_NOBS, ndim=1)
        check_length(totals, "row_totals", len(cells), "the rows of table")
        exact = ~variance.any(axis=1)
        check_sums(cells[exact].sum(axis=1), totals[exact], "rows of table", "row_totals")
        model = TableModel(cells.shape, RowMargins(variance, totals), noise)
        name = "Homogeneity of the rows of a table"
        return cls(name, cells, cells, float(totals.sum()), model)

    @classmethod
    def _randomized_jointly(
        cls, cells: FloatArray, channel: RandomizedResponse, total: float
    ) -> PublishedTable:
        """Model reports y of cells, with means (p - q)·x + n·q for counts x of answers.

        (y - n·q)/(p - q) estimates x. Its covariance is that of a noisy table, up to multiples of
        its mean μ: diag(μ/(p - q) + V) with V = n·q/(p - q)², less n·q²/(p - q)² for each pair of
        cells.
        """
        check_channel(channel, cells.size, "cells of table")
        slope, other = split_channel(channel)
        variance = np.full(cells.shape, total * other / slope**2)
        form = NoiseForm(variance, slope**2 / total, 1.0 - cells.size * other, 1.0 / slope)
        model = TableModel(cells.shape, ProductMargins(form), Exact(), channel=channel)
        return cls(_INDEPENDENCE, cells, (cells - other * total) / slope, total, model)

    @classmethod
    def _randomized_apart(cls, cells: FloatArray, channels: Any, total: float) -> PublishedTable:
        """Model reports of attributes randomized apart: independent if the answers are."""
        estimate = cells
        for axis, channel in enumerate(channels):
            if isinstance(channel, RandomizedResponse):
                check_channel(channel, cells.shape[axis], ("rows", "columns")[axis] + " of table")
                slope, other = split_channel(channel)
                estimate = (estimate - other * estimate.sum(axis=axis, keepdims=True)) / slope
        form = NoiseForm.published(np.zeros(cells.shape), 0.0)
        model = TableModel(cells.shape, ProductMargins(form), Exact())
        return cls(_INDEPENDENCE, cells, estimate, total, model)


def _is_channel(mechanism: Any) -> bool:
    """Whether it is one channel, or a pair of channels for rows and columns."""
    if isinstance(mechanism, RandomizedResponse):
        return True
    if not isinstance(mechanism, (tuple, list)):
        return False
    if not any(isinstance(part, RandomizedResponse) for part in mechanism):
        return False
    allowed = (RandomizedResponse, Exact, type(None))
    if len(mechanism) != 2 or not all(isinstance(part, allowed) for part in mechanism):
        raise InvalidParameterError(
            "mechanism must be a pair of channels, for rows and columns, each a RandomizedResponse "
            "or None where the answers were not randomized"
        )
    return True
