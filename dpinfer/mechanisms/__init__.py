"""Laws of the noise: one file a mechanism, and the law of weighted sums of them."""

from dpinfer.mechanisms._law import ContinuousLaw, IntegerLaw, NoiseLaw
from dpinfer.mechanisms.exact import Exact
from dpinfer.mechanisms.gaussian import Gaussian
from dpinfer.mechanisms.geometric import Geometric
from dpinfer.mechanisms.independent import IndependentNoise, Mechanism, as_noise, groups
from dpinfer.mechanisms.laplace import Laplace

__all__ = [
    "ContinuousLaw",
    "Exact",
    "Gaussian",
    "Geometric",
    "IndependentNoise",
    "IntegerLaw",
    "Laplace",
    "Mechanism",
    "NoiseLaw",
    "as_noise",
    "groups",
]
