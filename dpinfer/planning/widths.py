"""Plans of the widths of intervals that cover the noise only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from dpinfer._validation import check_integer, check_option
from dpinfer.estimation.pivots import Method
from dpinfer.intervals.counts import HALF_WIDTHS
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.planning.engine import Columns, WidthRow

MOST_CELLS = 10**12
"""Largest number of intervals that hold together."""


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class CountWidth(WidthRow):
    """Width of the interval for a count, :func:`dpinfer.count_confint`.

    - ``method``: ``"exact"``, ``"tail-bound"`` or ``"normal"``, as for the interval.
    - ``cells``: number of counts, with independent noises, that their intervals shall cover
      together with probability 1 - ``alpha``: all cells of a table, for ``simultaneous=True``.

    The width is 2t with t the quantile of the noise, whatever the count is; for one count with
    Laplace noise it is 2b·ln(1/α). Restricting the interval to values that are possible
    (``integer=True``, ``lower=0``) can only make it narrower. The intervals for values that were
    clamped have this width where the value is within its bounds; at a bound they have one end only.

    A budget buys one release of all the counts. Where it is split between several releases, the
    function has to say so: ``lambda budget: Laplace.from_epsilon(budget / 3)``.
    """

    method: Method = "exact"
    cells: int = 1

    def prepare(self) -> None:
        check_option(self.method, "method", HALF_WIDTHS)
        self.set(cells=check_integer(self.cells, "cells", ge=1, le=MOST_CELLS))

    def at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[Any, Any]:
        return 2.0 * HALF_WIDTHS[self.method](law, alpha, self.cells), 0.0
