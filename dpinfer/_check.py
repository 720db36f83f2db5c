"""Checks of single arguments: each returns the value in its normal form.

A message says what was given, what is allowed and what to do, and names the argument first:
``scale must be > 0, got -1.0``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Sequence
from importlib import import_module
from math import isfinite, isnan, prod
from types import MappingProxyType, ModuleType
from typing import Any, Literal, TypeGuard, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpinfer.errors import InvalidParameterError, MissingExtraError

FloatArray = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]
Numbers = np.float64 | FloatArray
"""A number where all arguments and parameters are numbers, an array otherwise."""
Alternative = Literal["two-sided", "larger", "smaller"]
Neighbours = Literal["add-remove", "replace"]
RNG = None | int | np.random.Generator
Option = TypeVar("Option", bound=str)

ALTERNATIVES: tuple[Alternative, ...] = ("two-sided", "larger", "smaller")
MAX_REPS = 10**9
MAX_DRAWS = 2**32
NEIGHBOURS: tuple[Neighbours, ...] = ("add-remove", "replace")


def check_array(
    value: ArrayLike,
    name: str,
    *,
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    le: float | None = None,
    ndim: int | None = None,
    finite: bool = True,
    nonempty: bool = True,
) -> FloatArray:
    array = _as_real_array(value, name)
    if ndim is not None and array.ndim != ndim:
        kind = {0: "a number", 1: "one-dimensional", 2: "two-dimensional"}[ndim]
        raise InvalidParameterError(f"{name} must be {kind}, got shape {array.shape}")
    if nonempty and array.size == 0:
        raise InvalidParameterError(f"{name} must hold at least one value, got none")
    if array.size == 0:
        return array
    low, high = array.min(), array.max()  # NaN where any is
    if isnan(low):
        raise InvalidParameterError(f"{name} must not contain NaN{_where(np.isnan(array))}")
    if finite and not (isfinite(low) and isfinite(high)):
        bad = ~np.isfinite(array)
        raise InvalidParameterError(f"{name} must be finite, got {array[bad][0]}{_where(bad)}")
    for bound, sign, outside, extreme in (
        (gt, ">", operator.le, low),
        (ge, ">=", operator.lt, low),
        (lt, "<", operator.ge, high),
        (le, "<=", operator.gt, high),
    ):
        if bound is not None and outside(extreme, bound):
            bad = outside(array, bound)
            raise InvalidParameterError(
                f"{name} must be {sign} {bound:g}, got {array[bad][0]}{_where(bad)}"
            )
    return array


def check_parameter(value: ArrayLike, name: str, **bounds: Any) -> FloatArray:
    """Return a parameter of a law as an array, which is refused with labels, as a law keeps none.

    The labels 0, 1, ... of a Series say no more than positions.
    """
    if hasattr(value, "iloc"):
        index: Any = getattr(value, "index", None)
        if index.name is not None or not np.array_equal(np.asarray(index), np.arange(len(index))):
            raise InvalidParameterError(
                f"{name} must be a number or an array in the order of the values, got a "
                f"{type(value).__name__} with labels, which would not be compared with theirs: "
                "reindex it to the labels of the values and pass its to_numpy()"
            )
    return check_array(value, name, **bounds)


def check_scalar(
    value: object,
    name: str,
    *,
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    le: float | None = None,
    finite: bool = True,
) -> float:
    if type(value) is float and gt is not None and lt is not None and gt < value < lt:
        return value
    array = check_array(value, name, gt=gt, ge=ge, lt=lt, le=le, ndim=0, finite=finite)  # type: ignore[arg-type]
    return float(array)


def check_integer(value: object, name: str, *, ge: int | None = None, le: int | None = None) -> int:
    """Return ``value`` as an int within the bounds; 3.0 counts as an integer, 3.5 does not."""
    if _is_integer(value):
        number = int(value)
    else:
        real = check_scalar(value, name)
        if not real.is_integer():
            raise InvalidParameterError(f"{name} must be a whole number, got {real}")
        number = int(real)
    if ge is not None and number < ge:
        raise InvalidParameterError(f"{name} must be >= {ge}, got {show(number)}")
    if le is not None and number > le:
        raise InvalidParameterError(f"{name} must be <= {le}, got {show(number)}")
    return number


def check_integer_array(
    value: ArrayLike, name: str, *, ge: float | None = None, le: float | None = None
) -> FloatArray:
    array = check_array(value, name, ge=ge, le=le)
    if (bad := array != np.floor(array)).any():
        raise InvalidParameterError(
            f"{name} must hold whole numbers, got {array[bad][0]}{_where(bad)}"
        )
    return array


def check_alpha(alpha: object) -> float:
    return check_scalar(alpha, "alpha", gt=0, lt=1)


def check_option(value: object, name: str, options: Iterable[Option]) -> Option:
    allowed = tuple(options)
    meant = _SCIPY.get(value, value) if isinstance(value, str) else None
    for option in allowed:
        if option == meant:
            return option
    listed = ", ".join(repr(option) for option in allowed)
    hint = ": the limit is 'asymptotic'" if meant == "normal" and "asymptotic" in allowed else ""
    raise InvalidParameterError(f"{name} must be one of {listed}, got {show(value)}{hint}")


_SCIPY = {"greater": "larger", "less": "smaller"}


def check_flag(value: object, name: str) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise InvalidParameterError(f"{name} must be True or False, got {show(value)}")


def check_items(value: Any, name: str, of: str) -> list[Any]:
    """Return the items of a sequence or another iterable, which is not a string, as a list."""
    if not isinstance(value, (str, bytes)):
        try:
            return list(value)
        except TypeError:
            pass
    raise InvalidParameterError(f"{name} must be a sequence of {of}, got {show(value)}")


def check_length(array: Sequence[Any] | NDArray[Any], name: str, length: int, of: str) -> None:
    """Refuse an array whose first axis does not have ``length`` entries, one for each ``of``."""
    if len(array) != length:
        raise InvalidParameterError(
            f"{name} must have {length} entries, one for each of {of}, got {len(array)}"
        )


def check_broadcast(**shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to which the shapes of the named arguments broadcast."""
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError as error:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InvalidParameterError(
            f"the shapes of {' and '.join(shapes)} must broadcast to one shape, got {listed}"
        ) from error


