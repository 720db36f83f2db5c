"""The worst pair of ε-DP: randomized response with odds e^ε, against the same with its odds turned.

Every ε-DP mechanism is a computation on its output (Kairouz, Oh and Viswanath 2017,
doi:10.1109/TIT.2017.2685505), so that its divergences bound theirs.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from dpinfer._validation import FloatArray


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
