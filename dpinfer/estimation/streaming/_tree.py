"""The parts that a tree of tables is cut into."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dpinfer._validation import show, show_some
from dpinfer.errors import InvalidParameterError


@dataclass(frozen=True)
class TreePart:
    """A part of a hierarchy with what was published of its units.

    Parameters
    ----------
    load : callable
        ``load()`` returns the Hierarchy of the units, labelled by str or by int, NoisyMarginals of
        them, and StructuralZeros or None. It is called once in each pass, where the part is worked
        on, so it should be picklable and always return the same.
    parent : str, optional
        The part above, of which the roots of this one are leaves; None for the top.
    version : str, default ""
        What tells other data from the same: estimates of another version are not taken up again.

    Examples
    --------
    >>> TreePart(print, "state", version="2020").parent
    'state'
    """

    load: Callable[[], Any]
    parent: str | None = None
    version: str = ""


def check_parts(parts: Any) -> dict[str, TreePart]:
    """Return parts, one of which is above all others."""
    if not isinstance(parts, Mapping) or not parts:
        raise InvalidParameterError(
            f"parts must be a mapping of names to one or more TreeParts, got {show(parts)}"
        )
    for name, one in parts.items():
        if not isinstance(name, str) or not name:
            raise InvalidParameterError(f"parts must be named by str, got {show(name)}")
        if not isinstance(one, TreePart) or not callable(one.load):
            raise InvalidParameterError(
                f"parts must hold TreeParts with a function to load them, got {show(one)} for "
                f"{show(name)}"
            )
        if not isinstance(one.version, str):
            raise InvalidParameterError(f"version must be a str, got {show(one.version)}")
        if one.parent is not None and not (isinstance(one.parent, str) and one.parent in parts):
            raise InvalidParameterError(
                f"parent must name another of the parts, {show_some(parts)}, got "
                f"{show(one.parent)} for {show(name)}"
            )
    found = dict(parts)
    tops = [name for name, one in found.items() if one.parent is None]
    if len(tops) != 1:
        raise InvalidParameterError(
            f"one of the parts must be without parent, the top, got {len(tops)}: {show_some(tops)}"
        )
    reached = {name for names in depths_of(found) for name in names}
    if len(reached) < len(found):
        raise InvalidParameterError(
            "parent must lead from every part to the top, not so from "
            f"{show_some(name for name in found if name not in reached)}"
        )
    return found


def depths_of(parts: Mapping[str, TreePart]) -> list[list[str]]:
    """Return the names of the parts of each depth, from the top."""
    below: dict[str | None, list[str]] = {}
    for name, one in parts.items():
        below.setdefault(one.parent, []).append(name)
    found = [below.get(None, [])]
    while found[-1]:
        found.append([name for above in found[-1] for name in below.get(above, [])])
    return found[:-1]
