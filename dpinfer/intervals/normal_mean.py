"""Differentially private intervals for the mean of a normal sample."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpinfer._check import (
    RNG,
    FloatArray,
    check_alpha,
    check_array,
    check_length,
    check_option,
    check_scalar,
    show,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.pivots import sidak
from dpinfer.mechanisms.laws import Gaussian, Laplace
from dpinfer.mechanisms.samplers import NoiseSource, Sampler, Simulation, noise_source
from dpinfer.mechanisms.weighted_sum import WeightedSum
from dpinfer.privacy.guarantees import ApproxDP, Guarantee, PureDP
from dpinfer.privacy.of_mechanisms import Drawn
from dpinfer.results.intervals import Intervals

# Private histograms that find where a normal sample lies, and how often they fail.


REACH = 1.5
"""The centre found is within so many bin widths of the mean: its bin or the one beside it."""

SCALE_FACTOR = 4.0
"""The bound on the standard deviation is so many times the lower end of the bin that was found."""

_MODAL_MEAN = float(special.ndtr(1.0) - 0.5)
"""Least probability of the bin, one standard deviation or more in width, that holds the mean."""

_MODAL_SCALE = 0.289
"""Least probability of the most probable bin (a, 2a] of abs(Z), Z standard normal, over all a."""

_LONGEST_TILT = 300.0

_FARTHEST_MEAN = 14
_FARTHEST_SCALE = 64
"""Bins beyond these distances are covered by one bound."""


@dataclass(frozen=True, kw_only=True)
class HistogramMode:
    """The bin with the largest noisy count."""

    epsilon: float
    delta: float
    bins: float

    @property
    def noise(self) -> Laplace:
        """The noise on each count."""
        return Laplace(scale=2.0 / self.epsilon)

    @property
    def threshold(self) -> float:
        """Least noisy count that the stability-based histogram shows."""
        return float(1.0 + 2.0 * np.log(2.0 / self.delta) / self.epsilon)

    def find(self, places: FloatArray, source: NoiseSource) -> float | None:
        """Return the bin with the largest noisy count, None where no bin is shown.

        ``places`` are the bins of the observations, numbered from 0 where their number is finite.
        """
        occupied, counts = np.unique(places, return_counts=True)
        if self.delta == 0 and not isinstance(source, Simulation):
            table = np.zeros(int(self.bins))
            table[occupied.astype(np.intp)] = counts
            return float(np.argmax(source.add(table, self.noise)))
        noisy = source.add(counts.astype(np.float64), self.noise)
        best = int(np.argmax(noisy)) if noisy.size else -1
        if self.delta > 0:
            shown = noisy.size > 0 and noisy[best] >= self.threshold
            return float(occupied[best]) if shown else None
        assert isinstance(source, Simulation)
        rng = source.rng
        empty = self.bins - occupied.size
        if empty > 0:
            # the largest of many noises by inversion: the empty bins need not be gone through
            upper = -np.expm1(np.log(1.0 - rng.random()) / empty)
            if not noisy.size or float(self.noise.isf(upper)) > noisy[best]:
                return _random_gap(occupied, empty, rng)
        return float(occupied[best])

    def failure(self, modal: float, far: FloatArray, rest: float, sample: int) -> float:
        """Bound on the probability that a far bin has the largest noisy count."""
        if self.delta > 0:
            # bins that hold nothing are not shown, nor can an empty good bin win
            beaten = sum(min(self._beaten(modal, p, sample), sample * float(p)) for p in far)
            return min(1.0, beaten + rest + (1.0 - modal) ** sample)
        far = far[: max(int(min(self.bins, far.size)), 1)]
        each = [self._beaten(modal, p, sample) for p in far]
        return min(1.0, sum(each) + each[-1] * rest)

    def _beaten(self, modal: float, far: float, sample: int) -> float:
        """Chernoff's bound on P(far count + noise >= good count + noise), for n observations."""
        from scipy import optimize

        b = 2.0 / self.epsilon

        def log_bound(share: float) -> float:
            s = share / b
            step = far * np.expm1(s) + modal * np.expm1(-s)
            return float(sample * np.log1p(step) - 2.0 * np.log1p(-(share**2)))

        # s beyond ln(modal/far)/2 no longer helps the counts
        longest = 0.5 * np.log(modal / far) if far > 0 else _LONGEST_TILT
        top = min(b * min(longest, _LONGEST_TILT), 1.0)
        found = optimize.minimize_scalar(log_bound, bounds=(0.0, top), method="bounded")
        return float(np.exp(min(found.fun, 0.0)))


