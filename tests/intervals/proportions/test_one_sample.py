"""Intervals for a proportion: their equations, their coverage, and what they are without noise."""

import mpmath
import numpy as np
import pandas as pd
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats
from statsmodels.stats import proportion as sm

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.hypothesis_tests import proportions_ztest
from dpinfer.intervals import proportion_confint
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    Tulap,
    WeightedSum,
)

LAWS = {
    "geometric": Geometric.from_epsilon(1.0),
    "wide geometric": Geometric.from_epsilon(0.05),
    "laplace": Laplace(scale=1.5),
    "gaussian": Gaussian(sigma=3.0),
    "discrete gaussian": DiscreteGaussian(sigma=2.0),
    "sum": WeightedSum([1.0, 1.0], [Geometric(scale=1.0), Geometric(scale=3.0)]),
    "exact": Exact(),
}


def published(noise, n, p, size, seed):
    rng = np.random.default_rng(seed)
    return rng.binomial(n, p, size) + noise.rvs(size, rng=rng)


class TestWithoutNoise:
    count = np.arange(41)

    @pytest.mark.parametrize(
        ("method", "theirs"), [("exact", "beta"), ("wilson", "wilson"), ("asymptotic", "normal")]
    )
    @pytest.mark.parametrize("alternative", ["two-sided", "larger", "smaller"])
    def test_is_what_statsmodels_has(self, method, theirs, alternative):
        lower, upper = proportion_confint(
            self.count, 40, mechanism=Exact(), method=method, alternative=alternative
        )
        # a one-sided interval is one end of the two-sided one that errs twice as often
        twice = 0.05 if alternative == "two-sided" else 0.1
        expected = sm.proportion_confint(self.count, 40, alpha=twice, method=theirs)
        if alternative != "smaller":
            np.testing.assert_allclose(lower, expected[0], rtol=0, atol=1e-12)
        if alternative != "larger":
            np.testing.assert_allclose(upper, expected[1], rtol=0, atol=1e-12)
        assert alternative != "smaller" or (lower == 0).all()
        assert alternative != "larger" or (upper == 1).all()

    def test_mid_p_halves_the_probability_of_the_count(self):
        lower, upper = proportion_confint(self.count, 40, mechanism=Exact(), method="mid-p")
        law = stats.binom(40, lower[1:])
        at_least = law.sf(self.count[1:]) + 0.5 * law.pmf(self.count[1:])
        np.testing.assert_allclose(at_least, 0.025, rtol=1e-11)
        law = stats.binom(40, upper[:-1])
        at_most = law.cdf(self.count[:-1]) - 0.5 * law.pmf(self.count[:-1])
        np.testing.assert_allclose(at_most, 0.025, rtol=1e-11)
        assert lower[0] == 0.0
        assert upper[-1] == 1.0

    def test_hardly_any_noise_is_no_noise(self):
        expected = np.asarray(proportion_confint(self.count, 40, mechanism=Exact()))
        for noise in (Geometric(scale=0.02), Laplace(scale=1e-15)):
            ends = np.asarray(proportion_confint(self.count + 0.0, 40, mechanism=noise))
            # a continuous noise decides ties by a coin, at the count itself
            if noise.is_integer:
                np.testing.assert_allclose(ends, expected, rtol=0, atol=1e-12)
            else:
                middle = np.asarray(
                    proportion_confint(self.count, 40, mechanism=Exact(), method="mid-p")
                )
                np.testing.assert_allclose(ends, middle, rtol=0, atol=1e-9)

    def test_a_count_beyond_the_trials_fits_no_proportion(self):
        intervals = proportion_confint([-1, 0, 40, 41], 40, mechanism=Exact())
        assert intervals.empty.tolist() == [True, False, False, True]


