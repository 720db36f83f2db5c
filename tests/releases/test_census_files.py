import shutil
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpinfer.errors import DPInferError, IncompatibleReleaseError
from dpinfer.releases.census import census_codes, read_census_measurements


def rewrite(root, level, change, state="001", kind="DPQuery"):
    """Replace a file by what ``change`` makes of its table."""
    path = root / f"{level}.parquet" / kind / f"State={state}" / "part-00000.parquet"
    pq.write_table(change(pq.ParquetFile(path).read()), path)
    return path


def test_units_without_measurements(copied):
    def without(table):
        geocode = table["geocode"].to_pylist()
        return table.filter(pa.array([code != geocode[0] for code in geocode]))

    whole = read_census_measurements(copied)
    for kind in ("DPQuery", "Constraint"):
        rewrite(copied, "Tract", without, kind=kind)
        rewrite(copied, "State", lambda table: table.slice(0, 0), kind=kind)
    read = read_census_measurements(copied)
    assert read.labels.equals(whole.labels)
    assert (read.hierarchy.parent == whole.hierarchy.parent).all()
    measured = read.labels[read.queries["detailed"].units]
    assert len(whole) - len(measured) == 2  # a state and a tract
    assert "001" in read.labels


def test_a_nation_with_an_empty_code_and_other_types(copied):
    path = copied / "US.parquet" / "DPQuery" / "part-00000.parquet"
    table = pq.ParquetFile(path).read()
    whole = read_census_measurements(copied)
    schema = pa.schema(
        [
            ("geocode", pa.large_string()),
            ("query_name", pa.dictionary(pa.int32(), pa.string())),
            ("query_shape", pa.list_(pa.int64())),
            ("value", pa.large_list(pa.int64())),
            ("variance", pa.float32()),
            ("hhgq", pa.string()),
        ]
    )
    columns = table.to_pydict() | {"geocode": [""] * len(table), "hhgq": ["*"] * len(table)}
    pq.write_table(pa.table({name: columns[name] for name in schema.names}, schema=schema), path)
    shutil.rmtree(copied / "US.parquet" / "Constraint")
    read = read_census_measurements(copied)
    assert read.labels.equals(whole.labels)
    for name, query in read.queries.items():
        np.testing.assert_array_equal(query.values, whole.queries[name].values)
        np.testing.assert_allclose(query.variance, whole.queries[name].variance, rtol=1e-7)


def test_several_files_and_further_folders(copied, assert_same):
    whole = read_census_measurements(copied)
    folder = copied / "Block.parquet" / "DPQuery" / "State=001"
    table = pq.ParquetFile(folder / "part-00000.parquet").read()
    (folder / "part-00000.parquet").unlink()
    (folder / "_SUCCESS").touch()
    for number, rows in enumerate(np.array_split(np.arange(len(table)), 3)):
        (folder / f"County={number}").mkdir()
        pq.write_table(table.take(rows), folder / f"County={number}" / "part.parquet")
    folder.rename(folder.with_name("State=1"))
    assert_same(read_census_measurements(copied), whole)


