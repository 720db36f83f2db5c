"""Effects of tests: an interval holds what is tested just where the p-value is not below alpha."""

import pickle

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from crossed import in_turn
from duality import ALTERNATIVES, check_dual
from scipy import stats

from dpinfer import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    RandomizedResponse,
    Release,
    Tulap,
    adjust_pvalues,
    chisquare,
    count_confint,
    counts_2indep,
    counts_paired,
    counts_trend,
    linear_confint,
    linear_ztest,
    mcnemar,
    poisson_2indep,
    poisson_confint,
    poisson_ztest,
    proportion_confint,
    proportions_2indep,
    proportions_trend,
    proportions_ztest,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Rounded

NOISES = [
    Exact(),
    Geometric(scale=1.0),
    DiscreteGaussian(sigma=2.0),
    Laplace(scale=2.0),
    Gaussian(sigma=3.0),
]
ids = [f"{noise}" for noise in NOISES]


def of_noise(noise, whole, between):
    return float(whole) if noise.is_integer else whole + between


@pytest.mark.thinned("noise", "alternative", "method", "count", every=3)
@pytest.mark.parametrize("noise", NOISES, ids=ids)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("method", ["exact", "asymptotic"])
@pytest.mark.parametrize("count", [0, 4, 13, 30])
def test_one_proportion(noise, alternative, method, count):
    count = of_noise(noise, count, 0.3)
    values = np.concatenate([np.linspace(0.001, 0.999, 27), np.arange(1, 30) / 30])
    how = {"mechanism": noise, "alternative": alternative, "method": method}
    check_dual(lambda p: proportions_ztest(count, 30, p, **how), values)


@pytest.mark.parametrize("noise", [Exact(), Geometric(scale=1.0), Tulap(scale=1.5)], ids=str)
def test_one_proportion_unbiased(noise):
    count = of_noise(noise, 8, 0.3)
    how = {"mechanism": noise, "method": "unbiased"}
    values = np.linspace(0.01, 0.99, 5 if isinstance(noise, Tulap) else 20)
    check_dual(lambda p: proportions_ztest(count, 30, p, **how), values)


@pytest.mark.thinned("noise", "alternative", "method", "count", every=3)
@pytest.mark.parametrize("noise", NOISES, ids=ids)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("method", ["exact", "asymptotic"])
@pytest.mark.parametrize("count", [0, 7])
def test_one_rate(noise, alternative, method, count):
    count = of_noise(noise, count, 0.3)
    values = np.concatenate([np.linspace(0.01, 10, 30), np.arange(1, 20) / 2])
    how = {"mechanism": noise, "alternative": alternative, "method": method}
    check_dual(lambda rate: poisson_ztest(count, 2.0, rate, **how), values)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_simulated_intervals_hold_the_tested_value_just_where_it_is_not_rejected(alternative):
    how = {"mechanism": Geometric(scale=2.0), "alternative": alternative, "method": "monte-carlo"}
    values = np.array([0.14, 0.3, 0.42])
    for value in values:
        result = proportions_ztest(34, 100, value, **how, reps=999, rng=3)
        inside = bool(result.conf_int().contains(value))
        assert inside == (result.pvalue >= 0.05)
    result = proportions_ztest(34, 100, 0.3, **how, reps=20_000, rng=3)
    exact = proportions_ztest(34, 100, 0.3, mechanism=how["mechanism"], alternative=alternative)
    # p-values at an end have a standard error of 0.0015, and a slope of 2.5 by 0.01: 6 of them
    np.testing.assert_allclose(result.conf_int(), exact.conf_int(), atol=0.006)


def test_a_simulation_is_not_changed_by_its_interval():
    rng = np.random.default_rng(8)
    result = proportions_ztest(34, 100, 0.3, mechanism=NOISES[1], method="monte-carlo", rng=rng)
    after = rng.bit_generator.state
    first = result.conf_int()
    assert rng.bit_generator.state == after
    assert result.conf_int() is first
    again = proportions_ztest(34, 100, 0.3, mechanism=NOISES[1], method="monte-carlo", rng=8)
    np.testing.assert_array_equal(again.conf_int(), first)


