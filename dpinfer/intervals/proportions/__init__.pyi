from .one_sample import proportion_confint as proportion_confint
from .rates import poisson_confint as poisson_confint
