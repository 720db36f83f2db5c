"""Hierarchies of units, such as the geography of a census: children add up to their parents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import check_items, show, show_some
from dpinfer.errors import InvalidParameterError
from dpinfer.queries._parents import parents_of_codes, parents_of_columns, parents_of_labels
from dpinfer.queries._tree import Places, Tree

if TYPE_CHECKING:
    import pandas as pd


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
            Codes of units, each once, in any order; those of the lowest level suffice.
        lengths : iterable of int, optional
            Lengths of the codes of all levels; by default those that occur. 0 adds one unit, of
            the empty code, above all others.
        not_exhausted
            As for the class.

        Returns
        -------
        Hierarchy
            The units of ``codes``, then those above them that are not in ``codes``.

        Raises
        ------
        InvalidParameterError
            If a unit above the lowest level has no children and is not in ``not_exhausted``, a
            code has another length than the levels, or codes are repeated.

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
            As for the class; the labels are tuples.

        Returns
        -------
        Hierarchy
            The units level by level. Their labels are tuples of the labels from the highest level
            down to their own, so that labels of a level need not differ between parents.

        Raises
        ------
        InvalidParameterError
            If a label is missing above one that is not, or a unit above the lowest level has no
            children and is not in ``not_exhausted``.

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
        """Return the positions of units.

        Parameters
        ----------
        units : list or array
            Their labels, or positions where units have no labels.
        name : str, default "units"
            What messages call the argument.

        Returns
        -------
        array of int, shape (k,)
            Positions, in the same order.

        Raises
        ------
        InvalidParameterError
            If one of them is not a unit of the hierarchy.
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
    """Return the positions of units by their labels."""
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
        raise InvalidParameterError(
            f"{name} must name units of the hierarchy, got {show_some(wanted[found < 0])}"
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
