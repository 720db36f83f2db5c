"""Power of the chi-squared test of independence."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final, get_args

import numpy as np

from dpinfer._check import RNG, FloatArray, check_option, freeze
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests._fitted_tables import ProductMargins, TableModel
from dpinfer.hypothesis_tests._noisy_tables import STATISTICS, NoiseForm, Statistic
from dpinfer.hypothesis_tests.power._fitted_plan import (
    FittedTablePower,
    Method,
    check_differs,
    flat,
    total_law,
)
from dpinfer.hypothesis_tests.power._tables import checked_probabilities, checked_seed
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.mechanisms import NoisePlan, check_plan

_SMALLEST_MARGIN = 1e-9


@final
@dataclass(frozen=True, eq=False)
class IndependencePower(FittedTablePower):
    """Power and planning of the test of independence.

    Parameters
    ----------
    alternative_value : array of float, shape (r, c)
        Probabilities >= 0 of the cells under the alternative, at which ``effect`` is 1. They add
        up to 1 over the whole table, and no row or column is empty.
    %(mechanism_of_table)s
    nobs_mechanism : NoiseLaw, optional
        The law of the noise in the published number of observations; ``Exact()`` where that number
        is public. By default it is not published.
    statistic : {"projected", "pearson"}
        As for :func:`dpinfer.chi2_contingency`.
    method : {"monte-carlo", "asymptotic"}
        ``"monte-carlo"`` simulates what the test does with releases; ``"asymptotic"`` is the limit
        of many observations.
    %(replicates)s

    See Also
    --------
    dpinfer.chi2_contingency : the test.

    Notes
    -----
    Under the null hypothesis the cells have the probabilities q = aᵢ·bⱼ, the margins a and b being
    those of ``alternative_value``. At an ``effect`` they are q + effect·(alternative_value - q),
    with the same margins. Cohen's effect size w = √Σ(p - q)²/q is ``effect`` times that of the
    alternative, ``effect_size``.

    Monte Carlo: releases at the alternative are fitted as the test fits them. One counts as
    rejected where its statistic reaches the critical value, and as not rejected where an estimated
    expected count is below 5, so that the test does not decide. The critical value is simulated at
    q, while the test simulates it anew at the margins that it estimates. In 16 settings (n = 50 to
    5,000, ε = 0.05 to 1, Laplace, Gaussian and geometric noise, 2 × 2 to 3 × 4 tables, balanced and
    skewed; 1,500 releases each) the test rejected as often as the power says, up to 1.8 standard
    errors, though in up to half of the releases it did not decide.

    Asymptotic: noncentral χ² with (r - 1)(c - 1) degrees of freedom, whose noncentrality is the
    statistic of the expected counts themselves. That the test may not decide is left out: where it
    did not in 31 % of releases, the power was 0.60, and 0.92 by the limit.

    Pearson's statistic has a critical value that depends much on the estimated margins where noise
    is large. Each release then has replicates of its own, up to 100/α of them, until those that
    exceed its statistic tell on which side of the level the p-value is, but for a probability of
    0.001. That takes some 500 fits for each of the ``reps`` releases, a second for 1,000 of them.
    In the limit the statistic is a weighted sum of noncentral χ², with the weights at the expected
    counts themselves. It errs where noise is large: with n = 600, 2 × 3 cells and Laplace noise of
    scale 15 the power at the level 0.1 is 0.47 by the limit, and 0.41 by simulation.

    References
    ----------
    Kifer, D. and Rogers, R. (2017). A new class of private chi-square hypothesis tests. AISTATS,
    PMLR 54:991-1000. arXiv:1610.07662.

    Examples
    --------
    >>> from dpinfer import Gaussian
    >>> table = [[0.30, 0.20], [0.20, 0.30]]
    >>> plan = IndependencePower(table, Gaussian.from_rho, rng=1)
    >>> plan.power(nobs=[200, 400], budget=0.01).round(2)
    array([0.51, 0.9 ])
    >>> limit = IndependencePower(table, Gaussian.from_rho, method="asymptotic")
    >>> limit.solve_power(effect=1.0, alpha=0.05, power=0.8, budget=0.01)
    320.0
    """

    alternative_value: Any
    mechanism: NoisePlan
    nobs_mechanism: NoiseLaw | None = field(default=None, kw_only=True)
    statistic: Statistic = field(default="projected", kw_only=True)
    method: Method = field(default="monte-carlo", kw_only=True)
    reps: int = field(default=10_000, kw_only=True)
    rng: RNG = field(default=None, kw_only=True)
    n_jobs: int | None = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        table = _checked_table(self.alternative_value)
        check_option(self.statistic, "statistic", STATISTICS)
        check_option(self.method, "method", get_args(Method))
        self._set(
            alternative_value=freeze(table),
            mechanism=check_plan(flat(self.mechanism, table.shape), (table.size,)),
            nobs_mechanism=total_law(self.nobs_mechanism),
            _seed=checked_seed(self.reps, self.rng, self.n_jobs),
        )

    @cached_property
    def _line(self) -> tuple[FloatArray, FloatArray]:
        table = self.alternative_value
        null = np.outer(table.sum(axis=1), table.sum(axis=0))
        return null, table - null

    def _model(self, law: NoiseLaw, nobs: int) -> TableModel:
        spread = self._total_spread
        form = NoiseForm.published(self._variance(law), spread)
        noise = self.nobs_mechanism if 0.0 < spread < np.inf else None
        return TableModel(self.alternative_value.shape, ProductMargins(form), law, noise)


def _checked_table(value: Any) -> FloatArray:
    """Return probabilities of a table that are not those of independence."""
    table = checked_probabilities(value, "alternative_value", 2, positive=False)
    if min(table.shape) < 2:
        raise InvalidParameterError(
            f"alternative_value must have at least 2 rows and 2 columns, got shape {table.shape}"
        )
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    if (smallest := min(rows.min(), columns.min())) < _SMALLEST_MARGIN:
        raise InvalidParameterError(
            f"alternative_value must have sums of rows and columns >= {_SMALLEST_MARGIN:g}, got "
            f"{smallest:g}"
        )
    check_differs(table, np.outer(rows, columns), "the product of its margins")
    return table
