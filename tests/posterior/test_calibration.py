"""Simulation-based calibration: the rank of the truth among draws is uniform under the prior.

One table of many blocks that share nothing is as good as many tables. Each test fails by accident
with a chance of 1e-8 for each of its statistics.
"""

from __future__ import annotations

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


EXACT_CASES = [
    *((name, "cells") for name in ("Poisson", "negative binomial", "table")),
    *((name, "exact total") for name in ("Poisson", "table", "Dirichlet")),
    *((name, "noisy total") for name in ("negative binomial",)),
    *((name, "tree") for name in ("negative binomial", "Dirichlet")),
]


@pytest.mark.parametrize(("name", "kind"), EXACT_CASES)
def test_ranks_among_exact_draws_are_uniform(name, kind):
    rng = np.random.default_rng(21)
    prior, x = drawn_from(name, rng)
    values, rows, laws = released(kind, x, rng)
    found = dpi.table_posterior(
        values, workload=rows, mechanism=laws, prior=prior, draws=DRAWS, sampler="exact", rng=rng
    )
    check_ranks(found.draws[0], x, rng)


def test_ranks_of_cells_that_were_clamped_or_not_published_are_uniform():
    rng = np.random.default_rng(22)
    prior, x = drawn_from("negative binomial", rng)
    y = (x + LAW.rvs(x.shape, rng=rng)).ravel()
    listed = np.where(y >= 4, y, np.nan)
    for given in (
        {"values": listed, "mechanism": LAW, "threshold": 4},
        {"values": dpi.noisy(np.maximum(y, 0), mechanism=LAW, clamp=(0, None))},
    ):
        found = dpi.table_posterior(**given, prior=prior, draws=DRAWS, sampler="exact", rng=rng)
        check_ranks(found.draws[0], x, rng)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"),
    [("Poisson", "crossing"), ("negative binomial", "margins"), ("Dirichlet", "exact total")],
)
def test_ranks_among_the_ends_of_chains_are_uniform(name, kind):
    rng = np.random.default_rng(23)
    prior, x = drawn_from(name, rng)
    values, rows, laws = released(kind, x, rng)
    found = dpi.table_posterior(
        values,
        workload=rows,
        mechanism=laws,
        prior=prior,
        draws=4,
        warmup=50,
        chains=DRAWS,
        sampler="chain",
        rng=rng,
    )
    check_ranks(found.draws[:, -1], x, rng)


@pytest.mark.study
def test_ranks_under_a_hierarchical_prior_are_uniform():
    rng = np.random.default_rng(24)
    seen = {"mean": [], "dispersion": [], "total": [], "cell": []}
    for _ in range(30):
        m, phi = np.exp(rng.uniform(np.log([0.5, 0.1]), np.log([20.0, 4.0])))
        x = rng.poisson(rng.gamma(1 / phi, phi * m, 12))
        found = dpi.table_posterior(
            x + LAW.rvs(12, rng=rng),
            mechanism=LAW,
            prior=HierarchicalPrior((0.5, 20.0), (0.1, 4.0)),
            draws=4,
            warmup=40,
            chains=DRAWS,
            rng=rng,
        )
        last = found.draws[:, -1]
        seen["total"].append(ranks(last.sum(axis=1)[:, None], np.array([x.sum()]), rng))
        seen["cell"].append(ranks(last[:, :1], x[:1], rng))
        for name, truth in (("mean", m), ("dispersion", phi)):
            seen[name].append(ranks(found.hyper[name][:, -1:], np.array([truth]), rng))
    for one in seen.values():
        place = (np.concatenate(one) + rng.random(30)) / (DRAWS + 1)
        assert stats.kstest(place, "uniform").pvalue > 1e-8
