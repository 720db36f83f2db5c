"""Tests of two samples: proportions, paired proportions and rates from noisy counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from dpinfer._check import (
    ALTERNATIVES,
    RNG,
    Alternative,
    FloatArray,
    check_array,
    check_integer,
    check_option,
    check_scalar,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import LARGEST_NOBS, SMALLEST_VALUE, common_shape
from dpinfer.estimation.unknown_trials import LARGEST_TRIALS, UnknownTrials
from dpinfer.hypothesis_tests._answers import answer
from dpinfer.hypothesis_tests._plug_in import NULLS as NOISY_TRIALS_NULLS
from dpinfer.hypothesis_tests._plug_in import Method as NoisyTrialsMethod
from dpinfer.hypothesis_tests._plug_in import RatioOf, run
from dpinfer.hypothesis_tests._related import RelatedRows, quotient
from dpinfer.hypothesis_tests._relations import EQUAL, Compare, OfPairs, OfRates, Relation
from dpinfer.hypothesis_tests._two_samples import NULLS, Method, Sample, TwoSamples
from dpinfer.hypothesis_tests.models import are_apart, reports_noise, two_samples
from dpinfer.mechanisms.channels import RandomizedResponse, UnaryEncoding
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.mechanisms.laws import Exact
from dpinfer.releases.coerce import is_noisy, noisy
from dpinfer.releases.values import NoisyValues
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.simulation import Simulation

Pair = Mechanism | RandomizedResponse | UnaryEncoding | tuple[Mechanism, Mechanism]


def proportions_2indep(
    count1: Any,
    nobs1: Any,
    count2: Any,
    nobs2: Any,
    *,
    mechanism: Pair | None = None,
    nobs_mechanism: Mechanism | tuple[Mechanism, Mechanism] | None = None,
    nobs_is_total: bool = False,
    value: Any = None,
    compare: Compare = "diff",
    alternative: Alternative = "two-sided",
    method: Method | None = None,
    nuisance_alpha: float = 1e-4,
    reps: int = 10_000,
    rng: RNG = None,
    n_jobs: int | None = 1,
    precision: float | None = None,
    progress: bool = False,
) -> HypothesisResult:
    """Test whether two populations have one proportion, from counts published with noise.

    Parameters
    ----------
    count1, count2 : float, array of shape (m,), Series, Release or fit
        The published counts of successes, not clamped or rounded since, maybe negative; in each row
        the errors of both samples are independent.
    nobs1, nobs2 : int, array of shape (m,), Series, Release or fit
        The numbers of trials, >= 1; where they are noisy, any numbers up to 1e12 in size. Whether
        a count is a summand of numbers that carry their own law is known.
    mechanism : NoiseLaw, (NoiseLaw, NoiseLaw), RandomizedResponse or UnaryEncoding, optional
        The law of the noise: one for both counts, or a pair; left out where the counts carry
        theirs. Each has scalar parameters or one for each of the m rows. With randomized response
        or unary encoding the counts are those of the reports of one category, which have no more
        noise; both groups use the same channel.
    nobs_mechanism : NoiseLaw or (NoiseLaw, NoiseLaw), optional
        The law of the noise in the numbers of trials, where they were published with noise.
    nobs_is_total : bool, default False
        Whether ``count1`` and ``count2`` are summands of ``nobs1`` and ``nobs2``, their noise
        included. ``nobs_mechanism`` is then the noise of the other summands.
    value : float, array of shape (m,) or Series, optional
        The difference p₁ - p₂ in (-1, 1), or the ratio or odds ratio > 0, under the null
        hypothesis; by default that of equal proportions. Others, and intervals, are for known
        numbers of trials.
    compare : {"diff", "ratio", "odds-ratio"}
        What ``value`` and the interval are of.
    alternative : {"two-sided", "larger", "smaller"}
        Whether the first proportion differs from the second, exceeds it, or falls short of it;
        or the difference or ratio from ``value``.
    method : {"exact", "plug-in", "monte-carlo", "asymptotic"}, optional
        ``"exact"``, the default where the numbers of trials are known, holds whatever the common
        proportion: it takes the largest p-value over a confidence set. ``"plug-in"`` is the exact
        law at the estimated common proportion, ``"monte-carlo"``, the default where the numbers
        of trials are noisy, a simulation there, and ``"asymptotic"`` the limit for many trials.
        Where the numbers of trials are noisy, the last two exist.
    nuisance_alpha : float, default 1e-4
        Probability in (0, 0.5) with which the confidence set may miss the common proportion.
    reps, rng, n_jobs, precision, progress
        Of the simulation: number of replicates, seed, workers, relative standard error of the
        p-value at which to stop, progress bar. See
        :func:`~dpinfer.hypothesis_tests.null_distribution`.

    Returns
    -------
    HypothesisResult
        Statistics and p-values, with the labels of ``count1``. They account for sampling and
        noise.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, the shapes do not fit together, or an exact law
        would take more than 4 million counts, or 2.7e8 pairs of counts with continuous noise.

    Notes
    -----
    The statistic is z = D/s with D = count1/nobs1 - count2/nobs2 and s² = p(1-p)(1/nobs1 +
    1/nobs2) + v1/nobs1² + v2/nobs2², where p is the pooled estimate, kept half a success away from
    0 and 1, and v are the variances of the noise. ``"plug-in"`` compares D with its law:
    P(D >= d) is the sum of binomial probabilities against the tail of the noise, with an absolute
    error below 1e-11. The two-sided p-value is P(abs(D*) >= abs(D)).

    ``"exact"`` orders outcomes by a plug-in p-value, that of D for a normal variable with the
    variance at the pooled estimate plus the noise, and takes the chance of one as small as the
    observed one (Lloyd 2008). The total count1 + count2, whose law depends on p only, gives an
    exact confidence interval for p that misses it with probability β = ``nuisance_alpha``; the
    p-value is the maximum of that chance over it, plus β (Berger and Boos 1994): the level is never
    exceeded. The maximum is certified by branch and bound: in the angle asin(√p) the slope and the
    curvature of the probability are bounded through the Fisher information 4·(nobs1 + nobs2). What
    is reported is the upper bound, at most max(β/2, 2e-5) above the maximum. Where the tables would
    exceed 8.4e6 entries (equal samples beyond some 20,000 with geometric noise of scale 2, beyond
    1,000 with Laplace noise of that scale), or one noise is whole and the other continuous,
    outcomes are ordered by abs(D): the level holds as well, with less power where p is small (0.56
    in place of 0.80 with 60 and 60 trials, p = 0.05 and 0.25, level 5 % and geometric noise of
    scale 1).

    ``"plug-in"`` and ``"monte-carlo"`` take the estimate as the true value and can exceed their
    level, though little: by enumeration with geometric noise of ε = 1, the plug-in test of samples
    of 20 and 24, or 50 and 60, rejects at most 1.1, 5.3 and 10.9 % at levels 1, 5 and 10 % (p from
    0.02 to 0.5). Smaller samples and less noise were not measured. The limit lacks the tails of
    Laplace or geometric noise: there it rejects up to 2.6, 6.2 and 11.3 %; through randomized
    response of ε = 1, with samples of 50 and 10, up to 1.5, 6.2 and 10.7 %.

    With noisy numbers of trials the statistic compares products, count1·nobs2 - count2·nobs1,
    which need no ratio of noisy numbers. Where their noise is as large as they, ``"asymptotic"``
    is not to be used: with 50 trials and Gaussian noise of standard deviation 106 it rejects up to
    19, 22 and 26 %. ``"monte-carlo"`` rejects less than the level there.

    Other values than equality, and intervals: the pairs of proportions with a difference, ratio or
    odds ratio ``value`` are a curve, and the restricted estimate is the pair on it whose expected
    sum is M = count1 + count2. T is count1 less its expectation there, a multiple of p̂₁ - p̂₂ - δ
    or p̂₁ - r·p̂₂, and for odds ratios the score; z = T/s with its variance there. Of ``"exact"``
    the order is the tail of T for a normal variable with that variance, plus the noise, and the
    largest chance is looked for along the curve within limits of both proportions that miss with
    probability β together, by branch and bound on chords of the curve in the angles √n·asin√p of
    both: there the curvature of a probability is at most 4 per unit of their sum, and its slope at
    most 1, so that the distance of the curve from its chords, at most 1e-5, is added. The ends of
    intervals are moved outwards by 1/2000 of a standard error. At equality it is the test above, up
    to the tolerance. Its tables are short enough for some 20,000 trials. ``"asymptotic"`` for odds
    ratios without noise is the score interval (Miettinen and Nurminen 1985).

    References
    ----------
    Berger and Boos (1994) and Lloyd (2008): see :func:`proportions_ztest`.
    Miettinen, O. and Nurminen, M. (1985). Comparative analysis of two rates. Statistics in Medicine
    4, 213-226. doi:10.1002/sim.4780040211.

    Examples
    --------
    >>> from dpinfer.mechanisms import Geometric
    >>> noise = Geometric.from_epsilon(0.5)
    >>> result = proportions_2indep(61, 200, 42, 210, mechanism=noise)
    >>> result.statistic.round(4), result.pvalue.round(4)
    (np.float64(2.2336), np.float64(0.0272))
    >>> proportions_2indep(61, 200, 42, 210, mechanism=noise, method="plug-in").pvalue.round(6)
    np.float64(0.02623)
    >>> result.effect, result.estimate.round(3), result.conf_int().lower.round(3)
    ('difference', np.float64(0.105), np.float64(0.012))
    >>> proportions_2indep(61, 200, 42, 210, mechanism=noise, compare="odds-ratio",
    ...                    method="asymptotic").conf_int()
    Intervals([1.07071, 2.89914], level 0.95, asymptotic)
    """
    alternative = check_option(alternative, "alternative", ALTERNATIVES)
    stated = nobs_mechanism[0] if isinstance(nobs_mechanism, tuple) else nobs_mechanism
    flags = [is_noisy(nobs, stated, nobs_is_total) for nobs in (nobs1, nobs2)]
    unknown = any(flags)
    fallback: Method = "monte-carlo" if unknown else "exact"
    method = check_option(fallback if method is None else method, "method", NULLS)
    if unknown and method in ("exact", "plug-in"):
        raise InvalidParameterError(
            "method must be 'monte-carlo' or 'asymptotic' where the numbers of trials are noisy, "
            f"got {method!r}: the exact law is known for known numbers of trials only"
        )
    simulation = Simulation.checked(reps, rng, progress, n_jobs, precision)
    check_scalar(nuisance_alpha, "nuisance_alpha", gt=0, lt=0.5)
    chosen = check_option(compare, "compare", EQUAL)
    if isinstance(mechanism, RandomizedResponse | UnaryEncoding):
        for name, count, nobs in (("1", count1, nobs1), ("2", count2, nobs2)):
            reports_noise(mechanism, count, nobs, f"count{name}", f"nobs{name}")
        mechanism = Exact()
    pair = two_samples(count1, count2, mechanism, ("count1", "count2"), "proportions_2indep")
    if unknown:
        found = _unknown_trials(pair, (nobs1, nobs2), nobs_mechanism, nobs_is_total)
    else:
        found = _known_trials(pair, (nobs1, nobs2))
    null = _related_value(pair[0], value, chosen)
    is_equal = bool((null == EQUAL[chosen]).all())
    if unknown and not is_equal:
        raise InvalidParameterError(
            "value must be that of equal proportions, or left out, where the numbers of trials are "
            f"noisy, got {null.flat[0]:g}"
        )
    arrays = {f"{n}{i}": getattr(s, n) for i, s in enumerate(found, 1) for n in ("count", "nobs")}
    shape = common_shape(**arrays, value=null)
    first, second = (
        replace(
            s,
            count=np.broadcast_to(s.count, shape or (1,)),
            nobs=np.broadcast_to(s.nobs, shape or (1,)),
        )
        for s in found
    )
    test = TwoSamples(
        samples=(first, second),
        nuisance_alpha=nuisance_alpha,
        shape=shape,
    )
    estimated = "p-values take the estimated common proportion as the true one"
    notes = {
        "exact": f"p-values hold whatever the common proportion; they include {nuisance_alpha:g} "
        "for that",
        "plug-in": estimated,
        "monte-carlo": estimated,
    }
    simulation, again = simulation.twice(method)
    effect = None
    if unknown:
        p_values, statistic = NULLS[method](test, alternative, simulation), test.statistic
    else:
        related = RelatedRows(
            counts=(first.count, second.count),
            nobs=(first.nobs, second.nobs),
            noises=(first.noise, second.noise),
            compare=chosen,
            alternative=alternative,
            method=method,
            nuisance_alpha=nuisance_alpha,
            simulation=again,
        )
        effect = related.effect(null)
        if is_equal:
            p_values, statistic = NULLS[method](test, alternative, simulation), test.statistic
        else:
            values = np.broadcast_to(null, first.count.shape)
            p_values = related.found(values, shape, simulation)
            statistic = related.statistic(values)
    return answer(
        "Test of two proportions",
        statistic.reshape(shape),
        p_values,
        alternative,
        method,
        nobs=(first.nobs + second.nobs).reshape(shape),
        labels=pair[0].labels,
        notes=(notes[method],) if method in notes else (),
        effect=effect,
    )


def _related_value(x: NoisyValues, value: Any, compare: Compare) -> FloatArray:
    """Return the value under the null hypothesis, by default that of equal proportions."""
    if value is None:
        return np.asarray(EQUAL[compare])
    if compare == "diff":
        return x.setting(value, "value", gt=-1, lt=1)
    return x.setting(value, "value", gt=0, ge=1e-6, le=1e6)


def _known_trials(pair: tuple[NoisyValues, NoisyValues], nobs: tuple[Any, Any]) -> list[Sample]:
    found = []
    for number, x, given in zip("12", pair, nobs, strict=True):
        trials = x.setting(given, f"nobs{number}", whole=True, ge=1, le=LARGEST_NOBS)
        found.append(
            Sample(
                count=x.column(trials),
                nobs=trials,
                noise=x.marginal,
                nobs_noise=None,
                is_total=False,
            )
        )
    return found


def _unknown_trials(
    pair: tuple[NoisyValues, NoisyValues], nobs: tuple[Any, Any], mechanism: Any, is_total: bool
) -> list[Sample]:
    """Return samples with noisy numbers of trials: totals, or with noise of their own."""
    laws = mechanism if isinstance(mechanism, tuple) else (mechanism, mechanism)
    found = []
    for x, given, law in zip(pair, nobs, laws, strict=True):
        carried = hasattr(given, "__noisy__")
        own = None if carried else Exact() if law is None else law
        rows = UnknownTrials.of(x, given, own, is_total, np.asarray(0.5), 0.5)
        count, trials = (part.reshape(rows.shape) for part in (rows.count, rows.nobs))
        found.append(
            Sample(
                count=count,
                nobs=trials,
                noise=rows.noise,
                nobs_noise=rows.nobs_noise,
                is_total=rows.is_total,
            )
        )
    _check_apart(pair, nobs)
    return found


def _check_apart(pair: tuple[NoisyValues, NoisyValues], nobs: tuple[Any, Any]) -> None:
    """Refuse numbers of trials that carry noise of the other sample."""
    for x, other, given in ((pair[0], nobs[0], nobs[1]), (pair[1], nobs[1], nobs[0])):
        if not hasattr(given, "__noisy__"):
            continue
        theirs = given.__noisy__()
        known = [x, *([other.__noisy__()] if hasattr(other, "__noisy__") else [])]
        if not all(are_apart(one, theirs) for one in known):
            raise InvalidParameterError(
                "proportions_2indep needs independent errors, got nobs1 or nobs2 that share noises "
                "with the other sample: test a contrast of the counts with linear_ztest"
            )


def mcnemar(
    table: Any,
    nobs: Any = None,
    *,
    mechanism: Mechanism | tuple[Mechanism, Mechanism] | None = None,
    value: Any = None,
    compare: Literal["odds-ratio", "diff"] = "odds-ratio",
    alternative: Alternative = "two-sided",
    method: NoisyTrialsMethod = "exact",
    nuisance_alpha: float = 1e-4,
    reps: int = 10_000,
    rng: RNG = None,
    n_jobs: int | None = 1,
    precision: float | None = None,
    progress: bool = False,
) -> HypothesisResult:
    """McNemar's test of paired proportions when the table was published with noise.

    Parameters
    ----------
    table : array of shape (2, 2) or (2,), DataFrame, Release or fit
        The published counts of pairs by first and second answer, or only of the two kinds of pairs
        whose answers differ, ``table[0, 1]`` and ``table[1, 0]``, whose errors are independent.
    nobs : int, optional
        The number of pairs, >= 1, which the difference needs; the sum of noisy cells is not it.
    mechanism : NoiseLaw or (NoiseLaw, NoiseLaw), optional
        The law of the noise: one for both of these counts, or a pair; left out where ``table``
        carries its law.
    value : float, optional
        The odds of the first kind of pair > 0, or the difference of the proportions in (-1, 1),
        under the null hypothesis; by default that of equal proportions.
    compare : {"odds-ratio", "diff"}
        What ``value`` and the interval are of: p₁₂/p₂₁, the odds of the first kind among the pairs
        that differ, which is the odds ratio given the pair, or p₁₂ - p₂₁, which is the difference
        of the proportions of first and second answers.
    alternative : {"two-sided", "larger", "smaller"}
        Whether the odds or the difference differ from ``value``, exceed it, or fall short of it.
    method, nuisance_alpha
        As for :func:`poisson_2indep`, with the number of pairs that differ for the total of events.
    reps, rng, n_jobs, precision, progress
        Of the simulation: number of replicates, seed, workers, relative standard error of the
        p-value at which to stop, progress bar. See
        :func:`~dpinfer.hypothesis_tests.null_distribution`.

    Returns
    -------
    HypothesisResult
        The statistic and the p-value. They account for sampling and noise.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or ``"exact"`` would take many seconds, as for
        noise with a scale beyond some 1e6.

    Notes
    -----
    With b and c the two counts, the statistic is z = (b - c)/√(b + c), with b + c at
    least 1; its square is McNemar's. Given the true number m of pairs that differ, (b - c)/2 is
    Binomial(m, ½) - m/2 plus noise of a known law. The unknown m is treated as in
    :func:`poisson_2indep`: the exact p-value is the largest chance of a plug-in p-value as small as
    the observed one, over a confidence set for m around b + c, plus ``nuisance_alpha``. Without
    noise it is the exact test of McNemar (1947). ``"plug-in"`` and ``"monte-carlo"`` take b + c as
    the true number, which has no guarantee; by enumeration with geometric noise of ε = 1 and 2 to
    50 such pairs the plug-in test rejects no more than 1.1, 4.7 and 9.3 % at levels 1, 5 and 10 %.
    ``"asymptotic"`` rejects up to 2.2, 6.1 and 12.1 % with 5 to 2,500 such pairs and Laplace or
    geometric noise of ε = 0.05 to 1. For other odds r than 1, r/(1 + r) takes the place of ½.

    With ``compare="diff"`` the counts are trinomial with n = ``nobs``, and z = (b - c - nδ)/s with
    s² = n(q - δ²) + v₁ + v₂, where q = (b + c)/n is kept between abs(δ) and 1; at δ = 0 and without
    noise its square is McNemar's. (Tango 1998 takes the likelihood's q in place of the moments'.)
    Outcomes are ordered by the tail of b - c - nδ for a normal variable with that variance, plus
    the noise, and ``"exact"`` is the largest chance of one as extreme along the line p₁₂ - p₂₁ = δ,
    within limits of both that miss with probability β together, by branch and bound in the angle
    φ with min(p₁₂, p₂₁) = (1 - abs(δ))/2·sin²φ, of Fisher information at most 4n(1 - abs(δ)), as
    for :func:`proportions_2indep`. Ends of intervals are moved outwards by 1/2000 of a standard
    error.

    References
    ----------
    McNemar, Q. (1947). Note on the sampling error of the difference between correlated proportions
    or percentages. Psychometrika 12, 153-157. doi:10.1007/BF02295996.
    Tango, T. (1998). Equivalence test and confidence interval for the difference in proportions for
    the paired-sample design. Statistics in Medicine 17, 891-908.
    Berger and Boos (1994) and Lloyd (2008): see :func:`proportions_ztest`.

    Examples
    --------
    >>> from dpinfer.mechanisms import Geometric
    >>> table = [[101, 121], [59, 33]]
    >>> result = mcnemar(table, mechanism=Geometric.from_epsilon(0.5))
    >>> result.statistic.round(4), result.pvalue.round(5)
    (np.float64(4.6212), np.float64(0.00011))
    >>> mcnemar(table, 314, mechanism=Geometric.from_epsilon(0.5), compare="diff").conf_int()
    Intervals([0.110852, 0.279323], level 0.95, exact)
    """
    alternative = check_option(alternative, "alternative", ALTERNATIVES)
    method = check_option(method, "method", NOISY_TRIALS_NULLS)
    simulation = Simulation.checked(reps, rng, progress, n_jobs, precision)
    laws: Any = mechanism
    if isinstance(mechanism, tuple):  # those of the two counts, whatever else is in the table
        laws = [law for law in mechanism for _ in range(max(np.size(table) // 2, 1))]
    x = noisy(table, mechanism=laws, name="table")
    x.need(unruled=True, whole=True, who="mcnemar")
    if x.shape not in ((2, 2), (4,), (2,)):
        raise InvalidParameterError(
            f"table must have the shape (2, 2), or (2,) for the pairs that differ, got {x.shape}"
        )
    x = x if len(x) == 2 else x._take(np.array([1, 2]))
    x.need(independent=True, who="mcnemar")
    pair = x._take(np.array([0])), x._take(np.array([1]))
    chosen: Compare = check_option(compare, "compare", ("odds-ratio", "diff"))
    null = check_scalar(EQUAL[chosen] if value is None else value, "value")
    if chosen == "diff":
        check_scalar(null, "value", gt=-1, lt=1)
        if nobs is None:
            raise InvalidParameterError(
                "nobs must be given for compare='diff', got None: the difference of proportions "
                "needs the number of pairs, and a sum of noisy counts is not it; "
                "compare='odds-ratio' does without"
            )
        trials = check_integer(nobs, "nobs", ge=1, le=int(LARGEST_NOBS))
        return _of_relation(
            "McNemar's test",
            pair,
            (np.full(1, float(trials)),) * 2,
            OfPairs,
            np.asarray(null),
            (),
            float(trials),
            alternative,
            method,
            nuisance_alpha,
            simulation,
        )
    check_scalar(null, "value", ge=1e-6, le=1e6)
    test = _of_total(
        *pair,
        np.asarray(null / (1.0 + null)),
        nuisance_alpha,
        "the number of pairs that differ",
    )
    test = replace(test, shape=(), labels=None)
    return run(
        "McNemar's test",
        test,
        alternative,
        method,
        simulation,
        effect="odds of the first kind of pair",
        estimate=_odds(test),
        null=null,
        back=RatioOf(1.0),
    )


def _of_relation(
    name: str,
    pair: tuple[NoisyValues, NoisyValues],
    nobs: tuple[FloatArray, FloatArray],
    kind: type[Relation],
    value: FloatArray,
    shape: tuple[int, ...],
    observations: Any,
    alternative: Alternative,
    method: NoisyTrialsMethod,
    nuisance_alpha: float,
    simulation: Simulation,
) -> HypothesisResult:
    """Test the difference of the parameters of two counts."""
    rows = shape or (1,)
    counts = [np.broadcast_to(x.values.reshape(x.shape or (1,)), rows) for x in pair]
    simulation, again = simulation.twice(method)
    related = RelatedRows(
        counts=(counts[0], counts[1]),
        nobs=(np.broadcast_to(nobs[0], rows), np.broadcast_to(nobs[1], rows)),
        noises=(pair[0].marginal, pair[1].marginal),
        kind=kind,
        compare="diff",
        alternative=alternative,
        method=method,
        nuisance_alpha=check_scalar(nuisance_alpha, "nuisance_alpha", gt=0, lt=0.5),
        simulation=again,
    )
    values = np.broadcast_to(value, rows)
    note = "p-values take the estimated sum as the true one"
    if method == "exact":
        note = f"p-values hold whatever the sum; they include {nuisance_alpha:g} for that"
    return answer(
        name,
        related.statistic(values).reshape(shape),
        related.found(values, shape, simulation),
        alternative,
        method,
        nobs=observations,
        labels=pair[0].labels if shape else None,
        notes=() if method == "asymptotic" else (note,),
        effect=related.effect(value),
    )


def _odds(test: UnknownTrials) -> FloatArray:
    """Estimate of the odds of the first of two counts."""
    first, second = test.count, test.nobs - test.count
    return quotient(np.maximum(first, 0.0), np.maximum(second, 0.0))


def _of_total(
    x: NoisyValues, y: NoisyValues, share: FloatArray, nuisance_alpha: float, name: str
) -> UnknownTrials:
    """Return counts as parts of x + y, which are binomial given the sum of the true counts."""
    first, second = x.column(share, y.values.reshape(y.shape)), y.column(share)
    total = first + second
    check_array(total, name, ge=-LARGEST_TRIALS, le=LARGEST_TRIALS)
    shape = np.broadcast_shapes(total.shape, share.shape)
    rows = shape or (1,)
    return UnknownTrials(
        count=np.broadcast_to(first, rows),
        nobs=np.broadcast_to(total, rows),
        value=np.broadcast_to(share, rows),
        noise=x.marginal,
        nobs_noise=y.marginal,
        is_total=True,
        nuisance_alpha=check_scalar(nuisance_alpha, "nuisance_alpha", gt=0, lt=0.5),
        shape=shape,
        labels=x.labels,
    )


def poisson_2indep(
    count1: Any,
    exposure1: Any,
    count2: Any,
    exposure2: Any,
    *,
    mechanism: Mechanism | tuple[Mechanism, Mechanism] | None = None,
    value: Any = None,
    compare: Literal["ratio", "diff"] = "ratio",
    alternative: Alternative = "two-sided",
    method: NoisyTrialsMethod = "exact",
    nuisance_alpha: float = 1e-4,
    reps: int = 10_000,
    rng: RNG = None,
    n_jobs: int | None = 1,
    precision: float | None = None,
    progress: bool = False,
) -> HypothesisResult:
    """Test of the ratio or difference of two Poisson rates of counts published with noise.

    Parameters
    ----------
    count1, count2 : float, array of shape (m,), Series, Release or fit
        The published counts of events, not clamped or rounded since. In each row the errors of
        both must be independent.
    exposure1, exposure2 : float, array of shape (m,) or Series
        The public exposures, > 0, in one unit.
    mechanism : NoiseLaw or (NoiseLaw, NoiseLaw), optional
        The law of the noise: one for both counts, or a pair; left out where they carry theirs.
        Each has scalar parameters or one for each of the m rows.
    value : float, array of shape (m,) or Series, optional
        The ratio > 0 of the first rate to the second, or their difference in events per unit of
        exposure, under the null hypothesis; by default that of equal rates, 1 or 0.
    compare : {"ratio", "diff"}
        What ``value`` and the interval are of.
    alternative : {"two-sided", "larger", "smaller"}
        Whether the ratio or difference differs from ``value``, exceeds it, or falls short of it.
    method : {"exact", "plug-in", "monte-carlo", "asymptotic"}
        ``"exact"`` holds whatever the true total of events, or both rates: it takes the largest
        p-value over a confidence set. ``"plug-in"`` is the exact law at the published total,
        ``"monte-carlo"`` a simulation there, ``"asymptotic"`` the limit for many events.
    nuisance_alpha : float, default 1e-4
        Probability in (0, 0.5) with which the confidence set may miss the total.
    reps, rng, n_jobs, precision, progress
        Of the simulation: number of replicates, seed, workers, relative standard error of the
        p-value at which to stop, progress bar. See
        :func:`~dpinfer.hypothesis_tests.null_distribution`.

    Returns
    -------
    HypothesisResult
        Statistics and p-values, with the labels of ``count1``. They account for sampling and
        noise.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed or the shapes do not fit together; of a
        difference, if an exact law would take more than 8.4e6 pairs of counts.

    Notes
    -----
    Given the true total m of events, the first count is binomial(m, w) with w =
    value·exposure1/(value·exposure1 + exposure2), whatever the rates (Przyborowski and Wilenski
    1940). The statistic is z = T/√(M w (1-w)) with M = count1 + count2, at least 1, and T = count1
    - w·M, whose law given m is known exactly: binomial plus noise. Since M - m is noise of a known
    law, all whole numbers m within its upper ``nuisance_alpha``/2 quantile of M form a confidence
    set. Published pairs are ordered by a plug-in p-value, which takes M for m: the tail of T by a
    normal law of variance w(1-w)·max(M, 1) plus the noise. The exact p-value is the largest chance,
    over the set, of one as small as the observed one, plus ``nuisance_alpha`` (Berger and Boos
    1994, Lloyd 2008): the level is never exceeded. With continuous noise a relative 1e-4 is added,
    the error of integrals. Without noise it is the conditional binomial test.

    Where the noise has scales of some 25 or more, T itself sets the order, which costs little
    there: the p-value is the largest tail of T over the set. Sets of more than 4,096 numbers are
    then searched on a grid that is refined around its maximum.

    ``"plug-in"`` and ``"monte-carlo"`` take M as the true total and can exceed their level, where
    few events are expected in one group: by enumeration with geometric noise of ε = 1, up to 1.4,
    6.0 and 12.1 % at levels 1, 5 and 10 % for w = 0.2 and 2 to 50 events in all (one-sided, towards
    the rarer events); for w = 0.5 no more than 1.1, 4.7 and 9.3 %. ``"asymptotic"`` lacks the
    tails of Laplace and geometric noise: with 50 to 5,000 events and ε = 0.05 to 1 it rejects up to
    2.7, 6.3 and 10.7 %.

    A difference δ is tested by z = (count1/exposure1 - count2/exposure2 - δ)/s, with s² from the
    pair of rates of that difference whose expected total is M, at least half an event from the end,
    plus the noise; at δ = 0 and without noise it is the score of statsmodels. Outcomes are ordered
    by the tail for a normal variable with that variance, plus the noise, and ``"exact"`` is the
    largest chance of one as extreme along the curve of pairs of that difference, within limits of
    both rates that miss with probability ``nuisance_alpha`` together: by branch and bound in the
    roots of both means, as for :func:`proportions_2indep`. It is not conditional, so that its
    p-value at δ = 0 is not that of the ratio 1. Ends of intervals are moved outwards by 1/2000 of a
    standard error.

    References
    ----------
    Przyborowski, J. and Wilenski, H. (1940). Homogeneity of results in testing samples from Poisson
    series. Biometrika 31, 313-323. doi:10.1093/biomet/31.3-4.313.
    Berger and Boos (1994) and Lloyd (2008): see :func:`proportions_ztest`.

    Examples
    --------
    >>> from dpinfer.mechanisms import Exact, Laplace
    >>> noise = Laplace.from_epsilon(1.0)
    >>> result = poisson_2indep(60.3, 51477.5, 29.8, 54308.7, mechanism=noise)
    >>> result.statistic.round(4), result.pvalue.round(5)
    (np.float64(3.4704), np.float64(0.00075))
    >>> poisson_2indep(60, 51.5, 29, 54.3, compare="diff", mechanism=Exact()).conf_int()
    Intervals([0.27802, 0.987721], level 0.95, exact)
    """
    alternative = check_option(alternative, "alternative", ALTERNATIVES)
    method = check_option(method, "method", NOISY_TRIALS_NULLS)
    simulation = Simulation.checked(reps, rng, progress, n_jobs, precision)
    chosen: Compare = check_option(compare, "compare", ("ratio", "diff"))
    x, y = two_samples(count1, count2, mechanism, ("count1", "count2"), "poisson_2indep")
    first, second = (
        x.setting(given, name, gt=0, ge=1e-100, le=1e100)
        for name, given in (("exposure1", exposure1), ("exposure2", exposure2))
    )
    given = EQUAL[chosen] if value is None else value
    if chosen == "diff":
        null = x.setting(given, "value", ge=-1e100, le=1e100)
        expected = null * np.maximum(first, second)
        check_array(expected, "value times exposure", ge=-LARGEST_TRIALS, le=LARGEST_TRIALS)
        total = x.column(null, first, second) + y.column(null, first, second)
        check_array(total, "count1 + count2", ge=-LARGEST_TRIALS, le=LARGEST_TRIALS)
        shape = np.broadcast_shapes(total.shape, null.shape, first.shape, second.shape)
        return _of_relation(
            "Test of two rates",
            (x, y),
            (first, second),
            OfRates,
            null,
            shape,
            np.broadcast_to(total, shape),
            alternative,
            method,
            nuisance_alpha,
            simulation,
        )
    ratio = x.setting(given, "value", gt=0, ge=1e-100, le=1e100)
    share = np.asarray(ratio * first / (ratio * first + second))
    check_array(share, "the share of the first in all expected events", ge=SMALLEST_VALUE, lt=1)
    test = _of_total(x, y, share, nuisance_alpha, "count1 + count2")
    unit = np.asarray(second / first)
    return run(
        "Test of two rates",
        test,
        alternative,
        method,
        simulation,
        effect="ratio",
        estimate=_odds(test) * unit,
        null=ratio,
        back=RatioOf(unit),
    )
