"""The combined estimator beside the general least-squares solvers, in one run.

What is compared: estimates and standard errors of all cells. `lsmr` gives no standard errors.
"""

from itertools import combinations
from math import prod

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import lsmr, splu

from dpinfer.estimation import combine
from dpinfer.intervals import count_confint
from dpinfer.mechanisms import Geometric, Laplace
from dpinfer.queries import Domain, Workload


def cells_margins_and_total(levels):
    """All cells of a square table, its margins and its total, each with its own noise."""
    one, unit = np.ones((1, levels)), sparse.eye_array(levels)
    rows = [sparse.eye_array(levels**2), sparse.kron(unit, one), sparse.kron(one, unit)]
    matrix = sparse.csr_array(sparse.vstack([*rows, np.ones((1, levels**2))]))
    rng = np.random.default_rng(0)
    scale = rng.uniform(1, 4, matrix.shape[0])
    values = matrix @ rng.poisson(5, levels**2) + rng.laplace(0, scale)
    return values, matrix, scale


def all_margins(sizes):
    """All margins of a table, each with its own noise."""
    domain = Domain({f"a{axis}": range(size) for axis, size in enumerate(sizes)})
    names = domain.attributes
    kept = [one for size in range(len(names) + 1) for one in combinations(names, size)]
    workload = Workload.from_marginals(domain, kept)
    rng = np.random.default_rng(0)
    rows = [prod(len(domain.levels[name]) for name in one) for one in kept]
    scale = np.repeat(rng.uniform(1, 4, len(kept)), rows)
    values = workload.answer(rng.poisson(5, domain.size)) + rng.laplace(0, scale)
    return values, workload, scale


def nodes_of_a_tree(cells):
    """The nodes of a binary tree, with Gaussian noise of a known covariance."""
    matrix = Workload.tree(cells).matrix.toarray()
    rng = np.random.default_rng(0)
    root = np.tril(rng.normal(size=(len(matrix), len(matrix)))) / np.sqrt(len(matrix))
    root += np.eye(len(matrix))
    values = matrix @ rng.poisson(5, cells) + root @ rng.normal(size=len(matrix))
    return values, matrix, root @ root.T


def cells_and_neighbours(cells):
    """Cells in a row and all sums of five neighbours, each with its own noise."""
    sums = sparse.diags_array(
        [np.ones(cells)] * 5, offsets=range(5), shape=(cells - 4, cells), format="csr"
    )
    return beside_cells(sums)


def cells_and_sums(cells, sums):
    """Cells and sums of four of them, drawn at random, each with its own noise."""
    at = np.random.default_rng(1).integers(0, cells, 4 * sums)
    rows = np.repeat(np.arange(sums), 4)
    return beside_cells(sparse.csr_array((np.ones(4 * sums), (rows, at)), shape=(sums, cells)))


def beside_cells(sums):
    matrix = sparse.csr_array(sparse.vstack([sparse.eye_array(sums.shape[1]), sums]))
    rng = np.random.default_rng(0)
    scale = rng.uniform(1, 4, matrix.shape[0])
    values = matrix @ rng.poisson(5, matrix.shape[1]) + rng.laplace(0, scale)
    return values, matrix, scale


def by_dpinfer(values, matrix, scale):
    cells = sparse.eye_array(matrix.shape[1], format="csr")
    fit = combine(values, workload=matrix, mechanism=Laplace(scale=scale), target=cells)
    return fit.params, fit.bse


def by_numpy(values, matrix, scale):
    std = np.sqrt(2) * scale
    scaled = matrix.toarray() / std[:, None]
    estimate = np.linalg.lstsq(scaled, values / std, rcond=None)[0]
    return estimate, np.sqrt(np.diag(np.linalg.inv(scaled.T @ scaled)))


def by_statsmodels(values, matrix, scale):
    from statsmodels.api import WLS

    fit = WLS(values, matrix.toarray(), weights=1 / (2 * scale**2)).fit()
    return fit.params, np.sqrt(np.diag(fit.normalized_cov_params))


def by_lsmr(values, matrix, scale):
    std = np.sqrt(2) * scale
    scaled = sparse.diags_array(1 / std) @ matrix
    return lsmr(scaled, values / std, atol=1e-12, btol=1e-12)[0], None


