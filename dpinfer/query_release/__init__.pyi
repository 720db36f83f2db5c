from .generalization import GeneralizationBound as GeneralizationBound
from .generalization import generalization_bound as generalization_bound
from .multiplicative_weights import multiplicative_weights as multiplicative_weights
from .online import OnlineMultiplicativeWeights as OnlineMultiplicativeWeights
from .release import MultiplicativeWeightsRelease as MultiplicativeWeightsRelease
from .usefulness import Usefulness as Usefulness
from .usefulness import usefulness as usefulness
