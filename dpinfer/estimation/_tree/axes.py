"""The axes of tables that are transformed, and the classes of their coefficients.

A coefficient has a coordinate in each axis, in the basis of mean (0) and deviations.

A set of axes is held as the bits of an integer. A coefficient is in the class of the axes in which
its coordinate is not 0. Arrays of tables have the number of the table and the level of the block,
attributes that are not transformed, in their first two axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from math import prod, sqrt

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray

Corner = tuple[slice, ...]


@dataclass(frozen=True)
class Axes:
    """The transformed attributes of a domain as axes of tables, that of most levels last."""

    names: tuple[str, ...]  # Names of the attributes
    sizes: tuple[int, ...]  # numbers of their levels

    @classmethod
    def of(cls, sizes: Mapping[str, int]) -> Axes:
        """Put the longest axis last, for sums of neighbours; the others stay in their order."""
        longest = max(sizes.values(), default=0)
        last = [name for name in sizes if sizes[name] == longest][-1:]
        names = [*(name for name in sizes if name not in last), *last]
        return cls(tuple(names), tuple(sizes[name] for name in names))

    @property
    def full(self) -> int:
        """The set of all axes."""
        return (1 << len(self.sizes)) - 1

    @cached_property
    def classes(self) -> tuple[int, ...]:
        """All classes that have a coefficient; the first is that of the total."""
        found = [0]
        for axis, size in enumerate(self.sizes):
            if size > 1:
                found += [mask | 1 << axis for mask in found]
        return tuple(found)

    @cached_property
    def corners(self) -> tuple[Corner, ...]:
        """Where in tables the coefficients of each class are."""
        return tuple(
            (
                slice(None),
                slice(None),
                *(
                    slice(1, None) if mask >> axis & 1 else slice(1)
                    for axis in range(len(self.sizes))
                ),
            )
            for mask in self.classes
        )

    @cached_property
    def class_of(self) -> NDArray[np.intp]:
        """The number of the class of each coefficient, in the shape of a table."""
        found = np.empty(self.sizes, dtype=np.intp)
        for at, corner in enumerate(self.corners):
            found[corner[2:]] = at
        return found

    def multiply(self, tables: FloatArray, factors: Sequence[FloatArray]) -> None:
        """Multiply the coefficients of each class by its factors, one a table, in place.

        Tables may have the length 1 in some axes, so that there are none of some classes.
        """
        each = np.array(factors).T[:, np.newaxis]
        if not self.sizes:
            tables *= each[:, :, 0]
            return
        number = self.class_of[tuple(slice(size) for size in tables.shape[2:])]
        # along the last axis, the longest, the first is in a class of its own
        first = tables[..., 0] * each.take(number[..., 0], axis=2)
        if number.shape[-1] > 1:
            tables *= each.take(number[..., 1:2], axis=2)  # faster than without the first
        tables[..., 0] = first

    def set_of(self, names: Iterable[str]) -> int:
        """Return the set of named axes."""
        return sum(1 << self.names.index(name) for name in names)

    def shape(self, kept: int) -> tuple[int, ...]:
        """Return the shape of the marginal that keeps these axes; 1 for the others."""
        return tuple(size if kept >> axis & 1 else 1 for axis, size in enumerate(self.sizes))

    def constant(self, kept: int) -> Corner:
        """Return where in tables the other axes have the coordinate 0."""
        return (
            slice(None),
            slice(None),
            *(slice(None) if kept >> axis & 1 else slice(1) for axis in range(len(self.sizes))),
        )

    def summed(self, kept: int) -> int:
        """Return how many cells each cell of the marginal that keeps these axes adds up."""
        return prod(size for axis, size in enumerate(self.sizes) if not kept >> axis & 1)

    def cell_weights(self, kept: int) -> FloatArray:
        """Return the weight of the variance of each class in that of a cell of a marginal."""
        weights = np.zeros(len(self.classes))
        for at, mask in enumerate(self.classes):
            if not mask & ~kept:
                weights[at] = self.summed(kept) * prod(
                    1.0 - 1.0 / size if mask >> axis & 1 else 1.0 / size
                    for axis, size in enumerate(self.sizes)
                    if kept >> axis & 1
                )
        return weights

    def degrees(self) -> tuple[int, ...]:
        """Return the number of coefficients in each class."""
        return tuple(
            prod(size - 1 for axis, size in enumerate(self.sizes) if mask >> axis & 1)
            for mask in self.classes
        )


# The orthonormal basis of mean and deviations along an axis of tables.


_FUSED = 48
"""Numbers along neighbouring axes up to which one product with a matrix is faster than a pass over
all tables along each axis: such passes are over short lines, for which NumPy takes more time."""

_SHORT = 8  # the same for one axis


def runs(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Return which neighbouring axes to transform together: the first, and the one after."""
    starts: list[int] = []
    for axis in range(len(sizes)):
        if not starts or prod(sizes[starts[-1] : axis + 1]) > _FUSED:
            starts.append(axis)
    return list(pairwise([*starts, len(sizes)]))


