"""Null distributions known through simulated replicates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._validation import (
    ALTERNATIVES,
    Alternative,
    FloatArray,
    check_array,
    check_integer_array,
    check_option,
    freeze,
    show,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.results.null_distribution import SIGNS, NullDistribution

_TIE = 1e-10
"""Replicates this close to a statistic, relatively, equal it but for rounding."""

SORT_FROM = 8
"""With more statistics than this, sorting the replicates is faster than comparing each."""

Bounds = tuple[FloatArray | None, FloatArray | None]
"""From which value on, and up to which, replicates are extreme; None where they are not."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class MonteCarloNull(NullDistribution):
    """A null distribution known through simulated replicates of the statistic.

    The replicates were counted against the observed statistics while they were drawn, and only a
    sample of them is kept. The p-value of an observed statistic comes from its count; critical
    values, and the p-values of other statistics, come from the sample.

    Parameters
    ----------
    sample : array of float, shape (m,) or (k, m)
        Replicates that were kept, in any order; a row for each of k laws.
    reps : int or array of int, shape (k,)
        Number of replicates among which those at least as extreme as each observed statistic were
        counted.
    statistic : array of float, shape () or (k,)
        The observed statistics.
    extreme : mapping of alternative to array of int
        How many of the ``reps`` replicates were at least as extreme as each observed statistic.
        The p-values for an alternative that is not there come from the sample.
    stopped : bool or array of bool, shape (k,), default False
        Whether the count ended at a replicate at least as extreme, because there were as many of
        these as had been asked for.

    Notes
    -----
    With b of R replicates at least as extreme, the p-value is (1 + b)/(R + 1). Where the
    simulation stopped at the b-th of them it is b/R: the sequential p-value of Besag and Clifford
    (1991), where R is random and b, or the largest R, was set beforehand. Either way
    P(p <= α) <= α under the null hypothesis, whatever was set (Davison and Hinkley 1997, §4.2.1).
    Its Monte Carlo standard error is √(p(1 - p)/R), and about p/√b relative to p small.

    :meth:`mc_confint` is the interval of Clopper and Pearson (1934) for the probability of a value
    at least as extreme. Where the simulation stopped it is its analogue for the negative binomial
    law of R: the upper end then looks at the R - 1 replicates before the last.

    References
    ----------
    Besag, J. and Clifford, P. (1991). Sequential Monte Carlo p-values. Biometrika 78, 301-304.
    doi:10.1093/biomet/78.2.301.
    Clopper, C. J. and Pearson, E. S. (1934). The use of confidence or fiducial limits illustrated
    in the case of the binomial. Biometrika 26, 404-413. doi:10.1093/biomet/26.4.404.
    Davison, A. C. and Hinkley, D. V. (1997). Bootstrap Methods and their Application.
    doi:10.1017/CBO9780511802843.

    Examples
    --------
    >>> null = MonteCarloNull(sample=np.arange(99.0), reps=99, statistic=95.0,
    ...                       extreme={"two-sided": 4, "larger": 4, "smaller": 96})
    >>> null.pvalue(95.0, "larger"), null.critical_value(0.05, "larger").round(6)
    (np.float64(0.05), np.float64(94.0))
    >>> low, high = null.mc_confint(95.0, "larger")
    >>> low.round(4), high.round(4)
    (np.float64(0.0111), np.float64(0.1002))
    """

    sample: FloatArray
    reps: Any
    statistic: FloatArray
    extreme: Mapping[Alternative, Any]
    stopped: Any = False

    def __post_init__(self) -> None:
        statistic = check_array(self.statistic, "statistic")
        shape = statistic.shape
        stopped = np.broadcast_to(np.asarray(self.stopped, dtype=bool), shape)
        sample = np.sort(check_array(self.sample, "sample"), axis=-1)
        reps = np.broadcast_to(check_integer_array(self.reps, "reps", ge=1), shape)
        if not stopped.all():  # a block is kept as a whole, whether or not a count ended in it
            check_array(reps[~stopped], "reps", ge=sample.shape[-1])
        if not isinstance(self.extreme, Mapping):
            raise InvalidParameterError(
                f"extreme must be a mapping of alternatives to counts, got {show(self.extreme)}"
            )
        counts = {name: _checked_counts(name, held, reps) for name, held in self.extreme.items()}
        for name, value in (
            ("sample", freeze(sample)),
            ("reps", freeze(reps)),
            ("statistic", freeze(statistic)),
            ("extreme", counts),
            ("stopped", freeze(stopped)),
        ):
            object.__setattr__(self, name, value)

    def _extreme(self, statistic: FloatArray, alternative: Alternative) -> FloatArray:
        exceedances, replicates, stopped = self._counts(statistic, alternative)
        added = np.where(stopped, 0.0, 1.0)
        return np.asarray((exceedances + added) / (replicates + added))

    def _counts(
        self, statistic: FloatArray, alternative: Alternative
    ) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
        """Return exceedances, among how many replicates, and whether the last is one of them."""
        observed = self._observed(statistic, alternative)
        if observed.all():
            return self.extreme[alternative], self.reps, self.stopped
        sampled, kept = self._count(statistic, alternative), float(self.sample.shape[-1])
        if not observed.any():
            return sampled, np.asarray(kept), np.asarray(False)
        return (
            np.where(observed, self.extreme[alternative], sampled),
            np.where(observed, self.reps, kept),
            observed & self.stopped,
        )

    def _observed(self, statistic: FloatArray, alternative: Alternative) -> NDArray[np.bool_]:
        """Where the statistics are those for which the replicates were counted."""
        if alternative in self.extreme and statistic.shape == self.statistic.shape:
            return np.asarray(statistic == self.statistic)
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
        return np.asarray(sign * beyond_ties(last))

    def _mc_error(self, statistic: FloatArray, alternative: Alternative) -> FloatArray:
        pvalue = self._extreme(statistic, alternative)
        _, replicates, _ = self._counts(statistic, alternative)
        return np.asarray(np.sqrt(pvalue * (1.0 - pvalue) / replicates))

    def _mc_confint(
        self, statistic: FloatArray, alternative: Alternative, alpha: float
    ) -> tuple[FloatArray, FloatArray]:
        exceedances, replicates, stopped = self._counts(statistic, alternative)
        others = replicates - exceedances
        # a beta quantile has no first (second) parameter 0: the bound is 0 (1) there
        low = special.betaincinv(np.maximum(exceedances, 1.0), others + 1.0, 0.5 * alpha)
        beyond = np.where(stopped, exceedances, exceedances + 1.0)
        high = special.betainccinv(beyond, np.maximum(others, 1.0), 0.5 * alpha)
        return np.where(exceedances > 0, low, 0.0), np.where(others > 0, high, 1.0)

    def _facts(self) -> list[tuple[str, object]]:
        fewest, most = int(self.reps.min()), int(self.reps.max())
        facts: list[tuple[str, object]] = [
            ("Kind", "Monte Carlo"),
            ("Replicates", most if fewest == most else f"{fewest} to {most}"),
            ("Replicates kept", self.sample.shape[-1]),
        ]
        if self.stopped.any():
            ended = f"{int(self.stopped.sum())} of {self.stopped.size}"
            facts.append(("Counts ended early, precise enough", ended))
        return facts


