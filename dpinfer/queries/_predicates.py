"""Cells of a domain that meet a condition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import check_items, one_line, show
from dpinfer.errors import InvalidParameterError
from dpinfer.queries.domain import Domain

Condition = Mapping[str, Any] | Callable[[Any], Any]
"""A mapping of attributes to levels, or a function of the frame of all cells."""


def mask_of(domain: Domain, label: str, given: Condition) -> NDArray[np.bool_]:
    """Cells that meet a condition."""
    if isinstance(given, Mapping):
        return _box(domain, given)
    if not callable(given):
        raise InvalidParameterError(
            f"predicate {show(label)} must be a mapping of attributes to levels or a function, "
            f"got {show(given)}"
        )
    cells = domain.cells().to_frame(index=False)
    try:
        mask = np.asarray(given(cells))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidParameterError(
            f"predicate {show(label)} must work on whole columns, with & and | in place of "
            f"`and` and `or`: {one_line(error)}"
        ) from error
    if mask.dtype != np.bool_ or mask.shape != (domain.size,):
        raise InvalidParameterError(
            f"predicate {show(label)} must return a boolean for each of the {domain.size} cells, "
            f"got an array of {mask.dtype} and shape {mask.shape}"
        )
    return mask


def _box(domain: Domain, given: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Cells whose level of each named attribute is among the given ones."""
    mask = np.ones(domain.shape, dtype=bool)
    domain.check_attributes(given)
    for axis, (attribute, levels) in enumerate(domain.levels.items()):
        if attribute not in given:
            continue
        wanted = given[attribute]
        several = isinstance(wanted, (list, tuple, set, frozenset, range, np.ndarray))
        chosen = np.zeros(len(levels), dtype=bool)
        items = check_items(wanted, f"levels of {attribute}", "levels") if several else [wanted]
        chosen[domain.codes(attribute, items)] = True
        mask &= chosen.reshape([-1 if k == axis else 1 for k in range(mask.ndim)])
    return mask.ravel()
