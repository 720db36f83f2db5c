"""Optimal composition: k equal mechanisms, one of which tells all, or true answers decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._numerics.roots import find_root
from dpinfer._validation import FloatArray
from dpinfer.privacy.composition._response_losses import losses_delta
from dpinfer.privacy.guarantees._power_curve import Curve

_LEAST_LOG = -700.0
"""Levels are looked for from e to this power on."""

_APART = 40.0


@dataclass(frozen=True)
class RepeatedCurve(Curve):
    """The test that counts the true ones among k randomized responses, of (ε, δ) each."""

    epsilon: float
    delta: float
    count: int

    @property
    def at_zero(self) -> float:
        """Return the power at level 0."""
        return float(-np.expm1(self.count * np.log1p(-self.delta)))

    def power(self, alpha: FloatArray) -> FloatArray:
        """Return the largest power at each level."""
        told = self.at_zero
        inner = np.minimum(alpha / (1.0 - told), 1.0) if told < 1 else np.ones(alpha.shape)
        return np.minimum(told + (1.0 - told) * self._inner(inner), 1.0)

    def level(self, power: FloatArray) -> FloatArray:
        """Return the smallest level at which each power is possible."""

        def missing(s: FloatArray, index: NDArray[np.intp]) -> FloatArray:
            return power[index] - self._at(s)

        return self._root(missing, power.shape)

    def crossing(self, epsilon: FloatArray) -> FloatArray:
        """Return the largest power β that is e^ε times its level or more, 0 if there is none."""

        def ratio(s: FloatArray, index: NDArray[np.intp]) -> FloatArray:
            return np.log(np.maximum(self._at(s), 1e-320)) - s - epsilon[index]

        log_level = np.log(np.maximum(self._root(ratio, epsilon.shape), 1e-320))
        found = np.exp(np.minimum(epsilon + log_level, 0.0))
        for at in np.flatnonzero(log_level <= _LEAST_LOG):
            found[at] = self._crossing_beyond(float(epsilon[at]))
        return found

    def log_level(self, power: FloatArray) -> FloatArray:
        """Return the logarithm of the smallest level at which each power is possible.

        The curve is made of its tangents in the losses t, power = e^t·level + δ(t).
        """
        found = super().log_level(power)

        def log_level(j: int, wanted: float) -> float:
            rest = wanted - self._delta(j)
            return float(np.log(rest)) - self._loss(j) if rest > 0 else -np.inf

        for at in np.flatnonzero(np.isneginf(found) & (power > self.at_zero)):
            wanted = float(power[at])
            found[at] = _peak(partial(log_level, wanted=wanted), self._first, self.count)
        return found

    def _crossing_beyond(self, epsilon: float) -> float:
        """Crossing at a level that no float holds: of the line of slope e^ε with a tangent."""
        # with the least power, as the tangent is above the curve
        last = min(int(np.ceil(0.5 * (epsilon / self.epsilon + self.count))) - 1, self.count)
        if self.epsilon == 0 or last < self._first:
            return self.at_zero
        # a tangent in a loss below ε by so much that the crossing with it is at its own δ
        before = int(0.5 * ((epsilon - _APART) / self.epsilon + self.count))
        if before >= self._first and self._delta(min(before, last)) == self.at_zero:
            return self.at_zero

        def beaten(j: int) -> float:
            return -self._delta(j) / -float(np.expm1(self._loss(j) - epsilon))

        return -_peak(beaten, self._first, last)

    @property
    def _first(self) -> int:
        """Least number of true answers with a loss of 0 or more."""
        return (self.count + 1) // 2

    def _loss(self, true: int) -> float:
        return (2.0 * true - self.count) * self.epsilon

    def _delta(self, true: int) -> float:
        """δ at the loss of a number of true answers."""
        inner = losses_delta(np.array([self._loss(true)]), self.epsilon, self.count)[0]
        return self.at_zero + (1.0 - self.at_zero) * float(inner)

    def _at(self, s: FloatArray) -> FloatArray:
        return np.where(s < 0, self.power(np.exp(np.minimum(s, -1e-16))), 1.0)

    def _root(self, function: Any, shape: tuple[int, ...]) -> FloatArray:
        """Level at which a function of the log level that falls changes its sign, or 0."""
        low, high = np.full(shape, _LEAST_LOG), np.zeros(shape)
        part = np.flatnonzero(function(low, np.arange(low.size)) > 0)
        found = np.zeros(shape)
        if part.size:
            log_level = find_root(
                lambda s, index: function(s, part[index]), low[part], high[part], atol=1e-15
            )[1]
            found[part] = np.exp(log_level)
        return found

    def _inner(self, alpha: FloatArray) -> FloatArray:
        """Power of the randomized test that counts true answers."""
        low, high = np.zeros(alpha.shape), np.full(alpha.shape, float(self.count + 1))
        # the least number whose upper tail under the null is within the level
        while (high - low > 1).any():
            middle = np.floor(0.5 * (low + high))
            fits = self._tail(middle, -self.epsilon) <= alpha
            low, high = np.where(fits, low, middle), np.where(fits, middle, high)
        spare = np.maximum(alpha - self._tail(high, -self.epsilon), 0.0)
        loss = (2.0 * (high - 1.0) - self.count) * self.epsilon
        with np.errstate(divide="ignore"):
            gain = np.exp(np.minimum(np.log(spare) + loss, 0.0))
        return np.minimum(self._tail(high, self.epsilon) + gain, 1.0)

    def _tail(self, least: FloatArray, epsilon: float) -> FloatArray:
        """P(J ≥ least) for a binomial J of k answers, each true with probability expit(ε)."""
        inside = (least > 0) & (least <= self.count)
        at = np.where(inside, least, 1.0)
        tail = special.betainc(at, self.count - at + 1.0, special.expit(epsilon))
        return np.where(inside, tail, np.where(least > 0, 0.0, 1.0))


def _peak(function: Callable[[int], float], low: int, high: int) -> float:
    """Largest value of a function of whole numbers that rises or is flat, and then falls."""
    while high > low:
        middle = (low + high) // 2
        rises = function(middle + 1) >= function(middle)
        low, high = (middle + 1, high) if rises else (low, middle)
    return function(low)
