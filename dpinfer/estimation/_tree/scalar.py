"""Best linear unbiased estimates of all nodes of a tree: one pass up, one pass down.

Children add up to their parents. Arrays are in the order of the places of the tree, in their last
axis; values may have further axes.

Up: the estimates z of the children, of variances u, from what is below them, have the sum s, of
variance S. With the parent's own measurement m, of variance v, they merge to s + k(m - s), where
k = S/(S + v), of variance 1/(1/S + 1/v). Down: a child takes the share r = u/S of what its parent's
final estimate x, of variance w, differs from s by: z + r(x - s), of variance u(1 - r) + r² w.

Variances may be 0 (exact) or infinite (nothing measured).

Numbers could be tables of one cell, whose weights are found here as well. The passes over tables
take some 2.5 times as long a node for them, as tests/benchmarks/test_hierarchy.py shows: they hold
three weights of each place and copy what they go through, where these two passes make shares from
the variances of whole runs of families, in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray, check_integer
from dpinfer.errors import IncompatibleReleaseError
from dpinfer.estimation.consistency import CHECKED, Overlap, disagreement_frame
from dpinfer.estimation.pivots import exact_pvalues
from dpinfer.mechanisms.weighted_sum import WeightedSum
from dpinfer.queries.hierarchy import Families, Hierarchy, Places, Tree

if TYPE_CHECKING:
    import pandas as pd

_DOMINANT = 0.99
"""From this share on, 1 - r is summed over the other children, as the difference would cancel."""


@dataclass(frozen=True, eq=False)
class Merger:
    """How a run of families merges what is measured of the parents and of their children."""

    families: Families  # the run, of q parents
    own: FloatArray  # (q,): variance v of the measurement of each parent
    # (q,): variance S of the sum of its children, from what is measured in them and below them
    total: FloatArray
    gain: FloatArray  # (q,): weight k of the measurement of the parent
    # (c,): share r of each child in the correction of its parent; None where all are u/S
    shares: FloatArray | None

    def merged(self, total: FloatArray, own: FloatArray) -> FloatArray:
        """Return s + k(m - s)."""
        return np.where(self.gain == 1.0, own, total + self.gain * (own - total))

    def spread(self, change: FloatArray, below: FloatArray) -> FloatArray:
        """Return the shares of the children in corrections of the parents, shape (..., q)."""
        if self.shares is None:
            found = np.repeat(change / self.total, self.families.counts, axis=-1)
            found *= below[self.families.children]
        else:
            found = np.repeat(change, self.families.counts, axis=-1)
            found *= self.shares
        return found


@dataclass(frozen=True, eq=False)
class Gains:
    """How estimates depend on what was measured; the same for all values."""

    tree: Tree  # the tree of n places
    # (n,): variance of the estimate of each node from what is measured in it and below it
    below: FloatArray
    # (n,): variance of the final estimate of each node; infinite where it is not estimable
    variance: FloatArray
    mergers: tuple[Merger, ...]  # one for each run of families, from the roots down

    @classmethod
    def of(
        cls,
        tree: Tree,
        variance: FloatArray,
        roots: FloatArray | None = None,
        *,
        overwrite: bool = False,
    ) -> Gains:
        """Go up and down a tree with variances of the measurement of each node, shape (n,).

        Where the tree is a part of a larger one, ``roots`` are the final variances of its roots.
        ``overwrite`` allows ``variance`` to become ``below``, which saves a copy.
        """
        below = variance if overwrite else variance.copy()
        with np.errstate(divide="ignore", invalid="ignore"):
            upward = _up(tree, below)
            final = np.empty_like(below)
            top = slice(int(np.searchsorted(tree.parent, 0)))
            final[top] = below[top] if roots is None else roots
            mergers = []
            for families, own, total in upward:
                shares = _down(families, total, below, final)
                mergers.append(Merger(families, own, total, _gain(total, own), shares))
        return cls(tree, below, final, tuple(mergers))

    @property
    def measured(self) -> FloatArray:
        """Variance of the measurement of each node, infinite where there is none; shape (n,)."""
        found = self.below.copy()
        for merger in self.mergers:
            found[merger.families.parents] = merger.own
        return found

    @cached_property
    def share(self) -> FloatArray:
        """Share r of each node in the correction of its parent; 1 for roots; shape (n,)."""
        found = np.ones(len(self.tree))
        for merger in self.mergers:
            found[merger.families.children] = merger.spread(np.ones(merger.own.size), self.below)
        return found

    def estimates(self, values: FloatArray) -> FloatArray:
        """Estimate all nodes from measured values, shape (..., n), 0 where nothing is measured."""
        found = values.copy()
        sums = []
        for merger in reversed(self.mergers):
            parents = merger.families.parents
            total = summed(found, merger.families)
            found[..., parents] = merger.merged(total, found[..., parents])
            sums.append(total)
        for merger, total in zip(self.mergers, reversed(sums), strict=True):
            change = found[..., merger.families.parents] - total
            found[..., merger.families.children] += merger.spread(change, self.below)
        return found

    def innovations(
        self, values: FloatArray
    ) -> Iterator[tuple[NDArray[np.intp], FloatArray, FloatArray]]:
        """Yield parents, what their own measurement adds to their children's sum, its variance.

        Differences of measurement and sum, shape (..., q), in the order of the pass up; they are
        independent if the noise is Gaussian. Without measurement, or sum, the variance is infinite.
        """
        found = values.copy()
        for merger in reversed(self.mergers):
            families = merger.families
            total, own = summed(found, families), found[..., families.parents].copy()
            found[..., families.parents] = merger.merged(total, own)
            first = families.children.start
            places = self.tree.parent[first + families.starts]
            yield places, own - total, merger.own + merger.total


def summed(values: FloatArray, families: Families) -> FloatArray:
    """Return sums over the children of each parent."""
    return np.asarray(np.add.reduceat(values[..., families.children], families.starts, axis=-1))


def _up(tree: Tree, below: FloatArray) -> list[tuple[Families, FloatArray, FloatArray]]:
    """Merge variances from the leaves up, in place; return v and S of the runs of families."""
    found = []
    for families in reversed(tree.families):
        total, own = summed(below, families), below[families.parents].copy()
        # 1/0 is infinite, and one by that 0 again
        below[families.parents] = 1.0 / (1.0 / total + 1.0 / own)
        found.append((families, own, total))
    return found[::-1]


def _down(
    families: Families, total: FloatArray, below: FloatArray, final: FloatArray
) -> FloatArray | None:
    """Set the final variances of children from those of their parents.

    As u(1 - r) + r² w = u(1 - uc) with c = (1 - w/S)/S, shares need not be formed, unless
    something is exact or unknown, or uc is so close to 1 that the difference would cancel: then
    they are returned.
    """
    above, own, out = final[families.parents], below[families.children], final[families.children]
    np.multiply(np.repeat((1.0 - above / total) / total, families.counts), own, out=out)
    if out.max() <= _DOMINANT:  # never where one is NaN, from 0/0 or products of 0 and infinity
        np.subtract(1.0, out, out=out)
        out *= own
        return None
    share, rest = _divide(own, total, families)
    spread = np.repeat(above, families.counts)
    if np.isinf(spread.max()):
        spread[share == 0.0] = 0.0
    spread *= share
    spread *= share
    np.add(spread, rest, out=out)
    return share


def _gain(total: FloatArray, own: FloatArray) -> FloatArray:
    """S/(S + v); where nothing is measured below, 1; where both are exact, 0."""
    gain = total / (total + own)
    if np.isnan(gain.max()):
        undefined = np.isnan(gain)
        gain[undefined] = (np.isinf(total) & np.isfinite(own))[undefined]
    return np.asarray(gain)


def _divide(
    below: FloatArray, total: FloatArray, families: Families
) -> tuple[FloatArray, FloatArray]:
    """Return the share r of each child, and u(1 - r)."""
    share = below / np.repeat(total, families.counts)
    rest = 1.0 - share
    uneven = ~(rest >= 1.0 - _DOMINANT)
    rest *= below
    found = np.logical_or.reduceat(uneven, families.starts)
    # an only child has the share 1, but for 0 out of 0
    found &= (families.counts > 1) | ~(share[families.starts] > 0.0)
    if found.any():
        children = np.flatnonzero(np.repeat(found, families.counts))
        share[children], rest[children] = _divide_unevenly(below[children], families.counts[found])
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


# What was measured of each unit: one number with one variance, from any number of values.


_CONTRADICTION = 1e-9  # relative difference up to which values without noise agree


@dataclass(frozen=True, eq=False)
class Measured:
    """Values of units, merged by inverse variance."""

    # (m,): the unit that each value measures; None where value i measures unit i
    unit: NDArray[np.intp] | None
    # (m,): weight of each value in the merged value of its unit; None where each is alone
    weight: FloatArray | None
    units: int  # the number n of units

    @classmethod
    def of(
        cls, unit: NDArray[np.intp] | None, variance: FloatArray, units: int
    ) -> tuple[Measured, FloatArray]:
        """Merge values of these units, shape (m,), with these variances, shape (m,).

        Also returns the variance of the merged values, shape (n,), infinite for units that are not
        measured; where value i measures unit i, it is the array ``variance`` itself.
        """
        if unit is None:
            return cls(None, None, units), variance
        counts = np.bincount(unit, minlength=units)
        merged = np.full(units, np.inf)
        if counts.max() <= 1:
            merged[unit] = variance
            return cls(unit, None, units), merged
        exact = variance == 0.0
        exacts = np.bincount(unit[exact], minlength=units)
        precision = np.where(exact, np.inf, 1.0 / np.where(exact, 1.0, variance))
        total = np.bincount(unit, np.where(exact, 0.0, precision), units)
        weight = np.where(
            exacts[unit] > 0,
            exact / np.maximum(exacts, 1)[unit],
            np.where(exact, 0.0, precision) / np.where(total > 0.0, total, 1.0)[unit],
        )
        measured = total > 0.0
        merged[measured] = 1.0 / total[measured]
        merged[exacts > 0] = 0.0
        return cls(unit, weight, units), merged

    def merged(self, values: FloatArray) -> FloatArray:
        """Return the merged values, shape (..., n), of values, shape (..., m); 0 without any."""
        if self.unit is None:
            return values
        out = np.zeros((*values.shape[:-1], self.units))
        if self.weight is None:
            out[..., self.unit] = values
            return out
        order = np.argsort(self.unit, kind="stable")
        sorted_units = self.unit[order]
        starts = np.flatnonzero(np.diff(sorted_units, prepend=-1))
        weighted = (values * self.weight)[..., order]
        out[..., sorted_units[starts]] = np.add.reduceat(weighted, starts, axis=-1)
        return out

    def on_values(self, weights: FloatArray) -> FloatArray:
        """Return weights of the values, shape (..., m), from those of merged ones, (..., n)."""
        if self.unit is None:
            return weights
        own = weights[..., self.unit]
        return own if self.weight is None else own * self.weight

    def refuse_contradiction(
        self, values: FloatArray, variance: FloatArray, hierarchy: Hierarchy
    ) -> None:
        """Refuse values of one unit that have no noise and differ."""
        if self.unit is None or self.weight is None:
            return
        own = self.merged(values)[self.unit]
        apart = np.abs(values - own) > _CONTRADICTION * np.maximum(np.abs(own), 1.0)
        wrong = np.unique(self.unit[apart & (variance == 0.0)])
        if wrong.size:
            raise IncompatibleReleaseError(
                "values published without noise must agree, but those of the same unit differ for "
                f"{hierarchy.names(wrong)}"
            )


# Weights and covariances of the estimates of a tree, from the gains of its two passes.


def measurement_weights(gains: Gains, target: FloatArray) -> FloatArray:
    """Return what linear functions of the estimates are as functions of the measurements.

    The two passes are gone through backwards, each step transposed.
    """
    tree, weight = gains.tree, target.copy()
    returned = []
    for families in reversed(tree.families):
        of_children = weight[..., families.children] * gains.share[families.children]
        back = np.add.reduceat(of_children, families.starts, axis=-1)
        weight[..., families.parents] += back
        returned.append(back)
    for merger, back in zip(gains.mergers, reversed(returned), strict=True):
        families, gain = merger.families, merger.gain
        of_parents = weight[..., families.parents]
        of_sum = (1.0 - gain) * of_parents - back
        weight[..., families.children] += np.repeat(of_sum, families.counts, axis=-1)
        weight[..., families.parents] = gain * of_parents
    return weight


def covariances(gains: Gains, first: Places, second: Places) -> FloatArray:
    """Covariances of the estimates at pairs of places, shape (k,).

    A descendant has with its ancestor the covariance w of the ancestor times the shares on the way
    down. Two children a, b of one parent have -rₐ u_b + rₐ r_b w, and their descendants that times
    the shares on the way down.
    """
    depth = np.zeros(len(gains.tree), dtype=np.intp)
    for families in gains.tree.families:
        depth[families.children] = np.repeat(depth[families.parents] + 1, families.counts)
    parent = gains.tree.parent
    here, there = first.copy(), second.copy()
    factor, found = np.ones(first.size), np.zeros(first.size)
    left = np.arange(first.size)
    while left.size:
        a, b = here[left], there[left]
        same, sisters = a == b, (parent[a] == parent[b]) & (a != b)
        found[left[same]] = gains.variance[a[same]]
        found[left[sisters]] = _of_sisters(gains, a[sisters], b[sisters])
        left, a, b = (x[~(same | sisters)] for x in (left, a, b))
        lower = depth[a] >= depth[b]
        climber = np.where(lower, a, b)
        factor[left] *= gains.share[climber]
        here[left] = np.where(lower, parent[a], a)
        there[left] = np.where(lower, b, parent[b])
    return factor * found


def _of_sisters(gains: Gains, a: Places, b: Places) -> FloatArray:
    """Covariances of children of one parent; roots have none."""
    swap = np.isinf(gains.below[b])
    a, b = np.where(swap, b, a), np.where(swap, a, b)
    parent = gains.tree.parent[a]
    together = gains.share[a] * gains.share[b]
    above = np.where(together > 0.0, gains.variance[parent], 0.0)
    # nothing is known of two that are both unknown, and of those below them by way of these
    apart = np.where(np.isinf(gains.below[b]), 0.0, gains.below[b])
    return np.where(parent < 0, 0.0, together * above - gains.share[a] * apart)


# Which places of a tree have errors of the same law, because their trees look alike.


Hashes = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Classes:
    """Numbers of the places of a tree, equal where laws are."""

    below: Places  # (n,): equal where what is measured in and below places has the same form
    below_first: Places  # the first place of each of these numbers
    whole: Places  # (n,): equal where that holds for all that is measured, as seen from the place
    first: Places  # the first place of each of these numbers

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


# Whether the values of a hierarchy agree as well as their noise says, and which agree least.


def overlap(fit: Any) -> Overlap:
    """Return Q = Σ (y - x̂)²/v of the values of a hierarchy.

    Whole numbers that add up are taken off the published values first, so that the size of the
    confidential values does not make for rounding errors.
    """
    unit, variance = fit.value_units, fit.value_variance
    precision = np.divide(1.0, variance, out=np.zeros(variance.shape), where=variance > 0.0)

    def of(values: FloatArray) -> FloatArray:
        """Q for values, shape (..., m)."""
        return np.asarray(np.square(values - fit.refit(values)[..., unit]) @ precision)

    # all noisy values of a unit but one; all where it was published without noise, too
    units = len(fit.hierarchy)
    several = np.bincount(unit[variance > 0.0], minlength=units)
    exact = np.bincount(unit[~(variance > 0.0)], minlength=units) > 0
    degrees = int(np.maximum(several - ~exact, 0).sum()) + sum(
        int(np.count_nonzero((merged > 0.0) & np.isfinite(merged)))
        for *_, merged in fit.innovations(fit.values)
    )
    return Overlap(
        degrees=degrees,
        mechanism=fit.mechanism,
        size=int(fit.values.size),
        observed=lambda: of(fit.values - fit.nearest_whole()[unit]),
        draw=lambda size, rng: of(
            np.asarray(fit.mechanism.rvs((size, fit.values.size), rng=rng), dtype=np.float64)
        ),
    )


def disagreements(fit: Any, most: int) -> pd.DataFrame:
    """Return the values that differ most from the estimates."""
    import pandas as pd

    most = check_integer(most, "most", ge=1)
    unit, variance = fit.value_units, fit.value_variance
    residual = fit.values - fit.estimates[unit]
    # of a residual; positive by theory, and 0 for a value that no other bears on
    own = np.maximum(variance - fit.variance[unit], 0.0)
    checked = np.flatnonzero(own > CHECKED * variance)
    score = residual[checked] / np.sqrt(own[checked])
    order = np.argsort(-np.abs(score), kind="stable")[:most]
    rows, score = checked[order], score[order]
    labels = fit.hierarchy.labels
    std_err = np.sqrt(own[rows])

    def law(at: int) -> WeightedSum:
        (block,) = fit.weight_blocks(unit[rows[[at]]])
        weights = -block[0]
        weights[rows[at]] += 1.0
        found: WeightedSum = fit.noise(weights)
        return found

    pvalue, method = exact_pvalues(
        residual[rows],
        std_err,
        law=law,
        terms=fit.values.size,
        gaussian=fit.is_gaussian,
        bound=lambda: fit.bound_of_any,
    )
    return disagreement_frame(
        fit.values[rows],
        fit.estimates[unit[rows]],
        residual[rows],
        std_err,
        score,
        pvalue,
        index=pd.Index(unit[rows], name="unit") if labels is None else labels[unit[rows]],
        method=method,
        compared=int(checked.size),
    )


def parent_tests(fit: Any) -> pd.DataFrame:
    """Return, for units with values and children, how the values differ from the children's sum."""
    import pandas as pd

    none = (np.empty(0, dtype=np.intp), np.empty(0), np.empty(0))
    parts = [none, *fit.innovations(fit.values)]
    place, difference, variance = (np.concatenate(column) for column in zip(*parts, strict=True))
    there = np.isfinite(variance) & (variance > 0.0)
    order = fit.hierarchy.tree.order
    place, difference, std_err = place[there], difference[there], np.sqrt(variance[there])
    unit = place if order is None else order[place]
    score = difference / std_err
    labels, laws = fit.hierarchy.labels, fit.laws
    pvalue, method = exact_pvalues(
        difference,
        std_err,
        law=lambda at: fit.noise(fit.innovation_weights(int(place[at]))),
        terms=fit.values.size,
        gaussian=fit.is_gaussian,
        bound=lambda: fit.bound_of_any,
        together=(
            (lambda size, small: laws.difference_tails(place, size, small))
            if laws.supported
            else None
        ),
    )
    frame = pd.DataFrame(
        {
            "difference": difference,
            "std_err": std_err,
            "z": score,
            "pvalue": pvalue,
        },
        index=pd.Index(unit, name="unit") if labels is None else labels[unit],
    )
    frame.attrs = {"method": method}
    return frame.iloc[np.argsort(unit, kind="stable")]
