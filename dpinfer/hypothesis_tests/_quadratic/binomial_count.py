"""The count in the first of two cells, the other one being the rest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpinfer._numerics.binomial import LOG_NEGLIGIBLE, binom_pmf, binom_radius
from dpinfer._validation import FloatArray


@dataclass(frozen=True)
class BinomialCount:
    """Binomial(n, p), in which p may be 0 or 1.

    Parameters
    ----------
    nobs : int
        Number of observations.
    share : float
        Probability of the cell.
    log_negligible : float
        Counts are listed down to exp(-this) of the likeliest.
    """

    nobs: int
    share: float
    log_negligible: float = LOG_NEGLIGIBLE

    @cached_property
    def ends(self) -> tuple[float, float]:
        """First and last count that is likely enough to matter."""
        nobs = float(self.nobs)
        mode = np.floor((nobs + 1.0) * self.share)
        radius = float(binom_radius(np.asarray(mode), np.asarray(nobs), self.log_negligible))
        return max(0.0, mode - radius), min(nobs, mode + radius)

    @cached_property
    def pmf(self) -> FloatArray:
        """Probabilities of the counts between the ends."""
        first, last = self.ends
        counts = np.arange(first, last + 1.0)
        if not 0.0 < self.share < 1.0:
            return np.asarray(counts == self.nobs * self.share, dtype=np.float64)
        pmf = binom_pmf(counts, np.asarray(float(self.nobs)), np.asarray(self.share))
        return np.asarray(pmf / pmf.sum())
