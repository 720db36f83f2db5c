import pickle
from contextlib import suppress

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpinfer.errors import DPInferError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms import Exact
from dpinfer.releases.census import (
    QueryMeasurements,
    census_codes,
    census_subtrees,
    read_census_measurements,
    read_census_rows,
)
from dpinfer.releases.census.geography import LEVELS, PL94_QUERIES, PUBLISHED_SUBTREES, file_shape


def raw_rows(root, kind="DPQuery"):
    """All rows of the files, read by pandas: level, unit and name to row."""
    found = {}
    for path in sorted(root.rglob(f"{kind}/**/*.parquet")):
        level = path.relative_to(root).parts[0].removesuffix(".parquet")
        for row in pq.ParquetFile(path).read().to_pylist():
            key = (level, row["geocode"], row["query_name"])
            assert key not in found
            found[key] = row
    return found


def test_every_row_is_read_as_it_stands(written):
    root = written[0]
    read = read_census_measurements(root)
    raw = raw_rows(root)
    seen = 0
    for name, query in read.queries.items():
        shape = [size for size in file_shape(PL94_QUERIES[name]) if size > 1]
        assert query.attributes == PL94_QUERIES[name]
        assert query.values.shape == (len(query), *shape)
        assert not query.values.flags.writeable
        for unit, values, variance in zip(query.units, query.values, query.variance, strict=True):
            level = read.levels[read.level[unit]]
            row = raw[level, read.labels[unit], name + "_dpq"]
            assert values.ravel().tolist() == row["value"]
            assert variance == row["variance"]
            seen += 1
    assert seen == len(raw)


def test_the_spine(written):
    root, codes, _ = written
    read = read_census_measurements(root, complete=True)
    lengths = {"State": 3, "County": 8, "Tract": 14, "Block_Group": 16, "Block": 32}
    assert read.levels == LEVELS
    assert read.labels[0] == "US"
    for number, label, parent in zip(read.level, read.labels, read.hierarchy.parent, strict=True):
        level = read.levels[number]
        if level in ("US", "State"):
            assert parent == (-1 if level == "US" else 0)
        else:
            above = read.levels[number - 1]
            assert read.labels[parent] == label[: lengths[above]]
    for level, length in lengths.items():
        expected = sorted({code[:length] for code in codes.tolist()})
        assert read.labels[read.at_level(level)].tolist() == expected
        assert census_codes(root, level).tolist() == expected
    assert len(read.hierarchy.not_exhausted) == 0
    assert census_subtrees(root) == ("001", "002", "102")
    # by default the subtrees are compared with those of the published files
    assert read_census_measurements(root).hierarchy.not_exhausted.tolist() == ["US"]
    assert len(PUBLISHED_SUBTREES) == len(set(PUBLISHED_SUBTREES))


def test_the_exact_constraints(written):
    root, codes, tables = written
    read = read_census_measurements(root)
    (total,) = read.exact
    assert read.labels[total.units].tolist() == ["US", "001"]
    first = np.char.startswith(codes, "001")
    assert total.values.tolist() == [tables.sum(), tables[first].sum()]
    assert total.mechanism.variance == 0
    everywhere, *quarters = read.zeros
    assert dict(everywhere.levels) == {"hhgq": "nursing", "votingage": "under-18"}
    assert everywhere.units is None
    zero = np.zeros((len(read), 8), dtype=bool)
    for one in quarters:
        zero[one.units, read.domain.levels["hhgq"].index(one.levels["hhgq"])] = True
    for unit, label in enumerate(read.labels):
        own = np.ones(len(codes), bool) if label == "US" else np.char.startswith(codes, label)
        nobody = tables[own].sum(axis=(0, 2, 3, 4)) == 0
        assert zero[unit].tolist() == [False, *nobody[1:].tolist()]  # households may be anywhere
    stated = raw_rows(root, "Constraint")
    assert sum(len(one.units) for one in read.constraints) == len(stated)
    for one in read.constraints:
        for unit, values in zip(one.units, one.values, strict=True):
            row = stated[read.levels[read.level[unit]], read.labels[unit], one.name]
            assert (row["sign"], row["value"]) == (one.sign, values.tolist())


