"""The estimates of a hierarchy as linear functions of the published values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation._tree.scalar import (
    Classes,
    Gains,
    Hashes,
    Measured,
    hashed,
    measurement_weights,
    mixed,
    summed,
)
from dpinfer.estimation.bounds import NoiseBound
from dpinfer.estimation.consistency import is_gaussian
from dpinfer.estimation.pivots import (
    INVERSION_ERROR,
    ManyErrors,
    clean_weights,
)
from dpinfer.mechanisms._sums.terms import kinds
from dpinfer.mechanisms.independent import groups, integer_cells
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace
from dpinfer.mechanisms.weighted_sum import WeightedSum
from dpinfer.queries.hierarchy import Hierarchy, Places
from dpinfer.releases.values import NoisyValues

# Laws of the errors of all units of a tree of numbers at once, from characteristic functions.


_STEP = 0.15  # distance of the points of tables, in units of one over the standard deviation
_REACH = 36.0
"""How far an error without its own noise is looked at, in units of one over its spread."""

_LARGE = 0.51  # share of a child in a sum from which on the sum of the others is formed by itself
_NODES = 4 + int(np.ceil(_REACH / np.sqrt(1.0 - _LARGE) / _STEP))
"""Points of a table: sums less one term are wanted further than what is left of them."""

_ALIASED = 21.0
"""Standard deviations beyond which an error is folded in by the nodes of inversion."""

_DECAYED = 1e-9  # modulus of a characteristic function that counts as 0
_DECAYED_SMOOTH = 1e-6
"""The same where all factors decrease: then the integral beyond t is below 2φ/(πtx)."""

_DAMPED = 3e-6  # modulus of a characteristic function at revivals that need no smoothing
_MOST_NODES = 1 << 13
_NUMBERS = 1 << 20  # Numbers worked on at a time
_POSITIVE = (Laplace, Gaussian, Exact, Geometric, DiscreteGaussian)
"""Laws of which the characteristic functions are positive, so that they have logarithms."""

_AROUND = np.arange(-2, 4)
_LAGRANGE = np.array(
    [np.poly(_AROUND[at != _AROUND])[::-1] / np.prod(at - _AROUND[at != _AROUND]) for at in _AROUND]
)
"""Coefficients of the polynomials, of degree 5, that are 1 at one of six points."""


class TreeLaws:
    """Laws of the errors of the units of a hierarchy."""

    def __init__(self, fit: HierarchyFit) -> None:
        self.own = _OwnNoise(fit)
        self.tree = tree = fit.hierarchy.tree
        gains = fit.gains
        known = np.where(np.isfinite(gains.below), gains.below, 0.0)
        own = gains.measured
        own = np.where(np.isfinite(own), own, 0.0)
        roots = int(np.searchsorted(tree.parent, 0))
        share = np.nan_to_num(gains.share, posinf=0.0)
        share[:roots] = 0.0
        gain, total, others = np.ones(len(tree)), np.zeros(len(tree)), np.zeros(len(tree))
        dominant = np.zeros(len(tree), dtype=bool)
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
        others[others < 1e-14 * total[tree.parent]] = 0.0  # of an only child
        grow, upper, beta = np.zeros(len(tree)), np.zeros(len(tree)), 1.0 - gain
        upper[:roots] = np.square(gain[:roots]) * own[:roots]
        for families in tree.families:
            at, counts = families.children, families.counts
            grow[at] = share[at] * np.repeat(beta[families.parents] - 1.0, counts)
            beta[at] = (1.0 + grow[at]) * (1.0 - gain[at])
            upper[at] = (
                np.square((1.0 + grow[at]) * gain[at]) * own[at]
                + np.square(grow[at]) * others[at]
                + np.square(share[at]) * np.repeat(upper[families.parents], counts)
            )
        self.gain, self.grow, self.share, self.beta = gain, np.abs(grow), share, np.abs(beta)
        self.weight = np.where(own > 0.0, np.abs((1.0 + grow) * gain), 0.0)
        self.own_std, self.dominant = np.sqrt(own), dominant & (others > 0.0)
        self.total, self.others, self.upper = np.sqrt(total), np.sqrt(others), np.sqrt(upper)
        self.first = np.searchsorted(tree.parent, np.arange(len(tree) + 1))
        self.inner = np.diff(self.first) > 0
        self.lattice_below = np.zeros(len(tree), dtype=bool)
        parents = tree.parent[~self.inner & self.own.whole]
        self.lattice_below[parents[parents >= 0]] = True

    @property
    def supported(self) -> bool:
        """Whether the laws of the noise are those that are dealt with here."""
        return all(isinstance(law, _POSITIVE) for law, _ in self.own.groups)

    @cached_property
    def classes(self) -> Classes:
        """Which places have equal laws."""
        return Classes.of(self.tree, self.own.hashes)

    def half_widths(self, places: Places, q: float) -> FloatArray:
        """Return x with P(error > x) <= q for errors at places, NaN where it was not found.

        ``q`` is a probability of at least ten times `INVERSION_ERROR`.
        """
        out = np.full(places.size, np.nan)
        parent = self.tree.parent[places]
        rows = _Rows(
            laws=self,
            place=places,
            weight=self.weight[places],
            below=np.where(self.inner[places], self.beta[places], 0.0),
            sisters=np.where(self.others[places] > 0.0, self.grow[places], 0.0),
            above=np.where(self.upper[parent] > 0.0, self.share[places], 0.0),
        )
        alone = rows.spread == 0.0
        out[alone] = self.own.isf(places[alone], q) * rows.weight[alone]
        for at, inversion in self._inversions(rows, np.flatnonzero(~alone)):
            out[at] = inversion.quantiles(q - INVERSION_ERROR)
        return out

    def difference_tails(self, places: Places, size: FloatArray) -> FloatArray:
        """Return P(m - s >= size) of own values less the children's sums, NaN where not found.

        Above the truth by twice `INVERSION_ERROR` at most, and where sums had to be smoothed that
        are not whole numbers, by the chance of half a step.
        """
        out = np.full(places.size, np.nan)
        none = np.zeros(places.size)
        measured = np.where(self.own_std[places] > 0.0, 1.0, 0.0)
        rows = _Rows(self, places, measured, none + 1.0, none, none)
        for at, inversion in self._inversions(rows, np.flatnonzero(rows.spread > 0.0)):
            out[at] = inversion.tails(size[at]) + INVERSION_ERROR
        return out

    def _inversions(self, rows: _Rows, chosen: Places) -> Iterator[tuple[Places, _Inversion]]:
        """Yield those of the chosen errors whose laws can be found, some at a time."""
        wanted, steps = [], []
        for at in _blocks(chosen, _NODES):
            part = rows.take(at)
            wanted.append(part.nodes())
            steps.append(part.smoothing())
        nodes = np.concatenate([np.empty(0), *wanted])
        step = np.concatenate([np.empty(0), *steps])
        bounds = [0, *(1 << power for power in range(7, 14))]
        for low, high in pairwise(bounds):
            alike = np.flatnonzero((nodes > low) & (nodes <= high))
            for at in _blocks(alike, high):
                yield chosen[at], _Inversion.of(rows.take(chosen[at]), step[at], high)

    @cached_property
    def sums(self) -> _Table:
        """Tables of the sums over children, by the number of what is below their parent."""
        below = self.classes.below
        first = self.classes.below_first
        first = first[self.inner[first]]
        height = np.zeros(len(self.tree), dtype=np.intp)
        for families in reversed(self.tree.families):
            height[families.parents] = 1 + np.maximum.reduceat(
                height[families.children], families.starts
            )
        number = np.full(below.max() + 1, -1)
        number[below[first]] = np.arange(first.size)
        found = _Table(np.zeros((first.size, _NODES + 2)), number)
        self.__dict__["sums"] = found  # those of lower trees are used for those of higher ones
        order = np.argsort(height[first], kind="stable")
        for same in np.split(order, 1 + np.flatnonzero(np.diff(height[first[order]]))):
            self._add_up(found, same, first[same], self.total[first[same]])
        return found

    @cached_property
    def rest(self) -> _Table:
        """Tables of the sums over the sisters of places that hold most of a sum."""
        places = self.classes.first
        places = places[self.dominant[places]]
        number = np.full(self.classes.first.size, -1)
        number[self.classes.whole[places]] = np.arange(places.size)
        found = _Table(np.zeros((places.size, _NODES + 2)), number)
        parents = self.tree.parent[places]
        self._add_up(found, np.arange(places.size), parents, self.others[places], places)
        return found

    @cached_property
    def uppers(self) -> _Table:
        """Tables of U, by the number of the law of places with children."""
        whole = self.classes.whole
        first = self.classes.first
        first = first[self.inner[first]]
        number = np.full(self.classes.first.size, -1)
        number[whole[first]] = np.arange(first.size)
        found = _Table(np.zeros((first.size, _NODES + 2)), number)
        self.__dict__["uppers"] = found  # those of parents are used for those of children
        depth = np.zeros(len(self.tree), dtype=np.intp)
        for families in self.tree.families:
            depth[families.children] = np.repeat(depth[families.parents] + 1, families.counts)
        order = np.argsort(depth[first], kind="stable")
        for same in np.split(order, 1 + np.flatnonzero(np.diff(depth[first[order]]))):
            for at in _blocks(same, _NODES):
                places = first[at]
                parent = self.tree.parent[places]
                spread = self.upper[places]
                rows = _Rows(
                    laws=self,
                    place=places,
                    weight=self.weight[places],
                    below=np.zeros(places.size),
                    sisters=np.where(self.others[places] > 0.0, self.grow[places], 0.0),
                    above=np.where(self.upper[parent] > 0.0, self.share[places], 0.0),
                )
                t = _grid(np.where(spread > 0.0, spread, 1.0))
                found.fill(at, rows.log_rest(t) + rows.log_own(t))
        return found

    def log_below(self, places: Places, t: FloatArray) -> FloatArray:
        """Ln φ of z, the estimates of places from what is below them; shape (k, N)."""
        gain = self.gain[places]
        measured = self.own_std[places] > 0.0
        found = self.own.log_cf(places, t * np.where(measured, gain, 0.0)[:, np.newaxis])
        more = np.flatnonzero(self.inner[places] & (gain < 1.0) & (self.total[places] > 0.0))
        if more.size:
            scale = ((1.0 - gain[more]) * self.total[places[more]])[:, np.newaxis]
            numbers = self.classes.below[places[more]]
            found[more] += self.sums.at(numbers, t[more] * scale)
        return found

    def _add_up(
        self,
        table: _Table,
        rows: Places,
        parents: Places,
        spread: FloatArray,
        without: Places | None = None,
    ) -> None:
        """Fill rows of a table with the sums over the children of places, but for some."""
        counts = self.first[parents + 1] - self.first[parents]
        row = np.repeat(np.arange(parents.size), counts)
        ends = np.cumsum(counts)
        child = np.arange(ends[-1]) + np.repeat(self.first[parents] - ends + counts, counts)
        if without is not None:
            kept = child != without[row]
            row, child = row[kept], child[kept]
        kind = self.classes.below[child]
        key = row * (self.classes.below_first.size + 1) + kind
        _, pairs, times = np.unique(key, return_index=True, return_counts=True)
        row, child = row[pairs], child[pairs]
        size = np.where(spread > 0.0, spread, 1.0)
        total = np.zeros((parents.size, _NODES + 2))
        for at in _blocks(np.arange(row.size), _NODES):
            t = _grid(size[row[at]])
            part = self.log_below(child[at], t) * times[at, np.newaxis]
            starts = np.flatnonzero(np.diff(row[at], prepend=-1))
            total[row[at[starts]]] += np.add.reduceat(part, starts, axis=0)
        table.fill(rows, total)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Errors as sums of independent parts with these weights, one a row.

    Own noise of a place, the sum of its children's z, the sum of its sisters' z, and U of its
    parent.
    """

    laws: TreeLaws
    place: Places
    weight: FloatArray
    below: FloatArray
    sisters: FloatArray
    above: FloatArray

    def take(self, at: Places) -> _Rows:
        """Return some rows."""
        return _Rows(
            self.laws,
            self.place[at],
            self.weight[at],
            self.below[at],
            self.sisters[at],
            self.above[at],
        )

    @cached_property
    def parent(self) -> Places:
        """Places of parents; those of roots are not used."""
        return np.maximum(self.laws.tree.parent[self.place], 0)

    @cached_property
    def spread(self) -> FloatArray:
        """Standard deviation of all parts but own noise."""
        laws = self.laws
        parts = (
            self.below * laws.total[self.place],
            self.sisters * laws.others[self.place],
            self.above * laws.upper[self.parent],
        )
        found: FloatArray = np.sqrt(np.sum(np.square(parts), axis=0))
        return found

    @cached_property
    def own_spread(self) -> FloatArray:
        """Standard deviation of the part of own noise."""
        return self.weight * self.laws.own_std[self.place]

    def log_own(self, t: FloatArray) -> FloatArray:
        """Ln φ of the part of own noise at points, shape (k, N)."""
        return self.laws.own.log_cf(self.place, t * self.weight[:, np.newaxis])

    def log_rest(self, t: FloatArray) -> FloatArray:
        """Ln φ of the other parts at points, shape (k, N)."""
        return self._log_below(t) + self._log_sisters(t) + self._log_above(t)

    def _log_below(self, t: FloatArray) -> FloatArray:
        laws, found = self.laws, np.zeros(t.shape)
        at = np.flatnonzero(self.below * laws.total[self.place] > 0.0)
        if at.size:
            places = self.place[at]
            scale = (self.below[at] * laws.total[places])[:, np.newaxis]
            found[at] = laws.sums.at(laws.classes.below[places], t[at] * scale)
        return found

    def _log_sisters(self, t: FloatArray) -> FloatArray:
        laws, found = self.laws, np.zeros(t.shape)
        there = self.sisters > 0.0
        large = laws.dominant[self.place]
        at = np.flatnonzero(there & large)
        if at.size:
            places = self.place[at]
            scale = (self.sisters[at] * laws.others[places])[:, np.newaxis]
            found[at] = laws.rest.at(laws.classes.whole[places], t[at] * scale)
        at = np.flatnonzero(there & ~large)
        if at.size:
            parents = self.parent[at]
            arguments = t[at] * self.sisters[at, np.newaxis]
            found[at] = laws.sums.at(
                laws.classes.below[parents], arguments * laws.total[parents, np.newaxis]
            )
            found[at] -= laws.log_below(self.place[at], arguments)
        return found

    def _log_above(self, t: FloatArray) -> FloatArray:
        laws, found = self.laws, np.zeros(t.shape)
        at = np.flatnonzero(self.above > 0.0)
        if at.size:
            parents = self.parent[at]
            scale = (self.above[at] * laws.upper[parents])[:, np.newaxis]
            found[at] = laws.uppers.at(laws.classes.whole[parents], t[at] * scale)
        return found

    def nodes(self) -> FloatArray:
        """Return how many nodes an inversion needs; infinite where parts do not decay."""
        laws = self.laws
        grid = np.arange(1.0, _REACH / (2 * _STEP) + 1.0) * (2 * _STEP)
        t = grid / self.spread[:, np.newaxis]
        found = self.log_rest(t)
        smooth = laws.own.continuous[self.place]
        if smooth.any():
            at = np.flatnonzero(smooth)
            found[at] += self.take(at).log_own(t[at])
        limit = np.log(_DECAYED_SMOOTH if laws.own.all_continuous else _DECAYED)
        last = _last(found > limit)
        with np.errstate(divide="ignore"):
            needed = grid[np.minimum(last + 1, grid.size - 1)] / self.spread / self.spacing
        return np.where(last < grid.size - 2, np.maximum(needed, 1.0), np.inf)

    @cached_property
    def spacing(self) -> FloatArray:
        """Distance of the nodes of an inversion."""
        whole = np.hypot(self.spread, self.own_spread)
        tail = self.weight * self.laws.own.tail[self.place] + 6.0 * whole
        return 2.0 * np.pi / np.maximum(_ALIASED * whole, tail)

    def smoothing(self) -> FloatArray:
        """Return a step of whole-numbered parts whose revivals nothing else damps; 0 for none.

        Such parts have φ of modulus 1 again at 2π over their step, further out than tables reach.
        """
        laws, parent = self.laws, self.parent
        steps = (
            self.below * laws.lattice_below[self.place],
            self.sisters * laws.lattice_below[parent],
            self.above * laws.weight[parent] * laws.own.whole[parent],
        )
        parts = (self._log_below, self._log_sisters, self._log_above)
        found = np.zeros(self.place.size)
        for number, step in enumerate(steps):
            with np.errstate(divide="ignore"):
                beyond = (step > 0.0) & (2.0 * np.pi / step > _REACH / self.spread)
            at = np.flatnonzero(beyond)
            if at.size:
                t = np.zeros((self.place.size, 4))
                t[at] = 2.0 * np.pi * np.arange(1.0, 5.0) / step[at, np.newaxis]
                damped = self.log_own(t)
                for other, part in enumerate(parts):
                    if other != number:
                        damped += part(t)
                revived = beyond & (damped.max(axis=1) > np.log(_DAMPED))
                found = np.where(revived, np.maximum(found, step), found)
        return found


