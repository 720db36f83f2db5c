"""P-values that hold whatever the value of a nuisance parameter.

Berger and Boos (1994): let C be a confidence set for the nuisance parameter that misses it with
probability β at most, and p(θ) the p-value if it were θ. Then max over C of p(θ), plus β, is a
p-value: P(p <= α) <= α for every θ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from dpinfer._validation import Alternative, FloatArray
from dpinfer.results.null_distribution import _KnownTails

_START = 65
"""Points from which the search for a certified maximum starts."""


def certified_maximum(
    tail: Callable[[FloatArray], FloatArray],
    low: float,
    high: float,
    information: float,
    tolerance: float,
) -> float:
    """Upper bound on the largest probability of an event over an interval of a parameter x.

    ``information`` I bounds the Fisher information about x, and minus the expected second
    derivative of the log-likelihood is I as well. Then asin√P changes by √I/2 per unit of x at
    most, and, as P'' = E[1{event}·(s² + s')] with the score s and E[s² + s'] = 0,
    abs(P'') <= E[s² + abs(s')]/2 <= I. Between two points P is thus bounded from its values there.

    Branch and bound: pieces are halved until no bound exceeds the largest value by more than
    ``tolerance``. The largest bound is returned.
    """
    x = np.linspace(low, high, _START if high > low else 1)
    y = tail(x)
    best = bound = float(y.max())
    left, right, y_left, y_right = x[:-1], x[1:], y[:-1], y[1:]
    while left.size:
        inside = _bound_between(y_left, y_right, right - left, information)
        unsure = inside > best + tolerance
        bound = max(bound, float(np.max(inside[~unsure], initial=0.0)))
        left, right, y_left, y_right = (part[unsure] for part in (left, right, y_left, y_right))
        middle = 0.5 * (left + right)
        y_middle = tail(middle) if middle.size else middle
        best = max(best, float(np.max(y_middle, initial=0.0)))
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
        y_left, y_right = np.concatenate([y_left, y_middle]), np.concatenate([y_middle, y_right])
    return max(bound, best)


def _bound_between(
    y_left: FloatArray, y_right: FloatArray, width: FloatArray, information: float
) -> FloatArray:
    """Bound on the probability between two points, by its slope and by its curvature."""
    curved = np.maximum(y_left, y_right) + information * np.square(width) / 8.0
    rise = 0.5 * np.sqrt(information) * width
    angle = np.minimum(0.5 * (_angle(y_left) + _angle(y_right) + rise), 0.5 * np.pi)
    return np.asarray(np.minimum(curved, np.sin(angle) ** 2))


def _angle(probability: FloatArray) -> FloatArray:
    return np.asarray(np.arcsin(np.sqrt(np.clip(probability, 0.0, 1.0))))


@final
@dataclass(frozen=True, eq=False)
class GuaranteedNull(_KnownTails):
    """Upper bounds on the tails of a statistic that hold for all nuisance parameters in a set.

    Parameters
    ----------
    larger, smaller, further : callable
        Bounds on P(S >= s), P(S <= s) and P(abs(S) >= s), the probability β included.
    """

    further: Callable[[FloatArray], FloatArray]

    def _extreme(self, statistic: FloatArray, alternative: Alternative) -> FloatArray:
        if alternative == "two-sided":
            return np.asarray(self.further(np.abs(statistic)))
        return super()._extreme(statistic, alternative)

    def _facts(self) -> list[tuple[str, object]]:
        return [("Kind", "exact, the largest over a confidence set for the nuisance parameter")]
