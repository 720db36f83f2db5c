"""Intervals that invert tests: the values of an effect that a test does not reject.

All are picklable objects, called with ``alpha`` when a result is asked for its interval.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import Alternative, FloatArray
from dpinfer._numerics.acceptance import accepted, outermost
from dpinfer.results.intervals import Intervals, Uncertainty
from dpinfer.results.simulation import Simulation

if TYPE_CHECKING:
    import pandas as pd

Rows = NDArray[np.intp]
PValue = Callable[..., FloatArray]
"""``pvalue(x, rows)``: p-values of some rows of a test at other null hypotheses."""

Found = tuple[FloatArray, FloatArray, tuple[str, ...]]
"""Ends, shape (m,), inf and -inf where nothing is accepted; and what there is to say."""

MARGIN = 5e-4
"""Of ends where p-values are upper bounds, in standard errors."""

SIMULATED = "ends were found by simulations from the seed of the test, and have their error"


@dataclass(frozen=True, kw_only=True, eq=False)
class Effect:
    """What a hypothesis is about, with its estimate, its value there, and its intervals."""

    name: str
    estimate: FloatArray
    null: FloatArray | float
    ends: Callable[[float], Found]
    most_shown: int = 100  # so many intervals are made for a summary


@dataclass(frozen=True, kw_only=True, eq=False)
class Inversion:
    """Makes the intervals of a test."""

    effect: Effect
    pvalue: FloatArray
    alternative: Alternative
    method: str
    uncertainty: Uncertainty
    labels: pd.Index | None

    @property
    def most_shown(self) -> int:
        """Of how many tests a summary makes the intervals."""
        return self.effect.most_shown

    def __call__(self, alpha: float) -> Intervals:
        lower, upper, notes = self.effect.ends(alpha)
        pvalue = np.ravel(self.pvalue)
        null = np.broadcast_to(np.ravel(self.effect.null), pvalue.shape)
        # what was tested is inside just where it was not rejected, whatever the search missed
        held = pvalue >= alpha
        lower, upper = (
            np.where(held, np.minimum(lower, null), lower),
            np.where(held, np.maximum(upper, null), upper),
        )
        if self.method == "monte-carlo":
            wrong = ~held & (lower <= null) & (null <= upper)
            above = null - lower > upper - null
            upper = np.where(wrong & above, np.nextafter(null, -np.inf), upper)
            lower = np.where(wrong & ~above, np.nextafter(null, np.inf), lower)
        shape = np.shape(self.pvalue)
        return Intervals(
            estimate=np.reshape(self.effect.estimate, shape),
            lower=lower.reshape(shape),
            upper=upper.reshape(shape),
            alpha=alpha,
            method=self.method,
            uncertainty=self.uncertainty,
            labels=self.labels,
            notes=notes,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Search:
    """Finds the ends from p-values at other values of a parameter x, of which the effect is made.

    ``start`` is where p-values are large, ``step`` about a standard error, shape (m,); ``back``
    makes the effect of x, which it increases with. ``is_monotone``: p-values fall on both sides.
    Ends are ``margin`` further out than they are found, to a precision of that or ``atol``.
    """

    pvalue: PValue
    start: FloatArray
    step: FloatArray
    low: FloatArray | float
    high: FloatArray | float
    alternative: Alternative
    back: Callable[[FloatArray], FloatArray] = np.asarray
    is_monotone: bool = False
    is_told: bool = False  # whether ``pvalue`` takes the level, to find out the side of it alone
    notes: tuple[str, ...] = ()
    margin: FloatArray | float = 0.0
    atol: float = 0.0
    rtol: float = 1e-11

    def __call__(self, alpha: float) -> Found:
        low, high = (
            np.broadcast_to(x, self.start.shape).astype(np.float64) for x in (self.low, self.high)
        )
        start = np.clip(self.start, low, high)
        if self.alternative == "larger":
            start = high
        elif self.alternative == "smaller":
            start = low
        lower, upper = np.full(start.size, np.inf), np.full(start.size, -np.inf)

        def excess(x: FloatArray, rows: Rows) -> FloatArray:
            told = {"level": alpha} if self.is_told else {}
            return np.asarray(self.pvalue(x, rows, **told) - alpha)

        inside = accepted(excess, start, low, high, self.step)
        held = np.flatnonzero(~np.isnan(inside))
        if held.size:
            lower[held], upper[held] = self.back(low)[held], self.back(high)[held]
            for side, limit, end in (("smaller", low, lower), ("larger", high, upper)):
                if self.alternative != side:
                    far = float(special.ndtri(1.0 - 0.5 * alpha))
                    end[held] = self._end(excess, inside, limit, held, far * self.step)
        return lower, upper, self.notes

    def _end(
        self,
        excess: PValue,
        inside: FloatArray,
        limit: FloatArray,
        held: Rows,
        step: FloatArray,
    ) -> FloatArray:
        found = inside.copy()
        margin = np.broadcast_to(self.margin, inside.shape)[held]
        found[held] = outermost(
            lambda x, rows: excess(x, held[rows]),
            self._nearer(inside, excess, limit, held),
            limit[held],
            step[held],
            atol=np.maximum(margin, self.atol),
            rtol=self.rtol,
            is_monotone=self.is_monotone,
        )
        further = np.minimum(margin, np.abs(limit[held] - found[held]))
        found[held] += np.where(limit[held] < found[held], -further, further)
        return np.asarray(self.back(found)[held])

    def _nearer(
        self, inside: FloatArray, excess: PValue, limit: FloatArray, held: Rows
    ) -> FloatArray:
        """Return the estimate as a start where it is accepted, also by a one-sided test."""
        at = inside[held]
        if self.alternative == "two-sided":
            return at
        estimate = np.clip(
            self.start[held], np.minimum(at, limit[held]), np.maximum(at, limit[held])
        )
        return np.where(excess(estimate, held) >= 0.0, estimate, at)


def repeated(simulation: Simulation) -> Simulation:
    """Return a simulation that draws what this one does, and leaves its generator as it is."""
    return (
        simulation if simulation.rng is None else replace(simulation, rng=deepcopy(simulation.rng))
    )


@dataclass(frozen=True, eq=False)
class Affine:
    """(x - shift)/scale, brought into a range; no closure, so that results can be pickled."""

    shift: Any = 0.0
    scale: Any = 1.0
    least: float = -np.inf
    most: float = np.inf

    def __call__(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.clip((x - self.shift) / self.scale, self.least, self.most))
