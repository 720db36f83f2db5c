import itertools

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from dpinfer.errors import InvalidParameterError
from dpinfer.queries import SUMMED, Domain, Workload

DOMAIN = Domain({"sex": ["F", "M"], "age": [17, 18, 19], "vote": [True, False]})
MARGINALS = [("sex", "age", "vote"), ("sex",), ("vote", "age"), ()]


def marginal_by_hand(domain, attributes):
    """Rows of a marginal by comparing every cell with every combination of levels."""
    cells = list(itertools.product(*domain.levels.values()))
    kept = [k for k, name in enumerate(domain.attributes) if name in attributes]
    combinations = itertools.product(*(domain.levels[domain.attributes[k]] for k in kept))
    return [[float(tuple(c[k] for k in kept) == combo) for c in cells] for combo in combinations]


def test_marginals_against_brute_force():
    workload = Workload.from_marginals(DOMAIN, MARGINALS)
    want = np.concatenate([marginal_by_hand(DOMAIN, names) for names in MARGINALS])
    np.testing.assert_array_equal(workload.matrix.toarray(), want)
    assert workload.shape == want.shape
    assert len(workload) == 12 + 2 + 6 + 1
    assert workload.is_sparse
    assert workload.is_counting
    assert not workload.is_identity
    assert workload.matrix.has_canonical_format


def test_labels_of_marginals():
    labels = Workload.from_marginals(DOMAIN, MARGINALS).labels
    assert list(labels.names) == ["sex", "age", "vote"]
    assert labels[0] == ("F", 17, True)
    assert labels[12:14].to_list() == [("F", SUMMED, SUMMED), ("M", SUMMED, SUMMED)]
    assert labels[14] == (SUMMED, 17, True)
    assert labels[-1] == (SUMMED, SUMMED, SUMMED)
    assert labels.is_unique


def test_random_marginals_against_brute_force():
    rng = np.random.default_rng(2)
    for _ in range(30):
        sizes = rng.integers(1, 5, rng.integers(1, 5))
        domain = Domain({f"a{k}": range(size) for k, size in enumerate(sizes)})
        marginals = [
            tuple(rng.permutation(domain.attributes)[: rng.integers(len(sizes) + 1)])
            for _ in range(rng.integers(1, 4))
        ]
        want = np.concatenate([marginal_by_hand(domain, names) for names in marginals])
        workload = Workload.from_marginals(domain, marginals)
        np.testing.assert_array_equal(workload.matrix.toarray(), want)


def test_a_string_is_one_attribute():
    by_string = Workload.from_marginals(DOMAIN, ["sex"])
    assert by_string.labels.equals(Workload.from_marginals(DOMAIN, [("sex",)]).labels)
    with pytest.raises(InvalidParameterError, match="sequence of tuples"):
        Workload.from_marginals(DOMAIN, "sex")


@pytest.mark.parametrize(
    ("marginals", "message"),
    [
        ([("sex", "size")], "among 'sex', 'age', 'vote', got 'size'"),
        ([("sex", "sex")], "once"),
        ([], "at least one table"),
    ],
)
def test_bad_marginals(marginals, message):
    with pytest.raises(InvalidParameterError, match=message):
        Workload.from_marginals(DOMAIN, marginals)


def test_a_workload_that_does_not_fit_into_memory_is_refused():
    domain = Domain({f"a{k}": range(100) for k in range(4)})
    with pytest.raises(InvalidParameterError, match="at most"):
        Workload.from_marginals(domain, [(), ("a0",), ("a1",)])


def test_identity_costs_nothing_and_is_recognised():
    workload = Workload.identity(10**7)
    assert workload.is_identity
    assert workload.is_sparse
    assert repr(workload) == "Workload(10000000 queries on 10000000 cells, identity)"
    assert Workload.identity(DOMAIN).labels.equals(DOMAIN.cells())
    assert Workload.from_marginals(DOMAIN, [DOMAIN.attributes]).is_identity
    assert Workload(np.eye(3)).is_identity
    assert Workload(sp.eye(3)).is_identity
    assert not Workload(np.eye(3)[[1, 0, 2]]).is_identity
    assert not Workload(sp.csr_array(np.eye(3)[[1, 0, 2]])).is_identity
    assert not Workload(np.ones((1, 3))).is_identity
    np.testing.assert_array_equal(Workload.identity(3).matrix.toarray(), np.eye(3))


