"""Rényi and zero-concentrated differential privacy: the boundary of what divergences allow.

A test turns the two laws of the output into two of its decision, Bernoulli(π) and Bernoulli(α),
π the power and α the level. Their Rényi divergences in both directions stay within the bounds.
With losses u > 0 of probability p and v < 0 of probability 1 - p under the first of two such laws,
the divergence of order 1 + t is κ(t)/t, where κ(t) = ln(p·e^{tu} + (1-p)·e^{tv}).

Balle, B., Barthe, G., Gaboardi, M., Hsu, J. and Sato, T. (2020). Hypothesis testing
interpretations and Rényi differential privacy. Proceedings of Machine Learning Research 108,
2496-2506. arXiv:1905.09982, Section 4.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import ComplexArray, FloatArray
from dpinfer._numerics.roots import find_root
from dpinfer.mechanisms.laws import gaussian_logdelta

_BEYOND = 4e-9
"""An ε is beyond another one that is smaller by more than this share."""


class Curve(ABC):
    """The largest power of a test at each level: concave, increasing, from 0 or more up to 1.

    Arguments are one-dimensional arrays that were checked: levels and powers in (0, 1), ε > 0.
    """

    @property
    def at_zero(self) -> float:
        """The power at level 0."""
        return 0.0

    @property
    def at_one(self) -> float:
        """The smallest level with the power 1; here of a symmetric curve."""
        return 1.0 - self.at_zero

    @abstractmethod
    def power(self, alpha: FloatArray) -> FloatArray:
        """Return the largest power at each level."""

    @abstractmethod
    def level(self, power: FloatArray) -> FloatArray:
        """Return the smallest level at which each power is possible."""

    def log_level(self, power: FloatArray) -> FloatArray:
        """Return the logarithm of that level, also where no float holds the level itself."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.level(power)))

    @abstractmethod
    def crossing(self, epsilon: FloatArray) -> FloatArray:
        """Return the largest power β that is e^ε times its level or more, 0 if there is none."""

    def strict_crossing(self, epsilon: FloatArray) -> FloatArray:
        """Return the supremum of the powers that are more than e^ε times their level, or 0.

        There are none where the curve meets the line at 0 only, up to rounding of ε.
        """
        more = self.crossing(np.maximum(epsilon, 1e-9) * (1.0 + _BEYOND))
        return np.where(more > 0, self.crossing(epsilon), 0.0)

    def hull(self) -> Curve:
        """Return the least concave curve above it, which bounds mixtures of neighbours as well."""
        return self


_NEWTON_STEPS = 60
_LARGEST = 1e300
_LEAST = 1e-18
"""A smaller change of a log ratio does not show in a float."""
_SMALLEST_LOG = -745.0
_FAR = 1e6
_MOST_LOSS = 1600.0
"""The log ratio of the largest power to a level that no float can hold is less."""

Point = Callable[[FloatArray, NDArray[np.intp]], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True)
class TwoLosses:
    """A law on two privacy losses: u > 0 with probability p, v < 0 with probability 1 - p."""

    log_p: FloatArray
    log_q: FloatArray
    u: FloatArray
    v: FloatArray

    def log_moment(self, t: FloatArray | float) -> FloatArray:
        """κ(t), relatively accurate also where it is close to 0."""
        up, down = t * self.u, t * self.v
        near = np.minimum(up, 1.0)
        small = np.exp(self.log_p) * np.expm1(near) + np.exp(self.log_q) * np.expm1(down)
        large = np.logaddexp(self.log_p + up, self.log_q + down)
        return np.where(up < 1.0, np.log1p(np.maximum(small, -0.5)), large)

    def mean(self) -> FloatArray:
        """κ'(0), the Kullback-Leibler divergence."""
        return np.asarray(np.exp(self.log_p) * self.u + np.exp(self.log_q) * self.v)


