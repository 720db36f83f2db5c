"""Conversions between guarantees against 40 digits of mpmath, and against their worst pairs."""

import itertools
import warnings
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.privacy import GDP, RDP, ZCDP, ApproxDP, Guarantee, PureDP, max_power

mp.mp.dps = 40

EPSILONS = [1e-8, 1e-3, 0.3, 1.0, 5.0, 40.0, 700.0]
DELTAS = [1e-300, 1e-100, 1e-12, 1e-6, 0.01, 0.4]
ORDERS = [1.0 + 1e-9, 1.001, 1.5, 2.0, 33.0, 1e4, 1e10]


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(40):
        yield


def response_divergence(epsilon, order):
    p = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
    q, a = 1 - p, mp.mpf(order)
    if epsilon > 80:  # q needs more digits than 40
        q = mp.exp(-mp.mpf(epsilon)) / (1 + mp.exp(-mp.mpf(epsilon)))
    return mp.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_pure_to_renyi_is_the_divergence_of_randomized_response(epsilon):
    bounds = PureDP(epsilon).to_rdp(ORDERS).bound
    for order, bound in zip(ORDERS, bounds, strict=True):
        with mp.workdps(70):
            exact = response_divergence(epsilon, order)
        assert bound == pytest.approx(float(exact), rel=1e-13)
        assert bound <= epsilon


@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 1.0, 5.0, 40.0])
def test_tight_zcdp_is_the_largest_divergence_per_order(epsilon):
    rho = PureDP(epsilon).to_zcdp().rho
    orders = [1 + mp.mpf(10) ** power for power in np.linspace(-12, 4, 65)]
    ratios = [response_divergence(epsilon, order) / order for order in orders]
    assert all(later < earlier for earlier, later in itertools.pairwise(ratios))
    assert rho == pytest.approx(float(ratios[0]), rel=1e-9)
    assert rho * (1 + 1e-15) >= float(ratios[0])
    assert PureDP(epsilon).to_zcdp(method="simple").rho == epsilon**2 / 2 >= rho


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_pure_to_gdp_is_the_smallest_mu(epsilon):
    mu = PureDP(epsilon).to_gdp().mu
    # both trade-off curves pass through the kink at level 1/(1 + e^ε), in logarithms
    kink = -mp.log1p(mp.exp(epsilon))
    tail = mp.erfc(mp.mpf(mu) / (2 * mp.sqrt(2)))
    assert float(mp.log(tail / 2)) == pytest.approx(float(kink), rel=1e-13)
    levels = np.linspace(0.0, 1.0, 1001)[1:-1]
    from scipy.stats import norm

    power = norm.sf(norm.isf(levels) - mu)
    pure = np.minimum(np.exp(epsilon) * levels, 1 - np.exp(-epsilon) * (1 - levels))
    assert (power >= pure - 1e-12).all()


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.999, 1.0, 2.0])
def test_pure_curve(epsilon, share):
    at = share * epsilon
    e, a = mp.mpf(epsilon), mp.mpf(at)
    exact = max((mp.exp(e) - mp.exp(a)) / (1 + mp.exp(e)), mp.mpf(0))
    delta = PureDP(epsilon).delta_at(at)
    assert delta == pytest.approx(float(exact), rel=1e-13, abs=0)
    if 1e-4 < delta < 1:
        loss = mp.log(mp.exp(e) - mp.mpf(delta) * (1 + mp.exp(e)))
        assert PureDP(epsilon).epsilon_at(delta) == pytest.approx(
            max(float(loss), 0.0), rel=1e-12, abs=1e-15
        )


def zcdp_exact(rho, delta):
    """The optimised ε: a fine search over orders followed by 40-digit root finding."""
    r, log = mp.mpf(rho), -mp.log(mp.mpf(delta))

    def slope(b):
        return b * b * r + mp.log1p(b) - log

    lower, upper = mp.mpf(0), min(mp.sqrt(log / r), mp.expm1(log))
    for _ in range(200):
        middle = (lower + upper) / 2
        lower, upper = (middle, upper) if slope(middle) < 0 else (lower, middle)
    a = 1 + upper
    return a * r + (log - mp.log(a)) / (a - 1) + mp.log(1 - 1 / a)


