"""Laws of the statistics of a table away from the null hypothesis: limits, and draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray
from dpinfer._numerics.chi2 import WeightedChi2
from dpinfer._numerics.roots import find_root
from dpinfer.hypothesis_tests._fitted_tables import STATISTICS as FITTED_STATISTICS
from dpinfer.hypothesis_tests._fitted_tables import Fit, RowMargins, TableModel
from dpinfer.hypothesis_tests._noisy_tables import STATISTICS, NoisyTable, Statistic
from dpinfer.results.null import bounds_of

Tail = Callable[[FloatArray], FloatArray]

_SMALLEST_TAIL = 1e-300
_PRECISION = 1e-13

_CLOSE = 1e-12
"""Logarithms of tails this close to that of the level are it."""

_NEGLIGIBLE = 1e-12
"""Variances this small, in units of the largest, are 0 but for rounding."""

_UNDECIDED = -1.0
"""Stands for the statistic of a table that is not decided: below all statistics."""

_FIRST, _LAST = 0.8, 100.0
"""Expected exceedances at the level after which a test is first, and last looked at."""

_SURE = 1e-3
"""Probability at the level of the exceedances that end a test before."""

_CELLS_AT_ONCE = 1 << 18
"""Cells of replicates held at a time."""


def critical_value(upper: Tail, alpha: float, scale: float) -> float:
    def excess(q: FloatArray, _: object) -> FloatArray:
        gap = np.log(np.maximum(upper(q), _SMALLEST_TAIL)) - np.log(alpha)
        return np.where(np.abs(gap) < _CLOSE, 0.0, gap)

    _, high = find_root(excess, np.zeros(1), np.full(1, scale), rtol=_PRECISION, expand=True)
    return float(high[0])


@dataclass(frozen=True)
class ShiftedForm:
    """Law of a constant and of a sum of squares of correlated normal variables with a mean."""

    constant: float
    law: WeightedChi2 | None

    def upper(self, q: float) -> float:
        """P(Q >= q)."""
        if self.law is None:
            return float(self.constant >= q)
        return float(self.law.upper(np.asarray(q - self.constant)))

    def critical_value(self, alpha: float) -> float:
        assert self.law is not None  # a null hypothesis leaves something to chance
        above = critical_value(self.law.upper, alpha, 2.0 * self.law.mean)
        return self.constant + above

    @classmethod
    def rank_one(cls, diagonal: FloatArray, vector: FloatArray, mean: FloatArray) -> ShiftedForm:
        """Return the law of YᵀY for Y ~ N(m, diag(d) - u uᵀ), d >= 0."""
        varies = diagonal > _NEGLIGIBLE * diagonal.max()
        constant = float(np.square(mean[~varies]).sum())
        kept, along = diagonal[varies], vector[varies]
        if kept.sum() - np.square(along).sum() <= _NEGLIGIBLE * kept.sum():
            return cls(constant + float(np.square(mean[varies]).sum()), None)
        return cls(constant, WeightedChi2.shifted_rank_one(kept, along, mean[varies]))

    @classmethod
    def dense(cls, covariance: FloatArray, mean: FloatArray) -> ShiftedForm:
        """Return the law of YᵀY for Y ~ N(m, C)."""
        values, vectors = np.linalg.eigh(covariance)
        means = vectors.T @ mean
        varies = values > _NEGLIGIBLE * max(values.max(), _NEGLIGIBLE)
        constant = float(np.square(means[~varies]).sum())
        if not varies.any():
            return cls(constant, None)
        return cls(constant, WeightedChi2.from_eigenvalues(values[varies], means[varies]))


def shifted_law(table: NoisyTable, truth: FloatArray, statistic: Statistic) -> ShiftedForm:
    """Return the limit law of a statistic of a table whose true expected counts are others.

    The deviations d from the expected counts e of the null hypothesis are taken to be normal with
    mean t - e and covariance diag(t + V) - t tᵀ/n, t the true expected counts.
    """
    shift = truth - table.expected
    if statistic == "pearson":
        scale = 1.0 / np.sqrt(table.expected)
        return ShiftedForm.rank_one(
            (truth + table.variance) / table.expected,
            truth * scale / np.sqrt(table.nobs),
            shift * scale,
        )
    root = _projected_root(table)
    sampled = (root * (truth + table.variance)) @ root.T
    across = root @ truth
    return ShiftedForm.dense(sampled - np.outer(across, across) / table.nobs, root @ shift)


def fitted_power(model: TableModel, truth: FloatArray, alpha: float, statistic: Statistic) -> float:
    """Return the power in the limit where tables are fitted; truth: their true expected counts.

    The projected statistic is noncentral χ², and its noncentrality is the statistic of the true
    expected counts. Pearson's is a sum of squares of deviations from the fit, which are normal
    with those of the true expected counts as their mean.
    """
    table = truth[..., np.newaxis], np.array([truth.sum()])
    if statistic == "projected":
        dof = model.margins.dof
        means = np.zeros(dof)
        means[0] = np.sqrt(model.projected(*table).item())
        critical = np.asarray(special.chdtri(float(dof), alpha))
        return float(WeightedChi2.from_eigenvalues(np.ones(dof), means).upper(critical))
    fit = model.near(*table)
    expected = fit.expected[..., 0]
    scale = 1.0 / np.sqrt(expected.ravel())
    covariance = scale[:, np.newaxis] * model.margins.residual_covariance(expected) * scale
    mean = scale * fit.deviations.ravel()
    null = ShiftedForm.dense(covariance, np.zeros(mean.size))
    return ShiftedForm.dense(covariance, mean).upper(null.critical_value(alpha))


def _projected_root(table: NoisyTable) -> FloatArray:
    """Return R with dᵀRᵀRd the projected statistic, from its terms; shape (k + 1, k).

    With w = 1/(e + V), p = e/n and d centred so that Σ w d = 0 the statistic is
    Σ w d² + factor·(Σ w p d)²: see ``projected`` in hypothesis_tests/_noisy_tables.py.
    """
    share = table.expected / table.nobs
    weights = 1.0 / (table.expected + table.variance)
    shared, total = weights * share, weights.sum()
    centre = np.eye(share.size) - weights / total
    factor = total / (shared.sum() ** 2 + total * (shared @ table.variance) / table.nobs)
    return np.vstack([np.sqrt(weights)[:, None] * centre, np.sqrt(factor) * shared @ centre])


@dataclass(frozen=True)
class SimulatedDeviations:
    """Draws a statistic of a table whose true expected counts are others; can be pickled."""

    table: NoisyTable
    truth: NoisyTable
    statistic: Statistic

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        deviations = self.truth.draw_deviations(size, rng)
        deviations += self.truth.expected - self.table.expected
        return STATISTICS[self.statistic](self.table)(deviations)


@dataclass(frozen=True)
class Releases:
    """Draws published tables under any probabilities; can be pickled."""

    model: TableModel
    nobs: NDArray[np.int64]
    shares: FloatArray

    def draw(self, size: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        counts = rng.multinomial(self.nobs, self.shares, (size, self.nobs.size))
        total = np.full(size, float(self.nobs.sum()))
        return publish(self.model, counts, total, rng)


def publish(
    model: TableModel, counts: NDArray[np.int64], total: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Add noise to counts, shape (m, ...), and to totals; return tables, shape (..., m), too."""
    noisy = counts.reshape(-1, model.size).astype(np.float64)
    noisy += model.noise.rvs(noisy.shape, rng=rng)
    tables = np.ascontiguousarray(noisy.T).reshape(*model.shape, -1)
    if model.nobs_noise is None:
        return tables, total
    return tables, total + model.nobs_noise.rvs(total.shape, rng=rng)


