"""Moments of a density that falls geometrically from unit interval to unit interval, to an end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._validation import FloatArray

ComplexArray = NDArray[np.complex128]

NEGLIGIBLE = 1e-150
"""Arguments at which a limit is exact, and beyond which complex division may underflow."""


def truncated_variance(rate: FloatArray, bound: FloatArray) -> FloatArray:
    """Variance on (-c, c) as a ratio of sums of positive terms, in units of the central density."""
    last, start, width = _last_interval(bound)
    centre = np.minimum(bound, 0.5)
    mass, square = _geometric_moments(rate, last - 1.0)
    edge = np.exp(-last * rate) * width
    numerator = centre**3 / 3.0 + square + mass / 12.0
    numerator += edge * (start**2 + start * width + width**2 / 3.0)
    return np.asarray(numerator / (centre + mass + edge))


def rounded_variance(rate: FloatArray, bound: FloatArray) -> FloatArray:
    """Return the variance of the same after rounding to whole numbers."""
    last, _, width = _last_interval(bound)
    mass, square = _geometric_moments(rate, last - 1.0)
    edge = np.exp(-last * rate) * width
    return np.asarray((square + edge * last**2) / (np.minimum(bound, 0.5) + mass + edge))


def _last_interval(bound: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Middle k, start and width of the interval that ends at c; it is empty where c <= 1/2."""
    last = np.maximum(np.rint(bound), 1.0)
    return last, last - 0.5, np.maximum(bound - last + 0.5, 0.0)


def _geometric_moments(rate: FloatArray, count: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Σ b^j and Σ j²·b^j over j = 1..n, b = exp(-rate), without cancellation.

    A sum over 1..2m is the one over 1..m plus b^m times a shifted copy of it; the binary digits of
    n, from the highest, say when to append one more term.
    """
    rate, count = np.broadcast_arrays(rate, count)
    n, zeroth, first, second = (np.zeros(count.shape) for _ in range(4))
    digits = int(np.frexp(np.max(count, initial=1.0))[1])
    for digit in reversed(range(digits)):
        shift = np.exp(-n * rate)
        second = second + shift * (second + 2.0 * n * first + n**2 * zeroth)
        first = first + shift * (first + n * zeroth)
        zeroth = zeroth + shift * zeroth
        n = 2.0 * n
        odd = np.floor(count / 2.0**digit) % 2.0
        n = n + odd
        term = odd * np.exp(-n * rate)
        zeroth, first, second = zeroth + term, first + n * term, second + n**2 * term
    return zeroth, second


def truncated_log_mgf(
    s: ComplexArray, rate: FloatArray, bound: FloatArray, *, whole: bool = False
) -> ComplexArray:
    """Log of the integral of exp(sx)·b^abs(k(x)) over (-c, c), k(x) the nearest whole number.

    With ``whole``, that of exp(sk(x))·b^abs(k(x)). Evaluated as the log of a sum of exponentials,
    which neither overflows nor underflows.
    """
    last, start, width = _last_interval(bound)
    centre = np.minimum(bound, 0.5)
    middle = last if whole else start + 0.5 * width
    spread = np.zeros_like(s) if whole else s
    with np.errstate(divide="ignore"):
        interval = log_sinhc(0.5 * spread)
        edge = np.log(width) + log_sinhc(0.5 * width * spread) - last * rate
    terms = np.stack(
        np.broadcast_arrays(
            np.log(2.0 * centre) + log_sinhc(centre * spread),
            interval + _log_geometric_sum(s - rate, last - 1.0),
            interval + _log_geometric_sum(-s - rate, last - 1.0),
            edge + middle * s,
            edge - middle * s,
        )
    )
    peak = terms.real.max(axis=0)
    with np.errstate(divide="ignore"):
        return np.asarray(peak + np.log(np.exp(terms - peak).sum(axis=0)))


def _log_geometric_sum(w: ComplexArray, count: FloatArray) -> ComplexArray:
    """Log Σ exp(wj) over j = 1..n; -inf for n = 0."""
    w, count = np.broadcast_arrays(w, count)
    # from the larger end downwards, so that the ratio stays bounded
    fall = np.where(w.real > 0, -w, w)
    flat = np.abs(fall) < NEGLIGIBLE
    safe = np.where(flat, -1.0, fall)
    ratio = np.where(flat, count, special.expm1(count * safe) / special.expm1(safe))
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(w.real > 0, count * w, w) + np.log(ratio))


def log_sinhc(z: ComplexArray) -> ComplexArray:
    """Log(sinh(z)/z), an even function."""
    z = np.where(z.real < 0, -z, z)
    flat = np.abs(z) < NEGLIGIBLE
    safe = np.where(flat, 1.0, z)
    # sinh(z)/z = exp(z)·(1 - exp(-2z))/(2z)
    with np.errstate(divide="ignore"):
        value = z + np.log(-special.expm1(-2.0 * safe) / (2.0 * safe))
    return np.asarray(np.where(flat, 0.0, value))
