"""Design-based estimates: unbiased variances, exact intervals by enumeration, coverage.

Simulated frequencies may be off by 6 standard deviations: each check fails by accident with
probability below 2e-9.
"""

from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.interpolate import RectBivariateSpline

import dpinfer as dpi
from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.intervals import (
    count_confint,
    linear_confint,
    stratified_mean,
    stratified_total,
    survey_mean,
    survey_total,
)
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace

LAWS = [Laplace(scale=2.0), Geometric(scale=3.0), DiscreteGaussian(sigma=2.0), Gaussian(sigma=1.5)]


@pytest.mark.thinned("law", "population", every=2)
@pytest.mark.parametrize("law", [*LAWS, Exact()])
@pytest.mark.parametrize(
    ("population", "nobs", "counts"),
    [(50, 10, (-3, 4, 11)), (50, 40, (30, 36)), (30, 29, (1, 28)), (10**6, 5000, (2, 300))],
)
def test_ends_are_the_last_totals_that_the_law_does_not_contradict(law, population, nobs, counts):
    """By all counts of a sample, also where most are next to impossible."""
    x = np.arange(nobs + 1)
    for count in counts:
        found = survey_total(
            count, mechanism=law, sample_size=nobs, population_size=population
        ).conf_int(alpha=0.1)
        assert_ends(found, law, x, population, nobs, count, 0.05)


def assert_ends(found, law, x, population, nobs, count, level):
    for side, end in ((1, float(found.lower)), (-1, float(found.upper))):
        if not np.isfinite(end):
            continue

        def tail(total, side=side):
            pmf = stats.hypergeom(population, total, nobs).pmf(x)
            return pmf @ law.cdf(side * (x - count))

        assert tail(round(end)) > level * (1 - 1e-8)
        if 0 <= round(end) - side <= population and round(end) not in (0, population):
            assert tail(round(end) - side) <= level * (1 + 1e-8)


@pytest.mark.parametrize(
    "count",
    [
        9_500.0,
        *(pytest.param(k, marks=pytest.mark.slow) for k in (2.5e3, 7.5e3)),
        pytest.param(5e3, marks=pytest.mark.study),
    ],
)
def test_far_windows_of_the_hypergeometric_law(count):
    # wide noise: the sum has its largest term far from the mode, next to impossible counts
    law, population, nobs = Laplace(scale=250.0), 20_000, 10_000
    found = survey_total(
        count, mechanism=law, sample_size=nobs, population_size=population
    ).conf_int(alpha=0.1)
    assert_ends(found, law, np.arange(nobs + 1), population, nobs, count, 0.05)


def brute_force(count, law, pmf_of, totals, alpha):
    """Totals of which neither tail contradicts the count."""
    kept = []
    for total in totals:
        x, pmf = pmf_of(total)
        upper, lower = pmf @ law.cdf(x - count), pmf @ law.cdf(count - x)
        kept += [total] if min(upper, lower) > alpha / 2 else []
    return (min(kept), max(kept)) if kept else (np.inf, -np.inf)


@pytest.mark.thinned("law", "count", every=3)
@pytest.mark.parametrize("law", [*LAWS, Exact()])
@pytest.mark.parametrize("count", [-9, 0, 4, 12, 15, 33])
def test_exact_interval_of_a_simple_random_sample_by_brute_force(law, count):
    population, nobs = 60, 15
    x = np.arange(nobs + 1)
    expected = brute_force(
        count,
        law,
        lambda k: (x, stats.hypergeom(population, k, nobs).pmf(x)),
        range(population + 1),
        0.1,
    )
    found = survey_total(
        count, mechanism=law, sample_size=nobs, population_size=population
    ).conf_int(0.1, method="exact")
    assert tuple(found) == expected
    assert bool(found.empty) == (expected[0] == np.inf)
    share = survey_mean(count, mechanism=law, sample_size=nobs, population_size=population)
    np.testing.assert_allclose(
        share.conf_int(0.1, method="exact"), np.asarray(expected) / population
    )


