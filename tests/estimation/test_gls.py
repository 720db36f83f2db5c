"""The combined estimator against worked examples, brute force and its own definition."""

from operator import attrgetter, methodcaller

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse

import dpinfer as dpi
from dpinfer.errors import (
    ConvergenceError,
    DPInferError,
    IncompatibleReleaseError,
    InvalidParameterError,
    NotEstimableError,
)
from dpinfer.estimation import combine
from dpinfer.mechanisms import Exact, Gaussian, Geometric, Laplace
from dpinfer.queries import Domain, Workload
from dpinfer.releases import Release

# Example 4.1 of Ashmead, Leclerc and Sexton (JSM 2019): six cells and two sums of them
B = np.array([[1.0, 0, 0, 1, 0, 0], [0, 0, 0, 1, 1, 1]])
A = np.vstack([np.eye(6), B])
Y = np.array([3.0, 0, -1, 4, 2, 4, 2, 7])
NOISE = Geometric.from_epsilon(1, sensitivity=3)


def gaussian(variance):
    """Noise of given variances, zero for none."""
    return [Gaussian(sigma=float(np.sqrt(v))) if v else Exact() for v in variance]


def definition(A, variance, T):
    """T (AᵀV⁻¹A)⁺AᵀV⁻¹ by singular values, for variances > 0."""
    scale = 1 / np.sqrt(variance)
    return T @ np.linalg.pinv(scale[:, None] * A) * scale


def test_example_4_1_from_three_values():
    rows = [0, 3, 6]
    fit = combine(Y[rows], workload=A[rows], mechanism=NOISE, target=B[0])
    assert fit.params == pytest.approx(11 / 3, rel=1e-14)
    assert fit.bse**2 == pytest.approx(2 / 3 * 17.8342551925, rel=1e-11)
    np.testing.assert_allclose(fit.weights, [[1 / 3, 1 / 3, 2 / 3]], rtol=1e-14)


def test_example_4_1_from_all_values():
    fit = combine(Y, workload=A, mechanism=NOISE, target=B[0])
    assert fit.params == pytest.approx(39 / 11, rel=1e-14)
    assert fit.bse**2 == pytest.approx(7 / 11 * 17.8342551925, rel=1e-11)


def test_without_a_target_every_row_and_every_estimable_cell():
    fit = combine(Y, workload=A, mechanism=NOISE)
    assert len(fit.params) == 8  # every cell is a row already
    few = combine(Y[[0, 6]], workload=A[[0, 6]], mechanism=NOISE)
    # rows, then the fourth cell: the first is a row, the others are not measured
    np.testing.assert_allclose(few.params, [3.0, 2.0, -1.0], atol=1e-14)
    np.testing.assert_allclose(few.bse**2 / NOISE.variance, [1, 1, 2], rtol=1e-14)


def test_zero_noise_limit_returns_the_truth():
    truth = np.arange(6.0)
    fit = combine(A @ truth, workload=A, mechanism=Laplace(scale=1e-9), target=np.eye(6))
    np.testing.assert_allclose(fit.params, truth, atol=1e-12)
    np.testing.assert_allclose(fit.bse, 0, atol=2e-9)


def test_duplicate_measurements_average():
    fit = combine([1.0, 2.0, 6.0], workload=[[1.0], [1], [1]], mechanism=Laplace(scale=1.0))
    np.testing.assert_allclose(fit.params, 3.0, rtol=1e-14)
    np.testing.assert_allclose(fit.bse**2, 2 / 3, rtol=1e-14)
    unequal = combine([1.0, 4.0], workload=[[1.0], [1.0]], mechanism=Laplace(scale=[1.0, 2.0]))
    np.testing.assert_allclose(unequal.params, (4 * 1 + 4) / 5, rtol=1e-14)


def test_weights_do_not_depend_on_the_values():
    one = combine(Y, workload=A, mechanism=NOISE)
    other = combine(1000 * Y, workload=A, mechanism=NOISE)
    np.testing.assert_array_equal(one.weights, other.weights)
    np.testing.assert_array_equal(one.bse, other.bse)


