"""Unbiased estimators that combine every published value about a quantity."""

from dpinfer.estimation.clipped import ClippedEstimate
from dpinfer.estimation.combined import CombinedEstimate
from dpinfer.estimation.gls import combine
from dpinfer.estimation.hierarchies.combine import combine_hierarchy
from dpinfer.estimation.hierarchies.estimate import HierarchyEstimate
from dpinfer.estimation.hierarchies.functions import HierarchyFunctions
from dpinfer.estimation.randomized_response import (
    ResponseEstimate,
    response_counts,
    response_proportions,
)
from dpinfer.estimation.streaming.stream import (
    TreePart,
    census_parts,
    read_marginals_parquet,
    stream_marginals,
    write_marginals_parquet,
)
from dpinfer.estimation.streaming.streamed import StreamedMarginals
from dpinfer.estimation.tables.contrast import TableContrast
from dpinfer.estimation.tables.estimate import MarginalsEstimate
from dpinfer.estimation.tables.marginals import NoisyMarginal, StructuralZeros, combine_marginals

__all__ = [
    "ClippedEstimate",
    "CombinedEstimate",
    "HierarchyEstimate",
    "HierarchyFunctions",
    "MarginalsEstimate",
    "NoisyMarginal",
    "ResponseEstimate",
    "StreamedMarginals",
    "StructuralZeros",
    "TableContrast",
    "TreePart",
    "census_parts",
    "combine",
    "combine_hierarchy",
    "combine_marginals",
    "read_marginals_parquet",
    "response_counts",
    "response_proportions",
    "stream_marginals",
    "write_marginals_parquet",
]
