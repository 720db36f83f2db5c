"""Plans of the chi-squared tests: of goodness of fit, independence, homogeneity and of models."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray, check_array, check_length, check_option, freeze
from dpinfer._numerics.chi2 import WeightedChi2
from dpinfer._planning.engine import Columns, NoisePlan, check_law, check_plan
from dpinfer._planning.replicates import (
    EffectPower,
    critical_value,
    simulated_power,
    simulated_rate,
)
from dpinfer.errors import ConvergenceError, InvalidParameterError
from dpinfer.hypothesis_tests._fitted_tables import (
    LARGEST,
    Fit,
    ProductMargins,
    RowMargins,
    TableDraws,
    TableModel,
)
from dpinfer.hypothesis_tests._fitted_tables import STATISTICS as FITTED_STATISTICS
from dpinfer.hypothesis_tests._noisy_tables import (
    SMALL_EXPECTED,
    STATISTICS,
    NoiseForm,
    NoisyTable,
    SimulatedStatistic,
    Statistic,
)
from dpinfer.hypothesis_tests._quadratic.law import ACCEPTED_ERROR, QuadraticLaw
from dpinfer.hypothesis_tests.goodness_of_fit import (
    ParametricMargins,
    ProbabilityModel,
    checked_model,
)
from dpinfer.mechanisms.independent import as_noise, groups, integer_cells
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Gaussian
from dpinfer.results.null import bounds_of

_ROUNDING = 1e-9
"""Allowed deviation from 1 of the sum of probabilities."""

_MOST_CELLS: dict[Statistic, float] = {"pearson": np.inf, "projected": 1024}
"""Cells up to which the asymptotic power is computed: eigenvalues for the projected statistic."""

_FEW = 12
"""With more cells exact laws are quick to compute whatever the noise."""

_VERY_FEW, _FEW_OBSERVATIONS = 3, 1000
"""With at most so many cells and observations they are if all is whole-numbered."""

_PART_OF_LEVEL = 1e-3
_CLEAR = 5e-12

_FEWEST_RELEASES, _MOST_RELEASED = 64, 1 << 12
"""Releases drawn to see whether a test decides: their least number, and their cells in all."""

_FEW_UNDECIDED = 0.02

_TESTS_TOGETHER = 1 << 9
"""Releases that are drawn and tested at a time."""

_SAME = 1e-12

_SMALLEST_MARGIN = 1e-9

_NOBS = 1e6
"""Observations of the table without noise to which the null hypothesis is fitted."""

_STEPS = 6
"""Steps from the true parameters in which the estimates from releases settle."""


_NEGLIGIBLE = 1e-12
"""Variances this small, in units of the largest, are 0 but for rounding."""

_UNDECIDED = -1.0
"""Stands for the statistic of a table that is not decided: below all statistics."""

_FIRST, _LAST = 0.8, 100.0
"""Expected exceedances at the level after which a test is first, and last looked at."""

_SURE = 1e-3
"""Probability at the level of the exceedances that end a test before."""

_CELLS_AT_ONCE = 1 << 18
"""Cells of replicates held at a time."""


@dataclass(frozen=True, eq=False, kw_only=True)
class _TablePower(EffectPower):
    """Power of a chi-squared test, looked for around that of the limit."""

    statistic: Statistic = "pearson"

    def guess(self, name: str, known: Columns, target: float) -> float | None:
        if self.method == "asymptotic":
            return None
        return self.found_by(name, known, target, method="asymptotic", rng=0)

    def doubts(self, columns: Columns) -> list[str]:
        if self.method != "asymptotic":
            return []
        doubts, null = [], self.line[0].ravel()
        small = columns["nobs"].min() * null.min()
        if small < SMALL_EXPECTED:
            doubts.append(f"expected counts as small as {small:.3g}, below {SMALL_EXPECTED:g}")
        budgets = columns["budget"] if self.has_budget else np.zeros(1)
        laws = (self.law(float(budget)) for budget in np.unique(budgets))
        if not all(NoisyTable(1, null, law).has_gaussian_noise for law in laws):
            doubts.append("noise that is not Gaussian")
        return [f"{doubt}: the asymptotic power is approximate" for doubt in doubts]


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class GoodnessOfFitPower(_TablePower):
    """Power of the chi-squared test of goodness of fit, :func:`dpinfer.chisquare`.

    - ``nobs``: number n of observations, whole, at least 1.
    - ``effect``: how far the truth is on the way from ``value`` to ``truth``, by default 1; at most
      where a cell is empty.
    - ``value``: probabilities > 0 of the cells under the null hypothesis, shape (k,), which add up
      to 1; ``truth``: the true ones, >= 0.
    - ``statistic``: ``"pearson"`` or ``"projected"``.
    - ``method``: where the power comes from, ``"exact"``, ``"monte-carlo"`` or ``"asymptotic"``. By
      default it is exact for Pearson's statistic where that is quick, and simulated elsewhere. It
      is quick under Gaussian noise, in tables of more than 12 cells, and in those of 2 or 3 cells
      with at most 1,000 observations and whole-numbered noise.
    - ``reps``, ``rng``, ``n_jobs``: of replicates, where powers are simulated.

    The cells have the probabilities p = value + effect·(truth - value). Cohen's effect size
    w = √Σ(p - value)²/value is ``effect`` times that of ``truth``.

    Exact: the law of Σ(y - n·value)²/(n·value) at p and at ``value`` by the inversion of
    characteristic functions. Where its error would exceed 1e-8, a ConvergenceError says so: use
    another method.

    Asymptotic: y is normal with the mean n·p and the covariance n(diag(p) - ppᵀ) + diag(V). The law
    of the quadratic form is then computed to about 12 digits. It errs where counts are small, and
    where noise that is not Gaussian dominates.
    """

    value: Any
    method: Literal["exact", "monte-carlo", "asymptotic"] | None = None

    def prepare(self) -> None:
        super().prepare()
        null = _probabilities(self.value, "value", 1, positive=True)
        other = _probabilities(self.truth, "truth", 1)
        check_length(other, "truth", null.size, "the cells of value")
        if np.allclose(null, other, rtol=_SAME, atol=0.0):
            raise InvalidParameterError("truth must differ from value, got the same")
        check_option(self.statistic, "statistic", STATISTICS)
        if self.method is not None:
            check_option(self.method, "method", ("exact", "monte-carlo", "asymptotic"))
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
        self.set(value=freeze(null), truth=freeze(other))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.value.size,)

    @property
    def line(self) -> tuple[FloatArray, FloatArray]:
        return self.value, self.truth - self.value

    def probability(
        self, law: NoiseLaw, alpha: float, nobs: int, value: FloatArray
    ) -> tuple[float, float]:
        check_array(law.variance, "the variance of mechanism", le=LARGEST**2)
        table = NoisyTable(nobs, nobs * self.value, law)
        if self.method == "asymptotic":
            null = _shifted_law(table, table.expected, self.statistic)
            truth = _shifted_law(table, nobs * value, self.statistic)
            return truth.upper(null.critical_value(alpha)), 0.0
        wanted = self.method == "exact"
        if wanted or (self.method is None and self.statistic == "pearson" and _is_quick(table)):
            power, error = _exact_power(table, alpha, value)
            if error <= _accepted(alpha):
                return power, 0.0
            if wanted:
                raise ConvergenceError(
                    f"the exact power at nobs = {nobs} could be had with an error of "
                    f"{min(error, 1.0):.1g} only: use method='monte-carlo' or 'asymptotic'"
                )
        return simulated_power(
            SimulatedStatistic(table, self.statistic),
            partial(_deviating, table, NoisyTable(nobs, nobs * value, law), self.statistic),
            alpha,
            value.size,
            self.simulation(),
        )


def _is_quick(table: NoisyTable) -> bool:
    size = table.expected.size
    if size > _FEW or {type(law) for law, _ in groups(table.noise, size)} == {Gaussian}:
        return True
    few = size <= _VERY_FEW and table.nobs <= _FEW_OBSERVATIONS
    return few and bool(integer_cells(table.noise, size).all())


def _exact_power(table: NoisyTable, alpha: float, value: FloatArray) -> tuple[float, float]:
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


@dataclass(frozen=True, eq=False, kw_only=True)
class _FittedPower(_TablePower):
    """Power of a test that fits the null hypothesis to each table."""

    statistic: Statistic = "projected"
    method: Literal["monte-carlo", "asymptotic"] = "monte-carlo"

    @abstractmethod
    def _model(self, law: NoiseLaw, nobs: int) -> TableModel:
        """Return how tables are published and fitted."""

    def _model_at(self, law: NoiseLaw, nobs: int, value: FloatArray) -> TableModel:
        """Return how tables are fitted that arise from other probabilities."""
        return self._model(law, nobs)

    def _trials(self, nobs: int) -> NDArray[np.int64]:
        """Return numbers of observations, shape (g,): in all, or in each row."""
        return np.array([nobs], dtype=np.int64)

    def prepare(self) -> None:
        super().prepare()
        check_option(self.statistic, "statistic", STATISTICS)
        check_option(self.method, "method", ("monte-carlo", "asymptotic"))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.truth.size,)

    def checked_mechanism(self) -> NoisePlan:
        return check_plan(_flat(self.mechanism, self.truth.shape), self.shape)

    def law(self, budget: float) -> NoiseLaw:
        if isinstance(self.mechanism, NoiseLaw):
            return self.mechanism
        return check_law(_flat(self.mechanism(budget), self.truth.shape), self.shape, budget)

    def doubts(self, columns: Columns) -> list[str]:
        doubts = super().doubts(columns)
        budgets = columns["budget"] if self.has_budget else np.zeros(columns["nobs"].size)
        for budget in np.unique(budgets) if self.method == "asymptotic" else ():
            rows = np.flatnonzero(budgets == budget)
            row = rows[columns["nobs"][rows].argmin()]
            value = self.value_at(float(columns["effect"][row]))
            share = self._undecided(self.law(float(budget)), int(columns["nobs"][row]), value)
            if share > _FEW_UNDECIDED:
                doubts.append(
                    f"releases with {columns['nobs'][row]:.0f} observations, of which the test "
                    f"does not decide about {share:.0%}: the asymptotic power is approximate"
                )
        return doubts

    def _undecided(self, law: NoiseLaw, nobs: int, value: FloatArray) -> float:
        """Share of some releases in which an expected count is estimated to be small."""
        size = max(_FEWEST_RELEASES, _MOST_RELEASED // value.size)
        rng = np.random.default_rng(self._seed)
        return float(
            np.mean(_decided(self._releases(law, nobs, value), self.statistic, size, rng) < 0.0)
        )

    def probability(
        self, law: NoiseLaw, alpha: float, nobs: int, value: FloatArray
    ) -> tuple[float, float]:
        if self.method == "asymptotic":
            model = self._model_at(law, nobs, value)
            truth = (self._trials(nobs)[:, np.newaxis] * self._shares(value)).reshape(model.shape)
            return _fitted_power(model, truth, alpha, self.statistic), 0.0
        releases = self._releases(law, nobs, value)
        if self.statistic == "pearson":
            known = self._total_spread == 0.0
            tests = _NestedTests(releases, self.statistic, alpha, known)
            return simulated_rate(tests, self.simulation(), _TESTS_TOGETHER)
        shares = self._shares(self.line[0])[0]
        null = TableDraws(self._model(law, nobs), self._trials(nobs), shares, self.statistic)
        tables = partial(_decided, releases, self.statistic)
        return simulated_power(null, tables, alpha, value.size, self.simulation())

    def _releases(self, law: NoiseLaw, nobs: int, value: FloatArray) -> _Releases:
        model = self._model_at(law, nobs, value)
        return _Releases(model, self._trials(nobs), self._shares(value))

    def _shares(self, value: FloatArray) -> FloatArray:
        cells = value.reshape(self._trials(1).size, -1)
        return np.asarray(cells / cells.sum(axis=1, keepdims=True))

    def _variance(self, law: NoiseLaw) -> FloatArray:
        variance = np.broadcast_to(law.variance, self.shape).reshape(self.truth.shape)
        return check_array(variance, "the variance of mechanism", le=LARGEST**2)

    @property
    def _total_spread(self) -> float:
        """Variance of the noise in the number of observations, infinite if not published."""
        return np.inf


@dataclass(frozen=True, eq=False, kw_only=True)
class _NoisyTotalPower(_FittedPower):
    """Power of a test of a table whose number of observations may be published with noise."""

    nobs_mechanism: NoiseLaw | None = None

    def prepare(self) -> None:
        super().prepare()
        if self.nobs_mechanism is not None:
            law = as_noise(self.nobs_mechanism, 1, name="nobs_mechanism")
            self.set(nobs_mechanism=law.take(0) if law.shape else law)

    @property
    def _total_spread(self) -> float:
        total = self.nobs_mechanism
        return np.inf if total is None else float(total.variance)

    @property
    def _total_noise(self) -> NoiseLaw | None:
        return self.nobs_mechanism if 0.0 < self._total_spread < np.inf else None


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class IndependencePower(_NoisyTotalPower):
    """Power of the chi-squared test of independence, :func:`dpinfer.chi2_contingency`.

    - ``nobs``: number of observations, whole, at least 1.
    - ``effect``: how far the truth is on the way from independence to ``truth``, by default 1; at
      most where a cell is empty.
    - ``truth``: probabilities >= 0 of the cells, shape (r, c), which add up to 1 over the whole
      table; no row or column is empty.
    - ``nobs_mechanism``: the law of the noise in the published number of observations; ``Exact()``
      where that number is public. By default it is not published.
    - ``statistic``: ``"projected"`` or ``"pearson"``.
    - ``method``: ``"monte-carlo"`` simulates what the test does with releases; ``"asymptotic"`` is
      the limit of many observations.
    - ``reps``, ``rng``, ``n_jobs``: of replicates.

    Under the null hypothesis the cells have the probabilities q = aᵢ·bⱼ, the margins a and b being
    those of ``truth``. At an effect they are q + effect·(truth - q), with the same margins. Cohen's
    effect size w = √Σ(p - q)²/q is ``effect`` times that of ``truth``.

    Monte Carlo: releases at the truth are fitted as the test fits them. One counts as rejected
    where its statistic reaches the critical value, and as not rejected where an estimated expected
    count is below 5, so that the test does not decide. The critical value is simulated at q, while
    the test simulates it anew at the margins that it estimates: in 16 settings of 1,500 releases
    each it rejected as often as the power says, up to 1.8 standard errors.

    Asymptotic: noncentral χ² with (r - 1)(c - 1) degrees of freedom, whose noncentrality is the
    statistic of the expected counts themselves. That the test may not decide is left out: where it
    did not in 31 % of releases, the power was 0.60, and 0.92 by the limit.

    The critical value of Pearson's statistic depends much on the estimated margins where noise is
    large. Each release then has replicates of its own, up to 100/α of them, until they tell on
    which side of the level the p-value is, but for a probability of 0.001: a second for 1,000
    releases. In the limit the statistic is a weighted sum of noncentral χ², which errs where noise
    is large: with n = 600, 2 × 3 cells and Laplace noise of scale 15 the power at the level 0.1 is
    0.47 by the limit, and 0.41 by simulation.

    Kifer, D. and Rogers, R. (2017). A new class of private chi-square hypothesis tests. AISTATS,
    PMLR 54:991-1000. arXiv:1610.07662.
    """

    def prepare(self) -> None:
        super().prepare()
        table = _probabilities(self.truth, "truth", 2)
        _check_shape(table)
        rows, columns = table.sum(axis=1), table.sum(axis=0)
        if (smallest := min(rows.min(), columns.min())) < _SMALLEST_MARGIN:
            raise InvalidParameterError(
                f"truth must have sums of rows and columns >= {_SMALLEST_MARGIN:g}, got "
                f"{smallest:g}"
            )
        _check_differs(table, np.outer(rows, columns), "the product of its margins")
        self.set(truth=freeze(table))

    @cached_property
    def line(self) -> tuple[FloatArray, FloatArray]:
        null = np.outer(self.truth.sum(axis=1), self.truth.sum(axis=0))
        return null, self.truth - null

    def _model(self, law: NoiseLaw, nobs: int) -> TableModel:
        form = NoiseForm.published(self._variance(law), self._total_spread)
        return TableModel(self.truth.shape, ProductMargins(form), law, self._total_noise)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class HomogeneityPower(_FittedPower):
    """Power of the test of homogeneity, :func:`dpinfer.chi2_contingency` with ``row_totals``.

    - ``row_totals``: True, or the sizes of the groups, shape (r,), which count by their shares.
      Group i has its share of ``nobs`` members, rounded so that they add up to ``nobs``, but 1 at
      least; with True all have the same.
    - ``nobs``: number of observations in all groups, whole, at least 1; it is known.
    - ``effect``: how far the truth is on the way from homogeneity to ``truth``, by default 1; at
      most where a cell is empty.
    - ``truth``: probabilities >= 0 of the c answers in each of the r groups, shape (r, c). Each row
      adds up to 1, and no column is empty.
    - ``statistic``, ``method``, ``reps``, ``rng``, ``n_jobs``: as for independence, where it is
      also said how powers are simulated, and what the limits are.

    Under the null hypothesis the answers have the probabilities b in each group, the mean of the
    rows of ``truth`` weighted by the sizes of the groups. At an effect they are
    b + effect·(truth - b), with the same mean. Cohen's effect size is
    w = √Σᵢⱼ shareᵢ·(pᵢⱼ - bⱼ)²/bⱼ, ``effect`` times that of ``truth``.
    """

    row_totals: Any

    def prepare(self) -> None:
        super().prepare()
        table = check_array(self.truth, "truth", ge=0, ndim=2)
        _check_shape(table)
        table = np.array([_probabilities(row, "rows of truth", 1) for row in table])
        rows = len(table)
        totals = np.ones(rows)
        if self.row_totals is not True:
            totals = check_array(self.row_totals, "row_totals", gt=0, ndim=1)
            check_length(totals, "row_totals", rows, "the rows of truth")
        shares = totals / totals.sum()
        pooled = shares @ table
        if pooled.min() < _SMALLEST_MARGIN:
            raise InvalidParameterError(
                f"truth must have columns of a mean >= {_SMALLEST_MARGIN:g}, got {pooled.min():g}"
            )
        _check_differs(table, np.tile(pooled, (rows, 1)), "homogeneous, with all rows the same")
        self.set(truth=freeze(table), row_totals=freeze(shares))

    @cached_property
    def line(self) -> tuple[FloatArray, FloatArray]:
        pooled = self.row_totals @ self.truth
        shares = self.row_totals[:, np.newaxis]
        return shares * pooled, shares * (self.truth - pooled)

    def _trials(self, nobs: int) -> NDArray[np.int64]:
        return _group_sizes(self.row_totals, nobs)

    def _model(self, law: NoiseLaw, nobs: int) -> TableModel:
        margins = RowMargins(self._variance(law), self._trials(nobs).astype(np.float64))
        return TableModel(self.truth.shape, margins, law)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class CompositeFitPower(_NoisyTotalPower):
    """Power of the test of goodness of fit with estimated parameters, ``chisquare_fit``.

    - ``nobs``: number of observations, whole, at least 1.
    - ``effect``: how far the truth is on the way from the null hypothesis to ``truth``, by default
      1; at most where a cell is empty.
    - ``model``: ``model(theta)`` returns the probabilities of the k cells for parameters of shape
      (q,), with k >= q + 2; smooth. ``start``: parameters to start from; ``bounds``: smallest and
      largest value of each, infinite ones allowed.
    - ``truth``: probabilities >= 0 of the cells, shape (k,), which add up to 1.
    - ``nobs_mechanism``: as for independence.
    - ``method``: ``"monte-carlo"`` simulates what the test does with releases; ``"asymptotic"`` is
      the limit of many observations.
    - ``reps``, ``rng``, ``n_jobs``: of replicates.

    The null hypothesis is p₀ = model(θ) at the θ whose probabilities are nearest to ``truth``: the
    maximum of its likelihood. At an effect the cells have the probabilities
    p₀ + effect·(truth - p₀). Cohen's effect size w = √Σ(p - p₀)²/p₀ is ``effect`` times that of
    ``truth``. The statistic is the projected one, the default of the test.

    Monte Carlo: as for independence. The critical value is simulated at p₀, while the test
    simulates it anew at the parameters that it estimates. A power takes about 16·(2q + 1) calls of
    ``model`` for each replicate. Asymptotic: noncentral χ² with k - 1 - q degrees of freedom, whose
    noncentrality is the statistic of the expected counts themselves.

    Kifer, D. and Rogers, R. (2017). A new class of private chi-square hypothesis tests. AISTATS,
    PMLR 54:991-1000. arXiv:1610.07662.
    """

    model: ProbabilityModel
    start: Any
    bounds: Any = None
    _null: ParametricMargins = field(init=False, repr=False)

    def prepare(self) -> None:
        super().prepare()
        if self.statistic != "projected":
            raise InvalidParameterError(
                f"statistic must be 'projected' to plan chisquare_fit, got {self.statistic!r}"
            )
        other = _probabilities(self.truth, "truth", 1)
        cells, theta = checked_model(self.model, self.start, self.bounds, other.size, "truth")
        exact = NoiseForm.published(np.zeros(other.shape), np.inf)
        null = ParametricMargins(cells, exact, theta).converged(_NOBS * other, None)
        self.set(truth=freeze(other), _null=null)
        _check_differs(other, self.line[0], "a value of model")

    @cached_property
    def line(self) -> tuple[FloatArray, FloatArray]:
        null = self._null.cells.checked(self._null.theta)
        return null, self.truth - null

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "params": self._null.theta.tolist()}

    def _model(self, law: NoiseLaw, nobs: int) -> TableModel:
        return self._published(law, self._margins(law))

    def _model_at(self, law: NoiseLaw, nobs: int, value: FloatArray) -> TableModel:
        margins = self._margins(law).converged(nobs * value, nobs)
        return self._published(law, replace(margins, steps=_STEPS))

    def _margins(self, law: NoiseLaw) -> ParametricMargins:
        form = NoiseForm.published(self._variance(law), self._total_spread)
        return replace(self._null, form=form)

    def _published(self, law: NoiseLaw, margins: ParametricMargins) -> TableModel:
        return TableModel(self.truth.shape, margins, law, self._total_noise)


def _group_sizes(shares: FloatArray, nobs: int) -> NDArray[np.int64]:
    ends = np.rint(np.cumsum(shares) * nobs)
    return np.asarray(np.maximum(np.diff(ends, prepend=0.0), 1.0), dtype=np.int64)


def _probabilities(value: Any, name: str, ndim: int, *, positive: bool = False) -> FloatArray:
    array = check_array(value, name, ge=0, gt=0.0 if positive else None, ndim=ndim)
    if array.size < 2 or abs(float(array.sum()) - 1.0) > _ROUNDING:
        raise InvalidParameterError(
            f"{name} must be the probabilities of at least 2 cells and add up to 1, got "
            f"{array.size} with the sum {float(array.sum()):.12g}"
        )
    return np.asarray(array / array.sum())


def _check_shape(table: FloatArray) -> None:
    if min(table.shape) < 2:
        raise InvalidParameterError(
            f"truth must have at least 2 rows and 2 columns, got shape {table.shape}"
        )


def _check_differs(value: FloatArray, null: FloatArray, reason: str) -> None:
    if np.allclose(value, null, rtol=_SAME, atol=0.0):
        raise InvalidParameterError(f"truth must not be {reason}")


def _flat(mechanism: Any, shape: tuple[int, ...]) -> Any:
    """Return a law of the cells of a table as one of a vector; anything else as it is."""
    if isinstance(mechanism, NoiseLaw) and mechanism.shape == shape:
        return mechanism.take(np.ones(shape, dtype=bool))
    return mechanism


@dataclass(frozen=True)
class _ShiftedForm:
    """Law of a constant and of a sum of squares of correlated normal variables with a mean."""

    constant: float
    law: WeightedChi2 | None

    def upper(self, q: float) -> float:
        """P(Q >= q)."""
        if self.law is None:
            return float(self.constant >= q)
        return float(self.law.upper(np.asarray(q - self.constant)))

    def critical_value(self, alpha: float) -> float:
        assert self.law is not None  # a null hypothesis leaves something to chance
        above = critical_value(self.law.upper, alpha, 2.0 * self.law.mean)
        return self.constant + above

    @classmethod
    def rank_one(cls, diagonal: FloatArray, vector: FloatArray, mean: FloatArray) -> _ShiftedForm:
        """Return the law of YᵀY for Y ~ N(m, diag(d) - u uᵀ), d >= 0."""
        varies = diagonal > _NEGLIGIBLE * diagonal.max()
        constant = float(np.square(mean[~varies]).sum())
        kept, along = diagonal[varies], vector[varies]
        if kept.sum() - np.square(along).sum() <= _NEGLIGIBLE * kept.sum():
            return cls(constant + float(np.square(mean[varies]).sum()), None)
        return cls(constant, WeightedChi2.shifted_rank_one(kept, along, mean[varies]))

    @classmethod
    def dense(cls, covariance: FloatArray, mean: FloatArray) -> _ShiftedForm:
        """Return the law of YᵀY for Y ~ N(m, C)."""
        values, vectors = np.linalg.eigh(covariance)
        means = vectors.T @ mean
        varies = values > _NEGLIGIBLE * max(values.max(), _NEGLIGIBLE)
        constant = float(np.square(means[~varies]).sum())
        if not varies.any():
            return cls(constant, None)
        return cls(constant, WeightedChi2.from_eigenvalues(values[varies], means[varies]))


def _shifted_law(table: NoisyTable, truth: FloatArray, statistic: Statistic) -> _ShiftedForm:
    """Return the limit law of a statistic of a table whose true expected counts are others.

    The deviations d from the expected counts e of the null hypothesis are taken to be normal with
    mean t - e and covariance diag(t + V) - t tᵀ/n, t the true expected counts.
    """
    shift = truth - table.expected
    if statistic == "pearson":
        scale = 1.0 / np.sqrt(table.expected)
        return _ShiftedForm.rank_one(
            (truth + table.variance) / table.expected,
            truth * scale / np.sqrt(table.nobs),
            shift * scale,
        )
    root = _projected_root(table)
    sampled = (root * (truth + table.variance)) @ root.T
    across = root @ truth
    return _ShiftedForm.dense(sampled - np.outer(across, across) / table.nobs, root @ shift)


def _fitted_power(
    model: TableModel, truth: FloatArray, alpha: float, statistic: Statistic
) -> float:
    """Return the power in the limit where tables are fitted; truth: their true expected counts.

    The projected statistic is noncentral χ², and its noncentrality is the statistic of the true
    expected counts. Pearson's is a sum of squares of deviations from the fit, which are normal
    with those of the true expected counts as their mean.
    """
    table = truth[..., np.newaxis], np.array([truth.sum()])
    if statistic == "projected":
        dof = model.margins.dof
        means = np.zeros(dof)
        means[0] = np.sqrt(model.projected(*table).item())
        critical = np.asarray(special.chdtri(float(dof), alpha))
        return float(WeightedChi2.from_eigenvalues(np.ones(dof), means).upper(critical))
    fit = model.near(*table)
    expected = fit.expected[..., 0]
    scale = 1.0 / np.sqrt(expected.ravel())
    covariance = scale[:, np.newaxis] * model.margins.residual_covariance(expected) * scale
    mean = scale * fit.deviations.ravel()
    null = _ShiftedForm.dense(covariance, np.zeros(mean.size))
    return _ShiftedForm.dense(covariance, mean).upper(null.critical_value(alpha))


def _projected_root(table: NoisyTable) -> FloatArray:
    """Return R with dᵀRᵀRd the projected statistic, from its terms; shape (k + 1, k).

    With w = 1/(e + V), p = e/n and d centred so that Σ w d = 0 the statistic is
    Σ w d² + factor·(Σ w p d)²: see ``projected`` in hypothesis_tests/_noisy_tables.py.
    """
    share = table.expected / table.nobs
    weights = 1.0 / (table.expected + table.variance)
    shared, total = weights * share, weights.sum()
    centre = np.eye(share.size) - weights / total
    factor = total / (shared.sum() ** 2 + total * (shared @ table.variance) / table.nobs)
    return np.vstack([np.sqrt(weights)[:, None] * centre, np.sqrt(factor) * shared @ centre])


def _deviating(
    table: NoisyTable,
    truth: NoisyTable,
    statistic: Statistic,
    size: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Draw a statistic of a table whose true expected counts are others."""
    deviations = truth.draw_deviations(size, rng)
    deviations += truth.expected - table.expected
    return STATISTICS[statistic](table)(deviations)


