"""What all guarantees share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, NoReturn, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpinfer._check import (
    NEIGHBOURS,
    FloatArray,
    Locked,
    Neighbours,
    check_array,
    check_integer,
    check_option,
    check_scalar,
    freeze,
    show,
)
from dpinfer._numerics.roots import find_root
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.law import gaussian_logdelta
from dpinfer.mechanisms.samplers import Sampler
from dpinfer.privacy._divergences import (
    Gain,
    log_variation,
    renyi_conversion,
    renyi_epsilon,
    renyi_log_delta,
    response_delta,
    response_divergence,
    response_epsilon,
    zcdp_epsilon,
    zcdp_log_delta,
)

LARGEST = 1e100
"""Parameters up to this have squares that do not overflow."""

MAX_GROUP = 10**9

LETTERS = {"epsilon": "ε", "delta": "δ", "rho": "ρ", "mu": "μ"}
"""The parameters that are numbers, and their letters in tables."""

ROUNDING = 1e-12
"""Share of a δ by which another may fall short of it and still counts as equal."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Guarantee(ABC):
    """A guarantee of privacy for one neighbour relation; see the guarantees themselves."""

    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        self._check()
        object.__setattr__(
            self, "neighbours", check_option(self.neighbours, "neighbours", NEIGHBOURS)
        )

    def __repr__(self) -> str:
        # the parameters first, although the neighbour relation is the first field
        names = [field.name for field in fields(self) if field.repr]
        shown = [f"{name}={getattr(self, name)!r}" for name in names[1:] + names[:1]]
        return f"{type(self).__name__}({', '.join(shown)})"

    @final
    def in_words(self) -> str:
        """Return the parameters as they stand in a table, such as ``ε = 1, δ = 1e-06``."""
        parts = [
            f"{letter} = {getattr(self, name):.6g}"
            for name, letter in LETTERS.items()
            if isinstance(getattr(self, name, None), float)
            and (name != "delta" or getattr(self, name) > 0)
        ]
        return ", ".join(parts) if parts else type(self).__name__

    @final
    def delta_at(self, epsilon: ArrayLike) -> Any:
        """Smallest δ that the guarantee implies at ε: the curve of all its (ε, δ).

        Parameters
        ----------
        epsilon : float or array of float
            The ε >= 0.

        Returns
        -------
        float or array of float
            The δ in [0, 1]; 0 also where it is below the smallest float.

        Raises
        ------
        InvalidParameterError
            If ``epsilon`` is negative or not finite.
        """
        at = check_array(epsilon, "epsilon", ge=0)
        return _plain(np.clip(self._delta_at(at), 0.0, 1.0))

    @final
    def epsilon_at(self, delta: ArrayLike) -> Any:
        """Smallest ε that the guarantee implies at δ.

        Parameters
        ----------
        delta : float or array of float
            The δ, within [0, 1).

        Returns
        -------
        float or array of float
            The ε >= 0, the inverse of :meth:`delta_at`.

        Raises
        ------
        InvalidParameterError
            If ``delta`` is outside [0, 1), or no finite ε holds at it.
        """
        at = check_array(delta, "delta", ge=0, lt=1)
        return _plain(np.maximum(self._epsilon_at(at), 0.0))

    def to_approx_dp(self, delta: float) -> ApproxDP:
        """(ε, δ)-differential privacy at a δ, with the ε of :meth:`epsilon_at`.

        Parameters
        ----------
        delta : float
            The δ, within [0, 1).

        Returns
        -------
        ApproxDP
            The guarantee (ε, δ).

        Raises
        ------
        InvalidParameterError
            If ``delta`` is outside [0, 1), or no finite ε holds at it.
        """
        chance = check_scalar(delta, "delta", ge=0, lt=1)
        return self._pair(self.epsilon_at(chance), chance)

    def to_pure_dp(self) -> PureDP:
        """ε-differential privacy, where the guarantee implies it.

        Returns
        -------
        PureDP
            The guarantee.

        Raises
        ------
        InvalidParameterError
            If it does not follow; the message says why.
        """
        self._refuse("ε-DP", "it bounds no ratio of probabilities: use to_approx_dp(delta)")

    def to_zcdp(self) -> ZCDP:
        """Zero-concentrated differential privacy, where the guarantee implies it.

        Returns
        -------
        ZCDP
            The guarantee.

        Raises
        ------
        InvalidParameterError
            If it does not follow; the message says why.
        """
        self._refuse("zCDP", "it does not bound the Rényi divergences of all orders")

    def to_rdp(self, order: ArrayLike) -> RDP:
        """Rényi differential privacy at the given orders, where the guarantee implies it.

        Parameters
        ----------
        order : float or array of float
            The orders α > 1.

        Returns
        -------
        RDP
            The guarantee.

        Raises
        ------
        InvalidParameterError
            If it does not follow; the message says why.
        """
        self._refuse("RDP", "it does not bound the Rényi divergence of any order")

    def to_gdp(self) -> GDP:
        """Gaussian differential privacy, where the guarantee implies it.

        Returns
        -------
        GDP
            The guarantee.

        Raises
        ------
        InvalidParameterError
            If it does not follow; the message says why.
        """
        self._refuse("GDP", "no formula for the smallest μ is known: use to_approx_dp(delta)")

    @final
    def group(self, size: int) -> Self:
        """Guarantee for groups: data sets that are ``size`` neighbouring steps apart.

        Parameters
        ----------
        size : int
            The number >= 1 of records in which the data sets differ.

        Returns
        -------
        Guarantee
            A guarantee of the same kind, whose parameters hold for the whole group.

        Raises
        ------
        InvalidParameterError
            If ``size`` is not a whole number from 1 to 10⁹, or nothing is left for such a group.
        """
        records = check_integer(size, "size", ge=1, le=MAX_GROUP)
        return self if records == 1 else self._group(records)

    @final
    def to_replace(self) -> Self:
        """Guarantee for replacing a record, from that for adding or removing one.

        A replacement is a removal and an addition, so that this is the guarantee for a group of
        two. In the other direction nothing follows: adding a record is no replacement.

        Returns
        -------
        Guarantee
            A guarantee of the same kind with ``neighbours="replace"``.
        """
        if self.neighbours == "replace":
            return self
        return replace(self.group(2), neighbours="replace")

    @abstractmethod
    def _check(self) -> None:
        """Check the parameters, and replace each by a Python float."""

    @abstractmethod
    def _delta_at(self, epsilon: FloatArray) -> FloatArray:
        """Return δ at ε >= 0; what is outside [0, 1] is cut off."""

    @abstractmethod
    def _epsilon_at(self, delta: FloatArray) -> FloatArray:
        """Return ε at δ in [0, 1), or refuse; what is below 0 is cut off."""

    @abstractmethod
    def _group(self, size: int) -> Self:
        """Return the guarantee for groups of ``size`` >= 2."""

    def _set(self, name: str, *, le: float = LARGEST, lt: float | None = None) -> None:
        value = check_scalar(getattr(self, name), name, ge=0, le=le, lt=lt)
        object.__setattr__(self, name, value)

    def _pair(self, epsilon: float, delta: float) -> ApproxDP:
        # imported here because it is itself a guarantee

        return ApproxDP(epsilon, delta, neighbours=self.neighbours)

    def _refuse(self, kind: str, reason: str) -> NoReturn:
        raise InvalidParameterError(f"{self} implies no {kind}: {reason}")


