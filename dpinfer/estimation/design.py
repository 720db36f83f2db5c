"""Coordinates of what a workload measures.

A workload A (m × n) may measure fewer than n independent things: cells that no query tells apart
have equal columns, and marginals without their joint table leave directions of the cells
unmeasured. Here A is replaced by a matrix of full column rank with the same column space, and
what is not measured is kept as random vectors of the null space, against which a target can be
checked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer.errors import ConvergenceError, InvalidParameterError
from dpinfer.estimation._factors import MOST_WORK, AugmentedSystem, TooMuchWorkError, factorise
from dpinfer.queries.workload import lone_entries

if TYPE_CHECKING:
    from scipy import sparse

    from dpinfer.estimation._gram import GramSystem


Matrix = Any  # an array of shape (m, n), or a scipy.sparse.csr_array (which has no type stubs)

TOLERANCE = 1e-13  # of estimates by iteration, relative to what is left over
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

_MIXED = 1e-4
"""Reciprocal condition number of weights below which they are not inverted."""

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
    further: int = 0  # unknowns after the cells, which no target is about
    solver: Solver | None = None  # where the rank was found by solving the equations

    @property
    def rank(self) -> int:
        """Rank of the workload."""
        return int(self.matrix.shape[1]) if self._rank is None else self._rank

    def coordinates(self, target: Matrix) -> Matrix:
        """Return estimable targets (k × n) in the coordinates of ``matrix``: k × r."""
        if self.further:
            from scipy.sparse import csr_array

            target = csr_array(target)
            shape = target.shape[0], target.shape[1] + self.further
            target = csr_array((target.data, target.indices, target.indptr), shape=shape)
        chosen = target if self._columns is None else target[:, self._columns]
        return chosen if self._basis is None else chosen @ self._basis

    def for_cells(self, further: int) -> Design:
        """Return the same where the last unknowns are no cells that a target may be about."""
        if self.null is None:
            return replace(self, _size=self._size[:-further], further=further)
        return replace(
            self, null=self.null[:-further], _size=self._size[:-further], further=further
        )

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


@dataclass(frozen=True)
class Unmixing:
    """The inverse of a square matrix W, which gives values y = f + W z a noise of their own each.

    It is kept as factors of W with rows of length about 1, in units of about the noises: powers of
    two, which round nothing.
    """

    _factors: Any
    _rows: FloatArray
    _columns: FloatArray

    @classmethod
    def of(cls, weights: Any, std: FloatArray) -> Unmixing | None:
        """Return the inverse, None where W is not square or not well conditioned."""
        from scipy.linalg import lapack

        size = len(std)
        if weights.shape != (size, size) or size * size > DENSE_SIZE or not std.all():
            return None
        units = np.exp2(np.rint(np.log2(std)))
        mixed = weights.toarray() * units
        length = np.sqrt(np.square(mixed).sum(axis=1))
        if not (length > 0).all() or not np.isfinite(length).all():
            return None
        length = np.exp2(np.rint(np.log2(length)))
        mixed /= length[:, np.newaxis]
        factors, pivots, failed = lapack.dgetrf(mixed)
        norm = np.abs(mixed).sum(axis=0).max()
        if failed or lapack.dgecon(factors, norm)[0] < _MIXED:
            return None
        return cls((factors, pivots), 1.0 / length, units)

    def values(self, mixed: FloatArray) -> FloatArray:
        """Return W⁻¹ times values (m,) or (m × k)."""
        from scipy.linalg import lu_solve

        vector = mixed.ndim == 1
        rows, columns = (
            (self._rows, self._columns)
            if vector
            else (self._rows[:, np.newaxis], self._columns[:, np.newaxis])
        )
        return np.asarray(columns * lu_solve(self._factors, rows * mixed, check_finite=False))

    def weights(self, own: FloatArray) -> FloatArray:
        """Return the weights (k × m) of the values from those of W⁻¹ times them."""
        from scipy.linalg import lu_solve

        right = (own * self._columns).T
        return np.asarray(
            lu_solve(self._factors, right, trans=1, check_finite=False).T * self._rows
        )


def find_design(workload: Matrix, variance: FloatArray | None = None) -> Design:
    """Return the workload in coordinates of full rank, perhaps with a solver for values > 0."""
    size = np.ones(workload.shape[1])
    if _has_row_for_each_column(workload):
        return Design(workload, None, size, None)
    if _is_sparse(workload) and workload.shape[0] >= workload.shape[1] > _SMALL:
        solver = SparseSolver(
            _by_rows(workload), np.ones(len(size)) if variance is None else variance
        )
        if solver.is_sound:
            return Design(workload, None, size, None, solver=solver)
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


def _by_rows(matrix: Matrix) -> sparse.csr_array:
    """Return a matrix in compressed rows: itself, where it is."""
    from scipy.sparse import csr_array

    return csr_array(matrix) if isinstance(matrix, np.ndarray) else matrix.tocsr()


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
    if matrix.shape[0] < matrix.shape[1]:
        return False
    found = np.zeros(matrix.shape[1], dtype=bool)
    if isinstance(matrix, np.ndarray):
        alone = np.count_nonzero(matrix, axis=1) == 1
        found[np.nonzero(matrix[alone])[1]] = True
    else:
        at = lone_entries(matrix)
        found[matrix.indices[at[matrix.data[at] != 0]]] = True
    return bool(found.all())


def _is_sparse(matrix: Matrix) -> bool:
    """Whether so few entries are nonzero that there are sparse factors."""
    filled = np.count_nonzero(matrix) if isinstance(matrix, np.ndarray) else matrix.nnz
    return bool(filled < _FILLED * matrix.shape[0] * matrix.shape[1])


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
_P = ParamSpec("_P")
Rows = NDArray[np.intp]
BLOCK = 256  # targets whose weights are formed together


_SMALL = 60  # up to this many unknowns, dense factors are as quick as sparse ones
_FILLED = 0.05
_FILLED_LIMIT = 5000
"""A matrix with a larger share of nonzero entries has no sparse factors; the limit is higher."""

_MOST_SOLVING = 1e11
"""Numbers of factors gone through for standard errors, in about three minutes."""

_NUMBERS = 20_000_000  # weights that are formed together
_STIFF = 1e4  # rows whose sizes differ by more than this need column pivoting, which takes longer


class Solver(ABC):
    """What a solver for (A, v) answers."""

    note = ""  # how the estimates were found, if not to rounding

    @abstractmethod
    def coefficients(self, values: FloatArray) -> FloatArray:
        """Return the best linear unbiased estimates of z for values (m,) or (m × k)."""

    @abstractmethod
    def weights(self, target: Matrix) -> FloatArray:
        """Return the weights (k × m) of the values in the best estimates of targets (k × r)."""

    @abstractmethod
    def std_errors(self, target: Matrix, rows: Rows | None = None) -> FloatArray:
        """Return the standard errors of the best estimates of targets (k × r).

        ``rows`` are the values whose rows the targets are, -1 for others.
        """


def in_range(
    solve: Callable[Concatenate[_S, _P], FloatArray],
) -> Callable[Concatenate[_S, _P], FloatArray]:
    """Refuse numbers that leave the range of float64."""

    def checked(solver: _S, *args: _P.args, **options: _P.kwargs) -> FloatArray:
        with np.errstate(all="ignore"):  # what overflows is refused here
            try:
                found = solve(solver, *args, **options)
            except np.linalg.LinAlgError as error:
                raise ConvergenceError(OVERFLOW) from error
        if not np.isfinite(found).all():
            raise ConvergenceError(OVERFLOW)
        return found

    return update_wrapper(checked, solve)  # type: ignore[return-value]


def find_solver(matrix: Matrix, variance: FloatArray) -> Solver:
    """Return a solver for a matrix (m × r) of full column rank."""
    rows, columns = matrix.shape
    limit = _FILLED_LIMIT
    if _is_sparse(matrix):
        limit = _SMALL if variance.all() else DENSE_LIMIT
    if columns <= limit and rows * columns <= DENSE_SIZE:
        return DenseSolver(as_dense(matrix), variance)
    return SparseSolver(_by_rows(matrix), variance)


class IdentitySolver(Solver):
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
    def std_errors(self, target: Matrix, rows: Rows | None = None) -> FloatArray:
        """Return the standard errors of the best estimates of targets."""
        squares = target * target  # by entries: the matrices are arrays, sparse or not
        return np.asarray(np.sqrt(squares @ self._variance))


class DenseSolver(Solver):
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
        reduced = matrix[self._noisy]
        if self._free is not None:
            reduced = reduced @ self._free
        scaled = reduced / np.sqrt(variance[self._noisy])[:, None]
        size = np.abs(scaled).max(axis=1, initial=0.0)
        order = np.argsort(-size, kind="stable")
        self._noisy = self._noisy[order]
        self._std = np.sqrt(variance[self._noisy])
        self._rows = matrix[self._noisy]
        self._order = np.arange(scaled.shape[1])
        stiff = size.max(initial=0.0) > _STIFF * size[size > 0].min(initial=np.inf)
        if stiff:
            self._q, self._r, self._order = qr(
                scaled[order], mode="economic", pivoting=True, check_finite=False
            )
        else:
            self._q, self._r = np.linalg.qr(scaled[order])
        if len(self._r) < len(self._order):
            raise ConvergenceError(
                "the least-squares equations have no unique solution: the workload, or the part of "
                "it that was published without noise, is too close to one of lower rank"
            )

    @in_range
    def coefficients(self, values: FloatArray) -> FloatArray:
        """Return the best linear unbiased estimates of z."""
        std = self._std if values.ndim == 1 else self._std[:, None]
        rest = values[self._noisy]
        if self._free is not None:
            start = self._lift @ values[self._fixed]
            rest = rest - self._rows @ start
        solution = np.empty((len(self._order), *values.shape[1:]))
        solution[self._order] = self._solve(self._q.T @ (rest / std))
        return solution if self._free is None else np.asarray(start + self._free @ solution)

    @in_range
    def weights(self, target: Matrix) -> FloatArray:
        """Return the weights of the values in the best estimates of targets."""
        rows = as_dense(target)
        noisy = (self._forward(rows) @ self._q.T) / self._std
        out = np.zeros((len(rows), self._size))
        out[:, self._noisy] = noisy
        if self._free is not None:
            out[:, self._fixed] = (rows - noisy @ self._rows) @ self._lift
        return out

    @in_range
    def std_errors(self, target: Matrix, rows: Rows | None = None) -> FloatArray:
        """Return the standard errors of the best estimates of targets."""
        return np.asarray(np.sqrt(np.square(self._forward(as_dense(target))).sum(axis=1)))

    def _forward(self, target: FloatArray) -> FloatArray:
        """Targets in units of the orthogonal factor: T N Π R⁻¹."""
        moved = target if self._free is None else target @ self._free
        return self._solve(moved[:, self._order].T, trans=1).T

    def _solve(self, right: FloatArray, trans: int = 0) -> FloatArray:
        from scipy.linalg.lapack import dtrtrs

        if not right.size:
            return right
        found, info = dtrtrs(self._r, right, trans=trans)
        if info:
            raise np.linalg.LinAlgError("a pivot is zero")
        return np.asarray(found)


def _eliminate(matrix: FloatArray, exact: Any) -> tuple[Any, FloatArray | None, FloatArray | None]:
    """Write z = lift·y_fixed + free·w, which meets the constraints for every w; None without any.

    Returns the constraints that are used (the others repeat them), ``free`` and ``lift``. Gaussian
    elimination does it without rounding where the coefficients are 0 and ±1, so that coefficients
    that cancel are zero, whatever they are weighted with.
    """
    from scipy.linalg import lu, solve_triangular

    unknowns = matrix.shape[1]
    fixed = exact[independent_rows(matrix[exact])] if len(exact) else exact
    if not len(fixed):
        return fixed, None, None
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


class SparseSolver(Solver):
    """Normal equations where they are sparse and accurate; otherwise what is slower and safer."""

    def __init__(self, matrix: Any, variance: FloatArray) -> None:
        self._matrix, self._variance = matrix, variance
        self._std = np.sqrt(variance)

    @cached_property
    def _equations(self) -> GramSystem | None:
        from dpinfer.estimation._gram import GramSystem

        try:
            return GramSystem(self._matrix, self._variance) if self._std.all() else None
        except ConvergenceError:
            return None

    @cached_property
    def _gram(self) -> GramSystem | None:
        """The normal equations as long as they are accurate enough."""
        return self._equations

    @property
    def is_sound(self) -> bool:
        """Whether the normal equations show that the matrix has full column rank."""
        return self._gram is not None and self._gram.is_sound

    @cached_property
    def _other(self) -> Solver:
        rows, columns = self._matrix.shape
        if columns <= DENSE_LIMIT and rows * columns <= DENSE_SIZE:
            return DenseSolver(as_dense(self._matrix), self._variance)
        return AugmentedSolver(self._matrix, self._variance)

    def _tried(self, solve: Callable[[GramSystem], FloatArray]) -> FloatArray | None:
        """Return what the normal equations answer, None where they are not accurate enough."""
        if self._gram is None:
            return None
        try:
            return solve(self._gram)
        except ConvergenceError:
            self._gram = None
            return None

    @in_range
    def coefficients(self, values: FloatArray) -> FloatArray:
        """Return the best linear unbiased estimates of z."""
        try:
            found = self._tried(lambda gram: gram.coefficients(values))
            return self._other.coefficients(values) if found is None else found
        except TooMuchWorkError:
            if self._equations is None:
                raise
            found, off = self._equations.iterated(values, TOLERANCE)
            self.note = f"iteration (lsmr, tolerance {TOLERANCE:g}), to {off:.1g} of their length"
            return found

    @in_range
    def weights(self, target: Matrix) -> FloatArray:
        """Return the weights of the values in the best estimates of targets."""
        found = self._tried(lambda gram: gram.weights(as_dense(target)))
        return self._other.weights(target) if found is None else found

    @in_range
    def std_errors(self, target: Matrix, rows: Rows | None = None) -> FloatArray:
        """Return the standard errors of the best estimates of targets."""
        why = ""
        try:
            found = self._tried(lambda gram: np.sqrt(gram.variances(target, rows)))
            if found is None:
                return self._other.std_errors(target)
        except TooMuchWorkError as error:
            found = np.full(target.shape[0], np.nan)
            why = (
                f" factors of {error.entries:.1e} numbers ({16 * error.entries / 1e9:.2g} GB), "
                f"about {60 * error.work / MOST_WORK:.0f} seconds, or"
            )
            if self._gram is None or not self._gram.is_quick:
                raise InvalidParameterError(
                    f"standard errors must be left out: they take{why[:-4]}; the estimates are "
                    "there without them"
                ) from error
        missing = np.flatnonzero(np.isnan(found))
        if len(missing):
            effort = 1.0 if self._gram is None else self._gram.effort
            found[missing] = _by_weights(self.weights, target[missing], self._std, effort, why)
        return found


def _by_weights(
    weights: Callable[[Matrix], FloatArray],
    target: Matrix,
    std: FloatArray,
    effort: float,
    why: str = "",
) -> FloatArray:
    """Return standard errors from weights, if that does not take too long."""
    if (work := target.shape[0] * effort) > _MOST_SOLVING:
        raise InvalidParameterError(
            f"target must be fewer linear functions: the standard errors of all "
            f"{target.shape[0]} take{why} a solution each with {effort:.2g} numbers, about "
            f"{work / _MOST_SOLVING * 180:.0f} seconds in all; name those that are needed"
        )
    step = max(1, min(BLOCK, _NUMBERS // len(std)))
    blocks = (target[start : start + step] for start in range(0, target.shape[0], step))
    return np.concatenate([np.sqrt(np.square(weights(t) * std).sum(axis=1)) for t in blocks])


class AugmentedSolver(Solver):
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
    def std_errors(self, target: Matrix, rows: Rows | None = None) -> FloatArray:
        """Return the standard errors of the best estimates of targets."""
        return _by_weights(self.weights, target, self._std, float(self._system.filled))
