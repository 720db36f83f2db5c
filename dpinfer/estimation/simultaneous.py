"""The largest studentised error of many dependent estimates, simulated from the known noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpinfer._validation import RNG, FloatArray, check_reps, check_rng

_BLOCK_SIZE = 4_000_000
"""Largest number of noises, and of errors, drawn at a time."""


@dataclass(frozen=True)
class CriticalPivot:
    """A quantile of the largest studentised error, and how certain it is."""

    value: float
    mc_error: float
    reps: int

    @property
    def note(self) -> str:
        """A remark for the reader of the intervals."""
        return (
            f"Half-widths are {self.value:.6g} standard errors, from {self.reps} simulated errors; "
            f"from one simulation to another the coverage varies by {self.mc_error:.2g}."
        )


def critical_pivot(
    draw_errors: Callable[[int, np.random.Generator], FloatArray],
    std_errors: FloatArray,
    alpha: float,
    reps: int,
    rng: RNG,
    *,
    noises: int = 1,
) -> CriticalPivot:
    """Return c such that all errors stay within ± c standard errors with probability 1 - alpha.

    c is the ⌈(1 - α)(R + 1)⌉-th smallest of R simulated values of the largest studentised error.
    The one that was realised is equally likely to take any rank among these R + 1, so the
    intervals cover with probability >= 1 - α, the simulation included (Davison and Hinkley 1997,
    §4.2.1, doi:10.1017/CBO9780511802843). Given the simulation, the coverage has standard
    deviation √(α(1 - α)/R). ``noises`` is the number of noises drawn for one set of errors.
    """
    fewest = int(np.ceil(1.0 / alpha)) - 1
    number = check_reps(reps, ge=max(fewest, 1))
    generator = check_rng(rng)
    noisy = std_errors > 0
    block = max(1, _BLOCK_SIZE // max(len(std_errors), noises))
    largest = np.empty(number)
    for start in range(0, number, block):
        stop = min(start + block, number)
        errors = np.abs(draw_errors(stop - start, generator)[:, noisy])
        largest[start:stop] = (errors / std_errors[noisy]).max(axis=1, initial=0.0)
    rank = min(int(np.ceil((1.0 - alpha) * (number + 1) * (1.0 - 1e-12))), number)
    value = float(np.partition(largest, rank - 1)[rank - 1])
    return CriticalPivot(value, float(np.sqrt(alpha * (1.0 - alpha) / number)), number)
