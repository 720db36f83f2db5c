import numpy as np
import pandas as pd
import pytest

from dpinfer.errors import InvalidParameterError
from dpinfer.results import Intervals


def make(lower=(1.5, -5.5), upper=(6.5, -0.5), **other):
    fields = {"alpha": 0.1, "method": "exact", "uncertainty": "noise"} | other
    estimate = (np.asarray(lower) + np.asarray(upper)) / 2
    return Intervals(estimate=estimate, lower=lower, upper=upper, **fields)


def test_unpacks_and_converts_like_conf_int_of_statsmodels():
    intervals = make()
    lower, upper = intervals
    np.testing.assert_array_equal(lower, [1.5, -5.5])
    np.testing.assert_array_equal(upper, [6.5, -0.5])
    np.testing.assert_array_equal(np.asarray(intervals), [[1.5, 6.5], [-5.5, -0.5]])
    assert np.asarray(intervals, dtype=np.float32).dtype == np.float32


def test_labels_come_back():
    labels = pd.Index(["a", "b"], name="cell")
    intervals = make(labels=labels)
    for part in (intervals.lower, intervals.upper, intervals.width, intervals.empty):
        pd.testing.assert_index_equal(part.index, labels)
    pd.testing.assert_index_equal(intervals.summary_frame().index, labels)


def test_scalars_stay_scalars():
    intervals = make(lower=1.0, upper=2.0)
    assert isinstance(intervals.lower, float)
    assert intervals.width == 1.0
    assert bool(intervals.contains(1.5))
    assert len(intervals.summary_frame()) == 1


def test_is_immutable():
    intervals = make()
    with pytest.raises(ValueError, match="read-only"):
        intervals.lower[0] = 0.0
    with pytest.raises(AttributeError):
        intervals.alpha = 0.5


def test_restriction_rounds_inward_and_intersects():
    restricted = make().restrict(lower=0, upper=5, integer=True)
    np.testing.assert_array_equal(restricted.lower, [2.0, np.inf])
    np.testing.assert_array_equal(restricted.upper, [5.0, -np.inf])
    np.testing.assert_array_equal(restricted.empty, [False, True])
    np.testing.assert_array_equal(restricted.width, [3.0, 0.0])
    np.testing.assert_array_equal(restricted.estimate, make().estimate)


def test_an_interval_without_a_whole_number_is_empty():
    assert make(lower=0.2, upper=0.8).restrict(integer=True).empty


def test_empty_intervals_contain_nothing_and_stay_empty():
    empty = make(lower=0.2, upper=0.8).restrict(integer=True)
    assert not empty.contains([-np.inf, 0.0, 0.5, np.inf]).any()
    assert empty.restrict(lower=0, upper=1).empty


def test_empty_is_reported():
    restricted = make().restrict(lower=0)
    assert "empty" in restricted.summary()
    assert restricted.summary_frame()["empty"].tolist() == [False, True]
    assert "empty" not in make().summary_frame()


def test_restriction_without_bounds_changes_nothing():
    assert make().restrict().summary() == make().summary()


def test_contains_broadcasts():
    assert make().contains([[0.0, -1.0], [2.0, 0.0]]).tolist() == [[False, True], [True, False]]


def test_unbounded_intervals_have_infinite_width():
    intervals = Intervals(
        estimate=[0.0],
        lower=[-np.inf],
        upper=[np.inf],
        alpha=0.1,
        method="exact",
        uncertainty="noise",
    )
    assert intervals.width[0] == np.inf


@pytest.mark.parametrize("uncertainty", ["noise", "noise+sampling"])
def test_summary_says_which_error_is_covered(uncertainty):
    assert uncertainty.split("+")[-1] in make(uncertainty=uncertainty).summary()
    assert make(uncertainty=uncertainty).summary_frame().attrs["uncertainty"] == uncertainty


def test_summary_says_for_what_the_level_holds():
    assert "all together" in make(simultaneous=True).summary()
    assert "each on its own" in make().summary()
    assert str(make(notes=("a remark",))).endswith("a remark")


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"lower": 2, "upper": 1}, "lower must be <= upper, got 2 and 1"),
        ({"lower": np.nan}, "lower must not contain NaN"),
        ({"upper": [1, 2]}, "upper must be a number"),
        ({"integer": 1}, "integer must be True or False"),
    ],
)
def test_bad_bounds_are_refused(bounds, message):
    with pytest.raises(InvalidParameterError, match=message):
        make().restrict(**bounds)


def test_repr_is_one_line_and_str_is_the_summary():
    assert repr(make()) == "Intervals(2 intervals, level 0.9, exact)"
    one = make(lower=1.5, upper=6.5, simultaneous=True)
    assert repr(one) == "Intervals([1.5, 6.5], level 0.9, exact, together)"
    assert str(one) == one.summary()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lower": [1.0]}, r"lower must have shape \(2,\), got \(1,\)"),
        ({"upper": 3.0}, r"upper must have shape \(2,\), got \(\)"),
        ({"labels": pd.Index(["a"])}, r"estimate must have shape \(1,\), got \(2,\)"),
    ],
)
def test_ends_have_the_shape_of_the_estimates(changes, message):
    given = {"estimate": [1.0, 2.0], "lower": [0.0, 1.0], "upper": [2.0, 3.0]}
    named = {"alpha": 0.05, "method": "exact", "uncertainty": "noise"}
    assert Intervals(**given, **named).width.tolist() == [2.0, 2.0]
    with pytest.raises(InvalidParameterError, match=message):
        Intervals(**{**given, **named, **changes})


def test_widths_beyond_the_floats_are_infinite():
    ends = {"estimate": 0.0, "lower": -1.7e308, "upper": 1.7e308}
    assert Intervals(**ends, alpha=0.05, method="exact", uncertainty="noise").width == np.inf


def test_empty_intervals_say_so_wherever_they_are_printed():
    found = make().restrict(lower=0.0)
    assert "1 of 2 intervals empty, with the ends inf and -inf" in " ".join(str(found).split())
    assert repr(found) == "Intervals(2 intervals, 1 of them empty, level 0.9, exact)"
    assert repr(make([-2.0], [-1.0]).restrict(lower=0.0)) == "Intervals(empty, level 0.9, exact)"
    assert "empty" not in str(make()) + repr(make())
