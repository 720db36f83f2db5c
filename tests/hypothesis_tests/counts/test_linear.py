"""Tests about confidential counts: enumeration, duality with intervals, simulation, fuzzing."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer import linear_confint
from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.hypothesis_tests import counts_2indep, linear_ztest
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    IndependentNoise,
    Laplace,
    WeightedSum,
)

ALTERNATIVES = ["two-sided", "larger", "smaller"]
LAWS = [Laplace(scale=3.0), Geometric(scale=3.0), Gaussian(sigma=4.0), DiscreteGaussian(sigma=2.5)]
REACH = 150


def pmf(scale):
    """Two-sided geometric probabilities on -REACH..REACH; beyond it is below 1e-20 for 3."""
    chances = np.exp(-np.abs(np.arange(-REACH, REACH + 1)) / scale)
    return chances / chances.sum()


def difference(scale1, scale2):
    """Values and probabilities of the difference of two geometric noises, by convolution."""
    return np.arange(-2 * REACH, 2 * REACH + 1), np.convolve(pmf(scale1), pmf(scale2))


def enumerated(values, chances, t, alternative):
    chosen = {"two-sided": abs(values) >= abs(t), "larger": values >= t, "smaller": values <= t}
    return chances[chosen[alternative]].sum()


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("scales", [(3.0, 3.0), (1.5, 3.0)])
def test_two_counts_enumerated(alternative, scales):
    values, chances = difference(*scales)
    t = np.arange(-20, 21)
    pair = tuple(Geometric(scale=s) for s in scales)
    result = counts_2indep(50 + t, np.full(t.size, 50), mechanism=pair, alternative=alternative)
    expected = [enumerated(values, chances, x, alternative) for x in t]
    np.testing.assert_allclose(result.pvalue, expected, rtol=0, atol=2e-12)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_weighted_sum_enumerated(alternative):
    grid = np.arange(-REACH, REACH + 1)
    sums = (2 * grid[:, None] - grid).ravel()
    chances = np.outer(pmf(2.0), pmf(3.0)).ravel()
    laws = [Geometric(scale=2.0), Geometric(scale=3.0)]
    for t in (-9, 0, 4, 17):
        result = linear_ztest([t, 0], [2, -1], t, mechanism=laws, alternative=alternative)
        moved = linear_ztest([0, 0], [2, -1], -t, mechanism=laws, alternative=alternative)
        assert result.pvalue == pytest.approx(enumerated(sums, chances, t, alternative), abs=2e-12)
        assert moved.pvalue == pytest.approx(enumerated(sums, chances, t, alternative), abs=2e-12)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_level_of_two_counts_is_exact(alternative):
    values, chances = difference(3.0, 3.0)
    noise = Geometric(scale=3.0)
    pvalue = counts_2indep(values, 0, mechanism=noise, alternative=alternative).pvalue
    for alpha in (0.001, 0.01, 0.05, 0.1, 0.5):
        assert chances[pvalue <= alpha].sum() <= alpha + 1e-12


@pytest.mark.parametrize("noise", LAWS, ids=lambda law: type(law).__name__)
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.2])
def test_duality_with_the_exact_interval(noise, alpha):
    values, weights = np.array([31.0, 12.0, 7.0]), np.array([1.0, -1.0, 2.0])
    interval = linear_confint(values, weights, mechanism=noise, alpha=alpha)
    low, high = float(np.ravel(interval.lower)[0]), float(np.ravel(interval.upper)[0])
    step = 1.0 if float(low).is_integer() else 1e-6 * (high - low)
    for end, out in ((low, -step), (high, step)):
        assert linear_ztest(values, weights, end, mechanism=noise).pvalue >= alpha - 1e-9
        assert linear_ztest(values, weights, end + out, mechanism=noise).pvalue < alpha


@pytest.mark.parametrize("noise", LAWS, ids=lambda law: type(law).__name__)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_against_plain_simulation(noise, alternative):
    reps = 200_000
    rng = np.random.default_rng(5)
    sums = noise.rvs(reps, rng=rng) - 2.0 * noise.rvs(reps, rng=rng)
    p = linear_ztest([5, 1], [1, -2], -4, mechanism=noise, alternative=alternative).pvalue
    share = enumerated(sums, np.full(reps, 1 / reps), 7.0, alternative)
    # within 6 standard errors: fails by accident with chance 2e-9
    assert abs(share - p) <= 6 * np.sqrt(p * (1 - p) / reps)


def test_monte_carlo_method():
    args = ([14, 40], [10, 21])
    exact = counts_2indep(*args, mechanism=Laplace(scale=3.0)).pvalue
    result = counts_2indep(
        *args, mechanism=Laplace(scale=3.0), method="monte-carlo", reps=50_000, rng=4
    )
    # 6 standard errors, and 1/(R + 1) for the replicate that is counted: chance 4e-9
    error = 6 * np.sqrt(exact * (1 - exact) / 50_000) + 1 / 50_001
    assert (np.abs(result.pvalue - exact) <= error).all()


def test_gaussian_is_the_textbook_z():
    rng = np.random.default_rng(2)
    a, b = rng.normal(100, 5, (2, 1_000))
    result = counts_2indep(a, b, mechanism=(Gaussian(sigma=3.0), Gaussian(sigma=4.0)))
    np.testing.assert_allclose(result.statistic, (a - b) / 5.0, rtol=1e-13)
    np.testing.assert_allclose(result.pvalue, 2 * stats.norm.sf(np.abs(a - b) / 5), rtol=1e-9)


@pytest.mark.parametrize("noise", LAWS, ids=lambda law: type(law).__name__)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("method", ["exact", "monte-carlo", "asymptotic"])
def test_null_distribution_gives_the_pvalue(noise, alternative, method):
    result = counts_2indep(
        [14, 3, 8], [10, 21, 8], mechanism=noise, alternative=alternative, method=method, rng=1
    )
    again = pickle.loads(pickle.dumps(result))
    for one in (result, again):
        found = one.null_distribution.pvalue(one.statistic, alternative)
        np.testing.assert_allclose(found, result.pvalue, rtol=1e-9, atol=1e-15)


def test_exact_for_one_of_a_pair_is_the_other_noise():
    noise = Geometric(scale=3.0)
    one = counts_2indep([14, 9], [10, 10], mechanism=(noise, Exact()))
    expected = [enumerated(np.arange(-REACH, REACH + 1), pmf(3.0), t, "two-sided") for t in (4, 1)]
    np.testing.assert_allclose(one.pvalue, expected, atol=1e-12)
    # a whole count without noise; the other one is continuous
    half = counts_2indep([14.5], [10], mechanism=(Laplace(scale=3.0), Exact()))
    assert half.pvalue[0] == pytest.approx(np.exp(-1.5), rel=1e-12)


def test_mixed_kinds_row_by_row():
    first = IndependentNoise([Laplace(scale=3.0), Geometric(scale=3.0)])
    second = IndependentNoise([Gaussian(sigma=2.0), Geometric(scale=1.0)])
    both = counts_2indep([14.5, 9], [10.25, 12], mechanism=(first, second)).pvalue
    singles = [
        counts_2indep(14.5, 10.25, mechanism=(Laplace(scale=3.0), Gaussian(sigma=2.0))).pvalue,
        counts_2indep(9, 12, mechanism=(Geometric(scale=3.0), Geometric(scale=1.0))).pvalue,
    ]
    np.testing.assert_allclose(both, singles, atol=2e-12)


def test_scalar_and_one_row_agree():
    noise = Laplace(scale=3.0)
    alone = counts_2indep(14.5, 10.0, mechanism=noise)
    row = counts_2indep([14.5], [10.0], mechanism=noise)
    assert np.ndim(alone.pvalue) == 0
    assert row.pvalue.shape == (1,)
    assert row.pvalue[0] == pytest.approx(float(alone.pvalue), rel=1e-12)
    matrix = linear_ztest([14.5, 10.0], [[1, -1]], mechanism=noise)
    assert matrix.pvalue.shape == (1,)
    assert matrix.pvalue[0] == pytest.approx(float(alone.pvalue), rel=1e-12)


def test_a_million_rows_are_the_few_rows():
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 100, (2, 1_000_000))
    many = counts_2indep(a, b, mechanism=Geometric(scale=10.0)).pvalue
    few = counts_2indep(a[:50], b[:50], mechanism=Geometric(scale=10.0)).pvalue
    np.testing.assert_allclose(many[:50], few, rtol=0, atol=2e-12)


def test_labels():
    a = pd.Series([14.0, 9.0], index=["x", "y"])
    result = counts_2indep(a, a - 3, mechanism=Laplace(scale=3.0))
    assert list(result.pvalue.index) == ["x", "y"]
    again = counts_2indep(a, (a - 3)[::-1], mechanism=Laplace(scale=3.0))
    np.testing.assert_array_equal(again.pvalue, result.pvalue)
    with pytest.raises(InvalidParameterError, match="labels"):
        counts_2indep(a, a.rename({"x": "z"}), mechanism=Laplace(scale=3.0))
    with pytest.raises(InvalidParameterError, match="labels"):
        counts_2indep(a, a, a[::-1], mechanism=Laplace(scale=3.0))
    straight = linear_ztest(a, {"x": 1, "y": -2}, mechanism=Laplace(scale=3.0))
    turned = linear_ztest(a, {"y": -2, "x": 1}, mechanism=Laplace(scale=3.0))
    assert straight.pvalue == turned.pvalue
    frame = pd.DataFrame({"y": [-2.0, 0.0], "x": [1.0, 1.0]}, index=["f", "g"])
    rows = linear_ztest(a, frame, mechanism=Laplace(scale=3.0)).pvalue
    assert list(rows.index) == ["f", "g"]
    assert rows["f"] == pytest.approx(float(straight.pvalue), rel=1e-12)
    with pytest.raises(InvalidParameterError):
        linear_ztest(a, {"x": 1, "z": -2}, mechanism=Laplace(scale=3.0))


def test_what_is_certain_is_refused():
    with pytest.raises(InvalidParameterError, match="noise"):
        counts_2indep([4], [5], mechanism=Exact())
    with pytest.raises(InvalidParameterError, match="noise"):
        linear_ztest([4, 5], [0, 0], mechanism=Laplace(scale=1.0))


ODD = st.sampled_from(
    [
        None, True, "a", "", {}, [], [[]], [1], [1, 2], [1.5, 2], [1, 2, 3], [[1, 2], [3, 4]],
        float("nan"), float("inf"), [1, float("nan")], [1, float("-inf")], 1e300, [1e300, 1],
        -1e300, 1e-300, 0, 5, 1j, [None, 1], ["a", "b"], object(), {"x": 1}, {1, 2},
        [1e100, -1e100],
    ]
)  # fmt: skip
WORDS = st.sampled_from(["exact", "asymptotic", "two-sided", "larger", "z", None, [], {}, 1, True])


@settings(derandomize=True, deadline=None, max_examples=150)
@given(ODD, ODD, ODD, st.sampled_from(LAWS), WORDS, WORDS)
def test_only_own_errors_escape(first, second, value, noise, alternative, method):
    for test in (counts_2indep, linear_ztest):
        for words in ({}, {"alternative": alternative, "method": method}):
            try:
                result = test(first, second, value, mechanism=noise, **words)
            except DPInferError:
                continue
            assert np.isfinite(result.statistic).all()
            assert ((result.pvalue >= 0) & (result.pvalue <= 1)).all()


@pytest.mark.parametrize("noise", [Geometric(scale=3.0), DiscreteGaussian(sigma=2.0)], ids=repr)
def test_far_tails_are_those_of_the_law_of_the_difference(noise):
    """Tables end where tails are small: p-values go on."""
    difference = np.array([20.0, 35.0, 60.0])
    pvalues = counts_2indep(difference, 0.0, mechanism=noise).pvalue
    law = WeightedSum([1.0, -1.0], noise)
    assert pvalues == pytest.approx(2.0 * np.exp(law.logsf(difference - 1.0)), rel=1e-9)
    assert (pvalues > 0).all()


def test_each_value_has_one_target():
    for target in ([10, 11], [[10], [11]]):
        with pytest.raises(InvalidParameterError, match=r"^value must be"):
            linear_ztest([5.5], value=target, mechanism=Laplace(scale=2.0))
    with pytest.raises(InvalidParameterError, match="of one value, give a list of it"):
        linear_ztest(5.5, value=10, mechanism=Laplace(scale=2.0))
