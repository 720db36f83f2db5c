"""Intervals for means: of a normal sample, and of clipped values published with noise."""

from dpinfer.intervals.means.clipped_mean import clipped_mean_confint
from dpinfer.intervals.means.normal_mean import PrivateMeanInterval, normal_mean_confint

__all__ = ["PrivateMeanInterval", "clipped_mean_confint", "normal_mean_confint"]
