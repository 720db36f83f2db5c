"""Size of the tests: exactly where it can be computed, by simulation elsewhere."""

from itertools import product

import numpy as np
import pytest
from level_settings import ALTERNATIVES

from dpinfer.hypothesis_tests import chisquare, proportions_ztest
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    IndependentNoise,
    Laplace,
)
from dpinfer.mechanisms._noisy_count import NoisyBinomial

LEVELS = (0.01, 0.05, 0.1)


def exact_sizes(nobs, value, noise, alternative):
    """Rejection probabilities at each level: whole-numbered noise, all published counts listed."""
    reach = float(noise.isf(1e-14))
    published = np.arange(-reach, nobs + reach + 1)
    pvalues = proportions_ztest(
        published, nobs, value, mechanism=noise, alternative=alternative
    ).pvalue
    law = NoisyBinomial(nobs=np.asarray(float(nobs)), value=np.asarray(value), noise=noise)
    at_least = law.upper(published)
    chances = at_least - np.append(at_least[1:], 0.0)
    return [chances[pvalues <= level].sum() for level in LEVELS]


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize(
    "noise", [Geometric(scale=0.3), Geometric(scale=5.0), DiscreteGaussian(sigma=2.0)], ids=repr
)
@pytest.mark.parametrize(("nobs", "value"), [(10, 0.5), (100, 0.255), (500, 0.01)])
def test_exact_test_never_exceeds_its_level(nobs, value, noise, alternative):
    for level, size in zip(LEVELS, exact_sizes(nobs, value, noise, alternative), strict=True):
        assert size <= level * (1 + 1e-10)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("noise", [Laplace(scale=2.0), Gaussian(sigma=4.0)], ids=repr)
@pytest.mark.parametrize(("nobs", "value"), [(10, 0.5), (100, 0.255), (500, 0.01)])
def test_exact_test_has_its_level_under_continuous_noise(nobs, value, noise, alternative):
    null = proportions_ztest(nobs * value, nobs, value, mechanism=noise).null_distribution
    for level in LEVELS:
        critical = null.critical_value(level, alternative)
        assert null.pvalue(critical, alternative) == pytest.approx(level, rel=1e-9)


def rejections(table, noise, statistic, method, runs, reps, seed):
    """Share of simulated tables that the test rejects at each level."""
    rng, expected = np.random.default_rng(seed), np.asarray(table, float)
    n = int(expected.sum())
    counts = rng.multinomial(n, expected / n, runs) + noise.rvs((runs, expected.size), rng=rng)
    options = {"mechanism": noise, "statistic": statistic, "method": method}
    pvalues = [chisquare(row, expected, **options, reps=reps, rng=rng).pvalue for row in counts]
    return [np.mean(np.array(pvalues) <= level) for level in LEVELS]


def assert_at_most_nominal(shares, runs, bias=0.0):
    """Within 6 standard errors of the level: 1e-9 for each comparison."""
    for level, share in zip(LEVELS, shares, strict=True):
        assert share <= level + bias + 6 * np.sqrt(level * (1 - level) / runs), (level, share)


@pytest.mark.parametrize("statistic", ["pearson", "projected"])
def test_goodness_of_fit_keeps_its_level(statistic):
    shares = rejections(
        [10, 20, 30], Geometric(scale=3.0), statistic, "monte-carlo", 400, 199, seed=1
    )
    assert_at_most_nominal(shares, 400)


TABLES = [[25, 25], [10, 15, 25], [2, 8, 90, 400], [500] * 10]
NOISES = [
    Laplace(scale=2.0),
    Laplace(scale=20.0),
    Geometric(scale=5.0),
    Gaussian(sigma=10.0),
    DiscreteGaussian(sigma=3.0),
]
SETTINGS = list(product(TABLES, NOISES, ("pearson", "projected")))


@pytest.mark.parametrize(
    ("table", "noise", "statistic", "runs"),
    [
        # every third has each table with each statistic, and each noise with each statistic
        *(pytest.param(*chosen, 500, marks=pytest.mark.slow) for chosen in SETTINGS[::3]),
        *(pytest.param(*chosen, 4000, marks=pytest.mark.study) for chosen in SETTINGS),
    ],
    ids=str,
)
def test_goodness_of_fit_keeps_its_level_everywhere(table, noise, statistic, runs):
    """A valid Monte Carlo test at any number of replicates, small expected counts included."""
    shares = rejections(table, noise, statistic, "monte-carlo", runs, 199, seed=2)
    assert_at_most_nominal(shares, runs)
    for level, share in zip(LEVELS, shares, strict=True):  # nor is it needlessly cautious
        assert share >= level - 6 * np.sqrt(level * (1 - level) / runs) - 0.005


@pytest.mark.slow
@pytest.mark.parametrize("noise", [Gaussian(sigma=3.0), Gaussian(sigma=50.0)], ids=repr)
def test_the_limit_of_the_projected_statistic_keeps_its_level(noise):
    """The chi-squared limit is off by less than half a point here."""
    shares = rejections([200, 300, 500, 1000], noise, "projected", "asymptotic", 4000, 1, seed=3)
    assert_at_most_nominal(shares, 4000, bias=0.005)


@pytest.mark.slow
@pytest.mark.thinned("alternative", "scale", "nobs", "value", every=3)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("scale", [0.5, 2.0, 20.0])
@pytest.mark.parametrize("nobs", [50, 500, 5000])
@pytest.mark.parametrize("value", [0.02, 0.255, 0.5])
def test_exact_test_never_exceeds_its_level_everywhere(nobs, value, scale, alternative):
    for noise in (Geometric(scale=scale), DiscreteGaussian(sigma=scale), Exact()):
        sizes = exact_sizes(nobs, value, noise, alternative)
        for level, size in zip(LEVELS, sizes, strict=True):
            assert size <= level * (1 + 1e-10)


@pytest.mark.slow
def test_rows_with_laws_of_their_own_keep_their_level():
    """Simulated p-values of rows: each valid, at 6 standard errors (1e-9 for each comparison)."""
    runs, rng = 1800, np.random.default_rng(4)
    nobs, value = rng.integers(20, 200, runs), rng.uniform(0.1, 0.9, runs)
    noise = IndependentNoise([Laplace(scale=s) for s in rng.uniform(0.5, 5.0, runs)])
    counts = rng.binomial(nobs, value) + noise.rvs(runs, rng=rng)
    result = proportions_ztest(
        counts, nobs, value, mechanism=noise, method="monte-carlo", reps=199, rng=rng
    )
    assert_at_most_nominal([np.mean(result.pvalue <= level) for level in LEVELS], runs)
