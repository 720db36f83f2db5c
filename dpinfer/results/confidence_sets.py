"""Confidence sets that need not be intervals, as a value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpinfer._validation import FloatArray, check_array, check_broadcast, freeze, show
from dpinfer.errors import InvalidParameterError
from dpinfer.results.intervals import ERROR_COVERED, Uncertainty
from dpinfer.results.labels import attach_labels, hold_arrays, labelled_frame
from dpinfer.results.tables import render_table

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["interval", "complement", "line", "empty"]

KINDS: tuple[Kind, ...] = ("interval", "complement", "line", "empty")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ConfidenceSets:
    """Confidence sets of real numbers, one for each of several values, that need not be intervals.

    Unpacks as ``lower, upper``. What the two ends mean depends on ``kind``.

    Parameters
    ----------
    estimate : array of float
        The estimates; infinite where a ratio has the denominator 0, and 0 where it is 0/0.
    lower, upper : array of float
        The ends of the sets, of the shape of the estimates, in their units. Held as a pandas
        Series where there are ``labels``, as an array otherwise.
    kind : array of str
        For each set:

        - ``"interval"``: [lower, upper], one end of which may be infinite;
        - ``"complement"``: all numbers that are not between the ends, (-inf, lower] and
          [upper, inf);
        - ``"line"``: every number, the ends being -inf and inf;
        - ``"empty"``: no number, the ends being inf and -inf.
    alpha : float
        One minus the confidence level: of each set, or of all together where ``simultaneous``.
    method : str
        The procedure, by the name of the ``method=`` argument that chose it.
    uncertainty : {"noise", "noise+sampling"}
        The source of error covered.
    simultaneous : bool
        Whether ``alpha`` is the probability that *any* of the sets misses.
    labels : pandas.Index, optional
        One label for each set.
    notes : tuple of str
        What else the reader has to know, one remark each.

    Examples
    --------
    >>> sets = ConfidenceSets(estimate=[2.0, 3.0], lower=[1.0, -1.0], upper=[4.0, 1.5],
    ...                       kind=["interval", "complement"], alpha=0.05, method="exact",
    ...                       uncertainty="noise")
    >>> sets.contains(0.0), sets.contains(2.0), sets.width
    (array([False, False]), array([ True,  True]), array([ 3., inf]))
    """

    estimate: Any
    lower: Any
    upper: Any
    kind: Any
    alpha: float
    method: str
    uncertainty: Uncertainty
    simultaneous: bool = False
    labels: pd.Index | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        hold_arrays(self, ("estimate", "lower", "upper"), self.labels)
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

    def contains(self, value: ArrayLike) -> Any:
        """Whether each set holds a value; its ends belong to it.

        Parameters
        ----------
        value : float or array of float
            One value for all sets, or values that broadcast against them.

        Returns
        -------
        bool, array of bool or Series
            One answer for each set, with the labels of the sets.
        """
        point = check_array(value, "value", finite=False)
        lower, upper, kind = self._parts
        check_broadcast(sets=lower.shape, value=point.shape)
        between = (lower <= point) & (point <= upper)
        outside = (point <= lower) | (upper <= point)
        inside = np.where(kind == "complement", outside, between)
        return attach_labels(inside, self.labels) if inside.shape == lower.shape else inside[()]

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

        Raises
        ------
        InvalidParameterError
            If the bounds are not numbers, or ``lower`` exceeds ``upper``.
        """
        floor = -np.inf if lower is None else float(check_array(lower, "lower", ndim=0))
        ceiling = np.inf if upper is None else float(check_array(upper, "upper", ndim=0))
        if floor > ceiling:
            raise InvalidParameterError(f"lower must be <= upper, got {floor:g} and {ceiling:g}")
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
        """Return estimates and sets as a DataFrame.

        Returns
        -------
        DataFrame
            One row a set, with the columns ``estimate``, ``ci_lower``, ``ci_upper`` and ``kind``.
            ``attrs`` holds ``alpha``, ``method``, ``uncertainty`` and ``simultaneous``.
        """
        columns = {
            "estimate": self.estimate,
            "ci_lower": self.lower,
            "ci_upper": self.upper,
            "kind": self.kind,
        }
        return labelled_frame(
            columns,
            self.labels,
            alpha=self.alpha,
            method=self.method,
            uncertainty=self.uncertainty,
            simultaneous=self.simultaneous,
        )

    def summary(self) -> str:
        """Return the sets as a plain-text table that says which error they cover.

        Returns
        -------
        str
            :meth:`summary_frame` with the facts about the sets, rounded for reading.
        """
        frame = self.summary_frame()
        notes = self.notes
        if (self._kinds == "complement").any():
            notes = (*notes, "a complement holds all numbers that are not between its ends")
        return render_table(
            "Confidence sets",
            [
                ("Method", self.method),
                ("Level", f"{1 - self.alpha:.6g}"),
                ("Level holds for", "all together" if self.simultaneous else "each on its own"),
                ("Sets", len(frame)),
                ("Error covered", ERROR_COVERED[self.uncertainty]),
            ],
            {name: frame[name].to_numpy() for name in frame.columns},
            index=frame.index if self.labels is not None else None,
            notes=notes,
            alike=("estimate", "ci_lower", "ci_upper"),
        )

    def __iter__(self) -> Iterator[Any]:
        """Unpack as ``lower, upper``."""
        return iter((self.lower, self.upper))

    def __repr__(self) -> str:
        how = f"level {1 - self.alpha:.6g}, {self.method}" + (", together" * self.simultaneous)
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

    def __str__(self) -> str:
        return self.summary()

    @property
    def _kinds(self) -> NDArray[np.str_]:
        return np.asarray(self.kind)

    @property
    def _parts(self) -> tuple[FloatArray, FloatArray, NDArray[np.str_]]:
        return np.asarray(self.lower), np.asarray(self.upper), self._kinds
