"""ε of many compositions beside the privacy loss distributions of dp-accounting."""

import pytest

from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace
from dpinfer.privacy import SubsampledLoss, privacy_loss

DELTA = 1e-6
STEPS, RATE = 10**4, 0.01


def accounting():
    """The library, where it is installed."""
    pytest.importorskip("dp_accounting")
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution


@pytest.mark.benchmark(group="discrete Gaussian, sigma 100, 10,000 times")
def test_discrete_gaussian(benchmark):
    def run():
        return privacy_loss(DiscreteGaussian(sigma=100.0), compositions=10**4).epsilon_at(DELTA)

    assert round(benchmark(run), 3) == 4.887


@pytest.mark.benchmark(group="discrete Gaussian, sigma 100, 10,000 times")
def test_discrete_gaussian_dp_accounting(benchmark):
    pld = accounting()

    def run():
        loss = pld.from_discrete_gaussian_mechanism(100.0, sensitivity=1)
        return loss.self_compose(10**4).get_epsilon_for_delta(DELTA)

    # on its default grid it is loose here
    assert benchmark(run) > 4.8


@pytest.mark.benchmark(group="discrete Gaussian, sigma 1,000, a million times")
def test_wide_discrete_gaussian(benchmark):
    def run():
        return privacy_loss(DiscreteGaussian(sigma=1e3), compositions=10**6).epsilon_at(DELTA)

    assert round(benchmark(run), 3) == 4.887


@pytest.mark.benchmark(group="discrete Gaussian, sigma 1,000, a million times")
def test_wide_discrete_gaussian_dp_accounting(benchmark):
    pld = accounting()

    def run():
        loss = pld.from_discrete_gaussian_mechanism(1e3, sensitivity=1)
        return loss.self_compose(10**6).get_epsilon_for_delta(DELTA)

    assert benchmark(run) > 4.8


@pytest.mark.benchmark(group="Laplace, scale 10, 100 times")
def test_laplace(benchmark):
    def run():
        return privacy_loss(Laplace(scale=10.0), compositions=100).epsilon_at(DELTA)

    assert 4.0 < benchmark(run) < 5.0


@pytest.mark.benchmark(group="Laplace, scale 10, 100 times")
def test_laplace_dp_accounting(benchmark):
    pld = accounting()

    def run():
        return pld.from_laplace_mechanism(10.0).self_compose(100).get_epsilon_for_delta(DELTA)

    assert 4.0 < benchmark(run) < 5.0


@pytest.mark.benchmark(group="geometric, scale 100, 10,000 times")
def test_geometric(benchmark):
    def run():
        return privacy_loss(Geometric(scale=100.0), compositions=10**4).epsilon_at(DELTA)

    assert 4.0 < benchmark(run) < 6.0


@pytest.mark.benchmark(group="geometric, scale 100, 10,000 times")
def test_geometric_dp_accounting(benchmark):
    pld = accounting()

    def run():
        loss = pld.from_discrete_laplace_mechanism(0.01).self_compose(10**4)
        return loss.get_epsilon_for_delta(DELTA)

    assert 4.0 < benchmark(run) < 60.0


SAMPLED = {
    "Gaussian": (Gaussian(sigma=1.0), 6.907, lambda pld: (pld.from_gaussian_mechanism, 1.0)),
    "Laplace": (Laplace(scale=2.0), 2.118, lambda pld: (pld.from_laplace_mechanism, 2.0)),
    "geometric": (
        Geometric(scale=2.0),
        2.287,
        lambda pld: (pld.from_discrete_laplace_mechanism, 0.5),
    ),
    "discrete Gaussian": (
        DiscreteGaussian(sigma=1.0),
        6.907,
        lambda pld: (pld.from_discrete_gaussian_mechanism, 1.0),
    ),
}
"""A noise, ε of its steps, and what makes the same of dp-accounting."""


def sampled(noise, steps=STEPS):
    return SubsampledLoss(SAMPLED[noise][0], rate=RATE, count=steps).epsilon_at(DELTA)


def sampled_dp_accounting(noise, steps=STEPS):
    make, parameter = SAMPLED[noise][2](accounting())
    loss = make(parameter, sampling_prob=RATE, use_connect_dots=True)
    return loss.self_compose(steps).get_epsilon_for_delta(DELTA)


@pytest.mark.benchmark(group="on Poisson samples, 10,000 times")
@pytest.mark.parametrize("noise", SAMPLED)
def test_sampled(benchmark, noise):
    assert round(benchmark(sampled, noise), 3) == SAMPLED[noise][1]


@pytest.mark.benchmark(group="on Poisson samples, 10,000 times")
@pytest.mark.parametrize("noise", SAMPLED)
def test_sampled_dp_accounting(benchmark, noise):
    # an upper bound, near to ε on its default grid
    assert 0.0 < benchmark(sampled_dp_accounting, noise) - sampled(noise) < 1e-3
