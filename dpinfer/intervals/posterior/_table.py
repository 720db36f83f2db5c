"""Windows of posteriors under one prior that is a table of probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.intervals.posterior._climb import LOG_LEFT_OUT
from dpinfer.intervals.posterior._likelihood import log_density, reach
from dpinfer.intervals.posterior._window import Window
from dpinfer.mechanisms import NoiseLaw


@dataclass(frozen=True)
class Table:
    """Logarithms of the prior of ``first``, ``first + 1``, …, shared by all rows."""

    first: float
    logpmf: FloatArray

    @cached_property
    def possible(self) -> FloatArray:
        """The counts that have a probability."""
        return np.asarray(np.flatnonzero(np.isfinite(self.logpmf)) + self.first, dtype=np.float64)

    def at(self, k: FloatArray) -> FloatArray:
        """Logarithm of the prior; -inf outside the table."""
        place = k - self.first
        inside = (place >= 0) & (place < self.logpmf.size)
        taken = self.logpmf[np.clip(place, 0, self.logpmf.size - 1).astype(np.intp)]
        return np.where(inside, taken, -np.inf)


@dataclass(frozen=True)
class TableRows:
    """Published counts with noise of one kind, and one table as their prior."""

    count: FloatArray
    law: NoiseLaw
    prior: Table

    def take(self, rows: NDArray[np.intp]) -> Self:
        """Return some of the rows."""
        law = self.law.take(rows) if self.law.shape else self.law
        return type(self)(self.count[rows], law, self.prior)

    @cached_property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """First and last count of each window: beyond them the noise is negligible by itself."""
        possible = self.prior.possible
        after = np.searchsorted(possible, self.count)
        beside = possible[np.clip([after - 1, after], 0, possible.size - 1)]
        known = (self.prior.at(beside) + log_density(self.law, self.count - beside)).max(axis=0)
        peak = log_density(self.law, np.zeros_like(self.count)) + self.prior.logpmf.max()
        # as many counts again as there are in the table, of at most this weight each
        drop = peak - known + LOG_LEFT_OUT + np.log(possible.size)
        far = np.where(np.isfinite(known), reach(self.law, np.where(drop > 0, drop, 0.0)), np.inf)
        low = np.clip(np.floor(self.count - far), possible[0], possible[-1])
        high = np.clip(np.ceil(self.count + far), possible[0], possible[-1])
        return np.minimum(low, beside.min(axis=0)), np.maximum(high, beside.max(axis=0))

    @property
    def width(self) -> FloatArray:
        """How many columns the window of each row has."""
        low, high = self.ends
        return high - low + 1.0

    def window(self) -> Window:
        """Return the posteriors of these rows."""
        low, high = self.ends
        k = low + np.arange(float((high - low).max() + 1.0))[:, None]
        weight = self.prior.at(k) + log_density(self.law, self.count - k)
        weight[k > high] = -np.inf
        peak = weight.max(axis=0)
        mass = np.exp(weight - peak)
        total = mass.sum(axis=0)
        return Window(low, mass / total, lambda: np.log(total) + peak)
