"""Confidence intervals as a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpinfer._check import (
    FloatArray,
    Way,
    check_array,
    check_broadcast,
    check_flag,
    check_integer_array,
    freeze,
    rounding_reach,
    show,
    step_and_way,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.results.labels import (
    attach_labels,
    check_order,
    hold_arrays,
    labelled_frame,
    split_labels,
)
from dpinfer.results.presentation import Plotted, Rows
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd


Uncertainty = Literal["noise", "noise+sampling"]
UNCERTAINTIES: tuple[Uncertainty, ...] = ("noise", "noise+sampling")
Assurance = Literal["exact", "checked", "bound"]

ERROR_COVERED: dict[Uncertainty, str] = {
    "noise": "noise (inference on the confidential values)",
    "noise+sampling": "noise and sampling (inference on the population)",
}
"""What a result says about the error that it covers."""

_FOR_COUNTS = "intervals are for the counts"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _Sets(Rows, Plotted):
    """What intervals and other confidence sets have in common."""

    title: ClassVar[str]
    counted: ClassVar[str]
    called: ClassVar[str] = "CI"

    estimate: Any
    lower: Any
    upper: Any
    alpha: float
    method: str
    uncertainty: Uncertainty
    simultaneous: bool = False
    labels: pd.Index | None = None
    notes: tuple[str, ...] = ()

    _by_row: ClassVar[tuple[str, ...]] = ("estimate", "lower", "upper")

    def __post_init__(self) -> None:
        hold_arrays(self, ("estimate", "lower", "upper"), self.labels)

    def contains(self, value: ArrayLike) -> Any:
        """Whether each of them holds a value: one for all, or values that broadcast against them.

        The ends belong to a set.
        """
        point = check_array(value, "value", finite=False)
        shape = self._ends[0].shape
        check_broadcast(**{self.counted.lower(): shape}, value=point.shape)
        inside = self._holds(point)
        return attach_labels(inside, self.labels) if inside.shape == shape else inside[()]

    @property
    def facts(self) -> list[tuple[str, object]]:
        """What the head of the summary says."""
        return [
            ("Method", self.method),
            ("Level", f"{1 - self.alpha:.6g}"),
            ("Level holds for", "all together" if self.simultaneous else "each on its own"),
            (self.counted, np.size(self.lower)),
            ("Error covered", ERROR_COVERED[self.uncertainty]),
        ]

    def __iter__(self) -> Iterator[Any]:
        """Unpack as ``lower, upper``."""
        return iter((self.lower, self.upper))

    def _holds(self, point: FloatArray) -> NDArray[np.bool_]:
        lower, upper = self._ends
        return np.asarray((lower <= point) & (point <= upper))

    def _frame(self, **more: Any) -> pd.DataFrame:
        columns = {"estimate": self.estimate, "ci_lower": self.lower, "ci_upper": self.upper}
        return labelled_frame(
            columns | more,
            self.labels,
            alpha=self.alpha,
            method=self.method,
            uncertainty=self.uncertainty,
            simultaneous=self.simultaneous,
        )

    def _table_of(self, columns: Mapping[str, Any] | pd.DataFrame, notes: Sequence[str]) -> Table:
        return Table(
            self.title,
            self.facts,
            columns,
            index=self.labels,
            notes=notes,
            alike=("estimate", "ci_lower", "ci_upper"),
            level=1 - self.alpha,
            interval=self.called,
        )

    @property
    def _how(self) -> str:
        return f"level {1 - self.alpha:.6g}, {self.method}" + (", together" * self.simultaneous)

    @property
    def _ends(self) -> tuple[FloatArray, FloatArray]:
        return np.asarray(self.lower), np.asarray(self.upper)


def _possible(lower: float | None, upper: float | None) -> tuple[float, float]:
    """Return bounds of possible values, infinite where there are none."""
    floor = -np.inf if lower is None else float(check_array(lower, "lower", ndim=0))
    ceiling = np.inf if upper is None else float(check_array(upper, "upper", ndim=0))
    if floor > ceiling:
        raise InvalidParameterError(f"lower must be <= upper, got {floor:g} and {ceiling:g}")
    return floor, ceiling


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Intervals(_Sets):
    """Confidence intervals, one for each of several values.

    Unpacks as ``lower, upper``; ``np.asarray(intervals)`` has the ends in its last axis, as the
    ``conf_int()`` of statsmodels has.

    Parameters
    ----------
    estimate, lower, upper : array of float
        The estimates and the ends of the closed intervals, all of one shape, in units of the
        estimates. Held as a pandas Series where there are ``labels``, as an array otherwise.
    alpha : float
        One minus the confidence level: of each interval, or of all of them together where
        ``simultaneous``.
    method : str
        The procedure, by the name of the ``method=`` argument that chose it.
    uncertainty : {"noise", "noise+sampling"}
        The source of error covered: noise alone, for inference on the confidential values, or
        noise and sampling, for inference on the population.
    simultaneous : bool
        Whether ``alpha`` is the probability that *any* of the intervals misses.
    labels : pandas.Index, optional
        One label for each interval.
    notes : tuple of str
        What else the reader has to know, one remark each.
    mc_error : float
        Standard deviation of the coverage due to simulated quantiles; 0 where none were used.
    assurance : {"exact", "checked", "bound"}, optional
        Of intervals by the laws of many errors, what the weakest of them are: quantiles of the
        laws; half-widths that were compared with such quantiles, with an error that the notes
        state, and are not proved; or proved bounds. None where the method says it all.

    Notes
    -----
    An interval is *empty* when no allowed value is compatible with what was published, as may
    happen when it is restricted to whole or to non-negative numbers. It is reported as such, not
    repaired: ``empty`` is True there and the ends are ``(inf, -inf)``, the one pair of ends between
    which no number lies. Empty intervals are part of the stated coverage.

    Examples
    --------
    >>> intervals = Intervals(estimate=[4.0, -3.0], lower=[1.5, -5.5], upper=[6.5, -0.5],
    ...                       alpha=0.1, method="exact", uncertainty="noise")
    >>> lower, upper = intervals.restrict(lower=0, integer=True)
    >>> lower, upper
    (array([ 2., inf]), array([  6., -inf]))
    """

    title: ClassVar[str] = "Confidence intervals"
    counted: ClassVar[str] = "Intervals"

    mc_error: float = 0.0
    assurance: Assurance | None = None

    @property
    def empty(self) -> Any:
        """Whether an interval holds no number at all, one bool for each."""
        return attach_labels(self._ends[0] > self._ends[1], self.labels)

    @property
    def width(self) -> Any:
        """Upper end minus lower end, one for each; 0 where the interval is empty."""
        lower, upper = self._ends
        with np.errstate(invalid="ignore", over="ignore"):
            return attach_labels(np.where(lower > upper, 0.0, upper - lower), self.labels)

    def restrict(
        self,
        *,
        lower: float | None = None,
        upper: float | None = None,
        integer: bool = False,
    ) -> Self:
        """Return the intersections with the values that are known to be possible.

        Parameters
        ----------
        lower, upper : float, optional
            Bounds that every confidential value is known to respect.
        integer : bool
            Whether every confidential value is known to be a whole number.

        Returns
        -------
        Intervals
            The same estimates with intervals that are never wider and cover as often, because
            only impossible values were taken out. Empty ones have the ends ``(inf, -inf)``.
        """
        if not check_flag(integer, "integer") and lower is None and upper is None:
            return self
        low, high = self._ends
        if integer:
            low, high = np.ceil(low), np.floor(high)
        floor, ceiling = _possible(lower, upper)
        low, high = np.maximum(low, floor), np.minimum(high, ceiling)
        return self._of_ends(low, high)

    def _of_ends(self, low: FloatArray, high: FloatArray, **more: Any) -> Self:
        """Return other intervals; empty ones have the ends (inf, -inf)."""
        empty = low > high
        lower, upper = np.where(empty, np.inf, low), np.where(empty, -np.inf, high)
        return replace(self, lower=lower, upper=upper, **more)

    def unbinned(self, bin_size: ArrayLike | tuple[ArrayLike, Way]) -> Self:
        """Return intervals for whole counts that were rounded before the noise was added.

        Parameters
        ----------
        bin_size : float, array of float, or pair
            The whole number s >= 1 of which the counts became multiples: one for all intervals, or
            one for each; 1 where counts were left as they are. Counts were rounded up;
            ``(8, "nearest")`` and ``(8, "down")`` say another way.

        Returns
        -------
        Intervals
            Intervals for the counts themselves that cover as often as these cover the multiples:
            B = s⌈f/s⌉ within [lower, upper] is s⌈lower/s⌉ to s⌊upper/s⌋, for counts B - s + 1 to B;
            rounded down, for counts B to B + s - 1, and to the nearest, for those within s/2 of B,
            both ends included, as ties may go either way. Estimates move to the middle of these.

        Raises
        ------
        InvalidParameterError
            If ``bin_size`` is no whole number >= 1, or the intervals are for the counts already.

        Examples
        --------
        >>> from dpinfer import Laplace, count_confint
        >>> count_confint(813.6, mechanism=Laplace(scale=10.0)).unbinned(8)
        Intervals([777, 840], level 0.95, exact)
        """
        given, way = step_and_way(bin_size, "bin_size", "up")
        plain, own = split_labels(given, "bin_size")
        check_order(own, self.labels, "bin_size", "the intervals")
        step = check_integer_array(plain, "bin_size", ge=1)
        low, high = self._ends
        check_broadcast(intervals=low.shape, bin_size=step.shape)
        if not (binned := step > 1).any():
            return self
        below, above = rounding_reach(step, way, True)
        low = np.where(binned, np.ceil(low / step) * step - below, low)
        high = np.where(binned, np.floor(high / step) * step + above, high)
        where = "to the nearest" if way == "nearest" else f"{way} to"
        said = f"counts were rounded {where} multiples before the noise: {_FOR_COUNTS}"
        if any(note.endswith(_FOR_COUNTS) for note in self.notes):
            raise InvalidParameterError(
                "bin_size must be given once, got intervals that are for the counts already: those "
                "of a release with bin_size are"
            )
        estimate = np.asarray(self.estimate) - 0.5 * (below - above)
        return self._of_ends(low, high, estimate=estimate, notes=(*self.notes, said))

    def summary_frame(self) -> pd.DataFrame:
        """Return the columns ``estimate``, ``ci_lower`` and ``ci_upper``, a row for each interval.

        And ``empty`` where an interval is empty. ``attrs`` holds ``alpha``, ``method``,
        ``uncertainty`` and ``simultaneous``.
        """
        return self._frame(**({"empty": self.empty} if np.any(self.empty) else {}))

    def _table(self) -> Table:
        frame = self.summary_frame()
        columns: dict[str, Any] = {name: frame[name].to_numpy() for name in frame.columns}
        notes = list(self.notes)
        if "empty" in columns:
            empty = columns.pop("empty")
            columns[""] = np.where(empty, "empty", "")
            notes.append(
                f"{np.count_nonzero(empty)} of {len(frame)} intervals empty, with the ends inf and "
                "-inf: none of the numbers that are allowed is compatible with what was published "
                "at this level; nothing is estimated there"
            )
        return self._table_of(columns, notes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the ends in the last axis: shape (k, 2) for k intervals."""
        return np.stack(self._ends, axis=-1).astype(dtype or np.float64, copy=False)

    def __repr__(self) -> str:
        how = self._how
        lower, upper = self._ends
        if lower.size != 1:
            none = np.count_nonzero(lower > upper)
            empty = f", {none} of them empty" if none else ""
            return f"{type(self).__name__}({lower.size} {self.counted.lower()}{empty}, {how})"
        if lower > upper:
            return f"{type(self).__name__}(empty, {how})"
        return f"{type(self).__name__}([{lower.item():.6g}, {upper.item():.6g}], {how})"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CredibleIntervals(Intervals):
    """Credible intervals: probability statements under a prior, not about repeated releases.

    An interval that holds 95 % of each posterior covers 95 % or more of counts that are drawn
    from the prior. It may cover counts of one size less often than that.

    Parameters
    ----------
    estimate, lower, upper, alpha, method, uncertainty, simultaneous, labels, notes, mc_error
        As for :class:`~dpinfer.results.Intervals`; ``alpha`` is one minus the posterior probability
        that each interval holds at least.
    assurance : {"exact", "checked", "bound"}, optional
        As for :class:`~dpinfer.results.Intervals`; None, as the method says it all.
    prior : str
        The prior in words.
    probability : array of float
        The posterior probability of each interval, 1 - alpha or more because counts are whole.

    Examples
    --------
    >>> from dpinfer.intervals import count_posterior
    >>> from dpinfer.mechanisms import Geometric
    >>> intervals = count_posterior(2, mechanism=Geometric(scale=1.0)).interval(0.1)
    >>> intervals
    CredibleIntervals([0, 4], level 0.9, posterior, hdi)
    >>> intervals.probability.round(4)
    np.float64(0.9622)
    """

    title: ClassVar[str] = "Credible intervals"
    called: ClassVar[str] = "credible interval"
    _by_row: ClassVar[tuple[str, ...]] = ("estimate", "lower", "upper", "probability")

    prior: str
    probability: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        probability = freeze(check_array(self.probability, "probability", ge=0, le=1))
        object.__setattr__(self, "probability", attach_labels(probability, self.labels))

    def restrict(
        self,
        *,
        lower: float | None = None,
        upper: float | None = None,
        integer: bool = False,
    ) -> Self:
        """Refuse bounds, which belong in ``count_posterior``, where the probabilities come from.

        To round inwards, as ``integer`` asks, changes nothing.
        """
        if lower is not None or upper is not None:
            raise InvalidParameterError(
                "lower and upper must not be given for credible intervals: give them to "
                "count_posterior"
            )
        return super().restrict(integer=integer)

    def summary_frame(self) -> pd.DataFrame:
        """Return the table of intervals with ``probability``, and ``prior`` in ``attrs``."""
        frame = super().summary_frame()
        frame["probability"] = np.ravel(self.probability)
        frame.attrs["prior"] = self.prior
        return frame

    @property
    def facts(self) -> list[tuple[str, object]]:
        """What the head of the summary says: the prior as well."""
        return [("Prior", self.prior), *super().facts]


