"""Plans by simulating the procedure itself, held to plans of which the answer is known."""

import numpy as np
import pytest

from dpinfer import plan
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests import linear_ztest, proportions_ztest
from dpinfer.intervals import count_confint, proportion_confint
from dpinfer.mechanisms import Gaussian, Geometric, Laplace

NOISE = Geometric(scale=4.0)


def trials(rng, mechanism, nobs, proportion):
    count = rng.binomial(nobs, proportion) + mechanism.rvs(rng=rng)
    return {"count": count, "nobs": nobs, "value": 0.25}


def a_count(rng, mechanism):
    return {"count": 100 + mechanism.rvs(rng=rng)}


def share(rng, mechanism, nobs):
    return {"count": rng.binomial(nobs, 0.3) + mechanism.rvs(rng=rng), "nobs": nobs}


def shifted(rng, mechanism, shift):
    return {"values": [shift + mechanism.rvs(rng=rng)], "weights": [1.0], "value": 0.0}


TEST = {"procedure": proportions_ztest, "model": trials, "method": "simulate"}
COUNT = {"procedure": count_confint, "model": a_count, "method": "simulate", "reps": 2}


@pytest.mark.parametrize("nobs", [60, 150])
def test_power_is_the_exact_one_up_to_its_error(nobs):
    """Beyond 4 standard errors by accident: 6e-5 for each of the two sizes."""
    numbers = {"nobs": nobs, "proportion": 0.4, "mechanism": NOISE}
    frame = plan.curve(**TEST, **numbers, rng=1)
    exact = plan.power(proportions_ztest, value=0.25, **numbers)
    error = frame["mc_error"].item()
    assert error == pytest.approx(np.sqrt(exact * (1 - exact) / 1000), rel=0.1)
    assert abs(frame["power"].item() - exact) < 4 * error


def test_size_is_the_level_where_there_is_no_effect():
    """P-values of continuous noise are uniform; beyond 4 standard errors by accident: 6e-5."""
    found = plan.power(
        linear_ztest,
        model=shifted,
        method="simulate",
        shift=0.0,
        mechanism=Laplace(scale=2.0),
        alpha=0.2,
        reps=200,
    )
    assert abs(found - 0.2) < 4 * np.sqrt(0.2 * 0.8 / 200)


def test_width_of_a_count_is_the_known_one():
    levels = np.array([0.01, 0.1])
    found = plan.width(**COUNT, mechanism=Laplace.from_epsilon, budget=0.5, alpha=levels)
    np.testing.assert_allclose(found, -2 * np.log(levels) / 0.5, rtol=1e-9)


def test_expected_width_is_the_known_one_up_to_its_error():
    """Beyond 4 standard errors by accident: 6e-5."""
    given = {"nobs": 80, "mechanism": NOISE}
    frame = plan.curve(
        proportion_confint, model=share, method="simulate", quantity="width", reps=80, **given
    )
    known = plan.width(proportion_confint, proportion=0.3, **given)
    assert 0 < frame["error"].item() < 0.04 * known
    assert abs(frame["width"].item() - known) < 4 * frame["error"].item()


def test_budget_that_reaches_a_width_is_the_known_one():
    found = plan.solve(**COUNT, width=20.0, mechanism=Laplace.from_epsilon)
    known = plan.solve(count_confint, width=20.0, mechanism=Laplace.from_epsilon)
    assert known <= found * (1 + 1e-12) <= known * (1 + 1e-3)


def test_size_that_is_solved_for_is_the_first_that_reaches_the_power():
    """The same releases each time, so that the answer can be tried; the exact one is near.

    A power of 0.8 ± 0.033 (150 releases), 4 of which are 0.13, is had between 0.6 and 1.6 times
    the exact size: 6e-5 by accident.
    """
    fixed = {"proportion": 0.4, "mechanism": NOISE}
    found = plan.solve(**TEST, **fixed, nobs=None, power=0.8, reps=150)
    at, before = plan.power(**TEST, **fixed, nobs=[found, found - 1], reps=150)
    assert found.is_integer()
    assert before < 0.8 <= at
    exact = plan.solve(proportions_ztest, value=0.25, **fixed, nobs=None, power=0.8)
    assert 0.6 * exact < found < 1.6 * exact


def test_level_that_reaches_a_power():
    fixed = {"proportion": 0.4, "mechanism": NOISE, "nobs": 60, "reps": 60}
    found = plan.solve(**TEST, **fixed, alpha=None, power=0.7)
    assert plan.power(**TEST, **fixed, alpha=found) >= 0.7
    assert plan.power(**TEST, **fixed, alpha=found * 0.99) < 0.7


def test_a_seed_is_an_answer_and_numbers_broadcast():
    given = {**TEST, "proportion": 0.4, "mechanism": Gaussian.from_rho, "reps": 20}
    given["model"] = lambda rng, law, nobs, proportion: {
        **trials(rng, law, nobs, proportion),
        "mechanism": law,
    }
    first = plan.power(**given, nobs=[[50], [90]], budget=[0.01, 0.1], rng=7)
    assert first.shape == (2, 2)
    np.testing.assert_array_equal(
        first, plan.power(**given, nobs=[[50], [90]], budget=[0.01, 0.1], rng=7)
    )


def refusals():
    given = TEST | {"mechanism": NOISE, "nobs": 50, "proportion": 0.4, "reps": 5}
    yield given | {"model": None}, "model must be a function model"
    yield {k: v for k, v in given.items() if k != "model"}, "model must be given"
    yield given | {"model": lambda *_, **__: 3.0}, "model must return a dictionary"
    yield (
        given | {"procedure": count_confint, "model": a_count},
        "procedure must answer with pvalue",
    )
    yield given | {"reps": 1}, "reps must be"
    yield given | {"mechanism": "laplace"}, "mechanism must be"
    yield given | {"alpha": 1.5}, "alpha must be"
    yield given | {"procedure": "z"}, "procedure must be a test or an interval"


@pytest.mark.parametrize(
    ("given", "message"), list(refusals()), ids=lambda x: x if type(x) is str else ""
)
def test_what_is_wrong_is_refused_by_name(given, message):
    if given["procedure"] is count_confint:
        given = {k: v for k, v in given.items() if k not in ("nobs", "proportion")}
    with pytest.raises(InvalidParameterError, match=message):
        plan.power(**given)


def test_only_sizes_levels_and_budgets_are_solved_for():
    with pytest.raises(InvalidParameterError, match="proportion must be given: with method='sim"):
        plan.solve(**TEST, mechanism=NOISE, nobs=50, proportion=None, power=0.8)


def test_a_procedure_without_a_plan_is_told_of_the_simulation():
    with pytest.raises(InvalidParameterError, match="plan others by method='simulate'"):
        plan.power(lambda: None, mechanism=NOISE)
