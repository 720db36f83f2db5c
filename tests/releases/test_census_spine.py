"""The units of census files level by level, without files."""

import numpy as np
import pytest

from dpinfer.errors import IncompatibleReleaseError
from dpinfer.releases.census.geography import Spine

CODES = {"US": [b"0"], "State": [b"001", b"002"], "County": [b"00110001", b"00210005"]}


def found(**changes):
    return {level: np.array(codes) for level, codes in (CODES | changes).items()}


def test_units_above_others_are_added():
    spine = Spine.of(found(State=[b"001"]))
    assert spine.sizes == [1, 2, 2]
    assert spine.names().tolist() == ["US", "001", "002", "00110001", "00210005"]
    assert spine.parents().tolist() == [-1, 0, 0, 1, 2]
    assert spine.positions("County", np.array([b"00210005"])).tolist() == [4]


def test_there_is_one_nation():
    with pytest.raises(IncompatibleReleaseError, match="the level US must have one unit, got"):
        Spine.of(found(US=[b"0", b"1"]))


def test_codes_grow_from_level_to_level():
    with pytest.raises(IncompatibleReleaseError, match="County must be longer than those of State"):
        Spine.of(found(County=[b"001"]))
