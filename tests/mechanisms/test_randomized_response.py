"""The channel of randomized response, and draws from it."""

import numpy as np
import pytest

from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import RandomizedResponse


@pytest.mark.parametrize("categories", [2, 3, 10])
@pytest.mark.parametrize("epsilon", [1e-6, 0.5, 3.0, 20.0])
def test_epsilon_is_the_log_of_the_largest_likelihood_ratio(categories, epsilon):
    law = RandomizedResponse.from_epsilon(epsilon, categories=categories)
    assert law.matrix.shape == (categories, categories)
    np.testing.assert_allclose(law.matrix.sum(axis=1), 1.0, rtol=1e-14)
    ratio = law.matrix.max(axis=0) / law.matrix.min(axis=0)
    # the last digits of 1 - p are lost at a large epsilon, those of p - 1/k at a small one
    np.testing.assert_allclose(np.log(ratio), epsilon, rtol=1e-6)
    assert law.epsilon == pytest.approx(epsilon, rel=1e-6)


def test_randomized_answers_follow_the_channel():
    law = RandomizedResponse(p=0.5, categories=4)
    answers = np.repeat(np.arange(4), 100_000)
    reports = law.randomize(answers, rng=1)
    table = np.zeros((4, 4))
    np.add.at(table, (answers, reports), 1e-5)
    # four shares of one half within six standard errors, the rest within eight: fails by accident
    # with probability 8e-9
    np.testing.assert_allclose(table, law.matrix, atol=6 * 0.5 / np.sqrt(100_000))
    counts = law.randomize_counts([100_000, 0, 0, 300_000], rng=2)
    assert counts.sum() == 400_000
    mean = np.array([1e5, 0, 0, 3e5]) @ law.matrix
    np.testing.assert_allclose(counts, mean, atol=6 * np.sqrt(1e5))
    assert law.randomize(2, rng=3) in range(4)


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
    for answers in ([2], [-1], [0.5], ["a"]):
        with pytest.raises(InvalidParameterError, match="answers"):
            law.randomize(answers)
    with pytest.raises(InvalidParameterError, match="counts must have one entry"):
        law.randomize_counts([1, 2, 3])
    for count in (2e14, 1e300):
        with pytest.raises(InvalidParameterError, match=r"counts must be <= 1e\+14"):
            law.randomize_counts([count, 0])
    with pytest.raises(InvalidParameterError, match="epsilon must"):
        RandomizedResponse.from_epsilon(0.0)
    with pytest.raises(InvalidParameterError, match="epsilon must be smaller"):
        RandomizedResponse.from_epsilon(60.0)
