"""Values published above a threshold: enumeration, high precision, duality with the test, fuzz."""

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer import Release
from dpinfer.errors import DPInferError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.hypothesis_tests import linear_ztest
from dpinfer.intervals import count_confint
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    Tulap,
    WeightedSum,
)

WHOLE = [
    Geometric(scale=0.3),
    Geometric(scale=3.0),
    Geometric(scale=40.0),
    DiscreteGaussian(sigma=0.4),
    DiscreteGaussian(sigma=5.0),
]
SIDES = {"two-sided": (1, 1), "larger": (1, 0), "smaller": (0, 1)}
THRESHOLD = 20


def probabilities(noise, f, threshold=THRESHOLD):
    """Published values under f with their probabilities, by the pmf alone."""
    last = max(threshold, f) + int(noise.isf(1e-18)) + 1
    y = np.arange(threshold, last + 1)
    # relative to the largest term, so that values far below the threshold do not underflow
    log_pmf = noise.logpmf(y - f)
    mass = np.exp(log_pmf - log_pmf.max())
    return y, mass / mass.sum()


@pytest.mark.thinned("alpha", "alternative", "noise", every=3)
@pytest.mark.parametrize("alpha", [0.3, 0.05, 0.001])
@pytest.mark.parametrize("alternative", SIDES)
@pytest.mark.parametrize("noise", WHOLE, ids=repr)
def test_conditional_coverage_enumerated(noise, alternative, alpha):
    for f in [-200, -20, 0, 10, 17, 19, 20, 21, 23, 30, 60]:
        y, mass = probabilities(noise, f)
        found = count_confint(
            y, mechanism=noise, threshold=THRESHOLD, alpha=alpha, alternative=alternative
        )
        assert mass[found.contains(f)].sum() >= 1 - alpha - 1e-10


@pytest.mark.thinned("alternative", "noise", every=2)
@pytest.mark.parametrize("alternative", SIDES)
@pytest.mark.parametrize("noise", WHOLE[1:2] + WHOLE[4:], ids=repr)
def test_intervals_hold_what_no_tail_excludes(noise, alternative):
    alpha = 0.05
    q = alpha / sum(SIDES[alternative])
    values = np.arange(THRESHOLD, THRESHOLD + 30)
    found = count_confint(
        values, mechanism=noise, threshold=THRESHOLD, alpha=alpha, alternative=alternative
    )
    for f in range(-60, 60):
        _, mass = probabilities(noise, f)
        larger = np.append(mass[::-1].cumsum()[::-1], np.zeros(40))[:30]
        smaller = np.append(mass.cumsum(), np.ones(40))[:30]
        kept = np.ones(30, dtype=bool)
        kept &= (larger > q) if SIDES[alternative][0] else True
        kept &= (smaller > q) if SIDES[alternative][1] else True
        np.testing.assert_array_equal(found.contains(f), kept, err_msg=str(f))


def mp_tail(noise, x):
    """P(e >= x) to 50 digits."""
    x = mpmath.mpf(x)
    if isinstance(noise, Gaussian):
        return mpmath.erfc(x / (noise.sigma * mpmath.sqrt(2))) / 2
    upper = mpmath.exp(-abs(x) / noise.scale) / 2
    return upper if x >= 0 else 1 - upper