@pytest.mark.thinned("law", "count", "bound", every=3)
@pytest.mark.parametrize("law", [Laplace(scale=2.0), Geometric(scale=3.0), Exact()])
@pytest.mark.parametrize("count", [0, 3, 12])
@pytest.mark.parametrize("bound", [None, 40])
def test_exact_interval_of_a_poisson_sample_by_brute_force(law, count, bound):
    rate = 0.3

    def pmf_of(total):
        x = np.arange(total + 1)
        return x, stats.binom(total, rate).pmf(x)

    totals = range((150 if bound is None else bound) + 1)
    expected = brute_force(count, law, pmf_of, totals, 0.05)
    found = survey_total(
        count, mechanism=law, rate=rate, design="poisson", population_size=bound
    ).conf_int(method="exact")
    assert tuple(found) == expected


def test_strata_with_noises_of_several_kinds_by_simulation():
    # the share of 400,000 errors beyond the end has a standard deviation of 3.4e-4
    draws = 400_000
    rng = np.random.default_rng(5)
    total = stratified_total(
        [40, 75],
        mechanism=[Laplace(scale=9.0), Geometric(scale=20.0)],
        sample_size=[200, 500],
        population_size=[10_000, 4_000],
    )
    half = float(total.conf_int(0.1, method="convolution").width) / 2
    one, other = rng.geometric(-np.expm1(-1 / 20.0), size=(2, draws))
    noise = 50.0 * rng.laplace(scale=9.0, size=draws) + 8.0 * (one - other)
    error = noise + rng.normal(scale=np.sqrt(float(total.variance_sampling)), size=draws)
    assert np.mean(error > half) == pytest.approx(0.05, abs=6 * 3.5e-4)


def test_without_noise_it_is_the_textbook():
    # Cochran (1977), Section 3.3: variance of a total in simple random sampling
    total = survey_total(38, mechanism=Exact(), sample_size=200, population_size=5000)
    p = 38 / 200
    variance = 5000**2 * (1 - 200 / 5000) * p * (1 - p) / 199
    assert total.params == pytest.approx(950)
    assert total.variance_noise == 0
    assert total.variance_sampling == pytest.approx(variance)
    half = stats.norm.isf(0.025) * np.sqrt(variance)
    for method in ("asymptotic", "convolution"):
        np.testing.assert_allclose(
            total.conf_int(method=method), [950 - half, 950 + half], rtol=1e-9
        )
    poisson = survey_total(38, mechanism=Exact(), rate=0.04, design="poisson")
    assert poisson.variance_sampling == pytest.approx(0.96 * 38 / 0.04**2)


def test_a_large_population_gives_clopper_pearson():
    share = survey_mean(38, mechanism=Exact(), sample_size=200, population_size=10**9)
    expected = stats.binomtest(38, 200).proportion_ci(0.95, method="exact")
    np.testing.assert_allclose(share.conf_int(method="exact"), expected, atol=1e-6)


@pytest.mark.parametrize("law", LAWS)
def test_a_census_has_noise_only(law):
    census = survey_total([30, 7], mechanism=law, sample_size=100, population_size=100)
    expected = np.asarray(count_confint([30, 7], mechanism=law))
    np.testing.assert_array_equal(census.variance_sampling, 0)
    for method in ("exact", "convolution"):
        np.testing.assert_allclose(census.conf_int(method=method), expected, rtol=1e-9)
    np.testing.assert_allclose(census.conf_int(uncertainty="noise"), expected)
    full = survey_total([30, 7], mechanism=law, rate=1.0, design="poisson")
    np.testing.assert_allclose(full.conf_int(method="exact"), expected, rtol=1e-9)


def test_noise_intervals_are_those_of_linear_functions():
    law = Geometric(scale=3.0)
    sizes = {"sample_size": [100, 50], "population_size": [1000, 300]}
    total = stratified_total([30, 7], mechanism=law, **sizes)
    expected = linear_confint([30, 7], [10, 6], mechanism=law)
    np.testing.assert_allclose(total.conf_int(uncertainty="noise"), expected)
    share = stratified_mean([30, 7], mechanism=law, **sizes)
    np.testing.assert_allclose(
        share.conf_int(uncertainty="noise"), np.asarray(expected) / 1300, rtol=1e-12
    )
    normal = total.conf_int(uncertainty="noise", method="asymptotic")
    half = stats.norm.isf(0.025) * np.sqrt(136 * law.variance)
    assert normal.upper - total.params == pytest.approx(half)


