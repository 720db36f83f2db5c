"""Coordinates of what a workload measures.

A workload A (m × n) may measure fewer than n independent things: cells that no query tells apart
have equal columns, and marginals without their joint table leave directions of the cells
unmeasured. Here A is replaced by a matrix of full column rank with the same column space, and
what is not measured is kept as random vectors of the null space, against which a target can be
checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer.errors import ConvergenceError, InvalidParameterError

if TYPE_CHECKING:
    from scipy import sparse


# Sparse least squares with constraints, by LU of the augmented system.


MOST_WORK = 3e10  # sum of the squares of the columns of a factor that takes about a minute
_HOPELESS = 10  # times that work, by a simple order: no better one is looked for
_SURELY_SMALL = 2e4  # entries of a system that is factorised in seconds whatever its pattern
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


def factorise(system: sparse.csc_array, **options: Any) -> Any:
    """Return the sparse LU factors of a symmetric system, if they do not take too long."""
    from scipy.sparse.linalg import splu

    if system.nnz > _SURELY_SMALL:
        counts = predicted_counts(system)
        work, entries = float(np.square(counts).sum()), 2.0 * float(counts.sum())
        if work > MOST_WORK:
            raise InvalidParameterError(
                f"workload must have equations that stay sparse when they are solved: those of "
                f"{system.shape[0]} unknowns and values fill in to about {entries:.1e} numbers "
                f"({12 * entries / 1e9:.2g} GB), which takes about {work / MOST_WORK:.0f} minutes; "
                "combine fewer cells at a time, or trees and tables by combine_hierarchy and "
                "combine_marginals, which use their form"
            )
    return splu(system, permc_spec=_ORDER, **options)


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

    ``order`` are the unknowns in the order of their elimination. By leaves of row subtrees
    (Gilbert, Ng and Peyton 1994, doi:10.1137/S0895479892236921), in time about that of reading the
    entries.
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
    return np.array(counts, dtype=np.float64)


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


Matrix = Any  # an array of shape (m, n), or a scipy.sparse.csr_array (which has no type stubs)

DENSE_LIMIT = 2000  # above this many unknowns nothing is factorised as a dense matrix
OVERFLOW = (
    "the least-squares equations overflow: the coefficients of the workload, the values or the "
    "variances differ by too many orders of magnitude; express them in other units"
)

ESTIMABLE_TOLERANCE = 1e-8
"""A target t is estimable when abs(t·z) <= tolerance × Σ abs(tⱼ)·sⱼ for random null vectors z.

