"""Tails of binomial counts with noise whose own tails are geometric, in closed form by tilting.

With the edge of a noise (see :class:`Edge`), a = exp(-rate) and X binomial,

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

from dpinfer._numerics.binomial import stirling_error
from dpinfer._validation import FloatArray
from dpinfer.intervals.proportions._beta_tails import Rule, tail_ratio
from dpinfer.intervals.proportions._edges import Edge
from dpinfer.intervals.proportions._families import Rows

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
    """Tails P(T >= t) of T = X + e in m rows, X binomial.

    Parameters
    ----------
    nobs : array of float, shape (m,)
        Number of trials.
    edge : Edge
        The edges of the noise, with 0 <= k < nobs and rates <= 400.
    """

    nobs: FloatArray
    edge: Edge

    def take(self, rows: Rows) -> TiltedTails:
        """Return the tails of some rows."""
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
        log_all = np.where(
            law.odds > 1.0,
            self.nobs * np.log1p(law.q * fall) + rest * self.edge.rate,
            self.nobs * np.log1p(law.p * rise) - k * self.edge.rate,
        )
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
    return np.where(np.abs(less_one) < 0.5, np.log1p(less_one), np.log(quotient))
