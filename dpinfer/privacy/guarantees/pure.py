"""Pure differential privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpinfer._validation import FloatArray, check_array, check_option
from dpinfer.privacy.guarantees._guarantee import Guarantee
from dpinfer.privacy.guarantees._randomized_response import (
    response_delta,
    response_divergence,
    response_epsilon,
)
from dpinfer.privacy.guarantees.gaussian import GDP
from dpinfer.privacy.guarantees.renyi import RDP
from dpinfer.privacy.guarantees.zcdp import ZCDP

if TYPE_CHECKING:
    from dpinfer.privacy.guarantees.approximate import ApproxDP


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
