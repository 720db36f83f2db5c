"""What the plans of tests share that estimate the null hypothesis from the table."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpinfer._check import FloatArray, check_array
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests._fitted_tables import LARGEST, TableDraws, TableModel
from dpinfer.hypothesis_tests._noisy_tables import SMALL_EXPECTED, Statistic
from dpinfer.hypothesis_tests.power._nested_simulation import NestedTests
from dpinfer.hypothesis_tests.power._rejections import simulated_rate
from dpinfer.hypothesis_tests.power._table_limits import fitted_power
from dpinfer.hypothesis_tests.power._table_simulation import (
    DecidedTables,
    Releases,
    simulated_power,
)
from dpinfer.hypothesis_tests.power._tables import TablePower
from dpinfer.mechanisms.independent import as_noise
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.mechanisms import check_law

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from dpinfer.planning.plan import Columns

Method = Literal["monte-carlo", "asymptotic"]

_FEWEST_RELEASES, _MOST_CELLS = 64, 1 << 12
"""Releases drawn to see whether a test decides: their least number, and their cells in all."""

_FEW_UNDECIDED = 0.02

_TESTS_TOGETHER = 1 << 9
"""Releases that are drawn and tested at a time."""

_INDEPENDENT = 1e-12


class FittedTablePower(TablePower):
    """Power of a test that fits the null hypothesis to each table; see the plans themselves."""

    alternative_value: FloatArray
    statistic: Statistic
    nobs_mechanism: NoiseLaw | None = None

    @abstractmethod
    def _model(self, law: NoiseLaw, nobs: int) -> TableModel:
        """Return how tables are published and fitted."""

    def _model_at(self, law: NoiseLaw, nobs: int, value: FloatArray) -> TableModel:
        """Return how tables are fitted that arise from other probabilities."""
        return self._model(law, nobs)

    def _trials(self, nobs: int) -> NDArray[np.int64]:
        """Return numbers of observations, shape (g,): in all, or in each row."""
        return np.array([nobs], dtype=np.int64)

    @property
    def _cells(self) -> tuple[int, ...]:
        return (self.alternative_value.size,)

    def _law(self, budget: float) -> NoiseLaw:
        if isinstance(self.mechanism, NoiseLaw):
            return self.mechanism
        made = flat(self.mechanism(budget), self.alternative_value.shape)
        return check_law(made, self._cells, budget)

    def _doubts(self, columns: Columns) -> list[str]:
        doubts = super()._doubts(columns)
        budgets = columns.get("budget", np.zeros(columns["nobs"].size))
        for budget in np.unique(budgets) if self.method == "asymptotic" else ():
            rows = np.flatnonzero(budgets == budget)
            row = rows[columns["nobs"][rows].argmin()]
            value = self._value(float(columns["effect"][row]))
            share = self._undecided(self._law(float(budget)), int(columns["nobs"][row]), value)
            if share > _FEW_UNDECIDED:
                doubts.append(
                    f"releases with {columns['nobs'][row]:.0f} observations, of which the test "
                    f"does not decide about {share:.0%}: the asymptotic power is approximate"
                )
        return doubts

    def _undecided(self, law: NoiseLaw, nobs: int, value: FloatArray) -> float:
        """Share of some releases in which an expected count is estimated to be small."""
        size = max(_FEWEST_RELEASES, _MOST_CELLS // value.size)
        releases = self._releases(law, nobs, value)
        decided = DecidedTables(releases, self.statistic, SMALL_EXPECTED)
        return float(np.mean(decided(size, np.random.default_rng(self._seed)) < 0.0))

    def _probability(
        self, law: NoiseLaw, alpha: float, nobs: int, value: FloatArray
    ) -> tuple[float, float]:
        if self.method == "asymptotic":
            model = self._model_at(law, nobs, value)
            truth = (self._trials(nobs)[:, np.newaxis] * self._shares(value)).reshape(model.shape)
            return fitted_power(model, truth, alpha, self.statistic), 0.0
        releases = self._releases(law, nobs, value)
        if self.statistic == "pearson":
            tests = NestedTests(releases, self.statistic, alpha, self._is_known, SMALL_EXPECTED)
            return simulated_rate(tests, self._simulation(), _TESTS_TOGETHER)
        shares = self._shares(self._line[0])[0]
        null = TableDraws(self._model(law, nobs), self._trials(nobs), shares, self.statistic)
        tables = DecidedTables(releases, self.statistic, SMALL_EXPECTED)
        return simulated_power(null, tables, alpha, value.size, self._simulation())

    def _releases(self, law: NoiseLaw, nobs: int, value: FloatArray) -> Releases:
        """Return what draws releases."""
        model = self._model_at(law, nobs, value)
        return Releases(model, self._trials(nobs), self._shares(value))

    def _shares(self, value: FloatArray) -> FloatArray:
        """Return the probabilities of the cells among observations that are counted together."""
        cells = value.reshape(self._trials(1).size, -1)
        return np.asarray(cells / cells.sum(axis=1, keepdims=True))

    @property
    def _is_known(self) -> bool:
        """Whether the number of observations is public."""
        return self._total_spread == 0.0

    def _variance(self, law: NoiseLaw) -> FloatArray:
        """Return the variance of the noise, in the shape of the table."""
        shape = self.alternative_value.shape
        variance = np.broadcast_to(law.variance, self._cells).reshape(shape)
        return check_array(variance, "the variance of mechanism", le=LARGEST**2)

    @property
    def _total_spread(self) -> float:
        """Variance of the noise in the number of observations, infinite if not published."""
        total = self.nobs_mechanism
        return np.inf if total is None else float(total.variance)


def flat(mechanism: Any, shape: tuple[int, ...]) -> Any:
    """Return a law of the cells of a table as one of a vector; anything else as it is."""
    if isinstance(mechanism, NoiseLaw) and mechanism.shape == shape:
        return mechanism.take(np.ones(shape, dtype=bool))
    return mechanism


def total_law(nobs_mechanism: Any) -> NoiseLaw | None:
    """Check the law of the noise in the number of observations."""
    if nobs_mechanism is None:
        return None
    law = as_noise(nobs_mechanism, 1, name="nobs_mechanism")
    return law.take(0) if law.shape else law


def check_differs(value: FloatArray, null: FloatArray, reason: str) -> None:
    """Refuse an alternative that is no other than the null hypothesis."""
    if np.allclose(value, null, rtol=_INDEPENDENT, atol=0.0):
        raise InvalidParameterError(f"alternative_value must not be {reason}")
