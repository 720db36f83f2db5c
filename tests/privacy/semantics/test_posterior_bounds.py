"""Posterior bounds, odds, tolerances and utility, against worst cases and the texts."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer import Gaussian, Laplace, RandomizedResponse
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms import ExponentialMechanism
from dpinfer.privacy import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    PureDP,
    TradeOff,
    amplify,
    epsilon_for_odds,
    epsilon_for_rise,
    max_power,
    pbdp_delta,
    posterior_bounds,
    posterior_tail,
    secret_posterior,
    utility_bounds,
)

REPLACE = {"neighbours": "replace"}


def test_the_three_worlds():
    epsilon = 0.3
    add, replace = PureDP(epsilon), PureDP(epsilon, **REPLACE)
    for guarantee, world, ratio, odds in [
        (replace, "draw", 1, 2),
        (replace, "default", 2, 2),
        (add, "deleted", 2, 2),
        (add, "draw", 2, 4),
        (add, "default", 4, 4),
    ]:
        bounds = posterior_bounds(guarantee, counterfactual=world)
        assert bounds.log_ratio == pytest.approx(ratio * epsilon)
        assert bounds.log_odds_ratio == pytest.approx(odds * epsilon)
        np.testing.assert_allclose(bounds.ratio, np.exp([-ratio * epsilon, ratio * epsilon]))
        grouped = posterior_bounds(guarantee, counterfactual=world, group=5)
        assert grouped.log_ratio == pytest.approx(5 * ratio * epsilon)


@pytest.mark.parametrize("epsilon", [1e-8, 0.1, 5.0, 700.0])
def test_probabilities_against_forty_digits(epsilon):
    bounds = posterior_bounds(PureDP(epsilon), counterfactual="deleted")
    with mp.workdps(700):
        factor = mp.e ** (2 * mp.mpf(epsilon))
        for p in (1e-300, 1e-9, 0.02, 0.5, 0.999):
            odds = mp.mpf(p) / (1 - mp.mpf(p))
            lower, upper = bounds.probability(p)
            high, low = odds * factor / (1 + odds * factor), odds / factor / (1 + odds / factor)
            assert upper == pytest.approx(float(high), rel=1e-12)
            assert lower == pytest.approx(float(low), rel=1e-9, abs=1e-15)


def test_the_insurer():
    # the odds that an insurer holds a person to be ill, with them in the study: p·e^{2ε}
    without = np.array([1e-9, 1.1, 2.0, 4.0, 8.0, 16.0])
    epsilon = [0.01, 0.1, 1, 2, 4, 8, 16]
    table = [
        posterior_bounds(PureDP(e), counterfactual="deleted").odds(without)[1] for e in epsilon
    ]
    np.testing.assert_allclose(
        np.transpose(table), np.outer(without, np.exp(2 * np.array(epsilon)))
    )
    # entries as printed where they are right, and those that are off by powers of ten
    assert table[0][1] == pytest.approx(1.12, abs=0.005)
    assert table[4][4] == pytest.approx(23847, abs=1)
    assert table[5][1] == pytest.approx(9.77e6, rel=1e-3)
    assert table[6][5] == pytest.approx(1.263e15, rel=1e-3)
    # a premium of 500 times what the odds exceed 1 by
    assert 500 * (table[0][1] - 1) == pytest.approx(61.11, abs=0.005)
    limit = table[1][1]
    assert epsilon_for_odds(limit, 1.1) == pytest.approx(0.1)


def test_the_survey():
    assert epsilon_for_rise(0.25) == pytest.approx(0.5 * np.log(1.25), rel=1e-15)
    assert epsilon_for_rise(0.25, group=3) == pytest.approx(np.log(1.25) / 6)
    with_baseline = epsilon_for_rise(0.25, baseline=0.02)
    bounds = posterior_bounds(PureDP(float(with_baseline)), counterfactual="deleted")
    assert bounds.probability(0.02)[1] == pytest.approx(0.025, rel=1e-12)
    assert with_baseline > epsilon_for_rise(0.25)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    rise=st.floats(1e-6, 10.0),
    baseline=st.floats(1e-6, 0.999),
    world=st.sampled_from(
        [
            ("draw", "replace"),
            ("default", "replace"),
            ("deleted", "add-remove"),
            ("draw", "add-remove"),
        ]
    ),
)
def test_the_tolerated_epsilon_is_the_one_at_which_the_rise_is_reached(rise, baseline, world):
    counterfactual, neighbours = world
    options = {"counterfactual": counterfactual, "neighbours": neighbours}
    epsilon = float(epsilon_for_rise(rise, baseline=baseline, **options))
    after = (1 + rise) * baseline
    if after >= 1:
        assert epsilon == np.inf
        return
    guarantee = PureDP(epsilon, neighbours=neighbours)
    upper = posterior_bounds(guarantee, counterfactual=counterfactual).probability(baseline)[1]
    assert upper == pytest.approx(after, rel=1e-8)


def test_no_attacker_passes_the_bounds_and_some_attacker_reaches_them():
    # two rests of the data, three values of the record: worst laws over all outputs are built in
    rng = np.random.default_rng(3)
    epsilon = 0.8
    worst = 0.0
    for _ in range(300):
        prior = rng.dirichlet(np.full(6, 0.3))
        channel = np.where(rng.random((6, 40)) < 0.5, 1.0, np.exp(epsilon))
        rest, value = np.repeat([0, 1], 3), np.tile([0, 1, 2], 2)
        joint = prior[:, None] * channel
        given_rest = np.stack([joint[rest == r].sum(0) / prior[rest == r].sum() for r in (0, 1)])
        drawn = prior[:, None] * given_rest[rest]
        for v in range(3):
            act = joint[value == v].sum(0) / joint.sum(0)
            cf = drawn[value == v].sum(0) / drawn.sum(0)
            worst = max(worst, np.abs(np.log(act / cf)).max())
    assert worst <= epsilon * (1 + 1e-12)
    assert worst > 0.9 * epsilon


def test_randomized_response_reaches_the_draw_bound_with_a_rare_value():
    channel = RandomizedResponse(p=0.75)
    rare = 1e-9
    found = secret_posterior([1 - rare, rare], [0, 1], channel, [1], rest=["same", "same"])
    bound = posterior_bounds(PureDP(channel.epsilon, **REPLACE)).ratio[1]
    assert found.ratio[0, 1] == pytest.approx(bound, rel=1e-6)


def test_tails_in_closed_form():
    rho, epsilon = 0.1115, np.array([0.1115, 0.5, 1.0, 3.0])
    guarantee = ZCDP(rho, **REPLACE)
    known = posterior_tail(guarantee, epsilon, rest="known", about="any", method="tail-bound")
    np.testing.assert_allclose(known, np.exp(-np.square(epsilon + rho) / (4 * rho)), rtol=1e-12)
    true = posterior_tail(guarantee, epsilon, rest="arbitrary", method="tail-bound")
    np.testing.assert_allclose(true, np.exp(-np.square(epsilon - rho) / (4 * rho)), rtol=1e-12)
    single = RDP(4.0, 0.6, **REPLACE)
    np.testing.assert_allclose(
        posterior_tail(single, epsilon, rest="known", about="any", method="tail-bound"),
        np.exp(np.minimum(3 * 0.6 - 4 * epsilon, -epsilon)),
    )
    np.testing.assert_allclose(
        posterior_tail(single, epsilon, method="tail-bound"),
        np.minimum(np.exp(3 * (0.6 - epsilon)), 1.0),
    )
    # below ρ the first moment is all there is
    low = posterior_tail(guarantee, 0.05, rest="known", about="any", method="tail-bound")
    assert low == pytest.approx(np.exp(-0.05))


def test_tails_from_the_curve_of_powers():
    epsilon = np.array([0.2, 1.0, 2.0])
    replace, add = GDP(0.7, **REPLACE), GDP(0.7)
    true = posterior_tail(replace, epsilon)
    np.testing.assert_allclose(true, pbdp_delta(replace, epsilon))
    anything = posterior_tail(replace, epsilon, rest="known", about="any")
    np.testing.assert_allclose(anything, np.exp(-epsilon) * true)
    np.testing.assert_allclose(posterior_tail(add, epsilon), pbdp_delta(GDP(1.4), epsilon))
    np.testing.assert_allclose(
        posterior_tail(Gaussian(sigma=2.0), epsilon, sensitivity=1.4), true, rtol=1e-9
    )
    np.testing.assert_allclose(
        posterior_tail(replace, epsilon, group=2), posterior_tail(add, epsilon)
    )


def test_the_exponential_mechanism_knows_what_a_replacement_costs():
    counts = ExponentialMechanism(epsilon=0.5, monotonic=True)
    np.testing.assert_allclose(
        posterior_tail(counts, [0.2, 0.9]), posterior_tail(PureDP(1.0, **REPLACE), [0.2, 0.9])
    )
    assert posterior_bounds(counts).log_ratio == 1.0


def test_an_amplified_guarantee_means_what_its_epsilon_says():
    amplified = amplify(PureDP(1.0), rate=0.05)
    bounds = posterior_bounds(amplified, counterfactual="deleted")
    assert bounds.log_ratio == pytest.approx(2 * np.log1p(0.05 * np.expm1(1.0)))
    assert utility_bounds(amplified, 1.0)[1] == pytest.approx(np.exp(amplified.epsilon))


def test_utility_is_bounded_by_powers_and_attained_by_a_bet():
    law = Laplace(scale=2.0)
    cut = 1.7
    # a person who is paid 10 if the release exceeds the cut, and 2 else
    without, within = 2 + 8 * law.sf(cut), 2 + 8 * law.sf(cut - 1)
    low, high = utility_bounds(law, without, lower=2.0, upper=10.0)
    assert high == pytest.approx(within, rel=1e-9)
    assert utility_bounds(law, within, lower=2.0, upper=10.0)[0] == pytest.approx(without, rel=1e-8)
    pure = utility_bounds(PureDP(0.5), without, lower=2.0)
    np.testing.assert_allclose(pure, 2 + (without - 2) * np.exp([-0.5, 0.5]))
    assert pure[0] <= low
    assert high <= pure[1] + 1e-12
    unknown = utility_bounds(law, without, lower=2.0)
    np.testing.assert_allclose(unknown, pure)


def test_utility_under_approximate_privacy():
    delta = 0.01
    guarantee = ApproxDP(0.2, delta)
    x = np.array([0.0, 0.2, 0.7, 1.0])
    low, high = utility_bounds(guarantee, x, upper=1.0)
    np.testing.assert_allclose(high, max_power(guarantee, x))
    np.testing.assert_allclose(low, 1 - max_power(guarantee, 1 - x), atol=1e-15)
    assert (low[0], high[0]) == (0.0, delta)
    np.testing.assert_allclose(low, TradeOff(guarantee).level(x))
    grouped = utility_bounds(PureDP(0.2), 3.0, group=4)
    np.testing.assert_allclose(grouped, 3.0 * np.exp([-0.8, 0.8]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: posterior_bounds(ZCDP(1.0)), "implies no ε-DP"),
        (lambda: posterior_bounds(GDP(1.0)), "implies no ε-DP"),
        (lambda: posterior_bounds(ApproxDP(1.0, 0.1)), "implies no ε-DP"),
        (lambda: posterior_bounds(PureDP(1.0), counterfactual="gone"), "counterfactual must be"),
        (lambda: posterior_bounds(PureDP(1.0), group=0), "group must be >= 1"),
        (lambda: posterior_bounds(PureDP(1.0)).probability(1.5), "without must be <= 1"),
        (lambda: posterior_bounds(PureDP(1.0)).odds(-1.0), "without must be >= 0"),
        (lambda: posterior_bounds(3.0), "mechanism must be"),
        (lambda: epsilon_for_rise(-0.1), "rise must be >= 0"),
        (lambda: epsilon_for_rise(0.1, baseline=1.0), "baseline must be < 1"),
        (lambda: epsilon_for_rise([0.1, 0.2], baseline=[0.1] * 3), "must broadcast"),
        (lambda: epsilon_for_rise(0.1, neighbours="both"), "neighbours must be one of"),
        (lambda: epsilon_for_odds(1.0, 1.1), "baseline must be at most limit"),
        (lambda: epsilon_for_odds(0.0, 1.0), "limit must be > 0"),
        (lambda: posterior_tail(ZCDP(1.0), 1.0, about="any"), 'about must be "true"'),
        (lambda: posterior_tail(ZCDP(1.0), 1.0, rest="some"), "rest must be one of"),
        (lambda: posterior_tail(ZCDP(1.0), -1.0), "epsilon must be >= 0"),
        (lambda: utility_bounds(GDP(1.0), 1.0), "implies no ε-DP"),
        (lambda: utility_bounds(GDP(1.0), 3.0, upper=2.0), "expected must be <= 2"),
        (lambda: utility_bounds(GDP(1.0), 3.0, lower=4.0, upper=2.0), "upper must be > lower"),
        (lambda: utility_bounds(GDP(1.0), 3.0, lower=-np.inf), "lower must be finite"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: posterior_bounds(PureDP(1.0, **REPLACE), counterfactual="deleted"),
        lambda: epsilon_for_rise(0.1, **REPLACE),
        lambda: epsilon_for_odds(1.2, 1.1, **REPLACE),
    ],
)
def test_no_record_is_deleted_under_a_guarantee_for_replacements(call):
    with pytest.raises(
        IncompatibleReleaseError, match='counterfactual must be "draw" or "default"'
    ):
        call()


@pytest.mark.parametrize("world", ["draw", "default"])
def test_probabilities_near_the_ends_lose_no_digits(world):
    bounds = posterior_bounds(PureDP(1.0, neighbours="replace"), counterfactual=world)
    factor = np.exp(bounds.log_ratio)
    for p in (1e-300, 1e-15, 1e-8):
        lower, upper = bounds.probability(p)
        assert float(lower) == pytest.approx(p / factor, rel=2e-8)
        assert float(upper) == pytest.approx(p * factor, rel=1e-6)
    lower, upper = posterior_bounds(PureDP(1e-9, neighbours="replace")).probability(1e-15)
    assert float(upper) / 1e-15 - 1 == pytest.approx(1e-9, rel=1e-6)
    assert 1 - float(lower) / 1e-15 == pytest.approx(1e-9, rel=1e-6)
    assert bounds.probability([0.0, 1.0])[0].tolist() == [0.0, 1.0]
    assert bounds.probability([0.0, 1.0])[1].tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("neighbours", "world", "steps", "says"),
    [
        ("add-remove", "draw", 2, "0.135335 to 7.38906"),
        ("replace", "draw", 1, "0.367879 to 2.71828"),
        ("add-remove", "deleted", 1, "0.135335 to 7.38906"),
        ("replace", "default", 1, "0.135335 to 7.38906"),
    ],
)
def test_bounds_print_the_relation_that_they_depend_on(neighbours, world, steps, says):
    bounds = posterior_bounds(PureDP(1.0, neighbours=neighbours), counterfactual=world)
    assert (bounds.neighbours, bounds.steps) == (neighbours, steps)
    text = " ".join(str(bounds).split())
    assert f"({neighbours})" in text
    assert f"Ratio of probabilities: {says}" in text
    assert neighbours in repr(bounds)
