"""The set for one ratio of two linear functions of noise, by the law of each weighted sum."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._numerics.roots import find_root
from dpinfer._validation import FloatArray
from dpinfer.intervals.ratios._arcs import Arcs
from dpinfer.intervals.ratios._fieller import Ends, one_exact
from dpinfer.mechanisms import NoiseLaw, as_noise
from dpinfer.mechanisms.weighted_sum import WeightedSum, on_noises

_CERTAIN = 0.01
"""A bound this far below a logarithm is below it whatever its own rounding."""

DIRECTIONS = 24
"""Number of directions that are looked at before the ends are found between two of them."""

Tail = Callable[[float, float, float], float]
"""``tail(c, s, x)``: log P(c·E₁ - s·E₂ >= x)."""


def weighted_tail(
    first: FloatArray, second: FloatArray, noise: NoiseLaw, least: float = 0.0
) -> Tail:
    """Return the tail for E₁ and E₂ two weighted sums of the same noises.

    Where Chernoff's bound shows that it is below ``least``, the bound stands for it: far tails of
    whole-numbered noise take long, and are only needed for what they are below.
    """
    enough = float(np.log(least)) - _CERTAIN if least > 0 else -np.inf

    def tail(c: float, s: float, x: float) -> float:
        weights = c * first - s * second
        # what is left by rounding where two weights cancel is no weight
        largest = float(np.abs(weights).max())
        weights = np.where(np.abs(weights) > 1e-13 * largest, weights, 0.0)
        total = WeightedSum(weights, noise)
        if (
            least > 0
            and x > 0
            and float(total.std) > 0
            and (bound := total._log_chernoff(x)) < enough
        ):
            return bound
        # by symmetry P(S >= x) = P(S <= -x)
        return float(total.logcdf(-x))

    return tail


def ends_of_one(
    point: tuple[float, float], scale: tuple[float, float], tail: Tail, level: float
) -> tuple[bool, FloatArray, FloatArray]:
    """Return whether all directions are accepted, and otherwise the ends of those that are.

    Parameters
    ----------
    point : (float, float)
        The published values of the two functions.
    scale : (float, float)
        Standard deviations of their errors, positive.
    tail : callable
        Log tails of weighted differences of the errors.
    level : float
        A direction is accepted where P(S >= abs(s)) > ``level``, in (0, 1/2).

    Notes
    -----
    The directions rejected around the most extreme one are left out, and all others are accepted.
    """
    x, y = point[0] / scale[0], point[1] / scale[1]
    size, angle = float(np.hypot(x, y)), float(np.arctan2(x, y))

    def excess(turn: float) -> float:
        """Positive where the direction turned away from that of the estimate is accepted."""
        c, s = np.cos(angle - turn), np.sin(angle - turn)
        return tail(c / scale[0], s / scale[1], size * float(np.sin(turn))) - float(np.log(level))

    turns = np.pi * np.arange(DIRECTIONS + 1) / DIRECTIONS
    values = np.array([np.inf, *(excess(float(turn)) for turn in turns[1:-1]), np.inf])
    top = int(np.argmin(values))
    if values[top] > 0:
        turns, values, top = _refined(excess, turns, values, top)
    if values[top] > 0:
        return True, np.zeros(2), np.zeros(2)
    before = int(np.flatnonzero(values[:top] > 0)[-1])
    after = top + int(np.flatnonzero(values[top:] > 0)[0])
    first = _end(excess, float(turns[before]), float(turns[before + 1]))
    last = _end(excess, float(turns[after]), float(turns[after - 1]))
    left, right = angle - first, angle + np.pi - last
    return (
        False,
        np.array([np.sin(left) * scale[0], np.cos(left) * scale[1]]),
        np.array([np.sin(right) * scale[0], np.cos(right) * scale[1]]),
    )


def _refined(
    excess: Callable[[float], float], turns: FloatArray, values: FloatArray, top: int
) -> tuple[FloatArray, FloatArray, int]:
    """Add the direction that is rejected most, found between the neighbours of the best so far."""
    from scipy import optimize

    found = optimize.minimize_scalar(
        excess, bounds=(turns[top - 1], turns[top + 1]), method="bounded", options={"xatol": 1e-9}
    )
    turn = float(found.x)
    at = int(np.searchsorted(turns, turn))
    turns, values = np.insert(turns, at, turn), np.insert(values, at, float(found.fun))
    return turns, values, int(np.argmin(values))


def _end(excess: Callable[[float], float], accepted: float, rejected: float) -> float:
    """Return where acceptance ends between two turns, from the side that is rejected."""
    step = rejected - accepted

    def function(share: FloatArray, index: NDArray[np.intp]) -> FloatArray:
        values = np.array([excess(accepted + float(part) * step) for part in share])
        # the ends are known, whatever rounding makes of them
        values = np.where(share <= 0, 1.0, np.where(share >= 1, -1.0, values))
        return np.asarray(np.clip(values, -1e3, 1e3))

    _, high = find_root(function, np.zeros(1), np.ones(1), atol=1e-14)
    return accepted + float(high[0]) * step


def dependent_arcs(
    published: FloatArray, first: NoiseLaw, second: NoiseLaw, tail: float, method: str
) -> Arcs:
    """Return what is accepted for pairs (n, 2) of estimates whose errors may share noises."""
    arcs = Arcs.empty(published)
    for row, point in enumerate(published):
        pair = [law.take(row) if law.shape else law for law in (first, second)]
        joint = as_noise(pair, 2, dependence="used")
        weights, noises = on_noises(np.eye(2), joint)
        ends = ends_of_weights(point, weights[0], weights[1], noises, tail, method)
        arcs.fill(np.array([row]), *ends)
    return arcs


def ends_of_weights(
    point: FloatArray,
    first: FloatArray,
    second: FloatArray,
    law: NoiseLaw,
    tail: float,
    method: str,
) -> Ends:
    """Return the ends for one ratio of two weighted sums of the same noises."""
    variances = np.broadcast_to(np.asarray(law.variance, dtype=np.float64), first.shape)
    deviations = [float(np.sqrt(np.square(part) @ variances)) for part in (first, second)]
    if not all(deviations):
        reach = [_quantile(part, law, variances, tail, method) for part in (first, second)]
        return one_exact(point[np.newaxis], np.array([reach]))
    if method == "normal":
        log_tail = _normal_tail(first, second, variances)
    else:
        log_tail = weighted_tail(first, second, law, tail)
    x, y = float(point[0]), float(point[1])
    everything, left, right = ends_of_one((x, y), (deviations[0], deviations[1]), log_tail, tail)
    return np.array([everything]), left[np.newaxis], right[np.newaxis]


def _quantile(
    weights: FloatArray, law: NoiseLaw, variances: FloatArray, tail: float, method: str
) -> float:
    """Upper quantile of the error of one function."""
    if method == "normal":
        return float(-special.ndtri(tail) * np.sqrt(np.square(weights) @ variances))
    return float(WeightedSum(weights, law).isf(tail))


def _normal_tail(first: FloatArray, second: FloatArray, variances: FloatArray) -> Tail:
    """Return the tail of weighted sums, taken as normal."""

    def tail(c: float, s: float, x: float) -> float:
        deviation = np.sqrt(np.square(c * first - s * second) @ variances)
        if deviation == 0:
            return 0.0 if x <= 0 else -np.inf
        return float(special.log_ndtr(-x / deviation))

    return tail
