"""Intervals for published, post-processed tables from replicates of the algorithm that made them.

Such a table went through steps after the noise, so that its errors have no law in closed form. But
the algorithm can be run again with the published table as its input: how far the replicates are
from the published table stands for how far that one is from the confidential one.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import (
    RNG,
    FloatArray,
    as_pandas,
    as_values,
    check_alpha,
    check_array,
    check_flag,
    check_integer,
    check_option,
    check_scalar,
    freeze,
    one_line,
    show,
    show_some,
)
from dpinfer.errors import ApproximationWarning, InvalidParameterError
from dpinfer.releases.tables import check_path
from dpinfer.results.files import write_whole
from dpinfer.results.intervals import Intervals
from dpinfer.results.labels import attach_labels, find_rows, hold_arrays, split_labels
from dpinfer.results.simulation import Simulation, child_seed, progress_bar, run_tasks

if TYPE_CHECKING:
    import pandas as pd

Method = Literal["t", "normal", "bias-adjusted", "conditional", "percentile", "reflected"]

_LARGEST = 1e150  # squares are finite
_FEW = 10
_MOST_RUNS = 1_000_000
_BLOCK = 1 << 22
"""Errors that are held at a time."""

_BY_CHANCE = 1e-9
"""How improbable a replicate like the published table is that is taken for that table."""

_COVERED = {
    "t": ("0.85 of counts of 5 to 10, 0.92 to 0.98 of others", "0.90 and 0.94 to 0.99"),
    "normal": ("0.77 of counts of 5 to 10, 0.87 to 0.96 of others", "0.84 and 0.90 to 0.98"),
    "bias-adjusted": ("0.79 of counts of 5 to 10, 0.93 to 0.97 of others", "0.84 and 0.95 to 0.98"),
    "conditional": ("0.84 of counts of 5 to 10, 0.92 to 0.98 of others", "0.90 and 0.94 to 0.99"),
    "percentile": ("0.79 of counts from 11 on, 0.82 to 0.96 of others", "0.83 and 0.87 to 0.98"),
    "reflected": ("0.42 of counts of 1 to 4, 0.62 to 0.93 of others", "0.44 and 0.63 to 0.94"),
}
"""What covered at the nominal level 0.9, and rounded outwards, in the study of the tests."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ReplicateIntervals(Intervals):
    """Approximate intervals from replicates, with the errors that the replicates show.

    Made by :func:`replicate_confint`. It is used like any :class:`~dpinfer.results.Intervals`;
    ``guarantee`` is ``"approximate"``, and the notes say what is known of the coverage.

    Attributes
    ----------
    published : array of float
        The query on the published table.
    bias : array of float
        Mean of the query on the replicates minus ``published``.
    bse : array of float
        Standard deviation of the query on the replicates, with the divisor S - 1.
    rmse : array of float
        Root of the mean squared difference between replicates and ``published``, divisor S.
    adjusted : array of bool
        Whether the bias was subtracted from the centre, which is ``estimate``.
    degenerate : array of bool
        Whether the interval has no width because all replicates are alike, which is no certainty:
        not of what was declared invariant.
    nreplicates : int
        The number S of replicates.
    """

    title: ClassVar[str] = "Approximate confidence intervals from replicates"
    guarantee: ClassVar[str] = "approximate"
    _by_row: ClassVar[tuple[str, ...]] = (
        *Intervals._by_row,
        *("published", "bias", "bse", "rmse", "adjusted", "degenerate"),
    )

    published: Any
    bias: Any
    bse: Any
    rmse: Any
    adjusted: Any
    degenerate: Any
    nreplicates: int

    def __post_init__(self) -> None:
        hold_arrays(self, self._by_row[:-2], self.labels)
        for name in self._by_row[-2:]:
            held = freeze(np.asarray(getattr(self, name), dtype=bool))
            object.__setattr__(self, name, attach_labels(held, self.labels))

    @property
    def facts(self) -> list[tuple[str, object]]:
        """What the head of the summary says: that the level is approximate, too."""
        more = [("Guarantee", self.guarantee), ("Replicates", self.nreplicates)]
        return [*super().facts, *more]

    def summary_frame(self) -> pd.DataFrame:
        """Return the table of intervals with what the replicates show, a row for each.

        ``attrs`` holds ``guarantee`` and ``nreplicates`` as well.
        """
        frame = super().summary_frame()
        for name in self._by_row[3:]:
            frame[name] = np.ravel(getattr(self, name))
        frame.attrs |= {"guarantee": self.guarantee, "nreplicates": self.nreplicates}
        return frame

    @property
    def _how(self) -> str:
        return f"{super()._how}, {self.guarantee}"