def _checked_counts(alternative: str, counts: Any, reps: FloatArray) -> FloatArray:
    """Return how many of so many replicates were at least as extreme."""
    check_option(alternative, "extreme", ALTERNATIVES)
    name = f"extreme[{alternative!r}]"
    array = check_integer_array(counts, name, ge=0)
    if array.shape not in ((), reps.shape):
        raise InvalidParameterError(f"{name} must have shape {reps.shape}, got {array.shape}")
    if (array > reps).any():
        raise InvalidParameterError(
            f"{name} must be at most reps = {show(reps)}, got {show(array)}"
        )
    return np.broadcast_to(array, reps.shape)


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
    if not ordered and statistic.size > SORT_FROM:
        replicates, ordered = np.sort(replicates), True
    return count_beyond(replicates, bounds_of(statistic, alternative), ordered)


def beyond_ties(replicate: FloatArray) -> FloatArray:
    """Return the smallest statistics that are clearly larger than replicates."""
    return np.asarray(replicate + 2.0 * _TIE * (1.0 + np.abs(replicate)))


def bounds_of(statistic: FloatArray, alternative: Alternative) -> Bounds:
    """Return from which value on, and up to which, replicates are at least as extreme."""
    size = np.abs(statistic) if alternative == "two-sided" else SIGNS[alternative] * statistic
    reached = size - _TIE * (1.0 + np.abs(size))
    upper = None if alternative == "smaller" else reached
    return upper, None if alternative == "larger" else -reached


def count_beyond(replicates: FloatArray, bounds: Bounds, ordered: bool) -> FloatArray:
    """Count the replicates beyond either bound, for each statistic."""
    upper, lower = bounds
    count: FloatArray | float = 0.0
    if upper is not None:
        count = count + _count_at_least(replicates, upper, ordered)
    if lower is not None:
        count = count + _count_at_most(replicates, lower, ordered)
    # near zero both sides count the same replicates
    return np.minimum(count, replicates.size)


def _count_at_least(replicates: FloatArray, bound: FloatArray, ordered: bool) -> FloatArray | float:
    if ordered:
        return np.asarray(replicates.size - np.searchsorted(replicates, bound, side="left"))
    if bound.ndim == 0:
        return float(np.count_nonzero(replicates >= bound))
    counts = [np.count_nonzero(replicates >= point) for point in bound.flat]
    return np.reshape(np.array(counts, dtype=np.float64), bound.shape)


def _count_at_most(replicates: FloatArray, bound: FloatArray, ordered: bool) -> FloatArray | float:
    if ordered:
        return np.asarray(np.searchsorted(replicates, bound, side="right"))
    if bound.ndim == 0:
        return float(np.count_nonzero(replicates <= bound))
    counts = [np.count_nonzero(replicates <= point) for point in bound.flat]
    return np.reshape(np.array(counts, dtype=np.float64), bound.shape)
