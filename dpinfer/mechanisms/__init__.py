"""Laws of the noise: one file a mechanism, and the law of weighted sums of them."""

from dpinfer.mechanisms._law import ContinuousLaw, IntegerLaw, NoiseLaw
from dpinfer.mechanisms.discrete_gaussian import DiscreteGaussian
from dpinfer.mechanisms.exact import Exact
from dpinfer.mechanisms.exponential import ExponentialMechanism
from dpinfer.mechanisms.frozen import FrozenDensity, FrozenMass, FrozenNoise, as_frozen
from dpinfer.mechanisms.gaussian import Gaussian
from dpinfer.mechanisms.geometric import Geometric
from dpinfer.mechanisms.independent import IndependentNoise, Mechanism, as_noise, groups
from dpinfer.mechanisms.laplace import Laplace
from dpinfer.mechanisms.randomized_response import RandomizedResponse
from dpinfer.mechanisms.tulap import Tulap
from dpinfer.mechanisms.weighted_sum import WeightedSum, weighted_sums

__all__ = [
    "ContinuousLaw",
    "DiscreteGaussian",
    "Exact",
    "ExponentialMechanism",
    "FrozenDensity",
    "FrozenMass",
    "FrozenNoise",
    "Gaussian",
    "Geometric",
    "IndependentNoise",
    "IntegerLaw",
    "Laplace",
    "Mechanism",
    "NoiseLaw",
    "RandomizedResponse",
    "Tulap",
    "WeightedSum",
    "as_frozen",
    "as_noise",
    "groups",
    "weighted_sums",
]
