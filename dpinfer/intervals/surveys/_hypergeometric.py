"""The law of a count in a simple random sample, published with noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpinfer._numerics.binomial import binom_pmf, binom_radius
from dpinfer._validation import FloatArray
from dpinfer.mechanisms._noisy_count import NoisyCount


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyHypergeometric(NoisyCount):
    """Law of T = X + e, X the count among ``nobs`` of ``population`` of which ``total`` count.

    Parameters
    ----------
    nobs : array of float
        Size n of the sample, whole numbers with 1 <= n < N, shape () or (m,).
    total : array of float
        Number K in the population that count, whole numbers with 0 <= K <= N.
    population : array of float
        Size N of the population.
    noise : NoiseLaw
        Law of the noise e, of shape () or (m,).

    Notes
    -----
    The generating function of X has real roots only, so that X, and X under any exponential
    tilt, is a sum of at most n independent trials: its spread around any count is at most that
    of a binomial one, which is what the windows of the sums rest on.
    """

    nobs: FloatArray
    total: FloatArray
    population: FloatArray

    @property
    def parameters(self) -> dict[str, FloatArray]:
        """Sizes of the sample, of the part that counts, and of the population."""
        return {"nobs": self.nobs, "total": self.total, "population": self.population}

    @property
    def _mode(self) -> FloatArray:
        mode = np.floor((self.nobs + 1.0) * (self.total + 1.0) / (self.population + 2.0))
        return np.asarray(np.clip(mode, self._first, self._last))

    @property
    def _first(self) -> FloatArray:
        return np.asarray(np.maximum(self.nobs - (self.population - self.total), 0.0))

    @property
    def _last(self) -> FloatArray:
        return np.asarray(np.minimum(self.nobs, self.total))

    def _pmf_at(self, k: FloatArray) -> FloatArray:
        # Loader (2000): a ratio of binomial probabilities, whatever their common p
        p = self.nobs / self.population
        rest = self.population - self.total
        inside = np.clip(k, self._first, self._last)
        pmf = binom_pmf(inside, self.total, p) * binom_pmf(self.nobs - inside, rest, p)
        return np.where(k == inside, pmf / binom_pmf(self.nobs, self.population, p), 0.0)

    def _log_slope(self, k: FloatArray) -> FloatArray:
        rises = np.log((self.total - k) * (self.nobs - k))
        room = self.population - self.total - self.nobs + k + 1.0
        return np.asarray(rises - np.log((k + 1.0) * np.maximum(room, 0.0)))

    def _radius(self, centre: FloatArray, log_ratio: float) -> FloatArray:
        return binom_radius(centre, self.nobs, log_ratio)

    def _draw_counts(self, size: int, rng: np.random.Generator) -> FloatArray:
        good, bad = int(self.total), int(self.population - self.total)
        return rng.hypergeometric(good, bad, int(self.nobs), size).astype(np.float64)
