"""Where monotone functions, and functions with steps, reach a target."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer import plan
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests import linear_ztest, poisson_ztest, proportions_ztest
from dpinfer.intervals import count_confint
from dpinfer.mechanisms import Exact, Geometric, Laplace

NOISE = Laplace(scale=1.0)


def made_up(function, tried, by="nobs"):
    """A procedure whose width is a function of one number, and a model that passes it on."""

    def model(_, law, **numbers):
        tried.append(numbers["nobs"] if by == "nobs" else 1.0 / law.scale)
        return {"x": tried[-1]}

    def procedure(x, **_):
        return SimpleNamespace(width=function(x))

    return {"procedure": procedure, "model": model, "method": "simulate", "reps": 2}


@settings(derandomize=True, max_examples=25)
@given(root=st.floats(0.5, 1e6))
def test_the_search_ends_at_the_root_and_tries_few_sizes(root):
    tried = []
    design = made_up(lambda x: 2.0 / np.sqrt(x), tried)
    found = plan.solve(**design, width=2.0 / np.sqrt(root), nobs=None, mechanism=NOISE)
    assert found == np.ceil(root * (1 - 1e-12))
    assert all(size == np.floor(size) >= 1.0 for size in tried)
    assert len(set(tried)) < 60


@settings(derandomize=True, max_examples=15)
@given(root=st.floats(1e-6, 1e6))
def test_the_search_for_a_budget_ends_just_above_the_root(root):
    design = made_up(lambda x: 1.0 / x, [], by="budget")
    found = plan.solve(**design, width=1.0 / root, mechanism=Laplace.from_epsilon)
    assert root * (1 - 1e-9) <= found <= root * (1 + 1e-3)


def test_a_size_that_is_more_than_enough_is_the_least():
    assert plan.solve(**made_up(lambda x: 10.0 / x, []), width=50, nobs=None, mechanism=NOISE) == 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: 1.0 / np.sqrt(x), "it is 1e-06 at nobs = 1e"),
        (lambda x: 0.5 + 1.0 / x, r"be reached: it is 0\.5 at nobs = 1e\+12"),
    ],
)
def test_a_size_that_is_too_large_is_refused(function, message):
    with pytest.raises(InvalidParameterError, match=message):
        plan.solve(**made_up(function, []), width=1e-13, nobs=None, mechanism=NOISE)


def test_both_directions_have_one_answer():
    """A width falls with the budget, a power rises with the shift: both are closed forms."""
    found = plan.solve(count_confint, width=0.4, mechanism=Laplace.from_epsilon)
    assert found == pytest.approx(-2.0 * np.log(0.05) / 0.4, rel=1e-9)
    shift = plan.solve(
        linear_ztest, power=0.5, shift=None, weights=[1], mechanism=NOISE, alternative="larger"
    )
    assert shift == pytest.approx(-np.log(0.1), rel=1e-9)
    reached = plan.power(
        linear_ztest, shift=shift, weights=[1], mechanism=NOISE, alternative="larger"
    )
    assert reached >= 0.5 - 1e-12


@pytest.mark.parametrize("width", [4.0, 10.0, 60.0])
def test_the_start_of_a_step_is_found(width):
    """Whole-numbered noise has widths that are whole: from the budget found on they are reached."""
    known = {"mechanism": Geometric.from_epsilon}
    found = plan.solve(count_confint, width=width, **known)
    at, before = plan.width(count_confint, budget=[found, found * (1.0 - 1e-8)], **known)
    assert at == width < before


@pytest.mark.parametrize(
    ("width", "message"),
    [
        (1e11, r"width must be smaller than 5\.99146e\+09, which budget = 1e-09 has already"),
        (1e-12, r"width must be one that can be reached: it is 5\.99146e-09 at budget = 1e\+09"),
    ],
)
def test_targets_out_of_reach_are_refused(width, message):
    with pytest.raises(InvalidParameterError, match=message):
        plan.solve(count_confint, width=width, mechanism=Laplace.from_epsilon)


def test_a_power_that_every_number_has_is_refused():
    fixed = {"value": 2.0, "mechanism": NOISE}
    with pytest.raises(InvalidParameterError, match=r"larger than 0\.05"):
        plan.solve(
            proportions_ztest, nobs=50, power=0.01, proportion=None, value=0.25, mechanism=NOISE
        )
    with pytest.raises(InvalidParameterError, match=r"power must be larger than .* exposure = "):
        plan.solve(poisson_ztest, power=0.01, exposure=None, rate=3.0, **fixed)


@pytest.mark.thinned("power", "value", every=2)
@pytest.mark.parametrize("power", [0.3, 0.5, 0.8, 0.9])
@pytest.mark.parametrize(("value", "proportion"), [(0.5, 0.7), (0.25, 0.4)])
def test_sizes_of_a_sawtooth_are_those_after_which_all_reach(value, proportion, power):
    """Binomial tests without noise, whose powers go up and down with the number of trials."""
    sizes = np.arange(1, 240)

    def tried(n):
        k = np.arange(n + 1)
        rejects = stats.binom.sf(k - 1, n, value) <= 0.05
        return stats.binom.pmf(k, n, proportion)[rejects].sum()

    powers = np.array([tried(n) for n in sizes])
    expected = sizes[np.flatnonzero(powers < power - 1e-12)[-1] + 1]
    fixed = {"value": value, "proportion": proportion, "mechanism": Exact()}
    found = plan.solve(proportions_ztest, nobs=None, power=power, alternative="larger", **fixed)
    assert found == expected


@pytest.mark.parametrize("rate", [2e3, 4.0, 2.3])
def test_sizes_that_are_no_whole_numbers_may_be_small(rate):
    fixed = {"value": 2.0, "rate": rate, "mechanism": NOISE, "method": "asymptotic"}
    found = plan.solve(poisson_ztest, power=0.8, exposure=None, **fixed)
    at, before = plan.power(poisson_ztest, exposure=[found, found * (1 - 1e-6)], **fixed)
    assert before < 0.8 <= at + 1e-9


def test_one_observation_may_be_enough():
    found = plan.solve(
        proportions_ztest, nobs=None, power=0.5, value=0.01, proportion=0.99, mechanism=Exact()
    )
    assert found == 1.0
