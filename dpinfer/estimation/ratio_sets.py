"""Which way leads to the accepted ratios of each published pair: by the laws of its noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import count

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.fieller import (
    Arcs,
    Ends,
    Kind,
    SmoothSupport,
    Standardised,
    ends_one_by_one,
    one_exact,
    smooth_support,
    weighted_tail,
)
from dpinfer.mechanisms.independent import IndependentNoise, groups
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace
from dpinfer.mechanisms.rounded import Rounded

# Quantiles of whole-numbered weighted sums of two whole-numbered noises, in all directions.


LEVEL_BLOCK = 1 << 19
"""Numbers held at once."""

NEGLIGIBLE = 1e-13
"""Probability beyond which atoms are not listed, relative to the tail probability."""

TOLERANCE = 1e-4
"""Deviation from a straight line, relative to Q, that is not looked into further."""

STRAIGHT = 3
"""A piece is straight once Q is on the line at this many generations of directions within it."""

HEIGHT = 3.5
HEIGHT_RANGE = (16.0, 250.0)
"""All directions up to so many quantiles in height, within this range, are looked at."""

HEIGHT_TAIL = 0.025
"""The quantiles are those at this tail probability, or at a smaller one that is asked for."""


class Level:
    """Q at whole directions."""

    def __init__(self, first: NoiseLaw, second: NoiseLaw, tail: float) -> None:
        self.reach = np.array([float(law.isf(NEGLIGIBLE * tail)) + 1.0 for law in (first, second)])
        k = np.arange(-self.reach[0], self.reach[0] + 1.0)
        self._tail_of_first = np.asarray(first.sf(k))
        self._j = np.arange(-self.reach[1], self.reach[1] + 1.0)
        # differences of tails on the side of zero where they are small
        self._pmf = second.sf(np.abs(self._j) - 1.0) - second.sf(np.abs(self._j))
        # rounding must not count an atom as beyond the level that is on it
        self._limit = min(tail * (1.0 + 1e-12), 0.5)
        self.on_axes = np.array([float(first.isf(self._limit)), float(second.isf(self._limit))])
        widest = max(float(law.isf(min(tail, HEIGHT_TAIL))) for law in (first, second))
        self.height = float(np.clip(HEIGHT * widest, *HEIGHT_RANGE))

    def _exceeds(self, p: FloatArray, q: FloatArray, x: FloatArray) -> NDArray[np.bool_]:
        """Whether P(p·e₁ + q·e₂ > x) is above the level, p > 0."""
        out = np.empty(x.shape, dtype=bool)
        rows = max(1, LEVEL_BLOCK // len(self._j))
        for start in range(0, len(x), rows):
            part = slice(start, start + rows)
            k = np.floor((x[part, None] - q[part, None] * self._j) / p[part, None])
            at = np.clip(k + self.reach[0], 0, 2 * self.reach[0]).astype(np.intp)
            out[part] = self._tail_of_first[at] @ self._pmf > self._limit
        return out

    def __call__(self, p: FloatArray, q: FloatArray, guess: FloatArray) -> FloatArray:
        """Smallest whole x that is not exceeded too often, near to a guess."""
        low, high = guess - 1.0, guess.copy()
        step = np.ones(guess.shape)
        wrong = np.flatnonzero(self._exceeds(p, q, high))
        while wrong.size:
            low[wrong] = high[wrong]
            high[wrong] += step[wrong]
            step[wrong] *= 2.0
            wrong = wrong[self._exceeds(p[wrong], q[wrong], high[wrong])]
        step = np.ones(guess.shape)
        wrong = np.flatnonzero(~self._exceeds(p, q, low))
        while wrong.size:
            high[wrong] = low[wrong]
            low[wrong] -= step[wrong]
            step[wrong] *= 2.0
            wrong = wrong[~self._exceeds(p[wrong], q[wrong], low[wrong])]
        while (open_ := np.flatnonzero(high - low > 1.0)).size:
            middle = np.floor(0.5 * (low[open_] + high[open_]))
            above = self._exceeds(p[open_], q[open_], middle)
            low[open_] = np.where(above, middle, low[open_])
            high[open_] = np.where(above, high[open_], middle)
        return high


Needed = Callable[[FloatArray, FloatArray], NDArray[np.bool_]]
"""Whether Q has to be known between pairs of neighbouring directions, shape (n, 2) each."""


def corners(level: Level, needed: Needed | None = None) -> tuple[FloatArray, FloatArray]:
    """Directions of one quarter, by angle, and Q there: finer until Q is straight between them.

    Neighbours have determinant 1, so every whole direction between them is below their mediant in
    the tree, and Q is whole at all of them: it is on the line or off it by a whole number. Between
    neighbours where Q is not needed no directions are looked at.
    """
    ends = np.array([[1.0, 0.0], [0.0, 1.0]])
    directions, values = [ends], [level.on_axes]
    left, right = ends[:1], ends[1:]
    at_left, at_right = level.on_axes[:1], level.on_axes[1:]
    straight = np.zeros(1, dtype=int)
    while len(left):
        middle = left + right
        line = at_left + at_right
        value = level(middle[:, 0], middle[:, 1], line)
        off = np.abs(value - line)
        straight = np.where(off == 0, straight + 1, 0)
        unresolved = (off > 0) & (off <= TOLERANCE * line)
        value = np.where(unresolved, np.maximum(value, line) + 1.0, value)
        directions.append(middle)
        values.append(value)
        low = middle.max(axis=1) <= level.height
        more = (low | (straight < STRAIGHT)) & ~unresolved
        left, right = _interleave(left[more], middle[more]), _interleave(middle[more], right[more])
        at_left = _interleave(at_left[more], value[more])
        at_right = _interleave(value[more], at_right[more])
        straight = np.repeat(straight[more], 2)
        if needed is not None and len(left):
            kept = needed(left, right)
            left, right, at_left, at_right = left[kept], right[kept], at_left[kept], at_right[kept]
            straight = straight[kept]
    every, support = np.concatenate(directions), np.concatenate(values)
    order = np.argsort(np.arctan2(every[:, 1], every[:, 0]))
    return _without_straight(every[order], support[order])


def _without_straight(directions: FloatArray, support: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Leave out the directions at which Q is straight: there two neighbouring atoms are equal."""
    p, q = directions.T
    across = p[:-1] * q[1:] - q[:-1] * p[1:]
    i = (support[:-1] * q[1:] - q[:-1] * support[1:]) / across
    j = (p[:-1] * support[1:] - support[:-1] * p[1:]) / across
    kept = np.ones(len(support), dtype=bool)
    kept[1:-1] = (i[1:] != i[:-1]) | (j[1:] != j[:-1])
    return directions[kept], support[kept]


