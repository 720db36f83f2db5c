import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.intervals import linear_ratio_confint, ratio_confint
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    Tulap,
    WeightedSum,
)


@pytest.mark.thinned("noise", "values", every=3)
@pytest.mark.parametrize("noise", [Laplace(scale=2.0), Gaussian(sigma=2.0), Geometric(scale=2.0)])
@pytest.mark.parametrize("values", [(60, 120), (60, 3), (-7, 90), (1, 1)])
def test_two_values_have_the_set_of_their_ratio(noise, values):
    linear = linear_ratio_confint(values, [1, 0], [0, 1], mechanism=noise)
    ratio = ratio_confint(*values, mechanism=noise)
    assert linear.kind == ratio.kind
    np.testing.assert_allclose(tuple(linear), tuple(ratio), rtol=1e-9)


def test_normal_method_is_fieller_with_a_covariance():
    # share of a cell in the total: the errors have covariance v
    y, v, z = np.array([60.0, 90.0, 30.0]), 8.0, 1.959963984540054
    share = linear_ratio_confint(
        y, [1, 0, 0], [1, 1, 1], mechanism=Laplace(scale=2.0), method="asymptotic"
    )
    for r in share:
        d = 60 - r * 180
        assert abs(d) == pytest.approx(z * np.sqrt(v * (1 - 2 * r + 3 * r * r)), rel=1e-9)


def test_ends_satisfy_their_equation():
    y, a, b = np.array([60.0, 90.0, 30.0]), np.array([1.0, 0, 0]), np.ones(3)
    noise = [Laplace(scale=2.0), Tulap(scale=1.0), Gaussian(sigma=1.0)]
    share = linear_ratio_confint(y, a, b, mechanism=noise)
    for r in share:
        error = WeightedSum(a - r * b, noise)
        assert 2 * error.sf(abs((a - r * b) @ y)) == pytest.approx(0.05, rel=1e-7)


def test_whole_numbered_share_by_enumeration():
    noise, k = Geometric(scale=1.0), np.arange(-40, 41)
    joint = np.multiply.outer(noise.pmf(k), noise.pmf(k))
    for y in [(2, 3), (6, -1)]:
        sets = linear_ratio_confint(y, [1, 0], [1, 1], mechanism=noise, alpha=0.2)
        for r in (0.0, 0.25, 0.4, 0.5, 0.75, 1.0, 1.7, -0.6):
            # y₁ - r·(y₁ + y₂), with the same function of all pairs of noises
            error = np.abs(np.add.outer((1 - r) * k, -r * k))
            d = abs((1 - r) * y[0] - r * y[1])
            if joint[error >= d - 1e-9].sum() > 0.2:
                assert sets.contains(r)


def test_functions_without_noise():
    noise = [Laplace(scale=2.0), Exact(), Exact()]
    half = 2 * np.log(20)
    lower, upper = linear_ratio_confint([10.0, 3.0, 2.0], [1, 0, 0], [0, 1, 1], mechanism=noise)
    np.testing.assert_allclose([lower, upper], [(10 - half) / 5, (10 + half) / 5], rtol=1e-12)
    same = linear_ratio_confint([50.0, 60.0], [1, 1], [2, 2], mechanism=Laplace(scale=1.0))
    np.testing.assert_allclose(tuple(same), [0.5, 0.5], atol=1e-9)
    assert same.contains(0.5)


def test_normal_method_where_noise_is_missing_or_cancels():
    noise, z = [Laplace(scale=2.0), Exact()], 1.959963984540054
    half = z * np.sqrt(8.0)
    for functions, wanted in (
        (([1, 0], [0, 1]), [(10 - half) / 5, (10 + half) / 5]),
        (([0, 1], [1, 0]), [5 / (10 + half), 5 / (10 - half)]),
    ):
        sets = linear_ratio_confint([10.0, 5.0], *functions, mechanism=noise, method="asymptotic")
        np.testing.assert_allclose(tuple(sets), wanted, rtol=1e-12)
    # the errors of the functions are multiples of each other
    same = linear_ratio_confint(
        [50.0, 60.0], [1, 1], [2, 2], mechanism=Laplace(scale=1.0), method="asymptotic"
    )
    np.testing.assert_allclose(tuple(same), [0.5, 0.5], atol=1e-9)


