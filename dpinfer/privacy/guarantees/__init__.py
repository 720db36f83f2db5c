"""Guarantees of privacy, one value each, and the conversions between them."""

from dpinfer.privacy.guarantees._guarantee import Guarantee
from dpinfer.privacy.guarantees.amplified import Amplification, AmplifiedDP
from dpinfer.privacy.guarantees.approximate import ApproxDP
from dpinfer.privacy.guarantees.concentration import zcdp_of
from dpinfer.privacy.guarantees.gaussian import GDP
from dpinfer.privacy.guarantees.mechanisms import guarantee_of
from dpinfer.privacy.guarantees.pure import PureDP
from dpinfer.privacy.guarantees.renyi import RDP
from dpinfer.privacy.guarantees.zcdp import ZCDP

__all__ = [
    "GDP",
    "RDP",
    "ZCDP",
    "Amplification",
    "AmplifiedDP",
    "ApproxDP",
    "Guarantee",
    "PureDP",
    "guarantee_of",
    "zcdp_of",
]
