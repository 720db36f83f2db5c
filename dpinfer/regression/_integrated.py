"""Integrals over one variance that is estimated, and quantiles of mixtures of normal laws."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray
from dpinfer._numerics.roots import find_root
from dpinfer.errors import NotEstimableError

_NEGLIGIBLE = 40.0
"""Nodes are left out where the density is exp(-40) of the largest."""

_ROUNDS = 60
_FULL = 0.6
"""Share of the nodes that are to matter."""


def nodes_of(
    log_density: Callable[[FloatArray], FloatArray], low: float, high: float, count: int
) -> tuple[FloatArray, FloatArray]:
    """Return nodes at equal steps where a density is not negligible, and weights that add up to 1.

    The trapezoid rule is good to rounding where the density is smooth and vanishes at both ends,
    or is even about the lower one.
    """
    for _ in range(_ROUNDS):
        x = np.linspace(low, high, count)
        value = log_density(x)
        if not (most := value.max()) > -np.inf:
            raise NotEstimableError(
                "no value of the variance gives what was published a likelihood: check the laws of "
                "the noise, and values far from all others"
            )
        value = value - most
        kept = np.flatnonzero(value > -_NEGLIGIBLE)
        first, last = max(kept[0] - 1, 0), min(kept[-1] + 1, count - 1)
        if last - first >= _FULL * (count - 1) or not x[last] > x[first]:
            break
        low, high = x[first], x[last]
    weights = np.exp(value)
    weights[[0, -1]] *= 0.5
    return x, weights / weights.sum()


def mixture_cdf(
    x: FloatArray, weights: FloatArray, means: FloatArray, stds: FloatArray
) -> FloatArray:
    """Return P(X <= x) of m mixtures of k normal laws; means and stds have shape (k, m)."""
    return np.asarray(weights @ special.ndtr((x - means) / stds))


def mixture_quantiles(
    q: float, weights: FloatArray, means: FloatArray, stds: FloatArray
) -> FloatArray:
    """Return the q-quantiles of m mixtures."""
    each = means + special.ndtri(q) * stds

    def excess(x: FloatArray, rows: NDArray[np.intp]) -> FloatArray:
        return np.asarray(q - mixture_cdf(x, weights, means[:, rows], stds[:, rows]))

    room = stds.min(axis=0)
    low, high = find_root(excess, each.min(axis=0) - room, each.max(axis=0) + room, rtol=1e-12)
    return 0.5 * (low + high)


def mixture_moments(
    weights: FloatArray, means: FloatArray, stds: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return means and standard deviations of m mixtures."""
    mean = weights @ means
    return mean, np.sqrt(weights @ (stds**2 + (means - mean) ** 2))
