"""Tails of binomial counts with noise whose own tails are geometric, in closed form by tilting.

With the edge of a noise (see ``Edge``), a = exp(-rate) and X binomial,

    P(T >= t) = near·A + C - far·B,       C = P(X > k),
    A = Σ_{j<=k} P(X = j)·a^(k-j),        B = Σ_{j>k} P(X = j)·a^(j-k-1).

A and B belong to binomial laws too, whose odds are moved by 1/a and a: they are P(X = k) and
P(X = k+1) times the ratio of a tail to its first term. The derivatives in the logit λ of the
probability of success follow, for dP(X = j)/dλ = (j - np)·P(X = j): each of the sums, S, has
S' = gain·S + flow, with the gain n·(p' - p) for its moved probability p', and a flow across k.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer._numerics.counts import stirling_error
from dpinfer.mechanisms._row_tails import Edge, Fall, Rows, Rule, gauss_rule

# Tails of binomial laws relative to their first term, to full precision and cheaply.


FINE = gauss_rule(22, 30.0)
"""Exact to 6e-13, and mostly to 1e-14."""

COARSE = gauss_rule(8, 12.0)
"""Exact to 3e-5."""


def tail_ratio(j: FloatArray, rest: FloatArray, odds: FloatArray, rule: Rule) -> FloatArray:
    """P(X >= j)/P(X = j) for a binomial law of j + ``rest`` trials, j >= 1 not below its mean."""
    nothing = np.zeros(j.shape)
    slope = (j - 1.0) - rest * odds
    return Fall(j, j - 1.0, rest, odds, nothing, slope, nothing == 0.0).value(rule)


_LARGEST_EXPONENT = 700.0


class Expansion(NamedTuple):
    """Tails, their first three derivatives in the logit, and the largest difference of gains.

    An error ε of the rule becomes one of ε·gain^i in the i-th derivative.
    """

    tail: FloatArray
    first: FloatArray
    second: FloatArray
    third: FloatArray
    gain: FloatArray | float


@dataclass(frozen=True, kw_only=True, eq=False)
class TiltedTails:
    """Tails P(T >= t) of T = X + e in m rows, X binomial; 0 <= k < nobs and rates <= 400."""

    nobs: FloatArray
    edge: Edge

    def take(self, rows: Rows) -> TiltedTails:
        return TiltedTails(nobs=self.nobs[rows], edge=self.edge.take(rows))

    @cached_property
    def _rest(self) -> FloatArray:
        """Number of trials less k."""
        return self.nobs - self.edge.k

    @cached_property
    def _log_peak(self) -> FloatArray:
        """Log P(X = k) where np is k."""
        k, rest = np.maximum(self.edge.k, 1.0), self._rest
        peak = stirling_error(self.nobs) - stirling_error(k) - stirling_error(rest)
        peak += 0.5 * np.log(self.nobs / (2.0 * np.pi * k * rest))
        return np.where(self.edge.k == 0.0, 0.0, peak)

    @cached_property
    def _growth(self) -> tuple[FloatArray, FloatArray]:
        """1/a - 1 and a - 1."""
        return np.expm1(self.edge.rate), np.expm1(-self.edge.rate)

    def at(self, logit: FloatArray, rule: Rule) -> Expansion:
        """Tails and derivatives; the sums A and B are as exact as the rule."""
        k, rest = self.edge.k, self._rest
        law = _Law.of(self.nobs, np.exp(logit))
        upward, downward = (law.moved(growth) for growth in self._growth)
        excess = np.where(law.odds > 1.0, self.nobs * law.q - rest, k - self.nobs * law.p)
        here = np.exp(self._log_peak + self._log_decline(law, excess))
        following = here * law.odds * rest / (k + 1.0)
        below = self._below(law, upward, here, following, rule)
        above, damped = (
            following * tail_ratio(k + 1.0, rest - 1.0, moved.odds, rule)
            for moved in (law, downward)
        )
        inflow = (k + 1.0) * following
        a = law.derivatives(upward, below, -rest * upward.p * here, excess)
        b = law.derivatives(downward, damped, inflow * downward.q, excess)
        c = law.derivatives(law, above, inflow * law.q, excess)
        near, far = self.edge.near, self.edge.far
        tail, first, second, third = (
            near * x + z - far * y for x, y, z in zip(a, b, c, strict=True)
        )
        return Expansion(tail, first, second, third, upward.gain - downward.gain)

    def _log_decline(self, law: _Law, excess: FloatArray) -> FloatArray:
        """Log P(X = k) less that where np is k."""
        k, rest = np.maximum(self.edge.k, 1.0), self._rest
        successes = _log_quotient(self.nobs * law.p / k, -excess / k)
        failures = _log_quotient(self.nobs * law.q / rest, excess / rest)
        return np.asarray(self.edge.k * successes + rest * failures)

    def _below(
        self, law: _Law, upward: _Law, here: FloatArray, following: FloatArray, rule: Rule
    ) -> FloatArray:
        """Sum A: as it is, or where it is the larger part of the sum over all j, by the other."""
        k, rest, odds = self.edge.k, self._rest, upward.odds
        most = k + 1.0 > rest * odds
        ratio = tail_ratio(
            np.where(most, k + 1.0, rest),
            np.where(most, rest - 1.0, k),
            np.where(most, odds, 1.0 / odds),
            rule,
        )
        # a^k·(q + p/a)^n, from the rarer outcome
        rise, fall = self._growth
        mostly = law.odds > 1.0
        log_all = self.nobs * np.log1p(np.where(mostly, law.q * fall, law.p * rise))
        log_all += np.where(mostly, rest, -k) * self.edge.rate
        everything = np.exp(np.minimum(log_all, _LARGEST_EXPONENT))
        beyond = following * (1.0 + rise) * ratio
        return np.where(most, everything - beyond, here * ratio)


class _Law(NamedTuple):
    """Binomial laws; the gain is their mean less that of the laws they were moved from."""

    n: FloatArray
    odds: FloatArray
    p: FloatArray
    q: FloatArray
    variance: FloatArray
    gain: FloatArray | float

    @classmethod
    def of(cls, n: FloatArray, odds: FloatArray, gain: FloatArray | float = 0.0) -> _Law:
        q = 1.0 / (1.0 + odds)
        p = odds * q
        return cls(n, odds, p, q, n * p * q, gain)

    def moved(self, growth: FloatArray) -> _Law:
        """Return the laws with odds that are 1 + ``growth`` times as large."""
        odds = self.odds * (1.0 + growth)
        return _Law.of(self.n, odds, self.n * self.p / (1.0 + odds) * growth)

    def derivatives(
        self, moved: _Law, total: FloatArray, flow: FloatArray, excess: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return the sum that belongs to a moved law, and its derivatives."""
        rise = moved.variance - self.variance
        bend = moved.variance * (moved.q - moved.p) - self.variance * (self.q - self.p)
        # flow' = flow·(q' + k - np)
        swell = moved.q + excess
        first = moved.gain * total + flow
        second = rise * total + moved.gain * first + flow * swell
        third = bend * total + 2.0 * rise * first + moved.gain * second
        third += flow * (np.square(swell) - moved.p * moved.q - self.variance)
        return total, first, second, third


