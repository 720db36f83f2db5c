"""Widths that depend on what is published: beside simulations and enumerations."""

from itertools import product

import numpy as np
import pytest
from planned import Planned
from scipy import stats
from statsmodels.stats.proportion import proportion_confint as statsmodels_confint
from statsmodels.stats.proportion import samplesize_confint_proportion

from dpinfer import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    Tulap,
    WeightedSum,
    normal_mean_confint,
    odds_ratio_confint,
    poisson_confint,
    proportion_confint,
    risk_difference_confint,
    risk_ratio_confint,
)
from dpinfer.errors import InvalidParameterError

METHODS = ["exact", "mid-p", "wilson", "asymptotic"]


MAKERS = [Laplace.from_epsilon, Geometric.from_epsilon, Gaussian.from_rho, Tulap.from_epsilon]


@pytest.mark.parametrize(
    ("method", "name"), [("exact", "beta"), ("wilson", "wilson"), ("asymptotic", "normal")]
)
@pytest.mark.parametrize(("nobs", "value"), [(1, 0.3), (40, 0.5), (300, 0.02)])
def test_without_noise_it_is_the_expectation_of_statsmodels(method, name, nobs, value):
    k = np.arange(nobs + 1)
    lower, upper = statsmodels_confint(k, nobs, alpha=0.1, method=name)
    expected = stats.binom.pmf(k, nobs, value) @ (upper - lower)
    width = Planned(proportion_confint, mechanism=Exact(), method=method).width(
        nobs=nobs, proportion=value, alpha=0.1
    )
    assert width == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("half", [0.05, 0.01, 0.003])
def test_without_noise_sample_sizes_are_those_of_statsmodels(half):
    n = Planned(proportion_confint, mechanism=Exact(), method="asymptotic").solve(
        width=2.0 * half, proportion=0.3, alpha=0.05
    )
    # theirs is the width at the expected count, that differs by O(1/n)
    theirs = samplesize_confint_proportion(0.3, half, alpha=0.05, method="normal")
    assert abs(n - theirs) <= 3.0


@pytest.mark.thinned("made", "method", "nobs", every=2)
@pytest.mark.parametrize("made", MAKERS, ids=lambda made: made.__self__.__name__)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("nobs", "value", "budget"), [(10, 0.3, 1.0), (300, 0.02, 0.2)])
def test_expected_width_by_simulation(made, method, nobs, value, budget):
    reps, rng = 2000, np.random.default_rng(1)
    law = made(budget)
    count = rng.binomial(nobs, value, reps) + law.rvs(reps, rng=rng)
    widths = proportion_confint(count, nobs, mechanism=law, method=method).width
    expected = Planned(proportion_confint, mechanism=made, method=method).width(
        nobs=nobs, proportion=value, budget=budget
    )
    # 6 standard errors: chance 2e-9 each
    assert abs(widths.mean() - expected) < 6.0 * widths.std() / np.sqrt(reps)


@pytest.mark.parametrize("made", MAKERS[:2], ids=lambda made: made.__self__.__name__)
def test_stated_errors_are_small_and_true(made):
    plan = Planned(proportion_confint, mechanism=made)
    frame = plan.curve(nobs=[10, 1000], proportion=[0.01, 0.5], budget=[0.05, 1.0])
    assert (frame["error"] < 2e-4 * frame["width"]).all()
    assert list(frame.columns[-2:]) == ["width", "error"]


def test_noise_makes_intervals_wider_and_larger_samples_narrower():
    plan = Planned(proportion_confint, mechanism=Geometric.from_epsilon)
    widths = plan.width(nobs=[[50], [500], [5000]], proportion=0.3, budget=[0.05, 0.2, 1.0, 10.0])
    assert (np.diff(widths, axis=0) < 0.0).all()
    assert (np.diff(widths, axis=1) < 0.0).all()


