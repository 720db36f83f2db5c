"""Ends of intervals from a noisy count: where a tail has a given probability."""

from __future__ import annotations

import numpy as np
from scipy import special

from dpinfer._validation import FloatArray
from dpinfer.errors import ConvergenceError
from dpinfer.intervals.proportions._edges import Edge, has_edge
from dpinfer.intervals.proportions._families import BinomialCounts, CountFamily, Rows
from dpinfer.intervals.proportions._interpolated import interpolated
from dpinfer.intervals.proportions._kernel import Kernel
from dpinfer.intervals.proportions._tails import NoisyTails
from dpinfer.intervals.proportions._tilted_roots import tilted_roots

MAX_STEPS = 200

_QUADRATIC = 1e-7
"""Newton's method: from this distance in the probit of the tail, one step reaches the root."""

_LONGEST_STEP = 4.0
"""Largest step, in standard deviations of the noisy count."""

_PLAIN_STEPS = 40
"""Number of steps after which the bracket is halved instead."""

_CLOSED_FROM = 1e-290
"""Smaller probabilities are not precise enough as floats for closed forms."""

_UNBOUNDED = 1e300
"""Stands for infinity in brackets that are still open."""

_INTERPOLATED_FROM = 1 << 10
"""From so many rows on, an interpolation is tried."""

_TOLERANCE = 1e-12
"""Error of an interpolated end, in standard deviations of the noisy count."""


def tail_roots(
    family: CountFamily, kernel: Kernel, t: FloatArray, side: int, probability: float
) -> FloatArray:
    """Parameter at which P(T >= t) (side 1) or P(T <= t) (side -1) has a given value.

    Parameters
    ----------
    family : CountFamily
        Law of the count before noise, in m rows.
    kernel : Kernel
        The noise.
    t : array of float, shape (m,)
        The published counts.
    side : int
        Which tail: 1 or -1.
    probability : float
        Value of the tail, in (0, 1).

    Returns
    -------
    array of float, shape (m,)
        The roots. The end of the range where the tail is larger than ``probability`` all over it,
        and, where it is smaller all over it, a number beyond the other end: inf for side 1 and
        -inf for side -1.
    """
    noise = kernel.noise
    one_law = noise.shape == () and all((x == x[0]).all() for x in family.columns)
    if noise.is_integer or not one_law or t.size < _INTERPOLATED_FROM:
        return _solved(family, kernel, t, side, probability)
    low = side * float(noise._isf(np.asarray(probability)))
    high = low + float(family.last[0])
    inside = (t > low) & (t < high)

    def alike(size: int) -> CountFamily:
        return family.take(np.zeros(size, dtype=np.intp))

    def ends(x: FloatArray) -> FloatArray:
        return _solved(alike(x.size), kernel, x, side, probability)

    def tolerance(root: FloatArray) -> FloatArray:
        law = alike(root.size)
        spread = np.sqrt(law.variance(root.ravel()) + noise.variance) / law.scale
        return np.asarray(_TOLERANCE * spread.reshape(root.shape))

    root = np.empty(t.size)
    root[inside] = interpolated(ends, tolerance, t[inside], low, high)
    root[~inside] = ends(t[~inside])
    return root


def _solved(
    family: CountFamily, kernel: Kernel, t: FloatArray, side: int, probability: float
) -> FloatArray:
    """Roots found row by row."""
    tails = NoisyTails(family=family, kernel=kernel, t=t, side=side, probability=probability)
    beyond = tails.lifted(0.5 + 0.5 * side)
    limits = [tails.without_spread(np.zeros(t.shape)), np.full(t.shape, beyond)]
    if np.isfinite(family.last).all():
        limits[1] = tails.without_spread(family.last)
    least, most = limits[::side]
    first, last = (np.zeros(t.shape), family.largest)[::side]
    wanted = tails.lifted(probability)
    root = np.where(least >= wanted, first, np.where(most == wanted, last, side * np.inf))
    rows = np.flatnonzero((least < wanted) & (most > wanted))
    if rows.size:
        root[rows] = _found(tails, rows, _start(tails, rows))
    return root


def _found(tails: NoisyTails, rows: Rows, start: FloatArray) -> FloatArray:
    """Roots that exist: from closed forms where there are such, and safe steps elsewhere."""
    root = np.full(rows.size, np.nan)
    noise = tails.kernel.noise
    shallow = tails.probability > _CLOSED_FROM
    if shallow and isinstance(tails.family, BinomialCounts) and has_edge(noise):
        t, nobs = tails.t[rows], tails.family.nobs[rows]
        # a lower tail is what is left of the upper one from the next value on
        if tails.side < 0 and noise.is_integer and not tails.kernel.mid:
            t = t + 1.0
        edge = Edge.of(noise.take(rows) if noise.shape else noise, t, mid=tails.kernel.mid)
        root = _by_tilting(tails, nobs, edge, start)
    left = np.flatnonzero(np.isnan(root))
    if left.size:
        root[left] = _newton(tails.smaller, rows[left], start[left])
    return root


