from .linear import counts_2indep as counts_2indep
from .linear import linear_ztest as linear_ztest
from .paired import counts_paired as counts_paired
from .rows import rows_ztest as rows_ztest
from .trend import counts_trend as counts_trend
from .trend import proportions_trend as proportions_trend
