from .estimate import SurveyEstimate as SurveyEstimate
from .totals import stratified_mean as stratified_mean
from .totals import stratified_total as stratified_total
from .totals import survey_mean as survey_mean
from .totals import survey_total as survey_total
