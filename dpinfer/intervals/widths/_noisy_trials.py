"""Expected width of the interval for a proportion where the number of trials is noisy, too."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpinfer._check import FloatArray
from dpinfer.intervals.proportions import Method, proportion_confint
from dpinfer.intervals.widths._draws import binomial_counts, mean, noises, uniforms
from dpinfer.mechanisms.law import NoiseLaw

_DRAWS = 1 << 13
"""Number of published pairs of which normal intervals are made."""

_EXACT_DRAWS = 1 << 3
"""Number of those of which exact ones are made, that may take a second each."""


@dataclass(frozen=True)
class NoisyTrials:
    """Intervals for a proportion from a noisy count and a noisy number of trials.

    Parameters
    ----------
    noise, nobs_noise : NoiseLaw
        Laws of the noise of the count, and of that which only the number of trials has.
    is_total : bool
        Whether the noise of the count is in the number of trials, too.
    method : {"exact", "normal"}
        How intervals are made.
    nuisance_alpha : float
        Probability to miss the number of trials that exact intervals allow for.
    """

    noise: NoiseLaw
    nobs_noise: NoiseLaw
    is_total: bool
    method: Method
    nuisance_alpha: float

    def expected_width(self, nobs: float, value: float, alpha: float) -> tuple[float, float]:
        """Return the expected width at a proportion, and about its error.

        That of normal intervals serves as a control variate for exact ones: the two differ by
        little, and by nearly the same for all published pairs.
        """
        found, error = mean(self._widths(_DRAWS, nobs, value, alpha, "normal"))
        if self.method == "normal":
            return found, error
        exact, normal = (
            self._widths(_EXACT_DRAWS, nobs, value, alpha, method) for method in ("exact", "normal")
        )
        more, more_error = mean(exact - normal)
        return max(found + more, 0.0), error + more_error

    def _widths(
        self, number: int, nobs: float, value: float, alpha: float, method: Method
    ) -> FloatArray:
        """Return widths for a number of published pairs, all with the same probability."""
        draws = uniforms(number, 3)
        count_noise, nobs_noise = (
            noises(law, draws[:, place])
            for place, law in enumerate((self.noise, self.nobs_noise), start=1)
        )
        count = binomial_counts(np.asarray(nobs), np.asarray(value), draws[:, 0]) + count_noise
        total = nobs + nobs_noise + (count_noise if self.is_total else 0.0)
        intervals = proportion_confint(
            count,
            total,
            mechanism=self.noise,
            nobs_mechanism=self.nobs_noise,
            nobs_is_total=self.is_total,
            alpha=alpha,
            method=method,
            nuisance_alpha=self.nuisance_alpha,
        )
        return np.asarray(intervals.width)
