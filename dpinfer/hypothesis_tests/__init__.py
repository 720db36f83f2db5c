"""Tests whose null distributions include the noise."""

from dpinfer.hypothesis_tests.goodness_of_fit import chisquare
from dpinfer.hypothesis_tests.proportions import proportions_ztest

__all__ = ["chisquare", "proportions_ztest"]