Kind = Literal["interval", "complement", "line", "empty"]

KINDS: tuple[Kind, ...] = ("interval", "complement", "line", "empty")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ConfidenceSets(_Sets):
    """Confidence sets of real numbers, one for each of several values, that need not be intervals.

    Unpacks as ``lower, upper``. What the two ends mean depends on ``kind``.

    Parameters
    ----------
    estimate, lower, upper, alpha, method, uncertainty, simultaneous, labels, notes
        As for :class:`~dpinfer.results.Intervals`. Estimates are infinite where a ratio has the
        denominator 0, and 0 where it is 0/0.
    kind : array of str
        For each set:

        - ``"interval"``: [lower, upper], one end of which may be infinite;
        - ``"complement"``: all numbers that are not between the ends, (-inf, lower] and
          [upper, inf);
        - ``"line"``: every number, the ends being -inf and inf;
        - ``"empty"``: no number, the ends being inf and -inf.

    Examples
    --------
    >>> sets = ConfidenceSets(estimate=[2.0, 3.0], lower=[1.0, -1.0], upper=[4.0, 1.5],
    ...                       kind=["interval", "complement"], alpha=0.05, method="exact",
    ...                       uncertainty="noise")
    >>> sets.contains(0.0), sets.contains(2.0), sets.width
    (array([False, False]), array([ True,  True]), array([ 3., inf]))
    """

    title: ClassVar[str] = "Confidence sets"
    counted: ClassVar[str] = "Sets"
    _by_row: ClassVar[tuple[str, ...]] = ("estimate", "lower", "upper", "kind")

    kind: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        kind = np.asarray(self.kind)
        if not np.isin(kind, KINDS).all() or kind.shape != self._parts[0].shape:
            raise InvalidParameterError(
                f"kind must hold one of {', '.join(KINDS)} for each set, got {show(self.kind)}"
            )
        object.__setattr__(self, "kind", attach_labels(freeze(kind.astype("<U10")), self.labels))

    @property
    def empty(self) -> Any:
        """Whether a set holds no number at all, one bool for each."""
        return attach_labels(np.asarray(self._kinds == "empty"), self.labels)

    @property
    def width(self) -> Any:
        """Length of each set: inf where it is not an interval, 0 where it is empty."""
        lower, upper, kind = self._parts
        finite = (kind == "interval") & np.isfinite(lower) & np.isfinite(upper)
        with np.errstate(over="ignore"):
            length = np.where(finite, upper, 0.0) - np.where(finite, lower, 0.0)
        length = np.where(finite | (kind == "empty"), length, np.inf)
        return attach_labels(length, self.labels)

    def restrict(self, *, lower: float | None = None, upper: float | None = None) -> Self:
        """Return the intersections with the values that are known to be possible.

        Parameters
        ----------
        lower, upper : float, optional
            Bounds that every value is known to respect, such as 0 and 1 for a share of counts.

        Returns
        -------
        ConfidenceSets
            The same estimates with sets that are never wider and cover as often. Where two pieces
            are left with a gap between them, the range that holds both is reported, and a note
            says for how many sets.
        """
        floor, ceiling = _possible(lower, upper)
        if lower is None and upper is None:
            return self
        low, high, kind = self._parts
        two = kind == "complement"
        has_left, has_right = two & (floor <= low), two & (high <= ceiling)
        left = np.where(two, np.where(has_left, floor, np.maximum(high, floor)), low)
        right = np.where(two, np.where(has_right, ceiling, np.minimum(low, ceiling)), high)
        left, right = np.maximum(left, floor), np.minimum(right, ceiling)
        empty = (left > right) | (two & ~has_left & ~has_right)
        joined = int(np.count_nonzero(has_left & has_right))
        which = "1 set has" if joined == 1 else f"{joined} sets have"
        note = f"{which} two pieces within the bounds: the range of both is given"
        return replace(
            self,
            lower=np.where(empty, np.inf, left),
            upper=np.where(empty, -np.inf, right),
            kind=np.where(empty, "empty", "interval"),
            notes=(*self.notes, note) if joined else self.notes,
        )

    def summary_frame(self) -> pd.DataFrame:
        """Return the columns ``estimate``, ``ci_lower``, ``ci_upper`` and ``kind``, a row for each.

        ``attrs`` holds ``alpha``, ``method``, ``uncertainty`` and ``simultaneous``.
        """
        return self._frame(kind=self.kind)

    def _table(self) -> Table:
        frame = self.summary_frame()
        notes = self.notes
        if (self._kinds == "complement").any():
            notes = (*notes, "a complement holds all numbers that are not between its ends")
        return self._table_of(frame, notes)

    def __repr__(self) -> str:
        how = self._how
        lower, upper, kind = self._parts
        if kind.size != 1:
            return f"ConfidenceSets({kind.size} sets, {how})"
        ends = f"{lower.item():.6g}, {upper.item():.6g}"
        shown = {
            "interval": f"[{ends}]",
            "complement": f"outside ({ends})",
            "line": "every number",
            "empty": "no number",
        }
        return f"ConfidenceSets({shown[kind.item()]}, {how})"

    def _holds(self, point: FloatArray) -> NDArray[np.bool_]:
        lower, upper, kind = self._parts
        outside = (point <= lower) | (upper <= point)
        return np.where(kind == "complement", outside, super()._holds(point))

    @property
    def _kinds(self) -> NDArray[np.str_]:
        return np.asarray(self.kind)

    @property
    def _parts(self) -> tuple[FloatArray, FloatArray, NDArray[np.str_]]:
        return *self._ends, self._kinds
