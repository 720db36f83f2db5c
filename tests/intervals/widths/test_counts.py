import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.estimation import combine
from dpinfer.intervals import clamped_confint, count_confint, linear_confint
from dpinfer.intervals.widths import CountWidth, LinearWidth
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace, Tulap

LAWS = [
    Laplace(scale=3.0),
    Geometric(scale=3.0),
    Gaussian(sigma=3.0),
    DiscreteGaussian(sigma=3.0),
    Tulap.from_epsilon(0.5),
]
METHODS = ["exact", "tail-bound", "normal"]


def test_laplace_has_a_closed_form():
    plan = CountWidth(Laplace.from_epsilon)
    alpha, budget = np.array([[0.01], [0.05], [0.3]]), np.array([0.1, 1.0, 20.0])
    widths = plan.width(alpha, budget)
    np.testing.assert_allclose(widths, 2.0 / budget * np.log(1.0 / alpha), rtol=1e-13)
    for a, b, w in zip(alpha.repeat(3), np.tile(budget, 3), widths.ravel(), strict=True):
        assert plan.solve_width(alpha=a, width=w) == pytest.approx(b, rel=1e-8)
        assert plan.solve_width(budget=b, width=w) == pytest.approx(a, rel=1e-8)
        assert plan.solve_width(alpha=a, budget=b) == pytest.approx(w, rel=1e-13)


def test_the_union_bound_has_a_closed_form():
    plan = CountWidth(Laplace.from_epsilon, method="tail-bound", cells=50)
    assert plan.width(0.05, budget=0.5) == pytest.approx(4.0 * np.log(1000.0), rel=1e-13)
    budget = plan.solve_width(alpha=0.05, width=10.0)
    assert budget == pytest.approx(0.2 * np.log(1000.0), rel=1e-8)


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("cells", [1, 7])
def test_width_is_that_of_the_interval(law, method, cells):
    interval = count_confint(
        np.full(cells, 1000.0), law, alpha=0.1, method=method, simultaneous=cells > 1
    )
    width = CountWidth(law, method=method, cells=cells).width(0.1)
    assert isinstance(width, float)
    np.testing.assert_allclose(interval.width, width, rtol=1e-12)


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("method", METHODS)
def test_width_of_a_linear_function_is_that_of_its_interval(law, method):
    weights = np.array([1.0, -2.0, 0.0, 3.0])
    interval = linear_confint(np.zeros(4), weights, law, alpha=0.1, method=method)
    width = LinearWidth(weights, law, method=method).width(0.1)
    assert width == pytest.approx(float(interval.width), rel=1e-12)


def test_one_value_is_a_linear_function():
    alpha = [0.01, 0.1]
    one = LinearWidth([1.0], Geometric.from_epsilon).width(alpha, 0.3)
    np.testing.assert_allclose(one, CountWidth(Geometric.from_epsilon).width(alpha, 0.3))


@pytest.mark.parametrize("simultaneous", [False, True])
def test_combined_estimates_are_linear_functions(simultaneous):
    known = {"simultaneous": simultaneous, "reps": 500, "rng": 3}
    matrix = [[1, 0], [0, 1], [1, 1]]

    def estimate(budget):
        law = Laplace.from_epsilon(budget)
        return combine([10.0, 20.0, 31.0], workload=matrix, mechanism=law)

    plan = LinearWidth(estimate(1.0).weights, Laplace.from_epsilon, **known)
    for budget in (0.2, 3.0):
        widths = estimate(budget).conf_int(simultaneous=simultaneous, reps=2000, rng=5).width
        # the quantile of the largest of two errors, by 500 draws, has an error of some 5 per cent;
        # 6 of them: 2e-9
        rel = 0.35 if simultaneous else 1e-6
        assert plan.width(budget=budget) == pytest.approx(np.max(widths), rel=rel)


@pytest.mark.parametrize("law", [Laplace(scale=3.0), Geometric(scale=3.0)])
def test_values_within_their_bounds_have_the_width_of_a_count(law):
    inside = clamped_confint([40.0, 70.0], mechanism=law, clamp=(0, 100), alpha=0.1)
    np.testing.assert_allclose(inside.width, CountWidth(law).width(0.1), rtol=1e-9)


def test_each_value_has_its_own_law():
    laws = [Gaussian(sigma=3.0), Gaussian(sigma=4.0), Exact()]
    width = LinearWidth([1.0, 1.0, 5.0], laws).width(0.05)
    assert width == pytest.approx(2 * 1.959963984540054 * 5.0, rel=1e-9)


