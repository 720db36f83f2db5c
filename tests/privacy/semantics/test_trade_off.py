"""Largest power: closed forms, brute force over tests and orders, simulation, published tables."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace, RandomizedResponse, Tulap
from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.mechanisms import ExponentialMechanism
from dpinfer.privacy import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    PureDP,
    TradeOff,
    compose_optimal,
    guarantee_of,
    max_power,
    pbdp_delta,
    pbdp_epsilon,
    privacy_loss,
)

ALPHA = np.array([0.01, 0.05, 0.10])
EXTREME = np.array([1e-300, 1e-100, 1e-17, 1e-8, 0.01, 0.3, 0.7, 0.999, 1 - 1e-12])

GUARANTEES = [
    PureDP(0.7),
    ApproxDP(0.7, 1e-3),
    GDP(0.9),
    ZCDP(0.3),
    RDP(3.0, 0.9),
    RDP([1.2, 2, 16], [0.36, 0.6, 4.8]),
    compose_optimal(ApproxDP(0.1, 1e-4), 30),
]


def neyman_pearson(p, q, alpha):
    """Power of the randomized likelihood ratio test of q against p, on a finite set."""
    order = np.argsort(-p / q, kind="stable")
    level = np.concatenate([[0.0], np.cumsum(q[order])])
    power = np.concatenate([[0.0], np.cumsum(p[order])])
    return np.interp(alpha, level, power)


def renyi_boundary(alpha, order, bound):
    """Largest π with both divergences of each order within its bound, by bisection."""
    order, bound = np.broadcast_arrays(np.asarray(order, float), np.asarray(bound, float))

    def divergence(p, q):
        first = order * np.log(p) + (1 - order) * np.log(q)
        rest = order * np.log1p(-p) + (1 - order) * np.log1p(-q)
        kullback_leibler = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
        with np.errstate(divide="ignore", invalid="ignore"):
            renyi = np.logaddexp(first, rest) / (order - 1)
        return np.where(order == 1, kullback_leibler, renyi)

    low, high = np.full(order.shape, alpha), np.full(order.shape, 1.0 - 1e-16)
    for _ in range(60):
        middle = 0.5 * (low + high)
        fits = np.maximum(divergence(middle, alpha), divergence(alpha, middle)) <= bound
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return low


@pytest.mark.parametrize(
    ("epsilon", "printed"),
    [
        (0.1, (0.011, 0.055, 0.111)),
        (0.5, (0.016, 0.082, 0.165)),
        (1.0, (0.027, 0.136, 0.272)),
        (2.0, (0.074, 0.369, 0.739)),
        (4.0, (0.546, 0.983, 0.984)),
    ],
)
def test_the_published_table_for_pure_privacy_with_its_three_misprints_mended(epsilon, printed):
    np.testing.assert_array_equal(max_power(PureDP(epsilon), ALPHA).round(3), printed)


@pytest.mark.parametrize(
    ("rho", "gaussian", "bound"),
    [
        (2.63, (0.49, 0.74, 0.84), (0.70, 0.95, 0.96)),
        (0.1115007437864, (0.03, 0.12, 0.21), (0.04, 0.14, 0.24)),
    ],
)
def test_the_published_tables_for_concentrated_privacy(rho, gaussian, bound):
    np.testing.assert_array_equal(max_power(GDP(np.sqrt(2 * rho)), ALPHA).round(2), gaussian)
    np.testing.assert_array_equal(max_power(ZCDP(rho), ALPHA).round(2), bound)


@pytest.mark.thinned("epsilon", "delta", every=2)
@pytest.mark.parametrize("epsilon", [1e-8, 1e-3, 1.0, 30.0, 700.0])
@pytest.mark.parametrize("delta", [0.0, 1e-300, 1e-12, 0.2])
def test_pure_and_approximate_power_against_forty_digits(epsilon, delta):
    curve = TradeOff(ApproxDP(epsilon, delta) if delta else PureDP(epsilon))
    with mp.workdps(400):
        e, d = mp.mpf(epsilon), mp.mpf(delta)
        for alpha in EXTREME:
            a = mp.mpf(float(alpha))
            power = min(mp.e**e * a + d, 1 - mp.e**-e * (1 - a - d), mp.mpf(1))
            assert curve.power(alpha) == pytest.approx(float(power), rel=1e-13)
            level = max((a - d) * mp.e**-e, 1 - d - mp.e**e * (1 - a), mp.mpf(0))
            # 1 - a is rounded already in the argument, and e^ε makes that larger
            slack = 2e-16 * float(min(mp.e**e, 1e17))
            assert curve.level(alpha) == pytest.approx(float(level), rel=1e-13, abs=slack)


@pytest.mark.parametrize("mu", [1e-8, 1e-3, 1.0, 30.0])
def test_gaussian_power_against_forty_digits(mu):
    curve = TradeOff(GDP(mu))
    with mp.workdps(40):
        for alpha in (1e-300, 1e-100, 1e-8, 0.01, 0.5, 0.9):
            z = mp.findroot(
                lambda x, a=alpha: mp.log(mp.ncdf(x)) - mp.log(mp.mpf(a)),
                mp.mpf(float(stats.norm.ppf(alpha))),
            )
            # an error of the quantile of 1e-16 relative is one of z² in the probability
            rel = 4e-16 * (50 + float(z * z))
            assert curve.power(alpha) == pytest.approx(float(mp.ncdf(z + mu)), rel=rel)
            assert curve.level(alpha) == pytest.approx(float(mp.ncdf(z - mu)), rel=rel + mu * 4e-14)


@pytest.mark.parametrize(("order", "bound"), [(1.01, 0.2), (2.0, 0.5), (10.0, 3.0), (200.0, 9.0)])
def test_renyi_power_of_one_order_by_bisection(order, bound):
    alpha = np.array([1e-6, 0.01, 0.2, 0.6, 0.95])
    expected = [renyi_boundary(a, order, bound) for a in alpha]
    np.testing.assert_allclose(max_power(RDP(order, bound), alpha), expected, rtol=1e-9)


def test_renyi_power_of_several_orders_is_the_least_of_each():
    alpha = np.linspace(0.001, 0.999, 57)
    orders, bounds = [1.1, 2.0, 5.0, 40.0], [0.2, 0.5, 1.0, 9.0]
    single = [max_power(RDP(o, b), alpha) for o, b in zip(orders, bounds, strict=True)]
    np.testing.assert_allclose(
        max_power(RDP(orders, bounds), alpha), np.min(single, axis=0), rtol=1e-12
    )


@pytest.mark.thinned("rho", "alpha", every=2)
@pytest.mark.parametrize("rho", [1e-4, 0.05, 0.5, 2.63, 20.0])
@pytest.mark.parametrize("alpha", [1e-9, 0.01, 0.3, 0.9])
def test_concentrated_power_is_the_least_over_all_orders(rho, alpha):
    orders = np.concatenate([[1.0], 1 + np.geomspace(1e-5, 1e6, 400)])
    for _ in range(4):
        found = renyi_boundary(alpha, orders, orders * rho)
        best = int(np.argmin(found))
        last = orders.size - 1
        finer = np.linspace(orders[max(best - 1, 0)], orders[min(best + 1, last)], 401)
        # between, the divergences of the reference lose digits
        orders = np.concatenate([[1.0], finer[finer >= 1 + 1e-5]])
    assert max_power(ZCDP(rho), alpha) == pytest.approx(found[best], rel=1e-8, abs=1e-11)


@pytest.mark.thinned("rho", "alpha", every=2)
@pytest.mark.parametrize("rho", [0.01, 0.4, 3.0])
@pytest.mark.parametrize("alpha", [1e-4, 0.1, 0.7])
def test_a_decision_at_the_boundary_is_itself_concentrated(rho, alpha):
    power = float(max_power(ZCDP(rho), alpha))
    orders = [1 + mp.mpf(10) ** (mp.mpf(k) / 100) for k in range(-800, 500, 2)]
    with mp.workdps(40):
        pairs = [(mp.mpf(power), mp.mpf(alpha)), (mp.mpf(alpha), mp.mpf(power))]
        excess = [
            mp.log(p**o * q ** (1 - o) + (1 - p) ** o * (1 - q) ** (1 - o)) / (o - 1) / (rho * o)
            - 1
            for o in orders
            for p, q in pairs
        ]
    # no order is above its bound, and one is at it, but for the grid of orders
    assert -1e-3 < max(excess) < 1e-9


def test_concentrated_power_at_a_small_level_against_forty_digits():
    with mp.workdps(60):
        for rho, alpha in ((0.1, 1e-300), (1e-8, 1e-100), (5.0, 1e-200)):
            r, a = mp.mpf(rho), mp.mpf(alpha)

            # for such levels the first term of the divergence alone decides
            def log_power(order, r=r, a=a):
                target = mp.expm1(order * (order - 1) * r) + order * mp.mpf(0)
                return (mp.log1p(target) + (order - 1) * mp.log(a)) / order

            start = mp.sqrt(-mp.log(a) / r)
            best = mp.findroot(lambda x: mp.diff(log_power, x), start)
            expected = log_power(best)
            found = mp.log(mp.mpf(float(max_power(ZCDP(rho), alpha))))
            # the second term, 1 + small, shifts the first by 1 of e^{order²ρ}
            assert abs(found - expected) < 1e-9 + 3 * mp.exp(-best * (best - 1) * r)


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_curves_are_concave_increasing_symmetric_and_inverted(guarantee):
    curve = TradeOff(guarantee)
    alpha = np.linspace(0.0, 1.0, 401)
    power = curve.power(alpha)
    assert (np.diff(power) >= -1e-15).all()
    assert (np.diff(power, 2) <= 1e-12).all()
    assert (power >= alpha).all()
    assert power[-1] == 1.0
    inside = alpha[1:-1]
    reached = curve.power(inside)
    sure = reached < 1 - 1e-9
    np.testing.assert_allclose(curve.level(reached[sure]), inside[sure], rtol=1e-7)
    np.testing.assert_allclose(curve.level(1 - inside), 1 - curve.power(inside), atol=1e-9)
    np.testing.assert_allclose(curve.type_two_error(inside), 1 - reached)


def test_a_divergence_bounds_what_implies_it():
    alpha = np.linspace(0.0, 1.0, 101)
    gaussian, concentrated = max_power(GDP(0.8), alpha), max_power(ZCDP(0.32), alpha)
    assert (gaussian <= concentrated + 1e-12).all()
    some = max_power(ZCDP(0.32).to_rdp([1.5, 2, 4, 8]), alpha)
    assert (concentrated <= some + 1e-12).all()
    pure = PureDP(0.8)
    assert (max_power(pure, alpha) <= max_power(pure.to_zcdp(), alpha) + 1e-12).all()
    assert (max_power(pure, alpha) <= max_power(pure.to_gdp(), alpha) + 1e-12).all()


def test_laplace_power_in_closed_form_and_below_that_of_its_guarantee():
    epsilon = 1.3
    alpha = np.array([0.001, 0.05, 0.2, 0.5, 0.8, 0.99])
    half = 0.5 * np.exp(-epsilon)
    expected = np.select(
        [alpha <= half, alpha <= 0.5],
        [np.exp(epsilon) * alpha, 1 - 0.25 * np.exp(-epsilon) / alpha],
        1 - np.exp(-epsilon) * (1 - alpha),
    )
    found = max_power(Laplace(scale=1 / epsilon), alpha)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert (found <= max_power(PureDP(epsilon), alpha) + 1e-12).all()


@pytest.mark.parametrize(
    ("law", "shift"),
    [
        (Geometric(scale=2.0), 1),
        (Geometric(scale=2.0), 3),
        (DiscreteGaussian(sigma=1.7), 1),
        (DiscreteGaussian(sigma=3.0), 2),
    ],
    ids=str,
)
def test_power_under_integer_noise_by_enumeration(law, shift):
    k = np.arange(-200, 201)
    keep = (law.logpmf(k) > -600) & (law.logpmf(k - shift) > -600)
    p, q = law.pmf(k[keep] - shift), law.pmf(k[keep])
    alpha = np.array([1e-6, 0.01, 0.05, 0.3, 0.8])
    expected = neyman_pearson(p, q, alpha)
    np.testing.assert_allclose(max_power(law, alpha, sensitivity=shift), expected, rtol=1e-8)
    np.testing.assert_allclose(max_power(law, alpha, group=shift), expected, rtol=1e-8)


def test_power_against_randomized_response_and_a_group_of_two():
    channel = RandomizedResponse(p=0.75)
    alpha = np.linspace(0.01, 0.99, 9)
    np.testing.assert_allclose(
        max_power(channel, alpha), max_power(PureDP(np.log(3.0)), alpha), rtol=1e-9
    )
    pair = np.array([9.0, 3.0, 3.0, 1.0]) / 16
    np.testing.assert_allclose(
        max_power(channel, alpha, group=2), neyman_pearson(pair, pair[::-1], alpha), rtol=1e-9
    )


def test_power_of_repeated_mechanisms_by_enumeration():
    epsilon, delta, count = 0.4, 0.02, 7
    j = np.arange(count + 1)
    true = stats.binom.pmf(j, count, 1 / (1 + np.exp(-epsilon)))
    kept = (1 - delta) ** count
    alpha = np.linspace(0.005, 0.995, 30)
    expected = 1 - kept + kept * neyman_pearson(true, true[::-1], np.minimum(alpha / kept, 1))
    guarantee = compose_optimal(ApproxDP(epsilon, delta), count)
    np.testing.assert_allclose(max_power(guarantee, alpha), expected, rtol=1e-12)
    # all (ε, δ) of the curve are tangents of it
    for at in (0.0, 0.3, 1.0, 2.0):
        gap = max_power(guarantee, alpha) - np.exp(at) * alpha
        assert gap.max() <= guarantee.delta_at(at) + 1e-12


@pytest.mark.thinned("scale", "count", every=2)
@pytest.mark.parametrize("scale", [20.0, 5.0, 2.0, 0.7, 0.4, 0.05])
@pytest.mark.parametrize("count", [2, 20, 60, 200, 1000])
def test_inverted_losses_have_the_power_of_binomial_counts(scale, count):
    # a change of 1 under geometric noise is a randomized response: two routes to one curve
    alpha = np.array([1e-100, 1e-30, 1e-9, 0.01, 0.5, 0.9])
    loss = privacy_loss(Geometric(scale=scale), compositions=count)
    binomial = compose_optimal(PureDP(1.0 / scale), count)
    np.testing.assert_allclose(max_power(loss, alpha), max_power(binomial, alpha), rtol=1e-11)


def test_groups():
    alpha = np.array([0.01, 0.2])
    np.testing.assert_allclose(
        max_power(PureDP(0.3), alpha, group=3), max_power(PureDP(0.9), alpha)
    )
    np.testing.assert_allclose(max_power(ZCDP(0.1), alpha, group=2), max_power(ZCDP(0.4), alpha))
    np.testing.assert_allclose(max_power(GDP(0.5), alpha, group=4), max_power(GDP(2.0), alpha))
    np.testing.assert_allclose(
        max_power(Gaussian(sigma=2.0), alpha, sensitivity=3.0, group=2),
        max_power(GDP(3.0), alpha),
    )


@pytest.mark.parametrize("law", [Gaussian(sigma=1.0), Laplace(scale=1.0)], ids=str)
def test_simulated_tests_attain_the_power_and_none_exceeds_it(law):
    rng = np.random.default_rng(20)
    draws = 400_000
    null, other = law.rvs(draws, rng=rng), 1.0 + law.rvs(draws, rng=rng)
    for cut in (-0.5, 0.2, 0.5, 1.2, 2.5):
        level, power = law.sf(cut), np.mean(other > cut)
        # six standard errors: 2e-9 for each of ten comparisons
        error = 6 * np.sqrt(max(power * (1 - power), 1e-4) / draws)
        assert abs(power - max_power(law, level)) < error
        assert abs(np.mean(null > cut) - level) < 6 * np.sqrt(level * (1 - level) / draws)
    # a worse test: the distance from the middle
    level, power = np.mean(np.abs(null) > 1.0), np.mean(np.abs(other) > 1.0)
    assert power < max_power(law, level) - 0.05


def test_a_privacy_loss_of_several_mechanisms():
    loss = privacy_loss(Gaussian(sigma=2.0)) + privacy_loss(Gaussian(sigma=1.0), compositions=2)
    np.testing.assert_allclose(max_power(loss, ALPHA), max_power(GDP(1.5), ALPHA), rtol=1e-9)


def test_ends():
    for guarantee in GUARANTEES:
        curve = TradeOff(guarantee)
        told = curve.power(0.0)
        assert told == pytest.approx(getattr(guarantee, "delta", 0.0), abs=1e-2)
        assert curve.level(1.0) == pytest.approx(1 - told)
        assert curve.level(0.0) == 0.0
        assert curve.power(1.0) == 1.0
    for nothing in (
        PureDP(0.0),
        GDP(0.0),
        ZCDP(0.0),
        RDP(2.0, 0.0),
        privacy_loss(Laplace(scale=1.0), 0.0),
    ):
        np.testing.assert_allclose(max_power(nothing, ALPHA), ALPHA, rtol=1e-15)


def test_mechanisms_of_which_only_the_guarantee_is_known():
    options = ExponentialMechanism(epsilon=0.5)
    np.testing.assert_allclose(max_power(options, ALPHA), max_power(PureDP(0.5), ALPHA))
    tulap = Tulap.from_epsilon(0.5)
    np.testing.assert_allclose(max_power(tulap, ALPHA), max_power(guarantee_of(tulap), ALPHA))


def test_shapes_and_tables():
    assert np.ndim(max_power(ZCDP(1.0), 0.05)) == 0
    assert max_power(PureDP(1.0), np.full((2, 3), 0.05)).shape == (2, 3)
    frame = TradeOff(ZCDP(0.5)).frame()
    assert list(frame.columns) == ["level", "power", "type_two_error"]
    assert len(frame) == 101
    with pytest.raises(InvalidParameterError, match="alpha must be one-dimensional"):
        TradeOff(ZCDP(0.5)).frame([[0.1, 0.2]])
    assert TradeOff(PureDP(1.0)) == TradeOff(PureDP(1.0))
    assert "PureDP" in repr(TradeOff(PureDP(1.0)))


@settings(derandomize=True, deadline=None, max_examples=20)
@given(
    rho=st.floats(0, 1e100),
    alpha=st.lists(st.floats(0, 1), min_size=1, max_size=5),
)
def test_concentrated_power_is_a_power_for_all_budgets(rho, alpha):
    curve = TradeOff(ZCDP(rho))
    power = curve.power(alpha)
    assert np.isfinite(power).all()
    assert ((power >= alpha) & (power <= 1)).all()
    level = curve.level(alpha)
    assert np.isfinite(level).all()
    assert ((level <= alpha) & (level >= 0)).all()


@pytest.mark.parametrize(
    ("protection", "alpha", "options", "message"),
    [
        (PureDP(1.0), 1.1, {}, "alpha must be <= 1"),
        (PureDP(1.0), -0.1, {}, "alpha must be >= 0"),
        (PureDP(1.0), np.nan, {}, "alpha must not contain NaN"),
        (PureDP(1.0), [], {}, "alpha must hold at least one value"),
        (PureDP(1.0), "x", {}, "alpha must hold real numbers"),
        (PureDP(1.0), 0.5, {"group": 0}, "group must be >= 1"),
        (PureDP(1.0), 0.5, {"group": 1.5}, "group must be a whole number"),
        (PureDP(1.0), 0.5, {"sensitivity": 2.0}, "sensitivity must be left at 1"),
        (privacy_loss(Laplace(scale=1.0)), 0.5, {"group": 2}, "group must be 1"),
        (Laplace(scale=1.0), 0.5, {"sensitivity": -1.0}, "sensitivity must be >= 0"),
        (Exact(), 0.5, {}, "adds no noise"),
        (1.0, 0.5, {}, "mechanism must be"),
        (None, 0.5, {}, "mechanism must be"),
        (RDP(2.0, 0.1), 0.5, {"group": 2}, "size must be smaller"),
    ],
)
def test_bad_input(protection, alpha, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        max_power(protection, alpha, **options)
    assert issubclass(InvalidParameterError, DPInferError)


@pytest.mark.parametrize(
    "sigma", [*(pytest.param(s, marks=pytest.mark.slow) for s in (0.01, 0.05)), 0.1]
)
def test_discrete_gaussian_that_is_hardly_noise(sigma):
    # one outcome has nearly all probability, and the worlds share none that is not negligible:
    # the loss is 1/(2 sigma^2), but for outcomes of probability e^(-1/(2 sigma^2))
    law = DiscreteGaussian(sigma=sigma)
    assert pbdp_delta(law, 1.0) == 1.0
    assert max_power(law, 0.05) == 1.0
    assert pbdp_epsilon(law, 1e-6) == pytest.approx(0.5 / sigma**2, rel=1e-9)