class TestEquations:
    @pytest.mark.thinned("law", "alpha", every=2)
    @pytest.mark.parametrize("law", LAWS)
    @pytest.mark.parametrize("alpha", [0.3, 0.05, 1e-6])
    def test_tails_at_the_ends_are_half_of_alpha(self, law, alpha):
        noise, rng = LAWS[law], np.random.default_rng(3)
        largest = [] if law == "sum" else [30_000, 10**7]
        n = np.repeat([1, 2, 7, 40, 300, 2000, *largest], 4)
        p = rng.uniform(0.0, 1.0, n.size) ** 3
        t = rng.binomial(n, p) + noise.rvs(n.size, rng=rng)
        lower, upper = proportion_confint(t, n, mechanism=noise, alpha=alpha)
        self.check(noise, t, n, lower, 1, alpha / 2)
        self.check(noise, t, n, upper, -1, alpha / 2)

    @staticmethod
    def check(noise, t, n, end, side, probability):
        inside = (end > 0.0) & (end < 1.0)
        assert inside.any()
        tail = proportions_ztest(
            t[inside],
            n[inside],
            end[inside],
            mechanism=noise,
            alternative="larger" if side > 0 else "smaller",
        ).pvalue
        # a proportion near 1 is a multiple of 1e-16; for 10⁷ trials the incomplete beta function of
        # SciPy before 1.17 is off by up to 5e-10, and not monotone
        version = tuple(map(int, scipy.__version__.split(".")[:2]))
        rtol = 1e-11 if version >= (1, 17) else 1e-9
        np.testing.assert_allclose(tail, probability, rtol=rtol, atol=1e-15)

    @pytest.mark.parametrize("law", ["geometric", "laplace", "gaussian", "exact"])
    def test_ends_agree_with_mpmath(self, law):
        noise = LAWS[law]
        count = 13.0 if noise.is_integer else 12.7
        lower, upper = proportion_confint(count, 60, mechanism=noise, alpha=0.02)
        with mpmath.workdps(40):
            for end, side in ((lower, 1), (upper, -1)):
                assert abs(tail(noise, count, 60, mpmath.mpf(float(end)), side) - 0.01) < 1e-14

    @pytest.mark.parametrize("noise", [LAWS["geometric"], Laplace(scale=2.0), Gaussian(sigma=1.0)])
    def test_tests_at_the_ends_have_half_of_alpha_as_pvalue(self, noise):
        n = np.array([30, 200, 5000])
        count = np.array([9.0, 130.0, 77.0])
        lower, upper = proportion_confint(count, n, mechanism=noise)
        larger = proportions_ztest(count, n, lower, mechanism=noise, alternative="larger")
        smaller = proportions_ztest(count, n, upper, mechanism=noise, alternative="smaller")
        np.testing.assert_allclose(larger.pvalue, 0.025, rtol=0, atol=1e-12)
        np.testing.assert_allclose(smaller.pvalue, 0.025, rtol=0, atol=1e-12)

    def test_one_sided_ends_spend_alpha_at_one_end(self):
        options = {"mechanism": Geometric.from_epsilon(1.0)}
        both = proportion_confint([3, 10], 40, alpha=0.1, **options)
        above = proportion_confint([3, 10], 40, alpha=0.05, alternative="larger", **options)
        below = proportion_confint([3, 10], 40, alpha=0.05, alternative="smaller", **options)
        assert (above.lower == both.lower).all()
        assert (above.upper == 1.0).all()
        assert (below.upper == both.upper).all()
        assert (below.lower == 0.0).all()

    @pytest.mark.thinned("noise", "n", every=2)
    @pytest.mark.parametrize("noise", [Laplace(scale=0.4), Laplace(scale=8.0), Gaussian(sigma=2.0)])
    @pytest.mark.parametrize("n", [4, 60])
    def test_many_counts_of_one_setting_are_interpolated_accurately(self, noise, n):
        t = published(noise, n, 0.3, 20_000, seed=4)
        rows = np.random.default_rng(5).choice(t.size, 500, replace=False)
        many = proportion_confint(t, n, mechanism=noise)
        few = proportion_confint(t[rows], n, mechanism=noise)
        assert (many.empty[rows] == few.empty).all()
        there = ~few.empty
        for ours, direct in ((many.lower[rows], few.lower), (many.upper[rows], few.upper)):
            np.testing.assert_allclose(ours[there], direct[there], rtol=0, atol=1e-11)

    @pytest.mark.parametrize("method", ["exact", "mid-p", "wilson", "asymptotic"])
    def test_rows_are_worked_on_each_by_itself(self, method):
        n, count = np.array([9, 30, 9, 400]), np.array([2, 31, 2, 1])
        noise = [Geometric(scale=1.0), Gaussian(sigma=4.0), Exact(), Geometric(scale=3.0)]
        together = proportion_confint(count, n, mechanism=noise, method=method)
        for i, law in enumerate(noise):
            alone = proportion_confint(count[i], n[i], mechanism=law, method=method)
            assert together.lower[i] == pytest.approx(float(alone.lower), rel=1e-12)
            assert together.upper[i] == pytest.approx(float(alone.upper), rel=1e-12)

    def test_scales_in_an_array_are_those_of_the_rows(self):
        count = np.tile([3.0, 9.0], 30)
        scale = np.repeat([1.0, 2.0, 4.0], 20)
        many = proportion_confint(count, 20, mechanism=Geometric(scale=scale))
        for s in (1.0, 2.0, 4.0):
            rows = scale == s
            alone = proportion_confint(count[rows], 20, mechanism=Geometric(scale=s))
            np.testing.assert_allclose(many.lower[rows], alone.lower, rtol=1e-12)
            np.testing.assert_allclose(many.upper[rows], alone.upper, rtol=1e-12)


