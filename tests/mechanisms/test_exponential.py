"""The exponential mechanism against its definition in mpmath and simulation."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import ExponentialMechanism


@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    scores=st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=8),
    epsilon=st.floats(1e-4, 50),
    sensitivity=st.floats(0.1, 10),
    monotonic=st.booleans(),
)
def test_probabilities_are_those_of_the_definition(scores, epsilon, sensitivity, monotonic):
    mechanism = ExponentialMechanism(epsilon=epsilon, sensitivity=sensitivity, monotonic=monotonic)
    factor = mp.mpf(epsilon) / (mp.mpf(sensitivity) * (1 if monotonic else 2))
    with mp.workdps(40):
        weights = [mp.exp(factor * mp.mpf(score)) for score in scores]
        expected = np.array([float(mp.log(w / mp.fsum(weights))) for w in weights])
    actual = mechanism.log_probabilities(scores)
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-14)
    assert mechanism.probabilities(scores).sum() == pytest.approx(1.0, rel=1e-14)


def test_neighbouring_scores_differ_by_at_most_epsilon():
    scores = np.array([3.0, 1.0, 4.0, 1.0, 5.0])
    mechanism = ExponentialMechanism(epsilon=0.7)
    base = mechanism.log_probabilities(scores)
    for signs in np.ndindex(3, 3, 3, 3, 3):
        moved = mechanism.log_probabilities(scores + np.array(signs) - 1)
        assert np.abs(moved - base).max() <= 0.7 + 1e-12
    counts = ExponentialMechanism(epsilon=0.7, monotonic=True)
    base = counts.log_probabilities(scores)
    for added in np.ndindex(2, 2, 2, 2, 2):
        moved = counts.log_probabilities(scores + np.array(added))
        assert np.abs(moved - base).max() <= 0.7 + 1e-12


def test_scores_of_any_size_are_safe():
    mechanism = ExponentialMechanism(epsilon=1.0)
    np.testing.assert_array_equal(mechanism.probabilities([1e308, -1e308, 1e308]), [0.5, 0, 0.5])
    np.testing.assert_array_equal(mechanism.probabilities([-np.inf, -1e300]), [0, 1])
    np.testing.assert_array_equal(
        mechanism.log_probabilities([0.0, -1e5, -np.inf]), [0, -5e4, -np.inf]
    )
    tiny = ExponentialMechanism(epsilon=1e-300, sensitivity=1e300)
    np.testing.assert_array_equal(tiny.probabilities([1e308, -1e308]), [0.5, 0.5])


def test_stacks_of_scores_are_rows():
    mechanism = ExponentialMechanism(epsilon=1.0)
    scores = np.arange(12.0).reshape(2, 2, 3) ** 1.5
    rows = [[mechanism.probabilities(row) for row in block] for block in scores]
    np.testing.assert_array_equal(mechanism.probabilities(scores), rows)


def test_draws_follow_the_probabilities():
    mechanism = ExponentialMechanism(epsilon=1.0)
    scores = [2.0, -np.inf, 5.0, 4.0, -np.inf]
    draws = mechanism.rvs(scores, 100_000, rng=4)
    counts = np.bincount(draws, minlength=5)
    possible = [0, 2, 3]
    assert counts[[1, 4]].sum() == 0
    expected = 100_000 * mechanism.probabilities(scores)[possible]
    # fails by accident with probability 1e-9
    assert stats.chisquare(counts[possible], expected).pvalue > 1e-9
    assert mechanism.rvs(scores, rng=4) in possible
    assert mechanism.rvs(scores, (2, 3), rng=4).shape == (2, 3)


@pytest.mark.parametrize("value", [-1e-300, -1.0, np.nan, np.inf, "1", [1.0]])
def test_bad_parameters_are_refused(value):
    with pytest.raises(InvalidParameterError, match="epsilon must"):
        ExponentialMechanism(epsilon=value)
    with pytest.raises(InvalidParameterError, match="sensitivity must"):
        ExponentialMechanism(epsilon=1.0, sensitivity=value)
    with pytest.raises(InvalidParameterError, match="monotonic must"):
        ExponentialMechanism(epsilon=1.0, monotonic=value)


@pytest.mark.parametrize(
    "scores", [[], 3.0, [np.nan, 1], [np.inf, 1], [-np.inf], [1j], ["a"], [[]]]
)
def test_bad_scores_are_refused(scores):
    mechanism = ExponentialMechanism(epsilon=1.0)
    for method in (mechanism.probabilities, mechanism.log_probabilities, mechanism.rvs):
        with pytest.raises(InvalidParameterError, match="scores must"):
            method(scores)
    with pytest.raises(InvalidParameterError, match="scores must be one-dimensional"):
        mechanism.rvs([[1.0, 2.0]])
