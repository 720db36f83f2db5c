"""What protects: a guarantee, a mechanism or a privacy loss, as a curve of powers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpinfer._check import FloatArray, check_array, check_integer, show
from dpinfer._numerics.roots import find_root
from dpinfer._numerics.two_laws import TwoLaws, concave, concave_hull
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.channels import (
    ExponentialMechanism,
    FiniteChannel,
    RandomizedResponse,
    UnaryEncoding,
)
from dpinfer.mechanisms.laws import Exact, Gaussian
from dpinfer.mechanisms.tulap import Tulap
from dpinfer.privacy._divergences import ConcentratedCurve, Curve, OrdersCurve
from dpinfer.privacy.composition import RepeatedDP, losses_delta
from dpinfer.privacy.guarantees import (
    GDP,
    MAX_GROUP,
    RDP,
    ZCDP,
    ApproxDP,
    Guarantee,
    PureDP,
    RenyiCurve,
)
from dpinfer.privacy.loss import PrivacyLoss, privacy_loss
from dpinfer.privacy.of_mechanisms import guarantee_of
from dpinfer.privacy.pairs import PairLoss, is_given


@dataclass(frozen=True)
class LossCurve(Curve):
    """The curve of the likelihood ratio test, than which none has more power."""

    loss: PrivacyLoss

    def power(self, alpha: FloatArray) -> FloatArray:
        return np.asarray(self.loss.power(alpha), dtype=np.float64)

    def level(self, power: FloatArray) -> FloatArray:
        return np.exp(self.log_level(power))

    def log_level(self, power: FloatArray) -> FloatArray:
        return self.loss._log_level(power)

    def crossing(self, epsilon: FloatArray) -> FloatArray:
        return self.loss._crossing(epsilon)


@dataclass(frozen=True)
class PairsCurve(Curve):
    """The largest powers of several pairs of laws: of each one concave, together perhaps not."""

    laws: tuple[TwoLaws, ...]

    @property
    def at_zero(self) -> float:
        return max(one.p_only for one in self.laws)

    @property
    def at_one(self) -> float:
        # rejecting whatever the first law can give
        return max(1.0 - max(one.q_only for one in self.laws), 0.0)

    def power(self, alpha: FloatArray) -> FloatArray:
        return np.asarray(np.max([one.power(alpha) for one in self.laws], axis=0))

    def level(self, power: FloatArray) -> FloatArray:
        return np.asarray(np.min([one.level(power) for one in self.laws], axis=0))

    def crossing(self, epsilon: FloatArray) -> FloatArray:
        found = [one.crossing(epsilon, strict=False) for one in self.laws]
        return np.asarray(np.max(found, axis=0))

    def strict_crossing(self, epsilon: FloatArray) -> FloatArray:
        found = [one.crossing(epsilon, strict=True) for one in self.laws]
        return np.asarray(np.max(found, axis=0))

    def hull(self) -> PairsCurve:
        level, power = np.concatenate([one.vertices for one in self.laws], axis=1)
        order = np.lexsort((-power, level))
        return PairsCurve((concave(*concave_hull(level[order], power[order])),))


def _of_pairs(loss: PairLoss) -> PairsCurve:
    return PairsCurve(tuple(one.upper for one in loss.laws.values()))


_LEAST_LOG = -700.0
"""Levels are looked for from e to this power on."""

_APART = 40.0
_ROUNDING = 1e-13


@dataclass(frozen=True)
class RepeatedCurve(Curve):
    """The test that counts the true ones among k randomized responses, of (ε, δ) each."""

    epsilon: float
    delta: float
    count: int

    @property
    def at_zero(self) -> float:
        return float(-np.expm1(self.count * np.log1p(-self.delta)))

    def power(self, alpha: FloatArray) -> FloatArray:
        told = self.at_zero
        inner = np.minimum(alpha / (1.0 - told), 1.0) if told < 1 else np.ones(alpha.shape)
        return np.minimum(told + (1.0 - told) * self._inner(inner), 1.0)

    def level(self, power: FloatArray) -> FloatArray:
        def missing(s: FloatArray, index: NDArray[np.intp]) -> FloatArray:
            return power[index] - self._at(s)

        return self._root(missing, power.shape)

    def crossing(self, epsilon: FloatArray) -> FloatArray:
        def ratio(s: FloatArray, index: NDArray[np.intp]) -> FloatArray:
            return np.log(np.maximum(self._at(s), 1e-320)) - s - epsilon[index]

        log_level = np.log(np.maximum(self._root(ratio, epsilon.shape), 1e-320))
        found = np.exp(np.minimum(epsilon + log_level, 0.0))
        for at in np.flatnonzero(log_level <= _LEAST_LOG):
            found[at] = self._crossing_beyond(float(epsilon[at]))
        return found

    def log_level(self, power: FloatArray) -> FloatArray:
        """Find it by the tangents in the losses t of which the curve is made: e^t·level + δ(t)."""
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

        # where δ is 1 but for rounding it is flat
        return -_peak(beaten, self._first, last, _ROUNDING)

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


def _peak(function: Callable[[int], float], low: int, high: int, flat: float = 0.0) -> float:
    """Largest value of a function of whole numbers that rises or is flat, and then falls."""
    while high > low:
        middle = (low + high) // 2
        rises = function(middle + 1) >= function(middle) - flat
        low, high = (middle + 1, high) if rises else (low, middle)
    return function(low)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)

_FAR = 40.0
"""Beyond ± this the normal law has no probability left that a float can hold."""


@dataclass(frozen=True)
class GaussianCurve(Curve):
    """Power Φ(μ + Φ⁻¹(α))."""

    mu: float

    def power(self, alpha: FloatArray) -> FloatArray:
        return np.asarray(special.ndtr(special.ndtri(alpha) + self.mu))

    def level(self, power: FloatArray) -> FloatArray:
        return np.asarray(special.ndtr(special.ndtri(power) - self.mu))

    def log_level(self, power: FloatArray) -> FloatArray:
        return np.asarray(special.log_ndtr(special.ndtri(power) - self.mu))

    def crossing(self, epsilon: FloatArray) -> FloatArray:
        """Find it by the quantile z of the power: the log ratio of power and level falls in z."""
        if self.mu == 0:
            return np.zeros(epsilon.shape)
        low, high = np.full(epsilon.shape, -_FAR), np.full(epsilon.shape, _FAR)

        def excess(z: FloatArray, index: NDArray[np.intp]) -> FloatArray:
            return _log_ratio(z, self.mu) - epsilon[index]

        everything = np.arange(epsilon.size)
        inside = (excess(low, everything) > 0) & (excess(high, everything) < 0)
        found = np.where(excess(low, everything) > 0, 1.0, 0.0)
        if inside.any():
            part = np.flatnonzero(inside)
            z = find_root(
                lambda x, index: excess(x, part[index]), low[part], high[part], rtol=1e-15
            )
            found[part] = special.ndtr(z[1])
        return found


def _log_ratio(z: FloatArray, mu: float) -> FloatArray:
    """Ln Φ(z) - ln Φ(z - μ)."""
    if mu >= 1.0:
        with np.errstate(over="ignore"):
            return np.asarray(special.log_ndtr(z) - special.log_ndtr(z - mu))
    # where both are close, the integral of φ/Φ between them
    x = z[:, None] - 0.5 * mu * (1.0 + _NODES)
    return np.asarray(0.5 * mu * (_hazard(x) @ _WEIGHTS))


def _hazard(x: FloatArray) -> FloatArray:
    """φ(x)/Φ(x)."""
    tail = special.erfcx(-np.minimum(x, 0.0) / np.sqrt(2.0))
    above = np.maximum(x, 0.0)
    right = np.exp(-0.5 * np.square(above)) / np.sqrt(2.0 * np.pi) / special.ndtr(above)
    return np.asarray(np.where(x < 0, np.sqrt(2.0 / np.pi) / tail, right))


@dataclass(frozen=True)
class PiecewiseCurve(Curve):
    """Power min(1, e^ε·α + δ, 1 - e^{-ε}(1 - α - δ)); pure differential privacy has δ = 0."""

    epsilon: float
    delta: float

    @property
    def at_zero(self) -> float:
        return self.delta

    def power(self, alpha: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            steep = np.exp(self.epsilon) * alpha + self.delta
        # 1 - e^{-ε}(1 - α - δ) without cancellation
        flat = -np.expm1(-self.epsilon) + (alpha + self.delta) * np.exp(-self.epsilon)
        return np.asarray(np.minimum(np.minimum(steep, flat), 1.0))

    def level(self, power: FloatArray) -> FloatArray:
        low = (power - self.delta) * np.exp(-self.epsilon)
        with np.errstate(over="ignore"):
            high = power - self.delta - np.expm1(self.epsilon) * (1.0 - power)
        return np.asarray(np.maximum(np.maximum(low, high), 0.0))

    def log_level(self, power: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            low = np.log(np.maximum(power - self.delta, 0.0)) - self.epsilon
        return np.maximum(low, super().log_level(power))

    def crossing(self, epsilon: FloatArray) -> FloatArray:
        beyond = epsilon > self.epsilon
        gap = np.where(beyond, -np.expm1(np.minimum(self.epsilon - epsilon, 0.0)), 1.0)
        steep = np.where(beyond, self.delta / gap, np.inf)
        rest = -np.expm1(-self.epsilon) + self.delta * np.exp(-self.epsilon)
        flat = rest / -np.expm1(-self.epsilon - epsilon)
        return np.asarray(np.minimum(np.minimum(steep, flat), 1.0))


_LEAST_BOUND = 1e-60
"""A smaller bound on a divergence moves no power by as much as a float can show."""

_BY_GUARANTEE = (Gaussian, Tulap, ExponentialMechanism, Exact)
"""Mechanisms whose named guarantee is exact, or the best that is known of them."""


def curve_of(protection: Any, sensitivity: ArrayLike = 1.0, group: int = 1) -> Curve:
    known = resolve(protection, sensitivity, group)
    for kind, rule in _CURVES.items():
        if isinstance(known, kind):
            return rule(known)
    raise InvalidParameterError(f"no bound on the power is known for the guarantee {known}")


def resolve(protection: Any, sensitivity: ArrayLike = 1.0, group: int = 1) -> Any:
    size = check_integer(group, "group", ge=1, le=MAX_GROUP)
    change = check_array(sensitivity, "sensitivity", ge=0, le=1e100)
    if isinstance(protection, (Guarantee, PrivacyLoss, PairLoss)):
        if change.ndim or change != 1.0:
            raise InvalidParameterError(
                f"sensitivity must be left at 1 for {type(protection).__name__}, whose parameters "
                f"account for it already, got {show(sensitivity)}"
            )
        if isinstance(protection, Guarantee):
            return protection.group(size)
        if size > 1:
            raise InvalidParameterError(
                f"group must be 1 for a privacy loss, got {size}: make it from the mechanism with "
                "the sensitivity of the group"
            )
        return protection
    if is_given(protection):
        if size > 1:
            raise InvalidParameterError(
                f"group must be 1 for {show(protection)}, got {size}: its members may have "
                "different truths; add up the privacy losses of a pair of truths each"
            )
        return privacy_loss(protection, sensitivity)
    if isinstance(protection, _BY_GUARANTEE):
        return guarantee_of(protection, sensitivity).group(size)
    if isinstance(protection, RandomizedResponse | UnaryEncoding):
        # every member of the group gives an answer of their own
        return privacy_loss(protection, sensitivity=sensitivity, compositions=size)
    return privacy_loss(protection, sensitivity=(size * change)[()])


def guarantee_for(protection: Any, sensitivity: ArrayLike = 1.0, group: int = 1) -> Guarantee:
    if not isinstance(protection, Guarantee):
        size = check_integer(group, "group", ge=1, le=MAX_GROUP)
        if isinstance(protection, PairLoss) or (
            is_given(protection) and not isinstance(protection, FiniteChannel)
        ):
            return _pure(resolve(protection, sensitivity, 1)).group(size)
        return guarantee_of(protection, sensitivity).group(size)
    found: Guarantee = resolve(protection, sensitivity, group)
    return found


def _pure(loss: PairLoss) -> PureDP:
    epsilon = float(loss.epsilon_at(0.0))
    if np.isinf(epsilon):
        raise InvalidParameterError(
            "protection must keep the privacy loss bounded here, got laws of which one has outputs "
            "that the other never, or all but never, gives"
        )
    return PureDP(epsilon)


def pure_epsilon(guarantee: Guarantee) -> float:
    """Return the ε of a guarantee that implies ε-differential privacy, or refuse."""
    # an amplified guarantee is converted to no other, but its ε holds all the same
    if isinstance(guarantee, ApproxDP) and guarantee.delta == 0:
        return guarantee.epsilon
    return guarantee.to_pure_dp().epsilon


def _divergences(guarantee: ZCDP | RDP | RenyiCurve) -> Curve:
    if isinstance(guarantee, (ZCDP, RDP)) and guarantee._is_perfect:  # equal laws
        return PiecewiseCurve(0.0, 0.0)
    if isinstance(guarantee, ZCDP):
        return ConcentratedCurve(max(guarantee.rho, _LEAST_BOUND))
    order, bound = guarantee.curve
    return OrdersCurve(order - 1.0, np.maximum(bound, _LEAST_BOUND))


_CURVES: dict[type, Callable[[Any], Curve]] = {
    PrivacyLoss: LossCurve,
    PairLoss: _of_pairs,
    PureDP: lambda pure: PiecewiseCurve(pure.epsilon, 0.0),
    ApproxDP: lambda pair: PiecewiseCurve(pair.epsilon, pair.delta),
    GDP: lambda gdp: GaussianCurve(gdp.mu),
    ZCDP: _divergences,
    RDP: _divergences,
    RenyiCurve: _divergences,
    RepeatedDP: lambda many: RepeatedCurve(many.epsilon, many.delta, many.count),
}
