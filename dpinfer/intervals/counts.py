"""Intervals for published counts, each with its own noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from scipy import special

from dpinfer._check import (
    ALTERNATIVES,
    RNG,
    Alternative,
    FloatArray,
    as_table,
    check_alpha,
    check_flag,
    check_option,
    check_scalar,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.pivots import (
    METHODS,
    ROUNDING,
    Method,
    critical_pivot,
    pivot_intervals,
    sidak,
)
from dpinfer.estimation.ruled_sums import (
    BIN_ASSUMPTIONS,
    BinAssumption,
    RuledSums,
    after_in_words,
)
from dpinfer.estimation.targets import checked_weights, noisy_vector
from dpinfer.intervals.selected import ESTIMATORS, Estimator, SelectedRows
from dpinfer.mechanisms.independent import Mechanism, groups
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.releases.coerce import noisy
from dpinfer.releases.values import NoisyValues
from dpinfer.results.intervals import Intervals

CountMethod = Literal["exact", "tail-bound", "asymptotic", "naive"]

_SIDES: dict[Alternative, tuple[str, ...]] = {
    "two-sided": ("lower", "upper"),
    "larger": ("lower",),
    "smaller": ("upper",),
}

_OPEN = {"lower": -np.inf, "upper": np.inf}

_SMALLEST = float(np.nextafter(0.0, 1.0))


def count_confint(
    count: Any,
    *,
    mechanism: Mechanism | None = None,
    threshold: Any = None,
    clamp: Any = None,
    bin_size: Any = None,
    alpha: float = 0.05,
    method: CountMethod = "exact",
    alternative: Alternative = "two-sided",
    estimate: Estimator = "maximum-likelihood",
    simultaneous: bool = False,
    integer: bool = False,
    lower: float | None = None,
    upper: float | None = None,
    reps: int = 10_000,
    rng: RNG = None,
) -> Intervals:
    """Confidence intervals for confidential counts (or any other values) published with noise.

    Parameters
    ----------
    count : float, array, Series, DataFrame, Release or estimate
        The published values: the confidential values plus noise. Where they were rounded since, say
        so by ``rounding=`` of :func:`dpinfer.noisy` or :class:`~dpinfer.Release`, or to whole
        numbers by :class:`~dpinfer.mechanisms.Rounded` noise as ``mechanism``. A release or
        an estimate brings its law and how it was published; for many estimates of one fit use its
        own ``conf_int``.
    mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The law of the noise: one for all values, or one for each.
    threshold : float, array or Series, optional
        The noisy value was published if it was at least this: one bound for all values or one for
        each; -inf where there is none. Where whole numbers were published if they *exceeded* a
        whole number, give the next one.
    clamp : float or pair, optional
        The bounds into which noisy values were moved (before they were compared with the
        threshold): a lower bound such as 0, or ``(lower, upper)``, each a number, or an array or
        Series with one bound for each value; infinite or None where there is none.
    bin_size : float, array of float or pair, optional
        The counts were rounded up to multiples of this whole number *before* the noise was added,
        as Tor does; ``(8, "nearest")`` and ``(8, "down")`` say another way. The intervals are those
        for the counts themselves; see
        :meth:`Intervals.unbinned <dpinfer.results.Intervals.unbinned>`.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).
    method : {"exact", "tail-bound", "asymptotic", "naive"}
        ``"exact"``: by the law of the published value, whether it is the noise or follows a
        threshold and a clamp. ``"tail-bound"``: the union bound over all values, which holds for
        all of them together whatever ``simultaneous`` says. For comparison, without the stated
        coverage: ``"asymptotic"``, the normal quantile times the standard deviation (right for
        Gaussian noise only), and ``"naive"``, as if there were no threshold and no clamp.
    alternative : {"two-sided", "larger", "smaller"}
        An equal-tailed interval, or a one-sided one at the full ``alpha``: ``"larger"`` has a
        lower end only, ``"smaller"`` an upper end only.
    estimate : {"maximum-likelihood", "median-unbiased"}
        The point estimate of values with a threshold; see the notes.
    simultaneous : bool, default False
        Whether the intervals shall cover all confidential values together with probability
        1 - ``alpha``, rather than each of them.
    integer : bool, default False
        Whether the confidential values are whole numbers; the ends are then rounded inward.
    lower, upper : float, optional
        Bounds that the confidential values respect, such as ``lower=0`` for counts. The intervals
        are intersected with them, which keeps their coverage; estimates of values with a threshold
        or a clamp are moved to them.
    reps : int, default 10_000
        Number of simulated errors for simultaneous exact intervals of dependent estimates.
    rng : None, int or numpy.random.Generator, optional
        Source of these.

    Returns
    -------
    Intervals
        One interval for each value, with the labels of ``count``; unpacks as ``lower, upper``.
        They cover the noise only: they are about the confidential values. The method of those by
        a threshold or a clamp is ``"conditional"``. An interval that ``integer``, ``lower`` or
        ``upper`` leaves without any value is marked as empty.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or ``mechanism`` does not fit ``count``; if a
        value with a threshold has noise of another law than Laplace, Geometric, Gaussian,
        DiscreteGaussian or Tulap.
    IncompatibleReleaseError
        If a value is below its threshold or outside its clamping bounds.

    Warns
    -----
    RoundedValuesWarning
        If all values under noise with a density (Laplace, Gaussian, Tulap) are whole numbers, which
        happens with probability 0 unless they were rounded. At ε = 3 a nominal 90 % interval of
        rounded Laplace noise would cover 77.7 %: give ``Rounded(Laplace(...))``.

    See Also
    --------
    dpinfer.unpublished_bound : what it says about a count that it was not published.
    dpinfer.intervals.thresholded_sum_confint : sums of counts, published and not.

    Notes
    -----
    For symmetric noise e and a published y = f + e, the interval y ± t with t the smallest number
    for which P(e > t) ≤ α/2 covers f with probability at least 1 - α, and exactly 1 - α for
    continuous noise. For Laplace noise t = b·ln(1/α). For k independent noises,
    α is replaced by 1 - (1 - α)^(1/k) if ``simultaneous``, and by α/k in the union bound, which
    for Laplace noise is t = b·ln(k/α) (Dwork and Roth 2014, Theorem 3.8) and never narrower. Values
    published as they are (:class:`~dpinfer.mechanisms.Exact`) do not count towards k. Simultaneous
    exact intervals of dependent estimates are those of :func:`~dpinfer.linear_confint`.

    *With a threshold* τ, P(Y ≥ y) = S(y-f)/S(τ-f) given publication, with S(x) = P(e ≥ x), which
    grows with f. The interval holds the f with P(Y ≥ y | Y ≥ τ; f) > α/2 and
    P(Y ≤ y | Y ≥ τ; f) > α/2. Whatever f is, it misses at most a share α of the published values:
    exactly α for continuous noise. Intervals of unpublished values are not part of that; see
    :func:`~dpinfer.unpublished_bound`. The naive interval falls short where f < τ: under Laplace
    noise it covers f = τ - d in a share 1 - α·exp(d/b) of the published values, and from d = 3b on
    in *none* at the 95 % level.

    Near the threshold the data say little. Laplace and geometric noise have no memory, so that
    for f ≤ τ the conditional law is the same for every f: where exp(-(y-τ)/b) > α/2 the lower
    end is -inf (which ``lower=0`` cuts off). Gaussian noise gives a finite, if far, lower end for
    every y > τ; one that is 447 standard deviations below the threshold is given as -inf, since
    rounding matters there. On the other side, a value may be so close above τ that no f makes
    that likely enough: its interval is empty, as are those that ``lower`` leaves without a value.
    Where f ≤ τ, Laplace noise leaves a share α/2 of published values with an empty interval.

    The maximum-likelihood estimate maximises p(y-f)/S(τ-f). Under Gaussian noise it is the f with
    E[Y | Y ≥ τ; f] = y, which decreases to -inf as y decreases to τ. Under Laplace and geometric
    noise it is y itself, however unlikely publication was. The median-unbiased estimate solves
    P(Y ≥ y | Y ≥ τ; f) = 1/2; where noise takes whole numbers it is the middle of the interval with
    both tails at 1/2. Under Tulap noise, which is made for counts, ends and maximum-likelihood
    estimates are whole numbers; where it is bounded, the likeliest value near the threshold may be
    the lowest that can reach it.

    *With a clamp.* Of a value at the upper bound c it is known only that f + e ≥ c, so the interval
    has no upper end; its lower end is the ordinary one, at P(e ≥ c - f) = α/2. At the lower bound
    it is the other way round. The end that is left keeps the error probability α/2, although the
    other side cannot be missed: at the full α, a confidential value near the bound would be missed
    with probability up to 3α/2, as it is random whether a value is at a bound. Estimates at a bound
    are infinite, as the likelihood grows without end, unless ``lower`` or ``upper`` stops them.

    References
    ----------
    Dwork, C. and Roth, A. (2014). The Algorithmic Foundations of Differential Privacy.
    doi:10.1561/0400000042.
    Fithian, W., Sun, D. and Taylor, J. (2014). Optimal inference after model selection.
    arXiv:1410.2597.
    Šidák, Z. (1967). Rectangular confidence regions for the means of multivariate normal
    distributions. doi:10.1080/01621459.1967.10482935.
    Zhong, H. and Prentice, R. L. (2008). Bias-reduced estimators and confidence intervals for odds
    ratios in genome-wide association studies. doi:10.1093/biostatistics/kxn001.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace, Rounded
    >>> count_confint(4.2, mechanism=Laplace.from_epsilon(1), alpha=0.1)
    Intervals([1.89741, 6.50259], level 0.9, exact)

    Where the noisy number was rounded, and where counts were rounded up before the noise:

    >>> count_confint(4, mechanism=Rounded(Laplace.from_epsilon(1)), alpha=0.1)
    Intervals([2, 6], level 0.9, exact)
    >>> count_confint(813.6, mechanism=Laplace(scale=10.0), bin_size=8)
    Intervals([777, 840], level 0.95, exact)

    Values that were published because they reached a threshold; a release knows that of itself:

    >>> intervals = count_confint(
    ...     [107.3, 140.2, 190.6], mechanism=Laplace(scale=10.0), threshold=100, lower=0
    ... )
    >>> intervals.lower.round(1), intervals.upper.round(1)
    (array([  0. , 107.6, 160.6]), array([130.9, 170. , 220.6]))
    """
    alpha = check_alpha(alpha)
    method = check_option(method, "method", (*METHODS, "naive"))
    sides = _SIDES[check_option(alternative, "alternative", ALTERNATIVES)]
    chosen = ESTIMATORS[check_option(estimate, "estimate", ESTIMATORS)]
    together = check_flag(simultaneous, "simultaneous") or method == "tail-bound"
    bounds = {
        name: None if bound is None else check_scalar(bound, name)
        for name, bound in (("lower", lower), ("upper", upper))
    }
    how = {"threshold": threshold, "clamp": clamp, "bin_size": bin_size}
    x = noisy(count, mechanism=mechanism, name="count", **how)
    rows = SelectedRows.of(x) if method != "naive" and x.is_selected else None
    if rows is not None and method != "exact":
        raise InvalidParameterError(
            f"method must be 'exact' or 'naive' for values that {rows.rule.kind()}, got {method!r}"
        )
    tests = max(1, int(np.count_nonzero(x.variance))) if together else 1
    q = tail_of(alpha, method, tests, len(sides))
    notes: tuple[str, ...] = ()
    mc_error = 0.0
    with np.errstate(over="ignore"):
        half = _half_widths(x, q, method)
        if together and method == "exact" and not x.are_independent():
            if len(sides) < 2:
                raise InvalidParameterError(
                    f"alternative must be 'two-sided' for dependent estimates together, got "
                    f"{alternative!r}: or divide alpha by their number"
                )
            pivot = critical_pivot(
                lambda size, generator: x.draw(size, rng=generator),
                x.std,
                alpha,
                reps,
                rng,
                noises=x.noises.size,
            )
            half, mc_error, notes = pivot.value * x.std, pivot.mc_error, (pivot.note,)
        centre = x.values if rows is None else rows.values
        ends = {"lower": centre - half, "upper": centre + half}
        if rows is not None:
            centre = rows.estimate(chosen)
            rows.follow_rule(ends, q, sides)
    if x.rule is not None and x.rule.after > 0:
        below, above = x.rounding_reach()
        centre = centre + 0.5 * (above - below)
        ends = {"lower": ends["lower"] - below, "upper": ends["upper"] + above}
        notes = (*notes, after_in_words(x.rule))
    for side in {"lower", "upper"}.difference(sides):
        ends[side] = np.full(len(x), _OPEN[side])
    if rows is not None:
        empty = (ends["upper"] == -np.inf) | (ends["lower"] > ends["upper"])
        notes = (*notes, *rows.notes(int(np.count_nonzero(empty))))
        ends["lower"] = np.where(empty, np.inf, ends["lower"])
        ends["upper"] = np.where(empty, -np.inf, ends["upper"])
    intervals = Intervals(
        estimate=x.shaped(centre),
        lower=x.shaped(ends["lower"]),
        upper=x.shaped(ends["upper"]),
        alpha=alpha,
        method=method if rows is None else "conditional",
        uncertainty="noise",
        simultaneous=together,
        labels=x.labels,
        notes=notes,
        mc_error=mc_error,
    )
    if x.rule is not None:
        before = x.shaped(np.asarray(x.rule.before))
        intervals = intervals.unbinned((before, x.rule.before_way))
    intervals = intervals.restrict(**bounds, integer=integer)
    return intervals if rows is None else _within(intervals, **bounds)


def tail_of(alpha: float, method: str, tests: int, sides: int = 2) -> float:
    """Return the error probability of each end of each of several intervals."""
    each = alpha / tests if method == "tail-bound" else sidak(alpha, tests)
    return max(each / sides, _SMALLEST)


def half_width(law: NoiseLaw, q: float, method: str) -> Any:
    """Return how far the ends are from the value, for such a probability of each."""
    return -special.ndtri(q) * law.std if method == "asymptotic" else law.isf(q)


def _half_widths(x: NoisyValues, q: float, method: str) -> FloatArray:
    """Return the quantile of each error; of weighted sums of whole numbers from just outside."""
    if x.weights is None:
        return np.broadcast_to(half_width(x.marginal, q, method), len(x))
    if method == "asymptotic":
        return np.asarray(-special.ndtri(q) * x.std)
    if not hasattr(x.weights, "indices"):
        raise InvalidParameterError(
            f"count must be fewer than {len(x)} estimates of one fit, whose laws would be found "
            "one by one: use its conf_int, or its estimates of the units or targets needed"
        )
    half = np.asarray(x.marginal.isf(q))
    whole = (half == np.rint(half)) & (x.values == np.rint(x.values))
    integer = any(law.is_integer for law, _ in groups(x.noises.law, x.noises.size))
    slack = ROUNDING * (np.abs(x.values).max() + half)
    return half + np.where(whole | (x.variance == 0) | (not integer), 0.0, slack)


def _within(intervals: Intervals, *, lower: float | None, upper: float | None) -> Intervals:
    """Move the estimates to the nearest possible values, and say which are at no value at all."""
    least, most = -np.inf if lower is None else lower, np.inf if upper is None else upper
    estimate = np.clip(intervals.estimate, least, most)
    moved = int(np.count_nonzero(estimate != intervals.estimate))
    endless = int(np.count_nonzero(np.isinf(estimate)))
    notes = [
        (moved, "estimates were moved to the bounds of possible values"),
        (endless, "estimates are infinite: give lower= or upper= to bound them"),
    ]
    said = tuple(f"{number} {words}" for number, words in notes if number)
    return replace(intervals, estimate=estimate, notes=intervals.notes + said)


# Intervals for linear functions of published values.


def linear_confint(
    values: Any,
    weights: Any,
    *,
    mechanism: Mechanism | None = None,
    alpha: float = 0.05,
    method: Method = "exact",
    alternative: Alternative = "two-sided",
    simultaneous: bool = False,
    bin_assumption: BinAssumption = "bounded",
    reps: int = 10_000,
    rng: RNG = None,
) -> Intervals:
    """Confidence intervals for linear functions of the confidential values behind noisy ones.

    Parameters
    ----------
    values : array of float, shape (m,), Series, Release or estimate
        The published values. A release or an estimate brings its law, and how its errors depend.
    weights : array of float, shape (m,) or (k, m), Series, DataFrame or mapping
        The weights of one linear function, or of k functions, one a row. Where ``values`` has
        labels, the index of a Series, the columns of a DataFrame or the keys of a mapping say
        which value each weight is for, and values without a weight have no part; the index of a
        DataFrame labels the intervals.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all values, or one for each. Left out where ``values`` carries
        its own.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).
    method : {"exact", "tail-bound", "asymptotic"}
        ``"exact"``: quantiles of the law of each weighted sum of noises. ``"tail-bound"``:
        Chernoff bounds, joined by a union bound, so that all intervals hold together.
        ``"asymptotic"``: normal quantiles, offered for comparison.
    alternative : {"two-sided", "larger", "smaller"}
        Both ends, or one at the full ``alpha``, which is then below 1/2: ``"larger"`` has a lower
        end only, ``"smaller"`` an upper end only.
    simultaneous : bool, default False
        Whether all functions shall be covered together with probability 1 - ``alpha``.
    bin_assumption : {"bounded", "uniform"}
        What is known of counts that were rounded up before the noise (``bin_size``): that each is
        somewhere in its bin, or, as an assumption, that they are uniform there and independent.
    reps : int, default 10_000
        Number of simulated errors for simultaneous exact intervals of dependent functions.
    rng : None, int or numpy.random.Generator, optional
        Source of these.

    Returns
    -------
    Intervals
        One interval for each function; for a vector of weights, its ends are numbers. They cover
        the noise only.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or the parts do not fit together; if a value
        with a weight was published because it reached a threshold.

    See Also
    --------
    dpinfer.combine : uses all published values that bear on a function, not only those given.

    Notes
    -----
    The interval is Σ cᵢyᵢ ± t with t the smallest number for which P(Σ cᵢeᵢ > t) ≤ α/2, by the law
    of :class:`~dpinfer.mechanisms.WeightedSum`. Where one noise only has a weight, its own quantile
    serves in the place of the Chernoff bound.

    With ``simultaneous=True``, functions of which no two share a value have independent errors, and
    the level (1 - α)^(1/k) of Šidák each. Otherwise the intervals are estimate ± c·standard error,
    with c the ⌈(1 - α)(R + 1)⌉-th smallest of R simulated values of the largest studentised error
    (Davison and Hinkley 1997, §4.2.1): their coverage is at least 1 - α for every R, on the average
    over simulations, and varies by ``mc_error`` from one simulation to another. Simultaneous normal
    intervals have the level of Šidák, which is conservative for dependent normal errors. For the
    union bound with exact quantiles, divide ``alpha`` by the number of functions.

    *Values that were rounded, binned or clamped* (:func:`dpinfer.noisy`,
    :class:`~dpinfer.Release`) have a known range around truth plus noise, by which the interval is
    widened, so that its coverage is kept whatever the truth is. A value rounded to the nearest
    multiple of u after the noise is within u/2 of it: Σ abs(cᵢ)·u/2 on either side. One rounded
    down is up to u too small, which moves the upper end for weights above 0 and the lower end for
    those below 0; up, the other way round; toward zero, as down above 0, up below it, and either
    way at 0. Under whole-numbered noise and for whole u these are ⌊u/2⌋ and u - 1. A count rounded
    up to a bin of size s is
    f = g - d with 0 ≤ d ≤ s - 1 for the published g + e: the lower end moves out by (s - 1)·Σ cᵢ
    over the weights above 0, the upper end by that over those below 0 (bins to the nearest have
    -s/2 ≤ d ≤ s/2); where all cᵢgᵢ are multiples of one whole number, the ends move in to such
    multiples first. With ``bin_assumption="uniform"``, d less its middle is an error beside the
    noise, uniform on an interval of length s, with the exact law of the sum of all; nothing that is
    published bears that out. A value at its lower clamping bound is only known not to be larger:
    where its weight is above 0, the interval has no lower end, where it is below 0, no upper end;
    at the upper bound the other way round. The other end is the ordinary one, as clamping moves
    Σ cᵢyᵢ inward only. The estimate is the sum of what was published, with each count and value in
    the middle of what is rounded to it.

    Under whole-numbered noise, ends that are not whole numbers themselves move outward by 1e-14 of
    the terms, so that rounding does not take away an end that is attained.

    References
    ----------
    Davison, A. C. and Hinkley, D. V. (1997). Bootstrap Methods and their Application.
    doi:10.1017/CBO9780511802843.
    Šidák, Z. (1967). Rectangular confidence regions for the means of multivariate normal
    distributions. doi:10.1080/01621459.1967.10482935.

    Examples
    --------
    The difference of two counts; the width is that of the law of e₁ - e₂, not of two intervals:

    >>> import pandas as pd
    >>> from dpinfer.mechanisms import Laplace
    >>> counts = pd.Series({"north": 120.5, "south": 100.5, "west": 80.5})
    >>> linear_confint(counts, {"north": 1, "south": -1}, mechanism=Laplace(scale=2.0))
    Intervals([11.774, 28.226], level 0.95, exact)

    All three differences together, by simulation, by the union bound, and by Chernoff bounds:

    >>> pairs = [[1, -1, 0], [1, 0, -1], [0, 1, -1]]
    >>> from dpinfer import noisy
    >>> x = noisy(counts, mechanism=Laplace(scale=2.0))
    >>> joint = linear_confint(x, pairs, simultaneous=True, reps=100_000, rng=1)
    >>> union = linear_confint(x, pairs, alpha=0.05 / 3)
    >>> bound = linear_confint(x, pairs, method="tail-bound")
    >>> [float(way.width[0].round(1)) for way in (joint, union, bound)]
    [20.2, 21.6, 34.1]

    A sum of counts that were rounded up to multiples of 8, whatever they were, and if uniform:

    >>> x = noisy([813.6, 410.2, 96.9], mechanism=Laplace(scale=10.0), bin_size=8)
    >>> linear_confint(x, [1, 1, 1])
    Intervals([1251, 1368], level 0.95, exact)
    >>> linear_confint(x, [1, 1, 1], bin_assumption="uniform").width.round(1)
    np.float64(100.5)
    """
    bins = check_option(bin_assumption, "bin_assumption", BIN_ASSUMPTIONS)
    x = noisy_vector(values, mechanism)
    table = as_table(weights, "weights")
    matrix = checked_weights(table, x.labels, len(x))
    sums = RuledSums.of(x, matrix, bins, table.index if hasattr(table, "columns") else None)
    found = pivot_intervals(
        sums.values,
        sums.magnitude,
        alpha=alpha,
        method=method,
        simultaneous=simultaneous,
        reps=reps,
        rng=rng,
        alternative=alternative,
    )
    return found if x.rule is None else sums.about(found)
