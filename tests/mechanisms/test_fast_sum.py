"""Tabulated sums of noises against the exact law that they tabulate."""

import numpy as np
import pytest

from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    Tulap,
    WeightedSum,
)
from dpinfer.mechanisms._fast_sum import fast_sum

CASES = [
    ([1.0, 0.3], [Laplace(scale=2.0), Laplace(scale=2.0)]),
    ([1e-3, 1e-3], [Laplace(scale=20.0), Laplace(scale=20.0)]),
    ([1.0, 0.01], [Laplace(scale=5.0), Gaussian(sigma=2.0)]),
    ([0.7, 0.3], [Gaussian(sigma=5.0), Gaussian(sigma=2.0)]),
    ([0.7, 0.3], [Geometric(scale=2.0), Geometric(scale=5.0)]),
    ([1.0, np.sqrt(0.1)], [Geometric(scale=1.0), DiscreteGaussian(sigma=2.0)]),
    ([0.5, 0.5], [Geometric(scale=3.0), Exact()]),
    ([1.0, 0.2], [Laplace(scale=3.0), Exact()]),
    ([1.0, 0.0], [Tulap(scale=3.0), Laplace(scale=1.0)]),
    ([0.5, 0.5], [Tulap(scale=1.0), Geometric(scale=1.0)]),
    ([0.5, 0.5], [Geometric(scale=2e3), Geometric(scale=2e3)]),
    ([0.5, 0.5], [Geometric(scale=1e6), Geometric(scale=1e4)]),
    ([1.0, 1.0], [DiscreteGaussian(sigma=1e6), Geometric(scale=1e5)]),
    ([1.0, 0.3], [DiscreteGaussian(sigma=1e5), DiscreteGaussian(sigma=1e5)]),
    ([1003.0, 991.0, 1994.0], [Geometric(scale=3.0)] * 3),
]


@pytest.mark.parametrize(("weights", "laws"), CASES, ids=repr)
def test_equals_the_weighted_sum(weights, laws):
    fast, exact = fast_sum(np.array(weights), laws), WeightedSum(weights, laws)
    assert fast.variance == pytest.approx(exact.variance, rel=1e-12)
    x = exact.std * np.linspace(-9.0, 9.0, 41)  # holds 0
    if exact.is_integer:
        x = np.round(x)
    np.testing.assert_allclose(fast.cdf(x), exact.cdf(x), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(fast.cdf(-np.inf), 0.0, atol=1e-300)
    assert fast.cdf(np.inf) == pytest.approx(1.0, abs=1e-12)


def test_far_tails_of_smooth_sums_keep_their_digits():
    laws = [Laplace(scale=2.0), Laplace(scale=5.0)]
    fast, exact = fast_sum(np.array([1.0, 1.0]), laws), WeightedSum([1.0, 1.0], laws)
    x = -np.array([50.0, 400.0, 2000.0])
    np.testing.assert_allclose(fast.cdf(x), exact.cdf(x), rtol=1e-10)


@pytest.mark.parametrize("scale", [2e3, 1e6])
def test_tails_of_wide_lattices_keep_their_digits(scale):
    laws = [Geometric(scale=scale)] * 2
    fast, exact = fast_sum(np.array([0.5, 0.5]), laws), WeightedSum([0.5, 0.5], laws)
    # half steps on either side of atoms, near zero and far out
    x = np.concatenate([np.arange(-4.0, 4.0), -scale * np.array([5.0, 40.0, 300.0])])
    x = (x[:, np.newaxis] + [0.0, 0.25, 0.5]).ravel()
    np.testing.assert_allclose(fast.cdf(x), exact.cdf(x), rtol=1e-10)


def test_the_law_itself_where_there_is_one_term():
    law = Geometric(scale=2.0)
    assert fast_sum(np.array([1.0, 0.4]), [law, Exact()]) is law
    assert fast_sum(np.array([0.0, 0.4]), [law, Exact()]) == Exact()