def tail(noise, t, n, p, side):
    """P(T >= t) or P(T <= t) in as many digits as mpmath works with."""
    total = mpmath.mpf(0)
    for k in range(n + 1):
        pmf = mpmath.binomial(n, k) * p**k * (1 - p) ** (n - k)
        total += pmf * at_most(noise, side * (k - mpmath.mpf(t)))
    return total


def at_most(noise, x):
    """P(e <= x)."""
    if isinstance(noise, Exact):
        return mpmath.mpf(x >= 0)
    if isinstance(noise, Gaussian):
        return mpmath.ncdf(x / mpmath.mpf(noise.sigma))
    scale = mpmath.mpf(noise.scale)
    if isinstance(noise, Laplace):
        far = mpmath.exp(-abs(x) / scale) / 2
        return 1 - far if x > 0 else far
    r = mpmath.exp(-1 / scale)
    return 1 - r ** (x + 1) / (1 + r) if x >= 0 else r ** (-x) / (1 + r)


class TestWhatNoiseAllows:
    def test_counts_far_below_or_above_fit_no_proportion(self):
        intervals = proportion_confint([-37, -3, 10, 23, 60], 20, mechanism=Geometric(scale=1.0))
        assert intervals.empty.tolist() == [True, False, False, False, True]
        assert intervals.lower[1] == 0.0
        assert intervals.upper[3] == 1.0
        assert intervals.width[0] == 0.0

    def test_emptiness_starts_where_the_noise_is_that_rare(self):
        noise = Laplace(scale=2.0)
        limit = float(noise.isf(0.025))
        count = [-limit - 1e-9, -limit + 1e-9, 50 + limit - 1e-9, 50 + limit + 1e-9]
        intervals = proportion_confint(count, 50, mechanism=noise)
        assert intervals.empty.tolist() == [True, False, False, True]

    def test_wide_noise_says_nothing(self):
        lower, upper = proportion_confint([-37, 4, 60], 20, mechanism=Laplace(scale=1e6))
        assert (lower == 0.0).all()
        assert (upper == 1.0).all()

    def test_mirrored_counts_have_mirrored_intervals(self):
        count = np.arange(-3, 24)
        for method in ("exact", "mid-p", "wilson", "asymptotic"):
            lower, upper = proportion_confint(
                count, 20, mechanism=Geometric(scale=1.0), method=method
            )
            there = lower <= upper
            np.testing.assert_allclose(upper[there], 1.0 - lower[::-1][there], rtol=0, atol=1e-12)

    def test_estimate_is_unbiased_and_not_clipped(self):
        intervals = proportion_confint([-3, 30], 20, mechanism=Geometric(scale=3.0))
        assert intervals.estimate.tolist() == [-0.15, 1.5]


