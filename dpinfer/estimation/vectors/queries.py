"""Fixed 0/1 matrices through which vectors are measured, and what rows of them have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.queries._tree import Places


@dataclass(frozen=True, eq=False)
class VectorQueries:
    """Matrices Q_1 ... Q_q over g levels.

    Levels that belong to the same rows of all matrices but identities form a part.

    Parameters
    ----------
    matrices : tuple of array of float, shape (r_i, g)
        Entries 0 or 1.
    identity : array of bool, shape (q,)
        Which of them are the identity.
    rows : array of float, shape (r, g)
        All of them below each other.
    query : array of int, shape (r,)
        The matrix of each row.
    part : array of int, shape (g,)
        The part of each level.
    """

    matrices: tuple[FloatArray, ...]
    identity: np.ndarray[tuple[int], np.dtype[np.bool_]]
    rows: FloatArray
    query: Places
    part: Places

    @classmethod
    def of(cls, matrices: Sequence[FloatArray]) -> VectorQueries:
        """Take in matrices of shapes (r_i, g)."""
        found = tuple(np.ascontiguousarray(matrix, dtype=float) for matrix in matrices)
        size = found[0].shape[1]
        identity = np.array([np.array_equal(matrix, np.eye(size)) for matrix in found])
        query = np.repeat(np.arange(len(found)), [matrix.shape[0] for matrix in found])
        rows = np.concatenate(found)
        coarse = rows[~identity[query]]
        part = np.zeros(size, dtype=np.intp)
        if coarse.size:
            part = np.unique(coarse, axis=1, return_inverse=True)[1].reshape(-1)
        return cls(found, identity, rows, query, part)

    @property
    def size(self) -> int:
        """Number of levels g."""
        return int(self.part.size)

    def information(self, precision: FloatArray) -> FloatArray:
        """Return sums of precision times Q'Q, shape (n, g, g), of precisions, shape (n, q)."""
        squares = np.stack([matrix.T @ matrix for matrix in self.matrices])
        found = precision @ squares.reshape(len(self.matrices), -1)
        return found.reshape(-1, self.size, self.size)

    def stacked(self, values: Sequence[FloatArray], places: Places) -> FloatArray:
        """Return the values of all rows of some nodes, shape (len(places), r, k)."""
        return np.concatenate([value[places] for value in values], axis=1)

    def score(
        self, values: Sequence[FloatArray], places: Places, precision: FloatArray, at: FloatArray
    ) -> FloatArray:
        """Return sums of precision times Q'(y - Q x), shape (n, g, k), at x, shape (n, g, k)."""
        found = np.zeros(at.shape)
        for matrix, identity, value, own in zip(
            self.matrices, self.identity, values, precision.T, strict=True
        ):
            if not own.any():
                continue
            change = value[places] - (at if identity else matrix @ at)
            change *= own[:, None, None]
            found += change if identity else matrix.T @ change
        return found