@pytest.mark.parametrize("method", ["exact", "asymptotic"])
def test_a_difference_without_error_has_a_point_as_law(method):
    # errors that are multiples of each other, as the values are, and as they are not
    functions, noise = ([1.0, 3.0], [2.0, 6.0]), Laplace(scale=2.0)
    sets = linear_ratio_confint([40.0, 20.0], *functions, mechanism=noise, method=method)
    np.testing.assert_allclose(tuple(sets), [0.5, 0.5], atol=1e-9)
    assert sets.contains(0.5)
    # and with an error it is that of its sum: y1 alone, as y2 has none
    found = linear_ratio_confint(
        [60.0, 9.0], [1, 3], [0, 1], mechanism=[noise, Exact()], method=method
    )
    half = noise.isf(0.025) if method == "exact" else stats.norm.isf(0.025) * noise.std
    np.testing.assert_allclose(tuple(found), [(87 - half) / 9, (87 + half) / 9], rtol=1e-9)


@pytest.mark.thinned("rare", "noise", every=2)
@pytest.mark.parametrize("rare", [Geometric(scale=0.00276), DiscreteGaussian(sigma=0.099)])
@pytest.mark.parametrize("noise", [Laplace(scale=2.0), Gaussian(sigma=2.0)])
def test_noise_that_is_nearly_always_0_is_none(rare, noise):
    values, functions = [10.0, 5.0], ([1, 0.5], [0.25, 1])
    found, none = (
        linear_ratio_confint(values, *functions, mechanism=[noise, other])
        for other in (rare, Exact())
    )
    np.testing.assert_allclose(tuple(found), tuple(none), rtol=1e-9)


def test_labels_and_several_functions():
    values = pd.Series({"a": 60.0, "b": 120.0, "c": 20.0})
    weights = pd.DataFrame({"a": [1.0, 0.0], "c": [0.0, 1.0]}, index=["first", "third"])
    sets = linear_ratio_confint(
        values, weights, {"a": 1, "b": 1, "c": 1}, mechanism=Laplace(scale=1.0), simultaneous=True
    )
    assert sets.estimate.to_dict() == {"first": 0.3, "third": 0.1}
    alone = linear_ratio_confint(
        values, [1, 0, 0], [1, 1, 1], mechanism=Laplace(scale=1.0), alpha=0.025
    )
    assert alone.lower == sets.lower["first"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": [[1.0]]}, "values"),
        ({"numerator": [1.0]}, "weights"),
        ({"denominator": np.ones((3, 2)), "numerator": np.ones((2, 2))}, "rows"),
        ({"mechanism": None}, "mechanism"),
        ({"alpha": 1e-60}, "alpha"),
        ({"method": 3}, "method"),
    ],
)
def test_bad_arguments(arguments, message):
    good = {
        "values": [1.0, 2.0],
        "numerator": [1, 0],
        "denominator": [0, 1],
        "mechanism": Laplace(scale=1.0),
    }
    with pytest.raises(InvalidParameterError, match=message):
        linear_ratio_confint(**(good | arguments))


@settings(derandomize=True, deadline=None, max_examples=10)
@given(
    st.lists(st.floats(min_value=-1e3, max_value=1e3), min_size=2, max_size=2),
    st.lists(st.sampled_from([0.0, 1.0, -2.0, 0.3]), min_size=2, max_size=2),
    st.lists(st.sampled_from([0.0, 1.0, -2.0, 0.3]), min_size=2, max_size=2),
    st.sampled_from([Laplace(scale=1.0), Geometric(scale=0.7), Gaussian(sigma=1.0)]),
    st.sampled_from(["exact", "asymptotic"]),
)
def test_any_arguments(values, numerator, denominator, noise, method):
    try:
        sets = linear_ratio_confint(values, numerator, denominator, mechanism=noise, method=method)
    except DPInferError:
        return
    assert not np.isnan([sets.estimate, sets.lower, sets.upper, sets.width]).any()
