"""Noisy tables under a null hypothesis with unknown parameters: fits, statistics and draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpinfer._numerics.multinomial import draw_multinomial
from dpinfer._numerics.weighted_chi2 import WeightedChi2
from dpinfer._validation import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import LARGEST_NOBS
from dpinfer.hypothesis_tests.tables._margins import Fit, Margins
from dpinfer.hypothesis_tests.tables._noise_form import dot
from dpinfer.hypothesis_tests.tables._noisy_table import Statistic
from dpinfer.hypothesis_tests.tables._row_margins import RowMargins
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.mechanisms.randomized_response import RandomizedResponse

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
