"""Parts of census files: cut so that each fits into memory, and together the whole."""

import shutil

import numpy as np
import pytest

from dpinfer.datasets import synthetic_population
from dpinfer.errors import DPInferError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.estimation import (
    NoisyMarginal,
    StructuralZeros,
    census_parts,
    combine_marginals,
    stream_marginals,
)
from dpinfer.releases.census import (
    census_codes,
    census_subtrees,
    read_census_measurements,
    write_census_measurements,
)

WANTED = [(), ("hhgq", "votingage")]
ZEROS = ("hhgq", "votingage")


def memory(units):
    """Bytes for so many units in a part: those of a worker without any, and of each unit."""
    return 460e6 + 45e3 * (units + 0.5)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Two states with two subtrees in the second, and single children measured at the parent."""
    population = synthetic_population(
        states=2, counties=2, tracts=2, block_groups=2, blocks=4, seed=5
    )
    codes = population.codes.copy()
    inside = np.flatnonzero(np.char.startswith(codes, "002"))[-6:]
    codes[inside] = [f"1{code[1:]}" for code in codes[inside].tolist()]
    order = np.argsort(codes)
    root = tmp_path_factory.mktemp("census") / "files"
    truth = codes[order], population.tables()[order]
    write_census_measurements(root, truth, rng=1, move_budget=True)
    return root


def combined(root, **options):
    """What the whole gives at once."""
    whole = read_census_measurements(root, **options)
    labels = whole.labels
    marginals = [
        NoisyMarginal(one.attributes, one.values, one.mechanism, labels[one.units])
        for one in [*whole.queries.values(), *whole.exact]
    ]
    zeros = [
        StructuralZeros(one.levels, None if one.units is None else labels[one.units].tolist())
        for one in whole.zeros
    ]
    schema = {"domain": whole.domain, "groupings": whole.groupings}
    return combine_marginals(marginals, whole.hierarchy, zeros=zeros, **schema), schema


@pytest.fixture(scope="module")
def whole(written):
    return combined(written)


def assert_as_in_memory(found, whole):
    for names in WANTED:
        for method in ("marginal", "marginal_variance"):
            expected = getattr(whole, method)(names)
            own = getattr(found, method)(names)
            assert sorted(own.index) == sorted(expected.index)
            size = 1e-10 * np.abs(expected.to_numpy()).max()
            np.testing.assert_allclose(own.loc[expected.index], expected, rtol=1e-9, atol=size)


def units_of(part):
    """The units of a part, and those that are its own."""
    hierarchy, marginals, _ = part.load()
    return list(hierarchy.labels), {unit for one in marginals for unit in one.units}


@pytest.mark.parametrize("most", [9, 40, 100_000])
def test_parts_fit_and_give_what_the_whole_gives(most, written, whole, tmp_path):
    fit, schema = whole
    parts = census_parts(written, memory=memory(most))
    depths = {name: 0 for name, one in parts.items() if one.parent is None}
    for name, one in parts.items():  # a part comes after the one above it
        labels, _ = units_of(one)
        assert len(labels) <= most
        if one.parent is not None:
            depths[name] = depths[one.parent] + 1
            above, measured = units_of(parts[one.parent])
            roots = [unit for unit in labels if unit in above]
            assert name == (roots[0] if len(roots) == 1 else f"{roots[0]}-{roots[-1]}")
            assert not measured.intersection(roots)
    assert (max(depths.values()) > 1) == (most < 40)
    assert (len(parts) == 1) == (most == 100_000)
    options = {"zero_attributes": ZEROS, "marginals_wanted": WANTED, **schema}
    assert_as_in_memory(stream_marginals(parts, tmp_path / "out", **options), fit)


def test_units_that_are_not_measured_are_parts_too(written, whole, tmp_path):
    fit, schema = whole
    parts = census_parts(written, cut="Tract")
    tracts = {unit[:14] for unit in fit.hierarchy.labels if len(unit) > 14}
    assert set(parts) == {"top", *tracts}
    assert tracts > set(census_codes(written, "Tract").tolist())
    options = {"zero_attributes": ZEROS, "marginals_wanted": WANTED, **schema}
    assert_as_in_memory(stream_marginals(parts, tmp_path / "out", **options), fit)


def test_a_state_with_its_total(written, tmp_path):
    options = {"states": "02", "state_totals": {"02": 1000}}
    fit, schema = combined(written, complete=True, **options)
    whole = dict.fromkeys(census_subtrees(written))
    assert len(whole) == 3
    parts = census_parts(written, memory=memory(20), **options)
    found = stream_marginals(
        parts, tmp_path / "out", zero_attributes=ZEROS, marginals_wanted=WANTED, **schema
    )
    assert found.marginal((), "top")["02"] == pytest.approx(1000.0, rel=1e-12)
    assert_as_in_memory(found, fit)


def test_units_that_are_in_no_file_of_their_level(written, tmp_path):
    root = tmp_path / "files"
    shutil.copytree(written, root)
    shutil.rmtree(root / "Tract.parquet" / "Constraint" / "State=001")
    with pytest.raises(IncompatibleReleaseError, match="Tract must have all units to cut"):
        census_parts(root, cut="Tract")
    assert census_parts(root, cut="County")
    shutil.rmtree(root / "Tract.parquet" / "DPQuery" / "State=001")
    with pytest.raises(IncompatibleReleaseError, match="Tract must have units in the subtree 001"):
        census_parts(root)


def test_bad_arguments(written, tmp_path):
    cases = [
        ({"cut": "Block"}, "cut must be one of"),
        ({"cut": 3}, "cut must be one of"),
        ({"memory": 1e6}, "memory must be larger"),
        ({"memory": memory(2)}, "memory must be at least"),
        ({"memory": memory(4)}, "memory must be at least .* for the unit 0"),
        ({"memory": float("nan")}, "memory"),
        ({"memory": "much"}, "memory"),
        ({"memory": -1.0}, "memory"),
        ({"states": "44"}, "states must name"),
    ]
    for options, match in cases:
        with pytest.raises(InvalidParameterError, match=match):
            census_parts(written, **options)
    shallow = tmp_path / "shallow"
    for level in ("US", "State", "County"):
        shutil.copytree(written / f"{level}.parquet", shallow / f"{level}.parquet")
    with pytest.raises(InvalidParameterError, match=r"above the lowest, .*, got 'County'"):
        census_parts(shallow, cut="County")
    shutil.copytree(written / "US.parquet", tmp_path / "US.parquet")
    for root in (3, written / "nowhere", tmp_path):
        with pytest.raises(DPInferError, match="root"):
            census_parts(root)


def test_queries_of_no_unit_of_a_part_are_left_out(written):
    parts = census_parts(written, states="02", memory=memory(9))
    seen = {name: [] for name in parts}
    for name, part in parts.items():
        hierarchy, found, _ = part.load()
        for one in found:
            assert set(hierarchy.labels).issuperset(one.units)
            assert len(one.values) == len(one.units) > 0
            seen[name].append(one.attributes)
    assert sum(map(bool, seen.values())) > 1
    assert [] in seen.values()  # all of whose units are measured in the part above
