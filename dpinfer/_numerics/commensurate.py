"""Detection of a common spacing of real weights."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpinfer._validation import FloatArray


def common_spacing(
    weights: FloatArray, *, smallest: float, rtol: float = 1e-12
) -> tuple[float, FloatArray] | None:
    """Largest h >= ``smallest`` with every weight a whole multiple of h, to ``rtol`` relative.

    Returns h and the multiples, or None where there is no such spacing.
    """
    spacing = float(np.min(weights))
    if spacing < smallest:
        return None
    while True:  # each turn halves the spacing at least
        ratios = weights / spacing
        multiples = np.rint(ratios)
        off = np.flatnonzero(np.abs(ratios - multiples) > rtol * ratios)
        if not off.size:
            # the largest weight fixes the spacing best
            largest = int(np.argmax(weights))
            return float(weights[largest] / multiples[largest]), multiples
        denominator = _denominator(float(ratios[off[0]]), spacing / smallest, rtol)
        if denominator is None:
            return None
        spacing /= denominator


def _denominator(ratio: float, largest: float, rtol: float) -> int | None:
    """Denominator of the fraction within ``rtol`` of the ratio, if at most ``largest``."""
    if largest < 2:
        return None
    fraction = Fraction(ratio).limit_denominator(int(largest))
    close = abs(float(fraction) - ratio) <= rtol * ratio
    return fraction.denominator if close and fraction.denominator > 1 else None
