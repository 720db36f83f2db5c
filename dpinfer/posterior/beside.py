"""What needs no prior: the unbiased intervals that stand beside a posterior."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer.errors import NotEstimableError
from dpinfer.estimation.combined import CombinedEstimate
from dpinfer.estimation.design import find_design
from dpinfer.estimation.gls import combine
from dpinfer.mechanisms.independent import IndependentNoise
from dpinfer.mechanisms.laws import Exact
from dpinfer.posterior._model import TableModel
from dpinfer.queries.workload import Workload
from dpinfer.releases.release import Release
from dpinfer.results.intervals import Intervals

if TYPE_CHECKING:
    import pandas as pd

LARGEST = 20_000
"""Cells of the largest table whose sums are compared."""

MOST_ROWS = 1_000
"""Cells of the largest table of which each has an interval beside it."""


@dataclass(frozen=True, eq=False)
class Unbiased:
    """Linear functions of the cells of a release, estimated without a prior."""

    release: Release
    weights: Any  # (k, n)

    @cached_property
    def estimable(self) -> NDArray[np.bool_]:
        """Which functions the published values determine."""
        workload = self.release.workload
        if workload.is_identity:
            return np.ones(self.weights.shape[0], dtype=np.bool_)
        return find_design(workload.matrix, self.release.variance).estimable(self.weights)

    @cached_property
    def _fit(self) -> CombinedEstimate:
        return combine(self.release, target=self.weights[np.flatnonzero(self.estimable)])

    def ends(self, alpha: float, rows: NDArray[np.bool_] | None = None) -> FloatArray:
        """Return estimates, lower and upper ends of some functions, (3, k), NaN of the others."""
        found = np.full((3, len(self.estimable)), np.nan)
        wanted = self.estimable if rows is None else self.estimable & rows
        if not wanted.any():
            return found
        if rows is None:
            fit = self._fit
        else:
            fit = combine(self.release, target=self.weights[np.flatnonzero(wanted)])
        found[0, wanted] = np.asarray(fit.params)
        found[1:, wanted] = np.asarray(fit.conf_int(alpha)).T
        return found

    def intervals(self, alpha: float, labels: pd.Index | None, shape: tuple[int, ...]) -> Intervals:
        """Return the intervals of all functions, which all have to be estimable."""
        if not self.estimable.all():
            at = int(np.flatnonzero(~self.estimable)[0])
            name = f"function {at}" if labels is None else str(labels[at])
            raise NotEstimableError(
                f"weights must be of functions that the published values determine, got {name}, "
                "which only the prior tells of"
            )
        estimate, lower, upper = (part.reshape(shape) for part in self.ends(alpha))
        return Intervals(
            estimate=estimate,
            lower=lower,
            upper=upper,
            alpha=alpha,
            method="exact",
            uncertainty="noise",
            labels=labels,
        )

    def outside(self, mean: FloatArray, alpha: float) -> NDArray[np.bool_]:
        """Return which means are outside of the intervals of all functions together.

        Each has the level 1 - α/k.
        """
        far = _far(mean, self.ends(alpha))
        count = int(np.count_nonzero(self.estimable))
        if count < 2 or not far.any():
            return far
        return _far(mean, self.ends(alpha / count, far))


def _far(mean: FloatArray, ends: FloatArray) -> NDArray[np.bool_]:
    slack = 1e-9 * (1.0 + np.abs(mean))
    with np.errstate(invalid="ignore"):
        return np.asarray((mean < ends[1] - slack) | (mean > ends[2] + slack))


def release_of(model: TableModel) -> Release | None:
    """Return what was published of a table as a release, None where unbiasedness was lost."""
    if not model.as_drawn:
        return None
    from scipy import sparse

    zeros = np.flatnonzero(model.zeros)
    units = sparse.csr_array(
        (np.ones(zeros.size), (np.arange(zeros.size), zeros)), (zeros.size, model.cells)
    )
    rows = sparse.vstack([model.rows, model.exact, units]).tocsr().astype(np.float64)
    m = len(model.y)
    values = np.concatenate([model.y, model.exact_values, np.zeros(zeros.size)])
    if len(values) == m:
        law: Any = model.law
    else:
        held = [(law, at) for law, at in model.groups]
        law = IndependentNoise.from_groups(
            [*held, (Exact(), np.arange(m, len(values)))], len(values)
        )
    matrix: Any = rows
    if rows.shape[0] * rows.shape[1] <= 10_000:
        matrix = rows.toarray()
    return Release(values, workload=Workload(matrix), mechanism=law)


def sums(model: TableModel) -> tuple[list[str], Any]:
    """Return the total, and the sums that each level of each part of the labels has."""
    from scipy import sparse

    names, rows = ["total"], [sparse.csr_array(np.ones((1, model.cells)))]
    labels = model.labels
    if labels is not None and labels.nlevels > 1:
        for place in range(labels.nlevels):
            level = labels.get_level_values(place)
            codes, known = level.factorize()
            names += [f"{level.name or place} = {one}" for one in known]
            (cells,) = np.nonzero(codes >= 0)
            places = np.ones(cells.size), (codes[cells], cells)
            rows.append(sparse.csr_array(places, (len(known), model.cells)))
    return names, sparse.vstack(rows).tocsr()
