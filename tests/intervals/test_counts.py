import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.intervals import count_confint
from dpinfer.mechanisms import Exact, Gaussian, Geometric, Laplace


@pytest.mark.parametrize(
    ("epsilon", "ends"), [(1.0, (1.6974149070, 6.3025850930)), (10.0, (3.7697414907, 4.2302585093))]
)
def test_questions_11_and_12_of_the_tutorial(epsilon, ends):
    # Ashmead, Leclerc and Sexton (JSM 2019), questions 11 and 12: 90 % around z = 4
    interval = count_confint(4, mechanism=Laplace.from_epsilon(epsilon), alpha=0.1)
    np.testing.assert_allclose([*interval], ends, rtol=0, atol=1e-9)


def test_question_13_of_the_tutorial():
    # three counts, sensitivity 3: the bound is 3 ln(3 / 0.05) = 12.28, the exact ones narrower
    noise = Laplace.from_epsilon(1, sensitivity=3)
    bound = count_confint([5, -3, 1], mechanism=noise, method="tail-bound")
    np.testing.assert_allclose(bound.upper - bound.estimate, 3 * np.log(60), rtol=1e-14)
    assert bound.simultaneous
    exact = count_confint([5, -3, 1], mechanism=noise, simultaneous=True)
    # (1 - exp(-t/3))³ = 0.95
    np.testing.assert_allclose(exact.width / 2, -3 * np.log(1 - 0.95 ** (1 / 3)), rtol=1e-13)
    assert (exact.width < bound.width).all()


@pytest.mark.parametrize("noise", [Laplace(scale=2.5), Geometric(scale=2.5), Gaussian(sigma=2.5)])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.5, 0.9])
def test_ends_are_where_the_two_sided_tail_is_alpha(noise, alpha):
    half = count_confint(0, mechanism=noise, alpha=alpha).upper
    assert 2 * noise.sf(half) <= alpha * (1 + 1e-12)
    step = 1.0 if noise.is_integer else 1e-9 * half
    assert 2 * noise.sf(half - step) > alpha


def test_a_single_bound_by_the_tail_is_exact():
    noise = Laplace(scale=3.0)
    np.testing.assert_array_equal(
        np.asarray(count_confint(7, mechanism=noise, method="tail-bound")),
        np.asarray(count_confint(7, mechanism=noise)),
    )


@pytest.mark.parametrize("noise", [Laplace(scale=2.0), Geometric(scale=2.0), Gaussian(sigma=2.0)])
@pytest.mark.parametrize("k", [1, 2, 10, 1000])
def test_simultaneous_is_never_wider_than_the_union_bound(noise, k):
    exact = count_confint(np.zeros(k), mechanism=noise, simultaneous=True).width
    assert (exact <= count_confint(np.zeros(k), mechanism=noise, method="tail-bound").width).all()
    assert (exact >= count_confint(np.zeros(k), mechanism=noise).width).all()


@pytest.mark.parametrize("k", [2, 5])
def test_simultaneous_level_is_exact_for_continuous_noise(k):
    noise = Laplace(scale=[1.0, 2.0, 3.0, 4.0, 5.0][:k])
    half = count_confint(np.zeros(k), mechanism=noise, alpha=0.1, simultaneous=True).upper
    assert np.prod(1 - 2 * noise.sf(half)) == pytest.approx(0.9, rel=1e-13)


def test_normal_uses_the_standard_deviation():
    interval = count_confint(0.0, mechanism=Laplace(scale=1.0), method="asymptotic")
    assert interval.upper == pytest.approx(1.959963984540054 * np.sqrt(2), rel=1e-14)
    gaussian = Gaussian(sigma=3.0)
    np.testing.assert_allclose(
        np.asarray(count_confint(1.0, mechanism=gaussian, method="asymptotic", simultaneous=True)),
        np.asarray(count_confint(1.0, mechanism=gaussian, simultaneous=True)),
        rtol=1e-13,
    )


def test_values_without_noise_are_points_and_do_not_count():
    mixed = count_confint([4.0, 9.0], mechanism=[Laplace(scale=1.0), Exact()], simultaneous=True)
    alone = count_confint([4.0], mechanism=Laplace(scale=1.0))
    assert mixed.lower[0] == alone.lower[0]
    assert mixed.lower[1] == mixed.upper[1] == 9.0
    assert count_confint(9.0, mechanism=Exact()).width == 0.0


