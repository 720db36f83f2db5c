"""Posteriors of a table beside a loop over its rows with SciPy, in one run."""

import numpy as np
import pytest
from scipy import stats

from dpinfer.intervals import count_posterior, empirical_prior
from dpinfer.mechanisms import Gaussian, Geometric, Laplace
from dpinfer.priors import NegativeBinomialPrior, PoissonPrior

ROWS = 1_000_000
NOISES = [Laplace(scale=2.0), Geometric(scale=2.0), Gaussian(sigma=3.0)]


def table(noise, rows):
    """Expected counts that differ by row, and published counts."""
    rng = np.random.default_rng(1)
    rates = rng.gamma(2.0, 10.0, rows) + 0.1
    return rates, rng.poisson(rates) + noise.rvs(rows, rng=rng)


def by_loop(values, rates, noise):
    """Posterior means and 95 % equal-tailed intervals row by row."""
    density = noise.logpmf if noise.is_integer else noise.logpdf
    out = []
    for value, rate in zip(values, rates, strict=True):
        k = np.arange(0, max(value, rate) + 60.0)
        weight = stats.poisson.logpmf(k, rate) + density(value - k)
        pmf = np.exp(weight - weight.max())
        pmf /= pmf.sum()
        below = np.cumsum(pmf)
        out.append((k @ pmf, np.searchsorted(below, 0.025), np.searchsorted(below, 0.975)))
    return np.array(out).T


def by_dpinfer(values, rates, noise):
    posterior = count_posterior(values, mechanism=noise, prior=PoissonPrior(rates))
    lower, upper = posterior.interval(0.05, kind="equal-tailed")
    return np.stack([posterior.mean, lower, upper])


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_ways_agree(noise):
    rates, values = table(noise, 300)
    np.testing.assert_allclose(
        by_dpinfer(values, rates, noise), by_loop(values, rates, noise), rtol=1e-10
    )


@pytest.mark.benchmark(group="posterior means and intervals, 2000 rows")
@pytest.mark.parametrize("way", [by_dpinfer, by_loop])
def test_rows(benchmark, way):
    rates, values = table(NOISES[0], 2000)
    benchmark(way, values, rates, NOISES[0])


@pytest.mark.benchmark(group="posterior means, 1e6 rows, a prior each")
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_million_rows(benchmark, sized, noise):
    rates, values = table(noise, sized(ROWS))
    benchmark(
        lambda: count_posterior(values, mechanism=noise, prior=PoissonPrior(rates)).mean,
    )


@pytest.mark.slow
@pytest.mark.benchmark(group="posterior intervals, 1e6 rows, a prior each")
@pytest.mark.parametrize("kind", ["hdi", "equal-tailed"])
def test_million_intervals(benchmark, sized, kind):
    rates, values = table(NOISES[0], sized(ROWS))
    benchmark(
        lambda: count_posterior(values, mechanism=NOISES[0], prior=PoissonPrior(rates)).interval(
            kind=kind
        ),
    )


@pytest.mark.benchmark(group="posterior means, 1e6 rows, one prior")
@pytest.mark.parametrize("prior", [PoissonPrior(20.0), NegativeBinomialPrior(20.0, 0.5)])
def test_shared_prior(benchmark, sized, prior):
    _, values = table(NOISES[1], sized(ROWS))
    benchmark(lambda: count_posterior(values, mechanism=NOISES[1], prior=prior).mean)


@pytest.mark.slow
@pytest.mark.benchmark(group="empirical prior, 1e6 rows")
@pytest.mark.parametrize("family", ["poisson", "negative-binomial"])
def test_empirical_prior(benchmark, sized, family):
    _, values = table(NOISES[1], sized(ROWS))
    benchmark(empirical_prior, values, mechanism=NOISES[1], family=family)
