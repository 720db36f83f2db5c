"""The law of values that a publishing rule selected or clamped, which tests and intervals share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._check import FloatArray, check_array
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.independent import integer_cells
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.rounded import warn_of_rounding
from dpinfer.releases.noises import Rule
from dpinfer.results.labels import check_order, split_labels

if TYPE_CHECKING:
    import pandas as pd


_SMALLEST_LOG = -700.0


@dataclass(frozen=True, kw_only=True, eq=False)
class PublishedRows:
    """Law of each published value when the confidential one is given.

    Values are published where they reach a threshold, and clamped to bounds, infinite where there
    are none. A confidential value from which the noise cannot reach the threshold counts as one
    that is far too low.
    """

    target: FloatArray  # (m,): the confidential values
    noise: NoiseLaw
    threshold: FloatArray  # (m,), as are the bounds
    lowest: FloatArray
    highest: FloatArray

    @classmethod
    def of(cls, published: Any, target: FloatArray) -> PublishedRows:
        """Read the publishing rule of a release or of noisy values."""
        x = published.__noisy__()
        rule, size = x.rule or Rule(), len(x)
        bounds = (rule.threshold, rule.lowest, rule.highest)
        threshold, lowest, highest = (np.broadcast_to(bound, size) for bound in bounds)
        return cls(
            target=np.broadcast_to(target, size),
            noise=x.marginal,
            threshold=threshold,
            lowest=lowest,
            highest=highest,
        )

    @property
    def spread(self) -> FloatArray:
        """Standard deviation of the noise."""
        return np.broadcast_to(self.noise.std, self.target.shape)

    @property
    def error(self) -> FloatArray:
        """Error of probabilities where that is an absolute one; 0 where it is relative."""
        floor = np.broadcast_to(self.noise._floor, self.target.shape)
        with np.errstate(over="ignore"):
            relative = np.exp(-np.maximum(self.log_at_least(self.threshold), _SMALLEST_LOG))
        return np.where(floor > 0, np.minimum(floor * relative, 1.0), 0.0)

    def larger(self, y: FloatArray) -> FloatArray:
        """P(published >= y), given that it is published."""
        reached = np.maximum(y, self.threshold)
        tail = np.exp(self._log_share(self.log_at_least(reached)))
        return np.where(reached > self.highest, 0.0, tail)

    def smaller(self, y: FloatArray) -> FloatArray:
        """P(published <= y), given that it is published."""
        beyond = np.where(y < self.lowest, 0.0, self.noise._logsf(y - self.target))
        tail = -np.expm1(np.minimum(self._log_share(beyond), 0.0))
        inside = np.where(np.isinf(self.threshold), self.noise._cdf(y - self.target), tail)
        return np.where(y >= self.highest, 1.0, np.where(y < self.lowest, 0.0, inside))

    def log_at_least(self, y: FloatArray) -> FloatArray:
        """Logarithm of P(clamped value >= y); by symmetry P(e >= x) = P(e <= -x)."""
        return np.where(y <= self.lowest, 0.0, self.noise._logcdf(self.target - y))

    def _log_share(self, log_probability: FloatArray) -> FloatArray:
        """Logarithm of a probability relative to that of publication; -inf where that is 0."""
        published = self.log_at_least(self.threshold)
        possible = published > -np.inf
        return np.where(possible, log_probability - np.where(possible, published, 0.0), -np.inf)


# Checks of published counts that tests and intervals share.


LARGEST_NOBS = 2.0**53  # beyond it, neighbouring whole numbers are one float64
SMALLEST_VALUE = 1e-300  # below it, the ratio of a count to its expectation overflows
_LARGEST_COUNT = 1e100  # beyond it, squares of deviations overflow


def unlabelled(value: Any, name: str, labels: pd.Index | None, of: str) -> FloatArray:
    """Return an argument as an array; its labels, if any, have to be those of the counts."""
    array, own = split_labels(value, name)
    check_order(own, labels, name, of)
    return array


def check_published(counts: FloatArray, name: str, noise: NoiseLaw) -> None:
    """Refuse a fraction where the noise takes whole numbers only, and absurd sizes."""
    check_array(counts, name, ge=-_LARGEST_COUNT, le=_LARGEST_COUNT)
    bad = integer_cells(noise, counts.size).reshape(counts.shape) & (counts != np.floor(counts))
    if bad.any():
        raise InvalidParameterError(
            f"{name} must hold whole numbers where the noise takes whole numbers only, got "
            f"{counts[bad][0]}: check that mechanism is the one that was used"
        )
    warn_of_rounding(counts, noise, name)


def common_shape(**arrays: FloatArray) -> tuple[int, ...]:
    """Return the shape, () or (m,), to which the arguments broadcast."""
    for name, array in arrays.items():
        if array.ndim > 1:
            raise InvalidParameterError(
                f"{name} must be a number or one-dimensional, got shape {array.shape}"
            )
    lengths = {array.size for array in arrays.values() if array.ndim} - {1}
    if len(lengths) > 1:
        found = ", ".join(f"{name} has {array.size}" for name, array in arrays.items())
        raise InvalidParameterError(f"arguments must have one length, or be scalars: {found}")
    return np.broadcast_shapes(*(array.shape for array in arrays.values()))
