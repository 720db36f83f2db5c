"""Tails of a sum of privacy losses, each kind by the way that suits it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray
from dpinfer._numerics.counts import binom_pmf, binom_radius
from dpinfer._numerics.lattice import common_spacing
from dpinfer.privacy._loss_laws import ComplexArray, GaussianLoss, LaplaceLoss, LossLaw
from dpinfer.privacy.guarantees import GDP

# A sum of independent privacy losses, and the tilts at which its tails are best looked at.


Parts = tuple[tuple[LossLaw, int], ...]

TOTAL_NEGLIGIBLE = 40.0
"""e^-40 = 4e-18 of the leading term is below rounding."""

LONG_LINE = 1 << 12
LOG_NOTHING = -60.0


class Total:
    """The sum of ``count`` losses of each law."""

    def __init__(self, parts: Iterable[tuple[LossLaw, int]]) -> None:
        self.parts: Parts = tuple(parts)
        self.mean = float(sum(count * law.mean for law, count in self.parts))
        self.variance = float(sum(count * law.variance for law, count in self.parts))
        self.largest = float(sum(count * law.largest for law, count in self.parts))

    @cached_property
    def _kinds(self) -> list[tuple[type[LossLaw], FloatArray, FloatArray]]:
        """Parameters and numbers of the laws of each kind as rows, the largest losses first."""
        kinds: dict[type[LossLaw], list[tuple[LossLaw, int]]] = {}
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

    def _rows(self, theta: float, size: int) -> Iterator[tuple[LossLaw, FloatArray]]:
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
        small = TOTAL_NEGLIGIBLE + float(np.log1p(theta)) - stretch.log_m
        spread = 1.0 / np.sqrt(max(self.variance, 1e-300))
        before = [theta, 0.5 * theta, 0.25 * theta, 0.125 * theta]
        above = [theta * f for f in (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)] + [spread, 4.0 * spread]
        left = min((self.real_cgf(theta - x) + small) / x for x in before)
        right = min((self.real_cgf(theta + x) + small) / x for x in above)
        return float(max(left + stretch.high + width, right - stretch.low))


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
        if end or flat or (largest < np.inf and last.theta * largest > STEEP):
            return False
        self._rungs.append(self._next(last, last.up))
        return True

    def _next(self, last: _Rung, theta: float) -> _Rung:
        """Rung at a tilt, or nearer by where the mean leaps, from one atom to the next."""
        rung = self._rung(theta)
        while (rung.at - last.at) * (rung.theta - last.theta) > MOST_APART:
            theta = 0.5 * (last.theta + theta)
            rung = self._rung(theta)
        return rung

    def stretches(self, epsilon: FloatArray) -> Iterator[tuple[int, Stretch, NDArray[np.intp]]]:
        """Yield the number of each tilt, its stretch, and which ε are in it."""
        lowest, highest = float(epsilon.min()), float(epsilon.max())
        # a rung more on both sides, so that a stretch does not depend on what was asked for
        while len(self._rungs) == 1 or self._rungs[1].at > lowest:
            self._down()
        while self._rungs[-2].at < highest and self._up():
            pass
        at = np.array([rung.at for rung in self._rungs])
        edges = 0.5 * (at[1:] + at[:-1])
        place = np.searchsorted(edges, epsilon)
        for i in np.unique(place):
            rung = self._rungs[i]
            top = (rung.log_m - UNDERFLOW) / rung.theta
            high = float(edges[i]) if i < len(edges) else min(top, self._total.largest)
            stretch = Stretch(rung.theta, rung.log_m, float(edges[i - 1]), high)
            yield self._first + int(i), stretch, np.flatnonzero(place == i)

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


def tilted_atoms(
    parts: Parts, theta: float, *, window: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Values l of the sum, and P(l)·e^(θl)/M(θ).

    With ``window``, values which the tilted law all but never has are left out.
    """
    values, mass = np.zeros(1), np.ones(1)
    for law, count in parts:
        at, share = repeated_atoms(law, count, theta, window=window)[:2]
        values = np.add.outer(values, at).ravel()
        mass = np.multiply.outer(mass, share).ravel()
    return values, mass


def repeated_atoms(
    law: LossLaw, count: int, theta: float, *, window: bool = True
) -> tuple[FloatArray, FloatArray]:
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
    """Convolve by squaring, without what is negligible; and how many sums are gone before it.

    Sums of positive terms keep their relative accuracy.
    """
    result, first = np.ones(1), 0
    square, square_first = mass, 0
    while count:
        if count & 1:
            result, gone = _trimmed(np.convolve(result, square), least)
            first += square_first + gone
        count >>= 1
        if count:
            square, gone = _trimmed(np.convolve(square, square), least)
            square_first = 2 * square_first + gone
    return result, first


def _trimmed(mass: FloatArray, least: float) -> tuple[FloatArray, int]:
    kept = np.flatnonzero(mass > least * mass.max())
    return mass[kept[0] : kept[-1] + 1], int(kept[0])


# What is left of an integral along a vertical line beyond some height: certified bounds.


Bound = Callable[[FloatArray], FloatArray]
"""Upper bound on ∫ abs(M(θ+it)/M(θ))/t² dt over t > T, for heights T > 0."""

WINDOW_NODES = 400