def test_order_of_values_and_cells_does_not_matter():
    rng = np.random.default_rng(8)
    scale = rng.uniform(1, 3, 8)
    rows, cells = rng.permutation(8), rng.permutation(6)
    straight = combine(Y, workload=A, mechanism=Laplace(scale=scale))
    shuffled = combine(Y[rows], workload=A[rows][:, cells], mechanism=Laplace(scale=scale[rows]))
    np.testing.assert_allclose(shuffled.params, straight.params[rows], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(shuffled.bse, straight.bse[rows], rtol=1e-12)


def test_identity_workload_gives_the_values_back():
    fit = combine(Y, mechanism=NOISE)
    np.testing.assert_array_equal(fit.params, Y)
    np.testing.assert_allclose(fit.bse, NOISE.std)
    sums = combine(Y, mechanism=NOISE, target=np.ones((1, 8)))
    assert sums.params == [21.0]
    assert sums.bse[0] == pytest.approx(np.sqrt(8) * NOISE.std)


def test_large_identity_needs_no_matrix():
    values = np.arange(1_000_000.0)
    fit = combine(values, mechanism=Laplace(scale=2.0))
    np.testing.assert_array_equal(fit.params, values)
    assert "1000000" in fit.summary()


def test_exact_values_hold_exactly():
    law = [*[Laplace(scale=2.0)] * 6, Exact(), Exact()]
    fit = combine(Y, workload=A, mechanism=law)
    np.testing.assert_allclose(fit.params[6:], Y[6:], rtol=1e-14)
    np.testing.assert_allclose(fit.bse[6:], 0, atol=1e-13)
    np.testing.assert_allclose(B @ fit.params[:6], Y[6:], rtol=1e-14)
    # by Lagrange multipliers, all variances 8
    V = 8 * np.eye(6)
    gain = V @ B.T @ np.linalg.inv(B @ V @ B.T)
    np.testing.assert_allclose(fit.params[:6], Y[:6] + gain @ (Y[6:] - B @ Y[:6]), atol=1e-13)
    np.testing.assert_allclose(fit.bse[:6] ** 2, np.diag(V - gain @ B @ V), rtol=1e-12)


def test_repeated_exact_values_are_fine_and_contradictions_are_named():
    rows = [[1.0, 0], [0, 1], [1, 1], [1, 1]]
    law = [Laplace(scale=1.0), Laplace(scale=1.0), Exact(), Exact()]
    fit = combine([3.0, 4.0, 9.0, 9.0], workload=rows, mechanism=law)
    np.testing.assert_allclose(fit.params, [4, 5, 9, 9], rtol=1e-14)
    workload = Workload(rows, labels=["a", "b", "total", "again"])
    with pytest.raises(IncompatibleReleaseError, match=r"contradict one another: '(total|again)'"):
        combine([3.0, 4.0, 9.0, 10.0], workload=workload, mechanism=law)


def test_everything_exact():
    fit = combine([1.0, 2.0, 3.0], workload=[[1.0, 0], [0, 1], [1, 1]], mechanism=Exact())
    np.testing.assert_allclose(fit.params, [1, 2, 3], rtol=1e-14)
    np.testing.assert_array_equal(fit.bse, 0)
    np.testing.assert_array_equal(np.asarray(fit.conf_int()), np.c_[[1, 2, 3], [1, 2, 3]])


def test_targets_that_are_not_estimable_are_named():
    workload = Workload([[1.0, 1, 0], [0, 0, 1]], labels=["ab", "c"], columns=["a", "b", "c"])
    with pytest.raises(NotEstimableError, match="these are not: 'a';"):
        combine([1.0, 2.0], workload=workload, mechanism=NOISE, target=["c", "a"])
    with pytest.raises(NotEstimableError, match="these are not: 'difference';"):
        combine([1.0, 2.0], workload=workload, mechanism=NOISE, target={"difference": [1.0, -1, 0]})
    fit = combine([1.0, 2.0], workload=workload, mechanism=NOISE, target=[[2.0, 2, -1]])
    np.testing.assert_allclose(fit.params, [0.0], atol=1e-14)


def test_cells_in_no_query_are_not_estimable():
    workload = Workload([[1.0, 0]], columns=["seen", "unseen"])
    assert list(combine([1.0], workload=workload, mechanism=NOISE).params) == [1.0]
    with pytest.raises(NotEstimableError, match="'unseen'"):
        combine([1.0], workload=workload, mechanism=NOISE, target="unseen")


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.coo_matrix])
def test_dense_and_sparse_workloads_agree(kind):
    fit = combine(Y, workload=Workload(kind(A)), mechanism=NOISE)
    dense = combine(Y, workload=A, mechanism=NOISE)
    np.testing.assert_allclose(fit.params, dense.params, atol=1e-14)
    np.testing.assert_allclose(fit.bse, dense.bse, rtol=1e-14)


