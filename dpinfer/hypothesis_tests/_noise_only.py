"""Null distributions of statistics in which nothing is random but the noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import Alternative, FloatArray
from dpinfer.hypothesis_tests._answers import Found, in_the_limit, simulated
from dpinfer.hypothesis_tests._inversion import SIMULATED
from dpinfer.hypothesis_tests._inversion import Found as FoundEnds
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.weighted_sum import spacing_of, untabulated
from dpinfer.results.null import LARGEST_STATISTIC, SIGNS, ExactNull, NullDistribution, around
from dpinfer.results.simulation import Simulation

NoiseOnlyMethod = Literal["exact", "monte-carlo", "asymptotic"]

_FAR = 1e-8
"""Tails below this are not taken from the tables of :func:`fast_sum`."""

_ROUNDING = 64 * np.finfo(float).eps
"""Rounding error of a deviation, relative to the size of the terms of which it is the sum."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NoiseOnly:
    """Deviations from the values under the null hypothesis, and the laws of their noise."""

    deviation: FloatArray
    terms: tuple[FloatArray, ...]  # of which the deviations were made
    laws: list[NoiseLaw]
    which: NDArray[np.intp]

    @property
    def magnitude(self) -> FloatArray:
        """How large the terms are."""
        return np.broadcast_to(sum(np.abs(term) for term in self.terms), self.deviation.shape)

    @property
    def spread(self) -> FloatArray:
        """Standard deviation of the noise."""
        return self._of_each([float(law.std) for law in self.laws])

    @property
    def error(self) -> FloatArray:
        """Error of tails where that is an absolute one; 0 where it is relative."""
        return self._of_each([float(untabulated(law)._floor) for law in self.laws])

    def _of_each(self, values: list[float]) -> FloatArray:
        """Return what each law has, for each deviation."""
        if len(values) == 1:
            return np.broadcast_to(values[0], self.which.shape)
        return np.array(values)[self.which]

    @property
    def statistic(self) -> FloatArray:
        """Deviations in standard deviations of the noise."""
        return np.asarray(self.deviation / self.spread)

    def at_least(self, t: FloatArray, slack: FloatArray | float) -> FloatArray:
        """P(S >= t), atoms within ``slack`` below t included."""
        # by symmetry P(S >= t) = P(S <= -t), which counts the atom
        points = np.asarray(slack - t)
        if len(self.laws) == 1:
            return lower_tail(self.laws[0], points)
        tail = np.empty(points.shape)
        which = np.broadcast_to(self.which, points.shape)
        for number, law in enumerate(self.laws):
            rows = which == number
            tail[rows] = lower_tail(law, points[rows])
        return tail

    def around(self, z: FloatArray) -> FloatArray:
        """Return the z statistics around given ones that noise on a lattice has."""
        unit = self._of_each([spacing_of(law) for law in self.laws])
        return around(z, unit=unit, spread=self.spread)

    def slack(self, t: FloatArray) -> FloatArray:
        """Return the rounding error of a computed deviation; whole deviations are exact."""
        fraction = t != np.rint(t)
        return fraction * (_ROUNDING * self.magnitude) if fraction.any() else np.zeros(())


def lower_tail(law: NoiseLaw, x: FloatArray) -> FloatArray:
    """P(S <= x); tails too far for the table of a law come from the law itself, one by one."""
    once = _each_once(x)
    if once is not None:
        points, place = once
        return np.asarray(lower_tail(law, points)[place])
    tail = np.array(law._cdf(x))
    far = tail < _FAR
    if far.any():
        points, place = np.unique(x[far], return_inverse=True)
        tail[far] = np.exp(untabulated(law)._logcdf(points))[place]
    return tail


def _each_once(x: FloatArray) -> tuple[FloatArray, NDArray[np.intp]] | None:
    """Return whole numbers and the place of each x among them, if x are many, all of these."""
    low, high = x.min(initial=np.inf), x.max(initial=-np.inf)
    if not (x.size and max(-low, high) < 2.0**52 and high - low + 1.0 < x.size):
        return None
    place = (x - low).astype(np.intp)
    return None if (place + low != x).any() else (np.arange(low, high + 1.0), place)