def left_over(parts: Iterable[tuple[LossLaw, int]], theta: float, period: float = np.inf) -> Bound:
    """Bound for a sum of losses; with a ``period``, of the integral up to half of it only.

    Laws without revivals before the end are bounded by their size at T. The transform of a lattice
    comes back to 1 once in each of its own periods P, in windows of a small area W: those add up to
    W·Σ 1/((m-1/2)P)². One lattice law is bounded in that way, whichever is best.
    """
    fading: list[tuple[LossLaw, int]] = []
    reviving: list[tuple[LossLaw, int]] = []
    for law, count in parts:
        (fading if law.period >= period * (1.0 - 1e-9) else reviving).append((law, count))
    windows = [_Windows(law, count, theta) for law, count in reviving]

    def bound(t: FloatArray) -> FloatArray:
        best = 1.0 / t
        for window in windows:
            best = np.minimum(best, window(t))
        log_size = np.zeros(t.shape)
        for law, count in fading:
            log_size += count * np.minimum(law.log_decay(t, theta), 0.0)
        return np.asarray(best * np.exp(log_size))

    return bound


def without_atoms(laplace: Iterable[tuple[LaplaceLoss, int]], theta: float, rest: Bound) -> Bound:
    """Bound for Laplace losses less the term that has only atoms.

    With r the density's share over that of the atoms, Π(1 + rᵢ) - 1 is at most y·e^y, y = Σ rᵢ.
    """

    def bound(t: FloatArray) -> FloatArray:
        log_atoms, y, log_all = np.zeros(t.shape), np.zeros(t.shape), np.zeros(t.shape)
        for law, count in laplace:
            atoms, density = law.shares(t, theta)
            log_atoms += count * np.log(atoms)
            log_all += count * np.log(np.minimum(atoms + density, 1.0))
            y += count * density / atoms
        some = np.exp(np.minimum(y + log_atoms, 700.0)) * y
        return np.asarray(rest(t) * np.minimum(some, np.exp(log_all) + np.exp(log_atoms)))

    return bound


class _Windows:
    """∫ m(t)/t² over t > T for an even periodic m that falls up to half its period."""

    def __init__(self, law: LossLaw, count: int, theta: float) -> None:
        self.half = 0.5 * law.period
        self.law, self.count, self.theta = law, count, theta
        # m falls: its area is at most a sum of its values at the left ends
        t = np.concatenate([[0.0], np.geomspace(1e-9, 1.0, WINDOW_NODES)]) * self.half
        m = np.concatenate([[1.0], self._size(t[1:-1])])
        self.area = 2.0 * float(np.sum(m * np.diff(t)))

    def __call__(self, t: FloatArray) -> FloatArray:
        number = np.maximum(np.floor(0.5 * t / self.half + 0.5), 1.0)
        later = self.area * special.polygamma(1, number - 0.5) / (2.0 * self.half) ** 2
        inside = t < self.half
        first = np.zeros(t.shape)
        first[inside] = self._size(t[inside]) * (1.0 / t[inside] - 1.0 / self.half)
        return np.asarray(first + later)

    def _size(self, t: FloatArray) -> FloatArray:
        log_size = np.minimum(self.law.log_decay(t, self.theta), 0.0)
        return np.asarray(np.exp(self.count * log_size))


# Payoffs of a tail, and their transforms along a vertical line.


def continuous_payoffs(z: ComplexArray) -> ComplexArray:
    """Return the transforms ∫ e^(-zx)·payoff(x) dx over x = L - ε > 0, shape (3, n)."""
    return np.asarray(np.stack([1.0 / (z * (z + 1.0)), 1.0 / z, 1.0 / (z + 1.0)]))


def lattice_payoffs(z: ComplexArray, step: float) -> ComplexArray:
    """Return transforms of which those of the payoffs are made, shape (4, n).

    With first atom g above ε, the sums h·Σ e^(-z·jh)·payoff(g + jh) over j >= 0 are
    (1-e^-g)·a + (e^-g-e^-h)·b, terms of one sign at real z, and c, and e^-g·d.
    """
    first = -np.expm1(-z * step)
    second = -np.expm1(-(z + 1.0) * step)
    both = step / (first * second)
    return np.asarray(np.stack([both, np.exp(-z * step) * both, step / first, step / second]))


def step_payoffs(x: FloatArray, inclusive: bool) -> FloatArray:
    """Return the payoffs of the values x = L - ε themselves, with a first axis of 3."""
    above = x >= 0 if inclusive else x > 0
    x = np.maximum(x, 0.0)
    return np.where(above, np.stack([-np.expm1(-x), np.ones_like(x), np.exp(-x)]), 0.0)


# Integrals over a vertical line in the plane of tilts, by the trapezoid rule, with their errors.


MOST_NODES = 1 << 17
MOST_HEIGHT = 1 << 21
MOST_CIRCLE = 1 << 18
CHEAP = 1 << 13
TIGHT, LOOSE = 1e-15, 1e-11
"""How much may be left, in units of the first node."""

LOG_SKIPPED = -50.0
SKIPPED = 1e-20
"""Bound on the sum of all nodes that are skipped, which have e^-50 each."""

PLACES = np.geomspace(1e-6, 1.0, 200)[:-1]
PRUNED = 1e-22
FULL_CIRCLE = 1 << 9
BLOCK = 1 << 18
ROUNDING = 1.2e-16
WRAPPED = 3e-17
"""Bound on what the period wraps around on both sides, and on what a list leaves out."""


@dataclass(frozen=True)
class Tails:
    """δ(ε), P(L > ε) and e^ε·Q(L > ε) at each ε, and bounds on their errors, shape (3, n).

    Where abs(M) does not decay, the errors of the two probabilities are estimates.
    """

    values: FloatArray
    errors: FloatArray

    def __add__(self, other: Tails) -> Tails:
        return Tails(self.values + other.values, self.errors + other.errors)


