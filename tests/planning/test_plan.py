"""What a plan does with its arguments, on widths and powers that have closed forms."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from dpinfer.errors import InvalidParameterError, MissingExtraError
from dpinfer.mechanisms import Exact, Gaussian, IndependentNoise, Laplace
from dpinfer.planning.mechanisms import NoisePlan, check_law, check_plan
from dpinfer.planning.plan import Plan


@dataclass(frozen=True)
class Width(Plan):
    """Width of the interval of a mean of n copies of a value: 2·isf(alpha/2)/√n."""

    mechanism: NoisePlan
    _quantity = "width"
    _rises = False
    _bounds = (0.0, np.inf)
    _error = "error"
    _own = ("copies",)
    _size = "copies"
    _sawtooth = False

    def _at(self, law, alpha, columns):
        widths = 2.0 * law.isf(0.5 * alpha) / np.sqrt(columns["copies"])
        return widths, 0.1 * widths


@dataclass(frozen=True)
class Power(Plan):
    """Power 1 - exp(-effect·nobs), but 1 point less at multiples of three."""

    mechanism: NoisePlan
    _quantity = "power"
    _rises = True
    _bounds = (0.0, 1.0)
    _error = "mc_error"
    _own = ("nobs", "effect")
    _size = "nobs"

    def _check(self, name, value):
        values = super()._check(name, value)
        if (values <= 0).any():
            raise InvalidParameterError(f"{name} must be positive")
        return values

    def _at(self, law, alpha, columns):
        teeth = 0.01 * (columns["nobs"] % 3 == 0)
        return 1.0 - np.exp(-columns["effect"] * columns["nobs"]) - teeth, 0.0

    def _range(self, name, columns):
        return (1e-6, 1e3) if name == "effect" else super()._range(name, columns)


FIXED = Width(Laplace(scale=2.0))
BUDGET = Width(Laplace.from_epsilon)
POWER = Power(Exact())


def laplace_width(copies, alpha, budget):
    return 2.0 * -np.log(alpha) / budget / np.sqrt(copies)


def test_quantities_broadcast():
    found = BUDGET._evaluate(copies=[[4.0], [9.0]], alpha=[0.01, 0.05, 0.2], budget=0.5)
    np.testing.assert_allclose(found, laplace_width([[4.0], [9.0]], [0.01, 0.05, 0.2], 0.5))
    assert isinstance(FIXED._evaluate(copies=4.0, alpha=0.05, budget=None), float)
    shapes = "copies has \\(2,\\), alpha has \\(3,\\), budget has \\(\\)"
    with pytest.raises(InvalidParameterError, match=f"arguments must have one shape: {shapes}"):
        BUDGET._evaluate(copies=[1.0, 2.0], alpha=[0.1, 0.2, 0.3], budget=1.0)


def test_frames_hold_all_combinations():
    frame = BUDGET._frame({"copies": [4.0, 9.0], "budget": [0.5, 1.0, 2.0], "alpha": 0.1})
    assert list(frame.columns) == ["alpha", "copies", "budget", "width", "error"]
    assert len(frame) == 6
    assert not frame.duplicated(["copies", "budget"]).any()
    expected = laplace_width(frame["copies"], frame["alpha"], frame["budget"])
    np.testing.assert_allclose(frame["width"], expected)
    np.testing.assert_allclose(frame["error"], 0.1 * expected)


def test_the_level_of_a_frame_is_a_twentieth_unless_it_is_given():
    frame = FIXED._frame({"copies": [1.0, 4.0], "budget": None})
    assert "budget" not in frame
    np.testing.assert_allclose(frame["width"], laplace_width(np.array([1.0, 4.0]), 0.05, 0.5))


@pytest.mark.parametrize(
    ("plan", "arguments", "message"),
    [
        (FIXED, {}, "copies must be given"),
        (FIXED, {"copies": [[1.0]]}, r"copies must be a number or one-dimensional, got .*\(1, 1\)"),
        (FIXED, {"copies": 1.0, "nobs": 2.0}, "must be among copies, alpha, got 'nobs'"),
        (BUDGET, {"copies": 1.0, "n": 2.0}, "must be among copies, alpha, budget, got 'n'"),
        (FIXED, {"copies": 1.0, "budget": 2.0}, "budget must be None where mechanism is a law"),
        (BUDGET, {"copies": 1.0, "budget": None}, "budget must be given where mechanism is a fun"),
        (BUDGET, {"copies": 1.0}, "budget must be given"),
        (BUDGET, {"copies": 1.0, "budget": 0.0}, "budget must be > 0"),
        (FIXED, {"copies": 1.0, "alpha": 1.0}, "alpha must be < 1"),
        (FIXED, {"copies": 1.0, "alpha": 1e-310}, "alpha must be >= 1e-300"),
        (FIXED, {"copies": np.nan}, "copies must not contain NaN"),
        (POWER, {"nobs": 3.0, "effect": 0.0}, "effect must be positive"),
    ],
)
def test_wrong_arguments_of_frames(plan, arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        plan._frame(arguments)


def test_the_missing_argument_is_found():
    known = {"copies": 25.0, "alpha": 0.1, "budget": 0.8}
    width = laplace_width(25.0, 0.1, 0.8)
    assert BUDGET._solve(**known, width=None) == pytest.approx(width, rel=1e-12)
    for name, value in known.items():
        found = BUDGET._solve(**{**known, name: None}, width=width * (1 + 1e-9))
        assert found == pytest.approx(value, rel=1e-6), name


@pytest.mark.parametrize("width", [40.0, 7.3, 1.0, 0.01])
def test_sizes_are_the_smallest_whole_numbers(width):
    found = FIXED._solve(copies=None, alpha=0.05, width=width)
    assert found == np.ceil((laplace_width(1.0, 0.05, 0.5) / width) ** 2)


@pytest.mark.parametrize("power", [0.3, 0.8, 0.95])
def test_sizes_are_those_from_which_on_the_power_is_reached(power):
    found = POWER._solve(nobs=None, effect=0.03, alpha=0.05, power=power)
    sizes = np.arange(1.0, 500.0)
    powers = POWER._evaluate(nobs=sizes, effect=0.03, alpha=0.05)
    assert found == sizes[np.flatnonzero(powers < power)[-1] + 1]
    effect = POWER._solve(nobs=100.0, effect=None, alpha=0.05, power=power)
    assert effect == pytest.approx(-np.log1p(-power) / 100.0, rel=1e-6)


@pytest.mark.parametrize(
    ("plan", "arguments", "message"),
    [
        (FIXED, {}, r"exactly one of copies, alpha, width must be None, got copies, alpha, width"),
        (FIXED, {"copies": 1.0, "alpha": 0.1, "width": 2.0}, "must be None, got none as None"),
        (FIXED, {"copies": 1.0, "alpha": 0.1, "budget": 2.0}, "budget must be None where"),
        (FIXED, {"copies": [1.0, 2.0], "alpha": 0.1}, "copies must be a number"),
        (FIXED, {"copies": 1.0, "width": 0.0}, "width must be > 0"),
        (FIXED, {"alpha": 0.05, "width": 1e-9}, "width must be one that can be reached"),
        (POWER, {"nobs": 5.0, "alpha": 0.1, "power": 1.0}, "power must be < 1"),
        (POWER, {"nobs": 5.0, "alpha": 0.1, "power": 1e-9}, "power must be larger than"),
        (
            Width(lambda budget: 3),
            {"copies": 1.0, "alpha": 0.1, "budget": 2.0},
            "mechanism must return a noise law, got 3 for the budget 2",
        ),
        (
            Width(lambda budget: Laplace(scale=[1.0, budget])),
            {"copies": 1.0, "alpha": 0.1, "budget": 2.0},
            r"mechanism must have scalar parameters, got shape \(2,\)",
        ),
    ],
)
def test_wrong_questions(plan, arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        plan._solve(**arguments)


def test_a_law_for_one_budget():
    assert BUDGET._law_at({"budget": np.asarray(0.5)}) == Laplace(scale=2.0)
    assert FIXED._law_at({"copies": np.asarray(3.0)}) == Laplace(scale=2.0)


def test_what_a_plan_takes_as_its_noise():
    law, laws = Laplace(scale=2.0), [Laplace(scale=2.0), Gaussian(sigma=1.0)]
    assert check_plan(law) is law
    assert check_plan(Laplace.from_epsilon) == Laplace.from_epsilon
    assert isinstance(check_plan(laws, (2,)), IndependentNoise)
    assert check_law(Laplace(scale=[1.0, 2.0]), (2,)).shape == (2,)
    # one law for each cell of a table, row by row
    assert check_law([law] * 6, (2, 3)).shape == (6,)
    for wrong, cells, message in (
        (3.0, (), "noise must be a law of noise, such as .*, or a function .*, got 3.0"),
        (Laplace, (), "noise must be a law of noise"),
        (laws, (), "noise must be a law of noise"),
        (laws, (3,), "noise must have one law for all values or one for each of the 3 values"),
        (Laplace(scale=[1.0, 2.0]), (3,), r"noise must have scalar parameters or shape \(3,\)"),
    ):
        with pytest.raises(InvalidParameterError, match=message):
            check_plan(wrong, cells, name="noise")


@pytest.fixture
def pyplot(monkeypatch):
    mpl = pytest.importorskip("matplotlib")
    mpl.use("agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def test_drawings_have_a_line_for_each_combination(pyplot):
    axes = BUDGET.plot("copies", copies=[1.0, 4.0, 9.0], alpha=[0.1, 0.2], budget=0.5)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("copies", "width")
    drawn = {line.get_label(): line for line in axes.containers}
    assert list(drawn) == ["alpha = 0.1", "alpha = 0.2"]
    for label, alpha in (("alpha = 0.1", 0.1), ("alpha = 0.2", 0.2)):
        points, _, (bars,) = drawn[label]
        width = laplace_width(np.array([1.0, 4.0, 9.0]), alpha, 0.5)
        np.testing.assert_allclose(points.get_ydata(orig=False), width)
        ends = np.array([segment[:, 1] for segment in bars.get_segments()])
        np.testing.assert_allclose(ends, width[:, None] * [0.9, 1.1])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(drawn)


def test_a_drawing_of_one_line_has_no_legend(pyplot):
    _, given = pyplot.subplots()
    axes = FIXED.plot("copies", ax=given, copies=[1.0, 4.0], alpha=0.1)
    assert axes is given
    assert axes.get_legend() is None
    assert len(axes.containers) == 1


def test_wrong_drawings(pyplot):
    with pytest.raises(InvalidParameterError, match="x must be one of the arguments, copies, got"):
        FIXED.plot("alpha", copies=[1.0, 2.0])
    with pytest.raises(InvalidParameterError, match=r"ax must be matplotlib\.axes\.Axes or None"):
        FIXED.plot("copies", copies=[1.0, 2.0], ax=3)


def test_drawing_without_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtraError, match=r"dpinfer\[plot\]"):
        FIXED.plot("copies", copies=[1.0, 2.0])


def test_fields_are_set_while_a_plan_is_made():
    plan = Width(None)
    plan._set(mechanism=Laplace(scale=2.0))
    assert plan == FIXED
    assert isinstance(plan._drawn({"copies": 1.0}), pd.DataFrame)


def test_what_is_not_solved_for_has_to_be_given():
    class Given(Width):
        _given = ("copies",)

    plan = Given(Laplace(scale=2.0))
    assert plan._solve(copies=25.0, alpha=None, width=2.0) == pytest.approx(np.exp(-2.5), rel=1e-6)
    with pytest.raises(InvalidParameterError, match="copies must hold real numbers, got None"):
        plan._solve(copies=None, alpha=0.05, width=2.0)
