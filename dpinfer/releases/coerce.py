"""Noisy values of whatever holds or gives them: the edge of every public function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import (
    WAYS,
    FloatArray,
    as_table,
    as_values,
    check_array,
    check_flag,
    check_option,
    freeze,
    of_axes,
    show,
    step_and_way,
)
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms.independent import (
    IndependentNoise,
    Mechanism,
    as_noise,
    integer_cells,
    refuse_selected,
)
from dpinfer.mechanisms.law import NoiseLaw, Origin, ParametricLaw, marked, refuse_same
from dpinfer.mechanisms.laws import Gaussian
from dpinfer.queries.domain import check_labels
from dpinfer.releases.noises import Bound, Noises, Part, Rule, new_origin
from dpinfer.releases.values import LARGEST_VALUE, NoisyValues, check_whole, product
from dpinfer.results.labels import split_labels, stack_labels

if TYPE_CHECKING:
    import pandas as pd


_LARGEST_BIN = 2.0**52

_SMALLEST_STEP = 1e-100

_ASYMMETRY = 1e-9
"""What a matrix of correlations may be off symmetry, or eigenvalues below 0, by rounding."""

_SINGULAR = 1e-13
"""Eigenvalues of a singular matrix of correlations below this, of the largest, are rounding."""

_PIVOT = 1e-12
"""Pivots below this show that a matrix of correlations is close to singular."""


def noisy(
    values: Any,
    *,
    mechanism: Mechanism | Mapping[str, Any] | None = None,
    labels: Sequence[Any] | pd.Index | None = None,
    weights: Any = None,
    covariance: Any = None,
    threshold: Any = None,
    clamp: Any = None,
    rounding: Any = None,
    bin_size: Any = None,
    missing: Missing = "raise",
    name: str = "values",
    called: str = "mechanism",
) -> NoisyValues:
    """Return noisy values of whatever holds or gives them, checked.

    Parameters
    ----------
    values : float, array, Series, DataFrame, Release or estimate
        The published values. A Series or DataFrame gives their labels, as do columns without
        numbers of other libraries. A release or a fit carries its own law.
    mechanism : NoiseLaw, sequence of NoiseLaw, or mapping
        The law of the noise: one for all values, or one for each. ``{"laplace": scales}`` names a
        law and gives its scales: a number, an array in the order of the values, or a Series, which
        is aligned with their labels. Left out where ``values`` carries its own.
    labels : sequence of length m, optional
        Labels of the values; by default their own.
    weights : array, sparse array or DataFrame, shape (m, q), optional
        The matrix W, known and not found from the values, where they are confidential values plus
        W z with q independent noises z of law ``mechanism``: running totals, nodes of a tree added
        up, any output of a matrix mechanism.
    covariance : array, sparse array or DataFrame, shape (m, m), optional
        The covariance matrix of Gaussian noise, in place of ``weights`` and ``mechanism``. Of low
        rank, C = W Wᵀ is given better as ``weights=W`` with ``Gaussian(sigma=1)``.
    threshold : float, array or Series, optional
        The values were published because they reached this.
    clamp : float or pair, optional
        The values were moved into these bounds: a lower bound, or ``(lower, upper)``.
    rounding : float, bool or pair, optional
        The noisy values were rounded to the nearest multiples of this number; True is 1.
        ``(5, "down")``, ``(5, "up")`` and ``(5, "toward zero")`` say another way: ``int`` cuts
        decimals toward zero. With 1 to the nearest, the confidential values are taken to be whole
        numbers, so that the error is rounded noise; an array or Series of 1 and 0 says which values
        were rounded so.
    bin_size : int, array or pair, optional
        The counts were rounded up to multiples of this *before* the noise; ``(5, "nearest")`` and
        ``(5, "down")`` say another way.
    missing : {"raise", "drop"}
        What to do where values are missing. ``"drop"`` leaves them out, with their entries of what
        is given for each value: inference about the others stays valid where *which* values are
        missing does not depend on their noise. Values that are missing as they were too small
        have a ``threshold``.
    name, called : str
        What messages call the values and the law.

    Returns
    -------
    NoisyValues
        The values with their law and their publishing rule.

    Raises
    ------
    InvalidParameterError
        If the parts do not fit together: no law for plain numbers, or one for values that carry
        their own; NaN, infinite or absurd values; fractions under noise that takes whole numbers
        only; labels that are not distinct.
    IncompatibleReleaseError
        If a value is below its threshold or outside of its clamping bounds.

    Warns
    -----
    RoundedValuesWarning
        If all values under noise with a density are whole numbers.

    Notes
    -----
    Values made in two calls are taken to be independent, even if they are the same numbers: to
    compare values with a function of themselves, make them once and derive the other from them.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> from dpinfer import noisy
    >>> x = noisy([120.5, 100.5], mechanism=Laplace(scale=2.0))
    >>> x.variance, x.law_of([1, -1]).variance.round(9)
    (array([8., 8.]), np.float64(16.0))
    >>> total = x.linear([1, 1])
    >>> x.beside(total).cov()
    array([[ 8.,  0.,  8.],
           [ 0.,  8.,  8.],
           [ 8.,  8., 16.]])
    """
    if type(missing) is not str or missing != "raise":
        each = {"labels": labels, "mechanism": mechanism, "weights": weights}
        each |= {"covariance": covariance, "threshold": threshold, "clamp": clamp}
        each |= {"bin_size": bin_size, "rounding": rounding}
        values, each = drop_missing(values, missing, name, each)
        labels, mechanism, weights, covariance, threshold, clamp, bin_size, rounding = each.values()
    plain = threshold is None and clamp is None and rounding is None and bin_size is None
    own_noise = weights is None and covariance is None
    if type(values) in (int, float) and plain and own_noise and labels is None:
        law: Any = mechanism  # the same as below, for loops over single numbers
        free = isinstance(law, ParametricLaw) and law.shape == () and not law._selected
        if free and abs(values) <= LARGEST_VALUE:
            one = np.array((values,), dtype=np.float64)
            x = NoisyValues(one, Noises(law, 1), shape=(), name=name)
            if law.is_integer is not float(values).is_integer():
                check_fit(x)
            return x
    rule = {"threshold": threshold, "clamp": clamp, "rounding": rounding, "bin_size": bin_size}
    if hasattr(values, "__noisy__") and not isinstance(values, type):
        stated = {called: mechanism, "labels": labels, "weights": weights}
        stated |= {"covariance": covariance} | rule
        for what, given in stated.items():
            if given is not None:
                raise InvalidParameterError(
                    f"{what} must be left out where {name} carries "
                    + ("its own law" if what == called else "how it was published")
                )
        return cast("NoisyValues", values.__noisy__())
    if mechanism is None and covariance is None:
        raise InvalidParameterError(
            f"{called} must be given, as {name} is plain numbers: the law of the noise in them, "
            "such as Laplace(scale=2.0)"
        )
    array, own = _numbers(values, name)
    if labels is not None:
        own = check_labels(labels, "labels", array.size, name)
    elif own is not None and not own.is_unique:
        raise InvalidParameterError(
            f"{name} must have distinct labels, got {show(own[own.duplicated()][0])} twice"
        )
    if not own_noise:
        refuse_rule_of_shared(name, plain)
        return of_shared_noises(array, own, weights, covariance, mechanism, name, called)
    mechanism = of_axes(mechanism)
    if isinstance(mechanism, Mapping) or hasattr(mechanism, "reindex"):
        mechanism = _laws_by_label(mechanism, own, array.size, name, called)
    given = array.shape if own is None else getattr(values, "shape", array.shape)
    noise = _as_law(mechanism, given, array.size, called, selected=not plain)
    noises, matrix = _base(noise, array.size)
    x = NoisyValues(
        array.reshape(-1), noises, shape=array.shape, labels=own, weights=matrix, name=name
    )
    if not plain:
        x = with_rule(x, **rule)
    check_fit(x)
    return x


def noisy_pair(
    first: Any,
    second: Any,
    mechanism: Any,
    names: tuple[str, str],
    called: str = "mechanism",
) -> tuple[NoisyValues, NoisyValues]:
    """Return two arguments as noisy values of one shape, or one of them a number.

    ``mechanism`` is a tuple with the law of each, or serves both that do not carry their own.
    """
    pair = mechanism
    if not isinstance(mechanism, tuple):
        carried = [hasattr(value, "__noisy__") for value in (first, second)]
        pair = [None if own and not all(carried) else mechanism for own in carried]
    if len(pair) != 2:
        raise InvalidParameterError(
            f"{called} must be one law, a list with a law for each value, or a pair of laws, got "
            f"a tuple of {len(pair)}"
        )
    refuse_same([law for law in pair if isinstance(law, NoiseLaw)], called)
    x, other = (
        noisy(value, mechanism=law, name=name, called=called)
        for value, law, name in zip((first, second), pair, names, strict=True)
    )
    labelled = x.labels is not None and other.labels is not None
    if labelled and len(x) == len(other) == 1 and not cast("Any", x.labels).equals(other.labels):
        x, other = (replace(one, labels=None, shape=()) for one in (x, other))
    y = x.aligned(other, names)
    if x.shape and y.shape and x.shape != y.shape:
        raise InvalidParameterError(
            f"{names[0]} and {names[1]} must have one shape, or one of them must be a number, got "
            f"{x.shape} and {y.shape}"
        )
    return x, y


def _numbers(values: Any, name: str) -> tuple[FloatArray, pd.Index | None]:
    """Return values as finite numbers of a sane size, and their labels, which messages name."""
    if type(values) is np.ndarray:
        sane = values.dtype == np.float64 and values.size and np.abs(values).max() <= LARGEST_VALUE
        if sane:
            return values.copy(), None
    try:
        return split_labels(values, name, ge=-LARGEST_VALUE, le=LARGEST_VALUE)
    except InvalidParameterError as error:
        refuse_missing(values, name, error)
        raise


Missing = Literal["raise", "drop"]
MISSING: tuple[Missing, ...] = ("raise", "drop")


def refuse_missing(values: Any, name: str, error: Exception) -> None:
    """Name the values that are missing or infinite, where these are what is wrong."""
    table = as_values(values, name)
    array, lost = missing_cells(table)
    bad = lost
    if array.dtype.kind == "f" and not lost.any():
        bad = ~np.isfinite(array)
    if not bad.any():
        return
    labels = table.index if hasattr(table, "iloc") else None
    if hasattr(table, "columns"):
        labels = stack_labels(table)
    rows = np.flatnonzero(bad)
    shown = ", ".join(
        f"{row}" if labels is None else f"{row} ({show(labels[row])})" for row in rows[:5]
    )
    shown += f" and {len(rows) - 5} more" if len(rows) > 5 else ""
    what = "hold real numbers, got None" if array[rows[0]] is None else "not contain NaN"
    raise InvalidParameterError(
        f"{name} must {what} at position {shown}: {OFFER}"
        if lost.any()
        else f"{name} must be finite, got {array[rows[0]]} at position {shown}"
    ) from error


OFFER = "leave missing values out with missing='drop' of dpinfer.noisy or dpinfer.Release"


def refuse_columns(values: Any, name: str) -> None:
    """Refuse a table of several columns where one is meant."""
    shape = np.shape(values) if isinstance(values, np.ndarray) else getattr(values, "shape", ())
    if isinstance(shape, tuple) and len(shape) > 1 and shape[1] != 1:
        raise InvalidParameterError(f"{name} must be one column, got a table of shape {shape}")


def missing_cells(table: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return values in a row, and which of them are missing; none of what is no array."""
    import pandas as pd

    try:
        array = np.ravel(np.asarray(table))
    except Exception:  # refused by the check of values, which says why
        array = np.empty(0)
    return array, np.asarray(pd.isna(array))