def accepted_hull(count, nobs, noise, alpha, grid):
    """All proportions of a grid that the two-sided test does not reject, by enumeration."""
    x, t = np.arange(nobs + 1), np.arange(-60, nobs + 61)
    masses = noise.pmf(t - x[:, None])
    p = grid[:, None]
    far = np.abs(t - nobs * p) >= np.abs(count - nobs * p) - 1e-12
    found = grid[((stats.binom.pmf(x, nobs, p) @ masses) * far).sum(axis=1) >= alpha]
    return found.min(initial=np.inf), found.max(initial=-np.inf)


@pytest.mark.parametrize("count", [-6, -2, 0, 3, 9, 15, 17])
def test_inverted_interval_is_the_hull_by_enumeration(count):
    noise, nobs = Geometric(scale=1.2), 15
    grid = np.unique(np.concatenate([np.linspace(1e-6, 1 - 1e-6, 4001), np.arange(1, 60) / 60]))
    low, high = accepted_hull(count, nobs, noise, 0.1, grid)
    held = proportion_confint(count, nobs, mechanism=noise, alpha=0.1, method="inverted")
    if held.empty:
        assert low == np.inf
        return
    assert held.lower <= low <= held.lower + 3e-4
    assert held.upper - 3e-4 <= high <= held.upper
    assert held.notes == () or "gaps" in held.notes[0]


def test_inverted_interval_that_rejects_nothing_has_no_end_to_look_for():
    noise = Rounded(Laplace(scale=2.2))
    low, high = accepted_hull(2, 4, noise, 0.05, np.linspace(1e-6, 1 - 1e-6, 401))
    held = proportions_ztest(2, 4, 0.5, mechanism=noise).conf_int()
    assert (low, high) == (1e-6, 1 - 1e-6)
    assert (held.lower, held.upper) == (0.0, 1.0)


@pytest.mark.parametrize("noise", NOISES, ids=ids)
def test_inverted_interval_is_that_of_the_test(noise):
    counts = np.array([of_noise(noise, count, 0.4) for count in (1, 12, 25, 40)])
    test = proportions_ztest(counts, 40, 0.3, mechanism=noise)
    held = proportion_confint(counts, 40, mechanism=noise, method="inverted")
    np.testing.assert_array_equal(test.conf_int(), held)
    test = poisson_ztest(counts, 4.0, 3.0, mechanism=noise)
    held = poisson_confint(counts, 4.0, mechanism=noise, method="inverted")
    np.testing.assert_allclose(test.conf_int(), held, rtol=1e-14)


@pytest.mark.thinned("nobs", "noise", every=2)
@pytest.mark.parametrize("nobs", [6, 14])
@pytest.mark.parametrize("noise", [Exact(), Geometric(scale=0.7), Geometric(scale=3.0)], ids=str)
def test_coverage_by_enumeration(nobs, noise):
    reach = 0 if noise.std == 0 else int(noise.isf(1e-9))
    t = np.arange(-reach, nobs + reach + 1.0)
    held = proportion_confint(t, nobs, mechanism=noise, alpha=0.1, method="inverted")
    x = np.arange(nobs + 1)
    law = np.asarray(noise.pmf(t[:, None] - x)) if reach else np.eye(nobs + 1)
    lower, upper = np.asarray(held.lower), np.asarray(held.upper)
    for p in np.linspace(0.003, 0.997, 167):
        chances = law @ stats.binom.pmf(x, nobs, p)
        assert chances[(lower <= p) & (p <= upper)].sum() >= 0.9 - 1e-8
    exact = proportion_confint(t, nobs, mechanism=noise, alpha=0.1)
    inner = slice(reach, reach + nobs + 1)
    assert held.width[inner].mean() <= exact.width[inner].mean()


def test_one_sided_inverted_intervals_are_the_exact_ones():
    for side in ("larger", "smaller"):
        how = {"mechanism": Geometric(scale=2.0), "alternative": side}
        exact = proportion_confint([3, 20], 30, **how)
        np.testing.assert_array_equal(
            proportion_confint([3, 20], 30, **how, method="inverted"), exact
        )
        test = proportions_ztest([3, 20], 30, 0.4, **how)
        np.testing.assert_allclose(test.conf_int(), exact, atol=1e-9)


