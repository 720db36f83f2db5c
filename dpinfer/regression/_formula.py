"""Designs from formulas, and how the errors of the data enter their columns."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import (
    FloatArray,
    as_pandas,
    as_table,
    check_array,
    check_length,
    is_foreign,
    one_line,
    show,
)
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.regression._errors import (
    LARGEST,
    ColumnErrors,
    NoiseOf,
    by_row,
    column_errors,
    numbered_names,
)
from dpinfer.results.labels import check_order

if TYPE_CHECKING:
    import pandas as pd


# Response, covariates and the errors in them, row by row.


_SMALLEST = 1e-50

_WIDEST = 1e-13
"""The pseudoinverse of statsmodels drops singular values below 1e-15 of the largest."""


_BLOCK_ROWS = 1 << 12
"""Rows that are gone through together: few enough to stay in the cache."""


Curves = dict[tuple[int, int], NDArray[np.float64]]
"""Coefficients of products of the errors i <= j in the covariates, shapes (n, p)."""


@dataclass(frozen=True)
class Absorbed:
    """Groups whose effects are taken out of response and covariates, in linear time.

    Least squares with an indicator for each group is least squares on deviations from weighted
    means (Frisch, Waugh and Lovell), with weights and residuals the same; of the noise of a row the
    deviations hold the share 1 - h, h the row's part of the weight of its group.
    """

    codes: NDArray[np.intp]  # of the rows, from 0, shape (n,)
    weights: FloatArray  # of the rows, shape (n,)
    totals: FloatArray  # of the weights of groups, shape (G,)
    endog: FloatArray  # the published response, shape (n,)

    def within(self, values: FloatArray) -> FloatArray:
        """Return deviations of columns from their weighted means in groups, shape (n, ...)."""
        if values.ndim == 2:
            return np.column_stack([self.within(column) for column in values.T])
        near = values - values.mean()
        return np.asarray(near - (self.sums(self.weights * near) / self.totals)[self.codes])

    def sums(self, values: FloatArray) -> FloatArray:
        """Return sums of groups, shape (G,)."""
        return np.asarray(np.bincount(self.codes, values, len(self.totals)), dtype=np.float64)

    def leverage(self, rows: slice) -> FloatArray:
        """Return the part of rows of the weight of their groups."""
        return np.asarray(self.weights[rows] / self.totals[self.codes[rows]])


@dataclass(frozen=True)
class Design:
    """A regression of noisy columns on noisy columns, of n rows and p covariates."""

    endog: FloatArray  # published response, shape (n,)
    exog: FloatArray  # published design matrix, shape (n, p)
    weights: FloatArray  # of the rows, shape (n,)
    response: Any  # name of the response
    names: list[Any]  # of the columns of the design matrix
    row_labels: pd.Index | None  # where results carry labels
    triangle: FloatArray  # R of the QR decomposition of √w·(exog, endog), shape (1 + p, 1 + p)
    noisy: NDArray[np.intp]  # which m columns of (response, covariates) have errors
    loadings: FloatArray  # of the k errors in them, shape (1 or n, m, k)
    errors: ColumnErrors
    curves: Curves = field(default_factory=dict)  # of squares and products of two noisy columns
    spec: Any = None  # what builds the design matrix of other data, for a formula
    notes: tuple[str, ...] = ()
    absorbed: Absorbed | None = None  # groups; response and covariates are then deviations

    @property
    def labelled(self) -> bool:
        """Whether results carry the names of the columns."""
        return self.row_labels is not None

    @property
    def parameters(self) -> int:
        """Number of coefficients, absorbed groups included."""
        return len(self.names) + (0 if self.absorbed is None else len(self.absorbed.totals))

    @cached_property
    def model(self) -> Any:
        """The WLS of statsmodels for the published columns."""
        import statsmodels.api as sm

        endog: Any = self.endog
        exog: Any = self.exog
        if self.labelled:
            import pandas as pd

            endog = pd.Series(endog, self.row_labels, name=self.response)
            columns = pd.Index(self.names, tupleize_cols=False)
            exog = pd.DataFrame(exog, self.row_labels, columns)
        return sm.WLS(endog, exog, weights=self.weights)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out a specification by patsy, which cannot be pickled."""
        picklable = self.spec is None or hasattr(self.spec, "get_model_matrix")
        return self.__dict__ | ({} if picklable else {"spec": None})

    def error_covariance(self, rows: slice) -> FloatArray:
        """Covariance matrices of the errors of the noisy columns, shape (1 or rows, m, m)."""
        loadings = by_row(self.loadings, rows)
        return np.asarray(loadings @ self.errors.covariance(rows) @ np.swapaxes(loadings, 1, 2))


