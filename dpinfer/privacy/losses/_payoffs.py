"""Payoffs of a tail, and their transforms along a vertical line.

Three of them, stacked in this order: E[(1 - e^(ε-L))₊] = δ(ε), P(L > ε), and E[e^(ε-L); L > ε],
which is e^ε·Q(L > ε); the first is the difference of the others.
"""

from __future__ import annotations

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.privacy.losses._laws.law import ComplexArray


def continuous_payoffs(z: ComplexArray) -> ComplexArray:
    """Return the transforms ∫ e^(-zx)·payoff(x) dx over x = L - ε > 0, shape (3, n)."""
    return np.asarray(np.stack([1.0 / (z * (z + 1.0)), 1.0 / z, 1.0 / (z + 1.0)]))


def lattice_payoffs(z: ComplexArray, gap: FloatArray, step: float) -> ComplexArray:
    """Return the sums h·Σ e^(-z·jh)·payoff(g + jh) over j >= 0, shape (3, n, gaps)."""
    s = z[:, None]
    first = -np.expm1(-s * step)
    second = -np.expm1(-(s + 1.0) * step)
    # (1 - e^(-(z+1)h)) - e^-g(1 - e^(-zh)), as a sum of terms of one sign at real z
    both = -np.expm1(-gap) - np.exp(-s * step - gap) * np.expm1(gap - step)
    probability = np.broadcast_to(1.0 / first, both.shape)
    return np.asarray(
        step * np.stack([both / (first * second), probability, np.exp(-gap) / second])
    )


def step_payoffs(x: FloatArray, inclusive: bool) -> FloatArray:
    """Return the payoffs of the value x = L - ε themselves, shape (3, n)."""
    above = x >= 0 if inclusive else x > 0
    x = np.maximum(x, 0.0)
    return np.where(above, np.stack([-np.expm1(-x), np.ones_like(x), np.exp(-x)]), 0.0)
