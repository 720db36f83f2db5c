"""Dense and sparse solvers against multiple-precision arithmetic and against each other."""

import mpmath
import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import linalg
from scipy.sparse.linalg import splu

from dpinfer import Exact, Gaussian, combine
from dpinfer.errors import ConvergenceError, InvalidParameterError
from dpinfer.estimation import _factors as augmented
from dpinfer.estimation import design as solvers
from dpinfer.estimation._factors import (
    AugmentedSystem,
    DefiniteFactors,
    SelectedInverse,
    column_counts,
)
from dpinfer.estimation.design import (
    AugmentedSolver,
    DenseSolver,
    IdentitySolver,
    SparseSolver,
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
    return kind(matrix if kind is DenseSolver else sparse.csr_array(matrix), variance)


@pytest.mark.thinned("kind", "seed", every=3)
@pytest.mark.parametrize("kind", [DenseSolver, SparseSolver, AugmentedSolver])
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


@pytest.mark.thinned("seed", every=2)
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


@pytest.mark.parametrize("kind", [DenseSolver, SparseSolver, AugmentedSolver])
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
    monkeypatch.setattr("dpinfer.estimation._factors._REFINEMENTS", 1)
    monkeypatch.setattr("dpinfer.estimation._factors._ROUNDING", -1.0)
    found = system.solve(values, np.zeros(matrix.shape[1]))[1]
    np.testing.assert_allclose(found, np.arange(1.0, matrix.shape[1] + 1), rtol=1e-8)


def test_identity_gives_its_values_back():
    solver = IdentitySolver(np.array([1.0, 4.0]))
    np.testing.assert_array_equal(solver.coefficients(np.array([3.0, 5.0])), [3.0, 5.0])
    np.testing.assert_array_equal(solver.std_errors(np.array([[1.0, 2.0]])), [np.sqrt(17.0)])


def band(size, alone):
    """Sums of five neighbours, and each cell alone if so."""
    sums = sparse.diags_array(
        [np.ones(size)] * 5, offsets=[-at for at in range(5)], shape=(size + 4, size)
    )
    return sparse.csr_array(sparse.vstack([sparse.eye_array(size), sums]) if alone else sums)


def beside_cells(sums):
    return sparse.csr_array(sparse.vstack([sparse.eye_array(sums.shape[1]), sums]))


def scattered(matrix, rng):
    """The same queries and cells in random orders."""
    rows, columns = (rng.permutation(size) for size in matrix.shape)
    return sparse.csr_array(matrix[rows][:, columns])


MIDDLING = {
    "band": lambda rng: band(300, True),
    "band alone": lambda rng: band(200, False),
    "scattered band": lambda rng: scattered(band(300, True), rng),
    "scattered band alone": lambda rng: scattered(band(200, False), rng),
    "few sums": lambda rng: beside_cells(random_sums(300, 60, rng)),
    "many sums": lambda rng: beside_cells(random_sums(300, 400, rng)),
    "margins": lambda rng: cells_margins_and_total(18),
}


@pytest.mark.thinned("spread", "name", every=2)
@pytest.mark.parametrize("spread", [0, 1, 3])
@pytest.mark.parametrize("name", [*MIDDLING, "few sums as many", "many sums as more"])
def test_normal_equations_agree_with_orthogonal_factors(name, spread, monkeypatch):
    if " as " in name:  # the ways of larger problems
        name = name.split(" as ")[0]
        monkeypatch.setattr("dpinfer.estimation._gram._EASY", 0.0)
        monkeypatch.setattr(augmented, "_SURELY_SMALL", 0.0)
    rng = np.random.default_rng(1)
    matrix = MIDDLING[name](rng)
    rows, cells = matrix.shape
    std = 10.0 ** rng.uniform(-spread, spread, rows)
    values = matrix @ rng.integers(0, 9, cells) + std * rng.normal(size=rows)
    fit = combine(values, workload=matrix, mechanism=Gaussian(sigma=std))
    assert fit.rank == cells
    exact = DenseSolver(matrix.toarray(), std**2)
    wanted = fit.targets.matrix
    size = np.abs(values).max() + std.max()
    np.testing.assert_allclose(
        fit.params, wanted @ exact.coefficients(values), atol=1e-11 * size, rtol=1e-9
    )
    np.testing.assert_allclose(fit.bse, exact.std_errors(wanted), rtol=1e-9)
    several = sparse.csr_array(rng.normal(size=(3, rows)) @ matrix)
    few = combine(values, workload=matrix, mechanism=Gaussian(sigma=std), target=several)
    np.testing.assert_allclose(few.bse, exact.std_errors(several), rtol=1e-9)
    off = np.abs(few.weights - exact.weights(several)) @ std
    assert (off <= 1e-10 * few.bse + 1e-11 * std.max()).all()  # small weights are dropped


@pytest.mark.thinned("seed", every=2)
@pytest.mark.parametrize("seed", range(30))
def test_precisions_from_1e_minus_12_to_1e12(seed):
    rng = np.random.default_rng(seed)
    matrix, variance = random_problem(rng, -12, 12, exact=seed % 3 == 0)
    solver = make(SparseSolver, matrix, variance)
    weights, errors = reference(matrix, variance, matrix)
    np.testing.assert_allclose(solver.std_errors(matrix), errors, rtol=1e-9, atol=1e-20)
    off = np.abs(solver.weights(matrix) - weights) @ np.sqrt(variance)
    assert (off <= 1e-13 * (errors + np.sqrt(variance.max()))).all()


def test_values_that_contradict_one_another_are_combined_as_well():
    # what is left over beside the cells' own values is not noise
    matrix = beside_cells(random_sums(300, 200, np.random.default_rng(2)))
    values = 10.0 ** np.random.default_rng(3).uniform(-3, 12, len(matrix.toarray()))
    fit = combine(values, workload=matrix, mechanism=Gaussian(sigma=1.0))
    expected = DenseSolver(matrix.toarray(), np.ones(len(values))).coefficients(values)
    np.testing.assert_allclose(np.asarray(fit.params)[:300], expected, atol=1e-12 * values.max())


@pytest.mark.parametrize("name", ["band", "many sums", "band alone"])
def test_equal_and_unmeasured_cells_beside_sparse_sums(name):
    rng = np.random.default_rng(1)
    plain = MIDDLING[name](rng)
    rows, cells = plain.shape
    # a cell twice, and one that nobody asks for
    matrix = sparse.csr_array(sparse.hstack([plain, plain[:, [7]], np.zeros((rows, 1))]))
    values = rng.normal(size=rows)
    fit = combine(values, workload=matrix, mechanism=Gaussian(sigma=1.0), target=matrix)
    expected = combine(values, workload=plain, mechanism=Gaussian(sigma=1.0), target=plain)
    assert fit.rank == cells
    np.testing.assert_allclose(fit.params, expected.params, atol=1e-10)
    np.testing.assert_allclose(fit.bse, expected.bse, rtol=1e-9)


def test_exact_sums_of_many_cells(monkeypatch):
    monkeypatch.setattr(solvers, "DENSE_LIMIT", 100)
    matrix = beside_cells(random_sums(300, 20, np.random.default_rng(4)))
    variance = np.r_[np.ones(300), np.zeros(20)]
    values = matrix @ np.arange(300.0)
    values[:300] += np.random.default_rng(5).normal(size=300)
    laws = [*[Gaussian(sigma=1.0)] * 300, *[Exact()] * 20]
    fit = combine(values, workload=matrix, mechanism=laws, target=matrix)
    exact = DenseSolver(matrix.toarray(), variance)
    np.testing.assert_allclose(fit.params, matrix @ exact.coefficients(values), rtol=1e-11)
    np.testing.assert_allclose(fit.bse, exact.std_errors(matrix), rtol=1e-11, atol=1e-12)


def pattern(size, density, rng):
    part = sparse.random_array((size, size), density=density, rng=rng)
    return sparse.csr_array(part @ part.T + sparse.eye_array(size))


@pytest.mark.parametrize("seed", range(20))
def test_selected_entries_are_those_of_the_inverse(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 80))
    system = pattern(size, rng.uniform(0.005, 0.2), rng)
    lower, place = DefiniteFactors(system).lower()
    np.testing.assert_allclose(
        (lower @ lower.T).toarray()[np.ix_(place, place)], system.toarray(), atol=1e-12
    )
    inverse = np.linalg.inv(system.toarray())
    pairs = sparse.csr_array(system != 0).tocoo()
    at = np.arange(pairs.nnz)
    target = np.zeros((pairs.nnz, size))
    target[at, place[pairs.row]] += 1.0
    target[at, place[pairs.col]] += 2.0
    found = SelectedInverse(lower).forms(sparse.csr_array(target))
    expected = inverse[pairs.row, pairs.row] + 4.0 * (
        inverse[pairs.row, pairs.col] + inverse[pairs.col, pairs.col]
    )
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_entries_of_a_factor_that_cancel_are_no_gaps():
    # elimination of the first unknown makes the entry of the next two exactly zero
    system = np.eye(5)
    system[0, 1] = system[1, 0] = system[0, 2] = system[2, 0] = 0.5
    system[1, 2] = system[2, 1] = 0.25
    system[2, 3] = system[3, 2] = system[1, 4] = system[4, 1] = 0.25
    lower = sparse.csc_array(np.linalg.cholesky(system))
    assert lower[2, 1] == 0.0
    lower.eliminate_zeros()
    target = np.array([[1.0, 1, 1, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 1, 0, 0, 1]])
    found = SelectedInverse(lower).forms(sparse.csr_array(target))
    expected = np.einsum("ij,jk,ik->i", target, np.linalg.inv(system), target)
    known = ~np.isnan(found)
    assert known[[0, 2, 3]].all()
    np.testing.assert_allclose(found[known], expected[known], rtol=1e-14)


