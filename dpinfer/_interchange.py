"""Tables of other libraries, brought into the form of pandas where they come in.

polars, pyarrow, DuckDB and others hand their columns over through the Arrow C stream (the PyCapsule
interface), older ones through ``__dataframe__``. They have no index, so that labels have to come
from columns: :func:`with_index` says from which.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal

from dpinfer._validation import one_line
from dpinfer.errors import InvalidParameterError

Index = Literal["none", "labels", "all but last"]


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
