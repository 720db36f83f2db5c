"""The combined estimate as a value."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import (
    RNG,
    FloatArray,
    check_array,
    check_flag,
    check_integer,
    check_option,
    check_reps,
    check_rng,
    check_scalar,
    freeze,
)
from dpinfer.errors import ConvergenceError, InvalidParameterError
from dpinfer.estimation.consistency import Overlap, OverlappingEstimate
from dpinfer.estimation.design import BLOCK, OVERFLOW, as_dense, independent_rows
from dpinfer.estimation.functions import (
    ByLabel,
    FunctionMoments,
    FunctionRows,
    Named,
    NoisePowers,
    held_or_made,
)
from dpinfer.estimation.pivots import (
    FEW,
    METHODS,
    ManyErrors,
    ManyMethod,
    Method,
    clean_weights,
    pivot_intervals,
)
from dpinfer.mechanisms.weighted_sum import WeightedSum
from dpinfer.releases.by_label import counted_twice
from dpinfer.releases.values import HELD, NoisyValues
from dpinfer.results.intervals import ERROR_COVERED, Intervals
from dpinfer.results.labels import attach_labels
from dpinfer.results.presentation import Listed, Plotted
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd

    from dpinfer.estimation.design import Design, Solver, Unmixing
    from dpinfer.estimation.targets import Targets
    from dpinfer.releases.release import Release


# Combined estimates moved into bounds, no longer unbiased.


BIAS = "Clipped: no longer unbiased, and without a standard error that holds."
"""What every rendering of a clipped estimate says."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClippedEstimate(Listed, Plotted):
    """Combined estimates moved into known bounds; made by :meth:`CombinedEstimate.clip`.

    The estimates are not unbiased, so that sums of many of them may be far off, and the error of
    one depends on the confidential value: there is no ``bse``. The intervals are those of the
    unclipped estimates intersected with the bounds, which keeps their coverage.

    Parameters
    ----------
    unclipped : CombinedEstimate
        The unbiased estimates.
    lower, upper : float, optional
        The bounds, at least one of them, in units of the estimates.

    Raises
    ------
    InvalidParameterError
        If there is no bound, or ``lower`` exceeds ``upper``.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> fit = dpi.combine([-1.5, 4.0], mechanism=dpi.Laplace(scale=1.0))
    >>> fit.clip(lower=0).params
    array([0., 4.])
    """

    unclipped: CombinedEstimate
    lower: float | None = None
    upper: float | None = None

    def __post_init__(self) -> None:
        bounds = [
            None if bound is None else check_scalar(bound, name)
            for name, bound in (("lower", self.lower), ("upper", self.upper))
        ]
        low, high = bounds
        if low is None and high is None:
            raise InvalidParameterError("lower or upper must be given, got neither")
        if low is not None and high is not None and low > high:
            raise InvalidParameterError(f"lower must be <= upper, got {low:g} and {high:g}")
        object.__setattr__(self, "lower", low)
        object.__setattr__(self, "upper", high)

    @property
    def params(self) -> Any:
        """The estimates, clipped: a Series where they have labels."""
        return self.unclipped.params.clip(self.lower, self.upper)

    @property
    def is_unbiased(self) -> bool:
        """Whether the estimates are unbiased: no."""
        return False

    def __noisy__(self) -> NoReturn:
        raise InvalidParameterError(
            "clipped estimates have no law: use the estimate before clip(), and bounds where the "
            "function takes them"
        )

    def conf_int(self, *args: Any, **kwargs: Any) -> Intervals:
        """Intersect the intervals of :meth:`CombinedEstimate.conf_int` with the bounds.

        They are never wider than those and cover as often. One may turn out empty, and is then
        marked as such.
        """
        intervals = self.unclipped.conf_int(*args, **kwargs)
        clipped = intervals.restrict(lower=self.lower, upper=self.upper)
        return replace(clipped, estimate=self.params, notes=(*intervals.notes, BIAS))

    def summary_frame(self, alpha: float = 0.05, method: Any = "exact") -> pd.DataFrame:
        """Return clipped estimates and intervals, with the unbiased estimates beside them.

        The columns are ``estimate``, ``ci_lower``, ``ci_upper``, ``empty`` where an interval is,
        and ``unbiased_estimate``; the arguments are those of :meth:`CombinedEstimate.conf_int`.
        """
        frame = self.conf_int(alpha, method).summary_frame()
        frame["unbiased_estimate"] = np.asarray(self.unclipped.params)
        return frame

    def _table(self, alpha: float = 0.05, method: Any = "exact") -> Table:
        return self.conf_int(alpha, method)._table()

    def _rows(self) -> tuple[int, pd.Index | None]:
        return len(self.unclipped), self.unclipped.targets.labels


