"""What was asked of the data: domain, workload matrix, sensitivity."""

from dpinfer.queries.counting import check_counting
from dpinfer.queries.domain import SUMMED, Domain
from dpinfer.queries.hierarchy import Hierarchy
from dpinfer.queries.sensitivity import (
    clipped_mean_sensitivity,
    l1_sensitivity,
    l2_sensitivity,
)
from dpinfer.queries.workload import Workload

__all__ = [
    "SUMMED",
    "Domain",
    "Hierarchy",
    "Workload",
    "check_counting",
    "clipped_mean_sensitivity",
    "l1_sensitivity",
    "l2_sensitivity",
]
