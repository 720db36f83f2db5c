"""What is known of the errors of the columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._validation import FloatArray, check_array, show, show_some
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import check_published
from dpinfer.mechanisms import NoiseLaw, as_noise
from dpinfer.mechanisms._shared import refuse_dependent
from dpinfer.regression._kurtosis import excess_kurtosis
from dpinfer.results.labels import split_labels

if TYPE_CHECKING:
    import pandas as pd

LARGEST = 1e50
"""Beyond it, products of four numbers could overflow."""

_ROUNDING = 1e-9

NoiseOf = Mapping[Any, Any]
"""What a ``noise=`` argument takes: a law or standard deviations for each noisy column."""


@dataclass(frozen=True)
class ColumnErrors:
    """Errors of k columns of a table with n rows, independent from row to row.

    Parameters
    ----------
    columns : list of label
        The k columns.
    covariance : array of float, shape (n, k, k)
        The covariance matrix of the errors in each row.
    laws : list of NoiseLaw or None
        The laws of the errors; None where only their variance is known.
    """

    columns: list[Hashable]
    covariance: FloatArray
    laws: list[NoiseLaw | None]

    @property
    def std(self) -> FloatArray:
        """Standard deviations, shape (n, k)."""
        return np.asarray(np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2)))

    def checked(self, column: Hashable, values: Any) -> FloatArray:
        """Return the published values of a column, refused where the law does not fit them."""
        name = show(column)
        array = check_array(values, name, ge=-LARGEST, le=LARGEST)
        law = self.laws[self.columns.index(column)]
        if law is not None:
            check_published(array, name, law)
        return array

    def excess(self) -> FloatArray:
        """Excess kurtosis, shape (n, k); 0, as for Gaussian errors, where no law is known."""
        size = len(self.covariance)
        return np.column_stack(
            [np.zeros(size) if law is None else excess_kurtosis(law, size) for law in self.laws]
        )


def column_errors(
    noise: NoiseOf,
    size: int,
    labels: pd.Index | None,
    is_column: Callable[[Any], bool],
    read: Callable[[str], Any] | None,
) -> ColumnErrors:
    """Return the errors that a ``noise=`` argument describes.

    Parameters
    ----------
    noise : mapping
        From columns to laws or standard deviations, and from pairs of columns to covariances.
    size : int
        The number n of rows.
    labels : pandas.Index or None
        The labels of the rows.
    is_column : callable
        Whether a key is a column.
    read : callable, optional
        Returns the entries of a column of the data by name.
    """
    if not isinstance(noise, Mapping) or not len(noise):
        raise InvalidParameterError(
            "noise must be a mapping of each noisy column to the law or the standard deviation "
            f"of its errors, got {show(noise)}"
        )
    known = {key: value for key, value in noise.items() if is_column(key)}
    pairs = {key: value for key, value in noise.items() if key not in known}
    for key in pairs:
        if not (isinstance(key, tuple) and len(set(key)) == 2 == len(key) and set(key) <= {*known}):
            raise InvalidParameterError(
                "noise must have as keys columns of the data, or pairs of columns that are keys "
                f"themselves, got {show(key)} besides {show_some(known)}"
            )
    columns = list(known)
    covariance = np.zeros((size, len(columns), len(columns)))
    laws: list[NoiseLaw | None] = []
    for j, (column, value) in enumerate(known.items()):
        name = f"noise[{column!r}]"
        law, variance = _one_column(value, name, size, labels, read)
        covariance[:, j, j] = variance
        laws.append(law)
    if not pairs:
        refuse_dependent([law for law in laws if law is not None], "noise")
    for (first, second), value in pairs.items():
        name = f"noise[{first!r}, {second!r}]"
        i, j = columns.index(first), columns.index(second)
        if np.any(covariance[:, i, j]):
            raise InvalidParameterError(f"{name} must be given once, not in both orders")
        given = _one_each(value, name, size, labels, ge=-(LARGEST**2), le=LARGEST**2)
        covariance[:, i, j] = covariance[:, j, i] = given
    if pairs:
        _check_possible(covariance)
        laws = [None] * len(columns)  # marginal laws do not determine the joint one
    return ColumnErrors(columns, covariance, laws)


def _one_column(
    value: Any,
    name: str,
    size: int,
    labels: pd.Index | None,
    read: Callable[[str], Any] | None,
) -> tuple[NoiseLaw | None, FloatArray]:
    """Law, if known, and variances of the errors of one column."""
    if isinstance(value, NoiseLaw) or (
        isinstance(value, (list, tuple)) and any(isinstance(item, NoiseLaw) for item in value)
    ):
        law = as_noise(value, size, name=name)
        std = check_array(np.broadcast_to(law.std, size), name, le=LARGEST)
        return law, np.square(std)
    if isinstance(value, str) and read is not None:
        value = read(value)
    std = _one_each(value, name, size, labels, ge=0.0, le=LARGEST)
    return None, np.square(std)


def _one_each(
    value: Any, name: str, size: int, labels: pd.Index | None, *, ge: float, le: float
) -> FloatArray:
    """Numbers, one for each row or one for all."""
    array, own = split_labels(value, name, ge=ge, le=le)
    if own is not None and labels is not None and not own.equals(labels):
        raise InvalidParameterError(
            f"{name} must have the labels of the data in the same order: reindex it first"
        )
    if array.shape not in ((), (size,)):
        raise InvalidParameterError(
            f"{name} must be a number or have one entry for each of the {size} rows, got shape "
            f"{array.shape}"
        )
    return np.broadcast_to(array, size)


def _check_possible(covariance: FloatArray) -> None:
    """Refuse what is no covariance matrix."""
    std = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    scale = np.where(std > 0, std, 1.0)
    unit = covariance / scale[:, :, None] / scale[:, None, :]
    smallest = np.linalg.eigvalsh(unit)[:, 0]
    # a covariance of a column without errors is an eigenvalue below zero as well
    if (bad := smallest < -_ROUNDING).any():
        raise InvalidParameterError(
            "noise must have covariances that fit the standard deviations, got an impossible "
            f"covariance matrix in row {int(np.flatnonzero(bad)[0])}"
        )
