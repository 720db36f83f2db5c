"""Simulation-based calibration: the rank of the truth among draws is uniform under the prior.

One table of many blocks that share nothing is as good as many tables. Each test fails by accident
with a chance of 1e-8 for each of its statistics.
"""

from __future__ import annotations

from importlib.util import find_spec
from itertools import product

import numpy as np
import pytest
from scipy import linalg, special, stats

import dpinfer as dpi
from dpinfer.priors import (
    DirichletMultinomialPrior,
    HierarchicalPrior,
    NegativeBinomialPrior,
    PoissonPrior,
    TablePrior,
)

DRAWS, BLOCKS = 99, 100
MEAN = np.array([0.5, 3.0, 1.0, 6.0])
TABLE = np.array([4.0, 1.0, 0.5, 2.0, 1.0])
ALPHA = np.array([0.2, 0.7, 1.0, 3.0])
LAW, TOTAL_LAW = dpi.DiscreteGaussian(sigma=1.5), dpi.Geometric(scale=1.0)


def uniform(rank):
    counts = np.bincount(rank // 10, minlength=10)
    expected = rank.size / 10
    assert special.chdtrc(9, (np.square(counts - expected) / expected).sum()) > 1e-8, counts


def ranks(draws, truth, rng):
    """Return the ranks of truths (k,) among draws (99, k), ties broken at random."""
    below, ties = (draws < truth).sum(axis=0), (draws == truth).sum(axis=0)
    return below + rng.integers(0, ties + 1)


def drawn_from(name, rng):
    """Return a prior for all blocks, and a table (BLOCKS, 4) that was drawn from it."""
    shape = BLOCKS, 4
    if name == "Poisson":
        return PoissonPrior(np.tile(MEAN, BLOCKS)), rng.poisson(MEAN, shape)
    if name == "negative binomial":
        prior = NegativeBinomialPrior(np.tile(MEAN, BLOCKS), 3.0)
        return prior, rng.poisson(rng.gamma(1 / 3, 3.0 * MEAN, shape))
    if name == "table":
        return TablePrior(TABLE), rng.choice(5, shape, p=TABLE / TABLE.sum())
    shares = rng.dirichlet(ALPHA, BLOCKS)
    return DirichletMultinomialPrior(np.tile(ALPHA, BLOCKS)), rng.multinomial(9, shares)


def released(kind, x, rng):
    """Return published values of each block, their queries and laws."""
    rows, laws = [np.eye(4)], [LAW] * 4
    if kind != "cells":
        rows, laws = (
            [*rows, np.ones((1, 4))],
            [*laws, TOTAL_LAW if "noisy" in kind else dpi.Exact()],
        )
    if kind == "tree":
        rows, laws = [*rows, [[1, 1, 0, 0], [0, 0, 1, 1]]], [*laws, LAW, TOTAL_LAW]
    if kind == "crossing":
        rows = [*rows[:1], [[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]]]
        laws = [LAW] * 4 + [TOTAL_LAW] * 4
    if kind == "margins":
        rows = [*rows[:1], [[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0]]]
        laws = [LAW] * 4 + [dpi.Exact()] * 3
    matrix = np.concatenate(rows)
    noise = np.stack([law.rvs(len(x), rng=rng) for law in laws], axis=1)
    whole = linalg.block_diag(*[matrix] * len(x))
    return (x @ matrix.T + noise).ravel(), whole, laws * len(x)


def check_ranks(draws, x, rng):
    blocks = draws.reshape(DRAWS, len(x), 4)
    for cell in range(4):
        uniform(ranks(blocks[:, :, cell], x[:, cell], rng))
    if len(np.unique(draws.sum(axis=1))) > 1:
        sums = blocks[:, :, :2].sum(axis=2)
        uniform(ranks(sums, x[:, :2].sum(axis=1), rng))


ZEROS = np.array([False, False, False, True])

# What keeps a prior and a kind of release apart: every prior with every kind is a study.
KINDS = [
    *("cells", "exact total", "noisy total", "tree", "crossing", "margins"),
    *("zeros", "unpublished", "clamped", "rounded"),
]
PRIORS = ["Poisson", "negative binomial", "table", "Dirichlet"]
AT_EVERY_CHANGE = [
    *((name, "cells") for name in ("Poisson", "negative binomial", "table")),
    *((name, "exact total") for name in ("Poisson", "table", "Dirichlet")),
    *(("Poisson", kind) for kind in ("zeros", "rounded", "noisy total", "tree")),
    *(("negative binomial", kind) for kind in ("unpublished", "clamped")),
]
NEEDS_A_CHAIN = ("crossing", "margins")


def changed(kind, values, laws):
    """Return published values as they were changed after the noise was added."""
    if kind == "unpublished":
        return {"values": np.where(values >= 4, values, np.nan), "mechanism": laws, "threshold": 4}
    if kind == "clamped":
        return {"values": dpi.noisy(np.maximum(values, 0), mechanism=laws, clamp=(0, None))}
    if kind == "rounded":
        return {"values": dpi.noisy(5 * np.rint(values / 5), mechanism=laws, rounding=5)}
    return {"values": values, "mechanism": laws}


def drawn_and_true(name, kind, seed, **how):
    """Return draws of all blocks (DRAWS, 400) and the tables that they are compared with."""
    rng = np.random.default_rng(seed)
    prior, x = drawn_from(name, rng)
    if kind == "zeros":
        if name == "Dirichlet":
            x[:, :3] = rng.multinomial(9, rng.dirichlet(ALPHA[:3], BLOCKS))
        x[:, ZEROS] = 0
        how["zeros"] = np.tile(ZEROS, BLOCKS)
    rows = kind if kind in KINDS[:6] else "exact total" if name == "Dirichlet" else "cells"
    if name == "Dirichlet" and rows in ("cells", "noisy total", "crossing"):
        rows = "exact total"
    if name == "Dirichlet" and kind == "rounded":  # a total that is not
        one = DirichletMultinomialPrior(ALPHA)
        found = [
            dpi.table_posterior(
                **changed(kind, row + LAW.rvs(4, rng=rng), LAW),
                total=9,
                prior=one,
                draws=DRAWS,
                rng=rng,
            ).draws[0]
            for row in x
        ]
        return np.concatenate(found, axis=1), x, rng
    values, matrix, laws = released(rows, x, rng)
    if kind in NEEDS_A_CHAIN:
        how |= {"draws": 4, "warmup": 50, "chains": DRAWS, "sampler": "chain"}
    found = dpi.table_posterior(
        **changed(kind, values, laws),
        workload=matrix,
        prior=prior,
        rng=rng,
        **{"draws": DRAWS, "sampler": "exact"} | how,
    )
    return (found.draws[:, -1] if kind in NEEDS_A_CHAIN else found.draws[0]), x, rng


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        case if case in AT_EVERY_CHANGE else pytest.param(*case, marks=pytest.mark.study)
        for case in product(PRIORS, KINDS)
    ],
)
def test_ranks_among_draws_are_uniform(name, kind):
    check_ranks(*drawn_and_true(name, kind, 21))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"), [("Poisson", "crossing"), ("negative binomial", "margins")]
)
def test_ranks_among_the_ends_of_chains_are_uniform(name, kind):
    check_ranks(*drawn_and_true(name, kind, 23))


