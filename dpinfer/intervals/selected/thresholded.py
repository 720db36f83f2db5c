"""Intervals for values that were published because they reached a threshold."""

from __future__ import annotations

from typing import Any, Literal

from dpinfer._validation import Alternative, check_option
from dpinfer.intervals.selected._confint import Estimator, Options, intervals_of
from dpinfer.intervals.selected._rule import as_release, relabelled
from dpinfer.mechanisms import Mechanism
from dpinfer.results.intervals import Intervals

METHODS = ("conditional", "naive")


def thresholded_confint(
    count: Any,
    *,
    mechanism: Mechanism,
    threshold: Any,
    clamp: Any = None,
    alpha: float = 0.05,
    method: Literal["conditional", "naive"] = "conditional",
    alternative: Alternative = "two-sided",
    estimate: Estimator = "maximum-likelihood",
    integer: bool = False,
    lower: float | None = None,
    upper: float | None = None,
    simultaneous: bool = False,
) -> Intervals:
    """Confidence intervals for counts that were published because they reached a threshold.

    Parameters
    ----------
    count : float, array, Series or DataFrame
        The published values, none of them below its threshold.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all values, or one for each.
    threshold : float, array or Series
        The noisy value was published if it was at least this: one bound for all values or one for
        each; -inf where there is none. Where whole numbers were published if they *exceeded* a
        whole number, give the next one.
    clamp : float or pair, optional
        The bounds into which noisy values were moved before they were compared with the
        threshold, as for :class:`~dpinfer.Release`.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).
    method : {"conditional", "naive"}
        ``"conditional"`` takes account of the threshold. ``"naive"`` is the interval of
        :func:`~dpinfer.count_confint`, offered for comparison: it does not have the stated
        coverage among published values.
    alternative : {"two-sided", "larger", "smaller"}
        An equal-tailed interval, or a one-sided one at the full ``alpha``: ``"larger"`` has a
        lower end only, ``"smaller"`` an upper end only.
    estimate : {"maximum-likelihood", "median-unbiased"}
        The point estimate; see the notes. ``"naive"`` intervals have the published value.
    integer : bool, default False
        Whether the confidential values are whole numbers; the ends are then rounded inward.
    lower, upper : float, optional
        Bounds that the confidential values respect, such as ``lower=0`` for counts. The intervals
        are intersected with them, and estimates beyond them are moved to them.
    simultaneous : bool, default False
        Whether the intervals shall cover all confidential values together with probability
        1 - ``alpha``, rather than each of them; the noises are independent.

    Returns
    -------
    Intervals
        One interval for each value, with the labels of ``count``; unpacks as ``lower, upper``.
        They cover the noise only: they are about the confidential values.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or a value with a threshold has noise of another
        law than Laplace, Geometric, Gaussian, DiscreteGaussian or Tulap.
    IncompatibleReleaseError
        If a value is below its threshold or outside its clamping bounds, or is a fraction under
        noise that takes whole numbers only.

    Notes
    -----
    A confidential value f is published as Y = f + e if that reaches the threshold τ. Given that
    it was, P(Y ≥ y) = S(y-f)/S(τ-f) with S(x) = P(e ≥ x), which grows with f. The interval
    holds the f with P(Y ≥ y | Y ≥ τ; f) > α/2 and P(Y ≤ y | Y ≥ τ; f) > α/2. Whatever f is, it
    misses at most a share α of the published values: exactly α for continuous noise, less where
    noise takes whole numbers. Intervals of unpublished values are not part of that; see
    :func:`~dpinfer.intervals.selected.unpublished.unpublished_bound`.

    Near the threshold the data say little. Laplace and geometric noise have no memory, so that
    for f ≤ τ the conditional law is the same for every f: where exp(-(y-τ)/b) > α/2 the lower
    end is -inf (which ``lower=0`` cuts off). Gaussian noise gives a finite, if far, lower end for
    every y > τ; one that is 447 standard deviations below the threshold is given as -inf, since
    rounding matters there. On the other side, a value may be so close above τ that no f makes
    that likely enough: its interval is empty, as are those that ``lower`` leaves without a value.
    Where f ≤ τ, Laplace noise leaves a share α/2 of published values with an empty interval.

    The maximum-likelihood estimate maximises the conditional likelihood p(y-f)/S(τ-f). Under
    Gaussian noise it is the f with E[Y | Y ≥ τ; f] = y, which decreases to -inf as y decreases to
    τ. Under Laplace and geometric noise it is y itself: the likelihood has its peak there,
    however unlikely publication was (where y = τ it is the same for all f ≤ τ, and y the largest
    of them). The median-unbiased estimate solves P(Y ≥ y | Y ≥ τ; f) = 1/2, so that it is above and
    below f equally often among published values; where noise takes whole numbers it is the middle
    of the interval with both tails at 1/2. At a clamping bound both estimates are infinite unless
    ``lower`` or ``upper`` stops them. Tulap noise is made for counts: with a threshold its ends and
    maximum-likelihood estimates are whole numbers, as the confidential values are; where it is
    bounded, the likeliest value near the threshold may be the lowest that can reach it.

    The naive interval falls short where f is below the threshold. Under Laplace noise it covers
    f = τ - d in a share 1 - α·exp(d/b) of the published values: at the 95 % level 0.95 for d = 0,
    0.86 for d = b, 0.63 for d = 2b and, from d = 3b on, in *none*.

    References
    ----------
    Fithian, W., Sun, D. and Taylor, J. (2014). Optimal inference after model selection.
    arXiv:1410.2597.
    Zhong, H. and Prentice, R. L. (2008). Bias-reduced estimators and confidence intervals for odds
    ratios in genome-wide association studies. Biostatistics 9(4), 621-634.
    doi:10.1093/biostatistics/kxn001.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> intervals = thresholded_confint(
    ...     [107.3, 140.2, 190.6], mechanism=Laplace(scale=10.0), threshold=100, lower=0
    ... )
    >>> intervals.lower.round(1), intervals.upper.round(1)
    (array([  0. , 107.6, 160.6]), array([130.9, 170. , 220.6]))
    """
    options = Options(
        alpha=alpha,
        follow_rule=check_option(method, "method", METHODS) == "conditional",
        alternative=alternative,
        estimate=estimate,
        integer=integer,
        lower=lower,
        upper=upper,
        simultaneous=simultaneous,
    )
    release, shape, labels = as_release(count, mechanism, threshold=threshold, clamp=clamp)
    return relabelled(intervals_of(release, options, method=method), shape, labels)