@pytest.mark.parametrize("strata", [False, True])
def test_attained_ends_survive_rounding(strata):
    # the error is at the end of the interval with positive probability
    law = Geometric(scale=0.7)
    sizes = {"sample_size": 30, "population_size": 70}
    t = law.isf(0.05)
    counts = np.arange(25.0) + t
    if strata:
        hits = [
            stratified_mean([y], mechanism=law, **sizes)
            .conf_int(0.1, uncertainty="noise")
            .contains(y / 30 - t / 30)
            for y in counts
        ]
    else:
        found = survey_mean(counts, mechanism=law, **sizes)
        hits = found.conf_int(0.1, uncertainty="noise").contains(found.weights * (counts - t))
    assert np.all(hits)


@pytest.mark.parametrize("population", [49, 400, 2**53])
def test_exact_ends_are_shares_of_whole_totals(population):
    # 1/N is rarely a float: the total that a share stands for has to be rounded back
    count, mechanism = np.arange(0.0, 48.0), Geometric(scale=0.5)
    design = {"sample_size": 47, "population_size": population}
    total = survey_total(count, mechanism=mechanism, **design).conf_int(method="exact")
    share = survey_mean(count, mechanism=mechanism, **design).conf_int(method="exact")
    assert (share.lower == total.lower / population).all()
    assert (share.upper == total.upper / population).all()


def test_convolution_by_simulation():
    total = stratified_total(
        [40, 75],
        mechanism=Laplace(scale=6.0),
        sample_size=[200, 500],
        population_size=[10**4, 4000],
    )
    rng = np.random.default_rng(5)
    reps = 400_000
    error = rng.normal(0, np.sqrt(total.variance_sampling), reps)
    error += rng.laplace(0, 6.0, (reps, 2)) @ [50, 8]
    half = total.conf_int(method="convolution").upper - total.params
    share = np.mean(np.abs(error) > half)
    assert share == pytest.approx(0.05, abs=6 * np.sqrt(0.05 * 0.95 / reps))


def exact_expectation(function, x, pmf, law):
    """E f(X + e) for geometric noise, by enumeration."""
    e = np.arange(-90, 91)
    return sum(p * (law.pmf(e) * function(k + e)).sum() for k, p in zip(x, pmf, strict=True))


def test_variance_estimates_are_unbiased():
    law = Geometric(scale=2.0)
    population, nobs, total = 60, 15, 21
    x = np.arange(nobs + 1)
    pmf = stats.hypergeom(population, total, nobs).pmf(x)

    # beside another stratum the estimate may be negative
    other = survey_total(50, mechanism=Exact(), sample_size=100, population_size=10_000)

    def estimate(values):
        return np.array([both(y).variance_sampling for y in values]) - other.variance_sampling

    @lru_cache
    def both(y):
        sizes = {"sample_size": [nobs, 100], "population_size": [population, 10_000]}
        return stratified_total([y, 50], mechanism=[law, Exact()], **sizes)

    truth = (population / nobs) ** 2 * stats.hypergeom(population, total, nobs).var()
    assert exact_expectation(estimate, x, pmf, law) == pytest.approx(truth, rel=1e-10)


def test_strata_add_up():
    law = [Laplace(scale=2.0), Gaussian(sigma=4.0)]
    counts = pd.Series({"north": 40.0, "south": 75.0})
    sizes = {"sample_size": [200, 500], "population_size": [10_000, 4_000]}
    total = stratified_total(counts, mechanism=law, **sizes)
    single = survey_total(counts, mechanism=law, **sizes)
    assert total.params == pytest.approx(2600)
    np.testing.assert_allclose(total.strata.variance_noise, [8 * 50**2, 16 * 8**2])
    for name in ("params", "variance_noise", "variance_sampling"):
        pd.testing.assert_series_equal(getattr(total.strata, name), getattr(single, name))
        assert getattr(total, name) == pytest.approx(getattr(single, name).sum())
    assert total.bse == pytest.approx(np.sqrt(total.variance_noise + total.variance_sampling))
    share = stratified_mean(counts, mechanism=law, **sizes)
    assert share.params == pytest.approx(2600 / 14_000)
    assert share.bse == pytest.approx(total.bse / 14_000)


