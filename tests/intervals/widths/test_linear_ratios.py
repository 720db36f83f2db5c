import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.intervals import linear_ratio_confint, share_confint
from dpinfer.intervals.widths import LinearRatioWidth, RatioWidth
from dpinfer.mechanisms import Exact, Gaussian, Geometric, Laplace

TABLE = [60.0, 90.0, 30.0]
METHODS = ["exact", "normal"]
SHARES = ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [1, 1, 1])


@pytest.mark.parametrize("method", ["exact", "normal"])
def test_gaussian_noise_has_the_width_of_fieller(method):
    sigma = 5.0
    a, b = np.array([1.0, 0.0, -0.5]), np.array([1.0, 2.0, 1.0])
    x, y = a @ TABLE, b @ TABLE
    # (x - r·y)² = z²σ²·|a - r·b|²
    cut = np.square(stats.norm.isf(0.05) * sigma)
    low, high = np.sort(
        np.roots([y**2 - cut * b @ b, -2.0 * (x * y - cut * a @ b), x**2 - cut * a @ a])
    )
    width = LinearRatioWidth(TABLE, a, b, Gaussian(sigma=sigma), method=method).width(0.1)
    assert width == pytest.approx(high - low, rel=1e-7)


@pytest.mark.parametrize("law", [Laplace(scale=2.0), Gaussian(sigma=2.0), Geometric(scale=2.0)])
def test_two_values_alone_have_the_width_of_a_ratio(law):
    plan = LinearRatioWidth([60.0, 120.0], [1, 0], [0, 1], law)
    assert plan.width() == pytest.approx(RatioWidth(law).width(60, 120), rel=1e-6)


def test_a_part_and_the_sum_have_the_width_of_a_share():
    law = Laplace(scale=2.0)
    plan = LinearRatioWidth([60.0, 120.0], [1, 0], [1, 1], law)
    share = share_confint(60.0, 120.0, mechanism=law)
    assert plan.width() == pytest.approx(float(share.width), rel=1e-7)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("method", ["exact", "normal"])
def test_of_several_ratios_the_widest_counts(method, together):
    laws = [Laplace(scale=2.0), Laplace(scale=3.0), Laplace(scale=1.0)]
    known = {"method": method, "simultaneous": together}
    plan = LinearRatioWidth(TABLE, *SHARES, laws, **known)
    each = linear_ratio_confint(TABLE, *SHARES, mechanism=laws, alpha=0.1, **known)
    assert plan.width(0.1) == np.max(each.width)
    assert not together or plan.width(0.1) > LinearRatioWidth(
        TABLE, *SHARES, laws, method=method
    ).width(0.1)


@pytest.mark.parametrize("law", [Laplace(scale=1.5), Gaussian(sigma=2.0)], ids=str)
def test_simulated_sets_are_about_as_wide(law):
    rng, reps = np.random.default_rng(8), 10
    plan = LinearRatioWidth(TABLE, [1, 0, 0], [1, 1, 1], law)
    widths = [
        float(linear_ratio_confint(y, [1, 0, 0], [1, 1, 1], mechanism=law).width)
        for y in TABLE + law.rvs((reps, 3), rng=rng)
    ]
    # the width is nearly linear in the noise: 6 standard errors, chance 2e-9, and the curvature
    slack = 6.0 * np.std(widths) / np.sqrt(reps) + 2.0 * np.var(widths) / plan.width()
    assert np.mean(widths) == pytest.approx(plan.width(), abs=slack)


def test_a_larger_table_is_as_good_as_less_noise():
    # sets depend on values in units of the noise only
    narrow = LinearRatioWidth(TABLE, *SHARES, Laplace(scale=1.0))
    wide = LinearRatioWidth(TABLE, *SHARES, Laplace(scale=4.0))
    assert wide.width(size=4.0) == pytest.approx(narrow.width(), rel=1e-9)


def test_whole_numbered_noise_has_whole_values():
    law = Geometric(scale=2.0)
    plan = LinearRatioWidth([0.25, 0.75], [1, 0], [1, 1], law, method="normal")
    rounded = linear_ratio_confint([2, 8], [1, 0], [1, 1], mechanism=law, method="normal")
    assert plan.width(size=10.0) == rounded.width


@pytest.mark.parametrize(
    ("made", "method"),
    [(Laplace.from_epsilon, "normal"), (Laplace.from_epsilon, "exact"), (Gaussian.from_rho, None)],
)
def test_solved_arguments_reach_the_width_and_no_more(made, method):
    plan = LinearRatioWidth(TABLE, [1, 0, 0], [1, 1, 1], made, method=method or "exact")
    budget = plan.solve_width(width=0.1, alpha=0.1)
    size = plan.solve_width(width=0.1, alpha=0.1, budget=budget, size=None)
    alpha = plan.solve_width(width=0.1, budget=budget)
    assert size == pytest.approx(1.0, rel=1e-6)
    assert alpha == pytest.approx(0.1, rel=1e-6)
    for name, value in {"budget": budget, "size": size, "alpha": alpha}.items():
        known = {"alpha": 0.1, "budget": budget, "size": 1.0}
        assert plan.width(**known | {name: value}) <= 0.1
        assert plan.width(**known | {name: value * (1.0 - 1e-5)}) > 0.1
    assert plan.solve_width(alpha=0.1, budget=budget) == plan.width(0.1, budget)


