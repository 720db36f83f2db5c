"""The z statistic of a trend of proportions over groups, and its null distributions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpinfer._validation import Alternative, FloatArray
from dpinfer.hypothesis_tests._blocks import draws_in_block
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.results.null_distribution import AsymptoticNull, NullDistribution
from dpinfer.results.simulation import Simulation, simulate_null

Method = Literal["monte-carlo", "normal"]


@dataclass(frozen=True, eq=False)
class TrendOfProportions:
    """Centred scores of groups, and the law of what was published of them."""

    trials: FloatArray
    centred: FloatArray
    noise: NoiseLaw

    @classmethod
    def of(cls, trials: FloatArray, scores: FloatArray, noise: NoiseLaw) -> TrendOfProportions:
        """Centre the scores of groups of so many trials."""
        return cls(trials, scores - (trials @ scores) / trials.sum(), noise)

    def share(self, counts: FloatArray) -> FloatArray:
        """Estimate the common proportion, half a success away from 0 and 1."""
        total = self.trials.sum()
        return np.asarray(np.clip(counts.sum(axis=-1), 0.5, total - 0.5) / total)

    def statistic(self, counts: FloatArray) -> FloatArray:
        """Z statistics of counts of shape (..., k)."""
        share = self.share(counts)
        squares = np.square(self.centred)
        sampling = share * (1.0 - share) * (self.trials @ squares)
        noise = float(np.sum(squares * self.noise.variance))
        return np.asarray(counts @ self.centred / np.sqrt(sampling + noise))


@dataclass(frozen=True, eq=False)
class DrawTrend:
    """Draws z statistics at a common proportion, or one for each group."""

    model: TrendOfProportions
    share: float | FloatArray

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw so many."""
        return self.model.statistic(self.counts(size, rng))

    def counts(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw so many rows of published counts."""
        shape = (size, self.model.trials.size)
        counts = self.model.noise._rvs(shape, rng).astype(np.float64)
        counts += rng.binomial(self.model.trials.astype(np.int64), self.share, shape)
        return counts


def _monte_carlo(
    model: TrendOfProportions,
    counts: FloatArray,
    z: FloatArray,
    alternative: Alternative,
    simulation: Simulation,
) -> NullDistribution:
    draw = DrawTrend(model, float(model.share(counts)))
    return simulate_null(
        [draw], z, simulation, alternative=alternative, block=draws_in_block(counts.size)
    )


def _normal(
    model: TrendOfProportions,
    counts: FloatArray,
    z: FloatArray,
    alternative: Alternative,
    simulation: Simulation,
) -> NullDistribution:
    return AsymptoticNull.normal()


PROPORTIONS: dict[
    Method,
    Callable[
        [TrendOfProportions, FloatArray, FloatArray, Alternative, Simulation], NullDistribution
    ],
] = {"monte-carlo": _monte_carlo, "normal": _normal}