@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("n", [1, 5, 30])
class TestCoverage:
    """Coverage by summing over all outcomes, whole-numbered noise out to 1e-12."""

    alpha = 0.1
    p = np.concatenate([[0.0, 1e-4], np.linspace(0.005, 0.995, 199), [1.0 - 1e-4, 1.0]])

    def law(self, n, scale):
        """Probabilities of all outcomes, one row for each p."""
        noise = Geometric(scale=scale)
        far = int(noise.isf(1e-12)) + 1
        e = np.arange(-far, far + 1)
        weights = noise.pmf(e)
        t = np.arange(-far, n + far + 1)
        pmf = stats.binom(n, self.p[:, np.newaxis]).pmf(np.arange(n + 1))
        return t, np.stack([np.convolve(row, weights) for row in pmf])

    def coverage(self, n, scale, **options):
        t, law = self.law(n, scale)
        intervals = proportion_confint(
            t, n, mechanism=Geometric(scale=scale), alpha=self.alpha, **options
        )
        inside = (intervals.lower <= self.p[:, np.newaxis]) & (
            self.p[:, np.newaxis] <= intervals.upper
        )
        return (law * inside).sum(axis=1)

    def test_exact_never_falls_below_the_level(self, n, scale):
        for alternative in ("two-sided", "larger", "smaller"):
            coverage = self.coverage(n, scale, alternative=alternative)
            assert coverage.min() >= 1.0 - self.alpha - 1e-10

    def test_mid_p_is_less_conservative(self, n, scale):
        exact, mid_p = self.coverage(n, scale), self.coverage(n, scale, method="mid-p")
        assert (mid_p <= exact + 1e-12).all()


class TestApproximations:
    def test_wilson_solves_its_equation(self):
        noise, n, z = Laplace(scale=4.0), 200, stats.norm.isf(0.025)
        count = np.array([-5.0, 3.0, 90.5, 199.0])
        for end in proportion_confint(count, n, mechanism=noise, method="wilson"):
            inside = (end > 0.0) & (end < 1.0)
            p = end[inside]
            left = (count[inside] / n - p) ** 2
            right = z**2 * (p * (1 - p) / n + noise.variance / n**2)
            np.testing.assert_allclose(left, right, rtol=1e-11)

    def test_asymptotic_has_the_variance_of_the_noise(self):
        intervals = proportion_confint(80, 200, mechanism=Gaussian(sigma=6.0), method="asymptotic")
        half = stats.norm.isf(0.025) * np.sqrt(0.4 * 0.6 / 200 + (6.0 / 200) ** 2)
        assert float(intervals.lower) == pytest.approx(0.4 - half, rel=1e-12)
        assert float(intervals.upper) == pytest.approx(0.4 + half, rel=1e-12)

    def test_wilson_is_empty_where_no_proportion_is_near(self):
        intervals = proportion_confint(
            [-40, 240], 200, mechanism=Geometric(scale=1.0), method="wilson"
        )
        assert intervals.empty.all()
        above = proportion_confint(
            [-40, 240], 200, mechanism=Exact(), method="wilson", alternative="larger"
        )
        assert above.empty.tolist() == [False, True]
        assert above.lower[0] == 0.0

    @pytest.mark.parametrize("method", ["exact", "mid-p", "wilson", "asymptotic"])
    def test_methods_agree_in_large_samples(self, method):
        intervals = proportion_confint(
            400_000, 1_000_000, mechanism=Gaussian(sigma=300.0), method=method
        )
        sd = np.sqrt(0.24 / 1e6 + (300 / 1e6) ** 2)
        z = stats.norm.isf(0.025)
        assert float(intervals.lower) == pytest.approx(0.4 - z * sd, abs=2e-6)
        assert float(intervals.upper) == pytest.approx(0.4 + z * sd, abs=2e-6)

    @pytest.mark.parametrize("method", ["exact", "mid-p", "wilson", "asymptotic"])
    @pytest.mark.parametrize("alternative", ["two-sided", "larger", "smaller"])
    def test_levels_near_zero_and_one_are_ordinary(self, method, alternative):
        for alpha in (1e-12, 0.6, 0.999, 1 - 1e-15):
            intervals = proportion_confint(
                [-2, 7, 21],
                20,
                mechanism=Geometric(scale=1.0),
                alpha=alpha,
                method=method,
                alternative=alternative,
            )
            lower, upper = intervals
            there = ~intervals.empty
            assert (lower[there] >= 0.0).all()
            assert (upper[there] <= 1.0).all()


