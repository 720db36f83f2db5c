"""What all plans share: shapes, tables, drawings, budgets, and what is asked for."""

import inspect

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planned import PlannedPower

from dpinfer import plan
from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.hypothesis_tests import (
    chi2_contingency,
    chisquare,
    chisquare_fit,
    counts_paired,
    counts_trend,
    linear_ztest,
    mcnemar,
    poisson_2indep,
    poisson_ztest,
    proportions_2indep,
    proportions_trend,
    proportions_ztest,
)
from dpinfer.mechanisms import Gaussian, Geometric, Laplace
from dpinfer.plotting import plot_curve

TABLE = np.array([[1.2, 0.8], [0.8, 1.2]])


def genotypes(p):
    """Hardy-Weinberg proportions."""
    return np.array([p[0] ** 2, 2 * p[0] * (1 - p[0]), (1 - p[0]) ** 2])


FIXED = PlannedPower(proportions_ztest, value=0.25, mechanism=Laplace(scale=2.0))
BUDGET = PlannedPower(proportions_ztest, value=0.25, mechanism=Laplace.from_epsilon)


@pytest.fixture
def pyplot():
    mpl.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def test_power_broadcasts():
    power = BUDGET.power(np.array([[50], [80]]), 0.4, [0.01, 0.05, 0.1], budget=0.5)
    assert power.shape == (2, 3)
    assert power[1, 2] == pytest.approx(BUDGET.power(80, 0.4, 0.1, 0.5), rel=1e-12)
    assert isinstance(BUDGET.power(80, 0.4, 0.1, 0.5), float)


def test_a_budget_is_the_law_that_is_made_of_it():
    for mechanism in (Laplace.from_epsilon, Gaussian.from_rho, lambda b: Geometric(scale=3 / b)):
        powers = PlannedPower(proportions_ztest, value=0.25, mechanism=mechanism).power(
            60, 0.4, budget=[0.1, 1.0]
        )
        alone = [
            PlannedPower(proportions_ztest, value=0.25, mechanism=mechanism(b)).power(60, 0.4)
            for b in (0.1, 1.0)
        ]
        np.testing.assert_allclose(powers, alone, rtol=1e-12)


def test_frame_has_all_combinations():
    frame = BUDGET.curve(nobs=[50, 80], proportion=0.4, alpha=[0.05, 0.1], budget=[0.5, 1.0])
    assert len(frame) == 8
    assert list(frame.columns[-2:]) == ["power", "mc_error"]
    for row in frame.itertuples():
        alone = BUDGET.power(row.nobs, row.proportion, row.alpha, row.budget)
        assert row.power == pytest.approx(alone, rel=1e-12)
    assert (frame["mc_error"] == 0).all()


def test_level_of_a_frame_is_five_percent_and_a_budget_that_is_none_is_left_out():
    frame = FIXED.curve(nobs=[50, 80], proportion=0.4, budget=None)
    assert (frame["alpha"] == 0.05).all()
    assert "budget" not in frame


def test_plot_has_a_line_for_each_combination(pyplot):
    axes = plot_curve(
        BUDGET.curve(nobs=[20, 50, 90], proportion=[0.3, 0.4], budget=[0.1, 1.0]), x="nobs"
    )
    assert len(axes.containers) == 4
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[0] == "proportion = 0.3, budget = 0.1"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("nobs", "power")
    drawn = np.asarray(axes.containers[0].lines[0].get_ydata(), dtype=float)
    np.testing.assert_allclose(drawn, BUDGET.power([20, 50, 90], 0.3, budget=0.1), rtol=1e-12)


def test_plot_on_given_axes(pyplot):
    _, given = pyplot.subplots()
    plan = PlannedPower(linear_ztest, weights=[1], mechanism=Laplace(scale=1.0))
    axes = plot_curve(plan.curve(shift=np.arange(5)), ax=given)
    assert axes is given
    assert axes.get_legend() is None


