"""Tests whose null distributions include the noise."""

from dpinfer.hypothesis_tests.counts import (
    counts_2indep,
    counts_paired,
    counts_trend,
    linear_ztest,
    proportions_trend,
    rows_ztest,
)
from dpinfer.hypothesis_tests.null import null_distribution
from dpinfer.hypothesis_tests.power import (
    CompositeFitPower,
    GoodnessOfFitPower,
    HomogeneityPower,
    IndependencePower,
    LinearPower,
    McNemarPower,
    PairedCountsPower,
    PoissonPower,
    ProportionPower,
    ProportionsTrendPower,
    TrendPower,
    TwoProportionsPower,
    TwoRatesPower,
)
from dpinfer.hypothesis_tests.proportions import (
    mcnemar,
    poisson_2indep,
    poisson_ztest,
    proportions_2indep,
    proportions_ztest,
)
from dpinfer.hypothesis_tests.size_study import size_study
from dpinfer.hypothesis_tests.tables import chi2_contingency, chisquare, chisquare_fit

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
    "size_study",
]