def test_totals_of_states(written):
    root, codes, tables = written
    sums = {
        state: int(tables[[code[1:3] == state for code in codes]].sum()) for state in ("01", "02")
    }
    read = read_census_measurements(root, state_totals=pd.Series(sums), complete=True)
    assert read.levels == ("US", "Whole_State", *LEVELS[1:])
    (total,) = read.exact
    assert dict(zip(read.labels[total.units], total.values.tolist(), strict=True)) == {
        "US": tables.sum(),
        "02": sums["02"],
        "001": sums["01"],
    }
    parent = dict(zip(read.labels, read.hierarchy.parent, strict=True))
    at = read.labels.get_indexer(["US", "02"])
    assert [parent["001"], parent["002"], parent["102"], parent["02"]] == [
        at[0],
        at[1],
        at[1],
        at[0],
    ]
    # the totals of states that are not read are not used
    only = read_census_measurements(root, states="02", state_totals=sums | {"44": 3}, complete=True)
    assert [read.labels[0], only.labels[0]] == ["US", "02"]
    assert only.exact[0].values.tolist() == [sums["02"]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"states": "002"}, "read whole"),
        ({"states": "01", "complete": None}, "read whole"),  # part 101 was published
        ({"levels": "County"}, "read whole"),
        ({"prefix": "00110001"}, "read whole"),
        ({"state_totals": {"2": 3}}, "two digits"),
        ({"state_totals": {"02": -3}}, "must be >= 0"),
        ({"state_totals": {"02": 3.5}}, "whole number"),
        ({"state_totals": 3}, "must map states"),
    ],
)
def test_totals_that_do_not_fit(written, changes, message):
    arguments = {"state_totals": {"01": 2, "02": 3}, "complete": True} | changes
    with pytest.raises(InvalidParameterError, match=message):
        read_census_measurements(written[0], **arguments)


def test_totals_that_disagree(written):
    with pytest.raises(IncompatibleReleaseError, match=r"totals must agree, got 2 and .*'001'"):
        read_census_measurements(written[0], state_totals={"01": 2}, complete=True)


def test_a_subtree_is_read_without_the_others(copied, assert_same):
    whole = read_census_measurements(copied)
    for path in copied.rglob("State=0*/*.parquet"):
        path.write_bytes(b"broken")
    read = read_census_measurements(copied, states=["102"])
    assert read.levels == LEVELS[1:]
    assert all(label.startswith("102") for label in read.labels)
    assert read.hierarchy.parent[0] == -1
    assert_same(read, whole)
    with pytest.raises(IncompatibleReleaseError, match="must be a Parquet file"):
        read_census_measurements(copied, states="001")


@pytest.mark.parametrize("level", ["State", "County", "Block_Group"])
def test_reading_by_prefix(written, level, assert_same):
    root = written[0]
    whole = read_census_measurements(root)
    seen = []
    for code in census_codes(root, level):
        part = read_census_measurements(root, prefix=code)
        assert part.labels[0] == code
        assert part.hierarchy.parent[0] == -1
        assert all(part.labels.str.startswith(code))
        assert_same(part, whole)
        seen += part.labels[part.at_level("Block")].tolist()
    assert seen == whole.labels[whole.at_level("Block")].tolist()
    block = seen[7]
    assert read_census_measurements(root, prefix=block).labels.tolist() == [block]


@pytest.mark.parametrize("level", ["County", "Tract"])
def test_reading_from_a_first_to_a_last_unit(written, level, assert_same):
    root = written[0]
    whole = read_census_measurements(root)
    codes = census_codes(root, level).tolist()
    ends = codes[1], codes[-2]  # in different subtrees
    part = read_census_measurements(root, prefix=ends)
    size = len(ends[0])
    wanted = [
        label
        for label in whole.labels
        if label != "US" and len(label) >= size and ends[0] <= label[:size] <= ends[1]
    ]
    assert sorted(part.labels) == sorted(wanted)
    assert_same(part, whole)


def test_files_in_any_order_are_read_by_range(copied, written, assert_same):
    path = copied / "Block.parquet" / "DPQuery" / "State=001" / "part-00000.parquet"
    table = pq.read_table(path)
    order = np.random.default_rng(1).permutation(len(table))
    pq.write_table(table.take(order), path, row_group_size=7, write_statistics=False)
    county = census_codes(copied, "County")[0]
    part = read_census_measurements(copied, prefix=county)
    assert_same(part, read_census_measurements(written[0]))
    assert (
        part.labels.tolist() == read_census_measurements(written[0], prefix=county).labels.tolist()
    )


def test_only_row_groups_with_the_units_are_read(copied):
    path = copied / "Block.parquet" / "DPQuery" / "State=001" / "part-00000.parquet"
    table = pq.read_table(path)
    pq.write_table(table, path, row_group_size=11 * 4, compression="none")
    groups = pq.ParquetFile(path).metadata
    assert groups.num_row_groups > 3
    column = next(
        at for at in range(groups.num_columns) if groups.schema.column(at).path.startswith("value.")
    )
    first = groups.row_group(0).column(column)
    raw = bytearray(path.read_bytes())
    start = first.data_page_offset
    raw[start : start + first.total_compressed_size] = bytes(first.total_compressed_size)
    path.write_bytes(bytes(raw))
    last = table["geocode"][-1].as_py()
    part = read_census_measurements(copied, prefix=last[:16])
    assert last in part.labels
    with pytest.raises(IncompatibleReleaseError, match="must be a Parquet file"):
        read_census_measurements(copied, states="001")


