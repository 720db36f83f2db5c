"""Sums of guarantees, against laws that are multiplied out, and what cannot be added up."""

import numpy as np
import pytest

from dpinfer import Gaussian, RandomizedResponse
from dpinfer.errors import DPInferError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.privacy import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    PureDP,
    RepeatedDP,
    amplify,
    compose,
    compose_advanced,
    compose_optimal,
    compose_parallel,
    privacy_loss,
)


def test_each_kind_with_itself():
    assert compose([PureDP(0.1)] * 10) == PureDP(1.0)
    assert compose([ApproxDP(0.1, 1e-7)] * 10) == ApproxDP(1.0, 1e-6)
    assert compose([ZCDP(0.1)] * 10) == ZCDP(1.0)
    assert compose([GDP(3.0), GDP(4.0)]) == GDP(5.0)
    assert compose([RDP(2, 0.1), RDP(2, 0.2)]).bound == pytest.approx(0.3)
    assert compose(PureDP(0.1) for _ in range(2)) == PureDP(0.2)


def test_many_releases():
    assert compose([PureDP(1e-5)] * 10**5) == PureDP(1.0)
    assert compose([GDP(1e-2)] * 10**5).mu == pytest.approx(np.sqrt(10), rel=1e-14)


def test_one_guarantee_is_returned_as_it_is():
    for one in (PureDP(1), ApproxDP(1, 1e-6), ZCDP(1), GDP(1), RDP(2, 1), RepeatedDP(0.1, 0, 5)):
        assert compose([one]) == one


def test_mixed_kinds_become_the_weakest():
    pure, gaussian, zcdp, renyi = PureDP(0.3), GDP(0.4), ZCDP(0.05), RDP([2, 4], [0.1, 0.2])
    assert compose([pure, gaussian]) == GDP(np.hypot(pure.to_gdp().mu, 0.4))
    assert compose([pure, gaussian, zcdp]).rho == pytest.approx(
        pure.to_zcdp().rho + 0.08 + 0.05, rel=1e-14
    )
    total = compose([pure, renyi, zcdp])
    assert total.bound == pytest.approx(
        pure.to_rdp([2, 4]).bound + np.array([0.1, 0.2]) + 0.05 * np.array([2, 4]), rel=1e-14
    )
    assert compose([ApproxDP(0.2, 0.0), pure]) == PureDP(0.5)
    assert compose([RepeatedDP(0.1, 0.0, 4), gaussian]).mu == pytest.approx(
        np.hypot(2 * PureDP(0.1).to_gdp().mu, 0.4)
    )


def test_renyi_curves_with_different_orders():
    first, second = RDP([2.0, 8.0], [0.2, 0.8]), RDP([4.0, 6.0], [0.1, 0.3])
    total = compose([first, second])
    assert total.order.tolist() == [2.0, 4.0, 6.0]
    expected = first.to_rdp(total.order).bound + second.to_rdp(total.order).bound
    assert total.bound == pytest.approx(expected)


def test_pairs_with_curves_share_one_delta():
    total = compose([ZCDP(0.5), ApproxDP(1.0, 1e-7), PureDP(0.2)], delta=1e-6)
    rest = compose([ZCDP(0.5), PureDP(0.2)])
    assert total.delta == 1e-6
    assert total.epsilon == pytest.approx(1.0 + rest.epsilon_at(9e-7), rel=1e-12)
    assert compose([ZCDP(0.5), PureDP(0.2)], delta=1e-6) == rest.to_approx_dp(1e-6)
    pairs = compose([ApproxDP(0.5, 1e-7), PureDP(0.5)], delta=1e-3)
    assert pairs == ApproxDP(1.0, 1e-7).to_approx_dp(1e-3)


def test_the_sum_bounds_laws_multiplied_out():
    # Gaussian and randomized response together: δ(ε) by integration over the Gaussian output
    from scipy import integrate, stats

    epsilon, mu, at = 0.5, 0.8, 1.0
    p = 1 / (1 + np.exp(-epsilon))

    def integrand(x):
        first, second = stats.norm.pdf(x, mu), stats.norm.pdf(x)
        return sum(
            max(a * first - np.exp(at) * b * second, 0.0) for a, b in ((p, 1 - p), (1 - p, p))
        )

    exact, error = integrate.quad(integrand, -12, 12, limit=500, points=[0.0, 1.0, 2.0, 3.0])
    assert error < 1e-8
    assert exact <= compose([PureDP(epsilon), GDP(mu)]).delta_at(at) <= 1.3 * exact


def test_relations_are_not_mixed():
    for call in (compose, compose_parallel, lambda both: compose_advanced(both, 0.1)):
        with pytest.raises(IncompatibleReleaseError, match="to_replace"):
            call([PureDP(1.0), PureDP(1.0, neighbours="replace")])
    total = compose([PureDP(1.0, neighbours="replace")] * 2)
    assert total.neighbours == "replace"


