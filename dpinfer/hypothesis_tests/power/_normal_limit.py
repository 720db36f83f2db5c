"""The power of a test in the limit of normal counts: where to look for arguments of its plan."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import special

from dpinfer._check import Alternative, FloatArray
from dpinfer.hypothesis_tests.power._plan import PowerPlan
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.plan import Columns

_SHARED = ("mechanism", "_own", "_size", "_integer_size", "_sawtooth", "_logarithmic")
"""What the limit takes over from its plan."""

Moments = tuple[FloatArray, FloatArray, FloatArray]
"""Mean of a deviation, its spread under the null hypothesis, and that at the truth."""


class PlanWithLimit(PowerPlan):
    """Plan of a test of a deviation that is about normal where counts are large."""

    alternative: Alternative

    @abstractmethod
    def _moments(self, law: NoiseLaw, columns: Columns) -> Moments:
        """Return the moments of the deviation, each of shape (m,)."""

    @property
    def _limit(self) -> NormalLimit:
        return NormalLimit(self)


@final
@dataclass(frozen=True, eq=False)
class NormalLimit(PowerPlan):
    """Power of a plan where the deviation is normal."""

    plan: PlanWithLimit

    def __post_init__(self) -> None:
        self._set(**{name: getattr(self.plan, name) for name in _SHARED})

    def _law(self, budget: float) -> NoiseLaw:
        return self.plan._law(budget)

    def _check(self, name: str, value: Any) -> FloatArray:
        return self.plan._check(name, value)

    def _effects(self, name: str, columns: Columns) -> tuple[float, float]:
        return self.plan._effects(name, columns)

    def _has_effect(self, columns: Columns) -> bool:
        return self.plan._has_effect(columns)

    def _reject(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        moments = self.plan._moments(law, columns)
        return normal_power(self.plan.alternative, alpha, *moments), 0.0


def normal_power(
    alternative: Alternative, alpha: float, mean: FloatArray, null: FloatArray, truth: FloatArray
) -> FloatArray:
    """Power of a z test of a contrast with this mean and spread; ``null``: the assumed spread."""
    critical = special.ndtri(0.5 * alpha if alternative == "two-sided" else alpha) * null
    signs = {"two-sided": (1.0, -1.0), "larger": (1.0,), "smaller": (-1.0,)}[alternative]
    return np.asarray(sum(special.ndtr((critical + sign * mean) / truth) for sign in signs))
