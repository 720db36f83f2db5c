from .adjusting import SampleAdjustment as SampleAdjustment
from .adjusting import adjust_for_sampling as adjust_for_sampling
from .amplification import amplify as amplify
from .amplification import amplify_inverse as amplify_inverse
from .rates import amplified_epsilon as amplified_epsilon
from .rates import sample_epsilon as sample_epsilon
from .subsampled import SubsampledLoss as SubsampledLoss
