"""Margins of noisy tables, estimated by generalised least squares in many tables at once.

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

from dpinfer._check import FloatArray, check_array, check_integer, check_scalar
from dpinfer._numerics.chi2 import WeightedChi2
from dpinfer._numerics.counts import draw_multinomial
from dpinfer.errors import ApproximationWarning, InvalidParameterError
from dpinfer.estimation.published import LARGEST_NOBS, check_published
from dpinfer.hypothesis_tests._noisy_tables import (
    SMALL_EXPECTED,
    SMALLEST_EXPECTED,
    NoiseForm,
    NoisyTable,
    Statistic,
    converged,
    dot,
    fitted_part,
    outer,
    project_out,
    shares,
    solve_loaded,
    taken,
    total,
)
from dpinfer.hypothesis_tests.models import draws_in_block
from dpinfer.mechanisms.channels import RandomizedResponse
from dpinfer.mechanisms.independent import as_noise
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Exact
from dpinfer.results.null import AsymptoticNull, NullDistribution
from dpinfer.results.simulation import Simulation, simulate_null

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


# Homogeneity of tables whose row totals are known.


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


# Noisy tables under a null hypothesis with unknown parameters: fits, statistics and draws.


_MOST_CELLS = 4096
"""Cells up to which the covariance of the residuals is computed."""


@dataclass(frozen=True)
class TableModel:
    """How tables are published and fitted under the null hypothesis.

    Parameters
    ----------
    shape : tuple of int
        (r, c), or (k,).
    margins : Margins
        The null hypothesis and its fit.
    noise : NoiseLaw
        Law of the noise, shape () or (k,) for k cells.
    nobs_noise : NoiseLaw, optional
        Law of the noise in the published number of observations, if it has any.
    channel : RandomizedResponse, optional
        Channel with k categories that the respondents' cells went through.
    """

    shape: tuple[int, ...]
    margins: Margins
    noise: NoiseLaw
    nobs_noise: NoiseLaw | None = None
    channel: RandomizedResponse | None = None

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
        return self.margins.near(tables, nobs)

    def projected(self, tables: FloatArray, nobs: FloatArray) -> FloatArray:
        """Return the projected statistic of tables, shape (m,)."""
        return self.margins.projected(self._answers(tables, nobs), nobs)

    def _answers(self, tables: FloatArray, nobs: FloatArray) -> FloatArray:
        """Return what reports say about the answers."""
        if self.channel is None:
            return tables
        slope, other = split_channel(self.channel)
        return (tables - other * nobs) / slope

    def _of_reports(self, fit: Fit, nobs: FloatArray) -> Fit:
        if self.channel is None:
            return fit
        slope, other = split_channel(self.channel)
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
        if self.size > _MOST_CELLS:
            raise InvalidParameterError(
                f"table must have at most {_MOST_CELLS} cells with statistic='pearson' and "
                f"method='asymptotic', got {self.size}: use statistic='projected'"
            )
        expected = fit.expected[..., 0]
        scale = 1.0 / np.sqrt(expected.ravel())
        covariance = scale[:, np.newaxis] * self.margins.residual_covariance(expected) * scale
        values = np.linalg.eigvalsh(covariance)[-self.margins.dof :]
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
    """Draws statistics of tables under a fitted null hypothesis, each fitted anew.

    Parameters
    ----------
    model : TableModel
        How tables are published and fitted.
    nobs : array of int, shape (1,) or (r,)
        Number of observations in all, or in each row.
    shares : array of float, shape (k,) or (c,)
        Probabilities of the cells, or of the columns in each row.
    statistic : {"pearson", "projected"}
        What to compute.
    """

    model: TableModel
    nobs: NDArray[np.int64]
    shares: FloatArray
    statistic: Statistic

    @classmethod
    def at(
        cls, model: TableModel, fit: Fit, nobs: NDArray[np.int64], statistic: Statistic
    ) -> TableDraws:
        """Return the law at a fit of one table."""
        cells = fit.expected[0] if nobs.size > 1 else fit.expected
        return cls(model, nobs, (cells / cells.sum()).ravel(), statistic)

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw statistics."""
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
        if noise.shape == ():
            return np.asarray(noise.rvs((cells, size), rng=rng), dtype=np.float64)
        return np.array(noise.rvs((size, cells), rng=rng).T, dtype=np.float64, order="C")


def split_channel(channel: RandomizedResponse) -> tuple[float, float]:
    """Return p - q and q: n·p* respondents in a cell make (p - q)·n·p* + n·q expected reports."""
    other = (1.0 - channel.p) / (channel.categories - 1)
    return channel.p - other, other


# P-values where the null hypothesis has parameters that were estimated from the table.


