"""What the plans of table tests share: probabilities on a line, and simulated powers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from dpinfer._validation import RNG, FloatArray, check_array, check_integer_array, check_rng
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests._published import LARGEST_NOBS
from dpinfer.hypothesis_tests.power._plan import Columns, Plan
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.results.simulation import Draw, Simulation, simulate_null

_ROUNDING = 1e-9
"""Allowed deviation from 1 of the sum of probabilities."""

Seed = tuple[int, ...]


class TablePower(Plan):
    """Power at the probabilities null + effect·(alternative - null)."""

    reps: int
    n_jobs: int | None
    seed: Seed

    _size: ClassVar[str | None] = "nobs"
    _own = ("nobs", "effect")
    _sawtooth = False

    @property
    @abstractmethod
    def _line(self) -> tuple[FloatArray, FloatArray]:
        """Probabilities under the null hypothesis, and the alternative less them."""

    @abstractmethod
    def _probability(
        self, law: NoiseLaw, alpha: float, nobs: int, value: FloatArray
    ) -> tuple[float, float]:
        """Probability of a rejection at the probabilities ``value``, and its standard error."""

    @property
    def largest_effect(self) -> float:
        """The largest effect, at which a cell has no probability left."""
        null, step = self._line
        falls = step < 0.0
        return float((null[falls] / -step[falls]).min())

    def _check(self, name: str, value: Any) -> FloatArray:
        if name == "nobs":
            return check_array(check_integer_array(value, "nobs", ge=1), "nobs", le=LARGEST_NOBS)
        return check_array(value, name, ge=0, le=self.largest_effect)

    def _range(self, name: str, columns: Columns) -> tuple[float, float]:
        return 0.0, self.largest_effect

    def _reject(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        null, step = self._line
        rows = zip(columns["nobs"].tolist(), columns["effect"].tolist(), strict=True)
        found = [
            self._probability(law, alpha, int(nobs), np.maximum(null + effect * step, 0.0))
            for nobs, effect in rows
        ]
        power, error = np.array(found).T
        return power, error

    def _simulation(self) -> Simulation:
        """Return one and the same source of replicates each time, so that powers are comparable."""
        return Simulation.checked(self.reps, np.random.default_rng(self.seed), n_jobs=self.n_jobs)

    def _simulated(
        self, null: Draw, rejections: Callable[[float], Draw], alpha: float, block: int
    ) -> tuple[float, float]:
        """Share of replicates beyond the critical value, and its standard error.

        ``rejections(c)`` makes what draws 1 where a statistic reaches c, and 0 elsewhere.
        """
        simulation = self._simulation()
        law = simulate_null([null], np.zeros(()), simulation, alternative="larger", block=block)
        critical = float(law.critical_value(alpha, "larger"))
        draws = [rejections(critical)]
        ones = simulate_null(draws, np.ones(()), simulation, alternative="larger", block=block)
        # the p-value counts the observed value as one more replicate
        rate = (float(ones.pvalue(1.0, "larger")) * (self.reps + 1) - 1.0) / self.reps
        rate = min(max(rate, 0.0), 1.0)
        return rate, float(np.sqrt(rate * (1.0 - rate) / self.reps))


def checked_probabilities(value: Any, name: str, ndim: int) -> FloatArray:
    """Return positive probabilities that add up to 1."""
    array = check_array(value, name, gt=0, ndim=ndim)
    if array.size < 2 or abs(float(array.sum()) - 1.0) > _ROUNDING:
        raise InvalidParameterError(
            f"{name} must be the probabilities of at least 2 cells and add up to 1, got "
            f"{array.size} with the sum {float(array.sum()):.12g}"
        )
    return np.asarray(array / array.sum())


def drawn_seed(rng: RNG) -> Seed:
    """Draw a seed once, for all evaluations."""
    return tuple(check_rng(rng).integers(0, 1 << 32, size=8).tolist())
