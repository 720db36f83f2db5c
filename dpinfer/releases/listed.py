"""Lists of cells of which some were not published, as they did not reach a threshold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray, as_values, check_array, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.independent import Mechanism, as_noise, integer_cells
from dpinfer.releases.coerce import missing_cells, noisy
from dpinfer.releases.values import NoisyValues
from dpinfer.results.labels import stack_labels


class ListedCells(NamedTuple):
    """Cells of a list, with a value that is not used where they are not published."""

    x: NoisyValues
    there: NDArray[np.bool_]
    first: FloatArray
    """The smallest value that is published, -inf where all are."""
    last: FloatArray
    """The largest that is not."""
    given: bool
    """Whether the list says which cells were not published, or that there are none."""

    @property
    def is_processed(self) -> bool:
        """Whether more was done to the values than noise and a threshold."""
        rule = self.x.rule
        return self.x.weights is not None or (
            rule is not None
            and bool(
                rule.after
                or np.greater(rule.before, 1).any()
                or (np.isfinite(rule.lowest) | np.isfinite(rule.highest)).any()
            )
        )


def listed_cells(
    values: Any,
    mechanism: Mechanism | None,
    threshold: Any,
    cells: Any = None,
    *,
    name: str = "values",
) -> ListedCells:
    """Return the cells of a list, NaN where unpublished, checked; ``cells`` has labels of all."""
    import pandas as pd

    if hasattr(values, "__noisy__"):
        x = noisy(values, mechanism=mechanism, threshold=threshold, name=name)
        if cells is None:
            return _cells(x, np.ones(len(x), dtype=bool), given=False)
        bound = -np.inf if x.rule is None else x.rule.threshold
        if x.weights is not None or x.noises.law.shape or np.ndim(bound):
            raise InvalidParameterError(
                "cells must be left out for a release whose laws or thresholds differ by value: "
                "give a Series of all cells, NaN where unpublished, with mechanism= and threshold="
            )
        values, mechanism, threshold = pd.Series(x.values, x.labels), x.noises.law, bound
    table = as_values(values, name)
    if hasattr(table, "columns"):
        table = pd.Series(table.to_numpy().ravel(), stack_labels(table))
    if cells is not None:
        table = _reindexed(table, cells)
    held, lost = missing_cells(table)
    complete = isinstance(table, np.ma.MaskedArray) or not lost.any()
    if complete:
        x = noisy(table, mechanism=mechanism, threshold=threshold, name=name)
        return _cells(x, np.ones(len(x), dtype=bool), given=cells is not None)
    array = check_array(np.where(lost, 0.0, held), name)
    bounds = np.full(1, -np.inf) if threshold is None else _plain(threshold)
    if bounds.size not in (1, array.size):
        raise InvalidParameterError(
            f"threshold must be a number or have one entry for each of the {array.size} cells, got "
            f"{bounds.size}"
        )
    bounds = np.broadcast_to(bounds.ravel(), array.size)
    if (bounds[lost] == -np.inf).any():
        raise InvalidParameterError(
            "threshold must be given for every cell that is NaN, the value that it did not reach"
        )
    fill = np.ceil(bounds)
    if lost.all() and not isinstance(mechanism, Mapping):  # no warning of rounding
        fill = np.where(_whole(mechanism, array.size), fill, fill + 0.5)
    array = np.where(lost, fill, array)
    given = pd.Series(array, table.index) if hasattr(table, "iloc") else array
    x = noisy(given, mechanism=mechanism, threshold=threshold, name=name)
    return _cells(x, ~lost, given=True)


def _plain(threshold: Any) -> FloatArray:
    table = as_values(threshold, "threshold")
    return check_array(table, "threshold", finite=False).ravel()


def _whole(mechanism: Any, size: int) -> Any:
    return integer_cells(as_noise(mechanism, size, selected=True), size)


def _reindexed(table: Any, cells: Any) -> Any:
    import pandas as pd

    if isinstance(cells, (int, np.integer)) and not isinstance(cells, bool):
        size = missing_cells(table)[0].size
        if cells != size:
            raise InvalidParameterError(
                f"cells must be the number of values, published and NaN, {size}, or the labels of "
                f"all cells, got {show(cells)}"
            )
        return table
    if not hasattr(table, "reindex") or not np.ndim(cells):
        raise InvalidParameterError(
            "cells must be the labels of all cells, for values with labels, or the number of "
            f"values where none is missing, got {show(cells)}"
        )
    index = cells if isinstance(cells, pd.Index) else pd.Index(list(cells), name=table.index.name)
    if not index.is_unique or not table.index.is_unique or not table.index.isin(index).all():
        raise InvalidParameterError(
            "cells must hold each label once, and those of all values: the list was made without "
            "looking at what was published"
        )
    return table.reindex(index)


def _cells(x: NoisyValues, there: NDArray[np.bool_], *, given: bool) -> ListedCells:
    bound = np.broadcast_to(-np.inf if x.rule is None else x.rule.threshold, len(x))
    if x.weights is not None:  # for those who refuse them to say why
        return ListedCells(x, there, bound, bound, given)
    whole = integer_cells(x._own_law(), len(x))
    first = np.where(whole, np.ceil(bound), bound)
    return ListedCells(x, there, first, np.where(whole, first - 1.0, first), given)