def _log_quotient(quotient: FloatArray, less_one: FloatArray) -> FloatArray:
    """Log of a quotient that is given with one subtracted too."""
    log = np.log1p(less_one)
    far = np.flatnonzero(np.abs(less_one) >= 0.5)
    log[far] = np.log(quotient[far])
    return log


# Where tails that are known in closed form have a given probability.


LARGEST_NOBS = 1e8
"""Up to here rounding costs no more than 1e-11 of a tail."""

_LARGEST_RATE = 400.0
"""A fall by e^-400 is as good as one to nothing; the odds remain finite."""

_FARTHEST = 250.0
"""Logits beyond it are not looked at."""

_BLOCK = 8192
"""Rows at a time, so that they stay in the cache."""

_SPARSER = 65_535.0
"""The largest number that is sorted by."""

_STEPS = 12

_LONGEST_STEP = 3.0

_FIRST_ORDER = 0.5
"""Where corrections of Newton's step are larger than that, they are not made."""

_TOLERANCE = 1e-13
"""Error of the logarithm of a tail."""

_NEAR = 0.05


def tilted_roots(nobs: FloatArray, edge: Edge, probability: float, start: FloatArray) -> FloatArray:
    """Logits of p at which P(T >= t) has a given value.

    The probability is at most 1/2. NaN where roots are not found to within 1e-11 of the tail,
    which is rare.
    """
    root = np.full(nobs.size, np.nan)
    with np.errstate(all="ignore"):
        beyond = np.flatnonzero(edge.k >= nobs)
        root[beyond] = _beyond_all(nobs[beyond], edge.take(beyond), probability)
        inside = np.flatnonzero((edge.k >= 0.0) & (edge.k < nobs) & (nobs <= LARGEST_NOBS))
        edge = edge._replace(rate=np.minimum(edge.rate, _LARGEST_RATE))
        # rows whose sums take about as many terms
        rarer = np.minimum(edge.k[inside], nobs[inside] - edge.k[inside])
        inside = inside[np.argsort(np.minimum(rarer, _SPARSER).astype(np.uint16), kind="stable")]
        for first in range(0, inside.size, _BLOCK):
            rows = inside[first : first + _BLOCK]
            tails = TiltedTails(nobs=nobs[rows], edge=edge.take(rows))
            root[rows] = _found(tails, probability, start[rows])
    return root


