"""Hierarchies of units, such as the geography of a census: children add up to their parents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import as_pandas, check_array, check_integer, check_items, show, show_some
from dpinfer.errors import InvalidParameterError
from dpinfer.queries.domain import refusing

if TYPE_CHECKING:
    import pandas as pd


# Trees of numbered nodes, laid out so that a pass over them is a pass over sorted arrays.


Places = NDArray[np.intp]


_CHILDREN = 1 << 15
"""Children in a run of families, so that what is computed of them stays in the cache."""


@dataclass(frozen=True, eq=False)
class Families:
    """A run of q neighbouring nodes of one depth that have children, and these."""

    parents: slice | Places  # places of the nodes
    children: slice  # places of all their children
    starts: Places  # (q,): where the children of each begin, counted from ``children.start``
    counts: Places  # (q,): number of children of each


@dataclass(frozen=True, eq=False)
class Tree:
    """Nodes in breadth-first order."""

    order: Places | None  # (n,): the number of the node at each place; None where they are the same
    parent: Places  # (n,): the place of the parent of the node at each place; -1 for roots
    families: tuple[Families, ...]  # from the roots down

    @classmethod
    def of(cls, parent: Places) -> Tree:
        """Lay out nodes with these parents, shape (n,), -1 for roots.

        Nodes in a circle, and those below them, are left out: fewer places than nodes.
        """
        starts = _starts(parent)
        above = parent[starts]
        families = _families(parent, starts) if (above[1:] > above[:-1]).all() else ()
        if families and families[-1].children.stop == parent.size:
            return cls(None, parent, families)
        children, first = _children(parent)
        order = [children[: first[0]]]
        while order[-1].size:
            order.append(_gathered(children, first, order[-1]))
        placed = np.concatenate(order)
        place = np.full(parent.size + 1, -1)  # the last entry, found at -1, is what roots get
        place[placed] = np.arange(placed.size)
        parents = place[parent[placed]]
        return cls(placed, parents, _families(parents, _starts(parents)))

    def __len__(self) -> int:
        return int(self.parent.size)

    def placed(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values, shape (..., n), of numbered nodes in the order of places."""
        return values if self.order is None else values.take(self.order, axis=-1)

    def numbered(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values, shape (..., n), in the order of the numbers of the nodes."""
        if self.order is None:
            return values
        out = np.empty_like(values)
        out[..., self.order] = values
        return out

    def place_of(self, numbers: Places) -> Places:
        """Return the places of numbered nodes."""
        if self.order is None:
            return numbers
        place = np.empty(len(self), dtype=np.intp)
        place[self.order] = np.arange(len(self))
        return place[numbers]


def _children(parent: Places) -> tuple[Places, Places]:
    """Return the nodes sorted by parent, roots first, and where those of each node begin."""
    counts = np.bincount(parent + 1, minlength=parent.size + 1)
    from scipy import sparse

    # the rows of a sparse matrix are sorted by counting, in linear time
    nodes = np.arange(parent.size)
    by_parent = sparse.coo_array(
        (nodes, (parent + 1, nodes)), shape=(parent.size + 1, parent.size)
    ).tocsr()
    return np.asarray(by_parent.data, dtype=np.intp), np.cumsum(counts)


def _gathered(children: Places, first: Places, nodes: Places) -> Places:
    """Return the children of some nodes, node by node."""
    starts = first[nodes]
    counts = first[nodes + 1] - starts
    ends = np.cumsum(counts)
    found: Places = children[np.arange(ends[-1]) + np.repeat(starts - ends + counts, counts)]
    return found


def _starts(parent: Places) -> Places:
    """Return where runs of nodes with one parent begin."""
    first = np.ones(parent.size, dtype=bool)
    np.not_equal(parent[1:], parent[:-1], out=first[1:])
    return np.flatnonzero(first)


def _families(parent: Places, starts: Places) -> tuple[Families, ...]:
    found: list[Families] = []
    stop = int(np.searchsorted(parent, 0))
    while True:
        last = int(np.searchsorted(parent, stop))
        if last == stop:
            return tuple(found)
        low, high = (int(at) for at in np.searchsorted(starts, [stop, last]))
        found.extend(_runs(parent[stop:last], starts[low:high] - stop, stop))
        stop = last


def _runs(parent: Places, starts: Places, first_child: int) -> Iterator[Families]:
    ends = np.append(starts[1:], parent.size)
    begin = 0
    while begin < starts.size:
        end = int(np.searchsorted(starts, starts[begin] + _CHILDREN))
        low, high = int(starts[begin]), int(ends[end - 1])
        nodes = parent[starts[begin:end]]
        neighbours = nodes[-1] - nodes[0] == nodes.size - 1
        yield Families(
            parents=slice(int(nodes[0]), int(nodes[-1]) + 1) if neighbours else nodes,
            children=slice(first_child + low, first_child + high),
            starts=starts[begin:end] - low,
            counts=ends[begin:end] - starts[begin:end],
        )
        begin = end


# The parent of each unit, read from parent columns, from codes, and from columns of labels.


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
    whole = type(parent) is np.ndarray and parent.dtype.kind == "i" and parent.ndim == 1
    array = parent if whole and parent.size else check_array(parent, "parent", ndim=1)
    inside = array.min() >= -1 and array.max() < array.size
    found = array.astype(np.intp) if inside else None
    if found is None or not (whole or (found == array).all()):
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
    has = np.zeros(parent.size, dtype=bool)
    has[parent[parent >= 0]] = True
    return np.flatnonzero(inner & ~has)


@final
class Hierarchy:
    """Units in a tree, of any depth and shape: the children of a unit add up to it.

    Parameters
    ----------
    parent : Series, mapping, or array of int, shape (n,)
        The parent of each unit. A Series or mapping gives the label of the parent under the label
        of the unit, and a missing value (None or NaN) for units without parent. An array gives the
        position of the parent, and -1 for units without parent. Several units may have none.
    not_exhausted : label, iterable of labels, or True; default ()
        Units whose children are not all here, so that they do not add up to it (labels, or
        positions where units have no labels). True: all of them.

    Raises
    ------
    InvalidParameterError
        If a parent is not a unit, units are in a circle, or labels are repeated.

    See Also
    --------
    Hierarchy.from_codes : From codes whose beginnings name the units above, such as geoids.
    Hierarchy.from_columns : From one column of labels for each level.

    Examples
    --------
    >>> import pandas as pd
    >>> from dpinfer.queries import Hierarchy
    >>> parent = pd.Series({"state": None, "north": "state", "south": "state", "town": "north"})
    >>> hierarchy = Hierarchy(parent, not_exhausted="north")
    >>> hierarchy
    Hierarchy(4 units, 2 of them leaves, in 3 levels; 1 not exhausted)
    >>> hierarchy.depth
    state    0
    north    1
    south    1
    town     2
    dtype: int64
    """

    def __init__(self, parent: Any, *, not_exhausted: Any = ()) -> None:
        numbers, labels = parents_of_labels(parent)
        self._set(numbers, labels, not_exhausted)

    @classmethod
    def from_codes(
        cls, codes: Iterable[str], lengths: Iterable[int] | None = None, *, not_exhausted: Any = ()
    ) -> Hierarchy:
        """Read the hierarchy from codes whose beginnings are the codes of the units above.

        Parameters
        ----------
        codes : iterable of str
            Codes of units, each once, in any order; those of the lowest level suffice. Those above
            that are not among them are added at the end.
        lengths : iterable of int, optional
            Lengths of the codes of all levels; by default those that occur. 0 adds one unit, of
            the empty code, above all others.
        not_exhausted
            As for the class: units above the lowest level without children must be named.

        Examples
        --------
        >>> Hierarchy.from_codes(["44", "44001", "44003", "44001030100"], not_exhausted=["44003"])
        Hierarchy(4 units, 2 of them leaves, in 3 levels; 1 not exhausted)
        """
        return cls._complete(*parents_of_codes(codes, lengths), not_exhausted)

    @classmethod
    def from_columns(cls, columns: pd.DataFrame, *, not_exhausted: Any = ()) -> Hierarchy:
        """Read the hierarchy from a column of labels for each level, the highest first.

        Parameters
        ----------
        columns : DataFrame
            A row for each unit of the lowest level, or of any level, then with missing values in
            the columns of the levels below it. Rows may be repeated.
        not_exhausted
            As for the class: units above the lowest level without children must be named.

        Returns
        -------
        Hierarchy
            The units level by level. Their labels are tuples of the labels from the highest level
            down to their own, so that labels of a level need not differ between parents.

        Examples
        --------
        >>> import pandas as pd
        >>> places = pd.DataFrame({"state": ["A", "A", "B"], "town": ["x", "y", "x"]})
        >>> list(Hierarchy.from_columns(places).labels)
        [('A',), ('B',), ('A', 'x'), ('A', 'y'), ('B', 'x')]
        """
        return cls._complete(*parents_of_columns(columns), not_exhausted)

    @classmethod
    def _complete(
        cls, parent: Places, labels: pd.Index, childless: Places, not_exhausted: Any
    ) -> Hierarchy:
        """Return the hierarchy of units, none of which may lack its children unannounced."""
        self = cls.__new__(cls)
        self._set(parent, labels, not_exhausted)
        lacking = np.setdiff1d(childless, self._open)
        if lacking.size:
            raise InvalidParameterError(
                f"units above the lowest level must have children, none have {self.names(lacking)}:"
                " add them, or name these units in not_exhausted"
            )
        return self

    def _set(self, parent: Places, labels: pd.Index | None, not_exhausted: Any) -> None:
        parent.flags.writeable = False
        self._parent = parent
        self._labels = labels
        self._open = self._listed(not_exhausted)
        # a unit without children has no rest to tell apart from it
        opened = self._open[self._has_children()[self._open]] if self._open.size else self._open
        self._tree = Tree.of(np.concatenate([parent, opened]) if opened.size else parent)
        if len(self._tree) < parent.size + opened.size:
            lost = np.ones(parent.size + opened.size, dtype=bool)
            lost[self._tree.order] = False
            raise InvalidParameterError(
                "parent must lead from every unit to one without parent, got circles that keep "
                f"{self.names(np.flatnonzero(lost[: parent.size]))} from that"
            )

    def _listed(self, not_exhausted: Any) -> Places:
        """Return the positions of the units named as not exhausted; of all parents for True."""
        if isinstance(not_exhausted, (bool, np.bool_)) and not_exhausted:
            return np.flatnonzero(self._has_children())
        single = isinstance(not_exhausted, (str, bytes, tuple)) and not_exhausted != ()
        if single or not isinstance(not_exhausted, Iterable):
            not_exhausted = [not_exhausted]
        if isinstance(not_exhausted, (Mapping, Set)):  # their order does not matter here
            not_exhausted = list(not_exhausted)
        return np.unique(self.positions(not_exhausted, "not_exhausted"))

    @property
    def labels(self) -> pd.Index | None:
        """Labels of the units, if they have any."""
        return self._labels

    @property
    def parent(self) -> NDArray[np.intp]:
        """Position of the parent of each unit, -1 for units without parent; shape (n,)."""
        return self._parent

    @property
    def not_exhausted(self) -> Any:
        """Labels, or positions, of the units whose children do not add up to them."""
        return self._open if self._labels is None else self._labels[self._open]

    @property
    def tree(self) -> Tree:
        """The units in breadth-first order; each unit that is not exhausted has one child more.

        Where there are n units, that of the j-th unit with children that is not exhausted has the
        number n + j.
        """
        return self._tree

    @property
    def depth(self) -> Any:
        """Depth of each unit, 0 for those without parent: a Series where units have labels."""
        depth = np.zeros(len(self._tree), dtype=np.intp)
        for families in self._tree.families:
            depth[families.children] = np.repeat(depth[families.parents] + 1, families.counts)
        found = self._tree.numbered(depth)[: len(self)]
        if self._labels is None:
            return found
        import pandas as pd

        return pd.Series(found, index=self._labels)

    @property
    def leaves(self) -> NDArray[np.intp]:
        """Positions of the units without children."""
        return np.flatnonzero(~self._has_children())

    def positions(self, units: Any, name: str = "units") -> NDArray[np.intp]:
        """Return the positions (k,) of units from their labels, or positions where they have none.

        Messages call the argument ``name``.
        """
        if self._labels is None:
            return _checked_positions(units, len(self), name)
        return _found_labels(units, self._labels, name)

    def _has_children(self) -> NDArray[np.bool_]:
        found = np.zeros(len(self) + 1, dtype=bool)  # the last entry is found at -1
        found[self._parent] = True
        return found[:-1]

    def names(self, positions: NDArray[np.intp]) -> str:
        """Return the first few of some units as messages name them."""
        return show_some(positions.tolist() if self._labels is None else self._labels[positions])

    def __len__(self) -> int:
        return int(self._parent.size)

    def __repr__(self) -> str:
        levels = int(np.max(np.asarray(self.depth))) + 1
        opened = f"; {self._open.size} not exhausted" if self._open.size else ""
        leaves = f"{self.leaves.size} of them leaves"
        return f"Hierarchy({len(self)} units, {leaves}, in {levels} levels{opened})"


_UNLIKE = (TypeError, ValueError, KeyError, OverflowError, NotImplementedError)
"""What pandas raises for labels that an index cannot hold."""


def _found_labels(units: Any, labels: pd.Index, name: str) -> NDArray[np.intp]:
    import pandas as pd

    several = isinstance(labels, pd.MultiIndex)
    try:
        listed = _listed_units(units, name)
        if not isinstance(listed, pd.Index):
            listed = pd.Index(list(listed) if several else listed, tupleize_cols=several)
        flat = isinstance(listed, pd.MultiIndex) and not several
        wanted = listed.to_flat_index() if flat else listed
        if len(wanted) and wanted.nlevels != labels.nlevels:
            raise ValueError("labels of another kind")
        found = np.asarray(labels.get_indexer(wanted), dtype=np.intp)
    except _UNLIKE as error:
        raise InvalidParameterError(
            f"{name} must be a list or array of labels of units, such as {show(labels[0])}, got "
            f"{show(units)}"
        ) from error
    if (found < 0).any():
        levels = (
            f", with the levels {show_some(listed.names)}: keep that of the units, as by "
            f"release.sum({show(listed.names[0])})"
        )
        raise InvalidParameterError(
            f"{name} must name units of the hierarchy, got {show_some(wanted[found < 0])}"
            f"{levels if flat else ''}"
        )
    return found


def _checked_positions(units: Any, size: int, name: str) -> NDArray[np.intp]:
    listed = _listed_units(units, name)
    try:
        found = np.asarray(listed) if len(listed) else np.empty(0, dtype=np.intp)
    except ValueError:  # ragged
        found = np.empty(())
    if (
        found.ndim != 1
        or found.dtype.kind not in "iu"
        or (found < 0).any()
        or (found >= size).any()
    ):
        raise InvalidParameterError(
            f"{name} must hold positions of units, whole numbers from 0 to {size - 1}, got "
            f"{show(units)}"
        )
    return found.astype(np.intp)


def _listed_units(units: Any, name: str) -> Any:
    """Return a list or array of units as it is, and other iterables that have an order as a list.

    Masked arrays become lists too, with None, which is no unit, where they are masked.
    """
    if isinstance(units, (Mapping, Set)) or hasattr(units, "columns"):
        raise InvalidParameterError(f"{name} must be a list or array of units, got {show(units)}")
    masked = isinstance(units, np.ma.MaskedArray)
    if hasattr(units, "__array__") and not masked and np.ndim(units):
        return units
    return check_items(units.astype(object).filled(None) if masked else units, name, "units")