@pytest.mark.parametrize(
    ("guarantees", "options", "message"),
    [
        ([], {}, "at least one"),
        (3, {}, "must be a sequence"),
        ([1.0], {}, r"guarantees\[0\] must be a guarantee"),
        ([ZCDP(0.1), ApproxDP(1, 1e-6)], {}, "delta must be > 1e-06"),
        ([ZCDP(0.1), ApproxDP(1, 1e-6)], {"delta": 1e-6}, "delta must be > 1e-06"),
        ([ApproxDP(1, 0.6)] * 2, {}, "add up to less than 1"),
        ([ApproxDP(1, 1e-6)] * 2, {"delta": 1e-6}, "delta must be >= 2e-06"),
        ([ZCDP(0.1)], {"delta": 1.0}, "delta must be < 1"),
        ([ZCDP(0.1)], {"delta": 0.0}, "no finite epsilon"),
        ([RepeatedDP(0.1, 1e-6, 3), PureDP(1)], {}, "implies no GDP"),
    ],
)
def test_what_cannot_be_composed(guarantees, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        compose(guarantees, **options)


def test_parallel_over_disjoint_parts():
    parts = [0.5, 1.0, 0.75]
    assert compose_parallel([PureDP(e) for e in parts]) == PureDP(1.0)
    assert compose_parallel([ZCDP(e) for e in parts]) == ZCDP(1.0)
    assert compose_parallel([GDP(e) for e in parts]) == GDP(1.0)
    pairs = [ApproxDP(0.5, 1e-3), ApproxDP(1.0, 1e-6)]
    assert compose_parallel(pairs) == ApproxDP(1.0, 1e-3)
    assert compose_parallel([RDP(2, 0.1), RDP(2, 0.3)]) == RDP(2, 0.3)


def test_parallel_when_a_record_moves():
    parts = [0.5, 1.0, 0.75]
    options = {"neighbours": "replace"}
    assert compose_parallel([PureDP(e, **options) for e in parts]) == PureDP(1.75, **options)
    assert compose_parallel([ZCDP(e, **options) for e in parts]) == ZCDP(1.75, **options)
    assert compose_parallel([GDP(e, **options) for e in (3, 4, 1)]) == GDP(5.0, **options)
    assert compose_parallel([PureDP(0.5, **options)]) == PureDP(0.5, **options)
    curves = [RDP([2, 3], [e, 2 * e], **options) for e in parts]
    assert compose_parallel(curves).bound == pytest.approx([1.75, 3.5])


def test_parallel_is_attained_by_randomized_counts():
    # geometric counts of two parts; a record moves from the first to the second
    k = np.arange(-40, 41)

    def log_pmf(x, epsilon):
        return -epsilon * np.abs(x)

    loss = (log_pmf(k, 0.5) - log_pmf(k + 1, 0.5)).max() + (
        log_pmf(k, 1.0) - log_pmf(k - 1, 1.0)
    ).max()
    parts = [PureDP(0.5, neighbours="replace"), PureDP(1.0, neighbours="replace")]
    assert compose_parallel(parts).epsilon == pytest.approx(loss)


@pytest.mark.parametrize(
    "parts",
    [[PureDP(1), ZCDP(1)], [RepeatedDP(0.1, 0, 3)] * 2, [], ["a"], [ApproxDP(1, 0.1), GDP(1)]],
)
def test_what_is_not_parallel(parts):
    with pytest.raises(DPInferError, match="guarantees"):
        compose_parallel(parts)


def test_advanced_formulas():
    losses, deltas, delta = np.array([0.1, 0.2, 0.05]), np.array([1e-8, 0.0, 1e-9]), 1e-6
    parts = [ApproxDP(e, d) for e, d in zip(losses, deltas, strict=True)]
    slack = 1 - (1 - delta) / np.prod(1 - deltas)
    squared = (losses**2).sum()
    root = np.sqrt(2 * squared * np.log(1 / slack))
    found = compose_advanced(parts, delta)
    assert found.epsilon == pytest.approx(squared / 2 + root, rel=1e-9)
    assert found.delta == delta
    drift = ((np.exp(losses) - 1) * losses / (np.exp(losses) + 1)).sum()
    other = drift + np.sqrt(2 * squared * np.log(np.e + np.sqrt(squared) / slack))
    best = min(losses.sum(), drift + root, other)
    assert compose_advanced(parts, delta, method="kairouz").epsilon == pytest.approx(best, rel=1e-9)


def test_advanced_stays_finite_at_the_ends():
    for epsilon in (1e-8, 1e-3, 1.0, 700.0):
        for count in (1, 10**4):
            for delta in (1e-300, 0.5):
                parts = [PureDP(epsilon)] * count
                for method in ("standard", "kairouz"):
                    total = compose_advanced(parts, delta, method=method)
                    assert np.isfinite(total.epsilon)
                    if method == "kairouz":
                        assert total.epsilon <= count * epsilon * (1 + 1e-12)
    assert compose_advanced([PureDP(0.0)] * 3, 1e-6).epsilon == 0


@pytest.mark.parametrize(
    ("parts", "delta", "options", "message"),
    [
        ([ZCDP(0.1)], 0.1, {}, "must be PureDP or ApproxDP"),
        ([PureDP(0.1)], 0.0, {}, "delta must be > 0"),
        ([PureDP(0.1)], 1.0, {}, "delta must be < 1"),
        ([ApproxDP(0.1, 0.1)] * 2, 0.15, {}, "larger than what"),
        ([PureDP(0.1)], 0.1, {"method": "best"}, "method must be one of"),
        ([PureDP(1e80)], 0.1, {}, "epsilon must be"),
    ],
)
def test_advanced_refuses(parts, delta, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        compose_advanced(parts, delta, **options)


@pytest.mark.parametrize(
    "parts",
    [
        [PureDP(0.5), PureDP(1.0), PureDP(0.25)],
        [GDP(0.5), GDP(1.0)],
        [ZCDP(0.5), ZCDP(0.1)],
        [ApproxDP(0.5, 1e-6), ApproxDP(1.0, 1e-7), PureDP(0.1)],
    ],
)
def test_plus_and_sum_compose(parts):
    assert sum(parts).in_words() == compose(parts).in_words()
    assert (parts[0] + parts[1]).in_words() == compose(parts[:2]).in_words()
    assert type(sum(parts)) is type(compose(parts))


def test_sums_of_what_has_no_sum():
    with pytest.raises(InvalidParameterError, match="delta must be > 1e-06"):
        ZCDP(0.5) + ApproxDP(0.5, 1e-6)
    with pytest.raises(IncompatibleReleaseError, match="one neighbour relation"):
        PureDP(1.0) + PureDP(1.0, neighbours="replace")
    with pytest.raises(TypeError, match="unsupported operand"):
        PureDP(1.0) + 1.0
    with pytest.raises(TypeError, match="unsupported operand"):
        1 + PureDP(1.0)


def by_enumeration(pairs, at):
    """δ over all outcomes of randomized responses, and of what tells everything."""
    first, second, told = np.ones(1), np.ones(1), 1.0
    for epsilon, delta in pairs:
        p = np.exp(epsilon) / (1 + np.exp(epsilon))
        first, second = np.kron(first, [p, 1 - p]), np.kron(second, [1 - p, p])
        told *= 1 - delta
    return 1 - told * (1 - np.maximum(first - np.exp(at) * second, 0).sum())


def test_optimal_composition_of_guarantees_that_differ_is_that_of_all_outcomes():
    rng = np.random.default_rng(31)
    for _ in range(10):
        epsilons, deltas = rng.uniform(0.05, 0.8, 9), rng.choice([0.0, 1e-4, 1e-3], 9)
        parts = [ApproxDP(e, d) for e, d in zip(epsilons, deltas, strict=True)]
        total = compose(parts, method="optimal")
        for at in (0.0, 0.4, 1.3, 2.5):
            wanted = by_enumeration(zip(epsilons, deltas, strict=True), at)
            assert total.delta_at(at) == pytest.approx(wanted, rel=1e-10)
            assert total.delta_at(at) >= wanted * (1 - 1e-13)
        assert total.delta_at(total.epsilon_at(0.02)) == pytest.approx(0.02, rel=1e-9)
        assert total.epsilon_at(0.02) <= compose(parts).epsilon


def test_optimal_composition_of_equal_guarantees_is_the_known_one():
    repeated = compose_optimal(ApproxDP(0.1, 1e-9), 100)
    for parts in ([ApproxDP(0.1, 1e-9)] * 100, [repeated]):
        total = compose(parts, method="optimal")
        assert total.epsilon_at(1e-6) == pytest.approx(repeated.epsilon_at(1e-6), rel=1e-11)
    pair = compose([ApproxDP(0.1, 1e-9)] * 100, delta=1e-6, method="optimal")
    assert pair == ApproxDP(total.epsilon_at(1e-6), 1e-6)
    assert total.group(2).epsilon_at(1e-5) == pytest.approx(repeated.group(2).epsilon_at(1e-5))


def test_optimal_composition_takes_gaussian_guarantees():
    assert compose([GDP(0.3), GDP(0.4)], method="optimal").epsilon_at(1e-6) == pytest.approx(
        GDP(0.5).epsilon_at(1e-6), rel=1e-12
    )
    both = compose([GDP(0.5), PureDP(0.5), PureDP(1e-15)], method="optimal")
    exact = privacy_loss(Gaussian(sigma=2.0)) + privacy_loss(RandomizedResponse.from_epsilon(0.5))
    assert both.epsilon_at(1e-6) == pytest.approx(exact.epsilon_at(1e-6), rel=1e-9)
    # beyond everything that is told
    told = compose([ApproxDP(0.0, 0.1), ApproxDP(0.5, 0.1)], method="optimal")
    assert told.epsilon_at(0.19) == pytest.approx(0.5)
    with pytest.raises(InvalidParameterError, match=r"delta must be >= 0\.19"):
        told.epsilon_at(0.18)


@pytest.mark.parametrize("other", [ZCDP(0.1), RDP(2.0, 0.1), amplify(PureDP(1.0), rate=0.1)])
def test_optimal_composition_refuses_what_has_no_worst_case(other):
    with pytest.raises(InvalidParameterError, match='use method="sum"'):
        compose([PureDP(1.0), other], method="optimal")