The size sⱼ is that of the largest entry of z, in the units of cell j.
"""

DENSE_SIZE = 40_000_000  # above this many entries no dense matrix is formed (320 MB)
_RANK_TOLERANCE = 100.0
"""Times the size of a matrix and the machine precision: a pivot below it counts as zero."""

_SHIFT = 1e-12
"""Added to the diagonal of a large Gram matrix, whose zero pivots then show as tiny ones."""

_SHORT = 1e-100
"""Columns shorter than this, of entries up to 1, have squares near the end of the range."""

_SWEEPS = 100  # alternating means of logarithms at most, by which units are found
PROBES = 3
PROBE_SEED = 20190729  # any fixed number: the same workload shall always give the same answer


@dataclass(frozen=True)
class Design:
    """A workload in coordinates of full rank.

    ``matrix`` (m × r) has the column space of the workload and full column rank r, unless a rank is
    given. ``null`` (n × 3) holds random vectors that the workload maps to zero, or None if there
    are none.
    """

    matrix: Matrix
    null: FloatArray | None
    _size: FloatArray
    _columns: NDArray[np.intp] | None  # the cells that are coordinates; None for all
    _basis: Any = None
    _rank: int | None = None  # where the matrix has further columns

    @property
    def rank(self) -> int:
        """Rank of the workload."""
        return int(self.matrix.shape[1]) if self._rank is None else self._rank

    def coordinates(self, target: Matrix) -> Matrix:
        """Return estimable targets (k × n) in the coordinates of ``matrix``: k × r."""
        chosen = target if self._columns is None else target[:, self._columns]
        return chosen if self._basis is None else chosen @ self._basis

    def estimable(self, target: Matrix) -> NDArray[np.bool_]:
        """Whether each row of ``target`` (k × n) lies in the row space of the workload."""
        if self.null is None:
            return np.ones(target.shape[0], dtype=np.bool_)
        with np.errstate(over="ignore", invalid="ignore"):  # refused here
            off = np.abs(target @ self.null).max(axis=1)
            size = abs(target) @ self._size
        if not (np.isfinite(off).all() and np.isfinite(size).all()):
            raise ConvergenceError(OVERFLOW)
        return np.asarray(off <= ESTIMABLE_TOLERANCE * size)

    def estimable_cells(self) -> NDArray[np.bool_]:
        """Whether each of the n cells is estimable on its own."""
        if self.null is None:
            return np.ones(len(self._size), dtype=np.bool_)
        return np.asarray(np.abs(self.null).max(axis=1) <= ESTIMABLE_TOLERANCE * self._size)


def find_design(workload: Matrix) -> Design:
    """Return the workload in coordinates of full rank."""
    first, kind = merge_columns(workload)
    merged = workload[:, first]
    rng = np.random.default_rng(PROBE_SEED)
    units = _units(workload)
    balanced = _balanced(merged, units[first])
    basis = null = None
    if _has_row_for_each_column(merged):
        matrix, columns = merged, first
    elif merged.shape[1] <= DENSE_LIMIT:
        used, null = _basic_columns(as_dense(balanced), rng)
        matrix, columns = merged[:, used], first[used]
    elif _has_full_column_rank(balanced, rng):
        matrix, columns = merged, first
    else:
        rows = independent_rows(balanced)
        basis = merged[rows].T
        matrix, columns = merged @ basis, first
        null = _beside(balanced[rows].T, rng)
    null = _expand_null(null, kind, rng)
    if null is None:
        return Design(matrix, None, 1.0 / units, columns, basis)
    size, null = np.abs(null).max() / units, null / units[:, None]
    if not (np.isfinite(size).all() and np.isfinite(null).all()):
        raise ConvergenceError(OVERFLOW)
    return Design(matrix, null, size, columns, basis)


def _units(workload: Matrix) -> FloatArray:
    """Sizes u of the cells such that the entries of row i are about as large as rᵢuⱼ.

    By alternating means of logarithms, so that neither the units of the cells nor those of the
    queries decide what is small; 1 where all entries are 0 and ±1.
    """
    if isinstance(workload, np.ndarray):
        filled = workload != 0
        logs = np.log(np.abs(workload), out=np.zeros(workload.shape), where=filled)
    else:
        logs = workload.copy()
        logs.eliminate_zeros()
        filled = logs != 0
        logs.data = np.log(np.abs(logs.data))
    by_row, by_column = (np.asarray(logs.sum(axis=axis)) for axis in (1, 0))
    if not (by_row.any() or by_column.any()):
        return np.ones(workload.shape[1])
    filled = filled.astype(np.float64)
    in_row, in_column = (np.maximum(np.asarray(filled.sum(axis=axis)), 1.0) for axis in (1, 0))
    units = np.zeros(workload.shape[1])
    for _ in range(_SWEEPS):
        length = (by_row - filled @ units) / in_row
        before, units = units, (by_column - filled.T @ length) / in_column
        if np.abs(units - before).max() < 0.1:
            break
    return np.asarray(np.exp(np.clip(units, -600.0, 600.0)))  # within the range of float64


def _balanced(matrix: Matrix, units: FloatArray) -> Matrix:
    """Return a matrix whose cells are in these units."""
    if (units == 1.0).all():
        return matrix
    if isinstance(matrix, np.ndarray):
        return matrix / units
    from scipy.sparse import diags_array

    return (matrix @ diags_array(1.0 / units)).tocsr()


def merge_columns(matrix: Matrix) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Find columns that are equal to one another, and columns that are zero.

    Returns the index of one column of each kind, and for each column the number of its kind,
    which is -1 for zero columns.
    """
    keys = _column_keys(matrix)
    _, first, kind = np.unique(keys, return_index=True, return_inverse=True)
    if _differ(matrix, matrix[:, first[kind]]):  # two columns happen to share a 64-bit key
        first = kind = np.arange(len(keys))
    filled = np.ravel(np.asarray((matrix[:, first] != 0).sum(axis=0))) > 0
    number = np.where(filled, np.cumsum(filled) - 1, -1)
    return first[filled], number[kind]


