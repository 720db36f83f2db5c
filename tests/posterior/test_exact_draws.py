"""Draws of cells given one total, against all tables by enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import special

import dpinfer as dpi
from dpinfer.posterior._exact import draw_given_total

DRAWS = 100_000
LAWS = {
    "discrete Gaussian": dpi.DiscreteGaussian(sigma=1.5),
    "geometric": dpi.Geometric(scale=1.2),
    "Laplace": dpi.Laplace(scale=1.2),
    "Gaussian": dpi.Gaussian(sigma=1.5),
}


def log_density(law, x):
    return law.logpmf(x) if law.is_integer else law.logpdf(x)


@pytest.mark.parametrize("rate", [None, 1.5], ids=["flat", "Poisson"])
@pytest.mark.parametrize("exact", [True, False], ids=["exact total", "noisy total"])
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_draws_have_the_law_that_enumeration_finds(law, exact, rate):
    count = np.arange(8)
    weights = log_density(law, np.array([3, -1, 2, 5])[:, None] - count)
    if rate is not None:
        weights = weights + count * np.log(rate) - special.gammaln(count + 1)
    states = np.array(list(itertools.product(count, repeat=4)))
    sums = states.sum(axis=1)
    total = 7 if exact else log_density(law, 9 - np.arange(29))
    log_p = weights[np.arange(4), states].sum(axis=1)
    log_p += np.where(sums == 7, 0.0, -np.inf) if exact else total[sums]
    p = np.exp(log_p - special.logsumexp(log_p))
    drawn, left_out = draw_given_total(weights, total, DRAWS, np.random.default_rng(5))
    assert left_out < 1e-12
    key = 8 ** np.arange(4)
    found = np.bincount(drawn @ key, minlength=8**4)
    expected = np.zeros(8**4)
    expected[states @ key] = DRAWS * p
    assert found[expected == 0].sum() == 0
    held = expected > 10
    rest = ~held
    pairs = [
        *zip(found[held], expected[held], strict=True),
        (found[rest].sum(), expected[rest].sum()),
    ]
    chi2 = sum((n - e) ** 2 / e for n, e in pairs if e > 0)
    assert special.chdtrc(len(pairs) - 1, chi2) > 1e-9  # fails by accident once in 1e9


def test_means_of_the_worked_example():
    weights = dpi.DiscreteGaussian(sigma=1.5).logpmf(
        np.array([3, -1, 2, 5])[:, None] - np.arange(8)
    )
    drawn, _ = draw_given_total(weights, 7, DRAWS, np.random.default_rng(6))
    error = 6.0 * drawn.std(axis=0) / np.sqrt(DRAWS)  # beyond once in 1e8
    assert (np.abs(drawn.mean(axis=0) - [1.8380, 0.2803, 1.1622, 3.7194]) < error + 5e-5).all()


def test_a_total_far_from_what_the_cells_say():
    # 2,000 zeros under a flat prior add up to about 8,000, many standard deviations from 300
    rng = np.random.default_rng(7)
    law = dpi.DiscreteGaussian(sigma=5.0)
    weights = law.logpmf(law.rvs(2000, rng=rng)[:, None] - np.arange(301))
    drawn, left_out = draw_given_total(weights, 300, 50, rng)
    assert drawn.shape == (50, 2000)
    assert (drawn.sum(axis=1) == 300).all()
    assert (drawn >= 0).all()
    assert left_out < 1e-12


def test_what_cannot_be_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(dpi.errors.IncompatibleReleaseError, match="within 0 and 4, got 5"):
        draw_given_total(np.zeros((2, 3)), 5, 10, rng)
    odd = np.array([[-np.inf, 0.0, -np.inf], [-np.inf, 0.0, -np.inf]])
    with pytest.raises(dpi.errors.IncompatibleReleaseError, match="no total is possible"):
        draw_given_total(odd, 3, 10, rng)
