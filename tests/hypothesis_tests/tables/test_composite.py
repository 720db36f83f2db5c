"""Goodness of fit with estimated parameters against scipy, closed forms and plain simulation."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from dpinfer.errors import (
    ApproximationWarning,
    ConvergenceError,
    DPInferError,
    InvalidParameterError,
)
from dpinfer.hypothesis_tests import chi2_contingency, chisquare_fit
from dpinfer.mechanisms import Exact, Gaussian, Geometric, Laplace, RandomizedResponse

GENOTYPES = np.array([121.0, 249.0, 90.0])
NOISE = Gaussian(sigma=10.0)


def hardy_weinberg(theta):
    f = theta[0]
    return [f * f, 2 * f * (1 - f), (1 - f) * (1 - f)]


def independence(theta):
    rows = np.array([theta[0], 1 - theta[0]])
    columns = np.array([theta[1], theta[2], 1 - theta[1] - theta[2]])
    return np.outer(rows, columns).ravel()


def geometric_decay(theta):
    weights = np.exp(-theta[0] * np.arange(5.0) - theta[1] * np.arange(5.0) ** 2)
    return weights / weights.sum()


class TestWithoutNoise:
    @pytest.mark.parametrize("statistic", ["pearson", "projected"])
    @pytest.mark.parametrize("nobs", [None, 460])
    def test_hardy_weinberg_in_closed_form(self, statistic, nobs):
        frequency = (2 * GENOTYPES[0] + GENOTYPES[1]) / 920
        expected = 460 * np.array(hardy_weinberg([frequency]))
        value = np.sum((GENOTYPES - expected) ** 2 / expected)
        ours = chisquare_fit(
            GENOTYPES,
            hardy_weinberg,
            0.3,
            mechanism=Exact(),
            nobs=nobs,
            statistic=statistic,
            method="asymptotic",
        )
        np.testing.assert_allclose(ours.params, [frequency], rtol=1e-8)
        np.testing.assert_allclose(ours.expected_freq, expected, rtol=1e-8)
        np.testing.assert_allclose(tuple(ours), (value, stats.chi2.sf(value, 1)), rtol=1e-7)
        assert ours.dof == 1

    def test_parameters_are_maximum_likelihood(self):
        counts = np.array([50.0, 80.0, 120.0, 60.0, 90.0])
        best = optimize.minimize(
            lambda theta: -counts @ np.log(geometric_decay(theta)), [0.1, 0.1], method="BFGS"
        )
        ours = chisquare_fit(
            counts, geometric_decay, [0.0, 0.0], mechanism=Exact(), method="asymptotic"
        )
        np.testing.assert_allclose(ours.params, best.x, atol=1e-5)


@pytest.mark.parametrize(
    "known",
    [{}, {"nobs": 235}, {"nobs": 239.5, "nobs_mechanism": Gaussian(sigma=6.0)}],
    ids=str,
)
@pytest.mark.parametrize("statistic", ["pearson", "projected"])
def test_independence_is_a_special_case(known, statistic):
    table = np.array([[33.1, 52.7, 20.4], [57.2, 38.0, 35.9]])
    noise = Gaussian(sigma=[2.0, 9.0, 5.0, 0.5, 4.0, 7.0])
    options = {"mechanism": noise, "statistic": statistic, "method": "asymptotic", **known}
    theirs = chi2_contingency(table, **options)
    ours = chisquare_fit(table.ravel(), independence, [0.5, 0.3, 0.3], **options)
    np.testing.assert_allclose(tuple(ours), tuple(theirs), rtol=1e-6)
    np.testing.assert_allclose(ours.expected_freq, theirs.expected_freq.ravel(), rtol=1e-6)
    assert ours.dof == theirs.dof


@pytest.mark.parametrize("statistic", ["pearson", "projected"])
def test_simulation_meets_the_limit(statistic):
    counts = np.array([1273.8, 2216.3, 1105.0])
    options = {"mechanism": Gaussian(sigma=40.0), "nobs": 4600, "statistic": statistic}
    limit = chisquare_fit(counts, hardy_weinberg, 0.5, method="asymptotic", **options)
    simulated = chisquare_fit(counts, hardy_weinberg, 0.5, reps=4000, rng=1, **options)
    assert limit.statistic == simulated.statistic
    assert 0.02 < limit.pvalue < 0.9
    # 6 standard errors (2e-9), and the distance from the limit at n = 4,600
    assert abs(limit.pvalue - simulated.pvalue) < 6 * simulated.mc_error + 4e-3


@pytest.mark.thinned("nobs", "noise", every=2)
@pytest.mark.parametrize("nobs", [2000, None])
@pytest.mark.parametrize("noise", [Laplace(scale=5.0), Gaussian(sigma=10.0)], ids=repr)
def test_level_of_the_limit(noise, nobs):
    """The law that is simulated where the fit is that of theta = 0.6."""
    reps, table = 4000, 2000 * np.array(hardy_weinberg([0.6]))
    result = chisquare_fit(table, hardy_weinberg, 0.6, mechanism=noise, nobs=nobs, reps=reps, rng=4)
    assert result.params[0] == pytest.approx(0.6, abs=1e-9)
    assert result.nobs == pytest.approx(2000)
    for level in (0.01, 0.05, 0.1):
        share = result.null_distribution.pvalue(stats.chi2.isf(level, 1), "larger")
        # 6 standard errors (2e-9), and the distance from the limit at n = 2,000
        assert abs(share - level) < 6 * np.sqrt(level * (1 - level) / reps) + 5e-3


def test_randomized_response():
    channel = RandomizedResponse(p=0.8, categories=3)
    reports = np.round(460 * channel.matrix.T @ hardy_weinberg([0.6]))
    ours = chisquare_fit(reports, hardy_weinberg, 0.5, mechanism=channel, method="asymptotic")
    assert ours.params[0] == pytest.approx(0.6, abs=0.01)
    assert ours.pvalue > 0.8
    np.testing.assert_allclose(
        ours.expected_freq,
        reports.sum() * channel.matrix.T @ hardy_weinberg(ours.params),
        rtol=1e-6,
    )


@pytest.mark.parametrize("law", [Laplace(scale=1e12), Gaussian(sigma=1e12)], ids=repr)
@pytest.mark.parametrize("known", [{}, {"nobs": 200}], ids=str)
@pytest.mark.filterwarnings("ignore::dpinfer.errors.ApproximationWarning")
def test_noise_that_drowns_the_counts_is_no_evidence(law, known):
    for statistic in ("pearson", "projected"):
        options = {"statistic": statistic, "method": "asymptotic", **known}
        ours = chisquare_fit([41, 95, 64], hardy_weinberg, 0.5, mechanism=law, **options)
        assert ours.pvalue > 0.99


def test_labels_and_rule():
    counts = pd.Series([60.3, -2.0, 3.1], index=["AA", "Aa", "aa"])
    with pytest.warns(ApproximationWarning, match="the test does not decide"):
        result = chisquare_fit(counts, hardy_weinberg, 0.9, mechanism=NOISE, bounds=[(0, 1)])
    assert not result.decided
    assert result.pvalue == 1.0
    assert list(result.expected_freq.index) == ["AA", "Aa", "aa"]
    assert 0 <= result.params[0] <= 1


def test_a_wrong_model_is_rejected():
    result = chisquare_fit(
        [200, 60, 200], hardy_weinberg, 0.5, mechanism=Geometric(scale=3.0), reps=500, rng=1
    )
    assert result.pvalue == 1 / 501
    assert "3 cells, projected statistic" in result.summary()


def test_steps_that_do_not_suffice():
    """A function that has moved on whenever it is asked again."""
    calls = []

    def model(theta):
        calls.append(theta)
        away = 1.0 / (2.0 + len(calls))
        return (1 - away) * np.array(hardy_weinberg(theta)) + away * np.array([0.05, 0.05, 0.9])

    with pytest.raises(ConvergenceError, match=r"in 200 steps.*give another start, or bounds"):
        chisquare_fit(GENOTYPES, model, 0.5, mechanism=NOISE)


GOOD = {"f_obs": GENOTYPES, "model": hardy_weinberg, "start": 0.5, "mechanism": NOISE}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"f_obs": [1.0, 2.0]}, "f_obs must have at least 3 cells to test"),
        ({"f_obs": [1.0, np.nan, 2.0]}, "f_obs must not contain NaN"),
        ({"model": 3}, "model must be a function"),
        ({"model": lambda t: [0.5, 0.5]}, "model must return 3 probabilities"),
        ({"model": lambda t: [0.5, 0.2, 0.2]}, "that add up to 1, got 3 that add up to 0.9"),
        ({"model": lambda t: [1.5, -0.2, -0.3]}, "the value of model must be >= 0"),
        ({"model": lambda t: "abc"}, "the value of model must"),
        ({"model": lambda t: [np.nan] * 3}, "the value of model must not contain NaN"),
        ({"start": [[0.5]]}, "start must be one-dimensional"),
        ({"start": []}, "start must hold at least one"),
        ({"bounds": [(1, 0)]}, "bounds must hold a pair"),
        ({"bounds": [(0, 1), (0, 1)]}, "bounds must hold a pair"),
        ({"bounds": [(0.6, 1)]}, "start must be within bounds"),
        ({"nobs": 0}, "nobs must be >= 1"),
        ({"mechanism": RandomizedResponse(p=0.7)}, "a category for each of the 3 cells"),
        ({"mechanism": "x"}, "mechanism must be a noise law"),
        ({"method": "exact"}, "method must be one of"),
        ({"statistic": 1}, "statistic must be one of"),
    ],
)
def test_bad_arguments_say_what_is_wrong(changes, message):
    with pytest.raises(InvalidParameterError, match=message):
        chisquare_fit(**{**GOOD, **changes})


numbers = st.one_of(st.floats(), st.integers(-50, 300))


@pytest.mark.filterwarnings("ignore::dpinfer.errors.ApproximationWarning")
@settings(derandomize=True, deadline=None, max_examples=75)
@given(
    f_obs=st.lists(numbers, min_size=2, max_size=4),
    start=st.one_of(st.floats(), st.floats(0, 1), st.none(), st.text(max_size=2)),
    nobs=st.one_of(st.none(), st.integers(-1, 500), st.floats()),
    bounds=st.sampled_from([None, [(0, 1)], [(-np.inf, 1.0)], "x"]),
    scale=st.floats(1e-50, 1e50),
)
def test_only_our_own_errors_escape(f_obs, start, nobs, bounds, scale):
    try:
        result = chisquare_fit(
            f_obs,
            hardy_weinberg,
            start,
            nobs=nobs,
            bounds=bounds,
            mechanism=Laplace(scale=scale),
            small_expected="compute",
            reps=5,
            rng=1,
        )
    except DPInferError:
        return
    assert 0 < result.pvalue <= 1
    assert np.isfinite(result.statistic)
