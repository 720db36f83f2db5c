"""Power of the chi-squared test of goodness of fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, final, get_args

import numpy as np

from dpinfer._check import RNG, FloatArray, check_array, check_length, check_option, freeze
from dpinfer.errors import ConvergenceError, InvalidParameterError
from dpinfer.hypothesis_tests._fitted_tables import LARGEST
from dpinfer.hypothesis_tests._noisy_tables import (
    STATISTICS,
    NoisyTable,
    SimulatedStatistic,
    Statistic,
)
from dpinfer.hypothesis_tests._quadratic.law import ACCEPTED_ERROR, QuadraticLaw
from dpinfer.hypothesis_tests.power._table_limits import critical_value, shifted_law
from dpinfer.hypothesis_tests.power._table_simulation import SimulatedDeviations, simulated_power
from dpinfer.hypothesis_tests.power._tables import TablePower, checked_probabilities, checked_seed
from dpinfer.mechanisms.independent import groups, integer_cells
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Gaussian
from dpinfer.planning.mechanisms import NoisePlan, check_plan

Method = Literal["exact", "monte-carlo", "asymptotic"]

_MOST_CELLS: dict[Statistic, float] = {"pearson": np.inf, "projected": 1024}
"""Cells up to which the asymptotic power is computed: eigenvalues for the projected statistic."""

_FEW = 12
"""With more cells exact laws are quick to compute whatever the noise."""

_VERY_FEW, _FEW_OBSERVATIONS = 3, 1000
"""With at most so many cells and observations they are if all is whole-numbered."""

_PART_OF_LEVEL = 1e-3
_CLEAR = 5e-12


@final
@dataclass(frozen=True, eq=False)
class GoodnessOfFitPower(TablePower):
    """Power and planning of the chi-squared test of goodness of fit.

    Parameters
    ----------
    value : array of float, shape (k,)
        Probabilities > 0 of the cells under the null hypothesis, which add up to 1.
    alternative_value : array of float, shape (k,)
        Their probabilities >= 0 under the alternative, at which ``effect`` is 1.
    %(mechanism_of_cells)s
    statistic : {"pearson", "projected"}
        As for :func:`dpinfer.chisquare`.
    method : {"exact", "monte-carlo", "asymptotic"}, optional
        Where the power comes from. By default it is exact for Pearson's statistic where that is
        quick, and simulated elsewhere. It is quick under Gaussian noise, in tables of more than
        12 cells, and in those of 2 or 3 cells with at most 1,000 observations and whole-numbered
        noise.
    %(replicates)s

    See Also
    --------
    dpinfer.chisquare : the test.

    Notes
    -----
    The cells have the probabilities p = value + effect·(alternative_value - value). Cohen's effect
    size w = √Σ(p - value)²/value is ``effect`` times that of the alternative, ``effect_size``.

    Exact: the law of Σ(y - n·value)²/(n·value) at p and at ``value`` by the inversion of
    characteristic functions. Where its error would exceed 1e-8, a
    :class:`~dpinfer.errors.ConvergenceError` says so: use another method.

    Asymptotic: y is normal with the mean n·p and the covariance n(diag(p) - ppᵀ) + diag(V). The law
    of the quadratic form is then computed to about 12 digits. It errs where counts are small, and
    where noise that is not Gaussian dominates.

    Examples
    --------
    >>> from dpinfer import Gaussian
    >>> plan = GoodnessOfFitPower([0.5, 0.3, 0.2], [0.4, 0.35, 0.25], Gaussian.from_rho)
    >>> plan.power(nobs=1000, budget=[0.001, 0.01]).round(4)
    array([0.9378, 0.9999])
    >>> round(plan.solve_power(nobs=1000, alpha=0.05, power=0.8, effect=1.0), 6)
    0.000586
    """

    value: Any
    alternative_value: Any
    mechanism: NoisePlan
    statistic: Statistic = field(default="pearson", kw_only=True)
    method: Method | None = field(default=None, kw_only=True)
    reps: int = field(default=10_000, kw_only=True)
    rng: RNG = field(default=None, kw_only=True)
    n_jobs: int | None = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        null = checked_probabilities(self.value, "value", 1, positive=True)
        given = self.alternative_value
        other = checked_probabilities(given, "alternative_value", 1, positive=False)
        check_length(other, "alternative_value", null.size, "the cells of value")
        if np.allclose(null, other, rtol=1e-12, atol=0.0):
            raise InvalidParameterError("alternative_value must differ from value, got the same")
        mechanism = check_plan(self.mechanism, null.shape)
        check_option(self.statistic, "statistic", STATISTICS)
        if self.method is not None:
            check_option(self.method, "method", get_args(Method))
        if self.method == "exact" and self.statistic != "pearson":
            raise InvalidParameterError(
                "method must be 'monte-carlo' or 'asymptotic' with statistic='projected', got "
                "'exact'"
            )
        if self.method == "asymptotic" and null.size > _MOST_CELLS[self.statistic]:
            raise InvalidParameterError(
                f"value must have at most {_MOST_CELLS[self.statistic]:.0f} cells with "
                f"method='asymptotic', got {null.size}: use method='monte-carlo'"
            )
        seed = checked_seed(self.reps, self.rng, self.n_jobs)
        self._set(
            value=freeze(null),
            alternative_value=freeze(other),
            mechanism=mechanism,
            _seed=seed,
        )

    @property
    def _cells(self) -> tuple[int, ...]:
        return (self.value.size,)

    @property
    def _line(self) -> tuple[FloatArray, FloatArray]:
        return self.value, self.alternative_value - self.value

    def _probability(
        self, law: NoiseLaw, alpha: float, nobs: int, value: FloatArray
    ) -> tuple[float, float]:
        check_array(law.variance, "the variance of mechanism", le=LARGEST**2)
        table = NoisyTable(nobs, nobs * self.value, law)
        return _POWERS[self.method](self, table, alpha, value)


def _exact(
    plan: GoodnessOfFitPower, table: NoisyTable, alpha: float, value: FloatArray
) -> tuple[float, float]:
    power, error = _exact_power(table, alpha, value)
    if not error <= _accepted(alpha):
        raise ConvergenceError(
            f"the exact power at nobs = {table.nobs} could be had with an error of "
            f"{min(error, 1.0):.1g} only: use method='monte-carlo' or 'asymptotic'"
        )
    return power, 0.0


def _exact_where_quick(
    plan: GoodnessOfFitPower, table: NoisyTable, alpha: float, value: FloatArray
) -> tuple[float, float]:
    """Return the exact power, or a simulated one where that would take seconds or fail."""
    if plan.statistic == "pearson" and _is_quick(table):
        power, error = _exact_power(table, alpha, value)
        if error <= _accepted(alpha):
            return power, 0.0
    return _monte_carlo(plan, table, alpha, value)


def _is_quick(table: NoisyTable) -> bool:
    """Whether the characteristic function decays fast, or there are few tables."""
    size = table.expected.size
    if size > _FEW or {type(law) for law, _ in groups(table.noise, size)} == {Gaussian}:
        return True
    few = size <= _VERY_FEW and table.nobs <= _FEW_OBSERVATIONS
    return few and bool(integer_cells(table.noise, size).all())


def _exact_power(table: NoisyTable, alpha: float, value: FloatArray) -> tuple[float, float]:
    """Return the exact power and the larger of the errors of the two laws."""
    null = table.pearson_law
    if not null.is_available:
        return np.nan, np.inf
    start = float(np.sum(1.0 + table.variance / table.expected))
    try:
        critical = critical_value(null.upper, alpha, 2.0 * start)
    except ConvergenceError:  # the law does not come near the level, for its error
        return np.nan, np.inf
    # atoms within rounding of the critical value are not to be told apart by rounding
    critical *= 1.0 + _CLEAR
    error = float(null.error(critical))
    if not error <= _accepted(alpha):
        return np.nan, error
    truth = QuadraticLaw(table.nobs, value, table.expected, 1.0 / table.expected, table.noise)
    return float(truth.upper(critical)), max(error, float(truth.error(critical)))


def _accepted(alpha: float) -> float:
    """Error accepted: a small part of the level, too."""
    return min(ACCEPTED_ERROR, _PART_OF_LEVEL * alpha)


def _asymptotic(
    plan: GoodnessOfFitPower, table: NoisyTable, alpha: float, value: FloatArray
) -> tuple[float, float]:
    null = shifted_law(table, table.expected, plan.statistic)
    critical = null.critical_value(alpha)
    return shifted_law(table, table.nobs * value, plan.statistic).upper(critical), 0.0


def _monte_carlo(
    plan: GoodnessOfFitPower, table: NoisyTable, alpha: float, value: FloatArray
) -> tuple[float, float]:
    truth = NoisyTable(table.nobs, table.nobs * value, table.noise)
    return simulated_power(
        SimulatedStatistic(table, plan.statistic),
        SimulatedDeviations(table, truth, plan.statistic),
        alpha,
        value.size,
        plan._simulation(),
    )


_POWERS: dict[
    Method | None,
    Callable[[GoodnessOfFitPower, NoisyTable, float, FloatArray], tuple[float, float]],
] = {
    "exact": _exact,
    "monte-carlo": _monte_carlo,
    "asymptotic": _asymptotic,
    None: _exact_where_quick,
}
