"""Result objects and their tables; nothing here knows of privacy."""

from dpinfer.results.adjusted import AdjustedTests, adjust_pvalues
from dpinfer.results.confidence_sets import ConfidenceSets
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.intervals import Intervals
from dpinfer.results.monte_carlo_null import MonteCarloNull
from dpinfer.results.null_distribution import AsymptoticNull, ExactNull, NullDistribution
from dpinfer.results.size_study import SizeStudy

__all__ = [
    "AdjustedTests",
    "AsymptoticNull",
    "ConfidenceSets",
    "ExactNull",
    "HypothesisResult",
    "Intervals",
    "MonteCarloNull",
    "NullDistribution",
    "SizeStudy",
    "adjust_pvalues",
]
