"""Expectations over what may be published.

Over one published count they are sums over points. Where the noise is whole-numbered the points are
the published counts themselves, or equally spaced ones of them. Otherwise they are sums of a count
X and of a noise e, the noise by the double exponential rule of Takahasi and Mori (1974,
doi:10.2977/prims/1195192451) on the scale of its probabilities. Where the law of T = X + e is
smooth, so are the ends of intervals as functions of T. They are then found at some knots only, and
a cubic spline serves in between.

Over several published numbers they are averages over equally probable draws, the same ones each
time, so that what is planned is comparable: points of the sequence of Sobol' (1967,
doi:10.1016/0041-5553(67)90144-9), which fill the unit cube more evenly than random ones; variables
are made of them by inversion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray
from dpinfer.mechanisms._noisy_count import NoisyCount
from dpinfer.mechanisms.law import NoiseLaw

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

_LARGE_VARIANCE = 1e5
"""Quantiles of counts with a larger variance are found by a series, off by one count at most."""


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


@lru_cache(maxsize=8)
def uniforms(number: int, variables: int) -> FloatArray:
    """Return draws of uniform variables, shape (number, variables); the number is a power of 2."""
    from scipy.stats import qmc

    points = qmc.Sobol(variables, scramble=False).random(number)
    # each coordinate takes all multiples of 1/number: their middles are symmetric about 1/2
    centred = np.asarray(points + 0.5 / number)
    centred.setflags(write=False)
    return centred


def noises(law: NoiseLaw, draws: FloatArray) -> FloatArray:
    """Return noises made from uniform variables: those of one law, or of one for each column."""
    if law.shape:
        return np.asarray(law.isf(draws))
    values, places = np.unique(draws, return_inverse=True)
    return np.asarray(law.isf(values))[places.reshape(draws.shape)]


def poisson_counts(rate: FloatArray, draws: FloatArray) -> FloatArray:
    """Return Poisson counts made from uniform variables."""
    from scipy import stats

    few = rate < _LARGE_VARIANCE
    many = _series(rate, np.sqrt(rate), np.ones(rate.shape), draws)
    return np.asarray(np.where(few, stats.poisson.ppf(draws, np.where(few, rate, 0.0)), many))


def binomial_counts(nobs: FloatArray, value: FloatArray, draws: FloatArray) -> FloatArray:
    """Return binomial counts made from uniform variables."""
    from scipy import stats

    variance = nobs * value * (1.0 - value)
    few = variance < _LARGE_VARIANCE
    many = _series(nobs * value, np.sqrt(variance), 1.0 - 2.0 * value, draws)
    return np.asarray(np.where(few, stats.binom.ppf(draws, np.where(few, nobs, 0.0), value), many))


def _series(mean: FloatArray, std: FloatArray, asymmetry: FloatArray, q: FloatArray) -> FloatArray:
    """Quantiles of whole numbers by Cornish and Fisher (1938, doi:10.2307/1400905).

    ``asymmetry`` is the skewness times ``std``.
    """
    z = special.ndtri(q)
    return np.asarray(np.ceil(mean + z * std + asymmetry * (np.square(z) - 1.0) / 6.0 - 0.5))


def mean(values: FloatArray, used: NDArray[np.bool_] | None = None) -> tuple[float, float]:
    """Return the mean of values at draws, of those that are used, and about its error."""
    weight = np.ones(values.shape) if used is None else used.astype(np.float64)
    first, second = np.sum((weight * values).reshape(2, -1), axis=1)
    number, more = np.maximum(np.sum(weight.reshape(2, -1), axis=1), 1.0)
    found = (first + second) / (number + more)
    return float(found), float(abs(found - first / number))


def median(values: FloatArray) -> tuple[float, float]:
    """Return the least number that half of the values do not exceed, and about its error.

    The error is infinite where one half of the draws has an infinite median, and the other has not.
    """
    found = np.quantile(values, 0.5, method="inverted_cdf")
    first, second = np.quantile(values.reshape(2, -1), 0.5, axis=1, method="inverted_cdf")
    return float(found), 0.0 if first == second else float(0.5 * abs(first - second))
