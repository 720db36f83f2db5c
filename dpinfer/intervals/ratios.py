"""Confidence sets for ratios and shares of confidential values, and for relative changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import (
    FloatArray,
    as_table,
    check_alpha,
    check_array,
    check_broadcast,
    check_flag,
    check_option,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.pivots import sidak
from dpinfer.estimation.targets import checked_weights
from dpinfer.intervals._fieller import (
    CHANGE,
    RATIO,
    SHARE,
    Arcs,
    Map,
    dependent_arcs,
    ends_of_weights,
    number_sets,
)
from dpinfer.intervals._ratio_sets import MOST_ROWS, exact_arcs, normal_arcs
from dpinfer.mechanisms.independent import Mechanism, as_noise
from dpinfer.mechanisms.law import NoiseLaw, refuse_same
from dpinfer.mechanisms.rounded import warn_of_rounding
from dpinfer.mechanisms.weighted_sum import on_noises
from dpinfer.results.intervals import ConfidenceSets
from dpinfer.results.labels import split_labels

if TYPE_CHECKING:
    import pandas as pd


Method = Literal["exact", "normal"]

PairMechanism = Mechanism | tuple[Mechanism, Mechanism]
"""One law for both values, or the pair of that of the numerators and that of the denominators."""

METHODS: tuple[Method, ...] = ("exact", "normal")
SMALLEST_ALPHA = 1e-50
"""The laws of weighted sums are not followed farther out."""

LARGEST = 1e150
"""Larger values than this, or ratios of them, leave the range of floats when multiplied."""


def ratio_confint(
    numerator: Any,
    denominator: Any,
    *,
    mechanism: PairMechanism,
    alpha: float = 0.05,
    method: Method = "exact",
    simultaneous: bool = False,
) -> ConfidenceSets:
    """Confidence sets for ratios of two confidential values, both published with noise.

    Parameters
    ----------
    numerator, denominator : float, array, Series or DataFrame
        The published values, up to 1e150 in size: the confidential values plus noise, not rounded
        or clamped since. Their shapes broadcast; labels have to match.
    mechanism : NoiseLaw or sequence of two
        The law of the noise: one for all values, or a pair (that of the numerators, that of the
        denominators), each of them one law or a law for each row. The noises are independent, but
        for laws that a fit gave of its estimates, as
        :meth:`dpinfer.estimation.CombinedEstimate.noise` does: they know how they depend.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1), and at least 1e-50 for each set.
    method : {"exact", "normal"}
        ``"exact"``: by the law of e₁ - r·e₂ for the noises e₁ and e₂. ``"normal"``: Fieller's
        formula, which takes the noise as Gaussian; offered for comparison.
    simultaneous : bool, default False
        Whether the sets shall cover all ratios together with probability 1 - ``alpha``.

    Returns
    -------
    ConfidenceSets
        One set for each row: an interval, the complement of one, or every number. They cover the
        noise only: they are about the ratio of the confidential values.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or the parts do not fit together.

    See Also
    --------
    share_confint : part of a total.
    linear_ratio_confint : ratios of two linear functions of one release, as of a cell and the sum
        of all cells.
    dpinfer.linear_confint : differences, and other linear functions.

    Notes
    -----
    With y₁ = f₁ + e₁ and y₂ = f₂ + e₂, the number y₁ - θ·y₂ is e₁ - θ·e₂ for θ = f₁/f₂ and has a
    known law. The set holds every r at which abs(y₁ - r·y₂) is at most the smallest t with
    P(e₁ - r·e₂ > t) ≤ α/2, and covers θ with probability at least 1 - α, exactly 1 - α for noise
    with a density. Where f₂ = 0 there is no ratio. For Gaussian noise this is Fieller's theorem.

    The quantile t is a norm of (1, -r) for symmetric log-concave noise such as Laplace and Gaussian
    noise (Bobkov 2010). The rejected r are then one arc of the projective line, and the set is an
    interval, or the complement of one, which holds arbitrarily large ratios, where
    the denominator is not distinct from 0; or every number, where both values may be 0.

    Whole-numbered noise does not have that property quite. The set reported is what is left
    when the run of rejected numbers around the most extreme one is taken out: it holds the set
    defined above and covers as often. Its ends are found exactly for narrow noise. If one of the
    noises has a standard deviation above 30, or only one is whole-numbered, whole-numbered noise is
    replaced by Laplace or Gaussian noise of the same scale, and the most by which the two differ
    (about 1/2) is added to t: the set is then somewhat wider than need be.

    Errors of estimates from one fit are weighted sums of the same noises, and so is e₁ - r·e₂: its
    law is found anew for each r, as in :func:`linear_ratio_confint`, for at most 2,000 pairs.

    Simultaneous sets have α/k or, where no value stands in several rows, 1 - (1 - α)^(1/k) for
    each of k rows.

    References
    ----------
    Fieller, E. C. (1954). Some problems in interval estimation. Journal of the Royal Statistical
    Society B 16(2), 175-185. doi:10.1111/j.2517-6161.1954.tb00159.x.

    Bobkov, S. G. (2010). Convex bodies and norms associated to convex measures. Probability Theory
    and Related Fields 147, 303-332.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> lower, upper = ratio_confint(60.4, 120.3, mechanism=Laplace(scale=2.0))
    >>> lower.round(4), upper.round(4)
    (np.float64(0.4486), np.float64(0.5577))

    Denominators near 0 leave large ratios possible:

    >>> ratio_confint([60.4, 60.4, 3.1], [120.3, 2.9, 1.1], mechanism=Laplace(scale=2.0)).kind
    array(['interval', 'complement', 'line'], dtype='<U10')
    """
    return _confint(
        ("numerator", numerator),
        ("denominator", denominator),
        RATIO,
        mechanism,
        alpha,
        method,
        simultaneous,
    )


def share_confint(
    part: Any,
    rest: Any = None,
    *,
    total: Any = None,
    mechanism: PairMechanism,
    alpha: float = 0.05,
    method: Method = "exact",
    simultaneous: bool = False,
) -> ConfidenceSets:
    """Confidence sets for shares of confidential values in totals.

    Parameters
    ----------
    part : float, array, Series or DataFrame
        The published parts.
    rest : float, array, Series or DataFrame, optional
        The published remainders, with noise of their own: the share is part/(part + rest).
    total : float, array, Series or DataFrame, optional
        In the place of ``rest``, totals that were published with noise of their own: the share is
        part/total. For totals that are sums of published values, the part among them, see
        :func:`linear_ratio_confint`.
    mechanism : NoiseLaw or sequence of two
        One law for all values, or the pair of that of the parts and that of the other values.
    alpha, method, simultaneous
        As for :func:`ratio_confint`.

    Returns
    -------
    ConfidenceSets
        One set for each row. Shares of counts are between 0 and 1: ``restrict(lower=0, upper=1)``
        of the result leaves out what is not.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or not just one of ``rest`` and ``total`` is
        given.

    Notes
    -----
    A share p is in the set if p/(1 - p) is in that of the ratio part/rest: both say that
    (1 - p)·part - p·rest is not extreme under the law of its noise.

    Examples
    --------
    >>> from dpinfer.mechanisms import Geometric
    >>> lower, upper = share_confint(60, 120, mechanism=Geometric(scale=2.0))
    >>> lower.round(4), upper.round(4)
    (np.float64(0.3086), np.float64(0.3568))
    """
    if (rest is None) == (total is None):
        raise InvalidParameterError("rest or total must be given, and not both")
    other, form = (("rest", rest), SHARE) if total is None else (("total", total), RATIO)
    return _confint(("part", part), other, form, mechanism, alpha, method, simultaneous)


def relative_change_confint(
    new: Any,
    old: Any,
    *,
    mechanism: PairMechanism,
    alpha: float = 0.05,
    method: Method = "exact",
    simultaneous: bool = False,
) -> ConfidenceSets:
    """Confidence sets for relative changes of confidential values, (new - old)/old.

    Parameters
    ----------
    new, old : float, array, Series or DataFrame
        The published values.
    mechanism : NoiseLaw or sequence of two
        One law for all values, or the pair of that of the new values and that of the old ones.
    alpha, method, simultaneous
        As for :func:`ratio_confint`.

    Returns
    -------
    ConfidenceSets
        One set for each row: that of the ratio new/old, minus 1.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or the parts do not fit together.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> change = relative_change_confint(150.2, 120.3, mechanism=Laplace(scale=2.0))
    >>> change.estimate.round(4), change.lower.round(4), change.upper.round(4)
    (np.float64(0.2485), np.float64(0.174), np.float64(0.3291))
    """
    return _confint(("new", new), ("old", old), CHANGE, mechanism, alpha, method, simultaneous)


def _confint(
    first: tuple[str, Any],
    second: tuple[str, Any],
    form: Map,
    mechanism: PairMechanism,
    alpha: float,
    method: Method,
    simultaneous: bool,
) -> ConfidenceSets:
    """Return the sets of a number that is a function of the ratio of two values, named."""
    alpha = check_alpha(alpha)
    method = check_option(method, "method", METHODS)
    pairs, shape, labels, shared, moved = _pairs(first, second)
    laws = _pair_of_laws(mechanism, len(pairs))
    estimates = any(law._shares for law in laws)
    if estimates:
        _check_estimates(laws, mechanism, [np.size(part) for _, part in (first, second)])
    for (called, _), column, law in zip((first, second), pairs.T, laws, strict=True):
        warn_of_rounding(column, law, called)
    if moved and laws[1].shape:
        raise InvalidParameterError(
            f"{second[0]} must have its labels in the order of those of {first[0]}, or mechanism "
            "one law for all rows"
        )
    together = check_flag(simultaneous, "simultaneous")
    scales = np.column_stack([np.broadcast_to(law.std, len(pairs)) for law in laws])
    rows = max(1, int(np.count_nonzero(scales.any(axis=1)))) if together else 1
    each = alpha / rows if shared or estimates else sidak(alpha, rows)
    check_level(each)
    if estimates:
        arcs = dependent_arcs(pairs, *laws, each / 2.0, method)
    elif method == "normal":
        arcs = normal_arcs(pairs, scales, each / 2.0)
    else:
        arcs = exact_arcs(pairs, *laws, each / 2.0)
    return as_sets(arcs, form, shape, alpha, method, together, labels)


def check_level(alpha: float) -> None:
    """Refuse an error probability of a single set that is out of reach."""
    if alpha < SMALLEST_ALPHA:
        raise InvalidParameterError(
            f"alpha must be >= {SMALLEST_ALPHA:g} for each set, got {alpha:g}"
        )


def as_sets(
    arcs: Arcs,
    form: Map,
    shape: tuple[int, ...],
    alpha: float,
    method: str,
    simultaneous: bool,
    labels: pd.Index | None,
) -> ConfidenceSets:
    """Return the result, in the shape of the published values."""
    estimate, lower, upper, kind = (part.reshape(shape) for part in number_sets(arcs, form))
    return ConfidenceSets(
        estimate=estimate,
        lower=lower,
        upper=upper,
        kind=kind,
        alpha=alpha,
        method=method,
        uncertainty="noise",
        simultaneous=simultaneous,
        labels=labels,
    )


def _pairs(
    first: tuple[str, Any], second: tuple[str, Any]
) -> tuple[FloatArray, tuple[int, ...], pd.Index | None, bool, bool]:
    """Return the pairs in rows, the shape of the answer and its labels.

    And whether rows share values, and whether the second values were brought in the order of the
    labels of the first, which have to be the same.
    """
    (name, _), (other_name, _) = first, second
    values, labels = split_labels(first[1], name)
    others, other_labels = split_labels(second[1], other_name)
    moved = False
    if labels is not None and other_labels is not None and not labels.equals(other_labels):
        moved = True
        order = _order(labels, other_labels)
        if order is None:
            raise InvalidParameterError(
                f"{name} and {other_name} must have the same labels; pass arrays to go by position"
            )
        others = others[order]
    shape = check_broadcast(**{name: values.shape, other_name: others.shape})
    for array, called in ((values, name), (others, other_name)):
        if np.abs(array).max() > LARGEST:
            raise InvalidParameterError(f"{called} must be within ±{LARGEST:g}: rescale the values")
    labels = labels if labels is not None else other_labels
    if labels is not None and shape != (len(labels),):
        raise InvalidParameterError(
            f"{name} and {other_name} must have one value for each label, got shape {shape}"
        )
    pairs = np.column_stack([np.broadcast_to(part, shape).ravel() for part in (values, others)])
    return pairs, shape, labels, not values.shape == others.shape == shape, moved


def _order(labels: pd.Index, others: pd.Index) -> NDArray[np.intp] | None:
    """Return where each label is among others, None where they are not the same."""
    if not (labels.is_unique and others.is_unique and len(labels) == len(others)):
        return None
    order = np.asarray(others.get_indexer(labels), dtype=np.intp)
    return order if (order >= 0).all() else None


def _pair_of_laws(mechanism: PairMechanism, rows: int) -> tuple[NoiseLaw, NoiseLaw]:
    """Return the laws of both values, each one law or one for each row."""
    if isinstance(mechanism, (tuple, list)):
        if len(mechanism) != 2:
            raise InvalidParameterError(
                "mechanism must be one law or a pair of laws, one for either value, got "
                f"{len(mechanism)}"
            )
        one, other = (as_noise(part, rows, dependence="irrelevant") for part in mechanism)
        return one, other
    law = as_noise(mechanism, rows)
    return law, law


def _check_estimates(
    laws: tuple[NoiseLaw, NoiseLaw], mechanism: PairMechanism, sizes: list[int]
) -> None:
    """Refuse the law of one estimate for several values, and more pairs than there is time for."""
    if isinstance(mechanism, NoiseLaw):
        refuse_same(laws, "mechanism")
    for law, size in zip(laws, sizes, strict=True):
        if size > 1:
            refuse_same([law.take(row) if law.shape else law for row in range(size)], "mechanism")
    if max(sizes) > MOST_ROWS:
        raise InvalidParameterError(
            f"mechanism must be laws of published values for more than {MOST_ROWS} pairs, got "
            f"those of estimates for {max(sizes)}"
        )


# Confidence sets for ratios of two linear functions of published values.


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