def test_many_trials():
    plan = Planned(proportion_confint, mechanism=Gaussian(sigma=1e4), method="wilson")
    n = plan.solve(width=1e-4, proportion=0.3, alpha=0.05)
    # half² = z²·(n·p·(1 - p) + σ²)/n²
    half_square = np.square(stats.norm.isf(0.025)) * (0.21 * n + 1e8) / n**2
    assert half_square == pytest.approx(0.25e-8, rel=1e-6)


def test_a_small_budget_is_found_where_the_noise_is_very_wide():
    # the width of a million trials with a proportion from 0 to 1 is set by the noise alone
    plan = Planned(proportion_confint, mechanism=Laplace.from_epsilon)
    budget = plan.solve(width=0.1, proportion=0.5, alpha=0.05, nobs=10**6)
    assert budget == pytest.approx(2.0 * np.log(20.0) / 1e5, rel=1e-3)


def test_one_trial_is_enough_for_any_width_above_one():
    plan = Planned(proportion_confint, mechanism=Gaussian.from_rho, method="wilson")
    assert plan.solve(width=1e300, proportion=0.3, alpha=0.05, budget=1.0) == 1.0


RATE_METHODS = ["exact", "mid-p", "score", "asymptotic"]


RATE_MAKERS = [Laplace.from_epsilon, Geometric.from_epsilon, Gaussian.from_rho]


@pytest.mark.parametrize("mean", [0.5, 12.0])
def test_without_noise_it_is_the_expectation_of_garwoods_interval(mean):
    k = np.arange(200.0)
    # quantiles of half of chi-squared; the lower one is 0 for no events
    upper = stats.chi2.isf(0.05, 2 * k + 2) / 2
    lower = np.append(0.0, stats.chi2.ppf(0.05, 2 * k[1:]) / 2)
    expected = stats.poisson.pmf(k, mean) @ (upper - lower) / 4.0
    assert Planned(poisson_confint, mechanism=Exact()).width(
        exposure=4.0, rate=mean / 4.0, alpha=0.1
    ) == pytest.approx(expected, rel=1e-8)


@pytest.mark.thinned("made", "method", "exposure", every=2)
@pytest.mark.parametrize("made", RATE_MAKERS, ids=lambda made: made.__self__.__name__)
@pytest.mark.parametrize("method", RATE_METHODS)
@pytest.mark.parametrize(("exposure", "rate", "budget"), [(2.0, 0.3, 1.0), (50.0, 2.0, 0.2)])
def test_expected_width_by_simulation_of_rate(made, method, exposure, rate, budget):
    reps, rng = 2000, np.random.default_rng(2)
    law = made(budget)
    count = rng.poisson(exposure * rate, reps) + law.rvs(reps, rng=rng)
    widths = poisson_confint(count, exposure, mechanism=law, method=method).width
    expected = Planned(poisson_confint, mechanism=made, method=method).width(
        exposure=exposure, rate=rate, budget=budget
    )
    # 6 standard errors: chance 2e-9 each
    assert abs(widths.mean() - expected) < 6.0 * widths.std() / np.sqrt(reps)


def test_exposure_is_a_unit():
    plan = Planned(poisson_confint, mechanism=Geometric(scale=4.0))
    widths = plan.width(exposure=[1.0, 10.0, 100.0], rate=[30.0, 3.0, 0.3])
    np.testing.assert_allclose(widths, widths[0] / [1.0, 10.0, 100.0], rtol=1e-12)


LAWS = [Laplace(scale=2.0), Geometric(scale=2.0), Gaussian(sigma=3.0), Tulap(scale=2.0)]


def published(nobs, value, law, other, is_total, reps, rng):
    """Draws of the count and of the number of trials."""
    noise = law.rvs(reps, rng=rng)
    count = rng.binomial(nobs, value, reps) + noise
    return count, nobs + other.rvs(reps, rng=rng) + (noise if is_total else 0)


def frame_of(plan, **arguments):
    """Planned width and its error."""
    row = plan.curve(**arguments).iloc[0]
    return row["width"], row["error"]


