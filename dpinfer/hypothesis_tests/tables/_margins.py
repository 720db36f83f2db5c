"""Margins of noisy tables, estimated by generalised least squares in many tables at once.

Tables have the shape (r, c, m): m tables, the innermost axis, of r rows and c columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests.tables._noise_form import NoiseForm, fitted_part, total

SMALLEST_EXPECTED = 1e-9
"""Smaller expected counts are taken to be this, so that weights stay finite."""

_SMALLEST_SHARE = 1e-12
"""Margins smaller than this share of the largest are taken to be it: none divides by 0."""

_ROUNDS = 2
"""Rounds over rows and columns, and over weights: the first has nearly all there is to gain."""


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
        rows = _shares(tables.sum(axis=1)) * np.maximum(total(tables), 1.0)
        columns = _shares(tables.sum(axis=0))
        for _ in range(_ROUNDS):
            problem = _Alternating.at(self.form, tables, _outer(rows, columns))
            rows = problem.best_rows(columns)
            columns = problem.flipped().best_rows(rows)
            scale = columns.sum(axis=0)
            rows, columns = rows * scale, columns / np.where(scale > 0.0, scale, 1.0)
        expected = _outer(rows, columns)
        deviations = tables - expected
        form = self.form.value(deviations, *self.form.weights(expected))
        return Fit(expected, deviations, form)

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
        return cls(weighted, weights, weights * form.noise, factor, total(weighted * form.noise))

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
        if self.loaded is not None:
            along = np.einsum("ijm,jm->im", self.loaded, columns)
            missed = self.seen - (along * best).sum(axis=0)
            direction = along / precision
            bend = 1.0 + self.factor * (along * direction).sum(axis=0)
            best += self.factor * missed / bend * direction
        return np.asarray(np.maximum(best, 0.0))


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
        noise, totals = self.variance[..., np.newaxis], self.totals[:, np.newaxis]
        excess = tables.sum(axis=1) - totals
        tables = tables - self._noise_shares[..., np.newaxis] * excess[:, np.newaxis]
        columns = _shares(tables.sum(axis=0))
        for _ in range(_ROUNDS):
            columns = self._step(tables, noise, columns)
        expected = _outer(np.broadcast_to(totals, excess.shape), columns)
        weights, factor = self._weights(expected, noise)
        deviations = tables - expected
        along = (weights * noise * deviations).sum(axis=1)
        form = total(weights * np.square(deviations)) + (factor * np.square(along)).sum(axis=0)
        return Fit(expected, deviations, form)

    def residual_covariance(self, expected: FloatArray) -> FloatArray:
        """Covariance of the deviations, from the linear problem at the fit; shape (r·c, r·c)."""
        rows, columns = expected.shape
        weighing = np.diag((expected + self.variance).ravel())
        sampled, adjust = weighing.copy(), np.eye(expected.size)
        for row in range(rows):
            cells = slice(row * columns, (row + 1) * columns)
            share = self._noise_shares[row]
            weighing[cells, cells] -= np.outer(share, self.variance[row])
            sampled[cells, cells] -= np.outer(expected[row], expected[row]) / self.totals[row]
            adjust[cells, cells] -= share[:, np.newaxis]
        tangents = np.kron(self.totals[:, np.newaxis], np.eye(columns)).astype(np.float64)
        factor = (np.eye(expected.size) - fitted_part(tangents, weighing)) @ adjust
        return np.asarray(factor @ sampled @ factor.T)

    @property
    def _noise_shares(self) -> FloatArray:
        """V/ΣV in each row; 0 in rows without noise."""
        sums = self.variance.sum(axis=1, keepdims=True)
        return np.asarray(self.variance / np.where(sums > 0.0, sums, 1.0))

    def _weights(self, expected: FloatArray, noise: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return w, shape (r, c, m), and γ of each row, 1/(Σ w V m b), shape (r, m)."""
        weights = 1.0 / (expected + noise)
        reduced = (weights * noise * expected).sum(axis=1)
        return weights, np.where(reduced > 0.0, 1.0 / np.where(reduced > 0.0, reduced, 1.0), 0.0)

    def _step(self, tables: FloatArray, noise: FloatArray, columns: FloatArray) -> FloatArray:
        """Return the best column shares >= 0 with the weights at the given ones."""
        totals = self.totals[:, np.newaxis]
        rows = np.broadcast_to(totals, (totals.size, columns.shape[-1]))
        weights, factor = self._weights(_outer(rows, columns), noise)
        loaded = weights * noise
        shared = (totals * factor)[:, np.newaxis] * loaded
        normal = np.einsum("ijm,ikm->jkm", rows[:, np.newaxis] * shared, loaded)
        cells = np.arange(columns.shape[0])
        normal[cells, cells] += np.einsum("im,ijm->jm", np.square(rows), weights)
        right = np.einsum("im,ijm->jm", rows, weights * tables)
        right += np.einsum("im,ijm->jm", (loaded * tables).sum(axis=1), shared)
        solved = np.linalg.solve(np.moveaxis(normal, -1, 0), right.T[..., np.newaxis])
        return _shares(solved[..., 0].T)


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
    return np.maximum(rows[:, np.newaxis] * columns, SMALLEST_EXPECTED)
