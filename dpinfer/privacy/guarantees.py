"""Guarantees of privacy: what each kind states, what it implies of the others, and their sum."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from math import fsum, hypot
from typing import Any, Literal, NoReturn, Self, TypeVar, final

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpinfer._check import (
    NEIGHBOURS,
    FloatArray,
    Locked,
    Neighbours,
    check_array,
    check_integer,
    check_items,
    check_option,
    check_scalar,
    freeze,
    show,
)
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.privacy._divergences import (
    between_orders,
    gaussian_epsilon,
    gaussian_log_delta,
    renyi_epsilon_at,
    renyi_log_delta_at,
    response_delta,
    response_divergence,
    response_epsilon,
    zcdp_epsilon,
    zcdp_log_delta,
)

LARGEST = 1e100
"""Parameters up to this have squares that do not overflow."""

MAX_GROUP = 10**9
_LEAST_BOUND = 1e-60
"""A smaller bound on a divergence moves no power by as much as a float can show."""

LETTERS = {"epsilon": "ε", "delta": "δ", "rho": "ρ", "mu": "μ"}
"""The parameters that are numbers, and their letters in tables."""

ROUNDING = 1e-12
"""Share of a δ by which another may fall short of it and still counts as equal."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Guarantee(ABC):
    """A guarantee of privacy for one neighbour relation; see the guarantees themselves.

    ``+`` and ``sum`` compose guarantees from left to right, as :func:`~dpinfer.privacy.compose`
    composes them at once. Methods refuse arguments out of range, and what does not follow, with an
    :class:`~dpinfer.errors.InvalidParameterError` that says why.
    """

    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        for name, value in list(vars(self).items()):
            if name == "delta":
                object.__setattr__(self, name, check_scalar(value, name, ge=0, le=1.0, lt=1.0))
            elif name in LETTERS:
                object.__setattr__(self, name, check_scalar(value, name, ge=0, le=LARGEST))
        self._check()
        relation = check_option(self.neighbours, "neighbours", NEIGHBOURS)
        object.__setattr__(self, "neighbours", relation)

    def __repr__(self) -> str:
        names = [field.name for field in fields(self) if field.repr]
        shown = [f"{name}={getattr(self, name)!r}" for name in names[1:] + names[:1]]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __add__(self, other: Guarantee) -> Guarantee:
        if not isinstance(other, Guarantee):
            return NotImplemented
        return add_up(check_one_relation([self, other]))

    def __radd__(self, other: object) -> Guarantee:
        return self if type(other) is int and other == 0 else NotImplemented

    @final
    def in_words(self) -> str:
        """Return the parameters as they stand in a table, such as ``ε = 1, δ = 1e-06``."""
        numbers = {name: value for name, value in vars(self).items() if isinstance(value, float)}
        parts = [
            f"{letter} = {numbers[name]:.6g}"
            for name, letter in LETTERS.items()
            if name in numbers and (name != "delta" or numbers[name] > 0)
        ]
        return ", ".join(parts) or type(self).__name__

    @final
    def delta_at(self, epsilon: ArrayLike) -> Any:
        """Smallest δ in [0, 1] that the guarantee implies at ε >= 0, in the shape of ``epsilon``.

        It is 0 also where it is below the smallest float.
        """
        found = np.clip(self._delta_at(check_array(epsilon, "epsilon", ge=0)), 0.0, 1.0)
        return found if found.ndim else float(found)

    @final
    def epsilon_at(self, delta: ArrayLike) -> Any:
        """Smallest ε >= 0 that the guarantee implies at δ in [0, 1), the inverse of `delta_at`.

        A δ at which no finite ε holds is refused.
        """
        found = np.maximum(self._epsilon_at(check_array(delta, "delta", ge=0, lt=1)), 0.0)
        return found if found.ndim else float(found)

    def to_approx_dp(
        self, delta: float = 0.0, method: Literal["optimised", "simple"] = "optimised"
    ) -> ApproxDP:
        """(ε, δ)-differential privacy at a δ, which every guarantee implies.

        Parameters
        ----------
        delta : float, default 0
            The δ, within [0, 1). At 0 only what implies ε-DP has a finite ε.
        method : {"optimised", "simple"}, default "optimised"
            The ε of :meth:`epsilon_at`; or, for :class:`ZCDP` only, ε = ρ + 2·√(ρ·ln(1/δ)).

        Returns
        -------
        ApproxDP
            The guarantee (ε, δ); of an :class:`AmplifiedDP` one that remembers the samples.
        """
        at = check_scalar(delta, "delta", ge=0, lt=1)
        if check_option(method, "method", ("optimised", "simple")) == "optimised":
            return self._pair(float(self.epsilon_at(at)), at)
        return self._to(ApproxDP, at)

    def to_pure_dp(self) -> PureDP:
        """ε-differential privacy, which pure guarantees and pairs (ε, δ) with δ = 0 imply.

        Of several mechanisms (``RepeatedDP``) it is that of all together.
        """
        return self._to(PureDP)

    def to_zcdp(self, method: Literal["tight", "simple"] = "tight") -> ZCDP:
        """Zero-concentrated differential privacy, where the guarantee implies it.

        ρ = ε·tanh(ε/2) of ε-DP, the divergence of randomized response at order 1, where it is
        largest per order; ρ = μ²/2 of GDP, which the Gaussian attains. A given ε-DP mechanism
        may do better: ``guarantee_of(mechanism, kind="zcdp")``.

        Parameters
        ----------
        method : {"tight", "simple"}, default "tight"
            The smallest ρ; or, for ε-DP only, ρ = ε²/2 (Bun and Steinke 2016, Proposition 1.4).
        """
        tight = check_option(method, "method", ("tight", "simple")) == "tight"
        return self._to(ZCDP) if tight else self._to(ZCDP, method)

    def to_rdp(self, order: ArrayLike) -> RDP:
        """Rényi differential privacy at the given orders, where the guarantee implies it.

        The bounds are αρ of zCDP and αμ²/2 of GDP; ln(cosh((α - 1/2)ε)/cosh(ε/2))/(α - 1) of ε-DP,
        the divergence of randomized response, never above ε. Between the orders of an RDP they
        follow from (α - 1) times the divergence being convex in α, and below the smallest from
        the divergence not falling with the order.

        Parameters
        ----------
        order : float or array of float
            The orders α, within (1, 1e100]; of :class:`RDP` at most its largest.
        """
        return self._to(RDP, check_array(order, "order", gt=1, le=LARGEST))

    def to_gdp(self) -> GDP:
        """Gaussian differential privacy, where the guarantee implies it.

        Of ε-DP the smallest μ, 2·Φ⁻¹(e^ε/(1 + e^ε)), at which the kink of its trade-off curve lies
        on that of GDP (Dong, Roth and Su 2022, Proposition 3).
        """
        return self._to(GDP)

    @final
    def _to(self, kind: type[Kind], *options: Any) -> Kind:
        """Convert by the table."""
        if type(self) is kind and not options:
            return self
        make: Callable[..., Kind] = kind
        return make(*self._parameters_as(kind, *options), neighbours=self.neighbours)

    @final
    def _parameters_as(self, kind: type[Guarantee], *options: Any) -> tuple[Any, ...]:
        source = PairGuarantee if isinstance(self, PairGuarantee) else type(self)
        rule = _CONVERSIONS.get((source, kind))
        return self._refuse(*_NO_CONVERSION[kind]) if rule is None else rule(self, *options)

    @final
    def group(self, size: int) -> Self:
        """Guarantee of the same kind for groups: data sets that are ``size`` steps apart.

        Parameters
        ----------
        size : int
            The number, from 1 to 10⁹, of records in which the data sets differ. It is refused where
            nothing is left for such a group.
        """
        records = check_integer(size, "size", ge=1, le=MAX_GROUP)
        return self if records == 1 else self._group(records)

    @final
    def to_replace(self) -> Self:
        """Guarantee for replacing a record, from that for adding or removing one.

        It is that for a group of two, as a replacement is a removal and an addition. In the other
        direction nothing follows: adding a record is no replacement.
        """
        if self.neighbours == "replace":
            return self
        return replace(self.group(2), neighbours="replace")

    def _check(self) -> None:  # noqa: B027
        """Check what is more than numbers named in ``LETTERS``."""

    @abstractmethod
    def _delta_at(self, epsilon: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _epsilon_at(self, delta: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _group(self, size: int) -> Self: ...

    def _pair(self, epsilon: float, delta: float) -> ApproxDP:
        return ApproxDP(epsilon, delta, neighbours=self.neighbours)

    def _refuse(self, kind: str, reason: str) -> NoReturn:
        raise InvalidParameterError(f"{self} implies no {kind}: {reason}")


Kind = TypeVar("Kind", bound=Guarantee)


def check_delta_within(delta: FloatArray, own: float, guarantee: Guarantee) -> FloatArray:
    """Return what δ leaves above the probability that everything is told, or refuse it below."""
    if (low := delta < own * (1.0 - ROUNDING)).any():
        raise InvalidParameterError(
            f"delta must be >= {own:g}, got {delta[low][0]}: {guarantee} holds with no finite "
            "epsilon below it"
        )
    return np.asarray(np.maximum(delta - own, 0.0))


@dataclass(frozen=True, repr=False)
class PureDP(Guarantee):
    """ε-differential privacy: no probability changes by more than the factor e^ε.

    Parameters
    ----------
    epsilon : float
        The bound ε on the log ratio of the probabilities of any output, within [0, 1e100].
    neighbours : {"add-remove", "replace"}, default "add-remove"
        Whether neighbouring data sets differ by one record more, or by one that is changed.

    Notes
    -----
    Every ε-DP mechanism is a randomized response of the same ε followed by some computation
    (Kairouz et al.), so that what holds for that one pair of laws holds for all: the conversions
    are the exact values of that pair, and cannot be improved.

    References
    ----------
    Dwork and Roth (2014), The algorithmic foundations of differential privacy,
    doi:10.1561/0400000042, Definition 2.4. Kairouz, Oh and Viswanath (2017),
    doi:10.1109/TIT.2017.2685505.

    Examples
    --------
    >>> guarantee = PureDP(1.0)
    >>> round(guarantee.to_zcdp().rho, 9), guarantee.to_zcdp(method="simple").rho
    (0.462117157, 0.5)
    >>> round(guarantee.epsilon_at(0.1), 6)
    0.852905
    >>> sum([guarantee, PureDP(0.5)]).epsilon
    1.5
    """

    epsilon: float

    def _delta_at(self, epsilon: FloatArray) -> FloatArray:
        return response_delta(epsilon, self.epsilon)

    def _epsilon_at(self, delta: FloatArray) -> FloatArray:
        return response_epsilon(delta, self.epsilon)

    def _group(self, size: int) -> Self:
        return replace(self, epsilon=size * self.epsilon)


class ConcentratedGuarantee(Guarantee):
    """A guarantee with a finite ε at every δ > 0, and with none at δ = 0 unless it is perfect."""

    @property
    @abstractmethod
    def _is_perfect(self) -> bool:
        """Whether nothing at all is told."""

    @abstractmethod
    def _log_delta(self, epsilon: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _epsilon(self, log_delta: FloatArray) -> FloatArray: ...

    def _delta_at(self, epsilon: FloatArray) -> FloatArray:
        if self._is_perfect:
            return np.zeros(epsilon.shape)
        return np.exp(self._log_delta(epsilon))

    def _epsilon_at(self, delta: FloatArray) -> FloatArray:
        if self._is_perfect:
            return np.zeros(delta.shape)
        if (delta == 0).any():
            raise InvalidParameterError(
                f"delta must be > 0, got 0.0: {self} holds with no finite epsilon at delta = 0"
            )
        return self._epsilon(np.log(delta))


@dataclass(frozen=True, repr=False)
class GDP(ConcentratedGuarantee):
    """μ-Gaussian differential privacy: as hard to tell apart as N(0, 1) and N(μ, 1).

    Parameters
    ----------
    mu : float
        The distance μ of the two normal laws, within [0, 1e100].
    neighbours : {"add-remove", "replace"}, default "add-remove"
        Whether neighbouring data sets differ by one record more, or by one that is changed.

    Notes
    -----
    It is the same as (ε, δ(ε))-differential privacy for all ε, with

        δ(ε) = Φ(μ/2 - ε/μ) - e^ε·Φ(-μ/2 - ε/μ),

    so that :meth:`delta_at` and :meth:`epsilon_at` lose nothing. It implies μ²/2-zCDP, and no
    ε-DP unless μ = 0.

    References
    ----------
    Dong, Roth and Su (2022), Gaussian differential privacy, doi:10.1111/rssb.12454, Corollary 1 and
    Theorem 3 (groups).

    Examples
    --------
    >>> guarantee = GDP(1.0)
    >>> round(guarantee.delta_at(1.0), 9), round(guarantee.epsilon_at(1e-6), 9)
    (0.126936738, 4.886554117)
    >>> guarantee.to_zcdp()
    ZCDP(rho=0.5, neighbours='add-remove')
    """

    mu: float

    @property
    def _is_perfect(self) -> bool:
        return self.mu == 0

    def _log_delta(self, epsilon: FloatArray) -> FloatArray:
        return gaussian_log_delta(self.mu, epsilon.ravel()).reshape(epsilon.shape)

    def _epsilon(self, log_delta: FloatArray) -> FloatArray:
        return gaussian_epsilon(self.mu, np.ravel(log_delta)).reshape(np.shape(log_delta))

    def _group(self, size: int) -> Self:
        return replace(self, mu=size * self.mu)


@dataclass(frozen=True, repr=False)
class ZCDP(ConcentratedGuarantee):
    """ρ-zero-concentrated differential privacy: Rényi divergences of at most αρ for all α > 1.

    Parameters
    ----------
    rho : float
        The budget ρ, within [0, 1e100].
    neighbours : {"add-remove", "replace"}, default "add-remove"
        Whether neighbouring data sets differ by one record more, or by one that is changed.

    Notes
    -----
    It implies (ε, δ)-differential privacy for every δ > 0, with the largest ln((π - δ)/α) of a test
    of the level α and the power π that the divergences of all orders allow, both ways round
    (Asoodeh et al.): no smaller ε follows. It is at most

        ε = αρ + ln(1/(αδ))/(α - 1) + ln(1 - 1/α)

    at the best order α (Canonne, Kamath and Steinke), by 3e-8 at ρ = 0.5 and δ = 1e-6, 0.5 % at
    ρ = 0.125 and δ = 0.01, and a third at ρ = 0.01 and δ = 0.05; and that is never above the simple
    one, ε = ρ + 2·√(ρ·ln(1/δ)). For ε above 10⁵, or δ below e⁻⁷⁰⁰, it is the formula. It implies no
    ε-DP unless ρ = 0, and for GDP no formula is known.

    References
    ----------
    Bun and Steinke (2016), Concentrated differential privacy, doi:10.1007/978-3-662-53641-4_24,
    Propositions 1.3 and 1.9 (groups). Canonne, Kamath and Steinke (2022), The discrete Gaussian for
    differential privacy, doi:10.29012/jpc.784, Proposition 12 and Corollary 13. Asoodeh, Liao,
    Calmon, Kosut and Sankar (2021), arXiv:2008.06529, Theorem 2.

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

    @property
    def _is_perfect(self) -> bool:
        return self.rho == 0

    def _log_delta(self, epsilon: FloatArray) -> FloatArray:
        return zcdp_log_delta(epsilon, self.rho)

    def _epsilon(self, log_delta: FloatArray) -> FloatArray:
        return zcdp_epsilon(log_delta, self.rho)

    def _group(self, size: int) -> Self:
        return replace(self, rho=size * size * self.rho)


@dataclass(frozen=True, repr=False, eq=False)
class RDP(Locked, ConcentratedGuarantee):
    """Rényi differential privacy: a bound on the Rényi divergence of each given order.

    Parameters
    ----------
    order : float or array of float, shape (m,)
        The orders α, within (1, 1e100]. They are sorted; of an order that is given twice the
        smaller bound counts.
    bound : float or array of float, shape (m,)
        The bound γ, within [0, 1e200], on the Rényi divergence of each order. As the divergence
        does not fall with the order, a bound at a larger order replaces a larger one before it.
    neighbours : {"add-remove", "replace"}, default "add-remove"
        Whether neighbouring data sets differ by one record more, or by one that is changed.

    Notes
    -----
    It implies (ε, δ)-differential privacy with the largest ln((π - δ)/α) of a test of the level α
    and the power π that divergences within the bounds allow (Asoodeh et al.): no smaller ε
    follows. It is at most γ + ln(1/(αδ))/(α - 1) + ln(1 - 1/α), α the order, which is close where
    orders are large. For ε above 10⁵, or orders above 10⁸, it is that formula. Finitely many orders
    imply neither zCDP, GDP nor ε-DP.

    References
    ----------
    Mironov (2017), Rényi differential privacy, doi:10.1109/CSF.2017.11, Definition 4 and
    Proposition 2 (groups). Asoodeh, Liao, Calmon, Kosut and Sankar (2021), Three variants of
    differential privacy: lossless conversion and applications, arXiv:2008.06529, Theorem 2.

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
        return isinstance(other, RDP) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        return (self.neighbours, np.shape(self.order), *np.concatenate(self.curve).tolist())

    def _check(self) -> None:
        order = check_array(self.order, "order", gt=1, le=LARGEST)
        bound = check_array(self.bound, "bound", ge=0, le=1e200)
        if order.shape != bound.shape or order.ndim > 1:
            raise InvalidParameterError(
                "order and bound must be numbers or one-dimensional arrays of one length, got "
                f"shapes {order.shape} and {bound.shape}"
            )
        if order.ndim:
            places = np.lexsort((bound, order))
            order, first = np.unique(order[places], return_index=True)
            bound = np.minimum.accumulate(bound[places][first][::-1])[::-1]
        for name, value in (("order", order), ("bound", bound)):
            object.__setattr__(self, name, freeze(value) if value.ndim else float(value))

    @property
    def curve(self) -> tuple[FloatArray, FloatArray]:
        """The orders and their bounds as arrays of shape (m,)."""
        return np.atleast_1d(self.order), np.atleast_1d(self.bound)

    @property
    def _is_perfect(self) -> bool:
        return not self.curve[1].all()

    def _log_delta(self, epsilon: FloatArray) -> FloatArray:
        return renyi_log_delta_at(*self.curve, epsilon)

    def _epsilon(self, log_delta: FloatArray) -> FloatArray:
        return renyi_epsilon_at(*self.curve, log_delta)

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
        shape = (-1,) if np.ndim(self.order) else ()
        return replace(self, order=order.reshape(shape), bound=bound.reshape(shape))


class RenyiPart(ABC):
    """What is released with a Rényi divergence that is known at every order, both ways round."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """The largest loss, which is the divergence of order ∞."""

    @abstractmethod
    def divergence(self, order: FloatArray) -> FloatArray:
        """Return the larger of the two divergences at each order, from 1 on, of shape (m,)."""

    @abstractmethod
    def group(self, size: int) -> tuple[RenyiPart, int]:
        """Return what it is for data sets so many steps apart, and how often."""


@dataclass(frozen=True)
class FartherPart(RenyiPart):
    """Data sets 2^c steps apart: 3^c times the bound of 2^c times the order, from order 2 on."""

    part: RenyiPart
    doublings: int

    @property
    def largest(self) -> float:
        """That of as many steps."""
        return 2.0**self.doublings * self.part.largest

    def divergence(self, order: FloatArray) -> FloatArray:
        """Return the bounds, from those of one step."""
        far = np.minimum(2.0**self.doublings * np.maximum(order, 2.0), _LARGEST_CURVE_ORDER)
        bound = 3.0**self.doublings * self.part.divergence(far)
        known = 2.0**self.doublings * order <= _LARGEST_CURVE_ORDER
        return np.where(known, np.minimum(bound, self.largest), self.largest)

    def group(self, size: int) -> tuple[RenyiPart, int]:
        """Return it for groups, from those of one step."""
        return replace(self, doublings=self.doublings + (size - 1).bit_length()), 1


@dataclass(frozen=True)
class GuaranteePart(RenyiPart):
    """What has no other description than a guarantee: ε-DP, GDP or zCDP."""

    guarantee: Guarantee

    @property
    def largest(self) -> float:
        """The largest loss, as the guarantee has it."""
        return self.guarantee.epsilon if isinstance(self.guarantee, PureDP) else np.inf

    def divergence(self, order: FloatArray) -> FloatArray:
        """Return the bounds, as the guarantee has it."""
        # at order 1 the limit, which has no RDP
        return self.guarantee.to_rdp(np.maximum(order, 1.0 + 1e-12)).curve[1]

    def group(self, size: int) -> tuple[RenyiPart, int]:
        """Return it for groups, as the guarantee has it."""
        return GuaranteePart(self.guarantee.group(size)), 1


_LARGEST_CURVE_ORDER = 1e8
_CURVE_ORDERS = 1.0 + np.geomspace(1e-4, 0.99e8, 121)


@dataclass(frozen=True, repr=False)
class RenyiCurve(Guarantee):
    """Rényi differential privacy at every order: the tight curves of mechanisms, and their sums.

    It is made from mechanisms by :func:`~dpinfer.privacy.renyi_curve`. ``+`` adds curves, or a
    :class:`PureDP`, :class:`GDP` or :class:`ZCDP` to one, and ``* k`` repeats one.

    Parameters
    ----------
    parts : tuple of (RenyiPart, int)
        What was released, and how often.
    neighbours : {"add-remove", "replace"}, default "add-remove"
        Whether neighbouring data sets differ by one record more, or by one that is changed.

    Notes
    -----
    It implies (ε, δ)-differential privacy with the largest ln((π - δ)/α) of a test of the level α
    and the power π that the divergences of all orders allow, both ways round (Asoodeh et al.): no
    smaller ε follows from them. The orders that decide are searched among those from 1.0001 to 10⁸;
    each finite set of them gives a bound that holds. The law of the loss itself
    (:func:`~dpinfer.privacy.privacy_loss`) knows more, and gives a smaller ε.

    References
    ----------
    Mironov (2017), Rényi differential privacy, doi:10.1109/CSF.2017.11, Proposition 1 (sums) and
    Proposition 2 (groups). Asoodeh, Liao, Calmon, Kosut and Sankar (2021), arXiv:2008.06529,
    Theorem 2.

    Examples
    --------
    >>> from dpinfer import Laplace
    >>> from dpinfer.privacy import renyi_curve
    >>> curve = renyi_curve(Laplace(scale=1.0))
    >>> curve.divergence([1, 2]).round(6)
    array([0.367879, 0.619124])
    >>> total = 100 * renyi_curve(Laplace(scale=20.0)) + GDP(0.5)
    >>> round(total.epsilon_at(1e-6), 6)
    3.504955
    """

    parts: tuple[tuple[RenyiPart, int], ...]

    def _check(self) -> None:
        for part in check_items(
            self.parts, "parts", "pairs of a part and how often it is released"
        ):
            if not (isinstance(part, tuple) and len(part) == 2 and isinstance(part[0], RenyiPart)):
                raise InvalidParameterError(
                    "parts must hold pairs of a part and how often it is released, which "
                    f"renyi_curve makes from a mechanism, got {show(part)}"
                )
            check_integer(part[1], "compositions", ge=1, le=MAX_GROUP)
        counts: dict[RenyiPart, int] = {}
        for one, count in self.parts:
            counts[one] = counts.get(one, 0) + count
        object.__setattr__(self, "parts", tuple(counts.items()))

    def __mul__(self, count: int) -> RenyiCurve:
        times = check_integer(count, "compositions", ge=1, le=MAX_GROUP)
        return replace(self, parts=tuple((part, times * k) for part, k in self.parts))

    __rmul__ = __mul__

    def divergence(self, order: ArrayLike) -> Any:
        """Bound on the Rényi divergence at orders within [1, 1e8], in the shape of ``order``.

        It is the larger of those of either neighbour from the other; that of order 1 is the
        Kullback-Leibler divergence.
        """
        at = check_array(order, "order", ge=1, le=_LARGEST_CURVE_ORDER)
        found = self._divergence(at.ravel()).reshape(at.shape)
        return found if at.ndim else float(found)

    def _divergence(self, order: FloatArray) -> FloatArray:
        found = np.full(order.shape, _LEAST_BOUND)
        for part, count in self.parts:
            found += count * part.divergence(order)
        return found

    @property
    def _largest(self) -> float:
        return fsum(count * part.largest for part, count in self.parts)

    @cached_property
    def curve(self) -> tuple[FloatArray, FloatArray]:
        """Orders and their bounds, up to what decides where δ is larger than e^-2000."""
        orders, bounds = _CURVE_ORDERS, np.empty(_CURVE_ORDERS.size)
        for first in range(0, orders.size, 4):
            part = slice(first, first + 4)
            bounds[part] = self._divergence(orders[part])
            last = min(first + 4, orders.size)
            if np.isinf(self._largest) and (orders[last - 1] - 1.0) * bounds[last - 1] > 2000.0:
                break
        return orders[:last], bounds[:last]

    def _delta_at(self, epsilon: FloatArray) -> FloatArray:
        inside = epsilon < self._largest
        found = np.zeros(epsilon.shape)
        log_delta = renyi_log_delta_at(*self.curve, epsilon[inside], self._divergence)
        found[inside] = np.exp(log_delta)
        return found

    def _epsilon_at(self, delta: FloatArray) -> FloatArray:
        if (delta == 0).any() and np.isinf(self._largest):
            raise InvalidParameterError(
                "delta must be > 0, got 0.0: the curve has no bound at the order ∞"
            )
        found = np.full(delta.shape, self._largest)
        some = (delta > 0) & (found > 0)
        found[some] = np.minimum(
            found[some],
            renyi_epsilon_at(*self.curve, np.log(delta[some]), self._divergence),
        )
        return found

    def _group(self, size: int) -> Self:
        farther = [(*part.group(size), count) for part, count in self.parts]
        return replace(self, parts=tuple((part, times * k) for part, times, k in farther))


@dataclass(frozen=True, repr=False)
class PairGuarantee(Guarantee):
    """A guarantee of one mechanism, or of several in a row, each of which is (ε, δ)-DP."""

    epsilon: float
    delta: float

    @property
    def _times(self) -> int:
        return 1

    @property
    def _told(self) -> float:
        """The probability with which everything may be told."""
        return self.delta

    def _as_pure(self, kind: str) -> PureDP:
        """Return what each mechanism is without its δ, or refuse to convert to a kind without."""
        if self.delta > 0:
            self._refuse(
                kind,
                f"with probability {self._told:g} it allows any output, which can tell the data "
                "sets apart for certain; start from the mechanism, whose guarantee says more",
            )
        return PureDP(self.epsilon, neighbours=self.neighbours)


@dataclass(frozen=True, repr=False)
class ApproxDP(PairGuarantee):
    """(ε, δ)-differential privacy: ε-differential privacy but for a probability δ.

    Parameters
    ----------
    epsilon : float
        The ε, within [0, 1e100].
    delta : float
        The δ, within [0, 1).
    neighbours : {"add-remove", "replace"}, default "add-remove"
        Whether neighbouring data sets differ by one record more, or by one that is changed.

    Notes
    -----
    P(M(x) in S) ≤ e^ε P(M(x') in S) + δ for all sets S. With δ > 0 a single pair (ε, δ) leaves
    open what happens with probability δ, so that it implies no ε-DP, zCDP, RDP or GDP. The (ε, δ)
    of other ε follow from its worst case: everything is told with probability δ, and else
    randomized response with ε (Kairouz et al.).

    References
    ----------
    Kairouz, Oh and Viswanath (2017), doi:10.1109/TIT.2017.2685505. Vadhan (2017), The complexity of
    differential privacy, doi:10.1007/978-3-319-57048-8_7, Lemma 7.2.2 (groups).

    Examples
    --------
    >>> guarantee = ApproxDP(1.0, 1e-6)
    >>> guarantee.group(2).epsilon, round(guarantee.group(2).delta, 12)
    (2.0, 3.718282e-06)
    >>> round(guarantee.delta_at(0.5), 6)
    0.28765
    """

    @property
    def _samples(self) -> tuple[Any, ...]:
        """Those by whose secrecy it was amplified."""
        return ()

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


# What each kind of guarantee implies: (from, to) -> parameters, by a function of the guarantee.
# To ApproxDP all go by their curves.


def _simple_pair(zcdp: ZCDP, delta: float) -> tuple[float, float]:
    root = np.sqrt(zcdp.rho) * np.sqrt(-np.log(check_scalar(delta, "delta", gt=0)))
    return zcdp.rho + 2.0 * root, delta


def _other_orders(rdp: RDP, order: FloatArray) -> tuple[FloatArray, FloatArray]:
    orders, bounds = rdp.curve
    if (beyond := order > orders[-1]).any():
        rdp._refuse(
            f"bound at order {order[beyond][0]:g}",
            "divergences grow with the order, and it says nothing of larger orders",
        )
    return order, between_orders(order, orders, bounds)


def _of_pair(kind: type[Guarantee], pair: PairGuarantee, *options: Any) -> tuple[Any, ...]:
    """By ε-DP where δ = 0: of k mechanisms k times the parameter that adds up."""
    pure = pair._as_pure(_NO_CONVERSION[kind][0])
    *order, value = pure._parameters_as(kind, *options)
    return (*order, value * float(pair._times) ** (1.0 / _ADDS_UP[kind][1]))


_ADDS_UP: dict[type, tuple[str, int]] = {
    PureDP: ("epsilon", 1),
    GDP: ("mu", 2),
    ZCDP: ("rho", 1),
    RenyiCurve: ("parts", 1),
    RDP: ("bound", 1),
}
"""The parameter whose power adds up over releases: from the strongest kind to the weakest."""

_CONVERSIONS: dict[tuple[type, type], Callable[..., tuple[Any, ...]]] = {
    (PureDP, PureDP): lambda pure: (pure.epsilon,),
    (PureDP, ZCDP): lambda pure, method="tight": (
        pure.epsilon * (np.tanh(0.5 * pure.epsilon) if method == "tight" else 0.5 * pure.epsilon),
    ),
    (PureDP, RDP): lambda pure, order: (order, response_divergence(order, pure.epsilon)),
    # in logarithms
    (PureDP, GDP): lambda pure: (-2.0 * special.ndtri_exp(special.log_expit(-pure.epsilon)) + 0.0,),
    (GDP, ZCDP): lambda gdp: (0.5 * gdp.mu * gdp.mu,),
    (GDP, RDP): lambda gdp, order: (order, order * gdp.to_zcdp().rho),
    (ZCDP, RDP): lambda zcdp, order: (order, order * zcdp.rho),
    (ZCDP, ApproxDP): _simple_pair,
    (RDP, RDP): _other_orders,
    (RenyiCurve, RDP): lambda curve, order: (order, curve.divergence(order)),
    **{
        (PairGuarantee, kind): partial(_of_pair, kind)
        for kind in _ADDS_UP
        if kind is not RenyiCurve
    },
}

_NO_CONVERSION: dict[type, tuple[str, str]] = {
    PureDP: ("ε-DP", "it bounds no ratio of probabilities: use to_approx_dp(delta)"),
    ZCDP: ("zCDP", "it does not bound the Rényi divergences of all orders"),
    RDP: ("RDP", "it does not bound the Rényi divergence of any order"),
    GDP: ("GDP", "no formula for the smallest μ is known: use to_approx_dp(delta)"),
    ApproxDP: ("(ε, δ)-DP by a simple formula", 'use method="optimised"'),
}


def check_one_relation(guarantees: Sequence[Guarantee]) -> Sequence[Guarantee]:
    """Refuse guarantees for different neighbour relations."""
    if len({guarantee.neighbours for guarantee in guarantees}) > 1:
        raise IncompatibleReleaseError(
            "guarantees must have one neighbour relation, got both 'add-remove' and 'replace': "
            "turn the former into the latter with to_replace()"
        )
    return guarantees


def add_up(parts: Sequence[Guarantee], delta: float | None = None) -> Guarantee:
    """Compose guarantees for one neighbour relation: as the weakest of their kinds."""
    pairs: list[ApproxDP] = []
    others: list[Guarantee] = []
    for part in parts:
        if isinstance(part, ApproxDP) and (part.delta > 0 or part._samples):
            pairs.append(part)
        else:
            others.append(part)
    if pairs:
        return _with_pairs(pairs, add_kinds(others) if others else None, delta)
    total = add_kinds(parts) if len(parts) > 1 else parts[0]
    return total if delta is None else total.to_approx_dp(delta)


def _with_pairs(pairs: list[ApproxDP], rest: Guarantee | None, delta: float | None) -> ApproxDP:
    """Add up pairs (ε, δ), and the others at what is left of ``delta``."""
    spent = fsum(pair.delta for pair in pairs)
    epsilon = fsum(pair.epsilon for pair in pairs)
    if isinstance(rest, PureDP):
        epsilon, rest = epsilon + rest.epsilon, None
    if rest is not None:
        if delta is None or delta <= spent:
            raise InvalidParameterError(
                f"delta must be > {spent:g}, what the (ε, δ) guarantees use, to express {rest} "
                f"beside them, got {delta}"
            )
        epsilon, spent = epsilon + rest.epsilon_at(delta - spent), delta
    if spent >= 1:
        raise InvalidParameterError(
            f"guarantees must have deltas that add up to less than 1, got {spent:g}"
        )
    total = ApproxDP(epsilon, spent, neighbours=pairs[0].neighbours)
    if amplified := [pair for pair in pairs if pair._samples]:
        more: Any = {"sources": tuple(source for pair in amplified for source in pair._samples)}
        names = [source.sample for source in more["sources"]]
        if len(amplified) > 1 and (None in names or len(set(names)) < len(names)):
            raise IncompatibleReleaseError(
                "amplified guarantees must be for samples drawn independently, each with its own "
                f"name, got samples {', '.join(map(repr, names))}: what was computed on one sample "
                "is composed first and amplified once, amplify([first, second], rate=...); give "
                'different samples names, amplify(..., sample="wave 2")'
            )
        total = replace(amplified[0], epsilon=epsilon, delta=spent, **more)
    return total if delta is None else total.to_approx_dp(delta)


def _in_a_kind(part: PairGuarantee) -> Guarantee:
    """As one of the four kinds that have a sum."""
    return part.to_pure_dp() if isinstance(part, ApproxDP) else part.to_gdp()


def add_kinds(parts: Sequence[Guarantee], largest: int | None = None) -> Guarantee:
    """Compose guarantees that have no δ of their own: all, or the largest of each."""
    parts = [_in_a_kind(part) if isinstance(part, PairGuarantee) else part for part in parts]
    if others := [part for part in parts if type(part) not in _ADDS_UP]:
        raise InvalidParameterError(
            f"guarantees must have a sum, got {show(others[0])}: turn it into a pair with "
            "to_approx_dp(delta)"
        )
    kind = max({type(part) for part in parts}, key=list(_ADDS_UP).index)
    if kind is RDP:
        return _add_renyi(parts, largest)
    if kind is RenyiCurve:
        curves = [_as_curve(part) for part in parts]
        return replace(curves[0], parts=tuple(pair for curve in curves for pair in curve.parts))
    name, power = _ADDS_UP[kind]
    values = [
        getattr(part, name) if type(part) is kind else float(part._parameters_as(kind)[0])
        for part in parts
    ]
    values = values if largest is None else sorted(values)[-largest:]
    make: Callable[..., Guarantee] = kind
    return make(hypot(*values) if power == 2 else fsum(values), neighbours=parts[0].neighbours)


def _as_curve(part: Guarantee) -> RenyiCurve:
    if isinstance(part, RenyiCurve):
        return part
    return RenyiCurve(((GuaranteePart(part), 1),), neighbours=part.neighbours)


def _add_renyi(parts: Sequence[Guarantee], largest: int | None) -> RDP:
    """Add up bounds at all orders of any curve, up to the smallest of the largest orders."""
    curves = [part for part in parts if isinstance(part, RDP)]
    orders = np.unique(np.concatenate([curve.curve[0] for curve in curves]))
    orders = orders[orders <= min(curve.curve[0][-1] for curve in curves)]
    bounds = np.array([part.to_rdp(orders).bound for part in parts])
    bound = (bounds if largest is None else np.sort(bounds, axis=0)[-largest:]).sum(axis=0)
    shape = () if all(np.ndim(c.order) == 0 for c in curves) and orders.size == 1 else (-1,)
    return RDP(orders.reshape(shape), bound.reshape(shape), neighbours=parts[0].neighbours)
