"""Null distributions of the z statistic of one noisy count: exact, simulated, normal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import Alternative, FloatArray, check_array, check_integer_array
from dpinfer.estimation.published import (
    LARGEST_NOBS,
    SMALLEST_VALUE,
    check_published,
    checked_proportion,
    common_shape,
    unlabelled,
)
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.mechanisms._noisy_count import NoisyCount
from dpinfer.mechanisms.independent import Mechanism, as_noise
from dpinfer.mechanisms.noisy_binomial import NoisyBinomial
from dpinfer.mechanisms.noisy_poisson import NoisyPoisson
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.labels import split_labels
from dpinfer.results.null_distribution import AsymptoticNull, ExactNull, NullDistribution
from dpinfer.results.simulation import BLOCK, Simulation, simulate_null

if TYPE_CHECKING:
    import pandas as pd

Method = Literal["exact", "monte-carlo", "normal"]

_BLOCK = 4 * BLOCK
"""Replicates in a block: they are cheap, as the counts are drawn all at once."""

LARGEST_RATE = 1e15
"""Beyond it, neighbouring whole numbers run together in sums."""

_ROUNDING = 1e-14
"""Relative error of a count that was computed from nobs·value."""


@dataclass(frozen=True, kw_only=True)
class OneCount:
    """Noisy counts, shape () or (m,), and their law under the null hypothesis.

    Parameters
    ----------
    count : array of float
        The published counts.
    law : NoisyCount
        Their law.
    centre, spread : array of float
        Mean and standard deviation of the counts before noise was added.
    labels : pandas.Index or None
        One label for each count.
    """

    count: FloatArray
    law: NoisyCount
    centre: FloatArray
    spread: FloatArray
    labels: pd.Index | None

    @classmethod
    def of_trials(cls, count: Any, nobs: Any, value: Any, mechanism: Mechanism) -> OneCount:
        """Check the arguments of the test of a proportion."""
        counts, labels = split_labels(count, "count")
        trials = check_integer_array(unlabelled(nobs, "nobs", labels, "count"), "nobs", ge=1)
        check_array(trials, "nobs", le=LARGEST_NOBS)
        proportion = checked_proportion(value, labels)
        counts, noise = with_noise(counts, mechanism, nobs=trials, value=proportion)
        n, p = collapse(trials), collapse(proportion)
        return cls(
            count=counts,
            law=NoisyBinomial(nobs=n, value=p, noise=noise),
            centre=np.asarray(n * p),
            spread=np.asarray(np.sqrt(n * p * (1.0 - p))),
            labels=labels,
        )

    @classmethod
    def of_events(cls, count: Any, exposure: Any, value: Any, mechanism: Mechanism) -> OneCount:
        """Check the arguments of the test of a rate."""
        counts, labels = split_labels(count, "count")
        time = check_array(unlabelled(exposure, "exposure", labels, "count"), "exposure", gt=0)
        rate = check_array(unlabelled(value, "value", labels, "count"), "value", gt=0)
        shape = common_shape(exposure=time, value=rate)
        with np.errstate(over="ignore", under="ignore"):
            expected = np.broadcast_to(time * rate, shape)
        check_array(expected, "exposure * value", ge=SMALLEST_VALUE, le=LARGEST_RATE, finite=False)
        counts, noise = with_noise(counts, mechanism, exposure=time, value=rate)
        centre = collapse(expected)
        law = NoisyPoisson(rate=centre, noise=noise)
        return cls(count=counts, law=law, centre=centre, spread=np.sqrt(centre), labels=labels)

    @cached_property
    def statistic(self) -> FloatArray:
        """Distance from the expected count, in standard deviations before noise was added."""
        return np.asarray((self.count - self.centre) / self.spread)

    def larger(self, count: FloatArray) -> FloatArray:
        """P(T >= count); the rounding of a computed count loses no atom."""
        return self.law.upper(count, self.slack(count))

    def smaller(self, count: FloatArray) -> FloatArray:
        """P(T <= count); the rounding of a computed count loses no atom."""
        return self.law.lower(count, self.slack(count))

    def further(self, count: FloatArray) -> FloatArray:
        """P(abs(T - E[T]) >= abs(count - E[T]))."""
        mirrored = (self.centre - count) + self.centre
        low, high = np.minimum(count, mirrored), np.maximum(count, mirrored)
        both = np.minimum(self.larger(high) + self.smaller(low), 1.0)
        return np.where(high - low <= 2.0 * self.slack(count), 1.0, both)

    def null(self, method: Literal["exact", "normal"]) -> NullDistribution:
        """Law of the z statistic, exact or in the limit of many counts."""
        if method == "normal":
            return AsymptoticNull.normal(
                np.sqrt(1.0 + self.law.noise.variance / np.square(self.spread))
            )
        return ExactNull(
            partial(_beyond, self.larger, self.centre, self.spread),
            partial(_beyond, self.smaller, self.centre, self.spread),
            error=self.law.noise._floor,
        )

    def slack(self, count: FloatArray) -> FloatArray:
        """Error of a computed count, where whole numbers can still be told apart."""
        return np.minimum(_ROUNDING * (np.abs(count) + 2.0 * self.centre + 1.0), 0.25)


def _beyond(
    tail: Callable[[FloatArray], FloatArray], centre: FloatArray, spread: FloatArray, z: FloatArray
) -> FloatArray:
    """Tail of the count at the z statistic (no closure, so that results can be pickled)."""
    return tail(centre + z * spread)


def exact(
    test: OneCount, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values at the counts themselves, which going through z would round."""
    tails: dict[Alternative, Callable[[FloatArray], FloatArray]] = {
        "two-sided": test.further,
        "larger": test.larger,
        "smaller": test.smaller,
    }
    return tails[alternative](test.count), test.null("exact")


