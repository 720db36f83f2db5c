"""The Poisson probability function to full precision, and the window that holds its mass.

The saddle-point form of Loader, *Fast and accurate computation of binomial probabilities* (2000).
"""

from __future__ import annotations

import numpy as np

from dpinfer._numerics.binomial import bernstein_radius, deviance, stirling_error
from dpinfer._validation import FloatArray


def poisson_pmf(k: FloatArray, rate: FloatArray, log_lift: float = 0.0) -> FloatArray:
    """P(X = k) for X ~ Poisson(rate), rate > 0 and whole numbers k >= 0 that broadcast.

    Times e^log_lift, which keeps small ones in the range of floats.
    """
    inner = np.maximum(k, 1.0)
    log_ratio = -stirling_error(inner) - rate * deviance((inner - rate) / rate)
    pmf = np.exp(log_ratio + log_lift) / np.sqrt(2.0 * np.pi * inner)
    return np.where(k == 0, np.exp(log_lift - rate), pmf)


def poisson_radius(centre: FloatArray, log_ratio: float) -> FloatArray:
    """Distance from its mode beyond which a Poisson pmf is below e^-log_ratio of its peak."""
    return bernstein_radius(centre + 1.0, log_ratio)
