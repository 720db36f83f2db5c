"""Labels travel with values: taken off a Series or a DataFrame here, put back by the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._interchange import as_table
from dpinfer._validation import FloatArray, check_array
from dpinfer.errors import InvalidParameterError

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


def hold_arrays(result: Any, names: Sequence[str], labels: pd.Index | None) -> None:
    """Set fields of a frozen result to read-only arrays of one shape, under their labels."""
    held = {
        name: check_array(getattr(result, name), name, finite=False, nonempty=False)
        for name in names
    }
    shape = held[names[0]].shape if labels is None else (len(labels),)
    for name, array in held.items():
        if array.shape != shape:
            raise InvalidParameterError(
                f"{', '.join(names)} must have one shape, and one entry for each label where there "
                f"are labels: {name} must have shape {shape}, got {array.shape}"
            )
        array.flags.writeable = False  # a copy already
        object.__setattr__(result, name, attach_labels(array, labels))


def labelled_frame(
    columns: Mapping[str, Any], labels: pd.Index | None, **attrs: object
) -> pd.DataFrame:
    """Return columns of one shape as a DataFrame with a row for each value, and with attrs."""
    import pandas as pd

    frame = pd.DataFrame({name: np.ravel(held) for name, held in columns.items()}, index=labels)
    frame.attrs = attrs
    return frame


def stack_labels(frame: pd.DataFrame) -> pd.MultiIndex:
    """Return the labels of the cells of a DataFrame, row by row, with the names of their levels."""
    import pandas as pd

    rows, columns = frame.index, frame.columns
    row, column = np.divmod(np.arange(frame.size), max(len(columns), 1))
    parts = [rows.get_level_values(level).take(row) for level in range(rows.nlevels)]
    parts += [columns.get_level_values(level).take(column) for level in range(columns.nlevels)]
    return pd.MultiIndex.from_arrays(parts, names=[*rows.names, *columns.names])
