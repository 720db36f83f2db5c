"""Grids of cumulant generating functions: laws that are nearly always 0."""

import numpy as np
import pytest

from dpinfer._numerics.inversion import SaddleGrid
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, Tulap, WeightedSum


@pytest.mark.parametrize(
    "noise",
    [Geometric(scale=0.05), Geometric(scale=0.00276), DiscreteGaussian(sigma=0.03)],
    ids=repr,
)
def test_bounds_of_laws_that_are_nearly_always_0(noise):
    """Their cumulants are rounding, then rise by hundreds within one decade."""
    chance = float(noise.sf(1.0 - 1e-9))  # P(X >= 1)
    grid = SaddleGrid(lambda s: noise._cgf(s), float(np.asarray(noise._abscissa)), float(noise.std))
    assert (np.diff(grid.slope) > 0).all()
    assert (grid.curvature > 0).all()
    bound = float(grid.log_chernoff(np.array([1.0]))[0])
    assert np.log(chance) <= bound <= 0.9 * np.log(chance)


@pytest.mark.parametrize(
    "rare",
    [
        DiscreteGaussian(sigma=0.099),
        DiscreteGaussian(sigma=0.0267),
        Geometric(scale=0.00276),
        Geometric(scale=0.05),
    ],
)
@pytest.mark.parametrize("rest", [Gaussian(sigma=2.0), Tulap(scale=0.01), Laplace(scale=3.0)])
@pytest.mark.parametrize("weight", [1.0, 30.0, 1e10])
def test_sums_with_rare_steps_are_mixtures(rare, rest, weight):
    total = WeightedSum([weight, 1.0], [rare, rest])
    # no point is where a density of the mixture jumps
    x = np.array([-3.1, -0.2, 0.0, 0.13, 0.41, 5.3, 31.7])
    k = np.arange(-2, 3)
    mixture = rest.sf(x[:, np.newaxis] - weight * k) @ rare.pmf(k)
    np.testing.assert_allclose(total.sf(x), mixture, rtol=1e-9, atol=1e-11)