@pytest.mark.parametrize(
    ("noise", "method", "alternative"),
    in_turn(NOISES[:3], ["exact", "plug-in", "asymptotic"], ALTERNATIVES, every=2),
    ids=str,
)
def test_ratio_of_rates(noise, alternative, method):
    how = {"mechanism": noise, "alternative": alternative, "method": method}
    values = np.concatenate([np.geomspace(0.1, 30, 8), [0.5, 1.0, 2.0, 3.0]])
    held = check_dual(lambda r: poisson_2indep(14, 2.0, 6, 3.0, value=r, **how), values, near=1e-5)
    assert held.estimate == pytest.approx(3.5)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_ratio_of_rates_with_continuous_noise(alternative):
    how = {"mechanism": Laplace(scale=2.0), "alternative": alternative}
    values = np.geomspace(0.3, 12, 3)
    check_dual(lambda r: poisson_2indep(24.3, 2.0, 16.4, 3.0, value=r, **how), values, near=1e-3)


def test_ratio_of_rates_without_noise_is_that_of_scipy():
    held = poisson_2indep(20, 10.0, 9, 12.0, mechanism=Exact(), alternative="larger").conf_int()
    share = stats.binomtest(20, 29, alternative="greater").proportion_ci(0.95, method="exact").low
    assert held.lower == pytest.approx(share / (1 - share) * 1.2, rel=1e-6)


def test_odds_of_mcnemar():
    noise = Geometric(scale=1.0)
    result = mcnemar([[101, 14], [6, 33]], mechanism=noise)
    rates = poisson_2indep(14, 1.0, 6, 1.0, mechanism=noise)
    assert result.estimate == pytest.approx(14 / 6)
    np.testing.assert_array_equal(result.conf_int(), rates.conf_int())


@pytest.mark.thinned("alternative", "total", every=2)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("total", [False, True])
def test_proportion_with_noisy_trials(alternative, total):
    noise = Geometric(scale=1.5)
    how = {"mechanism": noise, "nobs_mechanism": noise, "nobs_is_total": total}
    how |= {"alternative": alternative}
    values = np.concatenate([np.linspace(0.02, 0.98, 6), [1 / 3, 1 / 4]])
    check_dual(lambda p: proportions_ztest(12, 40, p, **how), values, near=1e-5)


def test_noise_only_intervals_are_those_of_linear_confint():
    noise = DiscreteGaussian(sigma=8.0)
    result = linear_ztest([14619, 14629], [1, 1], 29277, mechanism=noise)
    held = linear_confint([14619, 14629], [1, 1], mechanism=noise)
    np.testing.assert_allclose(result.conf_int(), held, rtol=1e-12)
    result = linear_ztest([30.4, -2.1], mechanism=Laplace(scale=3.0))
    np.testing.assert_allclose(
        result.conf_int(), count_confint([30.4, -2.1], mechanism=Laplace(scale=3.0))
    )


@pytest.mark.parametrize(
    ("noise", "method", "alternative"),
    in_turn(NOISES[1:], ["exact", "monte-carlo", "asymptotic"], ALTERNATIVES, every=2),
    ids=str,
)
def test_difference_of_counts(noise, alternative, method):
    how = {"mechanism": noise, "alternative": alternative, "method": method}
    how |= {"reps": 999, "rng": 5}
    values = np.concatenate([np.arange(-30.0, 31.0, 2.0), np.linspace(-20.3, 20.7, 14)])
    check_dual(lambda d: counts_2indep(41, 37, d, **how), values, near=1e-7)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_values_that_reached_a_threshold(alternative):
    release = Release([118.0], mechanism=Geometric(scale=6.0), threshold=100)
    values = np.concatenate([np.linspace(60, 160, 41), np.arange(80.0, 140.0)])
    check_dual(
        lambda v: linear_ztest(release, value=v, alternative=alternative)[0], values, near=1e-7
    )


