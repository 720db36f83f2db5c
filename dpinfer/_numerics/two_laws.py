"""Two laws of one report: how much it tells them apart, used once or many times.

The loss of a report is L = ln(P/Q). A report is described by its masses under P and Q alone, and
only those of equal loss need be told apart. Laws of sums of losses are listed while they have few
values. Beyond, they are held between two pairs of laws on a lattice of losses: to merge reports is
to say less, and to split a report into two, of a smaller and a larger loss with the same masses in
all, is to say more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer._numerics.atoms import starts
from dpinfer._numerics.lattice import by_squaring, slices

MOST_LISTED = 1 << 13
"""Values up to which a sum of losses is listed as it is."""

CELLS = 1 << 12
"""Cells of the lattices beside it."""

RARE = 1e-30
"""Mass in a tail that is moved to its end."""

_BLOCK = 1 << 21
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class TwoLaws:
    """Masses of reports under P and under Q, the largest loss first.

    ``p_only`` and ``q_only`` are the masses of reports that the other law never gives.
    """

    p: FloatArray
    q: FloatArray
    p_only: float = 0.0
    q_only: float = 0.0

    @classmethod
    def of(cls, p: FloatArray, q: FloatArray, p_only: float = 0.0, q_only: float = 0.0) -> TwoLaws:
        """Return the laws of masses of which either may be 0, and what else only one law gives."""
        both = (p > 0) & (q > 0)
        p_only, q_only = p_only + float(p[q == 0].sum()), q_only + float(q[p == 0].sum())
        return _merged(p[both], q[both], p_only, q_only)

    @cached_property
    def loss(self) -> FloatArray:
        """Losses that both laws have, falling."""
        return np.asarray(np.log(self.p) - np.log(self.q))

    @cached_property
    def vertices(self) -> tuple[FloatArray, FloatArray]:
        """Levels and powers of the tests that reject above one of the losses."""
        level = np.concatenate([[0.0], np.cumsum(self.q)])
        power = np.concatenate([[self.p_only], self.p_only + np.cumsum(self.p)])
        # the last one rejects whatever P can give
        power[-1] = 1.0
        return np.minimum(level, 1.0), np.minimum(power, 1.0)

    @property
    def largest(self) -> float:
        if self.p_only > 0:
            return np.inf
        return float(self.loss[0]) if self.p.size else -np.inf

    def swapped(self) -> TwoLaws:
        return TwoLaws(self.q[::-1], self.p[::-1], self.q_only, self.p_only)

    def delta(self, epsilon: FloatArray) -> FloatArray:
        """Σ (P - e^ε·Q)₊ at a vector of ε of any sign."""
        found = np.full(epsilon.shape, self.p_only)
        for part in slices(epsilon.size, _BLOCK // max(self.p.size, 1)):
            beyond = np.minimum(epsilon[part, None] - self.loss, 0.0)
            found[part] -= np.expm1(beyond) @ self.p
        return np.asarray(np.minimum(found, 1.0))

    def epsilon(self, delta: float) -> float:
        """Return the smallest ε >= 0 with δ(ε) <= ``delta``, infinite where there is none."""
        if delta < self.p_only:
            return np.inf
        if not self.p.size or float(self.delta(np.zeros(1))[0]) <= delta:
            return 0.0
        # δ rises along the falling losses; it is at most delta at the loss `low`
        low, high = 0, int(np.count_nonzero(self.loss > 0))
        while high - low > 1:
            middle = (low + high) // 2
            over = self.delta(self.loss[middle : middle + 1])[0] > delta
            low, high = (low, middle) if over else (middle, high)
        above, below = float(self.p[:high].sum()), float(self.q[:high].sum())
        rest = (self.p_only - delta) + above
        return max(float(np.log(rest) - np.log(below)), 0.0) if rest > 0 else 0.0

    def power(self, alpha: FloatArray) -> FloatArray:
        return np.asarray(np.interp(alpha, *self.vertices))

    def level(self, power: FloatArray) -> FloatArray:
        """Return the smallest level of a test with a power."""
        level, reached = self.vertices
        return np.where(power <= self.p_only, 0.0, np.interp(power, reached, level))

    def crossing(self, epsilon: FloatArray, *, strict: bool) -> FloatArray:
        """Return the largest power that is e^ε times its level or more, at a vector of ε > 0.

        With ``strict`` the supremum of those that are more. Equal up to rounding is equal.
        """
        level, power = self.vertices
        with np.errstate(divide="ignore"):
            ratio = np.log(power[1:]) - np.log(level[1:])
        # the ratio falls: the last vertex that is above the line
        least = epsilon * (1.0 - _ROUNDING)
        last = np.searchsorted(-ratio, -least, side="right")
        inside = np.minimum(last, max(self.p.size - 1, 0))
        found = np.where(last > 0, 1.0, self.p_only)
        if self.p.size:
            # where the line meets the next piece, of slope e^loss
            gap = -np.expm1(np.minimum(self.loss[inside] - epsilon, -1e-300))
            start = power[inside] - np.exp(self.loss[inside]) * level[inside]
            met = np.where(last < self.p.size, np.maximum(start, 0.0) / gap, 1.0)
            found = np.where(last < self.p.size, np.maximum(met, power[inside]), 1.0)
        some = last > 0 if not strict else self.largest > epsilon * (1.0 + _ROUNDING)
        return np.minimum(np.where(some | (self.p_only > 0), found, 0.0), 1.0)

    def divergence(self, order: float) -> float:
        """Return the Rényi divergence of P from Q, of an order in [1, ∞]."""
        if self.p_only > 0:
            return np.inf
        if np.isinf(order):
            return self.largest
        # with the loss of what Q alone gives the masses of both add up to 1
        if order == 1.0:
            gain = np.exp(-self.loss) - 1.0 + self.loss
            return max(float(self.p @ gain) + self.q_only, 0.0)
        exponent = (order - 1.0) * self.loss
        if exponent.max() < 1.0:
            return max(float(np.log1p(self.p @ np.expm1(exponent))) / (order - 1.0), 0.0)
        top = float(exponent.max())
        return float(top + np.log(self.p @ np.exp(exponent - top))) / (order - 1.0)


def _merged(p: FloatArray, q: FloatArray, p_only: float, q_only: float) -> TwoLaws:
    """Sort by the loss, and take reports of equal loss for one."""
    log_p, log_q = np.log(p), np.log(q)
    order = np.argsort(log_q - log_p, kind="stable")
    # masses are products, and their logarithms sums, of as many terms as there are reports
    first = starts((log_q - log_p)[order], (1.0 - log_p - log_q)[order])
    p, q = p[order], q[order]
    if first.size < p.size:
        p, q = np.add.reduceat(p, first), np.add.reduceat(q, first)
    return TwoLaws(p, q, p_only, q_only)


def concave(level: FloatArray, power: FloatArray) -> TwoLaws:
    """Two laws whose tests have the powers of a concave broken line that begins at level 0."""
    return TwoLaws.of(
        np.concatenate([power[:1], np.diff(power), [0.0]]),
        np.concatenate([[0.0], np.diff(level), [max(1.0 - level[-1], 0.0)]]),
    )


def concave_hull(level: FloatArray, power: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the corners of the least concave line above points in the order of their levels."""
    kept: list[tuple[float, float]] = []
    for x, y in zip(level.tolist(), power.tolist(), strict=True):
        while len(kept) > 1:
            (x0, y0), (x1, y1) = kept[-2:]
            if (y1 - y0) * (x - x1) > (y - y1) * (x1 - x0):
                break
            kept.pop()
        kept.append((x, y))
    found = np.array(kept)
    return found[:, 0], found[:, 1]


