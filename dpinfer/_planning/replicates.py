"""Powers by replicates, where to look for numbers, and plans by simulating the procedure itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy import special

from dpinfer._check import RNG, Alternative, FloatArray, check_array, check_reps, check_rng, show
from dpinfer._numerics.roots import find_root
from dpinfer._planning.engine import (
    BUDGETS,
    LARGEST_SIZE,
    SIGNS,
    SIZES,
    Columns,
    NoisePlan,
    PowerRow,
    Row,
    WidthRow,
    check_plan,
    tail_level,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests.models import draws_in_block
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.results.null import Tail, beyond_ties
from dpinfer.results.simulation import BLOCK, Draw, Simulation, largest_replicates, simulate_null

_FEW = 100.0
"""Expected exceedances of a critical value below which all replicates have a say."""

_ROUNDING = 1e-12

_SMALLEST_EFFECT = 1e-12
"""Share of the largest effect at which the search for one ends."""

_SMALLEST_TAIL = 1e-300
_CLOSE = 1e-12
"""Logarithms of tails this close to that of the level are it."""


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
    finite = np.isfinite(points)
    shares = np.where(points < 0.0, 1.0, 0.0)  # all replicates reach -inf, none inf
    drawn = simulate_null([truth], points[finite], simulation, alternative="larger", block=block)
    shares[finite] = drawn.extreme["larger"] / drawn.reps
    return power_and_error(shares, simulation.reps)


def power_and_error(shares: FloatArray, reps: int) -> tuple[float, float]:
    """Return a power, of those at three critical values, and its error."""
    power, less, more = (float(share) for share in shares)
    return power, float(np.hypot(_counting_error(power, reps), 0.5 * (more - less)))


def critical_value(upper: Tail, alpha: float, scale: float, low: float = 0.0) -> float:
    """Return where a tail is at the level, or just above where it jumps over it."""

    def excess(q: FloatArray, _: object) -> FloatArray:
        gap = np.log(np.maximum(upper(q), _SMALLEST_TAIL)) - np.log(alpha)
        return np.where(np.abs(gap) < _CLOSE, 0.0, gap)

    _, high = find_root(excess, np.array([low]), np.array([scale]), expand=True)
    return float(high[0])


def critical_values(null: Draw, alpha: float, simulation: Simulation, block: int) -> FloatArray:
    """Return simulated critical values of a level and of those a standard error off, shape (3,)."""
    reps = simulation.reps
    if alpha * (reps + 1) < 1.0:
        raise InvalidParameterError(
            f"reps must be >= {np.ceil(1.0 / alpha) - 1:.15g} to simulate a test at the level "
            f"{alpha:g}, got {reps}"
        )

    def levels(size: int) -> FloatArray:
        spread = np.sqrt(alpha * (1.0 - alpha) / size)
        more = min(alpha + spread, 1.0 - spread)
        return np.array([alpha, max(alpha - spread, 1.0 / (reps + 1.0)), more])

    if reps > BLOCK and alpha * BLOCK < _FEW:  # too few of those that a null distribution keeps
        # a p-value is (1 + exceedances)/(1 + reps)
        allowed = np.floor(levels(reps) * (reps + 1.0) * (1.0 + _ROUNDING)).astype(int) - 1
        largest = largest_replicates(null, int(allowed.max()) + 1, simulation, block)
        return beyond_ties(largest[allowed])
    law = simulate_null([null], np.zeros(()), simulation, alternative="larger", block=block)
    return np.array([float(law.critical_value(x, "larger")) for x in levels(law.sample.size)])


def simulated_rate(draw: Draw, simulation: Simulation, block: int) -> tuple[float, float]:
    """Return the share of replicates that are 1 and not 0, and its error, which is never 0."""
    drawn = simulate_null([draw], np.ones(()), simulation, alternative="larger", block=block)
    rate = float(drawn.extreme["larger"] / drawn.reps)
    return rate, _counting_error(rate, simulation.reps)


def _counting_error(rate: float, reps: int) -> float:
    """Return the standard error of a share of replicates, as if one more was on each side."""
    return float(np.sqrt(max(rate * (1.0 - rate), 1.0 / (reps + 2.0)) / reps))


def reaches(draw: Draw, critical: float, size: int, rng: np.random.Generator) -> FloatArray:
    """Draw 1 where a statistic is at least a critical value, 0 elsewhere."""
    return (draw(size, rng) >= critical).astype(np.float64)


Moments = tuple[Any, Any, Any]
"""Mean of a deviation, its spread under the null hypothesis, and that at the truth."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PowerWithLimit(ReplicatedPower):
    """Power of a test of a deviation that is about normal where counts are large."""

    alternative: Alternative = "two-sided"

    @abstractmethod
    def moments(self, law: NoiseLaw, columns: Columns) -> Moments:
        """Return the moments of the deviation, each of shape (m,)."""

    def limit(self, name: str, known: Columns, target: float) -> float | None:
        """Return the number in the limit; None where it is out of reach."""
        limit = copy(self)
        limit.set(at=self._normal_power, guess=lambda *_: None)
        try:
            return limit.find(name, known, target)
        except InvalidParameterError:
            return None

    def _normal_power(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[Any, Any]:
        mean, null, truth = self.moments(law, columns)
        critical = special.ndtri(tail_level(alpha, self.alternative)) * null
        tails = [special.ndtr((critical + sign * mean) / truth) for sign in SIGNS[self.alternative]]
        return np.asarray(sum(tails)), 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class EffectPower(ReplicatedPower):
    """Power at the probabilities null + effect·(truth - null)."""

    truth: Any
    method: Any = None

    size = "nobs"
    own = {"nobs": SIZES, "effect": {"ge": 0.0}}  # noqa: RUF012
    optional = {"effect": 1.0}  # noqa: RUF012

    @property
    @abstractmethod
    def line(self) -> tuple[FloatArray, FloatArray]:
        """Probabilities under the null hypothesis, and those of the truth less them."""

    @abstractmethod
    def probability(
        self, law: NoiseLaw, alpha: float, nobs: int, value: FloatArray
    ) -> tuple[float, float]:
        """Probability of a rejection at the probabilities ``value``, and its standard error."""

    def one(self, law: NoiseLaw, alpha: float, *own: float) -> tuple[float, float]:
        return self.probability(law, alpha, int(own[0]), self.value_at(own[1]))

    @property
    def largest_effect(self) -> float:
        null, step = self.line
        falls = step < 0.0
        return float((null[falls] / -step[falls]).min())

    def value_at(self, effect: float) -> FloatArray:
        null, step = self.line
        value = np.maximum(null + effect * step, 0.0)
        return np.asarray(value / value.sum())

    def checked(self, name: str, value: Any) -> FloatArray:
        array = super().checked(name, value)
        return check_array(array, name, le=self.largest_effect) if name == "effect" else array

    def range(self, name: str, known: Columns) -> tuple[float, float]:
        return (0.0, self.largest_effect) if name == "effect" else super().range(name, known)

    def ends(self, name: str, known: Columns) -> tuple[float, float]:
        if name == "effect":
            return _SMALLEST_EFFECT * self.largest_effect, self.largest_effect
        return super().ends(name, known)

    @property
    def effect_size(self) -> float:
        null, step = self.line
        return float(np.sqrt((np.square(step) / null).sum()))

    def facts(self) -> dict[str, Any]:
        return {"effect_size": self.effect_size, "largest_effect": self.largest_effect}

    def extra(self, columns: Columns, error: FloatArray) -> dict[str, Any]:
        """Return by which method powers were had, whatever p-values the test uses."""
        computed = "asymptotic" if self.method == "asymptotic" else "exact"
        return {"method": np.where(error > 0.0, "monte-carlo", computed)}


_SIZE_NAMES = ("nobs", "sample_size", "n_")
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
            own={name: {} for name in self.numbers_of},
            size=next((x for x in self.numbers_of if f"{x}_".startswith(_SIZE_NAMES)), None),
        )

    def checked_mechanism(self) -> NoisePlan:
        # any shape: the model says what it is added to
        return check_plan(self.mechanism, np.shape(getattr(self.mechanism, "variance", 0.0)))

    def checked(self, name: str, value: Any) -> FloatArray:
        return check_array(value, name) if name in self.own else super().checked(name, value)

    def law(self, budget: float) -> NoiseLaw:
        law: NoiseLaw = self.mechanism(budget) if self.has_budget else self.mechanism
        return law

    def one(self, law: NoiseLaw, alpha: float, *own: float) -> tuple[float, float]:
        rng, numbers = np.random.default_rng(self.rng), zip(self.own, own, strict=True)
        whole = {n: int(x) if n == self.size and x.is_integer() else x for n, x in numbers}
        drawn = [self._answer(self.model(rng, law, **whole), law, alpha) for _ in range(self.reps)]
        values = np.array(drawn, dtype=np.float64)
        with np.errstate(invalid="ignore"):  # widths may be infinite
            spread = float(np.std(values)) / np.sqrt(self.reps)
        return float(values.mean()), max(spread, 1.0 / self.reps if self.rises else 0.0)

    def _answer(self, given: Any, law: NoiseLaw, alpha: float) -> float:
        if not isinstance(given, Mapping):
            raise InvalidParameterError(
                f"model must return a dictionary of the arguments of {self.procedure.__name__}, "
                f"got {show(given)}"
            )
        level = {} if self.rises else {"alpha": alpha}
        result = self.procedure(**{"mechanism": law, **level, **given})
        if not hasattr(result, self.answer):
            raise InvalidParameterError(
                f"procedure must answer with {self.answer} to plan its {self.quantity}, got "
                f"{show(result)}"
            )
        found = check_array(getattr(result, self.answer), self.answer, ndim=0, finite=False)
        return float(found <= alpha if self.rises else found)

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


class SimulatedWidth(_Simulated, WidthRow):
    """Mean width of the intervals of simulated releases; as for a simulated power."""

    answer = "width"
