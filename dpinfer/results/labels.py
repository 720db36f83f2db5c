"""Labels travel with values: taken off a Series or a DataFrame here, put back by the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import (
    FloatArray,
    as_pandas,
    as_values,
    check_array,
    check_items,
    one_line,
    show,
    show_some,
)
from dpinfer.errors import InvalidParameterError

if TYPE_CHECKING:
    import pandas as pd


def check_order(own: Any, labels: Any, name: str, of: str) -> None:
    """Refuse labels that are not those of another argument in its order, where both have some."""
    if own is not None and labels is not None and not own.equals(labels):
        raise InvalidParameterError(
            f"{name} must have the labels of {of} in the same order: reindex it first"
        )


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

    Every function takes tables of other libraries, and arrays of xarray, whose dimensions name the
    levels of the labels; results are those of pandas, with ``summary_frame().to_xarray()`` back.
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


def find_rows(which: Any, shape: tuple[int, ...], labels: pd.Index | None) -> NDArray[np.intp]:
    """Return the positions of the rows that an index names, of shape () where it names one.

    Whole numbers are labels where the labels are, as in pandas; slices of them are positions.
    Results of several dimensions without labels are indexed as arrays are, or by row.
    """
    size = prod(shape)
    try:
        chosen = which
        if isinstance(which, list) or hasattr(which, "to_numpy"):
            chosen = np.asarray(which)
            chosen = chosen if chosen.size else chosen.astype(np.intp)
        _check_mask(which, chosen, shape, labels)
        if labels is None and isinstance(which, tuple):
            return np.asarray(np.arange(size).reshape(shape)[which], dtype=np.intp)
        if _are_positions(chosen, labels):
            whole = np.arange(size).reshape(shape if np.ndim(chosen) > 1 else size)
            return np.asarray(whole[chosen], dtype=np.intp)
        return _labelled_rows(which, size, labels)
    except InvalidParameterError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError, NotImplementedError) as error:
        held = f"{size} rows" if labels is None else f"the {size} rows {show_some(labels)}"
        raise InvalidParameterError(
            f"index must be a label, a position, a slice or a mask of {held}, got {show(which)}: "
            f"{one_line(error)}"
        ) from error


def _labelled_rows(which: Any, size: int, labels: pd.Index | None) -> NDArray[np.intp]:
    """Return the positions of labels; what is missing is a KeyError."""
    if labels is None:
        raise TypeError("rows without labels have positions only")
    if isinstance(which, slice):
        chosen: Any = labels.slice_indexer(which.start, which.stop, which.step)
    elif isinstance(which, list) or (hasattr(which, "__array__") and np.ndim(which)):
        chosen = labels.get_indexer_for(list(which))
        if (chosen < 0).any():
            raise KeyError(list(which)[int(np.argmin(chosen))])
    elif isinstance(which, tuple) and any(isinstance(part, (slice, list)) for part in which):
        chosen = labels.get_locs(which)
    else:
        hash(which)
        chosen = labels.get_loc(which)
    return np.asarray(np.arange(size)[chosen], dtype=np.intp)


def _are_positions(chosen: Any, labels: pd.Index | None) -> bool:
    """Whether an index goes by position: whole numbers, slices of them, masks."""
    if isinstance(chosen, slice):
        return all(end is None or _is_whole(end) for end in (chosen.start, chosen.stop))
    if isinstance(chosen, np.ndarray) and chosen.dtype.kind == "b":
        return True
    by_label = labels is not None and labels.nlevels == 1 and labels.dtype.kind in "iu"
    if isinstance(chosen, np.ndarray):
        return chosen.dtype.kind in "iu" and not by_label
    return _is_whole(chosen) and not by_label


def _check_mask(which: Any, chosen: Any, shape: tuple[int, ...], labels: pd.Index | None) -> None:
    """Refuse a mask of another length or with other labels."""
    if not isinstance(chosen, np.ndarray) or chosen.dtype.kind != "b":
        return
    if chosen.shape not in ((prod(shape),), shape):
        raise InvalidParameterError(
            f"index must be a mask with an entry for each of {prod(shape)} rows, got one of shape "
            f"{chosen.shape}"
        )
    own = which.index if hasattr(which, "iloc") else None
    if labels is not None and own is not None and not own.equals(labels):
        raise InvalidParameterError(
            "index must be a mask with the labels of the rows in their order: reindex it, or pass "
            "an array to go by position"
        )


def _is_whole(item: Any) -> bool:
    return isinstance(item, (int, np.integer)) and not isinstance(item, bool)
