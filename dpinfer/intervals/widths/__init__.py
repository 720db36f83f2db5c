"""Plans of intervals: how wide they will be, and what makes them as narrow as is wanted."""

from dpinfer.intervals.widths.counts import CountWidth, LinearWidth
from dpinfer.intervals.widths.linear_ratios import LinearRatioWidth
from dpinfer.intervals.widths.means import ClippedMeanWidth
from dpinfer.intervals.widths.normal_means import NormalMeanWidth
from dpinfer.intervals.widths.posteriors import PosteriorWidth
from dpinfer.intervals.widths.proportions import ProportionWidth
from dpinfer.intervals.widths.rates import PoissonWidth
from dpinfer.intervals.widths.ratios import RatioWidth
from dpinfer.intervals.widths.strata import StratifiedWidth
from dpinfer.intervals.widths.surveys import SurveyWidth
from dpinfer.intervals.widths.thresholded import ThresholdedWidth
from dpinfer.intervals.widths.two_by_two import TwoByTwoWidth
from dpinfer.intervals.widths.unpublished import UnpublishedWidth

__all__ = [
    "ClippedMeanWidth",
    "CountWidth",
    "LinearRatioWidth",
    "LinearWidth",
    "NormalMeanWidth",
    "PoissonWidth",
    "PosteriorWidth",
    "ProportionWidth",
    "RatioWidth",
    "StratifiedWidth",
    "SurveyWidth",
    "ThresholdedWidth",
    "TwoByTwoWidth",
    "UnpublishedWidth",
]
