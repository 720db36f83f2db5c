"""Draws against the laws, by chi-square tests that see errors of one part in a thousand.

Every test fails by accident with probability 1e-9, and its seed is fixed.
"""

import numpy as np
import pytest
from scipy import stats

from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, Tulap
from dpinfer.mechanisms.draws import (
    BINS,
    GuideTable,
    discrete_gaussian_draws,
    geometric_draws,
    guide_table,
    rounded_normal_draws,
)

CHANCE = 1e-9
REPS = 400_000


def assert_drawn_from(draws, law):
    """Compare the counts in some hundred bins, out to the tails, with their expectations."""
    tails = np.append(np.geomspace(50 / REPS, 0.02, 12), np.linspace(0.03, 0.49, 40))
    upper = np.unique(law.isf(tails))
    edges = np.unique(np.concatenate([-upper - law.is_integer, upper]))
    counts = np.diff(np.searchsorted(np.sort(draws), edges, side="right"), prepend=0, append=REPS)
    counts[-1] = REPS - counts[:-1].sum()
    lower = law.cdf(edges[edges < 0])
    above = law.sf(edges[edges >= 0])
    middle = 1.0 - lower[-1] - above[0]
    shares = np.concatenate([np.diff(lower, prepend=0), [middle], -np.diff(above, append=0)])
    assert counts.size == shares.size
    assert stats.chisquare(counts, shares * REPS).pvalue > CHANCE


@pytest.mark.parametrize(
    "law",
    [
        Laplace(scale=2.0),
        Gaussian(sigma=2.0),
        Tulap(scale=2.0),
        Tulap(scale=2.0, truncation=0.2),
        Geometric(scale=0.4),
        Geometric(scale=10.0),
        Geometric(scale=100.0),
        Geometric(scale=1e3),
        Geometric(scale=1e8),
        DiscreteGaussian(sigma=0.6),
        DiscreteGaussian(sigma=10.0),
        DiscreteGaussian(sigma=512.0),
        DiscreteGaussian(sigma=513.0),
        DiscreteGaussian(sigma=1e8),
    ],
    ids=str,
)
def test_large_draws(law):
    assert_drawn_from(law.rvs(REPS, rng=11), law)


@pytest.mark.parametrize("scale", [0.4, 10.0, 200.0])
def test_geometric_draws_without_a_table(scale):
    draws = geometric_draws(np.asarray(scale), (REPS,), np.random.default_rng(1))
    assert_drawn_from(draws, Geometric(scale=scale))


@pytest.mark.parametrize("sigma", [0.6, 3.0, 200.0])
def test_discrete_gaussian_draws_by_rejection(sigma):
    draws = discrete_gaussian_draws(np.asarray(sigma), (REPS,), np.random.default_rng(2))
    assert_drawn_from(draws, DiscreteGaussian(sigma=sigma))


def test_rejection_turns_rounded_normal_into_discrete_gaussian_noise():
    # at a small sigma, where the two laws differ visibly, and within the 9 sigma of the envelope
    sigma = 1.5
    draws = rounded_normal_draws(sigma, (REPS,), np.random.default_rng(3))
    assert_drawn_from(draws, DiscreteGaussian(sigma=sigma))
    rounded = np.rint(np.random.default_rng(3).standard_normal(REPS) * sigma)
    with pytest.raises(AssertionError):
        assert_drawn_from(rounded, DiscreteGaussian(sigma=sigma))


@pytest.mark.parametrize("law", [Geometric(scale=5.0), DiscreteGaussian(sigma=5.0)], ids=str)
def test_a_table_resolves_the_bins_that_it_does_not_decide(law):
    table = GuideTable(law)
    values, undecided = np.unique(table._values, return_counts=True)
    assert undecided[values == np.iinfo(np.int64).min] < BINS / 100
    # the lowest bin is the tail beyond 1/BINS: its draws follow the conditional tail
    draws = np.sort(-table._decide(np.zeros(REPS, dtype=np.intp), np.random.default_rng(4)))
    k = np.unique(draws)[1:-1]
    expected = np.minimum(law.sf(k) * BINS, 1.0)
    share = 1 - np.searchsorted(draws, k, side="right") / REPS
    bound = np.sqrt(np.log(2 / CHANCE) / (2 * REPS))
    assert np.abs(share - expected).max() < bound
    assert law.sf(draws.max()) * BINS < 1e-3


def test_tables_are_kept_and_told_apart():
    assert guide_table(Geometric(scale=3.0)) is guide_table(Geometric(scale=3.0))
    assert guide_table(Geometric(scale=3.0)) is not guide_table(DiscreteGaussian(sigma=3.0))


@pytest.mark.parametrize("law", [Laplace(scale=1.0), Geometric(scale=1e6)], ids=str)
def test_sizes_around_the_chunks_are_filled(law):
    for size in (1, 63, 65, (1 << 15) - 1, 1 << 15, (1 << 15) + 1, 100_000):
        draws = law.rvs(size, rng=7)
        assert draws.shape == (size,)
        # three zeros have a probability below 1e-15 for either law
        assert np.count_nonzero(draws == 0) < 3


def test_signs_are_balanced_within_and_across_words():
    draws = Laplace(scale=1.0).rvs((6_000, 64), rng=8)
    positive = (draws > 0).mean(axis=0)
    # 64 shares within 6.5 standard errors: fails by accident with probability below 1e-8
    np.testing.assert_allclose(positive, 0.5, atol=6.5 * 0.5 / np.sqrt(6_000))


@pytest.mark.parametrize("others", [0, 20])
def test_a_sigma_in_each_cell(others):
    # few values are drawn from tables, many by rejection from normal or from geometric noise
    values = [0.6, 2.0, 3.7]
    sigma = np.append(np.tile(values, 400), np.linspace(0.5, 60.0, others))
    draws = DiscreteGaussian(sigma=sigma).rvs((REPS // 400, sigma.size), rng=12)
    for value in values:
        own = draws[:, sigma == value].ravel()
        assert_drawn_from(own[:REPS], DiscreteGaussian(sigma=value))


def test_a_truncation_in_each_cell():
    scale, truncation = np.array([2.0, 2.0, 5.0]), np.array([0.0, 0.3, 0.45])
    draws = Tulap(scale=scale, truncation=truncation).rvs((REPS, 3), rng=13)
    for column, s, q in zip(draws.T, scale, truncation, strict=True):
        assert_drawn_from(column, Tulap(scale=float(s), truncation=float(q)))


def test_mixed_sigmas_of_all_sizes_in_one_array():
    sigma = np.array([0.01, 0.7, 30.0, 1e9])
    draws = DiscreteGaussian(sigma=sigma).rvs((50_000, 4), rng=9)
    assert draws.dtype == np.int64
    assert not draws[:, 0].any()
    std = DiscreteGaussian(sigma=sigma[1:]).std
    # six standard errors: fails by accident with probability below 1e-8
    np.testing.assert_allclose(draws[:, 1:].std(axis=0) / std, 1, atol=6 / np.sqrt(2 * 50_000))
