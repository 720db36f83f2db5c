"""Unbiased estimators that combine every published value about a quantity."""

from dpinfer.estimation.clipped import ClippedEstimate
from dpinfer.estimation.combined import CombinedEstimate
from dpinfer.estimation.gls import combine

__all__ = ["ClippedEstimate", "CombinedEstimate", "combine"]
