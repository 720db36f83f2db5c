"""Sums of losses on Poisson samples: on a lattice, by an integral, and from those δ and ε.

The transform of such a loss is itself an integral, by nodes that depend on the tilt and on the
height: one tilt is made for each question, where other losses keep a ladder of them.
The lattice does not replace the line: for 1,000 to 5,000 steps of discrete Gaussian noise its
bracket of ε is 2e-5 to 8e-2 wide, where that of the line is 2e-7 to 6e-5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import comb

import numpy as np

from dpinfer._check import ComplexArray, FloatArray
from dpinfer._numerics.atoms import SAME, added, starts
from dpinfer._numerics.lattice import masses, tilted_range
from dpinfer._numerics.parts import binomial_window
from dpinfer.privacy._subsampled_steps import (
    LINE_EXPONENT,
    AtomicStep,
    Direction,
    GaussianStep,
    Listed,
    Rule,
    Step,
    Tilted,
    UnsuitedError,
    coarse,
    spread,
)
from dpinfer.privacy.loss import PrivacyLoss

Parts = tuple[tuple[Step, int], ...]

ROUNDING = 2.3e-16
MOST_STEPS = 100
NEAR = 4e-15
LEAST_LOG_DELTA = -80.0
FEW, FEW_ATOMS = 8, 32
"""Below so many steps, of which some may have atoms, the transform fades too slowly for a line."""

RARE = 1e-11
"""Share of δ that may be left out with losses too large to be listed."""

LEAST_RARE = 1e-40


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
            from scipy import optimize  # loads its sparse matrices

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
        moves = np.multiply.outer([-1.0, 1.0], self.moves(theta)).ravel()
        growth = np.array([self.log_mgf(theta + move) for move in moves]) - total
        low, high = tilted_range(moves, growth, exponent)
        return min(max(low, self.low), mean), max(min(high, self.high), mean)

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

WINDOWS = 1 << 12, 1 << 19
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
        while True:
            kept = [
                _kept(law, beyond, theta, np.exp(-BEYOND) / self.count) for law, beyond in plans
            ]
            low, high = plan.span(theta, BEYOND)
            low = max(low, sum(k * one[0] for one, (_, k) in zip(kept, parts, strict=True)))
            high = min(high, sum(k * one[1] for one, (_, k) in zip(kept, parts, strict=True)))
            # the bound of the excess in ε is about (θ + 1)·k·h²·(0.7·√k + 1)
            per_square = (theta + 1.0) * self.count * (0.7 * np.sqrt(self.count) + 1.0)
            wanted = np.clip((high - low) * np.sqrt(per_square / GOAL), *WINDOWS)
            window = 1 << int(np.ceil(np.log2(wanted)))
            # each step may reach into one more cell at either end
            ends = min(self.count, window // 8)
            widest = max(high - low, *(one[1] - one[0] for one in kept))
            widest = max(widest, 1e-12 * (plan.high - plan.low))
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
        self._moved = ROUNDING * (abs(low) + abs(high) + spent / theta)
        for (one, k), (listed, _) in zip(parts, fine.parts, strict=True):
            self._moved += ROUNDING * k * (16.0 * one.rate + abs(float(listed.at[0])))
        self._mass = np.maximum(masses(phi, window, first), 0.0)
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
        above = error + self._cut + largest * self._tilted_cut
        return Bracket(value, error + self._excess(epsilon), above, scaled)

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
        size = self._mass.size
        kept = np.arange(min(max(begin, 0), size), min(max(end, 0), size))
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
    share = np.exp(np.minimum(law.log_mass + theta * beyond - law.log_mgf(theta), 600.0))[order]
    first = int(np.argmax(np.cumsum(share) > least))
    last = share.size - 1 - int(np.argmax(np.cumsum(share[::-1]) > least))
    cut = float(share[:first].sum() + share[last + 1 :].sum())
    ends = beyond[order]
    low = float(ends[first - 1]) if first else law.ends[0]
    # losses that round to one value are kept together
    return low - 1e-9 * (law.ends[1] - law.ends[0]), float(ends[last]), cut


# A list of all values, for few of them.


MOST_LISTED = 1 << 15
MOST_SUMS = 1 << 20
WINDOW = 140.0


class Listing:
    """The sum of steps of whole-numbered noise, value by value, and its δ at every ε."""

    def __init__(
        self, parts: Parts, direction: Direction, rare: float, epsilon: float | None, delta: float
    ) -> None:
        self._at, self._mass = np.zeros(1), np.ones(1)
        count = sum(k for _, k in parts)
        self._cut, self._moved = 2.0 * rare * count, 0.0
        for law, k in parts:
            rule = law.rule(direction, 0.0, 0.0, rare, count)
            if rule.at.size == 2:
                low, mass = binomial_window(k, float(rule.mass[0]), float(rule.mass.sum()), WINDOW)
                self._add(k * rule.at[1] + low * (rule.at[0] - rule.at[1]), mass, rare)
            elif comb(rule.at.size + k - 1, k) > MOST_SUMS:
                raise UnsuitedError
            else:
                for _ in range(k):
                    self._add(rule.at, rule.mass, rare)
            self._moved += ROUNDING * k * (16.0 * law.rate + 4.0 * float(np.abs(rule.at).max()))
        self._relative = ROUNDING * (16.0 * count + 40.0)
        self.start = float(self._at[-1]) if epsilon is None else epsilon
        if epsilon is None:
            # where what is above has a mass of δ
            above = np.cumsum(self._mass[::-1])[::-1]
            self.start = max(float(self._at[np.searchsorted(-above, -delta) - 1]), 0.0)

    def _add(self, at: FloatArray, mass: FloatArray, rare: float) -> None:
        if at.size * self._at.size > MOST_SUMS:
            raise UnsuitedError
        values, masses = added((self._at, self._mass), (at, mass))
        order, largest = np.argsort(values), float(np.abs(values).max())
        first = starts(values[order], largest)
        values, masses = values[order[first]], np.add.reduceat(masses[order], first)
        # rare ones are left out, and counted
        kept = masses > rare / values.size
        self._cut += float(masses[~kept].sum())
        self._moved += SAME * largest * float(np.diff(first, append=order.size).max())
        self._at, self._mass = values[kept], masses[kept]
        if self._at.size > max(MOST_LISTED, at.size):
            raise UnsuitedError

    def at(self, epsilon: float) -> Bracket:
        first = int(np.searchsorted(self._at, epsilon, "right"))
        mass, near = self._mass[first:], np.exp(epsilon - self._at[first:])
        value = float(mass @ -np.expm1(epsilon - self._at[first:]))
        scaled = float(mass @ near)
        error = self._relative * value + (self._moved + ROUNDING * epsilon) * scaled
        return Bracket(value, error, error + self._cut, scaled)


# A line of the transform, where it fades: for many steps.


MOST_TERMS = 4_000_000
BLOCK = 64
PAIRS = 12
MOST_PHASES = 400_000
MOST_REVIVED = 300_000
TOO_WIDE = 1e-5
"""Where the bracket in ε is wider the lattice is asked as well."""


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
            found: list[ComplexArray] = []
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
        # of whole-numbered noise rare values are not listed
        listed = any(isinstance(law, AtomicStep) for law, _ in parts)
        self._cut = 2.0 * rare * self.count if listed else 0.0
        if not np.isfinite(self._noise + self._relative + self._moved + self._left + self.log_m):
            raise UnsuitedError

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
        return Bracket(value, error, error + self._cut, scaled)

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
    """Distance t from which on the variation of the densities says that the transform is small.

    There is none where the atoms keep it from fading.
    """

    def log_bound(t: float) -> float:
        return sum(
            k * float(np.log(min(rule.atomic + rule.fade / t, 1.0)))
            for rule, k in zip(rules, counts, strict=True)
        )

    low = high = max(max(rule.fade for rule in rules), 1e-300)
    if not np.isfinite(1e12 * low):
        raise UnsuitedError
    if log_bound(1e12 * low) > -LINE_EXPONENT:
        return None
    while log_bound(high) > -LINE_EXPONENT:
        low, high = high, 2.0 * high
    if high == low:
        return low
    from scipy import optimize

    return 1.01 * float(
        optimize.brentq(lambda t: log_bound(t) + LINE_EXPONENT, low, high, rtol=1e-3)
    )


def _revived(
    rules: list[Rule], parts: Parts, theta: float, step: float
) -> tuple[float, float, FloatArray]:
    """Where the transform of atoms has faded, a bound of its revivals beyond, and more nodes.

    The nodes, by their numbers, are those of the largest revivals, which the bound leaves out.

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
    if all(rule.fade == 0 for rule in rules) and nodes < MOST_REVIVED * step:
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