def _plain(values: FloatArray) -> Any:
    return values if values.ndim else float(values)


def check_delta_within(delta: FloatArray, own: float, guarantee: Guarantee) -> FloatArray:
    """Return what δ leaves above the probability that everything is told, or refuse it below."""
    if (low := delta < own * (1.0 - ROUNDING)).any():
        raise InvalidParameterError(
            f"delta must be >= {own:g}, got {delta[low][0]}: {guarantee} holds with no finite "
            "epsilon below it"
        )
    return np.asarray(np.maximum(delta - own, 0.0))


def refuse_zero_delta(delta: FloatArray, guarantee: Guarantee) -> None:
    """Refuse δ = 0 for a guarantee that holds with no finite ε there."""
    if (delta == 0).any():
        raise InvalidParameterError(
            f"delta must be > 0, got 0.0: {guarantee} holds with no finite epsilon at delta = 0"
        )


# Rényi differential privacy, at one order or along a curve of orders.


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


# Zero-concentrated differential privacy.


@dataclass(frozen=True, repr=False)
class ZCDP(Guarantee):
    """ρ-zero-concentrated differential privacy: Rényi divergences of at most αρ for all α > 1.

    Parameters
    ----------
    rho : float
        The budget ρ >= 0.
    neighbours : {"add-remove", "replace"}, default "add-remove"
        Whether neighbouring data sets differ by one record more, or by one that is changed.

    Raises
    ------
    InvalidParameterError
        If ``rho`` is negative or above 1e100.

    Notes
    -----
    It implies (ε, δ)-differential privacy for every δ > 0, by two formulas. The optimised one,
    which :meth:`epsilon_at` and :meth:`delta_at` use, takes for each δ the best order α of

        ε = αρ + ln(1/(αδ))/(α - 1) + ln(1 - 1/α),

    and is never worse than the simple one, ε = ρ + 2·√(ρ·ln(1/δ)). Neither is exact: the curve of
    powers of :class:`~dpinfer.privacy.TradeOff` allows 3e-8 of ε less at ρ = 0.5 and
    δ = 1e-6, 0.5 % less at ρ = 0.125 and δ = 0.01, and a third at ρ = 0.01 and δ = 0.05. From
    δ = √(ρ/2) on ε is 0, by the distance in total variation. It implies no ε-DP unless ρ = 0, and
    for GDP no formula is known.

    References
    ----------
    Bun, M. and Steinke, T. (2016). Concentrated differential privacy: simplifications, extensions,
    and lower bounds. doi:10.1007/978-3-662-53641-4_24, Propositions 1.3 and 1.9 (groups).

    Canonne, C. L., Kamath, G. and Steinke, T. (2022). The discrete Gaussian for differential
    privacy. Journal of Privacy and Confidentiality 12(1). doi:10.29012/jpc.784, Proposition 12 and
    Corollary 13.

    Examples
    --------
    >>> guarantee = ZCDP(0.1)
    >>> round(guarantee.to_approx_dp(1e-6).epsilon, 6)
    2.141939
    >>> round(guarantee.to_approx_dp(1e-6, method="simple").epsilon, 6)
    2.450788
    >>> guarantee.group(2).rho
    0.4
    """

    rho: float

    def _check(self) -> None:
        self._set("rho")

    def to_approx_dp(
        self, delta: float, method: Literal["optimised", "simple"] = "optimised"
    ) -> ApproxDP:
        """(ε, δ)-differential privacy at a δ.

        Parameters
        ----------
        delta : float
            The δ, within (0, 1).
        method : {"optimised", "simple"}, default "optimised"
            The bound by the best order, or ε = ρ + 2·√(ρ·ln(1/δ)).

        Returns
        -------
        ApproxDP
            The guarantee (ε, δ).

        Raises
        ------
        InvalidParameterError
            If ``delta`` is outside (0, 1), or ``method`` is unknown.
        """
        if check_option(method, "method", ("optimised", "simple")) == "optimised":
            return super().to_approx_dp(delta)
        chance = check_scalar(delta, "delta", gt=0, lt=1)
        epsilon = self.rho + 2.0 * np.sqrt(self.rho) * np.sqrt(-np.log(chance))
        return self._pair(epsilon, chance)

    def to_zcdp(self) -> ZCDP:
        """Return the guarantee itself."""
        return self

    def to_rdp(self, order: ArrayLike) -> RDP:
        """Rényi differential privacy with the bounds αρ: for all orders together, equivalent.

        Parameters
        ----------
        order : float or array of float
            The orders α > 1.

        Returns
        -------
        RDP
            The bounds αρ at the orders.

        Raises
        ------
        InvalidParameterError
            If an order is not within (1, 1e100].
        """
        orders = check_array(order, "order", gt=1, le=1e100)
        return RDP(orders, orders * self.rho, neighbours=self.neighbours)

    def _delta_at(self, epsilon: FloatArray) -> FloatArray:
        if self.rho == 0:
            return np.zeros(epsilon.shape)
        log_delta = zcdp_log_delta(epsilon, self.rho)
        return np.asarray(np.exp(np.minimum(log_delta, log_variation(self.rho))))

    def _epsilon_at(self, delta: FloatArray) -> FloatArray:
        if self.rho == 0:
            return np.zeros(delta.shape)
        refuse_zero_delta(delta, self)
        log_delta = np.log(delta)
        epsilon = zcdp_epsilon(log_delta, self.rho)
        return np.where(log_delta >= log_variation(self.rho), 0.0, epsilon)

    def _group(self, size: int) -> Self:
        return type(self)(size * size * self.rho, neighbours=self.neighbours)


