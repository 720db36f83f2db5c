"""The units of all levels above the lowest ones, and true tables to be read in parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import check_integer_array, show
from dpinfer.errors import InvalidParameterError
from dpinfer.privacy.composition import BudgetAllocation
from dpinfer.releases.census import layout

MOST = 2**30
"""Persons at most: values are written as 32-bit integers."""

Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Truth:
    """Codes of the lowest units, and what returns their true tables.

    Parameters
    ----------
    codes : array of bytes, shape (n,)
        The codes, sorted.
    levels : tuple of str
        The levels below the nation, from the highest.
    tables : callable
        ``tables(start, stop)`` returns the tables of some units.
    """

    codes: NDArray[np.bytes_]
    levels: tuple[str, ...]
    tables: Callable[[int, int], Any]

    @classmethod
    def of(cls, truth: Any, allocation: BudgetAllocation) -> Truth:
        """Read a pair of codes and tables, or an object that has them."""
        if hasattr(truth, "codes") and hasattr(truth, "tables"):
            truth = (truth.codes, truth.tables)
        if not isinstance(truth, tuple) or len(truth) != 2:
            raise InvalidParameterError(
                f"truth must be a pair of codes and tables, or have them, got {show(truth)}"
            )
        levels = tuple(level for level in layout.LEVELS[1:] if level in allocation.levels)
        if not levels:
            raise InvalidParameterError("allocation must have a level below the nation")
        codes = _check_codes(truth[0], layout.CODE_LENGTHS[levels[-1]])
        tables = truth[1]
        if not callable(tables):
            array = np.asarray(tables)
            if array.ndim < 2 or len(array) != len(codes):
                raise InvalidParameterError(
                    f"truth must have a table for each of the {len(codes)} codes, got the shape "
                    f"{array.shape}"
                )
            tables = _Slices(array)
        return cls(codes, levels, tables)

    def subtrees(self) -> list[tuple[str, int, int]]:
        """Return the subtrees with the first of their units, and the one after the last."""
        state = self.codes.astype("S3")
        starts = np.flatnonzero(np.append(True, state[1:] != state[:-1]))
        stops = [*starts[1:].tolist(), len(state)]
        return [
            (state[start].decode(), int(start), int(stop))
            for start, stop in zip(starts, stops, strict=True)
        ]

    def read(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the tables of some units, shape (m, 8, 2, 2, 63)."""
        given = self.tables(start, stop)
        tables = np.asarray(given)
        if tables.dtype.kind not in "iu":
            tables = check_integer_array(given, "truth")
        shape = (stop - start, *layout.PL94_DOMAIN.shape)
        if tables.shape not in (shape, (stop - start, layout.PL94_DOMAIN.size)):
            raise InvalidParameterError(
                f"truth must have tables of the shape {shape}, or with the cells of a unit in one "
                f"row, got {tables.shape}"
            )
        if tables.min() < 0 or tables.sum(dtype=np.float64) > MOST:
            raise InvalidParameterError(
                f"truth must have counts >= 0, of at most {MOST} persons, got {tables.min()} and "
                f"{tables.sum(dtype=np.float64):g} persons"
            )
        tables = tables.reshape(shape).astype(np.int64)
        minors = tables[:, layout.PL94_DOMAIN.levels["hhgq"].index("nursing"), 0].any(axis=(1, 2))
        if minors.any():
            unit = self.codes[start + int(np.argmax(minors))].decode()
            raise InvalidParameterError(
                f"truth must have no minors in nursing facilities, got some in unit {unit!r}"
            )
        return tables


@dataclass(frozen=True)
class _Slices:
    """An array of tables as a function of the first and the one after the last."""

    array: NDArray[Any]

    def __call__(self, start: int, stop: int) -> NDArray[Any]:
        return self.array[start:stop]


def _check_codes(codes: Any, length: int) -> NDArray[np.bytes_]:
    try:
        found = np.asarray(codes).astype(str).astype("S")
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(
            f"truth must have codes that are text, got {show(codes)}"
        ) from error
    if found.ndim != 1 or not found.size:
        raise InvalidParameterError(f"truth must have a list of codes, got {show(codes)}")
    wrong = np.char.str_len(found) != length
    unsorted = np.append(False, found[1:] <= found[:-1])
    if wrong.any() or unsorted.any() or not np.char.isdigit(found).all():
        bad = wrong | unsorted | ~np.char.isdigit(found)
        raise InvalidParameterError(
            f"truth must have codes of {length} digits, sorted and each once, got "
            f"{found[np.argmax(bad)].decode()!r} at position {int(np.argmax(bad))}"
        )
    if not np.isin(found.astype("S1"), [b"0", b"1"]).all():
        raise InvalidParameterError("truth must have codes that begin with 0 or 1")
    return found


@dataclass(frozen=True, eq=False)
class Outline:
    """The units of a subtree level by level.

    Parameters
    ----------
    levels : tuple of str
        The levels, from the highest.
    codes : list of array of bytes
        The codes of the units of each level.
    starts : list of array of int
        The first of the lowest units in each unit.
    alone : list of array of bool
        Whether a unit is the only child of its parent, and its budget has been moved there.
    chains : list of array of int
        Of how many levels below it a unit has the budget as well.
    """

    levels: tuple[str, ...]
    codes: list[NDArray[np.bytes_]]
    starts: list[Places]
    alone: list[NDArray[np.bool_]]
    chains: list[Places]

    @classmethod
    def of(
        cls, lowest: NDArray[np.bytes_], levels: tuple[str, ...], move: bool, top_alone: bool
    ) -> Outline:
        """Find the units above the lowest ones; with ``move``, where budget is moved."""
        codes, starts = [], []
        for level in levels:
            own = lowest.astype(f"S{layout.CODE_LENGTHS[level]}")
            first = np.flatnonzero(np.append(True, own[1:] != own[:-1]))
            codes.append(own[first])
            starts.append(first)
        alone = [np.zeros(len(first), dtype=bool) for first in starts]
        chains = [np.zeros(len(first), dtype=np.intp) for first in starts]
        if move:
            alone[0][:] = top_alone
            for at in range(len(levels) - 2, -1, -1):
                child = np.searchsorted(starts[at + 1], starts[at])  # the first child
                single = np.diff(child, append=len(starts[at + 1])) == 1
                alone[at + 1][child[single]] = True
                chains[at][single] = 1 + chains[at + 1][child[single]]
        return cls(levels, codes, starts, alone, chains)

    def size(self, at: int) -> int:
        """Return the number of units of a level."""
        return len(self.starts[at])

    def between(self, at: int, start: int, stop: int) -> Places:
        """Return the units of a level that begin within a run of the lowest ones."""
        first, last = np.searchsorted(self.starts[at], [start, stop])
        return np.arange(first, last)

    def ancestors(self, at: int, below: int, units: Places) -> Places:
        """Return the units of a level above others."""
        where = self.starts[below][units]
        return np.asarray(np.searchsorted(self.starts[at], where, side="right") - 1)
