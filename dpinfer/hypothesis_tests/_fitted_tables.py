"""Tables of noisy counts under a null hypothesis with unknown parameters: fits, draws, p-values.

Tables have the shape (r, c, m): m tables, the innermost axis, of r rows and c columns.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray, check_array, check_integer
from dpinfer._numerics.chi2 import WeightedChi2
from dpinfer._numerics.counts import draw_multinomial
from dpinfer.errors import ApproximationWarning, InvalidParameterError
from dpinfer.estimation.published import LARGEST_NOBS
from dpinfer.hypothesis_tests._noisy_tables import (
    SMALL_EXPECTED,
    SMALLEST_EXPECTED,
    NoiseForm,
    Statistic,
    check_cells,
    converged,
    dot,
    fitted_part,
    is_gaussian,
    outer,
    project_out,
    shares,
    solve_loaded,
    taken,
    total,
)
from dpinfer.hypothesis_tests.models import (
    are_apart,
    check_sums,
    check_total,
    draws_in_block,
    joint_errors,
)
from dpinfer.mechanisms.channels import RandomizedResponse
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.releases.coerce import noisy
from dpinfer.releases.values import NoisyValues
from dpinfer.results.null import AsymptoticNull, NullDistribution
from dpinfer.results.simulation import Simulation, simulate_null

_SMALLEST_SHARE = 1e-12
"""Margins smaller than this share of the largest are taken to be it: none divides by 0."""


@dataclass(frozen=True)
class Fit:
    """Expected counts > 0 fitted to tables, and what these deviate from them.

    The noise that known totals tell of is taken out of the tables first.
    """

    expected: FloatArray
    deviations: FloatArray
    params: FloatArray | None = None  # shape (q, m), where there are some besides margins


class Margins(Protocol):
    """A null hypothesis about tables whose expected counts have unknown parameters.

    Tables have the shape (..., m), their published totals (m,) or (). A near fit is as good for a
    test, and may be simpler. Tangents are the derivatives of the expected counts by the parameters,
    shape (k, q, m); the residual covariance is that of the near deviations at expected counts,
    shape (k, k), with the covariance of the noise where errors depend on one another.
    """

    @property
    def dof(self) -> int: ...
    def fit(self, tables: FloatArray, nobs: FloatArray) -> Fit: ...
    def near(self, tables: FloatArray, nobs: FloatArray) -> Fit: ...
    def projected(self, tables: FloatArray, nobs: FloatArray) -> FloatArray: ...
    def tangents(self, fit: Fit) -> FloatArray: ...
    def residual_covariance(
        self, expected: FloatArray, noise: FloatArray | None = None
    ) -> FloatArray: ...


def degrees_of_freedom(variance: FloatArray) -> int:
    """Return (r - 1)(c - 1)."""
    rows, columns = variance.shape
    return int((rows - 1) * (columns - 1))


@dataclass(frozen=True)
class ProductMargins:
    """Independence: expected counts aᵢ·bⱼ.

    Given b and the weights of the form, its minimum over a is a linear problem that is diagonal
    but for one direction, and so has a closed form.
    """

    form: NoiseForm

    @property
    def dof(self) -> int:
        return degrees_of_freedom(self.form.variance)

    def fit(self, tables: FloatArray, nobs: FloatArray) -> Fit:
        tables = self.form.adjust(tables, nobs)
        expected = outer(*self._best(tables))
        return Fit(expected, tables - expected)

    def near(self, tables: FloatArray, nobs: FloatArray) -> Fit:
        tables = self.form.adjust(tables, nobs)
        expected = outer(*self._near(tables))
        return Fit(expected, tables - expected)

    def projected(self, tables: FloatArray, nobs: FloatArray) -> FloatArray:
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

    def tangents(self, fit: Fit) -> FloatArray:
        rows, columns = fit.expected.sum(axis=1), fit.expected.sum(axis=0)
        by_row = np.einsum("ik,jm->ijkm", np.eye(len(rows)), columns)
        by_column = np.einsum("im,jk->ijkm", rows, np.eye(len(columns)))
        parts = (part.reshape(-1, *part.shape[2:]) for part in (by_row, by_column))
        return np.concatenate(list(parts), axis=1)

    def residual_covariance(
        self, expected: FloatArray, noise: FloatArray | None = None
    ) -> FloatArray:
        if self.form.is_even:
            margins = expected.sum(axis=1), expected.sum(axis=0)
            left = [np.eye(x.size) - x[:, np.newaxis] / x.sum() for x in margins]
            return self.form.covariance_of(np.kron(*left), expected, noise)
        one = expected[..., np.newaxis]
        tangents = self.tangents(Fit(one, one))[..., 0]
        return self.form.residual_covariance(tangents, expected, noise)


@dataclass(frozen=True)
class _Alternating:
    """The form with fixed weights, to be minimised over rows and columns in turn."""

    weighted: FloatArray  # w·z, shape (r, c, m)
    weights: FloatArray  # w
    loaded: FloatArray | None  # w·V in units of the largest V, where the cells share noise
    factor: FloatArray  # γ and, below, Σ w V z in these units, shape (m,)
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


@dataclass(frozen=True)
class RowMargins:
    """Homogeneity: expected counts mᵢ·bⱼ with known row totals mᵢ.

    Each row is adjusted to its total, z = y - V·(Σy - m)/ΣV, and Σᵢ dᵀ(diag(m b + V) - V Vᵀ/ΣV)⁻¹d
    with d = z - m·b is minimised over b, which is a linear problem given the weights. That Σb = 1
    comes out by itself, and with it that the form does not depend on the term m b bᵀ that is
    missing.
    """

    variance: FloatArray  # V, shape (r, c)
    totals: FloatArray  # m, shape (r,)

    @property
    def dof(self) -> int:
        return degrees_of_freedom(self.variance)

    def fit(self, tables: FloatArray, nobs: FloatArray) -> Fit:
        tables = self._adjusted(tables)
        expected = self._expected(self._best(tables))
        return Fit(expected, tables - expected)

    def near(self, tables: FloatArray, nobs: FloatArray) -> Fit:
        tables = self._adjusted(tables)
        expected = self._expected(self._near(tables))
        return Fit(expected, tables - expected)

    def projected(self, tables: FloatArray, nobs: FloatArray) -> FloatArray:
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

    def tangents(self, fit: Fit) -> FloatArray:
        tangents = np.kron(self.totals[:, np.newaxis], np.eye(fit.expected.shape[1]))
        return np.repeat(tangents[..., np.newaxis], fit.expected.shape[-1], axis=-1)

    def residual_covariance(
        self, expected: FloatArray, noise: FloatArray | None = None
    ) -> FloatArray:
        rows, columns = expected.shape
        weights, loaded, factor = (
            part[..., 0] for part in self._weights(expected[..., np.newaxis])
        )
        sampled, adjust = np.diag(expected.ravel()), np.eye(expected.size)
        sampled += np.diag(self.variance.ravel()) if noise is None else noise
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


# Noisy tables under a null hypothesis with unknown parameters: fits, statistics and draws.


_NOT_DETERMINED = 1e-10
"""Ratio of eigenvalues of a scaled normal matrix below which parameters are not determined."""

_MOST_JOINT = 512
"""Cells up to which the covariance of each replicate is inverted."""


@dataclass(frozen=True, eq=False)
class Told:
    """What known sums tell of errors with covariance C, which depend on one another.

    Sums S y of the table are known to be m but for noise of variance T: z = y - K(S y - m) with
    K = C Sᵀ(S C Sᵀ + T)⁺ has noise of covariance C - K S C, which is uncorrelated with S y - m.
    """

    errors: NoisyValues
    sums: FloatArray  # S, shape (s, k)
    gain: FloatArray  # K, shape (k, s)
    covariance: FloatArray  # of the noise of z, shape (k, k)
    totals: FloatArray | None  # m, shape (s,); the published number of observations where None

    @classmethod
    def of(
        cls, x: NoisyValues, sums: FloatArray, spread: float, totals: FloatArray | None = None
    ) -> Told:
        """Return it for known sums; none are known where their noise has infinite variance."""
        check_cells(len(x))
        error = x.cov()
        sums = sums if np.isfinite(spread) else sums[:0]
        across = error @ sums.T
        between = sums @ across + (spread if sums.size else 0.0) * np.eye(len(sums))
        gain = across @ np.linalg.pinv(between, rcond=_NOT_DETERMINED, hermitian=True)
        left = error - gain @ across.T
        return cls(x, sums, gain, 0.5 * (left + left.T), totals)

    def adjust(self, tables: FloatArray, nobs: FloatArray) -> FloatArray:
        """Remove from tables the noise that their known sums tell."""
        flat = tables.reshape(len(self.gain), -1)
        known = nobs if self.totals is None else self.totals[:, np.newaxis]
        excess = np.einsum("sk,km->sm", self.sums, flat) - known
        return np.asarray(flat - np.einsum("ks,sm->km", self.gain, excess)).reshape(tables.shape)

    def projected(self, margins: Margins, tables: FloatArray, nobs: FloatArray) -> FloatArray:
        """Return Neyman's C(α) statistic of adjusted tables, shape (m,).

        It is dᵀM⁻¹d less what the tangents A explain of it, M = diag(e) + cov at near margins: the
        form in contrasts B with B A = 0, whose covariance B M Bᵀ has full rank. The term e eᵀ/n of
        the covariance of counts has none in them, as e is a combination of tangents.
        """
        if len(self.gain) > _MOST_JOINT:
            raise InvalidParameterError(
                f"the table must have at most {_MOST_JOINT} cells with statistic='projected' where "
                f"errors depend on one another, got {len(self.gain)}: use statistic='pearson'"
            )
        fit = margins.near(tables, nobs)
        expected, deviations = (
            x.reshape(len(self.gain), -1) for x in (fit.expected, fit.deviations)
        )
        tangents = np.moveaxis(margins.tangents(fit), -1, 0)
        scale = 1.0 / np.sqrt(expected + np.diag(self.covariance)[:, np.newaxis]).T
        matrix = scale[:, :, np.newaxis] * self.covariance * scale[:, np.newaxis]
        cells = np.arange(len(self.gain))
        matrix[:, cells, cells] = 1.0
        right = np.concatenate([tangents, deviations.T[..., np.newaxis]], axis=2)
        right = right * scale[..., np.newaxis]
        both = np.swapaxes(right, 1, 2) @ np.linalg.solve(matrix, right)
        normal, along, left = both[:, :-1, :-1], both[:, :-1, -1], both[:, -1, -1]
        explained = np.einsum("mq,mq->m", along, solve_normal(normal, along))
        return np.asarray(np.maximum(left - explained, 0.0))


def solve_normal(normal: FloatArray, right: FloatArray) -> FloatArray:
    """Solve normal equations, shapes (m, q, q) and (m, q); what is not determined is 0."""
    size = np.sqrt(np.einsum("mqq->mq", normal))
    size = np.where(size > 0.0, size, 1.0)
    scaled = normal / size[:, :, np.newaxis] / size[:, np.newaxis]
    inverse = np.linalg.pinv(scaled, rcond=_NOT_DETERMINED, hermitian=True)
    return np.asarray((inverse @ (right / size)[..., np.newaxis])[..., 0] / size)


@dataclass(frozen=True)
class TableModel:
    """How tables are published and fitted under the null hypothesis."""

    shape: tuple[int, ...]  # (r, c), or (k,)
    margins: Margins
    noise: NoiseLaw  # of the cells, shape () or (k,); of what their errors are made of with `told`
    nobs_noise: NoiseLaw | None = None  # in the published number of observations
    channel: RandomizedResponse | None = None  # that the respondents' cells went through
    told: Told | None = None  # where errors depend on one another: margins take adjusted tables

    @property
    def size(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    @property
    def is_noisy(self) -> bool:
        """Whether noise is added to any cell."""
        return bool(np.any(self.noise.variance > 0.0))

    def fit(self, tables: FloatArray, nobs: FloatArray) -> Fit:
        """Fit tables, shape (..., m); expected counts are of what was counted, the reports."""
        return self._of_reports(self.margins.fit(self._answers(tables, nobs), nobs), nobs)

    def near(self, tables: FloatArray, nobs: FloatArray) -> Fit:
        """Fit tables as well as a test needs it.

        Pearson's statistic of reports has the limit χ² at efficient margins only.
        """
        if self.channel is not None:
            return self.fit(tables, nobs)
        return self.margins.near(self._answers(tables, nobs), nobs)

    def projected(self, tables: FloatArray, nobs: FloatArray) -> FloatArray:
        """Return the projected statistic of tables, shape (m,)."""
        answers = self._answers(tables, nobs)
        if self.told is not None:
            return self.told.projected(self.margins, answers, nobs)
        return self.margins.projected(answers, nobs)

    def _answers(self, tables: FloatArray, nobs: FloatArray) -> FloatArray:
        """Return what reports say about the answers, and known sums about dependent errors."""
        if self.told is not None:
            return self.told.adjust(tables, nobs)
        if self.channel is None:
            return tables
        slope, other = self.channel.slope, self.channel.q
        return (tables - other * nobs) / slope

    def _of_reports(self, fit: Fit, nobs: FloatArray) -> Fit:
        if self.channel is None:
            return fit
        slope, other = self.channel.slope, self.channel.q
        return Fit(slope * fit.expected + other * nobs, slope * fit.deviations)

    def observations(self, fit: Fit, nobs: float | None) -> NDArray[np.int64]:
        """Return numbers of observations to draw: in all, or in each row where they are known."""
        if isinstance(self.margins, RowMargins):
            return self.margins.totals.astype(np.int64)
        if nobs is None or self.nobs_noise is not None:
            nobs = max(round(float(fit.expected.sum())), 1)
            if nobs > LARGEST_NOBS:
                raise InvalidParameterError(
                    f"table must have a total <= {LARGEST_NOBS:g}, estimated {nobs:g}"
                )
        return np.array([nobs], dtype=np.int64)

    def residual_law(self, fit: Fit) -> WeightedChi2:
        """Limit law of Pearson's statistic under Gaussian noise: eigenvalues of a covariance."""
        check_cells(self.size)
        expected = fit.expected[..., 0]
        noise = None if self.told is None else self.told.covariance
        scale = 1.0 / np.sqrt(expected.ravel())
        left = self.margins.residual_covariance(expected, noise)
        values = np.linalg.eigvalsh(scale[:, np.newaxis] * left * scale)[-self.margins.dof :]
        return WeightedChi2.from_eigenvalues(np.maximum(values, 0.0))


