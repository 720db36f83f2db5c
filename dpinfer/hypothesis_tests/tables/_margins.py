"""Margins of noisy tables, estimated by generalised least squares in many tables at once.

Tables have the shape (r, c, m): m tables, the innermost axis, of r rows and c columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests.tables._noise_form import NoiseForm, dot, total
from dpinfer.hypothesis_tests.tables._projection import SMALLEST_EXPECTED, outer, project_out
from dpinfer.hypothesis_tests.tables._rounds import converged, shares, taken

_SMALLEST_SHARE = 1e-12
"""Margins smaller than this share of the largest are taken to be it: none divides by 0."""


@dataclass(frozen=True)
class Fit:
    """Expected counts fitted to tables.

    Parameters
    ----------
    expected : array of float, shape (r, c, m)
        Expected counts, > 0.
    deviations : array of float, shape (r, c, m)
        Counts, less the noise that known totals tell, less expected counts.
    """

    expected: FloatArray
    deviations: FloatArray


class Margins(Protocol):
    """A null hypothesis about tables whose expected counts have unknown parameters."""

    @property
    def dof(self) -> int:
        """Degrees of freedom left after estimating the parameters."""

    def fit(self, tables: FloatArray, nobs: FloatArray) -> Fit:
        """Fit tables, shape (..., m), with their published totals, shape (m,) or ()."""

    def near(self, tables: FloatArray, nobs: FloatArray) -> Fit:
        """Return a fit that is as good for a test, and may be simpler."""

    def projected(self, tables: FloatArray, nobs: FloatArray) -> FloatArray:
        """Return the projected statistic of tables, shape (m,)."""

    def residual_covariance(self, expected: FloatArray) -> FloatArray:
        """Return the covariance of the near deviations at these expected counts, shape (k, k)."""


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
        rows, columns = self.form.variance.shape
        return int((rows - 1) * (columns - 1))

    def fit(self, tables: FloatArray, nobs: FloatArray) -> Fit:
        """Fit independent margins, rows and columns in turn."""
        tables = self.form.adjust(tables, nobs)
        expected = outer(*self._best(tables))
        return Fit(expected, tables - expected)

    def near(self, tables: FloatArray, nobs: FloatArray) -> Fit:
        """Fit the sums of rows and columns, where that is good enough."""
        tables = self.form.adjust(tables, nobs)
        expected = outer(*self._near(tables))
        return Fit(expected, tables - expected)

    def projected(self, tables: FloatArray, nobs: FloatArray) -> FloatArray:
        """Return what the form has left of the deviations from near margins."""
        tables = self.form.adjust(tables, nobs)
        return project_out(self.form, tables, *self._near(tables))

    def _near(self, tables: FloatArray) -> tuple[FloatArray, ...]:
        """Return the sums where all cells are equally noisy: else the noisiest would spoil them."""
        return _sums(tables) if self.form.is_even else self._best(tables)

    def _best(self, tables: FloatArray) -> tuple[FloatArray, ...]:
        return converged(self._round, tables, _sums(tables))

    def _round(
        self, tables: FloatArray, rows: FloatArray, columns: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return better rows, shape (r, m), and shares of columns, shape (c, m)."""
        rows = _Alternating.at(self.form, tables, rows, columns).best(columns, "jm", "im")
        columns = _Alternating.at(self.form, tables, rows, columns).best(rows, "im", "jm")
        scale = columns.sum(axis=0)
        return rows * scale, columns / np.where(scale > 0.0, scale, 1.0)

    def residual_covariance(self, expected: FloatArray) -> FloatArray:
        """Covariance of the near deviations, by linearising them; shape (r·c, r·c)."""
        rows, columns = expected.sum(axis=1), expected.sum(axis=0)
        if self.form.is_even:
            left = [np.eye(x.size) - x[:, np.newaxis] / x.sum() for x in (rows, columns)]
            return self.form.covariance_of(np.kron(*left), expected)
        by_row = np.kron(np.eye(rows.size), columns[:, np.newaxis])
        by_column = np.kron(rows[:, np.newaxis], np.eye(columns.size))
        return self.form.residual_covariance(np.hstack([by_row, by_column]), expected)


@dataclass(frozen=True)
class _Alternating:
    """The form with fixed weights, to be minimised over rows and columns in turn.

    Parameters
    ----------
    weighted, weights, loaded : array of float, shape (r, c, m)
        w·z, w and, where the noise of the cells is shared, w·V in units of the largest V.
    factor, seen : array of float, shape (m,)
        γ and Σ w V z in these units.
    """

    weighted: FloatArray
    weights: FloatArray
    loaded: FloatArray | None
    factor: FloatArray
    seen: FloatArray

    @classmethod
    def at(
        cls, form: NoiseForm, tables: FloatArray, rows: FloatArray, columns: FloatArray
    ) -> _Alternating:
        expected = outer(rows, columns)
        weights, factor = form.weights(expected)
        weighted = np.multiply(weights, tables, out=expected)
        if form.shared == 0.0:
            return cls(weighted, weights, None, factor, factor)
        unit = float(form.variance.max())
        factor *= unit * unit
        if form.is_even:
            return cls(weighted, weights, weights, factor, total(weighted))
        ratio = form.variance / unit
        return cls(
            weighted, weights, weights * ratio[..., np.newaxis], factor, dot(ratio, weighted)
        )

    def best(self, other: FloatArray, given: str, sought: str) -> FloatArray:
        """Return the best margin >= 0 for a given other one; their axes are named i, j and m."""
        smallest = _SMALLEST_SHARE * (other.max(axis=0) + SMALLEST_EXPECTED)
        if (other.min(axis=0) < smallest).any():
            other = np.maximum(other, smallest)
        sums = f"ijm,{given}->{sought}"
        best = np.einsum(sums, self.weighted, other)
        along = None if self.loaded is None else np.einsum(sums, self.loaded, other)
        precision = np.einsum(sums, self.weights, np.square(other))
        best /= precision
        if along is None:
            return np.asarray(np.maximum(best, 0.0, out=best))
        np.divide(along, precision, out=precision)
        return _coupled(best, along, precision, self.factor, self.seen)


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
    missed = seen - np.einsum("im,im->m", along, apart)
    missed *= factor
    bend = np.einsum("im,im->m", along, direction)
    bend *= factor
    bend += 1.0
    missed /= bend
    best = missed * direction
    best += apart
    negative = best < 0.0
    if negative.any():
        some = np.flatnonzero((negative & (along > 0.0)).any(axis=0))
        if some.size:
            kept = np.where(negative, 0.0, along)
            rest = _coupled(*(taken(x, some) for x in (apart, kept, direction, factor, seen)))
            best[:, some] = np.where(negative[:, some], 0.0, rest)
        np.maximum(best, 0.0, out=best)
    return np.asarray(best)


def _sums(tables: FloatArray) -> tuple[FloatArray, ...]:
    """Return the sums of rows, shape (r, m), and the shares of columns, shape (c, m), all >= 0."""
    rows = tables.sum(axis=1)
    scale = np.maximum(rows.sum(axis=0), 1.0)
    return shares(rows) * scale, shares(tables.sum(axis=0))
