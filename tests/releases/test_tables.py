import numpy as np
import pandas as pd
import pytest

from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms import Exact, Gaussian, Geometric, Laplace
from dpinfer.queries import Domain, Workload
from dpinfer.releases import Release

NOISE = Laplace(scale=2.0)
CELLS = pd.MultiIndex.from_product([["M", "F"], [1, 2, 3]], names=["sex", "mar"])
TABLE = pd.Series(np.arange(6.0), index=CELLS)
BY_SEX = pd.Series({"F": 12.0, "M": 3.0}).rename_axis("sex")
WIDE = pd.DataFrame(
    np.arange(6.0).reshape(2, 3),
    index=pd.Index(["M", "F"], name="sex"),
    columns=pd.Index([1, 2, 3], name="mar"),
)
DOMAIN = Domain({"sex": ["M", "F"], "mar": [1, 2, 3]})


def test_the_workload_follows_from_the_labels():
    release = Release.from_tables([TABLE, BY_SEX, 15], mechanism=NOISE)
    want = Workload.from_marginals(DOMAIN, [("sex", "mar"), ("sex",), ()])
    order = [0, 1, 2, 3, 4, 5, 7, 6, 8]  # the second table lists F before M
    np.testing.assert_array_equal(release.workload.matrix.toarray(), want.matrix.toarray()[order])
    assert release.labels.equals(want.labels[order])
    assert release.values.tolist() == [0, 1, 2, 3, 4, 5, 12, 3, 15]
    assert release.domain == DOMAIN


def test_a_table_may_be_a_series_a_frame_or_a_number():
    totals = (15.0, np.float64(15), pd.Series([15.0]), pd.Series({"all": 15.0}), np.array(15))
    want = Release.from_tables([TABLE, BY_SEX, 15], mechanism=NOISE, domain=DOMAIN).to_frame()
    for table in (TABLE, TABLE.to_frame(), TABLE.to_frame("count"), WIDE, WIDE.T):
        for total in totals:
            release = Release.from_tables(
                [table, BY_SEX.to_frame(), total], mechanism=NOISE, domain=DOMAIN
            )
            pd.testing.assert_frame_equal(release.to_frame().loc[want.index], want)


def test_order_of_rows_and_of_attributes_does_not_matter():
    want = Release.from_tables([TABLE, BY_SEX], mechanism=NOISE, domain=DOMAIN)
    shuffled = TABLE.reorder_levels(["mar", "sex"]).sample(frac=1, random_state=1)
    release = Release.from_tables([shuffled, BY_SEX], mechanism=NOISE, domain=DOMAIN)
    assert release.to_frame().loc[want.labels].equals(want.to_frame())
    at = release.labels.get_indexer(want.labels)
    difference = release.workload.matrix[at] != want.workload.matrix
    assert difference.nnz == 0


def test_a_complete_table_is_the_identity():
    release = Release.from_tables([TABLE], mechanism=NOISE)
    assert release.workload.is_identity
    assert release.domain == DOMAIN
    assert Release.from_tables([BY_SEX], mechanism=NOISE).labels.to_list() == ["F", "M"]


def test_missing_cells():
    part = TABLE.drop([("M", 2), ("F", 1)])
    release = Release.from_tables([part], mechanism=NOISE)
    assert release.workload.is_identity  # only published cells are unknowns
    assert release.workload.columns.equals(part.index)
    with_total = Release.from_tables([part, 15], mechanism=NOISE)
    assert with_total.workload.shape == (5, 6)
    assert with_total.workload.matrix.toarray()[-1].tolist() == [1] * 6
    given = Release.from_tables([part], mechanism=NOISE, domain=DOMAIN)
    assert given.workload.shape == (4, 6)
    wide = WIDE.copy()
    wide.loc["M", 2] = np.nan
    law = Laplace(scale=np.arange(1.0, 7))
    release = Release.from_tables([wide], mechanism=[law])
    assert len(release) == 5
    assert release.mechanism.scale.tolist() == [1, 3, 4, 5, 6]


def test_a_huge_sparse_table_does_not_list_its_domain():
    index = pd.MultiIndex.from_arrays(
        [np.arange(3000), np.arange(3000), np.arange(3000)], names=["a", "b", "c"]
    )
    release = Release.from_tables([pd.Series(1.0, index=index)], mechanism=NOISE)
    assert release.workload.shape == (3000, 3000)
    with pytest.raises(InvalidParameterError, match="at most"):
        Release.from_tables([pd.Series(1.0, index=index), 5], mechanism=NOISE)


def test_levels_in_order_of_categories():
    index = pd.CategoricalIndex(["b", "a"], categories=["a", "b", "c"], name="x")
    release = Release.from_tables([pd.Series([1.0, 2], index=index)], mechanism=NOISE)
    assert release.domain.levels == {"x": ("a", "b")}
    assert release.labels.to_list() == ["b", "a"]