# How estimates are shown, whichever way they were found.


UNBIASED = "Unbiased for the confidential values; not rounded or clipped."
"""What every table of combined estimates says."""


def estimates_frame(intervals: Intervals, std_err: Any) -> pd.DataFrame:
    """Return estimates, standard errors and intervals, a row for each."""
    frame = intervals.summary_frame()
    frame.insert(1, "std_err", np.ravel(std_err))
    return frame


def summary_table(
    title: str,
    facts: Sequence[tuple[str, object]],
    frame: pd.DataFrame,
    *,
    index: Any,
    notes: Sequence[str],
) -> Table:
    """Return a frame of estimates as a table, with what is to be said of them."""
    alpha = frame.attrs.get("alpha")
    return Table(
        title,
        facts,
        frame,
        index=index,
        notes=notes,
        alike=("estimate", "ci_lower", "ci_upper", "published"),
        level=None if alpha is None else 1.0 - alpha,
    )


def covariance_frame(covariance: FloatArray, labels: pd.Index | None) -> Any:
    """Return a covariance matrix, under the labels of its rows where they have any."""
    if labels is None:
        return covariance
    import pandas as pd

    return pd.DataFrame(covariance, labels, labels)


def add_published(
    frame: pd.DataFrame, there: Any, values: FloatArray, variance: FloatArray
) -> None:
    """Add the rows' own published values and noise, NaN for those that are not ``there``."""
    columns = {"published": values, "published_std_err": np.sqrt(variance)}
    for name, column in columns.items():
        frame[name] = column if np.all(there) else np.where(there, column, np.nan)


class Shown(NamedTuple):
    """What is shown of estimates beside their intervals."""

    title: str
    facts: Sequence[tuple[str, object]]
    index: Any
    # whether each was published itself; what was published of it, and the variance of its noise
    published: Callable[[], tuple[Any, FloatArray, FloatArray]] | None = None
    method: str | None = "best linear unbiased"
    note: str = UNBIASED


class Estimates(Listed, Plotted):
    """Estimates with standard errors and intervals, in tables."""

    @property
    @abstractmethod
    def bse(self) -> Any:
        """Standard errors of the estimates, due to the noise."""

    @abstractmethod
    def conf_int(self, alpha: float = 0.05, method: Any = "exact") -> Intervals:
        """Confidence intervals."""

    @abstractmethod
    def _shown(self) -> Shown:
        """Return what a summary says."""

    def summary_frame(self, alpha: float = 0.05, method: Any = "exact") -> pd.DataFrame:
        """Return estimates, standard errors and intervals as a DataFrame, a row for each.

        Parameters
        ----------
        alpha, method
            As for ``conf_int``.

        Returns
        -------
        DataFrame
            Columns ``estimate``, ``std_err``, ``ci_lower`` and ``ci_upper``; where some were
            published themselves, ``published`` and ``published_std_err``: that value, merged by
            inverse variance where there are several, and the standard deviation of its noise, NaN
            for the others. ``attrs`` holds ``alpha``, ``method``, ``uncertainty`` and
            ``simultaneous``.
        """
        return self.frame_of(self.conf_int(alpha, method))

    def _table(self, alpha: float = 0.05, method: Any = "exact") -> Table:
        intervals = self.conf_int(alpha, method)
        return self.table_of(intervals, self.frame_of(intervals))

    def frame_of(self, intervals: Intervals) -> pd.DataFrame:
        """Return :meth:`summary_frame` with intervals that were made before."""
        frame, shown = estimates_frame(intervals, self.bse), self._shown()
        if shown.published is not None:
            add_published(frame, *shown.published())
        return frame

    def table_of(self, intervals: Intervals, frame: pd.DataFrame) -> Table:
        """Return what :meth:`summary` shows, with intervals and the frame of them."""
        shown, level = self._shown(), 1.0 - intervals.alpha
        together = ", together" if intervals.simultaneous else ""
        facts = [
            *([] if shown.method is None else [("Method", shown.method)]),
            ("Intervals", f"{level:.6g}, {intervals.method}{together}"),
            *shown.facts,
        ]
        notes = (shown.note, *intervals.notes)
        return summary_table(shown.title, facts, frame, index=shown.index, notes=notes)


