"""Best linear unbiased estimates of tables on all nodes of a tree: one pass up, one pass down.

In the basis of mean and deviations each coefficient of the tables is a scalar on the tree, and
those of one class share their weights. Tables are gone through some places at a time, none of
which is the parent of another one: up from the last places, down from the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.estimation.hierarchies._passes import Gains
from dpinfer.estimation.tables._axes import Axes
from dpinfer.estimation.tables._householder import reflect
from dpinfer.estimation.tables._measured import (
    CONTRADICTION,
    MeasuredTables,
    chunk_rows,
)
from dpinfer.queries._tree import Places, Tree


@dataclass(frozen=True, eq=False)
class ClassGains:
    """How the estimates of the coefficients of one class depend on what was measured.

    Parameters
    ----------
    scale : array of float, shape (n,)
        Weight of the own measurement of each place, times its variance where it has noise.
    rest : array of float, shape (q,)
        Weight of the children's sum in the estimate from below, for each place with children.
    share : array of float, shape (n,)
        Share of each place in the correction of its parent.
    below : array of float, shape (r,)
        Variances of the estimates of the roots from what is measured in them and below them.
    variance : array of float, shape (n,)
        Variance of the final estimate of each place; infinite where it is not estimable.
    checks : int
        Number of differences between own measurements with noise, or exact ones, and children's
        sums that are not both exact.
    settled : array of bool, shape (q,), or None
        Where own measurement and children's sum are both exact; None for nowhere.
    """

    scale: FloatArray
    rest: FloatArray
    share: FloatArray
    below: FloatArray
    variance: FloatArray
    checks: int
    settled: NDArray[np.bool_] | None

    @classmethod
    def of(cls, tree: Tree, measured: FloatArray, roots: FloatArray | None = None) -> ClassGains:
        """Find weights from the variance of each measurement, shape (n,).

        ``roots`` are the final variances of the roots where more is known of them from outside.
        """
        gains = Gains.of(tree, measured, roots)
        gain = np.concatenate([np.empty(0), *(merger.gain for merger in gains.mergers)])
        total = np.concatenate([np.empty(0), *(merger.total for merger in gains.mergers)])
        parents = np.concatenate(
            [np.empty(0, dtype=np.intp), *(_places(families.parents) for families in tree.families)]
        )
        scale = np.where(np.isfinite(measured), measured, 0.0)
        scale[measured == 0.0] = 1.0
        scale[parents] *= gain
        difference = total + measured[parents]
        settled = difference == 0.0
        return cls(
            scale=scale,
            rest=1.0 - gain,
            share=gains.share,
            below=gains.below[: np.searchsorted(tree.parent, 0)],
            variance=gains.variance,
            checks=int(np.count_nonzero(np.isfinite(difference) & ~settled)),
            settled=settled if settled.any() else None,
        )


def _places(parents: slice | Places) -> Places:
    return np.arange(parents.start, parents.stop) if isinstance(parents, slice) else parents


@dataclass(frozen=True, eq=False)
class TableMessage:
    """What is known of some tables from trees below them.

    Parameters
    ----------
    places : array of int, shape (m,)
        Their places, ascending; leaves of which nothing else is measured.
    tables : array of float, shape (m, 1, ...)
        Estimates of their coefficients.
    variance : array of float, shape (classes, m)
        Variances of these, infinite where nothing is known.
    """

    places: Places
    tables: FloatArray
    variance: FloatArray


@dataclass(frozen=True, eq=False)
class TablePasses:
    """The passes over the tables of a tree of n places.

    A tree can be gone through in parts. The part below some roots sends these up with `message`; in
    the tree above they are leaves. Down, the part takes the final tables of its roots in `down`,
    and the weights found with their final variances.

    Parameters
    ----------
    tree : Tree
        The tree, or a part of one.
    axes : Axes
        The axes of the tables.
    gains : tuple of ClassGains
        The weights of each class.
    received : TableMessage, optional
        What is known from trees below this one.
    """

    tree: Tree
    axes: Axes
    gains: tuple[ClassGains, ...]
    received: TableMessage | None = None

    @classmethod
    def of(
        cls,
        tree: Tree,
        measured: MeasuredTables,
        received: TableMessage | None = None,
        roots: FloatArray | None = None,
    ) -> TablePasses:
        """Find the weights of all classes; ``roots`` as for ClassGains, shape (classes, r)."""
        found = []
        for at, mask in enumerate(measured.axes.classes):
            variance = measured.variance(mask)
            if received is not None:
                variance[received.places] = received.variance[at]
            gains = ClassGains.of(tree, variance, None if roots is None else roots[at])
            if received is not None:
                gains.scale[received.places] = 1.0
            found.append(gains)
        return cls(tree, measured.axes, tuple(found), received)

    @property
    def roots(self) -> int:
        """Number of roots, which have the first places."""
        return int(np.searchsorted(self.tree.parent, 0))

    @property
    def degrees(self) -> int:
        """Number of independent differences between own measurements and children's sums."""
        pairs = zip(self.axes.degrees(), self.gains, strict=True)
        return sum(each * gains.checks for each, gains in pairs)

    def up(self, measured: MeasuredTables) -> Upward:
        """Estimate the tables of all places from what is measured in them and below them."""
        tables = np.empty((len(self.tree), 1, *self.axes.sizes))
        sums = np.zeros((self._parents.size, 1, *self.axes.sizes))
        inside, between = [np.empty(0, dtype=np.intp)], [np.empty(0, dtype=np.intp)]
        for chunk in reversed(self._chunks):
            part, below = tables[chunk.rows], sums[chunk.below]
            measured.collect(chunk.rows, part)
            if measured.exact is not None:
                inside.append(chunk.rows.start + measured.exact.fill(chunk.rows, part))
                between.append(self._parents[chunk.below][self._unequal(chunk, part, below)])
            if self.received is not None:
                low, high = np.searchsorted(
                    self.received.places, [chunk.rows.start, chunk.rows.stop]
                )
                at = self.received.places[low:high] - chunk.rows.start
                part[at] = self.received.tables[low:high]
            self.axes.multiply(part, [gains.scale[chunk.rows] for gains in self.gains])
            if chunk.inner.size:
                known = below.copy()
                self.axes.multiply(known, [gains.rest[chunk.below] for gains in self.gains])
                part[chunk.inner] += known
            if chunk.starts.size:
                sums[chunk.above] += np.add.reduceat(part, chunk.starts, axis=0)
        return Upward(tables, sums, np.concatenate(inside), np.concatenate(between))

    def message(self, upward: Upward) -> TableMessage:
        """Return what is known of the roots, numbered in order, for the tree above."""
        return TableMessage(
            np.arange(self.roots),
            upward.tables[: self.roots].copy(),
            np.array([gains.below for gains in self.gains]),
        )

    def down(self, upward: Upward, roots: FloatArray | None = None) -> FloatArray:
        """Turn estimates from below, in place, to cells of final ones, from those of the roots.

        ``roots`` are final coefficients, shape (r, 1, ...); without them, no more is known than
        from this tree. Sums are lost.
        """
        tables, changes = upward.tables, upward.sums
        if roots is not None:
            tables[: len(roots)] = roots
        for chunk in self._chunks:
            part, below = tables[chunk.rows], changes[chunk.below]
            if chunk.starts.size:
                counts = np.diff(chunk.starts, append=len(part))
                spread = np.repeat(changes[chunk.above], counts, axis=0)
                self.axes.multiply(spread, [gains.share[chunk.rows] for gains in self.gains])
                part += spread
            np.subtract(part[chunk.inner], below, out=below)
            for axis in range(len(self.axes.sizes)):
                reflect(part, 2 + axis)
        return tables

    @cached_property
    def _parents(self) -> Places:
        """The places that have children, one for each family."""
        found = [_places(families.parents) for families in self.tree.families]
        return np.concatenate([np.empty(0, dtype=np.intp), *found])

    @cached_property
    def _chunks(self) -> tuple[Chunk, ...]:
        return tuple(_chunks(self.tree, self._parents, chunk_rows(prod(self.axes.sizes))))

    def _unequal(self, chunk: Chunk, tables: FloatArray, sums: FloatArray) -> NDArray[np.bool_]:
        """Return which tables with children differ from the sums, though both are exact."""
        wrong = np.zeros(len(sums), dtype=bool)
        axes = tuple(range(1, sums.ndim))
        for corner, gains in zip(self.axes.corners, self.gains, strict=True):
            if gains.settled is not None:
                at = np.flatnonzero(gains.settled[chunk.below])
                size = np.maximum(np.abs(sums[at]).max(axis=axes), 1.0)
                own = tables[chunk.inner[at]][corner]
                apart = np.abs(own - sums[at][corner]).max(axis=axes)
                wrong[at] |= apart > CONTRADICTION * size
        return wrong