def test_labels_frames_and_summaries():
    counts = pd.Series({"a": 12.0, "b": 30.0})
    total = survey_total(counts, mechanism=Laplace(scale=1.0), sample_size=90, population_size=900)
    frame = total.summary_frame()
    assert list(frame.index) == ["a", "b"]
    np.testing.assert_allclose(
        frame["std_err"] ** 2, frame["sd_noise"] ** 2 + frame["sd_sampling"] ** 2
    )
    assert list(total.conf_int().lower.index) == ["a", "b"]
    assert "simple random sampling" in str(total)
    assert total.conf_int().uncertainty == "noise+sampling"
    assert any("approximate" in note for note in total.conf_int(method="convolution").notes)
    assert (total.conf_int().method, total.conf_int().notes) == ("exact", ())
    assert "approximate" not in total.summary()
    poisson = survey_total(9, mechanism=Exact(), rate=0.5, design="poisson")
    assert repr(poisson).endswith("18)")
    assert "Poisson sampling" in str(poisson)
    with pytest.raises(InvalidParameterError, match="labels"):
        survey_total(
            counts,
            mechanism=Exact(),
            sample_size=pd.Series({"b": 90, "a": 90}),
            population_size=900,
        )


def test_negative_variances_are_reported():
    total = survey_total(-4.0, mechanism=Laplace(scale=0.1), sample_size=20, population_size=90)
    assert total.variance_sampling == 0
    assert "set to 0" in total.notes[0]


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"sample_size": 20}, "population_size must be given"),
        ({"sample_size": 20, "population_size": 10}, "sample_size must be <="),
        ({"sample_size": 1, "population_size": 10}, "sample_size must be >= 2"),
        ({"sample_size": 20, "population_size": 40, "rate": 0.5}, "rate must not"),
        ({"sample_size": 20.5, "population_size": 40}, "sample_size must hold whole"),
        ({"sample_size": [20, 20], "population_size": 40}, "sample_size must be a number"),
        ({"rate": 0.0, "design": "poisson"}, "rate must be >="),
        ({"rate": 1.1, "design": "poisson"}, "rate must be <="),
        ({"design": "poisson"}, "rate must be given"),
        ({"rate": 0.5, "sample_size": 3, "design": "poisson"}, "sample_size must not"),
        ({"design": "cluster"}, "design must be one of"),
    ],
)
def test_refusals(kwargs, match):
    with pytest.raises(InvalidParameterError, match=match):
        survey_total(5, mechanism=Exact(), **kwargs)


@pytest.mark.parametrize("mean", [survey_mean, stratified_mean])
def test_a_mean_needs_the_size_of_the_population(mean):
    sizes = {"rate": 0.5, "design": "poisson", "population_size": None}
    with pytest.raises(InvalidParameterError, match="population_size must be given for a mean"):
        mean([4, 5], mechanism=Exact(), **sizes)


def test_refusals_of_methods_and_shapes():
    total = stratified_total(
        [4, 5], mechanism=Exact(), sample_size=20, population_size=40, design="srs"
    )
    with pytest.raises(InvalidParameterError, match="method must be one of"):
        total.conf_int(method="convolution", uncertainty="noise")
    with pytest.raises(InvalidParameterError, match="counts must be one-dimensional"):
        stratified_total(4, mechanism=Exact(), sample_size=20, population_size=40)
    with pytest.raises(InvalidParameterError, match="whole numbers"):
        survey_total(4.5, mechanism=Geometric(scale=1.0), sample_size=20, population_size=40)


junk = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(-3, 60),
    st.sampled_from([None, "x", [], [1, 2], 1j, np.array([3.0, 4.0]), 1e300, -0.0, 2**60]),
)


@settings(derandomize=True, deadline=None, max_examples=75)
@given(
    count=junk,
    sample_size=junk,
    population_size=junk,
    rate=junk,
    alpha=junk,
    design=st.sampled_from(["srs", "poisson"]),
    method=st.sampled_from(["exact", "asymptotic", "convolution", None, "x"]),
)
def test_fuzz(count, sample_size, population_size, rate, alpha, design, method):
    try:
        total = survey_total(
            count,
            mechanism=Laplace(scale=2.0),
            sample_size=sample_size,
            population_size=population_size,
            rate=rate,
            design=design,
        )
        intervals = total.conf_int(alpha, method=method)
    except DPInferError:
        return
    assert not np.isnan(np.asarray(intervals)).any()


counts = st.floats(-1e5, 1e5) | st.integers(-20, 200) | st.sampled_from([1e100, -1e100, 1e17])
laws = st.sampled_from([Laplace(scale=1e-50), Laplace(scale=1e4), Gaussian(sigma=30.0), Exact()])


