from .composite import chisquare_fit as chisquare_fit
from .contingency import chi2_contingency as chi2_contingency
from .goodness_of_fit import chisquare as chisquare
