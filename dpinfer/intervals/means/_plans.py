"""The steps of the private intervals for a normal mean, known and unknown variance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._validation import FloatArray
from dpinfer.estimation.pivots import sidak
from dpinfer.intervals.means._range_finding import (
    REACH,
    SCALE_FACTOR,
    HistogramMode,
    mean_failure,
    scale_failure,
)
from dpinfer.mechanisms import Gaussian, Laplace, WeightedSum
from dpinfer.mechanisms.samplers import NoiseSource

HalfWidth = Literal["exact", "tail-bound"]
Ends = tuple[float, float]

_FAILURE_SHARE = 0.25
"""Share of alpha that failures to find the range may take; beyond, no interval is attempted."""

_CLIPPING_SHARE = 0.1
"""Share of alpha for clipping an observation although the range is found."""

_VARIANCE_SHARE = 0.1
"""Share of alpha for a noisy upper bound that is below the sample variance."""

_USUAL_SCALE = 3.0
"""Usual ratio of the bound that is found on the standard deviation to itself."""

_ROOT_HALF = 0.5**0.5

_SUM_BITS = 51
"""Sums are kept to 2^52 or less, in whole numbers of so many bits."""

_MOST_SQUARED = 2**31
"""Squares of up to this are summed in halves of 16 bits, without overflow."""

_VARIANCE_STEPS = 2**26
"""Steps by which one record moves the rounded variance at most."""

SMALLEST_STD = 1e-40
"""Smaller standard deviations are not told from this one."""

_FARTHEST_BIN = 2.0**52
"""Bins beyond it, which float64 cannot tell apart, are one."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the steps release: the noisy mean, the parts of the half-width, the clipping range."""

    estimate: float
    half_width_sampling: float
    half_width_noise: float
    clipping: Ends


