"""Rejection rates of the tests of contingency tables where the null hypothesis is true."""

from itertools import product

import numpy as np
import pytest

from dpinfer.hypothesis_tests.tables._fitted_tables import STATISTICS, TableDraws, TableModel
from dpinfer.hypothesis_tests.tables._margins import ProductMargins
from dpinfer.hypothesis_tests.tables._noise_form import NoiseForm
from dpinfer.hypothesis_tests.tables._noisy_table import SMALL_EXPECTED
from dpinfer.hypothesis_tests.tables._row_margins import RowMargins
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace

LEVELS = np.array([0.01, 0.05, 0.1])
REPS = 199
CELLS = 2_000_000

MARGINS = {
    "2 x 2 balanced": ([0.5, 0.5], [0.5, 0.5]),
    "2 x 2 skewed": ([0.9, 0.1], [0.8, 0.2]),
    "3 x 4 balanced": ([1 / 3] * 3, [0.25] * 4),
    "3 x 4 skewed": ([0.7, 0.2, 0.1], [0.5, 0.3, 0.15, 0.05]),
}
LAWS = {
    "laplace": lambda epsilon: Laplace(scale=1 / epsilon),
    "geometric": lambda epsilon: Geometric(scale=1 / epsilon),
    "gaussian": lambda epsilon: Gaussian(sigma=np.sqrt(2 * np.log(1.25e6)) / epsilon),
    "discrete gaussian": lambda epsilon: DiscreteGaussian(
        sigma=np.sqrt(2 * np.log(1.25e6)) / epsilon
    ),
}


def null_model(kind, rows, columns, nobs, noise):
    """The model, the numbers of observations and the probabilities to draw from."""
    shape = (len(rows), len(columns))
    variance = np.full(shape, float(noise.variance))
    if kind == "homogeneity":
        totals = np.round(nobs * np.array(rows))
        model = TableModel(shape, RowMargins(variance, totals), noise)
        return model, totals.astype(int), np.array(columns)
    known = 0.0 if kind == "public n" else np.inf
    model = TableModel(shape, ProductMargins(NoiseForm.published(variance, known)), noise)
    return model, np.array([nobs]), np.outer(rows, columns).ravel()


def redraw(model, expected, kind, nobs, times, rng):
    """Draw so many tables from the fit of each, shape (r, c, times, m)."""
    rows, columns, m = expected.shape
    if kind == "homogeneity":
        shares = (expected[0] / expected[0].sum(axis=0)).T[:, np.newaxis]
        totals = np.broadcast_to(model.margins.totals.astype(int), (m, rows))
        counts = rng.multinomial(totals, shares, (times, m, rows))
    else:
        sums = expected.sum(axis=(0, 1))
        shares = (expected / sums).reshape(-1, m).T
        total = np.full(m, nobs) if kind == "public n" else np.maximum(np.round(sums), 1)
        counts = rng.multinomial(total.astype(int), shares, (times, m))
    tables = counts.reshape(times * m, rows * columns).astype(float)
    tables += model.noise.rvs(tables.shape, rng=rng)
    return np.ascontiguousarray(tables.T).reshape(rows, columns, times * m)


def rejection_rates(kind, rows, columns, nobs, noise, runs, seed):
    """For each statistic, rejection rates of the test as it is, and with the rule ignored.

    What ``chi2_contingency`` does to one table with ``reps=199``, for many at a time.
    """
    rng = np.random.default_rng(seed)
    model, totals, shares = null_model(kind, rows, columns, nobs, noise)
    tables, published = TableDraws(model, totals, shares, "pearson").draw_tables(runs, rng)
    fit = model.fit(tables, published)
    observed = {name: of(model, tables, published) for name, of in STATISTICS.items()}
    extreme = {name: np.zeros(runs) for name in STATISTICS}
    times = max(1, CELLS // tables.size)
    for start in range(0, REPS, times):
        part = min(times, REPS - start)
        replicates = redraw(model, fit.expected, kind, nobs, part, rng)
        for name, statistic in STATISTICS.items():
            again = statistic(model, replicates, np.full(replicates.shape[-1], float(nobs)))
            extreme[name] += (again.reshape(part, runs) >= observed[name] * (1 - 1e-10)).sum(axis=0)
    decided = fit.expected.min(axis=(0, 1)) >= SMALL_EXPECTED
    pvalues = {name: (1 + count) / (REPS + 1) for name, count in extreme.items()}
    return {
        name: (
            np.mean((p <= LEVELS[:, np.newaxis]) & decided, axis=1),
            np.mean(p <= LEVELS[:, np.newaxis], axis=1),
        )
        for name, p in pvalues.items()
    }


def assert_at_most_nominal(rates, runs):
    """Within 6 standard errors of the level: 1e-9 for each comparison."""
    assert (rates <= LEVELS + 6 * np.sqrt(LEVELS * (1 - LEVELS) / runs)).all(), rates


KINDS = ["public n", "unknown n", "homogeneity"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("law", LAWS)
def test_level_of_small_tables(kind, law):
    rows, columns = MARGINS["2 x 2 skewed"]
    rates = rejection_rates(kind, rows, columns, 500, LAWS[law](0.5), 1000, seed=1)
    for with_rule, _ in rates.values():
        assert_at_most_nominal(with_rule, 1000)
    assert_at_most_nominal(rates["projected"][1], 1000)


def test_projected_is_not_needlessly_cautious():
    rows, columns = MARGINS["3 x 4 balanced"]
    rates = rejection_rates("public n", rows, columns, 2000, Laplace(scale=5.0), 2000, seed=2)
    with_rule, _ = rates["projected"]
    # 6 standard errors: 1e-9 each
    assert (with_rule >= LEVELS - 6 * np.sqrt(LEVELS * (1 - LEVELS) / 2000)).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("margins", MARGINS)
def test_level_everywhere(kind, law, margins):
    """4,000 tables in each of 12 x 12 settings; seeds differ in each."""
    for number, (nobs, epsilon) in enumerate(product((50, 500, 5000), (0.05, 0.2, 1.0))):
        noise = LAWS[law](epsilon)
        rates = rejection_rates(kind, *MARGINS[margins], nobs, noise, 4000, seed=10 + number)
        for with_rule, _ in rates.values():
            assert_at_most_nominal(with_rule, 4000)
        assert_at_most_nominal(rates["projected"][1], 4000)
