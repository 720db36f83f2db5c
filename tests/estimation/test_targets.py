import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.design import find_design
from dpinfer.estimation.targets import all_targets, find_targets
from dpinfer.queries import Domain, Workload

A = np.array([[1.0, 0, 0], [1, 1, 0], [1, 1, 1]])
WORKLOAD = Workload(A, labels=["first", "two", "all"], columns=["x", "y", "z"])


def dense(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else matrix


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ([1, 2, 3], [[1, 2, 3]]),
        ([[1, 2, 3], [0, 0, 1]], [[1, 2, 3], [0, 0, 1]]),
        ([(1, 2, 3), (0, 0, 1)], [[1, 2, 3], [0, 0, 1]]),
        ((1, 2, 3), [[1, 2, 3]]),
        (sparse.csr_array([[1.0, 0, 3]]), [[1, 0, 3]]),
        (Workload([[1.0, 0, 3]]), [[1, 0, 3]]),
        ("two", [[1, 1, 0]]),
        ("z", [[0, 0, 1]]),
        (["all", "y"], [[1, 1, 1], [0, 1, 0]]),
        (pd.Index(["all", "y"]), [[1, 1, 1], [0, 1, 0]]),
        ({"p": [1, 0, 0], "q": pd.Series({"z": 2.0})}, [[1, 0, 0], [0, 0, 2]]),
        (pd.Series({"z": 1.0, "x": -1.0}), [[-1, 0, 1]]),
        (pd.DataFrame({"y": [1.0], "x": [2.0]}), [[2, 1, 0]]),
    ],
)
def test_every_way_to_name_a_target(target, expected):
    np.testing.assert_array_equal(dense(find_targets(target, WORKLOAD).matrix), expected)


def test_labels_and_published_rows_are_known():
    found = find_targets(["two", "z"], WORKLOAD)
    assert list(found.labels) == ["two", "z"]
    np.testing.assert_array_equal(found.published, [1, -1])


def test_labels_with_several_parts():
    domain = Domain({"sex": ["F", "M"], "age": [1, 2]})
    workload = Workload.from_marginals(domain, [("sex",), ()])
    one = find_targets(("F", "*"), workload)
    both = find_targets([("F", "*"), ("M", 2)], workload)
    np.testing.assert_array_equal(dense(one.matrix), [[1, 1, 0, 0]])
    np.testing.assert_array_equal(dense(both.matrix), [[1, 1, 0, 0], [0, 0, 0, 1]])
    assert both.labels.nlevels == 2


def test_all_targets_are_rows_and_then_the_other_cells():
    targets = all_targets(WORKLOAD, find_design(A))
    assert list(targets.labels) == ["first", "two", "all", "y", "z"]
    np.testing.assert_array_equal(targets.published, [0, 1, 2, -1, -1])
    np.testing.assert_array_equal(targets.matrix[3:], np.eye(3)[1:])


def test_names_where_there_are_no_labels():
    targets = all_targets(Workload(A), find_design(A))
    assert targets.labels is None
    assert [targets[0], targets[4]] == ["value 0", "target 4"]
    half = all_targets(Workload(A, labels=["p", "q", "r"]), find_design(A))
    assert list(half.labels) == ["p", "q", "r", "cell 1", "cell 2"]


def test_one_label_with_two_meanings_is_refused():
    ambiguous = Workload(A, labels=["z", "two", "all"], columns=["x", "y", "z"])
    with pytest.raises(InvalidParameterError, match="'z' must have one meaning"):
        find_targets("z", ambiguous)
    with pytest.raises(InvalidParameterError, match="label 'z' stands for a published value and"):
        all_targets(ambiguous, find_design(A))


def test_unknown_labels_are_named_with_the_known_ones():
    with pytest.raises(InvalidParameterError, match=r"'w' must be .* 'first', 'two', 'all'"):
        find_targets("w", WORKLOAD)
    with pytest.raises(InvalidParameterError, match=r"labelled with cells .* got 'w'"):
        find_targets(pd.Series({"w": 1.0}), WORKLOAD)
    with pytest.raises(InvalidParameterError, match="labelled not at all"):
        find_targets("w", Workload(A))


