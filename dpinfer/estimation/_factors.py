"""Sparse symmetric systems of least squares: what factors cost, solutions, parts of an inverse."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer.errors import ConvergenceError, InvalidParameterError

if TYPE_CHECKING:
    from scipy import sparse


MOST_WORK = 3e10  # sum of the squares of the columns of a factor that takes about a minute
_HOPELESS = 10  # times that work, by a simple order: no better one is looked for
_NARROW = 100  # squared widths of an envelope for each entry, which take no longer than an order
_EVEN = 3.0  # a band that is filled to a third is factorised as one
_SURELY_SMALL = 2e4  # entries of a system that is factorised in seconds whatever its pattern
_QUICK = 2e6  # products of a band that take less than the set-up of sparse factors
_ORDER = "MMD_AT_PLUS_A"
_TOLERANCE = 1e-9
_ROUNDING = 1e-13
_BLOCK = 16  # right sides solved together: more of them do not fit into the cache
_REFINEMENTS = 6


class AugmentedSystem:
    """The equations [V A; Aᵀ 0] [g; h] = [p; q] for a sparse A (m × r) of full column rank.

    V is the diagonal of ``variance``; rows with variance zero are constraints and must be linearly
    independent. With p = y and q = 0, h is the least-squares solution; with p = 0 and q a target,
    g holds its weights (Björck 1996, Numerical Methods for Least Squares Problems, §1.1.4 and
    §5.1.2, doi:10.1137/1.9781611971484). Unlike the normal equations it stays sparse when a
    row, such as a total, is dense.
    """

    def __init__(self, matrix: sparse.csr_array, variance: FloatArray) -> None:
        from scipy.sparse import block_array, csc_array, diags_array

        self._rows, self._columns = _scales(matrix, variance)
        scaled = diags_array(self._rows) @ matrix @ diags_array(self._columns)
        noisy = diags_array((variance > 0).astype(np.float64))
        self._system = csc_array(block_array([[noisy, scaled], [scaled.T, None]], format="csc"))
        try:
            self._factors = factorise(self._system, diag_pivot_thresh=0.1)
        except RuntimeError as error:
            raise ConvergenceError(
                f"the normal equations of the workload ({matrix.shape[0]} values, "
                f"{matrix.shape[1]} unknowns) are singular: {error}"
            ) from error

    @property
    def filled(self) -> int:
        """Entries of the factors."""
        return int(self._factors.nnz)

    def solve(self, top: FloatArray, bottom: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return g and h for right sides p (m or m × k) and q (r or r × k)."""
        if top.ndim == 1:
            g, h = self.solve(top[:, None], bottom[:, None])
            return g[:, 0], h[:, 0]
        g, h = np.empty_like(top), np.empty_like(bottom)
        rows, columns = self._rows[:, None], self._columns[:, None]
        for start in range(0, top.shape[1], _BLOCK):
            part = slice(start, start + _BLOCK)
            right = np.concatenate([rows * top[:, part], columns * bottom[:, part]])
            upper, lower = np.split(self._refine(np.asfortranarray(right)), [len(rows)])
            g[:, part], h[:, part] = rows * upper, columns * lower
        return g, h

    def _refine(self, right: FloatArray) -> FloatArray:
        """Solve with iterative refinement until the residual is as small as rounding allows."""
        solution = np.asarray(self._factors.solve(right))
        size = np.abs(right).max(axis=0, initial=0.0)
        best, best_error = solution, np.inf
        for _ in range(_REFINEMENTS):
            residual = right - self._system @ solution
            with np.errstate(invalid="ignore"):
                error = float(np.max(np.abs(residual).max(axis=0) / np.where(size > 0, size, 1.0)))
            if not error < best_error / 2:
                break
            best, best_error = solution, error
            if error <= _ROUNDING:
                break
            solution = solution + self._factors.solve(residual)
        if not best_error <= _TOLERANCE:
            raise ConvergenceError(
                f"the least-squares equations could be solved to a relative residual of "
                f"{best_error:.1e} only, {_TOLERANCE:g} is required: the workload is too close to "
                f"one of lower rank, or its variances differ too much"
            )
        return best


class TooMuchWorkError(InvalidParameterError):
    """Factors would take minutes or more, as predicted."""

    def __init__(self, size: int, counts: FloatArray) -> None:
        self.work, self.entries = float(np.square(counts).sum()), float(counts.sum())
        super().__init__(
            f"workload must have equations that stay sparse when they are solved: those of "
            f"{size} unknowns and values fill in to about {2 * self.entries:.1e} numbers "
            f"({24 * self.entries / 1e9:.2g} GB), which takes about "
            f"{self.work / MOST_WORK:.0f} minutes; combine fewer cells at a time, or trees and "
            "tables by combine_hierarchy and combine_marginals, which use their form"
        )


