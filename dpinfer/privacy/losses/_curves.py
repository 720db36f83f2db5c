"""From tails to the inverse curve ε(δ) and to the trade-off curve, one point at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpinfer.errors import ConvergenceError
from dpinfer.privacy.losses._inversion import Inversion
from dpinfer.privacy.losses._line import Tails

MOST_STEPS = 200
CLOSE = 2e-15
PROVEN = 1e-13
LONG = 700.0
ROUNDING = 2e-16


def smallest_epsilon(inversion: Inversion, delta: float) -> tuple[float, Tails]:
    """Return the ε >= 0 with δ(ε) = ``delta``, and the tails there; 0 where δ(0) is smaller.

    Newton's method on ln δ(ε), whose slope is -e^ε·Q(L > ε)/δ(ε), kept within a bracket.
    """
    lower, upper = 0.0, inversion.total.largest
    tails = inversion.tails(0.0)
    if tails.values[0] <= delta:
        return 0.0, tails
    target = float(np.log(delta))
    total = inversion.total
    # what a normal loss would have
    at = min(total.mean + np.sqrt(-2.0 * total.variance * target), 0.999 * upper)
    for _ in range(MOST_STEPS):
        tails = inversion.tails(at)
        value, _, scaled = tails.values
        if value > delta:
            lower = at
        else:
            upper = at
        step = 0.0
        if value > 0 and scaled > 0:
            step = (float(np.log(value)) - target) * value / scaled
            if abs(step) <= CLOSE * at:
                return at, tails
        if np.isfinite(upper) and upper - lower <= CLOSE * upper:
            return upper, inversion.tails(upper)
        at += min(step, at + total.mean + float(np.sqrt(total.variance)))
        if not step or not lower < at < upper:
            at = 0.5 * (lower + upper) if np.isfinite(upper) else 2.0 * lower + 1.0
    raise ConvergenceError(f"epsilon at delta = {delta} still open after {MOST_STEPS} steps")


def largest_power(inversion: Inversion, alpha: float) -> float:
    """Power of the best test of level α, by the Neyman-Pearson lemma.

    With y = e^ε as the threshold of the likelihood ratio the power is at most yα + δ, which is
    convex in y, of slope α - Q(L > ε), and attained where this changes its sign. Where ε would be
    negative the curve follows by its symmetry, (α, β) -> (1 - β, 1 - α): 1 - β is the largest
    x(1 - α - δ) over x = e^-ε, whose slope is 1 - α - P(L > ε).
    """
    if alpha in (0.0, 1.0):
        return alpha
    delta, above, scaled = inversion.tails(0.0).values
    missed, log_level = 1.0 - alpha, float(np.log(alpha))

    def rising(epsilon: float) -> _Point:
        d, p, q = inversion.tails(epsilon).values
        at = float(np.exp(min(epsilon + log_level, 700.0)))
        # far on the left q is lost in the rounding of p, and not even its sign is known
        excess = _log(max(q, ROUNDING * p)) - epsilon - log_level
        return _Point(epsilon, at + d, at - q, p, excess)

    def falling(epsilon: float) -> _Point:
        d, p, q = inversion.tails(epsilon).values
        x = float(np.exp(-epsilon))
        excess = _log(p) - float(np.log(missed))
        return _Point(epsilon, x * (d - missed), x * (p - missed), -x * q, excess)

    if alpha <= scaled:
        return min(_least(inversion, rising, 1.0), 1.0)
    if missed <= above:
        return min(1.0 + _least(inversion, falling, -1.0), 1.0)
    return float(min(alpha + delta, 1.0))


@dataclass(frozen=True)
class _Point:
    """At an ε: a convex function of c = e^(±ε), c times its slope, and what changes sign.

    ``intercept`` is where its tangent passes c = 0: height less slope, without cancellation.
    """

    epsilon: float
    height: float
    slope: float
    intercept: float
    excess: float


def _least(inversion: Inversion, point: Callable[[float], _Point], sign: float) -> float:
    """Least value of a convex function of c = e^(sign·ε), smooth or with kinks.

    The tangents at both ends of a bracket meet below the function: where it is not far above, that
    is the minimum. In turns the next point is there, which ends at once on a kink, and where the
    excess, interpolated, is 0, which is quick on a smooth piece.
    """
    total = inversion.total
    low = point(0.0)
    high = point(min(total.largest, total.mean + float(np.sqrt(total.variance))))
    while high.excess > 0:
        low, high = high, point(2.0 * high.epsilon)
    best, before = min(low.height, high.height), np.inf
    for turn in range(MOST_STEPS):
        least, at = _meeting(low, high, sign)
        width = high.epsilon - low.epsilon
        if best - least <= PROVEN * abs(best) or width <= CLOSE * high.epsilon:
            return best
        if turn % 2:
            at = low.epsilon + width * low.excess / (low.excess - high.excess)
        elif width > 0.5 * before:
            at = low.epsilon + 0.5 * width
        if not turn % 2:
            before = width
        middle = point(min(max(at, low.epsilon), high.epsilon))
        best = min(best, middle.height)
        low, high = (middle, high) if middle.excess > 0 else (low, middle)
    raise ConvergenceError(f"the power is still open after {MOST_STEPS} steps")


def _meeting(low: _Point, high: _Point, sign: float) -> tuple[float, float]:
    """Height and ε at which the tangents at both ends meet.

    Across a wide bracket one end may be larger than the other by more than all digits, so that the
    intercepts and the smaller tangent are used, not the heights of both.
    """
    width = high.epsilon - low.epsilon
    if width > LONG:
        return -np.inf, low.epsilon + 0.5 * width
    distance = abs(float(np.expm1(sign * width)))
    # slopes in units of c at the low end
    first, last = low.slope, high.slope * float(np.exp(-sign * width))
    bend = sign * (last - first)
    if bend <= 0:
        return -np.inf, low.epsilon + 0.5 * width
    # the function less the other tangent at the low end
    share = min(max((low.height - (high.intercept + last)) / bend, 0.0), distance)
    at = low.epsilon + sign * float(np.log1p(sign * share)) if sign * share > -1 else high.epsilon
    c = 1.0 + sign * share
    tangents = [(low.intercept, first * c), (high.intercept, last * c)]
    intercept, rise = min(tangents, key=lambda terms: abs(terms[0]) + abs(terms[1]))
    return intercept + rise, at


def _log(value: float) -> float:
    """Logarithm of a tail; one of 0 is below every level, and finite for interpolation."""
    return float(np.log(max(value, 1e-320)))
