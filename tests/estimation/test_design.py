import numpy as np
import pytest
from scipy import sparse

from dpinfer.estimation import design as design_module
from dpinfer.estimation.design import find_design, independent_rows, merge_columns


@pytest.fixture(params=["basic columns", "row space"])
def route(request, monkeypatch):
    """Both ways to find coordinates; the second is for many cells."""
    if request.param == "row space":
        monkeypatch.setattr(design_module, "DENSE_LIMIT", 0)
    return request.param


def as_kind(matrix, route):
    return sparse.csr_array(matrix) if route == "row space" else matrix


def random_matrix(seed):
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-1, 2, (rng.integers(1, 8), rng.integers(1, 8))).astype(float)
    matrix = matrix[:, rng.integers(0, matrix.shape[1], matrix.shape[1])]
    return matrix if matrix.any() else matrix + 1.0


@pytest.mark.thinned("seed", every=2)
@pytest.mark.parametrize("seed", range(60))
def test_rank_null_space_and_coordinates(seed, route):
    matrix = random_matrix(seed)
    design = find_design(as_kind(matrix, route))
    assert design.rank == np.linalg.matrix_rank(matrix)
    if design.null is None:
        assert design.rank == matrix.shape[1]
    else:
        assert np.abs(matrix @ design.null).max() < 1e-10
    # combinations of the rows have coordinates that give them back
    target = np.random.default_rng(seed).normal(size=(3, len(matrix))) @ matrix
    assert design.estimable(target).all()
    coordinates = design.coordinates(as_kind(target, route))
    columns = np.asarray((design.matrix @ np.linalg.pinv(as_array(design.matrix))) @ matrix)
    np.testing.assert_allclose(columns, matrix, atol=1e-9)
    fitted = as_array(coordinates) @ np.linalg.pinv(as_array(design.matrix)) @ matrix
    np.testing.assert_allclose(fitted, target, atol=1e-9)


@pytest.mark.thinned("seed", every=2)
@pytest.mark.parametrize("seed", range(60))
def test_estimable_cells_are_those_in_the_row_space(seed, route):
    matrix = random_matrix(seed)
    projection = np.linalg.pinv(matrix) @ matrix
    expected = np.abs(projection - np.eye(len(projection))).max(axis=0) < 1e-9
    design = find_design(as_kind(matrix, route))
    np.testing.assert_array_equal(design.estimable_cells(), expected)
    np.testing.assert_array_equal(design.estimable(np.eye(len(projection))), expected)


def as_array(matrix):
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_equal_and_zero_columns_are_merged(kind):
    matrix = np.array([[1.0, 0, 1, 0, 2], [0, 0, 0, 0, 1]])
    first, number = merge_columns(kind(matrix))
    np.testing.assert_array_equal(matrix[:, first][:, number[[0, 2, 4]]], matrix[:, [0, 2, 4]])
    np.testing.assert_array_equal(number[[1, 3]], -1)
    assert len(first) == 2


def test_columns_that_are_told_apart_in_one_row_stay_apart():
    matrix = np.random.default_rng(0).integers(0, 2, (20, 1000)).astype(float)
    first, number = merge_columns(matrix)
    assert len(first) == len(np.unique(matrix, axis=1).T)
    np.testing.assert_array_equal(matrix[:, first][:, number], matrix)


def test_many_cells_and_few_queries_are_merged_in_linear_time():
    rows = sparse.csr_array(np.repeat(np.eye(10), 20_000, axis=1))
    design = find_design(rows)
    assert design.rank == 10
    assert design.matrix.shape == (10, 10)
    assert not design.estimable_cells().any()


@pytest.mark.parametrize("seed", range(20))
def test_independent_rows(seed, route):
    matrix = random_matrix(seed)
    rows = independent_rows(as_kind(matrix, route))
    assert len(rows) == np.linalg.matrix_rank(matrix)
    assert np.linalg.matrix_rank(matrix[rows]) == len(rows)


def test_units_of_the_cells_and_rows_do_not_decide():
    rng = np.random.default_rng(4)
    matrix = rng.integers(0, 2, (6, 8)).astype(float)
    units = 10.0 ** rng.uniform(-9, 9, 8)
    scaled = matrix * units * 10.0 ** rng.uniform(-6, 6, (6, 1))
    plain, other = find_design(matrix), find_design(scaled)
    assert plain.rank == other.rank
    np.testing.assert_array_equal(plain.estimable_cells(), other.estimable_cells())


