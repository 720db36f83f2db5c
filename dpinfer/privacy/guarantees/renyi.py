"""Rényi differential privacy, at one order or along a curve of orders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._validation import FloatArray, Locked, check_array, freeze
from dpinfer.errors import InvalidParameterError
from dpinfer.privacy.guarantees._divergence_curve import Gain, renyi_conversion
from dpinfer.privacy.guarantees._guarantee import Guarantee, refuse_zero_delta
from dpinfer.privacy.guarantees._zcdp_curve import log_variation, renyi_epsilon, renyi_log_delta

_LARGEST_ORDER = 1e8
_LARGEST_LOSS = 1e5
_LEAST_EXPONENT = -700.0
_LEAST_BOUND = 1e-60
_REACH = 60.0


@dataclass(frozen=True, repr=False, eq=False)
class RDP(Locked, Guarantee):
    """Rényi differential privacy: a bound on the Rényi divergence of each given order.

    Parameters
    ----------
    order : float or array of float, shape (m,)
        The orders α > 1. They are sorted; of an order that is given twice the smaller bound counts.
    bound : float or array of float, shape (m,)
        The bound γ >= 0 on the Rényi divergence of each order. As the divergence does not fall with
        the order, a bound at a larger order replaces a larger one before it.
    neighbours : {"add-remove", "replace"}, default "add-remove"
        Whether neighbouring data sets differ by one record more, or by one that is changed.

    Raises
    ------
    InvalidParameterError
        If an order is not within (1, 1e100], a bound is negative or above 1e200, or there is not
        one bound for each order.

    Notes
    -----
    It implies (ε, δ)-differential privacy with the largest ln((π - δ)/α) of a test of the level α
    and the power π that divergences within the bounds allow (Asoodeh et al. 2021): no smaller ε
    follows. It is at most γ + ln(1/(αδ))/(α - 1) + ln(1 - 1/α), α the order, which is close where
    orders are large. For ε above 10⁵, or orders above 10⁸, it is that formula. Finitely many orders
    imply neither zCDP nor GDP, and no ε-DP.

    References
    ----------
    Mironov, I. (2017). Rényi differential privacy. doi:10.1109/CSF.2017.11, Definition 4 and
    Proposition 2 (groups).

    Asoodeh, S., Liao, J., Calmon, F. P., Kosut, O. and Sankar, L. (2021). Three variants of
    differential privacy: lossless conversion and applications. IEEE Journal on Selected Areas in
    Information Theory 2(1), 208-222. arXiv:2008.06529, Theorem 2.

    Canonne, C. L., Kamath, G. and Steinke, T. (2022). The discrete Gaussian for differential
    privacy. doi:10.29012/jpc.784, Proposition 12.

    Examples
    --------
    >>> guarantee = RDP([2, 8, 32], [0.2, 0.8, 3.2])
    >>> round(guarantee.epsilon_at(1e-6), 6)
    2.342521
    >>> round(guarantee.to_rdp(5).bound, 12)
    0.725
    """

    order: float | FloatArray
    bound: float | FloatArray

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, RDP)
            and self.neighbours == other.neighbours
            and np.array_equal(self.order, other.order)
            and np.array_equal(self.bound, other.bound)
        )

    def __hash__(self) -> int:
        return hash((self.neighbours, *self.curve[0].tolist(), *self.curve[1].tolist()))

    def _check(self) -> None:
        order = check_array(self.order, "order", gt=1, le=1e100)
        bound = check_array(self.bound, "bound", ge=0, le=1e200)
        if order.shape != bound.shape or order.ndim > 1:
            raise InvalidParameterError(
                "order and bound must be numbers or one-dimensional arrays of one length, got "
                f"shapes {order.shape} and {bound.shape}"
            )
        if order.ndim:
            order, first = np.unique(order[np.lexsort((bound, order))], return_index=True)
            bound = bound[np.lexsort((bound, check_array(self.order, "order")))][first]
            bound = np.minimum.accumulate(bound[::-1])[::-1]
        for name, value in (("order", order), ("bound", bound)):
            object.__setattr__(self, name, freeze(value) if value.ndim else float(value))

    @property
    def curve(self) -> tuple[FloatArray, FloatArray]:
        """The orders and their bounds as arrays of shape (m,)."""
        return np.atleast_1d(self.order), np.atleast_1d(self.bound)

    def to_rdp(self, order: ArrayLike) -> RDP:
        """Bounds at other orders.

        Parameters
        ----------
        order : float or array of float
            The orders α > 1, at most the largest order of the guarantee.

        Returns
        -------
        RDP
            The bounds there. Between orders they follow from (α - 1) times the divergence being
            convex in α, and below the smallest from the divergence not falling with the order.

        Raises
        ------
        InvalidParameterError
            If an order is above the largest of the guarantee, about which it says nothing.
        """
        wanted = check_array(order, "order", gt=1, le=1e100)
        orders, bounds = self.curve
        if (beyond := wanted > orders[-1]).any():
            self._refuse(
                f"bound at order {wanted[beyond][0]:g}",
                "divergences grow with the order, and it says nothing of larger orders",
            )
        return RDP(wanted, _between(wanted, orders, bounds), neighbours=self.neighbours)

    def _delta_at(self, epsilon: FloatArray) -> FloatArray:
        start = np.full(epsilon.shape, log_variation(self.curve[1][0]))

        def gain(log_power: FloatArray, loss: FloatArray, at: FloatArray) -> FloatArray:
            # ln(π - e^ε·α)
            with np.errstate(divide="ignore"):
                return log_power + np.log(-np.expm1(np.minimum(at - loss, 0.0)))

        return np.exp(self._best(renyi_log_delta, gain, epsilon, start))

    def _epsilon_at(self, delta: FloatArray) -> FloatArray:
        if (self.curve[1] == 0).any():
            return np.zeros(delta.shape)
        refuse_zero_delta(delta, self)
        log_delta = np.log(delta)
        start = np.where(log_delta >= log_variation(self.curve[1][0]), 0.0, np.inf)

        def gain(log_power: FloatArray, loss: FloatArray, at: FloatArray) -> FloatArray:
            # ln((π - δ)/α)
            with np.errstate(divide="ignore"):
                return loss + np.log(-np.expm1(np.minimum(at - log_power, 0.0)))

        return self._best(renyi_epsilon, gain, log_delta, start)

    def _best(self, formula: Any, gain: Gain, given: FloatArray, best: FloatArray) -> FloatArray:
        """Smallest ε or ln δ: by a formula for each order, and by what a test can do at most."""
        at, best = given.ravel(), best.ravel()
        orders, bounds = self.curve
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
            tight = renyi_conversion(above, gamma, at[part], first, lowest, gain)
            # log ratios are cut off far above that
            best[part] = np.where(tight < _LARGEST_LOSS, np.minimum(best[part], tight), best[part])
        return best.reshape(given.shape)

    def _group(self, size: int) -> Self:
        # Mironov's Proposition 2: groups of 2^c have the order α/2^c >= 2 and the bound 3^c γ
        halvings = (size - 1).bit_length()
        orders, bounds = self.curve
        kept = orders >= 2.0 ** (halvings + 1)
        if not kept.any():
            raise InvalidParameterError(
                f"size must be smaller, got {size}: a group of that size needs an order of at "
                f"least {2 ** (halvings + 1)}, and the largest is {orders[-1]:g}"
            )
        order, bound = orders[kept] / 2.0**halvings, bounds[kept] * 3.0**halvings
        if not np.ndim(self.order):
            return type(self)(float(order[0]), float(bound[0]), neighbours=self.neighbours)
        return type(self)(order, bound, neighbours=self.neighbours)


def _between(wanted: FloatArray, orders: FloatArray, bounds: FloatArray) -> FloatArray:
    """Bounds at orders up to the largest, by the convexity of (α-1)·D(α)."""
    right = np.searchsorted(orders, wanted)
    left = np.maximum(right - 1, 0)
    inside = (right > 0) & (orders[right] != wanted)
    gap = np.where(inside, orders[right] - orders[left], 1.0)
    weight = np.where(inside, (orders[right] - wanted) / gap, 0.0)
    share = weight * (orders[left] - 1.0) / (wanted - 1.0)
    return share * bounds[left] + (1.0 - share) * bounds[right]
