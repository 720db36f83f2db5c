"""Rényi curves of mechanisms against closed forms, quadrature, dp_accounting and limits."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest

from dpinfer import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    DiscreteGaussian,
    Gaussian,
    Geometric,
    Laplace,
    PureDP,
    RandomizedResponse,
    compose,
)
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms import Channel, UnaryEncoding
from dpinfer.privacy import (
    RenyiCurve,
    SubsampledLoss,
    guarantee_of,
    max_power,
    privacy_loss,
    renyi_curve,
)

LN3 = RandomizedResponse.from_epsilon(np.log(3.0))


@pytest.mark.parametrize(
    ("mechanism", "sensitivity", "order", "divergence"),
    [
        (Laplace(scale=1.0), 1.0, 1.0, 0.3678794412),
        (Laplace(scale=1.0), 1.0, 1.5, 0.5128835113),
        (Laplace(scale=1.0), 1.0, 2.0, 0.6191236300),
        (Laplace(scale=1.0), 1.0, 4.0, 0.8136892966),
        (Laplace(scale=1.0), 1.0, 32.0, 0.9781484250),
        (Geometric(scale=1.0), 1, 2.0, 0.7353256641),
        (Geometric(scale=1.0), 3, 2.0, 2.7193620339),
        (Geometric(scale=1.0), 2, 1.5, 1.5711098637),
        (Geometric(scale=1.0), 1, 4.0, 0.8958832596),
        (Geometric(scale=1.0), 1, 1.0, 0.4621171573),
        (Gaussian(sigma=2.0), 3.0, 5.0, 5.625),
        (DiscreteGaussian(sigma=0.5), 1, 1.5, 2.9424609651),
        (DiscreteGaussian(sigma=0.5), 1, 2.5, 4.9808203217),
        (DiscreteGaussian(sigma=0.5), 2, 2.5, 20.0),
        (DiscreteGaussian(sigma=0.4), 1, 1.25, 3.5798868588),
        (DiscreteGaussian(sigma=0.4), 1, 1.0, 3.125),
        (LN3, 1.0, 1.0, 0.5493061443),
        (LN3, 1.0, 2.0, 0.8472978604),
        (LN3, 1.0, 10.0, 1.0666476140),
        (RandomizedResponse(p=0.5, categories=4), 1.0, 2.0, 0.6359887668),
    ],
)
def test_curves_have_the_known_values(mechanism, sensitivity, order, divergence):
    found = renyi_curve(mechanism, sensitivity).divergence(order)
    assert found == pytest.approx(divergence, abs=2e-10, rel=1e-10)


SAMPLED = [
    (2.0, 0.01, 1.0, 1.718134221e-4),
    (4.0, 0.01, 1.0, 3.631540489e-4),
    (32.0, 0.01, 1.0, 11.246275937),
    (8.0, 0.01, 4.0, 2.589912301e-5),
    (2.0, 0.1, 2.0, 2.836228266e-3),
    (1.5, 0.01, 1.0, 1.272537433e-4),
    (2.5, 0.1, 2.0, 3.594077199e-3),
    (4.5, 0.01, 1.0, 4.149270673e-4),
]


@pytest.mark.parametrize(("order", "rate", "sigma", "divergence"), SAMPLED)
def test_sampled_gaussian_noise_has_the_known_values(order, rate, sigma, divergence):
    found = renyi_curve(Gaussian(sigma=sigma), rate=rate).divergence(order)
    assert found == pytest.approx(divergence, rel=4e-10)


def _moments(kind, scale, rate, order):
    """The larger of both divergences, with 25 digits: a sum, or pieces of an integral."""

    def mixed(c):
        return 1 - rate + rate * mpmath.exp(c)

    def total(power):
        if kind == "laplace":
            t = 1 / scale
            inner = mpmath.quad(
                lambda y: mpmath.exp(-y) / 2 * mixed(2 * y - t) ** power, mpmath.linspace(0, t, 9)
            )
            return mixed(-t) ** power / 2 + mpmath.exp(-t) / 2 * mixed(t) ** power + inner
        if kind == "gaussian":
            ends = [-40, -20, -10, -5, 0, 1 / scale, 2 / scale]
            ends += [order / scale + more for more in (0, 3, 12, 25)]
            return mpmath.quad(
                lambda u: mpmath.npdf(u) * mixed(u / scale - 1 / (2 * scale**2)) ** power,
                sorted(set(ends)),
            )
        whole = range(-60, 61)
        if kind == "geometric":
            a = mpmath.exp(-1 / scale)
            mass = [(1 - a) / (1 + a) * a ** abs(k) for k in whole]
            losses = [(abs(k) - abs(k - 2)) / scale for k in whole]
        else:
            mass = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * scale**2)) for k in whole]
            mass = [m / mpmath.fsum(mass) for m in mass]
            losses = [(4 * k - 4) / (2 * scale**2) for k in whole]
        return mpmath.fsum(m * mixed(c) ** power for m, c in zip(mass, losses, strict=True))

    return max(mpmath.log(total(p)) for p in (order, 1 - order)) / (order - 1)


LAWS = {
    "laplace": (Laplace, 1.0),
    "gaussian": (Gaussian, 1.0),
    "geometric": (Geometric, 2),
    "discrete": (DiscreteGaussian, 2),
}


@pytest.mark.parametrize("kind", LAWS)
def test_curves_agree_with_quadrature_and_sums_at_any_order(kind):
    rng = np.random.default_rng(20)
    law, change = LAWS[kind]
    with mpmath.workdps(25):
        for case in range(3):
            integer = kind in ("geometric", "discrete")
            scale = float(np.exp(rng.uniform(-1.0, 0.3 if integer else 1.5)))
            rate = 1.0 if case == 0 else float(np.exp(rng.uniform(-9.0, -0.01)))
            order = 1.0 + float(np.exp(rng.uniform(-5.0, 2.0)))
            noise = law(sigma=scale) if law in (Gaussian, DiscreteGaussian) else law(scale=scale)
            found = renyi_curve(noise, change, rate=rate).divergence(order)
            wanted = _moments(kind, *(mpmath.mpf(x) for x in (scale, rate, order)))
            assert found == pytest.approx(float(wanted), rel=1e-12), (scale, rate, order)


@pytest.mark.thinned("law", "rate", every=2)
@pytest.mark.parametrize(
    "law", [Gaussian(sigma=0.7), Laplace(scale=0.5), DiscreteGaussian(sigma=1.2)]
)
@pytest.mark.parametrize("rate", [1e-9, 1e-3, 0.3, 0.999])
def test_sampled_curves_rise_with_the_order_and_stay_within_their_limits(law, rate):
    curve = renyi_curve(law, rate=rate)
    found = curve.divergence(1.0 + np.geomspace(1e-9, 1e7, 50))
    assert (np.diff(found) >= -1e-13 * found[1:]).all()
    assert found[0] == pytest.approx(curve.divergence(1.0), rel=1e-6)
    # of order 2 towards it the moment is 1 + q²(E[e^2c] - 1); the other direction is smaller here
    whole = np.expm1(renyi_curve(law).divergence(2.0))
    assert curve.divergence(2.0) == pytest.approx(np.log1p(rate**2 * whole), rel=1e-12)


def test_agrees_with_dp_accounting():
    dp_accounting = pytest.importorskip("dp_accounting")
    rdp = pytest.importorskip("dp_accounting.rdp")
    rng = np.random.default_rng(21)
    orders = [2, 3, 5, 8, 16, 64]
    for _ in range(4):
        sigma, rate = float(np.exp(rng.uniform(-0.7, 1.5))), float(np.exp(rng.uniform(-7.0, -0.1)))
        peer = rdp.RdpAccountant(orders)
        event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(sigma))
        peer.compose(dp_accounting.SelfComposedDpEvent(event, 100))
        peer.compose(dp_accounting.LaplaceDpEvent(sigma))
        total = 100 * renyi_curve(Gaussian(sigma=sigma), rate=rate) + renyi_curve(
            Laplace(scale=sigma)
        )
        assert total.divergence(orders) == pytest.approx(np.asarray(peer._rdp), rel=1e-10)
        ours = total.epsilon_at(1e-5)
        assert ours <= RDP(orders, peer._rdp).epsilon_at(1e-5) * (1 + 1e-12)
        assert ours <= peer.get_epsilon(1e-5) * (1 + 1e-12)


@pytest.mark.parametrize(
    "mechanism", [Laplace(scale=2.0), Geometric(scale=1.0), DiscreteGaussian(sigma=1.0), LN3]
)
def test_the_law_of_the_loss_gives_no_larger_epsilon(mechanism):
    curve, loss = 3 * renyi_curve(mechanism), 3 * privacy_loss(mechanism)
    assert loss.epsilon_at(1e-9) <= curve.epsilon_at(1e-9) * (1 + 1e-11)
    for epsilon in (0.0, 1.0):
        assert loss.delta_at(epsilon) <= curve.delta_at(epsilon)
    levels = np.array([0.01, 0.3])
    assert (max_power(loss, levels) <= max_power(curve, levels) + 1e-12).all()


def test_sampled_losses_give_no_larger_epsilon():
    for law in (Gaussian(sigma=1.0), Laplace(scale=1.0), DiscreteGaussian(sigma=1.0)):
        curve = renyi_curve(law, rate=0.05, compositions=50)
        loss = SubsampledLoss(law, rate=0.05, count=50)
        assert loss.epsilon_at(1e-6) <= curve.epsilon_at(1e-6) <= 2.0 * loss.epsilon_at(1e-6)


@pytest.mark.parametrize(
    ("rho", "delta", "epsilon"),
    [(0.5, 1e-6, 5.2215344), (0.01, 0.01, 0.2097595), (0.1, 0.01, 0.9726284)],
)
def test_the_conversion_of_concentrated_curves_is_the_joint_range(rho, delta, epsilon):
    # the Gaussian's curve λρ
    curve = renyi_curve(Gaussian(sigma=float(np.sqrt(0.5 / rho))))
    found = curve.epsilon_at(delta)
    assert found == pytest.approx(epsilon, rel=2e-6)
    assert curve.delta_at(found) == pytest.approx(delta, rel=1e-6)


def test_more_orders_say_no_more_than_the_curve():
    for curve in (
        renyi_curve(Laplace(scale=10.0), compositions=40),
        renyi_curve(Gaussian(sigma=0.8), rate=0.02, compositions=100),
    ):
        orders = 1.0 + np.geomspace(1e-3, 1e3, 400)
        dense = RDP(orders, curve.divergence(orders))
        found, wanted = curve.epsilon_at(1e-4), dense.epsilon_at(1e-4)
        assert found == pytest.approx(wanted, rel=1e-4)
        assert found <= wanted * (1.0 + 1e-9)


def test_at_delta_0_bounded_losses_have_their_largest():
    assert (3 * renyi_curve(Laplace(scale=2.0))).epsilon_at(0.0) == pytest.approx(1.5)
    sampled = renyi_curve(Laplace(scale=1.0), rate=0.1)
    assert sampled.epsilon_at(0.0) == pytest.approx(np.log(1 + 0.1 * np.expm1(1.0)))
    assert sampled.delta_at(sampled.epsilon_at(0.0)) == 0.0
    with pytest.raises(InvalidParameterError, match="delta must be > 0"):
        renyi_curve(Gaussian(sigma=1.0)).epsilon_at(0.0)


def test_curves_add_up():
    a, b = renyi_curve(Laplace(scale=3.0)), renyi_curve(Gaussian(sigma=4.0), 2.0)
    orders = np.array([1.5, 2.0, 7.0])
    both = a.divergence(orders) + b.divergence(orders)
    assert (a + b).divergence(orders) == pytest.approx(both, rel=1e-14)
    assert a + b == compose([a, b])
    assert 3 * a == sum([a, a, a]) == a + 2 * a
    more = compose([a, PureDP(0.5), ZCDP(0.1), GDP(0.3)])
    assert isinstance(more, RenyiCurve)
    others = compose([PureDP(0.5), ZCDP(0.1), GDP(0.3)]).to_rdp(orders).bound
    apart = PureDP(0.5).to_rdp(orders).bound + (0.1 + 0.045) * orders
    assert more.divergence(orders) == pytest.approx(a.divergence(orders) + apart, rel=1e-12)
    assert (apart <= others).all()
    found = a + RDP(orders, [0.1, 0.2, 0.3])
    assert isinstance(found, RDP)
    assert found.bound == pytest.approx(a.divergence(orders) + np.array([0.1, 0.2, 0.3]))
    pair = compose([a, ApproxDP(1.0, 1e-7)], delta=1e-6)
    assert pair.epsilon == pytest.approx(1.0 + a.epsilon_at(9e-7))
    with pytest.raises(IncompatibleReleaseError, match="one neighbour relation"):
        a + replace(b, neighbours="replace")


def test_a_vector_adds_its_cells():
    orders = np.array([1.0, 2.0, 5.0])
    law = Laplace(scale=[1.0, 2.0])
    found = renyi_curve(law, [1.0, 3.0]).divergence(orders)
    cells = [renyi_curve(Laplace(scale=s), c).divergence(orders) for s, c in ((1, 1), (2, 3))]
    assert found == pytest.approx(sum(cells), rel=1e-14)
    assert renyi_curve(law, [0.0, 0.0]).epsilon_at(0.0) == 0.0


def test_groups_are_as_far_apart_as_their_members():
    orders = np.array([2.0, 4.5])
    for law in (Laplace(scale=3.0), Gaussian(sigma=3.0), Geometric(scale=3.0)):
        group = renyi_curve(law).group(3)
        assert group.divergence(orders) == pytest.approx(renyi_curve(law, 3).divergence(orders))
    answers = renyi_curve(LN3).group(3)
    assert answers.divergence(orders) == pytest.approx(3 * renyi_curve(LN3).divergence(orders))
    # a sample: 3 times the bound at twice the order
    sampled = renyi_curve(Laplace(scale=2.0), rate=0.1)
    assert sampled.to_replace().neighbours == "replace"
    bound = 3 * sampled.divergence(2 * orders)
    assert sampled.group(2).divergence(orders) == pytest.approx(
        np.minimum(bound, 2 * sampled.epsilon_at(0))
    )
    # two records, each drawn or not: three places of the noise
    x = np.linspace(-60.0, 62.0, 244_001)
    laws = [np.exp(-np.abs(x - k) / 2.0) for k in range(3)]
    mixture = 0.81 * laws[0] + 0.18 * laws[1] + 0.01 * laws[2]
    for order, bound in zip(orders, sampled.group(2).divergence(orders), strict=True):
        moment = (laws[0] * (mixture / laws[0]) ** order).sum() / laws[0].sum()
        assert np.log(moment) / (order - 1) <= bound


def test_channels_have_curves():
    matrix = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7]]
    channel = Channel(matrix)
    curve = renyi_curve(channel, compositions=3)
    moments = [
        np.log(sum(p**2.5 * q**-1.5 for p, q in zip(one, other, strict=True))) / 1.5
        for one in matrix
        for other in matrix
    ]
    assert curve.divergence(2.5) == pytest.approx(3 * max(moments))
    assert curve.neighbours == "replace"
    assert curve.epsilon_at(0.0) == pytest.approx(3 * np.log(7.0))
    assert curve.group(2).divergence(2.5) == pytest.approx(6 * max(moments))
    same = renyi_curve(Channel(LN3.matrix))
    assert same.epsilon_at(0.01) == pytest.approx(renyi_curve(LN3).epsilon_at(0.01), rel=1e-9)
    bits = UnaryEncoding.optimised(1.0, categories=50)
    assert renyi_curve(bits).divergence(1e8) == pytest.approx(1.0, rel=1e-6)


def test_converts_to_orders_and_to_nothing_else():
    curve = renyi_curve(Laplace(scale=1.0))
    assert curve.to_rdp([2.0, 4.0]).bound == pytest.approx(curve.divergence([2.0, 4.0]))
    for convert in (curve.to_pure_dp, curve.to_zcdp, curve.to_gdp):
        with pytest.raises(InvalidParameterError, match="implies no"):
            convert()
    assert curve.to_approx_dp(1e-6).epsilon == curve.epsilon_at(1e-6)
    ratio = curve.divergence(np.array([1.0, 1.5, 4.0])) / np.array([1.0, 1.5, 4.0])
    assert ratio.max() == pytest.approx(guarantee_of(Laplace(scale=1.0), kind="zcdp").rho)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: renyi_curve(LN3, rate=0.5), "rate must be 1"),
        (lambda: renyi_curve(Laplace(scale=[1.0, 2.0]), [1.0, 1.0], rate=0.5), "one sample"),
        (lambda: renyi_curve(Laplace(scale=1e-3), rate=0.5), "about 20 times the scale"),
        (lambda: renyi_curve(Laplace(scale=1.0), rate=0.0), "rate must be"),
        (lambda: renyi_curve(PureDP(1.0)), "mechanism must be"),
        (lambda: renyi_curve(Channel.name_and_shame(0.1)), "no ε at δ = 0"),
        (lambda: renyi_curve(LN3, 2.0), "sensitivity must be left"),
        (lambda: RenyiCurve(((Laplace(scale=1.0), 1),)), "renyi_curve makes"),
        (lambda: renyi_curve(Laplace(scale=1.0)).divergence(0.5), "order must be"),
    ],
)
def test_refuses_what_has_no_curve(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call()
