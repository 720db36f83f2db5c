"""Intervals for published counts, each with its own noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpinfer._check import (
    RNG,
    FloatArray,
    as_table,
    check_alpha,
    check_array,
    check_flag,
    check_option,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.pivots import Method, Pivots, sidak
from dpinfer.estimation.targets import checked_weights
from dpinfer.mechanisms.independent import Mechanism, as_noise, refuse_selected
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.rounded import warn_of_rounding
from dpinfer.mechanisms.weighted_sum import on_noises
from dpinfer.results.intervals import Intervals
from dpinfer.results.labels import split_labels


def count_confint(
    count: Any,
    mechanism: Mechanism,
    *,
    alpha: float = 0.05,
    method: Method = "exact",
    simultaneous: bool = False,
    integer: bool = False,
    lower: float | None = None,
    upper: float | None = None,
    bin_size: ArrayLike = 1,
) -> Intervals:
    """Confidence intervals for confidential counts (or any other values) published with noise.

    Parameters
    ----------
    count : float, array, Series or DataFrame
        The published values: the confidential values plus noise, not clamped since. Where they
        were rounded since, ``mechanism`` is :class:`~dpinfer.mechanisms.Rounded` noise.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all values, or one for each.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).
    method : {"exact", "tail-bound", "normal"}
        ``"exact"``: the quantile of the noise. ``"tail-bound"``: the union bound over all values,
        which holds for all of them together whatever ``simultaneous`` says. ``"normal"``: the
        normal quantile times the standard deviation, offered for comparison; it does not have
        the stated coverage unless the noise is Gaussian.
    simultaneous : bool, default False
        Whether the intervals shall cover all confidential values together with probability
        1 - ``alpha``, rather than each of them.
    integer : bool, default False
        Whether the confidential values are whole numbers; the ends are then rounded inward.
    lower, upper : float, optional
        Bounds that the confidential values respect, such as ``lower=0`` for counts. The intervals
        are intersected with them, which keeps their coverage.
    bin_size : float or array of float, default 1
        The counts were rounded up to multiples of this whole number *before* the noise was added,
        as Tor does. The intervals are those for the counts themselves; see
        :meth:`Intervals.unbinned <dpinfer.results.Intervals.unbinned>`.

    Returns
    -------
    Intervals
        One interval for each value, with the labels of ``count``; unpacks as ``lower, upper``.
        They cover the noise only: they are about the confidential values. An interval that
        ``integer``, ``lower`` or ``upper`` leaves without any value is marked as empty.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or ``mechanism`` does not fit ``count``.

    Warns
    -----
    RoundedValuesWarning
        If all values under noise with a density (Laplace, Gaussian, Tulap) are whole numbers, which
        happens with probability 0 unless they were rounded. At ε = 3 a nominal 90 % interval of
        rounded Laplace noise would cover 77.7 %: give ``Rounded(Laplace(...))``.

    Notes
    -----
    For symmetric noise e and a published y = f + e, the interval y ± t with t the smallest number
    for which P(e > t) ≤ α/2 covers f with probability at least 1 - α, and exactly 1 - α for
    continuous noise. For Laplace noise t = b·ln(1/α). For k independent noises,
    α is replaced by 1 - (1 - α)^(1/k) if ``simultaneous``, and by α/k in the union bound, which
    for Laplace noise is t = b·ln(k/α) (Dwork and Roth 2014, Theorem 3.8) and never narrower. Values
    published as they are (:class:`~dpinfer.mechanisms.Exact`) do not count towards k.

    The noise has to be independent of the selection of the values: for values that were published
    because they passed a threshold, or that were clamped, these intervals do not hold.

    References
    ----------
    Dwork, C. and Roth, A. (2014). The Algorithmic Foundations of Differential Privacy.
    doi:10.1561/0400000042.
    Šidák, Z. (1967). Rectangular confidence regions for the means of multivariate normal
    distributions. doi:10.1080/01621459.1967.10482935.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> lower, upper = count_confint(4.2, Laplace.from_epsilon(1), alpha=0.1)
    >>> lower.round(2), upper.round(2)
    (np.float64(1.9), np.float64(6.5))
    >>> noise = Laplace.from_epsilon(1, sensitivity=3)
    >>> intervals = count_confint([5.3, -2.8, 1.1], noise, method="tail-bound")
    >>> intervals.upper - [5.3, -2.8, 1.1]
    array([12.28303369, 12.28303369, 12.28303369])

    Where the noisy number was rounded, and where counts were rounded up before the noise:

    >>> from dpinfer.mechanisms import Rounded
    >>> count_confint(4, Rounded(Laplace.from_epsilon(1)), alpha=0.1)
    Intervals([2, 6], level 0.9, exact)
    >>> count_confint(813.6, Laplace(scale=10.0), bin_size=8)
    Intervals([777, 840], level 0.95, exact)
    """
    alpha = check_alpha(alpha)
    method = check_option(method, "method", HALF_WIDTHS)
    values, labels = split_labels(count, "count")
    together = check_flag(simultaneous, "simultaneous") or method == "tail-bound"
    law = _law_of(mechanism, values, np.shape(count), together=together)
    warn_of_rounding(values, law, "count")
    noisy = np.count_nonzero(law.variance) if law.shape else values.size
    half = HALF_WIDTHS[method](law, alpha, max(1, int(noisy)) if together else 1)
    half = half.reshape(values.shape if law.shape else ())
    intervals = Intervals(
        estimate=values,
        lower=values - half,
        upper=values + half,
        alpha=alpha,
        method=method,
        uncertainty="noise",
        simultaneous=together,
        labels=labels,
    )
    return intervals.unbinned(bin_size).restrict(lower=lower, upper=upper, integer=integer)


def _law_of(
    mechanism: Mechanism, values: FloatArray, shape: tuple[int, ...], *, together: bool
) -> NoiseLaw:
    """Return the law of the noise: one for all values, or in the shape in which they came."""
    if isinstance(mechanism, NoiseLaw) and mechanism.shape == shape:
        refuse_selected([mechanism])
        return mechanism
    return as_noise(mechanism, values.size, dependence="refused" if together else "irrelevant")


def _exact(law: NoiseLaw, alpha: float, tests: int) -> FloatArray:
    return np.asarray(law.isf(sidak(alpha, tests) / 2))


def _tail_bound(law: NoiseLaw, alpha: float, tests: int) -> FloatArray:
    return np.asarray(law.isf(alpha / (2 * tests)))


def _normal(law: NoiseLaw, alpha: float, tests: int) -> FloatArray:
    return np.asarray(-special.ndtri(sidak(alpha, tests) / 2) * law.std)


HALF_WIDTHS: dict[Method, Callable[[NoiseLaw, float, int], FloatArray]] = {
    "exact": _exact,
    "tail-bound": _tail_bound,
    "normal": _normal,
}


# Intervals for linear functions of published values.


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
        gave of its estimates (:meth:`dpinfer.estimation.CombinedEstimate.noise`) know how they
        depend.
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
