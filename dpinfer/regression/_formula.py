"""Designs from formulas, and how the errors of the data enter their columns."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from itertools import combinations, compress
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import statsmodels.api as sm
import statsmodels.formula.api as smf

from dpinfer._check import (
    FloatArray,
    as_pandas,
    as_table,
    check_array,
    check_length,
    is_foreign,
    one_line,
    show,
    show_some,
)
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.estimation.published import check_published
from dpinfer.mechanisms.independent import as_noise, groups
from dpinfer.mechanisms.law import NoiseLaw, ParametricLaw, refuse_dependent
from dpinfer.mechanisms.weighted_sum import WeightedSum
from dpinfer.releases.coerce import noisy
from dpinfer.releases.values import NoisyValues
from dpinfer.results.labels import split_labels

if TYPE_CHECKING:
    import pandas as pd


# Excess kurtosis of noise laws.


_NODES = 64
_WHOLE_RADIUS = 1.0
"""Whole-numbered noise repeats every 2πi, and so do the singularities."""

_NOTHING = 1e-20
"""Noise with a standard deviation below it counts as Gaussian: it is lost in rounding."""


def excess_kurtosis(law: NoiseLaw, size: int) -> FloatArray:
    """Return E[e⁴]/E[e²]² - 3 of each of ``size`` noises, 0 where there is none."""
    out = np.empty(size)
    for part, cells in groups(law, size):
        if isinstance(part, WeightedSum):
            total = max(float(part.std), _NOTHING)
            out[cells] = sum(
                (
                    block.counts * (block.weights * block.law.std / total) ** 4 * _cauchy(block.law)
                ).sum()
                for block in part._terms.blocks
            )
        else:
            assert isinstance(part, ParametricLaw)  # there is no other kind
            out[cells] = _cauchy(part)
    return out


def _cauchy(law: ParametricLaw) -> FloatArray:
    """Fourth coefficient of the cumulant generating function, by Cauchy's integral on a circle.

    The circle stays a factor of two or more inside the nearest singularity, so that the error of
    the trapezoidal rule is at most of the order 2^-64.
    """
    std = np.asarray(law.std)
    noisy = std > _NOTHING
    scale = np.where(noisy, std, 1.0)
    radius = np.minimum(0.5 / scale, law._abscissa / 3.0)
    if law.is_integer:
        radius = np.minimum(radius, _WHOLE_RADIUS)
    circle = np.exp(2j * np.pi * np.arange(_NODES) / _NODES)
    total = np.zeros(std.shape)
    for point in circle:
        total += (law._cgf(np.asarray(point * radius)) * point**-4).real
    return np.asarray(np.where(noisy, 24.0 * total / _NODES / (radius * scale) ** 4, 0.0))


# What is known of the errors of the columns of a table.


LARGEST = 1e50
"""Beyond it, products of four numbers could overflow."""

_ERRORS_ROUNDING = 1e-9

NoiseOf = Mapping[Any, Any]
"""What a ``noise=`` argument takes: a law or standard deviations for each noisy column."""


def published_columns(endog: Any, exog: Any, noise: Any, *, grouped: bool) -> tuple[Any, Any, Any]:
    """Return response and columns as plain data, and what noise there is in each.

    Noisy values among them bring their laws; where they share noises, the covariances of their
    errors within a row.
    """
    held: dict[Hashable, NoisyValues] = {}
    if not isinstance(endog, str) and hasattr(endog, "__noisy__"):
        held["y"] = noisy(endog, name="endog")
        endog = _plain(held["y"])
    if isinstance(exog, Mapping) and not hasattr(exog, "iloc"):
        import pandas as pd

        found = {key: noisy(x) for key, x in exog.items() if hasattr(x, "__noisy__")}
        try:
            exog = pd.DataFrame({**exog, **{key: _plain(x) for key, x in found.items()}})
        except (TypeError, ValueError) as error:
            raise InvalidParameterError(
                f"exog must be a mapping of names to columns of one length: {one_line(error)}"
            ) from error
        held |= found
    elif hasattr(exog, "__noisy__"):
        raise InvalidParameterError(
            "exog must be a table, or a mapping of names to columns of which some carry their own "
            f"law, got {show(exog)}: write {{'x1': values, ...}}, with a constant if there is one"
        )
    if not held:
        if noise is None:
            raise InvalidParameterError(
                "noise must be given, as endog and exog are plain numbers: a mapping of each noisy "
                "column to the law or the standard deviation of its errors"
            )
        return endog, exog, noise
    laws = {} if noise is None else dict(noise) if isinstance(noise, Mapping) else {None: noise}
    for key, x in held.items():
        if key in laws:
            raise InvalidParameterError(f"noise must leave out {key!r}, which carries its own law")
        x.need(unruled=True, who="noisy_ols")
        laws[key] = x.marginal
    if len({len(x) for x in held.values()}) > 1:
        sizes = ", ".join(f"{show(key)} has {len(x)}" for key, x in held.items())
        raise InvalidParameterError(f"columns must have one length: {sizes}")
    return endog, exog, laws | _covariances(held, grouped)


def _plain(x: NoisyValues) -> Any:
    if x.labels is None:
        return x.values
    import pandas as pd

    return pd.Series(x.values, index=x.labels)


def _covariances(held: dict[Hashable, NoisyValues], grouped: bool) -> dict[Any, FloatArray]:
    """Return the covariances of the errors of pairs of columns within rows, where there are any."""
    names, (together, *others) = list(held), held.values()
    for x in others:
        together = together.beside(x)
    if together.are_independent():
        return {}
    size = len(together) // len(names)
    rows = np.arange(size)
    # of blocks of rows, so that no n × n matrix is made
    found = {pair: np.empty(size) for pair in combinations(range(len(names)), 2)}
    step = max(1, _BLOCK // len(together))
    weights = together._rows(np.arange(len(together)))
    scaled = weights.multiply(np.sqrt(together._noise_variance())[np.newaxis]).tocsr()
    for start in range(0, size, step):
        part = rows[start : start + step]
        for i in range(len(names)):
            block = (scaled[part + i * size] @ scaled.T).toarray()
            own = part + np.arange(len(names))[:, np.newaxis] * size
            between = block.copy()
            between[part - start, own] = 0.0
            if between.any() and not grouped:
                raise InvalidParameterError(
                    f"{show(names[i])} must have errors that are independent from row to row, got "
                    "values that share noises between rows: give groups and cov_type='cluster'"
                )
            for j in range(i + 1, len(names)):
                found[i, j][part] = block[part - start, own[j]]
    return {(names[i], names[j]): value for (i, j), value in found.items() if value.any()}


_BLOCK = 1 << 22
"""Covariances that are looked at together."""


@dataclass(frozen=True)
class ColumnErrors:
    """Errors of k columns of a table with n rows, independent from row to row."""

    columns: list[Hashable]
    covariance: FloatArray  # in each row, shape (n, k, k)
    laws: list[NoiseLaw | None]  # None where only the variance is known

    @property
    def std(self) -> FloatArray:
        """Standard deviations, shape (n, k)."""
        return np.asarray(np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2)))

    def checked(self, column: Hashable, values: Any) -> FloatArray:
        """Return the published values of a column, refused where the law does not fit them."""
        name = show(column)
        array = check_array(values, name, ge=-LARGEST, le=LARGEST)
        law = self.laws[self.columns.index(column)]
        if law is not None:
            check_published(array, name, law)
        return array

    def excess(self) -> FloatArray:
        """Excess kurtosis, shape (n, k); 0, as for Gaussian errors, where no law is known."""
        size = len(self.covariance)
        return np.column_stack(
            [np.zeros(size) if law is None else excess_kurtosis(law, size) for law in self.laws]
        )


def column_errors(
    noise: NoiseOf,
    size: int,
    labels: pd.Index | None,
    is_column: Callable[[Any], bool],
    read: Callable[[str], Any] | None,
) -> ColumnErrors:
    """Return the errors that a ``noise=`` argument describes."""
    if not isinstance(noise, Mapping) or not len(noise):
        raise InvalidParameterError(
            "noise must be a mapping of each noisy column to the law or the standard deviation "
            f"of its errors, got {show(noise)}"
        )
    known = {key: value for key, value in noise.items() if is_column(key)}
    pairs = {key: value for key, value in noise.items() if key not in known}
    for key in pairs:
        if not (isinstance(key, tuple) and len(set(key)) == 2 == len(key) and set(key) <= {*known}):
            raise InvalidParameterError(
                "noise must have as keys columns of the data, or pairs of columns that are keys "
                f"themselves, got {show(key)} besides {show_some(known)}"
            )
    columns = list(known)
    covariance = np.zeros((size, len(columns), len(columns)))
    laws: list[NoiseLaw | None] = []
    for j, (column, value) in enumerate(known.items()):
        name = f"noise[{column!r}]"
        law, variance = _one_column(value, name, size, labels, read)
        covariance[:, j, j] = variance
        laws.append(law)
    if not pairs:
        refuse_dependent([law for law in laws if law is not None], "noise")
    for (first, second), value in pairs.items():
        name = f"noise[{first!r}, {second!r}]"
        i, j = columns.index(first), columns.index(second)
        if np.any(covariance[:, i, j]):
            raise InvalidParameterError(f"{name} must be given once, not in both orders")
        given = _one_each(value, name, size, labels, ge=-(LARGEST**2), le=LARGEST**2)
        covariance[:, i, j] = covariance[:, j, i] = given
    if pairs:
        _check_possible(covariance)
        laws = [None] * len(columns)  # marginal laws do not determine the joint one
    return ColumnErrors(columns, covariance, laws)


def _one_column(
    value: Any,
    name: str,
    size: int,
    labels: pd.Index | None,
    read: Callable[[str], Any] | None,
) -> tuple[NoiseLaw | None, FloatArray]:
    """Law, if known, and variances of the errors of one column."""
    if isinstance(value, NoiseLaw) or (
        isinstance(value, (list, tuple)) and any(isinstance(item, NoiseLaw) for item in value)
    ):
        law = as_noise(value, size, name=name)
        std = check_array(np.broadcast_to(law.std, size), name, le=LARGEST)
        return law, np.square(std)
    if isinstance(value, str) and read is not None:
        value = read(value)
    std = _one_each(value, name, size, labels, ge=0.0, le=LARGEST)
    return None, np.square(std)


def _one_each(
    value: Any, name: str, size: int, labels: pd.Index | None, *, ge: float, le: float
) -> FloatArray:
    """Numbers, one for each row or one for all."""
    array, own = split_labels(value, name, ge=ge, le=le)
    if own is not None and labels is not None and not own.equals(labels):
        raise InvalidParameterError(
            f"{name} must have the labels of the data in the same order: reindex it first"
        )
    if array.shape not in ((), (size,)):
        raise InvalidParameterError(
            f"{name} must be a number or have one entry for each of the {size} rows, got shape "
            f"{array.shape}"
        )
    return np.broadcast_to(array, size)


def _check_possible(covariance: FloatArray) -> None:
    """Refuse what is no covariance matrix."""
    std = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    scale = np.where(std > 0, std, 1.0)
    unit = covariance / scale[:, :, None] / scale[:, None, :]
    smallest = np.linalg.eigvalsh(unit)[:, 0]
    # a covariance of a column without errors is an eigenvalue below zero as well
    if (bad := smallest < -_ERRORS_ROUNDING).any():
        raise InvalidParameterError(
            "noise must have covariances that fit the standard deviations, got an impossible "
            f"covariance matrix in row {int(np.flatnonzero(bad)[0])}"
        )


# Response, covariates and the errors in them, row by row.


_SMALLEST = 1e-50

_WIDEST = 1e-13
"""The pseudoinverse of statsmodels drops singular values below 1e-15 of the largest."""


@dataclass(frozen=True)
class Design:
    """A regression of noisy columns on noisy columns."""

    model: Any  # a WLS of statsmodels: published response, design matrix, weights, names, labels
    loadings: FloatArray  # of the errors in response and p columns, shape (n, 1 + p, k)
    errors: ColumnErrors
    labelled: bool  # whether results carry the names of the columns
    spec: Any = None  # what builds the design matrix of other data, for a formula
    notes: tuple[str, ...] = ()

    @property
    def endog(self) -> FloatArray:
        """Published response, shape (n,)."""
        return np.asarray(self.model.endog, dtype=np.float64)

    @property
    def exog(self) -> FloatArray:
        """Published design matrix, shape (n, p)."""
        return np.asarray(self.model.exog, dtype=np.float64)

    @property
    def weights(self) -> FloatArray:
        """Weights of the rows, shape (n,)."""
        return np.broadcast_to(np.asarray(self.model.weights, dtype=np.float64), self.endog.shape)

    @property
    def names(self) -> list[str]:
        """Names of the columns of the design matrix."""
        return list(self.model.exog_names)

    @property
    def row_labels(self) -> Any:
        return self.model.data.row_labels if self.labelled else None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out a specification by patsy, which cannot be pickled."""
        picklable = self.spec is None or hasattr(self.spec, "get_model_matrix")
        return self.__dict__ | ({} if picklable else {"spec": None})

    def error_covariance(self) -> FloatArray:
        """Covariance matrices of the errors of (response, covariates), shape (n, 1 + p, 1 + p)."""
        return np.asarray(self.loadings @ self.errors.covariance @ np.swapaxes(self.loadings, 1, 2))


