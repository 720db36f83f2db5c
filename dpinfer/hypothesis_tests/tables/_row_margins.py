"""Homogeneity of tables whose row totals are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests.tables._elimination import solve_loaded
from dpinfer.hypothesis_tests.tables._margins import Fit
from dpinfer.hypothesis_tests.tables._noise_form import dot, fitted_part
from dpinfer.hypothesis_tests.tables._projection import outer
from dpinfer.hypothesis_tests.tables._rounds import converged, shares


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
        rows, columns = self.variance.shape
        return int((rows - 1) * (columns - 1))

    def fit(self, tables: FloatArray, nobs: FloatArray) -> Fit:
        """Fit common column shares."""
        tables = self._adjusted(tables)
        expected = self._expected(self._best(tables))
        return Fit(expected, tables - expected)

    def near(self, tables: FloatArray, nobs: FloatArray) -> Fit:
        """Fit the sums of columns, where that is good enough."""
        tables = self._adjusted(tables)
        expected = self._expected(self._near(tables))
        return Fit(expected, tables - expected)

    def projected(self, tables: FloatArray, nobs: FloatArray) -> FloatArray:
        """Return the smallest value of the form with its weights at near shares."""
        tables = self._adjusted(tables)
        near = self._near(tables)
        weights, loaded, factor = self._weights(self._expected(near))
        deviations = tables - self._expected(self._best_given(tables, weights, loaded, factor))
        along = np.einsum("ijm,ijm->im", loaded, deviations)
        weights *= deviations
        form = dot(weights, deviations)
        form += np.einsum("im,im,im->m", factor, along, along)
        return form

    def _adjusted(self, tables: FloatArray) -> FloatArray:
        """Remove from tables the noise that their row totals tell."""
        excess = tables.sum(axis=1) - self.totals[:, np.newaxis]
        return np.asarray(tables - self._noise_shares[..., np.newaxis] * excess[:, np.newaxis])

    def _near(self, tables: FloatArray) -> FloatArray:
        """Return the shares of sums where all cells are equally noisy."""
        return shares(tables.sum(axis=0)) if self._is_even else self._best(tables)

    def _best(self, tables: FloatArray) -> FloatArray:
        return converged(self._step, tables, (shares(tables.sum(axis=0)),))[0]

    @property
    def _is_even(self) -> bool:
        return bool((self.variance == self.variance.flat[0]).all())

    def residual_covariance(self, expected: FloatArray) -> FloatArray:
        """Covariance of the near deviations, by linearising them; shape (r·c, r·c)."""
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
        if self._is_even:
            fitted = tangents @ np.tile(np.eye(columns), rows) / self.totals.sum()
        else:
            fitted = fitted_part(tangents, weights.ravel(), directions)
        left = (np.eye(expected.size) - fitted) @ adjust
        return np.asarray(left @ sampled @ left.T)

    @property
    def _noise_shares(self) -> FloatArray:
        """V/ΣV in each row; 0 in rows without noise."""
        sums = self.variance.sum(axis=1, keepdims=True)
        return np.asarray(self.variance / np.where(sums > 0.0, sums, 1.0))

    def _expected(self, columns: FloatArray) -> FloatArray:
        return outer(self.totals[:, np.newaxis], columns)

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
        """Return the best column shares with the weights at the given ones."""
        return (self._best_given(tables, *self._weights(self._expected(columns))),)

    def _best_given(
        self, tables: FloatArray, weights: FloatArray, loaded: FloatArray, factor: FloatArray
    ) -> FloatArray:
        """Return the best column shares >= 0 with these weights."""
        totals = self.totals[:, np.newaxis]
        diagonal = np.einsum("i,ijm->jm", np.square(self.totals), weights)
        right = np.einsum("i,ijm,ijm->jm", self.totals, weights, tables)
        along = np.einsum("ijm,ijm->im", loaded, tables)
        right += np.einsum("im,ijm->jm", factor * totals * along, loaded)
        return shares(solve_loaded(diagonal, factor * np.square(totals), loaded, right))
