"""Checks of published counts that tests and intervals share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._validation import FloatArray, check_array
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.mechanisms.independent import integer_cells
from dpinfer.mechanisms.rounded import warn_of_rounding
from dpinfer.results.labels import split_labels

if TYPE_CHECKING:
    import pandas as pd


LARGEST_NOBS = 2.0**53
"""Beyond it, neighbouring whole numbers are one float64."""

SMALLEST_VALUE = 1e-300
"""Below it, the ratio of a count to its expectation overflows."""

_LARGEST_COUNT = 1e100
"""Beyond it, squares of deviations overflow."""


def unlabelled(value: Any, name: str, labels: pd.Index | None, of: str) -> FloatArray:
    """Return an argument as an array; its labels, if any, have to be those of the counts."""
    array, own = split_labels(value, name)
    if own is not None and labels is not None and not own.equals(labels):
        raise InvalidParameterError(
            f"{name} must have the labels of {of} in the same order: reindex it first"
        )
    return array


def check_published(counts: FloatArray, name: str, noise: NoiseLaw) -> None:
    """Refuse a fraction where the noise takes whole numbers only, and absurd sizes."""
    check_array(counts, name, ge=-_LARGEST_COUNT, le=_LARGEST_COUNT)
    bad = integer_cells(noise, counts.size).reshape(counts.shape) & (counts != np.floor(counts))
    if bad.any():
        raise InvalidParameterError(
            f"{name} must hold whole numbers where the noise takes whole numbers only, got "
            f"{counts[bad][0]}: check that mechanism is the one that was used"
        )
    warn_of_rounding(counts, noise, name)


def common_shape(**arrays: FloatArray) -> tuple[int, ...]:
    """Return the shape, () or (m,), to which the arguments broadcast."""
    for name, array in arrays.items():
        if array.ndim > 1:
            raise InvalidParameterError(
                f"{name} must be a number or one-dimensional, got shape {array.shape}"
            )
    lengths = {array.size for array in arrays.values() if array.ndim} - {1}
    if len(lengths) > 1:
        found = ", ".join(f"{name} has {array.size}" for name, array in arrays.items())
        raise InvalidParameterError(f"arguments must have one length, or be scalars: {found}")
    return np.broadcast_shapes(*(array.shape for array in arrays.values()))


def checked_proportion(value: Any, labels: pd.Index | None) -> FloatArray:
    """Return the proportion under the null hypothesis."""
    proportion = check_array(unlabelled(value, "value", labels, "count"), "value", gt=0, lt=1)
    return check_array(proportion, "value", ge=SMALLEST_VALUE)