@pytest.mark.parametrize("build", [np.asarray, sp.csr_matrix, sp.coo_array, sp.dia_array])
def test_matrices_of_any_kind(build):
    plain = np.array([[1.0, 0, 2], [0, -1, 0]])
    workload = Workload(build(plain), labels=["a", "b"], columns=["x", "y", "z"])
    got = workload.matrix.toarray() if workload.is_sparse else workload.matrix
    np.testing.assert_array_equal(got, plain)
    assert workload.is_integer
    assert not workload.is_counting
    assert workload.labels.to_list() == ["a", "b"]
    assert workload.columns.to_list() == ["x", "y", "z"]
    assert workload.answer([1, 2, 3]).tolist() == [7, -2]
    assert (workload @ [1, 2, 3]).tolist() == [7, -2]


def test_duplicate_and_zero_entries_of_sparse_matrices_are_merged():
    matrix = sp.coo_array(([1.0, 1.0, 0.0, 2.0, -2.0], ([0, 0, 0, 1, 1], [0, 0, 1, 1, 1])))
    workload = Workload(matrix)
    assert workload.matrix.nnz == 1
    assert workload.matrix.toarray().tolist() == [[2, 0], [0, 0]]


def test_a_workload_is_a_read_only_copy():
    plain = np.eye(2)
    workload = Workload(plain)
    plain[0, 0] = 5
    assert workload.matrix[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        workload.matrix[0, 0] = 5
    sparse = sp.csr_array(np.eye(2))
    workload = Workload(sparse)
    sparse.data[0] = 5
    assert workload.matrix.data[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        workload.matrix.data[0] = 5
    with pytest.raises(AttributeError):
        workload.matrix = plain


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([], "matrix must be two-dimensional"),
        ([[]], "matrix must hold at least one value"),
        ([1, 2], "matrix must be two-dimensional"),
        ([[1, np.nan]], "NaN"),
        ([[1, np.inf]], "finite"),
        ([[1j]], "complex"),
        ([["a"]], "real numbers"),
        ([[1], [1, 2]], "rectangular"),
        (sp.csr_array([[np.nan]]), "NaN"),
        (sp.csr_array([[1j]]), "complex"),
        (sp.csr_array((0, 3)), "not empty"),
        (Workload([[1]]), "got a Workload|real numbers"),
    ],
)
def test_bad_matrices(matrix, message):
    with pytest.raises(InvalidParameterError, match=message):
        Workload(matrix)


def test_bad_labels():
    with pytest.raises(InvalidParameterError, match="labels must have 2 entries"):
        Workload(np.eye(2), labels=["a"])
    with pytest.raises(InvalidParameterError, match="labels must be distinct, got 'a' twice"):
        Workload(np.eye(2), labels=["a", "a"])
    with pytest.raises(InvalidParameterError, match="columns must have 2 entries"):
        Workload(np.eye(2), columns=["a"])
    with pytest.raises(InvalidParameterError, match="sequence of labels"):
        Workload(np.eye(2), labels="ab")
    with pytest.raises(InvalidParameterError, match="domain must have 2 cells"):
        Workload(np.eye(2), domain=DOMAIN)


def test_predicates_against_brute_force():
    workload = Workload.from_predicates(
        DOMAIN,
        {
            "girls": {"sex": "F", "age": 17},
            "adults": {"age": [18, 19]},
            "all": {},
            "by function": lambda cells: (cells["age"] >= 18) & cells["vote"],
        },
    )
    cells = DOMAIN.cells()
    want = [
        [sex == "F" and age == 17 for sex, age, _ in cells],
        [age >= 18 for _, age, _ in cells],
        [True for _ in cells],
        [age >= 18 and vote for _, age, vote in cells],
    ]
    np.testing.assert_array_equal(workload.matrix.toarray(), np.array(want, dtype=float))
    assert workload.labels.to_list() == ["girls", "adults", "all", "by function"]
    assert workload.domain == DOMAIN


@pytest.mark.parametrize(
    ("predicates", "message"),
    [
        ({}, "at least one condition"),
        ({"a": {"size": 1}}, "got 'size'"),
        ({"a": {"age": 20}}, "age must be one of 17, 18, 19, got 20"),
        ({"a": {"age": [17, 20]}}, "got 20"),
        ({"a": 3}, "mapping of attributes"),
        ({"a": lambda cells: cells["age"]}, "boolean for each of the 12 cells"),
        ({"a": lambda cells: True}, "boolean for each"),
        ({"a": lambda cells: cells["age"] > 17 and cells["vote"]}, "& and"),
    ],
)
def test_bad_predicates(predicates, message):
    with pytest.raises(InvalidParameterError, match=message):
        Workload.from_predicates(DOMAIN, predicates)


