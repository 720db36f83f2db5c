"""Designs from formulas, and how the errors of the data enter their columns."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import statsmodels.formula.api as smf

from dpinfer._validation import FloatArray, one_line, show
from dpinfer.errors import InvalidParameterError
from dpinfer.regression._design import Design, checked_model
from dpinfer.regression._errors import ColumnErrors, NoiseOf, column_errors

if TYPE_CHECKING:
    import pandas as pd

Nonlinear = Literal["refuse", "delta"]

_RESPONSE = "_response_of_the_formula"
_TOLERANCE = 1e-8
_ROUNDING = 1e-14
_STEP = 1e-5
_CURVED = 0.1
"""Neglected mean error, in standard errors of the term, that is worth a remark."""


@dataclass(frozen=True)
class Terms:
    """The response and the design matrix of a formula as functions of the data."""

    response: Any
    design: Any

    def __call__(self, data: pd.DataFrame) -> FloatArray:
        """Response (first) and design matrix of data with the same rows, shape (n, 1 + p)."""
        columns = [design_matrix(spec, data) for spec in (self.response, self.design)]
        return np.column_stack(columns)


def formula_design(
    formula: str, data: Any, noise: NoiseOf, weights: Any, nonlinear: Nonlinear, depth: int
) -> Design:
    """Return the design of a formula; ``depth`` frames above stand the variables of the caller."""
    frame = _checked_frame(data)
    errors = column_errors(
        noise,
        len(frame),
        frame.index,
        lambda key: key in frame.columns,
        lambda c: column_of(frame, c),
    )
    for column in errors.columns:
        frame[column] = errors.checked(column, frame[column])
    if isinstance(weights, str):
        if weights in errors.columns:
            raise InvalidParameterError(
                f"weights must be free of noise, got the noisy column {weights!r}"
            )
        weights = column_of(frame, weights)
    parsed, terms = _read(formula, frame, depth + 1)
    model = checked_model(parsed.data.orig_endog, parsed.data.orig_exog, weights, frame.index)
    names = [model.endog_names, *model.exog_names]
    notes: tuple[str, ...] = ()
    if nonlinear == "delta":
        loadings, notes = _linearised(terms, frame, errors)
    else:
        loadings = _exact_loadings(terms, frame, errors, names)
    return Design(model, loadings, errors, True, terms.design, notes)


def design_matrix(spec: Any, data: pd.DataFrame) -> FloatArray:
    """Return the columns for other data by the engine that made the specification, NaN kept."""
    if hasattr(spec, "get_model_matrix"):  # formulaic
        return np.asarray(spec.get_model_matrix(data, na_action="ignore"), dtype=np.float64)
    import patsy

    keep = patsy.NAAction(NA_types=[])
    return np.asarray(patsy.dmatrix(spec, data, NA_action=keep), dtype=np.float64)


def rebuilt(spec: Any, data: Any) -> FloatArray:
    """Return the design matrix of a user's data."""
    import pandas as pd

    if not isinstance(data, pd.DataFrame):
        raise InvalidParameterError(
            f"exog must be a DataFrame with the columns of the formula, got {show(data)}"
        )
    try:
        return design_matrix(spec, data)
    except Exception as error:  # the engine fails in its own ways
        raise InvalidParameterError(
            f"exog must have the columns of the formula: {one_line(error)}"
        ) from error


def _checked_frame(data: Any) -> pd.DataFrame:
    import pandas as pd

    if not isinstance(data, pd.DataFrame):
        raise InvalidParameterError(
            f"exog must be a DataFrame where a formula is given, got {show(data)}"
        )
    if not len(data):
        raise InvalidParameterError("exog must have at least one row, got none")
    if not data.columns.is_unique:
        raise InvalidParameterError("exog must have different names for its columns")
    return data.copy()


def column_of(frame: pd.DataFrame, name: Any) -> Any:
    if name not in frame.columns:
        raise InvalidParameterError(
            f"{show(name)} must be a column of the data, which has {show(list(frame.columns))}"
        )
    return frame[name]


def _read(formula: str, frame: pd.DataFrame, depth: int) -> tuple[Any, Terms]:
    """Let statsmodels read the formula; see to it that no row is dropped."""
    try:
        parsed = smf.ols(formula, frame, eval_env=depth + 1)
        left = formula.split("~", 1)[0]
        with_response = frame.assign(**{_RESPONSE: 1.0})
        response = smf.ols(f"{_RESPONSE} ~ 0 + {left}", with_response, eval_env=depth + 1)
        terms = Terms(_spec(response), _spec(parsed))
        complete = len(parsed.endog) == len(frame) == len(terms(frame))
    except Exception as error:  # a formula is code, which may fail in any way
        raise InvalidParameterError(
            f"formula must be one that statsmodels reads for this data, got {show(formula)}: "
            f"{one_line(error)}"
        ) from error
    if not complete:
        raise InvalidParameterError(
            f"exog must not have missing values in the columns of the formula, got "
            f"{len(frame) - len(parsed.endog)} rows with some: drop them with dropna()"
        )
    return parsed, terms


