import csv
import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from dpinfer.datasets import synthetic_population
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import DiscreteGaussian
from dpinfer.privacy import BudgetAllocation
from dpinfer.releases.census import (
    PL94_PERSONS_ALLOCATION,
    block_geoid,
    read_census_measurements,
    spine_codes,
    write_census_measurements,
)
from dpinfer.releases.census.estimates import CHUNK
from dpinfer.releases.census.geography import INSTITUTIONAL, LEVELS, PL94_DOMAIN, PL94_QUERIES

DATA = os.environ.get("DPINFER_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="DPINFER_DATA is not set")

ONE = Fraction(1)
SMALL = BudgetAllocation(
    Fraction(3),
    {"State": ONE / 4, "Tract": ONE / 4, "Block": ONE / 2},
    {
        "State": {"total": ONE / 3, "detailed": ONE / 2},
        "Tract": {"detailed": ONE},
        "Block": {"hhinstlevels": ONE / 2, "votingage * cenrace": ONE / 2},
    },
)


def true_marginal(tables, query):
    """By a sum over groups of cells, another route than that of the writer."""
    letters = dict(zip(PL94_DOMAIN.attributes, "abcd", strict=True))
    if query == "hhinstlevels":
        groups = list(dict.fromkeys(INSTITUTIONAL))
        member = np.array([[one == group for one in INSTITUTIONAL] for group in groups])
        return np.einsum("nabcd,ga->ng", tables, member.astype(int))
    kept = "".join(letters[name] for name in PL94_QUERIES[query])
    return np.einsum(f"nabcd->n{kept}", tables)


def unit_tables(read, codes, tables):
    """The true table of each unit that was read."""
    found = np.zeros((len(read), *tables.shape[1:]), dtype=np.int64)
    for unit, label in enumerate(read.labels):
        own = slice(None) if label == "US" else np.char.startswith(codes, label)
        found[unit] = tables[own].sum(axis=0)
    return found


def check_noise(read, truth):
    """Noise has mean 0 and the stated variance; it is independent of the truth."""
    for name, query in read.queries.items():
        error = query.values - true_marginal(truth, name)[query.units]
        shape = (-1,) + (1,) * (error.ndim - 1)
        z = (error / np.sqrt(query.variance).reshape(shape)).ravel()
        # bounds of 6 standard deviations: passed by accident in all but 2e-9 of the cases each;
        # the mean of squares of few values is chi-squared rather than normal
        assert abs(z.mean()) < 6.0 / np.sqrt(z.size), name
        low, high = stats.chi2.ppf([1e-9, 1 - 1e-9], z.size) / z.size
        assert 0.98 * low < np.mean(z**2) < 1.02 * high, name


@pytest.fixture(scope="module")
def population():
    return synthetic_population(counties=2, tracts=3, block_groups=3, blocks=6, seed=2)


def test_the_production_run(tmp_path, population):
    write_census_measurements(tmp_path / "new", population, rng=11)
    read = read_census_measurements(tmp_path / "new", complete=True)
    truth = unit_tables(read, population.codes, population.tables())
    check_noise(read, truth)
    for query in read.queries.values():
        for level in read.levels:
            rho = PL94_PERSONS_ALLOCATION.query_rho(level, query.name)
            own = query.variance[read.level[query.units] == read.levels.index(level)]
            if rho:
                law = DiscreteGaussian(sigma=float(1 / rho) ** 0.5)
                assert len(own) == len(read.at_level(level))
                np.testing.assert_allclose(own, law.variance, rtol=1e-14)
            else:
                assert own.size == 0
    path = tmp_path / "new" / "Block.parquet" / "DPQuery" / "State=001" / "part-00000.parquet"
    rows = pq.read_table(path, partitioning=None).slice(0, 11).to_pylist()
    assert sum(Fraction(row["plb"]).limit_denominator(10**8) for row in rows) == Fraction(165, 4099)
    assert [row["query_name"] for row in rows] == [f"{name}_dpq" for name in PL94_QUERIES]


def test_budget_that_is_moved(tmp_path):
    population = synthetic_population(counties=2, tracts=2, block_groups=2, blocks=2, seed=7)
    noise = {}
    for move in (False, True):
        root = tmp_path / str(move)
        write_census_measurements(root, population, rng=4, move_budget=move)
        read = read_census_measurements(root, complete=True)
        check_noise(read, unit_tables(read, population.codes, population.tables()))
        spent = np.zeros((len(read), len(PL94_QUERIES)))
        for at, name in enumerate(PL94_QUERIES):
            query = read.queries[name]
            spent[query.units, at] = np.broadcast_to(1 / query.mechanism.sigma**2, (len(query),))
        # from the nation to a block, each path has the same budget for each query
        blocks = read.at_level("Block")
        path, total = blocks, spent[blocks]
        for _ in range(5):
            path = read.hierarchy.parent[path]
            total = total + spent[path]
        expected = [
            float(sum(PL94_PERSONS_ALLOCATION.query_rho(level, name) for level in read.levels))
            for name in PL94_QUERIES
        ]
        np.testing.assert_allclose(total, np.broadcast_to(expected, total.shape), rtol=1e-12)
        noise[move] = spent
        parent = read.hierarchy.parent
        alone = (np.bincount(parent[1:], minlength=len(read))[parent] == 1) & (parent >= 0)
        assert alone.any()
        assert not alone.all()
        assert (spent[alone].any(axis=1) != move).all()
        assert spent[~alone].any(axis=1).all()
    assert np.unique(noise[True][read.at_level("Tract"), 0]).size > 1


def test_levels_and_queries_of_an_allocation(tmp_path):
    population = synthetic_population(states=2, counties=1, tracts=2, seed=6)
    write_census_measurements(tmp_path / "new", population, allocation=SMALL, rng=5)
    read = read_census_measurements(tmp_path / "new")
    assert read.levels == ("State", "Tract", "Block")
    assert {name: len(query) for name, query in read.queries.items()} == {
        "total": 2,
        "votingage * cenrace": len(population),
        "hhinstlevels": len(population),
        "detailed": 2 + len(read.at_level("Tract")),
    }
    check_noise(read, unit_tables(read, population.codes, population.tables()))
    blocks = BudgetAllocation(ONE, {"Block": ONE}, {"Block": {"total": ONE}})
    write_census_measurements(tmp_path / "flat", population, allocation=blocks, rng=5)
    read = read_census_measurements(tmp_path / "flat")
    assert read.levels == ("Block",)
    check_noise(read, unit_tables(read, population.codes, population.tables()))


def same_files(first, second, folder="**"):
    paths = sorted(first.glob(f"*/*/{folder}/*.parquet"))
    assert paths
    for path in paths:
        other = second / path.relative_to(first)
        assert pq.read_table(path, partitioning=None).equals(
            pq.read_table(other, partitioning=None)
        )


def test_seeds_and_ways_to_give_the_truth(tmp_path):
    population = synthetic_population(states=2, counties=1, tracts=2, seed=6)
    tables = population.tables()
    asked = []

    def lazily(start, stop):
        asked.append(stop - start)
        return tables[start:stop].reshape(stop - start, -1).astype(float)

    ways = {
        "object": population,
        "array": (population.codes, tables.astype(np.uint16)),
        "list": (population.codes.tolist(), tables.reshape(len(tables), -1).tolist()),
        "function": (population.codes, lazily),
    }
    for name, truth in ways.items():
        write_census_measurements(tmp_path / name, truth, rng=7)
        same_files(tmp_path / "object", tmp_path / name)
    assert sum(asked) == len(tables)
    write_census_measurements(tmp_path / "generator", population, rng=np.random.default_rng(7))
    same_files(tmp_path / "object", tmp_path / "generator")
    # a state does not depend on the others
    second = np.char.startswith(population.codes, "002")
    alone = (population.codes[second], tables[second])
    write_census_measurements(tmp_path / "alone", alone, rng=7)
    same_files(tmp_path / "alone", tmp_path / "object", "State=002")
    write_census_measurements(tmp_path / "other", population, rng=8)
    with pytest.raises(AssertionError):
        same_files(tmp_path / "object", tmp_path / "other")


def test_many_blocks_are_written_in_chunks(tmp_path):
    size = 2 * CHUNK + 700
    blocks = [f"44007{at // 300 + 1:06d}{at // 90 % 9 + 1}{at % 300 + 1:03d}" for at in range(size)]
    codes = np.sort(spine_codes(blocks))
    tables = np.random.default_rng(3).poisson(0.02, (size, 8, 2, 2, 63))
    tables[:, 3, 0] = 0
    asked = []

    def lazily(start, stop):
        asked.append((start, stop))
        return tables[start:stop]

    few = BudgetAllocation(
        Fraction(50),
        dict.fromkeys(LEVELS, ONE / 6),
        {level: {"total": ONE / 2, "hhgq": ONE / 2} for level in LEVELS},
    )
    write_census_measurements(tmp_path / "new", (codes, lazily), allocation=few, rng=1)
    assert [start for start, _ in asked[1:]] == [stop for _, stop in asked[:-1]]
    assert len(asked) > 2
    assert max(stop - start for start, stop in asked) <= CHUNK
    read = read_census_measurements(tmp_path / "new", complete=True)
    assert len(read.at_level("Block")) == size
    check_noise(read, unit_tables(read, codes, tables))
    path = tmp_path / "new" / "Block.parquet" / "DPQuery" / "State=044" / "part-00000.parquet"
    assert pq.ParquetFile(path).num_row_groups == len(asked)
    path = tmp_path / "new" / "Block.parquet" / "Constraint" / "State=044" / "part-00000.parquet"
    assert pq.ParquetFile(path).num_row_groups > 1
    part = read_census_measurements(tmp_path / "new", prefix=read.labels[2])
    assert len(part) == len(read) - 2


@needs_data
def test_the_allocation_is_that_of_the_public_configuration():
    path = Path(DATA) / "census_2020_parameters" / "das_2020_query_variances.csv"
    with path.open() as file:
        rows = [row for row in csv.DictReader(file) if row["product"].startswith("PL94")]
    shares = PL94_PERSONS_ALLOCATION
    assert len(rows) == sum(len(queries) for queries in shares.queries.values())
    for row in rows:
        assert shares.levels[row["level"]] == Fraction(row["geolevel_prop"])
        assert shares.queries[row["level"]][row["query"]] == Fraction(row["query_prop"])
        sigma_sq = 1 / shares.query_rho(row["level"], row["query"])
        np.testing.assert_allclose(float(sigma_sq), float(row["sigma_sq"]), rtol=1e-14)
        law = DiscreteGaussian(sigma=float(sigma_sq) ** 0.5)
        np.testing.assert_allclose(law.variance, float(row["variance"]), rtol=1e-12)


def test_the_production_budget_is_spent_exactly():
    shares = PL94_PERSONS_ALLOCATION
    assert sum(shares.levels.values()) == 1
    assert all(sum(queries.values()) == 1 for queries in shares.queries.values())
    assert round(float(shares.rho), 2) == 2.56


def public_truth():
    """Blocks of a published prototype; all its cells over quarters by a seeded rule."""
    path = Path(DATA) / "ri_prototype" / "ri_truth_votingage_hispanic_cenrace_long.csv"
    races = {race: at for at, race in enumerate(PL94_DOMAIN.levels["cenrace"])}
    with path.open() as file:
        rows = [row for row in csv.DictReader(file) if row["level"].lower() == "block"]
    geoids = sorted({row["geoid"] for row in rows})
    place = {geoid: at for at, geoid in enumerate(geoids)}
    tables = np.zeros((len(geoids), 8, 2, 2, 63), dtype=np.int64)
    rng = np.random.default_rng(44)
    kind = rng.integers(1, 8, len(geoids))
    there = rng.random(len(geoids)) < 0.1
    for row in rows:
        block, age = place[row["geoid"]], int(row["votingage"])
        cell = (age, int(row["hispanic"]), races[row["cenrace"]])
        count = int(row["count"])
        inside = rng.binomial(count, 0.3) if there[block] and (age or kind[block] != 3) else 0
        tables[(block, kind[block], *cell)] += inside
        tables[(block, 0, *cell)] += count - inside
    return geoids, tables


@needs_data
def test_a_published_truth(tmp_path):
    geoids, tables = public_truth()
    codes = spine_codes(geoids)
    write_census_measurements(tmp_path / "new", (codes, tables), rng=2020)
    read = read_census_measurements(tmp_path / "new", complete=True)
    assert tables.sum() == 29225
    assert [len(read.at_level(level)) for level in read.levels][:4] == [1, 1, 1, 7]
    assert block_geoid(read.labels[read.at_level("Block")]).tolist() == geoids
    truth = unit_tables(read, codes, tables)
    check_noise(read, truth)
    assert {int(one.values[0]) for one in read.exact} == {29225}
    for one in read.zeros[1:]:
        level = read.domain.levels["hhgq"].index(one.levels["hhgq"])
        assert not truth[one.units, level].any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rho": 2.56}, "rho must be a Fraction or int above 0"),
        ({"rho": 0}, "rho must be"),
        ({"rho": True}, "rho must be"),
        ({"levels": [1]}, "levels must be a mapping"),
        ({"levels": {"State": ONE, "Tract": ONE / 10**9, "Block": ONE}}, "add up to at most 1"),
        ({"levels": {"State": ONE}}, "queries must have shares for the levels State"),
        ({"levels": {"State": 0.5}}, "levels, 'State', must be a Fraction"),
        ({"queries": 3}, "queries must have shares"),
        ({"queries": {"State": {}, "Tract": {}, "Block": 3}}, "queries of Block must be a mapping"),
        (
            {"queries": {"State": {}, "Tract": {}, "Block": {"a": ONE, "b": ONE / 10**20}}},
            "queries of Block must have shares that add up to at most 1, got 1000",
        ),
    ],
)
def test_allocations_that_are_none(changes, message):
    arguments = {"rho": SMALL.rho, "levels": SMALL.levels, "queries": SMALL.queries} | changes
    with pytest.raises(InvalidParameterError, match=message):
        BudgetAllocation(**arguments)


