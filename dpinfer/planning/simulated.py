"""Plans of any procedure, by simulating the procedure itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpinfer._check import RNG, FloatArray, check_array, check_reps, check_rng, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.engine import BUDGETS, LARGEST_SIZE, Columns, PowerRow, Row, WidthRow
from dpinfer.planning.mechanisms import NoisePlan, check_plan

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
        """Return the mean over releases, which have the same seed each time, and its error."""
        rng = np.random.default_rng(self.rng)
        whole = {n: int(x) if n == self.size and x.is_integer() else x for n, x in numbers.items()}
        drawn = [self._one(self.model(rng, law, **whole), law, alpha) for _ in range(self.reps)]
        values = np.array(drawn, dtype=np.float64)
        with np.errstate(invalid="ignore"):  # widths may be infinite
            spread = float(np.std(values)) / np.sqrt(self.reps)
        return float(values.mean()), max(spread, self.least_error)

    @property
    def least_error(self) -> float:
        """Least error of a mean."""
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
