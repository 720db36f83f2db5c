"""The acceptance region of two whole-numbered noises, as a polygon of their atoms.

For a direction u = (p, q) let Q(u) be the smallest x with P(p·e₁ + q·e₂ > x) ≤ α/2. It is p·i + q·j
for some atom (i, j), and which atom that is changes at a few directions only: Q is the level of an
arrangement of lines, continuous and piecewise linear. Whole (p, q) have whole Q(u).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.intervals.ratios._level import Level, corners
from dpinfer.intervals.ratios._support import SmoothSupport
from dpinfer.mechanisms import NoiseLaw

BLOCK = 1 << 21
"""Numbers held at once."""

FEW = 256
"""Polygons of at most so many corners are searched corner by corner, others in blocks."""

MARGIN = 1e-9
"""What bounds on Q are widened by, for rounding, relative to the size of the noise."""


@dataclass(frozen=True, eq=False)
class LatticePolygon:
    """Q as pieces: between directions k and k + 1, counted around the circle, Q(u) = <u, atom k>.

    Parameters
    ----------
    directions : array of float, shape (k, 2)
        Directions by angle, all around the circle.
    support : array of float, shape (k,)
        Q at these.
    atoms : array of float, shape (k, 2)
        The point that gives Q from each direction to the next.
    """

    directions: FloatArray
    support: FloatArray
    atoms: FloatArray

    def ends(self, y: FloatArray) -> tuple[NDArray[np.bool_], FloatArray, FloatArray]:
        """Return which points are accepted in every direction, and the ends for the others.

        Between two directions with <u, y> > Q(u) the same holds, the difference being a linear
        function there: so a run of such directions is rejected throughout. Of several runs the
        one around the most extreme direction is taken, and all other directions are accepted.

        Parameters
        ----------
        y : array of float, shape (n, 2)
            Published pairs.

        Returns
        -------
        inside : array of bool, shape (n,)
            Whether no direction is rejected.
        left, right : array of float, shape (n, 2)
            ``y`` minus the atoms that decide at the two ends of the rejected run.
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
    """Bounds on Q by that of noises with densities: off by at most <abs(u), slack>.

    Parameters
    ----------
    support : SmoothSupport
        Q of the standardised noises.
    scale, slack : array of float, shape (2,)
        Their standard deviations, and how far each is at most from the whole-numbered noise.
    """

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
