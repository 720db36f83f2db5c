"""Goodness of fit: the exact law beside simulation, bare random draws and Imhof's integral."""

import numpy as np
import pytest
from scipy import integrate, stats

from dpinfer._numerics.chi2 import WeightedChi2
from dpinfer.hypothesis_tests import chisquare
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace

NOISES = [Laplace(scale=2.0), Geometric(scale=2.0), Gaussian(sigma=3.0)]
FOUR_NOISES = [*NOISES, DiscreteGaussian(sigma=3.0)]
REPLICATES = 100_000


def table(cells, *, even, noise=None):
    """Observed counts, with noise if there is any, and expected ones, 50 on average."""
    rng = np.random.default_rng(cells)
    share = np.full(cells, 1 / cells) if even else rng.dirichlet(np.full(cells, 5.0))
    expected = 50.0 * cells * share
    counts = rng.multinomial(50 * cells, share) + 0.0
    return counts if noise is None else counts + noise.rvs(cells, rng=rng), expected


def numpy_noise(noise, shape, rng):
    """The noise as one would draw it with NumPy."""
    if isinstance(noise, Laplace):
        return rng.laplace(0.0, noise.scale, shape)
    if isinstance(noise, Gaussian):
        return rng.normal(0.0, noise.sigma, shape)
    if isinstance(noise, Geometric):
        success = 1.0 - np.exp(-1.0 / noise.scale)
        return rng.geometric(success, shape) - rng.geometric(success, shape)
    values = np.arange(-40, 41)
    return rng.choice(values, shape, p=noise.pmf(values) / noise.pmf(values).sum())


def few_cells(cells, noise):
    """Published and expected counts of 1,000 people, no two expected counts alike."""
    rng = np.random.default_rng(cells)
    share = rng.dirichlet(np.full(cells, 5.0))
    return rng.multinomial(1000, share) + noise.rvs(cells, rng=rng), 1000.0 * share


def replicates(observed, expected, noise):
    """A simulated p-value with NumPy, without a loop."""
    rng, shape = np.random.default_rng(2), (REPLICATES, expected.size)
    drawn = rng.multinomial(1000, expected / 1000.0, REPLICATES) + numpy_noise(noise, shape, rng)
    statistic = np.square(drawn - expected) @ (1.0 / expected)
    own = np.square(observed - expected) @ (1.0 / expected)
    return (1 + np.count_nonzero(statistic >= own * (1.0 - 1e-12))) / (1 + REPLICATES)


def numpy_draws(cells, reps):
    """The random numbers of a plain simulation, nothing else."""
    rng = np.random.default_rng(1)
    share = np.full(cells, 1 / cells)
    return rng.multinomial(50 * cells, share, reps), rng.laplace(0.0, 2.0, (reps, cells))


def imhof(values, q):
    """P(Σ λ χ²₁ > q) by adaptive quadrature of the integral of Imhof (1961)."""

    def integrand(u):
        angle = 0.5 * np.sum(np.arctan(values * u)) - 0.5 * q * u
        return np.sin(angle) / (
            u * np.exp(min(0.25 * np.sum(np.log1p(np.square(values * u))), 500.0))
        )

    return 0.5 + integrate.quad(integrand, 0.0, np.inf, limit=2000)[0] / np.pi


@pytest.mark.benchmark(group="goodness of fit, one exact p-value")
@pytest.mark.parametrize("even", [True, False], ids=["even", "uneven"])
@pytest.mark.parametrize("cells", [4, 100, 1000])
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_exact(benchmark, noise, cells, even):
    observed, expected = table(cells, even=even, noise=noise)
    result = benchmark(chisquare, observed, expected, mechanism=noise)
    assert result.method == "exact"


@pytest.mark.benchmark(group="goodness of fit, few uneven cells")
@pytest.mark.parametrize("cells", [2, 3, 4, 6, 10])
@pytest.mark.parametrize("noise", FOUR_NOISES, ids=repr)
def test_exact_of_few_cells(benchmark, noise, cells):
    observed, expected = few_cells(cells, noise)
    result = benchmark(chisquare, observed, expected, mechanism=noise)
    assert result.method == "exact"
    # 6 standard errors: 2e-9
    share = replicates(observed, expected, noise)
    assert abs(result.pvalue - share) < 6.0 * np.sqrt(0.25 / REPLICATES)


@pytest.mark.benchmark(group="goodness of fit, few uneven cells")
@pytest.mark.parametrize("cells", [2, 3, 4, 6, 10])
@pytest.mark.parametrize("noise", FOUR_NOISES, ids=repr)
def test_replicates_of_few_cells(benchmark, noise, cells):
    benchmark(replicates, *few_cells(cells, noise), noise)


@pytest.mark.benchmark(group="goodness of fit, 100 cells, 1e4 replicates")
@pytest.mark.parametrize("statistic", ["pearson", "projected"])
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_monte_carlo(benchmark, noise, statistic):
    observed, expected = table(100, even=True, noise=noise)
    options = {"mechanism": noise, "statistic": statistic, "method": "monte-carlo", "rng": 1}
    benchmark(chisquare, observed, expected, **options)


@pytest.mark.benchmark(group="goodness of fit, 100 cells, 1e4 replicates")
def test_bare_numpy_draws(benchmark):
    benchmark(numpy_draws, 100, 10_000)


@pytest.mark.benchmark(group="goodness of fit, 100 cells, 1e4 replicates")
def test_the_same_exactly(benchmark):
    benchmark(chisquare, *table(100, even=True), mechanism=Laplace(scale=2.0))


@pytest.mark.benchmark(group="weighted sum of chi-squared, one tail")
@pytest.mark.parametrize("cells", [4, 1000])
def test_contour(benchmark, cells):
    _, expected = table(cells, even=False)
    diagonal, share = 1.0 + 9.0 / expected, expected / expected.sum()
    benchmark(lambda: WeightedChi2.rank_one(diagonal, share).upper(np.array(1.2 * cells)))


@pytest.mark.benchmark(group="weighted sum of chi-squared, one tail")
@pytest.mark.parametrize("cells", [4, 1000])
def test_imhof(benchmark, cells):
    _, expected = table(cells, even=False)
    root = np.sqrt(expected / expected.sum())
    values = np.linalg.eigvalsh(np.diag(1.0 + 9.0 / expected) - np.outer(root, root))
    benchmark(imhof, values, 1.2 * cells)


@pytest.mark.benchmark(group="goodness of fit, 1,000 cells, asymptotic")
def test_asymptotic(benchmark):
    observed, expected = table(1000, even=False, noise=NOISES[2])
    benchmark(chisquare, observed, expected, mechanism=NOISES[2], method="asymptotic")


@pytest.mark.benchmark(group="goodness of fit, 1,000 cells, asymptotic")
def test_scipy_without_noise(benchmark):
    observed, expected = table(1000, even=False)
    benchmark(stats.chisquare, observed, expected)
