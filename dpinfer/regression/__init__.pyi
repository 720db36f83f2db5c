from .generalized import NoisyGLM as NoisyGLM
from .generalized import noisy_glm as noisy_glm
from .least_squares import NoisyRegression as NoisyRegression
from .least_squares import noisy_ols as noisy_ols
from .thresholded import ThresholdedRegression as ThresholdedRegression
from .thresholded import thresholded_glm as thresholded_glm