def _last(there: NDArray[np.bool_]) -> Places:
    """Return the last place of each row that is True; -1 for none."""
    size = there.shape[1]
    return np.where(there.any(axis=1), size - 1 - there[:, ::-1].argmax(axis=1), -1)


@dataclass(frozen=True, eq=False)
class _Inversion:
    """The tails P(X > x) = 1/2 - (1/π)∫ φ(t) sin(tx)/t dt of errors, one a row."""

    t: FloatArray  # (k, N): the nodes
    factor: FloatArray  # (k, N): φ(t)/t times their distance, over π
    std: FloatArray  # (k,): standard deviations
    # (k,): width of a uniform part that was added, which moves errors by half of it at most
    step: FloatArray

    @classmethod
    def of(cls, rows: _Rows, step: FloatArray, nodes: int) -> _Inversion:
        """Take the nodes of errors."""
        spacing = rows.spacing[:, np.newaxis]
        t = (np.arange(nodes) + 0.5) * spacing
        with np.errstate(under="ignore"):
            cf = np.exp(rows.log_rest(t) + rows.log_own(t))
        cf[t * rows.spread[:, np.newaxis] > _REACH] = 0.0
        cf *= np.sinc(t * step[:, np.newaxis] / (2.0 * np.pi))
        std = np.sqrt(np.square(rows.spread) + np.square(rows.own_spread) + np.square(step) / 12.0)
        return cls(t, cf * spacing / (np.pi * t), std, step)

    def tails(self, x: FloatArray) -> FloatArray:
        """P(X >= x), or a bound where a uniform part was added; NaN where x is too far out."""
        found, _ = self._tail(np.maximum(x - 0.5 * self.step, 0.0), slice(None))
        return np.where(x > _ALIASED / 2.0 * self.std, np.nan, np.clip(found, 0.0, 0.5))

    def quantiles(self, q: float) -> FloatArray:
        """Return x with P(X > x) <= q, by Newton's steps within brackets; NaN if there is none."""
        low, high = np.zeros(self.std.size), np.full(self.std.size, np.inf)
        x = -special.ndtri(q) * self.std
        active = np.arange(self.std.size)
        for _ in range(80):
            at = x[active]
            tail, density = self._tail(at, active)
            excess = tail - q
            low[active] = np.where(excess > 0.0, at, low[active])
            high[active] = np.where(excess <= 0.0, at, high[active])
            with np.errstate(divide="ignore", invalid="ignore"):
                step = at + excess / density
            upper = np.where(np.isinf(high[active]), 1.5 * at, high[active])
            middle = np.where(np.isinf(high[active]), upper, 0.5 * (low[active] + upper))
            inside = (step > low[active]) & (step < upper) & (density > 0.0)
            done = (np.abs(excess) <= 1e-3 * INVERSION_ERROR) | (
                upper - low[active] <= 1e-11 * upper
            )
            x[active] = np.where(
                done,
                np.where(np.abs(excess) <= 1e-3 * INVERSION_ERROR, at, upper),
                np.where(inside, step, middle),
            )
            active = active[~done]
            if not active.size:
                break
        x[active] = np.nan
        x[x > _ALIASED / 2.0 * self.std] = np.nan
        return np.asarray(x + 0.5 * self.step)

    def _tail(self, x: FloatArray, rows: Places | slice) -> tuple[FloatArray, FloatArray]:
        """Return P(X > x) and the density at x."""
        angle = self.t[rows] * x[:, np.newaxis]
        factor = self.factor[rows]
        tail = 0.5 - np.einsum("ij,ij->i", factor, np.sin(angle))
        return tail, np.einsum("ij,ij->i", factor * self.t[rows], np.cos(angle))