@pytest.mark.thinned("rho", "delta", every=3)
@pytest.mark.parametrize("rho", [1e-16, 1e-8, 0.1, 1.0, 30.0, 1e6])
@pytest.mark.parametrize("delta", DELTAS)
def test_zcdp_to_approximate(rho, delta):
    formula = max(float(zcdp_exact(rho, delta)), 0.0)
    guarantee = ZCDP(rho)
    epsilon = guarantee.epsilon_at(delta)
    assert epsilon <= formula * (1 + 1e-13)
    if delta**2 >= min(rho / 2, 1 - np.exp(-rho)):
        assert epsilon == 0
    elif delta < 1e-100 or rho > 1e5:  # where it loses next to nothing
        assert epsilon == pytest.approx(formula, rel=1e-6)
    simple = guarantee.to_approx_dp(delta, method="simple").epsilon
    assert simple == pytest.approx(
        float(mp.mpf(rho) + 2 * mp.sqrt(-mp.mpf(rho) * mp.log(mp.mpf(delta)))), rel=1e-14
    )
    assert epsilon <= simple
    if epsilon > 0:
        # a relative change of ε changes ln δ by (α - 1)·ε times as much
        tolerance = 1e-12 + 1e-15 * epsilon * np.sqrt(-np.log(delta) / rho)
        assert guarantee.delta_at(epsilon) == pytest.approx(delta, rel=tolerance)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 8.0])
def test_zcdp_delta_is_below_that_of_any_order(epsilon):
    a = 1 + np.logspace(-6, 6, 100_001)
    for rho in (1e-4, 0.1, 3.0):
        log_delta = (a - 1) * (a * rho - epsilon + np.log1p(-1 / a)) - np.log(a)
        distance = np.sqrt(min(rho / 2, 1 - np.exp(-rho)))
        found = ZCDP(rho).delta_at(epsilon)
        assert found <= min(np.exp(log_delta.min()), distance) * (1 + 1e-12)


def joint_range(rho, delta):
    """ε by brute force: the best of many tests that divergences of many orders allow."""
    t = np.concatenate([[1e-9], np.geomspace(1e-2, 1e3, 2001)])[:, None]

    def excess(log_power, log_level, t):
        # of ln(p^(1+t)/q^t + ...) over t(1+t) beyond ρ, both ways round
        forth = [log_power, np.log1p(-np.exp(log_power))]
        back = [log_level, np.log1p(-np.exp(log_level))]
        worst = np.full(log_power.shape, -np.inf)
        for p, q in ((forth, back), (back, forth)):
            moment = np.logaddexp(*((1 + t) * a - t * b for a, b in zip(p, q, strict=True)))
            worst = np.maximum(worst, (moment / t / (1 + t)).max(axis=0))
        return worst - rho

    def gains(log_odds, t):
        log_power = special.log_expit(log_odds)
        low, high = log_power - rho - 2 * np.sqrt(-rho * log_power) - 1e-6, log_power - 1e-12
        for _ in range(30):  # to 1e-8
            middle = (low + high) / 2
            beyond = excess(log_power, middle, t) > 0
            low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
        with np.errstate(divide="ignore"):
            beside = np.log(-np.expm1(np.minimum(np.log(delta) - log_power, 0.0)))
        return log_power + beside - high

    # more closely, and by all tests, where the best of all are
    log_odds = np.linspace(np.log(delta), 12.0, 200)
    best = np.clip(gains(log_odds, t[::8]).argmax(), 2, len(log_odds) - 3)
    return gains(np.linspace(log_odds[best - 2], log_odds[best + 2], 200), t).max()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rho", "delta"),
    [(0.01, 0.01), (0.1, 0.01), (0.5, 1e-6), (0.125, 0.01), (0.01, 0.05), (3, 0.3)],
)
def test_zcdp_converts_at_the_joint_range(rho, delta):
    assert ZCDP(rho).epsilon_at(delta) == pytest.approx(joint_range(rho, delta), rel=1e-5)


@pytest.mark.parametrize(
    ("rho", "delta", "epsilon"),
    [(0.01, 0.01, 0.2097595), (0.1, 0.01, 0.9726284), (0.5, 1e-6, 5.2215344)],
)
def test_zcdp_has_the_known_values(rho, delta, epsilon):
    assert ZCDP(rho).epsilon_at(delta) == pytest.approx(epsilon, rel=1e-6)
    # which those that RDP has at many orders come near from above
    orders = 1 + np.geomspace(1e-2, 1e3, 300)
    several = ZCDP(rho).to_rdp(orders).epsilon_at(delta)
    assert epsilon * (1 - 1e-6) <= several <= epsilon * (1 + 1e-3)


