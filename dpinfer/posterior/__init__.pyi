from .result import TablePosterior as TablePosterior
from .table import prior_predictive as prior_predictive
from .table import table_posterior as table_posterior
