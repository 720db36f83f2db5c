"""Counts drawn from priors by inversion."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.intervals.priors import (
    CountPrior,
    FlatPrior,
    NegativeBinomialPrior,
    PoissonPrior,
    TablePrior,
)
from dpinfer.intervals.widths._draws import poisson_counts

_LEFT_OUT = 1e-12
"""Probability of the counts that are beyond the outermost ones on each side."""

_SMALLEST_DISPERSION = 1e-12
"""Below it, a negative binomial law is Poisson."""

_LEAST_SHARE = 1 / 64
"""Least share of the draws that have to be on the support."""


def drawn_counts(
    prior: CountPrior, draws: FloatArray, lower: float, upper: float
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return counts made from uniform variables, shape (m, 2), and whether each is to be used.

    Those that are not on the support are not; the others have the law on the support.
    """
    if isinstance(prior, FlatPrior):
        counts = lower + np.floor(draws[:, 0] * (upper - lower + 1.0))
        return counts, np.ones(counts.shape, dtype=bool)
    if isinstance(prior, TablePrior):
        possible, pmf = _on_support(prior, lower, upper)
        places = np.searchsorted(np.cumsum(pmf), draws[:, 0] * pmf.sum())
        counts = possible[np.minimum(places, possible.size - 1)]
        return counts, np.ones(counts.shape, dtype=bool)
    mean, dispersion = _moments(prior)
    counts = poisson_counts(_rates(mean, dispersion, draws[:, 0]), draws[:, 1])
    inside = (counts >= lower) & (counts <= upper)
    if inside.mean() < _LEAST_SHARE:
        raise InvalidParameterError(
            f"prior must give lower..upper a probability of at least {_LEAST_SHARE:.1g}, got "
            f"about {inside.mean():.1g} for {lower:g} to {upper:g}"
        )
    return np.where(inside, counts, counts[inside][0]), inside


def outermost_counts(prior: CountPrior, lower: float, upper: float) -> tuple[float, float]:
    """Return counts between which nearly all of the prior is."""
    if isinstance(prior, FlatPrior):
        return lower, upper
    if isinstance(prior, TablePrior):
        possible, _ = _on_support(prior, lower, upper)
        return float(possible[0]), float(possible[-1])
    mean, dispersion = _moments(prior)
    ends = np.array([_LEFT_OUT, 1.0 - _LEFT_OUT])
    low, high = poisson_counts(_rates(mean, dispersion, ends), ends)
    return max(float(low), lower), min(float(high), upper)


def _on_support(prior: TablePrior, lower: float, upper: float) -> tuple[FloatArray, FloatArray]:
    """Return the counts that are possible, and their probabilities."""
    pmf = np.asarray(prior.pmf)
    counts = prior.first + np.arange(pmf.size, dtype=np.float64)
    kept = (pmf > 0.0) & (counts >= lower) & (counts <= upper)
    if not kept.any():
        raise InvalidParameterError(
            f"prior must give lower..upper a probability, got none for {lower:g} to {upper:g}"
        )
    return counts[kept], pmf[kept]


def _moments(prior: CountPrior) -> tuple[float, float]:
    """Return mean and dispersion."""
    if isinstance(prior, PoissonPrior):
        return float(prior.rate), 0.0
    assert isinstance(prior, NegativeBinomialPrior)
    return float(prior.mean), float(prior.dispersion)


def _rates(mean: float, dispersion: float, q: FloatArray) -> FloatArray:
    """Return quantiles of the gamma law of the rates."""
    if dispersion < _SMALLEST_DISPERSION:
        return np.full(q.shape, mean)
    return np.asarray(mean * dispersion * special.gammaincinv(1.0 / dispersion, q))
