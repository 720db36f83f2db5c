"""Tails of the statistic from its characteristic function.

The route for many cells, for three and more with continuous noise, and the last resort. It gives
up early where the accuracy that is wanted is out of reach. On a lattice, too, nodes are added up
one by one: each takes a sum over the total, so that all of a window, for an FFT, would be dear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpinfer._check import FloatArray, show
from dpinfer._numerics.lattice import Lattice, common_spacing, slices
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests._quadratic.cells import Cells, Transform, angles
from dpinfer.hypothesis_tests._quadratic.listed import Enumeration, feasible
from dpinfer.hypothesis_tests._quadratic.noises import noise_parts
from dpinfer.hypothesis_tests._quadratic.two_cells import (
    BinomialCount,
    TwoSmoothCells,
    TwoWholeCells,
)
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Gaussian, Laplace

# Where the characteristic function of a discrete statistic may grow again.


_DOUBT, _DOUBT_WHOLE = 8.0, 24.0
"""How many times the difference between fades the error may be: with whole-numbered noise φ does
not decay, and single nodes differ. Of 2,700 tables of a dozen observations or fewer, which can be
listed, none had a larger error, and one had nearly that."""

_KINDS = 4
"""Cells whose returns are looked at; as many more are taken to contribute as much."""

_DENOMINATORS = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
_FRACTIONS = [
    np.arange(1.0, q + 1.0)[np.gcd(np.arange(1, int(q) + 1), int(q)) == 1] / q
    for q in _DENOMINATORS
]
"""Parts of a period at which sums of exp(iπx²·fraction) are largest: 1/√q for a denominator q."""

_SEEN = 4.0
"""Periods after which returns show in the difference between fades."""

_CANCELLED, _UNSEEN, _SHOWN = 0.002, 0.2, 1.5
"""What is left of the waves of the counts where they show already in the difference between fades,
and where they do not; they do once they meet at so few standard deviations of each count. In 5,800
trials of two to four cells the most was 0.0016, and 0.06 but for a single trial of 5.6."""

_MET = 0.002
"""What is left of them with continuous noise once fades begin after the last meeting, see below. In
4,000 cases of three to eight cells with a stated error of 1e-8 at most, half of it was too little
twice: it gave 7.1e-10 for 7.5e-10, and one error below 1e-10."""

_LATER = np.arange(64.0)
"""Periods from the first one on."""

_RECURRENCE_FIRST = 12
_RECURRENCE_NEGLIGIBLE = 1e-14
_RECURRENCE_BUDGET = 3e8
"""Multiplications at most for each choice of cells."""


def recurrence(transform: Transform, end: float, reach: float) -> float:
    """Estimate what returns of φ between ``end`` and ``reach`` contribute to a tail, at most.

    exp(it·a(y - c)²) with whole y has, but for a wave of y, the period π/a in t, and is next
    largest at simple fractions of it. There abs(φ) is taken from its size around the circle of θ,
    of more and more cells until that is negligible, with the cell itself as at t = 0 but for the
    noise and the denominator. A return as wide as the peak at 0, of which the integral of abs(φ)
    is as in the normal limit, contributes twice that times abs(φ)/(πt), with any sign. Beside cells
    with a continuous part, which have no such returns, those of periods far shorter than ``end``
    show where the nodes end.
    """
    cells = transform.cells
    unseen = cells.is_whole & (cells.is_integer | (end < _SEEN * np.pi / cells.weight))
    if not unseen.any():
        return 0.0
    order = np.append(_spread_out(cells, np.flatnonzero(unseen)), np.flatnonzero(~unseen))
    kinds = order[: min(_KINDS, int(unseen.sum()))]
    parts: list[FloatArray] = []
    for place, kind in enumerate(kinds):
        cell, period = cells.each[kind], np.pi / cells.weight[kind]
        for denominator, fractions in zip(_DENOMINATORS, _FRACTIONS, strict=True):
            first = np.ceil(end / period - fractions) + fractions
            later = np.add.outer(first, _LATER)
            size = cell.returns(later, denominator) ** cells.count[kind] / (later * period)
            size *= later * period <= reach * (1.0 + 1e-9)
            size = np.linalg.norm(size, axis=1)
            parts.append(np.stack([first * period, np.full(first.size, place), size]))
    t, own, share = np.concatenate(parts, axis=1)
    share = np.minimum(1.0, 2.0 * _width(cells, end) / np.pi * share)
    plain, number, found = transform.damped(0.0), min(_RECURRENCE_FIRST, order.size), share
    while found.max() > _RECURRENCE_NEGLIGIBLE:
        chosen = [cells.each[i] for i in order[:number]]
        if plain.cost(t, chosen) > _RECURRENCE_BUDGET:
            break
        found = share * plain.typical(t, chosen, cells.count[order[:number]], own)
        if number == order.size:
            break
        number = min(4 * number, order.size)
    more = min(int(unseen.sum()), 2 * _KINDS) / kinds.size
    return float(_DOUBT * np.sqrt(more) * np.linalg.norm(found))


def _normal_limit(cells: Cells, t: FloatArray) -> FloatArray:
    """Size of φ in the normal limit, less the smallest of its terms."""
    scale, count = cells.weight * (cells.rate + cells.noise_variance), cells.count.copy()
    count[np.argmin(scale)] -= 1.0
    factors = np.log1p(np.square(2.0 * np.multiply.outer(t, scale)))
    return np.asarray(np.exp(-0.25 * factors @ count))


def _width(cells: Cells, end: float) -> float:
    """Width of the peak at 0, up to an end."""
    t = end * _TO_END
    return float(np.trapezoid(_normal_limit(cells, t), t))


_TO_END, _BEYOND_END = np.append(0.0, np.geomspace(1e-6, 1.0, 400)), np.geomspace(1.0, 1e3, 100)


def grains(cells: Cells, end: float) -> tuple[float, float]:
    """Estimate what waves of the counts, whose length is one, contribute beyond an end, at most.

    A count with its noise has them beside its smooth law, as large as the noise leaves them. They
    meet those of exp(it·a·d²) at a distance d = π/(at). The second value is the largest of these
    distances at the end, in standard deviations of the counts.
    """
    t = end * _BEYOND_END
    grain = np.array([part.grain for part in cells.parts])[cells.kind] * np.sqrt(cells.count)
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond = np.divide.outer(np.pi / t, cells.weight) - np.abs(cells.rate - cells.centre)
        distance = np.clip(beyond / np.sqrt(cells.rate), 0.0, 40.0)
    size = np.linalg.norm(
        np.where(cells.rate > 0.0, grain * np.exp(-0.5 * distance**2), 0.0), axis=1
    )
    found = float((size * 4.0 * _width(cells, end) / (np.pi * t) * _normal_limit(cells, t)).max())
    return found, float(distance[0].max(where=cells.rate > 0.0, initial=0.0))


def last_meeting(cells: Cells, q: FloatArray) -> FloatArray:
    """Return the largest t at which waves of one or two counts meet that of the value q.

    With waves 2π(y₁ - y₂) the phase tQ - 2π(y₁ - y₂) is stationary, among y that add up to n, where
    Q = (π/t)²·(r₁ + r₂ - (r₁ - r₂)²/Σr) for r = 1/a; with t it changes as fast as tq if this is q.
    Later it turns faster or slower, so that a fade makes the integral over t negligible. Waves of
    more counts, or shorter ones, meet later, but the noise leaves far less of them.
    """
    inverse = 1.0 / cells.weight
    first = int(np.argmax(inverse))
    other = inverse[(np.arange(inverse.size) != first) | (cells.count > 1.0)]
    apart = np.square(inverse[first] - other) / (cells.count @ inverse)
    most = np.max(inverse[first] + other - apart, initial=inverse[first])
    return np.asarray(np.pi * np.sqrt(most / q))


def _spread_out(cells: Cells, whole: NDArray[np.intp]) -> NDArray[np.intp]:
    """Order cells so that the first of them are of all sizes."""
    order = whole[np.argsort(cells.weight[whole])]
    # multiples of the golden ratio, modulo 1, fill the interval evenly
    return order[np.argsort(np.arange(order.size) * 0.5 * (np.sqrt(5.0) - 1.0) % 1.0)]


# Ways to the tails of a law, and the first of them that is accurate at a point.


ACCEPTED_ERROR, _ACCEPTED_PART, _LARGEST_ERROR = 1e-8, 1e-3, 3e-5
"""Absolute error, and one in terms of the upper tail but for a largest one, up to which that is
given out as exact."""


def accepted(upper: FloatArray) -> FloatArray:
    """Error up to which an upper tail counts as exact."""
    return np.clip(_ACCEPTED_PART * upper, ACCEPTED_ERROR, _LARGEST_ERROR)


class Way(Protocol):
    """A way to the tails."""

    def upper(self, q: FloatArray) -> FloatArray: ...
    def lower(self, q: FloatArray) -> FloatArray: ...
    def error(self, q: FloatArray) -> FloatArray: ...


Maker = Callable[[], Way | None]


class FirstAccurate:
    """At each point the first way that is accurate there, or else the best.

    made : list
        The ways that were needed so far.
    """

    def __init__(self, makers: Sequence[Maker]) -> None:
        self._makers = list(makers)
        self.made: list[Way] = []

    @property
    def exists(self) -> bool:
        """Whether there is any way."""
        return next(self._ways(), None) is not None

    def upper(self, q: FloatArray) -> FloatArray:
        """P(Q >= q)."""
        return self._best(q, lambda way, points: way.upper(points))[0]

    def lower(self, q: FloatArray) -> FloatArray:
        """P(Q <= q)."""
        return self._best(q, lambda way, points: way.lower(points))[0]

    def error(self, q: FloatArray) -> FloatArray:
        """Absolute error of the way that is taken."""
        return self._best(q, lambda way, points: points)[1]

    def _best(
        self, q: FloatArray, tail: Callable[[Way, FloatArray], FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        """Tails and their errors."""
        points = np.ravel(q)
        value, error = np.full(points.size, np.nan), np.full(points.size, np.inf)
        ways = self._ways()
        settled = np.zeros(points.size, dtype=bool)
        while (left := np.flatnonzero((error > ACCEPTED_ERROR) & ~settled)).size:
            # only now, as it takes time to make a way
            if (way := next(ways, None)) is None:
                break
            own = way.error(points[left])
            better = own < error[left]
            chosen = left[better]
            if chosen.size:
                error[chosen] = own[better]
                value[chosen] = tail(way, points[chosen])
                if np.any(doubtful := error[chosen] > ACCEPTED_ERROR):
                    rest = chosen[doubtful]
                    settled[rest] = error[rest] <= accepted(way.upper(points[rest]))
        return value.reshape(np.shape(q)), error.reshape(np.shape(q))

    def _ways(self) -> Iterator[Way]:
        """Yield the ways; each is made when it is first needed."""
        yield from self.made
        while self._makers:
            way = self._makers.pop(0)()
            if way is not None:
                self.made.append(way)
                yield way


# The range of the statistic.


_SPREAD = 9.6
_DEVIATIONS = 10.0


def mean_and_variance(cells: Cells) -> tuple[float, float]:
    """Mean and variance of the statistic with Poisson counts."""
    first, second, _ = cells.moments
    deviation = np.maximum(second - np.square(first), 0.0)
    return float(cells.count @ first), float(cells.count @ deviation)


def support(transform: Transform) -> tuple[float, float]:
    """Range outside of which the statistic lies with negligible probability.

    Below: exp(-x²/(2ΣE[Qᵢ²])) for a sum of independent terms >= 0. Above: ten standard deviations
    and the largest single term, which is what laws with heavier tails than the normal need.
    """
    cells = transform.cells
    _, second, largest = cells.moments
    mean, variance = mean_and_variance(cells)
    low = max(0.0, mean - _SPREAD * float(np.sqrt(cells.count @ second)))
    return low, mean + _DEVIATIONS * float(np.sqrt(variance)) + float(largest.max())


# Statistics whose values have a common spacing, and their whole law by Fourier transforms.


_FINEST = 1e-7
"""Smallest spacing looked for, in units of the largest weight."""

_SLACK = 1e-6
"""Values this close to a point of the lattice, in units of the spacing, are that point."""


def lattice_of(cells: Cells) -> Lattice | None:
    """Return the lattice of Σ a(y - c)² over whole y, or None where there is no spacing.

    a(y - c)² = a·c² + a·y(y - 1) + a(1 - 2c)·y, and y(y - 1) is even. Without noise the y add
    up to n, so that what is linear with one coefficient in all cells is constant.
    """
    if not cells.is_integer:
        return None
    linear = cells.weight * (1.0 - 2.0 * cells.centre)
    origin = float(cells.count @ (cells.weight * np.square(cells.centre)))
    if all(part.pmf.size == 1 for part in cells.parts):
        common = linear[np.argmin(np.abs(linear))]
        origin += float(common * cells.nobs)
        rounding = 1e-12 * (np.abs(linear) + abs(common))
        linear = np.where(np.abs(linear - common) <= rounding, 0.0, linear - common)
    steps = np.abs(np.concatenate([2.0 * cells.weight, linear]))
    finest = _FINEST * float(cells.weight.max())
    found = common_spacing(steps[steps > 0.0], smallest=finest)
    return None if found is None else Lattice(origin, found[0])


_ALIASED = 28.0
"""Logarithm of the error of the trapezoidal rule."""

_ALIASED_ERROR = 2.0 * np.exp(-_ALIASED)
"""Twice that, as the tails one period further are bounded by the moments of Poisson counts."""

_NEAR, _BANDS = np.arange(-16.0, 17.0), np.arange(1.0, 0.25, -0.1)
"""Where φ does not decay: points around one, as far apart as the nodes can tell, and ends of
fades, between which the differences are looked at."""

_PERIOD, _LATTICE_PERIOD = 2.5, 3.0
"""Length of its period, in units of the largest point: rounding errors grow by exp(28/2.5)."""

TARGET = 1e-11
"""Absolute error at which no more nodes are added."""

_NEGLIGIBLE = 1e-13
_FIRST_AND_GROWTH, _OF_FEW, _FEWEST = (40, 1.25), (80, 1.5), 4
"""Nodes to begin with and by how much they grow; the same with continuous noise in so few cells,
where fewer are never enough."""

_FALLING, _MANY = 0.5, 150
"""Where φ does not decay, by what errors have to fall, and how many nodes are enough."""

_KEPT = 0.8
"""Part of the nodes after which φ has to be negligible for it to have ended."""

_CHEAP, _BUDGET = 1e7, 6e8
"""Multiplications that are always spent on an octave, and at most: 0.05 and 1 seconds or so."""

_TRIED = 5e7
"""Multiplications that are spent where φ does not decay and errors are more than is accepted."""

_WHOLE = 4e8
"""Multiplications that are spent on all of the period of a lattice."""

_FALL = 2.0
"""By how much errors fall at best with each block of nodes: this to the number of cells."""

_ENOUGH, _ENOUGH_PART = 5e-9, 1e-5
"""Absolute error at which no more nodes are added once they are no longer cheap, and one in terms
of the tail at which a period is not followed to its end."""

_FADES = (1.0, 0.9, 0.8)
"""Ends of the fades, in terms of that of the nodes; two of them may agree by accident."""

_MIDDLE, _SHARPNESS = 0.7, 6.0
"""Where a fade is at one half, and how many standard deviations its end is from there."""

_ROUNDING = 1e-15
_SLICE = 1 << 20


class Inversion:
    """P(Q <= q) by the trapezoidal rule for the integral of Bromwich, a sum for each octave of q.

    P(Q <= q) = (1/π) ∫_0^∞ Re[exp(zq) E[exp(-zQ)]/z] dt with z = c + it, c > 0; with nodes at
    (j + 1/2)h and P = 2π/h it errs by Σ_{j>=1} (-1)^j exp(-jcP) P(Q <= q + jP), in which the
    probabilities are 1 but for exp(-cP) at most. For Q on a lattice of spacing δ, 1/z becomes
    (δ/2)/sinh(δz/2), q the middle between two points of the lattice, and the integral ends at π/δ.

    Nodes are added until the terms are negligible. Where they decay slowly, which is so for few
    cells, they are faded out smoothly instead: that amounts to smoothing the law by a kernel whose
    moments nearly vanish, and the difference between two fades tells the error.

    References
    ----------
    Abate, J. and Whitt, W. (1992). The Fourier-series method for inverting transforms of
    probability distributions. Queueing Systems 10:5-87, doi:10.1007/BF01158520.
    """

    def __init__(self, transform: Transform, lattice: Lattice | None) -> None:
        self._transform, self._lattice = transform, lattice
        self.low, self.high = support(transform)
        self._lines: dict[int, _Line] = {}
        # the last points: a p-value and its error are asked for in turn
        self._asked, self._answers = np.zeros(0), (np.zeros(0), np.zeros(0))
        self.usable = _FIRST_AND_GROWTH[0] * transform.cost(np.zeros(1)) <= _BUDGET

    def upper(self, q: FloatArray) -> FloatArray:
        """P(Q >= q)."""
        return 1.0 - self._tails(self._sides(q)[0])[0]

    def lower(self, q: FloatArray) -> FloatArray:
        """P(Q <= q)."""
        return self._tails(self._sides(q)[-1])[0]

    def error(self, q: FloatArray) -> FloatArray:
        """Estimate of the absolute error of both tails at q, from the nodes that they have."""
        return np.asarray(self._tails(self._sides(q))[1].max(axis=0))

    def _sides(self, q: FloatArray) -> FloatArray:
        """Return points just below and just above q: on a lattice between two, shape (2, ...).

        Elsewhere they are q itself, shape (1, ...).
        """
        if self._lattice is None:
            return np.asarray(q)[np.newaxis]
        place = self._lattice.place(q, _SLACK)
        places = np.stack([np.ceil(place) - 0.5, np.floor(place) + 0.5])
        return self._lattice.offset + self._lattice.width * places

    def _tails(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Lower tails with their errors."""
        points = np.ravel(q)
        if np.array_equal(points, self._asked):
            value, error = self._answers
            return value.reshape(np.shape(q)), error.reshape(np.shape(q))
        # the tails beyond the range are of no account
        value = np.where(points > self.high, 1.0, 0.0)
        error = np.full(points.size, _ALIASED_ERROR)
        inside = (points > self.low) & (points <= self.high)
        octave = np.frexp(np.where(inside, points - self.low, 1.0))[1]
        for number in np.unique(octave[inside]):
            chosen = np.flatnonzero(inside & (octave == number))
            line = self._line(int(number), points[chosen])
            value[chosen], error[chosen] = line.tails(points[chosen])
            self.usable &= not line.is_wrong
        if not self.usable:
            value[:], error[:] = np.nan, np.inf
        value.flags.writeable = error.flags.writeable = False
        self._asked, self._answers = points.copy(), (value, error)
        return value.reshape(np.shape(q)), error.reshape(np.shape(q))

    def _line(self, octave: int, points: FloatArray) -> _Line:
        """Return the nodes for some points, all of one octave."""
        known, most = self._lines.get(octave), float(points.max()) - self.low
        if known is None or most > known.most:
            # the first point has nodes of its own, others may be anywhere; 64 for exp(zq) to exist
            most = max(most if known is None else 2.0**octave, self.low / 64.0)
            self._lines[octave] = _Line(self._transform, self._lattice, self.low, most)
        return self._lines[octave]


