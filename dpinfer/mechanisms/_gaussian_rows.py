"""Tails of counts with Gaussian noise, discrete or not, row by row.

P(T >= t) is an integral of E[exp(zT)]·exp(-zt)/z over a vertical line through the saddle point c
of the integrand, by the trapezoidal rule. With the step 2π/L the rule is, exactly,
Σ_m exp(-mcL)·P(T >= t - mL): what is left out of that sum is bounded by tails of the tilted law of
T beyond L, whose mean is t, by Bernstein's inequality; where t - L is below the mean, what is known
of the terms is 1 less such a tail. Narrow noise is summed over its reach around t instead, and the
tail of X beyond it is added: the terms are log-concave, and fall off on either side of the largest
at least as fast as the noise does. Both tails at once, where they are not small, are 1 less what is
between them: one sum on the imaginary line, without a saddle point.

Of many rows that share all but n and t, tails are interpolated: the integrals that give them are
analytic in n and t. Beside narrow noise, what recurs with the period 2πi of E[exp(zX)] is one such
integral for each period, and a wave in the fraction of t; where X varies too little for that, rows
around one whole number share the sums over the reach of the noise, as polynomials in t.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebval, chebvander

from dpinfer._check import FloatArray
from dpinfer._numerics.counts import bernstein_radius
from dpinfer._numerics.lattice import batches
from dpinfer.mechanisms._row_tails import Counts, Fall, Rows, Rule, Trials, tail_rule
from dpinfer.mechanisms.laws import DiscreteGaussian, Gaussian

GaussianNoise = Gaussian | DiscreteGaussian

_BLOCK = 1 << 15
"""Terms held at a time, so that they stay in the cache."""

_LINES = _BLOCK // 8
"""Rows at a time, for the same reason."""

_NARROW = 1.5
"""Below this σ the sum over the reach of the noise is shorter than the integral."""

_REACH = 9.3
"""A normal variable is further off, in standard deviations, with probability 1e-20."""

_DEPTH = 34.0
"""Terms below e^-34 of the largest are left out."""

_CONVERGED = 0.3
"""Last step to the saddle point, in units of one over the standard deviation."""

_STEPS = 60
_MOST_TILT = 705.0

_LOWEST = -800.0
"""Logarithm of what is 0 in floats, whatever it is multiplied by."""

_HOPELESS = 40.0

_MANY = 225.0
"""From this variance V of X on, eleven cumulants give its characteristic function to 1e-16.

