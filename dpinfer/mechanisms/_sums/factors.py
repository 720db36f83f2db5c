"""Moment generating functions as reciprocals of cheap factors, for the laws that have them.

A product of such factors needs one logarithm where the sum of the cumulant generating functions
needs one for each term.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpinfer.mechanisms._law import ParametricLaw
from dpinfer.mechanisms.geometric import Geometric
from dpinfer.mechanisms.laplace import Laplace

Complex = NDArray[np.complex128]


def _laplace(law: ParametricLaw, s: Complex) -> Complex:
    # 1/M(s) = 1 - b²s²
    z = law._parameters()["scale"] * s
    return np.asarray((1.0 - z) * (1.0 + z))


def _geometric(law: ParametricLaw, s: Complex) -> Complex:
    # 1/M(s) = 1 - sinh²(s/2)/sinh²(1/(2·scale))
    half = 0.5 / np.asarray(law._parameters()["scale"])
    ratio = np.sinh(0.5 * s) / np.sinh(half)
    return np.asarray((1.0 - ratio) * (1.0 + ratio))


RECIPROCALS: dict[type[ParametricLaw], Callable[[ParametricLaw, Complex], Complex]] = {
    Laplace: _laplace,
    Geometric: _geometric,
}

GROUP = 8
SAFE = 1e30
"""Products of 8 factors below 1e30 do not overflow."""


def log_mgf(law: ParametricLaw, s: Complex, counts: NDArray[np.float64]) -> Complex:
    """Sum over the last axis of counts·log M(s), on any branch."""
    reciprocal = RECIPROCALS.get(type(law))
    if reciprocal is None:
        return np.asarray(law._cgf(s) @ counts)
    factors = reciprocal(law, s)
    repeated = np.flatnonzero(counts != 1)
    total = -np.log(factors[..., repeated]) @ counts[repeated]
    single = factors[..., counts == 1]
    if not np.abs(single).max(initial=0.0) < SAFE:
        return np.asarray(total - np.log(single).sum(axis=-1))
    for start in range(0, single.shape[-1], GROUP):
        total = total - np.log(np.prod(single[..., start : start + GROUP], axis=-1))
    return np.asarray(total)


def tilted_factors(law: ParametricLaw, s: Complex, tilt: Complex) -> Complex:
    """M(s)/M(tilt), where the real part of ``s`` is ``tilt``."""
    reciprocal = RECIPROCALS.get(type(law))
    if reciprocal is None:
        return np.asarray(np.exp(law._cgf(s) - law._cgf(tilt)))
    return np.asarray(reciprocal(law, tilt) / reciprocal(law, s))
