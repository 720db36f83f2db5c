"""What one step on a Poisson sample loses: its law, by atoms, on a lattice, and by its transform.

With ℓ = ln(1 + q(e^c - 1)), c the loss of the mechanism itself and q the sampling rate, a record
that is removed has the loss L = ℓ, one that is added L = -ℓ. Either way δ(ε) = E[(1 - e^(ε-L))₊],
which is convex in every e^-L, and E[e^-L] = 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal

import numpy as np
from scipy import special

from dpinfer._check import ComplexArray, FloatArray
from dpinfer.errors import ConvergenceError

Direction = Literal["remove", "add"]

LINE_EXPONENT = 42.0
"""What is left out of a line of the transform is e^-42 of E[e^(θ(L - ε))]."""

MOST_VALUES = 1 << 15
LEGENDRE = 20
COARSE = 1000


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

    def atoms(self, rare: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Losses c of the mechanism with mass, and their masses without and with the record.

        Those left out have a mass below ``rare``, each way.
        """
        return np.zeros(0), np.zeros(0), np.zeros(0)

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

    def reach(self, rare: float) -> tuple[float, float]:
        last = 0.5 * self.mu**2 + self.mu * float(np.sqrt(-2.0 * np.log(rare)))
        return -last, last

    def masses(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        without = edges / self.mu + 0.5 * self.mu
        return _normal_masses(without), _normal_masses(without - self.mu)

    def rule(
        self, direction: Direction, theta: float, most: float, rare: float, count: int
    ) -> Rule:
        """Trapezoid rule over the noise u, whose error is bounded along Im u = ±a.

        There |density| is e^(a²/2) times as large, the mixture 1 - q + q·e^c turns by an angle
        and shrinks; what is beyond the nodes has a mass of 1e-31. The density of L is highest far
        on the left: as many of the lowest losses count as an atom as lets the transform fade
        soonest.
        """
        mu, q = self.mu, self.rate
        power = theta + 1.0 if direction == "remove" else -theta
        # a negative power is largest, (1 - q)^power or e^(power·c), on the left
        left = (
            -power * mu
            if q == 1.0
            else min(-power * mu, np.sqrt(max(2.0 * power * np.log1p(-q), 0.0)))
        )
        low = -12.0 - max(float(left), 0.0)
        high = 12.0 + max(power, 0.0) * mu
        if high - low > 120.0 or mu * high > 600.0:
            raise UnsuitedError

        def nodes(step: float) -> tuple[FloatArray, FloatArray, FloatArray]:
            u = step * np.arange(np.floor(low / step), np.ceil(high / step) + 1.0)
            c = mu * u - 0.5 * mu * mu
            loss = self.sampled(c)
            log_mass = -0.5 * u * u + np.log(step / np.sqrt(2.0 * np.pi))
            return c, loss, log_mass

        c, loss, log_mass = nodes(min(0.125, 0.5 / mu))
        share = log_mass + power * loss
        share -= log_sum(share)
        best = 0.0
        # the wider the strip the better, but for what turns fast at large t
        for part in np.geomspace(0.002, 0.9, 12) if most > 0 else (0.5, 0.9):
            a = part * min(np.pi / mu, 9.0)
            turned = np.log1p(q * (np.exp(c + 1j * a * mu) - 1.0))
            grown = share + power * (turned.real - loss) + most * turned.imag
            beyond = most * a * mu + float(np.max(power * (turned.real - loss))) - 70.0
            total = np.logaddexp(log_sum(grown), beyond) + 0.5 * a * a
            best = max(best, 2.0 * np.pi * a / (LINE_EXPONENT + total))
        step = min(best, 0.25, 0.5 / mu)
        if (high - low) / step > MOST_VALUES:
            raise UnsuitedError
        c, loss, log_mass = nodes(step)
        share = log_mass + power * loss
        share -= log_sum(share)
        # density of the tilted L, smooth with at most two modes
        log_ratio = c + np.log(q) - loss
        density = np.exp(share - log_ratio) / (step * mu)
        bend = np.expm1(0.125 * step**2 * (1.0 + 0.25 * abs(power + 1.0) * mu**2))
        highest = np.maximum.accumulate(density[::-1])[::-1]
        change = np.append(np.cumsum(np.abs(np.diff(density))[::-1])[::-1], 0.0)
        fades = change + density + 6.0 * highest * bend
        atomic = np.cumsum(np.exp(share))
        room = np.maximum(np.exp(-LINE_EXPONENT / count) - atomic, 1e-300)
        first = int(np.argmin(np.log(np.maximum(fades, 1e-290)) - np.log(room)))
        # beyond the last node the integrand falls by e^-12 a unit or more
        error = 4.0 * float(np.exp(-LINE_EXPONENT)) + float(np.exp(share[-1])) / step
        if direction == "remove":
            return Rule(
                loss, np.exp(log_mass + loss), error, float(atomic[first]), float(fades[first])
            )
        return Rule(-loss, np.exp(log_mass), error, float(atomic[first]), float(fades[first]))


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

    def reach(self, rare: float) -> tuple[float, float]:
        return -self.shift, self.shift

    def masses(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        # the noise is x scales from the answer without, where 2x = shift + c
        x = 0.5 * (self.shift + np.clip(edges, -self.shift, self.shift))
        less = 0.5 * -np.expm1(x[:-1] - x[1:])
        return less * np.exp(-x[:-1]), less * np.exp(x[1:] - self.shift)

    def rule(
        self, direction: Direction, theta: float, most: float, rare: float, count: int
    ) -> Rule:
        """Gauss-Legendre rules on panels of the noise y = (shift + c)/2, and the two atoms.

        The error of n nodes is at most 64/15·max|f|·ρ^(2-2n)/(1 - ρ^-2) on the ellipse of ρ about a
        panel, along which c turns by less than a right angle.
        """
        shift, q = self.shift, self.rate
        power = theta + 1.0 if direction == "remove" else -theta
        ends, without, _ = self.atoms(0.0)
        node, weight = _legendre()

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
                size = power * self.sampled(c + 4.0 * (half + over))
            last = np.exp(shift + 2.0 * over)
            angle = np.arctan2(q * last * np.sin(turn), 1.0 - q + q * last * np.cos(turn))
            size += most * angle - low - (2.0 * LEGENDRE - 2.0) * np.log(rho)
            size += np.log(half * 64.0 / 30.0 / (1.0 - rho**-2.0))
            return min(log_sum(column) for column in size.T) if rho.size else np.inf

        panels = max(1, int(np.ceil(shift)))
        while bound(panels) > -LINE_EXPONENT:
            panels *= 2
            if panels * LEGENDRE > MOST_VALUES:
                raise UnsuitedError
        c, mass = rule_of(panels)
        loss = self.sampled(c)
        share = np.log(mass) + power * loss
        share -= log_sum(share)
        atomic = float(np.exp(share[0]) + np.exp(share[-1]))
        # density of the tilted L between the atoms: its logarithm is convex, or has one mode
        y = np.linspace(0.0, shift, 257)
        at = self.sampled(2.0 * y - shift)
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
        return log_sum(self.log_mass + theta * self.at)

    def tilted(self, theta: float) -> FloatArray:
        exponents = self.log_mass + theta * self.at
        share = np.exp(exponents - exponents.max())
        return np.asarray(share / share.sum())


def log_sum(exponents: FloatArray) -> float:
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
    full = np.flatnonzero(found)
    if not full.size:
        raise ConvergenceError(
            f"losses of steps with rate {q} near {span[1]:g} are not told apart by rounding: use a "
            "rate of 1, or a larger delta"
        )
    edges, found = edges[full[0] : full[-1] + 1], found[full[0] : full[-1] + 1]
    return Listed(edges, found, (float(edges[0]), float(edges[-1])))


# The transform of L by nodes.


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


@cache
def _legendre() -> tuple[FloatArray, FloatArray]:
    node, weight = special.roots_legendre(LEGENDRE)
    return np.asarray(node), np.asarray(weight)


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

    def log_phi(self, t: FloatArray) -> ComplexArray:
        """Return ln E[e^(itL)], of which 1 - E[e^(itL)] is accurate."""
        half = np.multiply.outer(0.5 * t, self.at)
        sine = np.sin(half)
        less = (sine * sine) @ self.share
        turned = (sine * np.cos(half)) @ self.share
        found = np.asarray(special.log1p(-2.0 * less + 2j * turned))
        # of one that is 0 no multiple is taken
        found.real = np.maximum(found.real, -700.0)
        return found