def _interleave(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the entries of two arrays by turns."""
    return np.stack([first, second], axis=1).reshape(2 * len(first), *first.shape[1:])


# The acceptance region of two whole-numbered noises, as a polygon of their atoms.


BLOCK = 1 << 21
"""Numbers held at once."""

FEW = 256
"""Polygons of at most so many corners are searched corner by corner, others in blocks."""

MARGIN = 1e-9
"""What bounds on Q are widened by, for rounding, relative to the size of the noise."""


@dataclass(frozen=True, eq=False)
class LatticePolygon:
    """Q as pieces: between directions k and k + 1, around the circle, Q(u) = <u, atom k>."""

    directions: FloatArray
    support: FloatArray
    atoms: FloatArray

    def ends(self, y: FloatArray) -> tuple[NDArray[np.bool_], FloatArray, FloatArray]:
        """Return which points are accepted in every direction, and the ends for the others.

        Between two directions with <u, y> > Q(u) the same holds, the difference being a linear
        function there: so a run of such directions is rejected throughout. Of several runs the
        one around the most extreme direction is taken, and all other directions are accepted.
        """
        inside = np.empty(len(y), dtype=bool)
        left, right = np.empty(y.shape), np.empty(y.shape)
        rows = max(1, BLOCK // (8 * len(self._blocks[0])))
        for start in range(0, len(y), rows):
            part = slice(start, start + rows)
            inside[part], before, after = self._run(y[part])
            left[part] = y[part] - self.atoms[before]
            right[part] = y[part] - self.atoms[after]
        return inside, left, right

    def runs(self, y: FloatArray) -> NDArray[np.intp]:
        """Return the number of runs of directions that are rejected, for each point."""
        rejected = y @ self.directions.T > self._divisor
        return np.asarray(np.count_nonzero(rejected & ~np.roll(rejected, 1, axis=1), axis=1))

    def reach(self, u: FloatArray) -> FloatArray:
        """Q at any directions, shape (n, 2)."""
        angles = np.mod(np.arctan2(self.directions[:, 1], self.directions[:, 0]), 2.0 * np.pi)
        start = int(np.argmin(angles))
        at = np.searchsorted(
            np.roll(angles, -start), np.mod(np.arctan2(u[:, 1], u[:, 0]), 2.0 * np.pi), "right"
        )
        piece = (at - 1 + start) % len(angles)
        # rounding of the angle may name the neighbour, and Q is continuous
        return np.asarray(np.einsum("nd,nd->n", u, self.atoms[piece]))

    @cached_property
    def _blocks(self) -> tuple[NDArray[np.intp], FloatArray, FloatArray]:
        """Blocks of directions, by the first of each, and bounds on Q beside straight lines.

        Where <u, y> is below the first, or above the second, bound times Q at both ends of a block,
        it is below, or above, Q within.
        """
        size = len(self.support)
        length = 1 if size <= FEW else int(np.sqrt(size / 2.0))
        first = np.arange(0, size, length)
        last = np.append(first[1:], 0)
        block = np.arange(size) // length
        (a, b), (c, d) = self.directions[first].T, self.directions[last].T
        p, q = self.directions.T
        across = (a * d - b * c)[block]
        chord = (
            (p * d[block] - q * c[block]) * self.support[first][block]
            + (q * a[block] - p * b[block]) * self.support[last][block]
        ) / across
        beside = self.support / np.where(chord > 0, chord, 1.0)
        least = np.minimum.reduceat(np.where(chord > 0, beside, 0.0), first)
        most = np.maximum.reduceat(np.where(chord > 0, beside, np.inf), first)
        return first, least * (1.0 - 1e-12), most * (1.0 + 1e-12)

    def _run(self, y: FloatArray) -> tuple[NDArray[np.bool_], NDArray[np.intp], NDArray[np.intp]]:
        """Return whether nothing is rejected, and the pieces at the ends of the rejected run."""
        first, least, most = self._blocks
        size, every = len(self.support), np.arange(len(y))
        if len(first) == size:
            inside, before, after = self._everywhere(y)
            return inside, before, (after - 1) % size
        ratio = (y @ self.directions[first].T) / self._divisor[first]
        top = np.argmax(ratio, axis=1)
        following = np.roll(ratio, -1, axis=1)
        open_ = (ratio <= most) | (following <= most)
        inside = open_[every, top]
        before, after = np.zeros_like(top), np.zeros_like(top)
        wide = np.flatnonzero(~inside)
        low, high = _neighbours(open_[wide], top[wide])
        before[wide] = self._walk(y[wide], first[(low + 1) % len(first)], -1)
        after[wide] = self._walk(y[wide], first[high], 1)
        # without a block that is rejected throughout, all directions are looked at, unless all
        # blocks are accepted throughout
        unclear = inside & ((ratio > least) | (following > least)).any(axis=1)
        narrow = np.flatnonzero(unclear)
        rows = max(1, BLOCK // (4 * size))
        for start in range(0, len(narrow), rows):
            part = narrow[start : start + rows]
            inside[part], before[part], after[part] = self._everywhere(y[part])
        return inside, before, (after - 1) % size

    def _everywhere(
        self, y: FloatArray
    ) -> tuple[NDArray[np.bool_], NDArray[np.intp], NDArray[np.intp]]:
        """Return whether nothing is rejected, and the accepted directions beside the run."""
        ratio = (y @ self.directions.T) / self._divisor
        top = np.argmax(ratio, axis=1)
        accepted = ratio <= 1.0
        return accepted[np.arange(len(y)), top], *_neighbours(accepted, top)

    def _walk(self, y: FloatArray, start: NDArray[np.intp], step: int) -> NDArray[np.intp]:
        """Return the first direction that is accepted, going from a rejected one."""
        size, length = len(self.support), int(np.sqrt(len(self.support)))
        at, found = start.copy(), np.zeros(len(y), dtype=bool)
        while (rest := np.flatnonzero(~found)).size:
            index = (at[rest, None] + step * np.arange(1, length + 1)) % size
            distance = np.einsum("nd,nkd->nk", y[rest], self.directions[index])
            accepted = distance <= self.support[index]
            found[rest] = accepted.any(axis=1)
            nearest = np.where(found[rest], np.argmax(accepted, axis=1), length - 1)
            at[rest] = index[np.arange(len(rest)), nearest]
        return at

    @cached_property
    def _divisor(self) -> FloatArray:
        """Q, but not 0, which it is where noise hardly ever is anything else."""
        return np.maximum(self.support, 1e-30)


def _neighbours(
    mask: NDArray[np.bool_], middle: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the nearest True before and after a position in each row, going around."""
    size = mask.shape[1]
    # half a circle holds every run, so that two of its turns are enough
    around = (middle[:, None] + np.arange(size)) % size
    turned = np.take_along_axis(mask, around, axis=1)
    after = np.argmax(turned, axis=1)
    before = size - 1 - np.argmax(turned[:, ::-1], axis=1)
    return (middle + before) % size, (middle + after) % size


@lru_cache(maxsize=64)
def lattice_polygon(first: NoiseLaw, second: NoiseLaw, tail: float) -> LatticePolygon:
    """Return the polygon of two laws on the whole numbers, at the upper tail probability."""
    return _mirrored(*corners(Level(first, second, tail)))


@dataclass(frozen=True)
class Bracket:
    """Bounds on Q by that of noises with densities: off by at most <abs(u), slack>."""

    support: SmoothSupport
    scale: FloatArray
    slack: FloatArray

    def leaves_open(self, y: FloatArray, left: FloatArray, right: FloatArray) -> NDArray[np.bool_]:
        """Whether the bounds leave open which directions between neighbours reject some point.

        Q with a density is a norm: between two directions it is below its chord, and above its
        tangents.
        """
        slack = self.slack + MARGIN * (self.scale + self.slack)
        tangents = [self._gradient(left) - slack, self._gradient(right) - slack]
        x, z = np.abs(y).T
        out = np.zeros(len(left), dtype=bool)
        # up to their signs, the points as they are seen from the first quarter
        for point in np.concatenate([[x, z], [x, -z], [-x, z]], axis=1).T:
            rejected = np.ones(len(left), dtype=bool)
            accepted = np.zeros(len(left), dtype=bool)
            for end, tangent in zip((left, right), tangents, strict=True):
                reach = ((tangent + 2.0 * slack) * end).sum(axis=1)
                rejected &= end @ point > reach
                beside = tangent - point
                accepted |= ((left * beside).sum(axis=1) >= 0) & ((right * beside).sum(axis=1) >= 0)
            out |= ~rejected & ~accepted
        return out

    def _gradient(self, u: FloatArray) -> FloatArray:
        """Return where the body of the noises with densities is touched."""
        v = u * self.scale
        phi = np.arctan2(v[:, 1], v[:, 0])
        cos, sin = np.cos(phi), np.sin(phi)
        reach, slope = self.support(phi), self.support.slope(phi)
        return np.column_stack([reach * cos - slope * sin, reach * sin + slope * cos]) * self.scale


def ends_of_few(
    y: FloatArray, first: NoiseLaw, second: NoiseLaw, tail: float, bracket: Bracket
) -> tuple[NDArray[np.bool_], FloatArray, FloatArray]:
    """Return what :meth:`LatticePolygon.ends` does, from Q near the ends of a few points only."""
    level = Level(first, second, tail)
    polygon = _mirrored(*corners(level, partial(bracket.leaves_open, y)))
    if polygon.runs(y).max(initial=0) > 1:
        # which one is around the most extreme direction takes all of Q
        polygon = lattice_polygon(first, second, tail)
    return polygon.ends(y)


def _mirrored(quarter: FloatArray, support: FloatArray) -> LatticePolygon:
    """Return the polygon of Q in a quarter."""
    # by symmetry of both laws, the other quarters are mirror images
    p, q = quarter.T
    directions = np.concatenate(
        [
            quarter,
            np.column_stack([-p, q])[-2::-1],
            np.column_stack([-p, -q])[1:],
            np.column_stack([p, -q])[-2:0:-1],
        ]
    )
    values = np.concatenate([support, support[-2::-1], support[1:], support[-2:0:-1]])
    follow, next_value = np.roll(directions, -1, axis=0), np.roll(values, -1)
    determinant = directions[:, 0] * follow[:, 1] - directions[:, 1] * follow[:, 0]
    atoms = np.column_stack(
        [
            values * follow[:, 1] - directions[:, 1] * next_value,
            directions[:, 0] * next_value - values * follow[:, 0],
        ]
    )
    return LatticePolygon(directions, values, atoms / determinant[:, None])


WIDE = 30.0
"""Whole-numbered noise of a larger standard deviation is bounded by noise with a density."""

WIDE_SLACK = 0.51
"""It is at most this far away, for such standard deviations."""

FEW_PAIRS = 4
FEW_CALLS = 16
"""At most so many pairs with one law, in so many calls, take the polygon near their ends only."""

SMALL_TAIL = 1e-8
"""Smaller tails take the whole polygon, as bounds on the noise do not hold so far out."""

MOST_ROWS = 2000
"""For laws without a way for many pairs at once, which take up to seconds for a pair."""

_KINDS: dict[type[NoiseLaw], Kind] = {
    Laplace: "laplace",
    Geometric: "laplace",
    Gaussian: "gaussian",
    DiscreteGaussian: "gaussian",
}
"""The noise with a density that stands for a kind of noise."""


def normal_arcs(published: FloatArray, scales: FloatArray, tail: float) -> Arcs:
    """Return what Fieller's formula accepts: all noise is taken as Gaussian."""
    arcs = Arcs.empty(published)
    noisy = (scales > 0).all(axis=1)
    support = smooth_support("gaussian", "gaussian", tail)
    rows = np.flatnonzero(noisy)
    if rows.size:
        pairs = Standardised(published[rows], scales[rows], np.zeros((rows.size, 2)), support)
        arcs.fill(rows, *pairs.ends())
    rows = np.flatnonzero(~noisy)
    reach = float(support(np.zeros(1))[0]) * scales[rows]
    arcs.fill(rows, *one_exact(published[rows], reach))
    return arcs


def exact_arcs(published: FloatArray, first: NoiseLaw, second: NoiseLaw, tail: float) -> Arcs:
    """Return what the laws of the noise accept."""
    arcs = Arcs.empty(published)
    size = len(published)
    for one, cells in groups(first, size):
        for other, others in groups(second, size):
            rows, at, at_other = np.intersect1d(cells, others, return_indices=True)
            if rows.size:
                _fill(arcs, rows, one.take(at), other.take(at_other), tail)
    return arcs


def _fill(
    arcs: Arcs, rows: NDArray[np.intp], first: NoiseLaw, second: NoiseLaw, tail: float
) -> None:
    """Enter the answers for rows with noise of one kind each."""
    laws = (first, second)
    published = arcs.published[rows]
    scales = np.column_stack([np.broadcast_to(law.std, rows.size) for law in laws])
    exact = (scales == 0).any(axis=1)
    # the two noises have to be both on the whole numbers, and narrow, to be taken as such
    narrow = (scales <= WIDE).all(axis=1) & first.is_integer & second.is_integer
    at = np.flatnonzero(exact)
    if at.size:
        reach = np.column_stack([np.broadcast_to(law.isf(tail), rows.size) for law in laws])
        arcs.fill(rows[at], *one_exact(published[at], reach[at]))
    at = np.flatnonzero(~exact & narrow)
    if at.size:
        arcs.fill(rows[at], *_on_lattice(published[at], first.take(at), second.take(at), tail))
    at = np.flatnonzero(~exact & ~narrow)
    if at.size:
        one, other = first.take(at), second.take(at)
        if (smooth := _smooth(one, other, at.size, tail)) is not None:
            support, scale, slack = smooth
            arcs.fill(rows[at], *Standardised(published[at], scale, slack, support).ends())
        else:
            arcs.fill(rows[at], *_one_by_one(published[at], one, other, tail))


def _smooth(
    first: NoiseLaw, second: NoiseLaw, size: int, tail: float
) -> tuple[SmoothSupport, FloatArray, FloatArray] | None:
    """Return Q of the noises with densities that stand for two laws, their scales and slack."""
    one, other = (_KINDS.get(type(_unrounded(law))) for law in (first, second))
    if one is None or other is None:
        return None
    parts = [continuous_bound(law, size) for law in (first, second)]
    scale, slack = (np.column_stack(columns) for columns in zip(*parts, strict=True))
    return smooth_support(one, other, tail), scale, slack


def _unrounded(law: NoiseLaw) -> NoiseLaw:
    return law.law if isinstance(law, Rounded) else law


def with_density(law: NoiseLaw) -> NoiseLaw | None:
    """Return the log-concave noise with a density that stands for a law, None for other kinds."""
    if isinstance(law, Geometric):
        return Laplace(scale=law.scale)
    if isinstance(law, DiscreteGaussian):
        return Gaussian(sigma=law.sigma)
    law = _unrounded(law)
    return law if isinstance(law, (Laplace, Gaussian, Exact)) else None


def continuous_bound(law: NoiseLaw, size: int) -> tuple[FloatArray, FloatArray]:
    """Return the standard deviation of noise Z with a density, and the most that e is away from it.

    Where abs(Z) and abs(e) are coupled by their quantiles, abs(e) >= k goes with abs(Z) >= zₖ, and
    the distance is at most the largest k - zₖ or zₖ₊₁ - k.
    """
    if isinstance(law, Geometric):
        # P(abs(Z) >= zₖ) = exp(-zₖ/s) and P(abs(e) >= k) = 2aᵏ/(1 + a) give k - zₖ = c for all k
        scale = np.broadcast_to(np.asarray(law.scale, dtype=np.float64), size)
        c = scale * np.log(2.0 / (1.0 + np.exp(-1.0 / scale)))
        return np.sqrt(2.0) * scale, np.maximum(c, 1.0 - c)
    if isinstance(law, DiscreteGaussian):
        sigma = np.broadcast_to(np.asarray(law.sigma, dtype=np.float64), size)
        each, which = np.unique(sigma, return_inverse=True)
        return sigma, np.array([_gaussian_gap(float(value)) for value in each])[which]
    slack = np.full(size, 0.5 * isinstance(law, Rounded))
    return np.array(np.broadcast_to(_unrounded(law).std, size)), slack


def _gaussian_gap(sigma: float) -> float:
    """Return the most that discrete Gaussian noise is away from Gaussian noise, up to 9σ."""
    if sigma > WIDE:
        return WIDE_SLACK
    k = np.arange(1.0, np.ceil(9.0 * sigma) + 2.0)
    z = Gaussian(sigma=sigma)._isf(DiscreteGaussian(sigma=sigma)._sf(k - 1.0))
    return float(max(np.max(k - z), np.max(z[1:] - k[:-1]), z[0]))


def _on_lattice(published: FloatArray, first: NoiseLaw, second: NoiseLaw, tail: float) -> Ends:
    """Return the ends for pairs with whole-numbered noise, a polygon for each pair of laws."""
    inside = np.zeros(len(published), dtype=bool)
    left, right = np.zeros(published.shape), np.zeros(published.shape)
    scales = np.column_stack([np.broadcast_to(law.std, len(published)) for law in (first, second)])
    # laws of one kind are told apart by their standard deviations
    _, examples, which = np.unique(scales, axis=0, return_index=True, return_inverse=True)
    for number, example in enumerate(examples):
        rows = np.flatnonzero(which.ravel() == number)
        laws = first.take(int(example)), second.take(int(example))
        bracket = _bracket(*laws, tail) if rows.size <= FEW_PAIRS else None
        if bracket is None or next(_calls(*laws, tail)) >= FEW_CALLS:
            ends = lattice_polygon(*laws, tail).ends(published[rows])
        else:
            ends = ends_of_few(published[rows], *laws, tail, bracket)
        inside[rows], left[rows], right[rows] = ends
    return inside, left, right


@lru_cache(maxsize=256)
def _calls(first: NoiseLaw, second: NoiseLaw, tail: float) -> Iterator[int]:
    return count()


def _bracket(first: NoiseLaw, second: NoiseLaw, tail: float) -> Bracket | None:
    """Return bounds by noises with densities; they hold up to 1e-18 in probability."""
    if tail < SMALL_TAIL or (smooth := _smooth(first, second, 1, tail)) is None:
        return None
    support, scale, slack = smooth
    return Bracket(support, scale[0], slack[0])


def _one_by_one(published: FloatArray, first: NoiseLaw, second: NoiseLaw, tail: float) -> Ends:
    """Return the ends for pairs with noise of other kinds."""
    if len(published) > MOST_ROWS:
        raise InvalidParameterError(
            f"mechanism must be Laplace, Gaussian, geometric or discrete Gaussian noise for more "
            f"than {MOST_ROWS} pairs, got {len(published)} pairs with {type(first).__name__} and "
            f"{type(second).__name__} noise"
        )
    weights = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    pairs = [(first.take(row), second.take(row)) for row in range(len(published))]
    tails = (weighted_tail(*weights, IndependentNoise(laws)) for laws in pairs)
    scales = np.array([[float(law.std) for law in laws] for laws in pairs])
    return ends_one_by_one(published, scales, tails, tail)