NOISE = Geometric(scale=1.0)
NOBS = {"nobs": [30, 60]}
DRAWN = [
    (
        PlannedPower(mcnemar, mechanism=NOISE, method="plug-in"),
        NOBS | {"prop12": 0.4, "prop21": [0.1, 0.2]},
    ),
    (
        PlannedPower(poisson_2indep, mechanism=NOISE, method="plug-in"),
        {"exposure1": [9, 20], "rate1": 1, "rate2": [2, 3]},
    ),
    (
        PlannedPower(counts_paired, difference=[3.0, -3.0, 0.0], mechanism=NOISE),
        {"effect": [1.0, 2.0], "alpha": [0.05, 0.1]},
    ),
    (
        PlannedPower(counts_trend, truth=[0.2, 0.3, 0.5], mechanism=NOISE),
        NOBS | {"effect": [0.5, 1.0]},
    ),
    (
        PlannedPower(proportions_trend, truth=[0.1, 0.3], mechanism=NOISE, reps=99),
        NOBS | {"effect": [0.5, 1.0]},
    ),
    (
        PlannedPower(
            chi2_contingency,
            truth=[[0.4, 0.6], [0.6, 0.4]],
            mechanism=NOISE,
            reps=99,
            row_totals=True,
        ),
        NOBS | {"effect": [0.5, 1.0]},
    ),
    (
        PlannedPower(chi2_contingency, truth=0.25 * TABLE, mechanism=NOISE, reps=99),
        NOBS | {"effect": [0.5, 1.0]},
    ),
    (
        PlannedPower(
            chisquare_fit,
            model=genotypes,
            start=0.5,
            truth=[0.4, 0.4, 0.2],
            mechanism=NOISE,
            reps=99,
        ),
        NOBS | {"effect": [1, 2]},
    ),
]