class _Table:
    """Ln φ of errors over t², at points t in units of one over their standard deviations.

    Parameters
    ----------
    found : array of float, shape (r, N)
        The tables, from the points -2, -1, 0, ...
    row : array of int
        The row of each number that errors have.
    """

    def __init__(self, found: FloatArray, row: Places) -> None:
        self.found, self.row = found, row

    def fill(self, rows: Places, logs: FloatArray) -> None:
        """Set tables from ln φ on the grid."""
        points = (np.arange(_NODES + 2) - 2.0) * _STEP
        points[2] = 1.0
        self.found[rows] = logs / np.square(points)
        self.found[rows, 2] = -0.5

    def at(self, numbers: Places, t: FloatArray) -> FloatArray:
        """Ln φ of errors by number at points, shape (k, N)."""
        scaled = t / _STEP
        left = np.minimum(scaled.astype(np.intp), _NODES - 4)
        offset = np.minimum(scaled - left, 1.0)
        index = left + self.row[numbers][:, np.newaxis] * self.found.shape[1]
        flat = self.found.ravel()
        total = np.zeros(t.shape)
        for at, polynomial in enumerate(_LAGRANGE):
            weight = np.full(t.shape, polynomial[-1])
            for coefficient in polynomial[-2::-1]:
                weight *= offset
                weight += coefficient
            weight *= flat.take(index + at)
            total += weight
        return total * np.square(t)