def check_rng(rng: object) -> np.random.Generator:
    """Return a generator: ``None`` seeds from the system, an int is a seed."""
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is None:
        return np.random.default_rng()
    if _is_integer(rng) and rng >= 0:
        return np.random.default_rng(int(rng))
    raise InvalidParameterError(
        f"rng must be None, an int >= 0 or a numpy.random.Generator, got {show(rng)}"
    )


def check_reps(reps: object, *, ge: int = 1) -> int:
    return check_integer(reps, "reps", ge=ge, le=MAX_REPS)


def check_shape(size: object, name: str = "size") -> tuple[int, ...]:
    """Return ``size``, an int or a tuple of ints, as the shape of an array."""
    lengths = size if isinstance(size, (tuple, list)) else (size,)
    shape = tuple(check_integer(length, name, ge=0) for length in lengths)
    if (entries := prod(shape)) > MAX_DRAWS:
        raise InvalidParameterError(
            f"{name} must have at most {MAX_DRAWS} entries in all, got {show(entries)}: draw in "
            "parts"
        )
    return shape


def check_index(index: Any, shape: tuple[int, ...]) -> None:
    """Refuse what NumPy does not take as an index of an array of this shape."""
    try:
        np.broadcast_to(np.False_, shape)[index]
    except (IndexError, ValueError, TypeError, OverflowError) as error:
        raise InvalidParameterError(
            f"index must be a mask, positions or a slice for shape {shape}, got {show(index)}: "
            f"{one_line(error)}"
        ) from error