def test_zcdp_bounds_the_gaussian_from_above():
    for mu, delta in itertools.product([0.01, 1.0, 10.0], DELTAS):
        assert GDP(mu).epsilon_at(delta) <= GDP(mu).to_zcdp().epsilon_at(delta)


def gaussian_delta(mu, epsilon):
    m, e = mp.mpf(mu), mp.mpf(epsilon)
    with mp.workdps(80):
        return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)


@pytest.mark.thinned("mu", "quantile", every=2)
@pytest.mark.parametrize("mu", [1e-8, 1e-3, 0.3, 1.0, 5.0, 36.0, 300.0])
@pytest.mark.parametrize("quantile", [-9.0, -5.0, -0.4, 0.0, 1.0, 8.0, 30.0, 36.9])
def test_gaussian_curve(mu, quantile):
    epsilon = mu * (quantile + mu / 2)
    if epsilon < 0:
        return
    exact = gaussian_delta(mu, epsilon)
    delta = GDP(mu).delta_at(epsilon)
    # rounding ε changes ln δ by about quantile·ε/μ roundings
    tolerance = 1e-12 + 1e-15 * abs(quantile) * epsilon / mu
    assert delta == pytest.approx(float(exact), rel=tolerance, abs=1e-320)
    if 1e-307 < delta < 0.9:
        assert GDP(mu).epsilon_at(delta) == pytest.approx(epsilon, rel=1e-12)


@pytest.mark.parametrize("mu", [1e-100, 1e-8, 1.0, 1e8, 1e100])
def test_gaussian_curve_at_the_ends(mu):
    guarantee = GDP(mu)
    values = guarantee.epsilon_at([1e-300, 1e-100, 0.5, 1 - 1e-16])
    assert np.isfinite(values).all()
    assert (np.diff(values) <= 0).all()
    deltas = guarantee.delta_at([0.0, 1e-8, 1.0, 700.0, 1e300])
    assert ((deltas >= 0) & (deltas <= 1)).all()
    assert (np.diff(deltas) <= 0).all()


def test_gaussian_divergence_by_integration():
    mu, order = 0.7, 3.5
    integral = mp.quad(
        lambda x: mp.npdf(x, mu, 1) ** order * mp.npdf(x, 0, 1) ** (1 - order), [-30, 0, 5, 40]
    )
    assert GDP(mu).to_rdp(order).bound == pytest.approx(float(mp.log(integral) / (order - 1)))


def formula_of_orders(orders, bounds, delta):
    """Proposition 12 of Canonne, Kamath and Steinke, at the best order: an upper bound."""
    shift = (np.log(delta) + np.log(orders)) / (orders - 1)
    return (bounds - shift + np.log1p(-1 / orders)).min()


def test_renyi_is_never_looser_than_the_formula_at_the_best_order():
    orders = np.array([1.5, 2.0, 7.0, 64.0, 1e4])
    guarantee = ZCDP(0.2).to_rdp(orders)
    for delta in DELTAS:
        exact = max(formula_of_orders(orders, orders * 0.2, delta), 0.0)
        assert guarantee.epsilon_at(delta) <= exact * (1 + 1e-13)
        # the powers that all orders allow are not those of zCDP alone, which has a formula
        if delta <= 1e-6:
            assert guarantee.epsilon_at(delta) == pytest.approx(exact, rel=1e-4)
    dense = ZCDP(0.2).to_rdp(1 + np.logspace(-3, 4, 8_000))
    assert dense.epsilon_at(1e-6) == pytest.approx(ZCDP(0.2).epsilon_at(1e-6), rel=1e-6)
    assert dense.delta_at(2.0) == pytest.approx(ZCDP(0.2).delta_at(2.0), rel=2e-2)