def _beyond(problem: NoiseOnly, sign: float, z: FloatArray) -> FloatArray:
    """Tail at a z statistic (no closure, so that results can be pickled)."""
    t = np.clip(sign * z * problem.spread, -LARGEST_STATISTIC, LARGEST_STATISTIC)
    return problem.at_least(t, _ROUNDING * (problem.magnitude + np.abs(t)))


def exact(problem: NoiseOnly, alternative: Alternative, simulation: Simulation) -> Found:
    """P-values at the deviations themselves, which going through z would round."""
    several = len(problem.laws) > 1
    null = ExactNull(
        partial(_beyond, problem, 1.0),
        partial(_beyond, problem, -1.0),
        error=problem.error if several else float(untabulated(problem.laws[0])._floor),
        atoms=problem.around,
    )
    t = problem.deviation
    once = None if several else _each_once(t)
    if once is not None:  # whole deviations are exact
        points, place = once
        return _exact_pvalues(problem, points, np.zeros(()), alternative)[place], null
    return _exact_pvalues(problem, t, problem.slack(t), alternative), null


def _exact_pvalues(
    problem: NoiseOnly, t: FloatArray, slack: FloatArray, alternative: Alternative
) -> FloatArray:
    if alternative != "two-sided":
        return problem.at_least(SIGNS[alternative] * t, slack)
    size = np.abs(t)
    both = np.minimum(2.0 * problem.at_least(size, slack), 1.0)
    return np.where(size <= slack, 1.0, both)


def monte_carlo(problem: NoiseOnly, alternative: Alternative, simulation: Simulation) -> Found:
    """P-values by simulation; one simulation where all deviations have one law."""
    z = problem.statistic
    laws = [problem.laws[0]] if len(problem.laws) == 1 else [problem.laws[i] for i in problem.which]
    draws = [DrawNoise(law, float(law.std)) for law in laws]
    return simulated(draws, z, alternative, simulation)


def asymptotic(problem: NoiseOnly, alternative: Alternative, simulation: Simulation) -> Found:
    """P-values of the normal law with the variance of the noise."""
    return in_the_limit(problem.statistic, alternative)


@dataclass(frozen=True, eq=False)
class DrawNoise:
    """Draws noise in standard deviations; an object, so that other processes can be sent it."""

    law: NoiseLaw
    spread: float

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw so many."""
        return np.asarray(self.law._rvs((size,), rng) / self.spread)


@dataclass(frozen=True, kw_only=True, eq=False)
class NoiseOnlyEnds:
    """Estimates give or take the deviations that are not rejected, which no target changes."""

    problem: NoiseOnly
    estimate: FloatArray
    null: NullDistribution
    alternative: Alternative
    method: NoiseOnlyMethod

    def __call__(self, alpha: float) -> FoundEnds:
        """Return the ends."""
        problem, shape = self.problem, self.problem.which.shape
        if self.method == "exact":
            tail = 0.5 * alpha if self.alternative == "two-sided" else alpha
            reach = np.array([float(law.isf(tail)) for law in problem.laws])[problem.which]
            reach = reach + problem.slack(problem.deviation)
        else:
            # what has the p-value alpha is held
            critical = self.null.critical_value(alpha * (1.0 - 1e-11), self.alternative)
            reach = SIGNS[self.alternative] * np.asarray(critical) * problem.spread
        estimate, far = (
            np.broadcast_to(part, shape).reshape(-1) for part in (self.estimate, reach)
        )
        notes = (SIMULATED,) if self.method == "monte-carlo" else ()
        return *around_estimate(estimate, far, self.alternative), notes


def around_estimate(
    estimate: FloatArray, reach: FloatArray, alternative: Alternative
) -> tuple[FloatArray, FloatArray]:
    lower = np.full(estimate.shape, -np.inf) if alternative == "smaller" else estimate - reach
    upper = np.full(estimate.shape, np.inf) if alternative == "larger" else estimate + reach
    return lower, upper


NULLS: dict[NoiseOnlyMethod, Callable[[NoiseOnly, Alternative, Simulation], Found]] = {
    "exact": exact,
    "monte-carlo": monte_carlo,
    "asymptotic": asymptotic,
}
"""The p-values and the null distribution of each method."""