@lru_cache(maxsize=256)
def mean_failure(histogram: HistogramMode, sample: int) -> float:
    """Bound on the probability that the bin found is not that of the mean or one beside it.

    The bins are at least one standard deviation wide, the outermost ones reach to infinity. The
    bin d bins away from that of the mean has at most the probability P(Z > d - 1), on each side.
    """
    far = np.repeat(special.ndtr(1.0 - np.arange(2, _FARTHEST_MEAN)), 2)
    if histogram.delta > 0:
        beyond = 2.0 * sample * float(special.ndtr(1.0 - _FARTHEST_MEAN))
    else:
        beyond = max(histogram.bins - far.size, 0.0)
    return histogram.failure(_MODAL_MEAN, far, beyond, sample)


@lru_cache(maxsize=256)
def scale_failure(histogram: HistogramMode, sample: int) -> float:
    """Bound on the probability that the bound found on the standard deviation is below it.

    A bin (a, 2a] of abs(X - X') fails if 4a < σ. In units of √2·σ, the standard deviation of the
    difference, its upper end is then below √2/4, and so on by halves.
    """
    end = np.sqrt(2.0) / SCALE_FACTOR * 0.5 ** np.arange(_FARTHEST_SCALE)
    # of the intervals (a, 2a] with 2a <= end, the uppermost is the most probable
    far = special.erf(end / np.sqrt(2.0)) - special.erf(end / np.sqrt(8.0))
    if histogram.delta > 0:
        beyond = sample * float(special.erf(end[-1] / np.sqrt(8.0)))
    else:
        beyond = max(histogram.bins - far.size, 0.0)
    return histogram.failure(_MODAL_SCALE, far, beyond, sample)


def _random_gap(occupied: FloatArray, empty: float, rng: np.random.Generator) -> float:
    """Return the number of an empty bin, each with the same probability."""
    place = float(rng.integers(int(empty)))
    # the k-th occupied bin has occupied[k] - k empty bins before it
    before = np.searchsorted(occupied - np.arange(occupied.size), place, side="right")
    return place + float(before)


# The steps of the private intervals for a normal mean, known and unknown variance.


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
    """Steps that spend a budget; all fields are public."""

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


LARGEST = 1e40
"""Largest size of a value: the fourth powers of it have to stay within float64."""

_HISTOGRAM_SHARES = (1 / 32, 1 / 16, 1 / 8, 1 / 4)
"""Shares of the budget that are tried for each histogram, the smallest first."""

_RARE = 0.05
"""Share of alpha below which the failures of the histograms need no more budget."""

_MOST_BINS = 2.0**52
"""Beyond it, neighbouring bins are one float64."""

_MOST_DRAWN_BINS = 2**20

_NO_BIN = "the stability-based histogram showed no bin: the interval is mean_bounds"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PrivateMeanInterval(Drawn, Intervals):
    """Confidence interval for a mean, with the budget it took and the parts of its width.

    Made by :func:`normal_mean_confint`. It is used like any :class:`~dpinfer.results.Intervals`.

    Attributes
    ----------
    sampler : {"simulated", "opendp"}
        What drew the noise. A simulated interval carries no ``guarantee``.
    nominal : PureDP or ApproxDP
        What the budget guarantees of the interval, and everything else here, where noise is drawn
        and added exactly: the ``guarantee`` if OpenDP drew it. Neighbouring samples differ in the
        value of one record.
    epsilon, delta : float
        The budget: the parameters of ``nominal``.
    half_width_sampling : float
        Part of the half-width that sampling alone would need at this level; inf without a bound.
    half_width_noise : float
        The rest of it, due to the noise.
    clipping : tuple of float
        The range that was found, to which the observations were clipped.
    """

    sampler: Sampler
    nominal: Guarantee
    epsilon: float
    delta: float
    half_width_sampling: float
    half_width_noise: float
    clipping: tuple[float, float]