Method = Literal["monte-carlo", "asymptotic"]
SmallExpected = Literal["refuse", "compute"]

SMALL_EXPECTED_RULES: tuple[SmallExpected, ...] = ("refuse", "compute")


@dataclass(frozen=True)
class EstimatedNull:
    """A published table with its fit under the null hypothesis.

    Parameters
    ----------
    model : TableModel
        How tables are published and fitted.
    fit : Fit
        The fit of the published table.
    nobs : float, optional
        The published number of observations.
    statistic : {"pearson", "projected"}
        What is tested.
    value : array of float, shape ()
        The observed statistic.
    """

    model: TableModel
    fit: Fit
    nobs: float | None
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
    table = NoisyTable(nobs=1, expected=test.expected.ravel(), noise=model.noise)
    doubts = () if table.has_gaussian_noise else ("noise that is not Gaussian",)
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

_ROUNDING = 1e-9
"""Relative error allowed to totals that are known."""

_SMALLEST_SLOPE = 1e-6
"""Reports that depend on the answers less than this are worth nothing."""


def check_noise(cells: FloatArray, mechanism: Any, name: str) -> tuple[NoiseLaw, FloatArray]:
    """Return the law of the noise, shape () or (k,), and its variance in the shape of the cells."""
    if isinstance(mechanism, NoiseLaw) and mechanism.shape == cells.shape:
        mechanism = mechanism.take(np.ones(cells.shape, dtype=bool))
    noise = as_noise(mechanism, cells.size)
    check_published(cells.ravel(), name, noise)
    variance = np.broadcast_to(noise.variance, cells.size).reshape(cells.shape)
    return noise, check_array(variance, "the variance of mechanism", le=LARGEST**2)


def check_nobs(
    cells: FloatArray, variance: FloatArray, nobs: Any, nobs_mechanism: Any, name: str
) -> tuple[float | None, NoiseForm, NoiseLaw | None]:
    """Return the published number of observations, the form, and the law of the noise in it."""
    if nobs is None:
        if nobs_mechanism is not None:
            raise InvalidParameterError("nobs must be given with nobs_mechanism, got None")
        return None, NoiseForm.published(variance, np.inf), None
    if nobs_mechanism is None:
        total = float(check_integer(nobs, "nobs", ge=1, le=int(LARGEST_NOBS)))
        if not variance.any():
            check_sums(cells.sum(), total, name, "nobs")
        return total, NoiseForm.published(variance, 0.0), None
    law = as_noise(nobs_mechanism, 1, name="nobs_mechanism")
    law = law.take(0) if law.shape else law
    total = check_scalar(nobs, "nobs", ge=-LARGEST, le=LARGEST)
    check_published(np.array([total]), "nobs", law)
    spread = check_array(law.variance, "the variance of nobs_mechanism", le=LARGEST**2).item()
    if spread == 0.0:
        return check_nobs(cells, variance, nobs, None, name)
    return total, NoiseForm.published(variance, spread), law


def check_reports(cells: FloatArray, nobs: Any, nobs_mechanism: Any, name: str) -> float:
    """Return the number of reports, which are counted without noise."""
    if nobs_mechanism is not None:
        raise InvalidParameterError(
            "nobs_mechanism must not be given with randomized response, whose reports are counted "
            "without noise"
        )
    check_published(cells.ravel(), name, Exact())
    total = float(check_array(cells, name, ge=0, le=LARGEST_NOBS).sum())
    if not 1 <= total <= LARGEST_NOBS:
        raise InvalidParameterError(
            f"{name} must hold between 1 and {LARGEST_NOBS:.0f} reports, got {total:g}"
        )
    if nobs is not None:
        check_sums(total, float(check_integer(nobs, "nobs", ge=1)), name, "nobs")
    return total


def check_channel(channel: RandomizedResponse, size: int, of: str) -> None:
    """Refuse a channel for another number of categories, or one whose reports say nothing."""
    if channel.categories != size:
        raise InvalidParameterError(
            f"mechanism must have a category for each of the {size} {of}, got "
            f"{channel.categories} categories"
        )
    if split_channel(channel)[0] < _SMALLEST_SLOPE:
        raise InvalidParameterError(
            f"mechanism must have p > 1/categories, got p = {channel.p}: its reports say nothing "
            "about the answers"
        )


def check_sums(found: Any, wanted: Any, name: str, other: str) -> None:
    """Refuse sums without noise that are not what they are known to be."""
    if np.any(np.abs(found - wanted) > _ROUNDING * np.abs(wanted)):
        raise InvalidParameterError(
            f"{name} must add up to {other} where there is no noise, got {found} instead of "
            f"{wanted}"
        )
