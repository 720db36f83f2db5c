"""Approximate differential privacy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.privacy.guarantees._guarantee import check_delta_within
from dpinfer.privacy.guarantees._pairs import PairGuarantee
from dpinfer.privacy.guarantees._randomized_response import response_delta, response_epsilon


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
