"""Intervals and p-values from the normal law, and the noise for which they are exact."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scipy import special

from dpinfer._validation import FloatArray, check_alpha
from dpinfer.mechanisms import Exact, Gaussian, NoiseLaw, groups
from dpinfer.results.intervals import Intervals, Uncertainty

if TYPE_CHECKING:
    import pandas as pd


def is_gaussian(mechanism: NoiseLaw, size: int) -> bool:
    """Whether the noise of all of so many values is Gaussian, if they have any."""
    return all(isinstance(law, (Gaussian, Exact)) for law, _ in groups(mechanism, size))


def normal_intervals(
    estimate: FloatArray,
    std_err: FloatArray,
    alpha: float,
    labels: pd.Index | None,
    *,
    uncertainty: Uncertainty = "noise",
    notes: tuple[str, ...] = (),
) -> Intervals:
    """Return estimates ± normal quantiles times standard errors."""
    alpha = check_alpha(alpha)
    half = -special.ndtri(alpha / 2) * std_err
    return Intervals(
        estimate=estimate,
        lower=estimate - half,
        upper=estimate + half,
        alpha=alpha,
        method="normal",
        uncertainty=uncertainty,
        labels=labels,
        notes=notes,
    )
