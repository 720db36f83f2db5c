"""Draws of whole tables: draws and effective draws per second, by sampler and number of cells."""

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.posterior import diagnostics

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


# The 2x2 example of the R package dapper (Eng, Awan, Ju, Rao and Gong 2024, arXiv:2412.14503), and
# its algorithm (Ju, Awan, Gong and Rao 2022, arXiv:2206.00710) in Python.

ADMISSIONS = {
    "values": np.array([110, 131, 47, 110]),
    "mechanism": dpi.DiscreteGaussian(sigma=6.32),
    "total": 400,
}


def by_data_augmentation(sweeps, seed):
    """Tables of 400 records, of which one after the other is drawn anew from shares and accepted.

    Shares are drawn given the table, with a flat prior. A tenth of the sweeps warms up.
    """
    rng, law, total = np.random.default_rng(seed), ADMISSIONS["mechanism"], ADMISSIONS["total"]
    count = np.arange(total + 1)
    log = [law.logpmf(y - count).tolist() for y in ADMISSIONS["values"].tolist()]
    records = rng.integers(4, size=total)
    x = np.bincount(records, minlength=4).tolist()
    records, tables = records.tolist(), []
    for _ in range(sweeps):
        proposed = rng.choice(4, size=total, p=rng.dirichlet(np.array(x) + 1.0)).tolist()
        bars = np.log(rng.random(total)).tolist()
        for i, (new, bar) in enumerate(zip(proposed, bars, strict=True)):
            old = records[i]
            if new == old:
                continue
            gain = log[new][x[new] + 1] - log[new][x[new]] + log[old][x[old] - 1] - log[old][x[old]]
            if bar < gain:
                records[i], x[new], x[old] = new, x[new] + 1, x[old] - 1
        tables.append(x.copy())
    return np.array(tables[sweeps // 10 :])


def admissions(draws):
    return dpi.table_posterior(**ADMISSIONS, draws=draws, rng=1)


def drawn(given, draws, chains, engine="numpy"):
    return dpi.table_posterior(**given, draws=draws, chains=chains, engine=engine, rng=1)


@pytest.mark.parametrize("size", [6, 42])
def test_all_tables_hold_their_total(size):
    for crossing in (False, True):
        given = release(size, crossing)
        found = drawn(given, 20, 2)
        assert (found.draws.sum(axis=2) == given["total"]).all()
        assert (found.sampler == "chain") == crossing


def test_data_augmentation_draws_from_the_same_posterior():
    ours, theirs = admissions(10_000), by_data_augmentation(600, seed=1)
    ess = [diagnostics.ess_bulk(one[None]) for one in theirs.T]
    assert min(ess) > 15
    # means are off by 6 standard errors or more with a chance below 1e-7, were they normal
    error = np.asarray(ours.std) / np.sqrt(ess)
    assert (np.abs(theirs.mean(axis=0) - np.asarray(ours.mean)) < 6.0 * error).all()


@pytest.mark.benchmark(group="effective draws of a 2x2 table")
@pytest.mark.parametrize("way", ["without a chain", "data augmentation"])
def test_effective_draws(benchmark, sized, way):
    draws = sized(10_000)
    if way == "data augmentation":
        found = benchmark.pedantic(by_data_augmentation, args=(draws, 1), rounds=1)[None]
    else:
        found = benchmark(lambda: admissions(draws).draws)
    seconds = benchmark.stats.stats.min if benchmark.stats else None
    least = min(diagnostics.ess_bulk(one) for one in np.moveaxis(found, -1, 0))
    benchmark.extra_info["effective draws per second"] = least / seconds if seconds else None


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
    if engine == "numba":
        drawn(given | {"warmup": 4}, 4, 4, engine)  # compiles
    found = benchmark.pedantic(drawn, args=(given, draws, 4, engine), rounds=1)
    seconds = benchmark.stats.stats.min if benchmark.stats else None
    if seconds is None and size > 1000:  # what each cell tells of its draws takes longer than they
        return
    least = np.nanmin(found.diagnostics()["ess_bulk"])
    benchmark.extra_info["draws per second"] = 4 * draws / seconds if seconds else None
    benchmark.extra_info["least effective draws per second"] = least / seconds if seconds else None
