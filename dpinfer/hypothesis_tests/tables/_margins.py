"""Margins of noisy tables, estimated by generalised least squares in many tables at once.

Tables have the shape (r, c, m): m tables, the innermost axis, of r rows and c columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests.tables._elimination import solve_loaded
from dpinfer.hypothesis_tests.tables._noise_form import NoiseForm, dot, fitted_part, total

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
        expected = _outer(*_converged(self._round, tables, (rows, columns)))
        deviations = tables - expected
        form = self.form.value(deviations, *self.form.weights(expected))
        return Fit(expected, deviations, form)

    def _round(
        self, tables: FloatArray, rows: FloatArray, columns: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return better rows, shape (r, m), and shares of columns, shape (c, m)."""
        rows = _Alternating.at(self.form, tables, rows, columns).best(columns, "jm", "im")
        columns = _Alternating.at(self.form, tables, rows, columns).best(rows, "im", "jm")
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
        expected = _outer(rows, columns)
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
        (columns,) = _converged(self._step, tables, (_shares(tables.sum(axis=0)),))
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
    step: Callable[..., tuple[FloatArray, ...]],
    tables: FloatArray,
    margins: tuple[FloatArray, ...],
    last: FloatArray | float = 0.0,
    most: int = _MOST_ROUNDS,
) -> tuple[FloatArray, ...]:
    """Return margins, each of shape (q, m), after as many steps as each table needs.

    Changes go down by a factor f, from one step to the next, so that after a change d the error is
    d f/(1 - f) = d²/(d/f - d), where d/f is the change before, ``last``. Tables that are over stay
    as they are, and are left out as soon as they are a quarter of the tables.
    """
    over = np.zeros(tables.shape[-1], dtype=bool)
    for done in range(most):
        moved = step(tables, *margins)
        change = reduce(np.maximum, map(_change, moved, margins))
        if over.any():
            for now, before in zip(moved, margins, strict=True):
                np.copyto(now, before, where=over)
        over |= ~((change > _ROUNDING) & (np.square(change) > _CONVERGED * (last - change)))
        margins, last = moved, change
        left = np.flatnonzero(~over)
        if left.size and 4 * left.size <= 3 * over.size:
            part = tuple(_taken(x, left) for x in margins)
            rest = _converged(step, _taken(tables, left), part, last[left], most - done - 1)
            for into, now in zip(margins, rest, strict=True):
                into[:, left] = now
        if 4 * left.size <= 3 * over.size:
            break
    return margins


def _taken(array: FloatArray, tables: NDArray[np.intp]) -> FloatArray:
    """Return some tables; unlike an index, this keeps their axis innermost in memory."""
    return np.take(array, tables, axis=-1)


def _change(now: FloatArray, before: FloatArray) -> FloatArray:
    """Return the largest change of each table's margins, relative to the largest margin."""
    change = now - before
    largest = np.abs(change, out=change).max(axis=0)
    largest /= now.max(axis=0) + SMALLEST_EXPECTED
    return np.asarray(largest)


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
            rest = _coupled(*(_taken(x, some) for x in (apart, kept, direction, factor, seen)))
            best[:, some] = np.where(negative[:, some], 0.0, rest)
        np.maximum(best, 0.0, out=best)
    return np.asarray(best)


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
    """Return the products aᵢ·bⱼ, SMALLEST_EXPECTED at least."""
    product = rows[:, np.newaxis] * columns
    if product.min() < SMALLEST_EXPECTED:  # to look takes a sixth of the time
        np.maximum(product, SMALLEST_EXPECTED, out=product)
    return np.asarray(product)
