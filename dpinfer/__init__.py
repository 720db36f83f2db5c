"""Valid statistical inference from differentially private noisy counts."""

from dpinfer.errors import DPInferError
from dpinfer.mechanisms import Gaussian, Geometric, Laplace

__version__ = "0.1.0"

__all__ = ["DPInferError", "Gaussian", "Geometric", "Laplace", "__version__"]