The first term left out is at most V·(12/(eV))⁶/12! once exp(-Vy²/2) has made it smaller.
"""

_NARROWEST = 0.5
"""From this σ on no more than two multiples of the period of X on a side matter."""

_SMALLEST_TURN = 1e-17

_FURTHEST = 3.0
_LEAST = 1e-3
"""Both tails are found as the rest of the whole up to so many standard deviations, from here on."""

_WRAPPED = 42.0
"""What wraps around there is less than 2·e^-42 = 1e-18."""


def gaussian_tail(
    counts: Counts, noise: GaussianNoise, t: FloatArray, side: FloatArray
) -> FloatArray:
    """P(T >= t) (side 1) or P(T <= t) (side -1); t whole where the noise is."""
    sigma = np.broadcast_to(np.asarray(noise.sigma, dtype=np.float64), t.shape)
    excess = counts.excess(t)
    # of the two tails the smaller one is computed
    other = side * excess < 0.0
    if other.any():
        step = np.where(other, side, 0.0) * float(noise.is_integer)
        t, excess = t - step, excess - step
    sign = np.where(other, -side, side)
    # so far beyond all counts the noise alone is 0 in floats
    nothing = np.where(sign > 0.0, t - counts.last, -t) > _HOPELESS * sigma
    if nothing.any():
        t, excess = np.where(nothing, t - excess, t), np.where(nothing, 0.0, excess)
    tail = _smooth_tail(counts, noise, sigma, t, excess, sign)
    with np.errstate(all="ignore"):
        left = np.flatnonzero(np.isnan(tail))
        beyond = np.full(t.size, np.nan)
        beyond[left] = _beyond_reach(Lines(counts, sigma, t, excess, sign).take(left))
        for start in range(0, left.size, _LINES):
            rows = left[start : start + _LINES]
            lines = Lines(counts.take(rows), sigma[rows], t[rows], excess[rows], sign[rows])
            narrow, up = sigma[rows] < _NARROW, sign[rows] > 0.0
            for chosen in (~narrow, narrow & up, narrow & ~up):
                if chosen.any():
                    at = np.flatnonzero(chosen)
                    some, law = lines.take(at), _taken(noise, rows[at])
                    if narrow[at[0]]:
                        tail[rows[at]] = some.by_terms(law, beyond[rows[at]])
                    else:
                        tail[rows[at]] = some.by_rule(law)
    tail = np.where(nothing, 0.0, tail)
    return np.where(other, 1.0 - tail, tail)


def gaussian_outside(
    counts: Counts, noise: GaussianNoise, low: FloatArray, high: FloatArray
) -> FloatArray:
    """P(T <= low) + P(T >= high), as exact as :func:`gaussian_tail`; whole ends as there."""
    sigma = np.broadcast_to(np.asarray(noise.sigma, dtype=np.float64), low.shape)
    left, right = counts.excess(low), counts.excess(high)
    lower, upper = (
        _smooth_tail(counts, noise, sigma, t, np.where(side * excess >= 0.0, excess, np.nan), side)
        for side, t, excess in (
            (-np.ones(low.size), low, left),
            (np.ones(low.size), high, right),
        )
    )
    outside = lower + upper
    spread = np.sqrt(np.square(sigma) + counts.variance)
    near = (np.maximum(-left, right) <= _FURTHEST * spread) & (right >= left)
    near &= np.isnan(outside)
    wide, many = sigma >= _NARROW, counts.variance >= _MANY
    waves = ~wide & (sigma >= _NARROWEST) & many & (not noise.is_integer)
    with np.errstate(all="ignore"):
        for chosen in (wide, waves):
            inner = np.flatnonzero(near & chosen)
            for start in range(0, inner.size, _LINES):
                rows = inner[start : start + _LINES]
                own, ends = (counts.take(rows), sigma[rows]), (left[rows], right[rows])
                if chosen is wide:
                    both = 1.0 - _within(*own, *ends, noise.is_integer)
                else:
                    whole = np.round(0.5 * (low[rows] + high[rows]))
                    part = 0.5 * ((low[rows] - whole) + (high[rows] - whole))
                    both = 1.0 - _between(*own, *ends, part)
                outside[rows] = np.where(both >= _LEAST, both, np.nan)
    rest = np.flatnonzero(np.isnan(outside))
    if rest.size:
        some, law, one = counts.take(rest), _taken(noise, rest), np.ones(rest.size)
        outside[rest] = gaussian_tail(some, law, low[rest], -one)
        outside[rest] += gaussian_tail(some, law, high[rest], one)
    return outside


def _within(
    law: Counts, sigma: FloatArray, left: FloatArray, right: FloatArray, whole: bool
) -> FloatArray:
    """P(left < T - E[T] < right), by the trapezoidal rule on the imaginary line.

    With the step 2π/L the rule adds, exactly, the probabilities of the same range moved by all
    multiples of L.
    """
    variance = np.square(sigma)
    centre, width = 0.5 * (left + right), right - left - float(whole)
    period = bernstein_radius(law.variance + variance, _WRAPPED) + np.maximum(-left, right)
    step = 2.0 * np.pi / period
    total = np.zeros(sigma.size)
    count = np.ceil(_extent(law.variance, variance) / step)
    for at, number in _blocks_of(law.variance, count):
        y = (number + 1.0) * step[at]
        wave = _Wave.at(y)
        log, angle = wave.transform(law.take(at))
        log -= (0.5 * variance[at]) * wave.square
        angle -= centre[at] * y
        terms = np.exp(log, out=log)
        # the cosine is (1 - tan²)/(1 + tan²) of the half
        angle *= 0.5
        cosine = np.square(np.tan(angle, out=angle), out=angle)
        terms *= (1.0 - cosine) / (1.0 + cosine)
        terms *= _sine((0.5 * width[at]) * y)
        terms /= _sine(0.5 * y) if whole else 0.5 * y
        total[at] = terms.sum(axis=0)
    return np.asarray((width + 2.0 * total) / period)


def _between(
    law: Counts, sigma: FloatArray, left: FloatArray, right: FloatArray, part: FloatArray
) -> FloatArray:
    """P(left < T - E[T] < right) by the same rule, beside narrow noise, for a variance of X > 225.

    With L whole, E[exp(iyX)] is the same at the nodes around each multiple 2πm of its period, and
    negligible elsewhere. ``part`` is the middle of the range less a whole number.
    """
    variance = np.square(sigma)
    centre, width = 0.5 * (left + right), right - left
    radius = bernstein_radius(law.variance + variance, _WRAPPED)
    period = np.ceil(radius + np.maximum(-left, right))
    step = 2.0 * np.pi / period
    # 1 - cos y >= .97·y²/2 up to y = .6, which is further than e^-36
    count = np.ceil(np.sqrt(2.0 * (_DEPTH + 2.0) / (0.97 * law.variance)) / step)
    most = int(np.sqrt(2.0 * (_DEPTH + 2.0)) / (2.0 * np.pi * _NARROWEST) + 0.1)
    turns = [(m, np.exp(-2.0 * np.square(np.pi * m * sigma))) for m in range(1, most + 1)]
    total = np.zeros(sigma.size)
    for m, size in turns:
        angles = 2.0 * np.pi * m * part, np.pi * m * width
        total += size * np.cos(angles[0]) * np.sin(angles[1]) / (np.pi * m)
    for at, number in _blocks(count):
        y = (number + 1.0) * step[at]
        log, angle = _Wave.at(y).transform(law.take(at))
        log -= (0.5 * variance[at]) * np.square(y)
        angle -= centre[at] * y
        (cos_a, sin_a), (cos_b, sin_b) = _circle(angle), _circle((0.5 * width[at]) * y)
        terms = cos_a * sin_b / (0.5 * y)
        fall = np.exp((-2.0 * np.pi * variance[at]) * y)
        for m, size in turns:
            if not np.any(size[at] > _SMALLEST_TURN):
                break
            turn, wave = 2.0 * np.pi * m * part[at], np.pi * m * width[at]
            for sign, factor in ((1.0, fall**m), (-1.0, fall**-m)):
                factor *= size[at]
                factor *= cos_a * np.cos(turn) + sin_a * (sign * np.sin(turn))
                factor *= sin_b * np.cos(wave) + cos_b * (sign * np.sin(wave))
                factor /= 0.5 * y + sign * np.pi * m
                terms += factor
        terms *= np.exp(log, out=log)
        total[at] += terms.sum(axis=0)
    return np.asarray((width + 2.0 * total) / period)


def _circle(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Cosine and sine."""
    half = np.tan(0.5 * x)
    square = np.square(half)
    return (1.0 - square) / (1.0 + square), 2.0 * half / (1.0 + square)