def independent_rows(matrix: Matrix) -> NDArray[np.intp]:
    """Return the indices of a maximal set of linearly independent rows."""
    rows, columns = matrix.shape
    if min(rows, columns) <= DENSE_LIMIT and rows * columns <= DENSE_SIZE:
        return _pivots(_equilibrated(as_dense(matrix).T)[0])[0]
    from scipy.sparse import diags_array

    length = np.sqrt(np.asarray((matrix * matrix).sum(axis=1)).ravel())
    scaled = diags_array(1.0 / np.where(length > 0, length, 1.0)) @ matrix
    gram = scaled @ scaled.T
    if rows <= DENSE_LIMIT:
        return _pivots(as_dense(gram))[0]
    return _sparse_pivots(gram)


def as_dense(matrix: Matrix) -> FloatArray:
    """Return a matrix as an array."""
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())


def _column_keys(matrix: Matrix) -> NDArray[np.uint64]:
    """Return a 64-bit key for each column that depends on its nonzero entries alone."""
    rows, columns = matrix.shape
    salt = _scramble(np.arange(1, rows + 1, dtype=np.uint64))
    keys = np.zeros(columns, dtype=np.uint64)
    if isinstance(matrix, np.ndarray):
        for row, mark in zip(matrix, salt, strict=True):
            keys += np.where(row != 0, _scramble(row.view(np.uint64) ^ mark), np.uint64(0))
        return keys
    from scipy.sparse import csc_array

    by_column = csc_array(matrix)
    by_column.eliminate_zeros()
    marks = _scramble(by_column.data.view(np.uint64) ^ salt[by_column.indices])
    filled = np.flatnonzero(np.diff(by_column.indptr))
    if len(filled):
        keys[filled] = np.add.reduceat(marks, by_column.indptr[filled])
    return keys