def test_weights_of_cells_by_their_labels():
    targets = find_targets({"gap": {"z": 2, "x": -1}}, WORKLOAD)
    np.testing.assert_array_equal(dense(targets.matrix), [[-1, 0, 2]])
    assert targets.labels.to_list() == ["gap"]


@pytest.mark.parametrize(
    ("target", "workload"),
    [({"gap": {"x": 1}}, Workload(A)), ({"gap": {}}, WORKLOAD), ({"gap": {"w": 1}}, WORKLOAD)],
)
def test_weights_of_unknown_cells_are_refused(target, workload):
    with pytest.raises(InvalidParameterError, match="target gap must be"):
        find_targets(target, workload)


def test_targets_by_label_keep_the_names_of_the_levels():
    domain = Domain({"sex": ["F", "M"], "age": [1, 2]})
    workload = Workload.from_marginals(domain, [("sex",), ("sex", "age")])
    assert list(find_targets(("F", "*"), workload).labels.names) == ["sex", "age"]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (pd.DataFrame({"x": []}), "at least one target"),
        (pd.DataFrame(index=["p"]), "target p must hold at least one value"),
        ({}, "at least one target"),
        (np.ones((1, 1, 3)), "a vector or a matrix"),
        (np.array(["all", "w"]), "'w' must be the label"),
        (("x", "p"), "target"),
        ([("x", "p")], "target"),
        (np.array([["x"]]), "target must"),
    ],
)
def test_what_is_no_target_is_refused(target, message):
    with pytest.raises(InvalidParameterError, match=message):
        find_targets(target, WORKLOAD)


def test_labels_of_other_kinds_are_not_found():
    several = Workload(A, labels=pd.MultiIndex.from_tuples([("p", 1), ("p", 2), ("q", 1)]))
    for label in ("p", ("p",), ("p", 3), ("p", [1])):
        with pytest.raises(InvalidParameterError, match="must be"):
            find_targets([label, "x"], several)
    assert list(find_targets([("q", 1)], several).published) == [2]


def test_labels_of_values_and_cells_may_have_different_numbers_of_parts():
    cells = pd.MultiIndex.from_tuples([("x", 1), ("y", 1), ("z", 1)], names=["cell", "part"])
    workload = Workload(A, labels=["first", "two", "all"], columns=cells)
    every = all_targets(workload, find_design(A))
    assert list(every.labels) == ["first", "two", "all", ("y", 1), ("z", 1)]
    named = find_targets([("z", 1), ("x", 1)], workload)
    assert named.labels.names == ["cell", "part"]
    np.testing.assert_array_equal(dense(named.matrix), [[0, 0, 1], [1, 0, 0]])
    mixed = find_targets(["all", ("z", 1)], workload)
    assert list(mixed.labels) == ["all", ("z", 1)]
    np.testing.assert_array_equal(dense(mixed.matrix), [[1, 1, 1], [0, 0, 1]])
    without = Workload(A, labels=cells)
    assert find_targets([("z", 1)], without).labels.names == ["cell", "part"]


def test_labels_of_two_kinds_keep_no_names_of_either():
    pairs = pd.MultiIndex.from_tuples([("p", 1), ("p", 2), ("q", 1)], names=["a", "b"])
    cells = pd.MultiIndex.from_tuples([("x", 1, 1), ("y", 1, 1), ("z", 1, 1)])
    named = find_targets([("q", 1), ("z", 1, 1)], Workload(A, labels=pairs, columns=cells))
    np.testing.assert_array_equal(dense(named.matrix), [[1, 1, 1], [0, 0, 1]])
    assert list(named.published) == [2, -1]


def test_tuples_may_be_single_labels():
    flat = pd.Index([("x", 1), ("y", 1), ("z", 1)], tupleize_cols=False, name="cell")
    named = find_targets([("z", 1), ("x", 1)], Workload(A, columns=flat))
    np.testing.assert_array_equal(dense(named.matrix), [[0, 0, 1], [1, 0, 0]])
    assert list(named.labels) == [("z", 1), ("x", 1)]
