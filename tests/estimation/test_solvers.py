"""Dense and sparse solvers against multiple-precision arithmetic and against each other."""

import mpmath
import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import linalg
from scipy.sparse.linalg import splu

from dpinfer import Gaussian, combine
from dpinfer.errors import ConvergenceError, InvalidParameterError
from dpinfer.estimation import design as augmented
from dpinfer.estimation import design as solvers
from dpinfer.estimation.design import (
    AugmentedSystem,
    DenseSolver,
    IdentitySolver,
    SparseSolver,
    column_counts,
    find_solver,
)


def reference(matrix, variance, target):
    """Weights and standard errors from the augmented system in 80 digits."""
    m, r = matrix.shape
    with mpmath.workdps(80):
        system = mpmath.zeros(m + r)
        right = mpmath.zeros(m + r, len(target))
        for i in range(m):
            system[i, i] = mpmath.mpf(float(variance[i]))
            for j in range(r):
                system[i, m + j] = system[m + j, i] = mpmath.mpf(float(matrix[i, j]))
        right[m:, :] = mpmath.matrix(target.T.tolist())
        solution = mpmath.inverse(system) * right
        weights = [[solution[i, k] for i in range(m)] for k in range(len(target))]
        errors = [
            mpmath.sqrt(
                sum(w**2 * mpmath.mpf(float(v)) for w, v in zip(row, variance, strict=True))
            )
            for row in weights
        ]
        return np.array(weights, dtype=float), np.array(errors, dtype=float)


def random_problem(rng, low, high, exact):
    r = int(rng.integers(2, 6))
    matrix = np.vstack([np.eye(r), rng.integers(0, 2, (4, r))]).astype(float)
    matrix = matrix[rng.permutation(len(matrix))]
    variance = 10.0 ** rng.uniform(low, high, len(matrix))
    if exact:
        variance[rng.integers(len(matrix))] = 0.0
    return matrix, variance


def make(kind, matrix, variance):
    return kind(sparse.csr_array(matrix) if kind is SparseSolver else matrix, variance)


@pytest.mark.parametrize("kind", [DenseSolver, SparseSolver])
@pytest.mark.parametrize("seed", range(20))
def test_solvers_match_multiple_precision(kind, seed):
    rng = np.random.default_rng(seed)
    matrix, variance = random_problem(rng, -1, 2, exact=seed % 2)
    solver = make(kind, matrix, variance)
    weights, errors = reference(matrix, variance, matrix)
    np.testing.assert_allclose(solver.weights(matrix), weights, atol=1e-12)
    np.testing.assert_allclose(solver.std_errors(matrix), errors, rtol=1e-12, atol=1e-13)
    values = rng.normal(size=len(matrix))
    np.testing.assert_allclose(matrix @ solver.coefficients(values), weights @ values, atol=1e-11)


@pytest.mark.parametrize("seed", range(30))
def test_dense_solver_with_variances_from_1e_minus_6_to_1e18(seed):
    rng = np.random.default_rng(seed)
    matrix, variance = random_problem(rng, -6, 18, exact=seed % 3 == 0)
    solver = DenseSolver(matrix, variance)
    weights, errors = reference(matrix, variance, matrix)
    np.testing.assert_allclose(solver.std_errors(matrix), errors, rtol=1e-13, atol=1e-20)
    # rounding of one in 2⁵² of the largest noise, at most
    off = np.abs(solver.weights(matrix) - weights) @ np.sqrt(variance)
    assert (off <= 1e-14 * (errors + np.sqrt(variance.max()))).all()


def test_sparse_solver_is_right_or_refuses_when_variances_differ_too_much():
    rng = np.random.default_rng(3)
    refused = 0
    for _ in range(30):
        matrix, variance = random_problem(rng, -6, 18, exact=False)
        try:
            errors = make(SparseSolver, matrix, variance).std_errors(matrix)
        except ConvergenceError:
            refused += 1
        else:
            np.testing.assert_allclose(errors, reference(matrix, variance, matrix)[1], rtol=1e-6)
    assert refused < 15


@pytest.mark.parametrize("kind", [DenseSolver, SparseSolver])
def test_many_columns_of_values_at_once(kind):
    rng = np.random.default_rng(1)
    matrix, variance = random_problem(rng, 0, 1, exact=True)
    solver = make(kind, matrix, variance)
    values = rng.normal(size=(len(matrix), 3))
    together = solver.coefficients(values)
    for column in range(3):
        np.testing.assert_allclose(
            together[:, column], solver.coefficients(values[:, column]), atol=1e-12
        )


def test_identity_solver_is_the_general_one_for_an_identity():
    variance = np.array([1.0, 0.0, 4.0])
    target = np.array([[1.0, 1, 1], [0, 2, -1]])
    simple, general = IdentitySolver(variance), DenseSolver(np.eye(3), variance)
    np.testing.assert_array_equal(simple.weights(target), target)
    np.testing.assert_allclose(simple.std_errors(target), general.std_errors(target), rtol=1e-15)


def cells_margins_and_total(levels):
    rows = [sparse.eye_array(levels**2)]
    one, unit = np.ones((1, levels)), sparse.eye_array(levels)
    rows += [sparse.kron(unit, one), sparse.kron(one, unit), np.ones((1, levels**2))]
    return sparse.csr_array(sparse.vstack(rows))


def test_large_sparse_problem_agrees_with_the_dense_one():
    matrix = cells_margins_and_total(20)
    variance = np.random.default_rng(2).uniform(1, 9, matrix.shape[0])
    variance[-1] = 0.0
    values = np.random.default_rng(3).normal(size=matrix.shape[0])
    dense, large = DenseSolver(matrix.toarray(), variance), SparseSolver(matrix, variance)
    np.testing.assert_allclose(
        large.coefficients(values), dense.coefficients(values), rtol=1e-9, atol=1e-11
    )
    target = matrix[[0, 200, 400, -1]]
    np.testing.assert_allclose(
        large.std_errors(target), dense.std_errors(target), rtol=1e-10, atol=1e-12
    )


