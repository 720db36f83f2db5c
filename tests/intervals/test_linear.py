import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpinfer.errors import InvalidParameterError
from dpinfer.intervals import count_confint, linear_confint
from dpinfer.mechanisms import Exact, Gaussian, Geometric, Laplace


def test_difference_of_two_laplace_counts():
    # P(e1 - e2 > t) = (2 + t/b) exp(-t/b) / 4
    half = linear_confint([120.0, 100.0], [1, -1], Laplace(scale=2.0)).upper - 20
    assert (2 + half / 2) * np.exp(-half / 2) / 4 == pytest.approx(0.025, rel=1e-9)


def test_gaussian_sums_are_normal():
    interval = linear_confint([1.0, 2.0], [[3.0, 4.0], [1.0, 1.0]], Gaussian(sigma=2.0))
    np.testing.assert_allclose(
        interval.upper - [11, 3], stats.norm.isf(0.025) * 2 * np.sqrt([25, 2]), rtol=1e-9
    )


def test_integer_sums_by_brute_force():
    noise = Geometric(scale=1.5)
    k = np.arange(-120, 121)
    pmf = noise.pmf(k)
    total = np.convolve(np.convolve(pmf, pmf), pmf)
    support = np.arange(-360, 361)
    half = linear_confint([1, 2, 3], [1, 1, -1], noise, alpha=0.05).upper - 0
    assert total[support > half].sum() <= 0.025 < total[support > half - 1].sum()


def test_one_value_has_the_interval_of_its_own_noise():
    noise = [Laplace(scale=2.0), Geometric(scale=2.0), Exact()]
    for method in ("exact", "tail-bound", "normal"):
        sums = linear_confint([5, 6, 7], np.diag([1.0, 1.0, 1.0]), noise, method=method)
        counts = count_confint([5, 6, 7], noise, method=method)
        np.testing.assert_allclose(np.asarray(sums), np.asarray(counts), rtol=1e-12)


def test_methods_are_ordered():
    weights = np.ones((1, 6))
    exact = linear_confint(np.zeros(6), weights, Laplace(scale=1.0)).width
    bound = linear_confint(np.zeros(6), weights, Laplace(scale=1.0), method="tail-bound").width
    assert exact < bound


def test_functions_of_different_values_have_the_level_of_sidak():
    noise = Laplace(scale=1.0)
    weights = [[1, 1, 0, 0], [0, 0, 1, 1]]
    joint = linear_confint(np.zeros(4), weights, noise, alpha=0.1, simultaneous=True)
    each = linear_confint(np.zeros(4), weights, noise, alpha=1 - np.sqrt(0.9))
    np.testing.assert_allclose(joint.upper, each.upper, rtol=1e-12)
    assert joint.mc_error == 0.0


def test_dependent_functions_are_simulated_and_say_so():
    weights = [[1, 1, 0], [0, 1, 1]]
    arguments = {"simultaneous": True, "reps": 5000, "rng": 7}
    joint = linear_confint([0.0, 0.0, 0.0], weights, Laplace(scale=1.0), **arguments)
    again = linear_confint([0.0, 0.0, 0.0], weights, Laplace(scale=1.0), **arguments)
    alone = linear_confint([0.0, 0.0, 0.0], weights, Laplace(scale=1.0))
    assert joint.summary() == again.summary()
    assert joint.mc_error == pytest.approx(np.sqrt(0.05 * 0.95 / 5000))
    assert "5000 simulated errors" in joint.notes[0]
    assert (joint.width > alone.width).all()


def test_labels_match_weights_to_values():
    values = pd.Series({"a": 10.0, "b": 4.0})
    one = linear_confint(values, pd.Series({"b": -1.0, "a": 1.0}), Laplace(scale=1.0))
    assert one.estimate == 6.0
    frame = pd.DataFrame({"b": [1.0, -1.0], "a": [1.0, 1.0]}, index=["sum", "difference"])
    several = linear_confint(values, frame, Laplace(scale=1.0))
    assert several.estimate.to_dict() == {"sum": 14.0, "difference": 6.0}


def test_values_that_no_weight_names_have_no_part():
    values = pd.Series({"a": 10.0, "b": 4.0, "c": 1.0})
    whole = linear_confint(values, [1.0, -1.0, 0.0], Laplace(scale=1.0))
    for weights in ({"b": -1, "a": 1}, pd.Series({"b": -1.0, "a": 1.0})):
        part = linear_confint(values, weights, Laplace(scale=1.0))
        np.testing.assert_array_equal(np.asarray(part), np.asarray(whole))
    rows = pd.DataFrame({"c": [2.0]}, index=["twice c"])
    assert linear_confint(values, rows, Laplace(scale=1.0)).estimate.to_dict() == {"twice c": 2.0}


def test_weights_name_rows_of_a_table():
    table = pd.DataFrame({"F": [1.0, 2.0], "M": [3.0, 5.0]}, index=["young", "old"])
    gap = linear_confint(table, {("old", "M"): 1, ("old", "F"): -1}, Laplace(scale=1.0))
    assert gap.estimate == 3.0


def test_order_of_the_values_does_not_matter():
    rng = np.random.default_rng(5)
    values, weights = rng.normal(size=5), rng.integers(-2, 3, (3, 5))
    noise = Laplace(scale=[1.0, 2.0, 3.0, 4.0, 5.0])
    order = rng.permutation(5)
    straight = linear_confint(values, weights, noise)
    shuffled = linear_confint(values[order], weights[:, order], noise.take(order))
    np.testing.assert_allclose(np.asarray(straight), np.asarray(shuffled), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": [[1.0, 2.0]]}, "values must be one-dimensional"),
        ({"values": []}, "values must hold at least one value"),
        ({"weights": [1, 2, 3]}, "weights must have 2 entries"),
        ({"weights": [1, np.nan]}, "weights must not contain NaN"),
        ({"weights": [[[1, 2]]]}, "weights must have 2 entries"),
        ({"weights": {"a": 1}}, "weights must be an array, or a mapping of labels"),
        ({"values": pd.Series({"a": 1.0}), "weights": {}}, "weights must be an array, or a map"),
        ({"values": pd.Series({"a": 1.0}), "weights": {"b": 1}}, "labelled like the values"),
        ({"alpha": 2}, "alpha must be < 1"),
        ({"method": "bootstrap"}, "method must be one of"),
        ({"mechanism": Laplace(scale=[1.0, 2.0, 3.0])}, "mechanism must have one law"),
        ({"simultaneous": True, "weights": [[1, 1], [1, -1]], "reps": 5}, "reps must be >= 19"),
        (
            {"values": pd.Series({"a": 1.0, "b": 2.0}), "weights": pd.Series({"a": 1.0, "c": 2.0})},
            "weights must be labelled like the values",
        ),
    ],
)
def test_bad_input_is_refused_by_name(arguments, message):
    call = {"values": [1.0, 2.0], "weights": [1, 1], "mechanism": Laplace(scale=1.0)} | arguments
    with pytest.raises(InvalidParameterError, match=message):
        linear_confint(**call)
