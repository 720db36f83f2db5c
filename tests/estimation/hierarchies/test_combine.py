"""Estimates of hierarchies beside generalised least squares on dense matrices."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import (
    DPInferError,
    IncompatibleReleaseError,
    InvalidParameterError,
    NotEstimableError,
)
from dpinfer.estimation import combine, combine_hierarchy
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    IndependentNoise,
    Laplace,
)
from dpinfer.queries import Hierarchy


def workload(parent, opened):
    """Units as sums of leaves and of the rests of units that are not exhausted."""
    parent = np.asarray(parent)
    leaves = [unit for unit in range(parent.size) if not (parent == unit).any()]
    rests = [unit for unit in opened if unit not in leaves]
    matrix = np.zeros((parent.size, len(leaves) + len(rests)))
    for column, leaf in enumerate(leaves + rests):
        unit = leaf
        while unit >= 0:
            matrix[unit, column] = 1.0
            unit = parent[unit]
    return matrix


def random_problem(seed):
    """A random tree with values that are missing, repeated, and exact in places."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 14))
    parent = np.array([-1] + [int(rng.integers(0, unit)) for unit in range(1, size)])
    if rng.random() < 0.2:
        parent[rng.integers(0, size)] = -1
    inner = [unit for unit in range(size) if (parent == unit).any()]
    opened = [unit for unit in inner if rng.random() < 0.2]
    matrix = workload(parent, opened)
    unit = rng.integers(0, size, int(rng.integers(1, 2 * size)))
    laws = [
        Exact() if rng.random() < 0.15 else Laplace(scale=float(rng.choice([0.5, 1.0, 2.0])))
        for _ in unit
    ]
    truth = matrix @ rng.integers(0, 30, matrix.shape[1])
    values = truth[unit] + np.array([float(law.rvs(rng=rng)) for law in laws])
    return parent, opened, matrix, unit, values, laws


def dense(matrix, variance, values):
    """Estimates of all units, their covariance, and which are estimable, by pseudo-inverses."""
    exact = variance == 0
    free = np.eye(matrix.shape[1])
    start = np.zeros(matrix.shape[1])
    if exact.any():
        start = np.linalg.lstsq(matrix[exact], values[exact], rcond=None)[0]
        _, size, right = np.linalg.svd(matrix[exact])
        free = right[int((size > 1e-9).sum()) :].T
    return start, free, exact


