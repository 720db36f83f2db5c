"""Long tables: one row a value, with the law of its noise in columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._interchange import as_pandas
from dpinfer._validation import (
    FloatArray,
    check_array,
    check_flag,
    check_items,
    check_parameter,
    show,
    show_some,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import NoiseLaw, as_noise
from dpinfer.queries import SUMMED, Domain, Workload
from dpinfer.releases._laws import ROUNDED, laws_of_rows, parameter_names
from dpinfer.releases._tables import workload_of_labels

if TYPE_CHECKING:
    import pandas as pd


def check_frame(frame: Any) -> pd.DataFrame:
    """Return a table of pandas, or of a library that shares its columns, as a DataFrame."""
    import pandas as pd

    table = as_pandas(frame)
    if isinstance(table, pd.DataFrame):
        return table
    raise InvalidParameterError(
        f"frame must be a DataFrame of pandas, polars, pyarrow or the like, got {show(frame)}"
    )


def column(frame: pd.DataFrame, name: Any) -> pd.Series:
    """Return a column of a frame, or say that it is not there."""
    found = sum(_same(name, known) for known in frame.columns)
    if found != 1:
        raise InvalidParameterError(
            f"frame must have {'one' if found else 'a'} column {show(name)}, "
            f"got {show_some(frame.columns)}"
        )
    return frame[name]


def numbers(frame: pd.DataFrame, spec: Any, name: str, missing: float | None = None) -> Any:
    """Return a number, or the numbers of the column that ``{"column": ...}`` names.

    Missing values of the column become ``missing``; without it they stay NaN.
    """
    if isinstance(spec, str):
        raise InvalidParameterError(
            f"{name} must be a number or {{'column': name}}, got {show(spec)}"
        )
    if not isinstance(spec, Mapping):
        return spec
    values = _floats(column(frame, _column_name(spec, name)))
    return values if missing is None else np.where(np.isnan(values), missing, values)


def bounds(frame: pd.DataFrame, clamp: Any) -> tuple[Any, Any] | None:
    """Return clamping bounds, each of which may be a number or a column."""
    if clamp is None:
        return None
    ends = clamp if isinstance(clamp, (tuple, list)) else (clamp, None)
    if len(ends) != 2:
        raise InvalidParameterError(
            f"clamp must be a lower bound or a pair (lower, upper), got {show(clamp)}"
        )
    return numbers(frame, ends[0], "clamp", -np.inf), numbers(frame, ends[1], "clamp", np.inf)


def law_of_frame(frame: pd.DataFrame, mechanism: Any) -> NoiseLaw:
    """Return the noise of the rows of a frame: a law, or the names of its columns."""
    if not isinstance(mechanism, Mapping):
        return as_noise(mechanism, len(frame), selected=True)
    if "mechanism" not in mechanism:
        raise InvalidParameterError(
            f"mechanism must have the entry 'mechanism', got {show(dict(mechanism))}"
        )
    unknown = [key for key in mechanism if key not in ("mechanism", *parameter_names())]
    if unknown:
        raise InvalidParameterError(
            f"mechanism must have the entries mechanism and {', '.join(parameter_names())}, "
            f"got {show(unknown[0])}"
        )
    parameters = {
        key: _parameter(frame, spec, key) for key, spec in mechanism.items() if key != "mechanism"
    }
    return laws_of_rows(_names(frame, mechanism["mechanism"]), parameters, len(frame))


def workload_of_frame(
    frame: pd.DataFrame, attributes: Sequence[str] | str | None, domain: Domain | None
) -> Workload:
    """Return the queries of the rows of a frame from its columns of attributes."""
    if attributes is None:
        named = any(name is not None for name in frame.index.names)
        return Workload.identity(len(frame), frame.index if named else None)
    names = [attributes] if isinstance(attributes, str) else attributes
    names = check_items(names, "attributes", "names of columns")
    labels = {name: column(frame, name) for name in names}
    return workload_of_labels([labels], [len(frame)], domain)


def labels_of_frame(frame: pd.DataFrame, names: Sequence[str]) -> pd.Index | None:
    """Return labels from columns, with the mark of "summed over" in empty cells."""
    import pandas as pd

    columns = [frame[name].astype(object).fillna(SUMMED).infer_objects() for name in names]
    if len(columns) == 1:
        return pd.Index(columns[0])
    return pd.MultiIndex.from_arrays(columns, names=names) if columns else None


def values_of_frame(frame: pd.DataFrame, name: str) -> FloatArray:
    """Return the published values of a frame."""
    return check_array(column(frame, name).to_numpy(), name, ndim=1)


def _same(name: object, known: object) -> bool:
    """Whether a name is that of a column; what does not compare or hash is not."""
    try:
        return hash(name) == hash(known) and bool(name == known)
    except (TypeError, ValueError):
        return False


def _floats(values: pd.Series) -> FloatArray:
    """Return a column of numbers, NaN where it is missing."""
    if values.dtype.kind == "f" and isinstance(values.dtype, np.dtype):
        return np.asarray(values, dtype=np.float64)
    missing = values.isna().to_numpy()
    if not missing.any():
        return check_array(values.to_numpy(), str(values.name), ndim=1, finite=False)
    filled = values.astype(object).where(~missing, 0.0)
    out = check_array(filled.to_numpy(), str(values.name), ndim=1, finite=False, nonempty=False)
    return np.where(missing, np.nan, out)


def _parameter(frame: pd.DataFrame, spec: Any, name: str) -> Any:
    """Return a parameter of the law: a number, or one for each row."""
    if isinstance(spec, (Mapping, str)):
        return numbers(frame, spec, name)
    if name == ROUNDED:
        return float(check_flag(spec, name))
    index = getattr(spec, "index", None) if hasattr(spec, "iloc") else None
    same = index is not None and index.equals(frame.index)
    values = check_array(spec, name) if same else check_parameter(spec, name)
    if values.shape not in ((), (len(frame),)):
        raise InvalidParameterError(
            f"{name} must be a number, {{'column': name}}, or have {len(frame)} entries, one for "
            f"each of the rows, got shape {values.shape}"
        )
    return values


def _names(frame: pd.DataFrame, spec: Any) -> str | pd.Series:
    """Return the name of the law of each row, or the one name of all."""
    if isinstance(spec, str):
        return spec
    if not isinstance(spec, Mapping):
        raise InvalidParameterError(
            f"mechanism must be a name or {{'column': name}}, got {show(spec)}"
        )
    values = column(frame, _column_name(spec, "mechanism"))
    if (missing := values.isna().to_numpy()).any():
        row = int(np.flatnonzero(missing)[0])
        raise InvalidParameterError(f"mechanism must have a name in every row, got none in {row}")
    return values


def _column_name(spec: Mapping[str, Any], name: str) -> Any:
    if set(spec) != {"column"}:
        raise InvalidParameterError(f"{name} must be {{'column': name}}, got {show(dict(spec))}")
    return spec["column"]
