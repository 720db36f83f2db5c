"""Inequality of incomes that were counted by bracket: Gini coefficients, Lorenz curves, bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpinfer._check import RNG, FloatArray, check_alpha, check_array, check_option
from dpinfer.errors import InvalidParameterError
from dpinfer.functions.ecological import IdentifiedBounds
from dpinfer.functions.histograms import Histograms, distribution, edges_of
from dpinfer.functions.segregation import PROVED
from dpinfer.functions.unbiased import within_areas
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.results.intervals import UNCERTAINTIES, Uncertainty

PERSONS = "share of persons"

_WITHIN = "how incomes differ within brackets is not known: estimates are the middle of bounds"
_ROUNDS = 60


def grouped_gini_confint(
    counts: Any,
    edges: Any,
    *,
    total: Any = None,
    by: Any = None,
    mechanism: Mechanism | None = None,
    uncertainty: Uncertainty = "noise",
    alpha: float = 0.05,
    reps: int = 9999,
    rng: RNG = None,
) -> IdentifiedBounds:
    """Bounds on the Gini coefficient of incomes counted by bracket, with proved intervals.

    Parameters
    ----------
    counts : array, Series, Release or estimate
        The published numbers of persons in K >= 2 brackets in their order. Each row of a
        two-dimensional array is an area of its own.
    edges : array of K + 1 floats
        The limits of the brackets, >= 0 and rising. The last may be infinite: then the coefficient
        has no upper bound but 1.
    total, by, mechanism, uncertainty
        As for :func:`cdf_bands`: with sampling the bounds are those of the population.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).
    reps : int, default 9999
        How many errors are drawn, at least 1/alpha - 1, or 2/alpha - 1 with sampling.
    rng : None, int, Generator or SeedSequence
        The source of the draws.

    Returns
    -------
    IdentifiedBounds
        For each area ``least`` and ``most``, the bounds for the estimated distribution, and an
        interval that holds both of the confidential one.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.

    See Also
    --------
    lorenz_bands : inequality of the counts of cells.

    Notes
    -----
    With the distribution function F of incomes >= 0,

        G = ∫F(1 - F)dx / ∫(1 - F)dx,

    so that G <= g where ∫(F - g)(1 - F)dx <= 0. If F is between lₖ and uₖ at the limits of the
    brackets, within bracket k it is between lₖ₋₁ and uₖ, and rises. The integrand is concave in F:
    it is largest at F = (1 + g)/2 or the end that is next to it, and least at the end further from
    it; both rise with x, so that no distribution does more, and some does as much. The bound is the
    g at which the largest or the least integral is 0, found by Dinkelbach's iteration. ``least``
    and ``most`` take F at the limits as estimated, and the interval all within the band of
    :func:`cdf_bands`, which holds with probability 1 - α or more, and both bounds with it.

    The bounds are for incomes anywhere in their brackets. Means by bracket would narrow them.

    References
    ----------
    Gastwirth, J. L. (1972). The estimation of the Lorenz curve and Gini index. Review of Economics
    and Statistics 54(3), 306-316. doi:10.2307/1937992.
    Dinkelbach, W. (1967). On nonlinear fractional programming. Management Science 13(7), 492-498.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> persons, edges = [410, 620, 540, 260, 90], [0, 15e3, 30e3, 50e3, 80e3, 200e3]
    >>> found = dpi.functions.grouped_gini_confint(
    ...     persons, edges, mechanism=dpi.Geometric(scale=5.0), rng=1
    ... )
    >>> found.least.round(3), found.most.round(3)
    (np.float64(0.215), np.float64(0.57))
    >>> found
    IdentifiedBounds([0.190899, 0.601135], level 0.95, bound)
    """
    table, lines, found = _bands(
        counts, edges, total, by, mechanism, alpha, reps, rng, uncertainty, "grouped_gini_confint"
    )
    middle, lower, upper, plug_in = found
    ends = [
        *(_gini(middle, middle, lines, most=most) for most in (False, True)),
        *(_gini(plug_in, plug_in, lines, most=most) for most in (False, True)),
        *(_gini(lower, upper, lines, most=most) for most in (False, True)),
    ]
    return _bounds(ends, table.shape, table.labels, alpha, uncertainty)


def grouped_lorenz_bands(
    counts: Any,
    edges: Any,
    *,
    points: Any = None,
    total: Any = None,
    by: Any = None,
    mechanism: Mechanism | None = None,
    uncertainty: Uncertainty = "noise",
    alpha: float = 0.05,
    reps: int = 9999,
    rng: RNG = None,
) -> IdentifiedBounds:
    """Bounds on the Lorenz curve of incomes counted by bracket, with proved bands.

    Parameters
    ----------
    counts, edges
        As for :func:`grouped_gini_confint`.
    points : array of float, optional
        The shares of persons, from those of the least incomes, in (0, 1] and rising: by default
        0.1, 0.2 ... 1.
    total, by, mechanism, uncertainty
        As for :func:`cdf_bands`: with sampling the bounds are those of the population.
    alpha : float, default 0.05
        One minus the confidence level of each whole band, in (0, 1).
    reps, rng
        As for :func:`grouped_gini_confint`.

    Returns
    -------
    IdentifiedBounds
        For each point of each area the bounds on the share of all incomes that these persons have,
        and an interval that holds both; those of an area all together.
        :func:`plot_lorenz <dpinfer.plotting.plot_lorenz>` draws them.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.

    Notes
    -----
    L(p) = ∫₀ᵖQ / ∫₀¹Q with the quantiles Q, which are between those of the largest and of the least
    distribution function in the band. L(p) is least with the least quantiles up to p and the
    largest beyond. It is largest, for some v, with the largest quantiles up to p that are at most
    v, and the least beyond that are at least v; the best v is a limit of a bracket, as between them
    L is a ratio of linear functions of v. A last bracket without upper limit leaves 0 as the lower
    bound.

    References
    ----------
    Gastwirth, J. L. (1972). The estimation of the Lorenz curve and Gini index. Review of Economics
    and Statistics 54(3), 306-316. doi:10.2307/1937992.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> persons, edges = [410, 620, 540, 260, 90], [0, 15e3, 30e3, 50e3, 80e3, 200e3]
    >>> band = dpi.functions.grouped_lorenz_bands(
    ...     persons, edges, points=[0.2, 0.5, 0.9], mechanism=dpi.Geometric(scale=5.0), rng=1
    ... )
    >>> band.least.round(2).to_numpy(), band.most.round(2).to_numpy()
    (array([0.  , 0.11, 0.56]), array([0.11, 0.37, 0.83]))
    """
    import pandas as pd

    at = np.arange(1, 11) / 10 if points is None else check_array(points, "points", ndim=1)
    if not ((at > 0.0).all() and (at <= 1.0).all() and (np.diff(at) > 0.0).all()):
        raise InvalidParameterError("points must be shares in (0, 1], rising")
    table, lines, found = _bands(
        counts, edges, total, by, mechanism, alpha, reps, rng, uncertainty, "grouped_lorenz_bands"
    )
    middle, lower, upper, plug_in = found
    ends = [
        *(way(middle, middle, lines, at) for way in (_least_shares, _most_shares)),
        *(way(plug_in, plug_in, lines, at) for way in (_least_shares, _most_shares)),
        _least_shares(lower, upper, lines, at),
        _most_shares(lower, upper, lines, at),
    ]
    index = pd.Index(at, name=PERSONS)
    if table.shape:
        index = within_areas(table.labels, len(middle), index)
    return _bounds(ends, (len(index),), index, alpha, uncertainty, simultaneous=True)


def _bounds(
    ends: list[FloatArray],
    shape: tuple[int, ...],
    labels: Any,
    alpha: float,
    uncertainty: Uncertainty,
    *,
    simultaneous: bool = False,
) -> IdentifiedBounds:
    least, most, plug_in_least, plug_in_most, lower, upper = (
        np.reshape(np.clip(one, 0.0, 1.0), shape) for one in ends
    )
    return IdentifiedBounds(
        estimate=0.5 * (least + most),
        lower=np.minimum(lower, least),
        upper=np.maximum(upper, most),
        least=least,
        most=most,
        plug_in_least=plug_in_least,
        plug_in_most=plug_in_most,
        alpha=check_alpha(alpha),
        method="bound",
        uncertainty=uncertainty,
        simultaneous=simultaneous,
        labels=labels,
        assurance="bound",
        guarantee=PROVED,
        notes=(_WITHIN,),
    )


def _bands(
    counts: Any,
    edges: Any,
    total: Any,
    by: Any,
    mechanism: Any,
    alpha: float,
    reps: int,
    rng: RNG,
    uncertainty: Any,
    who: str,
) -> tuple[Histograms, FloatArray, list[FloatArray]]:
    """Return the distribution function at all limits: estimates, band, plug-in values."""
    about = check_option(uncertainty, "uncertainty", UNCERTAINTIES)
    table, found = distribution(
        counts, total, by, mechanism, alpha, reps, rng, about, shares=True, who=who
    )
    lines = edges_of(edges, table.size)
    if lines[0] < 0.0 or not np.isfinite(lines[:-1]).all():
        raise InvalidParameterError(
            f"edges must be >= 0, and only the last may be infinite, got {lines[0]:g} to "
            f"{lines[-2]:g}: shares of a total mean nothing for incomes below 0"
        )
    if (np.asarray(found[3][:, -1]) <= 0.0).any() and not table.x.variance.any():
        raise InvalidParameterError("counts must have persons in each area, got none in one")
    # noisy counts below 0 make the estimate fall; within the band, which rises, it is made to rise
    rising = np.maximum.accumulate(found[0], axis=1), *found[1:]
    with_start = [np.hstack([np.zeros((len(one), 1)), one]) for one in rising]
    for one in with_start:
        one[:, -1] = 1.0
    return table, lines, with_start


def _gini(low: FloatArray, high: FloatArray, lines: FloatArray, *, most: bool) -> FloatArray:
    """Return the least or the largest coefficient for distribution functions in a band."""
    start, end = low[:, :-1], high[:, 1:]
    width = np.diff(lines)
    beyond = np.isinf(width[-1])
    width = np.where(np.isfinite(width), width, 0.0)
    found = np.full(len(low), 0.0 if most else 1.0)
    for _ in range(_ROUNDS):
        peak = 0.5 * (1.0 + found[:, np.newaxis])
        if most:
            share = np.clip(peak, start, end)
        else:
            share = np.where(np.abs(start - peak) > np.abs(end - peak), start, end)
        left = 1.0 - share
        mean = lines[0] + left @ width
        spread = (share * left) @ width
        last, found = found, np.where(mean > 0.0, spread / np.where(mean > 0.0, mean, 1.0), 0.0)
        if np.abs(found - last).max() <= 1e-15:
            break
    if beyond and most:
        return np.where(start[:, -1] < 1.0, 1.0, found)
    return found


def _least_shares(
    low: FloatArray, high: FloatArray, lines: FloatArray, points: FloatArray
) -> FloatArray:
    """Return the least L(p), (areas, points)."""
    width, p = np.diff(lines), points[:, np.newaxis]
    up_to = lines[0] * points + (np.maximum(p - high[:, np.newaxis, 1:-1], 0.0) @ width[:-1])
    over = 1.0 - np.maximum(p, low[:, np.newaxis, :-1])
    with np.errstate(invalid="ignore"):
        beyond = lines[0] * (1.0 - points) + np.where(over > 0.0, over * width, 0.0).sum(axis=-1)
    whole = up_to + beyond
    found = np.where(
        np.isfinite(whole) & (whole > 0.0), up_to / np.where(whole > 0.0, whole, 1.0), 0.0
    )
    return np.where(points == 1.0, 1.0, found)


def _most_shares(
    low: FloatArray, high: FloatArray, lines: FloatArray, points: FloatArray
) -> FloatArray:
    """Return the largest L(p), (areas, points)."""
    at = lines[np.isfinite(lines)]
    width, p = np.diff(at), points[:, np.newaxis]
    risen = np.maximum(p - low[:, np.newaxis, : len(width)], 0.0) * width
    up_to = np.zeros((*risen.shape[:2], len(at)))
    up_to[..., 1:] = risen.cumsum(axis=-1)
    up_to += lines[0] * p
    left = (1.0 - np.maximum(p, high[:, np.newaxis, 1 : len(at)])) * width
    beyond = np.zeros_like(up_to)
    beyond[..., :-1] = left[..., ::-1].cumsum(axis=-1)[..., ::-1]
    beyond += at * (1.0 - p)
    whole = up_to + beyond
    found = np.where(whole > 0.0, up_to / np.where(whole > 0.0, whole, 1.0), 0.0).max(axis=-1)
    return np.where(points == 1.0, 1.0, found)
