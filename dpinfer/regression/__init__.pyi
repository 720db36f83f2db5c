from .least_squares import noisy_ols as noisy_ols
from .results import NoisyRegression as NoisyRegression
