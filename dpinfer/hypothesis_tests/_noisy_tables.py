"""The quadratic form in the deviations of noisy counts, minimised when parameters are estimated.

Arrays of cells have the shape of a table with one more axis, the innermost, for m tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests._quadratic.law import QuadraticLaw
from dpinfer.mechanisms.independent import groups
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Exact, Gaussian
from dpinfer.releases.values import NoisyValues

_DEPENDENT = 1e-10
"""Ratio of singular values below which columns are taken to depend on the others."""


@dataclass(frozen=True)
class NoiseForm:
    """The form dᵀ(diag(s·μ + V) - g·V Vᵀ)⁻¹d in deviations d from expected counts μ.

    With w = 1/(s·μ + V) it is Σ w d² + γ·(Σ w V d)², where γ = g/(1 - g Σ w V²).

    The covariance of the counts is n(diag(p) - p pᵀ) + diag(V). Its part n p pᵀ is missing here:
    the form is minimised over multiples of p, too, and its minimum does not depend on that part.
    """

    variance: FloatArray  # V, in the shape of a table
    shared: float  # g
    slack: float  # 1 - g ΣV, which would cancel
    inflation: float = 1.0  # s: sampling variance in units of the expected count

    @classmethod
    def published(cls, variance: FloatArray, nobs_variance: float) -> NoiseForm:
        """Return the form for tables whose number of observations N was published with noise.

        ``nobs_variance`` is the variance of that noise: 0 where N is public, infinite where it is
        not published. N tells something about the noise of the table, which :meth:`adjust`
        removes: z = y - g·V·(Σy - N) with g = 1/(ΣV + var N) has noise of covariance
        diag(V) - g·V Vᵀ, which is uncorrelated with Σy - N.
        """
        total = float(variance.sum())
        if total == 0.0 or np.isinf(nobs_variance):
            return cls(variance, 0.0, 1.0)
        shared = 1.0 / (total + nobs_variance)
        return cls(variance, shared, nobs_variance * shared)

    @cached_property
    def is_even(self) -> bool:
        """Whether V is the same in all cells."""
        return bool((self.variance == self.variance.flat[0]).all())

    @property
    def noise(self) -> FloatArray:
        """V, with an axis for the tables."""
        return self.variance[..., np.newaxis]

    def adjust(self, tables: FloatArray, nobs: FloatArray) -> FloatArray:
        """Remove from tables the noise that their published totals tell."""
        if self.shared == 0.0:
            return tables
        return tables - self.shared * self.noise * (total(tables) - nobs)

    def diagonal(self, expected: FloatArray) -> FloatArray:
        """Return w, in the shape of ``expected``."""
        scaled = expected if self.inflation == 1.0 else expected * self.inflation
        weights = scaled + self.noise
        return np.divide(1.0, weights, out=weights)

    def weights(self, expected: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return w, in the shape of ``expected``, and γ, shape (m,)."""
        weights = self.diagonal(expected)
        if self.shared == 0.0:
            return weights, np.zeros(expected.shape[-1])
        reduced = self.inflation * self.dot_noise(weights, expected)
        return weights, self.shared / (self.slack + self.shared * reduced)

    def dot_noise(self, *factors: FloatArray) -> FloatArray:
        """Return the sum over the cells of each table of V and other factors, shape (m,)."""
        if self.is_even:
            return self.variance.flat[0] * dot(*factors)
        return dot(self.variance, *factors)

    def value(self, deviations: FloatArray, weights: FloatArray, factor: FloatArray) -> FloatArray:
        """Return the form, shape (m,)."""
        weighted = weights * deviations
        form = dot(weighted, deviations)
        if self.shared > 0.0:
            form += factor * np.square(self.dot_noise(weighted))
        return form

    def residual_covariance(
        self, tangents: FloatArray, expected: FloatArray, noise: FloatArray | None = None
    ) -> FloatArray:
        """Return the covariance, shape (k, k), of deviations from a fit, by linearising the fit.

        Tangents, shape (k, q), are the derivatives of the expected counts by the parameters, the
        scale of all among them. ``noise`` is the covariance of the noise where it is not diag(V).
        """
        weights, gamma = self.weights(expected[..., np.newaxis])
        weights = weights.ravel()
        direction = np.sqrt(gamma) * weights * self.variance.ravel()
        fitted = fitted_part(tangents, weights, direction[np.newaxis])
        return self.covariance_of(np.eye(expected.size) - fitted, expected, noise)

    def covariance_of(
        self, left: FloatArray, expected: FloatArray, noise: FloatArray | None = None
    ) -> FloatArray:
        """Return the covariance of a linear function, shape (q, k), of adjusted tables."""
        variance, cells = self.variance.ravel(), expected.ravel()
        told = left @ variance
        factor = left - self.shared * told[:, np.newaxis]
        sampled = np.diag(cells) + (np.diag(variance) if noise is None else noise)
        sampled -= np.outer(cells, cells) / cells.sum()
        # the noise of the published total adds g² var N = g·(1 - g ΣV) in one direction
        from_total = self.shared * self.slack * np.outer(told, told)
        return np.asarray(factor @ sampled @ factor.T + from_total)


