"""Excess kurtosis of noise laws."""

from __future__ import annotations

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.mechanisms import NoiseLaw, WeightedSum, groups
from dpinfer.mechanisms._law import ParametricLaw

_NODES = 64
_WHOLE_RADIUS = 1.0
"""Whole-numbered noise repeats every 2πi, and so do the singularities."""

_NOTHING = 1e-20
"""Noise with a standard deviation below it counts as Gaussian: it is lost in rounding."""


def excess_kurtosis(law: NoiseLaw, size: int) -> FloatArray:
    """Return E[e⁴]/E[e²]² - 3 of each of ``size`` noises, 0 where there is none."""
    out = np.empty(size)
    for part, cells in groups(law, size):
        if isinstance(part, WeightedSum):
            total = max(float(part.std), _NOTHING)
            out[cells] = sum(
                (
                    block.counts * (block.weights * block.law.std / total) ** 4 * _cauchy(block.law)
                ).sum()
                for block in part._terms.blocks
            )
        else:
            assert isinstance(part, ParametricLaw)  # there is no other kind
            out[cells] = _cauchy(part)
    return out


def _cauchy(law: ParametricLaw) -> FloatArray:
    """Fourth coefficient of the cumulant generating function, by Cauchy's integral on a circle.

    The circle stays a factor of two or more inside the nearest singularity, so that the error of
    the trapezoidal rule is at most of the order 2^-64.
    """
    std = np.asarray(law.std)
    noisy = std > _NOTHING
    scale = np.where(noisy, std, 1.0)
    radius = np.minimum(0.5 / scale, law._abscissa / 3.0)
    if law.is_integer:
        radius = np.minimum(radius, _WHOLE_RADIUS)
    circle = np.exp(2j * np.pi * np.arange(_NODES) / _NODES)
    total = np.zeros(std.shape)
    for point in circle:
        total += (law._cgf(np.asarray(point * radius)) * point**-4).real
    return np.asarray(np.where(noisy, 24.0 * total / _NODES / (radius * scale) ** 4, 0.0))
