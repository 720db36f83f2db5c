"""Noisy marginals as they were given, checked and brought in the order of domain and hierarchy."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._interchange import as_pandas, is_foreign, with_index
from dpinfer._validation import FloatArray, check_array, check_length, show, show_some
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.tables._measured import PlacedMarginal, chunk_rows
from dpinfer.estimation.tables._schema import Names, TableSchema
from dpinfer.mechanisms import NoiseLaw
from dpinfer.queries import Domain, Hierarchy

if TYPE_CHECKING:
    import pandas as pd

_LARGEST = 1e100


@dataclass(frozen=True, eq=False)
class ReadMarginal:
    """The values of a marginal with the units they belong to.

    Parameters
    ----------
    names : tuple of str
        The attributes and groupings it keeps, as they were given.
    kept : int
        Which axes these are.
    values : array, shape (m, r, ...)
        Values in the order of the block and the axes, with 1 for those it sums over.
    unit : array of int, shape (m,), or None
        Positions of their units; None where they are all units in order.
    law : NoiseLaw
        The law of the noise of each cell, of shape () or (m,).
    variance : array of float, shape (m,)
        Its variance.
    """

    names: Names
    kept: int
    values: NDArray[Any]
    unit: NDArray[np.intp] | None
    law: NoiseLaw
    variance: FloatArray

    @property
    def units(self) -> NDArray[np.intp]:
        """Positions of the units, shape (m,)."""
        return np.arange(len(self.values)) if self.unit is None else self.unit

    def placed(self, hierarchy: Hierarchy) -> PlacedMarginal:
        """Return the values at the places of the tree."""
        tree = hierarchy.tree
        exact = self.variance == 0.0
        precision = np.divide(1.0, self.variance, out=np.zeros(exact.shape), where=~exact)
        if self.unit is None and tree.order is None and len(tree) == len(hierarchy):
            return PlacedMarginal(self.kept, self.values, None, precision, exact)
        row = np.full(len(tree), -1)
        row[self.units] = np.arange(len(self.values))
        row = tree.placed(row)
        there = row >= 0
        row[~there] = 0
        return PlacedMarginal(
            self.kept, self.values, row, np.where(there, precision[row], 0.0), there & exact[row]
        )


def refuse_unreadable(
    values: NDArray[Any], names: Names, unit: NDArray[np.intp] | None, hierarchy: Hierarchy
) -> None:
    """Refuse values that are not finite, or whose squares might not be."""
    if values.dtype.kind != "f":
        return
    step = chunk_rows(prod(values.shape[1:]))
    for start in range(0, len(values), step):
        part = values[start : start + step].astype(np.float64, copy=False).ravel()
        if np.vdot(part, part) <= _LARGEST**2:  # one reading is enough in most cases
            continue
        bad = ~(np.abs(part) <= _LARGEST)
        if bad.any():
            row = start + np.flatnonzero(bad.reshape((-1, values[0].size)).any(axis=1))
            raise InvalidParameterError(
                f"values of the marginal {show(names)} must be finite and within "
                f"±{_LARGEST:g}, got {part[bad][0]} in unit "
                f"{hierarchy.names(row if unit is None else unit[row])}"
            )


def read_values(
    values: Any, names: Names, units: Any, schema: TableSchema, hierarchy: Hierarchy
) -> tuple[NDArray[Any], NDArray[np.intp] | None]:
    """Return values, shape (m, levels of each name), and the positions of their units."""
    shape = schema.shape(names)
    labels = None
    foreign = is_foreign(values)
    if foreign:
        values = by_cell(values, names, schema, "values")
    if hasattr(values, "columns") and hasattr(values, "iloc"):
        index = values.index
        labels = None if foreign and index.names == [None] else index
        values = _frame_values(values, names, schema).reshape((-1, *shape))
    elif hasattr(values, "index") and hasattr(values, "to_numpy"):
        values, labels = _series_values(values, names, schema)
    array = _as_numbers(values)
    if array.ndim != 1 + len(shape) or array.shape[1:] != shape or not len(array):
        wanted = ("units", *(str(size) for size in shape))
        raise InvalidParameterError(
            f"values of the marginal {show(names)} must have the shape ({', '.join(wanted)}), got "
            f"{array.shape}"
        )
    if units is None and labels is not None and hierarchy.labels is not None:
        units = None if labels.equals(hierarchy.labels) else labels
        if units is None:
            return array, None
    if units is None:
        check_length(array, "values", len(hierarchy), "units in the hierarchy")
        return array, None
    at = hierarchy.positions(units, "units")
    check_length(at, "units", len(array), "the rows of values")
    first, counts = np.unique(at, return_counts=True)
    if (counts > 1).any():
        raise InvalidParameterError(
            "units must be named once in a marginal, repeated are "
            f"{hierarchy.names(first[counts > 1])}: pass what was published again as a marginal "
            "of its own"
        )
    return array, at


def by_cell(table: Any, names: Names, schema: TableSchema, what: str) -> Any:
    """Return a table of another library as a Series or DataFrame labelled by cells of a marginal.

    In long form it has a column for each attribute, and the numbers in its last; in wide form a
    column for each cell. Other columns have the labels of its rows. What is not a table, or has
    nothing but numbers in one column, becomes an array.
    """
    frame = as_pandas(table, what)
    if not hasattr(frame, "columns"):
        return frame.to_numpy()
    columns = frame.columns.tolist()
    if len(set(columns)) < len(columns):
        raise InvalidParameterError(f"{what} must name each column once, got {show_some(columns)}")
    if not set(names) <= set(columns):
        cells = set(schema.cells(names))
        return with_index(frame, [column for column in columns if column not in cells])
    labels = [column for column in columns[:-1] if column not in names]
    if not columns or columns[-1] in names:
        raise InvalidParameterError(
            f"{what} must have numbers in the last column, got the columns {show_some(columns)}"
        )
    series = with_index(frame, [*labels, *names]).iloc[:, 0]
    return series if labels or names else series.to_numpy()


def _as_numbers(values: Any) -> NDArray[Any]:
    """Return real numbers in the type that they have, without a copy; NaN is found later."""
    array = values if isinstance(values, np.ndarray) else None
    if array is None or isinstance(array, np.ma.MaskedArray) or array.dtype.kind not in "iuf":
        return check_array(values, "values")
    return array if array.dtype.itemsize <= 8 else check_array(array, "values")


def _frame_values(frame: pd.DataFrame, names: Names, schema: TableSchema) -> NDArray[Any]:
    """Return the values of a row for each unit and a column for each cell, in order."""
    wanted = schema.cells(names)
    if frame.columns.equals(wanted):
        return np.asarray(frame.to_numpy())
    columns = frame.columns
    found = columns.get_indexer(wanted) if columns.is_unique else np.full(len(wanted), -1)
    if (found < 0).any() or len(columns) != len(wanted):
        raise InvalidParameterError(
            f"values of the marginal {show(names)} must have a column for each of "
            f"{show_some(wanted, 4)}, got {show_some(columns, 4)}"
        )
    return np.asarray(frame.to_numpy()[:, found])


def _series_values(
    series: pd.Series, names: Names, schema: TableSchema
) -> tuple[NDArray[Any], pd.Index]:
    """Return the values of a Series labelled by unit and levels, and the units."""
    import pandas as pd

    if not names:
        return np.asarray(series.to_numpy()), series.index
    index = series.index
    if index.nlevels <= len(names):
        raise InvalidParameterError(
            f"values of the marginal {show(names)} must be labelled by unit and then by the level "
            f"of each attribute, got labels of {index.nlevels} parts"
        )
    number, units = pd.factorize(index.droplevel(list(range(-len(names), 0))))
    marginal = Domain({name: schema.levels_of(name) for name in names})
    codes = [
        marginal.codes(name, index.get_level_values(at - len(names)), of="row")
        for at, name in enumerate(names)
    ]
    shape = (len(units), *schema.shape(names))
    cell = np.ravel_multi_index((number, *codes), shape)
    if len(series) != prod(shape) or np.unique(cell).size != len(series):
        raise InvalidParameterError(
            f"values of the marginal {show(names)} must hold each of its {prod(shape[1:])} cells "
            "once for each unit: put in those that are 0"
        )
    own = series.to_numpy()
    values = np.empty(len(series), dtype=own.dtype)
    values[cell] = own
    return values.reshape(shape), pd.Index(units)
