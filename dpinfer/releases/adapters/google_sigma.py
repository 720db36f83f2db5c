"""The standard deviation of Gaussian noise in Google's libraries, as they find it."""

from __future__ import annotations

from math import exp

from scipy.special import ndtr

ACCURACY = 1e-3
"""Relative width at which Google's libraries end their bisection."""

LARGEST_EXPONENT = 700.0


def google_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the σ that ``GaussianMechanism(epsilon, delta, sensitivity)`` of PyDP has.

    It is the upper end of a bisection for the analytic Gaussian mechanism (Balle and Wang 2018,
    arXiv:1805.06530, Theorem 8) that ends at a relative width of 0.001: larger than the σ that is
    just enough, and published noise has this larger one.
    """
    low, high = 0.0, sensitivity
    while _delta(high, epsilon, sensitivity) > delta:
        low, high = high, 2.0 * high
    while high - low > ACCURACY * low:
        middle = 0.5 * low + 0.5 * high
        if _delta(middle, epsilon, sensitivity) > delta:
            low = middle
        else:
            high = middle
    return high


def _delta(sigma: float, epsilon: float, sensitivity: float) -> float:
    a, b = 0.5 * sensitivity / sigma, epsilon * sigma / sensitivity
    below = float(ndtr(a - b))
    if epsilon > LARGEST_EXPONENT:
        return below
    return below - exp(epsilon) * float(ndtr(-a - b))
