"""Tails of noisy counts and their slopes in the parameter, for many rows at once.

With kernel K(d) = P(e <= d), P(T >= t) = Σ_k P(X = k)·K(k - t). Where noise is narrower than the
law of X, the sum is over the reach of the noise around t only, of K(k - t) - 1{k >= t}, and
P(X >= t) is added. The lower tail is the mirror image. Both factors of a term are multiplied by
the lift of the kernel, and so are tails and slopes, by its square.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray
from dpinfer._numerics.counts import LOG_NEGLIGIBLE, binom_radius, poisson_radius
from dpinfer._numerics.lattice import batches
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms._noisy_count import MOST_WORK, largest_term, work_at_a_point
from dpinfer.mechanisms._row_tails import Counts, Events, Rows, Trials, count_tails
from dpinfer.mechanisms.law import ContinuousLaw, NoiseLaw
from dpinfer.mechanisms.laws import DiscreteGaussian

_SMALL = 1e4
_NEAR = 4.0
"""SciPy's incomplete gamma function is off beyond 4.5 standard deviations of large counts."""


@dataclass(frozen=True, eq=False)
class BinomialCounts:
    """Counts X of ``nobs`` trials, shape (m,); the parameter θ is the probability of success.

    ``largest`` is the largest θ, ``last`` the largest count, ``scale`` the mean where θ is 1.
    """

    nobs: FloatArray
    approximate: ClassVar[str] = "wilson"

    @property
    def largest(self) -> FloatArray:
        return np.ones(self.nobs.shape)

    @property
    def last(self) -> FloatArray:
        return self.nobs

    @property
    def scale(self) -> FloatArray:
        return self.nobs

    @property
    def columns(self) -> list[FloatArray]:
        """What is known of the law of each row."""
        return [self.nobs]

    def take(self, rows: Rows) -> BinomialCounts:
        return BinomialCounts(self.nobs[rows])

    def law(self, theta: FloatArray) -> Trials:
        return Trials(self.nobs, theta, 1.0 - theta)

    def score_root(
        self, count: FloatArray, z: FloatArray, quantile: FloatArray, sign: int
    ) -> FloatArray:
        """θ with (count - n·θ)² = z²·n·θ·(1 - θ) + quantile²: the larger one where ``sign`` is 1.

        Where there is none, ±inf, on the side of the count.
        """
        p, share = count / self.nobs, np.square(z) / self.nobs
        inside = share * (p * (1.0 - p) + 0.25 * share) + (1.0 + share) * np.square(
            quantile / self.nobs
        )
        root = (p + 0.5 * share + sign * np.sqrt(np.maximum(inside, 0.0))) / (1.0 + share)
        return np.where(inside >= 0.0, root, np.copysign(np.inf, p))

    def radius(self, centre: FloatArray, log_ratio: float) -> FloatArray:
        """Distance from a count within which the probability falls by e^-log_ratio."""
        # Hoeffding's bound on the mass is the tighter one where p is near 1/2
        hoeffding = np.ceil(np.sqrt(0.5 * log_ratio * self.nobs)) + 1.0
        return np.minimum(binom_radius(centre, self.nobs, log_ratio), hoeffding)

    def head(self, j: FloatArray, theta: FloatArray, side: int) -> tuple[FloatArray, FloatArray]:
        """P(X >= j) (side 1) or P(X < j) (side -1) for 1 <= j <= last, and its derivative."""
        slope = side * j * self.law(theta).pmf(j) / theta
        if side > 0:
            return np.asarray(special.betainc(j, self.nobs - j + 1.0, theta)), slope
        q = 1.0 - theta
        mirrored = special.betainc(self.nobs - j + 1.0, j, q)
        # what rounding 1 - θ has changed matters where θ is small
        return np.asarray(mirrored + slope * (theta - (1.0 - q))), slope


