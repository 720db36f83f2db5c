"""Limit laws of the statistics of a table away from the null hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from dpinfer._check import FloatArray
from dpinfer._numerics.chi2 import WeightedChi2
from dpinfer._numerics.roots import find_root
from dpinfer.hypothesis_tests._fitted_tables import TableModel
from dpinfer.hypothesis_tests._noisy_tables import NoisyTable, Statistic

Tail = Callable[[FloatArray], FloatArray]

_SMALLEST_TAIL = 1e-300
_PRECISION = 1e-13

_CLOSE = 1e-12
"""Logarithms of tails this close to that of the level are it."""

_NEGLIGIBLE = 1e-12
"""Variances this small, in units of the largest, are 0 but for rounding."""


def critical_value(upper: Tail, alpha: float, scale: float) -> float:
    """Return the smallest value, up to rounding, of which the upper tail is at most alpha.

    Parameters
    ----------
    upper : callable
        P(Q >= q) for arrays q.
    alpha : float
        The level.
    scale : float
        Where to begin to look.
    """

    def excess(q: FloatArray, _: object) -> FloatArray:
        gap = np.log(np.maximum(upper(q), _SMALLEST_TAIL)) - np.log(alpha)
        return np.where(np.abs(gap) < _CLOSE, 0.0, gap)

    _, high = find_root(excess, np.zeros(1), np.full(1, scale), rtol=_PRECISION, expand=True)
    return float(high[0])


@dataclass(frozen=True)
class ShiftedForm:
    """Law of a constant and of a sum of squares of correlated normal variables with a mean.

    Parameters
    ----------
    constant : float
        What does not vary.
    law : WeightedChi2, optional
        The law of what does, if anything.
    """

    constant: float
    law: WeightedChi2 | None

    def upper(self, q: float) -> float:
        """P(Q >= q)."""
        if self.law is None:
            return float(self.constant >= q)
        return float(self.law.upper(np.asarray(q - self.constant)))

    def critical_value(self, alpha: float) -> float:
        """Return the value whose upper tail is alpha."""
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
    Σ w d² + factor·(Σ w p d)²: see ``projected`` in tables/_noisy_table.py.
    """
    share = table.expected / table.nobs
    weights = 1.0 / (table.expected + table.variance)
    shared, total = weights * share, weights.sum()
    centre = np.eye(share.size) - weights / total
    factor = total / (shared.sum() ** 2 + total * (shared @ table.variance) / table.nobs)
    return np.vstack([np.sqrt(weights)[:, None] * centre, np.sqrt(factor) * shared @ centre])
