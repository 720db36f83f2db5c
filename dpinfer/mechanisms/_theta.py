"""Sums of exp(-k²/(2σ²)) over whole numbers: the discrete Gaussian's normaliser, tails, moments.

Poisson summation turns the sum over k into one over j with terms exp(-2π²σ²j²). At the σ where the
two forms converge equally fast their terms are exp(-πk²), so that four of them are exact to double
precision; each form is used on its side of that point, where it also has no cancellation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._validation import FloatArray

ComplexArray = NDArray[np.complex128]

CROSSOVER = 1.0 / np.sqrt(2.0 * np.pi)
"""The σ at which exp(-1/(2σ²)) = exp(-2π²σ²)."""

DIRECT_SIGMA = 4.0
"""Up to here a tail has at most 36 terms above exp(-40) of the first and is summed directly."""

_BLOCK = 1 << 9

# Σ_{j>=m} f(j) = ∫_{m-1/2}^∞ f - Σ_i B_{2i}(1/2)/(2i)! f^(2i-1)(m-1/2), DLMF 2.10.1 and 24.4.27
_EVEN = np.arange(2, 26, 2)
_MIDPOINT = (2.0 ** (1.0 - _EVEN) - 1.0) * special.bernoulli(24)[_EVEN] / special.factorial(_EVEN)


def log_normaliser(sigma: FloatArray) -> FloatArray:
    """Log Σ_k exp(-k²/(2σ²)) over all whole numbers."""
    small, large = _sides(sigma)
    direct = np.log1p(2.0 * sum(_small_term(small, k) for k in range(1, 5)))
    dual = np.log(large) + 0.5 * np.log(2.0 * np.pi) + np.log1p(2.0 * _dual_sum(large))
    return np.where(sigma < CROSSOVER, direct, dual)


def variance(sigma: FloatArray) -> FloatArray:
    """Σ k² exp(-k²/(2σ²)) / Σ exp(-k²/(2σ²))."""
    small, large = _sides(sigma)
    terms = {k: _small_term(small, k) for k in range(1, 5)}
    moment = 2.0 * sum(k**2 * term for k, term in terms.items())
    direct = moment / (1.0 + 2.0 * sum(terms.values()))
    weighted = sum(j**2 * _large_term(large, j) for j in range(1, 5))
    shrinkage = 8.0 * np.square(np.pi * large) * weighted / (1.0 + 2.0 * _dual_sum(large))
    return np.where(sigma < CROSSOVER, direct, np.square(large) * (1.0 - shrinkage))


def characteristic(t: FloatArray, sigma: FloatArray) -> FloatArray:
    """Σ cos(kt) exp(-k²/(2σ²)) / Σ exp(-k²/(2σ²)): sums without cancellation on either side."""
    angle = _principal(t)
    small, large = _sides(sigma)
    images = sum(
        np.exp(-0.5 * np.square(large * (angle + 2.0 * np.pi * j))) for j in _images(large)
    )
    dual = np.asarray(images / (1.0 + 2.0 * _dual_sum(large)))
    if (sigma >= CROSSOVER).all():
        return dual
    waves = sum(_small_term(small, k) * np.cos(k * angle) for k in range(1, 5))
    direct = (1.0 + 2.0 * waves) / (1.0 + 2.0 * sum(_small_term(small, k) for k in range(1, 5)))
    return np.where(sigma < CROSSOVER, direct, dual)


def cumulant(s: ComplexArray, sigma: FloatArray) -> ComplexArray:
    """Log Σ exp(ks - k²/(2σ²)) - log Σ exp(-k²/(2σ²)), on some branch of the logarithm."""
    s = s.real + 1j * _principal(s.imag)
    small, large = _sides(sigma)
    images = sum(
        np.exp(2.0 * np.pi * np.square(large) * j * (1j * s - np.pi * j)) for j in _images(large)
    )
    dual = 0.5 * np.square(large * s) + np.log(images) - np.log1p(2.0 * _dual_sum(large))
    if (sigma >= CROSSOVER).all():
        return np.asarray(dual)
    # the largest term is the one next to the mode σ² Re s of the tilted law
    mode = np.rint(np.square(small) * s.real)
    tilt = s - mode / np.square(small)
    direct = (
        mode * (s - 0.5 * mode / np.square(small))
        + np.log(sum(np.exp(k * tilt - 0.5 * np.square(k / small)) for k in range(-4, 5)))
        - np.log1p(2.0 * sum(_small_term(small, k) for k in range(1, 5)))
    )
    return np.where(sigma < CROSSOVER, direct, dual)


def relative_tail(first: FloatArray, sigma: FloatArray) -> FloatArray:
    """Σ_{j>=m} exp((m²-j²)/(2σ²)), a tail relative to its first term at m = ``first`` >= 1."""
    first, sigma = np.broadcast_arrays(first, sigma)
    out = np.empty(first.shape)
    direct = (sigma <= DIRECT_SIGMA) | (first >= np.square(sigma))
    for chosen, method in ((direct, _summed_tail), (~direct, _integrated_tail)):
        if chosen.any():
            out[chosen] = method(first[chosen], sigma[chosen])
    return out


def _summed_tail(first: FloatArray, sigma: FloatArray) -> FloatArray:
    """Add the terms exp(-i·m/σ² - i²/(2σ²)) up, as many as are above exp(-40) for some m and σ."""
    total = np.ones_like(first)
    for start in range(0, first.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        decay = 1.0 / np.square(sigma[block])
        rate = first[block] * decay
        # the i at which i·rate + i²·decay/2 = 40; terms that end at a rate of 700 end at once
        bounded = np.minimum(rate, 700.0)
        enough = np.max(80.0 / (bounded + np.sqrt(np.square(bounded) + 80.0 * decay)))
        i = np.arange(1.0, np.ceil(enough) + 1.0)
        exponent = np.outer(rate, -i)
        exponent -= np.outer(decay, 0.5 * i**2)
        total[block] += np.exp(exponent, out=exponent).sum(axis=1)
    return total


def _integrated_tail(first: FloatArray, sigma: FloatArray) -> FloatArray:
    """Midpoint Euler-Maclaurin sum; the last of its terms is below 1e-17 where m < σ² and σ > 4."""
    z = (first - 0.5) / sigma
    # f^(n) = (-1/σ)^n He_n(z) f, by the recurrence of h_n = He_n(z)/σ^n
    previous, hermite = np.ones_like(z), z / sigma
    total = sigma * np.sqrt(0.5 * np.pi) * special.erfcx(z / np.sqrt(2.0))
    slope, spread = np.max(z / sigma), 1.0 / np.min(sigma)
    for order, coefficient in zip(_EVEN - 1, _MIDPOINT, strict=True):
        # abs(He_n(z)) <= (z + √n)^n, as He_n(z) = E[(z + iX)^n] for a standard normal X
        if abs(coefficient) * (slope + np.sqrt(order) * spread) ** order < 1e-17:
            break
        total += coefficient * hermite
        for n in (order, order + 1):
            previous, hermite = hermite, (z * hermite - n * previous / sigma) / sigma
    return np.asarray(np.exp(0.5 * (first - 0.25) / np.square(sigma)) * total)


def _principal(angle: FloatArray) -> FloatArray:
    """Return the angle modulo 2π in [-π, π], unchanged where it is there already."""
    return np.asarray(angle - 2.0 * np.pi * np.rint(angle / (2.0 * np.pi)))


def _sides(sigma: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return σ moved to either side of the crossover, so that both forms stay finite."""
    return np.minimum(sigma, CROSSOVER), np.maximum(sigma, CROSSOVER)


def _images(sigma: FloatArray) -> range:
    """Which images matter: from σ = 1 on, those beyond the next are below 1e-17 of the largest."""
    return range(-1, 2) if (sigma >= 1.0).all() else range(-4, 5)


def _small_term(sigma: FloatArray, k: int) -> FloatArray:
    return np.exp(-0.5 * np.square(k / sigma))


def _large_term(sigma: FloatArray, j: int) -> FloatArray:
    return np.exp(-2.0 * np.square(np.pi * j * sigma))


def _dual_sum(sigma: FloatArray) -> FloatArray:
    return np.asarray(sum(_large_term(sigma, j) for j in range(1, 5)))
