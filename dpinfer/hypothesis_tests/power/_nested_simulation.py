"""Simulated releases, each of them tested by a simulation at its own estimates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray
from dpinfer.hypothesis_tests._fitted_tables import STATISTICS, Fit, RowMargins
from dpinfer.hypothesis_tests._noisy_tables import Statistic
from dpinfer.hypothesis_tests.power._table_simulation import Releases, is_decided, publish
from dpinfer.results.null import bounds_of

_FIRST, _LAST = 0.8, 100.0
"""Expected exceedances at the level after which a test is first, and last looked at."""

_SURE = 1e-3
"""Probability at the level of the exceedances that end a test before."""

_CELLS_AT_ONCE = 1 << 18
"""Cells of replicates held at a time."""


@dataclass(frozen=True)
class NestedTests:
    """Draws releases, and tests each by replicates from its estimates; can be pickled.

    A test ends as soon as its exceedances tell on which side of the level its p-value is.

    Parameters
    ----------
    releases : Releases
        Draws tables.
    statistic : {"pearson", "projected"}
        What is tested.
    alpha : float
        The level.
    is_known : bool
        Whether the number of observations is public.
    smallest : float
        The smallest estimated expected count with which the test decides.
    """

    releases: Releases
    statistic: Statistic
    alpha: float
    is_known: bool
    smallest: float

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw so many releases; 1 where the test rejects, 0 elsewhere."""
        tables, nobs = self.releases.draw(size, rng)
        fit = self.releases.model.fit(tables, nobs)
        statistic = STATISTICS[self.statistic](self.releases.model, tables, nobs)
        value, _ = bounds_of(statistic, "larger")
        assert value is not None  # statistics this large are extreme
        rejected = np.zeros(size)
        going = np.flatnonzero(is_decided(fit, self.smallest))
        exceeded, drawn = np.zeros(size), 0
        for more in self._rounds():
            drawn += more
            exceeded[going] += self._exceedances(fit, nobs, value, going, more, rng)
            count = exceeded[going]
            rejected[going] = (count + 1.0) / (drawn + 1.0) <= self.alpha
            few, many = special.bdtr(count, drawn, self.alpha), np.ones(going.size)
            some = count >= 1.0
            many[some] = special.bdtrc(count[some] - 1.0, drawn, self.alpha)
            rejected[going[few < _SURE]] = 1.0
            going = going[(few >= _SURE) & (many >= _SURE)]
            if not going.size:
                break
        return rejected

    def _rounds(self) -> Iterator[int]:
        """Yield numbers of replicates to be drawn more: twice as many in all each time."""
        last = max(round(_LAST / self.alpha) - 1, 1)
        drawn, following = 0, max(round(_FIRST / self.alpha), 1)
        while drawn < last:
            following = min(following, last)
            yield following - drawn
            drawn, following = following, 2 * following

    def _exceedances(
        self,
        fit: Fit,
        nobs: FloatArray,
        value: FloatArray,
        chosen: NDArray[np.intp],
        reps: int,
        rng: np.random.Generator,
    ) -> FloatArray:
        """Count the replicates that are extreme for each of the chosen releases."""
        model = self.releases.model
        together = max(1, _CELLS_AT_ONCE // (reps * model.size))
        counts = []
        for start in range(0, chosen.size, together):
            part = chosen[start : start + together]
            trials, shares = self._null(fit.expected[..., part], nobs[part])
            drawn = rng.multinomial(trials, shares, (reps, *trials.shape))
            total = np.broadcast_to(trials.sum(axis=-1), (reps, part.size)).reshape(-1)
            again = publish(model, drawn, total.astype(np.float64), rng)
            statistic = STATISTICS[self.statistic](model, *again).reshape(reps, part.size)
            counts.append((statistic >= value[part]).sum(axis=0))
        return np.concatenate(counts) if counts else np.zeros(0)

    def _null(self, expected: FloatArray, nobs: FloatArray) -> tuple[NDArray[np.int64], FloatArray]:
        """Return numbers of observations, shape (m, g), and probabilities, shape (m, g, k/g)."""
        size = expected.shape[-1]
        margins = self.releases.model.margins
        if isinstance(margins, RowMargins):
            cells, trials = expected[0].T, np.tile(margins.totals, (size, 1))
        else:
            cells = expected.reshape(-1, size).T
            total = nobs if self.is_known else np.maximum(np.rint(cells.sum(axis=1)), 1.0)
            trials = total[:, np.newaxis]
        shares = cells / cells.sum(axis=1, keepdims=True)
        return trials.astype(np.int64), shares[:, np.newaxis]
