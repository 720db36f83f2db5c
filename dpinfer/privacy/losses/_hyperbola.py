"""Tails of Laplace losses, alone or beside laws of few values, along a hyperbola.

With w = z + 1/2 the transform of a Laplace loss is a sum of two exponentials,

    M(z) = (e^(zt)·(z+1)/w + e^(-(z+1)t)·z/w)/2,

so that the transform of a sum of k of them has k + 1, with rational factors whose only poles are at
-1/2, 0 and -1. Those with an exponent below ε add nothing to the tail. For the others the line
bends to the left, where e^(z(s-ε)) decays; all are positive at the tilt θ, so nothing cancels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import special

from dpinfer._validation import FloatArray
from dpinfer.privacy.losses._atoms import binomial_window, tilted_atoms
from dpinfer.privacy.losses._laws.laplace import LaplaceLoss
from dpinfer.privacy.losses._laws.law import ComplexArray
from dpinfer.privacy.losses._line import ROUNDING, Tails
from dpinfer.privacy.losses._payoffs import continuous_payoffs
from dpinfer.privacy.losses._total import Parts, Total

ANGLE = 0.625 * np.pi
"""Angle of the asymptotes with the real axis: half way between π/2 and 3π/4."""

STRIP = 0.1 * np.pi
"""Half the width of the strip of angles on whose edges the integrand is bounded."""

STEP = 2.0 * np.pi * STRIP / 40.0
"""Step of the trapezoid rule, whose error is e^-40 of the integral along the edges."""

AWAY = 48.0
"""A tilt of √(k/48) keeps e^(k/(8θ²)) at e^6."""

MOST_LOST = 6.0
"""A tilt away from the saddle point may cost a factor of e^6."""

DECAYED = 45.0
"""The path ends where e^(zx) is below e^-45, for the smallest x."""

MOST_HEIGHT = 35.0
NEGLIGIBLE = 1e-19
LARGEST_EXPONENT = 650.0
"""Exponents on the edges of the strip are cut there: the error bound is infinite for all that."""


@dataclass(frozen=True)
class _Terms:
    """Distances x = s - ε > 0, shares at the tilt, and numbers of factors z/w and (z+1)/w."""

    x: FloatArray
    share: FloatArray
    low: FloatArray
    high: FloatArray


def hyperbola(
    total: Total,
    laplace: tuple[tuple[LaplaceLoss, int], ...],
    listed: Parts,
    epsilon: float,
    theta: float,
    inclusive: bool,
) -> Tails:
    """Tails of the Laplace losses and the ``listed`` laws together."""
    theta = _away(total, sum(count for _, count in laplace), epsilon, theta)
    terms, dropped, atom = _terms(laplace, listed, epsilon, theta)
    scale = float(np.exp(total.real_cgf(theta) - theta * epsilon))
    ends = np.array([0.0, atom, atom]) if inclusive else np.zeros(3)
    if not terms.x.size:
        return Tails(scale * ends, scale * (dropped + 1e-14 * ends))
    # not so wide that the integrand grows by much between the axis and the edges of the strip
    spread = (total.slope(theta * 1.001) - total.slope(theta)) / (0.001 * theta)
    spread += 1.0 / theta**2 + 1.0 / (theta + 1.0) ** 2
    axis = min(2.0 * theta, 6.0 / np.sqrt(max(spread, 1e-300)))
    last = DECAYED / (abs(np.cos(ANGLE)) * axis * float(terms.x.min()))
    height = min(np.arccosh(1.0 + last), MOST_HEIGHT)
    values, sizes = _integral(terms, theta, axis, ANGLE, STEP, height)
    edges = sum(
        _integral(terms, theta, axis, ANGLE + side * STRIP, 8.0 * STEP, height)[1]
        for side in (-1.0, 1.0)
    )
    # what is left beyond the height falls like the payoff there
    far = theta + axis * np.exp(height)
    left = np.array([1.0 / far, 1e-16, 1e-16])
    at = np.array([complex(theta)])
    trust = 50.0 + 4.0 * float(total.noise(at)[0]) + 4.0 * theta * epsilon
    errors = (
        ROUNDING * trust * sizes
        + np.exp(-40.0) * edges
        + dropped * np.array([1.0 / (1.0 + theta), 1.0, 1.0])
        + left * 1e-16
    )
    return Tails(scale * (values + ends), scale * (errors + 1e-14 * ends))


def _away(total: Total, count: int, epsilon: float, theta: float) -> float:
    """Tilt not so near the poles that single terms grow by e^(k/(8θ²)) before they decay."""
    least = total.real_cgf(theta) - theta * epsilon
    away = max(theta, float(np.sqrt(count / AWAY)))
    while away > theta and total.real_cgf(away) - away * epsilon - least > MOST_LOST:
        away = max(0.8 * away, theta)
    return away


def _terms(
    laplace: Iterable[tuple[LaplaceLoss, int]], listed: Parts, epsilon: float, theta: float
) -> tuple[_Terms, float, float]:
    """Terms above ε, the shares of the dropped ones, and the mass of an atom at ε."""
    at, share = tilted_atoms(listed, theta)
    low, high = np.zeros(at.size), np.zeros(at.size)
    w = theta + 0.5
    for law, count in laplace:
        flip = theta * np.exp(-2.0 * w * law.shift)
        number, mass = binomial_window(count, flip / (theta + 1.0 + flip), 1.0)
        at = np.add.outer(at, law.shift * (count - 2.0 * number)).ravel()
        share = np.multiply.outer(share, mass).ravel()
        low = np.add.outer(low, number).ravel()
        high = np.add.outer(high, count - number).ravel()
        kept = share > NEGLIGIBLE
        at, share, low, high = at[kept], share[kept], low[kept], high[kept]
    x = at - epsilon
    same = np.abs(x) <= 4e-16 * (np.abs(at) + abs(epsilon))
    # the atom is what the rational factors leave of the share far out
    log_atom = np.log(w / theta) * low[same] + np.log(w / (theta + 1.0)) * high[same]
    atom = float(np.sum(share[same] * np.exp(log_atom)))
    above = (x > 0) & ~same
    terms = _Terms(x[above], share[above], low[above], high[above])
    return terms, NEGLIGIBLE * max(share.size, 100), atom


def _integral(
    terms: _Terms, theta: float, axis: float, angle: float, step: float, height: float
) -> tuple[FloatArray, FloatArray]:
    """Integral along one hyperbola, and that of the absolute values."""
    u = step * np.arange(int(np.ceil(height / step)) + 1.0)
    centre = theta - axis * np.cos(ANGLE)
    z = centre + axis * np.cos(angle + 1j * u)
    speed = axis * np.sin(angle + 1j * u)  # -dz/du/i, upwards
    factors = _rational(z, theta, terms)
    exponent = np.multiply.outer(z - theta, terms.x)
    exponent += factors
    np.minimum(exponent.real, LARGEST_EXPONENT, out=exponent.real)
    along = np.exp(exponent) @ terms.share
    values = along * speed * continuous_payoffs(z)
    values[:, 0] *= 0.5
    size = np.exp(exponent.real) @ terms.share * np.abs(speed * continuous_payoffs(z))
    return values.real.sum(axis=1) * step / np.pi, size.sum(axis=1) * step / np.pi


def _rational(z: ComplexArray, theta: float, terms: _Terms) -> ComplexArray:
    """Ln of the rational factors at z over those at θ, shape (nodes, terms)."""
    w = theta + 0.5
    low = special.log1p(-0.5 / (z + 0.5)) - np.log1p(-0.5 / w)
    high = special.log1p(0.5 / (z + 0.5)) - np.log1p(0.5 / w)
    return np.asarray(np.multiply.outer(low, terms.low) + np.multiply.outer(high, terms.high))