def test_above_the_limit_the_sparse_solver_is_taken():
    matrix = cells_margins_and_total(50)
    solver = find_solver(matrix, np.ones(matrix.shape[0]))
    assert isinstance(solver, SparseSolver)
    values = matrix @ np.arange(2500.0)
    np.testing.assert_allclose(solver.coefficients(values), np.arange(2500.0), atol=1e-8)


def test_singular_systems_are_refused():
    with pytest.raises(ConvergenceError, match="are singular"):
        AugmentedSystem(sparse.csr_array([[1.0, 1.0], [1.0, 1.0]]), np.zeros(2))


def test_solutions_that_cannot_be_refined_are_refused():
    # two near-constraints that almost repeat each other, and a value 10¹⁵ times noisier
    matrix = sparse.csr_array([[1.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
    system = AugmentedSystem(matrix, np.array([1e-15, 2e-15, 1e15]))
    with pytest.raises(ConvergenceError, match="relative residual"):
        system.solve(np.zeros(3), np.array([1.0, 2.0]))


def test_refinement_that_is_cut_off_is_judged_by_what_it_reached(monkeypatch):
    rng = np.random.default_rng(3)
    matrix, variance = random_problem(rng, -3, 3, exact=False)
    values = matrix @ np.arange(1.0, matrix.shape[1] + 1)
    system = AugmentedSystem(sparse.csr_array(matrix), variance)
    monkeypatch.setattr("dpinfer.estimation.design._REFINEMENTS", 1)
    monkeypatch.setattr("dpinfer.estimation.design._ROUNDING", -1.0)
    found = system.solve(values, np.zeros(matrix.shape[1]))[1]
    np.testing.assert_allclose(found, np.arange(1.0, matrix.shape[1] + 1), rtol=1e-8)


def test_identity_gives_its_values_back():
    solver = IdentitySolver(np.array([1.0, 4.0]))
    np.testing.assert_array_equal(solver.coefficients(np.array([3.0, 5.0])), [3.0, 5.0])
    np.testing.assert_array_equal(solver.std_errors(np.array([[1.0, 2.0]])), [np.sqrt(17.0)])


def random_sums(unknowns, sums, rng):
    """Sums of four unknowns each, drawn at random."""
    at = rng.integers(0, unknowns, 4 * sums)
    shape = (sums, unknowns)
    return sparse.csr_array((np.ones(len(at)), (np.repeat(np.arange(sums), 4), at)), shape=shape)


def test_the_fill_in_of_factors_is_known_before():
    """Elimination with the pattern alone, entry by entry."""
    rng = np.random.default_rng(1)
    for size, density in ((1, 0.0), (40, 0.02), (40, 0.1), (60, 0.04)):
        part = sparse.random_array((size, size), density=density, rng=rng)
        system = sparse.csc_array(part + part.T + sparse.eye_array(size))
        order = rng.permutation(size)
        filled = system[order][:, order].toarray() != 0
        for pivot in range(size):
            below = pivot + 1 + np.flatnonzero(filled[pivot + 1 :, pivot])
            filled[np.ix_(below, below)] = True
        np.testing.assert_array_equal(column_counts(system, order), np.tril(filled).sum(axis=0))


def test_factors_are_as_large_as_predicted(monkeypatch):
    monkeypatch.setattr(augmented, "MOST_WORK", 10.0)  # so that the best order is looked for
    monkeypatch.setattr(augmented, "_HOPELESS", np.inf)
    matrix = sparse.vstack(
        [sparse.eye_array(2000), random_sums(2000, 500, np.random.default_rng(1))], format="csr"
    )
    identity = sparse.eye_array(2500)
    system = sparse.csc_array(sparse.block_array([[identity, matrix], [matrix.T, None]]))
    counts = augmented.predicted_counts(system)
    factors = splu(system, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.1)
    assert counts.sum() == pytest.approx(factors.L.nnz, rel=0.1)


@pytest.mark.parametrize(
    ("unknowns", "sums"), [(20_000, 30_000), pytest.param(12_000, 24_000, marks=pytest.mark.study)]
)
def test_what_would_take_minutes_is_refused_before_it_starts(unknowns, sums, monkeypatch):
    rng = np.random.default_rng(1)
    matrix = random_sums(unknowns, sums, rng)
    monkeypatch.setattr(linalg, "splu", None)
    with pytest.raises(InvalidParameterError, match=r"fill in to about .* numbers .* minutes"):
        combine(rng.normal(size=sums), workload=matrix, mechanism=Gaussian(sigma=1.0))


def test_standard_errors_that_would_take_minutes_are_refused(monkeypatch):
    rng = np.random.default_rng(1)
    sums = random_sums(3000, 500, rng)
    matrix = sparse.vstack([sparse.eye_array(3000), sums], format="csr")
    fit = combine(rng.normal(size=3500), workload=matrix, mechanism=Gaussian(sigma=1.0))
    monkeypatch.setattr(solvers, "_MOST_SOLVING", 1e7)
    with pytest.raises(InvalidParameterError, match="standard errors of all 3500 take a solution"):
        fit.bse  # noqa: B018


def test_more_cells_than_fit_are_refused():
    wide = sparse.csr_array(([1.0, 1.0], ([0, 1], [0, 1])), shape=(2, 2**28))
    with pytest.raises(InvalidParameterError, match=f"at most 16777216 cells .* got {2**28}"):
        combine([1.0, 2.0], workload=wide, mechanism=Gaussian(sigma=1.0))
