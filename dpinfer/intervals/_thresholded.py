"""How far sums of published values may be from the truth, where a threshold selects the values."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import ComplexArray, FloatArray
from dpinfer._numerics.lattice import alike, masses
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


# Functions that are 0 up to the threshold, whatever is not listed: estimates without bias.


class Scores(NamedTuple):
    """Contributions of published values to an estimate, and to that of its variance."""

    value: FloatArray
    variance: FloatArray


class _Curve(NamedTuple):
    """A function that is 0 up to the threshold, and its derivatives."""

    r: FloatArray
    slope: FloatArray
    bend: FloatArray


def _ramp(z: FloatArray, _: FloatArray, width: FloatArray, unit: float) -> _Curve:
    """0 up to 0, z - (width - unit)/2 from ``width`` on; z(z + unit)/(2·width) between."""
    inside = np.clip(z, 0.0, width)
    bent = inside * (inside + unit) / (2.0 * width)
    r = np.where(z < width, bent, z - 0.5 * (width - unit))
    return _Curve(r, inside / width, np.where((z > 0) & (z < width), 1.0 / width, 0.0))


def _step(z: FloatArray, _: FloatArray, width: FloatArray, unit: float) -> _Curve:
    """3u² - 2u³ with u = z/width between 0 and 1."""
    u = np.clip(z / width, 0.0, 1.0)
    bend = np.where((z > 0) & (z < width), (6.0 - 12.0 * u) / width**2, 0.0)
    return _Curve(u**2 * (3.0 - 2.0 * u), 6.0 * u * (1.0 - u) / width, bend)


def _whole_from(z: FloatArray, first: FloatArray, width: FloatArray, unit: float) -> _Curve:
    """Return the value itself times :func:`_step`."""
    x, (r, slope, bend) = z + first, _step(z, first, width, unit)
    return _Curve(x * r, r + x * slope, 2.0 * slope + x * bend)


_CURVES = {"excess": _ramp, "soft": _ramp, "soft-total": _whole_from, "soft-count": _step}

WIDTHS = {"excess": 1.0, "soft": 1.0, "soft-total": 4.0, "soft-count": 4.0}
"""Widths in scales of the noise."""


class Soft(NamedTuple):
    """Cells with a kind of noise, shape (n,) or one for all, and a function of their counts."""

    law: ParametricLaw
    first: FloatArray
    """The smallest value that is published."""
    width: FloatArray
    target: str

    def take(self, rows: NDArray[np.intp]) -> Soft:
        law = self.law.take(rows) if self.law.shape else self.law
        return Soft(law, self.first[rows], self.width[rows], self.target)

    def scores(self, y: FloatArray) -> Scores:
        """Apply r - (v/2)·(second difference or derivative of r); under Gaussian noise, y - t."""
        v = np.asarray(self.law.variance)
        if isinstance(self.law, (Gaussian, DiscreteGaussian)):  # a slope of 1 where published
            return Scores(y - self.first, np.broadcast_to(v, y.shape))
        curve, z, half = _CURVES[self.target], y - self.first, 0.5 * v
        if isinstance(self.law, Geometric):
            below, at, above = (curve(z + k, self.first, self.width, 1.0).r for k in (-1, 0, 1))
            value = at - half * (below - 2.0 * at + above)
            squares = at**2 - half * (below**2 - 2.0 * at**2 + above**2)
        else:
            r, slope, bend = curve(z, self.first, self.width, 0.0)
            value = r - half * bend
            squares = r**2 - 2.0 * half * (slope**2 + r * bend)
        return Scores(value, value**2 - squares)

    def most(self) -> FloatArray:
        """Return the largest tilt, at which :meth:`log_factors` are of at least 1/4 exp(±κr).

        They are that much if (v/2)·(κ·|r''| + κ²·r'²·exp(κ·r')) <= 3/4.
        """
        if isinstance(self.law, (Gaussian, DiscreteGaussian)):
            most = _LARGEST / _sigma(self.law)
            return np.minimum(most, _STEEPEST) if self.law.is_integer else most
        v, w = np.asarray(self.law.variance), self.width
        half, grown = self._halves(v)
        grown = np.maximum(grown, 1e-100)  # noise that is 0
        if self.target in ("excess", "soft"):
            return self._flat(np.sqrt(0.375 / grown), 1.0)
        reach = np.abs(self.first) + w if self.target == "soft-total" else 1.0
        own = 1.0 if self.target == "soft-total" else 0.0
        bend = half * (own * 3.0 / w + reach * 6.0 / w**2)
        slope = np.maximum(own + reach * 1.5 / w, 1e-100)
        most = 1.5 / (bend + np.sqrt(bend**2 + 3.0 * grown * slope**2))
        return self._flat(np.asarray(most), slope)

    def log_factors(self, y: FloatArray, tilt: FloatArray) -> FloatArray:
        """Return logarithms of factors with a mean of at most exp(κ·r), unpublished cells having 1.

        With u = exp(κ·r) - 1, which is 0 up to the threshold, they are 1 + u - (v/2)u'', of mean
        exp(κ·r). For κ > 0 a wider bend, which is below r, keeps them positive.
        """
        if isinstance(self.law, (Gaussian, DiscreteGaussian)):
            return tilt * (y - self.first) - np.abs(tilt) * self._losses(tilt)
        curve, z = _CURVES[self.target], y - self.first
        half, grown = self._halves(np.asarray(self.law.variance))
        width = self.width
        if self.target in ("excess", "soft"):
            least = half * np.maximum(tilt, 0.0) / (0.75 - grown * tilt**2)
            width = np.maximum(width, np.ceil(least) if self.law.is_integer else least)
        if isinstance(self.law, Geometric):
            below, at, above = (curve(z + k, self.first, width, 1.0).r for k in (-1, 0, 1))
            bent = np.expm1(tilt * (above - at)) + np.expm1(tilt * (below - at))
            return np.asarray(tilt * at + np.log1p(-half * bent))
        r, slope, bend = curve(z, self.first, width, 0.0)
        return np.asarray(tilt * r + np.log1p(-half * (tilt * bend + np.square(tilt * slope))))

    def _halves(self, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return v/2, and for whole numbers v/2 times a bound of exp(κ·r')."""
        if not isinstance(self.law, Geometric):
            return 0.5 * v, 0.5 * v
        return 0.5 * v, 0.5 * v * np.exp(np.sqrt(1.5 / np.maximum(v, 1.5 / _FLAT**2)))

    def _flat(self, most: FloatArray, slope: Any) -> FloatArray:
        """Keep κ·r' below what :meth:`_halves` takes as its bound."""
        return np.asarray(np.minimum(most, _FLAT / slope) if self.law.is_integer else most)

    def _losses(self, tilt: FloatArray) -> FloatArray:
        """Losses at tilts rounded up: what holds at a tilt holds at smaller ones, by Jensen."""
        sigma = np.broadcast_to(_sigma(self.law), tilt.shape)
        steps = np.ceil(np.log(np.abs(tilt) * sigma / _LARGEST) / np.log(_FINE) - 1e-9)
        rounded = np.sign(tilt) * _LARGEST * _FINE**steps / sigma
        if not tilt.size:
            return np.asarray(rounded)
        first, kind = alike([sigma, steps, np.sign(tilt)])
        whole = self.law.is_integer
        found = [_loss(whole, float(sigma[at]), float(rounded[at])) for at in first]
        return np.asarray(found)[kind]


