"""Power of the chi-squared test of goodness of fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._numerics.roots import find_root
from dpinfer._numerics.weighted_chi2 import RankOne, WeightedChi2
from dpinfer._validation import RNG, FloatArray, check_length, check_option, check_reps
from dpinfer.errors import ConvergenceError, InvalidParameterError
from dpinfer.hypothesis_tests._quadratic.law import ACCEPTED_ERROR, QuadraticLaw
from dpinfer.hypothesis_tests.power._plan import NoisePlan, check_plan
from dpinfer.hypothesis_tests.power._tables import TablePower, checked_probabilities, drawn_seed
from dpinfer.hypothesis_tests.tables._noisy_table import (
    STATISTICS,
    NoisyTable,
    SimulatedStatistic,
    Statistic,
)
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.results.simulation import BLOCK

Method = Literal["exact", "monte-carlo", "asymptotic"]

_CELLS_IN_BLOCK = 1 << 16
_MOST_CELLS = 4096
"""Cells up to which the eigenvalues of a statistic are computed."""


@final
@dataclass(frozen=True)
class GoodnessOfFitPower(TablePower):
    """Power and planning of the chi-squared test of goodness of fit.

    Parameters
    ----------
    value, alternative : array of float, shape (k,)
        Probabilities > 0 of the cells under the null hypothesis, and under the alternative whose
        ``effect`` is 1.
    mechanism : NoiseLaw or callable
        The law of the noise in the counts, of shape () or (k,), or a function that makes it from a
        privacy budget, such as :meth:`Laplace.from_epsilon`.
    statistic : {"pearson", "projected"}
        As for :func:`dpinfer.chisquare`.
    method : {"exact", "monte-carlo", "asymptotic"}, optional
        By default exact for Pearson's statistic under noise that is Gaussian, discrete Gaussian
        or none, where that is quick, and Monte Carlo otherwise.
    reps : int, default 10_000
        Number of replicates, for the critical value and for the power.
    rng : None, int or numpy.random.Generator
        What the seed is drawn from, once: the powers of one plan are of the same replicates.
    n_jobs : int or None, default 1
        Number of workers that simulate, as joblib takes it.

    Notes
    -----
    The cells have the probabilities p = value + effect·(alternative - value). Cohen's effect size
    w = √Σ(p - value)²/value is ``effect`` times that of the alternative, :attr:`effect_size`.

    Exact: the law of Σ(y - n·value)²/(n·value) at p and at ``value`` by the inversion of
    characteristic functions. Where its error would exceed 1e-8, a
    :class:`~dpinfer.ConvergenceError` says so: use another method.

    Asymptotic: y is normal with the mean n·p and the covariance n(diag(p) - ppᵀ) + diag(V). The law
    of the quadratic form is then computed to about 12 digits. It errs where counts are small, and
    where noise that is not Gaussian dominates.

    See Also
    --------
    dpinfer.chisquare : the test.

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
    alternative: Any
    mechanism: NoisePlan
    statistic: Statistic = field(default="pearson", kw_only=True)
    method: Method | None = field(default=None, kw_only=True)
    reps: int = field(default=10_000, kw_only=True)
    rng: RNG = field(default=None, kw_only=True)
    n_jobs: int | None = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        null = checked_probabilities(self.value, "value", 1)
        other = checked_probabilities(self.alternative, "alternative", 1)
        check_length(other, "alternative", null.size, "the cells of value")
        if np.allclose(null, other, rtol=1e-12, atol=0.0):
            raise InvalidParameterError("alternative must differ from value, got the same")
        check_plan(self.mechanism, null.shape)
        check_option(self.statistic, "statistic", STATISTICS)
        if self.method is not None:
            check_option(self.method, "method", _POWERS)
        if self.method == "exact" and self.statistic != "pearson":
            raise InvalidParameterError(
                "method must be 'monte-carlo' or 'asymptotic' with statistic='projected', got "
                "'exact'"
            )
        check_reps(self.reps)
        checked = {"value": null, "alternative": other, "seed": drawn_seed(self.rng)}
        for name, part in checked.items():
            object.__setattr__(self, name, part)

    @property
    def effect_size(self) -> float:
        """Cohen's w of the alternative."""
        return float(np.sqrt((np.square(self.alternative - self.value) / self.value).sum()))

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
        alpha : float or array of float, default 0.05
            Level of the test, in (0, 1).
        budget : float or array of float, optional
            Privacy budget > 0, where ``mechanism`` is a function of it.

        Returns
        -------
        float or array of float
            The power, in the shape to which the arguments broadcast. :meth:`power_frame` has its
            Monte Carlo error, too.

        Raises
        ------
        InvalidParameterError
            If an argument is outside what is allowed.
        ConvergenceError
            If the exact power cannot be had to 1e-8.
        """
        return self._evaluate({"nobs": nobs, "effect": effect, "alpha": alpha, "budget": budget})

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
        nobs, effect, alpha, budget
            As for :meth:`power`, as single numbers.
        power : float
            The power to be reached, in (0, 1).

        Returns
        -------
        float
            The smallest that reaches the power. ``nobs`` is a whole number, at which the power is
            reached and at the number before it is not; the power may fall below it again, by the
            little that rounding to whole counts makes.

        Raises
        ------
        InvalidParameterError
            If not exactly one argument is None, or if the power cannot be reached.
        """
        return self._solve(
            {"nobs": nobs, "effect": effect, "alpha": alpha, "power": power, "budget": budget}
        )

    @property
    def _cells(self) -> tuple[int, ...]:
        return (self.value.size,)

    @property
    def _line(self) -> tuple[FloatArray, FloatArray]:
        return self.value, self.alternative - self.value

    def _probability(
        self, law: NoiseLaw, alpha: float, nobs: int, value: FloatArray
    ) -> tuple[float, float]:
        table = NoisyTable(nobs, nobs * self.value, law)
        default: Method = "monte-carlo"
        if self.statistic == "pearson" and table.has_gaussian_noise:
            default = "exact"
        return _POWERS[self.method or default](self, table, alpha, value)