PAIRS = np.array([[1.0, -1.0, 0.0], [1.0, 0.0, -1.0], [0.0, 2.0, -2.0]])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("simultaneous", [False, True])
def test_width_of_several_functions_is_that_of_the_widest(method, simultaneous):
    plan = LinearWidth(PAIRS, LAWS[0], method=method, simultaneous=simultaneous, rng=5)
    # the very draws of the plan
    interval = linear_confint(
        np.zeros(3),
        PAIRS,
        LAWS[0],
        method=method,
        simultaneous=simultaneous,
        rng=np.random.default_rng(plan._seed),
    )
    assert plan.width() == interval.width.max()
    frame = plan.width_frame(alpha=0.05)
    assert (frame["error"] > 0.0).all() == (interval.mc_error > 0.0)


def test_simulated_width_has_the_error_that_it_says():
    plan = LinearWidth(PAIRS, Laplace(scale=2.0), simultaneous=True)
    frame = plan.width_frame(alpha=0.05)
    precise = linear_confint(
        np.zeros(3), PAIRS, Laplace(scale=2.0), simultaneous=True, reps=400_000, rng=3
    )
    # 6 standard deviations of one simulation and the other, 1e-9
    allowed = 6.0 * frame["error"][0] * np.sqrt(1.0 + 1.0 / 40.0)
    assert frame["width"][0] == pytest.approx(precise.width.max(), abs=allowed)


def test_simultaneous_normal_functions_have_the_law_of_their_range():
    from scipy import stats

    pairs = [[1, -1, 0], [1, 0, -1], [0, 1, -1]]
    plan = LinearWidth(pairs, Gaussian(sigma=1.0), simultaneous=True, reps=100_000)
    frame = plan.width_frame(alpha=[0.05, 0.2])
    # the largest of all differences is the studentised range; 6 standard deviations, 2e-9
    exact = 2.0 * stats.studentized_range.isf([0.05, 0.2], 3, np.inf)
    assert (np.abs(frame["width"] - exact) < 6.0 * frame["error"]).all()


@pytest.mark.parametrize("made", [Laplace.from_epsilon, Geometric.from_epsilon, Gaussian.from_rho])
def test_simultaneous_solutions_reach_the_width(made):
    plan = LinearWidth(PAIRS, made, simultaneous=True, reps=2000)
    budget = plan.solve_width(width=10.0, alpha=0.05)
    assert plan.width(0.05, budget) <= 10.0
    assert plan.width(0.05, budget * (1.0 - 1e-3)) > 10.0
    assert plan.solve_width(alpha=0.05, budget=budget) == plan.width(0.05, budget)
    alpha = plan.solve_width(width=10.0, budget=budget)
    assert alpha <= 0.05
    assert plan.width(alpha, budget) <= 10.0


def test_levels_are_those_that_replicates_can_tell():
    plan = LinearWidth(PAIRS, Laplace(scale=1.0), simultaneous=True, reps=99)
    with pytest.raises(InvalidParameterError, match=r"smaller than .* alpha = 0.01"):
        plan.solve_width(width=1000.0)
    apart = LinearWidth(np.eye(2), Laplace(scale=1.0), simultaneous=True, reps=99)
    assert apart.solve_width(width=40.0) < 1e-6


def test_budgets_can_be_split():
    whole, third = Laplace.from_epsilon, lambda budget: Laplace.from_epsilon(budget / 3.0)
    budgets = [
        LinearWidth([1.0, -1.0], made).solve_width(width=30.0, alpha=0.05)
        for made in (whole, third)
    ]
    assert budgets[1] == pytest.approx(3.0 * budgets[0], rel=1e-8)


@pytest.mark.parametrize(
    "plan",
    [CountWidth(Geometric.from_epsilon, cells=4), LinearWidth([1, 1], Geometric.from_epsilon)],
)
@pytest.mark.parametrize("width", [4.0, 10.0, 11.0, 100.0])
def test_the_budget_is_where_a_step_begins(plan, width):
    budget = plan.solve_width(width=width, alpha=0.05)
    assert plan.width(0.05, budget) <= width
    assert plan.width(0.05, budget * (1.0 - 1e-7)) > width


