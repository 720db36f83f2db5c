"""Tails of a sum of parts along a vertical line, or round the circle of a lattice: certified.

Under a tilt few nodes of a circle matter (30 of 40,000 for seven discrete Gaussian losses): they
are added up at each point, where weighted sums, of which many matter, take a Fourier transform.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import ComplexArray, FloatArray
from dpinfer._numerics.lattice import Lattice, common_spacing, slices
from dpinfer._numerics.parts import Part, Parts, Stretch, Total

# What is left of an integral along a vertical line beyond some height: certified bounds.


Bound = Callable[[FloatArray], FloatArray]
"""Upper bound on ∫ abs(M(θ+it)/M(θ))/t² dt over t > T, for heights T > 0."""

WINDOW_NODES = 400


def left_over(parts: Iterable[tuple[Part, int]], theta: float, period: float = np.inf) -> Bound:
    """Bound for a sum of losses; with a ``period``, of the integral up to half of it only.

    Laws without revivals before the end are bounded by their size at T. The transform of a lattice
    comes back to 1 once in each of its own periods P, in windows of a small area W: those add up to
    W·Σ 1/((m-1/2)P)². One lattice law is bounded in that way, whichever is best.
    """
    fading: list[tuple[Part, int]] = []
    reviving: list[tuple[Part, int]] = []
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


class _Windows:
    """∫ m(t)/t² over t > T for an even periodic m that falls up to half its period."""

    def __init__(self, law: Part, count: int, theta: float) -> None:
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


@dataclass(frozen=True)
class Payoffs:
    """Transforms ∫ e^(-zx)·payoff(x) dx over x = L - ε >= 0, and the powers of t they fall with.

    What is left out of one that falls as 1/t² is bounded, of others estimated.
    """

    at: Callable[[ComplexArray], ComplexArray]
    falls: FloatArray

    def lost(self, theta: float) -> FloatArray:
        """Payoffs of what is left out, relative to the tilt."""
        return (1.0 + theta) ** (1.0 - self.falls)

    def cut(self, left: FloatArray | float, height: FloatArray | float) -> FloatArray:
        """Return what is left beyond a height, of which ``left`` bounds the integral over 1/t²."""
        return left * np.where(self.falls == 2.0, 1.0, 10.0 * height ** (2.0 - self.falls))


TAILS = Payoffs(
    lambda z: np.stack([1.0 / (z * (z + 1.0)), 1.0 / z, 1.0 / (z + 1.0)]), np.array([2.0, 1.0, 1.0])
)
"""Payoffs of δ(ε), P(L > ε) and e^ε·Q(L > ε)."""

DENSITY = Payoffs(lambda z: np.ones((1, *z.shape), dtype=np.complex128), np.zeros(1))


def lattice_tails(step: float) -> Payoffs:
    """Return transforms of which those of the payoffs on a lattice are made, shape (4, n).

    With first atom g above ε, the sums h·Σ e^(-z·jh)·payoff(g + jh) over j >= 0 are
    (1-e^-g)·a + (e^-g-e^-h)·b, terms of one sign at real z, and c, and e^-g·d.
    """

    def at(z: ComplexArray) -> ComplexArray:
        first = -np.expm1(-z * step)
        second = -np.expm1(-(z + 1.0) * step)
        both = step / (first * second)
        return np.stack([both, np.exp(-z * step) * both, step / first, step / second])

    return Payoffs(at, np.array([2.0, 2.0, 1.0, 1.0]))


def lattice_masses(step: float) -> Payoffs:
    return Payoffs(lambda z: step * DENSITY.at(z), DENSITY.falls)


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

    All are in units of e^``level``, one level for each ε. Where abs(M) does not decay, the errors
    of the two probabilities are estimates.
    """

    values: FloatArray
    errors: FloatArray
    level: FloatArray

    @classmethod
    def none(cls, size: int) -> Tails:
        return cls(np.zeros((3, size)), np.zeros((3, size)), np.zeros(size))

    def put(self, at: Any, some: Tails) -> None:
        self.values[:, at], self.errors[:, at], self.level[at] = (
            some.values,
            some.errors,
            some.level,
        )

    def at(self, level: FloatArray) -> Tails:
        """Return them in units of another level."""
        scale = np.exp(self.level - level)
        return Tails(scale * self.values, scale * self.errors, level)

    def more(self, values: FloatArray, errors: FloatArray) -> Tails:
        return Tails(self.values + values, self.errors + errors, self.level)


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
        for part in slices(x.size, BLOCK // self._heights.size):
            angle = np.multiply.outer(x[part], self._heights)
            found[part] = np.cos(angle) @ self._parts[0]
            found[part] += np.sin(angle, out=angle) @ self._parts[1]
        return found.T, self._still[:, None] + np.multiply.outer(self._moving, np.abs(x))


def continuous_line(
    total: Total,
    part: Callable[[ComplexArray], tuple[ComplexArray, FloatArray]],
    bound: Bound,
    stretch: Stretch,
    payoffs: Payoffs,
) -> Nodes:
    """Nodes of that part of the law which has the transform ``part``·M(θ), with its noise."""
    theta = stretch.theta
    step = 2.0 * np.pi / total.reach(stretch)
    top = payoffs.at(np.array([complex(theta)]))[0, 0].real
    first = Payoffs(payoffs.at, payoffs.falls[0])
    windows = _windows(total, theta)
    density = min((2.0 * width / period for period, width in windows), default=1.0)
    most = int(min(MOST_NODES / density, MOST_HEIGHT))
    nodes = _enough(lambda t: first.cut(bound(t), t), top * step, step, most)
    n = _inside(nodes, step, windows)
    z = np.asarray(theta + 1j * step * n, dtype=np.complex128)
    ratio, noise = part(z)
    weights = (ratio * payoffs.at(z)).T * (step / np.pi)
    weights[n == 0] *= 0.5
    few = (WRAPPED + SKIPPED) * payoffs.lost(theta)
    left = _cut(bound, (nodes - 0.5) * step, payoffs) / np.pi + few
    return Nodes(step * n, weights, (8.0 + noise, 2.0 * np.abs(z)), left)


def lattice_circle(
    base: Total, lattice: Lattice, whole: Total, stretch: Stretch, payoffs: Payoffs
) -> Nodes:
    """Nodes of a law on a lattice, the ``base`` of a ``whole`` law."""
    theta, width = stretch.theta, lattice.width
    reach = whole.reach(stretch, width)
    half = max(int(np.ceil(0.5 * reach / width)), 1)
    step = np.pi / (half * width)
    top = payoffs.at(np.array([complex(theta)]))[:, 0].real
    n = circle(base, theta, step, half)
    if n is not None:
        left = np.exp(LOG_SKIPPED) * half * step / np.pi * top
    else:
        bound = left_over(base.parts, theta, 2.0 * np.pi / width)
        # abs(1 - e^(-zh)) >= 2e^(-θh/2)·sin(th/2) >= 2th/π·e^(-θh/2), twice
        slack = 2.5 * float(np.exp(min((theta + 0.5) * width, 600.0)))
        first = Payoffs(payoffs.at, payoffs.falls[0])
        unit = float(top[0]) * float((-np.expm1(-width)) ** (first.falls - 1.0)) * step / slack
        most = min(half + 1, MOST_CIRCLE)
        nodes = _enough(lambda t: first.cut(bound(t), t), unit, step, most)
        n = np.arange(nodes)
        cut = slack * _cut(bound, (nodes - 0.5) * step, payoffs) / np.pi
        left = cut * width ** (1.0 - payoffs.falls) if nodes <= half else np.zeros(top.shape)
    z = np.asarray(theta + 1j * step * n, dtype=np.complex128)
    log_ratio, noise = base.noisy_cgf(z)
    ratio = np.exp(log_ratio - base.real_cgf(theta))
    weights = (ratio * payoffs.at(z)).T * (step / np.pi)
    weights[(n == 0) | (n == half)] *= 0.5
    height = np.abs(z)
    # how far the values of all laws together are from 0, or from where their tilts move them
    apart = reach * float(np.sqrt(len(base.parts))) + abs(lattice.offset)
    still = 8.0 + noise + height * apart * lattice.uneven / ROUNDING
    moving = height * (2.0 + lattice.uneven / ROUNDING)
    return Nodes(np.asarray(step * n, dtype=np.float64), weights, (still, moving), left)


def atom_above(
    lattice: Lattice, epsilon: FloatArray, inclusive: bool
) -> tuple[FloatArray, FloatArray]:
    """First atom above each ε, or at it if ``inclusive``, and how far above it is."""
    place = lattice.place(epsilon)
    index = np.ceil(place) if inclusive else np.floor(place) + 1.0
    gap = (index - place) * lattice.width
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


def _cut(bound: Bound, height: float, payoffs: Payoffs) -> FloatArray:
    return payoffs.cut(float(bound(np.array([height]))[0]), height)


def unlisted(theta: float) -> FloatArray:
    """Bound on the tails of what a list leaves out, in units of M(θ)e^(-θε)."""
    return WRAPPED * TAILS.lost(theta)[:, None]


def on_circle(
    nodes: Nodes,
    lattice: Lattice,
    shifts: tuple[FloatArray, FloatArray],
    stretch: Stretch,
    epsilon: FloatArray,
    inclusive: bool,
) -> Tails:
    """Tails of a law on a lattice, mixed over shifts with their masses under the tilt."""
    rows, found = max(BLOCK // shifts[0].size, 1), Tails.none(epsilon.size)
    if epsilon.size > rows:
        for at in slices(epsilon.size, rows):
            found.put(at, on_circle(nodes, lattice, shifts, stretch, epsilon[at], inclusive))
        return found
    first, gap = atom_above(lattice, epsilon[:, None] - shifts[0], inclusive)
    nearest = gap.min(axis=1)
    mass = shifts[1] * np.exp(-stretch.theta * (gap - nearest[:, None]))
    near = np.exp(-gap)
    shares = np.stack([-np.expm1(-gap), -near * np.expm1(gap - lattice.width), mass, mass * near])
    shares[:2] *= mass
    sums = [(found.reshape(4, *gap.shape) * shares).sum(axis=-1) for found in nodes(first.ravel())]
    values, errors = (np.stack([found[0] + found[1], *found[2:]]) for found in sums)
    errors += unlisted(stretch.theta)
    return Tails(values, errors, stretch.level(epsilon + nearest))


# Which laws are together on a lattice.


FINE = 64
FINEST = 1e-5
"""Lattices whose steps are multiples of a common one are one lattice. It is at least this part of
the largest step, and a 64th of the smallest or so that few nodes on the circle matter."""

FEW_NODES = 1 << 14
FEW_LAWS = 12
"""Among more laws that are not all on one lattice only simple ratios of steps are looked for."""

UNEVEN = 1e-14


def lattice_groups(parts: Parts) -> list[Parts]:
    """Group laws that are together on a lattice: all of them, or those with most noise first."""
    if parts and common_lattice(parts, FEW_NODES) is not None:
        return [parts]
    groups: list[Parts] = []
    nodes = FEW_NODES if len(parts) <= FEW_LAWS else 0
    for part in sorted(parts, key=lambda p: -p[1] * p[0].variance):
        for i, group in enumerate(groups):
            if common_lattice((*group, part), nodes) is not None:
                groups[i] = (*group, part)
                break
        else:
            groups.append((part,))
    return groups


def common_lattice(parts: Parts, most: int) -> Lattice | None:
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
