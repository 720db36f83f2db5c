"""Where to look for a number of a plan: at that in the limit of normal counts."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import special

from dpinfer._check import Alternative, FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.engine import Columns, PowerRow
from dpinfer.planning.replicates import ReplicatedPower

Moments = tuple[FloatArray, FloatArray, FloatArray]
"""Mean of a deviation, its spread under the null hypothesis, and that at the truth."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PowerWithLimit(ReplicatedPower):
    """Power of a test of a deviation that is about normal where counts are large."""

    alternative: Alternative = "two-sided"

    @abstractmethod
    def moments(self, law: NoiseLaw, columns: Columns) -> Moments:
        """Return the moments of the deviation, each of shape (m,)."""

    def limit(self, name: str, known: Columns, target: float) -> float | None:
        """Return the number in the limit, where it may be out of reach."""
        try:
            return _NormalLimit(procedure=self.procedure, row=self).find(name, known, target)
        except InvalidParameterError:
            return None


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class _NormalLimit(PowerRow):
    """Power of a row where the deviation is normal."""

    row: PowerWithLimit

    def __post_init__(self) -> None:
        for name in ("mechanism", "own", "size", "whole", "logarithmic", "law", "check", "range"):
            self.set(**{name: getattr(self.row, name)})
        self.set(has_effect=self.row.has_effect)

    def at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[Any, Any]:
        mean, null, truth = self.row.moments(law, columns)
        sides = self.row.alternative
        critical = special.ndtri(0.5 * alpha if sides == "two-sided" else alpha) * null
        signs = {"two-sided": (1.0, -1.0), "larger": (1.0,), "smaller": (-1.0,)}[sides]
        power = sum(special.ndtr((critical + sign * mean) / truth) for sign in signs)
        return np.asarray(power), 0.0