def refuse_many(design: Design) -> None:
    """Refuse so many columns without noise that what they take of the noise biases the others."""
    noisy = int((design.noisy > 0).sum())
    clean, rows = design.exog.shape[1] - noisy, len(design.endog)
    if noisy and clean > _FEW and clean**2 > 2 * rows:
        raise InvalidParameterError(
            f"exog must have few columns without noise beside noisy ones, at most {_FEW} or the "
            f"root of twice the {rows} rows, got {clean}: indicators of many groups bias the other "
            "coefficients here. For a line, noisy_ols takes them with absorb, where no formula has "
            "squares or products of noisy columns; otherwise join groups"
        )


_FEW = 10


def row_blocks(size: int) -> Iterator[slice]:
    """Yield the rows of a table in blocks."""
    for start in range(0, size, _BLOCK_ROWS):
        yield slice(start, start + _BLOCK_ROWS)


def array_design(endog: Any, exog: Any, noise: NoiseOf, weights: Any) -> Design:
    """Return the design of a response and a matrix of covariates."""
    response, rows, name = _response(endog)
    matrix, columns, other = matrix_of(exog)
    check_length(matrix, "exog", len(response), "the values of endog")
    check_order(other, rows, "exog", "endog")
    labels = rows if rows is not None else other
    if labels is None and (is_foreign(endog) or is_foreign(exog)):
        labels = _numbered(len(response))
    given = _weights(weights, len(matrix), labels)
    triangle = checked_triangle(response, matrix, given)
    names = numbered_names(matrix) if columns is None else list(columns)
    keys: list[Hashable] = [name, *names]
    if len(set(keys)) < len(keys):
        raise InvalidParameterError(f"endog and exog must have different names, got {keys}")
    errors = column_errors(noise, len(response), labels, lambda key: key in keys, None)
    places = np.array([keys.index(column) for column in errors.columns])
    for place, column in zip(places, errors.columns, strict=True):
        errors.checked(column, matrix[:, place - 1] if place else response)
    order = np.argsort(places)
    noisy, loadings = _with_errors(places[order], np.eye(len(order))[np.newaxis, order], errors)
    return Design(response, matrix, given, name, names, labels, triangle, noisy, loadings, errors)


def _with_errors(
    columns: NDArray[np.intp], loadings: FloatArray, errors: ColumnErrors
) -> tuple[NDArray[np.intp], FloatArray]:
    """Return the columns that have errors of some size, and the loadings of those."""
    held = ((loadings != 0) & (errors.std != 0)[:, np.newaxis]).any(axis=(0, 2))
    return columns[held], loadings[:, held]


def checked_triangle(response: FloatArray, matrix: FloatArray, weights: FloatArray) -> FloatArray:
    """Return R of √w·(matrix, response), after checks of what least squares needs."""
    rows, columns = matrix.shape
    triangle, size = np.zeros((columns + 1, columns + 1)), np.zeros(columns + 1)
    for block in row_blocks(rows):
        both = np.hstack([matrix[block], response[block, np.newaxis]])
        size = np.maximum(size, np.abs(both).max(axis=0))
        both *= np.sqrt(weights[block])[:, np.newaxis]
        triangle = np.asarray(np.linalg.qr(np.vstack([triangle, both]), mode="r"))
    small = (size > 0) & (size < _SMALLEST)
    for name, bad in (("endog", small[-1:]), ("exog", small[:-1])):
        if bad.any():
            raise InvalidParameterError(
                f"{name} must not have columns below {_SMALLEST:g} in size: rescale them"
            )
    if rows <= columns:
        raise NotEstimableError(f"{columns} coefficients need more than {columns} rows, got {rows}")
    _check_rank(triangle[:columns, :columns], rows)
    return triangle


