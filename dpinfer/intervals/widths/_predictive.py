"""Counts that may be published, under a prior for those behind them and the law of the noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.intervals._windows import bound
from dpinfer.intervals.posterior import CountPosterior, Kind, count_posterior
from dpinfer.intervals.priors import CountPrior, FlatPrior, FunctionPrior, TablePrior
from dpinfer.intervals.widths._draws import mean, noises, uniforms
from dpinfer.intervals.widths._prior_draws import drawn_counts, outermost_counts
from dpinfer.mechanisms.law import NoiseLaw

_LEFT_OUT = 1e-12
"""Probability of the noises that are left out on each side."""

_IN_A_UNIT = 32
"""Points for each count, or each standard deviation of the noise if that is less."""

_MOST_POINTS = 1 << 15
"""Number of published counts from which on not all are gone through."""

_MOST_TERMS = 1 << 24
"""Number of published counts times that of the entries of a table up to which all are tried."""

_DRAWS = 1 << 12
"""Number of draws otherwise."""

_IN_A_PERIOD = 512
_FEW = 16
_WIDE = 1e3
"""Points between two whole numbers; few suffice under noise as wide as this."""

_FAR = 2.0**45
"""Ends of the support that are nowhere near."""

_MOST_TABULATED = 1 << 20


@dataclass(frozen=True)
class Predictive:
    """The law of a published count under a prior.

    Parameters
    ----------
    prior : CountPrior
        Prior with single numbers for parameters.
    law : NoiseLaw
        Law of the noise, of shape ().
    lower, upper : float
        Whole numbers, the ends of the support, possibly infinite.
    """

    prior: CountPrior
    law: NoiseLaw
    lower: float
    upper: float

    def expected_width(self, alpha: float, kind: Kind) -> tuple[float, float]:
        """Return the expected width of the credible interval, and about its error."""
        if float(self.law.variance) == 0.0:
            return 0.0, 0.0
        if isinstance(self.prior, FlatPrior) and np.isinf(self.upper - self.lower):
            far = replace(self, lower=-_FAR, upper=_FAR)
            return far._weighted(self._period, alpha, kind)
        if isinstance(self.prior, FunctionPrior):
            return self._tabulated.expected_width(alpha, kind)
        points = self._grid
        if points is not None:
            return self._weighted(points, alpha, kind)
        count, used = self._drawn
        published = count + noises(self.law, uniforms(_DRAWS, 3)[:, 2])
        return mean(np.asarray(self._posterior(published).interval(alpha, kind).width), used)

    def _posterior(self, count: FloatArray) -> CountPosterior:
        lower, upper = (None if np.isinf(end) else end for end in (self.lower, self.upper))
        return count_posterior(
            count, mechanism=self.law, prior=self.prior, lower=lower, upper=upper
        )

    def _weighted(self, points: FloatArray, alpha: float, kind: Kind) -> tuple[float, float]:
        """Return the average over equally spaced points, weighted by their probability."""
        posterior = self._posterior(points)
        widths = np.asarray(posterior.interval(alpha, kind).width)
        log_weight = np.asarray(posterior.log_marginal)
        weight = np.exp(log_weight - log_weight.max())
        # rounding must not take it beyond the widths
        found = float(np.clip(weight @ widths / weight.sum(), widths.min(), widths.max()))
        if self.law.is_integer:
            return found, 0.0
        coarse = float(weight[::2] @ widths[::2] / weight[::2].sum())
        return found, abs(found - coarse)

    @property
    def _period(self) -> FloatArray:
        """Published values whose intervals have all widths that there are under a flat prior."""
        if self.law.is_integer:
            return np.zeros(1)
        number = _IN_A_PERIOD if float(self.law.std) < _WIDE else _FEW
        return (np.arange(number) + 0.5) / number - 0.5

    @cached_property
    def _drawn(self) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Counts from the prior, and whether each is to be used."""
        return drawn_counts(self.prior, uniforms(_DRAWS, 3)[:, :2], self.lower, self.upper)

    @property
    def _grid(self) -> FloatArray | None:
        """Equally spaced published values, if few enough suffice."""
        if np.isfinite(bound(self.law)):  # noise may not bridge the gaps of a table
            return None
        if self.lower > 0 or np.isfinite(self.upper):
            _ = self._drawn  # refused where hardly any is on the support
        low, high = outermost_counts(self.prior, self.lower, self.upper)
        reach = np.ceil(float(self.law.isf(_LEFT_OUT)))
        step = 1.0 if self.law.is_integer else min(1.0, float(self.law.std)) / _IN_A_UNIT
        first, last = low - reach, high + reach
        most = _MOST_POINTS
        if isinstance(self.prior, TablePrior):
            most = min(most, _MOST_TERMS // np.size(self.prior.pmf))
        if not last - first < step * most:
            return None
        points = np.arange(first, last + step, step)
        return points if self.law.is_integer else points + 0.5 * step

    @property
    def _tabulated(self) -> Predictive:
        """The same with a table for a function."""
        assert isinstance(self.prior, FunctionPrior)
        if not self.upper - self.lower < _MOST_TABULATED:
            raise InvalidParameterError(
                "lower and upper must be given for a prior that is a function, and less than "
                f"{_MOST_TABULATED} apart, got {self.lower:g} and {self.upper:g}"
            )
        values = self.prior.values(self.lower + np.arange(self.upper - self.lower + 1.0))
        if not np.isfinite(values).any():
            raise InvalidParameterError("prior must give some count of the support a probability")
        return replace(self, prior=TablePrior(np.exp(values - values.max()), int(self.lower)))
