"""Powers by replicates, where to look for numbers, and plans by simulating the procedure itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np
from scipy import special

from dpinfer._check import RNG, Alternative, FloatArray, check_array, check_reps, check_rng, show
from dpinfer._planning.engine import (
    BUDGETS,
    Columns,
    NoisePlan,
    PowerRow,
    Row,
    WidthRow,
    check_plan,
)
from dpinfer._planning.search import LARGEST_SIZE
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests.models import draws_in_block
from dpinfer.mechanisms.law import NoiseLaw
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
        return (self.draw(size, rng) >= self.critical).astype(np.float64)


Moments = tuple[FloatArray, FloatArray, FloatArray]
"""Mean of a deviation, its spread under the null hypothesis, and that at the truth."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PowerWithLimit(ReplicatedPower):
    """Power of a test of a deviation that is about normal where counts are large."""

    alternative: Alternative = "two-sided"

    @abstractmethod
    def moments(self, law: NoiseLaw, columns: Columns) -> Moments:
        """Return the moments of the deviation, each of shape (m,)."""

    def limit(self, name: str, known: Columns, target: float) -> float | None:
        """Return the number in the limit, where it may be out of reach."""
        try:
            return _NormalLimit(procedure=self.procedure, row=self).find(name, known, target)
        except InvalidParameterError:
            return None


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class _NormalLimit(PowerRow):
    """Power of a row where the deviation is normal."""

    row: PowerWithLimit

    def __post_init__(self) -> None:
        for name in ("mechanism", "own", "size", "whole", "logarithmic", "law", "check", "range"):
            self.set(**{name: getattr(self.row, name)})
        self.set(has_effect=self.row.has_effect)

    def at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[Any, Any]:
        mean, null, truth = self.row.moments(law, columns)
        sides = self.row.alternative
        critical = special.ndtri(0.5 * alpha if sides == "two-sided" else alpha) * null
        signs = {"two-sided": (1.0, -1.0), "larger": (1.0,), "smaller": (-1.0,)}[sides]
        power = sum(special.ndtr((critical + sign * mean) / truth) for sign in signs)
        return np.asarray(power), 0.0


_SIZES = ("nobs", "sample_size", "n_")
"""Beginnings of the names of numbers of observations, which are looked for as whole numbers."""

_GUESSES = {"alpha": 0.05, "budget": 1.0}
_FIRST_SIZE = 100.0

_PRECISION = 1e-3
"""Relative precision of what is solved for: replicates tell no more."""


@dataclass(frozen=True, eq=False, kw_only=True)
class _Simulated(Row):
    """A quantity of a procedure, averaged over simulated releases."""

    model: Callable[..., Mapping[str, Any]]
    numbers_of: tuple[str, ...] = ()
    method: str = "simulate"
    reps: int = 1000
    rng: RNG = 0

    answer: ClassVar[str]
    """What the procedure has to answer with."""

    def prepare(self) -> None:
        if not callable(self.model):
            raise InvalidParameterError(
                "model must be a function model(rng, mechanism, **numbers) that draws one release "
                f"and returns the arguments of {self.procedure.__name__}, got {show(self.model)}"
            )
        self.set(
            reps=check_reps(self.reps, ge=2),
            rng=int(check_rng(self.rng).integers(1 << 63)),
            own=self.numbers_of,
            size=next((x for x in self.numbers_of if f"{x}_".startswith(_SIZES)), None),
        )

    def checked_mechanism(self) -> NoisePlan:
        # any shape: the model says what it is added to
        return check_plan(self.mechanism, np.shape(getattr(self.mechanism, "variance", 0.0)))

    def law(self, budget: float) -> NoiseLaw:
        law: NoiseLaw = self.mechanism(budget) if self.has_budget else self.mechanism
        return law

    def at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[Any, Any]:
        rows = zip(*(columns[name].tolist() for name in self.own), strict=True)
        found = [self._simulated(law, alpha, dict(zip(self.own, row, strict=True))) for row in rows]
        found = found or [self._simulated(law, alpha, {})]
        values, errors = np.array(found).T
        return values, errors

    def _simulated(
        self, law: NoiseLaw, alpha: float, numbers: Mapping[str, float]
    ) -> tuple[float, float]:
        rng = np.random.default_rng(self.rng)
        whole = {n: int(x) if n == self.size and x.is_integer() else x for n, x in numbers.items()}
        drawn = [self._one(self.model(rng, law, **whole), law, alpha) for _ in range(self.reps)]
        values = np.array(drawn, dtype=np.float64)
        with np.errstate(invalid="ignore"):  # widths may be infinite
            spread = float(np.std(values)) / np.sqrt(self.reps)
        return float(values.mean()), max(spread, self.least_error)

    @property
    def least_error(self) -> float:
        return 0.0

    def _answer(self, given: Any, law: NoiseLaw, **more: Any) -> FloatArray:
        if not isinstance(given, Mapping):
            raise InvalidParameterError(
                f"model must return a dictionary of the arguments of {self.procedure.__name__}, "
                f"got {show(given)}"
            )
        result = self.procedure(**{"mechanism": law, **more, **given})
        if not hasattr(result, self.answer):
            raise InvalidParameterError(
                f"procedure must answer with {self.answer} to plan its {self.quantity}, got "
                f"{show(result)}"
            )
        return check_array(getattr(result, self.answer), self.answer, ndim=0, finite=False)

    def _one(self, given: Any, law: NoiseLaw, alpha: float) -> float:
        raise NotImplementedError

    def guess(self, name: str, known: Columns, target: float) -> float | None:
        if name != self.size and name not in _GUESSES:
            raise InvalidParameterError(
                f"{name} must be given: with method='simulate' a number of observations, alpha or "
                "budget is solved for"
            )
        return _GUESSES.get(name, _FIRST_SIZE)

    def ends(self, name: str, known: Columns) -> tuple[float, float]:
        if name == "alpha":
            return 1e-6, 1.0 - 1e-6
        return BUDGETS if name == "budget" else (1.0, LARGEST_SIZE)

    def precision(self, name: str) -> float:
        return _PRECISION


@dataclass(frozen=True, eq=False, kw_only=True)
class SimulatedPower(_Simulated, PowerRow):
    """Power as the share of simulated releases that a test rejects.

    - ``model``: ``model(rng, mechanism, **numbers)`` draws one release, noise included, and returns
      the arguments of the test as a dictionary, such as ``{"count": 31.2, "nobs": 100}``. The law
      of the noise is added as ``mechanism`` where the dictionary has none.
    - Other arguments are numbers that the model takes. Of them a number of observations is solved
      for, the first that is named ``n``, or begins with ``nobs`` or ``sample_size``.
    - ``reps``: number of releases, by default 1,000; ``rng``: their seed, by default 0.

    All powers of a plan are of releases with one seed, so that they are comparable.
    """

    answer = "pvalue"

    def _one(self, given: Any, law: NoiseLaw, alpha: float) -> float:
        return float(self._answer(given, law) <= alpha)

    @property
    def least_error(self) -> float:
        return 1.0 / self.reps


@dataclass(frozen=True, eq=False, kw_only=True)
class SimulatedWidth(_Simulated, WidthRow):
    """Mean width of the intervals of simulated releases; as for a simulated power."""

    answer = "width"

    def _one(self, given: Any, law: NoiseLaw, alpha: float) -> float:
        return float(self._answer(given, law, alpha=alpha))
