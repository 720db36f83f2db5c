"""Sums of independent parts by their transforms: tilts, and values that are listed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import astuple, dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import ComplexArray, FloatArray
from dpinfer._numerics.atoms import Atoms, added
from dpinfer._numerics.counts import binom_pmf, binom_radius
from dpinfer._numerics.lattice import by_squaring, tilted_range


class Part(ABC):
    """One summand: what is known of its law L and of M(z) = E[e^(zL)], z on a line Re z = θ >= 0.

    :meth:`cgf` and :meth:`noise` also take rows of laws of one kind, their parameters as columns.
    Parts are frozen and compare by value, so that equal ones can be counted.
    """

    @property
    @abstractmethod
    def mean(self) -> float:
        """E[L]."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Var[L]."""

    @property
    def largest(self) -> float:
        """Supremum of L."""
        return np.inf

    @property
    def log_top(self) -> float:
        """Ln P(L = largest)."""
        return -np.inf

    @property
    def lattice(self) -> tuple[float, float] | None:
        """An atom and the distance h of the atoms, if all values are atoms on a lattice."""
        return None

    @property
    def period(self) -> float:
        """The period 2π/h of the modulus of M along a vertical line."""
        return np.inf if self.lattice is None else 2.0 * np.pi / self.lattice[1]

    @abstractmethod
    def cgf(self, z: ComplexArray) -> ComplexArray:
        """Return K(z) = ln E[e^(zL)] for Re z >= 0 on any branch: 2πi more or less does not matter.

        Its absolute error is a few units of rounding of itself, and of :meth:`noise`.
        """

    def noise(self, theta: float) -> Any:
        """Absolute error of the function above on Re z = θ beyond its own size, in roundings.

        Of bounded losses, one where the logarithm is taken of what is not near 1.
        """
        if np.all(np.isinf(self.largest)):
            return 0.0
        return 1.0 if np.all(self.from_top(theta)) else self.largest

    def from_top(self, theta: float) -> Any:
        """Whether that function is found from the largest loss, not from M(z) - 1."""
        return (theta + 0.5) * self.largest > 1.0

    @abstractmethod
    def log_decay(self, t: FloatArray, theta: float) -> FloatArray:
        """Upper bound on ln abs(M(θ+it)/M(θ)), which falls in t up to half the period."""

    def tilted_atoms(self, theta: float) -> Atoms | None:
        """List atoms on a lattice (ascending) and their P(l)·e^(θl)/M(θ); None if they are many.

        Of infinitely many atoms, those that the tilted law does not all but never have.
        """
        return None


# A sum of parts.


Parts = tuple[tuple[Part, int], ...]

TOTAL_NEGLIGIBLE = 40.0
"""e^-40 = 4e-18 of the leading term is below rounding."""

LONG_LINE = 1 << 12
LOG_NOTHING = -60.0


