"""Noise whose tails fall by one factor from each whole number to the next."""

from __future__ import annotations

from typing import NamedTuple, TypeGuard

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.intervals.proportions._families import Rows
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.mechanisms.geometric import Geometric
from dpinfer.mechanisms.laplace import Laplace
from dpinfer.mechanisms.tulap import Tulap


class Edge(NamedTuple):
    """How noise takes whole numbers j to t or beyond, in m rows.

    The probability is near·a^(k-j) for j <= k and 1 - far·a^(j-k-1) for j > k, with
    a = exp(-rate); ``near`` and ``far`` are at most 1/2.
    """

    k: FloatArray
    rate: FloatArray
    near: FloatArray
    far: FloatArray

    @classmethod
    def of(cls, noise: Laplace | Geometric | Tulap, t: FloatArray, *, mid: bool) -> Edge:
        """Return the edges at published values; with ``mid``, half of the atom at t counts."""
        if not noise.is_integer:
            k = np.floor(t)
            near, far = noise._sf(t - k), noise._sf(1.0 - (t - k))
        elif mid:
            k, near = t, np.asarray(0.5)
            far = 0.5 * (noise._sf(np.zeros(())) + noise._sf(np.ones(())))
        else:
            k = t - 1.0
            near = far = noise._sf(np.zeros(()))
        rate = 1.0 / np.asarray(noise.scale)
        return cls(k, *(np.broadcast_to(x, t.shape) for x in (rate, near, far)))

    def mirrored(self, nobs: FloatArray) -> Edge:
        """Return the edges of the other tail, in numbers of failures."""
        return Edge(nobs - self.k - 1.0, self.rate, self.far, self.near)

    def take(self, rows: Rows) -> Edge:
        """Return the edges of some rows."""
        return Edge(*(column[rows] for column in self))


def has_edge(noise: NoiseLaw) -> TypeGuard[Laplace | Geometric | Tulap]:
    """Whether the tails of a noise fall by one factor from each whole number to the next."""
    if isinstance(noise, Tulap):
        return not np.any(noise.truncation)
    return isinstance(noise, Laplace | Geometric)
