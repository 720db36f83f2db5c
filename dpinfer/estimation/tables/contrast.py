"""Estimates of linear functions of one table, and the intervals of cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import special

from dpinfer._validation import FloatArray, check_alpha, check_option
from dpinfer.results.intervals import Intervals

if TYPE_CHECKING:
    import pandas as pd

Method = Literal["normal"]

NORMAL_NOTE = "Normal quantiles, which are approximate as the noise is not Gaussian."


@dataclass(frozen=True, kw_only=True, eq=False)
class TableContrast:
    """Estimates of linear functions of a table; made by :meth:`MarginalsEstimate.contrast`.

    Attributes
    ----------
    estimate : float, array of float, shape (k,), or Series
        The estimates.
    std_err : float, array of float, shape (k,), or Series
        Their standard errors due to the noise.
    labels : pandas.Index, optional
        Labels of the functions.
    """

    estimate: Any
    std_err: Any
    labels: pd.Index | None = None
    _gaussian: bool = True

    def conf_int(self, alpha: float = 0.05, method: Method = "normal") -> Intervals:
        """Confidence intervals; as :meth:`MarginalsEstimate.conf_int`."""
        estimate, std_err = np.asarray(self.estimate), np.asarray(self.std_err)
        return normal_intervals(estimate, std_err, alpha, method, self.labels, self._gaussian)


def normal_intervals(
    estimate: FloatArray,
    std_err: FloatArray,
    alpha: float,
    method: str,
    labels: pd.Index | None,
    gaussian: bool,
) -> Intervals:
    """Return intervals from normal quantiles."""
    alpha = check_alpha(alpha)
    chosen = check_option(method, "method", ("normal",))
    half = -special.ndtri(alpha / 2) * std_err
    return Intervals(
        estimate=estimate,
        lower=estimate - half,
        upper=estimate + half,
        alpha=alpha,
        method=chosen,
        uncertainty="noise",
        labels=labels,
        notes=() if gaussian else (NORMAL_NOTE,),
    )