@settings(derandomize=True, deadline=None, max_examples=12)
@given(
    count=counts,
    law=laws,
    sample_size=st.integers(2, 10**6),
    factor=st.sampled_from([1, 1.5, 100, 10**6]),
    rate=st.sampled_from([1e-15, 1e-6, 0.3, 1.0]),
    alpha=st.floats(1e-12, 1 - 1e-12),
    method=st.sampled_from(["exact", "asymptotic", "convolution"]),
)
def test_fuzz_of_sound_values(count, law, sample_size, factor, rate, alpha, method):
    population = {"population_size": int(sample_size * factor)}
    for kwargs in (
        {"sample_size": sample_size, **population},
        {"rate": rate, "design": "poisson"},
        {"rate": rate, "design": "poisson", **population},
    ):
        try:
            total = survey_total(count, mechanism=law, **kwargs)
            intervals = total.conf_int(alpha, method=method)
        except DPInferError:
            continue
        assert not np.isnan(np.asarray(intervals)).any()
        assert intervals.empty or intervals.lower <= intervals.upper


def coverage(design, law, truth, pmf, x, method, **sizes):
    """Probability that the interval holds the truth, by enumeration over whole-numbered noise."""
    reach = int(law.isf(1e-9))
    e = np.arange(-reach, reach + 1)
    counts = np.arange(x[0] - reach, x[-1] + reach + 1)
    found = survey_total(counts, mechanism=law, design=design, **sizes).conf_int(0.1, method=method)
    hit = found.contains(truth)
    probability = sum(
        p * (law.pmf(e) * hit[k - x[0] + e + reach]).sum() for k, p in zip(x, pmf, strict=True)
    )
    return probability, 2e-9


@pytest.mark.thinned("total", "scale", every=2)
@pytest.mark.parametrize("total", [0, 1, 7, 30, 59, 60])
@pytest.mark.parametrize("scale", [0.3, 4.0])
def test_exact_intervals_cover(total, scale):
    x = np.arange(16)
    law = Geometric(scale=scale)
    pmf = stats.hypergeom(60, total, 15).pmf(x)
    found, error = coverage("srs", law, total, pmf, x, "exact", sample_size=15, population_size=60)
    assert found >= 0.9 - error
    x = np.arange(total + 1)
    pmf = stats.binom(total, 0.4).pmf(x)
    found, error = coverage("poisson", law, total, pmf, x, "exact", rate=0.4)
    assert found >= 0.9 - error


@pytest.mark.slow
def test_convolution_intervals_cover_about_as_stated():
    # large samples: the coverage is nominal but for what normality leaves out, some tenths of 1 %
    rng, reps = np.random.default_rng(8), 100_000
    sizes, samples, truths = [20_000, 8_000], [1000, 800], [3000, 4000]
    law = Laplace(scale=10.0)
    y = law.rvs((reps, 2), rng=rng)
    for stratum, (n, m, k) in enumerate(zip(sizes, samples, truths, strict=True)):
        y[:, stratum] += rng.hypergeometric(k, n - k, m, size=reps)

    def ends(counts):
        total = stratified_total(counts, mechanism=law, sample_size=samples, population_size=sizes)
        found = total.conf_int(method="convolution")
        return total.params, found.upper - total.params, total.params - found.lower

    # half the width is a smooth function of the counts: between those of a grid by parabolas
    axes = np.linspace(y.min(axis=0), y.max(axis=0), 7).T
    halves = np.array([[ends([one, other])[1] for other in axes[1]] for one in axes[0]])
    half = RectBivariateSpline(*axes, halves, kx=2, ky=2).ev(*y.T)
    estimate = y @ np.divide(sizes, samples)
    for row in range(40):
        params, up, down = ends(y[row])
        np.testing.assert_allclose([params, up, down], [estimate[row], half[row], half[row]], 1e-4)
    hit = np.abs(estimate - 7000) <= half
    assert hit.mean() == pytest.approx(0.95, abs=0.004 + 6 * np.sqrt(0.05 * 0.95 / reps))


