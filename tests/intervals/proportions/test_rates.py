"""Intervals for Poisson rates: their equations, their coverage, and what they are without noise."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.rates import confint_poisson

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.hypothesis_tests import poisson_ztest
from dpinfer.intervals import poisson_confint
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace

LAWS = {
    "geometric": Geometric.from_epsilon(1.0),
    "wide geometric": Geometric.from_epsilon(0.05),
    "laplace": Laplace(scale=1.5),
    "gaussian": Gaussian(sigma=3.0),
    "discrete gaussian": DiscreteGaussian(sigma=2.0),
    "exact": Exact(),
}


class TestWithoutNoise:
    @pytest.mark.parametrize(("method", "theirs"), [("exact", "exact-c"), ("score", "score")])
    def test_is_what_statsmodels_has(self, method, theirs):
        count = np.arange(1, 60)
        lower, upper = poisson_confint(count, 2.5, mechanism=Exact(), method=method)
        expected = confint_poisson(count, 2.5, method=theirs)
        np.testing.assert_allclose(lower, expected[0], rtol=1e-12)
        np.testing.assert_allclose(upper, expected[1], rtol=1e-12)

    def test_asymptotic_is_the_wald_interval(self):
        count = np.arange(4, 60)
        lower, upper = poisson_confint(count, 2.5, mechanism=Exact(), method="asymptotic")
        expected = confint_poisson(count, 2.5, method="waldccv")
        half = stats.norm.isf(0.025) * np.sqrt(count) / 2.5
        np.testing.assert_allclose(lower, count / 2.5 - half, rtol=1e-12)
        np.testing.assert_allclose(upper, count / 2.5 + half, rtol=1e-12)
        # which statsmodels has with half an event more in the variance
        assert (upper <= expected[1]).all()

    def test_mid_p_halves_the_probability_of_the_count(self):
        count = np.arange(1, 40)
        lower, upper = poisson_confint(count, mechanism=Exact(), method="mid-p")
        at_least = stats.poisson.sf(count, lower) + 0.5 * stats.poisson.pmf(count, lower)
        at_most = stats.poisson.cdf(count - 1, upper) + 0.5 * stats.poisson.pmf(count, upper)
        np.testing.assert_allclose(at_least, 0.025, rtol=1e-11)
        np.testing.assert_allclose(at_most, 0.025, rtol=1e-11)

    def test_no_events(self):
        lower, upper = poisson_confint(0, mechanism=Exact())
        assert lower == 0.0
        assert upper == pytest.approx(-np.log(0.025), rel=1e-12)


class TestEquations:
    @pytest.mark.thinned("law", "alpha", every=2)
    @pytest.mark.parametrize("law", LAWS)
    @pytest.mark.parametrize("alpha", [0.3, 0.05, 1e-6])
    def test_tails_at_the_ends_are_half_of_alpha(self, law, alpha):
        noise, rng = LAWS[law], np.random.default_rng(3)
        mean = np.repeat([0.5, 2.0, 7.0, 40.0, 300.0, 2e4, 3e6], 4)
        t = rng.poisson(mean) + noise.rvs(mean.size, rng=rng)
        exposure = rng.uniform(0.5, 2.0, mean.size)
        lower, upper = poisson_confint(t, exposure, mechanism=noise, alpha=alpha)
        for end, side in ((lower, "larger"), (upper, "smaller")):
            inside = np.isfinite(end) & (end > 0.0)
            assert inside.any()
            test = poisson_ztest(
                t[inside], exposure[inside], end[inside], mechanism=noise, alternative=side
            )
            np.testing.assert_allclose(test.pvalue, alpha / 2, rtol=3e-11)

    @pytest.mark.parametrize("noise", [LAWS["geometric"], Laplace(scale=2.0)])
    def test_tests_at_the_ends_have_half_of_alpha_as_pvalue(self, noise):
        count, exposure = np.array([9.0, 130.0, 4000.0]), np.array([1.0, 3.0, 0.5])
        lower, upper = poisson_confint(count, exposure, mechanism=noise)
        larger = poisson_ztest(count, exposure, lower, mechanism=noise, alternative="larger")
        smaller = poisson_ztest(count, exposure, upper, mechanism=noise, alternative="smaller")
        np.testing.assert_allclose(larger.pvalue, 0.025, rtol=0, atol=1e-12)
        np.testing.assert_allclose(smaller.pvalue, 0.025, rtol=0, atol=1e-12)

    @pytest.mark.parametrize("noise", [Laplace(scale=0.4), Gaussian(sigma=2.0)])
    def test_many_counts_of_one_mechanism_are_interpolated_accurately(self, noise):
        rng = np.random.default_rng(4)
        t = rng.poisson(4.0, 20_000) + noise.rvs(20_000, rng=rng)
        rows = rng.choice(t.size, 500, replace=False)
        many, few = poisson_confint(t, mechanism=noise), poisson_confint(t[rows], mechanism=noise)
        assert (many.empty[rows] == few.empty).all()
        there = ~few.empty
        np.testing.assert_allclose(many.lower[rows][there], few.lower[there], rtol=0, atol=1e-10)
        np.testing.assert_allclose(many.upper[rows][there], few.upper[there], rtol=0, atol=1e-10)

    def test_one_sided_ends_spend_alpha_at_one_end(self):
        options = {"mechanism": Geometric.from_epsilon(1.0)}
        both = poisson_confint([3, 10], alpha=0.1, **options)
        above = poisson_confint([3, 10], alpha=0.05, alternative="larger", **options)
        below = poisson_confint([3, 10], alpha=0.05, alternative="smaller", **options)
        assert (above.lower == both.lower).all()
        assert np.isposinf(above.upper).all()
        assert (below.upper == both.upper).all()
        assert (below.lower == 0.0).all()


@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0])
def test_exact_coverage_never_falls_below_the_level(scale):
    """By summing over all outcomes, the law of the count and of the noise out to 1e-12."""
    noise, alpha = Geometric(scale=scale), 0.1
    rate = np.concatenate([[1e-9], np.linspace(0.05, 30.0, 300)])[:, np.newaxis]
    far = int(noise.isf(1e-12)) + 1
    weights = noise.pmf(np.arange(-far, far + 1))
    most = int(stats.poisson.isf(1e-13, 30.0)) + 1
    pmf = stats.poisson.pmf(np.arange(most + 1), rate)
    law = np.stack([np.convolve(row, weights) for row in pmf])
    t = np.arange(-far, most + far + 1)
    for alternative in ("two-sided", "larger", "smaller"):
        lower, upper = poisson_confint(t, mechanism=noise, alpha=alpha, alternative=alternative)
        coverage = (law * ((lower <= rate) & (rate <= upper))).sum(axis=1)
        assert coverage.min() >= 1.0 - alpha - 1e-10


class TestApproximations:
    def test_score_solves_its_equation(self):
        noise, z = Laplace(scale=4.0), stats.norm.isf(0.025)
        count = np.array([3.0, 90.5, 1e9])
        for end in poisson_confint(count, mechanism=noise, method="score"):
            inside = end > 0.0
            mu = end[inside]
            left, right = (count[inside] - mu) ** 2, z**2 * (mu + noise.variance)
            np.testing.assert_allclose(left, right, rtol=1e-9)

    def test_asymptotic_has_the_variance_of_the_noise(self):
        lower, upper = poisson_confint(80, 4.0, mechanism=Gaussian(sigma=6.0), method="asymptotic")
        half = stats.norm.isf(0.025) * np.sqrt(80 + 36.0)
        assert float(lower) == pytest.approx((80 - half) / 4, rel=1e-12)
        assert float(upper) == pytest.approx((80 + half) / 4, rel=1e-12)


class TestResult:
    def test_counts_far_below_zero_fit_no_rate(self):
        intervals = poisson_confint([-37, -3, 10], 2.0, mechanism=Geometric(scale=1.0))
        assert intervals.empty.tolist() == [True, False, False]
        assert intervals.lower[1] == 0.0
        assert intervals.estimate.tolist() == [-18.5, -1.5, 5.0]

    def test_labels_and_what_is_covered(self):
        count = pd.Series([3, 8], index=["a", "b"])
        intervals = poisson_confint(count, mechanism=Geometric(scale=1.0), simultaneous=True)
        assert intervals.upper.index.tolist() == ["a", "b"]
        assert intervals.uncertainty == "noise+sampling"
        assert intervals.simultaneous

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"count": 2.5}, "whole numbers"),
            ({"count": 1e16}, "count must be <= 1e\\+15"),
            ({"exposure": 0.0}, "exposure must be > 0"),
            ({"exposure": [1, 2, 3], "count": [1, 2]}, "one entry for each of the 2 values"),
            ({"method": "wilson"}, "method"),
        ],
    )
    def test_mistakes_are_named(self, change, message):
        arguments = {"count": 3, "mechanism": Geometric(scale=1.0)} | change
        with pytest.raises(InvalidParameterError, match=message):
            poisson_confint(arguments.pop("count"), **arguments)

    @settings(derandomize=True, deadline=None, max_examples=20)
    @given(
        count=st.one_of(
            st.integers(-(10**6), 10**6),
            st.floats(allow_nan=True, allow_infinity=True),
            st.sampled_from(["three", None, 1j, [], [[1]], 1e15, -1e100, [1, 2, 3]]),
        ),
        exposure=st.one_of(
            st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([1e-100, 1e100, []])
        ),
        noise=st.sampled_from([*LAWS.values(), Laplace(scale=1e100), Geometric(scale=1e-100)]),
        alpha=st.sampled_from([0.05, 1e-300, 1 - 1e-16, 0.0, np.nan]),
        method=st.sampled_from(["exact", "mid-p", "score", "asymptotic"]),
        alternative=st.sampled_from(["two-sided", "larger", "smaller"]),
    )
    def test_gives_an_answer_or_an_error_that_is_ours(
        self, count, exposure, noise, alpha, method, alternative
    ):
        try:
            intervals = poisson_confint(
                count,
                exposure,
                mechanism=noise,
                alpha=alpha,
                method=method,
                alternative=alternative,
            )
        except DPInferError:
            return
        lower, upper = np.asarray(intervals.lower), np.asarray(intervals.upper)
        assert not np.isnan([lower, upper]).any()
        assert ((lower >= 0.0) | np.asarray(intervals.empty)).all()


def test_far_tails_of_large_counts():
    """Where SciPy's incomplete gamma function is off, by sums of all terms."""
    count = np.array([10**4, 10**6, 4 * 10**7])
    lower, upper = poisson_confint(count, mechanism=Exact(), alpha=2e-9)
    at_least, at_most = stats.poisson.sf(count - 1, lower), stats.poisson.cdf(count, upper)
    for end, side in ((lower, "larger"), (upper, "smaller")):
        test = poisson_ztest(count, 1.0, end, mechanism=Exact(), alternative=side)
        np.testing.assert_allclose(test.pvalue, 1e-9, rtol=1e-9)
    # SciPy agrees as long as counts are not large
    np.testing.assert_allclose([at_least[0], at_most[0]], 1e-9, rtol=1e-9)