@pytest.mark.thinned("seed", every=2)
@pytest.mark.parametrize("seed", range(120))
def test_dense_least_squares_agrees(seed):
    parent, opened, units, unit, values, laws = random_problem(seed)
    fit = combine_hierarchy(
        values,
        Hierarchy(parent, not_exhausted=opened),
        mechanism=laws,
        units=unit,
        unestimable="nan",
    )
    variance = np.array([float(law.variance) for law in laws])
    start, free, exact = dense(units[unit], variance, values)
    rows = units[unit][~exact] @ free / np.sqrt(variance[~exact])[:, np.newaxis]
    rows[np.abs(rows) < 1e-12] = 0.0  # rounding, which would be all that there is
    seen = np.linalg.pinv(rows, rcond=1e-10)
    told = units @ free @ (np.eye(free.shape[1]) - seen @ rows)
    estimable = np.linalg.norm(told, axis=1) < 1e-8
    np.testing.assert_array_equal(fit.estimable, estimable)
    scaled = (values - units[unit] @ start)[~exact] / np.sqrt(variance[~exact])
    estimate = units @ (start + free @ seen @ scaled)
    covariance = units @ free @ seen @ seen.T @ free.T @ units.T
    known = np.flatnonzero(estimable)
    np.testing.assert_allclose(fit.params[known], estimate[known], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        fit.variance[known], np.diag(covariance)[known], rtol=1e-10, atol=1e-13
    )
    np.testing.assert_allclose(
        fit.cov_params(known), covariance[np.ix_(known, known)], rtol=1e-9, atol=1e-12
    )
    weights = fit.weights(known)
    np.testing.assert_allclose(weights @ values, estimate[known], rtol=1e-9, atol=1e-9)
    assert np.isnan(np.delete(fit.params, known)).all()


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_combine_agrees(seed):
    parent, opened, units, unit, values, laws = random_problem(seed)
    hierarchy = Hierarchy(parent, not_exhausted=opened)
    fit = combine_hierarchy(values, hierarchy, mechanism=laws, units=unit, unestimable="nan")
    known = np.flatnonzero(fit.estimable)
    if known.size:
        peer = combine(values, workload=units[unit], mechanism=laws, target=units[known])
        np.testing.assert_allclose(fit.params[known], peer.params, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(fit.bse[known], peer.bse, rtol=1e-9, atol=1e-9)
    if (~fit.estimable).any():
        with pytest.raises(NotEstimableError, match="the values do not determine"):
            combine_hierarchy(values, hierarchy, mechanism=laws, units=unit)


def census(rng, blocks=60):
    codes = sorted(
        {
            f"{rng.integers(1, 3):02d}{rng.integers(0, 4)}{rng.integers(0, 99):02d}"
            for _ in range(blocks)
        }
    )
    hierarchy = Hierarchy.from_codes(codes, [0, 2, 3, 5])
    truth = pd.Series(0.0, index=hierarchy.labels)
    truth[codes] = rng.poisson(30, len(codes))
    for label in hierarchy.labels:
        if len(label) < 5:
            truth[label] = truth[[code for code in codes if code.startswith(label)]].sum()
    return hierarchy, truth


def test_labels_travel_and_their_order_does_not_matter():
    rng = np.random.default_rng(3)
    hierarchy, truth = census(rng)
    values = truth + Laplace(scale=2.0).rvs(len(truth), rng=rng)
    fit = combine_hierarchy(values, hierarchy, mechanism=Laplace(scale=2.0))
    assert fit.params.index.equals(hierarchy.labels)
    mixed = values.sample(frac=1.0, random_state=1)
    again = combine_hierarchy(mixed, hierarchy, mechanism=Laplace(scale=2.0))
    pd.testing.assert_series_equal(fit.params, again.params, rtol=1e-12)
    pd.testing.assert_series_equal(fit.bse, again.bse, rtol=1e-12)
    by_parent = combine_hierarchy(
        values,
        {
            code: (hierarchy.labels[at] if at >= 0 else None)
            for code, at in zip(hierarchy.labels, hierarchy.parent, strict=True)
        },
        mechanism=Laplace(scale=2.0),
    )
    pd.testing.assert_series_equal(fit.params, by_parent.params, rtol=1e-12, check_index_type=False)


def test_estimates_add_up():
    rng = np.random.default_rng(4)
    hierarchy, truth = census(rng)
    values = truth + Geometric(scale=3.0).rvs(len(truth), rng=rng)
    params = combine_hierarchy(values, hierarchy, mechanism=Geometric(scale=3.0)).params
    for at, label in enumerate(hierarchy.labels):
        children = hierarchy.labels[hierarchy.parent == at]
        if len(children):
            assert params[children].sum() == pytest.approx(params[label], abs=1e-9)


def test_exact_values_are_met_exactly():
    rng = np.random.default_rng(5)
    hierarchy, truth = census(rng)
    laws = [Exact() if len(label) == 2 else Laplace(scale=5.0) for label in hierarchy.labels]
    values = truth + np.array([float(law.rvs(rng=rng)) for law in laws])
    fit = combine_hierarchy(values, hierarchy, mechanism=laws)
    states = [label for label in hierarchy.labels if len(label) == 2]
    assert (fit.params[states] == truth[states]).all()
    assert (fit.bse[[*states, ""]] == 0.0).all()


def test_one_child_with_almost_all_the_variance_keeps_its_digits():
    # parent exact, children of variances 1e12 and 1e-4: both errors are the smaller one's
    fit = combine_hierarchy(
        [10.0, 4.0, 6.0], [-1, 0, 0], mechanism=[Exact(), Gaussian(sigma=1e6), Gaussian(sigma=0.01)]
    )
    expected = 1e12 * 1e-4 / (1e12 + 1e-4)
    np.testing.assert_allclose(fit.variance[1:], expected, rtol=1e-14)


@pytest.mark.parametrize(
    "law", [Laplace(scale=2.0), Geometric(scale=2.0), DiscreteGaussian(sigma=2.0)]
)
def test_the_law_of_an_error_is_the_sum_of_the_noises(law):
    fit = combine_hierarchy([9.0, 4.0, 3.0, 1.0], [-1, 0, 0, 0], mechanism=law)
    error = fit.noise(1)
    assert float(error.variance) == pytest.approx(fit.variance[1], rel=1e-12)
    lower, upper = fit.conf_int(0.1, "exact", units=[1])
    half = float(error.isf(0.05))
    assert upper[0] - fit.params[1] == pytest.approx(half, rel=1e-9)
    assert fit.params[1] - lower[0] == pytest.approx(half, rel=1e-9)
    np.testing.assert_array_equal(fit.conf_int(0.1, units=[1]).upper, upper)
    assert "not Gaussian" in fit.conf_int(0.1, "asymptotic").notes[0]


def test_functions_of_units():
    rng = np.random.default_rng(6)
    hierarchy, truth = census(rng)
    values = truth + Laplace(scale=2.0).rvs(len(truth), rng=rng)
    fit = combine_hierarchy(values, hierarchy, mechanism=Laplace(scale=2.0))
    a, b = hierarchy.labels[:2]
    target = pd.DataFrame({a: [1.0, 0.5], b: [-1.0, 0.5]}, index=["difference", "mean"])
    found = fit.contrast(target)
    pair = fit.cov_params([a, b]).to_numpy()
    rows = target.to_numpy()
    np.testing.assert_allclose(found.cov_params(), rows @ pair @ rows.T, rtol=1e-10)
    np.testing.assert_allclose(found.bse**2, np.diag(found.cov_params()), rtol=1e-12)
    assert found.params["difference"] == pytest.approx(fit.params[a] - fit.params[b])
    single = fit.contrast({a: 1.0, b: -1.0})
    assert single.params == pytest.approx(found.params["difference"])
    assert float(single.noise().variance) == pytest.approx(found.bse["difference"] ** 2, rel=1e-9)
    frame = found.summary_frame(0.1)
    assert list(frame.columns) == ["estimate", "std_err", "ci_lower", "ci_upper"]
    assert list(frame.index) == ["difference", "mean"]


def test_coverage_at_every_level():
    # 2,000 draws of 60 units: each coverage has a standard deviation below 0.007; 6 of them
    rng = np.random.default_rng(7)
    hierarchy, truth = census(rng)
    laws = IndependentNoise([Geometric(scale=1.0 + (len(label) % 3)) for label in hierarchy.labels])
    fit = combine_hierarchy(truth.to_numpy(), hierarchy, mechanism=laws)
    errors = fit.simulate_errors(2000, rng=8)
    half = np.asarray(fit.conf_int(0.1).width) / 2
    level = np.asarray(hierarchy.depth)
    for depth in range(4):
        hits = np.abs(errors[:, level == depth]) <= half[level == depth]
        assert abs(hits.mean() - 0.9) < 6 * np.sqrt(0.09 / 2000)
    np.testing.assert_allclose(errors.std(axis=0), fit.bse, rtol=6 / np.sqrt(2 * 2000))


def test_consistency_is_the_sum_of_squared_differences():
    rng = np.random.default_rng(9)
    hierarchy, truth = census(rng)
    values = truth + Gaussian(sigma=3.0).rvs(len(truth), rng=rng)
    fit = combine_hierarchy(values, hierarchy, mechanism=Gaussian(sigma=3.0))
    test = fit.consistency_test()
    assert test.method == "exact"
    scores = fit.parent_tests()["z"]
    assert float(test.statistic) == pytest.approx(float((scores**2).sum()), rel=1e-9)
    matrix = workload(hierarchy.parent, [])
    peer = combine(values.to_numpy(), workload=matrix, mechanism=Gaussian(sigma=3.0))
    assert float(test.pvalue) == pytest.approx(float(peer.consistency_test().pvalue), rel=1e-9)


def test_consistency_counts_repeated_and_exact_values():
    laws = [
        Exact(),
        Gaussian(sigma=1.0),
        Gaussian(sigma=1.0),
        Gaussian(sigma=2.0),
        Gaussian(sigma=1.0),
    ]
    values, unit = [10.0, 11.0, 4.0, 5.0, 5.0], [0, 0, 1, 1, 2]
    fit = combine_hierarchy(values, [-1, 0, 0], mechanism=laws, units=unit)
    matrix = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])[unit]
    peer = combine(values, workload=matrix, mechanism=laws).consistency_test()
    ours = fit.consistency_test()
    assert float(ours.statistic) == pytest.approx(float(peer.statistic), rel=1e-10)
    assert float(ours.pvalue) == pytest.approx(float(peer.pvalue), rel=1e-10)


