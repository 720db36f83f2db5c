"""Optimal composition of equal mechanisms, with the exact curve of its worst case."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from dpinfer._validation import FloatArray, check_integer
from dpinfer.privacy.composition._checks import check_pairs
from dpinfer.privacy.composition._response_losses import losses_delta, losses_epsilon
from dpinfer.privacy.guarantees import ApproxDP, PureDP
from dpinfer.privacy.guarantees._guarantee import check_delta_within
from dpinfer.privacy.guarantees._pairs import PairGuarantee

MAX_COUNT = 10**9


@dataclass(frozen=True, repr=False)
class RepeatedDP(PairGuarantee):
    """All the (ε', δ') of k mechanisms, each (ε, δ)-DP, that are run one after the other.

    Parameters
    ----------
    epsilon : float
        The ε >= 0 of each mechanism.
    delta : float
        The δ of each mechanism, within [0, 1).
    count : int
        The number k >= 1 of mechanisms.
    neighbours : {"add-remove", "replace"}, default "add-remove"
        Whether neighbouring data sets differ by one record more, or by one that is changed.

    Raises
    ------
    InvalidParameterError
        If a parameter is out of range.

    Notes
    -----
    The worst case is k times randomized response with ε, each of which tells everything with
    probability δ. With J truthful answers its privacy loss is (2J - k)ε, J binomial, so that

        δ' = 1 - (1-δ)ᵏ·(1 - Σ P(J = j)·max(1 - exp(ε' - (2j-k)ε), 0)).

    No smaller δ' holds for all such mechanisms; a given mechanism may do better. The sum has
    positive terms only, and is accurate relative to itself. Between two values of the loss
    exp(ε') is linear in δ', so that :meth:`epsilon_at` is exact as well.

    References
    ----------
    Kairouz, P., Oh, S. and Viswanath, P. (2017). The composition theorem for differential privacy.
    IEEE Transactions on Information Theory 63(6), 4037-4049. doi:10.1109/TIT.2017.2685505,
    Theorem 3.3.

    Examples
    --------
    >>> total = RepeatedDP(0.1, 0.0, 100)
    >>> round(total.epsilon_at(1e-6), 6), round(total.delta_at(10.0), 12)
    (4.774568, 0.0)
    """

    count: int

    def _check(self) -> None:
        super()._check()
        object.__setattr__(self, "count", check_integer(self.count, "count", ge=1, le=MAX_COUNT))

    @property
    def _times(self) -> int:
        return self.count

    @property
    def _told(self) -> float:
        """Probability 1 - (1-δ)ᵏ that some mechanism tells everything."""
        return float(-np.expm1(self.count * np.log1p(-self.delta)))

    def _delta_at(self, epsilon: FloatArray) -> FloatArray:
        inner = losses_delta(epsilon.ravel(), self.epsilon, self.count).reshape(epsilon.shape)
        return self._told + (1.0 - self._told) * inner

    def _epsilon_at(self, delta: FloatArray) -> FloatArray:
        left = check_delta_within(delta, self._told, self)
        # (δ' - s)/(1 - s) with s = 1 - (1-δ)ᵏ
        inner = left * np.exp(-self.count * np.log1p(-self.delta))
        return losses_epsilon(inner.ravel(), self.epsilon, self.count).reshape(delta.shape)

    def _group(self, size: int) -> Self:
        single = ApproxDP(self.epsilon, self.delta).group(size)
        return replace(self, epsilon=single.epsilon, delta=single.delta)


def compose_optimal(guarantee: PureDP | ApproxDP, count: int) -> RepeatedDP:
    """Optimal composition of k mechanisms with one and the same (ε, δ).

    Parameters
    ----------
    guarantee : PureDP or ApproxDP
        The guarantee of each mechanism. The mechanisms may differ, and be chosen adaptively.
    count : int
        The number k >= 1 of mechanisms.

    Returns
    -------
    RepeatedDP
        The curve of all (ε', δ') that follow; ``.to_approx_dp(delta)`` is one of them.

    Raises
    ------
    InvalidParameterError
        If ``count`` is not a whole number from 1 to 10⁹, or the guarantee has no single (ε, δ).
    IncompatibleReleaseError
        If the guarantee is amplified.

    See Also
    --------
    compose : the sum of guarantees of any kind.
    compose_advanced : a bound for pairs (ε, δ) that differ.

    Examples
    --------
    >>> from dpinfer.privacy.guarantees import PureDP
    >>> round(compose_optimal(PureDP(0.1), 100).epsilon_at(1e-6), 6)
    4.774568
    """
    (epsilon,), (delta,), relation = check_pairs([guarantee])
    return RepeatedDP(epsilon, delta, count, neighbours=relation)
