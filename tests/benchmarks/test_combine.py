"""The combined estimator beside the general least-squares solvers, in one run.

What is compared: estimates and standard errors of all cells. `lsmr` gives no standard errors.
"""

from itertools import combinations
from math import prod

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import lsmr

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


WAYS = {
    "dpinfer": by_dpinfer,
    "numpy lstsq": by_numpy,
    "statsmodels WLS": by_statsmodels,
    "scipy lsmr": by_lsmr,
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