def monte_carlo(
    test: OneCount, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values by simulation; one simulation where all counts have one law."""
    rows = [test.law] if test.law.is_one_law else test.law.rows(test.count.size)
    statistic, centre, spread = (
        np.broadcast_to(x, test.count.shape) for x in (test.statistic, test.centre, test.spread)
    )
    draws = [DrawZ(law, float(centre.flat[i]), float(spread.flat[i])) for i, law in enumerate(rows)]
    null = simulate_null(
        draws, np.asarray(statistic), simulation, alternative=alternative, block=_BLOCK
    )
    return null.pvalue(test.statistic, alternative), null


def normal(
    test: OneCount, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values in the limit of many trials; the variance of the noise is part of it."""
    null = test.null("normal")
    return null.pvalue(test.statistic, alternative), null


NULLS: dict[
    Method,
    Callable[[OneCount, Alternative, Simulation], tuple[FloatArray, NullDistribution]],
] = {"exact": exact, "monte-carlo": monte_carlo, "normal": normal}
"""The p-values and the null distribution of each method."""


def run(
    name: str,
    test: OneCount,
    alternative: Alternative,
    method: Method,
    simulation: Simulation,
    nobs: Any = None,
) -> HypothesisResult:
    """Test and report."""
    pvalue, null = NULLS[method](test, alternative, simulation)
    return HypothesisResult(
        name=name,
        statistic=test.statistic,
        pvalue=pvalue,
        alternative=alternative,
        method=method,
        null_distribution=null,
        uncertainty="noise+sampling",
        nobs=nobs,
        mc_error=null.mc_error(test.statistic, alternative),
        labels=test.labels,
    )


@dataclass(frozen=True, eq=False)
class DrawZ:
    """Draws z statistics of a noisy count; an object, so that other processes can be sent it."""

    law: NoisyCount
    centre: float
    spread: float

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw so many."""
        z = self.law.draw(size, rng)
        z -= self.centre
        z /= self.spread
        return z


def with_noise(
    counts: FloatArray, mechanism: Mechanism, **others: FloatArray
) -> tuple[FloatArray, NoiseLaw]:
    """Return the counts in the shape of all arguments together, and their noise."""
    shape = common_shape(count=counts, **others)
    noise = as_noise(mechanism, shape[0] if shape else 1)
    counts = np.broadcast_to(counts, np.broadcast_shapes(shape, noise.shape))
    check_published(counts, "count", noise)
    return counts, noise


def collapse(array: FloatArray) -> FloatArray:
    """Return one number where all entries are the same: the rows then share a law."""
    first: NDArray[np.float64] = np.asarray(array.flat[0])
    return first if (array == first).all() else array
