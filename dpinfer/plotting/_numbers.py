"""Columns of numbers of which some may be missing or infinite."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpinfer._validation import FloatArray, show
from dpinfer.errors import InvalidParameterError


def check_numbers(values: Any, name: str, *, ge: float | None = None) -> FloatArray:
    """Return a column as an array, where it holds numbers; NaN is one that is missing."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(f"{name} must hold numbers, got {show(values)}") from error
    if array.ndim != 1 or not array.size:
        raise InvalidParameterError(f"{name} must be one-dimensional, got {show(values)}")
    if ge is not None and (array < ge).any():
        raise InvalidParameterError(f"{name} must be >= {ge:g}, got {array[array < ge][0]:g}")
    return array
