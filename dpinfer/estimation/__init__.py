"""Unbiased estimators that combine every published value about a quantity."""

from dpinfer.estimation.clipped import ClippedEstimate
from dpinfer.estimation.combined import CombinedEstimate
from dpinfer.estimation.gls import combine
from dpinfer.estimation.randomized_response import (
    ResponseEstimate,
    response_counts,
    response_proportions,
)

__all__ = [
    "ClippedEstimate",
    "CombinedEstimate",
    "ResponseEstimate",
    "combine",
    "response_counts",
    "response_proportions",
]