def _by_tilting(tails: NoisyTails, nobs: FloatArray, edge: Edge, start: FloatArray) -> FloatArray:
    """Roots from closed forms, NaN where they fail; of the two tails the smaller one is solved."""
    less = min(tails.probability, 1.0 - tails.probability)
    if (tails.side > 0) == (tails.probability <= 0.5):
        return np.asarray(special.expit(tilted_roots(nobs, edge, less, special.logit(start))))
    mirrored = tilted_roots(nobs, edge.mirrored(nobs), less, -special.logit(start))
    return np.asarray(special.expit(-mirrored))


def _start(tails: NoisyTails, rows: Rows) -> FloatArray:
    """Approximate the count by a normal law, with the quantile of the noise beside it."""
    family, t, side = tails.family.take(rows), tails.t[rows], tails.side
    probability = np.asarray(min(tails.probability, 1.0 - tails.probability))
    z = -special.ndtri(probability)
    quantile = tails.kernel.noise._isf(probability)
    quantile = quantile[rows] if quantile.ndim else quantile
    towards = -side if tails.probability < 0.5 else side
    start = family.score_root(t - 0.5 * side * tails.kernel.noise.is_integer, z, quantile, towards)
    smallest = np.minimum(0.01 / family.scale, 0.5 * family.largest)
    return np.clip(start, smallest, family.largest - smallest)


def _newton(tails: NoisyTails, rows: Rows, theta: FloatArray) -> FloatArray:
    """Newton's method on the probit of the tails, within brackets that only shrink."""
    theta = theta.copy()
    low, high = np.zeros(rows.size), tails.family.largest[rows]
    goal, wanted = float(special.ndtri(tails.probability)), tails.lifted(tails.probability)
    open_ = np.arange(rows.size)
    for count in range(MAX_STEPS):
        now = theta[open_]
        tail, slope = tails.at(now, rows[open_])
        above = tails.side * (tail - wanted) > 0.0
        high[open_] = np.where(above, now, high[open_])
        low[open_] = np.where(above, low[open_], now)
        new, distance = _next(tails, rows[open_], now, tail, slope, goal)
        a, b = low[open_], np.minimum(high[open_], _UNBOUNDED)
        new = np.where(new > a, new, a + 0.1 * (now - a))
        new = np.where(new < b, new, b - 0.1 * (b - now))
        closed = (b - a <= 4e-16 * np.abs(now)) | (tail == wanted)
        # between the limits of the parameter and the next floats there is nothing to look for
        closed |= (new <= a) | (new >= b)
        if count >= _PLAIN_STEPS:
            inside = np.where(a > 0.0, 0.5 * (a + b), 0.01 * b)
            new = np.where((b < _UNBOUNDED) & (distance >= _QUADRATIC), inside, new)
        theta[open_] = np.where(closed, now, new)
        open_ = open_[~(closed | (distance < _QUADRATIC))]
        if not open_.size:
            return theta
    raise ConvergenceError(
        f"an end of an interval is still open after {MAX_STEPS} steps: if alpha is very close to 0 "
        f"or 1, move it away, else use method={tails.family.approximate!r} or 'normal'"
    )


def _next(
    tails: NoisyTails,
    rows: Rows,
    theta: FloatArray,
    tail: FloatArray,
    slope: FloatArray,
    goal: float,
) -> tuple[FloatArray, FloatArray]:
    """Where Newton's method goes from θ, and how far the probit of the tail is from its goal."""
    family = tails.family.take(rows)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_tail = np.minimum(np.log(tail) - 2.0 * tails.kernel.log_lift, -1e-16)
        probit = special.ndtri_exp(log_tail)
        hazard = np.exp(-0.5 * np.square(probit) - log_tail) / np.sqrt(2.0 * np.pi)
        distance = probit - goal
        step = -distance * hazard * (tail / slope)
        # near 0 tails are like powers of θ
        factor = np.exp((np.log(tails.probability) - log_tail) * (tail / slope) / theta)
    noise = np.asarray(tails.kernel.noise.variance)
    noise = noise[rows] if noise.ndim else noise
    longest = _LONGEST_STEP * np.sqrt(family.variance(theta) + noise + 1.0) / family.scale
    # where the slope has vanished, or is rounding, only its direction is known
    flat = ~np.isfinite(step) | (tails.side * slope <= 0.0)
    step = np.where(flat, np.copysign(np.inf, -tails.side * distance), step)
    new = theta + np.clip(step, -longest, longest)
    new = np.where((new <= 0.0) & (factor < 1.0) & ~flat, theta * factor, new)
    return new, np.where(flat, np.inf, np.abs(distance))