def test_some_levels_and_queries(written, assert_same):
    root = written[0]
    whole = read_census_measurements(root)
    read = read_census_measurements(
        root, levels=["County", "US"], queries=["total", "hispanic * cenrace"]
    )
    assert read.levels == ("US", "County")
    assert list(read.queries) == ["total", "hispanic * cenrace"]
    assert set(read.hierarchy.parent[1:]) == {0}
    assert_same(read, whole)
    blocks = read_census_measurements(root, levels="Block", queries="detailed")
    assert (blocks.hierarchy.parent == -1).all()
    # the nation is measured although some states are not read
    part = read_census_measurements(root, states="001", levels=["US", "State"], complete=True)
    assert part.labels.tolist() == ["US", "001"]
    assert part.hierarchy.not_exhausted.tolist() == ["US"]


def test_results_are_read_only_and_can_be_pickled(written, assert_same):
    read = read_census_measurements(written[0], states="102")
    again = pickle.loads(pickle.dumps(read))
    assert_same(again, read)
    assert repr(again) == repr(read)
    assert "Tract" in repr(read)
    assert "total" in repr(read.queries["total"])
    assert "hhgq" in repr(read.constraints)
    assert not again.queries["total"].values.flags.writeable
    assert read.at_level("US").size == 0


def test_the_law_has_the_stated_variance(written):
    read = read_census_measurements(written[0])
    for query in read.queries.values():
        np.testing.assert_allclose(query.mechanism.variance, query.variance, rtol=1e-13)
        assert (query.mechanism.shape) == (len(query),)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"product": "dhc"}, "product must be one of"),
        ({"states": "44"}, "states must name subtrees of root, '001'"),
        ({"states": []}, "subtrees, at least one, got none"),
        ({"states": 1}, "states must be"),
        ({"states": [1]}, "states must name"),
        ({"levels": "Block_group"}, "levels must be one of"),
        ({"levels": ()}, "levels, at least one, got none"),
        ({"queries": "sex"}, "queries must be one of"),
        ({"queries": []}, "queries, at least one, got none"),
        ({"prefix": "0011%"}, "prefix must be"),
        ({"prefix": 3}, "prefix must be"),
        ({"prefix": ("001", 3)}, "prefix must be"),
        ({"prefix": ("001", "0021")}, "of the same length"),
        ({"prefix": ("002", "001")}, "of the same length"),
        ({"prefix": ("001",)}, "of the same length"),
        ({"prefix": "44"}, "got none with codes that begin with '44'"),
        ({"not_exhausted": ["044"]}, "must name units of the hierarchy, got '044'"),
        ({"not_exhausted": 3}, "not_exhausted must be"),
        ({"complete": 1}, "complete must be True or False"),
    ],
)
def test_bad_arguments(written, arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        read_census_measurements(written[0], **arguments)


def test_bad_roots(tmp_path, written):
    for root in (tmp_path, tmp_path / "no", written[0] / "State.parquet", 3, None):
        with pytest.raises(InvalidParameterError, match="root must be"):
            read_census_measurements(root)
    (tmp_path / "State.parquet" / "DPQuery" / "State=XY").mkdir(parents=True)
    with pytest.raises(InvalidParameterError, match="State=<0 or 1><two digits>"):
        census_subtrees(tmp_path)
    with pytest.raises(InvalidParameterError, match="level must be one of"):
        census_codes(written[0], "Prim")


odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(),
    st.text(max_size=4),
    st.binary(max_size=3),
    st.lists(st.one_of(st.text(max_size=3), st.integers(), st.none()), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    st.sampled_from(["001", "01", "US", "County", "total", object(), np.zeros((2, 2)), np.nan]),
)


@settings(
    derandomize=True,
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    name=st.sampled_from(
        [
            "product",
            "states",
            "levels",
            "queries",
            "prefix",
            "state_totals",
            "not_exhausted",
            "complete",
        ]
    ),
    value=odd,
)
def test_hostile_arguments(written, name, value):
    small = {"levels": ["US", "State"], "queries": "total", "states": "001"}
    for function in (read_census_measurements, read_census_rows):
        if function is read_census_rows and name in ("state_totals", "not_exhausted", "complete"):
            continue
        arguments = {"product": "pl94"} | small | {name: value}
        with suppress(DPInferError):
            found = function(written[0], **arguments)
            list(found.queries if function is read_census_measurements else found)


def test_arguments_of_codes_and_units_not_exhausted(written):
    root = written[0]
    with pytest.raises(InvalidParameterError, match="not_exhausted must name units by their codes"):
        read_census_measurements(root, not_exhausted=[3])
    assert census_codes(root, "US").tolist() == census_codes(root, "US", states="001").tolist()
    table = read_census_measurements(root, states="001").queries["total"]
    exact = QueryMeasurements("total", (), table.units, table.values, np.zeros(len(table.units)))
    assert exact.mechanism == Exact()
    some = np.where(np.arange(len(table.units)) % 2, table.variance, 0.0)
    mixed = QueryMeasurements("total", (), table.units, table.values, some).mechanism
    np.testing.assert_allclose(mixed.variance, some, rtol=1e-9)
