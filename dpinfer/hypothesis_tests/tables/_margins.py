"""Margins of noisy tables, estimated by generalised least squares in many tables at once.

Tables have the shape (r, c, m): m tables, the innermost axis, of r rows and c columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests.tables._elimination import solve_loaded
from dpinfer.hypothesis_tests.tables._noise_form import NoiseForm, dot, fitted_part

SMALLEST_EXPECTED = 1e-9
"""Smaller expected counts are taken to be this, so that weights stay finite."""

_SMALLEST_SHARE = 1e-12
"""Margins smaller than this share of the largest are taken to be it: none divides by 0."""

_CONVERGED = 2e-10
"""Error left in margins, relative to the largest, at which a round is the last."""

_ROUNDING = 1e-13
"""Smaller relative changes of margins are rounding."""

_MOST_ROUNDS = 100
"""Rounds over rows and columns, and over weights. Only tables with margins near 0 need as many."""


@dataclass(frozen=True)
class Fit:
    """Expected counts fitted to tables, and what speaks against them.

    Parameters
    ----------
    expected : array of float, shape (r, c, m)
        Expected counts, > 0.
    deviations : array of float, shape (r, c, m)
        Counts, less the noise that known totals tell, less expected counts.
    projected : array of float, shape (m,)
        The projected statistic.
    """

    expected: FloatArray
    deviations: FloatArray
    projected: FloatArray


class Margins(Protocol):
    """A null hypothesis about tables whose expected counts have unknown parameters."""

    @property
    def dof(self) -> int:
        """Degrees of freedom left after estimating the parameters."""

    def fit(self, tables: FloatArray, nobs: FloatArray) -> Fit:
        """Fit tables, shape (..., m), with their published totals, shape (m,) or ()."""

    def residual_covariance(self, expected: FloatArray) -> FloatArray:
        """Return the covariance of the deviations from these expected counts, shape (k, k)."""


@dataclass(frozen=True)
class ProductMargins:
    """Independence: expected counts aᵢ·bⱼ.

    Given b and the weights of the form, its minimum over a is a linear problem that is diagonal
    but for one direction, and so has a closed form.

    Parameters
    ----------
    form : NoiseForm
        What is minimised.
    """

    form: NoiseForm

    @property
    def dof(self) -> int:
        """(r - 1)(c - 1)."""
        return _interactions(self.form.variance)

    def fit(self, tables: FloatArray, nobs: FloatArray) -> Fit:
        """Fit independent margins, rows and columns in turn."""
        tables = self.form.adjust(tables, nobs)
        rows, columns = tables.sum(axis=1), _shares(tables.sum(axis=0))
        rows = _shares(rows) * np.maximum(rows.sum(axis=0), 1.0)
        expected = _outer(*_converged(self._round, tables, rows, columns))
        deviations = tables - expected
        form = self.form.value(deviations, *self.form.weights(expected))
        return Fit(expected, deviations, form)

    def _round(
        self, tables: FloatArray, rows: FloatArray, columns: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return better rows, shape (r, m), and shares of columns, shape (c, m)."""
        problem = _Alternating.at(self.form, tables, _outer(rows, columns))
        rows = problem.best_rows(columns)
        columns = problem.flipped().best_rows(rows)
        scale = columns.sum(axis=0)
        return rows * scale, columns / np.where(scale > 0.0, scale, 1.0)

    def residual_covariance(self, expected: FloatArray) -> FloatArray:
        """Covariance of the deviations, from the linear problem at the fit; shape (r·c, r·c)."""
        rows, columns = expected.sum(axis=1), expected.sum(axis=0)
        by_row = np.kron(np.eye(rows.size), columns[:, np.newaxis])
        by_column = np.kron(rows[:, np.newaxis], np.eye(columns.size))
        return self.form.residual_covariance(np.hstack([by_row, by_column]), expected)


