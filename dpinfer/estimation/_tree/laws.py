"""Laws of the errors of all units of a tree of numbers, from characteristic functions.

With s the sum of the children's estimates z from below, and m a unit's own noise, the error of the
final estimate of a unit is x = βs + U, where U is independent of all below. A child has

    x_c = (1 + g)z_c + g·(sum of its sisters' z) + r·U,    U_c = w·m_c + g·(sisters) + r·U,

with g = r(β - 1), w = (1 + g)k and β_c = (1 + g)(1 - k). The parts are independent, so that the
logarithms of their characteristic functions φ add up: one pass up, one pass down, for each form of
tree once. Tables hold ln φ(t)/t² at points in units of one over their own standard deviations; as
parts are narrower than sums, they are looked up inside. Own noises, and sums over leaves of equal
noise, are in closed form at any t. Then Gil-Pelaez' formula gives all tails at once.

Errors of a tail are added up law by law:

- what the sum over nodes folds in from beyond its period: Chernoff's inequality, proved;
- interpolation: from tables of twice the step, 64 times less for degree 5, handed on with the
  tables: an estimate;
- what is beyond the last node: proved where all noise is continuous, as -d ln φ/d ln t grows with
  t then; an estimate where the parts without closed form have decayed, over the last nodes and as
  far as tables reach: φ beyond has the root mean square that independent phases give;
- else the error is convolved with a density of support ±δ whose transform is 1/(2 sinh b) beyond
  the last node, which is proved: half-widths are at most 2δ too large, and never too small.

Weights of whole-numbered noise in trees of few levels have common divisors, and φ is 1 again at 2π
over these: such errors are moved by that step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray
from dpinfer.estimation._tree.noise import OwnNoise, blocks, joint, multiples
from dpinfer.estimation._tree.scalar import Classes
from dpinfer.estimation.bounds import NoiseBound
from dpinfer.estimation.pivots import Found
from dpinfer.queries.hierarchy import Places

_STEP = 0.1  # distance of the points of tables, in units of one over the standard deviation
_REACH = 36.0
"""How far tables of what is above are valid, in units of one over the standard deviation."""

_LARGE = 0.51  # share of a child in a sum from which on the sum of the others is formed by itself
_POINTS = 4 + int(np.ceil(_REACH / np.sqrt(1.0 - _LARGE) / _STEP))
"""Points of a table: sums less one term are wanted further than what is left of them."""

_END = (_POINTS - 4) * _STEP  # how far tables of sums are valid
_LENT = 512  # tables of places whose children have none, at a time
_DECAYED = 1e-8  # what may be left out, as estimated
_LEFT_OUT = 10.0  # what is left out, relative to the largest modulus at the last nodes
_SMOOTHED = 1e-7  # what a smoothed error leaves out, at most
_ENOUGH = 1e-6  # what may be left out of a continuous one so that it need not be smoothed
_ALIASED = 1e-9  # probability beyond the period of the nodes, at most
_LAST = 0.7  # part of the nodes after which φ has to have decayed
_CHUNK = 32  # nodes whose phases are products of one factor
_NODES = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
_LAST_PROBES, _PROBES = 24, 128  # points at the last nodes, and from there to the end of tables
_REVIVED = -13.8  # ln of a modulus at which a part that is 1 again counts
_ROUNDING = 1e-12
_WIDEST = 0.25  # δ in standard deviations, at most

_AROUND = np.arange(-2, 4)
_LAGRANGE = np.array(
    [np.poly(_AROUND[at != _AROUND])[::-1] / np.prod(at - _AROUND[at != _AROUND]) for at in _AROUND]
)
"""Coefficients of the polynomials, of degree 5, that are 1 at one of six points."""

_MIDDLE = np.array([3.0, -25.0, 150.0, 150.0, -25.0, 3.0]) / 256.0  # the same, halfway


class TreeLaws:
    """Laws of the errors of the units of a hierarchy."""

    def __init__(self, fit: Any) -> None:
        self.own = OwnNoise(fit)
        self.tree = tree = fit.hierarchy.tree
        self.bounds: Callable[[bool], NoiseBound] = lambda estimates: (
            fit.bound if estimates else fit.bound_of_any
        )
        gains = fit.gains
        known = np.where(np.isfinite(gains.below), gains.below, 0.0)
        own = gains.measured
        own = np.where(np.isfinite(own), own, 0.0)
        roots = int(np.searchsorted(tree.parent, 0))
        share = np.nan_to_num(gains.share, posinf=0.0)
        share[:roots] = 0.0
        size = len(tree)
        self.first = np.searchsorted(tree.parent, np.arange(size + 1))
        self.count = np.diff(self.first)
        self.inner = self.count > 0
        hashes = np.where(self.inner | ~(own > 0.0), np.uint64(0), self.own.hashes)
        gain, total, others = np.ones(size), np.zeros(size), np.zeros(size)
        dominant, alike = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
        for merger in gains.mergers:
            families = merger.families
            part = known[families.children]
            sums = np.add.reduceat(part, families.starts)
            gain[families.parents], total[families.parents] = merger.gain, sums
            spread = np.repeat(sums, families.counts)
            large = part > _LARGE * spread
            rest = np.add.reduceat(np.where(large, 0.0, part), families.starts)
            dominant[families.children] = large
            others[families.children] = np.where(
                large, np.repeat(rest, families.counts), spread - part
            )
            same = hashes[families.children]
            equal = (same == np.repeat(same[families.starts], families.counts)) & (same > 0)
            alike[families.parents] = np.logical_and.reduceat(equal, families.starts)
        others[others < 1e-14 * total[tree.parent]] = 0.0  # of an only child
        grow, upper, beta = np.zeros(size), np.zeros(size), 1.0 - gain
        rest = np.zeros(size)
        upper[:roots] = np.square(gain[:roots]) * own[:roots]
        for families in tree.families:
            at, counts = families.children, families.counts
            grow[at] = share[at] * np.repeat(beta[families.parents] - 1.0, counts)
            beta[at] = (1.0 + grow[at]) * (1.0 - gain[at])
            rest[at] = np.square(grow[at]) * others[at] + np.square(share[at]) * np.repeat(
                upper[families.parents], counts
            )
            upper[at] = np.square((1.0 + grow[at]) * gain[at]) * own[at] + rest[at]
        self.gain, self.grow, self.share, self.beta = gain, np.abs(grow), share, np.abs(beta)
        self.weight = np.where(own > 0.0, np.abs((1.0 + grow) * gain), 0.0)
        self.own_std, self.alike = np.sqrt(own), alike
        self.dominant = dominant & (others > 0.0) & ~alike[tree.parent]
        self.total, self.others, self.rest = np.sqrt(total), np.sqrt(others), np.sqrt(rest)
        # how far ln φ of the sums over children is known
        self.sum_reach = np.full(size, np.inf)
        for families in reversed(tree.families):
            above, child = families.parents, families.children.start + families.starts
            with np.errstate(divide="ignore"):
                table = _END / self.total[above]
                single = self.sum_reach[child] / (1.0 - gain[child])
            reach = np.where(families.counts == 1, single, table)
            self.sum_reach[above] = np.where(alike[above], np.inf, reach)
        # parents of leaves of different whole-numbered noise: their sums are whole
        loose = np.zeros(size, dtype=bool)
        leaves = ~self.inner & self.own.whole & (tree.parent >= 0)
        loose[tree.parent[leaves]] = True
        self.loose = loose & ~alike

    @property
    def supported(self) -> bool:
        """Whether the laws of the noise are those that are dealt with here."""
        return self.own.supported

    @cached_property
    def classes(self) -> Classes:
        """Which places have equal laws."""
        return Classes.of(self.tree, self.own.hashes)

    def half_widths(self, places: Places, q: float) -> Found:
        """Return x with P(error > x) <= q for errors at places."""
        weight = self.weight[places]
        rows = _Rows.of(self, places, weight, np.where(self.inner[places], self.beta[places], 0.0))
        found = Found.none(places.size)
        alone = rows.spread == 0.0
        found.value[alone] = self.own.isf(places[alone], q) * weight[alone]
        furthest = self.bounds(True).chernoff(2.0 * q)
        for some in self._families(places, np.flatnonzero(~alone)):
            for at, inversion in self._inversions(rows, some, furthest, True):
                found.value[at] = inversion.quantiles(q)
                found.error[at] = inversion.error
                found.excess[at] = 2.0 * inversion.width
        return found

    def difference_tails(self, places: Places, size: FloatArray, small: float) -> Found:
        """Return bounds on P(m - s >= size) of own values less the children's sums.

        Tails that are certainly below ``small`` are not found.
        """
        ones = np.ones(places.size)
        own = np.where(self.own_std[places] > 0.0, ones, 0.0)
        rows = _Rows.of(self, places, own, ones, around=False)
        found = Found.none(places.size)
        furthest = self.bounds(False).chernoff(2.0 * small)
        chosen = np.flatnonzero((rows.spread > 0.0) & (size <= furthest * rows.std))
        for at, inversion in self._inversions(rows, chosen, furthest, False):
            found.value[at] = inversion.tails(size[at])
            found.error[at] = inversion.error
            found.excess[at] = 2.0 * inversion.width
        return found

    def _inversions(
        self, rows: _Rows, chosen: Places, furthest: float, estimates: bool
    ) -> Iterator[tuple[Places, _Inversion]]:
        """Yield those of the chosen errors whose laws can be found, some at a time.

        ``furthest`` standard deviations is the largest argument of their tails.
        """
        period = furthest + self.bounds(estimates).chernoff(_ALIASED) + _WIDEST
        plans = [_Plan.of(rows.take(at), period) for at in blocks(chosen, _PROBES)]
        if not plans:
            return
        plan = _Plan.joined(plans)
        for nodes in np.unique(plan.nodes):
            for at in blocks(np.flatnonzero(plan.nodes == nodes), int(nodes)):
                some = plan.take(at)
                yield chosen[at], _Inversion.of(rows.take(chosen[at]), some)

    @cached_property
    def sums(self) -> _Table:
        """Tables of the sums over children, by the number of what is below their parent."""
        below = self.classes.below
        first = self.classes.below_first
        first = first[(self.count[first] > 1) & ~self.alike[first]]
        found = _Table(below[first], int(below.max(initial=0)) + 1)
        self.__dict__["sums"] = found  # those of lower trees are used for those of higher ones
        for same in _levels(self.height[first]):
            for at in blocks(same, _POINTS):
                self._add_up(found, at, first[at], self.total[first[at]])
        return found

    @cached_property
    def sisters(self) -> _Table:
        """Tables of the sums over the sisters of places that hold most of a sum."""
        places = self.classes.first
        places = places[self.dominant[places]]
        found = _Table(self.classes.whole[places], self.classes.first.size)
        parents = self.tree.parent[places]
        self._add_up(found, np.arange(places.size), parents, self.others[places], places)
        return found

    @cached_property
    def uppers(self) -> _Table:
        """Tables of U without own noise, by the number of the law of places with grandchildren.

        Of places with children only, which are most, there are some at a time: see `_families`.
        """
        first = self._with_uppers
        first = first[self.height[first] > 1]
        found = _Table(self.classes.whole[first], self.classes.first.size, _LENT)
        self.__dict__["uppers"] = found  # those of parents are used for those of children
        for same in _levels(self.depth[first]):
            self._fill_uppers(found, same, first[same])
        return found

    @property
    def _with_uppers(self) -> Places:
        """A place of each law with children and something above."""
        first = self.classes.first
        return first[self.inner[first] & (self.rest[first] > 0.0)]

    def _fill_uppers(self, table: _Table, rows: Places, places: Places) -> None:
        for at in blocks(np.arange(places.size), _POINTS):
            parts = _Rows.of(self, places[at], np.zeros(at.size), np.zeros(at.size))
            logs = np.sum(parts.logs(_grid(parts.spread)), axis=0)
            table.fill(rows[at], logs, parts.spread, parts.table_error)

    def _families(self, places: Places, chosen: Places) -> Iterator[Places]:
        """Yield the chosen of some places, with tables of U for the parents of those yielded."""
        first = self._with_uppers
        lent = np.zeros(self.classes.first.size + 1, dtype=bool)  # the last for those above roots
        lent[self.classes.whole[first[self.height[first] == 1]]] = True
        parent = self.tree.parent[places[chosen]]
        number = np.where(parent >= 0, self.classes.whole[parent], -1)
        yield chosen[~lent[number]]
        numbers = np.unique(number[lent[number]])
        for start in range(0, numbers.size, _LENT):
            some = numbers[start : start + _LENT]
            self._fill_uppers(self.uppers, self.uppers.lend(some), self.classes.first[some])
            yield chosen[(number >= some[0]) & (number <= some[-1]) & lent[number]]

    def log_below(self, places: Places, t: FloatArray) -> FloatArray:
        """Ln φ of z, the estimates of places from what is below them; shape (k, N)."""
        gain = self.gain[places]
        found = np.zeros(t.shape)
        at = np.flatnonzero((self.own_std[places] > 0.0) & (gain > 0.0))
        found[at] = self.own.log_cf(places[at], t[at] * gain[at, np.newaxis])
        more = np.flatnonzero(self.inner[places] & (gain < 1.0) & (self.total[places] > 0.0))
        if more.size:
            rest = (1.0 - gain[more])[:, np.newaxis]
            found[more] += self.log_sum(places[more], t[more] * rest)
        return found

    def log_sum(self, places: Places, t: FloatArray) -> FloatArray:
        """Ln φ of the sums over the children of places; shape (k, N)."""
        found = np.empty(t.shape)
        alike, single = self.alike[places], self.count[places] == 1
        at = np.flatnonzero(alike)
        if at.size:
            times = self.count[places[at], np.newaxis]
            found[at] = self.own.log_cf(self.first[places[at]], t[at]) * times
        at = np.flatnonzero(single & ~alike)
        if at.size:
            found[at] = self.log_below(self.first[places[at]], t[at])
        at = np.flatnonzero(~(single | alike))
        if at.size:
            scaled = t[at] * self.total[places[at], np.newaxis]
            found[at] = self.sums.at(self.classes.below[places[at]], scaled)
        return found

    def sum_error(self, places: Places) -> FloatArray:
        """Errors of ln φ of sums over children, over t²."""
        found, factor = np.zeros(places.size), np.ones(places.size)
        left = np.flatnonzero(self.inner[places] & ~self.alike[places] & (self.total[places] > 0.0))
        while left.size:
            single = self.count[places[left]] == 1
            at = left[~single]
            found[at] = factor[at] * self.sums.error_of(self.classes.below[places[at]])
            left = left[single]
            places = places.copy()
            places[left] = self.first[places[left]]
            factor[left] *= np.square(1.0 - self.gain[places[left]])
            left = left[self.inner[places[left]] & ~self.alike[places[left]] & (factor[left] > 0.0)]
        return found

    def _children(
        self, parents: Places, without: Places | None = None
    ) -> tuple[Places, Places, Places]:
        """Return rows of parents, their children of different form, and how many are of each."""
        counts = self.count[parents]
        row = np.repeat(np.arange(parents.size), counts)
        ends = np.cumsum(counts)
        child = np.arange(ends[-1] if ends.size else 0)
        child += np.repeat(self.first[parents] - ends + counts, counts)
        if without is not None:
            kept = child != without[row]
            row, child = row[kept], child[kept]
        kind = self.classes.below[child]
        key = row * (self.classes.below_first.size + 1) + kind
        _, pairs, times = np.unique(key, return_index=True, return_counts=True)
        return row[pairs], child[pairs], times

    @cached_property
    def lattices(self) -> tuple[FloatArray, FloatArray]:
        """What is known of φ far out, of laws and of sums over children, by number, shape (2, r).

        The largest number of which errors are multiples, up to 1e-7 of a weight: in trees of few
        levels it is often larger than that. 0 where there is continuous noise. And the logarithm
        of the root mean square of φ if weights have nothing in common, -∞ with continuous noise.
        """
        classes, tree = self.classes, self.tree
        none = np.array([[np.inf], [0.0]])
        below, whole = none.repeat(classes.below_first.size, 1), none.repeat(classes.first.size, 1)
        above = whole.copy()  # of U

        def of_z(places: Places) -> FloatArray:
            gain = self.gain[places]
            rest = multiples(1.0 - gain, below[:, classes.below[places]])
            return joint(self.own_lattice(places, gain), rest)

        def of_children(parents: Places, without: Places | None = None) -> FloatArray:
            found = none.repeat(parents.size, 1)
            at = np.flatnonzero(self.alike[parents])
            first = self.first[parents[at]]
            times = self.count[parents[at]] - (0 if without is None else 1)
            found[:, at] = self.own_lattice(first, (times > 0).astype(np.float64), times)
            others = np.flatnonzero(~self.alike[parents])
            row, child, _ = self._children(
                parents[others], None if without is None else without[others]
            )
            rank = np.arange(row.size) - np.searchsorted(row, row)
            for number in range(int(rank.max(initial=-1)) + 1):
                at = np.flatnonzero(rank == number)
                to = others[row[at]]
                found[:, to] = joint(found[:, to], of_z(child[at]))
            return found

        first = classes.below_first[self.inner[classes.below_first]]
        for same in _levels(self.height[first]):
            below[:, classes.below[first[same]]] = of_children(first[same])
        first = classes.first
        for same in _levels(self.depth[first]):
            places = first[same]
            parent, top = tree.parent[places], tree.parent[places] < 0
            found = joint(
                multiples(
                    np.where(top, 0.0, self.grow[places]),
                    of_children(np.maximum(parent, 0), places),
                ),
                multiples(np.where(top, 0.0, self.share[places]), above[:, classes.whole[parent]]),
            )
            above[:, same] = joint(self.own_lattice(places, self.weight[places]), found)
            under = multiples(self.beta[places], below[:, classes.below[places]])
            whole[:, same] = joint(above[:, same], np.where(self.inner[places], under, none))
        whole[0] = np.where(np.isfinite(whole[0]), whole[0], 0.0)
        return whole, below

    def own_lattice(
        self, places: Places, weight: FloatArray, times: Places | None = None
    ) -> FloatArray:
        """Return that of the own noise of places, or of sums of so many like it, times weights."""
        at = np.flatnonzero((self.own_std[places] > 0.0) & (weight > 0.0))
        found = np.array([[np.inf], [0.0]]).repeat(places.size, 1)
        number = np.ones(at.size) if times is None else times[at].astype(np.float64)
        found[:, at] = self.own.lattice(places[at], number, self.own_std[places[at]])
        return multiples(weight, found)

    @cached_property
    def height(self) -> Places:
        """How many levels there are below each place."""
        height = np.zeros(len(self.tree), dtype=np.intp)
        for families in reversed(self.tree.families):
            height[families.parents] = 1 + np.maximum.reduceat(
                height[families.children], families.starts
            )
        return height

    @cached_property
    def depth(self) -> Places:
        """How many levels there are above each place."""
        depth = np.zeros(len(self.tree), dtype=np.intp)
        for families in self.tree.families:
            depth[families.children] = np.repeat(depth[families.parents] + 1, families.counts)
        return depth

    def _add_up(
        self,
        table: _Table,
        rows: Places,
        parents: Places,
        spread: FloatArray,
        without: Places | None = None,
    ) -> None:
        """Fill rows of a table with the sums over the children of places, but for some."""
        row, child, times = self._children(parents, without)
        size = np.where(spread > 0.0, spread, 1.0)
        total = np.zeros((parents.size, _POINTS + 2))
        for at in blocks(np.arange(row.size), _POINTS):
            t = _grid(size[row[at]])
            part = self.log_below(child[at], t) * times[at, np.newaxis]
            starts = np.flatnonzero(np.diff(row[at], prepend=-1))
            total[row[at[starts]]] += np.add.reduceat(part, starts, axis=0)
        error = np.square(1.0 - self.gain[child]) * self.sum_error(child) * times
        error = np.bincount(row, error, parents.size).astype(np.float64)
        table.fill(rows, total, size, error)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Errors as sums of independent parts, one a row.

    Own noise of a place, the sum of its children's z, the sum of its sisters' z, own noise of its
    parent and what else is in U there, with these weights.
    """

    laws: TreeLaws
    place: Places
    parent: Places  # of roots 0, which is not used
    weight: FloatArray
    below: FloatArray
    sisters: FloatArray
    own_above: FloatArray
    above: FloatArray
    around: NDArray[np.bool_]  # whether it is the error of an estimate, or of own value less sum

    @classmethod
    def of(
        cls,
        laws: TreeLaws,
        place: Places,
        weight: FloatArray,
        below: FloatArray,
        *,
        around: bool = True,
    ) -> _Rows:
        """Make errors with these weights of what is in and below a place."""
        parent = np.maximum(laws.tree.parent[place], 0)
        share = np.where(laws.tree.parent[place] >= 0, laws.share[place], 0.0) * around
        return cls(
            laws,
            place,
            parent,
            weight,
            np.where(laws.total[place] > 0.0, below, 0.0),
            np.where(laws.others[place] > 0.0, laws.grow[place], 0.0) * around,
            np.where(laws.own_std[parent] > 0.0, share * laws.weight[parent], 0.0),
            np.where(laws.rest[parent] > 0.0, share, 0.0),
            np.full(place.size, around),
        )

    def take(self, at: Places) -> _Rows:
        """Return some rows."""
        parts = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "laws"}
        return _Rows(self.laws, **{name: part[at] for name, part in parts.items()})

    @cached_property
    def _spreads(self) -> FloatArray:
        """Standard deviations of the parts but own noise."""
        laws = self.laws
        return np.array(
            [
                self.below * laws.total[self.place],
                self.sisters * laws.others[self.place],
                self.own_above * laws.own_std[self.parent],
                self.above * laws.rest[self.parent],
            ]
        )

    @cached_property
    def spread(self) -> FloatArray:
        """Standard deviation of all parts but own noise."""
        return np.asarray(np.sqrt(np.sum(np.square(self._spreads), axis=0)))

    @cached_property
    def std(self) -> FloatArray:
        """Standard deviation of the error."""
        return np.hypot(self.spread, self.weight * self.laws.own_std[self.place])

    @cached_property
    def reach(self) -> FloatArray:
        """How far ln φ of the parts is known."""
        laws, place, parent = self.laws, self.place, self.parent
        _, sisters, _, above = self._spreads
        large = laws.dominant[place]
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.minimum(
                np.where(self.below > 0.0, laws.sum_reach[place] / self.below, np.inf),
                np.where(large, _END / sisters, laws.sum_reach[parent] / self.sisters),
            )
            return np.asarray(np.fmin(found, _REACH / above))

    @cached_property
    def table_error(self) -> FloatArray:
        """Estimated error of ln φ by the tables of the parts, over t²."""
        laws, place, parent = self.laws, self.place, self.parent
        found = np.square(self.below) * laws.sum_error(place)
        large = laws.dominant[place] & (self.sisters > 0.0)
        there = (self.sisters > 0.0) & ~large & ~laws.alike[parent]
        at = np.flatnonzero(large)
        found[at] += np.square(self.sisters[at]) * laws.sisters.error_of(
            laws.classes.whole[place[at]]
        )
        at = np.flatnonzero(there)
        own = np.square(1.0 - laws.gain[place[at]]) * laws.sum_error(place[at])
        found[at] += np.square(self.sisters[at]) * (laws.sum_error(parent[at]) + own)
        at = np.flatnonzero(self.above > 0.0)
        found[at] += np.square(self.above[at]) * laws.uppers.error_of(
            laws.classes.whole[parent[at]]
        )
        return found

    def logs(self, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Ln φ at points, shape (k, N): of whole-numbered parts in closed form, and of others."""
        closed, tables = self.log_closed(t), self.log_tables(t)
        return (np.zeros(t.shape), closed + tables) if self.smooth else (closed, tables)

    @property
    def smooth(self) -> bool:
        """Whether all noise is continuous, so that φ decreases."""
        return not self.laws.own.any_whole

    def log_closed(self, t: FloatArray) -> FloatArray:
        """Ln φ of the parts that are in closed form."""
        laws, found = self.laws, np.zeros(t.shape)
        for at, places, weight, times in self._closed:
            part = laws.own.log_cf(places, t[at] * weight)
            found[at] += part if times is None else part * times
        return found

    @cached_property
    def _closed(self) -> list[tuple[Any, Places, FloatArray, FloatArray | None]]:
        """Rows, places of noises, their weights and numbers for the parts in closed form."""
        laws, place, parent = self.laws, self.place, self.parent
        first, count = laws.first[place], laws.count
        return [
            (_all(at, place.size), which[at], weight[at, np.newaxis], _column(times, at))
            for which, weight, times, there in (
                (place, self.weight, None, None),
                (first, self.below, count[place], laws.alike[place]),
                (place, self.sisters, count[parent] - 1, laws.alike[parent]),
                (parent, self.own_above, None, None),
            )
            for at in [np.flatnonzero((weight > 0.0) & (True if there is None else there))]
            if at.size
        ]

    def log_tables(self, t: FloatArray) -> FloatArray:
        """Ln φ of the parts that are in tables."""
        laws, found = self.laws, np.zeros(t.shape)
        classes, place, parent = laws.classes, self.place, self.parent
        at = np.flatnonzero((self.below > 0.0) & ~laws.alike[place])
        if at.size:
            found[at] = laws.log_sum(place[at], t[at] * self.below[at, np.newaxis])
        there, large = (self.sisters > 0.0) & ~laws.alike[parent], laws.dominant[place]
        at = np.flatnonzero(there & large)
        if at.size:
            scale = (self.sisters[at] * laws.others[place[at]])[:, np.newaxis]
            found[at] += laws.sisters.at(classes.whole[place[at]], t[at] * scale)
        at = np.flatnonzero(there & ~large)
        if at.size:
            arguments = t[at] * self.sisters[at, np.newaxis]
            found[at] += laws.log_sum(parent[at], arguments)
            found[at] -= laws.log_below(place[at], arguments)
        at = np.flatnonzero(self.above > 0.0)
        if at.size:
            scale = (self.above[at] * laws.rest[parent[at]])[:, np.newaxis]
            found[at] += laws.uppers.at(classes.whole[parent[at]], t[at] * scale)
        return found

    def left_out(self, end: FloatArray, spacing: FloatArray, points: int) -> FloatArray:
        """Bound (1/π)∫ φ/t dt from points near ``end`` on.

        Where all noise is continuous, p = -d ln φ/d ln t grows with t: it is at most φ/(πp).
        Otherwise it is an estimate.
        """
        with np.errstate(under="ignore"):
            if not self.smooth:
                return _LEFT_OUT * np.exp(self.highest(_LAST * end, end, points))
            t = np.stack([end - 1.5 * spacing, end - 0.5 * spacing], axis=1)
            rest = self.logs(t)[1]
            rate = np.diff(rest).ravel() / np.log(t[:, 1] / t[:, 0])
            return np.asarray(np.exp(rest[:, 1]) / (np.pi * np.maximum(rate, 1e-3)))

    def highest(self, start: FloatArray, stop: FloatArray, points: int) -> FloatArray:
        """Return the largest ln φ of the parts without closed form at points of a range."""
        t = stop[:, np.newaxis] - np.linspace(0.0, 1.0, points) * (stop - start)[:, np.newaxis]
        return np.asarray(self.logs(t)[1].max(axis=1))

    @property
    def lattice(self) -> FloatArray:
        """What is known of φ far out, shape (2, k)."""
        laws = self.laws
        estimates, sums = laws.lattices
        below = sums[:, laws.classes.below[self.place]]
        alone = joint(laws.own_lattice(self.place, self.weight), below)
        return np.where(self.around, estimates[:, laws.classes.whole[self.place]], alone)

    @property
    def far(self) -> FloatArray:
        """What φ beyond all that is known may add to tails of whole-numbered errors, about.

        Chances of values within 1/reach are not told apart: three times the root of the sum of
        their squares, at a density of 0.1 standard deviations.
        """
        with np.errstate(under="ignore"):
            return np.asarray(
                3.0 * np.exp(self.lattice[1]) * np.sqrt(0.1 / (self.reach * self.std))
            )

    @property
    def guard(self) -> FloatArray:
        """Step of errors, or half of that of parts, whose φ is 1 again further out than is known.

        Half would do where chances of neighbours are alike. That of parts is known of sums over
        leaves, and counts unless closed parts are 0 there.
        """
        laws, place, parent = self.laws, self.place, self.parent
        found = self.lattice[0]
        for step in self.below * laws.loose[place], self.sisters * laws.loose[parent]:
            with np.errstate(divide="ignore"):
                at = np.flatnonzero((step > 0.0) & (2.0 * np.pi / step > self.reach))
            if at.size:
                t = 2.0 * np.pi * np.arange(1.0, 4.0) / step[at, np.newaxis]
                there = self.take(at).log_closed(t).max(axis=1) > _REVIVED
                found[at] = np.maximum(found[at], np.where(there, 0.5 * step[at], 0.0))
        return np.asarray(found)

    def at_nodes(self, t: FloatArray) -> FloatArray:
        """Ln φ at points, shape (k, N); -∞ where sums over equal leaves alone are below e⁻²⁵."""
        alive = np.ones(t.shape, dtype=bool)
        for at, places, weight, times in self._closed:
            if times is not None and self.laws.own.whole[places].all():
                angle = t[at] * (weight / (2.0 * np.pi))
                angle -= np.rint(angle)
                reach = self.laws.own.decay(places, times[:, 0]) / (2.0 * np.pi)
                alive[at] &= np.abs(angle) <= reach[:, np.newaxis]
        if np.count_nonzero(alive) > 0.6 * alive.size:
            return np.asarray(np.sum(self.logs(t), axis=0))
        row, column = np.nonzero(alive)
        found = np.full(t.shape, -np.inf)
        for at in blocks(np.arange(row.size), 1):
            some = t[row[at], column[at], np.newaxis]
            found[row[at], column[at]] = np.sum(self.take(row[at]).logs(some), axis=0)[:, 0]
        return found


class _Plan(NamedTuple):
    """How errors are inverted, one a row."""

    nodes: Places  # number of nodes, one of a few
    used: FloatArray  # number of those of them at which φ is known
    spacing: FloatArray  # distance of the nodes, the first at half of it
    # what is left out beyond the last node that is used, at most
    left_out: FloatArray
    b: FloatArray  # exponent b of the density by which errors are smoothed; 0 for none
    width: FloatArray  # its half-width δ
    guard: FloatArray  # how much further errors are moved

    def take(self, at: Places) -> _Plan:
        """Return some rows."""
        found: list[Any] = [part[at] for part in self]
        return _Plan(*found)

    @classmethod
    def joined(cls, plans: list[_Plan]) -> _Plan:
        """Return the rows of all."""
        found: list[Any] = [np.concatenate(parts) for parts in zip(*plans, strict=True)]
        return cls(*found)

    @classmethod
    def of(cls, rows: _Rows, period: float) -> _Plan:
        """Find out how many nodes are needed over a period in standard deviations."""
        size = rows.place.size
        spacing = 2.0 * np.pi / (period * rows.std)
        most = np.clip(np.floor(rows.reach / spacing), 2.0, _NODES[-1])
        used, left_out, b = most.copy(), np.full(size, _SMOOTHED), np.full(size, np.nan)
        left = np.arange(size)
        for nodes in _NODES:
            left = left[nodes <= most[left]]
            if not left.size:
                break
            some, end = rows.take(left), nodes * spacing[left]
            missed = some.left_out(end, spacing[left], 1)
            for points in () if rows.smooth else (_LAST_PROBES, _PROBES):
                at = np.flatnonzero(missed <= _DECAYED)
                part = some.take(at)
                if points == _LAST_PROBES:
                    missed[at] = part.left_out(end[at], spacing[at], points)
                else:
                    revived = _LEFT_OUT * np.exp(
                        part.highest(end[at], np.minimum(part.reach, 100.0 * end[at]), points)
                    )
                    missed[at] = np.maximum(missed[at], revived)
            done = missed <= (_ALIASED if rows.smooth else _DECAYED)
            missed = missed if rows.smooth else missed + some.far
            used[left[done]], left_out[left[done]], b[left[done]] = nodes, missed[done], 0.0
            left = left[~done]
        at = np.flatnonzero(np.isnan(b))
        if at.size:
            some = rows.take(at)
            missed = some.left_out(used[at] * spacing[at], spacing[at], _LAST_PROBES)
            enough = rows.smooth & (missed <= _ENOUGH)
            b[at] = np.where(enough, 0.0, np.arcsinh(0.5 * np.minimum(missed, 1.0) / _SMOOTHED))
            left_out[at] = np.where(enough, missed, _SMOOTHED)
        number = np.asarray(_NODES)[np.searchsorted(_NODES, used)]
        guard = np.zeros(size) if rows.smooth else rows.guard
        return cls(number, used, spacing, left_out, b, b / (used * spacing), guard)


def _all(at: Places, size: int) -> Any:
    """Return rows, as a slice where they are all."""
    return slice(None) if at.size == size else at


def _column(times: Places | None, at: Places) -> FloatArray | None:
    return None if times is None else times[at, np.newaxis].astype(np.float64)


@dataclass(frozen=True, eq=False)
class _Inversion:
    """The tails P(X > x) = 1/2 - (1/π)∫ φ(t) sin(tx)/t dt of errors, one a row."""

    spacing: FloatArray  # (k,): distance of the nodes, the first at half of it
    factor: FloatArray  # (k, N/32, 32): φ(t)/t times their distance, over π, at nodes
    std: FloatArray  # (k,): standard deviations
    error: FloatArray  # (k,): what tails err by at most
    # (k,): δ, by which errors may have been moved; tails are those of what is left of them
    width: FloatArray

    @classmethod
    def of(cls, rows: _Rows, plan: _Plan) -> _Inversion:
        """Take ln φ at nodes, times that of the density of support ±δ where there is one.

        It is I₀(b√(1 - (x/δ)²))b/(2δ sinh b), of transform b sinh(y)/(y sinh b), y² = b² - δ²t²,
        for which (1/π)∫ |transform|/t dt from t = b/δ on is 1/(2 sinh b).
        """
        spacing = plan.spacing[:, np.newaxis]
        nodes = np.arange(plan.nodes[0])
        t = (nodes + 0.5) * spacing
        logs = rows.at_nodes(t)
        with np.errstate(under="ignore"):
            cf = np.exp(logs)
            if plan.b.any():
                b = np.maximum(plan.b, 1e-8)[:, np.newaxis]
                square = np.square(b) - np.square(plan.width[:, np.newaxis] * t)
                root = np.sqrt(np.maximum(square, 1e-16))
                cf *= np.sinh(root) / root * (b / np.sinh(b))
            cf[nodes >= plan.used[:, np.newaxis]] = 0.0
            # ln φ errs by t² times the error of tables where √φ is 1, and by less where it is less
            weighed = np.sum(t * np.sqrt(cf), axis=1) * plan.spacing / np.pi
        error = _ALIASED + plan.left_out + rows.table_error * weighed + _ROUNDING
        factor = (cf * spacing / (np.pi * t)).reshape((t.shape[0], -1, _CHUNK))
        return cls(plan.spacing, factor, rows.std, error, plan.width + plan.guard)

    def tails(self, x: FloatArray) -> FloatArray:
        """Upper bounds on P(X >= x); NaN where errors would have to be moved too far."""
        found, _ = self._tail(np.maximum(x - self.width, 0.0), slice(None))
        found = np.clip(found + self.error, 0.0, 0.5)
        return np.where(self.width > _WIDEST * self.std, np.nan, found)

    def quantiles(self, q: float) -> FloatArray:
        """Return x with P(X > x) <= q, by Newton's steps within brackets; NaN if there is none."""
        level = q - self.error - 1e-3 * _ALIASED
        low, high = np.zeros(self.std.size), np.full(self.std.size, np.inf)
        found = np.full(self.std.size, np.nan)
        active = np.flatnonzero((level > 0.5 * q) & (self.width <= _WIDEST * self.std))
        x = -special.ndtri(q) * self.std
        for _ in range(100):
            if not active.size:
                break
            at = x[active]
            tail, density = self._tail(at, active)
            excess = tail - level[active]
            low[active] = np.where(excess > 0.0, at, low[active])
            high[active] = np.where(excess <= 0.0, at, high[active])
            with np.errstate(divide="ignore", invalid="ignore"):
                step = at + excess / density
            upper = np.where(np.isinf(high[active]), 1.5 * at, high[active])
            middle = np.where(np.isinf(high[active]), upper, 0.5 * (low[active] + upper))
            inside = (step > low[active]) & (step < upper) & (density > 0.0)
            near = np.abs(excess) <= 1e-3 * _ALIASED
            done = near | (upper - low[active] <= 1e-11 * upper)
            x[active] = np.where(done, np.where(near, at, upper), np.where(inside, step, middle))
            found[active[done]] = x[active[done]]
            active = active[~done]
        return found + self.width

    def _tail(self, x: FloatArray, rows: Places | slice) -> tuple[FloatArray, FloatArray]:
        """Return P(X > x) and the density at x."""
        spacing, factor = self.spacing[rows], self.factor[rows]
        inner, outer = np.arange(_CHUNK) + 0.5, np.arange(factor.shape[1]) * float(_CHUNK)
        angle = (spacing * x)[:, np.newaxis]
        cos, sin = np.cos(angle * inner), np.sin(angle * inner)
        some = factor @ np.stack([cos, sin, inner * cos, inner * sin], axis=2)
        cos, sin = np.cos(angle * outer), np.sin(angle * outer)
        tail = 0.5 - np.sum(sin * some[..., 0] + cos * some[..., 1], axis=1)
        moved = cos * some[..., 2] - sin * some[..., 3]
        moved += outer * (cos * some[..., 0] - sin * some[..., 1])
        return tail, spacing * np.sum(moved, axis=1)


class _Table:
    """Ln φ of errors over t², at points t in units of one over their standard deviations.

    They are by numbers, below ``size``, of which some have a row, and some more are lent one.
    """

    def __init__(self, numbers: Places, size: int, lent: int = 0) -> None:
        self.found = np.zeros((numbers.size + lent, _POINTS + 2))  # from the points -2, -1, 0, ...
        self._error = np.zeros(len(self.found))
        self._row = np.full(size, -1)
        self._row[numbers] = np.arange(numbers.size)
        self._kept = numbers.size

    def lend(self, numbers: Places) -> Places:
        """Return rows for further numbers, in place of those lent before."""
        rows = self._kept + np.arange(numbers.size)
        self._row[numbers] = rows
        return rows

    def fill(self, rows: Places, logs: FloatArray, spread: FloatArray, error: FloatArray) -> None:
        """Set tables from ln φ on the grid, which errs by this much over t²."""
        points = (np.arange(_POINTS + 2) - 2.0) * _STEP
        points[2] = 1.0
        table = logs / np.square(points)
        table[:, 2] = -0.5
        self.found[rows] = table
        middle = sum(
            c * table[:, 2 * i : table.shape[1] - 10 + 2 * i] for i, c in enumerate(_MIDDLE)
        )
        with np.errstate(under="ignore"):
            weight = np.exp(0.25 * logs[:, 5:-5])
        # twice what the error at half the step is
        missed = np.abs(table[:, 5:-5] - middle) * weight / 32.0
        self._error[rows] = error + np.square(spread) * missed.max(axis=1)

    def error_of(self, numbers: Places) -> FloatArray:
        """Estimated error of ln φ over t²."""
        return np.asarray(self._error[self._row[numbers]])

    def at(self, numbers: Places, t: FloatArray) -> FloatArray:
        """Ln φ of errors by number at points, shape (k, N)."""
        scaled = t * (1.0 / _STEP)
        left = np.minimum(scaled, _POINTS - 4.0).astype(np.intp)
        offset = np.minimum(scaled - left, 1.0)
        left += (self._row[numbers] * self.found.shape[1])[:, np.newaxis]
        flat = self.found.ravel()
        total = np.zeros(t.shape)
        for polynomial in _LAGRANGE:
            weight = polynomial[-1] * offset
            for coefficient in polynomial[-2:0:-1]:
                weight += coefficient
                weight *= offset
            weight += polynomial[0]
            weight *= flat.take(left)
            total += weight
            left += 1
        total *= np.square(t)
        return total


def _levels(numbers: Places) -> list[Places]:
    """Return the positions of equal numbers, the smallest first."""
    order = np.argsort(numbers, kind="stable")
    return np.split(order, 1 + np.flatnonzero(np.diff(numbers[order])))


def _grid(spread: FloatArray) -> FloatArray:
    """Return the points of tables for errors of these standard deviations."""
    return np.asarray(np.abs(np.arange(_POINTS + 2) - 2.0) * _STEP / spread[:, np.newaxis])
