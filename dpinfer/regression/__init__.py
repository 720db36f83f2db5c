"""Least squares with published noisy counts and shares."""

from dpinfer.regression.least_squares import noisy_ols
from dpinfer.regression.results import NoisyRegression

__all__ = ["NoisyRegression", "noisy_ols"]
