"""The public hypothesis about the data: weights of the cells, learnt by multiplicative updates."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpinfer._validation import FloatArray


class Hypothesis:
    """A distribution over the cells of a histogram, uniform at first."""

    def __init__(self, cells: int) -> None:
        self._log_weights = np.zeros(cells)
        self.weights: FloatArray = np.full(cells, 1.0 / cells)

    def update(self, query: FloatArray, error: float) -> None:
        """Move towards the data along a query that is wrong by at least ``error``, in shares.

        With data minus hypothesis of sign s and size >= m, weights times exp(4·m·s·q) lower the
        divergence from the data by at least 4m·m - (4m)²/8 = 2m² (Hoeffding's lemma).
        """
        self._log_weights += 4.0 * error * query
        self._log_weights -= self._log_weights.max()
        weights = np.exp(self._log_weights)
        self.weights = weights / weights.sum()


def query_row(matrix: Any, row: int) -> FloatArray:
    """Return one row of an array or a sparse array, as a vector."""
    chosen = matrix[[row]]
    return np.asarray(chosen if isinstance(chosen, np.ndarray) else chosen.toarray()).ravel()