# Sums of losses.


@dataclass(frozen=True, eq=False)
class Between:
    """Two pairs of laws: no test tells less apart than the lower, and none more than the upper."""

    lower: TwoLaws
    upper: TwoLaws

    @property
    def exact(self) -> bool:
        return self.lower is self.upper

    def swapped(self) -> Between:
        upper = self.upper.swapped()
        return Between(upper if self.exact else self.lower.swapped(), upper)


def composed(parts: Iterable[tuple[Between, int]]) -> Between:
    """Laws of independent reports together, each part so many times."""
    laws = list(parts)
    if len(laws) == 1 and laws[0][1] == 1:
        return laws[0][0]
    if all(law.exact for law, _ in laws):
        try:
            exact = _together((_Listed(law.upper), k) for law, k in laws).laws
            return Between(exact, exact)
        except _ManyError:
            pass
    upper = _together((_Lattice.split(law.upper), k) for law, k in laws)
    lower = _together((_Lattice.merge(law.lower), k) for law, k in laws)
    return Between(lower.laws(), upper.laws())


class _Joined(Protocol):
    def join(self, other: Self) -> Self: ...


_Sum = TypeVar("_Sum", bound=_Joined)


def _together(parts: Iterable[tuple[_Sum, int]]) -> _Sum:
    def join(one: _Sum, other: _Sum) -> _Sum:
        return one.join(other)

    return reduce(join, (by_squaring(law, k, join) for law, k in parts))


