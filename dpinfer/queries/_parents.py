"""The parent of each unit, read from parent columns, from codes, and from columns of labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._interchange import as_pandas
from dpinfer._validation import check_array, check_integer, check_items, show, show_some
from dpinfer.errors import InvalidParameterError
from dpinfer.queries._tree import Places
from dpinfer.queries.domain import refusing

if TYPE_CHECKING:
    import pandas as pd


def parents_of_labels(parent: Any) -> tuple[Places, pd.Index | None]:
    """Return the position of the parent of each unit, -1 for none, and the labels of the units."""
    if isinstance(parent, Mapping):
        import pandas as pd

        index = pd.Index(list(parent), dtype=object, tupleize_cols=False)
        parent = pd.Series(list(parent.values()), index=index)
    if hasattr(parent, "columns"):
        raise InvalidParameterError(
            "parent must be a Series, a mapping or an array, got a DataFrame: pass the column with "
            "the parents, or the columns of all levels to Hierarchy.from_columns"
        )
    if not (hasattr(parent, "index") and hasattr(parent, "isna")):
        return _parents_of_positions(parent), None
    labels, none = parent.index, parent.isna().to_numpy()
    refuse_repeated(labels, "parent")
    if not len(labels):
        raise InvalidParameterError("parent must hold at least one unit, got none")
    found = np.full(len(labels), -1)
    try:
        found[~none] = _indexer(labels, parent.array[~none])
    except (TypeError, ValueError, NotImplementedError) as error:
        raise InvalidParameterError(
            "parent must hold a label of a unit, or a missing value, for each unit, got "
            f"{show_some(parent[~none], 4)}"
        ) from error
    lost = (found < 0) & ~none
    if lost.any():
        raise InvalidParameterError(
            f"parent must name units of its index, got {show_some(parent[lost].unique())}: add "
            "these units, with a missing value as the parent of those that have none"
        )
    return found.astype(np.intp), labels


def _indexer(labels: pd.Index, wanted: Any) -> NDArray[np.intp]:
    """Return the positions of labels, which may be tuples, in an index; -1 for those not there."""
    import pandas as pd

    several = isinstance(labels, pd.MultiIndex)
    if several and not len(wanted):
        return np.empty(0, dtype=np.intp)
    found = labels.get_indexer(pd.Index(wanted, tupleize_cols=several))
    return np.asarray(found, dtype=np.intp)


def _parents_of_positions(parent: Any) -> Places:
    array = check_array(parent, "parent", ndim=1)
    found = array.astype(np.intp) if (np.abs(array) <= array.size).all() else None
    if found is None or found.min() < -1 or found.max() >= array.size or (found != array).any():
        beyond = (array < -1) | (array >= array.size) | (array != np.floor(array))
        raise InvalidParameterError(
            f"parent must hold positions of units, 0 to {array.size - 1}, or -1 for units without "
            f"parent, got {array[beyond][0]:g} at position {int(np.argmax(beyond))}; labelled "
            "units need a Series or a mapping"
        )
    return found


def refuse_repeated(labels: pd.Index, name: str) -> None:
    """Refuse labels that stand for two units."""
    if not labels.is_unique:
        twice = labels[labels.duplicated()].unique()
        raise InvalidParameterError(
            f"{name} must name each unit once, repeated are {show_some(twice)}"
        )


def parents_of_codes(
    codes: Iterable[str], lengths: Iterable[int] | None
) -> tuple[Places, pd.Index, Places]:
    """Return parents, labels, and the units above the lowest level that have no children.

    Units above the given ones that are not among them are added at the end.
    """
    import pandas as pd

    listed = _checked_codes(as_pandas(codes, "codes"))
    with refusing(listed, "codes"):
        labels = pd.Index(listed)
    refuse_repeated(labels, "codes")
    size = labels.str.len().to_numpy()
    levels = _checked_lengths(lengths, np.unique(size))
    unknown = ~np.isin(size, levels)
    if unknown.any():
        raise InvalidParameterError(
            f"codes must have the lengths {show_some(levels)}, got {show(labels[unknown][0])}"
        )
    children = labels[size == levels[-1]]
    for length in reversed(levels[:-1]):
        above = children.str.slice(0, length).unique()
        added = above.difference(labels, sort=False)
        labels, size = labels.append(added), np.append(size, np.full(len(added), length))
        children = labels[size == length]
    parent = np.full(len(labels), -1)
    for length, higher in zip(levels[1:], levels, strict=False):
        own = np.flatnonzero(size == length)
        parent[own] = labels.get_indexer(labels[own].str.slice(0, higher))
    return parent, labels, _childless(parent, size < levels[-1])


def _checked_codes(codes: Iterable[str]) -> list[str]:
    single = isinstance(codes, (str, bytes)) or not isinstance(codes, Iterable)
    if single or isinstance(codes, Mapping) or hasattr(codes, "columns"):
        raise InvalidParameterError(f"codes must be a list or column of codes, got {show(codes)}")
    listed = check_items(codes, "codes", "codes")
    wrong = [code for code in listed if not isinstance(code, str)]
    if wrong or not listed:
        raise InvalidParameterError(
            f"codes must hold text, such as '44001', got {show(wrong[0]) if wrong else 'none'}: "
            "read them as text, as numbers lose leading zeros"
        )
    return listed


def _checked_lengths(lengths: Iterable[int] | None, found: NDArray[np.int64]) -> list[int]:
    if lengths is None:
        return [int(length) for length in found]
    levels = [
        check_integer(length, "lengths", ge=0)
        for length in check_items(lengths, "lengths", "whole numbers")
    ]
    if not levels or sorted(set(levels)) != levels:
        raise InvalidParameterError(
            f"lengths must rise, from the highest level to the lowest, got {show(levels)}"
        )
    return levels


def parents_of_columns(columns: Any) -> tuple[Places, pd.Index, Places]:
    """Return parents, labels, and the units above the lowest level that have no children."""
    import pandas as pd

    columns = as_pandas(columns, "columns")
    if not isinstance(columns, pd.DataFrame) or columns.empty:
        raise InvalidParameterError(
            "columns must be a DataFrame with a row for each unit and a column for each level, "
            f"got {show(columns)}"
        )
    missing = columns.isna().to_numpy()
    gap = (missing[:, :-1] & ~missing[:, 1:]).any(axis=1) | missing[:, 0]
    if gap.any():
        raise InvalidParameterError(
            "columns must have no missing label above one that is there, got "
            f"{show(tuple(columns[gap].iloc[0]))} in row {int(np.argmax(gap))}"
        )
    parent, labels, depth = [], [], []
    above, start, stop = np.full(len(columns), -1), 0, 0
    for level in range(columns.shape[1]):
        rows = np.flatnonzero(~missing[:, level])
        own = columns.iloc[rows, level]
        with refusing(own, "each of columns"):
            codes, _ = pd.factorize(own)
        key = (above[rows] + 1) * (len(columns) + 1) + codes
        _, first, number = np.unique(key, return_index=True, return_inverse=True)
        parent.append(above[rows][first])
        labels.extend(columns.iloc[rows[first], : level + 1].itertuples(index=False, name=None))
        start, stop = stop, stop + first.size
        depth.append(np.full(first.size, level))
        above[rows] = start + number
    parents = np.concatenate(parent)
    inner = np.concatenate(depth) < columns.shape[1] - 1
    return parents, pd.Index(labels, tupleize_cols=False), _childless(parents, inner)


def _childless(parent: Places, inner: NDArray[np.bool_]) -> Places:
    """Return the units above the lowest level that are the parent of none."""
    has = np.zeros(parent.size, dtype=bool)
    has[parent[parent >= 0]] = True
    return np.flatnonzero(inner & ~has)
