from .linear_ratio import linear_ratio_confint as linear_ratio_confint
from .ratio import ratio_confint as ratio_confint
from .ratio import relative_change_confint as relative_change_confint
from .ratio import share_confint as share_confint
from .two_by_two import odds_ratio_confint as odds_ratio_confint
from .two_by_two import risk_difference_confint as risk_difference_confint
from .two_by_two import risk_ratio_confint as risk_ratio_confint