def pearson(model: TableModel, tables: FloatArray, nobs: FloatArray) -> FloatArray:
    """Return Σ d²/e of each table, shape (m,)."""
    fit = model.near(tables, nobs)
    return dot(fit.deviations / fit.expected, fit.deviations)


def projected(model: TableModel, tables: FloatArray, nobs: FloatArray) -> FloatArray:
    """Return what the quadratic form has left of each table, shape (m,)."""
    return model.projected(tables, nobs)


STATISTICS: dict[Statistic, Callable[[TableModel, FloatArray, FloatArray], FloatArray]] = {
    "pearson": pearson,
    "projected": projected,
}
"""The statistics by name."""


@dataclass(frozen=True)
class TableDraws:
    """Draws statistics of tables under a fitted null hypothesis, each fitted anew."""

    model: TableModel
    nobs: NDArray[np.int64]  # in all, shape (1,), or in each row
    shares: FloatArray  # probabilities of the cells, or of the columns in each row
    statistic: Statistic

    @classmethod
    def at(
        cls, model: TableModel, fit: Fit, nobs: NDArray[np.int64], statistic: Statistic
    ) -> TableDraws:
        """Return the law at a fit of one table."""
        cells = fit.expected[0] if nobs.size > 1 else fit.expected
        return cls(model, nobs, (cells / cells.sum()).ravel(), statistic)

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        return STATISTICS[self.statistic](self.model, *self.draw_tables(size, rng))

    def draw_tables(self, size: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draw tables, shape (..., size), and published numbers of observations."""
        counts = draw_multinomial(self.nobs, self.shares, size, rng).swapaxes(0, 1)
        tables = self._draw_noise(size, rng).reshape(*counts.shape)
        tables += counts
        nobs = np.full(size, float(self.nobs.sum()))
        if self.model.nobs_noise is not None:
            nobs += self.model.nobs_noise.rvs(size, rng=rng)
        return tables.reshape(*self.model.shape, size), nobs

    def _draw_noise(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw the noise of the cells, shape (k, size)."""
        noise, cells = self.model.noise, self.model.size
        if self.model.told is not None:
            return np.array(self.model.told.errors.draw(size, rng=rng).T, order="C")
        if noise.shape == ():
            return np.asarray(noise._rvs((cells, size), rng), dtype=np.float64)
        return np.array(noise._rvs((size, cells), rng).T, dtype=np.float64, order="C")


# P-values where the null hypothesis has parameters that were estimated from the table.


Method = Literal["monte-carlo", "asymptotic"]
SmallExpected = Literal["refuse", "compute"]

SMALL_EXPECTED_RULES: tuple[SmallExpected, ...] = ("refuse", "compute")


@dataclass(frozen=True)
class EstimatedNull:
    """A published table with its fit under the null hypothesis, and the observed statistic."""

    model: TableModel
    fit: Fit
    nobs: float | None  # as published
    statistic: Statistic
    value: FloatArray

    @classmethod
    def of(
        cls, model: TableModel, cells: FloatArray, nobs: float | None, statistic: Statistic
    ) -> EstimatedNull:
        """Fit a published table."""
        one = cells[..., np.newaxis], np.asarray(np.nan if nobs is None else nobs)
        value = STATISTICS[statistic](model, *one).reshape(())
        return cls(model, model.fit(*one), nobs, statistic, value)

    @property
    def expected(self) -> FloatArray:
        """Expected counts, in the shape of the table."""
        return self.fit.expected[..., 0]

    @property
    def total(self) -> float:
        """The number of observations: published, or estimated."""
        return float(self.fit.expected.sum()) if self.nobs is None else self.nobs

    def distribution(
        self, method: Method, rule: SmallExpected, simulation: Simulation
    ) -> tuple[NullDistribution, Sequence[str], bool]:
        """Return the null distribution, remarks of doubt, and whether the test decides."""
        small = np.count_nonzero(self.expected < SMALL_EXPECTED)
        doubts = []
        if small:
            doubts.append(f"estimated expected counts below {SMALL_EXPECTED:g} in {small} cells")
            if rule == "refuse":
                return UNDECIDED, [f"{doubts[0]}: the test does not decide"], False
        null, others = METHODS[method](self, simulation)
        return null, [f"{doubt}: the p-value is approximate" for doubt in (*doubts, *others)], True

    def report(
        self, method: Method, rule: SmallExpected, simulation: Simulation, table: str
    ) -> dict[str, Any]:
        """Test, warn the caller's caller of doubts, and return the fields of a test's result."""
        null, notes, decided = self.distribution(method, rule, simulation)
        for note in notes:
            warnings.warn(note, ApproximationWarning, stacklevel=3)
        return {
            "statistic": self.value,
            "pvalue": null.pvalue(self.value, "larger"),
            "alternative": "larger",
            "method": method,
            "null_distribution": null,
            "uncertainty": "noise+sampling",
            "nobs": self.total,
            "mc_error": null.mc_error(self.value, "larger"),
            "notes": (f"{table}, {self.statistic} statistic", *notes),
            "decided": decided,
        }


def _monte_carlo(
    test: EstimatedNull, simulation: Simulation
) -> tuple[NullDistribution, Sequence[str]]:
    nobs = test.model.observations(test.fit, test.nobs)
    null = simulate_null(
        [TableDraws.at(test.model, test.fit, nobs, test.statistic)],
        test.value,
        simulation,
        alternative="larger",
        block=draws_in_block(test.model.size),
    )
    return null, ()


def _asymptotic(
    test: EstimatedNull, simulation: Simulation
) -> tuple[NullDistribution, Sequence[str]]:
    model, dof = test.model, test.model.margins.dof
    size = model.size if model.told is None else model.told.errors.noises.size
    doubts = () if is_gaussian(model.noise, size) else ("noise that is not Gaussian",)
    if test.statistic == "projected" or not model.is_noisy:
        return AsymptoticNull.chi2(dof), doubts
    law = model.residual_law(test.fit)
    return AsymptoticNull(law.upper, law.lower, f"weighted sum of {dof} chi-squared"), doubts


METHODS: dict[
    Method, Callable[[EstimatedNull, Simulation], tuple[NullDistribution, Sequence[str]]]
] = {"monte-carlo": _monte_carlo, "asymptotic": _asymptotic}
"""The null distribution of each method, and what makes it doubtful."""


def _one(statistic: FloatArray) -> FloatArray:
    return np.ones(statistic.shape)


UNDECIDED = AsymptoticNull(_one, _one, "none, the test does not decide")
"""Has a p-value of 1 for every statistic."""


# Checks of published tables, their noise and what is known of their totals.


LARGEST = 1e30
"""Beyond it, the products of counts and variances that are formed here could overflow."""

_SMALLEST_SLOPE = 1e-6
"""Reports that depend on the answers less than this are worth nothing."""


@dataclass(frozen=True, eq=False)
class Total:
    """A number of observations: known, published with noise (in a law, or None), or unknown."""

    value: float | None = None
    noise: NoiseLaw | None = None

    @classmethod
    def of(cls, x: NoisyValues, nobs: Any, mechanism: NoiseLaw | None) -> Total:
        """Check it beside a table, from whose errors its own are independent."""
        if nobs is None:
            if mechanism is not None:
                raise InvalidParameterError("nobs must be given with nobs_mechanism, got None")
            return cls()
        if mechanism is None and not hasattr(nobs, "__noisy__"):
            total = float(check_integer(nobs, "nobs", ge=1, le=int(LARGEST_NOBS)))
            check_total(x, total)
            return cls(total)
        count = noisy(nobs, mechanism=mechanism, name="nobs", called="nobs_mechanism")
        count.need(unruled=True, whole=True, who="nobs")
        if len(count) > 1:
            raise InvalidParameterError(f"nobs must be one number, got {len(count)}")
        check_array(count.values, "nobs", ge=-LARGEST, le=LARGEST)
        spread = check_array(count.variance, "the variance of nobs_mechanism", le=LARGEST**2).item()
        if spread == 0.0:
            return cls.of(x, count.values.item(), None)
        if not are_apart(x, count):
            raise InvalidParameterError(
                f"nobs must have noise of its own, got one that shares noise with {x.name}: leave "
                "nobs out, or give the number that was published of it"
            )
        law, _ = count.laws()[0]
        return cls(count.values.item(), law.take(0) if law.shape else law)

    @property
    def variance(self) -> float:
        """Variance of its noise, infinite where it is unknown."""
        if self.value is None:
            return np.inf
        return 0.0 if self.noise is None else float(np.max(self.noise.variance))


def check_spread(x: NoisyValues) -> FloatArray:
    """Return the variances of the noise of a table, flat, if they can be computed with."""
    check_array(x.values, x.name, ge=-LARGEST, le=LARGEST)
    return check_array(x.variance, "the variance of mechanism", le=LARGEST**2)


def form_of(
    x: NoisyValues, shape: tuple[int, ...], total: Total
) -> tuple[NoiseForm, NoiseLaw, Told | None]:
    """Return the form of a table with such a total, its noise, and what the total tells."""
    variance, (noise, errors) = check_spread(x).reshape(shape), joint_errors(x)
    if errors is None:
        return NoiseForm.published(variance, total.variance), noise, None
    told = Told.of(errors, np.ones((1, len(x))), total.variance)
    left = np.maximum(np.diag(told.covariance), 0.0).reshape(shape)
    return NoiseForm.published(left, np.inf), noise, told


def check_reports(x: NoisyValues, nobs: Any, nobs_mechanism: Any) -> float:
    """Return the number of reports, which are counted without noise."""
    if nobs_mechanism is not None:
        raise InvalidParameterError(
            "nobs_mechanism must not be given with randomized response, whose reports are counted "
            "without noise"
        )
    total = float(check_array(x.values, x.name, ge=0, le=LARGEST_NOBS).sum())
    if not 1 <= total <= LARGEST_NOBS:
        raise InvalidParameterError(
            f"{x.name} must hold between 1 and {LARGEST_NOBS:.0f} reports, got {total:g}"
        )
    if nobs is not None:
        check_sums(total, float(check_integer(nobs, "nobs", ge=1)), x.name, "nobs")
    return total


def check_channel(channel: RandomizedResponse, size: int, of: str) -> None:
    """Refuse a channel for another number of categories, or one whose reports say nothing."""
    if channel.categories != size:
        raise InvalidParameterError(
            f"mechanism must have a category for each of the {size} {of}, got "
            f"{channel.categories} categories"
        )
    if channel.slope < _SMALLEST_SLOPE:
        raise InvalidParameterError(
            f"mechanism must have p > 1/categories, got p = {channel.p}: its reports say nothing "
            "about the answers"
        )