@pytest.mark.parametrize(("plan", "arguments"), DRAWN, ids=lambda x: type(x).__name__)
def test_every_plan_is_drawn(pyplot, plan, arguments):
    x = next(iter(arguments))
    axes = plot_curve(plan.curve(**arguments), x=x)
    assert len(axes.containers) == 2
    assert (axes.get_xlabel(), axes.get_ylabel()) == (x, "power")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nobs": 20}, "proportion must be given"),
        ({"nobs": 20, "proportion": 0.4, "size": 3}, "must be among"),
        ({"nobs": [[20]], "proportion": 0.4}, "nobs must be a number or one-dimensional"),
        ({"nobs": 20, "proportion": 0.4, "budget": 1.0}, "budget must be left out"),
        ({"nobs": 20.5, "proportion": 0.4}, "nobs must hold whole numbers"),
    ],
)
def test_bad_frames_are_refused(arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        FIXED.curve(**arguments)


def test_bad_plots_are_refused(pyplot):
    with pytest.raises(InvalidParameterError, match="x must be one of"):
        plot_curve(FIXED.curve(nobs=20, proportion=0.4), x="budget")


def test_budgets_where_there_are_none_and_none_where_there_are():
    with pytest.raises(InvalidParameterError, match="budget must be left out"):
        FIXED.power(20, 0.4, budget=1.0)
    with pytest.raises(InvalidParameterError, match="budget must be given"):
        BUDGET.power(20, 0.4)
    with pytest.raises(InvalidParameterError, match="budget must be given"):
        BUDGET.curve(nobs=20, proportion=0.4)
    with pytest.raises(InvalidParameterError, match="budget must be left out"):
        FIXED.solve(nobs=20, proportion=0.4, alpha=0.05, budget=1.0)


def test_what_makes_laws_has_to_make_laws():
    with pytest.raises(InvalidParameterError, match="must return a noise law"):
        PlannedPower(proportions_ztest, value=0.25, mechanism=lambda budget: budget).power(
            20, 0.4, budget=1.0
        )
    with pytest.raises(InvalidParameterError, match="scalar parameters"):
        PlannedPower(poisson_ztest, value=0.25, mechanism=lambda b: Laplace(scale=[b, b])).power(
            20, 0.4, budget=1.0
        )


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(InvalidParameterError, match="arguments must have one shape"):
        FIXED.power([20, 30], [0.3, 0.4, 0.5])


@pytest.mark.parametrize(
    "known",
    [
        {"nobs": 20, "proportion": 0.4, "alpha": 0.05, "power": 0.5},
        {"nobs": 20, "proportion": 0.4},
        {},
    ],
)
def test_one_argument_has_to_be_unknown(known):
    with pytest.raises(InvalidParameterError, match="exactly one of"):
        FIXED.solve(**known)


@pytest.mark.parametrize("power", [0.0, 1.0, np.nan, [0.8, 0.9], "x"])
def test_bad_powers_are_refused(power):
    with pytest.raises(InvalidParameterError, match="power must"):
        FIXED.solve(nobs=20, alpha=0.05, power=power)


def test_solving_takes_single_numbers():
    with pytest.raises(InvalidParameterError, match="nobs must be a number"):
        FIXED.solve(nobs=[20, 30], alpha=0.05, power=0.8)


@pytest.mark.parametrize(
    ("alternative", "proportion"), [("larger", 0.2), ("smaller", 0.3), ("two-sided", 0.25)]
)
def test_no_size_shows_an_effect_in_the_other_direction(alternative, proportion):
    plan = PlannedPower(
        proportions_ztest, value=0.25, mechanism=Laplace(scale=2.0), alternative=alternative
    )
    with pytest.raises(InvalidParameterError, match="power must be at most alpha"):
        plan.solve(proportion=proportion, alpha=0.05, power=0.8)


def test_plans_are_made_for_the_default_method_of_the_test():
    """None is no method: the test chooses by the table, and so does the plan."""
    tests = [
        (proportions_ztest, {}),
        (poisson_ztest, {}),
        (proportions_2indep, {}),
        (poisson_2indep, {}),
        (mcnemar, {}),
        (linear_ztest, {}),
        (counts_paired, {}),
        (counts_trend, {}),
        (proportions_trend, {}),
        (chisquare, {}),
        (chisquare_fit, {}),
        (chi2_contingency, {}),
        (chi2_contingency, {"row_totals": True}),
    ]
    for test, design in tests:
        used = inspect.signature(test).parameters["method"].default
        # the exact law of two proportions is the default where their sizes are known, as in plans
        wanted = "exact" if test is proportions_2indep else used
        assert f"method={wanted!r}" in plan.describe(test, **design), test


DEFAULT = {"alpha": 0.05, "budget": 1.0}
ASKED = [
    (linear_ztest, {"weights": [1.0, -1.0]}, {"shift": 3.0}),
    (mcnemar, {"method": "plug-in"}, {"nobs": 8, "prop12": 0.3, "prop21": 0.1}),
    (mcnemar, {}, {"nobs": 8, "prop12": 0.3, "prop21": 0.1}),
    (proportions_ztest, {"value": 0.3}, {"nobs": 20, "proportion": 0.4}),
    (poisson_ztest, {"value": 0.3, "alternative": "larger"}, {"exposure": 20, "rate": 0.4}),
    (counts_paired, {"difference": [4.0, -1.0], "statistic": "max"}, {"effect": 3.0}),
    (counts_paired, {"difference": [4.0, -1.0], "statistic": "chi2"}, {"effect": 3.0}),
    (counts_trend, {"truth": [0.2, 0.3, 0.5]}, {"nobs": 20, "effect": 0.5}),
    (proportions_trend, {"truth": [0.1, 0.0, 0.4]}, {"nobs": 20, "effect": 0.5}),
    (proportions_2indep, {"method": "asymptotic"}, {"nobs1": 9, "prop1": 0.5, "prop2": 0.3}),
    (poisson_2indep, {"method": "asymptotic"}, {"exposure1": 9.0, "rate1": 0.5, "rate2": 0.3}),
]
BAD = st.one_of(
    st.floats(),
    st.integers(-(10**30), 10**30),
    st.sampled_from([None, "x", [], 1j, [0.2, np.nan], np.zeros((0, 2)), {}, b"1"]),
    st.sampled_from([0.0, 1.0, -1.0, 2.5, 1e-300, 1 - 1e-16, 1e13, np.nan, np.inf, -1e300]),
)


@pytest.mark.parametrize(
    ("test", "fixed", "numbers"), ASKED, ids=lambda x: getattr(x, "__name__", "")
)
@settings(derandomize=True, deadline=None, max_examples=8)
@given(data=st.data())
def test_only_our_errors_escape(test, fixed, numbers, data):
    numbers = numbers | DEFAULT
    name, value = data.draw(st.sampled_from(sorted(numbers))), data.draw(BAD)
    mechanism = data.draw(st.sampled_from([Laplace.from_epsilon, Geometric.from_epsilon]))
    simulated = "rng" in plan.describe(test, **fixed)
    asked = PlannedPower(
        test, mechanism=mechanism, **fixed, **({"reps": 99, "rng": 1} if simulated else {})
    )
    for call in (asked.power, asked.curve):
        try:
            found = call(**numbers | {name: value})
        except DPInferError:
            continue
        power = found if call == asked.power else found["power"]
        assert ((power >= 0) & (power <= 1)).all()