def test_frames_and_drawings_are_of_widths():
    plan = CountWidth(Laplace.from_epsilon)
    frame = plan.width_frame(alpha=[0.05, 0.1], budget=[0.5, 1.0, 2.0])
    assert list(frame.columns) == ["alpha", "budget", "width", "error"]
    np.testing.assert_allclose(frame["width"], plan.width(frame["alpha"], frame["budget"]))
    assert (frame["error"] == 0.0).all()
    mpl = pytest.importorskip("matplotlib")
    mpl.use("Agg")
    from matplotlib import pyplot

    axes = plan.plot("budget", budget=[0.5, 1.0, 2.0], alpha=[0.05, 0.1])
    assert axes.get_ylabel() == "width"
    assert len(axes.containers) == 2
    pyplot.close("all")


def test_values_without_noise_have_no_width():
    assert CountWidth(Exact()).width() == 0.0
    assert LinearWidth([1.0, 2.0], Exact()).width() == 0.0
    with pytest.raises(InvalidParameterError, match="width must be smaller than 0"):
        CountWidth(Exact()).solve_width(width=3.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CountWidth(Laplace), "mechanism must be a law of noise"),
        (lambda: CountWidth(3.0), "mechanism must be a law of noise"),
        (lambda: CountWidth(Laplace(scale=[1.0, 2.0])), "mechanism must have scalar parameters"),
        (lambda: CountWidth(LAWS[0], method="wald"), "method must be one of"),
        (lambda: CountWidth(LAWS[0], cells=0), "cells must be >= 1"),
        (lambda: CountWidth(LAWS[0], cells=1.5), "cells must be a whole number"),
        (lambda: LinearWidth([], LAWS[0]), "weights must hold at least one value"),
        (lambda: LinearWidth([[[1.0]]], LAWS[0]), "weights must have 1 entries in each row"),
        (lambda: LinearWidth([1.0], LAWS[0], simultaneous=1), "simultaneous must be"),
        (lambda: LinearWidth([1.0], LAWS[0], reps=0), "reps must be >= 1"),
        (lambda: LinearWidth([1.0], LAWS[0], rng=-1), "rng must be None"),
        (lambda: LinearWidth([0.0, 0.0], LAWS[0]), "weights must not all be 0"),
        (lambda: LinearWidth([1.0, np.nan], LAWS[0]), "weights must not contain NaN"),
        (lambda: LinearWidth([1.0, 2.0], LAWS[:1]), "mechanism must have one law"),
        (lambda: CountWidth(LAWS[0]).width(0.0), "alpha must be > 0"),
        (lambda: CountWidth(LAWS[0]).width(0.1, 1.0), "budget must be None"),
        (lambda: CountWidth(Laplace.from_epsilon).width(0.1), "budget must be given"),
        (lambda: CountWidth(Laplace.from_epsilon).width(0.1, -1.0), "budget must be > 0"),
        (lambda: CountWidth(LAWS[0]).solve_width(), "exactly one of alpha, width must be None"),
        (lambda: CountWidth(LAWS[0]).solve_width(width=0.0), "width must be > 0"),
        (lambda: CountWidth(LAWS[0]).solve_width(width=np.inf), "width must be finite"),
        (lambda: CountWidth(LAWS[0]).width_frame(nobs=3), "arguments must be among alpha"),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call()


numbers = st.none() | st.floats() | st.floats(1e-3, 1e3) | st.just("x")


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    kind=st.sampled_from(
        [
            CountWidth,
            lambda made: LinearWidth([1.0, -1.0], made),
            lambda made: LinearWidth([[1, -1], [1, 1]], made, simultaneous=True, reps=99),
        ]
    ),
    law=st.sampled_from([Laplace.from_epsilon, Gaussian.from_rho, Geometric(scale=2.0)]),
    alpha=numbers,
    width=numbers,
    budget=numbers,
)
def test_any_arguments_give_a_number_or_a_clear_error(kind, law, alpha, width, budget):
    plan = kind(law)
    for call in (
        lambda: plan.width(alpha, budget),
        lambda: plan.solve_width(alpha=alpha, width=width, budget=budget),
    ):
        try:
            found = call()
        except DPInferError:
            continue
        assert np.isfinite(found)
        assert found >= 0.0


@pytest.mark.parametrize(("width", "alpha"), [(40.0, 0.05), (3.0, 0.01), (0.01, 0.3)])
def test_budgets_are_found_to_the_stated_precision(width, alpha):
    # 2b ln(1/alpha) with b = 1/budget
    budget = CountWidth(Laplace.from_epsilon).solve_width(width=width, alpha=alpha)
    assert budget == pytest.approx(2.0 * np.log(1.0 / alpha) / width, rel=1.1e-10)
