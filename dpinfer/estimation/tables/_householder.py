"""The orthonormal basis of mean and deviations along an axis of tables.

The reflection H that maps the constant vector 1/√n to the first unit vector is symmetric and its
own inverse. Of a vector x it gives y₀ = Σx/√n, the mean times √n, and n - 1 deviations
yⱼ = xⱼ + (x₀ - y₀)/(√n - 1).
"""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from dpinfer._validation import FloatArray


def reflect(tables: FloatArray, axis: int) -> None:
    """Reflect contiguous tables along an axis, in place."""
    size, inner = tables.shape[axis], prod(tables.shape[axis + 1 :])
    if size == 2:
        _reflect_pairs(tables.reshape((-1, 2, inner)))
    elif size > 2:
        lines = tables.reshape((-1, size) if inner == 1 else (-1, size, inner))
        root = sqrt(size)
        # the product is the faster sum of neighbours
        mean = lines @ np.ones(size) if inner == 1 else np.add.reduce(lines, axis=1)
        mean *= 1.0 / root
        shift = lines[:, 0] - mean
        shift *= 1.0 / (root - 1.0)
        lines += shift[:, np.newaxis]
        lines[:, 0] = mean


def _reflect_pairs(pairs: FloatArray) -> None:
    """Turn pairs to sum and difference over √2: the same with fewer steps and no room."""
    first, second = pairs[:, 0], pairs[:, 1]
    first += second
    first *= sqrt(0.5)
    second *= -sqrt(2.0)
    second += first
