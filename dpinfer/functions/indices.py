"""Indices that are sums over cells of a function of noisy counts, with totals known exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial
from scipy import special

from dpinfer._check import FloatArray, check_array
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.functions._worst import check_level
from dpinfer.functions.segregation import IndexIntervals
from dpinfer.functions.unbiased import (
    OF_CELLS,
    FunctionEstimate,
    area_table,
    only_noise,
    totals_of,
    unbiased,
)
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.releases.values import NoisyValues
from dpinfer.results.intervals import Uncertainty

Laws = Mechanism | tuple[Mechanism | None, ...] | None

_OF_SHARES = (
    "the index of the shares in a population needs a law by which its members came to be counted, "
    "and sampling adds a bias that only such a law tells"
)

_FEWEST = 30
"""Counts whose squares of noise add up to a sum that is taken for normal."""

_SQUARE, _COUNT = Polynomial([0, 0, 1]), Polynomial([0, 1])


def herfindahl(
    values: Any,
    *,
    total: Any = None,
    by: Any = None,
    mechanism: Mechanism | None = None,
    uncertainty: Uncertainty = "noise",
) -> FunctionEstimate:
    """Estimate the Herfindahl index Σ(fᵢ/N)² of confidential counts, without bias.

    Parameters
    ----------
    values : array, Series, DataFrame, Release or estimate
        The published counts. Each row of a two-dimensional array is an area of its own.
    total : float, array or Series, optional
        The number N >= 1 of each area, known exactly: published without noise, and not the sum of
        the noisy counts. Left out where the counts have no noise.
    by : list, mapping, Series or str, optional
        Which counts are of one area, as for :meth:`FunctionEstimate.sum`.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise, any; left out where ``values`` carries its own.
    uncertainty : {"noise"}
        What is covered. ``"noise+sampling"`` is refused: the index of
        a population needs a law by which its members came to be counted.

    Returns
    -------
    FunctionEstimate
        The index of each area, from 1/k for k equal counts to 1 for one; noise can move estimates
        beyond. One minus it is the index of diversity of Gini and Simpson.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or ``total`` is missing.

    Notes
    -----
    The estimate is Σ(yᵢ² - vᵢ)/N², with vᵢ the variance of the noise; to plug in adds Σvᵢ/N². A
    total that is noisy itself makes a ratio, which has no unbiased estimate: see
    :func:`herfindahl_confint`.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> counts = [[120, 64, 16], [9, 170, 21]]
    >>> noise = dpi.DiscreteGaussian(sigma=10.0)
    >>> dpi.functions.herfindahl(counts, total=200, mechanism=noise).params.round(4)
    array([0.4613, 0.7281])
    """
    only_noise(uncertainty, "herfindahl", _OF_SHARES)
    squares = unbiased(_SQUARE, values, mechanism=mechanism).sum(by)
    return squares._scaled(1.0 / np.square(_total(total, "total", squares, squares._noisy[0], by)))


def herfindahl_confint(
    values: Any,
    *,
    by: Any = None,
    mechanism: Mechanism | None = None,
    uncertainty: Uncertainty = "noise",
    alpha: float = 0.05,
) -> IndexIntervals:
    """Confidence intervals for the Herfindahl index of counts whose total is noisy, asymptotic.

    Parameters
    ----------
    values, by, mechanism, uncertainty
        As for :func:`herfindahl`, with independent noises.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).

    Returns
    -------
    IndexIntervals
        One interval an area, within 1/k and 1 for k counts.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or errors share noises.
    NotEstimableError
        If no area tells anything of its index.

    See Also
    --------
    herfindahl : with a total known exactly; unbiased.

    Notes
    -----
    Fieller's sets for the ratio of T = Σ(yᵢ² - vᵢ) to D = Y² - V, with the total Y = Σyᵢ and its
    variance V: all r with (T - rD)² <= z²·(A - 2rC + r²B), where A, B and C are the unbiased
    estimates of the variances and the covariance,

        A = Σ(4yᵢ²vᵢ - 4vᵢ² + sᵢ),   C = 4(YΣyᵢvᵢ - Σvᵢ²) + Σsᵢ,
        B = 4(Y² - V)V + Σsᵢ + 2(V² - Σvᵢ²),

    with sᵢ = E eᵢ⁴ - vᵢ². Where D is within z of its errors of 0, and where the estimated variance
    is negative, every index is left; and so it is where the squares of the noise make more than a
    quarter of A and rest on fewer than 30 counts, as their sum is then not normal. Of 2 to 61
    counts from 2 to 500, under Laplace, geometric and discrete Gaussian noise of scale 2 or 3,
    intervals of level 95 % covered in 93.6 to 100 % of 4,000 cases each.

    References
    ----------
    Fieller, E. C. (1954). Some problems in interval estimation. Journal of the Royal Statistical
    Society, Series B 16(2), 175-185.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> noise = dpi.DiscreteGaussian(sigma=3.0)
    >>> dpi.functions.herfindahl_confint([120, 64, 16], mechanism=noise)
    IndexIntervals([0.444039, 0.495678], level 0.95, asymptotic)
    """
    only_noise(uncertainty, "herfindahl_confint", _OF_SHARES)
    alpha = check_level(alpha)
    found = unbiased(_SQUARE, values, mechanism=mechanism)
    (x,) = found._noisy
    x.need(unruled=True, independent=True, who="herfindahl_confint")
    check_array(x.values, x.name, ge=-1e15, le=1e15)
    table, shape, labels = area_table(x, by)
    y, v = x.values, x.variance
    own = np.ravel(np.asarray(found.variance))
    of_square = own - 4.0 * np.square(y) * v + 4.0 * np.square(v)
    columns = np.stack([y, v, y * v, np.square(v), of_square, own, np.square(y) - v], axis=1)
    total, spread, mixed, squares, bent, first, top = (table @ columns).T
    bottom = np.square(total) - spread
    second = 4.0 * bottom * spread + bent + 2.0 * (np.square(spread) - squares)
    both = 4.0 * (total * mixed - squares) + bent
    z2 = special.ndtri(0.5 * alpha) ** 2
    lead, middle = np.square(bottom) - z2 * second, top * bottom - z2 * both
    inside = np.square(middle) - lead * (np.square(top) - z2 * first)
    effective = np.square(bent) / np.maximum(table @ np.square(of_square), 1e-300)
    fine = (lead > 0.0) & (total > 0.0) & (inside >= -1e-9 * np.square(middle)) & (first >= 0.0)
    fine &= (bent <= 0.25 * first) | (effective >= _FEWEST)
    if not fine.any():
        raise NotEstimableError(
            "values must have totals and squares away from 0 by what their noise can be, which "
            "they have in no area: add counts up, or give exact totals to functions.herfindahl"
        )
    least = 1.0 / np.diff(table.indptr)
    safe, half = np.where(fine, lead, 1.0), np.sqrt(np.maximum(inside, 0.0))
    clipped = np.maximum(y, 0.0)
    plug_in = (table @ np.square(clipped)) / np.maximum(np.square(table @ clipped), 1e-300)
    ratio = np.where(bottom > 0.0, top / np.where(bottom > 0.0, bottom, 1.0), plug_in)
    lower, upper = (
        np.where(fine, end / safe, at) for end, at in ((middle - half, 0.0), (middle + half, 1.0))
    )
    ends = np.clip([ratio, lower, upper], least, 1.0)
    ends[0] = np.clip(ends[0], ends[1], ends[2])
    lost = int(np.count_nonzero(~fine))
    estimate, lower, upper, plain = (part.reshape(shape) for part in (*ends, plug_in))
    return IndexIntervals(
        estimate=estimate,
        lower=lower,
        upper=upper,
        plug_in=plain,
        alpha=alpha,
        method="asymptotic",
        uncertainty="noise",
        labels=labels,
        guarantee="asymptotic",
        notes=(f"in {lost} of {fine.size} areas noise leaves every index",) if lost else (),
    )


def entropy(
    values: Any,
    *,
    total: Any = None,
    by: Any = None,
    mechanism: Mechanism | None = None,
    uncertainty: Uncertainty = "noise",
) -> FunctionEstimate:
    """Estimate the entropy -Σ pᵢ ln pᵢ of shares pᵢ = fᵢ/N of confidential counts, without bias.

    Parameters
    ----------
    values, total, by
        As for :func:`herfindahl`.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: two-sided geometric or Laplace noise, or none.
    uncertainty : {"noise"}
        As for :func:`herfindahl`.

    Returns
    -------
    FunctionEstimate
        The entropy of each area, in nats: from 0 to ln k for k equal counts.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, ``total`` is missing, or the noise is of another
        law, under which no unbiased estimate exists.

    Notes
    -----
    It is ln N - Σ fᵢ ln fᵢ/N, with :func:`dpinfer.unbiased` of f ln f.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> noise = dpi.Geometric(scale=2.0)
    >>> dpi.functions.entropy([120, 64, 16], total=200, mechanism=noise).params.round(4)
    np.float64(0.8749)
    """
    only_noise(uncertainty, "entropy", _OF_SHARES)
    sums = unbiased(_log_product, values, mechanism=mechanism).sum(by)
    n = _total(total, "total", sums, sums._noisy[0], by)
    return sums._scaled(-1.0 / n, np.log(n))


def isolation(
    group: Any,
    rest: Any,
    *,
    total: Any = None,
    by: Any = None,
    mechanism: Laws = None,
    uncertainty: Uncertainty = "noise",
) -> FunctionEstimate:
    """Estimate the isolation index Σ (xᵢ/X)·xᵢ/(xᵢ + wᵢ) of a group, without bias.

    Parameters
    ----------
    group, rest : array, Series, DataFrame, Release or estimate
        The published counts x of the group and w of all others, by cell, with independent noises.
        Each row of two-dimensional arrays is an area of its own.
    total : float, array or Series, optional
        The size X >= 1 of the group in each area, known exactly. Left out where there is no noise.
    by : list, mapping, Series or str, optional
        Which cells are of one area, as for :meth:`FunctionEstimate.sum`.
    mechanism : NoiseLaw, sequence of NoiseLaw, or pair
        Two-sided geometric or Laplace noise, or none, of both or of each.
    uncertainty : {"noise"}
        What is covered. ``"noise+sampling"`` is refused: sampling looks like
        segregation by itself, by an amount that the counts do not tell.

    Returns
    -------
    FunctionEstimate
        The index of each area: how many of the people in the cell of a member of the group are of
        the group, on average.

    Raises
    ------
    InvalidParameterError
        As for :func:`entropy`; if the two share a noise.

    Notes
    -----
    :func:`dpinfer.unbiased` of x²/(x + w), 0 for empty cells: a function of two counts, as the size
    of a cell is not known without noise.

    References
    ----------
    Massey, D. S. and Denton, N. A. (1988). The dimensions of residential segregation. Social Forces
    67(2), 281-315. doi:10.1093/sf/67.2.281.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> noise = dpi.Geometric(scale=1.0)
    >>> x, w = [30, 5, 65], [20, 75, 5]
    >>> dpi.functions.isolation(x, w, total=100, mechanism=noise).params.round(4)
    np.float64(0.7861)
    """
    only_noise(uncertainty, "isolation", OF_CELLS)
    return _per_member(lambda x, w: x * x, group, rest, total, by, mechanism)


def exposure(
    group: Any,
    rest: Any,
    *,
    total: Any = None,
    by: Any = None,
    mechanism: Laws = None,
    uncertainty: Uncertainty = "noise",
) -> FunctionEstimate:
    """Estimate the exposure Σ (xᵢ/X)·wᵢ/(xᵢ + wᵢ) of a group to all others, without bias.

    Parameters
    ----------
    group, rest, total, by, mechanism, uncertainty
        As for :func:`isolation`.

    Returns
    -------
    FunctionEstimate
        The index of each area; one minus the isolation.

    Raises
    ------
    InvalidParameterError
        As for :func:`isolation`.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> noise = dpi.Geometric(scale=1.0)
    >>> x, w = [30, 5, 65], [20, 75, 5]
    >>> dpi.functions.exposure(x, w, total=100, mechanism=noise).params.round(4)
    np.float64(0.2139)
    """
    only_noise(uncertainty, "exposure", OF_CELLS)
    return _per_member(lambda x, w: x * w, group, rest, total, by, mechanism)


def information_index(
    groups: tuple[Any, ...],
    *,
    totals: tuple[Any, ...] | None = None,
    by: Any = None,
    mechanism: Laws = None,
    uncertainty: Uncertainty = "noise",
) -> FunctionEstimate:
    """Estimate the information index of segregation, Theil's H, without bias.

    Parameters
    ----------
    groups : tuple of array, Series, DataFrame, Release or estimate
        The published counts of 2 to 5 groups by cell, with independent noises. Each row of
        two-dimensional arrays is an area of its own.
    totals : tuple of float, array or Series, optional
        The size >= 1 of each group in each area, known exactly. Left out where there is no noise.
    by : list, mapping, Series or str, optional
        Which cells are of one area, as for :meth:`FunctionEstimate.sum`.
    mechanism : NoiseLaw, sequence of NoiseLaw, or tuple
        Two-sided geometric or Laplace noise, or none, of all groups or of each.
    uncertainty : {"noise"}
        What is covered. ``"noise+sampling"`` is refused: sampling looks like
        segregation by itself, by an amount that the counts do not tell.

    Returns
    -------
    FunctionEstimate
        The index of each area: 0 where all cells have the shares of the area, 1 where each cell has
        one group only.

    Raises
    ------
    InvalidParameterError
        As for :func:`isolation`.

    Notes
    -----
    H = Σ tᵢ(E - Eᵢ)/(T E), with the entropies E of the shares of the groups in the area and Eᵢ in
    cell i of tᵢ persons. As tᵢEᵢ = tᵢ ln tᵢ - Σ x ln x over the groups, it is one function of the
    counts of a cell, and E is known from the totals.

    References
    ----------
    Theil, H. and Finizza, A. J. (1971). A note on the measurement of racial integration of schools
    by means of informational concepts. Journal of Mathematical Sociology 1(2), 187-193.
    Reardon, S. F. and Firebaugh, G. (2002). Measures of multigroup segregation. Sociological
    Methodology 32(1), 33-67. doi:10.1111/1467-9531.00110.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> noise, pair = dpi.Geometric(scale=1.0), ([30, 5, 65], [20, 75, 5])
    >>> index = dpi.functions.information_index(pair, totals=(100, 100), mechanism=noise)
    >>> index.params.round(4), index.plug_in.round(4)
    (np.float64(0.4896), np.float64(0.4924))
    """
    only_noise(uncertainty, "information_index", OF_CELLS)
    if not isinstance(groups, tuple) or len(groups) < 2:
        raise InvalidParameterError(
            "groups must be a tuple of the counts of two groups or more, as (black, white)"
        )
    sums = unbiased(_mixed, groups, mechanism=mechanism).sum(by)
    if totals is None:
        totals = (None,) * len(groups)
    if not isinstance(totals, tuple) or len(totals) != len(groups):
        raise InvalidParameterError(
            f"totals must be a tuple with that of each of the {len(groups)} groups"
        )
    sizes = np.array(
        [
            _total(one, f"totals[{at}]", sums, x, by)
            for at, (one, x) in enumerate(zip(totals, sums._noisy, strict=True))
        ]
    )
    return sums._scaled(-1.0 / _mixed(*sizes), 1.0)


def _log_product(count: FloatArray) -> FloatArray:
    return np.asarray(special.xlogy(count, count))


def _mixed(*counts: FloatArray) -> FloatArray:
    """Return t ln t - Σ x ln x, the entropy of the shares times their total."""
    whole = sum(counts, start=np.zeros_like(counts[0]))
    return _log_product(whole) - sum(map(_log_product, counts), start=np.zeros_like(whole))


def _per_member(
    product: Callable[..., Any], group: Any, rest: Any, total: Any, by: Any, mechanism: Laws
) -> FunctionEstimate:
    def share(x: FloatArray, w: FloatArray) -> FloatArray:
        return np.asarray(product(x, w) / np.maximum(x + w, 1.0))

    sums = unbiased(share, (group, rest), mechanism=mechanism).sum(by)
    return sums._scaled(1.0 / _total(total, "total", sums, sums._noisy[0], by))


def _total(total: Any, name: str, sums: FunctionEstimate, x: NoisyValues, by: Any) -> FloatArray:
    """Return the total of each area; of counts without noise their sum."""
    given = totals_of(total, name, x, np.shape(sums.params), sums.labels)
    if given is not None:
        return given
    first = sums._noisy[0]
    own = unbiased(_COUNT, replace(x, labels=first.labels, shape=first.shape)).sum(by)
    return check_array(np.asarray(own.params), f"sums of {x.name}", gt=0)
