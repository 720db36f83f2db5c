"""Draws of noise beside NumPy's normal draws and the plain NumPy and SciPy recipes.

Run with ``pytest tests/benchmarks/test_sampling.py --benchmark-enable``. Each group holds
``numpy-normal``, the draws to which the others compare. Times are never asserted.
"""

import numpy as np
import pytest
from scipy import stats

from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, Tulap

SIZE = 1_000_000


def numpy_geometric(scale, rng):
    p = -np.expm1(-1 / scale)
    return rng.geometric(p, SIZE) - rng.geometric(p, SIZE)


def scipy_discrete_gaussian(sigma, rng):
    k = np.arange(-int(10 * sigma + 10), int(10 * sigma + 10) + 1)
    weights = np.exp(-0.5 * (k / sigma) ** 2)
    law = stats.rv_discrete(values=(k, weights / weights.sum()))
    return law.rvs(size=SIZE, random_state=rng)


GROUPS = {
    "laplace": (Laplace(scale=2.0), lambda rng: rng.laplace(0.0, 2.0, SIZE)),
    "gaussian": (Gaussian(sigma=2.0), lambda rng: rng.normal(0.0, 2.0, SIZE)),
    "geometric-10": (Geometric(scale=10.0), lambda rng: numpy_geometric(10.0, rng)),
    "geometric-1e6": (Geometric(scale=1e6), lambda rng: numpy_geometric(1e6, rng)),
    "discrete-gaussian-10": (
        DiscreteGaussian(sigma=10.0),
        lambda rng: scipy_discrete_gaussian(10.0, rng),
    ),
    "discrete-gaussian-1e6": (
        DiscreteGaussian(sigma=1e6),
        lambda rng: np.rint(rng.normal(0.0, 1e6, SIZE)).astype(np.int64),
    ),
    "discrete-gaussian, few sigmas": (
        DiscreteGaussian(sigma=np.resize([1.0, 2.0, 5.0, 20.0, 100.0], SIZE)),
        lambda rng: np.rint(rng.normal(0.0, np.resize([1.0, 2.0, 5.0, 20.0, 100.0], SIZE))),
    ),
    "discrete-gaussian, many sigmas": (
        DiscreteGaussian(sigma=np.linspace(1.0, 50.0, SIZE)),
        lambda rng: np.rint(rng.normal(0.0, np.linspace(1.0, 50.0, SIZE))),
    ),
    "tulap, truncated": (
        Tulap.from_epsilon(1.0, delta=1e-3),
        lambda rng: numpy_geometric(1.0, rng) + rng.uniform(-0.5, 0.5, SIZE),
    ),
    "tulap": (
        Tulap(scale=10.0),
        lambda rng: numpy_geometric(10.0, rng) + rng.uniform(-0.5, 0.5, SIZE),
    ),
}


@pytest.mark.parametrize("peer", ["dpinfer", "recipe", "numpy-normal"])
@pytest.mark.parametrize("name", GROUPS)
def test_draws(benchmark, name, peer):
    law, recipe = GROUPS[name]
    rng = np.random.default_rng(1)
    draw = {
        "dpinfer": lambda: law.rvs(SIZE, rng=rng),
        "recipe": lambda: recipe(rng),
        "numpy-normal": lambda: rng.standard_normal(SIZE),
    }[peer]
    benchmark.group = name
    draws = benchmark.pedantic(draw, rounds=5, warmup_rounds=1)
    benchmark.extra_info["ns_per_draw"] = (
        benchmark.stats.stats.min / SIZE * 1e9 if benchmark.stats else None
    )
    assert draws.shape == (SIZE,)
