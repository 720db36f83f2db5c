"""Width of the interval for a count that was not published."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from dpinfer._check import FloatArray, check_integer, check_scalar
from dpinfer.estimation.pivots import sidak
from dpinfer.intervals.selected import unpublished_bound
from dpinfer.intervals.widths.counts import MOST_CELLS, NoiseWidth
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.mechanisms import NoisePlan, check_plan
from dpinfer.planning.plan import Columns

_LARGEST = 1e15
"""Largest threshold and bound in size: beyond it, whole numbers are not told apart."""


@final
@dataclass(frozen=True)
class UnpublishedWidth(NoiseWidth):
    """Width of the interval for a count below the threshold; the budget for a wanted width.

    Parameters
    ----------
    %(mechanism)s
    threshold : float
        Noisy values are published if they are at least this.
    lower : float, default 0
        Bound that the confidential values respect, from which the interval goes up.
    cells : int, default 1
        Number of unpublished counts whose bounds shall hold together with probability
        1 - ``alpha``.

    See Also
    --------
    dpinfer.unpublished_bound : the bound.
    ThresholdedWidth : the plan for values that reach the threshold.

    Notes
    -----
    The width is τ + t less ``lower``, with t the upper α-quantile of the noise. It does not depend
    on the data, and is at least about τ less ``lower`` for α < 1/2, whatever the budget.

    Examples
    --------
    Values from 100 on are published: which ε says of others that they are at most 120?

    >>> from dpinfer import Laplace
    >>> plan = UnpublishedWidth(Laplace.from_epsilon, 100)
    >>> round(plan.solve_width(alpha=0.05, width=120), 4)
    0.1151
    >>> plan.width(budget=[0.1, 1.0]).round(2)
    array([123.03, 102.3 ])
    """

    mechanism: NoisePlan
    threshold: float
    lower: float = field(default=0.0, kw_only=True)
    cells: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        check_plan(self.mechanism)
        for name in ("threshold", "lower"):
            value = check_scalar(getattr(self, name), name, ge=-_LARGEST, le=_LARGEST)
            self._set(**{name: value})
        self._set(cells=check_integer(self.cells, "cells", ge=1, le=MOST_CELLS))

    def _at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        bound = unpublished_bound(
            mechanism=law,
            threshold=self.threshold,
            alpha=sidak(alpha, self.cells),
            lower=self.lower,
        )
        return np.asarray(bound.width), 0.0
