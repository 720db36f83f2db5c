"""The exact law of the difference of two noisy proportions with a common population value.

D = (X₁ + e₁)/n₁ - (X₂ + e₂)/n₂ with Xᵢ ~ Binomial(nᵢ, p). Whole-numbered noise is added to the
count it belongs to, unless it is much wider: that leaves two laws on the whole numbers and, where
some noise has a density or is wide, one law of the noise that is left. That law does not depend on
p. Counts as probable as the mode by less than e^-40 are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd

import numpy as np
from numpy.typing import NDArray

from dpinfer._numerics.binomial import LOG_NEGLIGIBLE, binom_pmf, binom_radius
from dpinfer._validation import Alternative, FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms._exponential_filter import decaying_sums
from dpinfer.mechanisms._fast_sum import fast_sum
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.mechanisms.exact import Exact
from dpinfer.mechanisms.geometric import Geometric
from dpinfer.mechanisms.weighted_sum import WeightedSum

ERROR = 1e-11
"""Bound on the absolute error of the tails."""

_NEGLIGIBLE = 1e-18
_MOST_CELLS = 1 << 22
_MOST_PAIRS = 1 << 28
"""Largest table of one law, and number of pairs of counts, that are gone through."""

_BLOCK = 1 << 21

_WIDE = 4.0
"""Whole-numbered noise that reaches so many times as far as the count is not added to it."""

_ROUNDING = 1e-13
"""Relative error of a computed difference of proportions."""

Pmf = tuple[FloatArray, FloatArray]
"""Whole numbers in a row, shape (k,), and their probabilities, shape (g, k)."""


@dataclass(frozen=True, eq=False)
class NoisyDifference:
    """Law of D for a pair of numbers of trials and a pair of noises, at any p.

    Parameters
    ----------
    nobs : pair of int
        Numbers of trials, >= 1.
    noises : pair of NoiseLaw
        Laws of the noise of the two counts, with scalar parameters.
    """

    nobs: tuple[int, int]
    noises: tuple[NoiseLaw, NoiseLaw]

    def tail(
        self,
        alternative: Alternative,
        difference: FloatArray,
        value: FloatArray,
        span: FloatArray | None = None,
    ) -> FloatArray:
        """P(D >= d), P(D <= d) or P(abs(D) >= abs(d)) at each pair of d and p, shape (g,).

        ``span`` holds the ends of an interval of p in which more calls will be made for the same
        d: what does not depend on p is then kept.
        """
        ends = value if span is None else span
        windows = [self._window(which, ends) for which in (0, 1)]
        longest = max(high - low + 1.0 + 2.0 * reach for low, high, reach in windows)
        if value.size > 1 and longest * value.size > _MOST_CELLS:
            d = np.broadcast_to(difference, value.shape)
            half = value.size // 2
            parts = (slice(half), slice(half, None))
            return np.concatenate([self.tail(alternative, d[i], value[i], span) for i in parts])
        first = self._pmf(0, value, *windows[0])
        second = first if self._are_alike else self._pmf(1, value, *windows[1])
        if isinstance(self._noise, Exact):
            return self._by_steps(alternative, difference, first, second)
        d = np.broadcast_to(difference, value.shape)
        if (d == d[0]).all():
            return self._by_kernel(alternative, float(d[0]), first, second)
        rows = [
            self._by_kernel(alternative, float(d[i]), _row(first, i), _row(second, i))
            for i in range(d.size)
        ]
        return np.concatenate(rows)

    def check_size(self, value: FloatArray) -> None:
        """Refuse laws with more counts than can be gone through."""
        for which in (0, 1):
            self._window(which, value)

    def counts(self, which: int, value: FloatArray) -> FloatArray:
        """Return the counts of one sample that matter at some p."""
        low, high, _ = self._window(which, value)
        return np.arange(low, high + 1.0)

    @property
    def _are_alike(self) -> bool:
        """Whether the two counts have one law."""
        return self.nobs[0] == self.nobs[1] and self.noises[0] == self.noises[1]

    @cached_property
    def _noise(self) -> NoiseLaw:
        """The noise of D that is not added to the counts."""
        laws = [
            Exact() if added else law for law, added in zip(self.noises, self._added, strict=True)
        ]
        return fast_sum(1.0 / np.asarray(self.nobs), laws)

    @cached_property
    def _added(self) -> tuple[bool, bool]:
        """Whether the noises are added to their counts: whole-numbered ones that are not wide."""
        n = np.asarray(self.nobs, dtype=np.float64)
        counts = np.minimum(n + 1.0, 2.0 * binom_radius(0.5 * n, n, LOG_NEGLIGIBLE))
        whole = [law.is_integer for law in self.noises]
        narrow = [
            is_whole and float(law._isf(np.asarray(_NEGLIGIBLE))) <= _WIDE * size
            for is_whole, law, size in zip(whole, self.noises, counts, strict=True)
        ]
        if narrow != whole and float(counts.prod()) <= _BLOCK:
            left = 1.0 / np.where(narrow, np.inf, self.nobs)
            if WeightedSum(left, list(self.noises)).error_bound <= ERROR:
                return narrow[0], narrow[1]
        return whole[0], whole[1]

    def _window(self, which: int, value: FloatArray) -> tuple[float, float, float]:
        """First and last count that matters at some p, and how far whole-numbered noise reaches."""
        n, noise = float(self.nobs[which]), self.noises[which]
        modes = np.minimum(np.floor((n + 1.0) * value), n)
        radius = binom_radius(modes, np.asarray(n), LOG_NEGLIGIBLE)
        low = max(float((modes - radius).min()), 0.0)
        high = min(float((modes + radius).max()), n)
        reach = float(noise._isf(np.asarray(_NEGLIGIBLE))) if self._added[which] else 0.0
        if high - low + 1.0 + 2.0 * reach > _MOST_CELLS:
            raise InvalidParameterError(
                f"nobs{which + 1} or the noise of count{which + 1} is too large for the exact law: "
                "use method='normal'"
            )
        return low, high, reach

    def _pmf(self, which: int, value: FloatArray, low: float, high: float, reach: float) -> Pmf:
        """Law of a count and its whole-numbered noise, for each p."""
        n, noise = float(self.nobs[which]), self.noises[which]
        k = np.arange(low, high + 1.0)
        pmf = binom_pmf(k, np.asarray(n), value[:, np.newaxis])
        if reach:
            k = np.arange(low - reach, high + reach + 1.0)
            pmf = _blurred(pmf, noise, int(reach))
        return k, pmf

    def _by_steps(
        self, alternative: Alternative, d: FloatArray, first: Pmf, second: Pmf
    ) -> FloatArray:
        """No continuous noise: the distribution function of one count at points of the other."""
        if alternative == "larger":
            return self._upper_steps(d, first, second)
        if alternative == "smaller":
            return self._lower_steps(d, first, second)
        size = np.abs(d)
        both = self._upper_steps(size, first, second) + self._lower_steps(-size, first, second)
        return np.where(size <= _ROUNDING, 1.0, np.minimum(both, 1.0))

    def _upper_steps(self, d: FloatArray, first: Pmf, second: Pmf) -> FloatArray:
        """P(D >= d) = Σ_a P(A = a)·P(B <= n₂(a/n₁ - d))."""
        (a, chances), (b, others) = first, second
        reached, slack = self._reached(d, a)
        cumulative = np.pad(np.cumsum(others, axis=1), ((0, 0), (1, 0)))
        place = np.clip(np.floor(reached + slack) - b[0] + 1.0, 0.0, b.size).astype(np.intp)
        return _paired(chances, cumulative, place)

    def _lower_steps(self, d: FloatArray, first: Pmf, second: Pmf) -> FloatArray:
        """P(D <= d) = Σ_a P(A = a)·P(B >= n₂(a/n₁ - d))."""
        (a, chances), (b, others) = first, second
        reached, slack = self._reached(d, a)
        beyond = np.pad(np.cumsum(others[:, ::-1], axis=1)[:, ::-1], ((0, 0), (0, 1)))
        place = np.clip(np.ceil(reached - slack) - b[0], 0.0, b.size).astype(np.intp)
        return _paired(chances, beyond, place)

    def _reached(self, d: FloatArray, a: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Second count that goes with a first and a difference, and its rounding error."""
        n1, n2 = self.nobs
        share = np.atleast_1d(d)[:, np.newaxis]
        size = n2 * (np.abs(a / n1) + np.abs(share))
        return n2 * (a / n1 - share), np.minimum(_ROUNDING * (size + 1.0), 0.25 / n1)

    def _by_kernel(self, alternative: Alternative, d: float, first: Pmf, second: Pmf) -> FloatArray:
        """Continuous noise: a bilinear form in the two laws, the same for each p, in blocks."""
        (a, chances), (b, others) = first, second
        if a.size * b.size > _MOST_PAIRS:
            raise InvalidParameterError(
                "nobs1 and nobs2 are too large for the exact law with continuous noise: use "
                "method='normal'"
            )
        rows = max(1, _BLOCK // b.size)
        total = np.zeros(others.shape)
        for start in range(0, a.size, rows):
            part = slice(start, start + rows)
            total += chances[:, part] @ self._kept(alternative, d, a[part], b)
        return np.asarray(np.minimum((total * others).sum(axis=1), 1.0))

    def _kept(self, alternative: Alternative, d: float, a: FloatArray, b: FloatArray) -> FloatArray:
        """Return the kernel of a block, which may be the one that was needed last."""
        key = (alternative, d, a[0], a.size, b[0], b.size)
        if key not in self._last:
            self._last.clear()
            self._last[key] = self._kernel(alternative, d, a, b)
        return self._last[key]

    @cached_property
    def _last(self) -> dict[tuple[object, ...], FloatArray]:
        return {}

    def _kernel(
        self, alternative: Alternative, d: float, a: FloatArray, b: FloatArray
    ) -> FloatArray:
        """Chance that the noise makes up for what two counts lack to the difference."""
        n1, n2 = self.nobs
        common = gcd(n1, n2)
        step_a, step_b = n2 // common, n1 // common
        unit = n1 * step_a  # a/n₁ - b/n₂ is a multiple of 1/unit
        low = a[0] * step_a - b[-1] * step_b
        length = (a.size - 1) * step_a + (b.size - 1) * step_b + 1
        if length > a.size * b.size // 2:
            places = np.add.outer(a / n1, -b / n2)
            return self._reach(alternative, d, places)
        table = self._reach(alternative, d, (low + np.arange(length)) / unit)
        first = (a - a[0]).astype(np.intp) * step_a
        second = (b[-1] - b).astype(np.intp) * step_b
        return np.asarray(table[np.add.outer(first, second)])

    def _reach(self, alternative: Alternative, d: float, place: FloatArray) -> FloatArray:
        if alternative == "larger":
            return self._at_most(place - d)
        if alternative == "smaller":
            return self._at_most(d - place)
        return self._at_most(place - abs(d)) + self._at_most(-abs(d) - place)

    def _at_most(self, x: FloatArray) -> FloatArray:
        """P(noise <= x), 0 or 1 where that is as good as certain."""
        # a point within rounding of an atom counts as that atom
        x = x + _ROUNDING * (1.0 + np.abs(x))
        near = np.abs(x) < self._horizon
        if near.all():
            return self._noise._cdf(x)
        out = np.where(x > 0, 1.0, 0.0)
        out[near] = self._noise._cdf(x[near])
        return out

    @cached_property
    def _horizon(self) -> float:
        return float(self._noise._isf(np.asarray(_NEGLIGIBLE)))


def _row(law: Pmf, row: int) -> Pmf:
    return law[0], law[1][row : row + 1]


def _paired(chances: FloatArray, cumulative: FloatArray, place: NDArray[np.intp]) -> FloatArray:
    """Σ_a chances[g, a]·cumulative[g, place[g, a]]."""
    if place.shape[0] == 1:
        looked_up = cumulative[:, place[0]]
    else:
        looked_up = np.take_along_axis(cumulative, place, axis=1)
    return np.asarray(np.minimum((chances * looked_up).sum(axis=1), 1.0))


def _blurred(pmf: FloatArray, noise: NoiseLaw, reach: int) -> FloatArray:
    """Law of a count plus whole-numbered noise of at most ``reach``, row by row."""
    if isinstance(noise, Geometric):
        rate = 1.0 / float(noise.scale)
        padded = np.pad(pmf, ((0, 0), (reach, reach)))
        below, above = decaying_sums(padded, rate), decaying_sums(padded[:, ::-1], rate)
        return np.asarray(np.tanh(0.5 * rate) * (below + above[:, ::-1] - padded))
    k = np.arange(-reach, reach + 1.0)
    chances = noise._cdf(-np.abs(k)) - noise._cdf(-np.abs(k) - 1.0)
    return np.array([np.convolve(row, chances) for row in pmf])