@pytest.mark.parametrize("order", [slice(None), [0, 60, *range(1, 60)]])
def test_matrices_that_are_not_definite_are_refused(order):
    system = sparse.eye_array(61) + 0.6 * (sparse.eye_array(61, k=1) + sparse.eye_array(61, k=-1))
    with pytest.raises(ConvergenceError, match="not positive definite"):
        DefiniteFactors(system.tocsr()[order][:, order]).lower()


def test_factors_are_the_same_when_they_are_asked_for_again():
    sums = random_sums(300, 400, np.random.default_rng(3))
    system = sparse.csr_array(sums.T @ sums + sparse.eye_array(300))
    factors = DefiniteFactors(system)
    first, (lower, place) = factors.lower(), factors.lower()
    assert (first[0] != lower).nnz == 0
    np.testing.assert_array_equal(first[1], place)
    product = (lower @ lower.T).toarray()[np.ix_(place, place)]
    np.testing.assert_allclose(product, system.toarray(), rtol=1e-12, atol=1e-12)


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
    pairs = sparse.eye_array(3000, k=1, format="csr") + sparse.eye_array(3000, format="csr")
    law = Gaussian(sigma=1.0)
    fit = combine(rng.normal(size=3500), workload=matrix, mechanism=law, target=pairs)
    monkeypatch.setattr(solvers, "_MOST_SOLVING", 1e7)
    with pytest.raises(InvalidParameterError, match="standard errors of all 2995 take a solution"):
        fit.bse  # noqa: B018