def largest_slope(orders, bounds, delta):
    """Largest ln((π - δ)/α) within the bounds in both directions, by nested scalar searches."""

    def divergence(order, p, q):
        with np.errstate(over="ignore"):
            moment = p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)
        return np.log(min(moment, 1e300)) / (order - 1)

    def level(power):
        def excess(log_ratio):
            q = power * np.exp(-log_ratio)
            pairs = zip(orders, bounds, strict=True)
            return max(max(divergence(o, power, q), divergence(o, q, power)) - b for o, b in pairs)

        return power * np.exp(-optimize.brentq(excess, 1e-9, 80.0, xtol=1e-14))

    def slope(logit):
        power = delta + (1 - delta) * special.expit(logit)
        return -np.log((power - delta) / level(power))

    grid = np.linspace(np.log(delta) - 4, 8.0, 81)
    best = int(np.argmin([slope(at) for at in grid]))
    ends = (grid[max(best - 1, 0)], grid[min(best + 1, 80)])
    found = optimize.minimize_scalar(slope, bounds=ends, method="bounded", options={"xatol": 1e-9})
    return -found.fun


@pytest.mark.parametrize(
    ("orders", "bounds", "delta"),
    [
        ([2.0], [0.5], 1e-3),
        ([2.0], [3.0], 1e-6),
        ([1.5], [1.0], 0.01),
        ([2.0], [0.01], 1e-3),
        ([2.0, 8.0, 32.0], [0.2, 0.8, 3.2], 1e-6),
        ([1.2, 3.0], [0.1, 0.4], 0.02),
    ],
)
def test_renyi_is_as_tight_as_its_own_curve_of_powers(orders, bounds, delta):
    guarantee = RDP(orders, bounds) if len(orders) > 1 else RDP(orders[0], bounds[0])
    epsilon = guarantee.epsilon_at(delta)
    assert epsilon == pytest.approx(largest_slope(orders, bounds, delta), rel=1e-7)
    assert guarantee.delta_at(epsilon) == pytest.approx(delta, rel=1e-8)
    # no line of that slope is crossed by a test that the divergences allow
    level = np.geomspace(1e-30, 0.9, 8001)
    gain = max_power(guarantee, level) - np.exp(epsilon) * level
    assert gain.max() == pytest.approx(delta, rel=1e-3)
    assert gain.max() <= delta * (1 + 1e-9)
    if (orders, delta) == ([2.0], 1e-3) and bounds == [0.5]:
        assert epsilon == pytest.approx(5.09484970434, rel=1e-9)
        assert formula_of_orders(np.array(orders), np.array(bounds), delta) == pytest.approx(
            6.02146
        )


def test_agreement_with_dp_accounting():
    accounting = pytest.importorskip("dp_accounting.rdp.rdp_privacy_accountant")
    orders = np.array([1.5, 2.0, 7.0, 64.0, 1e3])
    for rho in (1e-6, 0.01, 0.2, 5.0):
        guarantee = ZCDP(rho).to_rdp(orders)
        for delta in (1e-12, 1e-6, 1e-2, 0.4):
            peer = accounting.compute_epsilon(orders, guarantee.bound, delta)[0]
            # the peer takes the formula at the best order, or for small bounds one that is better
            assert guarantee.epsilon_at(delta) <= peer * (1 + 1e-12)
            if delta <= 1e-6 and rho > 1e-3:
                assert guarantee.epsilon_at(delta) == pytest.approx(peer, rel=3e-2)


def test_renyi_between_orders_bounds_the_divergence():
    curve = PureDP(1.3).to_rdp([1.2, 2.0, 5.0, 40.0])
    between = np.linspace(1.01, 40.0, 500)
    assert (curve.to_rdp(between).bound >= PureDP(1.3).to_rdp(between).bound - 1e-15).all()
    assert curve.to_rdp([1.2, 2, 5, 40]) == curve
    # a larger order bounds a smaller one
    assert RDP([2, 3], [0.9, 0.5]).to_rdp(2).bound == 0.5
    assert RDP([3, 2, 3], [0.5, 0.1, 0.4]) == RDP([2, 3], [0.1, 0.4])


def test_renyi_at_one_order_is_never_below_the_exact_conversion():
    # (ε, δ) of the worst binary pair of laws within the bound of the order, by brute force
    order, bound, epsilon = 3.0, 0.4, 0.5
    q = np.linspace(1e-9, 1 - 1e-9, 10_001)
    best = 0.0
    for p in np.linspace(1e-9, 1 - 1e-9, 501):
        moment = p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)
        allowed = moment <= np.exp((order - 1) * bound)
        best = max(best, (p - np.exp(epsilon) * q[allowed]).max(initial=0.0))
    found = RDP(order, bound).delta_at(epsilon)
    # to the width of the grid
    assert best <= found <= 1.002 * best


