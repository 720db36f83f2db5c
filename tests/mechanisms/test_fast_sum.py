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
from dpinfer.mechanisms.weighted_sum import fast_sum

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
    ([1.0, np.sqrt(2.0)], [Geometric(scale=50.0)] * 2),
    ([1.0, 64.0], [Geometric(scale=0.5), Geometric(scale=1e6)]),
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
    assert fast_sum(np.array([0.4, 0.0]), [Laplace(scale=2.0), Exact()]) == Laplace(scale=0.8)
    law = Geometric(scale=2.0)
    assert fast_sum(np.array([1.0, 0.4]), [law, Exact()]) is law
    assert fast_sum(np.array([0.0, 0.4]), [law, Exact()]) == Exact()


@pytest.mark.parametrize(("weights", "laws"), CASES, ids=repr)
def test_what_is_not_tabulated_is_that_of_the_weighted_sum(weights, laws):
    fast, exact = fast_sum(np.array(weights), laws), WeightedSum(weights, laws)
    assert fast.is_integer == exact.is_integer
    assert fast.shape == ()
    assert fast.take(0) is fast or fast.take(0) == fast
    q, x = np.array([1e-9, 0.01, 0.4, 0.9]), exact.std * np.array([-4.1, -0.3, 0.7, 5.2])
    for method, points in (("ppf", q), ("isf", q), ("sf", x), ("logsf", x), ("cf", x / exact.std)):
        expected = getattr(exact, method)(points)
        np.testing.assert_allclose(
            getattr(fast, method)(points), expected, rtol=1e-8, atol=1e-10, err_msg=method
        )
    assert fast.rvs(3, rng=1).shape == (3,)
    # 6 standard errors of a variance with a kurtosis below 9: 2e-9
    draws = fast.rvs(20_000, rng=2)
    assert np.var(draws) == pytest.approx(exact.variance, rel=6 * np.sqrt(8 / 20_000))


@pytest.mark.parametrize(("weights", "laws"), CASES, ids=repr)
def test_logarithms_are_right_or_bounds(weights, laws):
    fast, exact = fast_sum(np.array(weights), laws), WeightedSum(weights, laws)
    x = exact.std * np.array([-60.0, -20.0, -9.0, -5.0, -2.0, 0.0, 3.0])
    found, expected = fast.logcdf(x), exact.logcdf(x)
    near = expected > np.log(2e-10)
    np.testing.assert_allclose(np.exp(found[near]), np.exp(expected[near]), rtol=1e-9, atol=1e-11)
    # tails of tables of atoms are bounded; no bound of Chernoff is off by more than a factor of x
    np.testing.assert_allclose(fast.logcdf(x[near]), found[near], rtol=1e-13)
    slack = np.log(1e3) + np.log1p(np.abs(x[~near]))
    assert np.all(found[~near] >= expected[~near] - 1e-7 * np.abs(expected[~near]))
    assert np.all(found[~near] <= expected[~near] + slack)