# Gaussian differential privacy.


@dataclass(frozen=True, repr=False)
class GDP(Guarantee):
    """μ-Gaussian differential privacy: as hard to tell apart as N(0, 1) and N(μ, 1).

    Parameters
    ----------
    mu : float
        The distance μ >= 0 of the two normal laws.
    neighbours : {"add-remove", "replace"}, default "add-remove"
        Whether neighbouring data sets differ by one record more, or by one that is changed.

    Raises
    ------
    InvalidParameterError
        If ``mu`` is negative or above 1e100.

    Notes
    -----
    It is the same as (ε, δ(ε))-differential privacy for all ε, with

        δ(ε) = Φ(μ/2 - ε/μ) - e^ε·Φ(-μ/2 - ε/μ),

    so that :meth:`delta_at` and :meth:`epsilon_at` lose nothing. It implies μ²/2-zCDP, and no
    ε-DP unless μ = 0.

    References
    ----------
    Dong, J., Roth, A. and Su, W. J. (2022). Gaussian differential privacy. Journal of the Royal
    Statistical Society B 84(1), 3-37. doi:10.1111/rssb.12454, Corollary 1 and Theorem 3 (groups).

    Examples
    --------
    >>> guarantee = GDP(1.0)
    >>> round(guarantee.delta_at(1.0), 9), round(guarantee.epsilon_at(1e-6), 9)
    (0.126936738, 4.886554117)
    >>> guarantee.to_zcdp()
    ZCDP(rho=0.5, neighbours='add-remove')
    """

    mu: float

    def _check(self) -> None:
        self._set("mu")

    def to_gdp(self) -> GDP:
        """Return the guarantee itself."""
        return self

    def to_zcdp(self) -> ZCDP:
        """Zero-concentrated differential privacy: ρ = μ²/2, attained by the Gaussian.

        Returns
        -------
        ZCDP
            The guarantee ρ.

        Raises
        ------
        InvalidParameterError
            If ρ is above 1e100.
        """
        return ZCDP(0.5 * self.mu * self.mu, neighbours=self.neighbours)

    def to_rdp(self, order: ArrayLike) -> RDP:
        """Rényi differential privacy: the bounds αμ²/2, attained by the Gaussian.

        Parameters
        ----------
        order : float or array of float
            The orders α > 1.

        Returns
        -------
        RDP
            The bounds at the orders.

        Raises
        ------
        InvalidParameterError
            If an order is not within (1, 1e100].
        """
        return self.to_zcdp().to_rdp(order)

    def _delta_at(self, epsilon: FloatArray) -> FloatArray:
        if self.mu == 0:
            return np.zeros(epsilon.shape)
        log_delta = _log_delta(self.mu, np.atleast_1d(epsilon))
        return np.exp(log_delta).reshape(epsilon.shape)

    def _epsilon_at(self, delta: FloatArray) -> FloatArray:
        if self.mu == 0:
            return np.zeros(delta.shape)
        refuse_zero_delta(delta, self)
        log_delta = np.atleast_1d(np.log(delta)).ravel()
        # δ(ε) <= Φ(μ/2 - ε/μ)
        upper = np.maximum(self.mu * (0.5 * self.mu - special.ndtri_exp(log_delta)), 0.0)
        lower = np.zeros(upper.shape)
        start = _log_delta(self.mu, lower)
        upper = np.where(start <= log_delta, 0.0, upper * (1.0 + 1e-12))
        lower = np.where(start <= log_delta, 0.0, lower)

        def excess(epsilon: FloatArray, index: NDArray[np.intp]) -> FloatArray:
            return np.where(upper[index] > 0, _log_delta(self.mu, epsilon) - log_delta[index], 0.0)

        return find_root(excess, lower, upper)[1].reshape(delta.shape)

    def _group(self, size: int) -> Self:
        return type(self)(size * self.mu, neighbours=self.neighbours)


