from .least_squares import NoisyRegression as NoisyRegression
from .least_squares import noisy_ols as noisy_ols
