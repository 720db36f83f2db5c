"""Tests whose null distributions include the noise."""

from dpinfer.hypothesis_tests.composite import chisquare_fit
from dpinfer.hypothesis_tests.contingency import chi2_contingency
from dpinfer.hypothesis_tests.counts import counts_2indep, linear_ztest
from dpinfer.hypothesis_tests.goodness_of_fit import chisquare
from dpinfer.hypothesis_tests.mcnemar import mcnemar
from dpinfer.hypothesis_tests.null import null_distribution
from dpinfer.hypothesis_tests.paired import counts_paired
from dpinfer.hypothesis_tests.proportions import proportions_ztest
from dpinfer.hypothesis_tests.rates import poisson_2indep, poisson_ztest
from dpinfer.hypothesis_tests.rows import rows_ztest
from dpinfer.hypothesis_tests.trend import counts_trend, proportions_trend
from dpinfer.hypothesis_tests.two_proportions import proportions_2indep

__all__ = [
    "chi2_contingency",
    "chisquare",
    "chisquare_fit",
    "counts_2indep",
    "counts_paired",
    "counts_trend",
    "linear_ztest",
    "mcnemar",
    "null_distribution",
    "poisson_2indep",
    "poisson_ztest",
    "proportions_2indep",
    "proportions_trend",
    "proportions_ztest",
    "rows_ztest",
]
