import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpinfer.datasets import synthetic_population
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.releases.census import (
    read_census_measurements,
    read_census_rows,
    write_census_measurements,
)

COUNTY = "05010009"


def dhc_file(root, name, rows, subtree="050"):
    folder = root / "County.parquet" / "DPQuery" / f"State={subtree}" / f"County={COUNTY}"
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table(
        {
            "geocode": [row[0] for row in rows],
            "query_name": [row[1] for row in rows],
            "query_shape": [row[2] for row in rows],
            "value": [row[3] for row in rows],
            "variance": pa.array([row[4] for row in rows], pa.float32()),
            "sex": ["sex"] * len(rows),
        }
    )
    pq.write_table(table, folder / name)


@pytest.fixture
def dhc(tmp_path):
    dhc_file(
        tmp_path,
        "part-0.parquet",
        [
            (COUNTY, "hispanic * sex_dpq", [1, 2, 1, 2, 1], [460, 44, 450, 62], 32.258065),
            (COUNTY, "age_18_64_116 * sex_dpq", [1, 2, 3, 1, 1], [95, 3, -2, 1, 290, 19], 32.25),
            ("05010011", "hispanic * sex_dpq", [1, 2, 1, 2, 1], [1, 2, 3, 4], 64.5),
        ],
    )
    return tmp_path


def test_rows_of_other_schemas(dhc):
    rows = list(read_census_rows(dhc))
    assert [(row.level, row.unit, row.query) for row in rows] == [
        ("County", COUNTY, "hispanic * sex"),
        ("County", "05010011", "hispanic * sex"),
        ("County", COUNTY, "age_18_64_116 * sex"),
    ]
    first, second, third = rows
    assert first.attributes == ("relgq", "sex", "age", "hispanic", "cenrace")
    assert first.values.shape == (1, 2, 1, 2, 1)
    # sex and Hispanic origin in the order of the axes, not of the name
    assert first.values[0, 0, 0, :, 0].tolist() == [460, 44]
    assert third.values[0, 1, :, 0, 0].tolist() == [1, 290, 19]
    assert second.variance == 64.5
    assert abs(first.variance - 1000 / 31) < 1e-5
    assert not first.values.flags.writeable
    assert repr(first) == f"CensusRow(County {COUNTY}, 'hispanic * sex', 1 x 2 x 1 x 2 x 1)"


def test_some_rows(dhc):
    rows = list(read_census_rows(dhc, queries="hispanic * sex", prefix="05010011", states="50"))
    assert [row.values.ravel().tolist() for row in rows] == [[1, 2, 3, 4]]
    assert len(list(read_census_rows(dhc, queries=["hispanic * sex_dpq"], levels="County"))) == 2
    assert list(read_census_rows(dhc, queries="detailed")) == []


def test_rows_are_those_of_the_measurements(tmp_path):
    population = synthetic_population(counties=1, tracts=1, block_groups=2, blocks=2, seed=1)
    write_census_measurements(tmp_path / "new", population, rng=1)
    read = read_census_measurements(tmp_path / "new")
    count = 0
    for row in read_census_rows(tmp_path / "new", product="pl94"):
        query = read.queries[row.query]
        at = np.flatnonzero(read.labels[query.units] == row.unit)
        np.testing.assert_array_equal(row.values.squeeze(), query.values[at].squeeze())
        assert row.variance == query.variance[at]
        assert read.levels[read.level[query.units[at[0]]]] == row.level
        count += 1
    assert count == sum(len(query) for query in read.queries.values())
    with pytest.raises(IncompatibleReleaseError, match="query_shape of 5 numbers"):
        list(read_census_rows(tmp_path / "new", product="dhc"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((COUNTY, "sex_dpq", [1, 2, 1, 1, 1], [1, 2, 3], 1.0), "2 values in query 'sex_dpq'"),
        ((COUNTY, "sex_dpq", [1, 2, 1, 1], [1, 2], 1.0), "query_shape of 5 numbers.*'sex_dpq'"),
        ((COUNTY, "sex", [1, 2, 1, 1, 1], [1, 2], 1.0), "_dpq after them"),
        ((COUNTY, "sex_dpq", [1, -2, 1, 1, 1], [1, 2], 1.0), "numbers above 0"),
        ((COUNTY, "sex_dpq", [1, 2, 1, 1, 1], [1, 2], -1.0), "variances >= 0"),
        (("15010009", "sex_dpq", [1, 2, 1, 1, 1], [1, 2], 1.0), "begin with '050'"),
    ],
)
def test_files_that_are_not_as_documented(tmp_path, row, message):
    dhc_file(tmp_path, "part-0.parquet", [row])
    with pytest.raises(IncompatibleReleaseError, match=message) as caught:
        list(read_census_rows(tmp_path))
    assert "part-0.parquet" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"product": "sf1"}, "product must be one of"),
        ({"queries": 3}, "queries must be"),
        ({"queries": [None]}, "names of queries"),
        ({"queries": []}, "names of queries, at least one, got none"),
        ({"levels": "Prim"}, "levels must be one of"),
        ({"states": "51"}, "states must name"),
        ({"prefix": ""}, "prefix must be"),
    ],
)
def test_bad_arguments(dhc, arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        read_census_rows(dhc, **arguments)