class _OwnNoise:
    """What was measured of each place itself: values of unit weights, or merged ones."""

    def __init__(self, fit: HierarchyFit) -> None:
        size, places = fit.values.size, len(fit.hierarchy.tree)
        law, measured = fit.mechanism, fit.measured
        self.groups = list(groups(law, size))
        self._group, self._position = np.zeros(size, dtype=np.intp), np.zeros(size, dtype=np.intp)
        for number, (_, cells) in enumerate(self.groups):
            self._group[cells], self._position[cells] = number, np.arange(cells.size)
        unit = fit.value_units
        place = fit.hierarchy.tree.place_of(unit)
        self._values = np.argsort(place, kind="stable")
        self._first = np.searchsorted(place[self._values], np.arange(places + 1))
        self._weight = np.ones(size) if measured.weight is None else measured.weight
        count = np.diff(self._first)
        noisy = fit.value_variance > 0.0
        whole = integer_cells(law, size) & noisy
        ordered = self._values
        head = np.minimum(self._first[:-1], size - 1)
        self.whole = (count == 1) & whole[ordered[head]]
        rough = np.zeros(places)
        np.add.at(rough, place, whole)
        self.continuous = (rough == 0.0) & (count > 0)
        self.all_continuous = not whole.any()
        tails = np.zeros(size)
        for part, cells in self.groups:
            tails[cells] = np.asarray(part.isf(1e-10))
        self.tail = np.zeros(places)
        np.add.at(self.tail, place, np.where(whole, tails * self._weight, 0.0))
        kind = mixed(hashed(kinds(self.groups, size)) + hashed(self._weight))
        sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(kind[ordered])])
        self.hashes: Hashes = sums[self._first[1:]] - sums[self._first[:-1]]

    def log_cf(self, places: Places, t: FloatArray) -> FloatArray:
        """Ln φ of the noise of what was measured of places, at points, shape (k, N)."""
        found = np.zeros(t.shape)
        count = self._first[places + 1] - self._first[places]
        for rank in range(int(count.max(initial=0))):
            rows = np.flatnonzero(count > rank)
            value = self._values[self._first[places[rows]] + rank]
            arguments = t[rows] * self._weight[value, np.newaxis]
            for number in np.unique(self._group[value]):
                law, _ = self.groups[number]
                same = self._group[value] == number
                part = law.take(self._position[value[same]]) if law.shape else law
                cf = part.cf(arguments[same].T).T
                found[rows[same]] += np.log(np.maximum(cf, 1e-300))
        return found

    def isf(self, places: Places, q: float) -> FloatArray:
        """Quantiles of the noise of places with one value; NaN for others."""
        count = self._first[places + 1] - self._first[places]
        value = self._values[np.minimum(self._first[places], self._values.size - 1)]
        found = np.zeros(places.size)
        for number in np.unique(self._group[value]):
            law, _ = self.groups[number]
            same = self._group[value] == number
            part = law.take(self._position[value[same]]) if law.shape else law
            found[same] = part.isf(q)
        return np.where(count == 1, found, np.nan)


def _grid(spread: FloatArray) -> FloatArray:
    """Return the points of tables for errors of these standard deviations."""
    return np.asarray(np.abs(np.arange(_NODES + 2) - 2.0) * _STEP / spread[:, np.newaxis])


def _blocks(rows: Places, columns: int) -> Iterator[Places]:
    """Cut rows of so many columns."""
    step = max(1, _NUMBERS // columns)
    return (rows[start : start + step] for start in range(0, rows.size, step))


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

    def errors(self, at: NDArray[np.intp]) -> tuple[ManyErrors, NDArray[np.intp]]:
        """Return the laws of the errors of units, and the number of that of each."""
        tree, laws = self.hierarchy.tree, self.laws
        classes = laws.classes
        used, number = np.unique(classes.whole[tree.place_of(at)], return_inverse=True)
        places = classes.first[used]
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
            magnitude=float(np.abs(self.values).max(initial=0.0)),
            together=(lambda q: laws.half_widths(places, q)) if laws.supported else None,
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