def test_vstack():
    first = Workload.from_marginals(DOMAIN, [("sex",)])
    second = Workload.from_marginals(DOMAIN, [()])
    both = Workload.vstack([first, second])
    want = Workload.from_marginals(DOMAIN, [("sex",), ()])
    assert both.labels.equals(want.labels)
    np.testing.assert_array_equal(both.matrix.toarray(), want.matrix.toarray())
    mixed = Workload.vstack([first, Workload.from_predicates(DOMAIN, {"adults": {"age": 18}})])
    assert mixed.labels.to_list() == [*first.labels, "adults"]
    assert mixed.domain == DOMAIN
    dense = Workload.vstack([Workload([[1, 2]]), Workload([[3, 4]])])
    assert dense.matrix.tolist() == [[1, 2], [3, 4]]
    assert dense.labels is None
    assert Workload.vstack([Workload([[1, 2]]), Workload.identity(2)]).is_sparse


def test_vstack_needs_the_same_cells():
    with pytest.raises(InvalidParameterError, match="same cells"):
        Workload.vstack([Workload.identity(2), Workload.identity(3)])
    with pytest.raises(InvalidParameterError, match="same cells"):
        Workload.vstack([Workload.identity(12), Workload.identity(DOMAIN)])
    with pytest.raises(InvalidParameterError, match="at least one"):
        Workload.vstack([])


def test_take_keeps_labels_and_cells():
    workload = Workload.from_marginals(DOMAIN, MARGINALS)
    for index in (slice(10, 14), [20, 3], np.arange(21) > 15):
        part = workload.take(index)
        rows = np.arange(21)[index]
        assert part.labels.equals(workload.labels[rows])
        np.testing.assert_array_equal(part.matrix.toarray(), workload.matrix.toarray()[rows])
    plain = Workload([[1, 2], [3, 4]], labels=["a", "b"]).take([1])
    assert plain.labels.to_list() == ["b"]
    assert plain.matrix.tolist() == [[3, 4]]


def test_integer_rows():
    plain = np.array([[1.0, 2], [0.5, 1], [3, 0], [0, 0.1]])
    for matrix in (plain, sp.csr_array(plain)):
        workload = Workload(matrix)
        assert not workload.is_integer
        assert workload.integer_rows().tolist() == [True, False, True, False]
    assert Workload.identity(2).integer_rows().tolist() == [True, True]


def test_answers_follow_labels():
    workload = Workload.from_marginals(DOMAIN, [("sex",), ()])
    x = np.arange(12.0)
    truth = pd.Series(x, index=DOMAIN.cells())
    assert workload.answer(x).tolist() == [15, 51, 66]
    shuffled = truth.sample(frac=1, random_state=3)
    answers = workload.answer(shuffled)
    assert answers.index.equals(workload.labels)
    assert answers.tolist() == [15, 51, 66]
    with pytest.raises(InvalidParameterError, match="labelled with the cells"):
        workload.answer(pd.Series(x))
    with pytest.raises(InvalidParameterError, match="12 entries"):
        workload.answer([1, 2])
    x = np.arange(3.0)
    assert Workload.identity(3).answer(x) is not x


def test_codes_that_cannot_change_are_kept_as_they_are():
    domain = Domain({"sex": ["F", "M"], "age": [0, 1, 2]})
    codes = np.array([[0, -1], [1, 2]], dtype=np.int32)
    codes.flags.writeable = False
    assert Workload.from_codes(domain, codes).codes is codes
    writeable = codes.copy()
    assert Workload.from_codes(domain, writeable).codes is not writeable
    np.testing.assert_array_equal(Workload.from_codes(domain, codes.tolist()).codes, codes)


def test_other_labels():
    domain = Domain({"sex": ["F", "M"]})
    women = Workload([[1, 0]], labels=["women"], columns=domain.cells())
    renamed = women.with_labels(["f"])
    assert (list(renamed.labels), list(women.labels)) == (["f"], ["women"])
    assert women.with_labels(None).labels is None
    answers = renamed.answer(pd.Series([3.0, 4.0], index=["M", "F"]))
    assert answers.to_dict() == {"f": 4.0}
    with pytest.raises(InvalidParameterError, match="labels must have 1 entries"):
        women.with_labels(["a", "b"])
    with pytest.raises(InvalidParameterError, match="the domain has labels"):
        Workload.identity(domain, labels=["a", "b"])


@pytest.mark.parametrize("cells", [10**13, 10**30])
def test_an_identity_that_fits_nowhere_is_not_listed(cells):
    workload = Workload.identity(cells)
    assert workload.shape == (cells, cells)
    assert workload.is_counting
    for listed in (
        lambda: workload.matrix,
        lambda: workload.take([0]),
        workload.integer_rows,
        lambda: workload.answer([1.0]),
    ):
        with pytest.raises(InvalidParameterError, match=r"at most 268435456|must have"):
            listed()