@dataclass(frozen=True)
class _Alternating:
    """The form with fixed weights, to be minimised over rows and columns in turn.

    Parameters
    ----------
    weighted, weights, loaded : array of float, shape (r, c, m)
        w·z, w and, where the noise of the cells is shared, w·V.
    factor, seen : array of float, shape (m,)
        γ and Σ w V z.
    """

    weighted: FloatArray
    weights: FloatArray
    loaded: FloatArray | None
    factor: FloatArray
    seen: FloatArray

    @classmethod
    def at(cls, form: NoiseForm, tables: FloatArray, expected: FloatArray) -> _Alternating:
        weights, factor = form.weights(expected)
        weighted = weights * tables
        if form.shared == 0.0:
            return cls(weighted, weights, None, factor, factor)
        return cls(weighted, weights, weights * form.noise, factor, dot(form.variance, weighted))

    def flipped(self) -> _Alternating:
        """Return the problem for the transposed table."""
        loaded = None if self.loaded is None else self.loaded.swapaxes(0, 1)
        return replace(
            self,
            weighted=self.weighted.swapaxes(0, 1),
            weights=self.weights.swapaxes(0, 1),
            loaded=loaded,
        )

    def best_rows(self, columns: FloatArray) -> FloatArray:
        """Return the best rows a >= 0, shape (r, m), for given columns b, shape (c, m)."""
        scale = columns.max(axis=0)
        columns = np.maximum(columns, _SMALLEST_SHARE * np.where(scale > 0.0, scale, 1.0))
        precision = np.einsum("ijm,jm->im", self.weights, np.square(columns))
        best = np.einsum("ijm,jm->im", self.weighted, columns) / precision
        if self.loaded is None:
            return np.asarray(np.maximum(best, 0.0))
        along = np.einsum("ijm,jm->im", self.loaded, columns)
        return _coupled(best, along, along / precision, self.factor, self.seen)