# Linear functions of the estimates of a fit.


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LinearEstimate(Estimates):
    """Estimates of linear functions of those of a fit; made by its ``sum`` and ``contrast``.

    Functions that take noisy values take them, and know how their errors depend.

    Attributes
    ----------
    params : float, array of float, shape (k,), or Series
        The estimates.
    labels : pandas.Index or None
        Labels of the functions.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> fit = dpi.combine_hierarchy([9.8, 4.2, 4.9], [-1, 0, 0], mechanism=dpi.Laplace(scale=1.0))
    >>> pair = fit.contrast([[0, 1, -1], [1, 0, 0]])
    >>> pair.params.round(3), pair.bse.round(3)
    (array([-0.7  ,  9.567]), array([2.   , 1.155]))
    >>> pair.conf_int(simultaneous=True, rng=1)
    Intervals(2 intervals, level 0.95, exact, together)
    """

    params: Any
    labels: pd.Index | None
    _noisy: NoisyValues
    _named_of: tuple[Any, Named]
    _size: float  # of what is added up in them

    @classmethod
    def of(cls, fit: ByLabel, named: Named, x: NoisyValues, size: float) -> LinearEstimate:
        """Return the functions that noisy values (k,) of a fit are."""
        params = attach_labels(x.values.reshape(named.shape), named.labels)
        held = replace(x, labels=named.labels, shape=named.shape)
        return cls(
            params=params, labels=named.labels, _noisy=held, _named_of=(fit, named), _size=size
        )

    @property
    def bse(self) -> Any:
        """Standard errors of the estimates, due to the noise."""
        return attach_labels(freeze(self._noisy.std.reshape(np.shape(self.params))), self.labels)

    def cov_params(self) -> Any:
        """Covariance matrix (k × k) of the estimates, a DataFrame where functions have labels."""
        return covariance_frame(self._noisy.cov(), self.labels)

    def noise(self, function: int = 0) -> WeightedSum:
        """Return the law of estimate minus confidential value of the function at a position."""
        at = check_integer(function, "function", ge=-len(self), le=len(self) - 1)
        return self._noisy._law_of(np.ones(1), np.arange(len(self))[[at]])

    def __noisy__(self) -> NoisyValues:
        return replace(self._noisy, shape=self._noisy.shape)

    def conf_int(
        self,
        alpha: float = 0.05,
        method: Method | ManyMethod = "exact",
        *,
        simultaneous: bool = False,
        reps: int = 10_000,
        rng: RNG = None,
    ) -> Intervals:
        """Confidence intervals for the functions of the confidential values.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the confidence level, in (0, 1).
        method : {"exact", "envelope", "bound", "tail-bound", "asymptotic"}
            As for :meth:`HierarchyEstimate.conf_int`: ``"exact"`` has the quantile of the law of
            each error, once for all that have it, and gives those of ``"envelope"`` and says so
            where that would take more than about 20 seconds.
        simultaneous, reps, rng
            As for :meth:`CombinedEstimate.conf_int`; not with ``"bound"`` or ``"envelope"``.

        Returns
        -------
        Intervals
            One interval a function; unpacks as ``lower, upper``.
        """
        chosen = check_option(method, "method", (*METHODS, "envelope", "bound"))
        if check_flag(simultaneous, "simultaneous") or chosen == "tail-bound":
            return pivot_intervals(
                self._noisy,
                np.full(len(self), self._size),
                alpha=alpha,
                method=method,
                simultaneous=simultaneous,
                reps=reps,
                rng=rng,
            )
        errors, number = self._errors()
        number = number.reshape(self._noisy.shape)
        return errors.intervals(np.asarray(self.params), number, alpha, chosen, self.labels)

    def _errors(self) -> tuple[ManyErrors, NDArray[np.intp]]:
        """Return the laws of the errors, and the number of that of each."""
        x, powers = self._noisy, NoisePowers(self._noisy.noises)
        kept, number, terms = np.arange(len(x)), np.arange(len(x)), x.noises.size
        if hasattr(x.weights, "indices") and not powers.gaussian:
            _, kept, number = np.unique(x._kinds(), return_index=True, return_inverse=True)
            terms = max(len(self.noise(int(at))._terms) for at in kept[:FEW])
        moments = FunctionMoments(replace(x, labels=None, shape=None)._take(kept), powers)
        errors = ManyErrors(
            std_errors=x.std[kept],
            law=lambda one: self.noise(int(kept[one])),
            terms=terms,
            gaussian=powers.gaussian,
            integer=powers.integer,
            bound=lambda: powers.bound,
            magnitude=self._size,
            heaviest=lambda: moments.heaviest,
            largest=np.inf,
            moments=moments,
        )
        return errors, number

    def _rows(self) -> tuple[int, pd.Index | None]:
        return len(self._noisy), self.labels

    def __repr__(self) -> str:
        return f"LinearEstimate({len(self)} functions of {self._noisy.noises.size} noises)"

    def _shown(self) -> Shown:
        facts = [
            ("Noises in them", self._noisy.noises.size),
            ("Error covered", ERROR_COVERED["noise"]),
        ]
        return Shown("Linear functions of estimates", facts, self.labels)


