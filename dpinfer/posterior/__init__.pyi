from .result import TablePosterior as TablePosterior
from .table import table_posterior as table_posterior
