"""What the plans of tests of two noisy counts share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from dpinfer._check import ALTERNATIVES, RNG, Alternative, FloatArray, check_option, check_scalar
from dpinfer._numerics.roots import find_root
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests.power._normal_limit import PlanWithLimit
from dpinfer.hypothesis_tests.power._plan import PowerPlan
from dpinfer.hypothesis_tests.power._share_of_total import Known
from dpinfer.hypothesis_tests.power._tables import Seed, around, checked_seed, first_whole
from dpinfer.hypothesis_tests.power._two_counts import METHODS, Method, TwoCounts
from dpinfer.planning.mechanisms import check_plan
from dpinfer.planning.plan import BUDGETS
from dpinfer.planning.search import shortfall
from dpinfer.results.simulation import Simulation

if TYPE_CHECKING:
    from typing import Any

    from dpinfer.mechanisms.law import NoiseLaw
    from dpinfer.planning.plan import Columns

_PRECISION, _COARSE = 1e-6, 1e-3
"""Relative precision of what is solved for, and where each step may take seconds."""

_LARGEST = {"alpha": 1.0 - 1e-12, "budget": BUDGETS[1]}
"""Largest values up to which a level and a budget are looked for: powers are quick to be had."""

_NEXT_BUDGET, _MOST_BUDGETS, _NO_NOISE = 1.25, 40, 1e-6
"""Steps of budgets that are tried where the largest is not enough, and variance at their end."""

_GUESSES = {"alpha": 0.05, "budget": 1.0}
"""Where to begin to look for them if the limit does not tell."""


class TwoCountsPower(PlanWithLimit):
    """Power of a test of two noisy counts; see the plans themselves."""

    method: Method
    nuisance_alpha: float
    reps: int
    rng: RNG
    n_jobs: int | None
    _seed: Seed

    def __post_init__(self) -> None:
        check_option(self.alternative, "alternative", ALTERNATIVES)
        check_option(self.method, "method", METHODS)
        self._set(
            mechanism=check_plan(self.mechanism, self._cells),
            nuisance_alpha=check_scalar(self.nuisance_alpha, "nuisance_alpha", gt=0, lt=0.5),
            _seed=checked_seed(self.reps, self.rng, self.n_jobs),
        )

    @abstractmethod
    def _counts(
        self, noises: tuple[NoiseLaw, NoiseLaw], alpha: float, arguments: tuple[float, ...]
    ) -> TwoCounts:
        """Return the counts and their test, given the own arguments of the plan."""

    @property
    @abstractmethod
    def _largest(self) -> dict[str, float]:
        """Largest values of arguments that are looked for around that of the limit."""

    @property
    def _test(self) -> tuple[Alternative, Method, float]:
        """What the test is told beside the counts and their laws."""
        return self.alternative, self.method, self.nuisance_alpha

    @cached_property
    def _memory(self) -> dict[tuple[NoiseLaw, NoiseLaw], Known]:
        return {}

    def _known(self, noises: tuple[NoiseLaw, NoiseLaw]) -> Known:
        """Return the p-values that are known with such noise; the last noise is remembered."""
        if noises not in self._memory:
            self._memory.clear()
        return self._memory.setdefault(noises, {})

    @property
    def _cells(self) -> tuple[int, ...]:
        return (2,)

    def _reject(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        noises = (law.take(0), law.take(1)) if law.shape else (law, law)
        found = []
        for arguments in zip(*(columns[name].tolist() for name in self._own), strict=True):
            # the same replicates each time, so that powers are comparable
            source = np.random.default_rng(self._seed)
            simulation = Simulation.checked(self.reps, source, n_jobs=self.n_jobs)
            found.append(self._counts(noises, alpha, arguments).reject(alpha, simulation))
        power, error = np.array(found).reshape(-1, 2).T
        return power, error

    def _find(self, name: str, known: Columns, target: float) -> float:
        """Return the argument that reaches a power, looked for around the answer in the limit."""

        @cache
        def missing(value: float) -> float:
            columns, _ = self._broadcast({**known, name: np.array([value])})
            return float(shortfall(self._values(columns)[0], target)[0])

        ends = self._bracket(name, known, target, missing)
        if ends is None:
            return super()._find(name, known, target)
        if name == self._size:
            return first_whole(missing, *ends)
        low, high = np.log(ends)
        _, found = find_root(
            lambda x, _: np.array([missing(float(np.exp(x[0])))]),
            np.array([low]),
            np.array([high]),
            rtol=0.0,
            atol=_COARSE if name == "budget" and self.method == "exact" else _PRECISION,
        )
        return float(np.exp(found[0]))

    def _bracket(
        self, name: str, known: Columns, target: float, missing: Callable[[float], float]
    ) -> tuple[float, float] | None:
        """Return values around that of the normal limit: without and with enough power."""
        largest = {**_LARGEST, **self._largest}.get(name)
        if largest is None:
            return None
        guess = self._guess(name, known, target)
        if name in _LARGEST and missing(largest) > 0.0:
            # a little noise may help, as it makes steps of p-values finer
            guess = self._helpful_budget(guess, missing) if name == "budget" else None
            if guess is None:
                raise self._search(name, known, target)._unreachable(largest)
        return None if guess is None else around(missing, guess, largest, whole=name == self._size)

    def _guess(self, name: str, known: Columns, target: float) -> float | None:
        """Return the answer for a test that is quicker, if there is one."""
        plan: PowerPlan = self._limit
        if name == "budget" and self.method == "exact":  # each of its powers may take seconds
            plan = replace(cast("Any", self), method="plug-in", rng=0)
        try:
            return plan._find(name, known, target)
        except InvalidParameterError:  # which by the other test only may be out of reach
            return _GUESSES.get(name)

    def _helpful_budget(
        self, guess: float | None, missing: Callable[[float], float]
    ) -> float | None:
        """Return a budget that reaches the power, where no noise does not, if one is found."""
        budget = guess or _GUESSES["budget"]
        for _ in range(_MOST_BUDGETS):
            if missing(budget) <= 0.0:
                return budget
            if np.max(self._law(budget).variance) < _NO_NOISE:
                break
            budget *= _NEXT_BUDGET
        return None
