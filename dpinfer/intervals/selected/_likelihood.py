"""Point estimates from values that were published because they reached a threshold."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._numerics.roots import find_root
from dpinfer._numerics.whole import smallest_whole
from dpinfer._validation import FloatArray
from dpinfer.intervals.selected._ends import SelectedValues
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, Rounded, Tulap
from dpinfer.mechanisms._theta import relative_tail

_TERMS = 60
"""Depth of the continued fraction, which is exact to rounding for arguments above 2."""


def most_likely(values: SelectedValues) -> FloatArray:
    """Maximise P(y - f)/P(e >= threshold - f) over f; the largest f where that is constant."""
    return _MAXIMA[type(values.noise)](values)


def median_unbiased(values: SelectedValues) -> FloatArray:
    """Confidential values under which as large and as small values have the same probability."""
    lower = values.lower(0.5)
    if not values.is_whole:
        return lower
    upper = values.upper(0.5)
    return np.asarray(np.where(np.isinf(upper), upper, 0.5 * (lower + upper)))


def _at_value(values: SelectedValues) -> FloatArray:
    """Laplace and geometric noise: the tail falls no faster than the density on either side."""
    return values.y


def _of_tulap(values: SelectedValues) -> FloatArray:
    """Tulap noise: the nearest whole number, or the smallest possible one.

    Going down from y, the likelihood falls, is constant, and where the noise has bounds rises
    again as the threshold gets out of reach.
    """
    noise, y, threshold = cast("Tulap", values.noise), values.y, values.threshold
    nearest = np.rint(y)
    lowest = np.ceil(y - noise.isf(0.0))
    rows = np.flatnonzero(np.isfinite(lowest))
    law = noise.take(rows)
    y, threshold, lowest, best = y[rows], threshold[rows], lowest[rows], nearest[rows]

    def log_likelihood(f: FloatArray) -> FloatArray:
        density, published = law.logpdf(y - f), law.logsf(threshold - f)
        possible = density > -np.inf
        return np.where(possible, density - np.where(possible, published, 0.0), -np.inf)

    nearest[rows] = np.where(log_likelihood(lowest) > log_likelihood(best), lowest, best)
    return np.asarray(nearest)


def _of_gaussian(values: SelectedValues) -> FloatArray:
    """Gaussian noise: f such that E[Y | Y >= threshold; f] = y.

    With z = (f - threshold)/σ that is z + φ(z)/Φ(z) = (y - threshold)/σ, whose left side grows
    from 0 as -1/z.
    """
    sigma = np.broadcast_to(np.asarray(values.noise._parameters()["sigma"]), values.y.shape)
    gap = (values.y - values.threshold) / sigma
    out = np.full(values.y.shape, -np.inf)
    rows = np.flatnonzero(gap > 0)
    if rows.size:
        wanted = gap[rows]

        def excess(z: FloatArray, index: NDArray[np.intp]) -> FloatArray:
            return np.asarray(wanted[index] - _mean_excess(z))

        low, high = find_root(excess, -1.0 / wanted, wanted, rtol=1e-14, atol=1e-14, expand=True)
        z = 0.5 * (low + high)
        near = values.y[rows] - sigma[rows] * _inverse_mills(np.maximum(z, -4.0))
        out[rows] = np.where(z > -4.0, near, values.threshold[rows] + sigma[rows] * z)
    return out


def _inverse_mills(z: FloatArray) -> FloatArray:
    """Return φ(z)/Φ(z)."""
    density = np.exp(-0.5 * np.square(np.maximum(z, 0.0)))
    below = special.erfcx(-np.minimum(z, 0.0) / np.sqrt(2.0))
    ratio = density / np.where(z > 0, 2.0 * special.ndtr(z), below)
    return np.asarray(np.sqrt(2.0 / np.pi) * ratio)


def _mean_excess(z: FloatArray) -> FloatArray:
    """Evaluate z + φ(z)/Φ(z); by Laplace's continued fraction 1/(t+2/(t+3/...)) at z = -t."""
    t = np.maximum(-z, 4.0)
    fraction = np.zeros_like(t)
    for k in range(_TERMS, 0, -1):
        fraction = k / (t + fraction)
    return np.where(z > -4.0, z + _inverse_mills(np.maximum(z, -4.0)), fraction)


def _of_discrete_gaussian(values: SelectedValues) -> FloatArray:
    """Discrete Gaussian noise: the first whole f above which the likelihood falls.

    It is log-concave in f, as that of every exponential family in its parameter.
    """
    sigma = np.broadcast_to(np.asarray(values.noise._parameters()["sigma"]), values.y.shape)
    first = np.ceil(values.threshold)
    out = np.full(values.y.shape, -np.inf)
    rows = np.flatnonzero(values.y > first)
    if not rows.size:
        return out
    noise, y, first, sigma = values.noise.take(rows), values.y[rows], first[rows], sigma[rows]

    def falls(f: FloatArray) -> NDArray[np.bool_]:
        """Whether the likelihood of f + 1 is no larger than that of f."""
        k = first - f
        # where P(e >= k) is far in the tail, its Gaussian factor cancels in part
        deep = np.maximum(k, 2.0)
        near = -(y - f - 0.5) / np.square(sigma) + noise.logcdf(1.0 - k) - noise.logcdf(-k)
        far = -(y - first) / np.square(sigma) + np.log(
            relative_tail(deep - 1.0, sigma) / relative_tail(deep, sigma)
        )
        return np.asarray(np.where(k >= 2.0, far, near) >= 0)

    out[rows] = smallest_whole(y, falls)
    return out


def _of_rounded(values: SelectedValues) -> FloatArray:
    """Return, under rounded noise, the whole number from which on the likelihood falls.

    Under Laplace noise that is the value or the number before: from there down both the
    probability and the tail fall by one factor, so that the likelihood is constant.
    """
    noise = cast("Rounded", values.noise)
    memoryless = isinstance(noise.law, Laplace)
    # under Gaussian noise, of the first number that is published it rises without end
    rows = np.flatnonzero(memoryless | (values.y > np.ceil(values.threshold)))
    law, y, threshold = noise.take(rows), values.y[rows], values.threshold[rows]

    def falls(f: FloatArray) -> NDArray[np.bool_]:
        rise = law._logpmf(y - f - 1.0) - law._logpmf(y - f)
        # by symmetry P(e >= x) = P(e <= -x)
        lift = law._logcdf(f + 1.0 - threshold) - law._logcdf(f - threshold)
        return np.asarray(rise <= lift)

    out = np.full(values.y.shape, -np.inf)
    out[rows] = np.where(falls(y - 1.0), y - 1.0, y) if memoryless else smallest_whole(y, falls)
    return out


_MAXIMA: dict[type, Callable[[SelectedValues], FloatArray]] = {
    Laplace: _at_value,
    Geometric: _at_value,
    Tulap: _of_tulap,
    Gaussian: _of_gaussian,
    DiscreteGaussian: _of_discrete_gaussian,
    Rounded: _of_rounded,
}