def _beyond_all(nobs: FloatArray, edge: Edge, probability: float) -> FloatArray:
    """Root of near·a^k·(q + p/a)^n, the tail where t is beyond all counts."""
    # q + p/a = exp(up), and a·exp(up) = exp(-down)
    log_ratio = np.log(probability / edge.near)
    up = (log_ratio + edge.k * edge.rate) / nobs
    down = ((nobs - edge.k) * edge.rate - log_ratio) / nobs
    return np.asarray(np.log(-np.expm1(-up)) - down - np.log(-np.expm1(-down)))


def _found(tails: TiltedTails, probability: float, logit: FloatArray) -> FloatArray:
    """Third-order steps for the logarithm of the tails, the first from a coarse evaluation."""
    root = np.full(logit.size, np.nan)
    rows = np.arange(logit.size)
    logit = logit + _step(tails.at(logit, COARSE), probability)[0]
    for _ in range(_STEPS):
        step, last = _step(tails.at(logit, FINE), probability)
        logit = logit + step
        root[rows[last]] = logit[last]
        open_ = np.flatnonzero(~last & (np.abs(logit) < _FARTHEST))
        if not open_.size:
            break
        tails, rows, logit = tails.take(open_), rows[open_], logit[open_]
    return root


def _step(at: Expansion, probability: float) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return the steps towards the roots, and whether they reach them.

    For the logarithm f of the tail over its wanted value, and x = f/f', the root is
    -x·(1 + s + 2s² - r + …) away, with s = x·f''/(2f') and r = x²·f'''/(6f').
    """
    f = np.log(at.tail / probability)
    slope, bend, turn = (derivative / at.tail for derivative in at[1:4])
    x = f / slope
    s = 0.5 * x * (bend / slope - slope)
    r = np.square(x) * ((turn - 3.0 * slope * bend) / slope + 2.0 * np.square(slope)) / 6.0
    order = np.maximum(np.abs(s), np.sqrt(np.abs(r)))
    step = -x * np.where(order < _FIRST_ORDER, 1.0 + s + 2.0 * np.square(s) - r, 1.0)
    # the next term of the series is about the cube of this, relative to the step
    order = np.maximum(order, np.maximum(np.abs(f), np.abs(x)))
    last = (order < _NEAR) & (np.abs(f) * order**3 < _TOLERANCE)
    # beyond, errors of the rule count
    last &= np.abs(x) * at.gain < 1.0
    return np.clip(step, -_LONGEST_STEP, _LONGEST_STEP), last
