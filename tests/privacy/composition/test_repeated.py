"""Optimal composition against 60 digits of mpmath, enumeration and published accountants."""

import itertools

import mpmath as mp
import numpy as np
import pytest

from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.privacy import (
    GDP,
    ZCDP,
    Amplification,
    AmplifiedDP,
    ApproxDP,
    PureDP,
    RepeatedDP,
    compose,
    compose_advanced,
    compose_optimal,
)


def exact_delta(epsilon, delta, count, at):
    """Theorem 3.3 of Kairouz, Oh and Viswanath, term by term, with 60 digits."""
    with mp.workdps(60):
        e, a = mp.mpf(epsilon), mp.mpf(at)
        lie = 1 / (1 + mp.exp(e))
        total = mp.mpf(0)
        # lies beyond `last` have losses below ε; terms far from the largest are left out
        last = int(mp.ceil((count - a / e) / 2)) - 1
        pmf = mp.binomial(count, max(last, 0)) * lie ** max(last, 0) * (1 - lie) ** (count - last)
        largest = pmf
        for i in range(last, -1, -1):
            total += pmf * (1 - mp.exp(a - (count - 2 * i) * e))
            largest = max(largest, pmf)
            if i < last and pmf < largest * mp.mpf(10) ** -45:
                break
            pmf *= mp.mpf(i) / (count - i + 1) * (1 - lie) / lie
        return 1 - (1 - mp.mpf(delta)) ** count * (1 - total)


CASES = [
    (1e-8, 0.0, 1, 0.3),
    (1e-8, 0.0, 1000, 2.0),
    (1e-3, 1e-9, 10_000, 3.0),
    (0.04999, 0.0, 4000, 5.0),
    (0.05, 0.0, 4000, 5.0),
    (0.3, 1e-5, 7, 0.5),
    (1.0, 0.0, 50, 4.0),
    (5.0, 0.0, 20, 2.0),
    (40.0, 0.0, 3, 0.0),
    (49.9, 0.0, 10_000, 0.0),
    (50.1, 0.0, 10_000, 0.0),
    (1e6, 0.0, 4, 0.0),
    (700.0, 1e-10, 5, 0.0),
    (1e-3, 0.0, 1_000_000, 6.0),
    (1e-3, 0.0, 1_000_000, 35.0),
]


@pytest.mark.parametrize(("epsilon", "delta", "count", "deviations"), CASES)
def test_curve(epsilon, delta, count, deviations):
    guarantee = RepeatedDP(epsilon, delta, count)
    mean, spread = count * epsilon * np.tanh(epsilon / 2), np.sqrt(count) * epsilon
    at = min(mean + deviations * spread, 0.99 * count * epsilon)
    exact = exact_delta(epsilon, delta, count, at)
    found = guarantee.delta_at(at)
    assert found == pytest.approx(float(exact), rel=1e-10)
    if found < 0.99:
        assert guarantee.epsilon_at(found) == pytest.approx(at, rel=1e-11)


def test_smallest_deltas_stay_finite():
    for epsilon, count in [
        (1e-8, 10**6),
        (1e-3, 10**6),
        (0.1, 10**5),
        (1.0, 10**6),
        (700.0, 10**6),
    ]:
        guarantee = RepeatedDP(epsilon, 0.0, count)
        losses = guarantee.epsilon_at([1e-300, 1e-100, 1e-6, 0.5])
        assert np.isfinite(losses).all()
        assert (np.diff(losses) <= 0).all()
        assert losses[0] <= count * epsilon
        back = guarantee.delta_at(losses)
        assert (back <= np.array([1e-300, 1e-100, 1e-6, 0.5]) * (1 + 1e-6)).all()


def test_enumeration_of_all_outcomes():
    epsilon, delta, count = 0.7, 0.02, 4
    p = np.exp(epsilon) / (1 + np.exp(epsilon))
    first = np.array([delta, 0.0, (1 - delta) * p, (1 - delta) * (1 - p)])
    second = np.array([0.0, delta, (1 - delta) * (1 - p), (1 - delta) * p])
    outcomes = list(itertools.product(range(4), repeat=count))
    under_first = np.array([np.prod(first[list(one)]) for one in outcomes])
    under_second = np.array([np.prod(second[list(one)]) for one in outcomes])
    guarantee = RepeatedDP(epsilon, delta, count)
    for at in (0.0, 0.5, 1.4, 2.0, 2.8, 4.0):
        exact = np.maximum(under_first - np.exp(at) * under_second, 0.0).sum()
        assert guarantee.delta_at(at) == pytest.approx(exact, rel=1e-13)


def test_one_mechanism_is_the_pair_itself():
    grid = np.linspace(0, 2, 9)
    assert RepeatedDP(1.2, 0.01, 1).delta_at(grid) == pytest.approx(
        ApproxDP(1.2, 0.01).delta_at(grid), rel=1e-13
    )


@pytest.mark.thinned("epsilon", "count", every=2)
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 2.0])
@pytest.mark.parametrize("count", [2, 30, 1000])
def test_optimal_is_never_above_the_other_bounds(epsilon, count):
    parts = [PureDP(epsilon)] * count
    for delta in (1e-300, 1e-9, 1e-3, 0.3):
        best = compose_optimal(PureDP(epsilon), count).epsilon_at(delta) * (1 - 1e-12)
        assert best <= compose(parts).to_approx_dp(delta).epsilon
        assert best <= ZCDP(count * PureDP(epsilon).to_zcdp().rho).epsilon_at(delta)
        assert best <= compose_advanced(parts, delta).epsilon
        assert best <= compose_advanced(parts, delta, method="kairouz").epsilon
        assert best <= GDP(np.sqrt(count) * PureDP(epsilon).to_gdp().mu).epsilon_at(delta)