def test_whole_and_non_negative_counts():
    interval = count_confint([0.3, 4.7, -9.0], mechanism=Laplace(scale=1.0), integer=True, lower=0)
    np.testing.assert_array_equal(interval.lower, [0.0, 2.0, np.inf])
    np.testing.assert_array_equal(interval.upper, [3.0, 7.0, -np.inf])
    np.testing.assert_array_equal(interval.empty, [False, False, True])


def test_each_count_with_its_own_mechanism():
    laws = [Laplace(scale=2.0), Geometric(scale=2.0), Gaussian(sigma=2.0)]
    together = count_confint([1, 2, 3], mechanism=laws)
    for position, law in enumerate(laws):
        alone = count_confint(position + 1, mechanism=law)
        assert (together.lower[position], together.upper[position]) == (alone.lower, alone.upper)


def test_labels_of_series_and_frames_are_kept():
    series = pd.Series([1.0, 2.0], index=pd.Index(["F", "M"], name="sex"))
    assert count_confint(series, mechanism=Laplace(scale=1.0)).lower["M"] == pytest.approx(
        2 - np.log(20)
    )
    frame = pd.DataFrame(
        [[1.0, 2.0], [3.0, 4.0]],
        index=pd.Index(["F", "M"], name="sex"),
        columns=pd.Index(["young", "old"], name="age"),
    )
    stacked = count_confint(frame, mechanism=Laplace(scale=np.array([[1.0, 2.0], [3.0, 4.0]])))
    assert stacked.lower.index.names == ["sex", "age"]
    assert stacked.width["M", "young"] == pytest.approx(2 * 3 * np.log(20))
    assert stacked.estimate["F", "old"] == 2.0


def test_arrays_keep_their_shape():
    noise = Laplace(scale=[1.0, 2.0, 3.0, 4.0])
    flat = count_confint(np.arange(4.0), mechanism=noise)
    square = count_confint(np.arange(4.0).reshape(2, 2), mechanism=noise)
    np.testing.assert_array_equal(square.lower, flat.lower.reshape(2, 2))


def test_order_does_not_matter():
    noise = Laplace(scale=[1.0, 2.0, 3.0])
    forward = count_confint([1, 2, 3], mechanism=noise, simultaneous=True)
    backward = count_confint([3, 2, 1], mechanism=noise.take([2, 1, 0]), simultaneous=True)
    np.testing.assert_array_equal(forward.lower, backward.lower[::-1])


def test_many_counts_at_once():
    intervals = count_confint(
        np.zeros(1_000_000), mechanism=Geometric(scale=2.0), integer=True, lower=0
    )
    assert intervals.lower.shape == (1_000_000,)
    assert not intervals.empty.any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": []}, "count must hold at least one value"),
        ({"count": np.nan}, "count must not contain NaN"),
        ({"count": [1, np.inf]}, "count must be finite, got inf at position 1"),
        ({"count": 1 + 2j}, "count must be real"),
        ({"count": "four"}, "count must hold real numbers"),
        ({"count": [[1, 2], [3]]}, "count must be a number or a rectangular array"),
        ({"count": np.array([1, None])}, "count must hold real numbers"),
        ({"alpha": 0.0}, "alpha must be > 0"),
        ({"alpha": 1.0}, "alpha must be < 1"),
        ({"alpha": np.nan}, "alpha must not contain NaN"),
        (
            {"method": "wald"},
            "method must be one of 'exact', 'tail-bound', 'asymptotic', 'naive', got 'wald'",
        ),
        ({"mechanism": 1.0}, "mechanism must be a noise law"),
        ({"mechanism": Laplace(scale=[1.0, 2.0])}, "mechanism must have one law"),
        ({"simultaneous": "yes"}, "simultaneous must be True or False"),
        ({"integer": None}, "integer must be True or False"),
        ({"lower": 5, "upper": 1}, "lower must be <= upper"),
    ],
)
def test_bad_input_is_refused_by_name(arguments, message):
    call = {"count": 4.0, "mechanism": Laplace(scale=1.0)} | arguments
    with pytest.raises(InvalidParameterError, match=message):
        count_confint(**call)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    count=st.floats(),
    scale=st.floats(),
    alpha=st.floats(),
    lower=st.none() | st.floats(),
    integer=st.booleans(),
)
def test_any_numbers_give_an_interval_or_a_clear_error(count, scale, alpha, lower, integer):
    try:
        interval = count_confint(
            count, mechanism=Laplace(scale=scale), alpha=alpha, lower=lower, integer=integer
        )
    except DPInferError:
        return
    assert not np.isnan(np.asarray(interval)).any()
    assert interval.width >= 0
