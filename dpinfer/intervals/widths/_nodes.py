"""Points and weights by which expectations over a published count are taken.

Where the noise is whole-numbered they are the published counts themselves, or equally spaced ones
of them. Otherwise they are sums of a count X and of a noise e, the noise by the double exponential
rule of Takahasi and Mori (1974, doi:10.2977/prims/1195192451) on the scale of its probabilities.

Where the law of T = X + e is smooth, so are the ends of intervals as functions of T. They are then
found at some knots only, and a cubic spline serves in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dpinfer._check import FloatArray
from dpinfer.mechanisms._noisy_count import NoisyCount

_LOG_NEGLIGIBLE = 25.0
"""Counts less probable than the mode by exp(-25) are left out."""

_LEFT_OUT = 1e-11
"""Probability of the noises that are left out on each side, where they are whole numbers."""

_MOST_POINTS = 1 << 13
"""Number of published counts from which on not all are gone through."""

_IN_A_SPREAD = 2.0
"""Number of counts for each standard deviation of X, where not all are gone through.

For a smooth law equally spaced counts are as good as all: the Fourier transform of a normal law at
2π·2 is 5e-35, and at 2π, for the rule with half as many points, 3e-9.
"""

_FARTHEST = 3.0
"""Where the double exponential rule ends: at a probability of 2e-14."""

_FEWEST_NOISES = 48
_SUMS = 4096
"""Least number of noises on each side of 0, and how many sums of counts and noises to have."""

_NARROW_NOISES = 8
"""Number of noises on each side where they hardly differ, compared with the counts."""

_KNOTS = 129


@dataclass(frozen=True, eq=False)
class Nodes:
    """Points t and weights w: E g(T) is about Σ w·g(t).

    Parameters
    ----------
    points : array of float, shape (m,)
        Published counts.
    weights : array of float, shape (m,)
        Weights, which add up to 1.
    coarse : array of float, shape (m,)
        Weights of a rule with half as many points, by which the error is estimated.
    knots : array of float, optional
        Increasing values of T at which functions are evaluated, where they are smooth.
    """

    points: FloatArray
    weights: FloatArray
    coarse: FloatArray
    knots: FloatArray | None = None

    @classmethod
    def of(cls, law: NoisyCount, spread: float) -> Nodes:
        """Return the points for one law; ``spread`` is the standard deviation of its count X."""
        nodes = cls._whole(law, spread) if law.noise.is_integer else cls._product(law, spread)
        is_smooth = _step(spread) > 1.0 and (law.noise.is_integer or _is_wide(law))
        if not is_smooth or nodes.points.size <= 2 * _KNOTS:
            return nodes
        std = np.sqrt(spread**2 + float(law.noise.variance))
        return replace(nodes, knots=_knots(nodes.points, std, whole=law.noise.is_integer))

    @classmethod
    def _whole(cls, law: NoisyCount, spread: float) -> Nodes:
        """Return published counts with their probabilities."""
        low, high = law._support(_LOG_NEGLIGIBLE)
        reach = float(law.noise.isf(_LEFT_OUT))
        low, high = low - reach, high + reach
        step = max(_step(spread), np.ceil((high - low) / _MOST_POINTS))
        points = np.arange(low, high + step, step)
        if step == 1.0:
            probability = -np.diff(law.upper(np.append(points, points[-1] + 1.0)))
            weights = _normalised(probability)
            return cls(points, weights, weights)
        probability = law.upper(points) - law.upper(points + 1.0)
        return cls(points, _normalised(probability), _normalised(_every_other(probability)))

    @classmethod
    def _product(cls, law: NoisyCount, spread: float) -> Nodes:
        """Return sums of counts and noises."""
        low, high = law._support(_LOG_NEGLIGIBLE)
        step = _step(spread)
        counts = np.arange(low, high + step, step)
        counts = counts[counts <= float(law._last)]
        probability = law._pmf_at(counts)
        # an even number, so that 0 is in both rules
        each = max(_FEWEST_NOISES, 2 * (_SUMS // (4 * counts.size)))
        if step > 1.0 and not _is_wide(law):
            each = _NARROW_NOISES
        x = np.linspace(0.0, _FARTHEST, each + 1)
        # P(e > noise) and its derivative
        tail = 1.0 / (1.0 + np.exp(np.pi * np.sinh(x)))
        density = np.pi * np.cosh(x) * tail * (1.0 - tail)
        noise = np.asarray(law.noise.isf(tail))
        noise, density = np.append(-noise[:0:-1], noise), np.append(density[:0:-1], density)
        every_other = _every_other(density)
        fewer = _every_other(probability) if step > 1.0 else probability
        pairs = [(probability, density), (fewer, every_other)]
        fine, coarse = (_normalised(np.multiply.outer(p, w)).ravel() for p, w in pairs)
        return cls(np.add.outer(counts, noise).ravel(), fine, coarse)

    def expectation(self, function: Callable[[FloatArray], FloatArray]) -> tuple[float, float]:
        """Return the expectation of a function of T, and about its error."""
        from scipy.interpolate import CubicSpline

        if self.knots is None:
            values = function(self.points)
            found = float(self.weights @ values)
            return found, abs(found - float(self.coarse @ values))
        known = function(self.knots)
        values = CubicSpline(self.knots, known)(self.points)
        rough = CubicSpline(self.knots[::2], known[::2])(self.points)
        found = float(self.weights @ values)
        error = abs(found - float(self.coarse @ values)) + abs(found - float(self.weights @ rough))
        return found, error


def _is_wide(law: NoisyCount) -> bool:
    """Whether the noise smooths over the steps between whole numbers."""
    return float(law.noise.variance) >= 1.0


def _knots(points: FloatArray, std: float, *, whole: bool) -> FloatArray:
    """Return an odd number of knots from the first point to the last, dense in the middle."""
    low, high = float(points.min()), float(points.max())
    middle = 0.5 * (low + high)
    ends = np.arcsinh((high - middle) / std)
    knots = middle + std * np.sinh(np.linspace(-ends, ends, _KNOTS))
    knots[0], knots[-1] = low, high
    if whole:
        knots = np.unique(np.rint(knots))
        knots = knots if knots.size % 2 else np.delete(knots, 1)
    return np.asarray(knots)


def _step(spread: float) -> float:
    """Distance between counts, of which there are enough for each standard deviation."""
    return max(1.0, float(np.floor(spread / _IN_A_SPREAD)))


def _every_other(weights: FloatArray) -> FloatArray:
    kept = np.zeros(weights.shape)
    kept[::2] = weights[::2]
    return kept


def _normalised(weights: FloatArray) -> FloatArray:
    return np.asarray(weights / weights.sum())
