"""What the plans of the tests of a trend share: where to look for arguments, and replicates."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpinfer._check import Alternative, FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests.power._normal_limit import Moments, PlanWithLimit
from dpinfer.hypothesis_tests.power._plan import is_alternative
from dpinfer.hypothesis_tests.power._tables import TablePower, around
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.plan import BUDGETS, Columns
from dpinfer.planning.search import LARGEST_SIZE
from dpinfer.results.null import SIGNS
from dpinfer.results.simulation import Draw

_FLAT = 1e-12
"""Trends this small, relative to the terms of which they are the sum, are none but for rounding."""


class TrendPlan(TablePower, PlanWithLimit):
    """Power of a test of a trend, at the truth null + effect·(alternative - null)."""

    @abstractmethod
    def _moments_of(
        self, law: NoiseLaw, nobs: int, value: FloatArray
    ) -> tuple[float, float, float]:
        """Mean of the deviation, and its spread under the null hypothesis and at the truth."""

    @property
    @abstractmethod
    def _slope(self) -> FloatArray:
        """Terms of which the sum is the trend of the alternative."""

    def _moments(self, law: NoiseLaw, columns: Columns) -> Moments:
        rows = zip(columns["nobs"].tolist(), columns["effect"].tolist(), strict=True)
        found = [self._moments_of(law, int(nobs), self._value(effect)) for nobs, effect in rows]
        mean, null, truth = np.array(found).T
        return mean, null, truth

    def _has_effect(self, columns: Columns) -> bool:
        slope = float(columns["effect"]) * float(self._slope.sum())
        is_flat = abs(slope) <= _FLAT * float(np.abs(self._slope).sum())
        return not is_flat and is_alternative(self.alternative, slope)

    def _bracket(
        self, name: str, known: Columns, target: float, missing: Callable[[float], float]
    ) -> tuple[float, float] | None:
        """Return values around that of the normal limit: without and with enough power."""
        try:
            guess = self._limit._find(name, known, target)
        except InvalidParameterError:  # which in the limit only may be out of reach
            return None
        largest = {
            "nobs": LARGEST_SIZE,
            "effect": self.largest_effect,
            "alpha": 1.0 - 1e-12,
            "budget": BUDGETS[1],
        }
        return around(missing, guess, largest[name], whole=name == self._size)


@dataclass(frozen=True, eq=False)
class Scored:
    """Draws a statistic so that what is large is against the null hypothesis; can be pickled."""

    draw: Draw
    alternative: Alternative

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw so many."""
        return score(self.draw(size, rng), self.alternative)


def score(z: FloatArray, alternative: Alternative) -> FloatArray:
    """Return what is large where a test rejects."""
    return np.abs(z) if alternative == "two-sided" else np.asarray(SIGNS[alternative] * z)
