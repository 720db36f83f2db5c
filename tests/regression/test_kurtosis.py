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
from dpinfer.regression._kurtosis import excess_kurtosis


def fourth_cumulant(law, size):
    return excess_kurtosis(law, size) * law.variance**2


@pytest.mark.parametrize(
    "law",
    [Geometric(scale=s) for s in (0.05, 0.3, 2.0, 40.0)]
    + [DiscreteGaussian(sigma=s) for s in (0.2, 0.4, 1.0)],
)
def test_whole_numbers_against_the_sum(law):
    reach = int(60 * law.std + 30)
    k = np.arange(-reach, reach + 1.0)
    p = law.pmf(k)
    expected = p @ k**4 - 3 * (p @ k**2) ** 2
    # the logarithm of a moment generating function near 1 is rounded at 1e-16
    assert fourth_cumulant(law, 1)[0] == pytest.approx(expected, rel=1e-11, abs=1e-14)


def test_closed_forms():
    assert fourth_cumulant(Laplace(scale=[1e-3, 2.0]), 2) == pytest.approx([12e-12, 192.0])
    assert fourth_cumulant(Gaussian(sigma=3.0), 2) == pytest.approx([0.0, 0.0], abs=1e-10)
    assert fourth_cumulant(Exact(), 1)[0] == 0.0
    # a geometric noise and a uniform one, whose fourth cumulant is -1/120
    whole = fourth_cumulant(Geometric(scale=1.5), 1)[0]
    assert fourth_cumulant(Tulap(scale=1.5), 1)[0] == pytest.approx(whole - 1.0 / 120.0)


def test_truncated_tulap_against_its_density():
    law = Tulap.from_epsilon(1.0, delta=1e-2)
    x = np.linspace(-30.0, 30.0, 2_000_001)
    p = law.pdf(x)
    second, fourth = np.trapezoid(p * x**2, x), np.trapezoid(p * x**4, x)
    assert fourth_cumulant(law, 1)[0] == pytest.approx(fourth - 3 * second**2, rel=1e-4)


def test_sums_and_mixtures():
    total = WeightedSum([1.0, -2.0, 0.5], [Laplace(scale=1.0), Laplace(scale=2.0), Exact()])
    assert fourth_cumulant(total, 1)[0] == pytest.approx(12.0 + 16.0 * 192.0)
    mixed = IndependentNoise([Laplace(scale=1.0), Exact(), Laplace(scale=[2.0, 1.0])])
    assert fourth_cumulant(mixed, 4) == pytest.approx([12.0, 0.0, 192.0, 12.0])


def test_units_do_not_matter():
    assert excess_kurtosis(Laplace(scale=[1e-19, 1e-3, 1.0, 1e49]), 4) == pytest.approx(3.0)
    assert excess_kurtosis(Laplace(scale=1e-90), 1)[0] == 0.0
    assert excess_kurtosis(WeightedSum([1e30], Laplace(scale=1e19)), 1)[0] == pytest.approx(3.0)