@lru_cache(maxsize=1024)
def _products(
    sizes: tuple[int, ...], run: tuple[int, int] | None
) -> list[tuple[tuple[int, ...], FloatArray | None]]:
    """Return how to transform tables along a run of axes, or along all.

    That is shapes of lines, and the matrices that they are multiplied by; None for lines so long
    that sums take less.
    """
    found: list[tuple[tuple[int, ...], FloatArray | None]] = []
    for start, stop in runs(sizes) if run is None else [run]:
        matrix = np.ones((1, 1))
        own = [size for size in sizes[start:stop] if size > 1]
        for size in own:
            root, minor = sqrt(size), 1.0 / (size - sqrt(size))
            one = np.full((size, size), -minor)
            np.fill_diagonal(one, (size - 2) * minor - 1.0 / root)  # so that rows add up to 0
            one[0] = one[:, 0] = 1.0 / root
            matrix = np.kron(matrix, one)
        size, inner = len(matrix), prod(sizes[stop:])
        if own:
            shape = (-1, size) if inner == 1 else (-1, size, inner)
            found.append((shape, matrix if len(own) > 1 or size <= _SHORT else None))
    return found


def reflect(tables: FloatArray, run: tuple[int, int] | None = None) -> None:
    """Reflect contiguous tables along a run of axes, or along all, in place."""
    lines, products = tables, _products(tables.shape[2:], run)
    for left, (shape, matrix) in enumerate(products, 1 - len(products)):
        lines, out = lines.reshape(shape), None if left else tables.reshape(shape)
        if matrix is not None:
            pair = (lines, matrix) if lines.ndim == 2 else (matrix, lines)
            lines = np.matmul(*pair, out=out)
            continue
        size = shape[1]
        root = sqrt(size)
        # the product is the faster sum of neighbours
        mean = lines @ np.ones(size) if lines.ndim == 2 else np.add.reduce(lines, axis=1)
        mean *= 1.0 / root
        shift = lines[:, 0] - mean
        shift *= 1.0 / (root - 1.0)
        lines = np.add(lines, shift[:, np.newaxis], out=out)
        lines[:, 0] = mean


# What marginals say of the coefficients of tables, added up in the fewest steps.


@dataclass(frozen=True)
class Assembly:
    """Steps that add up the transforms of marginals.

    Marginals that keep the same axes are added up as they are. Then run by run of axes: those that
    keep any are transformed along them, and one that differs from another only by lacking axes
    along which that is transformed already is added to it, at the coordinate 0 of these.
    """

    # the axes kept by each marginal, each set once; the first has all that any has
    kept: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]  # their shapes
    # what their coefficients are times, to be those that the tables have
    roots: Mapping[int, float]
    # To transform a marginal along axes, or to add to a marginal another one, in a place
    steps: tuple[tuple[int, tuple[int, int]] | tuple[int, int, Corner], ...]

    @classmethod
    def of(cls, axes: Axes, kept: Iterable[int]) -> Assembly:
        """Plan the steps for marginals that keep these axes."""
        found = set(kept)
        union = 0
        for mask in found:
            union |= mask
        masks = (union, *sorted(found - {union}))
        roots = {mask: sqrt(axes.summed(mask)) for mask in masks}
        return cls(masks, tuple(map(axes.shape, masks)), roots, tuple(_steps(axes, masks)))

    def run(self, parts: Sequence[FloatArray]) -> None:
        """Turn marginals, in place, to the coefficients of their sum, in the first of them."""
        for step in self.steps:
            if len(step) == 2:
                reflect(parts[step[0]], step[1])
            else:
                target, source, corner = step
                parts[target][corner] += parts[source]


def _steps(
    axes: Axes, masks: tuple[int, ...]
) -> Iterator[tuple[int, tuple[int, int]] | tuple[int, int, Corner]]:
    pending = dict(enumerate(masks))  # of each part, the axes along which it is to be transformed
    for run in runs(axes.sizes):
        own = (1 << run[1]) - (1 << run[0])
        for part, mask in pending.items():
            if mask & own:
                yield part, run
                pending[part] &= ~own
        for source in sorted(pending, key=lambda part: prod(axes.shape(masks[part]))):
            targets = [
                part
                for part, mask in pending.items()
                if part != source and mask == pending[source] and not masks[source] & ~masks[part]
            ]
            if targets:
                target = min(targets, key=lambda part: prod(axes.shape(masks[part])))
                yield target, source, axes.constant(masks[source])
                del pending[source]
