"""A power as the share of simulated releases that a test rejects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpinfer._check import FloatArray
from dpinfer.results.simulation import Draw, Simulation, simulate_null


def simulated_rate(draw: Draw, simulation: Simulation, block: int) -> tuple[float, float]:
    """Return the share of replicates that are 1 and not 0, and its error, which is never 0."""
    drawn = simulate_null([draw], np.ones(()), simulation, alternative="larger", block=block)
    rate = float(drawn.extreme["larger"] / drawn.reps)
    return rate, counting_error(rate, simulation.reps)


def counting_error(rate: float, reps: int) -> float:
    """Return the standard error of a share of replicates, as if one more was on each side."""
    return float(np.sqrt(max(rate * (1.0 - rate), 1.0 / (reps + 2.0)) / reps))


@dataclass(frozen=True, eq=False)
class Beyond:
    """Draws 1 where a statistic is at least a critical value, 0 elsewhere; can be pickled."""

    draw: Draw
    critical: float

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw so many."""
        return (self.draw(size, rng) >= self.critical).astype(np.float64)
