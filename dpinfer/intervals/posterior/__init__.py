"""Posteriors of confidential counts given the published ones."""

from dpinfer.intervals.posterior.count_posterior import count_posterior
from dpinfer.intervals.posterior.credible import CredibleIntervals
from dpinfer.intervals.posterior.empirical import empirical_prior
from dpinfer.intervals.posterior.priors import (
    FlatPrior,
    FunctionPrior,
    NegativeBinomialPrior,
    PoissonPrior,
    TablePrior,
)
from dpinfer.intervals.posterior.result import CountPosterior

__all__ = [
    "CountPosterior",
    "CredibleIntervals",
    "FlatPrior",
    "FunctionPrior",
    "NegativeBinomialPrior",
    "PoissonPrior",
    "TablePrior",
    "count_posterior",
    "empirical_prior",
]
