"""Mechanisms and their compositions: the curve of a privacy loss, which is exact.

The curve lies below all its tangents, power(α) ≤ e^t·α + δ(t), and touches each; δ(t) is all that
is needed of the loss. It is symmetric, so that δ(-t) = 1 - e^{-t}(1 - δ(t)).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.privacy.guarantees._power_curve import Curve

_DEVIATIONS = 40.0
"""Losses further from their mean, in standard deviations, decide nothing here."""
_LARGEST_EXPONENT = 700.0
_CLOSE = 1e-11
_ROUNDING = 1e-9
_ROOT = 1.5e-8
_KINK = 1e-12
_GOLDEN = 0.5 * (5.0**0.5 - 1.0)
_SECTIONS = 36


@dataclass(frozen=True)
class LossCurve(Curve):
    """The curve of the likelihood ratio test, than which none has more power."""

    loss: Any

    @property
    def at_zero(self) -> float:
        """Return the power at level 0."""
        return float(self.loss.power(0.0))

    def power(self, alpha: FloatArray) -> FloatArray:
        """Return the largest power at each level."""
        return np.asarray(self.loss.power(alpha), dtype=np.float64)

    def level(self, power: FloatArray) -> FloatArray:
        """Return the smallest level at which each power is possible: (power - δ(t))e^{-t}."""
        reach = self._reach()

        def one(wanted: float) -> float:
            low = max(-reach, -_LARGEST_EXPONENT)
            return -_least(lambda t: (self._delta(t) - wanted) * np.exp(-t), low, reach)

        return np.maximum([one(float(wanted)) for wanted in power], 0.0)

    def log_level(self, power: FloatArray) -> FloatArray:
        """Return the logarithm of that level."""
        found = super().log_level(power)
        reach = self._reach()

        def gain(t: float, wanted: float) -> float:
            return float(t - np.log(max(wanted - self._delta(t), 1e-320)))

        for at in np.flatnonzero(np.isneginf(found) & (power > self.at_zero)):
            wanted = float(power[at])
            # below this loss the tangent says nothing
            first = float(self.loss.epsilon(wanted))
            found[at] = -_least(partial(gain, wanted=wanted), first, reach)
        return found

    def crossing(self, epsilon: FloatArray) -> FloatArray:
        """Return the largest power β that is e^ε times its level or more, 0 if there is none.

        The line of slope e^ε meets the tangent at t where β = δ(t)/(1 - e^{t-ε}), and the curve at
        the least of these.
        """
        reach = self._reach()

        def one(at: float) -> float:
            # an ε within rounding of the largest loss counts as that loss
            last = at * (1.0 - _ROUNDING)
            if self._delta(last) <= 0.0:
                return 0.0
            return _least(lambda t: self._delta(t) / -np.expm1(t - at), min(-reach, -at), last)

        return np.minimum([one(float(at)) for at in epsilon], 1.0)

    def _reach(self) -> float:
        return float(self.loss.mean + _DEVIATIONS * np.sqrt(self.loss.variance))

    def _delta(self, t: float) -> float:
        """δ(t) for t of any sign."""
        found = float(self.loss.delta(abs(t)))
        return found if t >= 0 else 1.0 - float(np.exp(t)) * (1.0 - found)


def _least(function: Callable[[float], float], lower: float, upper: float) -> float:
    """Least value of a function that first falls and then rises, between the ends."""
    from scipy import optimize

    found = optimize.minimize_scalar(
        function, bounds=(lower, upper), method="bounded", options={"xatol": _CLOSE * upper}
    )
    at, least = float(found.x), float(found.fun)
    # that place is good to the root of rounding, which is enough but where the function has a kink
    near = 4.0 * _ROOT * max(abs(at), upper)
    low, high = max(at - near, lower), min(at + near, upper)
    first, last = function(low), function(high)
    if max(first, last) - least <= _KINK * abs(least):
        return min(least, first, last)
    return _golden(function, low, high)


def _golden(function: Callable[[float], float], low: float, high: float) -> float:
    """Least value of such a function, by golden sections."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(_SECTIONS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return min(at_left, at_right, function(low), function(high))
