import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint as statsmodels_confint
from statsmodels.stats.proportion import samplesize_confint_proportion

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.intervals import proportion_confint
from dpinfer.intervals.widths import ProportionWidth
from dpinfer.mechanisms import Exact, Gaussian, Geometric, Laplace, Tulap

METHODS = ["exact", "mid-p", "wilson", "normal"]
MAKERS = [Laplace.from_epsilon, Geometric.from_epsilon, Gaussian.from_rho, Tulap.from_epsilon]


@pytest.mark.parametrize(
    ("method", "name"), [("exact", "beta"), ("wilson", "wilson"), ("normal", "normal")]
)
@pytest.mark.parametrize(("nobs", "value"), [(1, 0.3), (40, 0.5), (300, 0.02)])
def test_without_noise_it_is_the_expectation_of_statsmodels(method, name, nobs, value):
    k = np.arange(nobs + 1)
    lower, upper = statsmodels_confint(k, nobs, alpha=0.1, method=name)
    expected = stats.binom.pmf(k, nobs, value) @ (upper - lower)
    width = ProportionWidth(Exact(), method=method).width(nobs, value, 0.1)
    assert width == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("half", [0.05, 0.01, 0.003])
def test_without_noise_sample_sizes_are_those_of_statsmodels(half):
    n = ProportionWidth(Exact(), method="normal").solve_width(
        width=2.0 * half, proportion=0.3, alpha=0.05
    )
    # theirs is the width at the expected count, that differs by O(1/n)
    theirs = samplesize_confint_proportion(0.3, half, alpha=0.05, method="normal")
    assert abs(n - theirs) <= 3.0


@pytest.mark.parametrize("made", MAKERS, ids=lambda made: made.__self__.__name__)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("nobs", "value", "budget"), [(10, 0.3, 1.0), (300, 0.02, 0.2)])
def test_expected_width_by_simulation(made, method, nobs, value, budget):
    reps, rng = 2000, np.random.default_rng(1)
    law = made(budget)
    count = rng.binomial(nobs, value, reps) + law.rvs(reps, rng=rng)
    widths = proportion_confint(count, nobs, mechanism=law, method=method).width
    expected = ProportionWidth(made, method=method).width(nobs, value, budget=budget)
    # 6 standard errors: chance 2e-9 each
    assert abs(widths.mean() - expected) < 6.0 * widths.std() / np.sqrt(reps)


@pytest.mark.parametrize("made", MAKERS[:3], ids=lambda made: made.__self__.__name__)
@pytest.mark.parametrize("method", ["exact", "wilson", "normal"])
def test_solved_arguments_reach_the_width_and_no_more(made, method):
    plan = ProportionWidth(made, method=method)
    target, known = 0.2, {"proportion": 0.3, "alpha": 0.05, "width": 0.2}
    n = plan.solve_width(budget=0.5, **known)
    assert plan.width(n, 0.3, budget=0.5) <= target < plan.width(n - 1, 0.3, budget=0.5)
    budget = plan.solve_width(nobs=n, **known)
    assert budget <= 0.5
    assert plan.width(n, 0.3, budget=budget) == pytest.approx(target, rel=1e-8)
    alpha = plan.solve_width(nobs=n, proportion=0.3, width=target, budget=0.5)
    assert alpha <= 0.05
    assert plan.width(n, 0.3, alpha, 0.5) == pytest.approx(target, rel=1e-8)


@pytest.mark.parametrize("made", MAKERS[:2], ids=lambda made: made.__self__.__name__)
def test_stated_errors_are_small_and_true(made):
    plan = ProportionWidth(made)
    frame = plan.width_frame(nobs=[10, 1000], proportion=[0.01, 0.5], budget=[0.05, 1.0])
    assert (frame["error"] < 2e-4 * frame["width"]).all()
    assert list(frame.columns[-2:]) == ["width", "error"]


def test_noise_makes_intervals_wider_and_larger_samples_narrower():
    plan = ProportionWidth(Geometric.from_epsilon)
    widths = plan.width([[50], [500], [5000]], 0.3, budget=[0.05, 0.2, 1.0, 10.0])
    assert (np.diff(widths, axis=0) < 0.0).all()
    assert (np.diff(widths, axis=1) < 0.0).all()


