"""Weights by position and by label, and what is refused."""

import numpy as np
import pandas as pd
import pytest

from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.targets import checked_weights

LABELS = pd.Index(["a", "b", "c"])


@pytest.mark.parametrize(
    ("weights", "wanted"),
    [
        ([1.0, 2.0, 3.0], [1, 2, 3]),
        ([[1.0, 2.0, 3.0]], [[1, 2, 3]]),
        ({"c": 2.0, "a": -1.0}, [-1, 0, 2]),
        (pd.Series({"c": 2.0, "a": -1.0}), [-1, 0, 2]),
        (pd.DataFrame({"b": [1.0, 2.0], "a": [3.0, 4.0]}), [[3, 1, 0], [4, 2, 0]]),
    ],
)
def test_weights_come_in_the_order_of_the_values(weights, wanted):
    np.testing.assert_array_equal(checked_weights(weights, LABELS, 3), wanted)


def test_without_labels_they_go_by_position():
    weights = pd.Series({"c": 2.0, "a": -1.0})
    np.testing.assert_array_equal(checked_weights(weights, None, 2), [2.0, -1.0])


@pytest.mark.parametrize(
    ("weights", "labels", "message"),
    [
        (pd.Series([1.0], pd.MultiIndex.from_tuples([("a", 1)])), LABELS, "labelled like"),
        (pd.Series([1.0], ["a"]), pd.MultiIndex.from_tuples([("a", 1)]), "labelled like"),
        ({"d": 1.0}, LABELS, "labelled like the values"),
        (pd.Series([1.0, 2.0], index=["a", "a"]), LABELS, "each label once"),
        (pd.Series({"a": 1.0}), pd.Index(["a", "a", "b"]), "each label once"),
        ({"a": 1.0}, None, "values without labels"),
        ({}, LABELS, "values with labels"),
        ([1.0, 2.0], LABELS, r"3 entries in each row, one for each value, got shape \(2,\)"),
        (np.ones((1, 1, 3)), LABELS, "3 entries in each row"),
        ([1.0, 2.0, np.nan], LABELS, "NaN"),
        ([1e101, 0.0, 0.0], LABELS, "must be <="),
    ],
)
def test_what_is_refused(weights, labels, message):
    with pytest.raises(InvalidParameterError, match=message):
        checked_weights(weights, labels, 3)
