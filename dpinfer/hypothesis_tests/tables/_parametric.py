"""Cell probabilities that depend on a few parameters, estimated from many noisy tables at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray, check_array
from dpinfer.errors import ConvergenceError, InvalidParameterError
from dpinfer.hypothesis_tests.tables._margins import Fit
from dpinfer.hypothesis_tests.tables._noise_form import NoiseForm, total
from dpinfer.hypothesis_tests.tables._projection import SMALLEST_EXPECTED
from dpinfer.mechanisms.randomized_response import RandomizedResponse

ProbabilityModel = Callable[[FloatArray], Any]
"""Maps parameters, shape (q,), to the probabilities of the cells, shape (k,)."""

_ROUNDING = 1e-8
"""Allowed deviation from 1 of the sum of probabilities."""

_STEP = 6e-6
"""Step of central differences, relative to 1 + abs(theta): the cube root of the rounding error."""

_MOST_STEPS = 200
_STEPS_IN_REPLICATE = 3
_HALVINGS = 12

_CONVERGED = 1e-16
"""What a step gains in the quadratic form when it is over."""

_NOT_DETERMINED = 1e-10
"""Ratio of eigenvalues of the scaled normal matrix below which parameters are not determined."""


@dataclass(frozen=True)
class Cells:
    """A user's model of k probabilities, evaluated at many parameters.

    Parameters
    ----------
    model : callable
        Parameters, shape (q,), to probabilities, shape (k,).
    size : int
        k.
    bounds : array of float, shape (q, 2)
        Smallest and largest parameters, infinite where there are no bounds.
    channel : RandomizedResponse, optional
        What the answers went through before they were counted.
    """

    model: ProbabilityModel
    size: int
    bounds: FloatArray
    channel: RandomizedResponse | None = None

    def checked(self, theta: FloatArray) -> FloatArray:
        """Return the probabilities at one parameter, or say what is wrong with them."""
        value = check_array(self.model(theta.copy()), "the value of model", ge=0.0, ndim=1)
        if value.size != self.size or abs(value.sum() - 1.0) > _ROUNDING:
            raise InvalidParameterError(
                f"model must return {self.size} probabilities that add up to 1, got "
                f"{value.size} that add up to {value.sum():.10g} at {theta.tolist()}"
            )
        return self._reported(value / value.sum())

    def __call__(self, thetas: FloatArray) -> FloatArray:
        """Return probabilities, shape (k, m), at parameters, shape (q, m); NaN where impossible."""
        with np.errstate(all="ignore"):
            values = np.array([self.model(theta.copy()) for theta in thetas.T], dtype=np.float64)
        values = values.reshape(thetas.shape[1], self.size)
        possible = (values >= 0.0).all(axis=1) & (np.abs(values.sum(axis=1) - 1.0) <= _ROUNDING)
        values[~possible] = np.nan
        return self._reported(values).T

    def derivative(self, thetas: FloatArray, at: FloatArray) -> FloatArray:
        """Return derivatives, shape (k, q, m), given the probabilities at the parameters.

        A central difference, or a one-sided one beside a bound or where it is impossible.
        """
        out = np.empty((self.size, *thetas.shape))
        for index, (low, high) in enumerate(self.bounds):
            ends, values = [], []
            for sign in (-1.0, 1.0):
                moved = thetas.copy()
                moved[index] += sign * _STEP * (1.0 + np.abs(moved[index]))
                moved[index] = np.clip(moved[index], low, high)
                value = self(moved)
                impossible = np.isnan(value).any(axis=0)
                ends.append(np.where(impossible, thetas[index], moved[index]))
                values.append(np.where(impossible, at, value))
            width = ends[1] - ends[0]
            out[:, index] = (values[1] - values[0]) / np.where(width > 0.0, width, 1.0)
        return out

    def _reported(self, values: FloatArray) -> FloatArray:
        return values if self.channel is None else np.asarray(values @ self.channel.channel)


@dataclass(frozen=True)
class ParametricMargins:
    """Expected counts n·p(theta): a null hypothesis that is fitted by Gauss-Newton steps.

    The weights of the form are those at the last estimate, so that without noise the fit is the
    maximum of the likelihood.

    Parameters
    ----------
    cells : Cells
        p.
    form : NoiseForm
        What is minimised.
    theta : array of float, shape (q,)
        Where the steps start.
    scale : float
        Where they start: ratio of the sum of the expected counts to that of the table.
    steps : int
        How many steps a fit of many tables takes.
    """

    cells: Cells
    form: NoiseForm
    theta: FloatArray
    scale: float = 1.0
    steps: int = _STEPS_IN_REPLICATE

    @property
    def dof(self) -> int:
        """Degrees of freedom, k - 1 - q."""
        return self.cells.size - 1 - self.theta.size

    def converged(self, table: FloatArray, nobs: float | None) -> ParametricMargins:
        """Return the hypothesis with the estimate from one table as its start."""
        adjusted = self.form.adjust(
            table[:, np.newaxis], np.asarray(np.nan if nobs is None else nobs)
        )
        state = _State.start(self, adjusted)
        for _ in range(_MOST_STEPS):
            state, gain = state.step()
            if gain.max() <= _CONVERGED * (1.0 + abs(float(adjusted.sum()))):
                scale = float(state.scales[0]) / float(_sums(adjusted)[0])
                return replace(self, theta=state.thetas[:, 0], scale=scale)
        raise ConvergenceError(
            f"the parameters of model did not converge in {_MOST_STEPS} steps, the last of them "
            f"{state.thetas[:, 0].tolist()}: give another start, or bounds"
        )

    def fit(self, tables: FloatArray, nobs: FloatArray) -> Fit:
        """Fit tables, shape (k, m)."""
        state = _State.start(self, self.form.adjust(tables, nobs))
        for _ in range(self.steps):
            state, _ = state.step()
        return Fit(state.expected, state.tables - state.expected)

    near = fit

    def projected(self, tables: FloatArray, nobs: FloatArray) -> FloatArray:
        """Return the form at the fit of tables, shape (k, m)."""
        fit = self.fit(tables, nobs)
        return self.form.value(fit.deviations, *self.form.weights(fit.expected))

    def residual_covariance(self, expected: FloatArray) -> FloatArray:
        """Covariance of the deviations, from the linear problem at the fit; shape (k, k)."""
        tangents = _tangents(self.cells, self.theta[:, np.newaxis], expected[:, np.newaxis])
        return self.form.residual_covariance(tangents[..., 0], expected)


@dataclass(frozen=True)
class _State:
    """Estimates from tables, shape (k, m): parameters, shape (q, m), and scales, shape (m,)."""

    hypothesis: ParametricMargins
    tables: FloatArray
    thetas: FloatArray
    scales: FloatArray
    shares: FloatArray

    @classmethod
    def start(cls, hypothesis: ParametricMargins, tables: FloatArray) -> _State:
        count = tables.shape[1]
        thetas = np.repeat(hypothesis.theta[:, np.newaxis], count, axis=1)
        shares = np.repeat(hypothesis.cells.checked(hypothesis.theta)[:, np.newaxis], count, axis=1)
        return cls(hypothesis, tables, thetas, hypothesis.scale * _sums(tables), shares)

    @property
    def expected(self) -> FloatArray:
        """Expected counts, > 0."""
        return np.maximum(self.scales * self.shares, SMALLEST_EXPECTED)

    def step(self) -> tuple[_State, FloatArray]:
        """Return the estimates after a Gauss-Newton step, and what it gained in the form."""
        form, expected = self.hypothesis.form, self.expected
        weights, factor = form.weights(expected)
        tangents = _tangents(self.hypothesis.cells, self.thetas, expected)
        deviations = self.tables - expected
        before = form.value(deviations, weights, factor)
        change = _solve(form, tangents, deviations, weights, factor)
        best, length = self, 1.0
        gain = np.zeros(before.shape)
        open_ = np.ones(before.shape, dtype=bool)
        for _ in range(_HALVINGS):
            moved = self._moved(length * change)
            after = form.value(self.tables - moved.expected, weights, factor)
            better = open_ & (after <= before) & np.isfinite(moved.shares).all(axis=0)
            best = best._updated(moved, better)
            gain = np.where(better, before - after, gain)
            open_ &= ~better
            if not open_.any():
                break
            length *= 0.5
        return best, gain

    def _moved(self, change: FloatArray) -> _State:
        low, high = self.hypothesis.cells.bounds.T[..., np.newaxis]
        thetas = np.clip(self.thetas + change[1:], low, high)
        scales = np.maximum(self.scales * (1.0 + change[0]), 1e-3 * self.scales)
        return replace(self, thetas=thetas, scales=scales, shares=self.hypothesis.cells(thetas))

    def _updated(self, moved: _State, where: NDArray[np.bool_]) -> _State:
        return replace(
            self,
            thetas=np.where(where, moved.thetas, self.thetas),
            scales=np.where(where, moved.scales, self.scales),
            shares=np.where(where, moved.shares, self.shares),
        )


def _sums(tables: FloatArray) -> FloatArray:
    """Return the sum of each table, 1 at least."""
    return np.maximum(total(tables), 1.0)


def _tangents(cells: Cells, thetas: FloatArray, expected: FloatArray) -> FloatArray:
    """Differentiate expected counts by their logarithmic scale and by theta: (k, 1 + q, m)."""
    scale = total(expected)
    derivative = cells.derivative(thetas, expected / scale)
    return np.concatenate([expected[:, np.newaxis], scale * derivative], axis=1)


def _solve(
    form: NoiseForm,
    tangents: FloatArray,
    deviations: FloatArray,
    weights: FloatArray,
    factor: FloatArray,
) -> FloatArray:
    """Solve the normal equations of the linear problems, shape (1 + q, m)."""
    weighted = weights[:, np.newaxis] * tangents
    normal = np.einsum("kqm,kpm->mqp", weighted, tangents)
    right = np.einsum("kqm,km->mq", weighted, deviations)
    if form.shared > 0.0:
        along = np.einsum("kqm,km->mq", weighted, np.broadcast_to(form.noise, deviations.shape))
        seen = total(weights * form.noise * deviations)
        normal += factor[:, np.newaxis, np.newaxis] * along[:, :, np.newaxis] * along[:, np.newaxis]
        right += (factor * seen)[:, np.newaxis] * along
    size = np.sqrt(np.einsum("mqq->mq", normal))
    size = np.where(size > 0.0, size, 1.0)
    scaled = normal / size[:, :, np.newaxis] / size[:, np.newaxis]
    inverse = np.linalg.pinv(scaled, rcond=_NOT_DETERMINED, hermitian=True)
    return np.asarray(((inverse @ (right / size)[..., np.newaxis])[..., 0] / size).T)
