"""Exact draws of tables whose rows are nested or disjoint, against all tables by enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import special

import dpinfer as dpi
from dpinfer import Hierarchy, table_posterior
from dpinfer.errors import ConvergenceError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.priors import (
    DirichletMultinomialPrior,
    NegativeBinomialPrior,
    PoissonPrior,
    TablePrior,
)

DRAWS = 40_000
SMALL, SHARP = dpi.DiscreteGaussian(sigma=1.2), dpi.Geometric(scale=0.8)
TREE = Hierarchy([-1, 0, 0, 1, 1, 2, 2])
NODES = np.concatenate([[[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]], np.eye(4, dtype=int)])
VALUES = np.array([8.0, 5.0, 2.0, 3.0, 1.0, -1.0, 2.0])
EXACT = dpi.Exact()
HEAVY = TablePrior(1.0 / np.square(1.0 + np.arange(13)))


def log_density(law, off):
    if law is EXACT:
        return np.where(off == 0, 0.0, -np.inf)
    return law.logpmf(off) if law.is_integer else law.logpdf(off)


def rising(x, size):
    return special.gammaln(x + size) - special.gammaln(x + 1.0)


CASES = {
    "discrete Gaussian": (VALUES, SMALL, None, None),
    "geometric": (VALUES, SHARP, None, None),
    "Laplace": (VALUES + 0.2, dpi.Laplace(scale=0.8), None, None),
    "Gaussian": (VALUES + 0.2, dpi.Gaussian(sigma=1.1), None, None),
    "mixed": (VALUES, [SMALL, SHARP] * 3 + [SMALL], None, None),
    "exact root": (VALUES, [EXACT] + [SMALL] * 6, None, None),
    "exact inner": (VALUES, [SMALL, EXACT] + [SHARP] * 5, None, None),
    "conflict": ([4, 5, 2, 8, 1, 7, 2.0], [EXACT] + [SMALL] * 6, None, None),
    "Poisson": (
        VALUES,
        SHARP,
        PoissonPrior(1.3),
        lambda x: x * np.log(1.3) - special.gammaln(x + 1.0),
    ),
    "negative binomial": (
        VALUES,
        SMALL,
        NegativeBinomialPrior(1.3, 4.0),
        lambda x: x * np.log(5.2 / 6.2) + rising(x, 0.25),
    ),
    "Dirichlet": (
        VALUES,
        [EXACT] + [SHARP] * 6,
        DirichletMultinomialPrior([2.5, 0.2, 0.2, 1.0]),
        lambda x: rising(x, np.array([2.5, 0.2, 0.2, 1.0])),
    ),
    "heavy table": (VALUES, SMALL, HEAVY, lambda x: -2.0 * np.log1p(x)),
}


@pytest.mark.parametrize(("values", "laws", "prior", "log_prior"), CASES.values(), ids=CASES)
def test_draws_have_the_law_that_enumeration_finds(values, laws, prior, log_prior):
    states = np.array(list(itertools.product(range(13), repeat=4)))
    each = laws if isinstance(laws, list) else [laws] * 7
    answers = states @ NODES.T
    log_p = sum(log_density(law, y - s) for law, y, s in zip(each, values, answers.T, strict=True))
    if log_prior is not None:
        log_p = log_p + log_prior(states).sum(axis=1)
    p = np.exp(log_p - special.logsumexp(log_p))
    found = table_posterior(
        values, workload=TREE, mechanism=laws, prior=prior, draws=DRAWS, sampler="exact", rng=11
    )
    assert found.left_out < 1e-12
    agree(found.draws[0], states, p, 13)


def agree(draws, states, p, base):
    """Compare draws with the probabilities of all tables; fails by accident once in 1e9."""
    key = base ** np.arange(states.shape[1])
    expected = np.zeros(base ** states.shape[1])
    expected[states @ key] = len(draws) * p
    counts = np.bincount(draws @ key, minlength=expected.size)
    assert counts[expected == 0].sum() == 0
    held = expected > 20
    pairs = [*zip(counts[held], expected[held], strict=True)]
    pairs += [(counts[~held].sum(), expected[~held].sum())]
    chi2 = sum((n - e) ** 2 / e for n, e in pairs if e > 1)
    assert special.chdtrc(max(len(pairs) - 1, 1), chi2) > 1e-9


def test_means_of_the_worked_examples():
    for sampler in ("exact", "enumeration"):
        found = table_posterior(
            [3, -1, 2, 5],
            mechanism=dpi.DiscreteGaussian(sigma=1.5),
            total=7,
            draws=DRAWS,
            sampler=sampler,
            rng=6,
        )
        error = 6.0 * found.std / np.sqrt(DRAWS) + 5e-5  # beyond once in 1e8
        assert (np.abs(found.mean - [1.8380, 0.2803, 1.1622, 3.7194]) < error).all()
        cells = dpi.DiscreteGaussian(sigma=2.0)
        found = table_posterior(
            [6, 7, np.nan, 13],
            workload=[[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]],
            mechanism=[cells] * 3 + [dpi.DiscreteGaussian(sigma=1.5)],
            threshold=5,
            prior=TablePrior(np.ones(13)),
            draws=DRAWS,
            sampler=sampler,
            rng=6,
        )
        error = 6.0 * found.std / np.sqrt(DRAWS) + 5e-6
        assert (np.abs(found.mean - [5.35985, 6.35740, 1.64396]) < error).all()


def test_values_that_were_clamped_or_not_published():
    law = dpi.DiscreteGaussian(sigma=2.0)
    x = np.array(list(itertools.product(range(22), repeat=2)))
    clamped = dpi.noisy([0, 6], mechanism=law, clamp=(0, None))
    log_p = law.logcdf(0 - x[:, 0]) + law.logpmf(6 - x[:, 1])
    given = {"total": None, "draws": DRAWS, "sampler": "exact", "rng": 3}
    found = table_posterior(clamped, **given)
    agree(found.draws[0], x, np.exp(log_p - special.logsumexp(log_p)), 22)
    log_p = law.logpmf(6 - x[:, 0]) + law.logcdf(4 - x[:, 1])
    found = table_posterior([6, np.nan], mechanism=law, threshold=5, **given)
    agree(found.draws[0], x, np.exp(log_p - special.logsumexp(log_p)), 22)


def test_a_total_that_cells_speak_against():
    # zeros under a flat prior: 2,000 cells alone say 8,000 or so
    rng = np.random.default_rng(12)
    law = dpi.DiscreteGaussian(sigma=5.0)
    for size, total in ((300, 40), (2000, 300)):
        values = law.rvs(size, rng=rng)
        found = table_posterior(values, mechanism=law, total=total, draws=50, rng=1)
        assert found.sampler == "exact"
        assert (found.draws.sum(axis=2) == total).all()
        assert (found.draws >= 0).all()
        assert found.left_out < 1e-12


def test_large_counts():
    rng = np.random.default_rng(13)
    law = dpi.DiscreteGaussian(sigma=3.0)
    truth = np.array([250_000, 100_000, 150_000, 60_000, 40_000, 149_000, 1_000])
    y = truth + law.rvs(7, rng=rng).astype(float)
    found = table_posterior(y, workload=TREE, mechanism=law, draws=DRAWS, rng=14)
    assert found.sampler == "exact"
    # far from zero the posterior is normal up to the lattice, with the variances of least squares
    fit = dpi.combine_hierarchy(y, TREE, mechanism=law)
    std = np.asarray(fit.bse)[3:]
    error = 6.5 * std / np.sqrt(DRAWS)
    assert (np.abs(found.mean - np.asarray(fit.params)[3:]) < error).all()
    assert found.std == pytest.approx(std, rel=6.5 / np.sqrt(2 * DRAWS))


def test_draws_do_not_depend_on_workers_and_samplers_are_chosen():
    joblib = pytest.importorskip("joblib")
    values = np.arange(300.0) % 7
    how = {"mechanism": SMALL, "total": 900, "draws": 1000, "rng": 1}
    one = table_posterior(values, **how)  # in four blocks
    with joblib.parallel_config(backend="threading"):
        assert np.array_equal(one.draws, table_posterior(values, **how, n_jobs=2).draws)
    crossing = {"workload": [[1, 1, 0], [0, 1, 1]], "mechanism": SMALL, "draws": 20}
    listed = table_posterior([3.0, 4.0], **crossing, total=5, rng=1)
    assert listed.sampler == "enumeration"
    few = table_posterior([3.0, 4.0], **crossing, total=5, moves=[[1, -1, 0]], warmup=10, rng=1)
    assert few.sampler == "chain"
    assert "independent" in listed.summary()


@pytest.mark.parametrize(
    ("error", "given", "words"),
    [
        (InvalidParameterError, {"workload": [[1, 1, 0], [0, 1, 1], [1, 0, 0]]}, "overlap"),
        (InvalidParameterError, {"moves": [[1, -1, 0]]}, "moves must be left out"),
        (
            InvalidParameterError,
            {"prior": dpi.priors.HierarchicalPrior((1.0, 9.0))},
            "HierarchicalPrior",
        ),
        (
            InvalidParameterError,
            {"values": np.arange(9), "sampler": "enumeration"},
            "more than 1000000 tables",
        ),
        (ConvergenceError, {"values": [1, 2, 1e7], "mechanism": dpi.Geometric(scale=1e6)}, "wide"),
        (IncompatibleReleaseError, {"total": 3, "zeros": [0, 1, 2]}, "room for"),
    ],
)
def test_what_cannot_be_done_is_refused(error, given, words):
    given = {"values": [3, 1, 2], "mechanism": SMALL, "sampler": "exact"} | given
    with pytest.raises(error, match=words):
        table_posterior(**given)
