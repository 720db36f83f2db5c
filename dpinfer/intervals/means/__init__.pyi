from .clipped_mean import clipped_mean_confint as clipped_mean_confint
from .normal_mean import PrivateMeanInterval as PrivateMeanInterval
from .normal_mean import normal_mean_confint as normal_mean_confint
