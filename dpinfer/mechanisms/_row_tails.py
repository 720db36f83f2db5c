"""Tails of noisy counts T = X + e row by row, in a time that does not grow with the counts.

Each row has its own X, binomial or Poisson, and its own symmetric noise e. There are two ways.

*Noise with an edge* (Laplace, geometric, Tulap). With the edge of the noise (see :class:`Edge`)
and a = exp(-rate),

    P(T >= t) = near·A + C - far·B,       C = P(X > k),
    A = Σ_{j<=k} P(X = j)·a^(k-j),        B = Σ_{j>k} P(X = j)·a^(j-k-1).

A and B belong to laws of the same family, whose odds (or rate) are moved by 1/a and a. Each is the
ratio of a tail to its first term, an integral that a Gauss rule has to 1e-13, times P(X = k).

*Gaussian noise*, discrete or not. P(T >= t) is an integral of E[exp(zT)]·exp(-zt)/z over a vertical
line through the saddle point c of the integrand, by the trapezoidal rule. With the step 2π/L the
rule is, exactly, Σ_m exp(-mcL)·P(T >= t - mL): what is left out of that sum is bounded by tails of
the tilted law of T beyond L, whose mean is t, by Bernstein's inequality; where t - L is below the
mean, what is known of the terms is 1 less such a tail. Narrow noise is summed over its reach
around t instead, and the tail of X beyond it is added: the terms are log-concave, and fall off on
either side of the largest at least as fast as the noise does. Both tails at once, where they are
not small, are 1 less what is between them: one sum on the imaginary line, without a saddle point.

Ends of intervals search for parameters, with slopes, to any probability and for any noise: they
take the laws of counts from here, and add up terms (``intervals/_count_tails.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from math import factorial
from typing import NamedTuple, TypeGuard

import numpy as np
from numpy.polynomial.chebyshev import chebval, chebvander
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer._numerics.counts import (
    LOG_SMALLEST,
    bernstein_radius,
    binom_pmf,
    binom_radius,
    deviance,
    exact_product,
    poisson_pmf,
    poisson_radius,
    stirling_error,
)
from dpinfer._numerics.lattice import batches
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace
from dpinfer.mechanisms.tulap import Tulap

Rows = NDArray[np.intp]

# Noise whose tails fall by one factor from each whole number to the next.


class Edge(NamedTuple):
    """How noise takes whole numbers j to t or beyond, in m rows.

    The probability is near·a^(k-j) for j <= k and 1 - far·a^(j-k-1) for j > k, with
    a = exp(-rate); ``near`` and ``far`` are at most 1/2.
    """

    k: FloatArray
    rate: FloatArray
    near: FloatArray
    far: FloatArray

    @classmethod
    def of(cls, noise: Laplace | Geometric | Tulap, t: FloatArray, *, mid: bool) -> Edge:
        """Return the edges at published values; with ``mid``, half of the atom at t counts."""
        if not noise.is_integer:
            k = np.floor(t)
            near, far = noise._sf(t - k), noise._sf((k + 1.0) - t)
        elif mid:
            k, near = t, np.asarray(0.5)
            far = 0.5 * (noise._sf(np.zeros(())) + noise._sf(np.ones(())))
        else:
            k = t - 1.0
            near = far = noise._sf(np.zeros(()))
        rate = 1.0 / np.asarray(noise.scale)
        return cls(k, *(np.broadcast_to(x, t.shape) for x in (rate, near, far)))

    def mirrored(self, nobs: FloatArray) -> Edge:
        """Return the edges of the other tail, in numbers of failures."""
        return Edge(nobs - self.k - 1.0, self.rate, self.far, self.near)

    def take(self, rows: Rows) -> Edge:
        return Edge(*(column[rows] for column in self))


def has_edge(noise: NoiseLaw) -> TypeGuard[Laplace | Geometric | Tulap]:
    """Whether the tails of a noise fall by one factor from each whole number to the next."""
    if isinstance(noise, Tulap):
        return not np.any(noise.truncation)
    return isinstance(noise, Laplace | Geometric)


_LARGEST_RATE = 400.0
"""A fall by e^-400 is as good as one to nothing; the odds remain finite."""


# The ratio of a tail of counts to its first term.


class Rule(NamedTuple):
    """Gauss-Legendre nodes, a column, and weights on [0, 1], for a fall by e^-``depth``."""

    nodes: FloatArray
    weights: FloatArray
    depth: float


def gauss_rule(size: int, depth: float) -> Rule:
    nodes, weights = np.polynomial.legendre.leggauss(size)
    return Rule(0.5 * (1.0 + nodes)[:, np.newaxis], 0.5 * weights, depth)


@cache
def _rule() -> Rule:
    """Return the rule for tails to 1e-13."""
    return gauss_rule(28, 34.0)


_WIDEST = 0.98
_LONGEST = 40.0
_NARROWINGS = 3
_TINY = 1e-300

_STEEP = 500.0
"""From here on (1 - x)^alpha and (1 + gamma·x)^beta cancel too many digits of each other."""

_SMALL = 0.08
_TERMS = 16

_FEW, _MOST_TERMS = 256.0, 256
"""Where the rarer outcome is as rare, terms are added up, if they are no more than so many."""


class Fall(NamedTuple):
    """The ratio factor·∫ (1 - x)^alpha·(1 + gamma·x)^beta·exp(-mu·x) dx, in m rows.

    Where it ends and mu is 0 it is 1 + r₁ + r₁r₂ + …, rᵢ = gamma·(beta + 1 - i)/(factor + i).

    The integral ends at 1, or where not ``ends``, nowhere; ``slope`` is that of the integrand's
    negative logarithm at 0: alpha - beta·gamma + mu, without cancellation.
    """

    factor: FloatArray
    alpha: FloatArray
    beta: FloatArray
    gamma: FloatArray
    mu: FloatArray
    slope: FloatArray
    ends: NDArray[np.bool_]

    def either(self, other: Fall, first: NDArray[np.bool_]) -> Fall:
        """Return these integrals or others."""
        return Fall._make(np.where(first, x, y) for x, y in zip(self, other, strict=True))

    def take(self, rows: Rows) -> Fall:
        return Fall._make(column[rows] for column in self)

    def value(self, rule: Rule) -> FloatArray:
        """Return the ratios, as exact as the rule; of few binomial counts term by term."""
        few = self.ends & (self.mu == 0.0) & (np.minimum(self.factor, self.beta) <= _FEW)
        if few.all():
            ratio = self._summed(rule.depth)
        else:
            ratio, rows = np.full(few.size, np.nan), np.flatnonzero(few)
            ratio[rows] = self.take(rows)._summed(rule.depth)
        if (left := np.flatnonzero(np.isnan(ratio))).size:
            ratio[left] = self.take(left)._integral(rule)
        return ratio

    def _summed(self, depth: float) -> FloatArray:
        """Sum terms until they have fallen further than for a rule; NaN where there are too many.

        Of n terms that fell to e^-36 the last few fell by e^(-36/n) at least, so that those left
        out are n/36 times the last one at most. No row has more terms for being among others.
        """
        least = np.exp(-1.2 * depth)
        total, term = np.ones(self.beta.size), np.ones(self.beta.size)
        left, following = self.beta.copy(), self.factor + 1.0
        more = np.ones(self.beta.size, dtype=bool)
        for count in range(_MOST_TERMS):
            term *= self.gamma
            term *= left
            term /= following
            total += term
            left -= 1.0
            following += 1.0
            if count % 4 == 3:
                term *= (more := term > least)
                if not more.any():
                    break
        return np.where(more, np.nan, total)

    def _integral(self, rule: Rule) -> FloatArray:
        width = self._width(rule.depth)
        steep = (self.alpha * width > _STEEP) & (width * np.maximum(self.gamma, 1.0) < _SMALL)
        if not steep.any():
            return self._direct(width, rule)
        if steep.all():
            return self._series(width, rule)
        ratio = np.empty(width.size)
        for rows, method in ((~steep, Fall._direct), (steep, Fall._series)):
            at = np.flatnonzero(rows)
            ratio[at] = method(self.take(at), width[at], rule)
        return ratio

    def _direct(self, width: FloatArray, rule: Rule) -> FloatArray:
        x = rule.nodes * width
        exponent = np.log1p(-x, where=self.ends, out=np.zeros(x.shape))
        exponent *= self.alpha
        exponent -= self.mu * x
        x *= self.gamma
        np.log1p(x, out=x)
        x *= self.beta
        exponent += x
        np.exp(exponent, out=exponent)
        return np.asarray(self.factor * width * (rule.weights @ exponent))

    def _series(self, width: FloatArray, rule: Rule) -> FloatArray:
        """-ln(1 - x) - x = x²/2 + x³/3 + …, and the same of -gamma·x."""
        x = rule.nodes * width
        exponent = self.alpha * np.square(x) * _beyond_linear(x)
        exponent += self.slope * x
        x *= -self.gamma
        exponent += self.beta * np.square(x) * _beyond_linear(x)
        np.negative(exponent, out=exponent)
        np.exp(exponent, out=exponent)
        return np.asarray(self.factor * width * (rule.weights @ exponent))

    def _width(self, depth: float) -> FloatArray:
        """Where the integrand has fallen to about e^-``depth``, or 1."""
        # from the slope and the curvature at 0
        curvature = self.alpha + self.beta * np.square(self.gamma)
        root = self.slope + np.sqrt(np.square(self.slope) + 2.0 * depth * curvature)
        width = 2.0 * depth / np.maximum(root, _TINY)
        width = np.where(self.ends, np.minimum(width, _WIDEST), width)
        # Newton's method: the fall is convex in s = -ln(1 - x), or where nothing ends, in x
        s = np.where(self.ends, -np.log1p(-np.minimum(width, _WIDEST)), width)
        for _ in range(_NARROWINGS):
            rise = 1.0 + self.gamma * width
            inner = np.where(self.ends, 1.0 - width, 1.0)
            slope = self.alpha + (self.mu - self.beta * self.gamma / rise) * inner
            fall = self.alpha * np.where(self.ends, s, 0.0) + self.mu * width
            s = s - (fall - self.beta * np.log(rise) - depth) / np.maximum(slope, _TINY)
            s = np.where(self.ends, np.clip(s, 0.0, _LONGEST), s)
            width = np.where(self.ends, -np.expm1(-s), s)
        return width


def _beyond_linear(x: FloatArray) -> FloatArray:
    """1/2 + x/3 + x²/4 + …, which is (-ln(1 - x) - x)/x²."""
    out = np.full(x.shape, 1.0 / _TERMS)
    for j in range(_TERMS - 1, 1, -1):
        out *= x
        out += 1.0 / j
    return out


# The laws of the counts, and what tilting makes of them.


def _at(parameter: FloatArray, rows: Rows) -> FloatArray:
    return parameter[rows] if parameter.ndim else np.broadcast_to(parameter, rows.shape)


class Trials(NamedTuple):
    """Binomial counts; the mean is n·p, and q = 1 - p."""

    n: FloatArray
    p: FloatArray
    q: FloatArray

    @property
    def last(self) -> FloatArray:
        return self.n

    @property
    def mean(self) -> FloatArray:
        return self.n * self.p

    @property
    def variance(self) -> FloatArray:
        return self.n * self.p * self.q

    @property
    def mode(self) -> FloatArray:
        return np.minimum(np.floor((self.n + 1.0) * self.p), self.n)

    def take(self, rows: Rows) -> Trials:
        return Trials(*(_at(column, rows) for column in self))

    def excess(self, t: FloatArray) -> FloatArray:
        """T less the mean, to full precision."""
        mean, error = exact_product(self.n, self.p)
        return np.asarray((t - mean) - error)

    def log_decline(self, excess: FloatArray) -> FloatArray:
        """Log of P(X = k) where the mean is k, less that where k is ``excess`` above the mean."""
        yes, no = self.n * self.p, self.n * self.q
        return np.asarray(yes * deviance(excess / yes) + no * deviance(-excess / no))

    def peak(self, k: FloatArray) -> FloatArray:
        """P(X = k) where the mean is k, for 0 <= k <= last."""
        inner, rest = np.maximum(k, 1.0), self.n - k
        log = stirling_error(np.maximum(self.n, 1.0)) - stirling_error(inner)
        log -= stirling_error(rest)
        found = np.exp(log) * np.sqrt(self.n / (2.0 * np.pi * inner * rest))
        return np.where((k == 0.0) | (rest == 0.0), 1.0, found)

    def pmf(self, k: FloatArray, log_lift: float = 0.0) -> FloatArray:
        """P(X = k) for whole numbers 0 <= k <= last, times e^log_lift."""
        return binom_pmf(k, self.n, self.p, log_lift)

    def radius(self, centre: FloatArray, log_ratio: float) -> FloatArray:
        """Distance from a count within which the probability falls by e^-log_ratio."""
        return binom_radius(centre, self.n, log_ratio)

    def ratio(self, k: FloatArray) -> FloatArray:
        """P(X = k + 1)/P(X = k)."""
        return (self.n - k) / (k + 1.0) * (self.p / self.q)

    def tilt(self, mean: FloatArray) -> FloatArray:
        """Log of the growth of the odds that takes the mean to a number, NaN out of the range."""
        return np.asarray(np.log(mean / (self.n - mean)) - np.log(self.p / self.q))

    def log_rest(self, sign: FloatArray) -> FloatArray:
        """Log of what a tilt by c, times e^c, at most leaves between the mean and the end of X."""
        return np.log(self.n) - sign * np.log(self.p / self.q)

    def moved(self, rate: FloatArray) -> tuple[Trials, FloatArray]:
        """Laws whose log-odds are ``rate`` larger, and by how much the mean grows."""
        yes = self.p * np.exp(rate)
        p, q = yes / (self.q + yes), self.q / (self.q + yes)
        return Trials(self.n, p, q), self.n * self.p * q * np.expm1(rate)

    def above(self, k: FloatArray, excess: FloatArray) -> Fall:
        """P(X > k)/P(X = k + 1), for k + 1 not below the mean."""
        nothing = np.zeros(k.shape)
        slope = (excess + self.p) / self.q
        rest = self.n - k - 1.0
        return Fall(k + 1.0, k, rest, self.p / self.q, nothing, slope, nothing == 0.0)

    def below(self, k: FloatArray, excess: FloatArray) -> Fall:
        """P(X <= k)/P(X = k), for k below the mean."""
        nothing = np.zeros(k.shape)
        slope = -(excess + self.p) / self.p
        rest = self.n - k
        return Fall(rest, rest - 1.0, k, self.q / self.p, nothing, slope, nothing == 0.0)

    def log_discounted(self, rate: FloatArray, *, failures: bool) -> FloatArray:
        """Log E[exp(-rate·X)], or of the number of failures, last - X, in place of X."""
        share, rest = (self.q, self.p) if failures else (self.p, self.q)
        fall = share * np.expm1(-rate)
        log = np.where(fall > -0.5, np.log1p(fall), np.log(rest + share * np.exp(-rate)))
        return np.asarray(self.n * log)

    def log_modulus(self, half_sine: FloatArray) -> FloatArray:
        """Log abs(E[exp(iyX)]) where sin(y/2)² is given."""
        log = (-4.0 * self.p * self.q) * half_sine
        np.log1p(log, out=log)
        log *= 0.5 * self.n
        return log

    def phase(self, sine: FloatArray, half_sine: FloatArray, y: FloatArray) -> FloatArray:
        """Argument of E[exp(iy(X - E[X]))]."""
        # of the rarer outcome: both are one but for the sign
        rarer = np.minimum(self.p, self.q)
        base = np.subtract(1.0, 2.0 * rarer * half_sine)
        angle = np.arctan2(rarer * sine, base, out=base)
        angle -= rarer * y
        angle *= np.where(self.p <= self.q, self.n, -self.n)
        return angle

    def cumulants(self) -> tuple[tuple[FloatArray, ...], tuple[FloatArray, ...]]:
        """Return those of the orders 2, 4, ..., 10 and 3, 5, ..., 11."""
        v = self.p * self.q
        even, odd = (
            [first * np.polynomial.polynomial.polyval(v, parts) for parts in table]
            for first, table in (
                (self.n * v, _EVEN_CUMULANTS),
                (self.n * v * (self.q - self.p), _ODD_CUMULANTS),
            )
        )
        return tuple(even), tuple(odd)


_EVEN_CUMULANTS = (
    (1.0,),
    (1.0, -6.0),
    (1.0, -30.0, 120.0),
    (1.0, -126.0, 1680.0, -5040.0),
    (1.0, -510.0, 17640.0, -151200.0, 362880.0),
)
"""Cumulants of one trial over v = pq, in powers of v: each is v·d/dp of the one before."""

_ODD_CUMULANTS = tuple(
    tuple((k + 1.0) * part for k, part in enumerate(parts)) for parts in _EVEN_CUMULANTS
)
"""The same of those that follow, over v·(q - p)."""


class Events(NamedTuple):
    """Poisson counts. Methods as of Trials."""

    rate: FloatArray

    @property
    def last(self) -> FloatArray:
        # the probabilities of what comes after are zero in floats
        return np.floor(self.rate) + poisson_radius(self.rate, LOG_SMALLEST)

    @property
    def mean(self) -> FloatArray:
        return self.rate

    @property
    def variance(self) -> FloatArray:
        return self.rate

    @property
    def mode(self) -> FloatArray:
        return np.floor(self.rate)

    def take(self, rows: Rows) -> Events:
        return Events(_at(self.rate, rows))

    def excess(self, t: FloatArray) -> FloatArray:
        return t - self.rate

    def log_decline(self, excess: FloatArray) -> FloatArray:
        return np.asarray(self.rate * deviance(excess / self.rate))

    def peak(self, k: FloatArray) -> FloatArray:
        inner = np.maximum(k, 1.0)
        found = np.exp(-stirling_error(inner)) / np.sqrt(2.0 * np.pi * inner)
        return np.where(k == 0.0, 1.0, found)

    def pmf(self, k: FloatArray, log_lift: float = 0.0) -> FloatArray:
        return poisson_pmf(k, self.rate, log_lift)

    def radius(self, centre: FloatArray, log_ratio: float) -> FloatArray:
        return poisson_radius(centre, log_ratio)

    def ratio(self, k: FloatArray) -> FloatArray:
        return np.asarray(self.rate / (k + 1.0))

    def tilt(self, mean: FloatArray) -> FloatArray:
        return np.log(mean / self.rate)

    def log_rest(self, sign: FloatArray) -> FloatArray:
        return np.where(sign < 0.0, np.log(self.rate), np.inf)

    def moved(self, rate: FloatArray) -> tuple[Events, FloatArray]:
        return Events(self.rate * np.exp(rate)), self.rate * np.expm1(rate)

    def above(self, k: FloatArray, excess: FloatArray) -> Fall:
        nothing = np.zeros(k.shape)
        return Fall(k + 1.0, k, nothing, nothing, -self.rate, excess, nothing == 0.0)

    def below(self, k: FloatArray, excess: FloatArray) -> Fall:
        nothing = np.zeros(k.shape)
        return Fall(self.rate, nothing, k, nothing + 1.0, self.rate, -excess, nothing > 0.0)

    def log_discounted(self, rate: FloatArray, *, failures: bool) -> FloatArray:
        if not failures:
            return self.rate * np.expm1(-rate)
        known = self.rate * np.exp(rate) < self.last
        return np.where(known, self.rate * np.expm1(rate) - self.last * rate, -np.inf)

    def log_modulus(self, half_sine: FloatArray) -> FloatArray:
        return -2.0 * self.rate * half_sine

    def phase(self, sine: FloatArray, half_sine: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(self.rate * (sine - y))

    def cumulants(self) -> tuple[tuple[FloatArray, ...], tuple[FloatArray, ...]]:
        return (self.rate,) * 5, (self.rate,) * 5


Counts = Trials | Events


# Tails of counts, by themselves and with noise that has an edge.

_BLOCK = 1 << 15
"""Terms held at a time, so that they stay in the cache."""

_ROWS = _BLOCK // 16
"""Rows with an edge at a time, for the same reason."""

_LINES = _BLOCK // 8
"""Rows with Gaussian noise at a time."""


def count_tails(counts: Counts, k: FloatArray) -> tuple[FloatArray, FloatArray]:
    """P(X > k) and P(X <= k) for whole numbers k."""
    above, below = (k < 0.0).astype(np.float64), (k >= counts.last).astype(np.float64)
    inside = np.flatnonzero((k >= 0.0) & (k < counts.last))
    with np.errstate(all="ignore"):
        for start in range(0, inside.size, _ROWS):
            rows = inside[start : start + _ROWS]
            [(below[rows], above[rows])] = _sums(counts.take(rows), k[rows], np.zeros((1, 1)))
    return above, below


def edge_tail(counts: Counts, edge: Edge, sign: FloatArray) -> FloatArray:
    """P(T >= t) (sign 1) or P(T <= t) (sign -1); for the latter, the edge of the next larger T."""
    above, below = (edge.k < 0.0).astype(np.float64), (edge.k >= counts.last).astype(np.float64)
    damped_above, damped_below = np.zeros((2, edge.k.size))
    inside = np.flatnonzero((above == 0.0) & (below == 0.0))
    with np.errstate(all="ignore"):
        for outside, sums, failures in ((above, damped_above, False), (below, damped_below, True)):
            rows = np.flatnonzero(outside)
            if rows.size:
                some, rate = counts.take(rows), edge.rate[rows]
                gap = edge.k[rows] - some.last if failures else -1.0 - edge.k[rows]
                sums[rows] = np.exp(some.log_discounted(rate, failures=failures) - gap * rate)
        for start in range(0, inside.size, _ROWS):
            rows = inside[start : start + _ROWS]
            rate = np.minimum(edge.rate[rows], _LARGEST_RATE)
            rates = np.stack([np.zeros(rows.size), rate, -rate])
            found = _sums(counts.take(rows), edge.k[rows], rates)
            (below[rows], above[rows]), (damped_below[rows], _), (_, damped_above[rows]) = found
    near, far = edge.near * damped_below, edge.far * damped_above
    return np.where(sign > 0.0, near + (above - far), far + (below - near))


def _sums(counts: Counts, k: FloatArray, rates: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    """Σ P(X = j)·exp(rate·(j - k)) over j <= k, and Σ P(X = j)·exp(rate·(j - k - 1)) over j > k.

    For each rate, shape (c, m) or (c, 1), and 0 <= k < last. The rates are 0, or positive where the
    first sum matters and negative where the second does.
    """
    excess = counts.excess(k)
    here = counts.peak(k) * np.exp(-counts.log_decline(excess))
    following = here * counts.ratio(k)
    tiled = np.tile(np.arange(k.size), len(rates))
    shape = (len(rates), k.size)
    rate = np.broadcast_to(rates, shape).ravel()
    counts, k, here, following = counts.take(tiled), k[tiled], here[tiled], following[tiled]
    law, gain = counts.moved(rate)
    excess = excess[tiled] - gain
    # of both sums the smaller one is an integral, and the other the rest of the whole
    right = excess >= -0.5
    ratio = law.above(k, excess).either(law.below(k, excess), right).value(_rule())
    whole = np.exp(-rate * excess - counts.log_decline(gain))
    low = np.where(right, whole - following * ratio * np.exp(rate), here * ratio)
    high = np.where(right, following * ratio, (whole - here * ratio) * np.exp(-rate))
    return list(zip(low.reshape(shape), high.reshape(shape), strict=True))


# Tails of counts with Gaussian noise, discrete or not.

GaussianNoise = Gaussian | DiscreteGaussian

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
    tail = _smooth_tail(counts, noise, sigma, excess, sign)
    with np.errstate(all="ignore"):
        beyond = _beyond_reach(counts, sigma, t, excess, sign)
        left = np.flatnonzero(np.isnan(tail))
        # rows of like laws together
        left = left[np.argsort(counts[0][left])] if counts[0].ndim else left
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
        _smooth_tail(counts, noise, sigma, np.where(side * excess >= 0.0, excess, np.nan), side)
        for side, excess in ((-np.ones(low.size), left), (np.ones(low.size), right))
    )
    outside = lower + upper
    spread = np.sqrt(np.square(sigma) + counts.variance)
    near = (np.maximum(-left, right) <= _FURTHEST * spread) & (right >= left)
    inner = np.flatnonzero(near & (sigma >= _NARROW) & np.isnan(outside))
    with np.errstate(all="ignore"):
        for start in range(0, inner.size, _LINES):
            rows = inner[start : start + _LINES]
            ends = left[rows], right[rows]
            both = 1.0 - _within(counts.take(rows), sigma[rows], *ends, noise.is_integer)
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


def _sine(x: FloatArray) -> FloatArray:
    half = np.tan(0.5 * x)
    return np.asarray(2.0 * half / (1.0 + np.square(half)))


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
        c, variance = self._saddle(), np.square(self.sigma)
        law, gain = self.counts.moved(self.sign * np.minimum(c, _MOST_TILT))
        off = self.sign * (gain - self.excess) + variance * c
        height = c * (off - 0.5 * variance * c) - self.counts.log_decline(gain)
        period = bernstein_radius(law.variance + variance, _DEPTH) + np.abs(off)
        step = 2.0 * np.pi / period
        total = np.zeros(c.size)
        count = np.ceil(_extent(law.variance, variance) / step) + 1.0
        for at, y in _blocks_of(law.variance, np.where(height > _LOWEST, count, 0.0)):
            own = (self.sigma[at], self.sign[at], c[at], off[at])
            total[at] = _nodes(law.take(at), *own, y * step[at], noise.is_integer)
        known = np.where(np.abs(self.excess) < period, 1.0 / np.expm1(c * period), 0.0)
        # E[exp(c(T - t))] is exp(height), which may be too small for a factor
        return np.asarray(np.maximum(np.exp(height) * total / period - known, 0.0))

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

    def by_terms(self, noise: GaussianNoise, beyond: FloatArray) -> FloatArray:
        """Sum over the reach of the noise around t, and the tail of X beyond; of one sign.

        ``beyond`` is the latter over the last P(X = k) that is summed.
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
        fall[outside > 0.0] = np.inf
        back = np.minimum(back, np.maximum(middle if sign > 0.0 else last - middle, 0.0))
        end = middle + sign * reach
        first, final = (middle - back, end) if sign > 0.0 else (end, middle + back)
        anchor = np.clip(counts.mode, np.maximum(first, 0.0), np.minimum(final, last))
        size = counts.peak(anchor) * np.exp(-counts.log_decline(counts.excess(anchor)))
        tail = np.empty(self.t.size)
        for rows in batches(back + reach + 1.0, _BLOCK):
            before = back[rows].max()
            steps = np.arange(-before, reach[rows].max() + 1.0)[:, np.newaxis]
            place = (sign * (anchor - middle)[rows] + before).astype(np.intp)
            masses = _masses(counts.take(rows), middle[rows] + sign * steps, sign, place)
            part = sign * (self.t - middle)[rows]
            weights = _reached(_taken(noise, rows), steps, part, reach[rows], fall[rows])
            weights = np.broadcast_to(weights, masses.shape)
            last_one = masses[(reach[rows] + before).astype(np.intp), np.arange(rows.size)]
            tail[rows] = size[rows] * (np.einsum("ij,ij->j", masses, weights) + last_one * beyond[rows])
        return tail


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
    ratio, step = value(fall, _rule()), law.ratio(k)
    inside = np.where(up, end < law.last, end > 0.0)
    return np.where(inside, ratio * np.where(up, step, 1.0 / step), 0.0)


