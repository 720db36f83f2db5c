import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.intervals import ratio_confint
from dpinfer.intervals.widths import RatioWidth
from dpinfer.mechanisms import Exact, Gaussian, Geometric, Laplace

MAKERS = [Laplace.from_epsilon, Geometric.from_epsilon, Gaussian.from_rho]
METHODS = ["exact", "normal"]


@pytest.mark.parametrize("method", METHODS)
def test_gaussian_noise_has_the_width_of_fieller(method):
    first, second, sigma = 60.0, 120.0, 7.0
    # (first - r·second)² = z²σ²(1 + r²)
    cut = np.square(stats.norm.isf(0.05) * sigma)
    low, high = np.sort(np.roots([second**2 - cut, -2 * first * second, first**2 - cut]))
    width = RatioWidth(Gaussian(sigma=sigma), method=method).width(first, second, 0.1)
    assert width == pytest.approx(high - low, rel=1e-7)


@pytest.mark.parametrize("law", [Laplace(scale=2.0), Geometric(scale=2.0), Gaussian(sigma=2.0)])
@pytest.mark.parametrize("method", METHODS)
def test_width_is_that_of_the_set_and_infinite_where_it_is_not_bounded(law, method):
    first, second = np.array([60.0, 60.0, 3.0, 0.0]), np.array([120.0, 1.0, 1.0, -50.0])
    sets = ratio_confint(first, second, mechanism=law, method=method)
    widths = RatioWidth(law, method=method).width(first, second)
    np.testing.assert_array_equal(widths, sets.width)
    np.testing.assert_array_equal(np.isinf(widths), [False, True, True, False])


@pytest.mark.parametrize(
    ("made", "method"),
    [(made, "normal") for made in MAKERS] + [(Laplace.from_epsilon, "exact")],
)
def test_the_budget_is_the_smallest(made, method):
    plan, pair = RatioWidth(made, method=method), {"numerator": 60.0, "denominator": 120.0}
    budget = plan.solve_width(width=0.2, alpha=0.1, **pair)
    assert plan.width(alpha=0.1, budget=budget, **pair) <= 0.2
    assert plan.width(alpha=0.1, budget=budget * (1.0 - 1e-6), **pair) > 0.2
    alpha = plan.solve_width(width=0.2, budget=budget, **pair)
    assert alpha <= 0.1 * (1.0 + 1e-6)
    assert plan.width(alpha=alpha, budget=budget, **pair) <= 0.2 * (1.0 + 1e-9)


def test_pairs_without_noise_have_no_width():
    np.testing.assert_array_equal(RatioWidth(Exact()).width([1.0, 0.0], [2.0, 3.0]), [0.0, 0.0])


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({}, "exactly one of numerator, denominator, alpha, budget, width must be None"),
        ({"width": 0.1, "denominator": 0.0}, "width must be one that can be reached: it is inf"),
        ({"width": 0.1, "denominator": np.nan}, "denominator must not contain NaN"),
        ({"width": 0.1, "numerator": None}, "numerator must hold real numbers"),
        ({"width": 0.0}, "width must be > 0"),
    ],
)
def test_what_cannot_be_solved_is_refused(known, message):
    plan = RatioWidth(Gaussian.from_rho)
    with pytest.raises(InvalidParameterError, match=message):
        plan.solve_width(**{"numerator": 6.0, "denominator": 12.0, "alpha": 0.05} | known)


def test_bad_plans_are_refused():
    with pytest.raises(InvalidParameterError, match="mechanism must be a law of noise"):
        RatioWidth("laplace")
    with pytest.raises(InvalidParameterError, match="method must be one of 'exact', 'normal'"):
        RatioWidth(Laplace(scale=1.0), method="fieller")


numbers = st.none() | st.floats() | st.floats(1e-3, 1e3) | st.just("x")


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    made=st.sampled_from([Laplace.from_epsilon, Gaussian(sigma=2.0), Gaussian.from_rho]),
    first=numbers,
    second=numbers,
    alpha=numbers,
    width=numbers,
    budget=numbers,
)
def test_any_arguments_give_a_number_or_a_clear_error(made, first, second, alpha, width, budget):
    plan = RatioWidth(made, method="normal")
    known = {"numerator": first, "denominator": second, "alpha": alpha, "budget": budget}
    for call in (lambda: plan.width(**known), lambda: plan.solve_width(width=width, **known)):
        try:
            found = call()
        except DPInferError:
            continue
        assert found >= 0.0