def drop_missing(
    values: Any, missing: Missing, name: str, given: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Return the values that are there, and what is given for each without that of the others."""
    import pandas as pd

    from dpinfer.queries.workload import Workload

    if check_option(missing, "missing", MISSING) == "raise" or hasattr(values, "__noisy__"):
        return values, given
    table = as_values(values, name)
    if hasattr(table, "columns"):
        table = pd.Series(table.to_numpy().ravel(), stack_labels(table))
    lost = missing_cells(table)[1]
    at, labels = np.flatnonzero(~lost), table.index if hasattr(table, "iloc") else None
    if len(at) in (0, len(lost)):
        return values, given

    def kept(entries: Any, key: str = "") -> Any:
        if key in WAYS:
            step, way = step_and_way(entries, key, "up")
            return kept(step) if step is entries else (kept(step), way)
        entries = as_table(entries)
        if isinstance(entries, Mapping):
            return {key: kept(one) for key, one in entries.items()}
        if isinstance(entries, (NoiseLaw, Workload)):
            return entries.take(at) if entries.shape[:1] == lost.shape else entries
        if isinstance(entries, (list, tuple)) and len(entries) == len(lost):
            return [entries[place] for place in at]
        if np.shape(entries)[:1] != lost.shape:
            return entries
        if not hasattr(entries, "iloc"):
            return (entries.tocsr() if hasattr(entries, "tocsr") else entries)[at]
        if labels is not None and entries.index.isin(labels).all():
            return entries[entries.index.isin(labels[at])]
        return entries.to_numpy()[at]

    shared = given.get("weights") is not None  # the law is that of other noises
    whole = ("clamp", "mechanism") if shared else ("clamp",)
    found = {key: one if key in whole else kept(one, key) for key, one in given.items()}
    if found.get("covariance") is not None:  # in rows, and now in columns
        found["covariance"] = kept(found["covariance"].T)
    ends = given.get("clamp")
    found["clamp"] = tuple(map(kept, ends)) if isinstance(ends, (list, tuple)) else kept(ends)
    there = table.iloc[at] if labels is not None else missing_cells(table)[0][at]
    return there, {key: found[key] for key in given}


def _as_law(
    mechanism: Any, shape: tuple[int, ...], size: int, called: str, *, selected: bool = False
) -> NoiseLaw:
    """Return the joint law of so many noises, of shape () or (size,)."""
    if isinstance(mechanism, ParametricLaw) and not mechanism.shape and not mechanism._selected:
        return mechanism
    if (
        isinstance(mechanism, ParametricLaw)
        and len(mechanism.shape) > 1
        and mechanism.shape == shape
    ):
        own = mechanism._parameters()
        flat = {key: np.broadcast_to(value, shape).ravel() for key, value in own.items()}
        mechanism = marked(mechanism._with(flat), mechanism._selected)
    law = as_noise(mechanism, size, name=called, dependence="used", selected=True)
    if not selected:
        refuse_selected([mechanism] if isinstance(mechanism, NoiseLaw) else mechanism, called)
    return marked(law, selected=False)


def _base(law: NoiseLaw, size: int) -> tuple[Noises, Any]:
    """Return the noises of a law, and weights where it is that of sums which know theirs."""
    if not law._shares:
        return Noises(law, size), None
    from dpinfer.mechanisms.weighted_sum import _Noises

    found = _Noises.of(law, size)
    parts: list[Part] = [(origin, positions, len(positions)) for origin, positions in found.origins]
    rest = found.matrix.shape[1] - sum(count for *_, count in parts)
    if rest:
        parts.append((new_origin(), None, rest))
    return Noises(found.law, found.matrix.shape[1], parts), found.matrix.tocsr()


def _laws_by_label(
    mechanism: Any, labels: pd.Index | None, size: int, name: str, called: str
) -> Any:
    """Return the law whose parameters, or the laws, are given under the labels of the values."""
    if not isinstance(mechanism, Mapping):
        return _by_label(mechanism, labels, size, name, called).tolist()
    # tables of values and their workloads are not loaded for a number and its law
    from dpinfer.releases.frames import canonical_kind, laws_of_rows, parameters_of_kind

    given = dict(mechanism)
    if "mechanism" in given:
        kind = given.pop("mechanism")
    elif len(given) == 1:
        [(kind, value)] = given.items()
        [first, *_] = parameters_of_kind(canonical_kind(kind)) or [None]
        given = {} if first is None else {first: value}
    else:
        raise InvalidParameterError(
            f"{called} must be a law, or name one law and its parameters, as in {{'laplace': "
            f"scales}}, got {show(mechanism)}"
        )
    columns: dict[str, Any] = {}
    for key, entry in given.items():
        value = of_axes(entry)
        if hasattr(value, "reindex"):
            value = _by_label(value, labels, size, name, key)
        columns[key] = check_array(value, key)
        if columns[key].shape not in ((), (size,)):
            raise InvalidParameterError(
                f"{key} must be a number, or have one entry for each of the {size} values, got "
                f"shape {columns[key].shape}"
            )
    return laws_of_rows(kind, columns, size)


def _by_label(
    series: Any, labels: pd.Index | None, size: int, name: str, called: str
) -> NDArray[Any]:
    """Return a Series in the order of the values."""
    if labels is None:
        raise InvalidParameterError(
            f"{called} must be an array in the order of the values, as {name} has no labels, got a "
            "Series: pass its to_numpy()"
        )
    if hasattr(series, "columns"):
        import pandas as pd

        series = pd.Series(series.to_numpy().ravel(), stack_labels(series))
    rows = labels.get_indexer(series.index) if series.index.is_unique else np.array([-1])
    if len(series) != size or (rows < 0).any():
        raise InvalidParameterError(f"{called} must have the labels of {name}, each once")
    return np.asarray(series.reindex(labels).to_numpy())


def refuse_rule_of_shared(name: str, plain: bool) -> None:
    """Refuse a publishing rule of values that share noises."""
    if not plain:
        raise InvalidParameterError(
            f"weights must be left out, and covariance, where {name} were selected, clamped or "
            "rounded: what is known of such values is about noises of their own"
        )


def of_shared_noises(
    array: FloatArray,
    labels: pd.Index | None,
    weights: Any,
    covariance: Any,
    mechanism: Any,
    name: str,
    called: str = "mechanism",
    origin: Origin | None = None,
) -> NoisyValues:
    """Return values whose noise is W z, of which the weights W or W Wᵀ is given."""
    from scipy import sparse

    from dpinfer.mechanisms.weighted_sum import _check_magnitude
    from dpinfer.queries.workload import read_only

    if covariance is not None:
        for other, given in (("weights", weights), (called, mechanism)):
            if given is not None:
                raise InvalidParameterError(
                    f"{other} must be left out where covariance is given, which is that of "
                    "Gaussian noise: of other noise give the weights of independent noises"
                )
        weights, mechanism = _factor(covariance, array.size, labels, name), Gaussian(sigma=1.0)
    elif labels is not None and hasattr(weights, "iloc"):
        _refuse_order(weights.index, labels, "weights", name, "rows")
    dense = not sparse.issparse(weights)
    if dense:
        held = check_array(weights, "weights", ndim=2)
    else:
        held = check_array(weights.tocsr().data, "weights", nonempty=False)
    _check_magnitude(np.ravel(held))
    matrix = sparse.csr_array(held if dense else weights, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if matrix.ndim != 2 or matrix.shape[0] != array.size or not matrix.shape[1]:
        raise InvalidParameterError(
            f"weights must have {array.size} rows, one for each of the values, got shape "
            f"{matrix.shape}"
        )
    count = matrix.shape[1]
    law = _as_law(mechanism, (count,), count, called)
    noises, inner = _base(law, count)
    if inner is not None:
        matrix = product(matrix, inner, np.arange(count))
    elif origin is not None:
        noises = Noises(law, count, [(origin, None, count)])
    return NoisyValues(
        array.reshape(-1),
        noises,
        shape=array.shape,
        labels=labels,
        weights=read_only(matrix),
        name=name,
    )


def _refuse_order(own: Any, labels: pd.Index, what: str, name: str, where: str) -> None:
    """Refuse a frame whose labels are not those of the values in their order."""
    if not own.equals(labels):
        raise InvalidParameterError(
            f"{what} must have the labels of {name} in the same order, in {where}: reindex it "
            "first, or give its to_numpy() to go by position"
        )


def _factor(covariance: Any, size: int, labels: pd.Index | None, name: str) -> FloatArray:
    """Return W with W Wᵀ = C: the Cholesky factor, or where C is singular one of fewer columns."""
    if hasattr(covariance, "toarray"):
        covariance = covariance.toarray()
    if labels is not None and hasattr(covariance, "iloc"):
        for own in (covariance.index, covariance.columns):
            _refuse_order(own, labels, "covariance", name, "rows and columns")
        covariance = covariance.to_numpy()
    c = check_array(covariance, "covariance")
    if c.shape != (size, size):
        raise InvalidParameterError(
            f"covariance must be of shape ({size}, {size}), as there are {size} values, got "
            f"{c.shape}"
        )
    variance = c.diagonal()
    std = np.sqrt(np.maximum(variance, 0.0))
    units = np.where(std > 0, std, 1.0)
    correlation = c / units / units[:, None]
    off = np.abs(correlation - correlation.T).max()
    if off > _ASYMMETRY:
        raise InvalidParameterError(
            f"covariance must be symmetric, got correlations that differ by {off:.2g}"
        )
    correlation = 0.5 * (correlation + correlation.T)
    try:
        factor = np.linalg.cholesky(correlation)
        if np.square(factor.diagonal()).min() > _PIVOT:
            return np.asarray(units[:, None] * factor)
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(correlation)
    if values[0] < -_ASYMMETRY * max(values[-1], 1.0) or (variance < 0).any():
        raise InvalidParameterError(
            "covariance must have no negative eigenvalues, got a matrix of correlations with "
            f"{values[0]:.4g}"
        )
    kept = values > _SINGULAR * values[-1]
    if not kept.any():
        raise InvalidParameterError(
            "covariance must not be 0: values without noise have mechanism=Exact()"
        )
    factor = vectors[:, kept] * np.sqrt(values[kept])
    return np.where(np.abs(factor) > _SINGULAR, std[:, None] * factor, 0.0)


def rule_of(
    x: NoisyValues, *, threshold: Any = None, clamp: Any = None, bin_size: Any = None
) -> Rule:
    """Return how values were published, each bound a number or one for each of them."""
    rule = Rule()
    if threshold is not None:
        rule = replace(rule, threshold=_bound(x, threshold, "threshold"))
    if clamp is not None:
        ends = clamp if isinstance(clamp, (tuple, list)) else (clamp, None)
        if len(ends) != 2:
            raise InvalidParameterError(
                f"clamp must be a lower bound or a pair (lower, upper), got {show(clamp)}"
            )
        lowest = _bound(x, -np.inf if ends[0] is None else ends[0], "clamp")
        highest = _bound(x, np.inf if ends[1] is None else ends[1], "clamp")
        if np.any(np.asarray(lowest) >= highest):
            raise InvalidParameterError(f"clamp must have lower < upper, got {show(clamp)}")
        rule = replace(rule, lowest=lowest, highest=highest)
    if bin_size is not None:
        size, way = step_and_way(bin_size, "bin_size", "up")
        before = _bound(x, size, "bin_size", whole=True)
        rule = replace(rule, before=before, before_way=way)
    return rule


def with_rule(x: NoisyValues, *, rounding: Any = None, **bounds: Any) -> NoisyValues:
    """Return the values with a publishing rule, which they have to fit."""
    if x.weights is not None:
        raise InvalidParameterError(
            f"{x.name} must be published values where they have a threshold, a clamp or bins, "
            "got estimates that combine several"
        )
    plain = rounding is None or rounding is False
    if plain and x.rule is None and all(bound is None for bound in bounds.values()):
        return x
    noises, rule = x.noises, rule_of(x, **bounds)
    if not plain:
        noises, rule = _after_rounding(x, rule, rounding)
    for bad, words, bound in (
        (x.values < rule.lowest, "below its clamping bound", rule.lowest),
        (x.values > rule.highest, "above its clamping bound", rule.highest),
        (x.values < rule.threshold, "below the threshold of publication", rule.threshold),
    ):
        if bad.any():
            at = int(bad.argmax())
            limit = np.broadcast_to(bound, len(x))[at]
            raise IncompatibleReleaseError(f"{x._named(at)} must not be {words} {limit:g}")
    held = rule if rule.of(len(x)).any() else None
    return NoisyValues(x.values, noises, shape=x.shape, labels=x.labels, rule=held, name=x.name)


def _after_rounding(x: NoisyValues, rule: Rule, rounding: Any) -> tuple[Noises, Rule]:
    """Return the noises and the rule of values that were rounded after the noise."""
    given, way = step_and_way(rounding, "rounding", "nearest")
    if given is True or given is False:
        given = float(given)
    steps = np.broadcast_to(_bound(x, given, "rounding"), len(x))
    if (bad := ~(np.isfinite(steps) & ((steps == 0) | (steps >= _SMALLEST_STEP)))).any():
        raise InvalidParameterError(f"rounding must be a step > 0, got {steps[bad][0]:g}")
    units = np.where(steps > 0, steps, 1.0)
    off = np.abs(x.values - np.rint(x.values / units) * units) > 1e-9 * units
    if (off := off & (steps > 0)).any():
        at = int(off.argmax())
        raise InvalidParameterError(
            f"{x.name} must be multiples of {steps[at]:g} where they were rounded to such, got "
            f"{x._named(at)}"
        )
    for bound in (rule.lowest, rule.highest):
        limits = np.where(np.isfinite(bound), bound, 0.0)
        off = (np.abs(limits - np.rint(limits / units) * units) > 1e-9 * units) & (steps > 0)
        if off.any():
            at = int(off.argmax())
            raise InvalidParameterError(
                f"clamp must be multiples of {steps[at]:g} where {x.name} were rounded to such, "
                f"got {np.broadcast_to(limits, len(x))[at]:g}: else a clamped value cannot be told "
                "from another"
            )
    if way == "nearest" and np.isin(steps, (0.0, 1.0)).all():
        return _of_rounded_noise(x, steps == 1), rule
    if (steps != steps[0]).any():
        raise InvalidParameterError(
            "rounding must be one step for all values, or 1 and 0 for those that were rounded to "
            f"the nearest whole number and those that were not, got {steps.min():g} and "
            f"{steps.max():g}: make one release for each step"
        )
    if np.isfinite(rule.threshold).any():
        raise InvalidParameterError(
            f"rounding must be 1 or None where {x.name} were selected by a threshold, got "
            f"{show(rounding)}: intervals near a threshold move by more than what rounding hides. "
            "Publish the values with their decimals, or the list of all cells without a threshold"
        )
    return x.noises, replace(rule, after=float(steps[0]), after_way=way)


def _of_rounded_noise(x: NoisyValues, rounded: NDArray[np.bool_]) -> Noises:
    parts: list[tuple[NoiseLaw, NDArray[np.intp]]] = []
    for law, cells in x.laws():
        for was in (True, False):
            own = np.flatnonzero(rounded[cells] == was)
            if own.size:
                part = law.take(own) if law.shape else law
                parts.append((_rounded(part) if was else part, cells[own]))
    return Noises(IndependentNoise.from_groups(parts, len(x)), len(x), x.noises.parts)


def _bound(x: NoisyValues, value: Any, name: str, *, whole: bool = False) -> Bound:
    """Return a bound on each of the values; a Series under 0, 1, ... has them by position."""
    if x.labels is not None and hasattr(value, "index"):
        from dpinfer.releases.frames import is_counting

        value = value.to_numpy() if is_counting(value.index) else value
    if whole:
        array = x.setting(value, name, whole=True, ge=1, le=_LARGEST_BIN)
    else:
        array = x.setting(value, name, finite=False)
    if array.ndim and array.size != len(x):
        raise InvalidParameterError(
            f"{name} must be a number or have {len(x)} entries, one for each of the values, got "
            f"shape {array.shape}"
        )
    return freeze(array) if array.ndim else float(array)


def _rounded(law: NoiseLaw) -> NoiseLaw:
    from dpinfer.mechanisms.rounded import Rounded

    return law if law.is_integer else Rounded(cast("Any", law))


def check_fit(x: NoisyValues, *, error: type[ValueError] = InvalidParameterError) -> None:
    """Refuse fractions under whole noise, and warn of whole numbers under noise with a density."""
    if x.weights is not None:
        return
    fraction = x.values != np.floor(x.values)
    if fraction.any():
        check_whole(x, error=error)
    if fraction.all() or (x.rule is not None and x.rule.after > 0):
        return
    from dpinfer.mechanisms.rounded import warn_of_rounding

    law, values = x._own_law(), x.values
    if x.rule is not None:
        free = np.flatnonzero((values != x.rule.lowest) & (values != x.rule.highest))
        law, values = law.take(free) if law.shape else law, values[free]
    warn_of_rounding(values, law, x.name)


def is_noisy(nobs: Any, mechanism: Mechanism | None, is_total: bool) -> bool:
    """Whether numbers of trials were published with noise."""
    carried = hasattr(nobs, "__noisy__")
    if check_flag(is_total, "nobs_is_total") and (carried or mechanism is None):
        raise InvalidParameterError(
            "nobs_is_total must be left out where nobs carries its own law: whether count is a "
            "summand of it is known then"
            if carried
            else "nobs_mechanism must be given with nobs_is_total=True: the law of the noise of "
            "the other summands, Exact() where they have none"
        )
    return carried or mechanism is not None


# Lists of cells of which some were not published, as they did not reach a threshold.


class ListedCells(NamedTuple):
    """Cells of a list, with a value that is not used where they are not published."""

    x: NoisyValues
    there: NDArray[np.bool_]
    first: FloatArray
    """The smallest value that is published, -inf where all are."""
    last: FloatArray
    """The largest that is not."""
    given: bool
    """Whether the list says which cells were not published, or that there are none."""

    @property
    def is_processed(self) -> bool:
        """Whether more was done to the values than noise and a threshold."""
        rule = self.x.rule
        return self.x.weights is not None or (
            rule is not None
            and bool(
                rule.after
                or np.greater(rule.before, 1).any()
                or (np.isfinite(rule.lowest) | np.isfinite(rule.highest)).any()
            )
        )


def listed_cells(
    values: Any,
    mechanism: Mechanism | None,
    threshold: Any,
    cells: Any = None,
    *,
    name: str = "values",
) -> ListedCells:
    """Return the cells of a list, NaN where unpublished, checked; ``cells`` has labels of all."""
    import pandas as pd

    if hasattr(values, "__noisy__"):
        x = noisy(values, mechanism=mechanism, threshold=threshold, name=name)
        if cells is None:
            return _cells(x, np.ones(len(x), dtype=bool), given=False)
        bound = -np.inf if x.rule is None else x.rule.threshold
        if x.weights is not None or x.noises.law.shape or np.ndim(bound):
            raise InvalidParameterError(
                "cells must be left out for a release whose laws or thresholds differ by value: "
                "give a Series of all cells, NaN where unpublished, with mechanism= and threshold="
            )
        values, mechanism, threshold = pd.Series(x.values, x.labels), x.noises.law, bound
    table = as_values(values, name)
    if hasattr(table, "columns"):
        table = pd.Series(table.to_numpy().ravel(), stack_labels(table))
    if cells is not None:
        table = _reindexed(table, cells)
    held, lost = missing_cells(table)
    complete = isinstance(table, np.ma.MaskedArray) or not lost.any()
    if complete:
        x = noisy(table, mechanism=mechanism, threshold=threshold, name=name)
        return _cells(x, np.ones(len(x), dtype=bool), given=cells is not None)
    array = check_array(np.where(lost, 0.0, held), name)
    bounds = np.full(1, -np.inf) if threshold is None else _plain(threshold)
    if bounds.size not in (1, array.size):
        raise InvalidParameterError(
            f"threshold must be a number or have one entry for each of the {array.size} cells, got "
            f"{bounds.size}"
        )
    bounds = np.broadcast_to(bounds.ravel(), array.size)
    if (bounds[lost] == -np.inf).any():
        raise InvalidParameterError(
            "threshold must be given for every cell that is NaN, the value that it did not reach"
        )
    fill = np.ceil(bounds)
    if lost.all() and not isinstance(mechanism, Mapping):  # no warning of rounding
        fill = np.where(_whole(mechanism, array.size), fill, fill + 0.5)
    array = np.where(lost, fill, array)
    given = pd.Series(array, table.index) if hasattr(table, "iloc") else array
    x = noisy(given, mechanism=mechanism, threshold=threshold, name=name)
    return _cells(x, ~lost, given=True)


def _plain(threshold: Any) -> FloatArray:
    table = as_values(threshold, "threshold")
    return check_array(table, "threshold", finite=False).ravel()


def _whole(mechanism: Any, size: int) -> Any:
    return integer_cells(as_noise(mechanism, size, selected=True), size)


def _reindexed(table: Any, cells: Any) -> Any:
    import pandas as pd

    if isinstance(cells, (int, np.integer)) and not isinstance(cells, bool):
        size = missing_cells(table)[0].size
        if cells != size:
            raise InvalidParameterError(
                f"cells must be the number of values, published and NaN, {size}, or the labels of "
                f"all cells, got {show(cells)}"
            )
        return table
    if not hasattr(table, "reindex") or not np.ndim(cells):
        raise InvalidParameterError(
            "cells must be the labels of all cells, for values with labels, or the number of "
            f"values where none is missing, got {show(cells)}"
        )
    index = cells if isinstance(cells, pd.Index) else pd.Index(list(cells), name=table.index.name)
    if not index.is_unique or not table.index.is_unique or not table.index.isin(index).all():
        raise InvalidParameterError(
            "cells must hold each label once, and those of all values: the list was made without "
            "looking at what was published"
        )
    return table.reindex(index)


def _cells(x: NoisyValues, there: NDArray[np.bool_], *, given: bool) -> ListedCells:
    bound = np.broadcast_to(-np.inf if x.rule is None else x.rule.threshold, len(x))
    if x.weights is not None:  # for those who refuse them to say why
        return ListedCells(x, there, bound, bound, given)
    whole = integer_cells(x._own_law(), len(x))
    first = np.where(whole, np.ceil(bound), bound)
    return ListedCells(x, there, first, np.where(whole, first - 1.0, first), given)
