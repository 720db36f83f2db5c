"""Confidence sets for ratios of two linear functions of published values."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpinfer._interchange import as_table
from dpinfer._validation import check_alpha, check_array, check_flag, check_option
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.weights import checked_weights
from dpinfer.intervals.ratios._arcs import RATIO, Arcs
from dpinfer.intervals.ratios._general import ends_of_weights
from dpinfer.intervals.ratios.ratio import LARGEST, METHODS, Method, as_sets, check_level
from dpinfer.mechanisms import Mechanism, as_noise
from dpinfer.mechanisms.rounded import warn_of_rounding
from dpinfer.mechanisms.weighted_sum import on_noises
from dpinfer.results.confidence_sets import ConfidenceSets
from dpinfer.results.labels import split_labels


def linear_ratio_confint(
    values: Any,
    numerator: Any,
    denominator: Any,
    *,
    mechanism: Mechanism,
    alpha: float = 0.05,
    method: Method = "exact",
    simultaneous: bool = False,
) -> ConfidenceSets:
    """Confidence sets for ratios of linear functions of the values behind one noisy vector.

    Parameters
    ----------
    values : array of float, shape (m,), or Series
        The published values.
    numerator, denominator : array of float, shape (m,) or (k, m), Series, DataFrame or mapping
        The weights of either function, or of k functions, one a row, as for
        :func:`dpinfer.linear_confint`; one function serves all rows of the other.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all values, or one for each, independent. Laws that a fit
        gave of its estimates know how they depend.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1), and at least 1e-50 for each set.
    method : {"exact", "normal"}
        ``"exact"``: by the law of the weighted sum of noises. ``"normal"``: normal quantiles,
        offered for comparison.
    simultaneous : bool, default False
        Whether the sets shall cover all ratios together with probability 1 - ``alpha``; each has
        the level 1 - α/k then.

    Returns
    -------
    ConfidenceSets
        One set for each ratio. They cover the noise only.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or the parts do not fit together.

    See Also
    --------
    ratio_confint : ratios of two values with noise of their own, much faster for many.

    Notes
    -----
    For weights a and b the set holds every r at which abs(aᵀy - r·bᵀy) is not extreme under the law
    of (a - r·b)ᵀe, which is that of :class:`~dpinfer.mechanisms.WeightedSum`; see
    :func:`ratio_confint` for what sets there are. The law is computed anew for each r looked at:
    allow a second for each ratio. The law counts a value within rounding of an atom as that atom.
    Runs of rejected r narrower than 1/24 of all directions are found only around the most extreme
    one, and all others count as accepted.

    Examples
    --------
    The share of a cell in the sum of all:

    >>> from dpinfer.mechanisms import Laplace
    >>> counts = [60.4, 90.3, 29.8]
    >>> share = linear_ratio_confint(counts, [1, 0, 0], [1, 1, 1], mechanism=Laplace(scale=2.0))
    >>> share.lower.round(4), share.upper.round(4)
    (np.float64(0.3084), np.float64(0.3607))
    """
    alpha = check_alpha(alpha)
    method = check_option(method, "method", METHODS)
    together = check_flag(simultaneous, "simultaneous")
    published, labels = split_labels(values, "values")
    if published.ndim != 1:
        raise InvalidParameterError(f"values must be one-dimensional, got shape {published.shape}")
    law = as_noise(mechanism, len(published), dependence="used")
    warn_of_rounding(published, law, "values")
    numerator = as_table(numerator, "numerator")
    denominator = as_table(denominator, "denominator")
    first = checked_weights(numerator, labels, len(published))
    second = checked_weights(denominator, labels, len(published))
    rows = max(len(np.atleast_2d(first)), len(np.atleast_2d(second)))
    if not {len(np.atleast_2d(first)), len(np.atleast_2d(second))} <= {1, rows}:
        raise InvalidParameterError(
            f"numerator and denominator must have as many rows as each other, or one, got "
            f"{len(first)} and {len(second)}"
        )
    tops, bottoms = (np.broadcast_to(part, (rows, len(published))) for part in (first, second))
    with np.errstate(over="ignore", invalid="ignore"):
        points = np.column_stack([tops @ published, bottoms @ published])
    check_array(points, "weights @ values", ge=-LARGEST, le=LARGEST)
    tail = (alpha / rows if together else alpha) / 2.0
    check_level(2.0 * tail)
    joint, law = on_noises(np.concatenate([tops, bottoms]), law)
    arcs = Arcs.empty(points)
    for row in range(rows):
        ends = ends_of_weights(points[row], joint[row], joint[rows + row], law, tail, method)
        arcs.fill(np.array([row]), *ends)
    shape = (rows,) if max(first.ndim, second.ndim) == 2 else ()
    framed = [part.index for part in (numerator, denominator) if hasattr(part, "columns")]
    index = next((part for part in framed if len(part) == rows), None)
    return as_sets(arcs, RATIO, shape, alpha, method, together, index)
