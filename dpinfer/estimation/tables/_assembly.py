"""What marginals say of the coefficients of tables, added up in the fewest steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from dpinfer._validation import FloatArray
from dpinfer.estimation.tables._axes import Axes, Corner
from dpinfer.estimation.tables._householder import reflect


@dataclass(frozen=True)
class Assembly:
    """Steps that add up the transforms of marginals.

    Marginals that keep the same axes are added up as they are. Then axis by axis: those that keep
    an axis are transformed along it, and one that differs from another only by lacking axes along
    which that is transformed already is added to it, at the coordinate 0 of these.

    Parameters
    ----------
    kept : tuple of int
        The axes kept by each marginal, each set once; the first has all that any has.
    steps : tuple of (int, int) or (int, int, Corner)
        To transform a marginal along an axis, or to add to a marginal another one, in a place.
    """

    kept: tuple[int, ...]
    steps: tuple[tuple[int, int] | tuple[int, int, Corner], ...]

    @classmethod
    def of(cls, axes: Axes, kept: Iterable[int]) -> Assembly:
        """Plan the steps for marginals that keep these axes."""
        found = set(kept)
        union = 0
        for mask in found:
            union |= mask
        masks = (union, *sorted(found - {union}))
        return cls(masks, tuple(_steps(axes, masks)))

    def run(self, parts: Sequence[FloatArray]) -> None:
        """Turn marginals, in place, to the coefficients of their sum, in the first of them."""
        for step in self.steps:
            if len(step) == 2:
                reflect(parts[step[0]], 2 + step[1])
            else:
                target, source, corner = step
                parts[target][corner] += parts[source]


def _steps(
    axes: Axes, masks: tuple[int, ...]
) -> Iterator[tuple[int, int] | tuple[int, int, Corner]]:
    pending = dict(enumerate(masks))  # of each part, the axes along which it is to be transformed
    for axis in range(len(axes.sizes)):
        for part, mask in pending.items():
            if mask >> axis & 1:
                yield part, axis
                pending[part] &= ~(1 << axis)
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