@pytest.mark.thinned("alpha", "gap", "noise", every=2)
@pytest.mark.parametrize("alpha", [0.05, 1e-6])
@pytest.mark.parametrize("gap", [0.02, 0.3, 1.0, 4.0, 12.0, 60.0, 300.0])
@pytest.mark.parametrize("noise", [Laplace(scale=4.0), Gaussian(sigma=5.0)], ids=repr)
def test_ends_satisfy_their_equations(noise, gap, alpha):
    y = THRESHOLD + gap
    lower, upper = count_confint(y, mechanism=noise, threshold=THRESHOLD, alpha=alpha)
    with mpmath.workdps(50):

        def larger(f):
            f = mpmath.mpf(float(f))
            return mp_tail(noise, mpmath.mpf(y) - f) / mp_tail(noise, THRESHOLD - f)

        if isinstance(noise, Laplace):
            limit = np.exp(-(y - THRESHOLD) / noise.scale)
            assert (upper == -np.inf) == (1 - limit <= alpha / 2)
            assert (lower == -np.inf) == (limit >= alpha / 2) or upper == -np.inf
        if np.isfinite(lower):
            assert float(larger(lower)) == pytest.approx(alpha / 2, rel=1e-9)
        elif isinstance(noise, Gaussian):  # the end is deeper than 447 standard deviations
            assert larger(THRESHOLD - 447 * noise.sigma) >= alpha / 2
        if np.isfinite(upper):
            below = float(1 - larger(upper))
            if upper > THRESHOLD - 446 * 5.0:
                assert below == pytest.approx(alpha / 2, rel=1e-9)
            else:  # given too far out rather than rounded
                assert below <= alpha / 2


@pytest.mark.parametrize("noise", [Laplace(scale=4.0), Gaussian(sigma=5.0), *WHOLE[1:3]], ids=repr)
def test_p_values_at_the_ends(noise):
    y = THRESHOLD + np.array([8.0, 15.0, 40.0, 130.0])
    alpha = 0.1
    found = count_confint(y, mechanism=noise, threshold=THRESHOLD, alpha=alpha)
    release = Release(y, mechanism=noise, threshold=THRESHOLD)
    for end, out, alternative in ((found.lower, -1, "larger"), (found.upper, 1, "smaller")):
        rows = np.isfinite(end)
        assert rows.any()

        def pvalue(value, rows=rows, alternative=alternative):
            return linear_ztest(release.select(rows), None, value, alternative=alternative).pvalue

        if noise.is_integer:
            assert (pvalue(end[rows]) > alpha / 2).all()
            assert (pvalue(end[rows] + out) <= alpha / 2).all()
        else:
            np.testing.assert_allclose(pvalue(end[rows]), alpha / 2, rtol=1e-9)


@pytest.mark.parametrize(
    "noise", [Laplace(scale=4.0), Gaussian(sigma=5.0), Tulap(scale=4.0), *WHOLE], ids=repr
)
@pytest.mark.parametrize("simultaneous", [False, True])
def test_without_a_threshold_it_is_the_ordinary_interval(noise, simultaneous):
    y = [7.0, -3.0, 150.0]
    plain = count_confint(y, mechanism=noise, simultaneous=simultaneous)
    none = count_confint(y, mechanism=noise, threshold=-np.inf, simultaneous=simultaneous)
    np.testing.assert_array_equal(none, plain)
    np.testing.assert_array_equal(none.estimate, y)
    naive = count_confint(
        y, mechanism=noise, threshold=-3, simultaneous=simultaneous, method="naive"
    )
    np.testing.assert_array_equal(naive, plain)
    # far below the values a threshold makes no difference, except by rounding
    far = count_confint(y, mechanism=noise, threshold=-1e4, simultaneous=simultaneous)
    if isinstance(noise, Tulap):
        np.testing.assert_array_less(abs(np.asarray(far) - np.asarray(plain)), 1.0)
    else:
        np.testing.assert_allclose(far, plain, rtol=1e-10)


def test_memoryless_tail():
    # for f <= τ the law of Y - τ is exponential whatever f is: the data cannot exclude these f
    noise, alpha = Laplace(scale=2.0), 0.1
    edge = 2.0 * np.log(2 / alpha)
    y = THRESHOLD + np.array([edge - 1e-9, edge + 1e-9])
    lower, _ = count_confint(y, mechanism=noise, threshold=THRESHOLD, alpha=alpha)
    assert lower[0] == -np.inf
    assert lower[1] == pytest.approx(THRESHOLD, abs=1e-3)
    # and a value just above the threshold is unlikely under every f
    start = -2.0 * np.log1p(-alpha / 2)
    close = count_confint(
        THRESHOLD + np.array([start - 1e-9, start + 1e-9]),
        mechanism=noise,
        threshold=THRESHOLD,
        alpha=alpha,
    )
    np.testing.assert_array_equal(close.empty, [True, False])
    larger = count_confint(
        THRESHOLD + 1e-6, mechanism=noise, threshold=THRESHOLD, alternative="larger"
    )
    assert (larger.lower, larger.upper) == (-np.inf, np.inf)


