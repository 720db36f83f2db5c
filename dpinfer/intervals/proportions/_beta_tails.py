"""Tails of binomial laws relative to their first term, to full precision and cheaply.

P(X >= j)/P(X = j) = ∫_0^1 j·(1 - x)^(j-1)·(1 + x·odds)^(n-j) dx is a tail of a beta density. Where
j is beyond the mean, the integrand falls from x = 0 on, and a Gauss-Legendre rule over the part
that matters has all digits with few points, whatever n is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpinfer._validation import FloatArray

_WIDEST = 0.98
_NARROWINGS = 2
_LONGEST = 40.0
_TINY = 1e-300


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Gauss-Legendre nodes, a column, and weights on [0, 1], for a fall by e^-``depth``."""

    nodes: FloatArray
    weights: FloatArray
    depth: float

    @classmethod
    def of(cls, size: int, depth: float) -> Rule:
        """Return the rule with ``size`` nodes."""
        nodes, weights = np.polynomial.legendre.leggauss(size)
        return cls(nodes=0.5 * (1.0 + nodes)[:, np.newaxis], weights=0.5 * weights, depth=depth)


FINE = Rule.of(22, 30.0)
"""Exact to 6e-13, and mostly to 1e-14."""

COARSE = Rule.of(8, 12.0)
"""Exact to 3e-5."""


def tail_ratio(j: FloatArray, rest: FloatArray, odds: FloatArray, rule: Rule) -> FloatArray:
    """P(X >= j)/P(X = j) for a binomial law of j + ``rest`` trials, j >= 1 not below its mean.

    Parameters
    ----------
    j, rest : array of float, shape (m,)
        Whole numbers j >= 1 and ``rest`` >= 0.
    odds : array of float, shape (m,)
        Odds of success.
    rule : Rule
        The rule of integration.
    """
    width = _width(j - 1.0, rest, odds, rule.depth)
    x = rule.nodes * width
    exponent = np.log1p(-x)
    exponent *= j - 1.0
    x *= odds
    np.log1p(x, out=x)
    x *= rest
    exponent += x
    np.exp(exponent, out=exponent)
    return np.asarray(j * width * (rule.weights @ exponent))


def _width(steep: FloatArray, rest: FloatArray, odds: FloatArray, depth: float) -> FloatArray:
    """Where the integrand has fallen to about e^-``depth``, or 1."""
    # from the slope and the curvature at 0
    slope = steep - rest * odds
    curvature = steep + rest * np.square(odds)
    root = slope + np.sqrt(np.square(slope) + 2.0 * depth * curvature)
    width = np.minimum(2.0 * depth / np.maximum(root, _TINY), _WIDEST)
    # Newton's method: the fall is convex in s = -ln(1 - x)
    s = -np.log1p(-width)
    for _ in range(_NARROWINGS):
        rise = 1.0 + odds * width
        slope = np.maximum(steep - rest * odds * (1.0 - width) / rise, _TINY)
        s -= (steep * s - rest * np.log(rise) - depth) / slope
        np.clip(s, 0.0, _LONGEST, out=s)
        width = -np.expm1(-s)
    return width
