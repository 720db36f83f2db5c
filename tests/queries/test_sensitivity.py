import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.queries import (
    Domain,
    Workload,
    clipped_mean_sensitivity,
    l1_sensitivity,
    l2_sensitivity,
)
from dpinfer.queries import sensitivity as _columns

SENSITIVITIES = {1: l1_sensitivity, 2: l2_sensitivity}


def by_all_pairs(matrix, order):
    """Largest distance between two columns over all pairs."""
    return max(np.linalg.norm(a - b, order) for a in matrix.T for b in matrix.T)


def random_matrices():
    rng = np.random.default_rng(5)
    for trial in range(200):
        m, n = rng.integers(1, 8, 2)
        matrix = rng.integers(-3, 4, (m, n)) * rng.integers(0, 2, (m, n)).astype(float)
        if trial % 3 == 0:
            matrix = np.abs(matrix)
        if trial % 4 == 0:
            matrix += rng.normal(size=(m, n))
        if trial % 5 == 0:
            matrix[rng.integers(m)] = 7.0  # the same for every cell
        yield matrix


# with DENSE = 0 small sparse matrices take the way of the large ones
@pytest.mark.thinned("dense", "order", "build", every=2)
@pytest.mark.parametrize("dense", [_columns.DENSE, 0])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("build", [np.asarray, sp.csr_array])
def test_against_all_pairs(order, build, dense, monkeypatch):
    monkeypatch.setattr(_columns, "DENSE", dense)
    for matrix in random_matrices():
        sensitivity = SENSITIVITIES[order]
        want = np.linalg.norm(matrix, order, axis=0).max()
        assert sensitivity(build(matrix)) == pytest.approx(want, rel=1e-14)
        want = by_all_pairs(matrix, order)
        assert sensitivity(build(matrix), "replace") == pytest.approx(want, rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("build", [np.asarray, sp.csr_array])
def test_larger_matrices_where_the_bound_is_far_from_attained(order, build):
    prefix = np.tril(np.ones((40, 40)))  # ranges: columns are nested
    rng = np.random.default_rng(6)
    for matrix in (prefix, rng.normal(size=(10, 150)), rng.random((20, 100)) + 1e6):
        want = by_all_pairs(matrix, order)
        assert SENSITIVITIES[order](build(matrix), "replace") == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("dense", [_columns.DENSE, 0])
@pytest.mark.parametrize("order", [1, 2])
def test_marginals(order, dense, monkeypatch):
    monkeypatch.setattr(_columns, "DENSE", dense)
    domain = Domain({"a": range(3), "b": range(4), "c": range(2)})
    workload = Workload.from_marginals(domain, [("a", "b", "c"), ("a",), ("b", "c"), ()])
    dense = workload.matrix.toarray()
    sensitivity = SENSITIVITIES[order]
    assert sensitivity(workload) == 4 ** (1 / order)
    # a replaced record leaves the total alone and moves two cells of each other table
    assert sensitivity(workload, "replace") == pytest.approx(6 ** (1 / order), rel=1e-15)
    assert sensitivity(workload, "replace") == pytest.approx(by_all_pairs(dense, order))


def test_known_values_and_edges():
    assert l1_sensitivity(np.eye(5)) == 1
    assert l1_sensitivity(np.eye(5), "replace") == 2
    assert l2_sensitivity(np.eye(5), "replace") == pytest.approx(2**0.5)
    assert l1_sensitivity(Workload.identity(10**9), "replace") == 2
    for one_cell in ([[3.0]], [[1.0], [2.0]], sp.csr_array([[3.0]])):
        assert l1_sensitivity(one_cell, "replace") == 0
        assert l2_sensitivity(one_cell, "replace") == 0
    assert l1_sensitivity(Workload.identity(1), "replace") == 0
    for matrix in (
        np.zeros((2, 3)),
        sp.csr_array((2, 3)),
        np.ones((2, 3)),
        sp.csr_array(np.ones((2, 3))),
    ):
        assert l1_sensitivity(matrix, "replace") == 0
    assert l1_sensitivity(np.zeros((2, 3))) == 0
    assert l2_sensitivity([[3.0], [4.0]]) == 5


def test_columns_that_repeat_are_looked_at_once():
    rng = np.random.default_rng(7)
    distinct = rng.normal(size=(6, 30))
    matrix = distinct[:, rng.integers(0, 30, 5000)]
    for build in (np.asarray, sp.csr_array):
        assert l1_sensitivity(build(matrix), "replace") == pytest.approx(by_all_pairs(distinct, 1))


@pytest.mark.parametrize("size", [1e-200, 1e200])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("build", [np.asarray, sp.csr_array])
def test_squares_do_not_over_or_underflow(size, order, build):
    matrix = build(np.array([[3.0, 0], [4.0, 0]]) * size)
    want = {1: 7.0, 2: 5.0}[order] * size
    assert SENSITIVITIES[order](matrix) == pytest.approx(want, rel=1e-15)
    assert SENSITIVITIES[order](matrix, "replace") == pytest.approx(want, rel=1e-15)


def test_many_cells_do_not_form_all_pairs():
    domain = Domain({"a": range(60), "b": range(60), "c": range(60)})
    workload = Workload.from_marginals(domain, [domain.attributes, ("a",), ("b", "c"), ()])
    # all 2e10 pairs would take many minutes
    assert l1_sensitivity(workload, "replace") == 6


def test_bad_arguments():
    with pytest.raises(InvalidParameterError, match="neighbours must be one of"):
        l1_sensitivity(np.eye(2), "bounded")
    with pytest.raises(InvalidParameterError, match="NaN"):
        l2_sensitivity([[np.nan]])


def test_clipped_mean():
    assert clipped_mean_sensitivity(-1, 3, n=8) == 0.5
    # brute force: the largest change of a mean of 3 when one record is replaced
    grid = np.linspace(-1, 3, 9)
    changes = [abs(a - b) / 3 for a in grid for b in grid]
    assert clipped_mean_sensitivity(-1, 3, n=3) == pytest.approx(max(changes))


@pytest.mark.parametrize(
    ("lower", "upper", "n", "message"),
    [
        (0, np.inf, 3, "infinite sensitivity"),
        (-np.inf, 0, 3, "clip the records"),
        (1, 1, 3, "upper must be > lower"),
        (2, 1, 3, "upper must be > lower"),
        (0, 1, 0, "n must be >= 1"),
        (0, 1, 2.5, "whole number"),
        (np.nan, 1, 2, "NaN"),
        (-1e308, 1e308, 5, "upper - lower must be at most 1.8e308"),
    ],
)
def test_bad_clipped_means(lower, upper, n, message):
    with pytest.raises(InvalidParameterError, match=message):
        clipped_mean_sensitivity(lower, upper, n)


@settings(derandomize=True, deadline=None)
@given(
    st.one_of(st.floats(), st.none(), st.text(max_size=2)),
    st.one_of(st.floats(), st.complex_numbers()),
    st.one_of(st.integers(), st.floats(), st.booleans()),
)
def test_clipped_mean_gives_a_number_or_one_of_our_errors(lower, upper, n):
    try:
        sensitivity = clipped_mean_sensitivity(lower, upper, n)
    except DPInferError:
        return
    assert sensitivity >= 0


@pytest.mark.parametrize("sensitivity", [l1_sensitivity, l2_sensitivity])
@pytest.mark.parametrize("sparse", [False, True])
def test_sensitivities_at_the_ends_of_the_floats(sensitivity, sparse):
    def of(matrix, neighbours):
        return sensitivity(sp.csr_array(np.array(matrix)) if sparse else matrix, neighbours)

    assert of([[1e308, -1e308]], "add-remove") == pytest.approx(1e308)
    assert of([[5e-324, -5e-324]], "replace") == 1e-323
    for matrix, neighbours in (
        ([[1.7e308], [1.7e308]], "add-remove"),
        ([[1e308, -1e308]], "replace"),
    ):
        with pytest.raises(InvalidParameterError, match="sensitivity of at most"):
            of(matrix, neighbours)
