"""Equally probable draws of several variables at once, the same ones each time.

They are the points of the sequence of Sobol' (1967, doi:10.1016/0041-5553(67)90144-9), which fill
the unit cube more evenly than random ones; variables are made of them by inversion. As they are the
same for all arguments of a plan, its widths are comparable.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray
from dpinfer.mechanisms.law import NoiseLaw

_LARGE_VARIANCE = 1e5
"""Quantiles of counts with a larger variance are found by a series, off by one count at most."""


@lru_cache(maxsize=8)
def uniforms(number: int, variables: int) -> FloatArray:
    """Return draws of uniform variables, shape (number, variables); the number is a power of 2."""
    from scipy.stats import qmc

    points = qmc.Sobol(variables, scramble=False).random(number)
    # each coordinate takes all multiples of 1/number: their middles are symmetric about 1/2
    centred = np.asarray(points + 0.5 / number)
    centred.setflags(write=False)
    return centred


def noises(law: NoiseLaw, draws: FloatArray) -> FloatArray:
    """Return noises made from uniform variables: those of one law, or of one for each column."""
    if law.shape:
        return np.asarray(law.isf(draws))
    values, places = np.unique(draws, return_inverse=True)
    return np.asarray(law.isf(values))[places.reshape(draws.shape)]


def poisson_counts(rate: FloatArray, draws: FloatArray) -> FloatArray:
    """Return Poisson counts made from uniform variables."""
    from scipy import stats

    few = rate < _LARGE_VARIANCE
    many = _series(rate, np.sqrt(rate), np.ones(rate.shape), draws)
    return np.asarray(np.where(few, stats.poisson.ppf(draws, np.where(few, rate, 0.0)), many))


def binomial_counts(nobs: FloatArray, value: FloatArray, draws: FloatArray) -> FloatArray:
    """Return binomial counts made from uniform variables."""
    from scipy import stats

    variance = nobs * value * (1.0 - value)
    few = variance < _LARGE_VARIANCE
    many = _series(nobs * value, np.sqrt(variance), 1.0 - 2.0 * value, draws)
    return np.asarray(np.where(few, stats.binom.ppf(draws, np.where(few, nobs, 0.0), value), many))


def _series(mean: FloatArray, std: FloatArray, asymmetry: FloatArray, q: FloatArray) -> FloatArray:
    """Quantiles of whole numbers by Cornish and Fisher (1938, doi:10.2307/1400905).

    ``asymmetry`` is the skewness times ``std``.
    """
    z = special.ndtri(q)
    return np.asarray(np.ceil(mean + z * std + asymmetry * (np.square(z) - 1.0) / 6.0 - 0.5))


def mean(values: FloatArray, used: NDArray[np.bool_] | None = None) -> tuple[float, float]:
    """Return the mean of values at draws, of those that are used, and about its error."""
    weight = np.ones(values.shape) if used is None else used.astype(np.float64)
    first, second = np.sum((weight * values).reshape(2, -1), axis=1)
    number, more = np.maximum(np.sum(weight.reshape(2, -1), axis=1), 1.0)
    found = (first + second) / (number + more)
    return float(found), float(abs(found - first / number))


def median(values: FloatArray) -> tuple[float, float]:
    """Return the least number that half of the values do not exceed, and about its error.

    The error is infinite where one half of the draws has an infinite median, and the other has not.
    """
    found = np.quantile(values, 0.5, method="inverted_cdf")
    first, second = np.quantile(values.reshape(2, -1), 0.5, axis=1, method="inverted_cdf")
    return float(found), 0.0 if first == second else float(0.5 * abs(first - second))
