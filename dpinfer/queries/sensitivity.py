"""How far the answers to a workload can move when one record changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpinfer._check import (
    NEIGHBOURS,
    FloatArray,
    Neighbours,
    check_integer,
    check_option,
    check_scalar,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.queries.workload import Matrix, Workload, entries

# Norms of the columns of a matrix, and the largest distance between two of them.


BLOCK = 2**22  # entries of a block of distances
DENSE = 2**22  # entries up to which distinct columns are compared in dense form

Best = tuple[float, int, int]  # A distance and the two columns that are this far apart


def column_norms(matrix: Matrix, order: int) -> FloatArray:
    """Return the L1 or L2 norms of the columns."""
    unit = _unit(matrix)
    sums = np.asarray((abs(matrix / unit) ** order).sum(axis=0), dtype=np.float64).ravel()
    return np.asarray(unit * sums ** (1 / order))


def largest_distance(matrix: Matrix, order: int) -> float:
    """Return the largest L1 or L2 distance between two columns, by branch and bound.

    Columns are visited in falling order of their norms, each against those after it. The bound
    on a pair is the sum of its norms; without negative entries, L2 distances have the tighter
    bound √(‖aᵢ‖² + ‖aⱼ‖²).
    """
    matrix = _distinct(_varying(matrix))
    if matrix.shape[0] == 0 or matrix.shape[1] == 1:
        return 0.0
    if not isinstance(matrix, np.ndarray) and matrix.shape[0] * matrix.shape[1] <= DENSE:
        matrix = matrix.toarray()
    unit = _unit(matrix)
    matrix = matrix / unit
    norms = column_norms(matrix, order)
    falling = np.argsort(-norms, kind="stable")
    matrix, norms = matrix[:, falling], norms[falling]
    tight = order == 2 and bool((entries(matrix) >= 0).all())
    bound: Callable[[Any, Any], Any] = np.hypot if tight else np.add
    search = _search_dense if isinstance(matrix, np.ndarray) else _search_sparse
    _, first, second = search(matrix, norms, order, bound)
    pair = matrix[:, [first, second]]
    pair = pair if isinstance(pair, np.ndarray) else pair.toarray()
    return unit * float(column_norms(pair[:, :1] - pair[:, 1:], order)[0])


def _unit(matrix: Matrix) -> float:
    """Return the power of two near the largest entry.

    Dividing by it rounds nothing, and keeps squares from over- and underflow.
    """
    largest = float(np.abs(entries(matrix)).max(initial=0.0))
    return float(np.ldexp(1.0, int(np.frexp(largest)[1]) - 1)) if largest else 1.0


def _search_dense(matrix: FloatArray, norms: FloatArray, order: int, bound: Any) -> Best:
    from scipy.spatial.distance import cdist

    columns = np.ascontiguousarray(matrix.T)
    metric = {1: "cityblock", 2: "euclidean"}[order]
    best: Best = (0.0, 0, 1)
    start, size = 0, 1
    while start < len(norms) - 1:
        # candidates are those whose bound with the largest norm left exceeds the best
        stop = start + int((bound(norms[start], norms[start:]) > best[0]).sum())
        if stop <= start + 1:
            break
        block = cdist(columns[start : start + size], columns[start + 1 : stop], metric)
        row, column = np.unravel_index(int(block.argmax()), block.shape)
        best = max(best, (float(block[row, column]), start + int(row), start + 1 + int(column)))
        start += size
        size = max(1, min(2 * size, BLOCK // len(norms)))
    return best


def _search_sparse(matrix: Matrix, norms: FloatArray, order: int, bound: Any) -> Best:
    """Visit the columns of a sparse matrix one by one.

    ‖u - v‖ to the power of its order is the sum of the powers of ‖u‖ and ‖v‖ less an overlap on
    the rows where both are not zero: |u| + |v| - |u - v| for L1, 2uv for L2. The difference is
    exact for whole numbers; for others its rounding can make the pair second best by as much.
    """
    by_row, by_column = matrix.tocsr(), matrix.tocsc()
    powers = norms**order
    best: Best = (0.0, 0, 1)
    for first in range(len(norms) - 1):
        if bound(norms[first], norms[first + 1]) <= best[0]:
            break
        support = slice(by_column.indptr[first], by_column.indptr[first + 1])
        touched = by_row[by_column.indices[support]]
        u = np.repeat(by_column.data[support], np.diff(touched.indptr))
        v = touched.data
        overlap = np.abs(u) + np.abs(v) - np.abs(u - v) if order == 1 else 2 * u * v
        shared = np.bincount(touched.indices, weights=overlap, minlength=len(norms))
        distances = np.maximum(powers[first] + powers - shared, 0.0) ** (1 / order)
        second = int(distances.argmax())
        best = max(best, (float(distances[second]), first, second))
    return best


def _varying(matrix: Matrix) -> Matrix:
    """Leave out the rows that are the same in every column: they add nothing to a distance."""
    if isinstance(matrix, np.ndarray):
        return matrix[(matrix != matrix[:, :1]).any(axis=1)]
    full = np.diff(matrix.indptr) == matrix.shape[1]
    lowest, highest = matrix.min(axis=1).toarray(), matrix.max(axis=1).toarray()
    varying = (lowest != highest).ravel() & (np.diff(matrix.indptr) > 0)
    return matrix if varying.all() and not full.any() else matrix[np.flatnonzero(varying)]


def _distinct(matrix: Matrix) -> Matrix:
    if isinstance(matrix, np.ndarray):
        return np.unique(matrix, axis=1)
    columns = matrix.tocsc()
    columns.sort_indices()
    return columns[:, _first_of_each(columns)]


def _first_of_each(columns: Matrix) -> NDArray[np.intp]:
    """Return the numbers of distinct columns: those that differ from the first with their hash."""
    with np.errstate(over="ignore"):
        words = (columns.indices.astype(np.uint64) + 1) * np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ columns.data.view(np.uint64)) * np.uint64(0xBF58476D1CE4E5B9)
        words ^= words >> np.uint64(29)
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(words, dtype=np.uint64)])
        hashes = sums[columns.indptr[1:]] - sums[columns.indptr[:-1]]
    _, first, member = np.unique(hashes, return_index=True, return_inverse=True)
    other = first[member.ravel()]
    size = np.diff(columns.indptr)
    number = np.arange(len(size))
    differs = size != size[other]
    held = np.flatnonzero((number != other) & ~differs)
    # entries of the columns to compare, and of the columns that they are compared with
    within = np.arange(size[held].sum()) - np.repeat(np.cumsum(size[held]) - size[held], size[held])
    mine = np.repeat(columns.indptr[held], size[held]) + within
    theirs = np.repeat(columns.indptr[other[held]], size[held]) + within
    unequal = (columns.indices[mine] != columns.indices[theirs]) | (
        columns.data[mine] != columns.data[theirs]
    )
    differs[np.repeat(held, size[held])[unequal]] = True
    return np.flatnonzero((number == other) | differs)


def l1_sensitivity(workload: Workload | ArrayLike, neighbours: Neighbours = "add-remove") -> float:
    """L1 sensitivity of a workload: the largest ‖A x - A x'‖₁ over neighbouring histograms.

    Parameters
    ----------
    workload : Workload or matrix, shape (m, n)
        The queries.
    neighbours : {"add-remove", "replace"}
        ``"add-remove"``: one record more or less. ``"replace"``: one record changes its cell.

    Returns
    -------
    float
        The sensitivity, in units of the answers. With a single cell it is 0 under ``"replace"``.

    Raises
    ------
    InvalidParameterError
        If ``neighbours`` is unknown, or the matrix or the sensitivity is not finite.

    Notes
    -----
    Under add-remove it is the largest ‖aⱼ‖₁ over the columns aⱼ of A (Dwork and Roth 2014,
    Definition 3.1, doi:10.1561/0400000042); under replace the largest ‖aᵢ - aⱼ‖₁ over pairs, in
    time linear in the entries for workloads of marginals, and at worst quadratic in the number of
    distinct columns.

    Examples
    --------
    >>> l1_sensitivity([[1, 0], [0, 1], [1, 1]])
    2.0
    >>> l1_sensitivity([[1, 0], [0, 1], [1, 1]], neighbours="replace")
    2.0
    """
    return _sensitivity(workload, neighbours, 1)


def l2_sensitivity(workload: Workload | ArrayLike, neighbours: Neighbours = "add-remove") -> float:
    """L2 sensitivity of a workload: the largest ‖A x - A x'‖₂ over neighbouring histograms.

    Parameters
    ----------
    workload, neighbours
        As for :func:`l1_sensitivity`, with Euclidean norms (Dwork and Roth 2014, Definition 3.8).

    Returns
    -------
    float
        The sensitivity, in units of the answers.

    Examples
    --------
    >>> round(l2_sensitivity([[1, 0], [0, 1], [1, 1]]), 12)
    1.414213562373
    """
    return _sensitivity(workload, neighbours, 2)


def clipped_mean_sensitivity(lower: float, upper: float, n: int) -> float:
    """Sensitivity of the mean of n records clipped to [lower, upper], when one is replaced.

    Parameters
    ----------
    lower, upper : float
        The clipping bounds, in units of the record.
    n : int
        The number of records, which is public, so that neighbours replace a record.

    Returns
    -------
    float
        (upper - lower) / n.

    Raises
    ------
    InvalidParameterError
        If a bound is infinite: one record could then move the mean by any amount.

    Examples
    --------
    >>> clipped_mean_sensitivity(0, 100, n=50)
    2.0
    """
    size = check_integer(n, "n", ge=1, le=2**63)
    low = check_scalar(lower, "lower", finite=False)
    high = check_scalar(upper, "upper", finite=False)
    if np.isinf(low) or np.isinf(high):
        raise InvalidParameterError(
            f"lower and upper must be finite, got {low} and {high}: the mean of unclipped records "
            "has infinite sensitivity, so no finite noise makes it private; clip the records"
        )
    if low >= high:
        raise InvalidParameterError(f"upper must be > lower = {low}, got {high}")
    width = high - low
    if np.isinf(width):
        raise InvalidParameterError(
            f"upper - lower must be at most 1.8e308, the range of float64, got {low} and {high}"
        )
    return width / size


def _sensitivity(workload: Any, neighbours: Neighbours, order: int) -> float:
    relation = check_option(neighbours, "neighbours", NEIGHBOURS)
    queries = workload if isinstance(workload, Workload) else Workload(workload)
    if queries.is_identity:
        several = queries.shape[1] > 1
        return 1.0 if relation == "add-remove" else 2.0 ** (1 / order) if several else 0.0
    with np.errstate(over="ignore"):
        if relation == "add-remove":
            found = float(column_norms(queries.matrix, order).max())
        else:
            found = largest_distance(queries.matrix, order)
    if np.isinf(found):
        raise InvalidParameterError(
            "workload must have a sensitivity of at most 1.8e308, the range of float64: rescale it"
        )
    return found