@dataclass(frozen=True, eq=False)
class PoissonCounts:
    """Poisson counts in ``size`` rows; θ is the expected count. Methods as of BinomialCounts."""

    size: int
    approximate: ClassVar[str] = "score"

    @property
    def largest(self) -> FloatArray:
        return np.full(self.size, np.inf)

    last = largest

    @property
    def scale(self) -> FloatArray:
        return np.ones(self.size)

    @property
    def columns(self) -> list[FloatArray]:
        return []

    def take(self, rows: Rows) -> PoissonCounts:
        return PoissonCounts(rows.size)

    def law(self, theta: FloatArray) -> Events:
        return Events(theta)

    def score_root(
        self, count: FloatArray, z: FloatArray, quantile: FloatArray, sign: int
    ) -> FloatArray:
        """θ with (count - θ)² = z²·θ + quantile²."""
        square = np.square(z)
        inside = square * (count + 0.25 * square) + np.square(quantile)
        root = count + 0.5 * square + sign * np.sqrt(np.maximum(inside, 0.0))
        return np.where(inside >= 0.0, root, np.copysign(np.inf, count))

    def radius(self, centre: FloatArray, log_ratio: float) -> FloatArray:
        return poisson_radius(centre, log_ratio)

    def head(self, j: FloatArray, theta: FloatArray, side: int) -> tuple[FloatArray, FloatArray]:
        law = self.law(theta)
        tail = np.asarray(special.gammainc(j, theta) if side > 0 else special.gammaincc(j, theta))
        far = np.abs(j - theta) >= _NEAR * np.sqrt(theta)
        wrong = np.flatnonzero(far & (np.maximum(j, theta) >= _SMALL))
        tail[wrong] = count_tails(law.take(wrong), j[wrong] - 1.0)[side < 0]
        return tail, side * j * law.pmf(j) / theta


CountFamily = BinomialCounts | PoissonCounts


# The probability that noise takes a count to a published value or beyond it.


_LARGEST_TABLE = 1 << 20
"""Longest table of probabilities, to bound memory."""

_NEGLIGIBLE = 1e-17
"""Tails of the noise below this share of the wanted probability are left out."""

_SMALLEST = 5e-324

_DEEP = 1e-100
"""Below, factors of the terms may leave the range of floats while the terms matter."""

_LARGEST_LIFT = 300.0
"""The product of two numbers up to e^300 is in the range of floats, with room for slopes."""


class Kernel:
    """P(e <= d) for noise e, or with ``mid`` P(e < d) + P(e = d)/2, times e^log_lift.

    The lift is 0 but where very small probabilities are wanted: of a sum whose terms are products
    of two probabilities it takes each into the range of floats.
    """

    def __init__(self, noise: NoiseLaw, probability: float, *, mid: bool) -> None:
        self.noise = noise
        self.mid = mid
        deep = probability < _DEEP
        self.log_lift = min(-0.5 * float(np.log(probability)), _LARGEST_LIFT) if deep else 0.0
        negligible = max(_NEGLIGIBLE * probability, _SMALLEST)
        self.reach: FloatArray = np.ceil(noise._isf(np.asarray(negligible))) + 1.0
        self._table: FloatArray | None = None
        if noise.is_integer and noise.shape == () and self.reach <= _LARGEST_TABLE:
            reach = int(self.reach)
            self._table = self._evaluate(np.arange(-reach, reach + 1).astype(np.float64), noise)

    def __call__(self, d: FloatArray, rows: Rows) -> FloatArray:
        """Evaluate at distances of shape (..., rows.size); those beyond ``reach`` are cut."""
        if self._table is None:
            return self._evaluate(d, self.noise.take(rows) if self.noise.shape else self.noise)
        place = np.clip(d, -self.reach, self.reach) + self.reach
        return np.asarray(self._table.take(place.astype(np.int32)))

    def upwards(self, d: FloatArray, rows: Rows) -> FloatArray:
        """Evaluate at distances that rise by 1 along the first axis of two.

        Masses of discrete Gaussian noise cost less than its tails: they are added up.
        """
        if self._table is not None or not isinstance(self.noise, DiscreteGaussian):
            return self(d, rows)
        noise = self.noise._take(rows) if self.noise.shape else self.noise
        mass = np.exp(noise._logpmf(d) + self.log_lift)
        at_most = mass.copy()
        at_most[0] = np.exp(noise._logcdf(d[0]) + self.log_lift)
        np.cumsum(at_most, axis=0, out=at_most)
        return at_most - 0.5 * mass if self.mid else at_most

    def _evaluate(self, d: FloatArray, noise: NoiseLaw) -> FloatArray:
        if self.log_lift:
            at_most = np.exp(noise._logcdf(d) + self.log_lift)
            below = np.exp(noise._logsf(-d) + self.log_lift) if self.mid else at_most
        else:
            at_most = noise._cdf(d)
            below = noise._sf(-d) if self.mid else at_most
        # by symmetry P(e < d) = P(e > -d)
        return np.asarray(0.5 * (at_most + below) if self.mid else at_most)