def test_labelled_tables_of_one_population():
    domain = Domain({"sex": ["F", "M"], "age": ["young", "old"]})
    workload = Workload.from_marginals(domain, [("sex", "age"), ("sex",), ()])
    values = [1.0, 2.0, 3.0, 4.0, 4.0, 8.0, 11.0]
    fit = combine(values, workload=workload, mechanism=Laplace(scale=1.0))
    assert fit.params.index.to_list() == workload.labels.to_list()
    assert fit.params[("*", "*")] == pytest.approx(
        fit.params[("F", "*")] + fit.params[("M", "*")], rel=1e-13
    )
    one = combine(values, workload=workload, mechanism=Laplace(scale=1.0), target=("F", "*"))
    assert one.params.iloc[0] == pytest.approx(fit.params[("F", "*")], rel=1e-13)


@pytest.mark.parametrize("rule", [{"threshold": 0.0}, {"clamp": 0.0}, {"clamp": (None, 900.0)}])
def test_values_with_a_publishing_rule_are_refused(rule):
    counts = pd.Series({"a": 0.0, "b": 900.0})
    release = Release(counts, mechanism=Laplace(scale=1.0), **rule)
    message = r"2 of 2 values .*: 'a', 'b'; count_confint has an interval for each of them"
    with pytest.raises(IncompatibleReleaseError, match=message):
        combine(release)
    # whatever was published: to choose by it is selection on the outcome
    with pytest.raises(IncompatibleReleaseError, match="1 of 1 values"):
        combine(release.select(["b"]))


def test_queries_without_a_rule_are_combined_by_themselves():
    counts = pd.Series({"a": 12.0, "b": 900.0, "both": 913.0})
    release = Release(
        counts,
        workload=[[1, 0], [0, 1], [1, 1]],
        mechanism=Laplace(scale=1.0),
        threshold=[10, -np.inf, -np.inf],
        clamp=(-np.inf, [np.inf, 1000.0, np.inf]),
    )
    assert release.has_rule.tolist() == [True, True, False]
    with pytest.raises(IncompatibleReleaseError, match=r"2 of 3 .*select\(~release.has_rule\)"):
        combine(release)
    rest = release.select(~release.has_rule)
    assert combine(rest, target="both").params["both"] == pytest.approx(913.0)


def test_noisy_values_and_fits_are_combined():
    law = Laplace(scale=1.0)
    matrix = [[1, 0], [0, 1], [1, 1]]
    values = dpi.noisy([3.1, 5.2, 9.3], mechanism=law, labels=["a", "b", "both"])
    fit = combine(values, workload=matrix)
    same = combine([3.1, 5.2, 9.3], workload=matrix, mechanism=law)
    np.testing.assert_array_equal(fit.params, same.params)
    assert fit.params.index.to_list() == ["a", "b", "both"]
    # over the same noises: the estimate of b less its own value depends on both
    joint = values.beside(dpi.noisy(fit))
    assert joint.law_of([0, 1, 0, 0, -1, 0]).std == pytest.approx(np.sqrt(2 / 3), rel=1e-12)
    again = combine(fit, workload=matrix)  # all that is in the values is in the fit
    np.testing.assert_allclose(again.params, fit.params, rtol=1e-12)
    np.testing.assert_allclose(again.cov_params(), fit.cov_params(), atol=1e-12)
    with pytest.raises(InvalidParameterError, match="mechanism"):
        combine(values, mechanism=law)
    with pytest.raises(IncompatibleReleaseError, match="must not be combined"):
        combine(dpi.noisy([30.1], mechanism=law, threshold=0.0))