def _check_rank(triangle: FloatArray, rows: int) -> None:
    """Refuse columns that do not determine coefficients, or not as statsmodels computes them."""
    size = np.linalg.norm(triangle, axis=0)
    singular = np.linalg.svd(triangle / np.where(size > 0, size, 1.0), compute_uv=False)
    if singular[-1] <= rows * np.finfo(float).eps * singular[0]:
        raise NotEstimableError(
            "the columns of the design matrix are linearly dependent: drop those that follow from "
            "the others"
        )
    singular = np.linalg.svd(triangle, compute_uv=False)
    if singular[-1] < _WIDEST * singular[0]:
        raise InvalidParameterError(
            "the columns of the design matrix must not differ so much in size, or be so nearly "
            f"dependent, that their singular values differ by more than {1 / _WIDEST:.0e}: rescale "
            "them, or centre those that vary little"
        )


def absorb(design: Design, codes: Any) -> Design:
    """Return the design of deviations from the means of groups; the constant is left out."""
    if design.curves:
        raise InvalidParameterError(
            "absorb must be left out where formulas have squares or products of noisy columns: "
            "give the groups as C(group), as long as they are few"
        )
    sums = np.asarray(np.bincount(codes, design.weights), dtype=np.float64)
    absorbed = Absorbed(codes, design.weights, sums, design.endog)
    noisy = np.isin(np.arange(design.exog.shape[1]) + 1, design.noisy)
    kept = (np.ptp(design.exog, axis=0) > 0) | noisy
    if not kept.any():
        raise NotEstimableError("the model has no covariate but the constant, which is absorbed")
    exog, names = design.exog[:, kept], [x for x, k in zip(design.names, kept, strict=True) if k]
    if len(exog) <= exog.shape[1] + len(sums):
        raise NotEstimableError(
            f"{exog.shape[1]} coefficients and {len(sums)} absorbed groups need more than "
            f"{exog.shape[1] + len(sums)} rows, got {len(exog)}"
        )
    within = absorbed.within(exog)
    size = np.abs(exog - exog.mean(axis=0)).max(axis=0)
    if (flat := np.abs(within).max(axis=0) <= _FLAT * size).any():
        raise NotEstimableError(
            f"{show(names[int(np.argmax(flat))])} does not vary within the absorbed groups: leave "
            "it out"
        )
    endog = absorbed.within(design.endog)
    places = np.concatenate([[0], np.cumsum(kept)])
    return replace(
        design,
        endog=endog,
        exog=within,
        names=names,
        triangle=checked_triangle(endog, within, design.weights),
        noisy=places[design.noisy],
        spec=None,
        absorbed=absorbed,
    )


def nested(absorbed: Absorbed, groups: Any) -> bool:
    """Whether all rows of an absorbed group are in one of the groups."""
    first = np.empty(len(absorbed.totals), dtype=np.intp)
    first[absorbed.codes] = groups
    return bool((first[absorbed.codes] == groups).all())


_FLAT = 1e-11


def _weights(weights: Any, size: int, labels: pd.Index | None) -> FloatArray:
    """Weights of the rows; 1 where none are given."""
    if weights is None:
        return np.broadcast_to(1.0, size)
    weights = as_table(weights, "weights")
    own = getattr(weights, "index", None) if hasattr(weights, "to_numpy") else None
    check_order(own, labels, "weights", "the data")
    array = check_array(weights, "weights", gt=0, ge=_SMALLEST, le=LARGEST, ndim=1)
    check_length(array, "weights", size, "the rows")
    if array.max() > array.min() / np.finfo(float).eps:
        raise InvalidParameterError(
            "weights must be within a factor of 4e15 of each other: leave out rows without weight"
        )
    return array


