"""Rejection rates of the tests of one or two counts where the null hypothesis is true.

Each function takes the options of a test, a setting, a number of releases and a generator.
"""

from functools import partial

import numpy as np
import pytest
from level_settings import LAWS, LEVELS, beyond, on_all_sides, pvalue_of, shares

from dpinfer import (
    RandomizedResponse,
    Release,
    counts_2indep,
    counts_paired,
    linear_ztest,
    mcnemar,
    poisson_2indep,
    poisson_ztest,
    proportions_2indep,
    proportions_ztest,
    rows_ztest,
)
from dpinfer._validation import ALTERNATIVES

# One count.


def one_proportion(options, s, runs, rng):
    counts = s.noisy(rng.binomial(s.nobs, s.share, runs), rng)
    fixed = {"nobs": s.nobs, "value": s.share, "mechanism": s.noise, "rng": rng, **options}
    return one_count(proportions_ztest, counts, s.nobs * s.share, fixed)


def one_rate(options, s, runs, rng):
    counts = s.noisy(rng.poisson(s.nobs * s.share, runs), rng)
    fixed = {"exposure": s.nobs, "value": s.share, "mechanism": s.noise, "rng": rng, **options}
    return one_count(poisson_ztest, counts, s.nobs * s.share, fixed)


def one_count(test, counts, centre, fixed):
    if fixed["method"] == "monte-carlo":  # one simulation for all
        return shares(*(test(counts, alternative=a, **fixed).pvalue for a in ALTERNATIVES))
    return on_all_sides(partial(pvalue_of, test, **fixed), counts - centre, counts)


def one_randomized_proportion(options, s, runs, rng):
    channel = RandomizedResponse.from_epsilon(s.epsilon)
    share = channel.p * s.share + (1 - channel.p) * (1 - s.share)
    reports = rng.binomial(s.nobs, share, runs)
    fixed = {"nobs": s.nobs, "value": s.share, "mechanism": channel, **options}
    return one_count(proportions_ztest, reports, s.nobs * share, fixed)


# An unknown number of trials.


def trials_with_noise(s, runs, rng):
    counts = s.noisy(rng.binomial(s.nobs, s.share, runs), rng)
    nobs = s.noisy(np.full(runs, s.nobs), rng)
    options = {"mechanism": s.noise, "nobs_mechanism": s.noise}
    return (counts, nobs), partial(_proportion, s.share, options)


def trials_as_total(s, runs, rng):
    successes = rng.binomial(s.nobs, s.share, runs)
    counts = s.noisy(successes, rng)
    total = counts + s.noisy(s.nobs - successes, rng)
    options = {"mechanism": s.noise, "nobs_mechanism": s.noise, "nobs_is_total": True}
    return (counts, total), partial(_proportion, s.share, options)


def two_rates(s, runs, rng):
    share = 0.1 if s.skewed else 0.5  # of the exposure
    counts = [s.noisy(rng.poisson(s.nobs * part, runs), rng) for part in (share, 1 - share)]
    return counts, partial(_rates, share, {"mechanism": s.noise})


def paired_answers(s, runs, rng):
    differing = rng.binomial(s.nobs, 0.1 if s.skewed else 0.5)
    first = rng.binomial(differing, 0.5, runs)
    counts = (s.noisy(first, rng), s.noisy(differing - first, rng))
    rows = [0] if s.epsilon < 1 else range(5)  # it takes one table only
    tables = np.transpose(counts)
    for row in rows:
        alone = mcnemar(tables[row], mechanism=s.noise, method="plug-in").pvalue
        both = _rates(0.5, {"mechanism": s.noise}, *tables[row], method="plug-in").pvalue
        assert alone == both
    return counts, partial(_rates, 0.5, {"mechanism": s.noise})


