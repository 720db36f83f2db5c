"""The one-proportion test against the tutorial, enumeration, high precision and peers."""

from fractions import Fraction
from functools import cache
from math import comb, exp

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats
from statsmodels.stats import proportion

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.hypothesis_tests import proportions_ztest
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace, Tulap

ALTERNATIVES = ("two-sided", "larger", "smaller")

NOISE = Laplace.from_epsilon(0.5)
EXAMPLE = {"count": 34.21, "nobs": 100, "value": 0.255, "mechanism": NOISE}
EXACT_TWO_SIDED, EXACT_RIGHT = 0.09224256391, 0.04824390891


def example_reference(alternative):
    """The p-value of Example 4.3 in 40-digit arithmetic."""
    with mp.workdps(40):
        n, p, b, t = 100, mp.mpf("0.255"), mp.mpf(2), mp.mpf("34.21")

        def upper(x):
            return mp.exp(-x / b) / 2 if x >= 0 else 1 - mp.exp(x / b) / 2

        pmf = [mp.binomial(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
        right = mp.fsum(pmf[k] * upper(t - k) for k in range(n + 1))
        left = mp.fsum(pmf[k] * upper(k - (2 * n * p - t)) for k in range(n + 1))
        return right if alternative == "larger" else right + left


class TestTutorialExample:
    def test_exact(self):
        statistic, pvalue = proportions_ztest(**EXAMPLE)
        right = proportions_ztest(**EXAMPLE, alternative="larger").pvalue
        assert statistic == pytest.approx(
            (0.3421 - 0.255) / np.sqrt(0.255 * 0.745 / 100), rel=1e-14
        )
        assert pvalue == pytest.approx(EXACT_TWO_SIDED, abs=5e-12)
        assert right == pytest.approx(EXACT_RIGHT, abs=5e-12)
        assert abs(mp.mpf(float(pvalue)) / example_reference("two-sided") - 1) < 2e-14
        assert abs(mp.mpf(float(right)) / example_reference("larger") - 1) < 2e-14

    def test_monte_carlo(self):
        result = proportions_ztest(**EXAMPLE, method="monte-carlo", reps=1_000_000, rng=43)
        assert result.mc_error == pytest.approx(2.9e-4, rel=0.05)
        # 4 standard errors: 6e-5, for one fixed seed
        assert abs(result.pvalue - EXACT_TWO_SIDED) < 4 * result.mc_error

    def test_ignoring_the_noise(self):
        result = proportions_ztest(**EXAMPLE)
        ignoring = proportions_ztest(
            **{**EXAMPLE, "mechanism": Exact(), "count": 34.0}, method="asymptotic"
        )
        z = result.statistic
        assert 2 * stats.norm.sf(z) == pytest.approx(0.0457, abs=5e-5)
        assert ignoring.pvalue == pytest.approx(2 * stats.norm.sf(ignoring.statistic), rel=1e-13)

    def test_true_size_of_ignoring_the_noise(self):
        null = proportions_ztest(**EXAMPLE).null_distribution
        size = null.pvalue(stats.norm.isf(0.025))
        assert size == pytest.approx(0.098, abs=5e-4)
        rng = np.random.default_rng(5)
        reps = 400_000
        noisy = rng.binomial(100, 0.255, reps) + rng.laplace(0, 2, reps)
        z = (noisy / 100 - 0.255) / np.sqrt(0.255 * 0.745 / 100)
        share = np.mean(2 * stats.norm.sf(np.abs(z)) <= 0.05)
        # 6 standard errors: 2e-9
        assert abs(share - size) < 6 * np.sqrt(size * (1 - size) / reps)


@cache
def listed(n, p, scale):
    """The chance of each noisy count, by listing counts and noises."""
    p, a = Fraction(p), exp(-1 / scale)
    reach = int(40 * scale) + 5
    pmf = [float(comb(n, k) * p**k * (1 - p) ** (n - k)) for k in range(n + 1)]
    return {
        y: sum(sorted(pmf[k] * (1 - a) / (1 + a) * a ** abs(y - k) for k in range(n + 1)))
        for y in range(-reach - n, reach + 2 * n + 1)
    }


def enumerated(t, n, p, scale, alternative):
    """The p-value from the list of noisy counts; ties are decided in whole numbers."""
    parts, centre = Fraction(p).denominator, n * Fraction(p).numerator  # in parts of a count
    distance = abs(t * parts - centre)
    extreme = {
        "larger": lambda y: y >= t,
        "smaller": lambda y: y <= t,
        "two-sided": lambda y: abs(y * parts - centre) >= distance,
    }[alternative]
    return sum(sorted(chance for y, chance in listed(n, p, scale).items() if extreme(y)))


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize(
    ("n", "p", "scale"),
    [(1, "0.5", 1.0), (5, "0.3", 0.4), (10, "0.1", 2.0), (12, "0.75", 3.0), (7, "0.35", 1.5)],
)
def test_equals_enumeration(n, p, scale, alternative):
    points = np.arange(-6, n + 7)
    for t in points:
        _, pvalue = proportions_ztest(
            t, n, float(p), mechanism=Geometric(scale=scale), alternative=alternative
        )
        expected = enumerated(int(t), n, p, scale, alternative)
        assert pvalue == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [100, 300, 1000, 99_900])
def test_ties_survive_the_rounding_of_the_expected_count(n):
    """0.255·n is rounded; the mirrored whole number has to count all the same."""
    noise, centre = Geometric(scale=2.0), Fraction("0.255") * n
    t = int(centre) + 9
    mirrored = 2 * centre - t
    assert mirrored.denominator == 1
    two_sided = proportions_ztest(t, n, 0.255, mechanism=noise).pvalue
    right = proportions_ztest(t, n, 0.255, mechanism=noise, alternative="larger").pvalue
    left = proportions_ztest(int(mirrored), n, 0.255, mechanism=noise, alternative="smaller").pvalue
    assert two_sided == pytest.approx(right + left, rel=1e-13)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("method", ["exact", "asymptotic"])
@pytest.mark.parametrize(
    "noise",
    [NOISE, Geometric(scale=2.0), Gaussian(sigma=3.0), DiscreteGaussian(sigma=3.0), Exact()],
    ids=repr,
)
def test_the_null_distribution_gives_the_pvalue_back(noise, method, alternative):
    result = proportions_ztest(
        [-4, 20, 25, 34, 60], 100, 0.255, mechanism=noise, method=method, alternative=alternative
    )
    again = result.null_distribution.pvalue(result.statistic, alternative)
    np.testing.assert_allclose(again, result.pvalue, rtol=1e-11)


@pytest.mark.parametrize("noise", [NOISE, Geometric(scale=2.0), DiscreteGaussian(sigma=3.0)])
@pytest.mark.parametrize("far", [1e80, 1e290, np.inf])
def test_tails_of_statistics_beyond_all_whole_numbers(noise, far):
    null = proportions_ztest(3, 100, 0.3, mechanism=noise).null_distribution
    assert null.pvalue([far, -far], "larger").tolist() == [0.0, 1.0]
    assert null.pvalue(far, "larger") == null.pvalue(-far, "smaller") == 0.0
    assert null.pvalue([far, -far]).tolist() == [0.0, 0.0]


class TestWithoutNoise:
    @pytest.mark.parametrize("noise", [Exact(), Geometric(scale=1e-3)], ids=repr)
    @pytest.mark.parametrize(
        ("alternative", "theirs"), [("larger", "greater"), ("smaller", "less")]
    )
    def test_one_sided_is_the_binomial_test(self, noise, alternative, theirs):
        for k in (0, 12, 25, 31, 100):
            _, pvalue = proportions_ztest(k, 100, 0.255, mechanism=noise, alternative=alternative)
            expected = stats.binomtest(k, 100, 0.255, alternative=theirs).pvalue
            assert pvalue == pytest.approx(expected, rel=1e-12)

    def test_two_sided_is_the_binomial_test_of_a_half(self):
        for k in (0, 20, 25, 33, 50):
            _, pvalue = proportions_ztest(k, 50, 0.5, mechanism=Exact())
            assert pvalue == pytest.approx(stats.binomtest(k, 50, 0.5).pvalue, rel=1e-12)

    @pytest.mark.parametrize("alternative", ALTERNATIVES)
    def test_asymptotic_is_the_z_test_of_statsmodels(self, alternative):
        ours = proportions_ztest(
            [20, 34],
            [100, 90],
            [0.255, 0.4],
            mechanism=Laplace(scale=1e-9),
            method="asymptotic",
            alternative=alternative,
        )
        for i, (count, nobs, value) in enumerate([(20, 100, 0.255), (34, 90, 0.4)]):
            theirs = proportion.proportions_ztest(
                count, nobs, value, alternative=alternative, prop_var=value
            )
            np.testing.assert_allclose((ours.statistic[i], ours.pvalue[i]), theirs, rtol=1e-12)


def test_asymptotic_is_the_limit_for_many_trials():
    noise = Laplace(scale=3000.0)
    exact = proportions_ztest(501_500, 10**6, 0.5, mechanism=Gaussian(sigma=noise.std))
    limit = proportions_ztest(501_500, 10**6, 0.5, mechanism=noise, method="asymptotic")
    assert limit.pvalue == pytest.approx(exact.pvalue, rel=2e-3)


@pytest.mark.parametrize(
    "noise",
    [
        NOISE,
        Geometric(scale=3.0),
        DiscreteGaussian(sigma=2.0),
        Tulap(scale=2.0),
        Tulap(scale=2.0, truncation=0.1),
    ],
    ids=repr,
)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_monte_carlo_agrees_with_exact(noise, alternative):
    settings_of = {"nobs": 60, "value": 0.3, "mechanism": noise, "alternative": alternative}
    counts = [5, 12, 18, 23, 30]
    exact = proportions_ztest(counts, **settings_of)
    simulated = proportions_ztest(counts, **settings_of, method="monte-carlo", reps=200_000, rng=11)
    # 6 standard errors, and one replicate for the (1 + b)/(R + 1): 2e-9 for each count
    error = np.sqrt(exact.pvalue * (1 - exact.pvalue) / 200_000)
    assert (np.abs(simulated.pvalue - exact.pvalue) < 6 * error + 1e-5).all()
    np.testing.assert_allclose(simulated.statistic, exact.statistic)


class TestRows:
    NOBS, VALUE = np.array([100, 50, 40]), np.array([0.255, 0.5, 0.1])
    COUNT = np.array([34.0, 20.0, 7.0])
    LAWS = (Geometric(scale=2.0), Laplace(scale=1.0), Gaussian(sigma=2.0))

    @pytest.mark.parametrize("method", ["exact", "asymptotic"])
    @pytest.mark.parametrize("alternative", ALTERNATIVES)
    def test_equal_the_single_tests(self, method, alternative):
        options = {"method": method, "alternative": alternative}
        together = proportions_ztest(
            self.COUNT, self.NOBS, self.VALUE, mechanism=self.LAWS, **options
        )
        for i, law in enumerate(self.LAWS):
            alone = proportions_ztest(
                self.COUNT[i], self.NOBS[i], self.VALUE[i], mechanism=law, **options
            )
            assert together.statistic[i] == pytest.approx(alone.statistic, rel=1e-14)
            assert together.pvalue[i] == pytest.approx(alone.pvalue, rel=1e-12)

    def test_simulate_each_its_own_law(self):
        exact = proportions_ztest(self.COUNT, self.NOBS, self.VALUE, mechanism=self.LAWS)
        simulated = proportions_ztest(
            self.COUNT,
            self.NOBS,
            self.VALUE,
            mechanism=self.LAWS,
            method="monte-carlo",
            reps=50_000,
            rng=12,
        )
        # 6 standard errors: 2e-9 for each row
        assert (np.abs(simulated.pvalue - exact.pvalue) < 6 * simulated.mc_error).all()

    def test_critical_values_differ_by_row(self):
        result = proportions_ztest(self.COUNT, self.NOBS, self.VALUE, mechanism=self.LAWS)
        critical = result.null_distribution.critical_value(0.05)
        for i, law in enumerate(self.LAWS):
            alone = proportions_ztest(self.COUNT[i], self.NOBS[i], self.VALUE[i], mechanism=law)
            assert critical[i] == pytest.approx(
                alone.null_distribution.critical_value(0.05), rel=1e-9
            )

    def test_many_rows_with_one_law_equal_few(self):
        counts = np.random.default_rng(1).normal(25, 6, 1000)
        together = proportions_ztest(counts, 100, 0.255, mechanism=NOISE).pvalue
        alone = [proportions_ztest(c, 100, 0.255, mechanism=NOISE).pvalue for c in counts[:20]]
        np.testing.assert_allclose(together[:20], alone, rtol=1e-13)

    def test_repeated_arguments_are_one_law(self):
        one = proportions_ztest([20, 30], 100, 0.255, mechanism=NOISE)
        same = proportions_ztest([20, 30], [100, 100], [0.255, 0.255], mechanism=NOISE)
        np.testing.assert_array_equal(one.pvalue, same.pvalue)
        assert same.null_distribution.critical_value(0.05).shape == ()

    def test_scalars_give_scalars_and_arrays_arrays(self):
        assert np.shape(proportions_ztest(20, 100, 0.255, mechanism=NOISE).pvalue) == ()
        assert np.shape(proportions_ztest([20], 100, 0.255, mechanism=NOISE).pvalue) == (1,)
        assert np.shape(proportions_ztest(20, [100, 90], 0.255, mechanism=NOISE).pvalue) == (2,)

    def test_labels_travel_and_have_to_agree(self):
        count = pd.Series([34.2, 20.1], index=["a", "b"])
        nobs = pd.Series([100, 50], index=["a", "b"])
        result = proportions_ztest(count, nobs, 0.3, mechanism=NOISE)
        alone = proportions_ztest(20.1, 50, 0.3, mechanism=NOISE)
        assert result.pvalue["b"] == pytest.approx(alone.pvalue, rel=1e-12)
        with pytest.raises(InvalidParameterError, match="labels"):
            proportions_ztest(count, nobs[::-1], 0.3, mechanism=NOISE)

    def test_order_does_not_matter(self):
        forth = proportions_ztest(self.COUNT, self.NOBS, self.VALUE, mechanism=self.LAWS)
        back = proportions_ztest(
            self.COUNT[::-1], self.NOBS[::-1], self.VALUE[::-1], mechanism=self.LAWS[::-1]
        )
        np.testing.assert_allclose(back.pvalue[::-1], forth.pvalue, rtol=1e-13)


class TestSeeds:
    def test_a_seed_decides(self):
        options = {**EXAMPLE, "method": "monte-carlo", "reps": 150_000}
        one, two = (proportions_ztest(**options, rng=1).pvalue for _ in range(2))
        assert one == two
        assert proportions_ztest(**options, rng=2).pvalue != one

    def test_the_exact_test_leaves_a_generator_alone(self):
        rng = np.random.default_rng(1)
        before = rng.bit_generator.state
        proportions_ztest(**EXAMPLE, rng=rng)
        assert rng.bit_generator.state == before


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    count=st.floats(-1e7, 1e7),
    nobs=st.integers(1, 10**6),
    value=st.floats(1e-12, 1 - 1e-12),
    scale=st.floats(1e-3, 1e9),
    kind=st.sampled_from([Laplace, Geometric]),
)
def test_pvalues_are_probabilities(count, nobs, value, scale, kind):
    noise = kind(scale=scale)
    t = round(count) if noise.is_integer else count
    arguments = {"count": t, "nobs": nobs, "value": value, "mechanism": noise}
    pvalues = {a: proportions_ztest(**arguments, alternative=a).pvalue for a in ALTERNATIVES}
    assert all(0 <= p <= 1 for p in pvalues.values())
    assert pvalues["larger"] + pvalues["smaller"] >= 1 - 1e-12
    nearer = min(pvalues["larger"], pvalues["smaller"])
    assert pvalues["two-sided"] >= nearer * (1 - 1e-9)
    mirrored = proportions_ztest(nobs - t, nobs, 1 - value, mechanism=noise, alternative="smaller")
    if value > 1e-3 and scale > 1:
        assert mirrored.pvalue == pytest.approx(pvalues["larger"], rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nobs": 0}, "nobs must be >= 1, got 0"),
        ({"nobs": -5}, "nobs must be >= 1"),
        ({"nobs": 10.5}, "nobs must hold whole numbers, got 10.5"),
        ({"nobs": np.nan}, "nobs must not contain NaN"),
        ({"nobs": np.inf}, "nobs must be finite"),
        ({"nobs": 1e17}, "nobs must be <="),
        ({"nobs": []}, "nobs must hold at least one"),
        ({"value": 0}, "value must be > 0"),
        ({"value": 1}, "value must be < 1"),
        ({"value": 1e-310}, "value must be >="),
        ({"value": "0.2"}, "value must hold real numbers"),
        ({"count": np.nan}, "count must not contain NaN"),
        ({"count": np.inf}, "count must be finite"),
        ({"count": 1e200}, "count must be <="),
        ({"count": 3 + 1j}, "count must be real"),
        ({"count": None}, "count must hold real numbers"),
        ({"count": [[1, 2], [3, 4]]}, "count must be a number or one-dimensional"),
        ({"count": []}, "count must hold at least one"),
        ({"count": [1, 2, 3], "nobs": [10, 20]}, "one entry for each of the 3 values of count"),
        ({"mechanism": 2.0}, "mechanism must be a noise law"),
        ({"mechanism": None}, "mechanism must be given, as count is plain numbers"),
        ({"mechanism": Laplace(scale=[1.0, 2.0])}, "mechanism must have one law"),
        ({"mechanism": Geometric(scale=2.0)}, "count must hold whole numbers where the noise"),
        ({"alternative": "both"}, "alternative must be one of"),
        ({"method": "bootstrap"}, "method must be one of 'exact', 'monte-carlo', 'asymptotic'"),
        ({"method": "monte-carlo", "reps": 0}, "reps must be >= 1"),
        ({"method": "monte-carlo", "rng": -1}, "rng must be"),
        ({"progress": 1}, "progress must be True or False"),
    ],
)
def test_bad_arguments_say_what_is_wrong(changes, message):
    with pytest.raises(InvalidParameterError, match=message):
        proportions_ztest(**{**EXAMPLE, **changes})


