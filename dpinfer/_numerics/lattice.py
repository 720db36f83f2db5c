"""Lattices: their spacing, points and masses, where a condition turns, and rows that are alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer._numerics.atoms import SAME


def common_spacing(
    weights: FloatArray, *, smallest: float, rtol: float = 1e-12
) -> tuple[float, FloatArray] | None:
    """Largest h >= ``smallest`` with every weight a whole multiple of h, to ``rtol`` relative.

    Returns h and the multiples, or None where there is no such spacing.
    """
    spacing = float(np.min(weights))
    if spacing < smallest:
        return None
    while True:  # each turn halves the spacing at least
        ratios = weights / spacing
        multiples = np.rint(ratios)
        off = np.flatnonzero(np.abs(ratios - multiples) > rtol * ratios)
        if not off.size:
            # the largest weight fixes the spacing best
            largest = int(np.argmax(weights))
            return float(weights[largest] / multiples[largest]), multiples
        denominator = _denominator(float(ratios[off[0]]), spacing / smallest, rtol)
        if denominator is None:
            return None
        spacing /= denominator


def _denominator(ratio: float, largest: float, rtol: float) -> int | None:
    """Denominator of the fraction within ``rtol`` of the ratio, if at most ``largest``."""
    if largest < 2:
        return None
    from fractions import Fraction  # loads decimals

    fraction = Fraction(ratio).limit_denominator(int(largest))
    close = abs(float(fraction) - ratio) <= rtol * ratio
    return fraction.denominator if close and fraction.denominator > 1 else None


GIVEN = 1e-9
"""A point from outside this close to a point of a lattice, in widths, is that point."""


def snapped(place: FloatArray, slack: FloatArray | float) -> FloatArray:
    """Return places in units of a spacing, those within a slack of a whole number being it."""
    nearest = np.rint(place)
    return np.where(np.abs(place - nearest) <= slack, nearest, place)


@dataclass(frozen=True)
class Lattice:
    """Points offset + j·width, up to a relative error ``uneven`` of the steps they came from."""

    offset: float
    width: float
    uneven: float = 0.0

    def place(self, x: FloatArray, slack: FloatArray | float | None = None) -> FloatArray:
        """Return j, whole at a point of the lattice: within rounding, or a slack in widths."""
        if slack is None:
            slack = SAME * (np.abs(x) + abs(self.offset)) / self.width
        return snapped((x - self.offset) / self.width, slack)


# Masses on whole numbers, by the discrete Fourier transform of a law that may be tilted.


def masses(transform: NDArray[Any], size: int, first: int = 0) -> FloatArray:
    """Return the masses at first, first + 1, … of J, what is beyond wrapped around.

    ``transform``: E[e^(-itJ)] at t = 2πn/size, 0 <= n <= size/2, along the last axis. An error is
    that of rounding, about 1e-16 of the largest mass at most, and some masses are below 0.
    """
    from scipy import fft  # loads where it is needed

    return np.asarray(np.roll(fft.irfft(transform, size, axis=-1), -(first % size), axis=-1))


def tilted_range(moves: FloatArray, growth: FloatArray, loss: float) -> tuple[float, float]:
    """Points below and above which a law has mass e^-loss at most, each, by Chernoff's bound.

    ``growth``: ln E[e^(sX)] at changes s of its tilt, of either sign.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = (growth + loss) / moves
    low, high = bound[moves < 0], bound[moves > 0]
    return float(np.max(low, initial=-np.inf)), float(np.min(high, initial=np.inf))


# The whole number at which a monotone condition begins to hold, for many conditions at once.


def smallest_whole(
    guess: FloatArray, holds: Callable[[FloatArray], NDArray[np.bool_]]
) -> FloatArray:
    """Smallest whole number at which a monotone condition holds, from a guess near to it."""
    finite = np.isfinite(guess)
    # the condition fails at low and holds at high, both found by doubling steps, then bisection
    low, high, step = guess - 1.0, guess, 1.0
    while (wrong := finite & holds(low)).any():
        low, high = np.where(wrong, low - step, low), np.where(wrong, low, high)
        step *= 2.0
    step = 1.0
    while (wrong := finite & ~holds(high)).any():
        low, high = np.where(wrong, high, low), np.where(wrong, high + step, high)
        step *= 2.0
    while True:
        middle = np.floor(0.5 * (low + high))
        inside = finite & (low < middle) & (middle < high)
        if not inside.any():
            return high
        held = holds(middle)
        high = np.where(inside & held, middle, high)
        low = np.where(inside & ~held, middle, low)


# What happens many times.


_Item = TypeVar("_Item")


def by_squaring(item: _Item, count: int, join: Callable[[_Item, _Item], _Item]) -> _Item:
    """Join ``count`` >= 1 of an item, in about 2·log₂(count) steps."""
    found: _Item | None = None
    while True:
        if count & 1:
            found = item if found is None else join(found, item)
        count >>= 1
        if not count:
            assert found is not None
            return found
        item = join(item, item)


# So many rows at a time that the terms of all of them are held, of one length or of like lengths.


def slices(size: int, most: int) -> Iterator[slice]:
    """Yield consecutive parts of so many rows: at most ``most``, and one at least."""
    rows = max(most, 1)
    for start in range(0, size, rows):
        yield slice(start, min(start + rows, size))


def batches(lengths: FloatArray, most: int) -> Iterator[NDArray[np.intp]]:
    """Yield rows of like lengths, as many as fit with the longest of them; none of length 0."""
    order = np.argsort(lengths)
    ascending = lengths[order]
    start = int(np.searchsorted(ascending, 0.5))
    while start < order.size:
        some = ascending[start : start + int(most / ascending[start]) + 1]
        fits = np.arange(1, some.size + 1) * some <= most
        stop = start + max(1, int(np.count_nonzero(fits)))
        yield order[start:stop]
        start = stop


# Rows that are alike, found once, so that work is done for each kind of row only.


_SPARSE = 4
"""A range of whole numbers so many times as long as the list of rows is still marked off."""

_LARGEST_KEY = 2.0**62


def alike(columns: Sequence[FloatArray]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return one row of each kind, equal in all columns, and the number of the kind of each."""
    ordered = np.sort(columns[0])  # takes a sixth of the time of what comes below
    if (ordered[1:] != ordered[:-1]).all():
        every = np.arange(ordered.size)
        return every, every
    key, kinds = _numbered(columns[0])
    for column in columns[1:]:
        codes, count = _numbered(column)
        if float(kinds) * count > _LARGEST_KEY:
            values, key = np.unique(key, return_inverse=True)
            kinds = values.size
        key, kinds = key * count + codes, kinds * count
    if kinds > _SPARSE * key.size + 1024:
        _, first, kind = np.unique(key, return_index=True, return_inverse=True)
        return first, kind
    example = np.full(kinds, -1)
    example[key] = np.arange(key.size)
    found = example >= 0
    return example[found], (np.cumsum(found) - 1)[key]


def _numbered(column: FloatArray) -> tuple[NDArray[np.intp], int]:
    """Numbers >= 0 that are equal where the entries are, and a bound above all of them."""
    low, high = float(column.min()), float(column.max())
    if high - low <= _SPARSE * column.size and abs(low) < 2.0**53 and abs(high) < 2.0**53:
        codes = (column - low).astype(np.intp)
        if (codes + low == column).all():
            return codes, int(high - low) + 1
    values, codes = np.unique(column, return_inverse=True)
    return codes, values.size