def _log_delta(mu: float, epsilon: FloatArray) -> FloatArray:
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


# Pure differential privacy.


@dataclass(frozen=True, repr=False)
class PureDP(Guarantee):
    """ε-differential privacy: no probability changes by more than the factor e^ε.

    Parameters
    ----------
    epsilon : float
        The bound ε >= 0 on the log ratio of the probabilities of any output.
    neighbours : {"add-remove", "replace"}, default "add-remove"
        Whether neighbouring data sets differ by one record more, or by one that is changed.

    Raises
    ------
    InvalidParameterError
        If ``epsilon`` is negative or above 1e100.

    Notes
    -----
    Every ε-DP mechanism is a randomized response of the same ε followed by some computation
    (Kairouz, Oh and Viswanath 2017), so that what holds for that one pair of laws
    holds for all: the conversions below are the exact values of that pair, and cannot be improved.

    References
    ----------
    Dwork, C. and Roth, A. (2014). The algorithmic foundations of differential privacy.
    doi:10.1561/0400000042, Definition 2.4.

    Kairouz, P., Oh, S. and Viswanath, P. (2017). The composition theorem for differential privacy.
    IEEE Transactions on Information Theory 63(6), 4037-4049. doi:10.1109/TIT.2017.2685505.

    Examples
    --------
    >>> guarantee = PureDP(1.0)
    >>> round(guarantee.to_zcdp().rho, 9), guarantee.to_zcdp(method="simple").rho
    (0.462117157, 0.5)
    >>> round(guarantee.epsilon_at(0.1), 6)
    0.852905
    >>> guarantee.group(3)
    PureDP(epsilon=3.0, neighbours='add-remove')
    """

    epsilon: float

    def _check(self) -> None:
        self._set("epsilon")

    def to_pure_dp(self) -> PureDP:
        """Return the guarantee itself."""
        return self

    def to_approx_dp(self, delta: float = 0.0) -> ApproxDP:
        """(ε', δ)-differential privacy: with δ > 0 at a smaller ε'.

        Parameters
        ----------
        delta : float, default 0
            The δ, within [0, 1).

        Returns
        -------
        ApproxDP
            (ε', δ) with ε' = ln(e^ε - δ(1 + e^ε)), or 0 where that is negative: the smallest.

        Raises
        ------
        InvalidParameterError
            If ``delta`` is outside [0, 1).
        """
        return super().to_approx_dp(delta)

    def to_zcdp(self, method: Literal["tight", "simple"] = "tight") -> ZCDP:
        """Zero-concentrated differential privacy.

        Parameters
        ----------
        method : {"tight", "simple"}, default "tight"
            ρ = ε·tanh(ε/2), which randomized response attains, or the textbook bound ρ = ε²/2.

        Returns
        -------
        ZCDP
            The guarantee ρ.

        Raises
        ------
        InvalidParameterError
            If ``method`` is unknown, or ρ is above 1e100.

        Notes
        -----
        The Rényi divergence of randomized response, per order, falls as the order grows, so that
        its largest value is that at order 1: the Kullback-Leibler divergence ε·tanh(ε/2). Both
        bounds hold for every ε-DP mechanism. A given mechanism may do better.

        References
        ----------
        Bun, M. and Steinke, T. (2016). Concentrated differential privacy: simplifications,
        extensions, and lower bounds. doi:10.1007/978-3-662-53641-4_24, Proposition 1.4 (ε²/2).
        """
        if check_option(method, "method", ("tight", "simple")) == "simple":
            return ZCDP(0.5 * self.epsilon * self.epsilon, neighbours=self.neighbours)
        return ZCDP(self.epsilon * np.tanh(0.5 * self.epsilon), neighbours=self.neighbours)

    def to_rdp(self, order: ArrayLike) -> RDP:
        """Rényi differential privacy: the divergence of randomized response, which is attained.

        Parameters
        ----------
        order : float or array of float
            The orders α > 1.

        Returns
        -------
        RDP
            The bounds ln(cosh((α - 1/2)ε)/cosh(ε/2))/(α - 1); never above ε.

        Raises
        ------
        InvalidParameterError
            If an order is not within (1, 1e100].

        References
        ----------
        Mironov, I. (2017). Rényi differential privacy. 30th IEEE Computer Security Foundations
        Symposium, 263-275. doi:10.1109/CSF.2017.11, Proposition 5.
        """
        orders = check_array(order, "order", gt=1, le=1e100)
        return RDP(orders, response_divergence(orders, self.epsilon), neighbours=self.neighbours)

    def to_gdp(self) -> GDP:
        """Gaussian differential privacy with the smallest possible μ.

        Returns
        -------
        GDP
            The guarantee μ = 2·Φ⁻¹(e^ε/(1 + e^ε)).

        Notes
        -----
        The trade-off curve of ε-DP is piecewise linear with a kink at 1/(1 + e^ε), and that of
        μ-GDP is convex with the same ends: it lies below if and only if it does so at the kink.

        References
        ----------
        Dong, J., Roth, A. and Su, W. J. (2022). Gaussian differential privacy.
        doi:10.1111/rssb.12454, Proposition 3 and Theorem 1.
        """
        kink = special.log_expit(-self.epsilon)
        return GDP(-2.0 * special.ndtri_exp(kink) + 0.0, neighbours=self.neighbours)

    def _delta_at(self, epsilon: FloatArray) -> FloatArray:
        return response_delta(epsilon, self.epsilon)

    def _epsilon_at(self, delta: FloatArray) -> FloatArray:
        return response_epsilon(delta, self.epsilon)

    def _group(self, size: int) -> Self:
        return type(self)(size * self.epsilon, neighbours=self.neighbours)


