"""Intervals for values that were published, or moved, by a rule on the noisy value."""

from dpinfer.intervals.selected.clamped import clamped_confint
from dpinfer.intervals.selected.releases import release_confint
from dpinfer.intervals.selected.thresholded import thresholded_confint
from dpinfer.intervals.selected.unpublished import unpublished_bound

__all__ = ["clamped_confint", "release_confint", "thresholded_confint", "unpublished_bound"]