def two_proportions(s, runs, rng):
    sizes = (s.nobs, s.nobs // 5) if s.skewed else (s.nobs, s.nobs)
    counts = [s.noisy(rng.binomial(n, s.share, runs), rng) for n in sizes]
    return counts, partial(_proportions, sizes, {"mechanism": s.noise})


def two_randomized_proportions(s, runs, rng):
    channel = RandomizedResponse.from_epsilon(s.epsilon)
    sizes = (s.nobs, s.nobs // 5) if s.skewed else (s.nobs, s.nobs)
    share = channel.p * s.share + (1 - channel.p) * (1 - s.share)
    counts = [rng.binomial(n, share, runs) for n in sizes]
    return counts, partial(_proportions, sizes, {"mechanism": channel})


def two_proportions_unknown_trials(s, runs, rng):
    counts, nobs = [], []
    for _ in range(2):
        counts.append(s.noisy(rng.binomial(s.nobs, s.share, runs), rng))
        nobs.append(s.noisy(np.full(runs, s.nobs), rng))
    options = {"mechanism": s.noise, "nobs_mechanism": s.noise}
    columns = (counts[0], nobs[0], counts[1], nobs[1])
    return columns, partial(proportions_2indep, **options)


def _proportion(value, options, counts, nobs, **others):
    return proportions_ztest(counts, nobs, value, **options, **others)


def _rates(share, options, first, second, **others):
    return poisson_2indep(first, share, second, 1 - share, **options, **others)


def _proportions(sizes, options, first, second, **others):
    return proportions_2indep(first, sizes[0], second, sizes[1], **options, **others)


def at_an_estimate(draw, options, s, runs, rng):
    """Rates of the versions that take an estimate for the nuisance parameter."""
    columns, test = draw(s, runs, rng)
    return shares(*(test(*columns, alternative=a, rng=rng, **options).pvalue for a in ALTERNATIVES))


def guaranteed(draw, s, runs, rng):
    """Rates of the version that is the default: the largest p-value over a confidence set.

    The set holds the estimate, so that no release is rejected which is not at the estimate, and
    only the others are tested, as it takes long. Towards larger counts only, the longer tail.
    """
    columns, test = draw(s, runs, rng)
    found = []
    for alternative in ("two-sided", "larger"):
        at_estimate = test(*columns, alternative=alternative, method="plug-in").pvalue
        rows = np.flatnonzero(at_estimate <= LEVELS[-1])
        pvalue = np.ones(runs)
        if rows.size:
            some = [column[rows] for column in columns]
            pvalue[rows] = test(*some, alternative=alternative).pvalue
            assert (pvalue[rows] >= at_estimate[rows] * (1 - 1e-9)).all()
        found.append(pvalue)
    return shares(*found)


# Noise only: the number of observations has no part in it.


def two_counts(options, s, runs, rng):
    laws = (s.noise, LAWS[s.law](s.epsilon / (3 if s.skewed else 1)))
    counts = [s.nobs + law.rvs(runs, rng=rng) for law in laws]
    test = partial(counts_2indep, *counts, mechanism=laws, rng=rng, **options)
    return shares(*(test(alternative=a).pvalue for a in ALTERNATIVES))


def linear(options, s, runs, rng):
    weights = np.array([1.0, 1.0, -0.25] if s.skewed else [1.0, 1.0, 1.0])
    values = s.nobs + s.noise.rvs((runs, 3), rng=rng)
    value = s.nobs * weights.sum()
    first = linear_ztest(values[0], weights, value, mechanism=s.noise, **options)
    z = (values @ weights - value) / (float(s.noise.std) * np.sqrt(weights @ weights))
    assert z[0] == pytest.approx(first.statistic, abs=1e-12)
    return on_all_sides(first.null_distribution.pvalue, z)


def paired_tables(options, s, runs, rng):
    spread = np.array([1.0, 1.0, 0.2] if s.skewed else [1.0, 1.0, 1.0])
    law = LAWS[s.law](s.epsilon / spread)
    noise = [law.rvs((runs, 3), rng=rng) for _ in range(2)]
    z = (noise[0] - noise[1]) / np.sqrt(2 * law.variance)
    first = counts_paired(
        s.nobs + noise[0][0], s.nobs + noise[1][0], mechanism=law, rng=rng, **options
    )
    statistics = (
        np.abs(z).max(axis=1) if options["statistic"] == "max" else np.square(z).sum(axis=1)
    )
    assert statistics[0] == pytest.approx(first.statistic)
    return beyond(partial(first.null_distribution.pvalue, alternative="larger"), statistics)


def rows_of_a_release(threshold, s, runs, rng):
    published = s.nobs + s.noise.rvs((10 if threshold else 1) * runs, rng=rng)
    lowest = s.nobs + round(float(s.noise.std)) * (-1 if s.skewed else 1)
    if threshold:
        published = published[published >= lowest][:runs]
        assert published.size == runs
    release = Release(published, mechanism=s.noise, threshold=lowest if threshold else None)
    tests = [rows_ztest(release, s.nobs, alternative=a).tests for a in ALTERNATIVES]
    return shares(*(test.pvalue for test in tests))
