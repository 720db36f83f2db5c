from .mcnemar import mcnemar as mcnemar
from .one_sample import proportions_ztest as proportions_ztest
from .rates import poisson_2indep as poisson_2indep
from .rates import poisson_ztest as poisson_ztest
from .two_samples import proportions_2indep as proportions_2indep
