"""Power of the test whether two tables are the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpinfer._check import RNG, FloatArray, check_array, check_option, freeze
from dpinfer._numerics.chi2 import WeightedChi2
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests.counts import (
    STATISTICS,
    DrawTables,
    Method,
    NoiseOnly,
    Statistic,
    checked_method,
    differences,
    max_upper,
)
from dpinfer.hypothesis_tests.models import draws_in_block, law_pair
from dpinfer.hypothesis_tests.power._plan import PowerPlan
from dpinfer.hypothesis_tests.power._rejections import Beyond, simulated_rate
from dpinfer.hypothesis_tests.power._table_limits import critical_value
from dpinfer.hypothesis_tests.power._table_simulation import simulated_power
from dpinfer.hypothesis_tests.power._tables import Seed, checked_seed
from dpinfer.mechanisms.independent import IndependentNoise
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Gaussian
from dpinfer.planning.mechanisms import NoisePlan, check_plan
from dpinfer.planning.plan import Columns
from dpinfer.results.simulation import Simulation

_LARGEST_DIFFERENCE = 1e15
"""Beyond it, neighbouring whole numbers run together."""

_MISSED = 1e-17
"""Chance of missing the largest difference that is looked for."""


@final
@dataclass(frozen=True, eq=False)
class PairedCountsPower(PowerPlan):
    """Power and planning of the test whether two tables are the same.

    Parameters
    ----------
    difference : array of float, shape (k,)
        The differences of the confidential counts of k cells, first table less second, at which
        ``effect`` is 1; not all 0.
    mechanism : NoiseLaw, (Mechanism, Mechanism) or callable
        The law of the noise: one for both tables, or a pair. Each has scalar parameters or one
        for each cell. Or a function that makes one for both from a privacy budget, such as
        :meth:`Laplace.from_epsilon`. With a function ``budget`` is one of the arguments.
    statistic : {"max", "chi2"}
        As for :func:`dpinfer.counts_paired`.
    method : {"exact", "monte-carlo", "asymptotic"}, optional
        Which null distribution the test uses; by default that of the test, exact for ``"max"``
        and simulated for ``"chi2"``.
    %(replicates)s

    See Also
    --------
    dpinfer.counts_paired : the test.

    Notes
    -----
    The published differences are dᵢ = effect·differenceᵢ + eᵢ. The largest, abs(dᵢ)/σᵢ, is not
    rejected up to a critical value c, and the exact power is 1 - Π P(abs(dᵢ) <= c·σᵢ). The sum of
    squares has a noncentral χ² law where the noise is Gaussian, and its power is that of this law,
    whatever the method. Under other noise it is simulated: ``power_frame`` has the Monte Carlo
    error, which includes that of the critical value where this is simulated, too. Only the noise
    is random: there is no number of observations.

    Examples
    --------
    Which budget shows that one of ten cells changed by 20?

    >>> from dpinfer import Geometric
    >>> plan = PairedCountsPower([20] + 9 * [0], Geometric.from_epsilon)
    >>> plan.power(budget=[0.1, 0.3, 0.5]).round(3)
    array([0.059, 0.353, 0.953])
    >>> round(plan.solve_power(effect=1, alpha=0.05, power=0.8), 3)
    0.407
    """

    difference: Any
    mechanism: Any
    statistic: Statistic = field(default="max", kw_only=True)
    method: Method | None = field(default=None, kw_only=True)
    reps: int = field(default=10_000, kw_only=True)
    rng: RNG = field(default=None, kw_only=True)
    n_jobs: int | None = field(default=1, kw_only=True)
    _seed: Seed = field(init=False, repr=False, compare=False)

    _own = ("effect",)

    def __post_init__(self) -> None:
        limit = _LARGEST_DIFFERENCE
        cells = check_array(self.difference, "difference", ndim=1, ge=-limit, le=limit)
        if not cells.any():
            raise InvalidParameterError(
                "difference must have a cell that is not 0: it is the alternative"
            )
        checked_method(self.method, check_option(self.statistic, "statistic", STATISTICS))
        self._set(
            difference=freeze(cells),
            mechanism=_checked_mechanism(self.mechanism, cells.size),
            _seed=checked_seed(self.reps, self.rng, self.n_jobs),
        )
        if isinstance(self.mechanism, NoiseLaw):
            self._noise(self.mechanism)

    def power(
        self,
        effect: ArrayLike = 1.0,
        alpha: ArrayLike = 0.05,
        budget: ArrayLike | None = None,
    ) -> Any:
        """Probability that the test rejects.

        Parameters
        ----------
        effect : float or array of float, default 1
            The confidential differences as a multiple of ``difference``.
        %(alpha_and_budget)s

        %(returns)s

        Raises
        ------
        InvalidParameterError
            If an argument is outside what is allowed, or a difference has no noise.
        """
        return self._evaluate(effect=effect, alpha=alpha, budget=budget)

    def solve_power(
        self,
        *,
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
            The smallest that reaches the power; ``effect`` is above 0. With simulated powers it
            is that of the replicates of this plan.

        %(raises_unsolved)s
        """
        return self._solve(effect=effect, alpha=alpha, power=power, budget=budget)

    @property
    def _cells(self) -> tuple[int, ...]:
        return (self.difference.size,)

    def _check(self, name: str, value: Any) -> FloatArray:
        limit = _LARGEST_DIFFERENCE / float(np.abs(self.difference).max())
        return check_array(value, name, ge=-limit, le=limit)

    def _effects(self, name: str, columns: Columns) -> tuple[float, float]:
        problem = self._noise(self._law_at(columns))
        size, alpha = np.abs(self.difference), float(columns["alpha"])
        critical = self._critical(problem, alpha)
        if critical is None:  # Markov: P(Σ z² >= k/α) <= α
            critical = float(np.sqrt(size.size / alpha))
        elif self.statistic == "chi2":
            critical = float(np.sqrt(critical))
        law = problem.laws[problem.which[int(size.argmax())]]
        missed = float(law._isf(np.asarray(_MISSED)))
        farthest = (critical * float(law.std) + missed) / float(size.max())
        return 0.0, min(farthest, _LARGEST_DIFFERENCE / float(size.max()))

    def _range(self, name: str, columns: Columns) -> tuple[float, float]:
        low, high = super()._range(name, columns)
        if name == "alpha":
            law = self._law_at(columns)
            if self._critical(self._noise(law), 0.5) is None:
                low = (1.0 + 1e-9) / (self.reps + 1.0)  # replicates show no smaller level
        return low, high

    def _noise(self, law: NoiseLaw) -> NoiseOnly:
        """Return the laws of the noise of the differences."""
        nothing = np.zeros(self.difference.shape)
        return differences(nothing, nothing, 0.0, _pair(law, nothing.size))[0]

    def _reject(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        problem = self._noise(law)
        critical = self._critical(problem, alpha)
        found = [
            self._rejected(problem, alpha, critical, effect * self.difference)
            for effect in columns["effect"].tolist()
        ]
        power, error = np.array(found).reshape(-1, 2).T
        return power, error

    def _critical(self, problem: NoiseOnly, alpha: float) -> float | None:
        """Return the critical value of the test, or None where it is simulated."""
        method = checked_method(self.method, self.statistic)
        if method == "exact":
            return critical_value(partial(max_upper, problem), alpha, 4.0)
        if self.statistic == "chi2" and (method == "asymptotic" or _is_gaussian(problem)):
            return float(special.chdtri(problem.which.size, alpha))
        return None

    def _rejected(
        self, problem: NoiseOnly, alpha: float, critical: float | None, shift: FloatArray
    ) -> tuple[float, float]:
        """Power and Monte Carlo error at true differences; ``critical`` is None if simulated."""
        if critical is not None and (self.statistic == "max" or _is_gaussian(problem)):
            return _KNOWN[self.statistic](problem, critical, shift), 0.0
        source = np.random.default_rng(self._seed)  # the same each time: powers are comparable
        simulation = Simulation.checked(self.reps, source, n_jobs=self.n_jobs)
        spread = shift / problem.spread
        truth = DrawTables(problem.laws, problem.which, self.statistic, spread)
        if critical is None:
            null = DrawTables(problem.laws, problem.which, self.statistic)
            return simulated_power(null, truth, alpha, shift.size, simulation)
        return simulated_rate(Beyond(truth, critical), simulation, draws_in_block(shift.size))


def _max_power(problem: NoiseOnly, critical: float, shift: FloatArray) -> float:
    """1 - Π P(abs(e + shift) <= c·σ): the critical value is just above what is not rejected."""
    within = 0.0
    size = np.abs(shift)
    with np.errstate(divide="ignore"):
        for number, law in enumerate(problem.laws):
            own = size[problem.which == number]
            end = critical * float(law.std)
            # whole numbers exactly; other noise is at the critical value with probability 0
            is_whole = law.is_integer & (own == np.rint(own))
            reach = np.where(is_whole, np.floor(end), end)
            beyond = law._sf(reach - own) + law._sf(reach + own)
            within += float(np.log1p(-np.minimum(beyond, 1.0)).sum())
    return float(-np.expm1(within))


def _chi2_power(problem: NoiseOnly, critical: float, shift: FloatArray) -> float:
    """Tail of noncentral χ²; only the sum of the squared means matters."""
    means = np.zeros(shift.size)
    means[0] = float(np.linalg.norm(shift / problem.spread))
    law = WeightedChi2.from_eigenvalues(np.ones(shift.size), means)
    return float(law.upper(np.asarray(critical)))


_KNOWN: dict[Statistic, Callable[[NoiseOnly, float, FloatArray], float]] = {
    "max": _max_power,
    "chi2": _chi2_power,
}


def _is_gaussian(problem: NoiseOnly) -> bool:
    """Whether all differences are normal."""
    return all(isinstance(law, Gaussian) for law in problem.laws)


def _checked_mechanism(mechanism: Any, cells: int) -> NoisePlan:
    """Return a law for one count or each of k, the laws of both tables in a row, or a function."""
    if not isinstance(mechanism, (list, tuple)):
        return check_plan(mechanism, (cells,))
    pair = law_pair(mechanism, cells, "mechanism")
    both = [law.take(cell) if law.shape else law for law in pair for cell in range(cells)]
    return IndependentNoise(both)


def _pair(law: NoiseLaw, cells: int) -> NoiseLaw | tuple[NoiseLaw, NoiseLaw]:
    """Return the laws of both tables."""
    if law.shape != (2 * cells,):
        return law
    return law.take(np.arange(cells)), law.take(np.arange(cells, 2 * cells))
