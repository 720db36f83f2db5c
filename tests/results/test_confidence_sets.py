import numpy as np
import pandas as pd
import pytest

from dpinfer.errors import InvalidParameterError
from dpinfer.results import ConfidenceSets


def some(**changes):
    fields = {
        "estimate": [2.0, 3.0, 0.0, np.inf],
        "lower": [1.0, -1.0, -np.inf, np.inf],
        "upper": [4.0, 1.5, np.inf, -np.inf],
        "kind": ["interval", "complement", "line", "empty"],
        "alpha": 0.05,
        "method": "exact",
        "uncertainty": "noise",
    }
    return ConfidenceSets(**(fields | changes))


def test_membership_by_kind():
    sets = some()
    np.testing.assert_array_equal(sets.contains(0.0), [False, False, True, False])
    np.testing.assert_array_equal(sets.contains(1.5), [True, True, True, False])
    np.testing.assert_array_equal(sets.contains([1.0, -1.0, 5.0, 5.0]), [True, True, True, False])
    assert sets.contains([[0.0], [2.0]]).shape == (2, 4)
    np.testing.assert_array_equal(sets.empty, [False, False, False, True])
    np.testing.assert_array_equal(sets.width, [3.0, np.inf, np.inf, 0.0])


def test_unpacks_and_is_read_only():
    sets = some()
    lower, upper = sets
    assert lower[0] == 1.0
    assert upper[1] == 1.5
    with pytest.raises(ValueError, match="read-only"):
        sets.kind[0] = "line"


def test_restriction_is_the_intersection():
    sets = ConfidenceSets(
        estimate=np.zeros(8),
        lower=[-1.0, 0.2, -1.0, 0.5, 0.2, -1.0, -np.inf, np.inf],
        upper=[0.5, 3.0, 0.5, 2.0, 0.4, 2.0, np.inf, -np.inf],
        kind=["interval"] * 2 + ["complement"] * 4 + ["line", "empty"],
        alpha=0.05,
        method="exact",
        uncertainty="noise",
    )
    kept = sets.restrict(lower=0, upper=1)
    np.testing.assert_array_equal(kept.lower, [0, 0.2, 0.5, 0, 0, np.inf, 0, np.inf])
    np.testing.assert_array_equal(kept.upper, [0.5, 1, 1, 0.5, 1, -np.inf, 1, -np.inf])
    assert list(kept.kind) == ["interval"] * 5 + ["empty", "interval", "empty"]
    assert "1 set has two pieces" in kept.notes[0]
    grid = np.linspace(-0.5, 1.5, 201)[:, None]
    both = sets.contains(grid) & (grid >= 0) & (grid <= 1)
    assert not (both & ~kept.contains(grid)).any()
    assert sets.restrict() is sets


def test_one_side_may_stay_open():
    kept = some().restrict(lower=0)
    assert list(kept.kind) == ["interval", "interval", "interval", "empty"]
    np.testing.assert_array_equal(kept.lower, [1.0, 1.5, 0.0, np.inf])
    np.testing.assert_array_equal(kept.upper, [4.0, np.inf, np.inf, -np.inf])


def test_tables_name_the_kinds():
    sets = some(labels=pd.Index(list("abcd")))
    frame = sets.summary_frame()
    assert list(frame.columns) == ["estimate", "ci_lower", "ci_upper", "kind"]
    assert frame.attrs["alpha"] == 0.05
    assert frame.loc["b", "kind"] == "complement"
    text = sets.summary()
    assert "complement" in text
    assert "not between its ends" in text
    assert str(sets) == text
    assert sets.contains(1.5).index.tolist() == list("abcd")


@pytest.mark.parametrize(
    ("kind", "ends", "shown"),
    [
        ("interval", (1.0, 2.0), "[1, 2]"),
        ("complement", (1.0, 2.0), "outside (1, 2)"),
        ("line", (-np.inf, np.inf), "every number"),
        ("empty", (np.inf, -np.inf), "no number"),
    ],
)
def test_repr_of_one(kind, ends, shown):
    sets = some(estimate=1.0, lower=ends[0], upper=ends[1], kind=kind)
    assert repr(sets) == f"ConfidenceSets({shown}, level 0.95, exact)"
    assert sets.kind == kind


def test_bad_fields():
    with pytest.raises(InvalidParameterError, match="kind"):
        some(kind=["interval"] * 3 + ["ring"])
    with pytest.raises(InvalidParameterError, match="lower"):
        some(lower=[np.nan] * 4)
    with pytest.raises(InvalidParameterError, match="lower must be <= upper"):
        some().restrict(lower=2, upper=1)


def test_sets_without_a_complement_need_no_note():
    sets = some(kind=["interval"] * 4, lower=[0.0] * 4, upper=[1.0] * 4)
    assert "not between its ends" not in sets.summary()
    assert repr(sets) == "ConfidenceSets(4 sets, level 0.95, exact)"


def test_kinds_are_spelled_out_for_each_set():
    for wrong in (["complementary"] + ["interval"] * 3, ["interval"] * 3, "interval", [1] * 4):
        with pytest.raises(InvalidParameterError, match="kind must hold one of interval, compleme"):
            some(kind=wrong)
    wide = some(kind=["interval"] * 4, lower=[-1.7e308] * 4, upper=[1.7e308] * 4)
    assert wide.width.tolist() == [np.inf] * 4
