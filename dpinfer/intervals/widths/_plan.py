"""What the plans of intervals share: a width, and the argument that makes it small enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.planning.plan import Plan

if TYPE_CHECKING:
    import pandas as pd


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
