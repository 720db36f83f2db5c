"""What the laws of noisy counts share: T = X + e with a log-concave count and symmetric noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer._numerics.counts import (
    LOG_NEGLIGIBLE,
    LOG_SMALLEST,
)
from dpinfer._numerics.lattice import alike, batches
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms._gaussian_lines import GaussianNoise
from dpinfer.mechanisms._gaussian_rows import gaussian_outside, gaussian_tail
from dpinfer.mechanisms._row_tails import (
    Counts,
    Edge,
    Events,
    Trials,
    count_tails,
    edge_tail,
    has_edge,
)
from dpinfer.mechanisms.independent import IndependentNoise, groups, integer_cells
from dpinfer.mechanisms.law import IntegerLaw, NoiseLaw, ParametricLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Exact, Geometric, Laplace

# Tails of a count with Laplace or geometric noise at many points, by recursions.


def filtered_tail(
    k: FloatArray, pmf: FloatArray, noise: Laplace | Geometric, t: FloatArray
) -> FloatArray:
    """P(X + e >= t) at many points, where P(e > x + 1) = exp(-rate)·P(e > x) for x >= 0.

    ``k`` are consecutive whole numbers, ``pmf`` their probabilities. With m = floor(t) and
    f = t - m, the tail is P(e >= f)·A(m) + C(m) - P(e > 1-f)·B(m), where
    A(m) = Σ_{k<=m} pmf(k)·exp(-(m-k)·rate), B(m) = Σ_{k>m} pmf(k)·exp(-(k-m-1)·rate) and
    C(m) = P(X > m): recursions over the counts, then one look-up for each point. What is
    subtracted is at most half of C(m).
    """
    rate = 1.0 / float(noise.scale)
    below = np.append(0.0, decaying_sums(pmf, rate))
    above = np.append(decaying_sums(pmf[::-1], rate)[::-1], 0.0)
    beyond = np.append(decaying_sums(pmf[::-1], 0.0)[::-1], 0.0)
    m = np.floor(t)
    near = np.clip(m, k[0] - 1.0, k[-1])
    place = (near - (k[0] - 1.0)).astype(np.intp)
    decay = np.exp(-np.abs(m - near) * rate)
    part = t - m
    reach = noise._cdf(-part) * below[place]
    miss = noise._sf((m + 1.0) - t) * above[place]
    return np.asarray(reach * decay + beyond[place] - miss * decay)


def decaying_sums(x: FloatArray, rate: float) -> FloatArray:
    """y[m] = Σ_{k<=m} x[k]·exp(-(m-k)·rate), by doubling: as accurate as pairwise summation."""
    y = np.array(x)
    step = 1
    while step < y.shape[-1] and (factor := np.exp(-step * rate)) > 0.0:
        y[..., step:] += factor * y[..., :-step]
        step *= 2
    return y


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


# How much work the laws of noise are, in units of about 0.1 µs: the time of a closed form.


MOST_WORK = 1 << 26
"""Of one call, some five seconds."""

_CONTOUR = 700.0
_ATOM = 0.35
_TERM = 0.3


def work_at_a_point(law: NoiseLaw) -> float:
    """About how much work the tail of a law is at each of many points."""
    if isinstance(law, IndependentNoise):
        return max(work_at_a_point(part) for part, _ in groups(law, law.shape[0]))
    if isinstance(law, ParametricLaw):
        return 1.0
    # what a test of a noise with a density or a lattice does without is not loaded for it
    from dpinfer.mechanisms._sums.contour import ContourSum, LatticeContour
    from dpinfer.mechanisms._sums.lattice import ConvolvedSum, SteppedSum
    from dpinfer.mechanisms._sums.series import FourierSum
    from dpinfer.mechanisms.weighted_sum import WeightedSum, is_quick

    if is_quick(law):
        return 1.0
    assert isinstance(law, WeightedSum)
    route = law._route
    if isinstance(route, ConvolvedSum):
        used = route._relevant(0.0, 9.0 * float(law.std))
        return _ATOM * float(used.stop - used.start)
    if isinstance(route, SteppedSum):
        return _ATOM * float(route._cells.size)
    if isinstance(route, FourierSum):
        return _TERM * float(route._series._frequency.size)
    return _CONTOUR if isinstance(route, (ContourSum, LatticeContour)) else 2.0


def largest_term(
    noise: NoiseLaw,
    ratio: Callable[[FloatArray], FloatArray],
    sign: float,
    t: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> FloatArray:
    """Count between two with the largest P(X = k)·P(e <= sign·(k - t)): bisection on its slope.

    ``ratio(k)`` is P(X = k + 1)/P(X = k).
    """
    for _ in range(int(np.log2(np.max(high - low) + 1.0)) + 2):
        k = np.floor(0.5 * (low + high))
        with np.errstate(divide="ignore", invalid="ignore"):
            here, beyond = (noise._logcdf(sign * (x - t)) for x in (k, k + 1.0))
            slope = np.log(ratio(k)) + beyond - here
        # where the noise cannot reach t (nan), the peak is on the side of t
        falls = slope <= 0.0 if sign > 0 else ~(slope > 0.0)
        high = np.where(falls, k, high)
        low = np.where(falls | (low >= high), low, k + 1.0)
    return high


Side = Literal["upper", "lower"]
Table = tuple[float, FloatArray]
_BLOCK = 1 << 18
"""Largest number of terms held at a time."""

_NOISES = 1 << 17
"""Noises drawn at a time: their memory is then used again."""

_SIDES = np.array([-1.0, 1.0])
"""Signs of the lower and of the upper tail."""

_FAR = 1e300
"""Stands for infinity, in which there would be no difference between t and t - k."""

_TABLE_UP_TO = 2048
"""Largest count up to which the sum runs over all counts, their probabilities kept."""

_FILTER_FROM = 64
"""From this many points on, one recursion over the counts beats a sum for each point."""

_LAST_WHOLE = 2.0**53
"""Beyond it, neighbouring whole numbers are one float64."""

_LARGEST_KERNEL = 1 << 14
"""So many masses of noise are quicker to add up than tails are to find."""

_COUNTS_FOR_ONE = 25
"""So many counts take a recursion as long as a closed form takes a point."""

_LONGEST = 1 << 22
"""Longest table of probabilities, to bound memory."""

_WORK_FOR_EACH = 1 << 17
"""Work that each of many points may take, some 10 ms: the terms of 2e8 trials."""


def _finite(t: FloatArray) -> FloatArray:
    return np.minimum(np.maximum(t, -_FAR), _FAR)


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyCount(ABC):
    """Law of T = X + e with a count X that has a log-concave law, and symmetric noise e.

    The parameters have the shape () or (m,). P(e > x), P(e > x + 1), … is log-concave for each x.

    Notes
    -----
    P(T >= t) = Σ_k P(X = k)·P(e >= t - k). The terms are positive, so that far tails are as
    accurate, relatively, as the tails of the noise. They are log-concave in k, so that they can be
    summed over a window around the largest: what is left out is below 2e-17 of the sum.
    """

    noise: NoiseLaw

    @property
    @abstractmethod
    def parameters(self) -> dict[str, FloatArray]:
        """The parameters of X by their names."""

    @property
    @abstractmethod
    def _mode(self) -> FloatArray:
        """The most probable count."""

    @property
    @abstractmethod
    def _last(self) -> FloatArray:
        """The largest count that has a probability."""

    @abstractmethod
    def _pmf_at(self, k: FloatArray) -> FloatArray:
        """P(X = k) for whole numbers 0 <= k <= last."""

    @abstractmethod
    def _ratio(self, k: FloatArray) -> FloatArray:
        """P(X = k + 1)/P(X = k)."""

    @abstractmethod
    def _radius(self, centre: FloatArray, log_ratio: float) -> FloatArray:
        """Distance from a count within which the probability falls by e^-log_ratio."""

    @abstractmethod
    def _draw_counts(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw values of X one by one."""

    @abstractmethod
    def _counts(self, rows: NDArray[np.intp]) -> Counts | None:
        """Return the laws of X in some rows, each by itself, if they are of a known family."""

    def upper(self, t: FloatArray, slack: FloatArray | float = 0.0) -> FloatArray:
        """P(T >= t) for ``t`` of shape (), (m,) or (..., m).

        Where the noise is whole-numbered, so is T, and a whole number within ``slack`` below a
        computed ``t`` counts as reached: rounding shall not lose an atom.
        """
        return self._tail(self._reached(t, -slack, np.ceil), _SIDES[1])

    def lower(self, t: FloatArray, slack: FloatArray | float = 0.0) -> FloatArray:
        """P(T <= t), with the same conventions."""
        return self._tail(self._reached(t, slack, np.floor), _SIDES[0])

    def outside(
        self, low: FloatArray, high: FloatArray, slack: FloatArray | float = 0.0
    ) -> FloatArray:
        """P(T <= low) + P(T >= high), of one shape, with the same conventions."""
        ends = self._reached(low, slack, np.floor), self._reached(high, -slack, np.ceil)
        points = np.array(ends)
        short = self._is_short and points.size < _FILTER_FROM
        if not short and isinstance(self.noise, GaussianNoise):
            found = self._outside_gaussian(self.noise, *_finite(points))
            if found is not None:
                return found
        lower, upper = self._tail(points, _SIDES.reshape(2, *(1,) * (points.ndim - 1)))
        both: FloatArray = lower + upper
        return both

    def _outside_gaussian(
        self, noise: GaussianNoise, low: FloatArray, high: FloatArray
    ) -> FloatArray | None:
        shapes = (x.shape for x in self.parameters.values())
        shape = np.broadcast_shapes(low.shape, noise.shape, *shapes)
        ends = [np.broadcast_to(t, shape).ravel() for t in (low, high)]
        rows, ends, kind = self._distinct(shape or (1,), ends)
        counts = self._counts(rows)
        if counts is None:
            return None
        found = gaussian_outside(counts, noise._take(rows) if noise.shape else noise, *ends)
        return (found if kind is None else found[kind]).reshape(shape)

    def _reached(self, t: FloatArray, slack: FloatArray | float, whole: np.ufunc) -> FloatArray:
        """Return the points, or where the noise is whole the values that T takes."""
        return t if self._is_integer is False else np.where(self._is_integer, whole(t + slack), t)

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw independent values of T, of one law, in an order that is not random.

        How many values fall on each count is one multinomial draw; only the noise is drawn value
        by value. Where there are more counts than values, the counts are drawn too.
        """
        low, high = self._support(LOG_NEGLIGIBLE)
        if high - low < size:
            counts, probabilities = self._allocation
            x = np.repeat(counts, rng.multinomial(size, probabilities))
        else:
            x = self._draw_counts(size, rng)
        for start in range(0, size, _NOISES):
            part = x[start : start + _NOISES]
            part += self.noise._rvs(part.shape, rng)
        return x

    def rows(self, count: int) -> list[Self]:
        """Return the laws of ``count`` rows, one by one."""
        columns = {name: np.broadcast_to(x, count) for name, x in self.parameters.items()}
        values = [{name: np.asarray(x[i]) for name, x in columns.items()} for i in range(count)]
        return [replace(self, **own, noise=self.noise.take(i)) for i, own in enumerate(values)]

    @cached_property
    def is_one_law(self) -> bool:
        """Whether the parameters are scalars, so that one law serves all points."""
        return not (self.noise.shape or any(map(attrgetter("ndim"), self.parameters.values())))

    @cached_property
    def _allocation(self) -> tuple[FloatArray, FloatArray]:
        """Counts that matter, the most probable last, and their probabilities.

        The multinomial generator divides by the probability that is left, which so stays large.
        """
        low, high = self._support(LOG_NEGLIGIBLE)
        shift = int(high - self._mode)
        counts = np.roll(np.arange(low, high + 1.0), shift)
        probabilities = np.roll(self._pmf_between(low, high), shift)
        return counts, probabilities / probabilities.sum()

    @cached_property
    def _is_integer(self) -> bool | NDArray[np.bool_]:
        """Whether the noise takes whole numbers only, row by row where it is of several kinds."""
        if isinstance(self.noise, IndependentNoise):
            return integer_cells(self.noise, self.noise.shape[0])
        return self.noise.is_integer

    def _tail(self, t: FloatArray, sign: FloatArray) -> FloatArray:
        """P(T >= t) (sign 1) or P(T <= t) (sign -1), signs being the same along the last axis."""
        if self._is_short and t.size < _FILTER_FROM:
            k, pmf = self._table
            # by symmetry P(e >= x) = P(e <= -x), which counts the atom at x
            distance = (k - t[..., np.newaxis]) * sign[..., np.newaxis]
            tail = (self._noise_below(distance.reshape(-1, k.size)) @ pmf).reshape(t.shape)
            return np.minimum(tail, 1.0)
        t, sign = _finite(t), np.broadcast_to(sign, t.shape)
        if not self.is_one_law:
            shapes = (x.shape for x in self.parameters.values())
            settings = np.broadcast_shapes(self.noise.shape, *shapes)
            shape = np.broadcast_shapes(t.shape, settings)
            points, signs = np.broadcast_to(t, shape), np.broadcast_to(sign, shape)
            tail = np.empty(shape)
            for _, cells in groups(self.noise, shape[-1]):
                part = self._take(cells)
                tail[..., cells] = part._of_one_kind(points[..., cells], signs[..., cells])
        elif isinstance(self.noise, (Laplace, Geometric)) and self._prefers_filter(t):
            tail = np.empty(t.shape)
            if (up := sign > 0.0).any():
                tail[up] = self._filtered(self.noise, t[up], "upper")
            if not up.all():
                tail[~up] = self._filtered(self.noise, t[~up], "lower")
        else:
            tail = self._of_one_kind(np.atleast_1d(t), np.atleast_1d(sign)).reshape(t.shape)
        return np.minimum(tail, 1.0)

    def _of_one_kind(self, t: FloatArray, sign: FloatArray) -> FloatArray:
        """Tails at points of shape (..., m), with noise of one kind: by closed forms, or sums."""
        rows, (points, signs), kind = self._distinct(t.shape, [t.ravel(), sign.ravel()])
        noise = self.noise._take(rows) if self.noise.shape else self.noise
        counts = self._counts(rows)
        found = None if counts is None else row_tails(counts, noise, points, signs)
        if found is None:
            lines = zip(t.reshape(-1, t.shape[-1]), sign.reshape(-1, t.shape[-1]), strict=True)
            sums = [self._summed(line, "upper" if one[0] > 0.0 else "lower") for line, one in lines]
            return np.stack(sums).reshape(t.shape)
        return (found if kind is None else found[kind]).reshape(t.shape)

    def _distinct(
        self, shape: tuple[int, ...], columns: list[FloatArray]
    ) -> tuple[NDArray[np.intp], list[FloatArray], NDArray[np.intp] | None]:
        """Rows, columns and, where whole numbers come again and again, the kind of each point."""
        rows = np.broadcast_to(np.arange(shape[-1]), shape).ravel()
        if not (isinstance(self.noise, IntegerLaw) and rows.size >= _FILTER_FROM):
            return rows, columns, None
        own = (*self.parameters.values(), *map(np.asarray, self.noise._parameters().values()))
        first, kind = alike([*columns, *(x[rows] for x in own if x.ndim)])
        return rows[first], [x[first] for x in columns], kind

    def _summed(self, t: FloatArray, side: Side) -> FloatArray:
        """Sum the terms for each point, in blocks of points with like windows."""
        if self.is_one_law and t.size > 1 and (points := np.unique(t)).size < t.size:
            return self._summed(points, side)[np.searchsorted(points, t)]
        low, high = self._window(t, side)
        self._check_work(float(np.sum(high - low + 1.0)), t.size)
        table = self._table_for(low, high)
        tail = np.empty(t.size)
        for chosen in batches(high - low + 1.0, _BLOCK):
            law = self._take(chosen)
            tail[chosen] = law._block(t[chosen], low[chosen], high[chosen], side, table)
        return tail

    def _check_work(self, terms: float, points: int) -> None:
        """Refuse sums over more counts than can be gone through."""
        work = terms * work_at_a_point(self.noise)
        if work > max(MOST_WORK, _WORK_FOR_EACH * points):
            raise InvalidParameterError(
                f"{' and '.join(self.parameters)}, or the noise, must be smaller for the exact law "
                f"at {points} points: its sums have {terms:.3g} terms, some {1e-7 * work:.2g} s of "
                "work. Use method='monte-carlo' or method='asymptotic', or fewer points"
            )

    def _block(
        self, t: FloatArray, low: FloatArray, high: FloatArray, side: Side, table: Table | None
    ) -> FloatArray:
        """Sum the terms for a few points; a long window in pieces."""
        tail = np.zeros(t.size)
        length = int(np.max(high - low)) + 1
        for start in range(0, length, _BLOCK):
            k = low + np.arange(start, min(start + _BLOCK, length))[:, np.newaxis]
            counts = np.minimum(k, high)
            if table is None:
                pmf = self._pmf_at(counts)
            else:
                pmf = table[1][(counts - table[0]).astype(np.intp)]
            weights = np.where(k <= high, pmf, 0.0)
            # by symmetry P(e >= x) = P(e <= -x), which counts the atom at x
            distance = k - t if side == "upper" else t - k
            tail += (weights * self.noise._cdf(distance)).sum(axis=0)
        return tail

    def _table_for(self, low: FloatArray, high: FloatArray) -> Table | None:
        """First count and probabilities from there on, if that is less work than term by term."""
        first, last = float(low.min()), float(high.max())
        worth = self.is_one_law and last - first < min(_LONGEST, float((high - low).sum()))
        return (first, self._pmf_between(first, last)) if worth else None

    def _pmf_between(self, first: float, last: float) -> FloatArray:
        """P(X = first), …, P(X = last) under one law, in pieces, so that memory is bounded."""
        pmf = np.empty(int(last - first) + 1)
        for start in range(0, pmf.size, _BLOCK):
            k = np.arange(first + start, first + min(start + _BLOCK, pmf.size))
            pmf[start : start + _BLOCK] = self._pmf_at(k)
        return pmf

    @cached_property
    def _is_short(self) -> bool:
        """Whether the sum runs over all counts, with a table of their probabilities."""
        return self.is_one_law and bool(self._last <= _TABLE_UP_TO)

    @cached_property
    def _table(self) -> tuple[FloatArray, FloatArray]:
        """All counts and their probabilities: products of ratios, outwards from the mode."""
        k = np.arange(float(self._last) + 1.0)
        pmf, mode = np.empty(k.size), int(self._mode)
        pmf[mode] = 1.0
        ratio = self._ratio(k[:-1])
        np.multiply.accumulate(ratio[mode:], out=pmf[mode + 1 :])
        np.multiply.accumulate(1.0 / ratio[:mode][::-1], out=pmf[:mode][::-1])
        pmf /= np.add.reduce(pmf)
        return k, pmf

    def _noise_below(self, d: FloatArray) -> FloatArray:
        """P(e <= d), of which there are many for few d where d is whole and the noise Gaussian."""
        if not isinstance(self.noise, DiscreteGaussian):
            return self.noise._cdf(d)
        low, high = d.min(), d.max()
        # from where on masses are below e^-40 of the first that is asked for
        start = -np.ceil(np.hypot(min(low, 0.0), 9.0 * float(self.noise.sigma)))
        if low < -_LAST_WHOLE or high - start > _LARGEST_KERNEL:
            return self.noise._cdf(d)
        below = np.cumsum(np.exp(self.noise._logpmf(np.arange(start, high + 1.0))))
        return np.asarray(below[(d - start).astype(np.intp)])

    def _take(self, rows: NDArray[np.intp]) -> Self:
        """Return the laws of some of the points."""
        if self.is_one_law:
            return self
        chosen = {name: x[rows] if x.ndim else x for name, x in self.parameters.items()}
        return replace(self, **chosen, noise=self.noise.take(rows))

    def _window(self, t: FloatArray, side: Side) -> tuple[FloatArray, FloatArray]:
        """First and last count whose term matters to the tail at each of the points.

        In the upper tail the noise factor grows with k, and beyond t it is between 1/2 and 1: the
        largest term is between the mode of the count and t, give or take the radius. The lower
        tail is the mirror image.
        """
        mode = self._mode + np.zeros(t.shape)
        upper = side == "upper"
        end = np.clip(np.ceil(t), mode, self._last) if upper else np.clip(np.floor(t), 0.0, mode)
        low, high = (mode, end) if upper else (end, mode)
        far = high - low > 8.0 * self._radius(mode, LOG_NEGLIGIBLE) + 512.0
        if far.any():
            rows = np.flatnonzero(far)
            law, sign = self._take(rows), 1.0 if upper else -1.0
            peak = largest_term(law.noise, law._ratio, sign, t[rows], low[rows], high[rows])
            low[rows] = high[rows] = peak
        low = low - self._radius(low, LOG_NEGLIGIBLE + 1.0 - upper)
        high = high + self._radius(high, LOG_NEGLIGIBLE + upper)
        return np.maximum(low, 0.0), np.minimum(high, self._last)

    def _prefers_filter(self, t: FloatArray) -> bool:
        """Whether there are enough points for the recursion, and it is not too long."""
        low, high = self._support(LOG_SMALLEST)
        return t.size >= _FILTER_FROM and high - low < min(_LONGEST, _COUNTS_FOR_ONE * t.size)

    def _support(self, log_ratio: float) -> tuple[float, float]:
        """First and last count as probable as the mode by a factor e^-log_ratio."""
        radius = self._radius(self._mode, log_ratio)
        low, high = np.maximum(self._mode - radius, 0.0), self._mode + radius
        return float(low), float(np.minimum(high, self._last))

    def _filtered(self, noise: Laplace | Geometric, t: FloatArray, side: Side) -> FloatArray:
        """Tails at many points at once; the lower tail is that of -T."""
        low, high = self._support(LOG_SMALLEST)
        k, pmf = np.arange(low, high + 1.0), self._pmf_between(low, high)
        if side == "upper":
            return filtered_tail(k, pmf, noise, t)
        return filtered_tail(-k[::-1], pmf[::-1], noise, -t)


class _OfFamily(NoisyCount):
    """Counts of a family whose laws are known row by row."""

    @property
    @abstractmethod
    def _law(self) -> Trials | Events:
        """The law of X."""

    def _pmf_at(self, k: FloatArray) -> FloatArray:
        return self._law.pmf(k)

    def _radius(self, centre: FloatArray, log_ratio: float) -> FloatArray:
        return self._law.radius(centre, log_ratio)

    def _counts(self, rows: NDArray[np.intp]) -> Counts:
        return self._law.take(rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyBinomial(_OfFamily):
    """Law of T = X + e with X ~ Binomial(nobs, value) and symmetric noise e of a given law."""

    nobs: FloatArray
    value: FloatArray

    @property
    def parameters(self) -> dict[str, FloatArray]:
        return {"nobs": self.nobs, "value": self.value}

    @cached_property
    def _law(self) -> Trials:
        return Trials(self.nobs, self.value, 1.0 - self.value)

    @property
    def _mode(self) -> FloatArray:
        return np.asarray(np.minimum(np.floor((self.nobs + 1.0) * self.value), self.nobs))

    @property
    def _last(self) -> FloatArray:
        return self.nobs

    def _ratio(self, k: FloatArray) -> FloatArray:
        odds = np.asarray(self.value / (1.0 - self.value))
        return np.asarray((self.nobs - k) / (k + 1.0) * odds)

    def _draw_counts(self, size: int, rng: np.random.Generator) -> FloatArray:
        return rng.binomial(int(self.nobs), float(self.value), size).astype(np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyPoisson(_OfFamily):
    """Law of T = X + e with X ~ Poisson(rate) and symmetric noise e of a given law."""

    rate: FloatArray

    @property
    def parameters(self) -> dict[str, FloatArray]:
        return {"rate": self.rate}

    @cached_property
    def _law(self) -> Events:
        return Events(self.rate)

    @property
    def _mode(self) -> FloatArray:
        return self._law.mode

    @cached_property
    def _last(self) -> FloatArray:
        return self._law.last

    def _ratio(self, k: FloatArray) -> FloatArray:
        return self._law.ratio(k)

    def _draw_counts(self, size: int, rng: np.random.Generator) -> FloatArray:
        return rng.poisson(float(self.rate), size).astype(np.float64)