def _sigma(law: Any) -> FloatArray:
    return np.asarray(law.sigma, dtype=np.float64)


_LARGEST = 1.25
_FINE = 1.05
_FLAT = 3.0
_STEEPEST = 20.0
"""Bounds where noise is far below 1."""
_SPAN = 10.0
_GRID = 4000
_SUMMED = 1e4
"""Parameter from which discrete Gaussian noise counts as Gaussian: within 1e-8."""


@lru_cache(maxsize=4096)
def _loss(whole: bool, sigma: float, tilt: float) -> float:
    """Return a loss b with P(y < t) + E[exp(κ(y - t) - |κ|b); y >= t] <= exp(κ·E(y - t)₊) always.

    The largest that any distance of a count from the threshold needs, on a grid of them, and
    0.1 % more; far above it is log E exp(κe)/|κ|, at most |κ|σ²/2.
    """
    summed = whole and sigma <= _SUMMED
    law: Any = DiscreteGaussian(sigma=sigma) if summed else Gaussian(sigma=sigma)
    d = np.linspace(-_SPAN * sigma, _SPAN * sigma, _GRID + 1)
    if summed:
        end = np.ceil(_SPAN * sigma) + 2.0
        points = np.arange(-end, end + 1.0)
        beyond = np.append(law.sf(points[::-1] - 1.0).cumsum()[::-1], 0.0)  # sums of P(e >= k)
        d = np.unique(np.rint(np.append(d, [-end, end])))
        mean = beyond[(1.0 - d + end).astype(np.intp)]
    else:
        z = d / sigma
        mean = sigma * (z * special.ndtr(z) + np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi))
    reaching = log_reaching(law, -d)
    seen = reaching > -600.0
    room = (np.expm1(tilt * mean) + np.exp(reaching))[seen]
    if (room <= 0).any():
        return np.inf
    needed = ((log_moment(law, tilt)(-d) + tilt * d)[seen] - np.log(room)) / abs(tilt)
    return float(1.001 * max(needed.max(), 0.5 * abs(tilt) * sigma**2))


# Their lower ends, from products of factors.

TILTS = 10
"""Each is half of the one before: those for one cell, and for some hundred thousand."""


def lowest(sums: FloatArray, tilts: FloatArray, q: float) -> FloatArray:
    """Return R with mean over tilts of exp(sum - tilt·R) = 1/q, for columns of sums, from below.

    The mean of exp(sum - tilt·truth) is at most 1. Newton's steps from the left stay there, as the
    logarithm is convex.
    """
    room = np.log(len(tilts) / q)
    found = np.max((sums - room) / tilts, axis=0)
    for _ in range(20):
        terms = sums - tilts * found
        share = special.softmax(terms, axis=0)
        found = found + (special.logsumexp(terms, axis=0) - room) / np.sum(share * tilts, axis=0)
    return np.asarray(found)