def factorise(system: sparse.csc_array, **options: Any) -> Any:
    """Return the sparse LU factors of a symmetric system, if they do not take too long."""
    from scipy.sparse.linalg import splu

    if system.nnz > _SURELY_SMALL:
        counts = predicted_counts(system)
        if np.square(counts).sum() > MOST_WORK:
            raise TooMuchWorkError(system.shape[0], counts)
    return splu(system, permc_spec=_ORDER, **options)


class DefiniteFactors:
    """The Cholesky factor of a sparse positive definite matrix, in an order of its own.

    A narrow envelope, as it is given or in the order of Cuthill and McKee, bounds what it takes;
    otherwise the entries are predicted from the order by least degrees. By its symmetry, compressed
    rows of the matrix are its columns.
    """

    def __init__(self, system: sparse.csr_array) -> None:
        from scipy.sparse.csgraph import reverse_cuthill_mckee

        self._order: NDArray[np.intp] | None = None
        self._size = system.shape[0]
        moved, width = system, _widths(system)
        banded = _is_banded(width)
        if system.nnz <= _SURELY_SMALL and not banded:
            order = reverse_cuthill_mckee(system, symmetric_mode=True)
            row, column = _places(system, order)
            below = row - column
            if self._size * float(below.max()) ** 2 <= _QUICK:
                self._order = order
                self._factor_band(column, below, system.data)
            else:
                self._factor(system, _ORDER)
            return
        narrow = _is_narrow(width, system.nnz)
        if not narrow:
            order = reverse_cuthill_mckee(system, symmetric_mode=True)
            self._order, moved = order, _moved(system, order)
            width = _widths(moved)
            narrow, banded = _is_narrow(width, system.nnz), _is_banded(width)
        if not narrow:
            self._order = _least_degrees(system, order)
            moved = _moved(system, self._order)
        elif banded:
            row = np.repeat(np.arange(len(width)), np.diff(moved.indptr))
            self._factor_band(moved.indices, row - moved.indices, moved.data)
            return
        self._factor(moved, "NATURAL")

    def _factor_band(
        self, column: NDArray[np.intp], below: NDArray[np.intp], data: FloatArray
    ) -> None:
        """Factorise the matrix with these entries, so far below the diagonal, which is there."""
        from scipy.linalg.lapack import dpbtrf

        lower = np.flatnonzero(below >= 0)
        band = np.zeros((self._size, int(below.max()) + 1))  # the transpose of what LAPACK takes
        band[column[lower], below[lower]] = data[lower]
        self._band, info = dpbtrf(band.T, lower=1, overwrite_ab=1)
        if info:
            raise ConvergenceError("the normal equations are not positive definite")
        self.filled = band.size

    def _factor(self, system: sparse.csr_array, order: str) -> None:
        from scipy.sparse.linalg import splu

        options = {"SymmetricMode": True}
        try:
            self._factors = splu(system.T, permc_spec=order, diag_pivot_thresh=0.0, options=options)
        except RuntimeError as error:
            raise ConvergenceError(f"the normal equations are singular: {error}") from error
        self._band = None
        self.filled = int(self._factors.nnz) // 2
        if not np.array_equal(self._factors.perm_r, self._factors.perm_c):
            raise ConvergenceError("the normal equations need pivots off the diagonal")

    def solve(self, right: FloatArray) -> FloatArray:
        """Return the solutions for right sides (r,) or (r × k)."""
        if self._order is None:
            return self._solve(right)
        found = np.empty_like(right)
        found[self._order] = self._solve(right[self._order])
        return found

    def _solve(self, right: FloatArray) -> FloatArray:
        from scipy.linalg.lapack import dpbtrs

        if self._band is None:
            return np.asarray(self._factors.solve(right))
        return np.asarray(dpbtrs(self._band, right, lower=1)[0])

    def lower(self) -> tuple[sparse.csc_array, NDArray[np.intp]]:
        """Return the Cholesky factor, and the place of each unknown in its order."""
        from scipy.sparse import csc_array

        if self._band is not None:
            width, size = self._band.shape
            starts = np.arange(size)[:, np.newaxis]
            row = starts + np.arange(width)
            there = row < size
            ends = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
            found = csc_array((self._band.T[there], row[there], ends), shape=(size, size))
            place = np.arange(size)
        else:
            unit = self._factors.L  # SciPy gives the same one again
            unit.sort_indices()
            pivots = self._factors.U.diagonal()
            if not pivots.min() > 0:
                raise ConvergenceError("the normal equations are not positive definite")
            scaled = unit.data * np.repeat(np.sqrt(pivots), np.diff(unit.indptr))
            found = csc_array((scaled, unit.indices, unit.indptr), shape=unit.shape)
            place = np.asarray(self._factors.perm_c, dtype=np.intp)
            found, place = _in_postorder(found, place)
        if self._order is not None:
            place[self._order] = place.copy()
        return found, place