def _spec(model: Any) -> Any:
    """Return what the engine remembers of a design matrix, under its name of 0.14 or later."""
    spec = getattr(model.data, "model_spec", None)
    return model.data.design_info if spec is None else spec


def _exact_loadings(
    terms: Terms, frame: pd.DataFrame, errors: ColumnErrors, names: list[str]
) -> FloatArray:
    """Slopes of the columns in the noisy data; refuse columns that are not linear in them.

    A function of finitely many arguments is affine where its value at any point follows from its
    slopes along the axes. That is checked at steps of the size of the values, of the size of the
    errors, and beyond the range of the data.
    """
    values = frame[errors.columns].to_numpy(np.float64)
    near = np.maximum(np.maximum(np.abs(values), errors.std), 1.0)
    far = 3.0 * np.broadcast_to(near.max(axis=0), near.shape)
    at = terms(frame)
    move = _mover(terms, frame, errors)
    loadings = np.nan_to_num(_slopes(move, near), nan=np.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        rounding = _ROUNDING * np.einsum("ijk,ik->ij", np.abs(loadings), np.abs(values))
    rng = np.random.default_rng(0)  # directions in which no product of two steps vanishes
    for step in (near, far, errors.std):
        delta = step * rng.uniform(0.5, 1.5, step.shape[1]) * rng.choice([-1.0, 1.0], step.shape)
        with np.errstate(invalid="ignore", over="ignore"):
            change = np.einsum("ijk,ik->ij", loadings, delta)
            reach = np.abs(at) + np.einsum("ijk,ik->ij", np.abs(loadings), np.abs(delta))
            wrong = np.abs(move(delta) - at - change) > _TOLERANCE * reach + rounding
            bent = (wrong | ~np.isfinite(change)).any(axis=0)
        if bent.any():
            raise InvalidParameterError(_refusal(list(compress(names, bent)), errors))
    return loadings


def _refusal(terms: list[str], errors: ColumnErrors) -> str:
    return (
        f"formula must be linear in the noisy columns {show(errors.columns)}, and its columns "
        f"{show(terms)} are not: mean and variance of their errors would depend on the "
        "confidential values. Products with columns that have no noise are allowed; "
        "nonlinear='delta' linearises, which is an approximation for noise that is small beside "
        "the values"
    )


def _linearised(
    terms: Terms, frame: pd.DataFrame, errors: ColumnErrors
) -> tuple[FloatArray, tuple[str, ...]]:
    """Slopes at the published values, and a remark on how far they carry."""
    values = frame[errors.columns].to_numpy(np.float64)
    scale = np.maximum(np.abs(values), errors.std)
    step = _STEP * np.where(scale > 0, scale, 1.0)
    at = terms(frame)
    move = _mover(terms, frame, errors)
    loadings = _slopes(move, step)
    bend = np.zeros(at.shape)
    for j in range(step.shape[1]):
        wide = _only(errors.std, j)
        with np.errstate(invalid="ignore", over="ignore"):
            bend += np.abs(move(wide) + move(-wide) - 2.0 * at) / 2.0
    if not np.isfinite(loadings).all():
        raise InvalidParameterError(
            "formula must be smooth at the published values for nonlinear='delta', got infinite "
            "slopes or missing values: look at zeros in denominators and logarithms"
        )
    variance = np.einsum("ijk,ikl,ijl->ij", loadings, errors.covariance, loadings)
    flat = bend <= _CURVED * np.sqrt(np.maximum(variance, 0.0)) + _TOLERANCE * np.abs(at)
    note = "errors of nonlinear terms are linearised (delta method): approximate"
    if (curved := int((~flat).any(axis=1).sum())) > 0:
        note += (
            f"; in {curved} of {len(at)} rows the noise is so wide that the neglected bias of a "
            f"term exceeds {_CURVED:.0%} of its standard error"
        )
    return loadings, (note,)


def _mover(
    terms: Terms, frame: pd.DataFrame, errors: ColumnErrors
) -> Callable[[FloatArray], FloatArray]:
    """Return the columns as a function of steps in the noisy data; NaN where they do not exist."""
    values = frame[errors.columns].to_numpy(np.float64)
    nothing = np.full(terms(frame).shape, np.nan)

    def move(delta: FloatArray) -> FloatArray:
        moved = frame.copy()
        moved[errors.columns] = values + delta
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                found = terms(moved)
            except Exception:  # a logarithm below zero, a category never seen: not a smooth term
                return nothing
        return found if found.shape == nothing.shape else nothing

    return move


def _slopes(move: Callable[[FloatArray], FloatArray], step: FloatArray) -> FloatArray:
    """Return the slopes of all columns along each noisy one; not finite where there are none."""
    with np.errstate(invalid="ignore", over="ignore"):
        slopes = [
            (move(_only(step, j)) - move(-_only(step, j))) / (2.0 * step[:, [j]])
            for j in range(step.shape[1])
        ]
    return np.stack(slopes, axis=2)


def _only(step: FloatArray, j: int) -> FloatArray:
    """Return steps in one column and none in the others."""
    alone = np.zeros_like(step)
    alone[:, j] = step[:, j]
    return alone
