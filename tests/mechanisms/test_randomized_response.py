"""Randomized response against enumeration of all outcomes and simulation."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.mechanisms import RandomizedResponse


@pytest.mark.parametrize("categories", [2, 3, 10])
@pytest.mark.parametrize("epsilon", [1e-6, 0.5, 3.0, 20.0])
def test_epsilon_is_the_log_of_the_largest_likelihood_ratio(categories, epsilon):
    law = RandomizedResponse.from_epsilon(epsilon, categories=categories)
    assert law.channel.shape == (categories, categories)
    np.testing.assert_allclose(law.channel.sum(axis=1), 1.0, rtol=1e-14)
    ratio = law.channel.max(axis=0) / law.channel.min(axis=0)
    # the last digits of 1 - p are lost at a large epsilon, those of p - 1/k at a small one
    np.testing.assert_allclose(np.log(ratio), epsilon, rtol=1e-6)
    assert law.epsilon == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize("categories", [2, 3])
def test_counts_are_unbiased_and_so_is_their_covariance(categories):
    law = RandomizedResponse(p=0.6, categories=categories)
    truth = np.array([0, 0, 1, 1, 1, categories - 1])
    true_counts = np.bincount(truth, minlength=categories)
    mean, second, covariance = 0.0, 0.0, 0.0
    for reports in product(range(categories), repeat=truth.size):
        chance = np.prod(law.channel[truth, list(reports)])
        estimate = law.estimate_counts(np.bincount(reports, minlength=categories))
        mean = mean + chance * estimate.params
        second = second + chance * np.outer(estimate.params, estimate.params)
        covariance = covariance + chance * estimate.cov_params()
    np.testing.assert_allclose(mean, true_counts, atol=1e-12)
    np.testing.assert_allclose(second - np.outer(mean, mean), covariance, atol=1e-11)


def test_proportions_and_their_sampling_covariance():
    law = RandomizedResponse(p=0.7, categories=3)
    population = np.array([0.2, 0.5, 0.3])
    n = 6
    mean, second = np.zeros(3), np.zeros((3, 3))
    expected = np.zeros((3, 3))
    for reports in product(range(3), repeat=n):
        chance = np.prod((population @ law.channel)[list(reports)])
        estimate = law.estimate_proportions(np.bincount(reports, minlength=3))
        mean += chance * estimate.params
        second += chance * np.outer(estimate.params, estimate.params)
        expected += chance * estimate.cov_params()
    np.testing.assert_allclose(mean, population, atol=1e-12)
    # the plug-in covariance of a multinomial sample has the factor (n-1)/n
    covariance = second - np.outer(mean, mean)
    np.testing.assert_allclose(expected, covariance * (n - 1) / n, atol=1e-12)


def test_the_binary_estimate_is_warners():
    law = RandomizedResponse(p=0.75)
    estimate = law.estimate_proportions([45, 55], uncertainty="noise+sampling")
    # Warner (1965): (λ + p - 1)/(2p - 1) with variance λ(1-λ)/(n(2p-1)²)
    np.testing.assert_allclose(estimate.params, [0.4, 0.6], rtol=1e-14)
    np.testing.assert_allclose(estimate.bse**2, 0.45 * 0.55 / (100 * 0.25), rtol=1e-14)
    noise = law.estimate_proportions([45, 55], uncertainty="noise")
    np.testing.assert_allclose(noise.bse**2, 0.75 * 0.25 / (100 * 0.25), rtol=1e-14)
    assert (noise.uncertainty, estimate.uncertainty) == ("noise", "noise+sampling")
    assert law.estimate_counts([45, 55]).uncertainty == "noise"


def test_randomized_answers_follow_the_channel():
    law = RandomizedResponse(p=0.5, categories=4)
    answers = np.repeat(np.arange(4), 100_000)
    reports = law.randomize(answers, rng=1)
    table = np.zeros((4, 4))
    np.add.at(table, (answers, reports), 1e-5)
    # four shares of one half within six standard errors, the rest within eight: fails by accident
    # with probability 8e-9
    np.testing.assert_allclose(table, law.channel, atol=6 * 0.5 / np.sqrt(100_000))
    counts = law.randomize_counts([100_000, 0, 0, 300_000], rng=2)
    assert counts.sum() == 400_000
    mean = np.array([1e5, 0, 0, 3e5]) @ law.channel
    np.testing.assert_allclose(counts, mean, atol=6 * np.sqrt(1e5))
    assert law.randomize(2, rng=3) in range(4)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    counts=st.lists(st.integers(0, 10**9), min_size=2, max_size=6).filter(any),
    epsilon=st.floats(1e-3, 30.0),
)
def test_fuzz_estimates_add_up_and_variances_are_not_negative(counts, epsilon):
    law = RandomizedResponse.from_epsilon(epsilon, categories=len(counts))
    total = law.estimate_counts(counts)
    scale = np.abs(total.params).max()
    assert total.params.sum() == pytest.approx(sum(counts), abs=1e-12 * scale)
    assert np.isfinite(total.bse).all()
    for uncertainty in ("noise", "noise+sampling"):
        share = law.estimate_proportions(counts, uncertainty=uncertainty)
        assert share.params.sum() == pytest.approx(1.0, abs=1e-9)
        np.testing.assert_allclose(
            share.cov_params().sum(axis=0), 0.0, atol=1e-9 * share.cov_params().max() + 1e-15
        )


def test_estimates_are_frozen():
    estimate = RandomizedResponse(p=0.75).estimate_counts([1, 2])
    with pytest.raises(AttributeError):
        estimate.nobs = 4
    with pytest.raises(ValueError, match="read-only"):
        estimate.params[0] = 1.0


def test_a_channel_without_information_estimates_nothing():
    for law in (RandomizedResponse(p=0.5), RandomizedResponse(p=1 / 3, categories=3)):
        assert law.epsilon == pytest.approx(0.0, abs=1e-15)
        with pytest.raises(NotEstimableError, match="nothing can be estimated"):
            law.estimate_counts(np.ones(law.categories))


@pytest.mark.parametrize("p", [0.0, 1.0, 0.3, np.nan, "x", [0.6]])
def test_bad_probabilities_are_refused(p):
    with pytest.raises(InvalidParameterError, match="p must"):
        RandomizedResponse(p=p)


@pytest.mark.parametrize("categories", [1, 0, 2.5, "2"])
def test_bad_numbers_of_categories_are_refused(categories):
    with pytest.raises(InvalidParameterError, match="categories must"):
        RandomizedResponse(p=0.9, categories=categories)


def test_bad_calls_are_refused():
    law = RandomizedResponse(p=0.9)
    for counts in ([1, 2, 3], [1.5, 2], [-1, 2], [0, 0], [[1, 2]], [np.nan, 1], []):
        with pytest.raises(InvalidParameterError, match="counts"):
            law.estimate_counts(counts)
    for answers in ([2], [-1], [0.5], ["a"]):
        with pytest.raises(InvalidParameterError, match="answers"):
            law.randomize(answers)
    with pytest.raises(InvalidParameterError, match="uncertainty must be one of"):
        law.estimate_proportions([1, 2], uncertainty="both")
    with pytest.raises(InvalidParameterError, match="epsilon must"):
        RandomizedResponse.from_epsilon(0.0)
    with pytest.raises(InvalidParameterError, match="epsilon must be smaller"):
        RandomizedResponse.from_epsilon(60.0)
