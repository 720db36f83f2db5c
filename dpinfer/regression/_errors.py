"""What is known of the errors of the columns of a table, and which of them rows share."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpinfer._check import (
    FloatArray,
    as_pandas,
    check_array,
    one_line,
    show,
    show_some,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import check_published
from dpinfer.mechanisms._sums.terms import kurtosis_of
from dpinfer.mechanisms.independent import as_noise, groups
from dpinfer.mechanisms.law import NoiseLaw, ParametricLaw, refuse_dependent
from dpinfer.mechanisms.weighted_sum import WeightedSum
from dpinfer.releases.coerce import noisy
from dpinfer.releases.values import NoisyValues
from dpinfer.results.labels import check_order, split_labels

if TYPE_CHECKING:
    import pandas as pd


# Excess kurtosis of noise laws.


def excess_kurtosis(law: NoiseLaw, size: int) -> FloatArray:
    """Return E[e⁴]/E[e²]² - 3 of each of ``size`` noises, 0 where there is none."""
    out = np.empty(size)
    for part, cells in groups(law, size):
        if isinstance(part, WeightedSum):
            out[cells] = part._terms.kurtosis
        else:
            assert isinstance(part, ParametricLaw)  # there is no other kind
            out[cells] = kurtosis_of(part)
    return out


# What is known of the errors of the columns of a table.


LARGEST = 1e50
"""Beyond it, products of four numbers could overflow."""

_ERRORS_ROUNDING = 1e-9

NoiseOf = Mapping[Any, Any]
"""What a ``noise=`` argument takes: a law or standard deviations for each noisy column."""


Across = Literal["refuse", "ignore", "keep"]
"""What to do with errors that are dependent between rows."""


def published_columns(
    endog: Any, exog: Any, noise: Any, *, across: Across, who: str
) -> tuple[Any, Any, Any, SharedNoises | None]:
    """Return response and columns as plain data, what noise there is in each, and between rows.

    Noisy values among them bring their laws; where they share noises, the covariances of their
    errors within a row.
    """
    held: dict[Hashable, NoisyValues] = {}
    matrices: dict[Hashable, FloatArray] = {}
    if isinstance(noise, Mapping):
        given, noise = noise, dict(noise)
        for key, value in given.items():
            if hasattr(value, "__noisy__"):
                held[key] = _of_column(noise.pop(key), key, endog, exog)
            elif across == "keep" and not isinstance(value, NoiseLaw) and np.ndim(value) == 2:
                matrices[key], noise[key] = _factor(value, f"noise[{key!r}]")
    if not isinstance(endog, str) and hasattr(endog, "__noisy__"):
        held["y"] = noisy(endog, name="endog")
        endog = plain(held["y"])
    if isinstance(exog, Mapping) and not hasattr(exog, "iloc"):
        import pandas as pd

        found = {key: noisy(x) for key, x in exog.items() if hasattr(x, "__noisy__")}
        try:
            exog = pd.DataFrame({**exog, **{key: plain(x) for key, x in found.items()}})
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
        return endog, exog, noise, SharedNoises.of({}, matrices)
    laws = {} if noise is None else dict(noise) if isinstance(noise, Mapping) else {None: noise}
    for key, x in held.items():
        if key in laws:
            raise InvalidParameterError(f"noise must leave out {key!r}, which carries its own law")
        x.need(unruled=True, who=who)
        laws[key] = x.marginal
    if len({len(x) for x in held.values()}) > 1:
        sizes = ", ".join(f"{show(key)} has {len(x)}" for key, x in held.items())
        raise InvalidParameterError(f"columns must have one length: {sizes}")
    pairs, between = _covariances(held, across)
    return endog, exog, laws | pairs, SharedNoises.of(held if between else {}, matrices)


def _of_column(given: Any, key: Any, endog: Any, exog: Any) -> NoisyValues:
    """Return noisy values that are given for their noise, whose values are those of the column."""
    name = f"noise[{key!r}]"
    x = noisy(given, name=name)
    table = exog if isinstance(exog, Mapping) else as_pandas(exog, "exog")
    if isinstance(table, Mapping) or hasattr(table, "columns"):
        column = table.get(key)
    else:
        matrix = check_array(table, "exog", ndim=2) if np.ndim(table) == 2 else None
        names = [] if matrix is None else numbered_names(matrix)
        column = matrix[:, names.index(key)] if matrix is not None and key in names else None
    if column is None and not isinstance(endog, str) and getattr(endog, "name", "y") == key:
        column = endog
    if column is None:
        raise InvalidParameterError(
            f"noise must have as keys columns of the data, or pairs of them, got {show(key)}"
        )
    values = check_array(column, show(key), ndim=1)
    size = np.abs(x.values).max(initial=0.0)
    if values.shape != x.values.shape or (np.abs(values - x.values) > 1e-9 * size).any():
        raise InvalidParameterError(
            f"{name} must be noisy values that are those of the column, got others: put its values "
            "into the data, in the same order"
        )
    return x


def _factor(value: Any, name: str) -> tuple[FloatArray, FloatArray]:
    """Return L of a covariance matrix LLᵀ, and its standard deviations."""
    matrix = check_array(value, name, ndim=2, ge=-(LARGEST**2), le=LARGEST**2)
    size = float(np.abs(matrix).max())
    good = matrix.shape[0] == matrix.shape[1] and np.allclose(matrix, matrix.T, 1e-9, 1e-12 * size)
    roots, vectors = np.linalg.eigh(matrix / (size or 1.0)) if good else (np.array([-1.0]), matrix)
    if roots[0] < -_ERRORS_ROUNDING:
        raise InvalidParameterError(
            f"{name} must be a symmetric, positive semi-definite covariance matrix of the errors "
            f"of the rows, got shape {matrix.shape}"
        )
    root = vectors * np.sqrt(np.maximum(roots, 0.0) * size)
    return root, np.sqrt(np.square(root).sum(axis=1))


@dataclass(frozen=True)
class SharedNoises:
    """Errors of columns as independent noises of variance 1 that rows share."""

    weights: dict[Hashable, Any]  # of the columns, shapes (n, s), sparse
    excess: FloatArray  # kurtosis of the noises, shape (s,)

    @classmethod
    def of(
        cls, held: dict[Hashable, NoisyValues], matrices: dict[Hashable, FloatArray]
    ) -> SharedNoises | None:
        """Join noisy values, and columns with a covariance matrix, independent of all others."""
        if not held and not matrices:
            return None
        from scipy import sparse

        parts: list[dict[Hashable, Any]] = [{key: L} for key, L in matrices.items()]
        excess = [np.zeros(L.shape[1]) for L in matrices.values()]
        if held:
            together, *others = held.values()
            for x in others:
                together = together.beside(x)
            scale = np.sqrt(together._noise_variance())[np.newaxis]
            rows = together._rows(np.arange(len(together))).multiply(scale).tocsr()
            size = len(together) // len(held)
            parts.append({key: rows[i * size : (i + 1) * size] for i, key in enumerate(held)})
            excess.append(excess_kurtosis(together.noises.law, together.noises.size))
        size = len(next(iter(matrices.values()))) if matrices else size
        weights = {
            key: sparse.hstack(
                [
                    sparse.csr_array(part[key] if key in part else (size, len(own)))
                    for part, own in zip(parts, excess, strict=True)
                ],
                format="csr",
            )
            for part in parts
            for key in part
        }
        return cls(weights, np.concatenate(excess))


def without_missing(endog: Any, exog: Any, *rest: Any) -> tuple[Any, ...]:
    """Leave out the rows in which the response, a column that is used, or what is given lacks.

    ``rest``, also in mappings, is kept by rows where it has them, or names columns.
    """
    import pandas as pd

    exog = as_pandas(exog, "exog")
    given = [endog]
    for one in rest:
        given += one.values() if isinstance(one, Mapping) else [one]
    if isinstance(endog, str) and hasattr(exog, "columns"):
        words = {*re.findall(r"\w+", endog), *(one for one in given if isinstance(one, str))}
        named = [
            str(name) in words or (not str(name).isidentifier() and str(name) in endog)
            for name in exog.columns
        ]
        used = exog.loc[:, named]
    else:
        used = exog
    size = len(exog) if np.ndim(exog) else 0
    lost = np.zeros(size, dtype=bool)
    for one in (used, *given):
        if not isinstance(one, NoiseLaw) and np.shape(one)[:1] == (size,):
            lost |= np.asarray(pd.isna(one)).reshape(size, -1).any(axis=1)
    if not lost.any():
        return endog, exog, *rest
    at = np.flatnonzero(~lost)
    if not at.size:
        raise InvalidParameterError("exog must have a row without missing values, got none")

    def kept(entries: Any) -> Any:
        if isinstance(entries, Mapping):
            return {key: kept(one) for key, one in entries.items()}
        if isinstance(entries, str) or np.shape(entries)[:1] != (size,):
            return entries
        if isinstance(entries, NoiseLaw):
            return entries.take(at)
        if isinstance(entries, (list, tuple)):
            return [entries[place] for place in at]
        return entries.iloc[at] if hasattr(entries, "iloc") else np.asarray(entries)[at]

    return kept(endog), kept(exog), *map(kept, rest)


def plain(x: NoisyValues) -> Any:
    if x.labels is None:
        return x.values
    import pandas as pd

    return pd.Series(x.values, index=x.labels)


def _covariances(
    held: dict[Hashable, NoisyValues], across: Across
) -> tuple[dict[Any, FloatArray], bool]:
    """Return covariances of errors of pairs of columns within rows, and if rows share noises."""
    names, (together, *others) = list(held), held.values()
    for x in others:
        together = together.beside(x)
    if together.are_independent():
        return {}, False
    shared = False
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
            shared |= bool((np.abs(between) > _ERRORS_ROUNDING * np.abs(block).max()).any())
            if shared and across == "refuse":
                raise InvalidParameterError(
                    f"{show(names[i])} must have errors that are independent from row to row, got "
                    "values that share noises between rows: give groups and cov_type='cluster', or "
                    "fit a line with noisy_ols, which takes their covariances"
                )
            for j in range(i + 1, len(names)):
                found[i, j][part] = block[part - start, own[j]]
    pairs = {(names[i], names[j]): value for (i, j), value in found.items() if value.any()}
    return pairs, shared and across == "keep"


_BLOCK = 1 << 22
"""Covariances that are looked at together."""


@dataclass(frozen=True)
class ColumnErrors:
    """Errors of k columns of a table, independent from row to row but for what is ``between``.

    Arrays by row have one row where all rows are alike.
    """

    columns: list[Hashable]
    variance: FloatArray  # shape (1 or n, k)
    shared: dict[tuple[int, int], FloatArray]  # covariances of pairs of columns, shape (1 or n,)
    laws: list[NoiseLaw | None]  # None where only the variance is known
    between: SharedNoises | None = None  # what rows share

    @property
    def std(self) -> FloatArray:
        """Standard deviations, shape (1 or n, k)."""
        return np.sqrt(self.variance)

    def covariance(self, rows: slice) -> FloatArray:
        """Covariance matrices of some rows, shape (1 or their number, k, k)."""
        variance = by_row(self.variance, rows)
        shared = {pair: by_row(value, rows) for pair, value in self.shared.items()}
        size = max([len(variance), *map(len, shared.values())])
        out = np.zeros((size, variance.shape[1], variance.shape[1]))
        np.einsum("ijj->ij", out)[:] = variance
        for (i, j), value in shared.items():
            out[:, i, j] = out[:, j, i] = value
        return out

    def checked(self, column: Hashable, values: Any) -> FloatArray:
        """Return the published values of a column, refused where the law does not fit them."""
        name = show(column)
        array = check_array(values, name, ge=-LARGEST, le=LARGEST)
        law = self.laws[self.columns.index(column)]
        if law is not None:
            check_published(array, name, law)
        return array

    def excess(self) -> FloatArray:
        """Excess kurtosis, shape (1 or n, k); 0, as of Gaussian errors, where no law is known."""
        sizes = [max(1, *law.shape) if law is not None and law.shape else 1 for law in self.laws]
        return _side_by_side(
            [
                np.zeros(1) if law is None else excess_kurtosis(law, size)
                for law, size in zip(self.laws, sizes, strict=True)
            ]
        )


def numbered_names(matrix: FloatArray) -> list[str]:
    """Name columns as statsmodels does: ``"const"`` for the first without variance, else xj."""
    names = [f"x{j + 1}" for j in range(matrix.shape[1])]
    for j in np.flatnonzero(matrix[0] == matrix[-1]):
        if matrix[:, j].var() == 0:
            return [*names[:j], "const", *names[j:-1]]
    return names


def by_row(values: FloatArray, rows: slice) -> FloatArray:
    """Return the entries of some rows, or the one entry that holds for all."""
    return values if len(values) == 1 else values[rows]


def _side_by_side(columns: list[FloatArray]) -> FloatArray:
    """Columns of one entry, or one for each row, as a matrix; one row where all have one entry."""
    return np.column_stack(np.broadcast_arrays(*columns))


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
    variances: list[FloatArray] = []
    laws: list[NoiseLaw | None] = []
    for column, value in known.items():
        law, variance = _one_column(value, f"noise[{column!r}]", size, labels, read)
        variances.append(variance)
        laws.append(law)
    if not pairs:
        refuse_dependent([law for law in laws if law is not None], "noise")
    shared: dict[tuple[int, int], FloatArray] = {}
    for (first, second), value in pairs.items():
        name = f"noise[{first!r}, {second!r}]"
        i, j = columns.index(first), columns.index(second)
        if (j, i) in shared:
            raise InvalidParameterError(f"{name} must be given once, not in both orders")
        shared[i, j] = one_each(value, name, size, labels, ge=-(LARGEST**2), le=LARGEST**2)
    if pairs:
        laws = [None] * len(columns)  # marginal laws do not determine the joint one
    errors = ColumnErrors(columns, _side_by_side(variances), shared, laws)
    if pairs:
        _check_possible(errors.covariance(slice(None)))
    return errors


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
        return law, np.square(_alike(check_array(np.atleast_1d(law.std), name, le=LARGEST)))
    if isinstance(value, str) and read is not None:
        value = read(value)
    std = one_each(value, name, size, labels, ge=0.0, le=LARGEST)
    return None, np.square(std)


def one_each(
    value: Any, name: str, size: int, labels: pd.Index | None, *, ge: float, le: float
) -> FloatArray:
    """Numbers, one for each row, or one where all are the same."""
    array, own = split_labels(value, name, ge=ge, le=le)
    check_order(own, labels, name, "the data")
    if array.shape not in ((), (size,)):
        raise InvalidParameterError(
            f"{name} must be a number or have one entry for each of the {size} rows, got shape "
            f"{array.shape}"
        )
    return _alike(np.atleast_1d(array))


def _alike(values: FloatArray) -> FloatArray:
    return values[:1] if (values == values[0]).all() else values


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