def test_threshold_far_below():
    # a bracket from the threshold to the value would be too wide to be halved to its end
    y = np.array([8e80, 3e3])
    for noise in (Gaussian(sigma=200.0), Laplace(scale=200.0), DiscreteGaussian(sigma=200.0)):
        found = count_confint(y, mechanism=noise, threshold=-1e88)
        np.testing.assert_allclose(found, count_confint(y, mechanism=noise), rtol=1e-12)
        np.testing.assert_array_equal(found.estimate, y)


@pytest.mark.thinned("alpha", "noise", every=2)
@pytest.mark.parametrize("alpha", [5e-324, 1 - 1e-16])
@pytest.mark.parametrize("noise", [Laplace(scale=4.0), Gaussian(sigma=5.0), *WHOLE], ids=repr)
def test_extreme_levels(noise, alpha):
    for alternative in SIDES:
        found = count_confint(
            [20.0, 30.0], mechanism=noise, threshold=20, alpha=alpha, alternative=alternative
        )
        assert not np.isnan(np.asarray(found)).any()


def test_empty_intervals_are_said():
    found = count_confint([20.001, 30.0], mechanism=Laplace(scale=4.0), threshold=20)
    np.testing.assert_array_equal(found.empty, [True, False])
    assert "empty" in found.notes[-1]
    assert "empty" in found.summary()


def test_bounded_noise():
    noise = Tulap(scale=2.0, truncation=0.01)
    reach = float(noise.isf(0.0))
    found = count_confint(THRESHOLD + 0.4, mechanism=noise, threshold=THRESHOLD)
    assert found.lower >= THRESHOLD + 0.4 - reach
    assert found.upper > found.lower


def test_mechanism_and_threshold_per_row():
    noise = [Laplace(scale=3.0), Geometric(scale=5.0), Exact(), Gaussian(sigma=2.0)]
    y, threshold = [25.0, 31.0, 40.0, 12.5], [20.0, 30.0, 40.0, -np.inf]
    together = count_confint(y, mechanism=noise, threshold=threshold)
    for row, law in enumerate(noise):
        single = count_confint(y[row], mechanism=law, threshold=threshold[row])
        assert (together.lower[row], together.upper[row]) == tuple(single)
    assert (together.lower[2], together.upper[2]) == (40.0, 40.0)


def test_labels_and_shapes():
    y = pd.Series([25.0, 31.0], index=["a", "b"])
    threshold = pd.Series([20.0, 30.0], index=["a", "b"])
    noise = Laplace(scale=3.0)
    found = count_confint(y, mechanism=noise, threshold=threshold)
    assert list(found.lower.index) == ["a", "b"]
    with pytest.raises(InvalidParameterError, match="labels"):
        count_confint(y, mechanism=noise, threshold=threshold[::-1])
    frame = count_confint(y.to_frame("n"), mechanism=noise, threshold=threshold.to_numpy())
    np.testing.assert_array_equal(frame.upper, found.upper)
    square = count_confint([[25.0, 31.0]], mechanism=noise, threshold=np.array([[20.0, 30.0]]))
    np.testing.assert_array_equal(square.lower, [found.lower])
    assert np.ndim(count_confint(25.0, mechanism=noise, threshold=20).lower) == 0


