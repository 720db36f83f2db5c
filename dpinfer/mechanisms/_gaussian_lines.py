"""Integrals and sums that give a tail of a count with Gaussian noise, discrete or not.

P(T >= t) is an integral of E[exp(zT)]·exp(-zt)/z over a vertical line through the saddle point c
of the integrand, by the trapezoidal rule. With the step 2π/L the rule is, exactly,
Σ_m exp(-mcL)·P(T >= t - mL): what is left out of that sum is bounded by tails of the tilted law of
T beyond L, whose mean is t, by Bernstein's inequality; where t - L is below the mean, what is known
of the terms is 1 less such a tail. Narrow noise is summed over its reach around t instead, and the
tail of X beyond it is added: the terms are log-concave, and fall off on either side of the largest
at least as fast as the noise does. Both tails at once, where they are not small, are 1 less what is
between them: one sum on the imaginary line, without a saddle point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebvander

from dpinfer._check import FloatArray
from dpinfer._numerics.counts import bernstein_radius
from dpinfer._numerics.lattice import batches
from dpinfer.mechanisms._row_tails import Counts, Fall, Rows, Rule, Trials, tail_rule
from dpinfer.mechanisms.laws import DiscreteGaussian, Gaussian

GaussianNoise = Gaussian | DiscreteGaussian

_BLOCK = 1 << 15
"""Terms held at a time, so that they stay in the cache."""

LINES = _BLOCK // 8
"""Rows at a time, for the same reason."""

NARROW = 1.5
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

MANY = 225.0
"""From this variance V of X on, eleven cumulants give its characteristic function to 1e-16.

The first term left out is at most V·(12/(eV))⁶/12! once exp(-Vy²/2) has made it smaller.
"""

NARROWEST = 0.5
"""From this σ on no more than two multiples of the period of X on a side matter."""

_SMALLEST_TURN = 1e-17

_WRAPPED = 42.0
"""What wraps around there is less than 2·e^-42 = 1e-18."""


def within(
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


def between(
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
    most = int(np.sqrt(2.0 * (_DEPTH + 2.0)) / (2.0 * np.pi * NARROWEST) + 0.1)
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
        (cos_a, sin_a), (cos_b, sin_b) = circle(angle), circle((0.5 * width[at]) * y)
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


def circle(x: FloatArray) -> tuple[FloatArray, FloatArray]:
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
        found = np.empty((parts_of(noise), self.t.size))
        for sign in (1.0, -1.0):
            rows = np.flatnonzero(self.sign == sign)
            if rows.size:
                some = self.take(rows)
                end = some.t + sign * reach_of(some.sigma)
                beyond = tail_ratio(
                    some.counts, end, some.counts.excess(end), some.sign, Fall.value
                )
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
        middle, reach = np.rint(self.t), reach_of(self.sigma)
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
        degrees = parts_of(noise) if polynomials else 1
        tail, at = np.empty((degrees, self.t.size)), np.arange(self.t.size)
        for rows in batches(back + reach + 1.0, _BLOCK):
            before = back[rows].max()
            steps = np.arange(-before, reach[rows].max() + 1.0)[:, np.newaxis]
            place = (sign * (anchor - middle)[rows] + before).astype(np.intp)
            masses = _masses(counts.take(rows), middle[rows] + sign * steps, sign, place)
            if polynomials:
                total = sums_at(_noise_table(noise, steps).T, masses)
            else:
                part = sign * (self.t - middle)[rows]
                weights = _reached(taken(noise, rows), steps, part, reach[rows], fall[rows])
                total = np.einsum("ij,ij->j", masses, np.broadcast_to(weights, masses.shape))
                total = total[np.newaxis]
            end = (reach[rows] + before).astype(np.intp)
            total[0] += masses[end, at[: rows.size]] * beyond[rows]
            tail[:, rows] = size[rows] * total
        return np.where(fall < _MOST_FALL, tail, np.nan) if polynomials else tail[0]


def taken(noise: GaussianNoise, rows: Rows) -> GaussianNoise:
    return noise._take(rows) if noise.shape else noise


def _blocks(lengths: FloatArray) -> Iterator[tuple[Rows, FloatArray]]:
    """Yield rows of like lengths with 0, 1, … up to the longest, a column; none of length 0."""
    for rows in batches(lengths, _BLOCK):
        yield rows, np.arange(lengths[rows[-1]])[:, np.newaxis]


def _blocks_of(variance: FloatArray, lengths: FloatArray) -> Iterator[tuple[Rows, FloatArray]]:
    """Yield the same, rows of which cumulants say enough apart from others."""
    many = variance >= MANY
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
        if float(law.variance.min()) < MANY:
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


def reach_of(sigma: FloatArray) -> FloatArray:
    return np.ceil(_REACH * sigma + 0.5)


def tail_ratio(
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
        return sums_at(_noise_table(noise, steps), polynomials(2.0 * part, parts_of(noise)))
    return np.where(steps <= reach, noise._cdf(steps - part), 0.0)


def parts_of(noise: GaussianNoise) -> int:
    """Chebyshev nodes that give the noise between two whole numbers to 1e-17."""
    return 1 if noise.is_integer else int(9.0 + 6.0 / min(float(np.ravel(noise.sigma)[0]), _SMOOTH))


def _noise_table(noise: GaussianNoise, steps: FloatArray) -> FloatArray:
    """Chebyshev coefficients of P(e <= step - part) in twice the part, for a column of steps."""
    if noise.is_integer:
        return noise._cdf(steps)
    nodes, fit = chebyshev(parts_of(noise))
    return np.asarray(noise._cdf(steps - 0.5 * nodes) @ fit.T)


# Chebyshev's polynomials.

_ONE_THREAD = 1 << 17
"""Half of the multiplications from which on OpenBLAS starts threads."""


@cache
def chebyshev(size: int) -> tuple[FloatArray, FloatArray]:
    """Return Chebyshev's nodes, and what takes values there to coefficients."""
    angle = np.pi * (np.arange(size) + 0.5) / size
    fit = np.cos(np.outer(np.arange(size), angle)) * (2.0 / size)
    fit[0] *= 0.5
    return np.cos(angle), fit


def sums_at(table: FloatArray, terms: FloatArray) -> FloatArray:
    """Return the product of coefficients, (k, degrees), and Chebyshev's polynomials at points.

    In pieces that need no other thread, which might be waited for long.
    """
    step, terms = max(1, _ONE_THREAD // table.size), terms[: table.shape[1]]
    pieces = (terms[:, start : start + step] for start in range(0, terms.shape[1], step))
    return np.concatenate([table @ piece for piece in pieces], axis=1)


def polynomials(x: FloatArray, size: int) -> FloatArray:
    return np.asarray(chebvander(x, size - 1).T, dtype=np.float64)
