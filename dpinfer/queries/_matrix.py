"""The matrix of a workload: a dense array or a sparse one by compressed rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray, check_array, freeze
from dpinfer.errors import InvalidParameterError

Matrix = Any
"""A float64 array of shape (m, n), or a scipy.sparse.csr_array (which has no type stubs)."""


def check_matrix(matrix: Any) -> Matrix:
    """Return a read-only dense array or canonical CSR array of finite real numbers."""
    if not hasattr(matrix, "tocsr"):
        return freeze(check_array(matrix, "matrix", ndim=2))
    from scipy.sparse import csr_array

    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InvalidParameterError(
            f"matrix must be two-dimensional and not empty, got shape {matrix.shape}"
        )
    check_array(matrix.tocsr().data, "matrix", nonempty=False)
    sparse = csr_array(matrix, dtype=np.float64, copy=True)
    sparse.sum_duplicates()
    sparse.eliminate_zeros()
    return read_only(sparse)


def stack_rows(parts: Sequence[Matrix]) -> Matrix:
    """Put matrices one below the other; the result is sparse if any of them is."""
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    from scipy.sparse import csr_array, vstack

    return csr_array(vstack([csr_array(part) for part in parts], format="csr"))


def read_only(matrix: Matrix) -> Matrix:
    """Make the arrays of a matrix read-only and return it."""
    dense = isinstance(matrix, np.ndarray)
    for part in (matrix,) if dense else (matrix.data, matrix.indices, matrix.indptr):
        part.flags.writeable = False
    return matrix


def entries(matrix: Matrix) -> FloatArray:
    """Return the stored entries of a matrix, those that are zero in a sparse one left out."""
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.data)


def is_identity(matrix: Matrix) -> bool:
    """Whether a matrix is the identity."""
    rows, columns = matrix.shape
    if rows != columns:
        return False
    if isinstance(matrix, np.ndarray):
        return bool((matrix.diagonal() == 1).all() and np.count_nonzero(matrix) == rows)
    return bool(
        matrix.nnz == rows
        and (matrix.data == 1).all()
        and (matrix.indices == np.arange(rows)).all()
        and (matrix.indptr == np.arange(rows + 1)).all()
    )


def integer_rows(matrix: Matrix) -> NDArray[np.bool_]:
    """Return for each row whether all of its entries are whole numbers."""
    if isinstance(matrix, np.ndarray):
        return np.asarray((matrix == np.floor(matrix)).all(axis=1))
    whole = np.ones(matrix.shape[0], dtype=bool)
    fractions = np.flatnonzero(matrix.data != np.floor(matrix.data))
    whole[np.searchsorted(matrix.indptr, fractions, side="right") - 1] = False
    return whole
