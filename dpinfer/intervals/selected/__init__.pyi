from .clamped import clamped_confint as clamped_confint
from .releases import release_confint as release_confint
from .thresholded import thresholded_confint as thresholded_confint
from .unpublished import unpublished_bound as unpublished_bound