@pytest.mark.parametrize("is_total", [False, True])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
@pytest.mark.parametrize(("nobs", "value"), [(30, 0.5), (400, 0.03)])
def test_width_is_the_average_of_simulated_normal_intervals(law, is_total, nobs, value):
    other, reps = Gaussian(sigma=4.0) if not law.is_integer else Geometric(scale=3.0), 20_000
    pairs = published(nobs, value, law, other, is_total, reps, np.random.default_rng(5))
    known = {"method": "asymptotic", "nobs_mechanism": other, "nobs_is_total": is_total}
    widths = proportion_confint(*pairs, mechanism=law, **known).width
    planned, error = frame_of(
        Planned(proportion_confint, mechanism=law, **known), nobs=nobs, proportion=value
    )
    # 6 standard errors: chance 2e-9 each of 16
    assert abs(widths.mean() - planned) < 6.0 * widths.std() / np.sqrt(reps) + 3.0 * error
    assert error < 1e-3 * planned


@pytest.mark.parametrize(
    ("law", "is_total"), [(Gaussian(sigma=3.0), True), (Geometric(scale=1.5), False)], ids=str
)
def test_width_is_the_average_of_simulated_exact_intervals(law, is_total):
    nobs, value, reps = 50, 0.3, 8
    pairs = published(nobs, value, law, law, is_total, reps, np.random.default_rng(6))
    known = {"nobs_mechanism": law, "nobs_is_total": is_total}
    exact = proportion_confint(*pairs, mechanism=law, **known).width
    normal = proportion_confint(*pairs, mechanism=law, method="asymptotic", **known).width
    planned, error = frame_of(
        Planned(proportion_confint, mechanism=law, **known), nobs=nobs, proportion=value
    )
    # 6 standard errors, and the plan's: chance 2e-9 each of 2
    slack = 6.0 / np.sqrt(reps)
    assert abs(exact.mean() - planned) < slack * exact.std() + 3.0 * error
    # by how much exact intervals are wider varies less, and is planned from 8 pairs
    more = planned - Planned(proportion_confint, mechanism=law, method="asymptotic", **known).width(
        nobs=nobs, proportion=value
    )
    wider = exact - normal
    assert abs(wider.mean() - more) < (slack + 6.0 / np.sqrt(8)) * wider.std() + 3.0 * error


@pytest.mark.parametrize(
    ("law", "is_total", "nobs", "reps"),
    [
        pytest.param(LAWS[0], False, 25, 12, marks=pytest.mark.slow),
        *(
            pytest.param(law, total, 60, 60, marks=pytest.mark.study)
            for law in LAWS[:3]
            for total in (False, True)
        ),
    ],
    ids=repr,
)
def test_width_is_the_average_of_many_exact_intervals(law, is_total, nobs, reps):
    value = 0.3
    pairs = published(nobs, value, law, law, is_total, reps, np.random.default_rng(7))
    known = {"nobs_mechanism": law, "nobs_is_total": is_total}
    widths = proportion_confint(*pairs, mechanism=law, **known).width
    planned, error = frame_of(
        Planned(proportion_confint, mechanism=law, **known), nobs=nobs, proportion=value
    )
    # Student's t of as many widths: chance 2e-9 each
    spread = stats.t.isf(1e-9, reps - 1) * widths.std(ddof=1) / np.sqrt(reps)
    assert abs(widths.mean() - planned) < spread + 3.0 * error


@pytest.mark.parametrize("is_total", [False, True])
def test_width_is_that_of_an_enumeration(is_total):
    nobs, value, law, other = 50, 0.3, Geometric(scale=0.7), Geometric(scale=1.5)
    first, second = np.arange(-18.0, 19.0), np.arange(-36.0, 37.0)
    x, e, d = np.meshgrid(np.arange(nobs + 1.0), first, second, indexing="ij")
    weights = stats.binom.pmf(x, nobs, value) * law.pmf(e) * other.pmf(d)
    count, total = x + e, nobs + d + (e if is_total else 0.0)
    known = {"method": "asymptotic", "nobs_mechanism": other, "nobs_is_total": is_total}
    widths = proportion_confint(count.ravel(), total.ravel(), mechanism=law, **known).width
    planned, error = frame_of(
        Planned(proportion_confint, mechanism=law, **known), nobs=nobs, proportion=value
    )
    assert planned == pytest.approx(weights.ravel() @ widths, rel=2e-4)
    assert abs(planned - weights.ravel() @ widths) < 5.0 * error + 1e-6


