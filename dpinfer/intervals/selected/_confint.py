"""Intervals for the values of a release by the law that its publishing rule gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import (
    ALTERNATIVES,
    Alternative,
    FloatArray,
    check_alpha,
    check_array,
    check_flag,
    check_option,
    check_scalar,
)
from dpinfer.estimation.pivots import sidak
from dpinfer.estimation.published_law import PublishedRows
from dpinfer.intervals.selected._ends import SelectedValues
from dpinfer.intervals.selected._likelihood import median_unbiased, most_likely
from dpinfer.mechanisms import Exact, groups
from dpinfer.mechanisms.independent import integer_cells
from dpinfer.releases import Release
from dpinfer.results.intervals import Intervals

Estimator = Literal["maximum-likelihood", "median-unbiased"]

_ESTIMATORS: dict[Estimator, Callable[[SelectedValues], FloatArray]] = {
    "maximum-likelihood": most_likely,
    "median-unbiased": median_unbiased,
}

_SIDES: dict[Alternative, tuple[str, ...]] = {
    "two-sided": ("lower", "upper"),
    "larger": ("lower",),
    "smaller": ("upper",),
}

_OPEN = {"lower": -np.inf, "upper": np.inf}

_SMALLEST = float(np.nextafter(0.0, 1.0))

_LARGEST = 1e100
"""Beyond it, squares of deviations overflow."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the user chose; see :func:`~dpinfer.intervals.selected.releases.release_confint`."""

    alpha: float = 0.05
    follow_rule: bool = True
    alternative: Alternative = "two-sided"
    estimate: Estimator = "maximum-likelihood"
    integer: bool = False
    lower: float | None = None
    upper: float | None = None
    simultaneous: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", check_alpha(self.alpha))
        check_option(self.alternative, "alternative", ALTERNATIVES)
        check_option(self.estimate, "estimate", _ESTIMATORS)
        check_flag(self.simultaneous, "simultaneous")
        for name in ("lower", "upper"):
            if (bound := getattr(self, name)) is not None:
                object.__setattr__(self, name, check_scalar(bound, name))

    @property
    def sides(self) -> tuple[str, ...]:
        """The ends that the intervals have."""
        return _SIDES[self.alternative]

    def tail(self, noisy: int) -> float:
        """Error probability of each end of each interval."""
        each = sidak(self.alpha, max(1, noisy)) if self.simultaneous else self.alpha
        return max(each / len(self.sides), _SMALLEST)


def intervals_of(release: Release, options: Options, *, method: str) -> Intervals:
    """Return one interval for each value of a release, without labels."""
    check_array(release.values, "count", ge=-_LARGEST, le=_LARGEST)
    rows = _Rows.of(release)
    q = options.tail(int(np.count_nonzero(release.variance)))
    with np.errstate(over="ignore"):
        half = np.broadcast_to(release.mechanism.isf(q), len(release))
        estimate = release.values
        centre = rows.values if options.follow_rule else estimate
        ends = {"lower": centre - half, "upper": centre + half}
        if options.follow_rule:
            estimate = rows.estimate(_ESTIMATORS[options.estimate])
            rows.follow_rule(ends, q, options.sides)
    for side in {"lower", "upper"}.difference(options.sides):
        ends[side] = np.full(len(release), _OPEN[side])
    empty = (ends["upper"] == -np.inf) | (ends["lower"] > ends["upper"])
    intervals = Intervals(
        estimate=estimate,
        lower=np.where(empty, np.inf, ends["lower"]),
        upper=np.where(empty, -np.inf, ends["upper"]),
        alpha=options.alpha,
        method=method,
        uncertainty="noise",
        simultaneous=options.simultaneous,
        notes=rows.notes(int(np.count_nonzero(empty))) if options.follow_rule else (),
    )
    bounds = {"lower": options.lower, "upper": options.upper}
    intervals = intervals.unbinned(release.bin_size)
    intervals = intervals.restrict(**bounds, integer=options.integer)
    return _within(intervals, **bounds) if options.follow_rule else intervals