def _sine(x: FloatArray) -> FloatArray:
    half = np.tan(0.5 * x)
    return np.asarray(2.0 * half / (1.0 + np.square(half)))


Integrand = tuple[Counts, FloatArray, FloatArray, FloatArray, FloatArray]


class Tilted(NamedTuple):
    """Laws of X tilted by c, where lines cross; ``height`` is the logarithm of E[exp(c(T - t))]."""

    law: Counts
    c: FloatArray
    off: FloatArray
    height: FloatArray
    period: FloatArray

    def nodes(
        self, extent: FloatArray, sigma: FloatArray, sign: FloatArray
    ) -> Iterator[tuple[Rows, FloatArray, Integrand]]:
        """Yield rows, their nodes y >= 0 and what their integrands need."""
        step = 2.0 * np.pi / self.period
        count = np.where(self.height > _LOWEST, np.ceil(extent / step) + 1.0, 0.0)
        for at, number in _blocks_of(self.law.variance, np.nan_to_num(count)):
            own = self.law.take(at), sigma[at], sign[at], self.c[at], self.off[at]
            yield at, number * step[at], own

    def scaled(self, total: FloatArray) -> FloatArray:
        return np.asarray(np.exp(self.height) * total / self.period)

    def known(self, excess: FloatArray) -> FloatArray:
        """Return what the rule has too much, where P(T >= t - L) is 1."""
        inside = np.abs(excess) < self.period
        return np.where(inside, 1.0 / np.expm1(self.c * self.period), 0.0)


