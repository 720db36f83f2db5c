"""What all guarantees share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NoReturn, Self, final

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._validation import (
    NEIGHBOURS,
    FloatArray,
    Neighbours,
    check_array,
    check_integer,
    check_option,
    check_scalar,
)
from dpinfer.errors import InvalidParameterError

if TYPE_CHECKING:
    from dpinfer.privacy.guarantees.approximate import ApproxDP
    from dpinfer.privacy.guarantees.gaussian import GDP
    from dpinfer.privacy.guarantees.pure import PureDP
    from dpinfer.privacy.guarantees.renyi import RDP
    from dpinfer.privacy.guarantees.zcdp import ZCDP

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
        from dpinfer.privacy.guarantees.approximate import ApproxDP

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