def normal_mean_confint(
    data: ArrayLike,
    *,
    epsilon: float,
    delta: float = 0.0,
    std: float | None = None,
    mean_bounds: tuple[float, float] | None = None,
    std_bounds: tuple[float, float] | None = None,
    alpha: float = 0.05,
    method: HalfWidth | None = None,
    split: ArrayLike | None = None,
    sampler: Sampler = "simulated",
    rng: RNG = None,
) -> PrivateMeanInterval:
    """Differentially private confidence interval for the mean of a normal population.

    It takes the *confidential* sample and spends the stated budget: it is for those who hold the
    data, and for studies of what such a release would be worth. By default the draws are those of a
    simulation, and the result carries no guarantee; see ``sampler``.

    Parameters
    ----------
    data : array of float, shape (n,)
        The confidential sample, independent draws from one normal law. Its size n is taken to be
        public.
    epsilon : float
        Budget, > 0.
    delta : float, default 0
        Budget, in [0, 1); the mean, or the standard deviation, may be unbounded if it is positive.
    std : float, optional
        The standard deviation of the population, if it is known.
    mean_bounds : (float, float), optional
        Public bounds that the mean of the population respects. Without them, or where one is
        infinite, ``delta`` has to be positive.
    std_bounds : (float, float), optional
        Public bounds that the standard deviation respects; without them, ``std`` has to be known,
        or ``delta`` positive.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).
    method : {"exact", "tail-bound"}, optional
        ``"exact"``, for known ``std`` only and then the default: quantile of the law of sampling
        error plus noise. ``"tail-bound"``: the sum of a quantile for each, as Karwa and Vadhan have
        it; wider.
    split : array of float, optional
        Shares of the budget, which are scaled to sum 1: range and mean for known ``std``; scale,
        range, mean and variance for unknown. By default each histogram gets the smallest of 1/32,
        1/16, 1/8 and 1/4 with which its failures take less than a twentieth of alpha, and the
        others have equal shares of the rest; all steps have equal shares where none is enough.
    sampler : {"simulated", "opendp"}, default "simulated"
        ``"simulated"``: draws in floating point, for studies; such outputs can rule out one of two
        neighbouring samples. ``"opendp"``: exact draws of OpenDP, of the extra ``release``, from
        the randomness of the operating system; at most 2^20 bins of a histogram without ``delta``.
        How long it takes is not protected.
    rng : None, int or numpy.random.Generator, optional
        Source of the noise of a simulation; None for ``"opendp"``.

    Returns
    -------
    PrivateMeanInterval
        The interval, intersected with ``mean_bounds``. Where n is too small, or the histogram shows
        no bin, it is ``mean_bounds`` itself, and a note says so.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or ``delta`` is 0 where bounds are missing.
    MissingExtraError
        If ``sampler`` is ``"opendp"`` and OpenDP is not installed.

    Notes
    -----
    The algorithms are those of Karwa and Vadhan (2017), with constants from exact probabilities
    where the paper has inequalities: the coverage is at least 1 - α for each n. With known σ:

    1. A noisy histogram with bins of width σ (their Algorithm 1). The bin shown with the largest
       count is that of μ or one beside it, but for a probability β₁ that is bounded by Chernoff's
       inequality from n, epsilon and the number of bins alone. So its centre c is within 1.5σ of μ.
    2. Observations are clipped to c ± (1.5 + q)σ, with q such that n normal observations are
       all within qσ of μ with probability 1 - β₂, β₂ = α/10.
    3. The clipped mean plus Laplace noise of scale b = 2(1.5 + q)σ/(n·epsilon₂). Unless one of the
       two events took place, its error is a normal one with variance σ²/n plus the noise. The
       half-width is the quantile of this law at (α - β₁ - β₂)/2.

    With unknown σ a histogram of log₂ abs(X₂ᵢ - X₂ᵢ₋₁) finds a bin (2ʲ, 2ʲ⁺¹] (their Algorithm 2);
    2ʲ⁺² bounds σ from above but for a probability β₀. The range is found from the pair means
    (X₂ᵢ + X₂ᵢ₋₁)/2, which are independent of the differences. The variance of the clipped sample,
    of sensitivity (range)²/n, gets noise and is raised by the quantile of the noise at α/10; its
    root takes the place of s in the half-width t·s/√n, to which the quantile of the noise in the
    mean is added. The probabilities of all failures add up to α.

    Where the failure probabilities of the range exceed α/4, which depends on public numbers only,
    nothing is spent and the interval is ``mean_bounds``. It is not for populations that are not
    normal, whose tails are clipped more often.

    Without bounds, or where there are more than 2/delta bins, the histogram is the stability-based
    one (Bun, Nissim and Stemmer 2016); otherwise Laplace noise is on every bin and the step takes
    no delta.

    References
    ----------
    Karwa, V. and Vadhan, S. (2017). Finite sample differentially private confidence intervals.
    arXiv:1711.03908.
    Bun, M., Nissim, K. and Stemmer, U. (2016). Simultaneous private learning of multiple concepts.
    arXiv:1511.08552.

    Examples
    --------
    >>> sample = np.random.default_rng(1).normal(70.0, 5.0, 2000)
    >>> interval = normal_mean_confint(sample, epsilon=1, std=5.0, mean_bounds=(0, 200), rng=2)
    >>> interval
    PrivateMeanInterval([69.6258, 70.1179], level 0.95, exact)
    >>> interval.nominal, interval.guarantee
    (PureDP(epsilon=1.0, neighbours='replace'), None)
    """
    values = check_array(data, "data", ndim=1, ge=-LARGEST, le=LARGEST)
    alpha, source = check_alpha(alpha), noise_source(sampler, rng)
    plan = checked_plan(values.size, epsilon, delta, std, mean_bounds, std_bounds, alpha, split)
    chosen = checked_method(method, known=std is not None)
    if plan.failure > plan.affordable(alpha):
        note = (
            f"{values.size} observations at this budget and level are too few to find their range "
            "with certainty enough: the interval is mean_bounds, and nothing was spent"
        )
        return _result(plan, None, alpha, chosen, source.sampler, (0.0, 0.0), (note,))
    if not source.simulated:
        _check_bins(plan)
    answer = plan.run(values, alpha, chosen, source)
    notes = (_NO_BIN,) if answer is None else ()
    return _result(plan, answer, alpha, chosen, source.sampler, plan.budget, notes)


