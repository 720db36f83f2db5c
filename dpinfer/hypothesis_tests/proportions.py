"""Tests of one proportion from noisy counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, final

import numpy as np

from dpinfer._check import (
    ALTERNATIVES,
    RNG,
    Alternative,
    FloatArray,
    check_array,
    check_integer_array,
    check_option,
    check_scalar,
)
from dpinfer._numerics.roots import ENUMERATED
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import check_published, common_shape, unlabelled
from dpinfer.estimation.unknown_trials import UnknownTrials
from dpinfer.hypothesis_tests._one_count import NULLS, DrawZ, Method, OneCount, run
from dpinfer.hypothesis_tests._one_count import Method as OneMethod
from dpinfer.hypothesis_tests._plug_in import largest
from dpinfer.hypothesis_tests.models import checked_total, law_pair
from dpinfer.mechanisms._noisy_count import NoisyBinomial
from dpinfer.mechanisms.channels import RandomizedResponse
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Exact
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.labels import attach_labels, split_labels
from dpinfer.results.null import AsymptoticNull, ExactNull, NullDistribution, _KnownTails
from dpinfer.results.simulation import Simulation, simulate_null

# P-values that hold whatever the value of a nuisance parameter.


_START = 65
"""Points from which the search for a certified maximum starts."""


def certified_maximum(
    tail: Callable[[FloatArray], FloatArray],
    low: float,
    high: float,
    information: float,
    tolerance: float,
) -> float:
    """Upper bound on the largest probability of an event over an interval of a parameter x.

    ``information`` I bounds the Fisher information about x, and minus the expected second
    derivative of the log-likelihood is I as well. Then asin√P changes by √I/2 per unit of x at
    most, and, as P'' = E[1{event}·(s² + s')] with the score s and E[s² + s'] = 0,
    abs(P'') <= E[s² + abs(s')]/2 <= I. Between two points P is thus bounded from its values there.

    Branch and bound: pieces are halved until no bound exceeds the largest value by more than
    ``tolerance``. The largest bound is returned.
    """
    x = np.linspace(low, high, _START if high > low else 1)
    y = tail(x)
    best = bound = float(y.max())
    left, right, y_left, y_right = x[:-1], x[1:], y[:-1], y[1:]
    while left.size:
        inside = _bound_between(y_left, y_right, right - left, information)
        unsure = inside > best + tolerance
        bound = max(bound, float(np.max(inside[~unsure], initial=0.0)))
        left, right, y_left, y_right = (part[unsure] for part in (left, right, y_left, y_right))
        middle = 0.5 * (left + right)
        y_middle = tail(middle) if middle.size else middle
        best = max(best, float(np.max(y_middle, initial=0.0)))
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
        y_left, y_right = np.concatenate([y_left, y_middle]), np.concatenate([y_middle, y_right])
    return max(bound, best)


def _bound_between(
    y_left: FloatArray, y_right: FloatArray, width: FloatArray, information: float
) -> FloatArray:
    """Bound on the probability between two points, by its slope and by its curvature."""
    curved = np.maximum(y_left, y_right) + information * np.square(width) / 8.0
    rise = 0.5 * np.sqrt(information) * width
    angle = np.minimum(0.5 * (_angle(y_left) + _angle(y_right) + rise), 0.5 * np.pi)
    return np.asarray(np.minimum(curved, np.sin(angle) ** 2))


def _angle(probability: FloatArray) -> FloatArray:
    return np.asarray(np.arcsin(np.sqrt(np.clip(probability, 0.0, 1.0))))


@final
@dataclass(frozen=True, eq=False)
class GuaranteedNull(_KnownTails):
    """Upper bounds on the tails of a statistic that hold for all nuisance parameters in a set.

    Parameters
    ----------
    larger, smaller, further : callable
        Bounds on P(S >= s), P(S <= s) and P(abs(S) >= s), the probability β included.
    """

    further: Callable[[FloatArray], FloatArray]

    def _extreme(self, statistic: FloatArray, alternative: Alternative) -> FloatArray:
        if alternative == "two-sided":
            return np.asarray(self.further(np.abs(statistic)))
        return super()._extreme(statistic, alternative)

    def _facts(self) -> list[tuple[str, object]]:
        return [("Kind", "exact, the largest over a confidence set for the nuisance parameter")]


# Tests of a proportion where the number of trials is known only with noise.


NoisyTrialsMethod = Literal["exact", "plug-in", "monte-carlo", "normal"]


def exact(
    test: UnknownTrials, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values that hold whatever the number of trials."""
    pvalue = largest(test, alternative, test.difference).reshape(test.shape)
    null = GuaranteedNull(
        partial(_largest_tail, test, "larger"),
        partial(_largest_tail, test, "smaller"),
        partial(_largest_tail, test, "two-sided"),
    )
    return pvalue, null


def _largest_tail(test: UnknownTrials, alternative: Alternative, z: FloatArray) -> FloatArray:
    """P-value at a statistic with the published number of trials."""
    point = np.broadcast_to(z, test.shape).reshape(-1) * test.spread
    return largest(test, alternative, point).reshape(test.shape)


def plug_in(
    test: UnknownTrials, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values at the estimated number of trials."""
    rows = np.arange(test.count.size)
    pvalue = test.tail(alternative, test.difference, test.trials, rows).reshape(test.shape)
    null = ExactNull(
        partial(test.plug_in_tail, "larger"),
        partial(test.plug_in_tail, "smaller"),
        error=test.error.reshape(test.shape),
    )
    return pvalue, null


def monte_carlo(
    test: UnknownTrials, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values by simulation at the estimated number of trials."""
    n, p = test.trials, test.value
    laws: dict[int, NoiseLaw] = {int(row): law for law, _, rows in test.groups for row in rows}
    draws = [
        DrawZ(
            NoisyBinomial(nobs=n[row], value=p[row], noise=laws[row]),
            float(n[row] * p[row]),
            float(test.spread[row]),
        )
        for row in range(test.count.size)
    ]
    statistic = test.statistic.reshape(test.shape)
    null = simulate_null(draws, statistic, simulation, alternative=alternative)
    return null.pvalue(statistic, alternative), null


def normal(
    test: UnknownTrials, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values in the limit of many trials, at their estimated number."""
    scale = np.sqrt(1.0 + test.variance / np.square(test.spread))
    null = AsymptoticNull.normal(np.broadcast_to(scale, test.count.shape).reshape(test.shape))
    statistic = test.statistic.reshape(test.shape)
    return null.pvalue(statistic, alternative), null


NOISY_TRIALS_NULLS: dict[
    NoisyTrialsMethod,
    Callable[[UnknownTrials, Alternative, Simulation], tuple[FloatArray, NullDistribution]],
] = {"exact": exact, "plug-in": plug_in, "monte-carlo": monte_carlo, "normal": normal}
"""The p-values and the null distribution of each method."""


def noisy_trials_run(
    name: str,
    test: UnknownTrials,
    alternative: Alternative,
    method: NoisyTrialsMethod,
    simulation: Simulation,
) -> HypothesisResult:
    """Test and report; the number of observations is the estimated one."""
    pvalue, null = NOISY_TRIALS_NULLS[method](test, alternative, simulation)
    statistic = test.statistic.reshape(test.shape)
    return HypothesisResult(
        name=name,
        statistic=statistic,
        pvalue=pvalue,
        alternative=alternative,
        method=method,
        null_distribution=null,
        uncertainty="noise+sampling",
        nobs=test.nobs.reshape(test.shape),
        mc_error=null.mc_error(statistic, alternative),
        labels=test.labels,
        notes=_notes(test, method),
    )


def _notes(test: UnknownTrials, method: NoisyTrialsMethod) -> tuple[str, ...]:
    """Say what the p-values take for granted, unless the number of trials is known after all."""
    noisy = np.any(test.nobs_noise.variance) or (test.is_total and np.any(test.noise.variance))
    if not noisy:
        return ()
    if method != "exact":
        return ("p-values take the estimated number as the true one",)
    note = f"p-values hold whatever the true number; they include {test.nuisance_alpha:g} for that"
    low, high, _ = test.confidence_set
    if (high - low < ENUMERATED).all():
        return (note,)
    return (note, "the maximum over long ranges of that number is a numerical one, on a fine grid")


_NAME = "Test of one proportion"


def proportions_ztest(
    count: Any,
    nobs: Any,
    value: Any,
    *,
    mechanism: Mechanism | RandomizedResponse,
    nobs_mechanism: Mechanism | None = None,
    nobs_is_total: bool = False,
    alternative: Alternative = "two-sided",
    method: NoisyTrialsMethod | Literal["unbiased"] = "exact",
    nuisance_alpha: float = 1e-4,
    reps: int = 10_000,
    rng: RNG = None,
    n_jobs: int | None = 1,
    precision: float | None = None,
    progress: bool = False,
) -> HypothesisResult:
    """Test of a proportion when the count of successes was published with noise.

    Parameters
    ----------
    count : float, array of shape (m,) or Series
        The published counts: the number of successes plus noise, not clamped or rounded since.
        They may be negative or exceed ``nobs``.
    nobs : int, array of shape (m,) or Series
        The number of trials behind each count: public and >= 1, or published with noise.
    value : float, array of shape (m,) or Series
        The proportion under the null hypothesis, in (0, 1).
    mechanism : NoiseLaw, sequence of NoiseLaw or RandomizedResponse
        The law of the noise: one for all counts, or one for each. With randomized response of two
        categories ``count`` is the number of reports "success", which has no more noise.
    nobs_mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The law of the noise in ``nobs``, where it was published with noise.
    nobs_is_total : bool, default False
        Whether ``count`` is a summand of ``nobs``, its noise included. ``nobs_mechanism`` is then
        the noise of the other summands; :class:`WeightedSum` adds up several.
    alternative : {"two-sided", "larger", "smaller"}
        Whether the proportion differs from ``value``, exceeds it, or falls short of it.
    method : {"exact", "monte-carlo", "normal", "plug-in", "unbiased"}
        Where the null distribution comes from: ``"exact"`` sums the binomial probabilities
        against the tail of the noise, ``"monte-carlo"`` simulates, ``"normal"`` is the limit for
        many trials, with the variance of the noise in it. Where ``nobs`` is noisy, ``"exact"``
        holds whatever the true number of trials, and ``"plug-in"`` and the others take it to be
        the published one. ``"unbiased"``, where ``nobs`` is known, is exact too, and weighs the
        two sides so that a two-sided test has its least power at ``value``.
    nuisance_alpha : float, default 1e-4
        Probability in (0, 0.5) with which the confidence set for the true number of trials may
        miss it. Used where ``nobs`` is noisy.
    reps : int, default 10_000
        Number of replicates for ``"monte-carlo"``.
    rng : None, int or numpy.random.Generator
        Source of the replicates; an int is a seed. A generator is asked for a seed once.
    n_jobs : int or None, default 1
        Number of workers that simulate, as joblib takes it.
    precision : float, optional
        Relative standard error of the p-value at which to stop simulating.
    progress : bool, default False
        Whether to show a progress bar while simulating.

    Returns
    -------
    HypothesisResult
        Statistics and p-values, with the labels of ``count``; unpacks as ``statistic, pvalue``.
        They account for sampling and noise. One null distribution serves all counts that share
        ``nobs``, ``value`` and mechanism; otherwise there is one for each count.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, the shapes do not fit together, a count is not a
        whole number although the noise takes whole numbers only, or ``"exact"`` would take many
        seconds: it sums over 18 standard deviations of the count for each point.

    Notes
    -----
    The statistic is z = (count/n - p)/√(p(1-p)/n), that of the z test without noise: it is the
    null distribution that differs. With T = X + e, X ~ Binomial(n, p) and e the noise,
    P(T >= t) = Σ_k P(X = k)·P(e >= t - k). The two-sided p-value is P(abs(z*) >= abs(z)). For
    whole-numbered noise with a log-concave law the one-sided exact test is the most powerful one
    based on the published count (Awan and Slavković 2018). The normal null distribution is
    N(0, 1 + v/(n p (1-p))) with v the variance of the noise. It errs in the tails where the noise
    dominates, and where n·p·(1-p) is small: with 50, 500 or 5,000 trials, p = 0.05 or 0.5 and
    Laplace or geometric noise of ε = 0.05, 0.2 or 1 it rejects up to 2.7, 7.5 and 12.9 % at levels
    1, 5 and 10 %. With Gaussian noise of standard deviation 5 to 106 no excess showed in 20,000
    simulations of each.

    With b of R replicates at least as extreme as observed, the Monte Carlo p-value is
    (1 + b)/(R + 1). Replicates are drawn in blocks, each from its own child of the seed: how many
    of them fall on each count by one multinomial draw, then the noise.

    ``"unbiased"``: with g(t) = E[(X - np); T >= t] on the upper side of its maximum and
    E[(np - X); T <= t] on the lower one, the two-sided p-value is P(g(T) <= g(count)) at ``value``.
    A test that rejects both ends has a power whose slope at ``value`` is zero where they have the
    same g; whole-numbered noise comes as near to it as its atoms allow. The level holds with any
    noise. With Tulap noise it is the uniformly most powerful unbiased test among all that are
    private with that budget (Awan and Slavković 2020): with n = 20, value 0.3, ε = 1 and level 0.05
    it finds 0.1 with a probability of 0.394, the exact test with 0.33. One-sided p-values are those
    of ``"exact"``, which with Tulap noise is the most powerful one.

    Where ``nobs`` is noisy, the statistic is T/√(nobs·p(1-p)) with T = count - p·nobs, and nobs at
    least 1 in the root. Given the true number n of trials T is X - n·p plus noise of a known law.
    ``nobs`` gives a confidence set for n that misses it with probability β = ``nuisance_alpha``;
    the exact p-value is the largest chance over it of a plug-in p-value as small as the observed
    one, plus β (Berger and Boos 1994, Lloyd 2008; the order is that of :func:`poisson_2indep`). It
    never rejects a true null hypothesis with a probability above the level. All numbers in the set
    are looked at if there are at most 4,096; otherwise a grid, refined around its maximum.
    ``"plug-in"`` and ``"monte-carlo"`` can exceed their level, most where n·p is small: with 50
    trials, geometric noise of ε = 1 in ``count`` and in the other summands of ``nobs``, and p =
    0.01, the one-sided plug-in test rejects 8.3 % at level 5 %, and with p = 0.02 the two-sided one
    11.9 % at level 10 %. With 500 trials, or ε = 0.2, and p between 0.02 and 0.5 no excess showed
    in 6,000 simulations. The normal limit rejects up to 2.7, 7.0 and 12.4 % at levels 1, 5 and 10 %
    with Laplace or geometric noise and few successes (50 trials, p = 0.05).

    Through randomized response that keeps the answer with probability π, the reports "success"
    have the proportion π·p + (1-π)(1-p): they are tested for that. ``"normal"`` is off there as for
    any binomial count, with 50 reports up to 1.4, 6.6 and 12.7 % at levels 1, 5 and 10 %.

    The test assumes that the count was published whatever its value. It does not hold for counts
    that were published because they passed a threshold.

    References
    ----------
    Awan, J. and Slavković, A. (2018). Differentially private uniformly most powerful tests for
    binomial data. Advances in Neural Information Processing Systems 31. arXiv:1805.09236.
    Awan, J. and Slavković, A. (2020). Differentially private inference for binomial data. Journal
    of Privacy and Confidentiality 10. doi:10.29012/jpc.725.
    Berger, R. L. and Boos, D. D. (1994). P values maximized over a confidence set for the nuisance
    parameter. Journal of the American Statistical Association 89, 1012-1016.
    doi:10.1080/01621459.1994.10476836.
    Lloyd, C. J. (2008). Exact p-values for discrete models obtained by estimation and
    maximization. Australian & New Zealand Journal of Statistics 50, 329-345.
    doi:10.1111/j.1467-842X.2008.00520.x.
    Ashmead, R., Leclerc, P. and Sexton, W. (2019). An Introduction to Differential Privacy, JSM
    tutorial, Example 4.3.

    Examples
    --------
    >>> from dpinfer.mechanisms import Geometric, Laplace
    >>> noise = Laplace.from_epsilon(0.5)
    >>> statistic, pvalue = proportions_ztest(34.21, 100, 0.255, mechanism=noise)
    >>> statistic.round(4), pvalue.round(8)
    (np.float64(1.9983), np.float64(0.09224256))

    Without noise the p-value would be 0.0457. Rejecting where that falls below 0.05 has a true
    size of

    >>> result = proportions_ztest(34.21, 100, 0.255, mechanism=noise)
    >>> result.null_distribution.pvalue(1.959964).round(4)
    np.float64(0.0984)

    The number of trials published with noise too:

    >>> noise = Geometric.from_epsilon(0.5)
    >>> result = proportions_ztest(34, 103, 0.255, mechanism=noise, nobs_mechanism=noise)
    >>> result.statistic.round(4), result.pvalue.round(4)
    (np.float64(1.7486), np.float64(0.1433))
    """
    alternative = check_option(alternative, "alternative", ALTERNATIVES)
    simulation = Simulation.checked(reps, rng, progress, n_jobs, precision)
    is_total = checked_total(nobs_is_total, nobs_mechanism)
    if isinstance(mechanism, RandomizedResponse):
        value = _reported(mechanism, value)
        mechanism = reports_noise(mechanism, count, nobs, "count", "nobs")
    if nobs_mechanism is not None:
        unknown = UnknownTrials.checked(
            count=count,
            nobs=nobs,
            value=value,
            mechanism=mechanism,
            nobs_mechanism=nobs_mechanism,
            is_total=is_total,
            nuisance_alpha=nuisance_alpha,
        )
        chosen = check_option(method, "method", NOISY_TRIALS_NULLS)
        return noisy_trials_run(_NAME, unknown, alternative, chosen, simulation)
    check_scalar(nuisance_alpha, "nuisance_alpha", gt=0, lt=0.5)
    known: OneMethod | Literal["unbiased"]
    known = check_option(method, "method", ("exact", "monte-carlo", "normal", "unbiased"))
    test = OneCount.of_trials(count, nobs, value, mechanism)
    trials = test.law.parameters["nobs"][()]
    return run(_NAME, test, alternative, known, simulation, nobs=trials)


def _reported(channel: RandomizedResponse, value: Any) -> Any:
    """Return the proportion of reports that belongs to a proportion of true answers."""
    values, labels = split_labels(value, "value")
    check_array(values, "value", gt=0, lt=1)
    return attach_labels(channel.p * values + (1.0 - channel.p) * (1.0 - values), labels)


def reports_noise(
    channel: RandomizedResponse, count: Any, nobs: Any, name: str, nobs_name: str
) -> Exact:
    """Return that reports have no noise of their own, once they have been checked."""
    if channel.categories != 2:
        raise InvalidParameterError(
            f"mechanism must have two categories for a proportion, got {channel.categories}"
        )
    counts = check_integer_array(split_labels(count, name)[0], name, ge=0)
    trials = split_labels(nobs, nobs_name)[0]
    common_shape(**{name: counts, nobs_name: trials})
    if (counts > trials).any():
        raise InvalidParameterError(f"{name} must be at most {nobs_name}: it counts reports")
    return Exact()


# Tests of Poisson rates from noisy counts.


def poisson_ztest(
    count: Any,
    exposure: Any,
    value: Any,
    *,
    mechanism: Mechanism,
    alternative: Alternative = "two-sided",
    method: Method = "exact",
    reps: int = 10_000,
    rng: RNG = None,
    n_jobs: int | None = 1,
    precision: float | None = None,
    progress: bool = False,
) -> HypothesisResult:
    """Test of a Poisson rate when the count of events was published with noise.

    Parameters
    ----------
    count : float, array of shape (m,) or Series
        The published counts: the number of events plus noise, not clamped or rounded since.
    exposure : float, array of shape (m,) or Series
        The public exposure behind each count, > 0: person-years, area, time.
    value : float, array of shape (m,) or Series
        The rate under the null hypothesis, events per unit of exposure, > 0.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all counts, or one for each.
    alternative : {"two-sided", "larger", "smaller"}
        Whether the rate differs from ``value``, exceeds it, or falls short of it.
    method : {"exact", "monte-carlo", "normal"}
        ``"exact"`` sums the Poisson probabilities against the tail of the noise, ``"monte-carlo"``
        simulates, ``"normal"`` is the limit for many events, with the variance of the noise in it.
    reps : int, default 10_000
        Number of replicates for ``"monte-carlo"``.
    rng : None, int or numpy.random.Generator
        Source of the replicates; an int is a seed.
    n_jobs : int or None, default 1
        Number of workers that simulate, as joblib takes it.
    precision : float, optional
        Relative standard error of the p-value at which to stop simulating.
    progress : bool, default False
        Whether to show a progress bar while simulating.

    Returns
    -------
    HypothesisResult
        Statistics and p-values, with the labels of ``count``. They account for sampling and noise.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, the shapes do not fit together, or the expected
        count is below 1e-300 or above 1e15.

    Notes
    -----
    The statistic is z = (count - μ)/√μ with μ = exposure·value. With T = X + e, X ~ Poisson(μ) and
    e the noise, P(T >= t) = Σ_k P(X = k)·P(e >= t - k). The two-sided p-value is
    P(abs(T - μ) >= abs(count - μ)). The normal law is N(0, 1 + v/μ) with v the variance of the
    noise; it errs where μ is small and in the tails where the noise dominates: with μ from 2.5 to
    2,500 and Laplace or geometric noise of ε = 0.05, 0.2 or 1 it rejects up to 2.7, 7.8 and 13.4 %
    at levels 1, 5 and 10 %, with discrete Gaussian noise of standard deviation 5 and μ = 2.5 1.3,
    5.9 and 11.5 %. The other methods keep every level.

    Examples
    --------
    >>> from dpinfer.mechanisms import Geometric
    >>> result = poisson_ztest(31, 12.5, 1.6, mechanism=Geometric.from_epsilon(0.5))
    >>> result.statistic.round(4), result.pvalue.round(6)
    (np.float64(2.4597), np.float64(0.047244))
    """
    alternative = check_option(alternative, "alternative", ALTERNATIVES)
    method = check_option(method, "method", NULLS)
    simulation = Simulation.checked(reps, rng, progress, n_jobs, precision)
    test = OneCount.of_events(count, exposure, value, mechanism)
    return run("Test of one rate", test, alternative, method, simulation)


def poisson_2indep(
    count1: Any,
    exposure1: Any,
    count2: Any,
    exposure2: Any,
    *,
    mechanism: Mechanism | tuple[Mechanism, Mechanism],
    value: Any = 1.0,
    alternative: Alternative = "two-sided",
    method: NoisyTrialsMethod = "exact",
    nuisance_alpha: float = 1e-4,
    reps: int = 10_000,
    rng: RNG = None,
    n_jobs: int | None = 1,
    precision: float | None = None,
    progress: bool = False,
) -> HypothesisResult:
    """Test of the ratio of two Poisson rates when the counts were published with noise.

    Parameters
    ----------
    count1, count2 : float, array of shape (m,) or Series
        The published counts of events, not clamped or rounded since.
    exposure1, exposure2 : float, array of shape (m,) or Series
        The public exposures, > 0, in one unit.
    mechanism : NoiseLaw or (NoiseLaw, NoiseLaw)
        The law of the noise: one for both counts, or a pair. Each has scalar parameters or one
        for each of the m rows.
    value : float, array of shape (m,) or Series, default 1
        The ratio of the first rate to the second under the null hypothesis, > 0.
    alternative : {"two-sided", "larger", "smaller"}
        Whether the ratio differs from ``value``, exceeds it, or falls short of it.
    method : {"exact", "plug-in", "monte-carlo", "normal"}
        ``"exact"`` holds whatever the true total of events: it takes the largest p-value over a
        confidence set for it. ``"plug-in"`` is the exact law at the published total,
        ``"monte-carlo"`` a simulation there, ``"normal"`` the limit for many events.
    nuisance_alpha : float, default 1e-4
        Probability in (0, 0.5) with which the confidence set may miss the total.
    reps : int, default 10_000
        Number of replicates for ``"monte-carlo"``.
    rng : None, int or numpy.random.Generator
        Source of the replicates; an int is a seed.
    n_jobs : int or None, default 1
        Number of workers that simulate, as joblib takes it.
    precision : float, optional
        Relative standard error of the p-value at which to stop simulating.
    progress : bool, default False
        Whether to show a progress bar while simulating.

    Returns
    -------
    HypothesisResult
        Statistics and p-values, with the labels of ``count1``. They account for sampling and
        noise.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed or the shapes do not fit together.

    Notes
    -----
    Given the true total m of events, the first count is binomial(m, w) with
    w = value·exposure1/(value·exposure1 + exposure2), whatever the rates (Przyborowski and Wilenski
    1940). The statistic is z = T/√(M w (1-w)) with M = count1 + count2, at least 1, and
    T = count1 - w·M, whose law given m is known exactly: binomial plus noise. The true m is a
    nuisance parameter. Since M - m is noise of a known law, all whole numbers m within its upper
    ``nuisance_alpha``/2 quantile of M form a confidence set. Published pairs are ordered by a
    plug-in p-value, which takes M for m: the tail of T by a normal law of variance w(1-w)·max(M, 1)
    plus the noise, which is as good an order and smooth. The exact p-value is the largest chance,
    over the set, of one as small as the observed one, plus ``nuisance_alpha`` (estimate, then
    maximise: Berger and Boos 1994, Lloyd 2008). It never rejects a true null hypothesis with a
    probability above the level. With continuous noise a relative 1e-4 is added, the error of
    integrals. Without noise it is the conditional binomial test.

    Where the noise has scales of some 25 or more, T itself sets the order, which costs little
    there: the p-value is the largest tail of T over the set. Sets of more than 4,096 numbers are
    then searched on a grid that is refined around its maximum.

    ``"plug-in"`` and ``"monte-carlo"`` take M as the true total and can exceed their level, where
    few events are expected in one group: by enumeration with geometric noise of ε = 1, up to 1.4,
    6.0 and 12.1 % at levels 1, 5 and 10 % for w = 0.2 and 2 to 50 events in all (one-sided, towards
    the rarer events); for w = 0.5 no more than 1.1, 4.7 and 9.3 %. ``"normal"`` lacks the tails of
    Laplace and geometric noise: with 50, 500 or 5,000 events and ε = 0.05, 0.2 or 1 it rejects up
    to 2.7, 6.3 and 10.7 %.

    References
    ----------
    Przyborowski, J. and Wilenski, H. (1940). Homogeneity of results in testing samples from Poisson
    series. Biometrika 31, 313-323. doi:10.1093/biomet/31.3-4.313.
    Berger, R. L. and Boos, D. D. (1994). P values maximized over a confidence set for the nuisance
    parameter. Journal of the American Statistical Association 89, 1012-1016.
    doi:10.1080/01621459.1994.10476836.
    Lloyd, C. J. (2008). Exact p-values for discrete models obtained by estimation and
    maximization. Australian & New Zealand Journal of Statistics 50, 329-345.
    doi:10.1111/j.1467-842X.2008.00520.x.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> noise = Laplace.from_epsilon(1.0)
    >>> result = poisson_2indep(60.3, 51477.5, 29.8, 54308.7, mechanism=noise)
    >>> result.statistic.round(4), result.pvalue.round(5)
    (np.float64(3.4704), np.float64(0.00075))
    """
    alternative = check_option(alternative, "alternative", ALTERNATIVES)
    method = check_option(method, "method", NOISY_TRIALS_NULLS)
    simulation = Simulation.checked(reps, rng, progress, n_jobs, precision)
    counts, labels = split_labels(count1, "count1")
    others = unlabelled(count2, "count2", labels, "count1")
    first, second, ratio = (
        check_array(unlabelled(x, name, labels, "count1"), name, gt=0, ge=1e-100, le=1e100)
        for name, x in (("exposure1", exposure1), ("exposure2", exposure2), ("value", value))
    )
    shape = common_shape(
        count1=counts, exposure1=first, count2=others, exposure2=second, value=ratio
    )
    noises = law_pair(mechanism, shape[0] if shape else 1, "mechanism")
    for name, array, noise in (("count1", counts, noises[0]), ("count2", others, noises[1])):
        check_published(
            np.broadcast_to(array, np.broadcast_shapes(shape, noise.shape)), name, noise
        )
    share = ratio * first / (ratio * first + second)
    test = UnknownTrials.checked(
        count=count1,
        nobs=counts + others,
        value=share,
        mechanism=noises[0],
        nobs_mechanism=noises[1],
        is_total=True,
        nuisance_alpha=nuisance_alpha,
        names=("count1", "count1 + count2"),
    )
    return noisy_trials_run("Test of two rates", test, alternative, method, simulation)
