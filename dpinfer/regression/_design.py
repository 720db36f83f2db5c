"""Response, covariates and the errors in them, row by row."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import statsmodels.api as sm

from dpinfer._interchange import as_pandas, as_table, is_foreign
from dpinfer._validation import FloatArray, check_array, check_length
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.regression._errors import LARGEST, ColumnErrors, NoiseOf, column_errors

if TYPE_CHECKING:
    import pandas as pd

_SMALLEST = 1e-50

_WIDEST = 1e-13
"""The pseudoinverse of statsmodels drops singular values below 1e-15 of the largest."""


@dataclass(frozen=True)
class Design:
    """A regression of noisy columns on noisy columns.

    Parameters
    ----------
    model : statsmodels WLS
        The published response, design matrix and weights, with their names and labels.
    loadings : array of float, shape (n, 1 + p, k)
        How the errors of the k noisy columns enter the response (first) and the p columns of the
        design matrix, in each row.
    errors : ColumnErrors
        The errors of the noisy columns.
    labelled : bool
        Whether results carry the names of the columns.
    spec : object, optional
        What builds the design matrix of other data, where the model came from a formula.
    notes : tuple of str
        Remarks for the summary.
    """

    model: Any
    loadings: FloatArray
    errors: ColumnErrors
    labelled: bool
    spec: Any = None
    notes: tuple[str, ...] = ()

    @property
    def endog(self) -> FloatArray:
        """Published response, shape (n,)."""
        return np.asarray(self.model.endog, dtype=np.float64)

    @property
    def exog(self) -> FloatArray:
        """Published design matrix, shape (n, p)."""
        return np.asarray(self.model.exog, dtype=np.float64)

    @property
    def weights(self) -> FloatArray:
        """Weights of the rows, shape (n,)."""
        return np.broadcast_to(np.asarray(self.model.weights, dtype=np.float64), self.endog.shape)

    @property
    def names(self) -> list[str]:
        """Names of the columns of the design matrix."""
        return list(self.model.exog_names)

    @property
    def row_labels(self) -> Any:
        """Labels of the rows, or None."""
        return self.model.data.row_labels if self.labelled else None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out a specification by patsy, which cannot be pickled."""
        picklable = self.spec is None or hasattr(self.spec, "get_model_matrix")
        return self.__dict__ | ({} if picklable else {"spec": None})

    def error_covariance(self) -> FloatArray:
        """Covariance matrices of the errors of (response, covariates), shape (n, 1 + p, 1 + p)."""
        return np.asarray(self.loadings @ self.errors.covariance @ np.swapaxes(self.loadings, 1, 2))


def array_design(endog: Any, exog: Any, noise: NoiseOf, weights: Any) -> Design:
    """Return the design of a response and a matrix of covariates."""
    response, rows, name = _response(endog)
    matrix, columns, other = _matrix(exog)
    check_length(matrix, "exog", len(response), "the values of endog")
    if rows is not None and other is not None and not rows.equals(other):
        raise InvalidParameterError(
            "exog must have the labels of endog in the same order: reindex it first"
        )
    labels = rows if rows is not None else other
    if labels is None and (is_foreign(endog) or is_foreign(exog)):
        labels = _numbered(len(response))
    if columns is None and labels is not None:
        columns = checked_model(response, matrix, weights, labels).exog_names
    if labels is not None:
        import pandas as pd

        response = pd.Series(response, index=labels, name=name)
        matrix = pd.DataFrame(matrix, index=labels, columns=columns)
    model = checked_model(response, matrix, weights, labels)
    keys: list[Hashable] = [name, *(model.exog_names if columns is None else columns)]
    if len(set(keys)) < len(keys):
        raise InvalidParameterError(f"endog and exog must have different names, got {keys}")
    errors = column_errors(noise, len(response), labels, lambda key: key in keys, None)
    selection = np.zeros((len(keys), len(errors.columns)))
    values = np.column_stack([response, matrix])
    for j, column in enumerate(errors.columns):
        errors.checked(column, values[:, keys.index(column)])
        selection[keys.index(column), j] = 1.0
    loadings = np.broadcast_to(selection, (len(response), *selection.shape))
    return Design(model, loadings, errors, labels is not None)