_BLOCK = 1 << 16
"""Largest number of terms held at a time, so that they stay in the cache."""

_LONGEST = 1 << 12
"""Longest product of ratios, to bound its rounding error."""

_LOG_NEGLIGIBLE = 37.0
_TINY = 1e-290

_WORK_FOR_EACH = 1 << 17
"""Work that each of many rows may take, some 10 ms."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyTails:
    """Tails P(T >= t) (side 1) or P(T <= t) (side -1) of T = X + e in m rows."""

    family: CountFamily
    kernel: Kernel
    t: FloatArray
    side: int
    probability: float

    def lifted(self, probability: float) -> float:
        """Return a tail probability in the units of :meth:`at`."""
        lift = float(np.exp(self.kernel.log_lift))
        return probability * lift * lift

    @property
    def smaller(self) -> NoisyTails:
        """The other tails, with the same roots, where the probability is more than 1/2."""
        noise, mid = self.kernel.noise, self.kernel.mid
        # a sum may have atoms between the whole numbers, which only one of both tails may hold
        complements = mid or noise.is_integer or isinstance(noise, ContinuousLaw)
        if self.probability <= 0.5 or not complements:
            return self
        probability = 1.0 - self.probability
        # P(T >= t) = 1 - P(T <= t - 1) where T is whole
        shift = self.side if noise.is_integer and not mid else 0
        kernel = Kernel(noise, probability, mid=mid)
        return replace(
            self, kernel=kernel, t=self.t - shift, side=-self.side, probability=probability
        )

    def without_spread(self, count: FloatArray) -> FloatArray:
        """Tails where X is ``count`` with probability one."""
        lift = np.exp(self.kernel.log_lift)
        tails = lift * self.kernel(self.side * (count - self.t), np.arange(self.t.size))
        return np.asarray(tails)

    def at(self, theta: FloatArray, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """Tails of some rows at their parameters, and the derivatives."""
        low, high, local = self._windows(theta, rows)
        lengths = np.maximum(high - low + 1.0, 0.0)
        self._check_work(float(lengths.sum()), rows.size)
        tail, slope = self._heads(theta, rows, local)
        for chosen in batches(lengths, _BLOCK):
            add, rise = self._summed(
                theta[chosen], rows[chosen], low[chosen], high[chosen], local[chosen]
            )
            tail[chosen] += add
            slope[chosen] += rise
        return np.clip(tail, 0.0, self.lifted(1.0)), slope

    def _windows(self, theta: FloatArray, rows: Rows) -> tuple[FloatArray, FloatArray, FloatArray]:
        """First and last count whose term matters, and where the noise limits them."""
        family, t = self.family.take(rows), self.t[rows]
        centre = np.minimum(np.floor(family.scale * theta), family.last)
        log_ratio = _LOG_NEGLIGIBLE - float(np.log(self.probability))
        if self.kernel.log_lift:
            # relative to the largest term instead of the most probable count
            centre, log_ratio = self._peaks(centre, theta, rows), LOG_NEGLIGIBLE + 1.0
        radius = family.radius(centre, log_ratio)
        low, high = np.maximum(centre - radius, 0.0), np.minimum(centre + radius, family.last)
        if self.kernel.log_lift:
            low = self._in_range(family, theta, low, centre)
        reach = self.kernel.reach[rows] if self.kernel.reach.ndim else self.kernel.reach
        first, last = np.ceil(t - reach), np.floor(t + reach)
        local = (first > low) | (last < high)
        low = np.where(local, np.maximum(low, first), low)
        high = np.where(local, np.minimum(high, last), high)
        return low, high, local.astype(np.float64)

    def _peaks(self, mode: FloatArray, theta: FloatArray, rows: Rows) -> FloatArray:
        """Find the counts with the largest terms, between the mode and t."""
        family, t, noise = self.family.take(rows), self.t[rows], self.kernel.noise
        noise = noise.take(rows) if noise.shape else noise
        upper = self.side > 0
        low = mode if upper else np.clip(np.floor(t), 0.0, mode)
        high = np.clip(np.ceil(t), mode, family.last) if upper else mode
        return largest_term(noise, family.law(theta).ratio, self.side, t, low, high)

    def _in_range(
        self, family: CountFamily, theta: FloatArray, low: FloatArray, peak: FloatArray
    ) -> FloatArray:
        """First counts in windows whose lifted probabilities do not underflow, by bisection."""

        def fails(k: FloatArray) -> NDArray[np.bool_]:
            return family.law(theta).pmf(k, self.kernel.log_lift) < _TINY

        if not fails(low).any():
            return low
        high = np.where(fails(low), peak, low)
        for _ in range(int(np.log2(np.max(high - low) + 1.0)) + 2):
            k = np.floor(0.5 * (low + high))
            wrong = fails(k)
            low, high = np.where(wrong, np.minimum(k + 1.0, high), low), np.where(wrong, high, k)
        return high

    def _heads(
        self, theta: FloatArray, rows: Rows, local: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """P(X >= t) or P(X <= t) in rows where the noise limits the sum, and its slope."""
        tail, slope = np.zeros((2, rows.size))
        at = np.flatnonzero(local)
        if not at.size:
            return tail, slope
        family, t = self.family.take(rows[at]), self.t[rows[at]]
        j = np.ceil(t) if self.side > 0 else np.floor(t) + 1.0
        inside = np.clip(j, 1.0, np.maximum(family.last, 1.0))
        beyond, rise = family.head(inside, theta[at], self.side)
        nothing = j > family.last if self.side > 0 else j < 1.0
        lift = self.lifted(1.0)
        tail[at] = lift * np.where(j == inside, beyond, np.where(nothing, 0.0, 1.0))
        slope[at] = lift * np.where(j == inside, rise, 0.0)
        return tail, slope

    def _summed(
        self, theta: FloatArray, rows: Rows, low: FloatArray, high: FloatArray, local: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Sum over the windows of a few rows, in pieces; the slopes too."""
        family, t = self.family.take(rows), self.t[rows]
        law, mean = family.law(theta), family.scale * theta
        per_unit = family.scale / law.variance
        tail, slope = np.zeros((2, rows.size))
        length = int(np.max(high - low)) + 1
        piece = min(_LONGEST, max(1, _BLOCK // rows.size))
        for start in range(0, length, piece):
            k = low + np.arange(start, min(start + piece, length))[:, np.newaxis]
            d = self.side * (k - t)
            kernel = self.kernel.upwards(d[:: self.side], rows)[:: self.side]
            kernel -= np.exp(self.kernel.log_lift) * local * (d >= 0.0)
            terms = self._pmf(law, k, high)
            terms *= kernel
            tail += terms.sum(axis=0)
            terms *= k - mean
            slope += per_unit * terms.sum(axis=0)
        return tail, slope

    def _pmf(self, law: Counts, k: FloatArray, high: FloatArray) -> FloatArray:
        """P(X = k) for consecutive whole numbers k, and 0 beyond ``high``: products of ratios."""
        pmf = np.empty(k.shape)
        first = law.pmf(np.minimum(k[0], high), self.kernel.log_lift)
        pmf[0] = np.where(k[0] <= high, first, 0.0)
        pmf[1:] = np.where(k[1:] <= high, law.ratio(k[:-1]), 0.0)
        return np.multiply.accumulate(pmf, axis=0, out=pmf)

    def _check_work(self, terms: float, rows: int) -> None:
        """Refuse sums over more counts than can be gone through."""
        work = terms * work_at_a_point(self.kernel.noise)
        if work > max(MOST_WORK, _WORK_FOR_EACH * rows):
            raise InvalidParameterError(
                f"the numbers of trials or events, or the noise, must be smaller for exact "
                f"intervals: the tails of {rows} rows have sums of {terms:.3g} terms, some "
                f"{1e-7 * work:.2g} s of work. Use method={self.family.approximate!r} or "
                "'asymptotic', or fewer rows"
            )
