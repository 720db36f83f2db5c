"""Plans for proportions of a number of trials that is published with noise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.intervals import proportion_confint
from dpinfer.intervals.widths import ProportionWidth, _noisy_trials
from dpinfer.mechanisms import Exact, Gaussian, Geometric, Laplace, Tulap, WeightedSum

LAWS = [Laplace(scale=2.0), Geometric(scale=2.0), Gaussian(sigma=3.0), Tulap(scale=2.0)]


def published(nobs, value, law, other, is_total, reps, rng):
    """Draws of the count and of the number of trials."""
    noise = law.rvs(reps, rng=rng)
    count = rng.binomial(nobs, value, reps) + noise
    return count, nobs + other.rvs(reps, rng=rng) + (noise if is_total else 0)


def frame_of(plan, **arguments):
    """Planned width and its error."""
    row = plan.width_frame(**arguments).iloc[0]
    return row["width"], row["error"]


@pytest.mark.parametrize("is_total", [False, True])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
@pytest.mark.parametrize(("nobs", "value"), [(30, 0.5), (400, 0.03)])
def test_width_is_the_average_of_simulated_normal_intervals(law, is_total, nobs, value):
    other, reps = Gaussian(sigma=4.0) if not law.is_integer else Geometric(scale=3.0), 20_000
    pairs = published(nobs, value, law, other, is_total, reps, np.random.default_rng(5))
    known = {"method": "normal", "nobs_mechanism": other, "nobs_is_total": is_total}
    widths = proportion_confint(*pairs, mechanism=law, **known).width
    planned, error = frame_of(ProportionWidth(law, **known), nobs=nobs, proportion=value)
    # 6 standard errors: chance 2e-9 each of 16
    assert abs(widths.mean() - planned) < 6.0 * widths.std() / np.sqrt(reps) + 3.0 * error
    assert error < 1e-3 * planned


@pytest.mark.parametrize(
    ("law", "is_total"), [(Gaussian(sigma=3.0), True), (Geometric(scale=1.5), False)], ids=str
)
def test_width_is_the_average_of_simulated_exact_intervals(law, is_total):
    nobs, value, reps = 100, 0.3, 12
    pairs = published(nobs, value, law, law, is_total, reps, np.random.default_rng(6))
    known = {"nobs_mechanism": law, "nobs_is_total": is_total}
    exact = proportion_confint(*pairs, mechanism=law, **known).width
    normal = proportion_confint(*pairs, mechanism=law, method="normal", **known).width
    planned, error = frame_of(ProportionWidth(law, **known), nobs=nobs, proportion=value)
    # 6 standard errors, and the plan's: chance 2e-9 each of 2
    slack = 6.0 / np.sqrt(reps)
    assert abs(exact.mean() - planned) < slack * exact.std() + 3.0 * error
    # by how much exact intervals are wider varies less, and is planned from 8 pairs
    more = planned - ProportionWidth(law, method="normal", **known).width(nobs, value)
    wider = exact - normal
    assert abs(wider.mean() - more) < (slack + 6.0 / np.sqrt(8)) * wider.std() + 3.0 * error


@pytest.mark.slow
@pytest.mark.parametrize("is_total", [False, True])
@pytest.mark.parametrize("law", LAWS[:3], ids=lambda law: type(law).__name__)
def test_width_is_the_average_of_many_exact_intervals(law, is_total):
    nobs, value, reps = 60, 0.3, 60
    pairs = published(nobs, value, law, law, is_total, reps, np.random.default_rng(7))
    known = {"nobs_mechanism": law, "nobs_is_total": is_total}
    widths = proportion_confint(*pairs, mechanism=law, **known).width
    planned, error = frame_of(ProportionWidth(law, **known), nobs=nobs, proportion=value)
    # 6 standard errors: chance 2e-9 each of 6
    assert abs(widths.mean() - planned) < 6.0 * widths.std() / np.sqrt(reps) + 3.0 * error


@pytest.mark.parametrize("is_total", [False, True])
def test_width_is_that_of_an_enumeration(is_total):
    nobs, value, law, other = 50, 0.3, Geometric(scale=0.7), Geometric(scale=1.5)
    first, second = np.arange(-18.0, 19.0), np.arange(-36.0, 37.0)
    x, e, d = np.meshgrid(np.arange(nobs + 1.0), first, second, indexing="ij")
    weights = stats.binom.pmf(x, nobs, value) * law.pmf(e) * other.pmf(d)
    count, total = x + e, nobs + d + (e if is_total else 0.0)
    known = {"method": "normal", "nobs_mechanism": other, "nobs_is_total": is_total}
    widths = proportion_confint(count.ravel(), total.ravel(), mechanism=law, **known).width
    planned, error = frame_of(ProportionWidth(law, **known), nobs=nobs, proportion=value)
    assert planned == pytest.approx(weights.ravel() @ widths, rel=2e-4)
    assert abs(planned - weights.ravel() @ widths) < 5.0 * error + 1e-6


def test_without_noise_in_the_number_it_is_the_plan_for_a_known_one():
    law = Gaussian(sigma=2.0)
    known = ProportionWidth(law, method="normal").width(200, 0.3)
    noisy = ProportionWidth(law, method="normal", nobs_mechanism=Exact()).width(200, 0.3)
    assert noisy == pytest.approx(known, rel=1e-5)


def test_a_sum_of_noises_may_be_in_the_total():
    law = Gaussian(sigma=2.0)
    other = WeightedSum([1.0, 1.0, 1.0], law)
    plan = ProportionWidth(law, method="normal", nobs_mechanism=other, nobs_is_total=True)
    alone = ProportionWidth(law, method="normal", nobs_mechanism=law, nobs_is_total=True)
    assert plan.width(90, 0.4) > alone.width(90, 0.4)


@pytest.mark.parametrize("made", [Laplace.from_epsilon, Geometric.from_epsilon, Gaussian.from_rho])
@pytest.mark.parametrize("is_total", [False, True])
def test_solved_arguments_reach_the_width_and_no_more(made, is_total):
    known = {"method": "normal", "nobs_mechanism": made, "nobs_is_total": is_total}
    plan, target = ProportionWidth(made, **known), 0.2
    n = plan.solve_width(width=target, proportion=0.3, alpha=0.05, budget=0.3)
    assert plan.width(n, 0.3, budget=0.3) <= target < plan.width(n - 1, 0.3, budget=0.3)
    budget = plan.solve_width(width=target, proportion=0.3, alpha=0.05, nobs=n)
    assert plan.width(n, 0.3, budget=budget) <= target
    assert plan.width(n, 0.3, budget=budget * (1.0 - 1e-3)) > target
    alpha = plan.solve_width(width=target, proportion=0.3, nobs=n, budget=0.3)
    assert plan.width(n, 0.3, alpha, 0.3) == pytest.approx(target, rel=1e-6)


def test_exact_intervals_are_planned_near_normal_ones_with_few_of_them(monkeypatch):
    monkeypatch.setattr(_noisy_trials, "_EXACT_DRAWS", 2)
    law = Gaussian(sigma=0.2)
    plan = ProportionWidth(law, nobs_mechanism=law)
    n = plan.solve_width(width=0.7, proportion=0.5, alpha=0.05)
    least, fewer = plan.width([n, n - 1], 0.5)
    assert least <= 0.7 < fewer
    # the ends of an interval need more than the share of alpha that the number of trials takes
    with pytest.raises(InvalidParameterError, match=r"which alpha = 0.0002 has already"):
        plan.solve_width(width=0.9999, proportion=0.5, nobs=4)


@pytest.mark.slow
def test_exact_intervals_are_planned_near_normal_ones():
    plan = ProportionWidth(Gaussian.from_rho, nobs_mechanism=Gaussian.from_rho)
    budget = plan.solve_width(width=0.4, proportion=0.3, alpha=0.05, nobs=30)
    assert plan.width(30, 0.3, budget=budget) <= 0.4
    assert plan.width(30, 0.3, budget=budget * (1.0 - 1e-3)) > 0.4


def test_a_budget_may_be_for_the_number_of_trials_alone():
    plan = ProportionWidth(Exact(), method="normal", nobs_mechanism=Laplace.from_epsilon)
    budget = plan.solve_width(width=0.2, proportion=0.4, alpha=0.05, nobs=100)
    assert plan.width(100, 0.4, budget=budget) == pytest.approx(0.2, rel=1e-8)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"nobs_mechanism": "laplace"}, "nobs_mechanism must be a law of noise"),
        ({"nobs_mechanism": Laplace}, "nobs_mechanism must be a law of noise"),
        ({"nobs_mechanism": Laplace(scale=[1.0, 2.0])}, "nobs_mechanism must have scalar"),
        (
            {"nobs_mechanism": Exact(), "method": "wilson"},
            "method must be one of 'exact', 'normal'",
        ),
        ({"nobs_mechanism": Exact(), "nobs_is_total": 1}, "nobs_is_total must be True or False"),
        ({"nobs_is_total": True}, "nobs_mechanism must be given with nobs_is_total=True"),
        ({"nobs_mechanism": Exact(), "nuisance_alpha": 0.5}, "nuisance_alpha must be < 0.5"),
    ],
)
def test_bad_plans_are_refused(parts, message):
    with pytest.raises(InvalidParameterError, match=message):
        ProportionWidth(Laplace(scale=1.0), **parts)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"width": 0.1}, "exactly one of nobs, proportion, alpha, budget, width must be None"),
        ({"width": 0.1, "nobs": 10, "proportion": 0.0}, "proportion must be >= 1e-300"),
        ({"nobs": 10, "budget": 1.0, "alpha": 1e-4}, "nuisance_alpha must be below 5e-05"),
    ],
)
def test_what_cannot_be_solved_is_refused(known, message):
    plan = ProportionWidth(Gaussian.from_rho, nobs_mechanism=Gaussian.from_rho)
    with pytest.raises(InvalidParameterError, match=message):
        plan.solve_width(**{"proportion": 0.3, "alpha": 0.05} | known)


def test_a_function_that_makes_no_law_is_refused():
    plan = ProportionWidth(Exact(), nobs_mechanism=lambda budget: budget)
    with pytest.raises(InvalidParameterError, match="nobs_mechanism must return a noise law"):
        plan.width(10, 0.5, budget=1.0)


numbers = st.none() | st.floats() | st.floats(1e-3, 1.0) | st.integers(-2, 10_000) | st.just("x")


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    made=st.sampled_from([Laplace.from_epsilon, Geometric.from_epsilon, Gaussian(sigma=2.0)]),
    other=st.sampled_from([Laplace.from_epsilon, Geometric(scale=2.0), Exact()]),
    is_total=st.booleans(),
    nobs=numbers,
    proportion=numbers,
    alpha=numbers,
    width=numbers,
    budget=numbers,
)
def test_any_arguments_give_a_number_or_a_clear_error(made, other, is_total, width, **known):
    plan = ProportionWidth(made, method="normal", nobs_mechanism=other, nobs_is_total=is_total)
    for call in (lambda: plan.width(**known), lambda: plan.solve_width(width=width, **known)):
        try:
            found = call()
        except DPInferError:
            continue
        assert np.isfinite(found)
        assert found >= 0.0
