"""The guarantee of each mechanism, against the largest ratio of its own probabilities."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    ExponentialMechanism,
    Gaussian,
    Geometric,
    IndependentNoise,
    Laplace,
    RandomizedResponse,
    Tulap,
    WeightedSum,
)
from dpinfer.privacy import GDP, ZCDP, ApproxDP, PureDP, guarantee_of


def test_laplace_is_the_largest_log_ratio():
    law, change = Laplace(scale=2.0), 3.0
    x = np.linspace(-50, 50, 2001)
    loss = (law.logpdf(x) - law.logpdf(x + change)).max()
    assert guarantee_of(law, change).epsilon == pytest.approx(loss)


def test_geometric_is_the_largest_log_ratio():
    law, change = Geometric(scale=2.5), 4
    k = np.arange(-60, 61)
    loss = (law.logpmf(k) - law.logpmf(k + change)).max()
    assert guarantee_of(law, change).epsilon == pytest.approx(loss)


def test_gaussian_curve_is_that_of_two_normals():
    law, change, epsilon = Gaussian(sigma=2.0), 1.5, 0.3
    x = np.linspace(-40, 40, 400_001)
    exact = np.maximum(law.pdf(x - change) - np.exp(epsilon) * law.pdf(x), 0).sum() * (x[1] - x[0])
    assert guarantee_of(law, change) == GDP(0.75)
    assert guarantee_of(law, change).delta_at(epsilon) == pytest.approx(exact, rel=1e-7)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("change", [1, 3])
def test_discrete_gaussian_divergences_stay_below_the_line(sigma, change):
    law = DiscreteGaussian(sigma=sigma)
    k = np.arange(-200, 201)
    rho = guarantee_of(law, change).rho
    assert rho == pytest.approx(change**2 / (2 * sigma**2))
    for order in (1.01, 2.0, 10.0):
        first, second = law.logpmf(k - change), law.logpmf(k)
        moment = np.logaddexp.reduce(order * first + (1 - order) * second)
        assert moment / (order - 1) <= order * rho * (1 + 1e-9)
        # the divergence is exactly that where order times the change is whole
        if order == 2.0:
            assert moment == pytest.approx(order * rho)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (0.7, 0.01), (2.0, 1e-6)])
def test_tulap_gives_back_its_parameters(epsilon, delta):
    law = Tulap.from_epsilon(epsilon, delta=delta)
    found = guarantee_of(law)
    assert type(found) is (ApproxDP if delta else PureDP)
    assert found.to_approx_dp(delta).epsilon == pytest.approx(epsilon, rel=1e-12)
    # δ by integration of the density, which is constant on the unit intervals
    x = np.arange(-60, 60, 1e-3) + 5e-4
    for change in (1, 2):
        pair = guarantee_of(law, change).to_approx_dp(guarantee_of(law, change).delta_at(1e9))
        first, second = law.pdf(x), law.pdf(x - change)
        exact = np.maximum(first - np.exp(pair.epsilon) * second, 0.0).sum() * 1e-3
        assert exact <= pair.delta + 1e-6
        assert pair.delta == pytest.approx(exact, rel=0.05, abs=2e-6)


def test_tulap_between_whole_numbers():
    law = Tulap.from_epsilon(1.0)
    x = np.linspace(-30, 30, 60_001)
    loss = (law.logpdf(x) - law.logpdf(x + 1.4)).max()
    assert guarantee_of(law, 1.4) == PureDP(2.0)
    assert loss == pytest.approx(2.0)
    assert guarantee_of(Tulap.from_epsilon(1.0, delta=0.01), 0.0) == ApproxDP(0.0, 0.0)


def test_randomized_response_protects_an_answer():
    channel = RandomizedResponse(p=0.6, categories=4)
    matrix = channel.matrix
    loss = np.log(matrix[:, None] / matrix[None]).max()
    found = guarantee_of(channel)
    assert (found.epsilon, found.neighbours) == (pytest.approx(loss), "replace")
    assert guarantee_of(channel, neighbours="replace") == found
    with pytest.raises(InvalidParameterError, match="number of respondents is seen"):
        guarantee_of(channel, neighbours="add-remove")


def test_exponential_mechanism_by_its_probabilities():
    rng = np.random.default_rng(3)
    for monotonic in (False, True):
        mechanism = ExponentialMechanism(epsilon=0.8, monotonic=monotonic)
        worst = {"add-remove": 0.0, "replace": 0.0}
        for _ in range(1000):
            scores = rng.integers(0, 4, 3).astype(float)
            up, down = rng.integers(0, 2, (2, 3))
            moves = {
                "add-remove": up if monotonic else rng.integers(-1, 2, 3),
                "replace": up - down if monotonic else rng.integers(-1, 2, 3),
            }
            for relation, move in moves.items():
                ratio = mechanism.log_probabilities(scores + move) - mechanism.log_probabilities(
                    scores
                )
                worst[relation] = max(worst[relation], np.abs(ratio).max())
        for relation, loss in worst.items():
            found = guarantee_of(mechanism, neighbours=relation).epsilon
            assert loss <= found * (1 + 1e-12)
            assert loss >= 0.5 * found


def test_vectors():
    assert guarantee_of(Laplace(scale=2.0), [1, 1, 0]) == PureDP(1.0)
    assert guarantee_of(Laplace(scale=[1.0, 4.0]), [1, 1]) == PureDP(1.25)
    # all of one sensitivity may fall on the cell with the least noise
    assert guarantee_of(Laplace(scale=[1.0, 4.0]), 2.0) == PureDP(2.0)
    assert guarantee_of(Gaussian(sigma=[3.0, 4.0]), [9, 16]) == GDP(5.0)
    assert guarantee_of(DiscreteGaussian(sigma=2.0), np.sqrt(2)).rho == pytest.approx(0.25)
    assert guarantee_of(DiscreteGaussian(sigma=[1.0, 2.0]), [1, 2]) == ZCDP(1.0)
    assert guarantee_of(Geometric(scale=2.0), [1, 0], "replace").neighbours == "replace"
    assert guarantee_of(Laplace(scale=2.0), 0.0) == PureDP(0.0)


@pytest.mark.parametrize(
    ("mechanism", "sensitivity", "message"),
    [
        (Geometric(scale=1.0), 0.5, "no value in common"),
        (DiscreteGaussian(sigma=1.0), 1.2, "no value in common"),
        (DiscreteGaussian(sigma=1.0), [1.0, 0.5], "no value in common"),
        (Exact(), 1.0, "adds no noise"),
        (WeightedSum([1.0, 1.0], [Laplace(scale=1.0), Laplace(scale=2.0)]), 1.0, "costs nothing"),
        (
            IndependentNoise([Laplace(scale=1.0), Gaussian(sigma=1.0)]),
            1.0,
            "compose the guarantees",
        ),
        (Tulap(scale=[1.0, 2.0]), 1.0, "one scale"),
        (Tulap(scale=1.0, truncation=0.99), 1.0, "were impossible"),
        (RandomizedResponse(p=0.7), 2.0, "left at 1"),
        (ExponentialMechanism(epsilon=1.0), 2.0, "left at 1"),
        (Laplace(scale=1.0), -1.0, "sensitivity must be >= 0"),
        (Laplace(scale=[1.0, 2.0]), [1.0, 2.0, 3.0], "must broadcast"),
        (DiscreteGaussian(sigma=[1.0, 2.0]), [1.0, 2.0, 3.0], "must broadcast"),
        (Laplace(scale=1e-100), 1e100, "epsilon must be <= "),
        ("laplace", 1.0, "mechanism must be a law"),
    ],
)
def test_what_has_no_guarantee(mechanism, sensitivity, message):
    with pytest.raises(InvalidParameterError, match=message):
        guarantee_of(mechanism, sensitivity)


ODD = st.one_of(
    st.floats(), st.integers(-3, 5), st.sampled_from([None, "a", [], [1, 2], [[1.0]], 1j, np.nan])
)
LAWS = [
    Laplace(scale=1e-100),
    Laplace(scale=[1.0, 1e100]),
    Geometric(scale=1e15),
    Gaussian(sigma=1e-100),
    DiscreteGaussian(sigma=1e-100),
    Tulap(scale=1.0, truncation=0.1),
    Tulap(scale=1e-100),
    Tulap(scale=1e15, truncation=0.5),
    RandomizedResponse(p=0.5),
    None,
]


@settings(derandomize=True, deadline=None, max_examples=150)
@given(st.sampled_from(LAWS), ODD, st.sampled_from([None, "replace", "add-remove", 1]))
def test_only_clear_errors(law, sensitivity, neighbours):
    try:
        guarantee = guarantee_of(law, sensitivity, neighbours)
    except DPInferError:
        return
    assert np.isfinite(guarantee.delta_at(1.0))