def test_many_trials():
    plan = ProportionWidth(Gaussian(sigma=1e4), method="wilson")
    n = plan.solve_width(width=1e-4, proportion=0.3, alpha=0.05)
    # half² = z²·(n·p·(1 - p) + σ²)/n²
    half_square = np.square(stats.norm.isf(0.025)) * (0.21 * n + 1e8) / n**2
    assert half_square == pytest.approx(0.25e-8, rel=1e-6)


def test_a_small_budget_is_found_where_the_noise_is_very_wide():
    # the width of a million trials with a proportion from 0 to 1 is set by the noise alone
    plan = ProportionWidth(Laplace.from_epsilon)
    budget = plan.solve_width(width=0.1, proportion=0.5, alpha=0.05, nobs=10**6)
    assert budget == pytest.approx(2.0 * np.log(20.0) / 1e5, rel=1e-3)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"width": 0.01, "nobs": 10}, "width must be one that can be reached"),
        ({"width": 0.99999, "nobs": 10}, "width must be smaller than"),
        ({"width": 1e-9, "budget": 1.0}, "width must be one that can be reached"),
        ({"width": -0.1, "budget": 1.0}, "width must be > 0"),
        ({"width": 1e-300, "nobs": 10.0}, "width must be one that can be reached"),
        ({"width": 1e-300, "budget": 1.0}, "width must be one that can be reached"),
        ({"width": 1e300, "nobs": 10.0}, "width must be smaller than"),
        ({"width": 0.1}, "exactly one of nobs, proportion, alpha, budget, width must be None"),
        ({"width": 0.1, "nobs": 1.5}, "nobs must hold whole numbers"),
        ({"width": 0.1, "nobs": 10, "proportion": 1.0}, "proportion must be < 1"),
        ({"width": 0.1, "nobs": 10, "proportion": 0.0}, "proportion must be >= 1e-300"),
        ({"width": 0.1, "nobs": 10, "proportion": None}, "proportion must hold real numbers"),
    ],
)
def test_what_cannot_be_solved_is_refused(known, message):
    plan = ProportionWidth(Gaussian.from_rho, method="wilson")
    with pytest.raises(InvalidParameterError, match=message):
        plan.solve_width(**{"proportion": 0.3, "alpha": 0.05} | known)


def test_one_trial_is_enough_for_any_width_above_one():
    plan = ProportionWidth(Gaussian.from_rho, method="wilson")
    assert plan.solve_width(width=1e300, proportion=0.3, alpha=0.05, budget=1.0) == 1.0


def test_bad_plans_are_refused():
    with pytest.raises(InvalidParameterError, match="mechanism must be a law of noise"):
        ProportionWidth(Laplace)
    with pytest.raises(InvalidParameterError, match="method must be one of 'exact', 'mid-p'"):
        ProportionWidth(Laplace(scale=1.0), method="score")
    with pytest.raises(InvalidParameterError, match="mechanism must have scalar parameters"):
        ProportionWidth(Laplace(scale=[1.0, 2.0]))


numbers = st.none() | st.floats() | st.floats(1e-3, 1.0) | st.integers(-2, 10_000) | st.just("x")


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    made=st.sampled_from([Laplace.from_epsilon, Geometric.from_epsilon, Gaussian(sigma=2.0)]),
    method=st.sampled_from(["wilson", "normal"]),
    nobs=numbers,
    value=numbers,
    alpha=numbers,
    width=numbers,
    budget=numbers,
)
def test_any_arguments_give_a_number_or_a_clear_error(
    made, method, nobs, value, alpha, width, budget
):
    plan = ProportionWidth(made, method=method)
    known = {"nobs": nobs, "proportion": value, "alpha": alpha, "budget": budget}
    for call in (lambda: plan.width(**known), lambda: plan.solve_width(width=width, **known)):
        try:
            found = call()
        except DPInferError:
            continue
        assert np.isfinite(found)
        assert found >= 0.0