def _still_faded(rules: list[tuple[Tilted, int]], first: float, last: float) -> float:
    """Logarithm of a bound of the transform from ``first`` to ``last`` and on."""
    ends = np.geomspace(first, last, 64)
    points = sum(rule.at.size for rule, _ in rules)
    while ends.size * points < MOST_TERMS:
        bound = np.zeros(ends.size - 1)
        for rule, k in rules:
            phi = np.abs(np.exp(1j * np.multiply.outer(ends, rule.at)) @ rule.share)
            # |φ| changes by no more than E|L| a unit
            top = 0.5 * (phi[1:] + phi[:-1] + rule.size * np.diff(ends))
            bound += k * np.log(np.minimum(top, 1.0))
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
        self._made: list[tuple[Line | Lattice | Listing, float]] = []

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
        if sum(k * law.rate for law, k in self.parts) <= delta:
            return 0.0, 0.0
        for made in self._routes(None, delta):
            if made.at(0.0).upper <= delta:
                return 0.0, 0.0
            ends = [made.start]
            for side in (0.0, 1.0, -1.0):
                low, high = crossing(made.at, side, delta, ends[-1], self.largest)
                ends.append(low if side < 0 else high)
            lower, upper = max(lower, ends[3]), min(upper, ends[2])
        return lower, upper

    def _routes(self, epsilon: float | None, delta: float) -> Iterator[Line | Lattice | Listing]:
        """Make a line where there is one, and a lattice where this says less than it might."""
        rare = max(RARE * delta, LEAST_RARE) / self.count
        if all(isinstance(law, AtomicStep) for law, _ in self.parts):
            try:
                yield Listing(self.parts, self.direction, rare, epsilon, delta)
            except UnsuitedError:
                pass
            else:
                return
        close = False
        smooth = all(isinstance(law, GaussianStep) for law, _ in self.parts)
        few = self.count < (FEW if smooth else FEW_ATOMS)
        if not few:
            # where few large losses are as likely as many small ones a smaller tilt is better
            for share in (1.0, 0.6, 0.25):
                try:
                    # where numbers overflow, the line is found to be unsuited
                    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                        line = Line(self.parts, self.direction, rare, epsilon, delta, share)
                except UnsuitedError:
                    continue
                yield line
                close = line.width() < TOO_WIDE
                if close or line.revived:
                    break
        if not close:
            yield Lattice(self.parts, self.direction, rare, epsilon, delta)


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
        start = 0.9 * largest if np.isfinite(largest) else 1.0
        upper = crossing(self._at, 1.0, delta, start, largest)[1]
        return crossing(self._at, -1.0, delta, upper, largest)[0], upper

    def _at(self, epsilon: float) -> Bracket:
        q = self.law.rate
        share = q
        if epsilon < 1.0:
            at = float(np.log1p(np.expm1(epsilon) / q))
        else:
            at = epsilon - float(np.log(q)) + float(np.log1p((q - 1.0) * np.exp(-epsilon)))
        if self.direction == "add":
            left = float(np.expm1(-epsilon)) / q
            if left <= -1.0:
                return Bracket(0.0, 0.0, 0.0, 0.0)
            share = q - (1.0 - q) * float(np.expm1(epsilon))  # > 0, so that ε is not large
            at = -float(np.log1p(left))
        lower, upper = (float(bound) for bound in self.base.delta_bounds(at))
        share = max(share, 0.0)
        # chances of the mechanism's own loss above c under both of its laws give -dδ/dε
        above = 1.0 - float(self.base.cdf(at))
        below = float(np.exp(-at)) * max(above - upper, 0.0)
        scaled = below if self.direction == "remove" else (1.0 - q) * above + q * below
        scaled *= float(np.exp(min(epsilon, 700.0)))
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
