from .pooling import PooledEstimate as PooledEstimate
from .pooling import pool as pool
from .result import FunctionPosterior as FunctionPosterior
from .result import TablePosterior as TablePosterior
from .table import prior_predictive as prior_predictive
from .table import table_posterior as table_posterior
