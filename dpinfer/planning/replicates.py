"""Powers by replicates: of a test whose critical values are known, or simulated as well."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dpinfer._check import RNG, FloatArray, check_reps, check_rng
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests.models import draws_in_block
from dpinfer.planning.engine import PowerRow
from dpinfer.results.null import beyond_ties
from dpinfer.results.simulation import BLOCK, Draw, Simulation, largest_replicates, simulate_null

_FEW = 100.0
"""Expected exceedances of a critical value below which all replicates have a say."""

_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False, kw_only=True)
class ReplicatedPower(PowerRow):
    """Power that is simulated where it is not to be had otherwise.

    All powers of a plan are of the same replicates, so that they are comparable.
    """

    reps: int = 10_000
    rng: RNG = None
    n_jobs: int | None = 1
    _seed: tuple[int, ...] = field(init=False, repr=False)

    def prepare(self) -> None:
        Simulation.checked(check_reps(self.reps), None, n_jobs=self.n_jobs)
        self.set(_seed=tuple(check_rng(self.rng).integers(0, 1 << 32, size=8).tolist()))

    def simulation(self) -> Simulation:
        """Return one and the same source of replicates each time."""
        return Simulation.checked(self.reps, np.random.default_rng(self._seed), n_jobs=self.n_jobs)


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