def fitted_part(tangents: FloatArray, weights: FloatArray, directions: FloatArray) -> FloatArray:
    """Return A(AᵀPA)⁺AᵀP, what a generalised least-squares fit takes out of deviations.

    The precision P = diag(w) + Σ u uᵀ is that of a form, with its directions u in rows: its
    inverse could not be factored where noise is much wider than counts. A, the tangents, may have
    dependent columns.
    """
    root = np.vstack([np.diag(np.sqrt(weights)), directions])
    return np.asarray(tangents @ np.linalg.pinv(root @ tangents, rcond=_DEPENDENT) @ root)


def total(cells: FloatArray) -> FloatArray:
    """Return the sum over the cells of each table, shape (m,)."""
    return np.asarray(cells.sum(axis=tuple(range(cells.ndim - 1))))


def dot(*factors: FloatArray) -> FloatArray:
    """Return the sum over the cells of each table of a product, shape (m,), without the product.

    Factors but the last may be the same for all tables. There is no BLAS in it, whose rounding
    depends on its number of threads.
    """
    ndim = factors[-1].ndim
    flat = [x.reshape(-1) if x.ndim < ndim else x.reshape(-1, x.shape[-1]) for x in factors]
    names = ",".join("k" if x.ndim == 1 else "km" for x in flat)
    return np.asarray(np.einsum(f"{names}->m", *flat))


# A table of multinomial counts published with noise, and statistics of its deviations.


Statistic = Literal["pearson", "projected"]
QuadraticForm = Callable[[FloatArray], FloatArray]
"""Maps deviations from the expected counts, shape (..., k), to statistics, shape (...)."""

SMALL_EXPECTED = 5.0
"""Below this expected count the chi-squared limit is not to be trusted."""

_MOST_CELLS = 4096
"""Cells up to which a covariance of all of them is computed."""


def is_gaussian(noise: NoiseLaw, cells: int) -> bool:
    """Whether all noises are Gaussian or 0; then weighted sums of them are Gaussian, too."""
    return all(
        isinstance(law, (Gaussian, DiscreteGaussian, Exact)) for law, _ in groups(noise, cells)
    )


def check_cells(cells: int) -> None:
    """Refuse covariances of too many cells."""
    if cells > _MOST_CELLS:
        raise InvalidParameterError(
            f"table must have at most {_MOST_CELLS} cells where their covariance is needed, as "
            "with statistic='pearson' and method='asymptotic' and for errors that depend on one "
            f"another, got {cells}: use statistic='projected' for independent ones"
        )