@dataclass(frozen=True, eq=False)
class Upward:
    """Estimates of n places from below.

    Parameters
    ----------
    tables : array of float, shape (n, 1, ...)
        Coefficients of the estimates from what is measured in and below each place.
    sums : array of float, shape (q, 1, ...)
        Sums over the children of each place that has any.
    inside : array of int
        Places whose own exact values contradict one another.
    between : array of int
        Places whose exact values contradict exact ones below.
    """

    tables: FloatArray
    sums: FloatArray
    inside: Places
    between: Places


@dataclass(frozen=True, eq=False)
class Chunk:
    """Neighbouring places, none of them the parent of another one.

    Parameters
    ----------
    rows : slice
        The places.
    inner : array of int
        Which of them have children, counted from the first.
    below : slice
        The families of these.
    above : slice
        The families of which they are children, the first and last perhaps not all; none of roots.
    starts : array of int
        Where the children of each of these families begin, counted from the first place.
    """

    rows: slice
    inner: Places
    below: slice
    above: slice
    starts: Places


def _chunks(tree: Tree, parents: Places, most: int) -> Iterator[Chunk]:
    """Cut the places of a tree in chunks of at most so many."""
    first = np.searchsorted(tree.parent, parents)  # child of each
    start = 0
    while start < len(tree):
        stop = min(start + most, int(np.searchsorted(tree.parent, start)))
        low, high = (int(at) for at in np.searchsorted(parents, [start, stop]))
        late = int(np.searchsorted(first, stop))
        early = max(int(np.searchsorted(first, start, side="right")) - 1, 0) if late else 0
        yield Chunk(
            rows=slice(start, stop),
            inner=parents[low:high] - start,
            below=slice(low, high),
            above=slice(early, late),
            starts=np.maximum(first[early:late] - start, 0),
        )
        start = stop