_COVARIANCE_LIMIT = 20_000
_WEIGHTS_LIMIT = 100_000_000
_BLOCK_SIZE = 20_000_000


@dataclass(frozen=True, eq=False)
class _Rows:
    """The weights of the targets of a fit on the noises, made when they are asked for."""

    fit: CombinedEstimate

    def dense(self, positions: NDArray[np.intp]) -> FloatArray:
        """Return some rows, an array."""
        blocks = self.fit._weight_blocks(self.fit._coordinates[positions])
        return np.concatenate([block[:, self.fit._first :] for block in blocks])

    def take(self, positions: NDArray[np.intp]) -> Any:
        """Return some rows, a sparse array."""
        from scipy.sparse import csr_array, vstack

        wanted = self.fit._coordinates[positions]
        blocks = (block[:, self.fit._first :] for block in self.fit._weight_blocks(wanted))
        return vstack([csr_array(clean_weights(block)) for block in blocks], format="csr")

    def apply(self, noises: FloatArray) -> FloatArray:
        """Return the errors that noises make."""
        if self.fit._first:
            noises = np.vstack([np.zeros((self.fit._first, noises.shape[1])), noises])
        return np.asarray(self.fit._coordinates @ self.fit._solver.coefficients(noises))

    def variance(self) -> FloatArray:
        """Return the variance of each error."""
        return np.asarray(np.square(np.asarray(self.fit.bse)))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CombinedEstimate(OverlappingEstimate, Estimates, ByLabel):
    """Best linear unbiased estimates from a release; made by :func:`dpinfer.combine`.

    The estimates are exactly unbiased for the confidential values, and have the smallest variances
    that any unbiased linear combination of the published values has.

    Attributes
    ----------
    release : Release
        What was published: m values.
    targets : Targets
        What is estimated: k linear functions of the cells, with their labels.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> noise = [dpi.Laplace(scale=1.0), dpi.Laplace(scale=1.0), dpi.Exact()]
    >>> fit = dpi.combine([3.9, 5.2, 10.0], workload=[[1, 0], [0, 1], [1, 1]], mechanism=noise)
    >>> fit.params, fit.bse
    (array([ 4.35,  5.65, 10.  ]), array([1., 1., 0.]))
    """

    release: Release
    targets: Targets
    _base: Release  # what says the same in values that each have noise of their own
    _unmixing: Unmixing | None
    _design: Design | None
    _solver: Solver
    _coefficients: FloatArray
    _coordinates: Any

    @property
    def _first(self) -> int:
        """Where the noises begin among the values of the base."""
        return 0 if len(self._base) == len(self.release) else len(self.release)

    @cached_property
    def params(self) -> Any:
        """The k estimates, in units of the targets: a Series where they have labels."""
        found = self._coefficients
        with np.errstate(over="ignore", invalid="ignore"):
            found = found if self._coordinates is None else self._coordinates @ found
        return self._label(check_array(found, "target @ cells"))

    @cached_property
    def bse(self) -> Any:
        """Standard errors of the estimates, due to the noise."""
        if self._coordinates is None:
            return self._label(np.sqrt(self.release.variance))
        if self._design is None and self.release.weights is not None:
            return self._label(self._noisy.std)
        rows = self.targets.published if self._base is self.release else None
        return self._label(self._solver.std_errors(self._coordinates, rows))

    @cached_property
    def weights(self) -> Any:
        """Weights (k × m) by which the estimates combine the published values.

        An array; for a workload that publishes every cell by itself, a sparse array.
        """
        if self._coordinates is None:
            return self.release.workload.matrix
        if len(self) * len(self.release) > _WEIGHTS_LIMIT and self._design is not None:
            raise InvalidParameterError(
                f"target must be given for the weights: {len(self)} targets of "
                f"{len(self.release)} values each would not fit into memory"
            )
        if self._design is None:
            return self._solver.weights(self._coordinates)
        own = slice(self._first or None)
        found = np.concatenate(
            [clean_weights(block)[:, own] for block in self._weight_blocks(self._coordinates)]
        )
        return found if self._unmixing is None else clean_weights(self._unmixing.weights(found))

    def cov_params(self) -> Any:
        """Covariance matrix (k × k) of at most 20,000 estimates, due to the noise.

        A DataFrame where the targets have labels.
        """
        if len(self) > _COVARIANCE_LIMIT:
            raise InvalidParameterError(
                f"target must have at most {_COVARIANCE_LIMIT} rows for a covariance matrix, "
                f"got {len(self)}: pass those targets to combine whose covariances are needed"
            )
        if self.release.weights is not None:
            return covariance_frame(self._noisy.cov(), self.targets.labels)
        weighted = self.weights * np.sqrt(self.release.variance)
        return covariance_frame(as_dense(weighted @ weighted.T), self.targets.labels)

    @property
    def rank(self) -> int:
        """Number of linearly independent things that the published values measure."""
        if self._design is None:
            return len(self.release)
        return self._design.rank - self._design.further

    @property
    def overlap(self) -> int:
        """Number of published values beyond those needed to determine the others."""
        return len(self.release) - self.rank

    @cached_property
    def fitted(self) -> Any:
        """The m published queries as the combined estimate has them, free of contradiction."""
        fitted, design = self._coefficients, self._design
        if design is not None:
            alike = self._base is self.release
            own = design.matrix if alike else design.coordinates(self.release.workload.matrix)
            fitted = own @ fitted
        return self._label_rows(fitted)

    @property
    def residuals(self) -> Any:
        """Published values minus :attr:`fitted`."""
        return self._label_rows(self.release.values - np.asarray(self.fitted))

    def noise(self, target: Any) -> WeightedSum:
        """Return the law of estimate minus confidential value of a target, by label or position.

        It knows which noises it is made of: functions that take several such laws use how the
        errors depend, or refuse.
        """
        row = self.targets.position(target)
        if self._coordinates is None:
            return self.release.noise(row)
        return self._noisy._law_of(np.ones(1), np.array([row]))

    def __noisy__(self) -> NoisyValues:
        x = self._noisy
        made = isinstance(x.weights, _Rows)
        if not made or len(self) * x.noises.size > HELD:
            return x
        rows = x._rows(np.arange(len(self)))
        return NoisyValues(x.values, x.noises, labels=x.labels, weights=rows)

    @cached_property
    def _noisy(self) -> NoisyValues:
        """The estimates as noisy values, whose weights are made when they are asked for."""
        published = self.release.__noisy__()
        if self._coordinates is None:
            return published.relabelled(self.targets.labels)
        if self._design is None and published.weights is not None:
            return published.linear(self._coordinates, labels=self.targets.labels)
        return NoisyValues(
            np.array(self.params, dtype=np.float64),
            published.own_noises() if published.weights is None else published.noises,
            labels=self.targets.labels,
            weights=_Rows(self),
        )

    def _named(self) -> tuple[pd.Index | None, int]:
        return self.targets.labels, len(self)

    def _twice(self, groups: Any) -> tuple[int, int] | None:
        matrix = self.targets.matrix
        found = None if matrix is None else counted_twice(groups, matrix, groups @ matrix)
        return None if found is None else found[1:]

    def _linear(self, named: Named) -> LinearEstimate:
        x, c = self._noisy, named.coefficients
        size = float((abs(c) @ np.abs(x.values)).max() + np.abs(self.release.values).max())
        if isinstance(x.weights, _Rows):
            rows = FunctionRows(
                lambda at: np.concatenate(
                    [
                        block[:, self._first :]
                        for block in self._weight_blocks(c[at] @ self._coordinates)
                    ]
                ),
                c.shape[0],
                x.noises,
            )
            found = NoisyValues(c @ x.values, x.noises, weights=held_or_made(rows))
        else:
            found = x.linear(c)
        return LinearEstimate.of(self, named, found, size)

    def simulate_errors(self, reps: int, *, rng: RNG = None) -> FloatArray:
        """Draw ``reps`` joint errors, estimates minus confidential values, shape (reps, k)."""
        if self.release.weights is not None:
            return self._noisy.draw(reps, rng=rng)
        size = check_reps(reps), len(self.release)
        drawn = np.asarray(self.release.mechanism.rvs(size, rng=check_rng(rng)), dtype=np.float64)
        return drawn if self._coordinates is None else _Rows(self).apply(drawn.T).T

    def conf_int(
        self,
        alpha: float = 0.05,
        method: Method = "exact",
        *,
        simultaneous: bool = False,
        reps: int = 10_000,
        rng: RNG = None,
    ) -> Intervals:
        """Confidence intervals for the confidential values of the targets.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the confidence level, in (0, 1).
        method : {"exact", "tail-bound", "asymptotic"}
            ``"exact"``: quantiles of the law of each error, a weighted sum of the noises.
            ``"tail-bound"``: Chernoff bounds, joined by a union bound, so that they hold for all
            targets together. ``"asymptotic"``: normal quantiles, offered for comparison.
        simultaneous : bool, default False
            Whether all targets shall be covered together with probability 1 - ``alpha``.
        reps : int, default 10_000
            Number of simulated errors for simultaneous exact intervals of dependent estimates.
        rng : None, int or numpy.random.Generator, optional
            Source of these.

        Returns
        -------
        Intervals
            One interval a target; unpacks as ``lower, upper``.

        Notes
        -----
        Simultaneous exact intervals are those of Šidák where no published value bears on two
        targets. Otherwise they are estimate ± c·bse, with c the ⌈(1 - α)(R + 1)⌉-th smallest of R
        simulated values of the largest studentised error: they cover with probability at least
        1 - α for every R, the simulation included; ``mc_error`` states how much the coverage varies
        from one simulation to another. Simultaneous normal intervals have Šidák's level,
        which is conservative for dependent normal errors. For intervals by the union bound
        with exact laws, divide ``alpha`` by the number of targets.

        Under whole-numbered noise the ends move outward by 1e-14 of the values, so that rounding
        does not take away an end that is attained.
        """
        with np.errstate(over="ignore"):  # of values near the end of the range
            size = np.abs(np.asarray(self.params)) + np.abs(self.release.values).max()
        return pivot_intervals(
            self._noisy,
            np.minimum(size, np.finfo(np.float64).max),
            alpha=alpha,
            method=method,
            simultaneous=simultaneous,
            reps=reps,
            rng=rng,
            std=np.asarray(self.bse),
        )

    def clip(self, *, lower: float | None = None, upper: float | None = None) -> ClippedEstimate:
        """Move the estimates into bounds that the confidential values respect: ``lower=0``, say.

        The result is closer to the confidential values, but not unbiased any more, and says so; it
        has no ``bse``.
        """
        return ClippedEstimate(unclipped=self, lower=lower, upper=upper)

    def _rows(self) -> tuple[int, pd.Index | None]:
        return len(self.targets), self.targets.labels

    def __repr__(self) -> str:
        return f"CombinedEstimate({len(self)} targets from {self.release!r})"

    def _shown(self) -> Shown:
        labels, rows, release = self.targets.labels, self.targets.published, self.release
        exact = int(np.count_nonzero(release.variance == 0))
        shared = None if release.weights is None else release.weights.shape[1]
        facts: list[tuple[str, object]] = [
            ("Published values", len(release)),
            *([] if shared is None else [("Noises that they share", shared)]),
            ("Cells", release.workload.shape[1]),
            ("Rank", self.rank),
            ("Overlapping values", self.overlap),
            ("Error covered", ERROR_COVERED["noise"]),
        ]
        facts += [("Published without noise", exact)] if exact else []
        facts += [("Solved by", self._solver.note)] if self._solver.note else []
        index = self.targets if labels is None else labels
        if not (rows >= 0).any():
            return Shown("Combined estimates", facts, index)
        return Shown(
            "Combined estimates",
            facts,
            index,
            lambda: (rows >= 0, release.values[rows], release.variance[rows]),
        )

    def _overlap(self) -> Overlap | None:
        """Return Q = (y - Ax̂)ᵀV⁻¹(y - Ax̂) as a function of values of the base or of noise.

        The confidential values drop out of Q, but not out of its rounding error, which would tell
        equal values of whole-numbered noise apart. Whole numbers close to the estimates are taken
        off the published values first: for whole coefficients and values, that is exact.
        """
        design, release, solver = self._design, self._base, self._solver
        if design is None:
            return None
        values, noisy = release.values, release.variance > 0
        precision = 1.0 / release.variance[noisy]

        def of(values: FloatArray) -> FloatArray:
            """Q for values (m,) or, one column each, (m × k)."""
            with np.errstate(over="ignore", invalid="ignore"):  # refused here
                fitted = design.matrix @ solver.coefficients(values)
                found = np.asarray(precision @ np.square((values - fitted)[noisy]))
            if not np.isfinite(found).all():
                raise ConvergenceError(OVERFLOW)
            return found

        def draw(size: int, rng: np.random.Generator) -> FloatArray:
            noise = release.mechanism.rvs((size, len(release)), rng=rng)
            return of(np.asarray(noise, dtype=np.float64).T)

        constraints = () if noisy.all() else independent_rows(design.matrix[~noisy])
        return Overlap(
            degrees=int(np.count_nonzero(noisy)) - (design.rank - len(constraints)),
            mechanism=release.mechanism,
            size=len(release),
            published=len(self.release),
            observed=lambda: of(values - design.matrix @ np.rint(solver.coefficients(values))),
            draw=draw,
            of=of,
        )

    def _weight_blocks(self, coordinates: Any) -> Iterator[FloatArray]:
        """Yield the weights of targets in these coordinates, some at a time."""
        size = max(1, min(BLOCK, _BLOCK_SIZE // len(self._base)))
        for start in range(0, max(1, coordinates.shape[0]), size):
            yield as_dense(self._solver.weights(coordinates[start : start + size]))

    def _label(self, values: Any) -> Any:
        return attach_labels(freeze(values), self.targets.labels, copy=False)

    def _label_rows(self, values: Any) -> Any:
        return attach_labels(freeze(values), self.release.labels, copy=False)
