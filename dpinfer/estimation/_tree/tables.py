"""Best linear unbiased estimates of tables on all nodes of a tree: one pass up, one pass down.

In the basis of mean and deviations each coefficient of the tables is a scalar on the tree, and
those of one class share their weights. Tables are gone through some places at a time, none of
which is the parent of another one: up from the last places, down from the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer.estimation._tree.axes import Assembly, Axes, reflect
from dpinfer.estimation._tree.scalar import Gains
from dpinfer.queries.hierarchy import Places, Tree

# What was measured of the tables of all nodes of a tree.


Rows = slice | Places

_CHUNK = 1 << 18  # Numbers worked on at a time, so that they stay in the cache
CONTRADICTION = 1e-9
"""Difference, relative to the size of the values, up to which exact values agree."""


def chunk_rows(cells: int) -> int:
    """Return how many tables of so many cells to work on at a time."""
    return max(1, _CHUNK // cells)


@dataclass(frozen=True, eq=False)
class PlacedMarginal:
    """The values of one marginal at the places of a tree."""

    kept: int  # the axes it keeps
    # (m, r, ...): its values: the level of the block, then the axes in order, 1 for those it sums
    # over
    values: NDArray[Any]
    # (n,): which of them belong to each place, any where none do; None where they are in order
    row: Places | None
    # (n,): one over the variance; 0 where nothing was measured, or the values are exact
    precision: FloatArray
    exact: NDArray[np.bool_]  # (n,): where the values are exact

    def at(self, rows: Rows, levels: Rows | None = None) -> NDArray[Any]:
        """Return the values at some places, perhaps of some levels of the block only."""
        own = rows if self.row is None else self.row[rows]
        found: NDArray[Any] = self.values[own if levels is None else both_of(own, levels)]
        return found


@dataclass(frozen=True, eq=False)
class MeasuredTables:
    """Marginals measured at the places of a tree, all with the same r levels of the block."""

    axes: Axes  # the axes of the tables
    marginals: tuple[PlacedMarginal, ...]  # their marginals

    @cached_property
    def exact(self) -> ExactTables | None:
        """What is known without noise, if anything is."""
        known = tuple(one for one in self.marginals if one.exact.any())
        return ExactTables(self.axes, known) if known else None

    def variance(self, mask: int) -> FloatArray:
        """Variance of what is measured of each coefficient of a class, shape (n,)."""
        precision = np.zeros(self.marginals[0].precision.shape)
        for one in self.marginals:
            if not mask & ~one.kept:
                precision += self.axes.summed(one.kept) * one.precision
        with np.errstate(divide="ignore"):
            variance: FloatArray = np.divide(1.0, precision, out=precision)
        if self.exact is not None and mask in self.exact.times:
            variance[self.exact.times[mask] > 0.0] = 0.0
        return variance

    @property
    def degrees(self) -> int:
        """Number of noisy values beyond those needed to determine what is measured of a table."""
        found = 0
        for mask, each in zip(self.axes.classes, self.axes.degrees(), strict=True):
            covering = [one for one in self.marginals if not mask & ~one.kept]
            if covering:
                noisy = np.sum([one.precision > 0.0 for one in covering], axis=0)
                exact = np.any([one.exact for one in covering], axis=0)
                found += each * int(np.maximum(noisy - ~exact, 0).sum())
        return found

    @cached_property
    def kept(self) -> int:
        """The axes that any of them keeps."""
        return Assembly.of(self.axes, [one.kept for one in self.marginals]).kept[0]

    @cached_property
    def _assemblies(self) -> dict[tuple[int, ...], Assembly]:
        """The steps that add marginals up, by the shape of what becomes of them."""
        kept = [one.kept for one in self.marginals]
        return {
            self.axes.shape(most): Assembly.of(self.axes, [most, *kept])
            for most in (self.kept, self.axes.full)
        }

    def collect(self, rows: Rows, out: FloatArray, levels: Rows | None = None) -> None:
        """Add up values over variances of the coefficients at some places, into ``out``.

        That has all axes, or those that any marginal keeps, and some levels or all.
        """
        weights = [(one, one.precision[rows]) for one in self.marginals]
        there = [(one, one.at(rows, levels), own) for one, own in weights if own.any()]
        _assemble(self._assemblies[out.shape[2:]], there, out)


@dataclass(frozen=True, eq=False)
class MergedTables:
    """The same merged to one value of each coefficient, for some places at a time."""

    measured: MeasuredTables
    # of each class (n,): the variance; 0 where nothing is measured, None where nothing is anywhere
    variance: tuple[FloatArray | None, ...]

    @classmethod
    def of(cls, measured: MeasuredTables) -> tuple[MergedTables, list[FloatArray]]:
        """Merge marginals; the precisions of the values of each class, shape (n,), come second."""
        found: list[FloatArray | None] = []
        precision = []
        for mask in measured.axes.classes:
            own = measured.variance(mask)
            with np.errstate(divide="ignore"):
                precision.append(1.0 / own)
            there = np.isfinite(own)
            own[~there] = 0.0
            found.append(own if there.any() else None)
        return cls(measured, tuple(found)), precision

    def at(
        self, places: Places, levels: Rows | None = None
    ) -> tuple[list[FloatArray | None], Places]:
        """Return values of each class at ascending places, shape (m, r, k); 0 where there are none.

        Those of some ``levels`` only can be had where there are no exact ones. Places whose exact
        values contradict one another come second.
        """
        axes, exact = self.measured.axes, self.measured.exact
        number = np.arange(self.measured.marginals[0].values.shape[1])
        size = number.size if levels is None else number[levels].size
        part = np.empty((places.size, size, *axes.shape(self.measured.kept)))
        self.measured.collect(places, part, levels)
        wrong = np.empty(0, dtype=np.intp)
        zero = np.zeros(places.size)
        own = [zero if one is None else one[places] for one in self.variance]
        if exact is not None:
            axes.multiply(part, own)
            wrong = exact.fill(places, part)
        found: list[FloatArray | None] = []
        for corner, factor, there in zip(axes.corners, own, self.variance, strict=True):
            chosen = part[corner]
            if exact is None and there is not None:
                chosen = chosen * columns(factor, part.ndim)
            found.append(None if there is None else chosen.reshape((*chosen.shape[:2], -1)))
        return found, wrong


@dataclass(frozen=True, eq=False)
class ExactTables:
    """The marginals that are known without noise at places of a tree."""

    axes: Axes
    marginals: tuple[PlacedMarginal, ...]

    @cached_property
    def times(self) -> dict[int, FloatArray]:
        """By what multiples of the coefficients of each class the exact ones add up, (n,)."""
        found = {
            mask: np.zeros(self.anywhere.shape)
            for mask in self.axes.classes
            if not mask & ~self.kept
        }
        for mask, times in found.items():
            for one in self.marginals:
                if not mask & ~one.kept:
                    times += self.axes.summed(one.kept) * one.exact
        return found

    @cached_property
    def anywhere(self) -> NDArray[np.bool_]:
        """Where anything is known; shape (n,)."""
        return np.asarray(np.any([one.exact for one in self.marginals], axis=0))

    @cached_property
    def _assembly(self) -> Assembly:
        return Assembly.of(self.axes, [one.kept for one in self.marginals])

    @property
    def kept(self) -> int:
        """The axes that any of them keeps."""
        return self._assembly.kept[0]

    def collect(self, places: Places) -> FloatArray:
        """Return the mean of what is known of the coefficients at some places, 0 for nothing."""
        levels = self.marginals[0].values.shape[1]
        out = np.empty((places.size, levels, *self.axes.shape(self.kept)))
        weights = [(one, one.at(places), one.exact[places]) for one in self.marginals]
        _assemble(self._assembly, weights, out)
        for mask, corner in zip(self.axes.classes, self.axes.corners, strict=True):
            if mask in self.times:
                out[corner] /= columns(np.maximum(self.times[mask][places], 1.0), out.ndim)
        return out

    def fill(self, rows: Rows, out: FloatArray) -> Places:
        """Fill in what is known of the coefficients; return where that contradicts itself."""
        at = np.flatnonzero(self.anywhere[rows])
        if not at.size:
            return at
        places = at + rows.start if isinstance(rows, slice) else rows[at]
        mean = self.collect(places)
        for mask, corner in zip(self.axes.classes, self.axes.corners, strict=True):
            if mask in self.times:
                known = self.times[mask][places] > 0.0
                out[(at[known], *corner[1:])] = mean[known][corner]
        return np.asarray(places[self.contradictions(places, mean)])

    def contradictions(self, places: Places, mean: FloatArray) -> NDArray[np.bool_]:
        """Return at which places values differ from the marginals of their mean coefficients."""
        wrong = np.zeros(places.size, dtype=bool)
        for one in self.marginals:
            at = np.flatnonzero(one.exact[places])
            values = one.at(places[at])
            expected = marginal_of(self.axes, one.kept, mean[at])
            axes = tuple(range(1, values.ndim))
            size = np.maximum(np.abs(values).max(axis=axes), 1.0)
            wrong[at] |= np.abs(values - expected).max(axis=axes) > CONTRADICTION * size
        return wrong


def _assemble(
    assembly: Assembly,
    found: list[tuple[PlacedMarginal, NDArray[Any], NDArray[Any]]],
    out: FloatArray,
) -> None:
    """Add up the coefficients of marginals, times weights of their rows, into ``out``."""
    rooms = [np.empty((*out.shape[:2], *shape)) for shape in assembly.shapes[1:]]
    parts = dict(zip(assembly.kept, [out, *rooms], strict=True))
    empty = set(parts)
    for one, values, weight in found:
        factor = columns(weight * assembly.roots[one.kept], out.ndim)
        if one.kept in empty:
            np.multiply(values, factor, out=parts[one.kept])
            empty.remove(one.kept)
        else:
            parts[one.kept] += values * factor
    for kept in empty:
        parts[kept].fill(0.0)
    assembly.run(list(parts.values()))


def columns(numbers: FloatArray, ndim: int) -> FloatArray:
    """Return numbers, one for each table, with further axes so that they go with the tables."""
    return numbers.reshape((-1, *(1,) * (ndim - 1)))


def blocked(matrix: FloatArray, tables: FloatArray) -> FloatArray:
    """Return tables, shape (k, g, ...), with other levels of the block, shape (r, g)."""
    if len(matrix) == matrix.shape[1]:  # groups of one level each, in order
        return tables
    found = matrix @ tables.reshape((*tables.shape[:2], -1))
    return found.reshape((len(tables), len(matrix), *tables.shape[2:]))


def both_of(rows: Rows, levels: Rows) -> Any:
    """Return the index of some levels of some tables."""
    several = isinstance(rows, np.ndarray) and isinstance(levels, np.ndarray)
    return (np.asarray(rows)[:, np.newaxis] if several else rows), levels


def marginal_of(axes: Axes, kept: int, coefficients: FloatArray) -> FloatArray:
    """Return the marginals that keep these axes from coefficients of tables."""
    found = coefficients[axes.constant(kept)] * sqrt(axes.summed(kept))
    reflect(found)
    return found


@dataclass(frozen=True, eq=False)
class ClassGains:
    """How the estimates of the coefficients of one class depend on what was measured."""

    # (n,): weight of the own measurement of each place, times its variance where it has noise
    scale: FloatArray
    # (q,): weight of the children's sum in the estimate from below, for each place with children
    rest: FloatArray
    share: FloatArray  # (n,): share of each place in the correction of its parent
    # (r,): variances of the estimates of the roots from what is measured in them and below them
    below: FloatArray
    # (n,): variance of the final estimate of each place; infinite where it is not estimable
    variance: FloatArray
    # number of differences between own measurements with noise, or exact ones, and children's
    # sums that are not both exact
    checks: int
    # (q,): where own measurement and children's sum are both exact; None for nowhere
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


Known = Mapping[str, FloatArray]  # what is known of some tables


@dataclass(frozen=True, eq=False)
class Received:
    """What is known of leaves from the parts below them."""

    places: Places  # (m,): their places, ascending
    known: Known  # (m, ...): what is known of their tables


@dataclass(frozen=True, eq=False)
class TablePasses:
    """The passes over the tables of a tree of n places.

    A tree can be gone through in parts. The part below some roots sends these up with `message`; in
    the tree above they are leaves. Down, the part takes the final tables of its roots in `down`,
    and the weights found with their final variances.
    """

    tree: Tree  # the tree, or a part of one
    axes: Axes  # the axes of the tables
    gains: tuple[ClassGains, ...]  # the weights of each class
    # what is known of leaves from trees below this one, of which nothing else is measured:
    # coefficients ``tables``, shape (m, 1, ...), and their ``variance``, (m, classes)
    received: Received | None = None

    @classmethod
    def of(
        cls,
        tree: Tree,
        measured: MeasuredTables,
        received: Received | None = None,
        roots: FloatArray | None = None,
    ) -> TablePasses:
        """Find the weights of all classes; ``roots`` as for ClassGains, shape (r, classes)."""
        found = []
        for at, mask in enumerate(measured.axes.classes):
            variance = measured.variance(mask)
            if received is not None:
                variance[received.places] = received.known["variance"][:, at]
            gains = ClassGains.of(tree, variance, None if roots is None else roots[:, at])
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
                inside.append(measured.exact.fill(chunk.rows, part))
                between.append(self._parents[chunk.below][self._unequal(chunk, part, below)])
            if self.received is not None:
                low, high = np.searchsorted(
                    self.received.places, [chunk.rows.start, chunk.rows.stop]
                )
                at = self.received.places[low:high] - chunk.rows.start
                part[at] = self.received.known["tables"][low:high]
            self.axes.multiply(part, [gains.scale[chunk.rows] for gains in self.gains])
            if chunk.inner.size:
                known = below.copy()
                self.axes.multiply(known, [gains.rest[chunk.below] for gains in self.gains])
                part[chunk.inner] += known
            if chunk.starts.size:
                lines = part.reshape((len(part), -1))
                sums[chunk.above] += (chunk.families @ lines).reshape(-1, *part.shape[1:])
        return Upward(tables, sums, np.concatenate(inside), np.concatenate(between))

    def message(self, upward: Upward) -> Known:
        """Return what is known of the roots, in order, for the tree above."""
        return {
            "tables": upward.tables[: self.roots].copy(),
            "variance": np.stack([gains.below for gains in self.gains], axis=1),
        }

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
            reflect(part)
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
    """Estimates of n places from below."""

    # (n, 1, ...): coefficients of the estimates from what is measured in and below each place
    tables: FloatArray
    sums: FloatArray  # (q, 1, ...): sums over the children of each place that has any
    inside: Places  # Places whose own exact values contradict one another
    between: Places  # Places whose exact values contradict exact ones below


@dataclass(frozen=True, eq=False)
class Chunk:
    """Neighbouring places, none of them the parent of another one."""

    rows: slice  # the places
    inner: Places  # which of them have children, counted from the first
    below: slice  # the families of these
    # the families of which they are children, the first and last perhaps not all; none of roots
    above: slice
    # where the children of each of these families begin, counted from the first place
    starts: Places

    @cached_property
    def families(self) -> Any:
        """What adds up the places of each of these families, in less time than `reduceat`."""
        from scipy.sparse import csr_array

        size = self.rows.stop - self.rows.start
        ends = np.append(self.starts, size)
        return csr_array((np.ones(size), np.arange(size), ends), shape=(self.starts.size, size))


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


# Estimates of tables on trees, held as cells.


_PERMUTED = 16
"""Parts in which tables are brought in another order, to need no room for all of them twice."""

_LINE = 8  # neighbouring numbers that memory is read by


@dataclass(frozen=True, eq=False)
class Tables:
    """The cells of tables at the places of a tree."""

    axes: Axes  # the transformed axes of the tables

    def at(self, places: Rows) -> FloatArray:
        """Return the tables, shape (m, g, ...), at some places; perhaps only for a while."""
        raise NotImplementedError

    def coefficients(self, places: Rows) -> FloatArray:
        """Return the coefficients of the tables at some places, shape (m, g, ...)."""
        tables = np.array(self.at(places))
        reflect(tables)
        return tables

    def marginal(self, kept: int, matrix: FloatArray, places: Rows) -> FloatArray:
        """Return the marginals that keep these axes and levels of the block, shape (m, r, ...).

        A view where that is possible.
        """
        return summed_to(self.axes, kept, matrix, self.at(places))


@dataclass(frozen=True, eq=False)
class CellTables(Tables):
    """The cells of n tables, in the order of their numbers."""

    found: FloatArray  # (n, g, ...): the cells: the level of the block, then the axes
    # (n,): the number of the table at each place of the tree; None where these are the same
    order: Places | None

    @classmethod
    def placed(cls, axes: Axes, tables: FloatArray, order: Places | None) -> CellTables:
        """Take tables in the order of places, and bring them in that of their numbers in place."""
        if order is not None:
            place = np.empty_like(order)
            place[order] = np.arange(order.size)
            lines = tables.reshape((len(tables), -1))
            step = max(lines.shape[1] // _PERMUTED, _LINE)
            for start in range(0, lines.shape[1], step):
                part = slice(start, start + step)
                lines[:, part] = lines[:, part].take(place, axis=0)
        return cls(axes, tables, order)

    def at(self, places: Rows) -> FloatArray:
        """Return the tables at some places; a view where possible."""
        return np.asarray(self.found[places if self.order is None else self.order[places]])

    def numbered(self, kept: int, matrix: FloatArray, number: int) -> FloatArray:
        """Return those of so many tables, the first by number; perhaps these, read-only."""
        if kept == self.axes.full and len(matrix) == self.found.shape[1]:
            shared = self.found[:number]
            shared.flags.writeable = False
            return shared
        out = np.empty((number, len(matrix), *self.axes.shape(kept)))
        step = chunk_rows(self.found[0].size)
        for start in range(0, number, step):
            rows = slice(start, min(start + step, number))
            out[rows] = summed_to(self.axes, kept, matrix, self.found[rows])
        return out


def summed_to(axes: Axes, kept: int, matrix: FloatArray, cells: FloatArray) -> FloatArray:
    """Return the marginals of tables that keep these axes and levels of the block."""
    summed = tuple(2 + axis for axis in range(len(axes.sizes)) if not kept >> axis & 1)
    return blocked(matrix, cells.sum(axis=summed, keepdims=True) if summed else cells)
