"""Intervals for Poisson rates of a population, from counts published with noise."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np

from dpinfer._validation import (
    ALTERNATIVES,
    Alternative,
    check_alpha,
    check_array,
    check_flag,
    check_option,
)
from dpinfer.estimation.pivots import sidak
from dpinfer.estimation.published import check_published, common_shape, unlabelled
from dpinfer.intervals.proportions._families import PoissonCounts
from dpinfer.intervals.proportions._rows import EXACT, MID_P, NORMAL, SCORE, End, NoisyRows, ends
from dpinfer.mechanisms.independent import Mechanism, as_noise
from dpinfer.results.intervals import Intervals
from dpinfer.results.labels import split_labels

Method = Literal["exact", "mid-p", "score", "normal"]

LARGEST_COUNT = 1e15
"""Beyond it, neighbouring whole numbers run together in sums."""


def poisson_confint(
    count: Any,
    exposure: Any = 1.0,
    *,
    mechanism: Mechanism,
    alpha: float = 0.05,
    method: Method = "exact",
    alternative: Alternative = "two-sided",
    simultaneous: bool = False,
) -> Intervals:
    """Confidence intervals for Poisson rates when the counts of events were published with noise.

    Parameters
    ----------
    count : float, array of shape (m,) or Series
        The published counts: the number of events plus noise, not clamped or rounded since. They
        may be negative.
    exposure : float, array of shape (m,) or Series, default 1
        The public exposure behind each count, > 0: person-years, area, time.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all counts, or one for each.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).
    method : {"exact", "mid-p", "score", "normal"}
        As in :func:`proportion_confint`; ``"score"`` is its ``"wilson"``.
    alternative : {"two-sided", "larger", "smaller"}
        ``"larger"`` gives intervals [lower, ∞), ``"smaller"`` [0, upper].
    simultaneous : bool, default False
        Whether the intervals shall cover all rates together with probability 1 - ``alpha``. The
        counts of events then have to be independent.

    Returns
    -------
    Intervals
        One interval for each rate, in events per unit of exposure, with the labels of ``count``;
        unpacks as ``lower, upper``. They cover noise and sampling. The estimate is
        count/exposure, which is unbiased and may be negative. An interval is marked as empty where
        no rate is compatible with the published count.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, the shapes do not fit together, or the exact
        tails are sums of too many terms.

    Notes
    -----
    With T = X + e, X ~ Poisson(μ), μ = exposure·rate, and e the noise, the exact interval is the
    set of μ with P(T >= t) >= α/2 and P(T <= t) >= α/2; its ends satisfy one of them with equality.
    Without noise they are quantiles of χ²/2 (Garwood 1936). ``"mid-p"`` counts half of P(T = t)
    and covers 1 - α on average rather than at least. ``"score"`` solves (t - μ)² = z²(μ + v) with v
    the variance of the noise, and ``"normal"`` is t ± z√(max(t, 0) + v). Both err where μ is
    small, and in the tails where Laplace or geometric noise dominates.

    References
    ----------
    Garwood, F. (1936). Fiducial limits for the Poisson distribution. Biometrika 28, 437-442.
    doi:10.1093/biomet/28.3-4.437.

    Examples
    --------
    >>> from dpinfer.mechanisms import Geometric
    >>> lower, upper = poisson_confint(31, 12.5, mechanism=Geometric.from_epsilon(0.5))
    >>> lower.round(4), upper.round(4)
    (np.float64(1.5847), np.float64(3.6312))
    """
    alpha = check_alpha(alpha)
    method = check_option(method, "method", _ENDS)
    alternative = check_option(alternative, "alternative", ALTERNATIVES)
    together = check_flag(simultaneous, "simultaneous")
    counts, labels = split_labels(count, "count")
    time = check_array(
        unlabelled(exposure, "exposure", labels, "count"), "exposure", gt=0, ge=1e-100, le=1e100
    )
    shape = common_shape(count=counts, exposure=time)
    noise = as_noise(mechanism, shape[0] if shape else 1)
    shape = np.broadcast_shapes(shape, noise.shape)
    t, unit = (np.broadcast_to(x, shape).reshape(-1) for x in (counts, time))
    check_published(t, "count", noise)
    check_array(t, "count", le=LARGEST_COUNT)
    rows = NoisyRows(count=t, family=PoissonCounts(size=t.size), noise=noise)
    each = sidak(alpha, t.size) if together else alpha
    lower, upper = ends(partial(_ENDS[method], rows), rows.family.largest, each, alternative)
    return Intervals(
        estimate=(t / unit).reshape(shape),
        lower=(lower / unit).reshape(shape),
        upper=(upper / unit).reshape(shape),
        alpha=alpha,
        method=method,
        uncertainty="noise+sampling",
        simultaneous=together,
        labels=labels,
    )


_ENDS: dict[Method, End] = {"exact": EXACT, "mid-p": MID_P, "score": SCORE, "normal": NORMAL}