def _masses(counts: Counts, k: FloatArray, sign: float, place: Rows) -> FloatArray:
    """P(X = k) over that in one row, for whole numbers that go up (sign 1) or down."""
    masses = np.ones(k.shape)
    if sign > 0.0:
        ratio, valid = counts.ratio(k[:-1]), k[0] >= 0.0
    else:
        ratio, valid = 1.0 / counts.ratio(k[1:]), k[0] <= counts.last
    if not valid.all():
        valid = k >= 0.0 if sign > 0.0 else k <= counts.last
        ratio[~valid[:-1]] = 1.0
    places = np.arange(place.size)
    if float(place.max()) * np.log(max(float(ratio[0].max()), 1.0)) < _MOST_TILT:
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


def _reached(
    noise: GaussianNoise, steps: FloatArray, part: FloatArray, reach: FloatArray, fall: FloatArray
) -> FloatArray:
    """P(e <= step - part), parts being 1/2 at most, for steps up to the reach."""
    if not noise.shape and noise.is_integer:
        return noise._cdf(steps)
    if not noise.shape and float(noise.sigma) >= _SMOOTH and float(fall.max()) < _SMOOTH_FALL:
        nodes, fit = _chebyshev(_PARTS)
        table = noise._cdf(steps - 0.5 * nodes) @ fit.T
        return np.asarray(table @ chebvander(2.0 * part, _PARTS - 1).T)
    return np.where(steps <= reach, noise._cdf(steps - part), 0.0)