@pytest.mark.parametrize("statistic", ["max", "chi2"])
def test_differences_of_paired_tables(statistic):
    noise, first, second = Laplace(scale=2.0), [120.3, 88.1, 61.7], [118.9, 97.6, 60.2]
    method = {"max": "exact", "chi2": "asymptotic"}[statistic]
    how = {"mechanism": noise, "statistic": statistic, "method": method}
    result = counts_paired(first, second, **how)
    held = result.conf_int(float(result.pvalue) * (1 + 1e-9))
    assert held.simultaneous
    assert held.uncertainty == "noise"
    if statistic == "max":  # at the level of its p-value an interval ends at 0
        assert min(abs(np.asarray(held)).ravel()) < 1e-6
    # the box holds the differences of tables just where it is not rejected that they are those
    for shift in (0.0, 4.0, 8.0, 12.0, 20.0):
        moved = counts_paired(first, np.add(second, [shift, 0, 0]), **how)
        if moved.pvalue >= 0.05:
            assert result.conf_int().contains([shift, 0.0, 0.0]).all()


def test_two_counts_are_two_samples_as_in_statsmodels():
    noise = Geometric(scale=2.0)
    both = proportions_2indep(61, 200, 42, 210, mechanism=noise)
    for count in ([61, 42], pd.Series([61, 42]), Release([61, 42], mechanism=noise)):
        law = None if isinstance(count, Release) else noise
        result = proportions_ztest(count, [200, 210], mechanism=law)
        assert tuple(result) == tuple(both)
        assert np.shape(result.pvalue) == ()
    each = proportions_ztest([61, 42], [200, 210], 0.25, mechanism=noise)
    assert each.pvalue.shape == (2,)
    channel = RandomizedResponse(p=0.7)
    result = proportions_ztest([61, 42], [200, 210], mechanism=channel)
    assert tuple(result) == tuple(proportions_2indep(61, 200, 42, 210, mechanism=channel))
    for count in (61, [61], [61, 42, 13]):
        with pytest.raises(InvalidParameterError, match="value must be given"):
            proportions_ztest(count, 200, mechanism=noise)


def test_randomized_responses():
    channel = RandomizedResponse(p=0.75)
    result = proportions_ztest(44, 100, 0.3, mechanism=channel)
    reports = proportions_ztest(44, 100, 0.4, mechanism=Exact())
    assert result.estimate == pytest.approx((0.44 - 0.25) / 0.5)
    np.testing.assert_allclose(result.conf_int(), (np.asarray(reports.conf_int()) - 0.25) / 0.5)


def test_presentation():
    labels = pd.Index(["a", "b", "c"], name="area")
    counts = pd.Series([34.0, 3.0, 60.0], index=labels)
    result = proportions_ztest(counts, 100, 0.3, mechanism=Geometric(scale=2.0))
    assert result.effect == "proportion"
    assert list(result.estimate.index) == ["a", "b", "c"]
    assert list(result.summary_frame().columns) == ["statistic", "pvalue", "estimate"]
    frame = result.summary_frame(0.1)
    assert list(frame.columns)[-2:] == ["ci_lower", "ci_upper"]
    np.testing.assert_array_equal(frame["ci_lower"], result.conf_int(0.1).lower)
    assert "proportion" in result.summary()
    assert "0.2358" in result.summary()
    one = result["b"]
    assert one.conf_int().upper == result.conf_int().upper["b"]
    assert adjust_pvalues(result).reject["c"]
    copy = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(copy.conf_int(), result.conf_int())


def test_what_has_no_effect_says_so():
    result = chisquare([18, 25, 33], mechanism=Geometric(scale=1.0), nobs=76, rng=1)
    assert result.effect is None
    assert result.estimate is None
    with pytest.raises(InvalidParameterError, match="no one number"):
        result.conf_int()
    with pytest.raises(InvalidParameterError, match="alpha"):
        counts_2indep(3, 4, mechanism=Geometric(scale=1.0)).conf_int(1.5)


