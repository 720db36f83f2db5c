"""Entries of the inverse of a sparse matrix where its factor has entries.

The inverse Z of M = LLᵀ follows from the last column of L to the first without any other of its
entries (Takahashi, Fagan and Chin 1973; Erisman and Tinney 1975, doi:10.1145/360680.360704). Here
neighbouring columns are taken together: with J such columns, R the rows below and W = L_RJ L_JJ⁻¹,
Z_RJ = -Z_RR W and Z_JJ = L_JJ⁻ᵀL_JJ⁻¹ + WᵀZ_RR W, a sum without cancellation. Z_RR lies within what
was found for the next columns up, since R does. Columns of one depth and shape go together.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray

Places = NDArray[np.intp]

_SLACK = 1024  # zeros that are stored so that neighbouring columns can be taken together
_SHARE = 0.25  # or this share of all entries
_LARGE = 128  # rows or columns from which a block is one of few
_PAIRS = 10_000_000  # pairs of entries of targets that are looked up


class SelectedInverse:
    """The inverse of a symmetric positive definite matrix, where its factor has entries.

    ``lower`` is its Cholesky factor in compressed columns, whose rows are in order.
    """

    def __init__(self, lower: Any) -> None:
        self._size = lower.shape[0]
        column = np.repeat(np.arange(self._size), np.diff(lower.indptr))
        row = lower.indices.astype(np.intp)
        self._start = _first_columns(lower)
        self._count = np.diff(np.append(self._start, self._size))
        self._block = np.repeat(np.arange(len(self._start)), self._count)
        block = self._block[column]
        outside = row >= (self._start + self._count)[block]
        last = column == (self._start + self._count - 1)[block]
        keys = block * self._size + row
        # the last column of a block has the rows of the others, but for entries that happen to be 0
        self._keys = self._closed(keys[outside & last])
        if not _among(keys[outside], self._keys)[1].all():
            self._keys = self._closed(np.unique(keys[outside]))
        self._below = np.searchsorted(self._keys, np.arange(len(self._start) + 1) * self._size)
        self._above, depth = self._parents()
        self._plan(depth)
        # the places of the rows below a block in the block above it
        up = np.repeat(self._above, np.diff(self._below))
        self._within = self._local(up, self._keys % self._size)[0]
        self._fill(row, column, lower.data)

    def forms(self, targets: Any) -> FloatArray:
        """Return t Z tᵀ for the rows t of a sparse array, NaN where that needs other entries."""
        found = np.zeros(targets.shape[0])
        filled = np.diff(targets.indptr).astype(np.intp)
        found[np.cumsum(np.square(filled, dtype=np.float64)) > _PAIRS] = np.nan
        some = np.flatnonzero((filled > 0) & ~np.isnan(found))
        if not len(some):
            return found
        stop = targets.indptr[some[-1] + 1]
        first = np.minimum.reduceat(targets.indices[:stop], targets.indptr[some])
        some = some[np.argsort(self._depth[self._block[first]], kind="stable")]
        filled = filled[some]
        entries = _ranges(targets.indptr[some], filled)
        at, weight = targets.indices[entries].astype(np.intp), targets.data[entries]
        starts = _starts(filled)
        block = self._block[np.minimum.reduceat(at, starts)]
        local, there = self._local(np.repeat(block, filled), at)
        there = np.logical_and.reduceat(there, starts)
        found[some[~there]] = np.nan
        # each pair of entries of a target once
        left = np.arange(len(at))
        more = np.repeat(np.where(there, starts + filled, 0), filled) - left
        more = np.maximum(more, 0)
        right = _ranges(left, more)
        left = np.repeat(left, more)
        product = weight[left] * weight[right] * np.where(left < right, 2.0, 1.0)
        block = np.repeat(block, filled)[left]
        place = self._offset[block] + local[left] * self._width[block] + local[right]
        stops = np.searchsorted(self._depth[block], np.arange(len(self._room) + 1))
        for depth, memory in enumerate(self._sweep()):
            part = slice(stops[depth], stops[depth + 1])
            product[part] *= memory[place[part]]
        some, pairs = some[there], (filled * (filled + 1) // 2)[there]
        if len(some):
            found[some] = np.add.reduceat(product, _starts(pairs))
        return found

    def _closed(self, keys: Places) -> Places:
        """Return rows below blocks, as block × size + row in order, with those of blocks before."""
        ends = self._start + self._count
        while True:
            block, row = np.divmod(keys, self._size)
            first = np.flatnonzero(np.diff(block, prepend=-1))
            above = np.full(len(self._start), -1)
            above[block[first]] = self._block[row[first]]
            up = above[block]
            inherited = (up * self._size + row)[row >= ends[up]]
            missing = inherited[~_among(inherited, keys)[1]]
            if not len(missing):
                return np.asarray(keys)
            keys = np.unique(np.concatenate([keys, missing]))

    def _parents(self) -> tuple[Places, Places]:
        """Return the block of the first row below each, -1 for none, and the depth of each."""
        first = self._below[:-1]
        has = self._below[1:] > first
        above = np.full(len(self._start), -1)
        above[has] = self._block[self._keys[first[has]] % self._size]
        depth, up = [0] * len(above), above.tolist()
        for block in range(len(up) - 1, -1, -1):
            if up[block] >= 0:
                depth[block] = depth[up[block]] + 1
        return above, np.array(depth)

    def _plan(self, depth: Places) -> None:
        """Put blocks of one depth and shape together, and place them in memory."""
        own, below = _padded(self._count), _padded(np.diff(self._below))
        order = np.lexsort((below, own, depth))
        shapes = np.stack([depth, own, below])[:, order]
        cuts = np.flatnonzero(np.diff(shapes, axis=1).any(axis=0)) + 1
        self._batches = [
            (order[start:stop], *shapes[:, start].tolist())
            for start, stop in pairwise([0, *cuts.tolist(), len(order)])
        ]
        self._depth, self._own, self._width = depth, own, own + below
        self._room = np.bincount(depth, np.square(self._width)).astype(np.intp)
        self._panel = np.zeros(len(order), dtype=np.intp)
        self._panel[order] = _starts((self._width * own)[order])
        square = np.square(self._width)[order]
        offset = _starts(square)
        first = np.searchsorted(depth[order], depth[order])  # each depth has memory of its own
        self._offset = np.zeros(len(order), dtype=np.intp)
        self._offset[order] = offset - offset[first]

    def _local(self, block: Places, at: Places) -> tuple[Places, NDArray[np.bool_]]:
        """Return the place of unknowns among those of a block and the rows below, if there."""
        local = at - self._start[block]
        there = (local >= 0) & (local < self._count[block])
        outside = np.flatnonzero(~there)
        block = block[outside]
        place, there[outside] = _among(block * self._size + at[outside], self._keys)
        local[outside] = self._own[block] + place - self._below[block]
        return np.where(there, local, 0), there

    def _fill(self, row: Places, column: Places, data: FloatArray) -> None:
        """Store the columns of the Cholesky factor, those of a block in one array."""
        block = self._block[column]
        local, _ = self._local(block, row)
        own = self._own[block]
        place = self._panel[block] + local * own + column - self._start[block]
        self._values = np.zeros(int((self._width * self._own).sum()))
        self._values[place] = data
        spare = self._own - self._count  # columns that are not there: those of the identity
        which = np.repeat(np.arange(len(spare)), spare)
        at = _ranges(self._count, spare)
        self._values[self._panel[which] + at * self._own[which] + at] = 1.0

    def _sweep(self) -> Iterator[FloatArray]:
        """Yield the inverse within the blocks of each depth, from the last columns down."""
        memory = before = np.empty(0)
        now = -1
        for blocks, depth, own, below in self._batches:
            if depth != now:
                if now >= 0:
                    yield memory
                before, memory, now = memory, np.empty(self._room[depth]), depth
            width = own + below
            start = self._panel[blocks[0]]
            panel = self._values[start : start + len(blocks) * width * own]
            panel = panel.reshape(len(blocks), width, own)
            start = self._offset[blocks[0]]
            out = memory[start : start + len(blocks) * width * width]
            self._invert(panel, blocks, before, out.reshape(len(blocks), width, width))
        yield memory

    def _invert(
        self, panel: FloatArray, blocks: Places, before: FloatArray, out: FloatArray
    ) -> None:
        """Find the inverse within blocks (k × width × width) from what is above them."""
        own = panel.shape[2]
        if panel.shape[1] == own and len(panel) == 1:
            out[0] = _squared(panel[0])
            return
        inverse = _inverted(panel[:, :own])
        top = np.swapaxes(inverse, 1, 2) @ inverse
        if panel.shape[1] == own:
            out[...] = top
            return
        below = panel.shape[1] - own
        above = self._above[blocks]
        rest = self._below[blocks + 1] - self._below[blocks]
        at = self._below[blocks][:, np.newaxis] + np.minimum(
            np.arange(below), rest[:, np.newaxis] - 1
        )
        local = self._within[at]
        lines = self._offset[above][:, np.newaxis] + local * self._width[above][:, np.newaxis]
        corner = before[lines[:, :, np.newaxis] + local[:, np.newaxis, :]]
        weights = panel[:, own:] @ inverse
        beside = corner @ weights
        out[:, own:, own:] = corner
        out[:, own:, :own] = -beside
        out[:, :own, own:] = -np.swapaxes(beside, 1, 2)
        out[:, :own, :own] = top + np.swapaxes(weights, 1, 2) @ beside


def _first_columns(lower: Any) -> Places:
    """Return the first of each run of columns that are taken together."""
    counts = np.diff(lower.indptr)
    size = len(counts)
    parent = np.full(size, -1)
    more = counts > 1
    parent[more] = lower.indices[lower.indptr[:-1][more] + 1]
    joined = (parent == np.arange(1, size + 1)).tolist()
    if all(joined[:-1]) and (counts[: 1 - counts[0]] == counts[0]).all():  # a band
        columns = np.arange(1, size + 1)
        spare_zeros = columns * (columns - 1) // 2
        step = max(1, int(np.searchsorted(spare_zeros, _SLACK, side="right")))
        return np.arange(0, size, step)
    length = counts.tolist()
    first, start, stored = [0], 0, 0
    for column in range(size - 1):
        stored += length[column]
        own = column + 2 - start
        full = own * (own + 1) // 2 + own * (length[column + 1] - 1)
        spare = full - stored - length[column + 1]
        if not joined[column] or spare > max(_SLACK, _SHARE * full):
            start, stored = column + 1, 0
            first.append(start)
    return np.array(first, dtype=np.intp)


def _padded(sizes: Places) -> Places:
    """Round sizes up, so that few differ: to powers of 2, or by an eighth at most from 32 on.

    Those above `_LARGE` are left: more numbers take longer there than more batches.
    """
    power = np.frexp(np.maximum(sizes - 1, 0).astype(np.float64))[1]
    step = 1 << np.where(sizes < 32, power, power - 4)
    return np.where(sizes > _LARGE, sizes, -(-sizes // step) * step)


def _inverted(lower: FloatArray) -> FloatArray:
    """Invert lower triangular matrices (k × c × c)."""
    from scipy.linalg.lapack import dtrtri

    if lower.shape[1] == 1:
        return 1.0 / lower
    if len(lower) > lower.shape[1]:  # many small ones: column by column for all
        found = np.zeros_like(lower)
        for row in range(lower.shape[1]):
            found[:, row] = -(lower[:, row, np.newaxis, :row] @ found[:, :row])[:, 0]
            found[:, row, row] += 1.0
            found[:, row] /= lower[:, row, row, np.newaxis]
        return found
    if len(lower) == 1:
        return np.asarray(dtrtri(lower[0], lower=1)[0])[np.newaxis]
    return np.stack([dtrtri(one, lower=1)[0] for one in lower])


def _squared(lower: FloatArray) -> FloatArray:
    """Return the inverse of LLᵀ."""
    from scipy.linalg.lapack import dpotri

    found = dpotri(lower.T)[0]  # the upper triangle, and zeros
    found += np.triu(found, 1).T
    return np.asarray(found)


def _ranges(starts: Any, lengths: Places) -> Places:
    """Return the whole numbers from each start on, so many each."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total) + np.repeat(starts - (ends - lengths), lengths))


def _starts(lengths: Places) -> Places:
    return np.asarray(np.cumsum(lengths) - lengths)


def _among(wanted: Places, keys: Places) -> tuple[Places, NDArray[np.bool_]]:
    """Return where sorted keys have some numbers, and whether they do."""
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.intp), np.zeros(len(wanted), dtype=bool)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    found: NDArray[np.bool_] = keys[place] == wanted
    return place, found
