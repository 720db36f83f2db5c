"""What the plans of intervals share: a width, and the argument that makes it small enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.planning.plan import BUDGETS, Plan
from dpinfer.planning.search import Search

if TYPE_CHECKING:
    import pandas as pd

MOST_ERROR = 1e60
"""Rough answers are for standard errors up to here: squares of what is beyond may overflow."""

LEAST_ERROR = 1.0 / MOST_ERROR

_LARGE_BUDGET = 100.0
"""Where a budget is looked for at first, if a rough answer does not tell."""


class WidthPlan(Plan):
    """Width of an interval, as a function of named arguments; see the plans themselves."""

    _quantity = "width"
    _rises = False
    _bounds = (0.0, np.inf)
    _error = "error"

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

    def _rough_budget_for(self, variance: float) -> float:
        """Return a budget with a variance of the noise, on the average over cells."""
        if variance <= 0.0:
            return _LARGE_BUDGET

        def variances(budgets: FloatArray) -> FloatArray:
            return np.array([float(np.mean(self._law(float(b)).variance)) for b in budgets])

        try:
            search = Search("variance", variance, False, "budget", variances)
            return search.first(*BUDGETS, logarithmic=True)
        except InvalidParameterError:  # none in this range has that variance
            return _LARGE_BUDGET