@dataclass(frozen=True)
class NoisyTable:
    """Law of k multinomial counts, whose expectations are > 0 and add up to nobs, with noise."""

    nobs: int
    expected: FloatArray
    noise: NoiseLaw  # shape () or (k,); of what the errors are made of where these are given
    errors: NoisyValues | None = None  # where they depend on one another

    @property
    def variance(self) -> FloatArray:
        """Variance of the noise, shape (k,)."""
        if self.errors is not None:
            return self.errors.variance
        return np.broadcast_to(self.noise.variance, self.expected.shape)

    @property
    def has_gaussian_noise(self) -> bool:
        """Whether the noise is Gaussian in every cell, if it has any."""
        size = self.expected.size if self.errors is None else self.errors.noises.size
        return is_gaussian(self.noise, size)

    @property
    def covariance(self) -> FloatArray:
        """Covariance of the published counts, shape (k, k)."""
        check_cells(self.expected.size)
        noise = np.diag(self.variance) if self.errors is None else self.errors.cov()
        across = np.outer(self.expected, self.expected) / self.nobs
        return np.asarray(np.diag(self.expected) - across + noise)

    @cached_property
    def pearson_law(self) -> QuadraticLaw:
        """Exact law of Pearson's statistic, for independent errors."""
        return QuadraticLaw(
            self.nobs, self.expected / self.nobs, self.expected, 1.0 / self.expected, self.noise
        )

    def draw_deviations(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw deviations of published from expected counts, shape (size, k)."""
        counts = rng.multinomial(self.nobs, self.expected / self.expected.sum(), size)
        if self.errors is None:
            noise = np.asarray(self.noise._rvs(counts.shape, rng), dtype=np.float64)
        else:
            noise = self.errors.draw(size, rng=rng)
        noise += counts
        noise -= self.expected
        return noise


@dataclass(frozen=True)
class SimulatedStatistic:
    """Draws replicates of a statistic of a table; can be pickled, for workers."""

    table: NoisyTable
    statistic: Statistic

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        return STATISTICS[self.statistic](self.table)(self.table.draw_deviations(size, rng))


def pearson(table: NoisyTable) -> QuadraticForm:
    """Return Pearson's statistic Σ d²/(n p)."""
    weights = 1.0 / table.expected
    return lambda deviations: np.asarray(np.square(deviations) @ weights)


def projected(table: NoisyTable) -> QuadraticForm:
    """Return min over c of (d - c·1)ᵀ Σ⁻¹ (d - c·1), Σ = diag(n p) - n p pᵀ + noise.

    With w = 1/(n p + V) and the deviations centred so that Σ w d = 0, the Sherman-Morrison formula
    makes it Σ w d² + (Σ w)(Σ w p d)²/((Σ w p)² + (Σ w)(Σ w p V)/n): no term is negative, and it
    holds without noise, too, where Σ is singular. That is for independent noise of variances V.
    """
    if table.errors is not None:
        root = contrast_root(table)
        return lambda deviations: np.asarray(np.square(deviations @ root.T).sum(axis=-1))
    share = table.expected / table.nobs
    weights = 1.0 / (table.expected + table.variance)
    shared = weights * share
    total = weights.sum()
    factor = total / (shared.sum() ** 2 + total * (shared @ table.variance) / table.nobs)

    def statistic(deviations: FloatArray) -> FloatArray:
        centred = deviations - (deviations @ weights / total)[..., np.newaxis]
        return np.asarray(np.square(centred) @ weights + factor * np.square(centred @ shared))

    return statistic


def contrast_root(table: NoisyTable) -> FloatArray:
    """Return R, shape (r, k), with RᵀR = Bᵀ(BΣBᵀ)⁺B for contrasts B, and RΣRᵀ = 1; r is the rank.

    In units of the standard deviations: where errors depend, variances differ by many orders.
    """
    scale = 1.0 / np.sqrt(table.expected + table.variance)
    # contrasts are orthogonal to 1, and to the scale in these units
    basis = np.linalg.qr(scale[:, np.newaxis], mode="complete")[0][:, 1:].T * scale
    values, vectors = np.linalg.eigh(basis @ table.covariance @ basis.T)
    kept = values > _DEPENDENT * values[-1]
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T @ basis)


STATISTICS: dict[Statistic, Callable[[NoisyTable], QuadraticForm]] = {
    "pearson": pearson,
    "projected": projected,
}
"""The statistics by name."""


# What a table has left of its deviations once those that other margins explain are taken out.


SMALLEST_EXPECTED = 1e-9
"""Smaller expected counts are taken to be this, so that weights stay finite."""


