"""Sparse symmetric systems of least squares: what their factors cost, and their solutions."""

from __future__ import annotations

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
