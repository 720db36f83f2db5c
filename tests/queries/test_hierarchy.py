"""Hierarchies: how they are read, laid out, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.queries import Hierarchy


def random_parents(rng, nodes, roots=1):
    """Parents of nodes in a random order, so that parents need not come first."""
    parent = np.array([-1 if i < roots else rng.integers(0, i) for i in range(nodes)])
    new = rng.permutation(nodes)
    shuffled = np.empty(nodes, dtype=int)
    shuffled[new] = np.where(parent < 0, -1, new[parent])
    return shuffled


@pytest.mark.parametrize("seed", range(20))
def test_tree_keeps_every_child_with_its_parent(seed):
    rng = np.random.default_rng(seed)
    parent = random_parents(rng, int(rng.integers(1, 60)), roots=int(rng.integers(1, 3)))
    tree = Hierarchy(parent).tree
    order = np.arange(parent.size) if tree.order is None else tree.order
    np.testing.assert_array_equal(np.sort(order), np.arange(parent.size))
    place = tree.place_of(np.arange(parent.size))
    np.testing.assert_array_equal(order[place], np.arange(parent.size))
    of_parent = np.where(parent < 0, -1, place[parent])
    np.testing.assert_array_equal(tree.parent, of_parent[order])
    seen = []
    for families in tree.families:
        nodes = np.arange(parent.size)[families.parents]
        children = np.arange(parent.size)[families.children]
        np.testing.assert_array_equal(tree.parent[children], np.repeat(nodes, families.counts))
        seen.extend(children)
    assert sorted(seen) == list(np.flatnonzero(tree.parent >= 0))


def test_long_generations_are_cut_between_families():
    parent = np.concatenate([[-1], np.zeros(50_000, dtype=int), 1 + np.arange(50_000)])
    tree = Hierarchy(parent).tree
    assert len(tree.families) > 2
    assert tree.families[0].counts.tolist() == [50_000]  # one family is never cut
    assert sum(families.children.stop - families.children.start for families in tree.families) == (
        100_000
    )


def test_parents_by_label_position_and_mapping_agree():
    parent = {"us": None, "a": "us", "b": "us", "a1": "a"}
    by_mapping = Hierarchy(parent)
    by_series = Hierarchy(pd.Series(parent))
    by_position = Hierarchy([-1, 0, 0, 1])
    for other in (by_series, by_position):
        np.testing.assert_array_equal(by_mapping.parent, other.parent)
    assert list(by_mapping.labels) == list(parent)
    assert by_position.labels is None
    assert by_mapping.depth.to_dict() == {"us": 0, "a": 1, "b": 1, "a1": 2}
    np.testing.assert_array_equal(by_position.leaves, [2, 3])


def test_numeric_labels_are_labels():
    hierarchy = Hierarchy(pd.Series({10: np.nan, 20: 10.0, 30: 10.0}))
    np.testing.assert_array_equal(hierarchy.parent, [-1, 0, 0])


def test_codes_give_the_units_above_them():
    codes = ["44001", "44003", "44001030100", "44001030200", "44003000100"]
    hierarchy = Hierarchy.from_codes(codes, [2, 5, 11])
    assert list(hierarchy.labels) == [*codes, "44"]
    np.testing.assert_array_equal(hierarchy.parent, [5, 5, 0, 0, 1, -1])
    lowest = Hierarchy.from_codes(codes[2:], [0, 2, 5, 11])
    assert sorted(lowest.labels) == sorted(["", "44", *codes])
    assert (np.asarray(lowest.parent) < 0).sum() == 1


def test_codes_of_several_states_have_several_roots():
    hierarchy = Hierarchy.from_codes(["01", "02", "01001", "02001"])
    assert (hierarchy.parent < 0).sum() == 2


def test_columns_tell_units_of_one_name_apart():
    rows = pd.DataFrame(
        {
            "state": ["A", "A", "B", "B"],
            "county": ["x", "y", "x", None],
            "town": ["t", "t", "t", None],
        }
    )
    hierarchy = Hierarchy.from_columns(rows)
    assert list(hierarchy.labels) == [
        ("A",),
        ("B",),
        ("A", "x"),
        ("A", "y"),
        ("B", "x"),
        ("A", "x", "t"),
        ("A", "y", "t"),
        ("B", "x", "t"),
    ]
    np.testing.assert_array_equal(hierarchy.parent, [-1, -1, 0, 0, 1, 2, 3, 4])
    np.testing.assert_array_equal(hierarchy.positions([("B", "x")]), [4])


def test_columns_and_codes_agree():
    codes = [f"{s:02d}{c:03d}{t:02d}" for s in (1, 2) for c in (1, 5) for t in range(3)]
    by_code = Hierarchy.from_codes(codes, [2, 5, 7])
    columns = pd.DataFrame({n: [code[:n] for code in codes] for n in (2, 5, 7)})
    by_column = Hierarchy.from_columns(columns)
    of = {
        label: (by_code.labels[p] if p >= 0 else None)
        for label, p in zip(by_code.labels, by_code.parent, strict=True)
    }
    for label, p in zip(by_column.labels, by_column.parent, strict=True):
        assert of[label[-1]] == (by_column.labels[p][-1] if p >= 0 else None)


def test_rests_are_children_of_units_not_exhausted():
    hierarchy = Hierarchy([-1, 0, 0, 1], not_exhausted=[0, 1, 2])
    np.testing.assert_array_equal(hierarchy.not_exhausted, [0, 1, 2])
    assert len(hierarchy.tree) == 4 + 2  # a leaf has no rest apart from itself
    everywhere = Hierarchy([-1, 0, 0, 1], not_exhausted=True)
    np.testing.assert_array_equal(everywhere.not_exhausted, [0, 1])
    named = Hierarchy(pd.Series({"a": None, "b": "a"}), not_exhausted="a")
    assert list(named.not_exhausted) == ["a"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Hierarchy([]), "parent must hold at least one value"),
        (lambda: Hierarchy([-1, 7]), "parent must hold positions of units, 0 to 1, or -1"),
        (lambda: Hierarchy([-1, 0.5]), "parent must hold positions"),
        (lambda: Hierarchy([-1, np.nan]), "parent must not contain NaN"),
        (lambda: Hierarchy([1, 0]), "got circles that keep 0, 1 from that"),
        (lambda: Hierarchy([-1, 2, 1, 1]), "got circles that keep 1, 2, 3 from that"),
        (lambda: Hierarchy({"a": "b"}), "parent must name units of its index, got 'b'"),
        (lambda: Hierarchy({}), "parent must hold at least one unit"),
        (lambda: Hierarchy(pd.Series(["x", None], index=["x", "x"])), "repeated are 'x'"),
        (lambda: Hierarchy([-1, 0], not_exhausted=[5]), "not_exhausted must hold positions"),
        (lambda: Hierarchy({"a": None}, not_exhausted=["b"]), "got 'b'"),
        (lambda: Hierarchy.from_codes(["01", "01"]), "codes must name each unit once"),
        (lambda: Hierarchy.from_codes([1, 2]), "numbers lose leading zeros"),
        (lambda: Hierarchy.from_codes([]), "codes must hold text"),
        (lambda: Hierarchy.from_codes("0101"), "codes must be a list"),
        (
            lambda: Hierarchy.from_codes(["01", "0101"], [2]),
            "codes must have the lengths 2, got '0101'",
        ),
        (lambda: Hierarchy.from_codes(["01"], [4, 2]), "lengths must rise"),
        (lambda: Hierarchy.from_codes(["01", "02", "0101"]), "must have children, none have '02'"),
        (lambda: Hierarchy.from_columns(pd.DataFrame()), "columns must be a DataFrame"),
        (
            lambda: Hierarchy.from_columns(pd.DataFrame({"a": [None], "b": ["x"]})),
            "columns must have no missing label above",
        ),
        (
            lambda: Hierarchy.from_columns(pd.DataFrame({"a": ["x", "y"], "b": ["u", None]})),
            "must have children, none have",
        ),
    ],
)
def test_bad_hierarchies_are_refused(make, message):
    with pytest.raises(InvalidParameterError, match=message):
        make()


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=2),
)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(st.one_of(ODD, st.lists(ODD, max_size=5), st.dictionaries(ODD, ODD, max_size=4)), ODD)
def test_anything_else_is_refused_clearly(parent, opened):
    message = "parent"
    try:
        assert len(Hierarchy(parent, not_exhausted=opened)) >= 1
    except DPInferError as error:
        message = str(error)
    assert "parent" in message or "not_exhausted" in message


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.one_of(ODD, st.lists(ODD, max_size=5)), st.one_of(ODD, st.lists(ODD, max_size=3)))
def test_odd_codes_are_refused_clearly(codes, lengths):
    message = "codes"
    try:
        Hierarchy.from_codes(codes, lengths)
    except DPInferError as error:
        message = str(error)
    assert any(word in message for word in ("codes", "lengths", "children"))


@pytest.mark.parametrize("parent", [[-1, 0, 0, 1, 1], [3, 3, 0, -1, 0]])
def test_values_are_placed_and_numbered(parent):
    tree = Hierarchy(parent).tree
    numbers = np.arange(5)
    values = np.stack([numbers, 10.0 * numbers])
    placed = tree.placed(values)
    order = numbers if tree.order is None else tree.order
    np.testing.assert_array_equal(placed, values[:, order])
    np.testing.assert_array_equal(tree.numbered(placed), values)
    np.testing.assert_array_equal(order[tree.place_of(np.array([4, 0]))], [4, 0])


def test_units_without_labels_have_positions():
    hierarchy = Hierarchy([-1, 0, 0, 1, 1], not_exhausted=[1])
    assert hierarchy.depth.tolist() == [0, 1, 1, 2, 2]
    assert hierarchy.not_exhausted.tolist() == [1]
    assert hierarchy.names(np.array([3, 4])) == "3, 4"
    for units in ([2, 0], np.array([2, 0]), (2, 0), iter([2, 0])):
        assert hierarchy.positions(units).tolist() == [2, 0]
    assert hierarchy.positions([]).tolist() == []
    masked = np.ma.array([2, 0], mask=[False, True])
    for wrong in ([5], [-1], [0.0], ["a"], [[0], [1, 2]], [[0, 1]], masked):
        with pytest.raises(InvalidParameterError, match="units must hold positions of units, whol"):
            hierarchy.positions(wrong)
    for wrong in ({0, 1}, {0: 1}, pd.DataFrame({"a": [0]}), 3, "a"):
        with pytest.raises(InvalidParameterError, match="units must be a"):
            hierarchy.positions(wrong)


def test_units_are_found_by_labels_of_their_kind():
    index = pd.MultiIndex.from_tuples([("us", ""), ("us", "ri"), ("us", "ma")])
    hierarchy = Hierarchy(pd.Series([None, ("us", ""), ("us", "")], index=index))
    assert hierarchy.positions([("us", "ma"), ("us", "")]).tolist() == [2, 0]
    assert hierarchy.positions(index[[1]]).tolist() == [1]
    alone = Hierarchy(pd.Series([None, None, None], index=index, dtype=object))
    assert alone.parent.tolist() == [-1, -1, -1]
    flat = Hierarchy({("us",): None, ("us", "ri"): ("us",)})
    assert flat.positions([("us", "ri")]).tolist() == [1]
    pairs = Hierarchy({("us", ""): None, ("us", "ri"): ("us", "")})
    assert pairs.positions(index[[1, 0]]).tolist() == [1, 0]
    for wrong in ([("us", "ma", "x")], ["us"], [[1]], [("us", "ct")]):
        with pytest.raises(InvalidParameterError, match="units must"):
            hierarchy.positions(wrong)


@pytest.mark.parametrize("names", [{"a"}, {"a": 1}, ["a"], "a", pd.Index(["a"]), ("a",)])
def test_units_that_are_not_exhausted_may_be_named_in_any_collection(names):
    parent = {"us": None, "a": "us", "b": "us", "a1": "a"}
    if isinstance(names, tuple):  # one label, which is a tuple
        with pytest.raises(InvalidParameterError, match="not_exhausted must"):
            Hierarchy(parent, not_exhausted=names)
        return
    assert list(Hierarchy(parent, not_exhausted=names).not_exhausted) == ["a"]


@pytest.mark.parametrize(
    ("parent", "message"),
    [
        (pd.DataFrame({"parent": [None, "a"]}), "parent must be .* got a DataFrame: pass the colu"),
        (pd.Series([None, [1]], index=["a", "b"]), "parent must hold a label of a unit, or a miss"),
        (pd.Series([], dtype=object), "parent must hold at least one unit, got none"),
        (pd.Series([None, "c"], index=["a", "b"]), "parent must name units of its index, got 'c'"),
    ],
)
def test_parents_that_are_none(parent, message):
    with pytest.raises(InvalidParameterError, match=message):
        Hierarchy(parent)


def test_labels_that_pandas_cannot_hold_are_refused():
    if pd.api.types.is_string_dtype(pd.Index(["a"]).dtype) and pd.Index(["a"]).dtype != object:
        # from pandas 3 on texts are held in UTF-8
        with pytest.raises(InvalidParameterError, match="codes must be"):
            Hierarchy.from_codes(["4", "\ud800"])
    with pytest.raises(InvalidParameterError, match="each of columns must be"):
        Hierarchy.from_columns(pd.DataFrame({"state": [[1]], "town": ["x"]}))