@pytest.mark.thinned("unit", "matrix", every=2)
@pytest.mark.parametrize("unit", [1e-200, 1e-9, 1.0, 1e9, 1e200])
@pytest.mark.parametrize(
    ("matrix", "estimable"),
    [
        ([[1.0, 0, 1]], [False, False, False]),
        ([[1.0, 2, 0]], [False, False, False]),
        ([[1.0, 0, 1], [0, 0, 1]], [True, False, True]),
        ([[1.0, 2, 0], [0, 0, 1]], [False, False, True]),
        ([[1.0, 1, 0, 0], [1, 0, 0, 0]], [True, True, False, False]),
    ],
)
def test_units_of_single_queries_and_cells_do_not_decide(matrix, estimable, unit, route):
    # neither beside cells that nobody asked for, nor beside queries in other units
    if route == "row space":
        unit = np.clip(unit, 1e-9, 1e9)  # sparse factors need moderate numbers
    given = np.array(matrix)
    rows, cells = given.shape
    last_cell, last_row = np.ones(cells), np.ones((rows, 1))
    last_cell[-1] = last_row[-1] = unit
    for scaled in (given * unit, given * last_cell, given * last_row):
        beside = np.zeros((rows + 1, cells + 2))
        beside[:-1, :-2], beside[-1, -2:] = scaled, 1.0
        for workload, expected in ((scaled, estimable), (beside, [*estimable, False, False])):
            design = find_design(as_kind(workload, route))
            assert design.estimable_cells().tolist() == expected


def test_the_same_workload_gives_the_same_coordinates():
    matrix = random_matrix(5)
    one, other = find_design(matrix), find_design(matrix)
    np.testing.assert_array_equal(one.matrix, other.matrix)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_columns_of_one_key_that_differ_are_kept_apart(kind, monkeypatch):
    matrix = np.array([[1.0, 2.0, 1.0], [0.0, 1.0, 0.0]])
    monkeypatch.setattr(
        design_module, "_column_keys", lambda columns: np.zeros(columns.shape[1], dtype=np.uint64)
    )
    first, number = merge_columns(kind(matrix))
    np.testing.assert_array_equal(first, [0, 1, 2])
    np.testing.assert_array_equal(number, [0, 1, 2])


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_columns_without_entries_have_no_number(kind):
    first, number = merge_columns(kind(np.zeros((2, 3))))
    assert not len(first)
    np.testing.assert_array_equal(number, [-1, -1, -1])


@pytest.mark.parametrize("seed", range(10))
def test_independent_rows_of_a_wide_matrix(seed, monkeypatch):
    # few rows of so many columns that they are not formed as a dense matrix
    matrix = random_matrix(seed)
    monkeypatch.setattr(design_module, "DENSE_SIZE", 0)
    rows = independent_rows(sparse.csr_array(matrix))
    assert len(rows) == np.linalg.matrix_rank(matrix) == np.linalg.matrix_rank(matrix[rows])


def test_rows_in_very_small_units_are_independent_too():
    matrix = np.array([[1e-300, 0.0], [0.0, 1e-300], [1.0, 1.0], [2.0, 2.0]])
    for part in (matrix, matrix[:3], matrix[:2], matrix[2:], matrix.T):
        assert len(independent_rows(part)) == np.linalg.matrix_rank(np.sign(part))


@pytest.mark.parametrize("columns", [1, 2])
def test_a_basis_of_all_cells_has_nothing_beside_it(columns):
    rng = np.random.default_rng(1)
    found = design_module._beside(sparse.csr_array(np.eye(2)[:, :columns]), rng)
    if columns == 2:
        assert found is None
    else:
        np.testing.assert_allclose(found[0], 0.0, atol=1e-12)


def test_rank_of_a_sparse_matrix_with_dependent_columns():
    rng = np.random.default_rng(2)
    matrix = rng.integers(0, 2, (60, 40)).astype(float)
    assert design_module._has_full_column_rank(sparse.csr_array(matrix), rng)
    matrix[:, 0] = matrix[:, 1] + matrix[:, 2]
    assert not design_module._has_full_column_rank(sparse.csr_array(matrix), rng)
    assert not design_module._has_full_column_rank(sparse.csr_array(np.ones((3, 2))), rng)


@pytest.mark.parametrize(("growth", "cells", "sweeps"), [(10, 6, 1), (1e3, 6, 100), (10, 12, 100)])
def test_units_that_grow_along_a_chain(growth, cells, sweeps, monkeypatch):
    monkeypatch.setattr(design_module, "_SWEEPS", sweeps)
    # sums of neighbours, and the last cell alone
    matrix = np.eye(cells) + np.eye(cells, k=1)
    scaled = matrix * float(growth) ** np.arange(cells)
    assert find_design(scaled).estimable_cells().all()
    assert not find_design(scaled[:-1]).estimable_cells().any()
