"""Multinomial counts drawn in bulk, beside the laws that they are to have."""

import numpy as np
import pytest
from scipy import stats

from dpinfer._numerics.counts import draw_binomial, draw_multinomial

REPS = 200_000


def misfit(counts, probabilities):
    """P-value of Pearson's test of counts, with rare outcomes put together."""
    expected = probabilities * counts.sum()
    common = expected >= 25.0
    observed = np.append(counts[common], counts[~common].sum())
    expected = np.append(expected[common], max(expected[~common].sum(), 1e-300))
    if expected[-1] < 25.0:
        observed, expected = observed[:-1], expected[:-1]
    statistic = np.sum((observed - expected) ** 2 / expected)
    return stats.chi2.sf(statistic, observed.size - 1)


# below and above the smallest mean for rejection and the largest number of trials that is tabulated
@pytest.mark.parametrize(
    ("trials", "p"),
    [
        *[(0, 0.4), (1, 0.5), (12, 0.3), (20, 0.5), (21, 0.48), (50, 0.2), (100, 0.5)],
        *[(100, 0.13), (300, 0.9), (2000, 0.01), (5000, 0.7), (131_072, 0.001), (131_073, 0.3)],
    ],
)
def test_binomial_counts_have_their_law(trials, p):
    rng = np.random.default_rng(1)
    drawn = draw_binomial(np.full(REPS, float(trials)), np.asarray(p), rng)
    assert np.array_equal(drawn, np.floor(drawn))
    assert drawn.min() >= 0
    assert drawn.max() <= trials
    k = np.arange(trials + 1)
    counts = np.bincount(drawn.astype(int), minlength=trials + 1)
    if trials > 0:
        # 1e-9: nothing but an error
        assert misfit(counts, stats.binom.pmf(k, trials, p)) > 1e-9


def test_mixed_trials_and_chances():
    """The mean and variance of each of many laws, drawn side by side."""
    rng = np.random.default_rng(2)
    trials = np.array([0.0, 3.0, 30.0, 60.0, 1000.0, 200_000.0])[:, np.newaxis, np.newaxis]
    p = np.array([0.0, 0.02, 0.3, 0.5, 0.85, 1.0])[:, np.newaxis]
    drawn = draw_binomial(np.broadcast_to(trials, (6, 6, 20_000)), p, rng)
    mean, variance = (trials * p)[..., 0], (trials * p * (1.0 - p))[..., 0]
    error = np.sqrt(variance / 20_000)
    assert (np.abs(drawn.mean(axis=-1) - mean) <= 6.0 * error).all()  # 2e-9 each
    kurtosis = 2.0 + np.divide(1.0, variance, out=np.zeros((6, 6)), where=variance > 0.0)
    assert (
        np.abs(drawn.var(axis=-1) - variance) <= 7.0 * variance * np.sqrt(kurtosis / 20_000)
    ).all()


@pytest.mark.parametrize("size", [1, 7, 40_000])
@pytest.mark.parametrize("cells", [1, 2, 3, 5, 8, 13])
def test_multinomial_counts_add_up(cells, size):
    rng = np.random.default_rng(3)
    nobs = np.array([0, 1, 250])
    counts = draw_multinomial(nobs, rng.dirichlet(np.ones(cells)), size, rng)
    assert counts.shape == (cells, 3, size)
    assert (counts >= 0.0).all()
    np.testing.assert_array_equal(counts.sum(axis=0), np.broadcast_to(nobs[:, None], (3, size)))


@pytest.mark.parametrize("nobs", [4, 60])
def test_multinomial_counts_have_their_joint_law(nobs):
    rng, shares = np.random.default_rng(4), np.array([0.3, 0.0, 0.45, 0.25])
    counts = draw_multinomial(np.array([nobs]), shares, REPS, rng)[:, 0].astype(int)
    assert (counts[1] == 0).all()
    grid = np.stack(np.meshgrid(*[np.arange(nobs + 1)] * 2, indexing="ij")).reshape(2, -1)
    grid = grid[:, grid.sum(axis=0) <= nobs]
    outcomes = np.stack([grid[0], np.zeros_like(grid[0]), grid[1], nobs - grid.sum(axis=0)])
    probabilities = stats.multinomial.pmf(outcomes.T, nobs, shares)
    seen = np.zeros((nobs + 1, nobs + 1))
    np.add.at(seen, (counts[0], counts[2]), 1)
    assert misfit(seen[grid[0], grid[1]], probabilities) > 1e-9


def test_moments_of_many_cells():
    rng = np.random.default_rng(5)
    shares, reps = rng.dirichlet(np.full(60, 2.0)), 40_000
    counts = draw_multinomial(np.array([3000]), shares, reps, rng)[:, 0]
    mean, covariance = 3000 * shares, 3000 * (np.diag(shares) - np.outer(shares, shares))
    spread = np.sqrt(np.diag(covariance))
    assert (np.abs(counts.mean(axis=1) - mean) < 6.0 * spread / np.sqrt(reps)).all()  # 2e-9 each
    scale = np.outer(spread, spread)
    # products of two nearly normal counts vary by their squares: 7 sigma leaves room for skewness
    error = np.sqrt((1.0 + np.square(covariance / scale)) / reps)
    assert (np.abs(np.cov(counts) - covariance) / scale < 7.0 * error).all()


def test_a_seed_gives_the_same_counts():
    draws = [
        draw_multinomial(np.array([100]), np.full(4, 0.25), 5000, np.random.default_rng(6))
        for _ in range(2)
    ]
    np.testing.assert_array_equal(*draws)
