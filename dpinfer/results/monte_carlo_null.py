"""Null distributions known through simulated replicates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dpinfer._validation import (
    ALTERNATIVES,
    Alternative,
    FloatArray,
    check_array,
    check_integer,
    freeze,
)
from dpinfer.results.null_distribution import SIGNS, NullDistribution

_TIE = 1e-10
"""Replicates this close to a statistic, relatively, equal it but for rounding."""

_SORT_FROM = 8
"""With more statistics than this, sorting the replicates is faster than comparing each."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class MonteCarloNull(NullDistribution):
    """A null distribution known through simulated replicates of the statistic.

    The replicates were counted against the observed statistics while they were drawn, and only a
    sample of them is kept. The p-value of an observed statistic counts all replicates; critical
    values, and the p-values of other statistics, come from the sample.

    Parameters
    ----------
    sample : array of float, shape (m,) or (k, m)
        Replicates that were kept, in any order; a row for each of k laws.
    reps : int
        Number of replicates drawn, >= m.
    statistic : array of float, shape () or (k,)
        The observed statistics.
    extreme : mapping of alternative to array of int
        How many of the ``reps`` replicates were at least as extreme as each observed statistic.

    Notes
    -----
    With b of R replicates at least as extreme, the p-value is (1 + b)/(R + 1): under the null
    hypothesis P(p <= α) <= α for every R (Davison and Hinkley 1997, §4.2.1). Its Monte Carlo
    standard error is √(p(1 - p)/R).

    References
    ----------
    Davison, A. C. and Hinkley, D. V. (1997). Bootstrap Methods and their Application.
    doi:10.1017/CBO9780511802843.

    Examples
    --------
    >>> null = MonteCarloNull(sample=np.arange(99.0), reps=99, statistic=95.0,
    ...                       extreme={"two-sided": 4, "larger": 4, "smaller": 96})
    >>> null.pvalue(95.0, "larger"), null.critical_value(0.05, "larger").round(6)
    (np.float64(0.05), np.float64(94.0))
    """

    sample: FloatArray
    reps: int
    statistic: FloatArray
    extreme: dict[Alternative, Any]

    def __post_init__(self) -> None:
        sample = np.sort(check_array(self.sample, "sample"), axis=-1)
        reps = check_integer(self.reps, "reps", ge=sample.shape[-1])
        statistic = check_array(self.statistic, "statistic")
        counts = {name: np.asarray(self.extreme[name]) for name in ALTERNATIVES}
        for name, value in (
            ("sample", freeze(sample)),
            ("reps", reps),
            ("statistic", freeze(statistic)),
            ("extreme", counts),
        ):
            object.__setattr__(self, name, value)

    def _extreme(self, statistic: FloatArray, alternative: Alternative) -> FloatArray:
        observed = self._observed(statistic)
        counted = (1.0 + self.extreme[alternative]) / (self.reps + 1.0)
        if observed.all():
            return np.asarray(counted)
        kept = self.sample.shape[-1]
        sampled = (1.0 + self._count(statistic, alternative)) / (kept + 1.0)
        return np.where(observed, counted, sampled) if observed.any() else np.asarray(sampled)

    def _observed(self, statistic: FloatArray) -> Any:
        """Where the statistics are those whose replicates were all counted."""
        if statistic.shape == self.statistic.shape:
            return statistic == self.statistic
        return np.zeros(statistic.shape, dtype=bool)

    def _count(self, statistic: FloatArray, alternative: Alternative) -> FloatArray:
        """Count the kept replicates that are at least as extreme."""
        if self.sample.ndim == 1:
            return count_extreme(self.sample, statistic, alternative, ordered=True)
        points = np.broadcast_to(statistic, self.sample.shape[:-1])
        rows = zip(self.sample, points, strict=True)
        return np.array(
            [count_extreme(row, point, alternative, ordered=True) for row, point in rows]
        )

    def _critical(self, alpha: float, alternative: Alternative) -> FloatArray:
        """Value just beyond the replicate that is one too many."""
        sign = SIGNS[alternative]
        size = np.abs(self.sample) if alternative == "two-sided" else sign * self.sample
        allowed = int(np.floor(alpha * (size.shape[-1] + 1.0) * (1.0 + 1e-12))) - 1
        if allowed < 0:
            return np.full(size.shape[:-1], sign * np.inf)
        if allowed >= size.shape[-1]:
            return np.full(size.shape[:-1], -sign * np.inf)
        last = np.sort(size, axis=-1)[..., -1 - allowed]
        return np.asarray(sign * (last + 2.0 * _TIE * (1.0 + np.abs(last))))

    def _mc_error(self, statistic: FloatArray, alternative: Alternative) -> FloatArray:
        pvalue = self._extreme(statistic, alternative)
        kept = self.sample.shape[-1]
        replicates = np.where(self._observed(statistic), self.reps, kept)
        return np.asarray(np.sqrt(pvalue * (1.0 - pvalue) / replicates))

    def _facts(self) -> list[tuple[str, object]]:
        return [
            ("Kind", "Monte Carlo"),
            ("Replicates", self.reps),
            ("Replicates kept", self.sample.shape[-1]),
        ]


def count_extreme(
    replicates: FloatArray,
    statistic: FloatArray,
    alternative: Alternative,
    *,
    ordered: bool = False,
) -> FloatArray:
    """Count the replicates that are at least as extreme as each statistic, ties included.

    ``ordered`` says that the replicates are sorted.
    """
    size = np.abs(statistic) if alternative == "two-sided" else SIGNS[alternative] * statistic
    reached = size - _TIE * (1.0 + np.abs(size))
    if not ordered and statistic.size > _SORT_FROM:
        replicates, ordered = np.sort(replicates), True
    count = np.zeros(statistic.shape)
    if alternative != "smaller":
        count += _count_at_least(replicates, reached, ordered)
    if alternative != "larger":
        count += replicates.size - _count_above(replicates, -reached, ordered)
    return np.minimum(count, replicates.size)  # near zero both sides count the same replicates


def _count_at_least(replicates: FloatArray, bound: FloatArray, ordered: bool) -> FloatArray:
    if ordered:
        return np.asarray(replicates.size - np.searchsorted(replicates, bound, side="left"))
    counts = [np.count_nonzero(replicates >= point) for point in bound.flat]
    return np.reshape(np.array(counts, dtype=np.float64), bound.shape)


def _count_above(replicates: FloatArray, bound: FloatArray, ordered: bool) -> FloatArray:
    if ordered:
        return np.asarray(replicates.size - np.searchsorted(replicates, bound, side="right"))
    counts = [np.count_nonzero(replicates > point) for point in bound.flat]
    return np.reshape(np.array(counts, dtype=np.float64), bound.shape)
