"""Which places of a tree have errors of the same law, because their trees look alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.queries._tree import Places, Tree

Hashes = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Classes:
    """Numbers of the places of a tree, equal where laws are.

    Parameters
    ----------
    below : array of int, shape (n,)
        Equal where what is measured in and below places has the same form.
    below_first : array of int
        The first place of each of these numbers.
    whole : array of int, shape (n,)
        Equal where that holds for all that is measured, as seen from the place.
    first : array of int
        The first place of each of these numbers.
    """

    below: Places
    below_first: Places
    whole: Places
    first: Places

    @classmethod
    def of(cls, tree: Tree, own: Hashes) -> Classes:
        """Tell places apart by hashes, shape (n,), of what is measured in each of them.

        Hashes have 64 bits: two different forms among n places meet by accident with a chance of
        about n²/2⁶⁵, which is 3e-8 for a million.
        """
        up = mixed(own)
        for families in reversed(tree.families):
            sums = np.add.reduceat(mixed(up[families.children]), families.starts)
            up[families.parents] = mixed(up[families.parents] + mixed(sums))
        down = mixed(up)
        for families in tree.families:
            above = np.repeat(down[families.parents], families.counts)
            down[families.children] = mixed(above + mixed(up[families.children]))
        _, below_first, below = np.unique(up, return_index=True, return_inverse=True)
        _, first, whole = np.unique(down, return_index=True, return_inverse=True)
        return cls(below, below_first, whole, first)


def mixed(numbers: Hashes) -> Hashes:
    """Scatter numbers over all of 64 bits (the finaliser of SplitMix64)."""
    found = numbers + np.uint64(0x9E3779B97F4A7C15)
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(found ^ (found >> np.uint64(31)))


def hashed(numbers: NDArray[np.generic] | FloatArray) -> Hashes:
    """Return hashes of numbers; of floats, up to their twelfth digit."""
    if numbers.dtype.kind == "f":
        mantissa, exponent = np.frexp(numbers)
        rounded = np.rint(mantissa * 1e12).astype(np.int64) + exponent.astype(np.int64) * (1 << 44)
        return mixed(rounded.astype(np.uint64))
    return mixed(numbers.astype(np.int64).astype(np.uint64))
