"""Second noisy measurements of covariates as their instruments.

The errors of two independent measurements share nothing, so that their product needs no correction:
with Z the design matrix in which second measurements take the place of the first, the equations are
Σ w (z (y - xβ) - noise) = 0, with what the noise of the other columns adds to z xᵀ taken off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dpinfer._check import FloatArray, show
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.regression._errors import LARGEST, by_row, one_each, plain
from dpinfer.regression._formula import Design, column_of, rebuilt
from dpinfer.regression._moments import Block, Moments, Solution
from dpinfer.releases.coerce import noisy


def second_measurements(instrument: Any, endog: Any, exog: Any) -> dict[Any, Any]:
    """Return plain second measurements by the names of first ones, refused where noises meet."""
    if not isinstance(instrument, Mapping) or not instrument:
        raise InvalidParameterError(
            "instrument must be a mapping of noisy covariates to second measurements of them, got "
            f"{show(instrument)}"
        )
    columns = exog if isinstance(exog, Mapping) and not hasattr(exog, "iloc") else {}
    found: dict[Any, Any] = {}
    for key, given in instrument.items():
        name, value = f"instrument[{key!r}]", given
        if isinstance(given, str):
            if not isinstance(endog, str):
                raise InvalidParameterError(
                    f"{name} must be the measurements where there is no formula, got {show(given)}"
                )
            value = columns.get(given, given)
        if hasattr(value, "__noisy__"):
            held = noisy(value, name=name).need(unruled=True, who="noisy_ols")
            others = [x for x in (endog, *columns.values()) if x is not value]
            for other in [*others, *(instrument[one] for one in found)]:
                if hasattr(other, "__noisy__") and not held.beside(noisy(other)).are_independent():
                    raise InvalidParameterError(
                        f"{name} must have errors that are independent of those of all columns, "
                        "and from row to row, got values that share noises: two publications of "
                        "the same noise do not count as two measurements"
                    )
            value = plain(held)
        found[key] = value
    return found


@dataclass(frozen=True, kw_only=True)
class InstrumentedSolution(Solution):
    """Coefficients for which residuals and instruments are uncorrelated, the noise taken off."""

    second: FloatArray  # the design matrix with second measurements, shape (n, p)
    replaced: NDArray[np.bool_]  # which k errors the second measurements do not have

    @cached_property
    def matrix(self) -> FloatArray:
        """Moments of instruments and covariates less the errors in both, shape (p, p)."""
        moments, total = self.moments, np.zeros((len(self.moments.cross),) * 2)
        for rows, block in moments.blocks():
            total += (self.instruments(rows, block) * block.weights[:, None]).T @ block.covariates
        return total - moments.to_covariates.T @ self._errors @ moments.to_covariates

    @cached_property
    def coefficients(self) -> FloatArray:
        """The solution β, shape (p,)."""
        moments, total = self.moments, np.zeros(len(self.moments.cross))
        for rows, block in moments.blocks():
            total += self.instruments(rows, block).T @ (block.weights * block.response)
        return self.solve(total - moments.to_covariates.T @ self._errors @ moments.to_response)

    @cached_property
    def _errors(self) -> FloatArray:
        total = np.zeros_like(self.moments.errors)
        for rows, block in self.moments.blocks():
            weights = block.weights * block.rest
            total += np.einsum("i,ijk->jk", weights, self.shared_errors(rows, block))
        return total

    def instruments(self, rows: slice, block: Block) -> FloatArray:
        """Return what residuals are multiplied with, shape (b, p)."""
        return np.asarray(self.second[rows] @ self.moments.to_units)

    def shared_errors(self, rows: slice, block: Block) -> FloatArray:
        """Return the covariances of the errors of instruments and columns, (1 or b, m, m)."""
        moments, loadings = self.moments, by_row(self.moments.design.loadings, rows)
        covariance = moments.design.errors.covariance(rows)
        both = (loadings * ~self.replaced) @ covariance @ np.swapaxes(loadings, 1, 2)
        return np.asarray(both / moments.reach / moments.reach[:, np.newaxis])

    def own_sources(self, sources: FloatArray) -> FloatArray:
        """Return what sources add to the instruments of those that they add to the columns."""
        return sources * ~self.replaced

    def scores(self, *, leave_out: bool = False) -> Iterator[tuple[slice, FloatArray]]:
        """Yield what each row adds to the equations at β, shape (b, p); the sum is 0.

        With ``leave_out``, the matrix times what leaving the row out takes from β.
        """
        for rows, scores in super().scores():
            yield rows, self._without(rows, scores) if leave_out else scores

    def _without(self, rows: slice, scores: FloatArray) -> FloatArray:
        block, to_covariates = self.moments.block(rows), self.moments.to_covariates
        own = np.einsum("ij,ik->ijk", self.instruments(rows, block), block.covariates)
        own -= to_covariates.T @ self.shared_errors(rows, block) @ to_covariates
        rest = self.matrix - block.weights[:, np.newaxis, np.newaxis] * own
        least = np.linalg.svd(self.matrix, compute_uv=False)[-1]
        if (np.linalg.svd(rest, compute_uv=False)[:, -1] <= _ROUNDING * least).any():
            raise NotEstimableError(
                "cov_type='HC3' needs estimates without each of the rows, and without one of them "
                "instrument and covariate do not vary together: use cov_type='HC1'"
            )
        change = np.linalg.solve(rest, scores[:, :, np.newaxis])[:, :, 0]
        return np.asarray(change @ self.matrix.T)

    def solve(self, right: FloatArray, *, transposed: bool = False) -> FloatArray:
        """Solve with :attr:`matrix`, or its transpose."""
        return np.asarray(linalg.solve(self.matrix.T if transposed else self.matrix, right))


def solve_instruments(
    moments: Moments, exog: Any, given: dict[Any, Any], noise: Mapping[Any, Any]
) -> InstrumentedSolution:
    """Return the coefficients that second measurements give."""
    design = moments.design
    if design.curves:
        raise InvalidParameterError(
            "instrument must be left out where formulas have squares or products of noisy columns, "
            "which are corrected by the law of the noise"
        )
    values: dict[Any, FloatArray] = {}
    replaced = np.zeros(len(design.errors.columns), dtype=bool)
    for key, value in given.items():
        name = f"instrument[{key!r}]"
        if key not in design.errors.columns:
            raise InvalidParameterError(
                f"instrument must have as keys noisy covariates, got {show(key)}: give their noise"
            )
        if isinstance(value, str):
            if any(isinstance(pair, tuple) and value in pair for pair in noise):
                raise InvalidParameterError(
                    f"{name} must have errors that are independent of those of all columns, got "
                    f"{value!r}, for which noise has covariances"
                )
            if value in design.errors.columns and value != key:
                raise InvalidParameterError(
                    f"{name} must be a measurement that is not in the model, got {value!r}"
                )
            value = column_of(exog, value)
        size = len(design.endog)
        number = one_each(value, name, size, design.row_labels, ge=-LARGEST, le=LARGEST)
        values[key] = np.broadcast_to(number, size)
        replaced[design.errors.columns.index(key)] = True
    second = _second(design, exog, values)
    solution = InstrumentedSolution(moments, 1.0, second=second, replaced=replaced)
    singular = linalg.svdvals(solution.matrix)
    if singular[-1] <= _ROUNDING * singular[0]:
        raise NotEstimableError(
            "the instruments do not vary with the covariates, beyond what the other columns "
            "explain: give a second measurement of the same quantity"
        )
    return InstrumentedSolution(moments, 1.0, _weakness(solution), second=second, replaced=replaced)


_ROUNDING = 1e-9
_CLEAR = 4.0


def _second(design: Design, exog: Any, values: dict[Any, FloatArray]) -> FloatArray:
    second = np.array(design.exog)
    for key, value in values.items():
        if design.spec is not None:
            published = exog[key].to_numpy(np.float64)
            moved = not np.array_equal(rebuilt(design.spec, exog.assign(**{key: value})), second)
        else:
            place = design.names.index(key) if key in design.names else None
            published = design.endog if place is None else design.exog[:, place]
            moved = place is not None
            if place is not None:
                second[:, place] = value
        own = np.asarray(design.errors.std)[..., design.errors.columns.index(key)]
        if np.array_equal(value, published) or (own.any() and _is_moved(value, published)):
            raise InvalidParameterError(
                f"instrument[{key!r}] must be a second measurement with noise of its own, got the "
                "published column itself"
            )
        if _is_moved(value, design.endog):
            raise InvalidParameterError(
                f"instrument[{key!r}] must be a measurement that is not in the model, got the "
                "response"
            )
        if not moved:
            raise InvalidParameterError(f"instrument must have as keys covariates, got {show(key)}")
    return second if design.spec is None else rebuilt(design.spec, exog.assign(**values))


def _is_moved(one: FloatArray, other: FloatArray) -> bool:
    """Whether one column is the other, moved and scaled."""
    a, b = (x - x.mean() for x in (one, other))
    return bool(np.square(a @ b) >= (1.0 - 1e-12) * (a @ a) * (b @ b) > 0.0)


def _weakness(solution: InstrumentedSolution) -> tuple[str, ...]:
    left, _, right = linalg.svd(solution.matrix)
    sums = np.zeros(2)
    for rows, block in solution.moments.blocks():
        own = (solution.instruments(rows, block) @ left[:, -1]) * (block.covariates @ right[-1])
        own = block.weights * own
        sums += own.sum(), np.square(own).sum()
    if abs(sums[0]) >= _CLEAR * np.sqrt(sums[1]):
        return ()
    return (
        "what an instrument shares with its covariate is known to a quarter of itself at best: "
        "intervals by standard errors may cover too rarely",
    )
