"""Frames and series of other libraries give what those of pandas give."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from other_frames import arrow, polars

import dpinfer as dpi
from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.releases import from_scale_column

LONG = pd.DataFrame(
    {"sex": ["F", "F", "M", "M"], "age": [17, 18, 17, 18], "count": [12.5, 30.1, 11.0, 28.9]}
)
WIDE = pd.DataFrame({"sex": ["F", "M"], "no": [40.0, 55.0], "yes": [60.0, 30.0]})
LAPLACE = dpi.Laplace(scale=2.0)
GAUSSIAN = dpi.Gaussian(sigma=2.0)


def batch(frame):
    return arrow(frame).to_batches()[0]


def narwhals(frame):
    return pytest.importorskip("narwhals", reason="narwhals is not installed").from_native(
        arrow(frame), eager_only=True
    )


class Capsule:
    """A table of a library of which nothing else is known."""

    def __init__(self, table):
        self._table = table
        self.columns = table.column_names

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def capsule(frame):
    return Capsule(arrow(frame))


def relation(frame):
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    table = arrow(frame)
    return duckdb.connect().from_arrow(table)


FRAMES = [polars, arrow, batch, narwhals, capsule, relation]


@pytest.fixture(params=FRAMES, ids=lambda make: make.__name__)
def foreign(request):
    return request.param


def column(frame, name):
    """A column as a series of the library of a frame."""
    return frame[name] if hasattr(frame, "__getitem__") else None


def assert_same(release, other):
    pd.testing.assert_frame_equal(
        release.to_frame(), other.to_frame(), check_dtype=False, check_index_type=False
    )
    np.testing.assert_array_equal(
        release.workload.matrix.toarray(), other.workload.matrix.toarray()
    )


def test_pandas_and_arrays_stay_what_they_are():
    """Labels of pandas are kept, and nothing else gets any."""
    for value in (LONG["count"], LONG.set_index(["sex", "age"])["count"]):
        found = dpi.count_confint(value, mechanism=LAPLACE).estimate
        pd.testing.assert_series_equal(found, value, check_names=False)
    wide = dpi.count_confint(WIDE.set_index("sex"), mechanism=LAPLACE).estimate
    assert wide.to_list() == [40.0, 60.0, 55.0, 30.0]
    assert wide.index.to_list() == [("F", "no"), ("F", "yes"), ("M", "no"), ("M", "yes")]
    for value in (np.ones(3), [1.0], 3.0):
        assert isinstance(dpi.count_confint(value, mechanism=LAPLACE).lower, (np.ndarray, float))


def test_a_long_table_is_a_release(foreign):
    options = {"value": "count", "attributes": ["sex", "age"], "mechanism": LAPLACE}
    wanted = dpi.Release.from_frame(LONG, **options)
    assert_same(dpi.Release.from_frame(foreign(LONG), **options), wanted)


def test_a_reader_of_batches_is_a_table():
    reader = pa.RecordBatchReader.from_batches(arrow(LONG).schema, arrow(LONG).to_batches())
    options = {"value": "count", "attributes": ["sex", "age"], "mechanism": LAPLACE}
    assert_same(dpi.Release.from_frame(reader, **options), dpi.Release.from_frame(LONG, **options))


def test_a_column_holds_the_size_of_the_noise(foreign):
    frame = LONG.assign(sd=[1.0, 2.0, 0.0, 3.0])
    options = {"value": "count", "scale": "sd", "given": "std"}
    wanted = from_scale_column(frame, "gaussian", **options)
    assert_same(from_scale_column(foreign(frame), "gaussian", **options), wanted)


def test_overlapping_tables(foreign):
    by_age = LONG.groupby("age", as_index=False)["count"].sum()
    total = pd.DataFrame({"count": [80.0]})
    tables = [LONG.set_index(["sex", "age"])["count"], by_age.set_index("age")["count"], 80.0]
    wanted = dpi.Release.from_tables(tables, mechanism=LAPLACE)
    given = [foreign(LONG), foreign(by_age), foreign(total)]
    release = dpi.Release.from_tables(given, mechanism=LAPLACE)
    assert_same(release, wanted)
    pd.testing.assert_frame_equal(
        dpi.combine(release).summary_frame(), dpi.combine(wanted).summary_frame()
    )


def test_columns_without_numbers_are_labels(foreign):
    wanted = dpi.Release(WIDE.set_index("sex"), mechanism=GAUSSIAN)
    assert_same(dpi.Release(foreign(WIDE), mechanism=GAUSSIAN), wanted)
    one = dpi.Release(foreign(WIDE[["sex", "yes"]]), mechanism=GAUSSIAN)
    assert one.labels.to_list() == ["F", "M"]
    none = dpi.Release(foreign(WIDE[["yes"]]), mechanism=GAUSSIAN)
    assert none.labels is None


def test_intervals_and_tests_of_a_frame(foreign):
    wanted = dpi.count_confint(WIDE.set_index("sex"), mechanism=LAPLACE).summary_frame()
    found = dpi.count_confint(foreign(WIDE), mechanism=LAPLACE).summary_frame()
    pd.testing.assert_frame_equal(found, wanted, check_index_type=False)
    wanted = dpi.chi2_contingency(WIDE.set_index("sex"), mechanism=GAUSSIAN, rng=1)
    found = dpi.chi2_contingency(foreign(WIDE), mechanism=GAUSSIAN, rng=1)
    assert found.pvalue == wanted.pvalue
    assert found.expected_freq.index.to_list() == ["F", "M"]
    wanted = dpi.odds_ratio_confint(WIDE.set_index("sex"), mechanism=LAPLACE)
    found = dpi.odds_ratio_confint(foreign(WIDE), mechanism=LAPLACE)
    assert (found.lower, found.upper) == (wanted.lower, wanted.upper)


def test_series(foreign):
    frame = foreign(
        pd.DataFrame(
            {"n": [10, 20, 30], "t": [1.0, 2.0, 5.0], "p": [0.01, 0.2, 0.3], "k": ["a", "b", "c"]}
        )
    )
    counts, bounds, names = (column(frame, name) for name in "ntk")
    if foreign in (capsule, relation):
        pytest.skip("no series without a library")
    wanted = dpi.count_confint([10, 20, 30], mechanism=LAPLACE)
    found = dpi.count_confint(counts, mechanism=LAPLACE)
    np.testing.assert_array_equal(found.lower, wanted.lower)
    thresholded = dpi.count_confint(counts, mechanism=dpi.Geometric(scale=2.0), threshold=bounds)
    assert thresholded.lower.shape == (3,)
    release = dpi.Release(counts, mechanism=LAPLACE, labels=names, threshold=bounds)
    assert release.labels.to_list() == ["a", "b", "c"]
    assert release.select(names).values.tolist() == [10, 20, 30]
    assert dpi.linear_confint(counts, bounds, mechanism=LAPLACE).estimate == 10 + 40 + 150
    assert dpi.linear_ztest(counts, bounds, 200, mechanism=LAPLACE).pvalue == pytest.approx(1.0)
    assert dpi.adjust_pvalues(column(frame, "p")).reject.tolist() == [True, False, False]
    assert dpi.Release.draw(counts, mechanism=LAPLACE, rng=1).values.shape == (3,)
    assert dpi.Workload([[1, 1, 0]]).answer(counts).tolist() == [30]


def test_rows_of_weights_are_labelled(foreign):
    counts = pd.Series([10.0, 20.0], index=["x", "y"])
    weights = pd.DataFrame({"what": ["sum", "difference"], "x": [1, 1], "y": [1, -1]})
    wanted = dpi.linear_confint(
        counts, weights.set_index("what"), mechanism=LAPLACE
    ).summary_frame()
    found = dpi.linear_confint(counts, foreign(weights), mechanism=LAPLACE).summary_frame()
    pd.testing.assert_frame_equal(found, wanted, check_index_type=False)


def test_queries_and_hierarchies(foreign):
    domain = dpi.Domain({"sex": ["F", "M"], "age": [17, 18]})
    records = LONG[["sex", "age"]]
    assert domain.histogram(foreign(records)).tolist() == domain.histogram(records).tolist()
    places = pd.DataFrame({"state": ["A", "A", "B"], "county": ["a", "b", "c"]})
    wanted = dpi.Hierarchy.from_columns(places)
    assert dpi.Hierarchy.from_columns(foreign(places)).labels.to_list() == wanted.labels.to_list()


def test_a_mask_selects_values():
    release = dpi.Release([1.0, 2.0, 3.0], mechanism=LAPLACE)
    assert release.select(pa.array([True, False, True])).values.tolist() == [1, 3]
    assert release.select(pa.chunked_array([[2], [0]])).values.tolist() == [3, 1]


def test_kinds_of_columns():
    pl = pytest.importorskip("polars", reason="polars is not installed")
    frame = pl.DataFrame(
        {
            "level": pl.Series(["b", "a"], dtype=pl.Enum(["b", "a"])),
            "group": pl.Series(["x", "y"], dtype=pl.Categorical),
            "known": [True, False],
            "small": pl.Series([3, 4], dtype=pl.Int8),
            "exact": pl.Series(["1.5", "2.5"]).cast(pl.Decimal(10, 2)),
        }
    )
    with pytest.raises(InvalidParameterError, match=r"'small'.*look like labels"):
        dpi.count_confint(frame, mechanism=LAPLACE)
    labelled = dpi.with_labels(frame, ["level", "group", "known"])
    estimate = dpi.count_confint(labelled, mechanism=LAPLACE).estimate
    assert estimate.to_list() == [3, 1.5, 4, 2.5]
    assert estimate.index.names[:3] == ["level", "group", "known"]
    assert estimate.index.get_level_values(-1).to_list() == ["small", "exact"] * 2


@pytest.mark.thinned("foreign", "name", every=2)
@pytest.mark.parametrize("foreign", [pa.table, "polars"])
@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("year", [2019, 2020]),
        ("place", [12, 13]),
        ("place", [12, 20, 21, 40]),
        ("county_fips", [12011, 1001]),
        ("county", [12011, 1001]),
        ("census tract", [9502, 9501]),
        ("GEOID20", [12011, 1001]),
    ],
)
def test_whole_numbers_that_look_like_labels_are_no_values(foreign, name, labels):
    if foreign == "polars":
        foreign = pytest.importorskip("polars", reason="polars is not installed").DataFrame
    counts = [40, 21, 30, 22][: len(labels)]
    table = foreign({name: labels, "yes": counts, "no": counts[::-1]})
    long = foreign({"state": ["a"] * len(labels), name: labels, "count": counts})
    message = rf"must say which of its columns are labels, got the column '{name}'"
    for call in (
        lambda: dpi.chi2_contingency(table, mechanism=LAPLACE, reps=100, rng=1),
        lambda: dpi.count_confint(table, mechanism=LAPLACE),
        lambda: dpi.count_confint(long, mechanism=LAPLACE),
        lambda: dpi.Release(long, mechanism=LAPLACE),
        lambda: dpi.risk_ratio_confint(table, mechanism=LAPLACE),
    ):
        with pytest.raises(InvalidParameterError, match=message):
            call()
    test = dpi.chi2_contingency(dpi.with_labels(table, name), mechanism=LAPLACE, reps=100, rng=1)
    assert test.expected_freq.index.to_list() == labels
    found = dpi.count_confint(dpi.with_labels(long, ["state", name]), mechanism=LAPLACE).estimate
    assert found.to_dict() == {("a", label): n for label, n in zip(labels, counts, strict=True)}
    everything = dpi.count_confint(dpi.with_labels(table, []), mechanism=LAPLACE).estimate
    assert everything.to_list()[::3] == [float(label) for label in labels]


def test_columns_of_pandas_that_are_named_as_labels():
    table = pd.DataFrame({"year": [2020, 2019], "yes": [40, 21], "no": [21, 40]})
    with pytest.raises(InvalidParameterError, match=r"with_labels\(table, \['year'\]\)"):
        dpi.chi2_contingency(table, mechanism=LAPLACE)
    values = table.rename(columns={"year": "other"})
    assert dpi.count_confint(values, mechanism=LAPLACE).estimate.size == 6


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("a", "labels must be some of the columns"),
        (["k", "k"], "each once"),
        (3, "sequence"),
        (["k", "n"], "must be some of"),
        ([["k"]], "must be some of"),
    ],
)
def test_labels_that_a_table_does_not_have(labels, message):
    with pytest.raises(InvalidParameterError, match=message):
        dpi.with_labels(pa.table({"k": [1, 2], "n": [3, 4]}), labels)
    with pytest.raises(InvalidParameterError, match="table must be a table"):
        dpi.with_labels([1, 2], "k")


def test_parameters_of_laws_with_labels_are_not_taken_by_position():
    counts = pd.Series([5.0, 9.0], index=["x", "y"])
    scale = pd.Series([1.0, 10.0], index=["y", "x"])
    for make in (
        lambda: dpi.Laplace(scale=scale),
        lambda: dpi.Laplace.from_epsilon(scale),
        lambda: dpi.Gaussian(sigma=scale.rename_axis("k")),
        lambda: dpi.Gaussian.from_epsilon_delta(1.0, scale / 100),
        lambda: dpi.Tulap(scale=1.0, truncation=scale / 100),
        lambda: dpi.Release.from_frame(
            counts.rename("n").to_frame(),
            value="n",
            mechanism={"mechanism": "laplace", "scale": scale},
        ),
    ):
        with pytest.raises(InvalidParameterError, match="labels, which would not be compared"):
            make()
    ordered = dpi.Laplace(scale=scale.reindex(counts.index).to_numpy())
    assert (dpi.count_confint(counts, mechanism=ordered).width.round(2) == [59.91, 5.99]).all()
    plain = dpi.Laplace(scale=pd.Series([1.0, 2.0]))
    assert plain.scale.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda pl, frame: dpi.count_confint(pl.Series([1, None]), mechanism=LAPLACE), "NaN"),
        (
            lambda pl, frame: dpi.count_confint(pl.Series(["a"]), mechanism=LAPLACE),
            "must hold real",
        ),
        (
            lambda pl, frame: dpi.count_confint(pl.DataFrame(), mechanism=LAPLACE),
            "at least one value",
        ),
        (lambda pl, frame: dpi.count_confint(frame.lazy(), mechanism=LAPLACE), "call its collect"),
        (lambda pl, frame: from_table(frame.lazy()), "call its collect"),
        (lambda pl, frame: from_table(frame["count"]), "DataFrame of pandas, polars"),
        (lambda pl, frame: from_table(frame.select("sex")), "column 'count'"),
        (
            lambda pl, frame: dpi.Release.from_tables([frame["count"]], mechanism=LAPLACE),
            "named after attributes",
        ),
    ],
)
def test_bad_input(call, message):
    pl = pytest.importorskip("polars", reason="polars is not installed")
    with pytest.raises(InvalidParameterError, match=message):
        call(pl, polars(LONG))


def from_table(frame):
    return dpi.Release.from_frame(frame, value="count", mechanism=LAPLACE)


class Broken:
    columns = ("a",)

    def __arrow_c_stream__(self, requested_schema=None):
        raise RuntimeError("no stream")


def test_a_library_that_fails_is_named():
    for call in (
        lambda: dpi.count_confint(Broken(), mechanism=LAPLACE),
        lambda: from_table(Broken()),
        lambda: dpi.Release.from_tables([Broken()], mechanism=LAPLACE),
    ):
        with pytest.raises(InvalidParameterError, match="Broken: no stream"):
            call()


CELLS = st.one_of(st.none(), st.booleans(), st.floats(), st.text(max_size=2))


@pytest.mark.filterwarnings(
    "ignore::dpinfer.errors.ApproximationWarning"
)  # small tables do not decide
@settings(derandomize=True, deadline=None, max_examples=25)
@given(st.dictionaries(st.text(max_size=2), st.lists(CELLS, min_size=2, max_size=2), max_size=3))
def test_only_errors_of_the_library_escape(columns):
    try:
        table = pa.table(columns)
    except (pa.ArrowException, TypeError):  # columns of mixed types
        return
    for call in (
        lambda: dpi.count_confint(table, mechanism=LAPLACE),
        lambda: dpi.Release(table, mechanism=LAPLACE),
        lambda: dpi.Release.from_tables([table], mechanism=LAPLACE),
        lambda: dpi.Release.from_frame(table, value="a", mechanism=LAPLACE),
        lambda: dpi.chi2_contingency(table, mechanism=GAUSSIAN, rng=1, reps=200),
    ):
        try:
            call()
        except DPInferError:
            continue


def test_series_of_totals_and_bins_keep_to_their_labels():
    swapped = ["b", "a"]
    table = pd.DataFrame([[10.2, 20.1], [30.1, 15.3]], index=["a", "b"])
    for function in (dpi.risk_difference_confint, dpi.risk_ratio_confint, dpi.odds_ratio_confint):
        with pytest.raises(InvalidParameterError, match="row_totals must have the labels of"):
            function(table, mechanism=LAPLACE, row_totals=pd.Series([45, 30], index=swapped))
        ours = function(table, mechanism=LAPLACE, row_totals=pd.Series([30, 45], index=["a", "b"]))
        assert ours.lower == function(table, mechanism=LAPLACE, row_totals=[30, 45]).lower
    counts = pd.Series([10.2, 20.3], index=["a", "b"])
    with pytest.raises(InvalidParameterError, match="bin_size must have the labels of"):
        dpi.count_confint(counts, mechanism=LAPLACE, bin_size=pd.Series([1, 8], index=swapped))
    ours = dpi.count_confint(
        counts, mechanism=LAPLACE, bin_size=pd.Series([1, 8], index=["a", "b"])
    )
    assert (
        ours.upper.to_list()
        == dpi.count_confint(counts, mechanism=LAPLACE, bin_size=[1, 8]).upper.to_list()
    )


def test_rows_of_a_workload_keep_to_the_labels_of_the_values():
    counts = pd.Series([10.2, 20.3], index=["a", "b"])
    queries = pd.DataFrame([[1, 0], [1, 1]], index=["a", "b"])
    assert dpi.Release(counts, workload=queries, mechanism=LAPLACE).labels.to_list() == ["a", "b"]
    with pytest.raises(InvalidParameterError, match="workload must have the labels of the values"):
        dpi.Release(counts, workload=queries.set_axis(["b", "a"]), mechanism=LAPLACE)


class TestArraysOfXarray:
    """Dimensions name the levels of labels, which are the coordinates."""

    @property
    def table(self):
        xr = pytest.importorskip("xarray", reason="xarray is not installed")
        return xr.DataArray(
            [[40.5, 60.0, 7.0], [55.0, 30.0, 9.0]],
            coords={"sex": ["F", "M"], "age": [17, 18, 19]},
            dims=["sex", "age"],
            name="count",
        )

    @property
    def series(self):
        return self.table.to_series()

    def test_values_have_the_labels_of_their_cells(self):
        found = dpi.count_confint(self.table, mechanism=LAPLACE).summary_frame()
        wanted = dpi.count_confint(self.series, mechanism=LAPLACE).summary_frame()
        pd.testing.assert_frame_equal(found, wanted)
        cube = self.table.expand_dims(year=[2020, 2021])
        found = dpi.count_confint(cube, mechanism=LAPLACE).estimate
        assert found.index.names == ["year", "sex", "age"]
        assert found.loc[2021, "M", 18] == 30.0

    def test_results_go_back(self):
        frame = dpi.count_confint(self.table, mechanism=LAPLACE).summary_frame()
        back = frame.to_xarray()["estimate"].sel(sex=self.table["sex"])
        assert back.equals(self.table.rename("estimate"))

    def test_the_law_of_each_value_by_label(self):
        scale = self.table.isel(sex=[1, 0]) / 10
        found = dpi.count_confint(self.table, mechanism={"laplace": scale})
        plain = dpi.Laplace(scale=self.table.to_numpy().ravel() / 10)
        wanted = dpi.count_confint(self.table.to_numpy().ravel(), mechanism=plain)
        np.testing.assert_allclose(found.lower, wanted.lower, rtol=1e-14)

    def test_overlapping_tables(self):
        arrays = [self.table, self.table.sum("age"), self.table.sum()]
        frames = [self.series, self.series.groupby("sex").sum(), float(self.series.sum())]
        release = dpi.Release.from_tables(arrays, mechanism=LAPLACE)
        assert_same(release, dpi.Release.from_tables(frames, mechanism=LAPLACE))

    def test_two_ways(self):
        test = dpi.chi2_contingency(self.table, mechanism=GAUSSIAN, rng=1)
        assert test.expected_freq.index.names == ["sex"]
        wanted = dpi.chi2_contingency(self.table.to_pandas(), mechanism=GAUSSIAN, rng=1)
        assert test.pvalue == wanted.pvalue

    def test_a_geography(self):
        xr = pytest.importorskip("xarray", reason="xarray is not installed")
        units = dpi.Hierarchy.from_codes(["4", "44", "45"])
        values = xr.DataArray([31.0, 101.0, 72.0], coords={"unit": ["45", "4", "44"]}, dims="unit")
        found = dpi.combine_hierarchy(values, units, mechanism=LAPLACE)
        wanted = dpi.combine_hierarchy(values.to_series(), units, mechanism=LAPLACE)
        assert found.params.to_dict() == wanted.params.to_dict()
        by_sex = values.expand_dims(sex=["F", "M"], axis=1)
        marginals = [
            dpi.estimation.NoisyMarginal("sex", table, GAUSSIAN)
            for table in (by_sex, by_sex.to_pandas())
        ]
        domain = dpi.Domain({"sex": ["F", "M"]})
        one, other = (dpi.combine_marginals(m, units, domain=domain) for m in marginals)
        np.testing.assert_array_equal(one.marginal("sex"), other.marginal("sex"))

    def test_data_sets_have_several_arrays(self):
        with pytest.raises(InvalidParameterError, match="count must"):
            dpi.count_confint(self.table.to_dataset(), mechanism=LAPLACE)


def test_labels_of_nullable_types():
    kinds = {"sex": ["string", "category", "str"], "age": ["Int64", "Int8", "category"]}
    index = pd.MultiIndex.from_frame(LONG[["sex", "age"]])
    series = pd.Series(LONG["count"].to_numpy(), index=index)
    total = series.groupby("sex").sum()
    wanted = dpi.combine(dpi.Release.from_tables([series, total], mechanism=LAPLACE))
    for sex, age in zip(kinds["sex"], kinds["age"], strict=True):
        typed = LONG.astype({"sex": sex, "age": age, "count": "Float64"})
        own = typed.set_index(["sex", "age"])["count"]
        release = dpi.Release.from_tables([own, total], mechanism=LAPLACE)
        found = dpi.combine(release)
        assert found.params.to_list() == wanted.params.to_list()
        assert found.params.index.to_list() == wanted.params.index.to_list()
        framed = dpi.Release.from_frame(
            typed, value="count", attributes=["sex", "age"], mechanism=LAPLACE
        )
        assert framed.values.tolist() == series.tolist()


class TestMissingValues:
    VALUES = pd.Series([4.5, None, 9.25, None, 30.5], list("abcde"), dtype="Float64")

    @pytest.mark.parametrize("dtype", ["Float64", "float64", "object"])
    def test_they_are_named(self, dtype):
        values = self.VALUES.astype(dtype)
        message = r"NaN at position 1 \('b'\), 3 \('d'\): leave missing .* missing='drop'"
        for call in (dpi.count_confint, dpi.noisy, dpi.Release):
            with pytest.raises(InvalidParameterError, match=message):
                call(values, mechanism=LAPLACE)
        frame = values.rename("n").rename_axis("k").reset_index()
        with pytest.raises(InvalidParameterError, match=r"n must not contain NaN at position 1, 3"):
            dpi.Release.from_frame(frame, value="n", attributes="k", mechanism=LAPLACE)

    def test_arrays_and_lists(self):
        for values in ([1.5, None], [1.5, np.nan], np.array([1.5, np.nan]), pd.array([1.5, None])):
            with pytest.raises(InvalidParameterError, match=r"(NaN|got None) at position 1: leave"):
                dpi.count_confint(values, mechanism=LAPLACE)
            assert dpi.noisy(values, mechanism=LAPLACE, missing="drop").values.tolist() == [1.5]
        with pytest.raises(InvalidParameterError, match="missing must be one of"):
            dpi.noisy([1.5], mechanism=LAPLACE, missing="ignore")
        for nothing in ([np.nan], np.nan):
            with pytest.raises(InvalidParameterError, match="must not contain NaN"):
                dpi.noisy(nothing, mechanism=LAPLACE, missing="drop")

    @pytest.mark.parametrize(
        "mechanism",
        [
            dpi.Laplace(scale=[1.0, 2.0, 3.0, 4.0, 5.0]),
            [dpi.Laplace(scale=float(scale)) for scale in range(1, 6)],
            {"laplace": [1.0, 2.0, 3.0, 4.0, 5.0]},
            {"laplace": pd.Series([5.0, 1.0, 2.0, 3.0, 4.0], list("eabcd"))},
        ],
        ids=["law", "laws", "mapping", "labels"],
    )
    def test_what_is_given_for_each_value_is_dropped_with_it(self, mechanism):
        bounds = pd.Series([-1.0, -2.0, -3.0, -4.0, -5.0], list("abcde"))
        rule = {"threshold": bounds, "clamp": (-9.0, [40.0, 41.0, 42.0, 43.0, 44.0])}
        x = dpi.noisy(self.VALUES, mechanism=mechanism, missing="drop", **rule)
        kept = dpi.noisy(
            self.VALUES.dropna(),
            mechanism=dpi.Laplace(scale=[1.0, 3.0, 5.0]),
            threshold=[-1.0, -3.0, -5.0],
            clamp=(-9.0, [40.0, 42.0, 44.0]),
        )
        pd.testing.assert_frame_equal(
            dpi.count_confint(x).summary_frame(), dpi.count_confint(kept).summary_frame()
        )

    def test_weights_and_covariances(self):
        rng = np.random.default_rng(2)
        weights = rng.normal(size=(5, 5))
        law = dpi.Laplace(scale=[1.0, 2.0, 3.0, 4.0, 5.0])  # of five other noises
        whole = weights @ np.diag(law.variance) @ weights.T
        at = np.ix_([0, 2, 4], [0, 2, 4])
        x = dpi.noisy(self.VALUES, weights=weights, mechanism=law, missing="drop")
        np.testing.assert_allclose(x.cov(), whole[at], rtol=1e-13)
        labels = self.VALUES.index
        for covariance in (whole, pd.DataFrame(whole, labels, labels)):
            x = dpi.noisy(self.VALUES, covariance=covariance, missing="drop")
            np.testing.assert_allclose(x.cov(), whole[at], rtol=1e-12)

    def test_releases(self):
        matrix = np.array([[1, 0], [1, 1], [0, 1], [1, 2], [2, 1]])
        for queries in (matrix, dpi.Workload(matrix)):
            release = dpi.Release(self.VALUES, workload=queries, mechanism=LAPLACE, missing="drop")
            assert np.asarray(release.workload.matrix).tolist() == [[1, 0], [0, 1], [2, 1]]
            assert release.labels.to_list() == ["a", "c", "e"]
        frame = self.VALUES.rename("n").rename_axis("k").reset_index().assign(s=range(1, 6))
        release = dpi.Release.from_frame(
            frame,
            value="n",
            attributes="k",
            mechanism={"mechanism": "laplace", "scale": {"column": "s"}},
            threshold=[0.5, 1.0, 1.5, 2.0, 2.5],
            missing="drop",
        )
        assert release.mechanism.scale.tolist() == [1.0, 3.0, 5.0]
        assert release.threshold.tolist() == [0.5, 1.5, 2.5]
