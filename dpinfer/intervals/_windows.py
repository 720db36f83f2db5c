"""Probabilities of consecutive counts, column by column, and what is read off them.

Columns come first in memory: an operation on a column is one on neighbouring numbers of many rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray
from dpinfer._numerics.counts import bernstein_radius, deviance, stirling_error
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace
from dpinfer.mechanisms.rounded import Rounded
from dpinfer.mechanisms.tulap import Tulap

Point = Literal["pmf", "cdf", "sf"]
"""What is read off at a count."""

_ROUNDING = 1e-12

_WIDE = 64
"""With so many columns for each row, the rows are sorted one by one."""


@dataclass(frozen=True)
class Window:
    """Posterior probabilities of the counts from ``first`` on, for each of n rows."""

    first: FloatArray
    mass: FloatArray
    log_total: Callable[[], FloatArray]
    summit: int | None = None

    @cached_property
    def peak(self) -> NDArray[np.intp]:
        """Column of the most probable count."""
        if self.summit is not None:
            return np.full(self.first.size, self.summit)
        return np.asarray(self.mass.argmax(axis=0))

    @cached_property
    def below(self) -> FloatArray:
        """Probability of all columns up to each."""
        return running(np.add, self.mass)

    @cached_property
    def above(self) -> FloatArray:
        """Probability of each column and all after it, summed from the far end."""
        return running(np.add, self.mass[::-1])[::-1]

    def moments(self) -> FloatArray:
        """Mean, standard deviation and mode, one a line."""
        columns = np.arange(len(self.mass), dtype=np.float64)
        centre = int(np.median(self.peak)) if self.summit is None else self.summit
        offset = (columns - centre) @ self.mass
        square = np.square(columns - centre) @ self.mass - np.square(offset)
        mean = self.first + centre + offset
        std = np.sqrt(np.maximum(square, 0.0))
        return np.stack([mean, std, self.first + self.peak])

    def quantiles(self, q: FloatArray) -> FloatArray:
        """Smallest count with cdf >= q, shape (len(q), n); small tails are summed as tails."""
        out = np.empty((q.size, self.first.size))
        last = len(self.mass) - 1
        for line, level in zip(out, q, strict=True):
            if level <= 0.5:
                line[:] = np.minimum(np.count_nonzero(self.below < level, axis=0), last)
            else:
                beyond = np.count_nonzero(self.above <= 1.0 - level, axis=0)
                line[:] = np.maximum(last - beyond, 0)
        return out + self.first

    def equal_tailed(self, alpha: float) -> FloatArray:
        """Return ends with at most alpha/2 beyond either, and the probability between them."""
        low = np.minimum(np.count_nonzero(self.below <= 0.5 * alpha, axis=0), len(self.mass) - 1)
        high = len(self.mass) - 1 - np.count_nonzero(self.above <= 0.5 * alpha, axis=0)
        return self._ends(low, np.maximum(high, low))

    def shortest(self, alpha: float) -> FloatArray:
        """Return the ends of the shortest run that holds 1 - alpha, and its probability."""
        wide = len(self.mass) > _WIDE * self.first.size
        grow = self._grow_by_order if wide else self._grow_from_peak
        low, high, held = grow(1.0 - alpha)
        several = np.flatnonzero(~self._single_peaked)
        if several.size:
            # a run that grew may have come to a stop between counts without probability
            enough = np.where(held < 1.0 - alpha, len(self.mass), high - low + 1)[several]
            found = _shortest_runs(self.below[:, several], alpha, enough)
            low[several], high[several] = found
        return self._ends(low, high)

    def at(self, k: FloatArray, kind: Point) -> FloatArray:
        """Return pmf, cdf or sf at counts of shape (m, n)."""
        column = np.floor(k) - self.first
        if kind == "pmf":
            return np.where(k == np.floor(k), self._look_up(self.mass, column), 0.0)
        below, above = self._look_up(self.below, column), self._look_up(self.above, column + 1.0)
        above = np.where(column < 0, 1.0, above)
        below = np.where(column >= len(self.mass), 1.0, below)
        # the smaller of the two is a sum without rounding of 1
        if kind == "cdf":
            return np.where(below < above, below, 1.0 - above)
        return np.where(above < below, above, 1.0 - below)

    @cached_property
    def _single_peaked(self) -> NDArray[np.bool_]:
        """Whether the probabilities of a row rise to their peak and fall from it."""
        if self.summit is not None:
            return np.ones(self.first.size, dtype=bool)
        before = np.arange(len(self.mass) - 1)[:, None] < self.peak
        change = np.diff(self.mass, axis=0)
        return np.asarray(~np.where(before, change < 0, change > 0).any(axis=0))

    def _look_up(self, table: FloatArray, column: NDArray[Any]) -> FloatArray:
        place = np.clip(column, 0, len(table) - 1).astype(np.intp)
        inside = (column >= 0) & (column < len(table))
        return np.where(inside, np.take_along_axis(table, place, axis=0), 0.0)

    def _ends(self, low: NDArray[np.intp], high: NDArray[np.intp]) -> FloatArray:
        below = self._look_up(self.below, low[None] - 1)[0]
        inside = self._look_up(self.below, high[None])[0] - below
        return np.stack([self.first + low, self.first + high, np.minimum(inside, 1.0)])

    def _grow_from_peak(
        self, level: float
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], FloatArray]:
        """Take in the more probable neighbour until the level is reached, or both have none."""
        size = self.first.size
        padded = np.zeros((len(self.mass) + 2, size))
        padded[1:-1] = self.mass
        flat = padded.ravel()
        rows = np.arange(size)
        low, high = self.peak + 1, self.peak + 1
        held = flat[low * size + rows]
        open_ = np.flatnonzero(held < level)
        while open_.size:
            left = flat[(low[open_] - 1) * size + open_]
            right = flat[(high[open_] + 1) * size + open_]
            downwards = left >= right
            low[open_] -= downwards
            high[open_] += ~downwards
            held[open_] += np.maximum(left, right)
            # where both neighbours are 0 the window holds no more, but for rounding
            low[open_] += downwards & (left == 0)
            open_ = open_[(held[open_] < level) & (np.maximum(left, right) > 0)]
        return low - 1, high - 1, held

    def _grow_by_order(self, level: float) -> tuple[NDArray[np.intp], NDArray[np.intp], FloatArray]:
        """Do the same for a few wide rows, by sorting those that fall from their peaks."""
        low, high = self.peak.copy(), self.peak.copy()
        held = np.zeros(self.first.size)
        for row in np.flatnonzero(self._single_peaked):
            mass, peak = self.mass[:, row], low[row]
            beside = np.concatenate([mass[:peak][::-1], mass[peak + 1 :]])
            # of equal neighbours the lower one is taken first
            order = np.argsort(-beside, kind="stable")
            sums = np.cumsum(np.concatenate([[mass[peak]], beside[order]]))
            taken = min(int(np.searchsorted(sums, level)), int(np.count_nonzero(beside)))
            downwards = np.count_nonzero(order[:taken] < peak)
            low[row], high[row] = peak - downwards, peak + taken - downwards
            held[row] = sums[taken]
        return low, high, held


def _shortest_runs(
    below: FloatArray, alpha: float, enough: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Bisect for the length at which some run holds 1 - alpha; return the heaviest such run."""
    last = len(below)
    # a run cannot start where more than alpha is below it
    starts = 1 + int(np.count_nonzero(below <= alpha + _ROUNDING, axis=0).max())
    start = np.arange(min(starts, last))[:, None]
    before = np.concatenate([np.zeros((1, below.shape[1])), below[: len(start) - 1]])

    def gain(length: NDArray[np.intp]) -> FloatArray:
        ends = np.minimum(start + length, last) - 1
        return np.asarray(np.take_along_axis(below, ends, axis=0) - before)

    short = np.zeros_like(enough)
    while (enough - short > 1).any():
        middle = np.maximum((short + enough) // 2, 1)
        holds = gain(middle).max(axis=0) >= 1.0 - alpha
        enough, short = np.where(holds, middle, enough), np.where(holds, short, middle)
    low = gain(enough).argmax(axis=0)
    return low, np.minimum(low + enough, last) - 1


def running(combine: np.ufunc, matrix: FloatArray) -> FloatArray:
    """Accumulate down the columns-first axis: column by column, or along each of few rows."""
    width, rows = matrix.shape
    if width > rows:
        return np.ascontiguousarray(combine.accumulate(np.ascontiguousarray(matrix.T), axis=1).T)
    out = np.empty_like(matrix, order="C")
    out[0] = matrix[0]
    for column in range(1, width):
        combine(out[column - 1], matrix[column], out=out[column])
    return out


# Priors by the ratio of each probability to the next, from which windows are climbed.


@dataclass(frozen=True)
class Flat:
    """The same probability for each whole number: the methods are those of :class:`Panjer`."""

    shared = True
    concave = np.ones((), dtype=bool)

    def take(self, rows: NDArray[np.intp]) -> Self:
        return self

    def step(self, k: FloatArray) -> FloatArray:
        return np.ones(())

    limit_step = step

    def mode(self, near: FloatArray) -> FloatArray:
        return near

    def logpmf(self, k: FloatArray) -> FloatArray:
        """Logarithm of 1, to be divided by the number of counts."""
        return np.zeros_like(k)

    def radius(self, drop: FloatArray) -> FloatArray:
        return np.full((), np.inf)

    upper_end = radius


@dataclass(frozen=True)
class Panjer:
    """Negative binomial with a mean and a dispersion φ, variance mean + φ·mean²; Poisson at φ = 0.

    π(k + 1)/π(k) = mean·(1 + φk)/((1 + φ·mean)(k + 1)), log-concave where φ <= 1. The parameters
    have the shape () or (n,).
    """

    mean: FloatArray
    dispersion: FloatArray

    @property
    def shared(self) -> bool:
        """Whether one prior serves all rows."""
        return self.mean.ndim == self.dispersion.ndim == 0

    def take(self, rows: NDArray[np.intp]) -> Self:
        return type(self)(*(x[rows] if x.ndim else x for x in (self.mean, self.dispersion)))

    @property
    def concave(self) -> NDArray[np.bool_]:
        """Whether the prior is log-concave."""
        return np.asarray(self.dispersion <= 1.0)

    @property
    def _ratio(self) -> FloatArray:
        return np.asarray(self.mean / (1.0 + self.dispersion * self.mean))

    def step(self, k: FloatArray) -> FloatArray:
        """π(k + 1)/π(k)."""
        if not self.dispersion.any():
            return np.asarray(self.mean / (k + 1.0))
        return np.asarray(self._ratio * (1.0 + self.dispersion * k) / (k + 1.0))

    def limit_step(self, k: FloatArray) -> FloatArray:
        """Return the step, or its limit, from which it differs by the factor (k + 1/φ)/(k + 1)."""
        if self.concave.all():
            return self.step(k)
        return np.where(self.concave, self.step(k), self._ratio * self.dispersion)

    def mode(self, near: FloatArray) -> FloatArray:
        """Return a most probable count, the one next to ``near`` of several."""
        return np.floor(np.maximum((1.0 - self.dispersion) * self.mean, 0.0))

    def logpmf(self, k: FloatArray) -> FloatArray:
        """Logarithm of π(k), by Loader's form for Poisson."""
        mean = np.maximum(self.mean, np.finfo(np.float64).tiny)
        inner = np.maximum(k, 1.0)
        poisson = (
            -stirling_error(inner)
            - mean * deviance((inner - mean) / mean)
            - 0.5 * np.log(2.0 * np.pi * inner)
        )
        poisson = np.where(k == 0, -self.mean, poisson)
        if not self.dispersion.any():
            return poisson
        size = 1.0 / np.where(self.dispersion > 0, self.dispersion, 1.0)
        odds = mean / size
        negative = (
            -special.betaln(k + 1.0, size)
            - np.log(k + size)
            # odds themselves may be too small for float64
            + k * (np.log(mean) - np.log(size) - np.log1p(odds))
            - size * np.log1p(odds)
        )
        return np.where(self.dispersion > 0, negative, poisson)

    def radius(self, drop: FloatArray) -> FloatArray:
        """Distance from the mode beyond which all probability is about e^-drop of the peak."""
        spread = 1.0 + self.dispersion * self.mean
        return spread * bernstein_radius(self.mean / spread + 1.0, float(drop))

    def upper_end(self, log_mass: FloatArray) -> FloatArray:
        """Return a count that is exceeded with at most this (log) probability.

        By a geometric series: for φ > 1 only, inf elsewhere.
        """
        excess = self.dispersion * self.mean
        with np.errstate(divide="ignore"):
            log_ratio = -np.log1p(1.0 / np.maximum(excess, 1e-300))  # of the geometric series
        log_first = -np.log1p(excess) / np.maximum(self.dispersion, 1.0)
        steps = (log_first + np.log1p(excess) - log_mass) / -log_ratio
        return np.where(self.concave, np.inf, np.maximum(np.ceil(steps), 0.0))


Ladder = Flat | Panjer
"""A prior of whole numbers by the ratio of each probability to the next."""


# What was published as a likelihood of the count: steps, density and reach of the noise.


_LARGEST_EXPONENT = 400.0
"""Steps are cut at e^±400: there they decide alone, and products with others are finite."""


def check_law(law: NoiseLaw) -> None:
    """Refuse a law whose density is not known in closed form."""
    known = (Laplace, Geometric, Gaussian, DiscreteGaussian, Tulap, Rounded, Exact)
    if not isinstance(law, known):
        raise InvalidParameterError(
            f"mechanism must have a density in closed form, got {type(law).__name__}: pass the "
            "published counts with their own Laplace, Geometric, Gaussian, DiscreteGaussian, "
            "Tulap or Rounded noise"
        )


def noise_step(law: NoiseLaw, x: FloatArray) -> FloatArray:
    """g(x - 1)/g(x) for the density or probability g of the noise: the count is one larger."""
    if isinstance(law, Exact):
        return np.ones_like(x)  # the support has one count only
    if isinstance(law, (Laplace, Geometric)):
        rate = np.minimum(1.0 / np.asarray(law.scale), _LARGEST_EXPONENT)
        exponent = 2.0 * x
        exponent -= 1.0
        np.clip(exponent, -1.0, 1.0, out=exponent)
        exponent *= rate
        return np.exp(exponent, out=exponent)
    if isinstance(law, (Gaussian, DiscreteGaussian)):
        exponent = x - 0.5
        exponent *= 1.0 / np.square(np.asarray(law.sigma))
    elif isinstance(law, Rounded):
        # where both are 0, beyond the ends of the support, either step will do
        with np.errstate(invalid="ignore"):
            exponent = np.nan_to_num(law._logpmf(x - 1.0) - law._logpmf(x), nan=0.0)
    else:
        assert isinstance(law, Tulap)
        exponent = (_interval(x) - _interval(x - 1.0)) / law.scale
    np.clip(exponent, -_LARGEST_EXPONENT, _LARGEST_EXPONENT, out=exponent)
    return np.exp(exponent, out=exponent)


def _interval(x: FloatArray) -> FloatArray:
    """Return the distance from 0 of the unit interval that holds x, the nearer of two at its ends.

    The density of Tulap noise jumps there. Neighbouring counts have to be treated alike.
    """
    return np.asarray(np.ceil(np.abs(x) - 0.5))


def log_density(law: NoiseLaw, x: FloatArray) -> FloatArray:
    """Logarithm of the density, or of the probability of a whole number."""
    if isinstance(law, (Geometric, DiscreteGaussian, Rounded, Exact)):
        return np.asarray(law.logpmf(x))
    assert isinstance(law, (Laplace, Gaussian, Tulap))
    if not isinstance(law, Tulap):
        return np.asarray(law.logpdf(x))
    inside = law.logpdf(np.minimum(_interval(x), np.abs(x)))
    return np.where(np.abs(x) <= bound(law), inside, -np.inf)


def reach(law: NoiseLaw, drop: FloatArray) -> FloatArray:
    """Distance from 0 beyond which the density is below e^-drop of its peak."""
    if isinstance(law, Rounded):
        return reach(law.law, drop) + 0.5
    if isinstance(law, (Gaussian, DiscreteGaussian)):
        return np.asarray(law.sigma * np.sqrt(2.0 * drop))
    if isinstance(law, (Laplace, Geometric)):
        return np.asarray(law.scale * drop)
    if isinstance(law, Tulap):
        return np.asarray(law.scale * drop + 1.0)
    return np.zeros_like(drop)


def bound(law: NoiseLaw) -> FloatArray:
    """End of the support of the noise."""
    if isinstance(law, Exact):
        return np.zeros(())
    return np.asarray(law.isf(0.0)) if isinstance(law, (Rounded, Tulap)) else np.full((), np.inf)


# Windows of posteriors by climbing down from a peak, one ratio at a time.


LOG_LEFT_OUT = 35.0
"""What is left out is below e^-35 = 7e-16 of the posterior."""

MOST_COLUMNS = 1 << 22
"""Of a window: 30 MB for a row."""

_CELLS = 1 << 15
"""Number of weights that are computed at a time; the arrays fit the cache."""


@dataclass(frozen=True)
class Rows:
    """Published counts with noise of one kind, and ladders as priors."""

    count: FloatArray
    law: NoiseLaw
    prior: Ladder
    lower: FloatArray
    upper: FloatArray

    def take(self, rows: NDArray[np.intp]) -> Self:
        return type(self)(
            self.count[rows],
            self.law.take(rows) if self.law.shape else self.law,
            self.prior.take(rows),
            self.lower[rows],
            self.upper[rows],
        )

    @property
    def width(self) -> FloatArray:
        """About how many columns the window of each row has."""
        drop = np.asarray(LOG_LEFT_OUT)
        radius = np.minimum(reach(self.law, drop), self.prior.radius(drop)) + 2.0
        return np.broadcast_to(
            np.minimum(2.0 * radius, self.upper - self.lower + 1.0), self.count.shape
        )

    def window(self) -> Window:
        """Return the posteriors of these rows."""
        concave = np.broadcast_to(self.prior.concave, self.count.shape)
        start = self._summit()
        lower, upper = self.lower, self.upper
        if not concave.all():
            start, lower, upper = self._edges(start, concave)
        up = self._climb(start, 1.0, upper, concave)
        down = self._climb(start, -1.0, lower, concave)
        mass = np.concatenate([*(part[::-1] for part in down[::-1]), np.ones((1, start.size)), *up])
        total = mass.sum(axis=0)
        mass /= total
        below = sum(map(len, down))
        return Window(
            first=start - below,
            mass=mass,
            log_total=lambda: np.log(total) + self._log_weight(start),
            summit=below if concave.all() else None,
        )

    def _log_weight(self, k: FloatArray) -> FloatArray:
        """Logarithm of prior times likelihood."""
        return np.asarray(self.prior.logpmf(k) + log_density(self.law, self.count - k))

    def _summit(self) -> FloatArray:
        """Smallest count at which the weights fall, between the peaks of prior and noise."""
        published = np.clip(np.rint(self.count), self.lower, self.upper)
        prior = np.clip(self.prior.mode(published), self.lower, self.upper)
        # the noise may peak on either side of the rounded count
        low = np.maximum(np.minimum(published, prior) - 1.0, self.lower)
        high = np.minimum(np.maximum(published, prior) + 1.0, self.upper)
        while (high > low).any():
            middle = np.floor(0.5 * (low + high))
            ratio = self.prior.limit_step(middle) * noise_step(self.law, self.count - middle)
            falls = (ratio <= 1.0) | (middle >= high)
            low, high = np.where(falls, low, middle + 1.0), np.where(falls, middle, high)
        return np.asarray(low)

    def _edges(
        self, summit: FloatArray, concave: NDArray[np.bool_]
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return starts and ends where the prior is log-convex: there may be a second peak at 0.

        The posterior is below e^-35 beyond the ends, as prior or noise are there by themselves:
        Σ π(k)g(y - k) over a set is at most the largest g there times the probability of the set.
        """
        at_summit, at_lower = self._log_weight(summit), self._log_weight(self.lower)
        start = np.where(~concave & (at_lower > at_summit), self.lower, summit)
        peak = log_density(self.law, np.zeros_like(start))
        drop = peak + LOG_LEFT_OUT - np.maximum(at_summit, at_lower)
        far = np.ceil(reach(self.law, np.maximum(drop, 0.0)))
        lower = np.maximum(self.lower, np.floor(self.count) - far)
        upper = np.minimum(self.upper, np.ceil(self.count) + far)
        upper = np.minimum(upper, np.maximum(self.prior.upper_end(-drop), start))
        return (
            start,
            np.where(concave, self.lower, np.minimum(lower, start)),
            np.where(concave, self.upper, np.maximum(upper, start)),
        )

    def _climb(
        self, start: FloatArray, sign: float, end: FloatArray, concave: NDArray[np.bool_]
    ) -> list[FloatArray]:
        """Weights of the counts beyond the start on one side, some columns at a time."""
        parts: list[FloatArray] = []
        columns = int(np.clip(_CELLS // start.size, 8, 4096))
        weight, k = np.ones(start.size), start
        while True:
            steps = k + sign * np.arange(columns)[:, None]
            ratio = self._ratio(steps, sign)
            k = k + sign * columns
            ended = sign * k >= sign * end
            if ended.any():
                ratio[sign * steps >= sign * end] = 0.0
            ratio[0] *= weight
            parts.append(running(np.multiply, ratio))
            weight = parts[-1][-1]
            # beyond the peak of log-concave weights, as far as here, they fall geometrically
            done = ended | (concave & (weight <= np.exp(-LOG_LEFT_OUT)))
            if done.all():
                return parts
            _check_columns(sum(map(len, parts)))

    def _ratio(self, k: FloatArray, sign: float) -> FloatArray:
        """Weight of the next count, up or down, relative to that of k."""
        if sign > 0:
            return self.prior.step(k) * noise_step(self.law, self.count - k)
        before = np.maximum(k - 1.0, self.lower)
        return 1.0 / (self.prior.step(before) * noise_step(self.law, self.count - before))


def _check_columns(columns: float) -> None:
    if columns > MOST_COLUMNS:
        raise InvalidParameterError(
            f"mechanism must have a scale at which a posterior spreads over at most {MOST_COLUMNS} "
            "counts, got one with more: use count_confint, or bounds or a prior that are narrower"
        )


# Windows of posteriors of which each count is weighed by itself.


@dataclass(frozen=True)
class Table:
    """Logarithms of the prior of ``first``, ``first + 1``, …, shared by all rows."""

    first: float
    log_table: FloatArray

    @cached_property
    def possible(self) -> FloatArray:
        """The counts that have a probability."""
        known = np.flatnonzero(np.isfinite(self.log_table))
        return np.asarray(known + self.first, dtype=np.float64)

    def logpmf(self, k: FloatArray) -> FloatArray:
        """Logarithm of the prior; -inf outside the table."""
        place, last = k - self.first, self.log_table.size - 1
        taken = self.log_table[np.clip(place, 0, last).astype(np.intp)]
        return np.where((place >= 0) & (place <= last), taken, -np.inf)


@dataclass(frozen=True)
class WeighedRows:
    """Published counts with noise of one kind, the posteriors of which are weighed count by count.

    Some may have been published because they reached a threshold, or been moved into bounds before.
    With e the noise, the likelihood of a count k is g(y - k)/P(k + e >= τ), with P(k + e <= a) or
    P(k + e >= b) in the place of g(y - k) for a value at the lower bound a or at the upper bound b.
    The last two, and all for log-concave g, are monotone in k as far as y.

    ``lower`` is finite where the value has a threshold or is at its lower bound, ``upper`` where it
    is at its upper bound and the prior never falls. ``limits`` are τ, a and b, one line each;
    without them the prior is a table, and values are as they were drawn.
    """

    count: FloatArray
    law: NoiseLaw
    prior: Ladder | Table
    lower: FloatArray
    upper: FloatArray
    limits: FloatArray | None = None

    def take(self, rows: NDArray[np.intp]) -> Self:
        return type(self)(
            self.count[rows],
            self.law.take(rows) if self.law.shape else self.law,
            self.prior if isinstance(self.prior, Table) else self.prior.take(rows),
            self.lower[rows],
            self.upper[rows],
            None if self.limits is None else self.limits[:, rows],
        )

    @property
    def width(self) -> FloatArray:
        low, high = self.ends
        return high - low + 1.0

    def window(self) -> Window:
        low, high = self.ends
        columns = float((high - low).max() + 1.0)
        _check_columns(columns)
        k = low + np.arange(columns)[:, None]
        weight = self.log_weight(k)
        weight[k > high] = -np.inf
        peak = weight.max(axis=0)
        mass = np.exp(weight - peak)
        total = mass.sum(axis=0)
        return Window(low, mass / total, lambda: np.log(total) + peak)

    def log_weight(self, k: FloatArray) -> FloatArray:
        """Logarithm of prior times likelihood, at counts of shape (w, n)."""
        if self.limits is None:
            return self.prior.logpmf(k) + log_density(self.law, self.count - k)
        belief, drawn = self.prior.logpmf(k), log_density(self.law, self.count - k)
        threshold, lowest, highest = self.limits
        published = np.where(threshold <= lowest, 0.0, self.law._logcdf(k - threshold))
        drawn = np.where(self.count == lowest, self.law._logcdf(lowest - k), drawn)
        drawn = np.where(self.count == highest, self.law._logcdf(k - highest), drawn)
        possible = (belief > -np.inf) & (drawn > -np.inf) & (published > -np.inf)
        return np.where(possible, belief + drawn - np.where(possible, published, 0.0), -np.inf)

    @cached_property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """First and last count of each window: beyond them the weights are negligible."""
        if self.limits is None:
            assert isinstance(self.prior, Table)
            return self._ends_as_drawn(self.prior)
        threshold, lowest, highest = self.limits
        at_lowest, at_highest = self.count == lowest, self.count == highest
        near = np.clip(np.rint(self.count), self.lower, self.upper)
        prior = self.prior
        if isinstance(prior, Table):
            mode = prior.possible[np.argmax(prior.logpmf(prior.possible))] + np.zeros_like(near)
        else:
            mode = np.clip(prior.mode(near) + np.zeros_like(near), self.lower, self.upper)
        known = self.log_weight(np.stack([near, mode])).max(axis=0)
        peak = np.where(
            at_lowest | at_highest, 0.0, log_density(self.law, np.zeros_like(self.count))
        )
        # P(k + e >= τ) is 1/2 or more from τ on; below τ there are so many counts
        span = np.where(np.isfinite(self.lower), np.maximum(self.count - self.lower, 0.0), 0.0)
        drop = peak + np.log(2.0) + prior.logpmf(mode) - known + LOG_LEFT_OUT + np.log1p(span)
        drop = np.where(np.isfinite(drop), np.maximum(drop, 0.0), np.inf)
        far = np.ceil(reach(self.law, drop)) + 1.0
        whole = at_lowest | (self.count - far <= threshold)
        low = np.where(whole, self.lower, np.maximum(self.lower, np.floor(self.count) - far))
        high = np.minimum(self.upper, np.ceil(self.count) + far)
        if at_highest.any():
            end = self.upper
            if isinstance(prior, Panjer):
                falls = np.asarray(drop[at_highest].max())
                end = np.minimum(end, np.maximum(near, mode) + np.ceil(prior.radius(falls)) + 1.0)
            high = np.where(at_highest, end, high)
        return np.minimum(low, near), np.maximum(high, near)

    def _ends_as_drawn(self, prior: Table) -> tuple[FloatArray, FloatArray]:
        possible = prior.possible
        after = np.searchsorted(possible, self.count)
        beside = possible[np.clip([after - 1, after], 0, possible.size - 1)]
        known = self.log_weight(beside).max(axis=0)
        peak = log_density(self.law, np.zeros_like(self.count)) + prior.log_table.max()
        # as many counts again as there are in the table, of at most this weight each
        drop = peak - known + LOG_LEFT_OUT + np.log(possible.size)
        far = np.where(np.isfinite(known), reach(self.law, np.where(drop > 0, drop, 0.0)), np.inf)
        low = np.clip(np.floor(self.count - far), possible[0], possible[-1])
        high = np.clip(np.ceil(self.count + far), possible[0], possible[-1])
        return np.minimum(low, beside.min(axis=0)), np.maximum(high, beside.max(axis=0))


# The rows of a table in parts, of one kind of noise each, and their windows block by block.


Functional = Callable[[Window, NDArray[np.intp]], FloatArray]
"""Reads values off the windows of some rows, given their numbers: a column for each of them."""

_PARTS_CELLS = 1 << 19
_MOST_ROWS = 1 << 12
_ALIKE = 2.0
"""Windows whose widths differ by no more are computed in the order of the rows."""


@dataclass(frozen=True)
class Part:
    """Rows of one kind of noise: where they are in the table, and which of them are alike."""

    rows: Rows | WeighedRows
    cells: NDArray[np.intp]
    inverse: NDArray[np.intp] | None = None

    def apply(self, functional: Functional) -> FloatArray:
        """Return what the functional reads off each cell, cells last."""
        values = np.empty(0)
        for block in self._blocks():
            answer = functional(self.rows.take(block).window(), block)
            if not values.size:
                values = np.empty((len(answer), self.rows.count.size))
            values[:, block] = answer
        return values if self.inverse is None else values.take(self.inverse, axis=1)

    def each(self) -> Self:
        """Return the same part with a row for each cell."""
        if self.inverse is None:
            return self
        return replace(self, rows=self.rows.take(self.inverse), inverse=None)

    def _blocks(self) -> list[NDArray[np.intp]]:
        """Split the rows so that windows of about the same width come together, and fit."""
        width = self.rows.width
        widest = float(width.max())
        alike = widest <= _ALIKE * float(width.min())
        order = np.arange(width.size) if alike else np.argsort(width, kind="stable")
        blocks, start = [], 0
        while start < order.size:
            stop = min(start + _MOST_ROWS, order.size)
            # sorted by width: the last of the block is the widest
            while stop - start > 1:
                most = widest if alike else float(width[order[stop - 1]])
                if most * (stop - start) <= _PARTS_CELLS:
                    break
                stop = start + (stop - start) // 2
            blocks.append(order[start:stop])
            start = stop
        return blocks
