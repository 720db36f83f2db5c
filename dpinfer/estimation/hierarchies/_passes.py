"""Best linear unbiased estimates of all nodes of a tree: one pass up, one pass down.

Children add up to their parents. Arrays are in the order of the places of the tree, in their last
axis; values may have further axes.

Up: the estimates z of the children, of variances u, from what is below them, have the sum s, of
variance S. With the parent's own measurement m, of variance v, they merge to s + k(m - s), where
k = S/(S + v), of variance 1/(1/S + 1/v). Down: a child takes the share r = u/S of what its parent's
final estimate x, of variance w, differs from s by: z + r(x - s), of variance u(1 - r) + r² w.

Variances may be 0 (exact) or infinite (nothing measured).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.queries._tree import Families, Places, Tree

_DOMINANT = 0.99
"""From this share on, 1 - r is summed over the other children, as the difference would cancel."""


@dataclass(frozen=True, eq=False)
class Gains:
    """How estimates depend on what was measured; the same for all values.

    Parameters
    ----------
    tree : Tree
        The tree of n places.
    measured : array of float, shape (n,)
        Variance of the measurement of each node; infinite where there is none.
    below : array of float, shape (n,)
        Variance of the estimate of each node from what is measured in it and below it.
    variance : array of float, shape (n,)
        Variance of the final estimate of each node; infinite where it is not estimable.
    gain : tuple of array of float, shape (q,)
        For each run of families, the weight k of the own measurement of each parent.
    share : array of float, shape (n,)
        Share r of each node in the correction of its parent; 1 for roots.
    """

    tree: Tree
    measured: FloatArray
    below: FloatArray
    variance: FloatArray
    gain: tuple[FloatArray, ...]
    share: FloatArray

    @classmethod
    def of(cls, tree: Tree, variance: FloatArray, roots: FloatArray | None = None) -> Gains:
        """Go up and down a tree with variances of the measurement of each node, shape (n,).

        Where the tree is a part of a larger one, ``roots`` are the final variances of its roots.
        """
        below = variance.copy()
        sums, gains = [], []
        for families in reversed(tree.families):
            total = summed(below, families)
            own = below[families.parents]
            gains.append(_gain(total, own))
            with np.errstate(divide="ignore"):  # 1/0 is infinite, and one by that 0 again
                below[families.parents] = 1.0 / (1.0 / total + 1.0 / own)
            sums.append(total)
        final, share = below.copy(), np.empty(len(tree))
        share[: int(np.searchsorted(tree.parent, 0))] = 1.0
        if roots is not None:
            final[: roots.size] = roots
        for families, total in zip(tree.families, reversed(sums), strict=True):
            own_share, own = _divide(below[families.children], total, families)
            above = np.repeat(final[families.parents], families.counts)
            if np.isinf(above[0]) or np.isinf(above.max()):
                above[own_share == 0.0] = 0.0
            share[families.children] = own_share
            above *= own_share
            above *= own_share
            above += own
            final[families.children] = above
        return cls(tree, variance, below, final, tuple(reversed(gains)), share)

    def estimates(self, values: FloatArray) -> FloatArray:
        """Estimate all nodes from measured values, shape (..., n), 0 where nothing is measured."""
        found = values.copy()
        sums = []
        for families, gain in zip(reversed(self.tree.families), reversed(self.gain), strict=True):
            total, own = summed(found, families), found[..., families.parents]
            found[..., families.parents] = np.where(gain == 1.0, own, total + gain * (own - total))
            sums.append(total)
        for families, total in zip(self.tree.families, reversed(sums), strict=True):
            change = np.repeat(found[..., families.parents] - total, families.counts, axis=-1)
            change *= self.share[families.children]
            found[..., families.children] += change
        return found

    def innovations(
        self, values: FloatArray
    ) -> Iterator[tuple[NDArray[np.intp], FloatArray, FloatArray]]:
        """Yield parents, what their own measurement adds to their children's sum, its variance.

        Differences of measurement and sum, shape (..., q), in the order of the pass up; they are
        independent if the noise is Gaussian. Without measurement, or sum, the variance is infinite.
        """
        found = values.copy()
        for families, gain in zip(reversed(self.tree.families), reversed(self.gain), strict=True):
            total, own = summed(found, families), found[..., families.parents]
            merged = np.where(gain == 1.0, own, total + gain * (own - total))
            variance = self.measured[families.parents] + summed(self.below, families)
            first = families.children.start
            yield self.tree.parent[first + families.starts], own - total, variance
            found[..., families.parents] = merged


def summed(values: FloatArray, families: Families) -> FloatArray:
    """Return sums over the children of each parent."""
    return np.asarray(np.add.reduceat(values[..., families.children], families.starts, axis=-1))


def _gain(total: FloatArray, own: FloatArray) -> FloatArray:
    """S/(S + v); where nothing is measured below, 1; where both are exact, 0."""
    with np.errstate(invalid="ignore"):
        gain = total / (total + own)
    if np.isnan(gain.max()):
        undefined = np.isnan(gain)
        gain[undefined] = (np.isinf(total) & np.isfinite(own))[undefined]
    return np.asarray(gain)


def _divide(
    below: FloatArray, total: FloatArray, families: Families
) -> tuple[FloatArray, FloatArray]:
    """Return the share r of each child, and u(1 - r)."""
    with np.errstate(invalid="ignore"):
        share = below / np.repeat(total, families.counts)
    rest = 1.0 - share
    uneven = ~(rest >= 1.0 - _DOMINANT)
    rest *= below
    if uneven.any():
        found = np.logical_or.reduceat(uneven, families.starts)
        # an only child has the share 1, but for 0 out of 0
        found &= (families.counts > 1) | ~(share[families.starts] > 0.0)
        if found.any():
            children = np.flatnonzero(np.repeat(found, families.counts))
            share[children], rest[children] = _divide_unevenly(
                below[children], families.counts[found]
            )
    return share, rest


def _divide_unevenly(below: FloatArray, counts: Places) -> tuple[FloatArray, FloatArray]:
    """Do the same in families where a child has almost all of the variance, or it is 0 or infinite.

    A child that is the only one in which nothing is measured takes the whole difference.
    """
    starts = np.cumsum(counts) - counts
    unknown = np.isinf(below)
    known = np.where(unknown, 0.0, below)
    total = np.repeat(np.add.reduceat(known, starts), counts)
    number = np.repeat(np.add.reduceat(unknown.astype(np.intp), starts), counts)
    share = np.divide(known, total, out=np.zeros(below.size), where=(total > 0.0) & (number == 0))
    share[unknown & (number == 1)] = 1.0
    dominant = share > _DOMINANT
    others = np.repeat(np.add.reduceat(np.where(dominant, 0.0, known), starts), counts)
    rest = np.where(dominant, share * others, known * (1.0 - share))
    rest[unknown & (number > 1)] = np.inf
    return share, rest
