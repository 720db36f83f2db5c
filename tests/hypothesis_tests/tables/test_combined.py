"""Chi-squared tests of combined tables, whose errors depend on one another."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import null_space

from dpinfer import Release, Workload, combine, noisy
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests import chi2_contingency, chisquare, chisquare_fit
from dpinfer.mechanisms import Gaussian, Geometric, IndependentNoise, Laplace

pytestmark = pytest.mark.filterwarnings("ignore::dpinfer.errors.ApproximationWarning")

SHAPE, NOBS = (2, 3), 300
SHARES = np.outer([0.4, 0.6], [0.3, 0.3, 0.4]).ravel()
QUERIES = np.vstack(
    [np.eye(6), np.kron(np.eye(2), np.ones(3)), np.kron(np.ones(2), np.eye(3)), np.ones(6)]
)
SCALES = np.array([6.0] * 6 + [1.0] * 5 + [0.5])
PRECISION = QUERIES.T / SCALES**2
WEIGHTS = np.linalg.solve(PRECISION @ QUERIES, PRECISION)
"""Of the least squares estimate of the cells from cells, margins and total published with noise."""

LAWS = {
    "gaussian": IndependentNoise([Gaussian(sigma=s) for s in SCALES]),
    "laplace": IndependentNoise([Laplace(scale=s / np.sqrt(2)) for s in SCALES]),
}
COVARIANCE = (WEIGHTS * SCALES**2) @ WEIGHTS.T
LABELS = pd.MultiIndex.from_product([["f", "m"], list("abc")])
LEVELS = np.array([0.01, 0.05, 0.1])


def combined(law, rng, shares=SHARES, totals=None):
    """Estimates of the cells of a random table."""
    if totals is None:
        counts = rng.multinomial(NOBS, shares)
    else:
        counts = np.concatenate([rng.multinomial(n, [0.3, 0.3, 0.4]) for n in totals])
    values = counts + WEIGHTS @ LAWS[law].rvs(12, rng=rng)
    return noisy(values, mechanism=LAWS[law], weights=WEIGHTS, labels=LABELS)


ONE = combined("gaussian", np.random.default_rng(7))


def told(sums, known_variance):
    """Gain and covariance after known sums, with NumPy alone."""
    between = sums @ COVARIANCE @ sums.T + known_variance * np.eye(len(sums))
    gain = COVARIANCE @ sums.T @ np.linalg.inv(between)
    return gain, COVARIANCE - gain @ sums @ COVARIANCE


def contrasts_form(deviations, tangents, covariance):
    basis = null_space(tangents.T).T
    left = basis @ deviations
    return left @ np.linalg.solve(basis @ covariance @ basis.T, left)


def test_goodness_of_fit_takes_the_covariance_of_sampling_and_noise():
    expected = NOBS * SHARES
    covariance = np.diag(expected) - np.outer(expected, expected) / NOBS + COVARIANCE
    result = chisquare(ONE, expected, statistic="projected", method="asymptotic")
    form = contrasts_form(ONE.values - expected, np.ones((6, 1)), covariance)
    assert result.statistic == pytest.approx(form, rel=1e-9)
    pearson = chisquare(ONE, pd.Series(expected, LABELS), method="asymptotic")
    assert pearson.statistic == pytest.approx(((ONE.values - expected) ** 2 / expected).sum())
    rng = np.random.default_rng(1)
    draws = np.square(rng.multivariate_normal(np.zeros(6), covariance, 200_000)) @ (1 / expected)
    share = np.mean(draws >= pearson.statistic)
    # 6 standard errors: 2e-9
    assert abs(pearson.pvalue - share) < 6 * np.sqrt(share * (1 - share) / 200_000)


def product_tangents(expected):
    table = expected.reshape(SHAPE)
    rows = np.kron(np.eye(2), table.sum(axis=0)[:, None])
    return np.hstack([rows, np.kron(table.sum(axis=1)[:, None], np.eye(3))])


@pytest.mark.parametrize("spread", [np.inf, 2.0, 0.0], ids=["unknown n", "noisy n", "public n"])
def test_independence_is_the_form_in_what_the_margins_leave(spread):
    options, adjusted, covariance = {}, ONE.values, COVARIANCE
    if np.isfinite(spread):
        options = {"nobs": NOBS, "nobs_mechanism": Gaussian(sigma=spread) if spread else None}
        gain, covariance = told(np.ones((1, 6)), spread**2)
        adjusted = adjusted - gain @ [adjusted.sum() - NOBS]
    result = chi2_contingency(ONE, method="asymptotic", **options)
    assert list(result.expected_freq.index) == ["f", "m"]
    assert list(result.estimated_freq.columns) == list("abc")
    expected = result.expected_freq.to_numpy().ravel()
    form = contrasts_form(
        adjusted - expected, product_tangents(expected), np.diag(expected) + covariance
    )
    assert result.statistic == pytest.approx(form, rel=1e-8)
    assert result.dof == 2


def test_homogeneity_is_the_form_in_what_the_shares_leave():
    totals, sums = np.array([120, 180]), np.kron(np.eye(2), np.ones(3))
    result = chi2_contingency(ONE, row_totals=totals, method="asymptotic")
    gain, covariance = told(sums, 0.0)
    adjusted = ONE.values - gain @ (sums @ ONE.values - totals)
    near = np.outer(totals, adjusted.reshape(SHAPE).sum(axis=0) / NOBS).ravel()
    tangents = np.kron(totals[:, None], np.eye(3))
    form = contrasts_form(adjusted - near, tangents, np.diag(near) + covariance)
    assert result.statistic == pytest.approx(form, rel=1e-8)


def test_exact_needs_independent_errors():
    with pytest.raises(InvalidParameterError, match="method 'exact' needs independent errors"):
        chisquare(ONE, nobs=NOBS, method="exact")
    result = chisquare(ONE, nobs=NOBS, reps=200, rng=1)
    assert result.method == "monte-carlo"
    assert "dependent" in result.notes[1]


def test_errors_that_are_independent_after_all_are_taken_as_such():
    law = Gaussian(sigma=4.0)
    plain = chi2_contingency(np.reshape(ONE.values, SHAPE), mechanism=law, reps=300, rng=1)
    apart = noisy(ONE.values, mechanism=law, weights=np.eye(6)[::-1], labels=LABELS)
    assert tuple(chi2_contingency(apart, reps=300, rng=1)) == tuple(plain)


def genotypes(theta):
    frequency = theta[0]
    return [frequency**2, 2 * frequency * (1 - frequency), (1 - frequency) ** 2]


def test_model_with_parameters():
    law, weights = Gaussian(sigma=5.0), np.array([[1.0, 0, 0.5], [0, 1.0, 0.5], [0.5, 0.5, 1.0]])
    x = noisy([121.3, 248.9, 91.0], mechanism=law, weights=weights, labels=["AA", "Aa", "aa"])
    options = {"bounds": [(0, 1)], "nobs": 460}
    limit = chisquare_fit(x, genotypes, 0.5, method="asymptotic", **options)
    assert list(limit.expected_freq.index) == ["AA", "Aa", "aa"]
    frequency = limit.params[0]
    noise = 25.0 * weights @ weights.T
    gain = noise.sum(axis=1) / noise.sum()
    adjusted = x.values - gain * (x.values.sum() - 460)
    left = noise - np.outer(gain, noise.sum(axis=0))
    expected = limit.expected_freq.to_numpy()
    change = expected.sum() * np.array([2 * frequency, 2 - 4 * frequency, 2 * frequency - 2])
    form = contrasts_form(
        adjusted - expected, np.column_stack([expected, change]), np.diag(expected) + left
    )
    assert limit.statistic == pytest.approx(form, rel=1e-5)  # numerical derivatives
    drawn = chisquare_fit(x, genotypes, 0.5, reps=2000, rng=2, **options)
    # 6 standard errors, and the distance from the limit
    assert abs(drawn.pvalue - limit.pvalue) < 6 * drawn.mc_error + 0.01


def rates(law, test, runs, seed, totals=None):
    rng = np.random.default_rng(seed)
    pvalues = np.array([test(combined(law, rng, totals=totals)).pvalue for _ in range(runs)])
    return np.mean(pvalues <= LEVELS[:, np.newaxis], axis=1)


TESTS = {
    "goodness of fit": lambda x, **options: chisquare(x, NOBS * SHARES, **options),
    "unknown n": lambda x, **options: chi2_contingency(x, small_expected="compute", **options),
    "public n": lambda x, **options: chi2_contingency(
        x, nobs=NOBS, small_expected="compute", **options
    ),
    "homogeneity": lambda x, **options: chi2_contingency(
        x, row_totals=[120, 180], small_expected="compute", **options
    ),
}
SETTINGS = [(name, statistic) for name in TESTS for statistic in ("pearson", "projected")]


def simulated():
    """Each test and statistic with one of the laws in turn, and in a study with both."""
    places = {name: place for place, name in enumerate(TESTS)}
    found = []
    for (name, statistic), (turn, law) in product(SETTINGS, enumerate(LAWS)):
        found.append(pytest.param(name, statistic, law, 3000, marks=pytest.mark.study))
        if (places[name] + (statistic == "projected") + turn) % 2:
            found.append(pytest.param(name, statistic, law, 120, marks=pytest.mark.slow))
    return found


@pytest.mark.parametrize(
    ("name", "statistic"),
    [pytest.param(*s, marks=[pytest.mark.slow] * (s[1] == "pearson")) for s in SETTINGS],
)
def test_level_of_the_limit_under_gaussian_noise(name, statistic):
    def test(x):
        return TESTS[name](x, statistic=statistic, method="asymptotic")

    totals = [120, 180] if name == "homogeneity" else None
    runs = 140 if statistic == "projected" else 120
    found = rates("gaussian", test, runs, seed=3, totals=totals)
    # 6 standard errors of nominal, and 0.015 for counts of 36 on: 1e-8
    assert (np.abs(found - LEVELS) < 6 * np.sqrt(LEVELS * (1 - LEVELS) / runs) + 0.015).all(), found


@pytest.mark.parametrize(("name", "statistic", "law", "runs"), simulated())
def test_level_of_the_simulation(name, statistic, law, runs):
    def test(x):
        return TESTS[name](x, statistic=statistic, method="monte-carlo", reps=199, rng=rng)

    rng = np.random.default_rng(4)
    totals = [120, 180] if name == "homogeneity" else None
    found = rates(law, test, runs, seed=5, totals=totals)
    # 6 standard errors of nominal, and 0.01 for estimated margins: 1e-8
    assert (np.abs(found - LEVELS) < 6 * np.sqrt(LEVELS * (1 - LEVELS) / runs) + 0.01).all(), found


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: chisquare(x, nobs=NOBS, mechanism=Gaussian(sigma=1.0)),
            "mechanism must be left",
        ),
        (lambda x: chi2_contingency(x, nobs=x.linear(np.ones(6))), "nobs must have noise of its"),
        (lambda x: chi2_contingency(x.take(slice(5))), "table must be two-dimensional"),
        (lambda x: chisquare([5.5, 4.2], nobs=9), "mechanism must be given, as f_obs is plain"),
    ],
)
def test_what_does_not_go_together(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call(ONE)


@pytest.mark.parametrize(
    ("test", "shape"),
    [
        (chisquare, (4,)),
        (chi2_contingency, (2, 2)),
        (lambda x: chisquare_fit(x, genotypes, 0.5), (4,)),
    ],
)
def test_selected_values_are_refused(test, shape):
    values = np.reshape([31.5, 20.25, 18.5, 25.0], shape)
    x = noisy(values, mechanism=Laplace(scale=2.0), threshold=10.0)
    with pytest.raises(InvalidParameterError, match="does not take values that were selected"):
        test(x)


def test_a_fit_is_a_table_with_its_weights():
    law = IndependentNoise([Geometric(scale=6.0)] * 6 + [Geometric(scale=1.0)] * 2)
    queries = QUERIES[:8]
    counts = queries @ [48, 41, 80, 75, 69, 87] + [3, -5, 2, 0, 6, -4, 1, -1]
    release = Release(counts, mechanism=law, workload=Workload(queries))
    fit = combine(release, target=Workload(np.eye(6), labels=LABELS))
    precision = queries.T / np.broadcast_to(law.variance, 8)
    weights = np.linalg.solve(precision @ queries, precision)
    plain = noisy(weights @ counts, mechanism=law, weights=weights, labels=LABELS)
    options = {"nobs": 400, "method": "asymptotic"}
    for test in (chisquare, chi2_contingency):
        found, expected = test(fit, **options), test(plain, **options)
        np.testing.assert_allclose(tuple(found), tuple(expected), rtol=1e-9)
    found = chi2_contingency(fit, **options)
    assert list(found.expected_freq.columns) == list("abc")
