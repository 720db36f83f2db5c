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


def test_the_same_workload_gives_the_same_coordinates():
    matrix = random_matrix(5)
    one, other = find_design(matrix), find_design(matrix)
    np.testing.assert_array_equal(one.matrix, other.matrix)