def _within(intervals: Intervals, *, lower: float | None, upper: float | None) -> Intervals:
    """Move the estimates to the nearest possible values, and say which are at no value at all."""
    least, most = -np.inf if lower is None else lower, np.inf if upper is None else upper
    estimate = np.clip(intervals.estimate, least, most)
    moved = int(np.count_nonzero(estimate != intervals.estimate))
    endless = int(np.count_nonzero(np.isinf(estimate)))
    notes = [
        (moved, "estimates were moved to the bounds of possible values"),
        (endless, "estimates are infinite: give lower= or upper= to bound them"),
    ]
    said = tuple(f"{number} {words}" for number, words in notes if number)
    return replace(intervals, estimate=estimate, notes=intervals.notes + said)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rows:
    """Values of a release, with the part of its publishing rule that matters for each.

    Parameters
    ----------
    release : Release
        What was published.
    values : array of float, shape (m,)
        The values; under integer noise, those at a bound are the first ones beyond it.
    threshold : array of float, shape (m,)
        The thresholds, -inf where every clamped value reaches it.
    at_low, at_high : array of bool, shape (m,)
        Whether a value is at a clamping bound.
    """

    release: Release
    values: FloatArray
    threshold: FloatArray
    at_low: NDArray[np.bool_]
    at_high: NDArray[np.bool_]

    @classmethod
    def of(cls, release: Release) -> _Rows:
        """Read the rule of a release."""
        rule, y = PublishedRows.of(release, np.zeros(())), release.values
        at_low, at_high = y <= rule.lowest, y >= rule.highest
        whole = integer_cells(release.mechanism, len(y))
        y = np.where(whole & at_low, np.floor(y), np.where(whole & at_high, np.ceil(y), y))
        threshold = np.where(rule.threshold <= rule.lowest, -np.inf, rule.threshold)
        return cls(release=release, values=y, threshold=threshold, at_low=at_low, at_high=at_high)

    def estimate(self, estimator: Callable[[SelectedValues], FloatArray]) -> FloatArray:
        """Return point estimates: infinite at a clamping bound, unless only it is published."""
        out = self.values.copy()
        for selected, rows in self._selected():
            distinct, kind = selected.distinct()
            out[rows] = estimator(distinct)[kind] + selected.base
        out[self.at_low] = -np.inf
        out[self.at_high & (self.threshold < self.values)] = np.inf
        return out

    def follow_rule(self, ends: dict[str, FloatArray], q: float, sides: tuple[str, ...]) -> None:
        """Replace, in place, the ends to which the publishing rule makes a difference."""
        for selected, rows in self._selected():
            distinct, kind = selected.distinct()
            for side in sides:
                ends[side][rows] = getattr(distinct, side)(q)[kind] + selected.base
        ends["lower"][self.at_low] = -np.inf
        ends["upper"][self.at_high] = np.inf

    def notes(self, empty: int) -> tuple[str, ...]:
        """Say what the publishing rule made of the intervals, so many of which are empty."""
        clamped = int(np.count_nonzero(self.at_low | self.at_high))
        remarks = (
            (np.isfinite(self.threshold).any(), "conditional on reaching the threshold"),
            (clamped, f"{clamped} values at a clamping bound have intervals open on that side"),
            (
                empty,
                f"{empty} values are closer above their threshold than any confidential value "
                "makes likely: their intervals are empty",
            ),
        )
        return tuple(words for holds, words in remarks if holds)

    def _selected(self) -> Iterator[tuple[SelectedValues, NDArray[np.intp]]]:
        """Yield the values with a threshold, by kind of noise; without noise it says nothing."""
        for law, cells in groups(self.release.mechanism, len(self.values)):
            held = np.flatnonzero(np.isfinite(self.threshold[cells]))
            if held.size and not isinstance(law, Exact):
                rows = cells[held]
                values = SelectedValues.of(law.take(held), self.values[rows], self.threshold[rows])
                yield values, rows