def test_one_law_for_each_table_or_each_value():
    tables = [TABLE, BY_SEX, 15]
    laws = [Geometric(scale=1.0), Laplace(scale=[2.0, 3.0]), Exact()]
    release = Release.from_tables(tables, mechanism=laws)
    frame = release.to_frame()
    assert frame["mechanism"].tolist() == ["geometric"] * 6 + ["laplace"] * 2 + ["exact"]
    np.testing.assert_array_equal(frame["scale"], [1] * 6 + [2, 3, np.nan])
    same = Release.from_tables(tables, mechanism=[NOISE] * 3)
    assert same.mechanism == NOISE
    each = Release.from_tables(tables, mechanism=[Gaussian(sigma=k + 1.0) for k in range(9)])
    assert each.variance.tolist() == [(k + 1.0) ** 2 for k in range(9)]
    array = Release.from_tables(tables, mechanism=Gaussian(sigma=np.arange(1.0, 10)))
    assert array.variance.tolist() == each.variance.tolist()


@pytest.mark.parametrize(
    ("laws", "message"),
    [
        ([NOISE, NOISE], "each of the 3 tables or one for each of the 9 values, got 2"),
        ([NOISE, Laplace(scale=[1.0, 2, 3]), NOISE], "mechanism of table 1 .* 2 values"),
        ([NOISE, "laplace", NOISE], "mechanism of table 1"),
        ("laplace", "noise law"),
        (Laplace(scale=[1.0, 2]), "9 values"),
    ],
)
def test_bad_mechanisms(laws, message):
    with pytest.raises(InvalidParameterError, match=message):
        Release.from_tables([TABLE, BY_SEX, 15], mechanism=laws)


def test_duplicate_labels_are_named():
    repeated = pd.concat([TABLE, TABLE.iloc[[4]]])
    with pytest.raises(IncompatibleReleaseError, match=r"\('F', 2\) is published twice .* row 6"):
        Release.from_tables([repeated], mechanism=NOISE)
    with pytest.raises(IncompatibleReleaseError, match=r"\('M', '\*'\) is published twice"):
        Release.from_tables([TABLE, BY_SEX, BY_SEX.iloc[1:]], mechanism=NOISE)
    with pytest.raises(IncompatibleReleaseError, match="published twice"):
        Release.from_tables([TABLE, 15, 15], mechanism=NOISE)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ([], "list of Series"),
        (TABLE, "list of Series"),
        ([pd.Series({"M": 1.0, "F": 2.0})], "table 0 must have its index levels .* rename_axis"),
        ([TABLE, pd.DataFrame([[1.0, 2]])], "table 1 must have its index"),
        ([BY_SEX.where(BY_SEX > 5)], "table 0 must not contain NaN"),
        ([TABLE, "total"], "table 1 must hold real numbers"),
        ([TABLE, [1, 2]], "table 1 must be a number"),
        ([TABLE.astype(complex)], "complex"),
        ([TABLE.rename_axis(["sex", "sex"])], "name an attribute once"),
        ([pd.Series([], index=pd.Index([], name="a"), dtype=float)], "at least one value"),
    ],
)
def test_bad_tables(tables, message):
    with pytest.raises(InvalidParameterError, match=message):
        Release.from_tables(tables, mechanism=NOISE)


def test_tables_must_fit_a_given_domain():
    with pytest.raises(InvalidParameterError, match="among 'sex', 'mar', got 'age'"):
        Release.from_tables([TABLE.rename_axis(["sex", "age"])], mechanism=NOISE, domain=DOMAIN)
    small = Domain({"sex": ["M", "F"], "mar": [1, 2]})
    with pytest.raises(InvalidParameterError, match="mar must be one of 1, 2, got 3"):
        Release.from_tables([TABLE], mechanism=NOISE, domain=small)


def test_a_level_read_as_another_type_is_not_another_level():
    text = pd.Series({"1": 1.0, "2": 2.0, "3": 3.0}).rename_axis("mar")
    with pytest.raises(InvalidParameterError, match="levels of mar must be of one type, got 1 and"):
        Release.from_tables([TABLE, text], mechanism=NOISE)
    as_float = text.set_axis(pd.Index([1.0, 2.0, 3.0], name="mar"))
    assert Release.from_tables([TABLE, as_float], mechanism=NOISE).domain == DOMAIN


def test_only_totals():
    release = Release.from_tables([15], mechanism=NOISE)
    assert release.labels.to_list() == ["*"]
    assert release.workload.is_identity


def test_details_are_passed_on():
    release = Release.from_tables([BY_SEX], mechanism=NOISE, threshold=1, name="by sex")
    assert release.threshold == 1
    assert release.name == "by sex"
