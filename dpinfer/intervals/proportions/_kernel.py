"""The probability that noise takes a count to a published value or beyond it."""

from __future__ import annotations

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.intervals.proportions._families import Rows
from dpinfer.mechanisms._law import NoiseLaw

_LARGEST_TABLE = 1 << 20
"""Longest table of probabilities, to bound memory."""

_NEGLIGIBLE = 1e-17
"""Tails of the noise below this share of the wanted probability are left out."""

_SMALLEST = 5e-324

_DEEP = 1e-100
"""Below, factors of the terms may leave the range of floats while the terms matter."""

_LARGEST_LIFT = 300.0
"""The product of two numbers up to e^300 is in the range of floats, with room for slopes."""


class Kernel:
    """P(e <= d) for noise e, or with ``mid`` P(e < d) + P(e = d)/2, times e^log_lift.

    The lift is 0 but where very small probabilities are wanted: of a sum whose terms are products
    of two probabilities it takes each into the range of floats.

    Parameters
    ----------
    noise : NoiseLaw
        Law of the noise, of shape () or (m,).
    probability : float
        The tail probability that the sums are compared with.
    mid : bool
        Whether half of the atom at d counts.
    """

    def __init__(self, noise: NoiseLaw, probability: float, *, mid: bool) -> None:
        self.noise = noise
        self.mid = mid
        deep = probability < _DEEP
        self.log_lift = min(-0.5 * float(np.log(probability)), _LARGEST_LIFT) if deep else 0.0
        negligible = max(_NEGLIGIBLE * probability, _SMALLEST)
        self.reach: FloatArray = np.ceil(noise._isf(np.asarray(negligible))) + 1.0
        self._table: FloatArray | None = None
        if noise.is_integer and noise.shape == () and self.reach <= _LARGEST_TABLE:
            reach = int(self.reach)
            self._table = self._evaluate(np.arange(-reach, reach + 1).astype(np.float64), noise)

    def __call__(self, d: FloatArray, rows: Rows) -> FloatArray:
        """Evaluate at distances of shape (..., rows.size); those beyond ``reach`` are cut."""
        if self._table is None:
            return self._evaluate(d, self.noise.take(rows) if self.noise.shape else self.noise)
        place = np.clip(d, -self.reach, self.reach) + self.reach
        return np.asarray(self._table.take(place.astype(np.int32)))

    def _evaluate(self, d: FloatArray, noise: NoiseLaw) -> FloatArray:
        if self.log_lift:
            at_most = np.exp(noise._logcdf(d) + self.log_lift)
            below = np.exp(noise._logsf(-d) + self.log_lift) if self.mid else at_most
        else:
            at_most = noise._cdf(d)
            below = noise._sf(-d) if self.mid else at_most
        # by symmetry P(e < d) = P(e > -d)
        return np.asarray(0.5 * (at_most + below) if self.mid else at_most)
