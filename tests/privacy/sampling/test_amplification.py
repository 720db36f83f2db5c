"""Secrecy of the sample: the formulas at 40 digits, by enumeration, and what is refused."""

import itertools
import warnings

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer import Gaussian
from dpinfer.errors import DPInferError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.privacy import (
    GDP,
    RDP,
    ZCDP,
    Amplification,
    AmplifiedCurve,
    AmplifiedDP,
    ApproxDP,
    PureDP,
    SubsampledLoss,
    amplified_epsilon,
    amplify,
    amplify_inverse,
    compose,
    compose_optimal,
    sample_epsilon,
)

EPSILONS = [1e-300, 1e-8, 1e-3, 0.5, 1.0, 30.0, 699.0, 701.0, 1e6]
RATES = [1e-100, 1e-12, 1e-3, 0.05, 0.5, 1.0 - 1e-16, 1.0]


def test_the_published_example():
    amplified = amplify(PureDP(1.0), rate=0.05)
    assert amplified.epsilon == pytest.approx(np.log(1 + 0.05 * (np.e - 1)), rel=1e-15)
    assert round(amplified.epsilon, 4) == 0.0824
    back = amplify_inverse(PureDP(amplified.epsilon), rate=0.05)
    assert back.epsilon == pytest.approx(1.0, rel=4e-16)
    assert (amplified.delta, back.delta) == (0.0, 0.0)


@pytest.mark.thinned("rate", "epsilon", every=2)
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_both_directions_with_many_digits(epsilon, rate):
    with mp.workdps(400):
        e, b = mp.mpf(epsilon), mp.mpf(rate)
        up, down = mp.log1p(b * mp.expm1(e)), mp.log1p(mp.expm1(e) / b)
    assert amplified_epsilon(epsilon, rate) == pytest.approx(float(up), rel=1e-15, abs=0)
    assert sample_epsilon(epsilon, rate) == pytest.approx(float(down), rel=1e-15, abs=0)
    assert 0 <= amplified_epsilon(epsilon, rate) <= epsilon <= sample_epsilon(epsilon, rate)


def hockey_stick(first, second, epsilon):
    return np.maximum(first - np.exp(epsilon) * second, 0.0).sum()


def test_poisson_by_enumeration_of_samples():
    # records 0/1, randomized response on whether the sample holds a 1: every sample enumerated
    rate, epsilon, delta = 0.3, 1.1, 0.02
    p = 1 / (1 + np.exp(-epsilon))
    told = np.array([delta, 0.0, (1 - delta) * p, (1 - delta) * (1 - p)])
    hidden = np.array([0.0, delta, (1 - delta) * (1 - p), (1 - delta) * p])

    def law(records):
        total = np.zeros(4)
        for drawn in itertools.product((0, 1), repeat=len(records)):
            chance = np.prod([rate if one else 1 - rate for one in drawn])
            total += chance * (told if np.dot(drawn, records) else hidden)
        return total

    small, large = law([0, 0, 0]), law([0, 0, 0, 1])
    amplified = amplify(ApproxDP(epsilon, delta), rate=rate)
    found = hockey_stick(large, small, amplified.epsilon)
    # attained exactly in one direction, and respected in the other
    assert found == pytest.approx(amplified.delta, rel=1e-12)
    assert hockey_stick(small, large, amplified.epsilon) <= amplified.delta


def test_without_replacement_by_enumeration_of_samples():
    size, drawn, epsilon = 6, 2, 0.8
    p = 1 / (1 + np.exp(-epsilon))

    def law(records):
        samples = list(itertools.combinations(range(size), drawn))
        share = np.mean([any(records[i] for i in sample) for sample in samples])
        return share * np.array([p, 1 - p]) + (1 - share) * np.array([1 - p, p])

    with_one, without = law([1, 0, 0, 0, 0, 0]), law([0] * 6)
    amplified = amplify(
        PureDP(epsilon, neighbours="replace"), rate=drawn / size, scheme="without-replacement"
    )
    ratio = np.log(with_one / without)
    assert np.abs(ratio).max() == pytest.approx(amplified.epsilon, rel=1e-12)


