"""A test for every row of a release."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from dpinfer._validation import ALTERNATIVES, Alternative, FloatArray, check_array, check_option
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.estimation.published import unlabelled
from dpinfer.estimation.published_law import PublishedRows
from dpinfer.hypothesis_tests.proportions.one_sample import proportions_ztest
from dpinfer.mechanisms.independent import integer_cells
from dpinfer.releases import Release
from dpinfer.results.adjusted import AdjustedTests, Adjustment, adjust_pvalues
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.null_distribution import ExactNull, around

_LARGEST = 1e100

_SMALLEST_LOG = -1e6
"""Below this logarithm of a probability, ratios of probabilities lose more than six digits."""


def _at(rows: PublishedRows, side: str, z: FloatArray) -> FloatArray:
    """Tail at a z statistic (no closure, so that results can be pickled)."""
    tail: FloatArray = getattr(rows, side)(_exact_points(rows.target + z * rows.spread))
    return tail


def _around(rows: PublishedRows, z: FloatArray) -> FloatArray:
    """Return the z statistics of publishable values around given ones, if all are whole numbers."""
    low, high = rows.lowest - rows.target, rows.highest - rows.target
    whole = integer_cells(rows.noise, rows.target.size)
    for end in (low, high):
        whole &= np.isinf(end) | (end == np.rint(end))
    return around(
        z,
        unit=np.where(whole, 1.0, 0.0),
        spread=rows.spread,
        least=np.maximum(low, rows.threshold - rows.target),
        most=high,
    )


def _exact_points(y: FloatArray) -> FloatArray:
    """Undo the rounding of whole numbers that went through z."""
    whole = np.rint(y)
    return np.where(np.abs(y - whole) <= 1e-12 * (1.0 + np.abs(y)), whole, y)


def rows_ztest(
    release: Release,
    value: Any = 0.0,
    *,
    nobs: Any = None,
    alternative: Alternative = "two-sided",
    alpha: float = 0.05,
    adjust: Adjustment = "holm",
) -> AdjustedTests:
    """Test every row of a release against a value, adjusted for the number of rows.

    Parameters
    ----------
    release : Release
        What was published.
    value : float, array of shape (m,) or Series, default 0
        The confidential value under the null hypothesis, one for all rows or one for each; a
        Series has the labels of the release. With ``nobs``, the proportion in (0, 1).
    nobs : int, array of int, shape (m,), or Series, optional
        Numbers of trials. With them the hypothesis is about the population: each value is a count
        of successes among so many trials, and the exact test of
        :func:`~dpinfer.proportions_ztest` is made.
    alternative : {"two-sided", "larger", "smaller"}
        Whether a value differs from ``value``, exceeds it, or falls short of it.
    alpha : float, default 0.05
        The error rate to control over all rows, in (0, 1).
    adjust : str, default "holm"
        The adjustment; see :func:`~dpinfer.adjust_pvalues`.

    Returns
    -------
    AdjustedTests
        One test for each row, under its label; ``tests`` holds the single tests.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, a row has no noise, or ``value`` is so far below
        the threshold that the noise reaches it with a probability below exp(-1e6).
    IncompatibleReleaseError
        If ``nobs`` is given for values with a threshold, clamping bounds or bins.

    Notes
    -----
    Without ``nobs`` the published value is value + e, with e the noise. Where rows were published
    because they reached a threshold τ, the p-value is conditional on that:
    P(value + e ≥ y)/P(value + e ≥ τ) for ``"larger"``. Clamped values keep their place in the
    order: a value at the upper bound is as large as any. The two-sided p-value is that of values at
    least as far from ``value``. Where counts were rounded up before the noise, so is ``value``.

    Examples
    --------
    >>> from dpinfer import Geometric, Release
    >>> release = Release([530.0, 118.0, 96.0], mechanism=Geometric(scale=10.0), threshold=90)
    >>> rows_ztest(release, 100).pvalue.round(4)
    array([0.    , 0.1052, 0.6411])
    """
    check_option(alternative, "alternative", ALTERNATIVES)
    if not isinstance(release, Release):
        raise InvalidParameterError(
            f"release must be a Release, got {type(release).__name__}: see Release.from_tables"
        )
    tests = _about_values if nobs is None else partial(_about_proportions, nobs)
    return adjust_pvalues(tests(release, value, alternative), alpha=alpha, method=adjust)


def _about_values(release: Release, value: Any, alternative: Alternative) -> HypothesisResult:
    """Test confidential values; nothing is random but the noise."""
    target = unlabelled(value, "value", release.labels, "the release")
    check_array(target, "value", ge=-_LARGEST, le=_LARGEST)
    if target.shape not in ((), (len(release),)):
        raise InvalidParameterError(
            f"value must be a number, or have one entry for each of the {len(release)} rows, got "
            f"shape {target.shape}"
        )
    # a count is in the bin of the one that it is tested for, whatever the noise
    bin_size = release.bin_size
    binned = np.ceil(target / bin_size) * bin_size
    rows = PublishedRows.of(release, np.where(np.greater(bin_size, 1), binned, target))
    if (rows.spread == 0).any():
        raise InvalidParameterError(
            "release must have noise in every row that is tested: compare exact values directly"
        )
    _check_reachable(rows)
    larger, smaller = rows.larger(release.values), rows.smaller(release.values)
    distance = np.abs(release.values - rows.target)
    both = rows.larger(rows.target + distance) + rows.smaller(rows.target - distance)
    pvalues = {
        "larger": larger,
        "smaller": smaller,
        "two-sided": np.where(distance == 0, 1.0, np.minimum(both, 1.0)),
    }
    conditional = release.threshold is not None and bool(np.isfinite(release.threshold).any())
    return HypothesisResult(
        name="Test of each row",
        statistic=(release.values - rows.target) / rows.spread,
        pvalue=pvalues[alternative],
        alternative=alternative,
        method="conditional" if release.has_rule.any() else "exact",
        null_distribution=ExactNull(
            partial(_at, rows, "larger"),
            partial(_at, rows, "smaller"),
            error=rows.error,
            atoms=partial(_around, rows),
        ),
        uncertainty="noise",
        labels=release.labels,
        notes=("conditional on reaching the threshold",) if conditional else (),
    )


def _check_reachable(rows: PublishedRows) -> None:
    """Refuse to condition on what is impossible to float precision."""
    far = ~(rows.log_at_least(rows.threshold) >= _SMALLEST_LOG)
    if far.any():
        raise InvalidParameterError(
            f"value must be near enough to the threshold, {rows.threshold[far][0]:g}, for the "
            f"noise to reach it, got {rows.target[far][0]:g}: under the null hypothesis the row "
            "would not have been published"
        )


def _about_proportions(
    nobs: Any, release: Release, value: Any, alternative: Alternative
) -> HypothesisResult:
    """Test population proportions."""
    if release.has_rule.any():
        raise IncompatibleReleaseError(
            "release must have no threshold, clamp or bin_size for a test of proportions: values "
            "that were selected, cut off or rounded before the noise have another law"
        )
    shown = release.values
    if release.labels is not None:
        import pandas as pd

        shown = pd.Series(release.values, index=release.labels)
    return proportions_ztest(
        shown, nobs, value, mechanism=release.mechanism, alternative=alternative
    )