# What was drawn with noise from confidential data, and whether that keeps a guarantee.


class Drawn:
    """What carries its guarantee only where its noise came from a sampler made for releases."""

    sampler: Sampler
    nominal: Guarantee

    @property
    def simulated(self) -> bool:
        """Whether the noise is that of a simulation, in floating point: not to be published."""
        return self.sampler == "simulated"

    @property
    def guarantee(self) -> Guarantee | None:
        """What is guaranteed: ``nominal`` for a release, nothing (None) if simulated."""
        return None if self.simulated else self.nominal

    def _facts(self, spent: str) -> list[tuple[str, object]]:
        """Return the lines of a summary that say what was spent, or that nothing is guaranteed."""
        relation = ("Neighbours", self.nominal.neighbours)
        if self.simulated:
            return [
                ("Noise drawn by", "simulation: carries no guarantee, not for publication"),
                (f"Would be: {spent.lower()}", self.nominal.in_words()),
                relation,
            ]
        return [("Noise drawn by", "OpenDP"), (spent, self.nominal.in_words()), relation]


# Guarantees that are given by a pair (ε, δ): of other kinds they imply one where δ = 0.


@dataclass(frozen=True, repr=False)
class PairGuarantee(Guarantee):
    """A guarantee of one mechanism, or of several in a row, each of which is (ε, δ)-DP."""

    epsilon: float
    delta: float

    def _check(self) -> None:
        self._set("epsilon")
        self._set("delta", le=1.0, lt=1.0)

    @property
    def _times(self) -> int:
        """Number of mechanisms."""
        return 1

    @property
    def _told(self) -> float:
        """Probability with which everything may be told."""
        return self.delta

    def to_pure_dp(self) -> PureDP:
        """ε-differential privacy, which follows if and only if δ = 0.

        Returns
        -------
        PureDP
            The guarantee; of several mechanisms together.

        Raises
        ------
        InvalidParameterError
            If δ > 0.
        """
        single = self._as_pure("ε-DP")
        return replace(single, epsilon=self._times * single.epsilon)

    def to_zcdp(self) -> ZCDP:
        """Zero-concentrated differential privacy, which follows if and only if δ = 0.

        Returns
        -------
        ZCDP
            The guarantee; of several mechanisms together.

        Raises
        ------
        InvalidParameterError
            If δ > 0.
        """
        single = self._as_pure("zCDP").to_zcdp()
        return replace(single, rho=self._times * single.rho)

    def to_rdp(self, order: ArrayLike) -> RDP:
        """Rényi differential privacy at the given orders, which follows if and only if δ = 0.

        Parameters
        ----------
        order : float or array of float
            The orders α > 1.

        Returns
        -------
        RDP
            The guarantee; of several mechanisms together.

        Raises
        ------
        InvalidParameterError
            If δ > 0.
        """
        single = self._as_pure("RDP").to_rdp(order)
        return replace(single, bound=self._times * single.bound)

    def to_gdp(self) -> GDP:
        """Gaussian differential privacy, which follows if and only if δ = 0.

        Returns
        -------
        GDP
            The guarantee; of several mechanisms together.

        Raises
        ------
        InvalidParameterError
            If δ > 0.
        """
        single = self._as_pure("GDP").to_gdp()
        return replace(single, mu=np.sqrt(self._times) * single.mu)

    def _as_pure(self, kind: str) -> PureDP:
        """Return what each mechanism is without its δ, or refuse to convert to a kind without."""
        if self.delta > 0:
            self._refuse(
                kind,
                f"with probability {self._told:g} it allows any output, which can tell the data "
                "sets apart for certain; start from the mechanism, whose guarantee says more",
            )
        return PureDP(self.epsilon, neighbours=self.neighbours)


