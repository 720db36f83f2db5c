"""Losses, powers and posteriors of channels, of pairs of laws and of trade-off functions."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from dpinfer import GDP, ApproxDP, Laplace, PureDP, RandomizedResponse, guarantee_of
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Channel, UnaryEncoding, as_frozen
from dpinfer.privacy import (
    BudgetLedger,
    PairLoss,
    TradeOff,
    max_power,
    pbdp_delta,
    pbdp_epsilon,
    posterior_bounds,
    posterior_tail,
    privacy_loss,
    renyi_curve,
    utility_bounds,
)

MATRIX = np.array([[0.6, 0.3, 0.1, 0.0], [0.2, 0.5, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
CHANNEL = Channel(MATRIX, truths=["a", "b", "c"])
SHAMED = Channel.name_and_shame(0.1)
RESPONSE = RandomizedResponse.from_epsilon(1.0)
EPSILON = np.array([0.0, 0.3, 1.0, 2.0])


def delta_of(p, q, epsilon):
    """Return Σ (P - e^ε·Q)₊."""
    return np.array([np.maximum(p - np.exp(e) * q, 0.0).sum() for e in np.atleast_1d(epsilon)])


def many(p, count):
    """Return the probabilities of all sequences of so many reports."""
    return np.array([np.prod(one) for one in product(p, repeat=count)])


def test_one_pair_of_truths():
    loss = privacy_loss(CHANNEL, pair=("c", "a"))
    np.testing.assert_allclose(
        loss.power([0.0, 0.1, 0.2, 0.5]), [0.4, 0.7, 23 / 30, 11 / 12], rtol=1e-13
    )
    assert privacy_loss(CHANNEL, pair=("b", "c")).divergence(2.0) == pytest.approx(
        0.5924056108, abs=5e-11
    )
    assert (loss.pairs, len(privacy_loss(CHANNEL).pairs)) == ((("c", "a"),), 6)
    worst = privacy_loss(CHANNEL)
    np.testing.assert_allclose(worst.delta_at(EPSILON), CHANNEL.delta_at(EPSILON), rtol=1e-13)
    assert worst.worst_pair(0.0) in {("a", "c"), ("c", "a")}
    assert repr(2 * worst) == "PairLoss(6 ordered pairs, 2 reports)"


def test_the_trade_off_of_a_channel_is_its_deltas():
    rng = np.random.default_rng(4)
    alpha = np.linspace(0, 1, 20_001)
    for _ in range(10):
        matrix = rng.dirichlet(np.ones(4), size=3)
        matrix[0, 0] = 0.0
        channel = Channel(matrix / matrix.sum(axis=1, keepdims=True))
        curve, loss = TradeOff(channel), privacy_loss(channel)
        vertices = np.concatenate([one.upper.vertices[0] for one in loss.laws.values()])
        level = np.union1d(alpha, vertices)
        power = curve.power(level)
        for epsilon in EPSILON:
            found = (power - np.exp(epsilon) * level).max()
            assert found == pytest.approx(float(channel.delta_at(epsilon)), abs=1e-14)
        # the least level of a power leads back
        np.testing.assert_allclose(curve.power(curve.level(power)), power, atol=1e-12)
        # both orders of every pair are there
        np.testing.assert_allclose(curve.level(power), 1 - curve.power(1 - power), atol=1e-12)


def test_powers_that_are_known():
    shamed = Channel.name_and_shame(0.01)
    assert max_power(shamed, 0.05) == pytest.approx(0.06, rel=1e-13)
    # of 20 records someone's is shown
    assert (20 * privacy_loss(shamed)).delta_at(7.0) == pytest.approx(1 - 0.99**20, rel=1e-12)
    three = RandomizedResponse.from_epsilon(1.0, categories=3)
    for protection in (three, Channel(three.matrix), tuple(three.matrix[:2])):
        assert max_power(protection, 0.3) == pytest.approx(0.6641753, abs=5e-8)
    assert max_power(PureDP(1.0), 0.3) == pytest.approx(0.7424844, abs=5e-8)


def test_odds_that_rise_by_more():
    # Kifer et al. (2022), Example 5.6: two mechanisms, and the choice of one of them
    mixed = Channel.mixture([RESPONSE, SHAMED], [0.5, 0.5])
    for protection in (RESPONSE, Channel(RESPONSE.matrix), PureDP(1.0)):
        assert pbdp_delta(protection, 1.0, strict=True) == 0.0
        assert pbdp_delta(protection, 1.0) == pytest.approx(0.7310585786, abs=5e-11)
        assert pbdp_delta(protection, 0.9, strict=True) == pytest.approx(
            float(pbdp_delta(protection, 0.9)), rel=1e-9
        )
    assert pbdp_delta(SHAMED, 1.0, strict=True) == pytest.approx(0.1581976707, abs=5e-11)
    assert pbdp_delta(mixed, 1.0, strict=True) == pytest.approx(0.4446281247, abs=5e-11)
    assert pbdp_delta(GDP(1.0), 1.0, strict=True) == pbdp_delta(GDP(1.0), 1.0)
    np.testing.assert_array_equal(pbdp_delta(PureDP(1.0), [0.0, 1.0], strict=True), [1.0, 0.0])
    assert pbdp_delta(PureDP(0.0), 0.0, strict=True) == 0.0


def test_a_pair_in_one_order_need_not_be_symmetric():
    curve = TradeOff(privacy_loss(([0.5, 0.5, 0.0], [0.3, 0.6, 0.1]), pair=(0, 1)))
    assert curve.level(1.0) == pytest.approx(0.9, rel=1e-14)
    np.testing.assert_allclose(curve.level([0.0, 0.5, 0.75]), [0.0, 0.3, 0.6], rtol=1e-14)
    np.testing.assert_allclose(curve.power([0.0, 0.3, 0.95]), [0.0, 0.5, 1.0], rtol=1e-14)
    assert curve.pbdp_epsilon(1.0) == pytest.approx(-np.log(0.9), rel=1e-13)
    turned = TradeOff(privacy_loss(([0.5, 0.5, 0.0], [0.3, 0.6, 0.1]), pair=(1, 0)))
    assert (turned.power(0.0), turned.level(1.0)) == pytest.approx((0.1, 1.0))


def test_crossings_against_the_curve():
    rng = np.random.default_rng(5)
    for _ in range(20):
        p, q = rng.dirichlet(np.ones(5), size=2)
        loss = privacy_loss((p, q), pair=(0, 1))
        level = np.linspace(1e-6, 1, 200_001)
        power = loss.power(level)
        for epsilon in (0.1, 0.5, 1.5):
            above = power >= np.exp(epsilon) * level
            expected = power[above].max() if above.any() else 0.0
            found = float(TradeOff(loss).pbdp_delta(epsilon))
            assert found == pytest.approx(expected, abs=2e-5)
            if 0 < found < 1:
                assert TradeOff(loss).pbdp_epsilon(found) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("count", [2, 4, 6])
def test_sums_against_all_sequences_of_reports(count):
    rng = np.random.default_rng(count)
    for turn in range(10):
        p, q = rng.dirichlet(np.ones(4), size=2)
        p[0], q[3] = p[0] * (turn % 2), q[3] * (turn % 3 > 0)
        p, q = p / p.sum(), q / q.sum()
        loss = privacy_loss((p, q), compositions=count, pair=(0, 1))
        first, second = many(p, count), many(q, count)
        expected = delta_of(first, second, EPSILON)
        np.testing.assert_allclose(loss.delta_at(EPSILON), expected, rtol=1e-11, atol=1e-15)
        order = np.argsort(-first / np.maximum(second, 1e-300))
        level = np.concatenate([[0], np.cumsum(second[order])])
        power = np.concatenate([[0], np.cumsum(first[order])])
        alpha = np.array([0.01, 0.2, 0.7])
        np.testing.assert_allclose(loss.power(alpha), np.interp(alpha, level, power), rtol=1e-10)
        for delta in (0.05, 0.4):
            epsilon = loss.epsilon_at(delta)
            if 0 < epsilon < np.inf:
                assert delta_of(first, second, epsilon)[0] == pytest.approx(delta, rel=1e-10)


@pytest.mark.parametrize("count", [1, 3, 30, 1000])
def test_sums_against_the_losses_of_randomized_response(count):
    for channel in (
        RandomizedResponse.from_epsilon(0.9 / np.sqrt(count), categories=4),
        UnaryEncoding.symmetric(0.9 / np.sqrt(count), categories=5),
    ):
        theirs = privacy_loss(channel, compositions=count)
        matrix = channel.matrix if isinstance(channel, RandomizedResponse) else None
        if matrix is None:
            p, q = channel.p, channel.q
            law = np.array([p * (1 - q), q * (1 - p), p * q + (1 - p) * (1 - q)])
            matrix = [law, law[[1, 0, 2]]]
        ours = privacy_loss(tuple(np.asarray(matrix)[:2]), compositions=count)
        lower, upper = ours.delta_bounds(EPSILON)
        expected = theirs.delta_at(EPSILON)
        assert (lower <= expected * (1 + 1e-12)).all()
        assert (expected <= upper * (1 + 1e-12)).all()
        np.testing.assert_allclose(upper, lower, rtol=1e-4, atol=1e-6)
        low, high = ours.epsilon_bounds(0.01)
        assert low * (1 - 1e-9) <= theirs.epsilon_at(0.01) <= high * (1 + 1e-9)
        assert ours.power(0.1) == pytest.approx(theirs.power(0.1), abs=1e-5)


def test_long_sums_are_held_between_two():
    rng = np.random.default_rng(6)
    p = np.array([0.3, 0.35, 0.2, 0.15])
    q = p * np.exp(rng.normal(0, 0.02, 4))
    q /= q.sum()
    loss = privacy_loss((p, q), compositions=2000, pair=(0, 1))
    lower, upper = loss.delta_bounds(EPSILON)
    counts = rng.multinomial(2000, p, size=200_000)
    drawn = counts @ (np.log(p) - np.log(q))
    payoff = np.maximum(-np.expm1(EPSILON[:, None] - drawn), 0.0)
    # within six standard errors: fails by accident with probability 1e-8
    error = 6 * payoff.std(axis=1) / np.sqrt(200_000) + 1e-12
    assert (lower - error <= payoff.mean(axis=1)).all()
    assert (payoff.mean(axis=1) <= upper + error).all()
    np.testing.assert_allclose(upper, lower, rtol=1e-3, atol=1e-9)


def test_long_sums_of_large_losses_stay_above_the_truth():
    """Losses up to ln 7·300 and more, beyond what exponentials hold."""
    p, q = np.array([0.49, 0.45, 0.02, 0.04]), np.array([0.07, 0.12, 0.57, 0.24])
    loss = privacy_loss((p, q), compositions=300)
    lower, upper = loss.delta_bounds(np.array([0.0, 8.0]))
    # by Chebyshev's inequality the loss is above its mean less twenty deviations
    each = np.log(p / q)
    mean, deviation = p @ each, np.sqrt(p @ np.square(each) - (p @ each) ** 2)
    assert 300 * mean - 20 * np.sqrt(300) * deviation > 8.0
    assert np.all(lower <= upper)
    assert np.all(upper >= 1 - 1 / 400 - np.exp(8.0 - 300 * mean + 20 * np.sqrt(300) * deviation))
    assert loss.epsilon_at(1e-2) > 0


def test_long_sums_in_both_orders():
    p, q = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.45, 0.27, 0.18, 0.1])
    for order in ((0, 1), (1, 0)):
        first, second = (p, q) if order == (0, 1) else (q, p)
        ours = privacy_loss((p, q), compositions=1000, pair=order)
        turned = privacy_loss((p, q), compositions=1000)
        low, high = ours.epsilon_bounds(1e-6)
        assert high == pytest.approx(low, rel=1e-3)
        assert turned.epsilon_at(1e-6) >= high * (1 - 1e-3)
        # the normal limit of the loss is near
        loss = np.log(first / second)
        mean, spread = first @ loss, np.sqrt(first @ loss**2 - (first @ loss) ** 2)
        assert high == pytest.approx(1000 * mean + 4.7 * spread * np.sqrt(1000), rel=0.05)


def test_google_agrees_on_sums():
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    p, q = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.45, 0.25, 0.2, 0.1])
    step, count = 1e-4, 20
    theirs = pld.from_two_probability_mass_functions(
        dict(enumerate(np.log(q))),
        dict(enumerate(np.log(p))),
        value_discretization_interval=step,
    ).self_compose(count)
    ours = privacy_loss((p, q), compositions=count, pair=(0, 1))
    for epsilon in (0.0, 0.5, 1.0):
        found = theirs.get_delta_for_epsilon(epsilon)
        # theirs rounds each loss up by less than a step
        assert ours.delta_bounds(epsilon)[0] <= found * (1 + 1e-9)
        assert found <= ours.delta_at(epsilon - count * step if epsilon else 0.0) + count * step


def test_different_channels_add_up_by_pairs():
    other = Channel(MATRIX[:, ::-1], truths=["a", "b", "c"])
    both = privacy_loss(CHANNEL) + privacy_loss(other)
    assert (sum([privacy_loss(CHANNEL), privacy_loss(other)])).delta_at(0.5) == both.delta_at(0.5)
    expected = max(
        delta_of(
            np.multiply.outer(MATRIX[i], MATRIX[i, ::-1]).ravel(),
            np.multiply.outer(MATRIX[j], MATRIX[j, ::-1]).ravel(),
            0.5,
        )[0]
        for i, j in product(range(3), repeat=2)
    )
    assert both.delta_at(0.5) == pytest.approx(expected, rel=1e-12)
    with pytest.raises(InvalidParameterError, match="of the same pairs of truths"):
        privacy_loss(CHANNEL) + privacy_loss(SHAMED)
    with pytest.raises(TypeError):
        privacy_loss(CHANNEL) + 3


def test_frozen_densities_and_masses():
    normal = (stats.norm(1, 1), stats.norm(0, 1))
    exact = GDP(1.0)
    loss = privacy_loss(normal)
    low, high = loss.delta_bounds(EPSILON)
    expected = exact.delta_at(EPSILON)
    assert (low <= expected + 1e-13).all()
    assert (expected <= high + 1e-13).all()
    np.testing.assert_allclose(high, low, atol=1e-6)
    alpha = np.array([0.01, 0.05, 0.5])
    np.testing.assert_allclose(max_power(normal, alpha), max_power(exact, alpha), atol=1e-6)
    assert posterior_tail(normal, 1.0) == pytest.approx(float(pbdp_delta(exact, 1.0)), abs=1e-6)
    # Laplace noise, whose loss has kinks, as frozen laws of SciPy and of this library
    for pair in (
        (stats.laplace(1, 2), stats.laplace(0, 2)),
        (as_frozen(Laplace(scale=2.0), loc=1.0), as_frozen(Laplace(scale=2.0))),
    ):
        np.testing.assert_allclose(
            privacy_loss(pair).delta_at([0.0, 0.3]),
            privacy_loss(Laplace(scale=2.0)).delta_at([0.0, 0.3]),
            atol=1e-6,
        )
        assert guarantee_of(Laplace(scale=2.0)).epsilon == pytest.approx(
            float(privacy_loss(pair).epsilon_at(1e-9)), rel=1e-5
        )
    uniform = privacy_loss((stats.uniform(0, 1), stats.uniform(0.25, 1)))
    np.testing.assert_allclose(uniform.delta_at([0.0, 3.0]), 0.25, atol=1e-9)
    k = np.arange(200)
    poisson = privacy_loss((stats.poisson(7), stats.poisson(5)), pair=(0, 1))
    expected = delta_of(stats.poisson(7).pmf(k), stats.poisson(5).pmf(k), EPSILON)
    np.testing.assert_allclose(poisson.delta_at(EPSILON), expected, rtol=1e-10, atol=1e-16)


def test_densities_of_the_caller():
    p, q = (lambda x, m=m: np.exp(-0.5 * (x - m) ** 2) / np.sqrt(2 * np.pi) for m in (1.0, 0.0))
    low, high = privacy_loss((p, q)).delta_bounds(EPSILON)
    exact = GDP(1.0).delta_at(EPSILON)
    np.testing.assert_allclose(high, low, atol=1e-5)
    assert ((low - 1e-9 <= exact) & (exact <= high + 1e-9)).all()
    cauchy = privacy_loss((lambda x: stats.cauchy.pdf(x, 1), stats.cauchy.pdf), pair=(0, 1))
    frozen = privacy_loss((stats.cauchy(1), stats.cauchy(0)), pair=(0, 1))
    np.testing.assert_allclose(cauchy.delta_at(EPSILON), frozen.delta_at(EPSILON), atol=1e-5)
    # the largest ratio of the densities: ((3+√5)/2)
    assert cauchy.epsilon_at(0.0) == pytest.approx(np.log((3 + np.sqrt(5)) / 2), rel=1e-5)
    for wrong, said in (
        (lambda x: 2 * p(x), "first density must have the integral 1"),
        (lambda x: -p(x), "finite numbers >= 0"),
        (lambda x: "x", "must return numbers"),
    ):
        with pytest.raises(InvalidParameterError, match=said):
            privacy_loss((wrong, q))
    with pytest.raises(InvalidParameterError, match="laws of one kind"):
        privacy_loss((p, [0.5, 0.5]))


def gaussian(alpha):
    """Return the trade-off function of 1-GDP."""
    return special.ndtr(special.ndtri(1 - alpha) - 1.0) if 0 < alpha < 1 else 1.0 - alpha


def pure(alpha):
    """Return the trade-off function of 1-DP."""
    return max(0.0, 1 - np.e * alpha, (1 - alpha) / np.e)


def test_trade_off_functions_of_the_caller():
    alpha = np.array([0.001, 0.05, 0.3, 0.9])
    np.testing.assert_allclose(
        max_power(gaussian, alpha), [1 - gaussian(a) for a in alpha], atol=2e-7
    )
    np.testing.assert_allclose(
        privacy_loss(gaussian).delta_at(EPSILON), GDP(1.0).delta_at(EPSILON), atol=1e-6
    )
    assert TradeOff(gaussian).pbdp_delta(1.0) == pytest.approx(
        float(pbdp_delta(GDP(1.0), 1.0)), abs=1e-6
    )
    bounds = posterior_bounds(pure)
    assert bounds.log_ratio == pytest.approx(posterior_bounds(PureDP(1.0)).log_ratio, rel=1e-7)
    low, high = utility_bounds(pure, 50.0)
    assert (low, high) == pytest.approx((50 / np.e, 50 * np.e), rel=1e-6)
    ten = privacy_loss(pure, compositions=10)
    exact = privacy_loss(RESPONSE, compositions=10).epsilon_at(1e-3)
    assert ten.epsilon_at(1e-3) == pytest.approx(exact, rel=1e-4)
    with pytest.raises(InvalidParameterError, match="keep the privacy loss bounded"):
        posterior_bounds(gaussian)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda a: 1 - a**2, "must be within"),
        (lambda a: max(1 - 2 * a, 0.5 - a / 2 + 0.1 * np.sin(9 * a)), "must"),
        (lambda a: 0.5 * (1 - a**2), "must be convex"),
        (lambda a: 0.3 if 0.2 < a < 0.6 else 0.1 * (1 - a), "must not increase"),
        (lambda a: np.nan, "finite number"),
        (lambda a: "x", "must return a number"),
        (lambda a: [a, a], "must return"),
    ],
)
def test_what_is_no_trade_off_function_is_refused(function, said):
    with pytest.raises(InvalidParameterError, match=said):
        max_power(function, 0.1)


def test_posteriors_of_channels_and_laws():
    last = Channel(MATRIX[1:])
    bounds = posterior_bounds(last)
    assert bounds.neighbours == "replace"
    assert bounds.log_ratio == pytest.approx(np.log(4.0), rel=1e-13)
    assert posterior_bounds((MATRIX[1], MATRIX[2])).log_ratio == pytest.approx(
        2 * np.log(4.0), rel=1e-12
    )
    unary = UnaryEncoding.optimised(1.0, categories=40)
    assert guarantee_of(unary) == PureDP(unary.epsilon, neighbours="replace")
    # the concave curve above those of several pairs bounds mixtures of them
    known = posterior_tail(CHANNEL, 0.5, rest="known")
    assert posterior_tail(CHANNEL, 0.5) >= known == TradeOff(CHANNEL).pbdp_delta(0.5)
    np.testing.assert_allclose(pbdp_epsilon(RESPONSE, 0.3), 1.0, rtol=1e-9)
    for refused in (CHANNEL, SHAMED):
        with pytest.raises(InvalidParameterError, match="no ε at δ = 0"):
            posterior_bounds(refused)
    # unary encoding twice as concentrated as its ε alone says
    rho = guarantee_of(unary, kind="zcdp").rho
    kl = privacy_loss(unary).mean
    assert kl * (1 - 1e-12) <= rho < unary.epsilon**2 / 2


def test_a_ledger_a_curve_and_a_picture_take_channels():
    ledger = BudgetLedger(ApproxDP(4.0, 1e-3, neighbours="replace"), accounting="numerical")
    last = Channel(MATRIX[1:])
    for name in ("first", "second"):
        ledger.record(name, mechanism=last)
    worst = RandomizedResponse.from_epsilon(last.epsilon)
    expected = privacy_loss(worst, compositions=2).epsilon_at(1e-3)
    assert ledger.spent.epsilon == pytest.approx(expected, rel=1e-9)
    unary = UnaryEncoding.symmetric(1.0, categories=9)
    assert renyi_curve(unary).divergence(3.0) == pytest.approx(unary.divergence(3.0), rel=1e-12)
    assert renyi_curve(last).divergence(3.0) == pytest.approx(last.divergence(3.0), rel=1e-12)
    with pytest.raises(InvalidParameterError, match="of which privacy_loss has the divergences"):
        renyi_curve(tuple(MATRIX[1:]))


def test_labels_of_laws_are_matched():
    p = pd.Series([0.5, 0.3, 0.2], index=list("abc"))
    q = pd.Series([0.6, 0.3, 0.1], index=list("cba"))
    loss = privacy_loss((p, q), pair=(0, 1))
    assert loss.delta_at(0.0) == pytest.approx(0.4, rel=1e-13)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: privacy_loss(CHANNEL, pair=("a", "z")), "pair must be two truths among"),
        (lambda: privacy_loss(CHANNEL, 2.0), "sensitivity must be left at 1"),
        (lambda: privacy_loss(RESPONSE, pair=(0, 1)), "pair must be left out"),
        (lambda: privacy_loss(([0.5, 0.5], [0.5, 0.4])), "the second law must add up to 1"),
        (lambda: privacy_loss(([1.0], [0.5, 0.5])), "same reports"),
        (lambda: privacy_loss(([1.0], [1.0], [1.0])), "a pair of two laws, got 3"),
        (lambda: privacy_loss(([1.0], stats.norm())), "laws of one kind"),
        (lambda: privacy_loss((stats.poisson(2), stats.norm())), "laws of one kind"),
        (lambda: privacy_loss((stats.norm([0, 1]), stats.norm())), "single numbers"),
        (lambda: privacy_loss(([0.5, 0.5], [0.4, 0.6]), pair=(0, 2)), "pair must be two truths"),
        (lambda: privacy_loss(Channel([[1.0]])), "two truths that are neighbours"),
        (lambda: TradeOff(CHANNEL, group=2), "group must be 1"),
        (lambda: PairLoss([]), "parts must hold laws"),
        (lambda: privacy_loss(CHANNEL, compositions=10**7), "compositions must be <= 1000000"),
        (lambda: privacy_loss(CHANNEL).delta_at(-1.0), "epsilon must be >= 0"),
        (lambda: pbdp_delta(CHANNEL, 1.0, strict="yes"), "strict must be True or False"),
    ],
)
def test_bad_calls_are_refused(call, said):
    with pytest.raises(InvalidParameterError, match=said):
        call()