class DivergenceCurve(Curve):
    """The largest power that bounds on divergences leave, found in logarithms."""

    @abstractmethod
    def excess(self, losses: TwoLosses) -> FloatArray:
        """Return a number above 0 where a divergence is above its bound, else 0 or below."""

    @abstractmethod
    def most_loss(self, log_power: FloatArray) -> FloatArray:
        """Return a bound on ln(power/level), given the power."""

    @abstractmethod
    def markov_log_level(self, epsilon: FloatArray) -> FloatArray:
        """Return a bound on the log level whose power is e^ε times as large."""

    def power(self, alpha: FloatArray) -> FloatArray:
        log_alpha = np.log(alpha)
        room = -log_alpha
        loss = self._largest(lambda a, i: (log_alpha[i], a), np.zeros(alpha.shape), room)
        # in halves, as the whole may overflow
        return np.minimum(alpha * np.exp(0.5 * loss) * np.exp(0.5 * loss), 1.0)

    def level(self, power: FloatArray) -> FloatArray:
        return np.asarray(power * np.exp(-self.loss(np.log(power), _MOST_LOSS)))

    def log_level(self, power: FloatArray) -> FloatArray:
        return np.asarray(np.log(power) - self.loss(np.log(power), _FAR))

    def loss(self, log_power: FloatArray, cut: float) -> FloatArray:
        """Return the log ratio of each power and its smallest level, up to a limit."""
        most = np.minimum(self.most_loss(log_power) * (1.0 + 1e-9) + _LEAST, cut)
        return self._largest(
            lambda a, i: (log_power[i] - a, a), np.zeros(log_power.shape), most, cut=cut
        )

    def crossing(self, epsilon: FloatArray) -> FloatArray:
        bound = self.markov_log_level(epsilon)
        # beyond that a level has no digits left, and its bound is taken
        far = epsilon > _FAR
        # below that no float is left for the power
        part = np.flatnonzero((bound + epsilon > _SMALLEST_LOG) & ~far)
        start = np.minimum(bound, -epsilon - 1.0)[part]
        log_alpha = self._largest(
            lambda s, i: (s, epsilon[part[i]]), start, -epsilon[part], expand=True
        )
        found = np.where(far, np.exp(np.minimum(bound + epsilon, 0.0)), 0.0)
        found[part] = np.exp(np.minimum(log_alpha, bound[part]) + epsilon[part])
        return found

    def _largest(
        self,
        point: Point,
        lower: FloatArray,
        upper: FloatArray,
        *,
        expand: bool = False,
        cut: float = np.inf,
    ) -> FloatArray:
        """Largest argument below ``cut`` whose point (log level, log ratio) the bounds allow."""

        def slack(x: FloatArray, index: NDArray[np.intp]) -> FloatArray:
            return np.where(x < cut, -self._excess(*point(x, index)), -_LARGEST)

        return find_root(slack, lower, upper, rtol=1e-14, atol=_LEAST, expand=expand)[1]

    def _excess(self, log_alpha: FloatArray, a: FloatArray) -> FloatArray:
        """Return the larger excess of the two directions at log level and a = ln(π/α)."""
        log_power = np.minimum(log_alpha + a, 0.0)
        inside = (a > 0) & (log_power < 0)
        s, loss = np.where(inside, log_alpha, -2.0), np.where(inside, a, 1.0)
        log_level_rest, log_power_rest = _log1mexp(s), _log1mexp(s + loss)
        gain = np.exp(s + loss) * -np.expm1(-loss) / np.exp(log_level_rest)
        b = np.where(gain < 0.5, np.log1p(-np.minimum(gain, 0.5)), log_power_rest - log_level_rest)
        forth = self.excess(TwoLosses(s + loss, log_power_rest, loss, b))
        back = self.excess(TwoLosses(log_level_rest, s, -b, -loss))
        found = np.clip(np.maximum(forth, back), -_LARGEST, _LARGEST)
        # equal laws diverge by nothing; a power of 1 by an infinite amount
        return np.where(inside, found, np.where(a > 0, _LARGEST, -_LARGEST))