anything = st.one_of(
    st.none(),
    st.text(max_size=3),
    st.complex_numbers(),
    st.floats(),
    st.integers(),
    st.booleans(),
    st.lists(st.one_of(st.floats(), st.integers(-5, 200), st.none()), max_size=3),
)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(count=anything, nobs=anything, value=anything)
def test_only_our_own_errors_escape(count, nobs, value):
    try:
        result = proportions_ztest(count, nobs, value, mechanism=NOISE, method="asymptotic")
    except DPInferError:
        return
    assert np.isfinite(result.pvalue).all()
    assert np.isfinite(result.statistic).all()


def test_most_powerful_test_of_a_tulap_count():
    """Tulap noise: the p-value of Awan and Slavković (2018), as a sum over all counts."""
    noise, t = Tulap(scale=1.0, truncation=0.05), 9.3
    _, pvalue = proportions_ztest(t, 30, 0.2, mechanism=noise, alternative="larger")
    k = np.arange(31)
    expected = np.sum(stats.binom.pmf(k, 30, 0.2) * noise.cdf(k - t))
    assert pvalue == pytest.approx(expected, rel=1e-13)
    beyond = proportions_ztest(60.5, 30, 0.2, mechanism=noise, alternative="larger")
    assert beyond.pvalue == 0.0