def test_infinite_bounds_are_no_rule():
    nowhere = Release([1.0, 2.0], mechanism=Laplace(scale=1.0), clamp=(-np.inf, np.inf))
    assert not nowhere.has_rule.any()
    assert len(combine(nowhere)) == 2


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"mechanism": None}, InvalidParameterError, "mechanism must be given"),
        ({"release": [], "workload": None}, InvalidParameterError, "values must hold"),
        ({"release": [1.0, np.nan]}, InvalidParameterError, "values must not contain NaN"),
        ({"release": [1.0, 2.0, 3.0]}, IncompatibleReleaseError, "values must have 2 entries"),
        ({"mechanism": 3}, InvalidParameterError, "mechanism must be a noise law"),
        ({"target": [1.0, 2.0, 3.0]}, InvalidParameterError, "target must have 2 columns"),
        ({"target": [[1.0, np.inf]]}, InvalidParameterError, "target must be finite"),
        ({"target": np.ones((1, 1, 2))}, InvalidParameterError, "target must be a vector"),
        ({"target": []}, InvalidParameterError, "target must hold at least one"),
        ({"target": {}}, InvalidParameterError, "target must name at least one"),
        ({"target": "x"}, InvalidParameterError, "target 'x' must be the label"),
        ({"target": 1j}, InvalidParameterError, "target must be real"),
        ({"target": {"x": [1.0]}}, InvalidParameterError, "target x must have 2 entries"),
    ],
)
def test_bad_input_is_refused_by_name(arguments, error, message):
    call = {"release": [1.0, 2.0], "workload": [[1.0, 0], [1, 1]], "mechanism": Laplace(scale=1.0)}
    with pytest.raises(error, match=message):
        combine(**(call | arguments))


def test_a_release_brings_its_own_workload():
    release = Release([1.0], mechanism=Laplace(scale=1.0))
    with pytest.raises(InvalidParameterError, match="must be left out"):
        combine(release, mechanism=Laplace(scale=1.0))


workloads = st.tuples(st.integers(1, 7), st.integers(1, 5), st.integers(0, 2**32 - 1))


@settings(derandomize=True, deadline=None, max_examples=37)
@given(workloads)
def test_random_workloads_match_the_definition(shape):
    m, n, seed = shape
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-1, 2, (m, n)).astype(float)
    matrix[rng.integers(m)] = matrix[0]  # a repeated query
    variance = rng.choice([0.25, 1.0, 4.0], m)
    values = rng.normal(size=m)
    fit = combine(values, workload=matrix, mechanism=gaussian(variance))
    weights = definition(matrix, variance, matrix)
    np.testing.assert_allclose(fit.fitted, weights @ values, atol=1e-10)
    np.testing.assert_allclose(fit.bse[:m] ** 2, np.square(weights) @ variance, atol=1e-10)
    assert fit.rank == np.linalg.matrix_rank(matrix)
    cells = matrix.shape[1]
    row_space = np.linalg.pinv(matrix) @ matrix
    estimable = np.isclose(np.abs(row_space - np.eye(cells)).max(axis=1), 0, atol=1e-9)
    for cell in range(cells):
        unit = np.eye(cells)[cell]
        try:
            combine(values, workload=matrix, mechanism=gaussian(variance), target=unit)
        except NotEstimableError:
            assert not estimable[cell]
        else:
            assert estimable[cell]


@settings(derandomize=True, deadline=None, max_examples=37)
@given(workloads)
def test_random_workloads_with_exact_rows_are_limits(shape):
    m, n, seed = shape
    rng = np.random.default_rng(seed)
    matrix = rng.integers(0, 2, (m, n)).astype(float)
    truth = rng.integers(0, 20, n)
    variance = np.where(rng.random(m) < 0.4, 0.0, rng.choice([1.0, 4.0], m))
    values = matrix @ truth + np.sqrt(variance) * rng.normal(size=m)
    fit = combine(values, workload=matrix, mechanism=gaussian(variance))
    np.testing.assert_allclose(fit.fitted[variance == 0], values[variance == 0], atol=1e-9)
    tiny = np.where(variance == 0, 1e-9, variance)
    np.testing.assert_allclose(fit.fitted, definition(matrix, tiny, matrix) @ values, atol=1e-5)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    values=st.lists(st.floats(), max_size=4),
    matrix=st.lists(st.lists(st.floats(), min_size=2, max_size=2), max_size=4),
    scale=st.floats(),
)
@example(
    values=[0.0, 1.5165709853416635e308, 0.0, 1.5165709853416639e308],
    matrix=[[0.0, 0.0], [0.0, 3657701134056933.0], [0.0, 0.0], [0.0, -1005977849978193.0]],
    scale=1.0,
)
def test_any_numbers_give_estimates_or_a_clear_error(values, matrix, scale):
    try:
        fit = combine(values, workload=np.array(matrix), mechanism=Laplace(scale=scale))
        estimates = np.asarray(fit.params)
    except DPInferError:
        return
    assert np.isfinite(estimates).all()