class TestResult:
    def test_labels_of_the_counts_are_those_of_the_intervals(self):
        index = pd.Index(["a", "b"], name="area")
        count = pd.Series([3, 8], index=index)
        nobs = pd.Series([20, 30], index=index)
        intervals = proportion_confint(count, nobs, mechanism=Geometric(scale=1.0))
        assert intervals.lower.index.equals(index)
        assert intervals.uncertainty == "noise+sampling"
        with pytest.raises(InvalidParameterError, match="labels of count"):
            proportion_confint(count, nobs[::-1], mechanism=Geometric(scale=1.0))

    def test_a_number_gives_a_number(self):
        lower, upper = proportion_confint(4, 20, mechanism=Geometric(scale=1.0))
        assert np.ndim(lower) == np.ndim(upper) == 0

    def test_simultaneous_uses_the_level_of_each(self):
        count, noise = np.array([3, 9, 14, 2]), Geometric(scale=2.0)
        together = proportion_confint(count, 20, mechanism=noise, simultaneous=True)
        each = proportion_confint(count, 20, mechanism=noise, alpha=-np.expm1(np.log(0.95) / 4))
        assert together.simultaneous
        np.testing.assert_allclose(together.lower, each.lower, rtol=1e-12)
        np.testing.assert_allclose(together.upper, each.upper, rtol=1e-12)


class TestArguments:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"count": 2.5}, "whole numbers"),
            ({"count": np.nan}, "NaN"),
            ({"count": [[1, 2]]}, "one-dimensional"),
            ({"nobs": 0}, "nobs must be >= 1"),
            ({"nobs": 2.5}, "whole numbers"),
            ({"nobs": [1, 2, 3], "count": [1, 2]}, "one entry for each of the 2 values"),
            ({"alpha": 1.0}, "alpha"),
            ({"method": "score"}, "method"),
            ({"alternative": "both"}, "alternative"),
            ({"method": "normal"}, "the limit is 'asymptotic'"),
            ({"simultaneous": 1}, "simultaneous"),
            ({"mechanism": "laplace"}, "mechanism"),
        ],
    )
    def test_mistakes_are_named(self, change, message):
        arguments = {"count": 3, "nobs": 20, "mechanism": Geometric(scale=1.0)} | change
        with pytest.raises(InvalidParameterError, match=message):
            proportion_confint(arguments.pop("count"), arguments.pop("nobs"), **arguments)

    def test_sums_of_too_many_terms_are_refused(self):
        with pytest.raises(InvalidParameterError, match="method='wilson'"):
            proportion_confint(10**14, 2**50, mechanism=Laplace(scale=1e9))

    @settings(derandomize=True, deadline=None, max_examples=30)
    @given(
        count=st.one_of(
            st.integers(-(10**6), 10**6),
            st.floats(allow_nan=True, allow_infinity=True),
            st.lists(st.floats(-50, 50), max_size=3),
            st.sampled_from(["three", None, 1j, [], [[1]], 1e100, -1e100]),
        ),
        nobs=st.one_of(
            st.integers(-2, 10**6), st.sampled_from([2**53, 1e17, np.inf, [3, 4], None, "n"])
        ),
        noise=st.sampled_from(
            [
                *LAWS.values(),
                Tulap(scale=0.7, truncation=0.01),
                Laplace(scale=1e100),
                Geometric(scale=1e-100),
            ]
        ),
        alpha=st.sampled_from([0.05, 1e-300, 1 - 1e-16, 0.0, np.nan, "a"]),
        method=st.sampled_from(["exact", "mid-p", "wilson", "asymptotic"]),
        alternative=st.sampled_from(["two-sided", "larger", "smaller"]),
    )
    def test_gives_an_answer_or_an_error_that_is_ours(
        self, count, nobs, noise, alpha, method, alternative
    ):
        try:
            intervals = proportion_confint(
                count, nobs, mechanism=noise, alpha=alpha, method=method, alternative=alternative
            )
        except DPInferError:
            return
        lower, upper = np.asarray(intervals.lower), np.asarray(intervals.upper)
        empty = np.asarray(intervals.empty)
        assert not np.isnan([lower, upper]).any()
        assert ((lower >= 0.0) & (upper <= 1.0) | empty).all()
        assert (np.isposinf(lower[empty]) & np.isneginf(upper[empty])).all()


def test_clopper_pearson_of_many_trials():
    count, n = np.array([0, 3, 10**4]), 10**8
    lower, upper = proportion_confint(count, n, mechanism=Exact())
    np.testing.assert_allclose(lower[1:], special.betaincinv(count[1:], n - count[1:] + 1, 0.025))
    np.testing.assert_allclose(upper, special.betaincinv(count + 1, n - count, 0.975))
