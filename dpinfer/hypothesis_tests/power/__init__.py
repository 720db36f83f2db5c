"""Power and planning of the tests, in the manner of statsmodels."""

from dpinfer.hypothesis_tests.power.goodness_of_fit import GoodnessOfFitPower
from dpinfer.hypothesis_tests.power.independence import IndependencePower
from dpinfer.hypothesis_tests.power.linear import LinearPower
from dpinfer.hypothesis_tests.power.one_count import PoissonPower, ProportionPower
from dpinfer.hypothesis_tests.power.two_proportions import TwoProportionsPower

__all__ = [
    "GoodnessOfFitPower",
    "IndependencePower",
    "LinearPower",
    "PoissonPower",
    "ProportionPower",
    "TwoProportionsPower",
]
