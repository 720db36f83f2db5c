"""Chi-squared tests of noisy tables: goodness of fit, independence, fitted models."""

from dpinfer.hypothesis_tests.tables.composite import chisquare_fit
from dpinfer.hypothesis_tests.tables.contingency import chi2_contingency
from dpinfer.hypothesis_tests.tables.goodness_of_fit import chisquare

__all__ = ["chi2_contingency", "chisquare", "chisquare_fit"]