def _response(endog: Any) -> tuple[FloatArray, pd.Index | None, Any]:
    """Values, labels and name of the response."""
    column = as_pandas(endog, "endog")
    if hasattr(column, "columns") and hasattr(column, "iloc"):
        if column.shape[1] != 1:
            raise InvalidParameterError(
                f"endog must be one column, got a DataFrame with {column.shape[1]}"
            )
        column = column.iloc[:, 0]
    if hasattr(column, "index") and hasattr(column, "to_numpy"):
        name = "y" if column.name is None else column.name
        return _bounded(column.to_numpy(), "endog", 1), _labels(endog, column), name
    return _bounded(column, "endog", 1), None, "y"


def matrix_of(exog: Any) -> tuple[FloatArray, pd.Index | None, pd.Index | None]:
    """Values, names of the columns and labels of the rows of the design matrix."""
    table = as_pandas(exog, "exog")
    if hasattr(table, "index") and hasattr(table, "to_numpy"):
        frame = table if hasattr(table, "columns") else table.to_frame(name=table.name or "x1")
        columns = frame.columns.to_flat_index()  # statsmodels joins the names of levels as strings
        return _bounded(frame.to_numpy(), "exog", 2), columns, _labels(exog, frame)
    array = _bounded(table, "exog", None)
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2:
        raise InvalidParameterError(f"exog must be two-dimensional, got shape {array.shape}")
    return array, None, None


def _bounded(values: Any, name: str, ndim: int | None) -> FloatArray:
    return check_array(values, name, ge=-LARGEST, le=LARGEST, ndim=ndim)


def _labels(given: Any, table: Any) -> pd.Index | None:
    """Labels of the rows; None for a table of a library that has none."""
    unlabelled = is_foreign(given) and table.index.equals(_numbered(len(table)))
    return None if unlabelled else table.index


def _numbered(size: int) -> pd.Index:
    import pandas as pd

    return pd.RangeIndex(size)


Nonlinear = Literal["refuse", "delta"]

_RESPONSE = "_response_of_the_formula"
_TOLERANCE = 1e-8
_ROUNDING = 1e-14
_SAME_SLOPE = 1e-13
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
    formula: str, data: Any, noise: NoiseOf, weights: Any, nonlinear: Nonlinear | None, depth: int
) -> Design:
    """Return the design of a formula; ``depth`` frames above stand the variables of the caller.

    ``nonlinear`` is None where linearisation is not offered.
    """
    frame = checked_frame(data)
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
    parsed, terms = read_formula(formula, frame, depth + 1)
    endog, exog = _bounded(parsed.endog, "endog", 1), _bounded(parsed.exog, "exog", 2)
    given = _weights(weights, len(frame), frame.index)
    triangle = checked_triangle(endog, exog, given)
    response, names = parsed.endog_names, list(parsed.exog_names)
    notes: tuple[str, ...] = ()
    curves: Curves = {}
    if nonlinear == "delta":
        columns, loadings, notes = _linearised(terms, frame, errors)
    else:
        columns, loadings, curves = _exact_loadings(
            terms, frame, errors, [response, *names], offered=nonlinear is not None
        )
    noisy, loadings = _with_errors(columns, loadings, errors)
    return Design(
        endog,
        exog,
        given,
        response,
        names,
        frame.index,
        triangle,
        noisy,
        loadings,
        errors,
        curves,
        terms.design,
        notes,
    )


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


def checked_frame(data: Any) -> pd.DataFrame:
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


