"""Covariances due to noise with heavy or light tails: fourth cumulants of its laws.

With one covariate of n rows the covariance is that of Gaussian noise of the same standard
deviations, and the sum of the fourth cumulants times (slope / M)^2, M the corrected sum of squares.
"""

import numpy as np
import pytest

from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    IndependentNoise,
    Laplace,
    Tulap,
    WeightedSum,
)
from dpinfer.regression import noisy_ols

ROWS = 60
DRAWN = np.random.default_rng(1).normal(0.0, 2.0, (2, ROWS)) + np.array([[0.0], [3.0]])


def mean_cumulant(law):
    """Return the mean of the fourth cumulants of the rows, relative to that of the variances²."""
    std = np.broadcast_to(law.std, ROWS)
    unit = np.sqrt(np.mean(std**2))
    response, covariate = DRAWN * unit
    covariate = np.rint(covariate) if law.is_integer else covariate

    def fit(noise):
        return noisy_ols(
            response, covariate[:, None], noise={"x1": noise}, uncertainty="noise", use_t=False
        )

    found, normal = fit(law), fit(Gaussian(sigma=std))
    assert found.params == pytest.approx(normal.params, rel=1e-12)
    change = (np.asarray(found.cov_params()) - np.asarray(normal.cov_params())).item()
    left = covariate @ covariate - (std @ std)
    return change / ROWS * (left / unit**2 / float(found.params[0])) ** 2


def fourth_cumulant(law):
    return mean_cumulant(law) * float(law.variance) ** 2


@pytest.mark.parametrize(
    "law",
    [Geometric(scale=s) for s in (0.3, 2.0, 40.0)]
    + [DiscreteGaussian(sigma=s) for s in (0.4, 1.0)],
    ids=repr,
)
def test_whole_numbers_against_the_sum(law):
    reach = int(60 * law.std + 30)
    k = np.arange(-reach, reach + 1.0)
    p = law.pmf(k)
    expected = p @ k**4 - 3 * (p @ k**2) ** 2
    assert fourth_cumulant(law) == pytest.approx(expected, rel=1e-9, abs=1e-11 * law.variance**2)


def test_closed_forms():
    assert mean_cumulant(Laplace(scale=2.0)) == pytest.approx(3.0, rel=1e-10)
    assert mean_cumulant(Gaussian(sigma=3.0)) == pytest.approx(0.0, abs=1e-11)
    # a geometric noise and a uniform one, whose fourth cumulant is -1/120
    whole = fourth_cumulant(Geometric(scale=1.5))
    assert fourth_cumulant(Tulap(scale=1.5)) == pytest.approx(whole - 1.0 / 120.0, rel=1e-10)


def test_truncated_tulap_against_its_density():
    law = Tulap.from_epsilon(1.0, delta=1e-2)
    x = np.linspace(-30.0, 30.0, 2_000_001)
    p = law.pdf(x)
    second, fourth = np.trapezoid(p * x**2, x), np.trapezoid(p * x**4, x)
    assert fourth_cumulant(law) == pytest.approx(fourth - 3 * second**2, rel=1e-4)


def test_sums_and_mixtures():
    total = WeightedSum([1.0, -2.0, 0.5], [Laplace(scale=1.0), Laplace(scale=2.0), Exact()])
    assert fourth_cumulant(total) == pytest.approx(12.0 + 16.0 * 192.0, rel=1e-10)
    rows = np.arange(ROWS) % 3
    laws = [(Laplace(scale=1.0), Laplace(scale=1e-9), Laplace(scale=2.0))[row] for row in rows]
    mixed = IndependentNoise(laws)
    # a third of 12 and of 192, in units of the mean of the variances 2, nearly 0 and 8
    assert mean_cumulant(mixed) == pytest.approx((12.0 + 192.0) / 3 / (10.0 / 3) ** 2, rel=1e-10)


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 1e9])
def test_units_do_not_matter(scale):
    assert mean_cumulant(Laplace(scale=scale)) == pytest.approx(3.0, rel=1e-9)
    total = WeightedSum([1e3], Laplace(scale=scale))
    assert mean_cumulant(total) == pytest.approx(3.0, rel=1e-9)