class Lines(NamedTuple):
    """Tails beyond t, above it (sign 1) or below, at most 1/2 or so."""

    counts: Counts
    sigma: FloatArray
    t: FloatArray
    excess: FloatArray
    sign: FloatArray

    def take(self, rows: Rows) -> Lines:
        return Lines(self.counts.take(rows), *(column[rows] for column in self[1:]))

    def by_rule(self, noise: GaussianNoise) -> FloatArray:
        """Trapezoidal rule on the vertical line through the saddle point."""
        tilted = self._tilted()
        total = np.zeros(self.t.size)
        extent = _extent(tilted.law.variance, np.square(self.sigma))
        for at, y, own in tilted.nodes(extent, self.sigma, self.sign):
            total[at] = _nodes(*own, y, noise.is_integer)
        # E[exp(c(T - t))] is exp(height), which may be too small for a factor
        return np.asarray(np.maximum(tilted.scaled(total) - tilted.known(self.excess), 0.0))

    def by_turns(self, noise: GaussianNoise, turns: int) -> FloatArray:
        """Return S_0, 2·Re S_1, 2·Im S_1, …, beside narrow noise; NaN where X varies little.

        E[exp(sX)] has the period 2πi. Of the integral over s, S_m is what surrounds 2πim, without
        exp(-2πimt); it changes as slowly with t as if X were not whole. Whole noise has S_0 alone.
        """
        tilted = self._tilted()
        total = np.zeros((1 if noise.is_integer else 1 + 2 * turns, self.t.size))
        extent = _extent_of_counts(tilted.law.variance)
        for at, y, own in tilted.nodes(extent, self.sigma, self.sign):
            total[:, at] = _turning_nodes(*own, y, noise.is_integer, turns)
        total = tilted.scaled(total)
        total[0] -= tilted.known(self.excess)
        return np.where(np.isnan(extent), np.nan, total)

    def _tilted(self) -> Tilted:
        c, variance = self._saddle(), np.square(self.sigma)
        law, gain = self.counts.moved(self.sign * np.minimum(c, _MOST_TILT))
        off = self.sign * (gain - self.excess) + variance * c
        height = c * (off - 0.5 * variance * c) - self.counts.log_decline(gain)
        period = bernstein_radius(law.variance + variance, _DEPTH) + np.abs(off)
        return Tilted(law, c, off, height, period)

    def _saddle(self) -> FloatArray:
        """Where the mean of the tilted law is about t, and at least one over its spread."""
        counts, sign, t = self.counts, self.sign, self.t
        variance, distance = np.square(self.sigma), np.abs(self.excess)
        spread = np.sqrt(variance + counts.variance)
        # the largest count takes up what the noise does not, if there is a largest one
        last = counts.last if isinstance(counts, Trials) else np.inf
        low = np.maximum(np.where(sign > 0, t - last, -t), 0.0) / variance
        # at most the tilt that X alone would need, or one that leaves less than σ² to its end
        end = np.maximum(low + 1.0, counts.log_rest(sign) - 2.0 * np.log(self.sigma))
        high = np.fmin(np.fmin(distance / variance, end), np.abs(counts.tilt(t)))
        c = np.clip(distance / np.square(spread), low, high)
        for _ in range(_STEPS):
            law, gain = counts.moved(sign * np.minimum(c, _MOST_TILT))
            curvature = law.variance + variance
            gap = sign * gain + variance * c - distance
            low, high = np.where(gap < 0.0, c, low), np.where(gap < 0.0, high, c)
            new = c - gap / curvature
            step = np.abs(new - c)
            c = np.where((new >= low) & (new <= high), new, 0.5 * (low + high))
            if np.all((step * np.sqrt(curvature) < _CONVERGED) | (step < 1e-9 * c)):
                break
        return np.maximum(c, 1.0 / spread)

    def polynomials(self, noise: GaussianNoise) -> FloatArray:
        """Return Chebyshev coefficients, (degrees, m), for tails beyond t - 1/2 to t + 1/2.

        The noise is narrow and t whole; the variable is twice the distance, times the sign. NaN
        where they would lose digits.
        """
        found = np.empty((_parts(noise), self.t.size))
        for sign in (1.0, -1.0):
            rows = np.flatnonzero(self.sign == sign)
            if rows.size:
                some = self.take(rows)
                end = some.t + sign * _reach(some.sigma)
                beyond = _beyond(some.counts, end, some.counts.excess(end), some.sign, Fall.value)
                found[:, rows] = some.by_terms(noise, beyond, polynomials=True)
        return found

    def by_terms(
        self, noise: GaussianNoise, beyond: FloatArray, *, polynomials: bool = False
    ) -> FloatArray:
        """Sum over the reach of the noise around t, and the tail of X beyond; of one sign.

        ``beyond`` is the latter over the last P(X = k) that is summed. For ``polynomials`` see
        there.
        """
        counts, last, sign = self.counts, self.counts.last, float(self.sign[0])
        middle, reach = np.rint(self.t), _reach(self.sigma)
        # the largest term is where P(X = k) falls by exp(-(t - k - 1/2)/σ²) from count to count,
        # and nowhere before t does it fall faster than at t
        place = np.floor(self.t) if sign > 0.0 else np.maximum(np.ceil(self.t) - 1.0, 0.0)
        place = np.clip(place, 0.0, np.maximum(last - 1.0, 0.0))
        fall = np.maximum(-sign * np.log(counts.ratio(place)), 0.0)
        fall = np.where(np.isfinite(fall), fall, 0.0)
        outside = np.maximum(self.t - last if sign > 0.0 else -self.t, 0.0)
        back = np.ceil(reach + outside + np.square(self.sigma) * fall + 1.5)
        fall[outside > 0.0] = np.inf  # there is no count to fall to
        back = np.minimum(back, np.maximum(middle if sign > 0.0 else last - middle, 0.0))
        end = middle + sign * reach
        first, final = (middle - back, end) if sign > 0.0 else (end, middle + back)
        anchor = np.clip(counts.mode, np.maximum(first, 0.0), np.minimum(final, last))
        size = counts.peak(anchor) * np.exp(-counts.log_decline(counts.excess(anchor)))
        degrees = _parts(noise) if polynomials else 1
        tail, at = np.empty((degrees, self.t.size)), np.arange(self.t.size)
        for rows in batches(back + reach + 1.0, _BLOCK):
            before = back[rows].max()
            steps = np.arange(-before, reach[rows].max() + 1.0)[:, np.newaxis]
            place = (sign * (anchor - middle)[rows] + before).astype(np.intp)
            masses = _masses(counts.take(rows), middle[rows] + sign * steps, sign, place)
            if polynomials:
                total = _sums(_noise_table(noise, steps).T, masses)
            else:
                part = sign * (self.t - middle)[rows]
                weights = _reached(_taken(noise, rows), steps, part, reach[rows], fall[rows])
                total = np.einsum("ij,ij->j", masses, np.broadcast_to(weights, masses.shape))
                total = total[np.newaxis]
            end = (reach[rows] + before).astype(np.intp)
            total[0] += masses[end, at[: rows.size]] * beyond[rows]
            tail[:, rows] = size[rows] * total
        return np.where(fall < _MOST_FALL, tail, np.nan) if polynomials else tail[0]


def _taken(noise: GaussianNoise, rows: Rows) -> GaussianNoise:
    return noise._take(rows) if noise.shape else noise


def _blocks(lengths: FloatArray) -> Iterator[tuple[Rows, FloatArray]]:
    """Yield rows of like lengths with 0, 1, … up to the longest, a column; none of length 0."""
    for rows in batches(lengths, _BLOCK):
        yield rows, np.arange(lengths[rows[-1]])[:, np.newaxis]


def _blocks_of(variance: FloatArray, lengths: FloatArray) -> Iterator[tuple[Rows, FloatArray]]:
    """Yield the same, rows of which cumulants say enough apart from others."""
    many = variance >= _MANY
    for chosen in (many, ~many):
        if chosen.any():
            yield from _blocks(np.where(chosen, lengths, 0.0))


def _extent(counts: FloatArray, noise: FloatArray) -> FloatArray:
    """From where on the integrand is below e^-34 of its value at 0, by the variances."""
    # the logarithm falls by noise·y²/2 + counts·(1 - cos y), and 1 - cos y >= y²/2 - y⁴/24
    both = counts + noise
    inside = 1.0 - counts / both * (2.0 * _DEPTH / 3.0) / both
    root = both * (1.0 + np.sqrt(np.maximum(inside, 0.0)))
    square = np.where(inside > 0.0, 4.0 / root, 2.0 / noise)
    alone = np.sqrt(2.0 * _DEPTH / noise)
    # from π to 2π the counts grow back, and the noise must suffice before they have
    least = 0.5 * np.square(np.pi) * noise
    least += counts * (1.0 - np.cos(np.clip(alone, np.pi, 2.0 * np.pi)))
    return np.where(least < _DEPTH, alone, np.minimum(np.sqrt(_DEPTH * square), alone))


