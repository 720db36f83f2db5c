"""Plans of intervals: how wide they will be, and what makes them as narrow as is wanted."""

from dpinfer.intervals.widths.counts import CountWidth, LinearWidth
from dpinfer.intervals.widths.means import ClippedMeanWidth
from dpinfer.intervals.widths.proportions import ProportionWidth
from dpinfer.intervals.widths.rates import PoissonWidth
from dpinfer.intervals.widths.ratios import RatioWidth
from dpinfer.intervals.widths.surveys import SurveyWidth
from dpinfer.intervals.widths.thresholded import ThresholdedWidth

__all__ = [
    "ClippedMeanWidth",
    "CountWidth",
    "LinearWidth",
    "PoissonWidth",
    "ProportionWidth",
    "RatioWidth",
    "SurveyWidth",
    "ThresholdedWidth",
]
