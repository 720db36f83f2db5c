"""The best shares against closed forms, grids and the conditions of an optimum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.curation import optimal_shares, plan_release
from dpinfer.curation import release_plans as _matrices
from dpinfer.errors import ConvergenceError, DPInferError, InvalidParameterError, NotEstimableError
from dpinfer.mechanisms import DiscreteGaussian, Exact, Geometric
from dpinfer.privacy import GDP, ZCDP, PureDP
from dpinfer.queries import Domain, Workload

UNITS = [np.eye(4)[[at]] for at in range(4)]
DOMAIN = Domain({"sex": ["F", "M"], "age": ["0-17", "18-64", "65+"], "home": ["own", "rent"]})


@pytest.mark.parametrize(
    ("budget", "power"), [(PureDP(1.0), 1 / 3), (ZCDP(0.5), 1 / 2), (GDP(2.0), 1 / 2)]
)
def test_closed_form_for_disjoint_queries(budget, power):
    weights = np.array([1.0, 3.0, 0.2, 40.0])
    # a query counted twofold has twice the sensitivity, and four times the variance
    scale = np.array([1.0, 2.0, 1.0, 0.5])
    measured = [size * unit for size, unit in zip(scale, UNITS, strict=True)]
    plan = optimal_shares(measured, budget=budget, target=np.eye(4), weights=weights)
    # the noise grows with the query, so that its scale has no effect
    expected = weights**power / (weights**power).sum()
    np.testing.assert_allclose(plan.shares, expected, atol=2e-5)
    sizes = weights * scale**2
    own = optimal_shares(measured, budget=budget, weights=weights)
    expected = sizes**power / (sizes**power).sum()
    np.testing.assert_allclose(own.shares, expected, atol=2e-5)


@pytest.mark.thinned("budget", "mechanism", every=2)
@pytest.mark.parametrize("budget", [PureDP(1.0), ZCDP(0.5), PureDP(2.0, neighbours="replace")])
@pytest.mark.parametrize("mechanism", [None, "integer"])
def test_no_point_of_a_grid_is_better(budget, mechanism):
    integer = {PureDP: Geometric, ZCDP: DiscreteGaussian}[type(budget)]
    mechanism = None if mechanism is None else integer
    measured = [np.eye(3), np.array([[1.0, 1, 0]]), np.array([[0, 0, 1.0], [1, 1, 1]])]
    target = np.array([[1.0, 1, 1], [1, 0, 0], [0, 1, -1]])
    arguments = {"budget": budget, "target": target, "weights": [5, 1, 2], "mechanism": mechanism}
    plan = optimal_shares(measured, **arguments)
    # the normal equations, for all points of a grid at once
    first, second = np.meshgrid(np.linspace(0.02, 1.0, 99), np.linspace(0.0, 1.0, 101))
    inside = first + second < 1.0 + 1e-12
    shares = np.stack([first[inside], second[inside], 1.0 - first[inside] - second[inside]]).clip(
        0.0
    )
    norms = [np.abs(one).sum(axis=0).max() for one in measured]
    if isinstance(budget, PureDP):
        if budget.neighbours == "replace":
            norms = [2.0, 1.0, 1.0]
        rate = shares * (budget.epsilon / np.array(norms))[:, None]
        precision = np.cosh(rate) - 1.0 if mechanism is Geometric else np.square(rate) / 2.0
    else:
        norms = [np.square(one).sum(axis=0).max() for one in measured]
        precision = 2.0 * budget.rho * shares / np.array(norms)[:, None]
    grams = np.stack([one.T @ one for one in measured])
    inverse = np.linalg.inv(np.einsum("gk,gij->kij", precision, grams))
    totals = np.einsum("t,ti,kij,tj->k", [5.0, 1.0, 2.0], target, inverse, target)
    best = totals.min()
    # the variance of the discrete Gaussian is not quite the square of its parameter
    assert plan.total <= best * (1 + (1e-4 if mechanism is DiscreteGaussian else 1e-9))
    # the grid comes near
    assert plan.total >= best * 0.99
    if plan.gap is not None:
        assert plan.gap <= 1e-6 * plan.total


@pytest.mark.parametrize("budget", [ZCDP(0.5), GDP(1.0)])
def test_conditions_of_an_optimum_by_differences(budget):
    measured = [("sex", "age"), ("home",), ("sex", "age", "home"), ()]
    target = [("sex",), ("age", "home"), ()]
    arguments = {"budget": budget, "domain": DOMAIN, "target": target}
    plan = optimal_shares(measured, **arguments)
    shares = plan.shares.to_numpy()
    assert (shares > 0.01).all()
    slopes = []
    for at in range(4):
        step = 1e-5
        moved = [shares * (1 - 1e-3) + sign * step * np.eye(4)[at] for sign in (1, -1)]
        totals = [plan_release(measured, shares=one, **arguments).total for one in moved]
        slopes.append((totals[0] - totals[1]) / (2 * step))
    # all derivatives are the same, and -F since the sum of variances scales as 1/budget
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-4)
    assert -slopes[0] == pytest.approx(plan.total, rel=5e-3)
    rng = np.random.default_rng(4)
    for other in rng.dirichlet(np.ones(4), 200):
        assert plan_release(measured, shares=other, **arguments).total >= plan.total - plan.gap


def test_marginals_and_matrices_agree():
    measured = [("sex", "age"), ("home",), ("sex", "age", "home"), ()]
    groups = [Workload.from_marginals(DOMAIN, [names]) for names in measured]
    for budget in (PureDP(1.0), ZCDP(0.5), GDP(1.0, neighbours="replace")):
        first = optimal_shares(measured, budget=budget, domain=DOMAIN)
        second = optimal_shares(groups, budget=budget)
        assert first.total == pytest.approx(second.total, rel=1e-6)


def test_two_measurements_of_one_thing():
    # under pure DP one of them is left out; under zCDP any division is as good
    twice = [np.eye(2), np.eye(2)]
    pure = optimal_shares(twice, budget=PureDP(1.0))
    assert sorted(pure.shares) == [0.0, 1.0]
    assert pure.total == pytest.approx(2 * 2 * 2.0)
    assert pure.gap is None
    assert "convex" in pure.notes[0]
    concentrated = optimal_shares(twice, budget=ZCDP(0.5))
    assert concentrated.total == pytest.approx(4.0)
    equal = plan_release(twice, budget=ZCDP(0.5))
    assert concentrated.total == pytest.approx(equal.total)


def test_useless_measurements_get_nothing():
    measured = [np.eye(4), np.array([[1.0, 0, 0, 0]]), np.array([[1.0, 1, 1, 1]])]
    for budget in (PureDP(1.0), ZCDP(0.5)):
        plan = optimal_shares(measured, budget=budget, target=np.eye(4)[[1]])
        np.testing.assert_array_equal(plan.shares, [1.0, 0.0, 0.0])
        assert plan.mechanism[1] is None


def test_known_totals_need_no_budget():
    plan = optimal_shares(
        [("sex", "age"), ()], budget=ZCDP(0.5, neighbours="replace"), domain=DOMAIN
    )
    assert isinstance(plan.mechanism[1], Exact)
    np.testing.assert_allclose(plan.shares, [1.0, 0.0])
    only = optimal_shares([()], budget=ZCDP(0.5, neighbours="replace"), domain=DOMAIN)
    assert only.total == 0.0


def test_a_binary_tree_of_many_levels():
    # all prefixes of 64 cells from a binary tree: levels get unequal shares
    levels = [np.kron(np.eye(2**depth), np.ones((1, 64 // 2**depth))) for depth in range(7)]
    prefixes = np.tril(np.ones((64, 64)))
    plan = optimal_shares(levels, budget=ZCDP(0.5), target=prefixes)
    equal = plan_release(levels, budget=ZCDP(0.5), target=prefixes)
    assert plan.total < equal.total
    assert plan.gap <= 1e-6 * plan.total
    rng = np.random.default_rng(1)
    for other in rng.dirichlet(50 * plan.shares.to_numpy() + 1e-3, 20):
        total = plan_release(levels, budget=ZCDP(0.5), target=prefixes, shares=other).total
        assert total >= plan.total - plan.gap


@pytest.mark.parametrize(("name", "limit"), [("DENSE_LIMIT", 2), ("DENSE_SIZE", 10)])
def test_large_designs_by_another_route(monkeypatch, name, limit):
    measured = [np.eye(3), np.array([[1.0, 1, 0]]), np.array([[0, 0, 1.0], [1, 1, 1]])]
    for budget in (PureDP(1.0), ZCDP(0.5)):
        arguments = {"budget": budget, "weights": [5, 1, 2, 1, 1, 3]}
        first = optimal_shares(measured, **arguments)
        with monkeypatch.context() as patch:
            patch.setattr(_matrices, name, limit)
            second = optimal_shares(measured, **arguments)
        assert second.total == pytest.approx(first.total, rel=1e-6)
        np.testing.assert_allclose(second.shares, first.shares, atol=1e-3)


@pytest.mark.parametrize(
    "useless", [[[0.0, 0, 1]], [[1.0, -1, 0]], [[1.0, -1, 0], [0, 0, 1]]], ids=str
)
def test_directions_that_no_target_needs_get_nothing(useless):
    # what remains does not measure all that was measured before
    measured = [np.array([[1.0, 1, 0]]), np.array(useless)]
    for budget in (PureDP(1.0), ZCDP(0.5)):
        plan = optimal_shares(measured, budget=budget, target=[[1.0, 1, 0]])
        np.testing.assert_array_equal(plan.shares, [1.0, 0.0])
        assert plan.total == pytest.approx({PureDP: 2.0, ZCDP: 1.0}[type(budget)])


def test_unimportant_targets_are_measured_all_the_same():
    # the best share is 1e-20, and none at all would leave a target without an estimate
    for budget in (PureDP(1.0), ZCDP(0.5)):
        plan = optimal_shares(UNITS[:2], budget=budget, weights=[1.0, 1e-60], target=np.eye(4)[:2])
        assert 0 < plan.shares.iloc[1] < 1e-3
        assert np.isfinite(plan.variance).all()


def test_sizes_that_overflow_are_refused():
    for budget in (PureDP(1e-55), ZCDP(1e-55)):
        with pytest.raises(ConvergenceError, match="the variances overflow"):
            optimal_shares(UNITS[:2], budget=budget, target=1e140 * UNITS[0])
    with pytest.raises(InvalidParameterError, match="squares of the targets must be finite"):
        optimal_shares(UNITS[:2], budget=ZCDP(1.0), target=1e160 * UNITS[0])
    # entries whose squares overflow
    measured = [1e160 * UNITS[0], 1e160 * UNITS[1]]
    large = optimal_shares(measured, budget=PureDP(1e100), target=np.eye(4)[:2], weights=[1, 8])
    np.testing.assert_allclose(large.shares, [1 / 3, 2 / 3], atol=1e-3)


def test_targets_that_are_not_measured():
    with pytest.raises(NotEstimableError):
        optimal_shares([[[1.0, 1.0]]], budget=ZCDP(1.0), target=[1.0, 0.0])


@settings(derandomize=True, deadline=None, max_examples=10)
@given(
    seed=st.integers(0, 10**6),
    groups=st.integers(1, 4),
    size=st.sampled_from([1e-8, 1.0, 1e8]),
    budget=st.sampled_from([PureDP(1e-6), PureDP(30.0), ZCDP(1e-9), ZCDP(1e3), GDP(0.1)]),
)
def test_never_worse_than_equal_shares(seed, groups, size, budget):
    rng = np.random.default_rng(seed)
    measured = [np.eye(3)] + [
        size * rng.integers(-1, 2, (rng.integers(1, 3), 3)) for _ in range(groups - 1)
    ]
    weights = 10.0 ** rng.uniform(-3, 3, 3)
    try:
        plan = optimal_shares(measured, budget=budget, target=np.eye(3), weights=weights)
    except DPInferError as error:
        raise AssertionError from error
    equal = plan_release(measured, budget=budget, target=np.eye(3), weights=weights)
    assert plan.total <= equal.total * (1 + 1e-9)
    assert plan.shares.sum() == pytest.approx(1.0)
