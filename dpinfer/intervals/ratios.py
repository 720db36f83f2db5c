"""Confidence sets for ratios and shares of confidential values, and for relative changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._check import (
    ALTERNATIVES,
    Alternative,
    as_table,
    check_alpha,
    check_array,
    check_flag,
    check_option,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.fieller import (
    CHANGE,
    METHODS,
    RATIO,
    SHARE,
    Map,
    Method,
    as_sets,
    joint_arcs,
    tail_of,
)
from dpinfer.estimation.pivots import sidak
from dpinfer.estimation.ratio_sets import MOST_ROWS, exact_arcs, normal_arcs
from dpinfer.estimation.targets import checked_weights, noisy_vector
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.releases.coerce import noisy_pair
from dpinfer.releases.values import NoisyValues
from dpinfer.results.intervals import ConfidenceSets

if TYPE_CHECKING:
    pass


PairMechanism = Mechanism | tuple[Mechanism | None, Mechanism | None] | None
"""One law for both values, or the pair of that of the numerators and that of the denominators."""

_LARGEST = 1e150
"""Larger values than this, or ratios of them, leave the range of floats when multiplied."""


def ratio_confint(
    numerator: Any,
    denominator: Any,
    *,
    mechanism: PairMechanism = None,
    alpha: float = 0.05,
    method: Method = "exact",
    alternative: Alternative = "two-sided",
    simultaneous: bool = False,
) -> ConfidenceSets:
    """Confidence sets for ratios of two confidential values, both published with noise.

    Parameters
    ----------
    numerator, denominator : float, array, Series, DataFrame, Release or estimate
        The published values: the confidential values plus noise, not rounded or clamped since. One
        number serves all of the others; labels have to match, in any order, but those of one value
        each.
    mechanism : NoiseLaw, sequence of NoiseLaw or pair
        The law of the noise: one for all values, a list with one for each, or a tuple: that of the
        numerators and that of the denominators. Left out (None in a tuple) for what carries its
        law. Noises of plain numbers are independent; how the errors of estimates, and of values of
        one release, depend is known and used.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1), and at least 1e-50 for each set.
    method : {"exact", "asymptotic"}
        ``"exact"``: by the law of e₁ - r·e₂ for the noises e₁ and e₂. ``"asymptotic"``: Fieller's
        formula, which takes the noise as Gaussian; offered for comparison.
    alternative : {"two-sided", "larger", "smaller"}
        ``"larger"`` rejects ratios only for being too small: a lower limit, and all beyond, where
        the denominator is positive and distinct from 0. ``"smaller"`` gives upper limits.
    simultaneous : bool, default False
        Whether the sets shall cover all ratios together with probability 1 - ``alpha``: each has
        α/k or, where all errors are independent, 1 - (1 - α)^(1/k) for k rows.

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
    with a density; for Gaussian noise this is Fieller's theorem. A one-sided set leaves out only
    those r with y₁ - r·y₂ > t, or < -t, with t at α, which is below 1/2. Where f₂ = 0 there is no
    ratio.

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

    References
    ----------
    Bobkov, S. G. (2010). Convex bodies and norms associated to convex measures. Probability Theory
    and Related Fields 147, 303-332.
    Fieller, E. C. (1954). Some problems in interval estimation. JRSS B 16(2), 175-185.
    doi:10.1111/j.2517-6161.1954.tb00159.x.

    Examples
    --------
    Denominators near 0 leave large ratios possible:

    >>> from dpinfer.mechanisms import Laplace
    >>> sets = ratio_confint([60.4, 60.4, 3.1], [120.3, 2.9, 1.1], mechanism=Laplace(scale=2.0))
    >>> sets.kind, sets.lower[:2].round(4)
    (array(['interval', 'complement', 'line'], dtype='<U10'), array([  0.4486, -19.5045]))
    """
    named = {"numerator": numerator, "denominator": denominator}
    how = mechanism, alpha, method, alternative, simultaneous
    return _confint("ratio_confint", named, RATIO, *how)


def share_confint(
    part: Any,
    rest: Any = None,
    *,
    total: Any = None,
    mechanism: PairMechanism = None,
    alpha: float = 0.05,
    method: Method = "exact",
    alternative: Alternative = "two-sided",
    simultaneous: bool = False,
) -> ConfidenceSets:
    """Confidence sets for shares of confidential values in totals.

    Parameters
    ----------
    part : float, array, Series, DataFrame, Release or estimate
        The published parts.
    rest : like ``part``, optional
        The published remainders, with noise of their own: the share is part/(part + rest).
    total : like ``part``, optional
        In the place of ``rest``, totals that were published with noise of their own: the share is
        part/total. For totals that are sums of published values, the part among them, see
        :func:`linear_ratio_confint`.
    mechanism, alpha, method, alternative, simultaneous
        As for :func:`ratio_confint`; in a pair of laws that of the parts is the first.

    Returns
    -------
    ConfidenceSets
        One set for each row. Shares of counts are between 0 and 1: ``restrict(lower=0, upper=1)``
        of the result leaves out what is not.

    Raises
    ------
    InvalidParameterError
        If not just one of ``rest`` and ``total`` is given, or as :func:`ratio_confint`.

    Notes
    -----
    A share p is in the set if p/(1 - p) is in that of the ratio part/rest: both say that
    (1 - p)·part - p·rest is not extreme under the law of its noise.

    Examples
    --------
    The share of a cell of a combined table, whose errors are dependent:

    >>> from dpinfer import Release, combine, noisy
    >>> from dpinfer.mechanisms import Geometric
    >>> queries = [[1, 0], [0, 1], [1, 1]]
    >>> release = Release([58, 43, 99], workload=queries, mechanism=Geometric(scale=2.0))
    >>> fit = noisy(combine(release))
    >>> share_confint(fit.take([0]), total=fit.take([2]))
    ConfidenceSets([0.534653, 0.616883], level 0.95, exact)
    """
    if (rest is None) == (total is None):
        raise InvalidParameterError("rest or total must be given, and not both")
    other, form = ({"rest": rest}, SHARE) if total is None else ({"total": total}, RATIO)
    how = mechanism, alpha, method, alternative, simultaneous
    return _confint("share_confint", {"part": part} | other, form, *how)


def relative_change_confint(
    new: Any,
    old: Any,
    *,
    mechanism: PairMechanism = None,
    alpha: float = 0.05,
    method: Method = "exact",
    alternative: Alternative = "two-sided",
    simultaneous: bool = False,
) -> ConfidenceSets:
    """Confidence sets for relative changes of confidential values, (new - old)/old.

    Parameters
    ----------
    new, old : float, array, Series, DataFrame, Release or estimate
        The published values.
    mechanism, alpha, method, alternative, simultaneous
        As for :func:`ratio_confint`; in a pair of laws that of the new values is the first.

    Returns
    -------
    ConfidenceSets
        One set for each row: that of the ratio new/old, minus 1.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> relative_change_confint(150.2, 120.3, mechanism=Laplace(scale=2.0))
    ConfidenceSets([0.173956, 0.329052], level 0.95, exact)
    """
    how = mechanism, alpha, method, alternative, simultaneous
    return _confint("relative_change_confint", {"new": new, "old": old}, CHANGE, *how)


def _confint(
    who: str,
    named: dict[str, Any],
    form: Map,
    mechanism: PairMechanism,
    alpha: float,
    method: Method,
    alternative: Alternative,
    simultaneous: bool,
) -> ConfidenceSets:
    """Return the sets of a number that is a function of the ratio of two values."""
    alpha, method, side, together = _checked(alpha, method, alternative, simultaneous)
    first, second = named
    x, y = noisy_pair(named[first], named[second], mechanism, (first, second))
    for part in (x, y):
        part.need(unruled=True, who=who)
    joint = _joint(x, y)
    size = max(len(x), len(y))
    pairs = np.column_stack([np.broadcast_to(part.values, size) for part in (x, y)])
    scales = np.column_stack([np.broadcast_to(part.std, size) for part in (x, y)])
    tests = max(1, int(np.count_nonzero(scales.any(axis=1)))) if together else 1
    apart = len(x) == len(y) and (joint is None or joint.are_independent())
    tail = tail_of(sidak(alpha, tests) if apart else alpha / tests, side)
    if joint is not None:
        own = np.arange(len(x)), len(x) + np.arange(len(y))
        first_rows, second_rows = (np.broadcast_to(part, size) for part in own)
        arcs = joint_arcs(joint, first_rows, second_rows, tail, method)
    elif method == "asymptotic":
        arcs = normal_arcs(pairs, scales, tail)
    else:
        # the law of one number serves all pairs
        rows = np.zeros(size, dtype=np.intp)
        one, other = (
            part.marginal.take(rows) if part.marginal.shape and len(part) < size else part.marginal
            for part in (x, y)
        )
        arcs = exact_arcs(pairs, one, other, tail)
    labels = x.labels if x.labels is not None else y.labels
    return as_sets(arcs, form, x.shape or y.shape, alpha, method, side, together, labels)


def _checked(
    alpha: float, method: Method, alternative: Alternative, simultaneous: bool
) -> tuple[float, Method, Alternative, bool]:
    return (
        check_alpha(alpha),
        check_option(method, "method", METHODS),
        check_option(alternative, "alternative", ALTERNATIVES),
        check_flag(simultaneous, "simultaneous"),
    )


def _joint(x: NoisyValues, y: NoisyValues) -> NoisyValues | None:
    """Return both over the noises of both, None where each value has a noise of its own."""
    own = x.weights is None and y.weights is None
    if own and x.apart_from(y):
        return None
    if not own and max(len(x), len(y)) > MOST_ROWS:
        raise InvalidParameterError(
            f"{x.name} must be at most {MOST_ROWS} estimates, each of which takes up to a second, "
            f"got {max(len(x), len(y))}: give those that are needed, or published values"
        )
    joint = x.beside(y)
    return None if joint.weights is None else joint


def linear_ratio_confint(
    values: Any,
    numerator: Any,
    denominator: Any,
    *,
    mechanism: Mechanism | None = None,
    alpha: float = 0.05,
    method: Method = "exact",
    alternative: Alternative = "two-sided",
    simultaneous: bool = False,
) -> ConfidenceSets:
    """Confidence sets for ratios of linear functions of the values behind one noisy vector.

    Parameters
    ----------
    values : array of float, shape (m,), Series, Release or estimate
        The published values.
    numerator, denominator : array of float, shape (m,) or (k, m), Series, DataFrame or mapping
        The weights of either function, or of k functions, one a row, as for
        :func:`dpinfer.linear_confint`; one function serves all rows of the other.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all values, or one for each. Left out where ``values`` carries
        its own.
    alpha, method, alternative, simultaneous
        As for :func:`ratio_confint`; simultaneous sets have the level 1 - α/k each.

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
    alpha, method, side, together = _checked(alpha, method, alternative, simultaneous)
    x = noisy_vector(values, mechanism)
    tables = as_table(numerator, "numerator"), as_table(denominator, "denominator")
    first, second = (checked_weights(table, x.labels, len(x)) for table in tables)
    counts = [len(np.atleast_2d(part)) for part in (first, second)]
    rows = max(counts)
    if not set(counts) <= {1, rows}:
        raise InvalidParameterError(
            f"numerator and denominator must have as many rows as each other, or one, got "
            f"{counts[0]} and {counts[1]}"
        )
    both = np.concatenate([np.broadcast_to(part, (rows, len(x))) for part in (first, second)])
    joint = x.linear(both)
    check_array(joint.values, "weights @ values", ge=-_LARGEST, le=_LARGEST)
    tail = tail_of(alpha / rows if together else alpha, side)
    arcs = joint_arcs(joint, np.arange(rows), rows + np.arange(rows), tail, method)
    shape = (rows,) if max(first.ndim, second.ndim) == 2 else ()
    framed = [part.index for part in tables if hasattr(part, "columns")]
    index = next((part for part in framed if len(part) == rows), None)
    return as_sets(arcs, RATIO, shape, alpha, method, side, together, index)
