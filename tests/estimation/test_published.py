"""Checks of published counts that tests and intervals share."""

import numpy as np
import pandas as pd
import pytest

from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import (
    check_published,
    common_shape,
    unlabelled,
)
from dpinfer.mechanisms import Exact, Geometric, IndependentNoise, Laplace, as_noise

LABELS = pd.Index(["a", "b"])


def test_labels_have_to_be_those_of_the_counts():
    series = pd.Series([1.0, 2.0], index=LABELS)
    for labels in (LABELS, None):
        np.testing.assert_array_equal(unlabelled(series, "nobs", labels, "count"), [1.0, 2.0])
    np.testing.assert_array_equal(unlabelled([3.0, 4.0], "nobs", LABELS, "count"), [3.0, 4.0])
    with pytest.raises(InvalidParameterError, match="nobs must have the labels of count"):
        unlabelled(series[::-1], "nobs", LABELS, "count")


def test_fractions_need_noise_that_gives_them():
    whole = np.array([1.0, -2.0])
    check_published(whole, "count", Geometric(scale=1.0))
    check_published(whole + 0.5, "count", Laplace(scale=1.0))
    mixed = as_noise([Geometric(scale=1.0), Laplace(scale=1.0)], 2)
    assert isinstance(mixed, IndependentNoise)
    check_published(np.array([1.0, 0.5]), "count", mixed)
    with pytest.raises(InvalidParameterError, match=r"whole numbers only, got 0.5"):
        check_published(np.array([0.5, 1.0]), "count", mixed)
    for size in (1e101, -1e101):
        with pytest.raises(InvalidParameterError, match="count must be"):
            check_published(np.array([size]), "count", Exact())


def test_arguments_broadcast_to_one_length():
    three, one, number = np.ones(3), np.ones(1), np.ones(())
    assert common_shape(count=three, nobs=one, value=number) == (3,)
    assert common_shape(count=one, value=number) == (1,)
    assert common_shape(count=number) == ()
    with pytest.raises(InvalidParameterError, match="count has 3, nobs has 2"):
        common_shape(count=three, nobs=np.ones(2))
    with pytest.raises(InvalidParameterError, match=r"nobs must be a number .* shape \(2, 2\)"):
        common_shape(count=three, nobs=np.ones((2, 2)))