def array_design(endog: Any, exog: Any, noise: NoiseOf, weights: Any) -> Design:
    """Return the design of a response and a matrix of covariates."""
    response, rows, name = _response(endog)
    matrix, columns, other = _matrix(exog)
    check_length(matrix, "exog", len(response), "the values of endog")
    if rows is not None and other is not None and not rows.equals(other):
        raise InvalidParameterError(
            "exog must have the labels of endog in the same order: reindex it first"
        )
    labels = rows if rows is not None else other
    if labels is None and (is_foreign(endog) or is_foreign(exog)):
        labels = _numbered(len(response))
    if columns is None and labels is not None:
        columns = checked_model(response, matrix, weights, labels).exog_names
    if labels is not None:
        import pandas as pd

        response = pd.Series(response, index=labels, name=name)
        matrix = pd.DataFrame(matrix, index=labels, columns=columns)
    model = checked_model(response, matrix, weights, labels)
    keys: list[Hashable] = [name, *(model.exog_names if columns is None else columns)]
    if len(set(keys)) < len(keys):
        raise InvalidParameterError(f"endog and exog must have different names, got {keys}")
    errors = column_errors(noise, len(response), labels, lambda key: key in keys, None)
    selection = np.zeros((len(keys), len(errors.columns)))
    values = np.column_stack([response, matrix])
    for j, column in enumerate(errors.columns):
        errors.checked(column, values[:, keys.index(column)])
        selection[keys.index(column), j] = 1.0
    loadings = np.broadcast_to(selection, (len(response), *selection.shape))
    return Design(model, loadings, errors, labels is not None)


