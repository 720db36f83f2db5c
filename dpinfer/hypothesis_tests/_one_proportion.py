"""Null distributions of the z statistic of a noisy count: exact, simulated, normal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import Alternative, FloatArray, check_array, check_integer_array
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests._published import LARGEST_NOBS, check_published, unlabelled
from dpinfer.mechanisms.independent import Mechanism, as_noise
from dpinfer.mechanisms.noisy_binomial import NoisyBinomial
from dpinfer.results.labels import split_labels
from dpinfer.results.null_distribution import AsymptoticNull, ExactNull, NullDistribution
from dpinfer.results.simulation import Draw, Simulation, simulate_null

if TYPE_CHECKING:
    import pandas as pd

Method = Literal["exact", "monte-carlo", "normal"]

_SMALLEST_VALUE = 1e-300
"""Below it, the ratio of a count to its expectation overflows."""

_ROUNDING = 1e-14
"""Relative error of a count that was computed from nobs·value."""


@dataclass(frozen=True)
class OneProportion:
    """Noisy counts of successes, shape () or (m,), and their law under the null hypothesis."""

    count: FloatArray
    law: NoisyBinomial
    labels: pd.Index | None

    @classmethod
    def checked(cls, count: Any, nobs: Any, value: Any, mechanism: Mechanism) -> OneProportion:
        """Check the arguments of the test, each by itself and against the others."""
        counts, labels = split_labels(count, "count")
        trials = check_integer_array(unlabelled(nobs, "nobs", labels, "count"), "nobs", ge=1)
        check_array(trials, "nobs", le=LARGEST_NOBS)
        proportion = check_array(unlabelled(value, "value", labels, "count"), "value", gt=0, lt=1)
        check_array(proportion, "value", ge=_SMALLEST_VALUE)
        shape = _common_shape(count=counts, nobs=trials, value=proportion)
        noise = as_noise(mechanism, shape[0] if shape else 1)
        counts = np.broadcast_to(counts, np.broadcast_shapes(shape, noise.shape))
        law = NoisyBinomial(nobs=_collapse(trials), value=_collapse(proportion), noise=noise)
        check_published(counts, "count", noise)
        return cls(counts, law, labels)

    @cached_property
    def centre(self) -> FloatArray:
        """Expected count."""
        return np.asarray(self.law.nobs * self.law.value)

    @cached_property
    def spread(self) -> FloatArray:
        """Standard deviation of the count before noise was added."""
        return np.asarray(np.sqrt(self.centre * (1.0 - self.law.value)))

    @cached_property
    def statistic(self) -> FloatArray:
        """Distance from the expected count, in standard deviations before noise was added."""
        return np.asarray((self.count - self.centre) / self.spread)

    def larger(self, count: FloatArray) -> FloatArray:
        """P(T >= count); the rounding of a computed count loses no atom."""
        return self.law.upper(count, self._slack(count))

    def smaller(self, count: FloatArray) -> FloatArray:
        """P(T <= count); the rounding of a computed count loses no atom."""
        return self.law.lower(count, self._slack(count))

    def further(self, count: FloatArray) -> FloatArray:
        """P(abs(T - n·p) >= abs(count - n·p))."""
        mirrored = (self.centre - count) + self.centre
        low, high = np.minimum(count, mirrored), np.maximum(count, mirrored)
        both = np.minimum(self.larger(high) + self.smaller(low), 1.0)
        return np.where(high - low <= 2.0 * self._slack(count), 1.0, both)

    def _slack(self, count: FloatArray) -> FloatArray:
        """Error of a computed count, where whole numbers can still be told apart."""
        return np.minimum(_ROUNDING * (np.abs(count) + 2.0 * self.centre + 1.0), 0.25)


def _beyond(
    tail: Callable[[FloatArray], FloatArray], centre: FloatArray, spread: FloatArray, z: FloatArray
) -> FloatArray:
    """Tail of the count at the z statistic (no closure, so that results can be pickled)."""
    return tail(centre + z * spread)


def exact(
    test: OneProportion, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values at the counts themselves, which going through z would round."""
    tails: dict[Alternative, Callable[[FloatArray], FloatArray]] = {
        "two-sided": test.further,
        "larger": test.larger,
        "smaller": test.smaller,
    }
    null = ExactNull(
        partial(_beyond, test.larger, test.centre, test.spread),
        partial(_beyond, test.smaller, test.centre, test.spread),
    )
    return tails[alternative](test.count), null


def monte_carlo(
    test: OneProportion, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values by simulation; one simulation where all counts have one law."""
    rows = [test.law] if test.law.is_one_law else test.law.rows(test.count.size)
    null = simulate_null([_draw_z(law) for law in rows], test.statistic, simulation)
    return null.pvalue(test.statistic, alternative), null


def normal(
    test: OneProportion, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values in the limit of many trials; the variance of the noise is part of it."""
    null = AsymptoticNull.normal(np.sqrt(1.0 + test.law.noise.variance / np.square(test.spread)))
    return null.pvalue(test.statistic, alternative), null


NULLS: dict[
    Method,
    Callable[[OneProportion, Alternative, Simulation], tuple[FloatArray, NullDistribution]],
] = {"exact": exact, "monte-carlo": monte_carlo, "normal": normal}
"""The p-values and the null distribution of each method."""


def _draw_z(law: NoisyBinomial) -> Draw:
    """Return a function that draws z statistics."""
    centre = law.nobs * law.value
    spread = np.sqrt(centre * (1.0 - law.value))

    def draw(size: int, rng: np.random.Generator) -> FloatArray:
        z = law.draw(size, rng)
        z -= centre
        z /= spread
        return z

    return draw


def _common_shape(**arrays: FloatArray) -> tuple[int, ...]:
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


def _collapse(array: FloatArray) -> FloatArray:
    """Return one number where all entries are the same: the rows then share a law."""
    first: NDArray[np.float64] = np.asarray(array.flat[0])
    return first if (array == first).all() else array