def _check_bins(plan: Plan) -> None:
    """Refuse more bins than noise is drawn on one by one."""
    parts = [plan.range, *([plan.scale] if isinstance(plan, UnknownStd) else [])]
    most = max((part.bins for part in parts if part.delta == 0), default=0.0)
    if most > _MOST_DRAWN_BINS:
        raise InvalidParameterError(
            f"mean_bounds and std_bounds must span at most {_MOST_DRAWN_BINS} bins of one standard "
            f"deviation for sampler='opendp', got {most:.3g}: give narrower bounds, or delta > 0 "
            "and no bounds"
        )


def _result(
    plan: Plan,
    answer: Answer | None,
    alpha: float,
    method: HalfWidth,
    sampler: Sampler,
    budget: tuple[float, float],
    notes: tuple[str, ...],
) -> PrivateMeanInterval:
    """Make the interval; without an answer it is the bounds on the mean."""
    low, high = plan.mean_bounds
    if answer is None:
        middle = 0.5 * low + 0.5 * high if np.isfinite(low + high) else np.clip(0.0, low, high)
        answer = Answer(
            estimate=float(middle),
            half_width_sampling=np.inf,
            half_width_noise=np.inf,
            clipping=(-np.inf, np.inf),
        )
    half = answer.half_width_sampling + answer.half_width_noise
    lower, upper = max(answer.estimate - half, low), min(answer.estimate + half, high)
    empty = lower > upper
    epsilon, delta = budget
    spent = f"epsilon {epsilon:g}, delta {delta:g}; neighbours differ in one value"
    if sampler == "simulated":
        spent = f"simulated: carries no guarantee; a release would spend {spent}"
    else:
        spent = f"budget spent: {spent}"
    nominal: Guarantee = PureDP(epsilon, neighbours="replace")
    if delta > 0:
        nominal = ApproxDP(epsilon, delta, neighbours="replace")
    return PrivateMeanInterval(
        estimate=answer.estimate,
        lower=np.inf if empty else lower,
        upper=-np.inf if empty else upper,
        alpha=alpha,
        method=method,
        uncertainty="noise+sampling",
        notes=(*notes, spent),
        sampler=sampler,
        nominal=nominal,
        epsilon=epsilon,
        delta=delta,
        half_width_sampling=answer.half_width_sampling,
        half_width_noise=answer.half_width_noise,
        clipping=answer.clipping,
    )


def checked_method(method: object, *, known: bool) -> HalfWidth:
    """Return how the half-width is found: by default the tightest way that there is."""
    if method is None:
        return "exact" if known else "tail-bound"
    chosen = check_option(method, "method", HALF_WIDTHS)
    if chosen == "exact" and not known:
        raise InvalidParameterError(
            "method must be 'tail-bound' where std is not known, got 'exact': sampling error and "
            "noise then have separate bounds"
        )
    return chosen