def test_an_allocation_of_unknown_names(tmp_path):
    for levels in ({"Block": {"sex": ONE}}, {"Prim": {"total": ONE}}):
        budget = BudgetAllocation(ONE, dict.fromkeys(levels, ONE), levels)
        with pytest.raises(InvalidParameterError, match="allocation must have levels among"):
            write_census_measurements(tmp_path / "x", ([], []), allocation=budget)
    nation = BudgetAllocation(ONE, {"US": ONE}, {"US": {"total": ONE}})
    with pytest.raises(InvalidParameterError, match="level below the nation"):
        write_census_measurements(tmp_path / "x", ([], []), allocation=nation)
    with pytest.raises(InvalidParameterError, match="allocation must be a BudgetAllocation"):
        write_census_measurements(tmp_path / "x", ([], []), allocation=2.56)


CODES = spine_codes(["440070001011000", "440070001011001"])
TABLES = np.zeros((2, 2016), dtype=int)


@pytest.mark.parametrize(
    ("truth", "message"),
    [
        (3, "truth must be a pair"),
        ((CODES,), "truth must be a pair"),
        ((CODES[::-1], TABLES), "sorted and each once.*at position 1"),
        ((CODES[[0, 0]], TABLES), "sorted and each once"),
        ((["044", "045"], TABLES), "codes of 32 digits"),
        (([CODES[0], "a" * 32], TABLES), "codes of 32 digits"),
        (([CODES[0], "2" * 32], TABLES), "begin with 0 or 1"),
        (([CODES[0], "é" * 32], TABLES), "text|digits"),
        ((3, TABLES), "list of codes"),
        (([], TABLES[:0]), "list of codes"),
        ((CODES, TABLES[:1]), "a table for each of the 2 codes"),
        ((CODES, 3), "a table for each of the 2 codes"),
        ((CODES, TABLES[:, 1:]), "truth must have tables of the shape"),
        ((CODES, TABLES - 1), "counts >= 0"),
        ((CODES, TABLES + 0.5), "whole numbers"),
        ((CODES, TABLES + np.nan), "NaN"),
        ((CODES, TABLES + 10**7), "at most 1073741824 persons"),
        ((CODES, TABLES + 1), "no minors in nursing facilities, got some in unit '0441000700"),
        ((CODES, lambda start, stop: None), "truth must"),
        ((CODES, lambda start, stop: TABLES.astype(str)), "real numbers"),
    ],
)
def test_a_truth_that_is_none(tmp_path, truth, message):
    with pytest.raises(InvalidParameterError, match=message):
        write_census_measurements(tmp_path / "new", truth, rng=1)


def test_places_that_are_not_empty(tmp_path):
    (tmp_path / "file").touch()
    for root in (tmp_path, tmp_path / "file", 3):
        with pytest.raises(InvalidParameterError, match="root must be"):
            write_census_measurements(root, (CODES, TABLES), rng=1)
    (tmp_path / "empty").mkdir()
    write_census_measurements(tmp_path / "empty", (CODES, TABLES), rng=1)
    assert len(read_census_measurements(tmp_path / "empty")) == 7


def test_codes():
    inside = spine_codes(["440070001011000"], inside=True)
    assert inside.tolist() == ["14410007000101014400700010111000"]
    assert block_geoid(inside).tolist() == ["440070001011000"]
    for bad in ("44", 3, "44007000101100a", None):
        with pytest.raises(InvalidParameterError, match="blocks must hold codes of 15 digits"):
            spine_codes([bad])
    with pytest.raises(InvalidParameterError, match="blocks must be a sequence"):
        spine_codes("440070001011000")
    with pytest.raises(InvalidParameterError, match="codes must hold codes of blocks"):
        block_geoid(["44"])
