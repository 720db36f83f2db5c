"""The whole number at which a monotone condition begins to hold, for many conditions at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray


def smallest_whole(
    guess: FloatArray, holds: Callable[[FloatArray], NDArray[np.bool_]]
) -> FloatArray:
    """Smallest whole number at which a monotone condition holds, from a guess near to it."""
    finite = np.isfinite(guess)
    # the condition fails at low and holds at high, both found by doubling steps, then bisection
    low, high, step = guess - 1.0, guess, 1.0
    while (wrong := finite & holds(low)).any():
        low, high = np.where(wrong, low - step, low), np.where(wrong, low, high)
        step *= 2.0
    step = 1.0
    while (wrong := finite & ~holds(high)).any():
        low, high = np.where(wrong, high, low), np.where(wrong, high + step, high)
        step *= 2.0
    while True:
        middle = np.floor(0.5 * (low + high))
        inside = finite & (low < middle) & (middle < high)
        if not inside.any():
            return high
        held = holds(middle)
        high = np.where(inside & held, middle, high)
        low = np.where(inside & ~held, middle, low)
