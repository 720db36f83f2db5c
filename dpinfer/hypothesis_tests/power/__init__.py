"""Power and planning of the tests, in the manner of statsmodels."""

from dpinfer.hypothesis_tests.power.composite import CompositeFitPower
from dpinfer.hypothesis_tests.power.goodness_of_fit import GoodnessOfFitPower
from dpinfer.hypothesis_tests.power.homogeneity import HomogeneityPower
from dpinfer.hypothesis_tests.power.independence import IndependencePower
from dpinfer.hypothesis_tests.power.linear import LinearPower
from dpinfer.hypothesis_tests.power.mcnemar import McNemarPower
from dpinfer.hypothesis_tests.power.one_count import PoissonPower, ProportionPower
from dpinfer.hypothesis_tests.power.paired import PairedCountsPower
from dpinfer.hypothesis_tests.power.trend import ProportionsTrendPower, TrendPower
from dpinfer.hypothesis_tests.power.two_proportions import TwoProportionsPower
from dpinfer.hypothesis_tests.power.two_rates import TwoRatesPower

__all__ = [
    "CompositeFitPower",
    "GoodnessOfFitPower",
    "HomogeneityPower",
    "IndependencePower",
    "LinearPower",
    "McNemarPower",
    "PairedCountsPower",
    "PoissonPower",
    "ProportionPower",
    "ProportionsTrendPower",
    "TrendPower",
    "TwoProportionsPower",
    "TwoRatesPower",
]