def _in_postorder(
    lower: sparse.csc_array, place: NDArray[np.intp]
) -> tuple[sparse.csc_array, NDArray[np.intp]]:
    """Return a Cholesky factor with every column close before the next one that it changes."""
    from scipy.sparse import csc_array

    size = lower.shape[0]
    parent = np.full(size, -1)
    more = np.diff(lower.indptr) > 1
    parent[more] = lower.indices[lower.indptr[:-1][more] + 1]
    after = np.array(_postorder(parent.tolist()))
    if (np.diff(after) == 1).all():
        return lower, place
    back = np.empty(size, dtype=np.intp)
    back[after] = np.arange(size)
    column = np.repeat(back, np.diff(lower.indptr))
    return csc_array((lower.data, (back[lower.indices], column)), shape=lower.shape), back[place]


def _widths(system: sparse.csr_array) -> FloatArray:
    """Return how far each column of a symmetric matrix reaches above its diagonal."""
    first = np.minimum.reduceat(system.indices, system.indptr[:-1])
    return np.asarray(np.arange(system.shape[0]) - first, dtype=np.float64)


def _is_banded(width: FloatArray) -> bool:
    return bool(len(width) * (width.max() + 1.0) <= _EVEN * (width.sum() + len(width)))


def _is_narrow(width: FloatArray, entries: int) -> bool:
    return bool(np.square(width).sum() <= _NARROW * entries)