# Approximate differential privacy.


@dataclass(frozen=True, repr=False)
class ApproxDP(PairGuarantee):
    """(ε, δ)-differential privacy: ε-differential privacy but for a probability δ.

    Parameters
    ----------
    epsilon : float
        The ε >= 0.
    delta : float
        The δ, within [0, 1).
    neighbours : {"add-remove", "replace"}, default "add-remove"
        Whether neighbouring data sets differ by one record more, or by one that is changed.

    Raises
    ------
    InvalidParameterError
        If ``epsilon`` is negative or above 1e100, or ``delta`` is outside [0, 1).

    Notes
    -----
    P(M(x) in S) ≤ e^ε P(M(x') in S) + δ for all sets S. With δ > 0 a single pair (ε, δ) leaves
    open what happens with probability δ, so that it implies no ε-DP, zCDP, RDP or GDP. The (ε, δ)
    of other ε follow from its worst case: everything is told with probability δ, and else
    randomized response with ε (Kairouz, Oh and Viswanath 2017).

    References
    ----------
    Dwork, C. and Roth, A. (2014). The algorithmic foundations of differential privacy.
    doi:10.1561/0400000042, Definition 2.4.

    Kairouz, P., Oh, S. and Viswanath, P. (2017). The composition theorem for differential privacy.
    doi:10.1109/TIT.2017.2685505.

    Vadhan, S. (2017). The complexity of differential privacy. Tutorials on the Foundations of
    Cryptography, 347-450. doi:10.1007/978-3-319-57048-8_7, Lemma 7.2.2 (groups).

    Examples
    --------
    >>> guarantee = ApproxDP(1.0, 1e-6)
    >>> guarantee.group(2).epsilon, round(guarantee.group(2).delta, 12)
    (2.0, 3.718282e-06)
    >>> round(guarantee.delta_at(0.5), 6)
    0.28765
    """

    def _delta_at(self, epsilon: FloatArray) -> FloatArray:
        return self.delta + (1.0 - self.delta) * response_delta(epsilon, self.epsilon)

    def _epsilon_at(self, delta: FloatArray) -> FloatArray:
        left = check_delta_within(delta, self.delta, self)
        return response_epsilon(left / (1.0 - self.delta), self.epsilon)

    def _group(self, size: int) -> Self:
        # δ(1 + e^ε + … + e^{(size-1)ε}), in logarithms
        loss = size * self.epsilon
        terms = np.log(size)
        if self.epsilon > 0:
            terms = (size - 1) * self.epsilon + np.log(np.expm1(-loss) / np.expm1(-self.epsilon))
        log_delta = np.log(self.delta) + terms if self.delta > 0 else -np.inf
        if log_delta >= 0:
            raise InvalidParameterError(
                f"size must be smaller, got {size}: for such groups {self} implies no delta below 1"
            )
        delta = min(float(np.exp(log_delta)), np.nextafter(1.0, 0.0))
        return replace(self, epsilon=loss, delta=delta)


