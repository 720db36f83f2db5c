"""What a guarantee means: for tests, for beliefs, for decisions and for a median's noise."""

from dpinfer.privacy.semantics.pbdp import pbdp_delta, pbdp_epsilon
from dpinfer.privacy.semantics.posterior_bounds import PosteriorBounds, posterior_bounds
from dpinfer.privacy.semantics.posterior_simulation import (
    SecretPosterior,
    secret_posterior,
    simulate_posterior,
)
from dpinfer.privacy.semantics.posterior_tail import posterior_tail
from dpinfer.privacy.semantics.smooth_noise import SmoothNoise
from dpinfer.privacy.semantics.smooth_sensitivity import (
    SmoothSensitivity,
    smooth_count_sensitivity,
    smooth_median_sensitivity,
)
from dpinfer.privacy.semantics.tolerances import epsilon_for_odds, epsilon_for_rise
from dpinfer.privacy.semantics.trade_off import TradeOff, max_power
from dpinfer.privacy.semantics.utility import utility_bounds

__all__ = [
    "PosteriorBounds",
    "SecretPosterior",
    "SmoothNoise",
    "SmoothSensitivity",
    "TradeOff",
    "epsilon_for_odds",
    "epsilon_for_rise",
    "max_power",
    "pbdp_delta",
    "pbdp_epsilon",
    "posterior_bounds",
    "posterior_tail",
    "secret_posterior",
    "simulate_posterior",
    "smooth_count_sensitivity",
    "smooth_median_sensitivity",
    "utility_bounds",
]
