"""Intervals for a proportion with a noisy number of trials: they invert the guaranteed tests."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.hypothesis_tests import proportions_ztest
from dpinfer.intervals import proportion_confint
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace

NARROW = Geometric(scale=0.5)


@pytest.mark.thinned("is_total", "noise", every=2)
@pytest.mark.parametrize("is_total", [False, True])
@pytest.mark.parametrize(
    ("noise", "other"),
    [(Geometric(scale=1.0), Geometric(scale=0.5)), (Gaussian(sigma=1.0), Gaussian(sigma=2.0))],
    ids=repr,
)
def test_tests_at_the_ends_have_half_of_alpha_as_pvalue_or_less(noise, other, is_total):
    count, nobs = np.array([9.0, 31.0]), np.array([40.0, 77.0])
    options = {"mechanism": noise, "nobs_mechanism": other, "nobs_is_total": is_total}
    lower, upper = proportion_confint(count, nobs, **options)
    for end, alternative, step in ((lower, "larger", 1e-6), (upper, "smaller", -1e-6)):
        at, outside = (
            proportions_ztest(count, nobs, p, alternative=alternative, **options).pvalue
            for p in (end, end - step)
        )
        # the tests order releases better than the intervals do: all that an interval leaves out is
        # rejected, and a little more
        np.testing.assert_array_less(outside, 0.025)
        np.testing.assert_array_less(0.015, at)


def test_no_noise_in_the_number_is_a_known_number():
    count, noise = [3, 18, 41], Geometric(scale=1.0)
    known = proportion_confint(count, 40, mechanism=noise)
    told = proportion_confint(count, 40, mechanism=noise, nobs_mechanism=Exact())
    np.testing.assert_allclose(told.lower, known.lower, rtol=0, atol=1e-9)
    np.testing.assert_allclose(told.upper, known.upper, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("n", "is_total"),
    [
        (2, False),
        pytest.param(1, True, marks=pytest.mark.slow),
        pytest.param(4, False, marks=pytest.mark.slow),
        pytest.param(12, False, marks=pytest.mark.study),
        pytest.param(12, True, marks=pytest.mark.study),
    ],
)
def test_coverage_never_falls_below_the_level(n, is_total):
    """By summing over the outcomes, whole-numbered noise out to 1e-5 in each tail."""
    reach = int(NARROW.isf(1e-5))
    x, e1, e2 = (
        axis.ravel()
        for axis in np.meshgrid(
            np.arange(n + 1), *[np.arange(-reach, reach + 1)] * 2, indexing="ij"
        )
    )
    count, nobs = x + e1, n + e2 + (e1 if is_total else 0)
    pairs, kind = np.unique(np.stack([count, nobs]), axis=1, return_inverse=True)
    intervals = proportion_confint(
        *pairs, mechanism=NARROW, nobs_mechanism=NARROW, nobs_is_total=is_total, alpha=0.2
    )
    chance = NARROW.pmf(e1) * NARROW.pmf(e2)
    for p in (0.0, 0.07, 0.25, 1 / 3, 0.5, 0.61803, 0.9, 1.0):
        inside = intervals.contains(p)[kind.ravel()]
        missed = (stats.binom.pmf(x, n, p) * chance * ~inside).sum()
        assert missed <= 0.2


def test_it_is_wider_than_with_the_number_known():
    options = {"mechanism": Geometric(scale=2.0)}
    known = proportion_confint(30, 100, **options)
    noisy = proportion_confint(30, 100, nobs_mechanism=Geometric(scale=2.0), **options)
    assert noisy.lower < known.lower < known.upper < noisy.upper


def test_asymptotic_has_both_variances():
    noise, other = Gaussian(sigma=3.0), Gaussian(sigma=5.0)
    options = {"mechanism": noise, "nobs_mechanism": other, "method": "asymptotic"}
    z = stats.norm.isf(0.025)
    for is_total, weight in ((False, 1.0), (True, 0.7)):
        lower, upper = proportion_confint(60, 200, nobs_is_total=is_total, **options)
        half = z * np.sqrt(200 * 0.21 + weight**2 * 9 + 0.09 * 25) / 200
        assert float(lower) == pytest.approx(0.3 - half, rel=1e-12)
        assert float(upper) == pytest.approx(0.3 + half, rel=1e-12)


def test_counts_that_no_proportion_explains():
    intervals = proportion_confint(
        [-30, 5, 90], [40, 40, 40], mechanism=NARROW, nobs_mechanism=NARROW
    )
    assert intervals.empty.tolist() == [True, False, True]


def test_one_sided_and_labels_and_notes():
    count = pd.Series([4, 9], index=["a", "b"])
    options = {"mechanism": NARROW, "nobs_mechanism": NARROW}
    both = proportion_confint(count, 20, alpha=0.1, **options)
    above = proportion_confint(count, 20, alpha=0.05, alternative="larger", **options)
    np.testing.assert_allclose(above.lower, both.lower, rtol=0, atol=1e-9)
    assert (above.upper == 1.0).all()
    assert above.lower.index.tolist() == ["a", "b"]
    assert any("numerical search" in note for note in both.notes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nuisance_alpha": 0.03}, "nuisance_alpha must be below 0.025"),
        ({"nuisance_alpha": 0.0}, "nuisance_alpha must be > 0"),
        ({"method": "wilson"}, "method must be one of 'exact', 'asymptotic'"),
        ({"nobs_mechanism": None, "nobs_is_total": True}, "nobs_mechanism must be given"),
        ({"nobs_is_total": 1}, "nobs_is_total"),
        ({"nobs": 20.5}, "whole numbers"),
    ],
)
def test_mistakes_are_named(change, message):
    arguments = {"nobs": 20, "mechanism": NARROW, "nobs_mechanism": NARROW} | change
    with pytest.raises(InvalidParameterError, match=message):
        proportion_confint(4, arguments.pop("nobs"), **arguments)


@settings(derandomize=True, deadline=None, max_examples=8)
@given(
    count=st.sampled_from([-40, 0, 3, 21, 1e100, 2.5, np.nan, [1, 2], "a"]),
    nobs=st.sampled_from([-5, 0, 1, 20, 1e13, np.inf, [3, 4], None]),
    noise=st.sampled_from([NARROW, Exact(), Gaussian(sigma=0.5), DiscreteGaussian(sigma=1.0)]),
    other=st.sampled_from([NARROW, Exact(), Laplace(scale=1e90)]),
    method=st.sampled_from(["exact", "asymptotic"]),
    is_total=st.booleans(),
)
def test_gives_an_answer_or_an_error_that_is_ours(count, nobs, noise, other, method, is_total):
    try:
        lower, upper = proportion_confint(
            count,
            nobs,
            mechanism=noise,
            nobs_mechanism=other,
            nobs_is_total=is_total,
            method=method,
        )
    except DPInferError:
        return
    assert not np.isnan([lower, upper]).any()
