"""Checks of the parts of a release, each of which returns the part in its normal form."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._interchange import as_table, as_values
from dpinfer._validation import (
    FloatArray,
    check_array,
    check_integer_array,
    check_option,
    check_scalar,
    freeze,
    show,
)
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.queries import Workload
from dpinfer.queries._labels import check_distinct
from dpinfer.releases._tables import is_single_column
from dpinfer.results.labels import stack_labels

if TYPE_CHECKING:
    import pandas as pd

Bound = float | FloatArray

LARGEST_BIN = 2.0**52

SENSITIVITIES = ("l1", "l2")
GUARANTEES = ("epsilon", "delta", "rho", "mu")


def unlabel(values: Any) -> tuple[Any, pd.Index | None]:
    """Split a Series or DataFrame into values, row by row, and labels; 0, 1, ... are none."""
    import pandas as pd

    values = as_values(values)
    if not hasattr(values, "iloc"):
        return values, None
    if isinstance(values, pd.DataFrame) and not is_single_column(values):
        return values.to_numpy().ravel(), stack_labels(values)
    labels = values.index
    return values.to_numpy().reshape(-1), None if _is_counting(labels) else labels


def _is_counting(labels: pd.Index) -> bool:
    """Whether labels are 0, 1, ..., which pandas gives where there are none."""
    import pandas as pd

    plain = isinstance(labels, pd.RangeIndex) and labels.equals(pd.RangeIndex(len(labels)))
    return plain and labels.name is None


def check_workload(workload: Any, labels: Any, size: int) -> Workload:
    """Return the queries of ``size`` values: the given ones, or one unknown for each value."""
    if workload is None:
        return Workload.identity(size, labels)
    queries = workload if isinstance(workload, Workload) else Workload(workload)
    if len(queries) != size:
        raise IncompatibleReleaseError(
            f"values must have {len(queries)} entries, one for each query of the workload, "
            f"got {size}"
        )
    named = labels is not None and hasattr(workload, "iloc")
    if named and not (_is_counting(workload.index) or workload.index.equals(labels)):
        raise InvalidParameterError(
            "workload must have the labels of the values in the same order: reindex it first"
        )
    if labels is not None:
        return queries.with_labels(labels)
    if not queries.is_identity and queries.labels is not None:
        check_distinct(queries.labels, "labels")
    return queries


def check_bound(value: Any, name: str, size: int, labels: Any = None) -> Bound:
    """Return a bound on each value, infinite where there is none; a Series has their labels."""
    plain, own = unlabel(as_table(value, name))
    if own is not None and hasattr(labels, "equals") and not own.equals(labels):
        raise InvalidParameterError(
            f"{name} must have the labels of the values in the same order: reindex it first"
        )
    bound = check_array(plain, name, finite=False)
    if bound.ndim == 0:
        return float(bound)
    if bound.shape != (size,):
        raise InvalidParameterError(
            f"{name} must be a number or have {size} entries, one for each of the values, "
            f"got shape {bound.shape}"
        )
    return freeze(bound)


def check_threshold(threshold: Any, size: int, labels: Any = None) -> Bound | None:
    """Return the bound that published values reached."""
    return None if threshold is None else check_bound(threshold, "threshold", size, labels)


def check_bin_size(bin_size: Any, size: int, labels: Any = None) -> Bound:
    """Return the number of which the counts became multiples before the noise was added."""
    bound = check_bound(bin_size, "bin_size", size, labels)
    check_integer_array(bound, "bin_size", ge=1, le=LARGEST_BIN)
    return bound


def check_clamp(clamp: Any, size: int, labels: Any = None) -> tuple[Bound, Bound] | None:
    """Return clamping bounds as a pair (lower, upper)."""
    if clamp is None:
        return None
    ends = clamp if isinstance(clamp, (tuple, list)) else (clamp, np.inf)
    if len(ends) != 2:
        raise InvalidParameterError(
            f"clamp must be a lower bound or a pair (lower, upper), got {show(clamp)}"
        )
    lower = check_bound(-np.inf if ends[0] is None else ends[0], "clamp", size, labels)
    upper = check_bound(np.inf if ends[1] is None else ends[1], "clamp", size, labels)
    if np.any(np.asarray(lower) >= upper):
        raise InvalidParameterError(f"clamp must have lower < upper, got {show(clamp)}")
    return lower, upper


def check_sensitivity(sensitivity: Any) -> float | Mapping[str, float] | None:
    """Return a sensitivity: a number, or numbers by norm."""
    if sensitivity is None or isinstance(sensitivity, Mapping):
        return check_mapping(sensitivity, "sensitivity", SENSITIVITIES)
    return check_scalar(sensitivity, "sensitivity", gt=0)


def check_mapping(
    given: Mapping[str, Any] | None, name: str, keys: tuple[str, ...]
) -> Mapping[str, float] | None:
    """Return a read-only mapping of some of the keys to numbers >= 0."""
    if given is None:
        return None
    if not isinstance(given, Mapping) or not given:
        raise InvalidParameterError(
            f"{name} must be a mapping of {', '.join(keys)} to numbers, got {show(given)}"
        )
    checked = {
        check_option(key, f"key of {name}", keys): check_scalar(value, f"{name} {key}", ge=0)
        for key, value in given.items()
    }
    return MappingProxyType(checked)


def check_name(name: object) -> str | None:
    """Return the name of a release."""
    if name is None or isinstance(name, str):
        return name
    raise InvalidParameterError(f"name must be a string, got {show(name)}")
