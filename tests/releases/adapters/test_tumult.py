from enum import Enum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace
from dpinfer.releases import from_tumult


class NoiseMechanism(Enum):
    """The enumeration in tmlt.analytics 0.21.0, whose members its sessions return."""

    LAPLACE = 1
    GEOMETRIC = 2
    DISCRETE_GAUSSIAN = 3
    EXPONENTIAL = 4
    GAUSSIAN = 5


def entry(name, parameter):
    return {"noise_mechanism": NoiseMechanism[name], "noise_parameter": parameter}


@pytest.mark.parametrize(
    ("info", "law"),
    # what sessions of tmlt.analytics 0.21.0 returned: under PureDPBudget(0.5) for a count and for
    # a sum of values within (0, 2), under RhoZCDPBudget(0.125) for the same
    [
        ([entry("GEOMETRIC", 2)], Geometric.from_epsilon(0.5)),
        ([entry("LAPLACE", 4)], Laplace.from_epsilon(0.5, sensitivity=2.0)),
        ([entry("DISCRETE_GAUSSIAN", 4)], DiscreteGaussian.from_rho(0.125)),
        ([entry("GAUSSIAN", 16)], Gaussian.from_rho(0.125, sensitivity=2.0)),
    ],
)
def test_from_the_noise_of_a_session(info, law):
    assert from_tumult(info) == law
    assert from_tumult(info[0]) == law
    assert from_tumult(iter(info)) == law
    by_hand = {**info[0], "noise_mechanism": info[0]["noise_mechanism"].name.lower()}
    assert from_tumult(by_hand) == law


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (3, "session._noise_info"),
        ("LAPLACE", "session._noise_info"),
        ([], "one entry"),
        ([entry("LAPLACE", 4), entry("LAPLACE", 4)], "one entry"),  # an average
        ([entry("EXPONENTIAL", 0.5)], "noise_mechanism must be one of"),  # a quantile
        ([4], "one entry"),
        ([{"noise_mechanism": "LAPLACE"}], "without: noise_parameter"),
        ([entry("LAPLACE", 0)], "noise_parameter must be > 0"),
        ([entry("LAPLACE", "4")], "noise_parameter must hold"),
    ],
)
def test_bad_input(info, message):
    with pytest.raises(InvalidParameterError, match=message):
        from_tumult(info)


JUNK = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3))


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.sampled_from(list(NoiseMechanism)), JUNK, JUNK)
def test_only_errors_of_the_library_escape(mechanism, parameter, other):
    for info in (other, [other], {"noise_mechanism": other, "noise_parameter": 1.0}):
        with pytest.raises(DPInferError):
            from_tumult(info)
    try:
        law = from_tumult({"noise_mechanism": mechanism, "noise_parameter": parameter})
    except DPInferError:
        return
    assert law.variance >= 0
