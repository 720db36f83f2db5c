"""The units of a subtree level by level, against the codes in its files counted one by one."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from dpinfer.errors import IncompatibleReleaseError
from dpinfer.releases.census import census_codes
from dpinfer.releases.census.reading import Inventory

LEVELS = ("State", "County", "Tract", "Block_Group", "Block")


def units(inventory, at):
    return np.char.decode(inventory.codes[at], "ascii").tolist()


def test_units_and_their_numbers(written):
    root = written[0]
    found = Inventory.read(root, "001", LEVELS)
    for at, level in enumerate(LEVELS):
        assert units(found, at) == census_codes(root, level, states="001").tolist()
        assert not len(found.lacking[at])
    blocks = units(found, 4)
    for at in range(4):
        wanted = [sum(block.startswith(code) for block in blocks) for code in units(found, at)]
        assert np.diff(found.firsts(at, 4)).tolist() == wanted
    # a county with its tracts, block groups and blocks
    below = [code for at in range(1, 5) for code in units(found, at)]
    wanted = [sum(one.startswith(county) for one in below) for county in units(found, 1)]
    assert found.counts(1, 4).tolist() == wanted
    found.refuse_lacking(1, 0, 2)


def test_units_that_only_those_below_have(copied):
    for kind in ("DPQuery", "Constraint"):
        for path in (copied / "Tract.parquet" / kind / "State=001").glob("*.parquet"):
            table = pq.read_table(path)
            first = min(table.column("geocode").to_pylist())
            kept = [code != first for code in table.column("geocode").to_pylist()]
            pq.write_table(table.filter(kept), path)
    found = Inventory.read(copied, "001", LEVELS)
    assert units(found, 2)[0] == first
    assert np.char.decode(found.lacking[2], "ascii").tolist() == [first]
    found.refuse_lacking(2, 1, 4)
    with pytest.raises(
        IncompatibleReleaseError, match=f"do not have '{first}': choose another cut"
    ):
        found.refuse_lacking(2, 0, 4)


def test_a_level_without_units_is_refused(copied):
    for path in (copied / "County.parquet").rglob("State=001/*.parquet"):
        path.unlink()
    with pytest.raises(IncompatibleReleaseError, match="level County must have units in the subt"):
        Inventory.read(copied, "001", LEVELS)
