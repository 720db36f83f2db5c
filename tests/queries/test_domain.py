import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.queries import SUMMED, Domain

LEVELS = {"sex": ["F", "M"], "age": [17, 18, 19], "vote": [True, False]}


def test_cells_are_in_row_major_order():
    domain = Domain(LEVELS)
    assert domain.attributes == ("sex", "age", "vote")
    assert domain.shape == (2, 3, 2)
    assert domain.size == len(domain.cells()) == 12
    assert domain.cells().to_list() == list(itertools.product(*LEVELS.values()))
    assert list(domain.cells().names) == list(LEVELS)


def test_one_attribute_gives_a_plain_index():
    cells = Domain({"age": [3, 1, 2]}).cells()
    pd.testing.assert_index_equal(cells, pd.Index([3, 1, 2], name="age"))


def test_no_attributes_gives_one_cell():
    domain = Domain({})
    assert domain.size == 1
    assert domain.cells().to_list() == [SUMMED]
    assert domain.histogram([(), (), ()]).tolist() == [3.0]


def test_histogram_against_counting_by_hand():
    rng = np.random.default_rng(1)
    domain = Domain(LEVELS)
    records = [tuple(rng.choice(v).item() for v in LEVELS.values()) for _ in range(200)]
    counts = [records.count(cell) for cell in domain.cells()]
    frame = pd.DataFrame(records, columns=list(LEVELS), index=rng.permutation(200))
    mappings = [dict(zip(LEVELS, record, strict=True)) for record in records]
    for table in (records, frame, mappings, frame[["vote", "sex", "age"]].assign(more=1)):
        assert domain.histogram(table).tolist() == counts
    weights = rng.integers(1, 5, 200)
    weighted = domain.histogram(frame, weights=weights)
    assert weighted.sum() == weights.sum()
    assert weighted[0] == weights[[r == ("F", 17, True) for r in records]].sum()
    assert domain.histogram([]).tolist() == [0.0] * 12


def test_histogram_of_categories():
    domain = Domain({"sex": ["F", "M"]})
    frame = pd.DataFrame({"sex": pd.Categorical(["M", "M", "F"])})
    assert domain.histogram(frame).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([("F", 17, True), ("X", 17, True)], r"sex must be one of 'F', 'M', got 'X' at row 1"),
        ([("F", "17", True)], r"age must be one of 17, 18, 19, got '17' at row 0"),
        ([("F", 17)], "tuples of 3 levels"),
        ([{"sex": "F", "age": 17}], "without: vote"),
        (pd.DataFrame({"sex": ["F"]}), "without: age, vote"),
        ([(None, 17, True)], "sex must be one of"),
    ],
)
def test_bad_records_are_named(records, message):
    with pytest.raises(InvalidParameterError, match=message):
        Domain(LEVELS).histogram(records)


def test_bad_weights_are_refused():
    domain = Domain({"sex": ["F", "M"]})
    with pytest.raises(InvalidParameterError, match="weights must have 1 entries"):
        domain.histogram([("F",)], weights=[1, 2])
    with pytest.raises(InvalidParameterError, match="weights must not contain NaN"):
        domain.histogram([("F",)], weights=[np.nan])


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ({"sex": []}, "at least one level"),
        ({"sex": "FM"}, "sequence of levels"),
        ({"sex": 3}, "sequence of levels"),
        ({"sex": ["F", "F"]}, "distinct, got 'F' twice"),
        ({"age": [1, 1.0]}, "distinct"),
        ({"sex": ["F", SUMMED]}, "other than"),
        ({"sex": ["F", None]}, "missing"),
        ({"sex": ["F", float("nan")]}, "missing"),
        ({"sex": ["F", pd.NA]}, "missing"),
        ({"sex": ["F", pd.NaT]}, "missing"),
        ({"sex": [["F"]]}, "hashable"),
        ({3: ["F"]}, "names must be non-empty strings"),
        ({"": ["F"]}, "names must be non-empty strings"),
        ([("sex", ["F"])], "mapping"),
        ({str(k): [0] for k in range(63)}, "at most 62"),
    ],
)
def test_bad_levels_are_refused(levels, message):
    with pytest.raises(InvalidParameterError, match=message):
        Domain(levels)


def test_a_huge_domain_can_be_named_but_not_listed():
    domain = Domain({f"a{k}": range(10) for k in range(20)})
    assert domain.size == 10**20
    for call in (domain.cells, lambda: domain.histogram([])):
        with pytest.raises(InvalidParameterError, match="at most 268435456 cells"):
            call()


def test_equality_and_hash_go_by_order():
    domain = Domain(LEVELS)
    assert domain == Domain(LEVELS)
    assert hash(domain) == hash(Domain(LEVELS))
    assert domain != Domain(dict(reversed(LEVELS.items())))
    assert domain != Domain(LEVELS | {"sex": ["M", "F"]})
    assert domain != "domain"


def test_a_domain_cannot_be_changed():
    domain = Domain(LEVELS)
    domain.levels["sex"] = ()
    assert domain.levels["sex"] == ("F", "M")
    with pytest.raises(AttributeError):
        domain.attributes = ()


@settings(derandomize=True, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=3),
        st.lists(st.one_of(st.integers(), st.text(max_size=2), st.none(), st.floats()), max_size=4),
        max_size=3,
    )
)
def test_any_levels_give_a_domain_or_one_of_our_errors(levels):
    try:
        domain = Domain(levels)
    except DPInferError:
        return
    assert len(domain.cells()) == domain.size


def test_weights_that_add_up_beyond_the_floats_are_refused():
    domain = Domain({"sex": ["F", "M"]})
    assert domain.histogram([("F",), ("F",)], weights=[-1.5, 0.5]).tolist() == [-1.0, 0.0]
    with pytest.raises(InvalidParameterError, match="weights must add up to at most"):
        domain.histogram([("F",), ("F",)], weights=[1e308, 1e308])