# Approximate differential privacy of a population of which a secret sample was used.


Scheme = Literal["poisson", "without-replacement"]
SCHEMES: tuple[Scheme, ...] = ("poisson", "without-replacement")


@dataclass(frozen=True)
class Amplification:
    """What an amplified guarantee came from.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee for the sample: of everything that was computed on it.
    rate : float
        The sampling rate, within (0, 1].
    scheme : {"poisson", "without-replacement"}
        How the sample was drawn.
    sample : str, optional
        A name for the sample.

    Raises
    ------
    InvalidParameterError
        If a field is not as described.

    Examples
    --------
    >>> from dpinfer.privacy import PureDP
    >>> Amplification(PureDP(1.0), 0.05, "poisson").sample is None
    True
    """

    guarantee: Guarantee
    rate: float
    scheme: Scheme
    sample: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.guarantee, Guarantee):
            raise InvalidParameterError(f"guarantee must be one, got {show(self.guarantee)}")
        if self.sample is not None and not isinstance(self.sample, str):
            raise InvalidParameterError(f"sample must be a name or None, got {show(self.sample)}")
        object.__setattr__(self, "rate", check_scalar(self.rate, "rate", gt=0, le=1))
        object.__setattr__(self, "scheme", check_option(self.scheme, "scheme", SCHEMES))


