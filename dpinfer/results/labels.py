"""Labels travel with values: taken off a Series or a DataFrame here, put back by the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import (
    FloatArray,
    as_pandas,
    as_values,
    check_array,
    check_items,
    show,
    show_some,
)
from dpinfer.errors import InvalidParameterError

if TYPE_CHECKING:
    import pandas as pd


def split_labels(values: Any, name: str, **bounds: Any) -> tuple[FloatArray, pd.Index | None]:
    """Return values as an array of numbers within bounds, and their labels where they have any.

    A Series gives its index. A DataFrame is stacked, so that it becomes one-dimensional with the
    pairs (row, column) as labels. The frames of other libraries are labelled by their columns that
    hold no numbers. Anything else keeps its shape and has no labels.
    """
    values = as_values(values, name)
    if hasattr(values, "columns") and hasattr(values, "iloc"):
        return check_array(values.to_numpy().ravel(), name, **bounds), stack_labels(values)
    if hasattr(values, "index") and hasattr(values, "to_numpy"):
        return check_array(values.to_numpy(), name, **bounds), values.index
    return check_array(values, name, **bounds), None


def with_labels(table: Any, labels: str | Sequence[Any]) -> pd.DataFrame | pd.Series:
    """Return a table with the labels of its rows taken from some of its columns.

    Tables of polars, pyarrow, DuckDB and the like have no index that tells labels from values. In
    them columns of text are labels; columns of whole numbers, such as years or FIPS codes, are
    only where this function says so. Every function that takes labelled values takes the result.

    Parameters
    ----------
    table : DataFrame of any library
        Columns of labels and columns of numbers.
    labels : str or sequence of str
        The columns that label the rows; with none of them, all columns are values.

    Returns
    -------
    DataFrame or Series
        The other columns under these labels: of pandas, a Series where there is one of them.

    Raises
    ------
    InvalidParameterError
        If ``table`` is no table, or ``labels`` are not some of its columns, each once.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import dpinfer as dpi
    >>> table = pa.table({"year": [2019, 2020], "count": [12.4, 9.2]})
    >>> labelled = dpi.with_labels(table, "year")
    >>> dpi.count_confint(labelled, mechanism=dpi.Laplace(scale=1.0)).upper.round(2)
    year
    2019    15.4
    2020    12.2
    dtype: float64
    """
    import pandas as pd

    frame = as_pandas(table, "table")
    if not isinstance(frame, pd.DataFrame):
        raise InvalidParameterError(
            f"table must be a table of pandas, polars, pyarrow or the like, got {show(table)}"
        )
    named = [labels] if isinstance(labels, str) else check_items(labels, "labels", "columns")
    held = frame.columns.tolist()
    try:
        distinct = len(set(named)) == len(named)
    except TypeError:  # what has no hash is no name
        distinct = False
    if not distinct or any(held.count(name) != 1 for name in named) or len(named) == len(held):
        raise InvalidParameterError(
            f"labels must be some of the columns of the table, each once, {show_some(held)}, got "
            f"{show(labels)}"
        )
    if not named:
        return frame.set_axis(pd.Index(range(len(frame)), name="row"))
    labelled = frame.set_index(named)
    return labelled.iloc[:, 0] if labelled.shape[1] == 1 else labelled


def attach_labels(
    values: NDArray[Any], labels: pd.Index | None, *, copy: bool | None = None
) -> Any:
    """Return values as a Series under their labels; without labels, an array or a number."""
    if labels is None:
        return values[()]
    import pandas as pd

    return pd.Series(values, index=labels, copy=copy)


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
        object.__setattr__(result, name, attach_labels(array, labels, copy=False))


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
