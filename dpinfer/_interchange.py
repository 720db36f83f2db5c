"""Tables of other libraries, brought into the form of pandas where they come in.

polars, pyarrow, DuckDB and others hand their columns over through the Arrow C stream (the PyCapsule
interface), older ones through ``__dataframe__``. They have no index, so that labels have to come
from columns: :func:`with_index` says from which.
"""

from __future__ import annotations

import re
import warnings
from typing import Any, Literal

import numpy as np

from dpinfer._validation import one_line, show
from dpinfer.errors import InvalidParameterError

Index = Literal["none", "labels", "all but last"]

_LABELS = re.compile(
    "block|code|codes|county|date|day|district|fips|geocode|geoid|id|index|key|month|municipality"
    "|place|postcode|precinct|quarter|region|state|stratum|tract|ward|week|year|zcta|zip"
)
"""Words with which the names of columns of labels end."""


def is_foreign(value: Any) -> bool:
    """Whether a value is a frame or series of another library than pandas."""
    if _is_pandas(value):
        return False
    protocols = ("__arrow_c_stream__", "__arrow_c_array__", "__dataframe__")
    return any(hasattr(value, protocol) for protocol in protocols) or _is_lazy(value)


def as_pandas(value: Any, name: str = "frame", *, index: Index = "none") -> Any:
    """Return a frame or series of another library as that of pandas, and other things as they are.

    A frame gets a plain index, unless ``index`` says that its columns of labels become one: those
    that hold no numbers (``"labels"``), or all but the last (``"all but last"``).
    """
    if not is_foreign(value):
        return value
    if _is_lazy(value):
        raise InvalidParameterError(
            f"{name} must be a table that has been computed, got a LazyFrame: call its collect()"
        )
    try:
        converted = _converted(value)
    except Exception as error:  # another library may fail in any way
        raise InvalidParameterError(
            f"{name} must be a table of columns that pandas can hold, got a "
            f"{type(value).__module__}.{type(value).__name__}: {one_line(error)}"
        ) from error
    if index == "none" or not hasattr(converted, "columns"):
        return converted
    return with_index(converted, converted.columns[:-1] if index == "all but last" else None)


def as_table(value: Any, name: str = "values") -> Any:
    """Return the values of a frame or series of another library, with labels where it has any.

    The columns that hold no numbers are the labels. A frame with one column of numbers becomes a
    Series, several stay a DataFrame, and what has no labels becomes an array. Other things are
    returned as they are.
    """
    if not is_foreign(value):
        return value
    table = as_pandas(value, name, index="labels")
    if hasattr(table, "columns"):
        if table.shape[1] != 1:
            return table
        table = table.iloc[:, 0]
    return table.to_numpy() if table.index.names == [None] else table


def as_values(value: Any, name: str = "values") -> Any:
    """Return a table of values as :func:`as_table` does, but none with labels among its values.

    Raises
    ------
    InvalidParameterError
        If a column of whole numbers, beside others of numbers, looks like labels, and no index
        says that it is none.
    """
    table = as_table(value, name)
    if hasattr(table, "columns") and hasattr(table, "iloc"):
        _refuse_labels_as_values(table, name, foreign=is_foreign(value))
    return table


def with_index(frame: Any, labels: Any = None) -> Any:
    """Move columns of labels, by default those that hold no numbers, into the index of a frame."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype, is_object_dtype

    if labels is None:
        labels = [
            column
            for column, kind in frame.dtypes.items()
            if is_bool_dtype(kind)
            or not (is_numeric_dtype(kind) or (is_object_dtype(kind) and _numbers(frame[column])))
        ]
    return frame.set_index(list(labels)) if len(labels) else frame


def _refuse_labels_as_values(frame: Any, name: str, *, foreign: bool) -> None:
    """Refuse columns of whole numbers that would be taken for values and look like labels.

    Those of a frame of pandas with an index of its own are values.
    """
    from pandas import RangeIndex
    from pandas.api.types import is_integer_dtype

    plain = isinstance(frame.index, RangeIndex) and frame.index.name is None
    if frame.shape[1] < 2 or not (foreign or plain):
        return
    whole = [at for at, kind in enumerate(frame.dtypes) if is_integer_dtype(kind)]
    for at in whole:
        words = re.split(r"[^a-z]+", str(frame.columns[at]).lower().rstrip("0123456789"))
        steps = np.diff(frame.iloc[:, at].to_numpy(dtype=np.float64, na_value=np.nan))
        counting = len(steps) > 0 and ((steps == 1).all() or (len(steps) > 2 and (steps > 0).all()))
        mixed = len(whole) < frame.shape[1] and not frame.iloc[:, at].duplicated().any()
        if _LABELS.fullmatch(words[-1]) or (foreign and (counting or mixed)):
            raise InvalidParameterError(
                f"{name} must say which of its columns are labels, got the column "
                f"{show(frame.columns[at])} of whole numbers that look like labels: pass "
                f"dpinfer.with_labels(table, [{show(frame.columns[at])}]) instead of the table, or "
                "with_labels(table, []) if all of them are values"
            )


def _converted(value: Any) -> Any:
    import pyarrow as pa

    if not (hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")):
        from pandas.api.interchange import from_dataframe

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pandas is about to give the protocol up
            return from_dataframe(value)
    # a Table, a DataFrame, a relation or a reader of batches; a series or an array has neither
    if hasattr(value, "columns") or hasattr(value, "schema"):
        table = pa.table(value)
        for at, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
            table = table.set_column(at, name, _signed(column))
        return table.to_pandas()
    stream = hasattr(value, "__arrow_c_stream__")
    series = _signed(pa.chunked_array(value) if stream else pa.array(value)).to_pandas()
    title = getattr(value, "name", None)
    return series.rename(title if isinstance(title, str) and title else None)


def _signed(column: Any) -> Any:
    """Return a column of Arrow with its categories numbered as any PyArrow can give to pandas."""
    import pyarrow as pa

    kind = column.type
    if not pa.types.is_dictionary(kind) or pa.types.is_signed_integer(kind.index_type):
        return column
    return column.cast(pa.dictionary(pa.int64(), kind.value_type, kind.ordered))


def _is_lazy(value: Any) -> bool:
    """Whether a value is a query of polars (or narwhals) that holds no table yet."""
    return type(value).__name__ == "LazyFrame" and hasattr(value, "collect")


def _is_pandas(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "pandas" or hasattr(value, "iloc")


def _numbers(column: Any) -> bool:
    """Whether a column of objects holds numbers, such as decimals, in the cells that it has."""
    return bool(column.dropna().map(lambda item: hasattr(item, "as_integer_ratio")).all())