def checked_model(endog: Any, exog: Any, weights: Any, labels: pd.Index | None) -> Any:
    """Return a WLS model of statsmodels, after checks of what least squares needs."""
    response = check_array(np.asarray(endog), "endog", ge=-LARGEST, le=LARGEST)
    matrix = check_array(np.asarray(exog), "exog", ge=-LARGEST, le=LARGEST)
    for values, name in ((response[:, None], "endog"), (matrix, "exog")):
        size = np.abs(values).max(axis=0)
        if ((size > 0) & (size < _SMALLEST)).any():
            raise InvalidParameterError(
                f"{name} must not have columns below {_SMALLEST:g} in size: rescale them"
            )
    given = _weights(weights, len(matrix), labels)
    _check_rank(matrix * np.sqrt(np.reshape(given, (-1, 1))))
    return sm.WLS(endog, exog, weights=given)


def _check_rank(matrix: FloatArray) -> None:
    """Refuse columns that do not determine coefficients, or not as statsmodels computes them."""
    rows, columns = matrix.shape
    if rows <= columns:
        raise NotEstimableError(f"{columns} coefficients need more than {columns} rows, got {rows}")
    size = np.abs(matrix).max(axis=0)
    if np.linalg.matrix_rank(matrix / np.where(size > 0, size, 1.0)) < columns:
        raise NotEstimableError(
            "the columns of the design matrix are linearly dependent: drop those that follow from "
            "the others"
        )
    singular = np.linalg.svd(matrix, compute_uv=False)
    if singular[-1] < _WIDEST * singular[0]:
        raise InvalidParameterError(
            "the columns of the design matrix must not differ so much in size, or be so nearly "
            f"dependent, that their singular values differ by more than {1 / _WIDEST:.0e}: rescale "
            "them, or centre those that vary little"
        )