@dataclass(frozen=True)
class RowMargins:
    """Homogeneity: expected counts mᵢ·bⱼ with known row totals mᵢ.

    Each row is adjusted to its total, z = y - V·(Σy - m)/ΣV, and Σᵢ dᵀ(diag(m b + V) - V Vᵀ/ΣV)⁻¹d
    with d = z - m·b is minimised over b, which is a linear problem given the weights. That Σb = 1
    comes out by itself, and with it that the form does not depend on the term m b bᵀ that is
    missing.

    Parameters
    ----------
    variance : array of float, shape (r, c)
        Variance V of the noise.
    totals : array of float, shape (r,)
        Row totals m.
    """

    variance: FloatArray
    totals: FloatArray

    @property
    def dof(self) -> int:
        """(r - 1)(c - 1)."""
        return _interactions(self.variance)

    def fit(self, tables: FloatArray, nobs: FloatArray) -> Fit:
        """Fit common column shares."""
        excess = tables.sum(axis=1) - self.totals[:, np.newaxis]
        tables = tables - self._noise_shares[..., np.newaxis] * excess[:, np.newaxis]
        (columns,) = _converged(self._step, tables, _shares(tables.sum(axis=0)))
        expected = self._expected(columns)
        weights, loaded, factor = self._weights(expected)
        deviations = tables - expected
        along = np.einsum("ijm,ijm->im", loaded, deviations)
        weights *= deviations
        form = dot(weights, deviations) + np.einsum("im,im,im->m", factor, along, along)
        return Fit(expected, deviations, form)

    def residual_covariance(self, expected: FloatArray) -> FloatArray:
        """Covariance of the deviations, from the linear problem at the fit; shape (r·c, r·c)."""
        rows, columns = expected.shape
        weights, loaded, factor = (
            part[..., 0] for part in self._weights(expected[..., np.newaxis])
        )
        sampled, adjust = np.diag((expected + self.variance).ravel()), np.eye(expected.size)
        directions = np.zeros((rows, expected.size))
        for row in range(rows):
            cells = slice(row * columns, (row + 1) * columns)
            share = self._noise_shares[row]
            directions[row, cells] = np.sqrt(factor[row]) * loaded[row]
            sampled[cells, cells] -= np.outer(expected[row], expected[row]) / self.totals[row]
            adjust[cells, cells] -= share[:, np.newaxis]
        tangents = np.kron(self.totals[:, np.newaxis], np.eye(columns)).astype(np.float64)
        fitted = fitted_part(tangents, weights.ravel(), directions)
        left = (np.eye(expected.size) - fitted) @ adjust
        return np.asarray(left @ sampled @ left.T)

    @property
    def _noise_shares(self) -> FloatArray:
        """V/ΣV in each row; 0 in rows without noise."""
        sums = self.variance.sum(axis=1, keepdims=True)
        return np.asarray(self.variance / np.where(sums > 0.0, sums, 1.0))

    def _expected(self, columns: FloatArray) -> FloatArray:
        return _outer(self.totals[:, np.newaxis], columns)

    def _weights(self, expected: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return w and w·V, shape (r, c, m), and γ of each row, 1/(Σ w V m b), shape (r, m)."""
        noise = self.variance[..., np.newaxis]
        weights = expected + noise
        np.divide(1.0, weights, out=weights)
        loaded = weights * noise
        reduced = np.einsum("ijm,ijm->im", loaded, expected)
        factor = np.where(reduced > 0.0, 1.0 / np.where(reduced > 0.0, reduced, 1.0), 0.0)
        return weights, loaded, factor

    def _step(self, tables: FloatArray, columns: FloatArray) -> tuple[FloatArray]:
        """Return the best column shares >= 0 with the weights at the given ones."""
        weights, loaded, factor = self._weights(self._expected(columns))
        diagonal = np.einsum("i,ijm->jm", np.square(self.totals), weights)
        weights *= tables
        right = np.einsum("i,ijm->jm", self.totals, weights)
        factor *= self.totals[:, np.newaxis]
        right += np.einsum("im,ijm->jm", factor * np.einsum("ijm,ijm->im", loaded, tables), loaded)
        factor *= self.totals[:, np.newaxis]
        return (_shares(solve_loaded(diagonal, factor, loaded, right)),)


def _converged(
    step: Callable[..., tuple[FloatArray, ...]], tables: FloatArray, *margins: FloatArray
) -> tuple[FloatArray, ...]:
    """Return margins, each of shape (q, m), after as many steps as the table needs.

    Changes go down by a factor f, from one step to the next, so that after a change d the error is
    d f/(1 - f) = d²/(d/f - d), where d/f is the change before.
    """
    fitted = tuple(part.copy() for part in margins)
    left = np.arange(tables.shape[-1])
    last = np.zeros(left.size)
    for _ in range(_MOST_ROUNDS):
        moved = step(tables, *margins)
        change = np.zeros(left.size)
        for into, now, before in zip(fitted, moved, margins, strict=True):
            into[:, left] = now
            size = np.maximum(now.max(axis=0), SMALLEST_EXPECTED)
            np.maximum(change, np.abs(now - before).max(axis=0) / size, out=change)
        more = (change > _ROUNDING) & (np.square(change) > _CONVERGED * (last - change))
        if not more.any():
            break
        if not more.all():
            # unlike an index, compress keeps the axis of the tables innermost in memory
            left, change, tables = left[more], change[more], np.compress(more, tables, axis=-1)
            moved = tuple(np.compress(more, part, axis=-1) for part in moved)
        margins, last = moved, change
    return fitted


def _coupled(
    apart: FloatArray,
    along: FloatArray,
    direction: FloatArray,
    factor: FloatArray,
    seen: FloatArray,
) -> FloatArray:
    """Return the minimum over x >= 0 of Σ pᵢ(xᵢ - x⁰ᵢ)² + γ(s - Σ lᵢ xᵢ)² of each table.

    Given are x⁰, l >= 0 and l/p, shape (r, m), γ and s, shape (m,). The minimum is x⁰ + t·l/p with
    one number t, and 0 where that is negative. Leaving out what is negative makes t smaller, so
    that nothing left out comes back: at most r rounds.
    """
    best, free = apart, np.ones(apart.shape, dtype=bool)
    for _ in range(len(apart) + 1):
        missed = seen - np.einsum("im,im,im->m", free, along, apart)
        bend = 1.0 + factor * np.einsum("im,im,im->m", free, along, direction)
        best = apart + factor * missed / bend * direction
        negative = free & (best < 0.0)
        if not negative.any():
            break
        free &= ~negative
    return np.where(free, best, 0.0)


def _interactions(cells: FloatArray) -> int:
    """Return (r - 1)(c - 1)."""
    rows, columns = cells.shape
    return int((rows - 1) * (columns - 1))


def _shares(sums: FloatArray) -> FloatArray:
    """Return sums over the first axis as shares >= 0 that add up to 1; equal if none is > 0."""
    kept = np.maximum(sums, 0.0)
    total = kept.sum(axis=0)
    equal = 1.0 / len(sums)
    return np.where(total > 0.0, kept / np.where(total > 0.0, total, 1.0), equal)


def _outer(rows: FloatArray, columns: FloatArray) -> FloatArray:
    product = rows[:, np.newaxis] * columns
    return np.maximum(product, SMALLEST_EXPECTED, out=product)
