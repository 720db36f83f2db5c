"""Expectations of functions that are known: moments, and the characteristic function."""

import numpy as np
import pytest

from dpinfer.intervals.widths._nodes import Nodes
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace, Tulap
from dpinfer.mechanisms._noisy_count import NoisyBinomial, NoisyPoisson

LAWS = [
    Laplace(scale=0.01),
    Laplace(scale=3.0),
    Laplace(scale=1e5),
    Gaussian(sigma=0.1),
    Gaussian(sigma=30.0),
    Geometric(scale=0.3),
    Geometric(scale=10.0),
    Geometric(scale=1e6),
    DiscreteGaussian(sigma=3.0),
    Tulap.from_epsilon(0.5),
    Exact(),
]
BINOMIALS = [(1, 0.3), (10, 0.5), (200, 0.01), (5000, 0.2), (10**6, 0.4)]


def binomial(nobs, value, noise):
    law = NoisyBinomial(nobs=np.asarray(float(nobs)), value=np.asarray(value), noise=noise)
    return law, np.sqrt(nobs * value * (1.0 - value))


def check(nodes, mean, std, cf):
    """Compare with the mean, the variance, and the real part of E exp(i(T - mean)/std)."""
    for function, exact in ((np.positive, 0.0), (np.square, 1.0), (np.cos, cf)):
        found, error = nodes.expectation(lambda t, f=function: f((t - mean) / std))
        # the stated error is an estimate
        assert abs(found - exact) <= 5.0 * error + 1e-8
        assert error < 2e-3
    assert nodes.weights.sum() == pytest.approx(1.0, rel=1e-13)
    assert nodes.coarse.sum() == pytest.approx(1.0, rel=1e-13)
    assert nodes.points.size <= 10_000


@pytest.mark.parametrize("noise", LAWS, ids=repr)
@pytest.mark.parametrize(("nobs", "value"), BINOMIALS)
def test_noisy_binomial(noise, nobs, value):
    law, spread = binomial(nobs, value, noise)
    std = np.sqrt(spread**2 + noise.variance)
    shift = np.exp(1j / std) - 1.0
    cf = np.exp(nobs * np.log1p(value * shift) - 1j * nobs * value / std) * noise.cf(1.0 / std)
    check(Nodes.of(law, spread), nobs * value, std, cf.real)


@pytest.mark.parametrize("noise", LAWS, ids=repr)
@pytest.mark.parametrize("rate", [0.01, 3.0, 2e4])
def test_noisy_poisson(noise, rate):
    law = NoisyPoisson(rate=np.asarray(rate), noise=noise)
    std = np.sqrt(rate + noise.variance)
    cf = np.exp(rate * (np.exp(1j / std) - 1.0 - 1j / std)) * noise.cf(1.0 / std)
    check(Nodes.of(law, np.sqrt(rate)), rate, std, cf.real)


def test_few_whole_numbers_have_their_probabilities():
    law, spread = binomial(2, 0.25, Geometric(scale=0.5))
    nodes = Nodes.of(law, spread)
    k = np.arange(-40.0, 43.0)
    chances = enumerate([9 / 16, 6 / 16, 1 / 16])
    pmf = sum(chance * Geometric(scale=0.5).pmf(k - x) for x, chance in chances)
    expected = pmf[np.searchsorted(k, nodes.points)]
    np.testing.assert_allclose(nodes.weights, expected, rtol=1e-4, atol=1e-11)
    assert nodes.expectation(np.positive)[1] == 0.0