def outer(rows: FloatArray, columns: FloatArray) -> FloatArray:
    """Return the products aᵢ·bⱼ, SMALLEST_EXPECTED at least."""
    product = rows[:, np.newaxis] * columns
    if product.min() < SMALLEST_EXPECTED:  # to look takes a sixth of the time
        np.maximum(product, SMALLEST_EXPECTED, out=product)
    return np.asarray(product)


def project_out(
    form: NoiseForm, tables: FloatArray, rows: FloatArray, columns: FloatArray
) -> FloatArray:
    """Return the minimum over x of the form of d - A·x, where d = z - a·bᵀ, for each table.

    The weights are those at a·bᵀ, and A holds its derivatives by a and b. This is Neyman's C(α)
    statistic: errors of the margins change it in second order only, so that margins that are near
    will do, and nothing is iterated.

    As γ(Σ w V d)² is the extreme value over t of Σ w (d - t·V)² - Σ w d² - t²/g, the shared noise
    makes V one more column of A, with -1/g added to its diagonal. The equations of a are diagonal
    and are eliminated first. Those of b, the shorter margin, follow, made definite by a multiple of
    b·bᵀ: the scale of b is also that of a. The pivot of V comes last, and is negative.
    """
    if len(columns) > len(rows):
        turned = replace(form, variance=form.variance.T)
        return project_out(turned, tables.swapaxes(0, 1), columns, rows)
    size, others = len(columns), len(columns) + (form.shared > 0.0)
    expected = outer(rows, columns)
    weights = form.diagonal(expected)
    deviations = tables - expected
    weighted = weights * deviations
    left = dot(weighted, deviations)

    loads = np.empty((others, *rows.shape))
    cross = np.multiply(weights, expected, out=loads[:size].swapaxes(0, 1))
    square, right = np.zeros((others, others, left.size)), np.empty((others, left.size))
    by_row = np.einsum("ijm,jm->im", weights, np.square(columns))
    by_column = np.einsum("ijm,im->jm", weights, np.square(rows))
    right_of_rows = np.einsum("ijm,jm->im", weighted, columns)
    right[:size] = np.einsum("ijm,im->jm", weighted, rows)
    multiple = by_column.sum(axis=0) / np.square(columns).sum(axis=0)
    for j in range(size):
        np.multiply(multiple * columns[j], columns[j:], out=square[j, j:size])
        square[j, j] += by_column[j]
    if form.shared > 0.0:
        # in a unit in which neither narrow nor wide noise leaves the range of floats when squared
        unit = max(float(form.variance.max()), 1.0)
        ratio = form.variance / unit
        loaded = weights if form.is_even else weights * ratio[..., np.newaxis]
        scale = float(ratio.flat[0]) if form.is_even else 1.0
        loads[size] = scale * np.einsum("ijm,jm->im", loaded, columns)
        square[:size, size] = scale * np.einsum("ijm,im->jm", loaded, rows)
        # Σ w V² - 1/g, without cancellation
        reduced = form.inflation * unit * dot(ratio, cross) + form.slack / form.shared
        square[size, size] = -reduced / unit / unit
        right[size] = dot(ratio, weighted)
    _eliminate_rows(by_row, loads, right_of_rows, square, right, left)
    _eliminate(square, right, left)
    return np.maximum(left, 0.0, out=left)


def _eliminate_rows(
    diagonal: FloatArray,
    loads: FloatArray,
    right_of_rows: FloatArray,
    square: FloatArray,
    right: FloatArray,
    left: FloatArray,
) -> None:
    """Eliminate the unknowns whose equations are diagonal; subtract what they explain."""
    right_of_rows = right_of_rows / diagonal
    for j in range(len(loads)):
        right[j] -= np.einsum("im,im->m", right_of_rows, loads[j])
        scaled = loads[j] / diagonal
        square[j, j:] -= np.einsum("im,kim->km", scaled, loads[j:])
    right_of_rows *= right_of_rows
    left -= np.einsum("im,im->m", right_of_rows, diagonal)


def _eliminate(square: FloatArray, right: FloatArray, left: FloatArray) -> None:
    """Eliminate the rest, of which the upper half is given; subtract what it explains."""
    ratio = np.empty(square.shape)
    for j in range(len(right)):
        square[j, j:] -= np.einsum("im,ikm->km", ratio[:j, j], square[:j, j:])
        pivot = square[j, j]
        np.divide(square[j, j:], pivot, out=ratio[j, j:])
        right[j + 1 :] -= ratio[j, j + 1 :] * right[j]
        left -= np.square(right[j]) / pivot


