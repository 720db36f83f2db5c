"""What all plans share: shapes, tables, drawings, budgets, and what is asked for."""

import inspect

import matplotlib as mpl
import numpy as np
import pytest

import dpinfer
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests.power import (
    CompositeFitPower,
    HomogeneityPower,
    IndependencePower,
    LinearPower,
    McNemarPower,
    PairedCountsPower,
    PoissonPower,
    ProportionPower,
    ProportionsTrendPower,
    TrendPower,
    TwoRatesPower,
)
from dpinfer.hypothesis_tests.power._plan import is_alternative
from dpinfer.mechanisms import Gaussian, Geometric, Laplace

TABLE = np.array([[1.2, 0.8], [0.8, 1.2]])


def genotypes(p):
    """Hardy-Weinberg proportions."""
    return np.array([p[0] ** 2, 2 * p[0] * (1 - p[0]), (1 - p[0]) ** 2])


FIXED = ProportionPower(0.25, Laplace(scale=2.0))
BUDGET = ProportionPower(0.25, Laplace.from_epsilon)


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
        powers = ProportionPower(0.25, mechanism).power(60, 0.4, budget=[0.1, 1.0])
        alone = [ProportionPower(0.25, mechanism(b)).power(60, 0.4) for b in (0.1, 1.0)]
        np.testing.assert_allclose(powers, alone, rtol=1e-12)


def test_frame_has_all_combinations():
    frame = BUDGET.power_frame(nobs=[50, 80], proportion=0.4, alpha=[0.05, 0.1], budget=[0.5, 1.0])
    assert len(frame) == 8
    assert list(frame.columns[-2:]) == ["power", "mc_error"]
    for row in frame.itertuples():
        alone = BUDGET.power(row.nobs, row.proportion, row.alpha, row.budget)
        assert row.power == pytest.approx(alone, rel=1e-12)
    assert (frame["mc_error"] == 0).all()


def test_level_of_a_frame_is_five_percent_and_a_budget_that_is_none_is_left_out():
    frame = FIXED.power_frame(nobs=[50, 80], proportion=0.4, budget=None)
    assert (frame["alpha"] == 0.05).all()
    assert "budget" not in frame


def test_plot_has_a_line_for_each_combination(pyplot):
    axes = BUDGET.plot("nobs", nobs=[20, 50, 90], proportion=[0.3, 0.4], budget=[0.1, 1.0])
    assert len(axes.containers) == 4
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[0] == "proportion = 0.3, budget = 0.1"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("nobs", "power")
    drawn = np.asarray(axes.containers[0].lines[0].get_ydata(), dtype=float)
    np.testing.assert_allclose(drawn, BUDGET.power([20, 50, 90], 0.3, budget=0.1), rtol=1e-12)


def test_plot_on_given_axes(pyplot):
    _, given = pyplot.subplots()
    axes = LinearPower([1], Laplace(scale=1.0)).plot("shift", ax=given, shift=np.arange(5))
    assert axes is given
    assert axes.get_legend() is None


NOISE = Geometric(scale=1.0)
NOBS = {"nobs": [30, 60]}
DRAWN = [
    (McNemarPower(NOISE, method="plug-in"), NOBS | {"prop12": 0.4, "prop21": [0.1, 0.2]}),
    (TwoRatesPower(NOISE, method="plug-in"), {"exposure1": [9, 20], "rate1": 1, "rate2": [2, 3]}),
    (PairedCountsPower([3.0, -3.0, 0.0], NOISE), {"effect": [1.0, 2.0], "alpha": [0.05, 0.1]}),
    (TrendPower([0.2, 0.3, 0.5], NOISE), NOBS | {"effect": [0.5, 1.0]}),
    (ProportionsTrendPower([0.1, 0.3], NOISE, reps=99), NOBS | {"effect": [0.5, 1.0]}),
    (HomogeneityPower([[0.4, 0.6], [0.6, 0.4]], NOISE, reps=99), NOBS | {"effect": [0.5, 1.0]}),
    (IndependencePower(0.25 * TABLE, NOISE, reps=99), NOBS | {"effect": [0.5, 1.0]}),
    (CompositeFitPower(genotypes, 0.5, [0.4, 0.4, 0.2], NOISE, reps=99), NOBS | {"effect": [1, 2]}),
]


