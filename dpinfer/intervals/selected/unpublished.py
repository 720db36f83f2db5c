"""What it says about a count that it was not published."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from dpinfer._validation import FloatArray, check_alpha, check_array, check_flag
from dpinfer.estimation.pivots import sidak
from dpinfer.mechanisms import Mechanism, NoiseLaw, as_noise
from dpinfer.mechanisms.independent import integer_cells
from dpinfer.results.intervals import Intervals
from dpinfer.results.labels import split_labels


def unpublished_bound(
    *,
    mechanism: Mechanism,
    threshold: Any,
    alpha: float = 0.05,
    integer: bool = False,
    lower: float | None = None,
    upper: float | None = None,
    simultaneous: bool = False,
) -> Intervals:
    """Upper confidence bounds for counts that did not reach the threshold of publication.

    Parameters
    ----------
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise of the counts that were not published: one for all, or one for each.
    threshold : float, array, Series or DataFrame
        The thresholds that they did not reach: one for each count, or one for as many counts as
        ``mechanism`` has laws.
    alpha : float, default 0.05
        The error probability, in (0, 1).
    integer : bool, default False
        Whether the confidential values are whole numbers; the bounds are then rounded down.
    lower, upper : float, optional
        Bounds that the confidential values respect, such as ``lower=0`` for counts.
    simultaneous : bool, default False
        Whether all bounds shall hold together with probability 1 - ``alpha``.

    Returns
    -------
    Intervals
        Intervals from ``lower``, or -inf, to the bounds, with the labels of ``threshold``. The
        estimate, of maximum likelihood, is their lower end.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.

    Notes
    -----
    The bound is the largest f with P(f + e < τ) > α: a larger count is published with probability
    at least 1 - α. It does not depend on the data, so that this is no statement conditional on
    being unpublished: of the counts above the bound at most a share α goes unpublished, and about
    each of those the bound is wrong. It takes for granted that the count was considered for
    publication: a cell may also be absent because it is not part of the table. Clamping bounds on
    either side of the threshold change nothing.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> unpublished_bound(mechanism=Laplace(scale=10.0), threshold=90, lower=0).upper.round(2)
    np.float64(113.03)
    """
    alpha = check_alpha(alpha)
    together = check_flag(simultaneous, "simultaneous")
    bounds, labels = split_labels(threshold, "threshold")
    check_array(bounds, "threshold", ge=-1e100, le=1e100)
    law, shape = _laws_of(mechanism, bounds)
    first = np.broadcast_to(bounds, shape)
    tests = max(1, int(np.count_nonzero(np.broadcast_to(law.variance, first.size))))
    reach = np.asarray(law.isf(sidak(alpha, tests) if together else alpha))
    reach = np.broadcast_to(reach, first.size).reshape(shape)
    # P(f + e < τ) = P(e > f - τ) by symmetry, and a whole f is kept where that is above α
    whole = integer_cells(law, first.size).reshape(shape)
    ends = np.where(whole, np.ceil(first) + reach - 1.0, first + reach)
    open_ = Intervals(
        estimate=np.full(shape, -np.inf),
        lower=np.full(shape, -np.inf),
        upper=ends,
        alpha=alpha,
        method="unpublished",
        uncertainty="noise",
        simultaneous=together,
        labels=labels,
    )
    bound = open_.restrict(lower=lower, upper=upper, integer=integer)
    return bound if lower is None else replace(bound, estimate=np.full(shape, float(lower)))


def _laws_of(mechanism: Mechanism, threshold: FloatArray) -> tuple[NoiseLaw, tuple[int, ...]]:
    """Return the law of the noise and the shape of the answer, which one of both may give."""
    if threshold.ndim:
        return as_noise(mechanism, threshold.size, selected=True), threshold.shape
    parts = mechanism if isinstance(mechanism, (list, tuple)) else ()
    shape = mechanism.shape if isinstance(mechanism, NoiseLaw) else (len(parts),)
    return as_noise(mechanism, prod(shape), selected=True), shape
