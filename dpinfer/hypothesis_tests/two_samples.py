"""Test of the equality of two proportions from noisy counts."""

from __future__ import annotations

from typing import Any

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
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import LARGEST_NOBS, check_published, common_shape, unlabelled
from dpinfer.estimation.unknown_trials import UnknownTrials
from dpinfer.hypothesis_tests._plug_in import NULLS as NOISY_TRIALS_NULLS
from dpinfer.hypothesis_tests._plug_in import Method as NoisyTrialsMethod
from dpinfer.hypothesis_tests._plug_in import run
from dpinfer.hypothesis_tests._two_samples import NULLS, Method, Sample, TwoSamples
from dpinfer.hypothesis_tests.models import checked_total, law_pair
from dpinfer.hypothesis_tests.proportions import reports_noise
from dpinfer.mechanisms.channels import RandomizedResponse
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.mechanisms.law import refuse_dependent
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.labels import split_labels
from dpinfer.results.simulation import Simulation

Pair = Mechanism | RandomizedResponse | tuple[Mechanism, Mechanism]


def proportions_2indep(
    count1: Any,
    nobs1: Any,
    count2: Any,
    nobs2: Any,
    *,
    mechanism: Pair,
    nobs_mechanism: Pair | None = None,
    nobs_is_total: bool = False,
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
    count1, count2 : float, array of shape (m,) or Series
        The published counts of successes, not clamped or rounded since. They may be negative.
    nobs1, nobs2 : int, array of shape (m,) or Series
        The numbers of trials, >= 1; with ``nobs_mechanism`` any numbers up to 9e15 in size.
    mechanism : NoiseLaw, (NoiseLaw, NoiseLaw) or RandomizedResponse
        The law of the noise: one for both counts, or a pair. Each has scalar parameters or one
        for each of the m rows. With randomized response of two categories the counts are those of
        the reports "success", which have no more noise; both groups use the same channel.
    nobs_mechanism : NoiseLaw or (NoiseLaw, NoiseLaw), optional
        The law of the noise in the numbers of trials, where they were published with noise.
    nobs_is_total : bool, default False
        Whether ``count1`` and ``count2`` are summands of ``nobs1`` and ``nobs2``, their noise
        included. ``nobs_mechanism`` is then the noise of the other summands.
    alternative : {"two-sided", "larger", "smaller"}
        Whether the first proportion differs from the second, exceeds it, or falls short of it.
    method : {"exact", "plug-in", "monte-carlo", "normal"}, optional
        ``"exact"``, the default where the numbers of trials are known, holds whatever the common
        proportion: it takes the largest p-value over a confidence set. ``"plug-in"`` is the exact
        law at the estimated common proportion, ``"monte-carlo"``, the default where the numbers
        of trials are noisy, a simulation there, and ``"normal"`` the limit for many trials. Where
        the numbers of trials are noisy, the last two exist.
    nuisance_alpha : float, default 1e-4
        Probability in (0, 0.5) with which the confidence set may miss the common proportion.
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
    p-value is the maximum of that chance over it, plus β (Berger and Boos 1994). It never rejects a
    true null hypothesis with a probability above the level. The maximum is certified by branch and
    bound: in the angle asin(√p) the slope and the curvature of the probability are bounded through
    the Fisher information 4·(nobs1 + nobs2). What is reported is the upper bound, at most max(β/2,
    2e-5) above the maximum. Where the tables would exceed 8.4e6 entries (equal samples beyond some
    20,000 with geometric noise of scale 2, beyond 1,000 with Laplace noise of that scale), or one
    noise is whole and the other continuous, outcomes are ordered by abs(D): the level holds as
    well, with less power where p is small. By enumeration with 60 and 60 trials, p = 0.05 and 0.25,
    level 5 % and geometric noise of scale 1, the power is 0.80; ordered by abs(D) it is 0.56.

    ``"plug-in"`` and ``"monte-carlo"`` take the estimate as the true value and can exceed their
    level, though little: by enumeration with geometric noise of ε = 1, the plug-in test of samples
    of 20 and 24, or 50 and 60, rejects at most 1.1, 5.3 and 10.9 % at levels 1, 5 and 10 % (p from
    0.02 to 0.5). With 50 to 5,000 trials, p = 0.05 or 0.5 and four laws of noise at ε = 0.05, 0.2
    and 1 no excess showed in 1,000 simulations of each. Smaller samples and less noise were not
    measured. The normal limit lacks the tails of Laplace or geometric noise: there it rejects up to
    2.6, 6.2 and 11.3 %; through randomized response of ε = 1, with samples of 50 and 10, up to 1.5,
    6.2 and 10.7 %.

    With noisy numbers of trials the statistic compares products, count1·nobs2 - count2·nobs1,
    which need no ratio of noisy numbers. Where their noise is as large as the numbers, ``"normal"``
    is not to be used: with 50 trials and Gaussian noise of standard deviation 106 it rejects 15, 19
    and 23 % at levels 1, 5 and 10 %, and 19, 22 and 26 % where the counts are summands of them.
    ``"monte-carlo"`` rejects less than the level there.

    References
    ----------
    Berger, R. L. and Boos, D. D. (1994). P values maximized over a confidence set for the nuisance
    parameter. Journal of the American Statistical Association 89, 1012-1016.
    doi:10.1080/01621459.1994.10476836.
    Lloyd, C. J. (2008). Exact p-values for discrete models obtained by estimation and
    maximization. Australian & New Zealand Journal of Statistics 50, 329-345.
    doi:10.1111/j.1467-842X.2008.00520.x.

    Examples
    --------
    >>> from dpinfer.mechanisms import Geometric
    >>> noise = Geometric.from_epsilon(0.5)
    >>> result = proportions_2indep(61, 200, 42, 210, mechanism=noise)
    >>> result.statistic.round(4), result.pvalue.round(4)
    (np.float64(2.2336), np.float64(0.0272))
    >>> proportions_2indep(61, 200, 42, 210, mechanism=noise, method="plug-in").pvalue.round(6)
    np.float64(0.02623)
    """
    alternative = check_option(alternative, "alternative", ALTERNATIVES)
    fallback: Method = "exact" if nobs_mechanism is None else "monte-carlo"
    method = check_option(fallback if method is None else method, "method", NULLS)
    if nobs_mechanism is not None and method in ("exact", "plug-in"):
        raise InvalidParameterError(
            "method must be 'monte-carlo' or 'normal' where nobs_mechanism is given, got "
            f"{method!r}: the exact law is known for known numbers of trials only"
        )
    is_total = checked_total(nobs_is_total, nobs_mechanism)
    simulation = Simulation.checked(reps, rng, progress, n_jobs, precision)
    test = _checked(
        (count1, nobs1),
        (count2, nobs2),
        mechanism,
        nobs_mechanism,
        is_total,
        check_scalar(nuisance_alpha, "nuisance_alpha", gt=0, lt=0.5),
    )
    pvalue, null = NULLS[method](test, alternative, simulation)
    statistic = test.statistic.reshape(test.shape)
    total = (test.samples[0].nobs + test.samples[1].nobs).reshape(test.shape)
    notes = {
        "exact": f"p-values hold whatever the common proportion; they include {nuisance_alpha:g} "
        "for that",
        "plug-in": "p-values take the estimated common proportion as the true one",
        "monte-carlo": "p-values take the estimated common proportion as the true one",
    }
    return HypothesisResult(
        name="Test of two proportions",
        statistic=statistic,
        pvalue=pvalue,
        alternative=alternative,
        method=method,
        null_distribution=null,
        uncertainty="noise+sampling",
        nobs=total,
        mc_error=null.mc_error(statistic, alternative),
        labels=test.labels,
        notes=(notes[method],) if method in notes else (),
    )


def _checked(
    first: tuple[Any, Any],
    second: tuple[Any, Any],
    mechanism: Pair,
    nobs_mechanism: Pair | None,
    is_total: bool,
    nuisance_alpha: float,
) -> TwoSamples:
    """Check the arguments, each by itself and against the others."""
    if isinstance(mechanism, RandomizedResponse):
        for name, count, nobs in (("1", *first), ("2", *second)):
            reports_noise(mechanism, count, nobs, f"count{name}", f"nobs{name}")
        mechanism = reports_noise(mechanism, *first, "count1", "nobs1")
    columns: dict[str, FloatArray] = {}
    labels = None
    for name, value in zip(("count1", "nobs1", "count2", "nobs2"), (*first, *second), strict=True):
        if name == "count1":
            columns[name], labels = split_labels(value, name)
        else:
            columns[name] = unlabelled(value, name, labels, "count1")
    shape = common_shape(**columns)
    size = shape[0] if shape else 1
    noises = law_pair(mechanism, size, "mechanism")
    others = (
        (None, None) if nobs_mechanism is None else law_pair(nobs_mechanism, size, "nobs_mechanism")
    )
    refuse_dependent([law for law in (*noises, *others) if law is not None], "mechanism")
    shapes = [law.shape for law in (*noises, *others) if law is not None]
    shape = np.broadcast_shapes(shape, *shapes)
    rows = {name: np.broadcast_to(column, shape or (1,)) for name, column in columns.items()}
    samples = []
    for number, noise, other in zip("12", noises, others, strict=True):
        count, nobs = rows[f"count{number}"], rows[f"nobs{number}"]
        check_published(count, f"count{number}", noise)
        check_array(nobs, f"nobs{number}", ge=-LARGEST_NOBS, le=LARGEST_NOBS)
        if other is None:
            check_integer_array(nobs, f"nobs{number}", ge=1)
        elif not is_total or noise.is_integer:
            check_published(nobs, f"nobs{number}", other)
        samples.append(
            Sample(count=count, nobs=nobs, noise=noise, nobs_noise=other, is_total=is_total)
        )
    return TwoSamples(
        samples=(samples[0], samples[1]), nuisance_alpha=nuisance_alpha, shape=shape, labels=labels
    )


# McNemar's test of paired proportions from noisy counts.


def mcnemar(
    table: Any,
    *,
    mechanism: Mechanism | tuple[Mechanism, Mechanism],
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
    table : array of shape (2, 2) or (2,), or DataFrame
        The published counts of pairs by first and second answer, or only those of the two kinds
        of pairs whose answers differ: ``table[0, 1]`` and ``table[1, 0]``.
    mechanism : NoiseLaw or (NoiseLaw, NoiseLaw)
        The law of the noise: one for both of these counts, or a pair.
    alternative : {"two-sided", "larger", "smaller"}
        Whether pairs of the first kind are as probable as those of the second, more, or less.
    method : {"exact", "plug-in", "monte-carlo", "normal"}
        ``"exact"`` holds whatever the true number of pairs that differ: it takes the largest
        chance over a confidence set for it. ``"plug-in"`` is the exact law at the published
        number, ``"monte-carlo"`` a simulation there, ``"normal"`` the limit for many pairs.
    nuisance_alpha : float, default 1e-4
        Probability in (0, 0.5) with which the confidence set may miss that number.
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
        The statistic and the p-value. They account for sampling and noise.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or ``"exact"`` would take many seconds, as for
        noise with a scale beyond some 1e6.

    Notes ----- With b and c the two counts, the statistic is z = (b - c)/√(b + c), with b + c at
    least 1; its square is McNemar's. Given the true number m of pairs that differ, (b - c)/2 is
    Binomial(m, ½) - m/2 plus the noise of (b - c)/2, which is known exactly. The true m is a
    nuisance parameter, treated as in :func:`poisson_2indep`: the exact p-value is the largest
    chance of a plug-in p-value as small as the observed one, over a confidence set for m around b +
    c, plus ``nuisance_alpha`` (Berger and Boos 1994, Lloyd 2008). Without noise it is the exact
    test of McNemar (1947). ``"plug-in"`` and ``"monte-carlo"`` take b + c as the true number, which
    has no guarantee; by enumeration with geometric noise of ε = 1 and 2 to 50 such pairs the
    plug-in test rejects no more than 1.1, 4.7 and 9.3 % at levels 1, 5 and 10 %. ``"normal"``
    rejects up to 2.2, 6.1 and 12.1 % with 5 to 2,500 such pairs and Laplace or geometric noise of ε
    = 0.05, 0.2 or 1.

    References
    ----------
    McNemar, Q. (1947). Note on the sampling error of the difference between correlated proportions
    or percentages. Psychometrika 12, 153-157. doi:10.1007/BF02295996.
    Berger, R. L. and Boos, D. D. (1994). P values maximized over a confidence set for the nuisance
    parameter. Journal of the American Statistical Association 89, 1012-1016.
    doi:10.1080/01621459.1994.10476836.
    Lloyd, C. J. (2008). Exact p-values for discrete models obtained by estimation and
    maximization. Australian & New Zealand Journal of Statistics 50, 329-345.
    doi:10.1111/j.1467-842X.2008.00520.x.

    Examples
    --------
    >>> from dpinfer.mechanisms import Geometric
    >>> table = [[101, 121], [59, 33]]
    >>> result = mcnemar(table, mechanism=Geometric.from_epsilon(0.5))
    >>> result.statistic.round(4), result.pvalue.round(5)
    (np.float64(4.6212), np.float64(0.00011))
    """
    alternative = check_option(alternative, "alternative", ALTERNATIVES)
    method = check_option(method, "method", NOISY_TRIALS_NULLS)
    simulation = Simulation.checked(reps, rng, progress, n_jobs, precision)
    counts, _ = split_labels(table, "table")
    if counts.shape not in ((2, 2), (4,), (2,)):
        raise InvalidParameterError(
            f"table must have the shape (2, 2), or (2,) for the pairs that differ, got "
            f"{counts.shape}"
        )
    first, second = counts if counts.size == 2 else counts.ravel()[1:3]
    noises = law_pair(mechanism, 1, "mechanism")
    for count, noise in zip((first, second), noises, strict=True):
        check_published(check_array(count, "table", ndim=0), "table", noise)
    test = UnknownTrials.checked(
        count=first,
        nobs=first + second,
        value=0.5,
        mechanism=noises[0],
        nobs_mechanism=noises[1],
        is_total=True,
        nuisance_alpha=nuisance_alpha,
        names=("table", "the number of pairs that differ"),
    )
    return run("McNemar's test", test, alternative, method, simulation)
