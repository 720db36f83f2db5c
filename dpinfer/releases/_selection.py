"""Some of the values of a release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._interchange import as_table
from dpinfer._validation import check_array, check_length, one_line, show
from dpinfer.errors import InvalidParameterError
from dpinfer.queries.domain import show_label
from dpinfer.releases._fields import Bound

if TYPE_CHECKING:
    import pandas as pd


def positions_of(where: Any, size: int, labels: pd.Index | None) -> NDArray[np.intp]:
    """Return the positions of values chosen by a mask, by positions, by a slice or by labels."""
    where = as_table(where, "where")
    if isinstance(where, slice):
        return np.arange(size)[where]
    if isinstance(where, (str, bytes)) or not _has_length(where):
        raise InvalidParameterError(
            f"where must be a mask, positions, a slice or a list of labels, got {show(where)}"
        )
    if _holds(where, "b", bool):
        _check_order(where, labels)
        check_length(where, "where", size, "the values")
        if np.ndim(where) != 1:
            raise InvalidParameterError(
                f"where must be one-dimensional, got a mask of shape {np.shape(where)}"
            )
        return np.flatnonzero(where)
    if labels is None or _holds(where, "iu", int):
        positions = check_array(where, "where", ndim=1, ge=-size, le=size - 1).astype(np.intp)
        return np.asarray(np.arange(size)[positions])
    chosen = list(where)
    try:
        found = np.asarray(labels.get_indexer(chosen), dtype=np.intp)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise InvalidParameterError(
            f"where must hold labels of the release, got {show(where)}: {one_line(error)}"
        ) from error
    if (found < 0).any():
        missing = chosen[int(np.flatnonzero(found < 0)[0])]
        raise InvalidParameterError(
            f"where must hold labels of the release, got {show_label(missing)}"
        )
    return found


def _has_length(where: Any) -> bool:
    try:
        len(where)
    except TypeError:
        return False
    return True


def _check_order(where: Any, labels: pd.Index | None) -> None:
    """Refuse a labelled mask in another order than that of the values."""
    import pandas as pd

    if labels is None or not isinstance(where, pd.Series) or where.index.equals(labels):
        return
    if not where.index.equals(pd.RangeIndex(len(where))):
        raise InvalidParameterError(
            "where must be labelled like the values and in their order, got a Series with another "
            "index: reindex it, or pass an array to go by position"
        )


def _holds(where: Any, kinds: str, plain: type) -> bool:
    """Whether a selection holds values of one kind only: of a NumPy kind or of a plain type."""
    if isinstance(where, np.ndarray):
        return where.dtype.kind in kinds
    return len(where) > 0 and all(
        isinstance(item, plain) or (isinstance(item, np.generic) and item.dtype.kind in kinds)
        for item in where
    )


def take_bound(bound: Bound | None, rows: NDArray[np.intp]) -> Bound | None:
    """Return the bounds of some of the values, if there are any."""
    return bound[rows] if isinstance(bound, np.ndarray) else bound
