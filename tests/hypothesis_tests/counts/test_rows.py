"""A test for every row of a release: enumeration of the conditional law, duality, fuzzing."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer import Release, adjust_pvalues, combine
from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.hypothesis_tests import linear_ztest, proportions_ztest
from dpinfer.mechanisms import Exact, Gaussian, Geometric, Laplace

ALTERNATIVES = ["two-sided", "larger", "smaller"]
REACH = 200


def enumerated(y, target, scale, threshold, clamp, alternative):
    """P-value from the probabilities of the published values, one by one."""
    noise = np.exp(-np.abs(np.arange(-REACH, REACH + 1)) / scale)
    noise /= noise.sum()
    values = np.clip(target + np.arange(-REACH, REACH + 1), *clamp)
    shown = values >= threshold
    chosen = {
        "two-sided": abs(values - target) >= abs(y - target),
        "larger": values >= y,
        "smaller": values <= y,
    }
    return noise[shown & chosen[alternative]].sum() / noise[shown].sum()


RULES = [
    (-np.inf, (-np.inf, np.inf)),
    (8, (-np.inf, np.inf)),
    (-np.inf, (0, np.inf)),
    (-np.inf, (0, 20)),
    (5, (0, 20)),
    (0, (0, 20)),
    (12, (0, 12)),
]


@pytest.mark.thinned("alternative", "threshold", "target", every=3)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize(("threshold", "clamp"), RULES)
@pytest.mark.parametrize("target", [-3, 0, 7, 12, 25])
def test_conditional_law_enumerated(alternative, threshold, clamp, target):
    low, high = max(threshold, clamp[0], -10), min(clamp[1], 35)
    values = np.arange(low, high + 1)
    release = Release(
        values,
        mechanism=Geometric(scale=3.0),
        threshold=None if np.isinf(threshold) else threshold,
        clamp=None if np.isinf(clamp).all() else clamp,
    )
    result = linear_ztest(release, None, target, alternative=alternative)
    expected = [enumerated(y, target, 3.0, threshold, clamp, alternative) for y in values]
    np.testing.assert_allclose(result.pvalue, expected, rtol=1e-9, atol=1e-12)
    found = result.null_distribution.pvalue(result.statistic, alternative)
    np.testing.assert_allclose(found, result.pvalue, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("noise", [Laplace(scale=3.0), Gaussian(sigma=4.0)])
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_conditional_law_simulated(noise, alternative):
    reps, y, target = 400_000, 13.5, 9.0
    drawn = np.clip(target + noise.rvs(reps, rng=np.random.default_rng(6)), 0.0, 25.0)
    drawn = drawn[drawn >= 6.0]
    release = Release([y], mechanism=noise, threshold=6.0, clamp=(0.0, 25.0))
    p = float(linear_ztest(release, None, target, alternative=alternative).pvalue[0])
    chosen = {
        "two-sided": abs(drawn - target) >= abs(y - target),
        "larger": drawn >= y,
        "smaller": drawn <= y,
    }
    # within 6 standard errors: fails by accident with chance 2e-9
    assert abs(chosen[alternative].mean() - p) <= 6 * np.sqrt(p * (1 - p) / drawn.size)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_without_a_rule_it_is_the_test_of_one_value(alternative):
    noise = Laplace(scale=3.0)
    rows = linear_ztest(Release([14.5, 3.0], mechanism=noise), None, 10, alternative=alternative)
    single = linear_ztest([14.5, 3.0], np.eye(2), 10, mechanism=noise, alternative=alternative)
    np.testing.assert_allclose(rows.pvalue, single.pvalue, rtol=1e-12)


def test_far_below_the_threshold():
    # Laplace noise has no memory: P(e >= y - value)/P(e >= τ - value) = exp(-(y - τ)/scale)
    release = Release([1002.0], mechanism=Laplace(scale=1.0), threshold=1000.0)
    result = linear_ztest(release, None, -5_000.0, alternative="larger")
    assert result.pvalue[0] == pytest.approx(np.exp(-2.0), rel=1e-9)
    other = linear_ztest(release, None, -5_000.0, alternative="smaller")
    assert other.pvalue[0] == pytest.approx(1 - np.exp(-2.0), rel=1e-9)


@pytest.mark.parametrize("target", [-1e9, -1e60])
@pytest.mark.parametrize("noise", [Gaussian(sigma=1.0), Laplace(scale=1.0), Geometric(scale=1.0)])
def test_a_threshold_out_of_reach_is_refused(target, noise):
    release = Release([1002.0, 1000.0], mechanism=noise, threshold=1000.0)
    with pytest.raises(InvalidParameterError, match="threshold"):
        linear_ztest(release, None, target, alternative="smaller")


@pytest.mark.parametrize("noise", [Gaussian(sigma=1.0), Laplace(scale=1.0), Geometric(scale=1.0)])
def test_far_above_the_published_values(noise):
    release = Release([1002.0], mechanism=noise, threshold=1000.0, clamp=(0, 2_000))
    found = [linear_ztest(release, None, 1e60, alternative=a).pvalue[0] for a in ALTERNATIVES]
    # the value is at the upper bound under the null hypothesis
    assert found == [0.0, 1.0, 0.0]


def test_proportions():
    noise = Geometric(scale=3.0)
    shown = pd.Series([34.0, 20.0], index=["x", "y"])
    rows = proportions_ztest(Release(shown, mechanism=noise), [100, 90], 0.25)
    single = proportions_ztest(shown, [100, 90], 0.25, mechanism=noise)
    np.testing.assert_allclose(rows.pvalue, single.pvalue)
    assert list(rows.pvalue.index) == ["x", "y"]
    with pytest.raises(InvalidParameterError, match="threshold"):
        proportions_ztest(Release(shown, mechanism=noise, threshold=10), [100, 90], 0.25)


def test_labels_and_pickle():
    shown = pd.Series([34.0, 20.0], index=["x", "y"])
    release = Release(shown, mechanism=Geometric(scale=3.0))
    value = pd.Series([30.0, 20.0], index=["x", "y"])
    result = pickle.loads(pickle.dumps(linear_ztest(release, value=value)))
    adjusted = adjust_pvalues(result, method="holm")
    assert list(result.pvalue.index) == list(adjusted.reject.index) == ["x", "y"]
    assert result.pvalue["y"] == 1
    with pytest.raises(InvalidParameterError, match="labels"):
        linear_ztest(release, value=value[::-1])


def test_without_noise_refused():
    with pytest.raises(InvalidParameterError, match="noise"):
        linear_ztest(Release([3.0], mechanism=Exact()), value=3)


def test_a_million_rows():
    values = np.arange(1_000_000) % 100 + 10
    release = Release(values, mechanism=Geometric(scale=3.0), threshold=10)
    pvalue = linear_ztest(release, value=12).pvalue
    few = linear_ztest(Release(values[:90], mechanism=Geometric(scale=3.0), threshold=10), value=12)
    np.testing.assert_allclose(pvalue[:90], few.pvalue, rtol=1e-9)


RELEASE = Release([14.0, 30.0], mechanism=Geometric(scale=3.0), threshold=10)
PLAIN = Release([14.0, 30.0], mechanism=Laplace(scale=3.0))
ODD = st.sampled_from(
    [
        None, True, "a", "", {}, [], [[]], [1], [1, 2], [1.5, 2], [1, 2, 3], [[1, 2], [3, 4]],
        float("nan"), float("inf"), [1, float("nan")], 1e300, [1e300, 1], 0, 5, 0.3, [0.2, 0.3],
        1j, [None, 1], object(), 1e100, -1e100, [40, 50],
    ]
)  # fmt: skip


@settings(derandomize=True, deadline=None, max_examples=100)
@given(ODD, ODD, ODD, st.sampled_from([RELEASE, PLAIN, None, [1, 2]]))
def test_only_own_errors_escape(value, weights, word, release):
    for keywords in ({}, {"weights": weights}, {"method": word}, {"alternative": word}):
        try:
            result = linear_ztest(release, value=value, **keywords)
        except DPInferError:
            continue
        assert ((result.pvalue >= 0) & (result.pvalue <= 1)).all()


def test_linear_functions_of_selected_values_are_refused():
    mixed = Release([14.0, 30.0, 9.0], mechanism=Laplace(scale=3.0), threshold=[10, -np.inf, 5])
    with pytest.raises(InvalidParameterError, match="selected by a threshold"):
        linear_ztest(mixed, [1, 1, 0])
    alone = linear_ztest([30.0], value=25.0, mechanism=Laplace(scale=3.0))
    assert linear_ztest(mixed, [0, 1, 0], 25.0).pvalue == pytest.approx(alone.pvalue[0], rel=1e-12)
    with pytest.raises(InvalidParameterError, match="method must be 'exact'"):
        linear_ztest(mixed, value=9, method="asymptotic")


@pytest.mark.parametrize("method", ["exact", "asymptotic", "monte-carlo"])
def test_each_estimate_of_a_fit(method):
    queries = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    fit = combine(Release([58.0, 43.0, 99.5], workload=queries, mechanism=Laplace(scale=3.0)))
    each = linear_ztest(fit, value=[60.0, 40.0, 98.0], method=method, rng=1)
    rows = np.asarray(fit.weights)
    again = linear_ztest(fit.release, rows, [60.0, 40.0, 98.0], method=method, rng=1)
    np.testing.assert_allclose(each.pvalue, again.pvalue, rtol=1e-9)
    np.testing.assert_allclose(each.statistic, again.statistic, rtol=1e-9)
