"""Estimates and variances of a whole tree beside sparse least squares, in one run.

`lsmr` gives estimates to its tolerance and no variances; the sparse LU factorisation of the normal
equations in the independent parts of the tree gives estimates, and variances by a solve for each.
Half-widths of intervals for all units under Laplace noise, whose errors have no normal law, are
beside a parametric bootstrap of the estimates.
"""

import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import lsmr, splu

from dpinfer.estimation import combine_hierarchy
from dpinfer.estimation._tree.axes import Axes
from dpinfer.estimation._tree.scalar import Gains
from dpinfer.estimation._tree.tables import MeasuredTables, PlacedMarginal, TablePasses
from dpinfer.mechanisms import Gaussian, Laplace
from dpinfer.queries import Hierarchy


def ragged(leaves, seed=0):
    """Parents of a ragged tree, by levels: 25 leaves to a parent on average, then 3, 20 and 60."""
    rng = np.random.default_rng(seed)
    widths = [leaves]
    for children in (25, 3, 20, 60):
        widths.append(max(1, widths[-1] // children))
    parent, first, above = [np.array([-1])], 0, 1
    for width in reversed(widths):
        if width > above:
            counts = 1 + rng.multinomial(width - above, np.full(above, 1.0 / above))
            parent.append(np.repeat(np.arange(first, first + above), counts))
            first, above = first + above, width
    return np.concatenate(parent)


def published(parent, seed=1):
    """Counts that add up, with noise of a variance of its own in every node."""
    rng = np.random.default_rng(seed)
    truth = np.zeros(parent.size)
    leaf = np.ones(parent.size, dtype=bool)
    leaf[parent[1:]] = False
    truth[leaf] = rng.poisson(40, np.count_nonzero(leaf))
    for node in range(parent.size - 1, 0, -1) if parent.size < 10**5 else ():
        truth[parent[node]] += truth[node]
    sigma = rng.uniform(1.0, 5.0, parent.size)
    return truth + sigma * rng.standard_normal(parent.size), sigma


def by_dpinfer(parent, values, sigma):
    fit = combine_hierarchy(values, parent, mechanism=Gaussian(sigma=sigma))
    return fit.params, fit.variance


def incidence(parent):
    """Units as sums of leaves, as a sparse matrix."""
    leaf = np.ones(parent.size, dtype=bool)
    leaf[parent[1:]] = False
    unit, column = np.flatnonzero(leaf), np.arange(np.count_nonzero(leaf))
    rows, columns = [], []
    while unit.size:
        rows.append(unit)
        columns.append(column)
        keep = parent[unit] >= 0
        unit, column = parent[unit[keep]], column[keep]
    rows, columns = np.concatenate(rows), np.concatenate(columns)
    return sparse.csr_array((np.ones(rows.size), (rows, columns)))


def by_lsmr(parent, values, sigma):
    matrix = incidence(parent)
    scaled = sparse.diags_array(1.0 / sigma) @ matrix
    return matrix @ lsmr(scaled, values / sigma, atol=1e-12, btol=1e-12, maxiter=10**4)[0], None


def by_lu(parent, values, sigma):
    """Augmented equations, which stay sparse where the normal equations of the leaves do not."""
    matrix = incidence(parent)
    size = matrix.shape[0] + matrix.shape[1]
    system = sparse.block_array(
        [[sparse.diags_array(sigma**2), matrix], [matrix.T, None]], format="csc"
    )
    right = np.zeros(size)
    right[: values.size] = values
    return matrix @ splu(system).solve(right)[values.size :], None


@pytest.mark.parametrize("peer", [by_lsmr, by_lu])
def test_peers_agree(peer):
    parent = ragged(2000)
    values, sigma = published(parent)
    ours, _ = by_dpinfer(parent, values, sigma)
    theirs, _ = peer(parent, values, sigma)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-5)


@pytest.mark.benchmark(group="tree of 3,000 leaves")
@pytest.mark.parametrize("method", [by_dpinfer, by_lsmr, by_lu])
def test_three_thousand_leaves(benchmark, method):
    parent = ragged(3_000)
    values, sigma = published(parent)
    benchmark.pedantic(method, args=(parent, values, sigma), rounds=1)


@pytest.mark.benchmark(group="growth with the number of leaves")
@pytest.mark.parametrize("leaves", [10**5, 10**6, pytest.param(10**7, marks=pytest.mark.slow)])
def test_growth(benchmark, sized, leaves):
    parent = ragged(sized(leaves))
    hierarchy = Hierarchy(parent)
    values, sigma = published(parent)

    def estimate():
        fit = combine_hierarchy(values, hierarchy, mechanism=Gaussian(sigma=sigma))
        return fit.params, fit.variance

    benchmark.pedantic(estimate, rounds=3)
    benchmark.extra_info["leaves"] = leaves


def as_numbers(tree, variance, values):
    gains = Gains.of(tree, variance)
    return gains.estimates(values), gains.variance


def as_tables(tree, variance, values):
    """The same as tables of one cell."""
    room = np.zeros(len(tree), dtype=bool)
    marginal = PlacedMarginal(0, values.reshape((-1, 1)), None, 1.0 / variance, room)
    measured = MeasuredTables(Axes((), ()), (marginal,))
    passes = TablePasses.of(tree, measured)
    return passes.down(passes.up(measured)).ravel(), passes.gains[0].variance


@pytest.mark.benchmark(group="passes over numbers, and over tables of one cell")
@pytest.mark.parametrize("method", [as_numbers, as_tables])
def test_numbers_are_not_tables_of_one_cell(benchmark, sized, method):
    tree = Hierarchy(ragged(sized(10**6))).tree
    rng = np.random.default_rng(1)
    variance, values = rng.uniform(1.0, 9.0, len(tree)), rng.normal(size=len(tree))
    found = benchmark.pedantic(method, args=(tree, variance, values), rounds=5)
    for one, other in zip(found, as_numbers(tree, variance, values), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def half_widths(parent, values, mechanism=Laplace(scale=2.0)):  # noqa: B008
    """95 % half-widths of all units, by the laws of their errors."""
    fit = combine_hierarchy(values, parent, mechanism=mechanism)
    found = fit.conf_int()
    assert found.method == "exact"
    return (found.upper - found.lower) / 2


def simulated_half_widths(parent, values, reps=1_000):
    """The same as quantiles of simulated errors, some replicates of the two passes at a time."""
    fit = combine_hierarchy(values, parent, mechanism=Laplace(scale=2.0))
    rng = np.random.default_rng(1)
    size = max(1, 10**7 // parent.size)
    blocks = [
        np.abs(fit.simulate_errors(min(size, reps - start), rng=rng))
        for start in range(0, reps, size)
    ]
    return np.quantile(np.concatenate(blocks), 0.95, axis=0)


def test_half_widths_agree():
    """Quantiles of 1,000 replicates err by 3 %, and their mean over 600 units by far less."""
    parent = ragged(500)
    values, _ = published(parent)
    ratio = half_widths(parent, values) / simulated_half_widths(parent, values)
    assert abs(ratio.mean() - 1.0) < 0.03


@pytest.mark.benchmark(group="half-widths of all units of a tree of 10,000 leaves")
@pytest.mark.parametrize("method", [half_widths, simulated_half_widths])
def test_half_widths(benchmark, sized, method):
    parent = ragged(sized(10**4))
    values, _ = published(parent)
    benchmark.pedantic(method, args=(parent, values), rounds=3)


@pytest.mark.benchmark(group="growth of half-widths with the number of leaves")
@pytest.mark.parametrize("leaves", [10**5, pytest.param(10**6, marks=pytest.mark.slow)])
def test_growth_of_half_widths(benchmark, sized, leaves):
    parent = ragged(sized(leaves))
    values, _ = published(parent)
    benchmark.pedantic(half_widths, args=(Hierarchy(parent), values), rounds=1)
    benchmark.extra_info["leaves"] = leaves


MEMORY = """
import sys, tracemalloc
sys.path.insert(0, {here!r})
from test_hierarchy import by_dpinfer, published, ragged
parent = ragged({leaves})
values, sigma = published(parent)
by_dpinfer(*(part[:4] for part in (parent, values, sigma)))  # imports what is needed
tracemalloc.start()  # the peak of the process is that of making the tree
by_dpinfer(parent, values, sigma)
peak = tracemalloc.get_traced_memory()[1]
print(peak / (parent.nbytes + values.nbytes + sigma.nbytes))
"""


@pytest.mark.benchmark(group="memory of a tree beyond its input")
def test_memory(benchmark, sized, request):
    here = str(request.path.parent)

    def measured():
        code = MEMORY.format(here=here, leaves=sized(10**6))
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        return float(run.stdout)

    benchmark.extra_info["times the input"] = benchmark.pedantic(measured, rounds=1)
