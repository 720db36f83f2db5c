"""What models of the cells of noisy tables have in common: results, tests, attributes."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from scipy import special

from dpinfer._check import FloatArray, check_alpha, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.independent import groups
from dpinfer.mechanisms.law import ParametricLaw
from dpinfer.regression._results import RegressionResult
from dpinfer.regression._score_sets import ScoreSets
from dpinfer.regression._selected_counts import Cells, Part
from dpinfer.releases.values import NoisyValues
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.intervals import Intervals
from dpinfer.results.labels import attach_labels
from dpinfer.results.null import AsymptoticNull, NullDistribution
from dpinfer.results.simulation import Draw, Simulation, simulate_null
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd

Statistic = Literal["score", "lr"]
TestMethod = Literal["asymptotic", "monte-carlo"]
STATISTICS: tuple[Statistic, ...] = ("score", "lr")
TEST_METHODS: tuple[TestMethod, ...] = ("asymptotic", "monte-carlo")

_BLOCK = 64
_FEW = 5.0
"""Expected counts below which limits are not reached."""

NO_FIT = 1e9
"""Statistic of a simulated table without estimates: it counts as extreme."""

_NAMES = ("row", "column", "layer")


class TableModel(RegressionResult):
    """A model of the means of the cells of a table, with its counts Poisson about them."""

    guarantee: ClassVar[str] = "asymptotic"
    uncertainty: ClassVar[Literal["noise+sampling"]] = "noise+sampling"

    x: NoisyValues

    @property
    @abstractmethod
    def _eta(self) -> FloatArray:
        """Logarithms of the means."""

    @property
    @abstractmethod
    def llf(self) -> float:
        """Logarithm of the likelihood."""

    @property
    @abstractmethod
    def notes(self) -> tuple[str, ...]:
        """What the numbers rest on."""

    @property
    @abstractmethod
    def _sets(self) -> tuple[ScoreSets, FloatArray] | None:
        """Sets of coefficients, and their largest sizes, where they are not by standard errors."""

    @abstractmethod
    def _facts(self) -> tuple[str, list[tuple[str, object]]]:
        """Title and facts of the summary."""

    @cached_property
    def params(self) -> Any:
        """The p coefficients."""
        return self._name(self._params)

    @cached_property
    def fittedvalues(self) -> Any:
        """Expected counts of the cells."""
        return attach_labels(np.exp(self._eta), self.x.labels)

    @property
    def _pvalues(self) -> FloatArray:
        if self._sets is None:
            return self._wald_pvalues
        ratio = self._sets[0].squared_ratio(-self._params)
        return np.asarray(2.0 * special.ndtr(-np.sqrt(ratio)))

    @property
    def nobs(self) -> float:
        """Number of cells."""
        return float(len(self.x))

    @property
    def _few(self) -> tuple[str, ...]:
        least = float(np.exp(self._eta.min()))
        few = (
            f"the smallest expected count is {least:.3g}: standard errors are limits for large "
            "ones, and tests are better simulated, method='monte-carlo'",
        )
        return few if least < _FEW else ()

    def conf_int(self, alpha: float = 0.05) -> Intervals:
        """Return :class:`~dpinfer.Intervals` of level 1 - ``alpha`` in (0, 1), estimate ± z·se.

        Those of odds ratios are their exponentials. Scores that are estimated in products, of
        :func:`association` with ``"rc"``, have sets that are wider, as its notes say.
        """
        level = check_alpha(alpha)
        z = -float(special.ndtri(level / 2.0))
        lower, upper = self._params - z * self._std, self._params + z * self._std
        if self._sets is not None:
            (below, above), most = self._sets[0].ends(z), self._sets[1]
            lower, upper = np.clip(self._params + np.stack([below, above]), -most, most)
        import pandas as pd

        return Intervals(
            estimate=self._params,
            lower=lower,
            upper=upper,
            alpha=level,
            method="asymptotic",
            uncertainty="noise+sampling",
            labels=pd.Index(self._names),
            notes=self.notes,
        )

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return a row for each coefficient, with standard errors, tests and intervals.

        The columns are ``estimate``, ``std_err``, ``z``, ``pvalue``, ``ci_lower`` and ``ci_upper``
        (level 1 - ``alpha``).
        """
        frame = self.conf_int(alpha).summary_frame()
        attrs = frame.attrs | {"guarantee": self.guarantee}
        frame.insert(1, "std_err", self._std)
        frame.insert(2, "z", np.asarray(self.tvalues))
        frame.insert(3, "pvalue", np.asarray(self.pvalues))
        frame.attrs = attrs
        return frame

    def _table(self, alpha: float = 0.05) -> Table:
        frame = self.summary_frame(alpha)
        title, facts = self._facts()
        return Table(
            title,
            [
                ("Guarantee", self.guarantee),
                *facts,
                ("Cells", len(self.x)),
                ("Log-likelihood", f"{self.llf:.6g}"),
                ("Level", f"{1 - alpha:.6g}"),
            ],
            {name: frame[name].to_numpy() for name in frame.columns},
            index=frame.index,
            notes=self.notes,
            alike=("estimate", "std_err", "ci_lower", "ci_upper"),
        )


def hypothesis_of(
    name: str,
    statistic: float,
    degrees: int,
    draw: Draw | None,
    simulation: Simulation,
    *,
    nobs: float,
    notes: tuple[str, ...],
) -> HypothesisResult:
    """Return a test by draws of the statistic or, without them, by χ²."""
    value = np.asarray(statistic)
    null: NullDistribution = AsymptoticNull.chi2(degrees)
    if draw is not None:
        null = simulate_null([draw], value, simulation, alternative="larger", block=_BLOCK)
    pvalue = null.pvalue(value, "larger")
    error = 0.0 if draw is None else float(np.sqrt(pvalue * (1 - pvalue) / simulation.reps))
    return HypothesisResult(
        name=name,
        statistic=statistic,
        pvalue=pvalue,
        alternative="larger",
        method="asymptotic" if draw is None else "monte-carlo",
        null_distribution=null,
        uncertainty="noise+sampling",
        mc_error=error,
        nobs=nobs,
        notes=notes,
    )


def attributes(x: NoisyValues) -> pd.DataFrame:
    """Return the labels of cells as columns."""
    import pandas as pd

    labels = x.labels
    if labels is None:
        labels = pd.MultiIndex.from_product([range(size) for size in x.shape or (1,)])
    names = [
        name if name is not None else _NAMES[at] if at < len(_NAMES) else f"x{at}"
        for at, name in enumerate(labels.names)
    ]
    if len(set(map(str, names))) < len(names):
        raise InvalidParameterError(f"table must have distinct names of levels, got {show(names)}")
    columns = [labels.get_level_values(level) for level in range(labels.nlevels)]
    return pd.DataFrame(
        {str(name): column.to_numpy() for name, column in zip(names, columns, strict=True)}
    )


def parts_of(x: NoisyValues, y: FloatArray) -> list[Part]:
    """Return values with the noise of x as parts of a likelihood, by their laws."""
    parts = []
    for law, own in groups(x._own_law(), len(x)):
        assert isinstance(law, ParametricLaw)  # others were refused
        parts.append(Part(own, Cells(law, y[own], False), False))
    return parts
