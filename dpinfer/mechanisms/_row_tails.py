"""Tails of noisy counts T = X + e row by row, in a time that does not grow with the counts.

Each row has its own X, binomial or Poisson, and its own symmetric noise e. Noise has an edge here
(Laplace, geometric, Tulap); for Gaussian noise see ``_gaussian_rows.py``. With the edge of the
noise (see :class:`Edge`) and a = exp(-rate),

    P(T >= t) = near·A + C - far·B,       C = P(X > k),
    A = Σ_{j<=k} P(X = j)·a^(k-j),        B = Σ_{j>k} P(X = j)·a^(j-k-1).

A and B belong to laws of the same family, whose odds (or rate) are moved by 1/a and a. Each is the
ratio of a tail to its first term, an integral that a Gauss rule has to 1e-13, times P(X = k).

Ends of intervals search for parameters, with slopes, to any probability and for any noise: they
take the laws of counts from here, and add up terms (``intervals/_count_tails.py``).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer._numerics.counts import (
    LOG_SMALLEST,
    binom_pmf,
    binom_radius,
    deviance,
    exact_product,
    poisson_pmf,
    poisson_radius,
    stirling_error,
)
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Geometric, Laplace
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
def tail_rule() -> Rule:
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
    ratio = law.above(k, excess).either(law.below(k, excess), right).value(tail_rule())
    whole = np.exp(-rate * excess - counts.log_decline(gain))
    low = np.where(right, whole - following * ratio * np.exp(rate), here * ratio)
    high = np.where(right, following * ratio, (whole - here * ratio) * np.exp(-rate))
    return list(zip(low.reshape(shape), high.reshape(shape), strict=True))