@dataclass(frozen=True, repr=False)
class AmplifiedDP(ApproxDP):
    """(ε, δ)-differential privacy for a population, by the secrecy of the samples that were used.

    It is what :func:`~dpinfer.privacy.sampling.amplify` returns. It cannot be amplified again, and
    is composed only with what was computed on other samples or on the population.

    Parameters
    ----------
    epsilon, delta : float
        The ε >= 0 and the δ within [0, 1), for the population.
    sources : tuple of Amplification
        What was computed on which sample.
    neighbours : {"add-remove", "replace"}, default "add-remove"
        Whether neighbouring populations differ by one record more, or by one that is changed.

    Raises
    ------
    InvalidParameterError
        If a parameter is out of range, or ``sources`` holds no :class:`Amplification`.

    Examples
    --------
    >>> from dpinfer.privacy import PureDP
    >>> from dpinfer.privacy import amplify
    >>> amplified = amplify(PureDP(1.0), rate=0.05)
    >>> round(amplified.epsilon, 6), amplified.sources[0].rate
    (0.082422, 0.05)
    >>> AmplifiedDP(0.25, 0.0, amplified.sources)
    AmplifiedDP(epsilon=0.25, delta=0.0, neighbours='add-remove', sources=<1 sample, rate 0.05>)
    """

    sources: tuple[Amplification, ...] = field(repr=False)

    def __repr__(self) -> str:
        count, rates = len(self.sources), [source.rate for source in self.sources]
        samples = f"1 sample, rate {rates[0]:g}"
        if count > 1:
            samples = f"{count} samples, rates from {min(rates):g} to {max(rates):g}"
        return f"{super().__repr__()[:-1]}, sources=<{samples}>)"

    def _check(self) -> None:
        super()._check()
        ok = isinstance(self.sources, (tuple, list)) and len(self.sources) > 0
        if not ok or not all(isinstance(source, Amplification) for source in self.sources):
            raise InvalidParameterError(
                f"sources must hold at least one Amplification, got {show(self.sources)}"
            )
        object.__setattr__(self, "sources", tuple(self.sources))

    def to_approx_dp(self, delta: float) -> AmplifiedDP:
        """(ε', δ')-differential privacy at another δ', which remembers the samples.

        Parameters
        ----------
        delta : float
            The δ', at least that of the guarantee.

        Returns
        -------
        AmplifiedDP
            The guarantee (ε', δ').

        Raises
        ------
        InvalidParameterError
            If ``delta`` is outside [0, 1), or no finite ε holds at it.
        """
        chance = check_scalar(delta, "delta", ge=0, lt=1)
        return replace(self, epsilon=self.epsilon_at(chance), delta=chance)

    def _as_pure(self, kind: str) -> NoReturn:
        self._refuse(
            kind,
            "it holds for a population by the secrecy of a sample, and that must stay on record; "
            "convert the guarantee for the sample before it is amplified",
        )