@dataclass(frozen=True)
class DecidedTables:
    """Draws statistics of tables, of which those with small expected counts are not decided."""

    releases: Releases
    statistic: Statistic
    smallest: float

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        model, released = self.releases.model, self.releases.draw(size, rng)
        decided = is_decided(model.fit(*released), self.smallest)
        return np.where(decided, FITTED_STATISTICS[self.statistic](model, *released), _UNDECIDED)


def is_decided(fit: Fit, smallest: float) -> NDArray[np.bool_]:
    cells = fit.expected.reshape(-1, fit.expected.shape[-1])
    return np.asarray((cells >= smallest).all(axis=0))


@dataclass(frozen=True)
class NestedTests:
    """Draws releases, and tests each by replicates from its estimates; can be pickled.

    A test ends as soon as its exceedances tell on which side of the level its p-value is.
    """

    releases: Releases
    statistic: Statistic
    alpha: float
    is_known: bool
    smallest: float

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        tables, nobs = self.releases.draw(size, rng)
        fit = self.releases.model.fit(tables, nobs)
        statistic = FITTED_STATISTICS[self.statistic](self.releases.model, tables, nobs)
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
        model = self.releases.model
        together = max(1, _CELLS_AT_ONCE // (reps * model.size))
        counts = []
        for start in range(0, chosen.size, together):
            part = chosen[start : start + together]
            trials, shares = self._null(fit.expected[..., part], nobs[part])
            drawn = rng.multinomial(trials, shares, (reps, *trials.shape))
            total = np.broadcast_to(trials.sum(axis=-1), (reps, part.size)).reshape(-1)
            again = publish(model, drawn, total.astype(np.float64), rng)
            statistic = FITTED_STATISTICS[self.statistic](model, *again).reshape(reps, part.size)
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
