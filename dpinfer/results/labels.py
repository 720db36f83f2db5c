"""Labels travel with values: taken off a Series or a DataFrame here, put back by the results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._interchange import as_table
from dpinfer._validation import FloatArray, check_array

if TYPE_CHECKING:
    import pandas as pd


def split_labels(
    values: Any, name: str, *, ge: float | None = None, le: float | None = None
) -> tuple[FloatArray, pd.Index | None]:
    """Return values as an array of finite numbers, and their labels where they have any.

    A Series gives its index. A DataFrame is stacked, so that it becomes one-dimensional with the
    pairs (row, column) as labels. The frames of other libraries are labelled by their columns that
    hold no numbers. Anything else keeps its shape and has no labels.
    """
    values = as_table(values, name)
    if hasattr(values, "columns") and hasattr(values, "iloc"):
        array = check_array(values.to_numpy().ravel(), name, ge=ge, le=le)
        return array, stack_labels(values)
    if hasattr(values, "index") and hasattr(values, "to_numpy"):
        return check_array(values.to_numpy(), name, ge=ge, le=le), values.index
    return check_array(values, name, ge=ge, le=le), None


def attach_labels(values: NDArray[Any], labels: pd.Index | None) -> Any:
    """Return values as a Series under their labels; without labels, an array or a number."""
    if labels is None:
        return values[()]
    import pandas as pd

    return pd.Series(values, index=labels)


def stack_labels(frame: pd.DataFrame) -> pd.MultiIndex:
    """Return the labels of the cells of a DataFrame, row by row, with the names of their levels."""
    import pandas as pd

    rows, columns = frame.index, frame.columns
    row, column = np.divmod(np.arange(frame.size), max(len(columns), 1))
    parts = [rows.get_level_values(level).take(row) for level in range(rows.nlevels)]
    parts += [columns.get_level_values(level).take(column) for level in range(columns.nlevels)]
    return pd.MultiIndex.from_arrays(parts, names=[*rows.names, *columns.names])
