"""The binomial probability function to full precision, and the window that holds its mass.

``exp(gammaln(...))`` loses a digit with every power of ten of n. The saddle-point form of
Loader, *Fast and accurate computation of binomial probabilities* (2000), does not; here it starts
from k - np carried in twice the working precision, so that rounding np costs nothing either.
"""

from __future__ import annotations

import numpy as np

from dpinfer._validation import FloatArray

LOG_NEGLIGIBLE = 40.0
"""Terms below e^-40 of the largest are left out: at most 2e-17 of a log-concave sum."""

_SERIES_FROM = 16
_STIRLING_COEFFICIENTS = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
# ln(k!) - (k + 1/2) ln(k) + k - ln(2π)/2 for k = 0, …, 15; unused at 0
_STIRLING_TABLE = np.array(
    [
        0.0,
        0.081061466795327258,
        0.041340695955409294,
        0.027677925684998338,
        0.020790672103765093,
        0.016644691189821193,
        0.013876128823070748,
        0.011896709945891770,
        0.010411265261972096,
        0.009255462182712733,
        0.008330563433362871,
        0.007573675487951841,
        0.006942840107209530,
        0.006408994188004207,
        0.005951370112758848,
        0.005554733551962801,
    ]
)
_ATANH_SERIES_BELOW = 0.25
_ABOVE_MINUS_ONE = np.nextafter(-1.0, 0.0)


def binom_pmf(
    k: FloatArray,
    n: FloatArray,
    p: FloatArray,
    log_lift: float = 0.0,
    *,
    excess: FloatArray | None = None,
) -> FloatArray:
    """P(X = k) for X ~ Binomial(n, p), 0 < p < 1 and whole numbers 0 <= k <= n that broadcast.

    Times e^log_lift, which keeps small ones in the range of floats. ``excess`` is k - np where it
    is known better than from a rounded p.
    """
    q = 1.0 - p
    trials = np.maximum(n, 1.0)  # without trials k is 0, which is dealt with at the end
    mean, mean_error = _exact_product(trials, p)
    inner = np.maximum(np.minimum(k, trials - 1.0), 1.0)
    rest = np.maximum(trials - inner, 1.0)
    if excess is None:
        excess = (inner - mean) - mean_error
    log_ratio = (
        stirling_error(trials)
        - stirling_error(inner)
        - stirling_error(rest)
        - mean * deviance(excess / mean)
        - trials * q * deviance(-excess / (trials * q))
    )
    pmf = np.exp(log_ratio + log_lift) * np.sqrt(trials / (2.0 * np.pi * inner * rest))
    pmf = np.where(k == 0, np.exp(n * np.log1p(-p) + log_lift), pmf)
    return np.where(k == n, np.exp(n * np.log(p) + log_lift), pmf)


def binom_radius(centre: FloatArray, n: FloatArray, log_ratio: float) -> FloatArray:
    """Distance from its mode beyond which a binomial pmf is below e^-log_ratio of its peak.

    The variance gets one more unit because the mode, a whole number, stands for the mean.
    """
    return bernstein_radius(centre * (n - centre) / np.maximum(n, 1.0) + 1.0, log_ratio)


def bernstein_radius(variance: FloatArray, log_ratio: float) -> FloatArray:
    """Distance d at which Bernstein's bound d²/(2(σ² + d/3)) on the deviance is ``log_ratio``."""
    third = log_ratio / 3.0
    return np.ceil(third + np.sqrt(third**2 + 2.0 * log_ratio * variance)) + 1.0


def _exact_product(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the rounded product and its rounding error (Dekker 1971)."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


def _split(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Two numbers of at most 26 bits that add up to ``x`` (Veltkamp)."""
    scaled = 134217729.0 * x  # 2^27 + 1
    high = scaled - (scaled - x)
    return high, x - high


def stirling_error(k: FloatArray) -> FloatArray:
    """Return ln(k!) minus Stirling's formula, for whole numbers k >= 1."""
    inverse = 1.0 / np.maximum(k, _SERIES_FROM)
    square = np.square(inverse)
    series = np.full_like(inverse, _STIRLING_COEFFICIENTS[-1])
    for coefficient in _STIRLING_COEFFICIENTS[-2::-1]:
        series = series * square + coefficient
    small = k < _SERIES_FROM
    if not small.any():
        return np.asarray(series * inverse)
    place = np.where(small, k, 0.0).astype(np.intp)
    return np.where(small, _STIRLING_TABLE[place], series * inverse)


def deviance(u: FloatArray) -> FloatArray:
    """(1 + u)·ln(1 + u) - u for u > -1, without cancellation near 0."""
    v = u / (2.0 + u)
    square = np.square(v)
    far = square > _ATANH_SERIES_BELOW**2
    largest = min(float(square.max(initial=0.0)), _ATANH_SERIES_BELOW**2)
    # terms until square^j < 1e-17
    terms = 1 + int(np.log(1e-17) / np.log(max(largest, 1e-17)))
    series = np.full_like(v, 1.0 / (2 * terms + 3))
    for j in reversed(range(terms)):
        series = series * square + 1.0 / (2 * j + 3)
    out = np.asarray(u * v + 2.0 * (1.0 + u) * v * square * series)
    if far.any():
        w = np.maximum(u, _ABOVE_MINUS_ONE)
        out = np.where(far, (1.0 + w) * np.log1p(w) - w, out)
    return out