def test_standard_errors_of_all_are_refused_where_factors_take_too_long(monkeypatch):
    rng = np.random.default_rng(1)
    matrix = beside_cells(random_sums(1300, 1900, rng))
    values, law = rng.normal(size=3200), Gaussian(sigma=1.0)
    direct = combine(values, workload=matrix, mechanism=law, target=matrix[2000:2003])
    expected = np.array(direct.params), np.array(direct.bse)
    monkeypatch.setattr(augmented, "MOST_WORK", 1e4)
    fit = combine(values, workload=matrix, mechanism=law)
    monkeypatch.setattr(solvers, "_MOST_SOLVING", 1e9)
    message = r"errors of all 3200 take factors of .* GB\), about .* or a solution each .* seconds"
    with pytest.raises(InvalidParameterError, match=message):
        fit.bse  # noqa: B018
    few = combine(values, workload=matrix, mechanism=law, target=matrix[2000:2003])
    np.testing.assert_allclose(few.params, expected[0], atol=1e-12)
    np.testing.assert_allclose(few.bse, expected[1], rtol=1e-11)
    assert "lsmr" not in few.summary(method="asymptotic")


def test_estimates_by_iteration_say_so(monkeypatch):
    rng = np.random.default_rng(1)
    matrix = beside_cells(random_sums(1300, 1900, rng))
    law = Gaussian(sigma=np.r_[np.full(1300, 30.0), np.ones(1900)])
    values = rng.normal(size=3200)
    direct = combine(values, workload=matrix, mechanism=law)
    monkeypatch.setattr(augmented, "MOST_WORK", 1e4)
    fit = combine(values, workload=matrix, mechanism=law)
    np.testing.assert_allclose(fit.params, direct.params, atol=1e-8)
    with pytest.raises(InvalidParameterError, match="must be left out: they take factors of"):
        fit.bse  # noqa: B018
    assert "iteration (lsmr, tolerance 1e-13), to " in str(fit._shown().facts)
    drawn = fit.simulate_errors(2, rng=1)
    np.testing.assert_allclose(drawn, direct.simulate_errors(2, rng=1), atol=1e-6)


