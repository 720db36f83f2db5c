"""Intervals for the values of a release, whatever its publishing rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from dpinfer._validation import Alternative, check_option, show
from dpinfer.errors import InvalidParameterError
from dpinfer.intervals.selected._confint import Estimator, Options, intervals_of
from dpinfer.releases import Release
from dpinfer.results.intervals import Intervals

METHODS = ("conditional", "naive")


def release_confint(
    release: Release,
    *,
    alpha: float = 0.05,
    method: Literal["conditional", "naive"] = "conditional",
    alternative: Alternative = "two-sided",
    estimate: Estimator = "maximum-likelihood",
    integer: bool = False,
    lower: float | None = None,
    upper: float | None = None,
    simultaneous: bool = False,
) -> Intervals:
    """Confidence intervals for the confidential values behind a release, by its publishing rule.

    Parameters
    ----------
    release : Release
        What was published: values with the law of their noise and, where it has them, the
        threshold that they reached and the bounds into which they were moved.
    alpha, method, alternative, estimate, integer, lower, upper, simultaneous
        As in :func:`~dpinfer.intervals.selected.thresholded.thresholded_confint`.

    Returns
    -------
    Intervals
        One interval for each value, with the labels of the release. Without threshold and clamp
        they are those of :func:`~dpinfer.count_confint`.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or a value with a threshold has noise of another
        law than Laplace, Geometric, Gaussian, DiscreteGaussian or Tulap.

    Examples
    --------
    >>> from dpinfer import Geometric, Release
    >>> release = Release([530.0, 97.0, 91.0], mechanism=Geometric(scale=10.0), threshold=90)
    >>> lower, upper = release_confint(release, lower=0, integer=True)
    >>> lower, upper
    (array([500.,   0.,   0.]), array([560., 121., 105.]))
    """
    if not isinstance(release, Release):
        raise InvalidParameterError(
            f"release must be a Release, got {show(release)}: see thresholded_confint for values "
            "with a threshold"
        )
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
    return replace(intervals_of(release, options, method=method), labels=release.labels)
