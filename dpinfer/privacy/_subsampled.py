"""The loss of mechanisms on Poisson samples: its laws, their sums, and δ and ε of those.

With ℓ = ln(1 + q(e^c - 1)), c the loss of the mechanism itself and q the sampling rate, a record
that is removed has the loss L = ℓ, one that is added L = -ℓ. Either way δ(ε) = E[(1 - e^(ε-L))₊],
which is convex in every e^-L, and E[e^-L] = 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from dpinfer._check import FloatArray
from dpinfer.privacy.loss import PrivacyLoss

Direction = Literal["remove", "add"]

ROUNDING = 2.3e-16
MOST_STEPS = 100
NEAR = 4e-15
LEAST_LOG_DELTA = -80.0
FEW = 32
"""Below so many steps the transform of the sum fades too slowly for a line."""

RARE = 1e-11
"""Share of δ that may be left out with losses too large to be listed."""

LEAST_RARE = 1e-40


class UnsuitedError(Exception):
    """The line would need too many nodes."""


# What one step loses.


class Step(ABC):
    """One use of a mechanism on a Poisson sample drawn with the ``rate``."""

    rate: float

    @property
    @abstractmethod
    def ends(self) -> tuple[float, float]:
        """Smallest and largest loss c of the mechanism, which may be infinite."""

    @abstractmethod
    def atoms(self, rare: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Losses c of the mechanism with mass, and their masses without and with the record.

        Those left out have a mass below ``rare``, each way.
        """

    @abstractmethod
    def reach(self, rare: float) -> tuple[float, float]:
        """Losses c of the mechanism, below and above which is a mass below ``rare``."""

    def masses(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Masses without and with the record between increasing losses c, atoms left out."""
        return np.zeros(edges.size - 1), np.zeros(edges.size - 1)

    @abstractmethod
    def rule(
        self, direction: Direction, theta: float, most: float, rare: float, count: int
    ) -> Rule:
        """Nodes for the transform on Re z = θ, |Im z| <= ``most``, of ``count`` steps in all."""

    def sampled(self, c: FloatArray | float) -> FloatArray:
        """Loss ℓ on a sample."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log1p(self.rate * np.expm1(c)))

    def unsampled(self, loss: FloatArray) -> FloatArray:
        """Loss c of the mechanism, -inf where the loss on a sample is never so low."""
        share = np.maximum(np.expm1(loss) / self.rate, -1.0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log1p(share))

    def largest(self, direction: Direction) -> float:
        """Largest loss L, which may be infinite."""
        low, high = self.ends
        return float(self.sampled(high) if direction == "remove" else -self.sampled(low))

    def anchor(self, direction: Direction) -> float:
        """Where a lattice has a point: the largest loss is often an atom."""
        largest = self.largest(direction)
        return largest if np.isfinite(largest) else 0.0

    def span(self, direction: Direction, rare: float) -> tuple[float, float]:
        """Losses L, below and above which is a mass below ``rare``."""
        low, high = (float(self.sampled(c)) for c in self.reach(rare))
        return (low, high) if direction == "remove" else (-high, -low)


@dataclass(frozen=True)
class GaussianStep(Step):
    """Gaussian noise, of ``mu`` = sensitivity / σ."""

    rate: float
    mu: float

    @property
    def ends(self) -> tuple[float, float]:
        return -np.inf, np.inf

    def atoms(self, rare: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        return np.zeros(0), np.zeros(0), np.zeros(0)

    def reach(self, rare: float) -> tuple[float, float]:
        last = 0.5 * self.mu**2 + self.mu * float(np.sqrt(-2.0 * np.log(rare)))
        return -last, last

    def rule(
        self, direction: Direction, theta: float, most: float, rare: float, count: int
    ) -> Rule:
        return gaussian_rule(self, direction, theta, most, count)

    def masses(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        without = edges / self.mu + 0.5 * self.mu
        return _normal_masses(without), _normal_masses(without - self.mu)


@dataclass(frozen=True)
class LaplaceStep(Step):
    """Laplace noise, of ``shift`` = sensitivity / scale."""

    rate: float
    shift: float

    @property
    def ends(self) -> tuple[float, float]:
        return -self.shift, self.shift

    def atoms(self, rare: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        more, less = 0.5, 0.5 * float(np.exp(-self.shift))
        at = np.array([-self.shift, self.shift])
        return at, np.array([more, less]), np.array([less, more])

    def rule(
        self, direction: Direction, theta: float, most: float, rare: float, count: int
    ) -> Rule:
        return laplace_rule(self, direction, theta, most)

    def reach(self, rare: float) -> tuple[float, float]:
        return -self.shift, self.shift

    def masses(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        # the noise is x scales from the answer without, where 2x = shift + c
        x = 0.5 * (self.shift + np.clip(edges, -self.shift, self.shift))
        less = 0.5 * -np.expm1(x[:-1] - x[1:])
        return less * np.exp(-x[:-1]), less * np.exp(x[1:] - self.shift)


@dataclass(frozen=True, eq=False)
class AtomicStep(Step):
    """Whole-numbered noise: losses c, rising, with their masses without and with the record.

    Losses with a mass below ``left_out``, each way, are not among them.
    """

    rate: float
    losses: FloatArray
    without: FloatArray
    with_it: FloatArray
    bounded: bool

    @property
    def ends(self) -> tuple[float, float]:
        return (self.losses[0], self.losses[-1]) if self.bounded else (-np.inf, np.inf)

    def atoms(self, rare: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        first, last = self._window(rare)
        kept = slice(first, last + 1)
        return self.losses[kept], self.without[kept], self.with_it[kept]

    def rule(
        self, direction: Direction, theta: float, most: float, rare: float, count: int
    ) -> Rule:
        at, without, with_it = self.atoms(rare)
        loss = self.sampled(at)
        if direction == "remove":
            return Rule(loss, without + self.rate * (with_it - without), 0.0, 1.0, 0.0)
        return Rule(-loss[::-1], without[::-1], 0.0, 1.0, 0.0)

    def reach(self, rare: float) -> tuple[float, float]:
        first, last = self._window(rare)
        return float(self.losses[first]), float(self.losses[last])

    def _window(self, rare: float) -> tuple[int, int]:
        first = int(np.argmax(np.cumsum(self.without) > rare))
        last = int(np.argmax(np.cumsum(self.with_it[::-1]) > rare))
        return first, self.losses.size - 1 - last


def _normal_masses(at: FloatArray) -> FloatArray:
    """Return normal masses between points, accurate in both tails."""
    lower, upper = special.ndtr(at), special.ndtr(-at)
    return np.asarray(np.where(at[:-1] > 0, upper[:-1] - upper[1:], lower[1:] - lower[:-1]))


Parts = tuple[tuple[Step, int], ...]


# Laws of L by atoms: at the mean of e^-L in cells, or on a lattice.


@dataclass(frozen=True)
class Listed:
    """Values of L and their masses, with bounds of the losses that they stand for."""

    at: FloatArray
    mass: FloatArray
    ends: tuple[float, float]

    @cached_property
    def log_mass(self) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.mass))

    def log_mgf(self, theta: float) -> float:
        return _log_sum(self.log_mass + theta * self.at)

    def tilted(self, theta: float) -> FloatArray:
        exponents = self.log_mass + theta * self.at
        share = np.exp(exponents - exponents.max())
        return np.asarray(share / share.sum())


def _log_sum(exponents: FloatArray) -> float:
    """SciPy's logsumexp asks ten questions first, and it is called some hundred times."""
    top = float(exponents.max())
    return top + float(np.log(np.exp(exponents - top).sum()))


def coarse(law: Step, direction: Direction, rare: float) -> tuple[Listed, FloatArray]:
    """Law of a step with few values, to choose tilts and windows, and bounds of its losses."""
    edges = np.linspace(*law.reach(rare), COARSE + 1)
    without, with_it = law.masses(edges)
    at, more, more_with = law.atoms(rare)
    without, with_it = np.concatenate([without, more]), np.concatenate([with_it, more_with])
    beyond = np.concatenate([edges[1:] if direction == "remove" else edges[:-1], at])
    kept = (without > 0) & (with_it > 0)
    without, with_it, beyond = without[kept], with_it[kept], law.sampled(beyond[kept])
    loss = law.sampled(np.log(with_it / without))
    if direction == "remove":
        mass = without + law.rate * (with_it - without)
    else:
        loss, mass, beyond = -loss, without, -beyond
    return Listed(loss, mass, law.span(direction, rare)), beyond


def spread(
    law: Step, direction: Direction, span: tuple[float, float], rare: float, step: float
) -> Listed:
    """Law of one step within a ``span``, on a lattice: every e^-L split, keeping its mean.

    Of a cell from a to b with mass p and E[e^-L] = r, u = (p - r·e^a)/(1 - e^(a-b)) goes to b.
    """
    anchor = law.anchor(direction)
    first = int(np.floor((span[0] - anchor) / step - 1e-9))
    cells = max(int(np.ceil((span[1] - anchor) / step - 1e-9)) - first, 1)
    edges = anchor + step * (first + np.arange(cells + 1.0))
    width, q = -float(np.expm1(-step)), law.rate
    if direction == "remove":
        without, with_it = law.masses(law.unsampled(edges))
        more = q * (with_it - without)
        mass = without + more
        up = (more - np.expm1(edges[:-1]) * without) / width
    else:
        without, with_it = (m[::-1] for m in law.masses(law.unsampled(-edges[::-1])))
        mass = without
        up = q * (without - with_it) + np.expm1(-edges[:-1]) * without
        up *= np.exp(edges[:-1]) / width
    at, without, with_it = law.atoms(rare)
    if at.size:
        loss, atom = law.sampled(at), without + q * (with_it - without)
        if direction == "add":
            loss, atom = -loss, without
        place = (loss - edges[0]) / step
        kept = (place > -1e-6) & (place < cells + 1e-6)
        loss, atom, place = loss[kept], atom[kept], place[kept]
        cell = np.clip(np.floor(place).astype(np.int64), 0, cells - 1)
        share = np.clip(-np.expm1(edges[cell] - loss) / width, 0.0, 1.0)
        mass = mass + np.bincount(cell, atom, cells)
        up = up + np.bincount(cell, atom * share, cells)
    up = np.clip(up, 0.0, mass)
    found = np.zeros(cells + 1)
    found[1:] += up
    found[:-1] += mass - up
    return Listed(edges, found, (float(edges[0]), float(edges[-1])))


@dataclass(frozen=True)
class Bracket:
    """δ at an ε: a value, how much less and more it may be, and e^ε·E[e^-L; L > ε]."""

    value: float
    below: float
    above: float
    scaled: float

    @property
    def lower(self) -> float:
        return max(self.value - self.below, 0.0)

    @property
    def upper(self) -> float:
        return min(self.value + self.above, 1.0)


class Tilts:
    """ln E[e^(θL)] of a sum of listed laws, and the tilts that suit an ε or a δ."""

    def __init__(self, parts: Iterable[tuple[Listed, int]]) -> None:
        self.parts = tuple(parts)
        self.low = float(sum(k * law.ends[0] for law, k in self.parts))
        self.high = float(sum(k * law.ends[1] for law, k in self.parts))

    def log_mgf(self, theta: float) -> float:
        return sum(k * law.log_mgf(theta) for law, k in self.parts)

    def moments(self, theta: float) -> tuple[float, float, float]:
        """Return ln E[e^(θL)] and the mean and variance of the tilted law."""
        mean, variance = 0.0, 0.0
        for law, k in self.parts:
            share = law.tilted(theta)
            centre = float(share @ law.at)
            mean += k * centre
            variance += k * float(share @ (law.at - centre) ** 2)
        return self.log_mgf(theta), mean, variance

    def saddle(self, epsilon: float | None, delta: float) -> tuple[float, float, float]:
        """Tilt θ > 0 with the least E[e^(θ(L-ε))]/(θ(θ+1)), ε, and about ln δ(ε).

        ``epsilon`` is given, or else found from δ; it is not negative.
        """

        def place(log_theta: float) -> tuple[float, float]:
            theta = float(np.exp(log_theta))
            total, mean, variance = self.moments(theta)
            at = mean - 1.0 / theta - 1.0 / (1.0 + theta)
            variance += 1.0 / theta**2 + 1.0 / (1.0 + theta) ** 2
            fixed = at if epsilon is None else epsilon
            log_delta = total - theta * fixed - np.log(theta * (1.0 + theta))
            return at, float(log_delta - 0.5 * np.log(2.0 * np.pi * variance))

        def rising(log_theta: float) -> float:
            at, log_delta = place(log_theta)
            if epsilon is not None:
                return at - epsilon
            return float(np.log(delta)) - log_delta if at > 0 else -1.0

        spread_of = max(self.high - self.low, 1e-300)
        low, high = np.log(1e-2 / spread_of), np.log(LARGEST_TILT / spread_of)
        if rising(low) >= 0:
            found = low
        elif rising(high) <= 0:
            found = high
        else:
            found = optimize.brentq(rising, low, high, xtol=1e-3)
        at, log_delta = place(found)
        return float(np.exp(found)), max(at, 0.0) if epsilon is None else epsilon, log_delta

    def moves(self, theta: float) -> FloatArray:
        """Return changes of the tilt θ that give Chernoff bounds, down and up."""
        unit = 1.0 / np.sqrt(max(self.moments(theta)[2], 1e-300))
        least = min(0.25 * unit, 1.0 / max(self.high - self.low, 1e-300))
        most = min(64.0 * unit, LARGEST_TILT / max(self.high - self.low, 1e-300))
        return np.geomspace(least, max(most, 4.0 * least), 24)

    def span(self, theta: float, exponent: float) -> tuple[float, float]:
        """Points beyond which the law tilted by θ has a mass of e^-exponent at most, each."""
        total, mean, _ = self.moments(theta)
        low, high = self.low, self.high
        for move in self.moves(theta):
            high = min(high, (self.log_mgf(theta + move) - total + exponent) / move)
            low = max(low, (total - self.log_mgf(theta - move) - exponent) / move)
        return min(low, mean), max(high, mean)

    def outside(self, theta: float, low: float, high: float, plan: Tilts) -> float:
        """Chernoff's bound on the tilted masses below ``low`` and above ``high``.

        The tilts are the best ones of a ``plan`` with fewer values.
        """
        bound = 0.0
        for sign, end, inside in ((1.0, high, self.high <= high), (-1.0, low, self.low >= low)):
            if not inside:
                moves = sign * plan.moves(theta)
                best = min(moves, key=lambda s: plan.log_mgf(theta + s) - s * end)
                log_bound = self.log_mgf(theta + best) - self.log_mgf(theta) - best * end
                bound += float(np.exp(min(log_bound, 0.0)))
        return bound


LARGEST_TILT = 1e7
"""Times the span of the losses: a larger tilt makes no difference."""

BEYOND = 45.0
"""Mass e^-45 of the tilted law is left outside of the window of the lattice."""

MOST_LOST = -25.0
"""Relative rounding e^-25 of δ is allowed for a narrower window."""

COARSE = 1000
WINDOWS = 1 << 12, 1 << 18
GOAL = 1e-9
"""Width of the bracket in ε that is aimed at."""

MISSED = 0.1
"""Chance that the sum of what spreading moves is beyond the window allowed for it."""


class Lattice:
    """The sum of losses that are spread on a lattice, tilted by θ, and its δ at every ε.

    The value is an upper bound, as δ is convex in every e^-L. It exceeds δ by at most k times
    (e^h - 1)/4 times the chance that the sum is within 2h + r of ε: a step in a cell of width h
    bends δ only there. Spreading moves the sum by less than r with probability 0.9 (Hoeffding).
    """

    def __init__(
        self, parts: Parts, direction: Direction, rare: float, epsilon: float | None, delta: float
    ) -> None:
        self.count = sum(k for _, k in parts)
        plans = [coarse(law, direction, rare) for law, _ in parts]
        plan = Tilts((law, k) for (law, _), (_, k) in zip(plans, parts, strict=True))
        theta, self.start = _tilt(plan, epsilon, delta, self.count)
        self._cut = 2.0 * rare * self.count
        self.exact = _two_values(parts)
        while True:
            kept = [
                _kept(law, beyond, theta, np.exp(-BEYOND) / self.count) for law, beyond in plans
            ]
            low, high = plan.span(theta, BEYOND)
            low = max(low, sum(k * one[0] for one, (_, k) in zip(kept, parts, strict=True)))
            high = min(high, sum(k * one[1] for one, (_, k) in zip(kept, parts, strict=True)))
            if self.exact:
                ends, step = 0, float(np.ptp(plan.parts[0][0].at))
                window = 1 << int(np.ceil(np.log2((high - low) / step + 8.0)))
                break
            # the bound of the excess in ε is about (θ + 1)·k·h²·(0.7·√k + 1)
            per_square = (theta + 1.0) * self.count * (0.7 * np.sqrt(self.count) + 1.0)
            wanted = np.clip((high - low) * np.sqrt(per_square / GOAL), *WINDOWS)
            window = 1 << int(np.ceil(np.log2(wanted)))
            # each step may reach into one more cell at either end
            ends = min(self.count, window // 8)
            widest = max(high - low, *(one[1] - one[0] for one in kept))
            step = widest / (window - 8.0 - 2.0 * ends)
            if theta * step <= 1.0:
                break
            # near the largest loss no tilt is too large, but one atom should not drown the next
            theta = 0.5 / step
        self.theta = theta
        self._tilted_cut = sum(k * one[2] for one, (_, k) in zip(kept, parts, strict=True))
        fine = Tilts(
            (spread(law, direction, one[:2], rare, step), k)
            for (law, k), one in zip(parts, kept, strict=True)
        )
        self.step = step
        self._log_m = fine.log_mgf(theta)
        offset = sum(k * law.at[0] for law, k in fine.parts)
        first = int(np.floor((low - offset) / step)) - 2 - ends
        self.first = offset + first * step
        last = self.first + (window - 1) * step
        self._outside = fine.outside(theta, self.first, last, plan)
        log_phi, spent = np.zeros(window // 2 + 1, dtype=np.complex128), 0.0
        for law, k in fine.parts:
            share = law.tilted(theta)
            spent += k * theta * float(share @ np.abs(law.at))
            wrapped = np.bincount(np.arange(share.size) % window, share, window)
            log_phi += k * np.log(np.fft.rfft(wrapped) + 1e-300)
        phi = np.exp(log_phi)
        self._noise = ROUNDING * (8.0 * self.count + 40.0) * float(np.mean(np.abs(phi)))
        self._relative = ROUNDING * (4.0 * self.count + spent + 40.0)
        self._moved = ROUNDING * (abs(low) + abs(high) + 16.0 * sum(k * a.rate for a, k in parts))
        self._mass = np.maximum(np.roll(np.fft.irfft(phi, window), -(first % window)), 0.0)
        away = step * np.arange(int(min(window, 60.0 / (theta * step) + 2.0)))
        self._fade = np.exp(-theta * away)
        self._gain = -np.expm1(-away)

    def at(self, epsilon: float) -> Bracket:
        h, theta = self.step, self.theta
        place = max(int(np.floor((epsilon - self.first) / h)) + 1, 0)
        mass = self._mass[place : place + self._fade.size]
        fade, gain = self._fade[: mass.size], self._gain[: mass.size]
        ahead = self.first + place * h - epsilon
        # where the tilt does not suit ε at all the error says so
        scale = float(np.exp(min(self._log_m - theta * (epsilon + ahead), 600.0)))
        faded, near = mass * fade, float(np.exp(-ahead))
        total, later = float(faded.sum()), float(faded @ gain)
        value = scale * (-np.expm1(-ahead) * total + near * later)
        scaled = scale * near * (total - later)
        sizes = float(fade.sum() - near * (fade @ (1.0 - gain)))
        error = scale * sizes * self._noise + self._relative * value + self._moved * scaled
        largest = float(np.exp(min(self._log_m - theta * epsilon, 600.0))) / (1.0 + theta)
        error += largest * self._outside
        excess = 0.0 if self.exact else self._excess(epsilon)
        above = error + self._cut + largest * self._tilted_cut
        return Bracket(value, error + excess, above, scaled)

    def _excess(self, epsilon: float) -> float:
        h, others = self.step, self.count - 1
        moved = h * float(np.sqrt(0.5 * others * np.log(2.0 / MISSED)))
        likely = 1.0 - MISSED
        if others * h <= moved:
            moved, likely = others * h, 1.0
        low = epsilon - moved - 2.0 * h
        high = epsilon + moved + 2.0 * h + 0.125 * others * h * h
        begin = int(np.floor((low - self.first) / h))
        end = int(np.ceil((high - self.first) / h)) + 1
        kept = np.arange(max(begin, 0), min(end, self._mass.size))
        tilted = np.exp(np.minimum(self._log_m - self.theta * (self.first + kept * h), 600.0))
        near = float((self._mass[kept] + self._noise) @ tilted)
        if begin < 0 or end > self._mass.size:
            near += float(np.exp(min(self._log_m - self.theta * low, 600.0))) * self._outside
        return min(self.count * 0.25 * float(np.expm1(h)) * near / likely, 1.0)


def _tilt(plan: Tilts, epsilon: float | None, delta: float, count: int) -> tuple[float, float]:
    """Tilt with the narrowest window of those that keep the digits of δ, and about ε."""
    theta, at, log_delta = plan.saddle(epsilon, delta)
    best, narrowest = theta, np.inf
    for share in (1.0, 0.85, 0.7, 0.55, 0.4, 0.3):
        lost = plan.log_mgf(share * theta) - share * theta * at - log_delta
        if share < 1.0 and lost + np.log(count * ROUNDING) > MOST_LOST:
            break
        low, high = plan.span(share * theta, BEYOND)
        if high - low < 0.7 * narrowest:
            best, narrowest = share * theta, high - low
    return best, at


def _kept(
    law: Listed, beyond: FloatArray, theta: float, least: float
) -> tuple[float, float, float]:
    """Losses outside of which less than ``least`` of the tilted law is, and how much."""
    order = np.argsort(beyond)
    share = np.exp(law.log_mass + theta * beyond - law.log_mgf(theta))[order]
    first = int(np.argmax(np.cumsum(share) > least))
    last = share.size - 1 - int(np.argmax(np.cumsum(share[::-1]) > least))
    cut = float(share[:first].sum() + share[last + 1 :].sum())
    ends = beyond[order]
    return float(ends[max(first - 1, 0)]), float(ends[last]), cut


# A line of the transform, where it fades: for many steps.


LINE_EXPONENT = 42.0
"""What is left out of the line is e^-42 of E[e^(θ(L - ε))]."""

MOST_VALUES = 1 << 15
MOST_TERMS = 4_000_000
BLOCK = 64


@dataclass(frozen=True)
class Rule:
    """Values of L and masses that give E[e^(zL)], Re z = θ, |Im z| <= T, to a relative error.

    Under the law tilted by θ, |E[e^(itL)]| <= ``atomic`` + ``fade``/t.
    """

    at: FloatArray
    mass: FloatArray
    error: float
    atomic: float
    fade: float


def gaussian_rule(
    law: GaussianStep, direction: Direction, theta: float, most: float, count: int
) -> Rule:
    """Trapezoid rule over the noise u, whose error is bounded along Im u = ±a.

    There |density| is e^(a²/2) times as large, the mixture 1 - q + q·e^c turns by an angle and
    shrinks; what is beyond the nodes has a mass of 1e-31. The density of L is highest far on the
    left: as many of the lowest losses count as an atom as lets the transform fade soonest.
    """
    mu, q = law.mu, law.rate
    power = theta + 1.0 if direction == "remove" else -theta
    # a negative power is largest, (1 - q)^power or e^(power·c), on the left
    left = (
        -power * mu if q == 1.0 else min(-power * mu, np.sqrt(max(2.0 * power * np.log1p(-q), 0.0)))
    )
    low = -12.0 - max(float(left), 0.0)
    high = 12.0 + max(power, 0.0) * mu
    if high - low > 120.0 or mu * high > 600.0:
        raise UnsuitedError

    def nodes(step: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        u = step * np.arange(np.floor(low / step), np.ceil(high / step) + 1.0)
        c = mu * u - 0.5 * mu * mu
        loss = law.sampled(c)
        log_mass = -0.5 * u * u + np.log(step / np.sqrt(2.0 * np.pi))
        return c, loss, log_mass

    c, loss, log_mass = nodes(min(0.125, 0.5 / mu))
    share = log_mass + power * loss
    share -= _log_sum(share)
    best = 0.0
    for part in np.geomspace(0.002, 0.9, 12):
        a = part * min(np.pi / mu, 9.0)
        turned = np.log1p(q * (np.exp(c + 1j * a * mu) - 1.0))
        grown = share + power * (turned.real - loss) + most * turned.imag
        beyond = most * a * mu + float(np.max(power * (turned.real - loss))) - 70.0
        total = np.logaddexp(_log_sum(grown), beyond) + 0.5 * a * a
        best = max(best, 2.0 * np.pi * a / (LINE_EXPONENT + total))
    step = min(best, 0.25, 0.5 / mu)
    if (high - low) / step > MOST_VALUES:
        raise UnsuitedError
    c, loss, log_mass = nodes(step)
    share = log_mass + power * loss
    share -= _log_sum(share)
    # density of the tilted L, smooth with at most two modes
    log_ratio = c + np.log(q) - loss
    density = np.exp(share - log_ratio) / (step * mu)
    bend = np.expm1(0.125 * step**2 * (1.0 + 0.25 * abs(power + 1.0) * mu**2))
    highest = np.maximum.accumulate(density[::-1])[::-1]
    change = np.append(np.cumsum(np.abs(np.diff(density))[::-1])[::-1], 0.0)
    fades = change + density + 6.0 * highest * bend
    atomic = np.cumsum(np.exp(share))
    room = np.maximum(np.exp(-LINE_EXPONENT / count) - atomic, 1e-300)
    first = int(np.argmin(np.maximum(fades, 1e-290) / room))
    # beyond the last node the integrand falls by e^-12 a unit or more
    error = 4.0 * float(np.exp(-LINE_EXPONENT)) + float(np.exp(share[-1])) / step
    if direction == "remove":
        return Rule(loss, np.exp(log_mass + loss), error, float(atomic[first]), float(fades[first]))
    return Rule(-loss, np.exp(log_mass), error, float(atomic[first]), float(fades[first]))


def laplace_rule(law: LaplaceStep, direction: Direction, theta: float, most: float) -> Rule:
    """Gauss-Legendre rules on panels of the noise y = (shift + c)/2, and the two atoms.

    The error of n nodes is at most 64/15·max|f|·ρ^(2-2n)/(1 - ρ^-2) on the ellipse of ρ about a
    panel, along which c turns by less than a right angle.
    """
    shift, q = law.shift, law.rate
    power = theta + 1.0 if direction == "remove" else -theta
    ends, without, _ = law.atoms(0.0)
    node, weight = special.roots_legendre(LEGENDRE)

    def rule_of(panels: int) -> tuple[FloatArray, FloatArray]:
        half = 0.5 * shift / panels
        y = (half * (2.0 * np.arange(panels)[:, None] + 1.0 + node)).ravel()
        c = np.concatenate([ends[:1], 2.0 * y - shift, ends[1:]])
        inner = 0.5 * half * np.tile(weight, panels) * np.exp(-y)
        return c, np.concatenate([without[:1], inner, without[1:]])

    def bound(panels: int) -> float:
        half = 0.5 * shift / panels
        rho = np.geomspace(1.5, 100.0, 40)
        turn = half * (rho - 1.0 / rho)
        rho, turn = rho[turn < 1.5], turn[turn < 1.5]
        over = half * (0.5 * (rho + 1.0 / rho) - 1.0)
        low = 2.0 * half * np.arange(panels)[:, None] - over
        c = 2.0 * low - shift
        if power < 0:
            size = power * np.log1p(q * (np.exp(c) * np.cos(turn) - 1.0))
        else:
            size = power * law.sampled(c + 4.0 * (half + over))
        last = np.exp(shift + 2.0 * over)
        angle = np.arctan2(q * last * np.sin(turn), 1.0 - q + q * last * np.cos(turn))
        size += most * angle - low - (2.0 * LEGENDRE - 2.0) * np.log(rho)
        size += np.log(half * 64.0 / 30.0 / (1.0 - rho**-2.0))
        return min(_log_sum(column) for column in size.T) if rho.size else np.inf

    panels = max(1, int(np.ceil(shift)))
    while bound(panels) > -LINE_EXPONENT:
        panels *= 2
        if panels * LEGENDRE > MOST_VALUES:
            raise UnsuitedError
    c, mass = rule_of(panels)
    loss = law.sampled(c)
    share = np.log(mass) + power * loss
    share -= _log_sum(share)
    atomic = float(np.exp(share[0]) + np.exp(share[-1]))
    # density of the tilted L between the atoms: its logarithm is convex, or has one mode
    y = np.linspace(0.0, shift, 257)
    at = law.sampled(2.0 * y - shift)
    log_density = (power + 1.0) * at - 3.0 * y + shift - np.log(4.0 * q)
    log_density += share[0] - np.log(mass[0]) - power * loss[0]
    if power >= -1.0:
        fade = 2.0 * float(np.exp(log_density[0]) + np.exp(log_density[-1]))
    else:
        steep = (3.0 + 2.0 * abs(power + 1.0)) * shift / 512.0
        fade = 2.0 * float(np.exp(log_density.max() + steep))
    error = float(np.exp(-LINE_EXPONENT))
    if direction == "remove":
        return Rule(loss, mass * (1.0 + q * np.expm1(c)), error, atomic, fade)
    return Rule(-loss, mass, error, atomic, fade)


LEGENDRE = 20


@dataclass(frozen=True)
class Tilted:
    """A rule under its tilted law: losses from their mean, shares, and E|L - mean|."""

    at: FloatArray
    share: FloatArray
    centre: float
    size: float

    @classmethod
    def of(cls, rule: Rule, theta: float) -> Tilted:
        share = rule.mass * np.exp(theta * rule.at)
        share /= share.sum()
        centre = float(share @ rule.at)
        at = rule.at - centre
        return cls(at, share, centre, float(share @ np.abs(at)))

    def log_phi(self, t: FloatArray) -> NDArray[np.complex128]:
        """Return ln E[e^(itL)], of which 1 - E[e^(itL)] is accurate."""
        half = np.multiply.outer(0.5 * t, self.at)
        sine = np.sin(half)
        less = (sine * sine) @ self.share
        turned = (sine * np.cos(half)) @ self.share
        found = np.asarray(special.log1p(-2.0 * less + 2j * turned))
        # of one that is 0 no multiple is taken
        found.real = np.maximum(found.real, -700.0)
        return found


class Line:
    """The sum of losses by the integral of its transform along Re z = θ, and its δ at every ε.

    The trapezoid rule repeats δ with a period R, which Chernoff bounds bound. It ends where the
    transform has faded; that it stays so is seen at nodes, between which it is Lipschitz, and far
    out from the variation of the density.
    """

    def __init__(
        self,
        parts: Parts,
        direction: Direction,
        rare: float,
        epsilon: float | None,
        delta: float,
        share: float = 1.0,
    ) -> None:
        plan = Tilts((coarse(law, direction, rare)[0], k) for law, k in parts)
        theta, self.start, _ = plan.saddle(epsilon, delta)
        self.theta = theta = share * theta
        self.count = sum(k for _, k in parts)
        log_goal = float(np.log(delta)) - 32.0

        def rules(tilt: float, most: float) -> list[Rule]:
            return [law.rule(direction, tilt, most, rare, self.count) for law, _ in parts]

        def log_mgf(tilt: float, found: list[Rule]) -> float:
            return sum(k * _log_mgf(rule, tilt) for rule, (_, k) in zip(found, parts, strict=True))

        first = rules(theta, 0.0)
        log_m = log_mgf(theta, first)
        at = epsilon if epsilon is not None else (log_m - np.log(delta)) / theta
        variance = plan.moments(theta)[2]
        period, self._above = np.inf, (0.0, np.inf)
        for move in np.geomspace(0.5, 32.0, 7) / np.sqrt(variance):
            try:
                further = log_mgf(theta + move, rules(theta + move, 0.0))
            except UnsuitedError:
                break
            wanted = (further - (theta + move) * at - log_goal) / move
            if wanted < period:
                period, self._above = wanted, (float(move), further)
        period = max(period, -log_goal / theta)
        if not np.isfinite(period):
            raise UnsuitedError
        self.period = period
        step = 2.0 * np.pi / period
        last, self._left, more = _faded(first, [k for _, k in parts]), 0.0, np.zeros(0)
        self.revived = last is None
        if last is None:
            last, self._left, more = _revived(first, parts, theta, step)
        # the transform is mostly gone long before it is known to stay away
        near = min(last, 16.0 / float(np.sqrt(variance)))
        while True:
            chosen = rules(theta, near + BLOCK * step)
            tilted = _tilted(chosen, parts, theta)
            most = MOST_TERMS // (BLOCK * sum(rule.at.size for rule in chosen))
            found: list[NDArray[np.complex128]] = []
            end, gone = 0.0, False
            while end < near and not gone:
                if len(found) == most:
                    raise UnsuitedError
                t = step * (np.arange(float(BLOCK)) + len(found) * BLOCK)
                found.append(np.asarray(sum(k * one.log_phi(t) for one, k in tilted)))
                end, gone = float(t[-1]), bool(found[-1].real.max() < -2.0 * LINE_EXPONENT)
            if gone or end >= last:
                break
            near = min(4.0 * near, last)
        self.log_m = log_mgf(theta, chosen)
        log_values = np.concatenate(found)
        self.t = step * np.arange(float(log_values.size))
        left = -LINE_EXPONENT
        if end < last:
            far = chosen if near == last else rules(theta, last)
            left = _still_faded(_tilted(far, parts, theta), end, last)
        self._left += float(np.exp(left)) / (np.pi * end)
        if more.size:
            t = step * more[more >= log_values.size]
            self.t = np.concatenate([self.t, t])
            again = sum(k * one.log_phi(t) for one, k in tilted)
            log_values = np.concatenate([log_values, again])
        z = theta + 1j * self.t
        weight = np.full(self.t.size, step / np.pi)
        weight[0] *= 0.5
        self._centre = sum(k * one.centre for one, k in tilted)
        self._terms = weight * np.exp(log_values) / (z * (z + 1.0))
        self._z = z
        wrong = np.full(self.t.size, 40.0 * ROUNDING)
        self._relative, self._moved = 20.0 * ROUNDING, 0.0
        for rule, (one, k) in zip(chosen, tilted, strict=True):
            wrong += k * (rule.error + ROUNDING * (4.0 + self.t * one.size))
            spent = float(rule.mass @ np.abs(np.expm1(theta * rule.at)))
            self._relative += k * (4.0 * ROUNDING * spent + rule.error)
            self._moved += 4.0 * k * ROUNDING * (abs(one.centre) + one.size)
        self._noise = float(np.abs(self._terms) @ wrong)

    def at(self, epsilon: float) -> Bracket:
        theta = self.theta
        scale = float(np.exp(min(self.log_m - theta * epsilon, 600.0)))
        terms = self._terms * np.exp(1j * self.t * (self._centre - epsilon))
        value = scale * float(terms.real.sum())
        scaled = scale * float((terms * self._z).real.sum())
        move, further = self._above
        error = scale * (self._noise + self._left) + self._relative * abs(value)
        error += (self._moved + ROUNDING * epsilon) * abs(scaled)
        error += 2.0 * float(np.exp(-theta * self.period))
        ahead = further - (theta + move) * epsilon - move * self.period
        error += float(np.exp(min(ahead, 600.0)) / -np.expm1(-move * self.period))
        return Bracket(value, error, error, scaled)

    def width(self) -> float:
        """Width of the bracket in ε, where it is meant to be used."""
        found = self.at(self.start)
        return (found.below + found.above) / found.scaled if found.scaled > 0 else np.inf


def _tilted(rules: list[Rule], parts: Parts, theta: float) -> list[tuple[Tilted, int]]:
    return [(Tilted.of(rule, theta), k) for rule, (_, k) in zip(rules, parts, strict=True)]


def _log_mgf(rule: Rule, theta: float) -> float:
    exponent = theta * rule.at
    if exponent.max() > 600.0:
        raise UnsuitedError
    return float(np.log1p(rule.mass @ np.expm1(exponent)))


def _faded(rules: list[Rule], counts: list[int]) -> float | None:
    """Distance t from which on the variation of the densities says that the transform is small."""

    def log_bound(t: float) -> float:
        return sum(
            k * float(np.log(min(rule.atomic + rule.fade / t, 1.0)))
            for rule, k in zip(rules, counts, strict=True)
        )

    low = high = max(rule.fade for rule in rules)
    if sum(
        k * np.log(rule.atomic) for rule, k in zip(rules, counts, strict=True) if rule.atomic
    ) > -LINE_EXPONENT and all(rule.atomic for rule in rules):
        return None
    while log_bound(high) > -LINE_EXPONENT:
        low, high = high, 2.0 * high
    if high == low:
        return low
    return 1.01 * float(
        optimize.brentq(lambda t: log_bound(t) + LINE_EXPONENT, low, high, rtol=1e-3)
    )


def _revived(
    rules: list[Rule], parts: Parts, theta: float, step: float
) -> tuple[float, float, FloatArray]:
    """Where the transform of atoms has faded, and a bound of what its revivals beyond add.

    The nodes of the largest revivals are not in this bound but returned, by their numbers.

    With shares of atoms split into pairs of masses a, b and distances d, 1 - |E[e^(itL)]| is at
    least the sum of their 2ab/(a + b)·sin²(td/2). One pair leaves windows about the multiples of
    2π/d, in which the others are looked at; beyond the last of these windows all may be there.
    """
    weights, gaps = [np.zeros(0)], [np.zeros(0)]
    for rule, (_, k) in zip(rules, parts, strict=True):
        if rule.fade > 0:
            continue
        share = Tilted.of(rule, theta).share
        kept = np.flatnonzero(share >= 1e-3 * share.max())
        if kept.size > PAIRS:
            kept = kept[np.linspace(0, kept.size - 1, PAIRS + 1).round().astype(np.int64)]
        # inner atoms belong to two pairs
        half = share[kept] * 0.5
        half[[0, -1]] *= 2.0
        a, b = half[:-1], half[1:]
        weights.append(2.0 * k * a * b / (a + b))
        gaps.append(np.diff(rule.at[kept]))
    weight, gap = np.concatenate(weights), np.concatenate(gaps)
    if weight.size < 2:
        raise UnsuitedError
    lead = int(np.argmax(weight))
    period = 2.0 * np.pi / gap[lead]
    wide = period / np.pi * float(np.arcsin(np.sqrt(min(LINE_EXPONENT / weight[lead], 1.0))))
    pieces = int(np.clip(np.ceil(2.0 * wide * gap.max()), 1.0, 16.0))
    half_width = wide / pieces
    windows = max(MOST_PHASES // (pieces * weight.size), 16)
    places = np.arange(1.0, windows + 1.0)[:, None] * period
    places = (places + half_width * (2.0 * np.arange(pieces) + 1.0 - pieces)).ravel()
    exponent = np.zeros(places.size)
    for w, d in zip(weight, gap, strict=True):
        turn = places * (d / (2.0 * np.pi))
        turn = np.abs(turn - np.rint(turn)) * (2.0 * np.pi) - half_width * d
        exponent += w * np.sin(0.5 * np.maximum(turn, 0.0)) ** 2
    nodes = 2.0 * half_width + step
    each = np.exp(-exponent) * nodes / (np.pi * (places - half_width) ** 2)
    left = (2.0 * wide + step) / (np.pi * period**2 * (windows - 0.5))
    more = np.zeros(0)
    if all(rule.fade == 0 for rule in rules):
        points = sum(rule.at.size for rule in rules)
        most = int(MOST_REVIVED / (points * np.ceil(nodes / step)))
        largest = np.argsort(-each)[: min(most, each.size)]
        largest = largest[each[largest] > 0.3 * left / each.size]
        numbers = np.floor(places[largest, None] / step) + np.arange(
            -np.floor(0.5 * nodes / step), np.ceil(0.5 * nodes / step) + 1.0
        )
        more = np.unique(numbers)
        each[largest] = 0.0
    return wide, left + float(each.sum()), more


PAIRS = 12
MOST_PHASES = 600_000
MOST_REVIVED = 300_000
TOO_WIDE = 1e-5
"""Where the bracket in ε is wider, relative to 1, the lattice is asked as well."""


def _still_faded(rules: list[tuple[Tilted, int]], first: float, last: float) -> float:
    """Logarithm of a bound of the transform from ``first`` to ``last`` and on."""
    ends = np.geomspace(first, last, 64)
    points = sum(rule.at.size for rule, _ in rules)
    while ends.size * points < MOST_TERMS:
        bound = np.zeros(ends.size - 1)
        for rule, k in rules:
            phi = np.abs(np.exp(1j * np.multiply.outer(ends, rule.at)) @ rule.share)
            # |φ| changes by no more than E|L| a unit
            bound += k * np.log(
                np.minimum(0.5 * (phi[1:] + phi[:-1] + rule.size * np.diff(ends)), 1)
            )
        bad = np.flatnonzero(bound > 1.0 - LINE_EXPONENT)
        if not bad.size:
            return max(float(bound.max()), -LINE_EXPONENT)
        ends = np.sort(np.concatenate([ends, 0.5 * (ends[bad] + ends[bad + 1])]))
    raise UnsuitedError


# From one sum to δ(ε) and ε(δ).


class Curve:
    """δ at any ε and ε at any δ of a sum of steps, in one direction, within bounds."""

    def __init__(self, parts: Parts, direction: Direction) -> None:
        self.parts = parts
        self.direction = direction
        self.count = sum(k for _, k in parts)
        self.largest = sum(k * law.largest(direction) for law, k in parts)
        self._made: list[tuple[Line | Lattice, float]] = []

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Lower and upper bound of δ at ε >= 0."""
        if epsilon >= self.largest:
            return 0.0, 0.0
        for made, error in self._made:
            found = made.at(epsilon)
            if found.below + found.above <= error * found.value:
                return found.lower, found.upper
        laws = ((coarse(law, self.direction, LEAST_RARE)[0], k) for law, k in self.parts)
        log_delta = Tilts(laws).saddle(epsilon, 1.0)[2]
        likely = float(np.exp(np.clip(log_delta, LEAST_LOG_DELTA, 0.0)))
        lower, upper = 0.0, 1.0
        for made in self._routes(epsilon, likely):
            found = made.at(epsilon)
            lower, upper = max(lower, found.lower), min(upper, found.upper)
            if found.value > 0:
                error = 2.0 * (found.below + found.above) / found.value
                self._made.append((made, max(error, 1e-9)))
        return lower, upper

    def epsilon(self, delta: float) -> tuple[float, float]:
        """Lower and upper bound of ε at δ within (0, 1)."""
        lower, upper = 0.0, np.inf
        for made in self._routes(None, delta):
            if made.at(0.0).upper <= delta:
                return 0.0, 0.0
            ends = [made.start]
            for side in (0.0, 1.0, -1.0):
                low, high = crossing(made.at, side, delta, ends[-1], self.largest)
                ends.append(low if side < 0 else high)
            lower, upper = max(lower, ends[3]), min(upper, ends[2])
        return lower, upper

    def _routes(self, epsilon: float | None, delta: float) -> Iterator[Line | Lattice]:
        """Make a line where there is one, and a lattice where this says less than it might."""
        rare = max(RARE * delta, LEAST_RARE) / self.count
        close = False
        if self.count >= FEW and not _two_values(self.parts):
            # where few large losses are as likely as many small ones a smaller tilt is better
            for share in (1.0, 0.6, 0.25):
                try:
                    line = Line(self.parts, self.direction, rare, epsilon, delta, share)
                except UnsuitedError:
                    continue
                yield line
                close = line.width() < TOO_WIDE
                if close or line.revived:
                    break
        if not close:
            yield Lattice(self.parts, self.direction, rare, epsilon, delta)


def _two_values(parts: Parts) -> bool:
    """Whether a lattice holds the losses as they are."""
    law = parts[0][0]
    return len(parts) == 1 and isinstance(law, AtomicStep) and law.losses.size == 2


class Single:
    """δ and ε of one step, from those of the mechanism itself."""

    def __init__(self, law: Step, direction: Direction, base: PrivacyLoss) -> None:
        self.law, self.direction, self.base = law, direction, base

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Lower and upper bound of δ at ε >= 0."""
        found = self._at(epsilon)
        return found.lower, found.upper

    def epsilon(self, delta: float) -> tuple[float, float]:
        """Lower and upper bound of ε at δ within (0, 1)."""
        if self._at(0.0).upper <= delta:
            return 0.0, 0.0
        largest = self.law.largest(self.direction)
        lower = crossing(self._at, -1.0, delta, 1.0, largest)[0]
        return lower, crossing(self._at, 1.0, delta, 1.0, largest)[1]

    def _at(self, epsilon: float) -> Bracket:
        q = self.law.rate
        share = q
        at = float(np.log1p(np.expm1(epsilon) / q))
        if self.direction == "add":
            left = float(np.expm1(-epsilon)) / q
            if left <= -1.0:
                return Bracket(0.0, 0.0, 0.0, 0.0)
            share = q - (1.0 - q) * float(np.expm1(epsilon))
            at = -float(np.log1p(left))
        lower, upper = (float(bound) for bound in self.base.delta_bounds(at))
        share = max(share, 0.0)
        # chances of the mechanism's own loss above c under both of its laws give -dδ/dε
        above = 1.0 - float(self.base.cdf(at))
        below = float(np.exp(-at)) * max(above - upper, 0.0)
        scaled = below if self.direction == "remove" else (1.0 - q) * above + q * below
        scaled *= float(np.exp(epsilon))
        value = share * upper
        return Bracket(value, value - share * lower, 4.0 * ROUNDING * value, scaled)


def crossing(
    at: Callable[[float], Bracket], side: float, delta: float, start: float, largest: float
) -> tuple[float, float]:
    """Return ε > 0 beside each other at which a bound is more than δ, and not more.

    The ``side`` is 1 for the upper, -1 for the lower bound, 0 for the value between.
    """
    low, high, epsilon = 0.0, largest, min(start, largest)
    for _ in range(MOST_STEPS):
        found = at(epsilon)
        value = found.value + (found.above if side > 0 else -found.below if side < 0 else 0.0)
        if value > delta:
            low = epsilon
        else:
            high = epsilon
        if np.isfinite(high) and high - low <= NEAR * high:
            break
        move = np.inf
        if found.scaled > 0:
            # by the slope of ln δ, or of δ where that says nothing
            steep = value > 0.1 * delta
            move = float(np.log(value / delta)) * value if steep else value - delta
            move /= found.scaled
        if abs(move) < NEAR * epsilon:
            # a little further, to see the other side
            move = 0.7 * NEAR * epsilon * (1.0 if value > delta else -1.0)
        epsilon += move
        if not low < epsilon < high:
            epsilon = 0.5 * (low + high) if np.isfinite(high) else 2.0 * low + 1e-3
    return low, high
