"""Sums of losses with few values, listed: their values, and masses under a tilt."""

from __future__ import annotations

from math import prod

import numpy as np

from dpinfer._numerics.binomial import binom_pmf, binom_radius
from dpinfer._validation import FloatArray
from dpinfer.privacy.losses._laws.law import LossLaw
from dpinfer.privacy.losses._total import Parts

MOST_ATOMS = 4096
MANY = 1 << 62
DROPPED = 45.0
"""Binomial terms below e^-45 of the largest are dropped: less than 1e-18 of the mass."""

TRIMMED = 1e-22
RESPONSE = 2
"""A law of two values, whose repeated sums are binomial."""


def number_of_atoms(parts: Parts) -> int:
    """How many values a listed sum has, or more than there may be."""
    sizes = []
    for law, count in parts:
        atoms = law.tilted_atoms(0.0)
        if atoms is None:
            return MANY
        size = count * (len(atoms[0]) - 1) + 1
        if len(atoms[0]) == RESPONSE:
            size = min(size, 2 * _radius(0.5 * count, count) + 1)
        elif np.isinf(law.largest):
            size = int(len(atoms[0]) * np.sqrt(count)) + 1
        sizes.append(size)
    return prod(sizes)


def tilted_atoms(
    parts: Parts, theta: float, *, window: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Values l of the sum, and P(l)·e^(θl)/M(θ).

    With ``window``, values which the tilted law all but never has are left out.
    """
    values, mass = np.zeros(1), np.ones(1)
    for law, count in parts:
        at, share = repeated_atoms(law, count, theta, window=window)[:2]
        values = np.add.outer(values, at).ravel()
        mass = np.multiply.outer(mass, share).ravel()
    return values, mass


def repeated_atoms(
    law: LossLaw, count: int, theta: float, *, window: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Values and tilted masses of a sum of ``count`` losses."""
    atoms = law.tilted_atoms(theta)
    assert atoms is not None
    values, mass = atoms
    if len(values) == RESPONSE and window:
        lows, share = binomial_window(count, float(mass[0]), float(mass.sum()))
        return values[-1] * (count - 2.0 * lows), share
    if np.isinf(law.largest):
        mass, before = _trimmed_power(mass, count)
        # the first of the sums that were kept, from the middle of the values of one
        middle = 0.5 * (len(values) - 1)
        step = (values[-1] - values[0]) / (len(values) - 1)
        centre = count * (values[0] + step * middle)
        return centre + step * (before + np.arange(len(mass)) - count * middle), mass
    steps = count * (len(values) - 1)
    # from the middle outwards, so that opposite values are exactly opposite
    at = values[-1] * (2.0 * np.arange(steps + 1.0) - steps) / (len(values) - 1)
    return at, _power(mass, count)


def binomial_window(count: int, low: float, total: float) -> tuple[FloatArray, FloatArray]:
    """How many of ``count`` are low, and how likely, for shares ``low`` and ``total`` - low."""
    p = low / total
    centre = float(np.floor((count + 1.0) * p))
    radius = _radius(min(centre, float(count)), count)
    lows = np.arange(max(centre - radius, 0.0), min(centre + radius, float(count)) + 1.0)
    if p < 1e-300:
        return np.zeros(1), np.array([total**count])
    mass = binom_pmf(lows, np.asarray(float(count)), np.asarray(p))
    return lows, mass * total**count


def _radius(centre: float, count: int) -> int:
    return int(binom_radius(np.asarray(centre), np.asarray(float(count)), DROPPED))


def _power(mass: FloatArray, count: int) -> FloatArray:
    """Convolve by squaring: sums of positive terms, which keep their relative accuracy."""
    result, square = np.ones(1), mass
    while count:
        if count & 1:
            result = np.convolve(result, square)
        count >>= 1
        if count:
            square = np.convolve(square, square)
    return result


def _trimmed_power(mass: FloatArray, count: int) -> tuple[FloatArray, int]:
    """Convolve by squaring, without what is negligible; and how many sums are gone before it."""
    result, first = np.ones(1), 0
    square, square_first = mass, 0
    while count:
        if count & 1:
            result, gone = _trimmed(np.convolve(result, square))
            first += square_first + gone
        count >>= 1
        if count:
            square, gone = _trimmed(np.convolve(square, square))
            square_first = 2 * square_first + gone
    return result, first


def _trimmed(mass: FloatArray) -> tuple[FloatArray, int]:
    kept = np.flatnonzero(mass > TRIMMED * mass.max())
    return mass[kept[0] : kept[-1] + 1], int(kept[0])
