"""Many small linear systems at once, beside LAPACK one by one."""

import numpy as np
import pytest

from dpinfer.hypothesis_tests.tables._elimination import solve_loaded


@pytest.mark.parametrize("loads", [1, 2, 5, 9])
@pytest.mark.parametrize("size", [1, 2, 5, 30])
def test_solutions(loads, size):
    rng = np.random.default_rng(size)
    diagonal, right = rng.uniform(0.1, 10.0, (size, 7)), rng.normal(size=(size, 7))
    factor, vectors = rng.uniform(0.0, 3.0, (loads, 7)), rng.normal(size=(loads, size, 7))
    factor[0, :3] = 0.0
    given = [x.copy() for x in (diagonal, factor, vectors, right)]
    solved = solve_loaded(diagonal, factor, vectors, right)
    for m in range(7):
        part = vectors[..., m]
        matrix = np.diag(diagonal[:, m]) + part.T @ (factor[:, m, np.newaxis] * part)
        np.testing.assert_allclose(solved[:, m], np.linalg.solve(matrix, right[:, m]), atol=1e-11)
    for before, after in zip(given, (diagonal, factor, vectors, right), strict=True):
        np.testing.assert_array_equal(before, after)


def test_solutions_are_finite_where_the_diagonal_is_lost_in_rounding():
    diagonal, loads = np.full((3, 1), 1e-24), np.ones((4, 3, 1))
    solved = solve_loaded(diagonal, np.ones((4, 1)), loads, np.full((3, 1), 12.0))
    assert np.isfinite(solved).all()
    np.testing.assert_allclose(solved.sum(axis=0), 3.0, rtol=1e-12)
