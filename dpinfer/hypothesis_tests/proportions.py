"""Tests of one proportion from noisy counts."""

from __future__ import annotations

from typing import Any

from dpinfer._validation import ALTERNATIVES, RNG, Alternative, check_option
from dpinfer.hypothesis_tests._one_proportion import NULLS, Method, OneProportion
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.simulation import Simulation


def proportions_ztest(
    count: Any,
    nobs: Any,
    value: Any,
    *,
    mechanism: Mechanism,
    alternative: Alternative = "two-sided",
    method: Method = "exact",
    reps: int = 10_000,
    rng: RNG = None,
    progress: bool = False,
) -> HypothesisResult:
    """Test of a proportion when the count of successes was published with noise.

    Parameters
    ----------
    count : float, array of shape (m,) or Series
        The published counts: the number of successes plus noise, not clamped or rounded since.
        They may be negative or exceed ``nobs``.
    nobs : int, array of shape (m,) or Series
        The public number of trials behind each count, >= 1.
    value : float, array of shape (m,) or Series
        The proportion under the null hypothesis, in (0, 1).
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all counts, or one for each.
    alternative : {"two-sided", "larger", "smaller"}
        Whether the proportion differs from ``value``, exceeds it, or falls short of it.
    method : {"exact", "monte-carlo", "normal"}
        Where the null distribution comes from: ``"exact"`` sums the binomial probabilities
        against the tail of the noise, ``"monte-carlo"`` simulates, ``"normal"`` is the limit for
        many trials, with the variance of the noise in it.
    reps : int, default 10_000
        Number of replicates for ``"monte-carlo"``.
    rng : None, int or numpy.random.Generator
        Source of the replicates; an int is a seed. A generator is asked for a seed once.
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
        If an argument is outside what is allowed, the shapes do not fit together, or a count is
        not a whole number although the noise takes whole numbers only.

    Notes
    -----
    The statistic is z = (count/n - p)/√(p(1-p)/n), that of the z test without noise: it is the
    null distribution that differs. With T = X + e, X ~ Binomial(n, p) and e the noise,
    P(T >= t) = Σ_k P(X = k)·P(e >= t - k). The two-sided p-value is P(abs(z*) >= abs(z)). For
    whole-numbered noise with a log-concave law the one-sided exact test is the most powerful one
    based on the published count (Awan and Slavković 2018). The normal null distribution is
    N(0, 1 + v/(n p (1-p))) with v the variance of the noise. It errs in the tails where the noise
    dominates, and where n·p·(1-p) is small.

    With b of R replicates at least as extreme as observed, the Monte Carlo p-value is
    (1 + b)/(R + 1). Replicates are drawn in blocks, each from its own child of the seed: how many
    of them fall on each count by one multinomial draw, then the noise.

    The test assumes that the count was published whatever its value. It does not hold for counts
    that were published because they passed a threshold.

    References
    ----------
    Awan, J. and Slavković, A. (2018). Differentially private uniformly most powerful tests for
    binomial data. Advances in Neural Information Processing Systems 31. arXiv:1805.09236.
    Ashmead, R., Leclerc, P. and Sexton, W. (2019). An Introduction to Differential Privacy, JSM
    tutorial, Example 4.3.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> noise = Laplace.from_epsilon(0.5)
    >>> statistic, pvalue = proportions_ztest(34.21, 100, 0.255, mechanism=noise)
    >>> statistic.round(4), pvalue.round(8)
    (np.float64(1.9983), np.float64(0.09224256))

    Without noise the p-value would be 0.0457. Rejecting where that falls below 0.05 has a true
    size of

    >>> result = proportions_ztest(34.21, 100, 0.255, mechanism=noise)
    >>> result.null_distribution.pvalue(1.959964).round(4)
    np.float64(0.0984)
    """
    alternative = check_option(alternative, "alternative", ALTERNATIVES)
    method = check_option(method, "method", NULLS)
    simulation = Simulation.checked(reps, rng, progress)
    test = OneProportion.checked(count, nobs, value, mechanism)
    pvalue, null = NULLS[method](test, alternative, simulation)
    return HypothesisResult(
        name="Test of one proportion",
        statistic=test.statistic,
        pvalue=pvalue,
        alternative=alternative,
        method=method,
        null_distribution=null,
        uncertainty="noise+sampling",
        nobs=test.law.nobs[()],
        mc_error=null.mc_error(test.statistic, alternative),
        labels=test.labels,
    )
