"""Answers to many queries from one budget, and how useful they are."""

from dpinfer.query_release.generalization import GeneralizationBound, generalization_bound
from dpinfer.query_release.multiplicative_weights import multiplicative_weights
from dpinfer.query_release.online import OnlineMultiplicativeWeights
from dpinfer.query_release.release import MultiplicativeWeightsRelease
from dpinfer.query_release.usefulness import Usefulness, usefulness

__all__ = [
    "GeneralizationBound",
    "MultiplicativeWeightsRelease",
    "OnlineMultiplicativeWeights",
    "Usefulness",
    "generalization_bound",
    "multiplicative_weights",
    "usefulness",
]