def test_without_noise_in_the_number_it_is_the_plan_for_a_known_one():
    law = Gaussian(sigma=2.0)
    known = Planned(proportion_confint, mechanism=law, method="asymptotic").width(
        nobs=200, proportion=0.3
    )
    noisy = Planned(
        proportion_confint, mechanism=law, method="asymptotic", nobs_mechanism=Exact()
    ).width(nobs=200, proportion=0.3)
    assert noisy == pytest.approx(known, rel=1e-5)


def test_a_sum_of_noises_may_be_in_the_total():
    law = Gaussian(sigma=2.0)
    other = WeightedSum([1.0, 1.0, 1.0], law)
    plan = Planned(
        proportion_confint,
        mechanism=law,
        method="asymptotic",
        nobs_mechanism=other,
        nobs_is_total=True,
    )
    alone = Planned(
        proportion_confint,
        mechanism=law,
        method="asymptotic",
        nobs_mechanism=law,
        nobs_is_total=True,
    )
    assert plan.width(nobs=90, proportion=0.4) > alone.width(nobs=90, proportion=0.4)


def test_exact_intervals_are_planned_near_normal_ones_with_little_noise():
    law = Gaussian(sigma=0.2)
    plan = Planned(proportion_confint, mechanism=law, nobs_mechanism=law)
    n = plan.solve(width=0.7, proportion=0.5, alpha=0.05)
    least, fewer = plan.width(nobs=[n, n - 1], proportion=0.5)
    assert least <= 0.7 < fewer
    # the ends of an interval need more than the share of alpha that the number of trials takes
    with pytest.raises(InvalidParameterError, match=r"which alpha = 0.0002 has already"):
        plan.solve(width=0.9999, proportion=0.5, nobs=4, alpha=None)


@pytest.mark.slow
def test_exact_intervals_are_planned_near_normal_ones():
    plan = Planned(
        proportion_confint, mechanism=Gaussian.from_rho, nobs_mechanism=Gaussian.from_rho
    )
    budget = plan.solve(width=0.4, proportion=0.3, alpha=0.05, nobs=30)
    assert plan.width(nobs=30, proportion=0.3, budget=budget) <= 0.4
    assert plan.width(nobs=30, proportion=0.3, budget=budget * (1.0 - 1e-3)) > 0.4


def test_a_budget_may_be_for_the_number_of_trials_alone():
    plan = Planned(
        proportion_confint,
        mechanism=Exact(),
        method="asymptotic",
        nobs_mechanism=Laplace.from_epsilon,
    )
    budget = plan.solve(width=0.2, proportion=0.4, alpha=0.05, nobs=100)
    assert plan.width(nobs=100, proportion=0.4, budget=budget) == pytest.approx(0.2, rel=1e-8)


CONFINTS = {
    "risk ratio": risk_ratio_confint,
    "odds ratio": odds_ratio_confint,
    "risk difference": risk_difference_confint,
}


KINDS = [
    {"method": "exact"},
    {"method": "exact", "row_totals": True},
    {"method": "asymptotic"},
    {"method": "asymptotic", "uncertainty": "noise+sampling"},
    {"method": "asymptotic", "uncertainty": "noise+sampling", "row_totals": True},
]


SETTING = {"nobs1": 80, "prop1": 0.4, "prop2": 0.25}


def widths_of(measure, tables, law, kind, alpha=0.05):
    """Widths of the actual intervals, on the scale that is the default."""
    arguments = {"alpha": alpha, **kind}
    if arguments.pop("row_totals", False):
        arguments["row_totals"] = [80, 120]
    intervals = CONFINTS[measure](tables, mechanism=law, **arguments)
    if measure == "risk difference":
        return intervals.width
    lower, upper = intervals
    with np.errstate(divide="ignore"):
        return np.where(intervals.empty, 0.0, np.log(upper / lower))


