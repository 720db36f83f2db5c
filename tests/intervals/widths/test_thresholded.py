import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from dpinfer.errors import DPInferError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.intervals import thresholded_confint
from dpinfer.intervals.widths import ThresholdedWidth
from dpinfer.mechanisms import Gaussian, Geometric, Laplace

MAKERS = [Laplace.from_epsilon, Geometric.from_epsilon, Gaussian.from_rho]


def test_far_above_the_threshold_it_is_that_of_the_noise():
    plan = ThresholdedWidth(Laplace.from_epsilon, 100.0)
    assert plan.width(10_000, budget=0.5) == pytest.approx(4.0 * np.log(20.0), rel=1e-9)
    budget = plan.solve_width(count=10_000, alpha=0.05, width=20.0)
    assert budget == pytest.approx(0.1 * np.log(20.0), rel=1e-8)


def test_naive_intervals_have_the_width_of_the_noise():
    plan = ThresholdedWidth(Gaussian.from_rho, 100.0, method="naive", lower=None)
    expected = 2.0 * stats.norm.isf(0.05) / np.sqrt(2.0 * 0.03)
    assert plan.width(101.0, 0.1, 0.03) == pytest.approx(expected, rel=1e-9)
    budget = plan.solve_width(count=101.0, alpha=0.1, width=expected)
    assert budget == pytest.approx(0.03, rel=1e-7)


@pytest.mark.parametrize(
    ("law", "noise"),
    [
        (Laplace(scale=7.0), stats.laplace(scale=7.0)),
        (Gaussian(sigma=7.0), stats.norm(scale=7.0)),
    ],
    ids=["Laplace", "Gaussian"],
)
@pytest.mark.parametrize("count", [103.0, 110.0, 150.0])
def test_ends_are_roots_of_the_conditional_law(law, noise, count):
    threshold = 100.0

    def upper_tail(f):
        return noise.sf(count - f) / noise.sf(threshold - f)

    def end(level):
        if upper_tail(0.0) > level:
            return 0.0
        return optimize.brentq(lambda f: upper_tail(f) - level, 0.0, 300.0, xtol=1e-10)

    width = ThresholdedWidth(law, threshold).width(count, 0.1)
    assert width == pytest.approx(end(0.95) - end(0.05), rel=1e-7)


@pytest.mark.parametrize("law", [made(0.1) for made in MAKERS], ids=repr)
@pytest.mark.parametrize("method", ["conditional", "naive"])
@pytest.mark.parametrize("lower", [None, 0.0, 90.0])
def test_width_is_that_of_the_interval(law, method, lower):
    count = np.array([101.0, 120.0, 400.0])
    options = {"method": method, "lower": lower}
    interval = thresholded_confint(count, mechanism=law, threshold=100, **options)
    width = ThresholdedWidth(law, 100, **options).width(count)
    np.testing.assert_array_equal(width, interval.width)


@pytest.mark.parametrize("made", MAKERS)
@pytest.mark.parametrize("method", ["conditional", "naive"])
@pytest.mark.parametrize("count", [105, 160])
def test_from_the_budget_on_intervals_are_as_narrow(made, method, count):
    plan = ThresholdedWidth(made, 100, method=method)
    budget = plan.solve_width(count=count, alpha=0.1, width=20)
    assert plan.width(count, 0.1, budget * (1.0 - 1e-6)) > 20.0
    assert (plan.width(count, 0.1, budget * np.geomspace(1.0, 1e4, 40)) <= 20.0).all()
    alpha = plan.solve_width(count=count, width=20, budget=budget)
    assert alpha <= 0.1 * (1.0 + 1e-6)
    assert plan.width(count, alpha, budget) <= 20.0 * (1.0 + 1e-9)
    assert plan.solve_width(count=count, alpha=0.1, budget=budget) == plan.width(count, 0.1, budget)


