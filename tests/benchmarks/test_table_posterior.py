"""Draws of whole tables: draws and effective draws per second, by sampler and number of cells."""

import numpy as np
import pytest

import dpinfer as dpi

CELLS, SUMS = dpi.DiscreteGaussian(sigma=4.0), dpi.DiscreteGaussian(sigma=3.0)
SHAPES = {6: (2, 3), 42: (2, 3, 7), 200: (10, 20), 2016: (24, 84)}


def release(size, crossing):
    """Cells of a table, and the sums over its first attribute, or over each; the total is exact."""
    rng = np.random.default_rng(size)
    shape = SHAPES[size]
    truth = rng.poisson(rng.gamma(0.5, 19.0, shape))
    number = np.arange(size).reshape(shape)
    rows = [np.eye(size)]
    for axis in range(len(shape) if crossing else 1):
        groups = np.moveaxis(number, axis, 0).reshape(shape[axis], -1)
        rows.append((number.ravel() == groups[:, :, None]).any(axis=1))
    matrix = np.concatenate(rows).astype(np.int64)
    laws = [CELLS] * size + [SUMS] * (len(matrix) - size)
    noise = np.concatenate([law.rvs(1, rng=rng) for law in laws])
    return {
        "values": matrix @ truth.ravel() + noise,
        "workload": dpi.Workload(matrix),
        "mechanism": laws,
        "total": int(truth.sum()),
    }


def drawn(given, draws, chains, engine="numpy"):
    return dpi.table_posterior(**given, draws=draws, chains=chains, engine=engine, rng=1)


@pytest.mark.parametrize("size", [6, 42])
def test_all_tables_hold_their_total(size):
    for crossing in (False, True):
        given = release(size, crossing)
        found = drawn(given, 20, 2)
        assert (found.draws.sum(axis=2) == given["total"]).all()
        assert (found.sampler == "chain") == crossing


@pytest.mark.benchmark(group="tables drawn without a chain, groups and total")
@pytest.mark.parametrize("size", SHAPES)
def test_exact_draws(benchmark, sized, size):
    given = release(size, crossing=False)
    draws = sized(1000)
    found = benchmark(drawn, given, draws, 1)
    seconds = benchmark.stats.stats.min if benchmark.stats else None
    benchmark.extra_info["draws per second"] = draws / seconds if seconds else None
    assert found.sampler == "exact"


@pytest.mark.benchmark(group="tables drawn by chains, crossing sums and total")
@pytest.mark.parametrize("engine", ["numpy", "numba"])
@pytest.mark.parametrize("size", SHAPES)
def test_chains(benchmark, sized, size, engine):
    if engine == "numba":
        pytest.importorskip("numba")
    given = release(size, crossing=True) | {"warmup": sized(250)}
    draws = sized(500)
    drawn(given | {"warmup": 4}, 4, 4, engine)  # compiles
    found = benchmark.pedantic(drawn, args=(given, draws, 4, engine), rounds=1)
    seconds = benchmark.stats.stats.min if benchmark.stats else None
    least = np.nanmin(found.diagnostics()["ess_bulk"])
    benchmark.extra_info["draws per second"] = 4 * draws / seconds if seconds else None
    benchmark.extra_info["least effective draws per second"] = least / seconds if seconds else None
