import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.intervals import poisson_confint
from dpinfer.intervals.widths import PoissonWidth
from dpinfer.mechanisms import Exact, Gaussian, Geometric, Laplace

METHODS = ["exact", "mid-p", "score", "normal"]
MAKERS = [Laplace.from_epsilon, Geometric.from_epsilon, Gaussian.from_rho]


@pytest.mark.parametrize("mean", [0.5, 12.0])
def test_without_noise_it_is_the_expectation_of_garwoods_interval(mean):
    k = np.arange(200.0)
    # quantiles of half of chi-squared; the lower one is 0 for no events
    upper = stats.chi2.isf(0.05, 2 * k + 2) / 2
    lower = np.append(0.0, stats.chi2.ppf(0.05, 2 * k[1:]) / 2)
    expected = stats.poisson.pmf(k, mean) @ (upper - lower) / 4.0
    assert PoissonWidth(Exact()).width(4.0, mean / 4.0, 0.1) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("made", MAKERS, ids=lambda made: made.__self__.__name__)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("exposure", "rate", "budget"), [(2.0, 0.3, 1.0), (50.0, 2.0, 0.2)])
def test_expected_width_by_simulation(made, method, exposure, rate, budget):
    reps, rng = 2000, np.random.default_rng(2)
    law = made(budget)
    count = rng.poisson(exposure * rate, reps) + law.rvs(reps, rng=rng)
    widths = poisson_confint(count, exposure, mechanism=law, method=method).width
    expected = PoissonWidth(made, method=method).width(exposure, rate, budget=budget)
    # 6 standard errors: chance 2e-9 each
    assert abs(widths.mean() - expected) < 6.0 * widths.std() / np.sqrt(reps)


@pytest.mark.parametrize("made", MAKERS, ids=lambda made: made.__self__.__name__)
@pytest.mark.parametrize("method", ["exact", "score", "normal"])
def test_solved_arguments_reach_the_width(made, method):
    plan = PoissonWidth(made, method=method)
    exposure = plan.solve_width(width=0.8, rate=2.0, alpha=0.05, budget=0.5)
    assert plan.width(exposure, 2.0, budget=0.5) == pytest.approx(0.8, rel=1e-7)
    budget = plan.solve_width(width=0.8, rate=2.0, alpha=0.05, exposure=exposure)
    assert budget == pytest.approx(0.5, rel=1e-6)
    alpha = plan.solve_width(width=0.8, rate=2.0, budget=0.5, exposure=exposure)
    assert alpha == pytest.approx(0.05, rel=1e-6)


def test_exposure_is_a_unit():
    plan = PoissonWidth(Geometric(scale=4.0))
    widths = plan.width([1.0, 10.0, 100.0], [30.0, 3.0, 0.3])
    np.testing.assert_allclose(widths, widths[0] / [1.0, 10.0, 100.0], rtol=1e-12)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"width": 1e-3, "exposure": 10.0}, "width must be one that can be reached"),
        ({"width": 1e-9, "budget": 1.0}, "width must be one that can be reached"),
        ({"width": 1e-300, "exposure": 10.0}, "width must be one that can be reached"),
        ({"width": 1e-300, "budget": 1.0}, "width must be one that can be reached"),
        ({"width": 1e300, "exposure": 10.0}, "width must be smaller than"),
        ({"width": 1e300, "budget": 1.0}, "width must be smaller than"),
        ({"width": 0.1}, "exactly one of exposure, rate, alpha, budget, width must be None"),
        ({"width": 0.1, "exposure": 0.0}, "exposure must be > 0"),
        ({"width": 0.1, "exposure": 10, "rate": 0.0}, "rate must be > 0"),
        ({"width": 0.1, "exposure": 1e10, "rate": 1e10}, r"exposure \* rate must be <= 1e\+15"),
    ],
)
def test_what_cannot_be_solved_is_refused(known, message):
    plan = PoissonWidth(Gaussian.from_rho, method="score")
    with pytest.raises(InvalidParameterError, match=message):
        plan.solve_width(**{"rate": 2.0, "alpha": 0.05} | known)


def test_bad_plans_are_refused():
    with pytest.raises(InvalidParameterError, match="mechanism must be a law of noise"):
        PoissonWidth(Laplace)
    with pytest.raises(InvalidParameterError, match="method must be one of 'exact', 'mid-p'"):
        PoissonWidth(Laplace(scale=1.0), method="wilson")


numbers = st.none() | st.floats() | st.floats(1e-3, 1e3) | st.just("x")


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    made=st.sampled_from([Laplace.from_epsilon, Geometric.from_epsilon, Gaussian(sigma=2.0)]),
    method=st.sampled_from(["score", "normal"]),
    exposure=numbers,
    rate=numbers,
    alpha=numbers,
    width=numbers,
    budget=numbers,
)
def test_any_arguments_give_a_number_or_a_clear_error(
    made, method, exposure, rate, alpha, width, budget
):
    plan = PoissonWidth(made, method=method)
    known = {"exposure": exposure, "rate": rate, "alpha": alpha, "budget": budget}
    for call in (lambda: plan.width(**known), lambda: plan.solve_width(width=width, **known)):
        try:
            found = call()
        except DPInferError:
            continue
        assert np.isfinite(found)
        assert found >= 0.0
