"""Fourth cumulants and largest weights of the errors of all cells of tables on a tree.

The error of a cell is a sum of noises over units, published marginals and their cells. The weight
of a noise is the sum over classes B of what the tree hands on of coefficients of the class, times
the share of its marginal in what is measured of them, times a product over the axes: 1 - 1/n for
equal and -1/n for other levels where B deviates, 1/n elsewhere. Products of four weights, summed
over all noises, are handed on as variances are: with x = βs + U for a parent, s the sum of its
children's estimates z from below, a child has

    x = (1 + g)z + g·(sum of its sisters' z) + r·U,    U = (1 + g)k·m + g·(sisters) + r·U(parent),

β of a child (1 + g)(1 - k), g = r(β - 1). The parts are made of different noises, so that sums of
products of four weights, one of each of four classes, add up with products of the four factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import factorial, prod

import numpy as np

from dpinfer._check import FloatArray
from dpinfer.estimation._tree.axes import Axes
from dpinfer.estimation._tree.scalar import Gains
from dpinfer.estimation._tree.tables import MeasuredTables
from dpinfer.estimation._tree.update import sums_of_others
from dpinfer.queries.hierarchy import Places, Tree

_NUMBERS = 1 << 20  # numbers of one array that are worked on at a time


@dataclass(frozen=True, eq=False)
class Factors:
    """What the passes multiply by, for n places and each class; shape (n, classes)."""

    tree: Tree
    axes: Axes
    gain: FloatArray  # k: weight of what is measured of a place in its estimate from below
    share: FloatArray  # r: share of a place in the correction of its parent
    grow: FloatArray  # g
    kept: tuple[int, ...]  # the axes of each published marginal
    shares: tuple[FloatArray, ...]  # share of each of them in what is measured

    @classmethod
    def of(cls, tree: Tree, measured: MeasuredTables, gains: Sequence[Gains]) -> Factors:
        """Take them from the weights of each class."""
        columns = [_of_class(tree, one) for one in gains]
        gain, share, grow = (np.stack(part, axis=1) for part in zip(*columns, strict=True))
        axes, shares = measured.axes, []
        variance = np.stack([measured.variance(mask) for mask in axes.classes], axis=1)
        for one in measured.marginals:
            precision = (axes.summed(one.kept) * one.precision)[:, np.newaxis]
            covered = np.array([not mask & ~one.kept for mask in axes.classes])
            there = covered & (precision > 0.0)
            shares.append(np.multiply(variance, precision, out=np.zeros(gain.shape), where=there))
        kept = tuple(one.kept for one in measured.marginals)
        return cls(tree, axes, gain, share, grow, kept, tuple(shares))

    def within(self, kept: int) -> Places:
        """Return the numbers of the classes of a marginal that keeps these axes."""
        return np.flatnonzero([not mask & ~kept for mask in self.axes.classes])

    def quadruples(self, kept: int) -> int:
        """Return how many sums over products of four weights a cell of a marginal takes."""
        return len(self._quadruples(kept)[0])

    def _quadruples(self, kept: int) -> tuple[Places, FloatArray]:
        """Return classes of which products are not all 0, shape (q, 4), and how often they are."""
        found, times = [], []
        for four in combinations_with_replacement(self.within(kept).tolist(), 4):
            masks = [self.axes.classes[at] for at in four]
            if all(self._kernel(masks, 1 << axis, axis) for axis in range(len(self.axes.sizes))):
                found.append(four)
                times.append(24.0 / prod(factorial(four.count(at)) for at in set(four)))
        return np.reshape(found, (-1, 4)).astype(np.intp), np.array(times)

    def _kernel(self, masks: Sequence[int], kept: int, axis: int) -> float:
        """Return the sum over the levels of an axis of the product of the parts of four weights."""
        size, j = self.axes.sizes[axis], sum(mask >> axis & 1 for mask in masks)
        mean = float(size) ** -(4 - j)
        if not kept >> axis & 1:
            return mean if j == 0 else 0.0
        found = ((1.0 - 1.0 / size) ** j + (size - 1.0) * (-1.0 / size) ** j) * mean
        return 0.0 if abs(found) < 1e-15 * mean else found

    def fourth_cumulant(self, kept: int, own: Sequence[FloatArray]) -> FloatArray:
        """Return the fourth cumulants of the cells of a marginal, shape (n,), by one pass each way.

        ``own`` are those of the noise of each published marginal, shape (n,), 0 without any.
        """
        rows, times = self._quadruples(kept)
        total = np.zeros(len(self.tree))
        step = max(1, _NUMBERS // len(self.tree))
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            noise = np.zeros((len(self.tree), len(some)))
            for one, shares, cumulant in zip(self.kept, self.shares, own, strict=True):
                kernel = np.array([self._product(four, one) for four in some])
                used = np.flatnonzero(kernel)
                if used.size and cumulant.any():
                    part = _product(shares, some[used])
                    noise[:, used] += part * kernel[used] * cumulant[:, np.newaxis]
            total += self._handed(some, noise) @ times[start : start + step]
        return np.asarray(total * float(self.axes.summed(kept)) ** 4)

    def largest_weight(self, kept: int, own: Sequence[FloatArray]) -> FloatArray:
        """Return bounds on the largest weight, times ``own``, of noises in cells of a marginal.

        ``own`` are numbers by which the weights of the noises of each published marginal are
        multiplied, shape (n,). The weights of a noise through different classes are taken to be the
        largest over all units each.
        """
        rows = self.within(kept)[:, np.newaxis]
        found = np.zeros(len(self.tree))
        for one, shares, scale in zip(self.kept, self.shares, own, strict=True):
            if not scale.any():
                continue
            used = rows[np.isin(rows[:, 0], self.within(one))]
            noise = _product(shares, used) * scale[:, np.newaxis]
            weight = [self._same(self.axes.classes[at], kept) for at in used[:, 0]]
            found = np.maximum(found, self._handed(used, noise, largest=True) @ np.array(weight))
        return found

    def _same(self, mask: int, kept: int) -> float:
        """Return the part of a class in the weight of a noise of the same levels as the cell."""
        return prod(
            1.0 - 1.0 / size if mask >> axis & 1 else 1.0 / size
            for axis, size in enumerate(self.axes.sizes)
            if kept >> axis & 1
        )

    def _product(self, four: Places, one: int) -> float:
        """Return the sum over the cells of a published marginal of products of four weights."""
        masks = [self.axes.classes[at] for at in four]
        if any(mask & ~one for mask in masks):
            return 0.0
        return prod(self._kernel(masks, one, axis) for axis in range(len(self.axes.sizes)))

    def _handed(self, rows: Places, own: FloatArray, *, largest: bool = False) -> FloatArray:
        """Return sums over all noises of products of weights, or the largest; shape (n, q).

        Of the noise of a place itself the sum is ``own``, times products of what is handed on.
        """

        def product(part: FloatArray) -> FloatArray:
            return _product(np.abs(part) if largest else part, rows)

        together = np.maximum if largest else np.add
        below = product(self.gain) * own
        for families in reversed(self.tree.families):
            sums = together.reduceat(below[families.children], families.starts, axis=0)
            sums *= product(1.0 - self.gain[families.parents])
            below[families.parents] = together(below[families.parents], sums)
        above = below.copy()  # of roots, those of their own noise are U
        top = slice(int(np.searchsorted(self.tree.parent, 0)))
        above[top] = product(self.gain[top]) * own[top]
        found = below.copy()
        for families in self.tree.families:
            at, counts, grow = families.children, families.counts, self.grow[families.children]
            handed = product(self.share[at]) * np.repeat(above[families.parents], counts, axis=0)
            if largest:
                sisters = np.maximum.reduceat(below[at], families.starts, axis=0)
                others = np.repeat(sisters, counts, axis=0)
            else:
                others = sums_of_others(below[at], counts)
            around = together(product(grow) * others, handed)
            found[at] = together(product(1.0 + grow) * below[at], around)
            above[at] = together(product((1.0 + grow) * self.gain[at]) * own[at], around)
        return found


def _product(part: FloatArray, rows: Places) -> FloatArray:
    """Return products over the classes of rows, shape (n, q), of numbers, shape (n, classes)."""
    found = part[:, rows[:, 0]]
    for column in rows.T[1:]:
        found *= part[:, column]
    return found


def _of_class(tree: Tree, gains: Gains) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return k, r and g of all places for the coefficients of one class."""
    gain, grow = np.ones(len(tree)), np.zeros(len(tree))
    for merger in gains.mergers:
        gain[merger.families.parents] = merger.gain
    share = np.nan_to_num(gains.share, posinf=0.0)
    beta = 1.0 - gain
    for families in tree.families:
        at = families.children
        grow[at] = share[at] * np.repeat(beta[families.parents] - 1.0, families.counts)
        beta[at] = (1.0 + grow[at]) * (1.0 - gain[at])
    return gain, share, grow
