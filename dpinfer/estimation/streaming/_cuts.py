"""Where to cut the units of noisy measurement files, so that each part fits into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import show
from dpinfer.errors import InvalidParameterError
from dpinfer.releases.census.inventory import Inventory

TOP = "top"
"""The name of the part above all others."""

BASE, UNIT = 460_000_000, 45_000
"""Bytes that a worker takes without any part, and at most for each unit of one, as measured."""

Places = NDArray[np.intp]


@dataclass(frozen=True)
class Cut:
    """Units that make up a part.

    Parameters
    ----------
    name : str
        The part.
    parent : str
        The part above.
    subtree : str
        The subtree that its units are in.
    levels : tuple of str
        Its levels, from that of its roots.
    ends : (str, str)
        The codes of the first and of the last of its roots.
    borders : str or None
        The level whose units are the roots of other parts, the lowest of its levels.
    """

    name: str
    parent: str
    subtree: str
    levels: tuple[str, ...]
    ends: tuple[str, str]
    borders: str | None


def most_units(memory: float) -> int:
    """Return the number of units that a part may have in some bytes of memory."""
    most = int((memory - BASE) / UNIT)
    if most < 1:
        raise InvalidParameterError(
            f"memory must be larger than the {BASE + UNIT} bytes that one unit takes, got "
            f"{show(memory)}"
        )
    return most


def cuts_at(inventories: Sequence[Inventory], level: str) -> Iterator[Cut]:
    """Cut at a level: each of its units, with all below it, is a part."""
    for one in inventories:
        at = one.levels.index(level)
        one.refuse_lacking(at, 0, len(one.codes[at]))
        for unit in range(len(one.codes[at])):
            yield _leaf(one, TOP, at, unit, unit + 1)


def cuts_below(inventories: Sequence[Inventory], level: str, most: int) -> Iterator[Cut]:
    """Cut below the top, whose lowest level is given, in parts of at most so many units."""
    for one in inventories:
        at = one.levels.index(level)
        yield from _below(one, TOP, at, 0, len(one.codes[at]), most)


def lowest_of_top(inventories: Sequence[Inventory], most: int) -> str | None:
    """Return the lowest level of the top, or None if it can hold all; all have the same levels."""
    found = [_sizes(one, 0, 0, len(one.codes[0])) for one in inventories]
    sizes = np.sum([own for own, _ in found], axis=0)
    heaviest = np.max([own for _, own in found], axis=0)
    if sizes[-1] <= most:
        return None
    chosen = _choose(sizes, heaviest, most)
    if chosen is None:
        _refuse("the highest level", int(sizes[0]))
    return inventories[0].levels[chosen]


def _below(one: Inventory, parent: str, at: int, start: int, stop: int, most: int) -> Iterator[Cut]:
    """Cut some units of a level, with all below them, in parts."""
    one.refuse_lacking(at, start, stop)
    weights = one.counts(at, len(one.levels) - 1)[start:stop]
    for first, last in pairwise(_runs(weights, most)):
        if weights[first:last].sum() <= most:
            yield _leaf(one, parent, at, start + first, start + last)
        else:
            yield from _split(one, parent, at, start + first, most)


def _split(one: Inventory, parent: str, at: int, unit: int, most: int) -> Iterator[Cut]:
    """Make a unit that is too large a part with levels below it, and cut the rest."""
    sizes, heaviest = _sizes(one, at, unit, unit + 1)
    chosen = _choose(sizes[1:], heaviest[1:], most)
    name = one.codes[at][unit].decode()
    if chosen is None:
        _refuse(f"the unit {name} and those below it", int(sizes[min(1, len(sizes) - 1)]))
    below = at + 1 + chosen
    yield Cut(
        name, parent, one.subtree, one.levels[at : below + 1], (name, name), one.levels[below]
    )
    first = one.firsts(at, below)
    yield from _below(one, name, below, int(first[unit]), int(first[unit + 1]), most)


def _leaf(one: Inventory, parent: str, at: int, start: int, stop: int) -> Cut:
    """Return units of a level with all below them as a part."""
    ends = one.codes[at][start].decode(), one.codes[at][stop - 1].decode()
    name = ends[0] if stop - start == 1 else "-".join(ends)
    return Cut(name, parent, one.subtree, one.levels[at:], ends, None)


def _sizes(one: Inventory, at: int, start: int, stop: int) -> tuple[Places, Places]:
    """Return, for a part that ends at each lower level, its units, and those below the heaviest.

    The part has the units of one level from ``start`` to ``stop``, and those below them.
    """
    sizes, heaviest = [], []
    last = len(one.levels) - 1
    for below in range(at, last + 1):
        sizes.append(int(one.counts(at, below)[start:stop].sum()))
        first = one.firsts(at, below)[[start, stop]]
        heaviest.append(int(one.counts(below, last)[slice(*first)].max()))
    return np.array(sizes), np.array(heaviest)


def _choose(sizes: Places, heaviest: Places, most: int) -> int | None:
    """Return the highest level to cut at such that no unit there has to be cut again.

    If there is none, the lowest level to which a part can reach, or None.
    """
    fits = np.flatnonzero(sizes[:-1] <= most)  # a part that reaches the lowest level is not cut
    whole = fits[heaviest[fits] <= most]
    return int(whole[0]) if whole.size else int(fits[-1]) if fits.size else None


def _runs(weights: Places, most: int) -> list[int]:
    """Return where runs of units begin, and the end: of even weights of at most so much.

    A unit that weighs more is a run of its own.
    """
    even = weights.sum() / np.ceil(weights.sum() / most)
    starts, weight = [0], 0
    for unit, own in enumerate(weights.tolist()):
        if unit > starts[-1] and (weight + own > most or weight >= even):
            starts.append(unit)
            weight = 0
        weight += own
    return [*starts, len(weights)]


def _refuse(what: str, units: int) -> NoReturn:
    raise InvalidParameterError(
        f"memory must be at least {BASE + UNIT * units} bytes for {what}, which are {units} units"
    )
