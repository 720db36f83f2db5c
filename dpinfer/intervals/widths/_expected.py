"""Expected widths of intervals whose width depends on the published count."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy import special

from dpinfer._validation import FloatArray
from dpinfer.intervals.widths._nodes import Nodes
from dpinfer.intervals.widths._plan import LEAST_ERROR, MOST_ERROR, WidthPlan
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.mechanisms._noisy_count import NoisyCount
from dpinfer.planning.plan import BUDGETS, Columns
from dpinfer.planning.search import LARGEST_SIZE

_SMALLEST_SHARE = 1e-9
"""Share of a guess at which the search for a smaller size ends."""


class ExpectedWidth(WidthPlan):
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

    def _at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        rows = np.stack([columns[name] for name in self._own], axis=1)
        settings, inverse = np.unique(rows, axis=0, return_inverse=True)
        found = np.array([self._expected(law, alpha, *setting) for setting in settings])
        width, error = found[inverse.reshape(-1)].T
        return width, error

    def _expected(self, law: NoiseLaw, alpha: float, *values: float) -> tuple[float, float]:
        """Return the expected width at one setting, and its error."""
        setting = {name: float(x) for name, x in zip(self._own, values, strict=True)}
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
        z = -float(special.ndtri(0.5 * known["alpha"]))
        std_error = min(max(0.5 * target / z, LEAST_ERROR), MOST_ERROR)
        if name == self._size:
            guess = self._rough_size(known, std_error)
            least = 1.0 if self._integer_size else guess * _SMALLEST_SHARE
            return search.near(guess, least, LARGEST_SIZE, integer=self._integer_size)
        return search.near(self._rough_budget(known, std_error), *BUDGETS)

    def _rough_size(self, known: Columns, std_error: float) -> float:
        """Root of (std_error·size)² = size·variance + noise variance."""
        law = self._law(float(known.get("budget", np.zeros(()))))
        noise = np.sqrt(self._noise_variance(law, known))
        linear = 0.5 * self._unit_variance(known) / std_error**2
        return float(min(linear + np.hypot(linear, noise / std_error), LARGEST_SIZE))

    def _rough_budget(self, known: Columns, std_error: float) -> float:
        """Budget with the noise that leaves a standard error."""
        size = float(known[str(self._size)])
        variance = size * (size * std_error**2 - self._unit_variance(known))
        return self._rough_budget_for(variance, known)
