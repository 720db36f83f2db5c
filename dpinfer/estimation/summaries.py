"""How estimates are shown, whichever way they were found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.results.intervals import Intervals
from dpinfer.results.tables import render_table

if TYPE_CHECKING:
    import pandas as pd

UNBIASED = "Unbiased for the confidential values; not rounded or clipped."
"""What every table of combined estimates says."""


def estimates_frame(intervals: Intervals, std_err: Any) -> pd.DataFrame:
    """Return estimates, standard errors and intervals, a row for each."""
    frame = intervals.summary_frame()
    frame.insert(1, "std_err", np.ravel(std_err))
    return frame


def add_published(
    frame: pd.DataFrame, there: Any, values: FloatArray, variance: FloatArray
) -> None:
    """Add what was published of each row itself, and the standard deviation of its noise.

    They are NaN for the rows that are not ``there``.
    """
    frame["published"] = np.where(there, values, np.nan)
    frame["published_std_err"] = np.where(there, np.sqrt(variance), np.nan)


def summary_table(
    title: str,
    facts: Sequence[tuple[str, object]],
    frame: pd.DataFrame,
    *,
    index: Any,
    notes: Sequence[str] = (UNBIASED,),
) -> str:
    """Return a frame of estimates as a plain-text table, with what is to be said of them."""
    return render_table(
        title,
        facts,
        {name: frame[name].to_numpy() for name in frame.columns},
        index=index,
        notes=notes,
        alike=("estimate", "ci_lower", "ci_upper", "published"),
    )


def covariance_frame(covariance: FloatArray, labels: pd.Index | None) -> Any:
    """Return a covariance matrix, under the labels of its rows where they have any."""
    if labels is None:
        return covariance
    import pandas as pd

    return pd.DataFrame(covariance, labels, labels)