def _places(
    system: sparse.csr_array, order: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows and columns of the entries of a matrix whose unknowns are in an order."""
    place = np.empty(len(order), dtype=system.indices.dtype)
    place[order] = np.arange(len(order), dtype=place.dtype)
    return np.repeat(place, np.diff(system.indptr)), place[system.indices]


def _moved(system: sparse.csr_array, order: NDArray[np.intp]) -> sparse.csr_array:
    """Return a symmetric matrix with rows and columns in an order."""
    from scipy.sparse import csr_array

    return csr_array((system.data, _places(system, order)), shape=system.shape)


def _least_degrees(system: sparse.csc_array, order: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return an order of elimination with little fill-in, if there is one; ``order`` is another."""
    hopeless = _HOPELESS * MOST_WORK
    if len(order) ** 3 > 3.0 * hopeless:  # more than a dense factor takes at most
        counts, after = _eliminated(system, order)
    if len(order) ** 3 <= 3.0 * hopeless or np.square(counts).sum() <= hopeless:
        order = _order_of(system)
        counts, after = _eliminated(system, order)
    if np.square(counts).sum() > MOST_WORK:
        raise TooMuchWorkError(len(order), counts)
    return order[after]


def predicted_counts(system: sparse.csc_array) -> FloatArray:
    """Return the entries in each column of the factor of a symmetric system.

    They follow from the pattern and the order of elimination, but for pivots off the diagonal,
    which add some. Where a band, or short rows first, would do, that order stands for a better
    one, and likewise where they would take very much longer: random sums gain a factor of 10 by
    the best order, which takes minutes to find for them.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    pattern = csr_array(system)
    orders = (
        lambda: reverse_cuthill_mckee(pattern, symmetric_mode=True),
        lambda: np.argsort(np.diff(pattern.indptr), kind="stable"),
    )
    least = np.full(1, np.inf)
    for order in orders:
        counts = column_counts(system, order())
        if np.square(counts).sum() <= MOST_WORK:
            return counts
        least = min(least, counts, key=lambda one: float(np.square(one).sum()))
    if np.square(least).sum() > _HOPELESS * MOST_WORK:
        return least
    return column_counts(system, _order_of(system))


def _order_of(system: sparse.csc_array) -> NDArray[np.intp]:
    """Return the order in which unknowns are eliminated: that of factors without fill-in.

    It follows from the pattern alone; with a diagonal that outweighs the rest there is a factor.
    """
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import spilu

    plain = system.copy()
    plain.data = np.full(len(plain.data), 1e-9)
    plain = (plain + eye_array(system.shape[0])).tocsc()
    factors = spilu(plain, drop_tol=1.0, fill_factor=1.0, permc_spec=_ORDER)
    return np.argsort(factors.perm_c)


def column_counts(system: sparse.csc_array, order: NDArray[np.intp]) -> FloatArray:
    """Return the entries in each column of the Cholesky factor of a symmetric pattern.

    ``order`` are the unknowns in the order of their elimination.
    """
    return _eliminated(system, order)[0]


def _eliminated(
    system: sparse.csc_array, order: NDArray[np.intp]
) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the entries in each column of the factor, and a postorder of the elimination tree.

    By leaves of row subtrees (Gilbert, Ng and Peyton 1994, doi:10.1137/S0895479892236921), in time
    about that of reading the entries.
    """
    from scipy.sparse import triu

    size = system.shape[0]
    upper = triu(system[order][:, order], 1, format="csc")
    starts, above = upper.indptr.tolist(), upper.indices.tolist()
    parent, ancestor = [-1] * size, [-1] * size
    for column in range(size):
        for row in above[starts[column] : starts[column + 1]]:
            while row != -1 and row < column:
                before, row = row, ancestor[row]
                ancestor[before] = column
                if row == -1:
                    parent[before] = column
    below = upper.tocsr()
    starts, right = below.indptr.tolist(), below.indices.tolist()
    after = _postorder(parent)
    first, deepest, leaf = [-1] * size, [-1] * size, [-1] * size
    ancestor = list(range(size))
    counts = [0] * size
    for number, node in enumerate(after):
        counts[node] = int(first[node] == -1)
        while node != -1 and first[node] == -1:
            first[node] = number
            node = parent[node]
    for node in after:
        if parent[node] != -1:
            counts[parent[node]] -= 1
        for row in right[starts[node] : starts[node + 1]]:
            if first[node] <= deepest[row]:
                continue
            deepest[row], before, leaf[row] = first[node], leaf[row], node
            counts[node] += 1
            if before != -1:
                meet = before
                while meet != ancestor[meet]:
                    meet = ancestor[meet]
                while before != meet:
                    ancestor[before], before = meet, ancestor[before]
                counts[meet] -= 1
        if parent[node] != -1:
            ancestor[node] = parent[node]
    for node in range(size):
        if parent[node] != -1:
            counts[parent[node]] += counts[node]
    return np.array(counts, dtype=np.float64), np.array(after, dtype=np.intp)


def _postorder(parent: list[int]) -> list[int]:
    """Return the nodes of a forest, those below a node before it."""
    below: dict[int, list[int]] = {}
    for node, above in enumerate(parent):
        below.setdefault(above, []).append(node)
    found, waiting = [], list(below.get(-1, ()))
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += below.get(node, ())
    return found[::-1]


def _scales(matrix: sparse.csr_array, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scales of the rows and the unknowns that give noisy rows unit variance, and unit columns."""
    from scipy.sparse import diags_array

    noisy = variance > 0
    rows = 1.0 / np.sqrt(np.where(noisy, variance, 1.0))
    squares = matrix * matrix
    size = squares.T @ np.where(noisy, np.square(rows), 0.0)
    alone = squares.T @ np.ones(len(variance))  # for unknowns in no noisy row
    columns = 1.0 / np.sqrt(np.where(size > 0, size, np.where(alone > 0, alone, 1.0)))
    length = np.sqrt((squares @ diags_array(np.square(columns))) @ np.ones(len(columns)))
    return np.where(noisy, rows, 1.0 / np.where(length > 0, length, 1.0)), columns


# Entries of the inverse of a sparse matrix where its factor has entries.
#
# The inverse Z of M = LLᵀ follows from the last column of L to the first without any other of its
# entries (Takahashi, Fagan and Chin 1973; Erisman and Tinney 1975, doi:10.1145/360680.360704). Here
# neighbouring columns are taken together: with J such columns, R the rows below and
# W = L_RJ L_JJ⁻¹, Z_RJ = -Z_RR W and Z_JJ = L_JJ⁻ᵀL_JJ⁻¹ + WᵀZ_RR W, a sum without cancellation.
# Z_RR lies within what was found for the next columns up, since R does. Columns of one depth and
# shape go together.

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