@pytest.mark.parametrize("value", [1e-300, 1e-15, 1 - 1e-15])
@pytest.mark.parametrize("nobs", [1, 10**6, 10**12])
def test_extreme_hypotheses_stay_finite(nobs, value):
    for noise in (Laplace(scale=1e-3), Geometric(scale=1e6), Gaussian(sigma=1e9)):
        for count in (-(10.0**9), 0.0, float(nobs), 1e100):
            for alternative in ALTERNATIVES:
                statistic, pvalue = proportions_ztest(
                    count, nobs, value, mechanism=noise, alternative=alternative
                )
                assert np.isfinite(statistic)
                assert 0 <= pvalue <= 1


def test_unbiased_test_of_a_tulap_count_solves_its_equations():
    """Ends at which the size is 0.05 and the slope of the power is 0, by a solver."""
    n, value, law = 20, 0.3, Tulap(scale=1.0)
    k = np.arange(n + 1)

    def rejected(low, high):
        return law.sf(high - k) + law.cdf(low - k)

    def equations(ends):
        pmf = stats.binom.pmf(k, n, value)
        return pmf @ rejected(*ends) - 0.05, (pmf * (k - n * value)) @ rejected(*ends)

    ends = optimize.fsolve(equations, [0.5, 12.0])
    result = proportions_ztest(ends, n, value, mechanism=law, method="unbiased")
    np.testing.assert_allclose(result.pvalue, 0.05, rtol=1e-6)
    unbiased = stats.binom.pmf(k, n, 0.1) @ rejected(*ends)
    assert unbiased == pytest.approx(0.3937, abs=1e-4)
    exact = proportions_ztest(ends, n, value, mechanism=law).pvalue
    assert exact.max() > 0.05  # by distance one of the ends is not yet rejected


@pytest.mark.parametrize("n", [1, 3, 12])
def test_unbiased_pvalues_hold_their_level_with_whole_noise(n):
    law = Geometric(scale=0.9)
    k, e = np.arange(n + 1), np.arange(-30, 31)
    t = np.arange(-30.0, n + 31.0)
    for value in (0.05, 0.3, 0.7):
        chance = np.convolve(stats.binom.pmf(k, n, value), law.pmf(e))
        pvalue = proportions_ztest(t, n, value, mechanism=law, method="unbiased").pvalue
        for level in np.unique(pvalue):
            assert chance[pvalue <= level + 1e-12].sum() <= level + 1e-9


def test_unbiased_one_sided_pvalues_are_exact_ones():
    noise = Laplace(scale=2.0)
    for alternative in ("larger", "smaller"):
        ours, exact = (
            proportions_ztest(
                34.21, 100, 0.255, mechanism=noise, alternative=alternative, method=method
            )
            for method in ("unbiased", "exact")
        )
        assert ours.pvalue == exact.pvalue
    both = proportions_ztest(34.21, 100, 0.255, mechanism=noise, method="unbiased")
    assert both.null_distribution.pvalue(both.statistic) == pytest.approx(both.pvalue, rel=1e-6)
