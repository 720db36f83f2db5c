"""The noise that secrecy of the sample saves, and the guarantee that it keeps."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import DPInferError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms import Gaussian, Geometric, Laplace
from dpinfer.privacy import (
    Amplification,
    AmplifiedDP,
    ApproxDP,
    PureDP,
    SubsampledLoss,
    adjust_for_sampling,
    amplify,
    compose,
    guarantee_of,
)


@pytest.mark.parametrize("noise", ["laplace", "geometric"])
@pytest.mark.parametrize("releases", [1, 3])
def test_the_target_is_met_exactly(noise, releases):
    found = adjust_for_sampling(
        PureDP(0.2), rate=0.05, noise=noise, sensitivity=2, releases=releases
    )
    spent = [guarantee_of(found.mechanism, 2.0)] * releases
    assert amplify(spent, rate=0.05).epsilon == pytest.approx(0.2, rel=1e-14)
    alone = compose([guarantee_of(found.unsampled, 2.0)] * releases)
    assert alone.epsilon == pytest.approx(0.2, rel=1e-14)
    assert type(found.mechanism) is {"laplace": Laplace, "geometric": Geometric}[noise]


def test_gaussian_noise_meets_the_target():
    target = ApproxDP(0.3, 1e-6, neighbours="replace")
    found = adjust_for_sampling(
        target, rate=0.1, scheme="without-replacement", noise="gaussian", releases=4
    )
    assert type(found.mechanism) is Gaussian
    spent = [guarantee_of(found.mechanism, 1.0, "replace")] * 4
    amplified = amplify(spent, rate=0.1, scheme="without-replacement", delta=1e-6)
    assert amplified.epsilon == pytest.approx(0.3, rel=1e-11)
    assert found.sample_budget.delta == pytest.approx(1e-5)


def test_ratios():
    found = adjust_for_sampling(PureDP(0.0824), rate=0.05)
    assert found.scale_ratio == pytest.approx(found.mechanism.scale / found.unsampled.scale)
    assert found.variance_ratio == pytest.approx(found.scale_ratio**2)
    assert found.weighted_variance == pytest.approx(400 * found.mechanism.variance)
    none = adjust_for_sampling(PureDP(0.5), rate=1.0)
    assert none.variance_ratio == pytest.approx(1.0, rel=1e-15)
    # where ε is small against the rate, the standard deviation falls to about the rate
    assert adjust_for_sampling(PureDP(1e-9), rate=0.05).scale_ratio == pytest.approx(0.05, rel=1e-6)
    assert np.isfinite(adjust_for_sampling(PureDP(700.0), rate=1e-12).variance_ratio)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": PureDP(0.0)}, "epsilon > 0"),
        ({"noise": "gaussian"}, "delta > 0 for Gaussian"),
        ({"noise": "geometric", "sensitivity": 0.5}, "whole number for geometric"),
        ({"noise": "uniform"}, "noise must be one of"),
        ({"sensitivity": 0.0}, "sensitivity must be > 0"),
        ({"releases": 0}, "releases must be >= 1"),
        ({"rate": 2.0}, "rate must be <= 1"),
        ({"target": 1.0}, "target must be"),
    ],
)
def test_bad_arguments(change, message):
    arguments = {"target": PureDP(1.0), "rate": 0.1} | change
    with pytest.raises(InvalidParameterError, match=message):
        adjust_for_sampling(arguments.pop("target"), **arguments)


def test_wrong_relation():
    with pytest.raises(IncompatibleReleaseError, match="must have neighbours"):
        adjust_for_sampling(PureDP(1.0), rate=0.1, scheme="without-replacement")


ODD = st.one_of(
    st.floats(), st.floats(0, 2), st.integers(-1, 10**10), st.sampled_from([None, "a", [], 1j])
)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    st.sampled_from([PureDP(1e-300), PureDP(1e50), ApproxDP(1.0, 1e-300), ApproxDP(700, 0.5), 3]),
    ODD,
    ODD,
    ODD,
    st.sampled_from(["laplace", "geometric", "gaussian", None]),
)
def test_only_clear_errors(target, rate, sensitivity, releases, noise):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            found = adjust_for_sampling(
                target, rate=rate, noise=noise, sensitivity=sensitivity, releases=releases
            )
        except DPInferError:
            return
        assert 0 < found.scale_ratio <= 1 + 1e-12
        assert found.weighted_variance >= 0


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.one_of(st.none(), st.just(Laplace(scale=1.0)), ODD), ODD, ODD, ODD, ODD)
def test_losses_of_odd_steps(mechanism, rate, count, sensitivity, others):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            loss = SubsampledLoss(mechanism, rate, count, sensitivity, others)
        except DPInferError:
            return
        assert 0 < loss.rate <= 1


@settings(derandomize=True, deadline=None, max_examples=100)
@given(ODD, ODD, st.one_of(ODD, st.just((Amplification(PureDP(1.0), 0.1, "poisson"),))))
def test_amplified_guarantees_made_by_hand(epsilon, delta, sources):
    try:
        found = AmplifiedDP(epsilon, delta, sources)
    except DPInferError:
        return
    assert found.delta_at(epsilon) >= delta
