"""Intervals for linear functions of published values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._validation import RNG, FloatArray, check_array
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.pivots import Method, Pivots
from dpinfer.mechanisms import Mechanism, as_noise
from dpinfer.results.intervals import Intervals
from dpinfer.results.labels import split_labels

if TYPE_CHECKING:
    import pandas as pd


def linear_confint(
    values: Any,
    weights: Any,
    mechanism: Mechanism,
    *,
    alpha: float = 0.05,
    method: Method = "exact",
    simultaneous: bool = False,
    reps: int = 10_000,
    rng: RNG = None,
) -> Intervals:
    """Confidence intervals for linear functions of the confidential values behind noisy ones.

    Parameters
    ----------
    values : array of float, shape (m,), or Series
        The published values.
    weights : array of float, shape (m,) or (k, m), Series or DataFrame
        The weights of one linear function, or of k functions, one a row. The index of a Series,
        or the columns of a DataFrame, are matched with the labels of ``values`` where these have
        any; the index of a DataFrame labels the intervals.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all values, or one for each.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).
    method : {"exact", "tail-bound", "normal"}
        ``"exact"``: quantiles of the law of each weighted sum of noises. ``"tail-bound"``:
        Chernoff bounds, joined by a union bound, so that all intervals hold together.
        ``"normal"``: normal quantiles, offered for comparison.
    simultaneous : bool, default False
        Whether all functions shall be covered together with probability 1 - ``alpha``.
    reps : int
        Number of simulated errors for simultaneous exact intervals of dependent functions.
    rng : None, int or numpy.random.Generator, optional
        Source of these.

    Returns
    -------
    Intervals
        One interval for each function; for a vector of weights, its ends are numbers. They cover
        the noise only.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or the parts do not fit together.

    See Also
    --------
    dpinfer.combine : uses all published values that bear on a function, not only those given.

    Notes
    -----
    The error of Σ cᵢyᵢ is Σ cᵢeᵢ, whose law is that of
    :class:`~dpinfer.mechanisms.WeightedSum`; the interval is estimate ± t with t the smallest
    number for which P(Σ cᵢeᵢ > t) ≤ α/2. Where one noise only has a weight, its own quantile serves
    in the place of the Chernoff bound.

    Examples
    --------
    The difference of two counts; the width is that of the law of e₁ - e₂, not of two intervals:

    >>> from dpinfer.mechanisms import Laplace
    >>> lower, upper = linear_confint([120.0, 100.0], [1, -1], Laplace(scale=2.0))
    >>> lower.round(4), upper.round(4)
    (np.float64(11.774), np.float64(28.226))
    """
    published, labels = split_labels(values, "values")
    if published.ndim != 1:
        raise InvalidParameterError(f"values must be one-dimensional, got shape {published.shape}")
    matrix = _weights(weights, labels, len(published))
    law = as_noise(mechanism, len(published))
    rows = np.atleast_2d(matrix)

    def draw_errors(size: int, generator: np.random.Generator) -> FloatArray:
        return np.asarray(law.rvs((size, len(published)), rng=generator) @ rows.T)

    pivots = Pivots(
        std_errors=np.sqrt(np.square(rows * law.std).sum(axis=1)),
        mechanism=law,
        blocks=lambda: [rows],
        draw_errors=draw_errors,
    )
    return pivots.intervals(
        matrix @ published,
        alpha=alpha,
        method=method,
        simultaneous=simultaneous,
        reps=reps,
        rng=rng,
        labels=weights.index if hasattr(weights, "columns") else None,
    )


def _weights(weights: Any, labels: pd.Index | None, size: int) -> FloatArray:
    """Return weights (size,) or (k × size) in the order of the values."""
    if labels is not None and hasattr(weights, "iloc"):
        own = weights.columns if hasattr(weights, "columns") else weights.index
        if not own.is_unique or len(own) != size or not own.isin(labels).all():
            raise InvalidParameterError(
                "weights must be labelled like the values, each label once; pass an array to go "
                "by position"
            )
        weights = weights.reindex(labels, axis=weights.ndim - 1)
    matrix = check_array(weights, "weights")
    if matrix.ndim not in (1, 2) or matrix.shape[-1] != size:
        raise InvalidParameterError(
            f"weights must have {size} entries in each row, one for each value, "
            f"got shape {matrix.shape}"
        )
    return matrix