def replicate_confint(
    published: Any,
    replicates: Any,
    *,
    function: Callable[[Any], Any] | None = None,
    method: Method = "t",
    df: float | Literal["exact"] = 5,
    alpha: float = 0.05,
    integer: bool = False,
    lower: float | None = None,
    invariant: Any = None,
    min_count: float = 5,
    min_ratio: float = 0.5,
    min_count_positive: float = 25,
) -> ReplicateIntervals:
    """Approximate intervals for the values before noise, from replicates of a published table.

    For tables that come out of a fitting step, such as those of the 2020 Census: they are not what
    a mechanism gave, and no law of their errors is known. Where noisy values were published too,
    intervals by the law of the noise are exact: see the guide on published tables.

    Parameters
    ----------
    published : float, array, Series or DataFrame, shape (k...)
        The published table. Values are at most 1e150 in size.
    replicates : array, shape (S, k...), or DataFrame
        The same of S >= 2 runs of the whole algorithm that took the published table as their
        input. A DataFrame has a column for each run, and a row for each label of ``published``, in
        any order; the labels of a published DataFrame are the pairs (row, column). Arrays go by
        position. The published run is none of them: :func:`from_long` takes it out.
    function : callable, optional
        A query, computed on the published table and on each replicate, which it gets in the form
        of ``published``: a sum, difference, share or index. It returns a number, an array or a
        Series. By default the values themselves.
    method : {"t", "normal", "bias-adjusted", "conditional", "percentile", "reflected"}
        How the interval is made; see Notes. ``"conditional"`` is for counts only.
    df : int >= 1, inf or "exact", default 5
        Degrees of freedom of the critical value, for ``"t"``, ``"bias-adjusted"`` and
        ``"conditional"``; inf is the normal law, ``"exact"`` is S.
    alpha : float, default 0.05
        One minus the nominal level, in (0, 1).
    integer : bool, default False
        Whether to round the ends outwards to whole numbers, as the source does, which covers more
        of small counts. ``restrict(integer=True)`` of the result rounds inwards instead, which
        covers what intervals with neither cover.
    lower : float, optional
        A bound that the values are known to respect, 0 for counts; the ends are rounded after it.
    invariant : label, list of labels, positions, mask or bool, optional
        Values that the algorithm is known to leave as they are: no width is then certainty.
    min_count, min_ratio, min_count_positive : float, default 5, 0.5 and 25
        The rule of ``"conditional"``, which was tuned to counts of persons at the level 0.9.

    Returns
    -------
    ReplicateIntervals
        Intervals with ``uncertainty="noise"`` and ``guarantee="approximate"``.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, labels do not match, or a value that was
        declared invariant differs between replicates.

    Warns
    -----
    ApproximationWarning
        If there are fewer than 10 replicates, one looks like the published run, or intervals have
        no width because all replicates are alike. Then P(replicate ≠ published) may still be up
        to 1 - 0.05^(1/S), with confidence 0.95: 0.113 for S = 25.

    Notes
    -----
    With q0 the query on the published table, q_1, …, q_S on the replicates, the bias
    B = mean(q_i) - q0, the variance V = Σ(q_i - mean)²/(S - 1) and M = Σ(q_i - q0)²/S, which is
    B² + V(S - 1)/S, the intervals are

    - ``"t"``: q0 ± t·√M with the quantile t of Student's law with ``df`` degrees of freedom;
    - ``"normal"``: q0 ± z·√M with the normal quantile z;
    - ``"bias-adjusted"``: q0 - B ± t·√M;
    - ``"conditional"``: that where q0 > ``min_count``, abs(B)/√V >= ``min_ratio`` with V > 0, and
      either B < 0 or q0 >= ``min_count_positive``, and q0 ± t·√M elsewhere;
    - ``"percentile"``: the quantiles alpha/2 and 1 - alpha/2 of the q_i;
    - ``"reflected"``: twice q0 minus these.

    If errors of replicates were draws from the law of the published error, and it were normal with
    mean 0, ``df="exact"`` would have the level. The 5 of the source is a margin found by
    experiment: the level 0.9 would become 0.945, and 0.888 for ``"normal"`` (S = 25).

    None of this is proved. The law is that around the published table, not the confidential one:
    near zero, where the algorithm is pushed back by its constraints, these differ. Large biases
    are underestimated, as in blocks and tracts. Sums of many such values, and functions that are
    not linear, are better served by ``"bias-adjusted"``, small counts by ``"t"``. Percentiles of
    25 replicates cover too little, and are moved by a bias to the wrong side. Errors of several
    values depend on each other: compute a contrast by ``function``, never from their ``rmse``.
    Simultaneous intervals cannot be had from few replicates, but by ``alpha``/k for each of k.

    References
    ----------
    Ashmead, R., Hawes, M. B., Pritts, M., Zhuravlev, P. and Keller, S. A. (2024). An approximate
    Monte Carlo simulation method for estimating uncertainty and constructing confidence intervals
    for 2020 Census statistics. U.S. Census Bureau.

    Examples
    --------
    >>> replicates = [[10, 3], [8, 5], [14, 2], [9, 0], [12, 4], [11, 3], [9, 5], [7, 2], [13, 4],
    ...               [10, 1]]
    >>> found = replicate_confint([11, 3], replicates, alpha=0.1, integer=True, lower=0)
    >>> found
    ReplicateIntervals(2 intervals, level 0.9, t, approximate)
    >>> found.lower, found.upper, found.rmse.round(2)
    (array([6., 0.]), array([16.,  7.]), array([2.21, 1.58]))

    The difference of the two, each replicate whole:

    >>> lower, upper = replicate_confint(
    ...     [11, 3], replicates, function=lambda table: table[0] - table[1], alpha=0.1
    ... )
    >>> lower.round(2), upper.round(2)
    (np.float64(2.67), np.float64(13.33))
    """
    chosen = check_option(method, "method", get_args(Method))
    level = check_alpha(alpha)
    outwards = check_flag(integer, "integer")
    floor = None if lower is None else check_scalar(lower, "lower")
    rule = [
        check_scalar(value, name)
        for name, value in (
            ("min_count", min_count),
            ("min_ratio", min_ratio),
            ("min_count_positive", min_count_positive),
        )
    ]
    q0, runs, labels = _read(published, replicates, function)
    size = len(runs)
    found = _errors(q0, runs)
    count, centre = _degrees(df, size), q0
    adjusted = np.zeros(q0.shape, dtype=bool)
    if chosen == "bias-adjusted":
        adjusted = np.ones(q0.shape, dtype=bool)
    elif chosen == "conditional":
        _check_counts(q0, runs)
        adjusted = _rule(q0, found, *rule)
    with np.errstate(over="ignore", invalid="ignore"):
        if chosen in ("percentile", "reflected"):
            low, high = np.quantile(runs, [level / 2.0, 1.0 - level / 2.0], axis=0)
            if chosen == "reflected":
                low, high = 2.0 * q0 - high, 2.0 * q0 - low
        else:
            centre = np.where(adjusted, q0 - found.bias, q0)
            critical = _critical(np.inf if chosen == "normal" else count, level)
            margin = np.where(found.rmse > 0, critical * found.rmse, 0.0)
            low, high = centre - margin, centre + margin
    known = _invariant(invariant, found, q0.shape, labels)
    degenerate = found.alike & (low == high) & ~known
    if floor is not None:
        low = np.maximum(low, floor)
    if outwards:
        low, high = np.floor(low), np.ceil(high)
    empty = low > high
    return ReplicateIntervals(
        estimate=centre,
        lower=np.where(empty, np.inf, low),
        upper=np.where(empty, -np.inf, high),
        alpha=level,
        method=chosen,
        uncertainty="noise",
        labels=labels,
        notes=_remarks(chosen, size, int(np.count_nonzero(degenerate))),
        published=q0,
        bias=found.bias,
        bse=found.bse,
        rmse=found.rmse,
        adjusted=adjusted,
        degenerate=degenerate,
        nreplicates=size,
    )


