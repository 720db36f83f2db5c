import math
from dataclasses import make_dataclass

import pytest

from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Gaussian, Geometric, Laplace
from dpinfer.releases import from_dp_event


@pytest.fixture(scope="module")
def events():
    pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
    from dp_accounting import dp_event

    return dp_event


def test_additive_mechanisms(events):
    assert from_dp_event(events.GaussianDpEvent(1.5), sensitivity=2) == Gaussian(sigma=3.0)
    assert from_dp_event(events.LaplaceDpEvent(1.5), sensitivity=2) == Laplace(scale=3.0)
    discrete = events.DiscreteLaplaceDpEvent(noise_parameter=0.25, sensitivity=3)
    assert from_dp_event(discrete) == Geometric(scale=4.0)
    # the documented probability mass exp(-a |k|) tanh(a/2)
    for k in range(4):
        want = math.exp(-0.25 * k) * math.tanh(0.125)
        assert from_dp_event(discrete).pmf(k) == pytest.approx(want, rel=1e-14)


def test_the_accountant_and_the_law_agree_on_epsilon(events):
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    accountant.compose(events.LaplaceDpEvent(2.0))
    law = from_dp_event(events.LaplaceDpEvent(2.0), sensitivity=1.0)
    assert accountant.get_epsilon(1e-10) == pytest.approx(1 / law.scale, rel=1e-3)


def test_other_events_are_refused_with_the_reason(events):
    gaussian = events.GaussianDpEvent(1.5)
    for event, message in (
        (events.ComposedDpEvent([gaussian, gaussian]), "several mechanisms"),
        (events.SelfComposedDpEvent(gaussian, 3), "several runs"),
        (events.PoissonSampledDpEvent(0.1, gaussian), "random sample"),
        (events.SampledWithoutReplacementDpEvent(10, 2, gaussian), "random sample"),
        (events.ZCDpEvent(0.1), "does not determine the law"),
        (events.NonPrivateDpEvent(), r"Exact\(\)"),
        (events.NoOpDpEvent(), "publishes nothing"),
        (events.RandomizedResponseDpEvent(0.5, 3), "randomized response"),
        (events.UnsupportedDpEvent(), "not one run"),
    ):
        with pytest.raises(InvalidParameterError, match=message):
            from_dp_event(event, sensitivity=1)


def test_bad_arguments(events):
    with pytest.raises(InvalidParameterError, match="sensitivity must be given"):
        from_dp_event(events.GaussianDpEvent(1.5))
    with pytest.raises(InvalidParameterError, match="sensitivity must be > 0"):
        from_dp_event(events.GaussianDpEvent(1.5), sensitivity=0)
    with pytest.raises(InvalidParameterError, match="noise_multiplier must be > 0"):
        from_dp_event(events.GaussianDpEvent(0.0), sensitivity=1)
    for event in (None, 3, "GaussianDpEvent"):
        with pytest.raises(InvalidParameterError, match="DpEvent of dp_accounting"):
            from_dp_event(event)


def event(kind, **attributes):
    """Return an object like an event of dp-accounting 0.6, a frozen class of its attributes."""
    made = make_dataclass(kind, attributes, frozen=True)
    made.__module__ = "dp_accounting.dp_event"
    return made(**attributes)


def test_events_like_those_of_the_library():
    gaussian = event("GaussianDpEvent", noise_multiplier=1.5)
    assert from_dp_event(gaussian, sensitivity=2) == Gaussian(sigma=3.0)
    laplace = event("LaplaceDpEvent", noise_multiplier=1.5)
    assert from_dp_event(laplace, sensitivity=2) == Laplace(scale=3.0)
    discrete = event("DiscreteLaplaceDpEvent", noise_parameter=0.25, sensitivity=3)
    assert from_dp_event(discrete) == Geometric(scale=4.0)
    with pytest.raises(InvalidParameterError, match="sensitivity must be given"):
        from_dp_event(laplace)
    with pytest.raises(InvalidParameterError, match="noise_multiplier must be > 0"):
        from_dp_event(event("LaplaceDpEvent", noise_multiplier=-1.0), sensitivity=1)
    with pytest.raises(InvalidParameterError, match="several runs of a mechanism"):
        from_dp_event(event("SelfComposedDpEvent", event=gaussian, count=3))
    with pytest.raises(InvalidParameterError, match="not one run of an additive mechanism"):
        from_dp_event(event("MixtureOfGaussiansDpEvent", standard_deviation=1.0))
