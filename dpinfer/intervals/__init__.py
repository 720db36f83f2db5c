"""Intervals that include the noise of the mechanism."""

from dpinfer.intervals.counts import count_confint
from dpinfer.intervals.linear import linear_confint
from dpinfer.intervals.means import (
    PrivateMeanInterval,
    clipped_mean_confint,
    normal_mean_confint,
)
from dpinfer.intervals.posterior import (
    CountPosterior,
    CredibleIntervals,
    FlatPrior,
    FunctionPrior,
    NegativeBinomialPrior,
    PoissonPrior,
    TablePrior,
    count_posterior,
    empirical_prior,
)
from dpinfer.intervals.proportions import (
    poisson_confint,
    proportion_confint,
)
from dpinfer.intervals.ratios import (
    linear_ratio_confint,
    odds_ratio_confint,
    ratio_confint,
    relative_change_confint,
    risk_difference_confint,
    risk_ratio_confint,
    share_confint,
)
from dpinfer.intervals.selected import (
    clamped_confint,
    release_confint,
    thresholded_confint,
    unpublished_bound,
)
from dpinfer.intervals.surveys import (
    SurveyEstimate,
    stratified_mean,
    stratified_total,
    survey_mean,
    survey_total,
)
from dpinfer.intervals.widths import (
    ClippedMeanWidth,
    CountWidth,
    LinearWidth,
    NormalMeanWidth,
    PoissonWidth,
    PosteriorWidth,
    ProportionWidth,
    RatioWidth,
    SurveyWidth,
    ThresholdedWidth,
    TwoByTwoWidth,
)

__all__ = [
    "ClippedMeanWidth",
    "CountPosterior",
    "CountWidth",
    "CredibleIntervals",
    "FlatPrior",
    "FunctionPrior",
    "LinearWidth",
    "NegativeBinomialPrior",
    "NormalMeanWidth",
    "PoissonPrior",
    "PoissonWidth",
    "PosteriorWidth",
    "PrivateMeanInterval",
    "ProportionWidth",
    "RatioWidth",
    "SurveyEstimate",
    "SurveyWidth",
    "TablePrior",
    "ThresholdedWidth",
    "TwoByTwoWidth",
    "clamped_confint",
    "clipped_mean_confint",
    "count_confint",
    "count_posterior",
    "empirical_prior",
    "linear_confint",
    "linear_ratio_confint",
    "normal_mean_confint",
    "odds_ratio_confint",
    "poisson_confint",
    "proportion_confint",
    "ratio_confint",
    "relative_change_confint",
    "release_confint",
    "risk_difference_confint",
    "risk_ratio_confint",
    "share_confint",
    "stratified_mean",
    "stratified_total",
    "survey_mean",
    "survey_total",
    "thresholded_confint",
    "unpublished_bound",
]
