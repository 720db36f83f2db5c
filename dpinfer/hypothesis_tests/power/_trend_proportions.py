"""Probability that the test of a trend of proportions rejects, by simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from dpinfer._check import Alternative, FloatArray
from dpinfer.hypothesis_tests.models import draws_in_block
from dpinfer.hypothesis_tests.power._rejections import Beyond, counting_error, simulated_rate
from dpinfer.hypothesis_tests.power._table_simulation import critical_values
from dpinfer.hypothesis_tests.power._trend_plan import Scored, score
from dpinfer.hypothesis_tests.trend import DrawTrend, Method, TrendOfProportions
from dpinfer.results.simulation import Simulation

_KNOTS = 7
_FARTHEST = 4.0
"""Number of proportions with simulated critical values, and how far from the mean, in spreads."""

Source = Callable[[], Simulation]
"""What returns one and the same source of replicates each time."""


@dataclass(frozen=True, eq=False)
class TrendOfGroups:
    """Published counts of groups with their true proportions, and the test of a trend.

    Parameters
    ----------
    model : TrendOfProportions
        The statistic.
    value : array of float, shape (k,)
        The true proportions.
    alternative : {"two-sided", "larger", "smaller"}
        Against what the test is made.
    """

    model: TrendOfProportions
    value: FloatArray
    alternative: Alternative

    @cached_property
    def moments(self) -> tuple[float, float, float]:
        """Mean of Σ cᵢyᵢ, and its spread at the common proportion and at the true ones."""
        trials, centred = self.model.trials, self.model.centred
        noise = float(np.sum(np.square(centred) * self.model.noise.variance))
        common = np.full(trials.size, float(self.model.share(trials * self.value)))
        null, truth = (
            float(np.sqrt((trials * p * (1.0 - p)) @ np.square(centred) + noise))
            for p in (common, self.value)
        )
        return float((trials * self.value) @ centred), null, max(truth, 1e-9 * null)

    def normal(self, alpha: float, source: Source) -> tuple[float, float]:
        """Power of the test by the normal limit."""
        critical = -float(special.ndtri(0.5 * alpha if self.alternative == "two-sided" else alpha))
        draw = Beyond(Scored(self._draw, self.alternative), critical)
        return simulated_rate(draw, source(), self._block)

    def monte_carlo(self, alpha: float, source: Source) -> tuple[float, float]:
        """Power of the test that simulates at the estimated common proportion.

        Critical values are simulated at some proportions, and interpolated.
        """
        knots = self._knots
        critical = np.array([self._critical(alpha, float(knot), source()) for knot in knots])
        power, less, more = (
            simulated_rate(
                _RejectedTrends(self._draw, self.alternative, knots, points), source(), self._block
            )[0]
            for points in critical.T
        )
        return power, float(np.hypot(counting_error(power, source().reps), 0.5 * (more - less)))

    @property
    def _draw(self) -> DrawTrend:
        return DrawTrend(self.model, self.value)

    @property
    def _block(self) -> int:
        return draws_in_block(self.value.size)

    @property
    def _knots(self) -> FloatArray:
        """Common proportions that are estimated."""
        trials = self.model.trials
        sampling = float(trials @ (self.value * (1.0 - self.value)))
        noise = float(np.broadcast_to(self.model.noise.variance, trials.shape).sum())
        steps = np.sqrt(sampling + noise) * np.linspace(-_FARTHEST, _FARTHEST, _KNOTS)
        counts = (trials @ self.value + steps)[:, np.newaxis]
        return np.unique(self.model.share(counts))

    def _critical(self, alpha: float, share: float, simulation: Simulation) -> FloatArray:
        null = Scored(DrawTrend(self.model, share), self.alternative)
        return critical_values(null, alpha, simulation, self._block)


@dataclass(frozen=True, eq=False)
class _RejectedTrends:
    """Draws 1 where the test rejects, 0 elsewhere; can be pickled.

    Parameters
    ----------
    draw : DrawTrend
        Draws published counts.
    alternative : {"two-sided", "larger", "smaller"}
        Against what the test is made.
    knots, critical : array of float, shape (m,)
        Estimated common proportions, upwards, and critical values there.
    """

    draw: DrawTrend
    alternative: Alternative
    knots: FloatArray
    critical: FloatArray

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw so many."""
        counts = self.draw.counts(size, rng)
        model = self.draw.model
        critical = np.interp(model.share(counts), self.knots, self.critical)
        reached = score(model.statistic(counts), self.alternative) >= critical
        return reached.astype(np.float64)


METHODS: dict[Method, Callable[[TrendOfGroups, float, Source], tuple[float, float]]] = {
    "monte-carlo": TrendOfGroups.monte_carlo,
    "normal": TrendOfGroups.normal,
}
"""Power and Monte Carlo error of each version of the test."""
