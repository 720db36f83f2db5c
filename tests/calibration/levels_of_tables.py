"""Rejection rates of the tests of tables where the null hypothesis is true.

Each function takes the options of a test, a setting, a number of releases and a generator.
"""

import warnings
from functools import partial

import numpy as np
import pytest
from level_settings import beyond, on_all_sides, on_each_side, shares

from dpinfer import (
    RandomizedResponse,
    chi2_contingency,
    chisquare,
    chisquare_fit,
    counts_trend,
    proportions_trend,
)
from dpinfer.errors import ConvergenceError, InvalidParameterError

# Tables.


def trend_over_cells(options, s, runs, rng):
    tables = s.noisy(rng.multinomial(s.nobs, s.cells, runs), rng)
    scores = np.arange(4.0)
    test = partial(counts_trend, nobs=s.nobs, mechanism=s.noise, shares=s.cells, rng=rng)
    first = test(tables[0], **options)
    variance = s.nobs * (s.cells @ scores**2 - (s.cells @ scores) ** 2)
    # scores are centred where the noise has the least variance, which differs in no cell here
    z = (tables - s.nobs * s.cells) @ (scores - scores.mean()) / np.sqrt(variance)
    assert z[0] == pytest.approx(first.statistic, abs=1e-9)
    return on_all_sides(first.null_distribution.pvalue, z)


def trend_over_groups(options, s, runs, rng):
    counts = s.noisy(rng.binomial(s.nobs, s.share, (runs, 4)), rng)
    test = partial(proportions_trend, nobs=[s.nobs] * 4, mechanism=s.noise, rng=rng, **options)
    return shares(*np.transpose([on_each_side(test, row, method="monte-carlo") for row in counts]))


def limit_of_trend_over_groups(s, runs, rng):
    counts = s.noisy(rng.binomial(s.nobs, s.share, (runs, 4)), rng)
    scores, total = np.arange(4.0) - 1.5, 4 * s.nobs
    share = np.clip(counts.sum(axis=1), 0.5, total - 0.5) / total
    variance = share * (1 - share) * s.nobs * (scores @ scores) + s.noise.variance * (
        scores @ scores
    )
    z = counts @ scores / np.sqrt(variance)
    first = proportions_trend(counts[0], [s.nobs] * 4, mechanism=s.noise, method="asymptotic")
    assert z[0] == pytest.approx(first.statistic, abs=1e-9)
    return shares(*(first.null_distribution.pvalue(z, a) for a in ("two-sided", "larger")))


def goodness_of_fit(options, s, runs, rng):
    tables = s.noisy(rng.multinomial(s.nobs, s.cells, runs), rng)
    return fit_rates(options, s, tables, s.nobs * s.cells, s.noise, rng)


def randomized_goodness_of_fit(options, s, runs, rng):
    channel = RandomizedResponse.from_epsilon(s.epsilon, categories=4)
    tables = rng.multinomial(s.nobs, s.cells @ channel.matrix, runs).astype(float)
    return fit_rates(options, s, tables, s.nobs * s.cells, channel, rng)


def fit_rates(options, s, tables, expected, mechanism, rng):
    """Rates of a test whose hypothesis is simple; None where it has no exact law."""
    try:
        first = quiet(chisquare, tables[0], expected, mechanism=mechanism, rng=rng, **options)
    except InvalidParameterError:
        assert options["method"] == "exact"
        return None
    law = first.null_distribution
    if isinstance(mechanism, RandomizedResponse):
        expected, mechanism = expected @ mechanism.matrix, None
    values = STATISTICS[options["statistic"]](tables - expected, expected, mechanism)
    assert values[0] == pytest.approx(first.statistic)
    return beyond(partial(law.pvalue, alternative="larger"), values)


def pearson(deviations, expected, noise):
    return np.sum(deviations**2 / expected, axis=1)


def projected(deviations, expected, noise):
    """min over c of (d - c·1)ᵀ Σ⁻¹ (d - c·1), by matrices."""
    n, p = expected.sum(), expected / expected.sum()
    if noise is None:
        return pearson(deviations, expected, noise)
    inverse = np.linalg.inv(n * (np.diag(p) - np.outer(p, p)) + noise.variance * np.eye(p.size))
    ones = inverse.sum(axis=0)
    form = inverse - np.outer(ones, ones) / ones.sum()
    return np.einsum("ri,ij,rj->r", deviations, form, deviations)


STATISTICS = {"pearson": pearson, "projected": projected}


def quiet(test, *args, **options):
    """Approximations say so; here that is known."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return test(*args, **options)


def hardy_weinberg(theta):
    f = theta[0]
    return [f * f, 2 * f * (1 - f), (1 - f) * (1 - f)]


def estimated_parameter(options, s, runs, rng):
    truth = hardy_weinberg([0.8 if s.skewed else 0.5])
    tables = s.noisy(rng.multinomial(s.nobs, truth, runs), rng)
    options = {"mechanism": s.noise, "nobs": s.nobs, "rng": rng, **options}
    return shares([settled(table, options) for table in tables])


def randomized_estimated_parameter(options, s, runs, rng):
    channel = RandomizedResponse.from_epsilon(s.epsilon, categories=3)
    truth = hardy_weinberg([0.8 if s.skewed else 0.5])
    tables = rng.multinomial(s.nobs, truth @ channel.matrix, runs)
    return shares(
        [settled(table, {"mechanism": channel, "rng": rng, **options}) for table in tables]
    )


def settled(table, options):
    """The p-value; 1 where the noise leaves nothing to estimate from, and the test says so."""
    try:
        return quiet(chisquare_fit, table, hardy_weinberg, 0.5, bounds=[(0, 1)], **options).pvalue
    except ConvergenceError:
        return 1.0


def independence(known, options, s, runs, rng):
    margins = ([0.7, 0.2, 0.1], [0.5, 0.3, 0.15, 0.05]) if s.skewed else ([1 / 3] * 3, [0.25] * 4)
    tables = s.noisy(rng.multinomial(s.nobs, np.outer(*margins).ravel(), runs), rng)
    options = {"mechanism": s.noise, "nobs": s.nobs if known else None, "rng": rng, **options}
    return shares([quiet(chi2_contingency, t.reshape(3, 4), **options).pvalue for t in tables])


def homogeneity(options, s, runs, rng):
    totals = [s.nobs // 5, s.nobs, 2 * s.nobs] if s.skewed else [s.nobs] * 3
    tables = s.noisy(np.stack([rng.multinomial(n, s.cells, runs) for n in totals], axis=1), rng)
    options = {"mechanism": s.noise, "row_totals": totals, "rng": rng, **options}
    return shares([quiet(chi2_contingency, table, **options).pvalue for table in tables])


def randomized_independence(together, options, s, runs, rng):
    """Answers to two questions that were randomized apart, or as one answer of 8 categories."""
    rows, columns = np.array([0.8, 0.2] if s.skewed else [0.5, 0.5]), s.cells
    if together:
        mechanism = RandomizedResponse.from_epsilon(s.epsilon, categories=8)
        reported = np.outer(rows, columns).ravel() @ mechanism.matrix
    else:
        mechanism = tuple(RandomizedResponse.from_epsilon(s.epsilon, categories=k) for k in (2, 4))
        reported = np.outer(rows @ mechanism[0].matrix, columns @ mechanism[1].matrix)
    tables = rng.multinomial(s.nobs, reported.ravel(), runs).reshape(runs, 2, 4)
    options = {"mechanism": mechanism, "rng": rng, **options}
    return shares([quiet(chi2_contingency, table, **options).pvalue for table in tables])
