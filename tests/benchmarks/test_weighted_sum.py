"""Weighted sums beside what is done without them: a million draws, or quadrature of Gil-Pelaez."""

import numpy as np
import pytest
from scipy import integrate

from dpinfer.mechanisms import Gaussian, Geometric, Laplace, WeightedSum, weighted_sums

LAPLACE = np.array([1.0, 2.0, 3.0, 4.0])
GEOMETRIC = np.array([1.0, 1, 1, 1, 2, 2, 3, 5])


@pytest.mark.benchmark(group="95% half-width, four Laplace noises")
def test_exact_laplace(benchmark):
    benchmark(lambda: WeightedSum(LAPLACE, Laplace(scale=2.0)).isf(0.025))


@pytest.mark.benchmark(group="95% half-width, four Laplace noises")
def test_simulated_laplace(benchmark):
    rng = np.random.default_rng(1)
    benchmark(lambda: np.quantile(rng.laplace(0, 2.0, (1_000_000, 4)) @ LAPLACE, 0.975))


@pytest.mark.benchmark(group="one tail, four Laplace noises")
def test_contour_tail(benchmark):
    assert benchmark(lambda: WeightedSum(LAPLACE, Laplace(scale=2.0)).sf(20.0)) > 0


@pytest.mark.benchmark(group="one tail, four Laplace noises")
def test_quadrature_tail(benchmark):
    def gil_pelaez():
        def integrand(t):
            return np.prod(1 / (1 + (2.0 * LAPLACE * t) ** 2)) * np.sin(20.0 * t) / t

        return 0.5 - integrate.quad(integrand, 0, np.inf, limit=500)[0] / np.pi

    assert benchmark(gil_pelaez) > 0


@pytest.mark.benchmark(group="95% half-width, eight geometric noises")
def test_exact_geometric(benchmark):
    benchmark(lambda: WeightedSum(GEOMETRIC, Geometric(scale=10.0)).isf(0.025))


@pytest.mark.benchmark(group="95% half-width, eight geometric noises")
def test_simulated_geometric(benchmark):
    rng = np.random.default_rng(1)

    def simulate():
        p = 1 - np.exp(-0.1)
        draws = rng.geometric(p, (1_000_000, 8)) - rng.geometric(p, (1_000_000, 8))
        return np.quantile(draws @ GEOMETRIC, 0.975)

    benchmark(simulate)


@pytest.mark.benchmark(group="95% half-width, a thousand noises of different weights")
@pytest.mark.parametrize("law", [Laplace(scale=2.0), Geometric(scale=2.0)], ids=["L", "G"])
def test_thousand_terms(benchmark, law):
    weights = np.random.default_rng(1).uniform(1, 2, 1000)
    benchmark(lambda: WeightedSum(weights, law).isf(0.025))


@pytest.mark.benchmark(group="95% half-width, geometric + Laplace + normal")
def test_mixed_terms(benchmark):
    laws = [Geometric(scale=20.0), Laplace(scale=3.0), Gaussian(sigma=2.0)]
    benchmark(lambda: WeightedSum([1, 1, 1], laws).isf(0.025))


@pytest.mark.benchmark(group="95% half-widths of a million points of one sum")
def test_many_quantiles(benchmark):
    total = WeightedSum(GEOMETRIC, Geometric(scale=10.0))
    q = np.random.default_rng(1).uniform(0.001, 0.5, 1_000_000)
    benchmark(lambda: total.isf(q))


@pytest.mark.benchmark(group="laws of ten thousand rows with few patterns")
def test_rows_that_share(benchmark):
    weights = np.random.default_rng(1).integers(-1, 2, (10_000, 4))
    benchmark(lambda: weighted_sums(weights, Laplace(scale=2.0)))
