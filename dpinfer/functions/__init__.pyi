from .unbiased import Exponential as Exponential
from .unbiased import FunctionEstimate as FunctionEstimate
from .unbiased import unbiased as unbiased
