"""The (ε, δ) that zero-concentrated and Rényi differential privacy imply.

For every order α, RDP with bound γ implies δ = exp((α-1)(γ-ε))/(α-1)·(1-1/α)^α (Canonne, Kamath
and Steinke 2022, doi:10.29012/jpc.784, Proposition 12), and zCDP has γ = αρ for all of them. With
b = α - 1 the best order at ε has ε = (2b+1)ρ - ln(1+1/b), and then ln δ = -b²ρ - ln(1+b).
"""

from __future__ import annotations

import numpy as np

from dpinfer._validation import FloatArray

SMALLEST = 1e-300
"""Orders closer to 1 than this, or beyond its reciprocal, decide nothing."""

_MOST_STEPS = 100
_BISECTIONS = 50


def log_variation(bound: float) -> float:
    """Ln of a bound on δ at ε = 0, the distance in total variation, from a divergence.

    The smaller of those of Pinsker, √(γ/2), and of Bretagnolle and Huber, √(1 - e^-γ): a Rényi
    divergence of order above 1 is at least that of Kullback and Leibler, for which they hold.
    """
    with np.errstate(divide="ignore"):
        return float(0.5 * np.log(min(0.5 * bound, -np.expm1(-bound))))


def renyi_log_delta(above: FloatArray, bound: FloatArray, epsilon: FloatArray) -> FloatArray:
    """Ln δ at ε from the bound at order 1 + ``above``."""
    with np.errstate(over="ignore"):
        loss = above * (bound - epsilon)
    return loss - above * np.log1p(1.0 / above) - np.log1p(above)


def renyi_epsilon(above: FloatArray, bound: FloatArray, log_delta: FloatArray) -> FloatArray:
    """ε at δ from the bound at order 1 + ``above``."""
    return bound - (log_delta + np.log1p(above)) / above - np.log1p(1.0 / above)


def zcdp_epsilon(log_delta: FloatArray, rho: float) -> FloatArray:
    """ε at δ in (0, 1) from ρ > 0, by the best order."""
    target = -log_delta
    # of b²ρ + ln(1+b) = ln(1/δ) in ln b, which is convex and increases: Newton from the right
    log_above = np.minimum(
        0.5 * (np.log(target) - np.log(rho)), target + np.log(-np.expm1(-target))
    )
    for _ in range(_MOST_STEPS):
        above = np.exp(log_above)
        square = above * (above * rho)
        value = square + np.log1p(above) - target
        step = value / (2.0 * square + above / (1.0 + above))
        log_above = log_above - step
        if (np.abs(step) < 1e-12).all():
            break
    above = np.exp(log_above)
    # every order is a valid bound, and close to the best one ε no longer depends on it
    return renyi_epsilon(above, (1.0 + above) * rho, log_delta)


def zcdp_log_delta(epsilon: FloatArray, rho: float) -> FloatArray:
    """Ln δ at ε from ρ > 0, by the best order."""
    lower = np.full(epsilon.shape, np.log(SMALLEST))
    with np.errstate(divide="ignore"):
        upper = np.maximum(np.log(epsilon) - np.log(rho), -0.5 * np.log(rho))
    upper = np.minimum(upper, -np.log(SMALLEST))
    for _ in range(_BISECTIONS):
        log_above = 0.5 * (lower + upper)
        above = np.exp(log_above)
        short = (2.0 * above + 1.0) * rho - np.log1p(1.0 / above) < epsilon
        lower, upper = np.where(short, log_above, lower), np.where(short, upper, log_above)
    above = np.exp(log_above)
    return renyi_log_delta(above, (1.0 + above) * rho, epsilon)