def require(module: str, extra: str) -> ModuleType:
    """Import an optional dependency, or say which extra installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{module} is not installed: install it with `pip install 'dpinfer[{extra}]'`"
        ) from error


def show(value: object, most: int = 100) -> str:
    """Return a value as it stands in messages: on one line, and shortened where it is long.

    NumPy scalars stand as the values that they hold, those in a label of several parts as well.
    """
    if isinstance(value, tuple):
        value = tuple(map(plain, value))
    try:
        return one_line(repr(plain(value)), most)
    except Exception:  # a repr may fail in any way, as that of an int of 5,000 digits does
        return f"a value of type {type(value).__name__}"


def plain(value: Any) -> Any:
    """Return the value that a NumPy scalar holds, and anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def show_some(values: Iterable[object], most: int = 8) -> str:
    """Return the first few values as they stand in messages, and how many there are."""
    listed = list(values)
    text = ", ".join(show(value) for value in listed[:most])
    return text if len(listed) <= most else f"{text}, … ({len(listed)} in all)"


def one_line(text: object, most: int = 300) -> str:
    """Return a text on one line and shortened, with what does not print written as escapes."""
    words = " ".join(str(text).split())
    shown = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in words[:most]
    )
    return shown if len(words) <= most else f"{shown}…"


def freeze(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only copy, so that an immutable object can hold it."""
    frozen = np.array(array)
    frozen.flags.writeable = False
    return frozen


class Locked:
    """What stays read-only when it is pickled or copied: arrays and mappings among its fields.

    Pickle makes copies of arrays writeable, and knows no read-only mapping.
    """

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: dict(value) if isinstance(value, MappingProxyType) else value
            for name, value in self.__dict__.items()
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({name: _locked(value) for name, value in state.items()})


def _locked(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    if type(value) is tuple:
        return tuple(map(_locked, value))
    return MappingProxyType(value) if type(value) is dict else value


def _as_real_array(value: ArrayLike, name: str) -> FloatArray:
    if isinstance(value, np.ma.MaskedArray) and np.ma.getmaskarray(value).any():
        raise InvalidParameterError(
            f"{name} must not have masked values{_where(np.ma.getmaskarray(value))}: pass those "
            "that are not masked"
        )
    try:
        array = np.asarray(value)
    except Exception as error:  # the __array__ of another library may fail in any way
        raise InvalidParameterError(
            f"{name} must be a number or a rectangular array of numbers: {one_line(error)}"
        ) from error
    if array.dtype.kind == "O":  # as nullable columns of pandas become, with marks of their own
        missing = [type(item).__name__ == "NAType" for item in array.flat]
        if any(missing):
            array = np.where(np.reshape(missing, array.shape), np.nan, array)
    if array.dtype.kind == "c":
        raise InvalidParameterError(f"{name} must be real, got complex numbers")
    if array.dtype == np.float64:
        return array.astype(np.float64)
    if array.dtype.kind in "iuf":
        with np.errstate(over="ignore"):  # extended precision beyond float64 becomes infinite
            return array.astype(np.float64)
    if array.dtype.kind == "O" and all(_is_plain_number(item) for item in array.flat):
        try:
            return array.astype(np.float64)
        except OverflowError as error:
            raise InvalidParameterError(
                f"{name} must be within ±1.8e308, the range of float64, got a larger whole number"
            ) from error
        except (ValueError, TypeError) as error:
            raise InvalidParameterError(
                f"{name} must hold real numbers: {one_line(error)}"
            ) from error
    if array.size == 0:  # of whatever kind
        return np.empty(array.shape)
    example = next((item for item in array.flat if not _is_plain_number(item)), array.flat[0])
    raise InvalidParameterError(
        f"{name} must hold real numbers, got {show(example)} of type {type(example).__name__}"
    )


def _is_integer(value: object) -> TypeGuard[int]:
    """Whether a value is an integer of Python or NumPy, not a bool and not a span of time."""
    return isinstance(value, (int, np.integer)) and not isinstance(
        value, (bool, np.bool_, np.timedelta64)
    )


def _is_plain_number(item: object) -> bool:
    """Object arrays pass when they hold numbers only: Python ints, fractions, decimals."""
    refused = (bool, np.bool_, str, bytes, complex, np.complexfloating, np.timedelta64)
    if isinstance(item, refused):
        return False
    return isinstance(item, (int, float, np.number)) or hasattr(item, "as_integer_ratio")


def _where(bad: NDArray[np.bool_]) -> str:
    if bad.ndim == 0:
        return ""
    position = tuple(int(axis[0]) for axis in np.nonzero(bad))
    return f" at position {position[0] if len(position) == 1 else position}"


# Tables of other libraries, brought into the form of pandas where they come in.


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
    protocols = ("__arrow_c_stream__", "__arrow_c_array__", "iloc")
    return any(hasattr(value, protocol) for protocol in protocols) or _is_lazy(value)


def of_axes(value: Any) -> Any:
    """Return an array of xarray as a Series, or as a DataFrame where it has two dimensions.

    Its dimensions name the levels of the labels, which are its coordinates. Other things are
    returned as they are.
    """
    if not (hasattr(value, "dims") and hasattr(value, "to_series")):
        return value
    if value.ndim == 0:
        return value.to_numpy()
    return value.to_pandas() if value.ndim <= 2 else value.to_series()


def as_pandas(value: Any, name: str = "frame", *, index: Index = "none") -> Any:
    """Return a frame or series of another library as that of pandas, and other things as they are.

    A frame gets a plain index, unless ``index`` says that its columns of labels become one: those
    that hold no numbers (``"labels"``), or all but the last (``"all but last"``).
    """
    value = of_axes(value)
    if not is_foreign(value):
        return value
    if _is_lazy(value):
        raise InvalidParameterError(
            f"{name} must be a table that has been computed, got a {type(value).__name__} of "
            f"{_library(value)}: call its collect() or compute()"
        )
    try:
        converted = _converted(value)
    except MissingExtraError:
        raise
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
    value = of_axes(value)
    if not is_foreign(value):
        return value
    table = as_pandas(value, name, index="labels")
    if hasattr(table, "columns"):
        if table.shape[1] != 1:
            return table
        table = table.iloc[:, 0]
    return table.to_numpy() if table.index.names == [None] else table


def as_values(value: Any, name: str = "values") -> Any:
    """Return a table of values as :func:`as_table` does, but none with labels among its values."""
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


def looks_like_label(name: object) -> bool:
    """Whether the name of a column ends with a word for labels, such as year or id."""
    words = re.split(r"[^a-z]+", str(name).lower().rstrip("0123456789"))
    return _LABELS.fullmatch(words[-1]) is not None


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
        steps = np.diff(frame.iloc[:, at].to_numpy(dtype=np.float64, na_value=np.nan))
        counting = len(steps) > 0 and ((steps == 1).all() or (len(steps) > 2 and (steps > 0).all()))
        mixed = len(whole) < frame.shape[1] and not frame.iloc[:, at].duplicated().any()
        if looks_like_label(frame.columns[at]) or (foreign and (counting or mixed)):
            raise InvalidParameterError(
                f"{name} must say which of its columns are labels, got the column "
                f"{show(frame.columns[at])} of whole numbers that look like labels: pass "
                f"dpinfer.with_labels(table, [{show(frame.columns[at])}]) instead of the table, or "
                "with_labels(table, []) if all of them are values"
            )


def _converted(value: Any) -> Any:
    import narwhals as nw
    import pandas as pd

    if _library(value) == "pyarrow":
        return _of_arrow(value)
    table: Any = nw.from_native(value, allow_series=True, pass_through=True)
    if isinstance(table, nw.LazyFrame):  # a relation of DuckDB, a table of Ibis
        return table.collect("pandas").to_native()
    if isinstance(table, (nw.DataFrame, nw.Series)):
        if table.implementation.is_pandas_like():
            return table.to_pandas()
        if table.implementation.is_polars():
            if isinstance(table, nw.Series):
                return _column(table)
            return pd.DataFrame({name: _column(table[name]) for name in table.columns})
        value = table.to_native()
    return _of_arrow(value)


def _column(series: Any) -> Any:
    """Return a column of polars as a Series, without PyArrow."""
    import narwhals as nw
    import pandas as pd

    kind, name = series.dtype, series.name or None
    if isinstance(kind, (nw.Categorical, nw.Enum)):
        items = series.to_list()
        fixed = getattr(kind, "categories", None)  # of an Enum, in their order
        levels = fixed or dict.fromkeys(item for item in items if item is not None)
        return pd.Series(pd.Categorical(items, list(levels), ordered=fixed is not None), name=name)
    plain = kind.is_numeric() and not kind.is_decimal()
    if plain or (kind == nw.Boolean and not series.null_count()):
        return pd.Series(series.to_numpy(), name=name)
    return pd.Series(series.to_list(), name=name, dtype=None if len(series) else object)


def _of_arrow(value: Any) -> Any:
    """Return a table or column that speaks the protocol of Arrow as that of pandas."""
    pa = require("pyarrow", "parquet")
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
    """Whether a value is a query that has not been run, and may give other rows the next time."""
    named = type(value).__name__ == "LazyFrame" and hasattr(value, "collect")
    return named or (hasattr(value, "dask") and hasattr(value, "compute"))


def _is_pandas(value: Any) -> bool:
    """Whether a value is of pandas, or of a library that builds on its classes."""
    return any(base.__module__.partition(".")[0] == "pandas" for base in type(value).__mro__)


def _library(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def _numbers(column: Any) -> bool:
    """Whether a column of objects holds numbers, such as decimals, in the cells that it has."""
    return bool(column.dropna().map(lambda item: hasattr(item, "as_integer_ratio")).all())


_MOMENTS = "mvsk"


def check_moments(moments: Any) -> str:
    """Return the letters m, v, s, k that are asked for, in this order."""
    if not isinstance(moments, str) or not moments or set(moments) - set(_MOMENTS):
        raise InvalidParameterError(f"moments must be letters of {_MOMENTS!r}, got {show(moments)}")
    return "".join(letter for letter in _MOMENTS if letter in moments)


Way = Literal["nearest", "down", "up", "toward zero"]
WAYS: dict[str, tuple[Way, ...]] = {
    "rounding": ("nearest", "down", "up", "toward zero"),
    "bin_size": ("nearest", "down", "up"),
}
"""Which way noisy values may have been rounded, and counts before the noise."""


def step_and_way(given: Any, name: str, way: Way) -> tuple[Any, Way]:
    """Return the step to multiples of which something was rounded, and which way."""
    if not (isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], str)):
        return given, way
    return given[0], check_option(given[1], f"the second part of {name}", WAYS[name])


def rounded_to(values: FloatArray, step: Any, way: Way) -> FloatArray:
    """Round values to multiples of a step, as they are where it is 0."""
    units = np.where(np.greater(step, 0), step, 1.0)
    move = {"nearest": np.rint, "down": np.floor, "up": np.ceil, "toward zero": np.trunc}[way]
    return np.where(np.greater(step, 0), move(values / units) * units, values)


def rounding_reach(
    step: Any, way: Way, whole: Any, rounded: Any = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Return how far what was rounded may be below, and above, what it became; ties either way.

    ``whole``: whether it was a whole number; the step is 0 where nothing was rounded. Toward zero,
    it depends on the sign of what it became.
    """
    whole = np.logical_and(whole, np.equal(step, np.rint(step)))
    if way == "nearest":
        half = 0.5 * np.asarray(step, dtype=np.float64)
        half = np.where(whole, np.floor(half), half)
        return half, half
    span = np.where(whole, np.maximum(np.subtract(step, 1.0), 0.0), step).astype(np.float64)
    up, down = np.equal(way, "up"), np.equal(way, "down")
    if way == "toward zero":
        up, down = np.less_equal(rounded, 0), np.greater_equal(rounded, 0)
    return np.where(up, span, 0.0), np.where(down, span, 0.0)
