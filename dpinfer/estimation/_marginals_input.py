"""Which attributes of tables are transformed, and which form a block, with their groupings."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import (
    FloatArray,
    as_pandas,
    check_array,
    check_items,
    check_length,
    is_foreign,
    of_axes,
    show,
    show_some,
    with_index,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation._tree.axes import Axes
from dpinfer.estimation._tree.tables import PlacedMarginal, chunk_rows
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.queries.domain import Domain
from dpinfer.queries.hierarchy import Hierarchy, Places
from dpinfer.releases.noises import Noises

if TYPE_CHECKING:
    import pandas as pd


Names = tuple[str, ...]

_MOST_TRANSFORMED = 16
_MOST_LEVELS = 1024


@dataclass(frozen=True, eq=False)
class Grouping:
    """Coarser levels of an attribute."""

    attribute: str  # the attribute
    # the coarser levels, in the order in which the levels of the attribute have them
    groups: tuple[Hashable, ...]
    matrix: FloatArray  # (groups, levels): 1 where a level is in a group

    @classmethod
    def of(cls, name: str, given: Any, domain: Domain) -> Grouping:
        """Read a pair of attribute and mapping of its levels to groups."""
        if not isinstance(name, str) or name in domain.attributes:
            raise InvalidParameterError(
                "groupings must have names of their own, which are strings and not those of "
                f"attributes, got {show(name)}"
            )
        if not (isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Mapping)):
            raise InvalidParameterError(
                f"groupings must map {show(name)} to a pair of an attribute and a mapping of its "
                f"levels to groups, got {show(given)}"
            )
        attribute, group = given
        domain.check_attributes([attribute])
        levels = domain.levels[attribute]
        if set(group) != set(levels):
            raise InvalidParameterError(
                f"groupings must give a group to each level of {attribute}, {show_some(levels)}, "
                f"got {show_some(group)} for {show(name)}"
            )
        found = [group[level] for level in levels]
        if not all(isinstance(each, Hashable) for each in found):
            raise InvalidParameterError(
                f"groupings must have groups that are labels, got {show_some(found)} for "
                f"{show(name)}"
            )
        groups = Domain({name: list(dict.fromkeys(found))}).levels[name]
        matrix = np.array([[float(each == one) for each in found] for one in groups])
        return cls(attribute, groups, matrix)


@dataclass(frozen=True, eq=False)
class TableSchema:
    """The attributes of tables."""

    domain: Domain  # All of them
    block: Names  # those that are not transformed, of g joint levels
    # Coarser levels, by the name under which marginals have them
    groupings: Mapping[str, Grouping]
    axes: Axes  # those that are transformed

    @classmethod
    def of(cls, domain: Domain, groupings: Any, blocked: Iterable[Any]) -> TableSchema:
        """Read groupings; further attributes, or those of groupings, are in the block."""
        if groupings is not None and not isinstance(groupings, Mapping):
            raise InvalidParameterError(
                "groupings must be a mapping of names to pairs of an attribute and a mapping of "
                f"its levels to groups, got {show(groupings)}"
            )
        found = {name: Grouping.of(name, one, domain) for name, one in (groupings or {}).items()}
        apart = {one.attribute for one in found.values()}
        for name in blocked:
            if not isinstance(name, str) or name not in found:
                domain.check_attributes([name])
                apart.add(name)
        sizes = dict(zip(domain.attributes, domain.shape, strict=True))
        wide = sum(size > 1 and name not in apart for name, size in sizes.items())
        if wide > _MOST_TRANSFORMED:
            raise InvalidParameterError(
                f"domain must have at most {_MOST_TRANSFORMED} attributes of several levels, got "
                f"{wide}: the subsets of them are gone through one by one"
            )
        levels = prod(sizes[name] for name in apart)
        if levels > _MOST_LEVELS:
            raise InvalidParameterError(
                "the attributes with groupings or zeros must have at most "
                f"{_MOST_LEVELS} joint levels, got {levels} for {', '.join(sorted(apart))}"
            )
        return cls(
            domain,
            tuple(name for name in domain.attributes if name in apart),
            found,
            Axes.of({name: size for name, size in sizes.items() if name not in apart}),
        )

    @property
    def levels(self) -> int:
        """Number g of joint levels of the block; 1 without any."""
        return prod(len(self.domain.levels[name]) for name in self.block)

    def check_names(self, attributes: Any) -> Names:
        """Return attributes and groupings that a marginal keeps, each attribute once."""
        if isinstance(attributes, str):
            attributes = (attributes,)
        names = tuple(check_items(attributes, "attributes", "names of attributes"))
        for name in names:
            if not isinstance(name, str) or name not in self.groupings:
                self.domain.check_attributes([name])
        if len({self._attribute(name) for name in names}) < len(names):
            raise InvalidParameterError(f"attributes must be named once each, got {show(names)}")
        return names

    def shape(self, names: Names) -> tuple[int, ...]:
        """Return the number of levels of each of these names."""
        return tuple(len(self.levels_of(name)) for name in names)

    def levels_of(self, name: str) -> tuple[Hashable, ...]:
        """Return the levels of an attribute or grouping."""
        found = self.groupings.get(name)
        return self.domain.levels[name] if found is None else found.groups

    def cells(self, names: Names) -> pd.Index:
        """Return the labels of the cells of a marginal, in row-major order of its names."""
        return Domain({name: self.levels_of(name) for name in names}).cells()

    def kept(self, names: Names) -> int:
        """Return which axes a marginal keeps."""
        return self.axes.set_of(name for name in names if name in self.axes.names)

    def matrix(self, names: Names) -> FloatArray:
        """Return the levels of the block in a marginal, shape (r, g), as sums of its joint ones."""
        by_attribute = {self._attribute(name): name for name in names}
        parts = []
        for attribute in self.block:
            name = by_attribute.get(attribute)
            size = len(self.domain.levels[attribute])
            if name is None:
                parts.append(np.ones((1, size)))
            else:
                found = self.groupings.get(name)
                parts.append(np.eye(size) if found is None else found.matrix)
        joint: FloatArray = np.ones((1, 1))
        for part in parts:
            joint = np.asarray(np.kron(joint, part), dtype=np.float64)
        return joint

    def inward(self, values: NDArray[Any], names: Names) -> NDArray[Any]:
        """Return tables (m, levels of each name) as (m, r, ...), a view where that is possible."""
        order = self._order(names)
        moved = values.transpose((0, *(1 + at for at in order)))
        return moved.reshape((len(values), -1, *self.axes.shape(self.kept(names))))

    def outward(self, tables: NDArray[Any], names: Names) -> NDArray[Any]:
        """Return marginals, shape (m, r, ...), with the levels of each name in their axes."""
        order = self._order(names)
        shape = self.shape(names)
        found = tables.reshape((len(tables), *(shape[at] for at in order)))
        return found.transpose((0, *(1 + int(at) for at in np.argsort(order))))

    def levels_at(self, names: Names, cell: int) -> dict[str, Hashable]:
        """Return the level of each name in a cell of a marginal, counted as `inward` puts them."""
        order, shape = self._order(names), self.shape(names)
        at = np.unravel_index(cell, tuple(shape[each] for each in order))
        return {
            names[each]: self.levels_of(names[each])[int(level)]
            for each, level in zip(order, at, strict=True)
        }

    def _attribute(self, name: Any) -> Any:
        found = self.groupings.get(name)
        return name if found is None else found.attribute

    def _order(self, names: Names) -> list[int]:
        """Return the positions of names in the order of block and axes."""
        rank = [*self.block, *self.axes.names]
        return sorted(range(len(names)), key=lambda at: rank.index(self._attribute(names[at])))


# Noisy marginals as they were given, checked and brought in the order of domain and hierarchy.


_LARGEST = 1e100


@dataclass(frozen=True, eq=False)
class ReadMarginal:
    """The values of a marginal with the units they belong to."""

    names: Names  # the attributes and groupings it keeps, as they were given
    kept: int  # which axes these are
    # (m, r, ...): values in the order of the block and the axes, with 1 for those it sums over
    values: NDArray[Any]
    # (m,): positions of their units; None where they are all units in order
    unit: NDArray[np.intp] | None
    law: NoiseLaw  # the law of the noise of each cell, of shape () or (m,)
    noises: Noises | None  # which noises the cells have, in order, where that is known
    variance: FloatArray  # (m,): its variance

    def placed(self, hierarchy: Hierarchy) -> PlacedMarginal:
        """Return the values at the places of the tree."""
        tree = hierarchy.tree
        exact = self.variance == 0.0
        precision = np.divide(1.0, self.variance, out=np.zeros(exact.shape), where=~exact)
        if self.unit is None and tree.order is None and len(tree) == len(hierarchy):
            return PlacedMarginal(self.kept, self.values, None, precision, exact)
        row = np.full(len(tree), -1)
        row[slice(len(self.values)) if self.unit is None else self.unit] = np.arange(
            len(self.values)
        )
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
    values = of_axes(values)
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
    column for each cell; what has numbers in one column only becomes an array.
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


# Cells of tables that are known to be zero.


@dataclass(frozen=True, eq=False)
class StructuralZeros:
    """Cells that are known to be zero, without noise, in some or all units.

    Parameters
    ----------
    levels : mapping of str to level or list of levels
        The cells: those that have one of these levels in each of these attributes, or groupings.
    units : list or array, optional
        The units: labels, or positions where units have no labels. By default all.

    Raises
    ------
    InvalidParameterError
        By :func:`combine_marginals`, if ``levels`` is empty, names no attribute or grouping or what
        is not a level of it (``True`` is not the level 1), or ``units`` are not in the hierarchy.

    Notes
    -----
    The joint levels of the attributes named, and of those with groupings, at most 1,024, cost time
    in their square and memory in the square for units with children. A zero of a unit says of those
    below it only that they add up to zero, so name them too.

    Examples
    --------
    >>> StructuralZeros({"quarters": ["nursing", "military"], "age": "minor"}, units=["44001"])
    StructuralZeros(levels={'quarters': ['nursing', 'military'], 'age': 'minor'}, units=['44001'])
    """

    levels: Mapping[str, Any]
    units: Any = None


def check_zeros(zeros: Any) -> tuple[StructuralZeros, ...]:
    """Return what ``zeros=`` holds."""
    if zeros is None:
        return ()
    single = isinstance(zeros, StructuralZeros)
    found = [zeros] if single else check_items(zeros, "zeros", "StructuralZeros")
    for one in found:
        if not (
            isinstance(one, StructuralZeros) and isinstance(one.levels, Mapping) and one.levels
        ):
            raise InvalidParameterError(
                "zeros must hold StructuralZeros with the levels of one or more attributes, got "
                f"{show(one)}"
            )
    return tuple(found)


def place_zeros(
    zeros: tuple[StructuralZeros, ...], schema: TableSchema, hierarchy: Hierarchy
) -> NDArray[np.bool_] | None:
    """Return the levels of the block that are zero at each place, shape (n, g)."""
    if not zeros:
        return None
    tree = hierarchy.tree
    found = np.zeros((len(tree), schema.levels), dtype=bool)
    for one in zeros:
        levels = _block_levels(one, schema)
        if one.units is None:
            found[: len(hierarchy)] |= levels
        else:
            found[hierarchy.positions(one.units, "units of zeros")] |= levels
    return found if tree.order is None else found[tree.order]


def _block_levels(one: StructuralZeros, schema: TableSchema) -> NDArray[np.bool_]:
    """Return which joint levels of the block are among the zeros, shape (g,)."""
    parts = {name: np.ones(len(schema.domain.levels[name])) for name in schema.block}
    for name, wanted in one.levels.items():
        levels = schema.levels_of(name)
        single = isinstance(wanted, (str, bytes)) or not isinstance(wanted, Iterable)
        listed = [wanted] if single else check_items(wanted, "levels of zeros", "levels")
        if not listed or not _are_levels(listed, levels):
            raise InvalidParameterError(
                f"zeros must name levels of {name}, {show_some(levels)}, got {show(wanted)}"
            )
        chosen = np.array([float(level in listed) for level in levels])
        grouping = schema.groupings.get(name)
        attribute = name if grouping is None else grouping.attribute
        parts[attribute] = parts[attribute] * (
            chosen if grouping is None else chosen @ grouping.matrix
        )
    joint: FloatArray = np.ones(1)
    for part in parts.values():
        joint = np.asarray(np.kron(joint, part), dtype=np.float64)
    return np.asarray(joint > 0.0)


def _are_levels(listed: list[Any], levels: tuple[Hashable, ...]) -> bool:
    """Tell whether all are levels, of which True is not 1."""
    try:
        marked = {(isinstance(one, (bool, np.bool_)), one) for one in listed}
    except TypeError:  # lists and arrays are no levels
        return False
    return marked <= {(isinstance(one, (bool, np.bool_)), one) for one in levels}


# Numbers of units and cells under the labels that these have.


def labelled(
    found: FloatArray, hierarchy: Hierarchy, schema: TableSchema, names: Names, units: Places | None
) -> Any:
    """Return a marginal of some or all units as DataFrame or Series, if units have labels."""
    labels = hierarchy.labels
    if labels is None:
        return found
    import pandas as pd

    index = labels if units is None else labels[units]
    if not names:
        return pd.Series(found, index=index)
    columns = schema.cells(names)
    return pd.DataFrame(found.reshape((len(found), len(columns))), index=index, columns=columns)


def joined(
    hierarchy: Hierarchy, schema: TableSchema, names: Names, units: Places | None
) -> pd.Index:
    """Return labels of unit, or its number, and levels, for each cell of some or all units."""
    import pandas as pd

    labels: Any = np.arange(len(hierarchy)) if hierarchy.labels is None else hierarchy.labels
    index = pd.Index(labels if units is None else labels[units], tupleize_cols=False)
    if not names:
        return index.rename("unit")
    levels = [list(schema.levels_of(name)) for name in names]
    cells = np.indices([len(one) for one in levels]).reshape((len(names), -1))
    codes = [np.repeat(np.arange(len(index)), cells.shape[1])]
    codes += [np.tile(row, len(index)) for row in cells]
    return pd.MultiIndex(
        levels=[index, *levels], codes=codes, names=["unit", *names], verify_integrity=False
    )