def test_a_wrong_value_stands_out():
    rng = np.random.default_rng(10)
    hierarchy, truth = census(rng)
    values = truth + Laplace(scale=1.0).rvs(len(truth), rng=rng)
    wrong = next(label for label in hierarchy.labels if len(label) == 2)
    values[wrong] += 100.0
    fit = combine_hierarchy(values, hierarchy, mechanism=Laplace(scale=1.0))
    assert float(fit.consistency_test(rng=1).pvalue) < 0.01
    worst = fit.disagreements(3)
    assert wrong in worst.index
    assert len(worst) == 3
    assert (worst["z"].abs().diff().dropna() <= 0).all()
    residual = worst["published"] - worst["estimate"]
    np.testing.assert_allclose(worst["residual"], residual)


def test_nothing_to_compare_is_said():
    fit = combine_hierarchy([1.0, 2.0], [-1, -1], mechanism=Laplace(scale=1.0))
    with pytest.raises(NotEstimableError, match="no overlapping values"):
        fit.consistency_test()
    assert fit.parent_tests().empty
    assert fit.disagreements().empty


def test_summary_says_what_is_covered():
    fit = combine_hierarchy(
        pd.Series({"a": 5.0, "b": 3.0}), {"a": None, "b": "a"}, mechanism=Laplace(scale=1.0)
    )
    text = fit.summary()
    assert "inference on the confidential values" in text
    assert "best linear unbiased" in text
    frame = fit.summary_frame(0.1, "exact")
    assert list(frame["published"]) == [5.0, 3.0]
    assert str(fit) == text
    assert repr(fit) == "HierarchyEstimate(2 units from 2 values)"