def test_equations_that_overflow_are_refused():
    # the scaled rows, of 1e-300/1e100, are 0
    tiny = [[1e-300, 0], [1e-300, 1e-300]]
    with pytest.raises(ConvergenceError, match="overflow") as caught:
        combine([1, 2], workload=tiny, mechanism=Laplace(scale=1e100))
    assert isinstance(caught.value.__cause__, np.linalg.LinAlgError)
    with pytest.raises(ConvergenceError, match="overflow"):
        combine([1e308, -1e308], workload=[[1, 1], [1, 0]], mechanism=Laplace(scale=1.0))
    # a pivot of 1e-200·1e-200
    with pytest.raises(ConvergenceError, match="overflow") as caught:
        combine([1, 2], workload=[[1, 1e-200], [1e-200, 0]], mechanism=[Exact()] * 2)
    assert isinstance(caught.value.__cause__, np.linalg.LinAlgError)
    # a sum of two cells of 1e308
    sums, noise = [[1, 0], [0, 1], [1, 1]], Laplace(scale=[1.0, 1.0, 1e100])
    with pytest.raises(ConvergenceError, match="overflow"):
        combine([1e308] * 3, workload=sums, mechanism=noise)
    # null vectors that are not finite
    wide = [
        [-1e-15, 1e291, -1e-231, -1e109],
        [-1e131, 0, 0, 1e-164],
        [1e-152, 1e-210, 0, -1e-234],
    ]
    with pytest.raises(ConvergenceError, match="overflow"):
        combine([1, 2, 3], workload=wide, mechanism=Laplace(scale=1.0))
    with pytest.raises(ConvergenceError, match="overflow"):
        combine([1], workload=[[1, 1]], mechanism=Laplace(scale=1.0), target=[[1.5e308, 1.5e308]])


class Boundless(Laplace):
    """A law without a variance."""

    @property
    def variance(self):
        return np.asarray(np.inf)


def test_laws_without_a_variance_are_refused():
    with pytest.raises(ConvergenceError, match="overflow"):
        combine([1.0], mechanism=Boundless(scale=1.0))


def test_exact_values_in_small_units_are_constraints():
    # the squares of these coefficients are 0 in floating point
    workload = [[1e-300, 0], [0, 1e-300], [1, 1]]
    fit = combine([2e-300, 3e-300, 5.0], workload=workload, mechanism=[Exact()] * 3)
    np.testing.assert_allclose(fit.params, [2e-300, 3e-300, 5.0, 2.0, 3.0], rtol=1e-12)
    assert not np.any(fit.bse)


def test_exact_values_of_which_rounding_hides_the_rank_are_refused():
    workload = [
        [-1e-80, -1e-80, 0.0, 1e-80],
        [0.0, -1e177, 0.0, 1e177],
        [-1e41, -1e41, 1e41, -1e41],
        [1e124, 0.0, 1e124, 1e124],
    ]
    noise = [Exact(), Laplace(scale=1e-5), Exact(), Exact()]
    with pytest.raises(ConvergenceError, match="no unique solution"):
        combine([-90.0, 80.0, -20.0, -60.0], workload=workload, mechanism=noise)


@pytest.mark.parametrize(
    ("use", "values", "workload", "noise", "target"),
    [
        (attrgetter("bse"), [1.0], None, Laplace(scale=1.0), [[1e200]]),
        (
            methodcaller("consistency_test", "asymptotic"),
            [3e4, 1e4, -1e4],
            [[-1e177] * 4, [0, 1e-69, 0, 1e-69], [-1e136, 0, -1e136, 0]],
            [Laplace(scale=1.0), Exact(), Laplace(scale=1.0)],
            None,
        ),
    ],
)
def test_what_overflows_later_is_refused(use, values, workload, noise, target):
    fit = combine(values, workload=workload, mechanism=noise, target=target)
    with pytest.raises(ConvergenceError, match="overflow"):
        use(fit)


@pytest.mark.parametrize("unit", [1e-200, 1e-12, 1e-9, 1.0, 1e9])
def test_what_is_estimable_does_not_depend_on_units(unit):
    # of the third cell nothing is known, of the others their sum only
    noise = Laplace(scale=1.0)
    fit = combine([1.0], workload=[[unit, unit, 0.0]], mechanism=noise)
    assert len(fit) == 1
    with pytest.raises(NotEstimableError, match="target 0"):
        combine([1.0], workload=[[unit, unit, 0.0]], mechanism=noise, target=[1.0, 0.0, 0.0])
    beside = combine([1.0, 2.0], workload=[[unit, unit, 0], [0, 0, 1]], mechanism=noise)
    assert len(beside) == 2
