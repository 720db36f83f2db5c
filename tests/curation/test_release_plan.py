"""Planned variances are those that the estimators have once the release is made."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.curation import plan_release
from dpinfer.errors import DPInferError, InvalidParameterError, NotEstimableError
from dpinfer.estimation import NoisyMarginal, combine, combine_marginals
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace
from dpinfer.privacy import GDP, ZCDP, ApproxDP, PureDP, compose, guarantee_of
from dpinfer.queries import Domain, Workload

DOMAIN = Domain({"sex": ["F", "M"], "age": ["0-17", "18-64", "65+"], "home": ["own", "rent"]})
TABLES = [("sex", "age"), ("home",), ("sex", "age", "home"), ()]
FAMILIES = [
    (PureDP(1.0), Laplace),
    (PureDP(0.7, neighbours="replace"), Geometric),
    (ZCDP(0.3), Gaussian),
    (ZCDP(0.3, neighbours="replace"), DiscreteGaussian),
    (GDP(0.8), Gaussian),
]


def size_of(names):
    levels = dict(zip(DOMAIN.attributes, DOMAIN.shape, strict=True))
    return int(np.prod([levels[name] for name in names]))


@pytest.mark.parametrize(("budget", "mechanism"), FAMILIES)
def test_marginals_and_matrices_and_estimators_agree(budget, mechanism):
    shares = np.array([0.4, 0.1, 0.3, 0.2])
    targets = [("sex",), ("age", "home"), (), ("sex", "age", "home")]
    plan = plan_release(
        TABLES, budget=budget, domain=DOMAIN, target=targets, shares=shares, mechanism=mechanism
    )
    groups = [Workload.from_marginals(DOMAIN, [names]) for names in TABLES]
    wanted = Workload.from_marginals(DOMAIN, targets)
    by_matrix = plan_release(
        groups, budget=budget, target=wanted, shares=shares, mechanism=mechanism
    )
    np.testing.assert_allclose(plan.sensitivity, by_matrix.sensitivity, rtol=1e-12)
    each = np.repeat(plan.variance.to_numpy(), [size_of(names) for names in targets])
    np.testing.assert_allclose(each, by_matrix.variance, rtol=1e-9)
    assert plan.total == pytest.approx(by_matrix.total, rel=1e-9)

    laws = [law for law, one in zip(plan.mechanism, groups, strict=True) for _ in range(len(one))]
    rows = Workload.vstack(groups)
    fit = combine(np.zeros(len(rows)), workload=rows, mechanism=laws, target=wanted)
    np.testing.assert_allclose(by_matrix.std, fit.bse, rtol=1e-9)

    zeros = [
        NoisyMarginal(names, np.zeros((1, *[2 if n != "age" else 3 for n in names])), law)
        for names, law in zip(TABLES, plan.mechanism, strict=True)
    ]
    tables = combine_marginals(zeros, [-1], domain=DOMAIN)
    for names, variance in zip(targets, plan.variance, strict=True):
        np.testing.assert_allclose(tables.marginal_variance(names), variance, rtol=1e-9)


@pytest.mark.parametrize(("budget", "mechanism"), FAMILIES)
def test_what_is_planned_costs_the_budget(budget, mechanism):
    plan = plan_release(
        TABLES, budget=budget, domain=DOMAIN, shares=[0.5, 0.25, 0.25, 0], mechanism=mechanism
    )
    costs = [
        guarantee_of(law, change, budget.neighbours)
        for law, change in zip(plan.mechanism, plan.sensitivity, strict=True)
        if law is not None and not isinstance(law, Exact)
    ]
    total = compose(costs)
    if isinstance(budget, ZCDP):
        total = total.to_zcdp()
    assert type(total) is type(budget)
    for name in ("epsilon", "rho", "mu"):
        if hasattr(budget, name):
            assert getattr(total, name) == pytest.approx(getattr(budget, name), rel=1e-12)


def test_the_total_is_known_where_a_record_is_replaced():
    plan = plan_release(TABLES, budget=PureDP(1.0, neighbours="replace"), domain=DOMAIN)
    assert isinstance(plan.mechanism[3], Exact)
    assert plan.variance["total"] == 0.0
    assert plan.std["total"] == 0.0
    by_add = plan_release(TABLES, budget=PureDP(1.0), domain=DOMAIN)
    assert by_add.variance["total"] > 0.0


def test_variances_by_simulation():
    plan = plan_release(
        {"cells": np.eye(3), "sum": np.ones((1, 3))}, budget=PureDP(1.0), shares=[0.7, 0.3]
    )
    rows = np.vstack([np.eye(3), np.ones((1, 3))])
    laws = [plan.mechanism[0]] * 3 + [plan.mechanism[1]]
    fit = combine(np.zeros(4), workload=rows, mechanism=laws, target=rows)
    errors = fit.simulate_errors(200_000, rng=1)
    # relative standard error of a variance of sums of Laplace noise: at most √(5/200,000) = 0.005
    np.testing.assert_allclose(errors.var(axis=0), plan.variance, rtol=0.03)


def test_weights_shares_and_frames():
    shares = {"sex × age": Fraction(1, 2), "home": 0.25, "sex × age × home": 0.25, "total": 0}
    plan = plan_release(
        TABLES, budget=PureDP(1.0), domain=DOMAIN, shares=shares, weights=[1, 2, 0, 0]
    )
    assert plan.mechanism[3] is None
    by_series = plan_release(
        TABLES, budget=PureDP(1.0), domain=DOMAIN, shares=plan.shares, weights=[1, 2, 0, 0]
    )
    np.testing.assert_array_equal(plan.variance, by_series.variance)
    sizes = np.array([size_of(names) for names in TABLES])
    assert plan.total == pytest.approx(float((sizes * [1, 2, 0, 0]) @ plan.variance))
    frame = plan.measurement_frame()
    assert list(frame.columns) == ["share", "sensitivity", "noise_std"]
    assert frame.loc["total", "noise_std"] == np.inf
    assert list(plan.summary_frame().columns) == ["variance", "std_err"]
    assert "Planned measurements" in str(plan)
    assert "Best estimates" in str(plan)
    assert repr(plan).startswith("ReleasePlan(4 measurements")
    assert plan.gap is None


def test_shares_in_a_frame_without_an_index():
    shares = pd.Series(
        [0.25, 0.5, 0.25, 0.0], index=["home", "sex × age", "sex × age × home", "total"]
    )
    wanted = plan_release(TABLES, budget=PureDP(1.0), domain=DOMAIN, shares=shares)
    frame = pa.table({"measurement": shares.index.to_list(), "share": shares.to_list()})
    plan = plan_release(TABLES, budget=PureDP(1.0), domain=DOMAIN, shares=frame)
    np.testing.assert_array_equal(plan.variance, wanted.variance)


def test_targets_of_many_kinds():
    budget = ZCDP(0.5)
    one = plan_release([np.eye(2)], budget=budget, target=[1.0, -1.0])
    assert one.variance == pytest.approx([2.0])
    named = plan_release(
        {"cells": Workload(np.eye(2), labels=["a", "b"])}, budget=budget, target=["a"]
    )
    assert named.variance["a"] == pytest.approx(1.0)
    mixed = plan_release([("sex",), np.ones((1, 12))], budget=budget, domain=DOMAIN)
    both = plan_release([("sex",), ()], budget=budget, domain=DOMAIN)
    np.testing.assert_allclose(mixed.variance, both.variance.to_numpy()[[0, 0, 1]], rtol=1e-9)
    single = plan_release("sex", budget=budget, domain=DOMAIN, target="sex")
    assert single.variance.index.to_list() == ["sex"]
    tuple_target = plan_release([("sex", "age")], budget=budget, domain=DOMAIN, target=("age",))
    assert tuple_target.variance["age"] == pytest.approx(2.0)
    mixed_target = plan_release(
        [Workload.identity(DOMAIN)], budget=budget, domain=DOMAIN, target=[("sex",)]
    )
    np.testing.assert_allclose(mixed_target.variance, 6.0)
    assert isinstance(mixed_target.variance, pd.Series)


def test_a_large_domain_needs_no_matrix():
    domain = Domain({f"a{i}": range(10) for i in range(12)})
    pairs = [(f"a{i}", f"a{j}") for i in range(12) for j in range(i)]
    plan = plan_release(pairs, budget=ZCDP(1.0), domain=domain)
    assert len(plan.variance) == 66
    # by symmetry all pairs are alike
    np.testing.assert_allclose(plan.variance, plan.variance.iloc[0], rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"budget": 1.0}, "budget must be a PureDP, ZCDP or GDP"),
        ({"budget": ApproxDP(1.0, 1e-6)}, "budget must be a PureDP, ZCDP or GDP"),
        ({"budget": PureDP(0.0)}, "budget must be > 0"),
        ({"mechanism": Gaussian}, "mechanism must be the class Laplace or Geometric"),
        ({"mechanism": Laplace(scale=1.0)}, "mechanism must be the class"),
        ({"shares": [0.5, 0.6, 0.0, 0.0]}, "shares must add up to at most 1"),
        ({"shares": [1.0]}, "shares must have 4 entries"),
        ({"shares": [-0.1, 0.5, 0.2, 0.2]}, "shares must be >= 0"),
        ({"shares": {"x": 1.0}}, "shares must have one entry for each"),
        ({"weights": [1.0]}, "weights must have 4 entries"),
        ({"weights": [0.0, 0, 0, 0]}, "weights must have at least one entry above 0"),
        ({"domain": None}, "domain must be given"),
        ({"measured": []}, "measured must hold at least one"),
        ({"measured": [("sex", "sex")]}, "an attribute once"),
        ({"measured": [("height",)]}, "attributes must be among"),
        ({"measured": 3}, "measured must be a sequence"),
        ({"measured": [np.ones(3)]}, "matrix"),
        ({"target": [("height",)]}, "attributes must be among"),
        (
            {
                "domain": Domain({f"a{i}": range(2) for i in range(18)}),
                "measured": [tuple(f"a{i}" for i in range(18))],
            },
            "target must hold marginals of at most 16 attributes, got 18",
        ),
    ],
)
def test_refusals(arguments, message):
    default = {"measured": TABLES, "budget": PureDP(1.0), "domain": DOMAIN}
    with pytest.raises(InvalidParameterError, match=message):
        plan_release(**{**default, **arguments})


def test_what_is_not_measured_is_refused_by_name():
    with pytest.raises(NotEstimableError, match="sex × age"):
        plan_release([("sex",), ("age",)], budget=ZCDP(1.0), domain=DOMAIN, target=[("sex", "age")])
    with pytest.raises(NotEstimableError, match="target 0"):
        plan_release([[[1.0, 1.0]]], budget=ZCDP(1.0), target=[1.0, 0.0])
    for shares in ([0.0, 1.0], [0.0, 0.0]):
        with pytest.raises(NotEstimableError):
            plan_release([np.eye(2), np.ones((1, 2))], budget=ZCDP(1.0), shares=shares)


ANYTHING = st.one_of(
    st.none(), st.text(max_size=3), st.floats(), st.lists(st.floats(), max_size=4), st.booleans()
)


@settings(derandomize=True, deadline=None, max_examples=25)
@given(measured=ANYTHING, target=ANYTHING, shares=ANYTHING, weights=ANYTHING)
def test_only_own_errors_escape(measured, target, shares, weights):
    for given_measured in (measured, TABLES, [np.eye(2), [[1, 1]]]):
        try:
            plan = plan_release(
                given_measured,
                budget=PureDP(1.0),
                domain=DOMAIN if given_measured is TABLES else None,
                target=target,
                shares=shares,
                weights=weights,
            )
            assert np.isfinite(np.asarray(plan.variance)).all()
        except DPInferError:
            pass