def test_curves_are_amplified_at_the_delta_of_the_answer():
    for guarantee in (
        GDP(1.0),
        ZCDP(0.5),
        RDP([2, 8, 32], [1, 4, 16]),
        compose_optimal(PureDP(0.1), 50),
    ):
        amplified = amplify(guarantee, rate=0.1, delta=1e-6)
        assert amplified.delta == pytest.approx(1e-6)
        assert amplified.epsilon == pytest.approx(
            np.log1p(0.1 * np.expm1(guarantee.epsilon_at(1e-5))), rel=1e-13
        )
        curve = amplify(guarantee, rate=0.1)
        assert isinstance(curve, AmplifiedCurve)
        assert curve.epsilon_at(1e-6) == pytest.approx(amplified.epsilon, rel=1e-13)
        inner = np.log1p(np.expm1([0.0, 0.3, 2.0]) / 0.1)
        assert curve.delta_at([0.0, 0.3, 2.0]) == pytest.approx(0.1 * guarantee.delta_at(inner))
        assert curve.epsilon_at([0.1, 0.5]).tolist() == [0.0, 0.0]
        assert curve.to_approx_dp(1e-6).sources == amplified.sources
        with pytest.raises(IncompatibleReleaseError, match="amplified already"):
            amplify(curve, rate=0.1)
        with pytest.raises(InvalidParameterError, match="to_approx_dp"):
            curve.group(2)
        with pytest.raises(InvalidParameterError, match="to_approx_dp"):
            compose([curve, PureDP(1.0)])


def test_the_curve_of_a_sampled_gaussian_is_attained():
    # removal of the record: the mixture against N(0, 1), whose δ is this one exactly
    curve = amplify(GDP(1.0), rate=0.1)
    exact = SubsampledLoss(Gaussian(sigma=1.0), rate=0.1).delta_at([0.1, 1.0, 3.0])
    assert curve.delta_at([0.1, 1.0, 3.0]) == pytest.approx(exact, rel=1e-9)
    pair = amplify(PureDP(1.0), rate=0.5, delta=0.01)
    assert pair.epsilon < amplify(PureDP(1.0), rate=0.5).epsilon


def test_several_releases_are_composed_first():
    parts = [PureDP(0.3), ApproxDP(0.4, 1e-7), PureDP(0.3)]
    together = amplify(parts, rate=0.05)
    assert together.epsilon == pytest.approx(amplify(PureDP(1.0), rate=0.05).epsilon, rel=1e-14)
    assert together.delta == pytest.approx(5e-9)
    # more than the unsound sum of amplified releases
    unsound = sum(amplify(part, rate=0.05).epsilon for part in parts)
    assert together.epsilon > unsound
    assert together.sources[0].guarantee == compose(parts)
    mixed = amplify([ApproxDP(1.0, 1e-9), ZCDP(0.1)], rate=0.1, delta=1e-6)
    assert mixed.sources[0].guarantee.delta == pytest.approx(1e-5)


def test_the_unsound_sum_is_exceeded_by_a_real_mechanism():
    # two answers of randomized response on one sample with rate β: exact loss of the pair
    rate, epsilon = 0.05, 1.0
    p = 1 / (1 + np.exp(-epsilon))
    told, hidden = np.array([p, 1 - p]), np.array([1 - p, p])
    large = rate * np.outer(told, told) + (1 - rate) * np.outer(hidden, hidden)
    loss = np.log(large / np.outer(hidden, hidden)).max()
    assert loss > 2 * amplified_epsilon(epsilon, rate)
    assert loss == pytest.approx(amplify([PureDP(epsilon)] * 2, rate=rate).epsilon, rel=1e-12)


def test_amplified_guarantees_stay_marked():
    amplified = amplify(ApproxDP(1.0, 1e-6), rate=0.1)
    for again in (amplified, [amplified], amplified.group(2), amplified.to_approx_dp(1e-6)):
        with pytest.raises(IncompatibleReleaseError, match="must not be amplified already"):
            amplify(again, rate=0.1)
    with pytest.raises(IncompatibleReleaseError, match="drawn independently"):
        compose([amplified, amplified])
    for method in ("to_pure_dp", "to_zcdp", "to_gdp"):
        with pytest.raises(InvalidParameterError, match="secrecy of a sample"):
            getattr(amplified, method)()
    total = compose([amplified, PureDP(0.5)])
    assert isinstance(total, AmplifiedDP)
    with pytest.raises(IncompatibleReleaseError, match="must not be amplified already"):
        amplify(total, rate=0.1)