def changed(name, value, row=0):
    def change(table):
        column = table[name].to_pylist()
        column[row] = value
        at = table.schema.get_field_index(name)
        return table.set_column(at, name, pa.array(column, table.schema.field(name).type))

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed("query_name", "sex_dpq"), "names of queries must be .*'sex_dpq', unit '001.*part"),
        (changed("query_name", "total"), "with _dpq after it"),
        (changed("value", [3, 4]), r"part.* must have 1 values .*'total_dpq'.*got 2 in unit '001"),
        (changed("query_shape", [8, 1, 1, 1]), "must have 8 values in query 'total_dpq'.*'001"),
        (changed("query_shape", [1, 1, 1]), "query_shape.*'total_dpq'"),
        (changed("query_shape", []), "query_shape.*'total_dpq'"),
        (
            changed("variance", -2.0),
            r"part.*variances >= 0.*got -2 in query 'total_dpq', unit '001",
        ),
        (changed("variance", np.nan), "variances >= 0 and finite"),
        (changed("variance", None), "no missing values in variance, got one in unit '001"),
        (changed("value", [None]), "whole numbers as values"),
        (changed("geocode", "00210001"), r"part.*begin with '001', got '00210001'"),
        (changed("geocode", "0011000é"), "begin with '001'"),
        (
            changed("geocode", "001100010"),
            "County must have one length, got '001100010' in .* and '00110001' in query",
        ),
        (lambda table: table.drop_columns("variance"), r"missing are variance"),
        (lambda table: table.drop_columns(["value", "query_shape"]), "query_shape, value$"),
        (
            lambda table: pa.concat_tables([table, table.slice(1, 1)]),
            r"repeated is query 'cenrace' of unit '00110001' in .*part",
        ),
        (
            lambda table: table.set_column(
                table.schema.get_field_index("value"),
                "value",
                table["value"].cast(pa.list_(pa.float64())),
            ),
            "lists of whole numbers as value, .*double",
        ),
        (
            lambda table: table.set_column(
                table.schema.get_field_index("variance"),
                "variance",
                table["variance"].cast("string"),
            ),
            "numbers as variances",
        ),
    ],
)
def test_files_that_are_not_as_documented(copied, change, message):
    path = rewrite(copied, "County", change)
    with pytest.raises(IncompatibleReleaseError, match=message) as caught:
        read_census_measurements(copied)
    assert str(path) in str(caught.value)


def test_a_shape_that_all_rows_have_wrong(copied):
    def swap(table):
        column = [
            [1, 1, 1, 2] if name == "hispanic_dpq" else shape
            for name, shape in zip(
                table["query_name"].to_pylist(), table["query_shape"].to_pylist(), strict=True
            )
        ]
        return table.set_column(2, "query_shape", pa.array(column))

    rewrite(copied, "Block", swap)
    message = r"query_shape must be \[1, 1, 2, 1\], got \[1, 1, 1, 2\] in query 'hispanic_dpq'"
    with pytest.raises(IncompatibleReleaseError, match=message):
        read_census_measurements(copied)


def test_a_sign_that_is_none(copied):
    rewrite(copied, "County", changed("sign", "<"), kind="Constraint")
    with pytest.raises(IncompatibleReleaseError, match=r"sign must be one of .*got '<'"):
        read_census_measurements(copied)


def test_levels_in_the_wrong_order(copied):
    rewrite(copied, "Tract", changed("geocode", "001"), kind="DPQuery")
    with pytest.raises(IncompatibleReleaseError, match="Tract must have one length"):
        read_census_measurements(copied)
    shutil.rmtree(copied / "Tract.parquet")
    shutil.copytree(copied / "County.parquet", copied / "Tract.parquet")
    with pytest.raises(IncompatibleReleaseError, match="longer than those of County"):
        read_census_measurements(copied)


def test_missing_children(copied):
    shutil.rmtree(copied / "Block.parquet" / "DPQuery" / "State=102")
    shutil.rmtree(copied / "Block.parquet" / "Constraint" / "State=102")
    groups = census_codes(copied, "Block_Group", states="102").tolist()
    with pytest.raises(IncompatibleReleaseError, match=f"none have '{groups[0]}'.*not_exhausted"):
        read_census_measurements(copied)
    read = read_census_measurements(copied, not_exhausted=groups, complete=True)
    assert set(read.hierarchy.not_exhausted) == set(groups)


def test_bytes_at_random(copied):
    rng = np.random.default_rng(8)
    for kind in ("DPQuery", "Constraint"):
        path = copied / "County.parquet" / kind / "State=001" / "part-00000.parquet"
        intact = path.read_bytes()
        for _ in range(60):
            text = bytearray(intact)
            for at in rng.integers(0, len(text), 3):
                text[at] = rng.integers(0, 256)
            path.write_bytes(text)
            with suppress(DPInferError):
                read_census_measurements(copied, states="001", levels="County")
        path.write_bytes(intact)
