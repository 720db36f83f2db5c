"""Secrecy of the sample: amplification of guarantees, and what it saves in noise."""

from dpinfer.privacy.sampling.adjusting import SampleAdjustment, adjust_for_sampling
from dpinfer.privacy.sampling.amplification import amplify, amplify_inverse
from dpinfer.privacy.sampling.rates import amplified_epsilon, sample_epsilon
from dpinfer.privacy.sampling.subsampled import SubsampledLoss

__all__ = [
    "SampleAdjustment",
    "SubsampledLoss",
    "adjust_for_sampling",
    "amplified_epsilon",
    "amplify",
    "amplify_inverse",
    "sample_epsilon",
]