def test_simultaneous():
    y, noise = [25.0, 31.0, 60.0], Laplace(scale=3.0)
    all_ = count_confint(y, mechanism=noise, threshold=20, simultaneous=True)
    each = count_confint(y, mechanism=noise, threshold=20, alpha=1 - 0.95 ** (1 / 3))
    np.testing.assert_allclose(all_, each, rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"count": 19.0}, IncompatibleReleaseError),
        ({"count": np.nan}, InvalidParameterError),
        ({"count": 1e200}, InvalidParameterError),
        ({"count": []}, InvalidParameterError),
        ({"alpha": 0.0}, InvalidParameterError),
        ({"method": "tail-bound"}, InvalidParameterError),
        ({"alternative": "below"}, InvalidParameterError),
        ({"estimate": "mle"}, InvalidParameterError),
        ({"lower": 3, "upper": 2}, InvalidParameterError),
        ({"integer": 1}, InvalidParameterError),
        ({"simultaneous": "yes"}, InvalidParameterError),
        ({"threshold": np.nan}, InvalidParameterError),
        ({"threshold": [1.0, 2.0]}, InvalidParameterError),
        ({"threshold": "low"}, InvalidParameterError),
        ({"clamp": (0, 10)}, IncompatibleReleaseError),
        ({"mechanism": 3.0}, InvalidParameterError),
        ({"mechanism": WeightedSum([1.0, 2.0], Laplace(scale=1.0))}, InvalidParameterError),
        ({"mechanism": Geometric(scale=2.0), "count": 25.5}, InvalidParameterError),
        ({"count": Release([25.0], mechanism=Laplace(scale=1.0))}, InvalidParameterError),
    ],
)
def test_refused(change, error):
    arguments = {"count": 25.0, "mechanism": Laplace(scale=2.0), "threshold": 20} | change
    with pytest.raises(error):
        count_confint(arguments.pop("count"), **arguments)


SCALES = st.floats(1e-100, 1e15)
LAWS = st.one_of(
    st.builds(Laplace, scale=SCALES),
    st.builds(Gaussian, sigma=SCALES),
    st.builds(Geometric, scale=SCALES),
    st.builds(DiscreteGaussian, sigma=SCALES),
    st.builds(Tulap, scale=st.floats(1e-3, 1e6), truncation=st.sampled_from([0.0, 1e-9, 0.5])),
)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    y=st.floats(-1e15, 1e15) | st.floats(-50, 50),
    gap=st.floats(0, 1e10) | st.floats(0, 50),
    noise=LAWS,
    alpha=st.floats(1e-300, 0.999),
    alternative=st.sampled_from(list(SIDES)),
    estimate=st.sampled_from(["maximum-likelihood", "median-unbiased"]),
)
def test_any_input_gets_an_interval_or_a_clear_error(y, gap, noise, alpha, alternative, estimate):
    y = np.rint(y) if noise.is_integer else y
    try:
        found = count_confint(
            y,
            mechanism=noise,
            threshold=y - gap,
            alpha=alpha,
            alternative=alternative,
            estimate=estimate,
        )
    except DPInferError:
        return
    lower, upper = found
    assert not np.isnan([lower, upper, found.estimate]).any()
    naive = count_confint(
        y, mechanism=noise, alpha=min(alpha * (1 + (alternative != "two-sided")), 1 - 1e-9)
    )
    slack = 1e-9 * (1 + abs(naive.lower) + abs(naive.upper)) + isinstance(noise, Tulap)
    # publication favours large values, so that neither end is above the ordinary one
    if not found.empty:
        if alternative != "smaller":
            assert lower <= naive.lower + slack or alpha > 0.49
        if alternative != "larger":
            assert upper <= naive.upper + slack or alpha > 0.49


def test_a_million_rows():
    rng = np.random.default_rng(4)
    y = 90 + np.rint(rng.exponential(300, 1_000_000))
    noise = Geometric(scale=rng.choice([5.0, 20.0], y.size))
    found = count_confint(y, mechanism=noise, threshold=90, lower=0)
    few = count_confint(y[:50], mechanism=noise.take(slice(50)), threshold=90, lower=0)
    np.testing.assert_array_equal(np.asarray(found)[:50], few)
