"""Power and planning of the tests, in the manner of statsmodels."""

from dpinfer.hypothesis_tests.power.goodness_of_fit import GoodnessOfFitPower
from dpinfer.hypothesis_tests.power.one_count import PoissonPower, ProportionPower

__all__ = ["GoodnessOfFitPower", "PoissonPower", "ProportionPower"]