def _exact(
    plan: GoodnessOfFitPower, table: NoisyTable, alpha: float, value: FloatArray
) -> tuple[float, float]:
    null = table.pearson_law
    truth = QuadraticLaw(table.nobs, value, table.expected, 1.0 / table.expected, table.noise)
    if not null.is_available:
        raise ConvergenceError(
            "the exact law is not available for this noise: use method='monte-carlo' or "
            "'asymptotic'"
        )
    critical = _critical(null.upper, alpha, _limit(table, plan.value, "pearson").mean)
    error = max(float(null.error(critical)), float(truth.error(critical)))
    if error > ACCEPTED_ERROR:
        raise ConvergenceError(
            f"the exact power at nobs = {table.nobs} could be had with an error of "
            f"{min(error, 1.0):.1g} only: use method='monte-carlo' or 'asymptotic'"
        )
    return float(truth.upper(critical)), 0.0


def _asymptotic(
    plan: GoodnessOfFitPower, table: NoisyTable, alpha: float, value: FloatArray
) -> tuple[float, float]:
    null = _limit(table, plan.value, plan.statistic)
    critical = _critical(null.upper, alpha, null.mean)
    truth = _limit(table, value, plan.statistic)
    return float(truth.upper(np.asarray(critical))), 0.0


def _monte_carlo(
    plan: GoodnessOfFitPower, table: NoisyTable, alpha: float, value: FloatArray
) -> tuple[float, float]:
    null = SimulatedStatistic(table, plan.statistic)
    rejections = partial(DrawRejections, table, value, plan.statistic)
    block = min(BLOCK, max(1, _CELLS_IN_BLOCK // value.size))
    return plan._simulated(null, rejections, alpha, block)


_POWERS: dict[
    Method,
    Callable[[GoodnessOfFitPower, NoisyTable, float, FloatArray], tuple[float, float]],
] = {"exact": _exact, "monte-carlo": _monte_carlo, "asymptotic": _asymptotic}


@dataclass(frozen=True)
class DrawRejections:
    """Draws whether tables with other probabilities are rejected."""

    table: NoisyTable
    value: FloatArray
    statistic: Statistic
    critical: float

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw so many."""
        truth = NoisyTable(self.table.nobs, self.table.nobs * self.value, self.table.noise)
        deviations = truth.draw_deviations(size, rng) + (truth.expected - self.table.expected)
        form = STATISTICS[self.statistic](self.table)(deviations)
        return (form >= self.critical).astype(np.float64)


def _critical(upper: Callable[[FloatArray], FloatArray], alpha: float, start: float) -> float:
    """Return the smallest value whose tail is at most alpha."""

    def margin(q: FloatArray, _: Any) -> FloatArray:
        return np.asarray(np.log(np.maximum(upper(q), 1e-300)) - np.log(alpha))

    _, high = find_root(margin, np.zeros(1), np.full(1, 2.0 * start), rtol=1e-12, expand=True)
    return float(high[0])


def _limit(table: NoisyTable, value: FloatArray, statistic: Statistic) -> WeightedChi2:
    """Law of the statistic where the published counts are normal."""
    if value.size > _MOST_CELLS:
        raise InvalidParameterError(
            f"value must have at most {_MOST_CELLS} cells with method='asymptotic', got "
            f"{value.size}: use method='monte-carlo'"
        )
    root = _form_root(table, statistic)
    covariance = np.diag(table.nobs * value + table.variance)
    covariance -= table.nobs * np.outer(value, value)
    shift = root @ (table.nobs * value - table.expected)
    sizes, vectors = np.linalg.eigh(root @ covariance @ root.T)
    shares = np.square(vectors.T @ shift)
    kept = sizes > sizes[-1] * 1e-13
    return WeightedChi2(
        RankOne(sizes[kept], np.zeros(np.count_nonzero(kept))),
        float(sizes[-1]),
        partial(_shifted, np.where(kept, sizes, 0.0), shares),
    )


def _shifted(sizes: FloatArray, shares: FloatArray, s: Any) -> Any:
    """Σ δ²·s/(1 - 2λs)."""
    return (1.0 / (1.0 - 2.0 * np.multiply.outer(s, sizes))) @ shares * s


def _form_root(table: NoisyTable, statistic: Statistic) -> FloatArray:
    """Return B with the statistic abs(B d)² of deviations d."""
    if statistic == "pearson":
        return np.diag(1.0 / np.sqrt(table.expected))
    # a quadratic form by its values at the unit vectors and at their sums
    form = STATISTICS[statistic](table)
    unit = np.eye(table.expected.size)
    single = form(unit)
    pairs = form(unit[:, np.newaxis, :] + unit)
    gram = 0.5 * (pairs - single[:, np.newaxis] - single)
    sizes, vectors = np.linalg.eigh(gram)
    return np.asarray(np.sqrt(np.maximum(sizes, 0.0))[:, np.newaxis] * vectors.T)
