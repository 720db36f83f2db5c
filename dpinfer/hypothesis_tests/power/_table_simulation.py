"""Simulated power: replicates under the null hypothesis and under the alternative."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests._fitted_tables import STATISTICS as FITTED_STATISTICS
from dpinfer.hypothesis_tests._fitted_tables import Fit, TableModel
from dpinfer.hypothesis_tests._noisy_tables import STATISTICS, NoisyTable, Statistic
from dpinfer.hypothesis_tests.models import draws_in_block
from dpinfer.hypothesis_tests.power._rejections import counting_error
from dpinfer.results.null import beyond_ties
from dpinfer.results.simulation import BLOCK, Draw, Simulation, largest_replicates, simulate_null

_FEW = 100.0
"""Expected exceedances of a critical value below which all replicates have a say."""

_ROUNDING = 1e-12

_UNDECIDED = -1.0
"""Stands for the statistic of a table that is not decided: below all statistics."""


def simulated_power(
    null: Draw, truth: Draw, alpha: float, cells: int, simulation: Simulation
) -> tuple[float, float]:
    """Return a power and its Monte Carlo standard error, which is never 0.

    With R replicates under the null hypothesis the critical value is that of a level within
    √(α(1 - α)/R) of α. What that does to the power is added to the error of counting rejections.
    """
    block = draws_in_block(cells)
    points = critical_values(null, alpha, simulation, block)
    power, less, more = _rejections(truth, points, simulation, block)
    return power, float(np.hypot(counting_error(power, simulation.reps), 0.5 * (more - less)))


def critical_values(null: Draw, alpha: float, simulation: Simulation, block: int) -> FloatArray:
    """Return simulated critical values of a level and of those a standard error off, shape (3,)."""
    reps = simulation.reps
    if alpha * (reps + 1) < 1.0:
        raise InvalidParameterError(
            f"reps must be >= {np.ceil(1.0 / alpha) - 1:.15g} to simulate a test at the level "
            f"{alpha:g}, got {reps}"
        )
    if reps > BLOCK and alpha * BLOCK < _FEW:  # too few of those that a null distribution keeps
        return _critical_values_of_all(null, alpha, simulation, block)
    law = simulate_null([null], np.zeros(()), simulation, alternative="larger", block=block)
    levels = _levels(alpha, law.sample.size, reps)
    return np.array([float(law.critical_value(level, "larger")) for level in levels])


def _levels(alpha: float, size: int, reps: int) -> tuple[float, float, float]:
    """Return a level, and those that are off by the standard error of so many replicates."""
    spread = np.sqrt(alpha * (1.0 - alpha) / size)
    return alpha, max(alpha - spread, 1.0 / (reps + 1.0)), min(alpha + spread, 1.0 - spread)


def _critical_values_of_all(
    null: Draw, alpha: float, simulation: Simulation, block: int
) -> FloatArray:
    """Return critical values from the largest of all replicates, where the level is small."""
    levels = np.array(_levels(alpha, simulation.reps, simulation.reps))
    # a p-value is (1 + exceedances)/(1 + reps)
    allowed = np.floor(levels * (simulation.reps + 1.0) * (1.0 + _ROUNDING)).astype(int) - 1
    largest = largest_replicates(null, int(allowed.max()) + 1, simulation, block)
    return beyond_ties(largest[allowed])


def _rejections(truth: Draw, points: FloatArray, simulation: Simulation, block: int) -> FloatArray:
    """Return shares of replicates that are at least each critical value, infinite ones included."""
    finite = np.isfinite(points)
    shares = np.where(points < 0.0, 1.0, 0.0)  # all replicates reach -inf, none inf
    drawn = simulate_null([truth], points[finite], simulation, alternative="larger", block=block)
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
class Releases:
    """Draws published tables under any probabilities; can be pickled.

    Parameters
    ----------
    model : TableModel
        How tables are published and fitted.
    nobs : array of int, shape (g,)
        Number of observations in all, or in each row.
    shares : array of float, shape (g, k/g)
        Probabilities of the cells, or of those in each row.
    """

    model: TableModel
    nobs: NDArray[np.int64]
    shares: FloatArray

    def draw(self, size: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draw tables, shape (..., size), and published numbers of observations."""
        counts = rng.multinomial(self.nobs, self.shares, (size, self.nobs.size))
        total = np.full(size, float(self.nobs.sum()))
        return publish(self.model, counts, total, rng)


def publish(
    model: TableModel, counts: NDArray[np.int64], total: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Add noise to counts, shape (m, ...), and to totals; return tables, shape (..., m), too."""
    noisy = counts.reshape(-1, model.size).astype(np.float64)
    noisy += model.noise.rvs(noisy.shape, rng=rng)
    tables = np.ascontiguousarray(noisy.T).reshape(*model.shape, -1)
    if model.nobs_noise is None:
        return tables, total
    return tables, total + model.nobs_noise.rvs(total.shape, rng=rng)


@dataclass(frozen=True)
class DecidedTables:
    """Draws statistics of tables, of which those with small expected counts are not decided.

    Parameters
    ----------
    releases : Releases
        Draws tables.
    statistic : {"pearson", "projected"}
        What to compute.
    smallest : float
        The smallest estimated expected count with which a test decides.
    """

    releases: Releases
    statistic: Statistic
    smallest: float

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw so many independent replicates."""
        model, released = self.releases.model, self.releases.draw(size, rng)
        decided = is_decided(model.fit(*released), self.smallest)
        return np.where(decided, FITTED_STATISTICS[self.statistic](model, *released), _UNDECIDED)


def is_decided(fit: Fit, smallest: float) -> NDArray[np.bool_]:
    """Whether no expected count of a table is too small, shape (m,)."""
    cells = fit.expected.reshape(-1, fit.expected.shape[-1])
    return np.asarray((cells >= smallest).all(axis=0))