class _Wave(NamedTuple):
    """Nodes y on the imaginary line."""

    y: FloatArray
    square: FloatArray

    @classmethod
    def at(cls, y: FloatArray) -> _Wave:
        return cls(y, np.square(y))

    def transform(self, law: Counts) -> tuple[FloatArray, FloatArray]:
        """Logarithm of the modulus and argument of E[exp(iy(X - E[X]))]."""
        y, square = self
        if float(law.variance.min()) < _MANY:
            sine, half_square = _sines(y)
            return law.log_modulus(half_square), law.phase(sine, half_square, y)
        even, odd = law.cumulants()
        log, angle = _alternating(even, square, 2), _alternating(odd, square, 3)
        log *= square
        angle *= square
        angle *= y
        return log, angle


def _alternating(cumulants: tuple[FloatArray, ...], square: FloatArray, order: int) -> FloatArray:
    """-κ/order! + square·κ'/(order + 2)! - …, in which κ and κ' are cumulants."""
    parts = [
        (1.0 if k % 2 else -1.0) / factorial(order + 2 * k) * x for k, x in enumerate(cumulants)
    ]
    total = parts[-1] * square
    for part in parts[-2:0:-1]:
        total += part
        total *= square
    total += parts[0]
    return total


def _sines(y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sine of y, and the square of that of y/2."""
    # NumPy's tangent is vectorised, its sine is not: the sine of 2a is 2·tan a/(1 + tan² a)
    tangent = np.tan(0.5 * y)
    half_square = np.square(tangent)
    sine = 2.0 / (1.0 + half_square)
    half_square *= 0.5 * sine
    sine *= tangent
    return sine, half_square


def _nodes(
    law: Counts,
    sigma: FloatArray,
    sign: FloatArray,
    c: FloatArray,
    off: FloatArray,
    y: FloatArray,
    whole: bool,
) -> FloatArray:
    """Sum of the integrand, over E[exp(c(T - t))], over nodes ±y of which the first is 0."""
    wave = _Wave.at(y)
    log, angle = wave.transform(law)
    angle *= sign
    angle += y * off
    if whole:  # 1/(1 - exp(-c - iy))
        imaginary, real = _sines(y)
        fall = np.exp(-c)
        real *= 2.0 * fall
        real -= np.expm1(-c)
        imaginary *= fall
    else:
        real, imaginary = c, y
    # the real part of exp(log + i·angle)/(real + i·imaginary)
    angle -= np.arctan2(imaginary, real)
    angle += 0.5 * np.pi
    angle *= 0.5
    terms = np.tan(angle, out=angle)
    terms *= 2.0 / (1.0 + np.square(terms))
    log -= 0.5 * np.square(sigma) * wave.square
    terms *= np.exp(log, out=log)
    size = np.square(imaginary)
    size += np.square(real)
    terms /= np.sqrt(size, out=size)
    return np.asarray(2.0 * terms.sum(axis=0) - terms[0])


def _extent_of_counts(variance: FloatArray) -> FloatArray:
    """From where on E[exp(iyX)] is below e^-34 up to y = π; NaN if nowhere."""
    # -log is variance·(1 - cos y) at least, and 1 - cos y >= y²/2 - y⁴/24
    inside = 1.0 - 2.0 * _DEPTH / 3.0 / variance
    square = 4.0 * _DEPTH / (variance * (1.0 + np.sqrt(np.maximum(inside, 0.0))))
    return np.where(inside > 0.0, np.sqrt(square), np.nan)


def _turning_nodes(
    law: Counts,
    sigma: FloatArray,
    sign: FloatArray,
    c: FloatArray,
    off: FloatArray,
    y: FloatArray,
    whole: bool,
    turns: int,
) -> FloatArray:
    """Return sums as :func:`_nodes`, around multiples of 2πi too, one for each part of the tail."""
    log, angle = _Wave.at(y).transform(law)
    variance, s = np.square(sigma), c + 1j * y
    terms = np.exp(log - 0.5 * variance * np.square(y) + 1j * (sign * angle + y * off))
    terms[0] *= 0.5
    # the transform of the noise at s + 2πim, over that at s
    turned = {
        m: np.exp(2j * np.pi * m * variance * s - 2.0 * np.square(np.pi * m) * variance)
        for m in range(-turns, turns + 1)
    }
    if whole:
        at_zero = sum(np.exp(-2.0 * np.square(np.pi * m) * variance) for m in turned)
        terms *= sum(turned.values()) / at_zero / -np.expm1(-s)
        return np.asarray(2.0 * terms.sum(axis=0).real[np.newaxis])
    # what is at -y is the conjugate of what is at y, and -m in place of m
    sums = {m: (terms * turn / (s + 2j * np.pi * m)).sum(axis=0) for m, turn in turned.items()}
    both = [sums[m] + np.conj(sums[-m]) for m in range(turns + 1)]
    parts = [(2.0 * part.real, 2.0 * part.imag) for part in both[1:]]
    return np.array([both[0].real, *(x for pair in parts for x in pair)])


def _reach(sigma: FloatArray) -> FloatArray:
    return np.ceil(_REACH * sigma + 0.5)


def _beyond(
    law: Counts,
    end: FloatArray,
    excess: FloatArray,
    sign: FloatArray,
    value: Callable[[Fall, Rule], FloatArray],
) -> FloatArray:
    """P(X beyond an end)/P(X = end), above it (sign 1) or below, on that side of the mean."""
    up = sign > 0.0
    k, excess = np.where(up, end, end - 1.0), np.where(up, excess, excess - 1.0)
    fall = law.above(k, excess).either(law.below(k, excess), up)
    ratio, step = value(fall, tail_rule()), law.ratio(k)
    inside = np.where(up, end < law.last, end > 0.0)
    return np.where(inside, ratio * np.where(up, step, 1.0 / step), 0.0)


def _masses(counts: Counts, k: FloatArray, sign: float, place: Rows) -> FloatArray:
    """P(X = k) over that in one row, for whole numbers that go up (sign 1) or down."""
    masses = np.ones(k.shape)
    if sign > 0.0:
        ratio, valid = counts.ratio(k[:-1]), k[0] >= 0.0
    else:
        ratio, valid = 1.0 / counts.ratio(k[1:]), k[0] <= counts.last
    steepest = ratio[:1]
    if not valid.all():
        valid = k >= 0.0 if sign > 0.0 else k <= counts.last
        ratio[~valid[:-1]] = 1.0
        steepest = ratio
    places = np.arange(place.size)
    # ratios decrease, and the masses rise until that place
    if float(place.max()) * np.log(max(float(steepest.max()), 1.0)) < _MOST_TILT:
        np.multiply.accumulate(ratio, axis=0, out=masses[1:])
        masses /= masses[place, places]
    else:
        masses[0] = 0.0
        np.cumsum(np.log(np.maximum(ratio, 0.0)), axis=0, out=masses[1:])
        masses -= masses[place, places]
        np.exp(masses, out=masses)
    if not valid.all():
        masses *= valid
    return masses


_SMOOTH = 0.4
"""From this σ on 24 Chebyshev nodes give the noise between two whole numbers to 1e-17."""

_MOST_FALL = 3.0


def _reached(
    noise: GaussianNoise, steps: FloatArray, part: FloatArray, reach: FloatArray, fall: FloatArray
) -> FloatArray:
    """P(e <= step - part), parts being 1/2 at most, for steps up to the reach."""
    if not noise.shape and noise.is_integer:
        return noise._cdf(steps)
    if not noise.shape and float(noise.sigma) >= _SMOOTH and float(fall.max()) < _MOST_FALL:
        # what is wrong by a fraction of P(e <= step + 1/2) is so by e^fall of it in the sum, which
        # has P(e <= step + 1 - part) times a P(X = k) that is smaller by e^-fall at most
        return _sums(_noise_table(noise, steps), _polynomials(2.0 * part, _parts(noise)))
    return np.where(steps <= reach, noise._cdf(steps - part), 0.0)


def _parts(noise: GaussianNoise) -> int:
    """Chebyshev nodes that give the noise between two whole numbers to 1e-17."""
    return 1 if noise.is_integer else int(9.0 + 6.0 / min(float(np.ravel(noise.sigma)[0]), _SMOOTH))


def _noise_table(noise: GaussianNoise, steps: FloatArray) -> FloatArray:
    """Chebyshev coefficients of P(e <= step - part) in twice the part, for a column of steps."""
    if noise.is_integer:
        return noise._cdf(steps)
    nodes, fit = _chebyshev(_parts(noise))
    return np.asarray(noise._cdf(steps - 0.5 * nodes) @ fit.T)


# Rows that differ in their number of trials, or rate, and their t only.

_WORTHWHILE = 1 << 12
"""Fewer rows are not looked through for those that are interpolated."""

_DEGREES = 12, 22
"""Chebyshev nodes along half an octave of n and along two units of the distance."""

_SLICES, _DEEP, _CELLS = 2.0, 2.0, 4

_NARROWEST_SMOOTH = 0.3
_NO_TURN = 1.9
"""Beyond m = √(this/σ²), what turns m times, as exp(-2π²σ²m²) at most, is below 1e-16."""

_UNRESOLVED, _NEGLIGIBLE = 1e-14, 1e-16
"""Where the last coefficients are larger than so much of the least value, none is interpolated.

They fall by a factor of ten or more from one to the next, or are rounding.
"""

_BREAK_EVEN = 1.3

_LITTLE, _DEGREES_AT_PLACES, _BREAK_EVEN_AT_PLACES = 64.0, 20, 3.0
"""Where X varies less than this, places are gone through; nodes along n, and rows for each."""

_ONE_THREAD = 1 << 17
"""Half of the multiplications from which on OpenBLAS starts threads."""

Method = Callable[[Counts, FloatArray, FloatArray], FloatArray]


@cache
def _chebyshev(size: int) -> tuple[FloatArray, FloatArray]:
    """Return Chebyshev's nodes, and what takes values there to coefficients."""
    angle = np.pi * (np.arange(size) + 0.5) / size
    fit = np.cos(np.outer(np.arange(size), angle)) * (2.0 / size)
    fit[0] *= 0.5
    return np.cos(angle), fit


def _sums(table: FloatArray, terms: FloatArray) -> FloatArray:
    """Return the product of coefficients, (k, degrees), and Chebyshev's polynomials at points.

    In pieces that need no other thread, which might be waited for long.
    """
    step, terms = max(1, _ONE_THREAD // table.size), terms[: table.shape[1]]
    pieces = (terms[:, start : start + step] for start in range(0, terms.shape[1], step))
    return np.concatenate([table @ piece for piece in pieces], axis=1)


def _polynomials(x: FloatArray, size: int) -> FloatArray:
    return np.asarray(chebvander(x, size - 1).T, dtype=np.float64)


def _is_shared(counts: Counts, sigma: FloatArray) -> bool:
    if sigma.size < _WORTHWHILE or not counts[0].ndim:
        return False
    return all(bool((x == x.flat[0]).all()) for x in (*counts[1:], sigma))


def _by_surface(
    counts: Counts,
    variance: float,
    z: FloatArray,
    sign: FloatArray,
    method: Method,
    waves: Sequence[FloatArray] = (),
) -> FloatArray:
    """Interpolate in n, which need not be whole, and in z = distance/spread; NaN where not.

    Transforms and integrals of counts are analytic in both. Chebyshev's polynomials of two
    variables serve all rows of half an octave of n and two units of z, where these are many, and
    where the last coefficients show that the degrees suffice. Where the method has several values,
    the first is by far the largest; they are added up, with ``waves`` as their factors.
    """
    found = np.full(z.size, np.nan)
    shared = [x.ravel()[0, ...] for x in counts[1:]]
    place, depth = _SLICES * np.log2(counts[0]), z / _DEEP
    low, step = np.floor(place), np.floor(depth)
    suits = (z >= 0.0) & (z < _CELLS * _DEEP) & (low >= 0.0) & (low < 1e3)
    key = np.where(suits, (low * _CELLS + step) * 2.0 + (sign > 0.0), -1.0).astype(np.int16)
    order = np.argsort(key, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(key[order])) + 1, key.size)
    (along, fit), (across, fit_across) = map(_chebyshev, _DEGREES)
    for cell in np.split(order, ends[:-1]):
        one = cell[0]
        if cell.size < _BREAK_EVEN * along.size * across.size or not suits[one]:
            continue
        grid = 2.0 ** ((low[one] + 0.5 * (1.0 + along)) / _SLICES)
        law = type(counts)(np.repeat(grid, across.size), *shared)
        distance = np.tile(_DEEP * (step[one] + 0.5 * (1.0 + across)), along.size)
        distance *= np.sqrt(law.variance + variance)
        values = method(law, distance, np.full(distance.size, sign[one]))
        values = values.reshape(-1, along.size, across.size)
        tables, least = fit @ values @ fit_across.T, values[0].min()
        last = max(np.abs(tables[:, -1]).max(), np.abs(tables[:, :, -1]).max())
        if not last < _UNRESOLVED * least:
            continue
        short = [_shortened(table.T, _NEGLIGIBLE * least) for table in tables]
        for start in range(0, cell.size, _LINES):
            rows = cell[start : start + _LINES]
            u, w = 2.0 * (place[rows] - low[one]) - 1.0, 2.0 * (depth[rows] - step[one]) - 1.0
            terms = _polynomials(u, along.size)
            total = chebval(w, _sums(short[0], terms), tensor=False)
            for wave, table in zip(waves, short[1:], strict=True):
                if table.size:
                    total += wave[rows] * chebval(w, _sums(table, terms), tensor=False)
            found[rows] = total
    return found


class _Place(NamedTuple):
    """Rows with like n whose t is nearest to one whole number, and the n that give their tails."""

    rows: Rows
    nodes: FloatArray
    whole: bool

    @classmethod
    def of(cls, rows: Rows, n: FloatArray, low: float, unit: float) -> _Place:
        along, least = _chebyshev(_DEGREES_AT_PLACES)[0], n.min()
        if n.max() - least < along.size and (n == np.rint(n)).all():
            return cls(rows, np.arange(least, n.max() + 1.0), whole=True)
        return cls(rows, np.square((low + 0.5 * (1.0 + along)) / unit), whole=False)

    @property
    def is_worthwhile(self) -> bool:
        return self.rows.size >= _BREAK_EVEN_AT_PLACES * self.nodes.size

    def terms(
        self, tables: FloatArray, scale: FloatArray, n: FloatArray, u: FloatArray
    ) -> FloatArray:
        """Return tables of coefficients for each row, (degrees, m), but for the scale."""
        if self.whole:
            return tables[:, (n - self.nodes[0]).astype(np.intp)]
        tables = tables * scale
        nodes = _chebyshev(len(tables))[0][:, np.newaxis]
        least = chebval(nodes, tables, tensor=False).min()
        tables = tables @ _chebyshev(_DEGREES_AT_PLACES)[1].T
        if not np.abs(tables[:, -1]).max() < _UNRESOLVED * least:
            return np.full((1, n.size), np.nan)
        return _sums(tables, _polynomials(u, _DEGREES_AT_PLACES))


def _by_places(
    counts: Counts, noise: GaussianNoise, t: FloatArray, excess: FloatArray, sign: FloatArray
) -> FloatArray:
    """Tails beside narrow noise where X varies little, around each whole number; or NaN.

    Rows of like n and one whole number k nearest to t share the sums over the reach of the noise,
    which are polynomials in t: for each n where these are few whole numbers, or else interpolated
    in n, over what P(X = k) falls by, where the last coefficients show that the degree suffices.
    """
    found = np.full(t.size, np.nan)
    middle = np.rint(t)
    suits = (sign * excess >= 0.0) & (counts.variance < _LITTLE)
    at = np.flatnonzero(suits & (middle >= 0.0) & (middle <= counts.last))
    if at.size < _WORTHWHILE:
        return found
    # with a step of one, the mean moves by about the standard deviation of X
    one = counts.take(at[:1])
    unit = (2.0 * one.mean / np.sqrt(one.variance * one[0]))[0]
    depth = unit * np.sqrt(counts[0][at])
    low, k, up = np.floor(depth), middle[at], sign[at] > 0.0
    key = (low * (k.max() + 1.0) + k) * 2.0 + up
    order = np.argsort(key, kind="stable")
    places = [
        _Place.of(cell, counts[0][at[cell]], low[cell[0]], unit)
        for cell in np.split(order, np.flatnonzero(np.diff(key[order])) + 1)
    ]
    places = [place for place in places if place.is_worthwhile]
    if not places:
        return found
    nodes = np.concatenate([place.nodes for place in places])
    first = np.repeat([place.rows[0] for place in places], [place.nodes.size for place in places])
    law = type(counts)(nodes, *(x.ravel()[0, ...] for x in counts[1:]))
    noise = noise._take(np.zeros(1, dtype=np.intp)) if noise.shape else noise
    away, sigma = law.excess(k[first]), np.full(nodes.size, np.ravel(noise.sigma)[0])
    lines = Lines(law, sigma, k[first], away, sign[at][first])
    tables = lines.polynomials(noise)
    scale, ends = np.exp(law.log_decline(away)), np.cumsum([place.nodes.size for place in places])
    for place, end in zip(places, ends, strict=True):
        own, rows = slice(end - place.nodes.size, end), at[place.rows]
        u = 2.0 * (depth[place.rows] - low[place.rows[0]]) - 1.0
        terms = place.terms(tables[:, own], scale[own], counts[0][rows], u)
        part = t[rows] - middle[rows]
        found[rows] = chebval(2.0 * sign[rows] * part, terms, tensor=False)
        if not place.whole:
            found[rows] *= np.exp(-counts.take(rows).log_decline(excess[rows] - part))
    return found


def _shortened(table: FloatArray, negligible: float) -> FloatArray:
    """Leave out the last degrees that are negligible."""
    rows, columns = (np.abs(table) > negligible).nonzero()
    return table[: rows.max(initial=-1) + 1, : columns.max(initial=-1) + 1]


def _smooth_tail(
    counts: Counts,
    noise: GaussianNoise,
    sigma: FloatArray,
    t: FloatArray,
    excess: FloatArray,
    sign: FloatArray,
) -> FloatArray:
    """Tails where many rows share the noise, and sums or integrals of others serve them; or NaN."""
    if not _is_shared(counts, sigma) or sigma[0] < _NARROWEST_SMOOTH:
        return np.full(sigma.size, np.nan)
    with np.errstate(all="ignore"):
        found = _by_integrals(counts, noise, float(sigma[0]), t, excess, sign)
        left = np.flatnonzero(np.isnan(found))
        if left.size and sigma[0] < _NARROW:
            some = t[left], excess[left], sign[left]
            found[left] = _by_places(counts.take(left), noise, *some)
        return found


def _by_integrals(
    counts: Counts,
    noise: GaussianNoise,
    sigma: float,
    t: FloatArray,
    excess: FloatArray,
    sign: FloatArray,
) -> FloatArray:
    """Interpolate integrals on a vertical line, one for each period that matters; or NaN."""
    variance, narrow = sigma * sigma, sigma < _NARROW
    turns = int(np.sqrt(_NO_TURN / variance)) if narrow else 0
    # cosines and sines of m times 2πt
    waves: list[FloatArray] = []
    if turns and not noise.is_integer:
        cosine, sine = _circle(2.0 * np.pi * (sign * (t - np.rint(t))))
        waves = [cosine, sine]
        while len(waves) < 2 * turns:
            x, y = waves[-2:]
            waves += [x * cosine - y * sine, x * sine + y * cosine]

    def method(law: Counts, distance: FloatArray, sign: FloatArray) -> FloatArray:
        away, own = sign * distance, np.full(distance.size, sigma)
        lines = Lines(law, own, law.mean + away, away, sign)
        found = lines.by_turns(noise, turns) if narrow else lines.by_rule(noise)
        return found * np.exp(0.5 * np.square(distance) / (law.variance + variance))

    z = sign * excess / np.sqrt(counts.variance + variance)
    return _by_surface(counts, variance, z, sign, method, waves) * np.exp(-0.5 * np.square(z))


def _beyond_reach(lines: Lines) -> FloatArray:
    """P(X beyond the reach of narrow noise around t)/P(X = the last within)."""
    counts, sigma, t, excess, sign = lines

    def method(law: Counts, distance: FloatArray, sign: FloatArray) -> FloatArray:
        away = sign * distance
        return _beyond(law, law.mean + away, away, sign, Fall._integral)

    narrow = sigma < _NARROW
    found = np.full(t.size, np.nan)
    if narrow.all() and _is_shared(counts, sigma):
        away = sign * (excess + (np.rint(t) - t)) + _reach(sigma)
        found = _by_surface(counts, 0.0, away / np.sqrt(counts.variance), sign, method)
    left = np.flatnonzero(np.isnan(found) & narrow)
    for start in range(0, left.size, _LINES):
        rows = left[start : start + _LINES]
        law, end = counts.take(rows), np.rint(t[rows]) + sign[rows] * _reach(sigma[rows])
        found[rows] = _beyond(law, end, law.excess(end), sign[rows], Fall.value)
    return found