def _degrees(df: object, size: int) -> float:
    if isinstance(df, str):
        check_option(df, "df", ("exact",))
        return float(size)
    number = check_scalar(df, "df", ge=1, finite=False)
    return number if np.isinf(number) else float(check_integer(number, "df"))


def _critical(df: float, alpha: float) -> float:
    # of the lower tail, which is exact for small alpha
    tail = max(alpha / 2.0, np.finfo(float).tiny)
    return -float(special.ndtri(tail) if np.isinf(df) else special.stdtrit(df, tail))


@dataclass(frozen=True, eq=False)
class _Errors:
    """How far replicates are from what was published, and whether they are all alike."""

    bias: FloatArray
    bse: FloatArray
    rmse: FloatArray
    alike: NDArray[np.bool_]


def _errors(q0: FloatArray, runs: FloatArray) -> _Errors:
    size, target = len(runs), q0.ravel()
    bias, bse, rmse = np.empty((3, target.size))
    alike = np.empty(target.size, dtype=bool)
    step = max(_BLOCK // size, 1)
    for start in range(0, target.size, step):
        part = slice(start, start + step)
        errors = runs.reshape(size, -1)[:, part] - target[part]
        same = alike[part] = (errors == errors[0]).all(axis=0)
        bias[part] = np.where(same, errors[0], errors.mean(axis=0))
        rmse[part] = np.sqrt(np.einsum("ij,ij->j", errors, errors) / size)
        errors -= bias[part]
        bse[part] = np.sqrt(np.einsum("ij,ij->j", errors, errors) / (size - 1))
    found = [x.reshape(q0.shape) for x in (bias, bse, rmse)]
    return _Errors(found[0], found[1], found[2], alike.reshape(q0.shape))


def _rule(
    q0: FloatArray, found: _Errors, least: float, ratio: float, positive: float
) -> NDArray[np.bool_]:
    biased = (found.bse > 0) & (np.abs(found.bias) >= ratio * found.bse)
    return np.asarray((q0 > least) & biased & ((found.bias < 0) | (q0 >= positive)))


def _check_counts(q0: FloatArray, runs: FloatArray) -> None:
    for name, values in (("published", q0), ("replicates", runs)):
        bad = (values < 0) | (values != np.floor(values))
        if bad.any():
            raise InvalidParameterError(
                f"{name} must hold counts for method='conditional', whose rule was tuned to counts"
                f" of persons, got {values[bad][0]}: use 'bias-adjusted' or 't'"
            )


def _invariant(
    which: Any, found: _Errors, shape: tuple[int, ...], labels: pd.Index | None
) -> NDArray[np.bool_]:
    known = np.zeros(found.rmse.size, dtype=bool)
    if isinstance(which, (bool, np.bool_)):
        known[:] = which
    elif which is not None:
        try:
            known[find_rows(which, shape, labels)] = True
        except (InvalidParameterError, OverflowError) as error:
            raise InvalidParameterError(f"invariant must name values: {error}") from error
    moved = known & (found.rmse.ravel() > 0)
    if moved.any():
        raise InvalidParameterError(
            "invariant must name values that no replicate changes, got "
            f"{_name(int(np.argmax(moved)), labels)}, from which replicates differ"
        )
    return known.reshape(shape)


def _name(at: int, labels: pd.Index | None) -> str:
    return f"value {at}" if labels is None else show(labels[at])


def _remarks(method: Method, size: int, degenerate: int) -> tuple[str, ...]:
    """Say what is known of the coverage, and warn of what is no basis for intervals."""
    plain, rounded = _COVERED[method]
    notes = [
        "approximate: what replicates do to the published table stands for what was done to the "
        f"confidential one. At the nominal level 0.9 {method!r} covered {plain} in a study of "
        f"616 counts with 25 replicates and df = 5; {rounded} if rounded outwards"
    ]
    if size < _FEW:
        notes.append(f"there are only {size} replicates, of which little can be learned")
    if degenerate:
        bound = -np.expm1(np.log(0.05) / size)
        notes.append(
            f"{degenerate} of the intervals have no width because all replicates are alike, which "
            "is no certainty: by the 95 % bound up to "
            f"{bound:.3g} of all replicates may differ; declare what is invariant"
        )
    for note in notes[1:]:
        warnings.warn(note, ApproximationWarning, stacklevel=3)
    return tuple(notes)


# Tables, and functions of them.


def _read(
    published: Any, replicates: Any, function: Callable[[Any], Any] | None
) -> tuple[FloatArray, FloatArray, pd.Index | None]:
    """Return the query on the published table and on each replicate, and its labels."""
    bounds: dict[str, Any] = {"ge": -_LARGEST, "le": _LARGEST}
    table = as_values(published, "published")
    values, labels = split_labels(table, "published", **bounds)
    held = as_values(replicates, "replicates")
    names: list[Any] | None = None
    if hasattr(held, "columns") and hasattr(held, "iloc"):
        if labels is None:
            raise InvalidParameterError(
                "published must have the labels of replicates where these are a DataFrame: pass a "
                "Series, or arrays with the replicates on the first axis"
            )
        names = held.columns.tolist()
        held = _aligned(held, labels).T
    runs = check_array(held.to_numpy() if hasattr(held, "to_numpy") else held, "replicates")
    if runs.ndim and runs.shape[1:] in (values.shape, np.shape(table)):
        runs = runs.reshape(len(runs), *values.shape)
    else:
        raise InvalidParameterError(
            "replicates must have one axis more than published, the first for the replicates, got "
            f"shape {runs.shape} for {np.shape(table)}"
        )
    check_array(runs, "replicates", **bounds)
    if len(runs) < 2:
        raise InvalidParameterError(f"replicates must be at least two, got {len(runs)}")
    _check_published_run(values, runs, names)
    if function is None:
        return values, runs, labels
    if not callable(function):
        raise InvalidParameterError(f"function must be a function of a table, got {show(function)}")
    q0, own = split_labels(function(_like(table, values)), "function(published)", **bounds)
    answers = np.empty((len(runs), *q0.shape))
    for at, run in enumerate(runs):
        name = f"function(replicate {at if names is None else show(names[at])})"
        answer, its = split_labels(function(_like(table, run)), name, **bounds)
        same = its is None if own is None else its is not None and own.equals(its)
        if answer.shape != q0.shape or not same:
            raise InvalidParameterError(
                f"{name} must have the shape and labels of function(published), {q0.shape}, got "
                f"shape {answer.shape}" + ("" if same else " and other labels")
            )
        answers[at] = answer
    return q0, answers, own


def _like(table: Any, values: FloatArray) -> Any:
    """Return a copy of values in the form of a table."""
    if not hasattr(table, "iloc"):
        return values.copy() if values.ndim else values[()]
    shape = np.shape(table)
    return type(table)(values.reshape(shape).copy(), **_axes(table))


def _axes(table: Any) -> dict[str, Any]:
    if hasattr(table, "columns"):
        return {"index": table.index, "columns": table.columns}
    return {"index": table.index, "name": table.name}


def _aligned(table: Any, labels: pd.Index, name: str = "replicates") -> NDArray[Any]:
    """Return the rows of a table in the order of the labels, both of which name each row once."""
    index = table.index
    for one, which in ((labels, "published"), (index, name)):
        if not one.is_unique:
            twice = one[one.duplicated()][0]
            raise InvalidParameterError(
                f"{which} must have each label once, got {show(twice)} twice"
            )
    if index.nlevels != labels.nlevels or (
        set(index.names) == set(labels.names) and index.names != labels.names
    ):
        raise InvalidParameterError(
            f"{name} must have the levels of the labels of published, {list(labels.names)}, got "
            f"{list(index.names)}"
        )
    at = index.get_indexer(labels)
    for found, lost, where, other in (
        (at, labels, name, "published"),
        (labels.get_indexer(index), index, "published", name),
    ):
        if (found < 0).any():
            raise InvalidParameterError(
                f"{where} must have the labels of {other}, but {show(lost[int(np.argmin(found))])} "
                f"is not among {show_some(index if where == name else labels, 4)}"
            )
    if table.isna().to_numpy().any():
        row = table.isna().to_numpy().reshape(len(index), -1).any(axis=1)
        raise InvalidParameterError(
            f"{name} must not contain NaN, got one of {show(index[int(np.argmax(row))])}"
        )
    return np.asarray(table.to_numpy()[at])


def _check_published_run(values: FloatArray, runs: FloatArray, names: list[Any] | None) -> None:
    """Refuse the published run among the replicates, where it can be told."""
    equal = runs == values
    same = equal.reshape(len(runs), -1).all(axis=1)
    if not same.any() or same.all():
        return
    at = int(np.argmax(same))
    name = at if names is None else names[at]
    if names is not None and (name == 0 or name == "0"):
        raise InvalidParameterError(
            f"replicates must not hold the published run, but their column {show(name)} is like "
            "published: leave it out, as from_long does; if it is a replicate, name it otherwise"
        )
    with np.errstate(under="ignore"):
        if equal.mean(axis=0).prod() < _BY_CHANCE:
            warnings.warn(
                f"replicate {show(name)} is like published in all values, as if it were the "
                "published run, which is none of the replicates: leave it out, as from_long does",
                ApproximationWarning,
                stacklevel=4,
            )


def from_long(
    frame: Any, replicate: str = "ITERATION", published: Any = 0, *, value: str | None = None
) -> tuple[pd.Series, pd.DataFrame]:
    """Take the published table and its replicates out of one long table.

    Parameters
    ----------
    frame : DataFrame of any library
        A row for each value of each run: columns of labels, a column that tells the run, and one
        column of numbers. Labels are taken as they are, blanks at their ends included.
    replicate : str, default "ITERATION"
        The column that tells the run.
    published : object, default 0
        What that column says of the published run.
    value : str, optional
        The column of values; by default the only one of numbers other than ``replicate``.

    Returns
    -------
    published : Series
        The values of the published run, labelled by the columns of labels.
    replicates : DataFrame
        The same labels, and a column for each other run: for :func:`replicate_confint`.

    Raises
    ------
    InvalidParameterError
        If columns are not there, the published run is not, or a label does not have one value in
        each run.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"GEO": ["a", "a", "a", "b", "b", "b"], "ITERATION": [0, 1, 2] * 2,
    ...                       "COUNT": [7, 9, 6, 0, 1, 0]})
    >>> published, replicates = from_long(frame)
    >>> replicates
    ITERATION    1    2
    GEO
    a          9.0  6.0
    b          1.0  0.0
    """
    import pandas as pd

    table = as_pandas(frame, "frame")
    if not isinstance(table, pd.DataFrame):
        raise InvalidParameterError(f"frame must be a DataFrame, got {show(frame)}")
    if any(name is not None for name in table.index.names):
        table = table.reset_index()
    columns = table.columns.tolist()
    if not isinstance(replicate, str) or columns.count(replicate) != 1:
        raise InvalidParameterError(
            f"replicate must be one of the columns {show_some(columns)}, got {show(replicate)}"
        )
    numbers = table.select_dtypes("number").columns.drop(replicate, errors="ignore").tolist()
    column = numbers[0] if value is None and len(numbers) == 1 else value
    if not isinstance(column, str) or columns.count(column) != 1 or column == replicate:
        raise InvalidParameterError(
            f"value must be the column of values, one of {show_some(numbers or columns)}, got "
            f"{show(value)}"
        )
    keys = [name for name in columns if name not in (replicate, column)]
    if not keys:
        table, keys = table.assign(query=column), ["query"]
    if table[[*keys, replicate]].isna().any(axis=None):
        raise InvalidParameterError("frame must have a label in each row, got missing ones")
    numbers_of = check_array(table[column].to_numpy(), f"column {column} of frame")
    index = pd.MultiIndex.from_frame(table[[*keys, replicate]])
    if not index.is_unique:
        twice = index[index.duplicated()][0]
        raise InvalidParameterError(
            f"frame must have one value of each label in each run, got two of {show(twice)}"
        )
    order = table.set_index(keys).index.unique()
    wide = pd.Series(numbers_of, index=index).unstack().reindex(order)  # noqa: PD010
    if wide.isna().any(axis=None):
        row, run = np.argwhere(wide.isna().to_numpy())[0]
        raise InvalidParameterError(
            f"frame must have each label in each run, but {show(wide.index[row])} is not there "
            f"where {replicate} is {show(wide.columns.tolist()[run])}"
        )
    runs = wide.columns.tolist()
    at = runs.index(published) if np.isscalar(published) and published in runs else None
    if at is None:
        raise InvalidParameterError(
            f"published must be one of the runs {show_some(runs)}, got {show(published)}"
        )
    others = np.delete(np.arange(len(runs)), at)
    return wide.iloc[:, at].rename(column), wide.iloc[:, others]


# Replicates of an algorithm.


def replicate(
    function: Callable[[Any, np.random.Generator], Any],
    published: Any,
    n: int = 25,
    *,
    rng: RNG = None,
    n_jobs: int | None = 1,
    resume: str | Path | None = None,
    progress: bool = False,
) -> Any:
    """Run an algorithm again and again with what it published as its input.

    Parameters
    ----------
    function : callable
        The whole algorithm, ``function(table, rng)``: noise, fitting and rounding with the settings
        of the published run. It gets a copy of ``published`` and a generator of its own, from which
        alone it is to draw, and returns a table of the same shape and labels.
    published : array, Series or DataFrame
        The table that it published.
    n : int, default 25
        Number of replicates, >= 1.
    rng : None, int or numpy.random.Generator
        Source of the seeds; an int is a seed. A generator is asked for a seed once.
    n_jobs : int or None, default 1
        Number of workers as joblib takes it; the answer does not depend on it. Within
        ``joblib.parallel_config(backend="dask")`` they are those of a Dask cluster.
    resume : str or Path, optional
        A folder that keeps each replicate: a new or empty one, or that of an earlier call with the
        same table and seed (None takes its seed), whose replicates are then not made again. It
        may ask for more of them. Whether ``function`` is the same is not known to it.
    progress : bool, default False
        Whether to show a progress bar.

    Returns
    -------
    DataFrame or array
        The replicates, as :func:`replicate_confint` takes them: with labels a column for each,
        from 1 to ``n``; otherwise an array whose first axis they are.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, ``function`` returns another kind of table, or
        the folder is that of another table or seed, is damaged or cannot be written.
    MissingExtraError
        If there are to be several workers and joblib is not installed.

    Notes
    -----
    Replicate i draws from the child i - 1 of the seed, as ``numpy.random.SeedSequence.spawn``
    gives them, so that the first replicates are the same for every ``n``.

    Examples
    --------
    >>> import numpy as np
    >>> def algorithm(table, rng):
    ...     return np.maximum(np.rint(table + rng.normal(0.0, 2.0, table.shape)), 0.0)
    >>> replicate(algorithm, [12, 0, 3], n=3, rng=1)
    array([[ 9.,  4.,  5.],
           [12.,  0.,  2.],
           [14.,  1.,  3.]])
    """
    if not callable(function):
        raise InvalidParameterError(
            f"function must be a function of a table and a generator, got {show(function)}"
        )
    table = as_values(published, "published")
    values, labels = split_labels(table, "published")
    number = check_integer(n, "n", ge=1, le=_MOST_RUNS)
    simulation = Simulation.checked(number, rng, progress, n_jobs)
    seed = simulation.draw_seed()
    folder = None if resume is None else check_path(resume, "resume")
    held: dict[int, FloatArray] = {}
    if folder is not None:
        seed = _claimed(folder, _digest(values, labels), seed, given=rng is not None)
        held = _kept(folder, number, values.shape)
    missing = [i for i in range(1, number + 1) if i not in held]
    tasks = ((i, child_seed(seed, i - 1)) for i in missing)
    work = partial(_run, function, table if hasattr(table, "iloc") else values)
    with progress_bar(number, simulation.progress) as advance:
        advance(len(held))
        answers = run_tasks(work, tasks, simulation.n_jobs, lambda task: number + 1.0 - task[0])
        for i, answer in zip(missing, answers, strict=True):
            held[i] = answer
            if folder is not None:
                write_whole([(_file(folder, i), partial(_save, answer))], "resume")
            advance(1)
    runs = np.stack([held[i] for i in range(1, number + 1)])
    if labels is None:
        return runs
    import pandas as pd

    return pd.DataFrame(runs.T, labels, pd.RangeIndex(1, number + 1, name="replicate"))


def _run(
    function: Callable[[Any, np.random.Generator], Any],
    table: Any,
    task: tuple[int, np.random.SeedSequence],
) -> FloatArray:
    """Make a replicate: the task of a worker."""
    i, seed = task
    name = f"function(published, rng) of replicate {i}"
    values, labels = split_labels(table, "published")
    made = as_values(function(_like(table, values), np.random.default_rng(seed)), name)
    answer, its = split_labels(made, name)
    if answer.shape != values.shape and np.shape(made) != np.shape(table):
        raise InvalidParameterError(
            f"{name} must have the shape of published, {np.shape(table)}, got {np.shape(made)}"
        )
    if labels is None or its is None:
        return answer.reshape(values.shape)
    import pandas as pd

    return _aligned(pd.Series(answer, its), labels, name)


def _digest(values: FloatArray, labels: pd.Index | None) -> str:
    said = repr((values.shape, None if labels is None else labels.tolist()))
    return sha256(said.encode() + np.ascontiguousarray(values).tobytes()).hexdigest()


def _claimed(
    folder: Path, digest: str, seed: np.random.SeedSequence, *, given: bool
) -> np.random.SeedSequence:
    """Make a folder that of a table and a seed, or see that it is; return the seed."""
    path = folder / "plan.json"
    plan = {"published": digest, "seed": seed.entropy}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists() and any(folder.iterdir()):
            raise InvalidParameterError(
                f"resume must be an empty folder or that of an earlier call, got {folder}"
            )
        try:
            with path.open("x", encoding="utf-8") as file:
                json.dump(plan, file)
        except FileExistsError:
            pass
        kept = json.loads(path.read_text(encoding="utf-8"))
        entropy = [check_integer(part, "seed", ge=0) for part in kept["seed"]]
        is_other = kept["published"] != digest or (given and entropy != plan["seed"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        if isinstance(error, InvalidParameterError):
            raise
        raise InvalidParameterError(
            f"resume must be a folder that can be written, with its plan.json, got {folder}: "
            f"{one_line(error)}"
        ) from error
    if is_other:
        raise InvalidParameterError(
            f"resume must be the folder of the same published table and rng, got {folder}, which "
            "is that of another one: pass another folder, or rng=None for the seed of this one"
        )
    return np.random.SeedSequence(entropy)


def _file(folder: Path, i: int) -> Path:
    return folder / f"replicate_{i}.npy"


def _save(values: FloatArray, path: Path) -> None:
    np.save(path, values)


def _kept(folder: Path, number: int, shape: tuple[int, ...]) -> dict[int, FloatArray]:
    held = {}
    for i in range(1, number + 1):
        path = _file(folder, i)
        if not path.exists():
            continue
        try:
            values = check_array(np.load(path, allow_pickle=False), path.name)
            wrong = "" if values.shape == shape else f"its shape is {values.shape}"
        except (OSError, ValueError, EOFError) as error:
            wrong = one_line(error)
        if wrong:
            raise InvalidParameterError(
                f"resume must hold whole files, but {path} is damaged: {wrong}; remove it"
            )
        held[i] = values
    return held