# Margins of many tables at once, improved in rounds until each table has settled.


_CONVERGED = 2e-10
"""Error left in margins, relative to the largest, at which a round is the last."""

_ROUNDING = 1e-13
"""Smaller relative changes of margins are rounding."""

_MOST_ROUNDS = 100
"""Rounds over rows and columns, and over weights. Only tables with margins near 0 need as many."""


def converged(
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
            part = tuple(taken(x, left) for x in margins)
            rest = converged(step, taken(tables, left), part, last[left], most - done - 1)
            for into, now in zip(margins, rest, strict=True):
                into[:, left] = now
        if 4 * left.size <= 3 * over.size:
            break
    return margins


def taken(array: FloatArray, tables: NDArray[np.intp]) -> FloatArray:
    """Return some tables; unlike an index, this keeps their axis innermost in memory."""
    return np.take(array, tables, axis=-1)


def _change(now: FloatArray, before: FloatArray) -> FloatArray:
    """Return the largest change of each table's margins, relative to the largest margin."""
    change = now - before
    largest = np.abs(change, out=change).max(axis=0)
    largest /= now.max(axis=0) + SMALLEST_EXPECTED
    return np.asarray(largest)


def shares(sums: FloatArray) -> FloatArray:
    """Return sums over the first axis as shares >= 0 that add up to 1; equal if none is > 0."""
    kept = np.maximum(sums, 0.0)
    total = kept.sum(axis=0)
    equal = 1.0 / len(sums)
    return np.where(total > 0.0, kept / np.where(total > 0.0, total, 1.0), equal)


def solve_loaded(
    diagonal: FloatArray, factor: FloatArray, loads: FloatArray, right: FloatArray
) -> FloatArray:
    """Solve (diag(d) + Σᵢ fᵢ·lᵢ lᵢᵀ)·x = y for m systems of c equations.

    The matrices are positive definite, so that elimination needs no exchange of pivots, and no
    pivot is below its d but by rounding. Where there are fewer loads than equations, Woodbury's
    formula leaves r equations, of the same kind.
    Shapes: d > 0 and y (c, m), f >= 0 (r, m), l (r, c, m).
    """
    size = len(diagonal)
    if len(factor) < size:
        return _by_loads(1.0 / diagonal, np.sqrt(factor)[:, np.newaxis] * loads, right)
    upper, solved = _upper_half(diagonal, factor, loads), right.copy()
    for j in range(size):
        np.maximum(upper[j, j], diagonal[j], out=upper[j, j])
        ratio = upper[j, j + 1 :] / upper[j, j]
        for k in range(j + 1, size):
            upper[k, k:] -= ratio[k - j - 1] * upper[j, k:]
        solved[j + 1 :] -= ratio * solved[j]
    for j in reversed(range(size)):
        solved[j] -= np.einsum("km,km->m", upper[j, j + 1 :], solved[j + 1 :])
        solved[j] /= upper[j, j]
    return solved


def _by_loads(inverse: FloatArray, loads: FloatArray, right: FloatArray) -> FloatArray:
    """Solve (diag(1/v) + L Lᵀ)·x = y by the equations (1 + Lᵀ diag(v) L)·u = Lᵀ diag(v) y."""
    start = inverse * right
    along = np.einsum("ikm,km->im", loads, start)
    shared = solve_loaded(np.ones(along.shape), inverse, loads.swapaxes(0, 1), along)
    start -= inverse * np.einsum("ikm,im->km", loads, shared)
    return start


def _upper_half(diagonal: FloatArray, factor: FloatArray, loads: FloatArray) -> FloatArray:
    """Return the matrices, shape (c, c, m), of which only the upper half is filled."""
    size = len(diagonal)
    upper = np.empty((size, *diagonal.shape))
    for j in range(size):
        np.einsum("im,ikm->km", factor * loads[:, j], loads[:, j:], out=upper[j, j:])
        upper[j, j] += diagonal[j]
    return upper
