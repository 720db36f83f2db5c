"""Weights of linear functions of published values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

from dpinfer._interchange import as_table
from dpinfer._validation import FloatArray, check_array, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.weighted_sum import LARGEST_WEIGHT

if TYPE_CHECKING:
    import pandas as pd


def checked_weights(
    weights: Any, labels: pd.Index | None, size: int, name: str = "weights"
) -> FloatArray:
    """Return weights (size,) or (k × size) in the order of the values, called ``name``."""
    weights = as_table(weights, name)
    if isinstance(weights, Mapping):
        weights = _series(weights, labels, name)
    if labels is not None and hasattr(weights, "iloc"):
        own = weights.columns if hasattr(weights, "columns") else weights.index
        if not _all_among(own, labels):
            raise InvalidParameterError(
                f"{name} must be labelled like the values, each label once; pass an array to go "
                "by position"
            )
        weights = weights.reindex(labels, axis=weights.ndim - 1, fill_value=0.0)
    matrix = check_array(weights, name, ge=-LARGEST_WEIGHT, le=LARGEST_WEIGHT)
    if matrix.ndim not in (1, 2) or matrix.shape[-1] != size:
        raise InvalidParameterError(
            f"{name} must have {size} entries in each row, one for each value, "
            f"got shape {matrix.shape}"
        )
    return matrix


def _all_among(own: pd.Index, labels: pd.Index) -> bool:
    """Whether all labels are among those of the values, each once."""
    try:
        return bool(own.is_unique and labels.is_unique and own.isin(labels).all())
    except (TypeError, ValueError):  # labels of another kind, such as text and numbers
        return False


def _series(weights: Mapping[Hashable, Any], labels: pd.Index | None, name: str) -> pd.Series:
    """Read a mapping of labels to weights."""
    import pandas as pd

    if labels is None or not weights:
        raise InvalidParameterError(
            f"{name} must be an array, or a mapping of labels of the values to weights, got "
            f"{show(dict(weights))} for values {'without' if labels is None else 'with'} labels"
        )
    return pd.Series(list(weights.values()), index=pd.Index(list(weights)))