def test_repr_is_short():
    first = amplify(PureDP(1.0), rate=0.1, sample="2021")
    total = compose([first, amplify(PureDP(1.0), rate=0.25, sample="2022")])
    assert repr(AmplifiedDP(0.5, 1e-6, first.sources)) == (
        "AmplifiedDP(epsilon=0.5, delta=1e-06, neighbours='add-remove', "
        "sources=<1 sample, rate 0.1>)"
    )
    assert repr(total).endswith(", sources=<2 samples, rates from 0.1 to 0.25>)")
    assert str(total) == repr(total)


def test_sources_are_checked():
    for guarantee in (1.0, PureDP):
        with pytest.raises(InvalidParameterError, match="guarantee must be one, got"):
            Amplification(guarantee, 0.1, "poisson")
    for sources in ((), (PureDP(1.0),), 3):
        with pytest.raises(InvalidParameterError, match="sources must hold at least one"):
            AmplifiedDP(0.5, 0.0, sources)


def test_independent_samples_have_names():
    first = amplify(PureDP(1.0), rate=0.1, sample="2021")
    second = amplify(PureDP(1.0), rate=0.2, sample="2022")
    total = compose([first, second])
    assert total.epsilon == pytest.approx(first.epsilon + second.epsilon)
    assert [source.sample for source in total.sources] == ["2021", "2022"]
    with pytest.raises(IncompatibleReleaseError, match="'2021', '2022', '2021'"):
        compose([total, first])
    with pytest.raises(IncompatibleReleaseError, match="'2021', None"):
        compose([first, amplify(PureDP(1.0), rate=0.1)])


@pytest.mark.parametrize(
    ("neighbours", "scheme"), [("replace", "poisson"), ("add-remove", "without-replacement")]
)
def test_wrong_neighbour_relation(neighbours, scheme):
    guarantee = PureDP(1.0, neighbours=neighbours)
    for call in (amplify, amplify_inverse):
        with pytest.raises(IncompatibleReleaseError, match="must have neighbours="):
            call(guarantee, rate=0.1, scheme=scheme)


@pytest.mark.parametrize(
    "scheme", ["stratified", "cluster", "pps", "systematic", "with-replacement"]
)
def test_designs_without_a_formula(scheme):
    with pytest.raises(InvalidParameterError, match="covers samples that differ in one record"):
        amplify(PureDP(1.0), rate=0.1, scheme=scheme)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rate": 0.0}, "rate must be > 0"),
        ({"rate": 1.5}, "rate must be <= 1"),
        ({"rate": np.nan}, "rate must not contain NaN"),
        ({"scheme": "bernoulli"}, "scheme must be one of"),
        ({"delta": 0.2}, "delta must be below the sampling rate"),
        ({"delta": 1.0}, "delta must be < 1"),
        ({"sample": 3}, "sample must be a name"),
        ({"guarantee": 1.0}, "guarantees must be a sequence"),
        ({"guarantee": []}, "at least one"),
        ({"guarantee": [1.0]}, r"guarantees\[0\] must be a guarantee"),
    ],
)
def test_bad_arguments(change, message):
    arguments = {"guarantee": GDP(1.0), "rate": 0.1, "delta": 1e-6} | change
    with pytest.raises(InvalidParameterError, match=message):
        amplify(arguments.pop("guarantee"), **arguments)


def test_targets_that_have_no_budget():
    with pytest.raises(InvalidParameterError, match="target must be"):
        amplify_inverse(ZCDP(0.1), rate=0.1)
    with pytest.raises(InvalidParameterError, match="target must be"):
        amplify_inverse(amplify(PureDP(1.0), rate=0.1), rate=0.1)
    with pytest.raises(InvalidParameterError, match="below the sampling rate"):
        amplify_inverse(ApproxDP(1.0, 0.2), rate=0.1)


ODD = st.one_of(st.floats(), st.floats(0, 1), st.sampled_from([None, "a", [], [0.5, 0.1], 1j]))


@settings(derandomize=True, deadline=None, max_examples=150)
@given(ODD, ODD, ODD, st.sampled_from(["poisson", "without-replacement", 3]))
def test_only_clear_errors(epsilon, rate, delta, scheme):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in (
            lambda: np.isfinite(amplified_epsilon(epsilon, rate)).all(),
            lambda: np.isfinite(sample_epsilon(epsilon, rate)).all(),
            lambda: np.isfinite(amplify(PureDP(epsilon), rate=rate, delta=delta).epsilon),
            lambda: (
                amplify_inverse(ApproxDP(epsilon, delta), rate=rate, scheme=scheme).epsilon >= 0
            ),
        ):
            try:
                assert call()
            except DPInferError:
                continue
