"""Which nodes of a tree of vectors have matrices of their own, and where these are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.queries._tree import Places, Tree

CHUNK = 1 << 16
"""Numbers computed at a time, so that they stay in the cache."""


@dataclass(frozen=True, eq=False)
class VectorLayout:
    """Inner nodes are those with children; dense nodes these, the roots and some leaves.

    Parameters
    ----------
    tree : Tree
        The tree of n places.
    inner, dense : array of int, shapes (p,) and (d,)
        Their places, ascending.
    inner_of, dense_of : array of int, shape (n,)
        The number of each place among them; -1 for others.
    parent : array of int, shape (d,)
        The number of the parent of each dense node among the inner nodes; -1 for roots. Ascending.
    generations : tuple of slice
        Runs of inner nodes of one depth, from the roots down.
    """

    tree: Tree
    inner: Places
    dense: Places
    inner_of: Places
    dense_of: Places
    parent: Places
    generations: tuple[slice, ...]

    @classmethod
    def of(cls, tree: Tree, dense: NDArray[np.bool_]) -> VectorLayout:
        """Lay out a tree of which these leaves, shape (n,), are dense."""
        has_children = np.zeros(len(tree), dtype=np.bool_)
        has_children[tree.parent[tree.parent >= 0]] = True
        inner = np.flatnonzero(has_children)
        chosen = np.flatnonzero(has_children | dense | (tree.parent < 0))
        inner_of = _numbers(inner, len(tree))
        above = tree.parent[chosen]
        parent = np.where(above < 0, -1, inner_of[above])
        generations = []
        for families in tree.families:
            first = int(inner_of[tree.parent[families.children.start]])
            generations.append(slice(first, first + families.starts.size))
        return cls(
            tree,
            inner,
            chosen,
            inner_of,
            _numbers(chosen, len(tree)),
            parent,
            tuple(generations),
        )

    def down(self, size: int) -> Iterator[Places]:
        """Yield numbers of neighbouring inner nodes of one depth, at most so many, roots first."""
        for generation in self.generations:
            for start in range(generation.start, generation.stop, size):
                yield np.arange(start, min(start + size, generation.stop))

    def up(self, size: int) -> Iterator[Places]:
        """Yield the same from the bottom."""
        for generation in reversed(self.generations):
            for start in range(generation.start, generation.stop, size):
                yield np.arange(start, min(start + size, generation.stop))

    def dense_children(self, nodes: Places) -> slice:
        """Return the numbers of the dense children of neighbouring inner nodes."""
        first, last = np.searchsorted(self.parent, [nodes[0], nodes[-1] + 1])
        return slice(int(first), int(last))


class SparseRows:
    """Arrays of one shape for few of many rows; 0 for all others."""

    def __init__(self, rows: int, *shape: int) -> None:
        self._slot = np.full(rows, -1, dtype=np.intp)
        self._data = np.zeros((4, *shape))
        self._used = 0

    @property
    def empty(self) -> bool:
        """Whether there are none."""
        return self._used == 0

    def has(self, rows: Places) -> NDArray[np.bool_]:
        """Tell which rows there are."""
        return self._slot[rows] >= 0

    def get(self, rows: Places) -> FloatArray:
        """Return the arrays of some rows."""
        slots = self._slot[rows]
        found = self._data[slots]
        found[slots < 0] = 0.0
        return found

    def add(self, rows: Places, values: FloatArray) -> None:
        """Add to different rows."""
        fresh = rows[self._slot[rows] < 0]
        used = self._used + fresh.size
        if used > len(self._data):
            data = np.zeros((max(used, 2 * self._used), *self._data.shape[1:]))
            data[: self._used] = self._data[: self._used]
            self._data = data
        before, self._used = self._used, used
        self._slot[fresh] = np.arange(before, used)
        if fresh.size == rows.size:
            self._data[before:used] = values
        else:
            self._data[self._slot[rows]] += values


def families_of(parents: Places) -> tuple[Places, Places]:
    """Return where each parent begins in sorted parents of nodes, and each parent once."""
    first = np.ones(parents.size, dtype=np.bool_)
    np.not_equal(parents[1:], parents[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    return starts, parents[starts]


def _numbers(places: Places, size: int) -> Places:
    """Return the number of each place among some; -1 for others."""
    found = np.full(size, -1)
    found[places] = np.arange(places.size)
    return found
