"""Tests about the confidential counts themselves, in pairs, in order and row by row."""

from dpinfer.hypothesis_tests.counts.linear import counts_2indep, linear_ztest
from dpinfer.hypothesis_tests.counts.paired import counts_paired
from dpinfer.hypothesis_tests.counts.rows import rows_ztest
from dpinfer.hypothesis_tests.counts.trend import counts_trend, proportions_trend

__all__ = [
    "counts_2indep",
    "counts_paired",
    "counts_trend",
    "linear_ztest",
    "proportions_trend",
    "rows_ztest",
]
