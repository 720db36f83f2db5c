"""Tests of proportions and rates beside the random draws they need and the loops they replace."""

import numpy as np
import pytest
from scipy import stats

from dpinfer import proportion_confint
from dpinfer.hypothesis_tests import (
    mcnemar,
    poisson_2indep,
    poisson_ztest,
    proportions_2indep,
    proportions_ztest,
)
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace

NOISE = Laplace(scale=2.0)
EXAMPLE = (34.21, 100, 0.255)


def numpy_draws(reps):
    """The random numbers of a plain simulation, nothing else."""
    rng = np.random.default_rng(1)
    return rng.binomial(100, 0.255, reps), rng.laplace(0.0, 2.0, reps)


def tutorial_loop(reps):
    """The simulation of the JSM 2019 tutorial, noise added one replicate at a time."""
    rng = np.random.default_rng(1)
    counts = rng.binomial(100, 0.255, reps)
    noisy = np.array([count + rng.laplace(0.0, 2.0) for count in counts])
    spread = np.sqrt(0.255 * 0.745 / 100)
    replicates = (noisy / 100 - 0.255) / spread
    return (1 + np.sum(np.abs(replicates) >= (0.3421 - 0.255) / spread)) / (reps + 1)


@pytest.mark.benchmark(group="one proportion, one p-value")
@pytest.mark.parametrize("method", ["exact", "asymptotic", "monte-carlo"])
def test_one_pvalue(benchmark, method):
    benchmark(proportions_ztest, *EXAMPLE, mechanism=NOISE, method=method, rng=1)


@pytest.mark.benchmark(group="one proportion, one p-value")
def test_one_pvalue_by_statsmodels(benchmark):
    """Without noise, and the normal limit only: what one p-value costs where it is simplest."""
    from statsmodels.stats.proportion import proportions_ztest as their_ztest

    benchmark(their_ztest, 34, 100, 0.255, prop_var=0.255)


@pytest.mark.benchmark(group="one proportion, one p-value")
def test_one_pvalue_by_the_tutorial_loop(benchmark):
    benchmark(tutorial_loop, 10_000)


@pytest.mark.benchmark(group="one proportion, 1e6 replicates")
def test_million_replicates(benchmark, sized):
    options = {"mechanism": NOISE, "method": "monte-carlo", "reps": sized(1_000_000), "rng": 1}
    benchmark(proportions_ztest, *EXAMPLE, **options)


@pytest.mark.benchmark(group="one proportion, 1e6 replicates")
def test_million_replicates_bare_numpy_draws(benchmark, sized):
    benchmark(numpy_draws, sized(1_000_000))


@pytest.mark.benchmark(group="one proportion, 1e6 replicates")
def test_million_replicates_by_the_tutorial_loop(benchmark, sized):
    benchmark.pedantic(tutorial_loop, args=(sized(1_000_000),), rounds=1)


@pytest.mark.benchmark(group="one proportion, 1e6 exact p-values")
@pytest.mark.parametrize("noise", [NOISE, Geometric(scale=2.0)], ids=repr)
def test_million_pvalues(benchmark, sized, noise):
    counts = np.round(np.random.default_rng(1).normal(25.0, 6.0, sized(1_000_000)))
    benchmark(proportions_ztest, counts, 100, 0.255, mechanism=noise)


def rows_of_their_own(size, noise):
    """Noisy counts, each with a number of trials of its own, up to 2,000."""
    rng = np.random.default_rng(1)
    nobs = rng.integers(50, 2000, size)
    return rng.binomial(nobs, 0.27) + noise.rvs(size, rng=rng), nobs


def sum_over_counts(count, nobs, value, noise):
    """The exact two-sided p-value as a sum over the counts within ten standard deviations."""
    mean, spread = nobs * value, np.sqrt(nobs * value * (1 - value))
    reach = 10 * spread + 10
    k = np.arange(max(0, np.floor(mean - reach)), min(nobs, mean + reach) + 1)
    far = abs(count - mean)
    beyond = noise.sf(mean + far - k) + noise.cdf(mean - far - k)
    return stats.binom.pmf(k, nobs, value) @ beyond


@pytest.mark.benchmark(group="one proportion, each count with its own number of trials")
@pytest.mark.parametrize("way", [proportions_ztest, proportion_confint])
@pytest.mark.parametrize(
    "noise",
    [NOISE, Geometric(scale=2.0), Gaussian(sigma=5.0), DiscreteGaussian(sigma=5.0)],
    ids=repr,
)
def test_rows_with_trials_of_their_own(benchmark, sized, noise, way):
    """Exact tests beside exact intervals."""
    rows = rows_of_their_own(sized(100_000), noise)
    benchmark(way, *rows, *([0.255] if way is proportions_ztest else []), mechanism=noise)


@pytest.mark.benchmark(group="one proportion, exact p-value of a large sample")
@pytest.mark.parametrize("nobs", [10**4, 10**6, 10**9])
def test_large_sample(benchmark, nobs):
    benchmark(proportions_ztest, round(nobs * 0.2551), nobs, 0.255, mechanism=NOISE)


@pytest.mark.benchmark(group="one proportion, noisy number of trials")
@pytest.mark.parametrize("method", ["exact", "plug-in", "asymptotic", "monte-carlo"])
@pytest.mark.parametrize("noise", [Laplace(scale=20.0), Geometric(scale=20.0)], ids=repr)
def test_noisy_trials(benchmark, noise, method):
    options = {"mechanism": noise, "nobs_mechanism": noise, "nobs_is_total": True}
    benchmark(proportions_ztest, 1340, 5000, 0.255, **options, method=method, rng=1)


@pytest.mark.benchmark(group="one rate, 1e6 exact p-values")
def test_million_rates(benchmark, sized):
    counts = np.round(np.random.default_rng(1).normal(25.0, 6.0, sized(1_000_000)))
    benchmark(poisson_ztest, counts, 100.0, 0.25, mechanism=NOISE)


@pytest.mark.benchmark(group="two rates, one p-value")
@pytest.mark.parametrize("method", ["exact", "plug-in", "asymptotic"])
def test_two_rates(benchmark, method):
    arguments = (60, 51_477.5, 30, 54_308.7)
    benchmark(poisson_2indep, *arguments, mechanism=Geometric(scale=2.0), method=method)


@pytest.mark.benchmark(group="two rates, one p-value")
def test_mcnemar(benchmark):
    benchmark(mcnemar, (60, 30), mechanism=Geometric(scale=2.0))


@pytest.mark.benchmark(group="two proportions, one p-value")
@pytest.mark.parametrize("method", ["exact", "plug-in", "asymptotic", "monte-carlo"])
@pytest.mark.parametrize("noise", [Laplace(scale=20.0), Geometric(scale=20.0)], ids=repr)
@pytest.mark.parametrize("nobs", [500, 5000])
def test_two_proportions(benchmark, nobs, noise, method):
    arguments = (0.27 * nobs, nobs, 0.25 * nobs, nobs + 1)
    benchmark(proportions_2indep, *arguments, mechanism=noise, method=method, rng=1)


@pytest.mark.benchmark(group="two proportions, 1e4 plug-in p-values")
@pytest.mark.parametrize("method", ["plug-in", "asymptotic"])
def test_many_pairs(benchmark, sized, method):
    rng = np.random.default_rng(1)
    counts = rng.binomial(500, 0.3, (2, sized(10_000)))
    options = {"mechanism": Geometric(scale=2.0), "method": method}
    benchmark(proportions_2indep, counts[0], 500, counts[1], 500, **options)
