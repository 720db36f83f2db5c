"""Rejection rates of the tests of one or two counts where the null hypothesis is true.

Each function takes the options of a test, a setting, a number of releases and a generator.
"""

from functools import partial

import numpy as np
import pytest
from level_settings import (
    ALTERNATIVES,
    LAWS,
    LEVELS,
    beyond,
    on_all_sides,
    on_each_side,
    pvalue_of,
    shares,
)
from scipy import stats

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
)

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
    if fixed["method"] == "monte-carlo":
        return shares(*on_each_side(test, counts, **fixed))
    return on_all_sides(partial(pvalue_of, test, **fixed), counts - centre, counts)


def one_randomized_proportion(options, s, runs, rng):
    channel = RandomizedResponse.from_epsilon(s.epsilon)
    share = channel.p * s.share + (1 - channel.p) * (1 - s.share)
    reports = rng.binomial(s.nobs, share, runs)
    fixed = {"nobs": s.nobs, "value": s.share, "mechanism": channel, "rng": rng, **options}
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
    columns = []
    for _ in range(2):
        columns.append(s.noisy(rng.binomial(s.nobs, s.share, runs), rng))
        columns.append(s.noisy(np.full(runs, s.nobs), rng))
    return columns, partial(proportions_2indep, mechanism=s.noise, nobs_mechanism=s.noise)


def two_proportions_of_totals(s, runs, rng):
    columns = []
    for _ in range(2):
        successes = rng.binomial(s.nobs, s.share, runs)
        columns.append(s.noisy(successes, rng))
        columns.append(columns[-1] + s.noisy(s.nobs - successes, rng))
    options = {"mechanism": s.noise, "nobs_mechanism": s.noise, "nobs_is_total": True}
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
    return shares(*on_each_side(test, *columns, rng=rng, **options))


def guaranteed(draw, s, runs, rng):
    """Rates of the version that is the default: the largest p-value over a confidence set.

    The set holds the estimate, but for releases less probable than the set is to miss the truth.
    So only what is rejected at the estimate is tested, each release once, as it takes long.
    """
    columns, test = draw(s, runs, rng)
    found = []
    for alternative in tested(s):
        at_estimate = test(*columns, alternative=alternative, method="plug-in").pvalue
        rows = np.flatnonzero(at_estimate <= LEVELS[-1])
        pvalue = np.ones(runs)
        if rows.size:
            some, places = np.unique(np.stack(columns)[:, rows], axis=1, return_inverse=True)
            parts = np.array_split(some, -(-some.shape[1] // 10), axis=1)  # a call takes no more
            each = [test(*part, alternative=alternative).pvalue for part in parts]
            pvalue[rows] = np.concatenate(each)[places]
        found.append(pvalue)
    return shares(*found)


def tested(s):
    """One-sided towards larger counts only, the longer tail, and not where both are alike."""
    return ("two-sided", "larger") if s.skewed else ("two-sided",)


# Guaranteed versions without simulation: all pairs of whole-numbered counts are listed.


def listed_proportions(s):
    """A test, and the laws of both counts at 49 common proportions, without noise."""
    sizes = (s.nobs, s.nobs // 5) if s.skewed else (s.nobs, s.nobs)
    values = np.linspace(0.02, 0.98, 49)
    laws = [[stats.binom.pmf(np.arange(n + 1), n, value) for value in values] for n in sizes]
    return partial(_proportions, sizes, {"mechanism": s.noise}), laws


def listed_rates(s):
    """A test, and the laws of both counts at 25 expected totals, without noise."""
    share, totals = 0.1 if s.skewed else 0.5, s.nobs * np.linspace(0.04, 1.0, 25)
    counts = np.arange(2 * s.nobs + 1)
    laws = [
        [stats.poisson.pmf(counts, part * total) for total in totals] for part in (share, 1 - share)
    ]
    return partial(_rates, share, {"mechanism": s.noise}), laws


def exact_sizes(listed, s):
    """Rejection probabilities of a guaranteed test, shape (a, 3, g), at g nuisance parameters.

    Pairs that have a probability below 1e-9 whatever that is are taken to be rejected.
    """
    test, laws = listed(s)
    reach = int(s.noise.isf(1e-10))
    noise = s.noise.pmf(np.arange(-reach, reach + 1.0))
    laws = [[np.convolve(law, noise) for law in several] for several in laws]
    chances = np.array([np.outer(*pair) for pair in zip(*laws, strict=True)])
    places = np.nonzero(chances.max(axis=0) > 1e-9)
    chances = chances[:, *places]
    found = []
    for alternative in tested(s):
        pvalue = test(*(place - float(reach) for place in places), alternative=alternative).pvalue
        rejected = pvalue <= LEVELS[:, np.newaxis]
        found.append(rejected @ chances.T + 1.0 - chances.sum(axis=1))
    return np.array(found)


# Noise only: the number of observations has no part in it.


def two_counts(options, s, runs, rng):
    laws = (s.noise, LAWS[s.law](s.epsilon / (3 if s.skewed else 1)))
    counts = [s.nobs + law.rvs(runs, rng=rng) for law in laws]
    return shares(*on_each_side(counts_2indep, *counts, mechanism=laws, rng=rng, **options))


def linear(options, s, runs, rng):
    weights = np.array([1.0, 1.0, -0.25] if s.skewed else [1.0, 1.0, 1.0])
    values = s.nobs + s.noise.rvs((runs, 3), rng=rng)
    value = s.nobs * weights.sum()
    first = linear_ztest(values[0], weights, value, mechanism=s.noise, rng=rng, **options)
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
    tests = [linear_ztest(release, None, s.nobs, alternative=a) for a in ALTERNATIVES]
    return shares(*(test.pvalue for test in tests))


def proportions_of_rows(s, runs, rng):
    release = Release(s.noisy(rng.binomial(s.nobs, s.share, runs), rng), mechanism=s.noise)
    test = partial(proportions_ztest, release, s.nobs, s.share)
    return shares(*(test(alternative=a).pvalue for a in ALTERNATIVES))
