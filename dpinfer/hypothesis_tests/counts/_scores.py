"""The law of a sum of scores of multinomial counts published with noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from dpinfer._numerics.commensurate import common_spacing
from dpinfer._validation import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms._fast_sum import fast_sum
from dpinfer.mechanisms._law import NoiseLaw

LONGEST = 1 << 22
"""Largest number of values of the sum."""

_LOG_NEGLIGIBLE = 46.0
"""The probability left out on either side is below exp(-46) = 1e-20."""

_ROUNDING = 64 * np.finfo(float).eps

_POINTS_IN_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class NoisyScores:
    """Law of T = Σ sᵢ(yᵢ - n pᵢ), y = X + e, with X ~ multinomial(n, p) and independent noise e.

    Parameters
    ----------
    nobs : int
        Number of observations n.
    shares : array of float, shape (k,)
        Probabilities p of the cells.
    scores : array of float, shape (k,)
        Scores s, not all equal.
    noise : NoiseLaw
        Law of the noise, of shape () or (k,).
    """

    nobs: int
    shares: FloatArray
    scores: FloatArray
    noise: NoiseLaw

    @classmethod
    def of(cls, nobs: int, shares: FloatArray, scores: FloatArray, noise: NoiseLaw) -> NoisyScores:
        """Law for scores that are shifted first, so that the variance of the noise is least.

        A shift changes nothing in the counts, whose total is known.
        """
        variance = np.broadcast_to(noise.variance, scores.shape)
        weights = variance if variance.any() else shares
        return cls(nobs, shares, scores - scores @ weights / weights.sum(), noise)

    def deviation(self, counts: FloatArray) -> FloatArray:
        """T for published counts of shape (..., k)."""
        return np.asarray((counts - self.nobs * self.shares) @ self.scores)

    @cached_property
    def spread(self) -> float:
        """Standard deviation of Σ sᵢXᵢ."""
        centred = self.scores - self.shares @ self.scores
        return float(np.sqrt(self.nobs * (self.shares @ np.square(centred))))

    @cached_property
    def noise_std(self) -> float:
        """Standard deviation of Σ sᵢeᵢ."""
        return float(np.sqrt(np.sum(np.square(self.scores) * self.noise.variance)))

    @property
    def default_method(self) -> Literal["exact", "monte-carlo"]:
        """Whether the exact law is available."""
        return "monte-carlo" if self._grid is None else "exact"

    def slack(self, t: FloatArray) -> FloatArray:
        """Return the rounding error of a computed deviation."""
        size = np.abs(self.scores) @ (self.nobs * self.shares)
        return np.asarray(_ROUNDING * (np.abs(t) + size))

    def upper(self, t: FloatArray) -> FloatArray:
        """P(T >= t)."""
        return self._tail(t, 1.0)

    def lower(self, t: FloatArray) -> FloatArray:
        """P(T <= t)."""
        return self._tail(-t, -1.0)

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw T in units of ``spread``."""
        shape = (size, self.scores.size)
        counts = self.noise._rvs(shape, rng).astype(np.float64)
        counts += rng.multinomial(self.nobs, self.shares, size)
        return self.deviation(counts) / self.spread

    def _tail(self, t: FloatArray, sign: float) -> FloatArray:
        """P(sign·T >= t) = Σ_u P(U = u)·P(noise >= t - sign·u); the noise is symmetric."""
        values, chances = self._sum
        slack = self.slack(t).reshape(-1, 1)
        points = np.reshape(t, (-1, 1))
        tail = np.empty(points.size)
        step = max(1, _POINTS_IN_BLOCK // values.size)
        for start in range(0, points.size, step):
            rows = slice(start, start + step)
            tail[rows] = self._noise_sum._cdf(sign * values - points[rows] + slack[rows]) @ chances
        return np.clip(tail, 0.0, 1.0).reshape(t.shape)

    @cached_property
    def _noise_sum(self) -> NoiseLaw:
        """Law of Σ sᵢeᵢ."""
        cells = range(self.scores.size)
        return fast_sum(
            self.scores, [self.noise.take(i) if self.noise.shape else self.noise for i in cells]
        )

    @cached_property
    def _grid(self) -> tuple[float, FloatArray, float] | None:
        """Spacing h of the scores, the whole numbers (s - min s)/h, and the reach of their sum.

        None where the scores have no common spacing, or the sum too many values.
        """
        above = self.scores - self.scores.min()
        found = common_spacing(above[above > 0], smallest=float(above.max()) / LONGEST)
        if found is None:
            return None
        steps = np.zeros(above.size)
        steps[above > 0] = found[1]
        variance = self.nobs * (self.shares @ np.square(steps - self.shares @ steps))
        # Bernstein: P(deviation > R) <= exp(-R²/2/(variance + b R/3)) for scores within b
        third = steps.max() * _LOG_NEGLIGIBLE / 3.0
        reach = third + np.sqrt(third**2 + 2.0 * _LOG_NEGLIGIBLE * variance)
        reach = np.ceil(min(reach, self.nobs * steps.max())) + 1.0
        return None if 2.0 * reach + 2.0 > LONGEST else (found[0], steps, float(reach))

    @cached_property
    def _sum(self) -> tuple[FloatArray, FloatArray]:
        """Values of Σ sᵢXᵢ less its mean, and their probabilities."""
        from scipy import fft

        if self._grid is None:
            raise InvalidParameterError(
                "method must be 'monte-carlo' or 'normal' where the scores have no common spacing, "
                f"or their sum has more than {LONGEST} values, got 'exact'"
            )
        spacing, steps, reach = self._grid
        mean = float(self.shares @ steps)
        first = np.floor(self.nobs * mean - reach)
        length = fft.next_fast_len(int(2.0 * reach) + 2)
        angle = 2.0 * np.pi * fft.fftfreq(length)
        # E[exp(iθ(s - mean))] - 1, whose first-order terms cancel
        less_one = np.zeros(length, dtype=np.complex128)
        for share, step in zip(self.shares, steps, strict=True):
            x = angle * (step - mean)
            less_one += share * (1j * np.sin(x) - 2.0 * np.square(np.sin(0.5 * x)))
        gone = less_one == -1.0
        less_one[gone] = 0.0
        shift = 1j * angle * (first - self.nobs * mean)
        power = np.where(gone, 0.0, np.exp(self.nobs * np.log1p(less_one) - shift))
        chances = np.maximum(fft.fft(power).real / length, 0.0)
        values = spacing * (first - self.nobs * mean + np.arange(length))
        return values, chances