@dataclass(frozen=True)
class ClippedSteps:
    """Values clipped to centre ± radius, each rounded to a whole number of steps, -M to M.

    Sums of whole numbers are exact, so that one record moves them by what it may move them; of
    floats they are rounded. The rounding of values and sums, less than a step, goes into the
    widths.
    """

    whole: NDArray[np.int64]
    centre: float
    radius: float

    @classmethod
    def of(cls, values: FloatArray, centre: float, radius: float) -> Self:
        """Clip and round, as finely as sums of so many whole numbers allow."""
        shares = np.clip((values - centre) / radius, -1.0, 1.0)
        return cls(np.rint(_most_steps(values.size) * shares).astype(np.int64), centre, radius)

    def noisy_mean(self, epsilon: float, source: NoiseSource) -> float:
        """Return the mean with Laplace noise, from a sum that one record moves by 2M at most."""
        nobs = self.whole.size
        most = _most_steps(nobs)
        # a power of 2, so that the sum divided by it and rounded moves by 2M/unit at most
        unit = max(nobs * most >> _SUM_BITS, 1)
        unit = 1 << (unit - 1).bit_length()
        noise = Laplace(scale=2 * most // unit / epsilon)
        total = source.add(np.asarray(float(int(self.whole.sum()) // unit)), noise)
        return float(self.centre + self.radius / most * (unit / nobs * total))

    def noisy_variance(self, epsilon: float, source: NoiseSource) -> float:
        """Return the sample variance with Laplace noise.

        n·Σz² - (Σz)² is n(n - 1) times the variance and moves by (n - 1)(2M)². It is divided and
        rounded down, so that it moves by 2^26 at most.
        """
        nobs = self.whole.size
        fine = _most_steps(nobs)
        most = min(fine, _MOST_SQUARED)
        whole = np.rint(self.whole / (fine // most)).astype(np.int64)
        total, high, low = int(whole.sum()), whole >> 16, whole & 0xFFFF
        squares = (int(high @ high) << 32) + (int(high @ low) << 17) + int(low @ low)
        unit = -(-(nobs - 1) * (2 * most) ** 2 // _VARIANCE_STEPS)
        count = (nobs * squares - total * total) // unit
        noise = Laplace(scale=_VARIANCE_STEPS / epsilon)
        noisy = source.add(np.asarray(float(count)), noise)
        return float((noisy + 1.0) * (unit / (nobs * (nobs - 1.0))) * (self.radius / most) ** 2)


def _most_steps(nobs: int) -> int:
    """Return M of n values, a power of 2: sums are exact, if need be divided by another one."""
    return int(max(2 ** (_SUM_BITS - np.ceil(np.log2(nobs))), _MOST_SQUARED))


@dataclass(frozen=True, kw_only=True)
class Plan(ABC):
    """Steps that spend a budget; all fields are public.

    Parameters
    ----------
    nobs : int
        Size of the sample.
    mean_bounds : (float, float)
        Bounds on the mean, possibly infinite.
    range : HistogramMode
        The histogram that finds the range.
    epsilon_mean : float
        Budget of the noisy mean.
    """

    nobs: int
    mean_bounds: Ends
    range: HistogramMode
    epsilon_mean: float

    @property
    @abstractmethod
    def budget(self) -> tuple[float, float]:
        """Epsilon and delta of all steps together."""

    @property
    @abstractmethod
    def failure(self) -> float:
        """Bound on the probability that the range is not found."""

    @abstractmethod
    def run(
        self, values: FloatArray, alpha: float, method: HalfWidth, source: NoiseSource
    ) -> Answer | None:
        """Take the steps; None where a histogram shows no bin."""

    def affordable(self, alpha: float) -> float:
        """Largest failure probability with which it makes sense to go on."""
        return _FAILURE_SHARE * alpha

    def _radius(self, width: float, largest: float, alpha: float) -> float:
        """Half of the clipping range, for bins of a width and a bound on the standard deviation.

        With probability 1 - α/10 no observation is farther than q·σ from the mean.
        """
        farthest = -special.ndtri(sidak(_CLIPPING_SHARE * alpha, self.nobs) / 2)
        return float(REACH * width + farthest * largest)

    def _centre(self, values: FloatArray, width: float, source: NoiseSource) -> float | None:
        """Find the middle of a bin near the mean."""
        if self.range.delta > 0:
            places = np.clip(values / width, -_FARTHEST_BIN, _FARTHEST_BIN)
            histogram, origin = self.range, 0.0
        else:
            origin = self.mean_bounds[0]
            histogram = replace(self.range, bins=mean_bins(self.mean_bounds, width))
            places = np.clip(values / width - origin / width, 0.0, histogram.bins - 0.5)
        found = histogram.find(np.floor(places), source)
        return None if found is None else origin + (found + 0.5) * width


@dataclass(frozen=True, kw_only=True)
class KnownStd(Plan):
    """Range, then mean."""

    std: float

    @property
    def budget(self) -> tuple[float, float]:
        """Epsilon and delta of all steps together."""
        return self.range.epsilon + self.epsilon_mean, self.range.delta

    @cached_property
    def failure(self) -> float:
        """Bound on the probability that the range is not found."""
        return mean_failure(self.range, self.nobs)

    def run(
        self, values: FloatArray, alpha: float, method: HalfWidth, source: NoiseSource
    ) -> Answer | None:
        """Take the steps; None where the histogram shows no bin."""
        centre = self._centre(values, self.std, source)
        if centre is None:
            return None
        radius = self._radius(1.0, 1.0, alpha)
        sampling, total = self.half_widths(alpha, method)
        clipping = (centre - radius * self.std, centre + radius * self.std)
        steps = ClippedSteps.of(values, centre, radius * self.std)
        return Answer(
            estimate=steps.noisy_mean(self.epsilon_mean, source),
            half_width_sampling=sampling * self.std,
            half_width_noise=(total - sampling) * self.std,
            clipping=clipping,
        )

    def half_widths(self, alpha: float, method: HalfWidth) -> Ends:
        """Return the half-widths for sampling alone and for sampling and noise, in units of std."""
        left = (1.0 - _CLIPPING_SHARE) * alpha - self.failure
        sampling, total = HALF_WIDTHS[method](self.nobs, self._scale(alpha), left)
        return sampling, total + self._radius(1.0, 1.0, alpha) / _most_steps(self.nobs)

    def _scale(self, alpha: float) -> float:
        """Scale of the noise in units of std, so that equal plans share what they compute."""
        return 2.0 * self._radius(1.0, 1.0, alpha) / (self.nobs * self.epsilon_mean)


@dataclass(frozen=True, kw_only=True)
class UnknownStd(Plan):
    """Scale from differences of pairs, range from their means, then mean and variance.

    ``range.bins`` is the largest number of bins that may come about.
    """

    scale: HistogramMode
    std_bounds: Ends
    epsilon_variance: float

    @property
    def budget(self) -> tuple[float, float]:
        """Epsilon and delta of all steps together."""
        epsilon = self.scale.epsilon + self.range.epsilon
        return epsilon + self.epsilon_mean + self.epsilon_variance, (
            self.scale.delta + self.range.delta
        )

    @cached_property
    def failure(self) -> float:
        """Bound on the probability that scale or range is not found."""
        pairs = self.nobs // 2
        return scale_failure(self.scale, pairs) + mean_failure(self.range, pairs)

    def run(
        self, values: FloatArray, alpha: float, method: HalfWidth, source: NoiseSource
    ) -> Answer | None:
        """Take the steps; None where a histogram shows no bin."""
        pairs = values[: 2 * (self.nobs // 2)].reshape(-1, 2)
        largest = self._largest_std(np.abs(pairs[:, 0] - pairs[:, 1]), source)
        if largest is None:
            return None
        # the standard deviation of the pair means is std/√2
        width = largest * _ROOT_HALF
        centre = self._centre(pairs.mean(axis=1), width, source)
        if centre is None:
            return None
        radius = self._radius(width, largest, alpha)
        clipping = (centre - radius, centre + radius)
        steps = ClippedSteps.of(values, centre, radius)
        estimate = steps.noisy_mean(self.epsilon_mean, source)
        variance = steps.noisy_variance(self.epsilon_variance, source)
        sampling, noise = self.half_widths(largest, variance, alpha)
        return Answer(
            estimate=estimate,
            half_width_sampling=float(sampling),
            half_width_noise=noise,
            clipping=clipping,
        )

    def noises(self, largest: float, alpha: float) -> tuple[Laplace, Laplace]:
        """Noises in the mean and in the variance, for a bound on the standard deviation."""
        radius = self._radius(largest * _ROOT_HALF, largest, alpha)
        # replacing one value moves the sample variance by at most (range)²/n
        return (
            Laplace(scale=2.0 * radius / (self.nobs * self.epsilon_mean)),
            Laplace(scale=4.0 * radius**2 / (self.nobs * self.epsilon_variance)),
        )

    def half_widths(
        self, largest: float, variance: FloatArray | float, alpha: float
    ) -> tuple[FloatArray, float]:
        """Return the parts for sampling, from noisy variances, and for noise and rounding."""
        mean_noise, variance_noise = self.noises(largest, alpha)
        raised = variance + variance_noise.isf(_VARIANCE_SHARE * alpha)
        sampling, noise = self._shares(alpha)
        quantile = -special.stdtrit(self.nobs - 1.0, sampling / 2)
        radius = self._radius(largest * _ROOT_HALF, largest, alpha)
        fine = _most_steps(self.nobs)
        # rounding each value by half a step moves the standard deviation by less than a step
        spread = np.sqrt(np.maximum(raised, 0.0)) + radius / min(fine, _MOST_SQUARED)
        half = quantile * spread / np.sqrt(self.nobs)
        return np.asarray(half), float(mean_noise.isf(noise / 2)) + radius / fine

    def _largest_std(self, differences: FloatArray, source: NoiseSource) -> float | None:
        """Find an upper bound on the standard deviation."""
        # (2^j, 2^(j+1)] is bin j; equal values of a pair are in none
        places = np.ceil(np.log2(differences[differences > 0])) - 1.0
        first = 0.0
        if self.scale.delta == 0:
            first, last = scale_bins(self.std_bounds)
            places = places[(places >= first) & (places <= last)] - first
        found = self.scale.find(places, source)
        if found is None:
            return None
        return float(self.largest_stds(np.asarray(found + first)))

    def largest_stds(self, places: FloatArray) -> FloatArray:
        """Return the bounds on the standard deviation that follow from bins."""
        bound = np.maximum(SCALE_FACTOR * 2.0**places, SMALLEST_STD)
        return np.clip(bound, *self.std_bounds)

    def _shares(self, alpha: float) -> Ends:
        """Error probabilities of sampling and noise that should give the smallest sum.

        They depend on what is public only: the standard deviation is taken to be a third of the
        bound on it.
        """
        left = (1.0 - _CLIPPING_SHARE - _VARIANCE_SHARE) * alpha - self.failure
        sampling = left * np.linspace(0.05, 0.95, 19)
        radius = self._radius(_ROOT_HALF, 1.0, alpha)
        noise = Laplace(scale=2.0 * radius / (self.nobs * self.epsilon_mean))
        width = -special.stdtrit(self.nobs - 1.0, sampling / 2) / np.sqrt(self.nobs) / _USUAL_SCALE
        best = int(np.argmin(width + noise.isf((left - sampling) / 2)))
        return float(sampling[best]), float(left - sampling[best])


def mean_bins(bounds: Ends, width: float) -> float:
    """Return how many bins cover the bounds on the mean."""
    return float(max(np.ceil(bounds[1] / width - bounds[0] / width), 1.0))


def scale_bins(bounds: Ends) -> Ends:
    """First and last bin (2^j, 2^(j+1)] of differences that may be the most probable one.

    In units of their standard deviation √2·σ, the lower end of a bin as probable as the bound on
    the failures supposes is between 0.465 and 0.93.
    """
    return float(np.floor(np.log2(bounds[0]))), float(np.ceil(np.log2(bounds[1])))


@lru_cache(maxsize=256)
def _exact(nobs: int, scale: float, alpha: float) -> Ends:
    """Quantile of a normal error with standard deviation 1/√n plus Laplace noise."""
    law = WeightedSum([1.0 / np.sqrt(nobs), 1.0], [Gaussian(sigma=1.0), Laplace(scale=scale)])
    return float(-special.ndtri(alpha / 2) / np.sqrt(nobs)), float(law.isf(alpha / 2))


def _tail_bound(nobs: int, scale: float, alpha: float) -> Ends:
    """Quantiles of both, each with half of the error probability."""
    sampling = float(-special.ndtri(alpha / 4) / np.sqrt(nobs))
    return sampling, sampling + float(Laplace(scale=scale).isf(alpha / 4))


HALF_WIDTHS: dict[HalfWidth, Callable[[int, float, float], Ends]] = {
    "exact": _exact,
    "tail-bound": _tail_bound,
}
"""Half-width for sampling alone, and for sampling and noise, in units of the known std."""