def by_lu(values, matrix, scale):
    scaled = sparse.diags_array(1 / (np.sqrt(2) * scale)) @ matrix
    settings = {"permc_spec": "MMD_AT_PLUS_A", "options": {"SymmetricMode": True}}
    factors = splu((scaled.T @ scaled).tocsc(), diag_pivot_thresh=0.0, **settings)
    return factors.solve(scaled.T @ (values / (np.sqrt(2) * scale))), None


WAYS = {
    "dpinfer": by_dpinfer,
    "numpy lstsq": by_numpy,
    "statsmodels WLS": by_statsmodels,
    "scipy lsmr": by_lsmr,
    "scipy splu": by_lu,
}


@pytest.mark.parametrize("way", WAYS)
def test_ways_agree(way):
    problem = cells_margins_and_total(8)
    estimate, errors = WAYS[way](*problem)
    expected, expected_errors = by_dpinfer(*problem)
    np.testing.assert_allclose(estimate, expected, rtol=1e-7, atol=1e-7)
    if errors is not None:
        np.testing.assert_allclose(errors, expected_errors, rtol=1e-9)


@pytest.mark.benchmark(group="combine 400 cells")
@pytest.mark.parametrize("way", WAYS)
def test_dense_problem(benchmark, way):
    benchmark.pedantic(WAYS[way], args=cells_margins_and_total(20), rounds=3, warmup_rounds=1)


@pytest.mark.benchmark(group="combine 10,000 cells, estimates only")
@pytest.mark.parametrize("way", ["dpinfer", "scipy lsmr"])
def test_sparse_problem(benchmark, way):
    values, matrix, scale = cells_margins_and_total(100)

    def estimates():
        if way == "scipy lsmr":
            return by_lsmr(values, matrix, scale)[0]
        return combine(values, workload=matrix, mechanism=Laplace(scale=scale)).params

    benchmark.pedantic(estimates, rounds=3, warmup_rounds=1)


SPARSE = {
    "10 cells and neighbours": lambda: cells_and_neighbours(10),
    "1,000 cells and neighbours": lambda: cells_and_neighbours(1_000),
    "10,000 cells and neighbours": lambda: cells_and_neighbours(10_000),
    "100,000 cells and neighbours": lambda: cells_and_neighbours(100_000),
    "2,000 cells and 500 sums": lambda: cells_and_sums(2_000, 500),
    "20,000 cells and 5,000 sums": lambda: cells_and_sums(20_000, 5_000),
}


@pytest.mark.parametrize("way", ["dpinfer", "dpinfer with standard errors", "lsmr", "splu"])
@pytest.mark.parametrize("name", SPARSE)
def test_sparse_problems(benchmark, name, way):
    benchmark.group = f"combine {name}"
    if not benchmark.enabled:
        name = next(iter(SPARSE))
    values, matrix, scale = SPARSE[name]()

    def estimates():
        if not way.startswith("dpinfer"):
            return WAYS[f"scipy {way}"](values, matrix, scale)[0]
        fit = combine(values, workload=matrix, mechanism=Laplace(scale=scale))
        return fit.params if way == "dpinfer" else (fit.params, fit.bse)

    benchmark.pedantic(estimates, rounds=3, warmup_rounds=1)


@pytest.mark.benchmark(group="combine all margins of 90,000 cells")
@pytest.mark.parametrize("way", ["dpinfer", "dpinfer with standard errors", "scipy lsmr"])
def test_margins(benchmark, way):
    values, workload, scale = all_margins((100, 90, 10) if benchmark.enabled else (5, 4, 3))

    def estimates():
        if way == "scipy lsmr":
            return by_lsmr(values, workload.matrix, scale)[0]
        fit = combine(values, workload=workload, mechanism=Laplace(scale=scale))
        return fit.params if way == "dpinfer" else (fit.params, fit.bse)

    benchmark.pedantic(estimates, rounds=3, warmup_rounds=1)


@pytest.mark.benchmark(group="intervals for 1,000,000 counts")
@pytest.mark.parametrize("law", [Laplace(scale=2.0), Geometric(scale=2.0)], ids=repr)
def test_count_intervals(benchmark, sized, law):
    benchmark(count_confint, np.zeros(sized(1_000_000)), mechanism=law)
