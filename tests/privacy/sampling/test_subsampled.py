"""Brackets of ``dp-accounting`` around subsampled losses that are known exactly."""

import sys

import numpy as np
import pytest
from scipy.special import expit

from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError, MissingExtraError
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace
from dpinfer.privacy import (
    GDP,
    AmplifiedDP,
    PureDP,
    SubsampledLoss,
    amplified_epsilon,
    amplify,
    compose,
    privacy_loss,
)


def installed():
    pytest.importorskip("dp_accounting")


def test_without_sampling_the_gaussian_is_known():
    installed()
    discrete = DiscreteGaussian(sigma=10.0)
    repeated = privacy_loss(discrete, compositions=100).epsilon_at([1e-6, 1e-3])
    for law, exact in (
        (Gaussian(sigma=10.0), GDP(1.0).epsilon_at([1e-6, 1e-3])),
        (discrete, repeated),
    ):
        loss = SubsampledLoss(law, rate=1.0, count=100)
        lower, upper = loss.epsilon_bounds([1e-6, 1e-3])
        assert (lower <= exact).all()
        assert (exact <= upper).all()
        assert (upper - lower < 0.02).all()


def test_one_step_is_the_amplified_guarantee():
    installed()
    loss = SubsampledLoss(Laplace(scale=1.0), rate=0.05)
    lower, upper = loss.epsilon_bounds(1e-10)
    assert lower <= amplified_epsilon(1.0, 0.05) + 1e-9
    assert upper >= amplified_epsilon(1.0, 0.05) - 1e-8
    assert upper - lower < 2e-4


def test_many_steps_of_a_geometric_count_by_enumeration():
    installed()
    # with sensitivity 1 a geometric count is randomized response: the laws of 6 steps, multiplied
    rate, count = 0.2, 6
    p = expit(1.0)
    one = np.array([p, 1 - p])
    first, second = rate * one + (1 - rate) * one[::-1], one[::-1]
    deltas = []
    for at in (0.1, 0.4):
        both = []
        for top, bottom in ((first, second), (second, first)):
            p_all, q_all = np.ones(1), np.ones(1)
            for _ in range(count):
                p_all, q_all = np.outer(p_all, top).ravel(), np.outer(q_all, bottom).ravel()
            both.append(np.maximum(p_all - np.exp(at) * q_all, 0.0).sum())
        deltas.append(max(both))
    loss = SubsampledLoss(Geometric(scale=1.0), rate=rate, count=count, grid=1e-5)
    lower, upper = loss.delta_bounds([0.1, 0.4])
    assert (lower <= np.array(deltas) + 1e-12).all()
    assert (np.array(deltas) <= upper + 1e-12).all()
    assert (upper - lower < 1e-4).all()


def test_guarantee_is_marked_as_amplified():
    installed()
    loss = SubsampledLoss(Laplace(scale=2.0), rate=0.01, count=1000)
    guarantee = loss.to_approx_dp(1e-6)
    assert type(guarantee) is AmplifiedDP
    assert guarantee.epsilon == loss.epsilon_bounds(1e-6)[1] == pytest.approx(0.6138850951658801)
    with pytest.raises(IncompatibleReleaseError, match="amplified already"):
        amplify(guarantee, rate=0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mechanism": Exact()}, "mechanism must be"),
        ({"mechanism": Laplace(scale=[1.0, 2.0])}, "one scale"),
        ({"mechanism": Geometric(scale=1.0), "sensitivity": 0.5}, "whole-number"),
        ({"rate": 0.0}, "rate must be > 0"),
        ({"count": 0}, "count must be >= 1"),
        ({"grid": 0.0}, "grid must be >= 1e-08"),
        ({"mechanism": Gaussian(sigma=1e-4)}, "grid must be >= "),
    ],
)
def test_bad_parameters(arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        SubsampledLoss(**({"mechanism": Laplace(scale=1.0), "rate": 0.1} | arguments))


def test_deltas_that_are_not_resolved():
    with pytest.raises(InvalidParameterError, match="delta must be >= 1e-10"):
        SubsampledLoss(Laplace(scale=1.0), rate=0.1).epsilon_bounds(1e-12)


def test_losses_on_one_sample_do_not_compose():
    installed()
    first = SubsampledLoss(Laplace(scale=1.0), rate=0.05)
    second = SubsampledLoss(Laplace(scale=2.0), rate=0.05)
    for names in ((None, None), ("wave 1", None), ("wave 1", "wave 1")):
        parts = [
            one.to_approx_dp(1e-6, sample=name)
            for one, name in zip((first, second), names, strict=True)
        ]
        with pytest.raises(IncompatibleReleaseError, match="must be for samples drawn independ"):
            compose(parts)
    parts = [first.to_approx_dp(1e-6, sample="wave 1"), second.to_approx_dp(1e-6, sample="wave 2")]
    total = compose(parts)
    assert total.delta == 2e-6
    assert [source.sample for source in total.sources] == ["wave 1", "wave 2"]
    # with one name given to several, the sum of ε would be too small: one sample, both releases
    joint = amplify([PureDP(1.0), PureDP(0.5)], rate=0.05)
    assert joint.epsilon > total.epsilon_at(2e-6)


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting.pld.privacy_loss_distribution", None)
    with pytest.raises(MissingExtraError, match=r"dpinfer\[accounting\]"):
        SubsampledLoss(Laplace(scale=1.0), rate=0.1).delta_bounds(1.0)


def test_sums_of_sampled_losses():
    pytest.importorskip("dp_accounting")
    first = SubsampledLoss(Laplace(scale=2.0), rate=0.05, count=20, grid=1e-3)
    second = SubsampledLoss(Gaussian(sigma=3.0), rate=0.1, count=5, grid=1e-3)
    total = first + second
    assert total.epsilon_at(1e-5) == total.epsilon_bounds(1e-5)[1]
    assert total.delta_at(0.5) == total.delta_bounds(0.5)[1]
    # more than either alone, less than both at half of δ
    parts = [one.epsilon_at(0.5e-5) for one in (first, second)]
    assert max(parts) < total.epsilon_at(0.5e-5)
    assert total.epsilon_at(1e-5) < sum(parts)
    assert sum([first, first]).epsilon_at(1e-5) == pytest.approx((2 * first).epsilon_at(1e-5))
    assert (3 * total).others[0].count == 15
    assert [source.rate for source in total.to_approx_dp(1e-5, sample="x").sources] == [0.05, 0.1]
    with pytest.raises(InvalidParameterError, match="others must hold single losses with the grid"):
        first + SubsampledLoss(Laplace(scale=2.0), rate=0.05, grid=1e-2)
    with pytest.raises(TypeError, match="unsupported operand"):
        first + 1.0


def test_certain_sampling_is_no_sampling():
    pytest.importorskip("dp_accounting")
    sampled = SubsampledLoss(Laplace(scale=2.0), rate=1.0, count=3, grid=1e-3)
    sampled += SubsampledLoss(Gaussian(sigma=3.0), rate=1.0, grid=1e-3)
    exact = 3 * privacy_loss(Laplace(scale=2.0)) + privacy_loss(Gaussian(sigma=3.0))
    low, high = sampled.epsilon_bounds(1e-4)
    assert low <= exact.epsilon_at(1e-4) <= high
    assert high == pytest.approx(low, abs=0.01)