def sum_of_strata(law, alpha, sizes, samples):
    """Published pairs of counts and the ends of their intervals, for whole-numbered noise."""
    reach = int(law.isf(1e-3))
    values = [np.arange(-reach, n + reach + 1) for n in samples]
    pairs = [(one, other) for one in values[0] for other in values[1]]
    found = [
        stratified_total(pair, mechanism=law, sample_size=samples, population_size=sizes).conf_int(
            alpha
        )
        for pair in pairs
    ]
    return reach, np.array([tuple(part) for part in found])


@pytest.mark.parametrize("law", [Exact(), Geometric(scale=0.3)])
def test_exact_intervals_of_sums_over_strata_cover_by_enumeration(law):
    sizes, samples, alpha = [10, 15], [3, 2], 0.1
    reach, ends = sum_of_strata(law, alpha, sizes, samples)
    noise = law.cdf(np.arange(-reach, reach + 1)) - law.cdf(np.arange(-reach, reach + 1) - 1)
    for truth in [(0, 0), (1, 0), (0, 1), (1, 2), (1, 8), (5, 2), (5, 8), (9, 14), (10, 7)]:
        chances = [
            np.convolve(stats.hypergeom(size, k, n).pmf(np.arange(n + 1)), noise)
            for size, k, n in zip(sizes, truth, samples, strict=True)
        ]
        hit = (ends[:, 0] <= sum(truth)) & (sum(truth) <= ends[:, 1])
        # what is beyond the reach of the noise may be missed
        assert np.outer(*chances).ravel() @ hit >= 1 - alpha - 4 * law.sf(reach)


@pytest.mark.parametrize("design", ["srs", "poisson"])
def test_exact_sums_over_strata_are_not_much_wider_than_normal_ones(design):
    given = {"sample_size": [400, 500]} if design == "srs" else {"rate": [0.04, 0.125]}
    total = stratified_total(
        [150, 220],
        mechanism=Gaussian(sigma=8.0),
        population_size=[10_000, 4_000],
        design=design,
        **given,
    )
    exact, normal = total.conf_int(), total.conf_int(method="asymptotic")
    assert 0.98 < exact.width / normal.width < 1.1
    assert exact.notes == ()


def test_exact_sums_with_strata_that_are_censuses():
    law = Gaussian(sigma=3.0)
    both = {"sample_size": [100, 50], "population_size": [100, 50]}
    census = stratified_total([30, 7], mechanism=law, **both)
    np.testing.assert_allclose(
        tuple(census.conf_int()), tuple(census.conf_int(uncertainty="noise")), rtol=1e-12
    )
    one = stratified_total(
        [30, 7], mechanism=law, sample_size=[100, 50], population_size=[100, 500]
    )
    other = stratified_total([7], mechanism=law, sample_size=50, population_size=500)
    assert (
        other.conf_int().width
        < one.conf_int().width
        < 1.3 * one.conf_int(method="asymptotic").width
    )


def test_a_release_and_a_fit_bring_their_laws():
    counts = pd.Series([40.2, 74.9], index=["north", "south"])
    sizes = {"sample_size": [200, 500], "population_size": [10_000, 4_000]}
    noise = Laplace(scale=2.0)
    release = dpi.Release(counts, mechanism=noise)
    for estimate in (survey_total, survey_mean, stratified_total, stratified_mean):
        asked = estimate(counts, mechanism=noise, **sizes)
        pd.testing.assert_frame_equal(
            estimate(release, **sizes).summary_frame(), asked.summary_frame()
        )
    fit = dpi.combine([40.2, 74.9, 115.0], workload=[[1, 0], [0, 1], [1, 1]], mechanism=noise)
    both = dpi.noisy(fit).take([0, 1])
    found = survey_total(both, **sizes)
    weights = np.array([10_000 / 200, 4_000 / 500])
    np.testing.assert_allclose(found.variance_noise, np.square(weights * fit.bse[:2]), rtol=1e-12)
    own = found.conf_int(uncertainty="noise")
    np.testing.assert_allclose(own.width, weights * fit.conf_int().width[:2], rtol=1e-9)
    with pytest.raises(InvalidParameterError, match="stratified_total needs independent errors"):
        stratified_total(both, **sizes)
    with pytest.raises(InvalidParameterError, match="survey_mean does not take values that were"):
        survey_mean(dpi.Release(counts, mechanism=noise, threshold=30), **sizes)
    with pytest.raises(InvalidParameterError, match="the limit is 'asymptotic'"):
        found.conf_int(method="normal")
