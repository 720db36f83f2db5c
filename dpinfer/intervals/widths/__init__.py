"""Plans of intervals: how wide they will be, and what makes them as narrow as is wanted."""

from dpinfer.intervals.widths.counts import CountWidth, LinearWidth
from dpinfer.intervals.widths.proportions import ProportionWidth
from dpinfer.intervals.widths.rates import PoissonWidth
from dpinfer.intervals.widths.ratios import RatioWidth

__all__ = ["CountWidth", "LinearWidth", "PoissonWidth", "ProportionWidth", "RatioWidth"]