HIERARCHICAL = ["cells", "exact total", "noisy total", "zeros", "unpublished", "clamped", "rounded"]


@pytest.mark.study
def test_ranks_under_a_hierarchical_prior_are_uniform():
    """400 tables of 12 cells for each kind; of all 2,800, a bias of 6 % of the draws is seen."""
    rng, repeats, chains = np.random.default_rng(24), 400, 19
    engine = "numba" if find_spec("numba") else "numpy"
    places = []
    for kind, _ in product(HIERARCHICAL, range(repeats)):
        m, phi = np.exp(rng.uniform(np.log([0.5, 0.1]), np.log([20.0, 4.0])))
        x = rng.poisson(rng.gamma(1 / phi, phi * m, 12))
        how = {"engine": engine}
        if kind == "zeros":
            x[9:] = 0
            how["zeros"] = np.arange(12) > 8
        values, laws = x + LAW.rvs(12, rng=rng), [LAW] * 12
        if kind.endswith("total"):
            law = TOTAL_LAW if kind == "noisy total" else dpi.Exact()
            values, laws = np.append(values, x.sum() + law.rvs(rng=rng)), [*laws, law]
            how["workload"] = np.vstack([np.eye(12), np.ones(12)])
        found = dpi.table_posterior(
            **changed(kind, values, laws),
            prior=HierarchicalPrior((0.5, 20.0), (0.1, 4.0)),
            draws=4,
            warmup=60,
            chains=chains,
            rng=rng,
            **how,
        )
        last = found.draws[:, -1]
        drawn = [last.sum(axis=1), last[:, 0], *(found.hyper[n][:, -1] for n in found.hyper)]
        true = [x.sum(), x[0], m, phi]
        rank = ranks(np.stack(drawn, axis=1), np.array(true), rng)
        places.append((rank + rng.random(4)) / (chains + 1))
    found = np.array(places).reshape(len(HIERARCHICAL), repeats, 4)
    for number, name in enumerate(("total", "cell", "mean", "dispersion")):
        parts = (*found[:, :, number], found[:, :, number].ravel())
        chances = [stats.kstest(one, "uniform").pvalue for one in parts]
        print(name, *(f"{chance:.3f}" for chance in chances))
        assert min(chances) > 1e-8
