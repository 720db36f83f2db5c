"""Expected widths of intervals whose width depends on the published count."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from dpinfer._check import FloatArray
from dpinfer.intervals.widths._nodes import Nodes
from dpinfer.intervals.widths._plan import WidthBySetting, rough_size
from dpinfer.mechanisms._noisy_count import NoisyCount
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.plan import BUDGETS, Columns
from dpinfer.planning.search import LARGEST_SIZE

_SMALLEST_SHARE = 1e-9
"""Share of a guess at which the search for a smaller size ends."""


class ExpectedWidth(WidthBySetting):
    """Expected width over the law of a noisy count at the truth."""

    @abstractmethod
    def _truth(self, law: NoiseLaw, setting: dict[str, float]) -> tuple[NoisyCount, float]:
        """Return the law of the published count, and the variance of the count in it."""

    @abstractmethod
    def _widths(
        self, count: FloatArray, law: NoiseLaw, alpha: float, setting: dict[str, float]
    ) -> FloatArray:
        """Return the widths of the intervals for published counts."""

    @abstractmethod
    def _unit_variance(self, columns: Columns) -> float:
        """Return the variance of the count for a size of 1."""

    def _width_at(self, law: NoiseLaw, alpha: float, *own: float) -> tuple[float, float]:
        setting = dict(zip(self._own, own, strict=True))
        truth, variance = self._truth(law, setting)
        nodes = Nodes.of(truth, float(np.sqrt(variance)))
        return nodes.expectation(lambda count: self._widths(count, law, alpha, setting))

    def _find(self, name: str, known: Columns, target: float) -> float:
        """Return an argument that reaches a width, for sizes and budgets near a rough answer.

        Far from it, where the noise is very wide, exact intervals may be out of reach. The rough
        answer has (target/2)² = z²·(size·variance + noise variance)/size².
        """
        if name == "alpha":
            return super()._find(name, known, target)
        search = self._search(name, known, target)
        error = self._rough_error(known, target)
        if name == self._size:
            noise = float(np.sqrt(self._noise_variance(self._law_at(known), known)))
            guess = min(rough_size(self._unit_variance(known), noise, error), LARGEST_SIZE)
            least = 1.0 if self._integer_size else guess * _SMALLEST_SHARE
            return search.near(guess, least, LARGEST_SIZE, integer=self._integer_size)
        return search.near(self._rough_budget(known, error), *BUDGETS)

    def _rough_budget(self, known: Columns, error: float) -> float:
        """Budget with the noise that leaves a standard error."""
        size = float(known[str(self._size)])
        variance = size * (size * error**2 - self._unit_variance(known))
        return self._rough_budget_for(variance, known)