class _ManyError(Exception):
    """There are too many values to list."""


@dataclass(frozen=True)
class _Listed:
    laws: TwoLaws

    def join(self, other: _Listed) -> _Listed:
        a, b = self.laws, other.laws
        if a.p.size * b.p.size > MOST_LISTED * 64:
            raise _ManyError
        p, q = np.multiply.outer(a.p, b.p).ravel(), np.multiply.outer(a.q, b.q).ravel()
        # what underflows counts for the other law
        found = TwoLaws.of(p, q, _either(a.p_only, b.p_only), _either(a.q_only, b.q_only))
        if found.p.size > MOST_LISTED:
            raise _ManyError
        return _Listed(found)


def _either(one: float, other: float) -> float:
    return one + other * (1.0 - one)


@dataclass(frozen=True)
class _Lattice:
    """Masses at, or in cells that begin at, the losses (first + i)·step, rising.

    What is ``between`` lattice points was split to them, and goes on to be; otherwise it is merged
    in cells, which are numbered by their sums from then on.
    """

    p: FloatArray
    q: FloatArray
    first: int
    step: float
    between: bool
    p_only: float
    q_only: float

    @classmethod
    def split(cls, law: TwoLaws) -> _Lattice:
        p, q, loss = law.p[::-1], law.q[::-1], law.loss[::-1]
        step, first, cell = _cells(loss)
        # how far below and above a loss the ends of its cell are
        low, high = (first + cell) * step - loss, (first + cell + 1) * step - loss
        share = np.clip(np.expm1(low) / np.expm1(-step), 0.0, 1.0)
        size = int(cell[-1]) + 2 if cell.size else 1
        found, mass = np.zeros(size), np.zeros(size)
        for at, part, away in ((cell, 1.0 - share, low), (cell + 1, share, high)):
            found += np.bincount(at, p * part, size)
            mass += np.bincount(at, q * part * np.exp(-away), size)
        return cls(found, mass, first, step, True, law.p_only, law.q_only)._trimmed()

    @classmethod
    def merge(cls, law: TwoLaws) -> _Lattice:
        step, first, cell = _cells(law.loss[::-1])
        size = int(cell[-1]) + 1 if cell.size else 1
        p, q = (np.bincount(cell, mass[::-1], size) for mass in (law.p, law.q))
        return cls(
            np.asarray(p), np.asarray(q), first, step, False, law.p_only, law.q_only
        )._trimmed()

    def join(self, other: _Lattice) -> _Lattice:
        one, two = self, other
        while one.step < two.step:
            one = one._coarser()
        while two.step < one.step:
            two = two._coarser()
        found = _Lattice(
            np.convolve(one.p, two.p),
            np.convolve(one.q, two.q),
            one.first + two.first,
            one.step,
            one.between,
            _either(one.p_only, two.p_only),
            _either(one.q_only, two.q_only),
        )._trimmed()
        while found.p.size > CELLS:
            found = found._coarser()
        return found

    def _coarser(self) -> _Lattice:
        even = self.first % 2
        size = self.p.size + even + (self.p.size + even) % 2
        p, q = np.zeros(size), np.zeros(size)
        p[even : even + self.p.size], q[even : even + self.p.size] = self.p, self.q
        low_p, low_q, odd_p, odd_q = p[::2], q[::2], p[1::2], q[1::2]
        if not self.between:
            coarse_p, coarse_q = low_p + odd_p, low_q + odd_q
        else:
            # of a point in the middle of a cell of twice the width
            up = float(np.expm1(-self.step) / np.expm1(-2.0 * self.step))
            down_q, up_q = (1.0 - up) * float(np.exp(self.step)), up * float(np.exp(-self.step))
            coarse_p, coarse_q = np.append(low_p, 0.0), np.append(low_q, 0.0)
            coarse_p[:-1] += (1.0 - up) * odd_p
            coarse_p[1:] += up * odd_p
            coarse_q[:-1] += down_q * odd_q
            coarse_q[1:] += up_q * odd_q
        first, step = (self.first - even) // 2, 2.0 * self.step
        return _Lattice(coarse_p, coarse_q, first, step, self.between, self.p_only, self.q_only)

    def _trimmed(self) -> _Lattice:
        """Move the tails that are next to never to their ends, and, if ``between``, beyond."""
        # rare under both laws, as the order of the two may be exchanged
        likely = np.maximum(self.p, self.q)
        low = int(np.argmax(np.cumsum(likely) > RARE))
        last = self.p.size - 1 - int(np.argmax(np.cumsum(likely[::-1]) > RARE))
        if last <= low or (low == 0 and last == self.p.size - 1):
            return self
        p, q = self.p[low : last + 1].copy(), self.q[low : last + 1].copy()
        p_low, q_low = float(self.p[:low].sum()), float(self.q[:low].sum())
        p_high, q_high = float(self.p[last + 1 :].sum()), float(self.q[last + 1 :].sum())
        p_only, q_only = self.p_only, self.q_only
        if self.between:
            # as much at the end as keeps its loss, and the rest to what only one law gives
            at_low, at_high = ((self.first + i) * self.step for i in (low, last))
            kept_q = min(p_low * float(np.exp(min(-at_low, 700.0))), q_low)
            kept_p = min(q_high * float(np.exp(min(at_high, 700.0))), p_high)
            q_only, p_only = q_only + (q_low - kept_q), p_only + (p_high - kept_p)
            q_low, p_high = kept_q, kept_p
        p[0] += p_low
        q[0] += q_low
        p[-1] += p_high
        q[-1] += q_high
        return _Lattice(p, q, self.first + low, self.step, self.between, p_only, q_only)

    def laws(self) -> TwoLaws:
        return TwoLaws.of(self.p, self.q, self.p_only, self.q_only)


def _cells(loss: FloatArray) -> tuple[float, int, NDArray[np.intp]]:
    """Width, first number and numbers from it of the cells of rising losses."""
    if not loss.size:
        return 1.0, 0, np.zeros(0, dtype=np.intp)
    span = max(float(loss[-1] - loss[0]), 1e-9 * float(np.abs(loss).max()), 1e-250)
    step = 2.0 ** np.ceil(np.log2(2.0 * span / CELLS))
    number = np.floor(loss / step)
    first = int(number[0])
    return float(step), first, (number - first).astype(np.intp)
