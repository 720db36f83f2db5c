"""Trees of numbered nodes, laid out so that a pass over them is a pass over sorted arrays.

Nodes are placed in breadth-first order: generation by generation, children of one node side by
side and in the order of their parents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.intp]


_CHILDREN = 1 << 15
"""Children in a run of families, so that what is computed of them stays in the cache."""


@dataclass(frozen=True, eq=False)
class Families:
    """A run of neighbouring nodes of one depth that have children, and these.

    Parameters
    ----------
    parents : slice or array of int, shape (q,)
        Places of the nodes.
    children : slice
        Places of all their children.
    starts : array of int, shape (q,)
        Where the children of each begin, counted from ``children.start``.
    counts : array of int, shape (q,)
        Number of children of each.
    """

    parents: slice | Places
    children: slice
    starts: Places
    counts: Places


@dataclass(frozen=True, eq=False)
class Tree:
    """Nodes in breadth-first order.

    Parameters
    ----------
    order : array of int, shape (n,), or None
        The number of the node at each place; None where numbers and places are the same.
    parent : array of int, shape (n,)
        The place of the parent of the node at each place; -1 for roots.
    families : tuple of Families
        From the roots down.
    """

    order: Places | None
    parent: Places
    families: tuple[Families, ...]

    @classmethod
    def of(cls, parent: Places) -> Tree:
        """Lay out nodes with these parents, shape (n,), -1 for roots.

        Nodes in a circle, and those below them, are left out: fewer places than nodes.
        """
        ascending = bool((parent[1:] >= parent[:-1]).all())
        families = _families(parent) if ascending else ()
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
        return cls(placed, parents, _families(parents))

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


def _families(parent: Places) -> tuple[Families, ...]:
    """Cut places in breadth-first order into runs of families."""
    found: list[Families] = []
    stop = int(np.searchsorted(parent, 0))
    while True:
        last = int(np.searchsorted(parent, stop))
        if last == stop:
            return tuple(found)
        own = parent[stop:last]
        starts = np.concatenate([[0], 1 + np.flatnonzero(own[1:] != own[:-1])])
        found.extend(_runs(own, starts, stop))
        stop = last


def _runs(parent: Places, starts: Places, first_child: int) -> Iterator[Families]:
    """Cut the families of one depth into runs."""
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
