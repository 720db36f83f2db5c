"""Tables on trees beside the dense algebra of each node, in one run.

What is compared: estimates and variances of all cells of all units. The dense way inverts and
multiplies matrices over cells by cells in each node, in the same two passes. Run as a script, it
prints the peak memory that estimates take, as multiples of the published values.
"""

import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from dpinfer.estimation import NoisyMarginal, StructuralZeros, combine_marginals
from dpinfer.mechanisms import DiscreteGaussian, Gaussian
from dpinfer.queries import Domain
from dpinfer.releases.census.geography import (
    NURSING_MINORS,
    PL94_DOMAIN,
    PL94_GROUPINGS,
    PL94_QUERIES,
    kept_shape,
)

SCHEMAS = {63: (63,), 252: (2, 2, 63), 2016: (8, 2, 2, 63)}


def ragged(leaves, rng):
    """A tree of three generations with 25 leaves a parent."""
    parents = max(1, leaves // 25)
    children = 1 + rng.multinomial(leaves - parents, rng.dirichlet(np.full(parents, 0.8)))
    return np.concatenate([[-1], np.zeros(parents, int), 1 + np.repeat(range(parents), children)])


def noise_of(size, dtype, rng):
    """Values of this type around 0."""
    return rng.standard_normal(size) * 30.0 if dtype == "f8" else rng.integers(-90, 90, size, dtype)


def law_of(dtype, sigma):
    return Gaussian(sigma=sigma) if dtype == "f8" else DiscreteGaussian(sigma=sigma)


def census_like(shape, leaves, seed=0, dtype="f8"):
    """A ragged tree and marginals like those a census publishes of it."""
    rng = np.random.default_rng(seed)
    parent = ragged(leaves, rng)
    domain = Domain({f"a{axis}": range(size) for axis, size in enumerate(shape)})
    names = domain.attributes
    kept = [(), *((name,) for name in names)]
    if len(names) > 1:
        kept += [*combinations(names[-3:], 2), names[-3:]]
    if names not in kept:
        kept.append(names)
    marginals = []
    for attributes in kept:
        size = [len(domain.levels[name]) for name in attributes]
        values = noise_of((parent.size, *size), dtype, rng)
        law = law_of(dtype, rng.uniform(1.0, 3.0, parent.size))
        marginals.append(NoisyMarginal(attributes, values, law))
    return parent, domain, marginals


def redistricting(zeros, leaves, dtype="f8"):
    """The queries of the redistricting files with their grouping, and zeros if asked for.

    These are the quarters that units do not have, as nineteen in twenty blocks do not have each of
    the seven, and that there are no minors in nursing facilities.
    """
    rng = np.random.default_rng(1)
    parent = ragged(leaves, rng)
    marginals = []
    for kept in PL94_QUERIES.values():
        values = noise_of((parent.size, *kept_shape(kept)), dtype, rng)
        law = law_of(dtype, rng.uniform(1.0, 3.0, parent.size))
        marginals.append(NoisyMarginal(kept, values, law))
    quarters = PL94_DOMAIN.levels["hhgq"]
    there = rng.random((parent.size, len(quarters))) < 0.05
    there[:, 0] = True
    for unit in range(parent.size - 1, 0, -1):
        there[parent[unit]] |= there[unit]
    known = {
        "none": [],
        "quarters": [
            StructuralZeros({"hhgq": level}, np.flatnonzero(~own))
            for level, own in zip(quarters, there.T, strict=True)
        ],
    }
    known["minors"] = [StructuralZeros(NURSING_MINORS), *known["quarters"]]
    return parent, PL94_DOMAIN, marginals, {"groupings": PL94_GROUPINGS, "zeros": known[zeros]}


def by_dpinfer(parent, domain, marginals, options=None):
    fit = combine_marginals(marginals, parent, domain=domain, **(options or {}))
    names = domain.attributes
    return fit.marginal(names), fit.marginal_variance(names)


def by_dense_algebra(parent, domain, marginals):
    cells = np.arange(domain.size)
    codes = np.unravel_index(cells, domain.shape)
    queries = []
    for one in marginals:
        kept = [domain.attributes.index(name) for name in one.attributes]
        row = np.ravel_multi_index([codes[at] for at in kept], one.values.shape[1:]) if kept else 0
        queries.append((np.arange(one.values[0].size)[:, None] == row) * 1.0)
    grams = [query.T @ query for query in queries]
    size = parent.size
    below, spread = [None] * size, [None] * size
    sums = [np.zeros(domain.size) for _ in range(size)]
    totals = [np.zeros((domain.size, domain.size)) for _ in range(size)]
    for node in reversed(range(size)):
        weights = [1.0 / one.mechanism.sigma[node] ** 2 for one in marginals]
        information = sum(w * gram for w, gram in zip(weights, grams, strict=True))
        score = sum(
            w * (query.T @ one.values[node].ravel())
            for w, query, one in zip(weights, queries, marginals, strict=True)
        )
        if totals[node].any():
            inverse = np.linalg.inv(totals[node])
            information, score = information + inverse, score + inverse @ sums[node]
        spread[node] = np.linalg.inv(information)
        below[node] = spread[node] @ score
        if parent[node] >= 0:
            sums[parent[node]] += below[node]
            totals[parent[node]] += spread[node]
    for node in range(1, size):
        above = parent[node]
        gain = np.linalg.solve(totals[above], spread[node]).T
        below[node] = below[node] + gain @ (below[above] - sums[above])
        spread[node] = spread[node] + gain @ (spread[above] - totals[above]) @ gain.T
    shape = (size, *domain.shape)
    variance = [np.diag(one) for one in spread]
    return np.reshape(below, shape), np.reshape(variance, shape)


WAYS = {"dpinfer": by_dpinfer, "dense algebra": by_dense_algebra}


@pytest.mark.parametrize("shape", [(7,), (2, 2, 5), (3, 2, 2, 4)])
def test_ways_agree(shape):
    problem = census_like(shape, 60)
    estimate, variance = by_dpinfer(*problem)
    expected, expected_variance = by_dense_algebra(*problem)
    np.testing.assert_allclose(estimate, expected, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(variance, expected_variance, rtol=1e-9)


@pytest.mark.benchmark(group="tables of 63 cells, 104 units")
@pytest.mark.parametrize("way", WAYS)
def test_small_tables(benchmark, way):
    benchmark.pedantic(WAYS[way], args=census_like(SCHEMAS[63], 100), rounds=3, warmup_rounds=1)


@pytest.mark.benchmark(group="tables of 252 cells, 104 units")
@pytest.mark.parametrize("way", WAYS)
def test_medium_tables(benchmark, way):
    benchmark.pedantic(WAYS[way], args=census_like(SCHEMAS[252], 100), rounds=3, warmup_rounds=1)


@pytest.mark.study
@pytest.mark.benchmark(group="tables of 2,016 cells, 27 units")
@pytest.mark.parametrize("way", WAYS)
def test_large_tables(benchmark, way):
    benchmark.pedantic(WAYS[way], args=census_like(SCHEMAS[2016], 25), rounds=1)


@pytest.mark.slow
@pytest.mark.benchmark(group="tables, 12 million cells in all")
@pytest.mark.parametrize("cells", SCHEMAS)
def test_many_tables(benchmark, sized, cells):
    problem = census_like(SCHEMAS[cells], sized(12_600_000 // cells))
    benchmark.pedantic(by_dpinfer, args=problem, rounds=3, warmup_rounds=1)


@pytest.mark.slow
@pytest.mark.benchmark(group="tables of 2,016 cells with groupings, 12 million cells in all")
@pytest.mark.parametrize("zeros", ["none", "quarters", "minors"])
def test_redistricting_tables(benchmark, sized, zeros):
    problem = redistricting(zeros, sized(6_000))
    benchmark.pedantic(by_dpinfer, args=problem, rounds=3, warmup_rounds=1)


PEAKS = {"63 i4": 3.8, "minors i4": 3.1}
"""32-bit values and the estimates are three times these values by themselves."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "dtype"),
    [("63", "i4"), ("252", "f8"), ("2016", "i4"), ("quarters", "f8"), ("minors", "i4")],
)
def test_peak_memory(schema, dtype):
    if not Path("/proc/self/status").exists():
        pytest.skip("peak memory is read from /proc")
    command = [sys.executable, __file__, schema, dtype]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert float(found) <= PEAKS.get(f"{schema} {dtype}", 3.0)


def memory(name):
    """A number of bytes that the system keeps of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


def peak(schema, dtype):
    """Peak memory over that of the interpreter, as a multiple of the values."""
    if schema.isdigit():
        problem = census_like(SCHEMAS[int(schema)], 12_600_000 // int(schema), dtype=dtype)
    else:
        problem = redistricting(schema, 6_000, dtype)
    values = sum(one.values.nbytes for one in problem[2])
    before = memory("VmRSS")
    by_dpinfer(*problem)
    return 1.0 + (memory("VmHWM") - before) / values


if __name__ == "__main__":
    print(peak(*sys.argv[1:]))