@dataclass(frozen=True)
class _Releases:
    """Draws published tables under any probabilities; can be pickled."""

    model: TableModel
    nobs: NDArray[np.int64]
    shares: FloatArray

    def draw(self, size: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        counts = rng.multinomial(self.nobs, self.shares, (size, self.nobs.size))
        total = np.full(size, float(self.nobs.sum()))
        return _publish(self.model, counts, total, rng)


def _publish(
    model: TableModel, counts: NDArray[np.int64], total: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Add noise to counts, shape (m, ...), and to totals; return tables, shape (..., m), too."""
    noisy = counts.reshape(-1, model.size).astype(np.float64)
    noisy += model.noise.rvs(noisy.shape, rng=rng)
    tables = np.ascontiguousarray(noisy.T).reshape(*model.shape, -1)
    if model.nobs_noise is None:
        return tables, total
    return tables, total + model.nobs_noise.rvs(total.shape, rng=rng)


def _decided(
    releases: _Releases, statistic: Statistic, size: int, rng: np.random.Generator
) -> FloatArray:
    """Draw statistics of tables, of which those with small expected counts are not decided."""
    model, released = releases.model, releases.draw(size, rng)
    decided = _is_decided(model.fit(*released))
    return np.where(decided, FITTED_STATISTICS[statistic](model, *released), _UNDECIDED)


def _is_decided(fit: Fit) -> NDArray[np.bool_]:
    cells = fit.expected.reshape(-1, fit.expected.shape[-1])
    return np.asarray((cells >= SMALL_EXPECTED).all(axis=0))


@dataclass(frozen=True)
class _NestedTests:
    """Draws releases, and tests each by replicates from its estimates; can be pickled.

    A test ends as soon as its exceedances tell on which side of the level its p-value is.
    """

    releases: _Releases
    statistic: Statistic
    alpha: float
    is_known: bool

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        tables, nobs = self.releases.draw(size, rng)
        fit = self.releases.model.fit(tables, nobs)
        statistic = FITTED_STATISTICS[self.statistic](self.releases.model, tables, nobs)
        value, _ = bounds_of(statistic, "larger")
        assert value is not None  # statistics this large are extreme
        rejected = np.zeros(size)
        going = np.flatnonzero(_is_decided(fit))
        exceeded, drawn = np.zeros(size), 0
        for more in self._rounds():
            drawn += more
            exceeded[going] += self._exceedances(fit, nobs, value, going, more, rng)
            count = exceeded[going]
            rejected[going] = (count + 1.0) / (drawn + 1.0) <= self.alpha
            few, many = special.bdtr(count, drawn, self.alpha), np.ones(going.size)
            some = count >= 1.0
            many[some] = special.bdtrc(count[some] - 1.0, drawn, self.alpha)
            rejected[going[few < _SURE]] = 1.0
            going = going[(few >= _SURE) & (many >= _SURE)]
            if not going.size:
                break
        return rejected

    def _rounds(self) -> Iterator[int]:
        """Yield numbers of replicates to be drawn more: twice as many in all each time."""
        last = max(round(_LAST / self.alpha) - 1, 1)
        drawn, following = 0, max(round(_FIRST / self.alpha), 1)
        while drawn < last:
            following = min(following, last)
            yield following - drawn
            drawn, following = following, 2 * following

    def _exceedances(
        self,
        fit: Fit,
        nobs: FloatArray,
        value: FloatArray,
        chosen: NDArray[np.intp],
        reps: int,
        rng: np.random.Generator,
    ) -> FloatArray:
        model = self.releases.model
        together = max(1, _CELLS_AT_ONCE // (reps * model.size))
        counts = []
        for start in range(0, chosen.size, together):
            part = chosen[start : start + together]
            trials, shares = self._null(fit.expected[..., part], nobs[part])
            drawn = rng.multinomial(trials, shares, (reps, *trials.shape))
            total = np.broadcast_to(trials.sum(axis=-1), (reps, part.size)).reshape(-1)
            again = _publish(model, drawn, total.astype(np.float64), rng)
            statistic = FITTED_STATISTICS[self.statistic](model, *again).reshape(reps, part.size)
            counts.append((statistic >= value[part]).sum(axis=0))
        return np.concatenate(counts) if counts else np.zeros(0)

    def _null(self, expected: FloatArray, nobs: FloatArray) -> tuple[NDArray[np.int64], FloatArray]:
        """Return numbers of observations, shape (m, g), and probabilities, shape (m, g, k/g)."""
        size = expected.shape[-1]
        margins = self.releases.model.margins
        if isinstance(margins, RowMargins):
            cells, trials = expected[0].T, np.tile(margins.totals, (size, 1))
        else:
            cells = expected.reshape(-1, size).T
            total = nobs if self.is_known else np.maximum(np.rint(cells.sum(axis=1)), 1.0)
            trials = total[:, np.newaxis]
        shares = cells / cells.sum(axis=1, keepdims=True)
        return trials.astype(np.int64), shares[:, np.newaxis]
