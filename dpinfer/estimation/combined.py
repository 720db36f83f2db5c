"""The combined estimate as a value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import RNG, FloatArray, check_array, check_reps, check_rng, check_scalar, freeze
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.consistency import Disagreement, OverlappingEstimate
from dpinfer.estimation.design import BLOCK, as_dense
from dpinfer.estimation.pivots import Method, Pivots, clean_weights
from dpinfer.mechanisms.weighted_sum import WeightedSum
from dpinfer.releases.values import HELD, NoisyValues
from dpinfer.results.intervals import ERROR_COVERED, Intervals
from dpinfer.results.labels import attach_labels
from dpinfer.results.tables import render_table

if TYPE_CHECKING:
    import pandas as pd

    from dpinfer.estimation.design import Design, Solver
    from dpinfer.estimation.targets import Targets
    from dpinfer.releases.release import Release


# Combined estimates moved into bounds, no longer unbiased.


BIAS = "Clipped: no longer unbiased, and without a standard error that holds."
"""What every rendering of a clipped estimate says."""


class Unclipped(Protocol):
    """Unbiased estimates with intervals, such as a :class:`CombinedEstimate`."""

    @property
    def params(self) -> Any:
        """The estimates."""

    def conf_int(self, *args: Any, **kwargs: Any) -> Intervals:
        """Their intervals."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClippedEstimate:
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

    unclipped: Unclipped
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

        Parameters
        ----------
        *args, **kwargs
            As for :meth:`CombinedEstimate.conf_int`.

        Returns
        -------
        Intervals
            One interval a target, never wider than the unclipped one and covering as often. It
            may turn out empty, and is then marked as such.
        """
        intervals = self.unclipped.conf_int(*args, **kwargs)
        clipped = intervals.restrict(lower=self.lower, upper=self.upper)
        return replace(clipped, estimate=self.params, notes=(*intervals.notes, BIAS))

    def summary_frame(self, alpha: float = 0.05, method: Any = "exact") -> pd.DataFrame:
        """Return clipped estimates and intervals, with the unbiased estimates beside them.

        Parameters
        ----------
        alpha, method
            As for :meth:`CombinedEstimate.conf_int`.

        Returns
        -------
        DataFrame
            Columns ``estimate``, ``ci_lower``, ``ci_upper``, ``empty`` where an interval is, and
            ``unbiased_estimate``.
        """
        frame = self.conf_int(alpha, method).summary_frame()
        frame["unbiased_estimate"] = np.asarray(self.unclipped.params)
        return frame

    def summary(self, alpha: float = 0.05, method: Any = "exact") -> str:
        """Return the intervals as a plain-text table, which says that it is not unbiased.

        Parameters
        ----------
        alpha, method
            As for :meth:`CombinedEstimate.conf_int`.

        Returns
        -------
        str
            The table.
        """
        return self.conf_int(alpha, method).summary()

    def __str__(self) -> str:
        return self.summary()


# How estimates are shown, whichever way they were found.


UNBIASED = "Unbiased for the confidential values; not rounded or clipped."
"""What every table of combined estimates says."""


def estimates_frame(intervals: Intervals, std_err: Any) -> pd.DataFrame:
    """Return estimates, standard errors and intervals, a row for each."""
    frame = intervals.summary_frame()
    frame.insert(1, "std_err", np.ravel(std_err))
    return frame


def add_published(
    frame: pd.DataFrame, there: Any, values: FloatArray, variance: FloatArray
) -> None:
    """Add what was published of each row itself, and the standard deviation of its noise.

    They are NaN for the rows that are not ``there``.
    """
    frame["published"] = np.where(there, values, np.nan)
    frame["published_std_err"] = np.where(there, np.sqrt(variance), np.nan)


def summary_table(
    title: str,
    facts: Sequence[tuple[str, object]],
    frame: pd.DataFrame,
    *,
    index: Any,
    notes: Sequence[str] = (UNBIASED,),
) -> str:
    """Return a frame of estimates as a plain-text table, with what is to be said of them."""
    return render_table(
        title,
        facts,
        {name: frame[name].to_numpy() for name in frame.columns},
        index=index,
        notes=notes,
        alike=("estimate", "ci_lower", "ci_upper", "published"),
    )


def covariance_frame(covariance: FloatArray, labels: pd.Index | None) -> Any:
    """Return a covariance matrix, under the labels of its rows where they have any."""
    if labels is None:
        return covariance
    import pandas as pd

    return pd.DataFrame(covariance, labels, labels)


_COVARIANCE_LIMIT = 20_000
_WEIGHTS_LIMIT = 100_000_000
_BLOCK_SIZE = 20_000_000


@dataclass(frozen=True, eq=False)
class _Rows:
    """The weights of the targets of a fit on its values, made when they are asked for."""

    fit: CombinedEstimate

    def take(self, positions: NDArray[np.intp]) -> Any:
        """Return some rows, a sparse array."""
        from scipy.sparse import csr_array

        fit = self.fit
        return csr_array(clean_weights(as_dense(fit._solver.weights(fit._coordinates[positions]))))

    def apply(self, noises: FloatArray) -> FloatArray:
        """Return the errors that noises make."""
        return np.asarray(self.fit._coordinates @ self.fit._solver.coefficients(noises))

    def variance(self) -> FloatArray:
        """Return the variance of each error."""
        return np.asarray(np.square(np.asarray(self.fit.bse)))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CombinedEstimate(OverlappingEstimate):
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
    _design: Design | None
    _solver: Solver
    _coefficients: FloatArray
    _coordinates: Any

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
        return self._label(self._solver.std_errors(self._coordinates))

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
        return np.concatenate([clean_weights(block) for block in self._weight_blocks()])

    def cov_params(self) -> Any:
        """Covariance matrix of the estimates, due to the noise.

        Returns
        -------
        array of float, shape (k, k), or DataFrame
            Variances and covariances; a DataFrame where the targets have labels.

        Raises
        ------
        InvalidParameterError
            If there are more than 20,000 estimates.
        """
        if len(self) > _COVARIANCE_LIMIT:
            raise InvalidParameterError(
                f"target must have at most {_COVARIANCE_LIMIT} rows for a covariance matrix, "
                f"got {len(self)}: pass those targets to combine whose covariances are needed"
            )
        weighted = self.weights * np.sqrt(self.release.variance)
        return covariance_frame(as_dense(weighted @ weighted.T), self.targets.labels)

    @property
    def rank(self) -> int:
        """Number of linearly independent things that the published values measure."""
        return len(self.release) if self._design is None else self._design.rank

    @property
    def overlap(self) -> int:
        """Number of published values beyond those needed to determine the others."""
        return len(self.release) - self.rank

    @cached_property
    def fitted(self) -> Any:
        """The m published queries as the combined estimate has them, free of contradiction."""
        fitted = self._coefficients
        return self._label_rows(fitted if self._design is None else self._design.matrix @ fitted)

    @property
    def residuals(self) -> Any:
        """Published values minus :attr:`fitted`."""
        return self._label_rows(self.release.values - np.asarray(self.fitted))

    def noise(self, target: Any) -> WeightedSum:
        """Return the law of the error of one estimate.

        Parameters
        ----------
        target : label or int
            The label of the target, or its position where it has no label.

        Returns
        -------
        WeightedSum
            The law of estimate minus confidential value. It knows which noises it is made of:
            functions that take several such laws use how the errors depend, or refuse.
        """
        row = self.targets.position(target)
        if self._coordinates is None:
            return self.release.noise(row)
        weights = clean_weights(as_dense(self._solver.weights(self._coordinates[[row]]))[0])
        used = np.flatnonzero(weights)
        return self.release.__noisy__()._law_of(weights[used], used)

    def __noisy__(self) -> NoisyValues:
        published = self.release.__noisy__()
        if self._coordinates is None:
            return published.relabelled(self.targets.labels)
        rows = _Rows(self)
        held = len(self) * len(self.release) <= HELD
        return NoisyValues(
            np.array(self.params, dtype=np.float64),
            published.own_noises(),
            labels=self.targets.labels,
            weights=rows.take(np.arange(len(self))) if held else rows,
        )

    def simulate_errors(self, reps: int, *, rng: RNG = None) -> FloatArray:
        """Draw the joint errors of the estimates from the law of the noise.

        Parameters
        ----------
        reps : int
            Number of draws.
        rng : None, int or numpy.random.Generator, optional
            Source of randomness.

        Returns
        -------
        array of float, shape (reps, k)
            Errors: estimate minus confidential value.
        """
        return self._draw_errors(check_reps(reps), check_rng(rng))

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
        pivots = Pivots(
            std_errors=np.asarray(self.bse),
            mechanism=self.release.__noisy__().marginal,
            blocks=None if self._coordinates is None else self._weight_blocks,
            draw_errors=self._draw_errors,
            noises=len(self.release),
            magnitude=np.minimum(size, np.finfo(np.float64).max),
        )
        return pivots.intervals(
            np.asarray(self.params),
            alpha=alpha,
            method=method,
            simultaneous=simultaneous,
            reps=reps,
            rng=rng,
            labels=self.targets.labels,
        )

    def clip(self, *, lower: float | None = None, upper: float | None = None) -> ClippedEstimate:
        """Move the estimates into the bounds that the confidential values respect.

        The result is closer to the confidential values, but not unbiased any more, and says so.

        Parameters
        ----------
        lower, upper : float, optional
            Bounds of the confidential values, such as ``lower=0`` for counts.

        Returns
        -------
        ClippedEstimate
            The estimates within the bounds; it has no ``bse``.
        """
        return ClippedEstimate(unclipped=self, lower=lower, upper=upper)

    def summary_frame(self, alpha: float = 0.05, method: Method = "exact") -> pd.DataFrame:
        """Return estimates, standard errors and intervals as a DataFrame, a row for each target.

        Parameters
        ----------
        alpha, method
            As for :meth:`conf_int`.

        Returns
        -------
        DataFrame
            Columns ``estimate``, ``std_err``, ``ci_lower``, ``ci_upper``, and where any target was
            published itself, ``published`` and ``published_std_err``: that value and the standard
            deviation of its noise, NaN for the others. ``attrs`` holds ``alpha``, ``method``,
            ``uncertainty`` and ``simultaneous``.
        """
        frame = estimates_frame(self.conf_int(alpha, method), self.bse)
        rows = self.targets.published
        if (rows >= 0).any():
            add_published(frame, rows >= 0, self.release.values[rows], self.release.variance[rows])
        return frame

    def summary(self, alpha: float = 0.05, method: Method = "exact") -> str:
        """Return :meth:`summary_frame` as a plain-text table.

        Parameters
        ----------
        alpha, method
            As for :meth:`conf_int`.

        Returns
        -------
        str
            The table, which says which error the intervals cover.
        """
        frame = self.summary_frame(alpha, method)
        index = self.targets if self.targets.labels is None else self.targets.labels
        return summary_table(
            "Combined estimates",
            self._facts(frame.attrs),
            frame,
            index=index,
            notes=(UNBIASED,),
        )

    def __len__(self) -> int:
        return len(self.targets)

    def __repr__(self) -> str:
        return f"CombinedEstimate({len(self)} targets from {self.release!r})"

    def __str__(self) -> str:
        return self.summary()

    def _facts(self, attrs: dict[Any, Any]) -> list[tuple[str, object]]:
        """Facts about the estimate for the head of its summary."""
        level = f"{1 - attrs['alpha']:.6g}, {attrs['method']}"
        exact = int(np.count_nonzero(self.release.variance == 0))
        facts: list[tuple[str, object]] = [
            ("Method", "best linear unbiased"),
            ("Intervals", level + (", together" if attrs["simultaneous"] else "")),
            ("Published values", len(self.release)),
            ("Cells", self.release.workload.shape[1]),
            ("Rank", self.rank),
            ("Overlapping values", self.overlap),
            ("Error covered", ERROR_COVERED[attrs["uncertainty"]]),
        ]
        return [*facts, ("Published without noise", exact)] if exact else facts

    def _overlap(self) -> Disagreement | None:
        if self._design is None:
            return None
        return Disagreement(self.release, self._design, self._solver)

    def _draw_errors(self, reps: int, rng: np.random.Generator) -> FloatArray:
        """Draw joint errors of the estimates, (reps, k)."""
        noise = self.release.mechanism.rvs((reps, len(self.release)), rng=rng)
        drawn = np.asarray(noise, dtype=np.float64)
        if self._coordinates is None:
            return drawn
        return np.asarray(self._coordinates @ self._solver.coefficients(drawn.T)).T

    def _weight_blocks(self) -> Iterator[FloatArray]:
        """Yield the weights of the targets, some at a time."""
        size = max(1, min(BLOCK, _BLOCK_SIZE // len(self.release)))
        for start in range(0, len(self), size):
            yield as_dense(self._solver.weights(self._coordinates[start : start + size]))

    def _label(self, values: Any) -> Any:
        return attach_labels(freeze(values), self.targets.labels)

    def _label_rows(self, values: Any) -> Any:
        return attach_labels(freeze(values), self.release.labels)
