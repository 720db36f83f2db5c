"""The law of values that a publishing rule selected or clamped, which tests and intervals share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.releases import Release

_SMALLEST_LOG = -700.0


@dataclass(frozen=True, kw_only=True, eq=False)
class PublishedRows:
    """Law of each published value when the confidential one is given.

    Values are published where they reach a threshold, and clamped to bounds. A confidential value
    from which the noise cannot reach the threshold counts as one that is far too low.

    Parameters
    ----------
    target : array of float, shape (m,)
        The confidential values.
    noise : NoiseLaw
        The law of the noise.
    threshold, lowest, highest : array of float, shape (m,)
        The threshold and the bounds, infinite where there are none.
    """

    target: FloatArray
    noise: NoiseLaw
    threshold: FloatArray
    lowest: FloatArray
    highest: FloatArray

    @classmethod
    def of(cls, release: Release, target: FloatArray) -> PublishedRows:
        """Read the publishing rule of a release."""
        size = len(release)
        none = -np.inf if release.threshold is None else release.threshold
        low, high = (-np.inf, np.inf) if release.clamp is None else release.clamp
        threshold, lowest, highest = (np.broadcast_to(x, size) for x in (none, low, high))
        return cls(
            target=np.broadcast_to(target, size),
            noise=release.mechanism,
            threshold=threshold,
            lowest=lowest,
            highest=highest,
        )

    @property
    def spread(self) -> FloatArray:
        """Standard deviation of the noise."""
        return np.broadcast_to(self.noise.std, self.target.shape)

    @property
    def error(self) -> FloatArray:
        """Error of probabilities where that is an absolute one; 0 where it is relative."""
        floor = np.broadcast_to(self.noise._floor, self.target.shape)
        with np.errstate(over="ignore"):
            relative = np.exp(-np.maximum(self.log_at_least(self.threshold), _SMALLEST_LOG))
        return np.where(floor > 0, np.minimum(floor * relative, 1.0), 0.0)

    def larger(self, y: FloatArray) -> FloatArray:
        """P(published >= y), given that it is published."""
        reached = np.maximum(y, self.threshold)
        tail = np.exp(self._log_share(self.log_at_least(reached)))
        return np.where(reached > self.highest, 0.0, tail)

    def smaller(self, y: FloatArray) -> FloatArray:
        """P(published <= y), given that it is published."""
        beyond = np.where(y < self.lowest, 0.0, self.noise._logsf(y - self.target))
        tail = -np.expm1(np.minimum(self._log_share(beyond), 0.0))
        inside = np.where(np.isinf(self.threshold), self.noise._cdf(y - self.target), tail)
        return np.where(y >= self.highest, 1.0, np.where(y < self.lowest, 0.0, inside))

    def log_at_least(self, y: FloatArray) -> FloatArray:
        """Logarithm of P(clamped value >= y); by symmetry P(e >= x) = P(e <= -x)."""
        return np.where(y <= self.lowest, 0.0, self.noise._logcdf(self.target - y))

    def _log_share(self, log_probability: FloatArray) -> FloatArray:
        """Logarithm of a probability relative to that of publication; -inf where that is 0."""
        published = self.log_at_least(self.threshold)
        possible = published > -np.inf
        return np.where(possible, log_probability - np.where(possible, published, 0.0), -np.inf)