def test_iteration_that_is_not_accurate_is_refused(monkeypatch):
    rng = np.random.default_rng(1)
    matrix = beside_cells(random_sums(1300, 1900, rng))
    monkeypatch.setattr(augmented, "MOST_WORK", 1e4)
    law = Gaussian(sigma=np.r_[np.full(1300, 1e7), np.ones(1900)])
    with pytest.raises(ConvergenceError, match=r"relative error of .* only, 1e-06 is required"):
        combine(rng.normal(size=3200), workload=matrix, mechanism=law)


def test_targets_that_share_too_many_pairs_are_solved_for(monkeypatch):
    monkeypatch.setattr("dpinfer.estimation._factors._PAIRS", 500)
    matrix = band(300, True)
    fit = combine(np.zeros(604), workload=matrix, mechanism=Gaussian(sigma=1.0))
    expected = DenseSolver(matrix.toarray(), np.ones(604)).std_errors(matrix)
    np.testing.assert_allclose(fit.bse, expected, rtol=1e-12)


def test_cells_with_one_total_of_all():
    # 46,341² entries of a Gram matrix are more than a 32-bit number counts
    cells = 46_341
    matrix = sparse.vstack([sparse.eye_array(cells), sparse.csr_array(np.ones((1, cells)))])
    values = np.random.default_rng(1).normal(size=cells + 1)
    fit = combine(values, workload=matrix, mechanism=Gaussian(sigma=1.0))
    gap = (values[-1] - values[:-1].sum()) / (cells + 1)
    np.testing.assert_allclose(fit.params[:-1], values[:-1] + gap, atol=1e-12)


def test_more_cells_than_fit_are_refused():
    wide = sparse.csr_array(([1.0, 1.0], ([0, 1], [0, 1])), shape=(2, 2**28))
    with pytest.raises(InvalidParameterError, match=f"at most 16777216 cells .* got {2**28}"):
        combine([1.0, 2.0], workload=wide, mechanism=Gaussian(sigma=1.0))
