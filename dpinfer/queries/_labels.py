"""Labels of queries and cells."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any

from dpinfer._interchange import as_pandas
from dpinfer._validation import check_length, show
from dpinfer.errors import InvalidParameterError
from dpinfer.queries.domain import refusing, show_label

if TYPE_CHECKING:
    import pandas as pd


def check_labels(labels: Any, name: str, length: int, of: str) -> pd.Index | None:
    """Return labels as an index of distinct entries, one for each of ``of``; None stays None."""
    if labels is None:
        return None
    labels = as_pandas(labels, name)
    if isinstance(labels, (str, bytes, Set)) or not hasattr(labels, "__len__"):
        raise InvalidParameterError(f"{name} must be a sequence of labels, got {show(labels)}")
    import pandas as pd

    with refusing(labels, name):
        index = labels if isinstance(labels, pd.Index) else pd.Index(labels)
        check_length(index, name, length, of)
        check_distinct(index, name)
    return index


def check_distinct(index: pd.Index, name: str) -> None:
    """Refuse labels of which two are the same."""
    if not index.is_unique:
        repeated = show_label(index[index.duplicated()][0])
        raise InvalidParameterError(f"{name} must be distinct, got {repeated} twice")


def match_labels(histogram: Any, columns: pd.Index | None) -> Any:
    """Put a histogram into the order of the cells, if it has labels."""
    if columns is None or not hasattr(histogram, "reindex") or histogram.index.equals(columns):
        return histogram
    if len(histogram) != len(columns) or not histogram.index.isin(columns).all():
        raise InvalidParameterError(
            "histogram must be labelled with the cells of the workload; pass its values as an "
            "array to go by position"
        )
    return histogram.reindex(columns)
