"""Zero-concentrated differential privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._validation import FloatArray, check_array, check_option, check_scalar
from dpinfer.privacy.guarantees._guarantee import Guarantee, refuse_zero_delta
from dpinfer.privacy.guarantees._zcdp_curve import log_variation, zcdp_epsilon, zcdp_log_delta
from dpinfer.privacy.guarantees.renyi import RDP

if TYPE_CHECKING:
    from dpinfer.privacy.guarantees.approximate import ApproxDP


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
    powers of :class:`~dpinfer.privacy.semantics.TradeOff` allows 3e-8 of ε less at ρ = 0.5 and
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
