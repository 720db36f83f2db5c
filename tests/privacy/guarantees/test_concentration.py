"""The smallest ρ of mechanisms against the divergences of their worst pairs."""

import mpmath as mp
import numpy as np
import pytest

from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import (
    DiscreteGaussian,
    ExponentialMechanism,
    Gaussian,
    Geometric,
    Laplace,
    RandomizedResponse,
    Tulap,
)
from dpinfer.privacy import PureDP, guarantee_of

EPSILONS = [1e-100, 1e-8, 1e-3, 0.0099, 0.0101, 0.3, 0.999, 1.001, 5.0, 40.0, 700.0, 1e6]
ORDERS = 1.0 + np.logspace(-7, 4, 300)


def zcdp(*arguments, **options):
    return guarantee_of(*arguments, **options, kind="zcdp")


def per_order(log_p, log_q, orders=ORDERS):
    """Largest Rényi divergence per order of two laws on a finite set."""
    best = 0.0
    for order in orders:
        moment = np.logaddexp.reduce(order * log_p + (1 - order) * log_q)
        best = max(best, moment / (order - 1) / order)
    return best


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_laplace_and_exponential_with_many_digits(epsilon):
    with mp.workdps(250):
        e = mp.mpf(epsilon)
        laplace = e + mp.exp(-e) - 1
        r = e / mp.expm1(e)
        exponential = r - 1 - mp.log(r)
    found = zcdp(Laplace(scale=1.0), epsilon).rho
    assert found == pytest.approx(float(laplace), rel=1e-14, abs=0)
    found = zcdp(ExponentialMechanism(epsilon=epsilon)).rho
    assert found == pytest.approx(float(exponential), rel=1e-13, abs=0)
    assert found <= epsilon**2 / 8 * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 3.0, 10.0])
def test_no_order_of_laplace_exceeds_it(epsilon):
    # the moment in closed form (Mironov 2017, Proposition 6)
    a = ORDERS[100:]
    moment = np.logaddexp(
        np.log(a / (2 * a - 1)) + (a - 1) * epsilon, np.log((a - 1) / (2 * a - 1)) - a * epsilon
    )
    rho = zcdp(Laplace(scale=1.0), epsilon).rho
    ratios = moment / (a - 1) / a
    assert (ratios <= rho * (1 + 1e-7)).all()
    assert ratios.max() == pytest.approx(rho, rel=0.01)


@pytest.mark.parametrize("scale", [0.3, 1.0, 6.0])
@pytest.mark.parametrize("change", [1, 2, 5])
def test_no_order_of_geometric_noise_exceeds_it(scale, change):
    law = Geometric(scale=scale)
    k = np.arange(-int(60 * scale + 60), int(60 * scale + 60) + change).astype(float)
    rho = zcdp(law, change).rho
    # a divergence close to order 1 loses digits: sums of k terms divided by order - 1
    found = per_order(law.logpmf(k - change), law.logpmf(k), ORDERS[60:])
    assert found == pytest.approx(rho, rel=1e-4)
    with mp.workdps(40):
        a = mp.exp(-1 / mp.mpf(scale))
        exact = (change - 2 * a * (1 - a**change) / (1 - a * a)) / mp.mpf(scale)
    assert rho == pytest.approx(float(exact), rel=1e-13)


@pytest.mark.thinned("categories", "epsilon", every=2)
@pytest.mark.parametrize("categories", [2, 3, 6, 7, 10, 100, 5000])
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 3.0, 8.0])
def test_no_order_of_randomized_response_exceeds_it(categories, epsilon):
    channel = RandomizedResponse.from_epsilon(epsilon, categories=categories)
    p, q = channel.p, (1 - channel.p) / (categories - 1)
    rest = [np.log((categories - 2) * q)] if categories > 2 else []
    log_p, log_q = np.log([p, q]), np.log([q, p])
    found = per_order(np.r_[log_p, rest], np.r_[log_q, rest], 1 + np.logspace(-5, 4, 2000))
    rho = zcdp(channel).rho
    assert found <= rho * (1 + 1e-5)
    assert rho == pytest.approx(found, rel=1e-4)
    assert rho <= PureDP(channel.epsilon).to_zcdp().rho * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 6.0])
def test_bounded_range_is_the_worst_over_positions(epsilon):
    # options whose losses are epsilon - t and -t, for the worst position t
    best = 0.0
    for t in np.linspace(0.02, 0.98, 97) * epsilon:
        q = np.expm1(t) / np.expm1(epsilon)
        p = q * np.exp(epsilon - t)
        laws = np.log([p, 1 - p]), np.log([q, 1 - q])
        best = max(best, per_order(*laws, ORDERS[::10]))
    rho = zcdp(ExponentialMechanism(epsilon=epsilon)).rho
    assert best <= rho * (1 + 1e-6)
    assert best == pytest.approx(rho, rel=1e-3)


def test_vectors_add_up():
    both = zcdp(Laplace(scale=[1.0, 2.0]), [1.0, 0.5]).rho
    single = zcdp(Laplace(scale=1.0)).rho + zcdp(Laplace(scale=2.0), 0.5).rho
    assert both == pytest.approx(single)
    counts = zcdp(Geometric(scale=2.0), [1, 3]).rho
    assert counts == pytest.approx(
        zcdp(Geometric(scale=2.0)).rho + zcdp(Geometric(scale=2.0), 3).rho
    )
    # one sensitivity shared between cells costs most where one cell takes it all
    assert zcdp(Laplace(scale=1.0), 1.5).rho >= both
    assert zcdp(Geometric(scale=1e9), 10**8).rho == PureDP(0.1).to_zcdp().rho


def test_others_are_converted():
    for law in (Gaussian(sigma=2.0), DiscreteGaussian(sigma=2.0), Tulap(scale=1.0)):
        assert zcdp(law) == guarantee_of(law).to_zcdp()
    assert zcdp(RandomizedResponse(p=0.5)).rho == 0
    assert zcdp(RandomizedResponse(p=0.1, categories=10)).rho == pytest.approx(0, abs=1e-15)
    assert zcdp(Laplace(scale=1.0), 1.0, "replace").neighbours == "replace"
    twice = zcdp(ExponentialMechanism(epsilon=1.0, monotonic=True), neighbours="replace")
    assert twice.rho == zcdp(ExponentialMechanism(epsilon=2.0)).rho
    with pytest.raises(InvalidParameterError, match="implies no zCDP"):
        zcdp(Tulap(scale=1.0, truncation=0.01))
