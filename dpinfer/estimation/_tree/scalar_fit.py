"""The estimates of a hierarchy as linear functions of the published values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation._tree.laws import TreeLaws
from dpinfer.estimation._tree.scalar import Gains, Measured, measurement_weights, summed
from dpinfer.estimation.bounds import NoiseBound
from dpinfer.estimation.consistency import is_gaussian
from dpinfer.estimation.pivots import ManyErrors, clean_weights
from dpinfer.mechanisms.independent import integer_cells
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.weighted_sum import WeightedSum
from dpinfer.queries.hierarchy import Hierarchy
from dpinfer.releases.values import NoisyValues

_WEIGHTS_LIMIT = 200_000_000
_BLOCK_SIZE = 20_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class HierarchyFit:
    """Values of the units of a hierarchy, and how the estimates combine them."""

    hierarchy: Hierarchy  # the n units
    published: NoisyValues  # the m values, each with a noise of its own
    measured: Measured  # what they measure
    gains: Gains  # the passes over the tree

    @property
    def values(self) -> FloatArray:
        """The published values, shape (m,)."""
        return self.published.values

    @property
    def mechanism(self) -> NoiseLaw:
        """The law of their noise."""
        return self.published.noises.law

    @cached_property
    def placed(self) -> FloatArray:
        """Estimates in the order of the tree."""
        return self.gains.estimates(self.in_tree(self.values))

    @property
    def estimates(self) -> FloatArray:
        """Estimates of the units, shape (n,); meaningless where the variance is infinite."""
        return self.of_units(self.placed)

    @cached_property
    def variance(self) -> FloatArray:
        """Variances of the estimates, shape (n,); infinite where the values tell nothing."""
        return self.of_units(self.gains.variance)

    @cached_property
    def all_estimable(self) -> bool:
        """Whether the values determine every unit."""
        return bool(np.isfinite(self.variance.max()))

    @property
    def measured_variance(self) -> FloatArray:
        """Variances of what was measured of the units, shape (n,); infinite where nothing was."""
        return self.of_units(self.gains.measured)

    @property
    def value_units(self) -> NDArray[np.intp]:
        """Position of the unit that each value measures; shape (m,)."""
        unit = self.measured.unit
        return np.arange(self.values.size) if unit is None else unit

    @property
    def value_variance(self) -> FloatArray:
        """Variance of the noise of each value; shape (m,)."""
        return np.broadcast_to(np.asarray(self.mechanism.variance), self.values.shape)

    @property
    def is_gaussian(self) -> bool:
        """Whether all noise is Gaussian."""
        return is_gaussian(self.mechanism, self.values.size)

    def refit(self, values: FloatArray) -> FloatArray:
        """Estimates from other values of the same units and noise, shape (..., m); (..., n)."""
        return self.of_units(self.gains.estimates(self.in_tree(values)))

    def innovations(
        self, values: FloatArray
    ) -> Iterator[tuple[NDArray[np.intp], FloatArray, FloatArray]]:
        """Yield places of units with children, own values less the children's sum, variances."""
        return self.gains.innovations(self.in_tree(values))

    def nearest_whole(self) -> FloatArray:
        """Whole numbers near the estimates that add up, as the estimates do; shape (n,)."""
        tree = self.hierarchy.tree
        whole = np.rint(self.placed)
        for families in reversed(tree.families):
            whole[families.parents] = summed(whole, families)
        return self.of_units(whole)

    def weights(self, target: FloatArray) -> FloatArray:
        """Return weights on the values, shape (k, m), of functions of units, shape (k, n)."""
        placed = in_tree(self.hierarchy, target, 0.0)
        weights = self.of_units(measurement_weights(self.gains, placed))
        measured = np.isfinite(self.measured_variance)
        return self.measured.on_values(np.where(measured, weights, 0.0))

    def weight_blocks(self, at: NDArray[np.intp]) -> Iterator[FloatArray]:
        """Yield weights on the values of the estimates of units, some units at a time."""
        size = max(1, _BLOCK_SIZE // max(self.values.size, len(self.gains.tree)))
        for start in range(0, max(1, at.size), size):  # one empty block where there are no units
            some = at[start : start + size]
            target = np.zeros((some.size, len(self.hierarchy)))
            target[np.arange(some.size), some] = 1.0
            yield self.weights(target)

    def draw_errors(self, reps: int, rng: np.random.Generator) -> FloatArray:
        """Draw joint errors of all units, shape (reps, n)."""
        noise = self.mechanism.rvs((reps, self.values.size), rng=rng)
        return self.refit(np.asarray(noise, dtype=np.float64))

    def noise(self, weights: FloatArray) -> WeightedSum:
        """Return the law of the error of an estimate that combines the values by weights, (m,)."""
        weights = clean_weights(weights)
        used = np.flatnonzero(weights)
        return self.published._law_of(weights[used], used)

    @cached_property
    def laws(self) -> TreeLaws:
        """The laws of the errors of all units."""
        return TreeLaws(self)

    @cached_property
    def bound(self) -> NoiseBound:
        """The bound on the tails of the errors of all units."""
        variance = self.value_variance
        known = self.variance[self.value_units]
        share = np.divide(known, variance, out=np.zeros(variance.size), where=variance > 0.0)
        return NoiseBound.of([(self.mechanism, self.values.size, share)])

    @cached_property
    def bound_of_any(self) -> NoiseBound:
        """The bound on the tails of any linear function of the values."""
        return NoiseBound.of([(self.mechanism, self.values.size, None)])

    def innovation_weights(self, place: int) -> FloatArray:
        """Return weights on the values of own value less the sum of children, shape (m,)."""
        tree = self.hierarchy.tree
        gain = np.ones(len(tree))
        for merger in self.gains.mergers:
            gain[merger.families.parents] = merger.gain
        below, weights = np.zeros(len(tree)), np.zeros(len(tree))
        weights[place], below[place] = 1.0, -1.0  # of the own value, and of the children's sum
        for families in tree.families:
            at = families.children
            handed = np.repeat(below[families.parents], families.counts)
            weights[at] = np.where(handed == 0.0, weights[at], handed * gain[at])
            below[at] = np.where(handed == 0.0, below[at], handed * (1.0 - gain[at]))
        measured = np.isfinite(self.measured_variance)
        return self.measured.on_values(np.where(measured, self.of_units(weights), 0.0))

    def errors(
        self, at: NDArray[np.intp], exact: bool
    ) -> tuple[ManyErrors, NDArray[np.intp] | slice]:
        """Return the laws of the errors of units, and the number of that of each.

        Only for ``exact`` ones are units looked for that have the same law.
        """
        tree, laws, units = self.hierarchy.tree, None, at
        number: NDArray[np.intp] | slice = slice(None)
        if exact and not self.is_gaussian:
            laws = self.laws
            used, number = np.unique(laws.classes.whole[tree.place_of(at)], return_inverse=True)
            places = laws.classes.first[used]
            units = places if tree.order is None else tree.order[places]

        def law(one: int) -> WeightedSum:
            (block,) = self.weight_blocks(units[[one]])
            return self.noise(block[0])

        def heaviest() -> int:
            own = self.measured_variance[units]
            known = np.where(np.isfinite(own) & (own > 0.0), own, np.inf)
            return int(np.argmax(self.variance[units] / known))

        errors = ManyErrors(
            std_errors=np.sqrt(self.variance[units]),
            law=law,
            terms=self.values.size,
            gaussian=self.is_gaussian,
            integer=bool(integer_cells(self.mechanism, self.values.size).any()),
            bound=lambda: self.bound,
            heaviest=heaviest,
            magnitude=max(self.values.max(initial=0.0), -self.values.min(initial=0.0)),
            together=(
                (lambda q: laws.half_widths(places, q))
                if laws is not None and laws.supported
                else None
            ),
        )
        return errors, number

    def check_size(self, functions: int, remedy: str) -> None:
        """Refuse more functions of the values than fit into memory."""
        if functions * max(self.values.size, len(self.gains.tree)) > _WEIGHTS_LIMIT:
            raise InvalidParameterError(
                f"{remedy} got {functions}, whose weights on {self.values.size} values would not "
                "fit into memory"
            )

    def in_tree(self, values: FloatArray) -> FloatArray:
        """Return what values, shape (..., m), measure at the places of the tree."""
        return in_tree(self.hierarchy, self.measured.merged(values), 0.0)

    def of_units(self, placed: FloatArray) -> FloatArray:
        """Return what is in the order of the tree, shape (..., n), for the units alone."""
        return np.asarray(self.hierarchy.tree.numbered(placed)[..., : len(self.hierarchy)])


def in_tree(hierarchy: Hierarchy, values: FloatArray, filler: float) -> FloatArray:
    """Return values of units, shape (..., n), in the order of the tree, with its further nodes."""
    more = len(hierarchy.tree) - len(hierarchy)
    if more:
        rest = np.full((*values.shape[:-1], more), filler)
        values = np.concatenate([values, rest], axis=-1)
    return hierarchy.tree.placed(values)