def checked_model(endog: Any, exog: Any, weights: Any, labels: pd.Index | None) -> Any:
    """Return a WLS model of statsmodels, after checks of what least squares needs."""
    response = check_array(np.asarray(endog), "endog", ge=-LARGEST, le=LARGEST)
    matrix = check_array(np.asarray(exog), "exog", ge=-LARGEST, le=LARGEST)
    for values, name in ((response[:, None], "endog"), (matrix, "exog")):
        size = np.abs(values).max(axis=0)
        if ((size > 0) & (size < _SMALLEST)).any():
            raise InvalidParameterError(
                f"{name} must not have columns below {_SMALLEST:g} in size: rescale them"
            )
    given = _weights(weights, len(matrix), labels)
    _check_rank(matrix * np.sqrt(np.reshape(given, (-1, 1))))
    return sm.WLS(endog, exog, weights=given)


def _check_rank(matrix: FloatArray) -> None:
    """Refuse columns that do not determine coefficients, or not as statsmodels computes them."""
    rows, columns = matrix.shape
    if rows <= columns:
        raise NotEstimableError(f"{columns} coefficients need more than {columns} rows, got {rows}")
    size = np.abs(matrix).max(axis=0)
    if np.linalg.matrix_rank(matrix / np.where(size > 0, size, 1.0)) < columns:
        raise NotEstimableError(
            "the columns of the design matrix are linearly dependent: drop those that follow from "
            "the others"
        )
    singular = np.linalg.svd(matrix, compute_uv=False)
    if singular[-1] < _WIDEST * singular[0]:
        raise InvalidParameterError(
            "the columns of the design matrix must not differ so much in size, or be so nearly "
            f"dependent, that their singular values differ by more than {1 / _WIDEST:.0e}: rescale "
            "them, or centre those that vary little"
        )


def _weights(weights: Any, size: int, labels: pd.Index | None) -> Any:
    """Weights of the rows; 1 where none are given."""
    if weights is None:
        return 1.0
    weights = as_table(weights, "weights")
    own = getattr(weights, "index", None) if hasattr(weights, "to_numpy") else None
    if own is not None and labels is not None and not own.equals(labels):
        raise InvalidParameterError(
            "weights must have the labels of the data in the same order: reindex them first"
        )
    array = check_array(weights, "weights", gt=0, ge=_SMALLEST, le=LARGEST, ndim=1)
    check_length(array, "weights", size, "the rows")
    if array.max() > array.min() / np.finfo(float).eps:
        raise InvalidParameterError(
            "weights must be within a factor of 4e15 of each other: leave out rows without weight"
        )
    return array


def _response(endog: Any) -> tuple[FloatArray, pd.Index | None, Any]:
    """Values, labels and name of the response."""
    column = as_pandas(endog, "endog")
    if hasattr(column, "columns") and hasattr(column, "iloc"):
        if column.shape[1] != 1:
            raise InvalidParameterError(
                f"endog must be one column, got a DataFrame with {column.shape[1]}"
            )
        column = column.iloc[:, 0]
    if hasattr(column, "index") and hasattr(column, "to_numpy"):
        name = "y" if column.name is None else column.name
        return check_array(column.to_numpy(), "endog", ndim=1), _labels(endog, column), name
    return check_array(column, "endog", ndim=1), None, "y"


def _matrix(exog: Any) -> tuple[FloatArray, pd.Index | None, pd.Index | None]:
    """Values, names of the columns and labels of the rows of the design matrix."""
    table = as_pandas(exog, "exog")
    if hasattr(table, "index") and hasattr(table, "to_numpy"):
        frame = table if hasattr(table, "columns") else table.to_frame(name=table.name or "x1")
        columns = frame.columns.to_flat_index()  # statsmodels joins the names of levels as strings
        return check_array(frame.to_numpy(), "exog", ndim=2), columns, _labels(exog, frame)
    array = check_array(table, "exog")
    matrix = array[:, None] if array.ndim == 1 else array
    return check_array(matrix, "exog", ndim=2), None, None


def _labels(given: Any, table: Any) -> pd.Index | None:
    """Labels of the rows; None for a table of a library that has none."""
    unlabelled = is_foreign(given) and table.index.equals(_numbered(len(table)))
    return None if unlabelled else table.index


def _numbered(size: int) -> pd.Index:
    import pandas as pd

    return pd.RangeIndex(size)