def simulated(law, kind, reps, rng):
    """Published tables of groups of 80 and 120."""
    sizes = np.array([80, 120])
    if kind.get("uncertainty") == "noise+sampling":
        events = rng.binomial(sizes, [0.4, 0.25], (reps, 2))
    else:
        events = np.broadcast_to([32, 30], (reps, 2))
    tables = np.stack([events, sizes - events], axis=2)
    return tables + law.rvs(tables.shape, rng=rng)


@pytest.mark.thinned("measure", "kind", "law", every=2)
@pytest.mark.parametrize("measure", CONFINTS)
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("law", [Laplace(scale=2.0), Geometric(scale=1.5), Gaussian(sigma=9.0)])
def test_width_is_the_average_of_simulated_intervals(measure, kind, law):
    rng = np.random.default_rng(31)
    reps = 2000
    widths = widths_of(measure, simulated(law, kind, reps, rng), law, kind)
    plan = Planned(CONFINTS[measure], mechanism=law, ratio=1.5, **kind)
    frame = plan.curve(**SETTING)
    planned, error = frame["width"][0], frame["error"][0]
    # 6 standard deviations of the simulation: 2e-9 for each of 45 cases
    if measure == "risk difference":
        allowed = 6.0 * widths.std() / np.sqrt(reps) + 3.0 * error + 1e-12
        assert widths.mean() == pytest.approx(planned, abs=allowed)
    else:
        spread = 3.0 / np.sqrt(reps)
        low, high = np.quantile(widths, [0.5 - spread, 0.5 + spread], method="inverted_cdf")
        assert low * (1.0 - 1e-12) <= planned + 3.0 * error
        assert planned - 3.0 * error <= high * (1.0 + 1e-12)


@pytest.mark.parametrize("measure", CONFINTS)
def test_width_is_that_of_an_enumeration_of_noises(measure):
    law = Geometric(scale=0.4)
    noise = np.arange(-9, 10)
    tables = np.array([[32, 48], [30, 90]]) + np.array(
        list(product(noise, repeat=4)), dtype=float
    ).reshape(-1, 2, 2)
    weights = np.prod(np.array(list(product(law.pmf(noise), repeat=4))), axis=1)
    widths = widths_of(measure, tables, law, {"method": "asymptotic"})
    plan = Planned(CONFINTS[measure], mechanism=law, ratio=1.5, method="asymptotic")
    if measure == "risk difference":
        assert plan.width(**SETTING) == pytest.approx(weights @ widths, rel=1e-5)
        return
    order = np.argsort(widths)
    middle = np.searchsorted(np.cumsum(weights[order]), [0.499, 0.501])
    low, high = widths[order][middle]
    assert low * (1.0 - 1e-12) <= plan.width(**SETTING) <= high * (1.0 + 1e-12)


@pytest.mark.parametrize("measure", CONFINTS)
def test_width_is_that_of_an_enumeration_of_samples(measure):
    first, second = np.meshgrid(np.arange(81.0), np.arange(121.0), indexing="ij")
    tables = np.stack([first, 80 - first, second, 120 - second], axis=2).reshape(-1, 2, 2)
    weights = np.multiply.outer(
        stats.binom.pmf(np.arange(81), 80, 0.4), stats.binom.pmf(np.arange(121), 120, 0.25)
    ).ravel()
    kind = {"method": "asymptotic", "uncertainty": "noise+sampling"}
    widths = widths_of(measure, tables, Exact(), kind)
    plan = Planned(CONFINTS[measure], mechanism=Exact(), ratio=1.5, **kind)
    if measure == "risk difference":
        assert plan.width(**SETTING) == pytest.approx(weights @ widths, rel=1e-5)
        return
    order = np.argsort(widths)
    middle = np.searchsorted(np.cumsum(weights[order]), [0.499, 0.501])
    low, high = widths[order][middle]
    assert low * (1.0 - 1e-12) <= plan.width(**SETTING) <= high * (1.0 + 1e-12)


