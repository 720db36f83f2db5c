"""Guarantees that are given by a pair (ε, δ): of other kinds they imply one where δ = 0."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from dpinfer.privacy.guarantees._guarantee import Guarantee
from dpinfer.privacy.guarantees.gaussian import GDP
from dpinfer.privacy.guarantees.pure import PureDP
from dpinfer.privacy.guarantees.renyi import RDP
from dpinfer.privacy.guarantees.zcdp import ZCDP


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
