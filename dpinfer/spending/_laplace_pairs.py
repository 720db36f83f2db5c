"""Quantiles of sums of two Laplace noises, many at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpinfer._numerics.roots import find_root
from dpinfer._validation import FloatArray


def laplace_pair_isf(q: float, first: FloatArray, second: FloatArray) -> FloatArray:
    """Return t with P(sum > t) = q, for q <= 1/2 and scales >= 0 of which one at least is > 0.

    With the scales a >= b, r = b/a and x = t/a, P(sum > t) = e^-x/2·(1 + r·x·φ(z)/(1 + r)) where
    z = x(1 - r)/r and φ(z) = (1 - e^-z)/z, which loses no digits where the scales are alike.
    """
    large, small = np.maximum(first, second), np.minimum(first, second)
    ratio = small / large
    start = np.full(ratio.shape, -np.log(2.0 * q))

    def excess(x: FloatArray, index: NDArray[np.intp]) -> FloatArray:
        r = ratio[index]
        with np.errstate(divide="ignore", invalid="ignore"):
            z = x * (1.0 - r) / r
            phi = np.where(z > 0, -np.expm1(-z) / z, 1.0)
        part = np.where(r > 0, r * x * phi / (1.0 + r), 0.0)
        return start[index] - x + np.log1p(part)

    # the bracket grows to where the second noise has been paid for
    return large * find_root(excess, start, start + 1.0, expand=True)[1]