def _scramble(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of 64-bit words (the finaliser of SplitMix64)."""
    mixed = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def _differ(one: Matrix, other: Matrix) -> bool:
    """Whether two matrices of one shape differ anywhere."""
    if isinstance(one, np.ndarray):
        return not np.array_equal(one, other)
    return bool((one != other).nnz)


def _basic_columns(
    matrix: FloatArray, rng: np.random.Generator
) -> tuple[NDArray[np.intp], FloatArray | None]:
    """Return a maximal set of independent columns, and random null vectors if others are left."""
    from scipy.linalg import solve_triangular

    scaled, size = _equilibrated(matrix)
    chosen, order, upper, rank = _pivots(scaled)
    if rank == len(order):
        return chosen, None
    free = rng.standard_normal((len(order) - rank, PROBES))
    free *= size[order[rank:], None]
    null = np.empty((len(order), PROBES))
    null[order[rank:]] = free
    null[order[:rank]] = -solve_triangular(
        upper[:rank, :rank], upper[:rank, rank:] @ free, check_finite=False
    )
    return chosen, null / size[:, None]


def _equilibrated(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scale rows, then columns, to a common size, so that units do not decide what is small."""
    height = np.abs(matrix).max(axis=1, initial=0.0, keepdims=True)
    scaled = matrix / np.where(height > 0, height, 1.0)
    size = np.sqrt(np.square(scaled).sum(axis=0))
    short = np.flatnonzero(size < _SHORT)
    if short.size:  # their squares leave the range of float64
        largest = np.abs(scaled[:, short]).max(axis=0, initial=0.0)
        part = scaled[:, short] / np.where(largest > 0, largest, 1.0)
        size[short] = largest * np.sqrt(np.square(part).sum(axis=0))
    size = np.where(size > 0, size, 1.0)
    return scaled / size, size


def _pivots(
    matrix: FloatArray,
) -> tuple[NDArray[np.intp], NDArray[np.intp], FloatArray, int]:
    """QR with column pivoting: independent columns in order, the permutation, R and the rank."""
    from scipy.linalg import qr

    upper, order = qr(matrix, mode="r", pivoting=True, check_finite=False)
    diagonal = np.abs(np.diagonal(upper))
    tolerance = _RANK_TOLERANCE * max(matrix.shape) * np.finfo(float).eps
    rank = int(np.count_nonzero(diagonal > tolerance * diagonal.max(initial=0.0)))
    return np.sort(order[:rank]), order, upper, rank


def _sparse_pivots(gram: sparse.csr_array) -> NDArray[np.intp]:
    """Independent rows of a large Gram matrix with unit diagonal: those with a sound pivot."""
    from scipy.sparse import csc_array, eye_array

    factors = factorise(
        csc_array(gram + _SHIFT * eye_array(gram.shape[0])),
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    pivots = np.abs(factors.U.diagonal())[factors.perm_r]
    return np.flatnonzero(pivots > np.sqrt(_SHIFT))


def _has_row_for_each_column(matrix: Matrix) -> bool:
    """Whether every column is the only one in some row, so that the rank is full."""
    filled = matrix != 0
    alone = np.ravel(np.asarray(filled.sum(axis=1))) == 1
    return bool((np.ravel(np.asarray(filled[alone].sum(axis=0))) > 0).all())


def _has_full_column_rank(matrix: sparse.csr_array, rng: np.random.Generator) -> bool:
    """Whether random coordinates can be recovered from what the matrix maps them to."""
    if matrix.shape[0] < matrix.shape[1]:
        return False
    truth = rng.standard_normal(matrix.shape[1])
    try:
        system = AugmentedSystem(matrix, np.ones(matrix.shape[0]))
        found = system.solve(matrix @ truth, np.zeros(len(truth)))[1]
    except ConvergenceError:
        return False
    return bool(np.abs(found - truth).max() <= ESTIMABLE_TOLERANCE * np.abs(truth).max())


def _beside(basis: Matrix, rng: np.random.Generator) -> FloatArray | None:
    """Random vectors orthogonal to the columns of a basis, or None if it spans everything."""
    cells, rank = basis.shape
    if cells == rank:
        return None
    start = rng.standard_normal((cells, PROBES))
    system = AugmentedSystem(basis, np.ones(cells))
    return system.solve(start, np.zeros((rank, PROBES)))[0]


def _expand_null(
    null: FloatArray | None, kind: NDArray[np.intp], rng: np.random.Generator
) -> FloatArray | None:
    """Null vectors of the workload from null vectors of its merged columns.

    Entries of one kind of column are random numbers that add up to the entry of the merged column;
    entries of zero columns are free.
    """
    kinds = int(kind.max(initial=-1)) + 1
    if null is None and kinds == len(kind):
        return None
    measured = kind >= 0
    group = kind[measured]
    members = np.bincount(group, minlength=kinds)
    full = rng.standard_normal((len(kind), PROBES))
    for probe in range(PROBES):
        total = 0.0 if null is None else null[:, probe]
        part = full[measured, probe]
        excess = (np.bincount(group, part, minlength=kinds) - total) / np.maximum(members, 1)
        # a cell that shares its column with no other takes the entry itself, without rounding
        alone = members[group] == 1
        full[measured, probe] = np.where(
            alone, np.broadcast_to(total, kinds)[group], part - excess[group]
        )
    return full


# Weighted least squares for workloads of full column rank, each kind by its own algorithm.


_S = TypeVar("_S")
_T = TypeVar("_T")
BLOCK = 256  # targets whose weights are formed together


_FILLED = 0.05
_FILLED_LIMIT = 5000
"""A matrix with a larger share of nonzero entries has no sparse factors; the limit is higher."""

_MOST_SOLVING = 1e11
"""Numbers of factors gone through for standard errors, in about three minutes."""

_STIFF = 1e4  # rows whose sizes differ by more than this need column pivoting, which takes longer


class Solver(Protocol):
    """What a solver for (A, v) answers."""

    def coefficients(self, values: FloatArray) -> FloatArray:
        """Return the best linear unbiased estimates of z for values (m,) or (m × k)."""

    def weights(self, target: Matrix) -> FloatArray:
        """Return the weights (k × m) of the values in the best estimates of targets (k × r)."""

    def std_errors(self, target: Matrix) -> FloatArray:
        """Return the standard errors of the best estimates of targets (k × r)."""


def in_range(solve: Callable[[_S, _T], FloatArray]) -> Callable[[_S, _T], FloatArray]:
    """Refuse numbers that leave the range of float64."""

    @wraps(solve)
    def checked(solver: _S, argument: _T) -> FloatArray:
        with np.errstate(all="ignore"):  # what overflows is refused here
            try:
                found = solve(solver, argument)
            except np.linalg.LinAlgError as error:
                raise ConvergenceError(OVERFLOW) from error
        if not np.isfinite(found).all():
            raise ConvergenceError(OVERFLOW)
        return found

    return checked


def find_solver(matrix: Matrix, variance: FloatArray) -> Solver:
    """Return a solver for a matrix (m × r) of full column rank."""
    rows, columns = matrix.shape
    filled = matrix.size if isinstance(matrix, np.ndarray) else matrix.nnz
    limit = DENSE_LIMIT if filled < _FILLED * rows * columns else _FILLED_LIMIT
    if columns <= limit and rows * columns <= DENSE_SIZE:
        return DenseSolver(as_dense(matrix), variance)
    from scipy.sparse import csr_array

    return SparseSolver(csr_array(matrix), variance)


class IdentitySolver:
    """Every cell is a published value of its own: nothing to combine, no matrix needed."""

    def __init__(self, variance: FloatArray) -> None:
        self._variance = variance

    def coefficients(self, values: FloatArray) -> FloatArray:
        """Return the values."""
        return values

    def weights(self, target: Matrix) -> Any:
        """Return the targets, sparse ones as they are."""
        return target

    @in_range
    def std_errors(self, target: Matrix) -> FloatArray:
        """Return the standard errors of the best estimates of targets."""
        squares = target * target  # by entries: the matrices are arrays, sparse or not
        return np.asarray(np.sqrt(squares @ self._variance))


class DenseSolver:
    """Orthogonal factorisation, accurate also where variances differ by many orders of magnitude.

    Constraints are eliminated first; then the rows, scaled to unit variance and sorted by size,
    are factorised by Householder QR, with column pivoting where their sizes differ much: that is
    backward stable row by row (Cox and Higham 1998, doi:10.1137/S0895479896310147). No variance
    is found by subtraction.
    """

    def __init__(self, matrix: FloatArray, variance: FloatArray) -> None:
        from scipy.linalg import qr

        exact = np.flatnonzero(variance == 0)
        self._noisy = np.flatnonzero(variance > 0)
        self._size = len(variance)
        self._fixed, self._free, self._lift = _eliminate(matrix, exact)
        reduced = matrix[self._noisy] @ self._free
        scaled = reduced / np.sqrt(variance[self._noisy])[:, None]
        size = np.abs(scaled).max(axis=1, initial=0.0)
        order = np.argsort(-size, kind="stable")
        self._noisy = self._noisy[order]
        self._std = np.sqrt(variance[self._noisy])
        self._rows = matrix[self._noisy]
        self._order = np.arange(scaled.shape[1])
        stiff = size.max(initial=0.0) > _STIFF * size[size > 0].min(initial=np.inf)
        self._q, self._r, *pivots = qr(
            scaled[order], mode="economic", pivoting=stiff, check_finite=False
        )
        if len(self._r) < len(self._order):
            raise ConvergenceError(
                "the least-squares equations have no unique solution: the workload, or the part of "
                "it that was published without noise, is too close to one of lower rank"
            )
        if stiff:
            self._order = pivots[0]

    @in_range
    def coefficients(self, values: FloatArray) -> FloatArray:
        """Return the best linear unbiased estimates of z."""
        start = self._lift @ values[self._fixed]
        rest = values[self._noisy] - self._rows @ start
        std = self._std if values.ndim == 1 else self._std[:, None]
        solution = np.empty((len(self._order), *values.shape[1:]))
        solution[self._order] = self._backward(self._q.T @ (rest / std))
        return np.asarray(start + self._free @ solution)

    @in_range
    def weights(self, target: Matrix) -> FloatArray:
        """Return the weights of the values in the best estimates of targets."""
        rows = as_dense(target)
        noisy = (self._forward(rows) @ self._q.T) / self._std
        out = np.zeros((len(rows), self._size))
        out[:, self._noisy] = noisy
        out[:, self._fixed] = (rows - noisy @ self._rows) @ self._lift
        return out

    @in_range
    def std_errors(self, target: Matrix) -> FloatArray:
        """Return the standard errors of the best estimates of targets."""
        return np.asarray(np.sqrt(np.square(self._forward(as_dense(target))).sum(axis=1)))

    def _forward(self, target: FloatArray) -> FloatArray:
        """Targets in units of the orthogonal factor: T N Π R⁻¹."""
        from scipy.linalg import solve_triangular

        moved = (target @ self._free)[:, self._order]
        return np.asarray(solve_triangular(self._r, moved.T, trans="T", check_finite=False).T)

    def _backward(self, rotated: FloatArray) -> FloatArray:
        from scipy.linalg import solve_triangular

        return np.asarray(solve_triangular(self._r, rotated, check_finite=False))


def _eliminate(matrix: FloatArray, exact: Any) -> tuple[Any, FloatArray, FloatArray]:
    """Write z = lift·y_fixed + free·w, which meets the constraints for every w.

    Returns the constraints that are used (the others repeat them), ``free`` and ``lift``. Gaussian
    elimination does it without rounding where the coefficients are 0 and ±1, so that coefficients
    that cancel are zero, whatever they are weighted with.
    """
    from scipy.linalg import lu, solve_triangular

    unknowns = matrix.shape[1]
    fixed = exact[independent_rows(matrix[exact])] if len(exact) else exact
    if not len(fixed):
        return fixed, np.eye(unknowns), np.zeros((unknowns, 0))
    order, lower, upper = lu(matrix[fixed].T, p_indices=True, check_finite=False)
    order = np.argsort(order)  # SciPy gives the inverse: lower @ upper in the order of the rows
    bound, loose = order[: len(fixed)], order[len(fixed) :]
    triangle, rest = lower[: len(fixed)], lower[len(fixed) :]
    lower_unit = {"lower": True, "trans": "T", "unit_diagonal": True, "check_finite": False}
    free = np.zeros((unknowns, len(loose)))
    free[bound] = -solve_triangular(triangle, rest.T, **lower_unit)
    free[loose, np.arange(len(loose))] = 1.0
    lift = np.zeros((unknowns, len(fixed)))
    inverse = solve_triangular(upper, np.eye(len(fixed)), trans="T", check_finite=False)
    lift[bound] = solve_triangular(triangle, inverse, **lower_unit)
    return fixed, free, lift


class SparseSolver:
    """LU of the sparse augmented system; weights by solves in blocks, never an inverse."""

    def __init__(self, matrix: Any, variance: FloatArray) -> None:
        exact = np.flatnonzero(variance == 0)
        used = np.ones(len(variance), dtype=bool)
        if len(exact):
            used[exact] = False
            used[exact[independent_rows(matrix[exact])]] = True
        self._used = np.flatnonzero(used)
        self._size = len(variance)
        self._std = np.sqrt(variance)
        self._unknowns = matrix.shape[1]
        self._system = AugmentedSystem(matrix[self._used], variance[self._used])

    @in_range
    def coefficients(self, values: FloatArray) -> FloatArray:
        """Return the best linear unbiased estimates of z."""
        zeros = np.zeros((self._unknowns, *values.shape[1:]))
        return self._system.solve(values[self._used], zeros)[1]

    @in_range
    def weights(self, target: Matrix) -> FloatArray:
        """Return the weights of the values in the best estimates of targets."""
        right = as_dense(target).T
        out = np.zeros((right.shape[1], self._size))
        out[:, self._used] = self._system.solve(np.zeros((len(self._used), right.shape[1])), right)[
            0
        ].T
        return out

    @in_range
    def std_errors(self, target: Matrix) -> FloatArray:
        """Return the standard errors of the best estimates of targets."""
        if (work := float(target.shape[0]) * self._system.filled) > _MOST_SOLVING:
            raise InvalidParameterError(
                f"target must be fewer linear functions: the standard errors of all "
                f"{target.shape[0]} take a solution each with {self._system.filled} numbers, about "
                f"{work / _MOST_SOLVING * 3:.0f} minutes in all; name those that are needed"
            )
        blocks = (target[start : start + BLOCK] for start in range(0, target.shape[0], BLOCK))
        errors = [np.sqrt(np.square(self.weights(t) * self._std).sum(axis=1)) for t in blocks]
        return np.concatenate(errors)
