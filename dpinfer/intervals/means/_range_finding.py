"""Private histograms that find where a normal sample lies, and how often they fail.

Neighbouring samples differ in the value of one record, so that two bins of a histogram change by
one: Laplace noise of scale 2/epsilon on all bins is epsilon-private. The stability-based histogram
shows no empty bins, and no noisy counts below 1 + 2·ln(2/delta)/epsilon; it is
(epsilon, delta)-private over any number of bins (Bun, Nissim and Stemmer 2016; Karwa and Vadhan
2017, Lemma 2.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from dpinfer._validation import FloatArray
from dpinfer.mechanisms import Laplace
from dpinfer.mechanisms.samplers import NoiseSource, Simulation

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
    """The bin with the largest noisy count.

    Parameters
    ----------
    epsilon, delta : float
        The budget that is spent; ``delta`` 0 means noise on every one of the bins.
    bins : float
        Number of bins, inf for the stability-based histogram without bounds.
    """

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
        """Bound on the probability that a far bin has the largest noisy count.

        Parameters
        ----------
        modal : float
            Lower bound on the probability of a good bin.
        far : array of float
            Upper bounds on the probabilities of far bins, the last of which holds for ``rest``
            more bins.
        rest : float
            Number of bins beyond ``far``; for the stability-based histogram a bound on the
            probability that an observation falls there.
        sample : int
            Number of observations in the histogram.
        """
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
