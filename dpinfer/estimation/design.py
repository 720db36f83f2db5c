"""Coordinates of what a workload measures.

A workload A (m × n) may measure fewer than n independent things: cells that no query tells apart
have equal columns, and marginals without their joint table leave directions of the cells
unmeasured. Here A is replaced by a matrix of full column rank with the same column space, and
what is not measured is kept as random vectors of the null space, against which a target can be
checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.errors import ConvergenceError
from dpinfer.estimation.augmented import AugmentedSystem, factorise

if TYPE_CHECKING:
    from scipy import sparse

Matrix = Any
"""An array of shape (m, n), or a scipy.sparse.csr_array (which has no type stubs)."""

DENSE_LIMIT = 2000
"""Above this many unknowns nothing is factorised as a dense matrix."""

OVERFLOW = (
    "the least-squares equations overflow: the coefficients of the workload, the values or the "
    "variances differ by too many orders of magnitude; express them in other units"
)

ESTIMABLE_TOLERANCE = 1e-8
"""A target t is estimable when abs(t·z) <= tolerance × Σ abs(tⱼ)·sⱼ for random null vectors z.

The size sⱼ is that of the largest entry of z, in the units of cell j.
"""

DENSE_SIZE = 40_000_000
"""Above this many entries no dense matrix is formed (320 MB)."""

_RANK_TOLERANCE = 100.0
"""Times the size of a matrix and the machine precision: a pivot below it counts as zero."""

_SHIFT = 1e-12
"""Added to the diagonal of a large Gram matrix, whose zero pivots then show as tiny ones."""

_SHORT = 1e-100
"""Columns shorter than this, of entries up to 1, have squares near the end of the range."""

_SWEEPS = 100
"""Alternating means of logarithms at most, by which units are found."""

_PROBES = 3
_PROBE_SEED = 20190729  # any fixed number: the same workload shall always give the same answer


@dataclass(frozen=True)
class Design:
    """A workload in coordinates of full rank.

    ``matrix`` (m × r) has the column space of the workload and full column rank r. ``null``
    (n × 3) holds random vectors that the workload maps to zero, or None if there are none.
    """

    matrix: Matrix
    null: FloatArray | None
    _size: FloatArray
    _columns: NDArray[np.intp]
    _basis: Any = None

    @property
    def rank(self) -> int:
        """Rank of the workload."""
        return int(self.matrix.shape[1])

    def coordinates(self, target: Matrix) -> Matrix:
        """Return estimable targets (k × n) in the coordinates of ``matrix``: k × r."""
        chosen = target[:, self._columns]
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
    rng = np.random.default_rng(_PROBE_SEED)
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
    free = rng.standard_normal((len(order) - rank, _PROBES))
    free *= size[order[rank:], None]
    null = np.empty((len(order), _PROBES))
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
    start = rng.standard_normal((cells, _PROBES))
    system = AugmentedSystem(basis, np.ones(cells))
    return system.solve(start, np.zeros((rank, _PROBES)))[0]


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
    full = rng.standard_normal((len(kind), _PROBES))
    for probe in range(_PROBES):
        total = 0.0 if null is None else null[:, probe]
        part = full[measured, probe]
        excess = (np.bincount(group, part, minlength=kinds) - total) / np.maximum(members, 1)
        # a cell that shares its column with no other takes the entry itself, without rounding
        alone = members[group] == 1
        full[measured, probe] = np.where(
            alone, np.broadcast_to(total, kinds)[group], part - excess[group]
        )
    return full