# Rows that differ in their number of trials, or rate, and their t only.

_WORTHWHILE = 1 << 12
_DEGREES = 12, 22
_SLICES = 2.0
_DEEP = 2.0
_DEEPEST = 8.0
_CELLS = 4
_PARTS = 25
_SMOOTH = 0.4
_SMOOTH_FALL = 3.0
_UNRESOLVED = 1e-14
CHECK = []

Method = Callable[[Counts, FloatArray, FloatArray], FloatArray]


@cache
def _chebyshev(size: int) -> tuple[FloatArray, FloatArray]:
    """Return Chebyshev's nodes, and what takes values there to coefficients."""
    angle = np.pi * (np.arange(size) + 0.5) / size
    fit = np.cos(np.outer(np.arange(size), angle)) * (2.0 / size)
    fit[0] *= 0.5
    return np.cos(angle), fit


def _is_shared(counts: Counts, sigma: FloatArray) -> bool:
    if sigma.size < _WORTHWHILE or not counts[0].ndim:
        return False
    return all(bool((x == x.flat[0]).all()) for x in (*counts[1:], sigma))


def _by_surface(
    counts: Counts, variance: float, z: FloatArray, sign: FloatArray, method: Method
) -> FloatArray:
    """Interpolate in n and in the distance from the mean over the spread; NaN where not.

    For each half octave of n, and two units of the distance, Chebyshev's polynomials of two
    variables, where there are more rows than nodes, and the last coefficients are rounding.
    """
    found = np.full(z.size, np.nan)
    sizes, shared = counts[0], [x.flat[0] for x in counts[1:]]
    place, depth = _SLICES * np.log2(sizes), z / _DEEP
    low, step = np.floor(place), np.floor(depth)
    suits = (z >= 0.0) & (z < _DEEPEST) & (low >= 0.0) & (low < 1e3)
    key = np.where(suits, (low * _CELLS + step) * 2.0 + (sign > 0.0), -1.0).astype(np.int16)
    order = np.argsort(key, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(key[order])) + 1, key.size)
    (along, fit), (across, fit_across) = map(_chebyshev, _DEGREES)
    for cell in np.split(order, ends[:-1]):
        one = cell[0]
        if cell.size < 1.3 * along.size * across.size or not suits[one]:
            continue
        grid = 2.0 ** ((low[one] + 0.5 * (1.0 + along)) / _SLICES)
        law = type(counts)(np.repeat(grid, across.size), *shared)
        distance = np.tile(_DEEP * (step[one] + 0.5 * (1.0 + across)), along.size)
        distance *= np.sqrt(law.variance + variance)
        values = method(law, distance, np.full(distance.size, sign[one]))
        table = fit @ values.reshape(along.size, -1) @ fit_across.T
        last = max(np.abs(table[-1]).max(), np.abs(table[:, -1]).max())
        CHECK.append((sizes[one], step[one], np.abs(table[-1]).max()/np.abs(table).max(), np.abs(table[:,-1]).max()/np.abs(table).max()))
        if not last < _UNRESOLVED * np.abs(table).max():
            continue
        for start in range(0, cell.size, _LINES):
            rows = cell[start : start + _LINES]
            u, w = 2.0 * (place[rows] - low[one]) - 1.0, 2.0 * (depth[rows] - step[one]) - 1.0
            inner = table.T @ chebvander(u, along.size - 1).T
            found[rows] = chebval(w, inner, tensor=False)
    return found