def test_approximate_curve_is_that_of_its_worst_pair():
    epsilon, delta = 1.2, 0.03
    p = np.exp(epsilon) / (1 + np.exp(epsilon))
    first = np.array([delta, 0.0, (1 - delta) * p, (1 - delta) * (1 - p)])
    second = np.array([0.0, delta, (1 - delta) * (1 - p), (1 - delta) * p])
    guarantee = ApproxDP(epsilon, delta)
    for at in (0.0, 0.4, 1.0, 1.2, 3.0):
        exact = np.maximum(first - np.exp(at) * second, 0.0).sum()
        assert guarantee.delta_at(at) == pytest.approx(exact, rel=1e-13)
        if at < epsilon:
            assert guarantee.epsilon_at(exact) == pytest.approx(at, abs=1e-14)
    assert guarantee.epsilon_at(delta) == pytest.approx(epsilon, rel=1e-15)


@pytest.mark.parametrize("size", [2, 3, 10])
def test_groups_by_chains_of_worst_pairs(size):
    epsilon, delta = 0.4, 1e-3
    # δ_{k+1} = δ + e^ε δ_k
    total = 0.0
    for _ in range(size):
        total = delta + np.exp(epsilon) * total
    group = ApproxDP(epsilon, delta).group(size)
    assert (group.epsilon, group.delta) == pytest.approx((size * epsilon, total), rel=1e-13)
    assert ApproxDP(0.0, delta).group(size).delta == pytest.approx(size * delta)
    assert PureDP(epsilon).group(size) == PureDP(size * epsilon)
    assert ZCDP(0.1).group(size).rho == pytest.approx(size**2 * 0.1)
    assert GDP(0.1).group(size).mu == pytest.approx(size * 0.1)


def test_groups_of_a_renyi_curve_cover_the_gaussian():
    # the divergence of a Gaussian at distance k is known exactly: order·(kμ)²/2
    mu = 0.3
    curve = GDP(mu).to_rdp([4.0, 8.0, 16.0, 64.0])
    for size in (2, 3, 4):
        order, bound = curve.group(size).curve
        assert (bound >= order * (size * mu) ** 2 / 2).all()
    with pytest.raises(InvalidParameterError, match="size must be smaller, got 100"):
        curve.group(100)
    # one order stays one order: half of it, and three times its bound
    assert RDP(8.0, 0.1).group(2) == RDP(4.0, 0.1 * 3.0)
    assert isinstance(RDP(8.0, 0.1).group(2).order, float)


def test_replacing_is_a_group_of_two():
    assert PureDP(0.5).to_replace() == PureDP(1.0, neighbours="replace")
    assert ZCDP(0.5).to_replace() == ZCDP(2.0, neighbours="replace")
    kept = GDP(0.5, neighbours="replace")
    assert kept.to_replace() is kept


@pytest.mark.parametrize(
    "convert",
    [
        lambda: ApproxDP(1.0, 1e-6).to_pure_dp(),
        lambda: ApproxDP(1.0, 1e-6).to_zcdp(),
        lambda: ApproxDP(1.0, 1e-6).to_rdp(2),
        lambda: ApproxDP(1.0, 1e-6).to_gdp(),
        lambda: ZCDP(0.1).to_pure_dp(),
        lambda: ZCDP(0.1).to_gdp(),
        lambda: GDP(0.1).to_pure_dp(),
        lambda: RDP(2, 0.1).to_pure_dp(),
        lambda: RDP(2, 0.1).to_zcdp(),
        lambda: RDP(2, 0.1).to_gdp(),
        lambda: RDP(2, 0.1).to_rdp(3),
    ],
)
def test_conversions_that_do_not_exist_say_why(convert):
    with pytest.raises(InvalidParameterError, match=r"implies no .*: "):
        convert()


@pytest.mark.parametrize("guarantee", [ZCDP(0.1), GDP(0.1), RDP(2, 0.1), ApproxDP(1, 1e-6)])
def test_no_finite_epsilon(guarantee):
    with pytest.raises(InvalidParameterError, match="no finite epsilon"):
        guarantee.epsilon_at(0.0)