def test_levels_are_found_that_normal_sets_do_not_have():
    """Tails of Laplace noise are wider than those of normal noise, whose sets serve as a guess."""
    law = Laplace(scale=0.1)
    plan, rough = (LinearRatioWidth(TABLE, [1, 0, 0], [1, 1, 1], law, method=m) for m in METHODS)
    assert rough.width(1e-12) < 0.012 < plan.width(1e-12)
    with pytest.raises(InvalidParameterError, match="width must be smaller than"):
        rough.solve_width(width=0.012)
    assert plan.width(plan.solve_width(width=0.012)) == pytest.approx(0.012, rel=1e-7)


def test_widths_are_infinite_where_a_set_is_not_bounded():
    plan = LinearRatioWidth(TABLE, [1, 0, 0], [1, -1, 1], Laplace.from_epsilon, method="normal")
    np.testing.assert_array_equal(np.isinf(plan.width(budget=[0.1, 10.0])), [True, True])
    with pytest.raises(InvalidParameterError, match="width must be one that can be reached"):
        plan.solve_width(width=0.1, alpha=0.05)


def test_widths_of_values_without_noise_are_zero():
    assert LinearRatioWidth(TABLE, *SHARES, Exact()).width() == 0.0


def test_labels_say_which_value_a_weight_is_for():
    values = pd.Series(TABLE, index=list("abc"))
    law = Laplace(scale=2.0)
    plan = LinearRatioWidth(values, {"c": 1}, {"a": 1, "c": 1}, law)
    assert plan.width() == LinearRatioWidth(TABLE, [0, 0, 1], [1, 0, 1], law).width()


def test_frames_and_drawings():
    plan = LinearRatioWidth(TABLE, [1, 0, 0], [1, 1, 1], Laplace.from_epsilon, method="normal")
    frame = plan.width_frame(budget=[0.5, 1.0], size=[1.0, 2.0])
    assert list(frame.columns) == ["alpha", "size", "budget", "width", "error"]
    assert len(frame) == 4
    assert (frame["error"] == 0.0).all()
    assert (plan.width_frame(budget=1.0)["size"] == 1.0).all()
    axes = plan.plot("budget", budget=[0.5, 1.0])
    assert axes.get_ylabel() == "width"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"values": [TABLE]}, "values must be one-dimensional"),
        ({"values": [np.nan] * 3}, "values must not contain NaN"),
        ({"numerator": [1, 0]}, "numerator must have 3 entries in each row"),
        ({"denominator": [[1, 1, 1]] * 2, "numerator": np.eye(3)}, "numerator and denominator"),
        ({"mechanism": "laplace"}, "mechanism must be a law of noise"),
        ({"mechanism": [Exact()] * 2}, "mechanism must have one law"),
        ({"method": "fieller"}, "method must be one of 'exact', 'normal'"),
        ({"simultaneous": 1}, "simultaneous must be True or False"),
    ],
)
def test_bad_plans_are_refused(parts, message):
    good = {"values": TABLE, "numerator": [1, 0, 0], "denominator": [1, 1, 1]}
    with pytest.raises(InvalidParameterError, match=message):
        LinearRatioWidth(**good | {"mechanism": Laplace(scale=2.0)} | parts)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({}, "exactly one of size, alpha, budget, width must be None"),
        ({"size": None, "width": 0.1}, "exactly one of size, alpha, budget, width must be None"),
        ({"width": 0.1, "size": 0.0}, "size must be >= 1e-09"),
        ({"width": 0.0}, "width must be > 0"),
        ({"width": 0.1, "alpha": 2.0}, "alpha must be < 1"),
    ],
)
def test_what_cannot_be_solved_is_refused(known, message):
    plan = LinearRatioWidth(TABLE, [1, 0, 0], [1, 1, 1], Laplace.from_epsilon)
    with pytest.raises(InvalidParameterError, match=message):
        plan.solve_width(**{"alpha": 0.05} | known)


numbers = st.none() | st.floats() | st.floats(1e-3, 1e3) | st.just("x")


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    made=st.sampled_from([Laplace.from_epsilon, Gaussian(sigma=2.0), Geometric.from_epsilon]),
    values=st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3) | st.just([1e300, 1.0, 2.0]),
    weights=st.lists(st.integers(-2, 2), min_size=3, max_size=3),
    size=numbers,
    alpha=numbers,
    width=numbers,
    budget=numbers,
)
def test_any_arguments_give_a_number_or_a_clear_error(made, values, weights, width, **known):
    try:
        plan = LinearRatioWidth(values, weights, [1, 1, 1], made, method="normal")
    except DPInferError:
        return
    for call in (lambda: plan.width(**known), lambda: plan.solve_width(width=width, **known)):
        try:
            found = call()
        except DPInferError:
            continue
        assert found >= 0.0
