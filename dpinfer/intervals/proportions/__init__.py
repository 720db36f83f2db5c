"""Intervals for proportions and rates of a population, from counts published with noise."""

from dpinfer.intervals.proportions.one_sample import proportion_confint
from dpinfer.intervals.proportions.rates import poisson_confint

__all__ = ["poisson_confint", "proportion_confint"]
