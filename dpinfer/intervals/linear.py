"""Intervals for linear functions of published values."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpinfer._interchange import as_table
from dpinfer._validation import RNG, FloatArray, check_array
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.pivots import Method, Pivots
from dpinfer.estimation.weights import checked_weights
from dpinfer.mechanisms import Mechanism, as_noise
from dpinfer.mechanisms.rounded import warn_of_rounding
from dpinfer.mechanisms.weighted_sum import on_noises
from dpinfer.results.intervals import Intervals
from dpinfer.results.labels import split_labels


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
    weights : array of float, shape (m,) or (k, m), Series, DataFrame or mapping
        The weights of one linear function, or of k functions, one a row. Where ``values`` has
        labels, the index of a Series, the columns of a DataFrame or the keys of a mapping say
        which value each weight is for, and values without a weight have no part; the index of a
        DataFrame labels the intervals.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all values, or one for each, independent. Laws that a fit
        gave of its estimates (:meth:`dpinfer.CombinedEstimate.noise`) know how they depend.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).
    method : {"exact", "tail-bound", "normal"}
        ``"exact"``: quantiles of the law of each weighted sum of noises. ``"tail-bound"``:
        Chernoff bounds, joined by a union bound, so that all intervals hold together.
        ``"normal"``: normal quantiles, offered for comparison.
    simultaneous : bool, default False
        Whether all functions shall be covered together with probability 1 - ``alpha``.
    reps : int, default 10_000
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

    With ``simultaneous=True`` the functions are covered together. Where no value has a part in two
    of them, their errors are independent, and each interval has the level (1 - α)^(1/k) of Šidák.
    Otherwise the intervals are estimate ± c·standard error, with c the ⌈(1 - α)(R + 1)⌉-th smallest
    of R simulated values of the largest studentised error: their coverage is at least 1 - α for
    every R, on the average over simulations, and varies by ``mc_error`` from one simulation to
    another. Simultaneous normal intervals have the level of Šidák, which is conservative for
    dependent normal errors. For the union bound with exact quantiles, which is not simulated,
    divide ``alpha`` by the number of functions.

    Under whole-numbered noise, ends that are not whole numbers themselves move outward by 1e-14 of
    the terms, so that rounding does not take away an end that is attained.

    References
    ----------
    Davison, A. C. and Hinkley, D. V. (1997). Bootstrap Methods and their Application, §4.2.1.
    doi:10.1017/CBO9780511802843.
    Šidák, Z. (1967). Rectangular confidence regions for the means of multivariate normal
    distributions. doi:10.1080/01621459.1967.10482935.

    Examples
    --------
    The difference of two counts; the width is that of the law of e₁ - e₂, not of two intervals:

    >>> from dpinfer.mechanisms import Laplace
    >>> lower, upper = linear_confint([120.5, 100.5], [1, -1], Laplace(scale=2.0))
    >>> lower.round(4), upper.round(4)
    (np.float64(11.774), np.float64(28.226))

    With labels, weights name the values that they are for:

    >>> import pandas as pd
    >>> counts = pd.Series({"north": 120.5, "south": 100.5, "west": 80.5})
    >>> linear_confint(counts, {"north": 1, "south": -1}, Laplace(scale=2.0))
    Intervals([11.774, 28.226], level 0.95, exact)

    All three differences together, by simulation, by the union bound, and by Chernoff bounds:

    >>> pairs = [[1, -1, 0], [1, 0, -1], [0, 1, -1]]
    >>> law = Laplace(scale=2.0)
    >>> joint = linear_confint(counts, pairs, law, simultaneous=True, reps=100_000, rng=1)
    >>> union = linear_confint(counts, pairs, law, alpha=0.05 / 3)
    >>> bound = linear_confint(counts, pairs, law, method="tail-bound")
    >>> [float(way.width[0].round(1)) for way in (joint, union, bound)]
    [20.2, 21.6, 34.1]
    >>> round(joint.mc_error, 5)
    0.00069
    """
    published, labels = split_labels(values, "values")
    if published.ndim != 1:
        raise InvalidParameterError(f"values must be one-dimensional, got shape {published.shape}")
    weights = as_table(weights, "weights")
    matrix = checked_weights(weights, labels, len(published))
    law = as_noise(mechanism, len(published), dependence="used")
    warn_of_rounding(published, law, "values")
    rows, law = on_noises(np.atleast_2d(matrix), law)

    def draw_errors(size: int, generator: np.random.Generator) -> FloatArray:
        return np.asarray(law.rvs((size, rows.shape[1]), rng=generator) @ rows.T)

    with np.errstate(over="ignore", invalid="ignore"):
        estimate = check_array(matrix @ published, "weights @ values")
    pivots = Pivots(
        std_errors=np.sqrt(np.square(rows * law.std).sum(axis=1)),
        mechanism=law,
        blocks=lambda: [rows],
        draw_errors=draw_errors,
        noises=rows.shape[1],
        magnitude=np.abs(np.atleast_2d(matrix)) @ np.abs(published),
    )
    return pivots.intervals(
        estimate,
        alpha=alpha,
        method=method,
        simultaneous=simultaneous,
        reps=reps,
        rng=rng,
        labels=weights.index if hasattr(weights, "columns") else None,
    )
