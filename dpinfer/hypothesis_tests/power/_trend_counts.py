"""Probability that the test of a trend over cells rejects, exact or simulated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import Alternative, FloatArray
from dpinfer._numerics.roots import find_root
from dpinfer.hypothesis_tests.models import draws_in_block
from dpinfer.hypothesis_tests.power._rejections import Beyond, simulated_rate
from dpinfer.hypothesis_tests.power._table_simulation import simulated_power
from dpinfer.hypothesis_tests.power._trend_plan import Scored
from dpinfer.hypothesis_tests.trend import NoisyScores
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.results.simulation import Simulation

Method = Literal["exact", "monte-carlo", "normal"]

_SMALLEST_LOG = -700.0
_CLOSE = 1e-12
"""Logarithms of p-values this close to that of the level are it."""

_QUICK = 1 << 22
"""Work of one tail, some 0.4 s, up to which a power is exact by default: it takes dozens."""


@dataclass(frozen=True, eq=False)
class TrendOfCounts:
    """The deviation of published counts from no trend, under the null hypothesis and in truth.

    Parameters
    ----------
    null, truth : NoisyScores
        The laws, which have the same scores and the same noise.
    alternative : {"two-sided", "larger", "smaller"}
        Against what the test is made.
    """

    null: NoisyScores
    truth: NoisyScores
    alternative: Alternative

    @classmethod
    def of(
        cls,
        nobs: int,
        shares: tuple[FloatArray, FloatArray],
        scores: FloatArray,
        noise: NoiseLaw,
        alternative: Alternative,
    ) -> Self:
        """Return the laws for the shares of the cells under the null hypothesis and in truth."""
        null = NoisyScores.of(nobs, shares[0], scores, noise)
        return cls(null, NoisyScores(nobs, shares[1], null.scores, noise), alternative)

    @cached_property
    def shift(self) -> float:
        """Mean of the deviation."""
        return float(self.null.nobs * ((self.truth.shares - self.null.shares) @ self.null.scores))

    @property
    def spreads(self) -> tuple[float, float]:
        """Standard deviations of the deviation under the null hypothesis and in truth."""
        null, truth = (np.hypot(law.spread, law.noise_std) for law in (self.null, self.truth))
        return float(null), float(truth)

    @property
    def is_quick(self) -> bool:
        """Whether the exact law is available, and dozens of its tails take little time."""
        return all(
            law.default_method == "exact" and law.work <= _QUICK for law in (self.null, self.truth)
        )

    def exact(self, alpha: float, simulation: Simulation) -> tuple[float, float]:
        """Power of the exact test."""
        return self._beyond(self._critical(alpha)), 0.0

    def normal(self, alpha: float, simulation: Simulation) -> tuple[float, float]:
        """Power of the test by the normal limit, at the exact law where that is quick."""
        two_sided = self.alternative == "two-sided"
        critical = -special.ndtri(0.5 * alpha if two_sided else alpha) * self.spreads[0]
        if self.is_quick:
            # the critical value itself is rejected
            return self._beyond(critical - 2.0 * self._slack(critical)), 0.0
        draw = Beyond(Scored(self._truth_draws, self.alternative), critical / self.null.spread)
        return simulated_rate(draw, simulation, draws_in_block(self.null.scores.size))

    def monte_carlo(self, alpha: float, simulation: Simulation) -> tuple[float, float]:
        """Power of the simulated test."""
        null = Scored(self.null.draw, self.alternative)
        truth = Scored(self._truth_draws, self.alternative)
        return simulated_power(null, truth, alpha, self.null.scores.size, simulation)

    @property
    def _truth_draws(self) -> ShiftedScores:
        return ShiftedScores(self.truth, self.shift, self.null.spread)

    def _critical(self, alpha: float) -> float:
        """Return a deviation just above the largest that the exact test does not reject."""

        def margin(t: FloatArray, _: NDArray[np.intp]) -> FloatArray:
            with np.errstate(divide="ignore"):
                gap = np.maximum(np.log(self._pvalue(t)), _SMALLEST_LOG) - np.log(alpha)
            return np.where(np.abs(gap) < _CLOSE, 0.0, gap)

        spread = self.spreads[0]
        low = 0.0 if self.alternative == "two-sided" else -spread
        _, high = find_root(margin, np.array([low]), np.array([2.0 * spread]), expand=True)
        return float(high[0])

    def _pvalue(self, t: FloatArray) -> FloatArray:
        """P-value of the exact test at a deviation; downwards for the alternative "smaller"."""
        tail = np.zeros(t.shape)
        if self.alternative != "smaller":
            tail = tail + self.null.upper(t)
        if self.alternative != "larger":
            tail = tail + self.null.lower(-t)
        return np.minimum(tail, 1.0)

    def _beyond(self, critical: float) -> float:
        """Probability in truth of a deviation beyond a critical one, itself not included."""
        # tails include atoms within their slack, here on the wrong side
        point = np.array([critical + 2.0 * self._slack(critical)])
        power = 0.0
        if self.alternative != "smaller":
            power += float(self.truth.upper(point - self.shift)[0])
        if self.alternative != "larger":
            power += float(self.truth.lower(-point - self.shift)[0])
        return min(power, 1.0)

    def _slack(self, critical: float) -> float:
        """Return the rounding error of a deviation near a critical one."""
        far = np.asarray(abs(critical) + abs(self.shift))
        return float(self.null.slack(far) + self.truth.slack(far))


@dataclass(frozen=True, eq=False)
class ShiftedScores:
    """Draws deviations in units of their spread under the null hypothesis."""

    truth: NoisyScores
    shift: float
    spread: float

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw so many."""
        return (self.truth.draw(size, rng) * self.truth.spread + self.shift) / self.spread


METHODS: dict[Method, Callable[[TrendOfCounts, float, Simulation], tuple[float, float]]] = {
    "exact": TrendOfCounts.exact,
    "monte-carlo": TrendOfCounts.monte_carlo,
    "normal": TrendOfCounts.normal,
}
"""Power and Monte Carlo error of each version of the test."""
