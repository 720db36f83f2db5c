"""The law of a Poisson count published with noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpinfer._numerics.poisson import poisson_pmf, poisson_radius
from dpinfer._validation import FloatArray
from dpinfer.mechanisms._noisy_count import LOG_SMALLEST, NoisyCount


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyPoisson(NoisyCount):
    """Law of T = X + e with X ~ Poisson(rate) and symmetric noise e of a given law.

    Parameters
    ----------
    rate : array of float
        Expected count > 0, shape () or (m,).
    noise : NoiseLaw
        Law of the noise, of shape () or (m,).
    """

    rate: FloatArray

    @property
    def parameters(self) -> dict[str, FloatArray]:
        """Expected count."""
        return {"rate": self.rate}

    @property
    def _mode(self) -> FloatArray:
        return np.asarray(np.floor(self.rate))

    @property
    def _last(self) -> FloatArray:
        # the probabilities of what comes after are zero in float64
        return self._mode + self._radius(self._mode, LOG_SMALLEST)

    def _pmf_at(self, k: FloatArray) -> FloatArray:
        return poisson_pmf(k, self.rate)

    def _log_slope(self, k: FloatArray) -> FloatArray:
        return np.asarray(np.log(self.rate) - np.log(k + 1.0))

    def _radius(self, centre: FloatArray, log_ratio: float) -> FloatArray:
        return poisson_radius(centre, log_ratio)

    def _draw_counts(self, size: int, rng: np.random.Generator) -> FloatArray:
        return rng.poisson(float(self.rate), size).astype(np.float64)
