"""A table of multinomial counts published with noise, and statistics of its deviations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests._quadratic.law import QuadraticLaw
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.mechanisms.discrete_gaussian import DiscreteGaussian
from dpinfer.mechanisms.exact import Exact
from dpinfer.mechanisms.gaussian import Gaussian
from dpinfer.mechanisms.independent import groups

Statistic = Literal["pearson", "projected"]
QuadraticForm = Callable[[FloatArray], FloatArray]
"""Maps deviations from the expected counts, shape (..., k), to statistics, shape (...)."""

SMALL_EXPECTED = 5.0
"""Below this expected count the chi-squared limit is not to be trusted."""


@dataclass(frozen=True)
class NoisyTable:
    """Law of k multinomial counts with independent noise.

    Parameters
    ----------
    nobs : int
        Number of observations.
    expected : array of float, shape (k,)
        Expected counts > 0, which add up to ``nobs``.
    noise : NoiseLaw
        Law of the noise, shape () or (k,).
    """

    nobs: int
    expected: FloatArray
    noise: NoiseLaw

    @property
    def variance(self) -> FloatArray:
        """Variance of the noise, shape (k,)."""
        return np.broadcast_to(self.noise.variance, self.expected.shape)

    @property
    def has_gaussian_noise(self) -> bool:
        """Whether the noise is Gaussian in every cell, if it has any."""
        kinds = (law for law, _ in groups(self.noise, self.expected.size))
        return all(isinstance(law, (Gaussian, DiscreteGaussian, Exact)) for law in kinds)

    @cached_property
    def pearson_law(self) -> QuadraticLaw:
        """Exact law of Pearson's statistic."""
        return QuadraticLaw(
            self.nobs, self.expected / self.nobs, self.expected, 1.0 / self.expected, self.noise
        )

    def draw_deviations(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw deviations of published from expected counts, shape (size, k)."""
        counts = rng.multinomial(self.nobs, self.expected / self.expected.sum(), size)
        noise = self.noise.rvs(counts.shape, rng=rng)
        noise += counts
        return np.asarray(np.subtract(noise, self.expected))


@dataclass(frozen=True)
class SimulatedStatistic:
    """Draws replicates of a statistic of a table; can be pickled, for workers."""

    table: NoisyTable
    statistic: Statistic

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw so many independent replicates."""
        return STATISTICS[self.statistic](self.table)(self.table.draw_deviations(size, rng))


def pearson(table: NoisyTable) -> QuadraticForm:
    """Return Pearson's statistic Σ d²/(n p)."""
    weights = 1.0 / table.expected
    return lambda deviations: np.asarray(np.square(deviations) @ weights)


def projected(table: NoisyTable) -> QuadraticForm:
    """Return min over c of (d - c·1)ᵀ Σ⁻¹ (d - c·1) with Σ = diag(n p + V) - n p pᵀ.

    With w = 1/(n p + V) and the deviations centred so that Σ w d = 0, the Sherman-Morrison formula
    makes it Σ w d² + (Σ w)(Σ w p d)²/((Σ w p)² + (Σ w)(Σ w p V)/n): no term is negative, and it
    holds without noise, too, where Σ is singular.
    """
    share = table.expected / table.nobs
    weights = 1.0 / (table.expected + table.variance)
    shared = weights * share
    total = weights.sum()
    factor = total / (shared.sum() ** 2 + total * (shared @ table.variance) / table.nobs)

    def statistic(deviations: FloatArray) -> FloatArray:
        centred = deviations - (deviations @ weights / total)[..., np.newaxis]
        return np.asarray(np.square(centred) @ weights + factor * np.square(centred @ shared))

    return statistic


STATISTICS: dict[Statistic, Callable[[NoisyTable], QuadraticForm]] = {
    "pearson": pearson,
    "projected": projected,
}
"""The statistics by name."""
