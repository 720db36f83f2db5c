"""Intervals for values that were moved into bounds before they were published."""

from __future__ import annotations

from typing import Any, Literal

from dpinfer._validation import Alternative, check_option
from dpinfer.intervals.selected._confint import Options, intervals_of
from dpinfer.intervals.selected._rule import as_release, relabelled
from dpinfer.mechanisms import Mechanism
from dpinfer.results.intervals import Intervals

METHODS = ("exact", "naive")


def clamped_confint(
    count: Any,
    *,
    mechanism: Mechanism,
    clamp: Any,
    alpha: float = 0.05,
    method: Literal["exact", "naive"] = "exact",
    alternative: Alternative = "two-sided",
    integer: bool = False,
    lower: float | None = None,
    upper: float | None = None,
    simultaneous: bool = False,
) -> Intervals:
    """Confidence intervals for counts that were clamped after the noise was added.

    Parameters
    ----------
    count : float, array, Series or DataFrame
        The published values, each within its bounds.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all values, or one for each.
    clamp : float or pair
        The bounds into which noisy values were moved: a lower bound such as 0, or ``(lower,
        upper)``, each a number, or an array or Series with one bound for each value; infinite or
        None where there is none.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).
    method : {"exact", "naive"}
        ``"exact"`` takes account of the bounds. ``"naive"`` is the interval of
        :func:`~dpinfer.count_confint`, offered for comparison: a value at a bound may be any
        distance from the confidential one, so that it does not have the stated coverage.
    alternative : {"two-sided", "larger", "smaller"}
        An equal-tailed interval, or a one-sided one at the full ``alpha``: ``"larger"`` has a
        lower end only, ``"smaller"`` an upper end only.
    integer : bool, default False
        Whether the confidential values are whole numbers; the ends are then rounded inward.
    lower, upper : float, optional
        Bounds that the *confidential* values respect. The intervals are intersected with them, and
        estimates beyond them are moved to them.
    simultaneous : bool, default False
        Whether the intervals shall cover all confidential values together with probability
        1 - ``alpha``, rather than each of them; the noises are independent.

    Returns
    -------
    Intervals
        One interval for each value, with the labels of ``count``; unpacks as ``lower, upper``.
        The estimates are the values; those at a bound are infinite, as the likelihood grows
        without end, unless ``lower`` or ``upper`` stops them.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or ``mechanism`` does not fit ``count``.
    IncompatibleReleaseError
        If a value is outside its bounds, or is a fraction within them under noise that takes
        whole numbers only.

    Notes
    -----
    Of a value at the upper bound c it is known only that f + e ≥ c, so the interval has no upper
    end; its lower end is the ordinary one, at P(e ≥ c - f) = α/2. At the lower bound it is the
    other way round. Within the bounds the intervals are the ordinary ones. The end that is left
    keeps the error probability α/2, although the other side cannot be missed: at the full α,
    a confidential value near the bound would be missed with probability up to 3α/2, from above and
    from below. Whether a value is at a bound is itself random.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> intervals = clamped_confint([0.0, 3.2, 25.4], mechanism=Laplace(scale=2.0), clamp=0)
    >>> intervals.lower.round(2), intervals.upper.round(2)
    (array([ -inf, -2.79, 19.41]), array([ 5.99,  9.19, 31.39]))
    """
    options = Options(
        alpha=alpha,
        follow_rule=check_option(method, "method", METHODS) == "exact",
        alternative=alternative,
        integer=integer,
        lower=lower,
        upper=upper,
        simultaneous=simultaneous,
    )
    release, shape, labels = as_release(count, mechanism, clamp=clamp)
    return relabelled(intervals_of(release, options, method=method), shape, labels)
