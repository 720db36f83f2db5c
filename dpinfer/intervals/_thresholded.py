"""How far sums of published values may be from the truth, where a threshold selects the values."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import special

from dpinfer._check import ComplexArray, FloatArray
from dpinfer._numerics.lattice import masses
from dpinfer.mechanisms.law import ParametricLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Gaussian, Geometric, Laplace
from dpinfer.mechanisms.weighted_sum import WeightedSum, counted_sum


class Cells(NamedTuple):
    """Cells that differ by their values only."""

    law: ParametricLaw
    first: float
    """The smallest value that is published, -inf where all are."""
    weight: float
    number: int
    dropped: bool = False
    """Whether a cell counts as 0 where it is not published."""


# A fixed list: how far the sum of what is published may be above the truth.


@lru_cache(maxsize=4096)
def margin(kinds: tuple[Cells, ...], q: float) -> float:
    """Smallest certified d with P(error > d) <= q, whatever the counts are."""
    total = _total(kinds)
    limit = float(total.isf(q))
    if limit == np.inf or not any(kind.dropped for kind in kinds):
        return limit
    return max(limit, min(_dominated(kinds, q, total), _superquantile(kinds, q, total)))


def _total(kinds: tuple[Cells, ...]) -> WeightedSum:
    return counted_sum(
        np.array([kind.weight for kind in kinds]),
        np.array([float(kind.number) for kind in kinds]),
        [(kind.law, np.array([at])) for at, kind in enumerate(kinds)],
    )


_MOST_POINTS = 1 << 19
_MOST_WORK = 1 << 26
_ROUNDED = 0.01
"""Share of the margin by which sums of noises with a density are rounded upward."""

_SHARES = np.linspace(0.0, 1.0, 41)
_CUTS = np.linspace(0.2, 0.95, 16)
_COARSE = 2048


def _dominated(kinds: tuple[Cells, ...], q: float, total: WeightedSum) -> float:
    """Quantile of the worst sum of laws that dominate the errors; inf where that is too much work.

    With a cut c, the error of a cell is at most W = max(e, -c) where f >= c, and stochastically at
    most V = e·1(e >= threshold - c) where f < c. So the sum is dominated by that of k errors W and
    n - k errors V for some k, and the largest quantile over k is a margin, for every c.
    """
    limit, number = float(total.isf(q)), sum(kind.number for kind in kinds)
    free = [kind for kind in kinds if kind.dropped]
    cut, drift = _best_cut(free, limit)
    exact = all(kind.law.is_integer and kind.weight == kinds[0].weight for kind in kinds)
    up = _ROUNDED * min(max(1.0, number / 100.0), 3.0)
    step = kinds[0].weight if exact else 2.0 * up * limit / number
    reach = 1.2 * float(total.isf(1e-14)) + drift
    ways = prod(kind.number + 1.0 for kind in free)
    slack = 1e-12 * number
    wanted = 2.0 * reach / step
    if wanted > _MOST_POINTS or ways * wanted > _MOST_WORK or q <= 2.0 * slack:
        return np.inf
    points = 1 << int(np.ceil(np.log2(max(wanted, 16.0))))
    x = np.asarray(step * (np.arange(points) - points // 2), dtype=np.float64)
    fixed = np.zeros(points // 2 + 1, dtype=np.complex128)
    pairs = []
    for kind in kinds:
        below = 1.0 - _above(kind, x)
        if kind.dropped:
            pairs.append([_log_transform(cdf) for cdf in _bounds(kind, below, x, cut)])
        else:
            fixed += kind.number * _log_transform(below)
    worst = 0.0
    for chosen in product(*(range(kind.number + 1) for kind in free)):
        joint = fixed.copy()
        for (large, small), kind, k in zip(pairs, free, chosen, strict=True):
            joint += k * large + (kind.number - k) * small
        mass = masses(np.exp(joint), points, -(points // 2))
        tail = np.cumsum(mass[::-1])[::-1]  # P(sum >= x)
        over = np.flatnonzero(tail > q - slack)
        worst = max(worst, float(x[over[-1]]) if over.size else 0.0)
    return worst


def _above(kind: Cells, x: FloatArray) -> FloatArray:
    """P(weight · e > x); a point within rounding of a lattice point is that point."""
    points = x / kind.weight
    return np.asarray(kind.law.sf(np.floor(points + 1e-9) if kind.law.is_integer else points))


def _bounds(
    kind: Cells, cdf: FloatArray, x: FloatArray, share: float
) -> tuple[FloatArray, FloatArray]:
    """Return the distribution functions of W and V, for a cut at a share of the threshold."""
    cut, gap = _cut(kind, share)
    large = np.where(x < -cut * kind.weight, 0.0, cdf)
    silent = 1.0 - float(_reaching(kind.law, np.asarray(gap)))
    return large, np.where(x < 0, 0.0, np.maximum(cdf, silent))


def _cut(kind: Cells, share: float) -> tuple[float, float]:
    cut = max(share * kind.first, 0.0)
    if kind.law.is_integer:
        return float(np.ceil(cut)), max(kind.first - float(np.ceil(cut)) + 1.0, 0.0)
    return cut, max(kind.first - cut, 0.0)


def _reaching(law: ParametricLaw, x: FloatArray) -> FloatArray:
    """P(e >= x)."""
    return np.asarray(law.sf(np.ceil(x) - 1.0 if law.is_integer else x))


def _log_transform(cdf: FloatArray) -> ComplexArray:
    """Logarithm of the transform of a law on points whose middle is 0."""
    found = np.fft.rfft(np.fft.ifftshift(np.diff(cdf, prepend=0.0)))
    return np.asarray(np.log(np.where(np.abs(found) < 1e-300, 1e-300, found)))


def _best_cut(free: list[Cells], limit: float) -> tuple[float, float]:
    """Choose the cut by the means and variances of W and V; return the largest mean with it."""
    plain = sum(kind.number * float(kind.law.variance) * kind.weight**2 for kind in free)
    best = (np.inf, 0.0, 0.0)
    for share in _CUTS.tolist():
        mean, spread = np.zeros(_SHARES.size), np.zeros(_SHARES.size)
        for kind in free:
            end = kind.weight * float(kind.law.isf(1e-16))
            x = np.asarray(end * np.arange(-_COARSE, _COARSE + 1) / _COARSE, dtype=np.float64)
            bounds = _bounds(kind, 1.0 - _above(kind, x), x, share)
            for cdf, part in zip(bounds, (_SHARES, 1.0 - _SHARES), strict=True):
                mass = np.diff(cdf, prepend=0.0)
                first, second = float(mass @ x), float(mass @ np.square(x))
                mean += kind.number * part * first
                spread += kind.number * part * max(second - first**2, 0.0)
        most = float(np.max(mean + limit * np.sqrt(spread / plain)))
        best = min(best, (most, share, float(mean.max())))
    return best[1:]


_PANELS = 4000


def _superquantile(kinds: tuple[Cells, ...], q: float, total: WeightedSum) -> float:
    """Bound P(error > d) by E(error - x)₊/(d - x), the error being below Σ e + Σ δ convexly.

    D = e where published and -f where not has P(D > x) <= P(e > x) for x >= -f, and below that
    E(D - x)₊ = E D - x: so E(D - x)₊ <= E(e + δ - x)₊ for all x, with δ >= E D whatever f is.
    """
    x = float(total.isf(q))
    end = 1.5 * float(total.isf(min(1e-14, 0.01 * q)))
    if end == np.inf:
        return end
    points = np.linspace(x, end, _PANELS + 1)
    excess = float(np.sum(total.sf(points[:-1]))) * (points[1] - points[0])  # from above
    drift = sum(
        kind.number * kind.weight * _drift(kind.law, kind.first) for kind in kinds if kind.dropped
    )
    return float(x + excess * (1.0 + 1e-9) / q + drift)


@lru_cache(maxsize=1024)
def _drift(law: ParametricLaw, first: float) -> float:
    """Bound the mean of D over all counts f >= 0, from above.

    It is A(t - f) - f·P(e < t - f), with A(z) = E[e; e >= z], and at most ∫ P(e >= x) dx over
    x >= t where f >= t.
    """
    std = float(law.std)
    end = float(law.isf(1e-17)) + 1.0
    panels = int(np.ceil(end)) if law.is_integer and end < 2e5 else 200_000
    step = max(1.0, float(np.ceil(end / panels))) if law.is_integer else min(end / panels, std)
    z = np.asarray(step * np.arange(panels + 1), dtype=np.float64)
    tail = _reaching(law, z)
    beyond = step * np.cumsum(tail[::-1])[::-1]
    top = max(first, 0.0)
    at = min(int(np.floor(top / step)), panels)
    least = np.maximum(top - z[: at + 1] - step, 0.0)
    below_top = z[: at + 1] * tail[: at + 1] + beyond[: at + 1] - least * (1.0 - tail[: at + 1])
    return float(max(0.0, below_top.max(), beyond[at]))


# What was published: a statistic whose exponential has mean 1 or less, whatever the counts are.


class Counted(NamedTuple):
    """Cells count as y - loss from a value on, and as -fee below it."""

    start: FloatArray
    loss: FloatArray
    fee: FloatArray
    margin: float


_TILTS = np.array([0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0])
_STEP = 1.1
_LEAST_SHARE = 0.1
"""Tilts of small weights are those of this share of the largest weight, or more in such steps."""
_STARTS = 41
_WIDEST = 25.0
_COUNTS = 3000
_SUMMED = 1e4
"""Standard deviation up to which exponential moments of discrete Gaussian noise are summed."""


@lru_cache(maxsize=4096)
def counting(kinds: tuple[Cells, ...], q: float) -> Counted:
    """Choose the tilt and the starts by the laws, weights and numbers of published cells alone.

    A cell of weight w < 0 counts as y plus a loss, whatever y is: y - f is above the noise.
    """
    size = np.abs([kind.weight for kind in kinds])
    number = sum(kind.number for kind in kinds)
    variance = sum(kind.number * kind.weight**2 * float(kind.law.variance) for kind in kinds)
    top = float(size.max())
    most = min(0.9 * float(kind.law._abscissa) for kind in kinds) / top
    share = -0.5 / number  # log of what a cell below its start multiplies by
    own = _tilted_weights(size, top)
    best: tuple[float, Counted] | None = None
    wanted = top * np.minimum(_TILTS * np.sqrt(-2.0 * np.log(q) / variance), most)
    steps = np.floor(np.log(wanted) / np.log(_STEP))  # few tilts, which many groups share
    for step in np.unique(steps):
        tilt = _STEP**step / top
        chosen: dict[tuple[Any, ...], tuple[float, float, float]] = {}
        starts, losses, cost = [], [], -np.log(q) / tilt
        for kind, weight in zip(kinds, own.tolist(), strict=True):
            first = kind.first if kind.weight > 0 else -np.inf
            key = (kind.law, first, weight)
            if key not in chosen:
                own_step = int(step + np.rint(np.log(weight / top) / np.log(_STEP)))
                chosen[key] = _cheapest(kind.law, first, own_step, share)
            start, loss, price = chosen[key]
            starts.append(start)
            losses.append(loss if kind.weight > 0 else -loss)
            cost += kind.number * abs(kind.weight) * price
        if best is None or cost < best[0]:
            margin = float(-np.log(q) / tilt)
            fee = -share / (tilt * own)
            best = cost, Counted(np.array(starts), np.array(losses), fee, margin)
    return cast("tuple[float, Counted]", best)[1]


def _tilted_weights(size: FloatArray, top: float) -> FloatArray:
    """Return weights that are at least those given, of which there are few.

    A statistic whose exponential has mean 1 or less has it at smaller tilts too, by Jensen.
    """
    steps = np.floor(np.log(np.maximum(size / top, _LEAST_SHARE)) / -np.log(_STEP) + 1e-9)
    return np.asarray(top * _STEP**-steps)


@lru_cache(maxsize=1 << 16)
def _cheapest(
    law: ParametricLaw, first: float, step: int, share: float
) -> tuple[float, float, float]:
    start, loss = _start(law, first, _STEP**step, share)
    price = loss + (0.5 * (start - first) if np.isfinite(first) else 0.0)
    at = int(np.argmin(price))
    return float(start[at]), float(loss[at]), float(price[at])


def _start(
    law: ParametricLaw, first: float, tilt: float, share: float
) -> tuple[FloatArray, FloatArray]:
    """Return values from which cells may count, and the loss of a cell from each of them on.

    With A = exp(share), the loss is the smallest number with
    A·exp(-λf)·P(Y < start) + exp(-λ·loss)·E[exp(λ(Y - f)); Y >= start] <= 1 for all f >= 0, given
    publication. Both parts are monotone in f, but for the factor exp(-λf).
    """
    if first == -np.inf:
        return np.array([-np.inf]), np.array([float(log_moment(law, tilt)(-np.inf))]) / tilt
    start, f, step, at_start, at_first = _tails(law, first)
    moment = log_moment(law, tilt)
    large = moment(start[:, None] - f) - at_first
    small = np.exp(-tilt * f) * -np.expm1(at_start - at_first)
    end = np.broadcast_to(moment(-np.inf) - at_first[-1], (start.size, 1))
    if step:
        large = np.hstack([large[:, 1:] + tilt * step, end])
    else:
        large, small = np.hstack([large, end]), np.hstack([small, small[:, -1:]])
    return start, np.max(large - np.log1p(-np.exp(share) * small), axis=1) / tilt


@lru_cache(maxsize=16)
def _tails(
    law: ParametricLaw, first: float
) -> tuple[FloatArray, FloatArray, float, FloatArray, FloatArray]:
    """Return starts, counts, their step (0: all whole counts), and logarithms of both tails."""
    std = float(law.std)
    start = first + np.linspace(0.0, _WIDEST * std, _STARTS)
    last = max(first, 0.0) + (_WIDEST + 20.0) * std
    if law.is_integer:
        start = np.unique(np.ceil(start))
    if law.is_integer and last <= _COUNTS:
        f, step = np.arange(np.ceil(last) + 1.0), 0.0
    else:
        f = np.linspace(0.0, last, _COUNTS + 1)
        step = float(f[1])
    at_start = log_reaching(law, start[:, None] - f)
    return start, f, step, at_start, log_reaching(law, first - f)


def log_reaching(law: ParametricLaw, x: FloatArray) -> FloatArray:
    return np.asarray(law.logsf(np.ceil(x) - 1.0 if law.is_integer else x))


def log_moment(law: ParametricLaw, s: float) -> Callable[[Any], FloatArray]:
    """Return x -> log E[exp(s·e); e >= x]."""
    if isinstance(law, Gaussian):
        sigma = float(law.sigma)
        return lambda x: 0.5 * (s * sigma) ** 2 + special.log_ndtr(s * sigma - x / sigma)
    if isinstance(law, DiscreteGaussian):
        sigma = float(law.sigma)
        half = np.ceil(s * sigma**2 + 60.0 * sigma + 10.0)
        k = np.arange(-half, half + 1.0)
        held = np.logaddexp.accumulate((law.logpmf(k) + s * k)[::-1])[::-1]
        return lambda x: np.where(
            x > half, -np.inf, held[np.clip(np.ceil(x) + half, 0, 2 * half).astype(np.intp)]
        )
    rate = 1.0 / float(cast("Laplace | Geometric", law).scale)

    def of(x: Any) -> FloatArray:
        if isinstance(law, Laplace):
            up, down = np.maximum(x, 0.0), np.minimum(x, 0.0)
            above = np.exp((s - rate) * up) * rate / (2.0 * (rate - s))
            below = -np.expm1((rate + s) * down) * rate / (2.0 * (rate + s))
        else:
            point = np.ceil(x)
            up, down = np.maximum(point, 0.0), np.minimum(point, 0.0)
            unit = np.tanh(0.5 * rate)
            above = unit * np.exp((s - rate) * up) / -np.expm1(s - rate)
            below = unit * -np.expm1((rate + s) * down) / np.expm1(rate + s)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(above + below))

    return of