@dataclass(frozen=True)
class OrdersCurve(DivergenceCurve):
    """Bounds γ on the divergences of given orders 1 + t."""

    t: FloatArray
    bound: FloatArray

    def excess(self, losses: TwoLosses) -> FloatArray:
        """Return the largest excess over the orders, one after the other to bound memory."""
        found = np.full(losses.u.shape, -np.inf)
        for t, bound in zip(self.t, self.bound, strict=True):
            found = np.maximum(found, losses.log_moment(t) / t - bound)
        return found

    def violated(self, log_power: FloatArray, loss: FloatArray) -> FloatArray:
        """Return the excess of each order, shape (m,), at tests of a power and a log ratio."""
        size = max(1, _BLOCK // loss.size)
        found = np.empty(self.t.size)
        for first in range(0, self.t.size, size):
            part = slice(first, first + size)
            # a single order, which is an array of shape (m, 1)
            orders = OrdersCurve(self.t[None, part, None], self.bound[None, part, None])
            found[part] = orders._excess(log_power - loss, loss).max(axis=1)
        return found

    def most_loss(self, log_power: FloatArray) -> FloatArray:
        """Return min γ - ln(π)/t, as π·(π/α)^t ≤ e^{tγ}."""
        return np.asarray((self.bound - log_power[:, None] / self.t).min(axis=1))

    def markov_log_level(self, epsilon: FloatArray) -> FloatArray:
        best = -epsilon
        with np.errstate(over="ignore"):
            for t, bound in zip(self.t, self.bound, strict=True):
                best = np.minimum(best, t * bound - (1.0 + t) * epsilon)
        return np.asarray(best)


@dataclass(frozen=True)
class ConcentratedCurve(DivergenceCurve):
    """Bounds (1 + t)ρ on the divergences of all orders 1 + t > 1.

    F(t) = κ(t) - t(1+t)ρ has to stay below 0. κ'' is (u-v)²·w(1-w), w the probability of u
    tilted by t, which grows with t. So F is concave, then convex, then concave, where not concave
    throughout: it stays below 0 if and only if its slope at 0 does, κ'(0) ≤ ρ, and the one local
    maximum in the last concave stretch.
    """

    rho: float

    def excess(self, losses: TwoLosses) -> FloatArray:
        """Return the larger of κ'(0) - ρ and, at the local maximum t of F, F(t)/t, over ρ."""
        at_zero = losses.mean() / self.rho - 1.0
        t = self._best_order(losses)
        inside = t > 0
        safe = np.where(inside, t, 1.0)
        at_best = losses.log_moment(safe) / safe / self.rho - (1.0 + safe)
        return np.where(inside, np.maximum(at_zero, at_best), at_zero)

    def most_loss(self, log_power: FloatArray) -> FloatArray:
        """Return ρ + 2√(ρ·ln(1/π)), as π·(π/α)^t ≤ e^{t(1+t)ρ} for all t."""
        return np.asarray(self.rho + 2.0 * np.sqrt(self.rho * -log_power))

    def markov_log_level(self, epsilon: FloatArray) -> FloatArray:
        above = np.maximum(epsilon - self.rho, 0.0)
        with np.errstate(over="ignore"):
            # in this order, as the square may overflow where the quotient does not
            return np.asarray(-epsilon - above / (4.0 * self.rho) * above)

    def _best_order(self, losses: TwoLosses) -> FloatArray:
        """Return t at the local maximum of F in its last concave stretch, 0 if there is none."""
        rho, spread = self.rho, losses.u - losses.v
        logit = losses.log_p - losses.log_q
        # F'' = 0 where w(1-w) = 2ρ/(u-v)²; w is the larger of its roots
        log_share = np.minimum(np.log(8.0 * rho) - 2.0 * np.log(spread), 0.0)
        root = np.sqrt(-np.expm1(log_share))
        start = np.maximum((2.0 * np.log1p(root) - log_share - logit) / spread, 0.0)

        def slope(t: FloatArray) -> tuple[FloatArray, FloatArray]:
            w = special.expit(logit + t * spread)
            rest = special.expit(-logit - t * spread)
            first = losses.v + spread * w - (1.0 + 2.0 * t) * rho
            return first, np.square(spread) * w * rest - 2.0 * rho

        there = slope(start)[0] > 0
        # F' is concave and falls from here on: Newton's steps from the right stay on the right
        t = np.where(there, 0.5 * (losses.u / rho - 1.0), 0.0)
        for _ in range(_NEWTON_STEPS):
            first, second = slope(t)
            step = np.where(there, first / np.where(second < 0, second, -np.inf), 0.0)
            t = np.maximum(t - step, np.where(there, start, 0.0))
            # at a maximum, a small error of its place does not matter
            if (np.abs(step) <= 1e-9 * t).all():
                break
        return t


def _log1mexp(x: FloatArray) -> FloatArray:
    """Ln(1 - e^x) for x < 0."""
    with np.errstate(divide="ignore"):
        return np.where(x > -0.7, np.log(-np.expm1(x)), np.log1p(-np.exp(x)))


_GRID = np.linspace(0.0, 1.0, 25)
_ZOOMS = 9
_MOST_ORDERS = 6
_ALLOWED = 1e-10
_BLOCK = 10**6
_CERTAIN = 36.0
"""Log odds of a power that is 1 but for rounding."""

_CLOSER = 3
_CLOSE_TO_1 = 1e-12

Gain = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
"""What a test says, from its log power, its loss and the δ or ε that is given."""

Divergence = Callable[[FloatArray], FloatArray]


def renyi_conversion(
    above: FloatArray,
    bound: FloatArray,
    given: FloatArray,
    start: NDArray[np.intp],
    lowest: FloatArray,
    gain: Gain,
    divergence: Divergence | None = None,
) -> FloatArray:
    """Largest gain of a test that the divergences allow, for each of the given δ or ε.

    Of many orders one or two decide: to that of ``start`` the one that is violated most is added,
    and so on. Each set of orders gives an upper bound; the last one is that of all orders. With
    ``divergence``, a function of orders, those between the given ones are looked at as well.
    ``lowest`` is below the log odds of the best power.
    """
    found = np.empty(given.shape)
    for first in np.unique(start):
        part = np.flatnonzero(start == first)
        chosen, whole = [int(first)], OrdersCurve(above, bound)
        for _ in range(_MOST_ORDERS):
            curve = OrdersCurve(whole.t[chosen], whole.bound[chosen])
            found[part], log_power, loss = _best_test(curve, given[part], lowest[part], gain)
            excess = whole.violated(log_power, loss)
            if divergence is None:
                excess[chosen] = 0.0
            else:
                whole, excess = _between(whole, excess, divergence, log_power, loss)
            worst = int(np.argmax(excess))
            if excess[worst] <= _ALLOWED * max(1.0, float(whole.bound[worst])):
                break
            chosen.append(worst)
    return found


def _between(
    whole: OrdersCurve,
    excess: FloatArray,
    divergence: Divergence,
    log_power: FloatArray,
    loss: FloatArray,
) -> tuple[OrdersCurve, FloatArray]:
    """Add orders, ever closer, around the one that is violated most."""
    for _ in range(_CLOSER):
        at = whole.t[int(np.argmax(excess))]
        low = np.max(whole.t, where=whole.t < at, initial=0.5 * at)
        high = np.min(whole.t, where=whole.t > at, initial=2.0 * at)
        t = np.concatenate([np.geomspace(low, at, 6)[1:-1], np.geomspace(at, high, 6)[1:-1]])
        more = OrdersCurve(t, divergence(1.0 + t))
        excess = np.append(excess, more.violated(log_power, loss))
        whole = OrdersCurve(np.append(whole.t, t), np.append(whole.bound, more.bound))
    return whole, excess


def _best_test(
    curve: DivergenceCurve, given: FloatArray, low: FloatArray, gain: Gain
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the largest gain, and log power and loss of its test, by a grid that narrows.

    The curve is concave, so that the gain has one maximum in the log odds of the power.
    """
    high = np.full(given.shape, _CERTAIN)
    rows = np.arange(given.size)
    for _ in range(_ZOOMS):
        logit = low[:, None] + (high - low)[:, None] * _GRID
        log_power = special.log_expit(logit)
        loss = curve.loss(log_power.ravel(), _FAR).reshape(logit.shape)
        value = gain(log_power, loss, given[:, None])
        best = np.argmax(value, axis=1)
        low = logit[rows, np.maximum(best - 1, 0)]
        high = logit[rows, np.minimum(best + 1, _GRID.size - 1)]
    return value[rows, best], log_power[rows, best], loss[rows, best]


SMALLEST = 1e-300
"""Orders closer to 1 than this, or beyond its reciprocal, decide nothing."""

_MOST_STEPS = 100
_BISECTIONS = 50
_TURN = 1e-20
"""Of the complex step, whose square vanishes."""

_MET = 1e-10
"""Relative size of the last step of Newton's method, after which an error is its square."""


def log_variation(bound: float) -> float:
    """Ln of a bound on δ at ε = 0, the distance in total variation, from a divergence.

    The smaller of those of Pinsker, √(γ/2), and of Bretagnolle and Huber, √(1 - e^-γ): a Rényi
    divergence of order above 1 is at least that of Kullback and Leibler, for which they hold.
    """
    with np.errstate(divide="ignore"):
        return float(0.5 * np.log(min(0.5 * bound, -np.expm1(-bound))))


def renyi_log_delta(above: FloatArray, bound: FloatArray, epsilon: FloatArray) -> FloatArray:
    """Ln δ at ε from the bound at order 1 + ``above``."""
    with np.errstate(over="ignore"):
        loss = above * (bound - epsilon)
    return loss - above * np.log1p(1.0 / above) - np.log1p(above)


def renyi_epsilon(above: FloatArray, bound: FloatArray, log_delta: FloatArray) -> FloatArray:
    """ε at δ from the bound at order 1 + ``above``."""
    return bound - (log_delta + np.log1p(above)) / above - np.log1p(1.0 / above)


def zcdp_epsilon(log_delta: FloatArray, rho: float) -> FloatArray:
    """ε at δ in (0, 1) that ρ > 0 allows."""
    above = _best_above(log_delta, rho)
    # every order is a valid bound, and close to the best one ε no longer depends on it
    bound = renyi_epsilon(above, (1.0 + above) * rho, log_delta)
    start = np.where(log_delta >= log_variation(rho), 0.0, bound)
    return _concentrated(rho, _epsilon, log_delta, start, above)


def zcdp_log_delta(epsilon: FloatArray, rho: float) -> FloatArray:
    """Ln δ at ε that ρ > 0 allows."""
    above = _best_above_at(epsilon, rho)
    bound = renyi_log_delta(above, (1.0 + above) * rho, epsilon)
    start = np.minimum(bound, log_variation(rho))
    found = _concentrated(rho, _log_delta, epsilon, start, above)
    # what is 1 but for rounding counts as 1
    return np.where(found < -_CLOSE_TO_1, found, 0.0)


def _concentrated(
    rho: float, gain: Gain, given: FloatArray, best: FloatArray, above: FloatArray
) -> FloatArray:
    """Lower what formulas give, with their orders, to what a test can do at most."""
    at, found = np.ravel(given), best.ravel().copy()
    if gain is _epsilon:
        inside = (found > 0) & (found < _LARGEST_LOSS) & (at > _LEAST_EXPONENT)
        low = at
    else:
        inside = (found > _LEAST_EXPONENT) & (at < _LARGEST_LOSS)
        low = found
    part = np.flatnonzero(inside) if rho > _LEAST_BOUND else np.zeros(0, dtype=np.intp)
    if part.size:
        curve = ConcentratedCurve(rho)
        tight = _stationary(curve, at[part], above.ravel()[part], gain)
        if (open_ := np.flatnonzero(np.isnan(tight))).size:
            # the best power is at least the δ, and that at least some e^-60 of its bound
            lowest = np.minimum(low[part[open_]], 0.0) - _REACH
            tight[open_] = _best_test(curve, at[part[open_]], lowest, gain)[0]
        found[part] = np.minimum(found[part], np.where(tight < _LARGEST_LOSS, tight, np.inf))
    return found.reshape(np.shape(given))


def _stationary(
    curve: ConcentratedCurve, given: FloatArray, above: FloatArray, gain: Gain
) -> FloatArray:
    """Largest gain of a test that one order bounds, from about that order; NaN if it is not found.

    Newton's method for the logit of the power, the loss a and ln t: F(t) and F'(t) are 0, and the
    gain rises as F does. What one order of one direction allows contains the curve, so that it is
    the answer where the curve holds it.
    """
    rho = curve.rho
    if gain is _epsilon:
        log_power = given + np.log1p(above)
        a = (1.0 + above) * rho - log_power / above
    else:
        a = given + np.log1p(1.0 / above)
        log_power = above * ((1.0 + above) * rho - a)

    def equations(y: ComplexArray) -> ComplexArray:
        x, a, t = y[0], y[1], np.exp(y[2])
        sign = np.where(x.real < 0, -1.0, 1.0)
        rest = special.log1p(np.exp(-sign * x))
        log_p, log_q = np.minimum(sign, 0.0) * -x - rest, np.maximum(sign, 0.0) * -x - rest
        p, q, level = np.exp(log_p), np.exp(log_q), np.exp(log_p - a)
        odds, b = level / (1.0 - level), log_q - special.log1p(-level)
        up, down = t * a, t * b
        # κ(t) from e^κ - 1 where that is small
        small = up.real < 1.0
        excess = p * special.expm1(np.where(small, up, 0.0)) + q * special.expm1(down)
        rest = np.exp(log_q + down - log_p - up)
        kappa = special.log1p(np.where(small, excess, rest)) + np.where(small, 0.0, log_p + up)
        w = np.exp(log_p + up - kappa)
        by_power = w * q + (1.0 - w) * (t * (odds * q - p) - p)
        by_loss = t * (w - (1.0 - w) * odds)
        if gain is _epsilon:
            rises = q / special.expm1(log_p - given)
        else:
            rises = q * special.expm1(a - given)
        slope = (w * a + (1.0 - w) * b) / ((1.0 + 2.0 * t) * rho)
        height = kappa / (t * (1.0 + t) * rho)
        return np.stack([height - 1.0, slope - 1.0, rises - by_power / by_loss])

    with np.errstate(all="ignore"):
        log_power = np.minimum(log_power, -0.1)
        y = np.stack([log_power - np.log(-np.expm1(log_power)), a, np.log(above)])
        turns = 1j * _TURN * np.eye(3)[..., None]
        for _ in range(_NEWTON_STEPS):
            found = equations(y[:, None] + turns)
            jacobian = np.moveaxis(found.imag / _TURN, -1, 0)
            known = np.isfinite(jacobian).all(axis=(1, 2)) & (np.linalg.det(jacobian) != 0)
            jacobian[~known] = np.nan
            step = np.linalg.solve(jacobian, found[:, 0].real.T[..., None])[..., 0].T
            most = np.stack([np.full(a.shape, 2.0), 0.3 * y[1], np.ones(a.shape)])
            y -= np.clip(step, -most, most)
            close = np.abs(step[1:]).max(axis=0) <= _MET * np.minimum(y[1], 1.0)
            if (close | np.isnan(y).any(axis=0)).all():
                break
        log_power, loss = special.log_expit(y[0]), y[1]
        held = curve._excess(log_power - loss, loss) <= 1e-12 * (1.0 + np.exp(y[2]))
        return np.where(close & held, gain(log_power, loss, given), np.nan)


def _best_above(log_delta: FloatArray, rho: float) -> FloatArray:
    """Return how far above 1 the order is with the least ε at δ in (0, 1)."""
    target = -log_delta
    # of b²ρ + ln(1+b) = ln(1/δ) in ln b, which is convex and increases: Newton from the right
    log_above = np.minimum(
        0.5 * (np.log(target) - np.log(rho)), target + np.log(-np.expm1(-target))
    )
    for _ in range(_MOST_STEPS):
        above = np.exp(log_above)
        square = above * (above * rho)
        value = square + np.log1p(above) - target
        step = value / (2.0 * square + above / (1.0 + above))
        log_above = log_above - step
        if (np.abs(step) < 1e-12).all():
            break
    return np.asarray(np.exp(log_above))


def _best_above_at(epsilon: FloatArray, rho: float) -> FloatArray:
    """Return how far above 1 the order is with the least δ at ε."""
    lower = np.full(epsilon.shape, np.log(SMALLEST))
    with np.errstate(divide="ignore"):
        upper = np.maximum(np.log(epsilon) - np.log(rho), -0.5 * np.log(rho))
    upper = np.minimum(upper, -np.log(SMALLEST))
    for _ in range(_BISECTIONS):
        log_above = 0.5 * (lower + upper)
        above = np.exp(log_above)
        short = (2.0 * above + 1.0) * rho - np.log1p(1.0 / above) < epsilon
        lower, upper = np.where(short, log_above, lower), np.where(short, upper, log_above)
    return np.asarray(np.exp(log_above))


_LARGEST_ORDER = 1e8
_LARGEST_LOSS = 1e5
_LEAST_EXPONENT = -700.0
_LEAST_BOUND = 1e-60
_REACH = 60.0


def renyi_log_delta_at(
    orders: FloatArray,
    bounds: FloatArray,
    epsilon: FloatArray,
    divergence: Divergence | None = None,
) -> FloatArray:
    """Ln δ at ε that bounds at the orders allow."""
    start = np.full(np.shape(epsilon), log_variation(bounds[0]))
    return _best(orders, bounds, renyi_log_delta, _log_delta, epsilon, start, divergence)


def renyi_epsilon_at(
    orders: FloatArray,
    bounds: FloatArray,
    log_delta: FloatArray,
    divergence: Divergence | None = None,
) -> FloatArray:
    """ε at ln δ that bounds > 0 at the orders allow."""
    start = np.where(log_delta >= log_variation(bounds[0]), 0.0, np.inf)
    return _best(orders, bounds, renyi_epsilon, _epsilon, log_delta, start, divergence)


def _log_delta(log_power: FloatArray, loss: FloatArray, epsilon: FloatArray) -> FloatArray:
    """Ln(π - e^ε·α)."""
    with np.errstate(divide="ignore"):
        return log_power + np.log(-np.expm1(np.minimum(epsilon - loss, 0.0)))


def _epsilon(log_power: FloatArray, loss: FloatArray, log_delta: FloatArray) -> FloatArray:
    """Ln((π - δ)/α)."""
    with np.errstate(divide="ignore"):
        return loss + np.log(-np.expm1(np.minimum(log_delta - log_power, 0.0)))


def _best(
    orders: FloatArray,
    bounds: FloatArray,
    formula: Callable[..., FloatArray],
    gain: Gain,
    given: FloatArray,
    best: FloatArray,
    divergence: Divergence | None,
) -> FloatArray:
    """Smallest ε or ln δ: by a formula for each order, and by what a test can do at most."""
    at, best = np.ravel(given), best.ravel()
    start = np.zeros(at.shape, dtype=np.intp)
    least = np.full(at.shape, np.inf)
    # one order after the other to bound memory
    for place, (order, bound) in enumerate(zip(orders, bounds, strict=True)):
        found = formula(order - 1.0, bound, at)
        start = np.where(found < least, place, start)
        least = np.minimum(least, found)
    best = np.minimum(best, least)
    inside = (best > _LEAST_EXPONENT) & (at < _LARGEST_LOSS)
    usable = (orders[start] <= _LARGEST_ORDER) & (bounds[start] <= _LARGEST_LOSS)
    if (part := np.flatnonzero(inside & usable & (bounds[start] > 0))).size:
        kept = (orders <= _LARGEST_ORDER) & (bounds <= _LARGEST_LOSS)
        above, gamma = orders[kept] - 1.0, np.maximum(bounds[kept], _LEAST_BOUND)
        # the best power is at least the δ, and that at least some e^-60 of its bound
        lowest = np.minimum(np.minimum(best[part], at[part]), 0.0) - _REACH
        first = (np.cumsum(kept) - 1)[start[part]]
        tight = renyi_conversion(above, gamma, at[part], first, lowest, gain, divergence)
        # log ratios are cut off far above that
        best[part] = np.where(tight < _LARGEST_LOSS, np.minimum(best[part], tight), best[part])
    return best.reshape(np.shape(given))


def between_orders(wanted: FloatArray, orders: FloatArray, bounds: FloatArray) -> FloatArray:
    """Bounds at orders up to the largest, by the convexity of (α-1)·D(α)."""
    right = np.searchsorted(orders, wanted)
    left = np.maximum(right - 1, 0)
    inside = (right > 0) & (orders[right] != wanted)
    gap = np.where(inside, orders[right] - orders[left], 1.0)
    weight = np.where(inside, (orders[right] - wanted) / gap, 0.0)
    share = weight * (orders[left] - 1.0) / (wanted - 1.0)
    return share * bounds[left] + (1.0 - share) * bounds[right]


def gaussian_epsilon(mu: float, log_delta: FloatArray) -> FloatArray:
    """ε at ln δ, both of shape (m,), for μ > 0."""
    # δ(ε) <= Φ(μ/2 - ε/μ)
    upper = np.maximum(mu * (0.5 * mu - special.ndtri_exp(log_delta)), 0.0)
    lower = np.zeros(upper.shape)
    start = gaussian_log_delta(mu, lower)
    upper = np.where(start <= log_delta, 0.0, upper * (1.0 + 1e-12))

    def excess(epsilon: FloatArray, index: NDArray[np.intp]) -> FloatArray:
        return np.where(upper[index] > 0, gaussian_log_delta(mu, epsilon) - log_delta[index], 0.0)

    return find_root(excess, lower, upper)[1]


def gaussian_log_delta(mu: float, epsilon: FloatArray) -> FloatArray:
    """Ln δ(ε) for every μ > 0 and ε >= 0."""
    distance = np.full(epsilon.shape, mu)
    with np.errstate(over="ignore"):
        a = epsilon / mu - 0.5 * mu
    middle = (a > -5.0) & (a < 40.0)
    log_delta = np.full(epsilon.shape, -np.inf)
    if middle.any():
        log_delta[middle] = gaussian_logdelta(distance[middle], epsilon[middle])[0]
    # nothing cancels where δ is close to 1, and e^ε·Φ(-a-μ) <= φ(a)/(a+μ)
    left = a <= -5.0
    tail = epsilon[left] + special.log_ndtr(-a[left] - mu)
    log_delta[left] = special.log_ndtr(-a[left]) + np.log1p(
        -np.exp(np.minimum(tail - special.log_ndtr(-a[left]), -1.0))
    )
    return log_delta


# The worst pair of ε-DP: randomized response with odds e^ε, against the same with its odds turned.


def response_delta(at: FloatArray, epsilon: float) -> FloatArray:
    """δ at an ε: (e^ε₀ - e^ε)/(1 + e^ε₀) below ε₀, 0 above."""
    return np.asarray(-np.expm1(np.minimum(at - epsilon, 0.0)) * special.expit(epsilon))


def response_epsilon(delta: FloatArray, epsilon: float) -> FloatArray:
    """ε at a δ: ln(e^ε₀ - δ(1 + e^ε₀)), at least 0."""
    flip = np.exp(-epsilon)
    # the logarithm of 1 - δ(1 + e^-ε₀), which is at least e^-ε₀ where the answer is not negative
    with np.errstate(divide="ignore"):
        small = np.log1p(-np.minimum(delta, 0.5) * (1.0 + flip))
        large = np.log(np.maximum((1.0 - delta) - delta * flip, 0.0))
    return np.asarray(np.maximum(epsilon + np.where(delta < 0.5, small, large), 0.0))


def response_divergence(order: FloatArray, epsilon: float) -> FloatArray:
    """Rényi divergence ln(cosh(x) + tanh(ε/2)·sinh(x))/(α - 1) with x = (α - 1)ε."""
    above = order - 1.0
    with np.errstate(over="ignore"):
        x = above * epsilon
    near = np.minimum(x, 1.0)
    small = np.log1p(2.0 * np.sinh(0.5 * near) ** 2 + np.tanh(0.5 * epsilon) * np.sinh(near))
    # e^x taken out, which is what is left where it would overflow
    excess = np.log1p(special.expit(-epsilon) * np.expm1(-2.0 * x))
    return np.asarray(np.where(x <= 1.0, small / above, epsilon + excess / above))