def test_conversions_multiply():
    repeated = RepeatedDP(0.5, 0.0, 8)
    assert repeated.to_pure_dp() == PureDP(4.0)
    assert repeated.to_zcdp().rho == pytest.approx(8 * 0.5 * np.tanh(0.25))
    assert repeated.to_rdp(3.0).bound == pytest.approx(8 * PureDP(0.5).to_rdp(3.0).bound)
    assert repeated.to_gdp().mu == pytest.approx(np.sqrt(8) * PureDP(0.5).to_gdp().mu)
    assert repeated.group(2) == RepeatedDP(1.0, 0.0, 8)
    assert all(
        one.neighbours == "replace"
        for repeated in [RepeatedDP(0.5, 0.0, 8, neighbours="replace")]
        for one in (repeated.to_pure_dp(), repeated.to_zcdp(), repeated.to_gdp())
    )


@pytest.mark.parametrize(
    ("convert", "kind"),
    [
        (lambda one: one.to_pure_dp(), "ε-DP"),
        (lambda one: one.to_zcdp(), "zCDP"),
        (lambda one: one.to_rdp(2), "RDP"),
        (lambda one: one.to_gdp(), "GDP"),
    ],
)
def test_what_may_be_told_for_certain_is_named_with_its_probability(convert, kind):
    # some one of the eight: 1 - 0.999⁸
    with pytest.raises(
        InvalidParameterError, match=rf"count=8.* implies no {kind}: .*0\.00797206 "
    ):
        convert(RepeatedDP(0.5, 1e-3, 8))


def test_agreement_with_dp_accounting():
    accounting = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    for epsilon, count in [(0.1, 50), (0.5, 20), (1.5, 10)]:
        bracket = [
            accounting.from_randomized_response(
                2 / (1 + np.exp(epsilon)),
                2,
                pessimistic_estimate=pessimistic,
                value_discretization_interval=epsilon / 64,
            ).self_compose(count)
            for pessimistic in (False, True)
        ]
        for target in (1e-3, 0.1):
            found = compose_optimal(PureDP(epsilon), count).epsilon_at(target)
            low, high = (law.get_epsilon_for_delta(target) for law in bracket)
            # each of the losses is rounded by up to one cell of the grid
            assert high - low <= 2 * count * epsilon / 64
            assert low - 1e-9 <= found <= high + 1e-9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1.0, 0.0, 2), "epsilon must be >= 0"),
        ((1.0, 1.0, 2), "delta must be < 1"),
        ((1.0, 0.0, 0), "count must be >= 1"),
        ((1.0, 0.0, 2.5), "count must be a whole number"),
        ((1.0, 0.0, 10**10), "count must be <= "),
    ],
)
def test_bad_parameters(arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        RepeatedDP(*arguments)


def test_delta_below_what_the_mechanisms_use():
    with pytest.raises(InvalidParameterError, match="no finite epsilon"):
        RepeatedDP(0.1, 1e-6, 10).epsilon_at(1e-6)


def test_only_single_pairs_are_repeated():
    with pytest.raises(InvalidParameterError, match="must be PureDP or ApproxDP"):
        compose_optimal(ZCDP(0.1), 5)
    amplified = AmplifiedDP(0.1, 0.0, (Amplification(PureDP(1.0), 0.05, "poisson"),))
    with pytest.raises(IncompatibleReleaseError, match="must not be amplified"):
        compose_optimal(amplified, 5)


@pytest.mark.parametrize(
    ("epsilon", "count", "expected"), [(1e-4, 10**8, 4.886554011), (1e-3, 10**7, 19.42365)]
)
def test_many_answers_that_each_say_little(epsilon, count, expected):
    # the limit is that of a Gaussian with μ = ε√k, to about ε²
    total = RepeatedDP(epsilon, 0.0, count)
    found = total.epsilon_at(1e-6)
    assert found == pytest.approx(expected, rel=2e-7)
    assert found == pytest.approx(GDP(epsilon * count**0.5).epsilon_at(1e-6), rel=1e-4)
    assert total.delta_at(found) == pytest.approx(1e-6, rel=1e-9)


def test_lies_of_probability_near_one_half():
    with mp.workdps(50):
        for epsilon, at in ((1e-4, 1e-3), (0.01, 1.3), (0.04, 5.0)):
            count, step = 3000, mp.mpf(epsilon)
            lie = 1 / (1 + mp.exp(step))
            pmf, factor, odds = (1 - lie) ** count, mp.exp(at - count * step), mp.exp(2 * step)
            expected = mp.mpf(0)
            for i in range(count // 2 + 1):
                # i lies, with a loss of (count - 2i)·step
                expected += pmf * max(1 - factor, 0)
                pmf *= lie / (1 - lie) * (count - i) / (i + 1)
                factor *= odds
            found = RepeatedDP(epsilon, 0.0, count).delta_at(at)
            assert found == pytest.approx(float(expected), rel=1e-11)