def checked_plan(
    nobs: int,
    epsilon: object,
    delta: object,
    std: object,
    mean_bounds: Any,
    std_bounds: Any,
    alpha: float,
    split: Any,
) -> Plan:
    """Check what is public, and share out the budget."""
    known = std is not None
    if nobs < (least := 2 if known else 4):
        raise InvalidParameterError(f"data must hold at least {least} values, got {nobs}")
    total = check_scalar(epsilon, "epsilon", gt=0, ge=1e-10, le=1e10)
    spare = check_scalar(delta, "delta", ge=0, lt=1)
    bounds = -np.inf, np.inf
    if mean_bounds is not None:
        bounds = checked_bounds(mean_bounds, "mean_bounds")
    plan: Callable[[FloatArray], Plan]
    if known:
        if std_bounds is not None:
            raise InvalidParameterError("std_bounds must not be given where std is known")
        sigma = check_scalar(std, "std", ge=SMALLEST_STD, le=LARGEST)
        plan = partial(_known, nobs, spare, bounds, sigma)
    else:
        sigmas = 0.0, np.inf
        if std_bounds is not None:
            sigmas = checked_bounds(std_bounds, "std_bounds")
            check_array(sigmas, "std_bounds", ge=SMALLEST_STD, le=LARGEST)
        plan = partial(_unknown, nobs, spare, bounds, sigmas)
    steps = 2 if known else 4
    if split is not None:
        shares = check_array(split, "split", ndim=1, ge=1e-10, le=1e10)
        check_length(shares, "split", steps, "the steps")
        return plan(total * shares / shares.sum())
    for share in _HISTOGRAM_SHARES:
        # one for each of the first half of the steps, and what is left to the others
        found = plan(total * np.repeat([share, 2.0 / steps - share], steps // 2))
        if found.failure <= _RARE * alpha:
            return found
    return plan(np.full(steps, total / steps))


def _known(
    nobs: int, delta: float, bounds: tuple[float, float], std: float, epsilons: FloatArray
) -> KnownStd:
    """Return the plan for known variance; ``epsilons`` are those of range and mean."""
    return KnownStd(
        nobs=nobs,
        mean_bounds=bounds,
        range=_histogram(epsilons[0], delta, mean_bins(bounds, std), "mean_bounds"),
        epsilon_mean=float(epsilons[1]),
        std=std,
    )


def _unknown(
    nobs: int,
    delta: float,
    bounds: tuple[float, float],
    stds: tuple[float, float],
    epsilons: FloatArray,
) -> UnknownStd:
    """Return the plan for unknown variance; its epsilons: scale, range, mean and variance."""
    with np.errstate(divide="ignore"):
        first, last = scale_bins(stds)
        most = mean_bins(bounds, stds[0] / np.sqrt(2.0)) if stds[0] > 0 else np.inf
    return UnknownStd(
        nobs=nobs,
        mean_bounds=bounds,
        scale=_histogram(epsilons[0], delta / 2, last - first + 1.0, "std_bounds"),
        range=_histogram(epsilons[1], delta / 2, most, "mean_bounds and std_bounds"),
        epsilon_mean=float(epsilons[2]),
        epsilon_variance=float(epsilons[3]),
        std_bounds=stds,
    )


def _histogram(epsilon: float, delta: float, bins: float, name: str) -> HistogramMode:
    """Return the histogram with noise on all bins where it serves, else the stability-based one."""
    if bins <= min(2.0 / delta if delta > 0 else np.inf, _MOST_BINS):
        return HistogramMode(epsilon=float(epsilon), delta=0.0, bins=bins)
    if delta == 0:
        raise InvalidParameterError(
            f"{name} must be given and finite where delta is 0, and span at most {_MOST_BINS:.2g} "
            "bins of one standard deviation: give narrower bounds, or delta > 0"
        )
    return HistogramMode(epsilon=float(epsilon), delta=delta, bins=np.inf)


def checked_bounds(bounds: Any, name: str, *, finite: bool = False) -> tuple[float, float]:
    """Return lower and upper bound."""
    array = check_array(bounds, name, ndim=1, finite=finite)
    if array.size != 2 or not array[0] < array[1]:
        raise InvalidParameterError(
            f"{name} must be two numbers, the smaller one first, got {show(bounds)}"
        )
    check_array(array[np.isfinite(array)], name, ge=-LARGEST, le=LARGEST, nonempty=False)
    return float(array[0]), float(array[1])