class _Line:
    """Nodes on a line, for points up to ``low + most``."""

    def __init__(
        self, transform: Transform, lattice: Lattice | None, low: float, most: float
    ) -> None:
        period, self._spacing, self._last = _PERIOD * most, 0.0, np.inf
        if lattice is not None:
            self._spacing = lattice.width
            self._last = float(np.ceil(0.5 * _LATTICE_PERIOD * most / self._spacing) + 1.0)
            period = 2.0 * self._last * self._spacing
        self.most, self._low, self._step = most, low, 2.0 * np.pi / period
        # P(Q > q + P) is small where q is beyond the mean, by Cantelli's inequality
        mean, variance = mean_and_variance(transform.cells)
        beyond = max(0.0, low + period - mean) ** 2
        self._wrapped = _ALIASED + np.log(variance / (variance + beyond))
        self._transform = transform.damped(self._wrapped / period)
        self._t, self._phi = np.zeros(0), np.zeros(0, dtype=np.complex128)
        self._cost = 0.0
        self._missed: tuple[float, float, float] | None = None
        cells = self._transform.cells
        few = not cells.has_whole and cells.count.sum() <= _FEWEST
        self._first, self._growth = _OF_FEW if few else _FIRST_AND_GROWTH
        self.is_wrong = self._is_final = False
        self._usable = self._extend()
        # a law on a lattice is followed to the end of the period where that does not take long
        whole = self._transform.cost(np.array([np.pi / self._spacing])) if lattice else np.inf
        self._cheap = _CHEAP if whole * self._last > _WHOLE else np.inf

    def tails(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Lower tails with their errors, adding nodes while that helps and is affordable."""
        cells, before = self._transform.cells, np.inf
        while self._usable:
            value, error = self._evaluate(q)
            aim = np.full(q.shape, TARGET if self._cost <= self._cheap else _ENOUGH)
            if self._spacing and self._cost > _CHEAP:
                aim = np.maximum(aim, _ENOUGH_PART * np.clip(1.0 - value, 0.0, 1.0))
            # more nodes follow a law on a lattice through all returns, to the end of the period
            missed = self._returns(q) if np.all(error <= aim) else 0.0
            excess = float(((error + missed) / aim).max())
            # where φ does not decay single nodes show, and then the error hardly falls
            stuck = excess > _FALLING * before or self._t.size > _MANY
            stuck &= cells.is_integer and self._cheap < np.inf
            # short of what is accepted, it may be worth some more
            if stuck and self._cost <= _TRIED:
                stuck = bool(np.all(error + self._returns(q) <= accepted(1.0 - value)))
            if excess <= 1.0 or self._is_final:
                break
            # for good: the same point is to have the same tail later
            self._is_final = not self._is_promising(excess, stuck) or not self._extend()
            before = excess
        if not self._usable:
            return np.full(q.shape, np.nan), np.full(q.shape, np.inf)
        return np.clip(value, 0.0, 1.0), np.minimum(error + self._returns(q), 1.0)

    def _is_promising(self, excess: float, stuck: bool) -> bool:
        """Whether the nodes that are affordable might be enough, for an error so many times it."""
        size, cost, blocks = self._t.size, self._cost, 0
        fall = _FALL ** float(self._transform.cells.count.sum())
        while (block := self._block(size)).size:
            cost += self._transform.cost(block)
            if cost <= _CHEAP:
                return True
            if cost > _BUDGET or stuck:
                return False
            size, blocks = size + block.size, blocks + 1
            if fall**blocks >= excess:
                return True
        # the end of the period of a lattice
        return size > self._t.size

    def _evaluate(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        t = self._t
        z = self._transform.damping + 1j * t
        half = 0.5 * self._spacing
        kernel = half / np.sinh(half * z) if half else 1.0 / z
        terms = self._phi * kernel * (self._step / np.pi)
        whole = self._has_ended()
        fades = [np.ones(t.size)] if whole else [_fade(t / (part * t[-1])) for part in _FADES]
        weighted = np.stack([terms * fade for fade in fades], axis=1)
        out = np.empty((q.size, len(fades)))
        for part in slices(q.size, _SLICE // t.size):
            wave = np.exp(np.multiply.outer(q[part], z))
            out[part] = (wave @ weighted).real
        # the tails one period further are nearly 1
        out += 1.0 / (1.0 + np.exp(self._wrapped))
        grown = np.exp(self._transform.damping * q) * self._transform.largest
        doubt = _DOUBT_WHOLE if self._transform.cells.has_whole else _DOUBT
        apart = np.abs(out[:, :1] - out).max(axis=1)
        if not whole and self._transform.cells.is_integer:
            shift = np.exp(np.multiply.outer(_NEAR * (np.pi / t[-1]), z))
            bands = -np.diff([_fade(t / (part * t[-1])) for part in _BANDS], axis=0)
            bands = bands * (_BANDS[:-1, None] * terms)
            for place, point in enumerate(q):
                apart[place] = np.abs((shift @ (bands * np.exp(point * z)).T).real).max()
        error = doubt * apart + _ALIASED_ERROR + _ROUNDING * grown
        return out[:, 0], error

    def _has_ended(self) -> bool:
        """Whether φ has become negligible, or the nodes have come to the end of the period."""
        tail = np.abs(self._phi[int(_KEPT * self._t.size) :])
        tail *= np.exp(self._transform.damping * (self._low + self.most))
        return self._t.size == self._last or bool(np.all(tail <= _NEGLIGIBLE))

    def _returns(self, q: FloatArray) -> FloatArray:
        """Estimate what returns of φ beyond the nodes contribute."""
        if self._t.size == self._last:
            return np.zeros(q.shape)
        cells, end, part = self._transform.cells, float(self._t[-1]), np.ones(q.shape)
        middle = end * _MIDDLE
        faded = not self._has_ended()
        if faded:  # what a fade has left out may return between its middle and its end
            end = middle * _FADES[-1]
        if self._missed is None:
            reach = np.pi / self._spacing if self._spacing else np.inf
            self._missed = *grains(cells, end), recurrence(self._transform, end, reach)
        found, distance, others = self._missed
        if faded:  # waves that are there already show in the difference between fades
            part[:] = _CANCELLED if distance <= _SHOWN else _UNSEEN
            if not cells.has_whole:
                part[middle >= last_meeting(cells, q)] = _MET
        return found * part + others

    def _block(self, first: int) -> FloatArray:
        """Return the nodes that come after so many."""
        last = int(min(max(self._first, np.ceil(self._growth * first)), self._last))
        return np.asarray(self._step * (np.arange(float(first), last) + 0.5))

    def _extend(self) -> bool:
        """Add nodes, and tell whether that was possible."""
        t = self._block(self._t.size)
        cost = self._transform.cost(t)
        if self._cost + cost > _BUDGET:
            return False
        self._cost += cost
        self._t = np.append(self._t, t)
        self._phi = np.append(self._phi, self._transform(t))
        self._missed = None
        # a characteristic function cannot be larger than at 0
        largest = self._transform.largest * (1.0 + 1e-9)
        self.is_wrong = not bool(np.abs(self._phi).max() <= largest)
        self._usable = not self.is_wrong
        return self._usable


def _fade(u: FloatArray) -> FloatArray:
    """1 for small u, 0 from u = 1 on, and smooth: a normal distribution function but for 1e-9."""
    distance = (u - _MIDDLE) / (1.0 - _MIDDLE) * (_SHARPNESS * np.sqrt(0.5))
    return np.where(u <= 1.0, 0.5 * special.erfc(distance), 0.0)


# Which ways there are to the tails of the statistic of given cells.


_FEW = 12
"""Up to so many cells with whole-numbered noise values are listed, where there are few enough."""

_LISTED_ALIASED = 31.0
"""Logarithm of the chance of totals that are taken for n where values are listed."""

_TOO_FEW = 3
"""Up to so many cells with whole-numbered noise, and no lattice, φ shows single atoms too large."""

_LONGEST = 1e6
"""Counts of two cells that are added up at most."""


def routes(
    nobs: int, value: FloatArray, centre: FloatArray, weight: FloatArray, noise: NoiseLaw
) -> list[Maker]:
    """Return the ways in the order in which to try them, none where a noise is not supported."""
    cells = Cells.collect(nobs, value, centre, weight, noise)
    if cells is None:
        return []
    two = partial(_two_cells, nobs, value, centre, weight, noise)
    return [*([two] if value.size == 2 else []), *_general(cells)]


def _general(cells: Cells) -> Iterator[Maker]:
    """Yield the ways for any number of cells."""
    transform = Transform(cells)
    lattice = lattice_of(cells)
    circle = angles(cells.nobs, _LISTED_ALIASED) | 1
    if cells.count.sum() <= _FEW and feasible(cells, circle):
        yield partial(Enumeration, cells, circle)
    if lattice is not None or not cells.is_integer or cells.count.sum() > _TOO_FEW:
        yield partial(_inverted, transform, lattice)


def _inverted(transform: Transform, lattice: Lattice | None) -> Inversion | None:
    """Return the inversion, unless even the first nodes take too much time or memory."""
    inversion = Inversion(transform, lattice)
    return inversion if inversion.usable else None


def _two_cells(
    nobs: int, value: FloatArray, centre: FloatArray, weight: FloatArray, noise: NoiseLaw
) -> Way | None:
    """Return the direct sum or quadrature for two cells with noises of the same sort."""
    share = value / value.sum()
    first, last = BinomialCount(nobs, float(share[0])).ends
    if last - first > _LONGEST:
        return None
    laws = [noise.take(i) if noise.shape else noise for i in range(2)]
    smooth = [law for law in laws if isinstance(law, (Laplace, Gaussian))]
    if len(smooth) == 2:
        return TwoSmoothCells(nobs, share, centre, weight, smooth)
    whole = [part for law in laws if (part := noise_parts(law)) is not None and part.is_integer]
    return TwoWholeCells(nobs, share, centre, weight, laws, whole) if len(whole) == 2 else None


# The exact law of a quadratic statistic of noisy multinomial counts.


@final
@dataclass(frozen=True, eq=False)
class QuadraticLaw:
    """Exact law of Q = Σ aᵢ(Xᵢ + eᵢ - cᵢ)² for multinomial X and independent noise e.

    There are these routes: for two cells a direct sum or quadrature; for few cells with
    whole-numbered noise lists of the values of two halves; else the characteristic function is
    inverted. The first that is accurate and quick at a point is taken there. :meth:`error` tells
    the absolute error that is to be expected of a tail. Where it exceeds 1e-8, tails are given with
    that error added: p-values are then too large rather than too small.
    """

    nobs: int  # number of observations n >= 1
    value: FloatArray  # probabilities of the cells, in units of their sum; 0 is allowed, shape (k,)
    # c, and a > 0. For Pearson's statistic of the null hypothesis p they are n·p and 1/(n·p),
    # whatever ``value`` is: at another ``value`` the law gives the power of the test, shape (k,)
    centre: FloatArray
    weight: FloatArray
    noise: NoiseLaw  # law of the noise, of shape () or (k,)

    @property
    def is_available(self) -> bool:
        """Whether there is a route for this kind of noise; it may still prove too inaccurate."""
        return self._tails.exists

    @property
    def is_listed(self) -> bool:
        """Whether values were listed for the tails asked for so far, which may take a second."""
        return any(isinstance(way, Enumeration) for way in self._tails.made)

    def upper(self, q: ArrayLike) -> Any:
        """P(Q >= q), atoms within rounding errors of q included."""
        tails, points = self._ways(), np.asarray(q, dtype=np.float64)
        return _on_the_safe_side(tails.upper(points), tails.error(points))[()]

    def lower(self, q: ArrayLike) -> Any:
        """P(Q <= q), atoms within rounding errors of q included."""
        tails, points = self._ways(), np.asarray(q, dtype=np.float64)
        return _on_the_safe_side(tails.lower(points), tails.error(points))[()]

    def error(self, q: ArrayLike) -> Any:
        """Absolute error to be expected of the tails at q; inf where there is no route."""
        return self._tails.error(np.asarray(q, dtype=np.float64))[()]

    def is_accurate(self, q: ArrayLike) -> NDArray[np.bool_]:
        """Whether tails at q count as exact: to 1e-8, or 1e-3 of the upper one up to 3e-5."""
        points = np.asarray(q, dtype=np.float64)
        error = self._tails.error(points)
        if np.all(error <= ACCEPTED_ERROR) or not self._tails.exists:
            return np.asarray(error <= ACCEPTED_ERROR)
        return np.asarray(error <= accepted(self.upper(points)))

    def _ways(self) -> FirstAccurate:
        if not self._tails.exists:
            raise InvalidParameterError(
                f"noise must be of a kind and size whose exact law is available, got "
                f"{show(self.noise)}: use method='monte-carlo'"
            )
        return self._tails

    @cached_property
    def _tails(self) -> FirstAccurate:
        makers = routes(self.nobs, self.value, self.centre, self.weight, self.noise)
        return FirstAccurate(makers)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _on_the_safe_side(tail: FloatArray, error: FloatArray) -> FloatArray:
    """Add errors that are not negligible; a tail of which nothing is known may be 1."""
    known = np.where(np.isfinite(error), tail, 1.0)
    return np.minimum(np.where(error > ACCEPTED_ERROR, known + error, known), 1.0)
