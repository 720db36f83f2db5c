"""Constraints of noisy measurement files, and what they say exactly."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from dpinfer._validation import check_integer, show, show_some
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.queries import Hierarchy
from dpinfer.releases.census import layout
from dpinfer.releases.census.columns import FileRows
from dpinfer.releases.census.measurements import CensusConstraint, KnownZeros, QueryMeasurements
from dpinfer.releases.census.ranges import CodeRange
from dpinfer.releases.census.spine import Spine

TOTALS = ("total_con", "pl94_con")
"""Constraints that state the total of a unit, where they hold one number."""

QUARTERS_BOUND = "hhgq_total_ub_con"
"""The most persons that can live in each type of quarters: 0 where there is no such facility."""

SIGNS = ("=", "<=", ">=")

Total = tuple[str, int, str]
"""The two digits of a state, its total, and the unit that has it."""


def whole_states(
    totals: Any,
    subtrees: tuple[str, ...],
    there: tuple[str, ...],
    levels: tuple[str, ...],
    among: CodeRange,
) -> list[Total]:
    """Return the known totals of the states that are read, with the units that they belong to.

    That is the one subtree of a state, or a unit above both.
    """
    if totals is None:
        return []
    given = totals.to_dict() if hasattr(totals, "to_dict") else totals
    if not isinstance(given, Mapping):
        raise InvalidParameterError(
            f"state_totals must map states by their two digits to totals, got {show(totals)}"
        )
    found = []
    for state, total in given.items():
        if not isinstance(state, str) or len(state) != 2 or not state.isdecimal():
            raise InvalidParameterError(
                f"state_totals must name states by their two digits, such as '44', got "
                f"{show(state)}"
            )
        number = check_integer(total, "state_totals", ge=0)
        read = [code for code in subtrees if code[1:] == state]
        parts = [code for code in there if code[1:] == state]
        if not read:
            continue
        if read != parts or "State" not in levels or len(among.first) > 3:
            raise InvalidParameterError(
                f"state_totals must be of states that are read whole, with the level State, got "
                f"{show(state)}, of which there are the subtrees {show_some(parts)}: read all of "
                "them, leave its total out, or say complete=True where others do not exist"
            )
        found.append((state, number, parts[0] if len(parts) == 1 else state))
    return found


def constraints_of(
    rows_by_level: Mapping[str, list[FileRows]], spine: Spine
) -> tuple[CensusConstraint, ...]:
    """Put the rows of each constraint together."""
    kinds: dict[tuple[str, str, tuple[int, ...]], list[tuple[str, FileRows]]] = {}
    for level, rows in rows_by_level.items():
        for one in rows:
            if one.sign not in SIGNS:
                raise IncompatibleReleaseError(
                    f"sign must be one of {', '.join(SIGNS)}, got {show(one.sign)} in "
                    f"{show(one.name)}, unit {one.codes[0].decode()!r} of {one.path}"
                )
            kinds.setdefault((one.name, one.sign, one.shape), []).append((level, one))
    found = []
    for (name, sign, shape), own in kinds.items():
        units = np.concatenate([spine.positions(level, one.codes) for level, one in own])
        values = np.concatenate([one.values for _, one in own])
        units.flags.writeable = values.flags.writeable = False
        found.append(CensusConstraint(name, sign, shape, units, values))
    return tuple(found)


def exact_totals(
    constraints: tuple[CensusConstraint, ...],
    totals: list[Total],
    spine: Spine,
    hierarchy: Hierarchy,
) -> tuple[QueryMeasurements, ...]:
    """Return the totals that are known without noise, each unit once; none give an empty tuple."""
    stated = [
        one
        for one in constraints
        if one.name in TOTALS and one.sign == "=" and prod(one.shape) == 1
    ]
    own = hierarchy.positions([unit for _, _, unit in totals]) if totals else np.empty(0, np.intp)
    units = np.concatenate([own, *(one.units for one in stated)])
    numbers = np.array([number for _, number, _ in totals], dtype=np.int64)
    values = np.concatenate([numbers, *(one.values[:, 0] for one in stated)])
    if not units.size:
        return ()
    found, first, number = np.unique(units, return_index=True, return_inverse=True)
    different = values != values[first][number]
    if different.any():
        at = int(np.argmax(different))
        raise IncompatibleReleaseError(
            f"totals must agree, got {values[first][number[at]]} and {values[at]} for unit "
            f"{spine.names()[units[at]]!r}"
        )
    total = values[first]
    variance = np.zeros(len(found))
    for array in (found, total, variance):
        array.flags.writeable = False
    return (QueryMeasurements("total", (), found, total, variance),)


def zeros_of(constraints: tuple[CensusConstraint, ...]) -> tuple[KnownZeros, ...]:
    """Return the cells that are zero: in nursing facilities, and where there is no facility."""
    quarters = layout.PL94_DOMAIN.levels["hhgq"]
    shape = layout.file_shape(("hhgq",))
    found = [KnownZeros(layout.NURSING_MINORS)]
    for one in constraints:
        if one.name == QUARTERS_BOUND and one.sign == "<=" and one.shape == shape:
            for level, bound in zip(quarters, one.values.T, strict=True):
                units = np.flatnonzero(bound == 0)
                if units.size:
                    found.append(KnownZeros({"hhgq": level}, one.units[units]))
    return tuple(found)
