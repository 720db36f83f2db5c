"""What the plans of table tests share: probabilities on a line, and where to look for arguments."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import RNG, FloatArray, check_array, check_integer_array, check_reps, check_rng
from dpinfer._numerics.roots import find_root
from dpinfer.errors import ApproximationWarning, ConvergenceError, InvalidParameterError
from dpinfer.hypothesis_tests._noisy_tables import SMALL_EXPECTED, NoisyTable
from dpinfer.hypothesis_tests.power._plan import PowerPlan
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.plan import BUDGETS, Columns
from dpinfer.planning.search import LARGEST_SIZE
from dpinfer.results.simulation import Simulation

if TYPE_CHECKING:
    import pandas as pd

_ROUNDING = 1e-9
"""Allowed deviation from 1 of the sum of probabilities."""

_FIRST_STEP = 0.02
"""How far to look around the asymptotic answer, as a logarithm; doubled each time."""

_PRECISE, _SIMULATED = 1e-10, 1e-4
"""Relative precision of what is solved for, with known and with simulated powers."""

_CLOSE = 1e-11
"""Powers this close to the one that is asked for are it."""

Seed = tuple[int, ...]


class TablePower(PowerPlan):
    """Power at the probabilities null + effect·(alternative - null)."""

    method: Any
    rng: RNG
    reps: int
    n_jobs: int | None
    _seed: Seed

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

    @property
    def effect_size(self) -> float:
        """Cohen's w of the alternative."""
        null, step = self._line
        return float(np.sqrt((np.square(step) / null).sum()))

    def power(
        self,
        nobs: ArrayLike,
        effect: ArrayLike = 1.0,
        alpha: ArrayLike = 0.05,
        budget: ArrayLike | None = None,
    ) -> Any:
        """Probability that the test rejects.

        Parameters
        ----------
        nobs : int or array of int
            Number of observations.
        effect : float or array of float, default 1
            How far the truth is on the way to the alternative; at most ``largest_effect``.
        %(alpha_and_budget)s

        %(returns)s

        Raises
        ------
        InvalidParameterError
            If an argument is outside what is allowed.
        ConvergenceError
            If an exact power is asked for that cannot be had to 1e-8.

        Warns
        -----
        ApproximationWarning
            If ``method="asymptotic"`` is used where an expected count is below 5, or where the
            noise is not Gaussian.
        """
        arguments = {"nobs": nobs, "effect": effect, "alpha": alpha, "budget": budget}
        power = self._evaluate(**arguments)
        self._warn(self._broadcast(arguments)[0])
        return power

    def solve_power(
        self,
        *,
        nobs: float | None = None,
        effect: float | None = None,
        alpha: float | None = None,
        power: float | None = None,
        budget: float | None = None,
    ) -> float:
        """Solve for the one argument that is None.

        Parameters
        ----------
        %(arguments)s

        Returns
        -------
        float
            The smallest that reaches the power. ``nobs`` is a whole number, at which the power is
            reached and at the number before it is not; the power may fall below it again, by the
            little that rounding to whole counts makes. With simulated powers it is that of the
            replicates of this plan.

        %(raises_unsolved)s
        ConvergenceError
            As :meth:`power`.

        Warns
        -----
        ApproximationWarning
            As :meth:`power`.
        """
        arguments = {"nobs": nobs, "effect": effect, "alpha": alpha, "budget": budget}
        found = float(self._solve(**arguments, power=power))
        known = {name: arguments[name] for name in self._names}
        solved = {name: found if value is None else value for name, value in known.items()}
        self._warn(self._broadcast(solved)[0])
        return found

    def power_frame(self, **arguments: Any) -> pd.DataFrame:
        """Return the power for all combinations of the arguments as a DataFrame.

        Parameters
        ----------
        **arguments
            The arguments of ``power``; each is one value or an array of shape (m,).

        Returns
        -------
        DataFrame
            One row a combination, with a column for each argument, and the columns ``power``,
            ``mc_error``, the Monte Carlo standard error, which is 0 where nothing was simulated,
            and ``method``, by which the power was had: ``"exact"``, ``"monte-carlo"`` or
            ``"asymptotic"``, whatever p-values the test uses.

        Warns
        -----
        ApproximationWarning
            As ``power`` does.
        """
        frame = super().power_frame(**arguments)
        error = frame["mc_error"].to_numpy()
        computed = "asymptotic" if self.method == "asymptotic" else "exact"
        frame["method"] = np.where(error > 0.0, "monte-carlo", computed)
        self._warn({name: frame[name].to_numpy() for name in self._names})
        return frame

    def _warn(self, columns: Columns) -> None:
        """Warn of doubts, three frames below the caller of a public method."""
        for doubt in self._doubts(columns):
            warnings.warn(doubt, ApproximationWarning, stacklevel=3)

    def _doubts(self, columns: Columns) -> list[str]:
        """Return what makes powers doubtful."""
        if self.method != "asymptotic":
            return []
        doubts, null = [], self._line[0].ravel()
        small = columns["nobs"].min() * null.min()
        if small < SMALL_EXPECTED:
            doubts.append(f"expected counts as small as {small:.3g}, below {SMALL_EXPECTED:g}")
        budgets = columns.get("budget", np.zeros(1))
        laws = (self._law(float(budget)) for budget in np.unique(budgets))
        if not all(NoisyTable(1, null, law).has_gaussian_noise for law in laws):
            doubts.append("noise that is not Gaussian")
        return [f"{doubt}: the asymptotic power is approximate" for doubt in doubts]

    def _check(self, name: str, value: Any) -> FloatArray:
        if name == "nobs":
            return check_integer_array(value, name, ge=1, le=LARGEST_SIZE)
        return check_array(value, name, ge=0, le=self.largest_effect)

    def _effects(self, name: str, columns: Columns) -> tuple[float, float]:
        return 0.0, self.largest_effect

    def _reject(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        rows = zip(columns["nobs"].tolist(), columns["effect"].tolist(), strict=True)
        found = [
            self._probability(law, alpha, int(nobs), self._value(effect)) for nobs, effect in rows
        ]
        power, error = np.array(found).reshape(-1, 2).T
        return power, error

    def _value(self, effect: float) -> FloatArray:
        """Probabilities of the cells."""
        null, step = self._line
        value = np.maximum(null + effect * step, 0.0)
        return np.asarray(value / value.sum())

    def _simulation(self) -> Simulation:
        """Return one and the same source of replicates each time, so that powers are comparable."""
        return Simulation.checked(self.reps, np.random.default_rng(self._seed), n_jobs=self.n_jobs)

    def _find(self, name: str, known: Columns, target: float) -> float:
        """Return the argument that reaches a power, looked for around the asymptotic answer."""
        if self.method == "asymptotic":
            return super()._find(name, known, target)

        @cache
        def missing(value: float) -> float:
            columns, _ = self._broadcast({**known, name: np.array([value])})
            gap = target - float(self._values(columns)[0][0])
            return 0.0 if abs(gap) < _CLOSE else gap

        ends = self._bracket(name, known, target, missing)
        if ends is None:
            return super()._find(name, known, target)
        if name == self._size:
            return first_whole(missing, *ends)
        low, high = ends
        _, found = find_root(
            lambda x, _: np.array([missing(float(x[0]))]),
            np.array([low]),
            np.array([high]),
            rtol=_SIMULATED if self.method == "monte-carlo" else _PRECISE,
        )
        return float(found[0])

    def _bracket(
        self, name: str, known: Columns, target: float, missing: Callable[[float], float]
    ) -> tuple[float, float] | None:
        """Return values around the asymptotic answer: without and with enough power."""
        plan: Any = self
        try:
            guess = replace(plan, method="asymptotic", rng=0)._find(name, known, target)
        except (InvalidParameterError, ConvergenceError):  # by the limit law only, it may be
            return None
        largest = {
            "nobs": LARGEST_SIZE,
            "effect": self.largest_effect,
            "alpha": 1.0 - 1e-12,
            "budget": BUDGETS[1],
        }
        return around(missing, guess, largest[name], whole=name == self._size)


def around(
    missing: Callable[[float], float], guess: float, largest: float, *, whole: bool
) -> tuple[float, float] | None:
    """Return a value that does not reach the power and a larger one that does, if there are."""
    low = high = max(np.ceil(guess), 1.0) if whole else guess
    step, up = _FIRST_STEP, missing(low) > 0.0
    while True:  # steps grow fast, so that an end is soon reached
        factor = np.exp(step if up else -step)
        following = min((high if up else low) * factor, largest)
        if whole:
            following = np.ceil(following) if up else np.floor(following)
        if following < 1.0 and whole:
            return 0.0, high
        if following in (low, high):
            return None
        if up:
            low, high = high, following
        else:
            low, high = following, low
        if (missing(following) <= 0.0) == up:
            return low, high
        step *= 2.0


def first_whole(missing: Callable[[float], float], low: float, high: float) -> float:
    """Bisect between a whole number that does not reach the power and one that does."""
    while high - low > 1.0:
        middle = np.floor(0.5 * (low + high))
        low, high = (low, middle) if missing(middle) <= 0.0 else (middle, high)
    return float(high)


def checked_probabilities(
    value: Any, name: str, ndim: int, *, positive: bool = False
) -> FloatArray:
    """Return probabilities that add up to 1."""
    array = check_array(value, name, ge=0, gt=0.0 if positive else None, ndim=ndim)
    if array.size < 2 or abs(float(array.sum()) - 1.0) > _ROUNDING:
        raise InvalidParameterError(
            f"{name} must be the probabilities of at least 2 cells and add up to 1, got "
            f"{array.size} with the sum {float(array.sum()):.12g}"
        )
    return np.asarray(array / array.sum())


def checked_seed(reps: int, rng: RNG, n_jobs: int | None) -> Seed:
    """Check what simulations take, and draw a seed once, for all evaluations."""
    Simulation.checked(check_reps(reps), None, n_jobs=n_jobs)
    return tuple(check_rng(rng).integers(0, 1 << 32, size=8).tolist())