@pytest.mark.parametrize(
    "guarantee", [PureDP(0), ZCDP(0), GDP(0), RDP(2, 0), ApproxDP(0, 0), RDP([2, 3], [0, 0])]
)
def test_no_privacy_loss_at_all(guarantee):
    assert guarantee.epsilon_at(0.0) == 0
    assert guarantee.delta_at(0.0) == 0
    same = type(guarantee)(**vars(guarantee))
    assert same == guarantee
    assert hash(same) == hash(guarantee)
    assert isinstance(guarantee, RDP) or guarantee.group(7) == guarantee


@pytest.mark.parametrize(("order", "bound"), [([2, 3], [0.1]), (2, [0.1]), ([[2, 3]], [[1, 1]])])
def test_every_order_has_a_bound(order, bound):
    with pytest.raises(InvalidParameterError, match="arrays of one length, got shapes"):
        RDP(order, bound)


def test_arrays_in_arrays_out():
    for guarantee in (PureDP(1), ZCDP(0.1), GDP(1), RDP([2, 4], [0.1, 0.2]), ApproxDP(1, 1e-9)):
        grid = np.array([[1e-6, 1e-3, 0.1]])
        values = guarantee.epsilon_at(grid)
        assert values.shape == (1, 3)
        assert type(guarantee.epsilon_at(0.1)) is float
        assert values[0, 2] == guarantee.epsilon_at(0.1)
        assert guarantee.delta_at(values).shape == (1, 3)
        assert type(guarantee.delta_at(1.0)) is float


def test_repr_shows_the_relation():
    assert repr(PureDP(1)) == "PureDP(epsilon=1.0, neighbours='add-remove')"
    assert repr(ApproxDP(1, 0.1, neighbours="replace")) == (
        "ApproxDP(epsilon=1.0, delta=0.1, neighbours='replace')"
    )


ODD = st.one_of(
    st.floats(),
    st.floats(-1, 2),
    st.sampled_from([None, "1", [], [1.0, 2.0], 1j, True, np.nan, 10**400, np.array([[1.0]])]),
)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    st.sampled_from([PureDP, ZCDP, GDP, RDP, ApproxDP]),
    ODD,
    ODD,
    ODD,
    st.sampled_from(["add-remove", "replace", "both", None]),
)
def test_bad_input_gives_clear_errors_only(kind, first, second, at, neighbours):
    arguments = (first, second) if kind in (RDP, ApproxDP) else (first,)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            guarantee = kind(*arguments, neighbours=neighbours)
        except DPInferError:
            return
        for call in (
            guarantee.delta_at,
            guarantee.epsilon_at,
            guarantee.to_approx_dp,
            guarantee.to_rdp,
            guarantee.group,
        ):
            try:
                answer = call(at)
            except DPInferError:
                continue
            if isinstance(answer, (float, np.ndarray)):
                assert np.isfinite(answer).all()
        for name in ("to_pure_dp", "to_zcdp", "to_gdp", "to_replace"):
            try:
                getattr(guarantee, name)()
            except DPInferError:
                continue


@dataclass(frozen=True, repr=False)
class Told(Guarantee):
    """A guarantee of another kind: with probability δ everything is told, and else nothing."""

    delta: float

    def _delta_at(self, epsilon):
        return np.full(epsilon.shape, self.delta)

    def _epsilon_at(self, delta):
        return np.where(delta >= self.delta, 0.0, np.inf)

    def _group(self, size):
        return type(self)(min(size * self.delta, 1.0 - 1e-16), neighbours=self.neighbours)


def test_a_guarantee_of_another_kind_converts_by_its_curve_alone():
    told = Told(0.1)
    assert repr(told) == "Told(delta=0.1, neighbours='add-remove')"
    assert told.in_words() == "δ = 0.1"
    assert told.to_approx_dp(0.2) == ApproxDP(0.0, 0.2)
    assert told.to_replace() == Told(0.2, neighbours="replace")
    for convert in (told.to_pure_dp, told.to_zcdp, told.to_gdp, lambda: told.to_rdp(2.0)):
        with pytest.raises(InvalidParameterError, match=r"Told\(.* implies no .*: "):
            convert()
    with pytest.raises(InvalidParameterError, match="no bound on the power is known"):
        max_power(told, 0.1)
