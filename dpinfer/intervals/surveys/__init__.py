"""Design-based totals and means from the noisy counts of probability samples."""

from dpinfer.intervals.surveys.estimate import SurveyEstimate
from dpinfer.intervals.surveys.totals import (
    stratified_mean,
    stratified_total,
    survey_mean,
    survey_total,
)

__all__ = ["SurveyEstimate", "stratified_mean", "stratified_total", "survey_mean", "survey_total"]