def _smooth_tail(
    counts: Counts, noise: GaussianNoise, sigma: FloatArray, excess: FloatArray, sign: FloatArray
) -> FloatArray:
    if not _is_shared(counts, sigma) or sigma[0] < _NARROW:
        return np.full(sigma.size, np.nan)
    variance = float(sigma[0]) ** 2

    def method(law: Counts, distance: FloatArray, sign: FloatArray) -> FloatArray:
        away, own = sign * distance, np.full(distance.size, sigma[0])
        found = Lines(law, own, law.mean + away, away, sign).by_rule(noise)
        return found * np.exp(0.5 * np.square(distance) / (law.variance + variance))

    with np.errstate(all="ignore"):
        z = sign * excess / np.sqrt(counts.variance + variance)
        return _by_surface(counts, variance, z, sign, method) * np.exp(-0.5 * np.square(z))


def _beyond_reach(
    counts: Counts, sigma: FloatArray, t: FloatArray, excess: FloatArray, sign: FloatArray
) -> FloatArray:
    """P(X beyond the reach of narrow noise around t)/P(X = the last within)."""

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


def row_tails(
    counts: Counts, noise: NoiseLaw, t: FloatArray, sign: FloatArray
) -> FloatArray | None:
    """P(T >= t) (sign 1) or P(T <= t) (sign -1), t whole where the noise is; None for other noise.

    The noise is of one kind, with one law or one for each row.
    """
    following = np.where(sign < 0.0, t + 1.0, t) if noise.is_integer else t
    if isinstance(noise, Exact):
        above, below = count_tails(counts, following - 1.0)
        return np.where(sign > 0.0, above, below)
    if has_edge(noise):
        return edge_tail(counts, Edge.of(noise, following, mid=False), sign)
    if isinstance(noise, GaussianNoise):
        return gaussian_tail(counts, noise, t, sign)
    return None
