"""Null distributions of statistics in which nothing is random but the noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import Alternative, FloatArray
from dpinfer.mechanisms._fast_sum import spacing_of, untabulated
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.results.null_distribution import (
    LARGEST_STATISTIC,
    SIGNS,
    AsymptoticNull,
    ExactNull,
    NullDistribution,
    around,
)
from dpinfer.results.simulation import Simulation, simulate_null

Method = Literal["exact", "monte-carlo", "normal"]

_FAR = 1e-8
"""Tails below this are not taken from the tables of :func:`fast_sum`."""

_ROUNDING = 64 * np.finfo(float).eps
"""Rounding error of a deviation, relative to the size of the terms of which it is the sum."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NoiseOnly:
    """Deviations from the values under the null hypothesis, and the laws of their noise.

    Parameters
    ----------
    deviation : array of float, shape () or (k,)
        Estimates less values under the null hypothesis.
    magnitude : array of float
        Size of the terms of which they are sums, of that shape.
    laws : list of NoiseLaw
        Distinct laws of the noise, none of which is certain to be 0.
    which : array of int
        The number of the law of each deviation, of that shape.
    """

    deviation: FloatArray
    magnitude: FloatArray
    laws: list[NoiseLaw]
    which: NDArray[np.intp]

    @property
    def spread(self) -> FloatArray:
        """Standard deviation of the noise."""
        return np.array([float(law.std) for law in self.laws])[self.which]

    @property
    def error(self) -> FloatArray:
        """Error of tails where that is an absolute one; 0 where it is relative."""
        return np.array([float(untabulated(law)._floor) for law in self.laws])[self.which]

    @property
    def statistic(self) -> FloatArray:
        """Deviations in standard deviations of the noise."""
        return np.asarray(self.deviation / self.spread)

    def at_least(self, t: FloatArray, slack: FloatArray | float) -> FloatArray:
        """P(S >= t), atoms within ``slack`` below t included."""
        # by symmetry P(S >= t) = P(S <= -t), which counts the atom
        points = np.asarray(slack - t)
        tail = np.empty(points.shape)
        which = np.broadcast_to(self.which, points.shape)
        for number, law in enumerate(self.laws):
            rows = which == number
            tail[rows] = lower_tail(law, points[rows])
        return tail

    def around(self, z: FloatArray) -> FloatArray:
        """Return the z statistics around given ones that noise on a lattice has."""
        unit = np.array([spacing_of(law) for law in self.laws])[self.which]
        return around(z, unit=unit, spread=self.spread)

    def slack(self, t: FloatArray) -> FloatArray:
        """Return the rounding error of a computed deviation; whole deviations are exact."""
        return np.where(t == np.rint(t), 0.0, _ROUNDING * self.magnitude)


def lower_tail(law: NoiseLaw, x: FloatArray) -> FloatArray:
    """P(S <= x); tails too far for the table of a law come from the law itself, one by one."""
    tail = np.array(law._cdf(x))
    far = tail < _FAR
    if far.any():
        points, place = np.unique(x[far], return_inverse=True)
        tail[far] = np.exp(untabulated(law)._logcdf(points))[place]
    return tail


def _beyond(problem: NoiseOnly, sign: float, z: FloatArray) -> FloatArray:
    """Tail at a z statistic (no closure, so that results can be pickled)."""
    t = np.clip(sign * z * problem.spread, -LARGEST_STATISTIC, LARGEST_STATISTIC)
    return problem.at_least(t, _ROUNDING * (problem.magnitude + np.abs(t)))


def exact(
    problem: NoiseOnly, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values at the deviations themselves, which going through z would round."""
    null = ExactNull(
        partial(_beyond, problem, 1.0),
        partial(_beyond, problem, -1.0),
        error=problem.error,
        atoms=problem.around,
    )
    t = problem.deviation
    if alternative != "two-sided":
        return problem.at_least(SIGNS[alternative] * t, problem.slack(t)), null
    both = np.minimum(2.0 * problem.at_least(np.abs(t), problem.slack(t)), 1.0)
    return np.where(np.abs(t) <= problem.slack(t), 1.0, both), null


def monte_carlo(
    problem: NoiseOnly, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values by simulation; one simulation where all deviations have one law."""
    z = problem.statistic
    laws = [problem.laws[0]] if len(problem.laws) == 1 else [problem.laws[i] for i in problem.which]
    draws = [DrawNoise(law, float(law.std)) for law in laws]
    null = simulate_null(draws, z, simulation, alternative=alternative)
    return np.asarray(null.pvalue(z, alternative)), null


def normal(
    problem: NoiseOnly, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values of the normal law with the variance of the noise."""
    null = AsymptoticNull.normal()
    return np.asarray(null.pvalue(problem.statistic, alternative)), null


@dataclass(frozen=True, eq=False)
class DrawNoise:
    """Draws noise in standard deviations; an object, so that other processes can be sent it."""

    law: NoiseLaw
    spread: float

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw so many."""
        return np.asarray(self.law._rvs((size,), rng) / self.spread)


NULLS: dict[
    Method,
    Callable[[NoiseOnly, Alternative, Simulation], tuple[FloatArray, NullDistribution]],
] = {"exact": exact, "monte-carlo": monte_carlo, "normal": normal}
"""The p-values and the null distribution of each method."""