def test_row_totals_have_a_closed_form():
    # the difference is linear in the noise, a and n - b having the same weight
    plan = Planned(
        risk_difference_confint, mechanism=Gaussian(sigma=2.0), ratio=1.5, row_totals=True
    )
    t = stats.norm.isf(0.05) * 2.0 * np.sqrt(0.5)
    expected = 2 * t * np.hypot(1 / 80, 1 / 120)
    assert plan.width(**SETTING, alpha=0.1) == pytest.approx(expected, rel=1e-9)


def test_scales_are_of_the_same_median():
    law = Gaussian(sigma=0.01)
    log, plain = (
        Planned(risk_ratio_confint, mechanism=law, scale=scale).width(**SETTING)
        for scale in ("log", "plain")
    )
    assert plain == pytest.approx(1.6 * log, rel=1e-3)


def test_half_of_the_intervals_without_a_bound_make_an_infinite_width():
    plan = Planned(risk_ratio_confint, mechanism=Laplace.from_epsilon)
    frame = plan.curve(**SETTING, budget=[1e-3, 1.0])
    np.testing.assert_array_equal(np.isinf(frame["width"]), [True, False])
    assert np.isfinite(frame["error"]).all()
    difference = Planned(risk_difference_confint, mechanism=Laplace.from_epsilon)
    assert difference.width(**SETTING, budget=1e-6) == pytest.approx(2.0, abs=0.1)


def test_each_cell_has_its_own_law():
    laws = [Gaussian(sigma=3.0), Exact(), Exact(), Gaussian(sigma=3.0)]
    one, other = (
        Planned(risk_ratio_confint, mechanism=laws).width(**SETTING),
        Planned(risk_ratio_confint, mechanism=laws[0]).width(**SETTING),
    )
    assert 0.0 < one < other


KNOWN = [
    {"mean_bounds": (0.0, 300.0)},
    {"mean_bounds": (0.0, 300.0), "method": "tail-bound"},
    {"mean_bounds": (0.0, 300.0), "split": (1.0, 3.0)},
    {"delta": 1e-6},
]


UNKNOWN = [
    {"mean_bounds": (0.0, 300.0), "std_bounds": (0.1, 100.0)},
    {"delta": 1e-6},
    {"delta": 1e-6, "std_bounds": (1.0, 1e4), "split": (1.0, 1.0, 2.0, 2.0)},
]


@pytest.mark.parametrize("parts", KNOWN, ids=str)
@pytest.mark.parametrize(("nobs", "budget"), [(900, 1.0), (3000, 2.0), (40, 1.0)])
def test_width_is_that_of_the_interval_where_the_variance_is_known(parts, nobs, budget):
    rng = np.random.default_rng(5)
    data = 150.0 + 15.0 * rng.standard_normal(nobs)
    interval = normal_mean_confint(data, epsilon=budget, std=15.0, rng=rng, **parts)
    width = Planned(normal_mean_confint, **parts).width(nobs=nobs, std=15.0, budget=budget)
    assert width == pytest.approx(float(interval.width), rel=1e-12)


@pytest.mark.thinned("parts", "nobs", every=2)
@pytest.mark.parametrize("parts", UNKNOWN, ids=str)
@pytest.mark.parametrize(("nobs", "std", "budget"), [(1201, 15.0, 3.0), (3000, 21.0, 2.0)])
def test_width_is_the_average_of_simulated_intervals_of_normal_mean(parts, nobs, std, budget):
    rng = np.random.default_rng(7)
    widths = [
        normal_mean_confint(rng.normal(150.0, std, nobs), epsilon=budget, rng=rng, **parts).width
        for _ in range(300)
    ]
    frame = Planned(normal_mean_confint, known_std=False, **parts).curve(
        nobs=nobs, std=std, budget=budget
    )
    # 6 standard errors of both simulations, 2e-9 for each of 6 cases
    allowed = 6.0 * np.hypot(np.std(widths) / np.sqrt(300), frame["error"][0])
    assert np.mean(widths) == pytest.approx(frame["width"][0], abs=allowed)