def _weights(weights: Any, size: int, labels: pd.Index | None) -> Any:
    """Weights of the rows; 1 where none are given."""
    if weights is None:
        return 1.0
    weights = as_table(weights, "weights")
    own = getattr(weights, "index", None) if hasattr(weights, "to_numpy") else None
    if own is not None and labels is not None and not own.equals(labels):
        raise InvalidParameterError(
            "weights must have the labels of the data in the same order: reindex them first"
        )
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
        return check_array(column.to_numpy(), "endog", ndim=1), _labels(endog, column), name
    return check_array(column, "endog", ndim=1), None, "y"


def _matrix(exog: Any) -> tuple[FloatArray, pd.Index | None, pd.Index | None]:
    """Values, names of the columns and labels of the rows of the design matrix."""
    table = as_pandas(exog, "exog")
    if hasattr(table, "index") and hasattr(table, "to_numpy"):
        frame = table if hasattr(table, "columns") else table.to_frame(name=table.name or "x1")
        columns = frame.columns.to_flat_index()  # statsmodels joins the names of levels as strings
        return check_array(frame.to_numpy(), "exog", ndim=2), columns, _labels(exog, frame)
    array = check_array(table, "exog")
    matrix = array[:, None] if array.ndim == 1 else array
    return check_array(matrix, "exog", ndim=2), None, None


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