class Nodes:
    """Sums Σ Re(w·e^(-itx)) over heights t for a few columns of weights w, at any x.

    ``trust``: errors of the weights in roundings, and those of the phase for each unit of x;
    ``left``: bounds on what the sums leave out.
    """

    def __init__(
        self,
        heights: FloatArray,
        weights: ComplexArray,
        trust: tuple[FloatArray, FloatArray],
        left: FloatArray,
    ) -> None:
        size = np.abs(weights)
        self._still = ROUNDING * (trust[0] @ size) + left
        self._moving = ROUNDING * (trust[1] @ size)
        matters = (size > PRUNED * size.sum(axis=0)).any(axis=1)
        self._still += size[~matters].sum(axis=0)
        weights, self._heights = weights[matters], heights[matters]
        self._parts = weights.real.copy(), weights.imag.copy()

    def __call__(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the sums and bounds on their errors at a vector of x, shape (columns, n)."""
        found = np.empty((x.size, len(self._still)))
        rows = max(BLOCK // self._heights.size, 1)
        for start in range(0, x.size, rows):
            angle = np.multiply.outer(x[start : start + rows], self._heights)
            found[start : start + rows] = np.cos(angle) @ self._parts[0]
            found[start : start + rows] += np.sin(angle, out=angle) @ self._parts[1]
        return found.T, self._still[:, None] + np.multiply.outer(self._moving, np.abs(x))


def continuous_line(
    total: Total,
    part: Callable[[ComplexArray], tuple[ComplexArray, FloatArray]],
    bound: Bound,
    stretch: Stretch,
) -> Nodes:
    """Nodes of that part of the law which has the transform ``part``·M(θ), with its noise."""
    theta = stretch.theta
    step = 2.0 * np.pi / total.reach(stretch)
    top = 1.0 / (theta * (theta + 1.0))
    windows = _windows(total, theta)
    density = min((2.0 * width / period for period, width in windows), default=1.0)
    most = int(min(MOST_NODES / density, MOST_HEIGHT))
    nodes = _enough(bound, top * step, step, most)
    n = _inside(nodes, step, windows)
    z = np.asarray(theta + 1j * step * n, dtype=np.complex128)
    ratio, noise = part(z)
    weights = (ratio * continuous_payoffs(z)).T * (step / np.pi)
    weights[n == 0] *= 0.5
    few = (WRAPPED + SKIPPED) * _lost(theta)
    left = _cut(bound, (nodes - 0.5) * step) / np.pi + few
    return Nodes(step * n, weights, (8.0 + noise, 2.0 * np.abs(z)), left)


def lattice_circle(base: Total, lattice: Lattice, whole: Total, stretch: Stretch) -> Nodes:
    """Nodes of a law on a lattice, the ``base`` of a ``whole`` law, for :func:`lattice_payoffs`."""
    theta, width = stretch.theta, lattice.width
    reach = whole.reach(stretch, width)
    half = max(int(np.ceil(0.5 * reach / width)), 1)
    step = np.pi / (half * width)
    top = lattice_payoffs(np.array([complex(theta)]), width)[:, 0].real
    n = circle(base, theta, step, half)
    if n is not None:
        left = np.exp(LOG_SKIPPED) * half * step / np.pi * top
    else:
        bound = left_over(base.parts, theta, 2.0 * np.pi / width)
        # abs(1 - e^(-zh)) >= 2e^(-θh/2)·sin(th/2) >= 2th/π·e^(-θh/2), twice
        slack = 2.5 * float(np.exp(min((theta + 0.5) * width, 600.0)))
        unit = float(top[0]) * -np.expm1(-width) * step / slack
        nodes = _enough(bound, unit, step, min(half + 1, MOST_CIRCLE))
        n = np.arange(nodes)
        cut = slack * _cut(bound, (nodes - 0.5) * step) / np.pi if nodes <= half else np.zeros(3)
        left = cut[[0, 0, 1, 2]] / np.array([width, width, 1.0, 1.0])
    z = np.asarray(theta + 1j * step * n, dtype=np.complex128)
    log_ratio, noise = base.noisy_cgf(z)
    ratio = np.exp(log_ratio - base.real_cgf(theta))
    weights = (ratio * lattice_payoffs(z, width)).T * (step / np.pi)
    weights[(n == 0) | (n == half)] *= 0.5
    height = np.abs(z)
    # how far the values of all laws together are from 0, or from where their tilts move them
    apart = reach * float(np.sqrt(len(base.parts))) + abs(lattice.offset)
    still = 8.0 + noise + height * apart * lattice.uneven / ROUNDING
    moving = height * (2.0 + lattice.uneven / ROUNDING)
    return Nodes(np.asarray(step * n, dtype=np.float64), weights, (still, moving), left)


@dataclass(frozen=True)
class Lattice:
    """Atoms at offset + j·width, up to a relative error ``uneven`` of the laws' own steps."""

    offset: float
    width: float
    uneven: float

    def above(self, epsilon: FloatArray, inclusive: bool) -> tuple[FloatArray, FloatArray]:
        """First atom above each ε, or at it if ``inclusive``, and how far above it is."""
        place = (epsilon - self.offset) / self.width
        nearest = np.rint(place)
        rounding = 1e-15 * (np.abs(epsilon) + abs(self.offset)) / self.width
        rounding += 1e-15 * np.abs(place)
        same = np.abs(place - nearest) <= rounding
        index = np.where(same, nearest + (0.0 if inclusive else 1.0), np.floor(place) + 1.0)
        gap = np.where(same, 0.0 if inclusive else self.width, (index - place) * self.width)
        return epsilon + gap, gap


def circle(base: Total, theta: float, step: float, half: int) -> NDArray[Any] | None:
    """Numbers of the nodes up to half way round a circle that matter; None if they are many.

    All others are outside the windows of some law, which alone makes them negligible.
    """
    if half < FULL_CIRCLE:
        return np.arange(half + 1)
    windows = _windows(base, theta)
    few = windows and windows[0][1] / windows[0][0] * half < 0.5 * MOST_CIRCLE
    return _inside(half + 1, step, windows) if few else None


def _windows(total: Total, theta: float) -> list[tuple[float, float]]:
    """Periods, and distances from multiples beyond which abs(M) is negligible, the best first."""
    windows = []
    for law, count in total.parts:
        if np.isfinite(law.period):
            t = PLACES * 0.5 * law.period
            small = np.flatnonzero(count * law.log_decay(t, theta) < LOG_SKIPPED)
            if small.size:
                windows.append((law.period, float(t[small[0]])))
    return sorted(windows, key=lambda window: window[1] / window[0])


def _inside(nodes: int, step: float, windows: list[tuple[float, float]]) -> NDArray[Any]:
    """Numbers of the first nodes that are within a window of each law."""
    n = np.arange(nodes if not windows else 0)
    for i, (period, width) in enumerate(windows):
        if i == 0:
            turns = period * np.arange(nodes * step // period + 2.0)
            last = np.floor((turns + width) / step)
            first = np.maximum(np.ceil((turns - width) / step), np.append(0.0, last[:-1] + 1.0))
            sizes = np.maximum(last - first + 1.0, 0.0).astype(np.int64)
            n = np.arange(sizes.sum()) + np.repeat(first - np.cumsum(sizes) + sizes, sizes)
            n = n[n < nodes].astype(np.int64)
        else:
            t = step * n
            n = n[np.abs(t - period * np.rint(t / period)) <= width]
    return n


def _enough(bound: Bound, unit: float, step: float, most: int) -> int:
    """Return the fewest nodes after which too little is left to matter, or as many as may be.

    What falls like a power is followed less far than what falls like an exponential.
    """
    candidates = np.unique(np.geomspace(min(16, most), most, 60).astype(np.int64))
    left = bound(np.asarray((candidates - 0.5) * step, dtype=np.float64))
    tight = np.flatnonzero(left <= TIGHT * unit)
    if tight.size and candidates[tight[0]] <= CHEAP:
        return int(candidates[tight[0]])
    loose = np.flatnonzero(left <= LOOSE * unit)
    return max(int(candidates[loose[0]]), min(CHEAP, most)) if loose.size else int(most)


def _lost(theta: float) -> FloatArray:
    """Payoffs of what is left out, for δ and for the probabilities, relative to the tilt."""
    return np.array([1.0 / (1.0 + theta), 1.0, 1.0])


def _cut(bound: Bound, height: float) -> FloatArray:
    """Bound what is left beyond a height; for probabilities, whose payoff falls as 1/t, roughly."""
    left = float(bound(np.array([height]))[0])
    return np.array([left, 10.0 * height * left, 10.0 * height * left])


# Tails of Laplace losses, alone or beside laws of few values, along a hyperbola.


ANGLE = 0.625 * np.pi
"""Angle of the asymptotes with the real axis: half way between π/2 and 3π/4."""

STRIP = 0.1 * np.pi
"""Half the width of the strip of angles on whose edges the integrand is bounded."""

STEP = 2.0 * np.pi * STRIP / 40.0
"""Step of the trapezoid rule, whose error is e^-40 of the integral along the edges."""

MOST_LOST = 12.0
"""Terms that grow near a pole, and a tilt away from the saddle point, may cost a factor of e^12."""

DECAYED = 45.0
"""The path ends where e^(zx) is below e^-45, for the smallest x."""

HYPERBOLA_MOST_HEIGHT = 35.0
NEGLIGIBLE = 1e-38
"""Terms with a smaller share, at the tilt and far out, are dropped."""

DROPPED_MASS = 1e-18
"""Bound on what each of them comes to, as it grows by e^12 at most in between."""

LARGEST_EXPONENT = 650.0
"""Exponents on the edges of the strip are cut there: the error bound is infinite for all that."""


@dataclass(frozen=True)
class _Terms:
    """Distances x = s - ε > 0, shares at the tilt, and numbers of factors z/w and (z+1)/w."""

    x: FloatArray
    share: FloatArray
    low: FloatArray
    high: FloatArray


def hyperbola(
    total: Total,
    laplace: tuple[tuple[LaplaceLoss, int], ...],
    listed: Parts,
    epsilon: float,
    theta: float,
    inclusive: bool,
) -> Tails:
    """Tails of the Laplace losses and the ``listed`` laws together."""
    terms, dropped, atom = _terms(laplace, listed, epsilon, theta)
    scale = float(np.exp(total.real_cgf(theta) - theta * epsilon))
    ends = np.array([0.0, atom, atom]) if inclusive else np.zeros(3)
    if not terms.x.size:
        return Tails(scale * ends, scale * (dropped + 1e-14 * ends))
    # not so wide that the integrand grows by much between the axis and the edges of the strip
    spread = (total.slope(theta * 1.001) - total.slope(theta)) / (0.001 * theta)
    spread += 1.0 / theta**2 + 1.0 / (theta + 1.0) ** 2
    axis = min(2.0 * theta, 6.0 / np.sqrt(max(spread, 1e-300)))
    last = DECAYED / (abs(np.cos(ANGLE)) * axis * float(terms.x.min()))
    height = min(np.arccosh(1.0 + last), HYPERBOLA_MOST_HEIGHT)
    values, sizes = _integral(terms, theta, axis, ANGLE, STEP, height)
    edges = sum(
        _integral(terms, theta, axis, ANGLE + side * STRIP, 8.0 * STEP, height)[1]
        for side in (-1.0, 1.0)
    )
    # what is left beyond the height falls like the payoff there
    far = theta + axis * np.exp(height)
    left = np.array([1.0 / far, 1e-16, 1e-16])
    trust = 50.0 + 4.0 * total.noise(theta) + 4.0 * theta * epsilon
    errors = (
        ROUNDING * trust * sizes
        + 2.0 * np.exp(-40.0) * edges  # which are found with a coarse step
        + dropped * np.array([1.0 / (1.0 + theta), 1.0, 1.0])
        + left * 1e-16
    )
    return Tails(scale * (values + ends), scale * (errors + 1e-14 * ends))


def away_from_poles(
    total: Total, count: int, epsilon: FloatArray, theta: float
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Tilts beside which ``count`` poles do little harm, and for which ε there are such.

    Single terms grow by about e^(k/(8w²)), w = θ + 1/2, along the path, and another tilt than that
    of the saddle point makes all of them larger: the sum of both exponents is made small.
    """
    tilts = theta * np.geomspace(1.0, max(np.sqrt(count) / theta, 1.0), 12)
    log_m = np.array([total.real_cgf(tilt) for tilt in tilts])
    lost = log_m + 0.5 * count / np.square(2.0 * tilts + 1.0) - np.multiply.outer(epsilon, tilts)
    best = np.argmin(lost, axis=1)
    least = log_m[0] - theta * epsilon + MOST_LOST
    return tilts[best], lost[np.arange(epsilon.size), best] <= least


def _terms(
    laplace: Iterable[tuple[LaplaceLoss, int]], listed: Parts, epsilon: float, theta: float
) -> tuple[_Terms, float, float]:
    """Terms above ε, the shares of the dropped ones, and the mass of an atom at ε."""
    at, share = tilted_atoms(listed, theta)
    low, high = np.zeros(at.size), np.zeros(at.size)
    w = theta + 0.5
    for law, count in laplace:
        flip = theta * np.exp(-2.0 * w * law.shift)
        number, mass = binomial_window(count, flip / (theta + 1.0 + flip), 1.0, FAR_DROPPED)
        at = np.add.outer(at, law.shift * (count - 2.0 * number)).ravel()
        share = np.multiply.outer(share, mass).ravel()
        low = np.add.outer(low, number).ravel()
        high = np.add.outer(high, count - number).ravel()
        # far out the factors z/w and (z+1)/w are 1, and at the tilt they may be small
        grown = low * np.log(w / theta) + high * np.log(w / (theta + 1.0))
        kept = share * np.exp(np.clip(grown, 0.0, 600.0)) > NEGLIGIBLE
        at, share, low, high = at[kept], share[kept], low[kept], high[kept]
    x = at - epsilon
    same = np.abs(x) <= 4e-16 * (np.abs(at) + abs(epsilon))
    # the atom is what the rational factors leave of the share far out
    log_atom = np.log(w / theta) * low[same] + np.log(w / (theta + 1.0)) * high[same]
    atom = float(np.sum(share[same] * np.exp(log_atom)))
    above = (x > 0) & ~same
    terms = _Terms(x[above], share[above], low[above], high[above])
    return terms, DROPPED_MASS * max(share.size, 100), atom


def _integral(
    terms: _Terms, theta: float, axis: float, angle: float, step: float, height: float
) -> tuple[FloatArray, FloatArray]:
    """Integral along one hyperbola, and that of the absolute values."""
    u = step * np.arange(int(np.ceil(height / step)) + 1.0)
    centre = theta - axis * np.cos(ANGLE)
    z = centre + axis * np.cos(angle + 1j * u)
    speed = axis * np.sin(angle + 1j * u)  # -dz/du/i, upwards
    factors = _rational(z, theta, terms)
    exponent = np.multiply.outer(z - theta, terms.x)
    exponent += factors
    np.minimum(exponent.real, LARGEST_EXPONENT, out=exponent.real)
    along = np.exp(exponent) @ terms.share
    values = along * speed * continuous_payoffs(z)
    values[:, 0] *= 0.5
    size = np.exp(exponent.real) @ terms.share * np.abs(speed * continuous_payoffs(z))
    return values.real.sum(axis=1) * step / np.pi, size.sum(axis=1) * step / np.pi


def _rational(z: ComplexArray, theta: float, terms: _Terms) -> ComplexArray:
    """Ln of the rational factors at z over those at θ, shape (nodes, terms)."""
    w = theta + 0.5
    low = special.log1p(-0.5 / (z + 0.5)) - np.log1p(-0.5 / w)
    high = special.log1p(0.5 / (z + 0.5)) - np.log1p(0.5 / w)
    return np.asarray(np.multiply.outer(low, terms.low) + np.multiply.outer(high, terms.high))


FINE = 64
FINEST = 1e-5
"""Lattices whose steps are multiples of a common one are one lattice. It is at least this part of
the largest step, and a 64th of the smallest or so that few nodes on the circle matter."""

FEW_NODES = 1 << 14
FEW_LAWS = 12
"""Among more laws that are not all on one lattice only simple ratios of steps are looked for."""

UNEVEN = 1e-14

FEW_ATOMS = 256
"""Up to here it is quickest to list all values."""

FADED = 1e-9
"""Atoms of Laplace losses with less mass than this are left to the line."""

ATOMS_MATTER = 1e-18
"""The same where a lattice stands beside them, which makes a line slow."""

MOST_EXPONENTIALS = 1 << 15
MOST_TILT = 300.0
"""The exponent of the largest mass in a list that is tilted."""

PARAMETERS = 4e-16
"""Relative error of the values of a law, from the rounding of its parameters."""

LARGE = 30.0
MOST_MIXED = 64
CLOSED_FORM = 1e-13
SUMMATION = 1e-13


class Inversion:
    """Tails of a sum of losses at any ε.

    - Gaussian losses alone: in closed form.
    - A single lattice: sums over the circle of its transform.
    - A lattice or a Gaussian beside laws of few values: mixed over those values.
    - Laplace losses, alone or beside laws of few values: along a hyperbola. Where its poles are
      too near, mixed over the other laws' values if few are near, else over their own atoms.
    - Laplace losses beside a lattice: mixed over their atoms, and the rest along a line.
    - What remains: along a line, whose end is bounded.

    An ε within rounding of the largest loss counts as that loss. What is found at one tilt is kept,
    and serves all ε in its stretch.
    """

    def __init__(self, parts: Parts) -> None:
        self.total = Total(parts)
        self._plan = plan = _plan(parts)
        alone = plan.lattice is not None and not plan.listed and not plan.laplace
        self._alone = plan.lattice if alone else None
        self._ladder = Ladder(self.total, self._alone.width if self._alone else 0.0)
        self.guess = self._ladder.guess
        # masses of k losses are k-th powers of rounded ones
        self._listing = 4.0 * ROUNDING * _number(plan.laplace + plan.listed)
        self._kept: dict[tuple[str, int], Any] = {}

    def tails(self, epsilon: FloatArray, *, inclusive: bool = False) -> Tails:
        """δ(ε), P(L > ε) and e^ε·Q(L > ε) at a vector of ε; with ``inclusive``, of L >= ε.

        The values of a law are rounded as its parameters are, as if ε were a little different.
        """
        values, errors = np.zeros((3, epsilon.size)), np.zeros((3, epsilon.size))
        below = np.flatnonzero(epsilon < 0)
        above = np.flatnonzero(epsilon >= 0)
        if above.size:
            found = self._above(epsilon[above], inclusive)
            values[:, above], errors[:, above] = found.values, found.errors
        if below.size:
            # P against Q and Q against P have the same law
            found = self._above(-epsilon[below], not inclusive)
            delta, probability, scaled = found.values
            flip = np.exp(epsilon[below])
            values[:, below] = flip * np.stack([delta, -scaled, 1.0 - probability])
            values[0, below] -= np.expm1(epsilon[below])
            values[1, below] += 1.0
            errors[:, below] = flip * found.errors[[0, 2, 1]] + ROUNDING
        return Tails(values, errors)

    def _above(self, epsilon: FloatArray, inclusive: bool) -> Tails:
        total = self.total
        found = Tails(np.zeros((3, epsilon.size)), np.zeros((3, epsilon.size)))
        if len(total.parts) == 1 and isinstance(total.parts[0][0], GaussianLoss):
            found = _gaussian_tails(total.parts[0][0], epsilon[:, None], np.zeros(1))
        else:
            top = np.abs(epsilon - total.largest) <= 4e-16 * epsilon
            if inclusive:
                mass = float(np.exp(sum(count * law.log_top for law, count in total.parts)))
                found.values[1:, top] = mass
                found.errors[1:, top] = SUMMATION * mass
            inner = np.flatnonzero((epsilon < total.largest) & ~top)
            if inner.size:
                where = epsilon[inner]
                if self._alone is not None:
                    where = self._alone.above(where, inclusive)[0]
                for number, stretch, at in self._ladder.stretches(where):
                    at = inner[at]
                    some = self._at_tilt(number, stretch, epsilon[at], inclusive)
                    found.values[:, at], found.errors[:, at] = some.values, some.errors
        moved = PARAMETERS * (epsilon + total.mean + 10.0 * float(np.sqrt(total.variance)))
        found.errors[0] += moved * found.values[2]
        return found

    def _at_tilt(
        self, number: int, stretch: Stretch, epsilon: FloatArray, inclusive: bool
    ) -> Tails:
        plan, theta = self._plan, stretch.theta
        if not plan.separate:

            def line() -> Nodes:
                def part(z: ComplexArray) -> tuple[ComplexArray, FloatArray]:
                    log_ratio, noise = self.total.noisy_cgf(z)
                    return np.exp(log_ratio - stretch.log_m), noise

                bound = left_over(self.total.parts, theta)
                return continuous_line(self.total, part, bound, stretch)

            return _on_line(self._keep("line", number, line), stretch, epsilon)
        if not plan.laplace:
            return self._listed(number, stretch, epsilon, inclusive)
        found = Tails(np.zeros((3, epsilon.size)), np.zeros((3, epsilon.size)))
        left = np.ones(epsilon.size, dtype=bool)
        if not plan.base:
            poles = _number(plan.laplace)
            tilts, far = away_from_poles(self.total, poles, epsilon, theta)
            for i in np.flatnonzero(far):
                e, tilt = float(epsilon[i]), float(tilts[i])
                one = hyperbola(self.total, plan.laplace, plan.listed, e, tilt, inclusive)
                found.values[:, i], found.errors[:, i] = one.values, one.errors
            left = ~far
        if left.any():
            some = self._mixed(stretch, epsilon[left], inclusive)
            if some is None:
                some = self._listed(number, stretch, epsilon[left], inclusive)
                nodes = self._keep("densities", number, lambda: self._densities(stretch))
                some += _on_line(nodes, stretch, epsilon[left])
            found.values[:, left], found.errors[:, left] = some.values, some.errors
        return found

    def _keep(self, kind: str, number: int, make: Callable[[], Any]) -> Any:
        if (kind, number) not in self._kept:
            self._kept[kind, number] = make()
        return self._kept[kind, number]

    def _listed(self, number: int, stretch: Stretch, epsilon: FloatArray, inclusive: bool) -> Tails:
        """Tails of the base, mixed over the values that are listed."""
        plan, theta = self._plan, stretch.theta
        narrow = bool(plan.base or plan.laplace)
        if not narrow:
            # enough to keep masses from underflow, and small enough to lose nothing by rounding
            theta = min(theta, MOST_TILT / self.total.largest)
        everything = plan.laplace + plan.listed

        def listing() -> tuple[FloatArray, FloatArray]:
            return tilted_atoms(everything, theta, window=narrow)

        shifts = self._keep("listed", number, listing)
        if plan.lattice is not None:
            base, lattice = Total(plan.base), plan.lattice

            def nodes() -> Nodes:
                return lattice_circle(base, lattice, self.total, stretch)

            kept = self._keep("circle", number, nodes)
            found = _on_circle(kept, lattice, shifts, stretch, epsilon, inclusive)
            return found + Tails(np.zeros(1), self._listing * found.values)
        values, log_mass = _untilted(everything, shifts, theta)
        x = epsilon[:, None] - values
        if plan.base:
            base_law = plan.base[0][0]
            assert isinstance(base_law, GaussianLoss)
            found = _gaussian_tails(base_law, x, log_mass)
            return found + Tails(np.zeros(1), self._listing * found.values)
        x[np.abs(x) <= 4e-16 * (np.abs(values) + epsilon[:, None])] = 0.0
        terms = np.exp(log_mass) * step_payoffs(-x, inclusive)
        tails = terms.sum(axis=-1)
        if not narrow:
            return Tails(tails, (SUMMATION + self._listing) * tails)
        trust = (
            self._listing / ROUNDING
            + 50.0
            + 4.0 * self.total.noise(theta)
            + 4.0 * theta * np.abs(values)
        )
        return Tails(tails, ROUNDING * (terms @ trust) + _left(stretch, epsilon))

    def _mixed(self, stretch: Stretch, epsilon: FloatArray, inclusive: bool) -> Tails | None:
        """Tails of the Laplace losses, mixed over the values of the others if few are near."""
        others = self._plan.base + self._plan.listed
        if not others or number_of_atoms(others) > MOST_EXPONENTIALS:
            return None
        shifts = tilted_atoms(others, stretch.theta)
        values, log_mass = _untilted(others, shifts, stretch.theta)
        x = epsilon[:, None] - values
        if (np.abs(x) <= self._laplace.total.largest).sum() > MOST_MIXED * epsilon.size:
            return None
        found = self._laplace.tails(x.ravel(), inclusive=inclusive)
        errors = found.errors + (SUMMATION + 4.0 * ROUNDING * _number(others)) * found.values
        shape, mass = (3, *x.shape), np.exp(log_mass)
        left = _left(stretch, epsilon)
        return Tails(found.values.reshape(shape) @ mass, errors.reshape(shape) @ mass + left)

    @cached_property
    def _laplace(self) -> Inversion:
        return Inversion(self._plan.laplace)

    def _densities(self, stretch: Stretch) -> Nodes:
        """Nodes of what has a density of a Laplace loss in it."""
        plan = self._plan
        others = Total(
            [(law, k) for law, k in self.total.parts if not isinstance(law, LaplaceLoss)]
        )

        def part(z: ComplexArray) -> tuple[ComplexArray, FloatArray]:
            log_atoms, noise = others.noisy_cgf(z)
            noise += Total(plan.laplace).noisy_cgf(z)[1]
            log_atoms -= stretch.log_m
            log_more = np.zeros_like(z)
            for law, count in plan.laplace:
                log_atoms += count * law.log_atomic(z)
                log_more += count * special.log1p(law.density_ratio(z))
            # where one factor may be beyond floats and the product is not, apart
            if log_more.real.max() > LARGE:
                return np.exp(log_atoms + log_more) - np.exp(log_atoms), noise
            return np.exp(log_atoms) * special.expm1(log_more), noise

        bound = left_over(others.parts, stretch.theta)
        bound = without_atoms(plan.laplace, stretch.theta, bound)
        return continuous_line(self.total, part, bound, stretch)


def _scale(stretch: Stretch, epsilon: FloatArray) -> FloatArray:
    return np.exp(stretch.log_m - stretch.theta * epsilon)


def _left(stretch: Stretch, epsilon: FloatArray) -> FloatArray:
    """Bound on the tails of what a list leaves out."""
    return np.multiply.outer(WRAPPED * _lost(stretch.theta), _scale(stretch, epsilon))


def _on_line(nodes: Nodes, stretch: Stretch, epsilon: FloatArray) -> Tails:
    values, errors = nodes(epsilon)
    scale = _scale(stretch, epsilon)
    return Tails(scale * values, scale * errors)


def _on_circle(
    nodes: Nodes,
    lattice: Lattice,
    shifts: tuple[FloatArray, FloatArray],
    stretch: Stretch,
    epsilon: FloatArray,
    inclusive: bool,
) -> Tails:
    """Tails of a law on a lattice, mixed over shifts with their masses under the tilt."""
    rows = max(BLOCK // shifts[0].size, 1)
    if epsilon.size > rows:
        blocks = [epsilon[i : i + rows] for i in range(0, epsilon.size, rows)]
        found = [_on_circle(nodes, lattice, shifts, stretch, e, inclusive) for e in blocks]
        values = np.concatenate([tails.values for tails in found], axis=1)
        return Tails(values, np.concatenate([tails.errors for tails in found], axis=1))
    first, gap = lattice.above(epsilon[:, None] - shifts[0], inclusive)
    nearest = gap.min(axis=1)
    mass = shifts[1] * np.exp(-stretch.theta * (gap - nearest[:, None]))
    near = np.exp(-gap)
    shares = np.stack([-np.expm1(-gap), -near * np.expm1(gap - lattice.width), mass, mass * near])
    shares[:2] *= mass
    sums = [(found.reshape(4, *gap.shape) * shares).sum(axis=-1) for found in nodes(first.ravel())]
    values, errors = (np.stack([found[0] + found[1], *found[2:]]) for found in sums)
    scale = _scale(stretch, epsilon + nearest)
    left = np.multiply.outer(WRAPPED * _lost(stretch.theta), scale)
    return Tails(scale * values, scale * errors + left)


@dataclass(frozen=True)
class _Plan:
    """How a sum is taken apart: a base, laws of few values, and Laplace losses among those."""

    base: Parts = ()
    lattice: Lattice | None = None
    listed: Parts = ()
    laplace: tuple[tuple[LaplaceLoss, int], ...] = ()
    separate: bool = True


def _plan(parts: Parts) -> _Plan:
    gaussian = tuple(p for p in parts if isinstance(p[0], GaussianLoss))
    if gaussian and len(parts) > 1 and _smooth(gaussian[0][0], Total(parts)):
        return _Plan(separate=False)
    laplace = tuple((law, k) for law, k in parts if isinstance(law, LaplaceLoss))
    groups = _lattice_groups(tuple(p for p in parts if p[0].lattice is not None))
    everything = tuple(p for p in parts if not isinstance(p[0], GaussianLoss))
    number = number_of_atoms(everything)
    unlimited = any(np.isinf(law.largest) for law, _ in everything)
    base: Parts = gaussian
    # few values are listed, and with Laplace losses beside them as many as may be; else the
    # group with most values is the base
    alone = number <= (MOST_EXPONENTIALS if laplace else 0 if unlimited else FEW_ATOMS)
    if not gaussian and groups and not alone:
        base = max(groups, key=number_of_atoms)
        groups.remove(base)
    listed = tuple(p for group in groups for p in group)
    beside = laplace + listed
    heavy = np.exp(sum(k * np.log(law.shares(np.ones(1), 0.0)[0]) for law, k in laplace))
    fades = heavy < (ATOMS_MATTER if base else FADED)
    most = MOST_ATOMS if base else MOST_EXPONENTIALS
    if number_of_atoms(beside) > most or (laplace and fades):
        return _Plan(separate=False)
    lattice = None if gaussian or not base else _lattice(base, FEW_NODES)
    return _Plan(base, lattice, listed, laplace)


def _smooth(law: object, total: Total) -> bool:
    assert isinstance(law, GaussianLoss)
    return law.squared > 1e-4 * total.variance


def _lattice_groups(parts: Parts) -> list[Parts]:
    """Group laws that are together on a lattice: all of them, or those with most noise first."""
    if parts and _lattice(parts, FEW_NODES) is not None:
        return [parts]
    groups: list[Parts] = []
    nodes = FEW_NODES if len(parts) <= FEW_LAWS else 0
    for part in sorted(parts, key=lambda p: -p[1] * p[0].variance):
        for i, group in enumerate(groups):
            if _lattice((*group, part), nodes) is not None:
                groups[i] = (*group, part)
                break
        else:
            groups.append((part,))
    return groups


def _lattice(parts: Parts, most: int) -> Lattice | None:
    """Lattice of laws whose steps have a common one, with at most so many nodes if it is fine."""
    lattices = [law.lattice for law, _ in parts if law.lattice is not None]
    steps = np.array([step for _, step in lattices])
    common = common_spacing(steps, smallest=FINEST * float(steps.max()), rtol=UNEVEN)
    if common is None:
        return None
    width, multiples = common
    if width < float(steps.min()) / FINE * (1.0 - UNEVEN):
        if not most:
            return None
        total = Total(parts)
        spread = float(np.sqrt(total.variance))
        half = int(12.0 * spread / width) + 1
        nodes = circle(total, 1.0 / spread, np.pi / (half * width), half)
        if nodes is None or nodes.size > most:
            return None
    offset = sum(count * at for (at, _), (_, count) in zip(lattices, parts, strict=True))
    uneven = float(np.max(np.abs(steps / (width * multiples) - 1.0)))
    return Lattice(float(offset), width, uneven)


def _number(parts: Iterable[tuple[LossLaw, int]]) -> int:
    return sum(count for _, count in parts)


def _untilted(
    parts: Parts, shifts: tuple[FloatArray, FloatArray], theta: float
) -> tuple[FloatArray, FloatArray]:
    """Values and logarithms of their masses, without the tilt."""
    values, mass = shifts
    with np.errstate(divide="ignore"):
        return values, np.log(mass) - theta * values + Total(parts).real_cgf(theta)


def _gaussian_tails(law: GaussianLoss, epsilon: FloatArray, log_mass: FloatArray) -> Tails:
    """Tails of a normal loss, mixed over shifts: δ(-ε) = 1 - e^-ε + e^-ε·δ(ε)."""
    mu = law.mu
    size = np.abs(epsilon)
    delta = GDP(mu).delta_at(size)
    delta = np.where(epsilon < 0, -np.expm1(-size) + np.exp(-size) * delta, delta)
    above = special.ndtr(0.5 * mu - epsilon / mu)
    scaled = np.exp(epsilon + special.log_ndtr(-0.5 * mu - epsilon / mu))
    values = np.stack([delta, above, scaled]) @ np.exp(log_mass)
    return Tails(values, CLOSED_FORM * values)
