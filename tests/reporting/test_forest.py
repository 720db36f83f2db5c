"""The rows and layers of a forest plot, by themselves and drawn."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.reporting.forest import (
    Forest,
    Layer,
    forest_svg,
    layers_of,
    published_layer,
)

NOISE = dpi.Laplace(scale=2.0)


def tree():
    return dpi.combine_hierarchy([106.0, 61.0, 39.0], [-1, 0, 0], mechanism=NOISE)


def frame(**columns):
    return pd.DataFrame(
        {"estimate": [1.0, 2.0], "ci_lower": [0.0, 5.0], "ci_upper": [3.0, 4.0]} | columns
    )


def test_a_layer_knows_what_is_empty_and_what_is_outside():
    layer = Layer.of("one", frame(kind=["interval", "complement"]))
    assert layer.lower.tolist()[0] == 0.0
    assert np.isnan([layer.lower[1], layer.upper[1]]).all()  # of numbers from 5 to 4 there are none
    assert layer.outside.tolist() == [False, True]
    assert Layer.of("one", frame()).outside.tolist() == [False, False]


@pytest.mark.parametrize(
    ("numbers", "wanted"),
    [
        ([np.nan, np.nan], (0.0, 1.0)),
        ([5.0, 5.0], (4.0, 6.0)),
        ([1e9, 1e9], (1e9 - 1000.0, 1e9 + 1000.0)),
        ([-3.0, np.inf], (-4.0, -2.0)),
        ([-3.0, 2.0], (-3.0, 2.0)),
    ],
)
def test_the_range_is_of_two_finite_numbers(numbers, wanted):
    array = np.array(numbers)
    layer = Layer("one", array, array, array, np.zeros(2, dtype=bool))
    assert Forest(("a", "b"), (layer,), 2).range == wanted


def test_published_values_of_a_hierarchy_have_intervals():
    fit = tree()
    layer = published_layer(fit, fit.summary_frame(alpha=0.1, method="asymptotic"))
    half = stats.norm.isf(0.05) * np.sqrt(8.0)
    np.testing.assert_allclose(layer.estimate, [106, 61, 39])
    np.testing.assert_allclose(layer.upper - layer.estimate, half, rtol=1e-12)
    np.testing.assert_allclose(layer.estimate - layer.lower, half, rtol=1e-12)
    exact = published_layer(fit, fit.summary_frame(alpha=0.1))
    np.testing.assert_allclose(exact.upper - exact.estimate, 2.0 * np.log(10.0), rtol=1e-12)
    assert published_layer(fit, frame()) is None


def test_intervals_of_a_tiny_level_are_finite():
    fit = tree()
    table = fit.summary_frame(alpha=0.1, method="asymptotic")
    table.attrs["alpha"] = 1e-300
    layer = published_layer(fit, table)
    half = -stats.norm.ppf(5e-301) * np.sqrt(8.0)
    np.testing.assert_allclose(layer.upper - layer.estimate, half, rtol=1e-12)


def test_values_that_were_not_published_have_no_interval():
    girls = pd.Series([30.5], index=pd.Index(["F"], name="sex"))
    domain = dpi.Domain({"sex": ["F", "M"]})
    fit = dpi.combine(dpi.Release.from_tables([girls, 61.2], mechanism=NOISE, domain=domain))
    layer = published_layer(fit, fit.summary_frame())
    own = dpi.count_confint([30.5, 61.2], mechanism=NOISE)
    np.testing.assert_array_equal(layer.lower, [*own.lower, np.nan])
    np.testing.assert_array_equal(layer.upper, [*own.upper, np.nan])
    np.testing.assert_array_equal(layer.estimate, [30.5, 61.2, np.nan])


def test_a_forest_without_published_values_has_one_layer():
    intervals = dpi.count_confint([3.0, 4.0], mechanism=NOISE)
    forest = Forest(("a", "b"), layers_of(intervals, intervals.summary_frame(), 2), 2)
    assert [layer.name for layer in forest.layers] == ["estimate"]
    drawing = forest_svg(forest, "two", ["value"])
    assert drawing.count("<circle") == 1 + 2  # the legend's, and one each
    assert "stroke-dasharray" not in drawing


def test_rows_without_numbers_are_drawn_without_marks():
    nothing = np.array([np.nan, 1.0])
    layer = Layer("one", nothing, np.array([-np.inf, 0.0]), np.array([1.0, 2.0]), nothing > 9)
    drawing = forest_svg(Forest(("a", "b"), (layer,), 2), "two", ["value"])
    assert drawing.count("<circle") == 1 + 1
    assert len(re.findall(r'<line [^>]*stroke-width="3"', drawing)) == 1 + 1
