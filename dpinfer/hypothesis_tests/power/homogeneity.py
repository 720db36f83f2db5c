"""Power of the chi-squared test of homogeneity."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, final, get_args

import numpy as np

from dpinfer._check import RNG, FloatArray, check_array, check_length, check_option, freeze
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests._fitted_tables import RowMargins, TableModel
from dpinfer.hypothesis_tests._noisy_tables import STATISTICS, Statistic
from dpinfer.hypothesis_tests.power._fitted_plan import (
    FittedTablePower,
    Method,
    check_differs,
    flat,
)
from dpinfer.hypothesis_tests.power._tables import checked_probabilities, checked_seed
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.mechanisms import NoisePlan, check_plan

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SMALLEST_COLUMN = 1e-9


@final
@dataclass(frozen=True, eq=False)
class HomogeneityPower(FittedTablePower):
    """Power and planning of the test of homogeneity of groups of known sizes.

    Parameters
    ----------
    alternative_value : array of float, shape (r, c)
        Probabilities >= 0 of the c answers in each of the r groups under the alternative, at which
        ``effect`` is 1. Each row adds up to 1, and no column is empty.
    %(mechanism_of_table)s
    row_shares : array of float, shape (r,), optional
        Sizes > 0 of the groups as shares of all observations, which add up to 1; by default all
        are the same. Group i has ``row_shares[i] * nobs`` members, rounded so that they add up to
        ``nobs``, but 1 at least.
    statistic : {"projected", "pearson"}
        As for :func:`dpinfer.chi2_contingency`.
    method : {"monte-carlo", "asymptotic"}
        ``"monte-carlo"`` simulates what the test does with releases; ``"asymptotic"`` is the limit
        of many observations.
    %(replicates)s

    See Also
    --------
    dpinfer.chi2_contingency : the test, with ``row_totals``.

    Notes
    -----
    Under the null hypothesis the answers have the probabilities b in each group, the mean of the
    rows of ``alternative_value`` weighted by ``row_shares``. At an ``effect`` they are
    b + effect·(alternative_value - b), with the same mean. Cohen's effect size is
    w = √Σᵢⱼ shareᵢ·(pᵢⱼ - bⱼ)²/bⱼ, ``effect`` times that of the alternative, ``effect_size``.

    How powers are simulated, and the limits, are as for :class:`IndependencePower`; the number of
    observations is known.

    Examples
    --------
    >>> from dpinfer import Gaussian
    >>> groups = [[0.5, 0.3, 0.2], [0.4, 0.3, 0.3]]
    >>> plan = HomogeneityPower(groups, Gaussian.from_rho, rng=1)
    >>> plan.power(nobs=[400, 800], budget=0.01).round(2)
    array([0.36, 0.75])
    >>> limit = HomogeneityPower(groups, Gaussian.from_rho, method="asymptotic")
    >>> limit.solve_power(effect=1.0, alpha=0.05, power=0.8, budget=0.01)
    851.0
    """

    alternative_value: Any
    mechanism: NoisePlan
    row_shares: Any = field(default=None, kw_only=True)
    statistic: Statistic = field(default="projected", kw_only=True)
    method: Method = field(default="monte-carlo", kw_only=True)
    reps: int = field(default=10_000, kw_only=True)
    rng: RNG = field(default=None, kw_only=True)
    n_jobs: int | None = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        table = check_array(self.alternative_value, "alternative_value", ge=0, ndim=2)
        if min(table.shape) < 2:
            raise InvalidParameterError(
                "alternative_value must have at least 2 rows and 2 columns, got shape "
                f"{table.shape}"
            )
        rows = [checked_probabilities(row, "rows of alternative_value", 1) for row in table]
        table, shares = np.array(rows), _checked_shares(self.row_shares, len(rows))
        pooled = shares @ table
        if pooled.min() < _SMALLEST_COLUMN:
            raise InvalidParameterError(
                f"alternative_value must have columns of a mean >= {_SMALLEST_COLUMN:g}, got "
                f"{pooled.min():g}"
            )
        check_differs(table, np.tile(pooled, (len(rows), 1)), "homogeneous, with all rows the same")
        check_option(self.statistic, "statistic", STATISTICS)
        check_option(self.method, "method", get_args(Method))
        self._set(
            alternative_value=freeze(table),
            row_shares=freeze(shares),
            mechanism=check_plan(flat(self.mechanism, table.shape), (table.size,)),
            _seed=checked_seed(self.reps, self.rng, self.n_jobs),
        )

    @cached_property
    def _line(self) -> tuple[FloatArray, FloatArray]:
        table, shares = self.alternative_value, self.row_shares
        pooled = shares @ table
        return np.outer(shares, pooled), shares[:, np.newaxis] * (table - pooled)

    def _trials(self, nobs: int) -> NDArray[np.int64]:
        ends = np.rint(np.cumsum(self.row_shares) * nobs)
        return np.asarray(np.maximum(np.diff(ends, prepend=0.0), 1.0), dtype=np.int64)

    def _model(self, law: NoiseLaw, nobs: int) -> TableModel:
        margins = RowMargins(self._variance(law), self._trials(nobs).astype(np.float64))
        return TableModel(self.alternative_value.shape, margins, law)


def _checked_shares(row_shares: Any, rows: int) -> FloatArray:
    """Return the sizes of groups as shares of all."""
    if row_shares is None:
        return np.full(rows, 1.0 / rows)
    shares = checked_probabilities(row_shares, "row_shares", 1, positive=True)
    check_length(shares, "row_shares", rows, "the rows of alternative_value")
    return shares
