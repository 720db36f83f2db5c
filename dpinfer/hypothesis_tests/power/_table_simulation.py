"""Simulated power: replicates under the null hypothesis and under the alternative."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests.tables._fitted_tables import STATISTICS as FITTED_STATISTICS
from dpinfer.hypothesis_tests.tables._fitted_tables import TableDraws
from dpinfer.hypothesis_tests.tables._noisy_table import STATISTICS, NoisyTable, Statistic
from dpinfer.results.simulation import BLOCK, Draw, Simulation, simulate_null

_CELLS_IN_BLOCK = 1 << 16
"""Cells drawn at a time, replicates times k: few enough to stay in the cache."""

_UNDECIDED = -1.0
"""Stands for the statistic of a table that is not decided: below all statistics."""


def simulated_power(
    null: Draw, truth: Draw, alpha: float, cells: int, simulation: Simulation
) -> tuple[float, float]:
    """Return a power and its Monte Carlo standard error, which is never 0.

    With R replicates under the null hypothesis the critical value is that of a level within
    √(α(1 - α)/R) of α. What that does to the power is added to the error of counting rejections.
    """
    reps = simulation.reps
    if alpha * (reps + 1) < 1.0:
        raise InvalidParameterError(
            f"reps must be >= {np.ceil(1.0 / alpha) - 1:.0f} to simulate a test at the level "
            f"{alpha:g}, got {reps}"
        )
    block = min(BLOCK, max(1, _CELLS_IN_BLOCK // cells))
    law = simulate_null([null], np.zeros(()), simulation, alternative="larger", block=block)
    spread = np.sqrt(alpha * (1.0 - alpha) / law.sample.size)
    levels = (alpha, max(alpha - spread, 1.0 / (reps + 1.0)), min(alpha + spread, 1.0 - spread))
    points = np.array([float(law.critical_value(level, "larger")) for level in levels])
    power, less, more = _rejections(truth, points, simulation, block)
    counting = max(power * (1.0 - power), 1.0 / (reps + 2.0)) / reps
    return power, float(np.hypot(np.sqrt(counting), 0.5 * (more - less)))


def _rejections(truth: Draw, points: FloatArray, simulation: Simulation, block: int) -> FloatArray:
    """Return shares of replicates that are at least each critical value, infinite ones included."""
    finite = np.isfinite(points)
    shares = np.zeros(points.shape)
    if finite.any():
        drawn = simulate_null(
            [truth], points[finite], simulation, alternative="larger", block=block
        )
        shares[finite] = drawn.extreme["larger"] / drawn.reps
    return shares


@dataclass(frozen=True)
class SimulatedDeviations:
    """Draws a statistic of a table whose true expected counts are others; can be pickled.

    Parameters
    ----------
    table : NoisyTable
        The null hypothesis.
    truth : NoisyTable
        How tables arise; expected counts of 0 are allowed.
    statistic : {"pearson", "projected"}
        What to compute.
    """

    table: NoisyTable
    truth: NoisyTable
    statistic: Statistic

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw so many independent replicates."""
        deviations = self.truth.draw_deviations(size, rng)
        deviations += self.truth.expected - self.table.expected
        return STATISTICS[self.statistic](self.table)(deviations)


@dataclass(frozen=True)
class DecidedTables:
    """Draws statistics of tables, of which those with small expected counts are not decided.

    Parameters
    ----------
    draws : TableDraws
        Draws tables, and fits them.
    smallest : float
        The smallest estimated expected count with which a test decides.
    """

    draws: TableDraws
    smallest: float

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw so many independent replicates."""
        fit = self.draws.model.fit(*self.draws.draw_tables(size, rng))
        statistic = FITTED_STATISTICS[self.draws.statistic](fit)
        decided = (fit.expected >= self.smallest).all(axis=(0, 1))
        return np.where(decided, statistic, _UNDECIDED)
