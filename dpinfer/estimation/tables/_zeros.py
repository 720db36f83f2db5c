"""Cells of tables that are known to be zero."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray, check_items, show, show_some
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.tables._schema import TableSchema
from dpinfer.queries import Hierarchy


@dataclass(frozen=True, eq=False)
class StructuralZeros:
    """Cells that are known to be zero, without noise, in some or all units.

    Parameters
    ----------
    levels : mapping of str to level or list of levels
        The cells: those that have one of these levels in each of these attributes, or groupings.
    units : list or array, optional
        The units: labels, or positions where units have no labels. By default all.

    Raises
    ------
    InvalidParameterError
        By :func:`combine_marginals`, if ``levels`` is empty, names no attribute or grouping or what
        is not a level of it (``True`` is not the level 1), or ``units`` are not in the hierarchy.

    Notes
    -----
    The attributes named form the block of :func:`combine_marginals`, with those that have
    groupings: their joint levels, at most 1,024, cost time in their square and memory in the square
    for units with children. Zeros are exact: what is known of other cells gets sharper. A zero of a
    unit says of those below it only that they add up to zero, so name them too.

    Examples
    --------
    >>> StructuralZeros({"quarters": ["nursing", "military"], "age": "minor"}, units=["44001"])
    StructuralZeros(levels={'quarters': ['nursing', 'military'], 'age': 'minor'}, units=['44001'])
    """

    levels: Mapping[str, Any]
    units: Any = None


def check_zeros(zeros: Any) -> tuple[StructuralZeros, ...]:
    """Return what ``zeros=`` holds."""
    if zeros is None:
        return ()
    single = isinstance(zeros, StructuralZeros)
    found = [zeros] if single else check_items(zeros, "zeros", "StructuralZeros")
    for one in found:
        if not (
            isinstance(one, StructuralZeros) and isinstance(one.levels, Mapping) and one.levels
        ):
            raise InvalidParameterError(
                "zeros must hold StructuralZeros with the levels of one or more attributes, got "
                f"{show(one)}"
            )
    return tuple(found)


def place_zeros(
    zeros: tuple[StructuralZeros, ...], schema: TableSchema, hierarchy: Hierarchy
) -> NDArray[np.bool_] | None:
    """Return the levels of the block that are zero at each place, shape (n, g)."""
    if not zeros:
        return None
    tree = hierarchy.tree
    found = np.zeros((len(tree), schema.levels), dtype=bool)
    for one in zeros:
        levels = _block_levels(one, schema)
        if one.units is None:
            found[: len(hierarchy)] |= levels
        else:
            found[hierarchy.positions(one.units, "units of zeros")] |= levels
    return found if tree.order is None else found[tree.order]


def _block_levels(one: StructuralZeros, schema: TableSchema) -> NDArray[np.bool_]:
    """Return which joint levels of the block are among the zeros, shape (g,)."""
    parts = {name: np.ones(len(schema.domain.levels[name])) for name in schema.block}
    for name, wanted in one.levels.items():
        levels = schema.levels_of(name)
        single = isinstance(wanted, (str, bytes)) or not isinstance(wanted, Iterable)
        listed = [wanted] if single else check_items(wanted, "levels of zeros", "levels")
        if not listed or not _are_levels(listed, levels):
            raise InvalidParameterError(
                f"zeros must name levels of {name}, {show_some(levels)}, got {show(wanted)}"
            )
        chosen = np.array([float(level in listed) for level in levels])
        grouping = schema.groupings.get(name)
        attribute = name if grouping is None else grouping.attribute
        parts[attribute] = parts[attribute] * (
            chosen if grouping is None else chosen @ grouping.matrix
        )
    joint: FloatArray = np.ones(1)
    for part in parts.values():
        joint = np.asarray(np.kron(joint, part), dtype=np.float64)
    return np.asarray(joint > 0.0)


def _are_levels(listed: list[Any], levels: tuple[Hashable, ...]) -> bool:
    """Tell whether all are levels, of which True is not 1."""
    try:
        return {_typed(one) for one in listed} <= {_typed(level) for level in levels}
    except TypeError:  # lists and arrays are no levels
        return False


def _typed(level: Hashable) -> tuple[bool, Hashable]:
    return isinstance(level, (bool, np.bool_)), level
