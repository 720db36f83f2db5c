"""Tests of one proportion, and of one rate of events, from noisy counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from dpinfer._check import (
    ALTERNATIVES,
    RNG,
    Alternative,
    FloatArray,
    check_array,
    check_option,
    check_scalar,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import (
    LARGEST_NOBS,
    SMALLEST_VALUE,
)
from dpinfer.hypothesis_tests._answers import answer
from dpinfer.hypothesis_tests._inversion import Affine, Effect
from dpinfer.hypothesis_tests._one_count import (
    LARGEST_RATE,
    NULLS,
    Method,
    OneCount,
    OneEffect,
    collapse,
)
from dpinfer.hypothesis_tests.models import reports_noise
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Exact
from dpinfer.releases.coerce import is_noisy, noisy
from dpinfer.releases.values import NoisyValues
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.simulation import Simulation

if TYPE_CHECKING:
    from dpinfer.mechanisms.channels import RandomizedResponse, UnaryEncoding


def proportions_ztest(
    count: Any,
    nobs: Any,
    value: Any = None,
    *,
    mechanism: Mechanism | RandomizedResponse | UnaryEncoding | None = None,
    nobs_mechanism: Mechanism | None = None,
    nobs_is_total: bool = False,
    alternative: Alternative = "two-sided",
    method: Method | Literal["plug-in"] = "exact",
    nuisance_alpha: float = 1e-4,
    reps: int = 10_000,
    rng: RNG = None,
    n_jobs: int | None = 1,
    precision: float | None = None,
    progress: bool = False,
) -> HypothesisResult:
    """Test of a proportion when the count of successes was published with noise.

    Each of several counts is tested for ``value``; two counts without a ``value`` are the samples
    of one test of equal proportions.

    Parameters
    ----------
    count : float, array of shape (m,), Series, Release or estimate
        The published counts: successes plus noise, not clamped since. They may be negative or
        exceed ``nobs``. A release or a fit carries the law of its noise.
    nobs : int, array of shape (m,), Series, Release or estimate
        The number of trials behind each count: public and >= 1, or published with noise.
    value : float, array of shape (m,) or Series, optional
        The proportion under the null hypothesis, in (0, 1), of each count. Without it there must be
        two counts: they are compared by :func:`proportions_2indep`. In statsmodels the value of two
        counts is a difference of proportions.
    mechanism : NoiseLaw, sequence of NoiseLaw, RandomizedResponse or UnaryEncoding
        The law of the noise: one for all counts, or one for each; left out where ``count`` carries
        it. With randomized response or unary encoding ``count`` is the number of reports of one
        category, and ``value`` its proportion of the true answers.
    nobs_mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The law of the noise in ``nobs``, where that has noise and does not carry its law.
    nobs_is_total : bool, default False
        Whether ``count`` is a summand of ``nobs``, its noise included. ``nobs_mechanism`` is then
        the noise of the other summands; :class:`WeightedSum` adds up several. Where both carry
        their law this is known, and left out.
    alternative : {"two-sided", "larger", "smaller"}
        Whether the proportion differs from ``value``, exceeds it, or falls short of it.
    method : {"exact", "monte-carlo", "asymptotic", "plug-in", "unbiased"}
        ``"exact"`` sums the binomial probabilities against the tail of the noise, ``"monte-carlo"``
        simulates, ``"asymptotic"`` is the limit for many trials, with the variance of the noise in
        it. Where ``nobs`` is noisy, ``"exact"`` holds whatever the true number of trials;
        ``"plug-in"`` and the others take it to be the published one. ``"unbiased"``, where ``nobs``
        is known, is exact too, and weighs the two sides so that a two-sided test has its least
        power at ``value``.
    nuisance_alpha : float, default 1e-4
        Probability in (0, 0.5) with which the confidence set for a noisy number of trials may miss
        the true one.
    reps, rng, n_jobs, precision, progress
        Of the simulation: number of replicates, seed, workers, relative standard error of the
        p-value at which to stop, progress bar. See
        :func:`~dpinfer.hypothesis_tests.null_distribution`.

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
        seconds: for sums of noises it adds up 18 standard deviations of the count for each point.

    Notes
    -----
    The statistic is that of the z test without noise, z = (count/n - p)/√(p(1-p)/n); its null
    distribution differs. With T = X + e, X ~ Binomial(n, p) and e the noise,
    P(T >= t) = Σ_k P(X = k)·P(e >= t - k), to about 1e-12 of it: for Laplace, geometric, Tulap and
    Gaussian noise, discrete or not, in a time that does not grow with n. The two-sided p-value is
    P(abs(z*) >= abs(z)). For whole-numbered noise with a log-concave law the one-sided exact test
    is the most powerful one based on the published count (Awan and Slavković 2018). The limit is
    N(0, 1 + v/(n p (1-p))) with v the variance of the noise. It errs in the tails where the noise
    dominates or n·p·(1-p) is small: with 50 to 5,000 trials, p = 0.05 or 0.5 and Laplace or
    geometric noise of ε = 0.05 to 1 it rejects up to 2.7, 7.5 and 12.9 % at levels 1, 5 and 10 %;
    with Gaussian noise of standard deviation 5 to 106 no excess showed in 20,000 simulations of
    each.

    ``"unbiased"``: with g(t) = E[(X - np); T >= t] on the upper side of its maximum and E[(np - X);
    T <= t] on the lower one, the two-sided p-value is P(g(T) <= g(count)) at ``value``. A test that
    rejects both ends has a power of slope zero at ``value`` where they have the same g;
    whole-numbered noise comes as near to it as its atoms allow. The level holds with any noise.
    With Tulap noise it is the uniformly most powerful unbiased test among all that are private with
    that budget (Awan and Slavković 2020). One-sided p-values are those of ``"exact"``.

    Where ``nobs`` is noisy, the statistic is T/√(nobs·p(1-p)) with T = count - p·nobs, and nobs at
    least 1 in the root. Given the true number n of trials T is X - n·p plus noise of a known law.
    ``nobs`` gives a confidence set for n that misses it with probability β = ``nuisance_alpha``;
    the exact p-value is the largest chance over it of a plug-in p-value as small as the observed
    one, plus β (Berger and Boos 1994, Lloyd 2008; the order is that of :func:`poisson_2indep`): the
    level is never exceeded. All numbers in the set are looked at if there are at most 4,096;
    otherwise a grid, refined around its maximum. ``"plug-in"`` and ``"monte-carlo"`` can exceed
    their level where n·p is small: with 50 trials, geometric noise of ε = 1 in ``count`` and in the
    other summands of ``nobs``, and p = 0.01, the one-sided plug-in test rejects 8.3 % at level 5 %;
    with 500 trials, or ε = 0.2, and p between 0.02 and 0.5 no excess showed in 6,000 simulations.
    The limit rejects up to 2.7, 7.0 and 12.4 % at levels 1, 5 and 10 % with Laplace or geometric
    noise and few successes (50 trials, p = 0.05).

    Through randomized response that keeps the answer with probability π, the reports "success"
    have the proportion π·p + (1-π)(1-p): they are tested for that. ``"asymptotic"`` is off there as
    for any binomial count, with 50 reports up to 1.4, 6.6 and 12.7 %.

    The test does not hold for counts that were published because they passed a threshold.

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

    Examples
    --------
    >>> from dpinfer.mechanisms import Geometric, Laplace
    >>> result = proportions_ztest(34.21, 100, 0.255, mechanism=Laplace.from_epsilon(0.5))
    >>> result.statistic.round(4), result.pvalue.round(8)
    (np.float64(1.9983), np.float64(0.09224256))

    Without noise the p-value would be 0.0457. Rejecting where that is below 0.05 has a true size of

    >>> result.null_distribution.pvalue(1.959964).round(4)
    np.float64(0.0984)

    The number of trials published with noise too:

    >>> noise = Geometric.from_epsilon(0.5)
    >>> result = proportions_ztest(34, 103, 0.255, mechanism=noise, nobs_mechanism=noise)
    >>> result.statistic.round(4), result.pvalue.round(4)
    (np.float64(1.7486), np.float64(0.1433))

    The proportions that the test does not reject:

    >>> result.conf_int()
    Intervals([0.230946, 0.444119], level 0.95, exact)

    Two samples:

    >>> proportions_ztest([61, 42], [200, 210], mechanism=noise).pvalue.round(4)
    np.float64(0.0272)
    """
    if value is None:
        return _of_two(
            count,
            nobs,
            mechanism,
            nobs_mechanism=nobs_mechanism,
            nobs_is_total=nobs_is_total,
            alternative=alternative,
            method=method,
            nuisance_alpha=nuisance_alpha,
            reps=reps,
            rng=rng,
            n_jobs=n_jobs,
            precision=precision,
            progress=progress,
        )
    side = check_option(alternative, "alternative", ALTERNATIVES)
    simulation = Simulation.checked(reps, rng, progress, n_jobs, precision)
    check_scalar(nuisance_alpha, "nuisance_alpha", gt=0, lt=0.5)
    channel, law = _as_channel(mechanism), cast("Mechanism | None", mechanism)
    if channel is not None:
        law = reports_noise(channel, count, nobs, "count", "nobs")
    x = noisy(count, mechanism=law, name="count")
    x.need(unruled=True, whole=True, who="proportions_ztest")
    null = x.setting(value, "value", ge=SMALLEST_VALUE, gt=0, lt=1)
    p = null if channel is None else channel.q + channel.slope * null
    if is_noisy(nobs, nobs_mechanism, nobs_is_total):
        # only here, so that tests with a known number of trials are not kept waiting for it
        from dpinfer.estimation.unknown_trials import UnknownTrials
        from dpinfer.hypothesis_tests import _plug_in

        unknown = UnknownTrials.of(x, nobs, nobs_mechanism, nobs_is_total, p, nuisance_alpha)
        chosen = check_option(method, "method", _plug_in.NULLS)
        return _plug_in.run(
            "Test of one proportion",
            unknown,
            side,
            chosen,
            simulation,
            effect="proportion",
            estimate=unknown.count / np.maximum(unknown.nobs, 1.0),
            null=p,
        )
    known = check_option(method, "method", NULLS)
    n = x.setting(nobs, "nobs", whole=True, ge=1, le=LARGEST_NOBS)[()]
    test = OneCount.of_trials(n, p, x.marginal)
    t = x.column(n, p)
    q, slope = (0.0, 1.0) if channel is None else (channel.q, channel.slope)
    unit = Affine(q * n, slope * n, 0.0, 1.0)
    return _run("Test of one proportion", test, x, t, side, known, simulation, n, unit, null)


def _as_channel(mechanism: Any) -> RandomizedResponse | UnaryEncoding | None:
    """Return a channel, None for other mechanisms: a law of noise does not wait for its module."""
    if mechanism is None or isinstance(mechanism, NoiseLaw):
        return None
    from dpinfer.mechanisms.channels import RandomizedResponse, UnaryEncoding

    return mechanism if isinstance(mechanism, RandomizedResponse | UnaryEncoding) else None


def _of_two(count: Any, nobs: Any, mechanism: Any, **how: Any) -> HypothesisResult:
    """Compare the proportions of two counts."""
    from dpinfer.hypothesis_tests.two_samples import proportions_2indep

    is_channel = _as_channel(mechanism) is not None
    x = noisy(count, mechanism=Exact() if is_channel else mechanism, name="count")
    if len(x) != 2 or len(x.shape) != 1:
        raise InvalidParameterError(
            "value must be given, the proportion under the null hypothesis, unless count holds the "
            f"two counts of two samples, got count of shape {x.shape}"
        )
    counts = [_single(x, row) for row in (0, 1)]
    if hasattr(nobs, "__noisy__"):
        trials = [_single(nobs.__noisy__(), row) for row in (0, 1)]
    else:
        trials = list(x.setting(nobs, "nobs") * np.ones(2))
    if is_channel:
        counts, how["mechanism"] = list(x.values), mechanism
    return proportions_2indep(counts[0], trials[0], counts[1], trials[1], **how)


def _single(x: NoisyValues, row: int) -> Any:
    return replace(x._take(np.array([row])), shape=(), labels=None)


def _run(
    name: str,
    test: OneCount,
    x: NoisyValues,
    count: FloatArray,
    side: Alternative,
    method: Method,
    simulation: Simulation,
    trials: FloatArray | None,
    unit: Affine,
    null: FloatArray,
) -> HypothesisResult:
    simulation, again = simulation.twice(method)
    count = count[()]
    found = NULLS[method](test, count, side, simulation)
    held = OneEffect(
        count=count,
        nobs=trials,
        noise=test.law.noise,
        unit=unit,
        alternative=side,
        method=method,
        simulation=again,
    )
    effect = Effect(
        name="rate" if trials is None else "proportion",
        estimate=(count - unit.shift) / unit.scale,
        null=null,
        ends=held,
        most_shown=5 if method in ("monte-carlo", "unbiased") else 100,
    )
    return answer(
        name,
        test.statistic(count),
        found,
        side,
        method,
        effect=effect,
        nobs=None if trials is None else collapse(trials),
        pvalue_error=test.law.noise._floor if method == "exact" else 0.0,
        labels=x.labels,
    )


def poisson_ztest(
    count: Any,
    exposure: Any,
    value: Any,
    *,
    mechanism: Mechanism | None = None,
    alternative: Alternative = "two-sided",
    method: Literal["exact", "monte-carlo", "asymptotic"] = "exact",
    reps: int = 10_000,
    rng: RNG = None,
    n_jobs: int | None = 1,
    precision: float | None = None,
    progress: bool = False,
) -> HypothesisResult:
    """Test of a Poisson rate when the count of events was published with noise.

    Parameters
    ----------
    count : float, array of shape (m,), Series, Release or estimate
        The published counts: events plus noise, not clamped since.
    exposure : float, array of shape (m,) or Series
        The public exposure behind each count, > 0: person-years, area, time.
    value : float, array of shape (m,) or Series
        The rate under the null hypothesis, events per unit of exposure, > 0.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all counts, or one for each; left out where ``count`` carries
        it.
    alternative : {"two-sided", "larger", "smaller"}
        Whether the rate differs from ``value``, exceeds it, or falls short of it.
    method : {"exact", "monte-carlo", "asymptotic"}
        ``"exact"`` sums the Poisson probabilities against the tail of the noise, ``"monte-carlo"``
        simulates, ``"asymptotic"`` is the limit for many events, with the variance of the noise.
    reps, rng, n_jobs, precision, progress
        Of the simulation: number of replicates, seed, workers, relative standard error of the
        p-value at which to stop, progress bar. See
        :func:`~dpinfer.hypothesis_tests.null_distribution`.

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
    P(abs(T - μ) >= abs(count - μ)). The limit is N(0, 1 + v/μ) with v the variance of the noise; it
    errs where μ is small and in the tails where the noise dominates: with μ from 2.5 to 2,500 and
    Laplace or geometric noise of ε = 0.05 to 1 it rejects up to 2.7, 7.8 and 13.4 % at levels 1, 5
    and 10 %. The other methods keep every level.

    Examples
    --------
    >>> from dpinfer.mechanisms import Geometric
    >>> result = poisson_ztest(31, 12.5, 1.6, mechanism=Geometric.from_epsilon(0.5))
    >>> result.statistic.round(4), result.pvalue.round(6)
    (np.float64(2.4597), np.float64(0.047244))
    """
    side = check_option(alternative, "alternative", ALTERNATIVES)
    simulation = Simulation.checked(reps, rng, progress, n_jobs, precision)
    known: Method = check_option(method, "method", ("exact", "monte-carlo", "asymptotic"))
    x = noisy(count, mechanism=mechanism, name="count")
    x.need(unruled=True, whole=True, who="poisson_ztest")
    time = x.setting(exposure, "exposure", gt=0)
    rate = x.setting(value, "value", gt=0)
    with np.errstate(over="ignore", under="ignore"):
        expected = np.asarray(time * rate)
    if not ((expected >= SMALLEST_VALUE) & (expected <= LARGEST_RATE)).all():
        check_array(expected, "exposure * value", ge=SMALLEST_VALUE, le=LARGEST_RATE, finite=False)
    test = OneCount.of_events(expected, x.marginal)
    t, unit = x.column(expected), Affine(0.0, time, 0.0)
    return _run("Test of one rate", test, x, t, side, known, simulation, None, unit, rate)
