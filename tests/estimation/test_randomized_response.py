"""Estimates from randomized answers against enumeration of all outcomes."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.estimation import response_counts, response_proportions
from dpinfer.mechanisms import Laplace, RandomizedResponse


@pytest.mark.parametrize("categories", [2, 3])
def test_counts_are_unbiased_and_so_is_their_covariance(categories):
    law = RandomizedResponse(p=0.6, categories=categories)
    truth = np.array([0, 0, 1, 1, 1, categories - 1])
    true_counts = np.bincount(truth, minlength=categories)
    mean, second, covariance = 0.0, 0.0, 0.0
    for reports in product(range(categories), repeat=truth.size):
        chance = np.prod(law.matrix[truth, list(reports)])
        estimate = response_counts(np.bincount(reports, minlength=categories), mechanism=law)
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
        chance = np.prod((population @ law.matrix)[list(reports)])
        estimate = response_proportions(np.bincount(reports, minlength=3), mechanism=law)
        mean += chance * estimate.params
        second += chance * np.outer(estimate.params, estimate.params)
        expected += chance * estimate.cov_params()
    np.testing.assert_allclose(mean, population, atol=1e-12)
    # the plug-in covariance of a multinomial sample has the factor (n-1)/n
    covariance = second - np.outer(mean, mean)
    np.testing.assert_allclose(expected, covariance * (n - 1) / n, atol=1e-12)


def test_the_binary_estimate_is_warners():
    law = RandomizedResponse(p=0.75)
    estimate = response_proportions([45, 55], uncertainty="noise+sampling", mechanism=law)
    # Warner (1965): (λ + p - 1)/(2p - 1) with variance λ(1-λ)/(n(2p-1)²)
    np.testing.assert_allclose(estimate.params, [0.4, 0.6], rtol=1e-14)
    np.testing.assert_allclose(estimate.bse**2, 0.45 * 0.55 / (100 * 0.25), rtol=1e-14)
    noise = response_proportions([45, 55], uncertainty="noise", mechanism=law)
    np.testing.assert_allclose(noise.bse**2, 0.75 * 0.25 / (100 * 0.25), rtol=1e-14)
    assert (noise.uncertainty, estimate.uncertainty) == ("noise", "noise+sampling")
    assert response_counts([45, 55], mechanism=law).uncertainty == "noise"


@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    counts=st.lists(st.integers(0, 10**9), min_size=2, max_size=6).filter(any),
    epsilon=st.floats(1e-3, 30.0),
)
def test_fuzz_estimates_add_up_and_variances_are_not_negative(counts, epsilon):
    law = RandomizedResponse.from_epsilon(epsilon, categories=len(counts))
    total = response_counts(counts, mechanism=law)
    scale = np.abs(total.params).max()
    assert total.params.sum() == pytest.approx(sum(counts), abs=1e-12 * scale)
    assert np.isfinite(total.bse).all()
    for uncertainty in ("noise", "noise+sampling"):
        share = response_proportions(counts, uncertainty=uncertainty, mechanism=law)
        assert share.params.sum() == pytest.approx(1.0, abs=1e-9)
        np.testing.assert_allclose(
            share.cov_params().sum(axis=0), 0.0, atol=1e-9 * share.cov_params().max() + 1e-15
        )


def test_estimates_are_frozen():
    estimate = response_counts([1, 2], mechanism=RandomizedResponse(p=0.75))
    with pytest.raises(AttributeError):
        estimate.nobs = 4
    with pytest.raises(ValueError, match="read-only"):
        estimate.params[0] = 1.0


def test_a_channel_without_information_estimates_nothing():
    for law in (RandomizedResponse(p=0.5), RandomizedResponse(p=1 / 3, categories=3)):
        assert law.epsilon == pytest.approx(0.0, abs=1e-15)
        with pytest.raises(NotEstimableError, match="nothing can be estimated"):
            response_counts(np.ones(law.categories), mechanism=law)


def test_normal_intervals_are_those_of_statsmodels_when_nothing_is_randomized():
    from statsmodels.stats.proportion import proportion_confint

    answers = pd.Series([30, 70], index=["yes", "no"])
    nearly_plain = RandomizedResponse(p=1 - 1e-12)
    estimate = response_proportions(answers, mechanism=nearly_plain)
    for method, theirs in (("asymptotic", "normal"), ("exact", "beta")):
        lower, upper = estimate.conf_int(alpha=0.1, method=method)
        expected = proportion_confint(answers, 100, alpha=0.1, method=theirs)
        np.testing.assert_allclose([lower, upper], expected, rtol=1e-9)


CHANNELS = [(0.6, 2), (0.95, 2), (0.5, 3), (0.6, 5)]


def with_reports(c, n, categories):
    return [c, n - c, *[0] * (categories - 2)]


@pytest.mark.parametrize(("p", "categories"), CHANNELS)
@pytest.mark.parametrize("n", [10, 40])
def test_default_intervals_of_proportions_cover_by_enumeration(p, categories, n):
    law = RandomizedResponse(p=p, categories=categories)
    false = (1 - p) / (categories - 1)
    found = [
        response_proportions(with_reports(c, n, categories), mechanism=law).conf_int(0.1)
        for c in range(n + 1)
    ]
    for truth in (0.0, 0.01, 0.05, 0.3, 0.77, 1.0):
        pmf = stats.binom(n, false + (p - false) * truth).pmf(np.arange(n + 1))
        hit = [bool(part.lower[0] <= truth <= part.upper[0]) for part in found]
        assert pmf @ hit >= 0.9 - 1e-12


@pytest.mark.thinned("p", "n", every=2)
@pytest.mark.parametrize(("p", "categories"), CHANNELS)
@pytest.mark.parametrize("n", [10, 40])
def test_default_intervals_of_counts_cover_by_enumeration(p, categories, n):
    law = RandomizedResponse(p=p, categories=categories)
    false = (1 - p) / (categories - 1)
    laws = {
        t: np.convolve(
            stats.binom(t, p).pmf(np.arange(t + 1)),
            stats.binom(n - t, false).pmf(np.arange(n - t + 1)),
        )
        for t in range(n + 1)
    }
    for c in range(n + 1):
        tables = with_reports(c, n, categories)
        counts = response_counts(tables, mechanism=law).conf_int(0.1)
        shares = response_proportions(tables, mechanism=law, uncertainty="noise").conf_int(0.1)
        kept = [t for t, pmf in laws.items() if min(pmf[c:].sum(), pmf[: c + 1].sum()) > 0.05]
        ends = (min(kept), max(kept)) if kept else (np.inf, -np.inf)
        assert (counts.lower[0], counts.upper[0]) == ends
        np.testing.assert_allclose([shares.lower[0], shares.upper[0]], np.array(ends) / n)


def test_exact_intervals_of_many_respondents():
    # tails of counts in groups are bounds: the ends are a little farther out, and not farther in
    law = RandomizedResponse(p=0.75)
    few = response_counts([4_000, 6_000], mechanism=law).conf_int()
    pmf = [
        np.convolve(
            stats.binom(int(t), 0.75).pmf(np.arange(t + 1)),
            stats.binom(10_000 - int(t), 0.25).pmf(np.arange(10_001 - t)),
        )
        for t in (few.lower[0] + 10, few.upper[0] - 10)
    ]
    assert pmf[0][4_000:].sum() > 0.025
    assert pmf[1][:4_001].sum() > 0.025
    for n in (10_000.0, 1e9):
        many = response_counts([0.4 * n, 0.6 * n], mechanism=law)
        exact, normal = many.conf_int(), many.conf_int(method="asymptotic")
        np.testing.assert_array_less(exact.lower, normal.lower + 1)
        np.testing.assert_array_less(normal.upper - 1, exact.upper)
        np.testing.assert_allclose(exact.width, normal.width, rtol=0.03)
    with pytest.raises(InvalidParameterError, match="different numbers"):
        response_counts(
            np.arange(2001), mechanism=RandomizedResponse(p=0.75, categories=2001)
        ).conf_int()


def test_labels_are_given_back():
    answers = pd.Series([30, 70], index=pd.Index(["yes", "no"], name="answer"))
    estimate = response_counts(answers, mechanism=RandomizedResponse(p=0.8))
    for part in (estimate.params, estimate.bse, estimate.cov_params(), estimate.summary_frame()):
        assert part.index.equals(answers.index)
    assert "noise (inference on the confidential values)" in estimate.summary()
    assert str(estimate) == estimate.summary()


def test_bad_calls_are_refused():
    law = RandomizedResponse(p=0.9)
    for counts in ([1, 2, 3], [1.5, 2], [-1, 2], [0, 0], [[1, 2]], [np.nan, 1], []):
        with pytest.raises(InvalidParameterError, match="counts"):
            response_counts(counts, mechanism=law)
    with pytest.raises(InvalidParameterError, match="uncertainty must be one of"):
        response_proportions([1, 2], mechanism=law, uncertainty="both")
    with pytest.raises(
        InvalidParameterError,
        match="mechanism must be a RandomizedResponse, UnaryEncoding or Channel",
    ):
        response_counts([1, 2], mechanism=Laplace(scale=1.0))
    with pytest.raises(InvalidParameterError, match="alpha must"):
        response_counts([1, 2], mechanism=law).conf_int(alpha=0)


def test_what_is_printed_names_categories_respondents_and_error():
    counts = pd.Series({"no": 45, "yes": 55})
    fixed = response_counts(counts, mechanism=RandomizedResponse(p=0.75))
    assert repr(fixed) == "ResponseEstimate(2 categories, 100 respondents)"
    assert str(fixed) == fixed.summary()
    assert "noise (inference on the confidential values)" in str(fixed)
    assert "sampling" in str(response_proportions(counts, mechanism=RandomizedResponse(p=0.75)))
    assert fixed.cov_params().index.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(fixed.cov_params().sum(axis=1).round(9), 0.0)