def read_formula(formula: str, frame: pd.DataFrame, depth: int) -> tuple[Any, Terms]:
    """Let statsmodels read the formula; see to it that no row is dropped."""
    import statsmodels.formula.api as smf

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
            f"{len(frame) - len(parsed.endog)} rows with some: leave them out with missing='drop'"
        )
    return parsed, terms


def _spec(model: Any) -> Any:
    """Return what the engine remembers of a design matrix, under its name of 0.14 or later."""
    spec = getattr(model.data, "model_spec", None)
    return model.data.design_info if spec is None else spec


Loadings = tuple[NDArray[np.intp], FloatArray]
"""Columns of (response, covariates) that move with the noisy data; slopes, (1 or n, m, k)."""


def _exact_loadings(
    terms: Terms, frame: pd.DataFrame, errors: ColumnErrors, names: list[str], *, offered: bool
) -> tuple[NDArray[np.intp], FloatArray, Curves]:
    """Slopes and curvatures of the columns in the noisy data; refuse what bends in other ways.

    A function of finitely many arguments is affine where its value at any point follows from its
    slopes along the axes, and of degree two where it follows from second differences too. That is
    checked at steps of the size of the values, of the size of the errors, and beyond the range of
    the data.
    """
    values = frame[errors.columns].to_numpy(np.float64)
    near = np.maximum(np.maximum(np.abs(values), errors.std), 1.0)
    far = 3.0 * np.broadcast_to(near.max(axis=0), near.shape)
    at = terms(frame)
    move = _mover(terms, frame, errors)
    columns, loadings = _slopes(move, near)
    loadings = np.where(np.isfinite(loadings), loadings, np.inf)
    rng = np.random.default_rng(0)  # directions in which no product of two steps vanishes
    moves = [
        step * rng.uniform(0.5, 1.5, step.shape[1]) * rng.choice([-1.0, 1.0], step.shape)
        for step in (near, far, np.broadcast_to(errors.std, near.shape))
    ]
    curves: Curves = {}

    def bent() -> NDArray[np.bool_]:
        with np.errstate(invalid="ignore", over="ignore"):
            wrong = np.zeros(at.shape[1], dtype=bool)
            rounding = _ROUNDING * np.einsum("ijk,ik->ij", np.abs(loadings), np.abs(values))
            for delta in moves:
                change, bound = move(delta) - at, _TOLERANCE * np.abs(at)
                change[:, columns] -= np.einsum("ijk,ik->ij", loadings, delta)
                reach = np.einsum("ijk,ik->ij", np.abs(loadings), np.abs(delta))
                bound[:, columns] += _TOLERANCE * reach + rounding
                for (i, j), curve in curves.items():
                    part = curve * (delta[:, i] * delta[:, j])[:, np.newaxis]
                    change -= part
                    bound += _TOLERANCE * np.abs(part)
                wrong |= ~((np.abs(change) <= bound) & np.isfinite(bound)).all(axis=0)
            wrong[columns] |= ~np.isfinite(loadings).all(axis=(0, 2))
        return np.asarray(wrong)

    if (wrong := bent()).any():
        curves = _curvatures(move, near, at, wrong)
        if (wrong := bent()).any() or any(curve[:, 0].any() for curve in curves.values()):
            wrong[0] |= any(curve[:, 0].any() for curve in curves.values())
            raise InvalidParameterError(_refusal(list(compress(names, wrong)), errors, offered))
    mean = loadings.mean(axis=0, keepdims=True)
    alike = (np.ptp(loadings, axis=0) <= _SAME_SLOPE * np.abs(mean)).all()
    covariates = {pair: curve[:, 1:] for pair, curve in curves.items()}
    return columns, mean if alike else loadings, covariates