class Total:
    """The sum of ``count`` losses of each law."""

    def __init__(self, parts: Iterable[tuple[Part, int]]) -> None:
        self.parts: Parts = tuple(parts)
        self.mean = float(sum(count * law.mean for law, count in self.parts))
        self.variance = float(sum(count * law.variance for law, count in self.parts))
        self.largest = float(sum(count * law.largest for law, count in self.parts))

    @cached_property
    def _kinds(self) -> list[tuple[type[Part], FloatArray, FloatArray]]:
        """Parameters and numbers of the laws of each kind as rows, the largest losses first."""
        kinds: dict[type[Part], list[tuple[Part, int]]] = {}
        for law, count in sorted(self.parts, key=lambda part: -part[0].largest):
            kinds.setdefault(type(law), []).append((law, count))
        return [
            (
                kind,
                np.array([astuple(law) for law, _ in parts]).T[..., None],  # type: ignore[call-overload]
                np.array([float(count) for _, count in parts]),
            )
            for kind, parts in kinds.items()
        ]

    def _rows(self, theta: float, size: int) -> Iterator[tuple[Part, FloatArray]]:
        """Yield many laws of one kind as one law, and their numbers: not too many for the cache."""
        most = max(BLOCK // size, 1)
        for kind, parameters, counts in self._kinds:
            large = np.broadcast_to(kind(*parameters).from_top(theta), (counts.size, 1))
            ends = {0, int(large.sum()), counts.size, *range(0, counts.size, most)}
            for start, stop in pairwise(sorted(ends)):
                yield kind(*parameters[:, start:stop]), counts[start:stop]

    def noisy_cgf(self, z: ComplexArray) -> tuple[ComplexArray, FloatArray]:
        """Return ln E[e^(zL)] along a vertical line, and its absolute error in roundings.

        On a long line, which begins on the real axis, laws are left out where others alone make
        abs(M) negligible: what is returned there is a larger one.
        """
        total, noise = np.zeros(z.shape, dtype=np.complex128), np.zeros(z.shape)
        theta, at = float(z.real[0]), np.arange(z.size)
        for law, counts in self._rows(theta, z.size):
            # part by part, as inf times a complex number is not a number
            part = law.cgf(z[at])
            total.real[at] += counts @ part.real
            total.imag[at] += counts @ part.imag
            # of its phase too
            noise[at] += 8.0 * (counts @ (np.abs(part) + law.noise(theta)))
            if z.size > LONG_LINE:
                at = np.flatnonzero(total.real > total.real[0] + LOG_NOTHING)
        return total, noise

    def real_cgf(self, theta: float) -> float:
        """Return ln E[e^(θL)] at one real θ."""
        return float(self.noisy_cgf(np.array([complex(theta)]))[0][0].real)

    def slope(self, theta: float) -> float:
        """Return the mean of the law tilted by θ, by a complex step: only its square is lost."""
        step = 1e-6 * min(theta, *(law.period for law, _ in self.parts))
        return float(self.noisy_cgf(np.array([complex(theta, step)]))[0][0].imag / step)

    def noise(self, theta: float) -> float:
        """Absolute error of :meth:`real_cgf`, in roundings."""
        return float(self.noisy_cgf(np.array([complex(theta)]))[1][0])

    def reach(self, stretch: Stretch, width: float = 0.0) -> float:
        """Period R such that a trapezoid rule of step 2π/R errs by less than rounding.

        The rule adds up the payoff e^(-θ(x+mR)) over all m with x + mR > 0, where x = L - ε. For
        m > 0 it is at most e^(-λ(x+mR)) for every λ in (0, θ], and for m < 0 at most e^(ν(x+mR))
        for every ν > 0, whose means under the tilted law are known. That holds at both ends of the
        stretch, with what is up to ``width`` above an ε counted for it, and so between them.
        """
        theta = stretch.theta
        # a payoff of δ is smaller than one of a probability, by 1/(1+θ) or so
        loss = TOTAL_NEGLIGIBLE + float(np.log1p(theta))
        spread = 1.0 / np.sqrt(max(self.variance, 1e-300))
        moves = theta * np.array([-1.0, -0.5, -0.25, -0.125, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0])
        moves = np.append(moves, [spread, 4.0 * spread])
        growth = np.array([self.real_cgf(theta + move) for move in moves]) - stretch.log_m
        low, high = tilted_range(moves, growth, loss)
        return max(stretch.high + width - low, high - stretch.low)


BLOCK = 1 << 18


APART = 2.0
"""Tilts are about so many standard deviations apart, and lose a factor of √e to the best one."""

MOST_APART = 8.0
"""Times the distance of the means: a factor of e is lost."""

FLAT = 60.0
"""At θh = 60 nothing is above the first atom."""

STEEP = 1e15
"""Of a steeper tilt of the largest loss the rounding of ε leaves nothing."""

UNDERFLOW = -760.0
"""Tails with an exponent below that are zero in floats."""


@dataclass(frozen=True)
class Stretch:
    """A tilt θ > 0, ln M(θ), and the values of ε for which it is used."""

    theta: float
    log_m: float
    low: float
    high: float

    def level(self, epsilon: FloatArray) -> FloatArray:
        """Return ln M(θ)e^(-θε), by which everything is smaller that is found at this tilt."""
        return self.log_m - self.theta * epsilon


@dataclass(frozen=True)
class _Rung:
    theta: float
    log_m: float
    at: float
    """The ε for which it is the best tilt."""

    up: float
    down: float
    """The next tilts."""

    log_delta: float
    """Roughly ln δ there."""


class Ladder:
    """Tilts for all values of ε >= 0, a fixed number of standard deviations apart.

    The best one minimises K(θ) - θε plus the logarithm of the payoff's transform. That is
    1/(θ(θ+1)), or 1/((1-e^(-θh))(1-e^(-(θ+1)h))) on a lattice of width h.
    """

    def __init__(self, total: Total, width: float) -> None:
        self._total, self._width = total, width
        # not 1/√v alone, which is beyond all reason where losses other than the mean are rare
        first = self._rung(1.0 / float(np.sqrt(total.variance + total.mean**2)))
        self._rungs, self._first = [first], 0

    def _rung(self, theta: float) -> _Rung:
        total = self._total
        log_m, mean = total.real_cgf(theta), total.slope(theta)
        spread = max((total.slope(1.001 * theta) - mean) / (0.001 * theta), 0.0)
        for pull in (_pull(theta, self._width), _pull(theta + 1.0, self._width)):
            mean -= pull
            spread += pull * (pull + self._width)
        step = min(APART / float(np.sqrt(max(spread, 1e-300))), 4.0 * theta)
        log_delta = log_m - theta * mean - float(np.log(theta * (theta + 1.0)))
        log_delta -= 0.5 * float(np.log(2.0 * np.pi * max(spread, 1e-300)))
        return _Rung(theta, log_m, mean, theta + step, theta / (1.0 + step / theta), log_delta)

    def _down(self) -> None:
        self._rungs.insert(0, self._next(self._rungs[0], self._rungs[0].down))
        self._first -= 1

    def _up(self) -> bool:
        last, largest = self._rungs[-1], self._total.largest
        end = last.log_m - last.theta * last.at < UNDERFLOW
        flat = last.theta * self._width > FLAT and last.at > largest - 0.5 * self._width
        if end or flat or self._steep(last.theta):
            return False
        self._rungs.append(self._next(last, last.up))
        return True

    def _steep(self, theta: float) -> bool:
        return self._total.largest < np.inf and theta * self._total.largest > STEEP

    def _next(self, last: _Rung, theta: float) -> _Rung:
        """Rung at a tilt, or nearer by where the mean leaps, from one atom to the next."""
        rung = self._rung(theta)
        while (rung.at - last.at) * (rung.theta - last.theta) > MOST_APART:
            theta = 0.5 * (last.theta + theta)
            rung = self._rung(theta)
        return rung

    def stretches(
        self, epsilon: FloatArray, *, deep: bool = False
    ) -> Iterator[tuple[Hashable, Stretch, NDArray[np.intp]]]:
        """Yield a name of each tilt, its stretch, and which ε are in it.

        Far out, where tails are below floats, one serves all, or ``deep`` each has its own.
        """
        lowest, highest = float(epsilon.min()), float(epsilon.max())
        # a rung more on both sides, so that a stretch does not depend on what was asked for
        while len(self._rungs) == 1 or self._rungs[1].at > lowest:
            self._down()
        while self._rungs[-2].at < highest and self._up():
            pass
        last = self._rungs[-1]
        if deep and last.log_m - last.theta * last.at < UNDERFLOW:
            far = np.flatnonzero(epsilon > last.at)
            for i in far:
                stretch = self._beyond(float(epsilon[i]))
                yield ("far", stretch.theta), stretch, np.array([i])
            near = np.flatnonzero(epsilon <= last.at)
            for number, stretch, some in self.stretches(epsilon[near]) if near.size else ():
                yield number, stretch, near[some]
            return
        at = np.array([rung.at for rung in self._rungs])
        edges = 0.5 * (at[1:] + at[:-1])
        place = np.searchsorted(edges, epsilon)
        for i in np.unique(place):
            rung = self._rungs[i]
            top = (rung.log_m - UNDERFLOW) / rung.theta
            high = float(edges[i]) if i < len(edges) else min(top, self._total.largest)
            stretch = Stretch(rung.theta, rung.log_m, float(edges[i - 1]), high)
            yield self._first + int(i), stretch, np.flatnonzero(place == i)

    def _beyond(self, epsilon: float) -> Stretch:
        """Tilt for one ε above all others."""
        low, high = self._rungs[-1].theta, np.inf
        while True:
            theta = min(2.0 * low, 0.5 * (low + high))
            rung = self._rung(theta)
            off = (rung.at - epsilon) * (rung.up - rung.theta)
            steep = self._steep(theta)
            if abs(off) < 0.5 * APART or high < (1.0 + 1e-9) * low or steep:
                return Stretch(theta, rung.log_m, epsilon, epsilon)
            low, high = (theta, high) if off < 0 else (low, theta)

    def guess(self, log_delta: FloatArray) -> FloatArray:
        """Roughly the ε at which ln δ has these values."""
        while self._rungs[0].at > 0 and self._rungs[0].log_delta < log_delta.max():
            self._down()
        while self._rungs[-1].log_delta > log_delta.min() and self._up():
            pass
        rungs = self._rungs
        known = np.maximum.accumulate([-rung.log_delta for rung in rungs])
        return np.asarray(np.interp(-log_delta, known, [rung.at for rung in rungs]))


def _pull(theta: float, width: float) -> float:
    """h/(e^(θh) - 1), which is 1/θ for a width of 0."""
    x = theta * width
    return 1.0 / theta if x == 0 else width / float(np.expm1(min(x, 700.0)))


# Sums of losses with few values, listed: their values, and masses under a tilt.


MOST_ATOMS = 4096
MANY = 1 << 62
DROPPED = 45.0
"""Binomial terms below e^-45 of the largest are dropped: less than 1e-18 of the mass."""

FAR_DROPPED = 140.0
"""The same where terms grow along the path of an integral."""

TRIMMED = 1e-22
RESPONSE = 2
"""A law of two values, whose repeated sums are binomial."""


def number_of_atoms(parts: Parts) -> int:
    """How many values a listed sum has, or more than there may be."""
    sizes = []
    for law, count in parts:
        atoms = law.tilted_atoms(0.0)
        if atoms is None:
            return MANY
        size = count * (len(atoms[0]) - 1) + 1
        if len(atoms[0]) == RESPONSE:
            size = min(size, 2 * _radius(0.5 * count, count, DROPPED) + 1)
        elif np.isinf(law.largest):
            size = int(len(atoms[0]) * np.sqrt(count)) + 1
        sizes.append(size)
    return prod(sizes)


def tilted_atoms(parts: Parts, theta: float, *, window: bool = True) -> Atoms:
    """Values l of the sum, and P(l)·e^(θl)/M(θ).

    With ``window``, values which the tilted law all but never has are left out.
    """
    atoms = np.zeros(1), np.ones(1)
    for law, count in parts:
        atoms = added(atoms, repeated_atoms(law, count, theta, window=window))
    return atoms


def repeated_atoms(law: Part, count: int, theta: float, *, window: bool = True) -> Atoms:
    """Values and tilted masses of a sum of ``count`` losses."""
    atoms = law.tilted_atoms(theta)
    assert atoms is not None
    values, mass = atoms
    if len(values) == RESPONSE and window:
        lows, share = binomial_window(count, float(mass[0]), float(mass.sum()))
        return values[-1] * (count - 2.0 * lows), share
    endless = np.isinf(law.largest)
    mass, before = _power(mass, count, TRIMMED if endless else 0.0)
    # from the middle outwards, so that opposite values are exactly opposite
    places = 2.0 * (before + np.arange(len(mass))) - count * (len(values) - 1)
    centre = 0.5 * (values[0] + values[-1]) if endless else 0.0
    return count * centre + (values[-1] - centre) * places / (len(values) - 1), mass


def binomial_window(
    count: int, low: float, total: float, dropped: float = DROPPED
) -> tuple[FloatArray, FloatArray]:
    """How many of ``count`` are low, and how likely, for shares ``low`` and ``total`` - low."""
    p = low / total
    centre = float(np.floor((count + 1.0) * p))
    radius = _radius(min(centre, float(count)), count, dropped)
    lows = np.arange(max(centre - radius, 0.0), min(centre + radius, float(count)) + 1.0)
    if p < 1e-300:
        return np.zeros(1), np.array([total**count])
    mass = binom_pmf(lows, np.asarray(float(count)), np.asarray(p))
    return lows, mass * total**count


def _radius(centre: float, count: int, dropped: float) -> int:
    return int(binom_radius(np.asarray(centre), np.asarray(float(count)), dropped))


def _power(mass: FloatArray, count: int, least: float) -> tuple[FloatArray, int]:
    """Convolve without what is negligible; and how many sums are gone before it.

    Sums of positive terms keep their relative accuracy.
    """

    def join(one: tuple[FloatArray, int], other: tuple[FloatArray, int]) -> tuple[FloatArray, int]:
        both, gone = _trimmed(np.convolve(one[0], other[0]), least)
        return both, one[1] + other[1] + gone

    return by_squaring(_trimmed(mass, least), count, join)


def _trimmed(mass: FloatArray, least: float) -> tuple[FloatArray, int]:
    kept = np.flatnonzero(mass > least * mass.max())
    return mass[kept[0] : kept[-1] + 1], int(kept[0])
