"""Exact draws of tables whose rows are nested or disjoint, against all tables by enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import special

import dpinfer as dpi
from dpinfer.errors import IncompatibleReleaseError
from dpinfer.posterior._model import Arguments, table_model
from dpinfer.posterior._trees import exact_draws, structure_of
from dpinfer.queries import Hierarchy

DRAWS = 40_000
SMALL, SHARP = dpi.DiscreteGaussian(sigma=1.2), dpi.Geometric(scale=0.8)
TREE = Hierarchy([-1, 0, 0, 1, 1, 2, 2])
VALUES = np.array([8.0, 5.0, 2.0, 3.0, 1.0, -1.0, 2.0])
EXACT = dpi.Exact()


def poisson(x, cells):
    return x * np.log(1.3) - special.gammaln(x + 1.0)


def dirichlet(x, cells):
    return special.gammaln(x + 2.5) - special.gammaln(x + 1.0)


CASES = {
    "tree, discrete Gaussian": ((VALUES, TREE, SMALL), 12, "tree", None),
    "tree, geometric": ((VALUES, TREE, SHARP), 12, "tree", None),
    "tree, Laplace": ((VALUES + 0.2, TREE, dpi.Laplace(scale=0.8)), 12, "tree", None),
    "tree, Gaussian": ((VALUES + 0.2, TREE, dpi.Gaussian(sigma=1.1)), 12, "tree", None),
    "tree, mixed": ((VALUES, TREE, [SMALL, SHARP] * 3 + [SMALL]), 12, "tree", None),
    "tree, exact root": ((VALUES, TREE, [EXACT] + [SMALL] * 6), 12, "tree", None),
    "tree, exact inner": ((VALUES, TREE, [SMALL, EXACT] + [SHARP] * 5), 12, "tree", None),
    "tree, Poisson": ((VALUES, TREE, SHARP), 12, "tree", poisson),
    "tree, Dirichlet": ((VALUES, TREE, [EXACT] + [SHARP] * 6), 12, "tree", dirichlet),
    "cells": ((VALUES[3:], None, SMALL), 12, "cells", None),
    "exact total": ((VALUES[3:], None, SMALL, None, None, 9), 12, "total", None),
    "clamped": ((np.maximum(VALUES, 0), TREE, SMALL, None, 0), 12, "tree", None),
    "unpublished": (([6, 7, np.nan], None, SMALL, 5.0), 18, "cells", None),
    "conflict": (([4, 5, 2, 8, 1, 7, 2.0], TREE, [EXACT] + [SMALL] * 6), 6, "tree", None),
    "unmeasured, scaled": (
        ([9, 3, 2, 5.0], [[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 2, 0]], SMALL),
        20,
        "tree",
        None,
    ),
}


@pytest.mark.parametrize(("given", "most", "kind", "prior"), CASES.values(), ids=CASES)
def test_draws_have_the_law_that_enumeration_finds(given, most, kind, prior):
    model = table_model(Arguments(*given))
    assert structure_of(model) == kind
    states = np.array(list(itertools.product(range(most + 1), repeat=model.cells)))
    log_p = model.log_likelihood(states)
    if prior is not None:
        log_p = log_p + prior(states, None).sum(axis=1)
    evidence = special.logsumexp(log_p)
    found = exact_draws(model, DRAWS, np.random.default_rng(11), log_cells=prior)
    assert found.left_out < 1e-12
    # tables with a count beyond the enumerated ones have 1e-8 of the mass at most
    assert found.log_evidence == pytest.approx(evidence, abs=2e-8)
    assert found.draws.max() <= most
    key = (most + 1) ** np.arange(model.cells)
    expected = np.zeros((most + 1) ** model.cells)
    expected[states @ key] = DRAWS * np.exp(log_p - evidence)
    counts = np.bincount(found.draws @ key, minlength=expected.size)
    assert counts[expected == 0].sum() == 0
    held = expected > 20
    pairs = [*zip(counts[held], expected[held], strict=True)]
    pairs += [(counts[~held].sum(), expected[~held].sum())]
    chi2 = sum((n - e) ** 2 / e for n, e in pairs if e > 1)
    assert special.chdtrc(len(pairs) - 1, chi2) > 1e-9  # fails by accident once in 1e9


def test_rows_that_cross_have_no_exact_sampler():
    crossing = [[1, 1, 0], [0, 1, 1]]
    model = table_model(Arguments([3.0, 4.0], crossing, SMALL, total=5))
    assert structure_of(model) is None
    unequal = table_model(Arguments([3.0, 1.0, 1.0], [[1, 2], [1, 0], [0, 1]], SMALL))
    assert structure_of(unequal) is None


def test_a_total_that_cells_speak_against():
    # 300 zeros under a flat prior: the cells alone say 1,200 or so
    rng = np.random.default_rng(12)
    law = dpi.DiscreteGaussian(sigma=5.0)
    model = table_model(Arguments(law.rvs(300, rng=rng), None, law, total=40))
    found = exact_draws(model, 200, rng)
    assert (found.draws.sum(axis=1) == 40).all()
    assert found.left_out < 1e-12


def test_large_counts():
    rng = np.random.default_rng(13)
    law = dpi.DiscreteGaussian(sigma=3.0)
    truth = np.array([250_000, 100_000, 150_000, 60_000, 40_000, 149_000, 1_000])
    model = table_model(Arguments(truth + law.rvs(7, rng=rng), TREE, law))
    fit = dpi.combine_hierarchy(truth + 0.0, TREE, mechanism=law)
    found = exact_draws(model, DRAWS, np.random.default_rng(14))
    # far from zero the posterior is normal up to the lattice, with the variances of least squares
    std = np.asarray(fit.bse)[3:]
    error = 6.5 * std / np.sqrt(DRAWS)
    exact = dpi.combine_hierarchy(model.y, TREE, mechanism=law)
    assert (np.abs(found.draws.mean(axis=0) - np.asarray(exact.params)[3:]) < error).all()
    assert found.draws.std(axis=0) == pytest.approx(std, rel=6.5 / np.sqrt(2 * DRAWS))


def test_a_prior_that_is_not_log_concave():
    def heavy(x, cells):
        return -2.0 * np.log1p(x)

    model = table_model(Arguments(VALUES[3:], None, SMALL, total=6))
    states = np.array(list(itertools.product(range(7), repeat=4)))
    log_p = model.log_likelihood(states) + heavy(states, None).sum(axis=1)
    p = np.exp(log_p - special.logsumexp(log_p))
    found = exact_draws(model, DRAWS, np.random.default_rng(15), log_cells=heavy, concave=False)
    std = np.sqrt(p @ np.square(states - p @ states))
    assert (np.abs(found.draws.mean(axis=0) - p @ states) < 6.5 * std / np.sqrt(DRAWS)).all()


def test_totals_that_contradict_one_another():
    rows = [[1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    with pytest.raises(IncompatibleReleaseError):
        table_model(Arguments([4.0, 5.0, 1, 1, 1], rows, [EXACT, EXACT] + [SMALL] * 3))


def test_a_seed_gives_the_same_tables():
    model = table_model(Arguments(VALUES, TREE, SMALL))
    one, other = (exact_draws(model, 50, np.random.default_rng(1)).draws for _ in range(2))
    assert np.array_equal(one, other)