NOISE = Laplace(scale=1.0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([1.0], [-1, 0]), InvalidParameterError, "values must have 2 entries"),
        (([1.0, 2.0], None), InvalidParameterError, "parent must be given"),
        (([1.0, np.nan], [-1, 0]), InvalidParameterError, "values must not contain NaN"),
        (([[1.0, 2.0]], [-1, 0]), InvalidParameterError, "values must be one-dimensional"),
        (([1e200], [-1]), InvalidParameterError, "values must be <="),
        (([1.0], [-1, 0], {"units": [4]}), InvalidParameterError, "units must hold positions"),
        (([1.0], [-1, 0], {"units": [0, 0]}), InvalidParameterError, "units must have 1 entr"),
        (([1.0], [-1, 0, 0], {"units": [0]}), NotEstimableError, "do not determine 1, 2"),
        (([1.0], [-1], {"unestimable": "drop"}), InvalidParameterError, "unestimable must be"),
        (([1.0], [-1], {"mechanism": 3}), InvalidParameterError, "mechanism must be a noise law"),
        (([1.0], [-1], {"mechanism": Laplace(scale=1e60)}), InvalidParameterError, "variances of"),
        (
            ([3.0, 1.0, 1.0], [-1, 0, 0], {"mechanism": Exact()}),
            IncompatibleReleaseError,
            "children do not add up to 0",
        ),
        (
            ([3.0, 1.0], [-1], {"mechanism": Exact(), "units": [0, 0]}),
            IncompatibleReleaseError,
            "differ for 0",
        ),
        (
            (pd.Series({"x": 1.0}), {"a": None}),
            InvalidParameterError,
            "values must name units of the hierarchy, got 'x'",
        ),
        (
            ([1.0], Hierarchy([-1]), {"not_exhausted": [0]}),
            InvalidParameterError,
            "not_exhausted must be left out",
        ),
    ],
)
def test_bad_arguments_are_refused(arguments, error, message):
    values, parent, *more = arguments
    with pytest.raises(error, match=message):
        combine_hierarchy(values, parent, **{"mechanism": NOISE, **(more[0] if more else {})})


def test_unknown_units_are_named_where_they_are_asked_for():
    fit = combine_hierarchy(
        [1.0],
        {"a": None, "b": "a", "c": "a"},
        mechanism=Laplace(scale=1.0),
        units=["b"],
        unestimable="nan",
    )
    assert np.isnan(fit.params["a"])
    assert np.isinf(fit.bse["a"])
    for ask in (
        lambda: fit.conf_int(),
        lambda: fit.noise("a"),
        lambda: fit.cov_params(["c"]),
        lambda: fit.contrast({"a": 1.0}),
    ):
        with pytest.raises(NotEstimableError, match="do not determine"):
            ask()
    assert float(fit.contrast({"b": 2.0}).bse) == pytest.approx(2 * np.sqrt(2))


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(),
    st.integers(-5, 5),
    st.text(max_size=2),
    st.complex_numbers(),
)


@settings(derandomize=True, deadline=None, max_examples=75)
@given(
    st.one_of(ODD, st.lists(ODD, max_size=4)),
    st.one_of(ODD, st.lists(st.integers(-2, 4), max_size=4)),
    st.one_of(ODD, st.lists(ODD, max_size=4)),
)
def test_odd_arguments_end_in_a_clear_error_or_numbers(values, parent, units):
    try:
        fit = combine_hierarchy(values, parent, mechanism=Geometric(scale=1.0), units=units)
    except DPInferError:
        return
    assert np.isfinite(np.asarray(fit.params)).all()
    assert np.isfinite(np.asarray(fit.bse)).all()
