"""Confidence sets for ratios of confidential values, and for what is made of ratios."""

from dpinfer.intervals.ratios.linear_ratio import linear_ratio_confint
from dpinfer.intervals.ratios.ratio import ratio_confint, relative_change_confint, share_confint
from dpinfer.intervals.ratios.two_by_two import (
    odds_ratio_confint,
    risk_difference_confint,
    risk_ratio_confint,
)

__all__ = [
    "linear_ratio_confint",
    "odds_ratio_confint",
    "ratio_confint",
    "relative_change_confint",
    "risk_difference_confint",
    "risk_ratio_confint",
    "share_confint",
]