def test_empty_intervals_are_not_taken_for_narrow_ones():
    plan = ThresholdedWidth(Laplace.from_epsilon, 100)
    # P(Y <= 110 | Y >= 100) = 1 - exp(-10·budget) for every value up to 100
    last = -np.log1p(-0.025) / 10.0
    below, above = plan.width(110, budget=[last * 0.999, last * 1.001])
    assert below == 0.0
    assert above > 99.0
    # the width has its maximum, 197, near 0.0083
    budget = plan.solve_width(count=110, alpha=0.05, width=plan.width(110, budget=0.03))
    assert budget == pytest.approx(0.03, rel=1e-6)
    budget = plan.solve_width(count=110, alpha=0.05, width=300.0)
    assert budget == pytest.approx(last, rel=1e-6)
    assert plan.width(110, budget=budget) > 99.0
    with pytest.raises(InvalidParameterError, match="the interval becomes empty before"):
        plan.solve_width(count=110, budget=0.001, width=10.0)


def test_a_value_at_the_threshold_has_no_interval():
    plan = ThresholdedWidth(Laplace.from_epsilon, 100)
    assert plan.width(100, budget=1.0) == 0.0
    with pytest.raises(InvalidParameterError, match="width must be one that can be reached"):
        plan.solve_width(count=100, alpha=0.05, width=10.0)


def test_frames_have_all_combinations():
    plan = ThresholdedWidth(Laplace.from_epsilon, 100)
    frame = plan.width_frame(count=[110, 120], budget=[1.0, 2.0])
    assert list(frame.columns) == ["alpha", "count", "budget", "width", "error"]
    np.testing.assert_array_equal(frame["width"], plan.width(frame["count"], 0.05, frame["budget"]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ThresholdedWidth(Laplace, 100), "mechanism must be a law of noise"),
        (lambda: ThresholdedWidth(Laplace.from_epsilon, np.nan), "threshold must not contain NaN"),
        (lambda: ThresholdedWidth(Laplace.from_epsilon, -np.inf), "threshold must be finite"),
        (lambda: ThresholdedWidth(Laplace.from_epsilon, [1, 2]), "threshold must be a number"),
        (lambda: ThresholdedWidth(Laplace.from_epsilon, 1, method="exact"), "method must be one"),
        (lambda: ThresholdedWidth(Laplace.from_epsilon, 1, lower="x"), "lower must hold real"),
        (lambda: ThresholdedWidth(Laplace(scale=1.0), 9).width(8), "count must be >= 9"),
        (
            lambda: ThresholdedWidth(Laplace.from_epsilon, 9, method="naive").solve_width(
                count=9, alpha=0.05, width=1e13
            ),
            "width must be smaller than 2.99573e.09, which budget = 1e-09 has already",
        ),
        (
            lambda: ThresholdedWidth(Laplace(scale=1.0), 9).solve_width(count=9),
            "exactly one of count, alpha, width must be None",
        ),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call()


def test_fractions_are_refused_under_whole_numbered_noise():
    with pytest.raises(IncompatibleReleaseError, match="whole"):
        ThresholdedWidth(Geometric(scale=2.0), 9).width(10.5)


numbers = st.none() | st.floats() | st.floats(1e-3, 1e3) | st.integers(-2, 300) | st.just("x")


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    made=st.sampled_from([*MAKERS, Laplace(scale=2.0)]),
    method=st.sampled_from(["conditional", "naive"]),
    count=numbers,
    alpha=numbers,
    width=numbers,
    budget=numbers,
)
def test_any_arguments_give_a_number_or_a_clear_error(made, method, count, alpha, width, budget):
    plan = ThresholdedWidth(made, 20, method=method)
    known = {"count": count, "alpha": alpha, "budget": budget}
    for call in (lambda: plan.width(**known), lambda: plan.solve_width(width=width, **known)):
        try:
            found = call()
        except DPInferError:
            continue
        assert np.isfinite(found)
        assert found >= 0.0