@pytest.mark.parametrize(("plan", "arguments"), DRAWN, ids=lambda x: type(x).__name__)
def test_every_plan_is_drawn(pyplot, plan, arguments):
    x = next(iter(arguments))
    axes = plan.plot(x, **arguments)
    assert len(axes.containers) == 2
    assert (axes.get_xlabel(), axes.get_ylabel()) == (x, "power")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nobs": 20}, "proportion must be given"),
        ({"nobs": 20, "proportion": 0.4, "size": 3}, "arguments must be among"),
        ({"nobs": [[20]], "proportion": 0.4}, "nobs must be a number or one-dimensional"),
        ({"nobs": 20, "proportion": 0.4, "budget": 1.0}, "budget must be None"),
        ({"nobs": 20.5, "proportion": 0.4}, "nobs must hold whole numbers"),
    ],
)
def test_bad_frames_are_refused(arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        FIXED.power_frame(**arguments)


def test_bad_plots_are_refused(pyplot):
    with pytest.raises(InvalidParameterError, match="x must be one of the arguments"):
        FIXED.plot("budget", nobs=20, proportion=0.4)


def test_budgets_where_there_are_none_and_none_where_there_are():
    with pytest.raises(InvalidParameterError, match="budget must be None"):
        FIXED.power(20, 0.4, budget=1.0)
    with pytest.raises(InvalidParameterError, match="budget must be given"):
        BUDGET.power(20, 0.4)
    with pytest.raises(InvalidParameterError, match="budget must be given"):
        BUDGET.power_frame(nobs=20, proportion=0.4)
    with pytest.raises(InvalidParameterError, match="budget must be None"):
        FIXED.solve_power(nobs=20, proportion=0.4, alpha=0.05, budget=1.0)


def test_what_makes_laws_has_to_make_laws():
    with pytest.raises(InvalidParameterError, match="must return a noise law"):
        ProportionPower(0.25, lambda budget: budget).power(20, 0.4, budget=1.0)
    with pytest.raises(InvalidParameterError, match="scalar parameters"):
        PoissonPower(0.25, lambda b: Laplace(scale=[b, b])).power(20, 0.4, budget=1.0)


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
        FIXED.solve_power(**known)


@pytest.mark.parametrize("power", [0.0, 1.0, np.nan, [0.8, 0.9], "x"])
def test_bad_powers_are_refused(power):
    with pytest.raises(InvalidParameterError, match="power must"):
        FIXED.solve_power(nobs=20, alpha=0.05, power=power)


def test_solving_takes_single_numbers():
    with pytest.raises(InvalidParameterError, match="nobs must be a number"):
        FIXED.solve_power(nobs=[20, 30], alpha=0.05, power=0.8)


def test_direction_of_an_effect():
    found = [[is_alternative(a, x) for x in (-1.0, 0.0, 1.0)] for a in ("larger", "smaller")]
    assert found == [[False, False, True], [True, False, False]]
    assert [is_alternative("two-sided", x) for x in (-1.0, 0.0, 1.0)] == [True, False, True]


def test_plans_are_made_for_the_default_method_of_the_test():
    """None is no method: the test chooses by the table, and so does the plan."""
    pairs = {
        "ProportionPower": "proportions_ztest",
        "PoissonPower": "poisson_ztest",
        "TwoProportionsPower": "proportions_2indep",
        "TwoRatesPower": "poisson_2indep",
        "McNemarPower": "mcnemar",
        "LinearPower": "linear_ztest",
        "PairedCountsPower": "counts_paired",
        "TrendPower": "counts_trend",
        "ProportionsTrendPower": "proportions_trend",
        "GoodnessOfFitPower": "chisquare",
        "CompositeFitPower": "chisquare_fit",
        "IndependencePower": "chi2_contingency",
        "HomogeneityPower": "chi2_contingency",
    }
    for plan, test in pairs.items():
        planned, used = (
            inspect.signature(getattr(dpinfer, name)).parameters["method"].default
            for name in (plan, test)
        )
        # the exact law of two proportions is the default where their sizes are known, as in plans
        assert planned == ("exact" if test == "proportions_2indep" else used), plan
