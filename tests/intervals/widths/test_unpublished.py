import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.intervals import unpublished_bound
from dpinfer.intervals.widths import UnpublishedWidth
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace

LAWS = [Laplace(scale=7.0), Gaussian(sigma=9.0), Geometric(scale=5.0), DiscreteGaussian(sigma=4.0)]


def test_laplace_noise_has_a_closed_form():
    plan = UnpublishedWidth(Laplace.from_epsilon, 90.0, lower=10.0)
    expected = 80.0 + np.log(1.0 / (2.0 * 0.05)) / np.array([0.1, 1.0])
    np.testing.assert_allclose(plan.width(budget=[0.1, 1.0]), expected, rtol=1e-12)
    budget = plan.solve_width(alpha=0.05, width=100.0)
    assert budget == pytest.approx(np.log(10.0) / 20.0, rel=1e-8)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_a_count_at_the_bound_goes_unpublished_at_most_so_often(law):
    bound = UnpublishedWidth(law, 60.0).width(0.1)
    # P(f + e < τ) passes α at the bound
    if law.is_integer:
        below = [1.0 - law.sf(60.0 - 1.0 - f) for f in (bound, bound + 1.0)]
    else:
        below = [law.cdf(60.0 - f) for f in (bound - 1e-6, bound + 1e-6)]
    assert below[0] > 0.1 >= below[1]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_width_is_that_of_the_interval(law):
    alone = unpublished_bound(mechanism=law, threshold=50.0, alpha=0.1, lower=-3.0)
    assert UnpublishedWidth(law, 50.0, lower=-3.0).width(0.1) == alone.width
    together = unpublished_bound(
        mechanism=law, threshold=[50.0] * 4, alpha=0.1, lower=0.0, simultaneous=True
    )
    assert UnpublishedWidth(law, 50.0, cells=4).width(0.1) == together.width[0]


@pytest.mark.parametrize("made", [Laplace.from_epsilon, Geometric.from_epsilon, Gaussian.from_rho])
def test_solved_arguments_reach_the_width_and_no_more(made):
    plan = UnpublishedWidth(made, 50)
    budget = plan.solve_width(alpha=0.1, width=70.0)
    assert plan.width(0.1, budget) <= 70.0 < plan.width(0.1, budget * (1.0 - 1e-6))
    alpha = plan.solve_width(budget=budget, width=70.0)
    assert alpha <= 0.1 * (1.0 + 1e-6)
    assert plan.width(alpha, budget) <= 70.0


def test_frames_and_what_is_refused():
    plan = UnpublishedWidth(Laplace.from_epsilon, 50)
    assert list(plan.width_frame(budget=1.0).columns) == ["alpha", "budget", "width", "error"]
    assert UnpublishedWidth(Exact(), 50).width() == 49.0
    with pytest.raises(InvalidParameterError, match="width must be one that can be reached"):
        plan.solve_width(alpha=0.1, width=40.0)
    for parts, message in [
        ({"threshold": np.nan}, "threshold must not contain NaN|threshold must be"),
        ({"lower": None}, "lower must"),
        ({"cells": 0}, "cells must be >= 1"),
        ({"mechanism": "laplace"}, "mechanism must be a law of noise"),
    ]:
        with pytest.raises(InvalidParameterError, match=message):
            UnpublishedWidth(**{"mechanism": Laplace(scale=2.0), "threshold": 5} | parts)


numbers = st.none() | st.floats() | st.floats(1e-3, 1e3) | st.just("x")


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    made=st.sampled_from([Laplace.from_epsilon, Geometric.from_epsilon, Gaussian(sigma=2.0)]),
    threshold=numbers,
    lower=numbers,
    alpha=numbers,
    width=numbers,
    budget=numbers,
)
def test_any_arguments_give_a_number_or_a_clear_error(made, threshold, lower, alpha, width, budget):
    known = {"alpha": alpha, "budget": budget}
    try:
        plan = UnpublishedWidth(made, threshold, lower=lower)
    except DPInferError:
        return
    for call in (lambda: plan.width(**known), lambda: plan.solve_width(width=width, **known)):
        try:
            found = call()
        except DPInferError:
            continue
        assert found >= 0.0
