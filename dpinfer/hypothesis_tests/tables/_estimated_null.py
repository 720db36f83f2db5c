"""P-values where the null hypothesis has parameters that were estimated from the table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.errors import ApproximationWarning
from dpinfer.hypothesis_tests._blocks import draws_in_block
from dpinfer.hypothesis_tests.tables._fitted_tables import STATISTICS, TableDraws, TableModel
from dpinfer.hypothesis_tests.tables._margins import Fit
from dpinfer.hypothesis_tests.tables._noisy_table import SMALL_EXPECTED, NoisyTable, Statistic
from dpinfer.results.null_distribution import AsymptoticNull, NullDistribution
from dpinfer.results.simulation import Simulation, simulate_null

Method = Literal["monte-carlo", "asymptotic"]
SmallExpected = Literal["refuse", "compute"]

SMALL_EXPECTED_RULES: tuple[SmallExpected, ...] = ("refuse", "compute")


@dataclass(frozen=True)
class EstimatedNull:
    """A published table with its fit under the null hypothesis.

    Parameters
    ----------
    model : TableModel
        How tables are published and fitted.
    fit : Fit
        The fit of the published table.
    nobs : float, optional
        The published number of observations.
    statistic : {"pearson", "projected"}
        What is tested.
    value : array of float, shape ()
        The observed statistic.
    """

    model: TableModel
    fit: Fit
    nobs: float | None
    statistic: Statistic
    value: FloatArray

    @classmethod
    def of(
        cls, model: TableModel, cells: FloatArray, nobs: float | None, statistic: Statistic
    ) -> EstimatedNull:
        """Fit a published table."""
        one = cells[..., np.newaxis], np.asarray(np.nan if nobs is None else nobs)
        value = STATISTICS[statistic](model, *one).reshape(())
        return cls(model, model.fit(*one), nobs, statistic, value)

    @property
    def expected(self) -> FloatArray:
        """Expected counts, in the shape of the table."""
        return self.fit.expected[..., 0]

    @property
    def total(self) -> float:
        """The number of observations: published, or estimated."""
        return float(self.fit.expected.sum()) if self.nobs is None else self.nobs

    def distribution(
        self, method: Method, rule: SmallExpected, simulation: Simulation
    ) -> tuple[NullDistribution, Sequence[str], bool]:
        """Return the null distribution, remarks of doubt, and whether the test decides."""
        small = np.count_nonzero(self.expected < SMALL_EXPECTED)
        doubts = []
        if small:
            doubts.append(f"estimated expected counts below {SMALL_EXPECTED:g} in {small} cells")
            if rule == "refuse":
                return UNDECIDED, [f"{doubts[0]}: the test does not decide"], False
        null, others = METHODS[method](self, simulation)
        return null, [f"{doubt}: the p-value is approximate" for doubt in (*doubts, *others)], True

    def report(
        self, method: Method, rule: SmallExpected, simulation: Simulation, table: str
    ) -> dict[str, Any]:
        """Test, warn the caller's caller of doubts, and return the fields of a test's result."""
        null, notes, decided = self.distribution(method, rule, simulation)
        for note in notes:
            warnings.warn(note, ApproximationWarning, stacklevel=3)
        return {
            "statistic": self.value,
            "pvalue": null.pvalue(self.value, "larger"),
            "alternative": "larger",
            "method": method,
            "null_distribution": null,
            "uncertainty": "noise+sampling",
            "nobs": self.total,
            "mc_error": null.mc_error(self.value, "larger"),
            "notes": (f"{table}, {self.statistic} statistic", *notes),
            "decided": decided,
        }


def _monte_carlo(
    test: EstimatedNull, simulation: Simulation
) -> tuple[NullDistribution, Sequence[str]]:
    nobs = test.model.observations(test.fit, test.nobs)
    null = simulate_null(
        [TableDraws.at(test.model, test.fit, nobs, test.statistic)],
        test.value,
        simulation,
        alternative="larger",
        block=draws_in_block(test.model.size),
    )
    return null, ()


def _asymptotic(
    test: EstimatedNull, simulation: Simulation
) -> tuple[NullDistribution, Sequence[str]]:
    model, dof = test.model, test.model.margins.dof
    table = NoisyTable(nobs=1, expected=test.expected.ravel(), noise=model.noise)
    doubts = () if table.has_gaussian_noise else ("noise that is not Gaussian",)
    if test.statistic == "projected" or not model.is_noisy:
        return AsymptoticNull.chi2(dof), doubts
    law = model.residual_law(test.fit)
    return AsymptoticNull(law.upper, law.lower, f"weighted sum of {dof} chi-squared"), doubts


METHODS: dict[
    Method, Callable[[EstimatedNull, Simulation], tuple[NullDistribution, Sequence[str]]]
] = {"monte-carlo": _monte_carlo, "asymptotic": _asymptotic}
"""The null distribution of each method, and what makes it doubtful."""


def _one(statistic: FloatArray) -> FloatArray:
    return np.ones(statistic.shape)


UNDECIDED = AsymptoticNull(_one, _one, "none, the test does not decide")
"""Has a p-value of 1 for every statistic."""