@pytest.mark.parametrize("mean", [30.0, 2049.54, 5000.0])
@pytest.mark.parametrize("noise", [Gaussian(sigma=3.0), DiscreteGaussian(sigma=3.0)], ids=str)
def test_rates_far_beyond_the_count_are_rejected(mean, noise):
    assert poisson_ztest(1, 1.0, mean, mechanism=noise).pvalue < 1e-4
    assert poisson_ztest(mean // 1 * 3, 1.0, mean, mechanism=noise).pvalue < 1e-9


@pytest.mark.thinned("alternative", "method", "noise", every=3)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("method", ["exact", "asymptotic"])
@pytest.mark.parametrize("noise", [Exact(), Geometric(scale=3.0), Laplace(scale=2.0)], ids=str)
def test_slope_over_cells(alternative, method, noise):
    """A slope is rejected just where the test with the shares of that slope rejects."""
    counts = np.array([18.0, 25.0, 33.0, 44.0]) + (0.0 if noise.is_integer else 0.2)

    def test(slope):
        shares = np.exp(slope * np.arange(4.0))
        how = {"mechanism": noise, "alternative": alternative, "method": method}
        return counts_trend(counts, 120, **how, shares=shares)

    held = test(0.0).conf_int()
    assert float(test(0.0).estimate) == pytest.approx(float(test(0.1).estimate) + 0.1, rel=1e-6)
    for slope in np.linspace(-0.2, 0.8, 9):
        inside = bool(held.contains(slope))
        if min(abs(slope - held.lower), abs(slope - held.upper)) > 1e-6 and not inside:
            assert test(slope).pvalue < 0.05
        elif method == "asymptotic" or not noise.is_integer:
            assert not inside or test(slope).pvalue >= 0.05


def test_slope_over_cells_simulated():
    how = {"mechanism": Geometric(scale=3.0)}
    simulated = counts_trend([18, 25, 33, 41], 120, **how, method="monte-carlo", rng=2)
    exact = counts_trend([18, 25, 33, 41], 120, **how)
    np.testing.assert_allclose(simulated.conf_int(), exact.conf_int(), atol=0.02)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("noise", [Exact(), Geometric(scale=2.0)], ids=str)
def test_slope_over_groups(alternative, noise):
    how = {"mechanism": noise, "alternative": alternative, "method": "asymptotic"}
    counts, nobs, scores = np.array([11.0, 19.0, 40.0]), np.array([100, 80, 120]), [0.0, 1.0, 2.5]
    result = proportions_trend(counts, nobs, scores, **how)
    design = sm.add_constant(np.array(scores))
    table = np.column_stack([counts, nobs - counts])
    fit = sm.GLM(table, design, family=sm.families.Binomial()).fit(tol=1e-12)
    assert result.estimate == pytest.approx(fit.params[1], rel=1e-8)
    held = result.conf_int()
    # the score statistic at each end, from a fit with the slope as an offset
    beyond = {"two-sided": 0.025, "larger": 0.05, "smaller": 0.05}[alternative]
    for end in np.asarray(held).ravel():
        if np.isinf(end):
            continue
        offset = end * np.array(scores)
        null = sm.GLM(table, np.ones(3), family=sm.families.Binomial(), offset=offset)
        p = null.fit(tol=1e-12).fittedvalues
        weights = nobs * p * (1 - p)
        centred = np.array(scores) - weights @ scores / weights.sum()
        variance = np.square(centred) @ (weights + noise.variance)
        z = centred @ (counts - nobs * p) / np.sqrt(variance)
        assert abs(z) == pytest.approx(stats.norm.isf(beyond), rel=1e-6)
    # at the level of its p-value the interval of a two-sided test ends at 0
    if alternative == "two-sided":
        assert abs(result.conf_int(float(result.pvalue)).lower) < 1e-6


def test_slope_over_groups_simulated_and_at_its_limits():
    noise = Geometric(scale=2.0)
    near = proportions_trend([11, 19, 40], [100, 80, 120], mechanism=noise, method="asymptotic")
    result = proportions_trend([11, 19, 40], [100, 80, 120], mechanism=noise, rng=4)
    np.testing.assert_allclose(result.conf_int(), near.conf_int(), atol=0.03)
    assert result.conf_int().contains(0.0) == (result.pvalue >= 0.05)
    assert "slope of the log-odds" in result.summary()
    how = {"mechanism": noise, "method": "asymptotic"}
    steep = proportions_trend([0, 50, 100], [100, 100, 100], **how)
    assert steep.estimate == np.inf
    assert steep.conf_int().upper == np.inf
    assert steep.conf_int().lower > 0
