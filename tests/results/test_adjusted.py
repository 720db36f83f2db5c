"""P-values adjusted for many tests: statsmodels, brute force, simulated error rates, fuzzing."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from dpinfer import adjust_pvalues
from dpinfer.errors import ApproximationWarning, DPInferError
from dpinfer.hypothesis_tests import counts_2indep
from dpinfer.mechanisms import Geometric, Laplace
from dpinfer.results.hypothesis import RATES

PVALUES = np.array([0.001, 0.2, 0.011, 0.04, 0.9, 0.012, 1.0, 0.0])


@pytest.mark.parametrize("method", list(RATES))
def test_adjusted_as_statsmodels_does(method):
    result = adjust_pvalues(PVALUES, alpha=0.1, method=method)
    with np.errstate(divide="ignore"):  # log(1 - p) where p = 1
        reject, adjusted = multipletests(PVALUES, alpha=0.1, method=method)[:2]
    np.testing.assert_array_equal(result.reject, reject)
    np.testing.assert_array_equal(result.pvalue_adjusted, adjusted)
    np.testing.assert_array_equal(result.pvalue, PVALUES)


def test_holm_is_the_closed_test():
    """Holm's p-value is the largest Bonferroni p-value of the subsets a test is in."""
    p = PVALUES[:6]
    subsets = [s for r in range(1, 7) for s in itertools.combinations(range(6), r)]
    expected = [
        max(min(len(s) * p[list(s)].min(), 1.0) for s in subsets if i in s) for i in range(6)
    ]
    np.testing.assert_allclose(adjust_pvalues(p).pvalue_adjusted, expected, rtol=1e-12)


def test_order_does_not_matter():
    order = np.random.default_rng(1).permutation(PVALUES.size)
    straight, turned = adjust_pvalues(PVALUES), adjust_pvalues(PVALUES[order])
    np.testing.assert_array_equal(straight.pvalue_adjusted[order], turned.pvalue_adjusted)


def test_family_wise_error_of_noisy_counts():
    studies, rows = 2_000, 20
    rng, noise = np.random.default_rng(7), Geometric(scale=3.0)
    a = 50 + noise.rvs((studies, rows), rng=rng)
    b = 50 + noise.rvs((studies, rows), rng=rng)
    pvalues = counts_2indep(a.ravel(), b.ravel(), mechanism=noise).pvalue.reshape(a.shape)
    # Holm rejects something exactly where Bonferroni does, which is quicker
    wrong = sum(bool(adjust_pvalues(p, method="bonferroni").reject.any()) for p in pvalues)
    # 6.5 standard errors: fails by accident with chance below 1e-9
    assert wrong / studies <= 0.05 + 6.5 * np.sqrt(0.05 * 0.95 / studies)


def test_labels_and_pickle():
    a = pd.Series([530.0, 118.0, 70.0], index=["x", "y", "z"])
    tests = counts_2indep(a, [460, 121, 10], mechanism=Geometric(scale=10.0))
    result = pickle.loads(pickle.dumps(adjust_pvalues(tests)))
    frame = result.summary_frame()
    assert list(frame.index) == ["x", "y", "z"]
    assert list(frame.columns) == ["statistic", "pvalue", "pvalue_adjusted", "reject"]
    np.testing.assert_array_equal(frame["pvalue"], tests.pvalue)
    assert "holm" in str(result)
    assert "y" in str(result)
    assert repr(result) == "AdjustedTests(3 tests, 2 rejected, holm)"
    series = adjust_pvalues(pd.Series([0.01, 0.5], index=["p", "q"]))
    assert list(series.pvalue_adjusted.index) == ["p", "q"]


def test_one_test():
    alone = adjust_pvalues(counts_2indep(14, 10, mechanism=Laplace(scale=3.0)))
    assert alone.pvalue_adjusted[0] == alone.pvalue[0]
    assert adjust_pvalues(0.03).reject[0]
    assert "Many tests" in adjust_pvalues([0.03]).summary()


def test_results_are_read_only():
    result = adjust_pvalues(PVALUES)
    with pytest.raises(ValueError, match="read-only"):
        result.pvalue[0] = 1.0


def test_too_few_replicates():
    counts = np.full(30, 60), np.full(30, 58)
    keywords = {"mechanism": Laplace(scale=3.0), "method": "monte-carlo", "rng": 1}
    with pytest.warns(ApproximationWarning, match="replicates"):
        adjust_pvalues(counts_2indep(*counts, reps=99, **keywords))
    adjust_pvalues(counts_2indep(*counts, reps=9_999, **keywords))


ODD = st.sampled_from(
    [
        None, True, "a", "holm", {}, [], [[]], [0.1], [0.1, 1.0], [0, 0], [1.5, 2], [[0.1, 0.2]],
        float("nan"), float("inf"), [0.1, float("nan")], 1e300, [1e300, 1], 0, 1, -1, 0.05, 1j,
        [None, 1], object(), ["a"], 1e-300, [1e-300, 1e-320],
    ]
)  # fmt: skip
NAMES = st.sampled_from(list(RATES))


@settings(derandomize=True, deadline=None, max_examples=30)
@given(ODD, ODD, ODD, NAMES)
def test_only_own_errors_escape(tests, alpha, method, name):
    for keywords in ({"method": name}, {"alpha": alpha}, {"method": method}):
        try:
            result = adjust_pvalues(tests, **keywords)
        except DPInferError:
            continue
        adjusted = np.asarray(result.pvalue_adjusted)
        assert ((adjusted >= 0) & (adjusted <= 1)).all()
