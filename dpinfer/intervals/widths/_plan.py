"""What the plans of intervals share: a width, and the argument that makes it small enough."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from dpinfer._check import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.intervals.widths._docstrings import TEXTS
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.plan import BUDGETS, Columns, Plan
from dpinfer.planning.search import Search

if TYPE_CHECKING:
    import pandas as pd

MOST_ERROR = 1e60
"""Rough answers are for standard errors up to here: squares of what is beyond may overflow."""

LEAST_ERROR = 1.0 / MOST_ERROR

_LARGE_BUDGET = 100.0
"""Where a budget is looked for at first, if a rough answer does not tell."""

_PRECISION = 1e-6
"""Precision of arguments where widths are costly, relative to a bracket of some per cent."""


class WidthPlan(Plan):
    """Width of an interval, as a function of named arguments; see the plans themselves."""

    _quantity = "width"
    _rises = False
    _bounds = (0.0, np.inf)
    _error = "error"
    _texts = TEXTS

    def width_frame(self, **arguments: Any) -> pd.DataFrame:
        """Return the width for all combinations of the arguments as a DataFrame.

        Parameters
        ----------
        **arguments
            The arguments of ``width``; each is one value or an array of shape (m,).

        Returns
        -------
        DataFrame
            One row a combination, with a column for each argument, and the columns ``width`` and
            ``error``, the estimated numerical error of the width, 0 where it has a closed form.
        """
        return self._frame(arguments)

    def _find_near(
        self, rough: WidthPlan, name: str, known: Columns, target: float
    ) -> float | None:
        """Return an argument near that of a plan that costs less; None if that plan has none.

        No width is found twice, and the argument to a millionth.
        """
        try:
            guess = rough._find(name, known, target)
        except InvalidParameterError:
            return None
        search = self._search(name, known, target)

        @cache
        def width(at: float) -> float:
            return float(search.values(np.array([at]))[0])

        def widths(at: FloatArray) -> FloatArray:
            return np.array([width(float(x)) for x in at])

        low, high = self._range(name, known)
        whole = name == self._size and self._integer_size
        costly = replace(search, values=widths)
        return costly.near(guess, low, high, integer=whole, precision=_PRECISION)

    def _rough_error(self, known: Columns, target: float, unit: float = 1.0) -> float:
        """Return the standard error, in some unit, of normal intervals that are as wide."""
        # from alpha near 1 the quantile is near 0
        z = max(-float(special.ndtri(0.5 * known["alpha"])), LEAST_ERROR)
        return min(max(0.5 * target / (z * unit), LEAST_ERROR), MOST_ERROR)

    def _noise_variance(self, law: NoiseLaw, known: Columns) -> float:
        """Variance of the noise in rough answers: on the average over cells."""
        return float(np.mean(law.variance))

    def _rough_budget_for(self, variance: float, known: Columns) -> float:
        """Return a budget with a variance of the noise."""
        if variance <= 0.0:
            return _LARGE_BUDGET

        def variances(budgets: FloatArray) -> FloatArray:
            laws = (self._law(float(budget)) for budget in budgets)
            return np.array([self._noise_variance(law, known) for law in laws])

        try:
            search = Search("variance", variance, False, "budget", variances)
            return search.first(*BUDGETS, logarithmic=True)
        except InvalidParameterError:  # none in this range has that variance
            return _LARGE_BUDGET


def rough_size(variance: float, noise: float, error: float) -> float:
    """Root n of (error·n)² = n·variance + noise²."""
    linear = 0.5 * variance / error**2
    return float(linear + np.hypot(linear, noise / error))


class WidthBySetting(WidthPlan):
    """Width that is found for one value of each argument at a time."""

    @abstractmethod
    def _width_at(self, law: NoiseLaw, alpha: float, *own: float) -> tuple[float, float]:
        """Return the width for one value of each of the own arguments, and its error."""

    def _at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        """Return the widths and their errors, of which none is found twice."""
        rows = np.stack([columns[name] for name in self._own], axis=1)
        settings, inverse = np.unique(rows, axis=0, return_inverse=True)
        found = np.array([self._width_at(law, alpha, *setting) for setting in settings.tolist()])
        width, error = found[inverse.reshape(-1)].T
        return width, error
