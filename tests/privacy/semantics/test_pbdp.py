"""Probabilistically bounded differential privacy: definition, closed forms, simulation."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from dpinfer import Gaussian, Geometric, Laplace
from dpinfer.errors import InvalidParameterError
from dpinfer.privacy import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    PureDP,
    TradeOff,
    compose_optimal,
    max_power,
    pbdp_delta,
    pbdp_epsilon,
    privacy_loss,
)

SUBJECTS = [
    PureDP(1.2),
    ApproxDP(0.8, 1e-3),
    GDP(0.9),
    ZCDP(0.3),
    RDP([1.5, 2, 16], [0.45, 0.6, 4.8]),
    compose_optimal(ApproxDP(0.1, 1e-4), 30),
    Laplace(scale=1.0),
    Geometric(scale=1.0),
    privacy_loss(Laplace(scale=2.0), compositions=3),
]


@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_it_is_the_last_power_above_the_line(subject):
    curve = TradeOff(subject)
    for epsilon in (0.05, 0.4, 0.7):
        delta = curve.pbdp_delta(epsilon)
        level = delta * np.exp(-epsilon)
        assert curve.power(level) == pytest.approx(delta, rel=1e-7)
        # beyond it every power is below the line
        assert curve.power(level * 1.001) < np.exp(epsilon) * level * 1.001
        assert pbdp_epsilon(subject, delta) == pytest.approx(epsilon, rel=1e-6)
    assert curve.pbdp_delta(0.0) == 1.0


@pytest.mark.parametrize("mu", [1e-8, 1e-3, 0.5, 1.0, 3.0, 30.0])
def test_the_gaussian_solution_against_forty_digits(mu):
    epsilon = np.array([1e-9, 1e-5, 0.1, 10.0, 700.0])
    with mp.workdps(60):
        for at, found in zip(epsilon, pbdp_delta(GDP(mu), epsilon), strict=True):
            low, high = mp.mpf(-45), mp.mpf(45)
            for _ in range(90):
                z = (low + high) / 2
                above = mp.log(mp.ncdf(z)) - mp.log(mp.ncdf(z - mp.mpf(mu))) > mp.mpf(float(at))
                low, high = (z, high) if above else (low, z)
            assert found == pytest.approx(float(mp.ncdf(low)), rel=2e-12, abs=1e-300)


@pytest.mark.parametrize(("mu", "epsilon"), [(0.5, 1.0), (2.0, 0.1), (0.1, 0.4)])
def test_two_other_numbers_are_no_larger(mu, epsilon):
    delta = pbdp_delta(GDP(mu), epsilon)
    # the log ratio of the output itself is normal around μ²/2, with variance μ²
    own = stats.norm.sf(epsilon / mu - mu / 2)
    pair = own - np.exp(epsilon) * stats.norm.sf(epsilon / mu + mu / 2)
    assert pair < own < delta
    assert (mu != 0.5) or (round(delta, 4), round(pair, 4), round(own, 4)) == (
        0.0933,
        0.0068,
        0.0401,
    )
    # δ is the probability of outputs that are merged into one: those above a threshold
    cut = stats.norm.isf(delta) + mu
    assert np.log(delta / stats.norm.sf(cut)) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("budget", [1e-8, 0.3, 5.0, 700.0])
def test_the_pure_solution_against_forty_digits(budget):
    with mp.workdps(400):
        for at in (1e-9, 1e-8, 0.1, 0.3, 4.9, 699.0):
            e, b = mp.mpf(at), mp.mpf(budget)
            expected = (1 - mp.e**-b) / (1 - mp.e ** (-b - e)) if e <= b else mp.mpf(0)
            assert pbdp_delta(PureDP(budget), at) == pytest.approx(float(expected), rel=1e-13)


@pytest.mark.parametrize("rho", [1e-3, 0.1115, 2.63, 50.0])
def test_the_tail_bound_is_never_smaller(rho):
    epsilon = np.linspace(0.0, 40.0, 81)
    exact = pbdp_delta(ZCDP(rho), epsilon)
    bound = pbdp_delta(ZCDP(rho), epsilon, method="tail-bound")
    gaussian = pbdp_delta(GDP(np.sqrt(2 * rho)), epsilon)
    assert (exact <= bound * (1 + 1e-12)).all()
    assert (gaussian <= exact * (1 + 1e-9)).all()
    expected = np.where(epsilon >= rho, np.exp(-np.square(epsilon - rho) / (4 * rho)), 1.0)
    np.testing.assert_allclose(bound, expected, rtol=1e-9)
    np.testing.assert_allclose(
        pbdp_delta(Gaussian.from_rho(rho), epsilon, method="tail-bound"), expected, rtol=1e-9
    )


def test_the_tail_bound_of_a_curve_is_the_best_of_its_orders():
    orders, bounds = np.array([1.5, 3.0, 9.0]), np.array([0.2, 0.5, 2.0])
    epsilon = np.array([0.1, 1.0, 4.0])
    expected = np.minimum(np.exp((orders - 1) * (bounds - epsilon[:, None])).min(axis=1), 1.0)
    guarantee = RDP(orders, bounds)
    found = pbdp_delta(guarantee, epsilon, method="tail-bound")
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    assert (pbdp_delta(guarantee, epsilon) <= found).all()


def test_the_concentrated_curve_by_another_route():
    curve = TradeOff(ZCDP(0.4))
    for epsilon in (0.2, 1.0, 3.0):
        log_level = optimize.brentq(
            lambda s, e=epsilon: np.log(curve.power(np.exp(s))) - s - e, -200, -1e-9, xtol=1e-13
        )
        assert curve.pbdp_delta(epsilon) == pytest.approx(np.exp(log_level + epsilon), rel=1e-9)


def test_without_any_loss_only_a_factor_of_one_has_a_chance():
    for method in ("exact", "tail-bound"):
        assert pbdp_delta(ZCDP(0.0), [0.0, 1e-9, 2.0], method=method).tolist() == [1.0, 0.0, 0.0]
    assert pbdp_delta(GDP(0.0), [0.0, 1e-9, 2.0]).tolist() == [1.0, 0.0, 0.0]
    # three answers whose largest loss together is 0.3, exactly
    repeated = compose_optimal(PureDP(0.1), 3)
    assert pbdp_delta(repeated, [0.31, 4.0]).tolist() == [0.0, 0.0]
    assert pbdp_delta(repeated, 0.29) > 0.1


def test_the_largest_loss_counts_and_beyond_it_there_is_nothing():
    for subject in (PureDP(1.0), Geometric(scale=1.0)):
        # at the end of the first straight line of the curve
        assert pbdp_delta(subject, 1.0) == pytest.approx(1 / (1 + np.exp(-1.0)), rel=1e-6)
        assert pbdp_delta(subject, 1.0 + 1e-6) == 0.0
    assert pbdp_delta(ApproxDP(1.0, 1e-3), 5.0) == pytest.approx(1e-3 / (1 - np.exp(-4.0)))
    assert pbdp_delta(PureDP(0.0), [0.0, 0.1]).tolist() == [1.0, 0.0]


def test_the_best_event_under_simulated_laplace_noise_has_that_probability():
    epsilon, draws = 0.6, 400_000
    law = Laplace(scale=1.0)
    delta = pbdp_delta(law, epsilon)
    cut = law.isf(delta * np.exp(-epsilon))
    rng = np.random.default_rng(7)
    null, other = law.rvs(draws, rng=rng), 1.0 + law.rvs(draws, rng=rng)
    # six standard errors of each: 4e-9
    assert np.mean(other > cut) == pytest.approx(delta, abs=6 * np.sqrt(0.25 / draws))
    ratio = np.mean(other > cut) / np.mean(null > cut)
    assert ratio == pytest.approx(np.exp(epsilon), rel=12 * np.sqrt(1 / (draws * delta)))


def test_it_bounds_the_tail_of_the_privacy_loss():
    for subject in (Laplace(scale=1.0), Gaussian(sigma=1.5), Geometric(scale=3.0)):
        loss = privacy_loss(subject)
        for epsilon in (0.1, 0.3, 0.8):
            assert 1 - loss.cdf(epsilon) <= pbdp_delta(subject, epsilon) + 1e-12
            assert loss.delta_at(epsilon) <= pbdp_delta(subject, epsilon) + 1e-12


def test_groups_and_shapes():
    assert pbdp_delta(GDP(0.5), 1.0, group=3) == pytest.approx(pbdp_delta(GDP(1.5), 1.0))
    tail = {"method": "tail-bound"}
    assert pbdp_delta(ZCDP(0.1), 1.0, group=2, **tail) == pbdp_delta(ZCDP(0.4), 1.0, **tail)
    assert pbdp_delta(ZCDP(0.1), np.ones((2, 2))).shape == (2, 2)
    assert pbdp_epsilon(GDP(1.0), 0.05, group=2) == pytest.approx(pbdp_epsilon(GDP(2.0), 0.05))
    assert pbdp_epsilon(ApproxDP(1.0, 0.01), 0.005) == np.inf
    assert pbdp_epsilon(GDP(1.0), 1.0) == 0.0


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    budget=st.floats(0, 1e100),
    epsilon=st.lists(st.floats(0, 1e100), min_size=1, max_size=4),
    kind=st.sampled_from([PureDP, ZCDP, GDP, lambda b: RDP(2.0, b), lambda b: ApproxDP(b, 1e-9)]),
)
def test_it_is_a_probability_whatever_the_budget(budget, epsilon, kind):
    delta = pbdp_delta(kind(budget), epsilon)
    assert np.isfinite(delta).all()
    assert ((delta >= 0) & (delta <= 1)).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pbdp_delta(PureDP(1.0), -1.0), "epsilon must be >= 0"),
        (lambda: pbdp_delta(PureDP(1.0), np.inf), "epsilon must be finite"),
        (lambda: pbdp_delta(PureDP(1.0), [np.nan]), "epsilon must not contain NaN"),
        (lambda: pbdp_delta(PureDP(1.0), 1.0, method="exactly"), "method must be one of"),
        (lambda: pbdp_delta(ApproxDP(1.0, 0.1), 1.0, method="tail-bound"), "implies no zCDP"),
        (lambda: pbdp_epsilon(PureDP(1.0), 0.0), "delta must be > 0"),
        (lambda: pbdp_epsilon(PureDP(1.0), 1.5), "delta must be <= 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call()


def test_more_power_more_delta():
    epsilon = np.array([0.3, 1.0, 2.0])
    assert (max_power(ZCDP(0.2), 0.1) < max_power(ZCDP(0.3), 0.1)).all()
    assert (pbdp_delta(ZCDP(0.2), epsilon) < pbdp_delta(ZCDP(0.3), epsilon)).all()


def test_levels_that_no_float_holds():
    # ln(δ/Φ(Φ⁻¹(δ) - 40)) in 60 digits
    assert pbdp_epsilon(GDP(40.0), 1e-6) == pytest.approx(992.3395882827709, rel=1e-13)
    assert pbdp_epsilon(privacy_loss(Gaussian(sigma=1 / 40)), 0.5) == pytest.approx(
        pbdp_epsilon(GDP(40.0), 0.5), rel=1e-9
    )
    np.testing.assert_allclose(pbdp_epsilon(PureDP(1000.0), [1e-6, 0.5]), 1000.0, rtol=1e-13)
    # ρ + 2√(ρ·ln(1/δ)) is attained where the rest of the power is negligible
    expected = 5000.0 + 2.0 * np.sqrt(5000.0 * -np.log(1e-6))
    assert pbdp_epsilon(ZCDP(5000.0), 1e-6) == pytest.approx(expected, rel=1e-9)


def test_what_is_told_for_certain_is_in_every_crossing():
    told = 1.0 - (1.0 - 1e-6) ** 10
    total = compose_optimal(ApproxDP(1.0, 1e-6), 10)
    found = pbdp_delta(total, [300.0, 600.0, 690.0, 1e6])
    np.testing.assert_allclose(found, told, rtol=1e-9)
    assert np.isinf(pbdp_epsilon(total, 0.5 * told))


def test_crossings_of_many_answers_beyond_all_floats():
    # 700 answers: in exact arithmetic the likelihood ratio test has these crossings
    total = compose_optimal(PureDP(1.0), 700)
    np.testing.assert_allclose(
        pbdp_delta(total, [600.0, 690.0, 699.9, 701.0]),
        [1.4403444519835784e-40, 5.556711959134906e-86, 5.93926719692102e-96, 0.0],
        rtol=1e-7,
    )
    several = compose_optimal(PureDP(1.0), 2000)
    epsilon = pbdp_epsilon(several, [1e-6, 0.5])
    np.testing.assert_allclose(pbdp_delta(several, epsilon), [1e-6, 0.5], rtol=1e-6)


@pytest.mark.parametrize(
    ("loss", "count", "epsilon"), [(1.5, 100_000, 95_000.0), (0.5, 4000, 500.0)]
)
def test_crossings_of_many_answers_by_enumeration(loss, count, epsilon):
    # tests that reject from a number of true answers on, and the line between two of them
    true, p = np.arange(count, -1, -1), 1.0 / (1.0 + np.exp(-loss))
    power, level = (
        np.logaddexp.accumulate(stats.binom.logpmf(true, count, share)) for share in (p, 1.0 - p)
    )
    last = np.flatnonzero(power - level >= epsilon)[-1]
    slope = (2.0 * true[last + 1] - count) * loss
    more = (np.exp(power[last]) - np.exp(epsilon + level[last])) / np.expm1(epsilon - slope)
    found = pbdp_delta(compose_optimal(PureDP(loss), count), epsilon)
    assert found == pytest.approx(np.exp(power[last]) + more, rel=1e-9)
    assert 0.01 < found < 0.99
