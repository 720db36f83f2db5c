"""Confidence intervals that include the noise of the mechanism."""

from dpinfer.intervals.counts import count_confint
from dpinfer.intervals.linear import linear_confint

__all__ = ["count_confint", "linear_confint"]
