"""The law of a binomial count published with noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpinfer._numerics.binomial import binom_pmf, binom_radius
from dpinfer._validation import FloatArray
from dpinfer.mechanisms._noisy_count import NoisyCount


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyBinomial(NoisyCount):
    """Law of T = X + e with X ~ Binomial(nobs, value) and symmetric noise e of a given law.

    Parameters
    ----------
    nobs : array of float
        Number of trials, whole numbers >= 0, shape () or (m,).
    value : array of float
        Probability of success in (0, 1), shape () or (m,).
    noise : NoiseLaw
        Law of the noise, of shape () or (m,).
    """

    nobs: FloatArray
    value: FloatArray

    @property
    def parameters(self) -> dict[str, FloatArray]:
        """Number of trials and probability of success."""
        return {"nobs": self.nobs, "value": self.value}

    @property
    def _mode(self) -> FloatArray:
        return np.asarray(np.minimum(np.floor((self.nobs + 1.0) * self.value), self.nobs))

    @property
    def _last(self) -> FloatArray:
        return self.nobs

    def _pmf_at(self, k: FloatArray) -> FloatArray:
        return binom_pmf(k, self.nobs, self.value)

    def _log_slope(self, k: FloatArray) -> FloatArray:
        rises = np.log((self.nobs - k) * self.value)
        return np.asarray(rises - np.log((k + 1.0) * (1.0 - self.value)))

    def _radius(self, centre: FloatArray, log_ratio: float) -> FloatArray:
        return binom_radius(centre, self.nobs, log_ratio)

    def _draw_counts(self, size: int, rng: np.random.Generator) -> FloatArray:
        return rng.binomial(int(self.nobs), float(self.value), size).astype(np.float64)