def _curvatures(
    move: Callable[[FloatArray], FloatArray],
    step: FloatArray,
    at: FloatArray,
    wrong: NDArray[np.bool_],
) -> Curves:
    """Coefficients of products of steps in columns that are not linear, shapes (n, 1 + p)."""
    curves: Curves = {}
    with np.errstate(invalid="ignore", over="ignore"):
        for i in range(step.shape[1]):
            one = _only(step, i)
            for j in range(i + 1):
                other = _only(step, j)
                if i == j:
                    found = (move(one) + move(-one) - 2.0 * at) / 2.0
                else:
                    up, down = move(one + other) - move(one - other), move(other - one)
                    found = (up - down + move(-one - other)) / 4.0
                found = np.where(np.isfinite(found), found, np.inf)
                found[:, ~wrong] = 0.0
                size = np.abs(at) + np.abs(found).max(axis=0, initial=0.0)
                found[np.abs(found) <= _SAME_SLOPE * size] = 0.0
                if found.any():
                    curves[j, i] = found / (step[:, i] * step[:, j])[:, np.newaxis]
    return curves


def _refusal(terms: list[str], errors: ColumnErrors, offered: bool) -> str:
    return (
        f"formula must be linear in the noisy columns {show(errors.columns)}, or covariates of "
        f"degree two in them, and its columns {show(terms)} are not: mean and variance of their "
        "errors would depend on the confidential values. Products with columns that have no noise "
        "are allowed"
        + (
            "; nonlinear='delta' linearises, which is an approximation for noise that is small "
            "beside the values"
            if offered
            else ""
        )
    )


def _linearised(
    terms: Terms, frame: pd.DataFrame, errors: ColumnErrors
) -> tuple[NDArray[np.intp], FloatArray, tuple[str, ...]]:
    """Slopes at the published values, and a remark on how far they carry."""
    values = frame[errors.columns].to_numpy(np.float64)
    std = np.broadcast_to(errors.std, values.shape)
    scale = np.maximum(np.abs(values), std)
    step = _STEP * np.where(scale > 0, scale, 1.0)
    at = terms(frame)
    move = _mover(terms, frame, errors)
    columns, loadings = _slopes(move, step)
    bend = np.zeros(at.shape)
    for j in range(step.shape[1]):
        wide = _only(std, j)
        with np.errstate(invalid="ignore", over="ignore"):
            bend += np.abs(move(wide) + move(-wide) - 2.0 * at) / 2.0
    if not np.isfinite(loadings).all():
        raise InvalidParameterError(
            "formula must be smooth at the published values for nonlinear='delta', got infinite "
            "slopes or missing values: look at zeros in denominators and logarithms"
        )
    variance = ((loadings @ errors.covariance(slice(None))) * loadings).sum(axis=2)
    bound = _TOLERANCE * np.abs(at)
    bound[:, columns] += _CURVED * np.sqrt(np.maximum(variance, 0.0))
    note = "errors of nonlinear terms are linearised (delta method): approximate"
    if (curved := int((~(bend <= bound)).any(axis=1).sum())) > 0:
        note += (
            f"; in {curved} of {len(at)} rows the noise is so wide that the neglected bias of a "
            f"term exceeds {_CURVED:.0%} of its standard error"
        )
    return columns, loadings, (note,)


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


def _slopes(move: Callable[[FloatArray], FloatArray], step: FloatArray) -> Loadings:
    """Return the columns with slopes along a noisy one, and those; not finite where none exist."""
    found = []
    for j in range(step.shape[1]):
        with np.errstate(invalid="ignore", over="ignore"):
            slope = (move(_only(step, j)) - move(-_only(step, j))) / (2.0 * step[:, [j]])
        columns = np.flatnonzero(slope.any(axis=0))
        found.append((columns, slope[:, columns]))
    union = np.unique(np.concatenate([columns for columns, _ in found]))
    loadings = np.zeros((len(step), len(union), len(found)))
    for j, (columns, slope) in enumerate(found):
        loadings[:, np.searchsorted(union, columns), j] = slope
    return union, loadings


def _only(step: FloatArray, j: int) -> FloatArray:
    """Return steps in one column and none in the others."""
    alone = np.zeros_like(step)
    alone[:, j] = step[:, j]
    return alone