def test_too_few_observations_have_the_bounds_as_interval():
    bounded, free = (
        Planned(normal_mean_confint, mean_bounds=(-5, 5)),
        Planned(normal_mean_confint, delta=1e-9),
    )
    assert bounded.width(nobs=10, std=1.0, budget=0.1) == 10.0
    assert free.width(nobs=10, std=1.0, budget=0.1) == np.inf


@pytest.mark.parametrize("known", [True, False])
def test_width_is_in_units_of_the_variable(known):
    plan = Planned(normal_mean_confint, known_std=known, delta=1e-6)
    # bins of differences are powers of 2
    widths = plan.width(nobs=5000, std=[1.0, 8.0, 1024.0], budget=2.0)
    np.testing.assert_allclose(widths, widths[0] * np.array([1.0, 8.0, 1024.0]), rtol=1e-9)


def test_much_data_leave_the_normal_interval():
    widths = [
        Planned(normal_mean_confint, known_std=known, delta=1e-6).width(
            nobs=10**12, std=1.0, budget=1.0
        )
        for known in (True, False)
    ]
    # known: 0.95 + 0.1·0.05 of the level is left; unknown: a share of it goes to the noise
    assert widths[0] == pytest.approx(2 * 1.96e-6, rel=0.03)
    assert widths[0] < widths[1] < 1.2 * widths[0]


NARROW_TO_WIDE = [
    Laplace(scale=0.01),
    Laplace(scale=3.0),
    Laplace(scale=1e5),
    Gaussian(sigma=0.1),
    Gaussian(sigma=30.0),
    Geometric(scale=0.3),
    Geometric(scale=10.0),
    DiscreteGaussian(sigma=3.0),
    Exact(),
]
COUNTS = {
    "one trial": stats.binom(1, 0.3),
    "ten trials": stats.binom(10, 0.5),
    "rare": stats.binom(200, 0.01),
    "many trials": stats.binom(5000, 0.2),
    "a million trials": stats.binom(10**6, 0.4),
    "hardly an event": stats.poisson(0.01),
    "few events": stats.poisson(3.0),
    "many events": stats.poisson(2e4),
}


def noises(law):
    """Values of a noise and their weights, fine enough for smooth functions."""
    if not law.variance:
        return np.zeros(1), np.ones(1)
    reach = 22.0 * float(law.std)
    values = np.arange(-np.ceil(reach), np.ceil(reach) + 1.0)
    if not law.is_integer:
        values = np.linspace(-reach, reach, 2401)
    weights = law.pmf(values) if law.is_integer else law.pdf(values)
    return values, weights / weights.sum()


@pytest.mark.thinned("law", "count", every=3)
@pytest.mark.parametrize("law", NARROW_TO_WIDE, ids=repr)
@pytest.mark.parametrize("count", COUNTS)
def test_expectations_are_sums_over_counts_and_noises(law, count):
    truth = COUNTS[count]
    step = max(1.0, np.floor(truth.std() / 40.0))
    low, high = truth.ppf(1e-13), truth.isf(1e-13)
    x = np.arange(low, high + 1.0, step)
    e, weights = noises(law)
    grid = np.multiply.outer(truth.pmf(x) / truth.pmf(x).sum(), weights)
    published = np.add.outer(x, e)
    if "event" in count:
        kind, own = {"method": "score"}, {"exposure": 1.0, "rate": truth.mean()}
        intervals = poisson_confint(published.ravel(), 1.0, mechanism=law, **kind)
        plan = Planned(poisson_confint, mechanism=law, **kind)
    else:
        nobs = truth.args[0]
        kind, own = {"method": "wilson"}, {"nobs": nobs, "proportion": truth.args[1]}
        intervals = proportion_confint(published.ravel(), nobs, mechanism=law, **kind)
        plan = Planned(proportion_confint, mechanism=law, **kind)
    planned, error = frame_of(plan, **own)
    expected = grid.ravel() @ intervals.width
    assert abs(planned - expected) <= 5.0 * error + 1e-4 * expected
    assert error < 1e-2 * expected
